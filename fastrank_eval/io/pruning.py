"""Return the ranges of columns before their rows are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_value, is_textual, plain_type
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.io.paths import File

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


@dataclass(frozen=True)
class Range:
    """A closed range of the values of a column; NaN may occur outside it.

    Parameters
    ----------
    low, high : object
        Bounds as of `order_key`; None if unknown.
    nulls, values : bool
        Whether some rows may be null, and whether some may be not null.
    """

    low: Any = None
    high: Any = None
    nulls: bool = True
    values: bool = True


UNKNOWN = Range()


def order_key(value: pa.Scalar) -> Any:
    """Return a Python value with the same order as the column, or None."""
    kind = value.type
    if not value.is_valid:
        return None
    if is_textual(kind):
        return bytes(value.as_buffer()) if value.as_buffer() is not None else b""
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return value.value
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return value.as_py()
    return None


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
        unit = json.loads(leaf.logical_type.to_json()).get("timeUnit")
        comparable = comparable and _UNITS.get(unit) == own.unit
    # Bounds of NaN, or in another order, are useless.
    return (low, high) if comparable and low <= high else (None, None)


def _numeric(kind: pa.DataType) -> bool:
    return (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
    )
