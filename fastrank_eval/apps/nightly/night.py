"""A night: its numbers, findings and status."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fastrank_eval.analysis.compare import with_clustered_errors
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.totals import RowStates, Sums
from fastrank_eval.measures import Measure
from fastrank_eval.measures.auc import PooledAUC
from fastrank_eval.measures.parser import measure as measure_of

__all__ = [
    "EARLIER",
    "KINDS",
    "MOST_SCORES",
    "PERIODS",
    "STATES",
    "CurveLine",
    "EarlierFindings",
    "Finding",
    "GateOutcome",
    "GateTexts",
    "Night",
    "NightDifference",
    "NightQuality",
    "NightValue",
    "Place",
    "QualityLimits",
    "SavedStates",
    "called",
    "names_shown",
    "places",
    "taken",
    "values_of",
]


@dataclass(frozen=True)
class Place:
    """Where numbers of a part of the rows are found.

    Parameters
    ----------
    by : str
        The slicing, as it was asked for; ``""`` for all rows.
    slice : str
        ``"all"`` for all rows.
    sums : Sums
    line : int
        Which line of the sums.
    pools : RowStates
    """

    by: str
    slice: str
    sums: Sums
    line: int
    pools: RowStates


def places(done: Evaluation) -> Iterator[Place]:
    """All rows, then each slice that is shown."""
    plan, totals = done.plan, done.totals
    yield Place("", "all", totals.overall, 0, totals.shared.overall)
    for slicing, sums, shared in zip(
        plan.slicings, totals.slices, totals.shared.slices, strict=True
    ):
        found = slicing.slices()
        for line, label in zip(found.codes.tolist(), found.labels, strict=True):
            if sums.groups(line) >= plan.min_groups:
                yield Place(str(slicing.spec), label, sums, line, shared.of(line))


def values_of(done: Evaluation, hidden: frozenset[str]) -> list[NightValue]:
    """The values of a run, each with the slicing it belongs to.

    Parameters
    ----------
    done : Evaluation
    hidden : frozenset of str
        Measures that are left out.
    """
    lines = iter(done.summary)
    many = len(done.plan.roles.scores) * len(done.plan.measures)
    return [
        NightValue(
            v.score, place.by, v.slice, v.measure, v.value, v.se, v.ci_low, v.ci_high,
            v.effective_groups, v.groups, v.groups_used, v.rows_share, v.positives_share,
            dict(v.dropped), v.caution,
        )
        for place in places(done)
        for v in (next(lines) for _ in range(many))
        if v.measure not in hidden
    ]  # fmt: skip


def taken(requested: Sequence[Measure]) -> tuple[Measure, ...]:
    """Measures as they are computed: AUC as `compare` takes it, which gives it an interval.

    Parameters
    ----------
    asked : sequence of Measure
        ``AUC(se=None)`` asks for none.
    """
    return (
        tuple(requested) if any(map(_is_clustered, requested)) else with_clustered_errors(requested)
    )


def names_shown(requested: Sequence[Measure], used: Sequence[Measure]) -> dict[str, str]:
    """What a night calls measures by another name than their text, by that text.

    Parameters
    ----------
    asked : sequence of Measure
    used : sequence of Measure
        As `taken` and the profile left them.
    """
    if any(_is_clustered(each) for each in requested):
        return {}
    return {str(mine): _plain(mine) for mine in used if _is_clustered(mine)}


def called(text: str, measures: Collection[str]) -> str:
    """What a night of some measures calls the one that is computed as a text says."""
    if text in measures:
        return text
    plain = _plain(measure_of(text))
    return plain if plain in measures else text


def _plain(measure: Measure) -> str:
    return str(measure(se=None)) if _is_clustered(measure) else str(measure)


def _is_clustered(measure: Measure) -> bool:
    return isinstance(measure, PooledAUC) and measure.se == "clustered"


#: Nights that each night is compared with, by how many days they lie before it.
EARLIER = {"yesterday": 1, "last_week": 7}
#: The kinds of difference in the order in which they are shown.
KINDS = ("baseline", *EARLIER)
#: Periods whose numbers are merged, in days, the night that ends them included.
PERIODS = {"week": 7, "month": 30}


@dataclass(frozen=True)
class NightValue:
    """One number of a night with its interval and its coverage; see `MeasureValue`."""

    score: str
    by: str
    slice: str
    measure: str
    value: float
    se: float = math.nan
    ci_low: float = math.nan
    ci_high: float = math.nan
    effective_groups: float = math.nan
    groups: int = 0
    groups_used: int = 0
    rows_share: float = math.nan
    positives_share: float = math.nan
    dropped: Mapping[str, int] = field(default_factory=dict)
    caution: str | None = None


@dataclass(frozen=True)
class NightDifference:
    """A model beside the baseline of the same night, or beside itself on an earlier night.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    """

    kind: str
    score: str
    baseline: str
    by: str
    slice: str
    measure: str
    delta: float
    se: float = math.nan
    ci_low: float = math.nan
    ci_high: float = math.nan
    relative: float = math.nan
    p_value: float = math.nan
    p_adjusted: float = math.nan
    verdict: str = ""


@dataclass(frozen=True)
class NightQuality:
    """How sound the rows of a night are.

    Parameters
    ----------
    rows, groups, positives : int
    ctr : float
        Positives over rows.
    coverage : float
        Groups that GAUC, or the first measure, uses over all groups.
    single_class_share : float
        Groups whose labels are all alike over all groups.
    tie_rate : float
        Rows that share their score with another row of their group over all rows, of the baseline.
    tie_rates : mapping of str to float
        The same of each model.
    nulls : mapping of str to int
        Nulls of each column that was read.
    volume_drift, ctr_drift : float
        Distance from the median of the last 14 nights with rows (of 28 days), in scaled median
        absolute deviations; NaN with fewer than five.
    flags : tuple of str
        What is wrong, in words.
    """

    rows: int
    groups: int
    positives: int
    ctr: float
    coverage: float
    single_class_share: float
    tie_rate: float
    nulls: Mapping[str, int] = field(default_factory=dict)
    volume_drift: float = math.nan
    ctr_drift: float = math.nan
    flags: tuple[str, ...] = ()
    tie_rates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CurveLine:
    """One line of a ROC or calibration picture."""

    score: str
    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class GateOutcome:
    """What a gate said."""

    condition: str
    passed: bool
    reason: str = ""


@dataclass(frozen=True)
class Finding:
    """What is wrong or new with one model on one part of the rows; NaN where there is no number.

    Parameters
    ----------
    kind : str
        ``"gate"``: a condition of the configuration holds or cannot be judged. ``"scores"``: there
        are too few distinct scores. ``"change"``: a number without a gate is not as usual.
    condition : str
        The gate's text; empty of what does not fail the night.
    score, by, slice, measure : str
        Empty for a gate that is on none.
    compared : str
        The kind of the difference that a gate is on, of `KINDS`; ``"baseline"`` or ``"before"``
        for a change; empty without one.
    against : str
        The model or the date of the value that it is compared with.
    value, ci_low, ci_high : float
    base : float
        The value compared with.
    delta, delta_ci_low, delta_ci_high, p_adjusted : float
    verdict : str
        Of the difference; see `NightDifference`.
    field, operator : str
        Of a gate that is a limit of one number: which number, and how it fails the night.
    limit, number : float
        That limit and that number; of ``"scores"`` the limit and how many there are; of
        ``"change"`` the usual night-to-night movement and the movement, from the baseline that of
        the difference; NaN where nights before it are too few.
    detail : str
        Why a gate cannot be judged.
    since : datetime.date or None
        The first of the nights in a row that have it, as far as history tells; None of a
        change from the night before.
    nights : int
        How many nights that is, this one included.
    """

    kind: str
    condition: str = ""
    score: str = ""
    by: str = ""
    slice: str = ""
    measure: str = ""
    compared: str = ""
    against: str = ""
    value: float = math.nan
    ci_low: float = math.nan
    ci_high: float = math.nan
    base: float = math.nan
    delta: float = math.nan
    delta_ci_low: float = math.nan
    delta_ci_high: float = math.nan
    p_adjusted: float = math.nan
    verdict: str = ""
    field: str = ""
    operator: str = ""
    limit: float = math.nan
    number: float = math.nan
    detail: str = ""
    since: dt.date | None = None
    nights: int = 1

    @property
    def place(self) -> tuple[str, ...]:
        """What it is of; the same on another night if the same is wrong."""
        of = (self.measure, self.compared) if self.kind == "change" else ()
        return self.kind, self.condition, self.score, self.by, self.slice, *of


@dataclass(frozen=True)
class EarlierFindings:
    """What was found on an earlier night.

    Parameters
    ----------
    status : str
    findings : tuple of Finding
    not_judged : frozenset of str
        The texts of gates that were not judged.
    """

    status: str
    findings: tuple[Finding, ...]
    not_judged: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Night:
    """One night, whole.

    Parameters
    ----------
    status : str
        ``"fine"``, ``"changed"``, ``"regression"`` or ``"data_quality"``.
    findings : tuple of Finding
        What is wrong or new, the most important first.
    notes : tuple of str
        Which earlier nights it is not compared with, and why.
    periods : mapping of str to tuple of NightValue
        ``"week"``, ``"month"``: the last 7 and 30 nights, this one included, merged. Found from
        states when nights are read for a page; history keeps none.
    period_nights : mapping of str to tuple of datetime.date
        Which nights of a period were merged, ascending.
    period_notes : tuple of str
        What of nights and slices could not be merged, and why.
    """

    date: dt.date
    title: str
    models: tuple[str, ...]
    baseline: str | None
    measures: tuple[str, ...]
    sources: tuple[str, ...]
    command: str
    version: str
    seconds: float
    conventions: Mapping[str, object]
    values: tuple[NightValue, ...]
    quality: NightQuality
    compared: tuple[NightDifference, ...] = ()
    curves: Mapping[str, tuple[CurveLine, ...]] = field(default_factory=dict)
    gates: tuple[GateOutcome, ...] = ()
    status: str = "fine"
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    periods: Mapping[str, tuple[NightValue, ...]] = field(default_factory=dict)
    period_nights: Mapping[str, tuple[dt.date, ...]] = field(default_factory=dict)
    period_notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SavedStates:
    """The states of a night.

    Parameters
    ----------
    contents : mapping of str to bytes
        By kind, of `State.to_bytes`; kinds that no measure is of are not there.
    fingerprint : str
        The same for the same rows, whatever the night; empty without a row.
    """

    contents: Mapping[str, bytes] = field(default_factory=dict)
    fingerprint: str = ""


@dataclass(frozen=True)
class GateTexts:
    """Conditions that a night must not meet.

    Parameters
    ----------
    fail_if : tuple of str
        On the night itself and on its differences from the baseline.
    fail_if_yesterday, fail_if_last_week : tuple of str
        On the differences of each model from itself on the night before, and a week before.
    min_distinct_scores : int or None
        The fewest distinct scores that a model may give to all rows, or to those of a slice. None:
        one score fails the night, and few scores are findings; see `few_scores`.
    """

    fail_if: tuple[str, ...] = ()
    fail_if_yesterday: tuple[str, ...] = ()
    fail_if_last_week: tuple[str, ...] = ()
    min_distinct_scores: int | None = None


@dataclass(frozen=True)
class QualityLimits:
    """What the rows of a night must be like; None: no limit.

    Parameters
    ----------
    min_rows, min_groups : int
    min_coverage, max_single_class_share, max_tie_rate, max_null_share : float or None
        Shares, see `NightQuality`; of nulls of any column over all rows.
    max_volume_drift, max_ctr_drift : float or None
        In scaled median absolute deviations, either way.
    ties : bool
        Find the tie rate, for which every group has to be ordered.
    """

    min_rows: int = 1
    min_groups: int = 1
    min_coverage: float | None = None
    max_single_class_share: float | None = None
    max_tie_rate: float | None = None
    max_null_share: float | None = None
    max_volume_drift: float | None = None
    max_ctr_drift: float | None = None
    ties: bool = True


#: Distinct scores that can be counted.
MOST_SCORES = 1000


#: What may be kept: everything; of slices only what is summed over groups; nothing of slices; of
#: all rows only what is summed over groups.
STATES = ("everything", "slices", "rows", "groups")
