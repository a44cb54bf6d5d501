"""Draw curves and the activity of groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.patches import PathPatch
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    MaxNLocator,
    ScalarFormatter,
)
from matplotlib.transforms import Affine2D, IdentityTransform

from fastrank_eval.analysis.plot_files import inline_svg
from fastrank_eval.analysis.plots import (
    DIM,
    colour,
    dash,
    draw_calibration,
    draw_roc,
    mark,
)
from fastrank_eval.apps.nightly.night import CurveLine
from fastrank_eval.apps.nightly.page_rows import activity_unit
from fastrank_eval.apps.nightly.text import amount
from fastrank_eval.apps.nightly.time_charts import MODEL_COLOURS, Chart
from fastrank_eval.engine.records import MeasureValue

_THEME = {
    "#e4e4e4": "var(--grid)",
    "#666666": "var(--dim)",
    "#333333": "var(--dim)",
    "#000000": "var(--text)",
    # Last, since the colours of models include black.
    **{colour(index).lower(): f"var(--model-{index + 1})" for index in range(MODEL_COLOURS)},
}
#: Of each kind of curve: the columns that `plots` draws, the title, and the meaning of a line.
_KINDS = {
    "roc": ("fpr", "tpr", "ROC curve", "Dotted: chance."),
    "calibration": (
        "mean_prediction",
        "observed_rate",
        "Calibration",
        "Dotted: perfectly calibrated.",
    ),
}
_WIDTH, _HEIGHT = 4.75, 4.1  # inches
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 10, 52  # points around the axes


def curve(name: str, kind: str, curves: Sequence[CurveLine], models: Sequence[str]) -> Chart | None:
    """Draw the curves of one kind; return None without a point."""
    curves = [curve_line for curve_line in curves if len(curve_line.x)]
    if not curves:
        return None
    figure, axes = _figure()
    x, y, title, reference = _KINDS[kind]
    lines = [(models.index(one.score), {x: np.array(one.x), y: np.array(one.y)}) for one in curves]
    if kind == "calibration":
        draw_calibration(axes, lines)
    else:
        axes.set(xlabel="False positive rate", ylabel="True positive rate")
        axes.set(xlim=(-0.02, 1.01), ylim=(-0.04, 1.02))
        draw_roc(axes, lines)
    if axes.get_xscale() == "linear":
        _plain_axis(axes.xaxis)
        _plain_axis(axes.yaxis)
    labels = "; ".join(f"{curve_line.score} {curve_line.label}".strip() for curve_line in curves)
    return _chart(figure, name, title, f"{title}: {labels}.", {}, reference)


def activity(name: str, title: str, values: Sequence[MeasureValue], models: Sequence[str]) -> Chart:
    """Draw a measure by activity of the groups, with intervals.

    Parameters
    ----------
    name, title : str
    values : sequence of MeasureValue
        Values by bucket, with ascending buckets.
    models : sequence of str
    """
    figure, axes = _figure()
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
        look = {"color": colour(index), "marker": mark(index), "markersize": 5, "linestyle": ""}
        y = [value.value for _, value in points]
        axes.plot([x for x, _ in points], y, clip_on=False, gid=gid, **look)
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
    for label in axes.get_xticklabels():
        label.set_linespacing(1.4)
    axes.set_xlabel(f"{activity_unit(buckets[0])} of the group")
    _plain_axis(axes.yaxis)
    return _chart(figure, name, title, f"{title}; the numbers are in the table.", marks)


def keys(models: Sequence[str]) -> list[Markup]:
    """Draw a sample of the line and the mark of each model."""
    return [_key(index) for index in range(len(models))]


def _key(index: int) -> Markup:
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


def _figure() -> tuple[Any, Any]:
    figure = Figure(figsize=(_WIDTH, _HEIGHT))
    width, height = 72 * _WIDTH, 72 * _HEIGHT
    room = ((width - _LEFT - _RIGHT) / width, (height - _BOTTOM - _TOP) / height)
    axes = figure.add_axes((_LEFT / width, _BOTTOM / height, *room))
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


def _plain_axis(axis: Any) -> None:
    axis.set_major_locator(MaxNLocator(5))
    formatter = ScalarFormatter(useOffset=False)
    formatter.set_scientific(False)
    axis.set_major_formatter(formatter)
