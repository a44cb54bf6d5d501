"""Merge nights of a week and a month."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from fastrank_eval._lib.errors import MergeError, SourceError
from fastrank_eval.apps.nightly.night import (
    PERIODS,
    Night,
    NightValue,
    SavedStates,
    called,
    values_of,
)
from fastrank_eval.apps.nightly.run import KINDS
from fastrank_eval.apps.nightly.text import confidence_of
from fastrank_eval.results.state import State

__all__ = ["MOST_SCORES", "Merged", "Merging", "NightStates", "with_periods"]


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


#: Scores, of all models, that are merged for a period at most: what that takes grows with them.
MOST_SCORES = 20_000_000


class NightStates(Protocol):
    """Where the states of nights are: `history.History` or the like."""

    def rows(self, first: dt.date, last: dt.date) -> Mapping[dt.date, int]:
        """How many rows each night has, from one date to another, both included."""

    def repeats(self, first: dt.date, last: dt.date) -> Mapping[dt.date, dt.date]:
        """Nights whose rows are those of an earlier one, and which."""

    def repeated(self, fingerprint: str, before: dt.date) -> dt.date | None:
        """The latest night before a date that has the rows of a fingerprint."""

    def state(self, date: dt.date, kind: str) -> bytes | None:
        """What a night keeps to be merged; see `night_state.KINDS`."""


def with_periods(
    night: Night,
    history: NightStates | None,
    kept: SavedStates | None = None,
    *,
    confidence: float | None = None,
    min_groups: int | None = None,
) -> Night:
    """The same with the numbers of the week and the month that end with it.

    A night that cannot be read or merged is left out, and so is one whose rows are those of an
    earlier night; notes tell why.

    Parameters
    ----------
    night : Night
    history : NightStates or None
        Where the nights before it are; None: there are none.
    kept : SavedStates, optional
        What the night itself keeps, which the history need not have then.
    confidence : float, optional
        By default that of the night.
    min_groups : int, optional
        Slices of fewer groups are left out; by default as on the night.
    """
    first = night.date - dt.timedelta(days=max(PERIODS.values()) - 1)
    rows: dict[dt.date, int] = {}
    repeats: dict[dt.date, dt.date] = {}
    if history is not None:
        rows = dict(history.rows(first, night.date))
        repeats = dict(history.repeats(first, night.date))
    if kept is not None:
        rows[night.date] = night.quality.rows
        repeats.pop(night.date, None)
        earlier = None if history is None else history.repeated(kept.fingerprint, night.date)
        if earlier is not None:
            repeats[night.date] = earlier

    def content(date: dt.date, kind: str) -> bytes | None:
        if kept is not None and date == night.date:
            return kept.contents.get(kind)
        return None if history is None else history.state(date, kind)

    chosen = confidence_of(night) if confidence is None else confidence
    fewest = _min_groups(night) if min_groups is None else min_groups
    values: dict[str, list[NightValue]] = {name: [] for name in PERIODS}
    dates: dict[str, tuple[dt.date, ...]] = {}
    notes: list[str] = []
    for kind in KINDS:
        if content(night.date, kind) is None and night.quality.rows:
            # It has no measure of this kind, so that nothing is asked for.
            continue
        wanted = dict(PERIODS)
        for name, days in PERIODS.items() if kind == "scores" else ():
            scores = len(night.models) * sum(
                many for date, many in rows.items() if _within(date, night, days)
            )
            if scores > MOST_SCORES:
                del wanted[name]
                notes.append(_too_many(name, scores))
        merging = Merging()
        for ago in range(max(wanted.values(), default=0)):
            date = night.date - dt.timedelta(days=ago)
            if rows.get(date) and date not in repeats:
                merging.add(date, content(date, kind))
            for name in (name for name, days in wanted.items() if days == ago + 1):
                found = merging.found(chosen, fewest)
                values[name] += [
                    replace(value, measure=called(value.measure, night.measures))
                    for value in found.values
                ]
                dates.setdefault(name, found.dates)
                notes += [f"{name}: {note}" for note in found.notes]
    for date, other in sorted(repeats.items()):
        notes += [
            f"{name}: {date} is left out: its rows are those of {other}"
            for name, days in PERIODS.items()
            if _within(date, night, days)
        ]
    there = {name: of for name, of in dates.items() if of}
    return replace(
        night,
        periods={name: _in_order(night, values[name]) for name in there},
        period_nights=there,
        period_notes=tuple(dict.fromkeys(notes)),
    )


def _within(date: dt.date, night: Night, days: int) -> bool:
    return night.date - dt.timedelta(days=days) < date <= night.date


def _too_many(name: str, scores: int) -> str:
    return (
        f"{name}: measures that read the score of every row, such as AUC, are left out: its nights "
        f"have {scores:,} scores, more than {MOST_SCORES:,}"
    )


def _min_groups(night: Night) -> int:
    told = night.conventions.get("min_groups", 1)
    return told if isinstance(told, int) else 1


def _in_order(night: Night, values: Iterable[NightValue]) -> tuple[NightValue, ...]:
    """Values of all rows before those of slices, by model and measure."""
    models = {model: place for place, model in enumerate(night.models)}
    measures = {measure: place for place, measure in enumerate(night.measures)}

    def place(value: NightValue) -> tuple[int, ...]:
        if value.slice != "all":
            return (1,)
        return 0, models.get(value.score, 0), measures.get(value.measure, len(measures))

    return tuple(sorted(values, key=place))
