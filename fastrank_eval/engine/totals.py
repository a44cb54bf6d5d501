"""Everything that a run adds up: sums over groups, of all rows or slice by slice, and pools."""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self, TypeAlias

import numpy as np

from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.policies import Contributions, RankedGroups, empty_reason, too_large
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.measures.pooled import ClusteredMeasure, PooledMeasure
from fastrank_eval.stats.exact import NO_SLICES, ExactSums
from fastrank_eval.stats.intervals import carriers
from fastrank_eval.stats.means import MeanState
from fastrank_eval.stats.moments import ClusterMoments
from fastrank_eval.stats.paired import PairedState
from fastrank_eval.stats.row_sums import SliceCounts
from fastrank_eval.stats.weighted_scores import InOrder

#: What is kept of all rows together, for each model: by key, for the measures that share it.
#: Threads share them.
Pools: TypeAlias = list[dict[Hashable, Any]]
#: One model's settled measures of groups, by their position in the plan.
Measured: TypeAlias = tuple[RankedGroups, Mapping[int, Contributions]]

# Counters of a line.
_GROUPS, _ROWS, _POSITIVES = range(3)
# Of the rows n of groups, and of n n: the sums of n^2 and n^4.
_SIZES = ((0, 0), (1, 1))


class RowStates:
    """What is kept of all rows together, or of those of a slice; threads share it.

    Parameters
    ----------
    plan : Plan

    Attributes
    ----------
    models : list of dict
        For each model the states of its measures, by key.
    pairs : dict of int to dict
        For each model that is compared with the baseline the moments of both models' terms, those
        of the baseline first, by key.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.models: Pools = [
            {key: m.new_state(plan.weighted, plan.threads) for key, m in plan.pools.items()}
            for _ in plan.roles.scores
        ]
        self.pairs: dict[int, dict[Hashable, ClusterMoments]] = {
            model: {
                key: ClusterMoments(2 * self.models[model][key].moments.terms, compared=True)
                for key, m in plan.pools.items()
                if isinstance(m, ClusteredMeasure)
            }
            for model in plan.rivals
        }

    def add(self, scored: Sequence[Scored]) -> None:
        """Add the rows of whole groups, those that each model has scored."""
        found: list[dict[Hashable, np.ndarray]] = []
        for rows, pools in zip(scored, self.models, strict=True):
            terms: dict[Hashable, np.ndarray] = {}
            for key, pool in pools.items():
                measure = self._plan.pools[key]
                if isinstance(measure, ClusteredMeasure):
                    sums = measure.sum_rows(pool, rows)
                    pool.add_groups(sums)
                    if sums is not None:
                        terms[key] = sums
                else:
                    measure.add_rows(pool, rows)
            found.append(terms)
        if self._plan.baseline is None:
            return
        base = found[self._plan.baseline]
        for model, pairs in self.pairs.items():
            for key, moments in pairs.items():
                if key in base and key in found[model]:
                    moments.add(np.concatenate([base[key], found[model][key]]))

    def difference_error(
        self, model: int, measure: PooledMeasure, in_order: InOrder
    ) -> tuple[float, int, float]:
        """The standard error of a model's value less that of the baseline, groups being clusters.

        Parameters
        ----------
        model : int
            One that is compared.
        measure : PooledMeasure
        in_order : callable
            Maps a function over jobs, in threads.

        Returns
        -------
        se : float
            NaN where none is known, or where either value is undefined.
        groups : int
            Groups behind it; 0 then.
        carriers : float
            ``(sum of u^2)^2 / sum of u^4`` of their influences; NaN where not known.
        """
        if self._plan.baseline is None:
            return math.nan, 0, math.nan
        base, other = (measure.state_in(self.models[each]) for each in (self._plan.baseline, model))
        if not isinstance(measure, ClusteredMeasure):
            return measure.difference_error(base, other, in_order)
        if any(math.isnan(measure.pooled_value(each, in_order).value) for each in (base, other)):
            return math.nan, 0, math.nan
        moments = self.pairs[model][measure.state_key()]
        slopes = [-slope for slope in measure.derivatives(base)] + measure.derivatives(other)
        return moments.error(slopes), moments.clusters, moments.carriers()


class Sums:
    """What is added up over groups: of all rows on one line, or of each slice on a line of its own.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._seen = SliceCounts(3)
        self._sizes = ExactSums(_SIZES)
        self.means = [MeanState(len(plan.measures)) for _ in plan.roles.scores]
        self.pairs = {model: PairedState(len(plan.measures)) for model in plan.rivals}

    def see(
        self, rows: np.ndarray, positives: np.ndarray, slice_indices: np.ndarray = NO_SLICES
    ) -> None:
        """Count groups.

        Parameters
        ----------
        rows, positives : ndarray of int64, shape (groups,)
            What each of them holds.
        lines : ndarray of int64, shape (groups,), or (0,)
            The line of each; without entries the first.
        """
        if not len(slice_indices):
            for column, number in enumerate((len(rows), rows.sum(), positives.sum())):
                self._seen.add(column, int(number))
            if len(rows) * int(rows.max(initial=0)) ** 4 < 1 << 63:
                squares = rows * rows
                for term, number in enumerate((squares.sum(), np.dot(squares, squares))):
                    self._sizes.add_integers(term, np.array([number]))
                return
        else:
            for column, counted in enumerate((np.ones(len(rows), np.int64), rows, positives)):
                added = np.zeros(int(slice_indices.max()) + 1, np.int64)
                np.add.at(added, slice_indices, counted)
                self._seen.add(column, added)
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
        settled : Settled
        lines : ndarray of int64, shape (groups,), or (0,)
            The line of each group of the chunk.
        """
        state = self.means[model]
        mine = groups.slice_indices(slice_indices)
        for reason, dropped in contributions.dropped_by_slice(mine):
            state.drop(m, reason, dropped)
        if not state.add(
            m, contributions.used, contributions.weights, groups.rows, groups.positives, mine
        ):
            raise too_large(self._plan.measures[m])

    def add_empty(
        self, model: int, groups: RankedGroups, slice_indices: np.ndarray = NO_SLICES
    ) -> None:
        """Add the groups of a chunk that were not ranked to every measure of a model."""
        if groups.ranked is None:
            return
        number, rows = groups.empty_on(slice_indices)
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
        """Add a measure of the base model and another over the groups of a chunk."""
        state = self.pairs[model]
        (base_groups, base_values), (groups, values) = base, other
        mine, theirs = base_values[m], values[m]
        empty = float("nan") if empty_reason(self._plan, self._plan.measures[m]) else 0.0
        if base_groups.ranked is groups.ranked:
            here = groups.slice_indices(slice_indices)
            state.add(m, mine.used, theirs.used, mine.weights, theirs.weights, here)
            if groups.ranked is not None and empty == 0:
                state.add_zeros(m, groups.empty_on(slice_indices)[0])
            return
        # A model that leaves rows unscored ranks every group.
        state.add(
            m,
            base_groups.spread(mine.used, empty),
            groups.spread(theirs.used, empty),
            None if mine.weights is None else base_groups.spread(mine.weights, 1.0),
            None if theirs.weights is None else groups.spread(theirs.weights, 1.0),
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
        """Return these sums, with the counts that `counts` wrote."""
        sums = cls(plan)
        table = counts["counts"].copy()
        sums._seen, sums.means, sums.pairs = SliceCounts.of(table), means, pairs
        sums._sizes = ExactSums.loaded(_SIZES, counts, "sizes", len(table))
        return sums

    def counts(self, slice_indices: np.ndarray) -> Arrays:
        """Write groups, rows and positives of some lines, and sums of powers of groups' rows."""
        sizes = self._sizes.take(slice_indices)
        return {
            "counts": self._seen.take(slice_indices).table,
            **sizes.saved("sizes", len(slice_indices)),
        }

    def of_measures(self, plan: Plan, chosen: Sequence[int]) -> Sums:
        """The sums of some measures, of which `plan` is."""
        means = [state.of_measures(chosen) for state in self.means]
        pairs = {model: pair.of_measures(chosen) for model, pair in self.pairs.items()}
        sums = Sums(plan)
        sums._seen, sums._sizes, sums.means, sums.pairs = self._seen, self._sizes, means, pairs
        return sums

    def merge(self, other: Sums) -> None:
        """Add the sums of another thread."""
        self._seen.merge(other._seen)
        self._sizes.merge(other._sizes)
        for mine, theirs in zip(self.means, other.means, strict=True):
            mine.merge(theirs)
        for model, pair in self.pairs.items():
            pair.merge(other.pairs[model])

    def groups(self, slice_index: int = 0) -> int:
        """Groups seen."""
        return self._seen.at(slice_index, _GROUPS)

    def rows(self, slice_index: int = 0) -> int:
        """Rows seen."""
        return self._seen.at(slice_index, _ROWS)

    def positives(self, slice_index: int = 0) -> int:
        """Rows of grade >= 1 seen."""
        return self._seen.at(slice_index, _POSITIVES)

    def carriers(self, slice_index: int = 0) -> float:
        """Compute ``(sum of n^2)^2 / sum of n^4`` over the rows n of groups; NaN without a row."""
        squares, fourth = (self._sizes.total(term, slice_index) for term in range(2))
        return carriers(squares, fourth)

    @property
    def slice_indices(self) -> np.ndarray:
        """Lines on which a group was seen."""
        return np.flatnonzero(self._seen.table[:, _GROUPS])


class SliceStates:
    """Pools of each slice, made when its first row comes; threads share them.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._lines: dict[int, RowStates] = {}

    def of(self, slice_index: int) -> RowStates:
        """The pools of one slice."""
        with self._lock:
            if slice_index not in self._lines:
                self._lines[slice_index] = RowStates(self._plan)
            return self._lines[slice_index]


class SharedStates:
    """The pools that the threads of a run share: of all rows, and of each slice.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        self.whole = RowStates(plan)
        self.slices = [SliceStates(plan) for _ in plan.slicings]


class Totals:
    """Everything a thread adds up by itself; tallies merge in any order.

    Parameters
    ----------
    plan : Plan
    pools : SharedStates, optional
        Those of the run.

    Attributes
    ----------
    whole : Sums
        Of all rows.
    slices : list of Sums
        For each slicing.
    """

    def __init__(self, plan: Plan, pools: SharedStates | None = None) -> None:
        self.whole = Sums(plan)
        self.slices = [Sums(plan) for _ in plan.slicings]
        self.shared = SharedStates(plan) if pools is None else pools

    @property
    def pools(self) -> Pools:
        """What is kept of all rows together, for each model."""
        return self.shared.whole.models

    def merge(self, other: Totals) -> None:
        """Add the tally of another thread that shares the pools."""
        self.whole.merge(other.whole)
        for mine, theirs in zip(self.slices, other.slices, strict=True):
            mine.merge(theirs)
