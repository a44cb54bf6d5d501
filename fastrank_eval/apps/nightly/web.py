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
from fastrank_eval.apps.nightly.compare_nights import convention_differences, from_earlier
from fastrank_eval.apps.nightly.dates import parse_date
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import PERIODS, Night, NightDifference, NightValue
from fastrank_eval.apps.nightly.page import MAX_SLICES, check_libraries, page, policy, render
from fastrank_eval.apps.nightly.page_rows import Change, NightSeries
from fastrank_eval.apps.nightly.pages import LONGEST_QUERY, WebLinks
from fastrank_eval.apps.nightly.periods import NightStates, with_periods
from fastrank_eval.apps.nightly.text import (
    amount,
    confidence_of,
    confidence_text,
    digits_of,
    interval,
    lead,
)
from fastrank_eval.measures.parser import measure as measure_of

__all__ = [
    "AllowedHosts",
    "CurrentHistory",
    "Nights",
    "compare_content",
    "nights_content",
    "slice_content",
    "web_view",
]

_HOST_PATTERN = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")
_NAME_PATTERN = re.compile(r"(?:\*\.)?[\w-]+(?:\.[\w-]+)*\.?")


class AllowedHosts:
    """The allowed names and addresses of a server.

    Parameters
    ----------
    names : iterable of str
        ``"reports.example.org"``, ``"*.example.org"`` (any subdomain), ``"127.0.0.1"``, ``"::1"``.

    Raises
    ------
    ArgumentError
        A name is invalid.

    Examples
    --------
    >>> allowed = AllowedHosts(["localhost", "::1"])
    >>> [host in allowed for host in ("LOCALHOST.:8642", "[::1]:8642", "evil.org", "")]
    [True, True, False, False]
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._suffixes: list[str] = []
        for name in names:
            normalized = _normalized(name)
            if not _is_address(normalized) and not _NAME_PATTERN.fullmatch(normalized):
                raise ArgumentError(
                    f"{name!r} is no name of a host; write it as reports.example.org, or "
                    "*.example.org for all its subdomains."
                )
            if normalized.startswith("*"):
                self._suffixes.append(normalized[1:])
            else:
                self._names.add(normalized)

    def __contains__(self, header: str) -> bool:
        """Tell whether the ``Host`` of a request is allowed."""
        match = _HOST_PATTERN.fullmatch(header)
        if match is None:
            return False
        host = _normalized(match[1])
        return host in self._names or any(host.endswith(suffix) for suffix in self._suffixes)


def _normalized(name: str) -> str:
    """Normalize a host name: lower case, no brackets, no final dot."""
    text = name.removeprefix("[").removesuffix("]").lower()
    if _is_address(text):
        return ipaddress.ip_address(text).compressed
    return text.removesuffix(".")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class CurrentHistory:
    """Reads a history, and reopens the file if it was replaced.

    Parameters
    ----------
    path : path
    patience : float
        As in `History`.

    Raises
    ------
    HistoryError
        As in `History`; every reading method also raises it if the file is gone.
    """

    def __init__(self, path: str | os.PathLike[str], patience: float) -> None:
        self._path, self._patience = Path(path), patience
        self._file = self._identity()
        self._opened: History | None = self._open()

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def dates(self) -> list[dt.date]:
        """See `History`."""
        return self._current().dates()

    def read(
        self,
        first: dt.date,
        last: dt.date,
        *,
        details_from: dt.date | None = None,
        of: tuple[str, str] | None = None,
    ) -> list[Night]:
        """See `History`."""
        return self._current().read(first, last, details_from=details_from, of=of)

    def rows(self, first: dt.date, last: dt.date) -> Mapping[dt.date, int]:
        """See `History`."""
        return self._current().rows(first, last)

    def repeats(self, first: dt.date, last: dt.date) -> Mapping[dt.date, dt.date]:
        """See `History`."""
        return self._current().repeats(first, last)

    def repeated(self, fingerprint: str, before: dt.date) -> dt.date | None:
        """See `History`."""
        return self._current().repeated(fingerprint, before)

    def state(self, date: dt.date, kind: str) -> bytes | None:
        """See `History`."""
        return self._current().state(date, kind)

    def state_bytes(self, first: dt.date, last: dt.date) -> int:
        """See `History`."""
        return self._current().state_bytes(first, last)

    def _current(self) -> History:
        identity = self._identity()
        if identity is None and self._file is not None:
            self.close()
            raise HistoryError(f"{self._path}: is gone; put it back, and load the page again.")
        if self._opened is None or identity != self._file:
            self.close()
            self._opened, self._file = self._open(), identity
        return self._opened

    def _open(self) -> History:
        return History(self._path, readonly=True, patience=self._patience)

    def _identity(self) -> tuple[int, int] | None:
        with suppress(OSError):
            status = self._path.stat()
            return status.st_dev, status.st_ino
        return None


_Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Pair:
    """A value on two nights with intervals as text, and the difference."""

    value: NightValue
    earlier: NightValue | None
    texts: tuple[tuple[str, str], ...]
    change: Change | None

    @property
    def interval(self) -> str:
        """The interval of the second night."""
        return self.texts[1][1]

    @property
    def rank(self) -> tuple[bool, float]:
        """The sort key: significant changes first, by strength."""
        if self.change is None:
            return True, 0.0
        return not self.change.verdict.shown, -self.change.strength


def nights_content(nights: Sequence[Night], earlier: dt.date | None) -> dict[str, Any]:
    """Return the values for the list of nights, the latest first.

    Parameters
    ----------
    nights : sequence of Night
    earlier : dt.date or None
        The first date of this page, if another page has earlier nights.
    """
    rows = []
    measure = nights[-1].measures[0] if nights and nights[-1].measures else ""
    models = nights[-1].models if nights else ()
    digits = digits_of(v for n in nights for v in n.values if _headline(v, measure))
    for night in reversed(nights):
        value_by_model = {value.score: value for value in night.values if _headline(value, measure)}
        cells = [
            (amount(one.value, digits), interval(one.ci_low, one.ci_high, digits), one.value)
            if one
            else ("–", "", math.nan)
            for one in map(value_by_model.get, models)
        ]
        rows.append((night, cells, lead(night)))
    title = nights[-1].title if nights else "No nights"
    return {
        "title": title,
        "rows": rows,
        "level": confidence_text(nights[-1]) if nights else "",
        "with_intervals": any(interval for _, cells, _ in rows for _, interval, _ in cells),
        "models": models,
        "measure": measure,
        "dates": [night.date for night in reversed(nights)],
        "earlier": earlier,
    }


def slice_content(nights: Sequence[Night], slice_label: str, measure: str) -> dict[str, Any] | None:
    """Return a measure on a slice over time; None if no night has it."""
    with_slice = [
        night
        for night in nights
        if any(value.slice == slice_label and value.measure == measure for value in night.values)
    ]
    if not with_slice:
        return None
    check_libraries()
    from fastrank_eval.analysis.plots import styled
    from fastrank_eval.apps.nightly import charts

    # Nights without the slice leave a gap.
    series = NightSeries([n for n in nights if with_slice[0].date <= n.date <= with_slice[-1].date])
    models = list(dict.fromkeys(model for night in with_slice for model in night.models))
    past = {model: series.past(model, slice_label, measure) for model in models}
    digits = digits_of(value for values in past.values() for value in values if value is not None)
    with styled():
        keys = [charts.key(index) for index in range(len(models))]
        chart = charts.trend("slice", f"{measure} of {slice_label}", series.nights, past)
    rows = [
        (
            night,
            [
                (amount(v.value, digits), interval(v.ci_low, v.ci_high, digits), v)
                if (v := past[model][index]) is not None
                else None
                for model in models
            ],
        )
        for index, night in enumerate(series.nights)
    ]
    return {
        "title": series.last.title,
        "slice_label": slice_label,
        "measure": measure,
        "models": models,
        "baseline": series.last.baseline,
        "keys": keys,
        "chart": chart,
        "rows": rows[::-1],
        "level": confidence_text(series.last),
        "with_intervals": any(cell[1] for _, cells in rows for cell in cells if cell is not None),
    }


def compare_content(first: Night, second: Night) -> dict[str, Any]:
    """Return the values for two nights side by side with their differences.

    The differences are those of `from_earlier`, so that they equal those on the page of the second
    night. There are none if conventions differ.
    """
    different = convention_differences(second, first)
    earlier = {(v.score, v.by, v.slice, v.measure): v for v in first.values}
    confidence = confidence_of(second)
    measures = {measure for measure in {v.measure for v in second.values} if _is_known(measure)}
    values = [value for value in second.values if value.measure in measures]
    differences = {
        (one.score, one.by, one.slice, one.measure): one
        for one in from_earlier("other", values, first.values, confidence)
        if not different
    }
    overall = [value for value in second.values if value.slice == "all"]
    on_slices = [value for value in second.values if value.slice != "all"]
    order = {measure: index for index, measure in enumerate(second.measures)}
    overall.sort(key=lambda value: order.get(value.measure, len(order)))
    tables = [("All rows", _pairs(overall, earlier, differences, confidence), 0)]
    for measure in second.measures:
        pairs = _pairs(
            [v for v in on_slices if v.measure == measure], earlier, differences, confidence
        )
        pairs.sort(key=lambda pair: pair.rank)
        if pairs:
            tables.append((f"{measure} by slice", pairs[:MAX_SLICES], len(pairs[MAX_SLICES:])))
    return {
        "title": second.title,
        "first": first,
        "second": second,
        "different": different,
        "unsound": [night.date for night in (first, second) if night.status == "data_quality"],
        "tables": tables,
        "level": confidence_text(second),
    }


def _headline(value: NightValue, measure: str) -> bool:
    return value.slice == "all" and value.measure == measure


def _is_known(measure: str) -> bool:
    """Tell whether this version has a measure."""
    try:
        measure_of(measure)
    except FastRankEvalError:
        return False
    return True


def _pairs(
    values: Sequence[NightValue],
    earlier: Mapping[_Key, NightValue],
    differences: Mapping[_Key, NightDifference],
    confidence: float,
) -> list[Pair]:
    pairs = []
    digits = {
        measure: digits_of(value for value in values if value.measure == measure)
        for measure in {value.measure for value in values}
    }
    for value in values:
        key = value.score, value.by, value.slice, value.measure
        old, decimals = earlier.get(key), digits[value.measure]
        texts = tuple(
            ("–", "")
            if v is None
            else (amount(v.value, decimals), interval(v.ci_low, v.ci_high, decimals))
            for v in (old, value)
        )
        change = Change.of(differences[key], confidence, decimals) if key in differences else None
        pairs.append(Pair(value, old, texts, change))
    return pairs


#: Nights on a page.
NIGHTS = 30
#: The most bytes of saved states to merge for a request.
MAX_STATE_BYTES = 32_000_000
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
    """A store of nights, such as `history.History`."""

    def dates(self) -> list[dt.date]:
        """Return the dates of all nights, ascending."""

    def read(
        self,
        first: dt.date,
        last: dt.date,
        *,
        details_from: dt.date | None = None,
        of: tuple[str, str] | None = None,
    ) -> list[Night]:
        """Read the nights from `first` to `last`, ascending; see `History.read`."""

    def state_bytes(self, first: dt.date, last: dt.date) -> int:
        """Return the total bytes of the saved states of some nights."""


def web_view(history: Nights, *, hosts: Sequence[str] = ("127.0.0.1", "localhost")) -> Starlette:
    """Make the read-only web application of a history.

    Parameters
    ----------
    history : Nights
    hosts : sequence of str
        Allowed host names. Others are refused: otherwise another site could point a name of its
        own here and read the history (DNS rebinding).

    Returns
    -------
    starlette.applications.Starlette
        Answers GET and HEAD only.

    Raises
    ------
    ArgumentError
        A host name is invalid.
    """
    pages = _Pages(history)
    routes = [
        ("/", pages.nights),
        ("/night/{date}", pages.night),
        ("/slice", pages.slice),
        ("/compare", pages.compare),
    ]
    return Starlette(
        routes=[Route(path, _endpoint(answer), methods=["GET"]) for path, answer in routes],
        middleware=[
            Middleware(_Headers),
            Middleware(_HostCheck, allowed=AllowedHosts(hosts)),
        ],
        exception_handlers={HTTPException: _error_page, FastRankEvalError: _unavailable_page},
    )


class _Pages:
    """The page of each address."""

    def __init__(self, history: Nights) -> None:
        self._history = history

    def nights(self, request: Request) -> Response:
        """Show the list of nights."""
        dates = self._history.dates()
        before_text = request.query_params.get("before")
        if before_text is not None:
            before = _date(before_text)
            dates = [date for date in dates if date < before]
        dates_on_page = dates[-NIGHTS:]
        nights = []
        if dates_on_page:
            nights = self._history.read(
                dates_on_page[0], dates_on_page[-1], details_from=dt.date.max
            )
        earlier = dates_on_page[0] if len(dates) > len(dates_on_page) else None
        return _page("nights.html", **nights_content(nights, earlier), links=WebLinks())

    def night(self, request: Request) -> Response:
        """Show one night, with earlier nights for its trends."""
        dates, date = self._requested(request.path_params["date"])
        index = dates.index(date)
        after = dates[index + 1] if index + 1 < len(dates) else None
        links = WebLinks(dates[index - 1] if index else None, after)
        first = date - dt.timedelta(days=NIGHTS - 1)
        nights = self._history.read(first, date, details_from=date)
        nights[-1] = self._with_periods(nights[-1])
        return HTMLResponse(page(nights, links=links))

    def _with_periods(self, night: Night) -> Night:
        """Add week and month to a night if merging takes a second or two at most."""
        first = night.date - dt.timedelta(days=max(PERIODS.values()) - 1)
        try:
            size = self._history.state_bytes(first, night.date)
            if size <= MAX_STATE_BYTES:
                return with_periods(night, self._history)
            note = (
                f"Week and month are not shown here: merging {size / 1e6:,.0f} MB of saved states "
                "takes too long. The page that 'fastrank-eval nightly' writes has them."
            )
        except FastRankEvalError as error:
            note = f"Week and month are not shown: {error}"
        return replace(night, period_notes=(note,))

    def slice(self, request: Request) -> Response:
        """Show a measure on a slice over all nights."""
        slice_label = request.query_params.get("slice", "all")
        measure = request.query_params.get("measure", "")
        dates = self._history.dates()
        key = slice_label, measure
        nights = self._history.read(dates[0], dates[-1], of=key) if dates else []
        content = slice_content(nights, slice_label, measure)
        if content is None:
            raise HTTPException(404, "No night has this measure on this slice.")
        return _page("slice.html", **content, links=WebLinks())

    def compare(self, request: Request) -> Response:
        """Show two nights side by side."""
        pair = []
        for name in ("first", "second"):
            _, date = self._requested(request.query_params.get(name, ""))
            pair += self._history.read(date, date)
        return _page("compare.html", **compare_content(pair[0], pair[1]), links=WebLinks())

    def _requested(self, text: str) -> tuple[list[dt.date], dt.date]:
        dates, date = self._history.dates(), _date(text)
        if date not in dates:
            raise HTTPException(404, f"The history has no night {date}.")
        return dates, date


class _Headers:
    """Adds headers to every response, also to errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class _HostCheck:
    """Refuses requests with a host name that is not allowed."""

    def __init__(self, app: ASGIApp, allowed: AllowedHosts) -> None:
        self._app, self._allowed = app, allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or Headers(scope=scope).get("host", "") in self._allowed:
            await self._app(scope, receive, send)
            return
        message = "The host name of the address is not allowed (see --allow-host)."
        response = _page("error.html", 400, links=WebLinks(), code=400, message=message)
        await response(scope, receive, send)


def _endpoint(
    answer: Callable[[Request], Response],
) -> Callable[[Request], Awaitable[Response]]:
    # Starlette runs a plain function in its own thread, and a coroutine in the server's thread.
    async def endpoint(request: Request) -> Response:
        if len(request.url.query) > LONGEST_QUERY:
            raise HTTPException(414, "The address is too long.")
        try:
            return answer(request)
        except (HTTPException, FastRankEvalError):
            raise
        except Exception as error:
            _LOG.exception("the page %s could not be drawn", request.url.path)
            return await _error_page(request, error)

    return endpoint


def _date(text: str) -> dt.date:
    try:
        return parse_date(text)
    except ArgumentError:
        raise HTTPException(404, "A night is named by its date, such as 2026-11-19.") from None


def _page(template: str, status: int = 200, **content: object) -> Response:
    return HTMLResponse(render(template, forms="'self'", **content), status)


async def _error_page(_: Request, error: Exception) -> Response:
    code, message = 500, "The page could not be drawn; the log of the server has the reason."
    if isinstance(error, HTTPException):
        code, message = error.status_code, error.detail
    return _page("error.html", code, links=WebLinks(), code=code, message=message)


async def _unavailable_page(_: Request, error: Exception) -> Response:
    return _page("error.html", 503, links=WebLinks(), code=503, message=str(error))
