"""Pairs of query and document: their hashes, and where the same pair stands in another table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel

__all__ = ["Pairs", "joined_chunks", "marked"]


def marked(query: pa.Array, doc: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of pairs, and the rows whose query is not that of the row before.

    Parameters
    ----------
    query, doc : pyarrow.StringArray, shape (rows,)
        Without nulls.

    Returns
    -------
    tuple of ndarray of uint64, shape (rows,), and ndarray of int64
        Row 0 is the first of the second.
    """
    hashes = np.empty(len(query), np.uint64)
    starts = np.empty(len(query), np.int64)
    queries, docs = _letters(query), _letters(doc)
    count = _mark(*queries, _eights(queries[1]), *docs, _eights(docs[1]), hashes, starts)
    return hashes, starts[:count].copy()


class Pairs:
    """Finds pairs of other tables among those of one table, by exact comparison.

    Parameters
    ----------
    query, doc : pyarrow.LargeStringArray, shape (rows,)
        Without nulls; no pair stands twice.
    hashes : ndarray of uint64, shape (rows,)
        Of these pairs.
    """

    def __init__(self, query: pa.Array, doc: pa.Array, hashes: np.ndarray) -> None:
        self._hashes = frozen(hashes.view())
        self._own = (*_letters(query, np.int64), *_letters(doc, np.int64))
        slots = np.full(1 << max(2 * len(hashes) - 1, 1).bit_length(), -1, np.int64)
        _fill(self._hashes, slots)
        self._slots = frozen(slots)

    def find(self, query: pa.Array, doc: pa.Array, hashes: np.ndarray) -> np.ndarray:
        """The row of each pair in the own table, -1 where it is not there.

        Parameters
        ----------
        query, doc : pyarrow.StringArray, shape (rows,)
        hashes : ndarray of uint64, shape (rows,)

        Returns
        -------
        ndarray of int64, shape (rows,)
        """
        rows = np.empty(len(query), np.int64)
        other = (*_letters(query), *_letters(doc))
        _find(frozen(hashes.view()), *other, self._slots, self._hashes, *self._own, rows)
        return rows


def joined_chunks(chunks: Sequence[pa.Array]) -> pa.Array:
    """All chunks as one array, of however many bytes."""
    wide = [chunk.cast(pa.large_string()) for chunk in chunks]
    return pa.concat_arrays(wide) if wide else pa.nulls(0, pa.large_string())


def _letters(texts: pa.Array, offset: type = np.int32) -> tuple[np.ndarray, np.ndarray]:
    """Where each text begins, and the bytes of all."""
    _, places, content = texts.buffers()
    kind = np.dtype(offset)
    if places is None or not len(texts):
        return frozen(np.zeros(1, kind)), frozen(np.zeros(1, np.uint8))
    offsets = np.frombuffer(places, kind, len(texts) + 1, texts.offset * kind.itemsize)
    some = content is not None and content.size
    return frozen(offsets), frozen(np.frombuffer(content if some else b"\0", np.uint8))


def _eights(letters: np.ndarray) -> np.ndarray:
    """The eight bytes from each place on as one integer."""
    if len(letters) < 16:  # two of them at least: NumPy calls a single one aligned
        letters = np.append(letters, np.zeros(16, np.uint8))
    return frozen(np.ndarray((len(letters) - 7,), np.uint64, letters, strides=(1,)))


@kernel
def _hash(offsets, content, eights, row, start):  # type: ignore[no-untyped-def]
    # Eight bytes a step; the length goes in last, so that no text hashes like a part of another.
    prime = np.uint64(0x9E3779B97F4A7C15)
    lo, hi = np.int64(offsets[row]), np.int64(offsets[row + 1])
    found = start
    for i in range(lo, hi, 8):
        left = hi - i
        word = np.uint64(0)
        if i < eights.shape[0]:
            word = eights[i]
            if left < 8:
                word &= (np.uint64(1) << np.uint64(8 * left)) - np.uint64(1)
        else:
            for k in range(left):
                word |= np.uint64(content[i + k]) << np.uint64(8 * k)
        found = (found ^ word) * prime
        found ^= found >> np.uint64(29)
    found = (found ^ np.uint64(hi - lo)) * prime
    return found ^ (found >> np.uint64(32))


@kernel
def _same(offsets, content, row, others, other_content, other):  # type: ignore[no-untyped-def]
    lo = np.int64(offsets[row])
    size = np.int64(offsets[row + 1]) - lo
    start = np.int64(others[other])
    if np.int64(others[other + 1]) - start != size:
        return False
    equal = np.int64(0)
    while equal < size and content[lo + equal] == other_content[start + equal]:
        equal += 1
    return equal == size


@kernel
def _mark(queries, query, query_eights, docs, doc, doc_eights, hashes, starts):  # type: ignore[no-untyped-def]
    count = np.int64(0)
    of_query = np.uint64(0)
    for row in range(hashes.shape[0]):
        if row == 0 or not _same(queries, query, row, queries, query, row - 1):
            of_query = _hash(queries, query, query_eights, row, np.uint64(0))
            starts[count] = row
            count += 1
        hashes[row] = _hash(docs, doc, doc_eights, row, of_query)
    return count


@kernel
def _fill(hashes, slots):  # type: ignore[no-untyped-def]
    last = np.uint64(slots.shape[0] - 1)
    for row in range(hashes.shape[0]):
        slot = hashes[row] & last
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & last
        slots[slot] = row


@kernel
def _find(  # type: ignore[no-untyped-def]
    hashes, queries, query, docs, doc,
    slots, own_hashes, own_queries, own_query, own_docs, own_doc, rows,
):  # fmt: skip
    last = np.uint64(slots.shape[0] - 1)
    for row in range(hashes.shape[0]):
        slot = hashes[row] & last
        found = slots[slot]
        while found >= 0 and not (
            own_hashes[found] == hashes[row]
            and _same(docs, doc, row, own_docs, own_doc, found)
            and _same(queries, query, row, own_queries, own_query, found)
        ):
            slot = (slot + np.uint64(1)) & last
            found = slots[slot]
        rows[row] = found
