"""The scores of all rows with the groups they stand in, for the variance of AUC over clusters.

Beside the state of pooled AUC every row is kept: 4 bytes of a float32 score and 8 of a float64, 8
of a positive, 8 of a group and, with row weights, 8 more a row. What a row's score is worth is
known only when all rows are: then each chunk of whole groups is looked up once more.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Self

import numpy as np

from fastrank_eval.auc_variance import cluster_variance
from fastrank_eval.codes import codes_of, distinct_codes, scores_of
from fastrank_eval.columns import frozen
from fastrank_eval.placements import KeptRows, Placements
from fastrank_eval.pooled import PooledScores
from fastrank_eval.pooled_weights import InOrder, WeightedScores
from fastrank_eval.saved_parts import Parts, narrow, of_planes, of_steps, planes, steps_of
from fastrank_eval.states import ExactSums

#: Rows of a chunk of groups that come from a file, so that threads share them.
_TOGETHER = 1 << 18
#: From so many rows a distinct score on, a file names each once.
_SHARED = 4
_SQUARES_OF_POSITIVES, _SQUARES_OF_OTHERS, _PRODUCTS = range(3)


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
            ``weighted``; ``sizes``: rows of each group, ascending; ``codes`` of the scores (see
            `ScoreTable.saved`), or ``distinct`` codes and which of them a row has (``which``), all
            as `saved_parts.steps_of`; ``weights``, as `saved_parts.planes`; ``positive``: 0 or 1.
            Rows of a group and groups of a size stand in an order that follows from what they hold.
        """
        weighted = isinstance(self.scores, WeightedScores)
        parts = {"weighted": np.array(weighted, np.uint8)}
        if not any(len(kept.codes) for kept in self._kept):
            return parts
        codes, positive, sizes, weight = in_canonical_order(self._kept)
        parts |= {"sizes": narrow(sizes), "positive": positive}
        distinct, _ = distinct_codes(codes)
        if _SHARED * len(distinct) > len(codes):
            parts["codes"] = steps_of(codes)
        else:
            which = narrow(np.searchsorted(distinct, codes))
            parts |= {"distinct": steps_of(distinct), "which": steps_of(which)}
        return parts if weight is None else {**parts, "weights": planes(weight)}

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        state = cls(bool(parts["weighted"]))
        if "sizes" in parts:
            if "codes" in parts:
                codes = of_steps(parts["codes"])
            else:
                codes = of_steps(parts["distinct"])[of_steps(parts["which"])]
            positive = parts["positive"]
            weight = of_planes(parts["weights"], "f") if "weights" in parts else None
            starts = np.append(0, np.cumsum(parts["sizes"], dtype=np.int64))
            cuts = np.searchsorted(starts, np.arange(_TOGETHER, starts[-1], _TOGETHER))
            for lo, hi in pairwise([0, *np.unique(cuts).tolist(), len(starts) - 1]):
                here = slice(int(starts[lo]), int(starts[hi]))
                if here.start < here.stop:
                    state.add(
                        scores_of(codes[here]),
                        np.flatnonzero(positive[here]),
                        None if weight is None else weight[here],
                        starts[lo : hi + 1] - starts[lo],
                    )
        return state

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
        placements = Placements(steps)
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
    theirs = {kept.token: kept for kept in other._kept if kept.token is not None}
    if not all(kept.token in theirs for kept in base._kept):
        # From files: which groups of the two are the same is not known any more.
        return float("nan"), 0
    placed = [Placements(state.scores.steps(in_order)) for state in (base, other)]
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


def in_canonical_order(
    kept: Sequence[KeptRows],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """All rows, group by group, in an order that follows from what they hold.

    Returns
    -------
    codes : ndarray of unsigned integers, shape (rows,)
    positive : ndarray of uint8, shape (rows,)
    sizes : ndarray of int64, shape (groups,)
        Rows of each group that has any, ascending.
    weight : ndarray of float64, shape (rows,), or None
    """
    kept = [part for part in kept if len(part.codes)]
    codes = np.concatenate([part.codes for part in kept])
    flags = [np.zeros(len(part.codes), np.uint8) for part in kept]
    for flag, part in zip(flags, kept, strict=True):
        flag[part.positive] = 1
    positive = np.concatenate(flags)
    weights = [part.weight for part in kept if part.weight is not None]
    columns = [codes, positive]
    if weights:
        columns.append(np.concatenate(weights) + 0.0)
    sizes = np.concatenate([np.diff(part.starts) for part in kept])
    order = _order_in_groups(columns, sizes)
    if order is not None:
        columns = [column[order] for column in columns]
    # Each row as bytes that compare as it does; groups of a size are compared at once.
    kinds = [f">u{column.itemsize}" for column in columns]
    rows = np.empty(len(codes), [(str(n), kind) for n, kind in enumerate(kinds)])
    for n, column in enumerate(columns):
        rows[str(n)] = column.view(f"u{column.itemsize}")
    first, found = np.cumsum(sizes) - sizes, []
    for size in np.unique(sizes[sizes > 0]).tolist():
        places = first[sizes == size][:, None] + np.arange(size)
        content = rows[places].reshape(-1).view(f"S{size * rows.itemsize}")
        found.append(places[np.argsort(content, kind="stable")].ravel())
    order = np.concatenate(found)
    codes, positive, *weight = (column[order] for column in columns)
    return codes, positive, np.sort(sizes[sizes > 0]), weight[0] if weight else None


def _order_in_groups(columns: Sequence[np.ndarray], sizes: np.ndarray) -> np.ndarray | None:
    """What sorts the rows of each group by these columns; None if they are sorted, as in a file."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    ascends = np.ones(len(group) - 1, np.bool_)
    for column in reversed(columns):
        ascends = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & ascends)
    ascends |= group[1:] != group[:-1]
    return None if ascends.all() else np.lexsort((*reversed(columns), group))
