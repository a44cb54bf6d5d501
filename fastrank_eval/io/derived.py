"""Add columns that the threads that read a batch compute from its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import pyarrow as pa

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.io.source import Batch, Source, UnreadBatch

#: Rows that are computed together: their intermediate results fit the cache of a processor.
BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class DerivedColumn:
    """A column that is computed from others.

    Parameters
    ----------
    kind : pyarrow.DataType
    inputs : tuple of str
        Columns of the source.
    compute : callable
        Computes the column of a batch that has the inputs.
    """

    kind: pa.DataType
    inputs: tuple[str, ...]
    compute: Callable[[pa.RecordBatch], pa.Array]


def with_columns(source: Source, derive: Callable[[Source], Mapping[str, DerivedColumn]]) -> Source:
    """Add columns that are computed while rows are read.

    Parameters
    ----------
    source : Source
    derive : callable
        Returns the columns by new name, or raises. It is called again if a file without types is
        opened again, whose columns may then have other types.

    Returns
    -------
    Source
        Threads that read its batches compute the columns.

    Examples
    --------
    >>> from fastrank_eval.io.reader import open_source
    >>> half = DerivedColumn(pa.float64(), ("x",), lambda batch: batch.column("x").cast("double"))
    >>> source = with_columns(open_source({"x": [1, 2]}), lambda source: {"y": half})
    >>> [batch.to_pydict() for batch in source.batches(["y"])]
    [{'y': [1.0, 2.0]}]
    """
    derived, reopen = derive(source), source.as_text
    schema = source.schema
    for name, column in derived.items():
        schema = schema.append(pa.field(name, column.kind))

    def read(names: Sequence[str]) -> Iterator[Batch]:
        inputs = chain.from_iterable(
            derived[name].inputs if name in derived else (name,) for name in names
        )
        batches = source.unread_batches(list(dict.fromkeys(inputs)))
        if not derived.keys() & set(names):
            return batches

        def compute(batch: pa.RecordBatch) -> pa.RecordBatch:
            arrays = [
                derived[name].compute(batch) if name in derived else batch.column(name)
                for name in names
            ]
            return pa.RecordBatch.from_arrays(arrays, names=list(names))

        return (_computed_batch(batch, compute) for batch in batches)

    return Source(
        source.name,
        schema,
        read,
        rows=source.rows,
        rereadable=source.rereadable,
        locate=source.locate,
        input_row=source.input_row,
        edges=source.edges,
        as_text=None if reopen is None else lambda *names: with_columns(reopen(*names), derive),
        spellings=source.spellings,
    )


def _computed_batch(
    batch: Batch, compute: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> UnreadBatch:
    """Return a batch whose columns are computed by the thread that reads it."""
    if isinstance(batch, UnreadBatch):
        read_rows = batch.read
        return UnreadBatch(
            batch.row_groups,
            lambda groups, max_rows, threads: map(compute, read_rows(groups, max_rows, threads)),
        )
    starts = range(0, batch.num_rows, BLOCK_ROWS)

    def read(groups: tuple[int, ...], max_rows: int, threads: bool) -> Iterator[pa.RecordBatch]:
        first, end = starts[groups[0]], min(starts[groups[-1]] + BLOCK_ROWS, batch.num_rows)
        for lo in range(first, end, max_rows):
            yield compute(batch.slice(lo, min(max_rows, end - lo)))

    row_groups = ((n, min(BLOCK_ROWS, batch.num_rows - lo)) for n, lo in enumerate(starts))
    return UnreadBatch(tuple(row_groups), read)
