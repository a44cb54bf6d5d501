"""Exact sums over groups of two models side by side: what their difference is sure to.

The terms of a group are p = w A and w of its value A and weight w, both 0 where a model leaves the
group out. Beside the squares that each model keeps itself, the difference needs the four products
of one model's terms and the other's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from fastrank_eval.columns import frozen
from fastrank_eval.exact_cells import LOW_BITS, SCALE, Cells
from fastrank_eval.kernel import kernel
from fastrank_eval.line_counts import LineCounts
from fastrank_eval.mean_state import ONE_LINE
from fastrank_eval.saved_cells import loaded_cells, saved_cells
from fastrank_eval.saved_parts import Parts
from fastrank_eval.uncertainty import Moments, root_of_quotient

#: Values of two models are equal where they differ by no more than this share of the larger: one
#: value summed in two orders differs by its last bits, which is neither a win nor a loss.
AGREES = 2.0**-40

# Counters of a line.
_WINS, _TIES, _LOSSES, _ONLY_BASE, _ONLY_OTHER = range(5)
#: What the four sums of products are called where they are saved, in the order of `CrossMoments`.
_CROSSED = ("values", "value_weight", "weight_value", "weights")


@dataclass(frozen=True, slots=True)
class GroupPairs:
    """How the groups of two models compare.

    Parameters
    ----------
    higher, ties, lower : int
        Groups that both use, in which the other model's value is higher than, equal to and lower
        than that of the base model.
    only_base, only_other : int
        Groups that one of them uses.
    mean, deviation : float
        Of the differences in groups that both use: unweighted mean, sample standard deviation; NaN
        where there are too few.
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
    """Exact sums over groups of products of two models' terms, in the square of `Moments`' unit.

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


class PairedState:
    """Sums over groups of a base model and another, one line a slice.

    Parameters
    ----------
    measures : int
        Number of measures.
    """

    def __init__(self, measures: int) -> None:
        self._crossed = [[Cells(2) for _ in range(4)] for _ in range(measures)]
        self._differences = [Cells(4) for _ in range(measures)]
        self._counts = [LineCounts(5) for _ in range(measures)]

    def add(
        self,
        m: int,
        base: np.ndarray,
        other: np.ndarray,
        base_weights: np.ndarray | None,
        other_weights: np.ndarray | None,
        lines: np.ndarray = ONE_LINE,
    ) -> None:
        """Add groups.

        Parameters
        ----------
        m : int
            Which measure.
        base, other : ndarray of float64, shape (groups,)
            Values of the two models, NaN where a group is not used.
        base_weights, other_weights : ndarray of float64, shape (groups,), or None
            Group weights; None: 1 each.
        lines : ndarray of int64, shape (groups,), or (0,)
            The line that each group is added to; without entries the first.
        """
        counts, gaps = self._counts[m], self._differences[m]
        if len(lines):
            needed = int(lines.max()) + 1
            counts.hold_lines(needed)
            for cells in (gaps, *self._crossed[m]):
                cells.hold_lines(needed)
        difference = np.empty(len(base))
        _compare(base, other, lines, difference, counts.table)
        bits, done = frozen(difference.view(np.int64)), 0
        while done < len(bits):
            done = _add_squares(done, bits, lines, gaps.low, gaps.table)
            if done < len(bits):
                gaps.hold(int(bits[done]) >> 52 & 0x7FF)
        mine, theirs = _terms(base, base_weights), _terms(other, other_weights)
        pairs = [(x, y) for x in mine for y in theirs]
        for cells, (x, y) in zip(self._crossed[m], pairs, strict=True):
            done = 0
            while done < len(x):
                done = _add_products(done, x, y, lines, cells.low, cells.table)
                if done < len(x):
                    cells.hold(_scale_of(x[done]) + _scale_of(y[done]))

    def add_zeros(self, m: int, groups: np.ndarray | int) -> None:
        """Add groups to each line in which both models have the value 0 and the weight 1."""
        self._counts[m].add(_TIES, groups)
        groups = np.atleast_1d(np.asarray(groups, np.int64))
        there = np.flatnonzero(groups)
        if not len(there):
            return
        # Numbers of groups as weights of 1 each, without an array of so many.
        cells = self._crossed[m][3]
        cells.hold_lines(len(groups))
        one = int(np.float64(1).view(np.int64))
        at = 2 * _scale_of(one)
        cells.hold(at)
        # Of 1.0 the upper bits are 2**25: their product is 2**24 in the upper half.
        cells.table[there, at - cells.low, 1] += groups[there] << 24

    def merge(self, other: PairedState) -> None:
        """Add another state; the order of merging does not matter."""
        for mine, theirs in zip(self._crossed, other._crossed, strict=True):
            for sums, more in zip(mine, theirs, strict=True):
                sums.merge(more)
        for gaps, more in zip(self._differences, other._differences, strict=True):
            gaps.merge(more)
        for counts, more_counts in zip(self._counts, other._counts, strict=True):
            counts.merge(more_counts)

    def take(self, lines: np.ndarray) -> PairedState:
        """The sums of some lines, in that order; zeros for -1."""
        taken = PairedState(len(self._counts))
        taken._crossed = [[cells.take(lines) for cells in four] for four in self._crossed]
        taken._differences = [cells.take(lines) for cells in self._differences]
        taken._counts = [counts.take(lines) for counts in self._counts]
        return taken

    def of_measures(self, chosen: Sequence[int]) -> PairedState:
        """The sums of some measures, which are shared."""
        found = PairedState(0)
        found._crossed = [self._crossed[m] for m in chosen]
        found._differences = [self._differences[m] for m in chosen]
        found._counts = [self._counts[m] for m in chosen]
        return found

    def saved(self) -> Parts:
        """Cells that are not 0 with their places, and counters, of every line."""
        counts = np.stack([counts.table for counts in self._counts])
        parts: Parts = {"counts": counts}
        for name, cells in zip(_CROSSED, zip(*self._crossed, strict=True), strict=True):
            parts |= saved_cells(name, cells, counts.shape[1])
        return parts | saved_cells("differences", self._differences, counts.shape[1])

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        counts = parts["counts"]
        state, shape = cls(len(counts)), counts.shape[:2]
        crossed = [loaded_cells(parts, name, shape, 2) for name in _CROSSED]
        state._crossed = [list(four) for four in zip(*crossed, strict=True)]
        state._differences = loaded_cells(parts, "differences", shape, 4)
        state._counts = [LineCounts.of(table.copy()) for table in counts]
        return state

    def cross(self, m: int, line: int = 0) -> CrossMoments:
        """What the standard error of the difference needs besides each model's own moments."""
        return CrossMoments(*(cells.products(line) for cells in self._crossed[m]))

    def pairs(self, m: int, line: int = 0) -> GroupPairs:
        """How the groups compare, one by one."""
        wins, ties, losses, base, other = (self._counts[m].at(line, c) for c in range(5))
        both, gaps, unit = wins + ties + losses, self._differences[m], SCALE - LOW_BITS
        total = gaps.upper(line)
        mean = gaps.sum(line) / (both << SCALE) if both else float("nan")
        spread = float("nan")
        if both > 1:
            deviations = both * gaps.squares(line) - total * total
            spread = root_of_quotient(deviations, both * (both - 1) << (2 * unit))
        return GroupPairs(wins, ties, losses, base, other, mean, spread)


def error_of_difference(
    base: Moments,
    other: Moments,
    cross: CrossMoments,
    groups: int,
    slopes: tuple[float, float] = (1.0, 1.0),
) -> float:
    """The standard error of the difference of two models' means; NaN of less than two groups.

    ``sqrt(U / (U - 1) * sum of (s_b e_b - s_a e_a)^2)`` of U groups that either model uses, with
    ``e = w (A - mean) / sum of w`` of each: the paired variance of two ratios of sums over
    independent clusters, linearised.

    Parameters
    ----------
    base, other : Moments
    cross : CrossMoments
    groups : int
    slopes : tuple of float
        How fast a function of each mean rises there, whose difference is asked for.

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
    mine, theirs = base.deviations(), other.deviations()
    (sa, below_a), (sb, below_b) = (slope.as_integer_ratio() for slope in slopes)
    # As whole numbers, so that what is equal cancels.
    at, bt = sa * below_b * wb**2, sb * below_a * wa**2
    total = bt**2 * theirs + at**2 * mine - 2 * at * bt * crossed
    return root_of_quotient(total * groups, (groups - 1) * (below_a * below_b * wa**2 * wb**2) ** 2)


def error_of_sums(base: Moments, other: Moments, cross: CrossMoments, groups: int) -> float:
    """The standard error of the difference of two sums, the number of groups being given."""
    if groups < 2:
        return float("nan")
    squares = base.squares + other.squares - 2 * cross.values
    difference = other.values - base.values
    return root_of_quotient(groups * squares - difference**2, (groups - 1) << (2 * base.unit))


def _terms(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """P and w of each group as bits, 0 where it is not used."""
    used = ~np.isnan(values)
    w = used.astype(np.float64) if weights is None else np.where(used, weights, 0.0)
    p = np.where(used, values, 0.0) * w
    return frozen(p.view(np.int64)), frozen(w.view(np.int64))


def _scale_of(bits: np.int64 | int) -> int:
    """The power of two of a double's last bit, counted from the smallest."""
    return max((int(bits) >> 52 & 0x7FF) - 1, 0)


@kernel
def _compare(base, other, lines, difference, counts):  # type: ignore[no-untyped-def]
    line = np.int64(0)
    for g in range(base.shape[0]):
        a = base[g]
        b = other[g]
        if lines.shape[0] > 0:
            line = lines[g]
        difference[g] = 0.0
        if a == a and b == b:
            if abs(b - a) <= AGREES * max(abs(a), abs(b)):
                counts[line, 1] += 1
            else:
                difference[g] = b - a
                if b > a:
                    counts[line, 0] += 1
                else:
                    counts[line, 2] += 1
        elif a == a:
            counts[line, 3] += 1
        elif b == b:
            counts[line, 4] += 1


@kernel
def _add_squares(begin, bits, lines, low, cells):  # type: ignore[no-untyped-def]
    """Add numbers and squares from one group on; the group whose exponent does not fit."""
    window = cells.shape[1]
    line = np.int64(0)
    for g in range(begin, bits.shape[0]):
        b = bits[g]
        if b & 0x7FFFFFFFFFFFFFFF == 0:
            continue
        exponent = (b >> 52) & 0x7FF
        if exponent < low or exponent - low >= window:
            return g
        if lines.shape[0] > 0:
            line = lines[g]
        mantissa = b & 0xFFFFFFFFFFFFF
        if exponent > 0:
            mantissa |= 1 << 52
        lower = mantissa & 0x7FFFFFF
        upper = mantissa >> 27
        square = upper * upper
        if b < 0:
            lower = -lower
            upper = -upper
        at = exponent - low
        cells[line, at, 0] += lower
        cells[line, at, 1] += upper
        cells[line, at, 2] += square & 0x3FFFFFF
        cells[line, at, 3] += square >> 26
    return bits.shape[0]


@kernel
def _add_products(begin, x, y, lines, low, cells):  # type: ignore[no-untyped-def]
    """Add products of upper bits from one group on; the group whose exponents do not fit."""
    window = cells.shape[1]
    line = np.int64(0)
    for g in range(begin, x.shape[0]):
        a = x[g]
        b = y[g]
        of_a = (a >> 52) & 0x7FF
        of_b = (b >> 52) & 0x7FF
        upper_a = (a & 0xFFFFFFFFFFFFF) >> 27
        upper_b = (b & 0xFFFFFFFFFFFFF) >> 27
        at = np.int64(0)
        if of_a > 0:
            upper_a |= 1 << 25
            at += of_a - 1
        if of_b > 0:
            upper_b |= 1 << 25
            at += of_b - 1
        product = upper_a * upper_b
        if product == 0:
            continue
        if at < low or at - low >= window:
            return g
        if lines.shape[0] > 0:
            line = lines[g]
        if (a < 0) != (b < 0):
            product = -product
        cells[line, at - low, 0] += product & 0x3FFFFFF
        cells[line, at - low, 1] += product >> 26
    return x.shape[0]
