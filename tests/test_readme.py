"""README: its examples run and print what it says."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from fastrank_eval.cli import cli

README = Path(__file__).parent.parent / "README.md"


def blocks(language: str) -> list[str]:
    text = README.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_python_examples__run__as_printed() -> None:
    examples = "\n".join(blocks("python"))
    test = doctest.DocTestParser().get_doctest(examples, {}, "README.md", str(README), 0)
    assert len(test.examples) > 5
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=report.append)
    assert report == []


def test_commands__run__and_write_what_they_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(5)
    log = {
        "user_id": np.repeat(np.arange(20), 5),
        "click": random.integers(0, 2, 100),
        "pctr": random.random(100),
        "ctr_old": random.random(100),
    }
    parquet.write_table(pa.table(log), tmp_path / "impressions.parquet")
    animals = {f"p_{kind}": random.random(100) for kind in ("cat", "dog", "owl")}
    animals["kind"] = random.choice(["cat", "dog", "owl"], 100)
    parquet.write_table(pa.table(animals), tmp_path / "animals.parquet")
    day = tmp_path / "logs" / "day=2026-11-19"
    day.mkdir(parents=True)
    log |= {"slot": random.integers(0, 4, 100), "country": ["CH"] * 100}
    parquet.write_table(pa.table(log), day / "part-0.parquet")
    (tmp_path / "qrels.txt").write_text("q1 0 d3 1\n")
    (tmp_path / "bm25.run").write_text("q1 Q0 d7 1 2.5 bm25\nq1 Q0 d3 2 1.5 bm25\n")
    monkeypatch.chdir(tmp_path)
    lines = "".join(blocks("bash")).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("fastrank-eval ")]
    assert len(commands) >= 2
    for command in commands:
        outcome = CliRunner().invoke(cli, command, catch_exceptions=False)
        assert outcome.exit_code == 0, outcome.output
    assert {path.name for path in tmp_path.iterdir()} == {
        "animals.parquet", "bm25.run", "impressions.parquet", "logs", "qrels.txt", "report.json",
        "roc.png", "users.parquet", "first.state", "second.state", "old.state", "new.state",
    }  # fmt: skip


def test_links__to_files_of_the_repository__lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (README.parent / target).exists()]
    assert missing == []
