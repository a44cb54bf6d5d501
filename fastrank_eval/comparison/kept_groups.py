"""Values of every group of several models, as tests and lists of movers read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import decoded
from fastrank_eval.arrow_values import arrow_column, column_with_nulls
from fastrank_eval.errors import ArgumentError
from fastrank_eval.groups import Keys
from fastrank_eval.measures import Measure, measure
from fastrank_eval.plan import GroupValues, Plan

if TYPE_CHECKING:
    from fastrank_eval.result import Result

__all__ = ["KeptGroups", "groups_of", "kept_groups"]


@dataclass(frozen=True)
class KeptGroups:
    """Values of every group.

    Parameters
    ----------
    names : tuple of str
        Key columns.
    keys : tuple of pyarrow.Array, each of length groups
    rows, positives : ndarray of int64, shape (groups,)
    scores : tuple of str
    measures : tuple of Measure
    values : mapping of (int, int) to ndarray of float64, shape (groups,)
        Of a model and a measure, by their places; NaN where undefined.
    weights : mapping of (int, int) to ndarray of float64, shape (groups,)
        What each group counts for; 1 where there is no entry, and a weight of 0 leaves the group
        out.
    """

    names: tuple[str, ...]
    keys: tuple[pa.Array, ...]
    rows: np.ndarray
    positives: np.ndarray
    scores: tuple[str, ...]
    measures: tuple[Measure, ...]
    values: Mapping[tuple[int, int], np.ndarray]
    weights: Mapping[tuple[int, int], np.ndarray]

    def used(self, model: int, m: int) -> np.ndarray:
        """What is added up of each group; NaN where the group is left out."""
        found = self.measures[m].settled(self.values[model, m])
        weights = self.weights.get((model, m))
        return found if weights is None else np.where(weights == 0, np.nan, found)

    def terms(self, model: int, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Weighted values and weights of each group, both 0 where the group is left out."""
        used = self.used(model, m)
        there = ~np.isnan(used)
        weights = self.weights.get((model, m))
        w = there.astype(np.float64) if weights is None else np.where(there, weights, 0.0)
        return np.where(there, used, 0.0) * w, w

    def table(self) -> pa.Table:
        """Keys, rows and positives of every group, and a column ``score.measure`` a value."""
        columns: dict[str, pa.Array] = {}

        def add(name: str, column: pa.Array) -> None:
            while name in columns:
                name += "_"
            columns[name] = column

        for name, key in zip(self.names, self.keys, strict=True):
            add(name, key)
        add("rows", arrow_column(self.rows))
        add("positives", arrow_column(self.positives))
        for model, score in enumerate(self.scores):
            for m, known in enumerate(self.measures):
                if not known.pooled:
                    numbers = np.ascontiguousarray(self.values[model, m])
                    add(f"{score}.{known}", column_with_nulls(numbers, np.isnan(numbers)))
        return pa.table(columns)


def kept_groups(
    plan: Plan, keys: Sequence[Keys], values: Sequence[GroupValues], schema: pa.Schema
) -> KeptGroups:
    """The groups of a run that kept their values.

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
    models, many = len(plan.roles.scores), len(plan.measures)
    if values:
        joined = GroupValues.together(values)
        found = [
            pa.chunked_array([piece[k] for piece in keys]).combine_chunks()
            for k in range(len(plan.roles.group))
        ]
    else:
        none = np.empty(0, np.int64)
        joined = GroupValues(none, none, np.empty((models, many, 0)))
        empty = schema.empty_table()
        found = [decoded(empty.column(name).combine_chunks()) for name in plan.roles.group]
    return KeptGroups(
        plan.roles.group,
        tuple(found),
        joined.rows,
        joined.positives,
        plan.roles.scores,
        plan.measures,
        {(model, m): joined.values[model, m] for model in range(models) for m in range(many)},
        joined.weights,
    )


def groups_of(result: Result) -> KeptGroups:
    """The groups of a result that kept their values.

    Raises
    ------
    ArgumentError
        If it did not.
    """
    weights, table = result.group_weights, result.per_group
    if weights is None:
        raise ArgumentError("this result has no groups that could be compared one by one.")
    measures = tuple(measure(text) for text in result.measures)
    of_groups = [m for m, known in enumerate(measures) if not known.pooled]
    columns = table.combine_chunks().columns
    keys = table.num_columns - 2 - len(result.scores) * len(of_groups)
    numbers = [np.asarray(column.to_numpy()) for column in columns[keys:]]
    values = iter(numbers[2:])
    return KeptGroups(
        tuple(table.column_names[:keys]),
        tuple(column.combine_chunks() for column in columns[:keys]),
        numbers[0],
        numbers[1],
        result.scores,
        measures,
        {
            (model, m): next(values).astype(np.float64, copy=False)
            for model in range(len(result.scores))
            for m in of_groups
        },
        weights,
    )
