"""Find significant and unusual changes of headline numbers without a gate."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from statistics import median

from fastrank_eval.analysis.attribution import CHANCE, has_chance
from fastrank_eval.apps.nightly.compare_nights import (
    DAYS,
    NIGHTS,
    NORMAL,
    convention_differences,
    from_earlier,
)
from fastrank_eval.apps.nightly.findings import with_since
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import (
    EarlierFindings,
    Finding,
    GateTexts,
    Night,
    NightDifference,
    NightValue,
)
from fastrank_eval.apps.nightly.text import confidence_of
from fastrank_eval.measures.parser import find_computed, measure
from fastrank_eval.results.gate_parser import ALL, COMPARISON_FIELDS, Term, terms_of
from fastrank_eval.results.gates import gate

__all__ = ["changes", "usual_movement"]

#: The fewest movements for a usual movement, and the number of deviations that are usual.
_MIN_MOVEMENTS, _DEVIATIONS = 7, 4.0
#: A wide difference, as a share of the value of the baseline (for AUC and GAUC: less 0.5).
_WIDE_SHARE = 0.25
_SIGNIFICANT = ("better", "worse", "higher", "lower")

#: A model and a measure.
_Key = tuple[str, str]


@dataclass(frozen=True)
class _EarlierValues:
    """Values of all rows of an earlier night, and the worse models."""

    baseline: str | None
    values: dict[_Key, NightValue]
    worse: frozenset[_Key]


def changes(
    night: Night,
    gates: GateTexts,
    requested: Mapping[str, str],
    history: History | None,
    earlier_findings: Sequence[EarlierFindings],
) -> list[Finding]:
    """Find numbers of all rows without a gate that are not as usual.

    Both rules need significance, with p corrected (Holm) over every model and measure on all rows,
    and a difference that is larger than usual:

    * Worse than the baseline. The difference is farther from its median than its usual movement
      from one night to the next. Both come from the last 14 nights before it began on which this
      rule did not find it, however old. With fewer than eight such nights, the difference must
      instead be larger than a quarter of the value of the baseline (for AUC and GAUC: of the value
      less 0.5).
    * Changed since the latest earlier night of sound rows and equal conventions.

    Parameters
    ----------
    night : Night
    gates : GateTexts
    requested : mapping of str to str
        Computed measure by the name that was requested, where they differ.
    history : History or None
    earlier_findings : sequence of EarlierFindings
        The latest first.

    Returns
    -------
    list of Finding
        Changes from the baseline with their first date, then changes since the night before; each
        in the order of the values.
    """
    findings = _worse_than_baseline(
        night, _gated_keys(night, requested, gates.fail_if), history, earlier_findings
    )
    reported = {(one.score, one.measure) for one in findings}
    first = night.date - dt.timedelta(days=DAYS)
    before = dict(list(_earlier_values(night, first, history).items())[-NIGHTS:])
    if not before:
        return findings
    date, previous = next(reversed(before.items()))
    reported |= _gated_keys(
        night, requested, gates.fail_if, gates.fail_if_yesterday, gates.fail_if_last_week
    )
    now, was = _overall_values(night), previous.values
    for difference in from_earlier("before", now.values(), was.values(), confidence_of(night)):
        key = difference.score, difference.measure
        # Without a standard error there is no test.
        if (
            key in reported
            or difference.verdict not in _SIGNIFICANT
            or math.isnan(difference.p_adjusted)
        ):
            continue
        usual = usual_movement([e.values[key].value for e in before.values() if key in e.values])
        if abs(difference.delta) > usual:
            change = _finding(difference, date.isoformat(), now[key], was[key].value)
            findings.append(replace(change, limit=usual, number=abs(difference.delta)))
    return findings


def _worse_than_baseline(
    night: Night,
    gated: Set[_Key],
    history: History | None,
    earlier_findings: Sequence[EarlierFindings],
) -> list[Finding]:
    """Find models that are unusually worse than the baseline."""
    now, findings = _overall_values(night), []
    oldest = next(iter(history.rows()), night.date) if history is not None else night.date

    @cache
    def read(first: dt.date) -> dict[dt.date, _EarlierValues]:
        return _earlier_values(night, first, history)

    for difference in night.compared:
        key, base_key = (
            (difference.score, difference.measure),
            (difference.baseline, difference.measure),
        )
        if (difference.kind, difference.slice, difference.verdict) != (
            "baseline",
            ALL,
            "worse",
        ) or key in gated:
            continue
        change = _finding(difference, difference.baseline, now[key], now[base_key].value)
        (change,) = with_since(night.date, [change], earlier_findings)
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
    key: _Key,
    base_key: _Key,
    since: dt.date,
    oldest: dt.date,
    read: Callable[[dt.date], Mapping[dt.date, _EarlierValues]],
) -> list[float]:
    """Return differences of nights on which a model was not found worse."""
    deltas: list[float] = []
    # Go back to the start of history: all recent nights may have been worse.
    while len(deltas) < NIGHTS and since > oldest:
        since -= dt.timedelta(days=DAYS)
        new_deltas = [
            each.values[key].value - each.values[base_key].value
            for each in read(since).values()
            if each.baseline == base_key[0] and key not in each.worse
            if key in each.values and base_key in each.values
        ]
        deltas = [*(delta for delta in new_deltas if not math.isnan(delta)), *deltas]
    return deltas[-NIGHTS:]


def _finding(difference: NightDifference, against: str, value: NightValue, base: float) -> Finding:
    return Finding(
        "change", score=difference.score, slice=ALL, measure=difference.measure,
        compared=difference.kind,
        against=against, value=value.value, ci_low=value.ci_low, ci_high=value.ci_high, base=base,
        delta=difference.delta, delta_ci_low=difference.ci_low, delta_ci_high=difference.ci_high,
        p_adjusted=difference.p_adjusted, verdict=difference.verdict,
    )  # fmt: skip


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


def _earlier_values(
    night: Night, first: dt.date, history: History | None
) -> dict[dt.date, _EarlierValues]:
    """Read comparable nights of `DAYS` days from a date, ascending."""
    if history is None:
        return {}
    last = first + dt.timedelta(days=DAYS - 1)
    result: dict[dt.date, _EarlierValues] = {}
    for text in night.measures:
        for earlier in history.read(first, last, of=(ALL, text)):
            sound = earlier.quality.rows and earlier.status != "data_quality"
            if sound and not convention_differences(night, earlier):
                worse = frozenset(
                    (one.score, one.measure)
                    for one in earlier.findings
                    if (one.kind, one.compared) == ("change", "baseline")
                )
                new = _EarlierValues(earlier.baseline, {}, worse)
                result.setdefault(earlier.date, new).values.update(_overall_values(earlier))
    return dict(sorted(result.items()))


def _overall_values(night: Night) -> dict[_Key, NightValue]:
    return {(value.score, value.measure): value for value in night.values if value.slice == ALL}


def _gated_keys(night: Night, requested: Mapping[str, str], *gates: Sequence[str]) -> set[_Key]:
    """Return the models and measures with a gate on all rows.

    The first of `gates` are the conditions on the night itself.
    """
    measures, gated = list(night.measures), set()
    for index, condition in ((index, text) for index, each in enumerate(gates) for text in each):
        for term in terms_of(gate(condition).condition):
            if not isinstance(term, Term) or term.slice != ALL:
                continue
            text = find_computed(measure(term.measure), measures, requested)
            for score in night.models if term.score is None else [term.score]:
                # A gate on a difference from the baseline does not judge the baseline.
                if index or term.field not in COMPARISON_FIELDS or score != night.baseline:
                    gated.add((score, str(text)))
    return gated
