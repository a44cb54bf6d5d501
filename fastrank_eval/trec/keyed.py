"""A table of pairs of query and document, ready to be looked up in another and to be numbered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import accumulate
from typing import TypeVar

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import as_array
from fastrank_eval.arrow_values import arrow_column
from fastrank_eval.columns import frozen
from fastrank_eval.trec.pairs import Pairs, joined_chunks, marked, query_starts

__all__ = ["Keyed", "in_threads", "places_among"]

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
        stretches = np.zeros(len(self.queries), np.int64)
        ends = list(accumulate((batch.num_rows for batch in self._batches), initial=0))
        for at, (_, starts) in zip(ends, self._marks, strict=False):
            np.add.at(stretches, numbers[starts + at], 1)

        def of_batch(i: int) -> tuple[np.ndarray, np.ndarray]:
            hashes = self._marks[i][0]
            apart = stretches[numbers[ends[i] : ends[i + 1]]] > 1
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
