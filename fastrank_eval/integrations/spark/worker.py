"""Evaluate a partition, and prove that its groups are whole."""

from __future__ import annotations

import gc
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import as_array
from fastrank_eval._lib.errors import ColumnError, FastRankEvalError, SparkError
from fastrank_eval._lib.jit import compilations, kernel
from fastrank_eval._lib.version import __version__
from fastrank_eval.engine.run import Evaluation, run
from fastrank_eval.engine.summary import per_group_table
from fastrank_eval.groups.boundaries import key_text
from fastrank_eval.io import Source
from fastrank_eval.io.numbers import BadRows
from fastrank_eval.results.run_state import state_of_run
from fastrank_eval.slicing.encode import values_of
from fastrank_eval.slicing.quantiles import Distribution

__all__ = [
    "FIRST_HASH",
    "REPLY",
    "SECOND_HASH",
    "VALUES",
    "Task",
    "batch_in",
    "distinct_values",
    "first_stray",
    "group_values",
    "partition_of",
    "partition_state",
    "stream_of",
    "whole_runs",
]


#: Columns that stand for keys which are not integers.
FIRST_HASH, SECOND_HASH = "first hash of the group", "second hash of the group"
#: What a partition replies with: one row of a few counts and its state, or what is wrong.
REPLY = "partition long, rows long, compiled long, state binary, fault string"
#: The distinct values of a column and their rows, as an Arrow stream.
VALUES = "column long, values binary"


@dataclass(frozen=True)
class Task:
    """The evaluation of one partition.

    Parameters
    ----------
    options : mapping of str to object
        What `evaluate` takes, measures and slices as texts.
    key : str
        The column that rows are partitioned and sorted by: an integer key, or its first hash.
    key_bits : int
        Its width.
    hashed : tuple of str
        Key columns that two hashes stand for; empty for an integer key.
    partitions : int
        How many there are.
    names : tuple of str
        The columns of batches, which travel under other names: not all that a column may be called
        is taken by Spark's ways into Python.
    edges : mapping of str to bytes
        Edges of quantiles, found before, each an Arrow stream of one column.
    keep_groups : bool
        Keep keys and values of every group.
    keep_scores : bool
        Keep scores as numbers, for curves.
    version : str
        Of fastrank_eval where the job was made.
    """

    options: Mapping[str, Any]
    key: str
    key_bits: int
    hashed: tuple[str, ...]
    partitions: int
    names: tuple[str, ...]
    edges: Mapping[str, bytes]
    keep_groups: bool
    keep_scores: bool
    version: str


def stream_of(batch: pa.RecordBatch) -> bytes:
    """A batch as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def batch_in(stream: bytes) -> pa.RecordBatch:
    """The batch that `stream_of` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
        return reader.read_next_batch()


@kernel
def _murmur(key: np.int64, wide: bool) -> np.uint64:
    """Spark's hash of a 64-bit integer, or of a narrower one, as an unsigned 32-bit number."""
    mask = np.uint64(0xFFFFFFFF)
    bits = np.uint64(key)
    found = np.uint64(42)
    words = 2 if wide else 1
    for word in range(words):
        part = (bits >> np.uint64(32 * word)) & mask
        part = (part * np.uint64(0xCC9E2D51)) & mask
        part = ((part << np.uint64(15)) | (part >> np.uint64(17))) & mask
        part = (part * np.uint64(0x1B873593)) & mask
        found ^= part
        found = ((found << np.uint64(13)) | (found >> np.uint64(19))) & mask
        found = (found * np.uint64(5) + np.uint64(0xE6546B64)) & mask
    found ^= np.uint64(4 * words)
    found ^= found >> np.uint64(16)
    found = (found * np.uint64(0x85EBCA6B)) & mask
    found ^= found >> np.uint64(13)
    found = (found * np.uint64(0xC2B2AE35)) & mask
    return found ^ (found >> np.uint64(16))


@kernel
def _partition_of(key: np.int64, wide: bool, partitions: int) -> np.int64:
    found = np.int64(_murmur(key, wide))
    if found >= 1 << 31:
        found -= 1 << 32
    return found % partitions


@kernel
def _first_stray(
    keys: np.ndarray, before: np.int64, begun: bool, wide: bool, partitions: int, mine: int
) -> int:
    for row in range(len(keys)):
        if begun and keys[row] == before:
            continue
        if (begun and keys[row] < before) or _partition_of(keys[row], wide, partitions) != mine:
            return row
        before = keys[row]
        begun = True
    return -1


def partition_of(key: int, bits: int, partitions: int) -> int:
    """The partition that Spark puts a key into.

    Parameters
    ----------
    key : int
    bits : int
        64, or less for narrower integers, which are hashed otherwise.
    partitions : int

    Examples
    --------
    >>> [partition_of(key, 64, 200) for key in (0, 1, -1, 2**40)]
    [5, 69, 193, 113]
    """
    return int(_partition_of(np.int64(key), bits == 64, partitions))


def first_stray(keys: np.ndarray, before: int | None, bits: int, partitions: int, mine: int) -> int:
    """The first row whose key is less than the one before it, or belongs to another partition.

    Parameters
    ----------
    keys : ndarray of int64, shape (rows,)
    before : int or None
        The key of the row before them.
    bits : int
        Of the key column.
    partitions, mine : int
        How many partitions there are, and the number of this one.

    Returns
    -------
    int
        -1 if there is none.
    """
    begun = before is not None
    first = np.int64(0 if before is None else before)
    return int(_first_stray(keys, first, begun, bits == 64, partitions, mine))


def whole_runs(
    batches: Iterable[pa.RecordBatch], first: str, second: str
) -> Iterator[pa.RecordBatch]:
    """Rows in order of a hash, so that those of one key stand together.

    Of keys that share their first hash Spark leaves rows as they come; here they are put in order
    of the second. The rows of the last hash of a batch wait for those that follow.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        In order of their first hash, which is never null.
    first, second : str
        Columns of int64.
    """
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = as_array(batch.column(first))
        start = int(np.searchsorted(keys, keys[-1], "left"))
        if start or (waiting and keys[0] != as_array(waiting[-1].column(first))[-1]):
            waiting.append(batch.slice(0, start))
            yield from _apart(waiting, first, second)
            waiting = []
        waiting.append(batch.slice(start))
    yield from _apart(waiting, first, second)


def _apart(batches: list[pa.RecordBatch], first: str, second: str) -> Iterator[pa.RecordBatch]:
    """Whole runs of the first hash, rows of each in order of the second."""
    batches = [batch for batch in batches if batch.num_rows]
    if not batches:
        return
    ones, others = (
        np.concatenate([as_array(batch.column(name)) for batch in batches])
        for name in (first, second)
    )
    if not ((ones[1:] == ones[:-1]) & (others[1:] != others[:-1])).any():
        yield from batches
        return
    order = pa.array(np.lexsort((others, ones)))
    yield from pa.Table.from_batches(batches).take(order).combine_chunks().to_batches()


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
