"""Frames of Spark from tables of Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def frame_of(spark: Any, table: pa.Table) -> Any:
    """Make a frame of a table; `createDataFrame` of Spark 3.5 takes rows and a schema only."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if _takes_tables():
        return spark.createDataFrame(table)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return spark.createDataFrame(rows, from_arrow_schema(table.schema))


def sorted_table(frame: Any, like: pa.Table, order: list[tuple[str, str]]) -> pa.Table:
    """Collect a frame with the types of a table, in an order; Spark 3.5 collects rows only."""
    if _takes_tables():
        return frame.toArrow().cast(like.schema).sort_by(order)
    rows = [row.asDict() for row in frame.collect()]
    return pa.Table.from_pylist(rows, like.schema).sort_by(order)


def _takes_tables() -> bool:
    from pyspark import __version__

    return int(__version__.partition(".")[0]) >= 4
