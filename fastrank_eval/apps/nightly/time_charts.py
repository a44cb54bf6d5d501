"""Draw numbers over nights: lines with bands, and a strip of statuses."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from itertools import pairwise

from markupsafe import Markup
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from matplotlib.transforms import Affine2D

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.analysis.plots import dash, mark
from fastrank_eval.apps.nightly.compare_nights import convention_differences
from fastrank_eval.apps.nightly.label_delay import status_name
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.page_rows import cell
from fastrank_eval.apps.nightly.text import STATUSES, amount, day_text
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.results.report import percent_text, printable, rough_text

#: Number of colours of models; they repeat after that.
MODEL_COLOURS = 7
_DIM = "var(--dim)"
_EDGE = f'stroke="{_DIM}" stroke-width="0.8"'
_WIDTH, _HEIGHT = 342.0, 186.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 50.0, 12.0, 10.0, 38.0  # around the numbers
#: Explains the strip of statuses.
STRIP_TEXT = (
    "The strip below a chart has a bar for each night: low if it was fine or provisional, of "
    "middle height if a number changed, high after a regression (red) or with rows that did not "
    "pass the checks. "
    "Provisional nights have a blue background: their numbers will change."
)
#: Height of the strip, and the share of it that the bar of a status takes.
_STRIP = 8.0
_BARS = {"low": 0.3, "mid": 0.65, "high": 1.0}
_TEXT, _LINE, _MARK = 11.0, 1.8, 3.4  # sizes of text, lines and marks
_LOCATOR = MaxNLocator(5)
_LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}


@dataclass(frozen=True)
class Chart:
    """A picture of a page.

    Parameters
    ----------
    title : str
    svg : markupsafe.Markup
    note : str
        Text below the chart.
    """

    title: str
    svg: Markup
    note: str = ""


@dataclass(frozen=True)
class _Point:
    """A number of a night with the ends of its interval and a tooltip."""

    date: dt.date
    number: float
    low: float
    high: float
    text: str


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
                night.date,
                value.value,
                value.ci_low,
                value.ci_high,
                f"{model}, {night.date}: {' '.join(filter(None, cell(value, 4)))}"
                + " (provisional)" * night.provisional,
            )
            for night, value in zip(nights, values, strict=True)
            if value is not None and math.isfinite(value.value)
        ]
        lines.append(points)
        ends = [amount(point.number, 4) for point in (*points[:1], *points[-1:])]
        descriptions.append(f"{model} from {' to '.join(ends)}" if ends else f"{model}: no value")
    label = f"{title}, {nights[0].date} to {nights[-1].date}: {'; '.join(descriptions)}."
    return Chart(title, _svg(name, label, nights, lines, _number_texts))


def counts(
    name: str, title: str, nights: Sequence[Night], numbers: Sequence[float], percent: bool = False
) -> Chart:
    """Draw a number of each night, such as its rows.

    Parameters
    ----------
    name, title : str
    nights : sequence of Night
    numbers : sequence of float
    percent : bool
        Whether they are shares.
    """

    def text(value: float) -> str:
        return percent_text(value, 4) if percent else rough_text(value)

    points = [
        _Point(night.date, number, math.nan, math.nan, f"{night.date}: {text(number)}")
        for night, number in zip(nights, numbers, strict=True)
        if math.isfinite(number)
    ]
    finite = [point.number for point in points]
    span = f"between {text(min(finite))} and {text(max(finite))}" if finite else "unknown"
    label = f"{title}, {nights[0].date} to {nights[-1].date}: {span}."
    svg = _svg(name, label, nights, [points], lambda ticks: list(map(text, ticks)), plain=True)
    return Chart(title, svg)


def rows_and_rates(nights: Sequence[Night]) -> list[Chart]:
    """Draw the rows and the click rate of each night."""
    return [
        counts("rows", "Rows", nights, [night.quality.rows for night in nights]),
        counts("ctr", "CTR", nights, [night.quality.ctr for night in nights], percent=True),
    ]


def edges(nights: Sequence[Night]) -> list[dt.date]:
    """Return the nights whose conventions differ from the night before."""
    labelled = [night for night in nights if night.has_labels]
    return [now.date for was, now in pairwise(labelled) if convention_differences(now, was)]


def spark(values: Sequence[MeasureValue | None], model_index: int) -> Markup:
    """Draw a sparkline; empty with fewer than two values."""
    numbers = [math.nan if value is None else value.value for value in values]
    finite = [number for number in numbers if math.isfinite(number)]
    if len(finite) < 2:
        return Markup("")
    low, high = min(finite), max(finite)
    scale = 20 / (high - low) if high > low else 0.0
    step = 96 / (len(numbers) - 1)
    runs: list[list[str]] = [[]]
    last = (0.0, 0.0)
    for index, number in enumerate(numbers):
        if not math.isfinite(number):
            runs.append([])
            continue
        last = (2 + index * step, 22 - (number - low) * scale if scale else 12)
        runs[-1].append(f"{last[0]:.0f},{last[1]:.0f}")
    polylines = "".join(f'<polyline points="{" ".join(run)}"/>' for run in runs if len(run) > 1)
    # The dot marks the last night, if it has a value.
    has_value = math.isfinite(numbers[-1])
    dot = f'<circle cx="{last[0]:.0f}" cy="{last[1]:.0f}" r="2"/>' if has_value else ""
    attributes = f'class="spark m{model_index % MODEL_COLOURS + 1}" viewBox="0 0 100 24"'
    return Markup(f'<svg {attributes} aria-hidden="true">{polylines}{dot}</svg>')  # noqa: S704 (numbers)


@dataclass(frozen=True)
class _Frame:
    """The scales of a chart."""

    first: dt.date
    days: int
    low: float
    high: float

    def x(self, date: dt.date, shift: float = 0.0) -> float:
        """Return the position of a date, moved by a part of a day."""
        before, after = max(0.02 * self.days, 0.5), max(0.05 * self.days, 0.5)
        share = ((date - self.first).days + shift + before) / (self.days + before + after)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, number: float) -> float:
        """Return the position of a number."""
        share = (number - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)


def _svg(
    name: str,
    label: str,
    nights: Sequence[Night],
    lines: Sequence[Sequence[_Point]],
    texts: Callable[[Sequence[float]], Sequence[str]],
    plain: bool = False,
) -> Markup:
    """Draw lines over nights; `plain` without the colours and marks of models."""
    frame = _frame(nights, lines)
    parts = [*_axes(frame, texts), *_dates_and_statuses(frame, nights)]
    for index, points in enumerate(lines):
        if points:
            colour = _DIM if plain else f"var(--model-{index % MODEL_COLOURS + 1})"
            parts += _line(frame, points, colour, 0 if plain else index, f"{name}-{index}")
    size = f'viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}"'
    text = f'<svg {size} role="img" aria-label="{_escaped(label)}">'
    return Markup(f"{text}{''.join(parts)}</svg>")  # noqa: S704 (texts are escaped)


def _frame(nights: Sequence[Night], lines: Sequence[Sequence[_Point]]) -> _Frame:
    numbers = [
        number
        for points in lines
        for point in points
        for number in (point.number, point.low, point.high)
        if math.isfinite(number)
    ]
    low, high = _LOCATOR.nonsingular(min(numbers, default=0.0), max(numbers, default=1.0))
    margin = 0.05 * (high - low)
    first, last = nights[0].date, nights[-1].date
    return _Frame(first, (last - first).days, low - margin, high + margin)


def _axes(frame: _Frame, texts: Callable[[Sequence[float]], Sequence[str]]) -> Iterator[str]:
    """Draw the grid and the labels of numbers, and the axis."""
    ticks = [
        tick
        for tick in _LOCATOR.tick_values(frame.low, frame.high)
        if frame.low <= tick <= frame.high
    ]
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for tick, text in zip(ticks, texts(ticks), strict=True):
        y = frame.y(tick)
        yield _path(f"M{_LEFT:g} {y:.1f}H{right:g}", 'stroke="var(--grid)" stroke-width="0.7"')
        yield _text(text, _LEFT - 5, y + 0.36 * _TEXT, "end")
    yield _path(f"M{_LEFT:g} {_TOP:g}V{bottom:g}H{right:g}", f'fill="none" {_EDGE}')


def _dates_and_statuses(frame: _Frame, nights: Sequence[Night]) -> Iterator[str]:
    """Draw dates, statuses of nights and changes of conventions.

    A worse status has a higher bar, so that it is seen without colours.
    """
    bottom = _HEIGHT - _BOTTOM
    for date in (night.date for night in nights if night.provisional):
        left, right = frame.x(date, -0.5), frame.x(date, 0.5)
        yield _rectangle(left, _TOP, right - left, bottom - _TOP, "shift-back")
    for date in edges(nights):
        yield _path(f"M{frame.x(date, -0.5):.1f} {_TOP:g}V{bottom:g}", _EDGE)
    for night in nights:
        left, right = frame.x(night.date, -0.4), frame.x(night.date, 0.4)
        status = STATUSES[night.status]
        height = _BARS[status.bar] * _STRIP
        top, width = bottom + 4 + _STRIP - height, min(right - left, 12)
        title = f"{night.date}: {status_name(night)}"
        colour = "line" if status.tone == "good" else status.tone
        yield _rectangle(left, top, width, height, colour, title)
    for date in _dates(nights[0].date, nights[-1].date):
        yield _text(day_text(str(date), date), frame.x(date), _HEIGHT - 8, "middle")


def _dates(first: dt.date, last: dt.date) -> list[dt.date]:
    """Return up to six dates with equal steps that end with the last."""
    span = (last - first).days
    step = next((days for days in (1, 2, 7, 14, 28) if span < 6 * days), 28 * (span // 140 + 1))
    return [last - dt.timedelta(days=ago) for ago in range(0, span + 1, step)]


def _line(
    frame: _Frame, points: Sequence[_Point], colour: str, index: int, name: str
) -> Iterator[str]:
    """Draw the band, the line and the marks of a model."""
    pattern = dash(index)
    dashes = "" if isinstance(pattern, str) else " ".join(f"{_LINE * n:g}" for n in pattern[1])
    for run in _runs([point for point in points if math.isfinite(point.low + point.high)]):
        ends = [f"{frame.x(point.date):.1f} {frame.y(point.high):.1f}" for point in run]
        ends += [f"{frame.x(point.date):.1f} {frame.y(point.low):.1f}" for point in run[::-1]]
        yield _path(f"M{'L'.join(ends)}Z", f'fill="{colour}" fill-opacity="0.16"')
    look = f'fill="none" stroke="{colour}" stroke-width="{_LINE:g}" stroke-linejoin="round"'
    look += f' stroke-dasharray="{dashes}"' if dashes else ""
    for run in _runs(points):
        ends = [f"{frame.x(point.date):.1f} {frame.y(point.number):.1f}" for point in run]
        yield _path(f"M{'L'.join(ends)}", look)
    shape = f'id="{name}"'
    yield f'<defs>{_path(_mark_path(mark(index)), shape)}</defs><g fill="{colour}">'
    for point in points:
        place = f'x="{frame.x(point.date):.1f}" y="{frame.y(point.number):.1f}"'
        yield f'<use href="#{name}" {place}><title>{_escaped(point.text)}</title></use>'
    yield "</g>"


def _runs(points: Sequence[_Point]) -> Iterator[list[_Point]]:
    """Split points at missing nights."""
    run: list[_Point] = []
    for point in points:
        if run and (point.date - run[-1].date).days > 1:
            yield run
            run = []
        run.append(point)
    if run:
        yield run


@cache
def _mark_path(shape: str) -> str:
    """Return the path of a mark of matplotlib."""
    style, size = MarkerStyle(shape), Affine2D().scale(_MARK, -_MARK)
    path = style.get_path().transformed(style.get_transform() + size)
    parts = []
    for numbers, code in path.iter_segments(simplify=False):
        end = code == Path.CLOSEPOLY
        parts.append("Z" if end else _LETTERS[code] + " ".join(f"{each:.2f}" for each in numbers))
    return "".join(parts)


def _number_texts(ticks: Sequence[float]) -> Sequence[str]:
    """Format ticks with the decimals that tell them apart."""
    formatter = ScalarFormatter(useOffset=False, useMathText=False, useLocale=False)
    formatter.set_scientific(False)
    formatter.create_dummy_axis()
    formatter.axis.set_view_interval(ticks[0], ticks[-1])
    texts: list[str] = formatter.format_ticks(ticks)
    return texts


def _escaped(text: str) -> str:
    return escape(printable(text))


def _path(d: str, look: str) -> str:
    return f'<path d="{d}" {look}></path>'


def _rectangle(
    x: float, y: float, width: float, height: float, colour: str, title: str = ""
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    inner = f"<title>{_escaped(title)}</title>" if title else ""
    return f'<rect {place} fill="var(--{colour})">{inner}</rect>'


def _text(text: str, x: float, y: float, anchor: str) -> str:
    look = f'text-anchor="{anchor}" fill="{_DIM}" font-size="{_TEXT:g}px"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{_escaped(text)}</text>'
