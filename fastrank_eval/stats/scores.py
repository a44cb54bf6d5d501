"""Count the rows at each distinct score, exactly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np

from fastrank_eval._lib.array_codes import Arrays, narrow
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
    find_codes,
    ranges_of,
    rank_codes,
    sum_of_products,
)

_Result = TypeVar("_Result")

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


class PooledScores:
    """Scores of all rows and of the positives, without row weights.

    Several threads may add at the same time, in any order.

    Parameters
    ----------
    threads : int
        Number of threads that add.
    """

    #: Bytes of float32 codes from which on they are counted. float64 codes may have twice as many.
    BUFFER_BYTES = 11 << 22

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._lock = threading.RLock()
        self._all, self._positives = CodeCounter(), CodeCounter()
        self._table: ScoreTable | None = None
        self._steps: RocSteps | None = None
        self._area: float | None = None

    def add(self, score: np.ndarray, positive: np.ndarray, weight: None = None) -> None:
        """Add rows.

        Parameters
        ----------
        score : ndarray of float32 or float64, shape (rows,)
            The same type in every call.
        positive : ndarray of int64
            Indices of the positive rows.
        weight : None
        """
        self._all.add(score)
        self._positives.add(score[positive])
        self._table = self._steps = self._area = None
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
            self._table = self._steps = self._area = None

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
        """Compute the area under the ROC curve; NaN if either class is missing.

        Parameters
        ----------
        max_fpr : float or None
            In ]0, 1[: McClish's standardised area up to this false positive rate.
        map_jobs : callable
            Maps a function over jobs, in threads.
        """
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

    def steps(self, map_jobs: JobMap = map) -> RocSteps:
        """Compute the steps of the ROC curve; this takes little longer than `auc`.

        Parameters
        ----------
        map_jobs : callable
            Maps a function over jobs, in threads.
        """
        with self._lock:
            if self._steps is None:
                lower, parts = 0, []
                for codes, number, below, through, rows in self._map_ranges(
                    _rank_positives, map_jobs
                ):
                    parts.append((codes, number, below + lower, through + lower))
                    lower += rows
                self._steps = RocSteps.from_ranks(parts, lower) if parts else RocSteps.empty()
            return self._steps

    def missing(self, map_jobs: JobMap = map) -> str | None:
        """Return why measures that need both classes are undefined, or None."""
        return self.steps(map_jobs).missing

    def table(self, map_jobs: JobMap = map) -> ScoreTable:
        """Count the positives and the others of every distinct score.

        Parameters
        ----------
        map_jobs : callable
            Maps a function over jobs, in threads.
        """
        with self._lock:
            if self._table is None:
                self._table = self._make_table(map_jobs)
            return self._table

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
