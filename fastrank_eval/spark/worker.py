"""What runs inside a partition of a Spark job: batches in order of their group to one reply.

A worker has no effect but its reply, so a task that is tried again, or twice at once, changes
nothing. What is wrong with rows is a reply too: an exception would have Spark try the same rows
again, and reach the user as a trace of Java's.
"""

from __future__ import annotations

import gc
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain

import numpy as np
import pyarrow as pa

from fastrank_eval import __version__
from fastrank_eval.array_views import as_array
from fastrank_eval.errors import ColumnError, FastRankEvalError, SparkError
from fastrank_eval.evaluation import Evaluation, run
from fastrank_eval.faults import BadRows
from fastrank_eval.groups import key_text
from fastrank_eval.kernel import compilations
from fastrank_eval.slices.edges import values_of
from fastrank_eval.slices.quantiles import Distribution
from fastrank_eval.sources import Source
from fastrank_eval.spark.key_runs import first_stray, whole_runs
from fastrank_eval.spark.task import FIRST_HASH, SECOND_HASH, Task, batch_in, stream_of
from fastrank_eval.state_of_run import state_of_run
from fastrank_eval.summary import per_group_table

__all__ = ["distinct_values", "group_values", "partition_state"]

_SCHEMA = pa.schema(
    [
        ("partition", pa.int64()),
        ("rows", pa.int64()),
        ("compiled", pa.int64()),
        ("state", pa.binary()),
        ("fault", pa.string()),
    ]
)
#: Rows that are read ahead, and those that are remembered, so that a fault can name its group.
_ROWS, _REMEMBERED = 1 << 18, 1 << 19


class _Rows:
    """The rows of a partition, checked on their way to the engine.

    Parameters
    ----------
    task : Task
    number : int
        Of the partition.
    batches : iterable of pyarrow.RecordBatch
        At least one.
    """

    def __init__(self, task: Task, number: int, batches: Iterable[pa.RecordBatch]) -> None:
        self._task, self._number = task, number
        batches = (_named(batch, task.names) for batch in batches)
        first = next(batches)
        self._batches = chain([first], batches)
        self._recent: deque[tuple[int, pa.RecordBatch]] = deque()
        self.rows = 0
        edges = {part: batch_in(stream).column(0) for part, stream in task.edges.items()}
        self.source = Source(
            f"partition {number}",
            first.schema,
            self._read,
            rereadable=False,
            edges=edges if edges else None,
        )

    def group_of(self, row: int) -> str:
        """The group of a row, as messages name it; "" if it was not remembered."""
        names = self._task.options["group"]
        for start, batch in self._recent:
            if start <= row < start + batch.num_rows:
                keys = tuple(batch.column(name) for name in names)
                return key_text(keys, names, row - start)
        return ""

    def _read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        checked = self._checked()
        if self._task.hashed:
            checked = whole_runs(checked, FIRST_HASH, SECOND_HASH)
        for batch in checked:
            self._remember(batch)
            self.rows += batch.num_rows
            yield batch.select(list(columns))

    def _remember(self, batch: pa.RecordBatch) -> None:
        self._recent.append((self.rows, batch))
        while len(self._recent) > 1 and self.rows - self._recent[1][0] > _REMEMBERED:
            self._recent.popleft()

    def _checked(self) -> Iterator[pa.RecordBatch]:
        """Batches whose keys are not null, ascend, and belong into this partition."""
        task, before = self._task, None
        for batch in self._batches:
            if not batch.num_rows:
                continue
            column = batch.column(task.key)
            if column.null_count:
                raise _null_keys(task, column.null_count)
            keys = as_array(column).astype(np.int64, copy=False)
            stray = first_stray(keys, before, task.key_bits, task.partitions, self._number)
            if stray >= 0:
                raise SparkError(
                    f"partition {self._number} of {task.partitions} holds a row of a group that "
                    f"belongs elsewhere ({task.key}={keys[stray]}): the plan was changed after the "
                    "rows were grouped, so groups may have been parted, and no number would be "
                    "right. Leave rules that rebalance or split partitions out of this session."
                )
            before = int(keys[-1])
            yield batch


def partition_state(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Evaluate one partition; its reply is one row of `task.REPLY`."""
    number, compiled = _partition(), compilations()
    fault, state, rows = None, None, 0
    try:
        _check_version(task)
        met = next((batch for batch in batches if batch.num_rows), None)
        if met is not None:
            reading = _Rows(task, number, chain([met], batches))
            done = _evaluated(task, reading, per_group=task.keep_groups)
            state = state_of_run(done, reading.source, task.keep_groups).to_bytes()
            rows = reading.rows
    except FastRankEvalError as error:
        fault = json.dumps({"kind": type(error).__name__, "message": str(error)})
    compiled = compilations() - compiled
    _spare_loaded()
    columns = [[number], [rows], [compiled], [state], [fault]]
    arrays = [pa.array(value, kind) for value, kind in zip(columns, _SCHEMA.types, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def group_values(
    task: Task, schema: bytes, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The values of every group of one partition, as `Result.per_group` has them."""
    _check_version(task)
    met = next((batch for batch in batches if batch.num_rows), None)
    if met is None:
        return
    reading = _Rows(task, _partition(), chain([met], batches))
    done = _evaluated(task, reading, per_group=True)
    _spare_loaded()
    table = per_group_table(done.plan, done.keys, done.values, done.schema)
    yield from table.cast(pa.ipc.read_schema(pa.py_buffer(schema))).to_batches()


def distinct_values(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The distinct values of each column of one partition, with their rows: `task.VALUES`."""
    met: list[Distribution] = []
    for batch in (_named(batch, batch.schema.names) for batch in batches):
        if not met:
            met = [Distribution(kind) for kind in batch.schema.types]
        for distribution, column in zip(met, batch.columns, strict=True):
            distribution.add(column)
    for number, distribution in enumerate(met):
        values, rows = distribution.values()
        if not len(values):
            continue
        counted = pa.record_batch(
            {"value": values_of(values, distribution.kind), "rows": pa.array(rows, pa.int64())}
        )
        yield pa.record_batch(
            {
                "column": pa.array([number], pa.int64()),
                "values": pa.array([stream_of(counted)], pa.binary()),
            }
        )


def _check_version(task: Task) -> None:
    if __version__ != task.version:
        raise SparkError(
            f"workers have fastrank_eval {__version__}, and the job was made by "
            f"{task.version}: ship the same version to both."
        )


def _named(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The batch with its columns' own names, and times in UTC.

    Spark gives times the zone of its session: the same instants, but days of other hours.
    """
    columns = [
        column.cast(pa.timestamp(column.type.unit, "UTC"))
        if pa.types.is_timestamp(column.type) and column.type.tz is not None
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def _evaluated(task: Task, reading: _Rows, *, per_group: bool) -> Evaluation:
    options = dict(task.options)
    try:
        return run(
            reading.source,
            **options,
            order="grouped",
            threads=1,
            batch_rows=_ROWS,
            per_group=per_group,
            keep_scores=task.keep_scores,
        )
    except BadRows as fault:
        group = reading.group_of(fault.row)
        where = f"first in group {group}" if group else f"in {reading.source.name}"
        raise ColumnError(
            f"{fault.fault} in at least {fault.rows:,} row(s), {where}{fault.remedy}."
        ) from fault


@cache
def _spare_loaded() -> None:
    """Once a process: leave what it has loaded out of the search for garbage.

    Spark has a worker make a full search after each task, which looks at every object of every
    package: more work than a hundred thousand rows.
    """
    gc.collect()
    gc.freeze()


def _null_keys(task: Task, nulls: int) -> ColumnError:
    names = task.hashed or (task.key,)
    told = f"group column '{names[0]}' is null"
    if len(names) > 1:
        told = f"one of the group columns {', '.join(map(repr, names))} is null"
    return ColumnError(f"{told} in at least {nulls:,} row(s); fill or drop these rows.")


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:  # pragma: no cover - Spark calls this nowhere else
        raise SparkError("there is no task of Spark's here.")
    return int(context.partitionId())
