"""What becomes of rows with equal scores: the order inside a tie block, under each policy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fastrank_eval.columns import row_column
from fastrank_eval.groups import fixed_width
from fastrank_eval.kernel import kernel
from fastrank_eval.validation import as_array

TIES = ("expected", "input", "item", "best", "worst")


def item_precedence(item: pa.Array, starts: np.ndarray) -> np.ndarray:
    """Rows by group, then by item id descending (strings byte by byte), then in input order."""
    words = fixed_width(item)
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    if words is not None and words.ndim == 1:
        codes = words
    else:
        import pyarrow.compute as pc

        by_id = as_array(pc.array_sort_indices(item)).astype(np.int64)
        in_order = item.take(row_column(by_id))
        fresh = pc.not_equal(in_order.slice(1), in_order.slice(0, len(in_order) - 1))
        codes = np.empty(len(by_id), np.int64)
        codes[by_id] = np.concatenate([[0], np.cumsum(as_array(fresh), dtype=np.int64)])
    # ~ turns ascending into descending without overflow, for signed and unsigned ids alike.
    return np.lexsort((~codes, group))


def resolve_blocks(
    offsets: np.ndarray,
    block_above: np.ndarray,
    block_size: np.ndarray,
    grade: np.ndarray,
    ties: str,
    above: np.ndarray,
) -> np.ndarray | None:
    """Rank the entries of each block as favourably ("best") or unfavourably ("worst") as can be.

    Parameters
    ----------
    offsets, block_above, block_size, grade : ndarray
        As in `ranking.Ranking`, entries in canonical order.
    ties : str
        ``"best"`` or ``"worst"``.
    above : ndarray of int64, shape (entries,)
        Written: the rows that rank strictly above each entry.

    Returns
    -------
    ndarray of int64 or None
        For ``"worst"``: the entries in order of their new rank.
    """
    _resolve(offsets, block_above, block_size, grade, ties == "best", above)
    if ties == "best":
        return None
    turned = np.arange(len(grade))
    _turn_blocks(offsets, block_above, turned)
    return turned


@kernel
def _resolve(offsets, block_above, block_size, grade, best, above):  # type: ignore[no-untyped-def]
    """The rank each entry takes when ties fall best (or worst) for the ranking.

    Best: positive grades first, then the rows with label 0, then negative grades. Worst: the
    reverse.
    """
    for g in range(offsets.shape[0] - 1):
        lo = offsets[g]
        while lo < offsets[g + 1]:
            hi = lo
            while hi < offsets[g + 1] and block_above[hi] == block_above[lo]:
                hi += 1
            for e in range(lo, hi):
                place = e - lo if grade[e] > 0 else block_size[e] - (hi - e)
                if not best:
                    place = block_size[e] - 1 - place
                above[e] = block_above[e] + place
            lo = hi


@kernel
def _turn_blocks(offsets, block_above, turned):  # type: ignore[no-untyped-def]
    """Entries of each block in reverse, so that worst-case ranks ascend."""
    for g in range(offsets.shape[0] - 1):
        lo = offsets[g]
        while lo < offsets[g + 1]:
            hi = lo
            while hi < offsets[g + 1] and block_above[hi] == block_above[lo]:
                hi += 1
            for e in range(lo, hi):
                turned[e] = lo + hi - 1 - e
            lo = hi
