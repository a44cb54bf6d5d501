"""Draw the pictures of pages: lines, bands, and a strip of statuses."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

from fastrank_eval import MeasureValue
from fastrank_eval.apps.nightly.compare_nights import convention_differences, status_name
from fastrank_eval.apps.nightly.night import CurveLine, Night
from fastrank_eval.apps.nightly.text import STATUSES, day_text
from fastrank_eval.results.report import (
    amount,
    detail_text,
    interval_text,
    percent_text,
    printable,
    rough_text,
)

#: Number of colours of models; they repeat after that.
MODEL_COLOURS = 7
#: Dashes of the lines of models, and paths of their marks: lines that overlap stay visible.
_DASHES = ("", "9 2.7", "2.7 2.16", "10.8 2.7 2.7 2.7")
_MARKS = (
    "M-1.7 0a1.7 1.7 0 1 0 3.4 0a1.7 1.7 0 1 0 -3.4 0Z",
    "M-1.7 1.7H1.7V-1.7H-1.7Z",
    "M0 2.4L2.4 0L0 -2.4L-2.4 0Z",
    "M0 -1.7L-1.7 1.7H1.7Z",
    "M0 1.7L1.7 -1.7H-1.7Z",
    "M-.57 1.7H.57V.57H1.7V-.57H.57V-1.7H-.57V-.57H-1.7V.57H-.57Z",
)
_DIM = "var(--dim)"
_GRID = 'stroke="var(--grid)" stroke-width="0.7"'
_EDGE = f'stroke="{_DIM}" stroke-width="0.8"'
_CHANCE = f'stroke="{_DIM}" stroke-dasharray="2 2"'
_WIDTH, _LOW, _HIGH = 342.0, 186.0, 295.0  # of a picture; heights over nights and of curves
_LEFT, _RIGHT, _TOP, _BOTTOM = 50.0, 12.0, 10.0, 38.0  # around the numbers
_TEXT, _LINE = 11.0, 1.8  # sizes of texts and lines
#: Height of the strip, and the share of it that the bar of a status takes.
_STRIP = 8.0
_BARS = {"low": 0.3, "mid": 0.65, "high": 1.0}
#: Numbers that a picture shows are smaller.
_LARGEST = 1e300
#: Axes of a calibration are logarithmic if the ratio of predictions is larger than this.
_LOG_RATIO = 20


class Chart(NamedTuple):
    """A picture of a page: its title, its SVG, and a text below it."""

    title: str
    svg: str
    note: str = ""


class _Point(NamedTuple):
    """A number with the ends of its interval and a tooltip."""

    x: float
    y: float
    low: float = math.nan
    high: float = math.nan
    text: str = ""


class _Axis(NamedTuple):
    """The scale of an axis, its ticks with their texts, and its title."""

    low: float
    high: float
    ticks: Mapping[float, str]
    title: str = ""
    log: bool = False

    def share(self, number: float) -> float:
        """Return the place of a number: 0 is the low end, 1 the high one."""
        ends = self.low, self.high, number
        low, high, at = map(math.log, ends) if self.log else ends
        return (at - low) / (high - low)


class _Frame(NamedTuple):
    """The axes of a picture."""

    x_axis: _Axis
    y_axis: _Axis
    height: float = _HIGH

    @property
    def left(self) -> float:
        """The place of the upright axis."""
        return _LEFT + 14 * bool(self.y_axis.title)

    @property
    def lower(self) -> int:
        """Room for texts of ticks that stand a line lower."""
        return 15 * any(text.startswith("\n") for text in self.x_axis.ticks.values())

    @property
    def bottom(self) -> float:
        """The place of the level axis."""
        return self.height - _BOTTOM - self.lower

    def x(self, number: float) -> float:
        """Return the place of a number on the level axis."""
        return self.left + self.x_axis.share(number) * (_WIDTH - _RIGHT - self.left)

    def y(self, number: float) -> float:
        """Return the place of a number on the upright axis."""
        return self.bottom - self.y_axis.share(number) * (self.bottom - _TOP)

    def path(self, points: Iterable[tuple[float, float]], look: str, end: str = "") -> str:
        """Draw a line through points."""
        places = "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in points)
        return _path(f"M{places}{end}", look)

    def svg(self, label: str, parts: Iterable[str]) -> str:
        """Draw the axes, then the parts of a picture."""
        size = f'viewBox="0 0 {_WIDTH:g} {self.height:g}"'
        inner = "".join([*self._axes(), *parts])
        return f'<svg {size} role="img" aria-label="{_escaped(label)}">{inner}</svg>'

    def _axes(self) -> Iterator[str]:
        right, bottom = _WIDTH - _RIGHT, self.bottom
        for tick, text in self.y_axis.ticks.items():
            yield _path(f"M{self.left:g} {self.y(tick):.1f}H{right:g}", _GRID)
            yield _text(text, self.left - 5, self.y(tick) + 0.36 * _TEXT, "end")
        for tick, text in self.x_axis.ticks.items():
            if self.x_axis.title:
                yield _path(f"M{self.x(tick):.1f} {_TOP:g}V{bottom:g}", _GRID)
            # Without a title, the strip of statuses stands above the texts.
            y = bottom + (16 if self.x_axis.title else 30) + self.lower * text.startswith("\n")
            yield _text(text.strip(), self.x(tick), y)
        yield _path(f"M{self.left:g} {_TOP:g}V{bottom:g}H{right:g}", f'fill="none" {_EDGE}')
        yield _text(self.x_axis.title, (self.left + right) / 2, self.height - 6)
        x, y = 12.0, (_TOP + bottom) / 2
        yield _text(self.y_axis.title, x, y, turn=f' transform="rotate(-90 {x:g} {y:g})"')

    def line(
        self, index: int, points: Sequence[_Point], gap: float = math.inf, marks: str = "",
        colour: str = "", size: float = 1.8,
    ) -> Iterator[str]:  # fmt: skip
        """Draw the band, the line and the marks of a model.

        The line ends where two points are more than a `gap` apart; without a gap, points have bars
        in place of a band. `marks` is the id of the marks, if they are drawn.
        """
        colour = colour or f"var(--model-{index % MODEL_COLOURS + 1})"
        stroke = f'fill="none" stroke="{colour}" stroke-width='
        sure = [point for point in points if math.isfinite(point.low + point.high)]
        if gap:
            for run in _runs(sure, gap):
                ends = [(p.x, p.high) for p in run] + [(p.x, p.low) for p in reversed(run)]
                yield self.path(ends, f'fill="{colour}" fill-opacity="0.16"', "Z")
            dashes = _DASHES[index % len(_DASHES)]
            look = f'{stroke}"{_LINE:g}" stroke-linejoin="round"'
            look += f' stroke-dasharray="{dashes}"' if dashes else ""
            for run in _runs(points, gap):
                yield self.path([(p.x, p.y) for p in run], look)
        else:
            for p in sure:
                yield self.path([(p.x, p.low), (p.x, p.high)], f'{stroke}"1.2"')
        if marks:
            yield f'<defs>{_mark(index, size, marks)}</defs><g fill="{colour}">'
            for p in points:
                title = f"<title>{_escaped(p.text)}</title>" if p.text else ""
                place = f'x="{self.x(p.x):.1f}" y="{self.y(p.y):.1f}"'
                yield f'<use href="#{marks}" {place}>{title}</use>'
            yield "</g>"


def trend(
    name: str,
    title: str,
    nights: Sequence[Night],
    past: Mapping[str, Sequence[MeasureValue | None]],
) -> Chart:
    """Draw a measure over nights: a line with its interval for each model.

    Parameters
    ----------
    name : str
        Unique in the page.
    title : str
    nights : sequence of Night
        In order of their dates.
    past : mapping of str to sequence of MeasureValue or None
        One value per night, by model.

    Returns
    -------
    Chart
    """
    descriptions, lines = [], []
    for model, values in past.items():
        points = [
            _Point(
                night.date.toordinal(),
                value.value,
                value.ci_low,
                value.ci_high,
                f"{model}, {night.date}: {amount(value.value, 4)} "
                f"{interval_text(value.ci_low, value.ci_high, 4)}".rstrip()
                + " (provisional)" * night.provisional,
            )
            for night, value in zip(nights, values, strict=True)
            if value is not None and math.isfinite(value.value)
        ]
        lines.append(points)
        ends = [amount(point.y, 4) for point in (*points[:1], *points[-1:])]
        descriptions.append(f"{model} from {' to '.join(ends)}" if ends else f"{model}: no value")
    return _over_nights(name, title, nights, lines, "; ".join(descriptions))


def counts(
    name: str,
    title: str,
    nights: Sequence[Night],
    numbers: Sequence[float],
    text: Callable[[float], str] = rough_text,
) -> Chart:
    """Draw a number of each night, such as its rows, in the form of `text`."""
    points = [
        _Point(night.date.toordinal(), number, text=f"{night.date}: {text(number)}")
        for night, number in zip(nights, numbers, strict=True)
        if math.isfinite(number)
    ]
    finite = [point.y for point in points]
    span = f"between {text(min(finite))} and {text(max(finite))}" if finite else "unknown"
    return _over_nights(name, title, nights, [points], span, text)


def _over_nights(
    name: str,
    title: str,
    nights: Sequence[Night],
    lines: Sequence[Sequence[_Point]],
    description: str,
    text: Callable[[float], str] | None = None,
) -> Chart:
    """Draw lines over nights; a `text` of numbers leaves out colours."""
    first, last = (nights[at].date.toordinal() for at in (0, -1))
    before, after = (max(share * (last - first), 0.5) for share in (0.02, 0.05))
    # Up to six dates with equal steps, which end with the last.
    step = next((n for n in (1, 2, 7, 14, 28) if last - first < 6 * n), 0)
    days = range(last, first - 1, -(step or 28 * ((last - first) // 140 + 1)))
    dates = {day: dt.date.fromordinal(day) for day in days}
    texts = {float(day): day_text(str(date), date) for day, date in dates.items()}
    frame = _Frame(_Axis(first - before, last + after, texts), _numbers(lines, text), _LOW)
    parts = [*_statuses(frame, nights)]
    for index, points in enumerate(lines):
        colour = _DIM if text else ""
        parts += frame.line(index, points, 1, f"{name}-{index}", colour, 1) if points else ()
    label = f"{title}, {nights[0].date} to {nights[-1].date}: {description}."
    return Chart(title, frame.svg(label, parts))


def rows_and_rates(nights: Sequence[Night]) -> list[Chart]:
    """Draw the rows and the click rate of each night."""
    return [
        counts("rows", "Rows", nights, [night.quality.rows for night in nights]),
        counts("ctr", "CTR", nights, [night.quality.ctr for night in nights], _percent),
    ]


def curve(name: str, kind: str, curves: Sequence[CurveLine], models: Sequence[str]) -> Chart | None:
    """Draw the curves of one kind; return None without a point."""
    curves = [one for one in curves if len(one.x)]
    if not curves:
        return None
    lines = [list(map(_Point, one.x, one.y)) for one in curves]
    labels = "; ".join(f"{one.score} {one.label}".strip() for one in curves)
    if kind == "roc":
        title, ends, note = "ROC curve", [0.0, 1.0], "Dotted: chance."
        x_axis, y_axis = (
            _Axis(low, high, _tick_texts(0, 1), f"{word} positive rate")
            for word, low, high in (("False", -0.02, 1.01), ("True", -0.04, 1.02))
        )
    else:
        title, note = "Calibration", "Dotted: perfectly calibrated."
        x_axis = _predictions(lines)
        y_axis, ends = x_axis._replace(title="Observed rate"), [x_axis.low, x_axis.high]
    frame = _Frame(x_axis, y_axis)
    parts = [frame.path([(end, end) for end in ends], _CHANCE)]
    for one, points in zip(curves, lines, strict=True):
        index = models.index(one.score)
        parts += frame.line(index, points, marks="" if kind == "roc" else f"{name}-{index}")
    return Chart(title, frame.svg(f"{title}: {labels}.", parts), note)


_ACTIVITY = re.compile(r"@(rows|positives)(<|=|>=)\d+(-\d+)?")


def by_activity(document: Mapping[str, Any]) -> list[tuple[Chart, list[dict[str, Any]]]]:
    """Draw GAUC, or else the first measure, by each activity of the groups.

    Returns
    -------
    list of (Chart, list of dict)
        A slicing each, with its rows by ascending buckets.
    """
    measures = document["measures"]
    gauc = (name for name in measures if name.partition("(")[0] == "GAUC")
    measure = next(gauc, next(iter(measures), ""))
    rows_by: dict[str, list[dict[str, Any]]] = {}
    for row in document["slices"]:
        if row["measure"] == measure and _ACTIVITY.fullmatch(row["slice"]):
            rows_by.setdefault(row["by"] or "", []).append(row)
    units = [_unit(rows[0]["slice"]) for rows in rows_by.values()]
    drawn = []
    for index, (by, rows) in enumerate(rows_by.items()):
        # The slicing tells apart several that count the same.
        title = f"{rows[0]['name']} by {units[index]} of the group"
        title += f", {by}" if units.count(units[index]) > 1 else ""
        # `<2` comes before `=2-4`.
        rows.sort(
            key=lambda row: (int(re.findall(r"\d+", row["slice"])[0]), "<" not in row["slice"])
        )
        drawn.append((_activity(f"activity-{index}", title, rows, document["models"]), rows))
    return drawn


def _unit(bucket: str) -> str:
    """Return what a bucket of activity counts: ``"rows"`` or ``"positives"``."""
    match = _ACTIVITY.fullmatch(bucket)
    return match[1] if match else ""


def _activity(
    name: str, title: str, rows: Sequence[Mapping[str, Any]], models: Sequence[str]
) -> Chart:
    buckets = list(dict.fromkeys(row["slice"] for row in rows))
    lines = [
        [
            _Point(
                buckets.index(row["slice"]) + 0.16 * (index - (len(models) - 1) / 2),
                row["value"],
                row["ci_low"],
                row["ci_high"],
                f"{model}, {row['slice'].lstrip('@')}: {amount(row['value'], 4)}",
            )
            for row in rows
            if row["score"] == model and math.isfinite(row["value"])
        ]
        for index, model in enumerate(models)
    ]
    unit = _unit(buckets[0])
    texts = [text.removeprefix(f"@{unit}").lstrip("=").replace(">=", "≥") for text in buckets]
    # Every second of many texts stands one line lower.
    ticks = {float(at): "\n" * (len(texts) > 6 and at % 2) + text for at, text in enumerate(texts)}
    x_axis = _Axis(-0.6, len(buckets) - 0.4, ticks, f"{unit} of the group")
    frame = _Frame(x_axis, _numbers(lines))
    parts: list[str] = []
    for index, points in enumerate(lines):
        parts += frame.line(index, points, 0, f"{name}-{index}") if points else ()
    return Chart(title, frame.svg(f"{title}; the numbers are in the table.", parts))


def edges(nights: Sequence[Night]) -> list[dt.date]:
    """Return the nights whose conventions differ from the night before."""
    labelled = [night for night in nights if night.has_labels]
    return [now.date for was, now in pairwise(labelled) if convention_differences(now, was)]


def keys(models: Sequence[str]) -> list[str]:
    """Draw a sample of the line and the mark of each model."""
    return [
        f'<svg viewBox="0 0 36 14" aria-hidden="true" class="m{index % MODEL_COLOURS + 1}">'
        + _path("M0 7H36", f'stroke="currentColor" stroke-width="{_LINE:g}" '
                f'stroke-dasharray="{_DASHES[index % len(_DASHES)]}"')
        + f'<g transform="translate(18 7)" fill="currentColor">{_mark(index, 1.8)}</g></svg>'
        for index in range(len(models))
    ]  # fmt: skip


def spark(values: Sequence[MeasureValue | None], model_index: int) -> str:
    """Draw a sparkline; empty with fewer than two values."""
    numbers = [math.nan if value is None else value.value for value in values]
    finite = [number for number in numbers if math.isfinite(number)]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    scale = 20 / (high - low) if high > low else 0.0
    step = 96 / (len(numbers) - 1)
    points = [
        _Point(index, 22 - (number - low) * scale if scale else 12)
        for index, number in enumerate(numbers)
        if math.isfinite(number)
    ]
    polylines = ""
    for run in _runs(points, 1):
        places = " ".join(f"{2 + p.x * step:.0f},{p.y:.0f}" for p in run)
        polylines += f'<polyline points="{places}"/>' if len(run) > 1 else ""
    # The dot marks the last night, if it has a value.
    dot = f'<circle cx="98" cy="{points[-1].y:.0f}" r="2"/>' * math.isfinite(numbers[-1])
    attributes = f'class="spark m{model_index % MODEL_COLOURS + 1}" viewBox="0 0 100 24"'
    return f'<svg {attributes} aria-hidden="true">{polylines}{dot}</svg>'


def _statuses(frame: _Frame, nights: Sequence[Night]) -> Iterator[str]:
    """Draw statuses of nights and changes of conventions.

    A worse status has a higher bar, so that it is seen without colours.
    """
    for night in nights:
        day, status = night.date.toordinal(), STATUSES[night.status]
        left, right = frame.x(day - 0.5), frame.x(day + 0.5)
        if night.provisional:
            yield _rectangle(left, _TOP, right - left, frame.bottom - _TOP, "shift-back")
        height, width = _BARS[status.bar] * _STRIP, min(0.8 * (right - left), 12)
        left, top = frame.x(day - 0.4), frame.bottom + 4 + _STRIP - height
        colour = "line" if status.tone == "good" else status.tone
        yield _rectangle(left, top, width, height, colour, f"{night.date}: {status_name(night)}")
    for date, reason in nights[-1].not_evaluated.items():
        if nights[0].date < date < nights[-1].date:
            left, width = frame.x(date.toordinal() - 0.4), frame.x(0.8) - frame.x(0)
            text = f"{date} was not evaluated: {reason}"
            yield _rectangle(left, frame.bottom + 4, min(width, 12), _STRIP, "bad", text)
    for date in edges(nights):
        yield _path(f"M{frame.x(date.toordinal() - 0.5):.1f} {_TOP:g}V{frame.bottom:g}", _EDGE)


def _numbers(
    lines: Sequence[Sequence[_Point]], text: Callable[[float], str] | None = None
) -> _Axis:
    """Return the upright axis of numbers with their intervals."""
    numbers = [
        number
        for points in lines
        for point in points
        for number in point[1:4]
        if abs(number) < _LARGEST
    ]
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    if high - low <= 1e-15 * max(abs(low), abs(high)):
        half = 0.05 * abs(high) if abs(high) > 1 / _LARGEST else 0.05
        low, high = low - half, high + half
    margin = 0.05 * (high - low)
    low, high = low - margin, high + margin
    return _Axis(low, high, _tick_texts(low, high, text))


def _tick_texts(
    low: float, high: float, text: Callable[[float], str] | None = None
) -> dict[float, str]:
    """Return at most six even numbers of a range with their texts."""
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = unit * next((n for n in (1, 2, 2.5, 5) if unit * n >= rough), 10)
    form = next((f".{n}f" for n in range(12) if math.isclose(round(step, n), step)), ".3g")
    ticks = [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return {tick: text(tick) if text else format(tick, form) for tick in ticks}


def _predictions(lines: Sequence[Sequence[_Point]]) -> _Axis:
    """Return the axis of predictions and rates, which both have."""
    means = [point.x for points in lines for point in points]
    both = [*means, *(point.y for points in lines for point in points)]
    low, high, title = min(both), max(both), "Mean prediction"
    if low <= 0 or max(means) <= _LOG_RATIO * min(means):
        high = min(high * 1.1, 1.0) or 1.0
        return _Axis(-0.03 * high, 1.03 * high, _tick_texts(0, high), title)
    first, last = low / 1.6, min(high * 1.6, 1.12)
    steps = (1, 2, 5) if high / low < 200 else (1,)
    powers = range(math.floor(math.log10(first)), math.ceil(math.log10(last)))
    ticks = [float(f"{step}e{power}") for power in powers for step in steps]
    texts = {tick: detail_text(tick) for tick in ticks if first <= tick <= last}
    return _Axis(first, last, texts, title, log=True)


def _runs(points: Sequence[_Point], gap: float) -> Iterator[list[_Point]]:
    """Split points where two are more than a gap apart."""
    run: list[_Point] = []
    for point in points:
        if run and point.x - run[-1].x > gap:
            yield run
            run = []
        run.append(point)
    if run:
        yield run


def _percent(number: float) -> str:
    return percent_text(number, 4)


def _escaped(text: str) -> str:
    return escape(printable(text))


def _path(d: str, look: str) -> str:
    return f'<path d="{d}" {look}></path>'


def _mark(index: int, size: float, name: str = "") -> str:
    look = f'transform="scale({size:g})"' + f' id="{name}"' * bool(name)
    return _path(_MARKS[index % len(_MARKS)], look)


def _rectangle(
    x: float, y: float, width: float, height: float, colour: str, title: str = ""
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    inner = f"<title>{_escaped(title)}</title>" if title else ""
    return f'<rect {place} fill="var(--{colour})">{inner}</rect>'


def _text(text: str, x: float, y: float, anchor: str = "middle", turn: str = "") -> str:
    look = f'text-anchor="{anchor}" fill="{_DIM}" font-size="{_TEXT:g}px"{turn}'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{_escaped(text)}</text>' if text else ""
