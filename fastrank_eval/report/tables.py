"""Tables of a configuration file: keys that are known, of the type they must have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastrank_eval.errors import FastRankEvalError, near

__all__ = [
    "Complaints",
    "Key",
    "TableReader",
    "choice",
    "count",
    "names",
    "names_if_any",
    "number",
    "share",
    "text",
]

_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a table.

    Parameters
    ----------
    read : callable
        Turns what TOML holds into the value, or raises ValueError with the wanted form.
    default : object
        The value where the key is left out.
    required : bool
        Whether it must not be left out.
    """

    read: Callable[[Any], Any]
    default: Any = None
    required: bool = False


@dataclass
class Complaints:
    """What is wrong with a configuration file; all of it is said at once.

    Parameters
    ----------
    file : str
        As the user calls it.
    """

    file: str
    found: list[str] = field(default_factory=list)
    #: Of which tables.
    tables: set[str] = field(default_factory=set)

    def add(self, table: str, key: str, value: object, why: str) -> None:
        """Say what is wrong with a key, or with a whole table where there is no key."""
        self.tables.add(table or key)
        place = f"[{table}]" if table else ""
        if key:
            place = f"{place} {key} = {_shown(value)}".strip()
        self.found.append(f"{self.file}: {place}: {why}")

    def unless(
        self, table: str, key: str, value: object, check: Callable[..., object], *given: object
    ) -> Any:
        """Run a check on what is given, the value by default.

        Returns
        -------
        object
            What the check does; None where it refuses, which becomes a complaint.
        """
        try:
            return check(*(given or (value,)))
        except FastRankEvalError as wrong:
            self.add(table, key, value, str(wrong))
            return None


class TableReader:
    """Reads the tables of a file one by one.

    Parameters
    ----------
    complaints : Complaints
    """

    def __init__(self, complaints: Complaints) -> None:
        self._complaints = complaints

    def table(self, name: str, given: Any, keys: Mapping[str, Key]) -> dict[str, Any]:
        """The value of every key of a table, defaults among them.

        Parameters
        ----------
        name : str
            ``""`` for the keys before the first table.
        given : object
            What TOML holds there; None for nothing.
        keys : mapping of str to Key
        """
        where = f"[{name}]" if name else "the top of the file"
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            self._complaints.add("", name, given, f"is a table; write [{name}] on a line.")
            return {key: known.default for key, known in keys.items()}
        for key, value in given.items():
            if key not in keys:
                why = f"there is no such key.{near(key, keys)} {where} takes {', '.join(keys)}."
                self._complaints.add(name, key, value, why)
        found = {}
        for key, known in keys.items():
            found[key] = known.default
            if key not in given:
                if known.required:
                    self._complaints.add(name, "", None, f"the key {key!r} is missing; add it.")
                continue
            try:
                found[key] = known.read(given[key])
            except ValueError as wanted:
                end = "" if str(wanted).endswith("?") else "."
                self._complaints.add(name, key, given[key], f"is not {wanted}{end}")
        return found


def text(value: Any) -> str:
    """Accept a text that is not empty."""
    if not _says_something(value):
        raise ValueError("a text that says something")
    return str(value)


def _says_something(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def names(value: Any) -> tuple[str, ...]:
    """Accept a text, or a list of distinct ones, at least one."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not given:
        raise ValueError("a text or a list of texts, at least one")
    for each in given:
        if not _says_something(each):
            raise ValueError(f"a text or a list of texts: {each!r} is none that says something")
        if given.count(each) > 1:
            raise ValueError(f"a list of distinct texts: {each!r} stands there twice")
    return tuple(given)


def names_if_any(value: Any) -> tuple[str, ...]:
    """Accept the same, and an empty list for none."""
    return () if value == [] else names(value)


def choice(*choices: str) -> Callable[[Any], str]:
    """Accept one of some words."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            hint = near(value, choices)
            raise ValueError(f"one of {', '.join(map(repr, choices))}{'.' if hint else ''}{hint}")
        return value

    return read


def count(least: int, most: int = 10**15) -> Callable[[Any], int]:
    """Accept a whole number."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"a whole number of at least {least}")
        if value > most:
            raise ValueError(f"a whole number of at most {most:,}")
        return value

    return read


def number(above: float) -> Callable[[Any], float]:
    """Accept a finite number above another."""

    def read(value: Any) -> float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not above < value <= sys.float_info.max:
            raise ValueError(f"a number above {above:g}")
        return float(value)

    return read


def share(value: Any) -> float:
    """Accept a number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("a number from 0 to 1")
    return float(value)


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
