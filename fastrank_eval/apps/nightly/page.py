"""Write the page of a night."""

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

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.files import atomic_path
from fastrank_eval.apps.nightly.night import CurveLine, Night, NightValue
from fastrank_eval.apps.nightly.page_rows import (
    Change,
    Line,
    NightSeries,
    TopChanges,
    activity_measure,
    activity_of,
    counted_of,
    top_changes,
)
from fastrank_eval.apps.nightly.pages import Links
from fastrank_eval.apps.nightly.sentences import sentences
from fastrank_eval.apps.nightly.text import (
    STATUSES,
    ago,
    ago_exactly,
    amount,
    caution,
    convention,
    count,
    gate_texts,
    how_sure,
    interval,
    level_of,
    meaning,
    nights_text,
    outcome_of,
    period_nights,
    share,
)
from fastrank_eval.results.format import printable

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "MOST_SLICES",
    "check_libraries",
    "night_content",
    "page",
    "policy",
    "render",
    "write_page",
]


#: Lines of a table; larger pages open slowly.
MOST_SLICES = 500
_MOST_MOVERS = 6
_MOST_TRENDS = 8
_MOST_REASONS = 6
#: Cards of what was found.
_MOST_CARDS = 4
_MARKS = {"gate": "gate failed", "scores": "too few distinct scores", "change": "changed"}
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


def night_content(series: NightSeries) -> dict[str, Any]:
    """Fill the template of a night.

    Parameters
    ----------
    series : NightSeries

    Returns
    -------
    dict
    """
    from fastrank_eval.analysis.plots import styled
    from fastrank_eval.apps.nightly import charts

    night = series.last
    headline = series.headline()
    slices = [(name, series.slices(name)) for name in night.measures]
    active = activity_of(night.values, activity_measure(night.measures))
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
                charts.activity(f"activity-{place}", _activity_title(by, active), of, night.models),
                list(_buckets(series, of)),
            )
            for place, (by, of) in enumerate(active.items())
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
        "level": level_of(night),
        "told": sentences(night) or [meaning(night)],
        "gate_texts": _shortened(gate_texts(night)),
        "sections": _SECTIONS,
        "kinds": series.kinds,
        "headline": headline,
        "cards": _cards(series, headline),
        "moved": _moved(series),
        "periods": _periods(series),
        "keys": keys,
        "trends": trends,
        "bare": _without_intervals(series, night.measures[:_MOST_TRENDS]),
        "edges": charts.edges(series.nights),
        "untrended": night.measures[_MOST_TRENDS:],
        "slices": [
            (measure, lines[:MOST_SLICES], len(lines[MOST_SLICES:]))
            for measure, lines in slices
            if lines
        ],
        "activity": activity,
        "curves": curves,
        "quality_charts": quality_charts,
    }


def _cards(series: NightSeries, headline: Sequence[Line]) -> list[tuple[Line, str]]:
    """The first measure of each model, then what was found to be wrong, and how to mark it."""
    night = series.last
    marks: dict[tuple[str, str, str], str] = {}
    for one in night.findings:
        mark = _MARKS.get(one.kind, "")
        marks.setdefault((one.score, one.slice, one.measure), mark)
    first = [line for line in headline if line.value.measure == night.measures[0]]
    cards = {_of(line): line for line in first}
    for of in list(marks):
        line = series.line(*of)
        if of not in cards and line is not None and len(cards) < len(first) + _MOST_CARDS:
            cards[of] = line
    return [(line, marks.get(of, "")) for of, line in cards.items()]


def _of(line: Line) -> tuple[str, str, str]:
    return line.value.score, line.value.slice, line.value.measure


def _moved(series: NightSeries) -> list[tuple[str, list[tuple[TopChanges, Change]], int]]:
    """What moved since earlier nights and beside the baseline, and how much more did."""
    found = top_changes(series.last)
    boxes = []
    for box in ("since", "baseline"):
        if any((kind == "baseline") == (box == "baseline") for kind in series.kinds):
            here = [m for m in found if (m.difference.kind == "baseline") == (box == "baseline")]
            shown = [(one, series.change(one.difference)) for one in here[:_MOST_MOVERS]]
            boxes.append((box, shown, len(here) - len(shown)))
    return boxes


def _past(series: NightSeries, measure: str, part: str = "all") -> Mapping[str, Any]:
    return {model: series.past(model, part, measure) for model in series.last.models}


def _by_night(series: NightSeries, measure: str) -> list[tuple[dt.date, list[tuple[str, str]]]]:
    """The numbers of a trend and their intervals as text, the last night first."""
    digits = series.digits(measure)
    columns = _past(series, measure).values()
    rows = [
        (night.date, [_cell(column[at], digits) for column in columns])
        for at, night in enumerate(series.nights)
    ]
    return rows[::-1]


def _without_intervals(series: NightSeries, measures: Sequence[str]) -> list[str]:
    """Measures whose trends have no band."""
    sure = {
        value.measure
        for night in series.nights
        for value in night.values
        if value.slice == "all" and math.isfinite(value.ci_low)
    }
    return [measure for measure in measures if measure not in sure]


def _activity_title(by: str, active: Mapping[str, Sequence[NightValue]]) -> str:
    """What is drawn; with the slicing, where several count the same."""
    first = active[by][0]
    counted = counted_of(first.slice)
    alike = [each for each, of in active.items() if counted_of(of[0].slice) == counted]
    title = f"{first.measure} by {counted} of the group"
    return f"{title}, {by}" if len(alike) > 1 else title


def _buckets(
    series: NightSeries, values: Sequence[NightValue]
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    digits = series.digits(values[0].measure, whole=False)
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
    return [(name, period_nights(night, name)) for name in night.periods], rows, parts[:MOST_SLICES]


def _cell(value: NightValue | None, digits: int) -> tuple[str, str]:
    """A value and its interval as text."""
    if value is None:
        return amount(math.nan, digits), ""
    return amount(value.value, digits), interval(value.ci_low, value.ci_high, digits)


def _shortened(told: Sequence[str]) -> list[str]:
    left = len(told) - _MOST_REASONS
    return [*told[:_MOST_REASONS], f"and {left} more"] if left > 0 else list(told)


def page(nights: Sequence[Night], *, note: str = "", links: Links | None = None) -> str:
    """Give the page of a night.

    Parameters
    ----------
    nights : sequence of Night
        The latest is the one shown; the others make its trends.
    note : str
        What else stands at the foot, such as where the history lies.
    links : Links, optional
        Where the other pages are.

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
    return render("night.html", **night_content(series), note=note, links=links)


def write_page(
    nights: Sequence[Night],
    path: str | os.PathLike[str],
    *,
    note: str = "",
    overwrite: bool = True,
    links: Links | None = None,
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
    links : Links, optional
        As of `page`.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    text = page(nights, note=note, links=links)
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
    folder = files("fastrank_eval.apps.nightly") / "templates"
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

    from fastrank_eval.apps.nightly.charts import spark

    made = Environment(
        loader=PackageLoader("fastrank_eval.apps.nightly", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    made.globals.update(
        ago=ago,
        ago_exactly=ago_exactly,
        caution=caution,
        convention=convention,
        count=count,
        drift=_drift,
        how_sure=how_sure,
        key=_key,
        nights_text=nights_text,
        outcome_of=outcome_of,
        share=share,
        spark=spark,
        statuses=STATUSES,
    )
    return made


def _key(number: float) -> str:
    """What a table is sorted by; nothing where there is no number."""
    return f"{number:.6g}" if math.isfinite(number) else ""


def _drift(deviations: float) -> str:
    return f"drift {amount(deviations, 1, sign=True)}" if math.isfinite(deviations) else ""
