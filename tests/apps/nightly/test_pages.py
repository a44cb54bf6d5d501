"""fastrank-eval nightly: pages, and what becomes of a night whose page or periods fail."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fastrank_eval._lib.errors import ArgumentError, OutputError
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.pages import Links
from fastrank_eval.apps.nightly.periods import with_periods
from fastrank_eval.apps.nightly.web import HistoryFile, web_view
from fastrank_eval.engine.records import MeasureValue
from tests.support.asgi_client import Client
from tests.support.nightly_runs import adjust, damage, kept, nightly, on

FOOTER = "<footer><p>fastrank_eval 1.0</p></footer>"


class Pages(types.ModuleType):
    """Stands for what draws pages."""

    def __init__(self) -> None:
        super().__init__("fastrank_eval.apps.nightly.page")
        self.missing = False
        self.meanwhile: Callable[[Night], None] = lambda night: None
        self.links: dict[dt.date, Links] = {}

    def check_libraries(self) -> None:
        if self.missing:
            raise ArgumentError("pages need jinja2: pip install 'fastrank_eval[report]'.")

    def page(self, nights: Sequence[Night], links: Links) -> str:
        last = nights[-1]
        self.links[last.date] = links
        self.meanwhile(last)
        shown = f"{[night.date.day for night in nights]} {sorted(last.periods)}"
        return shown + FOOTER


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Pages:
    module = Pages()
    monkeypatch.setitem(sys.modules, "fastrank_eval.apps.nightly.page", module)
    return module


def test_pages__of_the_night_and_of_the_latest(folder: Path, pages: Pages) -> None:
    adjust(folder, '[output]\nfolder = "pages/here"\nnights = 3\n')
    assert nightly("--backfill", f"{on(1)}..{on(5)}", "-q").exit_code == 0
    found = {
        path.name: path.read_text().removesuffix(FOOTER) for path in Path("pages/here").iterdir()
    }
    assert found["2026-11-02.html"] == "[1, 2] ['month', 'week']"
    assert found["2026-11-05.html"] == found["index.html"] == "[3, 4, 5] ['month', 'week']"
    outcome = nightly("--date", on(2), "--json", "-")
    assert json.loads(outcome.stdout)["nights"][0]["page"] == "pages/here/2026-11-02.html"
    assert Path("pages/here/index.html").read_text() == found["index.html"] + FOOTER
    dates = [dt.date(2026, 11, day) for day in range(1, 6)]
    assert pages.links[dates[0]] == Links(None, None)
    assert pages.links[dates[1]] == Links(dates[0], dates[2])
    assert pages.links[dates[4]] == Links(dates[3], None)


def test_pages__replace_no_file_that_is_none(folder: Path, pages: Pages) -> None:
    adjust(folder, '[output]\nfolder = "www"\n')
    Path("www").mkdir()
    for name in ("index.html", "2026-11-02.html"):
        other = Path("www", name)
        other.write_text("<!DOCTYPE html><title>Our team</title>")
        outcome = nightly("--backfill", f"{on(1)}..{on(2)}", "--json", "told.json")
        assert outcome.exit_code == 2
        message = f"got 'www/{name}', which is not a page of a night; name another folder"
        assert message in outcome.stderr
        assert "Our team" in other.read_text()
        assert not Path("history.db").exists()
        assert "not a page" in json.loads(Path("told.json").read_text())["error"]
        other.unlink()
    other.write_text("<!DOCTYPE html><title>Our team</title>")
    assert nightly("--date", on(2), "--dry-run", "-q").exit_code == 0
    other.write_text("")
    for _ in range(2):  # over its own pages
        assert nightly("--backfill", f"{on(1)}..{on(2)}", "-q").exit_code == 0


def test_pages__that_cannot_be_made__are_refused_before_rows_are_read(
    folder: Path, pages: Pages
) -> None:
    adjust(folder, '[output]\nfolder = "nightly.toml/pages"\n')
    outcome = nightly("--date", on(1))
    assert outcome.exit_code == 2
    assert "[output] folder 'nightly.toml/pages' cannot be made" in outcome.stderr
    pages.missing = True
    assert "pip install 'fastrank_eval[report]'" in nightly("--date", on(1)).stderr
    assert not Path("history.db").exists()


def test_pages__later_night_kept_meanwhile__stays_in_the_index(folder: Path, pages: Pages) -> None:
    adjust(folder, '[output]\nfolder = "pages"\n')
    assert nightly("--backfill", f"{on(1)}..{on(2)}", "-q").exit_code == 0

    def another_run(night: Night) -> None:
        with History("history.db") as history:
            history.write(replace(night, date=dt.date(2026, 11, 5)))

    pages.meanwhile = another_run
    assert nightly("--date", on(3), "-q").exit_code == 0
    assert Path("pages/2026-11-03.html").read_text().startswith("[1, 2, 3] ")
    assert Path("pages/index.html").read_text().startswith("[1, 2, 3, 5] ")


def test_state_of_an_earlier_night__damaged__neither_fails_a_night_nor_keeps_its_page(
    folder: Path, pages: Pages
) -> None:
    adjust(folder, '[output]\nfolder = "pages"\n[gates]\nfail_if = "GAUC > 0"\n')
    assert nightly("--backfill", f"{on(1)}..{on(3)}", "-q").exit_code == 3
    damage(on(2))
    outcome = nightly("--backfill", f"{on(4)}..{on(5)}", "--json", "-")
    assert (outcome.exit_code, outcome.stderr) == (3, "")
    for night in json.loads(outcome.stdout)["nights"]:
        assert night["status"] == "regression"
        assert night["page"] == f"pages/{night['date']}.html"
        assert Path(night["page"]).exists()
        assert night["period_notes"][0].startswith("week and month: 2026-11-02 is left out: ")


@pytest.mark.parametrize(
    "gate, code, error, why",
    [
        ("GAUC > 0", 3, OutputError("cannot write 'pages': no space."),
         "cannot write 'pages': no space."),
        ("GAUC > 1", 5, ZeroDivisionError("float division by zero"),
         "cannot be drawn: ZeroDivisionError: float division by zero"),
    ],
)  # fmt: skip
def test_page__that_fails__is_told_apart_and_the_backfill_goes_on(
    folder: Path, pages: Pages, gate: str, code: int, error: Exception, why: str
) -> None:
    adjust(folder, f'[output]\nfolder = "pages"\n[gates]\nfail_if = "{gate}"\n')

    def fail(night: Night) -> None:
        if night.date.day == 2:
            raise error

    pages.meanwhile = fail
    outcome = nightly("--backfill", f"{on(1)}..{on(3)}", "--json", "told.json", "-q")
    assert outcome.exit_code == code
    told_of = "error: 2026-11-02: the night was evaluated, but not shown: "
    assert outcome.stderr.startswith(told_of)
    assert why in outcome.stderr
    told = json.loads(Path("told.json").read_text())
    assert told["exit_code"] == code
    assert [night["status"] for night in told["nights"]] == [kept()[0].status] * 3
    assert [night["page"] for night in told["nights"]] == [
        "pages/2026-11-01.html", None, "pages/2026-11-03.html",
    ]  # fmt: skip
    assert why in told["nights"][1]["page_error"]
    assert told["nights"][1]["headline"]
    assert [night.date.day for night in kept()] == [1, 2, 3]


def test_periods__are_found_once_a_run(
    folder: Path, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    adjust(folder, '[output]\nfolder = "pages"\n')
    assert nightly("--backfill", f"{on(1)}..{on(3)}", "-q").exit_code == 0
    read: list[tuple[dt.date, str]] = []
    state = History.state

    def counted(self: History, date: dt.date, kind: str) -> bytes | None:
        read.append((date, kind))
        return state(self, date, kind)

    monkeypatch.setattr(History, "state", counted)
    assert nightly("--date", on(4), "--json", "told.json", "-q").exit_code == 0
    periods = [
        (dt.date(2026, 11, day), kind)
        for day in (1, 2, 3)
        for kind in ("drift", "groups", "scores", "sums")
    ]
    own = [(dt.date(2026, 11, 4), kind) for kind in ("bins", "groups", "scores", "sums")]
    composition = [(dt.date(2026, 11, day), "groups") for day in (3, 4)]
    assert sorted(read) == sorted(periods + own + composition)


@pytest.mark.parametrize("states,measures", [
    ("groups", {"GAUC"}), ("rows", {"GAUC", "AUC", "LogLoss"}),
    ("everything", {"GAUC", "AUC", "LogLoss"}),
])  # fmt: skip
def test_states__kept__are_those_asked_for(folder: Path, states: str, measures: set[str]) -> None:
    adjust(folder, f'[history]\nstates = "{states}"\n')
    assert nightly("--backfill", f"{on(1)}..{on(2)}", "-q").exit_code == 0
    with History("history.db", readonly=True) as history:
        night = with_periods(kept()[-1], history)
    assert {value.measure for value in night.periods["week"]} == measures
    assert [date.day for date in night.period_nights["week"]] == [1, 2]
    sliced = {value.measure for value in night.periods["week"] if value.slice != "all"}
    assert sliced == (measures if states == "everything" else set())


def stored_periods() -> dict[int, dict[str, tuple[MeasureValue, ...]]]:
    """The stored periods of each day of the history."""
    with History("history.db", readonly=True) as history:
        nights = {night.date.day: history.with_periods(night) for night in history.read()}
    return {day: dict(night.periods) for day, night in nights.items() if night is not None}


def test_periods__of_a_run__are_stored_as_they_are_merged(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adjust(folder, '[history]\nstates = "everything"\n')
    assert nightly("--backfill", f"{on(1)}..{on(3)}", "-q").exit_code == 0
    with History("history.db", readonly=True) as history:
        merged = with_periods(kept()[-1], history)
        stored = history.with_periods(kept()[-1])
    assert stored is not None
    shown = tuple(v for v in merged.periods["week"] if v.slice == "all" or v.measure == "GAUC")
    assert len(shown) < len(merged.periods["week"])
    assert repr(stored.periods["week"]) == repr(shown)
    assert stored.period_nights == merged.period_nights
    kinds = []
    state = History.state
    monkeypatch.setattr(
        History, "state", lambda self, date, kind: kinds.append(kind) or state(self, date, kind)
    )
    page = Client(web_view(HistoryFile("history.db", 0))).get(f"/night/{on(3)}").text
    assert "<small>3 of 7 nights, 2026-11-01 to 2026-11-03</small>" in page
    assert kinds == ["periods"]


def test_periods__of_later_nights__are_merged_again_after_a_night_is_written(folder: Path) -> None:
    assert nightly("--backfill", f"{on(1)}..{on(3)}", "-q").exit_code == 0
    assert sorted(stored_periods()) == [1, 2, 3]
    assert nightly("--date", on(2), "-q").exit_code == 0
    assert sorted(stored_periods()) == [1, 2]
    page = Client(web_view(HistoryFile("history.db", 0))).get(f"/night/{on(3)}").text
    assert "<small>3 of 7 nights, 2026-11-01 to 2026-11-03</small>" in page
    assert nightly("--date", on(3), "--dry-run", "--json", "told.json", "-q").exit_code == 0
    assert sorted(stored_periods()) == [1, 2]


def test_periods__of_a_history_that_changed_meanwhile__are_not_stored(folder: Path) -> None:
    assert nightly("--backfill", f"{on(1)}..{on(2)}", "-q").exit_code == 0
    first, second = kept()
    with History("history.db") as history:
        changes = history.changes()
        night = with_periods(second, history)
        with History("history.db") as other:
            other.write(first)
        history.write_periods(night, changes)
        assert 2 not in stored_periods()
        history.write_periods(night, history.changes())
        assert 2 in stored_periods()
        history.write_periods(replace(night, date=dt.date(2026, 11, 9)), history.changes())
        assert sorted(stored_periods()) == [2]


def test_periods__that_cannot_be_read__are_merged_again(folder: Path) -> None:
    assert nightly("--date", on(1), "-q").exit_code == 0
    client = Client(web_view(HistoryFile("history.db", 0)))
    for content in (b"", b"\xff", b"[]", b"{}", b'{"periods": {"week": [[1]]}}'):
        with closing(sqlite3.connect("history.db")) as database:
            database.execute("UPDATE state SET content = ? WHERE kind = 'periods'", (content,))
            database.commit()
        assert stored_periods() == {}
        page = client.get(f"/night/{on(1)}").text
        assert "<small>1 of 7 nights, 2026-11-01</small>" in page
