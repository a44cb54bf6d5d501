"""Candidates side by side: values, marked differences, coverage once."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet
from rich.console import Console

import fastrank_eval as fe
from fastrank_eval.apps.cli.main import cli
from tests.support.click_logs import click_log

COLUMNS: dict[str, Any] = {"group": "user", "label": "click", "baseline": "old"}


@pytest.fixture(scope="module")
def log() -> dict[str, Any]:
    found = click_log(600, seed=3)
    found["slot"] = np.random.default_rng(0).integers(0, 3, len(found["user"]))
    found["worse"] = -found["newer"]
    return found


@pytest.fixture(scope="module")
def comparison(log: dict[str, Any]) -> fe.Comparison:
    return fe.compare(
        log, **COLUMNS, score=["old", "newer", "worse"],
        measures="GAUC,AP,GroupErrorRate(threshold=0)",
        by="slot",
    )  # fmt: skip


def on_terminal(renderable: Any, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def rows(markdown: str, measure: str) -> list[str]:
    """The cells of the first line of a measure."""
    line = next(line for line in markdown.splitlines() if line.startswith(f"| `{measure}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_best__of_a_measure_where_lower_is_better__is_the_lowest(
    comparison: fe.Comparison,
) -> None:
    cells = rows(comparison.to_markdown(), "GroupErrorRate")[1:]
    values = {float(cell.strip("*")): cell for cell in cells if re.fullmatch(r"[*.\d]+", cell)}
    assert values[min(values)].startswith("**")
    assert sum(cell.startswith("**") for cell in values.values()) == 1


def test_best__may_be_the_baseline(log: dict[str, Any]) -> None:
    found = fe.compare(log, **COLUMNS, score=["old", "worse"], measures="GAUC")
    assert rows(found.to_markdown(), "GAUC")[1].startswith("**")
    assert not rows(found.to_markdown(), "GAUC")[2].startswith("**")


def test_legend__explains_marks_in_one_line(comparison: fe.Comparison) -> None:
    line = (
        "▲ better, ▼ worse: significant (p <= 0.05 after Holm's correction over all slices); "
        "no mark: not significant; ± is not corrected"
    )
    for text in (repr(comparison), comparison.to_markdown(), html.unescape(comparison.to_html())):
        assert text.replace("\\", "").count(line) == 1


def test_legend__without_slices_or_correction__is_shorter(log: dict[str, Any]) -> None:
    found = fe.compare(
        log, **COLUMNS, score=["old", "newer"], measures="GAUC", correction="none", confidence=0.99
    )
    assert "▲ better: significant (p <= 0.01); no mark: not significant" in repr(found)


def test_verdict__names_the_slices_that_differ(comparison: fe.Comparison) -> None:
    lines = repr(comparison).splitlines()
    (line,) = [x for x in lines if x.startswith("worse is worse in ") and x.endswith(" GAUC")]
    shown = re.findall(r"(slot=\d): ([+-][\d.]+) GAUC", line)
    worse = [v for v in comparison if v.by and v.verdict.startswith("worse is worse:")]
    losses = {v.slice: v.delta for v in worse if v.measure == "GAUC"}
    assert [name for name, _ in shown] == sorted(losses, key=losses.__getitem__)
    assert all(float(text) == pytest.approx(losses[name], abs=0.006) for name, text in shown)


def test_verdict__many_slices__names_three(log: dict[str, Any]) -> None:
    log = log | {"slot": np.random.default_rng(0).integers(0, 5, len(log["user"]))}
    found = fe.compare(log, **COLUMNS, score=["old", "worse"], measures="GAUC", by="slot")
    (line,) = [x for x in repr(found).splitlines() if x.startswith("worse is worse in ")]
    assert line.count("slot=") == 3
    assert line.endswith(", and 2 more")


# ---- the command line ----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: dict[str, Any]) -> Path:
    parquet.write_table(pa.table(log), tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> str:
    outcome = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


MODELS = ("log.parquet", "-g", "user", "-l", "click", "-s", "old,newer,worse", "-m", "GAUC")


@pytest.mark.parametrize(
    "suffix, begin",
    [
        (".tex", r"% needs \usepackage{booktabs}"),
        (".html", "<!DOCTYPE html>"),
        (".md", "| measure"),
    ],
)
def test_output__suffix__names_the_format(folder: Path, suffix: str, begin: str) -> None:
    run("evaluate", *MODELS, "-o", f"report{suffix}", "-q")
    assert (folder / f"report{suffix}").read_text("utf-8").startswith(begin)
    run("compare", *MODELS, "-b", "old", "-o", f"compare{suffix}", "-q")
    text = (folder / f"compare{suffix}").read_text("utf-8")
    assert "groups that changed GAUC most" not in text
    text = run("compare", *MODELS, "-b", "old", "-f", "markdown", "--movers", "2")
    assert "groups that changed GAUC most" in text
    assert "groups that changed GAUC most" in run("compare", *MODELS, "-b", "old")


@pytest.mark.usefixtures("folder")
def test_output__file_exists__names_the_option_alone() -> None:
    words = ("compare", *MODELS, "-b", "old", "-o", "report.md", "-q")
    run(*words)
    outcome = CliRunner().invoke(cli, words)
    assert outcome.exit_code == 2
    assert outcome.stderr.endswith("name another file, or pass --overwrite.\n")


@pytest.mark.usefixtures("folder")
def test_states__are_compared_side_by_side() -> None:
    run("evaluate", *MODELS, "--baseline", "old", "--save-state", "a.state", "-q")
    for words in (("compare", "a.state"), ("merge", "a.state", "--compare")):
        assert "candidates against old" in run(*words)
        assert "candidates against old" not in run(*words, "--wide")
    assert "worse" in run("merge", "a.state").splitlines()[0]
