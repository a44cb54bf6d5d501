"""Evaluate every plan of a run over the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache, partial
from itertools import zip_longest
from os import PathLike
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import is_list_like
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.engine.chunk_eval import ThreadTotals, evaluate_chunk
from fastrank_eval.engine.largest_group import dominant
from fastrank_eval.engine.plan import GroupValues, Plan
from fastrank_eval.engine.totals import Totals
from fastrank_eval.groups.chunk import Chunk
from fastrank_eval.groups.edges import BatchScan, Groups, Keys, View, keys_at, scan_batch
from fastrank_eval.io.columns import (
    OTHERS,
    POSITIVES,
    SOFT,
    PlanColumns,
    Rows,
    RowsLeftOut,
    rows_left_out_by,
)
from fastrank_eval.io.validate import rows_of

#: Arguments that choose the rows, and how these are read.
SHARED = (
    *("source", "group", "item", "null_groups", "where", "limit", "format"),
    *("order", "threads", "batch_rows", "memory", "progress"),
)


@dataclass
class GroupResults:
    """Results of consecutive groups, or of one group cut by a batch edge.

    Parameters
    ----------
    keys : tuple of pyarrow.Array
    values : GroupValues or None
        None: the group cut by a batch edge is not evaluated yet, or the plan drops all its rows.
    first_rows : ndarray of int64, shape (groups,)
        Number of the first row of each group in the whole input.
    groups : ndarray of int64, or None
        Indices of the groups in the evaluated rows; None for all.
    """

    keys: Keys
    values: GroupValues | None
    first_rows: np.ndarray
    groups: np.ndarray | None = None


@dataclass(frozen=True)
class PlanTotals:
    """What a run finds for one plan.

    Parameters
    ----------
    totals : Totals
    keys : list of tuple of pyarrow.Array
        Keys of consecutive groups; empty unless ``plan.per_group``.
    values : list of GroupValues
        Their results, in the same order.
    left_out : RowsLeftOut
        Rows that options of the plan have left out.
    """

    totals: Totals
    keys: list[Keys]
    values: list[GroupValues]
    left_out: RowsLeftOut


class Evaluator:
    """Evaluator of several plans over the same rows; threads may share it.

    Parameters
    ----------
    plans : sequence of Plan
        At least one. They have equal threads, sizes of batches and promises about the order.
        Those with groups have equal key columns.

    Attributes
    ----------
    grouped : tuple of int
        Positions of the plans with groups.
    first : Plan
        One of those, if any: for what all plans share.
    plan_columns : PlanColumns
        Indices of the columns of all plans.
    """

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.plans = tuple(plans)
        self.grouped = tuple(p for p, plan in enumerate(plans) if plan.grouped)
        self.first = plans[self.grouped[0] if self.grouped else 0]
        self.plan_columns = PlanColumns([plan.roles for plan in plans])
        self._whole = tuple(p for p, plan in enumerate(plans) if not plan.grouped)
        self._scored = [plan.grouped and (plan.ranks or plan.presorted) for plan in plans]
        self._checked = self.plan_columns.score_indices(p for p in self.grouped if self._scored[p])
        self._lock = Lock()
        self.clear()

    def clear(self) -> None:
        """Forget all rows, which are read again."""
        self.totals = [ThreadTotals(plan) for plan in self.plans]
        self._left_out = [rows_left_out_by(plan.roles) for plan in self.plans]

    def _leave_out(self, p: int, left_out: Mapping[tuple[str, str], int]) -> None:
        """Count rows that a plan leaves out; threads may call it."""
        with self._lock:
            self._left_out[p].update(left_out)

    @property
    def per_group(self) -> bool:
        """Whether a plan keeps the values of every group."""
        return any(plan.per_group for plan in self.plans)

    @property
    def keeps_order(self) -> bool:
        """Whether input order decides ties of a plan, or a message numbers rows."""
        return self.plan_columns.item is not None or any(plan.keeps_order for plan in self.plans)

    def read(self, batch: pa.RecordBatch, first_row: int, *, scanned: bool) -> Rows | None:
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
        Rows or None
            For the plans with groups; None if no row is left for them.
        """
        checked: Container[int] = self._checked if scanned else ()
        left_out: list[RowsLeftOut] = [Counter() for _ in self.plans]
        rows = rows_of(batch, self.plan_columns, first_row, checked, left_out)
        for p, counts in enumerate(left_out):
            self._leave_out(p, counts)
        if not rows.count:
            return None
        for p in self._whole:
            chunk = Chunk(rows.of(p), np.array([0, rows.count]), grouped=False)
            self._evaluate(p, chunk, lambda group: "", lambda groups: ())
        return rows.keep(self.grouped) if self.grouped else None

    def scan(self, rows: Rows, whole: bool) -> BatchScan:
        """Scan every row of a batch of contiguous groups; see `scan_batch`."""
        views = [View(rows.of(p), self.plans[p].skip_empty, self._scored[p]) for p in self.grouped]
        return scan_batch(rows.keys, views, whole)

    def evaluate(
        self,
        rows: Rows,
        starts: np.ndarray,
        name: Callable[[int], str],
        keys: Callable[[Groups], Keys],
        batch_scan: BatchScan | None = None,
        *,
        scattered: bool = False,
    ) -> list[GroupResults | None]:
        """Evaluate whole groups by every plan with groups.

        Parameters
        ----------
        rows : Rows
        starts : ndarray of int64, shape (groups + 1,)
            First row of each group, then the number of rows.
        name : callable
            Maps the position of a group to the text of its key, for messages.
        keys : callable
            Maps positions of groups to their keys.
        batch_scan : BatchScan, optional
            What a scan of these groups has found.
        scattered : bool
            Whether rows stand in no order of scores.

        Returns
        -------
        list of (GroupResults or None)
            For each of `grouped`; None for a plan that keeps no values of groups.
        """
        results: list[GroupResults | None] = []
        every_key = cache(partial(keys, slice(None)))
        for position, p in enumerate(self.grouped):
            plan, columns = self.plans[p], rows.of(p)
            if batch_scan is not None:
                at = batch_scan.labelled_rows[position], batch_scan.ranked_rows[position]
                chunk = Chunk(columns, starts, True, *at)
            elif scattered:
                # Without a scan whether scores happen to descend in every group.
                chunk = Chunk(
                    columns, starts, ranked_rows=dict.fromkeys(range(len(columns.scores)))
                )
            else:
                chunk = Chunk(columns, starts)
            evaluated = self._evaluate(p, chunk, name, keys)
            if evaluated is None or not plan.per_group:
                results.append(None)
                continue
            chunk, groups, values = evaluated
            of_groups = every_key() if groups is None else keys_at(every_key(), groups)
            first_rows = chunk.columns.first_rows(chunk.starts)
            results.append(GroupResults(of_groups, values, first_rows, groups))
        return results

    def _evaluate(
        self,
        p: int,
        chunk: Chunk,
        name: Callable[[int], str],
        keys: Callable[[Groups], Keys],
    ) -> tuple[Chunk, np.ndarray | None, GroupValues] | None:
        """Evaluate the rows that a plan does not drop; None if it drops all."""
        plan, groups = self.plans[p], None
        if plan.roles.drops_rows:
            chunk, groups, left_out = chunk.kept(plan.roles)
            self._leave_out(p, left_out)
            if not chunk.groups:
                return None

        if plan.counts_unretrieved:
            self._leave_out(p, chunk.count_unretrieved(plan.roles.scores))

        def name_of(group: int) -> str:
            return name(group if groups is None else int(groups[group]))

        def keys_of(indices: np.ndarray) -> Keys:
            return keys(indices if groups is None else groups[indices])

        values = evaluate_chunk(chunk, plan, self.totals[p].get(), name_of, keys_of)
        return chunk, groups, values

    def finish(self, results: Sequence[Sequence[GroupResults]]) -> list[PlanTotals]:
        """Merge the totals of all threads.

        Parameters
        ----------
        results : sequence of sequence of GroupResults
            For each of `grouped` the results in order of the groups.
        """
        for_plans = dict(zip(self.grouped, results, strict=True))
        plan_totals = []
        for p, totals in enumerate(self.totals):
            pairs = [
                (result.keys, result.values)
                for result in for_plans.get(p, ())
                if result.values is not None
            ]
            keys, values = [of for of, _ in pairs], [value for _, value in pairs]
            merged, left_out = totals.merge(), self._left_out[p]
            merged.largest = dominant(merged.largest, merged.overall.squares())
            if self.plans[p].counts_unretrieved:
                rows, positives = merged.overall.rows(), merged.overall.positives()
                left_out.update({(POSITIVES, ""): positives, (OTHERS, ""): rows - positives})
            if merged.soft:
                left_out[SOFT, ""] = merged.soft
            plan_totals.append(PlanTotals(merged, keys, values, left_out))
        return plan_totals


def check_shared(requests: Sequence[object]) -> None:
    """Raise if requests differ in an argument of `SHARED`."""
    if not requests:
        raise ArgumentError("requests: must have one request or more, got none; add one.")
    for name in SHARED:
        values = [getattr(request, name) for request in requests]
        for other in values[1:]:
            if not _equal(values[0], other):
                got = "" if name == "source" else f", got {values[0]!r} and {other!r}"
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
