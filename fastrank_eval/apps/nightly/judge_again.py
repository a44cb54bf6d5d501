"""Judge provisional nights again, and compare later nights with them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import field, replace

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import FastRankEvalError, SourceError
from fastrank_eval.apps.nightly.compare_nights import comparison_rows, convention_differences
from fastrank_eval.apps.nightly.config import NightlyConfig
from fastrank_eval.apps.nightly.drift import KIND, Distributions, distributions_from_bytes
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.label_delay import is_complete
from fastrank_eval.apps.nightly.night import EARLIER, NO_LABELS, Finding, Night, SavedStates

#: The time after labels are complete in which a night that cannot be judged again is tried again.
_TRIES = dt.timedelta(days=7)
#: Selects nights that are early; see `Night.is_early`.
_IS_EARLY = (
    "json_extract(document, '$.provisional') "
    f"OR json_extract(document, '$.conventions.labels') = '{NO_LABELS}'"
)
_NOT_AGAIN = "not judged again with complete labels: "


@dataclass(frozen=True)
class NightRun:
    """The results of a run.

    Parameters
    ----------
    night : Night
        The night; after the run as it is stored.
    states : SavedStates
        The states to merge it with other nights.
    few_scores : tuple of Finding
        Models with too few distinct scores.
    distributions : dict
        Scores and columns to compare with the nights before.
    again : tuple of Night
        Later nights that were compared again; see `compare_again`.
    """

    night: Night
    states: SavedStates
    few_scores: tuple[Finding, ...] = ()
    distributions: Distributions = field(default_factory=dict)
    again: tuple[Night, ...] = ()


#: Compares and judges an evaluated night.
Judge = Callable[[NightRun], Night]


def due_nights(config: NightlyConfig, now: dt.datetime) -> dict[dt.date, tuple[str, ...]]:
    """Return the stored nights to judge again, ascending.

    Parameters
    ----------
    config : NightlyConfig
    now : datetime.datetime
        With a time zone.

    Returns
    -------
    dict of datetime.date to tuple of str
        Provisional nights, and nights without labels, whose labels are complete, with these labels
        (an empty text in a report of one label). A night that could not be judged again is among
        them for a week. Without ``labels_complete_after`` labels are complete at once, and nights
        without labels wait for a run of their date. Empty if the history cannot be read: the run
        of a night reports the error.
    """
    due: dict[dt.date, tuple[str, ...]] = {}
    if not config.history.exists():
        return due
    with suppress(FastRankEvalError), History(config.history) as history:
        history.claim(config.report, config.labels or [config.options["label"]])
        for each in config.for_labels():
            after = each.labels_complete_after
            for night in history.of(each.label).heads(condition=_IS_EARLY):
                waits = night.provisional or after is not None
                if waits and _is_due(night, after, now):
                    due[night.date] = (*due.get(night.date, ()), each.label)
    return dict(sorted(due.items()))


def _is_due(night: Night, after: dt.timedelta | None, now: dt.datetime) -> bool:
    tries = not is_complete(night.date, (after or dt.timedelta()) + _TRIES, now)
    return is_complete(night.date, after, now) and (tries or not _was_tried(night))


def _was_tried(night: Night) -> bool:
    return any(note.startswith(_NOT_AGAIN) for note in night.notes)


def keep_provisional(config: NightlyConfig, date: dt.date, reason: str) -> Night | None:
    """Note on a night that it could not be judged again.

    Parameters
    ----------
    config : NightlyConfig
    date : datetime.date
    reason : str

    Returns
    -------
    Night or None
        The night with the note; None if it has one, or if another run has judged it meanwhile.
    """
    with closing(History(config.history).of(config.label)) as history, history.transaction():
        stored = [night for night in history.read(date, date) if night.is_early]
        if not stored or _was_tried(stored[0]):
            return None
        night = replace(stored[0], notes=(*stored[0].notes, _NOT_AGAIN + reason.removesuffix(".")))
        history.write(night, history.states(date))
        return night


def compare_again(night: Night, history: History, judge: Judge) -> tuple[Night, ...]:
    """Compare later complete nights with a night that was provisional.

    A complete night is not compared with a provisional one until that is judged again. Its rows
    are not read.

    Parameters
    ----------
    night : Night
        A night that was stored just now, in the same transaction.
    history : History
    judge : callable
        Compares and judges a night.

    Returns
    -------
    tuple of Night
        The nights that were written, ascending. Nights of other conventions, measures or models
        are left as they are.
    """
    if night.provisional or night.judged_before is None:
        return ()
    with suppress(OverflowError):
        dates = {kind: night.date + dt.timedelta(days=days) for kind, days in EARLIER.items()}
        return tuple(
            _judge_stored(later, night, history, judge)
            for kind, date in dates.items()
            for later in history.read(date, date)
            if not comparison_rows(later, kind) and _can_be_compared(later, night)
        )
    return ()


def _can_be_compared(later: Night, night: Night) -> bool:
    same = (later.models, later.baseline, later.measures) == (
        night.models, night.baseline, night.measures
    )  # fmt: skip
    complete = later.has_labels and not later.provisional and later.quality.rows > 0
    return complete and same and not convention_differences(later, night)


def _judge_stored(later: Night, night: Night, history: History, judge: Judge) -> Night:
    """Judge a night from the history and write it."""
    states, distributions = history.states(later.date), {}
    if KIND in states.contents:
        with suppress(SourceError):
            name = f"the drift state of {later.date}"
            distributions = distributions_from_bytes(states.contents[KIND], name)
    few = tuple(each.without_measure() for each in later.findings if each.kind == "scores")
    evaluated = replace(
        later,
        compared=tuple(comparison_rows(later, "baseline")),
        notes=(f"compared again: the labels of {night.date} are complete",),
        gates=(),
        findings=(),
        drift=(),
    )
    judged = judge(NightRun(evaluated, states, few, distributions))
    history.write(judged, states)
    return judged
