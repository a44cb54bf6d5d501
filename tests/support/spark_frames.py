"""Frames of Spark from tables of Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def frame_of(spark: Any, table: pa.Table) -> Any:
    """Make a frame of a table; `createDataFrame` of Spark 3.5 takes rows and a schema only."""
    from pyspark import __version__
    from pyspark.sql.pandas.types import from_arrow_schema

    if int(__version__.partition(".")[0]) >= 4:
        return spark.createDataFrame(table)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return spark.createDataFrame(rows, from_arrow_schema(table.schema))
