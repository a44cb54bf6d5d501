"""Runs and qrels that are columns already, or dicts of dicts, as record batches of one form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import as_array, decoded
from fastrank_eval.arrow_values import arrow_column, bytes_column
from fastrank_eval.errors import ColumnError, SourceError
from fastrank_eval.sources import open_source, require_columns
from fastrank_eval.sources.reading import first_line, type_name
from fastrank_eval.trec.lines import QRELS, Layout

__all__ = ["SUBTOPICS", "batches_of_columns", "batches_of_mapping", "is_nested"]

#: What a document covers, in a table of judgements.
SUBTOPICS = pa.list_(pa.int64())

_ROWS = 1 << 20


def is_nested(source: object) -> bool:
    """Whether this is a mapping of mappings, as pytrec_eval takes runs and qrels."""
    return isinstance(source, Mapping) and all(isinstance(v, Mapping) for v in source.values())


def batches_of_columns(
    source: object, layout: Layout, names: Mapping[str, str], format_: str | None
) -> Iterator[pa.RecordBatch]:
    """The columns of a table, frame or file as strings and numbers.

    Parameters
    ----------
    source : object
        What `open_source` takes.
    layout : Layout
        Names the columns wanted; ``run`` may be missing.
    names : mapping of str to str
        What the source calls them.
    format_ : str or None
        Format of files.

    Raises
    ------
    ColumnError
        If a column is missing, null somewhere, NaN, or of a type that is no id or no number.
    SourceError
        If the source cannot be read.
    """
    ids = [names.get(column, column) for column in layout.columns if column != layout.number]
    opened = open_source(source, format=format_, text=ids)
    wanted = {
        column: names.get(column, column)
        for column in layout.columns
        if column != "run" or "run" in opened.schema.names
    }
    if layout is QRELS and _has_lists(opened.schema, "subtopics"):
        wanted["subtopics"] = "subtopics"
    require_columns(opened.schema, wanted.values(), source=opened.name)
    row = 0
    for whole in opened.batches(list(dict.fromkeys(wanted.values()))):
        for start in range(0, whole.num_rows, _ROWS):
            batch = whole.slice(start, _ROWS)
            columns = []
            for column, name in wanted.items():
                place = _Column(opened.name, name, row)
                values = decoded(batch.column(name))
                if column == layout.number:
                    columns.append(_numbers(values, place, layout))
                elif column == "subtopics":
                    columns.append(_lists(values, place))
                else:
                    columns.append(_texts(values, place))
            yield pa.RecordBatch.from_arrays(columns, names=list(wanted))
            row += batch.num_rows


def batches_of_mapping(source: Mapping[Any, Any], layout: Layout) -> Iterator[pa.RecordBatch]:
    """The pairs of ``{query: {doc: number}}``, in its order; matched by their keys from here on.

    Raises
    ------
    SourceError
        If a key is neither text nor an integer, or a value is no number, is NaN, or is a grade
        without end.
    """
    pairs = (
        (_id(query, "query"), _id(doc, "document"), value)
        for query, docs in source.items()
        for doc, value in docs.items()
    )
    while part := list(islice(pairs, _ROWS)):
        queries, docs, values = zip(*part, strict=True)
        columns = [bytes_column(ids, pa.string()) for ids in (queries, docs)]
        numbers = _values(values, layout)
        if numbers is None:
            query, doc, value = next(row for row in part if _values(row[2:], layout) is None)
            raise SourceError(
                f"Query {query.decode()!r}, document {doc.decode()!r}: the {layout.number} "
                f"{value!r} is no {'finite ' * (layout.number == 'grade')}number."
            )
        names = ["query", "doc", layout.number]
        yield pa.RecordBatch.from_arrays([*columns, arrow_column(numbers)], names=names)


@dataclass(frozen=True)
class _Column:
    """A column of a source, and the row that its next values begin with."""

    source: str
    name: str
    row: int

    def refuse(self, bad: np.ndarray, what: str) -> NoReturn:
        """Name the first row for which `bad` says so."""
        row = self.row + int(bad.argmax())
        raise ColumnError(f"Column {self.name!r} of {self.source} {what} (row {row:,}).")


def _texts(values: pa.Array, column: _Column) -> pa.Array:
    kind = values.type
    if values.null_count:
        column.refuse(as_array(values.is_null()).view(np.bool_), "is null: every row needs an id")
    if pa.types.is_string(kind):
        return values
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_null(kind)
    ):
        raise ColumnError(
            f"Column {column.name!r} of {column.source} is {kind}, which is no id: "
            "cast it to string or to an integer."
        )
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise ColumnError(
            f"Column {column.name!r} of {column.source} cannot be read as text: "
            f"{first_line(error)}. Cast it to string."
        ) from error


def _has_lists(schema: pa.Schema, name: str) -> bool:
    if name not in schema.names:
        return False
    kind = schema.field(name).type
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _lists(values: pa.Array, column: _Column) -> pa.Array:
    try:
        return values.cast(SUBTOPICS)
    except pa.ArrowException as error:
        raise ColumnError(
            f"Column {column.name!r} of {column.source} is {values.type}, not lists of whole "
            "numbers: cast it, or call it otherwise."
        ) from error


def _numbers(values: pa.Array, column: _Column, layout: Layout) -> pa.Array:
    kind = values.type
    if values.null_count:
        column.refuse(
            as_array(values.is_null()).view(np.bool_),
            f"is null: leave out what has no {layout.number}",
        )
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ColumnError(
            f"Column {column.name!r} of {column.source} is {kind}, not numbers: "
            "cast it to float64 or int64."
        )
    whole = layout.number == "grade" and not pa.types.is_floating(kind)
    items = as_array(values)
    numbers = items.astype(np.int64 if whole else np.float64)
    # Only 64 bits can be too many: a score above 2^53, an unsigned grade above 2^63.
    if kind in (pa.int64(), pa.uint64()):
        back = numbers.astype(items.dtype)
        changed = (back != items) | ((numbers < 0) != (items < 0))
        if changed.any():
            column.refuse(changed, f"holds an integer that {numbers.dtype} does not")
    elif numbers.dtype == np.float64:
        if layout.number == "score":
            bad, what = np.isnan(numbers), "is NaN"
        else:
            bad, what = ~np.isfinite(numbers), "is NaN or infinite"
        if bad.any():
            column.refuse(bad, what)
    return arrow_column(np.ascontiguousarray(numbers))


def _id(key: object, what: str) -> bytes:
    if isinstance(key, str):
        try:
            return key.encode()
        except UnicodeEncodeError as error:
            raise SourceError(f"The {what} {key!r} is not valid text: {error}.") from error
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return str(key).encode()
    raise SourceError(f"The {what} {key!r} is {type_name(key)}: ids are text or integers.")


def _values(values: Sequence[Any], layout: Layout) -> np.ndarray | None:
    """The numbers of a mapping; None where one of them is none."""
    if not all(isinstance(value, int | float | np.number | np.bool_) for value in values):
        return None
    grades = layout.number == "grade"
    whole = grades and not any(isinstance(value, float | np.floating) for value in values)
    try:
        numbers = np.array(values, np.int64 if whole else np.float64)
    except (OverflowError, TypeError):
        return None
    wrong = ~np.isfinite(numbers) if grades else np.isnan(numbers)
    return None if wrong.any() else numbers
