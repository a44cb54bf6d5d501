"""Batches whose groups are contiguous -> chunks of whole groups.

Batches are cut into stretches of rows. A worker validates a stretch, finds the groups in it and
evaluates those that lie wholly inside. The rows before its first edge and after its last belong to
groups that span stretches, seams: they are put together and evaluated, many at a time, as chunks of
their own. Memory is bounded by a few stretches and the largest group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.threads import in_order
from fastrank_eval.engine.chunk_eval import ThreadTotals, evaluate_chunk
from fastrank_eval.engine.group_values import GroupValues
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.totals import Totals
from fastrank_eval.groups.boundaries import (
    KeyRun,
    Keys,
    KeyWatch,
    group_starts,
    key_run,
    key_text,
    keys_at,
    same_key,
)
from fastrank_eval.groups.chunk import Chunk
from fastrank_eval.io.columns import Columns, concatenate
from fastrank_eval.io.reader import WorkBatch, in_scratch, read_batch, rebatch
from fastrank_eval.io.source import Batch
from fastrank_eval.io.validate import columns_of

#: Groups that span stretches wait until there are this many.
_SEAMS = 256


@dataclass(slots=True)
class GroupResults:
    """Results of consecutive groups, or a place kept for one group that spans stretches.

    Parameters
    ----------
    keys : tuple of pyarrow.Array
    values : GroupValues or None
    firsts : ndarray of int64, shape (groups,)
        Number of the group's first row in the whole input.
    """

    keys: Keys
    values: GroupValues | None
    firsts: np.ndarray


@dataclass(slots=True)
class BatchResult:
    """What a worker makes of one stretch.

    Parameters
    ----------
    head : Columns
        Rows before the first edge: the whole stretch, if it has none.
    inside : Piece or None
        Groups that begin and end inside.
    tail : Columns or None
        Rows from the last edge on; None if there is no edge.
    run : KeyRun or None
        Keys of the groups that begin at an edge, the tail's included, if they are watched.
    """

    head: Columns
    inside: GroupResults | None = None
    tail: Columns | None = None
    run: KeyRun | None = None


def evaluate_stream(
    parts: Iterable[Batch],
    plan: Plan,
    watch: KeyWatch | None,
    columns_at: Callable[[pa.RecordBatch, int], Columns] | None = None,
) -> tuple[Totals, list[GroupResults]]:
    """Evaluate rows whose groups are contiguous.

    Parameters
    ----------
    parts : iterable of pyarrow.RecordBatch or Unread
    plan : Plan
    watch : KeyWatch or None
        Notices keys that come back; None where they cannot.
    columns_at : callable, optional
        Makes columns of a batch and the number of its first row; by default they are validated.

    Returns
    -------
    Tally, list of Piece
        Sums, and the results of the groups in order (empty unless ``plan.per_group``).

    Raises
    ------
    ReturningKey
        A group came back after another.
    """
    thread_totals = ThreadTotals(plan)
    keep = watch is not None and watch.keep
    pieces: list[GroupResults] = []
    open_rows: list[Columns] = []
    seams: list[tuple[Columns, Keys, GroupResults | None]] = []
    seam_rows = 0

    def look(job: WorkBatch) -> BatchResult:
        read = read_batch(job[0])
        batch = in_scratch(read)
        columns = columns_at(batch, job[1]) if columns_at else columns_of(batch, plan.roles, job[1])

        def part(lo: int, hi: int) -> Columns:
            """Rows that outlive this call, and so the scratch they may lie in."""
            return columns.slice(lo, hi) if len(read) == 1 else columns.slice(lo, hi).copy()

        starts = group_starts(columns.keys) if columns.rows else np.empty(0, np.int64)
        if not len(starts):
            return BatchResult(part(0, columns.rows))
        lo, hi = int(starts[0]), int(starts[-1])
        run = None if watch is None else key_run(columns.keys, starts, keep)
        inside = None
        if len(starts) > 1:

            def name(group: int) -> str:
                return key_text(columns.keys, plan.roles.group, int(starts[group]))

            chunk = Chunk(columns.slice(lo, hi).drop_keys(), starts - lo)
            values = evaluate_chunk(chunk, plan, thread_totals.mine(), name)
            if plan.per_group:
                keys = keys_at(columns.keys, starts[:-1])
                inside = GroupResults(keys, values, columns.first_rows(starts))
        return BatchResult(part(0, lo), inside, part(hi, columns.rows), run)

    def close() -> None:
        nonlocal seam_rows
        if not open_rows:
            return
        keys = open_rows[0].keys
        piece = None
        if plan.per_group:
            earliest = [part.first_rows(np.array([0, part.rows])) for part in open_rows]
            piece = GroupResults(
                keys_at(keys, np.zeros(1, np.int64)), None, np.min(earliest, axis=0)
            )
            pieces.append(piece)
        # A copy: a view of a few rows would keep its whole batch in memory.
        parts = [part.drop_keys() for part in open_rows]
        rows = concatenate(parts) if len(parts) > 1 else parts[0].take(np.arange(parts[0].rows))
        seams.append((rows, keys_at(keys, np.zeros(1, np.int64)), piece))
        seam_rows += rows.rows
        open_rows.clear()
        if len(seams) >= _SEAMS or seam_rows >= plan.batch_rows:
            flush()

    def flush() -> None:
        nonlocal seam_rows
        if not seams:
            return
        starts = np.concatenate([[0], np.cumsum([rows.rows for rows, _, _ in seams])])
        chunk = Chunk(concatenate([rows for rows, _, _ in seams]), starts)

        def name(group: int) -> str:
            return key_text(seams[group][1], plan.roles.group, 0)

        values = evaluate_chunk(chunk, plan, thread_totals.mine(), name)
        for g, (_, _, piece) in enumerate(seams):
            if piece is not None:
                piece.values = values.take(slice(g, g + 1))
        seams.clear()
        seam_rows = 0

    for outcome in in_order(plan.threads, look, rebatch(parts, plan.batch_rows)):
        head = outcome.head
        if not head.rows:
            continue
        if not (open_rows and same_key(open_rows[0].keys, 0, head.keys, 0)):
            close()
            if watch is not None:
                watch.add(key_run(head.keys, np.zeros(1, np.int64), keep))
        open_rows.append(head)
        if outcome.tail is None:
            continue
        close()
        if watch is not None and outcome.run is not None:
            watch.add(outcome.run)
        if outcome.inside is not None:
            pieces.append(outcome.inside)
        open_rows.append(outcome.tail)
    close()
    flush()
    if watch is not None:
        watch.finish()
    return thread_totals.merged(), pieces
