"""Add up sums over groups and pooled states, of all rows and by slice."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import NamedTuple, Self, TypeAlias, cast

import numpy as np

from fastrank_eval._lib.threads import JobMap, set_scratch_aside
from fastrank_eval.engine.group_table import LargestGroup, larger
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.program import too_large
from fastrank_eval.engine.state_arrays import (
    BY_BUCKET,
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
    read,
    read_like,
    renumber,
    state_name,
)
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.io.columns import rows_left_out_by
from fastrank_eval.measures import Measure
from fastrank_eval.measures.base import of_package
from fastrank_eval.measures.clustered_sums import ClusteredSums
from fastrank_eval.measures.pooled import (
    ClusteredMeasure,
    ErrorOfDifference,
    PooledMeasure,
    PooledState,
)
from fastrank_eval.slicing.slicer import Slices
from fastrank_eval.stats.clustered_scores import ClusteredBins, ClusteredScores
from fastrank_eval.stats.exact import NO_SLICES, ExactSums, SliceCounts, States
from fastrank_eval.stats.intervals import effective_groups
from fastrank_eval.stats.means import (
    BUCKETS,
    BucketSums,
    Clusters,
    MeanState,
    PairedState,
    rounded,
    rows_of_buckets,
    slice_of_rows,
)
from fastrank_eval.stats.row_sums import ClusterMoments, RowSums
from fastrank_eval.stats.tally import Measured, RankedGroups, Tally


def has_buckets(measure: Measure) -> bool:
    """Return whether sums by bucket give the error of a measure.

    Not that of sums over groups: their error is that of a fixed number of clusters, and the number
    in a bucket varies.
    """
    if measure.pooled:
        return isinstance(measure, ClusteredMeasure)
    return measure.aggregate != "sum"


def loses_error(measure: Measure) -> bool:
    """Return whether a measure has an error that sums by bucket do not give."""
    return measure.has_error and not has_buckets(measure)


#: For each model the states of the measures of all rows, by their key. Measures with equal keys
#: share a state, and threads share all of them.
ModelStates: TypeAlias = list[dict[Hashable, PooledState]]

# Counters of a slice. Rows of negative grade are counted for all rows only.
_GROUPS, _ROWS, _POSITIVES, _NEGATIVES, _CLUSTERS = range(5)
# Parts of `Sums`: these counts, and sums of n^2 and n^4 over the rows n of groups, which are
# products of n and n^2.
_COUNTS, _SIZES = ("", "counts"), ("", "sizes")
_SIZE_TERMS = ((0, 0), (1, 1))


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
    buckets : dict of int to dict
        For each model the sums of its terms by bucket, by key, if the plan keeps them.
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
        self.buckets: dict[int, dict[Hashable, RowSums]] = {
            model: {
                key: RowSums(state.moments.terms, BUCKETS)
                for key, state in states.items()
                if plan.buckets and isinstance(state, ClusteredSums)
            }
            for model, states in enumerate(self.models)
        }

    def _beside(self) -> list[tuple[str, int, dict[Hashable, PooledState]]]:
        """List by kind and model what is summed beside the states of measures."""
        kinds = (PAIRS, self.pairs), (BY_BUCKET, self.buckets)
        return [(kind, *of) for kind, by_model in kinds for of in by_model.items()]

    def add(self, scored: Sequence[Scored]) -> None:
        """Add the rows of whole groups, as each model scores them."""
        terms_of_models: list[dict[Hashable, np.ndarray]] = []
        for rows, states in zip(scored, self.models, strict=True):
            terms: dict[Hashable, np.ndarray] = {}
            for key, state in states.items():
                measure = self._plan.pooled_states[key]
                if not of_package(type(measure)):
                    set_scratch_aside()
                if isinstance(measure, ClusteredMeasure) and isinstance(state, ClusteredSums):
                    sums = measure.sum_rows(state, rows)
                    state.add_groups(sums)
                    if sums is not None:
                        terms[key] = sums
                else:
                    measure.add_rows(state, rows)
            terms_of_models.append(terms)
        for model, by_bucket in self.buckets.items():
            for key, buckets in by_bucket.items():
                for term, numbers in enumerate(terms_of_models[model].get(key, ())):
                    buckets.add(term, numbers, scored[model].chunk.buckets)
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
        own, others = ([*one.models, *(of for _, _, of in one._beside())] for one in (self, other))
        for states, more in zip(own, others, strict=True):
            for key, state in states.items():
                state.merge(more[key])

    def use_buckets(self) -> None:
        """Take buckets as the independent clusters."""
        terms: list[dict[Hashable, np.ndarray]] = [
            {key: rounded(buckets.sums()) for key, buckets in by_bucket.items()}
            for by_bucket in self.buckets.values()
        ]
        for states, of_model in zip(self.models, terms, strict=True):
            for key, numbers in of_model.items():
                state = cast(ClusteredSums, states[key])
                moments = state.moments
                state.moments = ClusterMoments(moments.terms, (), moments.denominators)
                state.moments.add(numbers)
        for model, pairs in self.pairs.items():
            for key, moments in pairs.items():
                pairs[key] = ClusterMoments(moments.terms, moments.contrasts)
                both = [terms[m][key] for m in (cast(int, self._plan.baseline), model)]
                pairs[key].add(np.concatenate(both))

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
            for kind, model, of in self._beside():
                if key in of:
                    arrays[where, scores[model], state_name(key, kind)] = of[key].to_arrays()
        return arrays

    def load(
        self, arrays: StateArrays, where: Rows, numbers: Mapping[str, np.ndarray]
    ) -> PooledStates:
        """Read the states of other rows; `numbers` has codes by number."""
        # A copy: to make states for each of a thousand slices takes longer than to read them.
        states = copy(self)
        states.models = [{} for _ in self.models]
        states.pairs = {model: {} for model in self.pairs}
        states.buckets = {model: {} for model in self.buckets}
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
        for (kind, model, likes), (_, _, of) in zip(self._beside(), states._beside(), strict=True):
            for key, like in likes.items():
                place = where, scores[model], state_name(key, kind)
                of[key] = read(arrays, *place, partial(read_like, like, 0))
        return states


class Sums(States):
    """Sums over groups, of all rows or of each slice of a slicing.

    Parts have the score column and the name of the state in a file. The column is empty for counts,
    and for rows of groups by bucket.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        scores, size = plan.roles.scores, (len(plan.measures), plan.roles.nested)
        self.parts = {
            _COUNTS: SliceCounts.zeros(5 if plan.roles.nested else 4),
            _SIZES: ExactSums(_SIZE_TERMS),
            **{(score, GROUPS): MeanState(*size) for score in scores},
            **{(scores[model], PAIRS): PairedState(*size) for model in plan.candidates},
        }
        if plan.buckets:
            names = (*scores, "")
            self.parts |= {(name, BY_BUCKET): BucketSums(size[0] if name else 1) for name in names}
        #: Whether buckets are the clusters.
        self.uses_buckets = False

    @property
    def means(self) -> list[MeanState]:
        """The sums of measures of groups, for each model."""
        return [cast(MeanState, self.parts[score, GROUPS]) for score in self._plan.roles.scores]

    @property
    def pairs(self) -> dict[int, PairedState]:
        """The sums of each model that is compared with the baseline."""
        plan, scores = self._plan, self._plan.roles.scores
        return {m: cast(PairedState, self.parts[scores[m], PAIRS]) for m in plan.candidates}

    @property
    def counts(self) -> SliceCounts:
        """Counts of groups and rows."""
        return cast(SliceCounts, self.parts[_COUNTS])

    @property
    def sizes(self) -> ExactSums:
        """The sums of powers of the rows of groups."""
        return cast(ExactSums, self.parts[_SIZES])

    def buckets(self, name: str) -> BucketSums:
        """Return the sums by bucket of a score column, or rows of groups."""
        return cast(BucketSums, self.parts[name, BY_BUCKET])

    def count_rows(self, rows: np.ndarray | int, positives: np.ndarray | int) -> None:
        """Count rows and positives without groups, by slice or of all rows."""
        self.counts.add(_ROWS, rows)
        self.counts.add(_POSITIVES, positives)

    def count_clusters(
        self,
        starts: np.ndarray,
        slices: np.ndarray,
        clusters: Clusters | None,
        buckets: np.ndarray | None,
    ) -> None:
        """Count nested clusters, and add rows of groups by bucket.

        Parameters
        ----------
        starts : ndarray of int64, shape (groups + 1,)
            First row of each group, then the number of rows.
        slices : ndarray of int64, shape (groups,), or (0,)
            The slice of each group.
        clusters : Clusters or None
            Nested clusters of all groups.
        buckets : ndarray of int64, shape (groups,), or None
            As in `Chunk`.
        """
        if buckets is not None:
            self.buckets("").add(0, np.diff(starts), None, rows_of_buckets(buckets, slices))
        if clusters is not None:
            rows = clusters.count(np.diff(starts))
            every = np.ones(len(rows), np.bool_)
            self.counts.add(_CLUSTERS, clusters.by_slice(every))
            self.sizes.add(np.stack([rows, np.square(rows)]), clusters.slices)

    def count_negatives(self, rows: int) -> None:
        """Count rows of negative grade, of all rows."""
        self.counts.add(_NEGATIVES, rows)

    def add(
        self,
        models: Sequence[tuple[RankedGroups, Measured]],
        slices: np.ndarray,
        clusters: Clusters | None,
        buckets: np.ndarray | None,
        measures: Sequence[int],
    ) -> None:
        """Add what a tally does not: the terms of nested clusters, and of buckets.

        Parameters
        ----------
        models : sequence of (RankedGroups, Measured)
            Of each model, which ranks all groups.
        slices, clusters, buckets
            As for `count_clusters`.
        measures : sequence of int
            Positions in the plan.
        """
        plan = self._plan
        for m in measures:
            measure = plan.measures[m]
            is_sum = measure.aggregate == "sum"
            terms = [plan.program.terms(m, *of_model) for of_model in models]
            for model, (values, weights) in enumerate(terms):
                if clusters is not None and not self.means[model].add_nested(
                    m, values, weights, clusters, slices, is_sum=is_sum
                ):
                    raise too_large(measure)
                if buckets is not None and has_buckets(measure):
                    rows = rows_of_buckets(buckets, slices)
                    self.buckets(plan.roles.scores[model]).add(m, values, weights, rows)
            if clusters is not None and measure.in_slices:
                for model in plan.candidates:
                    sides = terms[cast(int, plan.baseline)], terms[model]
                    both, of_both = [v for v, _ in sides], [w for _, w in sides]
                    self.pairs[model].add_nested(m, both, of_both, clusters)

    def absorb(self, tally: Tally) -> None:
        """Add the sums of a tally, whose memory they may take over."""
        nested = self._plan.roles.nested
        sizes = None if nested else self.sizes
        tally.add_to(sizes, self.counts, self.means, self.pairs, self._plan.program.reasons)

    def to_arrays(self, where: Rows) -> StateArrays:
        """Write the sums of all slices that there is memory for; see `take`."""
        shown = 5 if self._plan.roles.nested else 4 if self.negatives() else 3
        counts = self.counts.tables[0, :, :shown]
        sizes = self.sizes.to_arrays("sizes", len(counts))
        arrays = {(where, "", TOTALS): {"counts": counts, **sizes}}
        return arrays | {(where, *at): state.to_arrays() for at, state in self._states()}

    def _states(self) -> list[tuple[tuple[str, str], MeanState | PairedState | BucketSums]]:
        """List the parts that are stored as states of their own."""
        kinds = MeanState | PairedState | BucketSums
        return [(at, state) for at, state in self.parts.items() if isinstance(state, kinds)]

    @classmethod
    def from_arrays(cls, plan: Plan, arrays: StateArrays, where: Rows) -> Self:
        """Read the sums that `to_arrays` wrote."""
        sums = cls(plan)
        read(arrays, where, "", TOTALS, sums._read_counts)
        slices = sums.counts.tables.shape[1]
        for at, like in sums._states():
            sums.parts[at] = read(arrays, where, *at, partial(like.read_like, slices))
        return sums

    def _read_counts(self, arrays: Mapping[str, np.ndarray]) -> None:
        counts = arrays["counts"]
        size = self.counts.tables.shape[2]
        wrong = counts.dtype != np.int64 or counts.ndim != 2 or not 3 <= counts.shape[1] <= size
        if wrong or counts.min(initial=0) < 0:
            raise ValueError(f"counts of totals are {counts.dtype} of shape {counts.shape}")
        self.parts[_COUNTS] = SliceCounts(counts[np.newaxis]).widened(size)
        self.parts[_SIZES] = ExactSums.from_arrays(_SIZE_TERMS, arrays, "sizes", len(counts))

    def of_measures(self, plan: Plan, indices: Sequence[int]) -> Sums:
        """Select the sums of some measures; `plan` must list the same ones."""
        of_models = {at: state.of_measures(indices) for at, state in self._states() if at[0]}
        sums = self.with_parts(self.parts | of_models)
        sums._plan = plan
        return sums

    def use_buckets(self) -> None:
        """Take buckets as the independent clusters."""
        plan, count = self._plan, self.counts.tables.shape[1]
        of_rows, scores = slice_of_rows(count), plan.roles.scores
        terms = [
            [
                self.buckets(name).terms(m, count) if has_buckets(measure) else None
                for m, measure in enumerate(plan.measures)
            ]
            for name in scores
        ]
        for score, mean, of_model in zip(scores, self.means, terms, strict=True):
            self.parts[score, GROUPS] = mean.with_clusters(of_model, of_rows)
        for model, pair in self.pairs.items():
            sides = zip(terms[cast(int, plan.baseline)], terms[model], strict=True)
            both = [None if a is None or b is None else (a, b) for a, b in sides]
            self.parts[scores[model], PAIRS] = pair.with_clusters(both, of_rows)
        rows = self.buckets("").terms(0, count)[0]
        self.parts[_COUNTS] = self.counts.widened(_CLUSTERS + 1)
        self.counts.tables[:, :, _CLUSTERS] = 0
        self.counts.add(_CLUSTERS, np.bincount(of_rows[rows > 0]))
        self.parts[_SIZES] = ExactSums(_SIZE_TERMS)
        self.sizes.add(np.stack([rows, np.square(rows)]), of_rows)
        self.uses_buckets = True

    def groups(self, slice_index: int = 0) -> int:
        """Count the groups of a slice."""
        return self.counts.at(slice_index, _GROUPS)

    def clusters(self, slice_index: int = 0) -> int:
        """Count the nested clusters, or buckets; by default a group is one."""
        nested = self._plan.roles.nested or self.uses_buckets
        return self.counts.at(slice_index, _CLUSTERS if nested else _GROUPS)

    def has_few_groups(self, slice_index: int) -> bool:
        """Return whether a slice has fewer than `min_groups` groups."""
        return self._plan.grouped and self.groups(slice_index) < self._plan.min_groups

    def rows(self, slice_index: int = 0) -> int:
        """Count the rows of a slice."""
        return self.counts.at(slice_index, _ROWS)

    def positives(self, slice_index: int = 0) -> int:
        """Count the rows of grade >= 1 of a slice."""
        return self.counts.at(slice_index, _POSITIVES)

    def negatives(self) -> int:
        """Count the rows of negative grade, of all rows."""
        return self.counts.at(0, _NEGATIVES)

    def effective_groups(self, slice_index: int = 0) -> float:
        """Compute `effective_groups` of the rows of groups, or of nested clusters."""
        return effective_groups(self.squares(slice_index), self.sizes.total(1, slice_index))

    def squares(self, slice_index: int = 0) -> float:
        """Sum n^2 over the groups, or nested clusters, of n rows."""
        return self.sizes.total(0, slice_index)

    @property
    def slice_indices(self) -> np.ndarray:
        """The indices of the slices that have a row."""
        return np.flatnonzero(self.counts.tables[0, :, _ROWS])


class SliceStates(States):
    """The pooled states of each slice of a slicing; threads share them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self.parts: dict[int, PooledStates] = {}

    def of(self, slice_index: int) -> PooledStates:
        """Return the pooled states of one slice."""
        with self._lock:
            if slice_index not in self.parts:
                self.parts[slice_index] = PooledStates(self._plan)
            return self.parts[slice_index]

    def use_buckets(self) -> None:
        """Take buckets as the independent clusters."""
        for states in self.parts.values():
            states.use_buckets()


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


class Addition(NamedTuple):
    """How the groups of a chunk are added to sums.

    Parameters
    ----------
    sums : Sums
    tally : Tally
        Of the calling thread.
    lines : sequence of ndarray of int64
        The units of each model to add.
    slices : ndarray of int64, shape (groups,), or (0,)
        The slice of each group; an empty array stands for the first slice.
    clusters : Clusters or None
        Nested clusters of the groups, in each slice.
    """

    sums: Sums
    tally: Tally
    lines: Sequence[np.ndarray]
    slices: np.ndarray = NO_SLICES
    clusters: Clusters | None = None


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
        # By the position of the sums; of all rows, too, where slices have them all.
        self._tallies: dict[tuple[int, bool], Tally] = {}
        self.pooled_states = pooled_states or [SliceStates(plan) for _ in slicings]
        self.left_out = rows_left_out_by(plan.roles)  # rows, by options; no array has them
        self.soft = 0  # rows with a label in ]0, 1[; no array has them
        self.largest: LargestGroup | None = None  # of all rows, if it may be dominant

    def tally(self, number: int, of_all: bool = False) -> Tally:
        """Return what adds to some sums, and to those of all rows if `of_all`."""
        tally = self._tallies.get((number, of_all))
        if tally is None:
            units = self._plan.units
            lines = units.of_slices if number else units.all
            tally = self._tallies[number, of_all] = Tally(units, lines)
        return tally

    def settle(self) -> None:
        """Add the sums of all tallies, before anything reads them."""
        for (number, of_all), tally in self._tallies.items():
            if of_all:
                self.overall.absorb(tally.of_all())
            self.sums[number].absorb(tally)
        self._tallies = {}

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
        self.left_out.update(other.left_out)
        self.soft += other.soft
        self.largest = larger(self.largest, other.largest)
        for key, tally in other._tallies.items():
            if self._tallies.setdefault(key, tally) is not tally:
                self._tallies[key].merge(tally)
        for sums, more in zip(self.sums, other.sums, strict=True):
            sums.merge(more)
        if other.pooled_states is not self.pooled_states:
            for states, more_states in zip(self.pooled_states, other.pooled_states, strict=True):
                states.merge(more_states)

    def use_buckets(self) -> None:
        """Take buckets as the independent clusters, of a state that is read."""
        for sums, states in zip(self.sums, self.pooled_states, strict=True):
            sums.use_buckets()
            states.use_buckets()

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
                    states.merge_part(code, pooled_states.load(arrays, where, numbers))
        return totals

    def _slicings(self) -> Iterator[tuple[str, Slices, Sums, SliceStates]]:
        """Yield the sums and states of all rows, then of each slicing."""
        slicings = [("", _ALL_ROWS)]
        slicings += [(str(one.spec), one.slices()) for one in self._plan.slice_encoders]
        for (by, slices), sums, states in zip(slicings, self.sums, self.pooled_states, strict=True):
            yield by, slices, sums, states
