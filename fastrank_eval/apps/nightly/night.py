"""Define the types of a night: its numbers, findings and status."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

from fastrank_eval import Measure, MeasureValue
from fastrank_eval import measure as measure_of
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.engine.records import LEFT_OUT
from fastrank_eval.measures.parser import find_computed
from fastrank_eval.results.gates import ALL
from fastrank_eval.results.notes import unit_of


def first_that_holds(texts: Mapping[str, object]) -> str:
    """Return the first text whose condition holds; empty if none does."""
    return next((text for text, holds in texts.items() if holds), "")


class Key(NamedTuple):
    """The subject of a value, a difference or a finding."""

    score: str
    slice: str
    measure: str

    @classmethod
    def of(cls, one: MeasureValue | NightDifference | Finding) -> Self:
        """Return the key of a value, a difference or a finding."""
        return cls(one.score, one.slice, one.measure)


#: Earlier nights that each night is compared with, and how many days they lie before it.
EARLIER = {"yesterday": 1, "last_week": 7}
#: Kinds of difference, in the order of the page.
KINDS = ("baseline", *EARLIER)
#: Periods whose nights are merged, in days, with the last night included.
PERIODS = {"week": 7, "month": 30}


@dataclass(frozen=True)
class NightDifference:
    """The difference of a model from the baseline or an earlier night.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    rows : int
        Rows of the slice in a difference from the baseline; 0 in others, where they are not known.
    """

    kind: str
    score: str
    baseline: str
    by: str | None
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
    rows: int = 0


@dataclass(frozen=True)
class CompositionChange:
    """The change of a mean from an earlier night as a sum of three parts.

    Parameters
    ----------
    kind : str
        One of `EARLIER`.
    by : str
        The slicing of the parts.
    difference : float
        ``within + composition + remainder``.
    within : float
        The part due to changes of value inside slices.
    composition : float
        The part due to changes of the slices' shares.
    remainder : float
        The part that the slices do not explain.
    """

    kind: str
    score: str
    measure: str
    by: str
    difference: float
    within: float
    composition: float
    remainder: float


@dataclass(frozen=True)
class NightQuality:
    """Counts and flags that show whether the rows passed the checks.

    Parameters
    ----------
    rows, groups, positives : int
    ctr : float
        Positives over rows.
    coverage : float
        Share of the groups that GAUC, or else the first measure, uses.
    single_class_share : float
        Share of the groups whose labels are all equal.
    tie_rate : float
        Share of the rows whose score of the baseline is tied within their group.
    tie_rates : mapping of str to float
        Tie rate of each model.
    slices : mapping of str to mapping of str to int
        Rows of each slice by slicing, without slicings by label, time or quantile and those of more
        than 1,000 slices.
    nulls : mapping of str to int
        Nulls of each column read.
    volume_drift, ctr_drift : float
        Distance from the median of the last 14 nights with rows (of 28 days), in scaled median
        absolute deviations; NaN with fewer than five.
    flags : tuple of str
        Descriptions of the problems.
    unusual : bool
        Whether they are only that numbers differ from those of earlier nights.
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
    slices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unusual: bool = False


#: The convention `labels` of a night without labels.
NO_LABELS = "none yet"
#: Selects, in the history, nights that `Night.is_early` is true of.
IS_EARLY = (
    "json_extract(document, '$.provisional') "
    f"OR json_extract(document, '$.conventions.labels') = '{NO_LABELS}'"
)
#: The note on such a night, if it has no time from which its labels are complete.
NO_LABELS_NOTE = "judged without labels: run the night again when they have come"
#: The most distinct values that are surely counted.
MOST_VALUES = 256


@dataclass(frozen=True)
class NightDrift:
    """The distance of scores or a column from the nights before.

    Parameters
    ----------
    name : str
        A model, or a column of ``[drift]``.
    rows, nulls : int
    distinct : int
        Distinct values; a lower bound beyond 256.
    median, mode_share : float
        The median (of an even number of values, the mean of the two middle ones), and the share of
        the most frequent value; both of a bin if that has more values.
    psi, ks : float
        Population stability index, and the statistic of Kolmogorov and Smirnov, which is too small
        by the rows of a bin at most. NaN without earlier nights.
    out_of_range : float
        Share of the numbers outside [0, 1]; NaN if half of the earlier nights, or more, have such
        numbers.
    nights, reference_rows, reference_nulls : int
        Earlier nights, and their rows with and without a number.
    reference_median, reference_mode_share : float
    verdict : str
        ``"same"``, ``"changed"``, ``"failed"`` or ``"not judged"``.
    """

    name: str
    by: str | None
    slice: str
    rows: int
    nulls: int
    distinct: int
    median: float = math.nan
    mode_share: float = math.nan
    psi: float = math.nan
    ks: float = math.nan
    out_of_range: float = math.nan
    nights: int = 0
    reference_rows: int = 0
    reference_nulls: int = 0
    reference_median: float = math.nan
    reference_mode_share: float = math.nan
    verdict: str = "not judged"


@dataclass(frozen=True)
class NightCalibration:
    """The calibration of a model on all rows or on a slice of a measure.

    Parameters
    ----------
    measure : str
        A multicalibration error; its columns make the slices.
    rows : int
        Rows with a weight above 0.
    expected, observed : float
        Sums of the predictions and of the positives, weighted.
    error, sigmas : float
        ECCE, and the same over the standard deviation of observed less expected positives per row,
        if the model is calibrated.
    p_value, p_adjusted : float
        The second is corrected for the number of slices (Holm).
    min_detectable_error : float
        Five sigmas.
    """

    score: str
    measure: str
    slice: str
    rows: int
    expected: float
    observed: float
    error: float
    sigmas: float
    p_value: float
    p_adjusted: float
    min_detectable_error: float


@dataclass(frozen=True)
class CurveLine:
    """The curve of a model in a ROC or calibration chart."""

    score: str
    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


#: Outcomes of gates beside passed and failed. `SO_FAR`: the condition holds with the labels so far,
#: and does not fail a provisional night.
NOT_JUDGED, SO_FAR = "not judged", "fails so far"


@dataclass(frozen=True)
class GateOutcome:
    """The outcome of a gate.

    Parameters
    ----------
    condition : str
        As the configuration has it.
    passed : bool
        False fails the night.
    reason : str
        Why it failed, or was not judged.
    kind : str
        The kind of the differences in the condition, of `KINDS`.
    exception : str
        `NOT_JUDGED` or `SO_FAR`, if `passed` does not say whether the condition holds.

    Examples
    --------
    >>> gate = GateOutcome("GAUC delta < 0", True, kind="yesterday")
    >>> gate.text, gate.outcome
    ('GAUC delta < 0 (since yesterday)', 'passed')
    """

    condition: str
    passed: bool
    reason: str = ""
    kind: str = "baseline"
    exception: str = ""

    @property
    def outcome(self) -> str:
        """The outcome in a word: passed, failed, `NOT_JUDGED` or `SO_FAR`."""
        return self.exception or ("passed" if self.passed else "failed")

    @property
    def text(self) -> str:
        """The condition as reports show it, with the earlier night."""
        since = f" (since {self.kind.replace('_', ' ')})" if self.kind in EARLIER else ""
        return self.condition + since


@dataclass(frozen=True)
class Finding:
    """A problem or change of one model on one slice.

    Numbers that do not exist are NaN.

    Parameters
    ----------
    kind : str
        ``"gate"``: a condition of the configuration is true or cannot be judged. ``"scores"``:
        there are too few distinct scores. ``"drift"``: scores or a column are far from those of the
        nights before. ``"undefined"``: measures have no value, or the labels are of one class.
        ``"change"``: a number without a gate is not as usual. ``"alarm"``: differences from the
        baseline have changed. ``"missing"``: slices have no rows.
    condition : str
        The text of the gate; empty if the finding is not of a gate and does not fail the night.
    score, by, slice, measure : str
        Empty if the gate names none.
    compared : str
        The kind of the difference of a gate, of `KINDS`; ``"baseline"`` or ``"before"`` for a
        change; empty without a difference.
    against : str
        The model or the date of the value compared with.
    value, ci_low, ci_high : float
    base : float
        The value compared with.
    delta, delta_ci_low, delta_ci_high, p_adjusted : float
    verdict : str
        Verdict of the difference; see `NightDifference`.
    field, operator : str
        For a gate that limits one number: the name of the number, and the operator that fails the
        night.
    limit, number : float
        Limit and number:

        ============ =============================== =======================
        kind         limit                           number
        ============ =============================== =======================
        ``"gate"``   limit of the gate               number that it limits
        ``"scores"`` least number of distinct scores their number
        ``"alarm"``  mean difference before          mean difference since
        ``"drift"``  limit of the number in `field`  PSI, KS or share
        ``"change"`` usual night-to-night movement   movement of the value
        ============ =============================== =======================

        A change from the baseline has the movement of the difference. NaN with too few earlier
        nights.
    detail : str
        The reason why a gate cannot be judged; the sentence of an alarm, of drift or of measures
        without a value.
    since : datetime.date or None
        The first of the consecutive nights with this finding, as far as history goes back; None
        for a change from the night before. Of an alarm: the first night of the new level.
    nights : int
        Number of these nights, with this one.
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
    def key(self) -> tuple[str, ...]:
        """The key of the finding, equal on every night with the same finding."""
        of = (self.measure, self.compared) if self.kind in ("change", "alarm") else ()
        return self.kind, self.condition, self.score, self.by, self.slice, *of

    def without_measure(self) -> Finding:
        """Return what the finding says of the rows, without numbers of a measure."""
        of_rows = (
            *("kind", "condition", "score", "by", "slice", "field", "operator", "limit"),
            *("number", "detail", "since", "nights"),
        )
        return Finding(**{name: getattr(self, name) for name in of_rows})

    def with_numbers(
        self, value: MeasureValue | None, difference: NightDifference | None, against: str = ""
    ) -> Finding:
        """Add a value and its difference, by default from the baseline."""
        changes: dict[str, Any] = {}
        if value is not None:
            changes |= {name: getattr(value, name) for name in ("value", "ci_low", "ci_high")}
        if difference is not None:
            changes |= {
                "compared": difference.kind,
                "against": against or difference.baseline,
                "base": (math.nan if value is None else value.value) - difference.delta,
                "delta": difference.delta,
                "delta_ci_low": difference.ci_low,
                "delta_ci_high": difference.ci_high,
                "p_adjusted": difference.p_adjusted,
                "verdict": difference.verdict,
            }
        return replace(self, **changes)


@dataclass(frozen=True)
class EarlierJudgement:
    """The status and values of a night when it was provisional.

    Parameters
    ----------
    status : str
    values : tuple of (str, str, float)
        Model, measure and value on all rows; empty for a night without labels.
    """

    status: str
    values: tuple[tuple[str, str, float], ...] = ()


@dataclass(frozen=True)
class Night:
    """All results of one night.

    Parameters
    ----------
    status : str
        ``"fine"``, ``"changed"``, ``"provisional"``, ``"regression"`` or ``"data_quality"``.
    label : str
        The column of labels in a report of several labels; empty in a report of one label.
    findings : tuple of Finding
        Problems and changes, the most important first.
    notes : tuple of str
        Earlier nights that it is not compared with, and the reasons.
    calibration : tuple of NightCalibration
        The worst slices of each model and multicalibration error, the worst first; see
        `calibration_of`.
    periods : mapping of str to tuple of MeasureValue
        ``"week"``, ``"month"``: the merged values of the last 7 and 30 nights, with this one,
        without errors. Computed from saved states when a page is made.
    period_nights : mapping of str to tuple of datetime.date
        The merged nights of each period, ascending.
    period_notes : tuple of str
        Nights and slices that could not be merged, why there are no intervals, and other reasons;
        each begins with its periods.
    compositions : tuple of CompositionChange
        Changes of means on all rows since earlier nights, split by slices. Computed from saved
        states when a page is made.
    provisional : bool
        Whether it was judged before its labels were complete.
    labels_complete : datetime.datetime or None
        The time, in UTC, from which its labels are complete; None if the configuration has none.
    label_age : float
        Hours from the end of the night to its judgement; NaN without `labels_complete`.
    judged_before : EarlierJudgement or None
        The provisional judgement of a night that was judged again with complete labels.
    not_evaluated : mapping of datetime.date to str
        Dates whose rows could not be evaluated, with the reasons, as a page shows them.
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
    conventions: Mapping[str, Any]
    values: tuple[MeasureValue, ...]
    quality: NightQuality
    compared: tuple[NightDifference, ...] = ()
    curves: Mapping[str, tuple[CurveLine, ...]] = field(default_factory=dict)
    gates: tuple[GateOutcome, ...] = ()
    status: str = "fine"
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    drift: tuple[NightDrift, ...] = ()
    calibration: tuple[NightCalibration, ...] = ()
    periods: Mapping[str, tuple[MeasureValue, ...]] = field(default_factory=dict)
    period_nights: Mapping[str, tuple[dt.date, ...]] = field(default_factory=dict)
    period_notes: tuple[str, ...] = ()
    compositions: tuple[CompositionChange, ...] = ()
    provisional: bool = False
    labels_complete: dt.datetime | None = None
    label_age: float = math.nan
    judged_before: EarlierJudgement | None = None
    label: str = ""
    not_evaluated: Mapping[dt.date, str] = field(default_factory=dict)

    def add(self, **parts: Iterable[object]) -> Night:
        """Append to findings, gates, notes and others of its tuples."""
        changes: dict[str, Any] = {
            name: (*getattr(self, name), *new) for name, new in parts.items()
        }
        return replace(self, **changes)

    @property
    def has_labels(self) -> bool:
        """Whether the night was judged with its labels."""
        return self.conventions.get("labels") != NO_LABELS

    @property
    def is_early(self) -> bool:
        """Whether it was judged before its labels were complete, or without them."""
        return self.provisional or not self.has_labels

    @property
    def unlabelled_rows(self) -> int:
        """Number of its rows, if none has a label; else 0."""
        quality = self.quality
        if quality.rows:
            nulls = quality.nulls.get(str(self.label_column), 0) if self.has_labels else 0
            return quality.rows if nulls == quality.rows else 0
        return int(self.conventions.get(LEFT_OUT, {}).get("unjudged", {}).get("rows", 0))

    @property
    def label_column(self) -> str | None:
        """The column of labels."""
        columns: Mapping[str, str] = self.conventions.get("columns", {})
        return columns.get("label")

    @property
    def expressions(self) -> Mapping[str, str]:
        """The expression of each computed score."""
        return dict(self.conventions.get("score", {}))

    @property
    def requested(self) -> Mapping[str, str]:
        """Computed measure by the name that was requested, where they differ."""
        return dict(self.conventions.get("requested", {}))

    @property
    def unit(self) -> str:
        """What intervals take as independent: a group, or a cluster."""
        return unit_of(self.conventions)

    def name_of(self, measure: str) -> str:
        """Return the name of a measure in reports: the one that was asked for."""
        return str(self.conventions.get("names", {}).get(measure, measure))

    @property
    def overall(self) -> dict[Key, MeasureValue]:
        """The values of all rows."""
        return {Key.of(value): value for value in self.values if value.slice == ALL}

    def value_of(self, key: Key) -> MeasureValue | None:
        """Return the value of a model, a slice and a measure, or None."""
        return next((v for v in self.values if (v.score, v.slice, v.measure) == key), None)

    def difference_of(self, kind: str, key: Key) -> NightDifference | None:
        """Return the difference of a kind of `value_of`, or None."""
        of_kind = (one for one in self.compared if one.kind == kind)
        return next((d for d in of_kind if (d.score, d.slice, d.measure) == key), None)

    def find(self, text: str) -> Measure | None:
        """Find the measure that was computed for a requested one, or None."""
        return find_computed(measure_of(text), self.measures, self.requested)


@dataclass(frozen=True)
class SavedStates:
    """The saved states of a night.

    Parameters
    ----------
    contents : mapping of str to bytes
        Result of `State.to_bytes` by kind. Kinds without a measure are left out.
    fingerprint : str
        Equal for equal rows on any night; empty without a row.
    """

    contents: Mapping[str, bytes] = field(default_factory=dict)
    fingerprint: str = ""


#: Limits of the rows that depend on the label.
LABEL_LIMITS = ("min_coverage", "max_single_class_share", "max_ctr_drift", "max_ctr_factor")
#: A table of the configuration, whose keys are attributes; see `config_checks.settings`.
Settings = SimpleNamespace
