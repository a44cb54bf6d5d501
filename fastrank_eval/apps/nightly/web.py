"""Serve the pages of a history."""

from __future__ import annotations

import datetime as dt
import ipaddress
import logging
import math
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, HistoryError
from fastrank_eval.apps.nightly.compare_nights import convention_differences, from_earlier
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.mix import with_mixes
from fastrank_eval.apps.nightly.night import PERIODS, Night, NightDifference, parse_date
from fastrank_eval.apps.nightly.page import MAX_SLICES, check_libraries, page, policy, render
from fastrank_eval.apps.nightly.page_rows import Change, NightSeries, cell
from fastrank_eval.apps.nightly.pages import LONGEST_QUERY, WebLinks
from fastrank_eval.apps.nightly.periods import with_periods
from fastrank_eval.apps.nightly.text import (
    confidence_of,
    confidence_text,
    digits_of,
    lead,
)
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.measures.parser import measure as measure_of

_HOST_PATTERN = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")
_NAME_PATTERN = re.compile(r"(?:\*\.)?[\w-]+(?:\.[\w-]+)*\.?")


class AllowedHosts:
    """Refuses requests with a host name that is not allowed.

    Starlette's `TrustedHostMiddleware` compares text: it knows neither other spellings of an
    address, nor a final dot, and before version 1 no address of IPv6 at all.

    Parameters
    ----------
    app : ASGI application
    names : iterable of str
        ``"reports.example.org"``, ``"*.example.org"`` (any subdomain), ``"127.0.0.1"``, ``"::1"``.

    Raises
    ------
    ArgumentError
        A name is invalid.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app, self._names = app, set[str]()
        for name in names:
            normalized = _normalized(name)
            self._names.add(normalized)
            if not _is_address(normalized) and not _NAME_PATTERN.fullmatch(normalized):
                raise ArgumentError(
                    f"{name!r} is not a name of a host; write it as reports.example.org, or "
                    "*.example.org for all its subdomains."
                )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "http" and not self._allows(Headers(scope=scope).get("host", "")):
            message = "The host name of the address is not allowed (see --allow-host)."
            await _error(400, message)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _allows(self, header: str) -> bool:
        match = _HOST_PATTERN.fullmatch(header)
        host = "" if match is None else _normalized(match[1])
        parts = host.split(".")
        suffixes = (".".join(["*", *parts[first:]]) for first in range(1, len(parts)))
        return not self._names.isdisjoint([host, *suffixes])


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


_Key = tuple[str, str | None, str, str]


@dataclass(frozen=True)
class Pair:
    """A value on two nights with intervals as text, and the difference."""

    value: MeasureValue
    earlier: MeasureValue | None
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
        values = map(value_by_model.get, models)
        cells = [(*cell(one, digits), one.value if one else math.nan) for one in values]
        rows.append((night, cells, lead(night)))
    title = nights[-1].title if nights else "No nights"
    return {
        "title": title,
        "rows": rows,
        "level": confidence_text(nights[-1]) if nights else "",
        "with_intervals": any(interval for _, cells, _ in rows for _, interval, _ in cells),
        "models": models,
        "measure": nights[-1].name_of(measure) if nights else "",
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
        name = series.last.name_of(measure)
        chart = charts.trend("slice", f"{name} of {slice_label}", series.nights, past)
    rows = [
        (
            night,
            [
                None if (value := past[model][index]) is None else (*cell(value, digits), value)
                for model in models
            ],
        )
        for index, night in enumerate(series.nights)
    ]
    return {
        "title": series.last.title,
        "slice_label": slice_label,
        "measure": name,
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
            name = second.name_of(measure)
            tables.append((f"{name} by slice", pairs[:MAX_SLICES], len(pairs[MAX_SLICES:])))
    return {
        "title": second.title,
        "first": first,
        "second": second,
        "different": different,
        "unsound": [night.date for night in (first, second) if night.status == "data_quality"],
        "tables": tables,
        "level": confidence_text(second),
    }


def _headline(value: MeasureValue, measure: str) -> bool:
    return value.slice == "all" and value.measure == measure


def _is_known(measure: str) -> bool:
    """Tell whether this version has a measure."""
    try:
        measure_of(measure)
    except FastRankEvalError:
        return False
    return True


def _pairs(
    values: Sequence[MeasureValue],
    earlier: Mapping[_Key, MeasureValue],
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
        texts = cell(old, decimals), cell(value, decimals)
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


def current_history(path: str | os.PathLike[str], patience: float) -> History:
    """Open the history that a path names now; the caller closes it.

    Raises
    ------
    HistoryError
        As in `History`, or if the file is gone.
    """
    if not Path(path).exists():
        raise HistoryError(f"{path}: is gone; put it back, and load the page again.")
    return History(path, readonly=True, patience=patience)


def web_view(
    open_history: Callable[[], AbstractContextManager[History]],
    *,
    hosts: Sequence[str] = ("127.0.0.1", "localhost"),
) -> ASGIApp:
    """Make the read-only web application of a history.

    Parameters
    ----------
    open_history : callable
        Opens the history for one request: another file may have its path by then.
    hosts : sequence of str
        Allowed host names. Others are refused: otherwise another site could point a name of its
        own here and read the history (DNS rebinding).

    Returns
    -------
    ASGI application
        Answers GET and HEAD only.

    Raises
    ------
    ArgumentError
        A host name is invalid.
    """
    pages = {"/": _nights, "/night/{date}": _night, "/slice": _slice, "/compare": _compare}
    application = Starlette(
        routes=[
            Route(path, _endpoint(answer, open_history), methods=["GET"])
            for path, answer in pages.items()
        ],
        exception_handlers={HTTPException: _error_page},
    )
    return _Headers(AllowedHosts(application, hosts))


def _nights(history: History, request: Request) -> Response:
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
    return _page("nights.html", **nights_content(nights, earlier), links=WebLinks())


def _night(history: History, request: Request) -> Response:
    """Show one night, with earlier nights for its trends."""
    dates, date = _requested(history, request.path_params["date"])
    index = dates.index(date)
    after = dates[index + 1] if index + 1 < len(dates) else None
    links = WebLinks(dates[index - 1] if index else None, after)
    first = date - dt.timedelta(days=NIGHTS - 1)
    nights = history.read(first, date, details_from=date)
    nights[-1] = with_mixes(_with_periods(history, nights[-1]), history)
    return HTMLResponse(page(nights, links=links))


def _with_periods(history: History, night: Night) -> Night:
    """Add week and month to a night if merging takes a second or two at most."""
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


def _slice(history: History, request: Request) -> Response:
    """Show a measure on a slice over all nights."""
    slice_label = request.query_params.get("slice", "all")
    measure = request.query_params.get("measure", "")
    content = slice_content(history.read(of=(slice_label, measure)), slice_label, measure)
    if content is None:
        raise HTTPException(404, "No night has this measure on this slice.")
    return _page("slice.html", **content, links=WebLinks())


def _compare(history: History, request: Request) -> Response:
    """Show two nights side by side."""
    pair = []
    for name in ("first", "second"):
        _, date = _requested(history, request.query_params.get(name, ""))
        pair += history.read(date, date)
    return _page("compare.html", **compare_content(pair[0], pair[1]), links=WebLinks())


def _requested(history: History, text: str) -> tuple[list[dt.date], dt.date]:
    dates, date = history.dates(), _date(text)
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


def _endpoint(
    answer: Callable[[History, Request], Response],
    open_history: Callable[[], AbstractContextManager[History]],
) -> Callable[[Request], Awaitable[Response]]:
    # Starlette runs a plain function in its own thread, and a coroutine in the server's thread.
    async def endpoint(request: Request) -> Response:
        if len(request.url.query) > LONGEST_QUERY:
            raise HTTPException(414, "The address is too long.")
        try:
            with open_history() as history:
                return answer(history, request)
        except HTTPException:
            raise
        except FastRankEvalError as error:
            return _error(503, str(error))
        except Exception:
            _LOG.exception("the page %s could not be drawn", request.url.path)
            message = "The page could not be drawn; the log of the server has the reason."
            return _error(500, message)

    return endpoint


def _date(text: str) -> dt.date:
    try:
        return parse_date(text)
    except ArgumentError:
        raise HTTPException(404, "A night is named by its date, such as 2026-11-19.") from None


def _page(template: str, status: int = 200, **content: object) -> Response:
    return HTMLResponse(render(template, forms="'self'", **content), status)


def _error(code: int, message: str) -> Response:
    return _page("error.html", code, links=WebLinks(), code=code, message=message)


async def _error_page(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return _error(error.status_code, error.detail)
