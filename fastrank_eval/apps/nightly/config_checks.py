"""Check the configuration."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, near
from fastrank_eval.apps.nightly.dates import check_dated, dated, dates_in, names_date
from fastrank_eval.apps.nightly.gates import ComparedRow
from fastrank_eval.apps.nightly.night import NightValue
from fastrank_eval.engine.conventions import (
    DEFAULTS,
    measures_in_force,
    profile_of,
    requested_names,
    undefined_policies,
)
from fastrank_eval.measures.likelihood import sampling_rate_of
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.results.gate_parser import ALL, COMPARISON_FIELDS, Term, terms_of
from fastrank_eval.results.gates import Gate, gate
from fastrank_eval.slicing.parser import requested_slicing

__all__ = [
    "ConfigErrors",
    "Key",
    "TableReader",
    "check_gate",
    "check_together",
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
class ConfigErrors:
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

    def __init__(self, complaints: ConfigErrors) -> None:
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


#: What a night knows of a value and of a difference.
_KNOWN = {
    *(field.name for field in fields(NightValue)),
    *(field.name for field in fields(ComparedRow)),
    "dropped_share",
}
_QUOTED = r'"(?:[^"]|"")*"'
#: A part of a slice's label: the name, the sign, the value or bin.
_PART = re.compile(rf'((?:{_QUOTED}|[^"<>=,])+)(?:<|>=|=)(?:{_QUOTED}|\[[^)]*\)|[^,"])*')


def check_gate(each: Gate, key: str, baseline: str | None, by: Sequence[str]) -> None:
    """Refuse a gate on what no night of a report can have.

    Parameters
    ----------
    each : Gate
    key : str
        Of ``[gates]``.
    baseline : str or None
    by : sequence of str
        Slicings, each of which can be read.

    Raises
    ------
    ArgumentError
        It asks for a difference from a baseline that there is not, for a field that a nightly
        report does not keep, or for a slice that no slicing gives.
    """
    slicings = (
        [tuple(part.name for part in spec.columns) for spec in requested_slicing(by)] if by else []
    )
    for term in terms_of(each.condition):
        if not isinstance(term, Term):
            continue
        if term.field not in _KNOWN:
            raise ArgumentError(
                f"a nightly report does not keep {term.field}; ask 'fastrank-eval compare' or "
                "'fastrank-eval evaluate' for it."
            )
        if key == "fail_if" and term.field in COMPARISON_FIELDS:
            _check_compared(term, baseline)
        if term.slice != ALL:
            _check_slice(term, slicings, by)


def _check_compared(term: Term, baseline: str | None) -> None:
    if baseline is None:
        raise ArgumentError(
            f"{term.field} is a difference from a baseline, and there is none: name one in "
            "[models]; for differences from earlier nights write the gate in fail_if_yesterday or "
            "fail_if_last_week."
        )
    if term.score == baseline:
        raise ArgumentError(
            f"{term.field} is a difference from the baseline, which {baseline!r} is itself; name "
            "another model, or leave it out for each of them."
        )


def _check_slice(term: Term, slicings: Sequence[tuple[str, ...]], by: Sequence[str]) -> None:
    if not by:
        shown = "[*]" if term.slice is None else repr(term.slice)
        raise ArgumentError(f"there are no slices, such as {shown}; add the column to [slices] by.")
    if term.slice is None:
        return
    named = tuple(found[1] for found in _PART.finditer(term.slice))
    if named not in slicings:
        raise ArgumentError(
            f"no slicing of [slices] gives a slice {term.slice!r}; rows are cut by "
            f"{' and by '.join(map(repr, by))}."
        )


def check_together(given: dict[str, dict[str, Any]], complaints: ConfigErrors) -> None:
    """Complain of what could fail later, of tables that are right in themselves.

    Parameters
    ----------
    given : dict of str to dict
        The keys of each table.
    complaints : Complaints
        What is wrong with single keys already.
    """
    wrong = frozenset(complaints.tables)
    if "source" not in wrong:
        _check_source(given["source"], complaints)
    if "models" not in wrong:
        _check_models(given["models"], complaints)
    if not wrong & {"models", "columns"}:
        _check_columns(given["columns"], given["models"]["scores"], complaints)
    if not wrong & {"evaluate", "columns"}:
        _check_options(given, complaints)
    scores = given["models"]["scores"]
    require = None
    if "evaluate" not in wrong:
        columns = None if "columns" in wrong else given["columns"]
        require = _check_measures(given["evaluate"], columns, scores, complaints)
    _check_gates(given, wrong, require if "models" not in wrong else None, complaints)


def _check_gates(
    given: dict[str, dict[str, Any]],
    wrong: frozenset[str],
    require: Callable[[Gate], None] | None,
    complaints: ConfigErrors,
) -> None:
    from fastrank_eval.slicing.parser import requested_slicing

    by, baseline = given["slices"]["by"], given["models"]["baseline"]
    cut = [complaints.unless("slices", "by", spec, requested_slicing) for spec in by]
    judged = None not in cut and "slices" not in wrong
    for key, texts in given["gates"].items():
        for condition in texts if isinstance(texts, tuple) else ():
            found = complaints.unless("gates", key, condition, gate)
            if found is None or require is None or not judged:
                continue
            before = len(complaints.found)
            complaints.unless("gates", key, condition, require, found)
            if len(complaints.found) == before:
                complaints.unless("gates", key, condition, check_gate, found, key, baseline, by)


def _check_source(source: dict[str, Any], complaints: ConfigErrors) -> None:
    texts = [("path", path) for path in source["path"]]
    texts += [("where", source["where"])] if source["where"] else []
    failed = len(complaints.found)
    for key, value in texts:
        complaints.unless("source", key, value, check_dated)
    if len(complaints.found) > failed:
        return
    if source["where"]:
        from fastrank_eval.io.filters import condition_of

        sample = dated(source["where"], dt.date(2026, 11, 19))
        complaints.unless("source", "where", source["where"], condition_of, sample)
    same = [braces for _, value in texts for braces in dates_in(value)]
    told = "every night would read the same rows"
    if same:
        told = f"several nights would read the same rows, as {same[0]} is the same for them"
    if not any(names_date(value) for _, value in texts):
        complaints.add(
            "source", "path", list(source["path"]),
            told + "; write {date} where the night's date stands, "
            "as in 'logs/day={date}/*.parquet', or in where: \"day = '{date}'\".",
        )  # fmt: skip


def _check_models(models: dict[str, Any], complaints: ConfigErrors) -> None:
    scores, baseline = models["scores"], models["baseline"]
    if baseline is not None and baseline not in scores:
        why = f"is none of the models {', '.join(map(repr, scores))}.{near(baseline, scores)}"
        complaints.add("models", "baseline", baseline, why)
    elif baseline is not None and len(scores) < 2:
        why = "there is no other model to compare with it; add one to scores, or leave it out."
        complaints.add("models", "baseline", baseline, why)


def _check_columns(
    columns: dict[str, Any], scores: tuple[str, ...], complaints: ConfigErrors
) -> None:
    for part in ("label", "weight"):
        if columns[part] in scores:
            why = "is a model too, whose scores it cannot be judged by; name another column."
            complaints.add("columns", part, columns[part], why)


def _check_options(given: dict[str, dict[str, Any]], complaints: ConfigErrors) -> None:
    options = given["evaluate"]
    confidence = options["confidence"]
    if confidence >= 1:
        complaints.add("evaluate", "confidence", confidence, "is not below 1; write 0.95.")
    if options["ties"] == "item" and given["columns"]["item"] is None:
        why = "needs the column of item ids; add item to [columns]."
        complaints.add("evaluate", "ties", "item", why)
    undefined = options["undefined"]
    if undefined is not None:
        complaints.unless("evaluate", "undefined", undefined, undefined_policies)
    if options["memory"] is not None:
        from fastrank_eval._lib.memory import parse_memory

        complaints.unless("evaluate", "memory", options["memory"], parse_memory)


def _check_measures(
    options: dict[str, Any],
    columns: dict[str, Any] | None,
    scores: tuple[str, ...],
    complaints: ConfigErrors,
) -> Callable[[Gate], None] | None:
    """What refuses gates on what is not going to be computed; None if measures are wrong."""
    failed = len(complaints.found)
    for each in options["measures"]:
        complaints.unless("evaluate", "measures", each, requested_measures)
    profile, rate = options["profile"], options["sampling_rate"]
    if rate is not None:
        complaints.unless("evaluate", "sampling_rate", rate, sampling_rate_of)
    chosen = None
    if profile is not None:
        chosen = complaints.unless("evaluate", "profile", profile, profile_of)
    if len(complaints.found) > failed:
        return None
    requested = requested_measures(list(options["measures"]))
    measured = measures_in_force(requested, chosen, sampling_rate_of(rate))
    chosen_or_default = DEFAULTS if chosen is None else {**DEFAULTS, **chosen.choices}
    force = {name: options[name] or chosen_or_default[name] for name in ("ties", "weight_rows")}
    refuses_weights = columns is not None and columns["weight"] is not None
    refuses_weights = refuses_weights and force["weight_rows"] == "refuse"
    for m in measured:
        refusal = m.refuses(force["ties"])
        if refusal:
            complaints.add("evaluate", "measures", str(m), f"{refusal}.")
        if refuses_weights and not m.uses_row_weights:
            why = "is of rank positions, which weights of rows have no meaning for; leave it out, "
            why += "leave weight out of [columns], or write weight_rows = 'ignore'."
            complaints.add("evaluate", "measures", str(m), why)
        if columns is not None and m.needs_subtopics and columns["subtopics"] is None:
            why = "needs the column of subtopics; add subtopics to [columns]."
            complaints.add("evaluate", "measures", str(m), why)
    if len(complaints.found) > failed:
        return None
    texts, renamed = [str(m) for m in measured], requested_names(requested, measured)

    def require(each: Gate) -> None:
        each.require(texts, scores, renamed)

    return require
