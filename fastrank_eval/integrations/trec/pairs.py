"""Number pairs of query and document, and find those that stand twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import accumulate
from typing import TypeVar

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, as_array, frozen
from fastrank_eval._lib.errors import ArgumentError, SourceError, near
from fastrank_eval._lib.jit import kernel

__all__ = [
    "DUPLICATES",
    "Keyed",
    "Pairs",
    "check_choice",
    "in_threads",
    "joined_chunks",
    "marked",
    "numbered",
    "places_among",
    "query_starts",
    "uint64_windows",
    "without_repeats",
]


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
    _mark(
        *of_query, uint64_windows(of_query[1]), bounds, *of_doc, uint64_windows(of_doc[1]), hashes
    )
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


def uint64_windows(letters: np.ndarray) -> np.ndarray:
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


_Found = TypeVar("_Found")


class Keyed:
    """Pairs, each with a number: the score of a run, or the grade of a judgement.

    Parameters
    ----------
    table : pyarrow.Table
        Columns ``query``, string or a dictionary of strings, ``doc``, string, and `number`; no
        nulls.
    number : str
    marks : sequence of tuple, optional
        Of each of its batches, the hashes of its pairs and the rows whose query is not that of the
        row before; found out by default.
    """

    def __init__(
        self,
        table: pa.Table,
        number: str,
        marks: Sequence[tuple[np.ndarray, np.ndarray]] | None = None,
    ) -> None:
        self.encoded = table
        self.name = number
        self._batches = table.to_batches()
        if marks is None:
            marks = in_threads(lambda i: _marks(self._batches[i]), len(self._batches))
        self._marks = marks

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
        """How many pairs there are."""
        return int(self.encoded.num_rows)

    @property
    def docs(self) -> pa.ChunkedArray:
        """The documents, string, shape (rows,)."""
        return self.encoded["doc"]

    def docs_at(self, rows: np.ndarray) -> pa.Array:
        """The documents of some rows, string, in their order."""
        # Arrow's take from a chunked column joins all its chunks first.
        order = np.argsort(rows, kind="stable")
        ends = np.cumsum([batch.num_rows for batch in self._batches])
        cuts = np.searchsorted(rows[order], ends)
        parts = [pa.nulls(0, pa.string())]
        for batch, end, lo, hi in zip(
            self._batches, ends.tolist(), [0, *cuts[:-1].tolist()], cuts.tolist(), strict=True
        ):
            if lo < hi:
                here = rows[order[lo:hi]] - (end - batch.num_rows)
                parts.append(batch.column("doc").take(arrow_column(here)))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(parts).take(arrow_column(back))

    @property
    def numbers(self) -> np.ndarray:
        """The scores or grades, float64 or int64, shape (rows,)."""
        return as_array(self.encoded[self.name].combine_chunks())

    @property
    def hashes(self) -> np.ndarray:
        """A hash of each pair, uint64, shape (rows,)."""
        return np.concatenate([np.empty(0, np.uint64), *(hashes for hashes, _ in self._marks)])

    @property
    def codes(self) -> np.ndarray:
        """A number for each row's query, in order of first appearance. int32, shape (rows,)."""
        return self._numbered[0]

    @property
    def queries(self) -> pa.Array:
        """The queries in order of their numbers, string."""
        return self._numbered[1]

    @cached_property
    def _numbered(self) -> tuple[np.ndarray, pa.Array]:
        few = [
            _texts(batch.column("query"), starts)
            for batch, (_, starts) in zip(self._batches, self._marks, strict=True)
        ]
        if not few:
            return np.empty(0, np.int32), pa.nulls(0, pa.string())
        found = pa.concat_arrays(few).dictionary_encode()
        firsts = accumulate((batch.num_rows for batch in self._batches), initial=0)
        starts = [start + first for (_, start), first in zip(self._marks, firsts, strict=False)]
        lengths = np.diff(np.concatenate(starts), append=self.rows)
        return frozen(np.repeat(as_array(found.indices), lengths)), found.dictionary

    def shared_hashes(self) -> np.ndarray:
        """Hashes that more than one row has, ascending. uint64."""
        numbers = self.codes
        # A query whose rows stand together, in one batch, has its pairs there and nowhere else.
        rebatch = np.zeros(len(self.queries), np.int64)
        ends = list(accumulate((batch.num_rows for batch in self._batches), initial=0))
        for at, (_, starts) in zip(ends, self._marks, strict=False):
            np.add.at(rebatch, numbers[starts + at], 1)

        def of_batch(i: int) -> tuple[np.ndarray, np.ndarray]:
            hashes = self._marks[i][0]
            apart = rebatch[numbers[ends[i] : ends[i + 1]]] > 1
            return _returning(hashes), hashes[apart]

        found = in_threads(of_batch, len(self._batches))
        none = np.empty(0, np.uint64)
        apart = _returning(np.concatenate([none, *(hashes for _, hashes in found)]))
        return np.unique(np.concatenate([apart, *(hashes for hashes, _ in found)]))

    def found_in(self, other: Keyed) -> np.ndarray:
        """The row that each pair has in another table, -1 where it has none.

        Parameters
        ----------
        other : Keyed
            Without a pair that stands twice.

        Returns
        -------
        ndarray of int64, shape (rows,)
        """
        docs = joined_chunks(other.docs.chunks)
        pairs = Pairs(other.codes, len(other.queries), docs, other.hashes)
        numbers = places_among(self.queries, other.queries).astype(np.int32)
        ends = list(accumulate((batch.num_rows for batch in self._batches), initial=0))

        def rows_of(i: int) -> np.ndarray:
            codes = numbers[self.codes[ends[i] : ends[i + 1]]]
            return pairs.find(codes, self._batches[i].column("doc"), self._marks[i][0])

        return np.concatenate([np.empty(0, np.int64), *in_threads(rows_of, len(self._batches))])


def _returning(hashes: np.ndarray) -> np.ndarray:
    """Hashes that are there more than once."""
    ascending = np.sort(hashes)
    return ascending[1:][ascending[1:] == ascending[:-1]]


def places_among(values: pa.Array, among: pa.Array) -> np.ndarray:
    """Where each value stands among others, which are distinct, -1 where it does not. int64."""
    import pyarrow.compute as pc

    found = pc.index_in(values, value_set=among)
    # Not fill_null(), which makes a scalar and so imports pandas.
    return np.where(as_array(found.is_valid()), as_array(found), -1).astype(np.int64)


def in_threads(task: Callable[[int], _Found], count: int) -> list[_Found]:
    """What a task finds for each number below `count`, in order."""
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        return list(pool.map(task, range(count)))


def _marks(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    queries = batch.column("query").cast(pa.string())
    starts = query_starts(queries)
    return marked(_texts(queries, starts), starts, batch.column("doc")), starts


def _texts(column: pa.Array, rows: np.ndarray) -> pa.Array:
    """The texts of a few rows."""
    return column.take(arrow_column(rows)).cast(pa.string())


DUPLICATES = ("error", "first", "last", "max")


def check_choice(duplicates: str) -> None:
    """Refuse what is not in `DUPLICATES`."""
    if duplicates not in DUPLICATES:
        raise ArgumentError(
            f"duplicates={duplicates!r} is unknown.{near(str(duplicates), DUPLICATES)} "
            f"Use {', '.join(DUPLICATES)}."
        )


def without_repeats(
    pairs: Keyed,
    duplicates: str,
    place: Callable[[int, int], str],
) -> Keyed:
    """Keep one row of each pair of query and document.

    Rows whose hash no other row has need no further look; only the others are compared.

    Parameters
    ----------
    pairs : Keyed
    duplicates : {"error", "first", "last", "max"}
        ``"max"`` keeps the row whose number is greatest, the first of those where it is equal.
    place : callable
        Says where two rows stand.

    Returns
    -------
    Keyed
        The kept rows in their order; `pairs` itself where no pair is there twice.

    Raises
    ------
    SourceError
        If a pair is there twice and `duplicates` is ``"error"``: names the first that returns.
    """
    shared = pairs.shared_hashes()
    if not len(shared):
        return pairs
    hashes = pairs.hashes
    after = np.searchsorted(shared, hashes)
    rows = np.flatnonzero(shared[np.minimum(after, len(shared) - 1)] == hashes)
    few = pairs.encoded.select(["query", "doc", pairs.name]).take(arrow_column(rows))
    same = numbered(few)
    order = np.argsort(same, kind="stable")
    first = np.ones(len(order), np.bool_)
    first[1:] = same[order[1:]] != same[order[:-1]]
    if first.all():
        return pairs
    if duplicates == "error":
        again = int(order[~first].min())
        before = int(order[np.searchsorted(same[order], same[again])])
        query, doc = (few[name][again].as_py() for name in ("query", "doc"))
        raise SourceError(
            f"Query {query!r} has document {doc!r} twice: "
            f"{place(int(rows[before]), int(rows[again]))}. Leave one out, or pass "
            "duplicates='first', 'last' or 'max' (--duplicates)."
        )
    if duplicates == "first":
        kept = order[first]
    else:
        if duplicates == "max":
            values = as_array(few[pairs.name].combine_chunks())
            order = np.lexsort((-np.arange(len(order)), values, same))
        kept = order[np.append(first[1:], True)]
    keep = np.ones(pairs.rows, np.bool_)
    keep[rows] = False
    keep[rows[kept]] = True
    bits = pa.py_buffer(np.packbits(keep, bitorder="little"))
    kept_rows = pa.Array.from_buffers(pa.bool_(), len(keep), [None, bits])
    return Keyed(pairs.encoded.filter(kept_rows), pairs.name)


def numbered(table: pa.Table) -> np.ndarray:
    """Numbers of pairs, equal exactly where the pairs are equal."""
    query, doc = (
        table[name].cast(pa.string()).combine_chunks().dictionary_encode()
        for name in ("query", "doc")
    )
    queries, docs = (as_array(column.indices).astype(np.int64) for column in (query, doc))
    return queries * len(doc.dictionary) + docs
