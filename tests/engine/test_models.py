"""Several models in one run share what labels say, and no bit tells."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastrank_eval
from fastrank_eval import OrderError
from fastrank_eval.groups.ties import TIES
from tests.strategies import (
    DECISION_VARIANTS,
    GROUP_DECISION_VARIANTS,
    PER_GROUP,
    POOLED,
    POOLED_VARIANTS,
    VARIANTS,
    allows,
)
from tests.support import tables

NULLS = {"unretrieved": "allow", "unjudged": "allow"}
MODELS = ["sorted", "unsorted", "tied", "patchy", "bare"]
LABELS = {
    "clicks": lambda rng, rows: rng.random(rows) < 0.1,
    "grades": lambda rng, rows: rng.choice([0, 0, 0, 0, 1, 2, 3], rows).astype(np.int8),
    "gains": lambda rng, rows: rng.choice([0, 0, -1, 1, 2], rows).astype(np.float32),
    "none": lambda rng, rows: np.zeros(rows, np.int8),
    "holes": lambda rng, rows: rng.choice([0, 0, 1, 2], rows).astype(np.int8),
}
DECISIONS = [texts[0] for texts in (DECISION_VARIANTS | GROUP_DECISION_VARIANTS).values()]


def log_of(labels: str) -> pa.Table:
    """Groups of 1 to 29 rows and one of 300; two of the models lack scores, of different rows."""
    rng = np.random.default_rng(11)
    sizes = rng.integers(1, 30, 60)
    sizes[20] = 300
    group = np.repeat(np.arange(60), sizes)
    rows = len(group)
    label = LABELS[labels](rng, rows)
    return pa.table(
        {
            "group": group,
            "label": pa.array(label, mask=(labels == "holes") & (rng.random(rows) < 0.2)),
            "sorted": -np.arange(rows) / rows,
            "unsorted": rng.normal(size=rows).astype(np.float32),
            "tied": rng.integers(0, 4, rows) / 4,
            "patchy": pa.array(rng.integers(0, 40, rows) / 4, mask=rng.random(rows) < 0.1),
            "bare": pa.array(rng.random(rows), mask=(label != 0) | (rng.random(rows) < 0.5)),
            "weight": rng.choice([0.0, 1.0, 0.3, 7.7], rows),
            "share": (group % 4) / 4,
            "item": rng.permutation(rows),
        }
    )


def evaluate(table: pa.Table, score: list[str], **options: object) -> fastrank_eval.Result:
    return tables.evaluate(table, score=score, **NULLS, **options)


def assert_as_alone(table: pa.Table, models: list[str], **options: object) -> None:
    together = evaluate(table, models, **options)
    summary = together.records()
    for model in models:
        alone = evaluate(table, [model], **options)
        names = [
            name if name in ("group", "rows", "positives") else f"{model}.{name}"
            for name in alone.per_group.column_names
        ]
        assert bits(together.per_group.select(names)) == bits(alone.per_group)
        mine = summary.filter(pc.equal(summary["score"], model))
        assert bits(mine) == bits(alone.records())


def bits(table: pa.Table) -> list[list[str]]:
    """Every number to the last bit, as texts that tell nulls and NaN apart."""
    return [
        [x.hex() if isinstance(x, float) else str(x) for x in column.to_pylist()]
        for column in table.columns
    ]


@pytest.mark.parametrize("labels", list(LABELS))
@pytest.mark.parametrize("ties", TIES)
def test_every_measure__of_several_models__is_that_of_each_alone(labels, ties):
    table = log_of(labels)
    # Each order with all labels and all policies, not with all pairs of them.
    order = ("auto", "scattered")[(list(LABELS).index(labels) + TIES.index(ties)) % 2]
    if order == "scattered":
        table = table.take(np.random.default_rng(3).permutation(table.num_rows))
    texts = [text for text in PER_GROUP + POOLED if allows(text, ties)]
    if labels == "gains":
        texts = [text for text in texts if "gain={" not in text]
    texts += ["P(weight='share')@3", "GAUC(weight='share')", "nDCG(weight='pairs')@5", *DECISIONS]
    assert_as_alone(table, MODELS, measures=texts, ties=ties, order=order, item="item")


@pytest.mark.parametrize(
    "options, models",
    [
        ({"undefined": "zero"}, MODELS[:3]),
        ({"groups": "with_relevant"}, MODELS[2:]),
        ({}, MODELS[::-1]),
    ],
)
@pytest.mark.parametrize("weight", [None, "weight"])
def test_auc__of_several_models__is_that_of_each_alone(options, models, weight):
    for labels in LABELS:
        texts = [*VARIANTS["GAUC"], *POOLED_VARIANTS["AUC"]]
        assert_as_alone(log_of(labels), models, measures=texts, weight=weight, **options)


@pytest.mark.parametrize("measures", ["AUC", "GAUC,AUC"])
def test_presorted__second_model_rises_inside_a_group__is_named(measures):
    table = log_of("clicks")
    with pytest.raises(OrderError, match="score column 'unsorted' rises inside a group at row"):
        evaluate(table, ["sorted", "unsorted"], measures=measures, order="sorted")


@pytest.mark.parametrize("measures", ["AUC", "AUC(rel=2),AUC"])
@pytest.mark.parametrize("weight", [None, "weight"])
def test_pooled_auc_alone__has_the_value_and_coverage_it_has_beside_others(measures, weight):
    table = log_of("grades")
    alone = evaluate(table, MODELS, measures=measures, weight=weight, keep="values")
    beside = evaluate(table, MODELS, measures=f"{measures},GAUC", weight=weight)
    shared = beside.records().filter(pc.not_equal(beside.records()["measure"], "GAUC"))
    assert bits(alone.records()) == bits(shared)
    positives = ["group", "rows", "positives"]
    assert bits(alone.per_group.select(positives)) == bits(beside.per_group.select(positives))
