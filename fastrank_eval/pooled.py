"""Pooled AUC's state: every score, in order-preserving integers, dealt to buckets.

AUC over all rows needs, for each positive, how many rows have a lower and how many an equal score.
Rows are dealt to buckets by the upper bits of their score. At the end, a bucket of 32-bit scores is
counted in a table of one byte for each score it can hold, which fits the cache; one of 64-bit
scores, or with a score of more than 255 rows, is dealt once more and its few positives are compared
with the few rows that share their upper bits. Few rows, all or of a bucket, are sorted. When many
rows have come in, the rows of each distinct score are counted: from then on memory grows with the
number of distinct scores, and for float32 no further than a byte or two for each possible score.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from fastrank_eval.codes import bits_of, codes_of, distinct_codes
from fastrank_eval.columns import frozen
from fastrank_eval.dealt import LOWER_BITS, DealtCodes
from fastrank_eval.kernel import kernel
from fastrank_eval.pooled_places import located, located_in_bucket, located_in_table, table_of
from fastrank_eval.pooled_weights import InOrder, area_under
from fastrank_eval.score_table import ScoreTable
from fastrank_eval.scratch import scratch

#: Distinct codes, ascending, with the number of rows of each; or no codes, and a number for each
#: code that the bucket can hold.
Counted = tuple[np.ndarray | None, np.ndarray]


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
        self._dealt: list[DealtCodes] = []
        self._full: list[DealtCodes] = []
        self._spare: list[DealtCodes] = []
        self._listed_bytes = 0
        self._few: list[np.ndarray] = []
        self._few_rows = 0
        self._positive: list[np.ndarray] = []
        self._counted: dict[int, Counted] = {}
        self._counted_positive: dict[int, Counted] = {}
        self._table: ScoreTable | None = None

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
        positives = codes_of(score[positive])
        if score.min() <= 0:
            # -0.0 equals 0.0, but its bits do not.
            score = score + score.dtype.type(0)
        if not self._keep(score):
            self._deal(score)
        with self._lock:
            self._positive.append(positives)
            self._table = None

    def _keep(self, score: np.ndarray) -> bool:
        """Keep the rows as they are while there are few, and no loop need be compiled."""
        with self._lock:
            if self._dealt or self._full or self._few_rows + len(score) > self.FEW:
                return False
            self._few.append(score.copy())
            self._few_rows += len(score)
            return True

    def _deal(self, score: np.ndarray) -> None:
        bits = bits_of(score)
        mine: DealtCodes | None = getattr(self._own, "dealt", None)
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

    def _empty(self, kind: np.dtype) -> DealtCodes:
        """Room for the calling thread: half of all room is shared by those that threads fill."""
        with self._lock:
            room = max(1, self.ROOM // (2 * self._threads))
            mine = self._spare.pop() if self._spare else DealtCodes(kind, room)
            self._dealt.append(mine)
            return mine

    def _exchange(self, full: DealtCodes) -> DealtCodes:
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
                    mine[bucket] = _merged(mine.get(bucket), codes, counts)
            self._table = None

    def _count(self) -> None:
        """Replace all rows held by the number of rows of each distinct score."""
        self._deal_few()
        self._count_rows(self._full + self._dealt)
        self._count_positives()

    def _count_positives(self) -> None:
        if not self._positive:
            return
        codes, counts = distinct_codes(np.concatenate(self._positive))
        of = codes >> codes.dtype.type(LOWER_BITS[codes.dtype.itemsize])
        edges = [0, *(np.flatnonzero(of[1:] != of[:-1]) + 1).tolist(), len(codes)]
        for lo, hi in pairwise(edges):
            if lo < hi:
                bucket = int(of[lo])
                self._counted_positive[bucket] = _merged(
                    self._counted_positive.get(bucket), codes[lo:hi].copy(), counts[lo:hi]
                )
        self._positive.clear()

    def _count_rows(self, dealt: list[DealtCodes]) -> None:
        if not dealt:
            return
        buckets = _Buckets(dealt)
        wanted = np.flatnonzero(buckets.rows).tolist()

        def counted(bucket: int) -> Counted:
            return _with_rows(self._counted.get(bucket), buckets.codes(bucket))

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
                table = self.table(in_order)
                others, positives = table.others, table.positives
                return area_under(others.astype(float), positives.astype(float), max_fpr)
            if self._dealt or self._full:
                # First of all: it may fill the room, so that rows are counted.
                self._deal_few()
            if self._counted:
                self._count()
                return self._counted_area(in_order)
            if not (self._dealt or self._full):
                return self._few_area()
            return self._dealt_area(in_order)

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
            codes, rows = distinct_codes(codes_of(np.concatenate(self._few)))
            found, number = distinct_codes(np.concatenate(self._positive))
            positives = np.zeros(len(codes), np.int64)
            positives[np.searchsorted(codes, found)] = number
            return ScoreTable.of(codes[::-1], positives[::-1], (rows - positives)[::-1])
        self._count()
        parts = list(in_order(self._steps, sorted(self._counted, reverse=True)))
        codes, positives, others = (np.concatenate(part) for part in zip(*parts, strict=True))
        return ScoreTable.of(codes, positives, others)

    def _few_area(self) -> float:
        if not self._few:
            return float("nan")
        codes = np.sort(codes_of(np.concatenate(self._few)))
        positive = np.concatenate(self._positive)
        below, through = located(codes, positive)
        return _from_pairs(int(below.sum() + through.sum()), len(codes), len(positive))

    def _dealt_area(self, in_order: InOrder) -> float:
        """Pairs won, bucket by bucket; rows of lower buckets are below all of a bucket's."""
        positive = np.sort(np.concatenate(self._positive))
        lower_bits = LOWER_BITS[positive.dtype.itemsize]
        buckets = _Buckets(self._full + self._dealt)
        edges = np.arange(len(buckets.rows), dtype=positive.dtype) << lower_bits
        first = [*np.searchsorted(positive, edges).tolist(), len(positive)]
        lower = [0, *np.cumsum(buckets.rows).tolist()]

        def won_twice(bucket: int) -> int:
            here = frozen(positive[first[bucket] : first[bucket + 1]])
            below, through = located_in_bucket(buckets.codes(bucket), here, lower_bits)
            return int(below.sum() + through.sum()) + 2 * len(here) * lower[bucket]

        wanted = [b for b in np.flatnonzero(buckets.rows).tolist() if first[b] < first[b + 1]]
        return _from_pairs(sum(in_order(won_twice, wanted)), lower[-1], len(positive))

    def _counted_area(self, in_order: InOrder) -> float:
        won, rows, total = 0, 0, 0
        buckets = sorted(self._counted)
        for twice, positives, others in in_order(self._won_inside, buckets):
            won += twice + 2 * positives * rows
            total += positives
            rows += others
        return _from_pairs(won, rows, total)

    def _won_inside(self, bucket: int) -> tuple[int, int, int]:
        """Twice the pairs won among the rows of a bucket, its positives, and all its rows."""
        every, counts = self._counted[bucket]
        at, number = np.empty(0, np.int64), np.empty(0, np.int64)
        if bucket in self._counted_positive:
            at, number = self._positive_places(bucket)
        # The last place of all besides: up to it are all rows.
        places = np.append(at, len(counts) - 1)
        if every is None and counts.dtype == np.uint8:
            below, through = located_in_table(counts, places)
        else:
            before = scratch("rows before", len(counts) + 1)
            before[0] = 0
            np.cumsum(counts, dtype=np.int64, out=before[1:])
            below, through = before[places], before[places + 1]
        twice = below[:-1] + through[:-1]
        won = sum(int(np.sum(number * (twice >> s & 0xFFFF))) << s for s in (0, 16, 32))
        return won, int(number.sum()), int(through[-1])

    def _positive_places(self, bucket: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the distinct positives of a bucket stand among all its codes, and their number."""
        codes, counts = self._counted_positive[bucket]
        every = self._counted[bucket][0]
        if codes is None:
            codes = np.flatnonzero(counts)
            counts = counts[codes]
            if every is not None:
                codes = codes | (bucket << LOWER_BITS[4])
        if every is not None:
            return np.searchsorted(every, codes.astype(every.dtype)), counts.astype(np.int64)
        return codes & ((1 << LOWER_BITS[4]) - 1), counts.astype(np.int64)

    def _steps(self, bucket: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes of a bucket with their positives and others, from the highest code down."""
        codes, rows = self._counted[bucket]
        positives = np.zeros(len(rows), np.int64)
        if bucket in self._counted_positive:
            at, number = self._positive_places(bucket)
            positives[at] = number
        if codes is None:
            # A table holds codes without rows too, a list does not.
            held = np.flatnonzero(rows)
            codes = held.astype(np.uint32) | np.uint32(bucket << LOWER_BITS[4])
            rows, positives = rows[held], positives[held]
        return codes[::-1], positives[::-1], (rows - positives)[::-1]


class _Buckets:
    """What several threads have dealt, as one."""

    def __init__(self, dealt: list[DealtCodes]) -> None:
        self._parts = [(part, part.chunks(), part.held()) for part in dealt]
        self.rows = np.sum([held for _, _, held in self._parts], axis=0)

    def codes(self, bucket: int) -> np.ndarray:
        """Codes of a bucket, in scratch."""
        codes = scratch("codes", int(self.rows[bucket]), self._parts[0][0].kind)
        done = 0
        for part, chunks, held in self._parts:
            here = int(held[bucket])
            part.collect(bucket, chunks, codes[done : done + here])
            done += here
        return codes


def _with_rows(mine: Counted | None, codes: np.ndarray) -> Counted:
    """Add rows of one bucket."""
    table = table_of(codes)
    if table is None:
        return _merged(mine, *distinct_codes(codes))
    if mine is None and _as_table(int(np.count_nonzero(table)), table):
        return None, table.copy()
    if mine is not None and mine[0] is None:
        numbers = _wide_enough(mine[1], mine[1], table)
        numbers += table
        return None, numbers
    held = np.flatnonzero(table)
    base = codes[0] >> LOWER_BITS[4] << LOWER_BITS[4]
    return _merged(mine, held.astype(codes.dtype) | base, table[held])


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


def _merged(mine: Counted | None, codes: np.ndarray, counts: np.ndarray) -> Counted:
    """Add distinct codes to a bucket."""
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


def _from_pairs(won_twice: int, rows: int, positives: int) -> float:
    """AUC from twice the rows each positive stands above, tied rows (itself too) counted once."""
    pairs = positives * (rows - positives)
    # Against the positives among the rows, half of all pairs are won.
    return (won_twice - positives * positives) / (2 * pairs) if pairs else float("nan")
