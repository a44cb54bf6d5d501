"""Validate the columns of a batch and view them as arrays."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    NUMBERS,
    WORDS,
    as_array,
    column_with_nulls,
    decode_array,
    fill_nulls,
    fixed_items,
    frozen,
    missing_rows,
    null_rows,
)
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval._lib.lexer import quoted
from fastrank_eval.io.columns import (
    NAN,
    UNJUDGED,
    Columns,
    PlanColumns,
    Roles,
    StoredColumn,
    refuse_unhashable,
    subtopics_column,
)
from fastrank_eval.io.reader import RowError

#: A function that counts rows that a plan leaves out, by reason and model.
LeaveOut: TypeAlias = Callable[[int, Mapping[tuple[str, str], int]], None]
#: All integers up to this one are doubles.
_EXACT = 1 << 53
_SIGN = np.uint64(1 << 63)
_INFINITY_BITS = np.uint64(0x7FF0000000000000)
# Doubles in ascending order have numbers: these of minus infinity, of -0.0 and of infinity.
_MINUS_INFINITY = np.uint64(0x000FFFFFFFFFFFFF)
_MINUS_ZERO = np.uint64(0x7FFFFFFFFFFFFFFF)
_INFINITY = np.uint64(0xFFF0000000000000)


def _title(stored: StoredColumn) -> str:
    expression = stored.roles.expressions.get(stored.name)
    return f"{stored.role} column '{stored.name}'" + (f" = {expression}" if expression else "")


def _refuse_nulls(
    column: pa.Array, stored: StoredColumn, first_row: int, remedy: str = "fill or drop these rows"
) -> None:
    """Raise for a decoded column that has nulls."""
    nan_is_null = stored.roles.nan_is_null

    def count(column: pa.Array) -> int:
        if stored.role == "group" or nan_is_null:
            return int(np.count_nonzero(missing_rows(column)))
        return int(decode_array(column).null_count)

    first = first_row + int(np.argmax(null_rows(column)))
    problem = f"{_title(stored)} is null" + " or NaN" * nan_is_null
    raise RowError(stored.name, problem, f"; {remedy}", first, column.null_count, count)


def _refuse(
    find_invalid: Callable[[np.ndarray], np.ndarray],
    values: np.ndarray,
    kind: object,
    stored: StoredColumn,
    first_row: int,
    problem: str,
    remedy: str,
) -> None:
    """Raise for the values of a column of type `kind` that are invalid."""
    invalid = find_invalid(values)
    index = int(np.argmax(invalid))

    def count(column: pa.Array) -> int:
        column = decode_array(column)
        if column.null_count:
            column = fill_nulls(column)
        return int(np.count_nonzero(find_invalid(numbers(column, stored, "a number"))))

    raise RowError(
        stored.name,
        f"{_title(stored)} ({kind}) {problem}",
        f", value {values[index]!s}; {remedy}",
        first_row + index,
        int(np.count_nonzero(invalid)),
        count,
    )


def nan_as_null(column: pa.Array, roles: Roles) -> pa.Array:
    """Decode a column; its NaN become null if the policy of a plan says so."""
    column = decode_array(column)
    if not roles.nan_is_null or not pa.types.is_floating(column.type):
        return column
    missing = missing_rows(column)
    if int(np.count_nonzero(missing)) == column.null_count:
        return column
    return column_with_nulls(np.where(missing, 0, as_array(fill_nulls(column))), missing)


#: Remedies for null scores, and for NaN.
_FILL = "fill these rows, or leave them out with where"
_NULL_LABELS = (
    "pass unjudged='allow' (takes a rank, no gain) or unjudged='drop', if a null means that the "
    "row is not judged"
)
_NULL_SCORES = (
    "pass unretrieved='drop' (--unretrieved drop) if scoring has failed: rows that a model lacks "
    "leave for every model; pass unretrieved='allow' only for lists that a system returned, where "
    "a null means that the row is not in its list"
)
_NAN = {
    "score": "pass nan='null' (--nan null) to read it as null, with unretrieved='drop' if scoring "
    "has failed, or 'allow' for lists that a system returned",
    "label": "pass nan='null' (--nan null) to read it as null, with unjudged='allow' or 'drop'",
}
_NO_PREDICTION = (
    "LogLoss, MSE and other measures of predictions have no value for such a row: pass "
    "unretrieved='drop' (--unretrieved drop) to leave these rows out for every model, or leave "
    "these measures out"
)


def no_score(kind: np.dtype) -> np.floating:
    """Return the NaN that marks a row without a score.

    All of its bits are set. So its code in `stats/score_runs.py` is 0: below those of all scores.
    """
    return cast(np.floating, np.array(-1, f"i{kind.itemsize}").view(kind)[()])


def score_column(
    column: pa.Array, stored: StoredColumn, first_row: int, nan_checked: bool = True
) -> tuple[np.ndarray, np.ndarray | None]:
    """Validate a column of scores.

    Parameters
    ----------
    column : pyarrow.Array
        From `nan_as_null`.
    stored : StoredColumn
    first_row : int
        Number of the column's first row in the input.
    nan_checked : bool
        Look for NaN. Otherwise only where nulls or the kind of scores need it.

    Returns
    -------
    values : ndarray of float32 or float64, shape (rows,)
    mask : ndarray of bool, shape (rows,), or None
        Rows without a score.

    Raises
    ------
    ColumnError
        If a score is NaN, null where not allowed, or outside of the range of its kind, or if the
        type is not numeric.
    """
    kind, roles, at = column.type, stored.roles, (stored, first_row)
    if kind.id not in NUMBERS and pa.types.is_decimal(kind):
        raise ColumnError(
            f"score column '{stored.name}' has type {kind}, which has no exact binary form; "
            "cast it to float64 or to an integer."
        )
    mask = None
    if column.null_count:
        if roles.unretrieved in ("error", "refuse"):
            _refuse_nulls(column, *at, _NULL_SCORES if roles.unretrieved == "error" else _FILL)
        if roles.unretrieved == "allow" and roles.score_kind in ("finite number", "probability"):
            _refuse_nulls(column, *at, _NO_PREDICTION)
        mask = null_rows(column)
        column = fill_nulls(column)
    values = numbers(column, stored, "float16, float32, float64 or an integer")
    if roles.single_precision and values.dtype != np.float32:
        with np.errstate(over="ignore"):
            values = frozen(values.astype(np.float32))
    if values.dtype.kind == "f":
        nan_checked |= mask is not None or roles.score_kind != "order"
        nan_checked &= not roles.nan_is_null
        # The minimum is NaN if any value is: one vectorised pass without a mask.
        if nan_checked and values.size and np.isnan(values.min()):
            _refuse(np.isnan, values, kind, *at, "is NaN", _nan_remedy(stored))
    elif values.dtype.itemsize <= 2:
        values = values.astype(np.float32)
    elif values.dtype.itemsize == 4:
        values = values.astype(np.float64)
    elif roles.score_kind == "order":
        values = _ordered_doubles(values, *at)
    else:
        values = _exact_doubles(values, *at)
    if (
        roles.score_kind == "finite number"
        and values.size
        and not np.isfinite([values.min(), values.max()]).all()
    ):
        remedy = "MSE and other measures that take scores as numbers need finite ones"
        _refuse(np.isinf, values, kind, *at, "is infinite", remedy)
    if (
        roles.score_kind == "probability"
        and values.size
        and not (values.min() >= 0.0 and values.max() <= 1.0)
    ):
        _refuse(
            lambda scores: ~((scores >= 0.0) & (scores <= 1.0)),
            *(values, kind, *at),
            "is not a probability",
            "LogLoss and other measures of probability take scores in [0, 1]: apply the model's "
            "sigmoid, or leave these measures out",
        )
    return values, mask


def _nan_remedy(stored: StoredColumn) -> str:
    """Say what to do with NaN."""
    name = quoted(stored.name)
    leave = f"mend the column, or leave these rows out with where='{name} is not nan'"
    return leave if stored.roles.unretrieved == "refuse" else _NAN.get(stored.role, leave)


def _exact_doubles(values: np.ndarray, stored: StoredColumn, first_row: int) -> np.ndarray:
    """Convert 64-bit integers to doubles of the same value."""
    if values.size and not (values.min() >= -_EXACT and values.max() <= _EXACT):
        _refuse(
            lambda scores: (scores > _EXACT) | (scores.astype(np.float64) < -_EXACT),
            *(values, values.dtype, stored, first_row),
            "is an integer beyond 2^53, which no double holds exactly",
            "measures that take scores as numbers need them smaller, or as float64",
        )
    return frozen(values.astype(np.float64))


def _ordered_doubles(values: np.ndarray, stored: StoredColumn, first_row: int) -> np.ndarray:
    """Convert 64-bit integers to doubles of the same order and ties.

    The values differ.

    The bits of doubles, read as sign and magnitude, have the order of the doubles. So the magnitude
    of an integer becomes the bits of a double. float64(values) would merge neighbours beyond 2**53.
    """
    if values.dtype.kind == "u":
        # Numbers from just above minus infinity; -0.0 and 0.0 share one number.
        ascending = values + _MINUS_INFINITY
        ascending += ascending >= _MINUS_ZERO
        bits = np.where(ascending >= _SIGN, ascending ^ _SIGN, ~ascending)
    else:
        bits = _magnitude(values) | np.where(values < 0, _SIGN, np.uint64(0))
    if values.size and _beyond_order(np.array([values.min(), values.max()])).any():
        _refuse(
            _beyond_order,
            *(values, values.dtype, stored, first_row),
            "is within 2^53 of the end of its type and cannot be ordered exactly",
            "shift the scores or cast them to float64",
        )
    return frozen(bits.view(np.float64))


def numbers_of_order(values: np.ndarray, kind: str) -> np.ndarray:
    """Return the doubles nearest to integers, given values in their order.

    Parameters
    ----------
    values : ndarray of float64
        Scores from `score_column`.
    kind : {"int64", "uint64"}

    Returns
    -------
    ndarray of float64
    """
    bits = values.view(np.uint64)
    if kind == "uint64":
        ascending = np.where(bits >= _SIGN, ~bits, bits ^ _SIGN)
        return (ascending - (ascending > _MINUS_ZERO) - _MINUS_INFINITY).astype(np.float64)
    numbers_without_sign = (bits & ~_SIGN).astype(np.float64)
    return np.where(bits >= _SIGN, -numbers_without_sign, numbers_without_sign)


def _magnitude(values: np.ndarray) -> np.ndarray:
    bits = values.view(np.uint64)
    return np.where(values < 0, np.uint64(0) - bits, bits)


def _beyond_order(values: np.ndarray) -> np.ndarray:
    """Return the mask of 64-bit integers without a finite double of their own."""
    if values.dtype.kind == "u":
        return values > _INFINITY - _MINUS_INFINITY - np.uint64(2)
    return _magnitude(values) >= _INFINITY_BITS


#: Range of weights other than 0: products and fourth powers of their sums stay exact doubles.
MIN_WEIGHT, MAX_WEIGHT = 1e-30, 1e30


def check_scores(batch: pa.RecordBatch, plan_columns: PlanColumns, first_row: int) -> None:
    """Raise the error of `rows_of` for scores, if there is one."""
    for column in plan_columns.columns:
        if column.role == "score":
            values = nan_as_null(batch.column(column.name), column.roles)
            score_column(values, column, first_row)


def rows_of(
    batch: pa.RecordBatch,
    plan_columns: PlanColumns,
    first_row: int,
    checked: Container[int] = (),
    leave_out: LeaveOut = lambda plan, rows: None,
) -> Columns:
    """Validate a batch and view it as arrays, each column once.

    Rows without a label leave here if every plan drops them.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        Holds every column of the plans.
    plan_columns : PlanColumns
    first_row : int
        Number of the batch's first row in the input.
    checked : container of int
        Indices of scores that are not searched for NaN. The caller proves that there is none, or
        calls `check_scores`.
    leave_out : callable, optional
        Gets the index of a plan, its rows that leave and its NaN that are null.

    Returns
    -------
    Columns
        Views if the type allows it; only booleans, halves, 64-bit integer scores and columns with
        nulls are copied.

    Raises
    ------
    ColumnError
        If a value is null, NaN or infinite where not allowed, a weight is negative, above 1e30 or
        below 1e-30 but not 0, or a type does not fit its role. The message names the column, the
        first row and the count of rows.
    """
    keys, item = keys_of(batch, plan_columns.keys, first_row), None
    arrays: list[np.ndarray | None] = [None] * plan_columns.size
    nan: dict[int, np.ndarray] = {}

    def numbers_of(stored: StoredColumn) -> pa.Array:
        """Read a column, and remember its NaN that are null."""
        column = given = decode_array(batch.column(stored.name))
        if stored.roles.nan_is_null:
            column = nan_as_null(given, stored.roles)
            if column.null_count > given.null_count:
                nan[stored.position] = null_rows(column) & ~null_rows(given)
        return column

    for stored in plan_columns.labels:
        column = numbers_of(stored)
        arrays[stored.position] = _label(column, stored, first_row)
        if stored.mask >= 0 and column.null_count:
            arrays[stored.mask] = null_rows(column)
    drop_masks = plan_columns.drop_masks
    dropped = _dropped_by_all([arrays[at] for at in drop_masks]) if drop_masks else None
    if dropped is not None:
        checked = ()  # the caller does not see these rows
    for stored in plan_columns.others:
        if stored.role == "score":
            arrays[stored.position], mask = score_column(
                numbers_of(stored), stored, first_row, stored.position not in checked
            )
            if stored.mask >= 0:
                arrays[stored.mask] = mask
        elif stored.role == "subtopics":
            column = batch.column(stored.name)
            arrays[stored.position] = subtopics_column(column, stored.name, first_row)
        else:
            arrays[stored.position] = _weight(numbers_of(stored), stored, first_row)
    if plan_columns.item is not None:
        (item,) = keys_of(batch, [plan_columns.item], first_row)
    for position, encoder in plan_columns.fields.items():
        arrays[position] = encoder.codes(batch.column(encoder.name))
    if nan:
        _count_nan(nan, plan_columns, leave_out)
    columns = Columns(first_row, batch.num_rows, keys, tuple(arrays), item)
    if dropped is None:
        return columns
    for plan in range(len(plan_columns.roles)):
        leave_out(plan, {(UNJUDGED, ""): int(np.count_nonzero(dropped))})
    for position in drop_masks:
        rest = cast(np.ndarray, arrays[position]) & ~dropped
        arrays[position] = rest if rest.any() else None
    return columns._replace(arrays=tuple(arrays)).filter(~dropped)


def _count_nan(
    nan: Mapping[int, np.ndarray], plan_columns: PlanColumns, leave_out: LeaveOut
) -> None:
    """Count the rows of NaN of each plan, in all and by column."""
    names = {stored.position: stored.name for stored in plan_columns.columns}
    for plan, indices in enumerate(plan_columns.indices):
        masks = {names[position]: nan[position] for position in indices if position in nan}
        if masks:
            every = np.logical_or.reduce([*masks.values()])
            counts = {(NAN, name): int(np.count_nonzero(mask)) for name, mask in masks.items()}
            leave_out(plan, {(NAN, ""): int(np.count_nonzero(every)), **counts})


def _dropped_by_all(masks: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Mark the rows that every plan drops; None if there is none."""
    if any(mask is None for mask in masks):
        return None
    dropped = np.logical_and.reduce([cast(np.ndarray, mask) for mask in masks])
    return dropped if dropped.any() else None


def columns_of(batch: pa.RecordBatch, roles: Roles, first_row: int) -> Columns:
    """Validate a batch for one plan; see `rows_of`."""
    plan_columns = PlanColumns((roles,))
    rows = rows_of(batch, plan_columns, first_row)
    return plan_columns.for_plan(0, rows)._replace(keys=rows.keys)


def keys_of(
    batch: pa.RecordBatch, columns: Sequence[StoredColumn], first_row: int
) -> tuple[pa.Array, ...]:
    """Decode key columns of a batch; raise for nulls."""
    return tuple([_key(batch.column(stored.name), stored, first_row) for stored in columns])


def _key(column: pa.Array, stored: StoredColumn, first_row: int) -> pa.Array:
    column = decode_array(column)
    if column.type.id not in WORDS:
        if stored.role != "item" and pa.types.is_floating(column.type):
            column = _whole_numbers(column, stored, first_row)
        refuse_unhashable(column, stored.name, stored.role)
    if column.null_count:
        remedy = "fill or drop these rows"
        if stored.role != "item":
            remedy += " (null_groups='drop', --null-groups drop)"
        if pa.types.is_string(column.type):
            remedy += ', or in a CSV file quote the value ("null") if it is text'
        _refuse_nulls(column, stored, first_row, remedy)
    return column


def _whole_numbers(column: pa.Array, stored: StoredColumn, first_row: int) -> pa.Array:
    """Convert keys that are whole numbers of a float type; NaN is null.

    pandas has integers with a missing one in float64.
    """
    # From here on, an integer may share its float with a neighbour.
    digits = {16: 11, 32: 24, 64: 53}[column.type.bit_width]

    def invalid(values: np.ndarray) -> np.ndarray:
        mask: np.ndarray = ~np.isnan(values) & ~(
            (np.abs(values) < 2.0**digits) & (np.floor(values) == values)
        )
        return mask

    missing = missing_rows(column)
    values = numbers(fill_nulls(column), stored, "a whole number")
    if invalid(values).any():
        _refuse(
            *(invalid, values, column.type, stored, first_row),
            f"is not a whole number below 2^{digits}",
            "keys of a float type must be whole: cast the column to a string or an integer",
        )
    return column_with_nulls(np.where(missing, 0, values).astype(np.int64), missing)


def _label(column: pa.Array, stored: StoredColumn, first_row: int) -> np.ndarray:
    kind, roles, at = column.type, stored.roles, (stored, first_row)
    if column.null_count:
        if roles.unjudged in ("error", "refuse"):
            _refuse_nulls(column, *at, _NULL_LABELS if roles.unjudged == "error" else _FILL)
        column = fill_nulls(column)
    values = numbers(column, stored, "a bool, an integer grade or a float gain")
    if (
        values.dtype.kind == "f"
        and values.size
        and not (np.isfinite(values.min()) and np.isfinite(values.max()))
    ):
        if np.isnan(values.min()):
            _refuse(np.isnan, values, kind, *at, "is NaN", _nan_remedy(stored))
        _refuse(np.isinf, values, kind, *at, "is infinite", "labels must be finite")
    return values


def _weight(column: pa.Array, stored: StoredColumn, first_row: int) -> np.ndarray:
    at = stored, first_row
    if column.null_count:
        states = ["null", "nan"] if stored.roles.nan_is_null else ["null"]
        given = " and ".join(f"{quoted(stored.name)} is not {state}" for state in states)
        remedy = f"give each row a number, or leave rows out with where='{given}'"
        _refuse_nulls(column, *at, remedy)
    own = numbers(column, stored, "a number")
    values = own.astype(np.float64, copy=False)
    if values.size:
        # Bounds in the column's own type: the float32 next to 1e30 lies above it.
        kind = own.dtype.type if own.dtype.kind == "f" else np.float64
        low, high = float(kind(MIN_WEIGHT)), float(kind(MAX_WEIGHT))

        def out_of_range(weights: np.ndarray) -> np.ndarray:
            mask: np.ndarray = (weights > high) | ((weights < low) & (weights > 0.0))
            return mask

        minimum, maximum = values.min(), values.max()
        if np.isnan(minimum):
            _refuse(np.isnan, own, column.type, *at, "is NaN", _nan_remedy(stored))
        if not (minimum >= 0.0 and maximum < np.inf):
            _refuse(
                lambda weights: ~((weights >= 0.0) & (weights < np.inf)),
                *(values, column.type, *at),
                "is negative or infinite",
                "weights must be finite and not negative",
            )
        # A minimum of 0 may hide other weights below the allowed minimum.
        if maximum > high or (minimum < low and out_of_range(values).any()):
            _refuse(
                *(out_of_range, values, column.type, *at),
                "is above 1e30, or below 1e-30 but not 0,",
                "weights must be 0 or from 1e-30 to 1e30; multiply all of them by one number",
            )
    return values


def numbers(column: pa.Array, stored: StoredColumn, expected: str) -> np.ndarray:
    """Return the numbers of a column without nulls.

    A type that is not numeric is an error.
    """
    kind = column.type
    if kind.id in NUMBERS:
        values = fixed_items(column, NUMBERS[kind.id])
        return values.astype(np.float32) if values.dtype == np.float16 else values
    if pa.types.is_decimal(kind):
        return as_array(column.cast(pa.float64()))
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.uint8)
    if not pa.types.is_boolean(kind):
        raise ColumnError(
            f"{stored.role} column '{stored.name}' has type {kind}; it must be {expected}."
        )
    return as_array(column)
