"""Gather partitioned batches into chunks of whole groups.

A chunk is a few partitions, copied from every batch. The keys are copied first and numbered inside
the cache. Then one pass for each column moves its values to their groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.groups.edges import Groups, Keys
from fastrank_eval.groups.partition import PARTITIONS, PartitionedBatch, Partitioner
from fastrank_eval.io.columns import Rows
from fastrank_eval.io.keys import encode_rows

#: Rows of a chunk, and the fewest rows of one where threads share the rows.
CHUNK_ROWS, _FEWEST_ROWS = 1 << 19, 1 << 17


@dataclass(frozen=True)
class _Batches:
    """Batches that share a block, in input order.

    Parameters
    ----------
    columns : list of (ndarray, read-only, or None)
        Those of the block.
    widths : tuple of int
        Number of words of each key column.
    bases : ndarray of int64, shape (batches,), read-only
        Numbers to add to the words.
    bounds : ndarray of int64, shape (batches, PARTITIONS + 1), read-only
        First row of each batch and partition in the block.
    begins : ndarray of int64, shape (batches, PARTITIONS), read-only
        The same among all rows, partition by partition, all batches in order.
    """

    columns: list[np.ndarray | None]
    widths: tuple[int, ...]
    bases: np.ndarray
    bounds: np.ndarray
    begins: np.ndarray


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
        bounds = np.stack([batch.bounds for batch in batches])
        counts = np.diff(bounds).T
        begins = np.zeros(counts.size + 1, np.int64)
        np.cumsum(counts.ravel(), out=begins[1:])
        self._bounds = begins[:: len(batches)].copy()
        self._begins = begins[:-1].reshape(counts.shape).T
        self._blocks = []
        for block in {id(batch.block): batch.block for batch in batches}.values():
            here = [b for b, batch in enumerate(batches) if batch.block is block]
            columns = [None if array is None else frozen(array.view()) for array in block.columns]
            bases = frozen(np.array([batches[b].base for b in here]))
            at = frozen(bounds[here]), frozen(self._begins[here])
            self._blocks.append(_Batches(columns, block.widths, bases, *at))
        widths = zip(*(block.widths for block in self._blocks), strict=True)
        self._widths = [max(of_column) for of_column in widths]

    def rows(self, partitions: range) -> int:
        """Count the rows of some partitions."""
        return int(self._bounds[partitions.stop] - self._bounds[partitions.start])

    def ranges(self, threads: int) -> Iterator[range]:
        """Yield the partitions of each chunk, the work of one thread at a time."""
        bounds, first = self._bounds.tolist(), 0
        rounds = -(-bounds[-1] // (threads * CHUNK_ROWS))
        chunk_rows = min(CHUNK_ROWS, max(bounds[-1] // (threads * rounds), _FEWEST_ROWS))
        for last in range(1, PARTITIONS + 1):
            rows = bounds[last] - bounds[first]
            if rows and (rows >= chunk_rows or last == PARTITIONS):
                yield range(first, last)
                first = last

    def gather(self, partitions: range) -> tuple[Rows, np.ndarray, Callable[[Groups], Keys]]:
        """Gather a range of partitions into a chunk.

        The thread's next chunk overwrites its memory.

        Returns
        -------
        rows : Rows
            Without keys, in input order inside each group.
        starts : ndarray of int64, shape (groups + 1,)
            First row of each group, then the number of rows.
        keys : callable
            Maps positions of groups to their keys.
        """
        rows, block = self.rows(partitions), self._blocks[0]
        position = scratch("position in chunk", rows, np.uint32)
        heads, starts = scratch("chunk heads", rows), scratch("chunk starts", rows + 1)
        output = position, heads, starts
        if len(self._blocks) == 1 and self._widths == [1]:
            words = cast(np.ndarray, block.columns[0]).reshape(1, -1)
            bounds = block.bounds[:, partitions.start : partitions.stop + 1]
            ends = encode_rows(words, bounds, *output, block.bases, place=True)
        else:
            bounds = self._bounds[None, partitions.start : partitions.stop + 1]
            bounds = bounds - bounds[0, 0]
            ends = encode_rows(self._words(partitions), bounds, *output, place=True)
        groups = int(ends[-1])
        starts[groups] = rows
        position = frozen(position.view())
        parts = range(len(block.columns) - sum(block.widths))
        *arrays, numbers = (self._part(partitions, part, position) for part in parts)
        items = self._items(partitions, position)
        chunk = Rows(self._partitioner.plan_columns, 0, (), tuple(arrays), items, numbers)

        def keys(wanted: Groups) -> Keys:
            words = self._words(partitions)[:, heads[:groups][wanted]]
            column_words = np.split(words, np.cumsum(self._widths)[:-1])
            pairs = zip(self._partitioner.columns, column_words, strict=True)
            return tuple(column.keys(list(words)) for column, words in pairs)

        return chunk, starts[: groups + 1], keys

    def _place(self, block: _Batches, partitions: range) -> tuple[Any, ...]:
        """Return where rows of a block lie in it, and in the chunk, for kernels."""
        first, last = partitions.start, partitions.stop
        return block.bounds, block.begins, first, last, int(self._bounds[first])

    def _words(self, partitions: range) -> np.ndarray:
        """Gather the words of all keys, partition by partition."""
        rows, width = self.rows(partitions), sum(self._widths)
        words = scratch("words", width * rows).reshape(width, rows)
        if len(self._blocks) > 1:
            words[:] = 0  # shorter keys have fewer words
        for block in self._blocks:
            column = iter(block.columns)
            for first, width in zip(np.cumsum([0, *self._widths]), block.widths, strict=False):
                for w in range(width):
                    _copy_partitions(
                        next(column),
                        block.bases,
                        *self._place(block, partitions),
                        words[first + w],
                    )
        return frozen(words)

    def _part(self, partitions: range, part: int, position: np.ndarray) -> np.ndarray | None:
        """Gather one array of `PartitionedBatch.parts` in order of groups."""
        arrays = [block.columns[sum(block.widths) + part] for block in self._blocks]
        kind = next((array.dtype for array in arrays if array is not None), None)
        if kind is None:
            return None
        out = scratch(f"part {part}", self.rows(partitions), kind)
        bits = out.view(f"u{kind.itemsize}")
        if any(array is None for array in arrays):
            bits[:] = 0
        for block, array in zip(self._blocks, arrays, strict=True):
            if array is not None:
                values = frozen(array.view(bits.dtype))
                _scatter_partitions(values, *self._place(block, partitions), position, bits)
        return frozen(out.view())

    def _items(self, partitions: range, position: np.ndarray) -> pa.Array | None:
        if self._batches[0].item is None:
            return None
        items, rows = [], np.empty(self.rows(partitions), np.int64)
        taken, base = 0, self._bounds[partitions.start]
        for batch, begins in zip(self._batches, self._begins, strict=True):
            bounds = batch.bounds[partitions.start : partitions.stop + 1] - batch.bounds[0]
            items.append(cast(pa.Array, batch.item).slice(bounds[0], bounds[-1] - bounds[0]))
            # From the place of a row in the batch to its place in the chunk.
            moves = begins[partitions.start : partitions.stop] - base - bounds[:-1]
            indices = np.arange(bounds[0], bounds[-1]) + np.repeat(moves, np.diff(bounds))
            rows[position[indices]] = taken + np.arange(len(indices))
            taken += len(indices)
        return pa.concat_arrays(items).take(row_column(rows))


@kernel
def _copy_partitions(words, bases, bounds, begins, first, last, origin, out):  # type: ignore[no-untyped-def]
    for p in range(first, last):
        for b in range(bounds.shape[0]):
            # The loop vectorises only over slices.
            source = words[bounds[b, p] : bounds[b, p + 1]]
            target = out[begins[b, p] - origin : begins[b, p] - origin + source.shape[0]]
            base = bases[b]
            for k in range(source.shape[0]):
                target[k] = base + np.int64(source[k])


@kernel
def _scatter_partitions(values, bounds, begins, first, last, origin, position, out):  # type: ignore[no-untyped-def]
    # Partition by partition: the places of one fit the second-level cache.
    for p in range(first, last):
        for b in range(bounds.shape[0]):
            source = values[bounds[b, p] : bounds[b, p + 1]]
            target = position[begins[b, p] - origin : begins[b, p] - origin + source.shape[0]]
            for k in range(source.shape[0]):
                out[target[k]] = source[k]
