"""History: files that are damaged, no history, or taken by another run."""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
import sys
import types
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from fastrank_eval._lib.errors import HistoryError
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import SavedStates
from tests.support.nights import a_night

DAY = a_night(1).date


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


def damaged(name: str, value: str) -> str:
    return f"UPDATE night SET document = json_set(document, '$.{name}', json('{value}'))"  # noqa: S608


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE night SET document = '{'",
        "UPDATE night SET document = '[]'",
        "UPDATE night SET document = CAST(x'ff' AS TEXT)",
        "UPDATE night SET status = 'good'",
        "UPDATE night SET document = json_remove(document, '$.title')",
        damaged("title", "7"),
        damaged("provisional", "2"),
        damaged("models", "7"),
        damaged("models", "[1]"),
        damaged("measures", "{}"),
        damaged("conventions", "[]"),
        damaged("conventions.columns", "7"),
        damaged("seconds", '"long"'),
        damaged("later", "1"),
        damaged("findings", '[{"kind": 1}]'),
        damaged("findings", '[{"kind": "drift", "since": 1}]'),
        damaged("judged_before", '{"status": 1, "values": []}'),
        damaged("quality.nulls", '{"a": "b"}'),
        damaged("quality.flags", '{"a": 1}'),
        damaged("quality.rows", "0.5"),
        damaged("curves", '{"roc": [{"score": "a"}]}'),
        "UPDATE value SET dropped = '['",
        "UPDATE value SET dropped = '{\"a\": 0.5}'",
        "DROP TABLE value",
    ],
)
def test_read__of_what_no_version_wrote__says_that_it_is_damaged(
    path: Path, statement: str
) -> None:
    with History(path) as history:
        history.write(a_night(1))
    damage(path, statement)
    with (
        History(path) as history,
        pytest.raises(HistoryError, match=r"(is damaged|cannot be read): .* from a backup"),
    ):
        history.read()


def damage(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA ignore_check_constraints = 1")
        database.execute(statement)


def test_night__deleted_by_plain_sql__leaves_nothing_to_the_next_of_its_date(path: Path) -> None:
    large, small = a_night(1), a_night(1, values=(), compared=())
    with History(path) as history:
        history.write(large, SavedStates({"groups": b"old"}))
    damage(path, "DELETE FROM night")
    with History(path) as history:
        assert history.read() == []
        history.write(small)
        assert history.read() == [small]
        assert history.states(small.date).contents == {}


@pytest.mark.parametrize(
    "statement, read",
    [
        ("UPDATE report SET labels = '['", lambda h: h.claim("report", ["click"])),
        ("UPDATE report SET labels = '[1]'", lambda h: h.claim("report", ["click"])),
        ("UPDATE night SET document = '{'", lambda h: h.claim("report", ["click"])),
        ("UPDATE night SET status = 'good'", lambda h: h.statuses(DAY, DAY)),
        (damaged("written_at", '"noon"'), lambda h: h.write_times(DAY, DAY)),
        (damaged("notes", "[1]"), lambda h: h.before(DAY + dt.timedelta(1), 9)),
    ],
)
def test_part__of_what_no_version_wrote__says_that_it_is_damaged(
    path: Path, statement: str, read: Callable[[History], object]
) -> None:
    with History(path) as history:
        history.claim("report", ["click", "order"])
        history.write(a_night(1))
    damage(path, statement)
    with History(path) as history, pytest.raises(HistoryError, match="from a backup"):
        read(history)


def test_number_of_a_wrong_type__is_refused_by_the_table(path: Path) -> None:
    with History(path) as history:
        history.write(a_night(1))
    with pytest.raises(sqlite3.IntegrityError, match="cannot store TEXT value in REAL column"):
        damage(path, "UPDATE value SET value = 'high'")


def test_open__with_an_old_sqlite__names_the_version(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    with pytest.raises(HistoryError, match=r"needs SQLite 3\.37"):
        History(path)


def test_open__what_is_no_history__says_why(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"it is a folder; name the file in it"):
        History(tmp_path, readonly=True)
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(HistoryError, match="is empty, not a history"):
        History(empty, readonly=True)


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
