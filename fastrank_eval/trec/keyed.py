"""A table of pairs of query and document, ready to be looked up in another and to be numbered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import TypeVar

import numpy as np
import pyarrow as pa

from fastrank_eval.arrow_values import arrow_column
from fastrank_eval.trec.pairs import Pairs, joined_chunks, marked
from fastrank_eval.validation import as_array

__all__ = ["Keyed", "in_threads"]

_Found = TypeVar("_Found")


class Keyed:
    """Pairs, each with a number: the score of a run, or the grade of a judgement.

    Parameters
    ----------
    table : pyarrow.Table
        Columns ``query`` and ``doc``, string, and `number`; no nulls.
    number : str
    marks : sequence of tuple, optional
        Of each of its batches, what `marked` tells; found out by default.
    """

    def __init__(
        self,
        table: pa.Table,
        number: str,
        marks: Sequence[tuple[np.ndarray, np.ndarray]] | None = None,
    ) -> None:
        self.table = table
        self.name = number
        self._batches = table.to_batches()
        if marks is None:
            marks = in_threads(lambda i: marked(*_pair(self._batches[i])), len(self._batches))
        self._marks = marks

    @property
    def rows(self) -> int:
        """How many pairs there are."""
        return int(self.table.num_rows)

    @property
    def numbers(self) -> np.ndarray:
        """The scores or grades, float64 or int64, shape (rows,)."""
        return as_array(self.table[self.name].combine_chunks())

    @property
    def hashes(self) -> np.ndarray:
        """A hash of each pair, uint64, shape (rows,)."""
        return np.concatenate([np.empty(0, np.uint64), *(hashes for hashes, _ in self._marks)])

    def codes(self) -> tuple[np.ndarray, pa.Array]:
        """A number for each row's query, and the queries in order of first appearance."""
        few = [
            batch.column("query").take(arrow_column(starts))
            for batch, (_, starts) in zip(self._batches, self._marks, strict=True)
        ]
        if not few:
            return np.empty(0, np.int64), pa.nulls(0, pa.string())
        found = pa.concat_arrays(few).dictionary_encode()
        firsts = accumulate((batch.num_rows for batch in self._batches), initial=0)
        starts = [start + first for (_, start), first in zip(self._marks, firsts, strict=False)]
        lengths = np.diff(np.concatenate(starts), append=self.rows)
        return np.repeat(as_array(found.indices).astype(np.int64), lengths), found.dictionary

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
        query, doc = (joined_chunks(other.table[name].chunks) for name in ("query", "doc"))
        pairs = Pairs(query, doc, other.hashes)

        def rows_of(i: int) -> np.ndarray:
            return pairs.find(*_pair(self._batches[i]), self._marks[i][0])

        return np.concatenate([np.empty(0, np.int64), *in_threads(rows_of, len(self._batches))])


def in_threads(task: Callable[[int], _Found], count: int) -> list[_Found]:
    """What a task finds for each number below `count`, in order."""
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        return list(pool.map(task, range(count)))


def _pair(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    return batch.column("query"), batch.column("doc")
