"""``fastrank-eval merge``: the report of one run, from the states of several."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

import fastrank_eval as fe
from fastrank_eval.apps.cli.main import cli

ASKED = ["-g", "user", "-l", "click", "-s", "pctr,old", "-m", "GAUC,AUC,LogLoss,nDCG@3,PPV"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three nights, each with its state, and all of them in one file."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(5)
    tables = []
    for night in range(3):
        log = {
            "user": np.repeat(np.arange(night * 100, night * 100 + 40), 4),
            "click": generator.integers(0, 2, 160),
            "pctr": generator.random(160),
            "old": np.round(generator.random(160), 1),
        }
        tables.append(pa.table(log))
        parquet.write_table(tables[-1], f"{night}.parquet")
        outcome = run("evaluate", f"{night}.parquet", *ASKED, "--save-state", f"{night}.state")
        assert (outcome.exit_code, outcome.stderr) == (0, f"wrote {night}.state\n")
    parquet.write_table(pa.concat_tables(tables), "all.parquet")
    return [f"{night}.state" for night in range(3)]


def test_merge__reports_what_one_run_does(nights: list[str]) -> None:
    once = json.loads(run("evaluate", "all.parquet", *ASKED, "-f", "json").stdout)
    merged = json.loads(run("merge", *nights, "-f", "json").stdout)
    assert merged["results"] == once["results"]
    assert merged["meta"]["conventions"].pop("merged") == 3
    for report in (once, merged):
        del report["meta"]["seconds"]
    assert merged["meta"] == once["meta"]


@pytest.mark.parametrize("form", ["table", "csv", "markdown"])
def test_merge__prints_every_form(nights: list[str], form: str) -> None:
    once = run("evaluate", "all.parquet", *ASKED, "-f", form).stdout
    merged = run("merge", *reversed(nights), "-f", form).stdout
    first_lines = len(fe.evaluate("all.parquet", group="user", label="click", score=["pctr", "old"],
                                  measures="GAUC,AUC,LogLoss,nDCG@3,PPV").values) + 1  # fmt: skip
    assert merged.splitlines()[:first_lines] == once.splitlines()[:first_lines]


def test_merge__writes_report_and_state(nights: list[str]) -> None:
    outcome = run("merge", *nights[:2], "-o", "two.json", "--save-state", "two.state")
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    assert sorted(outcome.stderr.splitlines()) == ["wrote two.json", "wrote two.state"]
    rest = json.loads(run("merge", "two.state", nights[2], "-f", "json").stdout)
    once = json.loads(run("merge", *nights, "-f", "json").stdout)
    assert rest["results"] == once["results"]
    assert len(json.loads(Path("two.json").read_text(encoding="utf-8"))["results"]) == 10


def test_merge__one_state__is_its_report(nights: list[str]) -> None:
    once = json.loads(run("evaluate", "1.parquet", *ASKED, "-f", "json").stdout)
    assert json.loads(run("merge", nights[1], "-f", "json").stdout)["results"] == once["results"]


def test_merge__confidence__is_that_asked_for(nights: list[str]) -> None:
    once = run("evaluate", "all.parquet", *ASKED, "-f", "csv", "--confidence", "0.5").stdout
    assert run("merge", *nights, "-f", "csv", "--confidence", "0.5").stdout == once


def test_merge__the_same_night_twice__is_refused_unless_allowed(nights: list[str]) -> None:
    Path("copy.state").write_bytes(Path(nights[0]).read_bytes())
    outcome = run("merge", *nights, "copy.state")
    assert outcome.exit_code == 2
    assert "'0.state' and 'copy.state' hold the same 160 rows in 40 groups" in outcome.stderr
    assert "--allow-repeated" in outcome.stderr
    allowed = run("merge", *nights, "copy.state", "--allow-repeated", "-f", "json")
    assert json.loads(allowed.stdout)["meta"]["rows"] == 640


def test_merge__other_conventions_or_files__are_refused_in_words(nights: list[str]) -> None:
    run("evaluate", "1.parquet", *ASKED, "--ties", "worst", "--save-state", "worst.state")
    outcome = run("merge", nights[0], "worst.state")
    assert outcome.exit_code == 2
    assert "'0.state' and 'worst.state' cannot be merged" in outcome.stderr
    assert "'ties' is 'expected' in the first and 'worst' in the second" in outcome.stderr
    for source, told in (("1.parquet", "is not a saved state"), ("none.state", "No such file")):
        outcome = run("merge", nights[0], source)
        assert (outcome.exit_code, told in outcome.stderr) == (2, True), outcome.stderr


def test_merge__outputs__never_replace_what_is_there(nights: list[str]) -> None:
    outcome = run("merge", *nights, "--save-state", nights[0], "--overwrite")
    assert (outcome.exit_code, "is part of the input" in outcome.stderr) == (2, True)
    outcome = run("merge", *nights, "--save-state", "all.parquet")
    assert (outcome.exit_code, "exists already" in outcome.stderr) == (2, True)
    outcome = run("evaluate", "0.parquet", *ASKED, "--save-state", nights[0])
    assert (outcome.exit_code, "exists already" in outcome.stderr) == (2, True)
    outcome = run("evaluate", "0.parquet", *ASKED, "--save-state", nights[0], "--overwrite", "-q")
    assert (outcome.exit_code, outcome.stderr) == (0, "")


@pytest.fixture
def sliced(nights: list[str]) -> list[str]:
    """Two nights with slices, a baseline and groups; and both of them in one file."""
    extra = ["--by", "slot", "--by", "@rows", "--baseline", "old", "--keep-groups"]
    tables = []
    for night in range(2):
        table = parquet.read_table(f"{night}.parquet")
        table = table.append_column("slot", pa.array(np.arange(160) % (3 + night)))
        tables.append(table)
        parquet.write_table(table, f"{night}.parquet")
        outcome = run(
            "evaluate", f"{night}.parquet", *ASKED, *extra, "--save-state", f"{night}.state",
            "--overwrite", "-q",
        )  # fmt: skip
        assert outcome.exit_code == 0, outcome.output
    parquet.write_table(pa.concat_tables(tables), "both.parquet")
    return ["0.state", "1.state"]


def test_merge__slices_and_groups__are_those_of_one_run(sliced: list[str]) -> None:
    by = ["--by", "slot", "--by", "@rows", "--min-groups", "41", "--per-group"]
    once = run("evaluate", "both.parquet", *ASKED, *by, "once.csv", "-f", "json").stdout
    merged = run("merge", *sliced, *by[4:], "merged.csv", "-f", "json").stdout
    assert json.loads(merged)["results"] == json.loads(once)["results"]
    left_out = [
        json.loads(text)["meta"]["conventions"]["slices_left_out"] for text in (merged, once)
    ]
    assert left_out == [1, 1]
    assert Path("merged.csv").read_text() == Path("once.csv").read_text()
    outcome = run("merge", *sliced, "--drop-groups", "--per-group", "none.csv", "-o", "none.json")
    assert (outcome.exit_code, "keep_groups=True" in outcome.stderr) == (2, True)
    assert not Path("none.json").exists()


def test_merge__a_group_in_two_files__is_refused_unless_allowed(sliced: list[str]) -> None:
    table = parquet.read_table("both.parquet")
    parquet.write_table(table.slice(2, 160), "cut.parquet")
    run("evaluate", "cut.parquet", *ASKED, "--by", "slot", "--by", "@rows", "--baseline", "old",
        "--keep-groups", "--save-state", "cut.state")  # fmt: skip
    outcome = run("merge", "cut.state", sliced[1])
    assert outcome.exit_code == 2
    assert "both hold rows of the group user=100" in outcome.stderr
    allowed = run("merge", "cut.state", sliced[1], "--allow-crossing", "-f", "json")
    assert json.loads(allowed.stdout)["meta"]["groups"] == 81


def test_merge__gates__are_read_first_and_judged_last(sliced: list[str]) -> None:
    passing = run("merge", *sliced, "--fail-if", "pctr:GAUC[slot=1] groups < 10", "-q")
    assert passing.exit_code == 0, passing.stderr
    failing = run("merge", *sliced, "--fail-if", "GAUC[slot=3] groups < 1000", "-o", "r.json")
    assert (failing.exit_code, Path("r.json").exists()) == (3, True)
    assert "gate failed: GAUC[slot=3] groups < 1000" in failing.stderr
    for gate, told in (("GAUC <", "--fail-if"), ("RR < 1", "RR"), ("other:GAUC < 1", "other")):
        outcome = run("merge", *sliced, "--fail-if", gate)
        assert (outcome.exit_code, told in outcome.stderr or gate in outcome.stderr) == (2, True)


def test_keep_groups__without_a_state_file__is_refused(nights: list[str]) -> None:
    outcome = run("evaluate", "0.parquet", *ASKED, "--keep-groups")
    assert (outcome.exit_code, "--save-state FILE" in outcome.stderr) == (2, True)
    assert len(nights) == 3
