"""The week and the month that end with a night, merged from what each of their nights kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from fastrank_eval.report.measure_names import called
from fastrank_eval.report.merging import Merging
from fastrank_eval.report.night_state import KINDS
from fastrank_eval.report.nights import PERIODS, KeptStates, Night, NightValue
from fastrank_eval.report.wording import confidence_of

__all__ = ["MOST_SCORES", "NightStates", "with_periods"]

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
    kept: KeptStates | None = None,
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
    kept : KeptStates, optional
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
