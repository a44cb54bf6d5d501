"""Judge the gates of a night."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fastrank_eval.apps.nightly.compare_nights import EarlierNight
from fastrank_eval.apps.nightly.night import EARLIER, GateOutcome, GateTexts, Night
from fastrank_eval.measures.parser import find_computed, measure
from fastrank_eval.results.gate_parser import COMPARISON_FIELDS, Term, terms_of
from fastrank_eval.results.gates import Gate, GateFailure, GateRow, gate, judge

__all__ = ["ComparedRow", "JudgedGate", "comparison_rows", "gate_outcomes"]


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A difference, by the names that gates know; see `gate_tree.COMPARISON_FIELDS`."""

    score: str
    slice: str
    measure: str
    delta: float
    delta_se: float
    delta_ci_low: float
    delta_ci_high: float
    relative: float
    p_value: float
    p_adjusted: float


def comparison_rows(night: Night, kind: str) -> Iterator[ComparedRow]:
    """The differences of one kind."""
    for line in night.compared:
        if line.kind == kind:
            yield ComparedRow(
                line.score, line.slice, line.measure, line.delta, line.se, line.ci_low,
                line.ci_high, line.relative, line.p_value, line.p_adjusted,
            )  # fmt: skip


_MOST_NAMED = 5


@dataclass(frozen=True)
class JudgedGate:
    """What a gate said, and of what.

    Parameters
    ----------
    outcome : GateOutcome
    kind : str
        Of the differences that it is on.
    failures : tuple of GateFailure
        Where it failed.
    """

    outcome: GateOutcome
    kind: str
    failures: tuple[GateFailure, ...] = ()


def gate_outcomes(
    night: Night,
    gates: GateTexts,
    requested: Mapping[str, str],
    earlier: Mapping[str, EarlierNight],
) -> list[JudgedGate]:
    """Judge a night.

    Parameters
    ----------
    night : Night
        With its differences.
    gates : GateTexts
    asked : mapping of str to str
        What measures were called whose text is another.
    earlier : mapping of str to EarlierNight
        By kind of difference. A gate is not judged by a night that there is not, nor for models,
        slices and measures that it has not.

    Returns
    -------
    list of JudgedGate
    """
    outcomes = []
    for text in gates.fail_if:
        failures = _failures(text, night, "baseline", requested)
        outcome = GateOutcome(text, not failures, _reasons(failures))
        outcomes.append(JudgedGate(outcome, "baseline", tuple(failures)))
    for kind, days in EARLIER.items():
        before, date = earlier[kind], night.date - dt.timedelta(days=days)
        texts = gates.fail_if_yesterday if kind == "yesterday" else gates.fail_if_last_week
        for text in texts:
            told = f"{text} (since {kind.replace('_', ' ')})"
            if before.night is None:
                outcome = GateOutcome(told, True, f"not judged: {before.why}")
                outcomes.append(JudgedGate(outcome, kind))
            else:
                failures = _failures(text, night, kind, requested)
                outcome = _since(told, gate(text), failures, night, before.night, requested, date)
                known = tuple(one for one in failures if one.kind != "no_baseline")
                outcomes.append(JudgedGate(outcome, kind, known))
    return outcomes


def _failures(
    text: str, night: Night, kind: str, requested: Mapping[str, str]
) -> list[GateFailure]:
    lines: list[GateRow] = [*night.values, *comparison_rows(night, kind)]
    verdict = judge(
        [text], lines, rows=night.quality.rows, groups=night.quality.groups,
        baseline=night.baseline if kind == "baseline" else None, requested=requested,
    )  # fmt: skip
    return list(verdict.failures)


def _since(
    told: str,
    each: Gate,
    failures: Iterable[GateFailure],
    night: Night,
    before: Night,
    requested: Mapping[str, str],
    date: dt.date,
) -> GateOutcome:
    # Where a value has no difference, the earlier night has no value to differ from.
    failed = [failure for failure in failures if failure.kind != "no_baseline"]
    apart = [failure for failure in failures if failure.kind == "no_baseline"]
    if not apart:
        return GateOutcome(told, not failed, _reasons(failed))
    names = list(
        dict.fromkeys(name for one in apart for name in _new(each, one, before, requested))
    )
    left = len(names) - _MOST_NAMED
    shown = ", ".join([*names[:_MOST_NAMED], *([f"{left} more"] if left > 0 else [])])
    part = "" if len(apart) >= _places(each, night) else " in part"
    why = f"not judged{part}: {date} has no {shown}"
    return GateOutcome(told, not failed, "; ".join(filter(None, [_reasons(failed), why])))


def _new(
    each: Gate, failure: GateFailure, before: Night, requested: Mapping[str, str]
) -> Iterator[str]:
    """What of a gate an earlier night has no value of."""
    known = {(value.score, value.slice, value.measure) for value in before.values}
    scores, slices, measures = ({at[i] for at in known} for i in range(3))
    for term in terms_of(each.condition):
        if not isinstance(term, Term) or term.field not in COMPARISON_FIELDS:
            continue
        score = term.score or str(failure.score)
        part = term.slice or str(failure.slice)
        found = find_computed(measure(term.measure), list(measures), requested)
        if score not in scores:
            yield score
        elif found is None:
            yield term.measure
        elif part not in slices:
            yield part
        elif (score, part, str(found)) not in known:
            yield f"{found} of {score} for {part}"


def _places(each: Gate, night: Night) -> int:
    """For how many models and slices a gate is judged."""
    terms = [term for term in terms_of(each.condition) if isinstance(term, Term)]
    models = {v.score for v in night.values} if any(t.score is None for t in terms) else {""}
    parts = {""}
    if any(term.slice is None for term in terms):
        parts = {value.slice for value in night.values if value.slice != "all"}
    return len(models) * len(parts)


def _reasons(failures: Iterable[GateFailure]) -> str:
    return "; ".join(dict.fromkeys(map(_reason, failures)))


def _reason(failure: GateFailure) -> str:
    place = [part for part in (failure.score, failure.slice) if part is not None]
    return ": ".join([", ".join(place), failure.detail] if place else [failure.detail])
