"""Add up a run: sums over groups and row states, of all rows and by slice."""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self, TypeAlias

import numpy as np

from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval._lib.threads import JobMap
from fastrank_eval.engine.plan import Contributions, Plan, RankedGroups, empty_reason, too_large
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.measures.pooled import ClusteredMeasure, PooledMeasure
from fastrank_eval.stats.exact import NO_SLICES, ExactSums
from fastrank_eval.stats.intervals import carriers
from fastrank_eval.stats.means import MeanState
from fastrank_eval.stats.moments import ClusterMoments
from fastrank_eval.stats.paired import PairedState
from fastrank_eval.stats.row_sums import SliceCounts

#: For each model the states of the measures of all rows, by their key. Measures with equal keys
#: share a state, and threads share all of them.
ModelStates: TypeAlias = list[dict[Hashable, Any]]
#: One model's ranked groups, and what they contribute to each measure, by its position in the plan.
Measured: TypeAlias = tuple[RankedGroups, Mapping[int, Contributions]]

# Counters of a slice.
_GROUPS, _ROWS, _POSITIVES = range(3)
# The sums of n^2 and n^4 over the rows n of groups: products of the terms n and n^2.
_SIZES = ((0, 0), (1, 1))


class RowStates:
    """The states of measures of all rows, or of the rows of a slice.

    Threads share them.

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
            {key: m.new_state(plan.weighted, plan.threads) for key, m in plan.row_states.items()}
            for _ in plan.roles.scores
        ]
        self.pairs: dict[int, dict[Hashable, ClusterMoments]] = {
            model: {
                key: ClusterMoments(2 * self.models[model][key].moments.terms, compared=True)
                for key, m in plan.row_states.items()
                if isinstance(m, ClusteredMeasure)
            }
            for model in plan.rivals
        }

    def add(self, scored: Sequence[Scored]) -> None:
        """Add the rows of whole groups, as each model scores them."""
        terms_of_models: list[dict[Hashable, np.ndarray]] = []
        for rows, states in zip(scored, self.models, strict=True):
            terms: dict[Hashable, np.ndarray] = {}
            for key, state in states.items():
                measure = self._plan.row_states[key]
                if isinstance(measure, ClusteredMeasure):
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
    ) -> tuple[float, int, float]:
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
        se : float
            NaN where there is none, or where either value is undefined.
        groups : int
            Groups behind `se`; 0 where it is NaN.
        carriers : float
            ``(sum of u^2)^2 / sum of u^4`` over the influences u of groups; NaN without `se`.
        """
        if self._plan.baseline is None:
            return math.nan, 0, math.nan
        base, other = (measure.state_in(self.models[m]) for m in (self._plan.baseline, model))
        if not isinstance(measure, ClusteredMeasure):
            return measure.difference_error(base, other, map_jobs)
        if any(math.isnan(measure.pooled_value(state, map_jobs).value) for state in (base, other)):
            return math.nan, 0, math.nan
        moments = self.pairs[model][measure.state_key()]
        slopes = [-slope for slope in measure.derivatives(base)] + measure.derivatives(other)
        return moments.error(slopes), moments.clusters, moments.carriers()


class Sums:
    """Sums over groups, of all rows or of each slice of a slicing.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._counts = SliceCounts(3)
        self._sizes = ExactSums(_SIZES)
        self.means = [MeanState(len(plan.measures)) for _ in plan.roles.scores]
        self.pairs = {model: PairedState(len(plan.measures)) for model in plan.rivals}

    def count_groups(
        self, rows: np.ndarray, positives: np.ndarray, slice_indices: np.ndarray = NO_SLICES
    ) -> None:
        """Count groups, their rows and their positives; rows alone without groups.

        Parameters
        ----------
        rows, positives : ndarray of int64, shape (groups,)
            Of each group.
        slice_indices : ndarray of int64, shape (groups,), or (0,)
            The slice index of each group; an empty array stands for index 0.
        """
        grouped = self._plan.grouped
        if not len(slice_indices):
            for column, number in enumerate((len(rows) * grouped, rows.sum(), positives.sum())):
                self._counts.add(column, int(number))
            if grouped and len(rows) * int(rows.max(initial=0)) ** 4 < 1 << 63:
                squares = rows * rows
                for term, number in enumerate((squares.sum(), np.dot(squares, squares))):
                    self._sizes.add_integers(term, np.array([number]))
                return
        else:
            for column, counted in enumerate((np.full(len(rows), int(grouped)), rows, positives)):
                added = np.zeros(int(slice_indices.max()) + 1, np.int64)
                np.add.at(added, slice_indices, counted)
                self._counts.add(column, added)
        if not grouped:
            return
        sizes = np.empty((2, len(rows)))
        sizes[0] = rows
        np.square(sizes[0], out=sizes[1])
        self._sizes.add(sizes, slice_indices)

    def add(
        self,
        model: int,
        m: int,
        groups: RankedGroups,
        contributions: Contributions,
        slice_indices: np.ndarray = NO_SLICES,
    ) -> None:
        """Add a measure of one model over the ranked groups of a chunk.

        Parameters
        ----------
        model, m : int
        groups : RankedGroups
        contributions : Contributions
        slice_indices : ndarray of int64, shape (groups,), or (0,)
            The slice index of each group of the chunk.
        """
        state = self.means[model]
        indices = groups.slice_indices(slice_indices)
        for reason, dropped in contributions.dropped_by_slice(indices):
            state.drop(m, reason, dropped)
        if not state.add(
            m, contributions.summand, contributions.weights, groups.rows, groups.positives, indices
        ):
            raise too_large(self._plan.measures[m])

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
    ) -> None:
        """Add a measure of the base model and of another over a chunk."""
        state = self.pairs[model]
        (base_groups, base_values), (groups, values) = base, other
        left, right = base_values[m], values[m]
        empty = float("nan") if empty_reason(self._plan, self._plan.measures[m]) else 0.0
        if base_groups.ranked is groups.ranked:
            indices = groups.slice_indices(slice_indices)
            state.add(m, left.summand, right.summand, left.weights, right.weights, indices)
            if groups.ranked is not None and empty == 0:
                state.add_zeros(m, groups.count_empty(slice_indices)[0])
            return
        # A model that leaves rows unscored ranks every group.
        state.add(
            m,
            base_groups.spread(left.summand, empty),
            groups.spread(right.summand, empty),
            None if left.weights is None else base_groups.spread(left.weights, 1.0),
            None if right.weights is None else groups.spread(right.weights, 1.0),
            slice_indices,
        )

    @classmethod
    def of(
        cls,
        plan: Plan,
        counts: Mapping[str, np.ndarray],
        means: list[MeanState],
        pairs: dict[int, PairedState],
    ) -> Self:
        """Build sums from their parts, with the counts that `counts` wrote."""
        sums = cls(plan)
        table = counts["counts"].copy()
        sums._counts, sums.means, sums.pairs = SliceCounts.of(table), means, pairs
        sums._sizes = ExactSums.from_arrays(_SIZES, counts, "sizes", len(table))
        return sums

    def counts(self, slice_indices: np.ndarray) -> Arrays:
        """Write groups, rows, positives and sizes of some slices."""
        sizes = self._sizes.take(slice_indices)
        return {
            "counts": self._counts.take(slice_indices).table,
            **sizes.to_arrays("sizes", len(slice_indices)),
        }

    def of_measures(self, plan: Plan, indices: Sequence[int]) -> Sums:
        """Select the sums of some measures; `plan` must list the same ones."""
        means = [state.of_measures(indices) for state in self.means]
        pairs = {model: pair.of_measures(indices) for model, pair in self.pairs.items()}
        sums = Sums(plan)
        sums._counts, sums._sizes, sums.means, sums.pairs = self._counts, self._sizes, means, pairs
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

    def rows(self, slice_index: int = 0) -> int:
        """Count the rows of a slice."""
        return self._counts.at(slice_index, _ROWS)

    def positives(self, slice_index: int = 0) -> int:
        """Count the rows of grade >= 1 of a slice."""
        return self._counts.at(slice_index, _POSITIVES)

    def carriers(self, slice_index: int = 0) -> float:
        """Compute ``(sum of n^2)^2 / sum of n^4`` over groups of n rows.

        NaN if undefined.
        """
        squares, fourth = (self._sizes.total(term, slice_index) for term in range(2))
        return carriers(squares, fourth)

    @property
    def slice_indices(self) -> np.ndarray:
        """The indices of the slices that have a row."""
        return np.flatnonzero(self._counts.table[:, _ROWS])


class SliceStates:
    """The row states of each slice, created on demand.

    Threads share them.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._of_slices: dict[int, RowStates] = {}

    def of(self, slice_index: int) -> RowStates:
        """Return the row states of one slice."""
        with self._lock:
            if slice_index not in self._of_slices:
                self._of_slices[slice_index] = RowStates(self._plan)
            return self._of_slices[slice_index]


class SharedStates:
    """The row states that threads share: of all rows, and of each slice.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        self.overall = RowStates(plan)
        self.slices = [SliceStates(plan) for _ in plan.slice_encoders]


class Totals:
    """The sums of a thread, and the row states of the run.

    Totals merge in any order.

    Parameters
    ----------
    plan : Plan
    shared : SharedStates, optional
        The row states of the run; by default new ones.

    Attributes
    ----------
    overall : Sums
        Of all rows.
    slices : list of Sums
        For each slicing.
    """

    def __init__(self, plan: Plan, shared: SharedStates | None = None) -> None:
        self.overall = Sums(plan)
        self.slices = [Sums(plan) for _ in plan.slice_encoders]
        self.shared = SharedStates(plan) if shared is None else shared

    @property
    def row_states(self) -> ModelStates:
        """For each model the states of the measures of all rows, by key."""
        return self.shared.overall.models

    def merge(self, other: Totals) -> None:
        """Add the totals of another thread that shares the row states."""
        self.overall.merge(other.overall)
        for left, right in zip(self.slices, other.slices, strict=True):
            left.merge(right)
