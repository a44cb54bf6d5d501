"""What the command line says of rows in CSV files and Arrow streams."""

import json
import shutil

import pyarrow as pa
import pytest

from tests.apps.cli.test_cli import COLUMNS, folder, refused, run
from tests.support.source_files import write_stream

__all__ = ["folder"]


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r"])
def test_csv__of_a_header_alone__has_no_rows(folder, end):
    (folder / "header.csv").write_bytes(b"user,click,pctr" + end.encode())
    assert "must have rows, got none" in refused("header.csv", *COLUMNS, "-m", "GAUC")


def test_csv__with_a_short_line__names_the_line(folder):
    (folder / "short.csv").write_text("user,click,pctr\n1,1,0.5\n1,0\n")
    assert "Row #3: Expected 3 columns, got 2" in refused("short.csv", *COLUMNS)


def test_csv__whose_lines_end_in_cr_alone__keeps_its_rows(folder):
    lines = ["user,click,pctr", "1,1,0.5", "1,0,0.25", "2,0,0.5", "2,1,0.75"]
    (folder / "old.csv").write_bytes("\r".join(lines).encode())
    outcome = run("evaluate", "old.csv", *COLUMNS, "-m", "GAUC", "-f", "json")
    assert json.loads(outcome.stdout)["meta"]["rows"] == 4


@pytest.mark.parametrize("command", ["evaluate", "compare", "curve", "threshold", "classes"])
def test_stream__whose_producer_died__is_refused(folder, monkeypatch, command):
    rows = {"user": [1, 1], "click": [1, 0], "pctr": [0.5, 0.25], "other": [0.5, 0.75]}
    stream = write_stream(pa.table(rows), rows=1)[:-8]
    asked = {
        "evaluate": ("evaluate", "-", *COLUMNS, "-m", "GAUC"),
        "compare": ("compare", "-", *COLUMNS, "-s", "other", "-b", "pctr", "-m", "GAUC"),
        "curve": ("curve", "roc", "-", *COLUMNS),
        "threshold": ("threshold", "-", "-l", "click", "-s", "pctr"),
        "classes": ("classes", "-", "-l", "click", "-s", "0=pctr,1=other", "-m", "Accuracy"),
    }[command]
    outcome = run(*asked, input=stream)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "no end-of-stream marker" in outcome.stderr
    assert "Close the writer of the stream" in outcome.stderr


@pytest.mark.parametrize("limit, code", [(1, 0), (2, 0), (3, 2)])
def test_stream__whose_producer_died_behind_the_limit__is_read(folder, limit, code):
    stream = write_stream(pa.table({"user": [1, 1], "click": [1, 0], "pctr": [0.5, 0.25]}), rows=1)
    outcome = run("evaluate", "-", *COLUMNS, "--limit", str(limit), input=stream[:-8])
    assert outcome.exit_code == code
    assert ("no end-of-stream marker" in outcome.stderr) == (code == 2)


@pytest.mark.parametrize("source", ["data", "data/", "data/*", "data/**/*.parquet", "da*", "."])
def test_output__that_a_later_run_would_read__is_refused(folder, source):
    (folder / "data" / "day=1").mkdir(parents=True)
    shutil.copy(folder / "log.parquet", folder / "data" / "day=1" / "log.parquet")
    (folder / "data" / "log.parquet").symlink_to(folder / "log.parquet")
    asked = (source, *COLUMNS, "-m", "GAUC")
    refusal = f"--per-group: must lie outside the input '{source}', got 'data/pg.parquet'"
    assert refusal in refused(*asked, "--per-group", "data/pg.parquet")
    if source not in ("data/*", "data/**/*.parquet"):
        assert "--output: must lie" in refused(*asked, "--output", "data/day=1/report.csv")
        assert "--save-state: must lie" in refused(*asked, "--save-state", "data/run.state")
        assert "name a file in another folder" in refused(
            *asked, "--input-format", "parquet", "-o", "data/report.txt"
        )
    assert not (folder / "data" / "pg.parquet").exists()


def test_output__in_a_source_folder__that_no_run_reads__is_written(folder):
    (folder / "data" / "_out").mkdir(parents=True)
    shutil.copy(folder / "log.parquet", folder / "data" / "log.parquet")
    asked = ("evaluate", "data", *COLUMNS, "-m", "GAUC", "-q")
    outputs = ("-o", "data/report.json", "--per-group", "data/_out/pg.parquet")
    assert run(*asked, *outputs, "--save-state", "data/.run.state").exit_code == 0
    assert run(*asked).exit_code == 0
    other = ("--per-group", "data/pg.csv")
    assert run("evaluate", "data/*.parquet", *asked[2:], *other).exit_code == 0
