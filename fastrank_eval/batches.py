"""The batches of a source: peeked at, limited, counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa

from fastrank_eval.progress import report
from fastrank_eval.sources import Source

__all__ = ["Reading"]


class Reading:
    """The batches of a source, as often as they can be read; what is read is reported.

    Parameters
    ----------
    source : Source
    columns : tuple of str
        Columns to read.
    limit : int or None
        Rows to stop after.
    phase : str
        What reports call it.
    """

    def __init__(
        self, source: Source, columns: tuple[str, ...], limit: int | None, phase: str = "reading"
    ) -> None:
        self.rereadable = source.rereadable
        self.limit = limit
        self.rows = source.rows
        if limit is not None and source.rows is not None:
            self.rows = min(limit, source.rows)
        self._source, self._columns, self._phase = source, columns, phase
        self._begun: tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch]] | None = None

    def batches(self, most: int | None = None) -> Iterator[pa.RecordBatch]:
        """All batches, those already peeked at included.

        Parameters
        ----------
        most : int, optional
            Rows to cut longer batches to, so that one long batch is not reported as one step.
        """
        peeked, rest = self._begun or ([], self._limited())
        self._begun = None
        return self._counted(chain(peeked, rest), most)

    def peek(self) -> pa.RecordBatch | None:
        """The first batch; it is read again by `batches`."""
        rest = self._limited()
        first = next(rest, None)
        self._begun = ([] if first is None else [first], rest)
        return first

    def _limited(self) -> Iterator[pa.RecordBatch]:
        left = self.limit
        for batch in self._source.batches(self._columns):
            if left is not None:
                batch = batch.slice(0, min(left, batch.num_rows))
                left -= batch.num_rows
            if batch.num_rows:
                yield batch
            if left == 0:
                return

    def _counted(
        self, batches: Iterable[pa.RecordBatch], most: int | None
    ) -> Iterator[pa.RecordBatch]:
        rows = 0
        report(self._phase, rows, self.rows)
        for batch in batches:
            for first in range(0, batch.num_rows, most or batch.num_rows):
                part = batch.slice(first, most)
                yield part
                rows += part.num_rows
                report(self._phase, rows, self.rows)
        report(self._phase, rows, rows)
