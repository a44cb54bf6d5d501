"""Sort rows of groups in a deterministic order.

The order is independent of the input order.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch


@kernel
def sum_weights_of_negatives(  # type: ignore[no-untyped-def]
    starts, score, marks, weight, scratch, offsets, above, tied, total
):
    """Sum the weights of label-0 rows above and inside each labelled row's block.

    The weights of a block are added smallest first, so the sum does not depend on the row order.
    """
    for g in range(starts.shape[0] - 1):
        e = offsets[g]
        i = starts[g]
        end = starts[g + 1]
        zeros_above = 0.0
        while i < end:
            first = e
            zeros = 0
            j = i
            while j < end and score[j] == score[i]:
                if marks[j] != 0:
                    e += 1
                else:
                    scratch[zeros] = weight[j]
                    zeros += 1
                j += 1
            _sort(scratch, scratch[:0], zeros)
            block = 0.0
            for k in range(zeros):
                block += scratch[k]
            for k in range(first, e):
                above[k] = zeros_above
                tied[k] = block
            zeros_above += block
            i = j
        total[g] = zeros_above


@kernel
def sum_cell_weights(starts, groups, cell, weight, scratch, out):  # type: ignore[no-untyped-def]
    """Sum the row weights of each group and cell.

    Weights are added smallest first, so the sum does not depend on the row order.
    """
    for g in range(groups.shape[0]):
        for c in range(out.shape[0]):
            count = 0
            for i in range(starts[groups[g]], starts[groups[g] + 1]):
                if cell[i] == c:
                    scratch[count] = weight[i]
                    count += 1
            _sort(scratch, scratch[:0], count)
            total = 0.0
            for k in range(count):
                total += scratch[k]
            out[c, g] = total


@kernel
def sort_groups_descending(offsets, values):  # type: ignore[no-untyped-def]
    """Sort the values of each group in place, largest first."""
    for g in range(offsets.shape[0] - 1):
        lo = offsets[g]
        hi = offsets[g + 1]
        sorted_already = True
        for e in range(lo + 1, hi):
            if values[e] > values[e - 1]:
                sorted_already = False
                break
        if not sorted_already:
            _sort_descending(values[lo:hi], values[:0])


@kernel
def sort_blocks(offsets, above, grade, weight):  # type: ignore[no-untyped-def]
    """Sort the labelled rows of each block by grade, then weight, descending."""
    for g in range(offsets.shape[0] - 1):
        lo = offsets[g]
        while lo < offsets[g + 1]:
            hi = lo + 1
            sorted_already = True
            while hi < offsets[g + 1] and above[hi] == above[lo]:
                if _comes_later(grade, weight, hi, hi - 1):
                    sorted_already = False
                hi += 1
            if not sorted_already:
                _sort_descending(grade[lo:hi], weight[lo:hi])
            lo = hi


@kernel
def _sort_descending(first, second):  # type: ignore[no-untyped-def]
    """Sort pairs, largest first; `second` may be empty."""
    _sort(first, second, first.shape[0])
    for k in range(first.shape[0] // 2):
        _swap(first, second, k, first.shape[0] - 1 - k)


@kernel
def _sort(first, second, n):  # type: ignore[no-untyped-def]
    """Sort the first `n` pairs by heap sort, smallest first.

    `second` may be empty.
    """
    for step in range(n // 2 + n - 1):
        if step < n // 2:
            root = n // 2 - 1 - step
            end = n
        else:
            end = n - 1 - (step - n // 2)
            _swap(first, second, 0, end)
            root = 0
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and _comes_later(first, second, child + 1, child):
                child += 1
            if not _comes_later(first, second, child, root):
                break
            _swap(first, second, root, child)
            root = child


@kernel
def _comes_later(first, second, a, b):  # type: ignore[no-untyped-def]
    """Return whether pair `a` is larger than pair `b`."""
    if first[a] != first[b]:
        return first[a] > first[b]
    return second.shape[0] > 0 and second[a] > second[b]


@kernel
def _swap(first, second, a, b):  # type: ignore[no-untyped-def]
    first[a], first[b] = first[b], first[a]
    if second.shape[0] > 0:
        second[a], second[b] = second[b], second[a]


#: Bits of a packed key for the group and the row together.
_GROUP_AND_ROW_BITS = 32


def first_rise(score: np.ndarray, starts: np.ndarray) -> int:
    """Find the first row whose score rises in its group: there is one.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,)
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    """
    rises = score[1:] > score[:-1]
    rises[starts[(starts > 0) & (starts < len(score))] - 1] = False
    return int(np.argmax(rises)) + 1


def order_by_score(score: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sort rows by score, descending, inside their groups.

    Rows of equal score stay in row order.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,)
        No NaN; -0.0 equals 0.0. No score is rounded.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.

    Returns
    -------
    ndarray of int32 or int64, shape (rows,)
        Row number at each position.
    """
    rows = len(score)
    order = np.empty(rows, np.int32 if rows < 1 << 31 else np.int64)
    row_bits = max(1, (rows - 1).bit_length())
    if row_bits > _GROUP_AND_ROW_BITS:
        # A packed key has no room for the row.
        for lo, hi in pairwise(starts.tolist()):
            order[lo:hi] = lo + np.argsort(-score[lo:hi], kind="stable")
    else:
        packed_keys = np.empty(rows, np.uint64)
        max_groups = 1 << (_GROUP_AND_ROW_BITS - row_bits)
        is_double = score.dtype == np.float64
        bits = frozen(score.view(np.uint64 if is_double else np.uint32))
        top = 8 * bits.itemsize - 1
        sign, rest = bits.dtype.type(1 << top), bits.dtype.type((1 << top) - 1)
        for first in range(0, len(starts) - 1, max_groups):
            part_starts = starts[first : first + max_groups + 1]
            lo, hi = int(part_starts[0]), int(part_starts[-1])
            _pack(bits, sign, rest, top - 31, part_starts, row_bits, packed_keys)
            packed_keys[lo:hi].sort()
            if is_double:
                codes = scratch("codes of a run", rows, np.uint64)
                _sort_equal_prefixes(bits, sign, rest, packed_keys, lo, hi, row_bits, codes)
        _unpack(packed_keys, row_bits, order)
    return order


@kernel
def descending_code(bits, sign, rest):  # type: ignore[no-untyped-def]
    """Encode the bits of a score as an integer of the opposite order.

    `sign` has the bit of the sign, `rest` all other bits, in the type of `bits`.
    """
    if bits & sign:
        return rest if bits == sign else bits
    return bits ^ rest


@kernel
def _pack(bits, sign, rest, down, starts, row_bits, packed_keys):  # type: ignore[no-untyped-def]
    """Pack group, upper 32 bits of the code of the score, and row."""
    shift = np.uint64(row_bits)
    for g in range(starts.shape[0] - 1):
        group = np.uint64(g) << (shift + np.uint64(32))
        for i in range(starts[g], starts[g + 1]):
            code = np.uint64(descending_code(bits[i], sign, rest)) >> np.uint64(down)
            packed_keys[i] = group | (code << shift) | np.uint64(i)


@kernel
def _unpack(packed_keys, row_bits, order):  # type: ignore[no-untyped-def]
    mask = (np.uint64(1) << np.uint64(row_bits)) - np.uint64(1)
    for i in range(packed_keys.shape[0]):
        order[i] = packed_keys[i] & mask


@kernel
def _sort_equal_prefixes(  # type: ignore[no-untyped-def]
    bits, sign, rest, packed_keys, lo, hi, row_bits, codes
):
    """Sort runs of equal prefixes by full score, then by row.

    A run is of one group and one upper half of the score. It can be as long as a group.
    """
    shift = np.uint64(row_bits)
    mask = (np.uint64(1) << shift) - np.uint64(1)
    i = lo
    while i < hi:
        block = packed_keys[i] >> shift
        j = i + 1
        sorted_already = True
        while j < hi and packed_keys[j] >> shift == block:
            if j == i + 1:
                codes[0] = descending_code(bits[packed_keys[i] & mask], sign, rest)
            codes[j - i] = descending_code(bits[packed_keys[j] & mask], sign, rest)
            if codes[j - i] < codes[j - i - 1]:
                sorted_already = False
            j += 1
        if not sorted_already:
            _sort(codes, packed_keys[i:j], j - i)
        i = j
