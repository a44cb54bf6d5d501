"""Give each element of list columns a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    decode_array,
    mask_column,
    null_rows,
    values_type,
    wide,
)
from fastrank_eval._lib.errors import ColumnError, FastRankEvalError
from fastrank_eval.io.source import Source

#: Elements of a batch.
_ELEMENTS = 1 << 20


def unnested(
    source: Source,
    lists: Sequence[str],
    position: str | None = None,
    empty: Callable[[pa.RecordBatch], object] | None = None,
) -> Source:
    """Return a source with a row for each element of list columns.

    Other columns repeat their value. The elements of a row stand next to each other.

    Parameters
    ----------
    source : Source
    lists : sequence of str
        Columns of lists, equally long in each row. Structs give a column for each field. A name
        that is there twice then is refused by who asks for it.
    position : str, optional
        The name of the position of each element in its list, from 1, if no column has it.
    empty : callable, optional
        Gets the rows whose lists are empty, while they are read.

    Raises
    ------
    ColumnError
        While reading, if a list is null, or lists of one row are not equally long.
    """
    #: The columns of the result, and by name the column that each comes from.
    fields: list[pa.Field] = []
    origin: dict[str, str] = {}
    for field in source.schema:
        kind = values_type(field.type)
        kind = kind.value_type if field.name in lists else kind
        is_struct = field.name in lists and pa.types.is_struct(kind)
        parts = list(kind) if is_struct else [field.with_type(kind)]
        fields += parts
        origin.update((part.name, field.name) for part in parts)
    if position is not None and position not in origin:
        fields.append(pa.field(position, pa.int64()))
    else:
        position = None
    is_clear = len({field.name for field in fields}) == len(fields)

    def rows(batch: pa.RecordBatch, lengths: np.ndarray) -> pa.RecordBatch:
        parents = arrow_column(np.repeat(np.arange(len(lengths)), lengths))
        columns: dict[str, pa.Array] = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name not in lists:
                columns[name] = wide(decode_array(column)).take(parents)
                continue
            values = decode_array(column).flatten()
            if pa.types.is_struct(values.type):
                names = [part.name for part in values.type]
                columns.update(zip(names, values.flatten(), strict=True))
            else:
                columns[name] = values
        if position is not None:
            starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
            columns[position] = arrow_column(np.arange(1, len(starts) + 1) - starts)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        asked = [origin[name] for name in columns if name != position]
        first = 0
        # At least one list says how many rows there are.
        for batch in source.batches(list(dict.fromkeys([*asked, *lists]))):
            lengths = _lengths(batch, lists, source.name, first)
            if empty is not None and not lengths.all():
                empty(batch.filter(mask_column(lengths == 0)))
            step = max(1, len(lengths) * _ELEMENTS // max(int(lengths.sum()), 1))
            for start in range(0, len(lengths), step):
                part = rows(batch.slice(start, step), lengths[start : start + step])
                yield part.select(list(columns))
            first += len(lengths)

    def locate(row: int) -> str:
        first, element = 0, row
        with suppress(FastRankEvalError):
            for batch in source.batches(lists[:1]) if source.rereadable else ():
                ends = np.cumsum(_lengths(batch, lists[:1], source.name, first))
                if element < ends[-1]:
                    index = int(np.searchsorted(ends, element, "right"))
                    element -= int(ends[index - 1]) if index else 0
                    place = source.locate(first + index)
                    place = place or f"row {first + index:,} of {source.name}"
                    return f"element {element:,} of the lists in {place} (elements count as rows)"
                first, element = first + len(ends), element - int(ends[-1])
        return f"element {row:,} of all lists (elements count as rows)"

    return source.derived(
        read,
        name=source.name if is_clear else f"{source.name} and the fields of its lists",
        schema=pa.schema(fields),
        rows=None,
        as_text=None,
        locate=locate,
        input_row=lambda row: row,
    )


def _lengths(batch: pa.RecordBatch, lists: Sequence[str], source: str, first: int) -> np.ndarray:
    """Return the length of the lists of each row, which are equally long."""
    found: dict[str, np.ndarray] = {}
    for name in lists:
        column = decode_array(batch.column(name))
        if column.null_count:
            row = first + int(null_rows(column).argmax())
            raise ColumnError(
                f"Column {name!r} of {source} has no list in row {row:,} (counted from 0): write "
                "an empty list, or leave the row out."
            )
        found[name] = as_array(column.value_lengths()).astype(np.int64)
        differs = found[name] != found[lists[0]]
        if differs.any():
            row = int(differs.argmax())
            raise ColumnError(
                f"Column {name!r} of {source} has a list of {found[name][row]:,} in row "
                f"{first + row:,} (counted from 0), and {lists[0]!r} has one of "
                f"{found[lists[0]][row]:,}: the lists of a row must be equally long."
            )
    return found[lists[0]]
