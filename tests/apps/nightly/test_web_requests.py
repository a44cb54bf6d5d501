"""The web view: names it is called by, histories that go or break, pages too large."""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.page import MAX_SLICES
from fastrank_eval.apps.nightly.pages import WebLinks
from fastrank_eval.apps.nightly.web import HistoryFile, web_view
from tests.apps.nightly.test_page import tiny
from tests.apps.nightly.test_web_view import StateSpec, client_of, web_of
from tests.support.asgi_client import Client
from tests.support.nights import a_night
from tests.support.sample_nights import LAST

HOSTS = ("127.0.0.1", "localhost", "::1", "[2001:db8::1]", "*.example.com")


@pytest.fixture(scope="module")
def client() -> Client:
    return Client(web_of(StateSpec((tiny(),)), hosts=HOSTS))


#: Names that the server is called by: the first are not its own.
CALLED = {
    400: ["evil.example.org", "127.0.0.1.evil.org", "evil.org:8642", "", "localhost.evil.org",
          "0.0.0.1", "[::2]:8642", "[::1", "::1", "example.com", "localhost:x", "localhost.",
          "[evil.org]"],
    200: ["127.0.0.1:8642", "localhost", "LOCALHOST:1", "[::1]:8642", "[2001:DB8::1]:1",
          "a.example.com:80"],
}  # fmt: skip


@pytest.mark.parametrize("status, host", [(code, host) for code in CALLED for host in CALLED[code]])
def test_web__called_by_a_name__answers_to_its_own(client: Client, status: int, host: str) -> None:
    answer = client.get("/", host=host)
    assert answer.status == status
    assert ("GAUC" in answer.text) == (status == 200)
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ["*", "a*b", "", "a b", "http://x.org", "*.", "x/y"])
def test_hosts__that_are_no_names__are_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="is not a name of a host"):
        web_of(StateSpec(()), hosts=[name])


@pytest.mark.parametrize(
    "error, status, text",
    [
        (ZeroDivisionError("no division"), 500, "the log of the server has the reason"),
        (ArgumentError("history.db: held by <another> run."), 503, "held by &lt;another&gt; run."),
    ],
)
def test_web__page_that_fails__has_the_headers_and_says_why_or_logs_it(
    caplog: pytest.LogCaptureFixture, error: Exception, status: int, text: str
) -> None:
    class Broken(StateSpec):
        def dates(self) -> list[dt.date]:
            raise error

    with caplog.at_level(logging.ERROR):
        answer = Client(web_of(Broken(()))).get("/")
    assert answer.status == status
    assert "x-frame-options" in answer.headers
    assert text in answer.text
    assert ("no division" in caplog.text) == (status == 500)


def test_history__held_by_a_run__is_told_soon(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    with History(file) as history:
        history.write(a_night(1))
        client = Client(web_view(HistoryFile(file, 0)))
        history._database.execute("BEGIN EXCLUSIVE")
        assert client.get("/").status == 503
        history._database.execute("ROLLBACK")
        assert client.get("/").status == 200


def many(slices: int) -> Night:
    (first,) = [v for v in tiny().values if v.slice == "slot=1" and v.score == "a"][:1] or [None]
    assert first is not None
    return tiny(values=tuple(replace(first, slice=f"slot={n}") for n in range(slices)))


def test_web__more_slices_than_a_page_shows__are_counted() -> None:
    night = many(MAX_SLICES + 7)
    client = client_of(replace(night, date=LAST - dt.timedelta(days=1)), night)
    page = client.get(f"/night/{LAST}").text
    assert "7 more rows with weaker changes are in the history." in page
    assert page.count('data-m="') == MAX_SLICES
    beside = client.get(f"/compare?first={LAST - dt.timedelta(days=1)}&second={LAST}").text
    assert "7 more rows with weaker differences" in beside


def test_web__slice_whose_name_is_too_long_for_an_address__has_no_link() -> None:
    (value,) = many(1).values
    for length, linked in ((3900, True), (4000, False)):
        long = replace(value, slice="slot=" + "x" * length)
        night = tiny(values=(long,))
        assert bool(WebLinks().slice(long.slice, long.measure)) == linked
        client = client_of(replace(night, date=LAST - dt.timedelta(days=1)), night)
        for address in (f"/night/{LAST}", f"/compare?first={LAST}&second={LAST}"):
            assert ('href="/slice' in client.get(address).text) == linked
