"""Judge the values of a result by gates.

Correct the p-values that a gate reads, over the terms of that gate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.lexer import Number, Operation, leaves
from fastrank_eval.measures import Measure
from fastrank_eval.measures.names import COMPARISON_FIELDS
from fastrank_eval.measures.parser import find_computed, measure
from fastrank_eval.results.gates import (
    ALL,
    GROUP_FIELDS,
    Count,
    Gate,
    GateFailure,
    Term,
    Verdict,
    absent,
    comparisons_of,
    gate,
    holds,
    terms_of,
    with_hint,
)
from fastrank_eval.results.notes import unit_of
from fastrank_eval.results.report import count_text, detail_text, p_text
from fastrank_eval.stats.hypothesis_tests import adjust_p_values

#: Score column, slice and measure of a difference.
Key = tuple[str, str, str]


@dataclass(frozen=True)
class AdjustedP:
    """A p-value that is corrected over the terms of a gate.

    Parameters
    ----------
    p_value, p_adjusted : float
    family : str
        The terms, empty for one: ``"over the 5 slices of slot"``.
    in_table : float
        Corrected over all p-values of the table of results.
    table : int
        The number of these p-values; 0 if they are those of the gate.
    """

    p_value: float
    p_adjusted: float
    family: str = ""
    in_table: float = math.nan
    table: int = 0

    def text(self, limits: Iterable[float] = ()) -> str:
        """Write the p-value, the corrected one, and that of the table.

        The corrected one has all its digits if fewer would make it equal to a limit.

        Examples
        --------
        >>> AdjustedP(0.0098, 0.049, "over the 5 slices of slot", 0.079, 30).text([0.05])
        '0.0098, 0.049 over the 5 slices of slot (0.079 over the 30 of the table)'
        """
        adjusted = p_text(self.p_adjusted)
        if any(limit != self.p_adjusted and p_text(limit) == adjusted for limit in limits):
            adjusted = repr(self.p_adjusted)
        own = f"{p_text(self.p_value)}, {adjusted} {self.family}" if self.family else adjusted
        table = f" ({p_text(self.in_table)} over the {self.table:,} of the table)"
        return own + table * bool(self.table)


class PValues:
    """The p-values of a table of results.

    Parameters
    ----------
    rows : iterable of object
        Rows of differences; rows without a p-value are left out.
    correction : str
    """

    def __init__(self, rows: Iterable[object], correction: str) -> None:
        self._by: dict[Key, str | None] = {}
        self._p_values: dict[Key, tuple[float, float]] = {}
        self._correction = correction
        for row in rows:
            p_value = getattr(row, "p_value", None)
            if p_value is not None and not math.isnan(p_value):
                key = _key(row)
                self._by.setdefault(key, getattr(row, "by", None))
                self._p_values.setdefault(key, (p_value, getattr(row, "p_adjusted", math.nan)))
        self._sizes = Counter(self._by.values())

    def corrected(self, keys: Iterable[Key]) -> Mapping[Key, AdjustedP]:
        """Correct the p-values of some keys, by measure and slicing."""
        families: dict[tuple[str, str | None], list[Key]] = {}
        for key in dict.fromkeys(keys):
            if key in self._p_values:
                families.setdefault((key[2], self._by[key]), []).append(key)
        return {
            key: one
            for (_, by), members in families.items()
            for key, one in self._family(members, by)
        }

    def _family(self, members: list[Key], by: str | None) -> Iterable[tuple[Key, AdjustedP]]:
        p_values = np.array([self._p_values[key][0] for key in members], np.float64)
        adjusted = adjust_p_values(p_values, self._correction).tolist()
        text, size = _family_text(members, by), self._sizes[by]
        if self._correction != "holm" and text:
            text = f"by {self._correction} {text}"
        for key, p_adjusted in zip(members, adjusted, strict=True):
            p_value, in_table = self._p_values[key]
            if self._correction == "none":
                yield key, AdjustedP(p_value, p_adjusted)
                continue
            table = size if size > len(members) and not math.isnan(in_table) else 0
            yield key, AdjustedP(p_value, p_adjusted, text, in_table, table)


def _key(row: object) -> Key:
    score, in_slice, measure = (getattr(row, name) for name in ("score", "slice", "measure"))
    return score, in_slice, measure


def _family_text(members: list[Key], by: str | None) -> str:
    """Say which p-values are corrected together; nothing for one."""
    models, slices = (len({key[i] for key in members}) for i in range(2))
    if len(members) == 1:
        return ""
    if slices == 1:
        return f"over the {models:,} models"
    if models == 1:
        return f"over the {slices:,} slices of {by}"
    return f"over the {len(members):,} of {models:,} models in {slices:,} slices of {by}"


def judge(
    gates: Iterable[str | Gate],
    values: Iterable[Any],
    *,
    rows: int,
    groups: int,
    baseline: str | None = None,
    requested: Mapping[str, str] | None = None,
    conventions: Mapping[str, object] | None = None,
) -> Verdict:
    """Judge a result by gates.

    Parameters
    ----------
    gates : iterable of str or Gate
        At least one.
    values : iterable of record
        Values and differences. If several have the same score, slice and measure, each field is
        read from the first one that has it.
    rows, groups : int
        Numbers of rows and groups that were read.
    baseline : str, optional
        Score column that the others are compared with.
    requested : mapping of str to str, optional
        By requested name the computed measure, where a profile sets other options.
    conventions : mapping of str to object, optional
        Of the result: ``confidence`` (0.95 without it) and ``correction`` (Holm without it), and
        what errors count.

    Returns
    -------
    Verdict

    Raises
    ------
    ArgumentError
        No gate is given, or one cannot be parsed.
    """
    parsed = [one if isinstance(one, Gate) else gate(one) for one in gates]
    if not parsed:
        raise ArgumentError("no gate is given: pass a condition such as 'GAUC < 0.6'.")
    conventions = conventions or {}
    confidence = conventions.get("confidence")
    numbers: dict[str, float] = {"rows": rows, "groups": groups}
    numbers["confidence"] = confidence if isinstance(confidence, float | int) else 0.95
    table = _Table(values, numbers, baseline, requested or {}, conventions)
    outcomes = list(dict.fromkeys(outcome for each in parsed for outcome in table.outcomes(each)))
    return Verdict(
        tuple(one for one in outcomes if one.kind != _NOT_JUDGED),
        tuple(one for one in outcomes if one.kind == _NOT_JUDGED),
    )


_NOT_JUDGED = "not_judged"
#: Kinds of failures of single slices: no number stands there.
_OF_SLICES = ("no_groups", "undefined")
#: Warnings of a value or a difference without an error.
_NO_ERROR = ("no_variance", "one_group")
#: The most slices without numbers that a text names.
_MAX_NAMED = 5


class _Outcome(Exception):
    """Why a condition fails for a model and a slice, shorter in `reason`."""

    def __init__(
        self, kind: str, detail: str, reason: str = "", p_adjusted: float | None = None
    ) -> None:
        super().__init__(kind, detail)
        self.kind, self.detail, self.reason = kind, detail, reason or detail
        self.p_adjusted = p_adjusted


class _Table:
    """The rows of a result by score column, slice and measure."""

    def __init__(
        self,
        values: Iterable[Any],
        counts: Mapping[str, float],
        baseline: str | None,
        requested: Mapping[str, str],
        conventions: Mapping[str, object],
    ) -> None:
        self._rows: dict[tuple[str, str, str], list[Any]] = {}
        self._names: dict[str, str] = {}
        values = list(values)
        self._p_values = PValues(values, str(conventions.get("correction", "holm")))
        self._unit = unit_of(conventions)
        for row in values:
            self._rows.setdefault((row.score, row.slice, row.measure), []).append(row)
            self._names.setdefault(row.measure, getattr(row, "display_name", row.measure))
        self._sizes = {row.slice: getattr(row, "groups", 0) for row in reversed(values)}
        self._scores, self._slices = (
            list(dict.fromkeys(key[i] for key in self._rows)) for i in range(2)
        )
        self._counts, self._baseline, self._requested = counts, baseline, requested

    def outcomes(self, each: Gate) -> Iterator[GateFailure]:
        """Yield the failures of a gate, and what it did not judge."""
        missing = [failure for term in each.terms for failure in self._missing(term)]
        yield from (GateFailure(str(each), kind, None, None, detail) for kind, detail in missing)
        if missing:
            return
        scores: list[str | None] = [None]
        if any(term.score is None for term in each.terms):
            compares = any(t.score is None and t.field in COMPARISON_FIELDS for t in each.terms)
            scores = [s for s in self._scores if not (compares and s == self._baseline)]
            if not scores:
                yield GateFailure(
                    str(each), "no_baseline", None, None, "there is no model but the baseline"
                )
        slices: list[str | None] = [None]
        if any(term.slice is None for term in each.terms):
            slices = [label for label in self._slices if label != ALL]
        p_values = self._p_values.corrected(self._p_keys(each, scores, slices))
        left_out: dict[str | None, dict[str | None, _Outcome]] = {score: {} for score in scores}
        for label, score in product(slices, scores):
            outcome = self._judge(each.condition, score, label, p_values)
            if outcome is None:
                continue
            if label is not None and outcome.kind in _OF_SLICES:
                left_out[score][label] = outcome
            else:
                yield GateFailure(
                    str(each), outcome.kind, score, label, outcome.detail,
                    p_adjusted=outcome.p_adjusted,
                )  # fmt: skip
        for score, of_score in left_out.items():
            largest_first = sorted(of_score, key=lambda label: -self._sizes[str(label)])
            left_out[score] = {label: of_score[label] for label in largest_first}
        for score in [score for score in scores if len(left_out[score]) == len(slices)]:
            of_score = left_out.pop(score)
            text = f"no slice has its numbers: {_list_slices({score: of_score}, len(slices), 1)}"
            kind = next(iter(of_score.values())).kind
            yield GateFailure(str(each), kind, score, None, text)
        if any(left_out.values()):
            text = f"not judged: {_list_slices(left_out, len(slices), len(scores))}"
            yield GateFailure(str(each), _NOT_JUDGED, None, None, text)

    def _p_keys(
        self, each: Gate, scores: Sequence[str | None], slices: Sequence[str | None]
    ) -> Iterator[Key]:
        """Yield the differences whose corrected p-values a gate reads."""
        for term in each.terms:
            if term.field == "p_adjusted":
                models = scores if term.score is None else [term.score]
                labels = slices if term.slice is None else [term.slice]
                text = str(self._computed(term))
                yield from ((str(model), str(one), text) for one in labels for model in models)

    def _computed(self, term: Term) -> Measure | None:
        return find_computed(measure(term.measure), self._names, self._requested)

    def _missing(self, term: Term) -> Iterator[tuple[str, str]]:
        """Yield kind and detail of parts that are missing in all rows."""
        if not self._rows:
            yield "undefined", "the result has no values"
            return
        yield from absent(term, self._names, self._scores, self._requested)
        if term.slice is None and set(self._slices) <= {ALL}:
            yield "unknown_slice", "the result has no slices"
        elif term.slice is not None and term.slice not in self._slices:
            text = f"the result has no slice {term.slice!r}"
            values = [name for name in self._slices if name.endswith(f"={term.slice}")]
            hint = f"{text}. Did you mean {values[0]!r}?" if values else ""
            yield "unknown_slice", hint or with_hint(text, term.slice, self._slices)

    def _judge(
        self,
        condition: Operation,
        score: str | None,
        label: str | None,
        p_values: Mapping[Key, AdjustedP],
    ) -> _Outcome | None:
        """Return why a condition fails for a model and a slice, or None."""
        numbers: dict[Term | Count, float] = {}
        adjusted: dict[Term | Count, AdjustedP] = {}
        try:
            for term in terms_of(condition):
                if isinstance(term, Count):
                    numbers[term] = self._count(term)
                    continue
                model = str(score if term.score is None else term.score)
                in_slice = str(label if term.slice is None else term.slice)
                p_value = None
                if term.field == "p_adjusted":
                    p_value = p_values.get((model, in_slice, str(self._computed(term))))
                numbers[term] = self._number(term, model, in_slice, p_value)
                if p_value is not None:
                    adjusted[term] = p_value
            if not holds(condition, numbers):
                return None
            p_adjusted = next((one.p_adjusted for one in adjusted.values()), None)
            text = _format(condition, numbers, adjusted)
            return _Outcome("holds", text, p_adjusted=p_adjusted)
        except _Outcome as missing:
            outcome = missing
        except ArithmeticError as undefined:
            outcome = _Outcome("undefined", str(undefined))
        if label is not None and condition.operator == "or":
            # What holds in a slice holds also if another alternative lacks a number there.
            parts = (self._judge(part, score, label, p_values) for part in condition.parts)
            return next((part for part in parts if part and part.kind == "holds"), outcome)
        return outcome

    def _count(self, count: Count) -> float:
        number = self._counts[count.of]
        if count.of == "groups":
            self._require_groups()
        if not number:
            raise _Outcome("no_groups", f"there are no {count.of}")
        return float(number)

    def _number(self, term: Term, score: str, label: str, p_value: AdjustedP | None) -> float:
        text = str(self._computed(term))
        name = term.name or text
        rows = self._rows.get((score, label, text))
        if rows is None:
            detail = f"there is no {name} of {score!r} for {label!r}"
            raise _Outcome("undefined", detail, f"no {name}")
        title = name if label == ALL else f"{name}[{label}]"
        if term.field in GROUP_FIELDS:
            self._require_groups()
        ungrouped = self._counts["rows"] and not self._counts["groups"]
        # Under [*] a number of groups is 0 where no group is used: gates on silence read it.
        counts_groups = term.slice is None and term.field in GROUP_FIELDS
        if not ungrouped and not counts_groups and any(_lacks_groups(row) for row in rows):
            detail = f"no group stands behind {title}{_reasons(rows)}"
            raise _Outcome("no_groups", detail, _short_reason(rows, "no group"))
        number = next(
            (n for n in (field_of(row, term.field) for row in rows) if n is not None), None
        )
        if term.field == "p_adjusted" and number is not None:
            number = math.nan if p_value is None else p_value.p_adjusted
        if number is None and term.field in COMPARISON_FIELDS and self._baseline in (None, score):
            reason = "there is no baseline" if self._baseline is None else "it is the baseline"
            raise _Outcome("no_baseline", f"{title} has no {term.field}: {reason}")
        if number is None or not math.isfinite(number):
            detail = f"cannot be judged: {term.field} of {title} is undefined{_reasons(rows)}"
            if any(getattr(row, "warning", None) in _NO_ERROR for row in rows):
                other = "delta" if term.field in COMPARISON_FIELDS else "value"
                detail += f": gate on {other}, which has a number, or evaluate more {self._unit}s"
            raise _Outcome("undefined", detail, _short_reason(rows, f"no {term.field}"))
        return number

    def _require_groups(self) -> None:
        if self._counts["rows"] and not self._counts["groups"]:
            raise _Outcome(
                "no_groups",
                "rows were not grouped, because no measure needs groups: evaluate with group=... "
                "and keep='values'",
            )


def _lacks_groups(row: object) -> bool:
    """Return whether a value needs groups and has none."""
    ungrouped = getattr(row, "groups", None) == 0 and math.isfinite(getattr(row, "value", math.nan))
    return getattr(row, "groups_used", None) == 0 and not ungrouped


def field_of(row: Any, field: str) -> float | None:
    """Return the number of a row that a gate reads; None without one."""
    if field == "dropped_share":
        groups, used = getattr(row, "groups", None), getattr(row, "groups_used", None)
        return (groups - used) / groups if groups and used is not None else None
    if field.startswith("delta_") and hasattr(row, "delta"):
        field = field.removeprefix("delta_")
    number = getattr(row, field, None)
    return None if number is None else float(number)


def _reasons(rows: Iterable[Any]) -> str:
    """List why groups of rows are left out, and their warnings."""
    reasons: list[str] = []
    for row in rows:
        dropped = getattr(row, "dropped", None) or {}
        reasons += [f"{count} {reason}" for reason, count in dropped.items() if count]
        warning = getattr(row, "warning", None)
        if warning:
            reasons.append("has no standard error" if warning == "pooled" else str(warning))
    return f" ({', '.join(dict.fromkeys(reasons))})" if reasons else ""


def _short_reason(rows: Iterable[Any], default: str) -> str:
    """Say in a word or two why a slice has no number."""
    warnings = [getattr(row, "warning", None) or "" for row in rows]
    named = [one for one in warnings if one not in ("", "few_groups", "undefined")]
    dropped = [
        reason
        for row in rows
        for reason, count in (getattr(row, "dropped", None) or {}).items()
        if count
    ]
    lacks = any(map(_lacks_groups, rows)) or not named
    return ", ".join(dict.fromkeys((dropped if lacks else named) or named)) or default


def _list_slices(
    left_out: Mapping[str | None, Mapping[str | None, _Outcome]], slices: int, models: int
) -> str:
    """Name slices that are not judged, with their reasons, and count them.

    Examples
    --------
    >>> outcome = _Outcome("no_groups", "no group stands behind GAUC", "all_negative")
    >>> _list_slices({"new": {"country=US": outcome}}, 7, 1)
    'country=US (all_negative), 1 of 7 slices'
    """
    by_reason: dict[str, list[str]] = {}
    of_models: dict[tuple[str | None, str], list[str | None]] = {}
    for score, of_score in left_out.items():
        for label, outcome in of_score.items():
            of_models.setdefault((label, outcome.reason), []).append(score)
    named = len({label for label, _ in of_models})
    for (label, reason), scores in list(of_models.items())[:_MAX_NAMED]:
        of_text = "" if len(scores) == models else f" of {', '.join(map(str, scores))}"
        by_reason.setdefault(reason, []).append(f"{label}{of_text}")
    texts = [f"{', '.join(labels)} ({reason})" for reason, labels in by_reason.items()]
    remaining = len(of_models) - _MAX_NAMED
    if remaining > 0:
        texts.append(f"{remaining:,} more")
    return f"{', '.join(texts)}, {named:,} of {count_text(slices, 'slice')}"


def _format(
    condition: Operation,
    numbers: Mapping[Term | Count, float],
    adjusted: Mapping[Term | Count, AdjustedP],
) -> str:
    """Format numbers, with all digits if fewer would make them equal."""
    compared = {n.value if isinstance(n, Number) else numbers[n] for n in leaves(condition)}
    rounded = set(map(detail_text, compared))
    to_text = repr if len(rounded) < len(compared) else detail_text
    limits = {
        float(holds(side, numbers))
        for each in comparisons_of(condition)
        if not adjusted.keys().isdisjoint(each.parts)
        for side in each.parts
        if side not in adjusted
    }
    texts = {
        term: adjusted[term].text(limits) if term in adjusted else to_text(number)
        for term, number in numbers.items()
        if term != _CONFIDENCE or len(numbers) == 1
    }
    if len(texts) == 1:
        ((only, text),) = texts.items()
        return f"p {text}" if only in adjusted else text
    terms = [term for term in texts if isinstance(term, Term)]
    # Several fields of one value need its name once: the condition has it.
    of_one_value = len({(term.score, term.measure, term.slice) for term in terms}) == 1 < len(terms)

    def name(term: Term | Count) -> str:
        shown = term.field if isinstance(term, Term) and of_one_value else str(term)
        return shown.removesuffix("_adjusted") if term in adjusted else shown

    return ", ".join(f"{name(term)} {text}" for term, text in texts.items())


_CONFIDENCE = Count("confidence")
