"""Add paired terms of two models, for the error of their difference.

A group of value A and weight w has the terms p = w A and w. Both are 0 if a model leaves the group
out. Each model has the sums of its squares. The difference also needs the four products of one
model's terms and the other's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastrank_eval._lib.jit import kernel
from fastrank_eval.stats.exact import NO_SLICES, UNIT, quotient
from fastrank_eval.stats.intervals import (
    Moments,
    Support,
    carriers,
    root_of_quotient,
)
from fastrank_eval.stats.means import MeasureSums

#: Two values count as equal if they differ by at most this share of the larger one. A value that is
#: summed in two orders differs in its last bits, which is neither a win nor a loss.
EQUAL_WITHIN = 2.0**-40

# Counters of a slice.
_WINS, _TIES, _LOSSES, _ONLY_BASE, _ONLY_OTHER = range(5)
# Terms of p and w of both models: p q, p v, w q and w v, as in `CrossMoments`. Terms of the
# differences d of values and e of weighted values: d, d d, e^4.
_TERMS = ((0, 2), (0, 3), (1, 2), (1, 3), (4,), (4, 4), (5, 5, 5, 5))


@dataclass(frozen=True, slots=True)
class GroupPairs:
    """How the groups of two models compare.

    Parameters
    ----------
    higher, ties, lower : int
        Groups that both models use, by the other model's value against the base model's.
    only_base, only_other : int
        Groups that one of them uses.
    mean, deviation : float
        Unweighted mean and sample standard deviation of the differences in groups that both models
        use. NaN if there are too few.
    """

    higher: int
    ties: int
    lower: int
    only_base: int
    only_other: int
    mean: float
    deviation: float

    @property
    def both(self) -> int:
        """Groups that both models use."""
        return self.higher + self.ties + self.lower

    @property
    def groups(self) -> int:
        """Groups that either model uses."""
        return self.both + self.only_base + self.only_other


@dataclass(frozen=True, slots=True)
class CrossMoments:
    """Exact sums of products of two models' terms.

    In the squared unit of `Moments`.

    Parameters
    ----------
    values : int
        Sum of p_a p_b.
    value_weight, weight_value, weights : int
        Sums of p_a w_b, w_a p_b and w_a w_b.
    """

    values: int
    value_weight: int
    weight_value: int
    weights: int


class PairedState(MeasureSums):
    """Sums over groups of a base model and another model, by slice.

    Parameters
    ----------
    measures : int
        Number of measures.
    """

    terms = _TERMS
    width = 5

    def add(
        self,
        m: int,
        base: np.ndarray,
        other: np.ndarray,
        base_weights: np.ndarray | None,
        other_weights: np.ndarray | None,
        slices: np.ndarray = NO_SLICES,
    ) -> None:
        """Add groups.

        Parameters
        ----------
        m : int
            Index of the measure.
        base, other : ndarray of float64, shape (groups,)
            Values of the two models, NaN where a group is not used.
        base_weights, other_weights : ndarray of float64, shape (groups,), or None
            Group weights. None means 1 each.
        slices : ndarray of int64, shape (groups,), or (0,)
            The slice of each group. An empty array means the first slice for all.
        """
        counts = self._counts[m]
        if len(slices):
            counts.ensure_slices(int(slices.max()) + 1)
        numbers = np.empty((6, len(base)))
        _compare(base, other, slices, numbers[4], counts.table)
        numbers[0], numbers[1] = _terms(base, base_weights)
        numbers[2], numbers[3] = _terms(other, other_weights)
        np.subtract(numbers[2], numbers[0], out=numbers[5])
        self._sums[m].add(numbers, slices)

    def add_zeros(self, m: int, groups: np.ndarray | int) -> None:
        """Add groups with value 0 and weight 1 for both models to each slice."""
        self._counts[m].add(_TIES, groups)
        # Adds a weight of 1 for each group without an array of that length.
        self._sums[m].add_integers(3, np.atleast_1d(np.asarray(groups, np.int64)))

    def cross(self, m: int, row: int = 0) -> CrossMoments:
        """Return the sums of products that the error of the difference needs."""
        return CrossMoments(*(self._sums[m].units(term, row) for term in range(4)))

    def support(self, m: int, base: Moments, other: Moments, row: int = 0) -> Support:
        """Return the groups behind the variance of the difference.

        The influence of a group is its difference of weighted values. Influences are taken about 0,
        as if the models did not differ.

        Parameters
        ----------
        m : int
            Index of the measure.
        base, other : Moments
            The moments of both models.
        row : int
            The slice.
        """
        by_weight = min(base.carriers_by_weight(), other.carriers_by_weight())
        squares = base.squares + other.squares - 2 * self._sums[m].units(0, row)
        fourth = self._sums[m].total(6, row)
        influence = carriers(quotient(squares, 1 << (2 * UNIT)), fourth)
        return Support(self.pairs(m, row).groups, by_weight, influence, difference=True)

    def pairs(self, m: int, row: int = 0) -> GroupPairs:
        """Return the counts of wins, ties and losses over groups."""
        wins, ties, losses, base, other = (self._counts[m].at(row, c) for c in range(5))
        both, sums = wins + ties + losses, self._sums[m]
        total = sums.units(4, row)
        mean = total / (both << UNIT) if both else float("nan")
        spread = float("nan")
        if both > 1:
            deviations = both * sums.units(5, row) - total * total
            spread = root_of_quotient(deviations, both * (both - 1) << (2 * UNIT))
        return GroupPairs(wins, ties, losses, base, other, mean, spread)


def error_of_difference(
    base: Moments,
    other: Moments,
    cross: CrossMoments,
    groups: int,
    slopes: tuple[float, float] = (1.0, 1.0),
) -> float:
    """Compute the standard error of the difference of two models' means.

    ``sqrt(U / (U - 1) * sum of (s_b e_b - s_a e_a)^2)`` of U groups that either model uses, with
    ``e = w (A - mean) / sum of w`` of each: the paired variance of two ratios of sums over
    independent clusters, linearised.

    Parameters
    ----------
    base, other : Moments
    cross : CrossMoments
    groups : int
    slopes : tuple of float
        Derivatives of the functions of each mean that are subtracted; 1 for the means themselves.

    Returns
    -------
    float
        NaN with fewer than two groups.

    References
    ----------
    Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
    """
    if groups < 2 or not base.weights or not other.weights:
        return float("nan")
    pa, wa, pb, wb = base.values, base.weights, other.values, other.weights
    crossed = (
        cross.values * wa * wb
        - cross.value_weight * wa * pb
        - cross.weight_value * pa * wb
        + cross.weights * pa * pb
    )
    base_squares, other_squares = base.deviations(), other.deviations()
    (sa, unit_a), (sb, unit_b) = (slope.as_integer_ratio() for slope in slopes)
    # In integers, so that equal terms cancel exactly.
    slope_a, slope_b = sa * unit_b * wb**2, sb * unit_a * wa**2
    total = slope_b**2 * other_squares + slope_a**2 * base_squares - 2 * slope_a * slope_b * crossed
    return root_of_quotient(total * groups, (groups - 1) * (unit_a * unit_b * wa**2 * wb**2) ** 2)


def error_of_sums(base: Moments, other: Moments, cross: CrossMoments, groups: int) -> float:
    """Compute the standard error of a difference of sums over fixed groups."""
    if groups < 2:
        return float("nan")
    squares = base.squares + other.squares - 2 * cross.values
    difference = other.values - base.values
    return root_of_quotient(groups * squares - difference**2, (groups - 1) << (2 * base.unit))


def _terms(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Compute p and w of each group, 0 where it is not used."""
    used = ~np.isnan(values)
    w = used.astype(np.float64) if weights is None else np.where(used, weights, 0.0)
    return np.where(used, values, 0.0) * w, w


@kernel
def _compare(base, other, slices, difference, counts):  # type: ignore[no-untyped-def]
    row = np.int64(0)
    for g in range(base.shape[0]):
        a = base[g]
        b = other[g]
        if slices.shape[0] > 0:
            row = slices[g]
        difference[g] = 0.0
        if a == a and b == b:
            if abs(b - a) <= EQUAL_WITHIN * max(abs(a), abs(b)):
                counts[row, 1] += 1
            else:
                difference[g] = b - a
                if b > a:
                    counts[row, 0] += 1
                else:
                    counts[row, 2] += 1
        elif a == a:
            counts[row, 3] += 1
        elif b == b:
            counts[row, 4] += 1
