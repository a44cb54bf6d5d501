"""Evaluate a partition, and check that its groups are complete."""

from __future__ import annotations

import gc
import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.arrow import as_array, mask_column, null_rows
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ColumnError, FastRankEvalError, SparkError
from fastrank_eval._lib.jit import compilations, kernel
from fastrank_eval.engine.labels import options_by_label
from fastrank_eval.engine.options import Options
from fastrank_eval.engine.records import add_counts, counts_in, plain_counts
from fastrank_eval.engine.run import Evaluation, run_together
from fastrank_eval.engine.summary import group_records
from fastrank_eval.groups.edges import key_text
from fastrank_eval.io.columns import NULL_GROUP
from fastrank_eval.io.reader import RepeatedItemError, RowError
from fastrank_eval.io.source import Source, filter_batch
from fastrank_eval.results.labels import stacked
from fastrank_eval.results.state import state_of_run
from fastrank_eval.slicing.bins import Distribution
from fastrank_eval.slicing.encode import values_of

#: Columns that replace keys of other types than integers.
FIRST_HASH, SECOND_HASH = "first hash of the group", "second hash of the group"
#: Schema of the reply of a partition: one row of counts and a state for each label, or an error.
REPLY = "partition long, rows long, compiled long, states array<binary>, fault string"
#: Schema of the distinct values of a column and their rows, an Arrow stream.
VALUES = "column long, values binary"


@dataclass(frozen=True)
class Task:
    """The evaluation of one partition.

    Parameters
    ----------
    options : mapping of str to object
        Arguments of `evaluate`, measures and slices as texts. With a list of labels, measures are
        a mapping from label.
    partitions : int
        Number of partitions.
    keep_groups : bool
        Keep keys and values of every group.
    keep_scores : bool
        Keep scores as numbers, for curves.
    version : str
        Version of fastrank_eval on the driver.
    key : str
        Column to partition and sort by: an integer key, or the first hash of the key.
    key_bits : int
        Width of this column.
    hashed : tuple of str
        Key columns that two hashes replace; empty for an integer key.
    names : tuple of str
        Names of the columns of batches. Batches travel under other names, because Spark does not
        pass every name to Python.
    edges : mapping of str to bytes
        Edges of quantiles by column, each an Arrow stream of one column.
    drop_keyless : bool
        Leave out rows without a group key, and count them.
    """

    options: Mapping[str, Any]
    partitions: int
    keep_groups: bool
    keep_scores: bool
    version: str = __version__
    key: str = ""
    key_bits: int = 0
    hashed: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    edges: Mapping[str, bytes] = field(default_factory=dict)
    drop_keyless: bool = False


def batch_to_bytes(batch: pa.RecordBatch) -> bytes:
    """Write a batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def batch_from_bytes(stream: bytes) -> pa.RecordBatch:
    """Read a batch that `batch_to_bytes` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
        return reader.read_next_batch()


@kernel
def _murmur(key: np.int64, wide: bool) -> np.uint64:
    """Compute Spark's 32-bit hash (Murmur3) of a 64-bit or narrower integer."""
    mask = np.uint64(0xFFFFFFFF)
    bits = np.uint64(key)
    state = np.uint64(42)
    words = 2 if wide else 1
    for word in range(words):
        block = (bits >> np.uint64(32 * word)) & mask
        block = (block * np.uint64(0xCC9E2D51)) & mask
        block = ((block << np.uint64(15)) | (block >> np.uint64(17))) & mask
        block = (block * np.uint64(0x1B873593)) & mask
        state ^= block
        state = ((state << np.uint64(13)) | (state >> np.uint64(19))) & mask
        state = (state * np.uint64(5) + np.uint64(0xE6546B64)) & mask
    state ^= np.uint64(4 * words)
    state ^= state >> np.uint64(16)
    state = (state * np.uint64(0x85EBCA6B)) & mask
    state ^= state >> np.uint64(13)
    state = (state * np.uint64(0xC2B2AE35)) & mask
    return state ^ (state >> np.uint64(16))


@kernel
def _partition_of(key: np.int64, wide: bool, partitions: int) -> np.int64:
    hashed = np.int64(_murmur(key, wide))
    if hashed >= 1 << 31:
        hashed -= 1 << 32
    return hashed % partitions


@kernel
def _first_misplaced(
    keys: np.ndarray, before: np.int64, has_before: bool, wide: bool, partitions: int, number: int
) -> int:
    for row in range(len(keys)):
        if has_before and keys[row] == before:
            continue
        if (has_before and keys[row] < before) or _partition_of(
            keys[row], wide, partitions
        ) != number:
            return row
        before = keys[row]
        has_before = True
    return -1


def partition_of(key: int, bits: int, partitions: int) -> int:
    """Compute the partition that Spark assigns to a key.

    Parameters
    ----------
    key : int
    bits : int
        64, or less for narrower integers, which have another hash.
    partitions : int

    Examples
    --------
    >>> [partition_of(key, 64, 200) for key in (0, 1, -1, 2**40)]
    [5, 69, 193, 113]
    """
    return int(_partition_of(np.int64(key), bits == 64, partitions))


def first_misplaced(
    keys: np.ndarray, before: int | None, bits: int, partitions: int, number: int
) -> int:
    """Find the first row out of order, or of another partition.

    A row is out of order if its key is less than the key before.

    Parameters
    ----------
    keys : ndarray of int64, shape (rows,)
    before : int or None
        The key of the row before the first one.
    bits : int
        Width of the key column.
    partitions, number : int
        The number of partitions, and the index of this one.

    Returns
    -------
    int
        Its index, -1 if there is none.
    """
    has_before = before is not None
    first = np.int64(0 if before is None else before)
    return int(_first_misplaced(keys, first, has_before, bits == 64, partitions, number))


def complete_runs(
    batches: Iterable[pa.RecordBatch], first: str, second: str
) -> Iterator[pa.RecordBatch]:
    """Sort the rows of each hash, so that rows of a key are contiguous.

    Spark sorts by the first hash only. Rows with the same first hash are sorted by the second one
    here. The rows of the last hash of a batch wait for the next batch.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Sorted by the first hash, which is never null.
    first, second : str
        Columns of int64.
    """
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = as_array(batch.column(first))
        last_start = int(np.searchsorted(keys, keys[-1], "left"))
        if last_start or (waiting and keys[0] != as_array(waiting[-1].column(first))[-1]):
            waiting.append(batch.slice(0, last_start))
            yield from _sort_runs(waiting, first, second)
            waiting = []
        waiting.append(batch.slice(last_start))
    yield from _sort_runs(waiting, first, second)


def _sort_runs(batches: list[pa.RecordBatch], first: str, second: str) -> Iterator[pa.RecordBatch]:
    """Sort complete runs of the first hash by the second one."""
    batches = [batch for batch in batches if batch.num_rows]
    if not batches:
        return
    first_hashes, second_hashes = (
        np.concatenate([as_array(batch.column(name)) for batch in batches])
        for name in (first, second)
    )
    if not (
        (first_hashes[1:] == first_hashes[:-1]) & (second_hashes[1:] != second_hashes[:-1])
    ).any():
        yield from batches
        return
    order = pa.array(np.lexsort((second_hashes, first_hashes)))
    yield from pa.Table.from_batches(batches).take(order).combine_chunks().to_batches()


_SCHEMA = pa.schema(
    [
        ("partition", pa.int64()),
        ("rows", pa.int64()),
        ("compiled", pa.int64()),
        ("states", pa.list_(pa.binary())),
        ("fault", pa.string()),
    ]
)
#: Rows of a batch, and recent rows to keep, so that an error can name its group.
_BATCH_ROWS, _RECENT_ROWS = 1 << 18, 1 << 19


class _PartitionRows:
    """The rows of a partition, checked while the engine reads them.

    Parameters
    ----------
    task : Task
    number : int
        Index of the partition.
    batches : iterable of pyarrow.RecordBatch
        At least one.
    """

    def __init__(self, task: Task, number: int, batches: Iterable[pa.RecordBatch]) -> None:
        self._task, self._number = task, number
        batches = (_with_names(batch, task.names) for batch in batches)
        first = next(batches)
        self._batches = chain([first], batches)
        self._recent: deque[tuple[int, pa.RecordBatch]] = deque()
        self.rows = self.keyless = 0
        edges = {
            column: batch_from_bytes(stream).column(0) for column, stream in task.edges.items()
        }
        self.source = Source(
            f"partition {number}",
            first.schema,
            self._read,
            rereadable=False,
            edges=edges if edges else None,
        )

    def group_of(self, row: int) -> str:
        """Name the group of a row for messages, "" if the row is not recent."""
        names = self._task.options["group"]
        for start, batch in self._recent:
            if start <= row < start + batch.num_rows:
                keys = tuple(batch.column(name) for name in names)
                return key_text(keys, names, row - start)
        return ""

    def _read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        checked = self._checked_batches()
        if self._task.hashed:
            checked = complete_runs(checked, FIRST_HASH, SECOND_HASH)
        for batch in checked:
            self._remember(batch)
            self.rows += batch.num_rows
            yield batch.select(list(columns))

    def _remember(self, batch: pa.RecordBatch) -> None:
        self._recent.append((self.rows, batch))
        while len(self._recent) > 1 and self.rows - self._recent[1][0] > _RECENT_ROWS:
            self._recent.popleft()

    def _checked_batches(self) -> Iterator[pa.RecordBatch]:
        """Check that keys are not null, ascend and belong to this partition."""
        task, before = self._task, None
        for batch in self._batches:
            if not batch.num_rows:
                continue
            column = batch.column(task.key)
            if column.null_count and not task.drop_keyless:
                raise _null_key_error(task, column.null_count)
            if column.null_count:
                self.keyless += column.null_count
                batch = filter_batch(batch, mask_column(~null_rows(column)))
                column = batch.column(task.key)
                if not batch.num_rows:
                    continue
            keys = as_array(column).astype(np.int64, copy=False)
            row = first_misplaced(keys, before, task.key_bits, task.partitions, self._number)
            if row >= 0:
                raise SparkError(
                    f"partition {self._number} of {task.partitions} holds a row of a group that "
                    f"belongs elsewhere ({task.key}={keys[row]}): the plan was changed after the "
                    "rows were grouped, so groups may have been split, and no number would be "
                    "right. Leave rules that rebalance or split partitions out of this session."
                )
            before = int(keys[-1])
            yield batch


def partition_state(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Evaluate a partition and reply with one row of `REPLY`."""
    number, compiled = _partition_number(), compilations.count
    fault, states, rows = None, None, 0
    try:
        _check_version(task)
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is not None:
            partition = _PartitionRows(task, number, chain([first], batches))
            states = [
                state_of_run(evaluation, partition.source, task.keep_groups).to_bytes()
                for evaluation in _evaluate(task, partition, per_group=task.keep_groups).values()
            ]
            rows = partition.rows
    except FastRankEvalError as error:
        fault = json.dumps({"kind": type(error).__name__, "message": str(error)})
    compiled = compilations.count - compiled
    _freeze_loaded()
    columns = [[number], [rows], [compiled], [states], [fault]]
    arrays = [pa.array(value, kind) for value, kind in zip(columns, _SCHEMA.types, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def group_values(
    task: Task, schema: bytes, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Compute the values of the groups of a partition."""
    _check_version(task)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    partition = _PartitionRows(task, _partition_number(), chain([first], batches))
    table = table_of_groups(task, _evaluate(task, partition, per_group=True))
    _freeze_loaded()
    yield from table.cast(pa.ipc.read_schema(pa.py_buffer(schema))).to_batches()


def table_of_groups(task: Task, evaluations: Mapping[str, Evaluation]) -> pa.Table:
    """Build the table of the values of groups of every label.

    A row of null keys counts the rows without a key.
    """
    tables = {}
    for label, one in evaluations.items():
        records = group_records(one.plan, one.keys, one.values, one.schema)
        values = records.table()
        keyless = counts_in(one.meta.conventions).get(NULL_GROUP, {"rows": 0})["rows"]
        if keyless:
            numbers = values.column_names[len(records.names)]
            count = pa.table({numbers: pa.array([keyless], values.schema.field(numbers).type)})
            values = pa.concat_tables([values, count], promote_options="default")
        tables[label] = values
    label = task.options["label"]
    table: pa.Table = tables[label] if isinstance(label, str) else stacked(tables)
    return table


def distinct_values(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the rows of the distinct values of each column: rows of `VALUES`."""
    distributions: list[Distribution] = []
    for batch in (_with_names(batch, batch.schema.names) for batch in batches):
        if not distributions:
            distributions = [Distribution(kind) for kind in batch.schema.types]
        for distribution, column in zip(distributions, batch.columns, strict=True):
            distribution.add(column)
    for number, distribution in enumerate(distributions):
        values, rows = distribution.values()
        if not len(values):
            continue
        counts = pa.record_batch(
            {"value": values_of(values, distribution.kind), "rows": pa.array(rows, pa.int64())}
        )
        yield pa.record_batch(
            {
                "column": pa.array([number], pa.int64()),
                "values": pa.array([batch_to_bytes(counts)], pa.binary()),
            }
        )


def _check_version(task: Task) -> None:
    if __version__ != task.version:
        raise SparkError(
            f"workers have fastrank_eval {__version__}, and the job was made by "
            f"{task.version}: ship the same version to both."
        )


def _with_names(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Rename columns to their own names, and convert times to UTC.

    Spark converts times to the zone of its session: days would begin at other hours.
    """
    columns = [
        column.cast(pa.timestamp(column.type.unit, "UTC"))
        if pa.types.is_timestamp(column.type) and column.type.tz is not None
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def _evaluate(task: Task, partition: _PartitionRows, *, per_group: bool) -> dict[str, Evaluation]:
    """Evaluate every label of a partition over one reading of its rows."""
    options = {
        **task.options,
        "order": "grouped",
        "threads": 1,
        "keep": ["values"] * per_group + ["scores"] * task.keep_scores,
    }
    read = Options.read(partition.source, options).replace(batch_rows=_BATCH_ROWS)
    by_label = options_by_label(read)
    try:
        evaluations = dict(zip(by_label, run_together(list(by_label.values())), strict=True))
    except RepeatedItemError as fault:  # rows of a partition have no number in the input
        group = partition.group_of(fault.rows[1]) or fault.group
        raise ColumnError(str(RepeatedItemError(fault.item, group, ()))) from fault
    except RowError as fault:
        group = partition.group_of(fault.row)
        where = f"first in group {group}" if group else f"in {partition.source.name}"
        raise ColumnError(
            f"{fault.problem} in at least {fault.rows:,} row(s), {where}{fault.remedy}."
        ) from fault
    if not task.drop_keyless:
        return evaluations
    keyless = partition.keyless
    return {label: without_keyless(one, keyless) for label, one in evaluations.items()}


def without_keyless(evaluation: Evaluation, rows: int) -> Evaluation:
    """Count rows without a group key that an evaluation has not read."""
    conventions = dict(evaluation.meta.conventions)
    keyless = plain_counts(Counter({(NULL_GROUP, ""): rows}))
    conventions |= {"null_groups": "drop", **add_counts([keyless, conventions])}
    return replace(evaluation, meta=replace(evaluation.meta, conventions=conventions))


@cache
def _freeze_loaded() -> None:
    """Exclude loaded objects from garbage collection, once a process.

    Spark's worker runs a full collection after each task. It visits every object of every package,
    which takes longer than a hundred thousand rows.
    """
    gc.collect()
    gc.freeze()


def _null_key_error(task: Task, nulls: int) -> ColumnError:
    names = task.hashed or (task.key,)
    message = f"group column '{names[0]}' is null"
    if len(names) > 1:
        message = f"one of the group columns {', '.join(map(repr, names))} is null"
    return ColumnError(
        f"{message} in at least {nulls:,} row(s); fill or drop these rows (null_groups='drop')."
    )


def _partition_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:  # pragma: no cover - Spark calls this nowhere else
        raise SparkError("this function must run in a task of Spark.")
    return int(context.partitionId())
