"""History: round trips, replacement, kills, two runs at once, export."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fastrank_eval._lib.errors import HistoryError
from fastrank_eval.apps.nightly.history import (
    APPLICATION_ID,
    TABLES,
    VERSION,
    History,
    open_history,
)
from fastrank_eval.apps.nightly.night import (
    Night,
    SavedStates,
)
from tests.support.nights import HOSTILE, a_night

ROOT = Path(__file__).parents[3]


def states(content: bytes, fingerprint: str = "") -> SavedStates:
    return SavedStates({"groups": content}, fingerprint)


def same(left: Night, right: Night) -> bool:
    """Whether all is alike, NaN included."""
    return repr(left) == repr(right)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a name's ?#% history.db"


def dump(path: Path) -> list[str]:
    with sqlite3.connect(path) as database:
        lines = list(database.iterdump())
    database.close()
    return lines


def test_night__written_and_read__is_the_same(path: Path) -> None:
    night = a_night()
    with History(path) as history:
        history.write(night, states(b"\x00\xff"))
    with History(path, readonly=True) as history:
        (found,) = history.read()
        assert history.state(night.date, "groups") == b"\x00\xff"
        assert history.state(night.date, "scores") is None
    assert same(found, night)
    assert [v.slice for v in found.values[1:]] == list(HOSTILE)
    assert found.quality.rows == 2**53 + 1


def test_night__written_twice__replaces_itself_and_nothing_else(path: Path) -> None:
    with History(path) as history:
        for day in (1, 2, 3):
            history.write(a_night(day), states(bytes([day])))
        others = [line for line in dump(path) if "2026-11-02" not in line]
        history.write(a_night(2, 0.5, compared=(), gates=()))
        assert [line for line in dump(path) if "2026-11-02" not in line] == others
        assert [night.date.day for night in history.read()] == [1, 2, 3]
        assert same(history.read()[1], a_night(2, 0.5, compared=(), gates=()))
        assert [history.state(dt.date(2026, 11, day), "groups") for day in (1, 2, 3)] == [
            b"\x01", None, b"\x03",
        ]  # fmt: skip


def test_read__range__both_ends_included(path: Path) -> None:
    with History(path) as history:
        for day in (5, 1, 3):
            history.write(a_night(day), states(b""))
        first, last = dt.date(2026, 11, 3), dt.date(2026, 11, 5)
        assert history.dates() == [dt.date(2026, 11, 1), first, last]
        assert [night.date for night in history.read(first, last)] == [first, last]
        assert history.read(dt.date(2027, 1, 1)) == []
        before, *whole = history.read(details_from=first)
        assert same(before, a_night(1, compared=()))
        assert same(whole[0], a_night(3))
        heads = history.before(last, 2)
        assert [same(each, a_night(3, values=(), compared=())) for each in heads] == [True]
        assert [night.date.day for night in history.before(last, 28)] == [3, 1]


def test_open_history__file_exists__makes_no_other_folder(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_history(path) as empty:
        assert empty.dates() == []
    assert not path.exists()
    with History(path) as history:
        history.write(a_night(5), states(b""))

    def refuse() -> None:
        raise AssertionError("a folder is made")

    monkeypatch.setattr("fastrank_eval.apps.nightly.history.TemporaryDirectory", refuse)
    with open_history(path) as history:
        assert (history.readonly, history.dates()) == (True, [dt.date(2026, 11, 5)])


def test_claim__another_report__is_refused_once_there_are_nights(path: Path) -> None:
    with History(path) as history:
        history.claim("one")
        history.claim("two")  # nothing is lost as yet
        history.write(a_night(1))
        history.claim("two")
        before = dump(path)
        with pytest.raises(HistoryError, match=r"of the report 'two'.*write report = \"two\""):
            history.claim("one")
    assert dump(path) == before
    with History(path, readonly=True) as history:
        history.claim("two")
        with pytest.raises(HistoryError, match="of the report 'two'"):
            history.claim("one")


def test_failure__is_kept_only_for_dates_without_a_night(path: Path) -> None:
    first, second = dt.date(2026, 11, 1), dt.date(2026, 11, 2)
    with History(path) as history:
        history.claim("report", ["click"])
        history.write_failure(first, "no file")
        history.write_failure(second, "no folder")
        history.write_failure(second, "no file")
        history.write(a_night(1))
        history.write_failure(first, "no file")
        assert history.failures() == {second: "no file"}
        assert history.outcomes() == {first: a_night().status, second: "not_evaluated"}
        assert history.dates() == [first]
        # Each label that has no night of the date.
        history.claim("report", ["click", "order"])
        for label in ("click", "order"):
            assert history.of(label).failures() == {second: "no file"}
        conventions = {"columns": {"label": "order"}}
        history.of("order").write(a_night(2, label="order", conventions=conventions))
        history.claim("report", ["order"])
        assert (history.dates(), history.failures()) == ([first, second], {})


def test_failure__long_before_or_after_the_nights__is_not_kept(path: Path) -> None:
    with History(path) as history:
        history.claim("report", ["click"])
        history.write(a_night(10))
        for date in (dt.date(2016, 11, 10), dt.date(2062, 11, 10)):
            history.write_failure(date, "no folder")
        assert history.failures() == {}


def test_month__of_a_night_without_states__stays_when_an_earlier_night_is_written(
    path: Path,
) -> None:
    with History(path) as history:
        history.claim("report", ["click"])
        for day, states in ((5, {}), (6, {"groups": b"6"}), (7, {})):
            history.write(a_night(day), SavedStates(states))
        for day in (6, 7):
            (night,) = history.read(dt.date(2026, 11, day), dt.date(2026, 11, day))
            history.write_periods(night, history.changes())
        history.write_failure(dt.date(2026, 11, 6), "no file")
        history.write(a_night(5))
        kept = [bool(history.state(dt.date(2026, 11, day), "periods")) for day in (6, 7)]
        assert kept == [False, True]


def test_transaction__error_inside__leaves_all_as_it_was(path: Path) -> None:
    with History(path) as history:
        history.write(a_night(1))
        before = dump(path)
        with pytest.raises(RuntimeError, match="stop"), history.transaction():
            history.write(a_night(1, 0.1))
            history.write(a_night(2))
            raise RuntimeError("stop")
        assert dump(path) == before


def test_open__foreign_or_later_or_no_database__says_so(path: Path, tmp_path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE thing (x)")
    database.commit()
    with pytest.raises(HistoryError, match="is a database of something else"):
        History(path)
    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for version in (VERSION - 1, VERSION + 1, -1):
        database.execute(f"PRAGMA user_version = {version}")
        before = path.read_bytes()
        for readonly in (False, True):
            with pytest.raises(HistoryError, match=rf"version {version}.*nights again"):
                History(path, readonly=readonly)
        assert path.read_bytes() == before
    database.close()
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be looked at\n" * 50)
    with pytest.raises(HistoryError, match="is no SQLite database"):
        History(text)
    with pytest.raises(HistoryError, match="there is no such file"):
        History(tmp_path / "none.db", readonly=True)
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(HistoryError, match=r"folder .* does not exist; create it first"):
        History(tmp_path / "no" / "history.db")


def test_commit__is_on_disk_with_the_journal_gone(path: Path) -> None:
    with History(path) as history:
        found = [history._database.execute(f"PRAGMA {name}").fetchone()[0] for name in
                 ("synchronous", "journal_mode")]  # fmt: skip
        assert found == [3, "delete"]  # EXTRA; no write-ahead log: one file is the whole history


def test_readonly__writing__is_refused(path: Path) -> None:
    with History(path) as history:
        history.write(a_night())
    before = path.read_bytes()
    with History(path, readonly=True) as history, pytest.raises(HistoryError, match="readonly"):
        history.write(a_night(2))
    assert path.read_bytes() == before


def test_second_writer__waits_in_vain__is_told(path: Path) -> None:
    with (
        History(path) as first,
        History(path, patience=0.05) as second,
        first.transaction(),
        pytest.raises(HistoryError, match=r"another run has locked it for more than 0.05 seconds"),
    ):
        second.write(a_night())


#: Writes nights in one transaction, and waits in the middle of it.
HALFWAY = """
import sys, time
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import SavedStates
from tests.support.nights import a_night
with History(sys.argv[1]) as history, history.transaction():
    history._database.execute("PRAGMA cache_size = 1")  # pages leave memory at once
    for day in range(1, 29):
        history.write(a_night(day, 0.125), SavedStates({"groups": bytes(100_000)}))
    print("halfway", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_kill__in_the_middle_of_a_transaction__changes_nothing(path: Path) -> None:
    with History(path) as history:
        for day in (1, 2):
            history.write(a_night(day), states(bytes([day])))
    before = dump(path)
    process = subprocess.Popen(
        [sys.executable, "-c", HALFWAY, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "halfway\n"
    journal = path.with_name(f"{path.name}-journal")
    assert journal.stat().st_size > 0
    copy = path.with_name("copy.db")
    process.kill()
    process.communicate()
    shutil.copy(path, copy)
    shutil.copy(journal, f"{copy}-journal")
    with History(path) as history:
        assert [night.date.day for night in history.read()] == [1, 2]
        history.write(a_night(3))
    with History(copy) as history:
        history.dates()
    assert dump(copy) == before


def test_export__every_table_as_parquet(path: Path, tmp_path: Path) -> None:
    with History(path) as history:
        for _ in range(2):
            empty = history.export(tmp_path / "tables")
        assert [pq.read_table(file).num_rows for file in empty] == [0] * len(TABLES)
        for day in (1, 2):
            history.write(a_night(day), states(b"\x00"))
        files = history.export(tmp_path / "tables")
    assert [file.stem for file in files] == list(TABLES)
    value = pq.read_table(tmp_path / "tables" / "value.parquet")
    assert value.column("slice").to_pylist() == 2 * ["all", *HOSTILE]
    assert value.column("date").to_pylist()[0] == dt.date(2026, 11, 1)
    assert value.column("ci_low").null_count == len(value)
    assert (
        pq.read_table(tmp_path / "tables" / "state.parquet").column("content")[0].as_py() == b"\x00"
    )


def test_history__plain_sql__finds_a_slice_over_time(path: Path) -> None:
    with History(path) as history:
        for day in (2, 1):
            history.write(a_night(day, day / 4))
    database = sqlite3.connect(path)
    query = (
        "SELECT date, value FROM value WHERE measure = 'GAUC' AND score = 'new' "
        "AND slicing = 'slot' AND slice = 'all' ORDER BY date"
    )
    assert database.execute(query).fetchall() == [("2026-11-01", 0.25), ("2026-11-02", 0.5)]
    (*_, plan) = database.execute(f"EXPLAIN QUERY PLAN {query}").fetchone()
    database.close()
    assert "value_over_time" in plan


def test_read__of_one_slice_and_measure__nothing_else(tmp_path: Path) -> None:
    with History(tmp_path / "history.db") as history:
        for day in (1, 2):
            history.write(a_night(day), SavedStates({"groups": b"12345" * day}))
        found = history.read(of=(HOSTILE[1], "GAUC"))
        whole = history.read()
        assert [n.date for n in found] == [n.date for n in whole]
        for few, night in zip(found, whole, strict=True):
            assert few.values == tuple(v for v in night.values if v.slice == HOSTILE[1])
            assert len(few.values) == 1
            assert same(few, replace(night, values=few.values, compared=()))
        assert [n.values for n in history.read(of=("' OR 1=1 --", "GAUC"))] == [(), ()]
        for few, night in zip(history.read(kind="yesterday"), whole, strict=True):
            compared = tuple(d for d in night.compared if d.kind == "yesterday")
            assert 0 < len(compared) < len(night.compared)
            assert same(few, replace(night, values=(), compared=compared))
        assert history.state_bytes() == 15
        assert history.state_bytes(last=dt.date(2026, 11, 1)) == 5
        assert history.state_bytes(dt.date(2027, 1, 1)) == 0
