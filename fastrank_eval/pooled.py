"""Pooled AUC's state: every score, in order-preserving integers, dealt to buckets.

AUC over all rows needs, for each positive, how many rows have a lower and how many an equal score.
Rows are dealt to buckets by the upper bits of their score; at the end each bucket is dealt once
more and its few positives are compared with the few rows that share their upper bits. No row is
sorted. When many rows have come in, each bucket is sorted and counted: from then on memory grows
with the number of distinct scores, and for float32 no further than a byte or two for each possible
score.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel
from fastrank_eval.pooled_weights import InOrder, area_under, bits_of, codes_of
from fastrank_eval.scratch import scratch

#: Distinct codes, ascending, with the number of rows of each; or no codes, and a number for each
#: code that the bucket can hold.
Counted = tuple[np.ndarray | None, np.ndarray]

#: Bits of the lower part of a code, by its size: sign, exponent and 3 bits choose the bucket.
_LOWER_BITS = {4: 20, 8: 49}
#: Rows that should share a place when a bucket is dealt once more, and the most bits to do so by.
_NEAR_ROWS, _MOST_BITS = 64, 13
#: Codes that are made room for at a time.
_ARENA = 1 << 22


class PooledScores:
    """The scores of all rows and of the positives among them, without row weights.

    Threads may add at the same time; the order in which they do does not matter.
    """

    #: Bytes of scores held before they are counted.
    ROOM = 1 << 26

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dealt: list[tuple[np.ndarray, np.ndarray]] = []
        self._positive: list[np.ndarray] = []
        self._waiting = 0
        self._arena = np.empty(0, np.uint32)
        self._counted: dict[int, Counted] = {}
        self._counted_positive: dict[int, Counted] = {}

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
        room = self._room(score)
        bounds = _deal(score, room)
        with self._lock:
            self._dealt.append((room, bounds))
            self._positive.append(positives)
            self._waiting += room.nbytes + bounds.nbytes
            if self._waiting >= self.ROOM:
                self._count()

    def _room(self, score: np.ndarray) -> np.ndarray:
        """Room for as many codes, cut from a large array: small fresh ones cost 1.4 ns a row."""
        rows, kind = len(score), f"u{score.dtype.itemsize}"
        if rows >= _ARENA:
            return np.empty(rows, kind)
        with self._lock:
            if len(self._arena) < rows or self._arena.dtype != kind:
                self._arena = np.empty(_ARENA, kind)
            room, self._arena = self._arena[:rows], self._arena[rows:]
        return room

    def merge(self, other: PooledScores) -> None:
        """Add another state, which is used up; the order of merging does not matter."""
        with self._lock:
            self._dealt += other._dealt
            self._positive += other._positive
            self._waiting += other._waiting
            for mine, theirs in (
                (self._counted, other._counted),
                (self._counted_positive, other._counted_positive),
            ):
                for bucket, (codes, counts) in theirs.items():
                    if codes is None:
                        codes = np.flatnonzero(counts).astype(np.uint32)
                        counts = counts[codes]
                        codes |= np.uint32(bucket << _LOWER_BITS[4])
                    mine[bucket] = _merged(mine.get(bucket), codes, counts)

    def _count(self) -> None:
        """Replace the rows held by the number of rows of each distinct score."""
        if not self._dealt:
            return
        for bucket, codes in self._buckets():
            self._counted[bucket] = _merged(self._counted.get(bucket), *_distinct(codes))
        positive = np.concatenate(self._positive)
        codes, counts = _distinct(positive)
        lower_bits = _LOWER_BITS[codes.dtype.itemsize]
        of = codes >> codes.dtype.type(lower_bits)
        edges = [0, *(np.flatnonzero(of[1:] != of[:-1]) + 1).tolist(), len(codes)]
        for lo, hi in pairwise(edges):
            if lo < hi:
                bucket = int(of[lo])
                self._counted_positive[bucket] = _merged(
                    self._counted_positive.get(bucket), codes[lo:hi].copy(), counts[lo:hi]
                )
        self._dealt.clear()
        self._positive.clear()
        self._waiting = 0

    def _held(self) -> np.ndarray:
        return np.sum([np.diff(bounds) for _, bounds in self._dealt], axis=0)

    def _buckets(self) -> Iterator[tuple[int, np.ndarray]]:
        """The codes of the rows held, a bucket at a time, in ascending order of the bucket."""
        half = len(self._dealt[0][1]) // 2
        held = self._held()
        for bucket in np.flatnonzero(np.concatenate([held[: half - 1 : -1], held[:half]])).tolist():
            yield bucket, self._codes_of(bucket)

    def _codes_of(self, bucket: int) -> np.ndarray:
        """Codes of the rows held in a bucket, in scratch; raw bits of negative scores descend."""
        half = len(self._dealt[0][1]) // 2
        raw = bucket - half if bucket >= half else 2 * half - 1 - bucket
        parts = [dealt[bounds[raw] : bounds[raw + 1]] for dealt, bounds in self._dealt]
        codes = scratch("codes", sum(map(len, parts)), parts[0].dtype)
        np.concatenate(parts, out=codes)
        sign = 1 << (8 * codes.dtype.itemsize - 1)
        codes ^= codes.dtype.type(sign if bucket >= half else 2 * sign - 1)
        return codes

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
            max_fpr = None if max_fpr is None or max_fpr >= 1 else max_fpr
            if max_fpr is not None or self._counted:
                self._count()
                return self._counted_area(max_fpr)
            return self._dealt_area(in_order) if self._dealt else float("nan")

    def _dealt_area(self, in_order: InOrder) -> float:
        """Pairs won, bucket by bucket; rows of lower buckets are below all of a bucket's."""
        positive = np.sort(np.concatenate(self._positive))
        held = self._held()
        half = len(held) // 2
        held = np.concatenate([held[: half - 1 : -1], held[:half]])
        lower_bits = _LOWER_BITS[positive.dtype.itemsize]
        edges = np.arange(len(held), dtype=positive.dtype) << lower_bits
        first = [*np.searchsorted(positive, edges).tolist(), len(positive)]
        lower = [0, *np.cumsum(held).tolist()]

        def won_twice(bucket: int) -> int:
            here = frozen(positive[first[bucket] : first[bucket + 1]])
            below, through = _located_in_bucket(self._codes_of(bucket), here, lower_bits)
            return int(below.sum() + through.sum()) + 2 * len(here) * lower[bucket]

        wanted = [b for b in np.flatnonzero(held).tolist() if first[b] < first[b + 1]]
        return _from_pairs(sum(in_order(won_twice, wanted)), lower[-1], len(positive))

    def _counted_area(self, max_fpr: float | None) -> float:
        if max_fpr is not None:
            steps = [self._steps(bucket) for bucket in sorted(self._counted, reverse=True)]
            if not steps:
                return float("nan")
            others, positives = (np.concatenate(part) for part in zip(*steps, strict=True))
            return area_under(others, positives, max_fpr)
        won, rows, total = 0, 0, 0
        for bucket in sorted(self._counted):
            counts = self._counted[bucket][1].astype(np.int64)
            before = np.concatenate([[0], np.cumsum(counts)])
            if bucket in self._counted_positive:
                at, number = self._positive_places(bucket)
                twice = before[at] + before[at + 1] + 2 * rows
                won += sum(int(np.sum(number * (twice >> s & 0xFFFF))) << s for s in (0, 16, 32))
                total += int(number.sum())
            rows += int(before[-1])
        return _from_pairs(won, rows, total)

    def _positive_places(self, bucket: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the distinct positives of a bucket stand among all its codes, and their number."""
        codes, counts = self._counted_positive[bucket]
        every = self._counted[bucket][0]
        if codes is None:
            codes = np.flatnonzero(counts)
            counts = counts[codes]
            if every is not None:
                codes = codes | (bucket << _LOWER_BITS[4])
        if every is not None:
            return np.searchsorted(every, codes.astype(every.dtype)), counts.astype(np.int64)
        return codes & ((1 << _LOWER_BITS[4]) - 1), counts.astype(np.int64)

    def _steps(self, bucket: int) -> tuple[np.ndarray, np.ndarray]:
        """Others and positives of each code of a bucket, from the highest code down."""
        every = self._counted[bucket][1].astype(np.float64)
        positives = np.zeros(len(every))
        if bucket in self._counted_positive:
            at, number = self._positive_places(bucket)
            positives[at] = number
        return (every - positives)[::-1], positives[::-1]


def _deal(score: np.ndarray, dealt: np.ndarray) -> np.ndarray:
    """Write a score's bits, dealt by their upper part; the first place of each bucket."""
    lower_bits = _LOWER_BITS[dealt.dtype.itemsize]
    bounds = np.zeros((1 << (8 * dealt.dtype.itemsize - lower_bits)) + 1, np.int64)
    _deal_bits(bits_of(score), lower_bits, bounds, dealt)
    minus_zero = len(bounds) // 2
    if bounds[minus_zero] < bounds[minus_zero + 1]:
        # -0.0 equals 0.0, but its bits do not.
        bounds[:] = 0
        _deal_bits(bits_of(score + score.dtype.type(0)), lower_bits, bounds, dealt)
    return bounds


def _distinct(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    codes = np.sort(codes)
    fresh = np.empty(len(codes), np.bool_)
    fresh[:1] = True
    np.not_equal(codes[1:], codes[:-1], out=fresh[1:])
    firsts = np.flatnonzero(fresh)
    return codes[firsts], np.diff(firsts, append=len(codes))


def _merged(mine: Counted | None, codes: np.ndarray, counts: np.ndarray) -> Counted:
    """Add distinct codes to a bucket, in the smaller of the two forms."""
    held, numbers = mine if mine is not None else (codes[:0], counts[:0])
    dense = 1 << _LOWER_BITS[4]
    if held is None:
        at = codes & np.uint32(dense - 1)
        most = int(numbers[at].max(initial=0)) + int(counts.max(initial=0))
        if most > np.iinfo(numbers.dtype).max:
            numbers = numbers.astype(np.min_scalar_type(most))
        numbers[at] += counts.astype(numbers.dtype)
        return None, numbers
    if len(held):
        joined = np.empty(len(held) + len(codes), held.dtype)
        total = np.empty(len(joined), np.int64)
        size = _merge(held, numbers.astype(np.int64), codes, counts.astype(np.int64), joined, total)
        codes, counts = joined[:size].copy(), total[:size]
    counts = counts.astype(np.min_scalar_type(int(counts.max(initial=0))))
    if codes.dtype.itemsize == 4 and codes.nbytes + counts.nbytes > dense * counts.itemsize:
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


@kernel
def _deal_bits(bits, lower_bits, bounds, dealt):  # type: ignore[no-untyped-def]
    """Counting sort by the upper bits; bounds[b] becomes the first place of bucket b."""
    shift = dealt.dtype.type(lower_bits)
    for i in range(bits.shape[0]):
        bounds[bits[i] >> shift] += 1
    end = 0
    for b in range(bounds.shape[0]):
        end += bounds[b]
        bounds[b] = end
    for k in range(bits.shape[0]):
        i = bits.shape[0] - 1 - k
        place = bounds[bits[i] >> shift] - 1
        bounds[bits[i] >> shift] = place
        dealt[place] = bits[i]


def _located_in_bucket(
    codes: np.ndarray, positive: np.ndarray, lower_bits: int
) -> tuple[np.ndarray, np.ndarray]:
    """For each positive, the rows of its bucket with a lower code, and with one as high."""
    below, through = np.empty((2, len(positive)), np.int64)
    bits = min((len(codes) // _NEAR_ROWS).bit_length(), _MOST_BITS)
    bounds = np.zeros((1 << bits) + 1, np.int64)
    dealt = scratch("dealt codes", len(codes), codes.dtype)
    if _compare_in_bucket(
        frozen(codes.view()), positive, lower_bits - bits, bounds, dealt, below, through
    ):
        return below, through
    return _located(np.sort(codes), positive)


@kernel
def _compare_in_bucket(  # type: ignore[no-untyped-def]
    codes, positive, lower_bits, bounds, scratch, below, through
):
    """Deal a bucket's rows once more, then compare; False where comparing would take too long."""
    shift = codes.dtype.type(lower_bits)
    mask = codes.dtype.type(bounds.shape[0] - 2)
    for i in range(codes.shape[0]):
        bounds[(codes[i] >> shift) & mask] += 1
    work = 0
    for p in range(positive.shape[0]):
        if p == 0 or positive[p] != positive[p - 1]:
            work += bounds[(positive[p] >> shift) & mask]
    if work > 64 * codes.shape[0]:
        return False
    end = 0
    for b in range(bounds.shape[0]):
        end += bounds[b]
        bounds[b] = end
    for i in range(codes.shape[0]):
        b = (codes[i] >> shift) & mask
        place = bounds[b] - 1
        bounds[b] = place
        scratch[place] = codes[i]
    for p in range(positive.shape[0]):
        if p > 0 and positive[p] == positive[p - 1]:
            below[p] = below[p - 1]
            through[p] = through[p - 1]
            continue
        value = positive[p]
        b = (value >> shift) & mask
        # A slice, for once: only then does the loop vectorise (1.2 ns a row, against 10).
        near = scratch[bounds[b] : bounds[b + 1]]
        lower = 0
        up_to = 0
        for i in range(near.shape[0]):
            lower += near[i] < value
            up_to += near[i] <= value
        below[p] = bounds[b] + lower
        through[p] = bounds[b] + up_to
    return True


def _located(codes: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each positive, the sorted codes below it, and up to it; both lists ascend."""
    return np.searchsorted(codes, positive), np.searchsorted(codes, positive, side="right")
