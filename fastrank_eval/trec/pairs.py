"""Pairs of query and document: their hashes, and where the same pair stands in another table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel

__all__ = ["Pairs", "eights_of", "joined_chunks", "marked", "query_starts"]


def marked(queries: pa.Array, starts: np.ndarray, docs: pa.Array) -> np.ndarray:
    """Hashes of pairs whose rows of one query stand together.

    Parameters
    ----------
    queries : pyarrow.StringArray, shape (queries,)
        The query of each stretch of rows; without nulls.
    starts : ndarray of int64, shape (queries,)
        The first row of each stretch, ascending from row 0.
    docs : pyarrow.StringArray, shape (rows,)
        Without nulls.

    Returns
    -------
    ndarray of uint64, shape (rows,)
    """
    hashes = np.empty(len(docs), np.uint64)
    of_query, of_doc = _letters(queries), _letters(docs)
    bounds = frozen(np.append(starts, len(docs)))
    _mark(*of_query, eights_of(of_query[1]), bounds, *of_doc, eights_of(of_doc[1]), hashes)
    return hashes


def query_starts(queries: pa.Array) -> np.ndarray:
    """The rows whose query is not that of the row before, row 0 first. int64."""
    letters, starts = _letters(queries), np.empty(len(queries), np.int64)
    return starts[: _changes(*letters, starts)].copy()


class Pairs:
    """Finds pairs of query and document among those of one table, by exact comparison.

    Each query has a hash table of its own inside one array, so that looking up the documents of a
    query stays in the cache.

    Parameters
    ----------
    codes : ndarray of int32, shape (rows,)
        A number for each row's query.
    queries : int
        How many numbers there are.
    docs : pyarrow.LargeStringArray, shape (rows,)
        Without nulls; no query has one twice.
    hashes : ndarray of uint64, shape (rows,)
        Of these pairs.
    """

    def __init__(self, codes: np.ndarray, queries: int, docs: pa.Array, hashes: np.ndarray) -> None:
        counts = np.bincount(codes, minlength=queries)
        # At least twice the slots, a power of two: what the exponent of 4 n - 1 says.
        _, bits = np.frexp(np.maximum(4 * counts - 1, 1).astype(np.float64))
        self._firsts = frozen(np.append(0, np.cumsum(1 << (bits.astype(np.int64) - 1))))
        self._hashes = frozen(hashes.view())
        self._docs = _letters(docs, np.int64)
        slots = np.full(int(self._firsts[-1]), -1, np.int64)
        _fill(self._hashes, frozen(codes.view()), self._firsts, slots)
        self._slots = frozen(slots)

    def find(self, codes: np.ndarray, docs: pa.Array, hashes: np.ndarray) -> np.ndarray:
        """The row of each pair in the own table, -1 where it is not there.

        Parameters
        ----------
        codes : ndarray of int32, shape (rows,)
            The number of the query in the own table, -1 if it has none.
        docs : pyarrow.StringArray, shape (rows,)
        hashes : ndarray of uint64, shape (rows,)

        Returns
        -------
        ndarray of int64, shape (rows,)
        """
        rows = np.empty(len(codes), np.int64)
        _find(
            frozen(codes.view()),
            frozen(hashes.view()),
            *_letters(docs),
            self._firsts,
            self._slots,
            self._hashes,
            *self._docs,
            rows,
        )
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


def eights_of(letters: np.ndarray) -> np.ndarray:
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
def _changes(offsets, content, starts):  # type: ignore[no-untyped-def]
    count = np.int64(0)
    for row in range(starts.shape[0]):
        if row == 0 or not _same(offsets, content, row, offsets, content, row - 1):
            starts[count] = row
            count += 1
    return count


@kernel
def _mark(queries, query, query_eights, bounds, docs, doc, doc_eights, hashes):  # type: ignore[no-untyped-def]
    for one in range(bounds.shape[0] - 1):
        of_query = _hash(queries, query, query_eights, one, np.uint64(0))
        for row in range(bounds[one], bounds[one + 1]):
            hashes[row] = _hash(docs, doc, doc_eights, row, of_query)


@kernel
def _fill(hashes, codes, firsts, slots):  # type: ignore[no-untyped-def]
    for row in range(hashes.shape[0]):
        first = firsts[codes[row]]
        last = np.uint64(firsts[codes[row] + 1] - first - 1)
        slot = hashes[row] & last
        while slots[first + np.int64(slot)] >= 0:
            slot = (slot + np.uint64(1)) & last
        slots[first + np.int64(slot)] = row


@kernel
def _find(  # type: ignore[no-untyped-def]
    codes, hashes, docs, doc, firsts, slots, own_hashes, own_docs, own_doc, rows
):
    for row in range(hashes.shape[0]):
        rows[row] = -1
        if codes[row] < 0:
            continue
        first = firsts[codes[row]]
        last = np.uint64(firsts[codes[row] + 1] - first - 1)
        slot = hashes[row] & last
        found = slots[first + np.int64(slot)]
        while found >= 0 and not (
            own_hashes[found] == hashes[row] and _same(docs, doc, row, own_docs, own_doc, found)
        ):
            slot = (slot + np.uint64(1)) & last
            found = slots[first + np.int64(slot)]
        rows[row] = found
