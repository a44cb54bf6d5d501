"""Hash pairs of query and document, look them up, and drop duplicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    frozen,
    text_buffers,
    uint64_windows,
)
from fastrank_eval._lib.errors import ArgumentError, SourceError, near
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import map_jobs
from fastrank_eval.io.keys import number_keys
from fastrank_eval.stats.score_table import distinct_sorted


def pair_hashes(queries: pa.Array, starts: np.ndarray, docs: pa.Array) -> np.ndarray:
    """Hash pairs of query and document by runs of one query.

    Parameters
    ----------
    queries : pyarrow.StringArray, shape (queries,)
        The query of each run of rows; without nulls.
    starts : ndarray of int64, shape (queries,)
        The first row of each run, ascending from row 0.
    docs : pyarrow.StringArray, shape (rows,)
        Without nulls.

    Returns
    -------
    ndarray of uint64, shape (rows,)
    """
    hashes = np.empty(len(docs), np.uint64)
    query_buffers, doc_buffers = text_buffers(queries), text_buffers(docs)
    bounds = frozen(np.append(starts, len(docs)))
    _hash_pairs(
        *query_buffers,
        uint64_windows(query_buffers[1]),
        bounds,
        *doc_buffers,
        uint64_windows(doc_buffers[1]),
        hashes,
    )
    return hashes


def query_starts(queries: pa.Array) -> np.ndarray:
    """Find the rows whose query differs from that of the row before: int64."""
    buffers, starts = text_buffers(queries), np.empty(len(queries), np.int64)
    return starts[: _find_starts(*buffers, starts)].copy()


class PairIndex:
    """A hash index of the pairs of one table; texts are compared exactly.

    Each query has its own hash table inside one array, so looking up the documents of a query stays
    in the cache.

    Parameters
    ----------
    codes : ndarray of int32, shape (rows,)
        The query code of each row.
    queries : int
        Number of codes.
    docs : pyarrow.LargeStringArray, shape (rows,)
        Without nulls; no query has a document twice.
    hashes : ndarray of uint64, shape (rows,)
        Hashes of these pairs.
    """

    def __init__(self, codes: np.ndarray, queries: int, docs: pa.Array, hashes: np.ndarray) -> None:
        counts = np.bincount(codes, minlength=queries)
        # Slots: a power of two, at least twice the rows. It is the exponent of 4 n - 1.
        _, bits = np.frexp(np.maximum(4 * counts - 1, 1).astype(np.float64))
        self._firsts = frozen(np.append(0, np.cumsum(1 << (bits.astype(np.int64) - 1))))
        self._hashes = frozen(hashes.view())
        self._docs = text_buffers(docs)
        slots = np.full(int(self._firsts[-1]), -1, np.int64)
        _fill(self._hashes, frozen(codes.view()), self._firsts, slots)
        self._slots = frozen(slots)

    def find(self, codes: np.ndarray, docs: pa.Array, hashes: np.ndarray) -> np.ndarray:
        """Find the row of each pair in the indexed table, -1 if absent.

        Parameters
        ----------
        codes : ndarray of int32, shape (rows,)
            The query code in the indexed table, -1 if the query is absent.
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
            *text_buffers(docs),
            self._firsts,
            self._slots,
            self._hashes,
            *self._docs,
            rows,
        )
        return rows


def concat_texts(chunks: Sequence[pa.Array]) -> pa.Array:
    """Concatenate chunks to one large string array."""
    wide = [chunk.cast(pa.large_string()) for chunk in chunks]
    return pa.concat_arrays(wide) if wide else pa.nulls(0, pa.large_string())


@kernel
def _hash(offsets, content, windows, row, start):  # type: ignore[no-untyped-def]
    # Eight bytes a step; the length goes in last, so that a text and its prefix have other hashes.
    prime = np.uint64(0x9E3779B97F4A7C15)
    lo, hi = np.int64(offsets[row]), np.int64(offsets[row + 1])
    state = start
    for i in range(lo, hi, 8):
        rest = hi - i
        word = np.uint64(0)
        if i < windows.shape[0]:
            word = windows[i]
            if rest < 8:
                word &= (np.uint64(1) << np.uint64(8 * rest)) - np.uint64(1)
        else:
            for k in range(rest):
                word |= np.uint64(content[i + k]) << np.uint64(8 * k)
        state = (state ^ word) * prime
        state ^= state >> np.uint64(29)
    state = (state ^ np.uint64(hi - lo)) * prime
    return state ^ (state >> np.uint64(32))


@kernel
def _same(offsets, content, row, other_offsets, other_content, other):  # type: ignore[no-untyped-def]
    lo = np.int64(offsets[row])
    size = np.int64(offsets[row + 1]) - lo
    start = np.int64(other_offsets[other])
    if np.int64(other_offsets[other + 1]) - start != size:
        return False
    matching = np.int64(0)
    while matching < size and content[lo + matching] == other_content[start + matching]:
        matching += 1
    return matching == size


@kernel
def _find_starts(offsets, content, starts):  # type: ignore[no-untyped-def]
    count = np.int64(0)
    for row in range(starts.shape[0]):
        if row == 0 or not _same(offsets, content, row, offsets, content, row - 1):
            starts[count] = row
            count += 1
    return count


@kernel
def _hash_pairs(queries, query, query_windows, bounds, docs, doc, doc_windows, hashes):  # type: ignore[no-untyped-def]
    for query_index in range(bounds.shape[0] - 1):
        query_hash = _hash(queries, query, query_windows, query_index, np.uint64(0))
        for row in range(bounds[query_index], bounds[query_index + 1]):
            hashes[row] = _hash(docs, doc, doc_windows, row, query_hash)


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
        candidate = slots[first + np.int64(slot)]
        while candidate >= 0 and not (
            own_hashes[candidate] == hashes[row]
            and _same(docs, doc, row, own_docs, own_doc, candidate)
        ):
            slot = (slot + np.uint64(1)) & last
            candidate = slots[first + np.int64(slot)]
        rows[row] = candidate


_Result = TypeVar("_Result")


class PairTable:
    """A table of pairs with a number each: scores of a run, or grades.

    Parameters
    ----------
    table : pyarrow.Table
        Columns ``query``, string or a dictionary of strings, ``doc``, string, and `number`; no
        nulls.
    number : str
    keys : sequence of tuple, optional
        For each batch the hashes of its pairs, and the rows whose query differs from that of the
        row before; computed by default.
    """

    def __init__(
        self,
        table: pa.Table,
        number: str,
        keys: Sequence[tuple[np.ndarray, np.ndarray]] | None = None,
    ) -> None:
        self.encoded = table
        self.name = number
        self._batches = table.to_batches()
        #: The first row of each batch, then the number of rows.
        self._bounds = list(accumulate((batch.num_rows for batch in self._batches), initial=0))
        if keys is None:
            keys = in_threads(lambda i: _batch_keys(self._batches[i]), len(self._batches))
        self._keys = keys

    @property
    def table(self) -> pa.Table:
        """The table without dictionaries."""
        table = self.encoded
        kinds = [
            pa.field(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
            for field in table.schema
        ]
        return table.cast(pa.schema(kinds))

    @property
    def rows(self) -> int:
        """Number of pairs."""
        return int(self.encoded.num_rows)

    @property
    def docs(self) -> pa.ChunkedArray:
        """The documents, string, shape (rows,)."""
        return self.encoded["doc"]

    def docs_at(self, rows: np.ndarray) -> pa.Array:
        """Take the documents of rows, string, in the order of the rows."""
        # Arrow's take from a chunked column joins all its chunks first.
        order = np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], self._bounds).tolist()
        batches = [pa.nulls(0, pa.string())]
        for batch, first, (lo, hi) in zip(
            self._batches, self._bounds, pairwise(cuts), strict=False
        ):
            if lo < hi:
                batch_rows = rows[order[lo:hi]] - first
                batches.append(batch.column("doc").take(arrow_column(batch_rows)))
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.arange(len(order))
        return pa.concat_arrays(batches).take(arrow_column(inverse))

    @property
    def numbers(self) -> np.ndarray:
        """The scores or grades, float64 or int64, shape (rows,)."""
        return as_array(self.encoded[self.name].combine_chunks())

    @property
    def hashes(self) -> np.ndarray:
        """A hash of each pair, uint64, shape (rows,)."""
        return np.concatenate([np.empty(0, np.uint64), *(hashes for hashes, _ in self._keys)])

    @property
    def codes(self) -> np.ndarray:
        """Query codes of rows, by first appearance: int32, shape (rows,)."""
        return self._factorized[0]

    @property
    def queries(self) -> pa.Array:
        """The queries in order of their codes, string."""
        return self._factorized[1]

    @cached_property
    def _factorized(self) -> tuple[np.ndarray, pa.Array]:
        query_texts = [
            _texts(batch.column("query"), starts)
            for batch, (_, starts) in zip(self._batches, self._keys, strict=True)
        ]
        if not query_texts:
            return np.empty(0, np.int32), pa.nulls(0, pa.string())
        encoded = pa.concat_arrays(query_texts).dictionary_encode()
        starts = [
            start + first for (_, start), first in zip(self._keys, self._bounds, strict=False)
        ]
        lengths = np.diff(np.concatenate(starts), append=self.rows)
        return frozen(np.repeat(as_array(encoded.indices), lengths)), encoded.dictionary

    def shared_hashes(self) -> np.ndarray:
        """Find hashes that more than one row has, ascending: uint64."""
        codes = self.codes
        # A query with one run of rows, in one batch, has all its pairs there.
        runs_of_query = np.zeros(len(self.queries), np.int64)
        bounds = self._bounds
        for first, (_, starts) in zip(bounds, self._keys, strict=False):
            np.add.at(runs_of_query, codes[starts + first], 1)

        def scan_batch(i: int) -> tuple[np.ndarray, np.ndarray]:
            hashes = self._keys[i][0]
            scattered = runs_of_query[codes[bounds[i] : bounds[i + 1]]] > 1
            return _repeated(hashes), hashes[scattered]

        by_batch = in_threads(scan_batch, len(self._batches))
        no_hashes = np.empty(0, np.uint64)
        scattered = _repeated(np.concatenate([no_hashes, *(hashes for _, hashes in by_batch)]))
        shared = np.concatenate([scattered, *(hashes for hashes, _ in by_batch)])
        # np.unique() imports numpy.ma.
        return distinct_sorted(np.sort(shared))[0]

    def rows_in(self, other: PairTable) -> np.ndarray:
        """Find the row of each pair in another table, -1 if absent.

        Parameters
        ----------
        other : PairTable
            Without duplicate pairs.

        Returns
        -------
        ndarray of int64, shape (rows,)
        """
        docs = concat_texts(other.docs.chunks)
        pairs = PairIndex(other.codes, len(other.queries), docs, other.hashes)
        other_codes = indices_in(self.queries, other.queries).astype(np.int32)
        bounds = self._bounds

        def find_rows(i: int) -> np.ndarray:
            codes = other_codes[self.codes[bounds[i] : bounds[i + 1]]]
            return pairs.find(codes, self._batches[i].column("doc"), self._keys[i][0])

        return np.concatenate([np.empty(0, np.int64), *in_threads(find_rows, len(self._batches))])


def _repeated(hashes: np.ndarray) -> np.ndarray:
    """Find hashes that occur more than once."""
    ascending = np.sort(hashes)
    return ascending[1:][ascending[1:] == ascending[:-1]]


def indices_in(values: pa.Array, distinct: pa.Array) -> np.ndarray:
    """Find the index of each value among distinct others, -1 if absent: int64."""
    import pyarrow.compute as pc

    indices = pc.index_in(values, value_set=distinct)
    # Not fill_null(), which makes a scalar and so imports pandas.
    return np.where(as_array(indices.is_valid()), as_array(indices), -1).astype(np.int64)


def in_threads(task: Callable[[int], _Result], count: int) -> list[_Result]:
    """Call a task for each number below `count` in threads; keep the order."""
    return list(map_jobs(pa.cpu_count(), task, range(count)))


def _batch_keys(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    queries = batch.column("query").cast(pa.string())
    starts = query_starts(queries)
    return pair_hashes(_texts(queries, starts), starts, batch.column("doc")), starts


def _texts(column: pa.Array, rows: np.ndarray) -> pa.Array:
    """Take the texts of rows."""
    return column.take(arrow_column(rows)).cast(pa.string())


DUPLICATES = ("error", "first", "last", "max")


def check_duplicates(duplicates: str) -> None:
    """Check that a value is in `DUPLICATES`."""
    if duplicates not in DUPLICATES:
        raise ArgumentError(
            f"duplicates={duplicates!r} is unknown.{near(str(duplicates), DUPLICATES)} "
            f"Use {', '.join(DUPLICATES)}."
        )


def drop_duplicates(
    pairs: PairTable,
    duplicates: str,
    describe: Callable[[int, int], str],
) -> PairTable:
    """Keep one row of each pair of query and document.

    Only rows whose hash another row has too are compared.

    Parameters
    ----------
    pairs : PairTable
    duplicates : {"error", "first", "last", "max"}
        ``"max"`` keeps the row of the greatest number, the first of ties.
    describe : callable
        Describes the positions of two rows, for messages.

    Returns
    -------
    PairTable
        The remaining rows in their order; `pairs` itself if there are no duplicates.

    Raises
    ------
    SourceError
        If there is a duplicate and `duplicates` is ``"error"``: names the first one.
    """
    shared = pairs.shared_hashes()
    if not len(shared):
        return pairs
    hashes = pairs.hashes
    positions = np.searchsorted(shared, hashes)
    rows = np.flatnonzero(shared[np.minimum(positions, len(shared) - 1)] == hashes)
    candidates = pairs.encoded.select(["query", "doc", pairs.name]).take(arrow_column(rows))
    codes, _ = number_pairs(candidates)
    order = np.argsort(codes, kind="stable")
    first = np.ones(len(order), np.bool_)
    first[1:] = codes[order[1:]] != codes[order[:-1]]
    if first.all():
        return pairs
    if duplicates == "error":
        repeated = int(order[~first].min())
        original = int(order[np.searchsorted(codes[order], codes[repeated])])
        query, doc = (candidates[name][repeated].as_py() for name in ("query", "doc"))
        raise SourceError(
            f"Query {query!r} has document {doc!r} twice: "
            f"{describe(int(rows[original]), int(rows[repeated]))}. Leave one out, or pass "
            "duplicates='first', 'last' or 'max' (--duplicates)."
        )
    if duplicates == "first":
        chosen = order[first]
    else:
        if duplicates == "max":
            values = as_array(candidates[pairs.name].combine_chunks())
            order = np.lexsort((-np.arange(len(order)), values, codes))
        chosen = order[np.append(first[1:], True)]
    keep = np.ones(pairs.rows, np.bool_)
    keep[rows] = False
    keep[rows[chosen]] = True
    bits = pa.py_buffer(np.packbits(keep, bitorder="little"))
    mask = pa.Array.from_buffers(pa.bool_(), len(keep), [None, bits])
    return PairTable(pairs.encoded.filter(mask), pairs.name)


def number_pairs(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Number the pairs of query and document as `number_keys` does."""
    keys = [table[name].cast(pa.string()).combine_chunks() for name in ("query", "doc")]
    return number_keys(keys)
