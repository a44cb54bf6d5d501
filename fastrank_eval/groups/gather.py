"""Gather partitioned batches into chunks of whole groups.

A chunk is a few partitions, copied from every batch. The keys are copied first and numbered inside
the cache. Then one pass for each column moves its values to their groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.groups.chunk import Chunk, Keys
from fastrank_eval.groups.partition import PARTITIONS, PartitionedBatch, Partitioner
from fastrank_eval.io.columns import Columns
from fastrank_eval.io.keys import number_rows

#: Target number of rows in a chunk.
CHUNK_ROWS = 1 << 18


@dataclass(frozen=True)
class PartitionRange:
    """Range of partitions that makes one chunk, the work of one thread.

    Parameters
    ----------
    first, last : int
        First partition, and the one after the last.
    base : int
        Number of rows in the partitions before the range.
    bounds : ndarray of int64, shape (partitions + 1,)
        First row of each partition in the chunk, then the number of rows.
    """

    first: int
    last: int
    base: int
    bounds: np.ndarray

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.bounds[-1])


@dataclass(frozen=True)
class ChunkWithKeys:
    """A chunk and the keys of its groups.

    The thread's next chunk overwrites its memory.

    Parameters
    ----------
    chunk : Chunk
        Rows without keys, in input order inside each group.
    keys : callable
        Returns the keys of the groups.
    """

    chunk: Chunk
    keys: Callable[[], Keys]


class Gatherer:
    """Gatherer of partitioned batches into chunks; threads may share it.

    Parameters
    ----------
    partitioner : Partitioner
        The partitioner that made the batches.
    batches : list of PartitionedBatch
        In input order, at least one.
    """

    def __init__(self, partitioner: Partitioner, batches: list[PartitionedBatch]) -> None:
        self._partitioner, self._batches = partitioner, batches
        counts = np.stack([np.diff(batch.bounds) for batch in batches], axis=1)
        begins = np.zeros(counts.size + 1, np.int64)
        np.cumsum(counts.ravel(), out=begins[1:])
        self._bounds = begins[:: len(batches)].copy()
        # First row of each batch and partition: partition by partition, batches in order.
        self._begins = frozen(np.ascontiguousarray(begins[:-1].reshape(counts.shape).T))
        self._widths = [
            max(len(batch.words[c]) for batch in batches) for c in range(len(partitioner.columns))
        ]

    def ranges(self) -> Iterator[PartitionRange]:
        """Yield ranges of partitions that together have the rows of a chunk."""
        first = 0
        for last in range(1, PARTITIONS + 1):
            base = int(self._bounds[first])
            rows = int(self._bounds[last]) - base
            if rows and (rows >= CHUNK_ROWS or last == PARTITIONS):
                yield PartitionRange(
                    first, last, base, frozen(self._bounds[first : last + 1] - base)
                )
                first = last

    def gather(self, partitions: PartitionRange) -> ChunkWithKeys:
        """Gather a range of partitions into a chunk."""
        words = self._words(partitions)
        position = scratch("position in chunk", partitions.rows, np.uint32)
        heads = scratch("chunk heads", partitions.rows)
        starts = scratch("chunk starts", partitions.rows + 1)
        ends = number_rows(words, partitions.bounds, position, heads, starts)
        groups = int(ends[-1])
        starts = starts[: groups + 1]
        _place_rows(partitions.bounds, ends, scratch("next rows", groups), position, starts)
        position = frozen(position.view())
        parts = [
            self._part(partitions, part, position) for part in range(len(self._batches[0].parts))
        ]
        columns = Columns.from_arrays(
            parts, self._partitioner.models, self._items(partitions, position)
        )

        def keys() -> Keys:
            column_words = np.split(words[:, heads[:groups]], np.cumsum(self._widths)[:-1])
            pairs = zip(self._partitioner.columns, column_words, strict=True)
            return tuple(column.keys(list(words)) for column, words in pairs)

        return ChunkWithKeys(Chunk(columns, starts), keys)

    def _words(self, partitions: PartitionRange) -> np.ndarray:
        words = scratch("words", sum(self._widths) * partitions.rows).reshape(-1, partitions.rows)
        for batch, begins in zip(self._batches, self._begins, strict=True):
            first_word = 0
            place = (batch.bounds, begins, partitions.first, partitions.last, partitions.base)
            for width, column_words in zip(self._widths, batch.words, strict=True):
                for w in range(width):
                    # A batch with shorter keys has no such word: 0.
                    word = column_words[min(w, len(column_words) - 1)]
                    keep = -1 if w < len(column_words) else 0
                    _copy_partitions(word, batch.base, keep, *place, words[first_word + w])
                first_word += width
        return frozen(words)

    def _part(
        self, partitions: PartitionRange, part: int, position: np.ndarray
    ) -> np.ndarray | None:
        """Gather one array of `Columns.arrays`, rows in order of their groups."""
        arrays = [batch.parts[part] for batch in self._batches]
        kind = next((array.dtype for array in arrays if array is not None), None)
        if kind is None:
            return None
        out = scratch(f"part {part}", partitions.rows, kind)
        bits = out.view(f"u{kind.itemsize}")
        if any(array is None for array in arrays):
            bits[:] = 0
        for batch, begins, array in zip(self._batches, self._begins, arrays, strict=True):
            if array is not None:
                values = frozen(array.view(bits.dtype))
                place = (batch.bounds, begins, partitions.first, partitions.last, partitions.base)
                _scatter_partitions(values, *place, position, bits)
        return frozen(out.view())

    def _items(self, partitions: PartitionRange, position: np.ndarray) -> pa.Array | None:
        items, rows = [], np.empty(partitions.rows, np.int64)
        taken = 0
        for batch, begins in zip(self._batches, self._begins, strict=True):
            if batch.item is None:
                return None
            bounds = batch.bounds[partitions.first : partitions.last + 1]
            items.append(batch.item.slice(bounds[0], bounds[-1] - bounds[0]))
            # From the place of a row in the batch to its place in the chunk.
            moves = begins[partitions.first : partitions.last] - partitions.base - bounds[:-1]
            places = np.arange(bounds[0], bounds[-1]) + np.repeat(moves, np.diff(bounds))
            rows[position[places]] = taken + np.arange(len(places))
            taken += len(places)
        return pa.concat_arrays(items).take(row_column(rows))


@kernel
def _copy_partitions(words, base, keep, bounds, begins, first, last, origin, out):  # type: ignore[no-untyped-def]
    for p in range(first, last):
        # The loop vectorises only over slices.
        source = words[bounds[p] : bounds[p + 1]]
        target = out[begins[p] - origin : begins[p] - origin + source.shape[0]]
        for k in range(source.shape[0]):
            target[k] = (base + np.int64(source[k])) & keep


@kernel
def _scatter_partitions(values, bounds, begins, first, last, origin, position, out):  # type: ignore[no-untyped-def]
    for p in range(first, last):
        source = values[bounds[p] : bounds[p + 1]]
        target = position[begins[p] - origin : begins[p] - origin + source.shape[0]]
        for k in range(source.shape[0]):
            out[target[k]] = source[k]


@kernel
def _place_rows(bounds, groups, next_row, position, starts):  # type: ignore[no-untyped-def]
    """Replace numbers of keys by positions, and numbers of rows by starts."""
    end = 0
    for g in range(starts.shape[0] - 1):
        rows = starts[g]
        starts[g] = end
        next_row[g] = end
        end += rows
    starts[starts.shape[0] - 1] = end
    for p in range(bounds.shape[0] - 1):
        next_of_key = next_row[groups[p] : groups[p + 1]]
        for i in range(bounds[p], bounds[p + 1]):
            g = position[i]
            position[i] = next_of_key[g]
            next_of_key[g] += 1
