"""Chunks of whole groups -> the sums and pools of every slice of their rows.

A slice takes the rows of each group that belong to it: a group that lies wholly in one slice has
the values it has anyway, and any other is cut, each part being a group of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fastrank_eval.chunk import Chunk, Scored
from fastrank_eval.columns import frozen
from fastrank_eval.engine import measure_chunk, pair_models
from fastrank_eval.kernel import kernel
from fastrank_eval.labels import Labels
from fastrank_eval.plan import Plan
from fastrank_eval.scratch import scratch
from fastrank_eval.slices import SliceCodes
from fastrank_eval.tally import LinePools, Measured, Sums, Tally


def add_slices(
    chunk: Chunk,
    plan: Plan,
    tally: Tally,
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
    coded = chunk.columns.named[-len(plan.slicing.columns) :] if plan.slicing.columns else ()
    of_rows = plan.slicing.codes(coded, rows, relevant)
    # What is cut needs no codes of slices.
    named = chunk.columns.named[: len(chunk.columns.named) - len(coded)]
    chunk = replace(chunk, columns=replace(chunk.columns, named=named))
    for by, codes, sums, pools in zip(
        plan.slicing.slices, of_rows, tally.slices, tally.shared.slices, strict=True
    ):
        lines = frozen(codes.astype(np.int64))
        if _is_constant(lines, starts):
            _add_whole_groups(plan, sums, lines[starts[:-1]], rows, relevant, models)
        else:
            _add_cut_groups(chunk, plan, sums, lines, name, by)
        if plan.pools:
            _add_to_pools(chunk, plan, lines, pools)


def _add_whole_groups(
    plan: Plan,
    sums: Sums,
    lines: np.ndarray,
    rows: np.ndarray,
    positives: np.ndarray,
    models: list[Measured],
) -> None:
    """Add groups that lie in one slice each: their values are known."""
    lines = frozen(lines)
    for model, (groups, found) in enumerate(models):
        for m, settled in found.items():
            sums.add(model, m, groups, settled, lines)
        sums.add_empty(model, groups, lines)
    pair_models(plan, models, sums, lines)
    sums.see(rows, positives, lines)


def _add_cut_groups(
    chunk: Chunk,
    plan: Plan,
    sums: Sums,
    lines: np.ndarray,
    name: Callable[[int], str],
    by: SliceCodes,
) -> None:
    """Add the part of each group that lies in each slice as a group of its own."""
    rows = chunk.columns.rows
    order, group, line, starts = (
        scratch(f"slices: {use}", rows + 1) for use in ("order", "group", "line", "starts")
    )
    slices = int(lines.max()) + 1
    counts, met = np.zeros(slices, np.int64), np.empty(slices + 1, np.int64)
    parts = _cut(lines, chunk.starts, counts, met, order, starts, line, group)
    cut = Chunk(
        chunk.columns.take(order[:rows], "slices: column"), frozen(starts[: parts + 1].copy())
    )
    line = frozen(line[:parts].copy())

    def named(at: int) -> str:
        return f"{name(int(group[at]))} (in a slice by {by.spec})"

    labels = Labels.of(cut.columns.label, cut.starts, plan.skip_empty)
    measure_chunk(cut, plan, labels, sums, None, named, lines=line)
    sums.see(np.diff(cut.starts), labels.relevant_of_each(1.0), line)


def _add_to_pools(chunk: Chunk, plan: Plan, lines: np.ndarray, pools: LinePools) -> None:
    """Add the rows of each slice to what is kept of all of them, group after group."""
    rows, slices = chunk.columns.rows, int(lines.max()) + 1
    order, starts = np.empty(rows, np.int64), np.empty(rows + 1, np.int64)
    met, fresh = np.full(slices, -1), np.empty(slices, np.int64)
    places, edges = np.zeros(slices + 1, np.int64), np.zeros(slices + 1, np.int64)
    _deal(lines, chunk.starts, met, places, fresh, order, starts, edges)
    columns = chunk.columns.take(order)
    for line in np.flatnonzero(np.diff(edges)).tolist():
        first, beyond = int(edges[line]), int(edges[line + 1])
        lo, hi = int(starts[first]), int(starts[beyond])
        part = Chunk(columns.slice(lo, hi), frozen(starts[first : beyond + 1] - lo))
        labels = Labels.of(part.columns.label, part.starts, skip_empty=False)
        fields = plan.field_codes(part.columns.named)
        models = range(len(plan.roles.scores))
        epsilons = plan.roles.epsilons
        pools.of(line).add([Scored.of(part, m, labels, fields, epsilons) for m in models])


@kernel
def _is_constant(lines, starts):  # type: ignore[no-untyped-def]
    for g in range(starts.shape[0] - 1):
        line = lines[starts[g]]
        for i in range(starts[g] + 1, starts[g + 1]):
            if lines[i] != line:
                return False
    return True


@kernel
def _cut(lines, starts, counts, met, order, cuts, line, group):  # type: ignore[no-untyped-def]
    """Rows of each group by line, lines as they come; where parts begin; how many there are."""
    found = 0
    for g in range(starts.shape[0] - 1):
        first = found
        for i in range(starts[g], starts[g + 1]):
            k = lines[i]
            # Without a branch, which would be mispredicted for every other row.
            met[found - first] = k
            line[found] = k
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
            k = lines[i]
            order[counts[k]] = i
            counts[k] += 1
        for part in range(first, found):
            counts[met[part - first]] = 0
    cuts[found] = lines.shape[0]
    return found


@kernel
def _deal(lines, starts, met, places, fresh, order, cuts, edges):  # type: ignore[no-untyped-def]
    """Rows by line, stably; where parts of groups begin, and which of these begin a line."""
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            k = lines[i]
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
            k = lines[i]
            at = places[k]
            if met[k] != g:
                met[k] = g
                cuts[fresh[k]] = at
                fresh[k] += 1
            order[at] = i
            places[k] = at + 1
    cuts[edges[edges.shape[0] - 1]] = lines.shape[0]
