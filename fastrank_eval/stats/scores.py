"""Count or store the scores of all rows, with class, weight and cell.

A cell is a combination of values of some columns. All cells share one list of scores, so the rows
of any union of cells are in the order of their scores after one sort.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from fastrank_eval._lib.arrow import Arrays, byte_unshuffle, delta_decode, narrow
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import JobMap, map_jobs
from fastrank_eval.stats.score_runs import (
    LOWER_BITS,
    NO_VALUES,
    Codes,
    RocSteps,
    ScoreRuns,
    ScoreTable,
    distinct_codes,
    distinct_sorted,
    encode_rows,
    find_codes,
    ranges_of,
    rank_codes,
    scores_of,
    sort_codes,
    sortable_codes,
    sum_of_products,
)

_Result = TypeVar("_Result")
_Value = TypeVar("_Value")

#: Lower bits of a code, by its bytes, that differ inside a bucket. Few buckets: a state of a
#: thousand slices has each of them a thousand times.
_BUCKET_BITS = {4: 20, 8: 49}
#: Rows of a bucket from which on a table counts them: 1.1 ns a row, where a sort takes 10.
_DENSE_ROWS = 1 << 17
#: Row counts of a bucket: a list (ascending distinct codes and the rows of each) or a table (None
#: and the rows of every code that the bucket can hold).
CodeCounts = tuple[np.ndarray | None, np.ndarray]


def _use_table(distinct: int, counts: np.ndarray) -> bool:
    """Check that a table takes at most twice the bytes of a list.

    Pooled AUC of 30 million float32 scores takes 13 ns a row with this rule. It takes 28 ns with
    the smaller of table and list.
    """
    return 2 * distinct * (4 + counts.itemsize) > counts.itemsize << _BUCKET_BITS[4]


def _widen(numbers: np.ndarray, present: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Convert numbers to a type that holds the sum of both maxima."""
    largest = int(present.max(initial=0)) + int(more.max(initial=0))
    if largest > np.iinfo(numbers.dtype).max:
        return numbers.astype(np.min_scalar_type(largest))
    return numbers


def add_rows(table: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Add rows to the table of a bucket; widen it where a count is full."""
    done = 0
    while True:
        done += _add_rows(codes[done:], table, np.iinfo(table.dtype).max)
        if done == len(codes):
            return table
        table = table.astype(np.min_scalar_type(1 << 8 * table.itemsize))


@kernel
def _add_rows(codes, table, most):  # type: ignore[no-untyped-def]
    """Count rows until a count is full; return the rows that are counted."""
    mask = np.int64(table.shape[0] - 1)
    for i in range(codes.shape[0]):
        index = np.int64(codes[i]) & mask
        if table[index] == most:
            return i
        table[index] += 1
    return codes.shape[0]


def _listed(bucket: int, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Turn the table of a bucket into a list."""
    codes = np.flatnonzero(table).astype(np.uint32)
    return codes | np.uint32(bucket << _BUCKET_BITS[4]), table[codes]


def merge_counts(own: CodeCounts, codes: np.ndarray, counts: np.ndarray) -> CodeCounts:
    """Add the row counts of ascending distinct codes to one bucket."""
    own_codes, numbers = own
    dense = 1 << _BUCKET_BITS[4]
    if own_codes is None:
        index = codes & np.uint32(dense - 1)
        numbers = _widen(numbers, numbers[index], counts)
        numbers[index] += counts.astype(numbers.dtype)
        return None, numbers
    if len(own_codes):
        joined = np.empty(len(own_codes) + len(codes), own_codes.dtype)
        total = np.empty(len(joined), np.int64)
        size = _merge(
            own_codes, numbers.astype(np.int64), codes, counts.astype(np.int64), joined, total
        )
        codes, counts = joined[:size].copy(), total[:size]
    if counts.itemsize > 1:
        counts = narrow(counts)
    if codes.dtype.itemsize == 4 and _use_table(len(codes), counts):
        numbers = np.zeros(dense, counts.dtype)
        numbers[codes & np.uint32(dense - 1)] = counts
        return None, numbers
    return codes, counts


@kernel
def _merge(left, left_counts, right, right_counts, out, counts):  # type: ignore[no-untyped-def]
    """Merge two ascending lists of codes; add counts of equal codes."""
    i = 0
    j = 0
    n = 0
    while i < left.shape[0] or j < right.shape[0]:
        if j == right.shape[0] or (i < left.shape[0] and left[i] < right[j]):
            out[n] = left[i]
            counts[n] = left_counts[i]
            i += 1
        elif i == left.shape[0] or right[j] < left[i]:
            out[n] = right[j]
            counts[n] = right_counts[j]
            j += 1
        else:
            out[n] = left[i]
            counts[n] = left_counts[i] + right_counts[j]
            i += 1
            j += 1
        n += 1
    return n


class CodeCounter(ScoreRuns):
    """Codes, and the number of rows of each of those that are counted.

    Several threads may add at the same time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[int, CodeCounts] = {}
        self.listed_bytes = 0

    def count(self, map_jobs: JobMap) -> None:
        """Replace the codes of rows by counts."""
        runs, size = self.take(), self.kind.itemsize
        parts = 1 << (_BUCKET_BITS[size] - LOWER_BITS[size])
        rows_of = runs.partitioned_rows().reshape(-1, parts).sum(axis=1)
        buckets = np.flatnonzero(rows_of).tolist()

        def count(bucket: int) -> CodeCounts:
            leading = slice(parts * bucket, parts * (bucket + 1))
            codes, table = self._own(bucket)
            if not len(table) and size == 4 and rows_of[bucket] >= _DENSE_ROWS:
                codes, table = None, np.zeros(1 << _BUCKET_BITS[4], np.uint8)
            if codes is not None:
                return merge_counts((codes, table), *distinct_codes(runs.rows_in(leading)))
            for rows in runs.parts_in(leading):
                table = add_rows(table, rows.codes)
            present = int(np.count_nonzero(table))
            return (None, table) if _use_table(present, table) else _listed(bucket, table)

        for bucket, counts in zip(buckets, map_jobs(count, buckets), strict=True):
            self.counts[bucket] = counts
        listed = (codes for codes, _ in self.counts.values() if codes is not None)
        self.listed_bytes = sum(codes.nbytes for codes in listed)

    def add_counts(self, codes: np.ndarray, counts: np.ndarray) -> None:
        """Add the row counts of ascending distinct codes."""
        self.kind = codes.dtype
        buckets = codes >> codes.dtype.type(_BUCKET_BITS[codes.dtype.itemsize])
        edges = [0, *(np.flatnonzero(buckets[1:] != buckets[:-1]) + 1).tolist(), len(codes)]
        counts = narrow(counts)  # at once: 5 of 10 us a bucket, if a state has 1,000 slices
        for lo, hi in pairwise(edges):
            if lo < hi:
                bucket, own = int(buckets[lo]), self._own(int(buckets[lo]))
                self.counts[bucket] = merge_counts(own, codes[lo:hi].copy(), counts[lo:hi])

    def _own(self, bucket: int) -> CodeCounts:
        none = np.empty(0, self.kind)
        return self.counts.get(bucket, (none, none))

    def counts_of(self, bucket: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ascending distinct codes of a bucket and the rows of each."""
        codes, counts = self._own(bucket)
        if codes is None:
            codes, counts = _listed(bucket, counts)
        return codes, counts.astype(np.int64)

    def merge(self, other: CodeCounter) -> None:  # type: ignore[override]
        """Add the codes of another."""
        super().merge(other)
        if other.counts:
            self.kind = other.kind
        for bucket in other.counts:
            self.counts[bucket] = merge_counts(self._own(bucket), *other.counts_of(bucket))


class Scores:
    """Scores of all rows; threads may add at the same time, in any order."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._forget()

    @staticmethod
    def of(weighted: bool, threads: int) -> PooledScores | WeightedScores:
        """Make a store for rows with or without weights; so many threads add."""
        return WeightedScores() if weighted else PooledScores(threads)

    def _forget(self) -> None:
        self._table: ScoreTable | None = None
        self._steps: RocSteps | None = None

    def add(self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray | None) -> None:
        """Add rows.

        Parameters
        ----------
        score : ndarray of float32 or float64, shape (rows,)
            The same type in every call.
        positive : ndarray of int64
            Indices of the positive rows.
        weight : ndarray of float64, shape (rows,), or None
        """
        raise NotImplementedError  # pragma: no cover - abstract

    def merge(self, other: Any) -> None:
        """Add another state, which must not be used afterwards, in any order."""
        raise NotImplementedError  # pragma: no cover - abstract

    def auc(self, max_fpr: float | None = None, map_jobs: JobMap = map) -> float:
        """Compute the area under the ROC curve.

        Parameters
        ----------
        max_fpr : float or None
            In ]0, 1[: McClish's standardised area up to this false positive rate.
        map_jobs : callable
            Maps a function over jobs, in threads.

        Returns
        -------
        float
            NaN if a class has no row or no weight.
        """
        return self.table(map_jobs).area(max_fpr)

    def table(self, map_jobs: JobMap = map) -> ScoreTable:
        """Count positives and others of every distinct score, or their weights."""
        with self._lock:
            if self._table is None:
                self._table = self._make_table(map_jobs)
            return self._table

    def steps(self, map_jobs: JobMap = map) -> RocSteps:
        """Compute the steps of the ROC curve."""
        with self._lock:
            if self._steps is None:
                self._steps = self._make_steps(map_jobs)
            return self._steps

    def missing(self, map_jobs: JobMap = map) -> str | None:
        """Return why measures that need both classes are undefined, or None."""
        return self.table(map_jobs).missing

    def _make_table(self, map_jobs: JobMap) -> ScoreTable:
        raise NotImplementedError  # pragma: no cover - abstract

    def _make_steps(self, map_jobs: JobMap) -> RocSteps:
        return RocSteps.from_table(self.table(map_jobs))


class PooledScores(Scores):
    """Scores of all rows and of the positives, without row weights.

    Parameters
    ----------
    threads : int
        Number of threads that add.
    """

    #: Bytes of float32 codes from which on they are counted. float64 codes may have twice as many.
    BUFFER_BYTES = 11 << 22

    def __init__(self, threads: int = 1) -> None:
        super().__init__()
        self._threads = threads
        self._all, self._positives = CodeCounter(), CodeCounter()

    def _forget(self) -> None:
        super()._forget()
        self._area: float | None = None

    def add(
        self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray | None = None
    ) -> None:
        """Add rows, without weights."""
        self._all.add(score)
        self._positives.add(score[positive])
        self._forget()
        if self._is_full():
            with self._lock:
                if self._is_full():
                    # New threads: those that add rows wait for this count, or soon will.
                    self._count_all(partial(map_jobs, self._threads))

    def _is_full(self) -> bool:
        # A count rewrites the lists of distinct codes: wait for as many bytes as they have.
        stored = self._all.bytes + self._positives.bytes
        room = self.BUFFER_BYTES * self._all.kind.itemsize // 4
        return stored >= max(room, self._all.listed_bytes)

    def _count_all(self, map_jobs: JobMap) -> None:
        self._all.count(map_jobs)
        self._positives.count(map_jobs)

    def merge(self, other: PooledScores) -> None:
        """Add another state, which must not be used afterwards, in any order."""
        with self._lock:
            self._all.merge(other._all)
            self._positives.merge(other._positives)
            # Without a positive, the other state does not say which codes they have.
            self._positives.kind = self._all.kind
            self._forget()

    def to_arrays(self) -> Arrays:
        """Write the distinct scores with their rows.

        The arrays are those of `ScoreTable.to_arrays`.
        """
        return self.table().to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        codes, positives, others = ScoreTable.counts_in(arrays)
        state = cls()
        state._all.add_counts(codes, positives + others)
        present = positives > 0
        state._positives.add_counts(codes[present], positives[present])
        return state

    def auc(self, max_fpr: float | None = None, map_jobs: JobMap = map) -> float:
        """Compute the area under the ROC curve, as `Scores.auc`."""
        with self._lock:
            if max_fpr is not None and max_fpr < 1:
                return self.steps(map_jobs).area(max_fpr)
            if self._area is None:
                steps = self._steps
                self._area = self._exact_area(map_jobs) if steps is None else steps.area()
            return self._area

    def _exact_area(self, map_jobs: JobMap) -> float:
        def count_wins(*distribution: Any) -> tuple[int, int, int]:
            _, number, below, through, rows = _rank_positives(*distribution)
            return sum_of_products(number, below + through), int(number.sum()), rows

        won, rows, total = 0, 0, 0
        for twice, positives, here in self._map_ranges(count_wins, map_jobs):
            # Rows of lower ranges are below all rows of this one.
            won += twice + 2 * positives * rows
            total += positives
            rows += here
        pairs = total * (rows - total)
        # The pairs of two positives are subtracted: half of them count as won.
        return (won - total * total) / (2 * pairs) if pairs else float("nan")

    def missing(self, map_jobs: JobMap = map) -> str | None:
        """Return why measures that need both classes are undefined, or None."""
        return self.steps(map_jobs).missing

    def _make_steps(self, map_jobs: JobMap) -> RocSteps:
        lower, parts = 0, []
        for codes, number, below, through, rows in self._map_ranges(_rank_positives, map_jobs):
            parts.append((codes, number, below + lower, through + lower))
            lower += rows
        return RocSteps.from_ranks(parts, lower) if parts else RocSteps.empty()

    def _make_table(self, map_jobs: JobMap) -> ScoreTable:
        parts = list(self._map_ranges(_divide_classes, map_jobs))
        if not parts:
            return ScoreTable.empty()
        codes, positives, others = (np.concatenate(part[::-1]) for part in zip(*parts, strict=True))
        return ScoreTable.from_codes(codes, positives, others)

    def _map_ranges(self, work: Callable[..., _Result], map_jobs: JobMap) -> Iterator[_Result]:
        """Map a function over the ranges of codes, ascending.

        It takes the ascending distinct codes of all rows and the rows of each, then those of
        positives. If they are not counted, it takes codes in any order and None.
        """
        if not self._all.counts:

            def join(leading: slice) -> _Result:
                positives = self._positives.rows_in(leading, "positives")
                return work(self._all.rows_in(leading), None, *positives)

            return map_jobs(join, ranges_of(self._all, self._positives))
        self._count_all(map_jobs)

        def read(bucket: int) -> _Result:
            codes, counts = self._all.counts_of(bucket)
            return work(Codes(codes, NO_VALUES), counts, *self._positives.counts_of(bucket))

        return map_jobs(read, sorted(self._all.counts))


def _rank_positives(
    rows: Codes, counts: np.ndarray | None, codes: np.ndarray, number: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Count the rows below each code of positives, and up to it, and all rows."""
    if counts is None:
        return *rank_codes(rows, codes), len(rows.codes)
    below, through = np.empty((2, len(codes)), np.int64)
    find_codes(rows.codes, codes, below, through)
    before = np.append(0, np.cumsum(counts))
    return codes, number, before[below], before[through], int(before[-1])


def _divide_classes(
    rows: Codes, counts: np.ndarray | None, codes: np.ndarray, number: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count positives and others of each code, the highest first."""
    distinct = rows.codes
    if counts is None:
        codes, number = distinct_codes(Codes(codes, NO_VALUES))
        distinct, counts = distinct_codes(rows)
    positives = np.zeros(len(distinct), np.int64)
    positives[np.searchsorted(distinct, codes)] = number
    return distinct[::-1], positives[::-1], (counts - positives)[::-1]


#: From this many rows of one score on, NumPy sorts their weights.
_LONG_RUN = 256


class WeightedScores(Scores):
    """Scores and weights of all rows, each row stored.

    At the end each range of scores is sorted, and the weights of each distinct score are added,
    smallest first. So no sum depends on the order of rows.
    """

    def __init__(self) -> None:
        super().__init__()
        # Weights are negative where the row is positive. (Where a weight is zero, the class does
        # not matter.)
        self._runs = ScoreRuns()
        self._largest_weight = 0.0

    def add(self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray | None) -> None:
        """Add rows with weights."""
        if weight is not None and len(score):
            signed = weight.copy()
            signed[positive] *= -1.0
            self._add_signed(score, signed, float(weight.max()))

    def _add_signed(self, score: np.ndarray, signed: np.ndarray, largest_weight: float) -> None:
        self._runs.add(score, signed)
        with self._lock:
            self._largest_weight = max(self._largest_weight, largest_weight)
            self._forget()

    def merge(self, other: WeightedScores) -> None:
        """Add another state, which must not be used afterwards, in any order."""
        self._runs.merge(other._runs)
        with self._lock:
            self._largest_weight = max(self._largest_weight, other._largest_weight)
            self._forget()

    def to_arrays(self) -> Arrays:
        """Write the distinct pairs of score and weight, ascending.

        Returns
        -------
        dict of ndarray
            ``codes`` of the scores (see `ScoreTable.to_arrays`); ``weights``, negative
            where the row is positive, with shuffled bytes; ``rows`` of each pair.
        """
        parts = [(np.empty(0, np.uint64), np.empty(0))]
        for leading in ranges_of(self._runs):
            codes, weight = self._runs.rows_in(leading)
            # The class of a row of weight 0 does not matter: turn -0.0 into 0.0.
            weight = weight + 0.0
            order = np.lexsort((weight, codes))
            parts.append((codes[order], weight[order]))
        names = "codes", "weights", "rows"
        return dict(zip(names, encode_rows(parts[1:] or parts), strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        state = cls()
        rows = arrays["rows"].astype(np.int64)
        signed = np.repeat(byte_unshuffle(arrays["weights"], "f"), rows)
        if len(signed):
            score = scores_of(np.repeat(delta_decode(arrays["codes"]), rows))
            state._add_signed(score, signed, float(np.abs(signed).max()))
        return state

    def _make_table(self, map_jobs: JobMap) -> ScoreTable:
        return self._sum(map_jobs, np.asarray, self._scale)

    def squares_table(self, map_jobs: JobMap = map) -> ScoreTable:
        """Return `table` of squared weights, scaled before squaring."""

        def square(weight: np.ndarray) -> np.ndarray:
            scaled = weight * self._scale
            return scaled * np.abs(scaled)

        return self._sum(map_jobs, square, 1.0)

    def rows_with_weight(self) -> tuple[int, int]:
        """Count the positives and the others whose weight is not zero."""
        parts = self._runs.values()
        positives = sum(int(np.count_nonzero(each < 0)) for each in parts)
        return positives, sum(int(np.count_nonzero(each > 0)) for each in parts)

    @property
    def _scale(self) -> float:
        """A power of two that prevents overflow and changes no bit of the area."""
        return 2.0 ** -max(math.frexp(self._largest_weight)[1], -1000)

    def _sum(
        self, map_jobs: JobMap, transform: Callable[[np.ndarray], np.ndarray], scale: float
    ) -> ScoreTable:
        def sum_range(leading: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            codes, weights = self._runs.rows_in(leading)
            return _sum_by_code(sort_codes(Codes(codes, transform(weights))), scale)

        parts = list(map_jobs(sum_range, ranges_of(self._runs)[::-1]))
        if not parts:
            return ScoreTable.empty()
        codes, positives, others = (np.concatenate(part) for part in zip(*parts, strict=True))
        return ScoreTable.from_codes(codes, positives, others, scale)


def _sum_by_code(rows: Codes, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum the weights of positives and others of each code.

    The highest code comes first.

    Parameters
    ----------
    rows : Codes
        Ascending; weights, which are overwritten, are negative where the row is positive.
    scale : float
        Factor of the weights.
    """
    distinct, _ = distinct_sorted(rows.codes)
    others, positives = np.empty((2, len(distinct)))
    # The run to sort next: its start and its end; and the codes that are done.
    position = np.zeros(3, np.int64)
    while not _sum_runs(*rows, scale, _LONG_RUN, position, others, positives):
        rows.values[position[0] : position[1]].sort()
    return distinct[::-1], positives[::-1], others[::-1]


@kernel
def _sum_runs(code, weight, scale, long, position, others, positives):  # type: ignore[no-untyped-def]
    """Sum the weights of each code, smallest first.

    Continues at the last call's end. Returns False if a long run has to be sorted first.
    """
    i = position[0]
    d = position[2]
    while i < code.shape[0]:
        end = i + 1
        ascends = True
        while end < code.shape[0] and code[end] == code[i]:
            ascends &= weight[end] >= weight[end - 1]
            end += 1
        if not ascends:
            if end - i >= long and position[1] < end:
                position[0] = i
                position[1] = end
                position[2] = d
                return False
            # A run is short: insertion takes as long as a heap sort.
            for k in range(i + 1, end):
                value = weight[k]
                slot = k
                while slot > i and weight[slot - 1] > value:
                    weight[slot] = weight[slot - 1]
                    slot -= 1
                weight[slot] = value
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


class CellRows(NamedTuple):
    """Rows of a range of scores, the lowest score first.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,)
        Ascending.
    kind : ndarray of int64, shape (rows,)
        Twice the number of the cell, plus 1 for a positive row.
    weight : ndarray of float64, shape (rows,) or (0,)
        Above 0; ascending where scores are equal. Empty if each weight is 1.
    """

    score: np.ndarray
    kind: np.ndarray
    weight: np.ndarray


class CellScores:
    """Scores of all rows with their cells, each row stored.

    Several threads may add at the same time, in any order.

    Parameters
    ----------
    columns : int
        Number of columns whose values make a cell.
    weighted : bool
        Whether rows have weights.

    Examples
    --------
    >>> state = CellScores(1, weighted=False)
    >>> cell, values, positive = np.array([0, 1, 0]), np.array([[4], [7]]), np.array([1, 2])
    >>> state.add(np.array([0.5, 0.25, 0.75]), cell, values, positive)
    >>> (sorted_rows,) = state.ranges(map)
    >>> state.cells.tolist(), sorted_rows.score.tolist(), sorted_rows.kind.tolist()
    ([[4], [7]], [0.25, 0.5, 0.75], [3, 0, 1])
    """

    def __init__(self, columns: int, weighted: bool) -> None:
        self._columns, self.weighted = columns, weighted
        self._lock = threading.Lock()
        # The value of a row is its kind. With weights it is its number in the next two lists.
        self._runs = ScoreRuns()
        self._kinds: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []
        self._rows = 0
        self._cells: dict[tuple[int, ...], int] = {}
        self._computed: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        """Count the cells."""
        return len(self._cells)

    @property
    def cells(self) -> np.ndarray:
        """The codes of each cell's values. int64, shape (cells, columns)."""
        return np.array(list(self._cells), np.int64).reshape(-1, self._columns)

    @property
    def has_rows(self) -> bool:
        """Whether a row was added that has a weight."""
        return self._runs.bytes > 0

    def add(
        self,
        score: np.ndarray,
        cell: np.ndarray,
        values: np.ndarray,
        positive: np.ndarray,
        weight: np.ndarray | None = None,
    ) -> None:
        """Add rows; those of weight 0 are left out.

        Parameters
        ----------
        score : ndarray of float32 or float64, shape (rows,)
            The same type in every call.
        cell : ndarray of int64, shape (rows,)
            The cell of each row, as an index into `values`.
        values : ndarray of int64, shape (cells, columns)
            The codes of the values of each cell.
        positive : ndarray of int64
            Indices of the positive rows.
        weight : ndarray of float64, shape (rows,), optional
        """
        # Doubles, as the runs keep them: kinds are below 2**53.
        kind = (2.0 * self._number(values))[cell]
        kind[positive] += 1.0
        if weight is not None and not (weight > 0).all():
            rows = np.flatnonzero(weight > 0)
            score, kind, weight = score[rows], kind[rows], weight[rows]
        self._add_kinds(score, kind, weight)

    def _number(self, values: np.ndarray) -> np.ndarray:
        """Return the number of each cell, and number new ones."""
        with self._lock:
            self._computed.clear()
            cells = self._cells
            numbers = [cells.setdefault(tuple(codes), len(cells)) for codes in values.tolist()]
        return np.array(numbers, np.int64)

    def _add_kinds(self, score: np.ndarray, kind: np.ndarray, weight: np.ndarray | None) -> None:
        if not len(score):
            return
        values = kind
        if weight is not None:
            with self._lock:
                values = np.arange(self._rows, self._rows + len(score), dtype=np.float64)
                self._kinds.append(kind.astype(np.int64))
                self._weights.append(weight.copy())
                self._rows += len(score)
        self._runs.add(score, values)

    def merge(self, other: CellScores) -> None:
        """Add another state, which must not be used afterwards, in any order."""
        numbers = self._number(other.cells)

        def renumber(kind: np.ndarray) -> np.ndarray:
            return 2 * numbers[kind >> 1] + (kind & 1)

        with self._lock:
            first = self._rows
            if self.weighted:
                self._kinds += map(renumber, other._kinds)
                self._weights += other._weights
                self._rows += other._rows
                other._runs.map_values(lambda rows: rows + first)
            else:
                other._runs.map_values(
                    lambda kinds: renumber(kinds.astype(np.int64)).astype(np.float64)
                )
        self._runs.merge(other._runs)

    def with_codes(self, numbers: Sequence[np.ndarray]) -> Self:
        """Return the same rows under other codes of values.

        Parameters
        ----------
        numbers : sequence of ndarray of int64
            For each column the new code of each code, all different.
        """
        cells = self.cells
        if len(numbers) != self._columns or any(
            (cells[:, i] >= len(column)).any() for i, column in enumerate(numbers)
        ):
            raise ValueError("cells have values that their columns lack")
        codes = np.stack([column[cells[:, i]] for i, column in enumerate(numbers)], axis=1)
        state = copy(self)
        state._cells = {tuple(cell): i for i, cell in enumerate(codes.tolist())}
        state._computed = {}
        return state

    def ranges(self, map_jobs: JobMap) -> Iterator[CellRows]:
        """Yield the rows of ranges of scores, the lowest range first.

        Parameters
        ----------
        map_jobs : callable
            Maps a function over jobs, in threads.
        """
        if self.weighted and len(self._kinds) > 1:
            with self._lock:
                self._kinds = [np.concatenate(self._kinds)]
                self._weights = [np.concatenate(self._weights)]

        def sort(leading: slice) -> CellRows:
            # Copies: other ranges overwrite the scratch memory of this one.
            codes, values = sort_codes(self._runs.rows_in(leading))
            score, index = scores_of(codes), values.astype(np.int64)
            if not self.weighted:
                return CellRows(score, index, np.empty(0))
            weight = self._weights[0][index]
            ties, order = _order_of_ties(codes, weight)
            weight[ties], index[ties] = weight[order], index[order]
            return CellRows(score, self._kinds[0][index], weight)

        yield from map_jobs(sort, ranges_of(self._runs))

    def computed(self, key: Hashable, compute: Callable[[], _Value]) -> _Value:
        """Return what `compute` returned for the key since rows were last added."""
        if key not in self._computed:
            self._computed[key] = compute()
        value: _Value = self._computed[key]
        return value

    def to_arrays(self) -> Arrays:
        """Write the distinct rows, by score, cell and weight.

        Returns
        -------
        dict of ndarray
            ``weighted`` (0 or 1); ``values`` of each cell, ascending, a row a cell; ``codes`` of
            the scores (see `ScoreTable.to_arrays`), ``cells``, ``weights``, negative where the row
            is positive, with shuffled bytes; ``rows`` that have all three.
        """
        cells = self.cells
        order = np.lexsort(cells.T[::-1])
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order))
        parts = [(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0))]
        for score, kind, weight in self.ranges(map):
            codes, cell = sortable_codes(score), numbers[kind >> 1]
            signed = np.where(kind & 1, -1.0, 1.0)
            if self.weighted:
                signed *= weight
            ties, rows = _order_of_ties(codes, signed, cell)
            cell[ties], signed[ties] = cell[rows], signed[rows]
            parts.append((codes, cell, signed))
        codes, cell, signed, rows = encode_rows(parts[1:] or parts)
        return {
            "weighted": np.array(self.weighted, np.int64),
            "values": cells[order],
            "codes": codes,
            "cells": narrow(cell),
            "weights": signed,
            "rows": rows,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        weighted, values = int(arrays["weighted"]), arrays["values"]
        if weighted not in (0, 1) or values.dtype != np.int64 or values.ndim != 2:
            raise ValueError("cells of scores are malformed")
        rows, cell = arrays["rows"].astype(np.int64), arrays["cells"].astype(np.int64)
        codes, signed = delta_decode(arrays["codes"]), byte_unshuffle(arrays["weights"], "f")
        state = cls(values.shape[1], bool(weighted))
        numbers = state._number(values)
        if not rows.shape == cell.shape == codes.shape == signed.shape:
            raise ValueError("codes of scores are not as many as their cells, weights or rows")
        in_range = cell.size == 0 or 0 <= cell.min() <= cell.max() < len(values)
        if len(state._cells) < len(values) or values.min(initial=0) < 0 or not in_range:
            raise ValueError("cells of scores are malformed")
        kind = np.repeat(2.0 * numbers[cell] + (signed < 0), rows)
        weight = np.repeat(np.abs(signed), rows) if weighted else None
        state._add_kinds(scores_of(np.repeat(codes, rows)), kind, weight)
        return state


def _order_of_ties(codes: np.ndarray, *columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order the rows of equal codes by columns, the last one first.

    Parameters
    ----------
    codes : ndarray of unsigned integers, shape (rows,)
        Ascending.
    *columns : ndarray, shape (rows,)

    Returns
    -------
    ties, order : ndarray of int64
        The rows whose code others have, ascending, and the row that comes to each place.
    """
    same = codes[1:] == codes[:-1]
    ties = np.flatnonzero(np.append(False, same) | np.append(same, False))
    return ties, ties[np.lexsort((*(column[ties] for column in columns), codes[ties]))]
