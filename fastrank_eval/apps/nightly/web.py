"""Serve the pages of a history."""

from __future__ import annotations

import datetime as dt
import ipaddress
import logging
import math
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, HistoryError
from fastrank_eval.apps.nightly.compare_nights import differing, from_earlier
from fastrank_eval.apps.nightly.dates import date_of
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import PERIODS, Night, NightDifference, NightValue
from fastrank_eval.apps.nightly.page import MOST_SLICES, check_libraries, page, policy, render
from fastrank_eval.apps.nightly.page_rows import Change, NightSeries
from fastrank_eval.apps.nightly.pages import LONGEST_QUERY, WebLinks
from fastrank_eval.apps.nightly.periods import NightStates, with_periods
from fastrank_eval.apps.nightly.sentences import lead
from fastrank_eval.apps.nightly.text import (
    amount,
    confidence_of,
    digits_of,
    interval,
    level_of,
)
from fastrank_eval.measures.parser import measure as measure_of

__all__ = [
    "CurrentHistory",
    "KnownHosts",
    "Nights",
    "beside_content",
    "nights_content",
    "slice_content",
    "web_view",
]


_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")
_NAME = re.compile(r"(?:\*\.)?[\w-]+(?:\.[\w-]+)*\.?")


class KnownHosts:
    """Names and addresses of a server.

    Parameters
    ----------
    names : iterable of str
        ``"reports.example.org"``, ``"*.example.org"`` for what ends so, ``"127.0.0.1"``,
        ``"::1"``, in brackets or not.

    Raises
    ------
    ArgumentError
        One is no name.

    Examples
    --------
    >>> known = KnownHosts(["localhost", "::1"])
    >>> [host in known for host in ("LOCALHOST.:8642", "[::1]:8642", "evil.org", "")]
    [True, True, False, False]
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._ends: list[str] = []
        for name in names:
            plain = _plain(name)
            if not _is_address(plain) and not _NAME.fullmatch(plain):
                raise ArgumentError(
                    f"{name!r} is no name of a host; write it as reports.example.org, or "
                    "*.example.org for every name that ends so."
                )
            if plain.startswith("*"):
                self._ends.append(plain[1:])
            else:
                self._names.add(plain)

    def __contains__(self, header: str) -> bool:
        """Whether a request's ``Host`` names the server."""
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        host = _plain(found[1])
        return host in self._names or any(host.endswith(end) for end in self._ends)


def _plain(name: str) -> str:
    """In lower case, without brackets and the dot of the root; addresses in their short form."""
    bare = name.removeprefix("[").removesuffix("]").lower()
    if _is_address(bare):
        return ipaddress.ip_address(bare).compressed
    return bare.removesuffix(".")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class CurrentHistory:
    """Reads a history, and reads on in the file that has taken its place.

    Parameters
    ----------
    path : path
    patience : float
        As of `History`.

    Raises
    ------
    HistoryError
        As `History` does; whenever it is read, also if the file has gone.
    """

    def __init__(self, path: str | os.PathLike[str], patience: float) -> None:
        self._path, self._patience = Path(path), patience
        self._file = self._named()
        self._opened: History | None = self._open()

    def close(self) -> None:
        """Let the file go."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def dates(self) -> list[dt.date]:
        """As of `History`."""
        return self._now().dates()

    def read(
        self,
        first: dt.date,
        last: dt.date,
        *,
        whole_from: dt.date | None = None,
        of: tuple[str, str] | None = None,
    ) -> list[Night]:
        """As of `History`."""
        return self._now().read(first, last, whole_from=whole_from, of=of)

    def rows(self, first: dt.date, last: dt.date) -> Mapping[dt.date, int]:
        """As of `History`."""
        return self._now().rows(first, last)

    def repeats(self, first: dt.date, last: dt.date) -> Mapping[dt.date, dt.date]:
        """As of `History`."""
        return self._now().repeats(first, last)

    def repeated(self, fingerprint: str, before: dt.date) -> dt.date | None:
        """As of `History`."""
        return self._now().repeated(fingerprint, before)

    def state(self, date: dt.date, kind: str) -> bytes | None:
        """As of `History`."""
        return self._now().state(date, kind)

    def state_bytes(self, first: dt.date, last: dt.date) -> int:
        """As of `History`."""
        return self._now().state_bytes(first, last)

    def _now(self) -> History:
        named = self._named()
        if named is None and self._file is not None:
            self.close()
            raise HistoryError(f"{self._path}: is gone; put it back, and load the page again.")
        if self._opened is None or named != self._file:
            self.close()
            self._opened, self._file = self._open(), named
        return self._opened

    def _open(self) -> History:
        return History(self._path, readonly=True, patience=self._patience)

    def _named(self) -> tuple[int, int] | None:
        with suppress(OSError):
            found = self._path.stat()
            return found.st_dev, found.st_ino
        return None


_Of = tuple[str, str, str, str]


@dataclass(frozen=True)
class Pair:
    """A value on two nights, both with their intervals as text, and how they differ."""

    now: NightValue
    was: NightValue | None
    texts: tuple[tuple[str, str], ...]
    change: Change | None

    @property
    def interval(self) -> str:
        """Of the later night."""
        return self.texts[1][1]

    @property
    def rank(self) -> tuple[bool, float]:
        """Pairs of a smaller rank differ more surely."""
        if self.change is None:
            return True, 0.0
        return not self.change.said.shown, -self.change.strength


def nights_content(nights: Sequence[Night], earlier: dt.date | None) -> dict[str, Any]:
    """The list of nights, the latest first.

    Parameters
    ----------
    nights : sequence of Night
    earlier : dt.date or None
        Nights before this one are on another page.
    """
    rows = []
    measure = nights[-1].measures[0] if nights and nights[-1].measures else ""
    models = nights[-1].models if nights else ()
    digits = digits_of(v for n in nights for v in n.values if _headline(v, measure))
    for night in reversed(nights):
        found = {value.score: value for value in night.values if _headline(value, measure)}
        cells = [
            (amount(one.value, digits), interval(one.ci_low, one.ci_high, digits), one.value)
            if one
            else ("–", "", math.nan)
            for one in map(found.get, models)
        ]
        rows.append((night, cells, lead(night)))
    title = nights[-1].title if nights else "No nights"
    return {
        "title": title,
        "rows": rows,
        "level": level_of(nights[-1]) if nights else "",
        "sure": any(interval for _, cells, _ in rows for _, interval, _ in cells),
        "models": models,
        "measure": measure,
        "dates": [night.date for night in reversed(nights)],
        "earlier": earlier,
    }


def slice_content(nights: Sequence[Night], part: str, measure: str) -> dict[str, Any] | None:
    """A measure on a slice over time; None where no night has it."""
    there = [
        night
        for night in nights
        if any(value.slice == part and value.measure == measure for value in night.values)
    ]
    if not there:
        return None
    check_libraries()
    from fastrank_eval.analysis.plots import styled
    from fastrank_eval.apps.nightly import charts

    # Nights without the slice leave a gap.
    series = NightSeries([n for n in nights if there[0].date <= n.date <= there[-1].date])
    models = list(dict.fromkeys(model for night in there for model in night.models))
    past = {model: series.past(model, part, measure) for model in models}
    digits = digits_of(value for of in past.values() for value in of if value is not None)
    with styled():
        keys = [charts.key(place) for place in range(len(models))]
        chart = charts.trend("slice", f"{measure} of {part}", series.nights, past)
    rows = [
        (
            night,
            [
                (amount(v.value, digits), interval(v.ci_low, v.ci_high, digits), v)
                if (v := past[model][at]) is not None
                else None
                for model in models
            ],
        )
        for at, night in enumerate(series.nights)
    ]
    return {
        "title": series.last.title,
        "part": part,
        "measure": measure,
        "models": models,
        "baseline": series.last.baseline,
        "keys": keys,
        "chart": chart,
        "rows": rows[::-1],
        "level": level_of(series.last),
        "sure": any(cell[1] for _, cells in rows for cell in cells if cell is not None),
    }


def beside_content(first: Night, second: Night) -> dict[str, Any]:
    """Two nights side by side, and how the second differs from the first.

    The differences are those of `from_earlier`, so that a night says the same of the one before it
    here and on its own page. There are none where conventions differ.
    """
    unlike = differing(second, first)
    was = {(v.score, v.by, v.slice, v.measure): v for v in first.values}
    confidence = confidence_of(second)
    known = {measure for measure in {v.measure for v in second.values} if _is_known(measure)}
    values = [value for value in second.values if value.measure in known]
    found = {
        (one.score, one.by, one.slice, one.measure): one
        for one in from_earlier("beside", values, first.values, confidence)
        if not unlike
    }
    whole = [value for value in second.values if value.slice == "all"]
    parts = [value for value in second.values if value.slice != "all"]
    order = {measure: place for place, measure in enumerate(second.measures)}
    whole.sort(key=lambda value: order.get(value.measure, len(order)))
    tables = [("All rows", _pairs(whole, was, found, confidence), 0)]
    for measure in second.measures:
        pairs = _pairs([v for v in parts if v.measure == measure], was, found, confidence)
        pairs.sort(key=lambda pair: pair.rank)
        if pairs:
            tables.append((f"{measure} by slice", pairs[:MOST_SLICES], len(pairs[MOST_SLICES:])))
    return {
        "title": second.title,
        "first": first,
        "second": second,
        "unlike": unlike,
        "unsound": [night.date for night in (first, second) if night.status == "data_quality"],
        "tables": tables,
        "level": level_of(second),
    }


def _headline(value: NightValue, measure: str) -> bool:
    return value.slice == "all" and value.measure == measure


def _is_known(measure: str) -> bool:
    """Whether it can be told which way is better; another version may have kept others."""
    try:
        measure_of(measure)
    except FastRankEvalError:
        return False
    return True


def _pairs(
    values: Sequence[NightValue],
    was: Mapping[_Of, NightValue],
    found: Mapping[_Of, NightDifference],
    confidence: float,
) -> list[Pair]:
    pairs = []
    digits = {
        measure: digits_of(value for value in values if value.measure == measure)
        for measure in {value.measure for value in values}
    }
    for now in values:
        of = now.score, now.by, now.slice, now.measure
        old, to = was.get(of), digits[now.measure]
        texts = tuple(
            ("–", "") if v is None else (amount(v.value, to), interval(v.ci_low, v.ci_high, to))
            for v in (old, now)
        )
        change = Change.of(found[of], confidence, to) if of in found else None
        pairs.append(Pair(now, old, texts, change))
    return pairs


#: Nights that a page shows.
NIGHTS = 30
#: Bytes of saved states that are merged while somebody waits.
MOST_STATES = 32_000_000
_LOG = logging.getLogger(__name__)
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": policy("'self'") + "; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Nights(NightStates, Protocol):
    """Where nights are read from: `history.History` or the like."""

    def dates(self) -> list[dt.date]:
        """Of the nights that are kept, ascending."""

    def read(
        self,
        first: dt.date,
        last: dt.date,
        *,
        whole_from: dt.date | None = None,
        of: tuple[str, str] | None = None,
    ) -> list[Night]:
        """The nights from one date to another, both included, ascending; see `History.read`."""

    def state_bytes(self, first: dt.date, last: dt.date) -> int:
        """How much it takes to merge nights."""


def web_view(history: Nights, *, hosts: Sequence[str] = ("127.0.0.1", "localhost")) -> Starlette:
    """Make the application that shows a history and changes nothing.

    Parameters
    ----------
    history : Nights
    hosts : sequence of str
        Names by which the server may be called. Others are refused, so that no page of another
        site can read the history by a name that it points here (DNS rebinding).

    Returns
    -------
    starlette.applications.Starlette
        Answers GET and HEAD only.

    Raises
    ------
    ArgumentError
        A host is no name.
    """
    shown = _Shown(history)
    routes = [
        ("/", shown.nights),
        ("/night/{date}", shown.night),
        ("/slice", shown.slice),
        ("/beside", shown.beside),
    ]
    return Starlette(
        routes=[Route(path, _answering(answer), methods=["GET"]) for path, answer in routes],
        middleware=[
            Middleware(_Headers),
            Middleware(_OfKnownHosts, known=KnownHosts(hosts)),
        ],
        exception_handlers={HTTPException: _refused, FastRankEvalError: _failed},
    )


class _Shown:
    """What each address shows."""

    def __init__(self, history: Nights) -> None:
        self._history = history

    def nights(self, request: Request) -> Response:
        """All nights, of which the latest have their numbers."""
        dates = self._history.dates()
        requested = request.query_params.get("before")
        if requested is not None:
            before = _date(requested)
            dates = [date for date in dates if date < before]
        shown = dates[-NIGHTS:]
        nights = []
        if shown:
            nights = self._history.read(shown[0], shown[-1], whole_from=dt.date.max)
        earlier = shown[0] if len(dates) > len(shown) else None
        return _page("nights.html", **nights_content(nights, earlier), links=WebLinks())

    def night(self, request: Request) -> Response:
        """One night, with those before it for its trends."""
        dates, date = self._requested(request.path_params["date"])
        at = dates.index(date)
        after = dates[at + 1] if at + 1 < len(dates) else None
        links = WebLinks(dates[at - 1] if at else None, after)
        first = date - dt.timedelta(days=NIGHTS - 1)
        nights = self._history.read(first, date, whole_from=date)
        nights[-1] = self._with_periods(nights[-1])
        return HTMLResponse(page(nights, links=links))

    def _with_periods(self, night: Night) -> Night:
        """The night with its week and month, where that takes a second or two."""
        first = night.date - dt.timedelta(days=max(PERIODS.values()) - 1)
        try:
            size = self._history.state_bytes(first, night.date)
            if size <= MOST_STATES:
                return with_periods(night, self._history)
            told = (
                f"Week and month are not shown here: merging {size / 1e6:,.0f} MB of saved states "
                "takes too long. The page that 'fastrank-eval nightly' writes has them."
            )
        except FastRankEvalError as error:
            told = f"Week and month are not shown: {error}"
        return replace(night, period_notes=(told,))

    def slice(self, request: Request) -> Response:
        """A measure on a slice over all nights that have it."""
        part = request.query_params.get("slice", "all")
        measure = request.query_params.get("measure", "")
        dates = self._history.dates()
        of = part, measure
        nights = self._history.read(dates[0], dates[-1], of=of) if dates else []
        content = slice_content(nights, part, measure)
        if content is None:
            raise HTTPException(404, "No night has this measure on this slice.")
        return _page("slice.html", **content, links=WebLinks())

    def beside(self, request: Request) -> Response:
        """Two nights side by side."""
        pair = []
        for name in ("first", "second"):
            _, date = self._requested(request.query_params.get(name, ""))
            pair += self._history.read(date, date)
        return _page("beside.html", **beside_content(pair[0], pair[1]), links=WebLinks())

    def _requested(self, text: str) -> tuple[list[dt.date], dt.date]:
        dates, date = self._history.dates(), _date(text)
        if date not in dates:
            raise HTTPException(404, f"The history has no night {date}.")
        return dates, date


class _Headers:
    """Adds the headers of every answer, refusals included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, sent)


class _OfKnownHosts:
    """Refuses requests that call the server by a name that is not its own."""

    def __init__(self, app: ASGIApp, known: KnownHosts) -> None:
        self._app, self._known = app, known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or Headers(scope=scope).get("host", "") in self._known:
            await self._app(scope, receive, send)
            return
        told = "The server is not known by the name that the address has (see --allow-host)."
        answer = _page("refused.html", 400, links=WebLinks(), code=400, told=told)
        await answer(scope, receive, send)


def _answering(
    answer: Callable[[Request], Response],
) -> Callable[[Request], Awaitable[Response]]:
    # Starlette runs a plain function in a thread of its own, a coroutine in the server's.
    async def answered(request: Request) -> Response:
        if len(request.url.query) > LONGEST_QUERY:
            raise HTTPException(414, "The address is too long.")
        try:
            return answer(request)
        except (HTTPException, FastRankEvalError):
            raise
        except Exception as error:
            _LOG.exception("the page %s could not be drawn", request.url.path)
            return await _refused(request, error)

    return answered


def _date(text: str) -> dt.date:
    try:
        return date_of(text)
    except ArgumentError:
        raise HTTPException(404, "A night is named by its date, such as 2026-11-19.") from None


def _page(template: str, status: int = 200, **content: object) -> Response:
    return HTMLResponse(render(template, forms="'self'", **content), status)


async def _refused(_: Request, error: Exception) -> Response:
    code, told = 500, "The page could not be drawn; the server has told why."
    if isinstance(error, HTTPException):
        code, told = error.status_code, error.detail
    return _page("refused.html", code, links=WebLinks(), code=code, told=told)


async def _failed(_: Request, error: Exception) -> Response:
    return _page("refused.html", 503, links=WebLinks(), code=503, told=str(error))
