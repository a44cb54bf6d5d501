"""Report failed gates and unusual changes of a night as findings."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from functools import cache
from itertools import pairwise
from statistics import median

from fastrank_eval import Gate, GateFailure, gate, measure
from fastrank_eval._lib.lexer import COMPARISONS, Operation
from fastrank_eval.apps.nightly.compare_nights import (
    DAYS,
    NIGHTS,
    NORMAL,
    JudgedGate,
    Series,
    comparison_rows,
    first_names,
    from_earlier,
    has_one_class,
    incomparable,
    undefined_values,
    verdict_of,
    with_verdict,
    without_praise,
)
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import (
    EARLIER,
    NOT_JUDGED,
    Finding,
    GateOutcome,
    Key,
    Night,
    Settings,
)
from fastrank_eval.apps.nightly.text import (
    SIGNIFICANT,
    ago_exactly,
    confidence_of,
    constant,
    no_labels_text,
    share_of_larger,
    sides,
    smallest_difference,
)
from fastrank_eval.measures.names import COMPARISON_FIELDS
from fastrank_eval.results.differences import CHANCE, has_chance
from fastrank_eval.results.gate_judge import field_of
from fastrank_eval.results.gates import ALL, Count, Term, terms_of

#: The most findings of a gate; its reason names the others.
_MAX_FINDINGS = 100


def gate_findings(night: Night, gates: Sequence[JudgedGate]) -> list[Finding]:
    """Return a finding with its numbers for each failure of a gate.

    A gate of several terms gets the numbers of the first part that fails, and in it of the first
    term that is a difference.

    Parameters
    ----------
    night : Night
        With its differences.
    gates : sequence of JudgedGate
    """
    findings: list[Finding] = []
    for outcome, failures in gates:
        if not outcome.passed:
            parsed = gate(outcome.condition)
            findings += [
                _finding(night, outcome, parsed.condition, failure)
                for failure in failures[:_MAX_FINDINGS]
            ]
    return findings


def score_findings(night: Night, few: Sequence[Finding]) -> list[Finding]:
    """Add the numbers of the first measure to findings of few scores."""
    measured = next(iter(night.measures), "")
    # Findings that fail the night come first, so that the limit never drops them.
    failing_first = sorted(few, key=lambda one: not one.condition)
    return [
        _with_numbers(replace(each, measure=measured), night, "baseline")
        for each in failing_first[:_MAX_FINDINGS]
    ]


def undefined_findings(night: Night) -> list[Finding]:
    """Find measures without a value on all rows, or labels of one class."""
    models: dict[str, list[str]] = {}
    undefined = undefined_values(night)
    for value in undefined:
        models.setdefault(value.measure, []).append(value.score)
    names = [
        night.name_of(text) + f" of {' and '.join(each)}" * (len(each) < len(night.models))
        for text, each in models.items()
    ]
    cause = no_labels_text(night)
    if not cause and has_one_class(night):
        rows = f"{night.quality.rows:,} rows"
        cause = f"all {rows} are positive" if night.quality.positives else f"no row of {rows} is"
        cause += "" if night.quality.positives else " positive"
    if not cause and undefined:
        dropped = undefined[0].dropped.items()
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in dropped if number)
        cause = f"no group counts ({reasons})" if reasons else ""
    if not names and not cause:
        return []
    shown = f"{', '.join(first_names(names))} {'have' if len(names) > 1 else 'has'} no value"
    texts = [shown] * bool(names) + [cause] * bool(cause)
    measured = next(iter(models), next(iter(night.measures), ""))
    detail = ": ".join(texts)
    return [
        Finding("undefined", slice=ALL, measure=measured, detail=detail[:1].upper() + detail[1:])
    ]


def with_since(date: dt.date, finding: Finding, earlier: Sequence[Night]) -> Finding:
    """Add the first date and the number of nights to a finding.

    Nights of rows that did not pass the checks, and nights that did not judge a gate, neither end
    nor begin a row of nights. The former count if they have the finding.

    Parameters
    ----------
    date : datetime.date
        The date of the night.
    finding : Finding
    earlier : sequence of Night
        The latest first.
    """
    if finding.compared == "before":
        return finding
    failed = 0
    for night in earlier:
        same = next((one for one in night.findings if one.key == finding.key), None)
        if night.status == "data_quality":
            failed += same is not None
        elif same is not None:
            nights = 1 + failed + same.nights
            return replace(finding, since=same.since, nights=nights)
        elif (finding.condition, NOT_JUDGED) not in {(g.text, g.outcome) for g in night.gates}:
            break
    return replace(finding, since=date, nights=1)


def by_importance(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings, the most important first.

    The order is, one after the other:

    1. Findings that fail the night, then others.
    2. All rows, then slices.
    3. Measures without a value, gates and changes, then few scores, then changes for the better.
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
                f.kind not in ("undefined", "missing"),
                f.kind == "change" and f.verdict == "better",
                f.kind in ("scores", "drift"),
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
        smallest = smallest_difference(*ends)
    return share_of_larger(smallest, value, base)


def _finding(
    night: Night,
    outcome: GateOutcome,
    condition: Operation,
    failure: GateFailure,
) -> Finding:
    kind = outcome.kind
    part = _failing_part(night, kind, condition, failure)
    terms = list(terms_of(part))
    measured = [term for term in terms if isinstance(term, Term)]
    differences = list(filter(_is_difference, measured))
    finding = Finding("gate", outcome.text)
    if failure.kind != "holds":
        finding = replace(finding, detail=failure.detail)
    lead_term: Term | Count = next(iter([*differences, *measured, *terms]))
    if isinstance(lead_term, Term):
        text = night.find(lead_term.measure)
        slice_ = lead_term.slice or failure.slice or ""
        finding = replace(
            finding,
            score=lead_term.score or failure.score or "",
            slice=slice_,
            by=next((v.by or "" for v in night.values if v.slice == slice_), slice_)
            if slice_ != ALL
            else "",
            measure=lead_term.measure if text is None else str(text),
        )
        difference_kind = kind if differences else ""
        finding = _with_numbers(finding, night, difference_kind, failure.p_adjusted)
    return _with_limit(finding, part, lead_term, night, kind)


def _failing_part(
    night: Night,
    kind: str,
    condition: Operation,
    failure: GateFailure,
) -> Operation:
    """Return the part of a condition that explains a failure best."""
    if condition.operator == "or":
        for part in condition.parts:
            if any(
                one.score in (None, failure.score) and one.slice in (None, failure.slice)
                for one in verdict_of(Gate(part), night, kind).failures
            ):
                return _failing_part(night, kind, part, failure)
        return condition
    if condition.operator == "and":
        part = max(condition.parts, key=lambda part: any(map(_is_difference, terms_of(part))))
        return _failing_part(night, kind, part, failure)
    return condition


def _is_difference(term: Term | Count) -> bool:
    return isinstance(term, Term) and term.field in COMPARISON_FIELDS


def _with_numbers(
    finding: Finding, night: Night, kind: str, p_adjusted: float | None = None
) -> Finding:
    """Add the value of a finding and its difference of a kind.

    A corrected p-value of a gate, and the verdict by it, replace those of the table.
    """
    key = Key.of(finding)
    difference = night.difference_of(kind, key)
    if difference is not None and p_adjusted is not None:
        difference = replace(difference, p_adjusted=p_adjusted)
        difference = with_verdict(difference, confidence_of(night))
        (difference,) = without_praise([difference], night)
    against = ago_exactly(kind, night) if kind in EARLIER else ""
    return finding.with_numbers(night.value_of(key), difference, against)


def _with_limit(
    finding: Finding, condition: Operation, lead_term: Term | Count, night: Night, kind: str
) -> Finding:
    """Add limit and number if the condition limits one number."""
    if condition.operator not in COMPARISONS:
        return finding
    for term, operator, other in sides(condition):
        limit = constant(other)
        if term == lead_term and limit is not None:
            field = lead_term.of if isinstance(lead_term, Count) else lead_term.field
            number = _limited_number(finding, field, isinstance(lead_term, Count), night, kind)
            return replace(finding, field=field, operator=operator, limit=limit, number=number)
    return finding


def _limited_number(finding: Finding, field: str, counted: bool, night: Night, kind: str) -> float:
    if counted:
        return float(night.quality.rows if field == "rows" else night.quality.groups)
    if field == "p_adjusted":
        return finding.p_adjusted
    key = Key.of(finding)
    rows = filter(None, (night.value_of(key), night.difference_of(kind, key)))
    numbers = (field_of(row, field) for row in rows)
    return next((number for number in numbers if number is not None), math.nan)


#: The fewest movements for a usual movement, and the number of deviations that are usual.
_MIN_MOVEMENTS, _DEVIATIONS = 7, 4.0
#: A wide difference, as a share of the value of the baseline (for AUC and GAUC: less 0.5).
_WIDE_SHARE = 0.25


def changes(
    night: Night,
    gates: Settings,
    history: History,
    before: Sequence[Night],
) -> list[Finding]:
    """Find numbers of all rows without a gate that are not as usual.

    Both rules need significance, with p corrected (Holm) over every model and measure on all rows,
    and a difference that is larger than usual:

    * Worse than the baseline. The difference is farther from its median than its usual movement
      from one night to the next. Both come from the last 14 nights before it began on which this
      rule did not find it, however old. With fewer than eight such nights, the difference must
      instead be larger than a quarter of the value of the baseline (for AUC and GAUC: of the value
      less 0.5).
    * Changed since the latest earlier night whose rows passed the checks and equal conventions.

    Parameters
    ----------
    night : Night
    gates : Settings
    history : History
    before : sequence of Night
        The latest first.

    Returns
    -------
    list of Finding
        Changes from the baseline with their first date, then changes since the night before; each
        in the order of the values.
    """
    findings = _worse_than_baseline(night, _gated_keys(night, gates.fail_if), history, before)
    reported = set(map(Key.of, findings))
    first = night.date - dt.timedelta(days=DAYS)
    earlier = _earlier_nights(night, first, history)[-NIGHTS:]
    if not earlier:
        return findings
    reported |= _gated_keys(night, gates.fail_if, gates.fail_if_yesterday, gates.fail_if_last_week)
    past = Series(earlier)
    now, was, date = night.overall, earlier[-1].overall, earlier[-1].date
    differences = from_earlier("before", now.values(), was.values(), confidence_of(night))
    for difference in without_praise(differences, night):
        key = Key.of(difference)
        if key in reported or difference.verdict not in SIGNIFICANT:
            continue
        usual = usual_movement([each.value for each in past.past(*key) if each])
        if abs(difference.delta) > usual:
            change = Finding("change", **key._asdict())
            change = change.with_numbers(now[key], difference, date.isoformat())
            # The difference may round: the value of the earlier night has all its digits.
            change = replace(change, base=was[key].value, limit=usual, number=abs(change.delta))
            findings.append(change)
    return findings


def _worse_than_baseline(
    night: Night,
    gated: Set[Key],
    history: History,
    before: Sequence[Night],
) -> list[Finding]:
    """Find models that are unusually worse than the baseline."""
    now, findings = night.overall, []
    oldest = next(iter(history.dates()), night.date)

    @cache
    def read(first: dt.date) -> Series:
        return Series(_earlier_nights(night, first, history))

    for difference in comparison_rows(night, "baseline"):
        key = Key.of(difference)
        base_key = key._replace(score=difference.baseline)
        if difference.slice != ALL or difference.verdict != "worse" or key in gated:
            continue
        change = Finding("change", **key._asdict())
        change = change.with_numbers(now[key], difference)
        change = replace(change, base=now[base_key].value)
        change = with_since(night.date, change, before)
        usual_deltas = _usual_deltas(key, base_key, change.since or night.date, oldest, read)
        usual = usual_movement(usual_deltas)
        if math.isnan(usual):
            chance = CHANCE if has_chance(measure(difference.measure)) else 0.0
            if abs(difference.delta) > _WIDE_SHARE * abs(now[base_key].value - chance):
                findings.append(change)
            continue
        distance = difference.delta - median(usual_deltas)
        # The movement has the sign of the difference: the model got worse.
        if abs(distance) > usual and (distance > 0) == (difference.delta > 0):
            findings.append(replace(change, limit=usual, number=abs(distance)))
    return findings


def _usual_deltas(
    key: Key,
    base_key: Key,
    since: dt.date,
    oldest: dt.date,
    read: Callable[[dt.date], Series],
) -> list[float]:
    """Return differences of nights on which a model was not found worse."""
    deltas: list[float] = []
    # Go back to the start of history: all recent nights may have been worse.
    while len(deltas) < NIGHTS and since > oldest:
        since -= dt.timedelta(days=DAYS)
        past = read(since)
        deltas += [
            own.value - base.value
            for each, (own, base) in past.by_night([past.past(*key), past.past(*base_key)])
            if own and base and not math.isnan(own.value - base.value)
            if each.baseline == base_key.score and not _was_worse(each, key)
        ]
    return deltas[:NIGHTS][::-1]


def usual_movement(past: Sequence[float]) -> float:
    """Return the largest usual change from one night to the next.

    ``4 * 1.4826 * median(abs(change))``: four standard deviations of normal changes. A few bad
    nights do not raise it.

    Parameters
    ----------
    past : sequence of float
        Values of nights, ascending by date; NaN is left out.

    Returns
    -------
    float
        NaN with fewer than eight values.

    Examples
    --------
    >>> round(usual_movement([0.70, 0.71, 0.70, 0.72, 0.71, 0.40, 0.71, 0.70]), 4)
    0.0593
    """
    finite = [value for value in past if not math.isnan(value)]
    movements = [abs(value - previous) for previous, value in pairwise(finite)]
    if len(movements) < _MIN_MOVEMENTS:
        return math.nan
    return _DEVIATIONS * NORMAL * median(movements)


def _was_worse(night: Night, key: Key) -> bool:
    """Return whether a model was found worse than the baseline."""
    return any(
        (one.kind, one.compared, Key.of(one)) == ("change", "baseline", key)
        for one in night.findings
    )


def _earlier_nights(night: Night, first: dt.date, history: History) -> list[Night]:
    """Read comparable nights of `DAYS` days, with values of all rows."""
    return [
        earlier
        for earlier in history.read(first, first + dt.timedelta(days=DAYS - 1), of=(ALL, None))
        if not earlier.provisional and not incomparable(night, earlier)
    ]


def _gated_keys(night: Night, *gates: Sequence[str]) -> set[Key]:
    """Return the models and measures with a gate on all rows.

    The first of `gates` are the conditions on the night itself.
    """
    gated = set()
    for index, condition in ((index, text) for index, each in enumerate(gates) for text in each):
        for term in gate(condition).terms:
            if term.slice != ALL:
                continue
            text = night.find(term.measure)
            for score in night.models if term.score is None else [term.score]:
                # A gate on a difference from the baseline does not judge the baseline.
                if index or term.field not in COMPARISON_FIELDS or score != night.baseline:
                    gated.add(Key(score, ALL, str(text)))
    return gated
