"""Orders that do not depend on how rows came in, so that no sum over them does."""

from __future__ import annotations

from fastrank_eval.kernel import kernel


@kernel
def weigh_zeros(  # type: ignore[no-untyped-def]
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
