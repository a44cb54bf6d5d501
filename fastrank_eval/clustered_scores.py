"""The scores of all rows with the groups they stand in, for the variance of AUC over clusters.

Beside the state of pooled AUC every row is kept: 4 bytes of a float32 score and 8 of a float64, 8
of a positive, 8 of a group and, with row weights, 8 more a row. What a row's score is worth is
known only when all rows are: then each chunk of whole groups is looked up once more.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from fastrank_eval.auc_variance import cluster_variance
from fastrank_eval.codes import codes_of
from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel
from fastrank_eval.pooled import PooledScores
from fastrank_eval.pooled_weights import InOrder, WeightedScores
from fastrank_eval.score_steps import ScoreSteps
from fastrank_eval.states import ExactSums

#: Upper bits of a code by which positives are looked up.
_UPPER_BITS = 18
_SQUARES_OF_POSITIVES, _SQUARES_OF_OTHERS, _PRODUCTS = range(3)


@dataclass(frozen=True, slots=True)
class KeptRows:
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


class ClusteredScores:
    """The scores of all rows, and which rows share a group; threads may add at the same time.

    Parameters
    ----------
    weighted : bool
        Whether rows have weights.
    threads : int
        How many will add.
    """

    def __init__(self, weighted: bool, threads: int = 1) -> None:
        self.scores = WeightedScores() if weighted else PooledScores(threads)
        self._lock = threading.Lock()
        self._kept: list[KeptRows] = []

    def add(
        self,
        score: np.ndarray,
        positive: np.ndarray,
        weight: np.ndarray | None,
        starts: np.ndarray,
        token: object = None,
    ) -> None:
        """Add whole groups.

        Parameters
        ----------
        score, positive, weight
            As for `pooled.PooledScores` or `pooled_weights.WeightedScores`.
        starts : ndarray of int64, shape (groups + 1,)
            First row of each group, then the number of rows.
        token : object
            The same for every model whose rows of the same groups are added.
        """
        if weight is not None:
            # What weighs nothing is of no class, and a score without positives has no place.
            positive = positive[weight[positive] > 0]
        self.scores.add(score, positive, weight)  # type: ignore[arg-type]
        kept = KeptRows(
            frozen(codes_of(score)),
            frozen(positive.copy()),
            frozen(starts.copy()),
            None if weight is None else frozen(weight.copy()),
            token,
        )
        with self._lock:
            self._kept.append(kept)

    def merge(self, other: ClusteredScores) -> None:
        """Add another state, which is used up; the order of merging does not matter."""
        self.scores.merge(other.scores)  # type: ignore[arg-type]
        with self._lock:
            self._kept += other._kept

    def variance(self, area: float, in_order: InOrder = map) -> tuple[float, int]:
        """The variance of the AUC with groups as clusters, and the number of clusters.

        Parameters
        ----------
        area : float
            The AUC.
        in_order : callable
            Maps a function over jobs, in threads.

        Returns
        -------
        variance : float
            NaN with fewer than two clusters that have rows of a class.
        clusters : int
            Groups that have rows, or rows of any weight.
        """
        steps = self.scores.steps(in_order)
        placements = _Placements(steps)
        sums = ExactSums(3)

        def add_up(kept: KeptRows) -> tuple[int, int, int]:
            mine, theirs, has_mine, has_theirs = placements.deviations(kept, area)
            sums.add(_SQUARES_OF_POSITIVES, mine * mine)
            sums.add(_SQUARES_OF_OTHERS, theirs * theirs)
            sums.add(_PRODUCTS, mine * theirs)
            return (
                int(np.count_nonzero(has_mine)),
                int(np.count_nonzero(has_theirs)),
                int(np.count_nonzero(has_mine | has_theirs)),
            )

        clusters = [0, 0, 0]
        for found in in_order(add_up, self._kept):
            clusters = [a + b for a, b in zip(clusters, found, strict=True)]
        first, second, both = (sums.total(term) for term in range(3))
        variance = cluster_variance(
            (first, second, both),
            (placements.positives, placements.others),
            (clusters[0], clusters[1], clusters[2]),
        )
        return variance, clusters[2]


def variance_of_difference(
    base: ClusteredScores,
    other: ClusteredScores,
    areas: tuple[float, float],
    in_order: InOrder = map,
) -> tuple[float, int]:
    """The variance of the difference of two models' AUC over the same groups, and their number.

    Parameters
    ----------
    base, other : ClusteredScores
        Of the same chunks.
    areas : tuple of float
        Their AUC.
    in_order : callable
        Maps a function over jobs, in threads.

    Returns
    -------
    variance : float
        NaN with fewer than two clusters that have rows of a class.
    clusters : int
        Groups that have rows of either model.
    """
    placed = [_Placements(state.scores.steps(in_order)) for state in (base, other)]
    theirs = {kept.token: kept for kept in other._kept}
    sums = ExactSums(3)

    def add_up(pair: tuple[KeptRows, KeptRows]) -> tuple[int, int, int]:
        found = [
            each.deviations(kept, area)
            for each, kept, area in zip(placed, pair, areas, strict=True)
        ]
        (mine, others, has_mine, has_others), (mine_b, others_b, has_mine_b, has_others_b) = found
        first = mine_b / placed[1].positives - mine / placed[0].positives
        second = others_b / placed[1].others - others / placed[0].others
        sums.add(_SQUARES_OF_POSITIVES, first * first)
        sums.add(_SQUARES_OF_OTHERS, second * second)
        sums.add(_PRODUCTS, first * second)
        positive, other = has_mine | has_mine_b, has_others | has_others_b
        return (
            int(np.count_nonzero(positive)),
            int(np.count_nonzero(other)),
            int(np.count_nonzero(positive | other)),
        )

    clusters = [0, 0, 0]
    pairs = [(kept, theirs[kept.token]) for kept in base._kept]
    for found in in_order(add_up, pairs):
        clusters = [a + b for a, b in zip(clusters, found, strict=True)]
    totals = sums.total(0), sums.total(1), sums.total(2)
    variance = cluster_variance(totals, (1.0, 1.0), (clusters[0], clusters[1], clusters[2]))
    return variance, clusters[2]


class _Placements:
    """Twice the others that a positive beats, twice the positives that beat an other, by score."""

    def __init__(self, steps: ScoreSteps) -> None:
        codes = codes_of(steps.score[::-1])
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
        self._shift = 8 * codes.itemsize - _UPPER_BITS
        edges = np.arange((1 << _UPPER_BITS) + 1, dtype=np.uint64) << np.uint64(self._shift)
        # The last edge may not fit the codes' type.
        first = np.searchsorted(codes, edges[:-1].astype(codes.dtype))
        self._first = frozen(np.append(first, len(codes)).astype(np.int64))

    def deviations(
        self, kept: KeptRows, area: float
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
        kept: KeptRows,
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
