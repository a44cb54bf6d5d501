"""The rows of a bucket of scores, counted: by distinct code, or in a table of all it can hold."""

from __future__ import annotations

import numpy as np

from fastrank_eval.codes import distinct_codes
from fastrank_eval.dealt import LOWER_BITS
from fastrank_eval.kernel import kernel
from fastrank_eval.pooled_places import table_of

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
