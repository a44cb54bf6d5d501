"""Clusters of groups in Spark: the bits of the local engine, whole clusters, their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from tests.distributed.test_spark_numbers import bits, here, there
from tests.support.spark_frames import frame_of, sorted_table

KEYS: dict[str, dict[str, Any]] = {
    "integers": {"group": "query", "cluster": "user"},
    "texts": {"group": "text", "cluster": ["name", "user"]},
    "the cluster in the group": {"group": ["session", "user"], "cluster": "user"},
    "texts of the cluster in the group": {"group": ["session", "name"], "cluster": "name"},
    "the group itself": {"group": ["user", "session"], "cluster": ["session", "user"]},
}
ONE: dict[str, Any] = {"score": "old", "measures": "GAUC,AUC,LogLoss", "by": ["slot", "@rows:5"]}
TWO: dict[str, Any] = {"label": "click", "score": ["old", "new"], "baseline": "old"}


@pytest.fixture(scope="session")
def nested(log: pa.Table) -> pa.Table:
    """The log with queries of its users."""
    session = np.array([int(name[1:]) for name in log["session"].to_pylist()])
    query = 3 * log["user"].to_numpy() + session
    log = log.append_column("query", pa.array(query.astype(np.int32)))
    return log.append_column("text", pa.array([f"q{n}" for n in query]))


@pytest.fixture(scope="session")
def queries(spark: Any, nested: pa.Table) -> Any:
    return frame_of(spark, nested).cache()


@pytest.mark.parametrize("partitions", [1, 7])
@pytest.mark.parametrize("keys", KEYS)
def test_clusters__the_bits_of_the_local_engine(queries, nested, keys, partitions) -> None:
    options = {**ONE, **KEYS[keys]}
    found, expected = there(queries, **options, partitions=partitions), here(nested, **options)
    assert bits(found.values) == bits(expected.values)
    assert found.state.provenance[0].fingerprint == expected.state.provenance[0].fingerprint
    assert (found.meta.rows, found.meta.groups) == (expected.meta.rows, expected.meta.groups)
    conventions = {**expected.meta.conventions, "order": "spark"}
    if keys.startswith("text") or keys == "the group itself":  # only hashes of its key are known
        conventions["largest_group"] = {**conventions["largest_group"], "key": None}
    assert found.meta.conventions == conventions
    plain = there(queries, **{**options, "cluster": None}, partitions=partitions)
    assert (plain.values[0].se == found.values[0].se) == (keys == "the group itself")


def test_batches_of_seven_rows__clusters_that_span_them_are_whole(
    queries, nested, configured
) -> None:
    with configured(spark__sql__execution__arrow__maxRecordsPerBatch="7"):
        for keys in (KEYS["integers"], KEYS["texts"]):
            found = there(queries, **ONE, **keys, partitions=2)
            assert bits(found.values) == bits(here(nested, **ONE, **keys).values)


def test_sums_by_bucket__those_of_one_machine(queries, nested) -> None:
    options = {**KEYS["texts"], "score": "old", "label": "click", "measures": "GAUC,LogLoss"}
    found = fe.spark.evaluate(queries, **options, partitions=3, keep="clusters").state
    expected = fe.evaluate(nested, **options, keep="clusters").state
    assert found.provenance[0].fingerprint == expected.provenance[0].fingerprint


@pytest.mark.parametrize("keys", ["integers", "texts"])
@pytest.mark.parametrize("test", ["clustered_t", "sign", "bootstrap"])
def test_compare__the_lines_of_the_local_engine(queries, nested, keys, test) -> None:
    measures = "GAUC,AUC" if test == "clustered_t" else "GAUC,AP"
    options = {**TWO, **KEYS[keys], "measures": measures, "by": "slot", "test": test}
    found, expected = (
        fe.spark.compare(queries, partitions=3, **options),
        fe.compare(nested, **options),
    )
    assert [repr(line) for line in found] == [repr(line) for line in expected]


def test_cluster_without_group__is_the_group_of_measures_of_all_rows(queries, nested) -> None:
    options = {"cluster": "name", "score": "old", "measures": "AUC(se='clustered'),LogLoss"}
    found, expected = there(queries, **options, partitions=3), here(nested, **options)
    assert bits(found.values) == bits(expected.values)
    of_groups = here(nested, group="name", **{**options, "cluster": None})
    assert bits(found.values) == bits(of_groups.values)
    two = {**TWO, "cluster": "name", "measures": "LogLoss"}
    compared = fe.spark.compare(queries, partitions=3, **two), fe.compare(nested, **two)
    assert repr(compared[0].values) == repr(compared[1].values)
    with pytest.raises(fe.ArgumentError, match=r"group: must name the key columns.*GAUC"):
        there(queries, **{**options, "measures": "GAUC"})


@pytest.mark.parametrize("keys", ["integers", "texts", "the cluster in the group"])
def test_values_of_groups__have_the_columns_of_the_cluster(queries, nested, keys) -> None:
    options = {**KEYS[keys], "label": "click", "score": "old", "measures": "GAUC"}
    found = fe.spark.evaluate(queries, per_group=True, partitions=3, **options)
    expected = fe.evaluate(nested, **options, keep="values").per_group
    order = [(name, "ascending") for name in expected.column_names[:3]]
    assert found.columns == expected.column_names
    assert sorted_table(found, expected, order).equals(expected.sort_by(order))


def split_log(first: int, second: int) -> pa.Table:
    """The query 5 of two users."""
    users = [first] * 2 + [second] * 4
    log = {"user": users, "query": [5, 5, 5, 5, 6, 6], "click": [0, 1] * 3, "old": [*range(6)]}
    texts = {"text": [f"q{n}" for n in log["query"]], "name": [f"u{n}" for n in users]}
    return pa.table(log | texts)


@pytest.mark.parametrize("kept", ["", "groups"])
@pytest.mark.parametrize("keys", ["integers", "texts"])
def test_group_in_two_clusters__of_one_partition__is_named(spark, keys, kept) -> None:
    frame = frame_of(spark, split_log(17, 3))
    options = {**KEYS[keys], "score": "old", "measures": "GAUC", "keep": kept}
    with pytest.raises(fe.ColumnError, match="cluster: must hold whole groups") as caught:
        there(frame, **options, partitions=1)
    told, key = str(caught.value), "query=5" if keys == "integers" else "text='q5'"
    assert f"the group {key} in two clusters" in told
    assert "user=17" in told
    assert "user=3" in told
    assert "hash" not in told


def test_group_in_two_clusters__of_two_partitions__counts_as_two(spark) -> None:
    homes = [row[0] for row in spark.range(50).selectExpr("pmod(hash(id), 4)").collect()]
    apart = next(user for user in range(50) if homes[user] != homes[0])
    log = split_log(0, apart)
    options = {"score": "old", "measures": "GAUC", "cluster": "user"}
    found = there(frame_of(spark, log), group="query", **options, partitions=4)
    expected = here(log, group=["query", "user"], **options)
    assert found.meta.groups == 3
    assert bits(found.values) == bits(expected.values)
    with pytest.raises(fe.MergeError, match="both hold rows of the group query=5"):
        there(frame_of(spark, log), group="query", **options, partitions=4, keep="groups")


@pytest.mark.parametrize("column", ["user", "query"])
@pytest.mark.parametrize("keys", ["integers", "texts"])
def test_null_cluster__is_refused_or_dropped_as_a_null_key_is(spark, nested, keys, column) -> None:
    lost = np.arange(nested.num_rows) % 50 == 7
    for name in {"user": ["user", "name"], "query": ["query", "text"]}[column]:
        place, values = nested.column_names.index(name), nested[name].to_pylist()
        values = pa.array(values, nested.schema.field(name).type, mask=lost)
        nested = nested.set_column(place, name, values)
    options = {**ONE, **KEYS[keys], "by": "age:quantile3"}
    unit = "cluster" if column == "user" else "group"
    with pytest.raises(fe.ColumnError, match=f"{unit} columns? .* null in at least .*null_groups="):
        there(frame_of(spark, nested), **options)
    options["null_groups"] = "drop"
    found, expected = there(frame_of(spark, nested), **options), here(nested, **options)
    assert bits(found.values) == bits(expected.values)
    counts = expected.meta.conventions["rows_left_out"]
    assert counts["null_group"]["rows"] == 120
    assert found.meta.conventions["rows_left_out"] == counts


def test_cluster_that_cannot_be_a_key__is_refused_before_a_job(queries) -> None:
    with pytest.raises(fe.ColumnError, match="cluster column 'new' has type double"):
        there(queries, group="query", cluster="new", score="old")
