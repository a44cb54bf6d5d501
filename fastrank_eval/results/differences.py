"""Define the difference of two models, with its verdict and its causes.

Attribute a difference to groups and slices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import arrow_column, as_array, column_with_nulls, decode_array
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import ratio
from fastrank_eval._lib.errors import ArgumentError, MeasureError
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.records import MeasureValue, NamedRecord, plain_value, record_schema
from fastrank_eval.measures import Measure
from fastrank_eval.results.report import amount, decimals, interval_text, p_text, percent_text
from fastrank_eval.stats.row_sums import RowSums


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


#: AUC of a random order.
CHANCE = 0.5


@typed
def rela_impr(value: float, base: float) -> float:
    """Compute the relative improvement of an AUC or GAUC over a base model.

    ``(value - 0.5) / (base - 0.5) - 1``

    Parameters
    ----------
    value : float
        AUC or GAUC of a model, in [0, 1]; NaN where undefined.
    base : float
        The same of the base model.

    Returns
    -------
    float
        A share: 0.05 is five per cent. NaN where a value is undefined, or where the base model is
        not better than chance (at most 0.5).

    Raises
    ------
    ArgumentError
        If a value lies outside [0, 1].

    References
    ----------
    Yan et al. (2014), Coupled group lasso for web-scale CTR prediction in display advertising; Zhou
    et al. (2018), doi:10.1145/3219819.3219823.

    Examples
    --------
    >>> from fastrank_eval import rela_impr
    >>> round(rela_impr(0.6083, 0.5970), 4)
    0.1165
    """
    for name, number in (("value", value), ("base", base)):
        if not (math.isnan(number) or 0 <= number <= 1):
            raise ArgumentError(
                f"{name}: must be an AUC from 0 to 1, got {number!r}; pass a share, not per cent."
            )
    if math.isnan(value) or math.isnan(base) or base <= CHANCE:
        return math.nan
    return (value - CHANCE) / (base - CHANCE) - 1.0


def slopes_of_rela_impr(value: float, base: float) -> tuple[float, float]:
    """Compute the derivatives of RelaImpr by both values, without signs.

    Parameters
    ----------
    value, base : float
        As in `rela_impr`; `base` is above 0.5.

    Returns
    -------
    tuple of float
        ``(value - 0.5) / (base - 0.5)^2`` and ``1 / (base - 0.5)``.
    """
    distance = base - CHANCE
    return (value - CHANCE) / distance / distance, 1.0 / distance


def error_of_rela_impr(
    value: float, base: float, value_se: float, base_se: float, difference_se: float
) -> float:
    """Compute the standard error of RelaImpr by the delta method.

    The three standard errors determine the covariance of both values. With r for RelaImpr the
    variance is ``((1 + r) Var(difference) - r Var(value) + r (1 + r) Var(base)) / (base - 0.5)^2``.
    No large terms cancel in it where the models are alike.

    Parameters
    ----------
    value, base : float
        As in `rela_impr`.
    value_se, base_se, difference_se : float
        Standard errors of both values and of their difference; NaN where unknown.

    Returns
    -------
    float
        NaN where RelaImpr or one of the standard errors is NaN.
    """
    improvement = rela_impr(value, base)
    if math.isnan(improvement):
        return math.nan
    rest = (1 + improvement) * base_se**2 - value_se**2
    variance = (1 + improvement) * difference_se**2 + improvement * rest
    return math.sqrt(variance) / (base - CHANCE) if variance >= 0 else math.nan


def has_chance(measure: Measure) -> bool:
    """Return whether a random order has the value 0.5 by the measure."""
    return measure.name in ("AUC", "GAUC") and (measure.option_values.get("max_fpr") or 1) >= 1


def refuse_without_chance(measure: Measure) -> None:
    """Raise unless a random order has the value 0.5 by the measure."""
    if not has_chance(measure):
        raise MeasureError(
            f"RelaImpr compares AUC and GAUC, whose chance level is 0.5, but {measure} has none."
        )


@dataclass(frozen=True)
class Decomposition:
    """The difference of two overall values as a sum of three parts.

    Parameters
    ----------
    before, after : float
        The overall values; NaN where a side has no weight.
    within : float
        The part due to changes of value inside slices.
    composition : float
        The part due to changes of the slices' shares of the weight.
    remainder : float
        The rest: 0 except for rounding where the overall values are the weighted means of the
        slices' values.
    slice_within, slice_composition : ndarray of float64, shape (slices,)
        The contribution of each slice to `within` and to `composition`.
    slices : tuple of str, shape (slices,)
        Labels of the slices; empty if `decompose` got only numbers.
    """

    before: float
    after: float
    within: float
    composition: float
    remainder: float
    slice_within: np.ndarray
    slice_composition: np.ndarray
    slices: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        """``after - before``, which is ``within + composition + remainder``."""
        return self.after - self.before


def decompose(
    weight_before: np.ndarray,
    sum_before: np.ndarray,
    weight_after: np.ndarray,
    sum_after: np.ndarray,
    *,
    before: float | None = None,
    after: float | None = None,
) -> Decomposition:
    """Decompose a difference into change within slices and of composition.

    With share p = W / sum(W) and value v = S / W of each slice, the overall value is V = sum p v,
    and with m(x) the mean of x before and after

    ``V2 - V1 = sum m(p) (v2 - v1) + sum (m(v) - m(V)) (p2 - p1)``.

    This is an identity. It treats both sides alike: if they are exchanged, every term changes only
    its sign. With the weights of one side (as in Laspeyres and Paasche indices) an interaction term
    remains, or is hidden in one of the two terms, and the result depends on the choice of the first
    side. m(V) does not change the sum, because shares add up to 1 on both sides. It makes a slice's
    composition positive where the slice grew and is better than the overall value, or shrank and is
    worse.

    A slice that only one side has cannot have changed its value: all of it is composition, at the
    value that it has. A slice without weight on both sides adds 0.

    The overall values are means of slices only if each group lies in one slice, or if the measure
    is a mean over rows. Where a slice varies inside groups (GAUC by slot), groups are cut, and
    pairs of rows in different slices count only for the overall value. Pass `before` and `after`
    there: `remainder` is the difference that the slices do not explain.

    Parameters
    ----------
    weight_before, weight_after : ndarray of float64, shape (slices,)
        W, the sum of weights of each slice on each side, not negative; 0 for a missing slice.
    sum_before, sum_after : ndarray of float64, shape (slices,)
        S, the sum of weighted values; ignored where the weight is 0.
    before, after : float, optional
        The overall values, if they are not the means of the slices.

    Returns
    -------
    Decomposition
        All NaN where one side has no weight.

    References
    ----------
    Kitagawa (1955), Components of a difference between two rates,
    doi:10.1080/01621459.1955.10501299.

    Examples
    --------
    >>> result = decompose(
    ...     np.array([50.0, 50.0]), np.array([25.0, 35.0]),
    ...     np.array([20.0, 80.0]), np.array([10.0, 56.0]),
    ... )
    >>> round(result.difference, 9), round(result.within, 9), round(result.composition, 9)
    (0.06, 0.0, 0.06)
    """
    weights, sums = (weight_before, weight_after), (sum_before, sum_after)
    totals = [math.fsum(weight.tolist()) for weight in weights]
    if not all(totals):
        nan, none = math.nan, np.full(len(weights[0]), math.nan)
        first, last = (nan if end is None else end for end in (before, after))
        return Decomposition(first, last, nan, nan, nan, none, none.copy())
    shares = [weight / total for weight, total in zip(weights, totals, strict=True)]
    values = [ratio(each, weight, 0.0) for each, weight in zip(sums, weights, strict=True)]
    present = [weight > 0 for weight in weights]
    old = np.where(present[0], values[0], values[1])
    new = np.where(present[1], values[1], values[0])
    overall = [
        math.fsum((share * value).tolist()) for share, value in zip(shares, (old, new), strict=True)
    ]
    middle = (overall[0] + overall[1]) / 2
    within = (shares[0] + shares[1]) / 2 * (new - old)
    either = present[0] | present[1]
    composition = np.where(either, ((old + new) / 2 - middle) * (shares[1] - shares[0]), 0.0)
    composition += 0.0  # not -0.0
    total_within, total_composition = math.fsum(within.tolist()), math.fsum(composition.tolist())
    first = overall[0] if before is None else before
    last = overall[1] if after is None else after
    remainder = math.fsum([last, -first, -total_within, -total_composition])
    return Decomposition(
        first, last, total_within, total_composition, remainder, within, composition
    )


#: Column names after the keys.
TITLES = ("rows", "base", "value", "contribution")


def contributions(records: GroupTable, base: int, model: int, m: int, delta: float) -> np.ndarray:
    """Compute the contribution of each group to the difference of a measure.

    * a mean: ``w_b B / sum of w_b - w_a A / sum of w_a``;
    * a sum: ``B - A``;
    * a geometric mean: the same as for a mean, of its logarithms, scaled to the difference.

    Contributions add up to the difference.

    Parameters
    ----------
    records : GroupTable
    base, model, m : int
        Indices of the two models and of the measure.
    delta : float
        The difference.

    Returns
    -------
    ndarray of float64, shape (groups,)
    """
    measure = records.measures[m]
    (base_terms, base_weights), (model_terms, model_weights) = (
        records.terms(base, m),
        records.terms(model, m),
    )
    if measure.aggregate == "sum":
        return model_terms - base_terms
    total_a, total_b = _total(base_weights), _total(model_weights)
    if not total_a or not total_b:
        return np.zeros(len(base_weights))
    shares = model_terms / total_b - base_terms / total_a
    if measure.aggregate != "geometric mean":
        return shares
    log_difference = _total(shares)
    return shares * (delta / log_difference) if log_difference else np.zeros(len(base_weights))


def rows_of_largest_changes(table: pa.Table) -> list[dict[str, Any]]:
    """Convert the largest changes to Python values, bytes to hexadecimal."""
    names, numbers = table.column_names[: -len(TITLES)], table.columns[-len(TITLES) :]
    keys = [column.to_pylist() for column in table.columns[: len(names)]]
    return [
        {
            "group": {
                name: key[row].hex() if isinstance(key[row], bytes) else plain_value(key[row])
                for name, key in zip(names, keys, strict=True)
            },
            **{title: column[row].as_py() for title, column in zip(TITLES, numbers, strict=True)},
        }
        for row in range(table.num_rows)
    ]


def _total(terms: np.ndarray) -> float:
    """Add terms up exactly; their order does not matter."""
    sums = RowSums(1)
    sums.add(0, terms)
    return sums.total(0)


def table_of_largest_changes(
    records: GroupTable, base: int, model: int, m: int, delta: float, top: int
) -> pa.Table:
    """List the groups that raised a measure most, then the opposite.

    Parameters
    ----------
    records : GroupTable
    base, model, m : int
        Indices of the two models and of the measure.
    delta : float
        The difference of the measure.
    top : int
        The largest number of groups of each kind.

    Returns
    -------
    pyarrow.Table
        Key columns, ``rows``, ``base`` and ``value`` (null where undefined), ``contribution``.
        In descending order of contribution, then in the order of the keys.
    """
    changes = contributions(records, base, model, m, delta)
    groups = np.concatenate(
        [largest_changes(records, changes, top), largest_changes(records, -changes, top)[::-1]]
    )
    columns = [key.take(arrow_column(groups)) for key in records.keys]
    columns.append(arrow_column(records.rows[groups]))
    for side in (base, model):
        values = records.values[side, m][groups]
        columns.append(column_with_nulls(values, np.isnan(values)))
    columns.append(arrow_column(changes[groups]))
    names = list(records.roles.keys)
    for title in TITLES:
        while title in names:
            title += "_"
        names.append(title)
    return pa.table(columns, names=names)


def largest_changes(records: GroupTable, changes: np.ndarray, top: int) -> np.ndarray:
    """Find groups of the largest positive changes, ties by key."""
    rising = np.flatnonzero(changes > 0)
    if len(rising) > top:
        threshold = np.partition(changes[rising], len(rising) - top)[len(rising) - top]
        rising = rising[changes[rising] >= threshold]
    indices = arrow_column(rising)
    table = pa.table(
        [
            arrow_column(-changes[rising]),
            *(decode_array(key.take(indices)) for key in records.keys),
        ],
        names=["moved", *(f"key{k}" for k in range(len(records.keys)))],
    )
    import pyarrow.compute as pc

    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
    return rising[as_array(order)[:top].astype(np.int64)]


def is_mean(measure: Measure) -> bool:
    """Return whether a measure is a mean over groups."""
    return not measure.pooled and measure.aggregate == "mean"


def refuse_without_mean(measure: Measure) -> None:
    """Raise unless a measure is a mean over groups.

    Raises
    ------
    MeasureError
    """
    if measure.pooled:
        raise MeasureError(
            f"{measure} pools the rows of all groups: its value is not a mean of the values of "
            "slices, so its difference cannot be decomposed."
        )
    if measure.aggregate != "mean":
        raise MeasureError(
            f"{measure} is a {measure.aggregate} over groups; only the difference of a mean can be "
            "decomposed."
        )


def slicings_of(values: Sequence[MeasureValue]) -> tuple[str, ...]:
    """List the slicings of values, in their order."""
    return tuple(dict.fromkeys(v.by for v in values if v.by is not None))


def decompose_by_slices(
    values: Sequence[MeasureValue], measure: str, base: str, score: str, by: str
) -> Decomposition:
    """Decompose the difference of a mean over groups by one slicing.

    Parameters
    ----------
    values : sequence of MeasureValue
        Of both models, for all rows and for slices.
    measure, base, score, by : str
        A mean over groups; the score columns of the baseline and of the candidate; the slicing.

    Returns
    -------
    Decomposition
        With the labels of the slices, in their order.
    """
    both = [v for v in values if v.measure == measure and v.score in (base, score)]
    overall = {v.score: v.value for v in both if v.by is None}
    slice_values = {(v.score, v.slice): v for v in both if v.by == by}
    labels = tuple(dict.fromkeys(v.slice for v in both if v.by == by))
    columns = []
    for side in (base, score):
        values_of_side = [slice_values.get((side, label)) for label in labels]
        weights = np.array([0.0 if v is None else v.weight for v in values_of_side])
        slice_means = np.array([math.nan if v is None else v.value for v in values_of_side])
        columns += [weights, slice_means * weights]
    decomposition = decompose(*columns, before=overall[base], after=overall[score])
    return replace(decomposition, slices=labels)


def decomposition_rows(
    decompositions: Mapping[tuple[str, str, str], Decomposition],
) -> Iterator[dict[str, Any]]:
    """Convert decompositions to plain Python values, NaN to None."""
    for (score, measure, by), decomposition in decompositions.items():
        yield {
            "score": score,
            "measure": measure,
            "by": by,
            **{
                name: plain_value(getattr(decomposition, name))
                for name in ("before", "after", "difference", "within", "composition", "remainder")
            },
            "slices": [
                {
                    "slice": label,
                    "within": plain_value(within),
                    "composition": plain_value(composition),
                }
                for label, within, composition in zip(
                    decomposition.slices,
                    decomposition.slice_within.tolist(),
                    decomposition.slice_composition.tolist(),
                    strict=True,
                )
            ],
        }
