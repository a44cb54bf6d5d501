"""Tell which rows a condition can select before they are read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_value
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.io.literals import is_textual, order_key, plain_type
from fastrank_eval.io.paths import File
from fastrank_eval.io.source import first_line, require_columns

if TYPE_CHECKING:
    import pyarrow.compute as pc

__all__ = [
    "ANYTHING",
    "FALSE",
    "NULL",
    "TRUE",
    "UNKNOWN",
    "Range",
    "expression_columns",
    "expression_mask",
    "expression_outcomes",
    "partition_ranges",
    "row_group_ranges",
]


_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


@dataclass(frozen=True)
class Range:
    """A closed range of the values of a column; NaN may occur outside it.

    Parameters
    ----------
    low, high : object
        Bounds as of `literals.order_key`; None if unknown.
    nulls, values : bool
        Whether some rows may be null, and whether some may be not null.
    """

    low: Any = None
    high: Any = None
    nulls: bool = True
    values: bool = True


UNKNOWN = Range()


def partition_ranges(file: File, schema: pa.Schema) -> dict[str, Range]:
    """Return the ranges of partition columns: the values in a file's path."""
    ranges = {}
    for name, text in file.partitions.items():
        indices = schema.get_all_field_indices(name)
        if len(indices) != 1:
            continue
        if text is None:
            ranges[name] = Range(values=False)
            continue
        try:
            value = arrow_value(text, pa.string())
            key = order_key(value.cast(plain_type(schema.field(name).type)))
        except pa.ArrowException:
            continue
        if key is not None and key == key:
            ranges[name] = Range(key, key, nulls=False)
    return ranges


def row_group_ranges(
    parquet: Any, group: int, targets: Mapping[str, pa.DataType]
) -> dict[str, Range]:
    """Return the ranges of columns from the statistics of a row group.

    Parameters
    ----------
    parquet : pyarrow.parquet.ParquetFile
    group : int
        Index of the row group.
    targets : mapping of str to pyarrow.DataType
        The columns, with their types in the source.
    """
    row_group = parquet.metadata.row_group(group)
    ranges = {}
    for index in range(row_group.num_columns):
        leaf = parquet.schema.column(index)
        target = targets.get(leaf.path)
        # Skip leaves of lists and structs.
        if target is None or leaf.name != leaf.path or leaf.max_repetition_level:
            continue
        column = row_group.column(index)
        if column.physical_type != leaf.physical_type:  # its statistics would crash the process
            raise pa.ArrowInvalid(
                f"its footer calls column {leaf.path!r} {leaf.physical_type} and, in row group "
                f"{group}, {column.physical_type}"
            )
        statistics = column.statistics
        if statistics is None:
            continue
        nulls, values = leaf.max_definition_level > 0, True
        if nulls and statistics.has_null_count:
            nulls, values = statistics.null_count > 0, statistics.null_count < row_group.num_rows
        low = high = None
        if statistics.has_min_max:
            own = parquet.schema_arrow.field(leaf.path).type
            low, high = _bounds(statistics, leaf, plain_type(own), plain_type(target))
        ranges[leaf.path] = Range(low, high, nulls, values)
    return ranges


def _bounds(statistics: Any, leaf: Any, own: pa.DataType, target: pa.DataType) -> tuple[Any, Any]:
    """Return minimum and maximum if their order is that of `order_key`.

    Otherwise both are None. A writer may truncate long strings: then the bounds lie outside of the
    values, never among them.
    """
    low, high = statistics.min_raw, statistics.max_raw
    kind = statistics.physical_type
    if is_textual(own) and is_textual(target):
        comparable = kind == "BYTE_ARRAY"
    elif _numeric(own) and _numeric(target):
        comparable = kind in ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE")
        if pa.types.is_unsigned_integer(own):  # pyarrow returns them as signed
            bits = 64 if kind == "INT64" else 32
            low, high = low % (1 << bits), high % (1 << bits)
    elif pa.types.is_date32(own):
        comparable = own.equals(target) and kind == "INT32"
    else:
        comparable = pa.types.is_timestamp(own) and own.equals(target) and kind == "INT64"
        comparable = comparable and _unit(leaf) == own.unit
    # Bounds of NaN, or in another order, are useless.
    return (low, high) if comparable and low <= high else (None, None)


def _unit(leaf: Any) -> str | None:
    return _UNITS.get(json.loads(leaf.logical_type.to_json()).get("timeUnit"))


def _numeric(kind: pa.DataType) -> bool:
    return (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
    )


#: Possible values of a condition in some rows, as bits of a set.
TRUE, FALSE, NULL = 1, 2, 4
ANYTHING = TRUE | FALSE | NULL


def expression_columns(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """Find the columns of an expression: evaluation fails without them.

    pyarrow has no function for this.

    Raises
    ------
    ColumnError
        If a column is missing.
    ArgumentError
        If the expression does not fit the columns, uses a column by index, or is no condition.
    """
    text = str(expression)
    if "FieldPath(" in text:
        raise ArgumentError(f"where={text}: must use column names, not indices.")
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
    """Return the mask of the rows that an expression selects.

    Raises
    ------
    ArgumentError
        If the expression cannot be evaluated.
    """
    from pyarrow import acero

    # Not RecordBatch.filter, which splits the batch over threads.
    table = acero.TableSourceNodeOptions(pa.Table.from_batches([batch]))
    steps = [
        acero.Declaration("table_source", table),
        acero.Declaration("project", acero.ProjectNodeOptions([expression], ["mask"])),
    ]
    try:
        mask = acero.Declaration.from_sequence(steps).to_table(use_threads=False).column(0)
    except (pa.ArrowException, ValueError, TypeError) as error:
        kinds = ", ".join(f"{column.name!r} is {column.type}" for column in batch.schema)
        raise ArgumentError(
            f"where={expression}: {first_line(error)}. Compare each column with values of its "
            f"type: {kinds}."
        ) from error
    return pa.concat_arrays(mask.chunks) if mask.num_chunks else pa.array([], mask.type)


def expression_outcomes(
    expression: pc.Expression,
    columns: Sequence[str],
    schema: pa.Schema,
    ranges: Mapping[str, Range],
) -> int:
    """Return the possible values of an expression for rows in these ranges."""
    import pyarrow.compute as pc

    column_ranges = {name: ranges.get(name, UNKNOWN) for name in columns}
    kinds = {name: schema.field(name).type for name in columns}
    # NaN lies outside of any range, but Arrow assumes that all values lie in it.
    guarantees = {
        name: guarantee
        for name, column_range in column_ranges.items()
        if not pa.types.is_floating(kinds[name])
        and (guarantee := _guarantee(pc.field(name), kinds[name], column_range)) is not None
    }
    if not guarantees:
        return ANYTHING
    if len(guarantees) == len(columns) and all(map(_is_single_value, column_ranges.values())):
        arrays = [
            pa.array([_scalar(column_ranges[name].low, kinds[name])
                      if column_ranges[name].values else None])
            .cast(kinds[name])
            for name in columns
        ]  # fmt: skip
        (value,) = expression_mask(expression, pa.RecordBatch.from_arrays(arrays, list(columns)))
        return {True: TRUE, False: FALSE, None: NULL}[value.as_py()]
    return ANYTHING if _may_hold(expression, schema, columns, guarantees.values()) else FALSE | NULL


def _may_hold(
    expression: pc.Expression, schema: pa.Schema, columns: Sequence[str], guarantees: Any
) -> bool:
    """Return whether Arrow's dataset would read a file with these guarantees."""
    import pyarrow.compute as pc
    from pyarrow import dataset, fs

    parquet, disk = dataset.ParquetFileFormat(), fs.LocalFileSystem()
    guarantee = reduce(pc.and_kleene, guarantees)
    file = parquet.make_fragment("-", filesystem=disk, partition_expression=guarantee)
    fields = pa.schema([schema.field(name) for name in columns])
    files = dataset.FileSystemDataset([file], fields, parquet, disk)
    try:
        return any(True for _ in files.get_fragments(filter=expression))
    except (pa.ArrowException, ValueError):
        return True


def _guarantee(
    column: pc.Expression, kind: pa.DataType, value_range: Range
) -> pc.Expression | None:
    if not value_range.values:
        return column.is_null()
    low, high = _scalar(value_range.low, kind), _scalar(value_range.high, kind)
    if low is None or high is None:
        return None
    if value_range.low == value_range.high and not value_range.nulls:
        return column == low
    ends = (column >= low), (column <= high)
    if value_range.nulls:  # Arrow understands only this form
        ends = (ends[0] | column.is_null()), (ends[1] | column.is_null())
    return ends[0] & ends[1]


def _is_single_value(value_range: Range) -> bool:
    return not value_range.values or (
        not value_range.nulls
        and value_range.low is not None
        and value_range.low == value_range.high
    )


def _scalar(key: Any, kind: pa.DataType) -> pa.Scalar | None:
    if key is None:
        return None
    try:
        return pa.scalar(key, pa.binary()).cast(kind) if is_textual(kind) else pa.scalar(key, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None


def _empty(fields: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], pa.schema(list(fields)))
