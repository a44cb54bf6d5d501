"""A job of Spark's: arguments checked here, rows grouped there, each partition evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import at_least_one, check_options, column_names
from fastrank_eval._lib.errors import ArgumentError, SparkError
from fastrank_eval._lib.version import __version__
from fastrank_eval.engine.run import Evaluation, run
from fastrank_eval.engine.summary import per_group_table
from fastrank_eval.integrations.spark import worker
from fastrank_eval.integrations.spark.frames import (
    arrow_schema,
    check_frame,
    functions_of,
    grouped,
    hashes,
    numbered,
    only,
    quoted,
)
from fastrank_eval.integrations.spark.merge import Answer, merged
from fastrank_eval.integrations.spark.worker import (
    FIRST_HASH,
    REPLY,
    SECOND_HASH,
    VALUES,
    Task,
    batch_in,
    stream_of,
)
from fastrank_eval.io.keys import refuse_unhashable
from fastrank_eval.measures.parser import requested_measures, spelled_out
from fastrank_eval.results.run_state import state_of_run
from fastrank_eval.slicing.parser import requested_slicing
from fastrank_eval.slicing.quantiles import Distribution
from fastrank_eval.slicing.spec import Quantile, SliceColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Job"]

#: Arguments of `evaluate` that say how rows are read, and who says it here.
_SPARKS = {
    "order": "Spark brings rows into the order of their groups",
    "presorted": "Spark brings rows into the order of their groups",
    "threads": "Spark runs as many tasks at once as it has cores",
    "limit": "call it with df.limit(...)",
    "batch_rows": "set spark.sql.execution.arrow.maxRecordsPerBatch",
    "memory": "set spark.executor.memory and spark.executor.pyspark.memory",
    "spill_dir": "set spark.local.dir",
    "format": "a DataFrame knows what it reads",
    "allow_unfinished": "a DataFrame knows what it reads",
    "progress": "Spark shows the progress of its jobs",
}
_LARGE_STATES = (
    "The states of all partitions are larger than spark.driver.maxResultSize. Exact AUC and curves "
    "keep each distinct score, and kept groups each group: raise it, or take AUC(bins=65536), or "
    "leave keep_groups and keep_scores out."
)
_MANY_VALUES = (
    "The distinct values of the columns to be binned by quantiles are larger than "
    "spark.driver.maxResultSize: raise it, or give edges, by='age:18,35'."
)
_UNSPLIT = "ties='input' takes the order of the input, which Spark does not keep; name another."


@dataclass(frozen=True)
class Job:
    """An evaluation of a DataFrame, checked as far as it can be without reading a row.

    Parameters
    ----------
    rows : DataFrame
        Those that the condition selects.
    group : tuple of str
        Key columns.
    where : str or None
    task : Task
        What partitions are asked for, but for what hangs on how Spark groups rows.
    planned : Evaluation
        Of no rows.
    """

    rows: DataFrame
    group: tuple[str, ...]
    where: str | None
    task: Task
    planned: Evaluation

    @classmethod
    def of(
        cls,
        df: DataFrame,
        taker: str,
        options: Mapping[str, Any],
        *,
        partitions: int | None,
        keep_groups: bool,
        keep_scores: bool,
    ) -> Job:
        """Check the arguments of `evaluate`.

        Parameters
        ----------
        df : DataFrame
        taker : str
            Who takes them, for messages.
        options : mapping of str to object
            By name.
        partitions : int or None
        keep_groups, keep_scores : bool

        Raises
        ------
        FastRankEvalError
            As `evaluate` does, and for what Spark cannot keep to.
        """
        check_frame(df)
        for name, remedy in _SPARKS.items():
            if name in options:
                raise ArgumentError(f"{taker}() takes no {name} for Spark: {remedy}.")
        check_options(taker, options, run, (*_SPARKS, "per_group", "keep_scores"))
        if options.get("ties") == "input":
            raise ArgumentError(_UNSPLIT)
        plain = dict(options)
        where = plain.pop("where", None)
        plain["measures"] = [spelled_out(m) for m in requested_measures(options["measures"])]
        if plain.get("by"):
            plain["by"] = [str(spec) for spec in requested_slicing(plain["by"])]
        schema = arrow_schema(df)
        rows = only(df, where, schema)
        planned = run(
            schema.empty_table(),
            **plain,
            where=where,
            per_group=True,
            keep_scores=keep_scores,
        )
        if planned.plan.ties == "input":
            raise ArgumentError(_UNSPLIT)
        task = Task(
            options=plain,
            key="",
            key_bits=0,
            hashed=(),
            partitions=_partitions(df, partitions),
            names=(),
            edges={},
            keep_groups=keep_groups,
            keep_scores=keep_scores,
            version=__version__,
        )
        group = column_names("group", options["group"])
        for name in group:
            # What is hashed is not looked at any more.
            refuse_unhashable(pa.nulls(0, schema.field(name).type), name, "group")
        return cls(rows, group, where, task, planned)

    def answer(self) -> Answer:
        """Run it."""
        task = replace(self.task, edges=_edges(self.rows, self.planned))
        keyed, task = self._grouped(task, keep_keys=task.keep_groups)
        replies = _collected(keyed.mapInArrow(partial(worker.partition_state, task), REPLY))
        told = {
            "sources": [f"{type(self.rows).__module__.partition('.')[0]}.DataFrame"],
            "where": self.where,
        }
        nothing = state_of_run(
            replace(self.planned, plan=replace(self.planned.plan, per_group=task.keep_groups)),
            "no rows",
            task.keep_groups,
        )
        return merged(replies, nothing, task.partitions, told, self.group, self._group_of)

    def group_values(self) -> DataFrame:
        """The values of every group, as `Result.per_group` has them, not computed yet."""
        from pyspark.sql.pandas.types import from_arrow_schema

        options = {name: value for name, value in self.task.options.items() if name != "by"}
        unsliced = replace(self.task, options=options)
        keyed, task = self._grouped(unsliced, keep_keys=True, sliced=False)
        schema = per_group_table(
            self.planned.plan, self.planned.keys, self.planned.values, self.planned.schema
        ).schema
        named = schema.serialize().to_pybytes()
        return keyed.mapInArrow(
            partial(worker.group_values, task, named), from_arrow_schema(schema)
        )

    def _grouped(
        self, task: Task, *, keep_keys: bool, sliced: bool = True
    ) -> tuple[DataFrame, Task]:
        plan = self.planned.plan
        slicing = () if plan.slicing is None or sliced else plan.slicing.columns
        fields = tuple(field for field in plan.roles.fields if field not in slicing)
        # Key columns are read by themselves, unless they play another part too.
        read = list(replace(plan.roles, group=(), fields=fields).by_column())
        if task.options.get("subtopics") is not None and task.options["subtopics"] not in read:
            read.append(task.options["subtopics"])
        found = grouped(self.rows, self.group, read, task.partitions, keep_keys=keep_keys)
        options = {**task.options, "group": list(found.group)}
        settled = replace(
            task,
            options=options,
            key=found.key,
            key_bits=found.key_bits,
            hashed=found.hashed,
            names=found.names,
        )
        return found.frame, settled

    def _group_of(self, first: int, second: int) -> str:
        """The group that two hashes stand for, as messages name it."""
        functions = functions_of(self.rows)
        keys = [functions.col(quoted(name)) for name in self.group]
        those = (functions.col(quoted(FIRST_HASH)) == first) & (
            functions.col(quoted(SECOND_HASH)) == second
        )
        found = self.rows.select(*keys, *hashes(self.rows, self.group)).where(those).first()
        if found is None:
            return f"{FIRST_HASH}={first}, {SECOND_HASH}={second}"
        return ", ".join(f"{name}={found[n]!r}" for n, name in enumerate(self.group))


def _partitions(df: DataFrame, given: int | None) -> int:
    chosen = df.sparkSession.conf.get("spark.sql.shuffle.partitions", "200")
    # Some vendors let Spark choose ("auto"), but a partition must know how many there are.
    otherwise = int(chosen) if chosen is not None and chosen.isdigit() else 200
    return int(at_least_one("partitions", given, otherwise))


def _edges(rows: DataFrame, planned: Evaluation) -> dict[str, bytes]:
    """Edges of quantiles of all rows, from one more job over their columns."""
    parts: list[SliceColumn] = [
        part
        for one in planned.plan.slicings
        for part in one.spec.columns
        if isinstance(part.binning, Quantile)
    ]
    if not parts:
        return {}
    names = list(dict.fromkeys(part.column for part in parts))
    met = {name: Distribution(planned.schema.field(name).type) for name in names}
    columns = rows.select(*numbered(rows, names))
    for reply in _collected(columns.mapInArrow(worker.distinct_values, VALUES), _MANY_VALUES):
        counted = batch_in(bytes(reply["values"]))
        met[names[reply["column"]]].add(counted.column(0), np.asarray(counted.column(1)))
    edges = {}
    for part in parts:
        found = met[part.column].edges(part.binning.bins)  # type: ignore[union-attr]
        edges[str(part)] = stream_of(pa.record_batch({"edge": found}))
    return edges


def _collected(replies: DataFrame, too_large: str = _LARGE_STATES) -> Sequence[Any]:
    """Run a job; what its workers lack, or the driver, is said in our words."""
    from pyspark.errors import PySparkException

    try:
        rows: Sequence[Any] = replies.collect()
    except PySparkException as error:
        told = _lacking(str(error), too_large)
        if told:
            raise SparkError(told) from error
        raise
    return rows


def _lacking(message: str, too_large: str) -> str:
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
