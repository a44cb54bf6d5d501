"""Arguments that several functions take: checked the same way, and said in the same words."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from inspect import Parameter, signature
from typing import Any

import numpy as np

from fastrank_eval.errors import ArgumentError, near
from fastrank_eval.typed_arguments import shown

#: What arguments that are one of a few words may be.
CHOICES = {
    "groups": ("all", "with_relevant"),
    "unretrieved": ("error", "allow"),
    "unjudged": ("error", "allow", "drop"),
    "weight_rows": ("refuse", "ignore"),
    "score_type": ("given", "float32"),
    "order": ("auto", "sorted", "grouped", "scattered"),
}

#: What counts rows must fit a signed integer of 64 bits.
_MOST = 2**63 - 1
_MOST_SPACES = 64


def column_name(part: str, given: object) -> str:
    """The name of the column that plays a part."""
    if not isinstance(given, str) or not given:
        raise ArgumentError(f"{part}={given!r} is not a column name.")
    return given


def column_names(part: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several, each once."""
    if not isinstance(given, Iterable):
        raise ArgumentError(f"{part}={given!r} is not a column name or several.")
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names:
        raise ArgumentError(f"{part} names no column.")
    for name in names:
        column_name(part, name)
        if names.count(name) > 1:
            raise ArgumentError(f"{part} names column '{name}' more than once.")
    return names


def check_flag(name: str, given: object) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(given, bool):
        raise ArgumentError(f"{name}: must be True or False, got {given!r}; pass one of them.")


def check_choice(name: str, given: object, choices: Sequence[str]) -> None:
    """Refuse what is not one of some words."""
    if not isinstance(given, str) or given not in choices:
        raise ArgumentError(
            f"{name}={given!r} is not one of {', '.join(map(repr, choices))}."
            f"{near(str(given), choices)}"
        )


def check_options(
    taker: str,
    given: Iterable[str],
    function: Callable[..., Any],
    without: Collection[str] = (),
) -> None:
    """Refuse options, and miss those that must be given, before another function does.

    Parameters
    ----------
    taker : str
        Who was called, for the message.
    given : iterable of str
        The names of the options given.
    function : callable
        What takes them, by keyword.
    without : collection of str
        Those that it takes and the one who was called does not.
    """
    given = list(given)
    known = {
        name: parameter
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY and name not in without
    }
    for name in given:
        if name not in known:
            raise ArgumentError(
                f"{taker}() takes no {name}.{near(name, list(known))} It takes {', '.join(known)}."
            )
    for name, parameter in known.items():
        if parameter.default is Parameter.empty and name not in given:
            raise ArgumentError(f"{taker}() needs {name}=...")


def at_least_one(part: str, given: Any, otherwise: Any, most: float = _MOST) -> Any:
    """A whole number of at least 1; `otherwise` where none is given."""
    if given is None:
        return otherwise
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise ArgumentError(f"{part}={given!r} is not a whole number of at least 1.")
    if given > most:
        raise ArgumentError(f"{part}: must be at most {most:,}, got {shown(given)}; pass less.")
    return int(given)


def indent_of(given: int | None) -> int | None:
    """Spaces a level of JSON, or None for one line."""
    if given is not None and not 0 <= given <= _MOST_SPACES:
        raise ArgumentError(
            f"indent: must be None or a whole number from 0 to {_MOST_SPACES}, got {shown(given)}; "
            "pass None for one line."
        )
    return given


def open_share(part: str, given: Any) -> float:
    """A number in ]0, 1[."""
    numeric = isinstance(given, int | float | np.integer | np.floating)
    if isinstance(given, bool) or not numeric or not 0 < given < 1:
        raise ArgumentError(f"{part}={given!r} is not a number between 0 and 1, both excluded.")
    return float(given)


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
