"""Measure the groups of a chunk, whole and slice by slice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel, scratch
from fastrank_eval.engine.group_values import GroupValues
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.policies import (
    Contributions,
    RankedGroups,
    apply_policies,
    constant_columns,
)
from fastrank_eval.engine.totals import Measured, RowStates, SharedStates, SliceStates, Sums, Totals
from fastrank_eval.groups.chunk import Chunk, Scored
from fastrank_eval.groups.diversity import Coverage
from fastrank_eval.groups.labels import Labels
from fastrank_eval.groups.ranking import Ranking, rank, ranking_in_row_order
from fastrank_eval.slicing.slicer import SliceCodes
from fastrank_eval.stats.exact import NO_SLICES


def evaluate_chunk(
    chunk: Chunk, plan: Plan, totals: Totals, name: Callable[[int], str]
) -> GroupValues:
    """Rank whole groups, compute every measure and add to the tally.

    Parameters
    ----------
    chunk : Chunk
        Whole groups.
    plan : Plan
    tally : Tally
        This thread's own.
    name : callable
        A group's key as a reader would write it, for messages.

    Returns
    -------
    GroupValues
        Empty unless ``plan.per_group``.
    """
    labels = Labels.of(chunk.columns.label, chunk.starts, plan.skip_empty)
    seen = GroupValues.empty(chunk, plan)
    models = measure_chunk(chunk, plan, labels, totals.whole, totals.shared.whole, name, seen=seen)
    if plan.per_group:
        seen.put_positives(labels)
    totals.whole.see(np.diff(chunk.starts), labels.relevant_of_each(1.0))
    if plan.slicings:
        add_slices(chunk, plan, totals, labels, models, name)
    return seen


def measure_chunk(
    chunk: Chunk,
    plan: Plan,
    labels: Labels,
    sums: Sums,
    pools: RowStates | None,
    name: Callable[[int], str],
    *,
    slice_indices: np.ndarray = NO_SLICES,
    seen: GroupValues | None = None,
) -> list[Measured]:
    """Compute every measure of whole groups and add it to sums and pools.

    Parameters
    ----------
    chunk : Chunk
    plan : Plan
    labels : Labels
        Of the chunk.
    sums : Sums
    pools : RowStates or None
        None: they are not added to.
    name : callable
    lines : ndarray of int64, shape (groups,), or (0,)
        The line of the sums that each group is added to; without entries the first.
    seen : GroupValues, optional
        Where values of each group are entered, if the plan asks for them.

    Returns
    -------
    list of Measured
        The measures of groups of each model, where somebody needs them again.
    """
    columns = chunk.columns
    group_weights = constant_columns(chunk, plan, name)
    coverage = Coverage.of(columns.subtopics, chunk.starts, columns.item)
    fields = plan.field_codes(columns.measure_columns)
    models: list[Measured] = []
    rows: list[Scored] = []
    for model, score in enumerate(plan.roles.scores):
        scored = Scored.of(chunk, model, labels, fields, plan.roles.epsilons)
        if plan.ranks or plan.presorted:
            in_order = scored.in_order(plan.presorted, score)
        if plan.passes:
            ranking = (
                rank(scored, plan.ties, in_order, coverage)
                if plan.ranks
                else ranking_in_row_order(scored)
            )
            positives = ranking.relevant(1.0)
            groups = RankedGroups(chunk.starts, ranking.rows, positives, ranking.ranked_groups)
            found: dict[int, Contributions] = {}
            for m, value in _values(plan, ranking):
                one = apply_policies(plan, m, ranking, value, group_weights, name)
                sums.add(model, m, groups, one, slice_indices)
                if seen is not None and plan.per_group:
                    seen.put(model, m, groups, one)
                if plan.keeps_values:
                    found[m] = one
            sums.add_empty(model, groups, slice_indices)
            models.append((groups, found))
        rows.append(scored)
    if pools is not None and plan.pools:
        pools.add(rows)
    pair_models(plan, models, sums, slice_indices)
    return models


def pair_models(
    plan: Plan, models: list[Measured], sums: Sums, slice_indices: np.ndarray = NO_SLICES
) -> None:
    """Add the measures of groups of every model beside those of the baseline."""
    if plan.baseline is None or not models:
        return
    for model in plan.rivals:
        for m in models[model][1]:
            sums.pair(model, m, models[plan.baseline], models[model], slice_indices)


def _values(plan: Plan, ranking: Ranking) -> Iterator[tuple[int, np.ndarray]]:
    """Each measure of groups, by its position in the plan, with its values."""
    for together in plan.passes:
        members = [plan.measures[m] for m in together]
        for measure in members:
            measure.check_grades(ranking)
        values = np.empty((len(members), ranking.groups))
        type(members[0]).compute(members, ranking, values)
        yield from zip(together, values, strict=True)


class ThreadTotals:
    """A tally for each thread."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.thread_totals: list[Totals] = []
        self._pools = SharedStates(plan)
        self._own = threading.local()
        self._lock = threading.Lock()

    def mine(self) -> Totals:
        """The calling thread's own tally."""
        mine = getattr(self._own, "totals", None)
        if mine is None:
            mine = self._own.totals = Totals(self.plan, self._pools)
            with self._lock:
                self.thread_totals.append(mine)
        return cast(Totals, mine)

    def merged(self) -> Totals:
        """The sum of all threads' tallies."""
        total = Totals(self.plan, self._pools)
        for totals in self.thread_totals:
            total.merge(totals)
        return total


def add_slices(
    chunk: Chunk,
    plan: Plan,
    totals: Totals,
    labels: Labels,
    models: list[Measured],
    name: Callable[[int], str],
) -> None:
    """Add the groups of a chunk to the slices of each slicing.

    Parameters
    ----------
    chunk : Chunk
    plan : Plan
    tally : Tally
    labels : Labels
        Of the chunk.
    models : list of Measured
        What every group comes to for each model.
    name : callable
        A group's key as a reader would write it, for messages.
    """
    if plan.slicing is None:
        return
    starts = chunk.starts
    rows, relevant = np.diff(starts), labels.relevant_of_each(1.0)
    coded = (
        chunk.columns.measure_columns[-len(plan.slicing.columns) :] if plan.slicing.columns else ()
    )
    of_rows = plan.slicing.codes(coded, rows, relevant)
    # What is cut needs no codes of slices.
    named = chunk.columns.measure_columns[: len(chunk.columns.measure_columns) - len(coded)]
    chunk = replace(chunk, columns=replace(chunk.columns, measure_columns=named))
    for by, codes, sums, pools in zip(
        plan.slicing.slices, of_rows, totals.slices, totals.shared.slices, strict=True
    ):
        slice_indices = frozen(codes.astype(np.int64))
        if _is_constant(slice_indices, starts):
            _add_whole_groups(plan, sums, slice_indices[starts[:-1]], rows, relevant, models)
        else:
            _add_cut_groups(chunk, plan, sums, slice_indices, name, by)
        if plan.pools:
            _add_to_pools(chunk, plan, slice_indices, pools)


def _add_whole_groups(
    plan: Plan,
    sums: Sums,
    slice_indices: np.ndarray,
    rows: np.ndarray,
    positives: np.ndarray,
    models: list[Measured],
) -> None:
    """Add groups that lie in one slice each: their values are known."""
    slice_indices = frozen(slice_indices)
    for model, (groups, found) in enumerate(models):
        for m, values in found.items():
            sums.add(model, m, groups, values, slice_indices)
        sums.add_empty(model, groups, slice_indices)
    pair_models(plan, models, sums, slice_indices)
    sums.see(rows, positives, slice_indices)


def _add_cut_groups(
    chunk: Chunk,
    plan: Plan,
    sums: Sums,
    slice_indices: np.ndarray,
    name: Callable[[int], str],
    by: SliceCodes,
) -> None:
    """Add the part of each group that lies in each slice as a group of its own."""
    rows = chunk.columns.rows
    order, group, slice_index, starts = (
        scratch(f"slices: {use}", rows + 1) for use in ("order", "group", "line", "starts")
    )
    slices = int(slice_indices.max()) + 1
    counts, met = np.zeros(slices, np.int64), np.empty(slices + 1, np.int64)
    parts = _cut(slice_indices, chunk.starts, counts, met, order, starts, slice_index, group)
    cut = Chunk(
        chunk.columns.take(order[:rows], "slices: column"), frozen(starts[: parts + 1].copy())
    )
    slice_index = frozen(slice_index[:parts].copy())

    def named(at: int) -> str:
        return f"{name(int(group[at]))} (in a slice by {by.spec})"

    labels = Labels.of(cut.columns.label, cut.starts, plan.skip_empty)
    measure_chunk(cut, plan, labels, sums, None, named, slice_indices=slice_index)
    sums.see(np.diff(cut.starts), labels.relevant_of_each(1.0), slice_index)


def _add_to_pools(chunk: Chunk, plan: Plan, slice_indices: np.ndarray, pools: SliceStates) -> None:
    """Add the rows of each slice to what is kept of all of them, group after group."""
    rows, slices = chunk.columns.rows, int(slice_indices.max()) + 1
    order, starts = np.empty(rows, np.int64), np.empty(rows + 1, np.int64)
    met, fresh = np.full(slices, -1), np.empty(slices, np.int64)
    places, edges = np.zeros(slices + 1, np.int64), np.zeros(slices + 1, np.int64)
    _deal(slice_indices, chunk.starts, met, places, fresh, order, starts, edges)
    columns = chunk.columns.take(order)
    for slice_index in np.flatnonzero(np.diff(edges)).tolist():
        first, beyond = int(edges[slice_index]), int(edges[slice_index + 1])
        lo, hi = int(starts[first]), int(starts[beyond])
        part = Chunk(columns.slice(lo, hi), frozen(starts[first : beyond + 1] - lo))
        labels = Labels.of(part.columns.label, part.starts, skip_empty=False)
        fields = plan.field_codes(part.columns.measure_columns)
        models = range(len(plan.roles.scores))
        epsilons = plan.roles.epsilons
        pools.of(slice_index).add([Scored.of(part, m, labels, fields, epsilons) for m in models])


@kernel
def _is_constant(slice_indices, starts):  # type: ignore[no-untyped-def]
    for g in range(starts.shape[0] - 1):
        slice_index = slice_indices[starts[g]]
        for i in range(starts[g] + 1, starts[g + 1]):
            if slice_indices[i] != slice_index:
                return False
    return True


@kernel
def _cut(slice_indices, starts, counts, met, order, cuts, slice_index, group):  # type: ignore[no-untyped-def]
    """Rows of each group by line, lines as they come; where parts begin; how many there are."""
    found = 0
    for g in range(starts.shape[0] - 1):
        first = found
        for i in range(starts[g], starts[g + 1]):
            k = slice_indices[i]
            # Without a branch, which would be mispredicted for every other row.
            met[found - first] = k
            slice_index[found] = k
            group[found] = g
            found += counts[k] == 0
            counts[k] += 1
        at = starts[g]
        for part in range(first, found):
            cuts[part] = at
            k = met[part - first]
            at += counts[k]
            counts[k] = cuts[part]
        for i in range(starts[g], starts[g + 1]):
            k = slice_indices[i]
            order[counts[k]] = i
            counts[k] += 1
        for part in range(first, found):
            counts[met[part - first]] = 0
    cuts[found] = slice_indices.shape[0]
    return found


@kernel
def _deal(slice_indices, starts, met, places, fresh, order, cuts, edges):  # type: ignore[no-untyped-def]
    """Rows by line, stably; where parts of groups begin, and which of these begin a line."""
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            k = slice_indices[i]
            places[k + 1] += 1
            if met[k] != g:
                met[k] = g
                edges[k + 1] += 1
    for k in range(1, places.shape[0]):
        places[k] += places[k - 1]
        edges[k] += edges[k - 1]
    for k in range(met.shape[0]):
        met[k] = -1
        fresh[k] = edges[k]
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            k = slice_indices[i]
            at = places[k]
            if met[k] != g:
                met[k] = g
                cuts[fresh[k]] = at
                fresh[k] += 1
            order[at] = i
            places[k] = at + 1
    cuts[edges[edges.shape[0] - 1]] = slice_indices.shape[0]
