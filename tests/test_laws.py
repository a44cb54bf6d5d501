"""Numbers that must always hold, as properties over every measure of the registry."""

import math
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fastrank_eval import testing
from fastrank_eval.measures import measure, registry
from fastrank_eval.testing import Row, bits, result_of, table_of
from tests.strategies import (
    PER_GROUP,
    POOLED,
    VARIANTS,
    allows,
    has_expectation,
    has_extremes,
    random_groups,
)

EXPECTED = tuple(text for text in PER_GROUP if has_expectation(text))
EVERYTHING = (*EXPECTED, *POOLED)
WEIGHTED = tuple(text for text in EVERYTHING if registry[measure(text).name].uses_row_weights)

pytestmark = pytest.mark.lasts("every measure on random groups, many times")

law = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def rows(
    scores: st.SearchStrategy[float], grades=(0, 0, 1, 2, 3), weights=(1.0,)
) -> st.SearchStrategy[Row]:
    return st.builds(
        Row,
        st.one_of(scores, scores, scores, st.none()),
        st.sampled_from(grades),
        st.sampled_from(weights),
        st.text(alphabet="abé", max_size=3),
        st.none(),
    )


def groups_of(one_row: st.SearchStrategy[Row]) -> st.SearchStrategy[list[list[Row]]]:
    group = st.lists(one_row, min_size=1, max_size=9, unique_by=lambda row: row.item)
    return st.lists(group, min_size=1, max_size=8)


LEVELS = st.sampled_from([-1.5, -0.0, 0.0, 0.25, 7.0])
GROUPS = groups_of(rows(LEVELS))
WEIGHTED_GROUPS = groups_of(rows(LEVELS, weights=(0.0, 0.1, 1.0, 1 / 3, 2.5e7)))


def order_of(groups, rng: random.Random) -> list[int]:
    order = list(range(sum(map(len, groups))))
    rng.shuffle(order)
    return order


# ---- weights -------------------------------------------------------------------------------------


@law
@given(WEIGHTED_GROUPS, st.sampled_from([0.25, 2.0, 2.0**20]))
def test_row_weights__times_a_power_of_two_change_no_bit(groups, factor):
    testing.weights_times_a_constant(WEIGHTED, groups, factor)


@law
@given(WEIGHTED_GROUPS, st.sampled_from([0.1, 3.0, 12345.678]))
def test_row_weights__times_any_number_change_nothing(groups, factor):
    testing.weights_times_a_constant(WEIGHTED, groups, factor)


@law
@given(GROUPS)
def test_row_weights__all_one_are_no_weights(groups):
    testing.weights_of_one(WEIGHTED, groups)


# ---- coverage ------------------------------------------------------------------------------------

WITHOUT_POSITIVES = [Row(1.0, 0), Row(0.0, 0), Row(1.0, 0)]


@law
@given(GROUPS)
def test_a_group_of_undefined_value__changes_only_coverage(groups):
    assert testing.undefined_group(EXPECTED, groups) > 20


# ---- scores --------------------------------------------------------------------------------------


@law
@given(GROUPS, st.lists(st.floats(allow_nan=False, width=64), min_size=4, max_size=4, unique=True))
def test_a_strictly_increasing_map_of_scores__changes_no_bit(groups, images):
    testing.increasing_map_of_scores(EVERYTHING, groups, images)


@law
@given(WEIGHTED_GROUPS, st.booleans())
def test_reversed_scores__map_auc_to_one_minus_auc(groups, weighted):
    # Rows without a score are below the others in both directions.
    groups = [[row for row in group if row.score is not None] for group in groups]
    mirrored = [[row._replace(score=-row.score) for row in group] for group in groups]
    texts = ["GAUC", "GAUC(rel=2)", "AUC"]
    options = {"weight": "weight"} if weighted else {}
    once = result_of(table_of(groups), texts, **options)
    again = result_of(table_of(mirrored), texts, **options)
    for text in texts:
        assert again.value(text) == pytest.approx(1 - once.value(text), abs=1e-12, nan_ok=True)
        if text != "AUC":
            np.testing.assert_allclose(again[text], 1 - once[text], atol=1e-12)


# ---- order, batches, threads, states -------------------------------------------------------------


@law
@given(WEIGHTED_GROUPS, st.randoms(use_true_random=False), st.booleans())
def test_permuted_rows__change_no_bit_in_expectation(groups, rng, weighted):
    measures, weight = (WEIGHTED, "weight") if weighted else (EVERYTHING, None)
    testing.permuted_rows(measures, groups, order_of(groups, rng), weight)


@law
@given(GROUPS, st.lists(st.integers(0, 100), max_size=6), st.sampled_from(testing.TIES))
def test_batches__change_no_bit(groups, cuts, ties):
    texts = [text for text in EVERYTHING if allows(text, ties)]
    testing.batches(texts, groups, cuts, ties)


@law
@example([[Row(1.0, 0)], [Row(1.0, 0)]], 1)  # of equal rows
@given(GROUPS, st.integers(0, 100))
def test_states_of_two_parts__merge_to_the_bits_of_one_run(groups, cut):
    testing.merged_states(EVERYTHING, groups, cut)


@pytest.fixture(scope="module")
def many_groups() -> list[list[Row]]:
    return random_groups(301, 150, weights=(0.1, 1.0, 7.5), unretrieved=0.1)


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_threads_and_batch_rows__change_no_bit(many_groups, weight, shuffled):
    measures = EVERYTHING if weight is None else WEIGHTED
    order = order_of(many_groups, random.Random(302)) if shuffled else None  # noqa: S311
    testing.threads(measures, many_groups, order, weight)


def test_row_groups_of_a_parquet_file__change_no_bit(many_groups, tmp_path):
    table: pa.Table = table_of(many_groups)
    wanted = bits(result_of(table, EVERYTHING))
    for size in (1, 3, 100, 10**6):
        path = tmp_path / f"{size}.parquet"
        pq.write_table(table, path, row_group_size=size)
        assert bits(result_of(path, EVERYTHING)) == wanted, size


# ---- clusters ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [None, "weight"])
def test_clusters_of_one_group__change_no_bit(many_groups, weight):
    measures = EVERYTHING if weight is None else WEIGHTED
    table = table_of(many_groups)
    user = pa.array([f"user {(key * 89) % 997}" for key in table["group"].to_pylist()])
    table = table.append_column("user", user)
    wanted = result_of(table, measures, weight=weight)
    again = result_of(table, measures, weight=weight, cluster="group")
    assert bits(again) == bits(wanted)
    # Another column that says the same: only the fourth powers are rounded in another order.
    for one, line in zip(
        result_of(table, measures, weight=weight, cluster="user").values, wanted.values, strict=True
    ):
        numbers, others = ([getattr(of, name) for name in testing.NUMBERS] for of in (one, line))
        assert repr(numbers[:2]) == repr(others[:2]), line.measure
        assert numbers == pytest.approx(others, rel=1e-12, nan_ok=True), line.measure


# ---- bounds --------------------------------------------------------------------------------------


@law
@given(groups_of(rows(LEVELS, grades=(0, 0, 1, 1, 2, 3))))
def test_best__is_at_least_expected__is_at_least_worst(groups):
    testing.best_expected_worst([text for text in EXPECTED if has_extremes(text)], groups)


@law
@given(groups_of(rows(LEVELS, grades=(-2, -1, 0, 1, 2, 3))))
def test_best__is_at_least_worst__with_rows_that_cost(groups):
    texts = [text for name in ("CG", "DCG", "nDCG") for text in VARIANTS[name]]
    testing.best_expected_worst([text for text in texts if has_extremes(text)], groups)


@law
@given(
    groups_of(rows(LEVELS, grades=(-2, 0, 0, 1, 2, 3), weights=(0.0, 0.1, 1.0, 1e-9))),
    st.sampled_from(testing.TIES),
    st.booleans(),
)
def test_every_value__lies_in_the_range_its_measure_declares(groups, ties, weighted):
    texts = [text for text in (*PER_GROUP, *POOLED) if allows(text, ties)]
    testing.declared_range(texts, groups, ties, weighted)


def test_a_perfect_order__reaches_the_top_of_the_range():
    groups = [[Row(3.0, 3), Row(2.0, 2), Row(1.0, 1), Row(0.0, 0)], [Row(1.0, 1), Row(0.0, 0)]]
    texts = ["GAUC", "AUC", "nDCG", "nDCG@3", "AP", "RR", "Success@1", "Rprec", "R@3"]
    result = result_of(table_of(groups), texts)
    assert {text: result.value(text) for text in texts} == dict.fromkeys(texts, 1.0)


def test_undefined_values__are_null_in_the_tables_and_nan_in_the_arrays():
    result = result_of(table_of([WITHOUT_POSITIVES]), ["nDCG@3", "GAUC", "RR"])
    columns = result.per_group
    assert columns["nDCG@3"].to_pylist() == columns["GAUC"].to_pylist() == [None]
    assert columns["RR"].to_pylist() == [0.0]
    assert math.isnan(result["nDCG@3"][0])
    assert math.isnan(result.value("GAUC"))
    values = dict(
        zip(
            result.records()["measure"].to_pylist(),
            result.records()["value"].to_pylist(),
            strict=True,
        )
    )
    assert values == {"nDCG@3": None, "GAUC": None, "RR": 0.0}
