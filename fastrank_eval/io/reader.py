"""Cut the batches of a source to a size, with a few read ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import decoded, fixed_items
from fastrank_eval._lib.jit import scratch
from fastrank_eval._lib.progress import report
from fastrank_eval.io import Source
from fastrank_eval.io.source import Batch, UnreadBatch, cut, first_rows, read_parts

__all__ = ["RowReader"]


#: Rows read at a time of a row group that a limit cuts.
_CUT_ROWS = 1 << 17


class RowReader:
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
        self._begun: tuple[list[Batch], Iterator[Batch]] | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, those already peeked at included, in batches."""
        return read_parts(self.parts())

    def parts(self, most: int | None = None) -> Iterator[Batch]:
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

    def _limited(self) -> Iterator[Batch]:
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

    def _counted(self, parts: Iterable[Batch], most: int | None) -> Iterator[Batch]:
        rows = 0
        report(self._phase, rows, self.rows)
        for part in parts if most is None else cut(parts, most):
            yield part
            rows += part.num_rows
            report(self._phase, rows, self.rows)
        report(self._phase, rows, rows)


def _first(part: Batch, rows: int) -> Iterator[Batch]:
    """The first rows of a longer part."""
    if not isinstance(part, UnreadBatch):
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


#: Parts that follow one another, and the number of their first row in the whole input.
WorkBatch = tuple[list[Batch], int]


def rebatch(parts: Iterable[Batch], rows: int) -> Iterator[WorkBatch]:
    """Cut long parts and collect short ones, with the number of each stretch's first row.

    A batch of half a stretch is long: joining it to another would cost more than it saves.
    """
    first_row = held = 0
    short: list[Batch] = []
    for part in cut(parts, rows):
        here = part.num_rows
        long = 2 * here >= rows
        if short and (long or held + here > rows):
            yield short, first_row
            first_row += held
            short, held = [], 0
        if long:
            yield [part], first_row
            first_row += here
        else:
            short.append(part)
            held += here
    if short:
        yield short, first_row


def read_batch(parts: list[Batch]) -> list[pa.RecordBatch]:
    """The batches of a stretch, of which the calling thread reads those that are unread."""
    read: list[pa.RecordBatch] = []
    for part in parts:
        read += part.batches(part.num_rows) if isinstance(part, UnreadBatch) else [part]
    return read


def in_scratch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches as one; what was copied for it is overwritten by the thread's next call.

    Into fresh memory the copy takes twice as long: 3.5 ns a row of 13 bytes.
    """
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_arrays(
        [_column_in_scratch(batches, place) for place in range(batches[0].num_columns)],
        batches[0].schema.names,
    )


def _column_in_scratch(batches: list[pa.RecordBatch], place: int) -> pa.Array:
    parts = [batch.column(place) for batch in batches]
    kind = parts[0].type
    plain = pa.types.is_primitive(kind) and kind.bit_width in (8, 16, 32, 64)
    if not plain or any(part.null_count or not part.type.equals(kind) for part in parts):
        (column,) = joined([batch.select([place]) for batch in batches]).columns
        return column
    items = np.dtype(f"u{kind.bit_width // 8}")
    room = scratch(f"column {place}", sum(map(len, parts)), items)
    np.concatenate([fixed_items(part, items) for part in parts], out=room)
    return pa.Array.from_buffers(kind, len(room), [None, pa.py_buffer(room)])


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches that follow one another as one batch; a single one is not copied."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches)
    for i, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type) or pa.types.is_run_end_encoded(column.type):
            # Arrow joins no run ends, and no dictionaries with nulls or with more values together
            # than their indices count.
            column = pa.chunked_array([decoded(chunk) for chunk in column.chunks])
            table = table.set_column(i, table.field(i).name, column)
        # Offsets of 32 bits end at 2 GiB.
        if column.nbytes >= 1 << 31 and pa.types.is_string(column.type):
            table = table.set_column(i, table.field(i).name, column.cast(pa.large_string()))
        elif column.nbytes >= 1 << 31 and pa.types.is_binary(column.type):
            table = table.set_column(i, table.field(i).name, column.cast(pa.large_binary()))
    (batch,) = table.combine_chunks().to_batches()
    return batch
