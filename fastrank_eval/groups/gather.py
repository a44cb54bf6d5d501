"""Gather partitioned batches into chunks of whole groups.

A chunk is a few partitions, copied from every batch. The keys are copied first and numbered inside
the cache. Then one pass for each column moves its values to their groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.groups.chunk import Chunk, Keys
from fastrank_eval.groups.partition import (
    PARTITION_BITS,
    PARTITIONS,
    UPPER_BITS,
    PartitionedBatch,
    Partitioner,
    can_stay_packed,
    keys_of_packed,
    sort_partitions,
)
from fastrank_eval.io.columns import Columns
from fastrank_eval.io.keys import hash_keys, number_rows

#: Target number of rows in a chunk.
CHUNK_ROWS = 1 << 17
#: A table of keys may be this many times as long as a partition has rows.
_MAX_TABLE_RATIO = 4


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
        Rows without keys; in input order inside each group if the partitioner keeps that order.
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
        In input order, at least one. Unpacked in place unless all can stay packed.
    """

    def __init__(self, partitioner: Partitioner, batches: list[PartitionedBatch]) -> None:
        self._partitioner = partitioner
        self._min_upper = min(batch.min_word for batch in batches) >> PARTITION_BITS
        upper_range = (
            (max(batch.max_word for batch in batches) >> PARTITION_BITS) - self._min_upper + 1
        )
        self._is_packed = can_stay_packed(batches)
        if not self._is_packed:
            for index, batch in enumerate(batches):
                batches[index] = batch.unpack()
        self._batches = batches
        counts = np.concatenate([np.diff(batch.bounds, axis=1) for batch in batches]).T
        begins = np.zeros(counts.size + 1, np.int64)
        np.cumsum(counts.ravel(), out=begins[1:])
        self._bounds = begins[:: counts.shape[1]].copy()
        # First row of each partition, batch and segment: partition by partition, batches in order.
        ends = np.cumsum([len(batch.bounds) for batch in batches])
        by_batch = np.split(begins[:-1].reshape(counts.shape), ends[:-1], axis=1)
        self._begins = [frozen(np.ascontiguousarray(array)) for array in by_batch]
        if self._is_packed:
            return
        self._widths = [
            max(len(batch.words[c]) for batch in batches) for c in range(len(partitioner.columns))
        ]
        dense = upper_range <= max(_MAX_TABLE_RATIO * int(self._bounds[-1]) // PARTITIONS, 1 << 10)
        self._table = upper_range if partitioner.integer and dense else 0

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
        if self._is_packed:
            return self._gather_packed(partitions)
        words = self._words(partitions)
        position = scratch("position in chunk", partitions.rows, np.uint32)
        starts = scratch("chunk starts", partitions.rows + 1)
        if self._table:
            table = scratch("table of keys", self._table, np.uint32)
            groups = _group_by_table(
                words[0], partitions.bounds, self._min_upper, table, position, starts
            )
        else:
            hashes = hash_keys([list(words)], scratch("hash", partitions.rows, np.uint64))
            hashes, heads = frozen(hashes.view()), scratch("chunk heads", partitions.rows)
            ends = number_rows(words, hashes, partitions.bounds, position, heads)
            groups = int(ends[-1])
            _place_groups(partitions.bounds, ends, heads, position, starts)
        position = frozen(position.view())
        parts = [
            self._part(partitions, part, position) for part in range(len(self._batches[0].parts))
        ]
        columns = Columns.from_arrays(
            parts, self._partitioner.models, self._items(partitions, position)
        )
        starts = starts[: groups + 1]

        def keys() -> Keys:
            row_at = np.empty(partitions.rows, np.int64)
            row_at[position] = np.arange(partitions.rows)
            heads = words[:, row_at[starts[:-1]]]
            column_words = np.split(heads, np.cumsum(self._widths)[:-1])
            pairs = zip(self._partitioner.columns, column_words, strict=True)
            return tuple(column.keys(list(words)) for column, words in pairs)

        return ChunkWithKeys(Chunk(columns, starts), keys)

    def _gather_packed(self, partitions: PartitionRange) -> ChunkWithKeys:
        packed_rows = scratch("packed", partitions.rows, np.uint64)
        for batch, begins in zip(self._batches, self._begins, strict=True):
            shift = np.uint64((batch.base >> PARTITION_BITS) - self._min_upper << 64 - UPPER_BITS)
            words = frozen(cast(np.ndarray, batch.packed_rows).view(np.int64))
            source = (batch.bounds, begins, partitions.first, partitions.last, partitions.base)
            _copy_partitions(words, shift.view(np.int64), -1, *source, packed_rows.view(np.int64))
        labels = scratch("labels", partitions.rows, np.uint8)
        scores = scratch("scores", partitions.rows, np.uint32)
        starts = scratch("chunk starts", partitions.rows + 1)
        groups = sort_partitions(packed_rows, partitions.bounds, labels, scores, starts)
        starts = starts[: groups + 1]
        label = frozen(labels.view(cast(np.dtype, self._batches[0].label)))
        parts = [label, frozen(scores.view(np.float32)), None, None, None, None, None]

        def keys() -> Keys:
            heads = starts[:-1]
            index = partitions.first + np.searchsorted(partitions.bounds, heads, side="right") - 1
            base = self._min_upper << PARTITION_BITS
            words = keys_of_packed(packed_rows[heads], index, base, PARTITION_BITS)
            return (self._partitioner.columns[0].keys([words]),)

        return ChunkWithKeys(Chunk(Columns.from_arrays(parts, 1, None), starts), keys)

    def _words(self, partitions: PartitionRange) -> np.ndarray:
        words = scratch("words", sum(self._widths) * partitions.rows).reshape(-1, partitions.rows)
        for batch, begins in zip(self._batches, self._begins, strict=True):
            first_word = 0
            for width, column_words in zip(self._widths, batch.words, strict=True):
                for w in range(width):
                    # A batch with shorter keys has no such word: 0.
                    has_word = w < len(column_words)
                    _copy_partitions(
                        column_words[w if has_word else 0],
                        batch.base,
                        -1 if has_word else 0,
                        batch.bounds,
                        begins,
                        partitions.first,
                        partitions.last,
                        partitions.base,
                        words[first_word + w],
                    )
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
                _scatter_partitions(
                    values,
                    batch.bounds,
                    begins,
                    partitions.first,
                    partitions.last,
                    partitions.base,
                    position,
                    bits,
                )
        return frozen(out.view())

    def _items(self, partitions: PartitionRange, position: np.ndarray) -> pa.Array | None:
        items, positions = [], []
        for batch, begins in zip(self._batches, self._begins, strict=True):
            if batch.item is None:
                return None
            los = batch.bounds[:, partitions.first : partitions.last].T.ravel()
            rows = np.diff(
                batch.bounds[:, partitions.first : partitions.last + 1], axis=1
            ).T.ravel()
            inside = np.arange(rows.sum()) - np.repeat(np.cumsum(rows) - rows, rows)
            items.append(batch.item.take(row_column(np.repeat(los, rows) + inside)))
            begin = begins[partitions.first : partitions.last].ravel() - partitions.base
            positions.append(position[np.repeat(begin, rows) + inside])
        row_at = np.empty(partitions.rows, np.int64)
        row_at[np.concatenate(positions)] = np.arange(partitions.rows)
        return pa.concat_arrays(items).take(row_column(row_at))


@kernel
def _copy_partitions(words, base, keep, bounds, begins, first, last, origin, out):  # type: ignore[no-untyped-def]
    for p in range(first, last):
        for b in range(bounds.shape[0]):
            lo = bounds[b, p]
            rows = bounds[b, p + 1] - lo
            start = begins[p, b] - origin
            # The loop vectorises only over slices.
            target = out[start : start + rows]
            source = words[lo : lo + rows]
            for k in range(rows):
                target[k] = (base + np.int64(source[k])) & keep


@kernel
def _scatter_partitions(values, bounds, begins, first, last, base, position, out):  # type: ignore[no-untyped-def]
    for p in range(first, last):
        for b in range(bounds.shape[0]):
            lo = bounds[b, p]
            start = begins[p, b] - base
            for k in range(bounds[b, p + 1] - lo):
                out[position[start + k]] = values[lo + k]


@kernel
def _group_by_table(words, bounds, min_upper, table, position, starts):  # type: ignore[no-untyped-def]
    """Number keys by a table of their upper bits; return the number of groups."""
    groups = 0
    for p in range(bounds.shape[0] - 1):
        for t in range(table.shape[0]):
            table[t] = 0
        for i in range(bounds[p], bounds[p + 1]):
            table[(words[i] >> PARTITION_BITS) - min_upper] += 1
        end = bounds[p]
        for t in range(table.shape[0]):
            rows = table[t]
            table[t] = end
            starts[groups] = end
            groups += rows > 0
            end += rows
        for i in range(bounds[p], bounds[p + 1]):
            t = (words[i] >> PARTITION_BITS) - min_upper
            position[i] = table[t]
            table[t] += 1
    starts[groups] = bounds[bounds.shape[0] - 1]
    return groups


@kernel
def _place_groups(bounds, groups, ends, position, starts):  # type: ignore[no-untyped-def]
    """Replace the number of each row's key in its partition by its position."""
    for p in range(bounds.shape[0] - 1):
        first = groups[p]
        for g in range(first, groups[p + 1]):
            ends[g] = 0
        for i in range(bounds[p], bounds[p + 1]):
            ends[first + np.int64(position[i])] += 1
        end = bounds[p]
        for g in range(first, groups[p + 1]):
            starts[g] = end
            end += ends[g]
            ends[g] = starts[g]
        for i in range(bounds[p], bounds[p + 1]):
            group = first + np.int64(position[i])
            position[i] = ends[group]
            ends[group] += 1
    starts[groups[groups.shape[0] - 1]] = bounds[bounds.shape[0] - 1]
