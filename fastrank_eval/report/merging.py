"""Nights added up, the latest first and no more of them in memory than needed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from fastrank_eval.errors import MergeError, SourceError
from fastrank_eval.report.nights import NightValue
from fastrank_eval.report.places import values_of
from fastrank_eval.saved_states import State

__all__ = ["Merged", "Merging"]

#: Bytes of kept states from which they are added up before others are read.
AT_ONCE = 1 << 25


@dataclass(frozen=True)
class Merged:
    """What several nights come to together.

    Parameters
    ----------
    values : tuple of NightValue
        Of all rows and of each slice.
    dates : tuple of datetime.date
        Of the nights, ascending.
    notes : tuple of str
        What could not be merged, and why.
    """

    values: tuple[NightValue, ...] = ()
    dates: tuple[dt.date, ...] = ()
    notes: tuple[str, ...] = ()


class Merging:
    """The sum of nights that are added one by one.

    Nights of other conventions, measures or models than the latest are left out, and so are slices
    that not all of them cut in the same way, such as those between quantiles of each night.
    """

    def __init__(self) -> None:
        self._total: State | None = None
        self._latest: State | None = None
        self._waiting: list[tuple[dt.date, State]] = []
        self._bytes = 0
        self._dates: list[dt.date] = []
        self._notes: list[str] = []
        self._gone: set[str] = set()

    def add(self, date: dt.date, content: bytes | None) -> None:
        """Add a night, or note why it is left out.

        Parameters
        ----------
        date : datetime.date
            The latest comes first.
        content : bytes or None
            Of `State.to_bytes`; None where the night kept nothing.
        """
        if content is None:
            self._notes.append(f"{date} is left out: it kept nothing to merge; run it again")
            return
        try:
            state = State.from_bytes(content, name=f"the state of {date}")
        except SourceError:
            why = "what it kept to be merged cannot be read"
            self._notes.append(f"{date} is left out: {why}; run it again, which replaces it")
            return
        # Empty nights add nothing, and their columns may be of other types.
        if not state.rows:
            return
        whole = state.without_slices()
        try:
            if self._latest is None:
                self._latest = whole
            self._latest.check_mergeable(whole)
        except MergeError as error:
            self._notes.append(f"{date} is left out: {error}")
            return
        self._waiting.append((date, state))
        self._bytes += len(content)
        if self._bytes >= AT_ONCE:
            self._settle()

    def found(self, confidence: float, min_groups: int = 1) -> Merged:
        """What all nights come to that were added so far: to the last bit one run over their rows.

        Parameters
        ----------
        confidence : float
        min_groups : int
            Slices of fewer groups are left out.
        """
        self._settle()
        if self._total is None:
            return Merged(notes=tuple(self._notes))
        done = self._total.evaluation(confidence=confidence, min_groups=min_groups)
        values = values_of(done, frozenset())
        return Merged(tuple(values), tuple(sorted(self._dates)), tuple(self._notes))

    def _settle(self) -> None:
        """Add those up that wait."""
        if not self._waiting:
            return
        held = [] if self._total is None else [self._total]
        states = self._cut_alike([*held, *(state for _, state in self._waiting)])
        first, *others = states
        try:
            self._total = first.merge(*others, allow_repeated=True)
            self._dates += [date for date, _ in self._waiting]
        except MergeError:
            self._add_each(first, others, bool(held))
        self._waiting.clear()
        self._bytes = 0

    def _add_each(self, first: State, others: Sequence[State], held: bool) -> None:
        """Add them up one by one, without those whose columns are of other types."""
        dates = iter([date for date, _ in self._waiting])
        if not held:
            self._dates.append(next(dates))
        self._total = first
        for date, state in zip(dates, others, strict=True):
            try:
                self._total = self._total.merge(state, allow_repeated=True)
                self._dates.append(date)
            except MergeError as error:
                self._notes.append(f"{date} is left out: {error}")

    def _cut_alike(self, states: Sequence[State]) -> list[State]:
        """The states with the slicings that are the same in all of them; notes tell the others."""
        each = [state.slicings for state in states]
        for by in dict.fromkeys(by for one in each for by in one):
            if by in self._gone:
                continue
            if not all(by in one for one in each):
                why = "not all nights have them"
            elif any(one[by] != each[0][by] for one in each):
                why = "their edges are not the same on all nights"
            else:
                continue
            self._gone.add(by)
            self._notes.append(f"slices by {by} are left out: {why}")
        return [_without(state, self._gone) for state in states]


def _without(state: State, gone: set[str]) -> State:
    others = [by for by in state.slicings if by in gone]
    return state.without_slices(*others) if others else state
