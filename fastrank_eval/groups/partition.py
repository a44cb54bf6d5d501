"""Partition rows by the hash of their group.

Every row of a batch goes straight to its partition: a first pass finds its place, then one pass for
each column moves the values. A pass over all columns would be three times slower: 256 places of
one column fit the first-level cache, those of three do not.

Gather partitioned batches into chunks of whole groups.

A chunk is a few partitions, copied from every batch. The keys are copied first and numbered inside
the cache. Then one pass for each column moves its values to their groups.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice, repeat
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import borrow, give_back, scratch
from fastrank_eval.groups.scan import Groups, Keys
from fastrank_eval.io.columns import Columns, PlanColumns
from fastrank_eval.io.keys import KeyEncoder, encode_rows, hash_keys

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
        self.row_bytes = sum(kind.itemsize for kind in kinds if kind is not None)


@dataclass(frozen=True)
class PartitionedBatch:
    """A batch of rows, sorted by partition.

    Rows of a partition stay in input order.

    Parameters
    ----------
    block : Block
        Words of each key column, minus `base`, as int64 or uint32; then the arrays of `Columns` and
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
        """Arrays as in `Columns`, then row numbers."""
        return self._columns()[sum(self.block.widths) :]

    @property
    def bytes(self) -> int:
        """Bytes of memory that grow with the number of rows."""
        return self.rows * self.block.row_bytes + (self.item.nbytes if self.item else 0)

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
    outer : int
        The number of key columns, from the first on, that divide rows: those of clusters.
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
        outer: int,
    ) -> None:
        self.columns = [KeyEncoder(name, kind) for name, kind in zip(names, kinds, strict=True)]
        self.plan_columns, self.outer = plan_columns, outer
        #: Whether a key is one word that preserves differences of keys.
        self.integer = len(self.columns) == 1 and self.columns[0].integer
        self._kind_of_numbers: np.dtype | None = None
        if keep_numbers:
            self._kind_of_numbers = np.dtype(np.uint32 if 0 < rows < 1 << 32 else np.int64)
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

    def partition(self, batch: Columns) -> PartitionedBatch:
        """Sort the rows of a batch by partition."""
        rows = batch.rows
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
            hashes = hash_keys(words[: self.outer], scratch("hash", rows, np.uint64))
        bounds = np.zeros(PARTITIONS + 1, np.int64)
        position = scratch("position in batch", rows, np.uint32)
        _find_positions(
            frozen(hashes.view()), scratch("partition", rows, np.uint8), bounds, position
        )
        every = [word for column_words in words for word in column_words]
        kinds: list[np.dtype | None] = [kind] * len(every)
        numbers, kind_of_numbers = batch.row_numbers, self._kind_of_numbers
        if numbers is not None and kind_of_numbers is not None:
            numbers = numbers.astype(kind_of_numbers)
        kinds += [None if part is None else part.dtype for part in batch.arrays]
        kinds.append(kind_of_numbers)
        block, lo = self._room(rows, tuple(map(len, words)), tuple(kinds))
        for values, column in zip([*every, *batch.arrays, numbers], block.columns, strict=True):
            if column is None:
                continue
            out = column[lo : lo + rows]
            if values is None:
                _scatter_numbers(batch.first_row, position, out)
            elif values.dtype == column.dtype:
                width = f"u{out.itemsize}"
                values = np.ascontiguousarray(values).view(width)
                _scatter(frozen(values), position, out.view(width))
            else:
                _scatter_words(values, base, position, out)
        item = batch.item
        if item is not None:
            row_at = np.empty(rows, np.int64)
            _scatter_numbers(0, position, row_at)
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


@kernel
def _move_rows(position, new_position):  # type: ignore[no-untyped-def]
    for i in range(position.shape[0]):
        position[i] = new_position[position[i]]


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
def _scatter_numbers(first, position, out):  # type: ignore[no-untyped-def]
    for i in range(position.shape[0]):
        out[position[i]] = first + i


@kernel
def _scatter_words(words, base, position, out):  # type: ignore[no-untyped-def]
    for i in range(words.shape[0]):
        out[position[i]] = words[i] - base


#: Rows of a chunk, and the fewest rows of one where threads share the rows.
CHUNK_ROWS, _FEWEST_ROWS = 1 << 20, 1 << 17


class _Batches(NamedTuple):
    """Batches that share a block, in input order.

    Parameters
    ----------
    words : list of (int, ndarray, ndarray), read-only
        For each word of the keys, and for the row numbers: its index among all; its value in each
        row, as in `PartitionedBatch`; int64, shape (batches,): the numbers to add.
    parts : list of (ndarray of unsigned integers, read-only, or None)
        The bits of the other columns.
    bounds : ndarray of int64, shape (batches, PARTITIONS + 1), read-only
        First row of each batch and partition in the block.
    begins : ndarray of int64, shape (batches, PARTITIONS), read-only
        The same among all rows, partition by partition, all batches in order.
    """

    words: list[tuple[int, np.ndarray, np.ndarray]]
    parts: list[np.ndarray | None]
    bounds: np.ndarray
    begins: np.ndarray


class Gathered(NamedTuple):
    """Rows of a chunk, which the thread's next chunk overwrites.

    Parameters
    ----------
    rows : Columns
        Without keys, in input order inside each group.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    keys : callable
        Maps positions of groups to their keys.
    first_rows, clusters : ndarray of int64, or None
        As in `Chunk`.
    """

    rows: Columns
    starts: np.ndarray
    keys: Callable[[Groups], Keys]
    first_rows: np.ndarray | None
    clusters: np.ndarray | None


class Gatherer:
    """Gatherer of partitioned batches into chunks; threads may share it.

    Parameters
    ----------
    partitioner : Partitioner
        The partitioner that made the batches.
    batches : list of PartitionedBatch
        In input order, at least one.
    number_rows : bool
        Gather the numbers of all rows, not only those of the first rows of groups.
    """

    def __init__(
        self, partitioner: Partitioner, batches: list[PartitionedBatch], *, number_rows: bool
    ) -> None:
        self._partitioner, self._batches = partitioner, batches
        bounds = np.stack([batch.bounds for batch in batches])
        counts = np.diff(bounds).T
        begins = np.zeros(counts.size + 1, np.int64)
        np.cumsum(counts.ravel(), out=begins[1:])
        self._bounds = begins[:: len(batches)].copy()
        self._begins = begins[:-1].reshape(counts.shape).T
        blocks = {id(batch.block): batch.block for batch in batches}.values()
        self._widths = [*map(max, zip(*(block.widths for block in blocks), strict=True))]
        firsts = [*accumulate(self._widths, initial=0)]
        self._blocks = []
        for block in blocks:
            here = [b for b, batch in enumerate(batches) if batch.block is block]
            bases = frozen(np.array([batches[b].base for b in here]))
            zeros, width = frozen(np.zeros(len(here), np.int64)), sum(block.widths)
            each = zip(firsts, block.widths, strict=False)
            indices = [first + w for first, words in each for w in range(words)]
            stored = [*zip(indices, block.columns, repeat(bases), strict=False)]
            stored.append((firsts[-1], block.columns[-1], zeros))
            words = [(w, frozen(word.view()), add) for w, word, add in stored if word is not None]
            bits = [None if a is None else a.view(f"u{a.itemsize}") for a in block.columns[width:]]
            parts = [None if array is None else frozen(array) for array in bits]
            at = frozen(bounds[here]), frozen(self._begins[here])
            self._blocks.append(_Batches(words, parts, *at))
        #: Types of the other columns; None where no batch has one.
        self._kinds = [
            next((array.dtype for array in arrays if array is not None), None)
            for arrays in zip(*(batch.parts for batch in batches), strict=True)
        ]
        self._has_numbers = self._kinds[-1] is not None
        if not number_rows:
            self._kinds[-1] = None

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

    def gather(self, partitions: range) -> Gathered:
        """Gather a range of partitions into a chunk."""
        rows, block = self.rows(partitions), self._blocks[0]
        position = scratch("position in chunk", rows, np.uint32)
        heads, starts = scratch("chunk heads", rows), scratch("chunk starts", rows + 1)
        output = position, heads, starts
        if len(self._blocks) == 1 and self._widths == [1]:
            _, words, bases = block.words[0]
            bounds = block.bounds[:, partitions.start : partitions.stop + 1]
            ends = encode_rows(words.reshape(1, -1), bounds, *output, bases, place=True)
        else:
            bounds = self._bounds[None, partitions.start : partitions.stop + 1]
            bounds = bounds - bounds[0, 0]
            ends = encode_rows(self._words(partitions), bounds, *output, place=True)
        groups = int(ends[-1])
        starts[groups] = rows
        of_groups, clusters = self._words(partitions, heads[:groups]), None
        if self._partitioner.outer < len(self._partitioner.columns):
            of_groups, clusters = self._sort_by_cluster(of_groups, position, starts)
        position = frozen(position.view())
        places = [self._place(block, partitions) for block in self._blocks]
        *arrays, numbers = [
            None if kind is None else self._part(part, kind, places, position)
            for part, kind in enumerate(self._kinds)
        ]
        items = self._items(partitions, position)
        chunk = Columns(0, rows, (), tuple(arrays), items, numbers)

        def keys(wanted: Groups) -> Keys:
            words = iter(of_groups[:, wanted])
            pairs = zip(self._partitioner.columns, self._widths, strict=True)
            return tuple([column.keys(list(islice(words, width))) for column, width in pairs])

        first_rows = of_groups[-1] if self._has_numbers else None
        return Gathered(chunk, starts[: groups + 1], keys, first_rows, clusters)

    def _sort_by_cluster(
        self, words: np.ndarray, position: np.ndarray, starts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Put groups of a cluster side by side.

        Returns
        -------
        words : ndarray
            Words of the keys of groups, in the new order.
        clusters : ndarray of int64
            As in `Chunk`.
        """
        groups, width = words.shape[1], sum(self._widths[: self._partitioner.outer])
        order = np.lexsort(words[:width][::-1])
        words = words[:, order]
        changes = np.any(words[:width, 1:] != words[:width, :-1], axis=0)
        sizes = np.diff(starts[: groups + 1])
        moved = np.append(0, np.cumsum(sizes[order]))
        shift = np.empty(groups, np.uint32)  # wraps where groups move down
        shift[order] = (moved[:-1] - starts[:groups][order]).astype(np.uint32)
        new_position = np.repeat(shift, sizes)
        new_position += np.arange(len(new_position), dtype=np.uint32)
        _move_rows(position, new_position)
        starts[: groups + 1] = moved
        return words, np.concatenate([[0], np.flatnonzero(changes) + 1, [groups]])

    def _place(self, block: _Batches, partitions: range) -> tuple[Any, ...]:
        """Return where rows of a block lie in it, and in the chunk, for kernels."""
        first = partitions.start
        return block.bounds, block.begins, first, partitions.stop, int(self._bounds[first])

    def _words(self, partitions: range, heads: np.ndarray | None = None) -> np.ndarray:
        """Gather the words of all keys, partition by partition.

        Of all rows, or of some ascending ones, with their numbers.
        """
        width, some = sum(self._widths), () if heads is None else (heads,)
        if heads is None:
            rows, copy = self.rows(partitions), _copy_partitions
            words = scratch("words", width * rows).reshape(width, rows)
            if len(self._blocks) > 1:
                words[:] = 0  # shorter keys have fewer words
        else:
            copy = _copy_rows
            words = np.zeros((width + self._has_numbers, len(heads)), np.int64)
        for block in self._blocks:
            place = self._place(block, partitions)
            for w, word, bases in block.words:
                if w < len(words):
                    copy(word, bases, *place, *some, words[w])
        return frozen(words)

    def _part(
        self, part: int, kind: np.dtype, places: Sequence[tuple[Any, ...]], position: np.ndarray
    ) -> np.ndarray:
        """Gather one array of `PartitionedBatch.parts` in order of groups."""
        out = scratch(f"part {part}", len(position), kind)
        bits = out.view(f"u{kind.itemsize}")
        if any(block.parts[part] is None for block in self._blocks):
            bits[:] = 0
        for block, place in zip(self._blocks, places, strict=True):
            if block.parts[part] is not None:
                _scatter_partitions(block.parts[part], *place, position, bits)
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
def _copy_rows(words, bases, bounds, begins, first, last, origin, rows, out):  # type: ignore[no-untyped-def]
    """Copy the words of ascending rows."""
    k = 0
    for p in range(first, last):
        for b in range(bounds.shape[0]):
            lo = begins[b, p] - origin
            hi = lo + bounds[b, p + 1] - bounds[b, p]
            while k < rows.shape[0] and rows[k] < lo:
                k += 1
            while k < rows.shape[0] and rows[k] < hi:
                out[k] = bases[b] + np.int64(words[bounds[b, p] + rows[k] - lo])
                k += 1


@kernel
def _scatter_partitions(values, bounds, begins, first, last, origin, position, out):  # type: ignore[no-untyped-def]
    # Partition by partition: the places of one fit the second-level cache.
    for p in range(first, last):
        for b in range(bounds.shape[0]):
            source = values[bounds[b, p] : bounds[b, p + 1]]
            target = position[begins[b, p] - origin : begins[b, p] - origin + source.shape[0]]
            for k in range(source.shape[0]):
                out[target[k]] = source[k]
