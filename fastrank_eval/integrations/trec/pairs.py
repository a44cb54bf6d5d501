"""Store pairs of query and document, find equal ones, and drop duplicates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TypeVar, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    decode_array,
    frozen,
    text_buffers,
    uint64_windows,
)
from fastrank_eval._lib.errors import SourceError
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import map_jobs, scratch


def hash_texts(texts: pa.Array) -> np.ndarray:
    """Hash texts: uint64, shape (rows,).

    Parameters
    ----------
    texts : pyarrow.LargeStringArray, shape (rows,)
        Without nulls.
    """
    offsets, content = text_buffers(texts)
    hashes = np.empty(len(texts), np.uint64)
    windows = uint64_windows(np.append(content, np.zeros(8, np.uint8)))
    _hash_texts(offsets, windows, hashes)
    return frozen(hashes)


def encode_texts(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct texts in order of first appearance.

    Parameters
    ----------
    texts : pyarrow.LargeStringArray, shape (rows,)
        Without nulls.

    Returns
    -------
    codes : ndarray of int64, shape (rows,)
    firsts : ndarray of int64, shape (distinct texts,)
        First row of each text.
    """
    bounds, hashes = frozen(np.array([0, len(texts)])), hash_texts(texts)
    rows = find_equal(texts, hashes, bounds, texts, hashes, bounds[:1], bounds[1:])
    is_first = rows == np.arange(len(rows))
    return (np.cumsum(is_first) - 1)[rows], np.flatnonzero(is_first)


def find_equal(
    texts: pa.Array,
    hashes: np.ndarray,
    bounds: np.ndarray,
    others: pa.Array,
    other_hashes: np.ndarray,
    firsts: np.ndarray,
    ends: np.ndarray,
) -> np.ndarray:
    """Find the first equal text of each text among others of its group.

    Each group has a hash table of its own, which stays in the cache. Texts of equal hashes are
    compared, so no hash decides.

    Parameters
    ----------
    texts : pyarrow.LargeStringArray, shape (rows,)
    hashes : ndarray of uint64, shape (rows,)
        Hashes of the texts.
    bounds : ndarray of int64, shape (groups + 1,)
        The first text of each group, then the number of rows.
    others : pyarrow.LargeStringArray
        Among the same texts each is found, or the first equal one of its group.
    other_hashes : ndarray of uint64
    firsts, ends : ndarray of int64, shape (groups,)
        The first and last others of each group.

    Returns
    -------
    ndarray of int64, shape (rows,)
        Row of an equal text in `others`, -1 if there is none.
    """
    most = int((ends - firsts).max(initial=0))
    slots = scratch("table of texts", 1 << (4 * most).bit_length(), np.int32)
    rows = np.empty(len(texts), np.int64)
    _find_equal(
        others is texts,
        *text_buffers(texts),
        hashes,
        bounds,
        *text_buffers(others),
        other_hashes,
        firsts,
        ends,
        slots,
        rows,
    )
    return rows


@kernel
def hash_text(windows, lo, hi):  # type: ignore[no-untyped-def]
    """Hash the bytes between two positions; `windows` has each of them."""
    # Eight bytes a step; the length goes in last, so that a text and its prefix have other hashes.
    prime = np.uint64(0x9E3779B97F4A7C15)
    state = np.uint64(0)
    for i in range(lo, hi, 8):
        word = windows[np.uint64(i)]
        if hi - i < 8:
            word &= (np.uint64(1) << np.uint64(8 * (hi - i))) - np.uint64(1)
        state = (state ^ word) * prime
        state ^= state >> np.uint64(29)
    state = (state ^ np.uint64(hi - lo)) * prime
    return state ^ (state >> np.uint64(32))


@kernel
def _hash_texts(offsets, windows, hashes):  # type: ignore[no-untyped-def]
    for row in range(hashes.shape[0]):
        hashes[row] = hash_text(windows, offsets[row], offsets[row + 1])


@kernel
def _same(offsets, content, row, other_offsets, other_content, other):  # type: ignore[no-untyped-def]
    lo = offsets[row]
    size = offsets[row + 1] - lo
    start = other_offsets[other]
    if other_offsets[other + 1] - start != size:
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
def _find_equal(  # type: ignore[no-untyped-def]
    own, offsets, content, hashes, bounds,
    other_offsets, other_content, other_hashes, firsts, ends, slots, rows,
):  # fmt: skip
    for g in range(firsts.shape[0]):
        first = firsts[g]
        size = np.int64(1)
        while size < 4 * (ends[g] - first):
            size *= 2
        last = np.uint64(size - 1)
        for slot in range(size):
            slots[slot] = -1
        # The others enter the table, unless an equal one is there; then each text is looked up.
        for row in range(first, ends[g]):
            at = other_hashes[row] & last
            while slots[at] >= 0:
                other = first + slots[at]
                if other_hashes[other] == other_hashes[row] and _same(
                    other_offsets, other_content, row, other_offsets, other_content, other
                ):
                    break
                at = (at + np.uint64(1)) & last
            if slots[at] < 0:
                slots[at] = row - first
            if own:
                rows[row] = first + slots[at]
        if own:
            continue
        for row in range(bounds[g], bounds[g + 1]):
            rows[row] = -1
            if first == ends[g]:
                continue
            at = hashes[row] & last
            while slots[at] >= 0:
                other = first + slots[at]
                if other_hashes[other] == hashes[row] and _same(
                    offsets, content, row, other_offsets, other_content, other
                ):
                    rows[row] = other
                    break
                at = (at + np.uint64(1)) & last


def take_texts(texts: pa.Array, rows: np.ndarray) -> pa.Array:
    """Select the texts of some rows, large string."""
    # Not take(), whose import takes 45 ms.
    offsets, content = text_buffers(texts)
    starts, lengths = offsets[rows], offsets[rows + 1] - offsets[rows]
    ends = np.append(0, np.cumsum(lengths))
    indices = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], lengths)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(content[indices])]
    return pa.Array.from_buffers(pa.large_string(), len(rows), buffers)


def concat_texts(chunks: Sequence[pa.Array]) -> pa.Array:
    """Concatenate chunks of large strings; a single one is not copied."""
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.nulls(0, pa.large_string())


_Result = TypeVar("_Result")
#: Rows of a piece, which one thread works on: they fit in the cache. A larger query is one piece.
_PIECE = 1 << 18


class PairTable:
    """A table of pairs with a number each: scores of a run, or grades.

    Parameters
    ----------
    encoded : pyarrow.Table
        Columns ``query``, run-end encoded large strings, ``doc``, large string, ``hash``, uint64,
        the `hash_texts` of the documents, and `number`; maybe others; no nulls.
    number : str
    empty : sequence of str
        Queries that are there without a document.

    Attributes
    ----------
    comments : int
        Number of lines that were read as comments, but have the fields of a row.
    """

    def __init__(self, encoded: pa.Table, number: str, empty: Sequence[str] = ()) -> None:
        self.encoded = encoded
        self.number = number
        self.empty = empty
        self.comments = 0

    @classmethod
    def of(cls, table: pa.Table, number: str, empty: Sequence[str] = ()) -> PairTable:
        """Encode a table of strings, if it is not `encoded` yet."""
        if "hash" in table.column_names:
            return cls(table, number, empty)
        batches = table.to_batches()
        encoded = in_threads(lambda i: _encode(batches[i]), len(batches))
        schema = None if encoded else _encode(pa.RecordBatch.from_pylist([], table.schema)).schema
        return cls(pa.Table.from_batches(encoded, schema), number, empty)

    @property
    def table(self) -> pa.Table:
        """The table of strings and numbers."""
        table = self.encoded.drop_columns("hash")
        for i, field in enumerate(table.schema):
            column = table.column(i)
            if pa.types.is_run_end_encoded(field.type):
                chunks = [decode_array(chunk) for chunk in column.chunks]
                column = pa.chunked_array(chunks, pa.large_string())
            if pa.types.is_large_string(column.type):
                table = table.set_column(i, field.name, column.cast(pa.string()))
        return table

    @property
    def rows(self) -> int:
        """Number of pairs."""
        return int(self.encoded.num_rows)

    @property
    def numbers(self) -> np.ndarray:
        """The scores or grades, float64 or int64, shape (rows,)."""
        return as_array(_one_chunk(self.encoded[self.number]))

    @property
    def queries(self) -> pa.Array:
        """The queries in order of first appearance, large string."""
        return self._grouping[0]

    @property
    def starts(self) -> np.ndarray:
        """The first row of each query in `grouped`, then the number of rows."""
        return self._grouping[1]

    @property
    def order(self) -> np.ndarray | None:
        """The row of each row of `grouped`; None if these are the same rows."""
        return self._grouping[2]

    @cached_property
    def _grouping(self) -> tuple[pa.Array, np.ndarray, np.ndarray | None]:
        runs = self.encoded["query"].chunks
        texts = concat_texts([chunk.values for chunk in runs])
        lengths = [np.diff(as_array(chunk.run_ends), prepend=0) for chunk in runs]
        sizes = np.concatenate([np.empty(0, np.int64), *lengths])
        codes, firsts = encode_texts(texts)
        starts = np.zeros(len(firsts) + 1, np.int64)
        np.add.at(starts, codes + 1, sizes)
        starts = frozen(np.cumsum(starts))
        queries = take_texts(texts, firsts)
        if (codes[1:] >= codes[:-1]).all():
            return queries, starts, None
        return queries, starts, np.argsort(np.repeat(codes, sizes), kind="stable")

    @property
    def grouped(self) -> PairTable:
        """The pairs by query, each in its order."""
        # Not cached where it is `self`: such a circle lives until garbage is collected.
        return self if self.order is None else self._by_query

    @cached_property
    def _by_query(self) -> PairTable:
        rows = arrow_column(cast(np.ndarray, self.order))
        return PairTable.of(self.table.take(rows), self.number, self.empty)

    @cached_property
    def pieces(self) -> list[tuple[int, int]]:
        """Split the queries of a grouped table into ranges for threads."""
        # Whole queries of a batch need no copy; a query that has rows in several is by itself.
        lengths = [len(chunk) for chunk in self.encoded["doc"].chunks]
        rows = [*accumulate(lengths, initial=0), *range(0, self.rows, _PIECE)]
        after = np.searchsorted(self.starts, rows)
        inside = np.searchsorted(self.starts, rows, "right") - 1
        return list(pairwise(sorted({*after.tolist(), *inside.tolist()})))

    def keep(self, rows: np.ndarray) -> PairTable:
        """Select the rows of a mask; queries without any stay, as empty ones."""
        kept = rows if self.order is None else rows[self.order]
        counts = np.append(0, np.cumsum(kept))[self.starts]
        lost = take_texts(self.queries, np.flatnonzero(counts[1:] == counts[:-1])).to_pylist()
        bits = pa.py_buffer(np.packbits(rows, bitorder="little"))
        mask = pa.Array.from_buffers(pa.bool_(), len(rows), [None, bits])
        return PairTable.of(self.table.filter(mask), self.number, [*self.empty, *lost])

    def between(self, lo: int, hi: int) -> tuple[pa.Array, np.ndarray, np.ndarray]:
        """Get documents, their hashes and the numbers of some rows."""
        names = ("doc", "hash", self.number)
        docs, hashes, numbers = (
            _one_chunk(self.encoded[name].slice(lo, hi - lo)) for name in names
        )
        return docs, as_array(hashes), as_array(numbers)

    @cached_property
    def all(self) -> tuple[pa.Array, np.ndarray, np.ndarray]:
        """Documents, their hashes and the numbers of all rows."""
        return self.between(0, self.rows)

    def rows_in(self, other: PairTable) -> np.ndarray:
        """Find the row of each pair in another table, -1 if absent: int64."""
        both = Common(self, other)
        pieces = in_threads(lambda i: both.find(*both.run.pieces[i])[0], len(both.run.pieces))
        rows = np.concatenate([np.empty(0, np.int64), *pieces])
        if other.order is not None:
            rows = np.where(rows < 0, -1, other.order[rows])
        if self.order is None:
            return rows
        result = np.empty_like(rows)
        result[self.order] = rows
        return result


class Common:
    """The queries of a run and of judgements, both without duplicates.

    Parameters
    ----------
    run, judged : PairTable
    complete : bool
        Whether queries of the judgements alone are wanted.

    Attributes
    ----------
    run, judged : PairTable
        Both by query.
    texts : pyarrow.LargeStringArray
        The queries of the run, then those of the judgements.
    queries : ndarray of int64, shape (queries,)
        The index of each query in `texts`, those of the run first.
    answered : ndarray of bool, shape (queries,)
        The queries of the run, also those without a document.
    wanted : ndarray of bool, shape (queries,)
        The queries to evaluate: those of both, and those of the judgements if `complete`.
    numbers : ndarray of int32, shape (queries,)
        Number of each wanted query, -1 for the others.
    only_in_run, only_in_judged : int
        Numbers of queries of one side only.
    pieces : list of tuple of int
        Ranges of queries for threads, those that the run does not have at the end.
    negative : ndarray of bool, shape (judgements,)
        Whether a grade is negative.
    starts : ndarray of int64, shape (queries + 1,)
        The first row of each query in the run, then the number of rows.
    firsts, ends : ndarray of int64, shape (queries,)
        The first row of each query in the judgements, and the row after its last.
    """

    def __init__(self, run: PairTable, judged: PairTable, complete: bool = False) -> None:
        self.run, self.judged = run.grouped, judged.grouped
        self.texts = concat_texts([run.queries, judged.queries])
        codes, self.queries = encode_texts(self.texts)
        judged_codes = codes[len(run.queries) :]
        self.firsts, self.ends = np.zeros((2, len(self.queries)), np.int64)
        self.firsts[judged_codes] = judged.starts[:-1]
        self.ends[judged_codes] = judged.starts[1:]
        self.negative = frozen(self.judged.all[2] < 0)
        answered, queries = len(run.queries), len(self.queries)
        self.starts = np.append(run.starts, np.full(queries - answered, run.rows))
        self.answered = (np.arange(queries) < answered) | self.have(run.empty)
        is_judged = self.ends > 0
        self.only_in_run = int((~is_judged).sum())
        self.only_in_judged = int((~self.answered).sum())
        self.wanted = is_judged & (self.answered | complete)
        numbers = np.where(self.wanted, np.cumsum(self.wanted) - 1, -1)
        self.numbers = frozen(numbers.astype(np.int32))
        self.pieces = self.run.pieces + [(answered, queries)] * (answered < queries)

    def have(self, names: Collection[str]) -> np.ndarray:
        """Return for each query whether it is among these names."""
        if not names:
            return np.zeros(len(self.queries), np.bool_)
        known = {*names}
        return np.array([name in known for name in self._names], np.bool_)

    @cached_property
    def _names(self) -> list[str]:
        return cast(list[str], take_texts(self.texts, self.queries).to_pylist())

    def find(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray, pa.Array, np.ndarray]:
        """Find the judgements of the documents of a range of queries.

        Returns
        -------
        judgements : ndarray of int64, shape (rows,)
            The row of the judgement of each retrieved document, -1 if there is none.
        bounds : ndarray of int64, shape (queries + 1,)
            The first document of each query, then the number of documents.
        docs : pyarrow.LargeStringArray, shape (rows,)
        numbers : ndarray of float64, shape (rows,)
            Scores of the documents.
        """
        starts = self.starts[first : last + 1]
        docs, hashes, numbers = self.run.between(starts[0], starts[-1])
        bounds = frozen(starts - starts[0])
        judged_docs, judged_hashes, _ = self.judged.all
        ranges = frozen(self.firsts[first:last]), frozen(self.ends[first:last])
        rows = find_equal(docs, hashes, bounds, judged_docs, judged_hashes, *ranges)
        return rows, bounds, docs, numbers


def in_threads(task: Callable[[int], _Result], count: int) -> list[_Result]:
    """Call a task for each number below `count` in threads; keep the order."""
    return list(map_jobs(pa.cpu_count(), task, range(count)))


def run_ends(texts: pa.Array, firsts: np.ndarray, rows: int) -> pa.Array:
    """Make a column of texts that begin at some rows, the first at row 0."""
    ends = arrow_column(np.append(firsts[1:], rows if rows else firsts[:0]).astype(np.int64))
    kind = pa.run_end_encoded(ends.type, texts.type)
    # Not from_arrays(), which imports pandas.
    return pa.Array.from_buffers(kind, rows, [None], children=[ends, texts])


def _encode(batch: pa.RecordBatch) -> pa.RecordBatch:
    queries, docs = (batch.column(name).cast(pa.large_string()) for name in ("query", "doc"))
    starts = np.empty(len(queries), np.int64)
    starts = starts[: _find_starts(*text_buffers(queries), starts)]
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["query"] = run_ends(queries.take(arrow_column(starts)), starts, len(queries))
    columns |= {"doc": docs, "hash": arrow_column(hash_texts(docs))}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


DUPLICATES = ("error", "first", "last", "max")


def drop_duplicates(
    pairs: PairTable,
    duplicates: str,
    describe: Callable[[int, int], str] = "{} and {}".format,
    remedy: str = "pass duplicates='first', 'last' or 'max' (--duplicates).",
) -> PairTable:
    """Select one row of each pair of query and document.

    Parameters
    ----------
    pairs : PairTable
    duplicates : {"error", "first", "last", "max"}
        ``"max"`` keeps the row of the greatest number, the first of ties.
    describe : callable
        Describes the positions of two rows, for messages.
    remedy : str
        What to do except for leaving one row out, for messages.

    Returns
    -------
    PairTable
        The remaining rows in their order; `pairs` itself if there are no duplicates.

    Raises
    ------
    SourceError
        If there is a duplicate and `duplicates` is ``"error"``: names the first one.
    """
    grouped = pairs.grouped

    def scan(i: int) -> np.ndarray:
        first, last = grouped.pieces[i]
        starts = grouped.starts[first : last + 1]
        docs, hashes, _ = grouped.between(starts[0], starts[-1])
        bounds = frozen(starts - starts[0])
        own = (docs, hashes, bounds)
        first_rows = find_equal(*own, docs, hashes, bounds[:-1], bounds[1:])
        repeated = np.flatnonzero(first_rows != np.arange(len(first_rows)))
        return np.stack([repeated, first_rows[repeated]]) + starts[0]

    no_rows = np.empty((2, 0), np.int64)
    repeated, originals = np.hstack([no_rows, *in_threads(scan, len(grouped.pieces))])
    if not len(repeated):
        return pairs
    rows = np.arange(pairs.rows) if pairs.order is None else pairs.order
    if duplicates == "error":
        second = int(rows[repeated].argmin())
        first, second = int(originals[second]), int(repeated[second])
        pair = grouped.table.slice(second, 1)
        query, doc = (pair[name][0].as_py() for name in ("query", "doc"))
        raise SourceError(
            f"Query {query!r} has document {doc!r} twice: "
            f"{describe(int(rows[first]), int(rows[second]))}. Leave one out, or {remedy}"
        )
    original = np.arange(pairs.rows)
    original[repeated] = originals
    by = np.arange(pairs.rows)
    if duplicates == "first":
        by = by[::-1]
    elif duplicates == "max":
        by = np.lexsort((-by, grouped.all[2]))
    # Of several rows of a pair the last in this order stays.
    chosen = np.arange(pairs.rows)
    chosen[original[by]] = by
    keep = np.zeros(pairs.rows, np.bool_)
    keep[rows[chosen[original]]] = True
    return pairs.keep(keep)
