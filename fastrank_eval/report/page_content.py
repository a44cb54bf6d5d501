"""What the page of a night shows."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastrank_eval.report.lines import (
    Change,
    Line,
    NightSeries,
    activity_measure,
    activity_of,
    counted_of,
)
from fastrank_eval.report.moved import Moved, moved
from fastrank_eval.report.nights import CurveLine, NightValue
from fastrank_eval.report.sentences import sentences
from fastrank_eval.report.wording import (
    amount,
    gate_texts,
    interval,
    level_of,
    meaning,
    period_nights,
)

__all__ = ["MOST_SLICES", "night_content"]

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
    from fastrank_eval.pictures.style import styled
    from fastrank_eval.report import charts

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


def _moved(series: NightSeries) -> list[tuple[str, list[tuple[Moved, Change]], int]]:
    """What moved since earlier nights and beside the baseline, and how much more did."""
    found = moved(series.last)
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
