"""History: files that are damaged, no history, or taken by another run."""

from __future__ import annotations

import os
import sqlite3
import sys
import types
from contextlib import suppress
from pathlib import Path

import pytest

from fastrank_eval._lib.errors import HistoryError
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import SavedStates
from tests.support.nights import a_night


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def test_first_use__while_another_makes_the_tables__is_no_database_of_something_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = sqlite3.connect, []

    class Meanwhile:
        """A connection that another overtakes after its first look."""

        def __init__(self, database: sqlite3.Connection) -> None:
            self._database = database

        def execute(self, text: str, *given: object) -> object:
            done = self._database.execute(text, *given)
            if text == "PRAGMA application_id" and not asked:
                asked.append(text)
                rows = done.fetchall()
                with suppress(HistoryError):  # it has to wait
                    History(path, patience=0).close()
                return types.SimpleNamespace(fetchone=lambda: rows[0])
            return done

        def __getattr__(self, name: str) -> object:
            return getattr(self._database, name)

    first = [1]
    monkeypatch.setattr(
        sqlite3,
        "connect",
        lambda *a, **k: Meanwhile(real(*a, **k)) if first and first.pop() else real(*a, **k),
    )
    with History(path) as history:
        assert history.dates() == []
    assert asked


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE night SET conventions = '{'",
        "UPDATE night SET models = '7'",
        "UPDATE night SET title = CAST(x'ff' AS TEXT)",
    ],
)
def test_read__of_what_no_version_wrote__says_that_it_is_damaged(path: Path, damage: str) -> None:
    with History(path) as history:
        history.write(a_night(1))
    database = sqlite3.connect(path)
    database.execute("PRAGMA ignore_check_constraints = 1")
    database.execute(damage)
    database.commit()
    database.close()
    with History(path) as history, pytest.raises(HistoryError, match=r"is damaged|cannot be read"):
        history.read()


def test_open__what_is_no_history__says_why(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"it is a folder; name the file in it"):
        History(tmp_path, readonly=True)
    file = tmp_path / "broken.db"
    History(file).close()
    database = sqlite3.connect(file)
    database.execute("PRAGMA user_version = -1")
    database.close()
    with pytest.raises(HistoryError, match="is damaged: its tables have version -1"):
        History(file)


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_open__folder_whose_name_is_no_utf8__works(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/%41\xff?"))
    folder.mkdir()
    with History(folder / "history.db") as history:
        history.write(a_night(1))
    assert (folder / "history.db").stat().st_size > 0


def test_write__states_larger_than_sqlite_takes__says_what_to_do(path: Path) -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 3_000_000_000

    with History(path) as history:
        with pytest.raises(HistoryError, match=r"3,000,000,000 bytes .* states = \"rows\""):
            history.write(a_night(1), SavedStates({"groups": Huge()}))
        assert history.dates() == []
