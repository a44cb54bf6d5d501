"""Comparisons of several labels: one reading of the rows, the bits of a call for each label."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastrank_eval as fe
from fastrank_eval import ArgumentError, Comparison, LabelComparisons
from tests.engine.test_together import log_of

LOG = log_of(7)
ROLES: dict[str, Any] = {"group": "user", "score": ["pctr", "pcvr"], "baseline": "pctr"}
LABELS = ["click", "order"]
OWN = {"click": ["GAUC", "MAP"], "order": "RR"}


def compare(**options: Any) -> LabelComparisons:
    return fe.compare(LOG, **{**ROLES, "label": LABELS, "measures": "GAUC,AUC,MAP", **options})


def same(one: Comparison, other: Comparison) -> bool:
    """Whether two comparisons have the same bits, conventions and values of groups."""
    return (
        repr(one.values) == repr(other.values)
        and repr(one.evaluated) == repr(other.evaluated)
        and one.meta.conventions == other.meta.conventions
        and (one.meta.rows, one.meta.groups) == (other.meta.rows, other.meta.groups)
        and one.names == other.names
        and one.per_group.equals(other.per_group)
    )


@pytest.mark.parametrize(
    "options",
    [
        {"by": ["slot", "country"]},
        {"test": "bootstrap", "replicates": 200, "measures": "GAUC,MAP"},
        {"test": "wilcoxon", "measures": fe.engine.DEFAULT_MEASURES},
        {"measures": OWN, "correction": "bh", "confidence": 0.9},
        {"unjudged": "drop", "label": ["click", "cart"]},
        {"score": {"pctr": "pctr", "ctcvr": "pctr * pcvr"}},
    ],
    ids=lambda options: ",".join(options),
)
def test_labels__have_the_bits_of_calls_of_their_own(options: dict[str, Any]) -> None:
    together = compare(**options)
    labels = options.pop("label", LABELS)
    assert list(together) == labels
    measures = options.pop("measures", "GAUC,AUC,MAP")
    for label, comparison in together.items():
        own = measures[label] if isinstance(measures, dict) else measures
        alone = fe.compare(LOG, **{**ROLES, "label": label, "measures": own, **options})
        assert same(comparison, alone)


def test_rows__are_read_once() -> None:
    readings = []

    def batches() -> Any:
        readings.append(1)
        yield from LOG.to_batches()

    reader = pa.RecordBatchReader.from_batches(LOG.schema, batches())
    together = fe.compare(reader, **ROLES, label=LABELS, measures="RR")
    assert len(readings) == 1
    assert {one.meta.rows for one in together.values()} == {LOG.num_rows}


def test_slicings__of_an_iterator_are_those_of_every_label() -> None:
    together = compare(by=iter(["slot", "country"]))
    assert same(together["order"], compare(by=["slot", "country"])["order"])


def test_one_label__in_a_list_is_a_mapping_too() -> None:
    together = compare(label=("order",))
    assert list(together) == ["order"]
    assert isinstance(fe.compare(LOG, **ROLES, label="order", measures="RR"), Comparison)


def test_tables__have_the_label_in_front() -> None:
    together = compare(measures=OWN)
    table = together.records()
    assert table["label"].to_pylist() == ["click", "click", "order"]
    for label, comparison in together.items():
        own = table.filter(pc.equal(table["label"], label)).drop_columns("label")
        assert own.equals(comparison.records())
    lines = together.to_csv().splitlines()
    assert lines[0] == "label," + together["click"].to_csv().splitlines()[0]
    assert lines[3] == "order," + together["order"].to_csv().splitlines()[1]
    assert together.per_group.column_names[:3] == ["label", "user", "rows"]


def test_json__has_the_comparison_of_each_label() -> None:
    together = compare()
    found = json.loads(together.to_json(movers=2))
    assert found["labels"] == {
        label: json.loads(one.to_json(movers=2)) for label, one in together.items()
    }
    assert found["labels"]["order"]["movers"]


def test_gates__are_judged_for_every_label_that_has_their_measures() -> None:
    together = compare(measures=OWN)
    verdict = together.check("MAP delta < 1", "RR delta_se > 0")
    assert [(one.label, one.score) for one in verdict.failures] == [
        ("click", "pcvr"),
        ("order", "pcvr"),
    ]
    nowhere = together.check("AUC delta < 0")
    assert [(one.label, one.kind) for one in nowhere.failures] == [
        ("click", "not_computed"),
        ("order", "not_computed"),
    ]
    assert together.check("MAP delta < -1")
    with pytest.raises(ArgumentError, match="no gate is given"):
        together.check()


def test_comparisons__can_be_pickled() -> None:
    together = compare()
    assert pickle.loads(pickle.dumps(together)).to_json() == together.to_json()  # noqa: S301


@pytest.mark.parametrize(
    "options,message",
    [
        ({"label": []}, "^label: must name at least one column"),
        ({"label": ["click", "click"]}, "^label: must name different columns, got 'click' more"),
        ({"label": ["click", 3]}, "^label: must be text or a list, each item text"),
        ({"label": ["click"], "measures": OWN}, "^measures: must have the labels 'click' as keys"),
        ({"measures": {"click": "RR"}}, "^measures: must have measures for every label, got none "),
        ({"label": "click", "measures": OWN}, "^measures: must be measures of one label, got {"),
        ({"order": "up"}, "^order: must be one of"),
    ],
)
def test_wrong_labels__are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        compare(**options)


def test_test_of_groups__refuses_a_measure_of_all_rows_of_any_label() -> None:
    with pytest.raises(ArgumentError, match="and AUC pools the rows"):
        compare(test="sign", measures={"click": "GAUC", "order": "AUC"})


def test_unknown_label__is_named() -> None:
    with pytest.raises(KeyError, match=r"label 'ordre' is none of 'click', 'order'.*'order'\?"):
        compare()["ordre"]
