"""A record batch -> columns: everything is checked on this way, once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import as_array, decoded
from fastrank_eval.columns import Columns, Roles
from fastrank_eval.errors import ColumnError
from fastrank_eval.number_columns import filled, numbers, refuse, refuse_nulls
from fastrank_eval.score_columns import score_column
from fastrank_eval.subtopics import subtopics_column

__all__ = ["columns_of", "keys_of", "refuse_unhashable"]

#: Weights other than 0: products and fourth powers of their sums are doubles that lose no bit.
LEAST_WEIGHT, MOST_WEIGHT = 1e-30, 1e30


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
        Null, NaN or infinite where not allowed, a weight that is negative, above 1e30 or below
        1e-30 but not 0, a type that has no meaning in its part: names the column, the first row
        and how many rows there are.
    """
    keys = keys_of(batch, roles, first_row)
    labels = decoded(batch.column(roles.label))
    label = _label(labels, roles, first_row)
    scores, masks = [], []
    for name in roles.scores:
        score, mask = score_column(batch.column(name), name, roles, first_row)
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
        subtopics = subtopics_column(batch.column(roles.subtopics), roles.subtopics, first_row)
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


def _key(column: pa.Array, name: str, first_row: int, part: str = "group") -> pa.Array:
    column = decoded(column)
    refuse_unhashable(column, name, part)
    remedy = "fill or drop these rows"
    if pa.types.is_string(column.type):
        remedy += ', or in a CSV file quote the value ("null") if it is text'
    refuse_nulls(column, name, part, first_row, remedy)
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
            refuse_nulls(
                column,
                name,
                "label",
                first_row,
                "pass unjudged='allow' (takes a rank, no gain) "
                "or unjudged='drop', if a null means that nobody judged the row",
            )
        column = filled(column)
    values = numbers(column, name, "label", "a bool, an integer grade or a float gain")
    if (
        values.dtype.kind == "f"
        and values.size
        and not (np.isfinite(values.min()) and np.isfinite(values.max()))
    ):
        refuse(
            lambda labels: ~np.isfinite(labels),
            values,
            (name, "label", kind),
            first_row,
            "is NaN or infinite",
            "labels must be finite",
        )
    return values


def _weight(column: pa.Array, name: str, part: str, first_row: int) -> np.ndarray:
    column = decoded(column)
    refuse_nulls(column, name, part, first_row)
    given = numbers(column, name, part, "a number")
    values = given.astype(np.float64, copy=False)
    if values.size:
        # Of the column's own type: the float32 next to 1e30 lies above it.
        kind = given.dtype.type if given.dtype.kind == "f" else np.float64
        low, high = float(kind(LEAST_WEIGHT)), float(kind(MOST_WEIGHT))

        def out_of_range(weights: np.ndarray) -> np.ndarray:
            found: np.ndarray = (weights > high) | ((weights < low) & (weights > 0.0))
            return found

        least, most = values.min(), values.max()
        if not (least >= 0.0 and most < np.inf):
            refuse(
                lambda weights: ~((weights >= 0.0) & (weights < np.inf)),
                values,
                (name, part, column.type),
                first_row,
                "is negative, NaN or infinite",
                "weights must be finite and not negative",
            )
        # Where the least is 0, smaller ones than allowed may hide behind it.
        if most > high or (least < low and out_of_range(values).any()):
            refuse(
                out_of_range,
                values,
                (name, part, column.type),
                first_row,
                "is above 1e30, or below 1e-30 but not 0,",
                "weights must be 0 or from 1e-30 to 1e30; multiply all of them by one number",
            )
    return values
