"""Evaluate rows of groups that lie apart, and choose the way to read rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.errors import OrderError
from fastrank_eval._lib.files import spill_folder
from fastrank_eval._lib.memory import Budget
from fastrank_eval._lib.progress import report
from fastrank_eval._lib.threads import in_order
from fastrank_eval.engine.chunk_eval import ThreadTotals, evaluate_chunk
from fastrank_eval.engine.contiguous import GroupResults, evaluate_stream
from fastrank_eval.engine.group_values import GroupValues
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.totals import Totals
from fastrank_eval.groups.boundaries import (
    Keys,
    KeyWatch,
    ReturningKey,
    group_starts,
    key_integers,
    key_text,
    keys_at,
)
from fastrank_eval.groups.external_sort import Sorter, WideKeys
from fastrank_eval.groups.gather import Gatherer, PartitionRange
from fastrank_eval.groups.partition import PartitionedBatch, Partitioner, can_stay_packed
from fastrank_eval.io.reader import RowReader, WorkBatch, in_scratch, read_batch, rebatch
from fastrank_eval.io.source import Batch, first_rows
from fastrank_eval.io.validate import columns_of, keys_of

#: The sorter keeps this share of what rows may take: results are worked out beside it.
_SORTER_SHARE = 0.5
#: Rows after which what is to come is foreseen from what has come.
_FORESEEN = 1 << 16
#: Bytes that DuckDB writes for each byte of rows.
_ON_DISK = 1.4
#: Stretches of strings are this many times shorter: their words take as much more room.
_WIDE = 4
#: The share of a disk's free room that spilled rows may fill.
_DISK_SHARE = 0.95


class Scattered:
    """Evaluates rows in any order, in memory if they fit.

    Parameters
    ----------
    plan : Plan
    budget : Budget

    Attributes
    ----------
    spilled : bool
        Whether rows were sorted on disk.
    """

    def __init__(self, plan: Plan, budget: Budget) -> None:
        self._plan, self._budget = plan, budget
        self._partitioners: list[Partitioner] = []
        self._expected: int | None = None
        self.spilled = False

    def evaluate(self, reading: RowReader) -> tuple[Totals, list[GroupResults]]:
        """Partition the rows, and evaluate the groups.

        Parameters
        ----------
        reading : Reading

        Returns
        -------
        Tally, list of Piece
            Sums, and the results of the groups (empty unless ``plan.per_group``).
        """
        self._expected = reading.rows
        if reading.rereadable:  # what is read once cannot be begun again
            with suppress(WideKeys):
                return self._evaluate(reading.unread_batches(self._plan.batch_rows), narrow=True)
        return self._evaluate(reading.unread_batches(self._plan.batch_rows), narrow=False)

    def _evaluate(self, parts: Iterable[Batch], narrow: bool) -> tuple[Totals, list[GroupResults]]:
        partitioned = self._partition(parts)
        held: list[PartitionedBatch] = []
        packed = unpacked = read = 0
        allowed = self._budget.rows
        if self._expected is None:
            # More may come than is foreseen: then what is held is handed on beside the sorter.
            allowed //= 2
        for rows, work in partitioned:
            read += rows
            if work is None:
                continue
            held.append(work)
            packed, unpacked = packed + work.bytes, unpacked + work.bytes_unpacked
            size = packed if packed == unpacked or can_stay_packed(held) else unpacked
            size += self._partitioners[0].bytes
            more = 1.0 if self._expected is None else max(self._expected / read, 1.0)
            if size > allowed or (read >= _FORESEEN and size * more > allowed):
                self.spilled = True
                needed = int(_ON_DISK * unpacked * more)
                rest = (work for _, work in partitioned if work is not None)
                return self._sorted(held, rest, needed, narrow)
        if not held:
            return Totals(self._plan), []
        return self._gathered(Gatherer(self._partitioners[0], held))

    def _partition(self, parts: Iterable[Batch]) -> Iterator[tuple[int, PartitionedBatch | None]]:
        """Partition batches; yield the rows read and the partitioned batch, if any row remains."""
        plan = self._plan

        def jobs() -> Iterator[WorkBatch]:
            rest = iter(parts)
            first = next(rest, None)
            if first is None:
                return
            kinds = [key.type for key in keys_of(first_rows(first, 1), plan.roles, 0)]
            partitioner = Partitioner(
                plan.roles.group,
                kinds,
                len(plan.roles.scores),
                keep_numbers=plan.per_group or plan.keeps_order,
                keep_order=plan.keeps_order,
            )
            self._partitioners[:] = [partitioner]
            wide = any(column.text for column in partitioner.columns)
            rows = max(plan.batch_rows // _WIDE, 1) if wide else plan.batch_rows
            yield from rebatch(chain([first], rest), rows)

        def partition(work: WorkBatch) -> tuple[int, PartitionedBatch | None]:
            batch = in_scratch(read_batch(work[0]))
            columns = columns_of(batch, plan.roles, work[1])
            return batch.num_rows, self._partitioners[0].partition(
                columns
            ) if columns.rows else None

        return in_order(plan.threads, partition, jobs())

    def _gathered(self, gatherer: Gatherer) -> tuple[Totals, list[GroupResults]]:
        plan = self._plan
        thread_totals = ThreadTotals(plan)

        def work(partitions: PartitionRange) -> GroupResults | None:
            gathered = gatherer.gather(partitions)
            chunk = gathered.chunk

            def name(group: int) -> str:
                return key_text(gathered.keys(), plan.roles.group, group)

            values = evaluate_chunk(chunk, plan, thread_totals.mine(), name)
            if not plan.per_group:
                return None
            return GroupResults(gathered.keys(), values, chunk.columns.first_rows(chunk.starts))

        done = []
        ranges = list(gatherer.ranges())
        rows, total = 0, sum(partitions.rows for partitions in ranges)
        for partitions, piece in zip(ranges, in_order(plan.threads, work, ranges), strict=True):
            rows += partitions.rows
            report("evaluating", rows, total)
            if piece is not None:
                done.append(piece)
        return thread_totals.merged(), done

    def _sorted(
        self,
        held: list[PartitionedBatch],
        rest: Iterator[PartitionedBatch],
        needed: int,
        narrow: bool,
    ) -> tuple[Totals, list[GroupResults]]:
        plan, budget = self._plan, self._budget
        taken = 0

        def counted() -> Iterator[PartitionedBatch]:
            """Yield partitioned batches without keeping any."""
            nonlocal taken
            for work in chain((held.pop(0) for _ in range(len(held))), rest):
                taken += work.rows
                yield work
            report("sorting on disk", 0, taken)

        def evaluated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = 0
            for batch in batches:
                yield batch
                rows += batch.num_rows
                report("evaluating", rows, taken)

        with spill_folder(budget.spill_dir, needed) as folder:
            sorter = Sorter(
                self._partitioners[0],
                folder,
                memory=int(_SORTER_SHARE * budget.rows),
                disk=int(_DISK_SHARE * shutil.disk_usage(folder).free),
                threads=plan.threads,
                in_order=plan.keeps_order,
                missing_scores=plan.roles.unretrieved == "allow",
                missing_labels=plan.roles.judgments and plan.roles.unjudged == "allow",
                narrow=narrow,
            )
            with sorter.rows(counted()) as batches:
                return evaluate_stream(evaluated(batches), plan, None, sorter.columns)


def in_order_of_appearance(pieces: list[GroupResults]) -> tuple[list[Keys], list[GroupValues]]:
    """Results of all groups, each at the place of its first row."""
    if not pieces:
        return [], []
    appeared = np.argsort(np.concatenate([piece.firsts for piece in pieces]))
    columns = zip(*(piece.keys for piece in pieces), strict=True)
    keys = tuple(pa.concat_arrays(list(column)) for column in columns)
    together = GroupValues.together([cast(GroupValues, piece.values) for piece in pieces])
    return [keys_at(keys, appeared)], [together.take(appeared)]


#: Rows looked at to see whether keys are scattered.
_PEEK = 1 << 16


def choose_strategy(
    reading: RowReader, plan: Plan, order: str, allowed: Budget
) -> tuple[Totals, list[Keys], list[GroupValues], dict[str, object]]:
    """Evaluate by the way that `order` says, or that the keys call for; and tell which it was."""
    if order == "auto":
        first = reading.peek(_PEEK)
        if first is not None and _scattered(first, plan):
            order = "scattered"
    keep = not reading.rereadable
    while order != "scattered":
        try:
            totals, pieces = evaluate_stream(
                reading.unread_batches(plan.batch_rows), plan, KeyWatch(keep)
            )
        except ReturningKey as returning:
            if returning.keys is None and reading.rereadable:
                keep = True
            elif order == "auto" and reading.rereadable:
                order = "scattered"
            else:
                raise _returned(returning, plan, order) from None
        else:
            keys = [piece.keys for piece in pieces]
            values = [piece.values for piece in pieces if piece.values is not None]
            return totals, keys, values, {"order": "grouped" if order == "auto" else order}

    scattered = Scattered(plan, allowed)
    totals, pieces = scattered.evaluate(reading)
    way: dict[str, object] = {"order": order}
    if scattered.spilled:
        way["spilled"] = True
    return totals, *in_order_of_appearance(pieces), way


def _returned(returning: ReturningKey, plan: Plan, order: str) -> OrderError:
    which = key_text(returning.keys, plan.roles.group, 0) if returning.keys is not None else "?"
    promise = "" if order == "auto" else f", but order={order!r} promises contiguous groups"
    return OrderError(
        f"the group {which} comes back after other groups{promise}; pass order='scattered' "
        "(--order scattered) to gather rows, or sort the input by group."
    )


def _scattered(batch: pa.RecordBatch, plan: Plan) -> bool:
    keys = keys_of(batch, plan.roles, 0)
    starts = np.concatenate([[0], group_starts(keys)])
    at_starts = keys_at(keys, starts)
    integers = np.sort(key_integers(at_starts))  # np.unique() would hash them: 20 times slower
    return bool((integers[1:] == integers[:-1]).any())
