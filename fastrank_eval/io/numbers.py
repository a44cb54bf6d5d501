"""Read columns of numbers, and name the rows that are bad."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, arrow_value, as_array, decoded
from fastrank_eval._lib.errors import ColumnError, FastRankEvalError, OrderError

if TYPE_CHECKING:
    from fastrank_eval.io import Source

__all__ = ["BadRows", "explained", "filled", "numbers", "refuse", "refuse_nulls"]


class BadRows(ColumnError):
    """Some rows hold a value that cannot be used.

    Parameters
    ----------
    column : str
        The column that holds them.
    fault, remedy : str
        The message before the number of rows, and after the number of the first one.
    row : int
        The first one, counted from 0 in the whole input.
    rows : int
        How many have been found.
    count : callable
        Finds how many there are in an array of the column.
    whole : bool
        Whether all rows have been looked at.
    """

    def __init__(
        self,
        column: str,
        fault: str,
        remedy: str,
        row: int,
        rows: int,
        count: Callable[[pa.Array], int],
        whole: bool = False,
    ) -> None:
        many = f"{rows:,} row(s)" if whole else f"at least {rows:,} row(s)"
        super().__init__(f"{fault} in {many}, first in row {row:,} (counted from 0){remedy}.")
        self.column, self.fault, self.remedy = column, fault, remedy
        self.row, self.rows, self.count = row, rows, count

    def counted(self, batches: Iterable[pa.RecordBatch]) -> BadRows:
        """The same with the rows of the whole input, of which `batches` hold this column alone."""
        rows = sum(self.count(batch.column(0)) for batch in batches)
        return BadRows(self.column, self.fault, self.remedy, self.row, rows, self.count, whole=True)


def explained(
    fault: BadRows | OrderError,
    source: Source,
    batches: Callable[[tuple[str, ...]], Iterable[pa.RecordBatch]],
) -> FastRankEvalError:
    """Tell the whole number of bad rows, and the file of the first one where there are several.

    Parameters
    ----------
    fault : BadRows or OrderError
    source : Source
        What was read.
    batches : callable
        Reads columns of it once more.
    """
    # First of all: reading once more forgets where the files of this reading began.
    place = "" if fault.row is None else source.locate(fault.row)
    if isinstance(fault, BadRows) and source.rereadable:
        with suppress(FastRankEvalError):
            fault = fault.counted(batches((fault.column,)))
    if not place:
        return fault
    kind = OrderError if isinstance(fault, OrderError) else ColumnError
    return kind(f"{fault} It is {place}.")


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
