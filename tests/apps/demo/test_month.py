"""The simulated month: what is said to go wrong in it does, and the same rows come again."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError, OutputError
from fastrank_eval.apps.demo.examples import (
    BAD,
    BROKEN_SLOT,
    EMPTY,
    LATE,
    write_late,
    write_month,
)
from tests.support.commands import output, refusal


def test_month__goes_wrong_as_it_says(tmp_path: Path) -> None:
    paths = write_month(tmp_path, rows=8000)
    assert [path.parent.name for path in paths[:2]] == ["day=2026-11-01", "day=2026-11-02"]
    rows = [pq.read_metadata(path).num_rows for path in paths]
    assert [at + 1 for at, many in enumerate(rows) if many < 4000] == [EMPTY, LATE]
    late = write_late(tmp_path, rows=8000)
    both = pq.read_table([paths[LATE - 1], late])
    assert both.num_rows > 6000
    users = both.column("user_id").to_pylist()
    assert users == sorted(users)
    for night, auc in ((1, 0.74), (BAD, 0.56)):
        found = fe.evaluate(
            str(paths[night - 1]), group="user_id", label="click", score=["score_a", "score_b"],
            measures="AUC(se='clustered')",
        )  # fmt: skip
        for score, expected in (("score_a", 0.72), ("score_b", auc)):
            value = found.value("AUC(se='clustered')", score)
            low, high = found.interval("AUC(se='clustered')", score)
            assert abs(value - expected) < 2 * (high - low)
    side = [_scores_of_side(paths[night - 1]) for night in (BROKEN_SLOT - 1, BROKEN_SLOT)]
    assert len(side[0]) > 10
    assert len(side[1]) == 1


def _scores_of_side(path: Path) -> set[float]:
    table = pq.read_table(path).to_pydict()
    return {b for slot, b in zip(table["slot"], table["score_b"], strict=True) if slot == "side"}


def test_month__written_again__is_the_same_and_late_rows_are_gone(tmp_path: Path) -> None:
    paths = write_month(tmp_path, rows=200)
    before = [path.read_bytes() for path in paths]
    late = write_late(tmp_path, rows=200)
    assert write_month(tmp_path, rows=200) == paths
    assert [path.read_bytes() for path in paths] == before
    assert not late.exists()
    other = write_month(tmp_path / "other", rows=200, seed=1, nights=1)
    assert pq.read_table(other[0]) != pq.read_table(paths[0])


def test_month__bad_choices__are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="rows: must be a whole number from 100"):
        write_month(tmp_path, rows=99)
    with pytest.raises(ArgumentError, match="nights: must be"):
        write_month(tmp_path, nights=0)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        write_month(tmp_path / "file", nights=1)


def test_command__writes_all_files_of_the_demo(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    few = ["demo", str(folder), "--rows", "500", "--night-rows", "100"]
    told = output(*few)
    assert f"wrote {folder}/impressions.parquet: 500 rows" in told
    assert f"wrote 30 nights to {folder}/month/logs" in told
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {name for name in files if "day=" not in name} == {
        "animals.parquet", "bm25.run", "impressions.parquet", "month/nightly.toml", "ours.run",
        "qrels.txt",
    }  # fmt: skip
    output("demo", str(folder), "--late", "--night-rows", "100")
    assert (folder / "month" / "logs" / "day=2026-11-24" / "part-00001.parquet").exists()
    runs = {name: folder / f"{name}.run" for name in ("bm25", "ours")}
    result = fe.trec.evaluate(folder / "qrels.txt", runs, "AP")
    assert result.meta.conventions["unanswered"] == {"bm25": 0, "ours": 1}
    assert result.value("AP", "ours") > result.value("AP", "bm25")
    assert "--overwrite" in refusal(*few)
    output(*few, "--overwrite")
    assert "rows: must be" in refusal(*few, "--overwrite", "--night-rows", "1")


@pytest.mark.parametrize("name", ["s3:x", "gs://b/x", os.fsdecode(b"o\xff")])
def test_command__with_a_folder_that_looks_like_an_address__writes_a_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["demo", name, "--rows", "500", "--night-rows", "100"]
    for more in ([], ["--overwrite"], ["--late"]):
        output(*few, *more)
    assert len(list(Path(name).rglob("*.parquet"))) == 33


@pytest.mark.parametrize("more", [[], ["--overwrite"], ["--late"]])
def test_command__with_a_name_that_is_too_long__is_refused(more: list[str]) -> None:
    line = refusal("demo", "x" * 5000, *more)
    assert line.startswith("error: DIR: must be a folder")
    assert "File name too long" in line
    assert len(line) < 300
