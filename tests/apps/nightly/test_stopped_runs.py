"""Runs that end between a night and its page, or cannot write a night that is judged again."""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fastrank_eval.apps.nightly.config import read_config
from fastrank_eval.apps.nightly.run import nightly as run_night
from tests.support.nightly_runs import nightly

CONFIG = """
[source]
path = "logs/{date}.parquet"
labels_complete_after = "AFTER"
[columns]
group = "user"
label = ["click", "order"]
[models]
scores = ["a"]
[evaluate]
measures = ["GAUC"]
[drift]
nights = 0
[output]
folder = "report"
"""
LABELS = ("click", "order")


def ago(days: int) -> dt.date:
    return dt.datetime.now(dt.UTC).date() - dt.timedelta(days=days)


def configure(after: str) -> None:
    Path("nightly.toml").write_text(CONFIG.replace("AFTER", after))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nights of six and five days ago, with pages, provisional by a long wait for labels."""
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    for days in (6, 5, 1):
        rng = np.random.default_rng(days)
        score = rng.random(300)
        click = rng.random(300) < score / 2
        columns = {
            "user": np.repeat(np.arange(30), 10),
            "click": click.astype(np.int8),
            "order": (click & (rng.random(300) < 0.5)).astype(np.int8),
            "a": score,
        }
        parquet.write_table(pa.table(columns), f"logs/{ago(days)}.parquet")
    configure("366d")
    assert nightly("--backfill", f"{ago(6)}..{ago(5)}", "-q").exit_code == 0
    configure("4d")


def pages(days: int) -> list[Path]:
    return [Path(f"report/{label}/{ago(days)}.html") for label in LABELS]


def test_page_of_a_stopped_run__is_written_by_the_next() -> None:
    """Night six is stored without its page, as if a signal had come between them."""
    configure("5d")
    for page in [*pages(6), *pages(5)]:
        os.utime(page, (0, 0))
    with (
        closing(sqlite3.connect("history.db")) as history,
        history,
    ):  # night five has been written before its page
        history.execute(
            "UPDATE night SET document = "
            "json_set(document, '$.written_at', '1969-01-01T00:00:00Z') WHERE date = ?",
            (str(ago(5)),),
        )
    run_night(read_config("nightly.toml"), ago(6))
    assert all("judged again with complete labels" not in page.read_text() for page in pages(6))
    assert nightly("--date", str(ago(1)), "-q").exit_code == 0
    assert all("judged again with complete labels" in page.read_text() for page in pages(6))
    assert [page.stat().st_mtime for page in pages(5)] == [0, 0]


def test_late_page_that_cannot_be_written__is_an_error_of_pages() -> None:
    run_night(read_config("nightly.toml"), ago(6))
    page = pages(6)[1]
    page.write_text("notes of mine")
    os.utime(page, (0, 0))
    outcome = nightly("--date", str(ago(1)), "-q")
    assert outcome.exit_code == 5
    assert outcome.stderr.startswith("error: pages of earlier nights were not written: ")
    assert page.read_text() == "notes of mine"


def test_history_of_another_report__gives_no_pages() -> None:
    for page in pages(6):
        os.utime(page, (0, 0))
    with closing(sqlite3.connect("history.db")) as history, history:
        history.execute("UPDATE report SET name = 'other'")
    assert nightly("--date", str(ago(1)), "-q").exit_code == 2
    assert [page.stat().st_mtime for page in pages(6)] == [0, 0]


def test_due_night_that_history_cannot_store__is_an_error_and_stays_due() -> None:
    with closing(sqlite3.connect("history.db")) as history, history:
        history.execute(
            "CREATE TRIGGER full BEFORE INSERT ON night "
            f"WHEN NEW.date = '{ago(6)}' AND json_extract(NEW.document, '$.provisional') IS NULL "
            "BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
    outcome = nightly("--date", str(ago(1)), "-q")
    assert outcome.exit_code == 2
    assert outcome.stderr == f"error: {ago(6)}: history.db: cannot be written: disk is full.\n"
    with closing(sqlite3.connect("history.db")) as history, history:
        (notes,) = history.execute(
            "SELECT DISTINCT json_extract(document, '$.notes') FROM night WHERE date = ?",
            (str(ago(6)),),
        ).fetchall()
        assert notes == (None,)
        history.execute("DROP TRIGGER full")
    assert nightly("--date", str(ago(1)), "-q").exit_code == 0
    assert all("judged again with complete labels" in page.read_text() for page in pages(6))
