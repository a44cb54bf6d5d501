"""Rank rows with equal scores under each tie policy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import fixed_width, frozen, text_buffers, uint64_windows
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.sort import order_by_score
from fastrank_eval.io.keys import word_at

#: Odd factor of hashes.
_MIX = 0xD6E8FEB86659FD93

TIES = ("expected", "input", "item", "best", "worst")


def order_by_item(
    score: np.ndarray,
    starts: np.ndarray,
    items_at: Callable[[np.ndarray], pa.Array],
    in_order: bool,
) -> np.ndarray:
    """Sort rows by score, then item id, both descending, inside their groups.

    Ids are compared only where scores are equal. Strings compare byte by byte. Rows of equal ids
    stay in input order.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,), read-only
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    items_at : callable
        Maps row numbers to item ids, a pyarrow.Array without nulls.
    in_order : bool
        Whether scores descend in every group.

    Returns
    -------
    ndarray of int32 or int64, shape (rows,)
        Row number at each position.
    """
    if in_order:
        order, ordered = np.arange(len(score), dtype=np.int64), score
    else:
        order = order_by_score(score, starts)
        ordered = score[order]
    equals_previous = np.zeros(len(order), np.bool_)  # the previous row of the same group
    equals_previous[1:] = ordered[1:] == ordered[:-1]
    equals_previous[starts[(starts > 0) & (starts < len(order))]] = False
    tied = equals_previous.copy()
    tied[:-1] |= equals_previous[1:]
    positions = np.flatnonzero(tied)
    if len(positions):
        block = np.cumsum(~equals_previous[positions])
        rows = order[positions]
        # ~ turns ascending into descending without overflow, for signed and unsigned ids alike.
        order[positions] = rows[np.lexsort((~item_codes(items_at(rows)), block))]
    return order


def item_codes(item: pa.Array) -> np.ndarray:
    """Map items to integers of the same order."""
    words = fixed_width(item)
    if words is not None and words.ndim == 1:
        return words
    offsets, content = _bytes_of(item, words)
    # Not Arrow's sort, which is no faster: its functions take 45 ms to import.
    windows = uint64_windows(np.append(content, np.zeros(8, np.uint8)))
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)
    codes, rows = np.zeros(len(item), np.int64), np.arange(len(item))
    for k in range(0, int(lengths.max(initial=0)), 8):
        # Eight bytes a step, for rows whose bytes so far are those of another row.
        rest = np.clip(lengths[rows] - k, 0, 8)
        after = (64 - 8 * rest).astype(np.uint64)
        word = windows[starts[rows] + np.minimum(lengths[rows], k)].byteswap() >> after << after
        order = np.lexsort((rest, word, codes[rows]))
        rows, word, rest = rows[order], word[order], rest[order]
        code, index = codes[rows], np.arange(len(rows))
        begins = np.append(True, code[1:] != code[:-1])
        differs = begins.copy()
        differs[1:] |= (word[1:] != word[:-1]) | (rest[1:] != rest[:-1])
        # A code is the number of items below: those of lower codes, and those of lower words.
        codes[rows] = code + (
            np.maximum.accumulate(index * differs) - np.maximum.accumulate(index * begins)
        )
        rows = rows[~(differs & np.append(differs[1:], True))]
        if not len(rows):
            break
    return codes


def _bytes_of(item: pa.Array, words: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets and bytes that order as the items do."""
    if words is None:
        return text_buffers(item)
    letters = words[:, ::-1].byteswap().view(np.uint8)  # decimals: the sign is in the highest byte
    letters[:, 0] ^= 128
    offsets = np.arange(len(item) + 1) * letters.shape[1]
    return frozen(offsets), frozen(letters.ravel())


def find_repeated(item: pa.Array, starts: np.ndarray) -> tuple[int, int] | None:
    """Find two rows of one group that have the same item, or None.

    The second row is the first one in order of groups that repeats an item.
    """
    words = fixed_width(item)
    if words is not None and words.ndim == 1:
        return _first_pair(words, starts)
    offsets, content = _bytes_of(item, words)
    hashes = np.empty(len(item), np.int64)
    _hash_bytes(offsets, content, uint64_windows(content), hashes)
    # Different items may share a hash; they have different codes.
    return _first_pair(hashes, starts) and _first_pair(item_codes(item), starts)


def _first_pair(codes: np.ndarray, starts: np.ndarray) -> tuple[int, int] | None:
    codes = codes.view(np.int64) if codes.dtype == np.uint64 else codes.astype(np.int64, copy=False)
    largest = int(np.diff(starts).max(initial=1))
    table, pair = np.full(1 << (2 * largest).bit_length(), -1), np.empty(2, np.int64)
    if not _find_pair(frozen(codes.view()), frozen(starts.view()), table, pair):
        return None
    return int(pair[0]), int(pair[1])


@kernel
def _hash_bytes(offsets, content, windows, hashes):  # type: ignore[no-untyped-def]
    for i in range(hashes.shape[0]):
        lo = np.int64(offsets[i])
        hi = np.int64(offsets[i + 1])
        h = np.uint64(hi - lo)
        while lo < hi:
            h = (h ^ word_at(content, windows, lo, hi - lo)) * np.uint64(_MIX)
            h ^= h >> np.uint64(32)
            lo += 8
        hashes[i] = np.int64(h)


@kernel
def _find_pair(codes, starts, table, pair):  # type: ignore[no-untyped-def]
    """Find two rows of a group with equal codes, by open addressing.

    Slots hold rows. Those of earlier groups are smaller, so the table needs no clearing.
    """
    for g in range(starts.shape[0] - 1):
        lo = starts[g]
        bits = 1
        while 1 << bits < 2 * (starts[g + 1] - lo):
            bits += 1
        mask = np.uint64((1 << bits) - 1)
        shift = np.uint64(64 - bits)
        for i in range(lo, starts[g + 1]):
            h = np.uint64(codes[i])
            slot = ((h ^ (h >> np.uint64(32))) * np.uint64(_MIX)) >> shift
            while table[slot] >= lo:
                if codes[table[slot]] == codes[i]:
                    pair[0] = table[slot]
                    pair[1] = i
                    return True
                slot = (slot + np.uint64(1)) & mask
            table[slot] = i
    return False


def resolve_blocks(
    offsets: np.ndarray,
    block_above: np.ndarray,
    block_size: np.ndarray,
    grade: np.ndarray,
    ties: str,
    above: np.ndarray,
) -> np.ndarray | None:
    """Compute the best or worst possible rank of each row of a tie block.

    Parameters
    ----------
    offsets, block_above, block_size, grade : ndarray
        As in `ranking.Ranking`, labelled rows in deterministic order.
    ties : str
        ``"best"`` or ``"worst"``.
    above : ndarray of int64, shape (labelled rows,)
        Output: number of rows ranked strictly above each labelled row.

    Returns
    -------
    ndarray of int64 or None
        For ``"worst"``: the labelled rows in order of their new rank. None for ``"best"``, which
        keeps the order.
    """
    best = ties == "best"
    worst_order = np.empty(0 if best else len(grade), np.int64)
    _rank_in_blocks(offsets, block_above, block_size, grade, best, above, worst_order)
    return None if best else worst_order


@kernel
def _rank_in_blocks(  # type: ignore[no-untyped-def]
    offsets, block_above, block_size, grade, best, above, worst_order
):
    """Rank the labelled rows of each block.

    Best: positive grades first, then the rows with label 0, then negative grades. Worst: the
    reverse. It reverses the rows of each block, so that ranks ascend.
    """
    for g in range(offsets.shape[0] - 1):
        lo = offsets[g]
        while lo < offsets[g + 1]:
            hi = lo
            while hi < offsets[g + 1] and block_above[hi] == block_above[lo]:
                hi += 1
            for e in range(lo, hi):
                rank_in_block = e - lo if grade[e] > 0 else block_size[e] - (hi - e)
                if not best:
                    rank_in_block = block_size[e] - 1 - rank_in_block
                    worst_order[e] = lo + hi - 1 - e
                above[e] = block_above[e] + rank_in_block
            lo = hi
