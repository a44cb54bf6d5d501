"""Every measure of all rows together, against its oracle, and the laws that all of them keep."""

import math
import random

import numpy as np
import pytest

from fastrank_eval import FastRankEvalError, testing
from fastrank_eval.measures import measure
from tests.oracles.measures import Row
from tests.oracles.pooled import oracle_of
from tests.strategies import POOLED_VARIANTS
from tests.support import tables
from tests.support.tables import table_of

pytestmark = pytest.mark.kernels

TEXTS = tuple(text for texts in POOLED_VARIANTS.values() for text in texts)
#: Those that a row without a score has a place in: it is the last one.
ORDERED = tuple(text for text in TEXTS if measure(text).scores in ("order", "number"))
WEIGHTS = (0.0, 0.1, 1.0, 1 / 3, 2.5e7)  # far apart: sums must not cancel


def probable_groups(
    seed: int, count: int, *, weights=(1.0,), levels=None, unretrieved=0.0, unjudged=0.0
) -> list[list[Row]]:
    """Scores in [0, 1], the ends among them; at most one of score and label is missing."""
    rng = random.Random(seed)  # noqa: S311

    def row(number: int) -> Row:
        score: float | None = rng.choice([*(levels or (rng.random(),) * 18), 0.0, 1.0])
        label: float | None = rng.choice([0, 0, 0, 1, 2])
        if rng.random() < unretrieved:
            score = None
        elif rng.random() < unjudged:
            label = None
        return Row(score, label, rng.choice(weights), f"d{number}")

    return [[row(number) for number in range(rng.randint(1, 9))] for _ in range(count)]


def evaluate(source, measures=TEXTS, **options):
    nulls = {"unretrieved": "allow", "unjudged": "allow"}
    return tables.evaluate(source, list(measures), **{**nulls, **options})


def bits(result) -> dict[str, tuple]:
    return {
        v.measure: (v.value.hex(), v.dropped, v.details, v.se.hex(), v.effective_groups.hex())
        for v in result
    }


CASES = {
    "many scores": probable_groups(1, 60),
    "few scores": probable_groups(2, 60, levels=(0.25, 0.5, 0.75)),
    "null labels": probable_groups(3, 80, unjudged=0.2),
    "null scores": probable_groups(3, 80, unretrieved=0.2, unjudged=0.2),
    "one row": [[Row(0.25, 1)]],
    "negatives only": [[Row(0.25, 0), Row(0.5, 0)], [Row(0.75, 0)]],
    "positives only": [[Row(0.25, 2), Row(0.5, 2)], [Row(1.0, 2)]],
    "one score": [[Row(0.5, 1), Row(0.5, 0)], [Row(0.5, 0), Row(0.5, 2)]],
    "perfect": [[Row(1.0, 2), Row(0.0, 0)], [Row(0.0, 0), Row(1.0, 2)]],
}
WEIGHTED_CASES = {
    "weights": probable_groups(4, 80, weights=WEIGHTS),
    "null scores with weights": probable_groups(7, 80, weights=WEIGHTS, unretrieved=0.2),
    "weights of few scores": probable_groups(5, 80, weights=WEIGHTS, levels=(0.25, 0.5)),
    "no weight": [[Row(0.5, 1, 0.0), Row(0.25, 0, 0.0)]],
    "weight in one class": [[Row(0.5, 2, 1.0), Row(0.25, 0, 0.0)]],
}


@pytest.mark.parametrize("case", [*CASES, *WEIGHTED_CASES])
def test_every_pooled_measure__equals_its_definition(case):
    groups = (CASES | WEIGHTED_CASES)[case]
    weight = "weight" if case in WEIGHTED_CASES else None
    texts = ORDERED if case.startswith("null scores") else TEXTS
    result = evaluate(table_of(groups), texts, weight=weight)
    rows = [row for group in groups for row in group]
    for found in result:
        wanted = oracle_of(found.measure, rows)
        if isinstance(wanted, str):
            assert (math.isnan(found.value), list(found.dropped)) == (True, [wanted]), found
            assert found.groups_used == 0
        else:
            assert found.value == pytest.approx(wanted, abs=1e-12, rel=1e-12), found
            assert (found.groups_used, found.dropped) == (len(groups), {}), found
        low, high = measure(found.measure).range
        assert math.isnan(found.value) or low <= found.value <= high


@pytest.mark.compiled
@pytest.mark.parametrize("weight", [None, "weight"])
def test_every_pooled_measure__has_the_same_bits_in_any_order_batches_and_threads(weight):
    groups = probable_groups(6, 300, weights=WEIGHTS)
    table = table_of(groups)
    once = bits(evaluate(table, weight=weight, threads=1))
    shuffled = table.take(random.Random(7).sample(range(table.num_rows), table.num_rows))  # noqa: S311
    for source in (table, shuffled):
        for threads, rows in ((1, 100), (3, 64), (2, 1 << 20)):
            again = evaluate(source, weight=weight, threads=threads, batch_rows=rows)
            assert bits(again) == once, (threads, rows)


@pytest.mark.compiled
@pytest.mark.parametrize("factor", [0.25, 3.0, 12345.678])
def test_row_weights__times_any_number_change_no_pooled_measure(factor):
    groups = probable_groups(8, 100, weights=(0.0, 0.1, 1.0, 7.0))
    scaled = [[row._replace(weight=row.weight * factor) for row in group] for group in groups]
    once = evaluate(table_of(groups), weight="weight")
    again = evaluate(table_of(scaled), weight="weight")
    for before, after in zip(once, again, strict=True):
        assert after.value == pytest.approx(before.value, rel=1e-12, abs=1e-12), before.measure


def test_row_weights__all_one_are_no_weights_for_any_pooled_measure():
    testing.weights_of_one(TEXTS, probable_groups(9, 100))


@pytest.fixture(scope="module")
def among_all():
    return evaluate(table_of(CASES["null labels"]))


@pytest.mark.compiled
@pytest.mark.parametrize("text", TEXTS)
def test_pooled_measure__alone_and_among_all_others__is_the_same(among_all, text):
    assert evaluate(table_of(CASES["null labels"]), [text]).value(text) == among_all.value(text)


def test_no_rows__leave_every_pooled_measure_undefined():
    result = evaluate(table_of([]))
    assert all(math.isnan(found.value) and not found.dropped for found in result)


PROBABLE = [text for text in TEXTS if measure(text).scores == "probability"]


@pytest.mark.parametrize("text", PROBABLE)
@pytest.mark.parametrize("score", [1.0000001, -1e-9, math.inf])
def test_score_outside_0_and_1__is_refused_where_a_measure_needs_probabilities(text, score):
    groups = [[Row(0.5, 1), Row(0.25, 0)], [Row(score, 0), Row(0.5, 0), Row(score, 1)]]
    with pytest.raises(
        FastRankEvalError, match=r"'score'.*not a probability in 2 row.*row 2 "
    ) as bad:
        evaluate(table_of(groups), [text])
    assert "sigmoid" in str(bad.value)


def test_clamped_probabilities__are_counted_with_the_value():
    groups = [[Row(0.0, 1), Row(1.0, 0)], [Row(1.0, 1), Row(0.5, 1), Row(1e-16, 0)]]
    (found,) = evaluate(table_of(groups), ["LogLoss"])
    assert found.details == {"clamped rows": 4}
    assert isinstance(found.details["clamped rows"], int)
    assert "LogLoss: clamped rows 4" in str(evaluate(table_of(groups), ["LogLoss"]))


def test_clamp__a_number__or_the_epsilon_of_the_type_of_each_score():
    p = [0, 1, 1e-4, 1e-10, 0.5]
    columns = {
        "half": np.array(p, np.float16),
        "single": np.array(p, np.float32),
        "double": np.array(p),
        "whole": np.array([0, 1, 1, 0, 1], np.int8),
    }
    label = np.array([1, 0, 1, 1, 0])
    log = {"group": [0, 0, 1, 1, 1], "label": label, **columns}
    measures = ["LogLoss(clamp='type')", "LogLoss(clamp=0.25)"]
    result = evaluate(log, measures, score=list(columns))
    clamped = {"half": 4, "single": 3, "double": 2, "whole": 5}
    values = {(value.score, value.measure): value for value in result}
    for name, score in columns.items():
        epsilon = np.finfo(score.dtype if score.dtype.kind == "f" else np.float64).eps
        for text, least in (("'type'", float(epsilon)), ("0.25", 0.25)):
            kept = np.clip(score.astype(np.float64), least, 1 - least)
            wanted = -np.log(np.where(label == 1, kept, 1 - kept)).mean()
            found = values[name, f"LogLoss(clamp={text})"]
            assert found.value == pytest.approx(wanted, rel=1e-12), (name, text)
            if text == "'type'":
                assert found.details == {"clamped rows": clamped[name]}, name
