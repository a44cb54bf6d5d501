"""Open streams of batches, and close those of other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any, NoReturn

import pyarrow as pa

from fastrank_eval._lib.errors import ColumnError, SourceError
from fastrank_eval.io.source import Source, check_batches, foreign, reading, select, type_name

#: The readers of other libraries that the call in this context has opened.
_opened: ContextVar[list[pa.RecordBatchReader] | None] = ContextVar("opened", default=None)


@contextmanager
def closing_readers() -> Iterator[None]:
    """Close the readers of other libraries on every path out.

    A traceback keeps them alive, and DuckDB runs no other query until its reader is closed.
    """
    opened: list[pa.RecordBatchReader] = []
    before = _opened.set(opened)
    try:
        yield
    finally:
        _opened.reset(before)
        for reader in opened:
            reader.close()


def _open_reader(source: Any) -> pa.RecordBatchReader:
    reader = pa.RecordBatchReader.from_stream(source)
    opened = _opened.get()
    if opened is not None:
        opened.append(reader)
    return reader


def _columns_of_objects(source: Any) -> set[str]:
    """Name the columns of a polars frame whose values Arrow sees as addresses."""
    if type(source).__module__ != "polars.dataframe.frame":
        return set()
    return {name for name, kind in source.schema.items() if str(kind) == "Object"}


def refuse_objects(name: str) -> NoReturn:
    """Raise for a column of Python objects."""
    raise ColumnError(
        f"Column {name!r} holds Python objects of polars, and Arrow has only their addresses; "
        "convert it to text or numbers, as by map_elements(str, return_dtype=pl.String)."
    )


def open_stream_object(source: object, name: str) -> Source:
    """Open an object with ``__arrow_c_stream__``.

    An object with a length can be read again.
    """
    rereadable = hasattr(source, "__len__")
    objects = _columns_of_objects(source)
    with foreign(name):
        first: list[pa.RecordBatchReader] = [_open_reader(source)]
    schema = first[0].schema
    if rereadable and _opened.get() is None:  # no context would close it
        first.pop().close()

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for column in objects.intersection(columns):
            refuse_objects(column)
        with foreign(name):
            reader = first.pop() if first else _open_reader(source)
            with reader:
                yield from check_batches(select(reader, columns))

    return Source(name, schema, read, rereadable=rereadable)


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
                with reading(name, "Make the table again."):
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
