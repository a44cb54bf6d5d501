"""fastrank-eval nightly: pages, and what becomes of a night whose page or periods fail."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import sys
import time
import types
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fastrank_eval._lib.errors import ArgumentError, OutputError
from fastrank_eval.apps.nightly.config import read_config
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.pages import Links, write_pages
from fastrank_eval.apps.nightly.periods import NO_INTERVALS, with_periods
from fastrank_eval.apps.nightly.summary_files import night_dict
from fastrank_eval.apps.nightly.web import HistoryFile, web_view
from fastrank_eval.engine.records import MeasureValue
from tests.support.asgi_client import Client
from tests.support.nightly_runs import adjust, damage, dump, kept, nightly, on
from tests.support.sample_nights import month as sample_month

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


@pytest.mark.parametrize("name", ["index.html", "2026-11-02.html"])
def test_pages__replace_no_file_that_is_none(folder: Path, pages: Pages, name: str) -> None:
    adjust(folder, '[output]\nfolder = "www"\n')
    Path("www").mkdir()
    other = Path("www", name)
    other.write_text("<!DOCTYPE html><title>Our team</title>")
    outcome = nightly("--backfill", f"{on(1)}..{on(2)}", "--json", "told.json")
    assert outcome.exit_code == 2
    assert (
        f"got 'www/{name}', which is not a page of a night; name another folder" in outcome.stderr
    )
    assert "Our team" in other.read_text()
    assert not Path("history.db").exists()
    assert "not a page" in json.loads(Path("told.json").read_text())["error"]
    assert nightly("--date", on(2), "--dry-run", "-q").exit_code == 0
    other.write_text("")
    for _ in range(2):  # over its own pages
        assert nightly("--backfill", f"{on(1)}..{on(2)}", "-q").exit_code == 0


def test_pages__as_they_are_drawn__are_replaced(folder: Path) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    adjust(folder, '[output]\nfolder = "www"\n')
    for _ in range(2):
        assert nightly("--date", on(1), "-q").exit_code == 0
    assert {path.name for path in Path("www").iterdir()} == {"index.html", "2026-11-01.html"}


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


@pytest.mark.parametrize("gate,code", [("GAUC > 0", 3), ("GAUC > 1", 5)])
def test_page__that_fails__is_told_apart_and_the_backfill_goes_on(
    folder: Path, pages: Pages, gate: str, code: int
) -> None:
    adjust(folder, f'[output]\nfolder = "pages"\n[gates]\nfail_if = "{gate}"\n')

    def fail(night: Night) -> None:
        if night.date.day == 2:
            raise OutputError("cannot write 'pages': no space.")

    pages.meanwhile = fail
    outcome = nightly("--backfill", f"{on(1)}..{on(3)}", "--json", "told.json", "-q")
    assert outcome.exit_code == code
    assert outcome.stderr == (
        "error: 2026-11-02: the night was evaluated, but not shown: cannot write 'pages': no "
        "space.\n"
    )
    told = json.loads(Path("told.json").read_text())
    assert told["exit_code"] == code
    assert [night["status"] for night in told["nights"]] == [kept()[0].status] * 3
    assert [night["page"] for night in told["nights"]] == [
        "pages/2026-11-01.html", None, "pages/2026-11-03.html",
    ]  # fmt: skip
    assert told["nights"][1]["page_error"] == "cannot write 'pages': no space."
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
    own = [(dt.date(2026, 11, 4), kind) for kind in ("groups", "scores", "sums")]
    mix = [(dt.date(2026, 11, day), "groups") for day in (3, 4)]
    assert sorted(read) == sorted(periods + own + mix)


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


def test_write_pages__of_a_month_of_nights__takes_seconds(folder: Path) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    text = Path("nightly.toml").read_text().replace('"slot"', '"slot", "country", "@rows:1,5"')
    Path("nightly.toml").write_text(text + "[quality]\nmin_rows = 0\nmin_groups = 0\n")
    # From the 20th on score_b gives every row of slot=side one score.
    assert nightly("--backfill", f"{on(1)}..{on(30)}", "-q").exit_code == 3
    adjust(folder, '[output]\nfolder = "pages"\n')
    config = read_config("nightly.toml")
    Path("pages").mkdir()
    seconds = []
    for _ in range(2):
        start = time.process_time()
        with History("history.db", readonly=True) as history:
            (last,) = history.read(dt.date(2026, 11, 30))
            night = with_periods(last, history)
        page, index = write_pages(config, night)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 3
    assert page.stat().st_size == index.stat().st_size < 3_000_000
    assert len(night.period_nights["month"]) == 29
    html = index.read_text(encoding="utf-8")
    assert "Month<small>29 of 30 nights, 2026-11-01 to 2026-11-30</small>" in html
    assert "GAUC of slices over longer periods" in html


def test_page__that_cannot_be_drawn__is_a_fault_told_apart(folder: Path, pages: Pages) -> None:
    adjust(folder, '[output]\nfolder = "pages"\n')

    def fail(night: Night) -> None:
        raise ZeroDivisionError("float division by zero")

    pages.meanwhile = fail
    outcome = nightly("--backfill", f"{on(1)}..{on(2)}", "--json", "-")
    assert outcome.exit_code == 5
    for night in json.loads(outcome.stdout)["nights"]:
        assert night["status"] == "fine"
        assert "cannot be drawn: ZeroDivisionError: float division by" in night["page_error"]
    assert len(kept()) == 2


def test_dry_run__tells_periods__as_the_run_would(folder: Path) -> None:
    def told(*arguments: str) -> object:
        (night,) = json.loads(nightly(*arguments, "--json", "-").stdout)["nights"]
        return [night[name] for name in ("periods", "period_notes")]

    dry = told("--date", on(1), "--dry-run")
    assert dry == told("--date", on(1))
    before = dump()
    dry = told("--date", on(2), "--dry-run")
    assert dump() == before
    assert dry == told("--date", on(2))
    assert dry[0]["week"][0]["groups"] > kept()[0].quality.groups  # type: ignore[index]


def test_web_view__of_a_history__shows_week_and_month(folder: Path) -> None:
    assert nightly("--backfill", f"{on(1)}..{on(3)}", "-q").exit_code == 0
    with History("history.db", readonly=True) as history:
        night = with_periods(history.read()[-1], history)
    page = Client(web_view(HistoryFile("history.db", 0))).get(f"/night/{on(3)}").text
    value = night.periods["week"][0]
    table = page.partition("Longer periods")[2].partition("</table>")[0]
    assert "<small>3 of 7 nights, 2026-11-01 to 2026-11-03</small>" in table
    assert f">{value.value:.3f}</td>" in table
    assert f"<p>week and month: {NO_INTERVALS}</p>" in page


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


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{}", b'{"periods": {"week": [[1]]}}'])
def test_periods__that_cannot_be_read__are_merged_again(folder: Path, content: bytes) -> None:
    assert nightly("--date", on(1), "-q").exit_code == 0
    with closing(sqlite3.connect("history.db")) as database:
        database.execute("UPDATE state SET content = ? WHERE kind = 'periods'", (content,))
        database.commit()
    assert stored_periods() == {}
    page = Client(web_view(HistoryFile("history.db", 0))).get(f"/night/{on(1)}").text
    assert "<small>1 of 7 nights, 2026-11-01</small>" in page


def test_json__tells_what_its_numbers_rest_on() -> None:
    night = sample_month(2)[-1]
    dates = (night.date - dt.timedelta(days=6), night.date)
    told = night_dict(replace(night, period_nights={"week": dates}))
    assert told["confidence"] == 0.95
    assert told["conventions"] == night.conventions
    assert told["period_nights"] == {
        "week": {"nights": 2, "of": 7, "first": "2026-11-13", "last": "2026-11-19"}
    }
