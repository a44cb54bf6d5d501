"""The subtopics that each row covers, as the bits of one integer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, as_array, decoded, frozen
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval._lib.jit import kernel
from fastrank_eval.io.numbers import BadRows, filled

__all__ = ["MOST", "masks_of", "subtopics_column"]

#: Subtopics that a group may have: the bits of an integer.
MOST = 64


def subtopics_column(column: pa.Array, name: str, first_row: int) -> np.ndarray:
    """Validate a column of subtopics.

    Parameters
    ----------
    column : pyarrow.Array
        Lists of whole numbers from 0 to 63, or one such number a row; a null covers nothing.
    name : str
    first_row : int
        Number of the column's first row in the whole input.

    Returns
    -------
    ndarray of uint64, shape (rows,), read-only

    Raises
    ------
    ColumnError
        A number outside that range, a null inside a list, another type.
    """
    numbers, lengths, wrong = _numbers_and_lengths(column, name)
    masks, bad = masks_of(numbers, lengths, wrong)
    if bad.any():
        row = int(np.argmax(bad))

        def count(column: pa.Array) -> int:
            return int(np.count_nonzero(masks_of(*_numbers_and_lengths(column, name))[1]))

        raise BadRows(
            name,
            f"subtopics column '{name}' ({column.type}) holds what is no number from 0 to "
            f"{MOST - 1}",
            f", value {decoded(column)[row].as_py()}; number the subtopics of each group from 0, "
            "and leave out nulls inside lists",
            first_row + row,
            int(np.count_nonzero(bad)),
            count,
        )
    return frozen(masks)


def _numbers_and_lengths(column: pa.Array, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All numbers of a column of lists, how many each row has, and which of them are null."""
    import pyarrow.compute as pc

    column = decoded(column)
    kind = column.type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if lists or pa.types.is_fixed_size_list(kind):
        found = pc.list_value_length(column)
        numbers = decoded(column.flatten())
    else:
        found = arrow_column(as_array(column.is_valid()).astype(np.int32))
        numbers = column.drop_null() if column.null_count else column
    if not (pa.types.is_integer(numbers.type) or pa.types.is_null(numbers.type)):
        raise ColumnError(
            f"subtopics column '{name}' has type {kind}; it must be a list of whole numbers from 0 "
            f"to {MOST - 1}, or one such number a row."
        )
    lengths = as_array(pc.fill_null(found, 0) if found.null_count else found).astype(np.int64)
    wrong = as_array(numbers.is_null()).view(np.bool_)
    if pa.types.is_null(numbers.type) or numbers.null_count:
        numbers = filled(numbers)
    values = as_array(numbers)
    outside = wrong | (values < 0) | (values >= MOST)
    return np.where(outside, 0, values).astype(np.int64), lengths, outside


def masks_of(
    numbers: np.ndarray, lengths: np.ndarray, wrong: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Join the subtopics of each row.

    Parameters
    ----------
    numbers : ndarray of int64
        From 0 to 63, those of one row after those of another.
    lengths : ndarray of int64, shape (rows,)
        How many each row has.
    wrong : ndarray of bool
        Which of them cannot be used.

    Returns
    -------
    masks : ndarray of uint64, shape (rows,)
    bad : ndarray of bool, shape (rows,)
        Rows with a number that cannot be used.
    """
    masks, bad = np.zeros(len(lengths), np.uint64), np.zeros(len(lengths), np.bool_)
    _join(frozen(numbers), frozen(lengths), frozen(wrong), masks, bad)
    return masks, bad


@kernel
def _join(numbers, lengths, wrong, masks, bad):  # type: ignore[no-untyped-def]
    at = 0
    for row in range(lengths.shape[0]):
        for i in range(at, at + lengths[row]):
            masks[row] |= np.uint64(1) << np.uint64(numbers[i])
            bad[row] |= wrong[i]
        at += lengths[row]
