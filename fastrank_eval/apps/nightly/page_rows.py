"""Rows of the tables of a page."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fastrank_eval._lib.errors import FastRankEvalError
from fastrank_eval.apps.nightly.night import KINDS, GateOutcome, Night, NightDifference, NightValue
from fastrank_eval.apps.nightly.text import (
    VerdictText,
    amount,
    confidence_of,
    digits_of,
    interval,
    p_text,
    verdict_text,
)
from fastrank_eval.measures.parser import find_computed, measure
from fastrank_eval.results.gate_parser import ALL, COMPARISON_FIELDS, Term, terms_of
from fastrank_eval.results.gates import gate

__all__ = [
    "Change",
    "Line",
    "NightSeries",
    "TopChanges",
    "activity_measure",
    "activity_of",
    "changed_slices",
    "counted_of",
    "strength",
    "top_changes",
]


_SINCE = " (since "


@dataclass(frozen=True)
class TopChanges:
    """A model on a part of the rows that has moved, by the change that says most.

    Parameters
    ----------
    difference : NightDifference
    alarmed : bool
        Whether a gate failed for it.
    others : int
        Changes shown of the same model, rows and kind in other measures, or from other nights.
    """

    difference: NightDifference
    alarmed: bool
    others: int


def top_changes(night: Night) -> list[TopChanges]:
    """Models on parts of the rows for which a change is shown, what matters most first.

    Those for which a gate failed lead, in the measure of that gate; then those that moved in the
    first measure; then the others. Among them what is worse goes first, then what is surest. The
    change that stands for a model and a part of the rows is chosen in the same order.

    Parameters
    ----------
    night : Night

    Returns
    -------
    list of Moved
        At most one for each model and part of the rows beside the baseline, and one since earlier
        nights.
    """
    confidence = confidence_of(night)
    alarms = [_alarm(outcome, night) for outcome in night.gates if not outcome.passed]
    found: dict[tuple[bool, str, str, str], list[tuple[_Rank, NightDifference]]] = {}
    for one in night.compared:
        said = verdict_text(one, confidence)
        if said.shown:
            alarmed = any(alarm(one) for alarm in alarms)
            other = one.measure not in night.measures[:1]
            rank = not alarmed, other, said.tone != "bad", -strength(one)
            of = one.kind == "baseline", one.score, one.by, one.slice
            found.setdefault(of, []).append((rank, one))
    chosen = []
    for changes in found.values():
        rank, one = min(changes, key=lambda each: each[0])
        chosen.append((rank, TopChanges(one, not rank[0], len(changes) - 1)))
    return [one for _, one in sorted(chosen, key=lambda each: each[0])]


def changed_slices(night: Night) -> list[TopChanges]:
    """The same without all rows, where those are told apart."""
    return [one for one in top_changes(night) if one.difference.slice != ALL]


_Rank = tuple[bool, bool, bool, float]


def strength(difference: NightDifference) -> float:
    """Standard errors that a difference is away from zero; infinitely many where they are zero."""
    if difference.se > 0:
        found = abs(difference.delta) / difference.se
        return found if math.isfinite(found) else 0.0
    return math.inf if difference.se == 0 and abs(difference.delta) > 0 else 0.0


def _alarm(outcome: GateOutcome, night: Night) -> Callable[[NightDifference], bool]:
    """Whether a gate that failed failed for a difference."""
    condition, _, since = outcome.condition.rpartition(_SINCE)
    kind = since.removesuffix(")").replace(" ", "_") if condition else "baseline"
    try:
        requested = terms_of(gate(condition or outcome.condition).condition)
        meant = [(t, _meant(t, night)) for t in requested if isinstance(t, Term)]
    except FastRankEvalError:  # written by another version
        meant = []
    told = outcome.reason.split("; ")

    def failed(one: NightDifference) -> bool:
        for term, measures in meant:
            if term.field in COMPARISON_FIELDS and one.kind != kind:
                continue
            fits = one.measure in measures and term.score in (None, one.score)
            fits &= term.slice == one.slice if term.slice is not None else one.slice != ALL
            # What a gate leaves open, its reason names: model, slice.
            named = [one.score] * (term.score is None) + [one.slice] * (term.slice is None)
            place = ", ".join(named)
            if fits and (not named or any(text.startswith(f"{place}: ") for text in told)):
                return True
        return False

    return failed


def _meant(term: Term, night: Night) -> list[str]:
    """Find the measures that a term is of; a profile may have given them other options."""
    wanted, measures = measure(term.measure), night.measures
    requested = night.conventions.get("requested")
    found = find_computed(wanted, measures, requested if isinstance(requested, Mapping) else {})
    if found is not None or requested:
        return [] if found is None else [str(found)]
    # Older nights do not hold the names that were requested.
    return [
        text
        for text, one in zip(measures, map(measure, measures), strict=True)
        if (one.name, one.cutoff) == (wanted.name, wanted.cutoff)
        and all(one.chosen[name] == wanted.chosen[name] for name in wanted.given)
    ]


_ACTIVITY = re.compile(r"@(rows|positives)(<|=|>=)\d+(-\d+)?")


@dataclass(frozen=True)
class Change:
    """A difference as it is shown."""

    difference: NightDifference
    said: VerdictText
    text: str
    interval: str
    p: str = ""

    @classmethod
    def of(cls, difference: NightDifference, confidence: float, digits: int) -> Change:
        """A difference to so many decimals."""
        low, high = difference.ci_low, difference.ci_high
        return cls(
            difference,
            verdict_text(difference, confidence),
            amount(difference.delta, digits, sign=True),
            interval(low, high, digits, sign=True),
            p_text(difference),
        )

    @property
    def strength(self) -> float:
        """Standard errors that the difference is away from zero."""
        return strength(self.difference)


@dataclass(frozen=True)
class Line:
    """A value of the last night with its changes and what it was on the nights before.

    Parameters
    ----------
    value : NightValue
    place : int
        Of the model among the models.
    text, interval : str
    changes : dict of str to Change
        By kind.
    past : tuple of float
        Its value on each night, NaN where there is none.
    """

    value: NightValue
    place: int
    text: str
    interval: str
    changes: dict[str, Change] = field(default_factory=dict)
    past: tuple[float, ...] = ()

    @property
    def shown(self) -> bool:
        """Whether any change is shown."""
        return any(change.said.shown for change in self.changes.values())

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Lines of a smaller rank have moved more surely; those that moved since lead."""
        since = [change for kind, change in self.changes.items() if kind != "baseline"]
        top_changes = [change for change in since if change.said.shown]
        strongest = max((c.strength for c in top_changes or self.changes.values()), default=0.0)
        return (not top_changes, not self.shown, -strongest)


class NightSeries:
    """Nights looked up by model, slice and measure.

    Parameters
    ----------
    nights : sequence of Night
        The last is the one shown. Put in order of their dates; of two of one date the later counts.

    Raises
    ------
    ValueError
        If there is no night.
    """

    def __init__(self, nights: Sequence[Night]) -> None:
        if not nights:
            raise ValueError("there is no night to show.")
        by_date = {night.date: night for night in nights}
        self.nights = tuple(by_date[date] for date in sorted(by_date))
        self.last = self.nights[-1]
        self.confidence = confidence_of(self.last)
        self._found = [
            {(value.score, value.slice, value.measure): value for value in night.values}
            for night in self.nights
        ]
        self._changes: dict[tuple[str, str, str], list[NightDifference]] = {}
        for one in self.last.compared:
            self._changes.setdefault((one.score, one.slice, one.measure), []).append(one)
        self.kinds = tuple(
            kind for kind in KINDS if any(one.kind == kind for one in self.last.compared)
        )

    @property
    def dates(self) -> list[dt.date]:
        """Of each night."""
        return [night.date for night in self.nights]

    def past(self, model: str, part: str, measure: str) -> list[NightValue | None]:
        """A value on each night."""
        return [found.get((model, part, measure)) for found in self._found]

    def digits(self, measure: str, whole: bool = True) -> int:
        """Decimals of a measure, of all rows or of slices."""
        return digits_of(
            value
            for value in self.last.values
            if value.measure == measure and (value.slice == "all") == whole
        )

    def headline(self) -> list[Line]:
        """The values of all rows, by measure and model."""
        places = {measure: place for place, measure in enumerate(self.last.measures)}
        lines = [
            self._line(value, self.digits(value.measure))
            for value in self.last.values
            if value.slice == "all"
        ]
        last = len(places)
        return sorted(lines, key=lambda line: (places.get(line.value.measure, last), line.place))

    def slices(self, measure: str) -> list[Line]:
        """The values of a measure on slices, those that moved most surely first."""
        digits = self.digits(measure, whole=False)
        lines = [
            self._line(value, digits)
            for value in self.last.values
            if value.slice != "all" and value.measure == measure
        ]
        return sorted(lines, key=lambda line: line.rank)

    def line(self, model: str, part: str, measure: str) -> Line | None:
        """A value of the last night, if there is one."""
        value = self._found[-1].get((model, part, measure))
        return None if value is None else self._line(value, self.digits(measure, part == "all"))

    def change(self, difference: NightDifference) -> Change:
        """A difference of the last night as it is shown."""
        digits = self.digits(difference.measure, difference.slice == "all")
        return Change.of(difference, self.confidence, digits)

    def _line(self, value: NightValue, digits: int) -> Line:
        models = self.last.models
        of = (value.score, value.slice, value.measure)
        found = {
            one.kind: Change.of(one, self.confidence, digits) for one in self._changes.get(of, ())
        }
        return Line(
            value,
            models.index(value.score) if value.score in models else len(models),
            amount(value.value, digits),
            interval(value.ci_low, value.ci_high, digits),
            {kind: found[kind] for kind in self.kinds if kind in found},
            tuple(math.nan if one is None else one.value for one in self.past(*of)),
        )


def activity_measure(measures: Sequence[str]) -> str:
    """The measure that is drawn by how active groups are: GAUC where there is one, else the first.

    Examples
    --------
    >>> activity_measure(["AUC", "GAUC(weight='positives')"])
    "GAUC(weight='positives')"
    """
    gauc = (name for name in measures if name.partition("(")[0] == "GAUC")
    return next(gauc, measures[0] if measures else "")


def activity_of(values: Iterable[NightValue], measure: str) -> dict[str, list[NightValue]]:
    """The values of a measure by how active groups are, where a slicing tells.

    Returns
    -------
    dict of str to list of NightValue
        By slicing, whose buckets do not overlap; they ascend.
    """
    found: dict[str, list[NightValue]] = {}
    for value in values:
        if value.measure == measure and _ACTIVITY.fullmatch(value.slice):
            found.setdefault(value.by, []).append(value)
    for lines in found.values():
        lines.sort(key=lambda value: _least(value.slice))
    return found


def counted_of(bucket: str) -> str:
    """What a bucket of active groups counts: ``"rows"`` or ``"positives"``."""
    known = _ACTIVITY.fullmatch(bucket)
    return known[1] if known else ""


def _least(label: str) -> tuple[int, bool]:
    """Where a bucket begins; ``<2`` lies before ``=2-4``."""
    return int(re.findall(r"\d+", label)[0]), "<" not in label
