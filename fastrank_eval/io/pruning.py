"""What is known of a column's values in some rows before they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_value
from fastrank_eval.io.literals import is_textual, order_key, plain_type
from fastrank_eval.io.paths import File

__all__ = [
    "ANYTHING",
    "FALSE",
    "NULL",
    "TRUE",
    "UNKNOWN",
    "Range",
    "partition_ranges",
    "row_group_ranges",
]

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


@dataclass(frozen=True)
class Range:
    """Values of a column lie between two ends, both included; NaN lies outside and may be there.

    Parameters
    ----------
    low, high : object
        As `literals.order_key` gives them; None where nothing is known.
    nulls, values : bool
        Whether some may be null; whether some may be something else.
    """

    low: Any = None
    high: Any = None
    nulls: bool = True
    values: bool = True


UNKNOWN = Range()


def partition_ranges(file: File, schema: pa.Schema) -> dict[str, Range]:
    """The one value that the folders of a file's path give to each partition column."""
    found = {}
    for name, text in file.partitions.items():
        places = schema.get_all_field_indices(name)
        if len(places) != 1:
            continue
        if text is None:
            found[name] = Range(values=False)
            continue
        try:
            value = arrow_value(text, pa.string())
            key = order_key(value.cast(plain_type(schema.field(name).type)))
        except pa.ArrowException:
            continue
        if key is not None and key == key:
            found[name] = Range(key, key, nulls=False)
    return found


def row_group_ranges(
    parquet: Any, group: int, targets: Mapping[str, pa.DataType]
) -> dict[str, Range]:
    """What the statistics of a row group tell of columns, which are to be of these types.

    Parameters
    ----------
    parquet : pyarrow.parquet.ParquetFile
    group : int
    targets : mapping of str to pyarrow.DataType
    """
    row_group = parquet.metadata.row_group(group)
    found = {}
    for place in range(row_group.num_columns):
        leaf = parquet.schema.column(place)
        target = targets.get(leaf.path)
        # Leaves of lists and structs are no columns.
        if target is None or leaf.name != leaf.path or leaf.max_repetition_level:
            continue
        chunk = row_group.column(place)
        if (
            chunk.physical_type != leaf.physical_type
        ):  # reading its statistics would end the process
            raise pa.ArrowInvalid(
                f"its footer calls column {leaf.path!r} {leaf.physical_type} and, in row group "
                f"{group}, {chunk.physical_type}"
            )
        statistics = chunk.statistics
        if statistics is None:
            continue
        nulls, values = leaf.max_definition_level > 0, True
        if nulls and statistics.has_null_count:
            nulls, values = statistics.null_count > 0, statistics.null_count < row_group.num_rows
        low = high = None
        if statistics.has_min_max:
            own = parquet.schema_arrow.field(leaf.path).type
            low, high = _ends(statistics, leaf, plain_type(own), plain_type(target))
        found[leaf.path] = Range(low, high, nulls, values)
    return found


def _ends(statistics: Any, leaf: Any, own: pa.DataType, target: pa.DataType) -> tuple[Any, Any]:
    """Least and greatest value, where their order is that of `order_key`; else None.

    A writer may cut long strings: its ends then lie outside of the values, never among them.
    """
    low, high = statistics.min_raw, statistics.max_raw
    kind = statistics.physical_type
    if is_textual(own) and is_textual(target):
        known = kind == "BYTE_ARRAY"
    elif _numeric(own) and _numeric(target):
        known = kind in ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE")
        if pa.types.is_unsigned_integer(own):  # told as if signed
            bits = 64 if kind == "INT64" else 32
            low, high = low % (1 << bits), high % (1 << bits)
    elif pa.types.is_date32(own):
        known = own.equals(target) and kind == "INT32"
    else:
        known = pa.types.is_timestamp(own) and own.equals(target) and kind == "INT64"
        known = known and _unit(leaf) == own.unit
    # NaN among the ends, or ends of another order, tell nothing.
    return (low, high) if known and low <= high else (None, None)


def _unit(leaf: Any) -> str | None:
    return _UNITS.get(json.loads(leaf.logical_type.to_json()).get("timeUnit"))


def _numeric(kind: pa.DataType) -> bool:
    return (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
    )


#: What a condition may come to in some rows, as a set of bits.
TRUE, FALSE, NULL = 1, 2, 4


ANYTHING = TRUE | FALSE | NULL
