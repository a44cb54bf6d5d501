"""What can go wrong in Spark: faulty rows, plans that part groups, workers that die."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval.integrations.spark import evaluate as job
from fastrank_eval.integrations.spark import worker
from tests.support.spark_frames import frame_of

OPTIONS: dict[str, Any] = {"label": "click", "score": "old", "measures": "GAUC,AUC"}


@pytest.fixture(scope="session")
def expected(log: pa.Table) -> list[Any]:
    return fe.evaluate(log, group="user", keep="", **OPTIONS).values


def with_value(log: pa.Table, column: str, value: Any, row: int = 4321) -> pa.Table:
    """The log with one cell changed."""
    values = log[column].to_pylist()
    values[row] = value
    place = log.column_names.index(column)
    return log.set_column(place, column, pa.array(values, log.schema.field(column).type))


@pytest.mark.parametrize(
    "column, value, told",
    [
        ("old", float("nan"), "NaN"),
        ("old", None, "null"),
        ("click", None, "null"),
    ],
)
@pytest.mark.parametrize("group", ["user", "name", ["user", "session"]], ids=str)
def test_faulty_row__the_error_names_its_group(spark, log, group, column, value, told) -> None:
    names = [group] if isinstance(group, str) else group
    key = ", ".join(f"{name}={log[name][4321].as_py()!r}" for name in names)
    frame = frame_of(spark, with_value(log, column, value))
    with pytest.raises(fe.ColumnError) as caught:
        fe.spark.evaluate(frame, group=group, **OPTIONS)
    message = str(caught.value)
    assert f"column '{column}'" in message
    assert told.lower() in message.lower()
    assert f"first in group {key}" in message
    assert "hash" not in message
    assert "at org.apache" not in message


@pytest.mark.parametrize("group", ["user", "name"])
def test_item_twice_in_a_group__the_error_names_the_group(spark, log, group) -> None:
    number, users = list(range(log.num_rows)), log["user"].to_pylist()
    rows = [row for row in number if users[row] == users[4321]]
    number[rows[1]] = rows[0]
    frame = frame_of(spark, log.append_column("item", pa.array(number)))
    with pytest.raises(fe.ColumnError) as caught:
        fe.spark.evaluate(frame, group=group, item="item", **OPTIONS)
    key = f"{group}={log[group][4321].as_py()!r}"
    message = f"item: must occur once in a group, got {rows[0]} twice in the group {key}; keep one"
    assert message in str(caught.value)


def test_faulty_rows_in_many_partitions__it_is_said(spark, log) -> None:
    place = log.column_names.index("old")
    nothing = pa.nulls(log.num_rows, pa.float32())
    frame = frame_of(spark, log.set_column(place, "old", nothing))
    with pytest.raises(fe.ColumnError, match=r"4 of 4 partitions"):
        fe.spark.evaluate(frame, group="user", **OPTIONS)


@pytest.mark.parametrize("group", ["user", "name", ["name", "session"]], ids=str)
def test_null_key__is_refused_by_its_columns(spark, log, group) -> None:
    names = [group] if isinstance(group, str) else group
    frame = frame_of(spark, with_value(log, names[0], None))
    with pytest.raises(fe.ColumnError, match=f"{names[0]}.* null in at least 1 row"):
        fe.spark.evaluate(frame, group=group, **OPTIONS)


def test_undefined_group__the_error_names_it(spark) -> None:
    log = pa.table({"user": ["ann", "ann", "bob"], "click": [0, 1, 1], "old": [0.1, 0.2, 0.3]})
    with pytest.raises(fe.UndefinedError, match="for the group user='bob'"):
        fe.spark.evaluate(frame_of(spark, log), group="user", undefined="error", **OPTIONS)


@pytest.mark.parametrize(
    "options, told",
    [
        ({"group": "usr"}, "no column 'usr'.*Did you mean 'user'"),
        ({"group": "user", "measures": "GUAC"}, "GUAC"),
        ({"group": "user", "threads": 2}, "takes no threads for Spark: Spark runs as many"),
        ({"group": "user", "limit": 10}, r"df\.limit"),
        ({"group": "user", "ties": "input"}, "which Spark does not keep"),
        ({"group": "user", "partitions": 0}, "partitions: must be .* got 0"),
        ({"group": "user", "where": "slot = 3"}, "slot"),
        ({"group": "user", "by": "slto"}, "slto"),
        ({"group": "new"}, "type double, which cannot be a key"),
        ({"group": "user", "where": 3}, "where: must be text, got 3"),
        ({"group": "user", "metrics": "GAUC"}, "takes no metrics"),
        ({"group": "user", "label": ["click", "click"]}, "label: must name different columns"),
        ({"group": "user", "label": ["click", "clik"]}, "no column 'clik'.*'click'"),
        ({"group": "user", "measures": {"click": "RR"}}, "measures: must be measures of one label"),
        ({"group": "user", "score": {"x": "old * nwe"}}, "score x: no column 'nwe'.*'new'"),
        ({"group": "user", "score": {"new": "old * 2"}}, "got 'new', which is a column"),
        ({"group": "user", "score": {"x": "old * 2"}, "by": "x"}, "slice or field: must be"),
        ({"group": "user", "score": {"x": "old * 2"}, "where": "x > 1"}, "no column 'x'"),
    ],
)
def test_wrong_argument__is_refused_before_a_job_runs(frame, monkeypatch, options, told) -> None:
    def no_job(replies: Any) -> None:
        raise AssertionError("a job was run")

    monkeypatch.setattr(job, "_collect", no_job)
    with pytest.raises(fe.FastRankEvalError, match=told):
        fe.spark.evaluate(frame, **{**OPTIONS, **options})


@pytest.mark.parametrize("group", ["user", "name"])
def test_computed_score_of_nan__the_error_names_expression_and_group(frame, log, group) -> None:
    score = {"x": "0 * new / (new - new)"}
    with pytest.raises(fe.ColumnError, match=r"'x' = 0 \* new / \(new - new\) .* first in group"):
        fe.spark.evaluate(frame, group=group, **{**OPTIONS, "score": score})


def test_score_of_text__is_refused_by_the_workers_in_our_words(frame) -> None:
    with pytest.raises(fe.ColumnError, match="score column 'slot'"):
        fe.spark.evaluate(frame, group="user", **{**OPTIONS, "score": "slot"})


def test_stream__is_refused(spark) -> None:
    endless = spark.readStream.format("rate").load()
    with pytest.raises(fe.ArgumentError, match=r"is a stream.*foreachBatch"):
        fe.spark.evaluate(endless, group="value", **OPTIONS)


def test_no_frame_of_spark__is_refused(log) -> None:
    with pytest.raises(fe.ArgumentError, match="df: must be a DataFrame, got"):
        fe.spark.evaluate(log, group="user", **OPTIONS)


def _rebalanced(rows: Any) -> Any:
    """Rebalance by the last column, in SQL: `hint` of Spark 3.5 takes no column."""
    rows.createOrReplaceTempView("rows_to_rebalance")
    hint = f"/*+ REBALANCE(`{rows.columns[-1]}`) */"
    return rows.sparkSession.sql(f"SELECT {hint} * FROM rows_to_rebalance")  # noqa: S608


@pytest.mark.parametrize(
    "keys",
    [{"group": "user"}, {"group": "name"}, {"group": ["user", "session"], "cluster": "user"}],
    ids=str,
)
@pytest.mark.parametrize("how", ["rebalance", "shuffle", "fewer"])
def test_plan_that_may_part_groups__is_detected(frame, monkeypatch, configured, keys, how) -> None:
    """As a rule of the optimiser or a vendor's plan would do it behind our back."""
    changes: dict[str, Callable[[Any], Any]] = {
        "rebalance": _rebalanced,
        "shuffle": lambda rows: rows.repartition(4),
        "fewer": lambda rows: rows.coalesce(2),
    }
    real = worker.group_rows

    def changed(*args: Any, **named: Any) -> tuple[Any, Any]:
        rows, task = real(*args, **named)
        key = f"c{task.names.index(task.key)}"
        return changes[how](rows).sortWithinPartitions(key), task

    monkeypatch.setattr(job, "group_rows", changed)
    unit = "cluster" if "cluster" in keys else "group"
    with (
        configured(spark__sql__adaptive__advisoryPartitionSizeInBytes="2k"),
        pytest.raises(fe.SparkError, match=f"of a {unit} that belongs elsewhere.* {unit}s may"),
    ):
        fe.spark.evaluate(frame, **keys, **OPTIONS)


def test_partition_that_does_not_reply__is_missed(frame, monkeypatch) -> None:
    real = job._collect
    monkeypatch.setattr(job, "_collect", lambda replies: real(replies)[1:])
    with pytest.raises(fe.SparkError, match="4 partitions were asked for, and 3 replied"):
        fe.spark.evaluate(frame, group="user", **OPTIONS)


def test_partition_that_replies_twice__is_noticed(frame, monkeypatch) -> None:
    real = job._collect

    def twice(replies: Any) -> Any:
        rows = real(replies)
        return [*rows, rows[0]]

    monkeypatch.setattr(job, "_collect", twice)
    with pytest.raises(fe.SparkError, match="counted twice"):
        fe.spark.evaluate(frame, group="user", **OPTIONS)


def failing(monkeypatch: Any, how: str, flag: Path) -> None:
    """Have the worker of partition 1 fail in the midst of its rows, the first time."""
    real = worker.partition_state
    kill, error = signal.SIGKILL, how

    def once(task: Any, batches: Any) -> Any:
        from pyspark import TaskContext

        def broken() -> Any:
            for number, batch in enumerate(batches):
                mine = TaskContext.get().partitionId() == 1
                if mine and number == 1 and not flag.exists():
                    flag.touch()
                    if error == "killed":
                        os.kill(os.getpid(), kill)
                    raise OSError(error)
                yield batch

        return real(task, broken())

    monkeypatch.setattr(worker, "partition_state", once)


@pytest.mark.parametrize("how", ["killed", "a disk that fails once"])
def test_worker_that_fails_once__is_run_again_and_nothing_counts_twice(
    frame, expected, monkeypatch, configured, tmp_path, how
) -> None:
    flag = tmp_path / "failed"
    failing(monkeypatch, how, flag)
    with configured(spark__sql__execution__arrow__maxRecordsPerBatch="100"):
        found = fe.spark.evaluate(frame, group="user", **OPTIONS)
    assert flag.exists()
    assert [repr(value) for value in found.values] == [repr(value) for value in expected]


@pytest.mark.parametrize("package", ["fastrank_eval", "numba"])
def test_workers_without_a_package__are_told_how_to_get_it(frame, monkeypatch, package) -> None:
    def lacking(task: Any, batches: Any) -> Any:
        raise ModuleNotFoundError(f"No module named '{package}'")

    monkeypatch.setattr(worker, "partition_state", lacking)
    with pytest.raises(fe.SparkError, match=rf"cannot import {package}.*spark\.archives"):
        fe.spark.evaluate(frame, group="user", **OPTIONS)


def test_workers_of_another_version__are_refused(frame, monkeypatch) -> None:
    monkeypatch.setattr(job, "Task", partial(worker.Task, version="99.0"))
    with pytest.raises(fe.SparkError, match=r"the job was made by 99\.0: ship the same version"):
        fe.spark.evaluate(frame, group="user", **OPTIONS)


def test_states_too_large_for_the_driver__the_remedy_is_named(spark) -> None:
    message = job._missing_package(
        "... is bigger than spark.driver.maxResultSize (1 GiB)", job._LARGE_STATES
    )
    assert "AUC(bins=65536)" in message
    assert job._missing_package("something else", "") == ""


def test_keys_of_another_order__a_hash_of_a_group_that_is_gone_is_told_as_it_is(frame) -> None:
    made = job.Job.of(
        frame,
        fe.spark.evaluate,
        {"group": "name", **OPTIONS},
        partitions=2,
        kept=(),
    )
    assert re.fullmatch(r"first hash of the group=1, second .*=2", made._key_of("group", 1, 2))


def test_kernels__are_compiled_once_a_worker_not_once_a_task(frame) -> None:
    options = {"group": "user", **OPTIONS, "partitions": 12}
    fe.spark.evaluate(frame, **options)
    assert fe.spark.evaluate(frame, **options).meta.compiled == 0


def test_workers__leave_what_they_loaded_out_of_spark_s_search_for_garbage(frame) -> None:
    def spared(batches: Any) -> Any:
        import gc

        for _ in batches:
            pass
        yield pa.record_batch({"objects": pa.array([gc.get_freeze_count()], pa.int64())})

    fe.spark.evaluate(frame, group="user", **OPTIONS)
    found = frame.repartition(4).mapInArrow(spared, "objects long").collect()
    assert max(row["objects"] for row in found) > 10_000


def test_per_group__a_faulty_row_ends_the_query_with_our_message(spark, log) -> None:
    frame = frame_of(spark, with_value(log, "old", float("nan")))
    found = fe.spark.evaluate(frame, group="name", per_group=True, **OPTIONS)
    with pytest.raises(Exception, match=f"first in group name='{log['name'][4321]}'"):
        found.count()
