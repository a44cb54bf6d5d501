"""Describe the gates of a night as text, the worst failures first."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from fastrank_eval._lib.errors import FastRankEvalError
from fastrank_eval._lib.lexer import COMPARISONS, Number, Operation
from fastrank_eval.apps.nightly.night import (
    FAILS_SO_FAR,
    NO_LABELS_LEFT,
    NO_ROWS,
    GateOutcome,
    Night,
)
from fastrank_eval.apps.nightly.text import STATUSES, VerdictText, confidence_of
from fastrank_eval.measures.names import COMPARISON_FIELDS
from fastrank_eval.results.format import count_text, percent_text
from fastrank_eval.results.gate_judge import field_of
from fastrank_eval.results.gate_parser import (
    ALL,
    Count,
    Term,
    comparisons_of,
    holds,
    terms_of,
)
from fastrank_eval.results.gates import Gate, GateFailure, gate

_OPERATORS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "=": operator.eq, "!=": operator.ne,
}  # fmt: skip

#: Limits of drift, and the names of the numbers that they limit.
_DRIFTS = {"max_volume_drift": "rows", "max_ctr_drift": "CTR"}
#: What the reason of a gate that was not judged begins with.
NOT_JUDGED = "not judged"


def meaning(night: Night) -> str:
    """Explain the status of a night, and list what was not judged."""
    text = STATUSES[night.status].meaning
    if night.status != "fine":
        return text
    unjudged = not_judged(night)
    if unjudged:
        return f"Nothing that was judged failed. Not judged: {'; '.join(unjudged)}."
    return text if night.gates else "No gate is set; the data are within their limits."


def not_judged(night: Night) -> list[str]:
    """List drift and gates that lack earlier nights.

    Empty for a night without rows: its first sentence says so.
    """
    if not night.quality.rows:
        return []
    limit_names = night.conventions.get("quality", _DRIFTS)
    quality = night.quality
    drifts = zip(_DRIFTS, (quality.volume_drift, quality.ctr_drift), strict=True)
    unjudged = [_DRIFTS[limit] for limit, z in drifts if limit in limit_names and math.isnan(z)]
    drift = [f"drift of {' and '.join(unjudged)}, with too few nights before"] if unjudged else []
    gates = [each for each in night.gates if each.passed and each.reason.startswith(NOT_JUDGED)]
    reasons = (each.reason.removeprefix(NOT_JUDGED).removeprefix(":") for each in gates)
    return [
        *([] if night.has_labels else ["every measure, as the night has no labels yet"]),
        *drift,
        *(f"{each.text},{reason}" for each, reason in zip(gates, reasons, strict=True)),
    ]


def reads_measures(outcome: GateOutcome) -> bool:
    """Return whether a gate reads more than the number of rows or groups.

    Examples
    --------
    >>> [reads_measures(GateOutcome(text, True)) for text in ("GAUC < 0.6", "rows < 1000")]
    [True, False]
    """
    return bool(gate(outcome.condition).terms)


def outcome_of(outcome: GateOutcome) -> VerdictText:
    """Return the outcome of a gate in a word.

    Examples
    --------
    >>> outcome_of(GateOutcome("GAUC < 0.6", False, "0.5931"))
    VerdictText(word='failed', tone='bad')
    """
    if outcome.reason in (NO_ROWS, NO_LABELS_LEFT) or (
        outcome.passed and outcome.reason.startswith(f"{NOT_JUDGED}:")
    ):
        return VerdictText("not judged", "unknown")
    if outcome.passed and outcome.reason.startswith(FAILS_SO_FAR):
        return VerdictText("fails so far", "shift")
    return VerdictText("passed", "good") if outcome.passed else VerdictText("failed", "bad")


def gate_texts(night: Night) -> list[str]:
    """Return the conditions of failed gates with their numbers.

    Empty for a night without rows: its first sentence says so. Where a corrected p-value may have
    failed one, the last text says how often this happens without a difference.
    """
    failed = [each for each in night.gates if not each.passed and night.quality.rows]
    by_p_value = any(_false_alarms(each, night) for each in failed)
    return [
        *(f"gate failed: {each.text}" + f": {each.reason}" * bool(each.reason) for each in failed),
        *([false_alarms(night)] if by_p_value else []),
    ]


def false_alarms(night: Night) -> str:
    """Say how often gates by corrected p-values fail without a difference.

    Each gate has a share of its own for each of its measures, with ``[*]`` for each slicing too.
    Empty without such a gate.
    """
    gates = [shares for each in night.gates if (shares := _false_alarms(each, night))]
    if not gates:
        return ""
    shares = [share for of_gate in gates for share in of_gate]
    total = percent_text(min(sum(shares), 1.0), 3)
    if len(shares) > 1 and len(set(shares)) == 1:
        total = f"{len(shares)} × {percent_text(shares[0], 3)} = {total}"
    what = "corrected p-values"
    if len(shares) > len(gates):
        what = f"{len(shares)} families of {what}, one for each measure and slicing of a gate"
    return (
        f"{count_text(len(gates), 'gate')} with {what}: at most {total} of the nights without any "
        "difference fail by them."
    )


def _false_alarms(outcome: GateOutcome, night: Night) -> list[float]:
    """Bound the shares of nights that fail without a difference."""
    try:
        condition = gate(outcome.condition).condition
    except FastRankEvalError:  # an alarm or drift, or a gate of another version
        return []
    shares: dict[tuple[str, str | None], float] = {}
    slicings = {value.slice: value.by for value in night.values}
    confidence: dict[Term | Count, float] = {Count("confidence"): confidence_of(night)}
    for each in comparisons_of(condition):
        for term, compare, other in sides(each):
            by_p = isinstance(term, Term) and term.field == "p_adjusted" and compare in ("<", "<=")
            if by_p and confidence.keys() >= set(terms_of(other)):
                every = set(slicings.values()) - {None} if term.slice is None else None
                measure, share = str(night.find(term.measure)), holds(other, confidence)
                for by in every or {slicings.get(term.slice or ALL)}:
                    shares[measure, by] = max(share, shares.get((measure, by), 0.0))
    return [share for share in shares.values() if share > 0]


def worst_first(
    failures: Sequence[GateFailure], parsed: Gate, night: Night, kind: str
) -> tuple[GateFailure, ...]:
    """Sort the failures of a gate: all rows, then slices, the worst first.

    Parameters
    ----------
    failures : sequence of GateFailure
    parsed : Gate
    night : Night
        With its differences.
    kind : str
        The kind of the differences in the condition.

    Returns
    -------
    tuple of GateFailure
        By the size of the difference, if the condition reads one, or by the distance from its
        limit.
    """
    if len(failures) < 2:
        return tuple(failures)
    compares = any(term.field in COMPARISON_FIELDS for term in parsed.terms)
    pairs = _differences(parsed, night, kind) if compares else _distances(parsed, night)
    sizes: dict[tuple[str, str], float] = {}
    for key, size in pairs:
        sizes[key] = max(size, sizes.get(key, 0.0))  # the worst of several measures counts
    # A gate on slices and all rows also fails on all rows: one failure of each model is first.
    on_all_rows = any(term.slice == ALL for term in parsed.terms)
    first = {one.score: one for one in reversed(failures)} if on_all_rows else {}
    return tuple(
        sorted(
            failures,
            key=lambda one: (
                one is not first.get(one.score),
                -sizes.get((one.score or "", one.slice or ALL), 0.0),
            ),
        )
    )


def _differences(parsed: Gate, night: Night, kind: str) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield the sizes of the differences for the worse, by model and slice."""
    measures = {str(night.find(term.measure)) for term in parsed.terms}
    values = {(v.score, v.slice, v.measure): v.value for v in night.values}
    for one in night.compared:
        if one.kind == kind and one.measure in measures and one.verdict == "worse":
            value = values.get((one.score, one.slice, one.measure), math.nan)
            smallest = smallest_difference(one.ci_low, one.ci_high)
            size = share_of_larger(smallest, value, value - one.delta)
            yield (one.score, one.slice), size


def _distances(parsed: Gate, night: Night) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield the distances of numbers from limits that they violate."""
    for term, compare, limit in _limits(parsed.condition):
        measure = str(night.find(term.measure))
        for value in night.values:
            number = field_of(value, term.field)
            if (
                number is not None
                and value.measure == measure
                and term.score in (None, value.score)
                and term.slice in (None, value.slice)
                and _OPERATORS[compare](number, limit)
            ):
                score = value.score if term.score is None else ""
                key = score, value.slice if term.slice is None else ALL
                yield key, share_of_larger(abs(number - limit), number, limit)


def _limits(condition: Operation) -> Iterator[tuple[Term, str, float]]:
    """Yield the comparisons of one number with a constant."""
    if condition.operator in COMPARISONS:
        for term, compare, other in sides(condition):
            limit = constant(other)
            if isinstance(term, Term) and limit is not None:
                yield term, compare, limit
    elif condition.operator in ("and", "or"):
        for part in condition.parts:
            yield from _limits(part)


def sides(comparison: Operation) -> Iterator[tuple[Any, str, Any]]:
    """Yield each side of a comparison with its operator and the other side."""
    left, right = comparison.parts
    yield left, comparison.operator, right
    yield right, COMPARISONS[comparison.operator], left


def constant(quantity: object) -> float | None:
    """Return the number of a part of a condition; None if it reads any."""
    if isinstance(quantity, Number):
        return quantity.value
    if isinstance(quantity, Operation) and quantity.operator == "-" and len(quantity.parts) == 1:
        inner = constant(quantity.parts[0])
        return None if inner is None else -inner
    return None


def smallest_difference(low: float, high: float) -> float:
    """Return the smallest absolute difference in an interval."""
    finite = math.isfinite(low) and math.isfinite(high)
    return min(abs(low), abs(high)) if finite and not low < 0 < high else 0.0


def share_of_larger(difference: float, value: float, base: float) -> float:
    """Return a difference as a share of the larger of two values; else 0."""
    largest = max(abs(value), abs(base))
    return difference / largest if largest > 0 and math.isfinite(difference / largest) else 0.0
