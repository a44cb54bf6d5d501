"""Sort rows of groups in an order that no layout changes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fastrank_eval._lib.jit import kernel


@kernel
def negative_weights(  # type: ignore[no-untyped-def]
    starts, score, marked, weight, scratch, offsets, above, inside, total
):
    """Weights of label-0 rows above and inside each entry's block.

    A block's weights are added smallest first, so the sum does not depend on the rows' order.
    """
    for g in range(starts.shape[0] - 1):
        e = offsets[g]
        i = starts[g]
        end = starts[g + 1]
        so_far = 0.0
        while i < end:
            first = e
            zeros = 0
            j = i
            while j < end and score[j] == score[i]:
                if marked[j] != 0:
                    e += 1
                else:
                    scratch[zeros] = weight[j]
                    zeros += 1
                j += 1
            _sort_ascending(scratch, zeros)
            block = 0.0
            for k in range(zeros):
                block += scratch[k]
            for k in range(first, e):
                above[k] = so_far
                inside[k] = block
            so_far += block
            i = j
        total[g] = so_far


@kernel
def weigh_cells(starts, groups, cell, weight, scratch, out):  # type: ignore[no-untyped-def]
    """Weight of each group's rows in each cell, smallest first, whatever order the rows had."""
    for g in range(groups.shape[0]):
        for c in range(out.shape[0]):
            found = 0
            for i in range(starts[groups[g]], starts[groups[g] + 1]):
                if cell[i] == c:
                    scratch[found] = weight[i]
                    found += 1
            _sort_ascending(scratch, found)
            total = 0.0
            for k in range(found):
                total += scratch[k]
            out[c, g] = total


@kernel
def sort_groups_descending(offsets, values):  # type: ignore[no-untyped-def]
    """Sort the values of each group in place, largest first."""
    for g in range(offsets.shape[0] - 1):
        lo = offsets[g]
        hi = offsets[g + 1]
        falls = True
        for e in range(lo + 1, hi):
            if values[e] > values[e - 1]:
                falls = False
                break
        if not falls:
            part = values[lo:hi]
            for k in range(hi - lo):
                part[k] = -part[k]
            _sort_ascending(part, hi - lo)
            for k in range(hi - lo):
                part[k] = -part[k]


@kernel
def _sort_ascending(values, n):  # type: ignore[no-untyped-def]
    """Heap sort of the first `n` values."""
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


@kernel
def _comes_later(grade, weight, a, b):  # type: ignore[no-untyped-def]
    """Whether entry `a` stands after entry `b` in a block: lower grade, then lower weight."""
    if grade[a] != grade[b]:
        return grade[a] < grade[b]
    return weight.shape[0] > 0 and weight[a] < weight[b]


@kernel
def arrange_blocks(offsets, above, grade, weight):  # type: ignore[no-untyped-def]
    """Order the entries of each block by grade, then weight, descending."""
    for g in range(offsets.shape[0] - 1):
        lo = offsets[g]
        while lo < offsets[g + 1]:
            hi = lo + 1
            falls = True
            while hi < offsets[g + 1] and above[hi] == above[lo]:
                if _comes_later(grade, weight, hi - 1, hi):
                    falls = False
                hi += 1
            if not falls:
                n = hi - lo
                for turn in range(n // 2 + n - 1):
                    if turn < n // 2:
                        root = n // 2 - 1 - turn
                        end = n
                    else:
                        end = n - 1 - (turn - n // 2)
                        _swap(grade, weight, lo, lo + end)
                        root = 0
                    while 2 * root + 1 < end:
                        child = 2 * root + 1
                        if child + 1 < end and _comes_later(
                            grade, weight, lo + child + 1, lo + child
                        ):
                            child += 1
                        if not _comes_later(grade, weight, lo + child, lo + root):
                            break
                        _swap(grade, weight, lo + root, lo + child)
                        root = child
            lo = hi


@kernel
def _swap(grade, weight, a, b):  # type: ignore[no-untyped-def]
    grade[a], grade[b] = grade[b], grade[a]
    if weight.shape[0] > 0:
        weight[a], weight[b] = weight[b], weight[a]


#: Bits of the packed key that hold group and row together.
_NUMBER_BITS = 32
#: Groups that are looked at before all rows are.
_GLANCE = 64
_BLOCK = 1 << 12


def broken_order(score: np.ndarray, starts: np.ndarray, named: bool) -> int:
    """First row whose score rises inside its group; -1 if none does.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,), read-only
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    named : bool
        Whether the row matters; without it 0 stands for any.
    """
    if not len(score):
        return -1
    if not named:
        # Unordered rows show it at once: the first of them are looked at by themselves.
        few = min(len(starts) - 1, _GLANCE)
        if _count_rises(score[: starts[few]], starts[: few + 1]):
            return 0
    if _count_rises(score, starts) == 0:
        return -1
    if not named:
        return 0
    rises = score[1:] > score[:-1]
    edges = starts[(starts > 0) & (starts < len(score))]
    rises[edges - 1] = False
    return int(np.argmax(rises)) + 1


@kernel
def _count_rises(score, starts):  # type: ignore[no-untyped-def]
    """Rises in the whole list, in a loop that vectorises, less those at the edges of groups."""
    rises = np.int64(0)
    for lo in range(1, score.shape[0], _BLOCK):
        # Narrow counts, because twice as many of them fit a register: 0.35 ns a row, against 0.55.
        here = score[lo : lo + _BLOCK]
        before = score[lo - 1 : lo - 1 + here.shape[0]]
        count = np.uint32(0)
        for i in range(here.shape[0]):
            count = np.uint32(count + np.uint32(here[i] > before[i]))
        rises += np.int64(count)
    start = 0
    for g in range(1, starts.shape[0] - 1):
        # A group whose rows all lack a score is empty here: its edge is that of its neighbour.
        if start < starts[g] < score.shape[0]:
            rises -= score[starts[g]] > score[starts[g] - 1]
        start = starts[g]
    return rises


def order_by_score(score: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sort rows by score, descending, inside their groups; equal scores stay in row order.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,)
        No NaN; -0.0 equals 0.0. No score is rounded.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.

    Returns
    -------
    ndarray of int32 or int64, shape (rows,)
        Row number at each place.
    """
    rows = len(score)
    order = np.empty(rows, np.int32 if rows < 1 << 31 else np.int64)
    row_bits = max(1, (rows - 1).bit_length())
    if row_bits > _NUMBER_BITS:
        # A packed key has no room for the row.
        for lo, hi in pairwise(starts.tolist()):
            order[lo:hi] = lo + np.argsort(-score[lo:hi], kind="stable")
    else:
        packed = np.empty(rows, np.uint64)
        most_groups = 1 << (_NUMBER_BITS - row_bits)
        wide = score.dtype == np.float64
        bits = score.view(np.uint64 if wide else np.uint32)
        bits.flags.writeable = False
        for first in range(0, len(starts) - 1, most_groups):
            part = starts[first : first + most_groups + 1]
            lo, hi = int(part[0]), int(part[-1])
            (_pack_doubles if wide else _pack_floats)(bits, part, row_bits, packed)
            packed[lo:hi].sort()
            if wide:
                _mend_doubles(bits, packed, lo, hi, row_bits)
        _unpack(packed, row_bits, order)
    return order


@kernel
def _descending_float(bits):  # type: ignore[no-untyped-def]
    if bits & np.uint32(0x80000000):
        if bits == np.uint32(0x80000000):
            return np.uint32(0x7FFFFFFF)
        return bits
    return bits ^ np.uint32(0x7FFFFFFF)


@kernel
def _descending_double(bits):  # type: ignore[no-untyped-def]
    if bits & np.uint64(0x8000000000000000):
        if bits == np.uint64(0x8000000000000000):
            return np.uint64(0x7FFFFFFFFFFFFFFF)
        return bits
    return bits ^ np.uint64(0x7FFFFFFFFFFFFFFF)


@kernel
def _pack_floats(bits, starts, row_bits, packed):  # type: ignore[no-untyped-def]
    shift = np.uint64(row_bits)
    for g in range(starts.shape[0] - 1):
        group = np.uint64(g) << (shift + np.uint64(32))
        for i in range(starts[g], starts[g + 1]):
            code = np.uint64(_descending_float(bits[i]))
            packed[i] = group | (code << shift) | np.uint64(i)


@kernel
def _pack_doubles(bits, starts, row_bits, packed):  # type: ignore[no-untyped-def]
    shift = np.uint64(row_bits)
    for g in range(starts.shape[0] - 1):
        group = np.uint64(g) << (shift + np.uint64(32))
        for i in range(starts[g], starts[g + 1]):
            code = _descending_double(bits[i]) >> np.uint64(32)
            packed[i] = group | (code << shift) | np.uint64(i)


@kernel
def _unpack(packed, row_bits, order):  # type: ignore[no-untyped-def]
    mask = (np.uint64(1) << np.uint64(row_bits)) - np.uint64(1)
    for i in range(packed.shape[0]):
        order[i] = packed[i] & mask


@kernel
def _mend_doubles(bits, packed, lo, hi, row_bits):  # type: ignore[no-untyped-def]
    """Put runs that share group and upper half in order of the whole score, then of the row."""
    shift = np.uint64(row_bits)
    mask = (np.uint64(1) << shift) - np.uint64(1)
    i = lo
    while i < hi:
        block = packed[i] >> shift
        j = i + 1
        falls = True
        while j < hi and packed[j] >> shift == block:
            if _descending_double(bits[packed[j] & mask]) < _descending_double(
                bits[packed[j - 1] & mask]
            ):
                falls = False
            j += 1
        if not falls:
            _sort_run(bits, packed, i, j, mask)
        i = j


@kernel
def _above(bits, left, right, mask):  # type: ignore[no-untyped-def]
    a = _descending_double(bits[left & mask])
    b = _descending_double(bits[right & mask])
    return a < b or (a == b and (left & mask) < (right & mask))


@kernel
def _sort_run(bits, packed, lo, hi, mask):  # type: ignore[no-untyped-def]
    """Heap sort: runs of near-equal scores can be as long as a group."""
    n = hi - lo
    for turn in range(n // 2 + n - 1):
        if turn < n // 2:
            root, end = n // 2 - 1 - turn, n
        else:
            end = n - 1 - (turn - n // 2)
            packed[lo], packed[lo + end] = packed[lo + end], packed[lo]
            root = 0
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and _above(bits, packed[lo + child], packed[lo + child + 1], mask):
                child += 1
            if not _above(bits, packed[lo + root], packed[lo + child], mask):
                break
            packed[lo + root], packed[lo + child] = packed[lo + child], packed[lo + root]
            root = child
