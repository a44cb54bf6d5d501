"""Take columns of a DataFrame, and group its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import signature
from operator import and_, or_
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.integrations.spark.worker import FIRST_HASH, SECOND_HASH
from fastrank_eval.io import filter_parser
from fastrank_eval.io.filters import bind, folded
from fastrank_eval.io.literals import fit

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
    "only",
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


_COMPARE = {
    "=": "__eq__",
    "!=": "__ne__",
    "<": "__lt__",
    "<=": "__le__",
    ">": "__gt__",
    ">=": "__ge__",
}


def only(df: DataFrame, given: str | None, schema: pa.Schema) -> DataFrame:
    """The rows that a condition selects: those for which it is true, neither false nor null.

    Parameters
    ----------
    df : DataFrame
    given : str or None
    schema : pyarrow.Schema
        Of the DataFrame.

    Raises
    ------
    ArgumentError
        If it cannot be read, or a literal does not fit its column.
    """
    if given is None:
        return df
    if isinstance(given, pc.Expression):
        raise ArgumentError(
            "where: Spark cannot take an expression of pyarrow; write it as text, "
            "where=\"day = '2026-11-19'\", or filter the DataFrame."
        )
    if not isinstance(given, str):
        raise ArgumentError(f"where={given!r} is not text.")
    node = filter_parser.parse(given)
    bind(node, schema)
    return df.where(_column(df, node, schema))


def _column(df: DataFrame, node: filter_parser.Node, schema: pa.Schema) -> Column:
    if isinstance(node, filter_parser.Not):
        return ~_column(df, node.part, schema)
    if isinstance(node, filter_parser.And | filter_parser.Or):
        join = and_ if isinstance(node, filter_parser.And) else or_
        return folded(join, [_column(df, part, schema) for part in node.parts])
    functions = functions_of(df)
    column = functions.col(quoted(node.column))
    if isinstance(node, filter_parser.IsNull):
        return column.isNull()
    if isinstance(node, filter_parser.Flag):
        return column
    kind = schema.field(node.column).type
    if pa.types.is_floating(kind):
        # Files are not to be pruned: their statistics and dictionaries know no NaN, and two zeros.
        column = column + functions.lit(0.0)
    if isinstance(node, filter_parser.Among):
        return column.isin([_literal(df, node.column, one, kind) for one in node.literals])
    compared = getattr(column, _COMPARE[node.operator])(
        _literal(df, node.column, node.literal, kind)
    )
    if pa.types.is_floating(kind) and node.operator in (">", ">="):
        # NaN is greater than every number to Spark, and than none to IEEE 754 and here.
        return compared & ~functions.isnan(column)
    return compared


def _literal(df: DataFrame, name: str, literal: filter_parser.Literal, kind: pa.DataType) -> Any:
    """A literal of the column's own type, so that Spark casts the column to nothing else."""
    functions = functions_of(df)
    value = fit(literal, kind, name)
    plain: Any = value.as_py()
    if pa.types.is_temporal(kind):
        plain = plain.isoformat()
    return functions.lit(plain).cast(df.schema[name].dataType)
