"""Store pairs of query and document, find equal ones, and drop duplicates."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import fields
from functools import cached_property
from itertools import chain, pairwise, repeat
from operator import is_
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import checked, integer
from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    bytes_column,
    column_with_nulls,
    decode_array,
    frozen,
    mask_column,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import SourceError
from fastrank_eval._lib.lexer import shorten
from fastrank_eval._lib.threads import map_jobs
from fastrank_eval.groups.scan import descends
from fastrank_eval.groups.ties import order_by_item
from fastrank_eval.io.keys import KeyEncoder, encode_keys, encode_rows
from fastrank_eval.results.report import list_text

#: Runs of adjacent texts from which on Arrow's take(), whose import takes 45 ms, is faster.
_MANY = 1 << 14
#: Rows that are numbered at a time, so that their words take little memory.
_RANGE = 1 << 17
#: Describes two rows of a source that is no text.
ROWS = "row {:,} and row {:,}".format
_LARGE_STRING = pa.large_string()
DUPLICATES = ("error", "first", "last", "max")


def take_texts(texts: pa.ChunkedArray, rows: np.ndarray) -> pa.Array:
    """Select the texts of some rows, large string."""
    is_first = np.append(True, rows[1:] - rows[:-1] != 1)[: len(rows)]
    edges = np.append(np.flatnonzero(is_first), len(rows))
    if len(edges) > max(len(rows) >> 3, _MANY):
        return _concat(texts.take(arrow_column(rows)).chunks)
    runs = zip(rows[edges[:-1]].tolist(), np.diff(edges).tolist(), strict=True)
    return _concat([chunk for run in runs for chunk in texts.slice(*run).chunks])


def run_ends(texts: pa.Array, firsts: np.ndarray, rows: int) -> pa.Array:
    """Make a column of texts that begin at some rows, the first at row 0."""
    ends = arrow_column(np.append(firsts[1:], rows if rows else firsts[:0]).astype(np.int64))
    kind = pa.run_end_encoded(ends.type, texts.type)
    # Not from_arrays(), which imports pandas.
    return pa.Array.from_buffers(kind, rows, [None], children=[ends, texts])


def id_column(ids: Sequence[str], what: str, kind: pa.DataType = _LARGE_STRING) -> pa.Array:
    """Make a column of ids, large string by default.

    Raises
    ------
    SourceError
        If an id is no valid text.
    """
    try:
        return bytes_column(ids, kind)
    except UnicodeEncodeError as error:
        raise SourceError(
            f"The {what} {shorten(error.object, 100)!r} is not valid text: {error}."
        ) from error


def pack(numbers: Collection[Any], kind: str = "d") -> bytes:
    """Pack numbers as float64, or int64 if `kind` is ``"q"``.

    Raises
    ------
    struct.error, TypeError, OverflowError
        If one is no number, or none of the kind.
    """
    return struct.pack(f"{len(numbers)}{kind}", *numbers)


def look_up(docs: Mapping[str, Any], asked: Collection[str]) -> bytes:
    """Pack the numbers of documents, NaN for those that are not there."""
    return pack([*map(docs.get, asked, repeat(np.nan))])


def lengths_of(parts: Collection[Sized]) -> np.ndarray:
    """Get the length of each part, int64."""
    return np.fromiter(map(len, parts), np.int64, len(parts))


def edges_of(lengths: np.ndarray) -> np.ndarray:
    """Get the first row of each part, then the number of rows. int64."""
    edges = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=edges[1:])
    return frozen(edges)


@dataclass(frozen=True)
class PairDicts:
    """The rows of ``{query: {doc: number}}``, in its order.

    Parameters
    ----------
    by_query : dict of str to mapping
        The documents of each query that has some; ids are texts.
    lengths : ndarray of int64, shape (queries,)
        Their number.
    numbers : ndarray of int64 or float64, shape (rows,)
    found : bytes or None
        `look_up` of the documents that were asked for, of each query that has some.
    """

    by_query: Mapping[str, Mapping[str, object]]
    lengths: np.ndarray
    numbers: np.ndarray
    found: bytes | None = None

    def numbers_of(self, docs: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """Get the numbers of mappings, mostly those of all queries."""
        own = self.by_query.values()
        if len(own) == len(docs) and all(map(is_, own, docs)):
            return self.numbers.astype(np.float64, copy=False)
        return np.frombuffer(b"".join([pack(each.values()) for each in docs]))

    def table(self, number: str) -> pa.Table:
        """Make the columns of a `PairTable`."""
        firsts = np.cumsum(self.lengths) - self.lengths
        queries = run_ends(id_column([*self.by_query], "query"), firsts, len(self.numbers))
        docs = id_column([*chain.from_iterable(self.by_query.values())], "document")
        columns = [queries, docs, arrow_column(self.numbers)]
        return pa.Table.from_arrays(columns, names=["query", "doc", number])


class PairTable:
    """The rows of a run or of judgements, as they were read.

    Parameters
    ----------
    rows : pyarrow.Table or PairDicts
        Columns ``query``, large string, maybe run-end encoded, ``doc``, large string, and `number`;
        maybe others; no nulls. The rows of dicts become columns where these are needed.
    number : str
        The column of scores or grades.
    describe : callable
        Describes the positions of two rows, for messages.
    empty : sequence of str
        Queries that are there without a document.
    comments : int
        Number of lines that were read as comments, but have the fields of a row.

    Attributes
    ----------
    duplicates : {"error", "first", "last", "max"}
        What to do with a pair that is there twice; ``"max"`` selects the row of the greatest
        number, the first of ties.
    remedy : str
        What to do except for leaving one row out, for messages.
    notes : tuple of str
        What the reader has understood.
    """

    def __init__(
        self,
        rows: pa.Table | PairDicts,
        number: str,
        describe: Callable[[int, int], str] = ROWS,
        empty: Sequence[str] = (),
        comments: int = 0,
    ) -> None:
        self._source = rows
        self.number, self.describe = number, describe
        self.empty, self.comments = empty, comments
        self.duplicates, self.remedy = "error", ""
        self.notes: tuple[str, ...] = ()

    @cached_property
    def rows(self) -> pa.Table:
        """All rows, in order, as columns."""
        source = self._source
        return source.table(self.number) if isinstance(source, PairDicts) else source

    @property
    def dicts(self) -> PairDicts | None:
        """All rows as dicts, if they were read from such."""
        return self._source if isinstance(self._source, PairDicts) else None

    @property
    def tag(self) -> str:
        """The name of a run: that of its last line, as for trec_eval."""
        if self.dicts is not None or "run" not in self.rows.column_names or not self.rows.num_rows:
            return "run"
        return str(self.rows["run"][-1].as_py())

    @property
    def table(self) -> pa.Table:
        """One row of each pair: strings and numbers."""
        table = self.rows
        selected = Pairs([self]).rows[0]
        if len(selected) < table.num_rows:
            keep = np.zeros(table.num_rows, np.bool_)
            keep[selected] = True
            table = decoded(table).filter(mask_column(keep))
        return decoded(table, pa.string())

    @cached_property
    def numbers(self) -> np.ndarray:
        """The scores or grades, float64 or int64, shape (rows,)."""
        return self.dicts.numbers if self.dicts else as_array(_one_chunk(self.rows[self.number]))

    def select(self, pair: np.ndarray, count: int) -> np.ndarray:
        """Select one row of each pair.

        Parameters
        ----------
        pair : ndarray of int32 or int64, shape (rows,)
            The pair of each row.
        count : int
            Number of pairs.

        Returns
        -------
        ndarray, shape (pairs,)
            Of the type of `pair`; -1 where no row has the pair.

        Raises
        ------
        SourceError
            If there is a duplicate and `duplicates` is ``"error"``: names the first one.
        """
        by = np.arange(len(pair), dtype=pair.dtype)
        selected = np.full(count, -1, pair.dtype)
        selected[pair] = by
        if self.duplicates == "last" or np.count_nonzero(selected >= 0) == len(pair):
            return selected
        selected[pair[::-1]] = by[::-1]
        if self.duplicates == "error":
            second = int((selected[pair] != by).argmax())
            repeated = self.rows.slice(second, 1)
            query, doc = (decoded(repeated)[name][0].as_py() for name in ("query", "doc"))
            raise SourceError(
                f"Query {shorten(query, 100)!r} has document {shorten(doc, 100)!r} twice: "
                f"{self.describe(int(selected[pair[second]]), second)}. Leave one out, or "
                f"{self.remedy}"
            )
        if self.duplicates == "max":
            # Of several rows of a pair the last in this order stays.
            by = np.lexsort((-by, self.numbers))
            selected[pair[by]] = by
        return selected


def are_dicts(tables: Iterable[PairTable]) -> bool:
    """Return whether all tables were read from dicts."""
    return all(table.dicts is not None for table in tables)


class Pairs:
    """The pairs of some tables, each once, by query.

    Queries and the documents of each are in order of first appearance, tables one after another.

    Parameters
    ----------
    tables : sequence of PairTable

    Attributes
    ----------
    queries : pyarrow.LargeStringArray, shape (queries,)
    starts : ndarray of int64, shape (queries + 1,)
        The first pair of each query, then the number of pairs.
    query : ndarray of int32, shape (pairs,)
        The index of the query of each pair.
    rows : list of ndarray of int32 or int64, shape (pairs,)
        For each table its row of each pair, -1 if it has none.

    Raises
    ------
    SourceError
        If a table has a pair twice, which is an error there.
    """

    def __init__(self, tables: Sequence[PairTable]) -> None:
        """Number pairs by a hash table for the documents of each query."""
        self.tables = tables
        query, self.queries = _encode_queries([table.rows["query"] for table in tables])
        order = np.argsort(query, kind="stable")
        bounds = np.searchsorted(query, np.arange(len(self.queries) + 1), sorter=order)
        kind: Any = np.int32 if len(order) < 1 << 31 else np.int64
        order, pair = order.astype(kind), np.empty(len(order), kind)

        def number(part: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
            lo, hi = part
            rows, parts = order[bounds[lo] : bounds[hi]], bounds[lo : hi + 1] - bounds[lo]
            texts = take_texts(self._docs, rows)
            words = frozen(np.stack(KeyEncoder("doc", pa.large_string()).words(texts)))
            # Each query has a hash table of its own, which stays in the cache.
            codes, firsts, starts = np.empty((3, len(rows)), np.int64)
            ends = encode_rows(words, parts[None], codes, firsts, starts, distinct=True)
            pair[rows] = codes
            return np.diff(ends), rows[firsts[: ends[-1]]]

        cuts = np.append(np.arange(0, len(pair), _RANGE), len(pair))
        ranges = pairwise(np.unique(np.searchsorted(bounds, cuts)).tolist())
        numbered = list(map_jobs(pa.cpu_count(), number, ranges))
        counts = [np.zeros(1, np.int64), *(count for count, _ in numbered)]
        self.starts = frozen(np.cumsum(np.concatenate(counts)))
        self._first_rows = np.concatenate([order[:0], *(first for _, first in numbered)])
        pair = pair + self.starts.astype(kind)[query]
        lengths = np.cumsum([table.rows.num_rows for table in tables])
        self.rows = [
            table.select(part, int(self.starts[-1]))
            for table, part in zip(tables, np.split(pair, lengths[:-1]), strict=True)
        ]
        self.query = np.repeat(np.arange(len(self.queries), dtype=np.int32), np.diff(self.starts))

    @cached_property
    def _docs(self) -> pa.ChunkedArray:
        """The document of each row, tables one after another."""
        docs = [chunk for table in self.tables for chunk in table.rows["doc"].chunks]
        return pa.chunked_array(docs, pa.large_string())

    def docs(self, pairs: np.ndarray) -> pa.Array:
        """Get the documents of some pairs, large string."""
        return take_texts(self._docs, self._first_rows[pairs])

    def values(self, table: int) -> tuple[np.ndarray, np.ndarray]:
        """Get the number of each pair in a table, and which have none."""
        numbers, rows = self.tables[table].numbers, self.rows[table]
        # Row -1 is the one after the last.
        return np.append(numbers, numbers.dtype.type(0))[rows], rows < 0

    def have(self, table: int) -> np.ndarray:
        """Return which queries have a document in a table."""
        return np.maximum.reduceat(self.rows[table], self.starts[:-1]) >= 0

    def named(self, names: Collection[str]) -> np.ndarray:
        """Return which queries are among these names."""
        if not names:
            return np.zeros(len(self.starts) - 1, np.bool_)
        known = {*names}
        return np.array([name in known for name in self.queries.to_pylist()], np.bool_)

    def ranked(self, table: int, as_float32: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rank pairs of a run by query: descending score, then descending id.

        Returns
        -------
        pairs : ndarray of int64, shape (retrieved,)
        scores : ndarray of float32 or float64, shape (retrieved,)
        bounds : ndarray of int64, shape (queries + 1,)
            The first of each query, then their number.
        """
        found = np.flatnonzero(self.rows[table] >= 0)
        bounds = frozen(np.searchsorted(found, self.starts))
        scores = self.tables[table].numbers[self.rows[table][found]]
        if as_float32:
            with np.errstate(over="ignore"):
                scores = scores.astype(np.float32)
        in_order = descends(frozen(scores), bounds)
        order = order_by_item(scores, bounds, lambda rows: self.docs(found[rows]), in_order)
        return found[order], scores[order], bounds


@dataclass(frozen=True)
class Cuts:
    """Which documents of a run do not count.

    Each leaves out documents that the one before has left.

    Parameters
    ----------
    drop_self : bool
        Leave out the document that has the id of its query.
    skip_first : bool
        Leave out the document of the highest score, of equal ones that of the highest id.
    most : int or None
        The largest number of documents of each query.
    judged_only : bool
        Leave out documents that are unjudged, or have a negative grade: for trec_eval such a
        document is in the pool, but unjudged.
    """

    drop_self: bool = False
    skip_first: bool = False
    most: int | None = None
    judged_only: bool = False

    def __post_init__(self) -> None:
        checked("most", self.most, integer(1, optional=True))

    @property
    def by_document(self) -> bool:
        """Whether the ranks of documents do not decide if they count."""
        return not self.skip_first and self.most is None

    def chosen(self) -> dict[str, object]:
        """Return those that leave out documents."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value}

    def note(self, run: str, read: int, kept: int) -> Iterator[str]:
        """Note how many documents of a run are left out, if any."""
        if kept < read:
            chosen = self.chosen()
            names = [n if value is True else f"{n}={value}" for n, value in chosen.items()]
            yield f"{run}: {read - kept:,} of {read:,} documents left out by {list_text(names)}"


class Common(Pairs):
    """The pairs of runs and of judgements, and the queries to evaluate.

    Parameters
    ----------
    runs : sequence of PairTable
    judged : PairTable
        The last of `tables`.
    complete : bool
        Whether queries of the judgements alone are wanted.

    Attributes
    ----------
    is_judged, answered : ndarray of bool, shape (queries,)
        The queries of the judgements, and of any run, also those without a document.
    wanted : ndarray of bool, shape (queries,)
        The queries to evaluate: those of both, and those of the judgements if `complete`.
    lacking : list of ndarray of bool, shape (queries,)
        For each run the queries that it does not even have without a document.
    """

    def __init__(self, runs: Sequence[PairTable], judged: PairTable, complete: bool) -> None:
        super().__init__([*runs, judged])
        self.is_judged = self.have(-1)
        self.lacking = [~(self.have(i) | self.named(run.empty)) for i, run in enumerate(runs)]
        self.answered = ~np.logical_and.reduce(self.lacking)
        self.wanted = self.is_judged & (self.answered | complete)

    def cut(self, run: int, cuts: Cuts, *, as_float32: bool) -> tuple[int, int]:
        """Leave out documents of a run; return how many it has before and after.

        `as_float32` rounds scores to float32 first.
        """
        rows = self.rows[run]
        before = int((rows >= 0).sum())
        if cuts.drop_self:
            rows[self._of_itself(np.flatnonzero(rows >= 0))] = -1
        if cuts.skip_first or cuts.most is not None:
            ranked, _, bounds = self.ranked(run, as_float32)
            ranks = np.arange(len(ranked)) - np.repeat(bounds[:-1], np.diff(bounds))
            most = np.inf if cuts.most is None else cuts.most + cuts.skip_first
            rows[ranked[(ranks < cuts.skip_first) | (ranks >= most)]] = -1
        if cuts.judged_only:
            grades, is_unjudged = self.values(-1)
            rows[is_unjudged | (grades < 0)] = -1
        return before, int((rows >= 0).sum())

    def judged_anywhere(self, pairs: np.ndarray) -> pa.Array:
        """Return the grade of pairs, 0 at least, null if judged for no query.

        A document that is judged for another query has the grade 0.
        """
        import pyarrow.compute as pc

        grades, is_unjudged = self.values(-1)
        known = self.docs(np.flatnonzero(~is_unjudged))
        grades, is_unknown = np.maximum(grades[pairs], 0), is_unjudged[pairs]
        grades[is_unknown] = 0
        if is_unknown.any():
            docs = self.docs(pairs[is_unknown])
            is_unknown[is_unknown] = ~as_array(pc.is_in(docs, value_set=known)).astype(np.bool_)
        return column_with_nulls(grades, is_unknown)

    def _of_itself(self, pairs: np.ndarray) -> np.ndarray:
        """Select the pairs whose document has the id of the query."""
        import pyarrow.compute as pc

        queries = self.queries.take(arrow_column(self.query[pairs]))
        return pairs[as_array(pc.equal(self.docs(pairs), queries)).astype(np.bool_)]


def decoded(table: pa.Table, kind: pa.DataType | None = None) -> pa.Table:
    """Decode run ends of a table, and cast its texts to a type."""
    for i, field in enumerate(table.schema):
        column = table.column(i)
        if pa.types.is_run_end_encoded(field.type):
            chunks = [decode_array(chunk) for chunk in column.chunks]
            column = pa.chunked_array(chunks, field.type.value_type)
        if kind is not None and pa.types.is_large_string(column.type):
            column = column.cast(kind)
        table = table.set_column(i, field.name, column)
    return table


def _encode_queries(columns: Sequence[pa.ChunkedArray]) -> tuple[np.ndarray, pa.Array]:
    """Number the queries of rows by first appearance; return also their names."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    texts, lengths = [], [np.empty(0, np.int64)]
    for chunk in chunks:
        is_encoded = pa.types.is_run_end_encoded(chunk.type)
        texts.append(chunk.values if is_encoded else chunk)
        ends = as_array(chunk.run_ends) if is_encoded else np.arange(1, len(chunk) + 1)
        lengths.append(np.diff(ends, prepend=0))
    names = _concat(texts)
    words = KeyEncoder("query", pa.large_string()).words(names)
    codes, firsts = encode_keys([arrow_column(word) for word in words])
    queries = take_texts(pa.chunked_array([names]), firsts)
    return np.repeat(codes.astype(np.int32), np.concatenate(lengths)), queries


def _concat(chunks: Sequence[pa.Array]) -> pa.Array:
    """Concatenate chunks of large strings."""
    return pa.concat_arrays([*chunks, pa.nulls(0, pa.large_string())])


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
