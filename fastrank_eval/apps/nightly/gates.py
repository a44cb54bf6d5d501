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
    """A difference with the fields of `gate_parser.COMPARISON_FIELDS`."""

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
    """Yield the differences of one kind."""
    for d in night.compared:
        if d.kind == kind:
            yield ComparedRow(
                d.score, d.slice, d.measure, d.delta, d.se, d.ci_low,
                d.ci_high, d.relative, d.p_value, d.p_adjusted,
            )  # fmt: skip


_MAX_NAMED = 5


@dataclass(frozen=True)
class JudgedGate:
    """A gate with its outcome and failures.

    Parameters
    ----------
    outcome : GateOutcome
    kind : str
        The kind of the differences in its condition.
    failures : tuple of GateFailure
        Models and slices that failed.
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
    """Judge the gates of a night.

    Parameters
    ----------
    night : Night
        With its differences.
    gates : GateTexts
    requested : mapping of str to str
        Computed measure by the name that was requested, where they differ.
    earlier : mapping of str to EarlierNight
        Earlier night by kind of difference. A gate is not judged without that night, nor for
        models, slices and measures that it lacks.

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
            condition = f"{text} (since {kind.replace('_', ' ')})"
            if before.night is None:
                outcome = GateOutcome(condition, True, f"not judged: {before.reason}")
                outcomes.append(JudgedGate(outcome, kind))
            else:
                failures = _failures(text, night, kind, requested)
                outcome = _since(
                    condition, gate(text), failures, night, before.night, requested, date
                )
                failures_with_baseline = tuple(one for one in failures if one.kind != "no_baseline")
                outcomes.append(JudgedGate(outcome, kind, failures_with_baseline))
    return outcomes


def _failures(
    text: str, night: Night, kind: str, requested: Mapping[str, str]
) -> list[GateFailure]:
    records: list[GateRow] = [*night.values, *comparison_rows(night, kind)]
    verdict = judge(
        [text], records, rows=night.quality.rows, groups=night.quality.groups,
        baseline=night.baseline if kind == "baseline" else None, requested=requested,
    )  # fmt: skip
    return list(verdict.failures)


def _since(
    condition: str,
    each: Gate,
    failures: Iterable[GateFailure],
    night: Night,
    before: Night,
    requested: Mapping[str, str],
    date: dt.date,
) -> GateOutcome:
    # A value without a difference has no counterpart on the earlier night.
    failed = [failure for failure in failures if failure.kind != "no_baseline"]
    without_baseline = [failure for failure in failures if failure.kind == "no_baseline"]
    if not without_baseline:
        return GateOutcome(condition, not failed, _reasons(failed))
    names = list(
        dict.fromkeys(
            name
            for one in without_baseline
            for name in _missing_values(each, one, before, requested)
        )
    )
    remaining = len(names) - _MAX_NAMED
    shown = ", ".join([*names[:_MAX_NAMED], *([f"{remaining} more"] if remaining > 0 else [])])
    scope = "" if len(without_baseline) >= _judgements(each, night) else " in part"
    reason = f"not judged{scope}: {date} has no {shown}"
    return GateOutcome(condition, not failed, "; ".join(filter(None, [_reasons(failed), reason])))


def _missing_values(
    each: Gate, failure: GateFailure, before: Night, requested: Mapping[str, str]
) -> Iterator[str]:
    """Yield the parts of a gate that an earlier night lacks."""
    keys = {(value.score, value.slice, value.measure) for value in before.values}
    scores, slices, measures = ({key[i] for key in keys} for i in range(3))
    for term in terms_of(each.condition):
        if not isinstance(term, Term) or term.field not in COMPARISON_FIELDS:
            continue
        score = term.score or str(failure.score)
        slice_ = term.slice or str(failure.slice)
        measured = find_computed(measure(term.measure), list(measures), requested)
        if score not in scores:
            yield score
        elif measured is None:
            yield term.measure
        elif slice_ not in slices:
            yield slice_
        elif (score, slice_, str(measured)) not in keys:
            yield f"{measured} of {score} for {slice_}"


def _judgements(each: Gate, night: Night) -> int:
    """Count the models and slices that a gate judges."""
    terms = [term for term in terms_of(each.condition) if isinstance(term, Term)]
    models = {v.score for v in night.values} if any(t.score is None for t in terms) else {""}
    slices = {""}
    if any(term.slice is None for term in terms):
        slices = {value.slice for value in night.values if value.slice != "all"}
    return len(models) * len(slices)


def _reasons(failures: Iterable[GateFailure]) -> str:
    return "; ".join(dict.fromkeys(map(_reason, failures)))


def _reason(failure: GateFailure) -> str:
    parts = [part for part in (failure.score, failure.slice) if part is not None]
    return ": ".join([", ".join(parts), failure.detail] if parts else [failure.detail])
