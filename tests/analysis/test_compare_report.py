"""A comparison printed, as JSON, CSV and markdown, and by the command line."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet
from rich.console import Console

import fastrank_eval as fe
from fastrank_eval.analysis.compare_tests import TESTS
from fastrank_eval.analysis.compared_value import ComparedValue, verdict_on
from fastrank_eval.analysis.comparison import Comparison
from fastrank_eval.apps.cli.compare import compare as command
from fastrank_eval.apps.cli.main import cli
from fastrank_eval.engine.records import Meta
from fastrank_eval.measures import measure
from tests.support.click_logs import click_log

COLUMNS = {"group": "user", "label": "click"}
OPTIONS = ["log.parquet", "-g", "user", "-l", "click", "-s", "old", "-s", "new", "-b", "old"]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    log = click_log(400, seed=3)
    return fe.compare(
        log, **COLUMNS, score=["old", "new", "newer"], baseline="old",
        measures="AUC,GAUC,nDCG@10,RR,ERR(max_grade=1)@10",
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    parquet.write_table(pa.table(click_log(400, seed=3)), tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def on_terminal(found, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(found)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def run(*arguments: str):
    return CliRunner().invoke(cli, ["compare", *arguments], catch_exceptions=False)


# ---- for programs --------------------------------------------------------------------------------


def test_json__is_strict_and_complete(comparison) -> None:
    text = comparison.to_json(movers=3)
    found = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert text.isascii()
    assert [line["measure"] for line in found["comparisons"]] == [*comparison.measures] * 2
    first = found["comparisons"][0]
    # A document is of one label: of several, their names are keys beside it.
    assert set(first) == set(ComparedValue.__dataclass_fields__) - {"label"}
    assert first["measure"] == "AUC(se='clustered')"
    assert 0 < first["se"] < 0.1
    assert first["effect_size"] is None
    assert first["wins"] is None
    assert found["meta"]["conventions"]["correction"] == "holm"
    assert found["meta"]["conventions"]["seed"] is None
    assert len(found["movers"]) == 12
    assert {move["measure"] for move in found["movers"]} == {"GAUC"}
    assert "movers" not in comparison.document()


def test_summary__and_csv__hold_the_same(comparison) -> None:
    table = comparison.records()
    rows = list(csv.DictReader(io.StringIO(comparison.to_csv())))
    assert table.num_rows == len(rows) == 10
    assert table.column_names == list(rows[0])
    assert [row["verdict"] for row in rows] == table["verdict"].to_pylist()
    assert [row["se"] or None for row in rows] == [
        None if se is None else repr(se) for se in table["se"].to_pylist()
    ]


def test_per_group__has_a_column_for_each_model_and_measure(comparison) -> None:
    names = comparison.per_group.column_names
    assert names[:4] == ["user", "rows", "positives", "old.GAUC"]
    assert len(names) == 3 + 3 * 4


# ---- for people ----------------------------------------------------------------------------------


def test_equal_models__read_the_same_in_every_form() -> None:
    log = pa.table({"u": [1, 1, 2, 2], "y": [1, 0, 0, 1], "a": [0.3, 0.1, 0.4, 0.2]})
    log = log.append_column("b", log["a"])
    found = fe.compare(log, group="u", label="y", score=["a", "b"], baseline="a", measures="GAUC")
    assert [line["mdd"] for line in found.document(movers=3)["comparisons"]] == [None]
    assert math.isnan(found.find("GAUC").mdd)
    assert "movers" not in found.document(movers=3)
    header, _, values = found.to_markdown(movers=3, wide=True).splitlines()[2:5]
    assert dict(zip(header.split(" | "), values.split(" | "), strict=True))["mdd"] == "n/a"
    shown = (found.to_markdown(movers=3), " ".join(on_terminal(found.view(movers=3), 160)))
    assert not [text for text in shown if "moved" in text or "contribution" in text]


def test_text__names_the_candidate_of_each_verdict(comparison) -> None:
    said = [
        line
        for line in repr(comparison).splitlines()
        if "not significant:" in line or "tested" in line
    ]
    assert said
    assert all(line.startswith(("new: ", "newer: ")) for line in said)


def test_markdown__names_cannot_break_out() -> None:
    name = "a|b`c\n*d*"
    log = click_log(50)
    log[name] = log.pop("new")
    found = fe.compare(log, **COLUMNS, score=["old", name], baseline="old", measures="GAUC,AP,RR")
    text = found.to_markdown(movers=2)
    assert "a\\|b`c\\n*d*" in text
    header, *rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert header.startswith("| measure | `old` | ``a\\|b`c\\n*d*`` |")
    assert {row.replace("\\|", "").count("|") for row in rows[:3]} == {
        header.replace("\\|", "").count("|")
    }
    assert "\n* `" in text
    assert "\x1b" not in repr(found)


def test_text__escapes_terminal_codes() -> None:
    line = ComparedValue(
        "a\x1b[31m", "b\n", "all", "RR", "mean", 0.5, 0.75, 0.25, 0.5, verdict="\x1b"
    )
    found = Comparison([line], Meta("1", 5, 2, {}, 0.5), "b\n", ["a\x1b[31m"], ["RR"])
    for text in (repr(found), found.to_markdown(), "\n".join(on_terminal(found, 80))):
        assert "\x1b" not in text
        assert "a\\x1b[31m against b\\n" in text


@pytest.mark.parametrize(
    "changes, name, said",
    [
        ({"delta": -0.0021, "value": 0.4979}, "LogLoss", "b is better: -0.00210 LogLoss, 95% CI"),
        ({"delta": 0.0021}, "PCOC", "b is higher: +0.00210 PCOC, 95% CI"),
        ({"delta": 0.0021}, "GAUC", "b is better: +0.00210 GAUC, 95% CI [+0.00130, +0.00290]"),
        ({"delta": 0.0021, "test": "randomisation"}, "GAUC",
         "b is better: +0.00210 GAUC, 95% CI (clustered) [+0.00130, +0.00290]; p 0.02 by "
         "randomisation"),
        ({"delta": 0.0021, "test": "sign"}, "GAUC",
         "mixed: b is worse in more groups than not (10 to 30), yet +0.00210 GAUC"),
        ({"delta": 0.0021, "p_adjusted": 0.3, "comparisons": 7, "mdd": 0.0012}, "GAUC",
         "not significant: +0.00210 GAUC, 95% CI [+0.00130, +0.00290]; p 0.3 among 7 "
         "comparisons; minimum detectable difference 0.00120 (80% power)"),
        ({"delta": math.nan, "value": math.nan}, "GAUC", "not compared: GAUC of b is undefined"),
    ],
)  # fmt: skip
def test_verdict__in_words(changes, name, said) -> None:
    given = {
        "value": 0.5021, "se": 0.0004, "ci_low": 0.0013, "ci_high": 0.0029, "p_value": 0.01,
        "p_adjusted": 0.02, "wins": 10, "ties": 5, "losses": 30, **changes,
    }  # fmt: skip
    line = ComparedValue("b", "a", "all", name, "mean", 0.5, relative=0.1, **given)
    assert verdict_on(line, measure(name), 0.95).startswith(said)


# ---- the command ---------------------------------------------------------------------------------


def test_command__prints_the_comparison_and_the_groups_that_moved(folder) -> None:
    outcome = run(*OPTIONS)
    assert outcome.exit_code == 0
    for text in ("new against old", "GAUC", "wins", "groups that changed GAUC most", "is better"):
        assert text in outcome.stdout
    assert "groups that moved" not in run(*OPTIONS, "--movers", "0").stdout


@pytest.mark.usefixtures("folder")
def test_command__test_of_groups__leaves_out_pooled_measures_unless_asked_for() -> None:
    outcome = run(*OPTIONS, "--test", "sign", "--format", "json")
    found = json.loads(outcome.stdout)["comparisons"]
    assert [line["measure"] for line in found] == ["GAUC", "nDCG@10", "AP", "RR", "P@10", "R@10"]
    assert {line["test"] for line in found} == {"sign"}
    outcome = run(*OPTIONS, "--test", "sign", "-m", "AUC")
    assert outcome.exit_code == 2
    assert "leave it out (GAUC is the AUC of each group)" in outcome.stderr


def test_command__writes_files_whole(folder) -> None:
    outcome = run(*OPTIONS, "-o", "report.md", "--per-group", "users.parquet", "--movers", "0")
    assert outcome.exit_code == 0
    assert outcome.stdout == ""
    assert "wrote report.md" in outcome.stderr
    assert "\n\n| measure | `old` | `new` |" in (folder / "report.md").read_text()
    assert parquet.read_table(folder / "users.parquet").column_names[3] == "old.GAUC"
    again = run(*OPTIONS, "-o", "report.md")
    assert again.exit_code == 2
    assert "exists already" in again.stderr


@pytest.mark.usefixtures("folder")
def test_command__form__is_that_of_the_suffix_or_the_option() -> None:
    rows = list(csv.DictReader(io.StringIO(run(*OPTIONS, "-f", "csv", "-m", "RR").stdout)))
    assert [row["measure"] for row in rows] == ["RR"]
    assert run(*OPTIONS, "-f", "markdown", "-m", "RR").stdout.startswith("`new against old`\n\n| ")
    first, second = (
        json.loads(
            run(*OPTIONS, "-f", "json", "-m", "RR", "--test", "bootstrap", "--seed", "3").stdout
        )
        for _ in range(2)
    )
    assert first["comparisons"] == second["comparisons"]
    assert first["meta"]["conventions"]["replicates"] == 10_000


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "options, said",
    [
        (["-b", "odl"], "Did you mean 'old'"),
        (["--replicates", "0"], "--replicates: must be"),
        (["--per-group", "users.txt"], "unknown suffix"),
    ],
)
def test_command__bad_options__are_refused_in_one_line(options, said) -> None:
    outcome = run(*OPTIONS, *options)
    assert outcome.exit_code == 2
    assert said in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


def test_command__help__lists_every_test_and_has_examples() -> None:
    outcome = run("--help")
    assert "Examples:" in outcome.stdout
    choices = next(param for param in command.params if param.name == "test").type.choices
    assert tuple(choices) == TESTS
    assert "fastrank-eval compare" in outcome.stdout
