r"""The option --score: columns, expressions, and names with commas and equals signs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from fastrank_eval.apps.cli.main import cli

ROWS = {
    "user": [1, 1, 1, 2, 2, 3],
    "click": [1, 0, 0, 0, 1, 0],
    "pctr": [0.9, 0.5, 0.1, 0.8, 0.7, 0.3],
    "pcvr": [0.5, 0.25, 0.5, 0.125, 0.5, 1.0],
    "a,b": [1, 2, 3, 4, 5, 6],
    "a=b": [6, 5, 4, 3, 2, 1],
}
COLUMNS = ["log.parquet", "--group", "user", "--label", "click", "-m", "GAUC"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    product = [a * b for a, b in zip(ROWS["pctr"], ROWS["pcvr"], strict=True)]
    parquet.write_table(pa.table({**ROWS, "stored": product}), tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [command, *COLUMNS, *arguments], catch_exceptions=False)


def evaluated(*scores: str) -> tuple[dict[str, float], Any]:
    outcome = run("evaluate", "-f", "json", *(word for each in scores for word in ("-s", each)))
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    content = json.loads(outcome.stdout)
    values = {value["score"]: value["value"] for value in content["results"]}
    return values, content["meta"]["conventions"].get("score")


def test_score__of_an_expression__is_that_of_the_column() -> None:
    values, expressions = evaluated("pctr", "ctcvr = pctr*pcvr", "stored")
    assert list(values) == ["pctr", "ctcvr", "stored"]
    assert values["ctcvr"] == values["stored"] != values["pctr"]
    assert expressions == {"ctcvr": "pctr * pcvr"}
    assert evaluated("pctr,ctcvr=pctr * pcvr , stored") == (values, expressions)


def test_score__with_commas_and_equals_signs__is_a_name() -> None:
    names = ["a,b", "a=b"]
    values, expressions = evaluated(r"a\,b,a\=b")
    assert (list(values), expressions) == (names, None)
    values, expressions = evaluated(r"x\=1\,2 = 2*" + r'"a\,b"' + ' - "a=b"', r"a\=b")
    assert list(values) == ["x=1,2", "a=b"]
    assert expressions == {"x=1,2": '2 * "a,b" - "a=b"'}


@pytest.mark.parametrize(
    "scores,message",
    [
        (["=pctr"], "a score has no name before '='; write 'NAME = EXPRESSION'"),
        (["x=pctr,x=pcvr"], "the score 'x' is there twice; name it once"),
        (["pctr", "pctr=pctr"], "the score 'pctr' is there twice; name it once"),
        (["x="], 'score x = "": expected a column'),
        (["x=pctr *"], 'score x = "pctr *": expected a column'),
        (["x=pctr,,y=pcvr"], "a column name is empty"),
        (["pcvr=pctr * 2"], "score: must have a new name for pctr * 2, got 'pcvr'"),
        (["x=pctr == pcvr"], "expected a column, a number or an operator at character 6"),
    ],
)
def test_score__that_cannot_be_read__exits_with_2(scores: list[str], message: str) -> None:
    outcome = run("evaluate", *(word for each in scores for word in ("-s", each)))
    assert outcome.exit_code == 2
    assert message in " ".join(outcome.stderr.split())


def test_compare__with_a_baseline_beside_expressions__adds_it() -> None:
    outcome = run("compare", "-s", "ctcvr=pctr*pcvr", "-b", "pctr", "-f", "json")
    assert outcome.exit_code == 0
    content = json.loads(outcome.stdout)
    assert content["meta"]["conventions"]["baseline"] == "pctr"
    assert [value["score"] for value in content["comparisons"]] == ["ctcvr"]
    stored = json.loads(run("compare", "-s", "stored", "-b", "pctr", "-f", "json").stdout)
    assert content["comparisons"][0]["delta"] == stored["comparisons"][0]["delta"]


def test_gate__on_a_computed_score__is_checked() -> None:
    outcome = run("evaluate", "-s", "x=-pctr,pctr", "-q", "--fail-if", "x:GAUC < 0.5")
    assert outcome.exit_code == 3
    outcome = run("evaluate", "-s", "x=-pctr,pctr", "-q", "--fail-if", "y:GAUC < 0.5")
    assert outcome.exit_code == 2
    assert "y" in outcome.stderr


def test_curve_threshold_and_explain__take_expressions() -> None:
    columns = ["log.parquet", "-g", "user", "-l", "click"]
    for command in (["threshold", "log.parquet", "-l", "click"], ["curve", "roc", *columns],
                    ["explain", *columns, "--profile", "catboost", "-m", "GAUC"]):  # fmt: skip
        outputs = []
        for score in ("stored", "stored2 = pctr * pcvr"):
            outcome = CliRunner().invoke(cli, [*command, "-s", score], catch_exceptions=False)
            assert (outcome.exit_code, outcome.stderr) == (0, "")
            outputs.append(outcome.stdout.replace("stored2", "stored"))
        assert outputs[0] == outputs[1]
