"""Compute the rows of the tables of a page."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from fastrank_eval import MeasureValue
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.apps.nightly.night import (
    KINDS,
    Finding,
    Night,
    NightDifference,
    NightDrift,
    key_of,
)
from fastrank_eval.apps.nightly.text import digits_of, verdict_text
from fastrank_eval.results.gates import ALL
from fastrank_eval.results.report import amount, interval_text

#: Kinds of changes, in the order of the page; "other" between two nights of a reader's choice.
_KINDS = (*KINDS, "other")
#: The most rows of a table; larger pages open slowly.
MAX_SLICES = 500


@dataclass(frozen=True)
class TopChanges:
    """The most important change of a model on a slice.

    Parameters
    ----------
    difference : NightDifference
    alarmed : bool
        Whether a gate failed for it.
    others : int
        Number of other significant changes of the same model and slice, in other measures or from
        other nights.
    """

    difference: NightDifference
    alarmed: bool
    others: int


def top_changes(night: Night) -> list[TopChanges]:
    """Return the significant changes, the most important first.

    The order is: changes for which a gate failed, then changes of the first measure, then others;
    among them worse before other changes, then by strength. The change of each model and slice is
    chosen in the same order.

    Parameters
    ----------
    night : Night

    Returns
    -------
    list of TopChanges
        For each model and slice at most one from the baseline and one since earlier nights.
    """
    failed = [one for one in night.findings if one.kind == "gate"]
    changes_by_key: dict[tuple[object, ...], list[tuple[_Rank, NightDifference]]] = {}
    for one in night.compared:
        verdict = verdict_text(one.verdict)
        if verdict.shown:
            alarmed = any(key_of(f) == key_of(one) and f.compared in ("", one.kind) for f in failed)
            other = one.measure not in night.measures[:1]
            rank = not alarmed, other, verdict.tone != "bad", -strength(one)
            key = one.kind == "baseline", one.score, one.by, one.slice
            changes_by_key.setdefault(key, []).append((rank, one))
    ranked = []
    for changes in changes_by_key.values():
        rank, one = min(changes, key=lambda each: each[0])
        ranked.append((rank, TopChanges(one, not rank[0], len(changes) - 1)))
    return [one for _, one in sorted(ranked, key=lambda each: each[0])]


def changed_slices(night: Night) -> list[TopChanges]:
    """Return `top_changes` of slices, without those of all rows."""
    return [one for one in top_changes(night) if one.difference.slice != ALL]


_Rank = tuple[bool, bool, bool, float]
#: Model, slice and measure.
_Key = tuple[str, str, str]


def strength(difference: NightDifference) -> float:
    """Return a difference in standard errors; 0 without one."""
    ratio = abs(difference.delta) / difference.se if difference.se > 0 else 0.0
    return ratio if math.isfinite(ratio) else 0.0


_ACTIVITY = re.compile(r"@(rows|positives)(<|=|>=)\d+(-\d+)?")


def cell(value: MeasureValue | None, digits: int) -> tuple[str, str]:
    """Format a value and its interval; a dash without a value."""
    if value is None:
        return amount(math.nan, digits), ""
    return amount(value.value, digits), interval_text(value.ci_low, value.ci_high, digits)


@dataclass(frozen=True)
class PageRow:
    """A value of the last night with its changes and past values.

    Parameters
    ----------
    value : MeasureValue
    model_index : int
        Index of the model among the models.
    digits : int
        Decimals of the value and its changes.
    changes : dict of str to NightDifference
        Changes by kind.
    past : tuple of (MeasureValue or None)
        The value on each night.
    """

    value: MeasureValue
    model_index: int
    digits: int
    changes: dict[str, NightDifference] = field(default_factory=dict)
    past: tuple[MeasureValue | None, ...] = ()

    @property
    def interval(self) -> str:
        """The interval of the value."""
        return cell(self.value, self.digits)[1]

    @property
    def shown(self) -> bool:
        """Whether any change is significant."""
        return any(verdict_text(change.verdict).shown for change in self.changes.values())

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """The sort key: changes since earlier nights first, by strength."""
        since = [change for kind, change in self.changes.items() if kind != "baseline"]
        significant = [change for change in since if verdict_text(change.verdict).shown]
        strongest = max(map(strength, significant or self.changes.values()), default=0.0)
        return (not significant, not self.shown, -strongest)


class NightSeries:
    """The nights of a page, with lookup by model, slice and measure.

    Parameters
    ----------
    nights : sequence of Night
        Ascending by date. The page shows the last night.

    Raises
    ------
    ValueError
        If there is no night.
    """

    def __init__(self, nights: Sequence[Night]) -> None:
        if not nights:
            raise ValueError("there is no night to show.")
        self.nights = tuple(nights)
        self.last = self.nights[-1]
        self._values: list[dict[_Key, MeasureValue]] = [
            {key_of(value): value for value in night.values} for night in self.nights
        ]
        self._changes: dict[_Key, dict[str, NightDifference]] = {}
        compared = sorted(self.last.compared, key=lambda one: _KINDS.index(one.kind))
        for one in compared:
            self._changes.setdefault(key_of(one), {})[one.kind] = one
        #: The values of the last night by measure, on all rows or on slices.
        self._of: dict[tuple[str, bool], list[MeasureValue]] = {}
        for value in self.last.values:
            self._of.setdefault((value.measure, value.slice == ALL), []).append(value)
        self.kinds = tuple(dict.fromkeys(one.kind for one in compared))

    def past(self, model: str, slice_label: str, measure: str) -> list[MeasureValue | None]:
        """Return a value on each night."""
        return [values.get((model, slice_label, measure)) for values in self._values]

    def of_models(
        self, slice_label: str, measure: str, models: Sequence[str] = ()
    ) -> dict[str, list[MeasureValue | None]]:
        """Return a value of each model on each night."""
        return {m: self.past(m, slice_label, measure) for m in models or self.last.models}

    def by_night(
        self, past: Mapping[str, Sequence[MeasureValue | None]]
    ) -> list[tuple[Night, list[MeasureValue | None]]]:
        """Return the values of `of_models` by night, the last night first."""
        columns = past.values()
        rows = [(night, [c[at] for c in columns]) for at, night in enumerate(self.nights)]
        return rows[::-1]

    def digits(self, measure: str, overall: bool = True) -> int:
        """Return the decimals of a measure on all rows or on slices."""
        return digits_of(self._of.get((measure, overall), ()))

    def headline(self) -> list[PageRow]:
        """Return the rows of values on all rows, by measure and model."""
        order = {measure: model_index for model_index, measure in enumerate(self.last.measures)}
        rows = [self._row(value, self.digits(value.measure)) for value in self.last.overall]
        last = len(order)
        return sorted(rows, key=lambda row: (order.get(row.value.measure, last), row.model_index))

    def slices(self, measure: str) -> list[PageRow]:
        """Return the rows of a measure on slices, the strongest changes first."""
        digits = self.digits(measure, overall=False)
        rows = [self._row(value, digits) for value in self._of.get((measure, False), ())]
        return sorted(rows, key=lambda row: row.rank)

    def row(self, key: _Key) -> PageRow | None:
        """Return the row of a value of the last night, or None."""
        value = self._values[-1].get(key)
        return None if value is None else self._row(value, self.digits(key[2], key[1] == ALL))

    def _row(self, value: MeasureValue, digits: int) -> PageRow:
        models, key = self.last.models, key_of(value)
        index = models.index(value.score) if value.score in models else len(models)
        return PageRow(value, index, digits, self._changes.get(key, {}), tuple(self.past(*key)))


def failing_slices(series: NightSeries) -> list[tuple[Finding, PageRow | None, list[str]]]:
    """Return the slices that fail on the last night, the worst first.

    Returns
    -------
    list of tuple
        The most important finding of the slice; the value that fails, None if the gate names no
        measure; other measures that fail.
    """
    findings_by_key: dict[tuple[str, str], list[Finding]] = {}
    for one in series.last.findings:
        if one.condition and one.slice not in ("", ALL):
            findings_by_key.setdefault((one.score, one.slice), []).append(one)
    slices = []
    for first, *others in findings_by_key.values():
        measures = dict.fromkeys(one.measure for one in others if one.measure != first.measure)
        slices.append((first, series.row(key_of(first)), [*filter(None, measures)]))
    return slices


def activity_measure(measures: Sequence[str]) -> str:
    """Return the measure to draw by activity: GAUC, or else the first.

    Examples
    --------
    >>> activity_measure(["AUC", "GAUC(weight='positives')"])
    "GAUC(weight='positives')"
    """
    gauc = (name for name in measures if name.partition("(")[0] == "GAUC")
    return next(gauc, measures[0] if measures else "")


def values_by_activity(
    values: Iterable[MeasureValue], measure: str
) -> dict[str, list[MeasureValue]]:
    """Return the values of a measure on slices by activity of groups.

    Returns
    -------
    dict of str to list of MeasureValue
        By slicing, with ascending buckets that do not overlap.
    """
    result: dict[str, list[MeasureValue]] = {}
    for value in values:
        if value.measure == measure and _ACTIVITY.fullmatch(value.slice):
            result.setdefault(value.by or "", []).append(value)
    for rows in result.values():
        rows.sort(key=lambda value: _bucket_start(value.slice))
    return result


def activity_unit(bucket: str) -> str:
    """Return what a bucket of activity counts: ``"rows"`` or ``"positives"``."""
    match = _ACTIVITY.fullmatch(bucket)
    return match[1] if match else ""


def _bucket_start(label: str) -> tuple[int, bool]:
    """Return the sort key of a bucket; ``<2`` comes before ``=2-4``."""
    return int(re.findall(r"\d+", label)[0]), "<" not in label


def ordered_drift(night: Night) -> list[NightDrift]:
    """Return the drift of all rows, then of slices, the largest PSI first."""
    return sorted(
        night.drift,
        key=lambda one: (one.by is not None, -one.psi if math.isfinite(one.psi) else 0.0),
    )[:MAX_SLICES]


def null_shares(drift: NightDrift) -> tuple[float, float]:
    """Return the share of nulls on the nights before and on the night."""
    before = drift.reference_nulls + drift.reference_rows
    return (
        drift.reference_nulls / before if before else math.nan,
        drift.nulls / drift.rows if drift.rows else math.nan,
    )


def change_text(before: float, after: float) -> str:
    """Format a number before and after, with three digits.

    Examples
    --------
    >>> change_text(0.03149, 0.052)
    '0.0315 → 0.052'
    >>> change_text(float("nan"), 0.052)
    '0.052'
    """
    numbers = [f"{one:.3g}" for one in (before, after) if not math.isnan(one)]
    return " → ".join(numbers)
