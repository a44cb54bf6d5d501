"""What a night keeps so that nights are merged, not averaged: its saved state.

A group of a merged number is a user's rows of one night, and groups are independent clusters.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from fastrank_eval.errors import HistoryError, MergeError, SourceError
from fastrank_eval.evaluation import Evaluation
from fastrank_eval.report.nights import NightValue
from fastrank_eval.report.places import values_of
from fastrank_eval.saved_states import State
from fastrank_eval.state_of_run import state_of_run
from fastrank_eval.tally import Tally

__all__ = ["STATES", "Merged", "merged", "read_states", "state_of"]

#: What may be kept: sums of slices too; of all rows only; of those only sums over groups, whose
#: size does not grow with rows.
STATES = ("slices", "rows", "groups")


@dataclass(frozen=True)
class Merged:
    """What several nights come to together.

    Parameters
    ----------
    values : tuple of NightValue
        Of all rows and of each slice.
    notes : tuple of str
        What could not be merged, and why.
    """

    values: tuple[NightValue, ...] = ()
    notes: tuple[str, ...] = ()


def state_of(
    done: Evaluation, source: object, hidden: Collection[str], keep: str = "slices"
) -> bytes:
    """Keep what a run has added up.

    Parameters
    ----------
    done : Evaluation
    source : object
        As `run` was given it.
    hidden : collection of str
        Measures of groups that are left out: no other run knows them.
    keep : str
        One of `STATES`.

    Returns
    -------
    bytes
        Of `State.to_bytes`.
    """
    chosen = [
        m
        for m, measure in enumerate(done.plan.measures)
        if str(measure) not in hidden and (keep != "groups" or not measure.pooled)
    ]
    plan = replace(done.plan, measures=tuple(done.plan.measures[m] for m in chosen))
    tally = Tally(plan, done.tally.shared)
    tally.whole = done.tally.whole.of_measures(plan, chosen)
    tally.slices = [sums.of_measures(plan, chosen) for sums in done.tally.slices]
    asked = {name: text for name, text in done.asked.items() if text not in hidden}
    state = state_of_run(replace(done, plan=plan, tally=tally, asked=asked), source)
    return (state if keep == "slices" else state.without_slices()).to_bytes()


def read_states(nights: Mapping[dt.date, bytes], *, slices: bool = True) -> dict[dt.date, State]:
    """The states that `state_of` kept, with or without those of slices.

    Raises
    ------
    HistoryError
        A state is damaged, or of a later version.
    """
    read = {date: _read(date, content) for date, content in nights.items()}
    return read if slices else {date: state.without_slices() for date, state in read.items()}


def merged(nights: Mapping[dt.date, State], confidence: float, min_groups: int = 1) -> Merged:
    """The values of several nights together: to the last bit those of one run over all rows.

    Parameters
    ----------
    nights : mapping of datetime.date to State
        Of `read_states`. Nights of other conventions, measures or models than the latest are left
        out, and so are slices that not all of them cut in the same way, such as those between
        quantiles of each night.
    confidence : float
    min_groups : int
        Slices of fewer groups are left out.
    """
    # Empty nights add nothing, and their columns may be of other types.
    filled = {date: state for date, state in nights.items() if state.rows} or dict(nights)
    if not filled:
        return Merged()
    alike, notes = _cut_alike(filled)
    latest = _with_slices(filled[max(filled)], alike)
    others = []
    for date, state in sorted(filled.items())[:-1]:
        other = _with_slices(state, alike)
        try:
            latest.check_mergeable(other)
        except MergeError as error:
            notes.append(f"{date} is left out: {error}")
        else:
            others.append(other)
    # A night whose rows are those of another is told by its drift, not here.
    whole = latest.merge(*others, allow_repeated=True)
    done = whole.evaluation(confidence=confidence, min_groups=min_groups)
    return Merged(tuple(values_of(done, frozenset())), tuple(notes))


def _read(date: dt.date, content: bytes) -> State:
    try:
        return State.from_bytes(content, name=f"the state of {date}")
    except SourceError as error:
        raise HistoryError(f"{error} Run that night again, which replaces it.") from error


def _cut_alike(states: Mapping[dt.date, State]) -> tuple[list[str], list[str]]:
    """The slicings that are the same on all nights, and what is said of the others."""
    each = [state.slicings for state in states.values()]
    every: Sequence[str] = list(dict.fromkeys(by for one in each for by in one))
    alike = [by for by in every if all(by in one and one[by] == each[-1].get(by) for one in each)]
    notes = [
        f"slices by {by} are left out: their edges are not the same on all nights"
        if all(by in one for one in each)
        else f"slices by {by} are left out: not all nights have them"
        for by in every
        if by not in alike
    ]
    return alike, notes


def _with_slices(state: State, chosen: Sequence[str]) -> State:
    others = [by for by in state.slicings if by not in chosen]
    return state.without_slices(*others) if others else state
