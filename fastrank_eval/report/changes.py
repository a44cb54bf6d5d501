"""Changes of headline numbers that no gate is on: significant, and larger than usual."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from fastrank_eval.gate_tree import ALL, COMPARISON_FIELDS, Term, terms_of
from fastrank_eval.gates import gate
from fastrank_eval.measures.text import computed, measure
from fastrank_eval.report.config import GateTexts
from fastrank_eval.report.differences import from_earlier
from fastrank_eval.report.drift import DAYS, NIGHTS, NORMAL
from fastrank_eval.report.earlier_nights import differing
from fastrank_eval.report.history import History
from fastrank_eval.report.nights import Finding, Night, NightValue
from fastrank_eval.report.wording import confidence_of

__all__ = ["changes", "usual_movement"]

#: The fewest movements that tell what is usual, and how many deviations are usual.
_LEAST_MOVEMENTS, _DEVIATIONS = 7, 4.0
_CHANGED = ("better", "worse", "higher", "lower")

#: The values of all rows of a night, by model and measure.
_Whole = Mapping[tuple[str, str], NightValue]


def changes(
    night: Night, gates: GateTexts, asked: Mapping[str, str], history: History
) -> list[Finding]:
    """Find numbers of all rows that have no gate and changed since the night before.

    Differences from the latest earlier night of sound rows and equal conventions that are
    significant, corrected (Holm) over every model and measure on all rows, and larger than the
    usual movement.

    Parameters
    ----------
    night : Night
    gates : GateTexts
    asked : mapping of str to str
        What measures were called whose text is another.
    history : History

    Returns
    -------
    list of Finding
        In the order of the values.
    """
    before = _before(night, history)
    if not before:
        return []
    date, previous = next(reversed(before.items()))
    with_gate, found = _with_gate(night, gates, asked), []
    now = _whole(night)
    for line in from_earlier("before", now.values(), previous.values(), confidence_of(night)):
        of = line.score, line.measure
        # Without a standard error nothing is tested.
        if of in with_gate or line.verdict not in _CHANGED or math.isnan(line.p_adjusted):
            continue
        past = [values[of].value for values in before.values() if of in values]
        usual = usual_movement(past)
        if abs(line.delta) > usual:
            value = now[of]
            found.append(
                Finding(
                    "change", score=line.score, slice=ALL, measure=line.measure,
                    compared="before", against=date.isoformat(), value=value.value,
                    ci_low=value.ci_low, ci_high=value.ci_high, base=previous[of].value,
                    delta=line.delta, delta_ci_low=line.ci_low, delta_ci_high=line.ci_high,
                    p_adjusted=line.p_adjusted, verdict=line.verdict, limit=usual,
                    number=abs(line.delta),
                )
            )  # fmt: skip
    return found


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


def _before(night: Night, history: History) -> dict[dt.date, _Whole]:
    """The last nights that it can be compared with, ascending by date."""
    first, last = night.date - dt.timedelta(days=DAYS), night.date - dt.timedelta(days=1)
    found: dict[dt.date, dict[tuple[str, str], NightValue]] = {}
    for text in night.measures:
        for earlier in history.read(first, last, of=(ALL, text)):
            sound = earlier.quality.rows and earlier.status != "data_quality"
            if sound and not differing(night, earlier):
                found.setdefault(earlier.date, {}).update(_whole(earlier))
    dates = sorted(found)[-NIGHTS:]
    return {date: found[date] for date in dates}


def _whole(night: Night) -> dict[tuple[str, str], NightValue]:
    return {(value.score, value.measure): value for value in night.values if value.slice == ALL}


def _with_gate(night: Night, gates: GateTexts, asked: Mapping[str, str]) -> set[tuple[str, str]]:
    """The models and measures that a gate is on, on all rows."""
    known, found = list(night.measures), set()
    texts = (gates.fail_if, gates.fail_if_yesterday, gates.fail_if_last_week)
    for at, condition in ((at, text) for at, each in enumerate(texts) for text in each):
        for term in terms_of(gate(condition).condition):
            if not isinstance(term, Term) or term.slice != ALL:
                continue
            text = computed(measure(term.measure), known, asked)
            for score in night.models if term.score is None else [term.score]:
                # A difference from the baseline says nothing of the baseline itself.
                if at or term.field not in COMPARISON_FIELDS or score != night.baseline:
                    found.add((score, str(text)))
    return found
