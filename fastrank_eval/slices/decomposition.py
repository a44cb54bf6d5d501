"""Why an overall value moved: slices changed, or the mix of slices did."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastrank_eval.errors import ArgumentError

__all__ = ["Decomposition", "decompose"]


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
