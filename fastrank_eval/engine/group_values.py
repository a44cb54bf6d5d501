"""Keep the values of every group, and save them with their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.array_codes import Arrays, table_bytes, table_from_bytes
from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    column_with_nulls,
    decode_array,
    row_column,
)
from fastrank_eval._lib.errors import MergeError, text_keys_hint
from fastrank_eval.engine.plan import GroupValues, Plan
from fastrank_eval.groups.chunk import Keys
from fastrank_eval.slicing.encode import value_ranks


@dataclass(frozen=True)
class SavedGroups:
    """The keys and values of all groups.

    Parameters
    ----------
    names : tuple of str
        Key columns.
    keys : tuple of pyarrow.Array, each of length groups
    values : GroupValues
        NaN for measures of all rows.
    """

    names: tuple[str, ...]
    keys: Keys
    values: GroupValues

    @classmethod
    def of_run(
        cls, plan: Plan, keys: Sequence[Keys], values: Sequence[GroupValues], schema: pa.Schema
    ) -> Self:
        """Collect the groups of a run, sorted by key.

        Parameters
        ----------
        plan : Plan
        keys : sequence of tuple of pyarrow.Array
            Keys of consecutive groups.
        values : sequence of GroupValues
            Their values, in the same order.
        schema : pyarrow.Schema
            Of the source, for the types of keys where there is no group.
        """
        names = plan.roles.group
        if not keys:
            empty = schema.empty_table()
            key_columns = tuple(decode_array(empty.column(name).combine_chunks()) for name in names)
            none = np.empty(0, np.int64)
            shape = (len(plan.roles.scores), len(plan.measures), 0)
            return cls(names, key_columns, GroupValues(none, none, np.empty(shape)))
        key_columns = tuple(
            decode_array(pa.chunked_array([batch_keys[k] for batch_keys in keys]).combine_chunks())
            for k in range(len(names))
        )
        return cls(names, key_columns, GroupValues.concat(values)).sort_by_key()

    def sort_by_key(self) -> Self:
        """Sort the groups by key, and groups with equal keys by their numbers."""
        ranks = self.ranks()
        columns: list[np.ndarray] = ranks
        if len(self) > 1:
            order = np.lexsort(ranks[::-1])
            if any(self.equal_neighbours(order)):
                values = self.values
                flat = values.values.reshape(-1, len(self)).view(np.int64)
                columns = [*ranks, values.rows, values.positives, *flat]
        order = np.lexsort(columns[::-1])
        keys = tuple(key.take(row_column(order)) for key in self.keys)
        return type(self)(self.names, keys, self.values.take(order))

    def ranks(self) -> list[np.ndarray]:
        """Rank the keys of the groups, column by column."""
        return [value_ranks(key) for key in self.keys]

    def equal_neighbours(self, order: np.ndarray) -> np.ndarray:
        """Mark each group but the first whose key equals the previous one."""
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for ranks in self.ranks():
            same &= ranks[order[1:]] == ranks[order[:-1]]
        return same

    def __len__(self) -> int:
        return len(self.values.rows)

    def concat(self, others: Sequence[Self]) -> Self:
        """Concatenate these groups with others.

        Raises
        ------
        MergeError
            If keys are of different types.
        """
        every = [self, *others]
        for name, *columns in zip(self.names, *(one.keys for one in every), strict=True):
            kinds = sorted({str(column.type) for column in columns})
            if len(kinds) > 1:
                raise MergeError(
                    f"states cannot be merged, because the type of the group key '{name}' differs: "
                    f"{' and '.join(kinds)}; cast the column.{text_keys_hint(kinds)}"
                )
        keys = tuple(
            pa.concat_arrays(columns) for columns in zip(*(one.keys for one in every), strict=True)
        )
        positions = sorted({position for one in every for position in one.values.weights})
        for one in every:
            for position in positions:
                one.values.weights.setdefault(position, np.ones(len(one)))
        return type(self)(self.names, keys, GroupValues.concat([one.values for one in every]))

    def with_models(self, models: Sequence[int]) -> Self:
        """Select the values of some models, in that order."""
        values = self.values
        weights = {
            (new, m): values.weights[old, m]
            for new, old in enumerate(models)
            for m in range(values.values.shape[1])
            if (old, m) in values.weights
        }
        selection = GroupValues(values.rows, values.positives, values.values[list(models)], weights)
        return type(self)(self.names, self.keys, selection)

    def to_arrays(self) -> Arrays:
        """Write the groups as arrays.

        Returns
        -------
        dict of ndarray
            ``table``: the keys, ``rows``, ``positives``, ``values a b`` of model a and measure b
            unless it is undefined for every group, and ``weights 0``, ``weights 1`` ... (float64).
            ``weights``, shape (models, measures): the number of the column with the weights, -1
            where each group weighs 1.
        """
        values = self.values
        models, measures, _ = values.values.shape
        columns = [*self.keys, arrow_column(values.rows), arrow_column(values.positives)]
        names = [*(f"key {name}" for name in self.names), "rows", "positives"]
        weight_columns = np.full((models, measures), -1, np.int64)
        distinct: dict[bytes, int] = {}
        for model, m in np.ndindex(models, measures):
            numbers = np.ascontiguousarray(values.values[model, m])
            undefined = np.isnan(numbers)
            if not undefined.all():
                names.append(f"values {model} {m}")
                columns.append(column_with_nulls(np.where(undefined, 0.0, numbers), undefined))
            weights = values.weights.get((model, m))
            if weights is not None and (weights != 1).any():
                weight_columns[model, m] = distinct.setdefault(weights.tobytes(), len(distinct))
        for content, number in distinct.items():
            names.append(f"weights {number}")
            columns.append(arrow_column(np.frombuffer(content, np.float64)))
        return {"table": table_bytes(pa.table(columns, names=names)), "weights": weight_columns}

    @classmethod
    def from_arrays(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """Read the groups that `to_arrays` wrote."""
        table, weight_columns = table_from_bytes(parts["table"]), parts["weights"]
        columns = dict(
            zip(table.column_names, (c.combine_chunks() for c in table.columns), strict=True)
        )
        names = [name for name in table.column_names if name.startswith("key ")]
        rows, positives = (as_array(columns[name]) for name in ("rows", "positives"))
        values = np.full((*weight_columns.shape, len(rows)), np.nan)
        weights = {}
        shared: dict[int, np.ndarray] = {}
        for model, m in np.ndindex(*weight_columns.shape):
            column = columns.get(f"values {model} {m}")
            if column is not None:
                valid = as_array(column.is_valid()).view(np.bool_)
                values[model, m, valid] = as_array(column.drop_null())
            number = int(weight_columns[model, m])
            if number >= 0:
                if number not in shared:
                    shared[number] = as_array(columns[f"weights {number}"])
                weights[model, m] = shared[number]
        keys = tuple(columns[name] for name in names)
        key_names = tuple(name.removeprefix("key ") for name in names)
        return cls(key_names, keys, GroupValues(rows, positives, values, weights))
