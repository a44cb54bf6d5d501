"""What Spark reads: files whose statistics mislead, tables in buckets, zones, odd names."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import fastrank_eval as fe
from tests.support.spark_frames import frame_of

ASKED: dict[str, Any] = {"group": "user", "label": "click", "score": "old", "measures": "GAUC,AUC"}


def bits(result: Any) -> list[str]:
    return [repr(value) for value in result.values]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rows = 400
    rng = np.random.default_rng(5)
    start = dt.datetime(2026, 11, 1, 20, tzinfo=dt.UTC)
    hours = [start + dt.timedelta(hours=k % 12) for k in range(rows)]
    return pa.table(
        {
            "user": rng.integers(0, 40, rows),
            "click": rng.integers(0, 2, rows),
            "old": rng.random(rows).round(1),
            "one": np.where(np.arange(rows) % 4 == 0, np.nan, 1.0),
            "zero": np.full(rows, -0.0),
            "at": pa.array(hours, pa.timestamp("us", "UTC")),
        }
    )


@pytest.fixture(scope="module")
def path(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Files as Arrow writes them: with statistics and dictionaries."""
    folder = tmp_path_factory.mktemp("files")
    parquet.write_table(table, folder / "a.parquet", row_group_size=100)
    return str(folder)


@pytest.mark.parametrize(
    "condition",
    ["one != 1", "not one = 1", "not (one <= 1)", "one not in (1)", "zero = 0", "zero in (0)"],
)
def test_where__of_files_whose_statistics_know_no_nan_and_two_zeros(spark, path, condition) -> None:
    found = fe.spark.evaluate(spark.read.parquet(path), where=condition, **ASKED)
    expected = fe.evaluate(path, where=condition, keep="", **ASKED)
    assert found.meta.rows == expected.meta.rows > 0
    assert bits(found) == bits(expected)


def test_where__of_a_thousand_conditions__does_not_overflow(spark, path) -> None:
    condition = " or ".join(f"user = {n % 30}" for n in range(1000))
    found = fe.spark.evaluate(spark.read.parquet(path), where=condition, **ASKED)
    assert bits(found) == bits(fe.evaluate(path, where="user < 30", keep="", **ASKED))


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_time_zone_of_the_session__days_are_those_of_the_column(
    spark, path, configured, zone
) -> None:
    sliced = {**ASKED, "by": ["at:day", "at:hour_of_day"], "where": "at < '2026-11-02T04:00:00Z'"}
    with configured(spark__sql__session__timeZone=zone):
        found = fe.spark.evaluate(spark.read.parquet(path), **sliced)
    assert bits(found) == bits(fe.evaluate(path, keep="", **sliced))


@pytest.mark.parametrize("buckets", [2, 4])
def test_table_in_buckets_of_the_key__is_shuffled_once_more(spark, table, path, buckets) -> None:
    name = f"in_{buckets}_buckets"
    rows = spark.read.parquet(path)
    rows.write.mode("overwrite").bucketBy(buckets, "user").saveAsTable(name)
    try:
        found = fe.spark.evaluate(spark.table(name), partitions=4, **ASKED)
    finally:
        spark.sql(f"drop table {name}")
    assert bits(found) == bits(fe.evaluate(table, keep="", **ASKED))


@pytest.mark.parametrize("text", [False, True])
def test_names_of_columns_with_any_sign(spark, table, text) -> None:
    names = {"user": "the.user `id`", "click": "click?", "old": "a.b", "at": "at time"}
    odd = table.rename_columns([names.get(name, name) for name in table.column_names])
    if text:
        users = pa.array([f"u{n}" for n in table["user"].to_pylist()])
        odd = odd.set_column(0, names["user"], users)
    asked: dict[str, Any] = {
        "group": names["user"],
        "label": names["click"],
        "score": names["old"],
        "measures": "GAUC,AUC",
        "by": ["one", '"a.b":quantile2'],
    }
    frame, expected = frame_of(spark, odd), fe.evaluate(odd, **asked)
    assert bits(fe.spark.evaluate(frame, **asked)) == bits(expected)
    found = fe.spark.evaluate(frame, per_group=True, **asked)
    assert found.columns == expected.per_group.column_names
    assert found.count() == expected.per_group.num_rows
