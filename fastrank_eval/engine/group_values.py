"""Keep the values of every group, and make a table of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, column_with_nulls
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.policies import Contributions, RankedGroups
from fastrank_eval.groups.boundaries import Keys
from fastrank_eval.groups.chunk import Chunk
from fastrank_eval.groups.labels import Labels


@dataclass(slots=True)
class GroupValues:
    """Per-group results of consecutive groups.

    Parameters
    ----------
    rows, positives : ndarray of int64, shape (groups,)
    values : ndarray of float64, shape (models, measures, groups)
        NaN where undefined; not set for pooled measures.
    weights : dict of (int, int) to ndarray of float64, shape (groups,)
        The weight of each group, by model and measure; 1 where there is no entry.
    """

    rows: np.ndarray
    positives: np.ndarray
    values: np.ndarray
    weights: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    @classmethod
    def empty(cls, chunk: Chunk, plan: Plan) -> GroupValues:
        """Make values for the groups of a chunk, as if none of them were ranked."""
        groups = chunk.groups if plan.per_group else 0
        values = np.zeros((len(plan.roles.scores), len(plan.measures), groups))
        for m, measure in enumerate(plan.measures):
            if plan.groups == "with_relevant" or measure.pooled or measure.undefined_if_empty():
                values[:, m] = np.nan
        rows = np.diff(chunk.starts) if plan.per_group else np.empty(0, np.int64)
        return cls(rows, np.zeros(groups, np.int64), values)

    @classmethod
    def concat(cls, parts: Sequence[GroupValues]) -> GroupValues:
        """Concatenate the results of groups."""
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.positives for part in parts]),
            np.concatenate([part.values for part in parts], axis=2),
            cls.concat_weights(parts),
        )

    @staticmethod
    def concat_weights(parts: Sequence[GroupValues]) -> dict[tuple[int, int], np.ndarray]:
        """Concatenate weights; shared arrays stay shared."""
        by_ids: dict[tuple[int, ...], np.ndarray] = {}
        weights = {}
        for position in parts[0].weights if parts else ():
            arrays = [part.weights[position] for part in parts]
            ids = tuple(map(id, arrays))
            if ids not in by_ids:
                by_ids[ids] = np.concatenate(arrays)
            weights[position] = by_ids[ids]
        return weights

    def take(self, groups: np.ndarray | slice) -> GroupValues:
        """Select the results of some groups, in that order."""
        distinct = {id(weight): weight for weight in self.weights.values()}
        selection = {number: weight[groups] for number, weight in distinct.items()}
        weights = {at: selection[id(weight)] for at, weight in self.weights.items()}
        return GroupValues(
            self.rows[groups], self.positives[groups], self.values[:, :, groups], weights
        )

    def put(self, model: int, m: int, groups: RankedGroups, contributions: Contributions) -> None:
        """Enter a measure's values of the ranked groups."""
        indices = slice(None) if groups.ranked is None else groups.ranked
        self.values[model, m, indices] = contributions.value
        if contributions.weights is not None:
            self.weights[model, m] = groups.spread(contributions.weights, 0.0)

    def put_positives(self, labels: Labels) -> None:
        """Enter the number of rows of grade >= 1 of each group."""
        self.positives = labels.relevant_of_each(1.0)


def group_table(
    names: Sequence[str],
    keys: Keys,
    rows: np.ndarray,
    positives: np.ndarray,
    values: Iterable[tuple[str, np.ndarray]],
) -> pa.Table:
    """Build a table: keys, rows, positives, and values by title."""
    columns: dict[str, pa.Array] = dict(zip(names, keys, strict=True))

    def add(name: str, column: pa.Array) -> None:
        while name in columns:
            name += "_"
        columns[name] = column

    add("rows", arrow_column(rows))
    add("positives", arrow_column(positives))
    for title, numbers in values:
        add(title, column_with_nulls(np.ascontiguousarray(numbers), np.isnan(numbers)))
    return pa.table(columns)
