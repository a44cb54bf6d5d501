"""Scattered keys -> pieces of whole groups that fit the cache.

Rows are dealt to pieces by their key: by its upper part where keys lie close together, by a hash
otherwise. All rows of a group land in one piece, in input order, and each piece is small enough
that numbering its keys and sorting its rows stays in the cache: 10 ns a row where one table over
all keys costs 100.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fastrank_eval.columns import Columns, frozen
from fastrank_eval.engine import Tallies, evaluate_chunk, in_order
from fastrank_eval.groups import (
    Keys,
    key_integers,
    key_text,
)
from fastrank_eval.kernel import kernel
from fastrank_eval.numbering import DENSE_RANGE, number_integers, rows_by_group
from fastrank_eval.plan import GroupValues, Plan, Tally
from fastrank_eval.ranking import Chunk

#: Rows a piece should have, and how many pieces can be written to side by side.
PIECE_ROWS = 1 << 17
MOST_PIECES = 1 << 10


@dataclass(frozen=True, slots=True)
class Pieces:
    """Rows dealt to pieces.

    Parameters
    ----------
    columns : Columns
        Rows in order of their piece, without keys.
    integers : ndarray of int64, shape (rows,)
        Key of each row as an integer, in the same order.
    bounds : ndarray of int64, shape (pieces + 1,)
        First row of each piece, then the number of rows.
    numbers : ndarray of int64, shape (rows,), or None
        Row numbers of the input, in the same order, if they were asked for.
    """

    columns: Columns
    integers: np.ndarray
    bounds: np.ndarray
    numbers: np.ndarray | None

    def chunk(self, lo: int, hi: int) -> tuple[Chunk, np.ndarray]:
        """The rows `lo` to `hi` of a piece as whole groups, and the first row of each group."""
        codes, firsts = number_integers(self.integers[lo:hi])
        starts, rows = rows_by_group(codes, len(firsts))
        return Chunk(self.columns.slice(lo, hi).take(rows), starts), lo + firsts


def evaluate_gathered(columns: Columns, plan: Plan) -> tuple[Tally, list[GroupValues], np.ndarray]:
    """Evaluate rows whose groups are scattered.

    Parameters
    ----------
    columns : Columns
        All rows, as they came.
    plan : Plan

    Returns
    -------
    tally : Tally
    values : list of GroupValues
        Results of the groups in order of first appearance (empty unless ``plan.per_group``).
    firsts : ndarray of int64, shape (groups,)
        First row of each group, ascending.
    """
    tallies = Tallies(plan)
    pieces = deal(columns.without_keys(), columns.keys, plan.threads, plan.per_group)

    def work(bounds: tuple[int, int]) -> tuple[GroupValues, np.ndarray]:
        chunk, firsts = pieces.chunk(*bounds)

        def name(group: int) -> str:
            row = int(np.argmax(key_integers(columns.keys) == pieces.integers[firsts[group]]))
            return key_text(columns.keys, plan.roles.group, row)

        values = evaluate_chunk(chunk, plan, tallies.mine(), name)
        return values, firsts if pieces.numbers is None else pieces.numbers[firsts]

    bounds = pieces.bounds.tolist()
    spans = [(lo, hi) for lo, hi in pairwise(bounds) if lo < hi]
    done = list(in_order(plan.threads, work, spans))
    tally = tallies.merged()
    if not plan.per_group:
        return tally, [], np.empty(0, np.int64)
    firsts = np.concatenate([first for _, first in done])
    appeared = np.argsort(firsts)
    values = GroupValues(
        np.concatenate([value.rows for value, _ in done])[appeared],
        np.concatenate([value.positives for value, _ in done])[appeared],
        np.concatenate([value.values for value, _ in done], axis=2)[:, :, appeared],
    )
    return tally, [values], firsts[appeared]


def deal(columns: Columns, keys: Keys, threads: int, keep_numbers: bool) -> Pieces:
    """Deal rows to pieces so that no group is split.

    Parameters
    ----------
    columns : Columns
        All rows as they came, without keys.
    keys : tuple of pyarrow.Array, each of length rows
        Their keys.
    threads : int
    keep_numbers : bool
        Deal row numbers too.
    """
    integers = key_integers(keys)
    rows = len(integers)
    pieces = 1
    while pieces < MOST_PIECES and pieces * PIECE_ROWS < rows:
        pieces *= 2
    least, most = int(integers.min()), int(integers.max())
    hashed = most - least >= DENSE_RANGE * rows
    shift = 64 - (pieces - 1).bit_length() if hashed else _shift(most - least, pieces)
    ends = np.zeros(pieces, np.int64)
    _count_pieces(integers, least, shift, hashed, ends)
    bounds = np.concatenate([[0], np.cumsum(ends)])
    ends[:] = bounds[:-1]
    place = np.empty(rows, np.uint32 if rows < 1 << 32 else np.int64)
    _deal_rows(integers, least, shift, hashed, ends, place)

    def spread(values: np.ndarray) -> np.ndarray:
        values = frozen(np.ascontiguousarray(values).view())
        out = np.empty(rows, values.dtype)
        width = f"u{values.dtype.itemsize}"
        _spread(frozen(values.view(width)), place, out.view(width))
        return frozen(out)

    arrays = [integers, *([np.arange(rows)] if keep_numbers else []), *columns.arrays()]
    moved = in_order(threads, spread, arrays)
    integers, numbers = next(moved), next(moved) if keep_numbers else None
    return Pieces(columns.rearranged(moved, place), integers, bounds, numbers)


def _shift(span: int, pieces: int) -> int:
    shift = 0
    while span >> shift >= pieces:
        shift += 1
    return shift


@kernel
def _piece_of(value, least, shift, hashed):  # type: ignore[no-untyped-def]
    if hashed:
        if shift >= 64:
            return np.int64(0)
        mixed = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        return np.int64(mixed >> np.uint64(shift))
    return (value - least) >> shift


@kernel
def _count_pieces(integers, least, shift, hashed, counts):  # type: ignore[no-untyped-def]
    for i in range(integers.shape[0]):
        counts[_piece_of(integers[i], least, shift, hashed)] += 1


@kernel
def _deal_rows(integers, least, shift, hashed, ends, place):  # type: ignore[no-untyped-def]
    for i in range(integers.shape[0]):
        piece = _piece_of(integers[i], least, shift, hashed)
        place[i] = ends[piece]
        ends[piece] += 1


@kernel
def _spread(values, place, out):  # type: ignore[no-untyped-def]
    for i in range(values.shape[0]):
        out[place[i]] = values[i]
