"""``fastrank-eval merge``: the report of one run, from the states of several."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support.commands import document, output, refusal, run

ASKED = ["-g", "user", "-l", "click", "-s", "pctr,old", "-m", "GAUC,AUC,LogLoss,nDCG@3,PPV"]


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
    once = document("evaluate", "all.parquet", *ASKED)
    merged = document("merge", *nights)
    assert merged["results"] == once["results"]
    assert merged["meta"]["conventions"].pop("merged") == 3
    for report in (once, merged):
        del report["meta"]["seconds"]
    assert merged["meta"] == once["meta"]
    alone = document("evaluate", "1.parquet", *ASKED)
    assert document("merge", nights[1])["results"] == alone["results"]


def test_merge__of_kept_clusters__counts_buckets(nights: list[str]) -> None:
    for number, name in enumerate(nights):
        # The same users every night.
        log = parquet.read_table(f"{number}.parquet")
        users = pa.array(np.asarray(log["user"]) % 100)
        log = log.set_column(0, "user", users)
        parquet.write_table(log, f"{number}.parquet")
        run(
            "evaluate",
            f"{number}.parquet",
            *ASKED,
            "--keep-clusters",
            "--save-state",
            f"kept.{name}",
        )
    merged = document("merge", *(f"kept.{name}" for name in nights))
    used = merged["meta"]["conventions"]["buckets"]
    assert used["columns"] == ["user"]
    assert 30 < used["used"] <= 40
    assert f"clusters: {used['used']} buckets of user" in (merged["meta"]["notes"])
    outcome = run("evaluate", "0.parquet", *ASKED, "--keep-clusters")
    assert "--keep-clusters needs a saved state: add --save-state FILE." in outcome.stderr


def test_merge__writes_report_and_state(nights: list[str]) -> None:
    outcome = run("merge", *nights[:2], "-o", "two.json", "--save-state", "two.state")
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    assert sorted(outcome.stderr.splitlines()) == ["wrote two.json", "wrote two.state"]
    assert (
        document("merge", "two.state", nights[2])["results"]
        == (document("merge", *nights)["results"])
    )
    assert len(json.loads(Path("two.json").read_text(encoding="utf-8"))["results"]) == 10


def test_merge__confidence__is_that_asked_for(nights: list[str]) -> None:
    asked = ["-f", "csv", "--confidence", "0.5"]
    assert output("merge", *nights, *asked) == output("evaluate", "all.parquet", *ASKED, *asked)


def test_merge__the_same_night_twice__is_refused_unless_allowed(nights: list[str]) -> None:
    Path("copy.state").write_bytes(Path(nights[0]).read_bytes())
    line = refusal("merge", *nights, "copy.state")
    assert "'0.state' and 'copy.state' hold the same 160 rows in 40 groups" in line
    assert "--allow-repeated" in line
    allowed = document("merge", *nights, "copy.state", "--allow-repeated")
    assert allowed["meta"]["rows"] == 640


def test_merge__other_conventions_or_files__are_refused_in_words(nights: list[str]) -> None:
    run("evaluate", "1.parquet", *ASKED, "--ties", "worst", "--save-state", "worst.state")
    line = refusal("merge", nights[0], "worst.state")
    assert "'0.state' and 'worst.state' cannot be merged" in line
    assert "'ties' is 'expected' in the first and 'worst' in the second" in line
    for source, told in (("1.parquet", "is not a saved state"), ("none.state", "No such file")):
        assert told in refusal("merge", nights[0], source)


def test_merge__outputs__never_replace_what_is_there(nights: list[str]) -> None:
    replaced = ("--save-state", nights[0])
    assert "is part of the input" in refusal("merge", *nights, *replaced, "--overwrite")
    assert "exists already" in refusal("merge", *nights, "--save-state", "all.parquet")
    assert "exists already" in refusal("evaluate", "0.parquet", *ASKED, *replaced)
    outcome = run("evaluate", "0.parquet", *ASKED, *replaced, "--overwrite", "-q")
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
        output("evaluate", f"{night}.parquet", *ASKED, *extra, "--save-state", f"{night}.state",
               "--overwrite", "-q")  # fmt: skip
    parquet.write_table(pa.concat_tables(tables), "both.parquet")
    return ["0.state", "1.state"]


def test_merge__slices_and_groups__are_those_of_one_run(sliced: list[str]) -> None:
    by = ["--by", "slot", "--by", "@rows", "--baseline", "old", "--min-groups", "41", "--per-group"]
    once = document("evaluate", "both.parquet", *ASKED, *by, "once.csv")
    merged = document("merge", *sliced, *by[6:], "merged.csv")
    assert merged["results"] == once["results"]
    left_out = [of["meta"]["conventions"]["slices_left_out"] for of in (merged, once)]
    assert left_out == [1, 1]
    assert Path("merged.csv").read_text() == Path("once.csv").read_text()
    words = ("merge", *sliced, "--drop-groups", "--per-group", "none.csv", "-o", "none.json")
    assert "keep='groups'" in refusal(*words)
    assert not Path("none.json").exists()


def test_merge__a_group_in_two_files__is_refused_unless_allowed(sliced: list[str]) -> None:
    table = parquet.read_table("both.parquet")
    parquet.write_table(table.slice(2, 160), "cut.parquet")
    run("evaluate", "cut.parquet", *ASKED, "--by", "slot", "--by", "@rows", "--baseline", "old",
        "--keep-groups", "--save-state", "cut.state")  # fmt: skip
    assert "both hold rows of the group user=100" in refusal("merge", "cut.state", sliced[1])
    allowed = document("merge", "cut.state", sliced[1], "--allow-crossing")
    assert allowed["meta"]["groups"] == 81


def test_merge__gates__are_read_first_and_judged_last(sliced: list[str]) -> None:
    passing = run("merge", *sliced, "--fail-if", "pctr:GAUC[slot=1] groups < 10", "-q")
    assert passing.exit_code == 0, passing.stderr
    failing = run("merge", *sliced, "--fail-if", "GAUC[slot=3] groups < 1000", "-o", "r.json")
    assert (failing.exit_code, Path("r.json").exists()) == (3, True)
    assert "gate failed: GAUC[slot=3] groups < 1000" in failing.stderr
    for gate in ("GAUC <", "RR < 1", "other:GAUC < 1"):
        assert gate.split()[0] in refusal("merge", *sliced, "--fail-if", gate)
