"""A night as one self-contained page: opens offline, asks for nothing, runs only what it brings."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fastrank_eval.cell_texts import printable
from fastrank_eval.errors import ArgumentError
from fastrank_eval.output import atomic_path
from fastrank_eval.report.lines import Line, NightSeries, activity_of, movers
from fastrank_eval.report.nights import CurveLine, Night, NightValue
from fastrank_eval.report.wording import (
    STATUSES,
    ago,
    ago_exactly,
    amount,
    convention,
    count,
    interval,
    period_nights,
    reasons,
    share,
)

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["check_libraries", "page", "policy", "render", "write_page"]

_MOST_MOVERS = 6
_MOST_TRENDS = 8
_MOST_REASONS = 6
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SECTIONS = (
    ("headline", "Headline numbers"),
    ("moved", "What moved"),
    ("trends", "Trends"),
    ("slices", "Slices"),
    ("curves", "Curves"),
    ("quality", "Data quality"),
    ("gates", "Gates"),
    ("made", "How it was made"),
)


def page(nights: Sequence[Night], *, note: str = "", links: Any = None) -> str:
    """Give the page of a night.

    Parameters
    ----------
    nights : sequence of Night
        The latest is the one shown; the others make its trends.
    note : str
        What else stands at the foot, such as where the history lies.
    links : Links, optional
        Where the other pages are; none for a file.

    Returns
    -------
    str
        HTML without any request; every text of the nights is escaped.

    Raises
    ------
    ValueError
        If there is no night.
    ArgumentError
        If a library that draws pages is missing.
    """
    check_libraries()
    series = NightSeries(nights)
    return render("night.html", **_content(series), note=note, links=links)


def write_page(
    nights: Sequence[Night], path: str | os.PathLike[str], *, note: str = "", overwrite: bool = True
) -> None:
    """Write the page of a night to a file, whole or not at all.

    Parameters
    ----------
    nights : sequence of Night
        As of `page`.
    path : str or path
    note : str
        As of `page`.
    overwrite : bool
        Whether a file that is there may be replaced.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    text = page(nights, note=note)
    with atomic_path(path, overwrite=overwrite) as part:
        part.write_text(text, encoding="utf-8")


def check_libraries() -> None:
    """Refuse to draw a page without the libraries for it.

    Raises
    ------
    ArgumentError
        If one is not installed.
    """
    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing:
        raise ArgumentError(
            f"pages need {' and '.join(missing)}, not installed: "
            "pip install 'fastrank_eval[report]'."
        )


def render(template: str, *, forms: str = "'none'", **content: object) -> str:
    """Fill a template.

    Parameters
    ----------
    template : str
    forms : str
        As of `policy`.
    **content : object
        Texts are escaped, and made printable.
    """
    from markupsafe import Markup

    style, script = _texts()
    filled = (
        _environment()
        .get_template(template)
        .render(
            policy=policy(forms),
            style=Markup(style),  # noqa: S704 (ours)
            script=Markup(script),  # noqa: S704 (ours)
            **content,
        )
    )
    return _tight(filled) + "\n"


@cache
def policy(forms: str = "'none'") -> str:
    """What a page may load and run (CSP): its own style and script, known by their hash.

    Parameters
    ----------
    forms : str
        Where forms may lead.
    """
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in _texts()
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        f"base-uri 'none'; form-action {forms}"
    )


@cache
def _texts() -> tuple[str, str]:
    """Style and script, as they stand in a page."""
    folder = files("fastrank_eval.report") / "templates"
    style, script = (
        _tight((folder / name).read_text("utf-8")) for name in ("style.css", "tables.js")
    )
    return style, script


def _tight(text: str) -> str:
    """Text without empty lines and blanks around lines; tight text stays as it is."""
    return "\n".join(line for line in map(str.strip, text.splitlines()) if line)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from fastrank_eval.report.charts import spark

    made = Environment(
        loader=PackageLoader("fastrank_eval.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    made.globals.update(
        ago=ago,
        ago_exactly=ago_exactly,
        convention=convention,
        count=count,
        drift=_drift,
        key=_key,
        share=share,
        spark=spark,
        statuses=STATUSES,
    )
    return made


def _content(series: NightSeries) -> dict[str, Any]:
    from fastrank_eval.pictures.style import styled
    from fastrank_eval.report import charts

    night = series.last
    headline = series.headline()
    slices = [(name, series.slices(name)) for name in night.measures]
    lines = headline + [line for _, of in slices for line in of]
    before = [kind for kind in series.kinds if kind != "baseline"]
    moved = [("since", movers(lines, *before))] if before else []
    if "baseline" in series.kinds:
        moved.append(("baseline", movers(lines, "baseline")))
    active = activity_of(night.values, night.measures[0]) if night.measures else {}
    with styled():
        keys = [charts.key(place) for place in range(len(night.models))]
        trends = [
            (
                charts.trend(f"trend-{place}", measure, series.nights, _past(series, measure)),
                _by_night(series, measure),
            )
            for place, measure in enumerate(night.measures[:_MOST_TRENDS])
        ]
        curves = [
            (drawn, _labels(of))
            for place, (kind, of) in enumerate(night.curves.items())
            if (drawn := charts.curve(f"curve-{place}", kind, of, night.models)) is not None
        ]
        activity = [
            (
                charts.activity(
                    f"activity-{counted}",
                    f"{night.measures[0]} by {counted} of the group",
                    values,
                    night.models,
                ),
                list(_buckets(series, values)),
            )
            for counted, values in active.items()
        ]
        qualities = [each.quality for each in series.nights]
        quality_charts = [
            charts.counts("rows", "Rows", series.nights, [q.rows for q in qualities]),
            charts.counts("ctr", "CTR", series.nights, [q.ctr for q in qualities], percent=True),
        ]
    return {
        "night": night,
        "series": series,
        "weekday": _DAYS[night.date.weekday()],
        "level": f"{100 * series.confidence:.12g}%",
        "reasons": _shortened(reasons(night)),
        "sections": _SECTIONS,
        "kinds": series.kinds,
        "headline": headline,
        "cards": [line for line in headline if line.value.measure == night.measures[0]],
        "moved": [
            (kind, found[:_MOST_MOVERS], max(len(found) - _MOST_MOVERS, 0)) for kind, found in moved
        ],
        "periods": _periods(series),
        "keys": keys,
        "trends": trends,
        "edges": charts.edges(series.nights),
        "untrended": night.measures[_MOST_TRENDS:],
        "slices": [(measure, lines) for measure, lines in slices if lines],
        "activity": activity,
        "curves": curves,
        "quality_charts": quality_charts,
    }


def _past(series: NightSeries, measure: str, part: str = "all") -> Mapping[str, Any]:
    return {model: series.past(model, part, measure) for model in series.last.models}


def _by_night(series: NightSeries, measure: str) -> list[tuple[dt.date, list[str]]]:
    """The numbers of a trend as text, the last night first."""
    digits = series.digits(measure)
    columns = _past(series, measure).values()
    rows = [
        (
            night.date,
            [
                amount(math.nan if one is None else one.value, digits)
                for one in (column[at] for column in columns)
            ],
        )
        for at, night in enumerate(series.nights)
    ]
    return rows[::-1]


def _buckets(
    series: NightSeries, values: Sequence[NightValue]
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    digits = series.digits(series.last.measures[0], whole=False)
    for bucket in dict.fromkeys(value.slice for value in values):
        here = {value.score: value for value in values if value.slice == bucket}
        yield (
            bucket.lstrip("@"),
            [_cell(here.get(model), digits) for model in series.last.models],
        )


def _labels(lines: Sequence[CurveLine]) -> str:
    """What is said of the lines of a picture besides whose they are."""
    said = [
        line.label if line.score in line.label else f"{line.score}: {line.label}"
        for line in lines
        if line.label not in ("", line.score)
    ]
    return "; ".join(said)


def _periods(
    series: NightSeries,
) -> tuple[
    list[tuple[str, str]],
    list[tuple[Line, list[tuple[str, str]]]],
    list[tuple[str, str, list[tuple[str, str]]]],
]:
    """Longer periods and how many nights they have, their headline, and slices by one measure."""
    night = series.last
    found = [
        {(value.score, value.slice, value.measure): value for value in values}
        for values in night.periods.values()
    ]
    rows = []
    for line in series.headline():
        of = line.value.score, "all", line.value.measure
        if any(of in by for by in found):
            digits = series.digits(line.value.measure)
            rows.append((line, [_cell(by.get(of), digits) for by in found]))
    places = dict.fromkeys(of for by in found for of in by)
    parts = []
    if night.measures:
        digits = series.digits(night.measures[0], whole=False)
        parts = [
            (part, model, [_cell(by.get((model, part, measure)), digits) for by in found])
            for model, part, measure in places
            if part != "all" and measure == night.measures[0]
        ]
    return [(name, period_nights(night, name)) for name in night.periods], rows, parts


def _cell(value: NightValue | None, digits: int) -> tuple[str, str]:
    """A value and its interval as text."""
    if value is None:
        return amount(math.nan, digits), ""
    return amount(value.value, digits), interval(value.ci_low, value.ci_high, digits)


def _shortened(told: Sequence[str]) -> list[str]:
    left = len(told) - _MOST_REASONS
    return [*told[:_MOST_REASONS], f"and {left} more"] if left > 0 else list(told)


def _key(number: float) -> str:
    """What a table is sorted by; nothing where there is no number."""
    return f"{number:.6g}" if math.isfinite(number) else ""


def _drift(deviations: float) -> str:
    return f"drift {amount(deviations, 1, sign=True)}" if math.isfinite(deviations) else ""
