"""Results of several labels: one reading of the rows, and what each label has of its own."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc
import pytest

import fastrank_eval as fe
from fastrank_eval import ArgumentError, ColumnError, LabelResults, Result
from tests.engine.test_together import log_of

LOG = log_of(7)
ROLES: dict[str, Any] = {"group": "user", "score": "pctr"}
LABELS = ["click", "order"]
OWN = {"click": ["GAUC", "MAP"], "order": "RR"}


def evaluate(**options: Any) -> LabelResults:
    return fe.evaluate(LOG, **{**ROLES, "label": LABELS, "measures": "GAUC,MAP", **options})


def values_of(result: Result) -> list[dict[str, object]]:
    return result.document()["results"]


def test_labels__map_to_the_results_of_runs_of_their_own() -> None:
    results = evaluate(by=["slot"], keep_state=True, keep_scores=True, measures="AUC,RR")
    assert isinstance(results, Mapping)
    assert (list(results), len(results)) == (LABELS, 2)
    for label, result in results.items():
        alone = fe.evaluate(
            LOG, **ROLES, label=label, by=["slot"], keep_state=True, keep_scores=True,
            measures="AUC,RR",
        )  # fmt: skip
        assert values_of(result) == values_of(alone)
        assert result.per_group.equals(alone.per_group)
        assert result.state.result().document()["results"] == values_of(alone)
        assert result.curve("roc").records().equals(alone.curve("roc").records())
        assert result.meta.conventions == alone.meta.conventions


def test_measures__of_each_label() -> None:
    results = evaluate(measures=OWN)
    assert [result.measures for result in results.values()] == [("GAUC", "AP"), ("RR",)]


def test_one_label__in_a_list_is_a_mapping_too() -> None:
    results = evaluate(label=("order",))
    assert list(results) == ["order"]
    alone = fe.evaluate(LOG, **ROLES, label="order", measures="GAUC,MAP")
    assert isinstance(alone, Result)
    assert values_of(results["order"]) == values_of(alone)


def test_slicings__of_an_iterator_are_those_of_every_label() -> None:
    results = evaluate(by=iter(["slot", "country"]))
    assert results["click"].slices() == results["order"].slices() != ()


@pytest.mark.parametrize(
    "options", [{"measures": ["GAUC", "MAP"]}, {"score": ["pctr", "pcvr"]}, {"group": ["user"]}]
)
def test_iterators__are_read_once_for_all_labels(options: dict[str, list[str]]) -> None:
    results = evaluate(**{name: iter(given) for name, given in options.items()})
    wanted = evaluate(**options)
    for label in LABELS:
        assert values_of(results[label]) == values_of(wanted[label])


def test_labels__without_one_measure_of_groups_in_common() -> None:
    """A label whose measures need no groups has the numbers of a run of its own: no groups."""
    results = evaluate(measures={"click": "RR", "order": "AUC"}, keep_state=False)
    users = len(LOG["user"].unique())
    assert [result.meta.groups for result in results.values()] == [users, 0]


def test_models_of_a_label__are_compared() -> None:
    results = evaluate(score=["pctr", "pcvr"])
    for label in LABELS:
        compared = results[label].compare(baseline="pctr")
        wanted = fe.compare(
            LOG, group="user", label=label, score=["pctr", "pcvr"], baseline="pctr",
            measures="GAUC,MAP",
        )  # fmt: skip
        assert compared.records().equals(wanted.records())


def test_arrow_and_csv__have_the_label_in_front() -> None:
    results = evaluate(measures=OWN)
    table = results.records()
    assert table["label"].to_pylist() == ["click", "click", "order"]
    for label, result in results.items():
        own = table.filter(pc.equal(table["label"], label)).drop_columns("label")
        assert own.equals(result.records())
    lines = results.to_csv().splitlines()
    assert lines[0] == "label," + results["click"].to_csv().splitlines()[0]
    assert lines[3] == "order," + results["order"].to_csv().splitlines()[1]
    assert results.to_pandas()["label"].tolist() == ["click", "click", "order"]


def test_values_of_groups__have_the_label_in_front() -> None:
    results = evaluate(measures=OWN)
    table = results.per_group
    assert table.column_names == ["label", "user", "rows", "positives", "GAUC", "AP", "RR"]
    of_order = table.filter(pc.equal(table["label"], "order"))
    assert of_order["RR"].to_pylist() == results["order"].per_group["RR"].to_pylist()
    assert of_order["GAUC"].null_count == of_order.num_rows


def test_json__has_the_values_of_each_label() -> None:
    results = evaluate(measures=OWN)
    found = json.loads(results.to_json())
    assert found["labels"] == {label: json.loads(results[label].to_json()) for label in LABELS}


def test_report__where_labels_have_other_rows() -> None:
    text = repr(evaluate(label=["click", "cart"], unjudged="drop"))
    assert "click: 400 rows" in text
    assert "cart: 323 rows" in text


def test_gates__are_judged_for_every_label() -> None:
    results = evaluate()
    assert results.check("GAUC < 0.1", "MAP < 0.01")
    verdict = results.check("GAUC < 0.52")
    assert [(one.label, one.score, one.kind) for one in verdict.failures] == [
        ("click", "pctr", "holds")
    ]
    assert str(verdict) == "gate failed: GAUC value < 0.52: click, pctr: 0.506758"


def test_gates__apply_to_the_labels_that_have_their_measures() -> None:
    results = evaluate(measures=OWN)
    assert [one.label for one in results.check("RR < 0.9", "MAP < 0.9").failures] == [
        "click",
        "order",
    ]
    nowhere = results.check("AUC < 0.9")
    assert [(one.label, one.kind) for one in nowhere.failures] == [
        ("click", "not_computed"),
        ("order", "not_computed"),
    ]
    with pytest.raises(ArgumentError, match="no gate is given"):
        results.check()


def test_results__can_be_pickled() -> None:
    results = evaluate()
    assert pickle.loads(pickle.dumps(results)).to_json() == results.to_json()  # noqa: S301


@pytest.mark.parametrize(
    "options,message",
    [
        ({"label": []}, "^label: must name at least one column"),
        ({"label": ["click", "click"]}, "^label: must name different columns, got 'click' more"),
        ({"label": ["click", 3]}, "^label: must be text or a list, each item text"),
        ({"label": ["click"], "measures": OWN}, "^measures: must have the labels 'click' as keys"),
        ({"measures": {"click": "RR"}}, "^measures: must have measures for every label, got none "),
        ({"label": "click", "measures": OWN}, "^measures: must be measures of one label, got {"),
    ],
)
def test_wrong_labels__are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        evaluate(**options)


def test_label_that_is_no_column__is_named() -> None:
    with pytest.raises(ColumnError, match=r"'ordre'.*'order'"):
        evaluate(label=["click", "ordre"])


def test_unknown_label__is_named() -> None:
    with pytest.raises(KeyError, match=r"label 'ordre' is none of 'click', 'order'.*'order'\?"):
        evaluate()["ordre"]
    assert "ordre" not in evaluate()
    assert evaluate().get("ordre") is None
