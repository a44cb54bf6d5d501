"""Find what people should know of a night."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fastrank_eval.apps.nightly.gates import JudgedGate, comparison_rows
from fastrank_eval.apps.nightly.night import (
    EARLIER,
    EarlierFindings,
    Finding,
    GateOutcome,
    Night,
    NightDifference,
    NightValue,
    places,
)
from fastrank_eval.apps.nightly.quality import distinct_scores
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.measures.parser import find_computed, measure
from fastrank_eval.results.gate_parser import (
    ALL,
    COMPARISON_FIELDS,
    And,
    Compare,
    Condition,
    Count,
    Negative,
    Number,
    Or,
    Term,
    terms_of,
)
from fastrank_eval.results.gates import Gate, GateFailure, gate, judge

__all__ = [
    "FewScores",
    "by_importance",
    "counted_scores",
    "few_scores",
    "gate_findings",
    "outcomes_of_few",
    "score_findings",
    "with_since",
]


_MOST_NAMED = 5
#: Without a limit in the configuration: the fewest scores that do not fail a night, the fewest that
#: are no finding, and the fewest rows for which few scores are a finding.
_LEAST, _FEW, _ROWS = 2, 10, 100


@dataclass(frozen=True)
class FewScores:
    """The distinct scores of a model on a part of the rows, where there are too few.

    Parameters
    ----------
    score, by, slice : str
    scores : tuple of float
        Ascending.
    limit : int
        The fewest that there should be.
    fails : bool
        Whether the night fails; otherwise few scores are a finding only.
    """

    score: str
    by: str
    slice: str
    scores: tuple[float, ...]
    limit: int
    fails: bool

    @property
    def condition(self) -> str:
        """What fails the night, as a gate would be written; empty if nothing does."""
        return f"distinct scores < {self.limit}" if self.fails else ""


def counted_scores(limit: int | None) -> int:
    """Return where counting distinct scores stops, of the limit in a configuration."""
    return _FEW if limit is None else limit


def few_scores(done: Evaluation, limit: int | None) -> tuple[FewScores, ...]:
    """Find the models with fewer distinct scores than a limit.

    Parameters
    ----------
    done : Evaluation
        Of a plan with `distinct_scores` of `counted_scores` of the limit, if it is above 1.
    limit : int or None
        Fewer fail the night; of fewer rows than that, each has to have a score of its own. None:
        one score fails the night; fewer than ten scores of 100 rows or more are a finding.

    Returns
    -------
    tuple of FewScores
        All rows before slices; no slice of a model that has too few on all rows.
    """
    told, least = counted_scores(limit), _LEAST if limit is None else limit
    if told < 2:
        return ()
    key, found = distinct_scores(told).state_key(), []
    scores, whole = done.plan.roles.scores, dict[str, bool]()
    for place in places(done):
        for model, score in enumerate(scores):
            state = place.pools.models[model][key]
            number = len(state.scores)
            fails = state.rows >= 2 and number < min(least, state.rows)
            if not fails and (number >= min(told, state.rows) or state.rows < _ROWS):
                continue
            # What is so of all rows is named once.
            if fails <= whole.get(score, -1):
                continue
            if not place.by:
                whole[score] = fails
            values = tuple(state.scores.tolist())
            limit_here = least if fails else told
            found.append(FewScores(score, place.by, place.slice, values, limit_here, fails))
    return tuple(found)


def outcomes_of_few(found: Sequence[FewScores]) -> list[GateOutcome]:
    """The outcome of a gate that failed for each that fails the night; none if there is none."""
    failing = [few for few in found if few.fails]
    if not failing:
        return []
    reasons = [
        f"{few.score}{f', {few.slice}' if few.by else ''}: {len(few.scores)}" for few in failing
    ]
    left = len(reasons) - _MOST_NAMED
    shown = [*reasons[:_MOST_NAMED], *([f"{left} more"] if left > 0 else [])]
    return [GateOutcome(failing[0].condition, False, "; ".join(shown))]


_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
#: More are not kept; the gates' reasons name them.
_MOST = 100


def gate_findings(
    night: Night, gates: Sequence[JudgedGate], requested: Mapping[str, str]
) -> list[Finding]:
    """Say of each gate that failed where it did, by the numbers that a reader asks for.

    Of a gate of several terms these are those of the first part that fails it, and of its first
    term that is a difference.

    Parameters
    ----------
    night : Night
        With its differences.
    gates : sequence of JudgedGate
    asked : mapping of str to str
        What measures were called whose text is another.
    """
    found: list[Finding] = []
    for judged in gates:
        if not judged.outcome.passed:
            since = f" (since {judged.kind.replace('_', ' ')})"
            condition = gate(judged.outcome.condition.removesuffix(since)).condition
            found += [
                _finding(night, judged, condition, failure, requested)
                for failure in _worst(night, judged, condition, requested)
            ]
    return found


def _worst(
    night: Night, judged: JudgedGate, condition: Condition, requested: Mapping[str, str]
) -> Sequence[GateFailure]:
    """Choose the failures that are kept: of all rows, then by the size of the difference."""
    if len(judged.failures) <= _MOST:
        return judged.failures
    texts = {term.measure for term in terms_of(condition) if isinstance(term, Term)}
    known = list(dict.fromkeys(value.measure for value in night.values))
    of = {str(find_computed(measure(text), known, requested)) for text in texts}
    values = {(v.score, v.slice, v.measure): v.value for v in night.values}
    sizes: dict[tuple[str, str], float] = {}
    for line in night.compared:
        if line.kind == judged.kind and line.measure in of and line.verdict == "worse":
            place = line.score, line.slice
            value = values.get((*place, line.measure), math.nan)
            ends = line.ci_low, line.ci_high
            size = _share(_least(*ends), value, value - line.delta)
            # Of several measures the one that is worst.
            sizes[place] = max(size, sizes.get(place, 0.0))
    # A gate on all rows too fails there with any of the slices: one of each model stays.
    whole = any(isinstance(term, Term) and term.slice == ALL for term in terms_of(condition))
    of_whole = {one.score: one for one in reversed(judged.failures)} if whole else {}
    worst_first = sorted(
        judged.failures,
        key=lambda one: (
            one is not of_whole.get(one.score),
            -sizes.get((one.score or "", one.slice or ALL), 0.0),
        ),
    )
    return worst_first[:_MOST]


def score_findings(night: Night, few: Sequence[FewScores]) -> list[Finding]:
    """Say of models with too few distinct scores what their first measure comes to there."""
    found = []
    # What fails the night is kept, however many do not.
    for each in sorted(few, key=lambda one: not one.fails)[:_MOST]:
        finding = Finding("scores", each.condition, each.score, each.by, each.slice)
        finding = replace(finding, limit=float(each.limit), number=float(len(each.scores)))
        if len(each.scores) == 1:
            finding = replace(finding, detail=f"{each.scores[0]:.6g}")
        measured = next(iter(night.measures), "")
        found.append(_with_numbers(replace(finding, measure=measured), night, "baseline"))
    return found


def with_since(
    date: dt.date, findings: Iterable[Finding], earlier: Sequence[EarlierFindings]
) -> list[Finding]:
    """Say since when each is so.

    Nights of unsound rows, and those that did not judge a gate, end nothing and begin nothing; the
    former are counted where they failed too.

    Parameters
    ----------
    date : datetime.date
        Of the night.
    findings : iterable of Finding
    earlier : sequence of EarlierFindings
        The latest first.
    """
    return [_with_since(date, finding, earlier) for finding in findings]


def by_importance(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings: the worst first.

    What fails the night before what does not, all rows before slices, gates and changes before few
    scores before changes for the better, differences of the night before those from an earlier
    night, the worse before the better; among those by the size of what is wrong. That is the
    difference that its interval leaves at least (the end nearer to 0; 0 if 0 lies within), as
    a share of the larger of the two values, so that a large difference that is sure comes before
    a small or a doubtful one. Of a limit without a difference it is how far the number lies from
    it, as a share of the larger.

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
        one, other = finding.number, finding.limit
        least = abs(one - other)
    else:
        one, other = finding.value, finding.base
        ends = finding.delta_ci_low, finding.delta_ci_high
        least = _least(*ends)
    return _share(least, one, other)


def _least(low: float, high: float) -> float:
    """The difference that an interval leaves at least."""
    known = math.isfinite(low) and math.isfinite(high)
    return min(abs(low), abs(high)) if known and not low < 0 < high else 0.0


def _share(least: float, one: float, other: float) -> float:
    largest = max(abs(one), abs(other))
    return least / largest if largest > 0 and math.isfinite(least / largest) else 0.0


def _finding(
    night: Night,
    judged: JudgedGate,
    condition: Condition,
    failure: GateFailure,
    requested: Mapping[str, str],
) -> Finding:
    part = _failing(night, judged.kind, condition, failure, requested)
    terms = list(terms_of(part))
    measured = [term for term in terms if isinstance(term, Term)]
    differences = [term for term in measured if term.field in COMPARISON_FIELDS]
    finding = Finding("gate", judged.outcome.condition)
    if failure.kind != "holds":
        finding = replace(finding, detail=failure.detail)
    lead: Term | Count = next(iter([*differences, *measured, *terms]))
    if isinstance(lead, Term):
        known = list(dict.fromkeys(value.measure for value in night.values))
        text = find_computed(measure(lead.measure), known, requested)
        slice_ = lead.slice or failure.slice or ""
        finding = replace(
            finding,
            score=lead.score or failure.score or "",
            slice=slice_,
            by=next((v.by for v in night.values if v.slice == slice_), slice_)
            if slice_ != ALL
            else "",
            measure=lead.measure if text is None else str(text),
        )
        finding = _with_numbers(finding, night, judged.kind if differences else "")
    return _with_limit(finding, part, lead, night, judged.kind)


def _failing(
    night: Night,
    kind: str,
    condition: Condition,
    failure: GateFailure,
    requested: Mapping[str, str],
) -> Condition:
    """The part of a condition that says most of a failure."""
    if isinstance(condition, Or):
        for part in condition.parts:
            verdict = judge(
                [Gate(part)], [*night.values, *comparison_rows(night, kind)],
                rows=night.quality.rows, groups=night.quality.groups,
                baseline=night.baseline if kind == "baseline" else None, requested=requested,
            )  # fmt: skip
            places = [(one.score, one.slice) for one in verdict.failures]
            if any(
                score in (None, failure.score) and part_ in (None, failure.slice)
                for score, part_ in places
            ):
                return _failing(night, kind, part, failure, requested)
        return condition
    if isinstance(condition, And):
        parts = list(condition.parts)
        parts.sort(key=lambda part: not any(_is_difference(term) for term in terms_of(part)))
        return _failing(night, kind, parts[0], failure, requested)
    return condition


def _is_difference(term: Term | Count) -> bool:
    return isinstance(term, Term) and term.field in COMPARISON_FIELDS


def _with_numbers(finding: Finding, night: Night, kind: str) -> Finding:
    """The value of a finding and, of a kind of difference, what it is compared with."""
    value = _value_of(night, finding.score, finding.slice, finding.measure)
    if value is not None:
        finding = replace(finding, value=value.value, ci_low=value.ci_low, ci_high=value.ci_high)
    line = _difference_of(night, kind, finding)
    if line is None:
        return finding
    against = line.baseline
    if kind in EARLIER:
        against = str(night.date - dt.timedelta(days=EARLIER[kind]))
    return replace(
        finding,
        compared=kind,
        against=against,
        base=finding.value - line.delta,
        delta=line.delta,
        delta_ci_low=line.ci_low,
        delta_ci_high=line.ci_high,
        p_adjusted=line.p_adjusted,
        verdict=line.verdict,
    )


def _with_limit(
    finding: Finding, condition: Condition, lead: Term | Count, night: Night, kind: str
) -> Finding:
    """The limit of one number that a condition is, if it is one."""
    if not isinstance(condition, Compare):
        return finding
    sides = condition.left, condition.right
    if lead == condition.left:
        operator, limit = condition.operator, _constant(sides[1])
    elif lead == condition.right:
        operator, limit = _FLIPPED[condition.operator], _constant(sides[0])
    else:
        return finding
    if limit is None:
        return finding
    field = lead.of if isinstance(lead, Count) else lead.field
    number = _number_of(finding, field, isinstance(lead, Count), night, kind)
    return replace(finding, field=field, operator=operator, limit=limit, number=number)


def _constant(quantity: object) -> float | None:
    if isinstance(quantity, Number):
        return quantity.value
    if isinstance(quantity, Negative):
        inner = _constant(quantity.part)
        return None if inner is None else -inner
    return None


def _number_of(finding: Finding, field: str, counted: bool, night: Night, kind: str) -> float:
    if counted:
        return float(night.quality.rows if field == "rows" else night.quality.groups)
    value = _value_of(night, finding.score, finding.slice, finding.measure)
    if value is not None and field == "dropped_share":
        return (value.groups - value.groups_used) / value.groups if value.groups else math.nan
    for line in (value, *comparison_rows(night, kind)):
        if line is not None and hasattr(line, field):
            place = (line.score, line.slice, line.measure)
            if place == (finding.score, finding.slice, finding.measure):
                return float(getattr(line, field))
    return math.nan


def _value_of(night: Night, score: str, part: str, text: str) -> NightValue | None:
    of = score, part, text
    return next((v for v in night.values if (v.score, v.slice, v.measure) == of), None)


def _difference_of(night: Night, kind: str, finding: Finding) -> NightDifference | None:
    of = kind, finding.score, finding.slice, finding.measure
    return next((d for d in night.compared if (d.kind, d.score, d.slice, d.measure) == of), None)


def _with_since(date: dt.date, finding: Finding, earlier: Sequence[EarlierFindings]) -> Finding:
    if finding.compared == "before":
        return finding
    unsound = 0
    for night in earlier:
        same = next((one for one in night.findings if one.place == finding.place), None)
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
