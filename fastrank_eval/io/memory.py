"""Open tables, readers, datasets, arrays and frames as sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import matches_annotation
from fastrank_eval._lib.arrow import arrow_column
from fastrank_eval._lib.errors import ColumnError, SourceError
from fastrank_eval.io.formats import check_batches
from fastrank_eval.io.source import (
    Source,
    first_line,
    foreign,
    reading,
    select,
    selected_row,
    type_name,
)

if TYPE_CHECKING:
    from fastrank_eval.io.filters import Where

__all__ = [
    "open_arrays",
    "open_batches",
    "open_dataset",
    "open_reader",
    "open_stream_object",
    "open_table",
]

_REMEDY = "Make the table again."
_SCAN = {"batch_size": 1 << 17, "batch_readahead": 4, "fragment_readahead": 1}


def open_table(table: pa.Table, name: str) -> Source:
    """Open a table; its chunks are the batches."""

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with reading(name, _REMEDY):
            yield from check_batches(table.select(list(columns)).to_batches())

    return Source(name, table.schema, read, rows=table.num_rows)


def open_reader(reader: pa.RecordBatchReader, name: str) -> Source:
    """Open a stream of batches, which can be read once."""

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with reading(name, "Produce the stream again."):
            yield from check_batches(select(reader, columns))

    return Source(name, reader.schema, read, rereadable=False)


def open_batches(batches: Iterable[Any], name: str) -> Source:
    """Open a list or iterator of batches or tables.

    An iterator can be read once.
    """
    rest = iter(batches)
    first = next(rest, None)
    if first is None:
        raise SourceError(
            f"{name} yields no batch, so its columns are not known: pass an empty table that has "
            "them, or leave this part out."
        )
    _batches_of(first, name)
    schema = first.schema
    again = isinstance(batches, Sequence)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for item in batches if again else chain([first], rest):
            for batch in _batches_of(item, name):
                if not batch.schema.equals(schema):
                    raise SourceError(
                        f"{name}: a batch has the columns {_columns(batch.schema)}, and the first "
                        f"one {_columns(schema)}: cast them to one schema."
                    )
                with reading(name, _REMEDY):
                    yield from check_batches([batch.select(list(columns))])

    return Source(name, schema, read, rereadable=again)


def _batches_of(item: object, name: str) -> list[pa.RecordBatch]:
    if isinstance(item, pa.Table):
        return item.to_batches()
    if isinstance(item, pa.RecordBatch):
        return [item]
    raise SourceError(f"{name} yields {type_name(item)}: pass RecordBatches or Tables of pyarrow.")


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


def open_stream_object(source: object, name: str) -> Source:
    """Open an object with ``__arrow_c_stream__``.

    An object with a length can be read again.
    """
    with foreign(name):
        first: list[pa.RecordBatchReader] = [pa.RecordBatchReader.from_stream(source)]

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with foreign(name):
            reader = first.pop() if first else pa.RecordBatchReader.from_stream(source)
            with reader:
                yield from check_batches(select(reader, columns))

    return Source(name, first[0].schema, read, rereadable=hasattr(source, "__len__"))


def open_dataset(dataset: Any, name: str, condition: Where | None = None) -> Source:
    """Open a pyarrow Dataset by fragments, so that errors name the file."""
    selection = None if condition is None else condition.select(dataset.schema)
    views = any(map(_is_view, dataset.schema.types))  # a scanner cannot filter them
    if condition is not None and (selection is None or selection.expression is None or views):
        return condition.apply(open_dataset(dataset, name))
    rows = None if selection is None else selection.expression

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        scan = {"columns": list(columns), "filter": rows, **_SCAN}
        try:
            fragments = list(dataset.get_fragments(filter=rows))
        except ValueError:  # a filtered dataset hides its fragments, so errors name no file
            with reading("the dataset", "Write the file again."):
                yield from check_batches(dataset.scanner(**scan).to_batches())
            return
        for fragment in fragments:
            with reading(repr(getattr(fragment, "path", name)), "Write the file again."):
                yield from check_batches(
                    fragment.scanner(schema=dataset.schema, **scan).to_batches()
                )

    locate = (lambda row: "") if rows is None else selected_row
    return Source(name, dataset.schema, read, locate=locate)


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def open_arrays(arrays: Mapping[Any, Any]) -> Source:
    """Open a mapping of column name to array."""
    if not arrays:
        raise SourceError("The mapping holds no column. Pass {name: array, ...}.")
    columns: dict[str, Any] = {}
    for name, values in arrays.items():
        if not isinstance(name, str):
            raise ColumnError(f"Column name {name!r} is {type_name(name)}: use a string.")
        if not matches_annotation(name, "str"):
            raise ColumnError(f"Column name {name!r} holds a lone surrogate: rename the column.")
        columns[name] = _arrow_column(name, values)
    first, *others = columns
    for name in others:
        if len(columns[name]) != len(columns[first]):
            raise ColumnError(
                f"Column {name!r} has {len(columns[name])} rows, but column {first!r} has "
                f"{len(columns[first])}. Pass arrays of equal length."
            )
    return open_table(pa.table(columns), "the mapping of arrays")


def _arrow_column(name: str, values: Any) -> Any:
    """Convert a column of a mapping to Arrow.

    A contiguous NumPy array of numbers is not copied.
    """
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise ColumnError(
                f"Column {name!r} has shape {values.shape}: one-dimensional arrays only. "
                "Pass one array a column."
            )
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
    elif isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise ColumnError(f"Column {name!r} is {type_name(values)}: pass an array.")
    try:
        if not isinstance(values, np.ndarray) and hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        if type(values) is np.ndarray and values.dtype.kind in "iuf":  # subclasses may mask values
            return arrow_column(np.ascontiguousarray(values))
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        kind = f"of dtype {values.dtype}" if hasattr(values, "dtype") else type_name(values)
        raise ColumnError(
            f"Column {name!r} ({kind}) does not fit an Arrow type: {first_line(error)}. "
            "Use numbers, booleans, strings or dates of one type."
        ) from error
