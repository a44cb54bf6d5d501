"""A record batch as validated, contiguous, read-only NumPy views; the null policy lives here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastrank_eval.errors import ColumnError

_SIGN = np.uint64(1 << 63)
_INFINITY = np.uint64(0x7FF0000000000000)


@dataclass(frozen=True, slots=True)
class Roles:
    """Which column plays which part, and which nulls are allowed.

    Parameters
    ----------
    group : tuple of str
        The key columns; rows that agree in all of them form one group.
    label : str
        The grade, gain or click.
    scores : tuple of str
        One column a model.
    weight : str or None
        Row weight.
    item : str or None
        Item (document) id, for ``ties="item"``.
    group_weights : tuple of str
        Columns that measures name as group weights.
    unretrieved : str
        ``"error"`` or ``"allow"``: what a null score means.
    unjudged : str
        ``"error"``, ``"allow"`` or ``"drop"``: what a null label means.
    """

    group: tuple[str, ...]
    label: str
    scores: tuple[str, ...]
    weight: str | None = None
    item: str | None = None
    group_weights: tuple[str, ...] = ()
    unretrieved: str = "error"
    unjudged: str = "error"

    def by_column(self) -> dict[str, str]:
        """Each needed column with the part it plays, in reading order."""
        parts: dict[str, str] = {}
        for name in self.group:
            parts.setdefault(name, "group")
        parts.setdefault(self.label, "label")
        for name in self.scores:
            parts.setdefault(name, "score")
        if self.weight is not None:
            parts.setdefault(self.weight, "weight")
        if self.item is not None:
            parts.setdefault(self.item, "item")
        for name in self.group_weights:
            parts.setdefault(name, "group weight")
        return parts


@dataclass(frozen=True, slots=True)
class Columns:
    """The rows of one stretch of input.

    Parameters
    ----------
    first_row : int
        Number of the first row in the whole input, counted from 0.
    keys : tuple of pyarrow.Array
        Key columns, without nulls.
    label : ndarray, shape (rows,)
        Grades in their own integer type, float32 or float64; 0 where unjudged.
    scores : tuple of ndarray, shape (rows,)
        float32 or float64, order and ties exactly those of the input; 0 where unretrieved.
    unretrieved : tuple of (ndarray of bool or None)
        Rows without a score, per model; None where every row has one.
    weight : ndarray of float64 or None
        Row weights, finite and not negative.
    item : pyarrow.Array or None
        Item ids.
    group_weights : tuple of ndarray of float64
        Columns used as group weights.
    """

    first_row: int
    keys: tuple[pa.Array, ...]
    label: np.ndarray
    scores: tuple[np.ndarray, ...]
    unretrieved: tuple[np.ndarray | None, ...]
    weight: np.ndarray | None
    item: pa.Array | None
    group_weights: tuple[np.ndarray, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.label)

    def slice(self, lo: int, hi: int) -> Columns:
        """Rows `lo` to `hi` of this stretch, without copying."""
        return Columns(
            self.first_row + lo,
            tuple(key.slice(lo, hi - lo) for key in self.keys),
            self.label[lo:hi],
            tuple(score[lo:hi] for score in self.scores),
            tuple(None if mask is None else mask[lo:hi] for mask in self.unretrieved),
            None if self.weight is None else self.weight[lo:hi],
            None if self.item is None else self.item.slice(lo, hi - lo),
            tuple(weight[lo:hi] for weight in self.group_weights),
        )

    def take(self, rows: np.ndarray) -> Columns:
        """The given rows, in that order, without keys."""
        return Columns(
            self.first_row,
            (),
            self.label[rows],
            tuple(frozen(score[rows]) for score in self.scores),
            tuple(None if mask is None else mask[rows] for mask in self.unretrieved),
            None if self.weight is None else self.weight[rows],
            None if self.item is None else self.item.take(pa.array(rows)),
            tuple(weight[rows] for weight in self.group_weights),
        )

    def rearranged(
        self,
        rearrange: Callable[[list[np.ndarray]], list[np.ndarray]],
        more: list[np.ndarray],
        place: np.ndarray,
    ) -> tuple[Columns, list[np.ndarray]]:
        """The same rows at other places, without keys, and further arrays moved with them.

        Parameters
        ----------
        rearrange : callable
            Moves the rows of each of several arrays to their place.
        more : list of ndarray
            Arrays to be moved too.
        place : ndarray of integers, shape (rows,)
            Where each row goes, for columns that are no NumPy arrays.
        """
        masks = [mask for mask in self.unretrieved if mask is not None]
        weights = [] if self.weight is None else [self.weight]
        moved = iter(
            rearrange([*more, *self.scores, self.label, *masks, *weights, *self.group_weights])
        )
        more = [next(moved) for _ in more]
        scores = tuple(next(moved) for _ in self.scores)
        label = next(moved)
        unretrieved = tuple(None if mask is None else next(moved) for mask in self.unretrieved)
        weight = None if self.weight is None else next(moved)
        group_weights = tuple(moved)
        item = None
        if self.item is not None:
            row_at = np.empty(self.rows, np.int64)
            row_at[place] = np.arange(self.rows)
            item = self.item.take(pa.array(row_at))
        return Columns(
            self.first_row, (), label, scores, unretrieved, weight, item, group_weights
        ), more

    def without_keys(self) -> Columns:
        """The same rows without their keys, once the group is known."""
        return Columns(
            self.first_row,
            (),
            self.label,
            self.scores,
            self.unretrieved,
            self.weight,
            self.item,
            self.group_weights,
        )


def frozen(values: np.ndarray) -> np.ndarray:
    """The same array, read-only: kernels are compiled once, for arrays they cannot write to."""
    values.flags.writeable = False
    return values


def concatenate(pieces: Sequence[Columns]) -> Columns:
    """Stretches that follow one another, as one stretch."""
    if len(pieces) == 1:
        return pieces[0]
    first = pieces[0]

    def joined(masks: Sequence[np.ndarray | None]) -> np.ndarray | None:
        if all(mask is None for mask in masks):
            return None
        return np.concatenate(
            [
                np.zeros(piece.rows, np.bool_) if mask is None else mask
                for piece, mask in zip(pieces, masks, strict=True)
            ]
        )

    models = range(len(first.scores))
    return Columns(
        first.first_row,
        tuple(
            pa.concat_arrays([piece.keys[k] for piece in pieces]) for k in range(len(first.keys))
        ),
        np.concatenate([piece.label for piece in pieces]),
        tuple(np.concatenate([piece.scores[m] for piece in pieces]) for m in models),
        tuple(joined([piece.unretrieved[m] for piece in pieces]) for m in models),
        None if first.weight is None else np.concatenate([cast(Any, p.weight) for p in pieces]),
        None if first.item is None else pa.concat_arrays([p.item for p in pieces]),
        tuple(
            np.concatenate([piece.group_weights[w] for piece in pieces])
            for w in range(len(first.group_weights))
        ),
    )


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
    if roles.unjudged == "drop" and batch.column(roles.label).null_count:
        # Row numbers in messages count the rows that remain.
        batch = batch.filter(batch.column(roles.label).is_valid())
    keys = tuple(_key(batch.column(name), name, first_row) for name in roles.group)
    label = _label(batch.column(roles.label), roles, first_row)
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
    group_weights = tuple(
        _weight(batch.column(name), name, "group weight", first_row) for name in roles.group_weights
    )
    return Columns(first_row, keys, label, tuple(scores), tuple(masks), weight, item, group_weights)


def as_array(column: pa.Array) -> np.ndarray:
    """A primitive Arrow array without nulls as a read-only NumPy array, a view where possible."""
    kind = column.type
    if pa.types.is_boolean(kind):
        values = column.to_numpy(zero_copy_only=False).view(np.uint8)
    else:
        values = column.to_numpy(zero_copy_only=True)
    values.flags.writeable = False
    return values


def _key(column: pa.Array, name: str, first_row: int, part: str = "group") -> pa.Array:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _key(column.storage, name, first_row, part)
    if pa.types.is_string_view(kind):
        column = column.cast(pa.large_string())
    elif pa.types.is_binary_view(kind):
        column = column.cast(pa.large_binary())
    elif pa.types.is_dictionary(kind):
        _refuse_nulls(column, name, part, first_row)
        return _key(column.dictionary_decode(), name, first_row, part)
    elif pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_null(kind):
        raise ColumnError(
            f"{part} column '{name}' has type {kind}, which cannot be a key; "
            "cast it to an integer, string, date, timestamp, decimal or bool."
        )
    _refuse_nulls(column, name, part, first_row)
    return column


def _label(column: pa.Array, roles: Roles, first_row: int) -> np.ndarray:
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
            ~np.isfinite(values),
            values,
            f"label column '{name}' ({kind})",
            first_row,
            "is NaN or infinite",
            "labels must be finite",
        )
    return values


def _score(
    column: pa.Array, name: str, roles: Roles, first_row: int
) -> tuple[np.ndarray, np.ndarray | None]:
    kind = column.type
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
        mask = column.is_null().to_numpy(zero_copy_only=False)
        column = _filled(column)
    if pa.types.is_decimal(kind):
        raise ColumnError(
            f"score column '{name}' has type {kind}, which has no exact binary form; "
            "cast it to float64 or to an integer."
        )
    values = _numbers(column, name, "score", "float16, float32, float64 or an integer")
    if values.dtype.kind == "f":
        # The minimum is NaN as soon as one value is: one vectorised pass, no array of flags.
        if values.size and np.isnan(values.min()):
            _refuse(
                np.isnan(values),
                values,
                f"score column '{name}' ({kind})",
                first_row,
                "is NaN",
                "a NaN has no rank: drop these rows or mend the model's output",
            )
        return values, mask
    if values.dtype.itemsize <= 2:
        return values.astype(np.float32), mask
    if values.dtype.itemsize == 4:
        return values.astype(np.float64), mask
    return _ordered_doubles(values, name, first_row), mask


def _ordered_doubles(values: np.ndarray, name: str, first_row: int) -> np.ndarray:
    """64-bit integers as doubles of the same order and the same ties (not of the same value).

    A double's bits, read as sign and magnitude, are ordered as the doubles are: the integer's
    magnitude becomes the bits. float64(values) would merge neighbours beyond 2**53.
    """
    if values.dtype.kind == "u":
        negative = values < _SIGN
        magnitude = np.where(negative, _SIGN - values, values - _SIGN)
    else:
        negative = values < 0
        bits = values.view(np.uint64)
        magnitude = np.where(negative, np.uint64(0) - bits, bits)
    if values.size and magnitude.max() >= _INFINITY:
        _refuse(
            magnitude >= _INFINITY,
            values,
            f"score column '{name}' ({values.dtype})",
            first_row,
            "is too far from the middle of its type to be ordered exactly",
            "shift the scores or cast them to float64",
        )
    return (magnitude | np.where(negative, _SIGN, np.uint64(0))).view(np.float64)


def _weight(column: pa.Array, name: str, part: str, first_row: int) -> np.ndarray:
    _refuse_nulls(column, name, part, first_row)
    values = _numbers(column, name, part, "a number").astype(np.float64, copy=False)
    if values.size:
        least, most = values.min(), values.max()
        if not (least >= 0.0 and most < np.inf):
            wrong = ~((values >= 0.0) & (values < np.inf))
            _refuse(
                wrong,
                values,
                f"{part} column '{name}' ({column.type})",
                first_row,
                "is negative, NaN or infinite",
                "weights must be finite and not negative",
            )
    return values


def _numbers(column: pa.Array, name: str, part: str, wanted: str) -> np.ndarray:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _numbers(column.storage, name, part, wanted)
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
        return pa.array(np.zeros(len(column), np.float32))
    if pa.types.is_float16(kind):
        column = column.cast(pa.float32())
    if pa.types.is_boolean(column.type):
        return pc.fill_null(column, False)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return column
    return pc.fill_null(column, pa.scalar(0, column.type))


def _refuse_nulls(column: pa.Array, name: str, part: str, first_row: int, remedy: str = "") -> None:
    nulls = column.null_count
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = column.dictionary_decode()
        nulls = column.null_count
    if nulls:
        row = first_row + pc.index(column.is_null(), True).as_py()
        raise ColumnError(
            f"{part} column '{name}' is null in {nulls:,} row(s), first in row {row:,} "
            f"(counted from 0); {remedy or 'fill or drop these rows'}."
        )


def _refuse(
    wrong: np.ndarray, values: np.ndarray, where: str, first_row: int, fault: str, remedy: str
) -> None:
    at = int(np.argmax(wrong))
    raise ColumnError(
        f"{where} {fault} in {int(np.count_nonzero(wrong)):,} row(s) of this batch, first in row "
        f"{first_row + at:,} (counted from 0), value {values[at]!s}; {remedy}."
    )
