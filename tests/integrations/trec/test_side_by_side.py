"""Runs side by side: the numbers of trec_eval, a column for each run."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fastrank_eval.apps.cli.main import cli
from tests.support.html_elements import elements

QRELS = "q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 1\nq2 0 d3 0\n"
GOOD = "q1 Q0 d1 1 2 good_\nq1 Q0 d2 2 1 good_\nq2 Q0 d1 1 2 good_\nq2 Q0 d3 2 1 good_\n"
BAD = "q1 Q0 d2 1 2 b|d\nq1 Q0 d1 2 1 b|d\nq2 Q0 d1 1 2 b|d\nq2 Q0 d3 2 1 b|d\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("qrels", QRELS), ("good", GOOD), ("bad", BAD)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> str:
    outcome = CliRunner().invoke(cli, ["trec", *words], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def test_table__has_a_column_for_each_run() -> None:
    lines = run("-m", "map,num_q,runid", "-f", "table", "qrels", "good", "bad").splitlines()
    assert lines[0].split() == ["measure", "good_", "b|d"]
    assert [line.split() for line in lines[2:4]] == [
        ["num_q", "2", "2"],
        ["map", "1.0000", "0.7500"],
    ]
    assert "runid" not in "".join(lines)
    assert lines[-1] == "profile=trec_eval_10, level=1"


def test_markdown__escapes_names_and_bolds_the_best() -> None:
    text = run("-m", "map,num_q,num_ret", "-f", "markdown", "qrels", "good", "bad")
    assert text.startswith("| measure | `good_` | `b\\|d` |\n| --- | ---: | ---: |\n")
    assert "| `map` | **1.0000** | 0.7500 |" in text
    assert text.count("**") == 2


def test_best__of_values_that_print_the_same__is_none() -> None:
    text = run("-m", "P.2", "-f", "markdown", "qrels", "good", "bad")
    assert "| `P_2` | 0.5000 | 0.5000 |" in text


def test_latex_and_html__have_the_numbers() -> None:
    text = run("-m", "map", "-f", "latex", "qrels", "good", "bad")
    assert (
        "measure & good\\_ & b\\textbar{}d \\\\\n\\midrule\nmap & \\textbf{1.0000} & 0.75" in text
    )
    found = elements(run("-m", "map", "-f", "html", "qrels", "good", "bad"))
    assert [e.text for e in found if e.tag == "title"] == ["Evaluation of good_, b|d"]
    assert [e.all_text() for e in found if e.tag == "td"] == ["map", "1.0000", "0.7500"]


def test_queries__have_a_table_each_and_a_missing_one_is_empty() -> None:
    Path("short").write_text("".join(GOOD.splitlines(keepends=True)[:2]))
    text = run("-q", "-c", "-m", "map", "-f", "markdown", "qrels", "bad", "short")
    assert (
        "`q1`\n\n| measure | `b\\|d` | `good_` |\n| --- | ---: | ---: |\n| `map` | 0.5000 |" in text
    )
    assert "`all`" in text
    text = run("-q", "--as", "9", "-m", "map", "-f", "markdown", "qrels", "bad", "short")
    assert (
        "`q2`\n\n| measure | `b\\|d` | `good_` |\n| --- | ---: | ---: |\n| `map` | 1.0000 |  |"
        in text
    )
