"""Numbers from Spark: the bits of the local engine, however rows are shared out."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval.engine.records import MeasureValue
from tests.support.spark_frames import frame_of, sorted_table

MEASURES = "GAUC,nDCG@10,RR,AUC,LogLoss,ECE(bins=10),PPV(threshold=0.5)"
MODELS: dict[str, Any] = {"group": "user", "score": ["old", "new"]}
KEYS = ["user", "short", "name", ["user", "session"]]


def bits(values: list[MeasureValue]) -> list[str]:
    """Every number of every line, to the last bit."""
    return [repr(value) for value in values]


def there(frame: Any, **options: Any) -> Any:
    return fe.spark.evaluate(frame, label="click", **options)


def here(log: pa.Table, **options: Any) -> Any:
    return fe.evaluate(log, label="click", keep="state", **options)


@pytest.fixture(scope="session")
def local(log: pa.Table) -> Any:
    return here(log, **MODELS, measures=MEASURES)


@pytest.mark.parametrize("partitions", [1, 2, 7, 200])
def test_any_number_of_partitions__the_bits_of_the_local_engine(frame, local, partitions) -> None:
    found = there(frame, **MODELS, measures=MEASURES, partitions=partitions)
    assert bits(found.values) == bits(local.values)
    assert found.state.provenance[0].fingerprint == local.state.provenance[0].fingerprint
    assert (found.meta.rows, found.meta.groups) == (local.meta.rows, local.meta.groups)
    assert found.meta.conventions == {**local.meta.conventions, "order": "spark"}


@pytest.mark.parametrize("group", KEYS, ids=str)
def test_keys_of_any_type__the_bits_of_the_local_engine(frame, log, group) -> None:
    options = {"group": group, "score": "old", "measures": "GAUC,AUC", "by": ["slot", "@rows:5"]}
    found = there(frame, **options)
    assert bits(found.values) == bits(here(log, **options).values)
    assert found.state.groups == here(log, **options).state.groups


def test_states_of_spark__with_clusters__have_errors_over_buckets(frame, log) -> None:
    half = f"old < {sorted(log['old'].to_pylist())[log.num_rows // 2]}"
    options: dict[str, Any] = {**MODELS, "measures": "GAUC,LogLoss", "keep": "clusters"}
    for group in ("user", "name"):
        options["group"] = group
        first, second = (there(frame, where=where, **options) for where in (half, f"not {half}"))
        assert first.state.has_clusters
        found = first.state.merge(second.state).result()
        assert found.meta.conventions["buckets"]["columns"] == [group]
        local = [
            fe.evaluate(log, label="click", where=where, **options).state
            for where in (half, f"not {half}")
        ]
        once = local[0].merge(local[1])
        assert bits(found.values) == bits(once.result().values)
        assert bits(first.state.merge(local[1]).result().values) == bits(found.values)


def test_batches_of_seven_rows__groups_that_span_them_are_whole(
    frame, local, log, configured
) -> None:
    with configured(spark__sql__execution__arrow__maxRecordsPerBatch="7"):
        for group in ("user", "name"):
            found = there(frame, **{**MODELS, "group": group}, measures=MEASURES)
            assert bits(found.values) == bits(local.values)


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_one_user_with_a_fifth_of_all_rows_and_many_with_one(spark, configured, adaptive) -> None:
    rng = np.random.default_rng(3)
    rows = 20_000
    users = np.where(rng.random(rows) < 0.2, -1, rng.integers(0, 10_000, rows))
    log = pa.table(
        {
            "user": users,
            "click": (rng.random(rows) < 0.3).astype(np.int8),
            "old": rng.random(rows).astype(np.float32).round(2),
        }
    )
    options = {"group": "user", "score": "old", "measures": "GAUC,AUC,nDCG@5"}
    with configured(
        spark__sql__adaptive__enabled=adaptive,
        spark__sql__adaptive__advisoryPartitionSizeInBytes="4k",
        spark__sql__adaptive__coalescePartitions__minPartitionSize="1k",
    ):
        found = there(frame_of(spark, log), **options)
    assert bits(found.values) == bits(here(log, **options).values)


def test_more_partitions_than_groups__empty_ones_count_for_nothing(spark) -> None:
    log = pa.table({"user": [1, 1, 2, 2], "click": [0, 1, 1, 0], "old": [0.1, 0.4, 0.2, 0.3]})
    found = there(frame_of(spark, log), group="user", score="old", measures="GAUC", partitions=9)
    assert found.value("GAUC") == 0.5


def test_no_row__the_result_of_no_row(spark) -> None:
    frame = spark.createDataFrame([], "user long, click byte, old float, slot string")
    empty = pa.table(
        {
            "user": pa.array([], pa.int64()),
            "click": pa.array([], pa.int8()),
            "old": pa.array([], pa.float32()),
            "slot": pa.array([], pa.string()),
        }
    )
    options = {"group": "user", "score": "old", "measures": "GAUC,AUC", "by": "slot"}
    found = there(frame, **options)
    assert bits(found.values) == bits(here(empty, **options).values)


#: Options that read columns in other roles, or look at all rows before they are dealt.
OPTIONS: dict[str, dict[str, Any]] = {
    "weights and fields": {
        "group": "name",
        "score": "new",
        "weight": "weight",
        "measures": "GAUC(weight='user'),AUC,LogLoss,FieldECE(field='slot'),"
        "MultiECCE(columns='slot,name', min_clicks=0)",
    },
    "a key in other roles": {
        "group": ["name", "user"],
        "score": "old",
        "measures": "GAUC(weight='user'),FieldECE(field='name')",
        "subtopics": "age",  # which no measure asks for
        "by": "name",
    },
    "slices by quantiles": {
        "group": "user",
        "score": "old",
        "measures": "GAUC,PCOC",
        "by": ["age:quantile4", "new:quantile3", "slot,age:30,60"],
        "min_groups": 3,
    },
    "scores in bins": {"group": "user", "score": "new", "measures": "AUC(bins=4096)"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options__the_bits_of_the_local_engine(frame, log, name) -> None:
    found, expected = there(frame, partitions=5, **OPTIONS[name]), here(log, **OPTIONS[name])
    assert bits(found.values) == bits(expected.values)
    assert found.state.slicings == expected.state.slicings


CONDITIONS = [
    "n > 1",
    "n >= 1.5 or t is null",
    "not (n > 1)",
    "n != 1",
    "n <= 2 and not t = 'b'",
    "n between 1 and 3",
    "t in ('a', 'it''s') or n is null",
    "t not in ('a')",
    "day >= '2026-11-02' and at < '2026-11-02T12:00:00Z'",
    "price = 1.10 or flag",
    "not flag",
    "i = 3 or i in (1, 5)",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_where__selects_what_the_local_engine_selects(spark, condition) -> None:
    log = pa.table(
        {
            "user": pa.array([1, 1, 2, 2, 3, 3, 4, 4]),
            "click": pa.array([0, 1, 1, 0, 1, 0, 0, 1]),
            "old": pa.array([0.1, 0.4, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8]),
            "n": pa.array([1.0, 2.0, float("nan"), None, 1.5, -0.0, 3.0, 1.0]),
            "t": pa.array(["a", "b", "it's", None, "a", "b", "a", None]),
            "i": pa.array([1, 2, 3, None, 5, 6, 3, 1], pa.int16()),
            "day": pa.array([dt.date(2026, 11, 1 + k % 3) for k in range(8)]),
            "at": pa.array(
                [dt.datetime(2026, 11, 1 + k % 3, 2 * k, tzinfo=dt.UTC) for k in range(8)],
                pa.timestamp("us", "UTC"),
            ),
            "price": pa.array([Decimal(f"{k}.10") for k in range(8)], pa.decimal128(6, 2)),
            "flag": pa.array([True, False, None, True, False, True, None, False]),
        }
    )
    options = {"group": "user", "score": "old", "measures": "nDCG,AUC", "where": condition}
    found = there(frame_of(spark, log), **options)
    expected = here(log, **options)
    assert found.meta.rows == expected.meta.rows
    assert 0 < found.meta.rows < 8
    assert bits(found.values) == bits(expected.values)
    assert found.meta.conventions["where"] == condition


def test_scores_kept__curves_of_the_local_engine(frame, log) -> None:
    options = {"group": "user", "score": "old", "measures": "AUC"}
    found = there(frame, keep="scores", partitions=3, **options)
    expected = fe.evaluate(log, label="click", keep="scores", **options)
    for kind in ("roc", "calibration"):
        assert found.curve(kind).records().equals(expected.curve(kind).records())


@pytest.mark.parametrize("group", KEYS, ids=str)
def test_per_group__a_frame_of_every_group(frame, log, group) -> None:
    options = {"group": group, "label": "click", "score": ["old", "new"], "measures": "GAUC,RR"}
    found = fe.spark.evaluate(frame, per_group=True, partitions=5, **options)
    expected = fe.evaluate(log, **options).per_group
    order = [(name, "ascending") for name in expected.column_names[:2]]
    assert found.columns == expected.column_names
    assert sorted_table(found, expected, order).equals(expected.sort_by(order))


def test_groups_kept__the_state_tells_them_by_their_own_keys(frame, log) -> None:
    options = {"group": "name", "label": "click", "score": "old", "measures": "GAUC"}
    found = fe.spark.evaluate(frame, keep="groups", partitions=3, **options)
    expected = fe.evaluate(log, keep="groups", **options)
    assert found.per_group.equals(expected.state.result().per_group)
    with pytest.raises(fe.MergeError, match="both hold rows of the group"):
        found.state.merge(expected.state, allow_repeated=True)


def test_states_of_two_jobs__merge_and_do_not_count_twice(frame, log, tmp_path) -> None:
    options = {"group": "user", "label": "click", "score": "old", "measures": "GAUC,AUC"}
    found = fe.spark.evaluate(frame, partitions=3, **options).state
    again = fe.spark.evaluate(frame, partitions=5, **options).state
    with pytest.raises(fe.MergeError, match="hold the same 6000 rows"):
        found.merge(again)
    found.save(tmp_path / "one.state")
    assert fe.load_state(tmp_path / "one.state").provenance == found.provenance


COMPARED = {"group": "name", "label": "click", "score": ["old", "new"], "baseline": "old"}


@pytest.mark.parametrize("test", ["clustered_t", "wilcoxon", "bootstrap"])
def test_compare__the_lines_of_the_local_engine(frame, log, test) -> None:
    measures = "GAUC,nDCG@10" if test != "clustered_t" else "GAUC,LogLoss,nDCG@10"
    options = {**COMPARED, "measures": measures, "test": test, "replicates": 500}
    found = fe.spark.compare(frame, partitions=3, **options)
    expected = fe.compare(log, **options)
    assert [repr(line) for line in found] == [repr(line) for line in expected]
    assert bits(found.evaluated) == bits(expected.evaluated)


def test_compare__groups_brought_here__tells_which_moved(frame, log) -> None:
    options = {**COMPARED, "measures": "GAUC"}
    found = fe.spark.compare(frame, keep="values", **options).largest_changes("GAUC", top=300)
    expected = fe.compare(log, **options).largest_changes("GAUC", top=300)
    order = [("name", "ascending")]
    assert found.sort_by(order).equals(expected.sort_by(order))


def test_compare__with_auc_and_slices(frame, log) -> None:
    options = {**COMPARED, "group": "user", "measures": "AUC,GAUC", "by": "slot"}
    found = fe.spark.compare(frame, partitions=3, **options)
    expected = fe.compare(log, **options)
    assert [repr(line) for line in found] == [repr(line) for line in expected]
    assert found.find("AUC").se > 0


@pytest.mark.parametrize("group", ["user", ["user", "session"]], ids=str)
def test_computed_scores__the_bits_of_the_local_engine(frame, log, group) -> None:
    options: dict[str, Any] = {
        "group": group,
        "score": {"old": "old", "both": "old * new", "less": "-new"},
        "by": ["slot", "old:quantile3"],
        "where": "new > 0.1",
    }
    measures = "GAUC,AUC,nDCG@10"
    found = there(frame, measures=measures, **options)
    known = here(log, measures=measures, **options)
    assert bits(found.values) == bits(known.values)
    assert found.meta.conventions["score"] == {"both": "old * new", "less": "-new"}
    del options["where"]
    compared = fe.spark.compare(frame, label="click", baseline="old", measures="GAUC", **options)
    locally = fe.compare(log, label="click", baseline="old", measures="GAUC", **options)
    assert bits(compared.values) == bits(locally.values)
