"""Read columns of numbers and of subtopics.

Errors name the rows that are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, arrow_value, as_array, decode_array, frozen
from fastrank_eval._lib.errors import ColumnError, FastRankEvalError, OrderError
from fastrank_eval._lib.jit import kernel

if TYPE_CHECKING:
    from fastrank_eval.io import Source

__all__ = [
    "MAX_SUBTOPICS",
    "RowError",
    "complete_error",
    "fill_nulls",
    "masks_of",
    "numbers",
    "raise_row_error",
    "refuse_nulls",
    "subtopics_column",
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


#: Maximum number of subtopics of a group: the bits of an integer.
MAX_SUBTOPICS = 64


def subtopics_column(column: pa.Array, name: str, first_row: int) -> np.ndarray:
    """Validate a column of subtopics.

    Parameters
    ----------
    column : pyarrow.Array
        Lists of integers from 0 to 63, or one such integer a row; a null covers no subtopic.
    name : str
    first_row : int
        Number of the column's first row in the input.

    Returns
    -------
    ndarray of uint64, shape (rows,), read-only

    Raises
    ------
    ColumnError
        If a number is outside this range, a list has a null, or the type is another.
    """
    numbers, lengths, invalid = _numbers_and_lengths(column, name)
    masks, bad = masks_of(numbers, lengths, invalid)
    if bad.any():
        row = int(np.argmax(bad))

        def count(column: pa.Array) -> int:
            return int(np.count_nonzero(masks_of(*_numbers_and_lengths(column, name))[1]))

        raise RowError(
            name,
            f"subtopics column '{name}' ({column.type}) must hold integers from 0 to "
            f"{MAX_SUBTOPICS - 1}, got another value",
            f", value {decode_array(column)[row].as_py()}; number the subtopics of each group from "
            "0, and leave out nulls inside lists",
            first_row + row,
            int(np.count_nonzero(bad)),
            count,
        )
    return frozen(masks)


def _numbers_and_lengths(column: pa.Array, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all numbers of a column, counts by row, and an invalid mask."""
    import pyarrow.compute as pc

    column = decode_array(column)
    kind = column.type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if lists or pa.types.is_fixed_size_list(kind):
        counts = pc.list_value_length(column)
        numbers = decode_array(column.flatten())
    else:
        counts = arrow_column(as_array(column.is_valid()).astype(np.int32))
        numbers = column.drop_null() if column.null_count else column
    if not (pa.types.is_integer(numbers.type) or pa.types.is_null(numbers.type)):
        raise ColumnError(
            f"subtopics column '{name}' has type {kind}; it must be a list of whole numbers from 0 "
            f"to {MAX_SUBTOPICS - 1}, or one such number a row."
        )
    lengths = as_array(pc.fill_null(counts, 0) if counts.null_count else counts).astype(np.int64)
    invalid = as_array(numbers.is_null()).view(np.bool_)
    if pa.types.is_null(numbers.type) or numbers.null_count:
        numbers = fill_nulls(numbers)
    values = as_array(numbers)
    outside = invalid | (values < 0) | (values >= MAX_SUBTOPICS)
    return np.where(outside, 0, values).astype(np.int64), lengths, outside


def masks_of(
    numbers: np.ndarray, lengths: np.ndarray, invalid: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Combine the subtopics of each row to a mask of bits.

    Parameters
    ----------
    numbers : ndarray of int64
        Subtopics from 0 to 63, row after row.
    lengths : ndarray of int64, shape (rows,)
        Count of subtopics of each row.
    invalid : ndarray of bool
        Whether each number is invalid.

    Returns
    -------
    masks : ndarray of uint64, shape (rows,)
    bad : ndarray of bool, shape (rows,)
        Rows with an invalid number.
    """
    masks, bad = np.zeros(len(lengths), np.uint64), np.zeros(len(lengths), np.bool_)
    _join(frozen(numbers), frozen(lengths), frozen(invalid), masks, bad)
    return masks, bad


@kernel
def _join(numbers, lengths, invalid, masks, bad):  # type: ignore[no-untyped-def]
    index = 0
    for row in range(lengths.shape[0]):
        for i in range(index, index + lengths[row]):
            masks[row] |= np.uint64(1) << np.uint64(numbers[i])
            bad[row] |= invalid[i]
        index += lengths[row]
