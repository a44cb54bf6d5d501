"""Evaluate and compare the models of a DataFrame by a job of Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import checked, integer, typed
from fastrank_eval._lib.arrow import table_from_bytes
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, SparkError
from fastrank_eval.engine import DEFAULT_MEASURES
from fastrank_eval.engine.options import (
    OPTIONS,
    Options,
    check_names,
    measures_by_label,
    options_by_label,
)
from fastrank_eval.engine.run import Evaluation, run_together
from fastrank_eval.integrations.spark import worker
from fastrank_eval.integrations.spark.worker import (
    HASHES,
    REPLY,
    VALUES,
    JobResult,
    Task,
    arrow_schema,
    check_frame,
    filter_rows,
    functions_of,
    group_rows,
    hash_columns,
    merge_replies,
    numbered_columns,
    quote,
    units_of,
    without_keyless,
)
from fastrank_eval.io.columns import refuse_unhashable
from fastrank_eval.io.computed import input_columns
from fastrank_eval.measures.parser import requested_measures, text_with_options
from fastrank_eval.results.compare_tests import choices_of, default_measures, refuse_pooled
from fastrank_eval.results.comparison import Comparison
from fastrank_eval.results.evaluate import unit_needed
from fastrank_eval.results.labels import for_labels
from fastrank_eval.results.result import Result, result_of
from fastrank_eval.results.state import state_of_run
from fastrank_eval.slicing.bins import Distribution
from fastrank_eval.slicing.spec import Quantile, SliceColumn, requested_slicing

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import DataFrame

    from fastrank_eval.engine.option_types import SparkCompareOptions, SparkOptions

_LARGE_STATES = (
    "The states of all partitions are larger than spark.driver.maxResultSize. Exact AUC and curves "
    "keep each distinct score, and kept groups each group: raise it, or take AUC(bins=65536), or "
    "leave keep out."
)
_MANY_VALUES = (
    "The distinct values of the columns to be binned by quantiles are larger than "
    "spark.driver.maxResultSize: raise it, or give edges, by='age:18,35'."
)
_NO_INPUT_ORDER = (
    "ties='input' takes the order of the input, which Spark does not keep; name another."
)


@dataclass(frozen=True)
class Job:
    """An evaluation of a DataFrame with checked arguments.

    Parameters
    ----------
    rows : DataFrame
        The rows that the condition selects.
    group, cluster : tuple of str
        Key columns.
    where : str or None
    task : Task
        Task of partitions, without the fields that depend on how Spark groups rows.
    empty_runs : mapping of str to Evaluation
        An evaluation of no rows for each label.
    """

    rows: DataFrame
    group: tuple[str, ...]
    cluster: tuple[str, ...]
    where: str | None
    task: Task
    empty_runs: Mapping[str, Evaluation]

    @classmethod
    def of(
        cls,
        df: DataFrame,
        own: Callable[..., Any],
        options: Mapping[str, Any],
        *,
        partitions: int | None,
        kept: Collection[str],
    ) -> Job:
        """Check the arguments of `evaluate`.

        Parameters
        ----------
        df : DataFrame
        own : callable
            The function that was called.
        options : mapping of str to object
            Arguments by name.
        partitions : int or None
        kept : collection of str
            What the result keeps.

        Raises
        ------
        FastRankEvalError
            As `evaluate` does; also for arguments that Spark does not support.
        """
        arguments = {"measures": DEFAULT_MEASURES, **options}
        check_names("spark", arguments, own)
        keys = [name for name in ("group", "cluster") if arguments.get(name) is not None]
        if not keys:
            raise ArgumentError(f"{own.__name__}() needs group=...")
        for name in (*keys, "label", "score"):
            arguments[name] = OPTIONS[name].read(name, arguments[name])
        check_frame(df)
        where = arguments.pop("where", None)
        nulls = OPTIONS["null_groups"]
        null_groups = nulls.read("null_groups", arguments.pop("null_groups", nulls.default))
        by_label = measures_by_label(arguments["label"], arguments["measures"])
        measures = {label: requested_measures(each) for label, each in by_label.items()}
        arguments["label"] = list(measures)
        if arguments.get("by"):
            arguments["by"] = [str(spec) for spec in requested_slicing(arguments["by"])]
        schema = arrow_schema(df)
        rows = filter_rows(df, where, schema)
        needed = "values" if "group" in keys else "state"
        given = {**arguments, "measures": measures, "where": where, "keep": [needed, *kept]}
        read = Options.read(schema.empty_table(), given)
        requests = options_by_label(read)
        empty_runs = dict(zip(requests, run_together(list(requests.values())), strict=True))
        if null_groups == "drop":
            empty_runs = {label: without_keyless(one, 0) for label, one in empty_runs.items()}
        if any(one.plan.ties == "input" for one in empty_runs.values()):
            raise ArgumentError(_NO_INPUT_ORDER)
        texts = {label: list(map(text_with_options, each)) for label, each in measures.items()}
        arguments["measures"] = texts
        if isinstance(label := options["label"], str):
            arguments |= {"label": label, "measures": texts[label]}
        task = Task(
            arguments,
            _partition_count(df, partitions),
            frozenset(kept),
            drop_keyless=null_groups == "drop",
        )
        cluster = read.cluster or ()
        group = read.group or cluster
        for name, role in (
            dict.fromkeys(cluster, "cluster") | dict.fromkeys(group, "group")
        ).items():
            # Hashed keys are not checked later.
            refuse_unhashable(pa.nulls(0, schema.field(name).type), name, role)
        return cls(rows, group, cluster, where, task, empty_runs)

    def run(self) -> JobResult:
        """Run the job."""
        rows = self.rows
        if self.task.drop_keyless:
            rows = rows.dropna(subset=[*self.cluster, *self.group])
        task = replace(self.task, edges=_edges(rows, list(self.empty_runs.values())))
        # The bucket of a cluster is a hash of its key, the same in every night and on one machine.
        keep_groups, kept = "values" in task.keep, not task.keep.isdisjoint({"values", "clusters"})
        frame, task = self._group_rows(task, keep_keys=kept)
        replies = _collect(frame.mapInArrow(partial(worker.partition_state, task), REPLY))
        provenance = {
            "sources": [f"{type(self.rows).__module__.partition('.')[0]}.DataFrame"],
            "where": self.where,
        }
        empty = {
            label: state_of_run(
                replace(one, plan=replace(one.plan, per_group=keep_groups)), "no rows", keep_groups
            )
            for label, one in self.empty_runs.items()
        }
        keys = self.group, self.cluster
        return merge_replies(replies, empty, task.partitions, provenance, *keys, self._key_of)

    def result(self, label: str | Sequence[str]) -> Result:
        """Run the job, and return its result."""
        started, reply = perf_counter(), self.run()
        results = {
            name: result_of(evaluation, "scores" in self.task.keep, reply.states[name])
            for name, evaluation in reply.evaluations(started).items()
        }
        return for_labels(Result, label, results, per_group=None)

    def group_values(self) -> DataFrame:
        """Return a lazy DataFrame of the values of every group."""
        from pyspark.sql.pandas.types import from_arrow_schema

        options = {name: value for name, value in self.task.options.items() if name != "by"}
        unsliced = replace(self.task, options=options, keep=frozenset({"values"}))
        frame, task = self._group_rows(unsliced, keep_keys=True, sliced=False)
        schema = worker.table_of_groups(task, self.empty_runs).schema
        return frame.mapInArrow(
            partial(worker.group_values, task, schema), from_arrow_schema(schema)
        )

    def _group_rows(
        self, task: Task, *, keep_keys: bool, sliced: bool = True
    ) -> tuple[DataFrame, Task]:
        names: list[str] = []
        for plan in (one.plan for one in self.empty_runs.values()):
            slicing = () if plan.slicings is None or sliced else plan.slicings.columns
            fields = tuple(field for field in plan.roles.fields if field not in slicing)
            # Key columns are added separately, unless they have another role too.
            roles = replace(plan.roles, group=(), cluster=(), fields=fields)
            names += input_columns(roles.by_column(), roles.expressions)
        if task.options.get("subtopics") is not None and task.options["subtopics"] not in names:
            names.append(task.options["subtopics"])
        keys = self.group, self.cluster
        return group_rows(self.rows, *keys, names, task, keep_keys=keep_keys)

    def _key_of(self, unit: str, *hashes: int) -> str:
        """Name the group or the cluster of two hashes, for messages."""
        functions, names = functions_of(self.rows), units_of(self.group, self.cluster)[unit]
        known = dict(zip(HASHES[unit], hashes, strict=True))
        keys = [functions.col(quote(name)) for name in names]
        rows = self.rows.select(*keys, *hash_columns(self.rows, names, unit))
        for name, value in known.items():
            rows = rows.where(functions.col(quote(name)) == value)
        row = rows.first()
        named = known if row is None else dict(zip(names, row, strict=False))
        return ", ".join(f"{name}={value!r}" for name, value in named.items())


def _partition_count(df: DataFrame, partitions: int | None) -> int:
    configured = df.sparkSession.conf.get("spark.sql.shuffle.partitions", "200")
    # Some vendors allow "auto", but a partition must know the number of partitions.
    default = int(configured) if configured is not None and configured.isdigit() else 200
    return int(checked("partitions", partitions, integer(1, optional=True)) or default)


def _edges(rows: DataFrame, empty_runs: Sequence[Evaluation]) -> dict[str, pa.Array]:
    """Compute edges of quantiles over all rows, in a job of its own."""
    parts: dict[str, SliceColumn] = {
        str(part): part
        for empty_run in empty_runs
        for slicing in empty_run.plan.slice_encoders
        for part in slicing.spec.columns
        if isinstance(part.binning, Quantile)
    }
    if not parts:
        return {}
    names = list(dict.fromkeys(part.column for part in parts.values()))
    distributions = {name: Distribution(empty_runs[0].schema.field(name).type) for name in names}
    columns = rows.select(*numbered_columns(rows, names))
    for reply in _collect(columns.mapInArrow(worker.distinct_values, VALUES), _MANY_VALUES):
        counts = table_from_bytes(np.frombuffer(reply["values"], np.uint8)).combine_chunks()
        values, of_values = (column.chunk(0) for column in counts.columns)
        distributions[names[reply["column"]]].add(values, np.asarray(of_values))
    return {
        name: distributions[part.column].edges(part.binning.bins)  # type: ignore[union-attr]
        for name, part in parts.items()
    }


def _collect(replies: DataFrame, too_large: str = _LARGE_STATES) -> Sequence[Any]:
    """Run a job, and explain missing packages or too large replies."""
    from pyspark.errors import PySparkException

    try:
        rows: Sequence[Any] = replies.collect()
    except PySparkException as error:
        message = _missing_package(str(error), too_large)
        if message:
            raise SparkError(message) from error
        raise
    return rows


def _missing_package(message: str, too_large: str) -> str:
    for package in ("fastrank_eval", "pyarrow", "numba", "numpy"):
        if f"No module named '{package}'" in message:
            return (
                f"Spark's workers cannot import {package}: ship an environment that holds "
                "fastrank_eval to them (spark.archives), or set spark.pyspark.python "
                "(PYSPARK_PYTHON) to a Python that has it on every worker."
            )
    if "spark.driver.maxResultSize" in message:
        return too_large
    return ""


@overload
def evaluate(
    df: DataFrame, *, per_group: Literal[False] = ..., **options: Unpack[SparkOptions]
) -> Result: ...


@overload
def evaluate(
    df: DataFrame, *, per_group: Literal[True], **options: Unpack[SparkOptions]
) -> DataFrame: ...


@typed
def evaluate(
    df: DataFrame,
    *,
    partitions: int | None = None,
    per_group: bool = False,
    keep: str | Sequence[str] = "",
    **options: Unpack[SparkOptions],
) -> Result | DataFrame:
    """Evaluate a DataFrame inside Spark.

    The result has the bits of `fastrank_eval.evaluate`.

    Spark groups the rows by one integer column, of the group or the cluster. The same engine
    evaluates each partition on its worker, which replies with the state of its groups, a few
    kilobytes. States are merged exactly.

    Parameters
    ----------
    df : DataFrame
        From a classic session or Spark Connect; one row per shown or judged item.
    partitions : int, optional
        By default ``spark.sql.shuffle.partitions``. Use two to four times the cores of the cluster,
        and at most some ten million rows each. The result has the same bits for any number.
    per_group : bool
        Return a DataFrame of the values of every group instead, with the columns of
        `Result.per_group`. It is lazy: an action on it computes the rows. With
        ``null_groups="drop"`` a row of null keys has the number of rows without a key, if there are
        any, and no values.
    keep : str or sequence of str
        As in `fastrank_eval.evaluate`: ``"groups"`` keeps keys and values of every group in
        `Result.state`, and the driver receives them, ``"clusters"`` sums by bucket of clusters,
        ``"scores"`` every distinct score.
    **options
        `group` or `cluster` (one is required), `label`, `score` and any other argument of
        `fastrank_eval.evaluate`, except those that Spark decides (`order`, `threads`, `memory`,
        `limit` ...) and ``ties="input"``, because Spark keeps no order.

    Returns
    -------
    Result or DataFrame
        A result, and each part of a result of several labels, always has `Result.state`.

    Raises
    ------
    FastRankEvalError
        As `fastrank_eval.evaluate` does, with the group of a faulty row; `SparkError` if workers do
        not have the package, or if Spark changed the plan so that groups may be split. A group in
        clusters of two partitions is no error: it counts as two groups.

    Notes
    -----
    If the bytes of a batch are limited, Spark adds them up after each row that it sends to Python.
    A batch has at most ``spark.sql.execution.arrow.maxRecordsPerBatch`` rows anyway, so a session
    can remove the limit: ``spark.sql.execution.arrow.maxBytesPerBatch`` of 2147483647.

    Examples
    --------
    >>> from fastrank_eval import spark
    >>> spark.evaluate(  # doctest: +SKIP
    ...     session.table("impressions"), group="user_id", label="click", score="score_a",
    ...     measures="GAUC,LogLoss", by="country",
    ... )
    """
    kept = OPTIONS["keep"].read("keep", keep)
    job = Job.of(df, evaluate, options, partitions=partitions, kept=kept)
    if per_group:
        return job.group_values()
    return job.result(options["label"])


@typed
def compare(
    df: DataFrame,
    *,
    test: str = "clustered_t",
    correction: str = "holm",
    replicates: int = 10_000,
    seed: int = 0,
    partitions: int | None = None,
    keep: str | Sequence[str] = "",
    **options: Unpack[SparkCompareOptions],
) -> Comparison:
    """Compare models with a baseline inside Spark.

    The result has the bits of `fastrank_eval.compare`.

    Parameters
    ----------
    df : DataFrame
    test, correction, replicates, seed
        As in `fastrank_eval.compare`. If a test needs the values of every group, the driver
        receives them.
    partitions : int, optional
        As in `evaluate`.
    keep : {"", "values"}
        ``"values"`` sends the values of every group to the driver, for
        `Comparison.largest_changes`.
    **options
        `baseline`, and as in `evaluate`.

    Returns
    -------
    Comparison

    Raises
    ------
    FastRankEvalError
        As `evaluate` and `fastrank_eval.compare` do.

    Examples
    --------
    >>> from fastrank_eval import spark
    >>> spark.compare(  # doctest: +SKIP
    ...     session.table("impressions"), group="user_id", label="click",
    ...     score=["old", "new"], baseline="old", measures="GAUC,AUC",
    ... )
    """
    check_names("spark", options, compare, needs=(unit_needed(options), "baseline"))
    given: dict[str, Any] = {
        "test": test,
        "correction": correction,
        "replicates": replicates,
        "seed": seed,
    }
    choices = choices_of(**given)
    asked: dict[str, Any] = {"measures": default_measures(choices.test), **options}
    for measures in measures_by_label(asked["label"], asked["measures"]).values():
        refuse_pooled(choices.test, requested_measures(measures))
    kept = {"values"} if choices.needs_groups else OPTIONS["keep"].read("keep", keep)
    job = Job.of(df, compare, asked, partitions=partitions, kept=kept)
    return job.result(options["label"]).compare(**given)
