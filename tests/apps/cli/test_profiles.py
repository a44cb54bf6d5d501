"""--profile and `fastrank-eval explain`, as a user meets them."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from fastrank_eval.apps.cli.main import cli

COLUMNS = ("-g", "user", "-l", "click", "-s", "pctr")
LOG = {
    "user": [1, 1, 1, 2, 2, 3],
    "click": [1, 0, 0, 0, 1, 0],
    "pctr": [0.9, 0.5, 0.1, 0.8, 0.8, 0.3],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet.write_table(pa.table(LOG), tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)


def run(command: str, *arguments: str, source: str = "log.parquet") -> Result:
    return CliRunner().invoke(cli, [command, source, *COLUMNS, *arguments], catch_exceptions=False)


def test_evaluate__by_a_profile__says_so() -> None:
    outcome = run("evaluate", "--profile", "catboost", "-m", "GAUC,nDCG", "-f", "json")
    report = json.loads(outcome.stdout)
    assert report["meta"]["conventions"]["profile"] == "catboost"
    assert report["meta"]["conventions"]["ties"] == "worst"
    gauc, _ = report["results"]
    assert (gauc["measure"], gauc["value"]) == ("GAUC(weight='uniform', single_class=0)", 0.5)
    table = run("evaluate", "--profile", "catboost", "-m", "GAUC").stdout
    assert "profile=catboost" in "".join(table.split())


def test_evaluate__undefined_of_single_measures() -> None:
    outcome = run("evaluate", "--undefined", "skip,AP=one", "-m", "AP,nDCG,R", "-f", "json")
    values = {
        line["measure"]: line["groups_used"] for line in json.loads(outcome.stdout)["results"]
    }
    assert values == {"AP": 3, "nDCG": 2, "R": 2}


def test_explain__tells_what_each_choice_moves() -> None:
    outcome = run("explain", "--profile", "catboost", "-m", "GAUC,AP")
    assert outcome.exit_code == 0
    text = " ".join(outcome.stdout.split())
    for part in ("our defaults", "all of catboost", "ties", "undefined AP"):
        assert part in text
    assert "not reproduced: " in run("explain", "--profile", "ranx", "-m", "AP").stdout
    told = json.loads(run("explain", "--profile", "catboost", "-m", "GAUC,AP", "-f", "json").stdout)
    assert [value["measure"] for value in told["values"]] == ["GAUC", "AP"]
    moves = {choice["name"]: choice["moves"] for choice in told["choices"]}
    assert moves["ties"] == pytest.approx([0.0, -0.125])
    assert moves["undefined AP"] == pytest.approx([0.0, -(1 + 0.75) / 2 / 3])


@pytest.mark.parametrize(
    "arguments,said",
    [
        ((), "explain needs the tool to compare with: --profile catboost."),
        (("--profile", "catbost"), "Did you mean 'catboost'?"),
        (("--profile", "sklearn", "--undefined", "skip,nDC=one"), "got 'nDC'. Did you mean 'nDCG'"),
        (("--profile", "trec_eval_9"), "--item: must be the column of item ids"),
    ],
)
def test_explain__refuses_in_one_line(arguments: tuple[str, ...], said: str) -> None:
    outcome = run("explain", *arguments)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("error: ")
    assert said in line


def test_explain__of_a_pipe__is_refused() -> None:
    outcome = run("explain", "--profile", "sklearn", source="-")
    assert outcome.exit_code == 2
    assert "can be read only once" in outcome.stderr
