"""Numbers that must always hold, as properties over every measure of the registry."""

import itertools
import math
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fastrank_eval
from fastrank_eval.measures import measure, registry
from tests.oracles.measures import Row
from tests.strategies import PER_GROUP, POOLED, allows, has_expectation, random_groups
from tests.support.tables import table_of

EXPECTED = tuple(text for text in PER_GROUP if has_expectation(text))
EVERYTHING = (*EXPECTED, *POOLED)
WEIGHTED = tuple(text for text in EVERYTHING if registry[measure(text).name].uses_row_weights)

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
    )


def groups_of(one_row: st.SearchStrategy[Row]) -> st.SearchStrategy[list[list[Row]]]:
    return st.lists(st.lists(one_row, min_size=1, max_size=9), min_size=1, max_size=8)


LEVELS = st.sampled_from([-1.5, -0.0, 0.0, 0.25, 7.0])
GROUPS = groups_of(rows(LEVELS))
WEIGHTED_GROUPS = groups_of(rows(LEVELS, weights=(0.0, 0.1, 1.0, 1 / 3, 2.5e7)))


def evaluate(source, measures=EVERYTHING, **options):
    return fastrank_eval.evaluate(
        source,
        group="group",
        label="label",
        score="score",
        measures=list(measures),
        unretrieved="allow",
        **options,
    )


NUMBERS = ("value", "se", "ci_low", "ci_high", "effective_groups")


def values_of_groups(result) -> dict[str, np.ndarray]:
    """Every per-group column as an array, NaN where undefined."""
    table = result.per_group
    names = [name for name in table.column_names if name not in ("group", "rows", "positives")]
    return {name: table[name].to_numpy() for name in names}


def bits(result) -> dict[str, object]:
    """Every number of a result, to the last bit: those of its lines, and of each group by key."""
    keys = result.per_group["group"].to_pylist()
    seen: dict[str, object] = {
        line["measure"]: [
            None if line[name] is None else float(line[name]).hex() for name in NUMBERS
        ]
        for line in result.to_dict()["results"]
    }
    for text, values in values_of_groups(result).items():
        seen[f"{text} by group"] = dict(zip(keys, map(float.hex, values.tolist()), strict=True))
    return seen


def coverage(result) -> list[dict]:
    lines = result.to_dict()["results"]
    apart = (*NUMBERS, "weight")
    return [{name: line[name] for name in line if name not in apart} for line in lines]


def assert_weights_scale(again, once, factor: float) -> None:
    """Group weights that count rows grow with the rows' weights; the others stay."""
    for new, old in zip(again.values, once.values, strict=True):
        assert math.isnan(new.weight) == math.isnan(old.weight), old
        if old.weight > 0:
            powers = math.log(new.weight / old.weight, factor)
            assert powers == pytest.approx(round(powers), abs=1e-9), old
            assert round(powers) in (0, 1, 2), old


# ---- weights -------------------------------------------------------------------------------------


@law
@given(WEIGHTED_GROUPS, st.sampled_from([0.25, 2.0, 2.0**20]))
def test_row_weights__times_a_power_of_two_change_no_bit(groups, factor):
    scaled = [[row._replace(weight=row.weight * factor) for row in group] for group in groups]
    once = evaluate(table_of(groups), WEIGHTED, weight="weight")
    again = evaluate(table_of(scaled), WEIGHTED, weight="weight")
    assert bits(again) == bits(once)
    assert coverage(again) == coverage(once)
    assert_weights_scale(again, once, factor)


@law
@given(WEIGHTED_GROUPS, st.sampled_from([0.1, 3.0, 12345.678]))
def test_row_weights__times_any_number_change_nothing(groups, factor):
    scaled = [[row._replace(weight=row.weight * factor) for row in group] for group in groups]
    once = evaluate(table_of(groups), WEIGHTED, weight="weight")
    again = evaluate(table_of(scaled), WEIGHTED, weight="weight")
    for text in WEIGHTED:
        wanted = pytest.approx(once.value(text), abs=1e-12, nan_ok=True)
        assert again.value(text) == wanted, text
    assert coverage(again) == coverage(once)


@law
@given(GROUPS)
def test_row_weights__all_one_are_no_weights(groups):
    once = evaluate(table_of(groups), WEIGHTED)
    again = evaluate(table_of(groups), WEIGHTED, weight="weight")
    for text in WEIGHTED:
        wanted = pytest.approx(once.value(text), abs=1e-12, nan_ok=True)
        assert again.value(text) == wanted, text


# ---- coverage ------------------------------------------------------------------------------------

WITHOUT_POSITIVES = [Row(1.0, 0), Row(0.0, 0), Row(1.0, 0)]


@law
@given(GROUPS)
def test_a_group_of_undefined_value__changes_only_coverage(groups):
    once = evaluate(table_of(groups), EXPECTED)
    again = evaluate(table_of([*groups, WITHOUT_POSITIVES]), EXPECTED)
    before, after = once.to_dict()["results"], again.to_dict()["results"]
    tried = 0
    added = again.per_group["group"].to_pylist().index(len(groups))
    values = values_of_groups(again)
    for text, old, new in zip(EXPECTED, before, after, strict=True):
        if not math.isnan(values[text][added]):
            continue
        tried += 1
        same = (*NUMBERS, "caution", "groups_used")
        assert [new[name] for name in same] == [old[name] for name in same], text
        assert new["groups"] == old["groups"] + 1
        assert sum(new["dropped"].values()) == sum(old["dropped"].values()) + 1, text
        assert old["rows_share"] == 0 or new["rows_share"] < old["rows_share"]
        assert new["positives_share"] == old["positives_share"]
    assert tried > 20


# ---- scores --------------------------------------------------------------------------------------


@law
@given(GROUPS, st.lists(st.floats(allow_nan=False, width=64), min_size=4, max_size=4, unique=True))
def test_a_strictly_increasing_map_of_scores__changes_no_bit(groups, images):
    levels = sorted({row.score for group in groups for row in group if row.score is not None})
    image = dict(zip(levels, sorted(images), strict=False))
    image[None] = None  # type: ignore[index]
    mapped = [[row._replace(score=image[row.score]) for row in group] for group in groups]
    assert bits(evaluate(table_of(mapped))) == bits(evaluate(table_of(groups)))


@law
@given(WEIGHTED_GROUPS, st.booleans())
def test_reversed_scores__map_auc_to_one_minus_auc(groups, weighted):
    mirrored = [
        [row._replace(score=None if row.score is None else -row.score) for row in group]
        for group in groups
    ]
    texts = ["GAUC", "GAUC(rel=2)", "AUC"]
    options = {"weight": "weight"} if weighted else {}
    once = evaluate(table_of(groups), texts, **options)
    again = evaluate(table_of(mirrored), texts, **options)
    for text in texts:
        assert again.value(text) == pytest.approx(1 - once.value(text), abs=1e-12, nan_ok=True)
        if text != "AUC":
            np.testing.assert_allclose(again[text], 1 - once[text], atol=1e-12)


# ---- order, batches, threads ---------------------------------------------------------------------


@law
@given(WEIGHTED_GROUPS, st.randoms(use_true_random=False), st.booleans())
def test_permuted_rows__change_no_bit_in_expectation(groups, rng, weighted):
    table = table_of(groups)
    order = list(range(table.num_rows))
    rng.shuffle(order)
    measures, options = (WEIGHTED, {"weight": "weight"}) if weighted else (EVERYTHING, {})
    once = evaluate(table, measures, **options)
    again = evaluate(table.take(order), measures, **options)
    assert bits(again) == bits(once)
    assert coverage(again) == coverage(once)


TIES = ("expected", "input", "item", "best", "worst")


def in_batches(table: pa.Table, cuts: list[int]) -> pa.RecordBatchReader:
    edges = sorted({0, table.num_rows, *(cut % (table.num_rows + 1) for cut in cuts)})
    batches = [
        batch
        for start, stop in itertools.pairwise(edges)
        for batch in table.slice(start, stop - start).combine_chunks().to_batches()
    ]
    return pa.RecordBatchReader.from_batches(table.schema, batches)


@law
@given(GROUPS, st.lists(st.integers(0, 100), max_size=6), st.sampled_from(TIES))
def test_batches__change_no_bit(groups, cuts, ties):
    table = table_of(groups)
    item = "item" if ties == "item" else None
    once = evaluate(table, ties=ties, item=item)
    streamed = evaluate(in_batches(table, cuts), ties=ties, item=item, batch_rows=len(cuts) + 1)
    assert bits(streamed) == bits(once)
    assert coverage(streamed) == coverage(once)


@pytest.fixture(scope="module")
def many_groups() -> pa.Table:
    return table_of(random_groups(301, 150, weights=(0.1, 1.0, 7.5), unretrieved=0.1))


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_threads_and_batch_rows__change_no_bit(many_groups, weight, shuffled):
    measures = EVERYTHING if weight is None else WEIGHTED
    table = many_groups
    if shuffled:
        order = list(range(table.num_rows))
        random.Random(302).shuffle(order)  # noqa: S311
        table = table.take(order)
    wanted = bits(evaluate(many_groups, measures, weight=weight, threads=1))
    for threads, batch_rows in [(1, 1), (1, 10**6), (2, None), (2, 7), (3, 1), (5, 64)]:
        result = evaluate(table, measures, weight=weight, threads=threads, batch_rows=batch_rows)
        assert bits(result) == wanted, (threads, batch_rows)


def test_row_groups_of_a_parquet_file__change_no_bit(many_groups, tmp_path):
    wanted = bits(evaluate(many_groups))
    for size in (1, 3, 100, 10**6):
        path = tmp_path / f"{size}.parquet"
        pq.write_table(many_groups, path, row_group_size=size)
        assert bits(evaluate(path)) == wanted, size


# ---- bounds --------------------------------------------------------------------------------------


@law
@given(groups_of(rows(LEVELS, grades=(0, 0, 1, 1, 2, 3))))
def test_best__is_at_least_expected__is_at_least_worst(groups):
    table = table_of(groups)
    best, expected, worst, given = (
        values_of_groups(evaluate(table, EXPECTED, ties=ties))
        for ties in ("best", "expected", "worst", "input")
    )
    for text in EXPECTED:
        most, mean, least, middle = best[text], expected[text], worst[text], given[text]
        assert (np.isnan(most) == np.isnan(mean)).all(), text
        defined = ~np.isnan(mean)
        assert (most >= mean - 1e-12)[defined].all(), text
        assert (mean >= least - 1e-12)[defined].all(), text
        assert (most >= middle - 1e-12)[defined].all(), text
        assert (middle >= least - 1e-12)[defined].all(), text


@law
@given(
    groups_of(rows(LEVELS, grades=(-2, 0, 0, 1, 2, 3), weights=(0.0, 0.1, 1.0, 1e-9))),
    st.sampled_from(TIES),
    st.booleans(),
)
def test_every_value__lies_in_the_range_its_measure_declares(groups, ties, weighted):
    texts = [*PER_GROUP, *POOLED]
    texts = [text for text in texts if "gain={" not in text and allows(text, ties)]
    options = {"weight": "weight", "weight_rows": "ignore"} if weighted else {}
    item = "item" if ties == "item" else None
    result = evaluate(table_of(groups), texts, ties=ties, item=item, **options)
    values = values_of_groups(result)
    for line in result.to_dict()["results"]:
        text = line["measure"]
        low, high = measure(text).range
        assert line["value"] is None or low <= line["value"] <= high, text
        if text not in POOLED:
            defined = values[text][~np.isnan(values[text])]
            assert ((low <= defined) & (defined <= high)).all(), (text, defined)


def test_a_perfect_order__reaches_the_top_of_the_range():
    groups = [[Row(3.0, 3), Row(2.0, 2), Row(1.0, 1), Row(0.0, 0)], [Row(1.0, 1), Row(0.0, 0)]]
    texts = ["GAUC", "AUC", "nDCG", "nDCG@3", "AP", "RR", "Success@1", "Rprec", "R@3"]
    result = evaluate(table_of(groups), texts)
    assert {text: result.value(text) for text in texts} == dict.fromkeys(texts, 1.0)


def test_undefined_values__are_null_in_the_tables_and_nan_in_the_arrays():
    result = evaluate(table_of([WITHOUT_POSITIVES]), ["nDCG@3", "GAUC", "RR"])
    columns = result.per_group
    assert columns["nDCG@3"].to_pylist() == columns["GAUC"].to_pylist() == [None]
    assert columns["RR"].to_pylist() == [0.0]
    assert math.isnan(result["nDCG@3"][0])
    assert math.isnan(result.value("GAUC"))
    values = dict(
        zip(result.summary["measure"].to_pylist(), result.summary["value"].to_pylist(), strict=True)
    )
    assert values == {"nDCG@3": None, "GAUC": None, "RR": 0.0}
