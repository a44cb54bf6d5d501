"""Backups of a history: copied during a run, restored, completed."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fastrank_eval.apps.nightly.history import History
from tests.support.nightly_runs import dump, kept, nightly, on
from tests.support.nights import a_night


def back_up(path: str) -> None:
    with closing(sqlite3.connect("history.db")) as history, closing(sqlite3.connect(path)) as copy:
        history.backup(copy)


def test_backup__during_a_run__has_the_nights_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(History("history.db")) as history:
        history.write(a_night(1))
        with history.transaction():
            history.write(a_night(2))
            back_up("backup.db")
    with closing(sqlite3.connect("backup.db")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert [night.date.day for night in kept("backup.db")] == [1]


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
