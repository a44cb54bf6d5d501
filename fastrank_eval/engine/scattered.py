"""Evaluate rows in any order: partition them first, on disk if need be."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.files import spill_folder
from fastrank_eval._lib.memory import Budget
from fastrank_eval._lib.threads import map_jobs, report
from fastrank_eval.engine.evaluator import Evaluator, GroupResults
from fastrank_eval.engine.plan import GroupValues
from fastrank_eval.engine.stream import evaluate_stream
from fastrank_eval.groups.edges import key_text, keys_at
from fastrank_eval.groups.external_sort import Sorter, WideKeys
from fastrank_eval.groups.gather import Gatherer
from fastrank_eval.groups.partition import PartitionedBatch, Partitioner
from fastrank_eval.io.reader import RowReader, WorkBatch, in_scratch, read_batch, rebatch
from fastrank_eval.io.source import Batch, first_rows
from fastrank_eval.io.validate import keys_of

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

    def evaluate(self, reading: RowReader) -> list[list[GroupResults]]:
        """Partition the rows, and evaluate the groups.

        Parameters
        ----------
        reading : RowReader

        Returns
        -------
        list of list of GroupResults
            For each plan with groups: the results of the groups in order of appearance (empty
            unless ``plan.per_group``).
        """
        return [_in_order_of_appearance(results) for results in self._attempts(reading)]

    def _attempts(self, reading: RowReader) -> list[list[GroupResults]]:
        self._expected = reading.rows
        if reading.rereadable:  # the second attempt below reads the rows again
            with suppress(WideKeys):
                return self._evaluate(reading.unread_batches(self._plan.batch_rows), narrow=True)
            self._evaluator.clear()
        return self._evaluate(reading.unread_batches(self._plan.batch_rows), narrow=False)

    def _evaluate(self, batches: Iterable[Batch], narrow: bool) -> list[list[GroupResults]]:
        partitioned = self._partition(batches)
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
        return self._gather(Gatherer(self._partitioners[0], in_memory))

    def _partition(self, batches: Iterable[Batch]) -> Iterator[tuple[int, PartitionedBatch | None]]:
        """Yield the number of rows of each batch, and the batch partitioned."""
        plan, evaluator = self._plan, self._evaluator

        def jobs() -> Iterator[WorkBatch]:
            rest = iter(batches)
            first = next(rest, None)
            if first is None:
                return
            types = [key.type for key in keys_of(first_rows(first, 1), plan.roles.group, 0)]
            partitioner = Partitioner(
                plan.roles.group,
                types,
                evaluator.plan_columns,
                keep_numbers=evaluator.per_group or evaluator.keeps_order,
                rows=self._expected or 0,
                memory=self._budget.rows,
            )
            self._partitioners[:] = [partitioner]
            wide = any(column.text for column in partitioner.columns)
            rows = max(plan.batch_rows // _WIDE, 1) if wide else plan.batch_rows
            yield from rebatch(chain([first], rest), rows)

        def partition(job: WorkBatch) -> tuple[int, PartitionedBatch | None]:
            batch = in_scratch(read_batch(job[0]))
            rows = evaluator.read(batch, job[1], scanned=False)
            return batch.num_rows, None if rows is None else self._partitioners[0].partition(rows)

        return map_jobs(plan.threads, partition, jobs())

    def _gather(self, gatherer: Gatherer) -> list[list[GroupResults]]:
        plan, evaluator = self._plan, self._evaluator

        def evaluate_range(partitions: range) -> list[GroupResults | None]:
            chunk, starts, keys = gatherer.gather(partitions)

            def name(group: int) -> str:
                return key_text(keys(slice(group, group + 1)), plan.roles.group, 0)

            return evaluator.evaluate(chunk, starts, name, keys, scattered=True)

        results: list[list[GroupResults]] = [[] for _ in evaluator.grouped]
        ranges = list(gatherer.ranges(plan.threads))
        rows, total = 0, sum(map(gatherer.rows, ranges))
        for partitions, of_chunk in zip(
            ranges, map_jobs(plan.threads, evaluate_range, ranges), strict=True
        ):
            rows += gatherer.rows(partitions)
            report("evaluating", rows, total)
            for for_plan, result in zip(results, of_chunk, strict=True):
                if result is not None:
                    for_plan.append(result)
        self._partitioners[0].give_back()
        return results

    def _sort(
        self,
        in_memory: list[PartitionedBatch],
        rest: Iterator[PartitionedBatch],
        disk_bytes: int,
        narrow: bool,
    ) -> list[list[GroupResults]]:
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
                return evaluate_stream(report_rows(batches), self._evaluator, None, sorter.rows_of)


def _in_order_of_appearance(results: list[GroupResults]) -> list[GroupResults]:
    """Sort the results of all groups by the number of their first row."""
    results = [result for result in results if result.values is not None]
    if not results:
        return []
    first_rows = np.concatenate([result.first_rows for result in results])
    order = np.argsort(first_rows)
    columns = zip(*(result.keys for result in results), strict=True)
    keys = tuple(pa.concat_arrays(list(column)) for column in columns)
    values = GroupValues.concat([cast(GroupValues, result.values) for result in results])
    return [GroupResults(keys_at(keys, order), values.take(order), first_rows[order])]
