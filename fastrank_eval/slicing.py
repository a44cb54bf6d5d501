"""Chunks of whole groups -> the sums and pools of every slice of their rows.

A slice takes the rows of each group that belong to it: a group that lies wholly in one slice has
the values it has anyway, and any other is cut, each part being a group of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastrank_eval.chunk import Chunk, Scored
from fastrank_eval.columns import frozen
from fastrank_eval.engine import measure_chunk, pair_models
from fastrank_eval.kernel import kernel
from fastrank_eval.labels import Labels
from fastrank_eval.plan import Plan
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
    rows, relevant = np.diff(starts), labels.relevant_of_all(1.0)
    coded = chunk.columns.named[-len(plan.slicing.columns) :] if plan.slicing.columns else ()
    of_rows = plan.slicing.codes(coded, rows, relevant)
    for by, codes, sums, pools in zip(
        plan.slicing.slices, of_rows, tally.slices, tally.shared.slices, strict=True
    ):
        lines = frozen(codes.astype(np.int64))
        of_groups = lines[starts[:-1]] if _is_constant(lines, starts) else None
        if of_groups is not None:
            _add_whole_groups(plan, sums, of_groups, rows, relevant, models)
            if not plan.pools:
                continue
        part, part_lines, group = _cut(chunk, lines)
        if of_groups is None:

            def named(at: int, group: np.ndarray = group, by: SliceCodes = by) -> str:
                return f"{name(int(group[at]))} (in a slice by {by.spec})"

            cut = Labels.of(part.columns.label, part.starts, plan.skip_empty)
            measure_chunk(part, plan, cut, sums, None, named, lines=part_lines)
            _see(sums, part_lines, np.diff(part.starts), cut.relevant_of_all(1.0))
        if plan.pools:
            _add_to_pools(part, part_lines, plan, pools)


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
    _see(sums, lines, rows, positives)


def _see(sums: Sums, lines: np.ndarray, rows: np.ndarray, positives: np.ndarray) -> None:
    count = np.bincount(lines)
    of_rows, of_positives = np.zeros_like(count), np.zeros_like(count)
    np.add.at(of_rows, lines, rows)
    np.add.at(of_positives, lines, positives)
    sums.see(count, of_rows, of_positives)


def _cut(chunk: Chunk, lines: np.ndarray) -> tuple[Chunk, np.ndarray, np.ndarray]:
    """The same rows line by line, groups of a line in their order; the line and group of each."""
    rows = chunk.columns.rows
    number = int(lines.max()) + 1 if rows else 0
    order, starts = np.empty(rows, np.int64), np.empty(rows + 1, np.int64)
    line, group = np.empty(rows, np.int64), np.empty(rows, np.int64)
    groups = _deal(lines, chunk.starts, np.zeros(number + 1, np.int64), order, starts, line, group)
    part = Chunk(chunk.columns.take(order), starts[: groups + 1].copy())
    return part, line[:groups].copy(), group[:groups].copy()


def _add_to_pools(part: Chunk, lines: np.ndarray, plan: Plan, pools: LinePools) -> None:
    """Add the rows of each line to what is kept of it."""
    edges = np.flatnonzero(np.append(True, lines[1:] != lines[:-1])) if len(lines) else lines
    for first, beyond in zip(edges, [*edges[1:], len(lines)], strict=True):
        lo, hi = int(part.starts[first]), int(part.starts[beyond])
        chunk = Chunk(part.columns.slice(lo, hi), part.starts[first : beyond + 1] - lo)
        labels = Labels.of(chunk.columns.label, chunk.starts, skip_empty=False)
        fields = plan.field_codes(chunk.columns.named)
        for model, kept in enumerate(pools.of(int(lines[first]))):
            scored = Scored.of(chunk, model, labels, fields)
            for key, pool in kept.items():
                plan.pools[key].add_rows(pool, scored)


@kernel
def _is_constant(lines, starts):  # type: ignore[no-untyped-def]
    for g in range(starts.shape[0] - 1):
        line = lines[starts[g]]
        for i in range(starts[g] + 1, starts[g + 1]):
            if lines[i] != line:
                return False
    return True


@kernel
def _deal(lines, starts, places, order, cuts, line, group):  # type: ignore[no-untyped-def]
    """Rows by line, stably; where a line or a group begins anew, and how many such there are."""
    for i in range(lines.shape[0]):
        places[lines[i] + 1] += 1
    for k in range(1, places.shape[0]):
        places[k] += places[k - 1]
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            at = places[lines[i]]
            places[lines[i]] = at + 1
            order[at] = i
            group[at] = g
    found = 0
    for at in range(order.shape[0]):
        here = lines[order[at]]
        if at == 0 or here != lines[order[at - 1]] or group[at] != group[at - 1]:
            cuts[found] = at
            line[found] = here
            # Never past what has been read.
            group[found] = group[at]
            found += 1
    cuts[found] = order.shape[0]
    return found
