"""Compute areas, ranks and ROC steps from the counts of distinct scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays, delta_decode, delta_encode, narrow
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.stats.score_blocks import LOWER_BITS


def sortable_bits(score: np.ndarray) -> np.ndarray:
    """View scores as unsigned integers with the same bits, read-only."""
    return frozen(np.ascontiguousarray(score).view(f"u{score.dtype.itemsize}"))


def sortable_codes(score: np.ndarray) -> np.ndarray:
    """Encode scores as unsigned integers with the same order and ties."""
    # Adding 0.0 turns -0.0 into 0.0, which is equal but has other bits.
    bits = sortable_bits(score + score.dtype.type(0))
    sign = bits.dtype.type(1 << (8 * bits.itemsize - 1))
    return np.where(bits & sign, ~bits, bits | sign)


def scores_of(codes: np.ndarray) -> np.ndarray:
    """Decode codes to scores, float32 or float64."""
    sign = codes.dtype.type(1 << (8 * codes.itemsize - 1))
    return np.where(codes & sign, codes ^ sign, ~codes).view(f"f{codes.itemsize}")


def distinct_codes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct codes, ascending, and the rows of each.

    np.unique hashes, which takes 360 ns a row.
    """
    return distinct_sorted(np.sort(codes))


def distinct_sorted(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct codes of ascending codes, and the rows of each."""
    is_first = np.empty(len(codes), np.bool_)
    is_first[:1] = True
    np.not_equal(codes[1:], codes[:-1], out=is_first[1:])
    firsts = np.flatnonzero(is_first)
    return codes[firsts], np.diff(firsts, append=len(codes))


def area_from_steps(steps: RocSteps) -> float:
    """Compute the AUC from ROC steps, as `area_from_pairs` does."""
    above = np.cumsum(steps.negatives_between)[:-1] + np.cumsum(steps.others)
    others = int(steps.negatives_between.sum() + steps.others.sum())
    won_twice = sum_of_products(steps.positives, 2 * (others - above) + steps.others)
    pairs = int(steps.positives.sum()) * others
    return won_twice / (2 * pairs) if pairs else float("nan")


def sum_of_products(number: np.ndarray, rows: np.ndarray) -> int:
    """Compute the exact sum of products of counts below 2**48."""
    if int(number.sum()) * int(rows.max(initial=0)) < 1 << 63:
        return int(np.dot(number, rows))
    return sum(int(np.sum(number * (rows >> s & 0xFFFF))) << s for s in (0, 16, 32))


def area_from_pairs(won_twice: int, rows: int, positives: int) -> float:
    """Compute the AUC from the pairs that positives win.

    Parameters
    ----------
    won_twice : int
        Twice the rows below each positive, plus the rows tied with it (itself too), summed.
    rows, positives : int
    """
    pairs = positives * (rows - positives)
    # The pairs of two positives are subtracted: half of them count as won.
    return (won_twice - positives * positives) / (2 * pairs) if pairs else float("nan")


#: Rows for each bin when a bucket is split into bins, and the most bits that choose the bin.
_BUCKET_ROWS, _MAX_BITS = 64, 13
#: Buckets of 32-bit codes with this many rows use a table; smaller ones are sorted.
_TABLE_ROWS = 1 << 14


def count_below_in_bucket(
    codes: np.ndarray, positive: np.ndarray, lower_bits: int
) -> tuple[np.ndarray, np.ndarray]:
    """Count the bucket's rows below each positive, and up to it."""
    if len(codes) < _TABLE_ROWS:
        return count_below(np.sort(codes), positive)
    table = count_table(codes)
    if table is not None:
        return count_below_in_table(table, positive)
    below, through = np.empty((2, len(positive)), np.int64)
    bits = min((len(codes) // _BUCKET_ROWS).bit_length(), _MAX_BITS)
    bounds = np.zeros((1 << bits) + 1, np.int64)
    reordered = scratch("reordered codes", len(codes), codes.dtype)
    if _count_below_in_bucket(
        frozen(codes.view()), positive, lower_bits - bits, bounds, reordered, below, through
    ):
        return below, through
    return count_below(np.sort(codes), positive)


def count_below_in_table(table: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count as `count_below_in_bucket`, from a table of bytes.

    Positives ascend.
    """
    below, through = np.empty((2, len(positive)), np.int64)
    _count_below_in_table(table.view(np.uint64), frozen(positive.astype(np.uint32)), below, through)
    return below, through


def count_table(codes: np.ndarray) -> np.ndarray | None:
    """Count the rows of each 32-bit code in bytes of scratch memory.

    Return None if the rows are too few for a table, or a count exceeds a byte.
    """
    if codes.dtype != np.uint32 or len(codes) < _TABLE_ROWS:
        return None
    table = scratch("rows of each code", 1 << LOWER_BITS[4], np.uint8)
    table[:] = 0
    return table if _count_codes(frozen(codes.view()), table) else None


@kernel
def _count_codes(codes, table):  # type: ignore[no-untyped-def]
    """Count the rows of each code; return False if a code has 256."""
    mask = np.uint32(table.shape[0] - 1)
    for i in range(codes.shape[0]):
        rows = np.int64(table[codes[i] & mask]) + 1
        if rows > 255:
            return False
        table[codes[i] & mask] = rows
    return True


@kernel
def _sum_bytes(word):  # type: ignore[no-untyped-def]
    lanes = np.uint64(0x00FF00FF00FF00FF)
    pairs = (word & lanes) + ((word >> np.uint64(8)) & lanes)
    return np.int64((pairs * np.uint64(0x0001000100010001)) >> np.uint64(48))


@kernel
def _count_below_in_table(words, positive, below, through):  # type: ignore[no-untyped-def]
    """Sum the bytes below each positive's index, and up to it.

    Positives ascend; a word has eight bytes.
    """
    mask = np.uint64(8 * words.shape[0] - 1)
    total = 0
    done = np.int64(0)
    for p in range(positive.shape[0]):
        index = np.uint64(positive[p]) & mask
        word = np.int64(index >> np.uint64(3))
        between = words[done:word]
        for w in range(between.shape[0]):
            total += _sum_bytes(between[w])
        done = word
        bit = (index & np.uint64(7)) << np.uint64(3)
        below[p] = total + _sum_bytes(words[word] & ((np.uint64(1) << bit) - np.uint64(1)))
        through[p] = below[p] + np.int64((words[word] >> bit) & np.uint64(0xFF))


@kernel
def _count_below_in_bucket(  # type: ignore[no-untyped-def]
    codes, positive, lower_bits, bounds, scratch, below, through
):
    """Split a bucket's rows into bins, then compare inside each bin.

    Return False if this would take too many comparisons.
    """
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
        index = bounds[b] - 1
        bounds[b] = index
        scratch[index] = codes[i]
    for p in range(positive.shape[0]):
        if p > 0 and positive[p] == positive[p - 1]:
            below[p] = below[p - 1]
            through[p] = through[p - 1]
            continue
        value = positive[p]
        b = (value >> shift) & mask
        # A slice: only then does the loop vectorise (1.2 ns a row, against 10).
        bin_codes = scratch[bounds[b] : bounds[b + 1]]
        lower = 0
        up_to = 0
        for i in range(bin_codes.shape[0]):
            lower += bin_codes[i] < value
            up_to += bin_codes[i] <= value
        below[p] = bounds[b] + lower
        through[p] = bounds[b] + up_to
    return True


def count_below(codes: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the codes below each positive, and up to it.

    Both arrays ascend.
    """
    return np.searchsorted(codes, positive), np.searchsorted(codes, positive, side="right")


@dataclass(frozen=True)
class ScoreTable:
    """Distinct scores, highest first, with their positives and others.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (scores,), read-only
        Strictly descending.
    positives, others : ndarray, shape (scores,), read-only
        int64 counts of rows, or float64 sums of their weights times `scale`.
    scale : float
        A power of two that prevents overflow of sums of weights; 1 without weights.
    """

    score: np.ndarray
    positives: np.ndarray
    others: np.ndarray
    scale: float = 1.0

    @classmethod
    def empty(cls) -> Self:
        """Make a table without scores."""
        none = frozen(np.empty(0, np.int64))
        return cls(frozen(np.empty(0)), none, none)

    @classmethod
    def from_codes(
        cls, codes: np.ndarray, positives: np.ndarray, others: np.ndarray, scale: float = 1.0
    ) -> Self:
        """Make a table from the codes of the scores."""
        score, positives, others = (
            frozen(np.ascontiguousarray(column)) for column in (scores_of(codes), positives, others)
        )
        return cls(score, positives, others, scale)

    @property
    def positive(self) -> float:
        """All positives: their number, or their weight times `scale`."""
        return float(self.positives.sum())

    @property
    def other(self) -> float:
        """All others: their number, or their weight times `scale`."""
        return float(self.others.sum())

    @property
    def missing(self) -> str | None:
        """The reason why measures that need both classes are undefined, or None."""
        if self.positive > 0 and self.other > 0:
            return None
        has_weight = self.positive > 0 or self.other > 0
        return "single_class" if has_weight or not len(self.score) else "zero_weight"

    def to_arrays(self) -> Arrays:
        """Write ``codes`` of the scores, ascending, ``positives`` and ``others``.

        A code has the bits of the score as an unsigned integer of the same order: all bits are
        flipped where the sign is set, otherwise the sign alone. Codes are written as differences
        (see `array_codes`).
        """
        return {
            "codes": delta_encode(sortable_codes(self.score[::-1])),
            "positives": narrow(self.positives[::-1]),
            "others": narrow(self.others[::-1]),
        }

    @staticmethod
    def counts_in(arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Read the ascending codes with their positives and others."""
        positives, others = (arrays[name].astype(np.int64) for name in ("positives", "others"))
        codes = delta_decode(arrays["codes"])
        if not codes.shape == positives.shape == others.shape or (codes[1:] <= codes[:-1]).any():
            raise ValueError("codes do not ascend, or are not as many as their counts")
        if min(positives.min(initial=0), others.min(initial=0)) < 0:
            raise ValueError("counts of scores are below 0")
        return codes, positives, others


@dataclass(frozen=True)
class RocSteps:
    """Distinct scores of positives, highest first, with negatives.

    A `ScoreTable` with the negatives between two scores of positives added up. At click rates of a
    few per cent it is far shorter.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (scores,), read-only
        Strictly descending.
    positives, others : ndarray, shape (scores,), read-only
        Rows that have the score: int64 counts, or float64 sums of their weights times `scale`.
    negatives_between : ndarray, shape (scores + 1,), read-only
        Negatives with a score above this one and below the previous one. The last entry counts
        those below all scores.
    scale : float
        As in a `ScoreTable`.
    """

    score: np.ndarray
    positives: np.ndarray
    others: np.ndarray
    negatives_between: np.ndarray
    scale: float = 1.0

    @classmethod
    def empty(cls) -> Self:
        """Make steps without scores."""
        none = frozen(np.empty(0, np.int64))
        return cls(frozen(np.empty(0)), none, none, frozen(np.zeros(1, np.int64)))

    @classmethod
    def from_codes(
        cls,
        codes: np.ndarray,
        positives: np.ndarray,
        others: np.ndarray,
        between: np.ndarray,
    ) -> Self:
        """Make steps from the codes of the scores."""
        score, positives, others, between = (
            frozen(np.ascontiguousarray(column))
            for column in (scores_of(codes), positives, others, between)
        )
        return cls(score, positives, others, between)

    @classmethod
    def from_ranks(cls, parts: Sequence[tuple[np.ndarray, ...]], rows: int) -> Self:
        """Make steps from the ranks of positives.

        Parameters
        ----------
        parts : sequence of tuple of ndarray
            By bucket, ascending: distinct codes of positives, the positives of each, and the rows
            with a lower code and with a code at most as high.
        rows : int
            All rows.
        """
        codes, number, below, through = (np.concatenate(part) for part in zip(*parts, strict=True))
        before = np.cumsum(number) - number
        lower = below - before
        tied = through - below - number
        edges = np.concatenate([[0], lower + tied])
        between = np.append(lower, rows - number.sum()) - edges
        return cls.from_codes(codes[::-1], number[::-1], tied[::-1], between[::-1])

    @classmethod
    def from_table(cls, table: ScoreTable) -> Self:
        """Make steps from the table of every distinct score."""
        index = np.flatnonzero(table.positives)
        between = np.zeros(len(index) + 1, table.others.dtype)
        _sum_between(table.others, frozen(index), between)
        score, positives, others = (
            frozen(column[index]) for column in (table.score, table.positives, table.others)
        )
        return cls(score, positives, others, frozen(between), table.scale)

    @property
    def positive(self) -> float:
        """All positives: their number, or their weight times `scale`."""
        return float(self.positives.sum())

    @property
    def other(self) -> float:
        """All others: their number, or their weight times `scale`."""
        return float(self.others.sum() + self.negatives_between.sum())

    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return others and positives of each run, highest scores first.

        Returns
        -------
        others, positives : ndarray of float64, shape (2 * scores + 1,)
            Even entries: between two scores; odd entries: at a score.
        """
        others, positives = np.zeros((2, 2 * len(self.score) + 1))
        others[0::2] = self.negatives_between
        others[1::2] = self.others
        positives[1::2] = self.positives
        return frozen(others), frozen(positives)


@kernel
def _sum_between(others, index, between):  # type: ignore[no-untyped-def]
    """Sum the others between positives, from the highest score down."""
    k = 0
    for i in range(others.shape[0]):
        if k < index.shape[0] and index[k] == i:
            k += 1
        else:
            between[k] += others[i]
