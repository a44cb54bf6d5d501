"""Partition rows by the hash of their group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.io.columns import Columns
from fastrank_eval.io.keys import HASH_BITS, KeyEncoder, hash_keys

#: Bits of the number of a partition.
PARTITION_BITS = HASH_BITS
PARTITIONS = 1 << PARTITION_BITS
#: Rows of a segment: each segment of a batch is partitioned by itself.
SEGMENT = 1 << 15
#: Unpacked: a key of 8 bytes, a score and a label. Packed: 8 bytes together.
_BYTES_ADDED_BY_UNPACKING = 5


@dataclass(frozen=True)
class PartitionedBatch:
    """A batch of rows, sorted by partition inside each segment.

    Rows of one segment and one partition stay in input order.

    Parameters
    ----------
    words : list of (list of ndarray of int64 or uint32, shape (rows,))
        Words of each key column, minus `base`.
    parts : list of (ndarray of shape (rows,), or None)
        Arrays as in `Columns.arrays`, in the same order of rows.
    item : pyarrow.Array or None
        Item ids, in the same order of rows.
    bounds : ndarray of int32, shape (segments, PARTITIONS + 1)
        First row of each partition in each segment, then the end of the segment.
    base : int
        Number to add to the words.
    min_word, max_word : int
        Smallest and largest word, where the key is an integer; else 0.
    packed_rows : ndarray of uint64, shape (rows,), or None
        Rows as single words (see `pack`), instead of `words` and `parts`.
    label : dtype or None
        Type of the packed labels.
    """

    words: list[list[np.ndarray]]
    parts: list[np.ndarray | None]
    item: pa.Array | None
    bounds: np.ndarray
    base: int
    min_word: int
    max_word: int
    packed_rows: np.ndarray | None = None
    label: np.dtype | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.bounds[-1, -1])

    @property
    def bytes(self) -> int:
        """Bytes of memory that grow with the number of rows."""
        arrays = [word for words in self.words for word in words]
        parts = [*self.parts, self.packed_rows]
        arrays += [part for part in parts if part is not None]
        return sum(part.nbytes for part in arrays) + (self.item.nbytes if self.item else 0)

    @property
    def bytes_unpacked(self) -> int:
        """Bytes of memory of the rows when unpacked."""
        return (
            self.bytes
            if self.packed_rows is None
            else self.bytes + self.rows * _BYTES_ADDED_BY_UNPACKING
        )

    def unpack(self) -> PartitionedBatch:
        """Return the same rows, not packed."""
        if self.packed_rows is None:
            return self
        label = cast(np.dtype, self.label)
        words, labels, scores = unpack_rows(
            self.packed_rows, self.bounds, self.base, PARTITION_BITS, label
        )
        parts = Columns.from_arrays(
            [labels, scores, None, None, None, None, None], 1, None
        ).arrays()
        return PartitionedBatch(
            [[words]], parts, None, self.bounds, 0, self.min_word, self.max_word
        )


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
    keep_order : bool
        Keep the rows of a group in input order.
    """

    def __init__(
        self,
        names: Sequence[str],
        kinds: Sequence[pa.DataType],
        models: int,
        *,
        keep_numbers: bool,
        keep_order: bool,
    ) -> None:
        self.columns = [KeyEncoder(name, kind) for name, kind in zip(names, kinds, strict=True)]
        self.models = models
        #: Whether a key is one word. Then its partition and its upper bits determine it.
        self.integer = len(self.columns) == 1 and self.columns[0].integer
        self._keeps_numbers = keep_numbers
        self._packs = self.integer and models == 1 and not keep_numbers and not keep_order

    @property
    def bytes(self) -> int:
        """Bytes of memory of long keys, which are stored outside the rows."""
        return sum(column.bytes for column in self.columns)

    def partition(self, columns: Columns) -> PartitionedBatch:
        """Sort the rows of each segment of a batch by partition."""
        rows = columns.rows
        words = [kind.words(key) for kind, key in zip(self.columns, columns.keys, strict=True)]
        bounds = np.empty((-(-rows // SEGMENT), PARTITIONS + 1), np.int32)
        partition_index = scratch("partition", rows, np.uint16)
        position = scratch("position in segment", rows, np.uint16)
        base = min_word = max_word = 0
        kind: type = np.int64
        if self.integer:
            ((word,),) = words
            _partitions_of_integers(word, partition_index)
            min_word, max_word = int(word.min()), int(word.max())
            if max_word - min_word < 1 << UPPER_BITS + PARTITION_BITS - 1:
                # Half the memory: the first touch of memory costs 0.5 ns a byte.
                base, kind = min_word >> PARTITION_BITS << PARTITION_BITS, np.uint32
        else:
            hashes = hash_keys(words, scratch("hash", rows, np.uint64))
            np.bitwise_and(hashes, np.uint64(PARTITIONS - 1), out=partition_index, casting="unsafe")
        _find_positions(partition_index, bounds, position)
        columns = replace(columns, row_numbers=self._numbers(columns))
        if self._packs and kind is np.uint32 and packable(columns):
            packed_rows = pack(words[0][0], base, PARTITION_BITS, columns, position, SEGMENT)
            label = columns.label.dtype
            return PartitionedBatch(
                [], [], None, frozen(bounds), base, min_word, max_word, packed_rows, label
            )

        def reorder(values: np.ndarray | None) -> np.ndarray | None:
            if values is None:
                return None
            out = np.empty(rows, values.dtype)
            width = f"u{values.dtype.itemsize}"
            _scatter(frozen(np.ascontiguousarray(values).view(width)), position, out.view(width))
            return frozen(out)

        def reorder_word(word: np.ndarray) -> np.ndarray:
            out: np.ndarray = np.empty(rows, kind)
            _scatter_words(word, base, position, out)
            return frozen(out)

        item = columns.item
        if item is not None:
            item = item.take(row_column(cast(np.ndarray, reorder(np.arange(rows)))))
        return PartitionedBatch(
            [[reorder_word(word) for word in column_words] for column_words in words],
            [reorder(part) for part in columns.arrays()],
            item,
            frozen(bounds),
            base,
            min_word,
            max_word,
        )

    def _numbers(self, columns: Columns) -> np.ndarray | None:
        if not self._keeps_numbers:
            return None
        if columns.row_numbers is not None:
            return columns.row_numbers
        return columns.first_row + np.arange(columns.rows)


def can_stay_packed(batches: Iterable[PartitionedBatch]) -> bool:
    """Tell whether batches can be joined in packed form.

    All have to be packed, with a range of keys small enough to join them.
    """
    lowest, highest, all_packed = [], [], True
    for batch in batches:
        lowest.append(batch.min_word >> PARTITION_BITS)
        highest.append(batch.max_word >> PARTITION_BITS)
        all_packed &= batch.packed_rows is not None
    return all_packed and max(highest) - min(lowest) < 1 << UPPER_BITS


@kernel
def _partitions_of_integers(words, partitions):  # type: ignore[no-untyped-def]
    # Lower bits xor a hash of the upper bits. Consecutive keys fill all partitions equally. Keys
    # that share their lower bits go to different partitions. Inside a partition the upper bits
    # alone identify a key.
    for i in range(words.shape[0]):
        word = words[i]
        partitions[i] = (word & (PARTITIONS - 1)) ^ _mix_upper_bits(word)


@kernel
def _mix_upper_bits(word):  # type: ignore[no-untyped-def]
    upper = np.uint64(word) >> np.uint64(PARTITION_BITS)
    return np.int64((upper * np.uint64(MULTIPLIER)) >> np.uint64(64 - PARTITION_BITS))


@kernel
def _find_positions(partitions, bounds, position):  # type: ignore[no-untyped-def]
    for b in range(bounds.shape[0]):
        lo = b * SEGMENT
        hi = min(lo + SEGMENT, partitions.shape[0])
        ends = bounds[b]
        for p in range(PARTITIONS + 1):
            ends[p] = 0
        for i in range(lo, hi):
            ends[partitions[i]] += 1
        end = np.int32(hi)
        for p in range(PARTITIONS, -1, -1):
            end -= ends[p]
            ends[p] = end
        for i in range(lo, hi):
            p = partitions[i]
            position[i] = ends[p] - lo
            ends[p] += 1
        for p in range(PARTITIONS, 0, -1):
            ends[p] = ends[p - 1]
        ends[0] = lo
        ends[PARTITIONS] = hi


@kernel
def _scatter(values, position, out):  # type: ignore[no-untyped-def]
    for lo in range(0, values.shape[0], SEGMENT):
        for i in range(lo, min(lo + SEGMENT, values.shape[0])):
            out[lo + position[i]] = values[i]


@kernel
def _scatter_words(words, base, position, out):  # type: ignore[no-untyped-def]
    for lo in range(0, words.shape[0], SEGMENT):
        for i in range(lo, min(lo + SEGMENT, words.shape[0])):
            out[lo + position[i]] = words[i] - base


#: Upper bits of a key that fit in a packed row; the partition gives the lower `PARTITION_BITS`.
UPPER_BITS = 24
#: Factor of the hash of the upper bits.
MULTIPLIER = 0x9E3779B97F4A7C15


def packable(columns: Columns) -> bool:
    """Tell whether rows have only a label and a score, which fit in a word."""
    others = [part for part in columns.arrays()[2:] if part is not None]
    alone = not others and columns.item is None and len(columns.scores) == 1
    floats = columns.scores[0].dtype == np.float32
    return alone and floats and columns.label.dtype.itemsize == 1


def pack(
    words: np.ndarray, base: int, bits: int, columns: Columns, position: np.ndarray, segment: int
) -> np.ndarray:
    """Pack rows into words, in order of their position in the segment.

    Parameters
    ----------
    words : ndarray of int64, shape (rows,), read-only
        The keys.
    base : int
        At most the smallest key, a multiple of 2**bits.
    bits : int
        Number of lower bits of a key to leave out.
    columns : Columns
        Columns with label and score.
    position : ndarray of uint16, shape (rows,)
        Position of a row in its segment.
    segment : int
        Rows of a segment.

    Returns
    -------
    ndarray of uint64, shape (rows,), read-only
    """
    packed_rows = np.empty(len(words), np.uint64)
    score, label = (frozen(part.view()) for part in (columns.scores[0], columns.label))
    scores, labels = frozen(score.view(np.uint32)), frozen(label.view(np.uint8))
    _pack(words, base, bits, scores, labels, position, segment, packed_rows)
    return frozen(packed_rows)


def unpack_rows(
    packed_rows: np.ndarray, bounds: np.ndarray, base: int, bits: int, label: np.dtype
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unpack keys, labels and scores.

    Parameters
    ----------
    packed_rows : ndarray of uint64, shape (rows,), read-only
    bounds : ndarray of int32, shape (segments, partitions + 1), read-only
        First row of each partition in each segment, then the end of the segment.
    base, bits : int
        As for `pack`.
    label : dtype
        Type of the labels, of one byte.
    """
    partitions = np.arange(bounds.shape[1] - 1)
    of_row = np.concatenate([np.repeat(partitions, np.diff(ends)) for ends in bounds])
    words = keys_of_packed(packed_rows, of_row, base, bits)
    labels, scores = np.empty(len(packed_rows), np.uint8), np.empty(len(packed_rows), np.uint32)
    _unpack(packed_rows, labels, scores)
    return frozen(words), frozen(labels.view(label)), frozen(scores.view(np.float32))


def sort_partitions(
    packed_rows: np.ndarray,
    bounds: np.ndarray,
    labels: np.ndarray,
    scores: np.ndarray,
    starts: np.ndarray,
) -> int:
    """Sort the packed rows of each partition into whole groups.

    The best row of a group comes first.

    Parameters
    ----------
    packed_rows : ndarray of uint64, shape (rows,)
        Sorted in place.
    bounds : ndarray of int64, shape (partitions + 1,), read-only
        First row of each partition, then the number of rows.
    labels, scores : ndarray of uint8, uint32, shape (rows,)
        Output.
    starts : ndarray of int64, shape (rows + 1,)
        Output: first row of each group, then the number of rows.

    Returns
    -------
    int
        Number of groups.
    """
    for lo, hi in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        packed_rows[lo:hi].sort()
    sorted_words = frozen(packed_rows.view())
    _unpack(sorted_words, labels, scores)
    return int(_find_starts(sorted_words, bounds, starts))


def keys_of_packed(
    packed_rows: np.ndarray, partitions: np.ndarray, base: int, bits: int
) -> np.ndarray:
    """Restore the keys of packed rows from their partitions. int64."""
    words = base + ((packed_rows >> np.uint64(64 - UPPER_BITS)).astype(np.int64) << bits)
    upper = words.view(np.uint64) >> np.uint64(bits)
    mixed_bits = (upper * np.uint64(MULTIPLIER)) >> np.uint64(64 - bits)
    return words | (partitions ^ mixed_bits.astype(np.int64))


@kernel
def _pack(words, base, bits, scores, labels, position, segment, packed_rows):  # type: ignore[no-untyped-def]
    for lo in range(0, words.shape[0], segment):
        for i in range(lo, min(lo + segment, words.shape[0])):
            score = scores[i]
            # Bits that sort descending, with -0.0 as 0.0.
            if score == np.uint32(0x80000000):
                score = np.uint32(0)
            if score < np.uint32(0x80000000):
                score ^= np.uint32(0x7FFFFFFF)
            upper = np.uint64((words[i] - base) >> bits)
            word = (upper << np.uint64(32)) | np.uint64(score)
            packed_rows[lo + position[i]] = (word << np.uint64(8)) | np.uint64(labels[i])


@kernel
def _unpack(packed_rows, labels, scores):  # type: ignore[no-untyped-def]
    for i in range(packed_rows.shape[0]):
        labels[i] = np.uint8(packed_rows[i] & np.uint64(0xFF))
        score = np.uint32((packed_rows[i] >> np.uint64(8)) & np.uint64(0xFFFFFFFF))
        if score < np.uint32(0x80000000):
            score ^= np.uint32(0x7FFFFFFF)
        scores[i] = score


@kernel
def _find_starts(packed_rows, bounds, starts):  # type: ignore[no-untyped-def]
    groups = 0
    for p in range(bounds.shape[0] - 1):
        if bounds[p] == bounds[p + 1]:
            continue
        starts[groups] = bounds[p]
        groups += 1
        for i in range(bounds[p] + 1, bounds[p + 1]):
            starts[groups] = i
            groups += (packed_rows[i] ^ packed_rows[i - 1]) >> np.uint64(40) != 0
    starts[groups] = bounds[bounds.shape[0] - 1]
    return groups
