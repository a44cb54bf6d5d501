"""Estimate the variance of an AUC by the placement values of groups."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel
from fastrank_eval.stats.score_table import RocSteps, sortable_codes
from fastrank_eval.stats.scores import PooledScores
from fastrank_eval.stats.weighted_scores import InOrder, WeightedScores

__all__ = ["Placements", "ScoredRows", "cluster_variance", "row_variance"]


#: Upper bits of a code by which positives are looked up, at most; and those beyond their number's.
_UPPER_BITS, _FURTHER_BITS = 18, 4


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """The rows of a chunk of whole groups.

    Parameters
    ----------
    codes : ndarray of unsigned integers, shape (rows,)
        Of their scores.
    positive : ndarray of int64
        Which of the rows are positive, ascending.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    weight : ndarray of float64, shape (rows,), or None
    token : object
        The same for the rows of every model of a chunk.
    """

    codes: np.ndarray
    positive: np.ndarray
    starts: np.ndarray
    weight: np.ndarray | None
    token: object = None


class Placements:
    """Twice the others that a positive beats, twice the positives that beat an other, by score."""

    def __init__(self, steps: RocSteps) -> None:
        codes = sortable_codes(steps.score[::-1])
        number, tied, between = (
            np.ascontiguousarray(part[::-1])
            for part in (steps.positives, steps.others, steps.between)
        )
        self.scale = steps.scale
        lower = np.cumsum(between)[:-1] + np.cumsum(tied) - tied
        above = np.append(np.cumsum(steps.positives)[::-1], 0)
        self.codes = frozen(codes)
        #: By positives' score; and for others below and between them, and level with one.
        self.beaten = frozen(2 * lower + tied)
        self.beating = frozen(2 * above)
        self.level = frozen(above[:-1] + above[1:])
        self.positives = float(number.sum())
        self.others = float(between.sum() + tied.sum())
        # A slice may have few positives: its table is made before any is looked up, so it is short.
        upper = min(len(codes).bit_length() + _FURTHER_BITS, _UPPER_BITS)
        self._shift = 8 * codes.itemsize - upper
        edges = np.arange((1 << upper) + 1, dtype=np.uint64) << np.uint64(self._shift)
        # The last edge may not fit the codes' type.
        first = np.searchsorted(codes, edges[:-1].astype(codes.dtype))
        self._first = frozen(np.append(first, len(codes)).astype(np.int64))

    def deviations(
        self, kept: ScoredRows, area: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Sums over each group of placement value less AUC, by class; which groups have the class.

        Returns
        -------
        positives, others : ndarray of float64, shape (groups,)
        has_positives, has_others : ndarray of bool, shape (groups,)
        """
        worth = np.empty(len(kept.codes), self.beaten.dtype)
        _look_up(
            kept.codes,
            kept.positive,
            self.codes,
            self._first,
            self._shift,
            self.beaten,
            self.beating,
            self.level,
            worth,
        )
        groups = len(kept.starts) - 1
        values, masses = np.zeros((2, 2, groups), worth.dtype)
        if kept.weight is None:
            _add_groups(worth, kept.positive, kept.starts, values, masses)
        else:
            weight = kept.weight * self.scale
            self._add_weighted(worth, weight, kept, values, masses)
        halves = 2.0 * self.others, 2.0 * self.positives
        mine, theirs = (values[c] / halves[c] - masses[c] * area for c in range(2))
        return mine, theirs, masses[0] > 0, masses[1] > 0

    def _add_weighted(
        self,
        worth: np.ndarray,
        weight: np.ndarray,
        kept: ScoredRows,
        values: np.ndarray,
        masses: np.ndarray,
    ) -> None:
        """Add the rows of each group by falling worth and weight, however they came in."""
        positive = np.zeros(len(worth), np.bool_)
        positive[kept.positive] = True
        group = np.repeat(np.arange(values.shape[1]), np.diff(kept.starts))
        order = np.lexsort((weight, worth, positive, group))
        _add_weighted_groups(
            frozen(worth[order]),
            frozen(weight[order]),
            frozen(positive[order]),
            kept.starts,
            values,
            masses,
        )


@kernel
def _look_up(  # type: ignore[no-untyped-def]
    codes, positive, every, first, shift, beaten, beating, level, worth
):
    """What each row's score is worth against the other class, doubled so that ties are whole."""
    down = codes.dtype.type(shift)
    p = 0
    for i in range(codes.shape[0]):
        code = codes[i]
        upper = np.int64(code >> down)
        lo = first[upper]
        hi = first[upper + 1]
        while lo < hi:
            middle = (lo + hi) >> 1
            if every[middle] < code:
                lo = middle + 1
            else:
                hi = middle
        if p < positive.shape[0] and positive[p] == i:
            worth[i] = beaten[lo]
            p += 1
        elif lo < every.shape[0] and every[lo] == code:
            worth[i] = level[lo]
        else:
            worth[i] = beating[lo]


@kernel
def _add_groups(worth, positive, starts, values, masses):  # type: ignore[no-untyped-def]
    p = 0
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            if p < positive.shape[0] and positive[p] == i:
                values[0, g] += worth[i]
                masses[0, g] += 1
                p += 1
            else:
                values[1, g] += worth[i]
                masses[1, g] += 1


@kernel
def _add_weighted_groups(  # type: ignore[no-untyped-def]
    worth, weight, positive, starts, values, masses
):
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            of = 0 if positive[i] else 1
            values[of, g] += weight[i] * worth[i]
            masses[of, g] += weight[i]


def row_variance(scores: PooledScores | WeightedScores, area: float, in_order: InOrder) -> float:
    """DeLong's variance of the AUC; NaN with fewer than two rows of either class.

    With row weights w the variance of a class's mean is estimated by
    n / (n - 1) sum w^2 (V - AUC)^2 / (sum w)^2, V the weighted placement value and n the rows whose
    weight is not zero: without weights that is DeLong's.

    Parameters
    ----------
    scores : PooledScores or WeightedScores
        Of all rows.
    area : float
        Their AUC.
    in_order : callable
        Maps a function over jobs, in threads.

    References
    ----------
    DeLong et al. (1988), doi:10.2307/2531595; Sun & Xu (2014), doi:10.1109/LSP.2014.2337313.
    """
    spread = np.zeros(2)
    if isinstance(scores, PooledScores):
        others, positives = scores.steps(in_order).runs()
        _spreads(others, positives, others, positives, area, spread)
        rows = positives.sum(), others.sum()
    else:
        table, squares = scores.table(in_order), scores.squared(in_order)
        _spreads(table.others, table.positives, squares.others, squares.positives, area, spread)
        weighing = scores.weighing(in_order)
        rows = weighing.positive, weighing.other
    return float(spread[0] * _corrected(rows[0]) + spread[1] * _corrected(rows[1]))


def cluster_variance(
    sums: tuple[float, float, float],
    totals: tuple[float, float],
    clusters: tuple[int, int, int],
) -> float:
    """Obuchowski's variance of the AUC; NaN with fewer than two clusters of either class.

    Parameters
    ----------
    sums : tuple of float
        Over clusters: squares of the sum of the positives' deviations (placement value less AUC,
        times weight), squares of that of the others, and products of both.
    totals : tuple of float
        Positives and others, or their weights.
    clusters : tuple of int
        Clusters that have positives, that have others, and all.

    References
    ----------
    Obuchowski (1997), doi:10.2307/2533958.
    """
    positives, others = totals
    return (
        sums[0] / positives / positives * _corrected(clusters[0])
        + sums[1] / others / others * _corrected(clusters[1])
        + 2.0 * sums[2] / positives / others * _corrected(clusters[2])
    )


def _corrected(units: float) -> float:
    """N / (n - 1), NaN where a variance needs more units."""
    return units / (units - 1.0) if units > 1 else math.nan


@kernel
def _spreads(  # type: ignore[no-untyped-def]
    others, positives, squared_others, squared_positives, area, spread
):
    """Squared deviations of each class's placement values from the AUC, over its weight squared."""
    all_others = 0.0
    all_positives = 0.0
    for i in range(others.shape[0]):
        all_others += others[i]
        all_positives += positives[i]
    others_above = 0.0
    positives_above = 0.0
    for i in range(others.shape[0]):
        beaten = (all_others - others_above - 0.5 * others[i]) / all_others - area
        spread[0] += squared_positives[i] * beaten * beaten
        beating = (positives_above + 0.5 * positives[i]) / all_positives - area
        spread[1] += squared_others[i] * beating * beating
        others_above += others[i]
        positives_above += positives[i]
    spread[0] = spread[0] / all_positives / all_positives
    spread[1] = spread[1] / all_others / all_others
