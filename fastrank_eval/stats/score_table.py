"""Turn counts at distinct scores into areas, ranks and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays, delta_decode, delta_encode, narrow
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel, scratch
from fastrank_eval.stats.score_blocks import LOWER_BITS

__all__ = ["area_from_pairs", "area_of", "products"]


def sortable_bits(score: np.ndarray) -> np.ndarray:
    """The bits of scores as unsigned integers, read-only."""
    return frozen(np.ascontiguousarray(score).view(f"u{score.dtype.itemsize}"))


def sortable_codes(score: np.ndarray) -> np.ndarray:
    """Unsigned integers of the same order and the same ties as the scores."""
    # Adding 0.0 makes 0.0 of -0.0, which equals it in all but the bits.
    bits = sortable_bits(score + score.dtype.type(0))
    sign = bits.dtype.type(1 << (8 * bits.itemsize - 1))
    return np.where(bits & sign, ~bits, bits | sign)


def scores_of(codes: np.ndarray) -> np.ndarray:
    """The scores that codes stand for, float32 or float64."""
    sign = codes.dtype.type(1 << (8 * codes.itemsize - 1))
    return np.where(codes & sign, codes ^ sign, ~codes).view(f"f{codes.itemsize}")


def distinct_codes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ascending distinct codes, and how often each is there (np.unique hashes: 360 ns a row)."""
    return distinct_sorted(np.sort(codes))


def distinct_sorted(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct codes of ascending ones, and how often each is there."""
    fresh = np.empty(len(codes), np.bool_)
    fresh[:1] = True
    np.not_equal(codes[1:], codes[:-1], out=fresh[1:])
    firsts = np.flatnonzero(fresh)
    return codes[firsts], np.diff(firsts, append=len(codes))


def area_of(steps: RocSteps) -> float:
    """The area that `area_from_pairs` finds, from the same whole numbers."""
    above = np.cumsum(steps.between)[:-1] + np.cumsum(steps.others)
    others = int(steps.between.sum() + steps.others.sum())
    won_twice = products(steps.positives, 2 * (others - above) + steps.others)
    pairs = int(steps.positives.sum()) * others
    return won_twice / (2 * pairs) if pairs else float("nan")


def products(number: np.ndarray, rows: np.ndarray) -> int:
    """The exact sum of products of counts below 2**48."""
    if int(number.sum()) * int(rows.max(initial=0)) < 1 << 63:
        return int(np.dot(number, rows))
    return sum(int(np.sum(number * (rows >> s & 0xFFFF))) << s for s in (0, 16, 32))


def area_from_pairs(won_twice: int, rows: int, positives: int) -> float:
    """AUC from twice the rows each positive stands above, tied rows (itself too) counted once."""
    pairs = positives * (rows - positives)
    # Against the positives among the rows, half of all pairs are won.
    return (won_twice - positives * positives) / (2 * pairs) if pairs else float("nan")


#: Rows that should share a place when a bucket is dealt once more, and the most bits to do so by.
_NEAR_ROWS, _MOST_BITS = 64, 13
#: Rows of a bucket of 32-bit codes that are worth a table; fewer are sorted.
_TABLE_ROWS = 1 << 14


def located_in_bucket(
    codes: np.ndarray, positive: np.ndarray, lower_bits: int
) -> tuple[np.ndarray, np.ndarray]:
    """For each positive, the rows of its bucket with a lower code, and with one as high."""
    if len(codes) < _TABLE_ROWS:
        return located(np.sort(codes), positive)
    table = table_of(codes)
    if table is not None:
        return located_in_table(table, positive)
    below, through = np.empty((2, len(positive)), np.int64)
    bits = min((len(codes) // _NEAR_ROWS).bit_length(), _MOST_BITS)
    bounds = np.zeros((1 << bits) + 1, np.int64)
    dealt = scratch("dealt codes", len(codes), codes.dtype)
    if _compare_in_bucket(
        frozen(codes.view()), positive, lower_bits - bits, bounds, dealt, below, through
    ):
        return below, through
    return located(np.sort(codes), positive)


def located_in_table(table: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each positive, ascending, the rows of lower codes in a table of bytes, and up to it."""
    below, through = np.empty((2, len(positive)), np.int64)
    _locate_in_table(table.view(np.uint64), frozen(positive.astype(np.uint32)), below, through)
    return below, through


def table_of(codes: np.ndarray) -> np.ndarray | None:
    """Rows of each 32-bit code of a bucket, a byte each, in scratch.

    None if the rows are too few for it, or a byte is too small.
    """
    if codes.dtype != np.uint32 or len(codes) < _TABLE_ROWS:
        return None
    table = scratch("rows of each code", 1 << LOWER_BITS[4], np.uint8)
    table[:] = 0
    return table if _count_codes(frozen(codes.view()), table) else None


@kernel
def _count_codes(codes, table):  # type: ignore[no-untyped-def]
    """Count the rows of each code by its lower part; False as soon as one has 256."""
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
def _locate_in_table(words, positive, below, through):  # type: ignore[no-untyped-def]
    """Sums of the bytes below each ascending positive's place, and up to it, eight a word."""
    mask = np.uint64(8 * words.shape[0] - 1)
    total = 0
    done = np.int64(0)
    for p in range(positive.shape[0]):
        place = np.uint64(positive[p]) & mask
        word = np.int64(place >> np.uint64(3))
        between = words[done:word]
        for w in range(between.shape[0]):
            total += _sum_bytes(between[w])
        done = word
        bit = (place & np.uint64(7)) << np.uint64(3)
        below[p] = total + _sum_bytes(words[word] & ((np.uint64(1) << bit) - np.uint64(1)))
        through[p] = below[p] + np.int64((words[word] >> bit) & np.uint64(0xFF))


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


def located(codes: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each positive, the sorted codes below it, and up to it; both lists ascend."""
    return np.searchsorted(codes, positive), np.searchsorted(codes, positive, side="right")


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Distinct scores, highest first, and the positive and other rows that have them.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (scores,), read-only
        Strictly descending.
    positives, others : ndarray, shape (scores,), read-only
        int64 counts of rows, or float64 sums of their weights times `scale`.
    scale : float
        A power of two, which lets no sum of weights overflow; 1 without weights.
    """

    score: np.ndarray
    positives: np.ndarray
    others: np.ndarray
    scale: float = 1.0

    @classmethod
    def empty(cls) -> Self:
        """A table of no score."""
        none = frozen(np.empty(0, np.int64))
        return cls(frozen(np.empty(0)), none, none)

    @classmethod
    def of(
        cls, codes: np.ndarray, positives: np.ndarray, others: np.ndarray, scale: float = 1.0
    ) -> Self:
        """From the codes of the scores."""
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
        """Why no measure that needs both classes is defined, or None."""
        if self.positive > 0 and self.other > 0:
            return None
        weighs = self.positive > 0 or self.other > 0
        return "single_class" if weighs or not len(self.score) else "zero_weight"

    def saved(self) -> Arrays:
        """Counts of rows: ``codes`` of the scores, ascending, ``positives`` and ``others``.

        Codes are the scores' bits as unsigned integers of the same order (all bits flipped where
        the sign is set, else the sign), in the steps of `array_codes.delta_encode`.
        """
        return {
            "codes": delta_encode(sortable_codes(self.score[::-1])),
            "positives": narrow(self.positives[::-1]),
            "others": narrow(self.others[::-1]),
        }

    @staticmethod
    def counts_in(parts: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes, ascending, with the number of their positives and of their others."""
        positives, others = (parts[name].astype(np.int64) for name in ("positives", "others"))
        codes = delta_decode(parts["codes"])
        if not codes.shape == positives.shape == others.shape or (codes[1:] <= codes[:-1]).any():
            raise ValueError("codes do not ascend, or are not as many as their counts")
        if min(positives.min(initial=0), others.min(initial=0)) < 0:
            raise ValueError("counts of scores are below 0")
        return codes, positives, others


@dataclass(frozen=True, slots=True)
class RocSteps:
    """Distinct scores of positives, highest first, with the others at them and between them.

    It is what a `ScoreTable` says once the others between two scores of positives are added up;
    at click rates of a few per cent it is shorter by far.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (scores,), read-only
        Strictly descending.
    positives, others : ndarray, shape (scores,), read-only
        Rows that have the score: int64 counts, or float64 sums of their weights times `scale`.
    between : ndarray, shape (scores + 1,), read-only
        Others of a score below the one before and above this one; at last, those below all.
    scale : float
        As in a `ScoreTable`.
    """

    score: np.ndarray
    positives: np.ndarray
    others: np.ndarray
    between: np.ndarray
    scale: float = 1.0

    @classmethod
    def empty(cls) -> Self:
        """No score at all."""
        none = frozen(np.empty(0, np.int64))
        return cls(frozen(np.empty(0)), none, none, frozen(np.zeros(1, np.int64)))

    @classmethod
    def of(
        cls,
        codes: np.ndarray,
        positives: np.ndarray,
        others: np.ndarray,
        between: np.ndarray,
    ) -> Self:
        """From the codes of the scores."""
        score, positives, others, between = (
            frozen(np.ascontiguousarray(column))
            for column in (scores_of(codes), positives, others, between)
        )
        return cls(score, positives, others, between)

    @classmethod
    def of_places(cls, parts: Sequence[tuple[np.ndarray, ...]], rows: int) -> Self:
        """From ascending positives, their number, and the rows below them and up to them.

        Parameters
        ----------
        parts : sequence of tuple of ndarray
            Distinct codes of positives with these numbers, a part after another.
        rows : int
            All rows.
        """
        codes, number, below, through = (np.concatenate(part) for part in zip(*parts, strict=True))
        before = np.cumsum(number) - number
        lower = below - before
        tied = through - below - number
        edges = np.concatenate([[0], lower + tied])
        between = np.append(lower, rows - number.sum()) - edges
        return cls.of(codes[::-1], number[::-1], tied[::-1], between[::-1])

    @classmethod
    def of_table(cls, table: ScoreTable) -> Self:
        """From every distinct score."""
        at = np.flatnonzero(table.positives)
        between = np.zeros(len(at) + 1, table.others.dtype)
        _add_between(table.others, frozen(at), between)
        score, positives, others = (
            frozen(column[at]) for column in (table.score, table.positives, table.others)
        )
        return cls(score, positives, others, frozen(between), table.scale)

    @property
    def positive(self) -> float:
        """All positives: their number, or their weight times `scale`."""
        return float(self.positives.sum())

    @property
    def other(self) -> float:
        """All others: their number, or their weight times `scale`."""
        return float(self.others.sum() + self.between.sum())

    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Others and positives of each run of rows, from the highest score down.

        Returns
        -------
        others, positives : ndarray of float64, shape (2 * scores + 1,)
            By turns those between two scores and those at one.
        """
        others, positives = np.zeros((2, 2 * len(self.score) + 1))
        others[0::2] = self.between
        others[1::2] = self.others
        positives[1::2] = self.positives
        return frozen(others), frozen(positives)


@kernel
def _add_between(others, at, between):  # type: ignore[no-untyped-def]
    """Add up the others that stand between positives, from the highest score down."""
    k = 0
    for i in range(others.shape[0]):
        if k < at.shape[0] and at[k] == i:
            k += 1
        else:
            between[k] += others[i]
