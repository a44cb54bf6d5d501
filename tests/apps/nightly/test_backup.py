"""Backups of a history: copied during a run, restored, completed."""

from __future__ import annotations

import datetime as dt
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fastrank_eval.apps.nightly.history import History
from tests.support.nightly_runs import dump, kept, nightly, on


def back_up(path: str) -> None:
    with closing(sqlite3.connect("history.db")) as history, closing(sqlite3.connect(path)) as copy:
        history.backup(copy)


@pytest.mark.usefixtures("folder")
def test_backup__during_a_run__has_the_nights_before_it() -> None:
    assert nightly("--backfill", f"{on(1)}..{on(2)}").exit_code == 0
    nights = kept()
    with closing(History("history.db")) as history, history.transaction():
        history.write(replace(nights[0], date=dt.date(2026, 10, 1)))
        back_up("backup.db")
    with closing(sqlite3.connect("backup.db")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert [night.date for night in kept("backup.db")] == [night.date for night in nights]


@pytest.mark.usefixtures("folder")
def test_backup__restored__takes_the_nights_that_it_lacks() -> None:
    assert nightly("--date", on(1)).exit_code == 0
    back_up("backup.db")
    assert nightly("--date", on(2)).exit_code == 0
    whole = dump()
    shutil.move("backup.db", "history.db")
    assert len(kept()) == 1
    assert nightly("--date", on(2)).exit_code == 0
    assert dump() == whole


@pytest.mark.usefixtures("folder")
def test_history__has_no_write_ahead_log() -> None:
    """One file is the whole history."""
    assert nightly("--date", on(1)).exit_code == 0
    with closing(sqlite3.connect("history.db")) as history:
        assert history.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert [path.name for path in Path().glob("history.db*")] == ["history.db"]
