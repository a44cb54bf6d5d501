"""Worked examples from textbooks and papers, each with the value arithmetic gives.

The examples live in fixtures/worked_examples.json. Where the shared data is present, a test holds
that the fixture misses none of them and changes no value.
"""

import json

import pyarrow as pa
import pytest

import fastrank_eval

pytestmark = pytest.mark.kernels

# Cases of the shared file that hold nothing to compute.
WITHOUT_A_MEASURE = {
    "s002.recall_formula": "a note about a misprint, without numbers",
    "s002.f_formula": "a note about a misprint, without numbers",
    "s004.ap_formula": "a note about a misprint, without numbers",
    "s004.grade_table": "a note about a misprint, without numbers",
}

# Values that are arithmetic on the AUC of one or two tables.
ARITHMETIC = {
    "gini": lambda auc: 2 * auc - 1,
    "rela_impr_percent": lambda auc, base: 100 * fastrank_eval.rela_impr(auc, base),
}


def table_of(case: dict) -> pa.Table:
    kinds = {"group": None, "label": pa.int64(), "score": pa.float64()}
    return pa.table({name: pa.array(case["rows"][name], kind) for name, kind in kinds.items()})


def measured(case: dict) -> list[float]:
    roles = {"group": "group", "label": "label", "score": "score", "unretrieved": "allow"}
    ties = "input" if "interpolated" in case["metric"] else "expected"
    result = fastrank_eval.evaluate(table_of(case), measures=case["measures"], ties=ties, **roles)
    return [result.value(text) for text in case["measures"]]


def test_worked_example__has_its_value(worked_examples):
    assert len(worked_examples) > 70
    for name, case in worked_examples.items():
        if "curve" in case:
            continue
        arithmetic = ARITHMETIC.get(case["metric"])
        if arithmetic is not None:
            cases = [worked_examples[one] for one in case.get("of", [name])]
            values = [arithmetic(*(measured(one)[0] for one in cases))]
        else:
            values = measured(case)
        expected = case["value"] if isinstance(case["value"], list) else [case["value"]]
        if len(expected) == 1:
            expected = expected * len(values)  # several measures that agree on this example
        assert values == pytest.approx(expected, abs=1e-12), name


def test_worked_curve__has_every_point(worked_examples):
    curves = {name: case for name, case in worked_examples.items() if "curve" in case}
    assert len(curves) == 2
    for name, case in curves.items():
        found = fastrank_eval.curve(
            case["curve"], table_of(case), group="group", label="label", score="score", points="all"
        )
        columns = found.of()
        for column, points in case["value"].items():
            assert columns[column].tolist() == pytest.approx(points, abs=1e-12), name


def test_worked_examples__cover_the_shared_file(worked_examples, shared_data):
    text = (shared_data / "seed_examples.json").read_text(encoding="utf-8")
    shared = {case["id"]: case for case in json.loads(text)["cases"]}
    assert set(shared) == set(worked_examples) | set(WITHOUT_A_MEASURE)
    for name, case in worked_examples.items():
        assert case["metric"] == shared[name]["metric"], name
        assert case["value"] == shared[name]["value"], name
        given = shared[name]["input"]
        if "labels" in given and not case["metric"].startswith("idcg"):
            assert case["rows"]["label"][: len(given["labels"])] == given["labels"], name
        if "scores" in given and not case["metric"].startswith("idcg"):
            assert case["rows"]["score"][: len(given["scores"])] == given["scores"], name
