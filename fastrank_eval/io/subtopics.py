"""Validate a column of subtopics and combine those of each row to bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    decode_array,
    fill_nulls,
    frozen,
    is_list,
    null_rows,
)
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval._lib.jit import kernel
from fastrank_eval.io.reader import RowError

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
    if is_list(kind):
        counts = pc.list_value_length(column)
        numbers = decode_array(column.flatten())
    else:
        counts = arrow_column((~null_rows(column)).astype(np.int32))
        numbers = column.drop_null() if column.null_count else column
    if not (pa.types.is_integer(numbers.type) or pa.types.is_null(numbers.type)):
        raise ColumnError(
            f"subtopics column '{name}' has type {kind}; it must be a list of whole numbers from 0 "
            f"to {MAX_SUBTOPICS - 1}, or one such number a row."
        )
    lengths = as_array(pc.fill_null(counts, 0) if counts.null_count else counts).astype(np.int64)
    invalid = null_rows(numbers)
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
