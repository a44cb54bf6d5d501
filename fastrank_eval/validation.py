"""A record batch -> columns: everything is checked here, once; the null policy lives here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from fastrank_eval.arrow_values import arrow_column, arrow_value
from fastrank_eval.columns import Columns, Roles, frozen
from fastrank_eval.errors import ColumnError
from fastrank_eval.faults import BadRows
from fastrank_eval.subtopics import MOST, masks_of

#: Integers up to here are doubles too.
_EXACT = 1 << 53
_SIGN = np.uint64(1 << 63)
_INFINITY_BITS = np.uint64(0x7FF0000000000000)
# Doubles in ascending order, numbered: the place of minus infinity, of -0.0 and of infinity.
_MINUS_INFINITY = np.uint64(0x000FFFFFFFFFFFFF)
_MINUS_ZERO = np.uint64(0x7FFFFFFFFFFFFFFF)
_INFINITY = np.uint64(0xFFF0000000000000)


def columns_of(batch: pa.RecordBatch, roles: Roles, first_row: int) -> Columns:
    """Validate a batch and view it as arrays.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        Holds every column that `roles` names.
    roles : Roles
        Parts and null policies.
    first_row : int
        Number of the batch's first row in the whole input.

    Returns
    -------
    Columns
        Views where the type allows one; copies only of booleans, halves, 64-bit integer scores and
        columns with nulls.

    Raises
    ------
    ColumnError
        Null, NaN or infinite where not allowed, a negative weight, a type that has no meaning in
        its part: names the column, the first row and how many rows there are.
    """
    keys = keys_of(batch, roles, first_row)
    labels = decoded(batch.column(roles.label))
    label = _label(labels, roles, first_row)
    scores, masks = [], []
    for name in roles.scores:
        score, mask = _score(batch.column(name), name, roles, first_row)
        scores.append(score)
        masks.append(mask)
    weight = None
    if roles.weight is not None:
        weight = _weight(batch.column(roles.weight), roles.weight, "weight", first_row)
    item = None
    if roles.item is not None:
        item = _key(batch.column(roles.item), roles.item, first_row, part="item")
    named = [
        _weight(batch.column(name), name, "group weight", first_row) for name in roles.group_weights
    ]
    named += [field.codes(batch.column(field.name)) for field in roles.fields]
    subtopics = None
    if roles.subtopics is not None:
        subtopics = _subtopics(batch.column(roles.subtopics), roles.subtopics, first_row)
    columns = Columns(
        first_row,
        keys,
        label,
        tuple(scores),
        tuple(masks),
        weight,
        item,
        tuple(named),
        subtopics=subtopics,
    )
    if labels.null_count:
        if roles.unjudged == "drop":
            return columns.only(as_array(labels.is_valid()).view(np.bool_))
        if roles.judgments:
            return replace(columns, unjudged=as_array(labels.is_null()).view(np.bool_))
    return columns


def keys_of(batch: pa.RecordBatch, roles: Roles, first_row: int) -> tuple[pa.Array, ...]:
    """The key columns of a batch, decoded and without nulls."""
    return tuple(_key(batch.column(name), name, first_row) for name in roles.group)


def as_array(column: pa.Array) -> np.ndarray:
    """A primitive Arrow array without nulls as a read-only NumPy array, a view where possible."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    # Not to_numpy(), which imports pandas where it is installed: 0.3 s.
    return fixed_items(column, np.dtype(column.type.to_pandas_dtype()))


def fixed_items(column: pa.Array, dtype: np.dtype) -> np.ndarray:
    """The items of a fixed-width array as they lie in memory; a read-only view."""
    if not len(column):
        return frozen(np.empty(0, dtype))
    start = column.offset * dtype.itemsize
    return frozen(np.frombuffer(column.buffers()[1], dtype, len(column), start))


def decoded(column: pa.Array) -> pa.Array:
    """The values behind an extension type, run ends or a dictionary, in a layout Arrow gathers."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return decoded(column.storage)
    if pa.types.is_run_end_encoded(kind):
        import pyarrow.compute as pc

        return decoded(pc.run_end_decode(column))
    if pa.types.is_dictionary(kind):
        values = _wide(decoded(column.dictionary))
        return pa.DictionaryArray.from_arrays(column.indices, values).dictionary_decode()
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        return column.cast(pa.large_binary())
    return column


def _wide(column: pa.Array) -> pa.Array:
    """Strings and bytes with 64-bit offsets: repeated often, short ones pass 2 GiB."""
    if pa.types.is_string(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_binary(column.type):
        return column.cast(pa.large_binary())
    return column


def _key(column: pa.Array, name: str, first_row: int, part: str = "group") -> pa.Array:
    column = decoded(column)
    refuse_unhashable(column, name, part)
    _refuse_nulls(column, name, part, first_row)
    return column


def refuse_unhashable(column: pa.Array, name: str, part: str) -> None:
    """Refuse a column of a type whose values cannot be told apart as keys."""
    kind = column.type
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or (pa.types.is_temporal(kind) and not (part == "item" and pa.types.is_interval(kind)))
        or pa.types.is_decimal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or (pa.types.is_null(kind) and (part == "field" or not len(column)))
    ):
        raise ColumnError(
            f"{part} column '{name}' has type {kind}, which cannot be a key; "
            "cast it to an integer, string, date, timestamp, decimal or bool."
        )


def _label(column: pa.Array, roles: Roles, first_row: int) -> np.ndarray:
    column = decoded(column)
    name, kind = roles.label, column.type
    if column.null_count:
        if roles.unjudged == "error":
            _refuse_nulls(
                column,
                name,
                "label",
                first_row,
                "pass unjudged='allow' (takes a rank, no gain) "
                "or unjudged='drop', if a null means that nobody judged the row",
            )
        column = _filled(column)
    values = _numbers(column, name, "label", "a bool, an integer grade or a float gain")
    if (
        values.dtype.kind == "f"
        and values.size
        and not (np.isfinite(values.min()) and np.isfinite(values.max()))
    ):
        _refuse(
            lambda labels: ~np.isfinite(labels),
            values,
            (name, "label", kind),
            first_row,
            "is NaN or infinite",
            "labels must be finite",
        )
    return values


def _score(
    column: pa.Array, name: str, roles: Roles, first_row: int
) -> tuple[np.ndarray, np.ndarray | None]:
    column = decoded(column)
    kind = column.type
    if pa.types.is_decimal(kind):
        raise ColumnError(
            f"score column '{name}' has type {kind}, which has no exact binary form; "
            "cast it to float64 or to an integer."
        )
    mask = None
    if column.null_count:
        if roles.unretrieved == "error":
            _refuse_nulls(
                column,
                name,
                "score",
                first_row,
                "pass unretrieved='allow' if a null means that the row was not retrieved",
            )
        mask = as_array(column.is_null()).view(np.bool_)
        column = _filled(column)
    values = _numbers(column, name, "score", "float16, float32, float64 or an integer")
    if roles.single_precision and values.dtype != np.float32:
        with np.errstate(over="ignore"):
            values = frozen(values.astype(np.float32))
    if values.dtype.kind == "f":
        # The minimum is NaN as soon as one value is: one vectorised pass, no array of flags.
        if values.size and np.isnan(values.min()):
            _refuse(
                np.isnan,
                values,
                (name, "score", kind),
                first_row,
                "is NaN",
                "a NaN has no rank: drop these rows or mend the model's output",
            )
    elif values.dtype.itemsize <= 2:
        values = values.astype(np.float32)
    elif values.dtype.itemsize == 4:
        values = values.astype(np.float64)
    elif roles.score_kind == "order":
        values = _ordered_doubles(values, name, first_row)
    else:
        values = _exact_doubles(values, name, first_row)
    if (
        roles.score_kind == "finite number"
        and values.size
        and not np.isfinite([values.min(), values.max()]).all()
    ):
        _refuse(
            np.isinf,
            values,
            (name, "score", kind),
            first_row,
            "is infinite",
            "MSE and other measures that take scores as numbers need finite ones",
        )
    if roles.score_kind == "probability":
        _refuse_improbable(values, name, kind, first_row)
    return values, mask


def _refuse_improbable(values: np.ndarray, name: str, kind: pa.DataType, first_row: int) -> None:
    if values.size and not (values.min() >= 0.0 and values.max() <= 1.0):
        _refuse(
            lambda scores: ~((scores >= 0.0) & (scores <= 1.0)),
            values,
            (name, "score", kind),
            first_row,
            "is no probability",
            "LogLoss and other measures of probability take scores in [0, 1]: apply the model's "
            "sigmoid, or leave these measures out",
        )


def _exact_doubles(values: np.ndarray, name: str, first_row: int) -> np.ndarray:
    """64-bit integers as the same numbers."""
    if values.size and not (values.min() >= -_EXACT and values.max() <= _EXACT):
        _refuse(
            lambda scores: (scores > _EXACT) | (scores.astype(np.float64) < -_EXACT),
            values,
            (name, "score", values.dtype),
            first_row,
            "is an integer beyond 2^53, which no double holds exactly",
            "measures that take scores as numbers need them smaller, or as float64",
        )
    return frozen(values.astype(np.float64))


def _ordered_doubles(values: np.ndarray, name: str, first_row: int) -> np.ndarray:
    """64-bit integers as doubles of the same order and the same ties (not of the same value).

    A double's bits, read as sign and magnitude, are ordered as the doubles are: the integer's
    magnitude becomes the bits. float64(values) would merge neighbours beyond 2**53.
    """
    if values.dtype.kind == "u":
        # Ascending from just above minus infinity; the pair -0.0 and 0.0 is one place, not two.
        ascending = values + _MINUS_INFINITY
        ascending += ascending >= _MINUS_ZERO
        bits = np.where(ascending >= _SIGN, ascending ^ _SIGN, ~ascending)
    else:
        bits = _magnitude(values) | np.where(values < 0, _SIGN, np.uint64(0))
    if values.size and _beyond_order(np.array([values.min(), values.max()])).any():
        _refuse(
            _beyond_order,
            values,
            (name, "score", values.dtype),
            first_row,
            "stands within 2^53 of the end of its type and cannot be ordered exactly",
            "shift the scores or cast them to float64",
        )
    return frozen(bits.view(np.float64))


def _magnitude(values: np.ndarray) -> np.ndarray:
    bits = values.view(np.uint64)
    return np.where(values < 0, np.uint64(0) - bits, bits)


def _beyond_order(values: np.ndarray) -> np.ndarray:
    """64-bit integers that have no place among the finite doubles."""
    if values.dtype.kind == "u":
        return values > _INFINITY - _MINUS_INFINITY - np.uint64(2)
    return _magnitude(values) >= _INFINITY_BITS


def _weight(column: pa.Array, name: str, part: str, first_row: int) -> np.ndarray:
    column = decoded(column)
    _refuse_nulls(column, name, part, first_row)
    values = _numbers(column, name, part, "a number").astype(np.float64, copy=False)
    if values.size:
        least, most = values.min(), values.max()
        if not (least >= 0.0 and most < np.inf):
            _refuse(
                lambda weights: ~((weights >= 0.0) & (weights < np.inf)),
                values,
                (name, part, column.type),
                first_row,
                "is negative, NaN or infinite",
                "weights must be finite and not negative",
            )
    return values


def _subtopics(column: pa.Array, name: str, first_row: int) -> np.ndarray:
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
        numbers = _filled(numbers)
    values = as_array(numbers)
    outside = wrong | (values < 0) | (values >= MOST)
    return np.where(outside, 0, values).astype(np.int64), lengths, outside


def _numbers(column: pa.Array, name: str, part: str, wanted: str) -> np.ndarray:
    kind = column.type
    if pa.types.is_decimal(kind):
        return as_array(column.cast(pa.float64()))
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.uint8)
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ColumnError(f"{part} column '{name}' has type {kind}; it must be {wanted}.")
    values = as_array(column)
    return values.astype(np.float32) if values.dtype == np.float16 else values


def _filled(column: pa.Array) -> pa.Array:
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


def _refuse_nulls(column: pa.Array, name: str, part: str, first_row: int, remedy: str = "") -> None:
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


def _refuse(
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
            column = _filled(column)
        return int(np.count_nonzero(find(_numbers(column, name, part, "a number"))))

    raise BadRows(
        name,
        f"{part} column '{name}' ({kind}) {fault}",
        f", value {values[at]!s}; {remedy}",
        first_row + at,
        int(np.count_nonzero(wrong)),
        count,
    )
