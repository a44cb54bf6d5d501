"""Columns of numbers: their values, and the refusal of rows that cannot be used."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import as_array, decoded
from fastrank_eval.arrow_values import arrow_column, arrow_value
from fastrank_eval.errors import ColumnError
from fastrank_eval.faults import BadRows

__all__ = ["filled", "numbers", "refuse", "refuse_nulls"]


def numbers(column: pa.Array, name: str, part: str, wanted: str) -> np.ndarray:
    """The values of a column without nulls; refuses one whose type is no number."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return as_array(column.cast(pa.float64()))
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.uint8)
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ColumnError(f"{part} column '{name}' has type {kind}; it must be {wanted}.")
    values = as_array(column)
    return values.astype(np.float32) if values.dtype == np.float16 else values


def filled(column: pa.Array) -> pa.Array:
    """Numbers with 0 in place of nulls; what is no number stays as it is."""
    kind = column.type
    if pa.types.is_null(kind):
        return arrow_column(np.zeros(len(column), np.float32))
    if pa.types.is_float16(kind):
        column = column.cast(pa.float32())
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    if pa.types.is_boolean(column.type):
        return column.fill_null(arrow_value(False, pa.bool_()))
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return column
    return column.fill_null(arrow_value(0, column.type))


def refuse_nulls(column: pa.Array, name: str, part: str, first_row: int, remedy: str = "") -> None:
    """Raise if a decoded column has nulls."""
    nulls = column.null_count
    if nulls:
        raise BadRows(
            name,
            f"{part} column '{name}' is null",
            f"; {remedy or 'fill or drop these rows'}",
            first_row + int(np.argmax(as_array(column.is_null()))),
            nulls,
            lambda column: decoded(column).null_count,
        )


def refuse(
    find: Callable[[np.ndarray], np.ndarray],
    values: np.ndarray,
    where: tuple[str, str, object],
    first_row: int,
    fault: str,
    remedy: str,
) -> None:
    """Raise for the values that `find` marks; `where` is the column's name, part and type."""
    name, part, kind = where
    wrong = find(values)
    at = int(np.argmax(wrong))

    def count(column: pa.Array) -> int:
        column = decoded(column)
        if column.null_count:
            column = filled(column)
        return int(np.count_nonzero(find(numbers(column, name, part, "a number"))))

    raise BadRows(
        name,
        f"{part} column '{name}' ({kind}) {fault}",
        f", value {values[at]!s}; {remedy}",
        first_row + at,
        int(np.count_nonzero(wrong)),
        count,
    )
