"""Pooled AUC's state where rows have weights, and the area under a ROC curve.

Every row is kept: its score and its weight, dealt to buckets by the upper bits of the score, as in
`pooled`. At the end each bucket is sorted, and the weights of each distinct score are added,
smallest first, so that no sum depends on the order in which rows came in.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np

from fastrank_eval._lib.array_codes import (
    Arrays,
    byte_shuffle,
    byte_unshuffle,
    delta_decode,
    delta_encode,
    narrow,
)
from fastrank_eval._lib.jit import kernel
from fastrank_eval.stats.score_blocks import BlockedWeights
from fastrank_eval.stats.score_table import (
    RocSteps,
    ScoreTable,
    scores_of,
    sortable_bits,
    sortable_codes,
)

#: Runs jobs, side by side or not, and yields their results in order.
InOrder = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
#: What becomes of weights, those of positives below zero, before they are added up.
Change = Callable[[np.ndarray], np.ndarray]

#: Rows of one score whose weights are worth a call of NumPy's sort.
_LONG = 256


class WeightedScores:
    """The scores and weights of positives and of others; every row is kept.

    Threads may add at the same time; the order in which they do does not matter.
    """

    #: Bytes of scores and weights that a thread makes room for at a time.
    ROOM = 1 << 26
    #: Rows up to which all are sorted at the end.
    FEW = 1 << 17

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own = threading.local()
        self._dealt: list[BlockedWeights] = []
        # Scores, and weights: those of positives below zero. (Where a weight is zero, its class
        # does not matter.)
        self._few: list[tuple[np.ndarray, np.ndarray]] = []
        self._few_rows = 0
        self._heaviest = 0.0
        self._table: ScoreTable | None = None
        self._steps: RocSteps | None = None

    def add(self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> None:
        """Add rows; see `pooled.PooledScores.add`. Weights: float64, shape (rows,)."""
        if not len(score):
            return
        # Adding 0.0 makes 0.0 of -0.0, which equals it in all but the bits.
        score = score + score.dtype.type(0)
        signed = weight.copy()
        signed[positive] *= -1.0
        self._keep(score, signed, float(weight.max()))

    def _keep(self, score: np.ndarray, signed: np.ndarray, heaviest: float) -> None:
        with self._lock:
            self._heaviest = max(self._heaviest, heaviest)
            self._table = self._steps = None
            few = not self._dealt and self._few_rows + len(score) <= self.FEW
            if few:
                self._few.append((score, signed))
                self._few_rows += len(score)
        if not few:
            self._deal(score, signed)

    def _deal(self, score: np.ndarray, signed: np.ndarray) -> None:
        bits, weight = sortable_bits(score), sortable_bits(signed)
        mine: BlockedWeights | None = getattr(self._own, "dealt", None)
        done = 0
        while done < len(bits):
            if mine is None:
                mine = self._own.dealt = BlockedWeights(bits.dtype, self.ROOM)
                with self._lock:
                    self._dealt.append(mine)
            done += mine.block_weighted(bits[done:], weight[done:])
            if done < len(bits):
                mine = None

    def merge(self, other: WeightedScores) -> None:
        """Add another state, which is used up; the order of merging does not matter."""
        with self._lock:
            self._dealt += other._dealt
            self._few += other._few
            self._few_rows += other._few_rows
            self._heaviest = max(self._heaviest, other._heaviest)
            self._table = self._steps = None

    def saved(self) -> Arrays:
        """Distinct pairs of score and weight, ascending.

        Returns
        -------
        dict of ndarray
            ``codes`` of the scores (see `ScoreTable.saved`); ``weights``, below zero where the row
            is positive, as `byte_shuffle`; ``rows`` of each pair.
        """
        buckets, rows_of, _ = self._buckets()
        found = []
        for bucket in reversed(buckets):
            codes, weight = rows_of(bucket)
            # The class of what weighs nothing does not matter: no weight is -0.0.
            weight = weight + 0.0
            order = np.lexsort((weight, codes))
            codes, weight = codes[order], weight[order]
            fresh = np.append(True, (codes[1:] != codes[:-1]) | (weight[1:] != weight[:-1]))
            at = np.flatnonzero(fresh)
            found.append((codes[at], weight[at], np.diff(at, append=len(codes))))
        if not found:
            found = [(np.empty(0, np.uint64), np.empty(0), np.empty(0, np.int64))]
        codes, weight, rows = (np.concatenate(part) for part in zip(*found, strict=True))
        return {"codes": delta_encode(codes), "weights": byte_shuffle(weight), "rows": narrow(rows)}

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        state = cls()
        rows = parts["rows"].astype(np.int64)
        signed = np.repeat(byte_unshuffle(parts["weights"], "f"), rows)
        if len(signed):
            score = scores_of(np.repeat(delta_decode(parts["codes"]), rows))
            state._keep(score, signed, float(np.abs(signed).max()))
        return state

    def auc(self, max_fpr: float | None = None, in_order: InOrder = map) -> float:
        """The area under the ROC curve; NaN if either class is missing or weighs nothing."""
        table = self.table(in_order)
        return area_under(table.others, table.positives, max_fpr)

    def table(self, in_order: InOrder = map) -> ScoreTable:
        """Every distinct score with the weight of its positives and of its others."""
        if self._table is None:
            self._table = self._tabulated(in_order, _as_they_are, self._scale)
        return self._table

    def steps(self, in_order: InOrder = map) -> RocSteps:
        """Where positives stand among the others, by weight."""
        if self._steps is None:
            self._steps = RocSteps.of_table(self.table(in_order))
        return self._steps

    def missing(self, in_order: InOrder = map) -> str | None:
        """Why no measure that needs both classes is defined, or None."""
        return self.table(in_order).missing

    def squared(self, in_order: InOrder = map) -> ScoreTable:
        """`table`, with the squares of the weights, each times the scale of `table` before."""

        def square(weight: np.ndarray) -> np.ndarray:
            scaled = weight * self._scale
            return scaled * np.abs(scaled)

        return self._tabulated(in_order, square, 1.0)

    def weighing(self, in_order: InOrder = map) -> ScoreTable:
        """`table`, with the numbers of rows whose weight is not zero."""
        return self._tabulated(in_order, np.sign, 1.0)

    @property
    def _scale(self) -> float:
        """A power of two, which changes no bit of the area and lets no sum overflow."""
        return 2.0 ** -max(math.frexp(self._heaviest)[1], -1000)

    def _tabulated(self, in_order: InOrder, change: Change, scale: float) -> ScoreTable:
        buckets, rows_of, lower_bits = self._buckets()
        if not buckets:
            return ScoreTable.empty()

        def masses(bucket: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            codes, weights = rows_of(bucket)
            return _masses(codes, change(weights), lower_bits, scale)

        parts = list(in_order(masses, buckets))
        codes, positives, others = (np.concatenate(part) for part in zip(*parts, strict=True))
        return ScoreTable.of(codes, positives, others, scale)

    def _buckets(
        self,
    ) -> tuple[list[int], Callable[[int], tuple[np.ndarray, np.ndarray]], int]:
        """Buckets, the highest scores first; what gives one's codes and weights; bits they vary in.

        Few rows are one bucket.
        """
        if not self._dealt:
            if not self._few:
                return [], lambda _: (np.empty(0, np.uint64), np.empty(0)), 0
            scores, weights = (np.concatenate(part) for part in zip(*self._few, strict=True))
            codes = sortable_codes(scores)
            return [0], lambda _: (codes, weights), 8 * codes.itemsize
        few, self._few = self._few, []
        for score, signed in few:
            self._deal(score, signed)
        dealt = [(part, part.chunks(), part.held()) for part in self._dealt]
        rows = np.sum([held for _, _, held in dealt], axis=0)

        def rows_of(bucket: int) -> tuple[np.ndarray, np.ndarray]:
            codes = np.empty(rows[bucket], dealt[0][0].kind)
            weights = np.empty(rows[bucket], np.uint64)
            done = 0
            for part, chunks, held in dealt:
                here = slice(done, done + int(held[bucket]))
                part.collect(bucket, chunks, codes[here])
                part.collect_weights(bucket, chunks, weights[here])
                done = here.stop
            return codes, weights.view(np.float64)

        return np.flatnonzero(rows)[::-1].tolist(), rows_of, dealt[0][0].lower_bits


def _as_they_are(weight: np.ndarray) -> np.ndarray:
    return weight


def _masses(
    codes: np.ndarray, weights: np.ndarray, lower_bits: int, scale: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct codes, the highest first, with the weight of their positives and of their others.

    Parameters
    ----------
    codes : ndarray of unsigned integers, shape (rows,)
        Those of a bucket.
    weights : ndarray of float64, shape (rows,)
        Below zero where the row is positive.
    lower_bits : int
        Bits of a code that are not the same in all of them.
    scale : float
        What weights are multiplied by.
    """
    keys, rows = _sorted_rows(codes, lower_bits)
    in_order, heavy = np.empty_like(codes), np.empty_like(weights)
    distinct = _gather(keys, rows, codes, weights, in_order, heavy)
    others, positives = np.empty((2, distinct))
    fresh = np.append(True, in_order[1:] != in_order[:-1]) if distinct else np.empty(0, np.bool_)
    # Where the run to sort begins and ends, and how many have been added.
    at = np.zeros(3, np.int64)
    while not _add_runs(in_order, heavy, scale, _LONG, at, others, positives):
        heavy[at[0] : at[1]].sort()
    return in_order[fresh][::-1], positives[::-1], others[::-1]


def _sorted_rows(codes: np.ndarray, lower_bits: int) -> tuple[np.ndarray, int]:
    """Rows in ascending order of their code, and the mask of the bits that hold the row.

    One SIMD sort of the code's varying bits above the row's number; bits that the number covers are
    put right afterwards. (`argsort` takes 60 ns a row, against 8.)
    """
    row_bits = max(1, (len(codes) - 1).bit_length())
    rows = (1 << row_bits) - 1
    keys = np.empty(len(codes), np.uint64)
    _pack(codes, 64 - lower_bits, row_bits, keys)
    keys.sort()
    if lower_bits + row_bits > 64 and not _mend(keys, codes, rows):
        keys = np.argsort(codes).astype(np.uint64)
    return keys, rows


@kernel
def _pack(codes, shift, row_bits, keys):  # type: ignore[no-untyped-def]
    up = np.uint64(shift)
    low = np.uint64(row_bits)
    for i in range(codes.shape[0]):
        keys[i] = (((np.uint64(codes[i]) << up) >> low) << low) | np.uint64(i)


@kernel
def _mend(keys, codes, rows):  # type: ignore[no-untyped-def]
    """Put keys that differ only below the row's number in order; False where they are many."""
    mask = np.uint64(rows)
    left = 8 * keys.shape[0]
    for i in range(1, keys.shape[0]):
        moved = keys[i]
        k = i
        while (
            k > 0
            and (keys[k - 1] | mask) == (moved | mask)
            and codes[np.int64(keys[k - 1] & mask)] > codes[np.int64(moved & mask)]
        ):
            keys[k] = keys[k - 1]
            k -= 1
        keys[k] = moved
        left -= i - k
        if left < 0:
            return False
    return True


@kernel
def _gather(keys, rows, codes, weights, in_order, heavy):  # type: ignore[no-untyped-def]
    """Codes and weights in the order of the keys; returns the number of distinct codes."""
    mask = np.uint64(rows)
    distinct = 0
    for i in range(keys.shape[0]):
        row = np.int64(keys[i] & mask)
        in_order[i] = codes[row]
        heavy[i] = weights[row]
        distinct += i == 0 or in_order[i] != in_order[i - 1]
    return distinct


@kernel
def _add_runs(code, weight, scale, long, at, others, positives):  # type: ignore[no-untyped-def]
    """Add the weights of each code, smallest first, whatever order the rows had.

    Goes on where it left off; False where a long run has to be sorted first.
    """
    i = at[0]
    d = at[2]
    while i < code.shape[0]:
        end = i + 1
        ascends = True
        while end < code.shape[0] and code[end] == code[i]:
            ascends &= weight[end] >= weight[end - 1]
            end += 1
        if not ascends:
            if end - i >= long and at[1] < end:
                at[0] = i
                at[1] = end
                at[2] = d
                return False
            _sort_ascending(weight[i:end], end - i)
        first = i
        while first < end and weight[first] < 0.0:
            first += 1
        total = 0.0
        for k in range(first - 1, i - 1, -1):
            total += -weight[k] * scale
        positives[d] = total
        total = 0.0
        for k in range(first, end):
            total += weight[k] * scale
        others[d] = total
        d += 1
        i = end
    return True


@kernel
def _sort_ascending(values, n):  # type: ignore[no-untyped-def]
    """Heap sort of the first `n` values (Numba's cache needs it in this file too)."""
    for turn in range(n // 2 + n - 1):
        if turn < n // 2:
            root = n // 2 - 1 - turn
            end = n
        else:
            end = n - 1 - (turn - n // 2)
            values[0], values[end] = values[end], values[0]
            root = 0
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and values[child] < values[child + 1]:
                child += 1
            if values[root] >= values[child]:
                break
            values[root], values[child] = values[child], values[root]
            root = child


def area_under(others: np.ndarray, positives: np.ndarray, max_fpr: float | None) -> float:
    """Trapezoids under the ROC curve, one for each distinct score.

    Parameters
    ----------
    others, positives : ndarray of float64, shape (scores,)
        Rows, or their weight, at each distinct score, from the highest score down.
    max_fpr : float or None
        As in `pooled.PooledScores.auc`.
    """
    if max_fpr is None or max_fpr >= 1:
        areas = np.empty(len(others))
        if not _trapezoids(others, positives, areas):
            return float("nan")
        return min(max(float(np.sum(areas) / 2.0), 0.0), 1.0)
    fpr, tpr = np.cumsum(others), np.cumsum(positives)
    if not (len(fpr) and fpr[-1] > 0 and tpr[-1] > 0):
        return float("nan")
    fpr, tpr = np.append(0.0, fpr / fpr[-1]), np.append(0.0, tpr / tpr[-1])
    stop = int(np.searchsorted(fpr, max_fpr, side="right"))
    slope = (tpr[stop] - tpr[stop - 1]) / (fpr[stop] - fpr[stop - 1])
    inside = slope * (max_fpr - fpr[stop - 1]) + tpr[stop - 1]
    fpr, tpr = np.append(fpr[:stop], max_fpr), np.append(tpr[:stop], inside)
    area = float(np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1])) / 2.0)
    least = max_fpr * max_fpr / 2.0
    area = 0.5 * (1.0 + (area - least) / (max_fpr - least))
    return min(max(area, 0.0), 1.0)


@kernel
def _trapezoids(others, positives, areas):  # type: ignore[no-untyped-def]
    """Twice the area under each step of the curve; False if either class weighs nothing."""
    all_others = 0.0
    all_positives = 0.0
    for i in range(others.shape[0]):
        all_others += others[i]
        all_positives += positives[i]
    if not (all_others > 0.0 and all_positives > 0.0):
        return False
    others_above = 0.0
    positives_above = 0.0
    fpr = 0.0
    tpr = 0.0
    for i in range(others.shape[0]):
        others_above += others[i]
        positives_above += positives[i]
        next_fpr = others_above / all_others
        next_tpr = positives_above / all_positives
        areas[i] = (next_fpr - fpr) * (next_tpr + tpr)
        fpr = next_fpr
        tpr = next_tpr
    return True
