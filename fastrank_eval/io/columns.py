"""Define the roles of columns, and rows of a batch as read-only arrays.

Validate a column of subtopics and combine those of each row to bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import chain, count
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    decode_array,
    fill_nulls,
    frozen,
    is_list,
    is_textual,
    is_wide_integer,
    null_rows,
    row_column,
    values_type,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.io.reader import RowError

#: The index of an array that a plan does not have.
_ABSENT = -1


#: Why options leave out rows, in the order in which rows are tested.
NULL_GROUP, UNJUDGED, UNSCORED = "null_group", "unjudged", "unscored"
#: Why rows that stay are noted: NaN that is null, by column; positives and others that a
#: model has not retrieved, with "" for all positives and others; labels in ]0, 1[.
NAN, POSITIVES, OTHERS = "nan", "positives_not_retrieved", "others_not_retrieved"
SOFT = "soft_labels"
NOTED = (NAN, POSITIVES, OTHERS, SOFT)
#: Rows that options leave out, and rows that are noted, by reason and model. The model is "" for
#: all rows of a reason. A row that lacks the scores of two models counts for both, once for "".
RowsLeftOut: TypeAlias = Counter[tuple[str, str]]


def rows_left_out_by(roles: Roles) -> RowsLeftOut:
    """Return counts of 0 for the reasons of some policies."""
    zeros: RowsLeftOut = Counter({(UNJUDGED, ""): 0} if roles.unjudged == "drop" else {})
    if roles.unretrieved == "drop":
        zeros.update(dict.fromkeys([(UNSCORED, model) for model in ("", *roles.scores)], 0))
    if roles.nan_is_null:
        zeros[NAN, ""] = 0
    return zeros


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
    cluster : tuple of str
        The columns of the independent unit, which holds whole groups; none: each group is one.
    label : str
        The grade, gain or click.
    scores : tuple of str
        One column for each model.
    weight : str or None
        Row weight.
    item : str or None
        Item (document) id, for ``ties="item"``; once in a group.
    group_weights : tuple of str
        Columns that measures use as group weights.
    fields : tuple of CodedColumn
        Categorical columns of measures.
    unretrieved, unjudged : str
        ``"error"``, ``"allow"`` or ``"drop"``: the policies for null scores and labels;
        ``"refuse"``: an error of a caller without these options.
    nan_is_null : bool
        Whether NaN in labels, scores and weights is null.
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
    integers : tuple of str
        For each score column ``"int64"`` or ``"uint64"`` if it has such integers and is read by
        their order, else ``""``; set when the source is open.
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
    nan_is_null: bool = False
    judgments: bool = False
    single_precision: bool = False
    score_kind: str = "order"
    subtopics: str | None = None
    epsilons: tuple[float, ...] = ()
    integers: tuple[str, ...] = ()
    expressions: Mapping[str, str] = field(default_factory=dict)
    cluster: tuple[str, ...] = ()

    @cached_property
    def nested(self) -> bool:
        """Whether a cluster may have several groups."""
        return bool(self.cluster) and set(self.cluster) != set(self.group)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """All key columns, those of nested clusters first."""
        if not self.nested:
            return self.group
        return (*self.cluster, *(name for name in self.group if name not in self.cluster))

    @cached_property
    def outer(self) -> int:
        """The number of key columns by which rows are divided: those of clusters."""
        return len(self.cluster) if self.nested else len(self.group)

    @cached_property
    def inner(self) -> list[int]:
        """The positions of the columns of groups among the key columns."""
        return [self.keys.index(name) for name in self.group]

    @property
    def keeps_unjudged(self) -> bool:
        """Whether the mask of rows without a label is needed."""
        return self.judgments or self.unjudged == "drop"

    @property
    def drops_rows(self) -> bool:
        """Whether rows without a label or a score leave."""
        return "drop" in (self.unjudged, self.unretrieved)

    def by_column(self, *only: str) -> dict[str, str]:
        """Return the role of each needed column, in reading order.

        Parameters
        ----------
        *only : str
            The roles of these columns; by default all roles.
        """
        named: dict[str, Sequence[str | None]] = {
            "group": self.group,
            "cluster": self.cluster,
            "label": [self.label],
            "score": self.scores,
            "weight": [self.weight],
            "item": [self.item],
            "group weight": self.group_weights,
            "subtopics": [self.subtopics],
            "field": [coded.name for coded in self.fields],
        }
        roles: dict[str, str] = {}
        for role in only or named:
            for name in named[role]:
                if name is not None:
                    roles.setdefault(name, role)
        return roles


class Columns(NamedTuple):
    """Validated rows of a batch: arrays of one plan, or those of several.

    Parameters
    ----------
    first_row : int
        Number of the first row in the input, counted from 0.
    rows : int
        Number of rows.
    keys : tuple of pyarrow.Array
        Key columns, without nulls; empty for a plan.
    arrays : tuple of (ndarray or None), shape (rows,) each
        Of several plans by the indices of `PlanColumns`. Of one plan: `label`, `weight`,
        `subtopics`, `unjudged`, then `scores`, `unretrieved` and `named_columns`.
    item : pyarrow.Array or None
        Item ids.
    row_numbers : ndarray of int64 or None
        Number of each row in the input; None for consecutive rows.
    models : int
        Number of scores of the plan.
    """

    first_row: int
    rows: int
    keys: tuple[pa.Array, ...]
    arrays: tuple[Any, ...]
    item: pa.Array | None = None
    row_numbers: np.ndarray | None = None
    models: int = 0

    @property
    def label(self) -> np.ndarray:
        """Grades in their own type, 0 for unjudged rows."""
        label: np.ndarray = self.arrays[0]
        return label

    @property
    def weight(self) -> np.ndarray | None:
        """Row weights, finite and not negative. float64."""
        weight: np.ndarray | None = self.arrays[1]
        return weight

    @property
    def subtopics(self) -> np.ndarray | None:
        """Bits of the subtopics of rows, uint64; None if no measure uses them."""
        subtopics: np.ndarray | None = self.arrays[2]
        return subtopics

    @property
    def unjudged(self) -> np.ndarray | None:
        """Mask of rows without a label; None if none or no measure uses it."""
        unjudged: np.ndarray | None = self.arrays[3]
        return unjudged

    @property
    def scores(self) -> tuple[np.ndarray, ...]:
        """Scores with the order and ties of the input; 0 for unretrieved rows."""
        return self.arrays[4 : 4 + self.models]

    @property
    def unretrieved(self) -> tuple[np.ndarray | None, ...]:
        """Mask of rows without a score, for each model; None if every row has one."""
        return self.arrays[4 + self.models : 4 + 2 * self.models]

    @property
    def named_columns(self) -> tuple[np.ndarray, ...]:
        """Group weights (float64), then codes of fields and slices (int32)."""
        return self.arrays[4 + 2 * self.models :]

    def without_masks(self, unjudged: bool, unretrieved: bool) -> Columns:
        """Return the same rows without one mask or the other."""
        label, weight, subtopics, mask, *others = self.arrays
        if unretrieved:
            others[self.models : 2 * self.models] = [None] * self.models
        arrays = label, weight, subtopics, None if unjudged else mask, *others
        return self._replace(arrays=arrays)

    def slice(self, lo: int, hi: int) -> Columns:
        """Return rows `lo` to `hi` without a copy."""
        if hi - lo == self.rows:
            return self
        return self._map(
            hi - lo,
            lambda values: values[lo:hi],
            lambda column: column.slice(lo, hi - lo),
            self.first_row + lo,
        )

    def copy(self, lo: int, hi: int) -> Columns:
        """Copy rows `lo` to `hi` to memory of their own."""
        # Arrow's take would import pyarrow.compute, which takes 45 ms.
        return self._map(
            hi - lo,
            lambda values: frozen(values[lo:hi].copy()),
            lambda column: pa.concat_arrays([column.slice(lo, hi - lo)]),
            self.first_row + lo,
        )

    def take(self, rows: np.ndarray, use: str | None = None) -> Columns:
        """Return rows by index, in this order.

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

        return self._map(len(rows), take, lambda column: column.take(row_indices))

    def filter(self, mask: np.ndarray) -> Columns:
        """Return the rows of a mask, with their row numbers."""
        rows = np.flatnonzero(mask)
        taken = self.take(rows)
        if self.row_numbers is not None:
            return taken
        return taken._replace(row_numbers=frozen(self.first_row + rows))

    def _map(
        self,
        rows: int,
        array: Callable[[np.ndarray], np.ndarray],
        column: Callable[[pa.Array], pa.Array],
        first_row: int | None = None,
    ) -> Columns:
        """Apply a function to every NumPy array and another to every Arrow array."""
        return Columns(
            self.first_row if first_row is None else first_row,
            rows,
            tuple(map(column, self.keys)),
            tuple([None if values is None else array(values) for values in self.arrays]),
            None if self.item is None else column(self.item),
            None if self.row_numbers is None else array(self.row_numbers),
            self.models,
        )

    def first_rows(self, starts: np.ndarray) -> np.ndarray:
        """Return the number in the input of each group's first row."""
        if self.row_numbers is None:
            return self.first_row + starts[:-1]
        first_rows: np.ndarray = np.minimum.reduceat(self.row_numbers[: starts[-1]], starts[:-1])
        return first_rows

    def row_number(self, row: int) -> int:
        """Return the number of a row in the input."""
        return self.first_row + row if self.row_numbers is None else int(self.row_numbers[row])


class StoredColumn(NamedTuple):
    """A column of some plans.

    Parameters
    ----------
    role, name : str
    roles : Roles
        Those of the first plan that reads it, for its policies; keys and items have none.
    position : int
        Index of its values in `Columns.arrays`; -1 for keys and items.
    mask : int
        Index of the mask of its nulls; -1 if no plan needs it.
    """

    role: str
    name: str
    roles: Roles = Roles((), "", ())
    position: int = _ABSENT
    mask: int = _ABSENT


def key_columns(names: Iterable[str], roles: Roles) -> list[StoredColumn]:
    """List key columns; messages name those of groups as such."""
    return [StoredColumn("group" if name in roles.group else "cluster", name) for name in names]


class PlanColumns:
    """Indices of the columns of several plans in one list of arrays.

    Columns of the same role, name and policies share an array.

    Parameters
    ----------
    roles : sequence of Roles
        Those of each plan. All that have key columns or items have the same.

    Attributes
    ----------
    columns : list of StoredColumn
        Each column once, except keys and items.
    labels, others : list of StoredColumn
        The labels, and the columns that are neither labels nor fields.
    fields : dict of int to CodedColumn
        What encodes the array of an index.
    keys : list of StoredColumn
    item : StoredColumn or None
    drop_masks : list of int
        Indices of the masks of rows that each plan drops; empty if a plan drops none.
    size : int
        Number of arrays.
    """

    def __init__(self, roles: Sequence[Roles]) -> None:
        self.roles = tuple(roles)
        grouped = next((one for one in roles if one.group), None)
        self.keys = [] if grouped is None else key_columns(grouped.keys, grouped)
        items = [StoredColumn("item", one.item) for one in roles if one.item is not None]
        self.item = items[0] if items else None
        self.columns: list[StoredColumn] = []
        self.fields: dict[int, CodedColumn] = {}
        self.size = 0
        known: dict[Hashable, StoredColumn] = {}

        def store(
            one: Roles, role: str, name: str, *policies: Hashable, masked: bool = False
        ) -> StoredColumn:
            """Add a column, unless it is there."""
            key = role, name, masked, *policies
            if key not in known:
                mask = self.size + 1 if masked else _ABSENT
                known[key] = StoredColumn(role, name, one, self.size, mask)
                self.columns.append(known[key])
                self.size += 1 + masked
            return known[key]

        #: For each plan the index of each array of `Columns`.
        self.indices: list[tuple[int, ...]] = []
        for one in roles:
            null = one.nan_is_null
            label = store(one, "label", one.label, one.unjudged, null, masked=one.keeps_unjudged)
            scores = [
                store(
                    *(one, "score", name, one.unretrieved, null, one.single_precision),
                    one.score_kind,
                    masked=one.unretrieved in ("allow", "drop"),
                )
                for name in one.scores
            ]
            weight = subtopics = _ABSENT
            if one.weight is not None:
                weight = store(one, "weight", one.weight, null).position
            named = [store(one, "group weight", name, null).position for name in one.group_weights]
            for encoder in one.fields:
                named.append(store(one, "field", encoder.name, id(encoder)).position)
                self.fields[named[-1]] = encoder
            if one.subtopics is not None:
                subtopics = store(one, "subtopics", one.subtopics).position
            positions = [score.position for score in scores]
            masks = [score.mask for score in scores]
            self.indices.append(
                (label.position, weight, subtopics, label.mask, *positions, *masks, *named)
            )
        self.labels = [one for one in self.columns if one.role == "label"]
        self.others = [one for one in self.columns if one.role not in ("label", "field")]
        drops = all(one.unjudged == "drop" for one in roles)
        self.drop_masks = [label.mask for label in self.labels] if drops else []

    def for_plan(self, plan: int, columns: Columns) -> Columns:
        """Select the arrays of a plan, without keys; plans share arrays."""
        arrays, roles = columns.arrays, self.roles[plan]
        return Columns(
            *(columns.first_row, columns.rows, ()),
            tuple([None if at == _ABSENT else arrays[at] for at in self.indices[plan]]),
            None if roles.item is None else columns.item,
            columns.row_numbers,
            len(roles.scores),
        )

    def keep(self, plans: Iterable[int], columns: Columns) -> Columns:
        """Leave out the arrays that none of some plans reads."""
        kept = {position for plan in plans for position in self.indices[plan]}
        arrays = (
            array if position in kept else None for position, array in enumerate(columns.arrays)
        )
        return columns._replace(arrays=tuple(arrays))

    def masks(self) -> list[int]:
        """List the indices of masks; a batch without nulls has none there."""
        return [column.mask for column in self.columns if column.mask != _ABSENT]

    def score_indices(self, plans: Iterable[int]) -> frozenset[int]:
        """Return the indices of the scores of some plans."""
        first = 4  # as in `Columns`
        each = (self.indices[plan][first : first + len(self.roles[plan].scores)] for plan in plans)
        return frozenset(chain.from_iterable(each))


def concatenate(batches: Sequence[Columns]) -> Columns:
    """Concatenate batches; rows of batches with gaps keep their numbers."""
    if len(batches) == 1:
        return batches[0]

    def join(arrays: tuple[np.ndarray | None, ...]) -> np.ndarray | None:
        """Join arrays; batches without a mask get an empty one."""
        if all(array is None for array in arrays):
            return None
        pairs = zip(batches, arrays, strict=True)
        filled = [np.zeros(b.rows, np.bool_) if array is None else array for b, array in pairs]
        return frozen(np.concatenate(filled))

    first = batches[0]
    ends = [batch.first_row + batch.rows for batch in batches]
    has_gaps = any(end != b.first_row for end, b in zip(ends, batches[1:], strict=False))
    row_numbers = None
    if has_gaps or any(batch.row_numbers is not None for batch in batches):
        numbers = [
            b.first_row + np.arange(b.rows) if b.row_numbers is None else b.row_numbers
            for b in batches
        ]
        row_numbers = frozen(np.concatenate(numbers))
    every = zip(*(batch.keys for batch in batches), strict=True)
    return first._replace(
        rows=sum(batch.rows for batch in batches),
        keys=tuple(pa.concat_arrays(list(columns)) for columns in every),
        arrays=tuple(map(join, zip(*(b.arrays for b in batches), strict=True))),
        item=None if first.item is None else pa.concat_arrays([batch.item for batch in batches]),
        row_numbers=row_numbers,
    )


def epsilon_of(kind: pa.DataType, roles: Roles) -> float:
    """Return the epsilon of a type of scores; integers count as float64."""
    kind = values_type(kind)
    if roles.single_precision or pa.types.is_float32(kind):
        return float(np.finfo(np.float32).eps)
    return float(np.finfo(np.float16 if pa.types.is_float16(kind) else np.float64).eps)


def ordered_integers(kind: pa.DataType, roles: Roles) -> str:
    """Return the type of integers that are read by their order, or ""."""
    if roles.single_precision or roles.score_kind != "order" or not is_wide_integer(kind):
        return ""
    return str(kind.value_type if pa.types.is_dictionary(kind) else kind)


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
