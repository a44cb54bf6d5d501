"""Attribute a difference to groups and slices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import arrow_column, as_array, column_with_nulls, decode_array
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import ratio
from fastrank_eval._lib.errors import ArgumentError, MeasureError
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.records import MeasureValue, plain_value
from fastrank_eval.stats.row_sums import RowSums

if TYPE_CHECKING:
    from fastrank_eval.measures import Measure

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
