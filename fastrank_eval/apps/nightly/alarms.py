"""Raise alarms about nightly differences from the baseline.

At most 5 % of reports without a change have an alarm in a year.
"""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.apps.nightly.compare_nights import (
    comparison_rows,
    convention_differences,
    first_names,
)
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import (
    Finding,
    GateOutcome,
    Night,
    NightDifference,
    Settings,
    first_that_holds,
)
from fastrank_eval.apps.nightly.text import day_text, digits_for, nights_text, where
from fastrank_eval.measures.parser import measure as measure_of
from fastrank_eval.results.compared_value import direction_of
from fastrank_eval.results.report import amount
from fastrank_eval.stats.sequences import LEARNING, Alarm, alarms, correlation

#: Probability of an alarm in a year without a change, over all sequences together.
ALPHA = 0.05
#: Nights that are more correlated than this have more false alarms, and a note says so.
MOST_CORRELATION = 0.15
_VERBS = {"better": "got better", "worse": "got worse", "higher": "rose", "lower": "fell"}

#: Model, slicing, slice and measure.
_Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class _Sequence:
    """The differences of one model, slice and measure, ascending by date."""

    dates: list[dt.date]
    differences: list[float]
    errors: list[float]

    def add(self, date: dt.date, difference: float, se: float) -> None:
        """Add a night, if it has a difference and an error."""
        if math.isfinite(difference) and math.isfinite(se) and se > 0:
            self.dates.append(date)
            self.differences.append(difference)
            self.errors.append(se)

    def alarms(self, watched_since: Sequence[dt.date], alpha: float) -> tuple[Alarm, ...]:
        """Find the alarms of this sequence.

        Parameters
        ----------
        watched_since : sequence of datetime.date
            The first watched night of each sequence of the label, ascending.
        alpha : float
            Probability of an alarm in a year without a change, over these sequences together.
        """
        counts = np.array([max(1, bisect_right(watched_since, date)) for date in self.dates])
        return alarms(np.array(self.differences), np.array(self.errors), alpha / counts)

    def quiet(self, seen: Sequence[Alarm]) -> tuple[np.ndarray, np.ndarray]:
        """Return differences and errors after the last alarm."""
        first = seen[-1].night + 1 if seen else 0
        return np.array(self.differences[first:]), np.array(self.errors[first:])


def judge_alarms(
    night: Night, gates: Settings, history: History, *, labels: int = 1
) -> tuple[list[GateOutcome], list[Finding], list[str]]:
    """Judge the sequences of differences that end with a night.

    A sequence has the differences of one model, slice and measure from the baseline. Nights of
    rows that did not pass the checks, without complete labels, of other conventions and of another
    baseline are left out. Each sequence has an equal share of `ALPHA`: it is divided by the number
    of sequences with enough nights so far, and by the number of labels with an alarm.

    Parameters
    ----------
    night : Night
        With its differences and quality.
    gates : Settings
    history : History
    labels : int
        Number of labels of the report with an alarm.

    Returns
    -------
    outcomes : list of GateOutcome
        One, which fails on the night of an alarm; empty if no alarm is set.
    findings : list of Finding
        An alarm of this night has a condition, and so fails the night, unless the change began
        before an earlier alarm of this model. Then it is the same change. An alarm of an earlier
        night has no condition; it is a finding until the new level is learned.
    notes : list of str
        One if the differences of neighbouring nights are correlated.
    """
    if gates.alarm is None:
        return [], [], []
    condition = f'alarm = "{gates.alarm}"'
    reasons = {
        f"alarm_since is {gates.alarm_since}": night.date < (gates.alarm_since or night.date),
        "the rows of this night did not pass the checks": night.quality.flags
        or not night.quality.rows,
        "the labels of this night are not complete": night.provisional,
    }
    reason = first_that_holds(reasons)
    if reason:
        return [GateOutcome(condition, True, f"not judged: {reason}")], [], []
    sequences = _sequences(night, gates.alarm_since, history)
    most = max((len(one.dates) for one in sequences.values()), default=0)
    if most <= LEARNING:
        reason = f"history has {max(most - 1, 0)} of the {LEARNING} nights that levels need"
        return [GateOutcome(condition, True, f"not judged: {reason}")], [], []
    watched = {key: one for key, one in sequences.items() if len(one.dates) > LEARNING}
    since = sorted(one.dates[LEARNING] for one in watched.values())
    seen = {key: one.alarms(since, ALPHA / labels) for key, one in watched.items()}
    findings = _findings(night, watched, seen, condition)
    failing = [each for each in findings if each.condition]
    names = [
        f"{night.name_of(each.measure)} of {each.score}{where(each.slice)}" for each in failing
    ]
    outcome = GateOutcome(condition, not failing, "; ".join(first_names(names)))
    return [outcome], findings, _notes(watched, seen)


def _notes(
    sequences: Mapping[_Key, _Sequence], seen: Mapping[_Key, tuple[Alarm, ...]]
) -> list[str]:
    memory = correlation(one.quiet(seen[key]) for key, one in sequences.items())
    if not memory > MOST_CORRELATION:
        return []
    return [
        f"alarms: the differences of a night and of the night before are correlated "
        f"({memory:.2f}, above {MOST_CORRELATION}), so more than 5 % of years without a change may "
        "have an alarm"
    ]


def _sequences(night: Night, since: dt.date | None, history: History) -> Mapping[_Key, _Sequence]:
    """Read the differences from the baseline up to a night."""
    last = night.date - dt.timedelta(days=1)
    comparable = {
        earlier.date
        for earlier in history.heads(since, last)
        if earlier.status != "data_quality"
        and not earlier.provisional
        and earlier.baseline == night.baseline
        and not convention_differences(night, earlier)
    }
    sequences: dict[_Key, _Sequence] = {}
    for date, one in history.differences("baseline", since, last):
        if date in comparable:
            sequences.setdefault(_key(one), _Sequence([], [], [])).add(date, one.delta, one.se)
    for one in comparison_rows(night, "baseline"):
        sequences.setdefault(_key(one), _Sequence([], [], [])).add(night.date, one.delta, one.se)
    return sequences


def _findings(
    night: Night,
    sequences: Mapping[_Key, _Sequence],
    alarms_by_key: Mapping[_Key, tuple[Alarm, ...]],
    condition: str,
) -> list[Finding]:
    seen = [
        (sequences[key].dates[alarm.night], key, alarm)
        for key, found in alarms_by_key.items()
        for alarm in found
    ]
    # The first alarms of changes, by model.
    leading: dict[str, list[dt.date]] = {}
    findings = []
    for date, key, alarm in sorted(seen, key=lambda each: each[0]):
        one = sequences[key]
        earlier = [day for day in leading.get(key[0], []) if day < date]
        known = any(
            one.dates[alarm.start] <= day and (date - day).days <= LEARNING for day in earlier
        )
        if not known:
            leading.setdefault(key[0], []).append(date)
        raised = date == night.date
        if raised or (one.dates[-1] == night.date and len(one.dates) - 1 - alarm.night < LEARNING):
            fails = raised and not known
            findings.append(_finding(night, key, one, alarm, condition if fails else ""))
    return findings


def _finding(night: Night, key: _Key, one: _Sequence, alarm: Alarm, condition: str) -> Finding:
    score, by, slice_, measure = key
    date = one.dates[alarm.night]
    verdict = direction_of(1.0 if alarm.rises else -1.0, measure_of(measure))
    against = night.baseline or ""
    digits = digits_for(abs(alarm.after - alarm.before))
    sentence = (
        f"{night.name_of(measure)} of {score}{where(slice_)} {_VERBS[verdict]} against {against}: "
        f"the mean difference is {amount(alarm.after, digits, sign=True)}, and was "
        f"{amount(alarm.before, digits, sign=True)} over {nights_text(alarm.nights)} before"
    )
    if date != night.date:
        sentence += f"; the alarm was on {day_text(str(date), night.date)}"
    finding = Finding(
        "alarm",
        condition,
        *(score, by, slice_, measure),
        compared="baseline",
        against=against,
        verdict=verdict,
        limit=alarm.before,
        number=alarm.after,
        detail=sentence,
        since=one.dates[alarm.start],
        nights=len(one.dates) - alarm.start,
    )
    return finding.with_numbers(night.value_of(score, slice_, measure), None)


def _key(one: NightDifference) -> _Key:
    return one.score, one.by or "", one.slice, one.measure
