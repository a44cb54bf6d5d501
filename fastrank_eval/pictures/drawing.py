"""Curve to figure: what each kind shows."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from fastrank_eval.pictures.rates import det, pr, roc
from fastrank_eval.pictures.style import DIM, colour, dash, legend, mark, shortened
from fastrank_eval.pictures.values import activity, by_cutoff, calibration, lift

if TYPE_CHECKING:
    from fastrank_eval.curves import Curve

__all__ = ["caption_of", "figure_of", "title_of"]

_TITLES = {
    "roc": "ROC curve",
    "pr": "Precision and recall",
    "det": "Detection error trade-off",
    "lift": "Cumulative gains and lift",
    "calibration": "Calibration",
}
_DRAWN: dict[str, Callable[[Any, Curve], dict[str, dict[str, Any]]]] = {
    "roc": roc,
    "pr": pr,
    "det": det,
    "lift": lift,
    "calibration": calibration,
    "k": by_cutoff,
    "gauc-by-activity": activity,
}
#: Values that the axes show, not the legend.
_ON_AXES = ("positive rate",)


def title_of(curve: Curve, title: str | None = None) -> str:
    """What stands above the picture."""
    if title is not None:
        return shortened(title, 90)
    if curve.kind == "k":
        names = dict.fromkeys(str(name) for of in curve.columns.values() for name in of["measure"])
        return shortened(f"{', '.join(names)} by cutoff", 70)
    if curve.kind == "gauc-by-activity":
        return shortened(
            f"{curve.choices['measure']} by {curve.choices['activity']} of a group", 70
        )
    return _TITLES[curve.kind]


def caption_of(curve: Curve) -> str:
    """What the data are."""
    conditions = curve.meta.conventions
    told = [shortened(curve.source)] if curve.source else []
    rows, groups = curve.meta.rows, curve.meta.groups
    told.append(f"{rows:,} rows in {groups:,} group{'' if groups == 1 else 's'}")
    rates = [of["positive rate"] for of in curve.values.values() if "positive rate" in of]
    if rates:
        told.append(f"{100 * rates[0]:.3g}% positive")
    if curve.kind == "calibration":
        told.append(f"{curve.choices['bins']} {curve.choices['binning']} bins")
        if conditions.get("weight") is None:
            told.append(f"bars: {100 * float(str(curve.choices['confidence'])):.6g}% intervals")
    if curve.kind == "gauc-by-activity":
        told.append("bars: 1.96 standard errors")
    told += [
        f"{name} {shortened(str(conditions[name]), 60)}"
        for name in ("weight", "where", "limit")
        if conditions.get(name) is not None
    ]
    return ", ".join(told)


def figure_of(curve: Curve, title: str | None = None) -> Figure:
    """All models of a curve in one figure."""
    figure = Figure(layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    references = _DRAWN[curve.kind](figure, curve)
    first = figure.axes[0]
    wide = int(figure.get_figwidth() * 12)
    caption = textwrap.fill(caption_of(curve), wide)
    first.annotate(caption, (0, 1), (0, 7), "axes fraction", "offset points", fontsize=9, color=DIM)
    first.set_title(
        textwrap.fill(title_of(curve, title), wide * 2 // 3),
        loc="left",
        fontsize=13,
        fontweight="bold",
        pad=14 + 12 * (1 + caption.count("\n")),
    )
    points = curve.kind == "gauc-by-activity"
    entries = [
        (
            _entry(curve, score),
            {"color": colour(i), "linestyle": "" if points else dash(i)}
            | ({"marker": mark(i), "markersize": 7} if points else {}),
        )
        for i, score in enumerate(curve.scores)
    ]
    legend(figure, [*entries, *references.items()])
    return figure


def _entry(curve: Curve, score: str) -> str:
    """A model and what its curve comes to."""
    reason = curve.undefined.get(score)
    if reason is not None:
        return f"{shortened(score)}  undefined: {reason.replace('_', ' ')}"
    told = [
        f"{shortened(name)} {_number(value)}"
        for name, value in curve.values[score].items()
        if name not in _ON_AXES
    ]
    return f"{shortened(score)}  {', '.join(told)}"


def _number(value: float) -> str:
    if np.isnan(value):
        return "undefined"
    return f"{value:.4f}" if abs(value) >= 0.1 else f"{value:.3g}"
