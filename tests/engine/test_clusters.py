"""Clusters of whole groups as the independent units: `cluster=`."""

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval import ColumnError, OrderError
from tests.oracles.means import clustered
from tests.strategies import GROUP_DECISION_VARIANTS, PER_GROUP, allows, read
from tests.support import batched
from tests.support.spilling import spill

pytestmark = pytest.mark.kernels

COLUMNS = {"group": "query", "label": "label", "score": "score"}
NUMBERS = ("value", "se", "ci_low", "ci_high", "effective_groups", "groups_used", "warning")


def log_of(seed: int, rows: int = 400, queries: int = 60, users: int = 17) -> pa.Table:
    """Queries of users, in order of the queries; a user's queries do not stand together."""
    rng = np.random.default_rng(seed)
    query = np.sort(rng.integers(0, queries, rows))
    return pa.table(
        {
            "query": query,
            "user": rng.integers(0, users, queries)[query],
            "label": rng.choice([0, 0, 0, 1, 2, 3], rows),
            "score": rng.integers(1, 9, rows) / 9,
            "other": pa.array(rng.integers(1, 9, rows) / 9, mask=rng.random(rows) < 0.05),
            "weight": rng.integers(0, 5, rows) / 4,
            "city": rng.choice(["Bonn", "Lima"], rows),
        }
    )


def bits(result: fe.Result) -> list[tuple[object, ...]]:
    """Every number of each line, in an order of their own."""
    lines = (
        (str(one.by), one.slice, one.score, one.measure, *(repr(getattr(one, n)) for n in NUMBERS))
        for one in result.values
    )
    return sorted(lines)


def values_of(log: pa.Table, measures: str | list[str], **options: Any) -> fe.Result:
    return batched.evaluate(log, measures=measures, keep="values", **{**COLUMNS, **options})


# ---- the error -----------------------------------------------------------------------------------


def groups_of_values(values: list[float], clusters: list[int], weights: list[float]) -> pa.Table:
    """Groups of two rows in which R@1 is 1, 0.5 (tied rows) or 0."""
    rows = []
    for group, (value, *more) in enumerate(zip(values, clusters, weights, strict=True)):
        rows += [(group, *more, 1, value), (group, *more, 0, 0.5 if value == 0.5 else 1 - value)]
    names = ("group", "cluster", "weight", "label", "score")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


@pytest.mark.parametrize(
    "values, clusters, weights, mean, se, by_group",
    [
        ([1, 0.5, 0, 1], [0, 0, 1, 1], [1] * 4, 0.625, 0.125, 0.2393567769),
        (
            *([1, 0.5, 0, 1, 1, 0], [0, 0, 1, 1, 2, 2], [1, 2, 1, 3, 1, 2]),
            *(0.6, 0.1248999600, 0.2078460969),
        ),
    ],
)
def test_error__counts_clusters(values, clusters, weights, mean, se, by_group):
    table = groups_of_values(values, clusters, weights)
    options = {"group": "group", "label": "label", "score": "score"}
    measure = "GAUC(weight='weight')"
    (once,) = fe.evaluate(table, measures=measure, cluster="cluster", **options)
    (before,) = fe.evaluate(table, measures=measure, **options)
    assert (once.value, once.se) == (pytest.approx(mean), pytest.approx(se, abs=1e-10))
    assert (before.value, before.se) == (once.value, pytest.approx(by_group, abs=1e-10))
    assert once.groups_used == before.groups_used == len(values)


#: One text of each measure, and of those that weigh groups.
MEASURES = [
    *{read(text)[0]: text for text in PER_GROUP if allows(text, "expected")}.values(),
    *(texts[0] for texts in GROUP_DECISION_VARIANTS.values()),
    *("GAUC", "GAUC(weight='positives')", "GAUC(weight='pairs')", "GAUC(single_class=0)"),
]
COUNTS = ("NumRet", "NumRel", "NumRelRet", "NumNonrelRet")


@pytest.mark.parametrize("options", [{}, {"weight": "weight", "weight_rows": "ignore"}])
def test_errors_of_every_measure__equal_the_plain_definition(options):
    log = log_of(1)
    result = values_of(log, MEASURES, cluster="user", **options)
    groups = result.per_group
    once = values_of(log, MEASURES, **options)
    rows = [float(of.as_py()) for of in groups["rows"]]
    tried = 0
    for line, by_group in zip(result.values, once.values, strict=True):
        values = groups[line.measure].to_numpy(zero_copy_only=False).astype(float)
        assert repr(line.value) == repr(by_group.value), line.measure
        assert (line.groups_used, line.dropped) == (by_group.groups_used, by_group.dropped)
        name, chosen, _ = read(line.measure)
        weighted = "weight" in chosen or (name == "GAUC" and options)
        if weighted or name.startswith("GM"):
            continue  # below, and by their logarithms
        weights = rows if name == "GAUC" else [1.0] * len(rows)
        se, clusters = clustered(values, weights, groups["user"].to_pylist(), is_sum=name in COUNTS)
        if not math.isnan(line.se):
            assert line.se == pytest.approx(se, rel=1e-9), line.measure
            assert line.effective_groups <= clusters
            tried += 1
    assert tried > 30


def test_error_of_a_geometric_mean__is_of_logarithms():
    result = values_of(log_of(2), "GMAP", cluster="user")
    (line,), groups = result.values, result.per_group
    logs = np.log(np.maximum(groups["GMAP"].to_numpy(), 1e-5))
    se, _ = clustered(logs, [1.0] * len(logs), groups["user"].to_pylist())
    assert line.se == pytest.approx(line.value * se, rel=1e-9)


ALL_ROWS = [
    *("AUC(se='clustered')", "LogLoss", "NE", "RIG", "Brier", "PCOC", "MSE", "RMSE"),
    *("PPV", "TPR", "MCC", "FScore", "Accuracy", "AUC(se='clustered', rel=2)"),
]


@pytest.mark.parametrize("options", [{}, {"weight": "weight"}, {"by": ["city", "@rows:1,40"]}])
def test_measures_of_all_rows__have_the_errors_of_clusters_as_groups(options):
    log = log_of(3)
    if "by" in options:  # @rows counts the rows of a cluster where it is the group
        options = {"by": "city"}
    nested = values_of(log, ALL_ROWS, cluster="user", **options)
    whole = values_of(log, ALL_ROWS, **{**options, "group": "user"})
    of_clusters = [
        [(one.slice, one.measure, *(repr(getattr(one, n)) for n in NUMBERS[:5])) for one in result]
        for result in (nested, whole)
    ]
    assert of_clusters[0] == of_clusters[1]
    # Without a group, the cluster is the group.
    alone = fe.evaluate(
        log, cluster="user", measures=ALL_ROWS, label="label", score="score", **options
    )
    assert bits(alone) == bits(whole)


@pytest.mark.parametrize("measures", [["GAUC", "nDCG@5", "NumRel"], ALL_ROWS])
def test_slices__have_the_bits_of_their_rows_alone(measures):
    log = log_of(4)
    options = {"cluster": "user", "weight": None if "nDCG@5" in measures else "weight"}
    sliced = values_of(log, measures, by=["city", "query:20,40"], **options)
    for city in ("Bonn", "Lima"):
        alone = values_of(log, measures, where=f"city == '{city}'", **options)
        for line in alone.values:
            (same,) = (
                one for one in sliced if (one.slice, one.measure) == (f"city={city}", line.measure)
            )
            numbers = [[repr(getattr(one, n)) for n in NUMBERS] for one in (line, same)]
            assert numbers[0] == numbers[1], line.measure
    se = sliced.values[0].se
    assert se != values_of(log, measures, by="city", weight=options["weight"]).values[0].se


def test_groups_that_are_only_counted__count_in_the_weight_of_their_cluster():
    # Users 0 and 1 have queries without a relevant row, which are not ranked: P@1 is 0 there.
    table = pa.table(
        {
            "user": [0, 0, 1, 1, 2, 3],
            "query": [0, 1, 2, 3, 4, 5],
            "label": [1, 0, 1, 0, 0, 1],
            "score": [0.5] * 6,
        }
    )
    (line,) = values_of(table, "P@1", cluster="user").values
    se, _ = clustered([1, 0, 1, 0, 0, 1], [1] * 6, [0, 0, 1, 1, 2, 3])
    assert (line.value, line.se) == (0.5, pytest.approx(se))


def test_rows_that_leave__take_empty_clusters_with_them():
    log = log_of(5)
    kept = log.filter(pa.array([score is not None for score in log["other"].to_pylist()]))
    options = {"cluster": "user", "score": "other"}
    dropped = values_of(log, ["nDCG@3", "AUC(se='clustered')"], unretrieved="drop", **options)
    assert bits(dropped) == bits(values_of(kept, ["nDCG@3", "AUC(se='clustered')"], **options))


# ---- where the rows of a cluster lie -------------------------------------------------------------

ORDERED = ["nDCG@3", "GAUC", "NumRel", "GMAP", "AUC(se='clustered')", "LogLoss", "TPR"]


def layouts(log: pa.Table) -> dict[str, pa.Table]:
    rows = list(range(log.num_rows))
    random.Random(6).shuffle(rows)  # noqa: S311
    return {
        "by query": log,
        "by user": log.sort_by([("user", "ascending"), ("query", "ascending")]),
        "by user down": log.sort_by([("user", "descending"), ("query", "ascending")]),
        "no order": log.take(rows),
    }


def with_text(log: pa.Table) -> pa.Table:
    """The same log, whose keys are text."""
    for at, name in enumerate(("query", "user")):
        texts = pa.array([f"{name} {key}" for key in log[name].to_pylist()])
        log = log.set_column(at, name, texts)
    return log


@pytest.mark.lasts("sixteen layouts of the rows, in memory and on disk")
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("roles", ["user", "user,query", "two columns"])
def test_order_batches_threads_and_disk__change_no_bit(text, roles):
    log = log_of(7)
    log = log.append_column("part", pa.array([key % 3 for key in log["user"].to_pylist()]))
    if text:
        log = with_text(log)
    options: dict[str, Any] = {"cluster": "user", "by": "city"}
    if roles != "user":
        options |= {"group": ["query", "user"]} if roles == "user,query" else {}
        options |= {"cluster": ["part", "user"]} if roles == "two columns" else {}
    wanted = values_of(log, ORDERED, threads=1, **options)
    keys = [name for name in wanted.per_group.column_names if name in log.column_names]
    groups = sorted(map(str, wanted.per_group.to_pylist()))
    assert sorted(keys) == ["part"] * (roles == "two columns") + ["query", "user"]
    for name, table in layouts(log).items():
        for rows, threads in ((None, 1), (1, 2), (64, 3)):
            again = values_of(table, ORDERED, batch_rows=rows, threads=threads, **options)
            assert bits(again) == bits(wanted), (name, rows, threads)
            assert sorted(map(str, again.per_group.to_pylist())) == groups
        undo = spill()
        try:
            more = {**options, "order": "scattered", "memory": "1GB", "batch_rows": 100}
            again = values_of(table, ORDERED, **more)
        finally:
            undo()
        assert again.meta.conventions["spilled"] is True
        assert bits(again) == bits(wanted), name


@pytest.mark.parametrize("once", [False, True])
def test_clusters_larger_than_a_batch__have_the_bits_of_one_batch(once):
    log = log_of(8, users=2).sort_by([("user", "ascending"), ("query", "ascending")])
    reader = log.to_reader(max_chunksize=13) if once else log
    again = values_of(reader, ORDERED, cluster="user", batch_rows=13)
    assert bits(again) == bits(values_of(log, ORDERED, cluster="user"))
    assert again.meta.conventions["order"] == "grouped"


def test_clusters_that_come_back__in_a_source_read_once__need_another_order():
    log = log_of(9)
    with pytest.raises(OrderError, match=r"cluster user=.* comes back after other clusters; pass "):
        values_of(log.to_reader(max_chunksize=1), "GAUC", cluster="user", batch_rows=1)
    again = values_of(log.to_reader(max_chunksize=64), "GAUC", cluster="user", order="scattered")
    assert bits(again) == bits(values_of(log, "GAUC", cluster="user"))


# ---- groups in two clusters, and nulls -----------------------------------------------------------


SPLIT = "group query=5 in two clusters"


def split_log(adjacent: bool) -> pa.Table:
    """Query 5 has rows of two users; else each user has two queries."""
    user, query = np.repeat(np.arange(6), 4), np.repeat(np.arange(12), 2)
    query[12 if adjacent else 20] = 5
    label, score = np.arange(24) % 2, np.arange(24) / 24
    return pa.table({"user": user, "query": query, "label": label, "score": score})


@pytest.mark.parametrize("adjacent", [True, False])
@pytest.mark.parametrize("batch_rows", [None, 1, 2, 4, 8, 9, 11])
@pytest.mark.parametrize("order", ["auto", "scattered"])
def test_a_group_in_two_clusters__is_refused_by_name(adjacent, batch_rows, order):
    table = split_log(adjacent)
    for name, rows in layouts(table).items():
        with pytest.raises(
            ColumnError, match=r"got the group query=5 in two clusters.*--group user,query"
        ):
            values_of(rows, "GAUC", cluster="user", batch_rows=batch_rows, order=order)
        # Two groups if the user is named in the group too.
        both = values_of(
            rows, "GAUC", group=["user", "query"], cluster="user", batch_rows=batch_rows
        )
        assert len(both.per_group) == 13, name


@pytest.mark.parametrize("adjacent", [True, False])
def test_a_group_in_two_clusters__is_refused_on_disk_and_in_a_source_read_once(adjacent):
    table = split_log(adjacent)
    undo = spill()
    try:
        for rows in (7, 24):
            with pytest.raises(ColumnError, match=SPLIT):
                options: dict[str, Any] = {"order": "scattered", "memory": "1GB"}
                values_of(table, "GAUC", cluster="user", batch_rows=rows, **options)
    finally:
        undo()
    for rows in (1, 3, 9, 24):
        with pytest.raises((ColumnError, OrderError), match="the group query=5 "):
            reader = table.to_reader(max_chunksize=rows)
            values_of(reader, "GAUC", cluster="user", batch_rows=rows)


def test_the_last_cluster_of_a_batch__is_checked_too():
    # The second user begins inside query 1, and its rows go on in the next batch.
    query, user = [0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 0, 1, 1, 1, 1, 1]
    table = pa.table({"user": user, "query": query, "label": [0, 1] * 4, "score": [0.5] * 8})
    with pytest.raises(ColumnError, match=r"query=1 in two clusters \(user=0 and user=1\)"):
        values_of(table, "GAUC", cluster="user", batch_rows=5)


def test_null_clusters__are_refused_or_dropped():
    table = split_log(adjacent=False).set_column(
        0, "user", pa.array([None, None, *np.repeat(np.arange(11), 2).tolist()])
    )
    with pytest.raises(ColumnError, match=r"user.*null_groups='drop'"):
        values_of(table.slice(0, 20), "GAUC", cluster="user")
    dropped = values_of(table.slice(0, 20), "GAUC", cluster="user", null_groups="drop")
    assert bits(dropped) == bits(values_of(table.slice(2, 18), "GAUC", cluster="user"))
    assert "2 rows" in str(dropped)
