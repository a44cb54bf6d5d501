"""Headline numbers that no gate is on and that are not as usual, significantly."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from statistics import median

from fastrank_eval.analysis.attribution import CHANCE, has_chance
from fastrank_eval.apps.nightly.compare_nights import DAYS, NIGHTS, NORMAL, differing, from_earlier
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

#: The fewest movements that tell what is usual, and how many deviations are usual.
_LEAST_MOVEMENTS, _DEVIATIONS = 7, 4.0
#: A difference that is wide: a share of the value of the baseline, of AUC and GAUC above 0.5.
_WIDE = 0.25
_CHANGED = ("better", "worse", "higher", "lower")

#: A model and a measure on all rows.
_Of = tuple[str, str]


@dataclass(frozen=True)
class _Earlier:
    """The values of all rows of a night, and which were worse than the baseline as is not usual."""

    baseline: str | None
    values: dict[_Of, NightValue]
    worse: frozenset[_Of]


def changes(
    night: Night,
    gates: GateTexts,
    requested: Mapping[str, str],
    history: History | None,
    found_before: Sequence[EarlierFindings],
) -> list[Finding]:
    """Find numbers of all rows that have no gate and are not as usual.

    Two kinds of difference are significant, corrected (Holm) over every model and measure on all
    rows, and larger than usual:

    * From the baseline, for the worse. It lies farther from the median difference than the
      difference usually moves from one night to the next, both on the last 14 nights before it
      began on which this rule did not find it, however long ago. If there are fewer than eight,
      what is usual is not known, and it is wider than a quarter of the value of the baseline (of
      AUC and GAUC: of what that lies above 0.5).
    * From the latest earlier night of sound rows and equal conventions.

    Parameters
    ----------
    night : Night
    gates : GateTexts
    asked : mapping of str to str
        What measures were called whose text is another.
    history : History or None
    found_before : sequence of EarlierFindings
        The latest first.

    Returns
    -------
    list of Finding
        Those from the baseline with the date since when; each in the order of the values.
    """
    found = _worse(night, _with_gate(night, requested, gates.fail_if), history, found_before)
    told = {(one.score, one.measure) for one in found}
    first = night.date - dt.timedelta(days=DAYS)
    before = dict(list(_before(night, first, history).items())[-NIGHTS:])
    if not before:
        return found
    date, previous = next(reversed(before.items()))
    told |= _with_gate(
        night, requested, gates.fail_if, gates.fail_if_yesterday, gates.fail_if_last_week
    )
    now, was = _whole(night), previous.values
    for line in from_earlier("before", now.values(), was.values(), confidence_of(night)):
        of = line.score, line.measure
        # Without a standard error nothing is tested.
        if of in told or line.verdict not in _CHANGED or math.isnan(line.p_adjusted):
            continue
        usual = usual_movement([e.values[of].value for e in before.values() if of in e.values])
        if abs(line.delta) > usual:
            change = _finding(line, date.isoformat(), now[of], was[of].value)
            found.append(replace(change, limit=usual, number=abs(line.delta)))
    return found


def _worse(
    night: Night,
    with_gate: Set[_Of],
    history: History | None,
    found_before: Sequence[EarlierFindings],
) -> list[Finding]:
    """Find what is worse than the baseline by more than is usual."""
    now, found = _whole(night), []
    oldest = next(iter(history.rows()), night.date) if history is not None else night.date

    @cache
    def read(first: dt.date) -> dict[dt.date, _Earlier]:
        return _before(night, first, history)

    for line in night.compared:
        of, base = (line.score, line.measure), (line.baseline, line.measure)
        if (line.kind, line.slice, line.verdict) != ("baseline", ALL, "worse") or of in with_gate:
            continue
        change = _finding(line, line.baseline, now[of], now[base].value)
        (change,) = with_since(night.date, [change], found_before)
        past = _not_worse(of, base, change.since or night.date, oldest, read)
        usual = usual_movement(past)
        if math.isnan(usual):
            chance = CHANCE if has_chance(measure(line.measure)) else 0.0
            if abs(line.delta) > _WIDE * abs(now[base].value - chance):
                found.append(change)
            continue
        moved = line.delta - median(past)
        # The same way as the difference: for the worse.
        if abs(moved) > usual and (moved > 0) == (line.delta > 0):
            found.append(replace(change, limit=usual, number=abs(moved)))
    return found


def _not_worse(
    of: _Of,
    base: _Of,
    began: dt.date,
    oldest: dt.date,
    read: Callable[[dt.date], Mapping[dt.date, _Earlier]],
) -> list[float]:
    """Differences of the last nights before a date on which the model was not found worse."""
    past: list[float] = []
    # As far back as history goes: the nights just before may all have been worse.
    while len(past) < NIGHTS and began > oldest:
        began -= dt.timedelta(days=DAYS)
        here = [
            each.values[of].value - each.values[base].value
            for each in read(began).values()
            if each.baseline == base[0] and of not in each.worse
            if of in each.values and base in each.values
        ]
        past = [*(delta for delta in here if not math.isnan(delta)), *past]
    return past[-NIGHTS:]


def _finding(line: NightDifference, against: str, value: NightValue, base: float) -> Finding:
    return Finding(
        "change", score=line.score, slice=ALL, measure=line.measure, compared=line.kind,
        against=against, value=value.value, ci_low=value.ci_low, ci_high=value.ci_high, base=base,
        delta=line.delta, delta_ci_low=line.ci_low, delta_ci_high=line.ci_high,
        p_adjusted=line.p_adjusted, verdict=line.verdict,
    )  # fmt: skip


def usual_movement(past: Sequence[float]) -> float:
    """The largest change from one night to the next that is usual.

    ``4 * 1.4826 * median(abs(change))``: four standard deviations of changes that are normal, which
    a few bad nights do not raise.

    Parameters
    ----------
    past : sequence of float
        Values of nights, ascending by date; NaN among them is left out.

    Returns
    -------
    float
        NaN with fewer than eight.

    Examples
    --------
    >>> round(usual_movement([0.70, 0.71, 0.70, 0.72, 0.71, 0.40, 0.71, 0.70]), 4)
    0.0593
    """
    known = [value for value in past if not math.isnan(value)]
    moved = [abs(now - was) for was, now in pairwise(known)]
    if len(moved) < _LEAST_MOVEMENTS:
        return math.nan
    return _DEVIATIONS * NORMAL * median(moved)


def _before(night: Night, first: dt.date, history: History | None) -> dict[dt.date, _Earlier]:
    """Read the nights of some days from a date that it can be compared with, ascending."""
    if history is None:
        return {}
    last = first + dt.timedelta(days=DAYS - 1)
    found: dict[dt.date, _Earlier] = {}
    for text in night.measures:
        for earlier in history.read(first, last, of=(ALL, text)):
            sound = earlier.quality.rows and earlier.status != "data_quality"
            if sound and not differing(night, earlier):
                worse = frozenset(
                    (one.score, one.measure)
                    for one in earlier.findings
                    if (one.kind, one.compared) == ("change", "baseline")
                )
                new = _Earlier(earlier.baseline, {}, worse)
                found.setdefault(earlier.date, new).values.update(_whole(earlier))
    return dict(sorted(found.items()))


def _whole(night: Night) -> dict[_Of, NightValue]:
    return {(value.score, value.measure): value for value in night.values if value.slice == ALL}


def _with_gate(night: Night, requested: Mapping[str, str], *gates: Sequence[str]) -> set[_Of]:
    """The models and measures on all rows that gates are on: first those of the night itself."""
    known, found = list(night.measures), set()
    for at, condition in ((at, text) for at, each in enumerate(gates) for text in each):
        for term in terms_of(gate(condition).condition):
            if not isinstance(term, Term) or term.slice != ALL:
                continue
            text = find_computed(measure(term.measure), known, requested)
            for score in night.models if term.score is None else [term.score]:
                # A difference from the baseline says nothing of the baseline itself.
                if at or term.field not in COMPARISON_FIELDS or score != night.baseline:
                    found.add((score, str(text)))
    return found
