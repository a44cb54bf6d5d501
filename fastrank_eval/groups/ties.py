"""What becomes of rows with equal scores: the order inside a tie block, under each policy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import as_array, fixed_width, row_column
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.sort import broken_order, order_by_score

TIES = ("expected", "input", "item", "best", "worst")


def order_by_item(
    score: np.ndarray, starts: np.ndarray, items_at: Callable[[np.ndarray], pa.Array]
) -> np.ndarray:
    """Sort rows by score, tied ones by item id, both descending, inside their groups.

    Ids are compared only where scores are equal: strings byte by byte, and equal ids stay in input
    order.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,), read-only
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    items_at : callable
        The items of some rows, a pyarrow.Array without nulls.

    Returns
    -------
    ndarray of int32 or int64, shape (rows,)
        Row number at each place.
    """
    if broken_order(score, starts, named=False) < 0:
        order, ordered = np.arange(len(score), dtype=np.int64), score
    else:
        order = order_by_score(score, starts)
        ordered = score[order]
    level = np.zeros(len(order), np.bool_)  # with the row before, in its group
    level[1:] = ordered[1:] == ordered[:-1]
    level[starts[(starts > 0) & (starts < len(order))]] = False
    tied = level.copy()
    tied[:-1] |= level[1:]
    places = np.flatnonzero(tied)
    if len(places):
        block = np.cumsum(~level[places])
        rows = order[places]
        # ~ turns ascending into descending without overflow, for signed and unsigned ids alike.
        order[places] = rows[np.lexsort((~item_codes(items_at(rows)), block))]
    return order


def item_codes(item: pa.Array) -> np.ndarray:
    """Integers of the same order as items."""
    words = fixed_width(item)
    if words is not None and words.ndim == 1:
        return words
    import pyarrow.compute as pc

    by_id = as_array(pc.array_sort_indices(item)).astype(np.int64)
    in_order = item.take(row_column(by_id))
    fresh = pc.not_equal(in_order.slice(1), in_order.slice(0, len(in_order) - 1))
    codes = np.empty(len(by_id), np.int64)
    codes[by_id] = np.concatenate([[0], np.cumsum(as_array(fresh), dtype=np.int64)])
    return codes


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
