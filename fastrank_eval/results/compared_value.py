"""Define the comparison of two models by one measure, with its verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.engine.records import NamedRecord, record_schema
from fastrank_eval.measures import Measure
from fastrank_eval.results.report import amount, decimals, interval_text, p_text, percent_text


@dataclass(frozen=True)
class ComparedValue(NamedRecord):
    """The value of a measure for a candidate and for the baseline.

    Parameters
    ----------
    score, baseline : str
        Score columns of the candidate and of the baseline.
    slice : str
        The slice of the rows; ``"all"`` for all rows.
    measure : str
        Canonical text of the measure.
    aggregate : str
        As in `MeasureValue`.
    base_value, value : float
        Values of the baseline and of the candidate; NaN where undefined.
    delta : float
        ``value - base_value``.
    relative : float
        ``delta / abs(base_value)``; NaN where the baseline is 0.
    rela_impr : float
        For AUC and GAUC ``(value - 0.5) / (base_value - 0.5) - 1``; NaN otherwise.
    rela_impr_se, rela_impr_ci_low, rela_impr_ci_high : float
        Standard error and confidence interval of `rela_impr` by the delta method, with groups as
        clusters. The degrees of freedom are those of `ci_low` (Student's t for the bootstrap too).
        NaN where unknown.
    rela_impr_warning : str or None
        ``"near_chance"``: the interval of the baseline includes 0.5, so `rela_impr` has no
        interval; ``"not_above_chance"``: the baseline is not above 0.5, so there is no
        `rela_impr`.
    se : float
        Standard error of `delta`, with groups as clusters; with ``test="bootstrap"`` that of the
        bootstrap. NaN where there is none; 0 for equal models alone.
    ci_low, ci_high : float
        Confidence interval of `delta`: by Student's t with `degrees` degrees of freedom, by the
        normal distribution with ``test="clustered_z"``, by percentiles with ``test="bootstrap"``.
    test : str
        The test of `p_value`.
    statistic, p_value : float
        Two-sided; NaN where undefined.
    p_adjusted : float
        `p_value` corrected for `comparisons`.
    comparisons : int
        Number of p-values that are corrected together: for all rows, one for every measure and
        candidate; for slices, one for every slice of the slicing, measure and candidate.
    groups : int
        Groups that either model uses (clusters, where these have several groups); 1 if the value of
        a model rests on one of them. 0 where `warning` says that no error is known.
    degrees : float
        Degrees of freedom of `se`, by Satterthwaite's count of the groups that carry the variance:
        from 1 to ``groups - 1``, for a share of rows such as PPV at most six for each group that
        carries the difference. NaN with ``test="clustered_z"`` and where no error is known.
    wins, ties, losses : int or None
        Groups in which the candidate is better, equal and worse, of those that both models use;
        None if groups have no values of the measure.
    only_base, only_candidate : int or None
        Groups that only one of them uses.
    cluster_wins, cluster_ties, cluster_losses : int or None
        The same of clusters, by the weighted mean of the differences of their groups: what the sign
        test counts. None where each group is a cluster; `Comparison.records` leaves them out then.
    effect_size : float
        Mean over standard deviation of the differences of groups (of clusters, where these have
        several groups) that both models use, each counting once (Cohen's d_z); NaN if they do not
        vary.
    mdd : float
        Minimum detectable difference: the least true difference that the test finds with a power of
        80 %, by `se`, at the level that the correction leaves to the first of the comparisons. NaN
        where `se` is 0 or NaN, and where a test by changes of sign has so few groups that differ,
        or so few replicates, that none of its p-values reaches this level.
    warning : str or None
        * ``"few_groups"``: fewer than 40 effective groups, the interval is rough;
        * ``"one_group"``: a value rests on fewer than two groups, so there is no error and no test;
        * ``"no_variance"``: all groups have the same difference, up to rounding. `se` would be 0,
          so there is no `se`, no interval and no test that needs one;
        * ``"pooled"``, ``"merged"``, ``"not_paired"``: why there is no standard error;
        * ``"undefined"``: a value is undefined;
        * ``"no_difference"``: the models are equal in every group, up to rounding. `delta` and `se`
          are 0, the interval is [0, 0] and the p-value of every test is 1.
    verdict : str
        The result in words.
    by : str or None
        The slicing of `slice`; None for all rows.
    name : str
        The name that was asked for, as in `MeasureValue`.
    rows : int
        Rows of the slice; 0 for slices of results, which keep no numbers of rows.
    label : str
        The label, if a list of labels was compared.

    Examples
    --------
    >>> value = ComparedValue("new", "old", "all", "RR", "mean", 0.5, 0.625, 0.125, 0.25)
    >>> value.delta, value.p_value
    (0.125, nan)
    """

    score: str
    baseline: str
    slice: str
    measure: str
    aggregate: str
    base_value: float
    value: float
    delta: float
    relative: float
    rela_impr: float = math.nan
    rela_impr_se: float = math.nan
    rela_impr_ci_low: float = math.nan
    rela_impr_ci_high: float = math.nan
    rela_impr_warning: str | None = None
    se: float = math.nan
    ci_low: float = math.nan
    ci_high: float = math.nan
    test: str = "clustered_t"
    statistic: float = math.nan
    p_value: float = math.nan
    p_adjusted: float = math.nan
    comparisons: int = 0
    groups: int = 0
    degrees: float = math.nan
    wins: int | None = None
    ties: int | None = None
    losses: int | None = None
    only_base: int | None = None
    only_candidate: int | None = None
    cluster_wins: int | None = None
    cluster_ties: int | None = None
    cluster_losses: int | None = None
    effect_size: float = math.nan
    mdd: float = math.nan
    warning: str | None = None
    verdict: str = ""
    by: str | None = None
    name: str = ""
    rows: int = 0
    label: str = ""


DIFFERENCE_SCHEMA = record_schema(
    ComparedValue,
    "score baseline by slice measure name aggregate base_value value delta relative rela_impr "
    "rela_impr_se rela_impr_ci_low rela_impr_ci_high rela_impr_warning se ci_low ci_high test "
    "statistic p_value p_adjusted comparisons rows groups degrees wins ties losses only_base "
    "only_candidate effect_size mdd warning verdict",
)
#: Columns of comparisons with nested clusters.
CLUSTER_SCHEMA = record_schema(ComparedValue, "cluster_wins cluster_ties cluster_losses")


_UNDECIDED = "not significant"
_DETECTABLE = "minimum detectable difference"
_POWER = "(80% power)"
#: Why a difference is not tested, by warning.
_NOT_TESTED = {
    "pooled": "; a measure of all rows together has no standard error here",
    "merged": "; merged states do not keep what its standard error needs",
    "not_paired": "; slices of results are not paired, fe.compare(source, ..., by=...) pairs them",
    "one_group": "; one {unit} has no standard error",
    "no_variance": "; {unit}s do not vary, so there is no standard error",
}
_ROWS_NOT_PAIRED = (
    "; a result does not pair the rows of two models, fe.compare(source, ...) does, and so does "
    "evaluate(..., baseline=...)"
)
#: Tests that agree with the interval of the difference; others may not.
_INTERVAL_TESTS = ("clustered_t", "clustered_z", "bootstrap")


def verdict_on(value: ComparedValue, measure: Measure, confidence: float, unit: str) -> str:
    """Write which model is better, and how significant the difference is.

    Parameters
    ----------
    value : ComparedValue
        All fields but the verdict.
    measure : Measure
    confidence : float
        A difference is shown where the adjusted p-value is at most ``1 - confidence``.
    unit : {"group", "cluster"}
        What errors count.
    """
    name, base, what = value.score, value.baseline, value.display_name
    wins, losses = _counts_of_test(value)
    if math.isnan(value.delta):
        missing = [
            model
            for model, number in ((base, value.base_value), (name, value.value))
            if math.isnan(number)
        ]
        return f"not compared: {what} of {' and '.join(missing)} is undefined"
    shift = f"{difference_text(value)} {what}"
    if value.warning in _NOT_TESTED and math.isnan(value.p_value):
        rows = value.warning == "not_paired" and value.by is None
        why = _ROWS_NOT_PAIRED if rows else _NOT_TESTED[value.warning].format(unit=unit)
        return f"not tested: {shift}{why}"
    if value.warning == "no_difference":
        return f"no difference: {what} of {name} and {base} is the same in every {unit}"
    interval = difference_interval(value)
    # Only these tests use the variance of the interval.
    agrees = value.test in _INTERVAL_TESTS
    kind = "CI" if agrees else "CI (clustered)"
    note = f", {percent_text(confidence)} {kind} {interval}" if interval else ""
    if is_shown(value, confidence):
        if not agrees:
            note += f"; p {p_text(value.p_adjusted)} by {value.test}"
        if _contradicts(value, measure):
            return (
                f"mixed: {name} is {'better' if wins > losses else 'worse'} in more {unit}s "
                f"than not ({wins:,} to {losses:,}), yet {shift}{note}"
            )
        return f"{name} is {direction_of(value.delta, measure)}: {shift}{note}"
    text = f"{_UNDECIDED}: {shift}{note}"
    if value.p_value <= 1 - confidence:
        text += f"; p {p_text(value.p_adjusted)} among {value.comparisons} comparisons"
    if value.mdd > 0:
        text += f"; {_DETECTABLE} {amount(value.mdd, digits_of(value))} {_POWER}"
    return text


def is_shown(value: ComparedValue, confidence: float) -> bool:
    """Return whether a difference is significant by its adjusted p-value."""
    return value.p_adjusted <= 1 - confidence and value.delta != 0


def is_tested(value: ComparedValue) -> bool:
    """Return whether a difference has a p-value."""
    return not math.isnan(value.p_value)


def is_undecided(value: ComparedValue, confidence: float) -> bool:
    """Return whether a difference is undecided even without correction."""
    return value.verdict.startswith(f"{_UNDECIDED}:") and not value.p_value <= 1 - confidence


def undecided_text(values: Sequence[ComparedValue]) -> str:
    """Write one verdict on several undecided measures of a candidate."""
    text = f"{_UNDECIDED}: {', '.join(value.display_name for value in values)}"
    differences = [amount(value.mdd, digits_of(value)) for value in values if value.mdd > 0]
    if len(differences) < len(values):
        return text
    return f"{text}; {_DETECTABLE}s {', '.join(differences)} {_POWER}"


def difference_text(value: ComparedValue) -> str:
    """Write a difference with its sign."""
    return "n/a" if math.isnan(value.delta) else amount(value.delta, digits_of(value), sign=True)


def difference_interval(value: ComparedValue) -> str:
    """Write the interval of a difference, empty where unknown."""
    return interval_text(value.ci_low, value.ci_high, digits_of(value), sign=True)


def digits_of(value: ComparedValue) -> int | None:
    """Find the decimals for two digits of half the interval."""
    half_width = (value.ci_high - value.ci_low) / 2
    return decimals(
        half_width if math.isfinite(half_width) and half_width > 0 else abs(value.delta) / 10
    )


def direction_of(delta: float, measure: Measure) -> str:
    """Say in a word what a difference other than 0 means for a measure."""
    if not measure.has_direction:
        return "higher" if delta > 0 else "lower"
    return "better" if (delta > 0) == measure.higher_is_better else "worse"


def _contradicts(value: ComparedValue, measure: Measure) -> bool:
    """Return whether a test of counts or ranks contradicts the value."""
    wins, losses = _counts_of_test(value)
    if value.test not in ("sign", "wilcoxon") or wins == losses:
        return False
    return (wins > losses) != ((value.delta > 0) == measure.higher_is_better)


def _counts_of_test(value: ComparedValue) -> tuple[int, int]:
    """Return wins and losses of the units that a test counts."""
    if value.cluster_wins is not None:
        return value.cluster_wins, value.cluster_losses or 0
    return value.wins or 0, value.losses or 0
