"""Every measure of the registry, under every tie policy, against brute force on lists full of ties.

All groups go through one evaluation per policy; the oracle walks them one by one.
"""

import itertools
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastrank_eval
from fastrank_eval.measures import measure, registry
from tests.oracles.decisions import DECISIONS
from tests.oracles.diversity import DIVERSITY
from tests.oracles.measures import POSITION, Row, count_arrangements, oracle, read
from tests.oracles.pooled import POOLED_ORACLES
from tests.strategies import (
    GROUP_DECISION_VARIANTS,
    LABEL_AS_PROBABILITY,
    PER_GROUP,
    POOLED,
    POOLED_VARIANTS,
    VARIANTS,
    allows,
    random_groups,
)
from tests.support import tables
from tests.support.tables import table_of

pytestmark = pytest.mark.kernels

ALL_VARIANTS = VARIANTS | POOLED_VARIANTS | GROUP_DECISION_VARIANTS
TIES = ("expected", "input", "item", "best", "worst")


def of_few_orders(seed: int, levels: int) -> list[list[Row]]:
    """Long lists with few graded rows, whose orders can be enumerated."""
    grades = (*[0] * 40, 1, 2, 3)
    groups = random_groups(seed, 50, most_rows=60, levels=levels, grades=grades)
    return [group for group in groups if count_arrangements(group) <= 300]


GROUPS = {
    "grades": random_groups(101, 100),
    "one score": random_groups(102, 30, levels=1),
    "clicks": random_groups(103, 100, grades=(0, 0, 1), levels=2),
    "negative grades": random_groups(104, 100, grades=(-2, -1, 0, 1, 2)),
    "unretrieved and unjudged": random_groups(105, 200, unretrieved=0.25, unjudged=0.25),
    "long lists": of_few_orders(106, levels=6),
    "long tie blocks": of_few_orders(110, levels=1),
}


def measures_for(ties: str) -> list[str]:
    return [text for text in PER_GROUP if allows(text, ties)]


def evaluate(groups: list[list[Row]], measures: list[str], ties: str, **options: object):
    item = "item" if ties == "item" else None
    given = {"unretrieved": "allow", "unjudged": "allow", "ties": ties, "item": item, **options}
    return tables.evaluate(table_of(groups), measures, **given)


LONG_IN_PYTHON = [
    pytest.param(ties, marks=pytest.mark.compiled if ties in ("best", "worst", "input") else ())
    for ties in TIES
]


def assert_groups_equal(result, text: str, groups: list[list[Row]], ties: str) -> None:
    keys = result.per_group["group"].to_pylist()
    for key, ours in zip(keys, result[text], strict=True):
        wanted = oracle(text, groups[key], ties)
        # pytest.approx takes as long as the oracle.
        equal = math.isclose(ours, wanted, abs_tol=1e-12, rel_tol=1e-12)
        assert equal or (math.isnan(ours) and math.isnan(wanted)), (
            f"{text}, ties={ties}, rows={groups[key]}: {ours} is not {wanted}"
        )


def test_registry__every_measure_has_an_oracle_and_variants():
    per_group = {name for name, kind in registry.items() if not kind.pooled}
    by_rank = per_group - set(GROUP_DECISION_VARIANTS)
    assert by_rank == {*POSITION, *DIVERSITY, "GAUC"} == set(VARIANTS)
    assert {f"Group{name}" for name in DECISIONS} == set(GROUP_DECISION_VARIANTS)
    assert set(registry) - per_group == set(POOLED_ORACLES) == set(POOLED_VARIANTS)


@pytest.mark.parametrize("name", sorted(ALL_VARIANTS))
def test_registry__every_option_of_a_measure_is_tried(name):
    tried = {option for text in ALL_VARIANTS[name] for option in read(text)[1]}
    tried |= {
        option for text in LABEL_AS_PROBABILITY if read(text)[0] == name for option in read(text)[1]
    }
    # What a group weighs in the mean does not touch its value: test_summary.py tries it. What is
    # judged for other queries is in no group: integrations/trec tries it.
    elsewhere = {"weight", "judged"}
    assert {option.name for option in registry[name].options} - elsewhere == tried - elsewhere


def test_variants__are_spelt_canonically():
    for texts in (*ALL_VARIANTS.values(), LABEL_AS_PROBABILITY):
        for text in texts:
            assert str(measure(text)) == text


@pytest.mark.parametrize("kind", list(GROUPS))
@pytest.mark.parametrize("ties", LONG_IN_PYTHON)
def test_every_measure__equals_brute_force(ties, kind):
    groups = GROUPS[kind]
    texts = measures_for(ties)
    result = evaluate(groups, texts, ties)
    for text in texts:
        assert_groups_equal(result, text, groups, ties)


@pytest.mark.parametrize("ties", TIES)
def test_labels_as_probabilities__equal_brute_force(ties):
    groups = random_groups(107, 100, grades=(0.0, 0.25, 0.5, 0.9, 1.0), unretrieved=0.2)  # type: ignore[arg-type]
    texts = [*LABEL_AS_PROBABILITY, "ERR(stop='label', normalize=True)@4"]
    texts = [text for text in texts if ties != "expected" or allows(text, ties)]
    result = evaluate(groups, texts, ties)
    for text in texts:
        assert_groups_equal(result, text, groups, ties)


@pytest.mark.parametrize("ties", TIES)
def test_linear_gains_of_any_size__equal_brute_force(ties):
    groups = random_groups(109, 100, grades=(0, 0.25, 1, 1500, 1e6), unretrieved=0.2)
    texts = ["G", "nDCGrel", "RnDCG", "RnDCG(rel=2)", "Q", "Q@3", "Q(beta=0)"]
    texts = [text for text in texts if allows(text, ties)]
    result = evaluate(groups, texts, ties)
    for text in texts:
        assert_groups_equal(result, text, groups, ties)


_ROWS = st.tuples(
    st.sampled_from((None, -math.inf, 0.0, 5e-324, math.inf)),
    st.sampled_from((None, -1e308, 0.0, 5e-324, 1.0, 2.0, 1e308)),
).map(lambda row: Row(*row))
_OF_RELEVANT_ROWS = [
    *("AP", "AP@2", "AP(over='retrieved')", "AP(over='min')@3", "AP(interpolated=True)@2", "GMAP"),
    *("IPrec(recall=0.5)", "IPrec11", "IPrec11(rounding='up')", "binG", "SetAP", "Utility"),
    *("NumRet", "NumRel", "NumRelRet", "bpref", "GMbpref", "NumNonrelRet", "infAP", "Judged@2"),
    *("Unjudged", "Unjudged@2", "RBPres", "RBPres(tail='if_unjudged')", "Compat"),
]


@pytest.mark.parametrize("ties", ["expected", "input", "best", "worst"])
@given(groups=st.lists(st.lists(_ROWS, min_size=1, max_size=5), min_size=1, max_size=3))
def test_extreme_grades_and_scores__equal_brute_force(groups, ties):
    texts = [text for text in _OF_RELEVANT_ROWS if allows(text, ties)]
    result = evaluate(groups, texts, ties)
    for text in texts:
        assert_groups_equal(result, text, groups, ties)


# Without the JIT NumPy's scalars warn.
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize("text", ["Q", "CG(gain='linear')", "G", "nDCGrel", "RnDCG"])
def test_gains_whose_sum_passes_the_largest_double__are_refused(text):
    for scores in ((2.0, 2.0), (2.0, 1.0)):
        groups = [[Row(1.0, 1)], [Row(score, 1.7e308) for score in scores]]
        with pytest.raises(fastrank_eval.MeasureError, match="passes the largest double"):
            evaluate(groups, [text], "input")


@pytest.mark.parametrize("ties", TIES)
def test_policy_without_a_value__is_refused_with_those_that_have_one(ties):
    refused = [text for text in PER_GROUP if not allows(text, ties)]
    assert bool(refused) == (ties in ("expected", "best", "worst"))
    for text in refused:
        with pytest.raises(fastrank_eval.ArgumentError) as refusal:
            evaluate(GROUPS["grades"], [text], ties)
        named = [policy for policy in TIES if f"'{policy}'" in str(refusal.value)]
        assert str(refusal.value).startswith(text)
        assert named == [policy for policy in TIES if policy == ties or allows(text, policy)]


def test_gauc__weighs_pairs_by_rows():
    weights = (0.0, 0.1, 1.0, 1 / 3, 2.5e7)  # far apart: sums must not cancel
    groups = random_groups(108, 200, weights=weights, unretrieved=0.1, unjudged=0.1)
    texts = [text for text in PER_GROUP if text.startswith("GAUC")]
    result = evaluate(groups, texts, "expected", weight="weight")
    for text in texts:
        assert_groups_equal(result, text, groups, "expected")


@pytest.mark.compiled
@pytest.mark.parametrize("ties", TIES)
def test_dropping_unjudged_rows__moves_later_rows_up(ties):
    groups = random_groups(109, 120, unretrieved=0.15, unjudged=0.35)
    judged = [[row for row in group if row.label is not None] for group in groups]
    texts = [text for text in measures_for(ties) if not text.startswith("GAUC")]
    result = evaluate(groups, texts, ties, unjudged="drop")
    for text in texts:
        by_key = dict(zip(result.per_group["group"].to_pylist(), result[text], strict=True))
        for key, rows in enumerate(judged):
            if rows:
                wanted = oracle(text, rows, ties)
                assert by_key[key] == pytest.approx(wanted, abs=1e-12, nan_ok=True), (text, rows)


@pytest.mark.parametrize(
    "score_type", [pa.float16(), pa.float32(), pa.int8(), pa.uint16(), pa.int64()], ids=str
)
def test_score_types__rank_alike(score_type):
    shifted = [[row._replace(score=row.score + 1) for row in g] for g in GROUPS["grades"]]
    table = table_of(shifted)
    column = table["score"].cast(pa.float32()).cast(score_type)
    typed = table.set_column(table.column_names.index("score"), "score", column)
    texts = ["AP", "nDCG@3", "GAUC", "ERR@4"]
    as_double, as_typed = (tables.evaluate(each, texts) for each in (table, typed))
    for text in texts:
        assert as_typed[text].tobytes() == as_double[text].tobytes(), text


@pytest.mark.parametrize("position", [0, 1, 2])
def test_group_without_any_retrieved_row__disturbs_no_neighbour(position):
    missed = [Row(None, 1), Row(None, 0)]
    labels = (0, 1, 2)
    orders = list(itertools.permutations((1.0, 2.0, 2.0)))
    for first, second in itertools.product(orders, orders):
        neighbours = [
            [Row(score, label) for score, label in zip(scores, labels, strict=True)]
            for scores in (first, second)
        ]
        groups = [*neighbours[:position], missed, *neighbours[position:]]
        texts = ["RR", "nDCG", "GAUC", "AP(rel=2)"]
        result = evaluate(groups, texts, "expected")
        for text in texts:
            assert_groups_equal(result, text, groups, "expected")


def test_nothing_retrieved_at_all__is_zero_and_ties_every_pair():
    groups = [[Row(None, 1)], [Row(None, 0), Row(None, 2)]]
    for weight in (None, "weight"):
        texts = ["RR", "nDCG", "GAUC", *POOLED]
        result = evaluate(groups, texts, "expected", weight=weight, weight_rows="ignore")
        assert (result.value("RR"), result.value("nDCG")) == (0.0, 0.0)
        for text in ("GAUC", *POOLED):
            assert result.value(text) == pytest.approx(0.5), text


def test_item_ties__strings_fall_by_bytes_and_numbers_by_value():
    rows = [Row(1.0, 0, item="9"), Row(1.0, 1, item="10"), Row(1.0, 0, item="é"), Row(1.0, 0)]
    table = table_of([rows])
    by_bytes = tables.evaluate(table, "RR", item="item", ties="item")
    assert by_bytes.value("RR") == pytest.approx(1 / 3)  # é, 9, 10, then the empty id
    numbers = table.set_column(1, "item", pa.array([9, 10, 8, 11], pa.int64()))
    by_value = tables.evaluate(numbers, "RR", item="item", ties="item")
    assert by_value.value("RR") == pytest.approx(1 / 2)
