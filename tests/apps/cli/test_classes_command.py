"""The command ``classes``: the numbers of Python, a table, and one line for bad usage."""

from __future__ import annotations

import csv
import io
import json

import pytest
from click.testing import CliRunner
from pyarrow import parquet

from fastrank_eval.apps.cli.main import cli
from tests.analysis.test_multiclass import CLASSES, COLUMNS, evaluated, rows_of, table


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("classes") / "animals.parquet"
    parquet.write_table(table(*rows_of(11, rows=30)), path)
    return str(path)


SCORES = ",".join(f"{name}={column}" for name, column in COLUMNS.items())


def run(*arguments: str) -> str:
    outcome = CliRunner().invoke(cli, ["classes", *arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def test_command__prints_what_python_finds(file: str) -> None:
    given = ["-w", "weight", "-m", "AUC,PPV", "-a", "macro,ovo", "--undefined", "zero"]
    found = json.loads(run(file, "--label", "kind", "--score", SCORES, *given, "--format", "json"))
    ours = evaluated(
        file, weight="weight", measures="AUC,PPV", average=["macro", "ovo"], undefined="zero"
    ).document()
    assert (found["results"], found["classes"]) == (ours["results"], ours["classes"])
    assert found["confusion"] == ours["confusion"]


def test_command__table__has_averages_and_classes(file: str) -> None:
    text = run(file, "-l", "kind", "-s", SCORES)
    assert "macro" in text
    for name in CLASSES:
        assert f"\n{name} " in text
    rows = list(csv.DictReader(io.StringIO(run(file, "-l", "kind", "-s", SCORES, "-f", "csv"))))
    assert [(row["slice"], row["measure"]) for row in rows][-1] == ("all", "Accuracy")
    assert "| `macro` |" in run(file, "-l", "kind", "-s", SCORES, "-f", "markdown")


def test_command__columns_a_class__are_several_labels(tmp_path) -> None:
    path = tmp_path / "news.csv"
    path.write_text("is_a,is_b,p_a,p_b\n1,0,0.9,0.2\n1,1,0.4,0.8\n")
    for label, score in (("a=is_a,b=is_b", "b=p_b,a=p_a"), ("is_a,is_b", "p_a,p_b")):
        text = run(str(path), "-l", label, "-s", score, "-m", "TPR", "-a", "micro", "-f", "csv")
        assert ",micro,TPR,TPR,0.6666666666666666," in text


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-s", "cat=p_cat,p_dog"], "must be CLASS=COLUMN, got 'p_dog'"),
        (["-s", "cat=p_cat,cat=p_dog"], "names the class 'cat' twice"),
        (["-s", SCORES, "-a", "most"], "--average: must be one of"),
    ],
)
def test_command__bad_usage__is_one_line(file: str, arguments: list[str], message: str) -> None:
    outcome = CliRunner().invoke(cli, ["classes", file, "-l", "kind", *arguments])
    assert outcome.exit_code == 2
    assert message in outcome.stderr
