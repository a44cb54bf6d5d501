"""Draw the charts of a page: trends, curves and activity of groups."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.patches import PathPatch
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    MaxNLocator,
    ScalarFormatter,
)
from matplotlib.transforms import Affine2D, IdentityTransform

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.analysis.plot_files import inline_svg
from fastrank_eval.analysis.plots import (
    DIM,
    colour,
    dash,
    draw,
    draw_calibration,
    draw_roc,
    mark,
)
from fastrank_eval.apps.nightly.compare_nights import convention_differences
from fastrank_eval.apps.nightly.night import CurveLine, Night
from fastrank_eval.apps.nightly.page_rows import activity_unit
from fastrank_eval.apps.nightly.text import STATUSES, amount, interval
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.results.format import percent_text, rough_text

#: Number of colours of models; they repeat after that.
MODEL_COLOURS = 7
_BAD, _WARN = "#bb0011", "#bb7711"
_THEME = {
    "#e4e4e4": "var(--grid)",
    "#666666": "var(--dim)",
    "#333333": "var(--dim)",
    "#000000": "var(--text)",
    _BAD: "var(--bad)",
    _WARN: "var(--warn)",
    # Last, since the colours of models include black.
    **{colour(index).lower(): f"var(--model-{index + 1})" for index in range(MODEL_COLOURS)},
}
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
#: The columns of the curves that `plots` draws.
_COLUMNS = {"roc": ("fpr", "tpr"), "calibration": ("mean_prediction", "observed_rate")}
_WIDTH, _LOW_HEIGHT, _HIGH_HEIGHT = 4.75, 2.5, 4.1  # inches
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 12, 10, 24  # points around the axes


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
    figure, axes = _figure(_LOW_HEIGHT)
    marks, descriptions = {}, []
    _mark_nights(axes, nights)
    for index, (model, values) in enumerate(past.items()):
        days, numbers, lows, highs = _days(nights, values)
        if not any(math.isfinite(number) for number in numbers):
            descriptions.append(f"{model}: no value")
            continue
        axes.fill_between(days, lows, highs, color=colour(index), alpha=0.16, linewidth=0)
        axes.plot(days, numbers, color=colour(index), linestyle=dash(index))
        finite = [one for one in values if one is not None and math.isfinite(one.value)]
        gid = f"marks-{index}"
        marks[gid] = [
            f"{model}, {day}: {amount(one.value, 4)} {interval(one.ci_low, one.ci_high, 4)}".strip()
            for day, one in zip((n.date for n in nights), values, strict=True)
            if one is not None and math.isfinite(one.value)
        ]
        _plot_marks(axes, index, *_points(days, numbers), 3.4, gid)
        first, last = finite[0].value, finite[-1].value
        descriptions.append(f"{model} from {amount(first, 4)} to {amount(last, 4)}")
    _date_axis(axes, [night.date for night in nights])
    _plain_axis(axes.yaxis)
    label = f"{title}, {nights[0].date} to {nights[-1].date}: {'; '.join(descriptions)}."
    return _chart(figure, name, title, label, marks)


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

    figure, axes = _figure(_LOW_HEIGHT)
    _mark_nights(axes, nights)
    days = date2num([night.date for night in nights])
    axes.plot(days, numbers, color=DIM)
    axes.plot(
        *_points(days, numbers),
        linestyle="",
        marker="o",
        markersize=3.4,
        color=DIM,
        clip_on=False,
        gid="marks",
    )
    marks = [
        f"{night.date}: {text(number)}"
        for night, number in zip(nights, numbers, strict=True)
        if math.isfinite(number)
    ]
    _date_axis(axes, [night.date for night in nights])
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    finite = [number for number in numbers if math.isfinite(number)]
    span = f"between {text(min(finite))} and {text(max(finite))}" if finite else "unknown"
    label = f"{title}, {nights[0].date} to {nights[-1].date}: {span}."
    return _chart(figure, name, title, label, {"marks": marks} if marks else {})


def curve(name: str, kind: str, curves: Sequence[CurveLine], models: Sequence[str]) -> Chart | None:
    """Draw the curves of one kind; return None without a point."""
    curves = [curve_line for curve_line in curves if len(curve_line.x)]
    if not curves:
        return None
    figure, axes = _figure(_HIGH_HEIGHT, bottom=52)
    names = _COLUMNS.get(kind, ("x", "y"))
    lines = [
        (
            models.index(one.score) if one.score in models else len(models),
            dict(zip(names, (np.array(one.x), np.array(one.y)), strict=True)),
        )
        for one in curves
    ]
    if kind == "calibration":
        draw_calibration(axes, lines)
    elif kind == "roc":
        axes.set(xlabel="False positive rate", ylabel="True positive rate")
        axes.set(xlim=(-0.02, 1.01), ylim=(-0.04, 1.02))
        draw_roc(axes, lines)
    for model, columns in lines if kind not in _COLUMNS else ():
        draw(axes, model, **columns)
    if axes.get_xscale() == "linear":
        _plain_axis(axes.xaxis)
        _plain_axis(axes.yaxis)
    titles = {"roc": "ROC curve", "calibration": "Calibration"}
    title = titles.get(kind, kind)
    labels = "; ".join(f"{curve_line.score} {curve_line.label}".strip() for curve_line in curves)
    reference = {"roc": "Dotted: chance.", "calibration": "Dotted: perfectly calibrated."}
    return _chart(figure, name, title, f"{title}: {labels}.", {}, reference.get(kind, ""))


def activity(name: str, title: str, values: Sequence[MeasureValue], models: Sequence[str]) -> Chart:
    """Draw a measure by activity of the groups, with intervals.

    Parameters
    ----------
    name, title : str
    values : sequence of MeasureValue
        Values by bucket, with ascending buckets.
    models : sequence of str
    """
    figure, axes = _figure(_HIGH_HEIGHT, bottom=52)
    buckets = list(dict.fromkeys(value.slice for value in values))
    marks: dict[str, list[str]] = {}
    for index, model in enumerate(models):
        shift = 0.16 * (index - (len(models) - 1) / 2)
        points = [
            (buckets.index(value.slice) + shift, value)
            for value in values
            if value.score == model and math.isfinite(value.value)
        ]
        if not points:
            continue
        for x, value in points:
            if math.isfinite(value.ci_low):
                axes.plot([x, x], [value.ci_low, value.ci_high], color=colour(index), lw=1.2)
        gid = f"marks-{index}"
        _plot_marks(axes, index, [x for x, _ in points], [v.value for _, v in points], 5, gid)
        marks[gid] = [f"{model}, {v.slice.lstrip('@')}: {amount(v.value, 4)}" for _, v in points]
    axes.set_xlim(-0.6, len(buckets) - 0.4)
    axes.xaxis.set_major_locator(FixedLocator(range(len(buckets))))
    short = [text.removeprefix("@rows").removeprefix("@positives").lstrip("=") for text in buckets]
    low = len(buckets) > 6  # put every second label one line lower
    axes.xaxis.set_major_formatter(
        FixedFormatter(
            [
                "\n" * (low and index % 2) + text.replace(">=", "≥")
                for index, text in enumerate(short)
            ]
        )
    )
    axes.set_xlabel(f"{activity_unit(buckets[0])} of the group")
    _plain_axis(axes.yaxis)
    return _chart(figure, name, title, f"{title}; the numbers are in the table.", marks)


def spark(numbers: Sequence[float], model_index: int) -> Markup:
    """Draw a sparkline; empty with fewer than two values."""
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


def key(index: int) -> Markup:
    """Draw a sample of a model's line and mark, for legends.

    It has no ids, since a page repeats it.
    """
    width, height = 36, 14
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    identity, middle = IdentityTransform(), (width / 2, height / 2)
    shape = MarkerStyle(mark(index))
    transform = shape.get_transform() + Affine2D().scale(5).translate(*middle)
    look = {"color": colour(index), "transform": identity}
    figure.add_artist(Line2D([0, width], [middle[1]] * 2, linestyle=dash(index), **look))
    figure.add_artist(PathPatch(shape.get_path().transformed(transform), **look))
    svg = inline_svg(figure, f"key-{index}", "", _THEME)
    svg = svg.replace('role="img" aria-label=""', 'aria-hidden="true"')
    return Markup(svg)  # noqa: S704 (no text)


def _figure(height: float, bottom: float = _BOTTOM) -> tuple[Any, Any]:
    figure = Figure(figsize=(_WIDTH, height))
    width, height = 72 * _WIDTH, 72 * height
    left = _LEFT + (14 if bottom > _BOTTOM else 0)
    room = ((width - left - _RIGHT) / width, (height - bottom - _TOP) / height)
    axes = figure.add_axes((left / width, bottom / height, *room))
    axes.tick_params(length=0, pad=5, labelsize=11)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(color=DIM, size=11)
    return figure, axes


def _chart(
    figure: Any,
    name: str,
    title: str,
    label: str,
    marks: Mapping[str, Sequence[str]],
    note: str = "",
) -> Chart:
    svg = inline_svg(figure, name, label, _THEME, marks)
    return Chart(title, Markup(svg), note)  # noqa: S704 (serialised as XML)


def _days(
    nights: Sequence[Night], values: Sequence[MeasureValue | None]
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Return dates, values and interval ends, with a gap for missing nights."""
    days: list[float] = []
    triples: list[tuple[float, float, float]] = []
    nothing = (math.nan, math.nan, math.nan)
    for night, value in zip(nights, values, strict=True):
        day = float(date2num(night.date))
        if days and day - days[-1] > 1:
            days.append(days[-1] + 0.5)
            triples.append(nothing)
        days.append(day)
        triples.append(nothing if value is None else (value.value, value.ci_low, value.ci_high))
    numbers, lows, highs = ([one[index] for one in triples] for index in range(3))
    return days, numbers, lows, highs


def _plot_marks(
    axes: Any, index: int, x: Sequence[float], y: Sequence[float], size: float, gid: str
) -> None:
    look = {"color": colour(index), "marker": mark(index), "markersize": size}
    axes.plot(x, y, linestyle="", clip_on=False, gid=gid, **look)


def _points(days: Sequence[float], numbers: Sequence[float]) -> tuple[list[float], list[float]]:
    finite = [(d, n) for d, n in zip(days, numbers, strict=True) if math.isfinite(n)]
    return [day for day, _ in finite], [number for _, number in finite]


def edges(nights: Sequence[Night]) -> list[dt.date]:
    """Return the nights whose conventions differ from the night before."""
    labelled = [night for night in nights if night.has_labels]
    return [now.date for was, now in pairwise(labelled) if convention_differences(now, was)]


def _mark_nights(axes: Any, nights: Sequence[Night]) -> None:
    """Mark nights that were not fine and changes of conventions."""
    for date in edges(nights):
        axes.axvline(date2num(date) - 0.5, color=DIM, linewidth=0.8)
    for night in nights:
        if night.status in STATUSES and night.status != "fine":
            tone = _BAD if night.status == "regression" else _WARN
            axes.axvline(date2num(night.date), color=tone, linewidth=1, linestyle=(0, (2, 2)))


def _date_axis(axes: Any, dates: Sequence[dt.date]) -> None:
    span = (dates[-1] - dates[0]).days
    step = next((days for days in (1, 2, 7, 14, 28) if span < 6 * days), 28 * (span // 140 + 1))
    ticks = [dates[-1] - dt.timedelta(days=ago) for ago in range(0, span + 1, step)]
    axes.xaxis.set_major_locator(FixedLocator(date2num(ticks)))
    axes.xaxis.set_major_formatter(
        FixedFormatter(
            [f"{date.day} {_MONTHS[3 * date.month - 3 : 3 * date.month]}" for date in ticks]
        )
    )
    ends = date2num([dates[0], dates[-1]])
    axes.set_xlim(ends[0] - max(0.02 * span, 0.3), ends[1] + max(0.05 * span, 0.5))


def _plain_axis(axis: Any) -> None:
    axis.set_major_locator(MaxNLocator(5))
    formatter = ScalarFormatter(useOffset=False)
    formatter.set_scientific(False)
    axis.set_major_formatter(formatter)
