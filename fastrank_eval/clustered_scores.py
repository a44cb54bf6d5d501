"""The scores of all rows with the groups they stand in, for the variance of AUC over clusters.

Beside the state of pooled AUC every row is kept: 4 bytes of a float32 score and 8 of a float64, 8
of a positive, 8 of a group and, with row weights, 8 more a row. What a row's score is worth is
known only when all rows are: then each chunk of whole groups is looked up once more.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Self

import numpy as np

from fastrank_eval.auc_variance import cluster_variance
from fastrank_eval.codes import codes_of, scores_of
from fastrank_eval.columns import frozen
from fastrank_eval.placements import KeptRows, Placements
from fastrank_eval.pooled import PooledScores
from fastrank_eval.pooled_weights import InOrder, WeightedScores
from fastrank_eval.saved_clusters import rows_in, saved_rows
from fastrank_eval.saved_parts import Parts
from fastrank_eval.states import RowSums
from fastrank_eval.uncertainty import carriers

_SQUARES_OF_POSITIVES, _SQUARES_OF_OTHERS, _PRODUCTS, _FOURTH = range(4)


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

    def saved(self) -> Parts:
        """The rows of each group that has any; what all rows have in common follows from them.

        Returns
        -------
        dict of ndarray
            As `saved_clusters.saved_rows` of a model alone.
        """
        return self.saved_together({"": self})[""]

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        return cls.loaded_together({"": parts})[""]

    @staticmethod
    def saved_together(states: Mapping[str, ClusteredScores]) -> dict[str, Parts]:
        """The rows of several models, such that their groups are matched once they are loaded.

        Parameters
        ----------
        states : mapping of str to ClusteredScores
            By model; each was added the same groups.

        Returns
        -------
        dict of dict of ndarray
            As `saved_clusters.saved_rows`.
        """
        weighted = any(isinstance(state.scores, WeightedScores) for state in states.values())
        return saved_rows(
            {model: state._kept for model, state in states.items()}, weighted=weighted
        )

    @classmethod
    def loaded_together(cls, parts: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Self]:
        """The states that `saved_together` wrote, or `saved` of each model."""
        states = {}
        for model, kept in rows_in(parts).items():
            states[model] = state = cls(bool(parts[model]["weighted"]))
            for rows in kept:
                score = scores_of(rows.codes)
                state.scores.add(score, rows.positive, rows.weight)  # type: ignore[arg-type]
            state._kept = kept
        return states

    def variance(self, area: float, in_order: InOrder = map) -> tuple[float, int, float]:
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
        carriers : float
            ``(sum of u^2)^2 / sum of u^4`` of the influences u of groups.
        """
        steps = self.scores.steps(in_order)
        placements = Placements(steps)
        sums = RowSums(4)

        def add_up(kept: KeptRows) -> tuple[int, int, int]:
            mine, theirs, has_mine, has_theirs = placements.deviations(kept, area)
            sums.add(_SQUARES_OF_POSITIVES, mine * mine)
            sums.add(_SQUARES_OF_OTHERS, theirs * theirs)
            sums.add(_PRODUCTS, mine * theirs)
            influence = mine / placements.positives + theirs / placements.others
            sums.add(_FOURTH, np.square(influence * influence))
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
        positives, others = placements.positives, placements.others
        squares = first / positives / positives + second / others / others
        squares += 2.0 * both / positives / others
        return variance, clusters[2], carriers(squares, sums.total(_FOURTH))


def variance_of_difference(
    base: ClusteredScores,
    other: ClusteredScores,
    areas: tuple[float, float],
    in_order: InOrder = map,
) -> tuple[float, int, float]:
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
    carriers : float
        ``(sum of u^2)^2 / sum of u^4`` of the influences u of groups.
    """
    theirs = {kept.token: kept for kept in other._kept if kept.token is not None}
    if not all(kept.token in theirs for kept in base._kept):
        # From files that do not tell which groups of the two are the same.
        return float("nan"), 0, float("nan")
    placed = [Placements(state.scores.steps(in_order)) for state in (base, other)]
    sums = RowSums(4)

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
        influence = first + second
        sums.add(_FOURTH, np.square(influence * influence))
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
    squares = totals[0] + totals[1] + 2.0 * totals[2]
    return variance, clusters[2], carriers(squares, sums.total(_FOURTH))
