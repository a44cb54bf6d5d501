"""Find failed gates and models with few distinct scores."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fastrank_eval._lib.lexer import COMPARISONS, Operation
from fastrank_eval.apps.nightly.gates import JudgedGate, comparison_rows
from fastrank_eval.apps.nightly.night import (
    EARLIER,
    EarlierFindings,
    Finding,
    GateOutcome,
    Night,
    NightDifference,
    NightValue,
    slices_of_run,
)
from fastrank_eval.apps.nightly.quality import distinct_scores
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.measures.parser import find_computed, measure
from fastrank_eval.results.gate_parser import (
    ALL,
    COMPARISON_FIELDS,
    Count,
    Number,
    Term,
    terms_of,
)
from fastrank_eval.results.gates import Gate, GateFailure, gate, judge

__all__ = [
    "FewScores",
    "by_importance",
    "few_scores",
    "few_scores_outcomes",
    "gate_findings",
    "score_findings",
    "with_since",
]


_MAX_NAMED = 5
#: Defaults without a limit in the configuration: the fewest scores that do not fail a night, the
#: fewest that are no finding, and the fewest rows for a finding.
_MIN_SCORES, _FEW, _MIN_ROWS = 2, 10, 100


@dataclass(frozen=True)
class FewScores:
    """The distinct scores of a model on a slice where there are too few.

    Parameters
    ----------
    score, by, slice : str
    scores : tuple of float
        Ascending.
    limit : int
        The least number of distinct scores.
    fails : bool
        Whether the night fails; otherwise it only has a finding.
    """

    score: str
    by: str
    slice: str
    scores: tuple[float, ...]
    limit: int
    fails: bool

    @property
    def condition(self) -> str:
        """The condition in the form of a gate; empty if it does not fail."""
        return f"distinct scores < {self.limit}" if self.fails else ""


def scores_to_count(limit: int | None) -> int:
    """Return the number of distinct scores to count for a limit."""
    return _FEW if limit is None else limit


def few_scores(evaluation: Evaluation, limit: int | None) -> tuple[FewScores, ...]:
    """Find the models with fewer distinct scores than a limit.

    Parameters
    ----------
    evaluation : Evaluation
        Its plan measures `distinct_scores` of `scores_to_count` of the limit, if that is above 1.
    limit : int or None
        Fewer scores fail the night; fewer rows than the limit need as many scores as rows. None:
        one score fails the night, and fewer than ten scores in 100 rows or more are a finding.

    Returns
    -------
    tuple of FewScores
        All rows before slices. A model with too few scores on all rows has no slices here.
    """
    counted, minimum = scores_to_count(limit), _MIN_SCORES if limit is None else limit
    if counted < 2:
        return ()
    key, few = distinct_scores(counted).state_key(), []
    scores, failed_models = evaluation.plan.roles.scores, dict[str, bool]()
    for slice_of_run in slices_of_run(evaluation):
        for model, score in enumerate(scores):
            state = slice_of_run.row_states.models[model][key]
            number = len(state.scores)
            fails = state.rows >= 2 and number < min(minimum, state.rows)
            if not fails and (number >= min(counted, state.rows) or state.rows < _MIN_ROWS):
                continue
            # A model with too few scores on all rows is named once.
            if fails <= failed_models.get(score, -1):
                continue
            if not slice_of_run.by:
                failed_models[score] = fails
            values = tuple(state.scores.tolist())
            limit_here = minimum if fails else counted
            few.append(
                FewScores(score, slice_of_run.by, slice_of_run.slice, values, limit_here, fails)
            )
    return tuple(few)


def few_scores_outcomes(few: Sequence[FewScores]) -> list[GateOutcome]:
    """Return one failed gate for the models that fail, or nothing."""
    failing = [each for each in few if each.fails]
    if not failing:
        return []
    reasons = [
        f"{each.score}{f', {each.slice}' if each.by else ''}: {len(each.scores)}"
        for each in failing
    ]
    remaining = len(reasons) - _MAX_NAMED
    shown = [*reasons[:_MAX_NAMED], *([f"{remaining} more"] if remaining > 0 else [])]
    return [GateOutcome(failing[0].condition, False, "; ".join(shown))]


#: The most findings of a gate; its reason names the others.
_MAX_FINDINGS = 100


def gate_findings(
    night: Night, gates: Sequence[JudgedGate], requested: Mapping[str, str]
) -> list[Finding]:
    """Return a finding with its numbers for each failure of a gate.

    A gate of several terms gets the numbers of the first part that fails, and in it of the first
    term that is a difference.

    Parameters
    ----------
    night : Night
        With its differences.
    gates : sequence of JudgedGate
    requested : mapping of str to str
        Computed measure by the name that was requested, where they differ.
    """
    findings: list[Finding] = []
    for judged_gate in gates:
        if not judged_gate.outcome.passed:
            since = f" (since {judged_gate.kind.replace('_', ' ')})"
            condition = gate(judged_gate.outcome.condition.removesuffix(since)).condition
            findings += [
                _finding(night, judged_gate, condition, failure, requested)
                for failure in _largest_failures(night, judged_gate, condition, requested)
            ]
    return findings


def _largest_failures(
    night: Night, judged_gate: JudgedGate, condition: Operation, requested: Mapping[str, str]
) -> Sequence[GateFailure]:
    """Choose the failures to report: all rows, then by size."""
    if len(judged_gate.failures) <= _MAX_FINDINGS:
        return judged_gate.failures
    texts = {term.measure for term in terms_of(condition) if isinstance(term, Term)}
    measures = list(dict.fromkeys(value.measure for value in night.values))
    measure_texts = {str(find_computed(measure(text), measures, requested)) for text in texts}
    values = {(v.score, v.slice, v.measure): v.value for v in night.values}
    sizes: dict[tuple[str, str], float] = {}
    for difference in night.compared:
        if (
            difference.kind == judged_gate.kind
            and difference.measure in measure_texts
            and difference.verdict == "worse"
        ):
            key = difference.score, difference.slice
            value = values.get((*key, difference.measure), math.nan)
            ends = difference.ci_low, difference.ci_high
            size = _share(_smallest_difference(*ends), value, value - difference.delta)
            # The worst of several measures counts.
            sizes[key] = max(size, sizes.get(key, 0.0))
    # A gate on slices and all rows also fails on all rows: one failure of each model stays.
    on_all_rows = any(isinstance(term, Term) and term.slice == ALL for term in terms_of(condition))
    failure_by_score = (
        {one.score: one for one in reversed(judged_gate.failures)} if on_all_rows else {}
    )
    ordered = sorted(
        judged_gate.failures,
        key=lambda one: (
            one is not failure_by_score.get(one.score),
            -sizes.get((one.score or "", one.slice or ALL), 0.0),
        ),
    )
    return ordered[:_MAX_FINDINGS]


def score_findings(night: Night, few: Sequence[FewScores]) -> list[Finding]:
    """Return a finding with the first measure for each model with few scores."""
    findings = []
    # Findings that fail the night come first, so that the limit never drops them.
    for each in sorted(few, key=lambda one: not one.fails)[:_MAX_FINDINGS]:
        finding = Finding("scores", each.condition, each.score, each.by, each.slice)
        finding = replace(finding, limit=float(each.limit), number=float(len(each.scores)))
        if len(each.scores) == 1:
            finding = replace(finding, detail=f"{each.scores[0]:.6g}")
        measured = next(iter(night.measures), "")
        findings.append(_with_numbers(replace(finding, measure=measured), night, "baseline"))
    return findings


def with_since(
    date: dt.date, findings: Iterable[Finding], earlier: Sequence[EarlierFindings]
) -> list[Finding]:
    """Add the first date and the number of nights to findings.

    Nights of unsound rows, and nights that did not judge a gate, neither end nor begin a row of
    nights. The former count if they have the finding.

    Parameters
    ----------
    date : datetime.date
        The date of the night.
    findings : iterable of Finding
    earlier : sequence of EarlierFindings
        The latest first.
    """
    return [_with_since(date, finding, earlier) for finding in findings]


def by_importance(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings, the most important first.

    The order is, one after the other:

    1. Findings that fail the night, then others.
    2. All rows, then slices.
    3. Gates and changes, then few scores, then changes for the better.
    4. Differences within the night, then differences from an earlier night.
    5. Worse, then better.
    6. Size: the end of the interval nearer to 0 (0 if the interval holds 0), as a share of the
       larger value. So a large and certain difference comes before a small or uncertain one. For
       a limit without a difference, the distance of the number from the limit, as a share of the
       larger one.

    Parameters
    ----------
    findings : iterable of Finding
    """
    return tuple(
        sorted(
            findings,
            key=lambda f: (
                not f.condition,
                bool(f.by),
                f.kind == "change" and f.verdict == "better",
                f.kind == "scores",
                f.compared in EARLIER,
                f.verdict == "better",
                -_size(f),
            ),
        )
    )


def _size(finding: Finding) -> float:
    if math.isnan(finding.delta):
        value, base = finding.number, finding.limit
        smallest = abs(value - base)
    else:
        value, base = finding.value, finding.base
        ends = finding.delta_ci_low, finding.delta_ci_high
        smallest = _smallest_difference(*ends)
    return _share(smallest, value, base)


def _smallest_difference(low: float, high: float) -> float:
    """Return the smallest absolute difference in an interval."""
    finite = math.isfinite(low) and math.isfinite(high)
    return min(abs(low), abs(high)) if finite and not low < 0 < high else 0.0


def _share(smallest: float, value: float, base: float) -> float:
    largest = max(abs(value), abs(base))
    return smallest / largest if largest > 0 and math.isfinite(smallest / largest) else 0.0


def _finding(
    night: Night,
    judged_gate: JudgedGate,
    condition: Operation,
    failure: GateFailure,
    requested: Mapping[str, str],
) -> Finding:
    part = _failing_part(night, judged_gate.kind, condition, failure, requested)
    terms = list(terms_of(part))
    measured = [term for term in terms if isinstance(term, Term)]
    differences = [term for term in measured if term.field in COMPARISON_FIELDS]
    finding = Finding("gate", judged_gate.outcome.condition)
    if failure.kind != "holds":
        finding = replace(finding, detail=failure.detail)
    lead_term: Term | Count = next(iter([*differences, *measured, *terms]))
    if isinstance(lead_term, Term):
        measures = list(dict.fromkeys(value.measure for value in night.values))
        text = find_computed(measure(lead_term.measure), measures, requested)
        slice_ = lead_term.slice or failure.slice or ""
        finding = replace(
            finding,
            score=lead_term.score or failure.score or "",
            slice=slice_,
            by=next((v.by for v in night.values if v.slice == slice_), slice_)
            if slice_ != ALL
            else "",
            measure=lead_term.measure if text is None else str(text),
        )
        finding = _with_numbers(finding, night, judged_gate.kind if differences else "")
    return _with_limit(finding, part, lead_term, night, judged_gate.kind)


def _failing_part(
    night: Night,
    kind: str,
    condition: Operation,
    failure: GateFailure,
    requested: Mapping[str, str],
) -> Operation:
    """Return the part of a condition that explains a failure best."""
    if condition.operator == "or":
        for part in condition.parts:
            verdict = judge(
                [Gate(part)], [*night.values, *comparison_rows(night, kind)],
                rows=night.quality.rows, groups=night.quality.groups,
                baseline=night.baseline if kind == "baseline" else None, requested=requested,
            )  # fmt: skip
            keys = [(one.score, one.slice) for one in verdict.failures]
            if any(
                score in (None, failure.score) and slice_ in (None, failure.slice)
                for score, slice_ in keys
            ):
                return _failing_part(night, kind, part, failure, requested)
        return condition
    if condition.operator == "and":
        parts = list(condition.parts)
        parts.sort(key=lambda part: not any(_is_difference(term) for term in terms_of(part)))
        return _failing_part(night, kind, parts[0], failure, requested)
    return condition


def _is_difference(term: Term | Count) -> bool:
    return isinstance(term, Term) and term.field in COMPARISON_FIELDS


def _with_numbers(finding: Finding, night: Night, kind: str) -> Finding:
    """Add the value of a finding and its difference of a kind."""
    value = _value_of(night, finding.score, finding.slice, finding.measure)
    if value is not None:
        finding = replace(finding, value=value.value, ci_low=value.ci_low, ci_high=value.ci_high)
    difference = _difference_of(night, kind, finding)
    if difference is None:
        return finding
    against = difference.baseline
    if kind in EARLIER:
        against = str(night.date - dt.timedelta(days=EARLIER[kind]))
    return replace(
        finding,
        compared=kind,
        against=against,
        base=finding.value - difference.delta,
        delta=difference.delta,
        delta_ci_low=difference.ci_low,
        delta_ci_high=difference.ci_high,
        p_adjusted=difference.p_adjusted,
        verdict=difference.verdict,
    )


def _with_limit(
    finding: Finding, condition: Operation, lead_term: Term | Count, night: Night, kind: str
) -> Finding:
    """Add limit and number if the condition limits one number."""
    if condition.operator not in COMPARISONS:
        return finding
    left, right = condition.parts
    if lead_term == left:
        operator, limit = condition.operator, _constant(right)
    elif lead_term == right:
        operator, limit = COMPARISONS[condition.operator], _constant(left)
    else:
        return finding
    if limit is None:
        return finding
    field = lead_term.of if isinstance(lead_term, Count) else lead_term.field
    number = _limited_number(finding, field, isinstance(lead_term, Count), night, kind)
    return replace(finding, field=field, operator=operator, limit=limit, number=number)


def _constant(quantity: object) -> float | None:
    if isinstance(quantity, Number):
        return quantity.value
    if isinstance(quantity, Operation) and quantity.operator == "-" and len(quantity.parts) == 1:
        inner = _constant(quantity.parts[0])
        return None if inner is None else -inner
    return None


def _limited_number(finding: Finding, field: str, counted: bool, night: Night, kind: str) -> float:
    if counted:
        return float(night.quality.rows if field == "rows" else night.quality.groups)
    value = _value_of(night, finding.score, finding.slice, finding.measure)
    if value is not None and field == "dropped_share":
        return (value.groups - value.groups_used) / value.groups if value.groups else math.nan
    for row in (value, *comparison_rows(night, kind)):
        if row is not None and hasattr(row, field):
            key = (row.score, row.slice, row.measure)
            if key == (finding.score, finding.slice, finding.measure):
                return float(getattr(row, field))
    return math.nan


def _value_of(night: Night, score: str, slice_: str, text: str) -> NightValue | None:
    key = score, slice_, text
    return next((v for v in night.values if (v.score, v.slice, v.measure) == key), None)


def _difference_of(night: Night, kind: str, finding: Finding) -> NightDifference | None:
    key = kind, finding.score, finding.slice, finding.measure
    return next((d for d in night.compared if (d.kind, d.score, d.slice, d.measure) == key), None)


def _with_since(date: dt.date, finding: Finding, earlier: Sequence[EarlierFindings]) -> Finding:
    if finding.compared == "before":
        return finding
    unsound = 0
    for night in earlier:
        same = next((one for one in night.findings if one.key == finding.key), None)
        if night.status == "data_quality":
            unsound += same is not None
        elif same is not None:
            nights = 1 + unsound + same.nights
            return replace(finding, since=same.since, nights=nights)
        elif finding.condition not in night.not_judged and not _is_of_older_version(night):
            break
    return replace(finding, since=date, nights=1)


def _is_of_older_version(night: EarlierFindings) -> bool:
    return night.status == "regression" and not night.findings
