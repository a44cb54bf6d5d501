"""Evaluate a chunk of groups by one plan, and the slices of its rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.engine.group_table import GroupTable, largest_in_chunk
from fastrank_eval.engine.plan import Plan, constant_columns
from fastrank_eval.engine.program import too_large
from fastrank_eval.engine.totals import Addition, PooledStates, SliceStates, Sums, Totals
from fastrank_eval.groups.chunk import Chunk, Scored
from fastrank_eval.groups.labels import Labels
from fastrank_eval.groups.ranking import Ranking, SubtopicRows, rank, ranking_in_row_order
from fastrank_eval.groups.scan import Keys, find_labels, value_text
from fastrank_eval.groups.ties import find_repeated
from fastrank_eval.io.keys import group_ids
from fastrank_eval.io.reader import RepeatedItemError
from fastrank_eval.slicing.slicer import SliceEncoder, Slicings
from fastrank_eval.stats.means import Clusters, buckets_of
from fastrank_eval.stats.tally import Measured, RankedGroups, Tally, Units


def evaluate_chunk(
    chunk: Chunk,
    plan: Plan,
    totals: Totals,
    name: Callable[[int], str],
    keys: Callable[[np.ndarray], Keys] | None = None,
    rankings: Sequence[Ranking] = (),
) -> GroupTable | None:
    """Rank whole groups, compute every measure and add to the totals.

    Parameters
    ----------
    chunk : Chunk
        Whole groups.
    plan : Plan
    totals : Totals
        Those of the calling thread.
    name : callable
        Maps the position of a group to the text of its key, for messages.
    keys : callable, optional
        Maps positions of groups to their keys, to name the largest group.
    rankings : sequence of Ranking
        Of each model, if rows were ranked elsewhere.

    Returns
    -------
    GroupTable or None
        Without keys. None unless ``plan.per_group``.
    """
    if chunk.grouped and chunk.columns.item is not None:
        _refuse_repeated_items(chunk, chunk.columns.item, name)
    if plan.buckets and keys is not None:
        chunk = replace(chunk, buckets=_buckets(chunk, keys, plan.roles.outer))
    labels = chunk.labels or find_labels(chunk.columns.label, chunk.starts, plan.skip_empty)
    values = None
    if plan.per_group:
        rows = labels.starts[1:] - labels.starts[:-1]
        positives = labels.relevant_of_each(1.0)
        if not labels.skip_empty:  # a view would keep all memory of the scan
            positives = positives.copy()
        values = GroupTable.empty(rows, positives, plan)
    codes = _slice_codes(chunk, plan, labels)
    units = plan.units
    additions = _of_whole_groups(chunk, totals, units, codes)
    positives, most = labels.positives, 0
    for sums, tally, _, slices, clusters in additions:
        if chunk.grouped:
            most = tally.count(labels.starts, positives, labels.ranked_groups, slices)
            sums.count_clusters(chunk.starts, slices, clusters, chunk.buckets)
        else:
            sums.count_rows(chunk.columns.rows, int(positives.sum()))
    if additions[0].sums is not totals.overall and any(map(len, units.others)):
        additions.append(Addition(totals.overall, totals.tally(0), units.others))
    states = totals.overall_states if plan.pooled_states else None
    measure_chunk(
        chunk, plan, labels, additions, states, name, group_values=values, rankings=rankings
    )
    if values is not None:
        values.first_rows = chunk.first_rows
        if chunk.first_rows is None:
            values.first_rows = chunk.columns.first_rows(chunk.starts)
    if keys is not None and chunk.grouped:
        count_largest(chunk, plan, totals, keys, most)
    if labels.min_grade < 0:
        totals.overall.count_negatives(labels.negatives)
    totals.soft += labels.soft
    if codes:
        _add_slices(chunk, plan, totals, labels, codes, name)
    return values


def _of_whole_groups(
    chunk: Chunk, totals: Totals, units: Units, codes: Sequence[np.ndarray]
) -> list[Addition]:
    """List the sums that get whole groups: of all rows and of slices."""
    clusters = None if chunk.clusters is None else Clusters(chunk.clusters)
    has_slices = clusters is None and chunk.buckets is None
    additions: list[Addition] = []
    for number, (sums, of_groups) in enumerate(zip(totals.slices, codes, strict=True), 1):
        if chunk.grouped and len(of_groups) == chunk.groups:
            slices, of_slices = frozen(of_groups.astype(np.int64)), None
            if clusters is not None:
                of_slices = Clusters.of(clusters.starts, slices)
            # The first slices have all groups: their sums are those of all rows, too.
            tally = totals.tally(number, has_slices and not additions)
            additions.append(Addition(sums, tally, units.of_slices, slices, of_slices))
    if not additions or not has_slices:
        tally = totals.tally(0)
        additions.insert(0, Addition(totals.overall, tally, units.all, clusters=clusters))
    return additions


def _buckets(chunk: Chunk, keys: Callable[[np.ndarray], Keys], outer: int) -> np.ndarray:
    """Return the bucket of each group's cluster."""
    clusters = np.arange(chunk.groups + 1) if chunk.clusters is None else chunk.clusters
    buckets = buckets_of(group_ids(keys(clusters[:-1])[:outer]))
    return frozen(np.repeat(buckets, np.diff(clusters)))


def count_largest(
    chunk: Chunk, plan: Plan, totals: Totals, keys: Callable[[np.ndarray], Keys], most: int
) -> None:
    """Remember the largest cluster, by default a group of `most` rows."""
    starts, clusters, outer = chunk.starts, chunk.clusters, plan.roles.outer
    if clusters is not None:
        starts = starts[clusters]
        most = int(np.diff(starts).max(initial=0))

    def keys_of(indices: np.ndarray) -> Keys:
        return keys(indices if clusters is None else clusters[indices])[:outer]

    names = plan.roles.keys[:outer]
    totals.largest = largest_in_chunk(totals.largest, starts, most, names, keys_of)


def _refuse_repeated_items(chunk: Chunk, item: pa.Array, name: Callable[[int], str]) -> None:
    """Raise if a group has an item twice: it would count twice."""
    pair = find_repeated(item, chunk.starts)
    if pair is None:
        return
    group = int(np.searchsorted(chunk.starts, pair[1], side="right")) - 1
    rows = tuple(sorted(map(chunk.columns.row_number, pair)))
    raise RepeatedItemError(value_text(item, pair[1]), name(group), rows)


def measure_chunk(
    chunk: Chunk,
    plan: Plan,
    labels: Labels,
    additions: Sequence[Addition],
    pooled_states: PooledStates | None,
    name: Callable[[int], str],
    *,
    in_slices: bool = False,
    group_values: GroupTable | None = None,
    rankings: Sequence[Ranking] = (),
) -> None:
    """Compute each measure of whole groups, add it to sums and pooled states.

    Parameters
    ----------
    chunk : Chunk
    plan : Plan
    labels : Labels
        Of the chunk.
    additions : sequence of Addition
        The sums of all rows or of slices that get the groups.
    pooled_states : PooledStates or None
        None: the rows are added to no state.
    name : callable
        Maps the position of a group to the text of its key, for messages.
    in_slices : bool
        Leave out measures that slices do not have.
    group_values : GroupTable, optional
        Receives the values of each group, if the plan keeps them.
    rankings : sequence of Ranking
        As in `evaluate_chunk`.
    """
    columns = chunk.columns
    roles = plan.roles
    group_weights = constant_columns(chunk, plan, name) if roles.group_weights else {}
    subtopic_rows = None
    if columns.subtopics is not None:
        subtopic_rows = SubtopicRows.of(columns.subtopics, chunk.starts, columns.item)
    fields = plan.field_codes(columns.named_columns) if roles.fields else {}
    program = plan.program
    models: list[tuple[RankedGroups, Measured]] = []
    rows: list[Scored] = []
    for model, score in enumerate(roles.scores):
        every_row = None
        if not rankings:
            scored = Scored.of(chunk, model, labels, fields, roles)
            rows.append(scored)
            if plan.ranks or plan.presorted:
                ranked_rows = scored.ranked_rows(plan.presorted, score)
        if program.measures:
            if rankings:
                ranking = rankings[model]
            elif plan.ranks:
                ranking = rank(scored, plan.ties, ranked_rows, subtopic_rows)
                if scored.unselected is not None and program.ranks_every_row:
                    every_row = _rank_every_row(plan, scored)
            else:
                ranking = ranking_in_row_order(scored)
            measured = program.measure(ranking, every_row, model, in_slices, group_weights, name)
            counts = ranking.rows, ranking.relevant(1.0)
            groups = RankedGroups(labels.starts, *counts, ranking.ranked_groups)
            if group_values is not None:
                group_values.put(plan, model, groups, measured)
            models.append((groups, measured))
    if pooled_states is not None:
        if chunk.clusters is not None:
            whole, of_whole = chunk.of_clusters(labels)
            indices = range(len(plan.roles.scores))
            rows = [Scored.of(whole, model, of_whole, fields, plan.roles) for model in indices]
        pooled_states.add(rows)
    if models:
        _add(models, plan, additions, chunk.buckets)


def _add(
    models: Sequence[tuple[RankedGroups, Measured]],
    plan: Plan,
    additions: Sequence[Addition],
    buckets: np.ndarray | None,
) -> None:
    """Add the measures of all models to sums."""
    units = plan.units
    # Clusters and buckets have all groups. A model that leaves rows unscored ranks every group.
    of_all = buckets is not None or additions[0].clusters is not None
    if of_all or any(groups.ranked is not models[0][0].ranked for groups, _ in models[1:]):
        models = [groups.spread_all(measured, units.measures) for groups, measured in models]
    base = None if plan.baseline is None else models[plan.baseline][1]
    for sums, tally, lines, slices, clusters in additions:
        for of_model, (groups, measured) in zip(lines, models, strict=True):
            m = tally.add(of_model, groups, measured, base, slices)
            if m is not None:
                raise too_large(plan.measures[m])
        if of_all:
            measures = [u.measure for u in units.measures if u.in_slices or lines is units.all]
            sums.add(models, slices, clusters, buckets, measures)


def _rank_every_row(plan: Plan, scored: Scored) -> Ranking:
    """Rank all rows of a chunk, those without a score last."""
    every_row = replace(scored.every_row, unjudged=None)
    return replace(rank(every_row.to_rank(), plan.ties, None), scored=every_row)


class ThreadTotals:
    """The totals of each thread of a run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        plan.units  # noqa: B018 -- threads share it
        # Of all threads; all share the pooled states of the first.
        self._totals: list[Totals] = []
        self._own = threading.local()
        self._lock = threading.Lock()

    def get(self) -> Totals:
        """Return the totals of the calling thread."""
        own = self._own.__dict__
        if "totals" not in own:
            with self._lock:
                shared = self._totals[0].pooled_states if self._totals else None
                own["totals"] = Totals(self.plan, shared)
                self._totals.append(own["totals"])
        totals: Totals = own["totals"]
        return totals

    def merge(self) -> Totals:
        """Sum the totals of all threads, which add no more."""
        first, *others = self._totals or [Totals(self.plan)]
        for totals in others:
            first.merge(totals)
        first.settle()
        self._totals, self._own = [first], threading.local()
        return first


def _slice_codes(chunk: Chunk, plan: Plan, labels: Labels) -> list[np.ndarray]:
    """Encode the slice of each group, or of each row, for each slicing."""
    if plan.slicings is None:
        return []
    columns, coded = len(plan.slicings.columns), chunk.columns.named_columns
    coded = coded[len(coded) - columns :]
    return plan.slicings.codes(coded, np.diff(chunk.starts), labels.relevant_of_each(1.0))


def _add_slices(
    chunk: Chunk,
    plan: Plan,
    totals: Totals,
    labels: Labels,
    slice_codes: Sequence[np.ndarray],
    name: Callable[[int], str],
) -> None:
    """Add rows and parts of groups to the slices of each slicing.

    Parameters
    ----------
    chunk : Chunk
    plan : Plan
    totals : Totals
    labels : Labels
        Of the chunk.
    slice_codes : sequence of ndarray of int32
        For each slicing the slices of groups or of rows, as in `Slicings.codes`.
    name : callable
        Maps the position of a group to the text of its key, for messages.
    """
    # The parts of divided groups need no codes of slices.
    arrays = chunk.columns.arrays
    arrays = arrays[: len(arrays) - len(cast(Slicings, plan.slicings).columns)]
    chunk = replace(chunk, columns=chunk.columns._replace(arrays=arrays))
    whole = chunk.of_clusters(labels)[0] if plan.pooled_states else chunk
    slicings = zip(
        plan.slice_encoders, slice_codes, totals.slices, totals.pooled_states[1:], strict=True
    )
    for number, (by, codes, sums, pooled_states) in enumerate(slicings, 1):
        is_whole = chunk.grouped and len(codes) == chunk.groups
        if is_whole and not plan.pooled_states:
            continue
        if len(codes) == chunk.groups:
            codes = np.repeat(codes, np.diff(chunk.starts))
        slice_indices = frozen(codes.astype(np.int64))
        if not chunk.grouped:
            in_slice = np.bincount(slice_indices)
            positives = np.bincount(
                slice_indices[labels.relevant_rows(1.0)], minlength=len(in_slice)
            )
            sums.count_rows(in_slice, positives)
        elif not is_whole:
            tally = totals.tally(number)
            _add_divided_groups(chunk, plan, sums, tally, slice_indices, name, by)
        if plan.pooled_states:
            _add_to_pooled_states(whole, plan, slice_indices, pooled_states)


def _add_divided_groups(
    chunk: Chunk,
    plan: Plan,
    sums: Sums,
    tally: Tally,
    slice_indices: np.ndarray,
    name: Callable[[int], str],
    by: SliceEncoder,
) -> None:
    """Add the rows that a group has in a slice as a group of their own."""
    rows = chunk.columns.rows
    order, group, slice_index, starts = (
        scratch(f"slices: {use}", rows + 1) for use in ("order", "group", "slice", "starts")
    )
    most = int(slice_indices.max()) + 1
    counts, slices_of_group = np.zeros(most, np.int64), np.empty(most + 1, np.int64)
    groups = _divide_groups(
        slice_indices, chunk.starts, counts, slices_of_group, order, starts, slice_index, group
    )
    divided = Chunk(
        chunk.columns.take(order[:rows], "slices: column"),
        frozen(starts[: groups + 1].copy()),
        buckets=None if chunk.buckets is None else frozen(chunk.buckets[group[:groups]]),
    )
    slices, clusters = frozen(slice_index[:groups].copy()), None
    if chunk.clusters is not None:
        clusters = Clusters.of(np.searchsorted(group[:groups], chunk.clusters), slices)

    def name_in_slice(position: int) -> str:
        return f"{name(int(group[position]))} (in a slice by {by.spec})"

    labels = find_labels(divided.columns.label, divided.starts, plan.skip_empty_in_slices)
    addition = Addition(sums, tally, plan.units.of_slices, slices, clusters)
    measure_chunk(divided, plan, labels, [addition], None, name_in_slice, in_slices=True)
    tally.count(labels.starts, labels.positives, labels.ranked_groups, slices)
    sums.count_clusters(divided.starts, slices, clusters, divided.buckets)


def _add_to_pooled_states(
    chunk: Chunk, plan: Plan, slice_indices: np.ndarray, pooled_states: SliceStates
) -> None:
    """Add the rows of each slice to its pooled states, group after group."""
    rows, slices = chunk.columns.rows, int(slice_indices.max()) + 1
    order, starts = np.empty(rows, np.int64), np.empty(rows + 1, np.int64)
    last_group, next_start = np.full(slices, -1), np.empty(slices, np.int64)
    next_row, edges = np.zeros(slices + 1, np.int64), np.zeros(slices + 1, np.int64)
    _sort_by_slice(
        slice_indices, chunk.starts, last_group, next_row, next_start, order, starts, edges
    )
    columns = chunk.columns.take(order)
    for slice_index in np.flatnonzero(np.diff(edges)).tolist():
        first, end = int(edges[slice_index]), int(edges[slice_index + 1])
        lo, hi = int(starts[first]), int(starts[end])
        edges_of_slice = frozen(starts[first : end + 1] - lo)
        buckets = chunk.buckets
        if buckets is not None:
            parts = np.searchsorted(chunk.starts, order[starts[first:end]], side="right") - 1
            buckets = frozen(buckets[parts])
        in_slice = Chunk(columns.slice(lo, hi), edges_of_slice, chunk.grouped, buckets=buckets)
        labels = find_labels(in_slice.columns.label, in_slice.starts, skip=False)
        fields = plan.field_codes(in_slice.columns.named_columns)
        models = range(len(plan.roles.scores))
        scored = [Scored.of(in_slice, m, labels, fields, plan.roles) for m in models]
        pooled_states.of(slice_index).add(scored)


@kernel
def _divide_groups(  # type: ignore[no-untyped-def]
    slice_indices, starts, counts, slices_of_group, order, new_starts, slice_index, group
):
    """Order the rows of each group by slice, and count the new groups.

    Slices of a group come in the order of their first rows. `new_starts`, `slice_index` and `group`
    get the first row, the slice and the old group of each new group.
    """
    count = 0
    for g in range(starts.shape[0] - 1):
        first = count
        for i in range(starts[g], starts[g + 1]):
            k = slice_indices[i]
            # Without a branch, which would be mispredicted for every other row.
            slices_of_group[count - first] = k
            slice_index[count] = k
            group[count] = g
            count += counts[k] == 0
            counts[k] += 1
        row = starts[g]
        for new in range(first, count):
            new_starts[new] = row
            k = slices_of_group[new - first]
            row += counts[k]
            counts[k] = new_starts[new]
        for i in range(starts[g], starts[g + 1]):
            k = slice_indices[i]
            order[counts[k]] = i
            counts[k] += 1
        for new in range(first, count):
            counts[slices_of_group[new - first]] = 0
    new_starts[count] = slice_indices.shape[0]
    return count


@kernel
def _sort_by_slice(  # type: ignore[no-untyped-def]
    slice_indices, starts, last_group, next_row, next_start, order, new_starts, edges
):
    """Sort rows by slice, stably.

    `new_starts` gets the first row of each part of a group, `edges` the first part of each slice.
    """
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            k = slice_indices[i]
            next_row[k + 1] += 1
            if last_group[k] != g:
                last_group[k] = g
                edges[k + 1] += 1
    for k in range(1, next_row.shape[0]):
        next_row[k] += next_row[k - 1]
        edges[k] += edges[k - 1]
    for k in range(last_group.shape[0]):
        last_group[k] = -1
        next_start[k] = edges[k]
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            k = slice_indices[i]
            row = next_row[k]
            if last_group[k] != g:
                last_group[k] = g
                new_starts[next_start[k]] = row
                next_start[k] += 1
            order[row] = i
            next_row[k] = row + 1
    new_starts[edges[edges.shape[0] - 1]] = slice_indices.shape[0]
