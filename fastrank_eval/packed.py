"""Rows of a click log packed into one word each, so that one sort groups and orders them.

``[upper part of the key: 24 bits | score, descending: 32 | label: 8]``. Inside a piece the upper
part tells keys apart (see `dealing`), so sorting a piece's words leaves groups side by side and
rows best first. That takes keys that span less than 2^31, float32 scores, labels of one byte and
nothing else, in rows whose order does not matter: three columns are then dealt, put together and
ordered as one.
"""

from __future__ import annotations

import numpy as np

from fastrank_eval.columns import Columns, frozen
from fastrank_eval.kernel import kernel

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


def sort_pieces(
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
