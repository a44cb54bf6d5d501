"""Estimate the variance of an AUC from placement values."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Self

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import JobMap
from fastrank_eval.stats.intervals import GROUP_ROUNDINGS
from fastrank_eval.stats.score_runs import RocSteps, sortable_codes, sum_classes
from fastrank_eval.stats.scores import Scores, WeightedScores

#: Below this share of its terms a variance is added in parts that do not cancel.
_CANCELLED = 2.0**-30
#: Most upper bits of a code in the look-up table, and bits beyond those of the number of codes.
_UPPER_BITS, _FURTHER_BITS = 18, 4


@dataclass(frozen=True)
class ScoredRows:
    """The rows of a chunk of whole groups.

    Parameters
    ----------
    codes : ndarray of unsigned integers, shape (rows,)
        Codes of the scores, or keys of their bins.
    positive : ndarray of int64
        Indices of the positive rows, ascending.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    weight : ndarray of float64, shape (rows,), or None
    token : object
        A mark of the chunk: the same object for every model.
    level : int
        Of the keys of bins; see `Bins`.
    """

    codes: np.ndarray
    positive: np.ndarray
    starts: np.ndarray
    weight: np.ndarray | None
    token: object = None
    level: int = 0


class Placements:
    """Placement values by score or bin, doubled so that ties are integers.

    The placement value of a positive counts the others below it, that of an other the positives
    above it.

    Parameters
    ----------
    codes : ndarray of unsigned integers
        Of scores of positives, or keys of bins; ascending.
    number, tied : ndarray
        Positives and others at each; rows, or their weights times `scale`.
    between : ndarray, shape (codes + 1,)
        Others below the first, between two, and above the last.
    scale : float
    bits : int
        Bits that codes of rows may have.
    level : int
        Of the keys of bins; see `Bins`.
    """

    def __init__(
        self,
        codes: np.ndarray,
        number: np.ndarray,
        tied: np.ndarray,
        between: np.ndarray,
        scale: float,
        bits: int,
        level: int = 0,
    ) -> None:
        self.scale, self._level = scale, level
        lower = np.cumsum(between)[:-1] + np.cumsum(tied) - tied
        above = np.append(np.cumsum(number[::-1])[::-1], 0)
        self.codes = frozen(codes)
        #: Values of positives at each score; of others between scores; of others at a score.
        self.positive_values = frozen(2 * lower + tied)
        self.other_values = frozen(2 * above)
        self.tied_values = frozen(above[:-1] + above[1:])
        self.positives = float(number.sum())
        self.others = float(between.sum() + tied.sum())
        # The table is made before the first look-up, so it is short for few positives.
        upper = min(len(codes).bit_length() + _FURTHER_BITS, _UPPER_BITS, bits)
        self._shift = bits - upper
        edges = np.arange((1 << upper) + 1, dtype=np.uint64) << np.uint64(self._shift)
        # The last edge may exceed the type of the codes.
        first = np.searchsorted(codes, edges[:-1].astype(codes.dtype))
        self._first = frozen(np.append(first, len(codes)).astype(np.int64))

    @classmethod
    def of(cls, steps: RocSteps) -> Self:
        """Compute the placement values of scores."""
        codes = sortable_codes(steps.score[::-1])
        number, tied, between = (
            np.ascontiguousarray(part[::-1])
            for part in (steps.positives, steps.others, steps.negatives_between)
        )
        return cls(codes, number, tied, between, steps.scale, 8 * codes.itemsize)

    def deviations(
        self, rows: ScoredRows, area: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sum placement values less AUC over each group, by class.

        Returns
        -------
        positives, others : ndarray of float64, shape (groups,)
        masses : ndarray of float64 or int64, shape (2, groups)
            The number or the weight of the group's positives, and of its others. A deviation is
            off by at most `GROUP_ROUNDINGS` roundings of them: sums of weights over the scores and
            over the group are rounded at each step, so weights of many rows are made larger here.
        """
        placement = np.empty(len(rows.codes), self.positive_values.dtype)
        codes = rows.codes
        if rows.level < self._level:
            codes = codes >> codes.dtype.type(self._level - rows.level)
        _placement_values(
            frozen(codes.astype(self.codes.dtype, copy=False)),
            rows.positive,
            self.codes,
            self._first,
            self._shift,
            self.positive_values,
            self.other_values,
            self.tied_values,
            placement,
        )
        groups, positive = len(rows.starts) - 1, rows.positive
        weight = np.empty(0, placement.dtype)
        if rows.weight is not None:
            weight, is_positive = rows.weight * self.scale, np.zeros(len(placement), np.bool_)
            is_positive[positive] = True
            group = np.repeat(np.arange(groups), np.diff(rows.starts))
            # Sums of a group do not depend on the order of its rows.
            order = np.lexsort((weight, placement, is_positive, group))
            placement, weight = placement[order], weight[order]
            positive = frozen(np.flatnonzero(is_positive[order]))
        values, masses = np.zeros((2, 2, groups), placement.dtype)
        _add_groups(frozen(placement), frozen(weight), positive, rows.starts, values, masses)
        halves = 2.0 * self.others, 2.0 * self.positives
        positive_sums, other_sums = (values[c] / halves[c] - masses[c] * area for c in range(2))
        if rows.weight is not None:
            steps = len(self.codes) + np.diff(rows.starts)
            masses *= 1.0 + steps / GROUP_ROUNDINGS
        return positive_sums, other_sums, masses


@kernel
def _placement_values(  # type: ignore[no-untyped-def]
    codes,
    positive,
    score_codes,
    first,
    shift,
    positive_values,
    other_values,
    tied_values,
    placement,
):
    """Look up the doubled placement value of each row."""
    down = codes.dtype.type(shift)
    p = 0
    for i in range(codes.shape[0]):
        code = codes[i]
        upper = np.int64(code >> down)
        lo = first[upper]
        hi = first[upper + 1]
        while lo < hi:
            middle = (lo + hi) >> 1
            if score_codes[middle] < code:
                lo = middle + 1
            else:
                hi = middle
        if p < positive.shape[0] and positive[p] == i:
            placement[i] = positive_values[lo]
            p += 1
        elif lo < score_codes.shape[0] and score_codes[lo] == code:
            placement[i] = tied_values[lo]
        else:
            placement[i] = other_values[lo]


@kernel
def _add_groups(placement, weight, positive, starts, values, masses):  # type: ignore[no-untyped-def]
    """Sum the values of each group by class, times weights if any."""
    p = 0
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            side = 1
            if p < positive.shape[0] and positive[p] == i:
                side = 0
                p += 1
            if weight.shape[0] > 0:
                values[side, g] += weight[i] * placement[i]
                masses[side, g] += weight[i]
            else:
                values[side, g] += placement[i]
                masses[side, g] += 1


def row_variance(scores: Scores, area: float, map_jobs: JobMap) -> float:
    """Compute DeLong's variance of the AUC.

    NaN below two rows of either class.

    With row weights w the variance of a class's mean is estimated by
    n / (n - 1) sum w^2 (V - AUC)^2 / (sum w)^2, where V is the weighted placement value and n the
    number of rows whose weight is not zero. Without weights this is DeLong's estimate.

    Parameters
    ----------
    scores : Scores
        Of all rows.
    area : float
        Their AUC.
    map_jobs : callable
        Maps a function over jobs, in threads.

    References
    ----------
    DeLong et al. (1988), doi:10.2307/2531595; Sun & Xu (2014), doi:10.1109/LSP.2014.2337313.
    """
    spread = np.zeros(2)
    if isinstance(scores, WeightedScores):
        table, squares = scores.table(map_jobs), scores.squares_table(map_jobs)
        _spreads(*table.runs(), *squares.runs(), area, spread)
        rows = scores.rows_with_weight()
    else:
        others, positives = scores.steps(map_jobs).runs()
        _spreads(others, positives, others, positives, area, spread)
        rows = int(positives.sum()), int(others.sum())
    return float(spread[0] * _bessel(rows[0]) + spread[1] * _bessel(rows[1]))


@dataclass(frozen=True)
class ClusterSums:
    """Sums over clusters of the deviations of an AUC, or of a difference.

    Parameters
    ----------
    squares : tuple of float
        With the sums of deviations (placement value less AUC, times weight) of positives and of
        others: their squares, and their product.
    influences : float
        Of squares of influences: the deviation of positives over the weight of positives, and that
        of others over the weight of others.
    totals : tuple of float
        The number or the weight of positives and of others, which the deviations are divided by.
    counts : tuple of int
        Clusters that have positives, clusters that have others, and all clusters.
    roundings : tuple of float
        What rounding adds to the influences of positives, and of others; see `zero_if_rounding`.
    effective_groups : float
        ``(sum of u^2)^2 / sum of u^4`` of the influences u.
    by_shares : float
        The same of the shares that clusters have of the positives, or of the others: the smaller.
    """

    squares: tuple[float, float, float]
    influences: float
    totals: tuple[float, float]
    counts: tuple[int, int, int]
    roundings: tuple[float, float]
    effective_groups: float
    by_shares: float = math.nan

    def numbers(self) -> np.ndarray:
        """Return all fields in order. float64, shape (13,)."""
        return np.hstack([getattr(self, each.name) for each in fields(self)])

    @classmethod
    def of_numbers(cls, numbers: np.ndarray) -> Self:
        """Read what `numbers` returned."""
        a, b, c, influences, d, e, *counts, f, g, effective, by_shares = numbers.tolist()
        first, second, most = map(int, counts)
        if not (min(a, b, influences, first, second) >= 0 and d > 0 and e > 0):
            raise ValueError("sums of a variance must not be negative, nor 0 where they divide")
        return cls(
            (a, b, c), influences, (d, e), (first, second, most), (f, g), effective, by_shares
        )

    @property
    def clusters(self) -> int:
        """All clusters."""
        return self.counts[2]

    @property
    def behind(self) -> int:
        """All clusters, or if below 2 the fewest with rows of a class."""
        return self.counts[2] if min(self.counts) > 1 else min(self.counts)

    @property
    def effective(self) -> float:
        """Effective groups, at most the clusters of the rarer class; 1 for two.

        In few clusters with positives, a sample has influences that are more alike than they are.
        Most of the variance is that of the two, which often deviate alike by luck: it has some 2
        degrees of freedom (by simulation), for any influences of the others.
        """
        fewest = min(self.counts)
        return min(self.effective_groups, float(fewest)) if fewest > 2 else 1.0

    @property
    def rounding(self) -> float:
        """What rounding adds to the influences."""
        return sum(self.roundings)

    @property
    def variance(self) -> float:
        """Obuchowski's variance of the AUC; 0 where it may be mere rounding.

        NaN below two clusters of either class. In the order of the terms it is
        ``b_1 sum f^2 + b_2 sum s^2 + 2 b_3 sum f s``, with the factors ``b = n / (n - 1)`` of the
        clusters of each sum: ``b_3 sum (f + s)^2 + (b_1 - b_3) sum f^2 + (b_2 - b_3) sum s^2``, of
        which no part is below 0.

        References
        ----------
        Obuchowski (1997), doi:10.2307/2533958.
        """
        positives, others = self.totals
        factors = [_bessel(count) for count in self.counts]
        parts = [
            self.squares[0] / positives / positives,
            self.squares[1] / others / others,
            2.0 * self.squares[2] / positives / others,
        ]
        if math.isnan(sum(factors)):
            return math.nan
        first, second, most = factors
        bounds = (*self.roundings, self.rounding)
        squares = (parts[0], parts[1], self.influences)
        weights = (first - most, second - most, most)
        left = [
            0.0 if square <= bound * bound else weight * square
            for square, bound, weight in zip(squares, bounds, weights, strict=True)
        ]
        variance = parts[0] * first + parts[1] * second + parts[2] * most
        # Where the parts of both classes cancel, their difference is mostly rounding.
        return sum(left) if sum(left) <= _CANCELLED * (parts[0] + parts[1]) else variance


def _bessel(units: float) -> float:
    """Return n / (n - 1), or NaN below two units."""
    return units / (units - 1.0) if units > 1 else math.nan


@kernel
def _spreads(  # type: ignore[no-untyped-def]
    others, positives, squared_others, squared_positives, area, spread
):
    """Sum the squared deviations of each class, over its squared weight."""
    all_others, all_positives = sum_classes(others, positives)
    others_above = 0.0
    positives_above = 0.0
    for i in range(others.shape[0]):
        positive_values = (all_others - others_above - 0.5 * others[i]) / all_others - area
        spread[0] += squared_positives[i] * positive_values * positive_values
        other_values = (positives_above + 0.5 * positives[i]) / all_positives - area
        spread[1] += squared_others[i] * other_values * other_values
        others_above += others[i]
        positives_above += positives[i]
    spread[0] = spread[0] / all_positives / all_positives
    spread[1] = spread[1] / all_others / all_others
