"""The rows of a source: peeked at, limited, counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa

from fastrank_eval.progress import report
from fastrank_eval.sources import Source
from fastrank_eval.sources.unread import Part, Unread, cut, first_rows, read_parts

__all__ = ["Reading"]

#: Rows read at a time of a row group that a limit cuts.
_CUT_ROWS = 1 << 17


class Reading:
    """The rows of a source, as often as they can be read; what is read is reported.

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
        self._begun: tuple[list[Part], Iterator[Part]] | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, those already peeked at included, in batches."""
        return read_parts(self.parts())

    def parts(self, most: int | None = None) -> Iterator[Part]:
        """All rows, those already peeked at included, some of them not read yet.

        Parameters
        ----------
        most : int, optional
            Rows to cut longer batches to, so that one long batch is not reported as one step.
        """
        peeked, rest = self._begun or ([], self._limited())
        self._begun = None
        return self._counted(chain(peeked, rest), most)

    def peek(self, rows: int) -> pa.RecordBatch | None:
        """The first rows, as many as the first part has, but no more; they are read again."""
        rest = self._limited()
        first = next(rest, None)
        self._begun = ([] if first is None else [first], rest)
        return None if first is None else first_rows(first, rows)

    def _limited(self) -> Iterator[Part]:
        left = self.limit
        for part in self._source.parts(self._columns):
            if left is None or part.num_rows <= left:
                left = None if left is None else left - part.num_rows
                yield part
            else:
                yield from _first(part, left)
                return
            if left == 0:
                return

    def _counted(self, parts: Iterable[Part], most: int | None) -> Iterator[Part]:
        rows = 0
        report(self._phase, rows, self.rows)
        for part in parts if most is None else cut(parts, most):
            yield part
            rows += part.num_rows
            report(self._phase, rows, self.rows)
        report(self._phase, rows, rows)


def _first(part: Part, rows: int) -> Iterator[Part]:
    """The first rows of a longer part."""
    if not isinstance(part, Unread):
        yield part.slice(0, rows)
        return
    whole, rest = part.split(rows)
    if whole.num_rows:
        yield whole
    left = rows - whole.num_rows
    if left:
        for batch in rest.batches(min(left, _CUT_ROWS), threads=True):
            yield batch.slice(0, left)
            left -= min(left, batch.num_rows)
            if not left:
                return
