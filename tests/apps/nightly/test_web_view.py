"""The web view: what it shows, and that it can do nothing but show."""

from __future__ import annotations

import datetime as dt
import html
import math
import re
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from fastrank_eval.apps.nightly.compare_nights import from_earlier
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.web import MAX_STATE_BYTES, compare_content, web_view
from tests.apps.nightly.test_page import EVIL, planted, tiny
from tests.support.asgi_client import Client
from tests.support.html_elements import elements, told_by
from tests.support.sample_nights import BROKEN, EMPTY, LAST, few, month
from tests.support.transcripts import Case, answers, cases


class StateSpec:
    """A history in memory that counts how it is asked."""

    def __init__(self, nights: tuple[Night, ...]) -> None:
        self.nights = {night.date: night for night in nights}
        self.requested: list[tuple[str, str] | None] = []
        self.size = 0
        self.failed: dict[dt.date, str] = {}
        self.state_of_file: object = None
        self.label = ""

    def labels(self) -> tuple[str, ...]:
        return ()

    def of(self, label: str) -> StateSpec:
        return self

    def stamp(self) -> object:
        return self.state_of_file

    def open(self) -> Any:
        return nullcontext(self)

    def dates(self) -> list[dt.date]:
        return sorted(self.nights)

    def read(
        self,
        first: dt.date = dt.date.min,
        last: dt.date = dt.date.max,
        details_from: dt.date | None = None,
        of: tuple[str, str] | None = None,
    ) -> list[Night]:
        self.requested.append(of)
        return [self.nights[date] for date in self.dates() if first <= date <= last]

    def with_periods(self, night: Night) -> Night | None:
        return None

    def heads(self, first: dt.date, last: dt.date) -> list[Night]:
        return []

    def failures(
        self, first: dt.date | None = None, last: dt.date | None = None
    ) -> dict[dt.date, str]:
        return {date: why for date, why in self.failed.items() if (first or date) <= date}

    def repeats(self, first: dt.date, last: dt.date) -> dict[dt.date, dt.date]:
        return {}

    def repeated(self, fingerprint: str, before: dt.date) -> dt.date | None:
        return None

    def state(self, date: dt.date, kind: str) -> bytes | None:
        return None

    def state_bytes(self, first: dt.date, last: dt.date) -> int:
        return self.size


def client_of(*nights: Night) -> Client:
    return Client(web_of(StateSpec(nights)))


def web_of(kept: StateSpec, **options: Any) -> Any:
    return web_view(kept, **options)


@pytest.fixture(scope="module")
def client() -> Client:
    return client_of(*month())


ADDRESSES = (
    "/",
    f"/night/{LAST}",
    f"/slice?slice={quote(BROKEN)}&measure=GAUC",
    f"/compare?first={LAST - dt.timedelta(days=1)}&second={LAST}",
)


def test_web__list_of_nights__links_that_work(client: Client) -> None:
    page = client.get("/").text
    found = elements(page)
    links = [one.attributes["href"] for one in found if one.tag == "a"]
    assert f"/night/{LAST}" in links
    rows = [one for one in found if one.tag == "tr" and one.within("tbody")]
    assert len(rows) == 30
    assert "Regression" in rows[0].all_text()
    assert client.get(f"/night/{LAST - dt.timedelta(days=EMPTY)}").status == 200


def test_web__nights_not_evaluated__with_the_reason() -> None:
    nights = StateSpec(month()[-3:-2] + month()[-1:])
    between, after = LAST - dt.timedelta(days=1), LAST + dt.timedelta(days=1)
    nights.failed = {between: "no <folder>", after: "no file"}
    client = Client(web_of(nights))
    for address in ("/", f"/night/{LAST}"):
        page = client.get(address).text
        assert f"<strong>{after} was not evaluated:</strong> <span>no file</span>" in page
        assert f"<strong>{between} was not" not in page
        assert f"<title>{between} was not evaluated: no &lt;folder&gt;</title>" in page
    assert page_rows(client.get("/").text) == [after, LAST, between, nights.dates()[0]]
    answer = client.get(f"/night/{between}")
    assert answer.status == 404
    assert f"{between} was not evaluated: no &lt;folder&gt;" in answer.text


def page_rows(page: str) -> list[dt.date]:
    """The dates of the rows of a list of nights."""
    heads = (one for one in elements(page) if one.tag == "th" and one.within("tbody"))
    return [dt.date.fromisoformat(one.all_text()) for one in heads]


@pytest.mark.parametrize("case", cases("web"), ids=str)
def test_web__each_page__says_what_is_stored(case: Case) -> None:
    name, address = case.given
    nights = [few(night) for night in month()[-9:]]
    if name == "no intervals":
        no = {"se": math.nan, "ci_low": math.nan, "ci_high": math.nan}
        nights = [replace(night, values=tuple(replace(v, **no) for v in night.values),
                          compared=()) for night in nights]  # fmt: skip
    answer = client_of(*nights).get(address)
    case.check([f"{answer.status}", *told_by(answer.text)])


def test_web__one_night__its_page_with_ways_to_others(client: Client) -> None:
    date = LAST - dt.timedelta(days=3)
    found = elements(client.get(f"/night/{date}").text)
    links = {one.attributes["href"] for one in found if one.tag == "a"}
    assert {
        f"/night/{date - dt.timedelta(days=1)}",
        f"/night/{date + dt.timedelta(days=1)}",
    } <= links
    slices = [link for link in links if link.startswith("/slice?")]
    assert len(slices) == 50 * 4
    assert all(client.get(link).status == 200 for link in sorted(slices)[:3])


def test_web__states_that_take_long_to_merge__are_left_to_the_written_page() -> None:
    kept = StateSpec(month(2))
    kept.size = MAX_STATE_BYTES + 1
    page = Client(web_of(kept)).get(f"/night/{LAST}").text
    assert "merging 32 MB of saved states takes too long" in page
    kept.size = 0
    assert "saved states" not in Client(web_of(kept)).get(f"/night/{LAST}").text


def test_web__a_state_that_cannot_be_read__does_not_hide_the_night() -> None:
    class Damaged(StateSpec):
        def heads(self, first: dt.date, last: dt.date) -> list[Night]:
            return [self.nights[last]]

        def state(self, date: dt.date, kind: str) -> bytes | None:
            return b"no state"

    answer = Client(web_of(Damaged(month(2)))).get(f"/night/{LAST}")
    assert answer.status == 200
    told = html.unescape(answer.text)
    assert "week and month: 2026-11-19 is left out: its saved state cannot be read" in told


def test_web__two_nights__the_words_of_the_later_night_itself() -> None:
    first, last = replace(month()[-8], date=LAST - dt.timedelta(days=1)), month()[-1]
    moved = ("slot=3", "ctr_small", "GAUC")
    values = tuple(
        replace(v, value=v.value + 2.5 * v.se) if (v.slice, v.score, v.measure) == moved else v
        for v in last.values
    )
    last = replace(last, values=values)
    of_then = tuple(from_earlier("yesterday", last.values, first.values, 0.95))
    # An interval lies beside zero of which Holm says nothing.
    alone = [one for one in of_then if one.p_value < 0.05 and one.verdict == "not significant"]
    assert alone
    tables = compare_content(first, last)["tables"]
    rows = [row for _, _, rows, _ in tables for row in rows if row.get("other")]
    beside = {(row["score"], row["slice"], row["measure"]): row["other"]["verdict"] for row in rows}
    assert beside == {(one.score, one.slice, one.measure): one.verdict for one in of_then}
    assert {"worse", "not significant"} <= set(beside.values())


def test_web__two_nights_of_other_conventions__are_not_compared() -> None:
    before, last = month(2)
    apart = replace(before, conventions={**before.conventions, "ties": "worst"})
    page = client_of(apart, last).get(ADDRESSES[3]).text
    assert "are not compared:</strong> conventions differ: ties." in page
    assert 'class="verdict' not in page
    alike = client_of(before, last).get(ADDRESSES[3]).text
    assert "are not compared" not in alike
    assert 'class="verdict' in alike


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("address", [*ADDRESSES, "/nowhere"])
def test_web__a_method_that_could_write__refused(client: Client, method: str, address: str) -> None:
    assert client.ask(method, address).status in (404, 405)
    assert "content-security-policy" in client.ask("HEAD", "/").headers


@pytest.mark.parametrize("path", [
    "/night/../../etc/passwd", "/night/..%2f..%2fetc%2fpasswd", "/night/%2e%2e/%2e%2e/etc/passwd",
    "/../etc/passwd", "//etc/passwd", "/%00", "/night/2026-11-19%00", "/night/2026-11-19/../../x",
    "/night/' OR 1=1 --", "/night/2026-11-19'; DROP TABLE night; --", "/night/0000-00-00",
    "/night/9999-12-31", "/night/20261119", "/night/2026-W47-4",
    f"/compare?first=2026-W47-4&second={LAST}", "/?before=2026-W47-4", "/night/٢٠٢٦-١١-١٩",
    "/templates/style.css", "/static/history.db", "/night/" + "9" * 3000,
    "/slice?slice=' OR 1=1 --&measure=GAUC", "/slice?slice=all&measure=GAUC') UNION SELECT 1 --",
    "/slice?slice=../../etc/passwd&measure=GAUC", "/slice", "/compare?first=../x&second=y",
    "/?before=' OR 1=1 --",
])  # fmt: skip
def test_web__traversal_and_injection__not_found(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status == 404
    assert "root:" not in answer.text
    elements(answer.text) if answer.headers["content-type"].startswith("text/html") else None


def test_web__an_endless_address__refused(client: Client) -> None:
    assert client.get("/slice?slice=" + "a" * 5000).status == 414


@pytest.mark.parametrize("evil", EVIL)
def test_web__evil_texts__stay_texts(evil: str) -> None:
    night = planted(tiny(), evil)
    client = client_of(night, replace(night, date=LAST - dt.timedelta(days=1)))
    addresses = ["/", ADDRESSES[1], ADDRESSES[3]]
    addresses += [
        html.unescape(link)
        for link in re.findall(r'href="(/slice\?[^"]+)"', client.get(ADDRESSES[1]).text)
    ]
    addresses += [f"/slice?slice={quote(evil.encode('utf-8', 'replace'))}"]
    assert len(addresses) >= 5
    for address in addresses:
        answer = client.get(address)
        odd = address.startswith("/slice") and "\ud800" in evil  # no address can name it
        assert answer.status == (404 if odd or address == addresses[-1] else 200)
        found = elements(answer.text)
        assert len([one for one in found if one.tag == "script"]) == 1
        assert not [one for one in found if one.tag in ("img", "iframe")]
        for one in found:
            assert not [name for name in one.attributes if name.startswith("on")]
            assert one.attributes.get("href", "/")[:1] in "/#"
            assert not one.attributes.get("href", "/").startswith("//")


@pytest.mark.parametrize("address", [*ADDRESSES, "/nowhere"])
def test_web__every_answer__has_the_headers(client: Client, address: str) -> None:
    headers = client.get(address).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; ")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers
    refused = client.get(address, host="evil.org").headers
    assert refused["x-content-type-options"] == "nosniff"


test_answers = answers(globals())
