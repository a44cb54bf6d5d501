"""Attribute a difference to groups and slices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import arrow_column, column_with_nulls
from fastrank_eval._lib.errors import ArgumentError, MeasureError
from fastrank_eval.analysis.group_join import GroupRecords
from fastrank_eval.engine.records import MeasureValue, plain_value
from fastrank_eval.stats.row_sums import RowSums

if TYPE_CHECKING:
    from fastrank_eval.measures import Measure

__all__ = [
    "CHANCE",
    "Decomposition",
    "contributions",
    "decompose",
    "decomposed",
    "decomposition_lines",
    "error_of_rela_impr",
    "has_chance",
    "is_mean",
    "movers_lines",
    "movers_table",
    "refuse_without_chance",
    "refuse_without_mean",
    "rela_impr",
    "sliced_by",
    "slopes_of_rela_impr",
]


#: What a random order is worth.
CHANCE = 0.5


@typed
def rela_impr(value: float, base: float) -> float:
    """Relative improvement of an AUC or GAUC over that of a base model, chance taken off both.

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
        A share: 0.05 is five per cent. NaN where a value is undefined or the base model is no
        better than chance, so that there is nothing to improve on.

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
                f"{name}={number!r} is no AUC: it lies outside [0, 1]; pass shares, not per cent."
            )
    if math.isnan(value) or math.isnan(base) or base <= CHANCE:
        return math.nan
    return (value - CHANCE) / (base - CHANCE) - 1.0


def slopes_of_rela_impr(value: float, base: float) -> tuple[float, float]:
    """Compute how fast RelaImpr falls with the base value and rises with the value.

    Parameters
    ----------
    value, base : float
        As `rela_impr` takes them, `base` being above 0.5.

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
    """Compute the standard error of RelaImpr from those of both values and of their difference.

    These three have the covariance of the values in them. By the delta method, with r for RelaImpr,
    ``((1 + r) Var(difference) - r Var(value) + r (1 + r) Var(base)) / (base - 0.5)^2``, in which
    nothing large cancels where the models are alike.

    Parameters
    ----------
    value, base : float
        As `rela_impr` takes them.
    value_se, base_se, difference_se : float
        NaN where one is not known.

    Returns
    -------
    float
        NaN where RelaImpr is, or one of the errors.
    """
    improvement = rela_impr(value, base)
    if math.isnan(improvement):
        return math.nan
    rest = (1 + improvement) * base_se**2 - value_se**2
    variance = (1 + improvement) * difference_se**2 + improvement * rest
    return math.sqrt(variance) / (base - CHANCE) if variance >= 0 else math.nan


def has_chance(known: Measure) -> bool:
    """Tell whether a random order is worth 0.5: of AUC and GAUC, whole."""
    return known.name in ("AUC", "GAUC") and (known.chosen.get("max_fpr") or 1) >= 1


def refuse_without_chance(known: Measure) -> None:
    """Refuse a measure of which a random order is not worth 0.5: any but AUC and GAUC, whole."""
    if not has_chance(known):
        raise MeasureError(
            f"RelaImpr takes chance for 0.5, which {known} has none of; it compares AUC and GAUC."
        )


@dataclass(frozen=True)
class Decomposition:
    """The difference of two overall values, in parts that add up to it.

    Parameters
    ----------
    before, after : float
        The overall values; NaN where a side has no weight.
    within : float
        What comes of slices whose value changed.
    mix : float
        What comes of slices whose share of the weight changed.
    remainder : float
        What neither explains: 0 but for rounding where the overall values are the means of the
        slices' values by their weights.
    slice_within, slice_mix : ndarray of float64, shape (slices,)
        What each slice adds to `within` and to `mix`.
    slices : tuple of str, shape (slices,)
        Their labels; empty where only numbers were given.
    """

    before: float
    after: float
    within: float
    mix: float
    remainder: float
    slice_within: np.ndarray
    slice_mix: np.ndarray
    slices: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        """The overall value after, less that before: ``within + mix + remainder``."""
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
    """Decompose the difference of two overall values into change within slices and change of mix.

    With share p = W / sum(W) and value v = S / W of each slice, the overall value is V = sum p v,
    and with m(x) the mean of x before and after

    ``V2 - V1 = sum m(p) (v2 - v1) + sum (m(v) - m(V)) (p2 - p1)``.

    This is an identity. It treats both sides alike: exchanged, every term changes its sign only.
    With weights of one side (as Laspeyres and Paasche have it) an interaction is left over, or
    hidden in one of the two terms, and the answer hangs on which side is called the first. m(V)
    changes no sum, because shares add up to 1 on both sides; by it a slice's mix is positive where
    it grew and is better than the whole, or shrank and is worse.

    A slice that one side does not have has no value there, so none that could have changed: it is
    all mix, at the value it has. A slice without weight on both sides adds 0.

    The overall values are means of slices only where each group lies in one slice, or the measure
    is a mean over rows. Where a slice varies inside groups (GAUC by slot), groups are cut and pairs
    of rows in different slices count for the whole alone. Give `before` and `after` there: what
    the slices do not explain is `remainder`.

    Parameters
    ----------
    weight_before, weight_after : ndarray of float64, shape (slices,)
        W, the sum of weights of each slice on each side, not negative; 0 where it is absent.
    sum_before, sum_after : ndarray of float64, shape (slices,)
        S, the sum of weighted values; ignored where the weight is 0.
    before, after : float, optional
        The overall values, where they are not the means of the slices.

    Returns
    -------
    Decomposition
        NaN throughout where one side has no weight at all.

    Raises
    ------
    ArgumentError
        Arrays of several lengths, or a weight that is negative, NaN or infinite.

    References
    ----------
    Kitagawa (1955), Components of a difference between two rates,
    doi:10.1080/01621459.1955.10501299.

    Examples
    --------
    >>> found = decompose(
    ...     np.array([50.0, 50.0]), np.array([25.0, 35.0]),
    ...     np.array([20.0, 80.0]), np.array([10.0, 56.0]),
    ... )
    >>> round(found.difference, 9), round(found.within, 9), round(found.mix, 9)
    (0.06, 0.0, 0.06)
    """
    weights = [_checked("weight", weight) for weight in (weight_before, weight_after)]
    sums = [_checked("sum", each, finite=False) for each in (sum_before, sum_after)]
    if len({len(column) for column in (*weights, *sums)}) > 1:
        raise ArgumentError(
            f"decompose: {', '.join(str(len(column)) for column in (*weights, *sums))} slices; "
            "give both sides the same slices, of weight 0 where a side lacks one."
        )
    totals = [math.fsum(weight.tolist()) for weight in weights]
    if not all(totals):
        none = np.full(len(weights[0]), math.nan)
        nan = math.nan
        return Decomposition(_or(before, nan), _or(after, nan), nan, nan, nan, none, none.copy())
    shares = [weight / total for weight, total in zip(weights, totals, strict=True)]
    values = [_values(each, weight) for each, weight in zip(sums, weights, strict=True)]
    there = [weight > 0 for weight in weights]
    old = np.where(there[0], values[0], values[1])
    new = np.where(there[1], values[1], values[0])
    whole = [
        math.fsum((share * value).tolist()) for share, value in zip(shares, (old, new), strict=True)
    ]
    middle = (whole[0] + whole[1]) / 2
    within = (shares[0] + shares[1]) / 2 * (new - old)
    present = there[0] | there[1]
    mix = np.where(present, ((old + new) / 2 - middle) * (shares[1] - shares[0]), 0.0)
    mix += 0.0  # not -0.0
    total_within, total_mix = math.fsum(within.tolist()), math.fsum(mix.tolist())
    first, last = _or(before, whole[0]), _or(after, whole[1])
    remainder = math.fsum([last, -first, -total_within, -total_mix])
    return Decomposition(first, last, total_within, total_mix, remainder, within, mix)


def _values(sums: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.divide(sums, weights, out=np.zeros(len(sums)), where=weights > 0)


def _or(given: float | None, otherwise: float) -> float:
    return otherwise if given is None else float(given)


def _checked(what: str, column: np.ndarray, *, finite: bool = True) -> np.ndarray:
    column = np.asarray(column, np.float64)
    if column.ndim != 1:
        raise ArgumentError(f"decompose: {what} has shape {column.shape}; give one for each slice.")
    if finite and not ((column >= 0) & (column < math.inf)).all():
        at = int(np.argmin((column >= 0) & (column < math.inf)))
        raise ArgumentError(
            f"decompose: the {what} of slice {at} is {column[at]}; give one that is finite and not "
            "negative."
        )
    return column


#: Titles of what stands beside the keys.
TITLES = ("rows", "base", "value", "contribution")


def contributions(kept: GroupRecords, base: int, model: int, m: int, delta: float) -> np.ndarray:
    """What each group adds to the difference of a measure.

    ``w_b B / sum of w_b - w_a A / sum of w_a`` of a mean, ``B - A`` of a sum; of a geometric mean
    that of its logarithms, in the proportion of the difference. They add up to the difference.

    Parameters
    ----------
    kept : GroupRecords
    base, model, m : int
        Places of the two models and of the measure.
    delta : float
        The difference.

    Returns
    -------
    ndarray of float64, shape (groups,)
    """
    measure = kept.measures[m]
    (pa_, wa), (pb, wb) = kept.terms(base, m), kept.terms(model, m)
    if measure.aggregate == "sum":
        return pb - pa_
    total_a, total_b = _total(wa), _total(wb)
    if not total_a or not total_b:
        return np.zeros(len(wa))
    shares = pb / total_b - pa_ / total_a
    if measure.aggregate != "geometric mean":
        return shares
    of_logs = _total(shares)
    return shares * (delta / of_logs) if of_logs else np.zeros(len(wa))


def movers_lines(table: pa.Table) -> list[dict[str, Any]]:
    """The same as plain Python values: ``group`` the keys by name, bytes in hexadecimal."""
    names, numbers = table.column_names[: -len(TITLES)], table.columns[-len(TITLES) :]
    keys = [column.to_pylist() for column in table.columns[: len(names)]]
    return [
        {
            "group": {name: _plain_key(key[at]) for name, key in zip(names, keys, strict=True)},
            **{title: column[at].as_py() for title, column in zip(TITLES, numbers, strict=True)},
        }
        for at in range(table.num_rows)
    ]


def _plain_key(key: object) -> Any:
    return key.hex() if isinstance(key, bytes) else plain_value(key)


def _total(terms: np.ndarray) -> float:
    """Their sum, the same for any order."""
    sums = RowSums(1)
    sums.add(0, terms)
    return sums.total(0)


def movers_table(
    kept: GroupRecords, base: int, model: int, m: int, delta: float, top: int
) -> pa.Table:
    """The groups that raised a measure most, then those that lowered it most.

    Parameters
    ----------
    kept : GroupRecords
    base, model, m : int
        Places of the two models and of the measure.
    delta : float
        Its difference.
    top : int
        At most so many of each.

    Returns
    -------
    pyarrow.Table
        Key columns, ``rows``, ``base`` and ``value`` (null where undefined), ``contribution``:
        descending; of equal ones in the order of the keys.
    """
    moved = contributions(kept, base, model, m, delta)
    found = np.concatenate([_most(kept, moved, top), _most(kept, -moved, top)[::-1]])
    columns = [key.take(arrow_column(found)) for key in kept.keys]
    columns.append(arrow_column(kept.rows[found]))
    for place in (base, model):
        values = kept.values[place, m][found]
        columns.append(column_with_nulls(values, np.isnan(values)))
    columns.append(arrow_column(moved[found]))
    names = list(kept.names)
    for title in TITLES:
        while title in names:
            title += "_"
        names.append(title)
    return pa.table(columns, names=names)


def _most(kept: GroupRecords, moved: np.ndarray, top: int) -> np.ndarray:
    """Groups of the largest positive numbers, descending, then in the order of their keys."""
    rising = np.flatnonzero(moved > 0)
    if len(rising) > top:
        least = np.partition(moved[rising], len(rising) - top)[len(rising) - top]
        rising = rising[moved[rising] >= least]
    places = arrow_column(rising)
    table = pa.table(
        [arrow_column(-moved[rising]), *(_sortable(key.take(places)) for key in kept.keys)],
        names=["moved", *(f"key{k}" for k in range(len(kept.keys)))],
    )
    import pyarrow.compute as pc

    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
    return rising[order.to_numpy()[:top].astype(np.int64)]


def _sortable(key: pa.Array) -> pa.Array:
    return key.dictionary_decode() if pa.types.is_dictionary(key.type) else key


def is_mean(known: Measure) -> bool:
    """Whether a measure is a mean over groups."""
    return not known.pooled and known.aggregate == "mean"


def refuse_without_mean(known: Measure) -> None:
    """Refuse a measure that is not a mean over groups: it is not made up of those of slices.

    Raises
    ------
    MeasureError
    """
    if known.pooled:
        raise MeasureError(
            f"{known} pools the rows of all groups: its value is no mean of those of slices, so "
            "that its difference cannot be decomposed."
        )
    if known.aggregate != "mean":
        raise MeasureError(
            f"{known} is a {known.aggregate} over groups; the difference of a mean can be "
            "decomposed."
        )


def sliced_by(values: Sequence[MeasureValue]) -> tuple[str, ...]:
    """The slicings of these values, in their order."""
    return tuple(dict.fromkeys(v.by for v in values if v.by is not None))


def decomposed(
    values: Sequence[MeasureValue], measure: str, base: str, score: str, by: str
) -> Decomposition:
    """Decompose the difference of a mean over groups by the slices of one slicing.

    Parameters
    ----------
    values : sequence of MeasureValue
        Of both models, all rows and slices.
    measure, base, score, by : str
        A mean over groups; score columns of the baseline and of the candidate; the slicing.

    Returns
    -------
    Decomposition
        With the labels of the slices, in the order in which they stand.
    """
    mine = [v for v in values if v.measure == measure and v.score in (base, score)]
    whole = {v.score: v.value for v in mine if v.by is None}
    of_slices = {(v.score, v.slice): v for v in mine if v.by == by}
    labels = tuple(dict.fromkeys(v.slice for v in mine if v.by == by))
    columns = []
    for side in (base, score):
        found = [of_slices.get((side, label)) for label in labels]
        weights = np.array([0.0 if v is None else v.weight for v in found])
        of_each = np.array([math.nan if v is None else v.value for v in found])
        columns += [weights, of_each * weights]
    parts = decompose(*columns, before=whole[base], after=whole[score])
    return replace(parts, slices=labels)


def decomposition_lines(
    found: Mapping[tuple[str, str, str], Decomposition],
) -> Iterator[dict[str, Any]]:
    """Decompositions by score column, measure and slicing as plain Python values, None for NaN."""
    for (score, measure, by), parts in found.items():
        yield {
            "score": score,
            "measure": measure,
            "by": by,
            **{
                name: plain_value(getattr(parts, name))
                for name in ("before", "after", "difference", "within", "mix", "remainder")
            },
            "slices": [
                {"slice": label, "within": plain_value(within), "mix": plain_value(mix)}
                for label, within, mix in zip(
                    parts.slices,
                    parts.slice_within.tolist(),
                    parts.slice_mix.tolist(),
                    strict=True,
                )
            ],
        }
