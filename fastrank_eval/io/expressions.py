"""A pyarrow Expression as a condition: its columns, the rows it selects and those it cannot."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.io.literals import is_textual
from fastrank_eval.io.pruning import ANYTHING, FALSE, NULL, TRUE, UNKNOWN, Range
from fastrank_eval.io.source import first_line, require_columns

__all__ = ["expression_columns", "expression_mask", "expression_outcomes"]


def expression_columns(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that an expression needs; pyarrow does not tell, so they are found by trying.

    Raises
    ------
    ColumnError
        If a column is missing.
    ArgumentError
        If the expression does not fit the columns, names one by its place, or is no condition.
    """
    text = str(expression)
    if "FieldPath(" in text:
        raise ArgumentError(f"where={text}: name columns, not their places.")
    fields = {field.name: field for field in schema if field.name in text}
    try:
        kind = expression_mask(expression, _empty(fields.values())).type
    except ArgumentError as error:
        missing = re.search(r"No match for FieldRef\.Name\((.*?)\) in", str(error))
        if missing:
            require_columns(schema, [missing[1]], role="where")
        raise
    if not pa.types.is_boolean(kind):
        raise ArgumentError(f"where={text} is {kind}, not a condition: compare it with something.")
    needed = []
    for name in fields:
        others = [field for field in fields.values() if field.name != name]
        try:
            expression_mask(expression, _empty(others))
        except ArgumentError:
            needed.append(name)
    require_columns(schema, needed, role="where")
    return tuple(needed)


def expression_mask(expression: pc.Expression, batch: pa.RecordBatch) -> pa.Array:
    """Which rows of a batch an expression selects.

    Raises
    ------
    ArgumentError
        If it cannot be computed.
    """
    from pyarrow import acero

    # Not RecordBatch.filter, which hands pieces of the batch to threads.
    table = acero.TableSourceNodeOptions(pa.Table.from_batches([batch]))
    steps = [
        acero.Declaration("table_source", table),
        acero.Declaration("project", acero.ProjectNodeOptions([expression], ["mask"])),
    ]
    try:
        found = acero.Declaration.from_sequence(steps).to_table(use_threads=False).column(0)
    except (pa.ArrowException, ValueError, TypeError) as error:
        kinds = ", ".join(f"{column.name!r} is {column.type}" for column in batch.schema)
        raise ArgumentError(
            f"where={expression}: {first_line(error)}. Compare each column with values of its "
            f"type: {kinds}."
        ) from error
    return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)


def expression_outcomes(
    expression: pc.Expression,
    columns: Sequence[str],
    schema: pa.Schema,
    known: Mapping[str, Range],
) -> int:
    """What an expression may come to in rows of which this is known."""
    ranges = {name: known.get(name, UNKNOWN) for name in columns}
    kinds = {name: schema.field(name).type for name in columns}
    # NaN lies in no range, and Arrow takes for granted that all values do.
    told = {
        name: facts
        for name, found in ranges.items()
        if not pa.types.is_floating(kinds[name])
        and (facts := _facts(pc.field(name), kinds[name], found)) is not None
    }
    if not told:
        return ANYTHING
    if len(told) == len(columns) and all(map(_single, ranges.values())):
        arrays = [
            pa.array([_value(ranges[name].low, kinds[name]) if ranges[name].values else None])
            .cast(kinds[name])
            for name in columns
        ]  # fmt: skip
        (found,) = expression_mask(expression, pa.RecordBatch.from_arrays(arrays, list(columns)))
        return {True: TRUE, False: FALSE, None: NULL}[found.as_py()]
    return ANYTHING if _may_hold(expression, schema, columns, told.values()) else FALSE | NULL


def _may_hold(
    expression: pc.Expression, schema: pa.Schema, columns: Sequence[str], facts: Any
) -> bool:
    """Ask a dataset of one file, of which these facts hold, whether it would read the file."""
    from pyarrow import dataset, fs

    parquet, disk = dataset.ParquetFileFormat(), fs.LocalFileSystem()
    guarantee = reduce(pc.and_kleene, facts)
    file = parquet.make_fragment("-", filesystem=disk, partition_expression=guarantee)
    fields = pa.schema([schema.field(name) for name in columns])
    files = dataset.FileSystemDataset([file], fields, parquet, disk)
    try:
        return any(True for _ in files.get_fragments(filter=expression))
    except (pa.ArrowException, ValueError):
        return True


def _facts(column: pc.Expression, kind: pa.DataType, known: Range) -> pc.Expression | None:
    if not known.values:
        return column.is_null()
    low, high = _value(known.low, kind), _value(known.high, kind)
    if low is None or high is None:
        return None
    if known.low == known.high and not known.nulls:
        return column == low
    ends = (column >= low), (column <= high)
    if known.nulls:  # in this form Arrow understands it
        ends = (ends[0] | column.is_null()), (ends[1] | column.is_null())
    return ends[0] & ends[1]


def _single(known: Range) -> bool:
    return not known.values or (
        not known.nulls and known.low is not None and known.low == known.high
    )


def _value(key: Any, kind: pa.DataType) -> pa.Scalar | None:
    if key is None:
        return None
    try:
        return pa.scalar(key, pa.binary()).cast(kind) if is_textual(kind) else pa.scalar(key, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None


def _empty(fields: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], pa.schema(list(fields)))
