"""Hold the roles of columns, and the rows of one plan as read-only arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import count
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, is_textual, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval._lib.threads import scratch


class CodedColumn(Protocol):
    """An encoder of a column as integers that are the same in every batch."""

    @property
    def name(self) -> str:
        """The column to read."""

    def codes(self, column: pa.Array) -> np.ndarray:
        """Return an int32 from 0 for each row; threads may share the encoder."""


@dataclass(frozen=True)
class Roles:
    """Roles of columns and null policies.

    Parameters
    ----------
    group : tuple of str
        The key columns; rows with equal keys form a group.
    label : str
        The grade, gain or click.
    scores : tuple of str
        One column for each model.
    weight : str or None
        Row weight.
    item : str or None
        Item (document) id, for ``ties="item"``.
    group_weights : tuple of str
        Columns that measures use as group weights.
    fields : tuple of CodedColumn
        Categorical columns of measures.
    unretrieved : str
        ``"error"`` or ``"allow"``: the policy for null scores.
    unjudged : str
        ``"error"``, ``"allow"`` or ``"drop"``: the policy for null labels.
    judgments : bool
        Whether a measure distinguishes unjudged rows from rows of label 0.
    single_precision : bool
        Whether scores are rounded to float32 before comparison.
    score_kind : str
        How measures read scores: ``"order"``, ``"number"``, ``"finite number"`` or
        ``"probability"``.
    subtopics : str or None
        Column of the subtopics of each row, if a measure uses it.
    epsilons : tuple of float
        Epsilon of the type of each score column; set when the source is open.
    expressions : mapping of str to str
        Expressions of computed scores by name.
    """

    group: tuple[str, ...]
    label: str
    scores: tuple[str, ...]
    weight: str | None = None
    item: str | None = None
    group_weights: tuple[str, ...] = ()
    fields: tuple[CodedColumn, ...] = ()
    unretrieved: str = "error"
    unjudged: str = "error"
    judgments: bool = False
    single_precision: bool = False
    score_kind: str = "order"
    subtopics: str | None = None
    epsilons: tuple[float, ...] = ()
    expressions: Mapping[str, str] = field(default_factory=dict)

    @property
    def keeps_unjudged(self) -> bool:
        """Whether the mask of rows without a label is needed."""
        return self.judgments or self.unjudged == "drop"

    def id_columns(self) -> tuple[str, ...]:
        """Return group and item columns; they are text in files without types."""
        return tuple(dict.fromkeys((*self.group, *([] if self.item is None else [self.item]))))

    def number_columns(self) -> dict[str, str]:
        """Return a role for each numeric column."""
        roles = dict.fromkeys(self.group_weights, "group weight")
        if self.weight is not None:
            roles[self.weight] = "weight"
        return roles | dict.fromkeys(self.scores, "score") | {self.label: "label"}

    def by_column(self) -> dict[str, str]:
        """Return the role of each needed column, in reading order."""
        roles: dict[str, str] = {}
        for name in self.group:
            roles.setdefault(name, "group")
        roles.setdefault(self.label, "label")
        for name in self.scores:
            roles.setdefault(name, "score")
        if self.weight is not None:
            roles.setdefault(self.weight, "weight")
        if self.item is not None:
            roles.setdefault(self.item, "item")
        for name in self.group_weights:
            roles.setdefault(name, "group weight")
        if self.subtopics is not None:
            roles.setdefault(self.subtopics, "subtopics")
        for coded in self.fields:
            roles.setdefault(coded.name, "field")
        return roles


@dataclass(frozen=True)
class Columns:
    """Validated rows of one batch.

    Parameters
    ----------
    first_row : int
        Number of the first row in the input, counted from 0.
    keys : tuple of pyarrow.Array
        Key columns, without nulls.
    label : ndarray, shape (rows,)
        Grades in their own integer type, float32 or float64; 0 for unjudged rows.
    scores : tuple of ndarray, shape (rows,)
        float32 or float64, with exactly the order and ties of the input; 0 for unretrieved rows.
    unretrieved : tuple of (ndarray of bool or None)
        Mask of rows without a score, for each model; None if every row has one.
    weight : ndarray of float64 or None
        Row weights, finite and not negative.
    item : pyarrow.Array or None
        Item ids.
    named_columns : tuple of ndarray of float64 or int32
        Columns of measures: group weights, then the codes of fields and of slice columns.
    row_numbers : ndarray of int64 or None
        Number of each row in the input; None for consecutive rows.
    unjudged : ndarray of bool or None
        Mask of rows without a label, if a measure uses it; None if every row has one.
    subtopics : ndarray of uint64 or None
        Bit s is set if the row covers subtopic s; None if no measure uses it.
    """

    first_row: int
    keys: tuple[pa.Array, ...]
    label: np.ndarray
    scores: tuple[np.ndarray, ...]
    unretrieved: tuple[np.ndarray | None, ...]
    weight: np.ndarray | None
    item: pa.Array | None
    named_columns: tuple[np.ndarray, ...]
    row_numbers: np.ndarray | None = None
    unjudged: np.ndarray | None = None
    subtopics: np.ndarray | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.label)

    def slice(self, lo: int, hi: int) -> Columns:
        """Return rows `lo` to `hi` without a copy."""
        return self._map(
            lambda values: values[lo:hi],
            lambda column: column.slice(lo, hi - lo),
            self.first_row + lo,
        )

    def take(self, rows: np.ndarray, use: str | None = None) -> Columns:
        """Return rows by index, in this order, without keys.

        Parameters
        ----------
        rows : ndarray of int64
        use : str, optional
            Name of the scratch arrays for the result, which the thread's next call overwrites; by
            default the result has its own memory.
        """
        row_indices, indices = row_column(rows), count()

        def take(values: np.ndarray) -> np.ndarray:
            if use is None:
                return frozen(values[rows])
            out = scratch(f"{use} {next(indices)}", len(rows), values.dtype)
            # Indices are valid: mode="raise" would check them, which takes as long again.
            return frozen(np.take(values, rows, out=out, mode="clip"))

        return self.drop_keys()._map(take, lambda column: column.take(row_indices), self.first_row)

    def filter(self, mask: np.ndarray) -> Columns:
        """Return the rows of a mask, without keys and with their row numbers."""
        rows = np.flatnonzero(mask)
        numbers = self.first_row + rows if self.row_numbers is None else self.row_numbers[rows]
        return replace(self.take(rows), row_numbers=frozen(numbers))

    def arrays(self) -> list[np.ndarray | None]:
        """List all arrays except keys and item ids; row numbers come last."""
        return [
            self.label,
            *self.scores,
            *self.unretrieved,
            self.weight,
            *self.named_columns,
            self.subtopics,
            self.unjudged,
            self.row_numbers,
        ]

    @classmethod
    def from_arrays(
        cls,
        arrays: Sequence[Any],
        models: int,
        item: pa.Array | None,
        keys: tuple[pa.Array, ...] = (),
        first_row: int = 0,
    ) -> Columns:
        """Make rows from the list of `arrays` for a number of models."""
        scores, masks = tuple(arrays[1 : 1 + models]), tuple(arrays[1 + models : 1 + 2 * models])
        label, weight = arrays[0], arrays[1 + 2 * models]
        named = tuple(arrays[2 + 2 * models : -3])
        subtopics, unjudged, numbers = arrays[-3:]
        return cls(
            first_row,
            keys,
            label,
            scores,
            masks,
            weight,
            item,
            named,
            numbers,
            unjudged,
            subtopics,
        )

    def drop_keys(self) -> Columns:
        """Return the same rows without keys."""
        return replace(self, keys=())

    def _map(
        self,
        array: Callable[[np.ndarray], np.ndarray],
        column: Callable[[pa.Array], pa.Array],
        first_row: int,
    ) -> Columns:
        """Apply a function to every NumPy array and another to every Arrow array."""
        arrays = [None if values is None else array(values) for values in self.arrays()]
        item = None if self.item is None else column(self.item)
        keys = tuple(map(column, self.keys))
        return Columns.from_arrays(arrays, len(self.scores), item, keys, first_row)

    def first_rows(self, starts: np.ndarray) -> np.ndarray:
        """Return the number in the input of each group's first row."""
        if self.row_numbers is None:
            return self.first_row + starts[:-1]
        first_rows: np.ndarray = np.minimum.reduceat(self.row_numbers[: starts[-1]], starts[:-1])
        return first_rows

    def row_number(self, row: int) -> int:
        """Return the number of a row in the input."""
        return self.first_row + row if self.row_numbers is None else int(self.row_numbers[row])


def epsilon_of(kind: pa.DataType, roles: Roles) -> float:
    """Return the epsilon of a type of scores; integers count as float64."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if roles.single_precision or pa.types.is_float32(kind):
        return float(np.finfo(np.float32).eps)
    return float(np.finfo(np.float16 if pa.types.is_float16(kind) else np.float64).eps)


def refuse_unhashable(column: pa.Array, name: str, role: str) -> None:
    """Raise if the type of a column cannot be a key."""
    kind = column.type
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or (pa.types.is_temporal(kind) and not (role == "item" and pa.types.is_interval(kind)))
        or pa.types.is_decimal(kind)
        or is_textual(kind)
        or pa.types.is_fixed_size_binary(kind)
        or (pa.types.is_null(kind) and (role == "field" or not len(column)))
    ):
        raise ColumnError(
            f"{role} column '{name}' has type {kind}, which cannot be a key; "
            "cast it to an integer, string, date, timestamp, decimal or bool."
        )
