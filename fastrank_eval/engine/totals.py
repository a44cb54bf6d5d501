"""Add up sums over groups and pooled states, of all rows and by slice.

Find the group that has so many rows that few groups count.

Name the slices of multicalibration errors, and list them, worst first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from typing import Any, NamedTuple, Self, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, bytes_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval._lib.threads import JobMap, map_jobs
from fastrank_eval.engine.plan import Contributions, Plan, RankedGroups, empty_reason, too_large
from fastrank_eval.engine.state_arrays import (
    GROUPS,
    PAIRS,
    SLICES,
    TOTALS,
    Rows,
    SavedSlices,
    StateArrays,
    field_key,
    field_numbers,
    field_to_arrays,
    field_values,
    fields_of,
    paired_state_name,
    read,
    read_like,
    renumber,
    state_name,
)
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.groups.scan import Keys, value_text
from fastrank_eval.measures.clustered_sums import ClusteredSums
from fastrank_eval.measures.multicalibration import MulticalibrationError, SliceCalibration
from fastrank_eval.measures.pooled import (
    ClusteredMeasure,
    ErrorOfDifference,
    PooledMeasure,
    PooledState,
)
from fastrank_eval.slicing.encode import value_texts
from fastrank_eval.slicing.slicer import Slices
from fastrank_eval.stats.binned_scores import CellScores
from fastrank_eval.stats.clustered_scores import ClusteredBins, ClusteredScores
from fastrank_eval.stats.exact import NO_SLICES, ExactSums, SliceCounts, sum_powers
from fastrank_eval.stats.intervals import effective_groups
from fastrank_eval.stats.means import Clusters, MeanState, PairedState
from fastrank_eval.stats.row_sums import ClusterMoments

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
    key : mapping of str to (int, bool or str), or None
        Its value in each key column: numbers and strings as they are, others as texts of labels;
        None if only hashes of it are known.
    at_least : bool
        Whether it may have more rows, because it may have some in several merged states. Another
        group may then be larger.
    """

    rows: int
    key: Mapping[str, _Value] | None
    at_least: bool = False

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
    if one is None or other is None or one.rows != other.rows:
        return max(one, other, key=lambda group: group.rows if group else 0)
    return min(one, other, key=lambda group: str(group.plain()))


def largest_in_chunk(
    known: LargestGroup | None,
    rows: np.ndarray,
    all_rows: int,
    names: Sequence[str],
    keys: Callable[[np.ndarray], Keys],
) -> LargestGroup | None:
    """Return the largest group of a chunk, or a known one if it is larger.

    Keys are read only where a group may be named at the end. Sums over all groups are at least
    those over a chunk, so the same group is found in any chunks.

    Parameters
    ----------
    known : LargestGroup or None
    rows : ndarray of int64, shape (groups,)
        Number of rows of each group.
    all_rows : int
        Their sum.
    names : sequence of str
        Key columns.
    keys : callable
        Maps positions of groups to their keys.
    """
    most = int(rows.max(initial=0))
    # n^2 sums to at least (sum of n)^2 / groups. More than needed, so that no rounding matters.
    enough = (_PARTS + 1) * most**2
    if enough * len(rows) < all_rows**2 or (known is not None and most < known.rows):
        return known
    indices = np.flatnonzero(rows == most)
    if len(indices) > _PARTS:
        return known
    columns = [_values(column) for column in keys(indices)]
    found = (dict(zip(names, key, strict=True)) for key in zip(*columns, strict=True))
    return larger(known, LargestGroup(most, min(found, key=str)))


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


#: The tables of a run, by score column and canonical text of the measure.
CalibrationTables = Mapping[tuple[str, str], pa.Table]
#: The texts of the values of each column, by their codes.
ValueLabels = Mapping[str, list[str]]
_SCHEMA = pa.schema(
    [
        *(("slice", pa.string()), ("rows", pa.int64())),
        *((name, pa.float64()) for name in ("expected", "observed", "error", "sigmas")),
        *((name, pa.float64()) for name in ("p_value", "p_adjusted", "min_detectable_error")),
    ]
)


def calibration_tables(plan: Plan, totals: Totals) -> CalibrationTables:
    """Build the table of slices of each model and measure of multicalibration.

    Parameters
    ----------
    plan : Plan
    totals : Totals

    Returns
    -------
    mapping of (str, str) to pyarrow.Table
        By score column and measure: `slice`, `rows`, `expected` and `observed` (positives,
        weighted), `error` (ECCE), `sigmas`, `p_value`, `p_adjusted` (Holm), `min_detectable_error`
        (five sigmas of the slice); the most sigmas first. Empty where the measure is undefined.
    """
    tables, texts = {}, value_labels(plan)
    for measure in plan.measures:
        if isinstance(measure, MulticalibrationError):
            for name, states in zip(plan.roles.scores, totals.overall_states.models, strict=True):
                state = measure.state_in(states)
                slices = measure.slices(state, partial(map_jobs, plan.threads))
                tables[name, str(measure)] = _table(slices, texts)
    return tables


def value_labels(plan: Plan) -> ValueLabels:
    """Write the values of the columns whose slices are compared, by code."""
    measures = (m for m in plan.measures if isinstance(m, MulticalibrationError))
    names = {name for measure in measures for name in measure.columns_named()}
    return {one.name: value_texts(one.values()) for one in fields_of(plan) if one.name in names}


def worst_slice(
    measure: MulticalibrationError, state: CellScores, texts: ValueLabels
) -> Mapping[str, float]:
    """Return the ECCE of the slice with the most sigmas, named by its label."""
    slices = measure.slices(state, map)
    if slices is None:
        return {}
    sigmas = slices.sigmas
    worst = np.flatnonzero(sigmas == sigmas.max())
    labels = _labels(slices.columns, slices.codes[worst], texts)
    first = 0 if len(labels) == 1 else _order(sigmas[worst], slices.codes[worst], labels)[0]
    return {f"ECCE of {labels[first]}": float(slices.error[worst[first]])}


def _labels(columns: tuple[str, ...], codes: np.ndarray, texts: ValueLabels) -> list[str]:
    """Write the label of each slice, as slicings do; "all" for all rows."""
    return [
        ",".join(
            f"{name}={texts[name][code]}"
            for name, code in zip(columns, codes_of_slice, strict=True)
            if code >= 0
        )
        or "all"
        for codes_of_slice in codes.tolist()
    ]


def _order(sigmas: np.ndarray, codes: np.ndarray, labels: list[str]) -> np.ndarray:
    """Sort slices: the most sigmas first, then the fewest columns."""
    columns = np.count_nonzero(codes >= 0, axis=1)
    ranks = np.argsort(np.argsort(np.array(labels, object), kind="stable"), kind="stable")
    return np.lexsort((ranks, columns, -sigmas))


def _table(slices: SliceCalibration | None, texts: ValueLabels) -> pa.Table:
    if slices is None:
        return _SCHEMA.empty_table()
    labels = _labels(slices.columns, slices.codes, texts)
    order = _order(slices.sigmas, slices.codes, labels)
    p, adjusted = slices.p_values()
    numbers = (
        *(slices.rows, slices.expected, slices.observed),
        *(slices.error, slices.sigmas, p, adjusted, slices.min_detectable_error),
    )
    names = bytes_column([labels[i].encode() for i in order.tolist()], pa.string())
    columns = [arrow_column(np.ascontiguousarray(each[order])) for each in numbers]
    return pa.table([names, *columns], schema=_SCHEMA)


#: For each model the states of the measures of all rows, by their key. Measures with equal keys
#: share a state, and threads share all of them.
ModelStates: TypeAlias = list[dict[Hashable, PooledState]]
#: One model's ranked groups, and what they contribute to each measure, by its position in the plan.
Measured: TypeAlias = tuple[RankedGroups, Mapping[int, Contributions]]

# Counters of a slice. Rows of negative grade are counted for all rows only.
_GROUPS, _ROWS, _POSITIVES, _NEGATIVES, _CLUSTERS = range(5)
# The sums of n^2 and n^4 over the rows n of groups: products of the terms n and n^2.
_SIZES = ((0, 0), (1, 1))


class PooledStates:
    """The states of measures of all rows, or of a slice; threads share them.

    Parameters
    ----------
    plan : Plan

    Attributes
    ----------
    models : list of dict
        For each model the states of its measures, by key.
    pairs : dict of int to dict
        For each model that is compared with the baseline, the moments of both models' terms by
        key. The terms of the baseline come first.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.models: ModelStates = [
            {key: m.new_state(plan.weighted, plan.threads) for key, m in plan.pooled_states.items()}
            for _ in plan.roles.scores
        ]
        self.pairs: dict[int, dict[Hashable, ClusterMoments]] = {
            model: {
                key: ClusterMoments(2 * state.moments.terms, state.contrasts)
                for key, state in self.models[model].items()
                if isinstance(state, ClusteredSums)
            }
            for model in plan.candidates
        }

    def add(self, scored: Sequence[Scored]) -> None:
        """Add the rows of whole groups, as each model scores them."""
        terms_of_models: list[dict[Hashable, np.ndarray]] = []
        for rows, states in zip(scored, self.models, strict=True):
            terms: dict[Hashable, np.ndarray] = {}
            for key, state in states.items():
                measure = self._plan.pooled_states[key]
                if isinstance(measure, ClusteredMeasure) and isinstance(state, ClusteredSums):
                    sums = measure.sum_rows(state, rows)
                    state.add_groups(sums)
                    if sums is not None:
                        terms[key] = sums
                else:
                    measure.add_rows(state, rows)
            terms_of_models.append(terms)
        if self._plan.baseline is None:
            return
        base = terms_of_models[self._plan.baseline]
        for model, pairs in self.pairs.items():
            for key, moments in pairs.items():
                if key in base and key in terms_of_models[model]:
                    moments.add(np.concatenate([base[key], terms_of_models[model][key]]))

    def difference_error(
        self, model: int, measure: PooledMeasure, map_jobs: JobMap
    ) -> ErrorOfDifference:
        """Estimate the standard error of a difference from the baseline.

        Groups are the clusters.

        Parameters
        ----------
        model : int
            The model that is compared with the baseline.
        measure : PooledMeasure
        map_jobs : callable
            Maps a function over jobs, in threads.

        Returns
        -------
        ErrorOfDifference
            Unknown where there is none, or where either value is undefined.
        """
        if self._plan.baseline is None:
            return ErrorOfDifference()
        states = [measure.state_in(self.models[m]) for m in (self._plan.baseline, model)]
        if isinstance(measure, ClusteredMeasure):
            moments = self.pairs[model][measure.state_key()]
            return measure.error_of_pair(states[0], states[1], moments, map_jobs)
        return measure.difference_error(states[0], states[1], map_jobs)

    def merge(self, other: PooledStates) -> None:
        """Add the states of other rows, which may change."""
        for model, states in enumerate(self.models):
            for key, state in states.items():
                state.merge(other.models[model][key])
        for model, pairs in self.pairs.items():
            for key, moments in pairs.items():
                moments.merge(other.pairs[model][key])

    def to_arrays(self, plan: Plan, where: Rows, numbers: Mapping[str, np.ndarray]) -> StateArrays:
        """Write the states of the measures of a plan.

        The plan may have fewer measures than the run. `numbers` has for each field the number of
        each code in the file.
        """
        arrays: StateArrays = {}
        scores = plan.roles.scores
        for key, measure in plan.pooled_states.items():
            for model in plan.candidates:
                if isinstance(self.models[model][key], ClusteredBins):
                    self.difference_error(model, measure, map)  # to be written with the bins
            states = {
                score: renumber(of[key], measure, numbers)
                for score, of in zip(scores, self.models, strict=True)
            }
            clustered = {s: of for s, of in states.items() if isinstance(of, ClusteredScores)}
            if plan.candidates and clustered:
                parts = ClusteredScores.models_to_arrays(clustered)
            else:
                parts = {score: state.to_arrays() for score, state in states.items()}
            arrays |= {(where, score, state_name(key)): part for score, part in parts.items()}
            for model, pairs in self.pairs.items():
                if key in pairs:
                    name = paired_state_name(key)
                    arrays[where, scores[model], name] = pairs[key].to_arrays()
        return arrays

    def load(
        self, arrays: StateArrays, where: Rows, numbers: Mapping[str, np.ndarray]
    ) -> PooledStates:
        """Read the states of other rows; `numbers` has codes by number."""
        # A copy: to make states for each of a thousand slices takes longer than to read them.
        states = copy(self)
        states.models = [{} for _ in self.models]
        states.pairs = {model: {} for model in self.pairs}
        scores = self._plan.roles.scores
        for key, measure in self._plan.pooled_states.items():
            own, name = self.models[0][key], state_name(key)
            if isinstance(own, ClusteredScores):
                parts = {score: read(arrays, where, score, name, dict) for score in scores}
                for score, clustered in ClusteredScores.models_from_arrays(parts).items():
                    states.models[scores.index(score)][key] = clustered
                continue
            values = sum(len(numbers[field]) for field in measure.columns_named())
            for score, of_model in zip(scores, states.models, strict=True):
                state = read(arrays, where, score, name, partial(read_like, own, values))
                of_model[key] = renumber(state, measure, numbers)
        for model, pairs in self.pairs.items():
            for key in pairs:
                place = where, scores[model], paired_state_name(key)
                states.pairs[model][key] = read(arrays, *place, ClusterMoments.from_arrays)
        return states


class Sums:
    """Sums over groups, of all rows or of each slice of a slicing.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._counts = SliceCounts(5 if plan.roles.nested else 4)
        self._sizes = ExactSums(_SIZES)
        size = len(plan.measures), plan.roles.nested
        self.pairs = {model: PairedState(*size) for model in plan.candidates}

    @cached_property
    def means(self) -> list[MeanState]:
        """The sums of measures of groups, for each model."""
        plan = self._plan
        return [MeanState(len(plan.measures), plan.roles.nested) for _ in plan.roles.scores]

    def count_groups(
        self,
        rows: np.ndarray,
        positives: np.ndarray,
        slice_indices: np.ndarray = NO_SLICES,
        clusters: Clusters | None = None,
    ) -> None:
        """Count groups, their rows and their positives; rows alone without groups.

        Parameters
        ----------
        rows, positives : ndarray of int64, shape (groups,)
            Without slices, `positives` may leave out groups that have none.
        slice_indices : ndarray of int64, shape (groups,), or (0,)
            The slice index of each group; an empty array stands for index 0.
        clusters : Clusters, optional
            Nested clusters of all groups.
        """
        grouped = self._plan.grouped
        if not len(slice_indices):
            all_rows = int(rows.sum())
            self._counts.table[0, :3] += len(rows) * grouped, all_rows, int(positives.sum())
            if clusters is not None:
                rows = clusters.count(rows)
                self._counts.add(_CLUSTERS, len(rows))
            if all_rows < 1 << 31:
                if grouped:
                    for term, total in enumerate(sum_powers(rows)):
                        self._sizes.add_integer(term, total)
                return
        else:
            for column, counted in enumerate((np.full(len(rows), int(grouped)), rows, positives)):
                added = np.zeros(int(slice_indices.max()) + 1, np.int64)
                np.add.at(added, slice_indices, counted)
                self._counts.add(column, added)
            if clusters is not None:
                rows, slice_indices = clusters.count(rows), clusters.slices
                self._counts.add(_CLUSTERS, np.bincount(slice_indices))
        if not grouped:
            return
        sizes = np.empty((2, len(rows)))
        sizes[0] = rows
        np.square(sizes[0], out=sizes[1])
        self._sizes.add(sizes, slice_indices)

    def count_negatives(self, rows: int) -> None:
        """Count rows of negative grade, of all rows."""
        self._counts.add(_NEGATIVES, rows)

    def add(
        self,
        model: int,
        m: int,
        groups: RankedGroups,
        contributions: Contributions,
        slice_indices: np.ndarray = NO_SLICES,
        clusters: Clusters | None = None,
    ) -> None:
        """Add a measure of one model over the ranked groups of a chunk."""
        state, measure = self.means[model], self._plan.measures[m]
        values, weights = contributions.summand, contributions.weights
        indices = groups.slice_indices(slice_indices)
        for reason, dropped in contributions.dropped_by_slice(indices):
            state.drop(m, reason, dropped)
        if clusters is None:
            finite = state.add(m, values, weights, groups.rows, groups.positives, indices)
        else:
            state.count(m, values, groups.rows, groups.positives, indices)
            values = groups.spread(values, self._empty(m))
            weights = None if weights is None else groups.spread(weights, 1.0)
            is_sum = measure.aggregate == "sum"
            finite = state.add_nested(m, values, weights, clusters, slice_indices, is_sum=is_sum)
        if not finite:
            raise too_large(measure)

    def _empty(self, m: int) -> float:
        """Return the value of unranked groups, NaN where they are left out."""
        return float("nan") if empty_reason(self._plan, self._plan.measures[m]) else 0.0

    def add_empty(
        self, model: int, groups: RankedGroups, slice_indices: np.ndarray = NO_SLICES
    ) -> None:
        """Add the unranked groups of a chunk to every measure of a model."""
        if groups.ranked is None:
            return
        number, rows = groups.count_empty(slice_indices)
        for m, measure in enumerate(self._plan.measures):
            if measure.pooled:
                continue
            reason = empty_reason(self._plan, measure)
            if reason:
                self.means[model].drop(m, reason, number)
            else:
                self.means[model].add_zeros(m, number, rows)

    def pair(
        self,
        model: int,
        m: int,
        base: Measured,
        other: Measured,
        slice_indices: np.ndarray = NO_SLICES,
        clusters: Clusters | None = None,
    ) -> None:
        """Add a measure of the base model and of another over a chunk."""
        state = self.pairs[model]
        (base_groups, base_values), (groups, values) = base, other
        left, right = base_values[m], values[m]
        empty = self._empty(m)
        if base_groups.ranked is groups.ranked and clusters is None:
            indices = groups.slice_indices(slice_indices)
            state.add(m, left.summand, right.summand, left.weights, right.weights, indices)
            if groups.ranked is not None and empty == 0:
                state.add_zeros(m, groups.count_empty(slice_indices)[0])
            return
        # A model that leaves rows unscored ranks every group, and clusters have all groups.
        state.add(
            m,
            base_groups.spread(left.summand, empty),
            groups.spread(right.summand, empty),
            None if left.weights is None else base_groups.spread(left.weights, 1.0),
            None if right.weights is None else groups.spread(right.weights, 1.0),
            slice_indices,
            clusters,
        )

    def take(self, slice_indices: np.ndarray) -> Self:
        """Select the sums of some slices, in this order; zeros for -1."""
        sums = type(self)(self._plan)
        sums._counts = self._counts.take(slice_indices)
        sums._sizes = self._sizes.take(slice_indices)
        sums.means = [state.take(slice_indices) for state in self.means]
        sums.pairs = {model: pair.take(slice_indices) for model, pair in self.pairs.items()}
        return sums

    def to_arrays(self, where: Rows) -> StateArrays:
        """Write the sums of all slices that there is memory for; see `take`."""
        scores = self._plan.roles.scores
        shown = 5 if self._plan.roles.nested else 4 if self.negatives() else 3
        counts = self._counts.table[:, :shown]
        sizes = self._sizes.to_arrays("sizes", len(counts))
        return {
            (where, "", TOTALS): {"counts": counts, **sizes},
            **{(where, scores[m], GROUPS): mean.to_arrays() for m, mean in enumerate(self.means)},
            **{(where, scores[m], PAIRS): pair.to_arrays() for m, pair in self.pairs.items()},
        }

    @classmethod
    def from_arrays(cls, plan: Plan, arrays: StateArrays, where: Rows) -> Self:
        """Read the sums that `to_arrays` wrote."""
        sums, scores = cls(plan), plan.roles.scores
        read(arrays, where, "", TOTALS, sums._read_counts)
        sums.means = [read(arrays, where, score, GROUPS, MeanState.from_arrays) for score in scores]
        if any(len(mean) != len(plan.measures) for mean in sums.means):
            raise ValueError(f"{GROUPS}: must have {len(plan.measures)} measures")
        sums.pairs = {
            model: read(arrays, where, scores[model], PAIRS, PairedState.from_arrays)
            for model in plan.candidates
        }
        if any(each.nested != plan.roles.nested for each in (*sums.means, *sums.pairs.values())):
            raise ValueError(f"{GROUPS}: counts of clusters are not those of the header")
        return sums

    def _read_counts(self, arrays: Mapping[str, np.ndarray]) -> None:
        counts = arrays["counts"]
        size = self._counts.table.shape[1]
        wrong = counts.dtype != np.int64 or counts.ndim != 2 or not 3 <= counts.shape[1] <= size
        if wrong or counts.min(initial=0) < 0:
            raise ValueError(f"counts of totals are {counts.dtype} of shape {counts.shape}")
        self._counts = SliceCounts.of(np.pad(counts, ((0, 0), (0, size - counts.shape[1]))))
        self._sizes = ExactSums.from_arrays(_SIZES, arrays, "sizes", len(counts))

    def of_measures(self, plan: Plan, indices: Sequence[int]) -> Sums:
        """Select the sums of some measures; `plan` must list the same ones."""
        sums = copy(self)
        sums._plan = plan
        sums.means = [state.of_measures(indices) for state in self.means]
        sums.pairs = {model: pair.of_measures(indices) for model, pair in self.pairs.items()}
        return sums

    def merge(self, other: Sums) -> None:
        """Add the sums of another thread."""
        self._counts.merge(other._counts)
        self._sizes.merge(other._sizes)
        for left, right in zip(self.means, other.means, strict=True):
            left.merge(right)
        for model, pair in self.pairs.items():
            pair.merge(other.pairs[model])

    def groups(self, slice_index: int = 0) -> int:
        """Count the groups of a slice."""
        return self._counts.at(slice_index, _GROUPS)

    def clusters(self, slice_index: int = 0) -> int:
        """Count the nested clusters of a slice; by default a group is one."""
        return self._counts.at(slice_index, _CLUSTERS if self._plan.roles.nested else _GROUPS)

    def has_few_groups(self, slice_index: int) -> bool:
        """Return whether a slice has fewer than `min_groups` groups."""
        return self._plan.grouped and self.groups(slice_index) < self._plan.min_groups

    def rows(self, slice_index: int = 0) -> int:
        """Count the rows of a slice."""
        return self._counts.at(slice_index, _ROWS)

    def positives(self, slice_index: int = 0) -> int:
        """Count the rows of grade >= 1 of a slice."""
        return self._counts.at(slice_index, _POSITIVES)

    def negatives(self) -> int:
        """Count the rows of negative grade, of all rows."""
        return self._counts.at(0, _NEGATIVES)

    def effective_groups(self, slice_index: int = 0) -> float:
        """Compute `effective_groups` of the rows of groups, or of nested clusters."""
        return effective_groups(self.squares(slice_index), self._sizes.total(1, slice_index))

    def squares(self, slice_index: int = 0) -> float:
        """Sum n^2 over the groups, or nested clusters, of n rows."""
        return self._sizes.total(0, slice_index)

    @property
    def slice_indices(self) -> np.ndarray:
        """The indices of the slices that have a row."""
        return np.flatnonzero(self._counts.table[:, _ROWS])


class SliceStates:
    """The pooled states of each slice of a slicing; threads share them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._of_slices: dict[int, PooledStates] = {}

    def of(self, slice_index: int) -> PooledStates:
        """Return the pooled states of one slice."""
        with self._lock:
            if slice_index not in self._of_slices:
                self._of_slices[slice_index] = PooledStates(self._plan)
            return self._of_slices[slice_index]

    def add(self, slice_index: int, states: PooledStates) -> None:
        """Add the states of other rows of a slice, which may change."""
        if slice_index in self._of_slices:
            self._of_slices[slice_index].merge(states)
        else:
            self._of_slices[slice_index] = states

    def merge(self, other: SliceStates) -> None:
        """Add the states of other rows, which may change."""
        for slice_index, states in other._of_slices.items():
            self.add(slice_index, states)


class SliceTotals(NamedTuple):
    """The totals of one slice.

    Parameters
    ----------
    by : str or None
        The slicing as requested; None for all rows.
    label : str
        The label of the slice; ``"all"`` for all rows.
    slice_index : int
        Index of the slice in the sums.
    sums : Sums
    pooled_states : PooledStates
    """

    by: str | None
    label: str
    slice_index: int
    sums: Sums
    pooled_states: PooledStates


#: All rows are one slice without a label, at index 0.
_ALL_ROWS = Slices(("",), np.zeros(1, np.int64), {})


class Totals:
    """The sums of a thread and the pooled states of a run.

    Totals merge in any order. Their arrays are a saved state.

    Parameters
    ----------
    plan : Plan
    pooled_states : list of SliceStates, optional
        pooled states that threads share; by default new ones.

    Attributes
    ----------
    sums : list of Sums
        Of all rows, then for each slicing.
    pooled_states : list of SliceStates
        Of all rows, then for each slicing.
    """

    def __init__(self, plan: Plan, pooled_states: list[SliceStates] | None = None) -> None:
        self._plan = plan
        slicings = (None, *plan.slice_encoders)
        self.sums = [Sums(plan) for _ in slicings]
        self.pooled_states = pooled_states or [SliceStates(plan) for _ in slicings]
        self.soft = 0  # rows with a label in ]0, 1[; no array has them
        self.largest: LargestGroup | None = None  # of all rows, if it may be dominant

    @property
    def overall(self) -> Sums:
        """Sums over groups, of all rows."""
        return self.sums[0]

    @property
    def slices(self) -> list[Sums]:
        """Sums over groups, for each slicing."""
        return self.sums[1:]

    @property
    def overall_states(self) -> PooledStates:
        """The pooled states of all rows."""
        return self.pooled_states[0].of(0)

    def each_slice(self) -> Iterator[SliceTotals]:
        """Yield all rows, then the slices of at least `min_groups` groups."""
        for by, slices, sums, states in self._slicings():
            for index, label in zip(slices.codes.tolist(), slices.labels, strict=True):
                if not by:
                    yield SliceTotals(None, "all", 0, sums, states.of(0))
                elif sums.rows(index) and not sums.has_few_groups(index):
                    yield SliceTotals(by, label, index, sums, states.of(index))

    def has_codes_of(self, plan: Plan) -> bool:
        """Return whether a plan has the same models, slices and field values."""
        own, other = (
            (
                (each.roles.scores, each.baseline, each.measures),
                [slicing.slices().labels for slicing in each.slice_encoders],
                [field.values() for field in fields_of(each)],
            )
            for each in (self._plan, plan)
        )
        return own == other

    def select(self, plan: Plan) -> Totals:
        """Select some measures, and all slicings or none."""
        count = 1 + len(plan.slice_encoders)
        totals = Totals(plan, self.pooled_states[:count])
        totals.largest = self.largest
        indices = [self._plan.measures.index(measure) for measure in plan.measures]
        totals.sums = [sums.of_measures(plan, indices) for sums in self.sums[:count]]
        return totals

    def merge(self, other: Totals) -> None:
        """Add the totals of another thread or of other rows, which may change."""
        self.soft += other.soft
        self.largest = larger(self.largest, other.largest)
        for sums, more in zip(self.sums, other.sums, strict=True):
            sums.merge(more)
        if other.pooled_states is not self.pooled_states:
            for states, more_states in zip(self.pooled_states, other.pooled_states, strict=True):
                states.merge(more_states)

    def to_arrays(self) -> StateArrays:
        """Write arrays that do not depend on order, threads or batches."""
        plan = self._plan
        arrays: StateArrays = {}
        numbers: dict[str, np.ndarray] = {}
        for field in fields_of(plan):
            arrays[field_key(field.name)], numbers[field.name] = field_to_arrays(field)
        for by, slices, sums, states in self._slicings():
            codes = slices.codes
            if by:
                present = np.array([sums.rows(code) > 0 for code in codes.tolist()], np.bool_)
                saved, codes = SavedSlices.of(slices, present), codes[present]
                arrays[Rows(by), "", SLICES] = saved.to_arrays()
            arrays |= sums.take(codes).to_arrays(Rows(by))
            if plan.pooled_states:
                for label, code in zip(saved.labels if by else ("",), codes.tolist(), strict=True):
                    arrays |= states.of(code).to_arrays(plan, Rows(by, label), numbers)
        return arrays

    @classmethod
    def from_arrays(cls, plan: Plan, arrays: StateArrays) -> Self:
        """Read the totals that `to_arrays` wrote.

        The fields and slicings of the plan have all values and slices of the arrays, or more.
        """
        totals, numbers, pooled_states = cls(plan), {}, PooledStates(plan)
        for field in fields_of(plan):
            values = read(arrays, *field_key(field.name), field_values)
            numbers[field.name] = field_numbers(field, values)
        for number, (by, slices, _, states) in enumerate(totals._slicings()):
            saved = read(arrays, Rows(by), "", SLICES, SavedSlices.from_arrays) if by else _ALL_ROWS
            index_of = {label: index for index, label in enumerate(saved.labels)}
            indices = np.array([index_of.get(label, -1) for label in slices.labels], np.int64)
            sums = Sums.from_arrays(plan, arrays, Rows(by))
            totals.sums[number] = sums if saved.labels == slices.labels else sums.take(indices)
            if plan.pooled_states:
                for code in np.flatnonzero(indices >= 0).tolist():
                    where = Rows(by, slices.labels[code])
                    states.add(code, pooled_states.load(arrays, where, numbers))
        return totals

    def _slicings(self) -> Iterator[tuple[str, Slices, Sums, SliceStates]]:
        """Yield the sums and states of all rows, then of each slicing."""
        slicings = [("", _ALL_ROWS)]
        slicings += [(str(one.spec), one.slices()) for one in self._plan.slice_encoders]
        for (by, slices), sums, states in zip(slicings, self.sums, self.pooled_states, strict=True):
            yield by, slices, sums, states
