"""Dealt stretches -> chunks of whole groups.

A chunk is a few pieces, put together from their runs in every stretch: the keys first, which are
numbered inside the cache; then each column goes to its place in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.jit import kernel, scratch
from fastrank_eval.groups.boundaries import Keys
from fastrank_eval.groups.chunk import Chunk
from fastrank_eval.groups.partition import (
    PIECE_BITS,
    PIECES,
    UPPER_BITS,
    PartitionedBatch,
    Partitioner,
    hashed,
    keys_of_packed,
    sort_partitions,
    stay_packed,
)
from fastrank_eval.io.columns import Columns

__all__ = ["Gathering", "Span"]

#: Rows a chunk should have.
CHUNK_ROWS = 1 << 17
#: A table of keys may be this many times as long as a piece has rows.
_NEAR_RANGE = 4


@dataclass(frozen=True, slots=True)
class Span:
    """A range of pieces, the work of one thread.

    Parameters
    ----------
    first, last : int
        Pieces, the last one left out.
    base : int
        Rows of the pieces before.
    bounds : ndarray of int64, shape (pieces + 1,)
        First row of each piece in the chunk, then the number of rows.
    """

    first: int
    last: int
    base: int
    bounds: np.ndarray

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.bounds[-1])


@dataclass(frozen=True, slots=True)
class Gathered:
    """Whole groups; the thread's next ones overwrite them.

    Parameters
    ----------
    chunk : Chunk
        Rows without keys, in input order inside each group if that is kept.
    keys : callable
        Finds the key of each group.
    """

    chunk: Chunk
    keys: Callable[[], Keys]


class Gathering:
    """All dealt stretches, as the whole groups they hold; threads may share it.

    Parameters
    ----------
    dealer : Dealer
        What dealt them.
    stretches : list of PartitionedBatch
        In input order, at least one; those that must be are opened in place.
    """

    def __init__(self, dealer: Partitioner, batches: list[PartitionedBatch]) -> None:
        self._partitioner = dealer
        self._least = min(batch.least for batch in batches) >> PIECE_BITS
        span = (max(batch.most for batch in batches) >> PIECE_BITS) - self._least + 1
        self._packed = stay_packed(batches)
        if not self._packed:
            for place, batch in enumerate(batches):
                batches[place] = batch.opened()
        self._batches = batches
        runs = np.concatenate([np.diff(batch.bounds, axis=1) for batch in batches]).T
        begins = np.zeros(runs.size + 1, np.int64)
        np.cumsum(runs.ravel(), out=begins[1:])
        self._bounds = begins[:: runs.shape[1]].copy()
        # Where the runs of each stretch begin: piece by piece, its stretches and blocks in order.
        ends = np.cumsum([len(batch.bounds) for batch in batches])
        parts = np.split(begins[:-1].reshape(runs.shape), ends[:-1], axis=1)
        self._begins = [frozen(np.ascontiguousarray(part)) for part in parts]
        if self._packed:
            return
        self._widths = [
            max(len(batch.words[c]) for batch in batches) for c in range(len(dealer.columns))
        ]
        near = span <= max(_NEAR_RANGE * int(self._bounds[-1]) // PIECES, 1 << 10)
        self._table = span if dealer.integer and near else 0

    def spans(self) -> Iterator[Span]:
        """Ranges of pieces that have the rows of a chunk."""
        first = 0
        for last in range(1, PIECES + 1):
            base = int(self._bounds[first])
            rows = int(self._bounds[last]) - base
            if rows and (rows >= CHUNK_ROWS or last == PIECES):
                yield Span(first, last, base, frozen(self._bounds[first : last + 1] - base))
                first = last

    def gathered(self, span: Span) -> Gathered:
        """Put a range of pieces together."""
        if self._packed:
            return self._gathered_packed(span)
        words = self._words(span)
        place = scratch("place in chunk", span.rows, np.uint32)
        starts = scratch("chunk starts", span.rows + 1)
        if self._table:
            table = scratch("table of keys", self._table, np.uint32)
            groups = _group_near(words[0], span.bounds, self._least, table, place, starts)
        else:
            hashes = hashed([list(words)], scratch("hash", span.rows, np.uint64))
            slots = 1 << (4 * int(np.diff(span.bounds).max()) + 64).bit_length()
            groups = _group_hashed(
                words,
                frozen(hashes.view()),
                span.bounds,
                scratch("table of keys", slots, np.uint32),
                scratch("tags of keys", slots, np.uint64),
                scratch("chunk heads", span.rows),
                scratch("chunk ends", span.rows),
                place,
                starts,
            )
        place = frozen(place.view())
        parts = [self._part(span, part, place) for part in range(len(self._batches[0].parts))]
        columns = Columns.of_parts(parts, self._partitioner.models, self._items(span, place))
        starts = starts[: groups + 1]

        def keys() -> Keys:
            row_at = np.empty(span.rows, np.int64)
            row_at[place] = np.arange(span.rows)
            heads = words[:, row_at[starts[:-1]]]
            parts = np.split(heads, np.cumsum(self._widths)[:-1])
            pairs = zip(self._partitioner.columns, parts, strict=True)
            return tuple(column.keys(list(part)) for column, part in pairs)

        return Gathered(Chunk(columns, starts), keys)

    def _gathered_packed(self, span: Span) -> Gathered:
        packed = scratch("packed", span.rows, np.uint64)
        for batch, begins in zip(self._batches, self._begins, strict=True):
            more = np.uint64((batch.base >> PIECE_BITS) - self._least << 64 - UPPER_BITS)
            words = frozen(cast(np.ndarray, batch.packed).view(np.int64))
            place = (batch.bounds, begins, span.first, span.last, span.base)
            _join(words, more.view(np.int64), -1, *place, packed.view(np.int64))
        labels = scratch("labels", span.rows, np.uint8)
        scores = scratch("scores", span.rows, np.uint32)
        starts = scratch("chunk starts", span.rows + 1)
        groups = sort_partitions(packed, span.bounds, labels, scores, starts)
        starts = starts[: groups + 1]
        label = frozen(labels.view(cast(np.dtype, self._batches[0].label)))
        parts = [label, frozen(scores.view(np.float32)), None, None, None, None, None]

        def keys() -> Keys:
            heads = starts[:-1]
            bounds = span.first + np.searchsorted(span.bounds, heads, side="right") - 1
            base = self._least << PIECE_BITS
            words = keys_of_packed(packed[heads], bounds, base, PIECE_BITS)
            return (self._partitioner.columns[0].keys([words]),)

        return Gathered(Chunk(Columns.of_parts(parts, 1, None), starts), keys)

    def _words(self, span: Span) -> np.ndarray:
        words = scratch("words", sum(self._widths) * span.rows).reshape(-1, span.rows)
        for batch, begins in zip(self._batches, self._begins, strict=True):
            at = 0
            for width, of_column in zip(self._widths, batch.words, strict=True):
                for w in range(width):
                    # Where all keys of a stretch are shorter it has no such word: 0.
                    there = w < len(of_column)
                    _join(
                        of_column[w if there else 0],
                        batch.base,
                        -1 if there else 0,
                        batch.bounds,
                        begins,
                        span.first,
                        span.last,
                        span.base,
                        words[at + w],
                    )
                at += width
        return frozen(words)

    def _part(self, span: Span, part: int, place: np.ndarray) -> np.ndarray | None:
        """One part of the columns, in order of the groups."""
        arrays = [batch.parts[part] for batch in self._batches]
        kind = next((array.dtype for array in arrays if array is not None), None)
        if kind is None:
            return None
        out = scratch(f"part {part}", span.rows, kind)
        bits = out.view(f"u{kind.itemsize}")
        if any(array is None for array in arrays):
            bits[:] = 0
        for batch, begins, array in zip(self._batches, self._begins, arrays, strict=True):
            if array is not None:
                values = frozen(array.view(bits.dtype))
                _spread(values, batch.bounds, begins, span.first, span.last, span.base, place, bits)
        return frozen(out.view())

    def _items(self, span: Span, place: np.ndarray) -> pa.Array | None:
        taken, places = [], []
        for batch, begins in zip(self._batches, self._begins, strict=True):
            if batch.item is None:
                return None
            los = batch.bounds[:, span.first : span.last].T.ravel()
            rows = np.diff(batch.bounds[:, span.first : span.last + 1], axis=1).T.ravel()
            inside = np.arange(rows.sum()) - np.repeat(np.cumsum(rows) - rows, rows)
            taken.append(batch.item.take(row_column(np.repeat(los, rows) + inside)))
            begin = begins[span.first : span.last].ravel() - span.base
            places.append(place[np.repeat(begin, rows) + inside])
        row_at = np.empty(span.rows, np.int64)
        row_at[np.concatenate(places)] = np.arange(span.rows)
        return pa.concat_arrays(taken).take(row_column(row_at))


@kernel
def _join(words, base, keep, bounds, begins, first, last, origin, out):  # type: ignore[no-untyped-def]
    for p in range(first, last):
        for b in range(bounds.shape[0]):
            lo = bounds[b, p]
            rows = bounds[b, p + 1] - lo
            at = begins[p, b] - origin
            # Slices, because only then does the loop vectorise.
            to = out[at : at + rows]
            here = words[lo : lo + rows]
            for k in range(rows):
                to[k] = (base + np.int64(here[k])) & keep


@kernel
def _spread(values, bounds, begins, first, last, base, place, out):  # type: ignore[no-untyped-def]
    for p in range(first, last):
        for b in range(bounds.shape[0]):
            lo = bounds[b, p]
            at = begins[p, b] - base
            for k in range(bounds[b, p + 1] - lo):
                out[place[at + k]] = values[lo + k]


@kernel
def _group_near(words, bounds, least, table, place, starts):  # type: ignore[no-untyped-def]
    """Number keys by a table of their upper part; returns the number of groups."""
    groups = 0
    for p in range(bounds.shape[0] - 1):
        for t in range(table.shape[0]):
            table[t] = 0
        for i in range(bounds[p], bounds[p + 1]):
            table[(words[i] >> PIECE_BITS) - least] += 1
        end = bounds[p]
        for t in range(table.shape[0]):
            rows = table[t]
            table[t] = end
            starts[groups] = end
            groups += rows > 0
            end += rows
        for i in range(bounds[p], bounds[p + 1]):
            t = (words[i] >> PIECE_BITS) - least
            place[i] = table[t]
            table[t] += 1
    starts[groups] = bounds[bounds.shape[0] - 1]
    return groups


@kernel
def _group_hashed(words, hashes, bounds, codes, tags, heads, ends, place, starts):  # type: ignore[no-untyped-def]
    """Number keys by open addressing, comparing them whole; returns the number of groups."""
    groups = np.int64(0)  # of a plain 0 Numba compiles `_number` once more
    for p in range(bounds.shape[0] - 1):
        rows = bounds[p + 1] - bounds[p]
        slots = 16
        # Most groups have several rows: a table for fewer groups stays in the cache.
        while slots < rows // 4:
            slots *= 2
        first = groups
        while True:
            groups = _number(
                words, hashes, bounds[p], bounds[p + 1], slots, codes, tags, heads, place, first
            )
            if groups >= 0:
                break
            slots *= 4
        for g in range(first, groups):
            ends[g] = 0
        for i in range(bounds[p], bounds[p + 1]):
            ends[first + np.int64(place[i])] += 1
        end = bounds[p]
        for g in range(first, groups):
            starts[g] = end
            end += ends[g]
            ends[g] = starts[g]
        for i in range(bounds[p], bounds[p + 1]):
            group = first + np.int64(place[i])
            place[i] = ends[group]
            ends[group] += 1
    starts[groups] = bounds[bounds.shape[0] - 1]
    return groups


@kernel
def _number(words, hashes, lo, hi, slots, codes, tags, heads, numbers, first):  # type: ignore[no-untyped-def]
    """Number of each row's key among those of its piece; -1 once the table is half full."""
    for t in range(slots):
        codes[t] = 0
    mask = np.uint64(slots - 1)
    groups = 0
    for i in range(lo, hi):
        tag = hashes[i]
        slot = (tag >> np.uint64(PIECE_BITS)) & mask
        while True:
            number = np.int64(codes[slot])
            if number == 0:
                if 2 * groups >= slots:
                    return -1
                heads[first + groups] = i
                groups += 1
                codes[slot] = groups
                tags[slot] = tag
                numbers[i] = groups - 1
                break
            if tags[slot] == tag:
                # The hash of a single word loses nothing: equal hashes are equal keys.
                same = True
                if words.shape[0] > 1:
                    head = heads[first + number - 1]
                    for w in range(words.shape[0]):
                        same &= words[w, head] == words[w, i]
                if same:
                    numbers[i] = number - 1
                    break
            slot = (slot + np.uint64(1)) & mask
    return first + groups
