"""Answer requests for the pages of a history.

Run the server of the web view, with limits of connections.

Compute what the pages of the web view show.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import os
import re
import signal
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from fastrank_eval import MeasureValue
from fastrank_eval import measure as measure_of
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, HistoryError
from fastrank_eval._lib.log import SERVE
from fastrank_eval._lib.signals import StopSignal, reset_signals
from fastrank_eval.apps.nightly import charts
from fastrank_eval.apps.nightly.compare_nights import (
    Series,
    convention_differences,
    from_earlier,
    without_praise,
)
from fastrank_eval.apps.nightly.documents import document, headline
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import PERIODS, Night
from fastrank_eval.apps.nightly.page import page, policy, render, rows_content
from fastrank_eval.apps.nightly.pages import LONGEST_QUERY, WebLinks, labels_content, other_labels
from fastrank_eval.apps.nightly.periods import parse_date, with_periods
from fastrank_eval.apps.nightly.text import NOT_EVALUATED, confidence_of, confidence_text, digits_of

#: The most connections at a time; a request on any other is answered with code 503.
MAX_CONNECTIONS = 100
#: Seconds until a connection is closed, from its first byte to the last of its answer.
MAX_SECONDS = 30.0
#: Seconds to finish answers when the server ends.
_END_SECONDS = 3
#: Signals that end the server, beside Ctrl-C. Windows has no SIGHUP.
_STOPS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind and open a listening socket.

    Parameters
    ----------
    host : str
    port : int
        0 for any free port.

    Returns
    -------
    socket.socket

    Raises
    ------
    ArgumentError
        If the port is in use, or the address is not one of this machine, or none.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=both)
    except OSError as error:
        raise ArgumentError(
            f"cannot listen on port {port} of {host}: {error.strerror}. Name another address with "
            "--host, or another port with --port; 0 takes any free one."
        ) from None


class LimitedConnection(H11Protocol):
    """A connection that is closed after a time limit.

    uvicorn limits only the time between two requests. So half a request, or a client that does not
    read its answer, would hold a connection for ever.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit."""
        super().connection_made(transport)
        self._limit = self.loop.call_later(MAX_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the time limit."""
        self._limit.cancel()
        super().connection_lost(exc)


def server_of(application: ASGIApp) -> Server:
    """Make the server of an application.

    Parameters
    ----------
    application : ASGI application
        Its answers have the header ``connection: close``: one request a connection.
    """
    return Server(
        Config(
            application,
            http=LimitedConnection,
            ws="none",
            lifespan="off",
            log_config=None,  # the command writes the lines of all loggers
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=_END_SECONDS,
        )
    )


def run_server(application: ASGIApp, listener: socket.socket) -> None:
    """Answer requests until a signal.

    Parameters
    ----------
    application : ASGI application
    listener : socket.socket

    Raises
    ------
    StopSignal
        After SIGTERM or SIGHUP; Ctrl-C is the usual end.
    """
    server, received = server_of(application), list[int]()

    def stop(number: int, _frame: object) -> None:
        received.append(number)
        server.should_exit = True

    # The server shuts down by itself, which may take longer than the time limit of a command.
    reset_signals()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    handled = [number for number in _STOPS if signal.getsignal(number) == signal.SIG_DFL]
    for number in handled:
        signal.signal(number, stop)
    try:
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])  # it handles SIGTERM too, and sends it again at its end
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)  # another signal ends the process at once
    if received:
        raise StopSignal(received[0])


def nights_content(
    nights: Sequence[Night], earlier: dt.date | None, failures: Mapping[dt.date, str] | None = None
) -> dict[str, Any]:
    """Return the values for the list of nights, the latest first.

    Parameters
    ----------
    nights : sequence of Night
    earlier : dt.date or None
        The first date of this page, if another page has earlier nights.
    failures : mapping of datetime.date to str, optional
        Why dates were not evaluated.
    """
    failures = failures or {}
    after = {date: why for date, why in failures.items() if nights and date > nights[-1].date}
    content: dict[str, Any] = {
        "title": "No nights",
        "rows": [],
        "dates": [night.date for night in reversed(nights)],
        "earlier": earlier,
        "labels": [],
        "not_evaluated": after if nights else failures,
    }
    if not nights:
        return content
    last = nights[-1]
    measure = next(iter(last.measures), "")
    name = last.name_of(measure) if measure else "No measure"
    series = Series([*nights[:-1], replace(last, not_evaluated=failures)])
    over_nights = _over_nights(series, name, series.of_models("all", measure))
    over_nights["charts"] += charts.rows_and_rates(series.nights)
    failed = {"status": NOT_EVALUATED}
    over_nights["rows"] += [
        ({**failed, "date": date, "reason": reason}, []) for date, reason in failures.items()
    ]
    over_nights["rows"].sort(key=lambda row: row[0]["date"], reverse=True)
    return content | over_nights


def _over_nights(
    series: Series, name: str, past: Mapping[str, Sequence[MeasureValue | None]]
) -> dict[str, Any]:
    """Return the values of models over nights, and their charts."""
    values = [value for column in past.values() for value in column if value is not None]
    last = series.nights[-1]
    return {
        "title": last.title,
        "models": list(past),
        "baseline": last.baseline,
        "keys": charts.keys(list(past)),
        "charts": [charts.trend("trend", name, series.nights, past)],
        "rows": [(headline(night), values) for night, values in series.by_night(past.values())],
        "digits": digits_of({"ci_low": v.ci_low, "ci_high": v.ci_high} for v in values),
        "level": confidence_text(last),
        "unit": last.unit,
        "with_intervals": any(math.isfinite(value.ci_low) for value in values),
    }


def slice_content(nights: Sequence[Night], slice_label: str, measure: str) -> dict[str, Any] | None:
    """Return a measure on a slice over time; None if no night has it."""
    wanted = slice_label, measure
    with_slice = [n for n in nights if any((v.slice, v.measure) == wanted for v in n.values)]
    if not with_slice:
        return None
    # Nights without the slice leave a gap.
    between = [n for n in nights if with_slice[0].date <= n.date <= with_slice[-1].date]
    series = Series(between)
    models = list(dict.fromkeys(model for night in with_slice for model in night.models))
    name = between[-1].name_of(measure)
    past = series.of_models(slice_label, measure, models)
    content = _over_nights(series, f"{name} of {slice_label}", past)
    return {**content, "slice_label": slice_label, "measure": name}


def compare_content(first: Night, second: Night) -> dict[str, Any]:
    """Return the values for two nights side by side with their differences.

    The differences are those of `from_earlier`, so that they equal those on the page of the second
    night. There are none if conventions differ.
    """
    different = convention_differences(second, first)
    measures = {measure for measure in {v.measure for v in second.values} if _is_known(measure)}
    values = [value for value in second.values if value.measure in measures and not different]
    compared = from_earlier("other", values, first.values, confidence_of(second))
    for night in (first, second):
        compared = without_praise(compared, night)
    told = document(replace(second, compared=tuple(compared)))
    content = rows_content(told, Series([first, second]))
    return content | {
        "title": second.title,
        "pair": (headline(first), told),
        "different": different,
        "tables": [("All rows", "", content["headline"], 0), *content["slices"]],
    }


def _is_known(measure: str) -> bool:
    """Return whether this version has a measure."""
    try:
        measure_of(measure)
    except FastRankEvalError:
        return False
    return True


_HOST_NAME = re.compile(r"(?:\*\.)?[\w-]+(?:\.[\w-]+)*")


def _allowed(name: str) -> str:
    """Write a host as browsers do, an address of IPv6 in brackets."""
    with suppress(ValueError):
        return f"[{IPv6Address(name.removeprefix('[').removesuffix(']'))}]"
    if not _HOST_NAME.fullmatch(name):
        raise ArgumentError(
            f"{name!r} is not a name of a host; write it as reports.example.org, or "
            "*.example.org for all its subdomains."
        )
    return name


#: Nights on a page.
NIGHTS = 30
#: The most bytes of saved states to merge for a request.
MAX_STATE_BYTES = 32_000_000
#: The most pages that are drawn at the same time, each in a thread.
THREADS = 4
#: The most bytes of pages in memory.
MAX_CACHE_BYTES = 64_000_000
#: Two changes of a file within this time may leave it with the same time of change.
_CLOCK_NANOSECONDS = 1_000_000_000
_HEADERS = {
    "cache-control": "no-store",
    # A page needs no other file, so a connection has one request.
    "connection": "close",
    "content-security-policy": policy("'self'") + "; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class HistoryFile:
    """The history that a path names at the time of a request.

    Parameters
    ----------
    path : path
    patience : float
        Seconds to wait for another run that is writing.
    """

    def __init__(self, path: str | os.PathLike[str], patience: float) -> None:
        self._path, self._patience = Path(path), patience

    def stamp(self) -> tuple[int, ...] | None:
        """Identify the content of the file; None within a second of a change.

        The file is not opened: to close it would release the locks that SQLite has on it.

        Raises
        ------
        HistoryError
            If the file is gone.
        """
        try:
            status = self._path.stat()
        except OSError:
            raise self._gone() from None
        if abs(time.time_ns() - status.st_mtime_ns) < _CLOCK_NANOSECONDS:
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def open(self) -> History:
        """Open the history; the caller closes it.

        Raises
        ------
        HistoryError
            As in `History`, or if the file is gone.
        """
        if not self._path.exists():
            raise self._gone()
        return History(self._path, readonly=True, patience=self._patience)

    def _gone(self) -> HistoryError:
        return HistoryError(f"{self._path}: is gone; put it back, and load the page again.")


class PageCache:
    """Pages of one state of a history.

    Parameters
    ----------
    max_bytes : int
        Pages that were not requested for longest are removed first.
    """

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._stamp: object = None
        self._pages: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, stamp: object, address: Hashable) -> bytes | None:
        """Return a page; None if it is missing or the history has changed."""
        if stamp is None or stamp != self._stamp or address not in self._pages:
            return None
        self._pages.move_to_end(address)
        return self._pages[address]

    def add(self, stamp: object, address: Hashable, page: bytes) -> None:
        """Store a page; pages of another state of the history are removed."""
        if stamp != self._stamp:
            self._stamp, self._bytes = stamp, 0
            self._pages.clear()
        if stamp is None or address in self._pages:
            return
        self._pages[address] = page
        self._bytes += len(page)
        while self._bytes > self._max_bytes:
            _, removed = self._pages.popitem(last=False)
            self._bytes -= len(removed)


def web_view(
    source: HistoryFile,
    *,
    hosts: Sequence[str] = ("127.0.0.1", "localhost"),
) -> ASGIApp:
    """Make the read-only web application of a history.

    Pages are drawn in threads, and cached until the history changes. A page that several requests
    wait for is drawn once.

    Parameters
    ----------
    source : HistoryFile
        Opens the history for each page: another file may have its path by then.
    hosts : sequence of str
        Allowed host names: ``"reports.example.org"``, ``"*.example.org"`` (any subdomain),
        ``"127.0.0.1"``, ``"::1"``. Others are refused: otherwise another site could point a name of
        its own here and read the history (DNS rebinding).

    Returns
    -------
    ASGI application
        Answers GET and HEAD only.

    Raises
    ------
    ArgumentError
        A host name is invalid.
    """
    pages = {
        "/": _Page(_nights, ("before",)),
        "/night/{date}": _Page(_night),
        "/slice": _Page(_slice, ("slice", "measure")),
        "/compare": _Page(_compare, ("first", "second")),
    }
    drawer = _Drawer(source)
    application = Starlette(
        routes=[
            Route(path, _endpoint(each, drawer), methods=["GET"]) for path, each in pages.items()
        ],
        exception_handlers={HTTPException: _error_page},
    )
    names = [_allowed(name) for name in hosts]
    return _Headers(TrustedHostMiddleware(application, names, www_redirect=False))


def load_libraries(source: HistoryFile) -> None:
    """Load the libraries of a page, for which the first request would wait.

    The latest night is drawn.

    Parameters
    ----------
    source : HistoryFile
    """
    # A history that cannot be read now may be readable at the first request, which says why.
    with suppress(FastRankEvalError), source.open() as history:
        history = history.of(next(iter(history.labels()), ""))
        dates = history.dates()
        if dates:
            _night_page(history, dates, dates[-1])


_Answer = Callable[[History, Request], str]


class _Page(NamedTuple):
    """A kind of page, and the parameters of an address that it reads."""

    answer: _Answer
    parameters: tuple[str, ...] = ()

    def key(self, request: Request) -> Hashable:
        """Identify a page; parameters that it does not read make no other page."""
        values = [request.query_params.get(name) for name in ("label", *self.parameters)]
        return request.url.path, *values


class _Drawer:
    """Draws several pages at a time, each once."""

    def __init__(self, source: HistoryFile) -> None:
        self._source, self._cache = source, PageCache()
        self._threads = asyncio.Semaphore(THREADS)
        #: Held while a page is drawn; a lock goes with the last request that waits for it.
        self._turns: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def page(self, page: _Page, request: Request) -> bytes:
        """Return a page from the cache, or draw it in a thread."""
        key, stamp = page.key(request), self._source.stamp()
        content = self._cache.get(stamp, key)
        if content is not None:
            return content
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn, self._threads:
            # The request before may have drawn it, and this client may have gone.
            content = self._cache.get(stamp, key)
            if content is None and await request.is_disconnected():
                return b""
            if content is None:
                content = await run_in_threadpool(self._draw, page.answer, request)
                self._cache.add(stamp, key, content)
        return content

    def _draw(self, answer: _Answer, request: Request) -> bytes:
        with self._source.open() as history:
            return answer(_for_label(history, request), request).encode()


def _for_label(history: History, request: Request) -> History:
    """Return the history of the requested label, by default the first."""
    labels = history.labels() or ("",)
    label = request.query_params.get("label", labels[0])
    if label not in labels:
        raise HTTPException(404, "The history has no such label.")
    return history.of(label)


def _nights(history: History, request: Request) -> str:
    """Show the list of nights."""
    dates = history.dates()
    before_text = request.query_params.get("before")
    if before_text is not None:
        before = _date(before_text)
        dates = [date for date in dates if date < before]
    dates_on_page = dates[-NIGHTS:]
    nights = []
    if dates_on_page:
        nights = history.read(dates_on_page[0], dates_on_page[-1], details_from=dt.date.max)
    earlier = dates_on_page[0] if len(dates) > len(dates_on_page) else None
    links = WebLinks(label=history.label)
    first = dates_on_page[0] if earlier else None
    failures = history.failures(first, None if before_text is None else before)
    content = nights_content(nights, earlier, failures)
    if history.label and dates:
        content |= labels_content(
            history, dates[-1], lambda label: WebLinks(label=label).home(), history.label
        )
    return _page("nights.html", **content, links=links)


def _night(history: History, request: Request) -> str:
    """Show one night, with earlier nights for its trends."""
    return _night_page(history, *_requested(history, request.path_params["date"]))


def _night_page(history: History, dates: Sequence[dt.date], date: dt.date) -> str:
    index = dates.index(date)
    after = dates[index + 1] if index + 1 < len(dates) else None
    first = date - dt.timedelta(days=NIGHTS - 1)
    nights = history.read(first, date, details_from=date)
    failures = history.failures(first, date if after else None)
    nights[-1] = replace(nights[-1], not_evaluated=failures)
    links = WebLinks(
        dates[index - 1] if index else None,
        after,
        labels=other_labels(history, nights[-1], lambda label: WebLinks(label=label).night(date)),
        label=history.label,
    )
    nights[-1] = _with_periods(history, nights[-1])
    return page(nights, links=links)


def _with_periods(history: History, night: Night) -> Night:
    """Add week, month and compositions, stored or merged if that is quick."""
    if stored := history.with_periods(night):
        return stored
    first = night.date - dt.timedelta(days=max(PERIODS.values()) - 1)
    try:
        size = history.state_bytes(first, night.date)
        if size <= MAX_STATE_BYTES:
            return with_periods(night, history)
        note = (
            f"Week and month are not shown here: merging {size / 1e6:,.0f} MB of saved states "
            "takes too long. The page that 'fastrank-eval nightly' writes has them."
        )
    except FastRankEvalError as error:
        note = f"Week and month are not shown: {error}"
    return replace(night, period_notes=(note,))


def _slice(history: History, request: Request) -> str:
    """Show a measure on a slice over all nights."""
    slice_label = request.query_params.get("slice", "all")
    measure = request.query_params.get("measure", "")
    content = slice_content(history.read(of=(slice_label, measure)), slice_label, measure)
    if content is None:
        raise HTTPException(404, "No night has this measure on this slice.")
    return _page("slice.html", **content, links=WebLinks(label=history.label))


def _compare(history: History, request: Request) -> str:
    """Show two nights side by side."""
    pair = []
    for name in ("first", "second"):
        _, date = _requested(history, request.query_params.get(name, ""))
        pair += history.read(date, date)
    links = WebLinks(label=history.label)
    return _page("compare.html", **compare_content(pair[0], pair[1]), links=links)


def _requested(history: History, text: str) -> tuple[list[dt.date], dt.date]:
    dates, date = history.dates(), _date(text)
    if date not in dates:
        why = history.failures(date, date).get(date)
        failed = f"{date} was not evaluated: {why}"
        raise HTTPException(404, failed if why else f"The history has no night {date}.")
    return dates, date


class _Headers:
    """Adds headers to every response, also to errors, and logs it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = time.perf_counter(), None

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
                status = message["status"]
            await send(message)

        await self._app(scope, receive, send_with_headers)
        # The query of an address may have the password of a proxy.
        seconds = time.perf_counter() - started
        request = {"method": scope.get("method"), "path": scope.get("path")}
        SERVE.info("request", **request, status=status, seconds=seconds)


def _endpoint(page: _Page, drawer: _Drawer) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        if len(request.url.query) > LONGEST_QUERY:
            raise HTTPException(414, "The address is too long.")
        try:
            return HTMLResponse(await drawer.page(page, request))
        except HTTPException:
            raise
        except FastRankEvalError as error:
            return _error(503, str(error))
        except Exception:
            SERVE.exception("page cannot be drawn", path=request.url.path)
            message = "The page could not be drawn; the log of the server has the reason."
            return _error(500, message)

    return endpoint


def _date(text: str) -> dt.date:
    try:
        return parse_date(text)
    except ArgumentError:
        raise HTTPException(404, "A night is named by its date, such as 2026-11-19.") from None


def _page(template: str, **content: object) -> str:
    return render(template, forms="'self'", **content)


def _error(code: int, message: str) -> Response:
    text = _page("error.html", links=WebLinks(), code=code, message=message)
    return HTMLResponse(text, code)


async def _error_page(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return _error(error.status_code, error.detail)
