"""Store scores or bins of groups; write scores in an order of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from fastrank_eval._lib.arrow import (
    Arrays,
    byte_shuffle,
    byte_unshuffle,
    delta_decode,
    delta_encode,
    frozen,
    narrow,
)
from fastrank_eval._lib.threads import JobMap
from fastrank_eval.stats.auc_variance import ClusterSums, Placements, ScoredRows
from fastrank_eval.stats.binned_scores import BinnedScores, keys_of
from fastrank_eval.stats.intervals import GROUP_ROUNDINGS, ULP_HALF, effective_groups
from fastrank_eval.stats.row_sums import RowSums
from fastrank_eval.stats.score_runs import (
    NO_VALUES,
    Codes,
    distinct_codes,
    scores_of,
    sortable_codes,
)
from fastrank_eval.stats.scores import Scores, WeightedScores

#: Deviations of positives and of others, influences, and the shares of the rows of each class.
_Deviations = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
#: Of rows whose groups are not known.
_UNKNOWN = ClusterSums((0.0, 0.0, 0.0), 0.0, (1.0, 1.0), (0, 0, 0), (0.0, 0.0), math.nan)
#: Names of the finished sums of a state.
_VARIANCE, _DIFFERENCE = "variance", "difference"


class ClusteredRows:
    """Rows of groups; their placement values are known at the end."""

    def __init__(self) -> None:
        self._chunks: list[ScoredRows] = []

    def add(
        self,
        score: np.ndarray,
        positive: np.ndarray,
        weight: np.ndarray | None,
        starts: np.ndarray,
        token: object = None,
    ) -> None:
        """Add whole groups; threads may add at the same time.

        Parameters
        ----------
        score, positive, weight
            As for `Scores`.
        starts : ndarray of int64, shape (groups + 1,)
            First row of each group, then the number of rows.
        token : object
            A mark of these groups: the same object for every model.
        """
        if weight is not None:
            # A row of weight 0 has no class. A score without positives is not among the steps.
            positive = positive[weight[positive] > 0]
            weight = frozen(weight.copy())
        codes, level = self._codes(score, positive, weight)
        groups = frozen(positive.copy()), frozen(starts.copy())
        self._chunks.append(ScoredRows(frozen(codes), *groups, weight, token, level))

    def _codes(
        self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray | None
    ) -> tuple[np.ndarray, int]:
        """Add rows to those of all groups; return their codes and level."""
        raise NotImplementedError  # pragma: no cover - abstract

    def placements(self, map_jobs: JobMap) -> Placements:
        """Compute the placement values of all rows."""
        raise NotImplementedError  # pragma: no cover - abstract

    def variance(self, area: float, map_jobs: JobMap = map) -> ClusterSums:
        """Sum what the variance of the AUC needs, with groups as clusters.

        Parameters
        ----------
        area : float
            The AUC.
        map_jobs : callable
            Maps a function over jobs, in threads.
        """
        placements = self.placements(map_jobs)
        positives, others = placements.positives, placements.others

        def deviations(chunk: ScoredRows) -> _Deviations:
            first, second, masses = placements.deviations(chunk, area)
            influence = first / positives + second / others
            return first, second, influence, _shares(masses, placements)

        return _add_deviations(self._chunks, deviations, (positives, others), map_jobs)

    def variance_of_difference(
        self, base: Self, areas: tuple[float, float], map_jobs: JobMap = map
    ) -> ClusterSums:
        """Sum what the variance of the difference of two models' AUC needs.

        Parameters
        ----------
        base : ClusteredRows
            The state of the baseline, with the same chunks.
        areas : tuple of float
            The AUC of the baseline and of this model.
        map_jobs : callable
            Maps a function over jobs, in threads.

        Returns
        -------
        ClusterSums
            Clusters have rows of either model; none if the chunks differ.
        """
        by_token = {chunk.token: chunk for chunk in self._chunks if chunk.token is not None}
        if not all(chunk.token in by_token for chunk in base._chunks):
            # Both are from files that do not match the groups of the two models.
            return _UNKNOWN
        placements = [state.placements(map_jobs) for state in (base, self)]

        def deviations(pair: tuple[ScoredRows, ScoredRows]) -> _Deviations:
            base_sums, other_sums = (
                each.deviations(chunk, area)
                for each, chunk, area in zip(placements, pair, areas, strict=True)
            )
            first = other_sums[0] / placements[1].positives - base_sums[0] / placements[0].positives
            second = other_sums[1] / placements[1].others - base_sums[1] / placements[0].others
            shares = _shares(base_sums[2], placements[0]) + _shares(other_sums[2], placements[1])
            return first, second, first + second, shares

        pairs = [(chunk, by_token[chunk.token]) for chunk in base._chunks]
        return _add_deviations(pairs, deviations, (1.0, 1.0), map_jobs)


class ClusteredScores(ClusteredRows):
    """Scores of all rows and their groups.

    Parameters
    ----------
    weighted : bool
        Whether rows have weights.
    threads : int
        Number of threads that add.
    """

    def __init__(self, weighted: bool, threads: int = 1) -> None:
        super().__init__()
        self.scores: Scores = Scores.of(weighted, threads)

    def _codes(
        self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray | None
    ) -> tuple[np.ndarray, int]:
        self.scores.add(score, positive, weight)
        return sortable_codes(score), 0

    def merge(self, other: ClusteredScores) -> None:
        """Add another state, which must not be used afterwards, in any order."""
        self.scores.merge(other.scores)
        self._chunks += other._chunks

    def to_arrays(self) -> Arrays:
        """Write the rows of each group, as `models_to_arrays` writes one model."""
        return self.models_to_arrays({"": self})[""]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        return cls.models_from_arrays({"": arrays})[""]

    @staticmethod
    def models_to_arrays(states: Mapping[str, ClusteredScores]) -> dict[str, Arrays]:
        """Write the rows of each group that has any, by model.

        Parameters
        ----------
        states : mapping of str to ClusteredScores
            By model. Chunks with the same token have the same groups in the same order.

        Returns
        -------
        dict of dict of ndarray
            ``weighted``; ``sizes``: rows of each group; ``codes`` of the scores (see
            `ScoreTable.to_arrays`), or ``distinct`` codes and ``which``, the index of each row's
            code among them, all as differences (see `delta_encode`); ``weights`` with shuffled
            bytes; ``positive``: 0 or 1. Rows of a group ascend. The groups of a single model ascend
            by size, then by their rows. The matched groups of several models ascend by their rows
            in each model, models in the order of their names, and ``matched`` is present. A group
            without rows in one model has the size 0 there. Groups without rows in all models are
            left out.
        """
        weighted = any(isinstance(state.scores, WeightedScores) for state in states.values())
        models = sorted(states)
        chunks = [states[model]._chunks for model in models]
        matched = _match_chunks(chunks) if len(models) > 1 else None
        if matched is None:
            rows_of_models = [_sort_for_file([each])[0] for each in chunks]
        else:
            rows_of_models = _sort_for_file(matched)
        mark = {} if matched is None else {_IS_MATCHED: np.array(1, np.uint8)}
        saved = {}
        for model, rows in zip(models, rows_of_models, strict=True):
            saved[model] = {"weighted": np.array(weighted, np.uint8)}
            if rows is not None:
                saved[model] |= {**mark, **_to_arrays(rows)}
        return saved

    @classmethod
    def models_from_arrays(cls, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Self]:
        """Read the states that `models_to_arrays` or `to_arrays` wrote.

        All models have the same tokens if their groups were matched. Otherwise there are no tokens.
        """
        states = {model: cls(bool(each["weighted"])) for model, each in arrays.items()}
        models = {model: _from_arrays(each) for model, each in arrays.items() if "sizes" in each}
        tokens: list[object] | None = None
        sizes = None
        if models and all(_IS_MATCHED in each for each in arrays.values()):
            tokens, sizes = [], np.max([rows.sizes for rows in models.values()], axis=0)
        for model, rows in models.items():
            state, edges = states[model], _chunk_edges(rows.sizes if sizes is None else sizes)
            state._chunks = _split_chunks(rows, edges, tokens)
            for chunk in state._chunks:
                state.scores.add(scores_of(chunk.codes), chunk.positive, chunk.weight)
        return states

    def placements(self, map_jobs: JobMap) -> Placements:
        """Compute the placement values of all rows."""
        return Placements.of(self.scores.steps(map_jobs))


class ClusteredBins(ClusteredRows, BinnedScores):  # type: ignore[misc]  # `add`
    """Scores in bins and, during a run, the bins of the rows of each group.

    A file has the bins alone, and the finished sums of a variance: they do not merge.

    Parameters
    ----------
    bins, weighted
        As in `BinnedScores`.
    """

    def __init__(self, bins: int, weighted: bool = False) -> None:
        ClusteredRows.__init__(self)
        BinnedScores.__init__(self, bins, weighted)
        self._has_groups = True  # of all its rows
        # Those of the variance, and of that of the difference from the baseline, once known.
        self._finished: dict[str, ClusterSums] = {}

    def _codes(
        self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray | None
    ) -> tuple[np.ndarray, int]:
        level = BinnedScores.add(self, score, positive, weight)
        self._finished = {}
        keys = keys_of(sortable_codes(score), ascending=False)
        return narrow(keys >> np.uint64(level)), level

    def merge(self, other: ClusteredBins) -> None:  # type: ignore[override]
        """Add another state; what was read from a file loses its finished sums."""
        if not len(other.merged_bins().keys):
            return
        if len(self.merged_bins().keys):
            self._finished, self._has_groups = {}, self._has_groups and other._has_groups
        else:
            self._finished, self._has_groups = other._finished, other._has_groups
        super().merge(other)
        self._chunks += other._chunks

    def to_arrays(self) -> Arrays:
        """Write the bins of all rows, and finished sums where they are known.

        Returns
        -------
        dict of ndarray
            As `BinnedScores.to_arrays`; ``variance`` and ``difference``: `ClusterSums` as numbers.
        """
        area, _ = self.auc()
        if not math.isnan(area):
            self.variance(area)
        known = {name: sums for name, sums in self._finished.items() if sums.clusters}
        return {**super().to_arrays(), **{name: sums.numbers() for name, sums in known.items()}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        state = super().from_arrays(arrays)
        state._has_groups = False
        names = [name for name in (_VARIANCE, _DIFFERENCE) if name in arrays]
        state._finished = {name: ClusterSums.of_numbers(arrays[name]) for name in names}
        return state

    def placements(self, map_jobs: JobMap) -> Placements:
        """Compute the placement values of all bins."""
        bins = self.merged_bins()
        (positives, others), scale = bins.rows()
        between = np.zeros(len(bins.keys) + 1, others.dtype)
        bits = int(bins.keys[-1]).bit_length()
        keys = bins.keys.astype(np.uint32 if bits <= 32 else np.uint64)
        return Placements(keys, positives, others, between, scale, bits, bins.level)

    def variance(self, area: float, map_jobs: JobMap = map) -> ClusterSums:
        """Sum what `ClusteredScores.variance` does; no clusters where unknown."""
        if _VARIANCE not in self._finished:
            found = super().variance(area, map_jobs) if self._has_groups else _UNKNOWN
            self._finished[_VARIANCE] = found
        return self._finished[_VARIANCE]

    def variance_of_difference(
        self, base: Self, areas: tuple[float, float], map_jobs: JobMap = map
    ) -> ClusterSums:
        """Sum what is needed for a difference; no clusters where unknown."""
        if _DIFFERENCE not in self._finished:
            known = self._has_groups and base._has_groups
            found = super().variance_of_difference(base, areas, map_jobs) if known else _UNKNOWN
            self._finished[_DIFFERENCE] = found
        return self._finished[_DIFFERENCE]


def _shares(masses: np.ndarray, placements: Placements) -> np.ndarray:
    """Divide the rows of each group by those of all, by class."""
    return masses / np.array([[placements.positives], [placements.others]])


def _add_deviations(
    jobs: Sequence[Any],
    deviations: Callable[[Any], _Deviations],
    totals: tuple[float, float],
    map_jobs: JobMap,
) -> ClusterSums:
    """Add squares and products of the deviations of groups."""
    sums = RowSums(9)

    def add_up(job: Any) -> np.ndarray:
        first, second, influence, shares = deviations(job)
        squares = influence * influence
        both = shares * shares
        products = (
            *(first * first, second * second, first * second, np.square(squares), squares),
            *(*both, *np.square(both)),
        )
        for term, values in enumerate(products):
            sums.add(term, values)
        present = shares[0] > 0, shares[1] > 0, shares.any(axis=0)
        return np.array([np.count_nonzero(groups) for groups in present])

    counts = sum(map_jobs(add_up, jobs), np.zeros(3, np.int64)).tolist()
    positive, other, both, fourth, influences, *of_shares = (sums.total(k) for k in range(9))
    first_total, second_total = totals
    squares = positive / first_total / first_total + other / second_total / second_total
    squares += 2.0 * both / first_total / second_total
    rounding = GROUP_ROUNDINGS * ULP_HALF
    return ClusterSums(
        (positive, other, both),
        influences,
        totals,
        (counts[0], counts[1], counts[2]),
        (rounding * math.sqrt(of_shares[0]), rounding * math.sqrt(of_shares[1])),
        effective_groups(squares, fourth),
        min(effective_groups(of_shares[k], of_shares[2 + k]) for k in range(2)),
    )


#: Rows of a chunk of groups from a file. Threads share the chunks.
_CHUNK_ROWS = 1 << 18
#: From this many rows for each distinct score on, a file has a list of distinct scores.
_ROWS_PER_SCORE = 4
#: The array that marks groups in the same order for all models.
_IS_MATCHED = "matched"


class _Rows(NamedTuple):
    """One model's rows, group by group.

    Parameters
    ----------
    columns : list of ndarray, shape (rows,)
        Codes of the scores, 0 or 1 for others and positives (uint8) and, if rows have weights,
        weights (float64).
    sizes : ndarray of int64, shape (groups,)
        Rows of each group.
    """

    columns: list[np.ndarray]
    sizes: np.ndarray


def _match_chunks(models: Sequence[Sequence[ScoredRows]]) -> list[list[ScoredRows]] | None:
    """Order each model's chunks as the first's; None if tokens differ."""
    each = [{chunk.token: chunk for chunk in chunks} for chunks in models]
    tokens = each[0].keys()
    if None in tokens or any(other.keys() != tokens for other in each):
        return None
    return [[by_token[token] for token in tokens] for by_token in each]


def _sort_for_file(models: Sequence[Sequence[ScoredRows]]) -> list[_Rows | None]:
    """Sort the rows of models with equal groups; None without a row."""
    if not any(len(chunk.codes) for chunks in models for chunk in chunks):
        return [None for _ in models]
    all_rows = [_sort_rows(chunks) for chunks in models]
    order = np.flatnonzero(np.any([rows.sizes > 0 for rows in all_rows], axis=0))
    for rows in reversed(all_rows):
        order = _sort_groups(rows, order)
    return [_take_groups(rows, order) for rows in all_rows]


def _sort_rows(chunks: Sequence[ScoredRows]) -> _Rows:
    """Collect the rows of some chunks, ascending inside each group."""
    codes = np.concatenate([chunk.codes for chunk in chunks])
    flags = [np.zeros(len(chunk.codes), np.uint8) for chunk in chunks]
    for flag, chunk in zip(flags, chunks, strict=True):
        flag[chunk.positive] = 1
    columns = [codes, np.concatenate(flags)]
    weights = [chunk.weight for chunk in chunks if chunk.weight is not None]
    if weights:
        columns.append(np.concatenate(weights) + 0.0)
    sizes = np.concatenate([np.diff(chunk.starts) for chunk in chunks])
    order = _row_order(columns, sizes)
    if order is not None:
        columns = [column[order] for column in columns]
    return _Rows(columns, sizes)


def _row_order(columns: Sequence[np.ndarray], sizes: np.ndarray) -> np.ndarray | None:
    """Return the order that sorts rows inside groups; None if they are sorted."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    ascends = np.ones(max(len(group) - 1, 0), np.bool_)
    for column in reversed(columns):
        ascends = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & ascends)
    ascends |= group[1:] != group[:-1]
    return None if ascends.all() else np.lexsort((*reversed(columns), group))


def _sort_groups(rows: _Rows, groups: np.ndarray) -> np.ndarray:
    """Sort groups by their size, then by their rows, stably."""
    # Rows become bytes of the same order. All groups of one size are compared at once.
    kinds = [f">u{column.itemsize}" for column in rows.columns]
    content = np.empty(len(rows.columns[0]), [(str(n), kind) for n, kind in enumerate(kinds)])
    for n, column in enumerate(rows.columns):
        content[str(n)] = column.view(f"u{column.itemsize}")
    first, sizes, order = np.cumsum(rows.sizes) - rows.sizes, rows.sizes[groups], []
    for size in np.unique(sizes).tolist():
        same_size = groups[sizes == size]
        if size:
            rows_taken = first[same_size][:, None] + np.arange(size)
            row_bytes = content[rows_taken].reshape(-1).view(f"S{size * content.itemsize}")
            same_size = same_size[np.argsort(row_bytes, kind="stable")]
        order.append(same_size)
    return np.concatenate(order)


def _take_groups(rows: _Rows, groups: np.ndarray) -> _Rows:
    """Select the rows of some groups, in this order."""
    first, sizes = np.cumsum(rows.sizes) - rows.sizes, rows.sizes[groups]
    skipped = first[groups] - (np.cumsum(sizes) - sizes)
    rows_taken = np.repeat(skipped, sizes) + np.arange(sizes.sum())
    return _Rows([column[rows_taken] for column in rows.columns], sizes)


def _to_arrays(rows: _Rows) -> Arrays:
    codes, positive, *weight = rows.columns
    arrays = {"sizes": narrow(rows.sizes), "positive": positive}
    distinct, _ = distinct_codes(Codes(codes, NO_VALUES))
    if _ROWS_PER_SCORE * len(distinct) > len(codes):
        arrays["codes"] = delta_encode(codes)
    else:
        which = narrow(np.searchsorted(distinct, codes))
        arrays |= {"distinct": delta_encode(distinct), "which": delta_encode(which)}
    return {**arrays, "weights": byte_shuffle(weight[0])} if weight else arrays


def _from_arrays(arrays: Mapping[str, np.ndarray]) -> _Rows:
    """Read the rows that `_to_arrays` wrote."""
    if "codes" in arrays:
        codes = delta_decode(arrays["codes"])
    else:
        codes = delta_decode(arrays["distinct"])[delta_decode(arrays["which"])]
    columns = [codes, arrays["positive"]]
    if "weights" in arrays:
        columns.append(byte_unshuffle(arrays["weights"], "f"))
    rows = _Rows(columns, arrays["sizes"].astype(np.int64))
    # Checked here: the kernels that read these rows check no bounds.
    if any(column.shape != codes.shape for column in columns) or (
        rows.sizes.ndim != 1 or rows.sizes.min(initial=0) < 0 or rows.sizes.sum() != len(codes)
    ):
        raise ValueError("sizes of groups and rows of clustered scores contradict each other")
    return rows


def _chunk_edges(sizes: np.ndarray) -> list[int]:
    """Return the groups at which chunks begin, and the number of groups."""
    starts = np.append(0, np.cumsum(sizes))
    cuts = np.searchsorted(starts, np.arange(_CHUNK_ROWS, starts[-1], _CHUNK_ROWS))
    return np.unique(np.concatenate([[0], cuts, [len(sizes)]])).tolist()


def _split_chunks(
    rows: _Rows, edges: Sequence[int], tokens: list[object] | None
) -> list[ScoredRows]:
    """Split rows into chunks at these groups.

    Chunk i gets token i, if there are tokens. Missing tokens are appended to the list.
    """
    codes, positive, *weight = rows.columns
    starts = np.append(0, np.cumsum(rows.sizes))
    chunks = []
    for number, (lo, hi) in enumerate(pairwise(edges)):
        here = slice(int(starts[lo]), int(starts[hi]))
        if tokens is not None and number == len(tokens):
            tokens.append(object())
        chunks.append(
            ScoredRows(
                frozen(codes[here]),
                frozen(np.flatnonzero(positive[here])),
                frozen(starts[lo : hi + 1] - starts[lo]),
                frozen(weight[0][here]) if weight else None,
                None if tokens is None else tokens[number],
            )
        )
    return chunks
