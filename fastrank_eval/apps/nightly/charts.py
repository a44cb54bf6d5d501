"""Pictures of a page: what nights came to one after the other, curves, activity of groups."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

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
    LogLocator,
    MaxNLocator,
    ScalarFormatter,
)
from matplotlib.transforms import Affine2D, IdentityTransform

from fastrank_eval.analysis.plot_files import inline_svg
from fastrank_eval.analysis.plots import CHANCE, DIM, colour, dash, mark
from fastrank_eval.apps.nightly.compare_nights import differing
from fastrank_eval.apps.nightly.night import CurveLine, Night, NightValue
from fastrank_eval.apps.nightly.page_rows import counted_of
from fastrank_eval.apps.nightly.text import STATUSES, amount, interval, rough_count

__all__ = [
    "MODEL_COLOURS", "Chart", "activity", "counts", "curve", "edges", "key", "spark", "trend",
]  # fmt: skip

#: Colours that models take in turn.
MODEL_COLOURS = 7
_BAD, _WARN = "#bb0011", "#bb7711"
_THEME = {
    "#e4e4e4": "var(--grid)",
    "#666666": "var(--dim)",
    "#333333": "var(--dim)",
    "#000000": "var(--text)",
    _BAD: "var(--bad)",
    _WARN: "var(--warn)",
    # Last, since it holds black too.
    **{colour(place).lower(): f"var(--model-{place + 1})" for place in range(MODEL_COLOURS)},
}
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_WIDE, _LOW, _HIGH = 4.75, 2.5, 4.1  # inches
_LEFT, _RIGHT, _TOP, _BELOW = 50, 12, 10, 24  # points around the axes
_FAR_APART = 20


@dataclass(frozen=True)
class Chart:
    """A picture of a page.

    Parameters
    ----------
    title : str
    svg : markupsafe.Markup
    note : str
        What stands below it.
    """

    title: str
    svg: Markup
    note: str = ""


def trend(
    name: str,
    title: str,
    nights: Sequence[Night],
    past: Mapping[str, Sequence[NightValue | None]],
) -> Chart:
    """Draw a measure over nights, a line with its interval for each model.

    Parameters
    ----------
    name : str
        Unique in the page.
    title : str
    nights : sequence of Night
        In order of their dates.
    past : mapping of str to sequence of NightValue or None
        Of each model a value for each night.

    Returns
    -------
    Chart
    """
    figure, axes = _figure(_LOW)
    marks, told = {}, []
    _mark_nights(axes, nights)
    for place, (model, values) in enumerate(past.items()):
        days, numbers, lows, highs = _days(nights, values)
        if not any(math.isfinite(number) for number in numbers):
            told.append(f"{model}: no value")
            continue
        axes.fill_between(days, lows, highs, color=colour(place), alpha=0.16, linewidth=0)
        axes.plot(days, numbers, color=colour(place), linestyle=dash(place))
        there = [one for one in values if one is not None and math.isfinite(one.value)]
        gid = f"marks-{place}"
        marks[gid] = [
            f"{model}, {day}: {amount(one.value, 4)} {interval(one.ci_low, one.ci_high, 4)}".strip()
            for day, one in zip((n.date for n in nights), values, strict=True)
            if one is not None and math.isfinite(one.value)
        ]
        axes.plot(
            *_points(days, numbers),
            linestyle="",
            marker=mark(place),
            markersize=3.4,
            color=colour(place),
            clip_on=False,
            gid=gid,
        )
        first, last = there[0].value, there[-1].value
        told.append(f"{model} from {amount(first, 4)} to {amount(last, 4)}")
    _date_axis(axes, [night.date for night in nights])
    _plain_axis(axes.yaxis)
    label = f"{title}, {nights[0].date} to {nights[-1].date}: {'; '.join(told)}."
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
        return f"{100 * value:.4g}%" if percent else rough_count(value)

    figure, axes = _figure(_LOW)
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
    known = [number for number in numbers if math.isfinite(number)]
    span = f"between {text(min(known))} and {text(max(known))}" if known else "unknown"
    label = f"{title}, {nights[0].date} to {nights[-1].date}: {span}."
    return _chart(figure, name, title, label, {"marks": marks} if marks else {})


def curve(name: str, kind: str, lines: Sequence[CurveLine], models: Sequence[str]) -> Chart | None:
    """Draw a ROC curve, a calibration curve or one of any other kind; None without a point."""
    lines = [line for line in lines if len(line.x)]
    if not lines:
        return None
    figure, axes = _figure(_HIGH, below=52)
    titles = {"roc": "ROC curve", "calibration": "Calibration"}
    if kind == "roc":
        axes.plot([0, 1], [0, 1], **CHANCE)
        axes.set(xlim=(-0.02, 1.01), ylim=(-0.04, 1.02))
        axes.set(xlabel="false positive rate", ylabel="true positive rate")
    elif kind == "calibration":
        _calibration_axes(axes, lines)
    for line in lines:
        place = models.index(line.score) if line.score in models else len(models)
        axes.plot(
            line.x,
            line.y,
            color=colour(place),
            linestyle=dash(place),
            marker=mark(place) if kind == "calibration" else "",
            markersize=4,
        )
    if kind != "calibration":
        _plain_axis(axes.xaxis)
        _plain_axis(axes.yaxis)
    title = titles.get(kind, kind)
    told = "; ".join(f"{line.score} {line.label}".strip() for line in lines)
    reference = {"roc": "Dotted: chance.", "calibration": "Dotted: perfectly calibrated."}
    return _chart(figure, name, title, f"{title}: {told}.", {}, reference.get(kind, ""))


def activity(name: str, title: str, values: Sequence[NightValue], models: Sequence[str]) -> Chart:
    """Draw a measure by activity of the groups, with intervals.

    Parameters
    ----------
    name, title : str
    values : sequence of NightValue
        Buckets ascend.
    models : sequence of str
    """
    figure, axes = _figure(_HIGH, below=52)
    buckets = list(dict.fromkeys(value.slice for value in values))
    marks: dict[str, list[str]] = {}
    for place, model in enumerate(models):
        shift = 0.16 * (place - (len(models) - 1) / 2)
        here = [
            (buckets.index(value.slice) + shift, value)
            for value in values
            if value.score == model and math.isfinite(value.value)
        ]
        if not here:
            continue
        for x, value in here:
            if math.isfinite(value.ci_low):
                axes.plot([x, x], [value.ci_low, value.ci_high], color=colour(place), lw=1.2)
        gid = f"marks-{place}"
        axes.plot(
            [x for x, _ in here],
            [value.value for _, value in here],
            linestyle="",
            marker=mark(place),
            markersize=5,
            color=colour(place),
            gid=gid,
        )
        marks[gid] = [f"{model}, {v.slice.lstrip('@')}: {amount(v.value, 4)}" for _, v in here]
    axes.set_xlim(-0.6, len(buckets) - 0.4)
    axes.xaxis.set_major_locator(FixedLocator(range(len(buckets))))
    short = [text.removeprefix("@rows").removeprefix("@positives").lstrip("=") for text in buckets]
    low = len(buckets) > 6  # every other one stands a line lower
    axes.xaxis.set_major_formatter(
        FixedFormatter(
            ["\n" * (low and at % 2) + text.replace(">=", "≥") for at, text in enumerate(short)]
        )
    )
    axes.set_xlabel(f"{counted_of(buckets[0])} of the group")
    _plain_axis(axes.yaxis)
    return _chart(figure, name, title, f"{title}; the numbers are in the table.", marks)


def spark(numbers: Sequence[float], place: int) -> Markup:
    """A line as high as text; nothing where two nights have no value."""
    known = [number for number in numbers if math.isfinite(number)]
    if len(known) < 2:
        return Markup("")
    low, high = min(known), max(known)
    scale = 20 / (high - low) if high > low else 0.0
    step = 96 / (len(numbers) - 1)
    runs: list[list[str]] = [[]]
    last = (0.0, 0.0)
    for at, number in enumerate(numbers):
        if not math.isfinite(number):
            runs.append([])
            continue
        last = (2 + at * step, 22 - (number - low) * scale if scale else 12)
        runs[-1].append(f"{last[0]:.0f},{last[1]:.0f}")
    lines = "".join(f'<polyline points="{" ".join(run)}"/>' for run in runs if len(run) > 1)
    # The dot is the night shown: none where that has no value.
    shown = math.isfinite(numbers[-1])
    dot = f'<circle cx="{last[0]:.0f}" cy="{last[1]:.0f}" r="2"/>' if shown else ""
    where = f'class="spark m{place % MODEL_COLOURS + 1}" viewBox="0 0 100 24"'
    return Markup(f'<svg {where} aria-hidden="true">{lines}{dot}</svg>')  # noqa: S704 (numbers)


def key(place: int) -> Markup:
    """A sample of a model's line and mark, for legends; without ids, since it stands in several."""
    wide, high = 36, 14
    figure = Figure(figsize=(wide / 72, high / 72), dpi=72)
    points, middle = IdentityTransform(), (wide / 2, high / 2)
    shape = MarkerStyle(mark(place))
    moved = shape.get_transform() + Affine2D().scale(5).translate(*middle)
    look = {"color": colour(place), "transform": points}
    figure.add_artist(Line2D([0, wide], [middle[1]] * 2, linestyle=dash(place), **look))
    figure.add_artist(PathPatch(shape.get_path().transformed(moved), **look))
    drawn = inline_svg(figure, f"key-{place}", "", _THEME)
    drawn = drawn.replace('role="img" aria-label=""', 'aria-hidden="true"')
    return Markup(drawn)  # noqa: S704 (no text)


def _figure(height: float, below: float = _BELOW) -> tuple[Any, Any]:
    figure = Figure(figsize=(_WIDE, height))
    wide, high = 72 * _WIDE, 72 * height
    left = _LEFT + (14 if below > _BELOW else 0)
    room = ((wide - left - _RIGHT) / wide, (high - below - _TOP) / high)
    axes = figure.add_axes((left / wide, below / high, *room))
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
    nights: Sequence[Night], values: Sequence[NightValue | None]
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Dates and values, with a gap where nights are missing."""
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
    numbers, lows, highs = ([one[at] for one in triples] for at in range(3))
    return days, numbers, lows, highs


def _points(days: Sequence[float], numbers: Sequence[float]) -> tuple[list[float], list[float]]:
    there = [(d, n) for d, n in zip(days, numbers, strict=True) if math.isfinite(n)]
    return [day for day, _ in there], [number for _, number in there]


def edges(nights: Sequence[Night]) -> list[dt.date]:
    """The nights whose conventions are others than those of the night before."""
    return [now.date for was, now in pairwise(nights) if differing(now, was)]


def _mark_nights(axes: Any, nights: Sequence[Night]) -> None:
    """A line through each night that was not fine, and before each of other conventions."""
    for date in edges(nights):
        axes.axvline(date2num(date) - 0.5, color=DIM, linewidth=0.8)
    for night in nights:
        if night.status in STATUSES and night.status != "fine":
            tone = _BAD if night.status == "regression" else _WARN
            axes.axvline(date2num(night.date), color=tone, linewidth=1, linestyle=(0, (2, 2)))


def _date_axis(axes: Any, dates: Sequence[dt.date]) -> None:
    span = (dates[-1] - dates[0]).days
    step = next((days for days in (1, 2, 7, 14, 28) if span < 6 * days), 28 * (span // 140 + 1))
    shown = [dates[-1] - dt.timedelta(days=ago) for ago in range(0, span + 1, step)]
    axes.xaxis.set_major_locator(FixedLocator(date2num(shown)))
    axes.xaxis.set_major_formatter(
        FixedFormatter(
            [f"{date.day} {_MONTHS[3 * date.month - 3 : 3 * date.month]}" for date in shown]
        )
    )
    ends = date2num([dates[0], dates[-1]])
    axes.set_xlim(ends[0] - max(0.02 * span, 0.3), ends[1] + max(0.05 * span, 0.5))


def _plain_axis(axis: Any) -> None:
    axis.set_major_locator(MaxNLocator(5))
    written = ScalarFormatter(useOffset=False)
    written.set_scientific(False)
    axis.set_major_formatter(written)


def _calibration_axes(axes: Any, lines: Sequence[CurveLine]) -> None:
    both = [number for line in lines for number in (*line.x, *line.y) if math.isfinite(number)]
    least, most = min(both), max(both)
    log = least > 0 and most / least > _FAR_APART
    ends = (least / 1.4, most * 1.4) if log else (-0.02 * most, 1.04 * most or 1.0)
    if log:
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if most / least < 200 else (1,)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))
        axes.minorticks_off()
    else:
        _plain_axis(axes.xaxis)
        _plain_axis(axes.yaxis)
    axes.plot(ends, ends, **CHANCE)
    axes.set(xlim=ends, ylim=ends, xlabel="mean prediction", ylabel="observed rate")
