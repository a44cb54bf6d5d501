"""Partition rows by the hash of their group.

Every row of a batch goes straight to its partition: a first pass finds its place, then one pass for
each column moves the values. A pass over all columns would be three times slower: 256 places of
one column fit the first-level cache, those of three do not.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.memory import borrow, give_back
from fastrank_eval._lib.threads import scratch
from fastrank_eval.io.columns import PlanColumns, Rows
from fastrank_eval.io.keys import KeyEncoder, hash_keys

#: Bits of the number of a partition.
PARTITION_BITS = 8
PARTITIONS = 1 << PARTITION_BITS
#: Factor of the hash. The upper bits of the hash are the partition.
_FACTOR = 0x9E3779B97F4A7C15
#: Rows after which keys are seen to be far apart.
_ROWS_AT_ONCE = 1 << 10
#: Bytes of a line of the cache. A column begins at a multiple.
_LINE = 64


class Block:
    """One block of memory for rows of several batches with the same types.

    Systems give large blocks large pages: three columns take 1 ns a row to touch, not 4.

    Parameters
    ----------
    rows : int
        Rows that it has room for.
    widths : tuple of int
        Number of words of each key column. They are the first columns.
    kinds : tuple of (dtype or None)
        Types of all columns; None for an absent column.
    """

    def __init__(
        self, rows: int, widths: tuple[int, ...], kinds: tuple[np.dtype | None, ...]
    ) -> None:
        self.widths = widths
        sizes = [0 if kind is None else -(-rows * kind.itemsize // _LINE) * _LINE for kind in kinds]
        self.memory, lo = borrow(sum(sizes)), 0
        #: One array for each type.
        self.columns: list[np.ndarray | None] = []
        for kind, size in zip(kinds, sizes, strict=True):
            column = None
            if kind is not None:
                column = self.memory[lo : lo + rows * kind.itemsize].view(kind)
            self.columns.append(column)
            lo += size
        self.free = self.rows = rows


@dataclass(frozen=True)
class PartitionedBatch:
    """A batch of rows, sorted by partition.

    Rows of a partition stay in input order.

    Parameters
    ----------
    block : Block
        Words of each key column, minus `base`, as int64 or uint32; then the arrays of `Rows` and
        row numbers, in the same order of rows.
    item : pyarrow.Array or None
        Item ids, in the same order of rows.
    bounds : ndarray of int64, shape (PARTITIONS + 1,), read-only
        First row of each partition in the block, then the end of the last one.
    base : int
        Number to add to the words.
    """

    block: Block
    item: pa.Array | None
    bounds: np.ndarray
    base: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.bounds[-1] - self.bounds[0])

    @property
    def words(self) -> list[list[np.ndarray]]:
        """Words of each key column, minus `base`."""
        columns = iter(self._columns())
        return [
            [cast(np.ndarray, next(columns)) for _ in range(width)] for width in self.block.widths
        ]

    @property
    def parts(self) -> list[np.ndarray | None]:
        """Arrays as in `Rows`, then row numbers."""
        return self._columns()[sum(self.block.widths) :]

    @property
    def bytes(self) -> int:
        """Bytes of memory that grow with the number of rows."""
        arrays = [column for column in self._columns() if column is not None]
        return sum(array.nbytes for array in arrays) + (self.item.nbytes if self.item else 0)

    def _columns(self) -> list[np.ndarray | None]:
        rows = slice(self.bounds[0], self.bounds[-1])
        return [None if column is None else column[rows] for column in self.block.columns]


class Partitioner:
    """Partitioner of batches by group key; threads may share it.

    Parameters
    ----------
    names : sequence of str
        Names of the key columns.
    kinds : sequence of pyarrow.DataType
        Types of the key columns, decoded.
    plan_columns : PlanColumns
        Indices of the arrays.
    keep_numbers : bool
        Partition row numbers too.
    rows : int
        Rows to come, which share a block of memory; 0 if they are not known.
    memory : int
        Bytes that a block may have.
    """

    def __init__(
        self,
        names: Sequence[str],
        kinds: Sequence[pa.DataType],
        plan_columns: PlanColumns,
        *,
        keep_numbers: bool,
        rows: int,
        memory: int,
    ) -> None:
        self.columns = [KeyEncoder(name, kind) for name, kind in zip(names, kinds, strict=True)]
        self.plan_columns = plan_columns
        #: Whether a key is one word that preserves differences of keys.
        self.integer = len(self.columns) == 1 and self.columns[0].integer
        self._keeps_numbers = keep_numbers
        self._rows, self._memory = rows, memory
        self._blocks: dict[tuple[Any, ...], Block] = {}
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """Bytes of memory of long keys, which are stored outside the rows."""
        return sum(column.bytes for column in self.columns)

    def give_back(self) -> None:
        """Store the memory of the rows for the next run; they are not read again."""
        for block in self._blocks.values():
            give_back(block.memory)

    def separate(self) -> None:
        """Put each later batch into a block of its own, freed with it."""
        with self._lock:
            self._rows = 0
            self._blocks.clear()

    def partition(self, batch: Rows) -> PartitionedBatch:
        """Sort the rows of a batch by partition."""
        rows = batch.count
        words = [kind.words(key) for kind, key in zip(self.columns, batch.keys, strict=True)]
        base = 0
        kind: np.dtype = np.dtype(np.int64)
        if self.integer:
            hashes = words[0][0].view(np.uint64)
            least, narrow = _least_of_narrow(words[0][0])
            if narrow:
                # Half the memory: the first touch of memory costs 0.5 ns a byte.
                base, kind = least, np.dtype(np.uint32)
        else:
            hashes = hash_keys(words, scratch("hash", rows, np.uint64))
        bounds = np.zeros(PARTITIONS + 1, np.int64)
        position = scratch("position in batch", rows, np.uint32)
        _find_positions(
            frozen(hashes.view()), scratch("partition", rows, np.uint8), bounds, position
        )
        every = [word for column_words in words for word in column_words]
        kinds: list[np.dtype | None] = [kind] * len(every)
        parts = [*batch.arrays, self._numbers(batch)]
        kinds += [None if part is None else part.dtype for part in parts]
        block, lo = self._room(rows, tuple(map(len, words)), tuple(kinds))
        for values, column in zip([*every, *parts], block.columns, strict=True):
            if values is None or column is None:
                continue
            out = column[lo : lo + rows]
            if values.dtype == column.dtype:
                width = f"u{out.itemsize}"
                values = np.ascontiguousarray(values).view(width)
                _scatter(frozen(values), position, out.view(width))
            else:
                _scatter_words(values, base, position, out)
        item = batch.item
        if item is not None:
            row_at = np.empty(rows, np.int64)
            row_at[position] = np.arange(rows)
            item = item.take(row_column(row_at))
        return PartitionedBatch(block, item, frozen(bounds + lo), base)

    def _room(
        self, rows: int, widths: tuple[int, ...], kinds: tuple[np.dtype | None, ...]
    ) -> tuple[Block, int]:
        """Find room for rows of some types: a block, and the first row in it."""
        with self._lock:
            block = self._blocks.get((widths, kinds))
            if block is None or block.free < rows:
                row_bytes = sum(kind.itemsize for kind in kinds if kind is not None)
                shared = min(self._rows, self._memory // row_bytes)
                block = Block(max(rows, shared), widths, kinds)
                if shared:
                    self._blocks[widths, kinds] = block
            block.free -= rows
            return block, block.rows - block.free - rows

    def _numbers(self, batch: Rows) -> np.ndarray | None:
        if not self._keeps_numbers:
            return None
        if batch.row_numbers is not None:
            return batch.row_numbers
        return batch.first_row + np.arange(batch.count)


@kernel
def _least_of_narrow(words):  # type: ignore[no-untyped-def]
    """Return the least word, and whether all span less than 2**32."""
    least = greatest = words[0]
    for lo in range(0, words.shape[0], _ROWS_AT_ONCE):
        # The loop vectorises only over a slice.
        block = words[lo : lo + _ROWS_AT_ONCE]
        for i in range(block.shape[0]):
            least = min(least, block[i])
            greatest = max(greatest, block[i])
        if np.uint64(greatest) - np.uint64(least) >= np.uint64(1 << 32):
            return least, False
    return least, True


@kernel
def _find_positions(hashes, partition, bounds, position):  # type: ignore[no-untyped-def]
    # Two loops: the first is vectorised.
    for i in range(hashes.shape[0]):
        partition[i] = (hashes[i] * np.uint64(_FACTOR)) >> np.uint64(64 - PARTITION_BITS)
    for i in range(hashes.shape[0]):
        bounds[partition[i]] += 1
    end = 0
    for p in range(PARTITIONS):
        rows = bounds[p]
        bounds[p] = end
        end += rows
    for i in range(hashes.shape[0]):
        p = partition[i]
        position[i] = bounds[p]
        bounds[p] += 1
    for p in range(PARTITIONS, 0, -1):
        bounds[p] = bounds[p - 1]
    bounds[0] = 0


@kernel
def _scatter(values, position, out):  # type: ignore[no-untyped-def]
    for i in range(values.shape[0]):
        out[position[i]] = values[i]


@kernel
def _scatter_words(words, base, position, out):  # type: ignore[no-untyped-def]
    for i in range(words.shape[0]):
        out[position[i]] = words[i] - base
