"""Rows that options leave out of a job of Spark: as many are counted as on one machine."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import fastrank_eval as fe
from tests.support.doors import CHOICES, DROPS, log_without
from tests.support.spark_frames import frame_of


def with_names(log: pa.Table) -> pa.Table:
    """The log with text keys, null where the user is."""
    names = [None if user is None else f"u{user}" for user in log["user"].to_pylist()]
    return log.append_column("name", pa.array(names))


@pytest.mark.parametrize("group", ["user", "name", ["user", "name"]], ids=str)
@pytest.mark.parametrize("reason", DROPS)
def test_rows_that_an_option_drops__are_counted(spark, reason: str, group: str | list[str]) -> None:
    column, option, told = DROPS[reason]
    log = with_names(log_without(column))
    options = {**CHOICES, **option, "group": group, "by": "a:quantile3"}
    result = fe.spark.evaluate(frame_of(spark, log), **options, partitions=3)
    here = fe.evaluate(log, **options, keep="state")
    assert told in repr(result)
    counts = here.meta.conventions["rows_left_out"]
    assert counts[reason]["rows"] == 37
    assert result.meta.conventions["rows_left_out"] == counts
    assert [v.value for v in result] == [v.value for v in here]
    assert json.loads(result.state.result().to_json())["meta"]["conventions"][
        "rows_left_out"
    ] == counts  # fmt: skip
    comparison = fe.spark.compare(frame_of(spark, log), **{**options, "by": None}, baseline="a")
    assert told in repr(comparison)


def test_frame_without_any_key__has_no_rows_and_a_count(spark) -> None:
    log = log_without("user")
    place = log.column_names.index("user")
    log = log.set_column(place, "user", pa.nulls(600, pa.int64()))
    result = fe.spark.evaluate(frame_of(spark, log), **CHOICES, null_groups="drop", partitions=2)
    assert result.meta.rows == 0
    assert "600 rows without a group key left out, 100% of 600" in repr(result)
    assert rows_by_key(spark, log, label="click") == [(None, 600, None, None)]


def rows_by_key(spark, log: pa.Table, **options: Any) -> list[tuple[Any, ...]]:
    frame = fe.spark.evaluate(
        frame_of(spark, log), **{**CHOICES, "measures": "GAUC", "score": "a", **options},
        null_groups="drop", per_group=True, partitions=3,
    )  # fmt: skip
    return [tuple(row) for row in frame.collect()]


@pytest.mark.parametrize("group", ["user", "name", ["user", "name"]], ids=str)
def test_table_of_groups__counts_rows_without_a_key(spark, group: str | list[str]) -> None:
    log = with_names(log_without("user"))
    here = fe.evaluate(log, **{**CHOICES, "group": group, "measures": "GAUC", "score": "a"},
                       null_groups="drop", keep="values")  # fmt: skip
    found = rows_by_key(spark, log, group=group)
    (count,) = [row for row in found if row[0] is None]
    keys = 1 if isinstance(group, str) else len(group)
    assert count == (*[None] * keys, 37, None, None)
    of_groups = [tuple(row.values()) for row in here.per_group.to_pylist()]
    assert sorted(row for row in found if row is not count) == sorted(of_groups)
    for_labels = rows_by_key(spark, log, label=["click"])
    assert [row[:3] for row in for_labels if row[1] is None] == [("click", None, 37)]
