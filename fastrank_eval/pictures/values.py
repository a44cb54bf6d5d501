"""Lift, calibration, measures by cutoff and by activity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from fastrank_eval.pictures.rates import References, draw, models
from fastrank_eval.pictures.style import CHANCE, colour, dash, mark, shortened

if TYPE_CHECKING:
    from fastrank_eval.curves import Curve

__all__ = ["activity", "by_cutoff", "calibration", "lift"]

#: Depth from which on lift is more than the luck of a few rows.
_STEADY = 0.005
#: Predictions this many times apart are shown on logarithmic axes.
_FAR_APART = 20
_MOST_PANELS = 3
_FEW_CUTOFFS = 8
#: Of a normal distribution, 95% lie so many standard errors around its mean.
_STANDARD_ERRORS = 1.96


def lift(figure: Any, curve: Curve) -> References:
    """Cumulative gains, and lift beside them."""
    figure.set_size_inches(10.5, 6.2)
    gains, lifts = figure.subplots(1, 2)
    depths = np.linspace(_STEADY, 1.0, 800)
    gains.plot([0, 1], [0, 1], **CHANCE)
    lifts.axhline(1.0, **CHANCE)
    for place, _, columns in models(curve):
        draw(gains, place, columns["depth"], columns["recall"])
        # Gains are straight between points, lift is not.
        recall = np.interp(depths, columns["depth"], columns["recall"])
        draw(lifts, place, depths, recall / depths)
    depth = "Depth: share of rows, highest scores first"
    gains.set(xlabel=depth, ylabel="Recall: share of positives found")
    gains.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    lifts.set(xlabel=depth, ylabel="Lift over a random choice", xlim=(-0.01, 1.01))
    lifts.set_ylim(bottom=0)
    for axes in (gains, lifts):
        axes.set_box_aspect(1)
    return {"random choice": CHANCE}


def calibration(figure: Any, curve: Curve) -> References:
    """Observed rate over mean prediction, intervals, and the rows of bins of equal width."""
    counted = curve.choices["binning"] == "equal-width"
    figure.set_size_inches(6.4, 8.9 if counted else 7.2)
    if counted:
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        below.set_box_aspect(0.22)
    else:
        axes = figure.subplots()
    axes.set_box_aspect(1)
    found = [columns for _, _, columns in models(curve)]
    means = np.concatenate([columns["mean_prediction"] for columns in found])
    rates = np.concatenate([columns["observed_rate"] for columns in found])
    log = min(means.min(), rates.min()) > 0 and means.max() / means.min() > _FAR_APART
    both = np.concatenate([means, rates])
    most = min(both.max() * 1.1, 1.0) or 1.0
    ends = (-0.03 * most, 1.03 * most)
    if log:
        ends = both.min() / 1.6, min(both.max() * 1.6, 1.12)
    if log:
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))
            axis.minorticks_off()
    axes.plot(ends, ends, **CHANCE)
    for place, _, columns in models(curve):
        x, y = columns["mean_prediction"], columns["observed_rate"]
        # Wilson's interval holds the rate itself but for rounding.
        spans = np.maximum([y - columns["low"], columns["high"] - y], 0.0)
        axes.errorbar(
            x,
            y,
            spans if np.isfinite(spans).all() else None,
            color=colour(place),
            linestyle=dash(place),
            marker="o",
            markersize=5,
            elinewidth=1.2,
            capsize=2.5,
        )
        if counted:
            rows = columns.get("rows", columns.get("weight"))
            below.plot(x, rows, color=colour(place), linestyle=dash(place), marker="o", ms=4)
    if counted:
        below.set(yscale="log", xlabel="Mean prediction", ylabel="Rows of the bin")
        below.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    else:
        axes.set_xlabel("Mean prediction")
    axes.set(ylabel="Observed rate", xlim=ends, ylim=ends)
    return {"perfectly calibrated": CHANCE}


def by_cutoff(figure: Any, curve: Curve) -> References:
    """Each measure over its cutoff, a panel for each."""
    names = list(dict.fromkeys(curve.of(curve.scores[0])["measure"].tolist()))
    across = 2 if len(names) == 4 else min(len(names), _MOST_PANELS)
    down = -(-len(names) // across)
    figure.set_size_inches(max(6.4, 4.2 * across), 1.4 + 3.6 * down)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        for place, _, columns in models(curve):
            here = columns["measure"] == name
            axes.plot(
                columns["k"][here],
                columns["value"][here],
                color=colour(place),
                linestyle=dash(place),
                marker="o" if np.count_nonzero(here) <= 30 else "",
                markersize=4,
            )
        axes.set(xlabel="Cutoff k", ylabel=f"{shortened(name, 40)}@k")
        cutoffs = np.unique(curve.of(curve.scores[0])["k"])
        if len(cutoffs) > _FEW_CUTOFFS:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        else:
            axes.set_xscale("log" if cutoffs[-1] >= 10 * cutoffs[0] else "linear")
            axes.set_xticks(cutoffs, [str(k) for k in cutoffs.tolist()])
            axes.minorticks_off()
        axes.margins(y=0.1)
    for axes in panels[len(names) :]:
        axes.remove()
    return {}


def activity(figure: Any, curve: Curve) -> References:
    """A measure over buckets of groups, with how many groups stand behind each."""
    figure.set_size_inches(8.0, 5.6)
    axes = figure.subplots()
    first = curve.of(curve.scores[0])
    buckets = np.arange(len(first["bucket"]))
    many = len(curve.scores)
    for place, _, columns in models(curve):
        x = buckets + 0.6 * (place - (many - 1) / 2) / many
        axes.errorbar(
            x,
            columns["value"],
            _STANDARD_ERRORS * np.nan_to_num(columns["standard_error"]),
            color=colour(place),
            linestyle="",
            marker=mark(place),
            markersize=7,
            elinewidth=1.2,
            capsize=2.5,
        )
        for across, value in zip(x, columns["value"], strict=True):
            if many <= _MOST_PANELS and np.isfinite(value):
                axes.annotate(
                    f"{value:.3f}",
                    (across, value),
                    (7, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=9,
                    color=colour(place),
                )
    used = np.max([columns["groups_used"] for _, _, columns in models(curve)], axis=0)
    axes.set_xticks(
        buckets,
        [f"{bucket}\n{int(n):,} groups" for bucket, n in zip(first["bucket"], used, strict=True)],
    )
    what = {"rows": "Rows of a group", "positives": "Positives of a group"}
    axes.set_xlabel(f"{what[str(curve.choices['activity'])]}, and how many groups have a value")
    axes.set_ylabel(shortened(str(curve.choices["measure"]), 50))
    axes.grid(visible=False, axis="x")
    axes.margins(x=0.1, y=0.1)
    if "AUC" in str(curve.choices["measure"]):
        low, _ = axes.get_ylim()
        if low <= 0.55:
            axes.axhline(0.5, **CHANCE)
            return {"chance": CHANCE}
    return {}
