"""Count the rows at each distinct score, exactly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel, scratch
from fastrank_eval.stats.score_blocks import LOWER_BITS, BlockedScores, ScoreBlocks
from fastrank_eval.stats.score_table import (
    RocSteps,
    ScoreTable,
    area_from_pairs,
    area_of,
    distinct_codes,
    distinct_sorted,
    located,
    located_in_bucket,
    located_in_table,
    products,
    sortable_bits,
    sortable_codes,
    table_of,
)
from fastrank_eval.stats.weighted_scores import InOrder, area_under

#: Distinct codes, ascending, with the number of rows of each; or no codes, and a number for each
#: code that the bucket can hold.
Counted = tuple[np.ndarray | None, np.ndarray]


def with_rows(mine: Counted | None, codes: np.ndarray) -> Counted:
    """Add rows to one bucket.

    Parameters
    ----------
    mine : Counted or None
        What has been counted of it.
    codes : ndarray of unsigned integers, shape (rows,)
        In any order.
    """
    table = table_of(codes)
    if table is None:
        return merged(mine, *distinct_codes(codes))
    if mine is None and _as_table(int(np.count_nonzero(table)), table):
        return None, table.copy()
    if mine is not None and mine[0] is None:
        numbers = _wide_enough(mine[1], mine[1], table)
        numbers += table
        return None, numbers
    held = np.flatnonzero(table)
    base = codes[0] >> LOWER_BITS[4] << LOWER_BITS[4]
    return merged(mine, held.astype(codes.dtype) | base, table[held])


def _as_table(distinct: int, counts: np.ndarray) -> bool:
    """Whether numbers of 32-bit codes are held as a table of at most twice a list's bytes.

    Pooled AUC of 30 million float32 scores takes 13 ns a row so, and 28 with the smaller of both.
    """
    return 2 * distinct * (4 + counts.itemsize) > counts.itemsize << LOWER_BITS[4]


def _wide_enough(numbers: np.ndarray, present: np.ndarray, more: np.ndarray) -> np.ndarray:
    """The same numbers, in a type that holds the sum of the largest of each."""
    most = int(present.max(initial=0)) + int(more.max(initial=0))
    if most > np.iinfo(numbers.dtype).max:
        return numbers.astype(np.min_scalar_type(most))
    return numbers


def merged(mine: Counted | None, codes: np.ndarray, counts: np.ndarray) -> Counted:
    """Add distinct codes to one bucket; `codes` ascend, `counts` are their rows."""
    held, numbers = mine if mine is not None else (codes[:0], counts[:0])
    dense = 1 << LOWER_BITS[4]
    if held is None:
        at = codes & np.uint32(dense - 1)
        numbers = _wide_enough(numbers, numbers[at], counts)
        numbers[at] += counts.astype(numbers.dtype)
        return None, numbers
    if len(held):
        joined = np.empty(len(held) + len(codes), held.dtype)
        total = np.empty(len(joined), np.int64)
        size = _merge(held, numbers.astype(np.int64), codes, counts.astype(np.int64), joined, total)
        codes, counts = joined[:size].copy(), total[:size]
    counts = counts.astype(np.min_scalar_type(int(counts.max(initial=0))))
    if codes.dtype.itemsize == 4 and _as_table(len(codes), counts):
        numbers = np.zeros(dense, counts.dtype)
        numbers[codes & np.uint32(dense - 1)] = counts
        return None, numbers
    return codes, counts


@kernel
def _merge(left, left_counts, right, right_counts, out, counts):  # type: ignore[no-untyped-def]
    """Union of two ascending lists of distinct codes, numbers of equal codes added."""
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


class Found(NamedTuple):
    """The positives of a bucket: distinct codes, ascending, and where they stand.

    `number` is how many have each code, `below` and `through` the rows counted here with a lower
    code, and up to it; `rows` are all that are counted here: those of the bucket, and of buckets
    before and after that hold no positive.
    """

    codes: np.ndarray
    number: np.ndarray
    below: np.ndarray
    through: np.ndarray
    rows: int


class PooledScores:
    """The scores of all rows and of the positives among them, without row weights.

    Threads may add at the same time; the order in which they do does not matter.

    Parameters
    ----------
    threads : int
        How many will add; they share the room.
    """

    #: Bytes of scores held before they are counted; threads fill half as much in the meantime.
    ROOM = 1 << 26
    #: Rows up to which all are sorted at the end.
    FEW = 1 << 17

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._lock = threading.RLock()
        self._own = threading.local()
        # Held by a thread each; full; empty again.
        self._dealt: list[BlockedScores] = []
        self._full: list[BlockedScores] = []
        self._spare: list[BlockedScores] = []
        self._listed_bytes = 0
        self._few: list[np.ndarray] = []
        self._few_rows = 0
        self._positive: list[np.ndarray] = []
        self._counted: dict[int, Counted] = {}
        self._counted_positive: dict[int, Counted] = {}
        self._table: ScoreTable | None = None
        self._steps: RocSteps | None = None
        self._area: float | None = None

    def add(self, score: np.ndarray, positive: np.ndarray, weight: None = None) -> None:
        """Add rows.

        Parameters
        ----------
        score : ndarray of float32 or float64, shape (rows,)
            Of one type throughout.
        positive : ndarray of int64
            Which of the rows are positive.
        weight : None
        """
        if not len(score):
            return
        positives = sortable_codes(score[positive])
        if score.min() <= 0:
            # -0.0 equals 0.0, but its bits do not.
            score = score + score.dtype.type(0)
        if not self._keep(score):
            self._deal(score)
        with self._lock:
            self._positive.append(positives)
            self._table = self._steps = self._area = None

    def _keep(self, score: np.ndarray) -> bool:
        """Keep the rows as they are while there are few, and no loop need be compiled."""
        with self._lock:
            if self._dealt or self._full or self._few_rows + len(score) > self.FEW:
                return False
            self._few.append(score.copy())
            self._few_rows += len(score)
            return True

    def _deal(self, score: np.ndarray) -> None:
        bits = sortable_bits(score)
        mine: BlockedScores | None = getattr(self._own, "dealt", None)
        if mine is None:
            mine = self._empty(bits.dtype)
        done = mine.deal(bits)
        while done < len(bits) or mine.bytes >= mine.room:
            mine = self._exchange(mine)
            done += mine.deal(bits[done:])
        self._own.dealt = mine

    def _deal_few(self) -> None:
        for score in self._few:
            self._deal(score)
        self._few.clear()
        self._few_rows = 0

    def _empty(self, kind: np.dtype) -> BlockedScores:
        """Room for the calling thread: half of all room is shared by those that threads fill."""
        with self._lock:
            room = max(1, self.ROOM // (2 * self._threads))
            mine = self._spare.pop() if self._spare else BlockedScores(kind, room)
            self._dealt.append(mine)
            return mine

    def _exchange(self, full: BlockedScores) -> BlockedScores:
        """Take in what a thread has filled; count all that is full where it is much."""
        with self._lock:
            self._dealt.remove(full)
            self._full.append(full)
            # Merging rewrites lists of distinct codes: as many bytes must come in as are listed.
            if sum(part.bytes for part in self._full) >= max(self.ROOM, self._listed_bytes):
                self._count_rows(self._full)
                self._count_positives()
                self._spare += self._full
                self._full.clear()
            return self._empty(full.kind)

    def merge(self, other: PooledScores) -> None:
        """Add another state, which is used up; the order of merging does not matter."""
        other._count()
        with self._lock:
            for mine, theirs in (
                (self._counted, other._counted),
                (self._counted_positive, other._counted_positive),
            ):
                for bucket, (codes, counts) in theirs.items():
                    if codes is None:
                        codes = np.flatnonzero(counts).astype(np.uint32)
                        counts = counts[codes]
                        codes |= np.uint32(bucket << LOWER_BITS[4])
                    mine[bucket] = merged(mine.get(bucket), codes, counts)
            self._table = self._steps = self._area = None

    def saved(self) -> Arrays:
        """The distinct scores with their rows, as `ScoreTable.saved` writes them."""
        return self.table().saved()

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        codes, positives, others = ScoreTable.counts_in(parts)
        state = cls()
        _add_counts(state._counted, codes, positives + others)
        held = positives > 0
        _add_counts(state._counted_positive, codes[held], positives[held])
        return state

    def _count(self) -> None:
        """Replace all rows held by the number of rows of each distinct score."""
        self._deal_few()
        self._count_rows(self._full + self._dealt)
        self._count_positives()

    def _count_positives(self) -> None:
        if not self._positive:
            return
        _add_counts(self._counted_positive, *distinct_codes(np.concatenate(self._positive)))
        self._positive.clear()

    def _count_rows(self, dealt: list[BlockedScores]) -> None:
        if not dealt:
            return
        buckets = ScoreBlocks(dealt)
        wanted = np.flatnonzero(buckets.rows).tolist()

        def counted(bucket: int) -> Counted:
            return with_rows(self._counted.get(bucket), buckets.codes(bucket))

        # In threads of its own: those that deal wait for this, or soon will.
        with ThreadPoolExecutor(self._threads, thread_name_prefix="fastrank-count") as pool:
            for bucket, done in zip(wanted, pool.map(counted, wanted), strict=True):
                self._counted[bucket] = done
        for part in dealt:
            part.clear()
        listed = (codes for codes, _ in self._counted.values() if codes is not None)
        self._listed_bytes = sum(codes.nbytes for codes in listed)

    def auc(self, max_fpr: float | None = None, in_order: InOrder = map) -> float:
        """The area under the ROC curve; NaN if either class is missing.

        Parameters
        ----------
        max_fpr : float or None
            In ]0, 1[: McClish's standardised area up to this false positive rate.
        in_order : callable
            Maps a function over jobs, in threads.
        """
        with self._lock:
            if max_fpr is not None and max_fpr < 1:
                return area_under(*self.steps(in_order).runs(), max_fpr)
            if self._area is None:
                known = self._steps
                self._area = self._whole_area(in_order) if known is None else area_of(known)
            return self._area

    def _whole_area(self, in_order: InOrder) -> float:
        buckets, find = self._finding()

        def won_inside(bucket: int) -> tuple[int, int, int]:
            found = find(bucket)
            twice = found.below + found.through
            return products(found.number, twice), int(found.number.sum()), found.rows

        won, rows, total = 0, 0, 0
        for twice, positives, here in in_order(won_inside, buckets):
            # Rows of lower buckets are below all of a bucket's.
            won += twice + 2 * positives * rows
            total += positives
            rows += here
        return area_from_pairs(won, rows, total)

    def steps(self, in_order: InOrder = map) -> RocSteps:
        """Where positives stand among the others, which takes little longer than `auc`.

        Parameters
        ----------
        in_order : callable
            Maps a function over jobs, in threads.
        """
        with self._lock:
            if self._steps is None:
                buckets, find = self._finding()
                lower, parts = 0, []
                for found in in_order(find, buckets):
                    below, through = found.below + lower, found.through + lower
                    parts.append((found.codes, found.number, below, through))
                    lower += found.rows
                self._steps = RocSteps.of_places(parts, lower) if parts else RocSteps.empty()
            return self._steps

    def missing(self, in_order: InOrder = map) -> str | None:
        """Why no measure that needs both classes is defined, or None."""
        steps = self.steps(in_order)
        return None if steps.positive and steps.other else "single_class"

    def table(self, in_order: InOrder = map) -> ScoreTable:
        """Every distinct score with the number of its positives and of its others.

        Parameters
        ----------
        in_order : callable
            Maps a function over jobs, in threads.
        """
        with self._lock:
            if self._table is None:
                self._table = self._tabulated(in_order)
            return self._table

    def _tabulated(self, in_order: InOrder) -> ScoreTable:
        if not (self._dealt or self._full or self._counted):
            if not self._few:
                return ScoreTable.empty()
            codes, rows = distinct_codes(sortable_codes(np.concatenate(self._few)))
            found, number = distinct_codes(np.concatenate(self._positive))
            positives = np.zeros(len(codes), np.int64)
            positives[np.searchsorted(codes, found)] = number
            return ScoreTable.of(codes[::-1], positives[::-1], (rows - positives)[::-1])
        self._count()
        parts = list(in_order(self._lines, sorted(self._counted, reverse=True)))
        codes, positives, others = (np.concatenate(part) for part in zip(*parts, strict=True))
        return ScoreTable.of(codes, positives, others)

    def _finding(self) -> tuple[list[int], Callable[[int], Found]]:
        """Buckets in ascending order, and what finds the positives of one among its rows."""
        if self._dealt or self._full:
            # First of all: it may fill the room, so that rows are counted.
            self._deal_few()
        if self._counted:
            self._count()
            return sorted(self._counted), self._found_counted
        if self._dealt or self._full:
            return self._finding_dealt()
        if not self._few:
            return [], self._found_counted
        every = np.sort(sortable_codes(np.concatenate(self._few)))
        codes, number = distinct_codes(np.concatenate(self._positive))
        return [0], lambda _: Found(codes, number, *located(every, codes), len(every))

    def _finding_dealt(self) -> tuple[list[int], Callable[[int], Found]]:
        positive = np.sort(np.concatenate(self._positive))
        lower_bits = LOWER_BITS[positive.dtype.itemsize]
        buckets = ScoreBlocks(self._full + self._dealt)
        edges = np.arange(len(buckets.rows), dtype=positive.dtype) << lower_bits
        first = [*np.searchsorted(positive, edges).tolist(), len(positive)]
        lower = [0, *np.cumsum(buckets.rows).tolist()]
        wanted = [b for b in range(len(buckets.rows)) if first[b] < first[b + 1]]
        if not wanted:
            none = np.empty(0, np.int64)
            return [0], lambda _: Found(positive, none, none, none, lower[-1])
        # Rows of buckets without positives go with the next bucket that has some, or the last.
        starts = dict(zip(wanted, [0, *(lower[b + 1] for b in wanted[:-1])], strict=False))

        def find(bucket: int) -> Found:
            codes, number = distinct_sorted(positive[first[bucket] : first[bucket + 1]])
            below, through = located_in_bucket(buckets.codes(bucket), frozen(codes), lower_bits)
            start = starts[bucket]
            end = lower[-1] if bucket == wanted[-1] else lower[bucket + 1]
            skipped = lower[bucket] - start
            return Found(codes, number, below + skipped, through + skipped, end - start)

        return wanted, find

    def _found_counted(self, bucket: int) -> Found:
        every, counts = self._counted[bucket]
        codes = np.empty(0, self._code_type())
        at, number = np.empty(0, np.int64), np.empty(0, np.int64)
        if bucket in self._counted_positive:
            codes, at, number = self._positive_places(bucket)
        # The last place of all besides: up to it are all rows.
        places = np.append(at, len(counts) - 1)
        if every is None and counts.dtype == np.uint8:
            below, through = located_in_table(counts, places)
        else:
            before = scratch("rows before", len(counts) + 1)
            before[0] = 0
            np.cumsum(counts, dtype=np.int64, out=before[1:])
            below, through = before[places], before[places + 1]
        return Found(codes, number, below[:-1], through[:-1], int(through[-1]))

    def _code_type(self) -> np.dtype:
        """Of the codes that have been counted; only 32-bit ones are held without a list."""
        return next(
            (codes.dtype for codes, _ in self._counted.values() if codes is not None),
            np.dtype(np.uint32),
        )

    def _positive_places(self, bucket: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Distinct codes of positives, where each stands among all of the bucket, their number."""
        codes, counts = self._counted_positive[bucket]
        every = self._counted[bucket][0]
        if codes is None:
            held = np.flatnonzero(counts)
            counts = counts[held]
            codes = held.astype(np.uint32) | np.uint32(bucket << LOWER_BITS[4])
        number = counts.astype(np.int64)
        if every is not None:
            return codes, np.searchsorted(every, codes), number
        return codes, (codes & np.uint32((1 << LOWER_BITS[4]) - 1)).astype(np.int64), number

    def _lines(self, bucket: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes of a bucket with their positives and others, from the highest code down."""
        codes, rows = self._counted[bucket]
        positives = np.zeros(len(rows), np.int64)
        if bucket in self._counted_positive:
            _, at, number = self._positive_places(bucket)
            positives[at] = number
        if codes is None:
            # A table holds codes without rows too, a list does not.
            held = np.flatnonzero(rows)
            codes = held.astype(np.uint32) | np.uint32(bucket << LOWER_BITS[4])
            rows, positives = rows[held], positives[held]
        return codes[::-1], positives[::-1], (rows - positives)[::-1]


def _add_counts(counted: dict[int, Counted], codes: np.ndarray, counts: np.ndarray) -> None:
    """Add rows of distinct codes, ascending, to their buckets."""
    of = codes >> codes.dtype.type(LOWER_BITS[codes.dtype.itemsize])
    edges = [0, *(np.flatnonzero(of[1:] != of[:-1]) + 1).tolist(), len(codes)]
    for lo, hi in pairwise(edges):
        if lo < hi:
            bucket = int(of[lo])
            counted[bucket] = merged(counted.get(bucket), codes[lo:hi].copy(), counts[lo:hi])
