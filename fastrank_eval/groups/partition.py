"""Partition rows by the hash of their group.

Every row of a batch goes straight to its partition: a first pass finds its place, then one pass for
each column moves the values. A pass over all columns would be three times slower: 256 places of
one column fit the first-level cache, those of three do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.io.columns import Columns
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


@dataclass(frozen=True)
class PartitionedBatch:
    """A batch of rows, sorted by partition.

    Rows of a partition stay in input order.

    Parameters
    ----------
    words : list of (list of ndarray of int64 or uint32, shape (rows,))
        Words of each key column, minus `base`.
    parts : list of (ndarray of shape (rows,), or None)
        Arrays as in `Columns.arrays`, in the same order of rows.
    item : pyarrow.Array or None
        Item ids, in the same order of rows.
    bounds : ndarray of int64, shape (PARTITIONS + 1,), read-only
        First row of each partition, then the number of rows.
    base : int
        Number to add to the words.
    """

    words: list[list[np.ndarray]]
    parts: list[np.ndarray | None]
    item: pa.Array | None
    bounds: np.ndarray
    base: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.bounds[-1])

    @property
    def bytes(self) -> int:
        """Bytes of memory that grow with the number of rows."""
        arrays = [word for words in self.words for word in words]
        arrays += [part for part in self.parts if part is not None]
        return sum(array.nbytes for array in arrays) + (self.item.nbytes if self.item else 0)


class Partitioner:
    """Partitioner of batches by group key; threads may share it.

    Parameters
    ----------
    names : sequence of str
        Names of the key columns.
    kinds : sequence of pyarrow.DataType
        Types of the key columns, decoded.
    models : int
        Number of score columns.
    keep_numbers : bool
        Partition row numbers too.
    """

    def __init__(
        self,
        names: Sequence[str],
        kinds: Sequence[pa.DataType],
        models: int,
        *,
        keep_numbers: bool,
    ) -> None:
        self.columns = [KeyEncoder(name, kind) for name, kind in zip(names, kinds, strict=True)]
        self.models = models
        #: Whether a key is one word that preserves differences of keys.
        self.integer = len(self.columns) == 1 and self.columns[0].integer
        self._keeps_numbers = keep_numbers

    @property
    def bytes(self) -> int:
        """Bytes of memory of long keys, which are stored outside the rows."""
        return sum(column.bytes for column in self.columns)

    def partition(self, columns: Columns) -> PartitionedBatch:
        """Sort the rows of a batch by partition."""
        rows = columns.rows
        words = [kind.words(key) for kind, key in zip(self.columns, columns.keys, strict=True)]
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
        parts = replace(columns, row_numbers=self._numbers(columns)).arrays()
        kinds = [kind for column_words in words for _ in column_words]
        memory = _columns_of_memory(
            rows, [*kinds, *(part.dtype for part in parts if part is not None)]
        )

        def reorder_word(word: np.ndarray) -> np.ndarray:
            out = next(memory)
            _scatter_words(word, base, position, out)
            return frozen(out)

        def reorder(values: np.ndarray | None) -> np.ndarray | None:
            if values is None:
                return None
            out = next(memory)
            width = f"u{values.dtype.itemsize}"
            _scatter(frozen(np.ascontiguousarray(values).view(width)), position, out.view(width))
            return frozen(out)

        item = columns.item
        if item is not None:
            row_at = np.empty(rows, np.int64)
            row_at[position] = np.arange(rows)
            item = item.take(row_column(row_at))
        return PartitionedBatch(
            [[reorder_word(word) for word in column_words] for column_words in words],
            [reorder(part) for part in parts],
            item,
            frozen(bounds),
            base,
        )

    def _numbers(self, columns: Columns) -> np.ndarray | None:
        if not self._keeps_numbers:
            return None
        if columns.row_numbers is not None:
            return columns.row_numbers
        return columns.first_row + np.arange(columns.rows)


def _columns_of_memory(rows: int, kinds: Sequence[np.dtype]) -> Iterator[np.ndarray]:
    """Yield arrays that together are one block of memory.

    Systems give large blocks large pages: three columns take 1 ns a row to touch, not 4.
    """
    sizes = [-(-rows * kind.itemsize // _LINE) * _LINE for kind in kinds]
    block, lo = np.empty(sum(sizes), np.uint8), 0
    for kind, size in zip(kinds, sizes, strict=True):
        yield block[lo : lo + rows * kind.itemsize].view(kind)
        lo += size


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
