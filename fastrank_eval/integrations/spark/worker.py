"""Evaluate a partition, and check that its groups are complete.

Merge the replies of partitions.

Select columns of a DataFrame, filter and group its rows.
"""

from __future__ import annotations

import gc
import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from inspect import signature
from itertools import chain
from operator import and_, or_
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastrank_eval._lib import __version__, errors
from fastrank_eval._lib.arrow import as_array, mask_column, null_rows, table_bytes
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, ColumnError, FastRankEvalError, SparkError
from fastrank_eval._lib.jit import compilations
from fastrank_eval._lib.lexer import Operation
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.options import Options, options_by_label
from fastrank_eval.engine.records import add_counts, counts_in, plain_counts
from fastrank_eval.engine.run import Evaluation, run_together
from fastrank_eval.groups.scan import key_text
from fastrank_eval.io.columns import NULL_GROUP
from fastrank_eval.io.filters import Literal, Node, Predicate, bind, fit, parse, reduce_balanced
from fastrank_eval.io.reader import RepeatedItemError, RowError
from fastrank_eval.io.source import Source, filter_batch
from fastrank_eval.results.labels import stacked
from fastrank_eval.results.result import State
from fastrank_eval.results.state import as_one, state_of_run
from fastrank_eval.slicing.bins import Distribution
from fastrank_eval.slicing.encode import values_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Columns that replace keys of other types than integers.
HASHES = {
    unit: (f"first hash of the {unit}", f"second hash of the {unit}")
    for unit in ("group", "cluster")
}
#: The column of the partition in which Spark must put a row.
HOME = "partition of the key"
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
    keep : frozenset of str
        What `evaluate` keeps.
    version : str
        Version of fastrank_eval on the driver.
    keys : mapping of str to str
        The columns that order rows, those of clusters first: each an integer key, or one of the two
        hashes of a key. And what a message says where it is null.
    names : tuple of str
        Names of the columns of batches. Batches travel under other names, because Spark does not
        pass every name to Python.
    edges : mapping of str to pyarrow.Array
        Edges of quantiles by column.
    drop_keyless : bool
        Leave out rows without a key, and count them.
    """

    options: Mapping[str, Any]
    partitions: int
    keep: frozenset[str]
    version: str = __version__
    keys: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    edges: Mapping[str, pa.Array] = field(default_factory=dict)
    drop_keyless: bool = False

    @property
    def key(self) -> str:
        """The column by which rows are partitioned."""
        return next(iter(self.keys))


def complete_runs(
    batches: Iterable[pa.RecordBatch], keys: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Sort the rows of each value of the first column by the others.

    Spark sorts by the first column only: a hash of the key, or the cluster. The rows of its last
    value in a batch wait for the next batch.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Sorted by the first column.
    keys : sequence of str
        Columns of integers, without nulls.
    """
    first = keys[0]
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        values = as_array(batch.column(first))
        last_start = int(np.searchsorted(values, values[-1], "left"))
        if last_start or (waiting and values[0] != as_array(waiting[-1].column(first))[-1]):
            waiting.append(batch.slice(0, last_start))
            yield from _sort_runs(waiting, keys)
            waiting = []
        waiting.append(batch.slice(last_start))
    yield from _sort_runs(waiting, keys)


def _sort_runs(batches: list[pa.RecordBatch], keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Sort complete runs of the first column by the others."""
    batches = [batch for batch in batches if batch.num_rows]
    if not batches:
        return
    first, *others = (
        np.concatenate([as_array(batch.column(name)) for batch in batches]) for name in keys
    )
    same = first[1:] == first[:-1]
    if not any((same & (each[1:] != each[:-1])).any() for each in others):
        yield from batches
        return
    order = pa.array(np.lexsort((*others[::-1], first)))
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
        self.source = Source(
            f"partition {number}",
            first.schema,
            self._read,
            rereadable=False,
            edges=task.edges or None,
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
        if len(self._task.keys) > 1:
            checked = complete_runs(checked, list(self._task.keys))
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
            for name, why in task.keys.items():
                column = batch.column(name)
                if not column.null_count:
                    continue
                if not task.drop_keyless:
                    raise ColumnError(
                        f"{why} in at least {column.null_count:,} row(s); fill or drop these rows "
                        "(null_groups='drop')."
                    )
                self.keyless += column.null_count
                batch = filter_batch(batch, mask_column(~null_rows(column)))
            if not batch.num_rows:
                continue
            keys = as_array(batch.column(task.key)).astype(np.int64, copy=False)
            misplaced = as_array(batch.column(HOME)) != self._number
            misplaced[1:] |= keys[1:] < keys[:-1]
            misplaced[0] |= before is not None and keys[0] < before
            if misplaced.any():
                row = int(misplaced.argmax())
                unit = next(
                    iter(units_of(task.options["group"], task.options.get("cluster") or ()))
                )
                raise SparkError(
                    f"partition {self._number} of {task.partitions} holds a row of a {unit} that "
                    f"belongs elsewhere ({task.key}={keys[row]}): the plan was changed after the "
                    f"rows were grouped, so {unit}s may have been split, and no number would be "
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
                state_of_run(evaluation, partition.source, "values" in task.keep).to_bytes()
                for evaluation in _evaluate(task, partition).values()
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
    task: Task, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Compute the values of the groups of a partition."""
    _check_version(task)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    partition = _PartitionRows(task, _partition_number(), chain([first], batches))
    table = table_of_groups(task, _evaluate(task, partition))
    _freeze_loaded()
    yield from table.cast(schema).to_batches()


def table_of_groups(task: Task, evaluations: Mapping[str, Evaluation]) -> pa.Table:
    """Build the table of the values of groups of every label.

    A row of null keys counts the rows without a key.
    """
    tables = {}
    for label, one in evaluations.items():
        records = GroupTable.of_run(one.plan, one.groups, one.schema)
        values = records.table()
        keyless = counts_in(one.meta.conventions).get(NULL_GROUP, {"rows": 0})["rows"]
        if keyless:
            numbers = values.column_names[len(records.keys)]
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
        counts = pa.table(
            {"value": values_of(values, distribution.kind), "rows": pa.array(rows, pa.int64())}
        )
        yield pa.record_batch(
            {
                "column": pa.array([number], pa.int64()),
                "values": pa.array([table_bytes(counts).tobytes()], pa.binary()),
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


def _evaluate(task: Task, partition: _PartitionRows) -> dict[str, Evaluation]:
    """Evaluate every label of a partition over one reading of its rows."""
    options = {
        **task.options,
        "order": "grouped",
        "threads": 1,
        "keep": sorted(task.keep),
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


def _partition_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:  # pragma: no cover - Spark calls this nowhere else
        raise SparkError("this function must run in a task of Spark.")
    return int(context.partitionId())


#: States to read and merge at a time.
_STATES_AT_ONCE = 32
_HASHED = re.compile("first hash of the (\\w+)=(-?\\d+), second hash of the \\1=(-?\\d+)")


class JobResult(NamedTuple):
    """The result of a job.

    Parameters
    ----------
    states : dict of str to State
        State of all rows by label, as if one run had read them.
    compiled : int
        Number of kernels that workers compiled because they were not in a cache.
    """

    states: dict[str, State]
    compiled: int

    def evaluations(self, started: float) -> dict[str, Evaluation]:
        """Build the evaluations of a job that started at this time, by label."""
        evaluations = {label: state.evaluation() for label, state in self.states.items()}
        seconds = perf_counter() - started
        return {
            label: replace(one, meta=replace(one.meta, seconds=seconds, compiled=self.compiled))
            for label, one in evaluations.items()
        }


def merge_replies(
    replies: Sequence[Any],
    empty: Mapping[str, State],
    partitions: int,
    provenance: Mapping[str, Any],
    group: Sequence[str],
    cluster: Sequence[str],
    key_of: Callable[[str, int, int], str],
) -> JobResult:
    """Merge the replies of partitions.

    Parameters
    ----------
    replies : sequence of rows
        Rows of `worker.REPLY`.
    empty : mapping of str to State
        State of no rows by label, in the order of the states of a reply.
    partitions : int
        Expected number of replies; there are none if there are no rows.
    provenance : mapping of str to object
        Provenance of the rows: sources and where.
    group, cluster : sequence of str
        Key columns.
    key_of : callable
        Gets the key of a unit of `HASHES` and of two hashes, for messages.

    Raises
    ------
    FastRankEvalError
        The error of the first partition with one; `SparkError` if partitions did not reply, or
        replied twice.
    """
    replies = sorted(replies, key=lambda reply: reply.partition)
    faults = [reply for reply in replies if reply.fault is not None]
    if faults:
        raise _error(faults, partitions, units_of(group, cluster), key_of)
    numbers = [reply.partition for reply in replies]
    if numbers and numbers != list(range(partitions)):
        raise SparkError(
            f"{partitions} partitions were asked for, and {len(numbers)} replied, numbered "
            f"{min(numbers)} to {max(numbers)}: rows may be missing or counted twice, so there is "
            "no result. Leave rules that merge or split partitions out of this session."
        )
    given = {"order": "spark", "limit": None, "group": group, "cluster": cluster, **provenance}
    states = {}
    for index, (label, of_no_rows) in enumerate(empty.items()):
        parts = [bytes(reply.states[index]) for reply in replies if reply.states is not None]
        states[label] = as_one(_merged(parts, of_no_rows), **given, like=of_no_rows)
    return JobResult(states, sum(reply.compiled for reply in replies))


def _merged(parts: Sequence[bytes], empty: State) -> State:
    """Read and merge the states of partitions; `empty` if there are none."""
    total: State | None = None
    for first in range(0, len(parts), _STATES_AT_ONCE):
        loaded = [State.from_bytes(part) for part in parts[first : first + _STATES_AT_ONCE]]
        one, *others = loaded if total is None else [total, *loaded]
        # Small partitions may have equal rows in different groups.
        total = one.merge(*others, allow_repeated=True)
    return empty if total is None else total


def _error(
    faults: Sequence[Any],
    partitions: int,
    units: Mapping[str, Sequence[str]],
    key_of: Callable[[str, int, int], str],
) -> FastRankEvalError:
    first = json.loads(faults[0].fault)
    kind = getattr(errors, first["kind"], FastRankEvalError)
    message = _HASHED.sub(
        lambda match: key_of(match[1], int(match[2]), int(match[3])), first["message"]
    )
    for unit, names in units.items():
        for comma, text in ((",", str), (", ", repr)):
            hashes, own = (comma.join(map(text, each)) for each in (HASHES[unit], names))
            message = message.replace(hashes, own)
    if len(faults) > 1:
        message += f" {len(faults)} of {partitions} partitions have this error or another one."
    return kind(message)


_INTEGERS = ("byte", "short", "integer", "long")
#: Arrow type of columns whose type Arrow does not have; no measure accepts it.
_UNKNOWN = pa.struct([])


def check_frame(df: Any) -> None:
    """Raise unless this is a DataFrame of Spark, and not a stream."""
    if not (type(df).__module__.startswith("pyspark.") and hasattr(df, "mapInArrow")):
        raise ArgumentError(
            f"fastrank_eval.spark takes a DataFrame of Spark, not {type(df).__name__}; "
            "fastrank_eval.evaluate() takes tables, frames and files."
        )
    if df.isStreaming:
        raise ArgumentError(
            "the DataFrame is a stream, which has no last row: evaluate the rows of each batch, "
            "as in foreachBatch()."
        )


def functions_of(df: DataFrame) -> Any:
    """Get the module of column functions for the session of a DataFrame."""
    if ".connect." in type(df).__module__:
        from pyspark.sql.connect import functions as connect_functions

        return connect_functions
    from pyspark.sql import functions

    return functions


def quote(name: str) -> str:
    """Quote the name of a column for Spark."""
    return "`" + name.replace("`", "``") + "`"


def arrow_schema(df: DataFrame) -> pa.Schema:
    """Get the Arrow schema of the batches of partitions."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    # Spark 3.5 has no time zone here and always uses UTC.
    zone: dict[str, Any] = (
        {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}
    )
    fields = []
    for one in df.schema.fields:
        try:
            kind = to_arrow_type(one.dataType, **zone)
        except (PySparkException, TypeError):
            kind = _UNKNOWN
        fields.append(pa.field(one.name, kind))
    return pa.schema(fields)


def units_of(group: Sequence[str], cluster: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the key columns, those of nested clusters first."""
    if not cluster or set(cluster) == set(group):
        return {"group": tuple(group)}
    inside = set(cluster) < set(group)
    return {
        "cluster": tuple(cluster),
        "group": tuple(name for name in group if not (inside and name in cluster)),
    }


def group_rows(
    df: DataFrame,
    group: Sequence[str],
    cluster: Sequence[str],
    columns: Iterable[str],
    task: Task,
    *,
    keep_keys: bool,
) -> tuple[DataFrame, Task]:
    """Have Spark partition and sort rows by group, or by cluster.

    Spark uses radix sort only for one integer column; for other keys it compares rows. Other keys
    are therefore hashed twice to 64 bits; a prefix makes the second hash independent.

    Parameters
    ----------
    df : DataFrame
    group, cluster : sequence of str
        Key columns.
    columns : iterable of str
        Further columns to read.
    task : Task
        With the number of partitions.
    keep_keys : bool
        Keep the columns of hashed keys.

    Returns
    -------
    DataFrame
        Its columns are numbered; each group, and each cluster, is in one partition.
    Task
        The task of these partitions.

    Notes
    -----
    The number of partitions is always passed: Spark merges partitions if it chooses their number,
    and splits keys if it balances partitions.
    """
    functions = functions_of(df)
    types = {field.name: field.dataType.typeName() for field in df.schema.fields}
    keys, known = dict[str, str](), dict[str, Sequence[str]]()
    read, hashed = list[str](), dict[str, Any]()
    for unit, names in units_of(group, cluster).items():
        is_integer = len(names) == 1 and types[names[0]] in _INTEGERS
        if is_integer or keep_keys:
            read += names
        if not is_integer:
            hashed |= zip(HASHES[unit], hash_columns(df, names, unit), strict=True)
        known[unit] = names if is_integer else HASHES[unit]
        why = f"{unit} column {names[0]!r} is null"
        if len(names) > 1:
            why = f"one of the {unit} columns {', '.join(map(repr, names))} is null"
        keys |= dict.fromkeys(known[unit], why)
    column_names = list(dict.fromkeys([*read, *columns]))
    selected = numbered_columns(df, column_names)
    selected += [one.alias(f"c{n}") for n, one in enumerate(hashed.values(), len(column_names))]
    column_names += hashed
    home = f"c{len(column_names)}"
    if not keep_keys:
        outer = known.get("cluster", known["group"]) if cluster else ()
        group = (*(outer if set(cluster) < set(group) else ()), *known["group"])
        cluster = outer
    key_column = functions.col(f"c{column_names.index(next(iter(keys)))}")
    # If the table has buckets by this key, the optimiser drops the exchange, then reads the table
    # without its buckets. The expression hides the key from the optimiser.
    partition_key = key_column.bitwiseXOR(functions.lit(0))
    # Spark puts a row in this partition; workers check that no rule has moved it afterwards.
    number = functions.pmod(functions.hash(partition_key), functions.lit(task.partitions))
    rows = (
        df.select(*selected)
        .select(number.alias(home), "*")
        .repartition(task.partitions, partition_key)
        .sortWithinPartitions(key_column)
    )
    options = {
        **task.options,
        "group": list(group),
        **({"cluster": list(cluster)} if cluster else {}),
    }
    return rows, replace(task, options=options, keys=keys, names=(HOME, *column_names))


def numbered_columns(df: DataFrame, names: Sequence[str]) -> list[Column]:
    """Rename columns to numbered names, which Spark always passes to Python."""
    functions = functions_of(df)
    return [functions.col(quote(name)).alias(f"c{index}") for index, name in enumerate(names)]


def hash_columns(df: DataFrame, names: Sequence[str], unit: str) -> list[Column]:
    """Compute `HASHES` of a unit, null if a column of its key is null."""
    functions = functions_of(df)
    keys = [functions.col(quote(name)) for name in names]
    not_null = functions.lit(True)
    for key in keys:
        not_null = not_null & key.isNotNull()
    return [
        functions.when(not_null, functions.xxhash64(*prefix, *keys)).alias(name)
        for prefix, name in zip(((), (functions.lit("second"),)), HASHES[unit], strict=True)
    ]


_OPERATORS = {
    "=": "__eq__",
    "!=": "__ne__",
    "<": "__lt__",
    "<=": "__le__",
    ">": "__gt__",
    ">=": "__ge__",
}


def filter_rows(df: DataFrame, condition: str | None, schema: pa.Schema) -> DataFrame:
    """Select the rows for which a condition is true, neither false nor null.

    Parameters
    ----------
    df : DataFrame
    condition : str or None
    schema : pyarrow.Schema
        Of the DataFrame.

    Raises
    ------
    ArgumentError
        If the condition cannot be parsed, or a literal does not fit its column.
    """
    if condition is None:
        return df
    if isinstance(condition, pc.Expression):
        raise ArgumentError(
            "where: Spark cannot take an expression of pyarrow; write it as text, "
            "where=\"day = '2026-11-19'\", or filter the DataFrame."
        )
    if not isinstance(condition, str):
        raise ArgumentError(f"where: must be text, got {condition!r}; write the condition as text.")
    node = parse(condition)
    bind(node, schema)
    return df.where(_column(df, node, schema))


def _column(df: DataFrame, node: Node, schema: pa.Schema) -> Column:
    if isinstance(node, Operation):
        parts = [_column(df, part, schema) for part in node.parts]
        if node.operator == "not":
            return ~parts[0]
        return reduce_balanced(and_ if node.operator == "and" else or_, parts)
    functions = functions_of(df)
    column = functions.col(quote(node.column))
    if node.operator == "is null":
        return column.isNull()
    if node.operator == "is true":
        return column
    kind = schema.field(node.column).type
    if pa.types.is_floating(kind):
        # Prevents pruning of files: their statistics ignore NaN and distinguish two zeros.
        column = column + functions.lit(0.0)
    literals = [_literal(df, node, literal, kind) for literal in node.literals]
    if node.operator == "in":
        return column.isin(literals)
    comparison = getattr(column, _OPERATORS[node.operator])(literals[0])
    if pa.types.is_floating(kind) and node.operator in (">", ">="):
        # In Spark, NaN is greater than every number. In IEEE 754 and here, it is not.
        return comparison & ~functions.isnan(column)
    return comparison


def _literal(df: DataFrame, node: Predicate, literal: Literal, kind: pa.DataType) -> Any:
    """Cast a literal, so that Spark does not cast the column."""
    functions = functions_of(df)
    value = fit(literal, kind, node.column, node.operator[0] in "<>")
    plain: Any = value.as_py()
    if pa.types.is_temporal(kind):
        plain = plain.isoformat()
    return functions.lit(plain).cast(df.schema[node.column].dataType)
