"""Results of several labels: one reading of the rows, and what each label has of its own."""

import json
import pickle
from typing import Any

import pyarrow.compute as pc
import pytest

import fastrank_eval as fe
from fastrank_eval import Comparison, Result
from tests.engine.test_together import log_of
from tests.support.transcripts import answers

LOG = log_of(7)
ROLES: dict[str, Any] = {"group": "user", "score": "pctr"}
LABELS = ["click", "order"]
OWN = {"click": ["GAUC", "MAP"], "order": "RR"}


def evaluate(**options: Any) -> Result:
    return fe.evaluate(LOG, **{**ROLES, "label": LABELS, "measures": "GAUC,MAP", **options})


def compare(**options: Any) -> Comparison:
    models = {"score": ["pctr", "pcvr"], "baseline": "pctr"}
    return fe.compare(
        LOG, **{**ROLES, "label": LABELS, "measures": "GAUC,AUC,MAP", **models, **options}
    )


def values_of(result: Result) -> list[dict[str, object]]:
    return result.document()["results"]


def test_labels__have_the_results_of_runs_of_their_own() -> None:
    results = evaluate(by=["slot"], keep="values,scores,state", measures="AUC,RR")
    assert results.labels == ("click", "order")
    for label in LABELS:
        result = results[label]
        alone = fe.evaluate(
            LOG, **ROLES, label=label, by=["slot"], keep="values,scores,state",
            measures="AUC,RR",
        )  # fmt: skip
        assert values_of(result) == values_of(alone)
        assert result.per_group.equals(alone.per_group)
        assert result.state.result().document()["results"] == values_of(alone)
        assert result.curve("roc").records().equals(alone.curve("roc").records())
        assert result.meta.conventions == alone.meta.conventions


@pytest.mark.parametrize(
    "options",
    [{"measures": ["GAUC", "MAP"]}, {"score": ["pctr", "pcvr"]}, {"group": ["user"]},
     {"by": ["slot", "country"]}],
)  # fmt: skip
def test_iterators__are_read_once_for_all_labels(options: dict[str, list[str]]) -> None:
    results = evaluate(**{name: iter(given) for name, given in options.items()})
    wanted = evaluate(**options)
    for label in LABELS:
        assert values_of(results[label]) == values_of(wanted[label])


def test_labels__without_one_measure_of_groups_in_common() -> None:
    """A label whose measures need no groups has the numbers of a run of its own: no groups."""
    results = evaluate(measures={"click": "RR", "order": "AUC"}, keep=None)
    users = len(LOG["user"].unique())
    assert [results[label].meta.groups for label in LABELS] == [users, 0]
    assert results.meta.groups == users


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
def test_comparisons__have_the_bits_of_calls_of_their_own(options: dict[str, Any]) -> None:
    together = compare(**options)
    measures = options.get("measures", "GAUC,AUC,MAP")
    for label in options.get("label", LABELS):
        one = together[label]
        own = measures[label] if isinstance(measures, dict) else measures
        alone = compare(**{**options, "label": label, "measures": own})
        assert repr(one.values) == repr(alone.values)
        assert repr(one.evaluated) == repr(alone.evaluated)
        assert one.meta.conventions == alone.meta.conventions
        assert (one.meta.rows, one.meta.groups) == (alone.meta.rows, alone.meta.groups)
        assert one.names == alone.names
        assert one.per_group.equals(alone.per_group)


def test_comparison__is_that_of_an_evaluation_with_a_baseline() -> None:
    options: dict[str, Any] = {"measures": "GAUC,AUC", "by": "slot"}
    found = evaluate(**options, score=["pctr", "pcvr"], baseline="pctr").compare()
    assert repr(found.values) == repr(compare(**options).values)
    assert found["order"].find("AUC").se > 0


@pytest.mark.parametrize("call", [evaluate, compare])
def test_records__have_a_label(call: Any) -> None:
    results = call(measures=OWN)
    assert results.measures == ("GAUC", "AP", "RR")
    assert [results[label].measures for label in LABELS] == [("GAUC", "AP"), ("RR",)]
    table = results.records()
    assert table["label"].to_pylist() == ["click", "click", "order"]
    assert [value.label for value in results] == ["click", "click", "order"]
    for label in LABELS:
        own = table.filter(pc.equal(table["label"], label)).drop_columns("label")
        assert own.equals(results[label].records())
    lines = results.to_csv().splitlines()
    assert lines[0] == "label," + results["click"].to_csv().splitlines()[0]
    assert lines[3] == "order," + results["order"].to_csv().splitlines()[1]
    assert results.to_pandas()["label"].tolist() == ["click", "click", "order"]
    assert results.per_group.column_names[:3] == ["label", "user", "rows"]


def test_json__has_the_values_of_each_label() -> None:
    compared = compare(measures=OWN)
    found = json.loads(compared.to_json(largest_changes=2))["labels"]
    assert found == {
        label: json.loads(compared[label].to_json(largest_changes=2)) for label in LABELS
    }
    assert found["order"]["largest_changes"]


@pytest.mark.parametrize("call", [evaluate, compare])
def test_results__can_be_pickled(call: Any) -> None:
    results = call()
    assert pickle.loads(pickle.dumps(results)).to_json() == results.to_json()  # noqa: S301


test_answers = answers(globals())
