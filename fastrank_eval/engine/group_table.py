"""Collect the values of every group, and find the largest group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    Arrays,
    arrow_column,
    as_array,
    column_with_nulls,
    decode_array,
    row_column,
    table_bytes,
    table_from_bytes,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval.engine.plan import Plan, empty_reason
from fastrank_eval.groups.scan import Keys, value_text
from fastrank_eval.io.columns import Roles
from fastrank_eval.io.keys import encode_keys
from fastrank_eval.measures import Measure
from fastrank_eval.slicing.encode import value_ranks, value_texts
from fastrank_eval.stats.means import Clusters
from fastrank_eval.stats.tally import Measured, RankedGroups


@dataclass(init=True)
class GroupTable:
    """Keys, values and weights of groups: of a chunk, a run or a state.

    Parameters
    ----------
    roles : Roles
        For the names of models and key columns.
    measures : tuple of Measure
    rows, positives : ndarray of int64, shape (groups,)
        Numbers of rows and of positives.
    values : ndarray of float64, shape (models, measures, groups)
        NaN where undefined, and for measures of all rows.
    weights : dict of (int, int) to ndarray of float64, shape (groups,)
        Weights by the indices of model and measure. Without an entry every weight is 1. A weight of
        0 leaves the group out.
    keys : tuple of pyarrow.Array, each of length groups
    first_rows : ndarray of int64, shape (groups,), or None
        Number of the first row of each group in the whole input; None where it is not known.
    """

    roles: Roles
    measures: tuple[Measure, ...]
    rows: np.ndarray
    positives: np.ndarray
    values: np.ndarray
    weights: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    keys: Keys = ()
    first_rows: np.ndarray | None = None

    @classmethod
    def empty(cls, rows: np.ndarray, positives: np.ndarray, plan: Plan) -> GroupTable:
        """Make values for groups of so many rows, as if none of them were ranked."""
        values = np.empty((len(plan.roles.scores), len(plan.measures), len(rows)))
        for m, measure in enumerate(plan.measures):
            undefined = measure.pooled or empty_reason(plan, measure)
            values[:, m] = np.nan if undefined else 0.0
        return cls(plan.roles, plan.measures, rows, positives, values)

    @classmethod
    def of_run(cls, plan: Plan, parts: Sequence[GroupTable], schema: pa.Schema) -> GroupTable:
        """Collect the groups of a run, in order of their first rows.

        Parameters
        ----------
        plan : Plan
        parts : sequence of GroupTable
        schema : pyarrow.Schema
            Of the source: keys are UUIDs again, and have its types where there is no group.
        """
        names = plan.roles.keys
        if parts:
            table = cls.concat(parts)
        else:
            none = np.empty(0, np.int64)
            table, of_none = cls.empty(none, none, plan), schema.empty_table()
            table.keys = tuple(of_none.column(name).combine_chunks() for name in names)
        keys = zip(names, map(decode_array, table.keys), strict=True)
        return replace(
            table,
            roles=replace(plan.roles, fields=()),  # they have locks
            # Groups that were taken in an order lie in memory before models and measures.
            values=np.ascontiguousarray(table.values),
            keys=tuple(
                key.cast(pa.uuid()) if schema.field(name).type == pa.uuid() else key
                for name, key in keys
            ),
        )

    @classmethod
    def concat(cls, parts: Sequence[GroupTable]) -> GroupTable:
        """Concatenate groups, in order of their first rows where these are known.

        Shared weights stay shared.
        """
        parts = sorted(parts, key=lambda one: -1 if one.first_rows is None else one.first_rows[0])
        by_ids: dict[tuple[int, ...], np.ndarray] = {}
        weights = {}
        for position in parts[0].weights:
            arrays = [part.weights[position] for part in parts]
            ids = tuple(map(id, arrays))
            if ids not in by_ids:
                by_ids[ids] = np.concatenate(arrays)
            weights[position] = by_ids[ids]
        known = [part.first_rows for part in parts if part.first_rows is not None]
        first_rows = np.concatenate(known) if known else np.empty(0, np.int64)
        table = replace(
            parts[0],
            rows=np.concatenate([part.rows for part in parts]),
            positives=np.concatenate([part.positives for part in parts]),
            values=np.concatenate([part.values for part in parts], axis=2),
            weights=weights,
            keys=tuple(map(pa.concat_arrays, zip(*(part.keys for part in parts), strict=True))),
            first_rows=first_rows if known else None,
        )
        if (first_rows[1:] < first_rows[:-1]).any():
            return table.take(np.argsort(first_rows))
        return table

    def take(self, groups: np.ndarray) -> GroupTable:
        """Select groups, in this order."""
        distinct = {id(weight): weight for weight in self.weights.values()}
        selection = {number: weight[groups] for number, weight in distinct.items()}
        indices = row_column(groups)
        return replace(
            self,
            rows=self.rows[groups],
            positives=self.positives[groups],
            values=self.values[:, :, groups],
            weights={at: selection[id(weight)] for at, weight in self.weights.items()},
            keys=tuple(key.take(indices) for key in self.keys),
            first_rows=None if self.first_rows is None else self.first_rows[groups],
        )

    def put(self, plan: Plan, model: int, groups: RankedGroups, measured: Measured) -> None:
        """Enter the values of the ranked groups of one model."""
        program = plan.program
        indices = slice(None) if groups.ranked is None else groups.ranked
        shared: dict[int, np.ndarray] = {}
        count = len(groups.rows)
        lines = zip(program.positions, program.weight_lines, strict=True)
        for line, (m, of) in enumerate(lines):
            self.values[model, m, indices] = measured.values[line, :count]
            if of >= 0:
                if of not in shared:
                    weights = groups.spread(measured.weights[of], 0.0)
                    shared[of] = weights.copy() if groups.ranked is None else weights
                self.weights[model, m] = shared[of]

    def __len__(self) -> int:
        return len(self.rows)

    def sort_by_key(self) -> GroupTable:
        """Sort the groups by key, and groups with equal keys by their numbers."""
        columns = ranks = self.ranks()
        if any(equal_neighbours(ranks, np.lexsort(ranks[::-1]))):
            flat = self.values.reshape(-1, len(self)).view(np.int64)
            columns = [*ranks, self.rows, self.positives, *flat]
        return self.take(np.lexsort(columns[::-1]))

    def ranks(self, names: Sequence[str] = ()) -> list[np.ndarray]:
        """Rank the keys of the groups, by default of all columns."""
        keys = dict(zip(self.roles.keys, self.keys, strict=True))
        return [value_ranks(decode_array(keys[name])) for name in names or keys]

    def with_models(self, models: Sequence[int]) -> GroupTable:
        """Select the values of some models, in that order."""
        weights = {
            (new, m): self.weights[old, m]
            for new, old in enumerate(models)
            for m in range(self.values.shape[1])
            if (old, m) in self.weights
        }
        roles = replace(self.roles, scores=tuple(self.roles.scores[at] for at in models))
        return replace(self, roles=roles, values=self.values[list(models)], weights=weights)

    def beside(self, others: Sequence[GroupTable], texts: Sequence[str]) -> GroupTable:
        """Add the measures of tables that have some of the groups.

        Parameters
        ----------
        others : sequence of GroupTable
            Of the same models.
        texts : sequence of str
            The texts of all measures, in the order of the new table.
        """
        models, count = len(self.values), len(self)
        measures = {str(m): m for table in (self, *others) for m in table.measures}
        values, weights = np.full((models, len(texts), count), np.nan), {}
        for table in (self, *others):
            pairs = zip(self.keys, table.keys, strict=True)
            keys = [pa.concat_arrays(list(map(decode_array, pair))) for pair in pairs]
            at = encode_keys(keys)[0][count:]
            for model, m in np.ndindex(table.values.shape[:2]):
                new = texts.index(str(table.measures[m]))
                values[model, new, at] = table.values[model, m]
                if (model, m) in table.weights:
                    weights[model, new] = np.zeros(count)
                    weights[model, new][at] = table.weights[model, m]
        ordered = tuple(measures[text] for text in texts)
        return replace(self, measures=ordered, values=values, weights=weights)

    @cached_property
    def clusters(self) -> Clusters | None:
        """The groups of each nested cluster; None if each group is one."""
        if not self.roles.nested:
            return None
        codes, firsts = encode_keys([decode_array(key) for key in self.keys[: self.roles.outer]])
        sizes = np.bincount(codes, minlength=len(firsts))
        return Clusters(np.append(0, np.cumsum(sizes)), np.argsort(codes, kind="stable"))

    @property
    def unit_keys(self) -> Keys:
        """The key of each cluster; by default a group is one."""
        if self.clusters is None:
            return self.keys
        heads = arrow_column(self.clusters.heads)
        return tuple(key.take(heads) for key in self.keys[: self.roles.outer])

    def summands(self, model: int, m: int) -> np.ndarray:
        """Compute the summand of each group, NaN for a group that is left out."""
        summands = self.measures[m].to_summand(self.values[model, m])
        weights = self.weights.get((model, m))
        return summands if weights is None else np.where(weights == 0, np.nan, summands)

    def terms(self, model: int, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Compute weighted values and weights, both 0 if left out."""
        summands = self.summands(model, m)
        defined = ~np.isnan(summands)
        weights = self.weights.get((model, m))
        w = defined.astype(np.float64) if weights is None else np.where(defined, weights, 0.0)
        return np.where(defined, summands, 0.0) * w, w

    def table(self) -> pa.Table:
        """Make the table of groups: key, rows, positives and measures.

        Columns of measures have the name of the model too if there are several.
        """
        columns: dict[str, pa.Array] = dict(zip(self.roles.keys, self.keys, strict=True))

        def add(name: str, column: pa.Array) -> None:
            while name in columns:
                name += "_"
            columns[name] = column

        add("rows", arrow_column(self.rows))
        add("positives", arrow_column(self.positives))
        scores = self.roles.scores
        for model, m in np.ndindex(self.values.shape[:2]):
            if not self.measures[m].pooled:
                numbers = self.values[model, m]
                title = f"{scores[model]}." * (len(scores) > 1) + str(self.measures[m])
                add(title, column_with_nulls(numbers, np.isnan(numbers)))
        return pa.table(columns)

    def to_arrays(self) -> Arrays:
        """Write the groups as arrays of a state.

        Returns
        -------
        dict of ndarray
            ``table``: the keys, ``rows``, ``positives``, ``values a b`` of model a and measure b
            unless it is undefined for every group, and ``weights 0``, ``weights 1`` ... (float64).
            ``weights``, shape (models, measures): the number of the column with the weights, -1
            where each group weighs 1.
        """
        models, measures, _ = self.values.shape
        columns = [*self.keys, arrow_column(self.rows), arrow_column(self.positives)]
        names = [*(f"key {name}" for name in self.roles.keys), "rows", "positives"]
        weight_columns = np.full((models, measures), -1, np.int64)
        distinct: dict[bytes, int] = {}
        for model, m in np.ndindex(models, measures):
            numbers = np.ascontiguousarray(self.values[model, m])
            undefined = np.isnan(numbers)
            if not undefined.all():
                names.append(f"values {model} {m}")
                columns.append(column_with_nulls(np.where(undefined, 0.0, numbers), undefined))
            weights = self.weights.get((model, m))
            if weights is not None and (weights != 1).any():
                weight_columns[model, m] = distinct.setdefault(weights.tobytes(), len(distinct))
        for content, number in distinct.items():
            names.append(f"weights {number}")
            columns.append(arrow_column(np.frombuffer(content, np.float64)))
        return {"table": table_bytes(pa.table(columns, names=names)), "weights": weight_columns}

    @classmethod
    def from_arrays(
        cls, parts: Mapping[str, np.ndarray], roles: Roles, measures: tuple[Measure, ...]
    ) -> GroupTable:
        """Read the groups that `to_arrays` wrote."""
        table, weight_columns = table_from_bytes(parts["table"]), parts["weights"]
        columns = dict(
            zip(table.column_names, (c.combine_chunks() for c in table.columns), strict=True)
        )
        names = [name for name in columns if name.startswith("key ")]
        shape = len(roles.scores), len(measures)
        if weight_columns.shape != shape or names != [f"key {name}" for name in roles.keys]:
            raise ValueError("the columns of groups are not those of the header")
        rows, positives = (as_array(columns[name]) for name in ("rows", "positives"))
        values = np.full((*shape, len(rows)), np.nan)
        weights = {}
        shared: dict[int, np.ndarray] = {}
        for model, m in np.ndindex(*shape):
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
        return cls(roles, measures, rows, positives, values, weights, keys)


def equal_neighbours(ranks: Sequence[np.ndarray], order: np.ndarray) -> np.ndarray:
    """Mark each group but the first whose key equals the previous one."""
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for of_column in ranks:
        same &= of_column[order[1:]] == of_column[order[:-1]]
    return same


#: The convention of a result, and the entry of a header of a state.
LARGEST = "largest_group"
#: A group is named if n^2 of its rows n is at least a tenth of the sum over all groups. If values
#: of groups vary alike, it then carries a tenth of the variance; of 30 large groups none does. A
#: share of the rows would be no measure: among a million users, one with 0.1% of the rows carries
#: half of the variance.
_PARTS = 10

_Value: TypeAlias = int | bool | str


@dataclass(frozen=True)
class LargestGroup:
    """The key and the size of a group.

    Parameters
    ----------
    rows : int
    found : mapping of str to (int, bool or str), callable or None
        Its value in each key column: numbers and strings as they are, others as texts of labels; or
        a function that returns them. None if only hashes of it are known.
    at_least : bool
        Whether it may have more rows, because it may have some in several merged states. Another
        group may then be larger.
    """

    rows: int
    found: Mapping[str, _Value] | Callable[[], Mapping[str, _Value]] | None
    at_least: bool = False

    @cached_property
    def key(self) -> Mapping[str, _Value] | None:
        """Its value in each key column."""
        return self.found() if callable(self.found) else self.found

    def plain(self, schema: pa.Schema | None = None) -> dict[str, Any]:
        """Convert it to plain Python values.

        Parameters
        ----------
        schema : pyarrow.Schema, optional
            Of the source, for keys that are UUIDs: they are bytes without it.
        """
        uuids = {field.name for field in schema or () if field.type == pa.uuid()}
        key = self.key and {
            name: str(UUID(hex=str(value)[2:])) if name in uuids else value
            for name, value in self.key.items()
        }
        return {"key": key, "rows": self.rows} | ({"at_least": True} if self.at_least else {})

    @classmethod
    def of_header(cls, header: Mapping[str, Any]) -> LargestGroup | None:
        """Read what `plain` wrote into the header of a state, if anything.

        Raises
        ------
        ValueError
            If it is malformed.
        """
        record = header.get(LARGEST)
        if record is None:
            return None
        key = record["key"] and dict(record["key"])
        return cls(int(record["rows"]), key, bool(record.get("at_least", False)))


def entry_of_whole(header: Mapping[str, Any], names: Collection[str] | None) -> dict[str, Any]:
    """Return the entry of a header whose states have no group in common.

    Parameters
    ----------
    header : mapping
    names : collection of str, optional
        New names of the key columns: workers have hashes of keys under other names.
    """
    largest = LargestGroup.of_header(header)
    if largest is None:
        return {}
    known = names is None or set(largest.key or ()) <= set(names)
    return {LARGEST: LargestGroup(largest.rows, largest.key if known else None).plain()}


def larger(one: LargestGroup | None, other: LargestGroup | None) -> LargestGroup | None:
    """Return the larger group, of equal ones the first by the text of its key."""
    if one is None or other is None:
        return one or other
    if one.rows != other.rows:
        return max(one, other, key=attrgetter("rows"))
    return min(one, other, key=lambda group: str(group.plain()))


def largest_in_chunk(
    known: LargestGroup | None,
    starts: np.ndarray,
    most: int,
    names: Sequence[str],
    keys: Callable[[np.ndarray], Keys],
) -> LargestGroup | None:
    """Return the largest group of a chunk, or a known one if it is larger.

    Keys are read only where a group may be named at the end. Sums over all groups are at least
    those over a chunk, so the same group is found in any chunks.

    Parameters
    ----------
    known : LargestGroup or None
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    most : int
        Number of rows of the largest group.
    names : sequence of str
        Key columns.
    keys : callable
        Maps positions of groups to their keys.
    """
    groups, all_rows = len(starts) - 1, int(starts[-1])
    # n^2 sums to at least (sum of n)^2 / groups. More than needed, so that no rounding matters.
    enough = (_PARTS + 1) * most**2
    if enough * groups < all_rows**2 or (known is not None and most < known.rows):
        return known
    indices = (starts[1:] - starts[:-1] == most).nonzero()[0]
    if len(indices) > _PARTS:
        return known
    return larger(known, LargestGroup(most, partial(_first_key, names, keys(indices))))


def _first_key(names: Sequence[str], keys: Keys) -> Mapping[str, _Value]:
    """Convert keys, and return the first by its text."""
    columns = [_values(column) for column in keys]
    return min((dict(zip(names, key, strict=True)) for key in zip(*columns, strict=True)), key=str)


def _values(keys: pa.Array) -> list[_Value]:
    """Convert values of a key column; see `LargestGroup`."""
    kind, types = keys.type, pa.types
    kinds = types.is_integer, types.is_boolean, types.is_string, types.is_large_string
    if any(is_kind(kind) for is_kind in kinds):
        return list(keys.to_pylist())
    try:
        return list(value_texts(keys))
    except (ColumnError, pa.ArrowException):  # an unknown time zone, or an interval
        return [value_text(keys, i) for i in range(len(keys))]


def dominant(group: LargestGroup | None, squares: float) -> LargestGroup | None:
    """Return a group, or None if it has a small part of the sum of n^2.

    Parameters
    ----------
    group : LargestGroup or None
    squares : float
        Sum of n^2 over all groups of n rows.
    """
    return group if group is not None and _PARTS * group.rows**2 >= squares else None
