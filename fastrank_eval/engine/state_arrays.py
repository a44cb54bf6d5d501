"""Name the arrays of saved states; write slices, fields and groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import shown
from fastrank_eval._lib.arrow import (
    Arrays,
    bytes_column,
    row_column,
    table_bytes,
    table_from_bytes,
)
from fastrank_eval._lib.errors import MergeError
from fastrank_eval.engine.plan import Plan
from fastrank_eval.io.keys import CategoricalEncoder
from fastrank_eval.io.source import first_line
from fastrank_eval.measures.pooled import PooledMeasure, PooledState
from fastrank_eval.slicing.bins import BinEncoder
from fastrank_eval.slicing.encode import bin_ranks, value_ranks, value_texts
from fastrank_eval.slicing.slicer import SliceEncoder, Slices
from fastrank_eval.slicing.spec import SliceSpec
from fastrank_eval.stats.row_sums import RowSums
from fastrank_eval.stats.scores import CellScores

_Part = TypeVar("_Part")


class Rows(NamedTuple):
    """The rows that an array is about.

    Parameters
    ----------
    by : str
        A slicing; its text grows with its edges. Empty for all rows.
    label : str
        One slice of it; empty where an array has a row for each slice.
    """

    by: str = ""
    label: str = ""


#: The key of the arrays of a state: rows, model and name.
ArrayKey = tuple[Rows, str, str]
#: The arrays of a saved state.
StateArrays = dict[ArrayKey, Arrays]

ALL = Rows()
#: Names of states of all rows, or with a row for each slice: counts of groups, rows and positives;
#: sums over groups; paired sums of a model and the baseline.
TOTALS, GROUPS, PAIRS = "totals", "groups", "pairs"
#: Names of states: the slices of a slicing; keys and values of every group.
SLICES, VALUES = "slices", "values of groups"
#: Name of sums by bucket, and of the entry of the header with the columns of their key.
BY_BUCKET = "buckets"
#: Entry of the header, and convention, if some of the merged states have buckets, but not all:
#: the columns of their key.
WITHOUT_BUCKETS = "without_buckets"


@lru_cache(1024)
def state_name(key: Hashable, kind: str = "") -> str:
    """Name the state of measures with a key, or what is summed beside it."""
    return json.dumps([kind, key] if kind else key)


def is_by_bucket(state: str) -> bool:
    """Return whether a state has sums by bucket, of groups or of rows."""
    return state == BY_BUCKET or state.startswith(json.dumps([BY_BUCKET])[:-1])


def fields_of(plan: Plan) -> list[CategoricalEncoder]:
    """Return the encoders of the fields by whose values measures divide rows."""
    names = dict.fromkeys(n for m in plan.pooled_states.values() for n in m.columns_named())
    # A slicing by the same column comes after the field.
    encoders = {f.name: f for f in reversed(plan.roles.fields) if isinstance(f, CategoricalEncoder)}
    return [encoders[name] for name in names]


def field_key(field: str) -> ArrayKey:
    """Return the key of the values of a field."""
    return ALL, "", json.dumps(["values of a field", field])


def read(
    arrays: Mapping[ArrayKey, Arrays],
    where: Rows,
    model: str,
    name: str,
    from_arrays: Callable[[Arrays], _Part],
) -> _Part:
    """Read a part of a state; name it if it is missing or malformed.

    Raises
    ------
    ValueError
        With the name of the part.
    """
    part = arrays.get((where, model, name))
    try:
        if part is not None:
            return from_arrays(part)
        reason = ""
    except Exception as error:
        reason = first_line(error)
    title = name + (f" of {model}" if model else "")
    if where != ALL:
        title += f" in {shown(where.label or where.by)}"
    raise ValueError(f"{title}: {reason}" if reason else f"it lacks the sums {title}")


def read_like(own: PooledState, values: int, arrays: Arrays) -> PooledState:
    """Read a state with the terms of one of the plan, and at most its keys.

    `values` is the number of values of the field, 0 without a field.
    """
    # Checked before sums of so many keys are allocated.
    most = max(own.most_keys, values) if isinstance(own, RowSums) else 0
    if most and not 1 <= int(arrays["keys"]) <= most:
        raise ValueError(f"keys of sums must be 1 to {most}, got {arrays['keys']}")
    state = type(own).from_arrays(arrays)
    if isinstance(state, RowSums) and isinstance(own, RowSums) and len(state) != len(own):
        raise ValueError(f"terms must be {len(own)}, got {len(state)}")
    return state


def renumber(
    state: PooledState, measure: PooledMeasure, numbers: Mapping[str, np.ndarray]
) -> PooledState:
    """Return a state under other numbers of the values of its fields."""
    of_columns = [numbers[name] for name in measure.columns_named()]
    if isinstance(state, CellScores):
        return state.with_codes(of_columns)
    # Most files have the numbers already; new ones take as long as reading.
    for column in of_columns:
        if isinstance(state, RowSums) and (np.diff(column, prepend=-1) != 1).any():
            return state.with_keys(column)
    return state


class SavedField(CategoricalEncoder):
    """The values of a field in saved states, as its encoder has them.

    Parameters
    ----------
    name : str
    values : sequence of pyarrow.Array
        Of each state.

    Raises
    ------
    MergeError
        If the types differ.
    """

    def __init__(self, name: str, values: Sequence[pa.Array]) -> None:
        super().__init__(name)
        every = _concat(values, f"the field {name!r} differs")
        if len(every):
            self.codes(every)


def field_to_arrays(field: CategoricalEncoder) -> tuple[Arrays, np.ndarray]:
    """Write the values of a field, sorted, null last.

    Returns
    -------
    arrays : dict of ndarray
        ``table``: the values.
    numbers : ndarray of int64, shape (values,)
        The place of each value of the encoder.
    """
    values = field.values()
    order = np.argsort(value_ranks(values), kind="stable")
    table = pa.table([values.take(row_column(order))], names=["value"])
    return {"table": table_bytes(table)}, np.argsort(order)


def field_values(arrays: Mapping[str, np.ndarray]) -> pa.Array:
    """Read the values that `field_to_arrays` wrote."""
    return table_from_bytes(arrays["table"]).column("value").combine_chunks()


def field_numbers(field: CategoricalEncoder, values: pa.Array) -> np.ndarray:
    """Return the number that a field has for each of its values."""
    if not len(values):
        return np.empty(0, np.int64)
    return field.codes(_cast(values, field.values().type)).astype(np.int64)


class SavedSlices(Slices):
    """The slices of one slicing that have a group; slice i has index i."""

    @classmethod
    def of(cls, slices: Slices, which: np.ndarray) -> Self:
        """Select slices by a mask, in their order."""
        rows = np.flatnonzero(which)
        labels = tuple(slices.labels[i] for i in rows.tolist())
        values = {name: column.take(row_column(rows)) for name, column in slices.values.items()}
        return cls(labels, np.arange(len(labels)), values)

    @classmethod
    def union(cls, every: Sequence[Self], by: str) -> Self:
        """Unite the slices of several states.

        Raises
        ------
        MergeError
            If values are of different types.
        """
        labels = [label for one in every for label in one.labels]
        first = {label: i for i, label in reversed(list(enumerate(labels)))}
        rows = np.array(sorted(first.values()), np.int64)
        values = {
            name: _concat(
                [one.values[name] for one in every],
                f"'{name}' differs, which is part of the slicing '{by}'",
            ).take(row_column(rows))
            for name in every[0].values
        }
        order = np.lexsort([bin_ranks(column) for column in values.values()][::-1])
        sorted_values = {name: column.take(row_column(order)) for name, column in values.items()}
        sorted_labels = tuple(labels[i] for i in rows[order].tolist())
        return cls(sorted_labels, np.arange(len(order)), sorted_values)

    def to_arrays(self) -> Arrays:
        """Write ``table``: ``label``, and a column for each part."""
        labels = bytes_column([label.encode() for label in self.labels], pa.string())
        names = ["label", *(f"value of {name}" for name in self.values)]
        return {"table": table_bytes(pa.table([labels, *self.values.values()], names=names))}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the slices that `to_arrays` wrote."""
        table = table_from_bytes(arrays["table"])
        names = [name.removeprefix("value of ") for name in table.column_names[1:]]
        labels, *values = (column.combine_chunks() for column in table.columns)
        texts = tuple(labels.to_pylist())
        return cls(texts, np.arange(len(texts)), dict(zip(names, values, strict=True)))


class SavedSliceEncoder(SliceEncoder):
    """The slices of saved states as `SliceEncoder`.

    Parameters
    ----------
    spec : SliceSpec
    saved : SavedSlices
    """

    def __init__(self, spec: SliceSpec, saved: SavedSlices) -> None:
        super().__init__(spec, ())
        self._slices = saved

    def __len__(self) -> int:
        return len(self._slices.labels)

    def slices(self) -> Slices:
        """Return the slices in their order."""
        return self._slices


def bin_edges(slicing: SliceEncoder) -> dict[str, list[str]]:
    """Return the bin edges of each part of a slicing, as in labels."""
    return {
        encoder.slice_column.name: value_texts(encoder.edges)
        for encoder in slicing.encoders
        if isinstance(encoder, BinEncoder)
    }


def _concat(columns: Sequence[pa.Array], differs: str) -> pa.Array:
    """Concatenate columns, and widen types that differ only in width.

    `differs` says in a message of which columns the type differs.
    """
    kinds = {column.type for column in columns if column.null_count < len(column)}
    if kinds:
        kind = next(iter(kinds))
    else:
        # States without groups have the type null. The choice does not depend on their order.
        types = sorted({column.type for column in columns}, key=str)
        kind = next((each for each in types if not pa.types.is_null(each)), types[0])
    if len(kinds) > 1:
        wide = {_widest(each) for each in kinds}
        kind = wide.pop()
        if wide:
            raise MergeError(
                f"states cannot be merged, because the type of {differs}: "
                f"{' and '.join(sorted(map(str, kinds)))}; evaluate the files together, or write "
                "them as Parquet with one type."
            )
    return pa.concat_arrays([_cast(column, kind) for column in columns])


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    has_values = column.null_count < len(column)
    return column.cast(kind) if has_values else pa.nulls(len(column), kind)


def _widest(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_signed_integer(kind):
        return pa.int64()
    if pa.types.is_unsigned_integer(kind):
        return pa.uint64()
    if kind == pa.struct([("low", pa.int64()), ("high", pa.int64())]):
        # Bins of one width have integer ends until one end is no integer.
        return pa.struct([("low", pa.float64()), ("high", pa.float64())])
    return kind
