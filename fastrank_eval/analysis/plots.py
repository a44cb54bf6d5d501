"""Draw curves."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Protocol

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from fastrank_eval.results.format import printable

if TYPE_CHECKING:
    from fastrank_eval.engine.records import Meta

__all__ = [
    "CHANCE",
    "DIM",
    "activity",
    "by_cutoff",
    "calibration",
    "caption_of",
    "colour",
    "dash",
    "det",
    "figure_of",
    "legend",
    "lift",
    "mark",
    "pr",
    "roc",
    "shortened",
    "styled",
    "thinned",
    "title_of",
]


# Okabe & Ito (2008), without the yellow, which white paper swallows.
_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
_MARKS = "osD^vP"
#: Of what is no data: grids, diagonals, captions.
DIM = "#666666"
#: A line of what chance, or a perfect model, would give.
CHANCE: dict[str, Any] = {"color": DIM, "linewidth": 1.0, "linestyle": (0, (2, 2))}
_LONGEST = 44
#: Fonts that hold what the first lacks, where they are installed.
_MORE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans",
    "WenQuanYi Zen Hei",
    "Arial Unicode MS",
)

_SETTINGS = {
    "axes.edgecolor": DIM,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelsize": 11,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.unicode_minus": False,
    "figure.facecolor": "white",
    "font.size": 10.5,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    # Text of an SVG stays text, which can be searched and read aloud.
    "svg.fonttype": "none",
    "svg.hashsalt": "fastrank_eval",
    # A column may be called $x_1$; that is its name and no formula.
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in our style, whatever the user's own settings are, and leave those as they were."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        installed = set(get_font_names())
        more = [font for font in _MORE_FONTS if font in installed]
        mpl.rcParams["font.family"] = ["DejaVu Sans", *more, "sans-serif"]
        yield


def colour(model: int) -> str:
    """The colour of a model, by its place."""
    return _PALETTE[model % len(_PALETTE)]


def dash(model: int) -> Any:
    """The dashes of a model's line, so that one under another still shows."""
    return _DASHES[model % len(_DASHES)]


def mark(model: int) -> str:
    """The mark of a model's points."""
    return _MARKS[model % len(_MARKS)]


def shortened(name: str, longest: int = _LONGEST) -> str:
    """A name that fits, printable; the middle of a long one is left out."""
    name = printable(name)
    if len(name) <= longest:
        return name
    tail = longest // 3
    return f"{name[: longest - tail - 1]}…{name[-tail:]}"


def legend(figure: Any, entries: list[tuple[str, dict[str, Any]]]) -> None:
    """Put a legend under the axes, where it covers no data.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    entries : list of (str, dict)
        Texts, and how their line looks.
    """
    lines = [Line2D([], [], **look) for _, look in entries]
    placed = figure.legend(
        lines,
        [str(place) for place in range(len(lines))],
        loc="outside lower center",
        ncols=1 if max(len(text) for text, _ in entries) > 30 else min(2, len(entries)),
        handlelength=3,
    )
    # Only now the texts: a label that begins with "_" would be left out.
    for drawn, (text, _) in zip(placed.get_texts(), entries, strict=True):
        drawn.set_text(text)


References = dict[str, dict[str, Any]]
#: Steps that an axis can show.
_STEPS = 2000
#: Recall from which on precision is drawn: before, it is the luck of a few rows, on a sliver.
_STEADY = 0.005


class Drawable(Protocol):
    """What is drawn of a curve."""

    @property
    def kind(self) -> str:
        """One of `SCHEMAS`."""
        ...

    @property
    def scores(self) -> tuple[str, ...]:
        """The models."""
        ...

    @property
    def columns(self) -> dict[str, dict[str, np.ndarray]]:
        """Columns of points by model."""
        ...

    @property
    def values(self) -> dict[str, dict[str, float]]:
        """Numbers of the whole curve by model."""
        ...

    @property
    def undefined(self) -> dict[str, str]:
        """Models without a curve, and why."""
        ...

    @property
    def choices(self) -> dict[str, object]:
        """Options of the kind."""
        ...

    @property
    def meta(self) -> Meta:
        """What the curve rests on."""
        ...

    @property
    def source(self) -> str:
        """What was read."""
        ...

    def of(self, score: str | None = None) -> dict[str, np.ndarray]:
        """Return the columns of one model."""
        ...


def models(curve: Drawable) -> Iterator[tuple[int, str, dict[str, np.ndarray]]]:
    """The models that have a curve, each with its place."""
    for place, score in enumerate(curve.scores):
        if score not in curve.undefined:
            yield place, score, curve.of(score)


def thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out points that a picture cannot show: those inside a run within one of its cells."""
    if len(x) <= _STEPS:
        return x, y
    cells = []
    for values in (x, y):
        span = float(np.ptp(values)) or 1.0
        cells.append(np.floor((values - values.min()) / span * _STEPS))
    moves = (np.diff(cells[0]) != 0) | (np.diff(cells[1]) != 0)
    kept = np.concatenate([[True], moves]) | np.concatenate([moves, [True]])
    return x[kept], y[kept]


def draw(axes: Any, place: int, x: np.ndarray, y: np.ndarray, **look: Any) -> None:
    """One model's line."""
    axes.plot(
        *thinned(x, y),
        color=colour(place),
        linestyle=dash(place),
        solid_joinstyle="round",
        **look,
    )


def square(figure: Any, across: str, up: str) -> Any:
    """Axes of two shares of one."""
    figure.set_size_inches(6.4, 7.2)
    axes = figure.subplots()
    axes.set(xlabel=across, ylabel=up, xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    axes.set_box_aspect(1)
    return axes


def roc(figure: Any, curve: Drawable) -> References:
    """True over false positive rate, with the diagonal of chance."""
    axes = square(figure, "False positive rate", "True positive rate")
    axes.plot([0, 1], [0, 1], **CHANCE)
    for place, _, columns in models(curve):
        draw(axes, place, columns["fpr"], columns["tpr"])
    return {"chance": CHANCE}


def pr(figure: Any, curve: Drawable) -> References:
    """Precision over recall, with the share of positives that every recall has by chance."""
    axes = square(figure, "Recall", "Precision")
    highest = 0.0
    for place, _, columns in models(curve):
        steady = columns["recall"] >= _STEADY
        recall, precision = columns["recall"][steady], columns["precision"][steady]
        # Steps as high as their right ends: the area under them is the average precision.
        first = np.append(0.0, recall), np.append(precision[0], precision)
        draw(axes, place, *first, drawstyle="steps-pre")
        highest = max(highest, float(precision.max()))
    rates = sorted({curve.values[score]["positive rate"] for _, score, _ in models(curve)})
    for rate in rates:
        axes.axhline(rate, **CHANCE)
    axes.set_ylim(0, min(highest * 1.08, 1.02))
    return {"chance: share of positives": CHANCE}


def det(figure: Any, curve: Drawable) -> References:
    """Misses over false alarms, both on the scale of normal deviates."""
    axes = square(figure, "False positive rate", "False negative rate")
    errors = [curve.values[score]["EER"] for _, score, _ in models(curve)]
    some = [error for error in errors if error > 0]
    least = 10 ** np.floor(np.log10(max(min(some, default=0.1) / 100, 1e-6)))
    ends = deviates(np.array([least, 1 - least]))
    for place, _, columns in models(curve):
        # What is 0 or 1 lies beyond the frame.
        x, y = (
            deviates(np.clip(columns[name], least / 10, 1 - least / 10)) for name in ("fpr", "fnr")
        )
        draw(axes, place, x, y)
    axes.plot(ends, ends, **CHANCE)
    for place, score, _ in models(curve):
        error = curve.values[score]["EER"]
        if least < error < 1 - least:
            at = deviates(np.array([error]))
            axes.plot(at, at, "o", color=colour(place), markersize=6, zorder=3)
    shares = np.array([1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99])
    shown = np.append(shares, 1 - shares[:4])
    shown = shown[(shown >= least) & (shown <= 1 - least)]
    places, names = deviates(shown), [f"{100 * share:.10g}%" for share in shown]
    axes.set_xticks(places, names, fontsize=9, rotation=0 if least >= 1e-3 else 60)
    axes.set_yticks(places, names, fontsize=9)
    axes.set(xlim=ends, ylim=ends)
    return {"equal error rates": CHANCE}


def deviates(shares: np.ndarray) -> np.ndarray:
    """Where the standard normal distribution reaches each share, in ]0, 1[."""
    reached = NormalDist().inv_cdf
    return np.fromiter(map(reached, shares.tolist()), np.float64, len(shares))


#: Predictions this many times apart are shown on logarithmic axes.
_FAR_APART = 20
_MOST_PANELS = 3
_FEW_CUTOFFS = 8
#: Of a normal distribution, 95% lie so many standard errors around its mean.
_STANDARD_ERRORS = 1.96


def lift(figure: Any, curve: Drawable) -> References:
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


def calibration(figure: Any, curve: Drawable) -> References:
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


def by_cutoff(figure: Any, curve: Drawable) -> References:
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


def activity(figure: Any, curve: Drawable) -> References:
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


_TITLES = {
    "roc": "ROC curve",
    "pr": "Precision and recall",
    "det": "Detection error trade-off",
    "lift": "Cumulative gains and lift",
    "calibration": "Calibration",
}
_DRAWN: dict[str, Callable[[Any, Drawable], dict[str, dict[str, Any]]]] = {
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


def title_of(curve: Drawable, title: str | None = None) -> str:
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


def caption_of(curve: Drawable) -> str:
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


def figure_of(curve: Drawable, title: str | None = None) -> Figure:
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


def _entry(curve: Drawable, score: str) -> str:
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
