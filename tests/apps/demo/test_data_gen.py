"""Generated impressions: reproducible rows, known quality."""

from __future__ import annotations

import hashlib
import math
import re
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fastrank_eval import ArgumentError
from fastrank_eval.apps import demo
from fastrank_eval.apps.demo.numbers import (
    Permutation,
    bits,
    graded_shift,
    inverse_normal,
    rounded_auc,
    stream_key,
    uniform,
)
from fastrank_eval.apps.demo.rows import group_sizes

ORDERS = ("sorted", "grouped", "shuffled")


def make(rows: int, **options: Any) -> pa.Table:
    return demo.impressions(rows, **options).read_all()


def column(table: pa.Table, name: str) -> np.ndarray:
    return table.column(name).to_numpy()


def midranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2.0)[inverse]


def rank_sum_auc(positive: np.ndarray, score: np.ndarray) -> tuple[float, float]:
    """AUC by rank sums and its standard error (DeLong, DeLong and Clarke-Pearson 1988)."""
    wins, losses = score[positive], score[~positive]
    ranks = midranks(np.concatenate((wins, losses)))
    above = (ranks[: wins.size] - midranks(wins)) / losses.size
    below = 1.0 - (ranks[wins.size :] - midranks(losses)) / wins.size
    error = math.sqrt(above.var(ddof=1) / wins.size + below.var(ddof=1) / losses.size)
    return float(above.mean()), error


def runs(keys: np.ndarray) -> np.ndarray:
    """Start of every run of equal neighbours, and the end of the last."""
    return np.concatenate(([0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [keys.size]))


@pytest.fixture(scope="module")
def million() -> pa.Table:
    return make(1_000_000, seed=11, order="grouped")


# --- the same rows ---------------------------------------------------------------------------


@pytest.mark.parametrize("ids", ["int", "string"])
@pytest.mark.parametrize("order", ORDERS)
def test_impressions__same_rows_for_any_batch_size(order: str, ids: str) -> None:
    options = {"seed": 5, "order": order, "ids": ids, "median_size": 50, "max_size": 30_000}
    whole = make(70_001, batch_rows=1 << 20, **options)
    for batch_rows in (1000, 4096, 100_000):
        batches = list(demo.impressions(70_001, batch_rows=batch_rows, **options))
        assert [batch.num_rows for batch in batches[:-1]] == [batch_rows] * (len(batches) - 1)
        assert pa.Table.from_batches(batches).equals(whole)


def test_impressions__seed_decides_rows() -> None:
    assert make(2000, seed=1).equals(make(2000, seed=1))
    assert not make(2000, seed=1).equals(make(2000, seed=2))


def test_impressions__bits_are_fixed_on_every_machine() -> None:
    digest = hashlib.sha256()
    for labels in ("click", "grade"):
        table = make(20_000, seed=42, labels=labels, score_type="float64", id_style="random64")
        for name in ("user_id", labels, "score_a", "score_b", "weight", "day"):
            values = table.column(name).combine_chunks()
            values = values.view(pa.int32()) if name == "day" else values
            digest.update(np.ascontiguousarray(values.to_numpy()).tobytes())
    assert digest.hexdigest() == (
        "2b05bc3ac38b6aa828f633e74f43b5c47ae5c80af8e9e3e7cf1be1367634a02f"
    )


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_impressions__orders_hold_the_same_rows(order: str) -> None:
    names = ["user_id", "click", "score_a", "score_b", "weight", "slot", "country", "day"]
    by = [(name, "ascending") for name in ("user_id", "score_a", "score_b", "weight", "click")]
    base, other = (make(50_000, seed=2, order=o).select(names) for o in ("grouped", order))
    assert not base.equals(other)
    assert base.sort_by(by).equals(other.sort_by(by))


def test_impressions__shuffled_scatters_groups() -> None:
    keys = column(make(50_000, order="shuffled"), "user_id")
    assert runs(keys).size > 0.8 * keys.size
    assert abs(np.corrcoef(keys, np.arange(keys.size))[0, 1]) < 0.02


@pytest.mark.parametrize("score_type", ["float32", "float64"])
@pytest.mark.parametrize("decimals_a", [None, 2])
def test_impressions__sorted_order(score_type: str, decimals_a: int | None) -> None:
    table = make(60_000, seed=3, score_type=score_type, decimals_a=decimals_a)
    keys, scores = column(table, "user_id"), column(table, "score_a")
    same = keys[1:] == keys[:-1]
    assert (keys[1:][~same] == keys[:-1][~same] + 1).all()
    assert (scores[1:][same] <= scores[:-1][same]).all()
    assert (((scores[1:] == scores[:-1]) & same).mean() > 0.1) == (decimals_a is not None)


def test_impressions__sorted_order_of_the_largest_group() -> None:
    table = make(250_000, median_size=100_000, max_size=100_000, batch_rows=9999)
    scores = column(table, "score_a")
    for start, stop in ((0, 100_000), (100_000, 200_000), (200_000, 250_000)):
        assert (np.diff(scores[start:stop]) <= 0).all()
    assert (np.diff(runs(column(table, "user_id"))) == [100_000, 100_000, 50_000]).all()


def test_impressions__grouped_order() -> None:
    table = make(60_000, seed=3, order="grouped")
    keys, scores = column(table, "user_id"), column(table, "score_a")
    assert (np.diff(keys) >= 0).all()
    assert (np.diff(scores)[np.diff(keys) == 0] > 0).mean() > 0.4


@pytest.mark.parametrize("order", ORDERS)
def test_impressions__no_rows_and_one_row(order: str) -> None:
    empty = make(0, order=order)
    assert (empty.num_rows, empty.schema) == (0, make(10).schema)
    assert make(1, order=order).num_rows == 1
    assert make(300, order=order, batch_rows=1).equals(make(300, order=order))


# --- what the columns hold -------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("rows", [20_000, 400_000])
def test_group_sizes__median_and_tail(rows: int, seed: int) -> None:
    sizes = np.diff(runs(column(make(rows, seed=seed, order="grouped"), "user_id")))
    assert 17 <= np.median(sizes) <= 23
    assert rows**0.5 <= sizes.max() <= 0.2 * rows
    assert sizes.min() == 1


def test_group_sizes__tail_reaches_the_largest_size() -> None:
    sizes = np.sort(group_sizes(16, 20, 100_000, key=1))
    assert (np.median(sizes), sizes[-1]) == (20, 100_000)
    assert 40 < sizes.mean() < 100
    # Pareto tail: the log-log slope of size against rank is steady over three decades.
    slopes = [math.log(sizes[-k] / sizes[-10 * k]) / math.log(10) for k in (5, 50, 500)]
    assert max(slopes) - min(slopes) < 0.05


@pytest.mark.parametrize("seed", range(4))
def test_clicks__two_to_five_percent(seed: int) -> None:
    clicks = column(make(200_000, seed=seed), "click")
    assert clicks.dtype == np.int8
    assert set(np.unique(clicks)) == {0, 1}
    assert 0.02 <= clicks.mean() <= 0.05


@pytest.mark.parametrize("rate", [0.001, 0.2, 0.5])
def test_clicks__asked_rate(rate: float) -> None:
    clicks = column(make(300_000, click_rate=rate, max_size=200), "click")
    assert clicks.mean() == pytest.approx(rate, rel=0.15)


def test_grades__zero_to_four() -> None:
    grades = column(make(200_000, labels="grade"), "grade")
    assert grades.dtype == np.int8
    shares = np.bincount(grades) / grades.size
    assert shares == pytest.approx([0.52, 0.32, 0.13, 0.022, 0.01], abs=0.015)
    assert (np.diff(shares) < 0).all()


def test_columns__types_and_ranges(million: pa.Table) -> None:
    assert {field.name: str(field.type) for field in million.schema} == {
        "user_id": "int64",
        "click": "int8",
        "score_a": "float",
        "score_b": "float",
        "weight": "float",
        "slot": "dictionary<values=string, indices=int32, ordered=0>",
        "country": "string",
        "day": "date32[day]",
    }
    assert all(million.column(name).null_count == 0 for name in million.schema.names)
    weight = column(million, "weight") * 64
    assert (weight == np.rint(weight)).all()
    assert (weight.min(), weight.max()) == (16, 256)
    slots = {
        entry["values"]: entry["counts"] for entry in million["slot"].value_counts().to_pylist()
    }
    assert slots["feed"] / million.num_rows == pytest.approx(0.5, abs=0.005)
    assert set(slots) == {"feed", "top", "side", "footer"}
    assert pc.count_distinct(million["day"]).as_py() == 7
    assert pc.min(million["day"]).as_py().isoformat() == "2024-01-01"


def test_columns__country_is_one_a_user(million: pa.Table) -> None:
    pairs = million.select(["user_id", "country"]).group_by(["user_id", "country"]).aggregate([])
    assert pairs.num_rows == pc.count_distinct(million["user_id"]).as_py()
    assert pc.count_distinct(million["country"]).as_py() == 10


def test_columns__click_rate_differs_by_slot_and_user(million: pa.Table) -> None:
    slots = million.group_by("slot").aggregate([("click", "mean")]).to_pylist()
    rates = {entry["slot"]: entry["click_mean"] for entry in slots}
    assert rates["top"] > rates["feed"] > rates["side"] > rates["footer"]
    users = million.group_by("user_id").aggregate([("click", "mean"), ("click", "count")])
    large = users.filter(pc.greater(users["click_count"], 500))["click_mean"].to_numpy()
    assert large.min() < 0.01 < 0.05 < large.max()


def test_scores__float64_rounds_to_float32() -> None:
    double, single = (make(5000, order="grouped", score_type=t) for t in ("float64", "float32"))
    for name in ("score_a", "score_b"):
        assert column(double, name).dtype == np.float64
        assert (column(double, name).astype(np.float32) == column(single, name)).all()
    assert (column(double, "score_a") != column(single, "score_a")).mean() > 0.99


def test_scores__rounding_makes_ties() -> None:
    table = make(50_000, decimals_b=3, score_type="float64", order="grouped")
    scaled = column(table, "score_b") * 1000
    assert np.abs(scaled - np.rint(scaled)).max() < 1e-9
    assert np.unique(scaled).size < 500
    assert np.unique(column(table, "score_a")).size == 50_000
    assert (
        np.unique(column(make(50_000, decimals_b=None, score_type="float64"), "score_b")).size
        == 50_000
    )


# --- ids -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "ids, id_style, pattern",
    [
        ("int", "random64", r"-?\d+"),
        ("string", "random64", r"u_[0-9a-f]{16}"),
        ("string", "dense", r"u_(0|[1-9]\d*)"),
    ],
)
def test_ids__one_to_one_with_groups(order: str, ids: str, id_style: str, pattern: str) -> None:
    numbers = column(make(20_000, order=order), "user_id")
    keys = make(20_000, order=order, ids=ids, id_style=id_style)["user_id"].to_pylist()
    assert all(re.fullmatch(pattern, str(key)) for key in keys)
    groups = len(set(numbers.tolist()))
    assert len(set(keys)) == len(set(zip(keys, numbers.tolist(), strict=True))) == groups
    in_group_order = [key for _, key in sorted(set(zip(numbers.tolist(), keys, strict=True)))]
    assert in_group_order != sorted(in_group_order)


def test_ids__string_and_int_hash_agree() -> None:
    numbers = make(500, id_style="random64")["user_id"].to_pylist()
    names = make(500, ids="string")["user_id"].to_pylist()
    assert names == [f"u_{number % 2**64:016x}" for number in numbers]


# --- known quality ---------------------------------------------------------------------------


def test_auc__pooled_equals_closed_form(million: pa.Table) -> None:
    recipe = demo.Recipe(1_000_000)
    positive = column(million, "click") > 0
    for name, model in (("score_a", recipe.model_a), ("score_b", recipe.model_b)):
        value, error = rank_sum_auc(positive, column(million, name))
        assert abs(value - model.auc) < 4 * error < 0.02


def test_auc__inside_groups_equals_closed_form(million: pa.Table) -> None:
    table = million.slice(0, 200_000)
    positive, score = column(table, "click") > 0, column(table, "score_a").astype(np.float64)
    edges = runs(column(table, "user_id"))
    values, pairs = [], []
    for start, stop in pairwise(edges):
        clicked = positive[start:stop]
        wins = int(clicked.sum())
        if 0 < wins < stop - start:
            ranks = midranks(score[start:stop])
            total = wins * (stop - start - wins)
            values.append((ranks[clicked].sum() - wins * (wins + 1) / 2) / total)
            pairs.append(stop - start)
    value, weight = np.array(values), np.array(pairs, dtype=np.float64)
    mean = float((weight * value).sum() / weight.sum())
    error = math.sqrt(((weight * (value - mean)) ** 2).sum()) / weight.sum()
    assert abs(mean - 0.75) < 4 * error < 0.1


@pytest.mark.parametrize("slot", ["top", "footer"])
def test_auc__inside_slices_equals_closed_form(million: pa.Table, slot: str) -> None:
    part = million.filter(pc.equal(million["slot"].cast(pa.string()), slot))
    value, error = rank_sum_auc(column(part, "click") > 0, column(part, "score_a"))
    assert abs(value - 0.75) < 4 * error


def test_auc__grades_relevant_against_not() -> None:
    table = make(300_000, seed=4, labels="grade", order="grouped")
    recipe = demo.Recipe(300_000, labels="grade")
    grades = column(table, "grade")
    for name, model in (("score_a", recipe.model_a), ("score_b", recipe.model_b)):
        value, error = rank_sum_auc(grades > 0, column(table, name))
        assert abs(value - model.auc) < 4 * error
    means = [column(table, "score_a")[grades == grade].mean() for grade in range(5)]
    assert (np.diff(means) > 0).all()


@pytest.mark.parametrize("labels", ["click", "grade"])
def test_auc__coarse_rounding_has_its_own_closed_form(labels: str) -> None:
    options: dict[str, Any] = {"labels": labels, "auc_a": 0.9, "decimals_a": 1}
    model = demo.Recipe(300_000, **options).model_a
    table = make(300_000, seed=6, order="grouped", **options)
    value, error = rank_sum_auc(column(table, labels) > 0, column(table, "score_a"))
    assert abs(value - model.auc) < 4 * error
    assert model.auc < 0.9 - 4 * error


def test_rounded_auc__fine_cells_approach_the_smooth_value() -> None:
    shift = demo.binormal_shift(0.8)
    loss = [0.8 - rounded_auc(d, -2.0, shift, [shift], [1.0]) for d in (1, 2, 3, 4)]
    assert all(50 < coarse / fine < 150 for coarse, fine in pairwise(loss[1:]))
    assert loss[0] > loss[1] > 0


def test_scores__calibrated_for_clicks(million: pa.Table) -> None:
    for name in ("score_a", "score_b"):
        ratio = column(million, name).sum() / column(million, "click").sum()
        assert ratio == pytest.approx(1.0, abs=0.1)


def test_scores__errors_correlate_as_asked() -> None:
    table = make(200_000, rho=-0.4, decimals_b=None, score_type="float64", order="grouped")
    rows = column(table, "click") == 0
    logits = [np.log(s / (1 - s)) for s in (column(table, n)[rows] for n in ("score_a", "score_b"))]
    assert np.corrcoef(logits)[0, 1] == pytest.approx(-0.4, abs=0.01)
    twins = make(1000, rho=1.0, auc_b=0.75, decimals_b=None)
    assert twins["score_a"].equals(twins["score_b"])


def test_binormal_auc__known_values() -> None:
    assert demo.binormal_auc(0.0) == 0.5
    assert demo.binormal_auc(math.sqrt(2.0)) == pytest.approx(0.8413447460685429, abs=1e-15)
    assert demo.binormal_auc(demo.binormal_shift(0.93)) == pytest.approx(0.93, abs=1e-14)
    assert graded_shift(0.8, [0.0, 1.0]) == pytest.approx(demo.binormal_shift(0.8) / 2)


# --- the numbers underneath ------------------------------------------------------------------


def test_bits__published_splitmix64_sequence() -> None:
    first = bits(0, np.array([1, 2, 3], dtype=np.uint64)).tolist()
    assert first == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_uniform__even_and_independent_across_streams() -> None:
    rows = np.arange(200_000, dtype=np.uint64)
    draws = [uniform(bits(stream_key(seed, stream), rows)) for seed in (0, 1) for stream in (0, 1)]
    for draw in draws:
        assert 0.0 < draw.min() < draw.max() < 1.0
        assert np.histogram(draw, 10, (0, 1))[0] == pytest.approx(20_000, abs=700)
        assert abs(np.corrcoef(draw[1:], draw[:-1])[0, 1]) < 0.01
    assert np.abs(np.corrcoef(draws) - np.eye(4)).max() < 0.01


@pytest.mark.parametrize("size", [1, 2, 3, 255, 256, 257, 1000, 65_537])
def test_permutation__is_a_bijection(size: int) -> None:
    members = Permutation(size, stream_key(8, 0))(np.arange(size, dtype=np.uint64))
    assert np.array_equal(np.sort(members), np.arange(size))
    if size > 200:
        assert abs(np.corrcoef(members, np.arange(size))[0, 1]) < 5 / math.sqrt(size)


def test_inverse_normal__agrees_with_the_standard_library() -> None:
    x = np.random.default_rng(0).uniform(-40, 40, 3000)
    p = np.concatenate((1 / (1 + np.exp(x[x < 34])), [2.0**-53, 1e-14, 0.075, 0.5]))
    p = p[p < 1.0]
    expected = [NormalDist().inv_cdf(v) for v in p]
    assert inverse_normal(p) == pytest.approx(expected, rel=2e-15, abs=1e-16)


# --- bad options -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        ({"rows": -1}, "rows: must be a whole number"),
        ({"rows": 1.5}, "rows: must be a whole number"),
        ({"rows": True}, "rows: must be a whole number"),
        ({"seed": -1}, "seed: must be"),
        ({"ids": "uuid"}, "ids: must be one of 'int', 'string', got 'uuid'"),
        ({"id_style": "x"}, "id_style: must be one of"),
        ({"labels": "stars"}, "labels: must be one of 'click', 'grade'"),
        ({"order": "random"}, "order: must be one of 'sorted', 'grouped', 'shuffled'"),
        ({"score_type": "float16"}, "score_type: must be one of"),
        ({"auc_a": 1.0}, "auc_a: must be a number from 0.51 to 0.99, got 1.0"),
        ({"auc_b": math.nan}, "auc_b: must be a number"),
        ({"rho": 1.5}, "rho: must be"),
        ({"click_rate": 0.0}, "click_rate: must be"),
        ({"decimals_a": 0}, "decimals_a: must be"),
        ({"decimals_b": 7}, "decimals_b: must be"),
        ({"max_size": 100_001}, "max_size: must be"),
        ({"median_size": 30, "max_size": 20}, "median_size: must be"),
        ({"median_size": 1}, "median_size is 1"),
        ({"days": 0}, "days: must be"),
        ({"batch_rows": 0}, "batch_rows: must be a whole number from 1"),
        ({"batch_rows": 2.5}, "batch_rows: must be a whole number"),
    ],
)
def test_impressions__bad_option(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(message)):
        demo.impressions(**{"rows": 10, **options})
