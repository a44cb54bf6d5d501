"""Select columns of a DataFrame, filter and group its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from inspect import signature
from operator import and_, or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.lexer import Operation
from fastrank_eval.integrations.spark.worker import FIRST_HASH, SECOND_HASH, Task
from fastrank_eval.io.filter_parser import Literal, Node, Predicate, fit, parse
from fastrank_eval.io.filters import bind, reduce_balanced

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
#: Arrow type of columns whose type Arrow does not have; no measure accepts it.
_UNKNOWN = pa.struct([])


def check_frame(df: Any) -> None:
    """Raise unless this is a DataFrame of Spark, and not a stream."""
    if not (type(df).__module__.startswith("pyspark.") and hasattr(df, "mapInArrow")):
        raise ArgumentError(
            f"fastrank_eval.spark takes a DataFrame of Spark, not {type(df).__name__}; "
            "fastrank_eval.evaluate() takes tables, frames and files."
        )
    if df.isStreaming:
        raise ArgumentError(
            "the DataFrame is a stream, which has no last row: evaluate the rows of each batch, "
            "as in foreachBatch()."
        )


def functions_of(df: DataFrame) -> Any:
    """Get the module of column functions for the session of a DataFrame."""
    if ".connect." in type(df).__module__:
        from pyspark.sql.connect import functions as connect_functions

        return connect_functions
    from pyspark.sql import functions

    return functions


def quote(name: str) -> str:
    """Quote the name of a column for Spark."""
    return "`" + name.replace("`", "``") + "`"


def arrow_schema(df: DataFrame) -> pa.Schema:
    """Get the Arrow schema of the batches of partitions."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    # Spark 3.5 has no time zone here and always uses UTC.
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


def group_rows(
    df: DataFrame,
    group: Sequence[str],
    columns: Iterable[str],
    task: Task,
    *,
    keep_keys: bool,
) -> tuple[DataFrame, Task]:
    """Have Spark partition and sort rows by group.

    Spark uses radix sort only for one integer column; for other keys it compares rows. Other keys
    are therefore hashed twice to 64 bits; a prefix makes the second hash independent.

    Parameters
    ----------
    df : DataFrame
    group : sequence of str
        Key columns.
    columns : iterable of str
        Further columns to read.
    task : Task
        With the number of partitions.
    keep_keys : bool
        Keep the columns of hashed keys.

    Returns
    -------
    DataFrame
        Its columns are numbered; each group is in one partition.
    Task
        The task of these partitions.

    Notes
    -----
    The number of partitions is always passed: Spark merges partitions if it chooses their number,
    and splits keys if it balances partitions.
    """
    functions = functions_of(df)
    types = {field.name: field.dataType.typeName() for field in df.schema.fields}
    bits = _INTEGER_BITS.get(types[group[0]], 0) if len(group) == 1 else 0
    column_names = list(dict.fromkeys([*(group if bits or keep_keys else ()), *columns]))
    selected = numbered_columns(df, column_names)
    key = group[0]
    if not bits:
        key, bits = FIRST_HASH, 64
        selected += [
            column.alias(f"c{index}")
            for index, column in enumerate(hash_columns(df, group), len(column_names))
        ]
        column_names += [FIRST_HASH, SECOND_HASH]
        group_names: tuple[str, ...] = tuple(group) if keep_keys else (FIRST_HASH, SECOND_HASH)
        hashed = tuple(group)
    else:
        group_names, hashed = tuple(group), ()
    key_column = functions.col(f"c{column_names.index(key)}")
    # If the table has buckets by this key, the optimiser drops the exchange, then reads the table
    # without its buckets. The expression hides the key from the optimiser.
    partition_key = key_column.bitwiseXOR(functions.lit(0))
    rows = (
        df.select(*selected)
        .repartition(task.partitions, partition_key)
        .sortWithinPartitions(key_column)
    )
    options, names = {**task.options, "group": list(group_names)}, tuple(column_names)
    return rows, replace(task, options=options, key=key, key_bits=bits, hashed=hashed, names=names)


def numbered_columns(df: DataFrame, names: Sequence[str]) -> list[Column]:
    """Rename columns to numbered names, which Spark always passes to Python."""
    functions = functions_of(df)
    return [functions.col(quote(name)).alias(f"c{index}") for index, name in enumerate(names)]


def hash_columns(df: DataFrame, group: Sequence[str]) -> list[Column]:
    """Compute two hashes of a key, null if a column of the key is null."""
    functions = functions_of(df)
    keys = [functions.col(quote(name)) for name in group]
    not_null = functions.lit(True)
    for key in keys:
        not_null = not_null & key.isNotNull()
    return [
        functions.when(not_null, functions.xxhash64(*prefix, *keys)).alias(name)
        for prefix, name in (((), FIRST_HASH), ((functions.lit("second"),), SECOND_HASH))
    ]


_OPERATORS = {
    "=": "__eq__",
    "!=": "__ne__",
    "<": "__lt__",
    "<=": "__le__",
    ">": "__gt__",
    ">=": "__ge__",
}


def filter_rows(df: DataFrame, condition: str | None, schema: pa.Schema) -> DataFrame:
    """Select the rows for which a condition is true, neither false nor null.

    Parameters
    ----------
    df : DataFrame
    condition : str or None
    schema : pyarrow.Schema
        Of the DataFrame.

    Raises
    ------
    ArgumentError
        If the condition cannot be parsed, or a literal does not fit its column.
    """
    if condition is None:
        return df
    if isinstance(condition, pc.Expression):
        raise ArgumentError(
            "where: Spark cannot take an expression of pyarrow; write it as text, "
            "where=\"day = '2026-11-19'\", or filter the DataFrame."
        )
    if not isinstance(condition, str):
        raise ArgumentError(f"where: must be text, got {condition!r}; write the condition as text.")
    node = parse(condition)
    bind(node, schema)
    return df.where(_column(df, node, schema))


def _column(df: DataFrame, node: Node, schema: pa.Schema) -> Column:
    if isinstance(node, Operation):
        parts = [_column(df, part, schema) for part in node.parts]
        if node.operator == "not":
            return ~parts[0]
        return reduce_balanced(and_ if node.operator == "and" else or_, parts)
    functions = functions_of(df)
    column = functions.col(quote(node.column))
    if node.operator == "is null":
        return column.isNull()
    if node.operator == "is true":
        return column
    kind = schema.field(node.column).type
    if pa.types.is_floating(kind):
        # Prevents pruning of files: their statistics ignore NaN and distinguish two zeros.
        column = column + functions.lit(0.0)
    literals = [_literal(df, node, literal, kind) for literal in node.literals]
    if node.operator == "in":
        return column.isin(literals)
    comparison = getattr(column, _OPERATORS[node.operator])(literals[0])
    if pa.types.is_floating(kind) and node.operator in (">", ">="):
        # In Spark, NaN is greater than every number. In IEEE 754 and here, it is not.
        return comparison & ~functions.isnan(column)
    return comparison


def _literal(df: DataFrame, node: Predicate, literal: Literal, kind: pa.DataType) -> Any:
    """Cast a literal, so that Spark does not cast the column."""
    functions = functions_of(df)
    value = fit(literal, kind, node.column, node.operator[0] in "<>")
    plain: Any = value.as_py()
    if pa.types.is_temporal(kind):
        plain = plain.isoformat()
    return functions.lit(plain).cast(df.schema[node.column].dataType)
