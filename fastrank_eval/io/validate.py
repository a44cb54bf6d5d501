"""Validate the columns of a batch and view them as arrays."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    as_array,
    column_with_nulls,
    decode_array,
    fill_nulls,
    frozen,
    missing_rows,
    null_rows,
)
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval._lib.lexer import quoted
from fastrank_eval.io.columns import (
    NAN,
    UNJUDGED,
    CodedColumn,
    Columns,
    PlanColumns,
    Roles,
    RowsLeftOut,
    StoredColumn,
    refuse_unhashable,
    subtopics_column,
)
from fastrank_eval.io.reader import RowError

#: All integers up to this one are doubles.
_EXACT = 1 << 53
_SIGN = np.uint64(1 << 63)
_INFINITY_BITS = np.uint64(0x7FF0000000000000)
# Doubles in ascending order have numbers: these of minus infinity, of -0.0 and of infinity.
_MINUS_INFINITY = np.uint64(0x000FFFFFFFFFFFFF)
_MINUS_ZERO = np.uint64(0x7FFFFFFFFFFFFFFF)
_INFINITY = np.uint64(0xFFF0000000000000)


class _ColumnErrors(NamedTuple):
    """Raise errors about a column of a batch.

    Parameters
    ----------
    name, role : str
    first_row : int
        Number of the column's first row in the input.
    expression : str
        The expression of a computed score.
    nan_is_null : bool
        Whether NaN counts as null.
    """

    name: str
    role: str
    first_row: int
    expression: str = ""
    nan_is_null: bool = False

    @classmethod
    def of(cls, name: str, role: str, first_row: int, roles: Roles) -> _ColumnErrors:
        """Describe a column under the policies of a plan."""
        return cls(name, role, first_row, roles.expressions.get(name, ""), roles.nan_is_null)

    @property
    def _title(self) -> str:
        computed = f" = {self.expression}" if self.expression else ""
        return f"{self.role} column '{self.name}'{computed}"

    def refuse_nulls(self, column: pa.Array, remedy: str = "fill or drop these rows") -> None:
        """Raise if a decoded column has nulls."""
        if not column.null_count:
            return
        first = self.first_row + int(np.argmax(null_rows(column)))
        problem = f"{self._title} is null" + " or NaN" * self.nan_is_null

        def count(column: pa.Array) -> int:
            if self.role == "group" or self.nan_is_null:
                return int(np.count_nonzero(missing_rows(column)))
            return int(decode_array(column).null_count)

        raise RowError(self.name, problem, f"; {remedy}", first, column.null_count, count)

    def refuse(
        self,
        find_invalid: Callable[[np.ndarray], np.ndarray],
        values: np.ndarray,
        kind: object,
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
            numbers_here = numbers(column, self.name, self.role, "a number")
            return int(np.count_nonzero(find_invalid(numbers_here)))

        raise RowError(
            self.name,
            f"{self._title} ({kind}) {problem}",
            f", value {values[index]!s}; {remedy}",
            self.first_row + index,
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
    column: pa.Array, name: str, roles: Roles, first_row: int, nan_checked: bool = True
) -> tuple[np.ndarray, np.ndarray | None]:
    """Validate a column of scores.

    Parameters
    ----------
    column : pyarrow.Array
        From `nan_as_null`.
    name : str
    roles : Roles
        Null policy, precision and kind of scores.
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
    kind = column.type
    errors = _ColumnErrors.of(name, "score", first_row, roles)
    if pa.types.is_decimal(kind):
        raise ColumnError(
            f"score column '{name}' has type {kind}, which has no exact binary form; "
            "cast it to float64 or to an integer."
        )
    mask = None
    if column.null_count:
        if roles.unretrieved in ("error", "refuse"):
            errors.refuse_nulls(column, _NULL_SCORES if roles.unretrieved == "error" else _FILL)
        if roles.unretrieved == "allow" and roles.score_kind in ("finite number", "probability"):
            errors.refuse_nulls(column, _NO_PREDICTION)
        mask = null_rows(column)
        column = fill_nulls(column)
    values = numbers(column, name, "score", "float16, float32, float64 or an integer")
    if roles.single_precision and values.dtype != np.float32:
        with np.errstate(over="ignore"):
            values = frozen(values.astype(np.float32))
    if values.dtype.kind == "f":
        nan_checked |= mask is not None or roles.score_kind != "order"
        nan_checked &= not roles.nan_is_null
        # The minimum is NaN if any value is: one vectorised pass without a mask.
        if nan_checked and values.size and np.isnan(values.min()):
            errors.refuse(np.isnan, values, kind, "is NaN", _nan_remedy(name, "score", roles))
    elif values.dtype.itemsize <= 2:
        values = values.astype(np.float32)
    elif values.dtype.itemsize == 4:
        values = values.astype(np.float64)
    elif roles.score_kind == "order":
        values = _ordered_doubles(values, errors)
    else:
        values = _exact_doubles(values, errors)
    if (
        roles.score_kind == "finite number"
        and values.size
        and not np.isfinite([values.min(), values.max()]).all()
    ):
        remedy = "MSE and other measures that take scores as numbers need finite ones"
        errors.refuse(np.isinf, values, kind, "is infinite", remedy)
    if roles.score_kind == "probability":
        _refuse_improbable(values, kind, errors)
    return values, mask


def _nan_remedy(name: str, role: str, roles: Roles) -> str:
    """Say what to do with NaN."""
    leave = f"mend the column, or leave these rows out with where='{quoted(name)} is not nan'"
    return leave if roles.unretrieved == "refuse" else _NAN.get(role, leave)


def _refuse_improbable(values: np.ndarray, kind: pa.DataType, errors: _ColumnErrors) -> None:
    if values.size and not (values.min() >= 0.0 and values.max() <= 1.0):
        errors.refuse(
            lambda scores: ~((scores >= 0.0) & (scores <= 1.0)),
            values,
            kind,
            "is not a probability",
            "LogLoss and other measures of probability take scores in [0, 1]: apply the model's "
            "sigmoid, or leave these measures out",
        )


def _exact_doubles(values: np.ndarray, errors: _ColumnErrors) -> np.ndarray:
    """Convert 64-bit integers to doubles of the same value."""
    if values.size and not (values.min() >= -_EXACT and values.max() <= _EXACT):
        errors.refuse(
            lambda scores: (scores > _EXACT) | (scores.astype(np.float64) < -_EXACT),
            values,
            values.dtype,
            "is an integer beyond 2^53, which no double holds exactly",
            "measures that take scores as numbers need them smaller, or as float64",
        )
    return frozen(values.astype(np.float64))


def _ordered_doubles(values: np.ndarray, errors: _ColumnErrors) -> np.ndarray:
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
        errors.refuse(
            _beyond_order,
            values,
            values.dtype,
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
            score_column(values, column.name, column.roles, first_row)


def rows_of(
    batch: pa.RecordBatch,
    plan_columns: PlanColumns,
    first_row: int,
    checked: Container[int] = (),
    left_out: Sequence[RowsLeftOut] = (),
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
    left_out : sequence of RowsLeftOut, optional
        For each plan; count the rows that leave, and the NaN that are null.

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
    keys = keys_of(batch, plan_columns.keys, first_row, plan_columns.clusters)
    arrays: list[np.ndarray | None] = [None] * plan_columns.size
    fields: list[StoredColumn] = []
    labels = [column for column in plan_columns.columns if column.role == "label"]
    nan: dict[int, np.ndarray] = {}

    def numbers_of(stored: StoredColumn) -> pa.Array:
        """Read a column, and remember its NaN that are null."""
        given = decode_array(batch.column(stored.name))
        column = nan_as_null(given, stored.roles)
        if column.null_count > given.null_count:
            nan[stored.position] = null_rows(column) & ~null_rows(given)
        return column

    for stored in labels:
        column = numbers_of(stored)
        arrays[stored.position] = _label(column, stored.roles, first_row)
        if stored.mask >= 0 and column.null_count:
            arrays[stored.mask] = null_rows(column)
    dropped = _dropped_by_all(arrays, plan_columns.drop_masks())
    if dropped is not None:
        checked = ()  # the caller does not see these rows
    for stored in plan_columns.columns[len(labels) :]:
        name, role = stored.name, stored.role
        if role == "score":
            arrays[stored.position], mask = score_column(
                numbers_of(stored), name, stored.roles, first_row, stored.position not in checked
            )
            if stored.mask >= 0:
                arrays[stored.mask] = mask
        elif role == "field":
            fields.append(stored)
        elif role == "subtopics":
            arrays[stored.position] = subtopics_column(batch.column(name), name, first_row)
        else:
            arrays[stored.position] = _weight(numbers_of(stored), stored, first_row)
    item = None
    if plan_columns.item is not None:
        item = _key(batch.column(plan_columns.item), plan_columns.item, first_row, role="item")
    for stored, codes in zip(fields, _field_codes(batch, fields), strict=True):
        arrays[stored.position] = codes
    if nan:
        _count_nan(nan, plan_columns, left_out)
    if dropped is None:
        return Columns(first_row, batch.num_rows, keys, tuple(arrays), item)
    for counts in left_out:
        counts[UNJUDGED, ""] += int(np.count_nonzero(dropped))
    for position in plan_columns.drop_masks():
        rest = cast(np.ndarray, arrays[position]) & ~dropped
        arrays[position] = rest if rest.any() else None
    return Columns(first_row, batch.num_rows, keys, tuple(arrays), item).filter(~dropped)


def _count_nan(
    nan: Mapping[int, np.ndarray], plan_columns: PlanColumns, left_out: Sequence[RowsLeftOut]
) -> None:
    """Count the rows of NaN of each plan, in all and by column."""
    names = {stored.position: stored.name for stored in plan_columns.columns}
    for indices, counts in zip(plan_columns.indices, left_out, strict=bool(left_out)):
        masks = {names[position]: nan[position] for position in indices if position in nan}
        if masks:
            counts[NAN, ""] += int(np.count_nonzero(np.logical_or.reduce([*masks.values()])))
            counts.update({(NAN, name): int(np.count_nonzero(m)) for name, m in masks.items()})


def _dropped_by_all(
    arrays: Sequence[np.ndarray | None], drop_masks: Sequence[int]
) -> np.ndarray | None:
    """Mark the rows that every plan drops; None if there is none."""
    masks = [mask for mask in (arrays[position] for position in drop_masks) if mask is not None]
    if not masks or len(masks) < len(drop_masks):
        return None
    dropped = np.logical_and.reduce(masks)
    return dropped if dropped.any() else None


def columns_of(batch: pa.RecordBatch, roles: Roles, first_row: int) -> Columns:
    """Validate a batch for one plan; see `rows_of`."""
    plan_columns = PlanColumns((roles,))
    rows = rows_of(batch, plan_columns, first_row)
    return plan_columns.for_plan(0, rows)._replace(keys=rows.keys)


def _field_codes(batch: pa.RecordBatch, fields: Sequence[StoredColumn]) -> list[np.ndarray]:
    """Encode the columns that measures and slices name."""
    encoders = (cast(CodedColumn, field.encoder) for field in fields)
    return [encoder.codes(batch.column(encoder.name)) for encoder in encoders]


def keys_of(
    batch: pa.RecordBatch, names: Sequence[str], first_row: int, clusters: Container[str] = ()
) -> tuple[pa.Array, ...]:
    """Decode the key columns of a batch; raise for nulls."""
    return tuple(
        _key(batch.column(name), name, first_row, "cluster" if name in clusters else "group")
        for name in names
    )


def _key(column: pa.Array, name: str, first_row: int, role: str = "group") -> pa.Array:
    column = decode_array(column)
    if role != "item" and pa.types.is_floating(column.type):
        column = _whole_numbers(column, _ColumnErrors(name, role, first_row))
    refuse_unhashable(column, name, role)
    remedy = "fill or drop these rows"
    if role != "item":
        remedy += " (null_groups='drop', --null-groups drop)"
    if pa.types.is_string(column.type):
        remedy += ', or in a CSV file quote the value ("null") if it is text'
    _ColumnErrors(name, role, first_row).refuse_nulls(column, remedy)
    return column


def _whole_numbers(column: pa.Array, errors: _ColumnErrors) -> pa.Array:
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
    values = numbers(fill_nulls(column), errors.name, errors.role, "a whole number")
    if invalid(values).any():
        errors.refuse(
            invalid,
            values,
            column.type,
            f"is not a whole number below 2^{digits}",
            "keys of a float type must be whole: cast the column to a string or an integer",
        )
    return column_with_nulls(np.where(missing, 0, values).astype(np.int64), missing)


def _label(column: pa.Array, roles: Roles, first_row: int) -> np.ndarray:
    name, kind = roles.label, column.type
    errors = _ColumnErrors.of(name, "label", first_row, roles)
    if column.null_count:
        if roles.unjudged in ("error", "refuse"):
            errors.refuse_nulls(column, _NULL_LABELS if roles.unjudged == "error" else _FILL)
        column = fill_nulls(column)
    values = numbers(column, name, "label", "a bool, an integer grade or a float gain")
    if (
        values.dtype.kind == "f"
        and values.size
        and not (np.isfinite(values.min()) and np.isfinite(values.max()))
    ):
        if np.isnan(values.min()):
            errors.refuse(np.isnan, values, kind, "is NaN", _nan_remedy(name, "label", roles))
        errors.refuse(np.isinf, values, kind, "is infinite", "labels must be finite")
    return values


def _weight(column: pa.Array, stored: StoredColumn, first_row: int) -> np.ndarray:
    name, role, roles = stored.name, stored.role, stored.roles
    errors = _ColumnErrors.of(name, role, first_row, roles)
    states = ["null", "nan"] if errors.nan_is_null else ["null"]
    given = " and ".join(f"{quoted(name)} is not {state}" for state in states)
    errors.refuse_nulls(column, f"give each row a number, or leave rows out with where='{given}'")
    own = numbers(column, name, role, "a number")
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
            errors.refuse(np.isnan, own, column.type, "is NaN", _nan_remedy(name, role, roles))
        if not (minimum >= 0.0 and maximum < np.inf):
            errors.refuse(
                lambda weights: ~((weights >= 0.0) & (weights < np.inf)),
                values,
                column.type,
                "is negative or infinite",
                "weights must be finite and not negative",
            )
        # A minimum of 0 may hide other weights below the allowed minimum.
        if maximum > high or (minimum < low and out_of_range(values).any()):
            errors.refuse(
                out_of_range,
                values,
                column.type,
                "is above 1e30, or below 1e-30 but not 0,",
                "weights must be 0 or from 1e-30 to 1e30; multiply all of them by one number",
            )
    return values


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
