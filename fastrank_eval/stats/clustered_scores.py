"""Keep the scores of each group, and write them in an order that no layout changes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from fastrank_eval._lib.array_codes import (
    Arrays,
    byte_shuffle,
    byte_unshuffle,
    delta_decode,
    delta_encode,
    narrow,
)
from fastrank_eval._lib.arrow import frozen
from fastrank_eval.stats.auc_variance import Placements, ScoredRows, cluster_variance
from fastrank_eval.stats.intervals import carriers
from fastrank_eval.stats.row_sums import RowSums
from fastrank_eval.stats.score_table import distinct_codes, scores_of, sortable_codes
from fastrank_eval.stats.scores import PooledScores
from fastrank_eval.stats.weighted_scores import InOrder, WeightedScores

__all__ = ["rows_in", "saved_rows"]


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
        self._kept: list[ScoredRows] = []

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
        kept = ScoredRows(
            frozen(sortable_codes(score)),
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

    def saved(self) -> Arrays:
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
    def saved_together(states: Mapping[str, ClusteredScores]) -> dict[str, Arrays]:
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

        def add_up(kept: ScoredRows) -> tuple[int, int, int]:
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

    def add_up(pair: tuple[ScoredRows, ScoredRows]) -> tuple[int, int, int]:
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


#: Rows of a chunk of groups that come from a file, so that threads share them.
_TOGETHER = 1 << 18
#: From so many rows a distinct score on, a file names each once.
_SHARED = 4
#: The part that says that the groups of all models stand in one order.
_MATCHED = "matched"


class _Rows(NamedTuple):
    """One model's rows, group by group.

    `columns` are the codes of scores, 0 or 1 for others and positives (uint8) and, where rows have
    them, weights (float64), each of shape (rows,); `sizes` (int64) the rows of each group.
    """

    columns: list[np.ndarray]
    sizes: np.ndarray


def saved_rows(kept: Mapping[str, Sequence[ScoredRows]], *, weighted: bool) -> dict[str, Arrays]:
    """The rows of each group, by model.

    Parameters
    ----------
    kept : mapping of str to sequence of ScoredRows
        The chunks of each model. Where those of all models have the same tokens, a chunk of one
        holds the same groups in the same order as those of the others.
    weighted : bool
        Whether rows have weights.

    Returns
    -------
    dict of dict of ndarray
        ``weighted``; ``sizes``: rows of each group; ``codes`` of the scores (see
        `ScoreTable.saved`), or ``distinct`` codes and which of them a row has (``which``), all as
        `delta_encode` writes them; ``weights``, as `byte_shuffle`; ``positive``: 0 or 1. Rows of
        a group ascend. The groups of a model alone ascend by size, then by their rows; those of
        several models that are the same, by what each model has in them, models in the order of
        their names, and ``matched`` is there. Then groups in which a model has no row have a size
        of 0 if another has one; all other such groups are left out.
    """
    models = sorted(kept)
    chunks = _matched([kept[model] for model in models]) if len(models) > 1 else None
    if chunks is None:
        found = [_in_order([kept[model]])[0] for model in models]
    else:
        found = _in_order(chunks)
    mark = {} if chunks is None else {_MATCHED: np.array(1, np.uint8)}
    saved = {}
    for model, rows in zip(models, found, strict=True):
        saved[model] = {"weighted": np.array(weighted, np.uint8)}
        if rows is not None:
            saved[model] |= {**mark, **_parts_of(rows)}
    return saved


def rows_in(parts: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, list[ScoredRows]]:
    """The chunks that `saved_rows` wrote, by model.

    Those of all models have the same tokens if their groups are known to be the same, and none
    otherwise.
    """
    rows = {model: _rows_of(each) for model, each in parts.items() if "sizes" in each}
    found: dict[str, list[ScoredRows]] = {model: [] for model in parts}
    if rows and len(rows) == len(parts) and all(_MATCHED in each for each in parts.values()):
        sizes = np.max([one.sizes for one in rows.values()], axis=0)
        tokens: list[object] = []
        for model, one in rows.items():
            found[model] = _cut(one, _edges(sizes), tokens)
    else:
        for model, one in rows.items():
            found[model] = _cut(one, _edges(one.sizes), None)
    return found


def _matched(models: Sequence[Sequence[ScoredRows]]) -> list[list[ScoredRows]] | None:
    """The chunks of each model in the order of the first one's; None unless all have the same."""
    each = [{part.token: part for part in kept} for kept in models]
    tokens = each[0].keys()
    if None in tokens or any(other.keys() != tokens for other in each):
        return None
    return [[held[token] for token in tokens] for held in each]


def _in_order(models: Sequence[Sequence[ScoredRows]]) -> list[_Rows | None]:
    """The rows of models whose groups are the same in the order of a file; None without a row."""
    if not any(len(part.codes) for kept in models for part in kept):
        return [None for _ in models]
    every = [_with_rows_in_order(kept) for kept in models]
    order = np.flatnonzero(np.any([rows.sizes > 0 for rows in every], axis=0))
    for rows in reversed(every):
        order = _ascending(rows, order)
    return [_taken(rows, order) for rows in every]


def _with_rows_in_order(kept: Sequence[ScoredRows]) -> _Rows:
    """The rows of all groups of some chunks, ascending in each group."""
    codes = np.concatenate([part.codes for part in kept])
    flags = [np.zeros(len(part.codes), np.uint8) for part in kept]
    for flag, part in zip(flags, kept, strict=True):
        flag[part.positive] = 1
    columns = [codes, np.concatenate(flags)]
    weights = [part.weight for part in kept if part.weight is not None]
    if weights:
        columns.append(np.concatenate(weights) + 0.0)
    sizes = np.concatenate([np.diff(part.starts) for part in kept])
    order = _order_in_groups(columns, sizes)
    if order is not None:
        columns = [column[order] for column in columns]
    return _Rows(columns, sizes)


def _order_in_groups(columns: Sequence[np.ndarray], sizes: np.ndarray) -> np.ndarray | None:
    """What sorts the rows of each group by these columns; None if they are sorted, as in a file."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    ascends = np.ones(max(len(group) - 1, 0), np.bool_)
    for column in reversed(columns):
        ascends = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & ascends)
    ascends |= group[1:] != group[:-1]
    return None if ascends.all() else np.lexsort((*reversed(columns), group))


def _ascending(rows: _Rows, groups: np.ndarray) -> np.ndarray:
    """Groups by their size, then by their rows, stably."""
    # Each row as bytes that compare as it does; groups of a size are compared at once.
    kinds = [f">u{column.itemsize}" for column in rows.columns]
    content = np.empty(len(rows.columns[0]), [(str(n), kind) for n, kind in enumerate(kinds)])
    for n, column in enumerate(rows.columns):
        content[str(n)] = column.view(f"u{column.itemsize}")
    first, sizes, found = np.cumsum(rows.sizes) - rows.sizes, rows.sizes[groups], []
    for size in np.unique(sizes).tolist():
        those = groups[sizes == size]
        if size:
            places = first[those][:, None] + np.arange(size)
            texts = content[places].reshape(-1).view(f"S{size * content.itemsize}")
            those = those[np.argsort(texts, kind="stable")]
        found.append(those)
    return np.concatenate(found)


def _taken(rows: _Rows, groups: np.ndarray) -> _Rows:
    """The rows of some groups, in that order."""
    first, sizes = np.cumsum(rows.sizes) - rows.sizes, rows.sizes[groups]
    skipped = first[groups] - (np.cumsum(sizes) - sizes)
    places = np.repeat(skipped, sizes) + np.arange(sizes.sum())
    return _Rows([column[places] for column in rows.columns], sizes)


def _parts_of(rows: _Rows) -> Arrays:
    codes, positive, *weight = rows.columns
    parts = {"sizes": narrow(rows.sizes), "positive": positive}
    distinct, _ = distinct_codes(codes)
    if _SHARED * len(distinct) > len(codes):
        parts["codes"] = delta_encode(codes)
    else:
        which = narrow(np.searchsorted(distinct, codes))
        parts |= {"distinct": delta_encode(distinct), "which": delta_encode(which)}
    return {**parts, "weights": byte_shuffle(weight[0])} if weight else parts


def _rows_of(parts: Mapping[str, np.ndarray]) -> _Rows:
    """What `_parts_of` wrote."""
    if "codes" in parts:
        codes = delta_decode(parts["codes"])
    else:
        codes = delta_decode(parts["distinct"])[delta_decode(parts["which"])]
    columns = [codes, parts["positive"]]
    if "weights" in parts:
        columns.append(byte_unshuffle(parts["weights"], "f"))
    rows = _Rows(columns, parts["sizes"].astype(np.int64))
    # Kernels that read them look at no bounds.
    if any(column.shape != codes.shape for column in columns) or (
        rows.sizes.ndim != 1 or rows.sizes.min(initial=0) < 0 or rows.sizes.sum() != len(codes)
    ):
        raise ValueError("sizes of groups and rows of clustered scores contradict each other")
    return rows


def _edges(sizes: np.ndarray) -> list[int]:
    """Between which groups chunks are cut."""
    starts = np.append(0, np.cumsum(sizes))
    cuts = np.searchsorted(starts, np.arange(_TOGETHER, starts[-1], _TOGETHER))
    return np.unique(np.concatenate([[0], cuts, [len(sizes)]])).tolist()


def _cut(rows: _Rows, edges: Sequence[int], tokens: list[object] | None) -> list[ScoredRows]:
    """Chunks of the groups between these edges; each has the token of its place, if there are any.

    Tokens that are wanted are added.
    """
    codes, positive, *weight = rows.columns
    starts = np.append(0, np.cumsum(rows.sizes))
    found = []
    for number, (lo, hi) in enumerate(pairwise(edges)):
        here = slice(int(starts[lo]), int(starts[hi]))
        if tokens is not None and number == len(tokens):
            tokens.append(object())
        found.append(
            ScoredRows(
                frozen(codes[here]),
                frozen(np.flatnonzero(positive[here])),
                frozen(starts[lo : hi + 1] - starts[lo]),
                frozen(weight[0][here]) if weight else None,
                None if tokens is None else tokens[number],
            )
        )
    return found
