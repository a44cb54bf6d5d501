"""Evaluate every plan of a run over the same rows.

Evaluate rows in order, whose groups are contiguous, or that have none.

Evaluate rows in any order: partition them first, on disk if need be.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice, zip_longest
from os import PathLike
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import is_list_like
from fastrank_eval._lib.errors import ArgumentError, ColumnError, UndefinedError
from fastrank_eval._lib.files import spill_folder
from fastrank_eval._lib.threads import Budget, map_jobs, report
from fastrank_eval.engine.chunk_eval import ThreadTotals, evaluate_chunk
from fastrank_eval.engine.group_table import GroupTable, dominant
from fastrank_eval.engine.plan import Plan, batch_rows_of, stream_rows_of
from fastrank_eval.engine.totals import Totals
from fastrank_eval.groups.chunk import Chunk
from fastrank_eval.groups.labels import Labels
from fastrank_eval.groups.partition import Gatherer, PartitionedBatch, Partitioner
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.groups.scan import (
    BatchScan,
    Groups,
    KeyRun,
    Keys,
    KeyWatch,
    ReturningKey,
    SplitGroup,
    group_starts,
    key_text,
    keys_at,
    same_key,
    scan_batch,
)
from fastrank_eval.groups.sort import Sorter, WideKeys
from fastrank_eval.io.columns import (
    OTHERS,
    POSITIVES,
    SOFT,
    Columns,
    PlanColumns,
    Roles,
    concatenate,
)
from fastrank_eval.io.reader import (
    RowReader,
    WorkBatch,
    in_scratch,
    join_batches,
    read_batch,
    split_batches,
)
from fastrank_eval.io.validate import check_scores, keys_of, rows_of

#: Rows in which a slice in memory first looks for the end of its last group.
_EDGE_ROWS = 1 << 10
#: Arguments that choose the rows, and how these are read.
SHARED = (
    *("source", "group", "cluster", "item", "null_groups", "where", "limit", "format"),
    *("order", "threads", "batch_rows", "memory", "progress"),
)


class RankedTable(NamedTuple):
    """Groups whose rows were ranked elsewhere.

    Parameters
    ----------
    keys : tuple of pyarrow.Array
        Of the groups.
    labels : Labels
        Of all rows of the groups; `label` and `row` are not read.
    rankings : sequence of Ranking
        For each model.
    """

    keys: Keys
    labels: Labels
    rankings: Sequence[Ranking]


class Evaluator:
    """Evaluator of several plans over the same rows; threads may share it.

    Parameters
    ----------
    plans : sequence of Plan
        At least one. They have equal threads and promises about the order. Those with groups have
        equal key columns.

    Attributes
    ----------
    grouped : tuple of int
        Positions of the plans with groups.
    first : Plan
        One of those, if any: for what all plans share.
    batch_rows, file_rows, slice_rows : int
        Rows that a thread takes at a time; of contiguous groups in files, and in memory.
    plan_columns : PlanColumns
        Indices of the columns of all plans.
    """

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.plans = tuple(plans)
        self.grouped = tuple(p for p, plan in enumerate(plans) if plan.grouped)
        self.first = plans[self.grouped[0] if self.grouped else 0]
        self.plan_columns = PlanColumns([plan.roles for plan in plans])
        self._copies_few = all(plan.copies_few for plan in plans)
        self._whole = tuple(p for p, plan in enumerate(plans) if not plan.grouped)
        scored = [p for p in self.grouped if plans[p].ranks or plans[p].presorted]
        self._views = [(plans[p].skip_empty, p in scored) for p in self.grouped]
        self._checked = self.plan_columns.score_indices(scored)
        self._begin(None, None)

    def begin(self, rows: int | None, batch_rows: int | None) -> Evaluator:
        """Return an evaluator of the same plans over other rows.

        Parameters
        ----------
        rows : int or None
            All rows of the source, if known.
        batch_rows : int or None
            Rows that a thread takes at a time; by default as many as give all threads equal work.
        """
        result = object.__new__(type(self))
        vars(result).update(vars(self))
        result._begin(rows, batch_rows)
        return result

    def _begin(self, rows: int | None, batch_rows: int | None) -> None:
        self._rows, self._given_rows = rows, batch_rows
        self._edges: dict[int, int] = {}
        self.batch_rows = batch_rows or batch_rows_of(rows, self.first.threads)
        self.expect_labelled(1.0)
        self.clear()

    def expect_labelled(self, share: float) -> None:
        """Choose the rows of batches and slices by the share of labelled rows."""
        self.file_rows = self.slice_rows = self._given_rows or 0
        if not self._given_rows:
            self.file_rows, self.slice_rows = stream_rows_of(
                self._rows, self.first.threads, self._copies_few, share
            )

    def clear(self) -> None:
        """Forget all rows, which are read again."""
        self.totals = [ThreadTotals(plan) for plan in self.plans]

    def _leave_out(self, p: int, left_out: Mapping[tuple[str, str], int]) -> None:
        """Count rows that a plan leaves out; threads may call it."""
        self.totals[p].get().left_out.update(left_out)

    @property
    def per_group(self) -> bool:
        """Whether a plan keeps the values of every group."""
        return any(plan.per_group for plan in self.plans)

    @property
    def keeps_order(self) -> bool:
        """Whether input order decides ties of a plan, or a message numbers rows."""
        return self.plan_columns.item is not None or any(plan.keeps_order for plan in self.plans)

    def read(self, batch: pa.RecordBatch, first_row: int, *, scanned: bool) -> Columns | None:
        """Validate a batch, and evaluate the plans without groups.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
        first_row : int
            Number of its first row in the input.
        scanned : bool
            `scan` follows, which looks for NaN among the scores that are ranked.

        Returns
        -------
        Columns or None
            For the plans with groups; None if no row is left for them.
        """
        checked: Container[int] = self._checked if scanned else ()
        rows = rows_of(batch, self.plan_columns, first_row, checked, self._leave_out)
        if not rows.rows:
            return None
        for p in self._whole:
            columns = self.plan_columns.for_plan(p, rows)
            chunk = Chunk(columns, np.array([0, rows.rows]), grouped=False)
            self._evaluate(p, chunk, lambda groups: ())
        if self._whole:
            return self.plan_columns.keep(self.grouped, rows) if self.grouped else None
        return rows

    def for_plans(self, rows: Columns) -> list[Columns]:
        """Select the columns of each of `grouped`."""
        return [self.plan_columns.for_plan(p, rows) for p in self.grouped]

    def rows_of(self, job: WorkBatch) -> tuple[pa.RecordBatch, int, bool]:
        """Return the rows of a job, their first, and whether groups are whole."""
        batch, first = in_scratch(read_batch(job.batches)), 0
        rows = end = batch.num_rows
        if job.slice is not None:
            first, end = job.slice.start, job.slice.stop
            if first:
                first = self._edge(batch, job.first_row, first, end)
            if first < end < rows:  # the last of the groups that begin here
                end = self._edge(batch, job.first_row, end, rows)
        begins, ends = first > 0 or job.first_row == 0, end < rows or job.last
        return batch.slice(first, end - first), job.first_row + first, begins and ends

    def _edge(self, batch: pa.RecordBatch, first_row: int, row: int, end: int) -> int:
        """Find the first row from `row` on where a cluster or a group begins."""
        at = first_row + row
        if at in self._edges:  # where the slice before ends
            return min(self._edges[at] - first_row, end)
        columns = self.plan_columns.keys[: self.first.roles.outer]
        first, rows = row - 1, _EDGE_ROWS
        try:
            while first + 1 < end:
                part = batch.slice(first, min(rows, end - first))
                starts = group_starts(keys_of(part, columns, 0))
                if len(starts):
                    edge = first + int(starts[0])
                    self._edges[at] = first_row + edge
                    return edge
                first, rows = first + rows - 1, 4 * rows
        except ColumnError:  # an error where the rows are read
            pass
        return end

    def scan(self, keys: Keys, columns: Sequence[Columns], whole: bool) -> BatchScan:
        """Scan every row of a batch of contiguous groups; see `scan_batch`."""
        roles, views = self.first.roles, self._views
        if not roles.nested:
            return scan_batch(keys, columns, views, whole)
        of_groups = self.keys_of_groups(keys)
        try:
            return scan_batch(of_groups, columns, views, whole, self.outer_keys(keys))
        except SplitGroup as split:
            both = keys_at(keys, np.array([split.row - 1, split.row]))
            raise split_group(roles, both) from None

    def outer_keys(self, keys: Keys) -> Keys:
        """Select the key columns of clusters; by default a group is one."""
        return keys[: self.first.roles.outer]

    def keys_of_groups(self, keys: Keys) -> Keys:
        """Select the key columns of groups from all."""
        return tuple(keys[at] for at in self.first.roles.inner) if keys else ()

    def evaluate(
        self, chunks: Sequence[Chunk], keys: Callable[[Groups], Keys]
    ) -> list[GroupTable | None]:
        """Evaluate whole groups by every plan with groups.

        Parameters
        ----------
        chunks : sequence of Chunk
            The same groups for each of `grouped`.
        keys : callable
            Maps positions of groups to their keys.

        Returns
        -------
        list of (GroupTable or None)
            For each of `grouped`; None for a plan that keeps no values of groups.
        """
        tables: list[GroupTable | None] = []
        every_key: Keys = ()
        for p, chunk in zip(self.grouped, chunks, strict=True):
            table, groups = self._evaluate(p, chunk, keys)
            if table is not None:
                every_key = every_key or keys(slice(None))
                table.keys = every_key if groups is None else keys_at(every_key, groups)
            tables.append(table)
        return tables

    def add_ranked(self, ranked: RankedTable) -> list[list[GroupTable]]:
        """Evaluate groups that were ranked elsewhere; return values of groups."""
        plan, labels, every_key = self.first, ranked.labels, ranked.keys
        rows = Columns(0, int(labels.starts[-1]), every_key, (None,) * 4)
        chunk = Chunk(rows, labels.starts, labels=labels, first_rows=labels.starts[:-1])

        def name(group: int) -> str:
            return key_text(keys_at(every_key, np.array([group])), plan.roles.keys, 0)

        keys = partial(keys_at, every_key)
        rankings = ranked.rankings
        table = evaluate_chunk(chunk, plan, self.totals[0].get(), name, keys, rankings)
        if table is None:
            return [[]]
        table.keys = every_key
        return [[table]]

    def _evaluate(
        self, p: int, chunk: Chunk, keys: Callable[[Groups], Keys]
    ) -> tuple[GroupTable | None, np.ndarray | None]:
        """Evaluate the rows that a plan does not drop.

        Returns
        -------
        table : GroupTable or None
            Without keys. None if the plan keeps no values of groups.
        groups : ndarray of int64, or None
            Indices of its groups; None for all.
        """
        plan, groups = self.plans[p], None
        if plan.roles.drops_rows:
            chunk, groups, left_out = chunk.kept(plan.roles)
            self._leave_out(p, left_out)
            if not chunk.groups:
                return None, groups

        if plan.counts_unretrieved:
            self._leave_out(p, chunk.count_unretrieved(plan.roles.scores))

        def keys_at_groups(indices: np.ndarray) -> Keys:
            return keys(indices if groups is None else groups[indices])

        def name(group: int) -> str:
            return key_text(keys_at_groups(np.array([group])), plan.roles.keys, 0)

        return evaluate_chunk(chunk, plan, self.totals[p].get(), name, keys_at_groups), groups

    def finish(self) -> list[Totals]:
        """Merge the totals of all threads, for each plan."""
        found = []
        for plan, totals in zip(self.plans, self.totals, strict=True):
            merged = totals.merge()
            if merged.largest is not None:
                merged.largest = dominant(merged.largest, merged.overall.squares())
            if plan.counts_unretrieved:
                rows, positives = merged.overall.rows(), merged.overall.positives()
                merged.left_out.update({(POSITIVES, ""): positives, (OTHERS, ""): rows - positives})
            if merged.soft:
                merged.left_out[SOFT, ""] = merged.soft
            found.append(merged)
        return found


def check_shared(requests: Sequence[object]) -> None:
    """Raise if requests differ in an argument of `SHARED`."""
    if not requests:
        raise ArgumentError("requests: must have one request or more, got none; add one.")
    for other in requests[1:]:
        for name in SHARED:
            left, right = (getattr(request, name) for request in (requests[0], other))
            if not _equal(left, right):
                got = "" if name == "source" else f", got {left!r} and {right!r}"
                raise ArgumentError(
                    f"{name}: must be the same for all labels{got}; evaluate such labels one by "
                    "one."
                )


def _equal(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if is_list_like(left) and is_list_like(right):
        return all(_equal(*pair) for pair in zip_longest(left, right))
    plain = (str, int, float, PathLike)
    return isinstance(left, plain) and isinstance(right, plain) and left == right


def split_group(roles: Roles, keys: Keys) -> ColumnError:
    """Make the error of a group with rows in two clusters.

    Parameters
    ----------
    roles : Roles
    keys : tuple of pyarrow.Array of length 2
        All key columns of the group, in each of the clusters.
    """
    group = key_text(tuple(keys[at] for at in roles.inner), roles.group, 0)
    clusters = [key_text(keys[: roles.outer], roles.cluster, row) for row in (0, 1)]
    both = list(dict.fromkeys((*roles.cluster, *roles.group)))
    return ColumnError(
        f"cluster: must hold whole groups, got the group {group} in two clusters "
        f"({' and '.join(clusters)}); name the columns of the cluster in group too if these are "
        f"two groups (group={both!r}, --group {','.join(both)})."
    )


#: Groups cut by batch edges are evaluated when they have this many parts.
_CUT_PARTS = 512


class BatchResult(NamedTuple):
    """The result of one batch.

    Parameters
    ----------
    head : Columns or None
        Rows before the first edge, if any; all rows if there is no edge.
    inside : list of (GroupTable or None), or None
        For each plan: groups that begin and end in the batch; None if there is no edge.
    tail : Columns or None
        Rows from the last edge on, if any.
    runs : list of KeyRun
        For each watch: the keys of clusters, or of groups in clusters.
    undefined : UndefinedError or None
        The error of a group, if keys are watched: the group may have rows in later batches.
    """

    head: Columns | None = None
    inside: list[GroupTable | None] | None = None
    tail: Columns | None = None
    runs: Sequence[KeyRun] = ()
    undefined: UndefinedError | None = None


class Stream:
    """Evaluator of batches with contiguous groups, or without groups.

    Groups of a cluster are contiguous too. By default each group is one.

    Parameters
    ----------
    evaluator : Evaluator
        Gets the totals.
    watches : sequence of KeyWatch
        Detect keys of clusters that return after other keys, and keys of groups that return, inside
        a cluster or in another.
    rows_at : callable, optional
        Makes rows of a batch and the number of its first row; by default `Evaluator.read`.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        watches: Sequence[KeyWatch] = (),
        rows_at: Callable[[pa.RecordBatch, int], Columns] | None = None,
    ) -> None:
        self._evaluator, self._watches, self._rows_at = evaluator, watches, rows_at
        self._nested, self._alone = evaluator.first.roles.nested, False
        self._tables: list[list[GroupTable]] = [[] for _ in evaluator.grouped]
        #: Rows of groups cut by batch edges, with the key of each row, or one for all.
        self._parts: list[Columns] = []
        self._undefined: list[UndefinedError] = []

    def evaluate(self, jobs: Iterable[WorkBatch]) -> list[list[GroupTable]]:
        """Evaluate batches in threads.

        Returns
        -------
        list of list of GroupTable
            For each plan with groups: parts of its groups, in any order (empty unless
            ``plan.per_group``).

        Raises
        ------
        ReturningKey
            A key returned after another key.
        UndefinedError
            A group is undefined where that is an error, and no key returned.
        """
        jobs = iter(jobs)
        begin = list(islice(jobs, 2))
        self._alone = len(begin) < 2  # every group of an only batch is whole
        jobs = chain(begin, jobs)
        del begin  # or it keeps two batches in memory until the end
        for result in map_jobs(self._evaluator.first.threads, self._batch, jobs):
            self.push(result)
        return self.close()

    def push(self, batch: BatchResult) -> None:
        """Add the result of the next batch."""
        if batch.undefined is not None:
            self._undefined.append(batch.undefined)
        for watch, run in zip(self._watches, batch.runs, strict=False):
            watch.add(run)
        if batch.head is not None:
            if not self._goes_on(batch.head):
                self._cut_groups()
            self._add(batch.head)
        if batch.inside is None:
            return
        self._cut_groups()
        for for_plan, table in zip(self._tables, batch.inside, strict=False):
            if table is not None:
                for_plan.append(table)
        if batch.tail is not None:
            if self._goes_on(batch.tail):  # a key that returned, which is refused later
                self._cut_groups(fewest=1)
            self._add(batch.tail)

    def close(self) -> list[list[GroupTable]]:
        """Evaluate what is left; return as `evaluate` does."""
        self._cut_groups(fewest=1)
        for watch in self._watches:
            watch.finish()
        if self._undefined:
            raise self._undefined[0]
        return self._tables

    def _batch(self, job: WorkBatch) -> BatchResult:
        """Evaluate groups that begin and end in a batch; threads call it."""
        evaluator = self._evaluator
        batch, first_row, whole = evaluator.rows_of(job)
        read = self._rows_at or partial(evaluator.read, scanned=True)
        rows = read(batch, first_row)
        if rows is None:
            return BatchResult()

        def copy_rows(lo: int, hi: int) -> Columns | None:
            """Copy rows: a view of a few would keep the whole batch in memory."""
            return rows.copy(lo, hi) if lo < hi else None

        columns = evaluator.for_plans(rows)
        batch_scan = evaluator.scan(rows.keys, columns, whole or self._alone)
        starts, clusters = batch_scan.starts, batch_scan.clusters
        if not batch_scan.passed and self._rows_at is None:
            check_scores(batch, evaluator.plan_columns, first_row)
        runs = [
            watch.run(rows.keys, *(batch_scan.of_groups if watch.inner else batch_scan.of_clusters))
            for watch in self._watches
        ]
        if not len(starts):
            return BatchResult(copy_rows(0, rows.rows), runs=runs)
        lo, hi = int(starts[0]), int(starts[-1])
        inside: list[GroupTable | None] = []
        error = None
        if len(starts) > 1 and not self._undefined:

            def keys(groups: Groups) -> Keys:
                return keys_at(rows.keys, starts[:-1][groups])

            chunks = [
                Chunk(of_plan.slice(lo, hi), labels.starts, True, labels, ranked_rows, clusters)
                for of_plan, (labels, ranked_rows) in zip(columns, batch_scan.found, strict=True)
            ]
            try:
                inside = evaluator.evaluate(chunks, keys)
            except UndefinedError as raised:
                if not self._watches:
                    raise
                error = raised
        return BatchResult(copy_rows(0, lo), inside, copy_rows(hi, rows.rows), runs, error)

    def _goes_on(self, part: Columns) -> bool:
        """Return whether rows have the key of the last part."""
        outer = self._evaluator.outer_keys
        return bool(self._parts) and same_key(outer(self._parts[-1].keys), 0, outer(part.keys), 0)

    def _add(self, part: Columns) -> None:
        """Add rows of a cluster, which may go on."""
        if not self._nested:  # all rows have one key
            part = part._replace(keys=keys_at(part.keys, np.zeros(1, np.int64)))
        self._parts.append(part)

    def _cut_groups(self, fewest: int = _CUT_PARTS) -> None:
        """Evaluate whole cut groups, if they have enough parts or rows."""
        evaluator, parts = self._evaluator, self._parts
        if len(parts) < fewest and sum(part.rows for part in parts) < evaluator.batch_rows:
            return
        self._parts = []
        if self._undefined:
            return
        edges = np.append(0, np.cumsum([part.rows for part in parts], dtype=np.int64))
        rows, clusters = concatenate(parts), None
        firsts = np.append(0, group_starts(rows.keys))
        every_key = keys_at(rows.keys, firsts)
        starts = np.append(firsts if self._nested else edges[firsts], rows.rows)
        if self._nested:
            outer = group_starts(evaluator.outer_keys(every_key))
            clusters = np.concatenate([[0], outer, [len(firsts)]])

        def keys(groups: Groups) -> Keys:
            return keys_at(every_key, np.arange(len(firsts))[groups])

        chunks = [
            Chunk(columns, starts, clusters=clusters) for columns in evaluator.for_plans(rows)
        ]
        try:
            evaluated = evaluator.evaluate(chunks, keys)
        except UndefinedError as error:
            if not self._watches:
                raise
            self._undefined.append(error)
            return
        for for_plan, table in zip(self._tables, evaluated, strict=True):
            if table is not None:  # each group has a place of its own among the others
                for_plan += [table.take(np.array([g])) for g in range(len(table))]


#: The share of the memory for rows that the sorter gets. Results need the rest at the same time.
_SORTER_SHARE = 0.5
#: Rows after which the size of all rows is estimated.
_ESTIMATE_ROWS = 1 << 16
#: Bytes that DuckDB writes for each byte of rows.
_ON_DISK = 1.4
#: Batches with text keys are this many times smaller, because their keys need more memory.
_WIDE = 4
#: The share of a disk's free room that spilled rows may fill.
_DISK_SHARE = 0.95


class ScatteredEvaluator:
    """Evaluates rows in any order, in memory if they fit.

    Parameters
    ----------
    evaluator : Evaluator
        Gets the totals.
    budget : Budget

    Attributes
    ----------
    spilled : bool
        Whether rows were sorted on disk.
    """

    def __init__(self, evaluator: Evaluator, budget: Budget) -> None:
        self._evaluator, self._plan, self._budget = evaluator, evaluator.first, budget
        self._partitioners: list[Partitioner] = []
        self._expected: int | None = None
        self.spilled = False

    def evaluate(self, reading: RowReader) -> list[list[GroupTable]]:
        """Partition the rows, and evaluate the groups.

        Parameters
        ----------
        reading : RowReader

        Returns
        -------
        list of list of GroupTable
            For each plan with groups: parts of its groups, in any order (empty unless
            ``plan.per_group``).
        """
        try:
            return self._attempts(reading)
        except ReturningKey as returning:
            raise split_group(self._plan.roles, cast(Keys, returning.keys)) from None

    def _attempts(self, reading: RowReader) -> list[list[GroupTable]]:
        self._expected = reading.rows
        if reading.rereadable:  # the second attempt below reads the rows again
            with suppress(WideKeys):
                return self._evaluate(reading, narrow=True)
            self._evaluator.clear()
        return self._evaluate(reading, narrow=False)

    def _evaluate(self, reading: RowReader, narrow: bool) -> list[list[GroupTable]]:
        partitioned = self._partition(reading)
        in_memory: list[PartitionedBatch] = []
        held = read = 0
        allowed = self._budget.rows
        if self._expected is None:
            # The number of rows is unknown. If they turn out too many, the batches in memory and
            # the sorter need memory at the same time.
            allowed //= 2
        for rows, batch in partitioned:
            read += rows
            if batch is None:
                continue
            in_memory.append(batch)
            held += batch.bytes
            size = held + self._partitioners[0].bytes
            factor = 1.0 if self._expected is None else max(self._expected / read, 1.0)
            if size > allowed or (read >= _ESTIMATE_ROWS and size * factor > allowed):
                self.spilled = True
                self._partitioners[0].separate()
                disk_bytes = int(_ON_DISK * held * factor)
                rest = (batch for _, batch in partitioned if batch is not None)
                return self._sort(in_memory, rest, disk_bytes, narrow)
        if not in_memory:
            return [[] for _ in self._evaluator.grouped]
        # Messages, and first rows of groups that lose some.
        number_rows = self._evaluator.plan_columns.item is not None or any(
            plan.roles.drops_rows for plan in self._evaluator.plans
        )
        return self._gather(Gatherer(self._partitioners[0], in_memory, number_rows=number_rows))

    def _partition(self, reading: RowReader) -> Iterator[tuple[int, PartitionedBatch | None]]:
        """Yield the number of rows of each batch, and the batch partitioned."""
        plan, evaluator = self._plan, self._evaluator
        first = reading.peek(1)
        if first is None:
            return
        types = [key.type for key in keys_of(first, evaluator.plan_columns.keys, 0)]
        partitioner = Partitioner(
            plan.roles.keys,
            types,
            evaluator.plan_columns,
            keep_numbers=evaluator.per_group or evaluator.keeps_order,
            rows=self._expected or 0,
            memory=self._budget.rows,
            outer=plan.roles.outer,
        )
        self._partitioners[:] = [partitioner]

        def partition(job: WorkBatch) -> tuple[int, PartitionedBatch | None]:
            batch = in_scratch(read_batch(job.batches))
            rows = evaluator.read(batch, job.first_row, scanned=False)
            return batch.num_rows, None if rows is None else partitioner.partition(rows)

        wide = any(column.text for column in partitioner.columns)
        jobs = reading.jobs(max(evaluator.batch_rows // _WIDE, 1) if wide else evaluator.batch_rows)
        yield from map_jobs(plan.threads, partition, jobs)

    def _gather(self, gatherer: Gatherer) -> list[list[GroupTable]]:
        plan, evaluator = self._plan, self._evaluator

        watches = self._watches()

        def evaluate_range(partitions: range) -> BatchResult:
            rows, starts, keys, first_rows, clusters = gatherer.gather(partitions)
            runs = [watch.run(keys(slice(None)), np.arange(len(starts) - 1)) for watch in watches]
            # Without a scan whether scores happen to descend in every group.
            chunks = [
                Chunk(
                    *(of_plan, starts),
                    ranked_rows=dict.fromkeys(range(of_plan.models)),
                    clusters=clusters,
                    first_rows=first_rows,
                )
                for of_plan in evaluator.for_plans(rows)
            ]
            return BatchResult(inside=evaluator.evaluate(chunks, keys), runs=runs)

        stream, ranges = Stream(evaluator, watches), list(gatherer.ranges(plan.threads))
        rows, total = 0, sum(map(gatherer.rows, ranges))
        results = map_jobs(plan.threads, evaluate_range, ranges)
        for partitions, result in zip(ranges, results, strict=True):
            stream.push(result)
            rows += gatherer.rows(partitions)
            report("evaluating", rows, total)
        tables = stream.close()
        self._partitioners[0].give_back()
        return tables

    def _watches(self) -> list[KeyWatch]:
        """Return what finds groups in two clusters, if there can be any."""
        roles = self._plan.roles
        split = roles.nested and not set(roles.cluster) <= set(roles.group)
        return [KeyWatch(True, roles.group, roles.inner)] if split else []

    def _sort(
        self,
        in_memory: list[PartitionedBatch],
        rest: Iterator[PartitionedBatch],
        disk_bytes: int,
        narrow: bool,
    ) -> list[list[GroupTable]]:
        plan, budget = self._plan, self._budget
        total = 0

        def count_rows() -> Iterator[PartitionedBatch]:
            """Yield the partitioned batches, and keep no reference to them."""
            nonlocal total
            for batch in chain((in_memory.pop(0) for _ in range(len(in_memory))), rest):
                total += batch.rows
                yield batch
            report("sorting on disk", 0, total)

        def report_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = 0
            for batch in batches:
                yield batch
                rows += batch.num_rows
                report("evaluating", rows, total)

        with spill_folder(disk_bytes) as folder:
            sorter = Sorter(
                self._partitioners[0],
                folder,
                memory=int(_SORTER_SHARE * budget.rows),
                disk=int(_DISK_SHARE * shutil.disk_usage(folder).free),
                threads=plan.threads,
                in_order=self._evaluator.keeps_order,
                narrow=narrow,
            )
            with sorter.rows(count_rows()) as batches:
                most = self._evaluator.file_rows
                jobs = join_batches(split_batches(report_rows(batches), most), most)
                stream = Stream(self._evaluator, self._watches(), sorter.rows_of)
                return stream.evaluate(jobs)
