"""Generated impressions: reproducible rows, known quality."""

from __future__ import annotations

import hashlib
import math
import re
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
    stream_key,
)
from fastrank_eval.apps.demo.rows import group_sizes
from tests.support.transcripts import Case, cases

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


@pytest.mark.parametrize("case", cases("demo_rows"), ids=str)
def test_impressions__bits_are_fixed_on_every_machine_and_bad_options_refused(case: Case) -> None:
    try:
        rows = eval(f"make({case.given[0]})", globals())  # noqa: S307
    except ArgumentError as error:
        case.check([str(error)])
        return
    content = repr((rows.to_pydict(), str(rows.schema.remove_metadata())))
    case.check([hashlib.sha256(content.encode()).hexdigest()])


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_impressions__orders_hold_the_same_rows(order: str) -> None:
    names = ["user_id", "click", "score_a", "score_b", "weight", "slot", "country", "day"]
    by = [(name, "ascending") for name in ("user_id", "score_a", "score_b", "weight", "click")]
    base, other = (make(50_000, seed=2, order=o).select(names) for o in ("grouped", order))
    assert not base.equals(other)
    assert base.sort_by(by).equals(other.sort_by(by))


@pytest.mark.parametrize("score_type", ["float32", "float64"])
@pytest.mark.parametrize("decimals_a", [None, 2])
def test_impressions__sorted_order(score_type: str, decimals_a: int | None) -> None:
    table = make(60_000, seed=3, score_type=score_type, decimals_a=decimals_a)
    keys, scores = column(table, "user_id"), column(table, "score_a")
    same = keys[1:] == keys[:-1]
    assert (keys[1:][~same] == keys[:-1][~same] + 1).all()
    assert (scores[1:][same] <= scores[:-1][same]).all()
    assert (((scores[1:] == scores[:-1]) & same).mean() > 0.1) == (decimals_a is not None)


@pytest.mark.parametrize("order", ORDERS)
def test_impressions__no_rows_and_one_row(order: str) -> None:
    empty = make(0, order=order)
    assert (empty.num_rows, empty.schema) == (0, make(10).schema)
    assert make(1, order=order).num_rows == 1
    assert make(300, order=order, batch_rows=1).equals(make(300, order=order))


# --- what the columns hold -------------------------------------------------------------------


def test_group_sizes__tail_reaches_the_largest_size() -> None:
    sizes = np.sort(group_sizes(16, 20, 100_000, key=1))
    assert (np.median(sizes), sizes[-1]) == (20, 100_000)
    assert 40 < sizes.mean() < 100
    # Pareto tail: the log-log slope of size against rank is steady over three decades.
    slopes = [math.log(sizes[-k] / sizes[-10 * k]) / math.log(10) for k in (5, 50, 500)]
    assert max(slopes) - min(slopes) < 0.05


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


# --- known quality ---------------------------------------------------------------------------


def test_auc__pooled_equals_closed_form(million: pa.Table) -> None:
    recipe = demo.Recipe(1_000_000)
    positive = column(million, "click") > 0
    for name, model in (("score_a", recipe.model_a), ("score_b", recipe.model_b)):
        value, error = rank_sum_auc(positive, column(million, name))
        assert abs(value - model.auc) < 4 * error < 0.02


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


def test_binormal_auc__known_values() -> None:
    assert demo.binormal_auc(0.0) == 0.5
    assert demo.binormal_auc(math.sqrt(2.0)) == pytest.approx(0.8413447460685429, abs=1e-15)
    assert demo.binormal_auc(demo.binormal_shift(0.93)) == pytest.approx(0.93, abs=1e-14)
    assert graded_shift(0.8, [0.0, 1.0]) == pytest.approx(demo.binormal_shift(0.8) / 2)


# --- the numbers underneath ------------------------------------------------------------------


def test_bits__published_splitmix64_sequence() -> None:
    first = bits(0, np.array([1, 2, 3], dtype=np.uint64)).tolist()
    assert first == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


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
