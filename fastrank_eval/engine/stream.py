"""Evaluate rows in order, whose groups are contiguous, or that have none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import UndefinedError
from fastrank_eval._lib.threads import map_jobs
from fastrank_eval.engine.evaluator import Evaluator, GroupResults
from fastrank_eval.groups.edges import (
    Groups,
    KeyRun,
    Keys,
    KeyWatch,
    key_run,
    key_text,
    keys_at,
    same_key,
)
from fastrank_eval.io.columns import Rows, concatenate
from fastrank_eval.io.reader import WorkBatch, in_scratch, read_batch, rebatch
from fastrank_eval.io.source import Batch
from fastrank_eval.io.validate import check_scores

#: Groups cut by a batch edge are evaluated when there are this many.
_CUT_GROUPS = 256


@dataclass
class BatchResult:
    """The result of one batch.

    Parameters
    ----------
    head : Rows or None
        Rows before the first edge; all rows if there is no edge.
    inside : list of (GroupResults or None)
        For each plan: groups that begin and end in the batch.
    tail : Rows or None
        Rows from the last edge on; None if there is no edge.
    run : KeyRun or None
        Keys of the groups that begin at an edge, with that of the tail, if keys are watched.
    undefined : UndefinedError or None
        The error of a group, if keys are watched: the group may have rows in later batches.
    """

    head: Rows | None
    inside: list[GroupResults | None]
    tail: Rows | None = None
    run: KeyRun | None = None
    undefined: UndefinedError | None = None


def evaluate_stream(
    batches: Iterable[Batch],
    evaluator: Evaluator,
    watch: KeyWatch | None,
    rows_at: Callable[[pa.RecordBatch, int], Rows] | None = None,
) -> list[list[GroupResults]]:
    """Evaluate batches whose groups are contiguous, or whose rows have none.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch or UnreadBatch
    evaluator : Evaluator
        Gets the totals.
    watch : KeyWatch or None
        Detects keys that return after other keys; None if they cannot.
    rows_at : callable, optional
        Makes rows of a batch and the number of its first row; by default `Evaluator.read`.

    Returns
    -------
    list of list of GroupResults
        For each plan with groups: the results of the groups in order (empty unless
        ``plan.per_group``).

    Raises
    ------
    ReturningKey
        A key returned after another key.
    UndefinedError
        A group is undefined where that is an error, and no key returned.
    """
    first, plan_columns = evaluator.first, evaluator.plan_columns
    keep = watch is not None and watch.keep
    results: list[list[GroupResults]] = [[] for _ in evaluator.grouped]
    open_group: list[Rows] = []
    cut_groups: list[tuple[Rows, Keys, list[GroupResults | None]]] = []
    cut_rows = 0
    undefined: list[UndefinedError] = []

    def evaluate_batch(job: WorkBatch) -> BatchResult:
        record_batches = read_batch(job[0])
        batch = in_scratch(record_batches)
        rows = rows_at(batch, job[1]) if rows_at else evaluator.read(batch, job[1], scanned=True)
        if rows is None:
            return BatchResult(None, [])

        def copy_rows(lo: int, hi: int) -> Rows:
            """Select rows; copy those read here, so that the batch ends with the call."""
            part = rows.slice(lo, hi)
            return part if batch is job[0][0] else part.copy()

        batch_scan = evaluator.scan(rows, all_whole)
        starts = batch_scan.starts
        if not batch_scan.passed and not rows_at:
            check_scores(batch, plan_columns, job[1])
        if not len(starts):
            return BatchResult(copy_rows(0, rows.count), [])
        lo, hi = int(starts[0]), int(starts[-1])
        # The last edge begins the tail.
        firsts = starts[:-1] if all_whole else starts
        run = None if watch is None else key_run(rows.keys, firsts, keep, batch_scan.directions)
        inside: list[GroupResults | None] = []
        error = None
        if len(starts) > 1 and not undefined:

            def name(group: int) -> str:
                return key_text(rows.keys, first.roles.group, int(starts[group]))

            def keys(groups: Groups) -> Keys:
                return keys_at(rows.keys, starts[:-1][groups])

            try:
                inside = evaluator.evaluate(rows.slice(lo, hi), starts - lo, name, keys, batch_scan)
            except UndefinedError as raised:
                if watch is None:
                    raise
                error = raised
        return BatchResult(copy_rows(0, lo), inside, copy_rows(hi, rows.count), run, error)

    def close_group() -> None:
        nonlocal cut_rows
        if not open_group:
            return
        keys = keys_at(open_group[0].keys, np.zeros(1, np.int64))
        later_results: list[GroupResults | None] = []
        for p, for_plan in zip(evaluator.grouped, results, strict=True):
            later_result = None
            if evaluator.plans[p].per_group:
                later_result = GroupResults(keys, None, np.empty(0, np.int64))
                for_plan.append(later_result)
            later_results.append(later_result)
        parts = [part.drop_keys() for part in open_group]
        # A copy: a view of a few rows would keep its whole batch in memory.
        rows = concatenate(parts) if len(parts) > 1 else parts[0].copy()
        cut_groups.append((rows, keys, later_results))
        cut_rows += rows.count
        open_group.clear()
        if len(cut_groups) >= _CUT_GROUPS or cut_rows >= first.batch_rows:
            evaluate_cut_groups()

    def evaluate_cut_groups() -> None:
        nonlocal cut_rows
        if not cut_groups or undefined:
            cut_groups.clear()
            return
        starts = np.concatenate([[0], np.cumsum([rows.count for rows, _, _ in cut_groups])])

        def name(group: int) -> str:
            return key_text(cut_groups[group][1], first.roles.group, 0)

        def keys(groups: Groups) -> Keys:
            columns = zip(*(of_group for _, of_group, _ in cut_groups), strict=True)
            every = tuple(pa.concat_arrays(list(column)) for column in columns)
            return keys_at(every, np.arange(len(cut_groups))[groups])

        rows = concatenate([rows for rows, _, _ in cut_groups])
        try:
            evaluated = evaluator.evaluate(rows, starts, name, keys)
        except UndefinedError as error:
            if watch is None:
                raise
            undefined.append(error)
            evaluated = []
        for position, result in enumerate(evaluated):
            if result is None or result.values is None:
                continue
            groups = range(len(cut_groups)) if result.groups is None else result.groups.tolist()
            for one, group in enumerate(groups):
                later_result = cut_groups[group][2][position]
                if later_result is not None:
                    later_result.values = result.values.take(slice(one, one + 1))
                    later_result.first_rows = result.first_rows[one : one + 1]
        cut_groups.clear()
        cut_rows = 0

    jobs = rebatch(batches, first.batch_rows, first.slice_rows)
    begin = list(islice(jobs, 2))
    all_whole = len(begin) < 2  # every group of an only batch is whole
    jobs = chain(begin, jobs)
    del begin  # or it keeps two batches in memory until the end
    for result in map_jobs(first.threads, evaluate_batch, jobs):
        if result.undefined is not None:
            undefined.append(result.undefined)
        head = result.head
        if head is not None and head.count:
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
        for for_plan, inside in zip(results, result.inside, strict=False):
            if inside is not None:
                for_plan.append(inside)
        if result.tail.count:
            open_group.append(result.tail)
    close_group()
    evaluate_cut_groups()
    if watch is not None:
        watch.finish()
    if undefined:
        raise undefined[0]
    return results
