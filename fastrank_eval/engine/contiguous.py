"""Evaluate rows whose groups are contiguous, batch by batch.

A thread validates a batch, finds its groups and evaluates those that lie inside it. An edge is the
first row of a group. The rows before the first edge and after the last belong to spanning groups,
which have rows in several batches. Many spanning groups together make a chunk of their own. Memory
is bounded by a few batches and the largest group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.threads import map_jobs
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

#: Spanning groups are evaluated when there are this many.
_SPANNING_GROUPS = 256


@dataclass(slots=True)
class GroupResults:
    """Results of consecutive groups, or of one spanning group.

    Parameters
    ----------
    keys : tuple of pyarrow.Array
    values : GroupValues or None
        None: the spanning group is not evaluated yet.
    first_rows : ndarray of int64, shape (groups,)
        Number of the first row of each group in the whole input.
    """

    keys: Keys
    values: GroupValues | None
    first_rows: np.ndarray


@dataclass(slots=True)
class BatchResult:
    """The result of one batch.

    Parameters
    ----------
    head : Columns
        Rows before the first edge; all rows if there is no edge.
    inside : GroupResults or None
        Groups that begin and end in the batch.
    tail : Columns or None
        Rows from the last edge on; None if there is no edge.
    run : KeyRun or None
        Keys of the groups that begin at an edge, with that of the tail, if keys are watched.
    """

    head: Columns
    inside: GroupResults | None = None
    tail: Columns | None = None
    run: KeyRun | None = None


def evaluate_stream(
    batches: Iterable[Batch],
    plan: Plan,
    watch: KeyWatch | None,
    columns_at: Callable[[pa.RecordBatch, int], Columns] | None = None,
) -> tuple[Totals, list[GroupResults]]:
    """Evaluate batches whose groups are contiguous.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch or UnreadBatch
    plan : Plan
    watch : KeyWatch or None
        Detects keys that return after other keys; None if they cannot.
    columns_at : callable, optional
        Makes columns of a batch and the number of its first row; by default `columns_of`.

    Returns
    -------
    Totals, list of GroupResults
        Sums, and the results of the groups in order (empty unless ``plan.per_group``).

    Raises
    ------
    ReturningKey
        A key returned after another key.
    """
    thread_totals = ThreadTotals(plan)
    keep = watch is not None and watch.keep
    results: list[GroupResults] = []
    open_group: list[Columns] = []
    spanning: list[tuple[Columns, Keys, GroupResults | None]] = []
    spanning_rows = 0

    def evaluate_batch(job: WorkBatch) -> BatchResult:
        record_batches = read_batch(job[0])
        batch = in_scratch(record_batches)
        columns = columns_at(batch, job[1]) if columns_at else columns_of(batch, plan.roles, job[1])

        def copy_rows(lo: int, hi: int) -> Columns:
            """Select rows; copy them if they lie in scratch memory."""
            rows = columns.slice(lo, hi)
            return rows if len(record_batches) == 1 else rows.copy()

        starts = group_starts(columns.keys) if columns.rows else np.empty(0, np.int64)
        if only and columns.rows:
            starts = np.concatenate([[0], starts, [columns.rows]])
        if not len(starts):
            return BatchResult(copy_rows(0, columns.rows))
        lo, hi = int(starts[0]), int(starts[-1])
        # The last edge begins the tail.
        firsts = starts[:-1] if only else starts
        run = None if watch is None else key_run(columns.keys, firsts, keep)
        inside = None
        if len(starts) > 1:

            def name(group: int) -> str:
                return key_text(columns.keys, plan.roles.group, int(starts[group]))

            chunk = Chunk(columns.slice(lo, hi).drop_keys(), starts - lo)
            values = evaluate_chunk(chunk, plan, thread_totals.get(), name)
            if plan.per_group:
                keys = keys_at(columns.keys, starts[:-1])
                inside = GroupResults(keys, values, columns.first_rows(starts))
        return BatchResult(copy_rows(0, lo), inside, copy_rows(hi, columns.rows), run)

    def close_group() -> None:
        nonlocal spanning_rows
        if not open_group:
            return
        keys = open_group[0].keys
        result = None
        if plan.per_group:
            earliest = [part.first_rows(np.array([0, part.rows])) for part in open_group]
            result = GroupResults(
                keys_at(keys, np.zeros(1, np.int64)), None, np.min(earliest, axis=0)
            )
            results.append(result)
        # A copy: a view of a few rows would keep its whole batch in memory.
        parts = [part.drop_keys() for part in open_group]
        rows = concatenate(parts) if len(parts) > 1 else parts[0].take(np.arange(parts[0].rows))
        spanning.append((rows, keys_at(keys, np.zeros(1, np.int64)), result))
        spanning_rows += rows.rows
        open_group.clear()
        if len(spanning) >= _SPANNING_GROUPS or spanning_rows >= plan.batch_rows:
            evaluate_spanning()

    def evaluate_spanning() -> None:
        nonlocal spanning_rows
        if not spanning:
            return
        starts = np.concatenate([[0], np.cumsum([rows.rows for rows, _, _ in spanning])])
        chunk = Chunk(concatenate([rows for rows, _, _ in spanning]), starts)

        def name(group: int) -> str:
            return key_text(spanning[group][1], plan.roles.group, 0)

        values = evaluate_chunk(chunk, plan, thread_totals.get(), name)
        for g, (_, _, result) in enumerate(spanning):
            if result is not None:
                result.values = values.take(slice(g, g + 1))
        spanning.clear()
        spanning_rows = 0

    jobs = rebatch(batches, plan.batch_rows)
    begin = list(islice(jobs, 2))
    # Every group of an only batch is whole.
    only = len(begin) < 2
    jobs = chain(begin, jobs)
    del begin  # or it keeps two batches in memory until the end
    for result in map_jobs(plan.threads, evaluate_batch, jobs):
        head = result.head
        if head.rows:
            if not (open_group and same_key(open_group[0].keys, 0, head.keys, 0)):
                close_group()
                if watch is not None:
                    watch.add(key_run(head.keys, np.zeros(1, np.int64), keep))
            open_group.append(head)
        if result.tail is None:
            continue
        close_group()
        if watch is not None and result.run is not None:
            watch.add(result.run)
        if result.inside is not None:
            results.append(result.inside)
        if result.tail.rows:
            open_group.append(result.tail)
    close_group()
    evaluate_spanning()
    if watch is not None:
        watch.finish()
    return thread_totals.merge(), results
