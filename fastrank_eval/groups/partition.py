"""Partition rows by the hash of their group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.jit import kernel, scratch
from fastrank_eval.io.columns import Columns
from fastrank_eval.io.keys import KeyEncoder

#: Bits of the number of a piece, and rows of a block.
PIECE_BITS = 8
PIECES = 1 << PIECE_BITS
BLOCK = 1 << 15
#: A key of 8 bytes, a score and a label, instead of 8 bytes together.
_MORE_IF_OPENED = 5


@dataclass(frozen=True, slots=True)
class PartitionedBatch:
    """A stretch of rows, in each block in order of their piece, and in input order inside it.

    Parameters
    ----------
    words : list of (list of ndarray of int64 or uint32, shape (rows,))
        Words of each key column, less `base`.
    parts : list of (ndarray of shape (rows,), or None)
        What `Columns.parts` lists, in the same order of rows.
    item : pyarrow.Array or None
        Item ids, in the same order.
    bounds : ndarray of int32, shape (blocks, PIECES + 1)
        First row of each piece in each block, and the end of the block.
    base : int
        What to add to the words.
    least, most : int
        Smallest and largest word, where the key is an integer; else 0.
    packed : ndarray of uint64, shape (rows,), or None
        Rows as single words (see `packed`), instead of words and parts.
    label : dtype or None
        Of the labels that were packed.
    """

    words: list[list[np.ndarray]]
    parts: list[np.ndarray | None]
    item: pa.Array | None
    bounds: np.ndarray
    base: int
    least: int
    most: int
    packed: np.ndarray | None = None
    label: np.dtype | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.bounds[-1, -1])

    @property
    def bytes(self) -> int:
        """Bytes of memory that grow with the rows."""
        arrays = [word for words in self.words for word in words]
        parts = [*self.parts, self.packed]
        arrays += [part for part in parts if part is not None]
        return sum(part.nbytes for part in arrays) + (self.item.nbytes if self.item else 0)

    @property
    def bytes_opened(self) -> int:
        """Bytes of memory when they are not packed."""
        return self.bytes if self.packed is None else self.bytes + self.rows * _MORE_IF_OPENED

    def opened(self) -> PartitionedBatch:
        """The same rows, not packed."""
        if self.packed is None:
            return self
        label = cast(np.dtype, self.label)
        words, labels, scores = unpacked(self.packed, self.bounds, self.base, PIECE_BITS, label)
        parts = Columns.of_parts([labels, scores, None, None, None, None, None], 1, None).parts()
        return PartitionedBatch([[words]], parts, None, self.bounds, 0, self.least, self.most)


class Partitioner:
    """Deals stretches of rows; threads may share it.

    Parameters
    ----------
    names : sequence of str
        Names of the key columns.
    kinds : sequence of pyarrow.DataType
        Their types, decoded.
    models : int
        Number of score columns.
    keep_numbers : bool
        Deal row numbers too.
    keep_order : bool
        The rows of a group must stay in input order.
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
        #: Whether a key is one word that the number of its piece and its upper part tell.
        self.integer = len(self.columns) == 1 and self.columns[0].integer
        self._keep_numbers = keep_numbers
        self._packs = self.integer and models == 1 and not keep_numbers and not keep_order

    @property
    def bytes(self) -> int:
        """Bytes of memory that keys of great length take beside the rows."""
        return sum(column.bytes for column in self.columns)

    def deal(self, columns: Columns) -> PartitionedBatch:
        """Put the rows of a stretch in order of their piece."""
        rows = columns.rows
        words = [kind.words(key) for kind, key in zip(self.columns, columns.keys, strict=True)]
        bounds = np.empty((-(-rows // BLOCK), PIECES + 1), np.int32)
        piece = scratch("piece", rows, np.uint16)
        place = scratch("place in block", rows, np.uint16)
        base = least = most = 0
        kind: type = np.int64
        if self.integer:
            ((word,),) = words
            _pieces_of_integers(word, piece)
            least, most = int(word.min()), int(word.max())
            if most - least < 1 << UPPER_BITS + PIECE_BITS - 1:
                # Half the memory: to touch it first costs 0.5 ns a byte.
                base, kind = least >> PIECE_BITS << PIECE_BITS, np.uint32
        else:
            hashes = hashed(words, scratch("hash", rows, np.uint64))
            np.bitwise_and(hashes, np.uint64(PIECES - 1), out=piece, casting="unsafe")
        _places(piece, bounds, place)
        columns = replace(columns, numbers=self._numbers(columns))
        if self._packs and kind is np.uint32 and packable(columns):
            packed = pack(words[0][0], base, PIECE_BITS, columns, place, BLOCK)
            label = columns.label.dtype
            return PartitionedBatch([], [], None, frozen(bounds), base, least, most, packed, label)

        def dealt(values: np.ndarray | None) -> np.ndarray | None:
            if values is None:
                return None
            out = np.empty(rows, values.dtype)
            width = f"u{values.dtype.itemsize}"
            _move(frozen(np.ascontiguousarray(values).view(width)), place, out.view(width))
            return frozen(out)

        def dealt_word(word: np.ndarray) -> np.ndarray:
            out: np.ndarray = np.empty(rows, kind)
            _move_words(word, base, place, out)
            return frozen(out)

        item = columns.item
        if item is not None:
            item = item.take(row_column(cast(np.ndarray, dealt(np.arange(rows)))))
        return PartitionedBatch(
            [[dealt_word(word) for word in of_column] for of_column in words],
            [dealt(part) for part in columns.parts()],
            item,
            frozen(bounds),
            base,
            least,
            most,
        )

    def _numbers(self, columns: Columns) -> np.ndarray | None:
        if not self._keep_numbers:
            return None
        if columns.numbers is not None:
            return columns.numbers
        return columns.first_row + np.arange(columns.rows)


def stay_packed(batches: Iterable[PartitionedBatch]) -> bool:
    """Whether stretches are packed, and span few enough keys to stay so when they are joined."""
    least, most, packed = [], [], True
    for batch in batches:
        least.append(batch.least >> PIECE_BITS)
        most.append(batch.most >> PIECE_BITS)
        packed &= batch.packed is not None
    return packed and max(most) - min(least) < 1 << UPPER_BITS


def hashed(words: Sequence[Sequence[np.ndarray]], out: np.ndarray) -> np.ndarray:
    """A hash of each key; words that only fill up do not change it.

    Parameters
    ----------
    words : sequence of (sequence of ndarray of int64, shape (rows,))
        Of each key column.
    out : ndarray of uint64, shape (rows,)
    """
    out[:] = 0
    for c, of_column in enumerate(words):
        for w, word in enumerate(of_column):
            _add_word(word, _factor(c, w), out)
    _mix(out)
    return out


def _factor(column: int, word: int) -> np.uint64:
    """An odd number for each word of a key."""
    seed = (column << 32 | word) * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03
    seed = (seed ^ (seed >> 29)) * 0xBF58476D1CE4E5B9
    return np.uint64((seed ^ (seed >> 32) | 1) % (1 << 64))


@kernel
def _add_word(words, factor, out):  # type: ignore[no-untyped-def]
    for i in range(words.shape[0]):
        out[i] += np.uint64(words[i]) * factor


@kernel
def _mix(hashes):  # type: ignore[no-untyped-def]
    for i in range(hashes.shape[0]):
        h = hashes[i]
        h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        hashes[i] = h ^ (h >> np.uint64(32))


@kernel
def _pieces_of_integers(words, pieces):  # type: ignore[no-untyped-def]
    # The lower bits, turned by the upper ones: of keys that lie close together every piece has as
    # many, keys that share their lower bits do not meet in one piece, and inside a piece the upper
    # bits alone tell keys apart.
    for i in range(words.shape[0]):
        word = words[i]
        pieces[i] = (word & (PIECES - 1)) ^ _turned(word)


@kernel
def _turned(word):  # type: ignore[no-untyped-def]
    upper = np.uint64(word) >> np.uint64(PIECE_BITS)
    return np.int64((upper * np.uint64(TURN)) >> np.uint64(64 - PIECE_BITS))


@kernel
def _places(pieces, bounds, place):  # type: ignore[no-untyped-def]
    for b in range(bounds.shape[0]):
        lo = b * BLOCK
        hi = min(lo + BLOCK, pieces.shape[0])
        ends = bounds[b]
        for p in range(PIECES + 1):
            ends[p] = 0
        for i in range(lo, hi):
            ends[pieces[i]] += 1
        end = np.int32(hi)
        for p in range(PIECES, -1, -1):
            end -= ends[p]
            ends[p] = end
        for i in range(lo, hi):
            p = pieces[i]
            place[i] = ends[p] - lo
            ends[p] += 1
        for p in range(PIECES, 0, -1):
            ends[p] = ends[p - 1]
        ends[0] = lo
        ends[PIECES] = hi


@kernel
def _move(values, place, out):  # type: ignore[no-untyped-def]
    for lo in range(0, values.shape[0], BLOCK):
        for i in range(lo, min(lo + BLOCK, values.shape[0])):
            out[lo + place[i]] = values[i]


@kernel
def _move_words(words, base, place, out):  # type: ignore[no-untyped-def]
    for lo in range(0, words.shape[0], BLOCK):
        for i in range(lo, min(lo + BLOCK, words.shape[0])):
            out[lo + place[i]] = words[i] - base


#: Keys of one table may span this much, with the bits that the number of a piece tells.
UPPER_BITS = 24
#: What the upper part of a key is multiplied with, to turn its lower part.
TURN = 0x9E3779B97F4A7C15


def packable(columns: Columns) -> bool:
    """Whether label and score fit a word, and are all that rows have."""
    others = [part for part in columns.parts()[2:] if part is not None]
    alone = not others and columns.item is None and len(columns.scores) == 1
    floats = columns.scores[0].dtype == np.float32
    return alone and floats and columns.label.dtype.itemsize == 1


def pack(
    words: np.ndarray, base: int, bits: int, columns: Columns, place: np.ndarray, block: int
) -> np.ndarray:
    """Pack rows, each block's in the order of their place.

    Parameters
    ----------
    words : ndarray of int64, shape (rows,), read-only
        The keys.
    base : int
        At most the smallest of them, a multiple of 2**bits.
    bits : int
        Lower bits of a key that are left out.
    columns : Columns
        Label and score.
    place : ndarray of uint16, shape (rows,)
        Where a row goes in its block.
    block : int
        Rows of a block.

    Returns
    -------
    ndarray of uint64, shape (rows,), read-only
    """
    packed = np.empty(len(words), np.uint64)
    score, label = (frozen(part.view()) for part in (columns.scores[0], columns.label))
    scores, labels = frozen(score.view(np.uint32)), frozen(label.view(np.uint8))
    _pack(words, base, bits, scores, labels, place, block, packed)
    return frozen(packed)


def unpacked(
    packed: np.ndarray, bounds: np.ndarray, base: int, bits: int, label: np.dtype
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, labels and scores of packed rows.

    Parameters
    ----------
    packed : ndarray of uint64, shape (rows,), read-only
    bounds : ndarray of int32, shape (blocks, pieces + 1), read-only
        First row of each piece in each block, and the end of the block.
    base, bits : int
        As they were packed.
    label : dtype
        Of one byte.
    """
    pieces = np.arange(bounds.shape[1] - 1)
    of_row = np.concatenate([np.repeat(pieces, np.diff(ends)) for ends in bounds])
    words = keys_of_packed(packed, of_row, base, bits)
    labels, scores = np.empty(len(packed), np.uint8), np.empty(len(packed), np.uint32)
    _unpack(packed, labels, scores)
    return frozen(words), frozen(labels.view(label)), frozen(scores.view(np.float32))


def sort_partitions(
    packed: np.ndarray,
    bounds: np.ndarray,
    labels: np.ndarray,
    scores: np.ndarray,
    starts: np.ndarray,
) -> int:
    """Sort the words of each piece, and open them as whole groups with rows best first.

    Parameters
    ----------
    packed : ndarray of uint64, shape (rows,)
        Sorted in place.
    bounds : ndarray of int64, shape (pieces + 1,), read-only
        First row of each piece, then the number of rows.
    labels, scores : ndarray of uint8, uint32, shape (rows,)
        Written to.
    starts : ndarray of int64, shape (rows + 1,)
        Written to: first row of each group, then the number of rows.

    Returns
    -------
    int
        Number of groups.
    """
    for lo, hi in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        packed[lo:hi].sort()
    sorted_words = frozen(packed.view())
    _unpack(sorted_words, labels, scores)
    return int(_starts_of(sorted_words, bounds, starts))


def keys_of_packed(packed: np.ndarray, pieces: np.ndarray, base: int, bits: int) -> np.ndarray:
    """The keys of packed rows, each of its piece; int64."""
    words = base + ((packed >> np.uint64(64 - UPPER_BITS)).astype(np.int64) << bits)
    upper = words.view(np.uint64) >> np.uint64(bits)
    turn = (upper * np.uint64(TURN)) >> np.uint64(64 - bits)
    return words | (pieces ^ turn.astype(np.int64))


@kernel
def _pack(words, base, bits, scores, labels, place, block, packed):  # type: ignore[no-untyped-def]
    for lo in range(0, words.shape[0], block):
        for i in range(lo, min(lo + block, words.shape[0])):
            score = scores[i]
            # Descending, and -0.0 as 0.0.
            if score == np.uint32(0x80000000):
                score = np.uint32(0)
            if score < np.uint32(0x80000000):
                score ^= np.uint32(0x7FFFFFFF)
            upper = np.uint64((words[i] - base) >> bits)
            word = (upper << np.uint64(32)) | np.uint64(score)
            packed[lo + place[i]] = (word << np.uint64(8)) | np.uint64(labels[i])


@kernel
def _unpack(packed, labels, scores):  # type: ignore[no-untyped-def]
    for i in range(packed.shape[0]):
        labels[i] = np.uint8(packed[i] & np.uint64(0xFF))
        score = np.uint32((packed[i] >> np.uint64(8)) & np.uint64(0xFFFFFFFF))
        if score < np.uint32(0x80000000):
            score ^= np.uint32(0x7FFFFFFF)
        scores[i] = score


@kernel
def _starts_of(packed, bounds, starts):  # type: ignore[no-untyped-def]
    groups = 0
    for p in range(bounds.shape[0] - 1):
        if bounds[p] == bounds[p + 1]:
            continue
        starts[groups] = bounds[p]
        groups += 1
        for i in range(bounds[p] + 1, bounds[p + 1]):
            starts[groups] = i
            groups += (packed[i] ^ packed[i - 1]) >> np.uint64(40) != 0
    starts[groups] = bounds[bounds.shape[0] - 1]
    return groups
