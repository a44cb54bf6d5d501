"""Judge a night as provisional until its labels are complete."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace

from fastrank_eval._lib.errors import HistoryError, SourceError
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import (
    EARLIER,
    FAILS_SO_FAR,
    LABEL_LIMITS,
    NO_LABELS_NOTE,
    NO_ROWS,
    EarlierJudgement,
    GateOutcome,
    Night,
    SavedStates,
    Settings,
)
from fastrank_eval.apps.nightly.saved_nights import (
    PROVISIONAL,
    provisional_content,
    provisional_values,
)
from fastrank_eval.apps.nightly.text import STATUSES, ago, day_text, reads_measures
from fastrank_eval.results.report import amount

_DAY, _HOUR = dt.timedelta(days=1), dt.timedelta(hours=1)
#: Provisional nights are compared if the ages of their labels differ by at most this share of the
#: time until labels are complete.
_AGE_SHARE = 1 / 12
_DIGITS = 4


def is_complete(date: dt.date, after: dt.timedelta | None, now: dt.datetime) -> bool:
    """Return whether the labels of a night are complete.

    Parameters
    ----------
    date : datetime.date
        The night ends at 00:00 UTC of the next day.
    after : datetime.timedelta or None
        The time from the end of the night until its labels are complete; None if they are at once.
    now : datetime.datetime
        With a time zone.

    Examples
    --------
    >>> now = dt.datetime(2026, 11, 13, 5, 30, tzinfo=dt.UTC)
    >>> [is_complete(dt.date(2026, 11, day), dt.timedelta(days=3), now) for day in (9, 10)]
    [True, False]
    """
    return after is None or _age(date, now) >= after


def _age(date: dt.date, now: dt.datetime) -> dt.timedelta:
    """Return the time since the end of a night."""
    return now - dt.datetime.combine(date, dt.time(), dt.UTC) - _DAY


def notes_on_end(date: dt.date, now: dt.datetime) -> list[str]:
    """Say that a night is not over; nothing if it is.

    Examples
    --------
    >>> notes_on_end(dt.date(2026, 11, 19), dt.datetime(2026, 11, 19, 14, 30, tzinfo=dt.UTC))
    ['the night is not over: 2026-11-19 ends at 24:00 UTC, and it was judged on 2026-11-19 at \
14:30 UTC; run it again when it is over']
    """
    if _age(date, now) >= dt.timedelta():
        return []
    judged = now.astimezone(dt.UTC)
    return [
        f"the night is not over: {date} ends at 24:00 UTC, and it was judged on {judged:%Y-%m-%d} "
        f"at {judged:%H:%M} UTC; run it again when it is over"
    ]


def with_label_delay(night: Night, after: dt.timedelta | None, now: dt.datetime) -> Night:
    """Add its label delay to an evaluated night.

    Parameters
    ----------
    night : Night
    after, now
        As in `is_complete`.

    Returns
    -------
    Night
        Provisional if its labels are not complete, or if it has none.
    """
    if after is None:
        return night
    try:
        complete = dt.datetime.combine(night.date, dt.time(), dt.UTC) + _DAY + after
    except OverflowError:
        complete = dt.datetime.max.replace(tzinfo=dt.UTC)
    night = replace(
        night,
        provisional=not (night.has_labels and is_complete(night.date, after, now)),
        labels_complete=complete,
        label_age=_age(night.date, now) / _HOUR,
    )
    if not night.provisional:
        return night
    limits = night.conventions.get("quality", {})
    limits_of_rows = {name: limit for name, limit in limits.items() if name not in LABEL_LIMITS}
    # The text of a provisional night says when it is judged again.
    notes = tuple(note for note in night.notes if note != NO_LABELS_NOTE)
    return replace(night, conventions={**night.conventions, "quality": limits_of_rows}, notes=notes)


def check_order(night: Night, stored: Night | None) -> None:
    """Refuse to replace a night by one that has fewer labels or no rows.

    Parameters
    ----------
    night : Night
    stored : Night or None
        The night of the same date in the history.

    Raises
    ------
    HistoryError
        A concurrent run has judged the night later, with complete labels.
    SourceError
        The rows of a provisional night are gone.
    """
    if stored is None:
        return
    if night.provisional and not stored.provisional and stored.label_age > night.label_age:
        raise HistoryError(
            "another run has judged the night later, with complete labels; nothing was written."
        )
    rows = stored.quality.rows
    if stored.provisional and not night.provisional and rows and not night.quality.rows:
        raise SourceError(
            f"the night has no rows now, and had {rows:,}; it stays provisional in the history."
        )


def with_earlier_judgement(
    night: Night, states: SavedStates, stored: Night | None, history: History
) -> tuple[Night, SavedStates]:
    """Store the provisional numbers of a night that is judged again.

    Parameters
    ----------
    night : Night
    states : SavedStates
        The states of the night.
    stored : Night or None
        The night of the same date in the history.
    history : History

    Returns
    -------
    night : Night
        With the status and the values on all rows of the provisional night.
    states : SavedStates
        With all its values. Later provisional nights are compared with them.
    """
    if stored is None or night.provisional:
        return night, states
    if stored.provisional or (night.labels_complete is not None and not stored.has_labels):
        values = [(v.score, v.measure, v.value) for v in stored.overall]
        before: EarlierJudgement | None = EarlierJudgement(stored.status, tuple(values))
        content = provisional_content(stored) if stored.values else None
    else:
        before, content = stored.judged_before, history.state(night.date, PROVISIONAL)
    if content is not None:
        states = replace(states, contents={**states.contents, PROVISIONAL: content})
    return replace(night, judged_before=before), states


def with_comparable_labels(
    night: Night, earlier: Night, history: History
) -> tuple[Night | None, str]:
    """Return the numbers of an earlier night with labels of the same age.

    Parameters
    ----------
    night, earlier : Night
    history : History

    Returns
    -------
    earlier : Night or None
        A complete night has complete earlier nights. A provisional night has the earlier night as
        it was when it was provisional too.
    reason : str
        The reason if there is none.
    """
    date, age = earlier.date, earlier.label_age
    if not night.provisional:
        if earlier.provisional:
            return None, f"the labels of {date} are not complete"
        return earlier, ""
    if not earlier.provisional:
        content = history.state(date, PROVISIONAL)
        if content is None:
            return None, f"the labels of {date} are complete, and those of this night are not"
        try:
            age, values = provisional_values(content)
        except (ValueError, TypeError, LookupError):
            return None, f"the provisional numbers of {date} cannot be read"
        earlier = replace(earlier, values=values)
    complete = night.labels_complete or dt.datetime.max.replace(tzinfo=dt.UTC)
    after = _age(night.date, complete) / _HOUR
    if not abs(night.label_age - age) <= after * _AGE_SHARE:
        return None, (
            f"the labels of {date} were {age:.0f} hours old when it was judged, and those of this "
            f"night are {night.label_age:.0f} hours old"
        )
    return earlier, ""


def gate_so_far(outcome: GateOutcome, night: Night, gates: Settings) -> GateOutcome:
    """Let a failed gate on measures not fail a provisional night.

    Parameters
    ----------
    outcome : GateOutcome
        Of a condition of the configuration.
    night : Night
    gates : Settings

    Returns
    -------
    GateOutcome
        A gate on the number of rows or groups alone fails the night, and so does every gate with
        ``provisional = "fail"``.
    """
    counts = not night.provisional or gates.provisional == "fail" or not reads_measures(outcome)
    if outcome.passed or counts:
        return outcome
    if outcome.reason == NO_ROWS:
        return replace(outcome, passed=True)
    reason = f"{FAILS_SO_FAR}: {outcome.reason}" if outcome.reason else FAILS_SO_FAR
    return replace(outcome, passed=True, reason=reason)


def status_name(night: Night) -> str:
    """Return the name of the status of a night, with its label delay."""
    name = STATUSES[night.status].name
    if night.status == "provisional":
        return f"{name} regression" if _gates_so_far(night) else name
    return f"{name}, provisional" if night.provisional else name


def label_delay_texts(night: Night) -> list[str]:
    """Describe when a provisional night is judged again, or what it was.

    Returns
    -------
    list of str
        Empty for a night that was judged once, with complete labels.
    """
    before = night.judged_before
    if before is not None:
        status = STATUSES[before.status].name.lower()
        was = status if before.status == "provisional" else f"{status}, provisional"
        changes = _changes(night, before) if before.values else ["without labels"]
        return [f"judged again with complete labels: was {'; '.join([was, *changes])}"]
    if not night.provisional or night.labels_complete is None:
        return []
    complete = night.labels_complete
    day = day_text(str(complete.date()), night.date)
    without = "" if night.has_labels else "judged without labels; "
    texts = [
        f"{without}labels are complete on {day}, {complete:%H:%M} UTC, and the next run after that "
        "judges the night again"
    ]
    kinds = [ago(kind) for kind in EARLIER if any(d.kind == kind for d in night.compared)]
    if kinds:
        nights = " and ".join(kinds)
        texts.append(f"compared with the provisional numbers of {nights}, with labels as old")
    gates = _gates_so_far(night)
    return texts + [f"gate {FAILS_SO_FAR}: {gate.text}{why}" for gate, why in gates]


def _gates_so_far(night: Night) -> list[tuple[GateOutcome, str]]:
    """Return gates on measures that fail with the labels so far."""
    return [
        (outcome, outcome.reason.removeprefix(FAILS_SO_FAR))
        for outcome in night.gates
        if outcome.passed and outcome.reason.startswith(FAILS_SO_FAR)
    ]


def _changes(night: Night, before: EarlierJudgement) -> list[str]:
    """Format the first measure of each model before and after."""
    old = {(score, measure): value for score, measure, value in before.values}
    return [
        f"{night.name_of(v.measure)} of {v.score} {amount(was, _DIGITS)} → "
        f"{amount(v.value, _DIGITS)}"
        for v in night.overall
        if v.measure in night.measures[:1]
        and (was := old.get((v.score, v.measure))) is not None
        and not (math.isnan(was) and math.isnan(v.value))
    ]
