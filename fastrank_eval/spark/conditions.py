"""The condition of `where` as a column of Spark's, which pushes it down to what it reads."""

from __future__ import annotations

from operator import and_, or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from fastrank_eval import where
from fastrank_eval.errors import ArgumentError
from fastrank_eval.sources.conditions import bind, folded
from fastrank_eval.sources.literals import fit
from fastrank_eval.spark.frames import functions_of, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["only"]

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
    node = where.parse(given)
    bind(node, schema)
    return df.where(_column(df, node, schema))


def _column(df: DataFrame, node: where.Node, schema: pa.Schema) -> Column:
    if isinstance(node, where.Not):
        return ~_column(df, node.part, schema)
    if isinstance(node, where.And | where.Or):
        join = and_ if isinstance(node, where.And) else or_
        return folded(join, [_column(df, part, schema) for part in node.parts])
    functions = functions_of(df)
    column = functions.col(quoted(node.column))
    if isinstance(node, where.IsNull):
        return column.isNull()
    if isinstance(node, where.Flag):
        return column
    kind = schema.field(node.column).type
    if pa.types.is_floating(kind):
        # Files are not to be pruned: their statistics and dictionaries know no NaN, and two zeros.
        column = column + functions.lit(0.0)
    if isinstance(node, where.Among):
        return column.isin([_literal(df, node.column, one, kind) for one in node.literals])
    compared = getattr(column, _COMPARE[node.operator])(
        _literal(df, node.column, node.literal, kind)
    )
    if pa.types.is_floating(kind) and node.operator in (">", ">="):
        # NaN is greater than every number to Spark, and than none to IEEE 754 and here.
        return compared & ~functions.isnan(column)
    return compared


def _literal(df: DataFrame, name: str, literal: where.Literal, kind: pa.DataType) -> Any:
    """A literal of the column's own type, so that Spark casts the column to nothing else."""
    functions = functions_of(df)
    value = fit(literal, kind, name)
    plain: Any = value.as_py()
    if pa.types.is_temporal(kind):
        plain = plain.isoformat()
    return functions.lit(plain).cast(df.schema[name].dataType)
