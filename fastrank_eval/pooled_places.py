"""Where the positives of a bucket stand among its rows."""

from __future__ import annotations

import numpy as np

from fastrank_eval.columns import frozen
from fastrank_eval.dealt import LOWER_BITS
from fastrank_eval.kernel import kernel
from fastrank_eval.scratch import scratch

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
