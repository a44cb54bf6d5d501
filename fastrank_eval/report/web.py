"""A history to look at in a browser: nights, one night, a slice over time, two nights side by side.

Every page is drawn in the thread of the server, one after the other: a database connection and the
settings of matplotlib belong to one thread.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastrank_eval.errors import ArgumentError, FastRankEvalError
from fastrank_eval.report.dates import date_of
from fastrank_eval.report.links import LONGEST_QUERY, WebLinks
from fastrank_eval.report.nights import PERIODS, Night
from fastrank_eval.report.page import page, policy, render
from fastrank_eval.report.periods import NightStates, with_periods
from fastrank_eval.report.web_content import beside_content, nights_content, slice_content
from fastrank_eval.report.web_hosts import KnownHosts

__all__ = ["Nights", "web_view"]

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
        asked = request.query_params.get("before")
        if asked is not None:
            before = _date(asked)
            dates = [date for date in dates if date < before]
        shown = dates[-NIGHTS:]
        nights = []
        if shown:
            nights = self._history.read(shown[0], shown[-1], whole_from=dt.date.max)
        earlier = shown[0] if len(dates) > len(shown) else None
        return _page("nights.html", **nights_content(nights, earlier), links=WebLinks())

    def night(self, request: Request) -> Response:
        """One night, with those before it for its trends."""
        dates, date = self._asked(request.path_params["date"])
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
            _, date = self._asked(request.query_params.get(name, ""))
            pair += self._history.read(date, date)
        return _page("beside.html", **beside_content(pair[0], pair[1]), links=WebLinks())

    def _asked(self, text: str) -> tuple[list[dt.date], dt.date]:
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
