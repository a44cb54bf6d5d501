"""A DataFrame as its columns are known here, and its rows grouped by Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from fastrank_eval.errors import ArgumentError
from fastrank_eval.spark.task import FIRST_HASH, SECOND_HASH

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "Grouped",
    "arrow_schema",
    "check_frame",
    "functions_of",
    "grouped",
    "hashes",
    "numbered",
    "quoted",
]

_INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
#: What columns of types that Arrow does not know are taken for; no measure takes it.
_UNKNOWN = pa.struct([])


class Grouped(NamedTuple):
    """Rows of which each group lies in one partition, in order of its key.

    Parameters
    ----------
    frame : DataFrame
    key : str
        The integer column that they are partitioned and sorted by.
    key_bits : int
        Its width.
    group : tuple of str
        The columns that tell groups apart there.
    hashed : tuple of str
        Key columns that two hashes stand for.
    names : tuple of str
        What its columns are called here; there they are numbered.
    """

    frame: DataFrame
    key: str
    key_bits: int
    group: tuple[str, ...]
    hashed: tuple[str, ...]
    names: tuple[str, ...]


def check_frame(df: Any) -> None:
    """Refuse what is no DataFrame of Spark, or one without an end."""
    if not (type(df).__module__.startswith("pyspark.") and hasattr(df, "mapInArrow")):
        raise ArgumentError(
            f"fastrank_eval.spark takes a DataFrame of Spark, not {type(df).__name__}; "
            "fastrank_eval.evaluate() takes tables, frames and files."
        )
    if df.isStreaming:
        raise ArgumentError(
            "the DataFrame is a stream, of which there is no last row: evaluate what has arrived, "
            "as in foreachBatch()."
        )


def functions_of(df: DataFrame) -> Any:
    """Functions on columns, of the kind of session that the DataFrame belongs to."""
    if ".connect." in type(df).__module__:
        from pyspark.sql.connect import functions as connected

        return connected
    from pyspark.sql import functions

    return functions


def quoted(name: str) -> str:
    """A column's name as Spark reads it, whatever signs are in it."""
    return "`" + name.replace("`", "``") + "`"


def arrow_schema(df: DataFrame) -> pa.Schema:
    """The columns with the types that partitions will have."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    # Spark 3.5 takes no time zone and always means UTC.
    zone: dict[str, Any] = (
        {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}
    )
    fields = []
    for field in df.schema.fields:
        try:
            kind = to_arrow_type(field.dataType, **zone)
        except (PySparkException, TypeError):
            kind = _UNKNOWN
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def grouped(
    df: DataFrame,
    group: Sequence[str],
    columns: Iterable[str],
    partitions: int,
    *,
    keep_keys: bool,
) -> Grouped:
    """Have Spark bring the rows of each group together.

    One integer column is what Spark sorts by radix; by anything else it compares row by row. Other
    keys are therefore hashed, twice 64 bits, the second told from the first by a prefix.

    Parameters
    ----------
    df : DataFrame
    group : sequence of str
        Key columns.
    columns : iterable of str
        Columns that are read beside them.
    partitions : int
    keep_keys : bool
        Whether hashed keys themselves are wanted too.

    Notes
    -----
    The number of partitions is always given: Spark merges partitions whose number it chose itself,
    and those it has been asked to balance it cuts inside a key.
    """
    functions = functions_of(df)
    kinds = {field.name: field.dataType.typeName() for field in df.schema.fields}
    bits = _INTEGERS.get(kinds[group[0]], 0) if len(group) == 1 else 0
    read = list(dict.fromkeys([*(group if bits or keep_keys else ()), *columns]))
    taken = numbered(df, read)
    key = group[0]
    if not bits:
        key, bits = FIRST_HASH, 64
        taken += [
            each.alias(f"c{place}") for place, each in enumerate(hashes(df, group), len(read))
        ]
        read += [FIRST_HASH, SECOND_HASH]
        names: tuple[str, ...] = tuple(group) if keep_keys else (FIRST_HASH, SECOND_HASH)
        hashed = tuple(group)
    else:
        names, hashed = tuple(group), ()
    by = functions.col(f"c{read.index(key)}")
    # Of a table in buckets of this very key the optimiser would drop the exchange, and then read
    # it without its buckets: it must not see that this is the key.
    home = by.bitwiseXOR(functions.lit(0))
    rows = df.select(*taken).repartition(partitions, home).sortWithinPartitions(by)
    return Grouped(rows, key, bits, names, hashed, tuple(read))


def numbered(df: DataFrame, names: Sequence[str]) -> list[Column]:
    """Columns under names that every way into Python takes."""
    functions = functions_of(df)
    return [functions.col(quoted(name)).alias(f"c{place}") for place, name in enumerate(names)]


def hashes(df: DataFrame, group: Sequence[str]) -> list[Column]:
    """Two hashes of a key, null where a part of it is."""
    functions = functions_of(df)
    keys = [functions.col(quoted(name)) for name in group]
    known = functions.lit(True)
    for key in keys:
        known = known & key.isNotNull()
    return [
        functions.when(known, functions.xxhash64(*prefix, *keys)).alias(name)
        for prefix, name in (((), FIRST_HASH), ((functions.lit("second"),), SECOND_HASH))
    ]
