"""Read numeric columns, and raise errors that name the invalid rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, arrow_value, as_array, decode_array
from fastrank_eval._lib.errors import ColumnError, FastRankEvalError, OrderError

if TYPE_CHECKING:
    from fastrank_eval.io import Source

__all__ = [
    "RowError",
    "complete_error",
    "fill_nulls",
    "numbers",
    "raise_row_error",
    "refuse_nulls",
]


class RowError(ColumnError):
    """Some rows of a column are invalid.

    Parameters
    ----------
    column : str
        Name of the column.
    problem, remedy : str
        The message before the count of rows, and after the number of the first row.
    row : int
        Number of the first invalid row in the input, counted from 0.
    rows : int
        Count of invalid rows so far.
    count : callable
        Counts the invalid rows of an array of the column.
    is_total : bool
        Whether `rows` counts the whole input.
    """

    def __init__(
        self,
        column: str,
        problem: str,
        remedy: str,
        row: int,
        rows: int,
        count: Callable[[pa.Array], int],
        is_total: bool = False,
    ) -> None:
        many = f"{rows:,} row(s)" if is_total else f"at least {rows:,} row(s)"
        super().__init__(f"{problem} in {many}, first in row {row:,} (counted from 0){remedy}.")
        self.column, self.problem, self.remedy = column, problem, remedy
        self.row, self.rows, self.count = row, rows, count

    def with_total(self, batches: Iterable[pa.RecordBatch]) -> RowError:
        """Return the error with the count of the whole input.

        `batches` hold only this column.
        """
        rows = sum(self.count(batch.column(0)) for batch in batches)
        return RowError(
            self.column, self.problem, self.remedy, self.row, rows, self.count, is_total=True
        )


def complete_error(
    error: RowError | OrderError,
    source: Source,
    batches: Callable[[tuple[str, ...]], Iterable[pa.RecordBatch]],
) -> FastRankEvalError:
    """Add the count of invalid rows and the file of the first to an error.

    Parameters
    ----------
    error : RowError or OrderError
    source : Source
        The source of the rows.
    batches : callable
        Reads columns of the source again.
    """
    # Locate the row first: reading again resets the first rows of files.
    location = "" if error.row is None else source.locate(error.row)
    if isinstance(error, RowError) and source.rereadable:
        with suppress(FastRankEvalError):
            error = error.with_total(batches((error.column,)))
    if not location:
        return error
    kind = OrderError if isinstance(error, OrderError) else ColumnError
    return kind(f"{error} It is {location}.")


def numbers(column: pa.Array, name: str, role: str, expected: str) -> np.ndarray:
    """Return the numbers of a column without nulls.

    A type that is not numeric is an error.
    """
    kind = column.type
    if pa.types.is_decimal(kind):
        return as_array(column.cast(pa.float64()))
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.uint8)
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ColumnError(f"{role} column '{name}' has type {kind}; it must be {expected}.")
    values = as_array(column)
    return values.astype(np.float32) if values.dtype == np.float16 else values


def fill_nulls(column: pa.Array) -> pa.Array:
    """Replace nulls of a numeric column by 0; other columns stay the same."""
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


def refuse_nulls(column: pa.Array, name: str, role: str, first_row: int, remedy: str = "") -> None:
    """Raise if a decoded column has nulls."""
    nulls = column.null_count
    if nulls:
        raise RowError(
            name,
            f"{role} column '{name}' is null",
            f"; {remedy or 'fill or drop these rows'}",
            first_row + int(np.argmax(as_array(column.is_null()))),
            nulls,
            lambda column: decode_array(column).null_count,
        )


def raise_row_error(
    find_invalid: Callable[[np.ndarray], np.ndarray],
    values: np.ndarray,
    where: tuple[str, str, object],
    first_row: int,
    problem: str,
    remedy: str,
) -> None:
    """Raise for the values that `find_invalid` marks.

    `where` is the column's name, role and type.
    """
    name, role, kind = where
    invalid = find_invalid(values)
    index = int(np.argmax(invalid))

    def count(column: pa.Array) -> int:
        column = decode_array(column)
        if column.null_count:
            column = fill_nulls(column)
        return int(np.count_nonzero(find_invalid(numbers(column, name, role, "a number"))))

    raise RowError(
        name,
        f"{role} column '{name}' ({kind}) {problem}",
        f", value {values[index]!s}; {remedy}",
        first_row + index,
        int(np.count_nonzero(invalid)),
        count,
    )
