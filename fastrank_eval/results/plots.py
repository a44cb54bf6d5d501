"""Draw curves, and values with their intervals, with matplotlib."""

from __future__ import annotations

import io
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from fastrank_eval.measures import parse_measures
from fastrank_eval.measures.pooled import CLUSTERS
from fastrank_eval.results.differences import ComparedValue, is_shown, is_tested
from fastrank_eval.results.notes import rows_left_out_notes, unit_of
from fastrank_eval.results.report import (
    amount,
    count_text,
    detail_text,
    legend_text,
    percent_text,
    printable,
)

if TYPE_CHECKING:
    from fastrank_eval.engine.records import MeasureValue, Meta


# Okabe & Ito (2008), without yellow, which is hard to see on white.
_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
_MARKS = "osD^vP"
#: Colour of everything but data: grids, diagonals, captions.
DIM = "#666666"
#: Style of reference lines: chance, or a perfect model.
CHANCE: dict[str, Any] = {"color": DIM, "linewidth": 1.0, "linestyle": (0, (2, 2))}
_MAX_LENGTH = 44
#: Style of bars of errors.
_BARS = {"elinewidth": 1.2, "capsize": 2.5}
#: Fallback fonts for characters that the first font lacks, if installed.
_MORE_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Microsoft YaHei", "PingFang SC", "Hiragino Sans"),
    *("WenQuanYi Zen Hei", "Arial Unicode MS"),
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
    # Text in SVG stays text: it can be searched and read by screen readers.
    "svg.fonttype": "none",
    "svg.hashsalt": "fastrank_eval",
    # A column may be named $x_1$: this is a name, not a formula.
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
}


class Picture(Figure):  # type: ignore[misc]
    """A figure that a notebook shows, even if pyplot was not imported."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        with styled():
            self.savefig(out, format="png", bbox_inches="tight", pad_inches=0.15)
        return out.getvalue()


#: Held while settings of matplotlib, which all threads share, are ours.
_STYLE = threading.RLock()


@contextmanager
def styled() -> Iterator[None]:
    """Use our style in a context, then restore the user's settings.

    One thread at a time is in such a context. A character of a column's name that the font lacks
    is drawn as a box, without a warning.
    """
    with _STYLE, mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        installed = set(get_font_names())
        more = [font for font in _MORE_FONTS if font in installed]
        mpl.rcParams["font.family"] = ["DejaVu Sans", *more, "sans-serif"]
        yield


def colour(model: int) -> str:
    """Get the colour of a model by its index."""
    return _PALETTE[model % len(_PALETTE)]


def dash(model: int) -> Any:
    """Get the dashes of a model's line: overlapping lines stay visible."""
    return _DASHES[model % len(_DASHES)]


def mark(model: int) -> str:
    """Get the mark of a model's points."""
    return _MARKS[model % len(_MARKS)]


def _look(model: int) -> dict[str, Any]:
    return {"color": colour(model), "linestyle": dash(model)}


def _point(model: int) -> dict[str, Any]:
    return {"color": colour(model), "linestyle": "", "marker": mark(model), "markersize": 7}


def shortened(name: str, longest: int = _MAX_LENGTH) -> str:
    """Shorten a name in its middle, and make it printable."""
    name = printable(name)
    if len(name) <= longest:
        return name
    tail = longest // 3
    return f"{name[: longest - tail - 1]}…{name[-tail:]}"


def legend(figure: Any, entries: list[tuple[str, dict[str, Any]]]) -> None:
    """Draw a legend under the axes, where it covers no data.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    entries : list of (str, dict)
        Texts and the styles of their lines.
    """
    lines = [Line2D([], [], **look) for _, look in entries]
    drawing = figure.legend(
        lines,
        [str(index) for index in range(len(lines))],
        loc="outside lower center",
        ncols=1 if max(len(text) for text, _ in entries) > 30 else min(2, len(entries)),
        handlelength=3,
    )
    # Texts are set last: matplotlib leaves out labels that begin with "_".
    for label, (text, _) in zip(drawing.get_texts(), entries, strict=True):
        label.set_text(text)


def panel_grid(
    figure: Any, count: int, width: tuple[float, float], height: tuple[float, float], **share: bool
) -> tuple[Any, int]:
    """Make panels, at most three across, and say how many are across.

    `width` and `height` are the inches around all panels and of each.
    """
    across = 2 if count == 4 else min(count, _MAX_PANELS)
    down = -(-count // across)
    figure.set_size_inches(max(6.4, width[0] + width[1] * across), height[0] + height[1] * down)
    panels = figure.subplots(down, across, squeeze=False, **share).ravel()
    for axes in panels[count:]:
        axes.remove()
    return panels[:count], across


References = dict[str, dict[str, Any]]
#: Number of steps that an axis can show.
_STEPS = 2000
#: Least recall at which precision is drawn: below, it depends on a few rows.
_MIN_RECALL = 0.005


#: A `Curve`, whose file imports this one.
Drawable: TypeAlias = Any


def models(curve: Drawable) -> Iterator[tuple[int, str, dict[str, np.ndarray]]]:
    """Iterate over the models that have a curve, with their indices."""
    for model, score in enumerate(curve.scores):
        if score not in curve.undefined:
            yield model, score, curve.of(score)


def thin(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Remove points that a picture cannot show."""
    if len(x) <= _STEPS:
        return x, y
    cells = []
    for values in (x, y):
        width = float(np.ptp(values)) or 1.0
        cells.append(np.floor((values - values.min()) / width * _STEPS))
    moves = (np.diff(cells[0]) != 0) | (np.diff(cells[1]) != 0)
    keep = np.concatenate([[True], moves]) | np.concatenate([moves, [True]])
    return x[keep], y[keep]


def draw(axes: Any, model: int, x: np.ndarray, y: np.ndarray, **look: Any) -> None:
    """Draw the line of one model."""
    axes.plot(*thin(x, y), **_look(model), solid_joinstyle="round", **look)


def square(figure: Any, across: str, up: str) -> Any:
    """Make square axes from 0 to 1."""
    figure.set_size_inches(6.4, 7.2)
    axes = figure.subplots()
    axes.set(xlabel=across, ylabel=up, xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    axes.set_box_aspect(1)
    return axes


def roc(figure: Any, curve: Drawable) -> References:
    """Draw true over false positive rate, with the diagonal of chance."""
    axes = square(figure, "False positive rate", "True positive rate")
    axes.plot([0, 1], [0, 1], **CHANCE)
    for model, _, columns in models(curve):
        draw(axes, model, columns["fpr"], columns["tpr"])
    return {"chance": CHANCE}


def pr(figure: Any, curve: Drawable) -> References:
    """Draw precision over recall, with the share of positives as chance level."""
    axes = square(figure, "Recall", "Precision")
    highest = 0.0
    for model, _, columns in models(curve):
        is_steady = columns["recall"] >= _MIN_RECALL
        recall, precision = columns["recall"][is_steady], columns["precision"][is_steady]
        # The height of a step is that of its right end: the area is the average precision.
        steps = np.append(0.0, recall), np.append(precision[0], precision)
        draw(axes, model, *steps, drawstyle="steps-pre")
        highest = max(highest, float(precision.max()))
    rates = sorted({curve.values[score]["positive rate"] for _, score, _ in models(curve)})
    for rate in rates:
        axes.axhline(rate, **CHANCE)
    axes.set_ylim(0, min(highest * 1.08, 1.02))
    return {"chance: share of positives": CHANCE}


def det(figure: Any, curve: Drawable) -> References:
    """Draw false negative over false positive rate, as normal deviates."""
    axes = square(figure, "False positive rate", "False negative rate")
    errors = [curve.values[score]["EER"] for _, score, _ in models(curve)]
    positive = [error for error in errors if error > 0]
    low = 10 ** np.floor(np.log10(max(min(positive, default=0.1) / 100, 1e-6)))
    ends = deviates(np.array([low, 1 - low]))
    for model, _, columns in models(curve):
        # Points at 0 or 1 are outside the frame.
        x, y = (deviates(np.clip(columns[name], low / 10, 1 - low / 10)) for name in ("fpr", "fnr"))
        draw(axes, model, x, y)
    axes.plot(ends, ends, **CHANCE)
    for model, score, _ in models(curve):
        error = curve.values[score]["EER"]
        if low < error < 1 - low:
            quantile = deviates(np.array([error]))
            axes.plot(quantile, quantile, "o", color=colour(model), markersize=6, zorder=3)
    shares = np.array([1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99])
    shown = np.append(shares, 1 - shares[:4])
    shown = shown[(shown >= low) & (shown <= 1 - low)]
    ticks, names = deviates(shown), list(map(percent_text, shown))
    axes.set_xticks(ticks, names, fontsize=9, rotation=0 if low >= 1e-3 else 60)
    axes.set_yticks(ticks, names, fontsize=9)
    axes.set(xlim=ends, ylim=ends)
    return {"equal error rates": CHANCE}


def deviates(shares: np.ndarray) -> np.ndarray:
    """Compute standard normal quantiles of shares in ]0, 1[."""
    quantile = NormalDist().inv_cdf
    return np.fromiter(map(quantile, shares.tolist()), np.float64, len(shares))


#: Axes are logarithmic if the ratio of predictions is larger than this.
_LOG_RATIO = 20
_MAX_PANELS = 3
_FEW_CUTOFFS = 8
#: Half the 95% interval of a normal distribution, in standard errors.
_STANDARD_ERRORS = 1.96


def lift(figure: Any, curve: Drawable) -> References:
    """Draw cumulative gains, and lift next to them."""
    figure.set_size_inches(10.5, 6.2)
    gains, lifts = figure.subplots(1, 2)
    depths = np.linspace(_MIN_RECALL, 1.0, 800)
    gains.plot([0, 1], [0, 1], **CHANCE)
    lifts.axhline(1.0, **CHANCE)
    for model, _, columns in models(curve):
        draw(gains, model, columns["depth"], columns["recall"])
        # Between points, gains are straight lines, lift is not.
        recall = np.interp(depths, columns["depth"], columns["recall"])
        draw(lifts, model, depths, recall / depths)
    depth = "Depth: share of rows, highest scores first"
    gains.set(xlabel=depth, ylabel="Recall: share of positives found")
    gains.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    lifts.set(xlabel=depth, ylabel="Lift over a random choice", xlim=(-0.01, 1.01))
    lifts.set_ylim(bottom=0)
    for axes in (gains, lifts):
        axes.set_box_aspect(1)
    return {"random choice": CHANCE}


def calibration(figure: Any, curve: Drawable) -> References:
    """Draw observed rate over mean prediction, and rows of bins."""
    has_counts = curve.choices["binning"] == "equal-width"
    figure.set_size_inches(6.4, 8.9 if has_counts else 7.2)
    if has_counts:
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        below.set_box_aspect(0.22)
    else:
        axes = figure.subplots()
    axes.set_box_aspect(1)
    lines = [(model, columns) for model, _, columns in models(curve)]
    means = np.concatenate([columns["mean_prediction"] for _, columns in lines])
    both = np.concatenate([means, *(columns["observed_rate"] for _, columns in lines)])
    low, high = float(np.nanmin(both)), float(np.nanmax(both))
    highest = min(high * 1.1, 1.0) or 1.0
    ends = (-0.03 * highest, 1.03 * highest)
    if low > 0 and np.nanmax(means) / np.nanmin(means) > _LOG_RATIO:
        ends = low / 1.6, min(high * 1.6, 1.12)
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 200 else (1,)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: detail_text(value)))
            axis.minorticks_off()
    axes.plot(ends, ends, **CHANCE)
    for model, columns in lines:
        x, y = columns["mean_prediction"], columns["observed_rate"]
        # Wilson's interval includes the rate itself, except for rounding.
        ends_of_bars = columns.get("low", np.nan), columns.get("high", np.nan)
        half_widths = np.maximum([y - ends_of_bars[0], ends_of_bars[1] - y], 0.0)
        bars = half_widths if np.isfinite(half_widths).all() else None
        look = {"color": colour(model), "linestyle": dash(model), "marker": mark(model)}
        axes.errorbar(x, y, bars, **look, **_BARS, markersize=5)
    axes.set(xlabel="Mean prediction", ylabel="Observed rate", xlim=ends, ylim=ends)
    for model, columns in lines if has_counts else ():
        x, rows = columns["mean_prediction"], columns.get("rows", columns.get("weight"))
        below.plot(x, rows, **_look(model), marker="o", markersize=4)
    if has_counts:
        below.set(yscale="log", xlabel="Mean prediction", ylabel="Rows of the bin")
        below.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axes.set_xlabel("")
    return {"perfectly calibrated": CHANCE}


def by_cutoff(figure: Any, curve: Drawable) -> References:
    """Draw each measure over its cutoff, one panel for each."""
    names = _measures_by_cutoff(curve)
    panels, _ = panel_grid(figure, len(names), (0.0, 4.2), (1.4, 3.6))
    for axes, (text, name) in zip(panels, names.items(), strict=True):
        for model, _, columns in models(curve):
            is_measure = columns["measure"] == text
            x, y = columns["k"][is_measure], columns["value"][is_measure]
            axes.plot(x, y, **_look(model), marker="o" if len(x) <= 30 else "", markersize=4)
        axes.set(xlabel="Cutoff k", ylabel=f"{shortened(name, 40)}@k")
        cutoffs = np.unique(curve.of(curve.scores[0])["k"])
        if len(cutoffs) > _FEW_CUTOFFS:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        else:
            axes.set_xscale("log" if cutoffs[-1] >= 10 * cutoffs[0] else "linear")
            axes.set_xticks(cutoffs, [str(k) for k in cutoffs.tolist()])
            axes.minorticks_off()
        axes.margins(y=0.1)
    return {}


def _measures_by_cutoff(curve: Drawable) -> dict[str, str]:
    """Map the measures of a curve to the names that were asked for."""
    return {str(m): m.display_name for m in parse_measures(str(curve.choices["measure"]))}


def activity(figure: Any, curve: Drawable) -> References:
    """Draw a measure over buckets of groups, with the number of groups."""
    figure.set_size_inches(8.0, 5.6)
    axes = figure.subplots()
    first = curve.of(curve.scores[0])
    buckets = np.arange(len(first["bucket"]))
    model_count = len(curve.scores)
    for model, _, columns in models(curve):
        x = buckets + 0.6 * (model - (model_count - 1) / 2) / model_count
        half_widths = _STANDARD_ERRORS * np.nan_to_num(columns["standard_error"])
        axes.errorbar(x, columns["value"], half_widths, **_point(model), **_BARS)
        for across, value in zip(x, columns["value"], strict=True):
            if model_count <= _MAX_PANELS and np.isfinite(value):
                at = {"xytext": (7, 0), "textcoords": "offset points", "va": "center"}
                text = amount(value, 3)
                axes.annotate(text, (across, value), **at, fontsize=9, color=colour(model))
    groups_used = np.max([columns["groups_used"] for _, _, columns in models(curve)], axis=0)
    pairs = zip(first["bucket"], groups_used, strict=True)
    axes.set_xticks(buckets, [f"{bucket}\n{count_text(int(n), 'group')}" for bucket, n in pairs])
    labels = {"rows": "Rows of a group", "positives": "Positives of a group"}
    axes.set_xlabel(f"{labels[str(curve.choices['activity'])]}, and how many groups have a value")
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
_DRAW: dict[str, Callable[[Any, Drawable], dict[str, dict[str, Any]]]] = {
    "roc": roc,
    "pr": pr,
    "det": det,
    "lift": lift,
    "calibration": calibration,
    "k": by_cutoff,
    "gauc-by-activity": activity,
}
#: Values that only the axes show.
_AXIS_VALUES = ("positive rate",)


def title_of(curve: Drawable, title: str | None = None) -> str:
    """Write the title of the picture."""
    if title is not None:
        return shortened(title, 90)
    if curve.kind == "k":
        return shortened(f"{', '.join(_measures_by_cutoff(curve).values())} by cutoff", 70)
    if curve.kind == "gauc-by-activity":
        return shortened(
            f"{curve.choices['measure']} by {curve.choices['activity']} of a group", 70
        )
    return _TITLES[curve.kind]


def caption_of(curve: Drawable) -> str:
    """Describe the data: source, rows, groups, conventions."""
    conditions = curve.meta.conventions
    texts = [shortened(curve.source)] if curve.source else []
    rows, groups = curve.meta.rows, curve.meta.groups
    in_groups = f" in {count_text(groups, 'group')}" if groups else ""
    texts.append(count_text(rows, "row") + in_groups)
    rates = [of["positive rate"] for of in curve.values.values() if "positive rate" in of]
    if rates:
        texts.append(f"{percent_text(rates[0], 3)} positive")
    if curve.kind == "calibration":
        texts.append(f"{curve.choices['bins']} {curve.choices['binning']} bins")
        if conditions.get("weight") is None and "cluster" not in conditions:
            confidence = float(str(curve.choices["confidence"]))
            texts.append(f"bars: {percent_text(confidence)} intervals")
    if curve.kind == "gauc-by-activity":
        of = f" of {unit_of(conditions)}s" if "cluster" in conditions else ""
        texts.append(f"bars: 1.96 standard errors{of}")
    texts += [
        f"{name} {shortened(str(conditions[name]), 60)}"
        for name in ("weight", "where", "limit")
        if conditions.get(name) is not None
    ]
    texts += [note.partition(",")[0] for note in rows_left_out_notes(curve.meta)]
    return ", ".join(texts)


def figure_of(curve: Drawable, title: str | None = None) -> Figure:
    """Draw all models of a curve in one figure."""
    figure = Picture(layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    references = _DRAW[curve.kind](figure, curve)
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
    look = _point if curve.kind == "gauc-by-activity" else _look
    entries = [(_legend_text(curve, score), look(i)) for i, score in enumerate(curve.scores)]
    legend(figure, [*entries, *references.items()])
    return figure


def _legend_text(curve: Drawable, score: str) -> str:
    """Write the legend text of a model: its name and summary values."""
    reason = curve.undefined.get(score)
    if reason is not None:
        return f"{shortened(score)}  undefined: {reason.replace('_', ' ')}"
    texts = [
        f"{shortened(name)} {legend_text(value)}"
        for name, value in curve.values[score].items()
        if name not in _AXIS_VALUES
    ]
    return f"{shortened(score)}  {', '.join(texts)}"


#: Slices that a picture shows; the caption counts the others.
_MAX_ROWS = 60
#: How marks differ from those of their model.
_LOOKS: dict[str, dict[str, Any]] = {
    "filled": {},
    "hollow": {"markerfacecolor": "white"},
    "grey": {"color": "#b8b8b8"},
}


def draw_forest(
    values: Sequence[MeasureValue] | Sequence[ComparedValue],
    models: Sequence[str],
    baseline: str | None,
    meta: Meta,
    title: str | None,
) -> Figure:
    """Draw a panel a measure, a row a slice.

    Parameters
    ----------
    values : sequence of MeasureValue or ComparedValue
        Differences make a forest plot.
    models : sequence of str
    baseline : str or None
        None for values.
    meta : Meta
    title : str or None
        By default what is drawn.
    """
    confidence = meta.confidence or 0.95
    filled: str | None = None
    default = "Values by model"
    if baseline is not None:
        correction = str(meta.conventions.get("correction"))
        p = "p" if correction == "none" else f"p ({correction})"
        filled = f"filled: significant, {p} at most {percent_text(1 - confidence)}"
        against = f"{models[0]} against" if len(models) == 1 else "Difference from"
        default = f"{against} {baseline}"
    labels = list(dict.fromkeys(map(_row_of, values)))
    hidden, labels = max(len(labels) - _MAX_ROWS, 0), labels[:_MAX_ROWS]
    rows = {label: row for row, label in enumerate(labels)}
    measures = {v.measure: v.display_name for v in values}
    figure = Picture(layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    height = 0.9 + len(labels) * (0.26 + 0.12 * (len(models) - 1))
    panels, across = panel_grid(figure, len(measures), (1.6, 3.4), (1.9, height), sharey=True)
    styles: list[dict[str, Any]] = [
        {"color": colour(i), "marker": mark(i), "linestyle": ""} for i in range(len(models))
    ]
    drawn = [v for v in values if _row_of(v) in rows]
    for number, (axes, measure) in enumerate(zip(panels, measures, strict=True)):
        if filled is not None:
            axes.axvline(0, **CHANCE)
        for index, model in enumerate(models):
            offset = 0.6 * (index - (len(models) - 1) / 2) / len(models)
            own = [v for v in drawn if (v.measure, v.score) == (measure, model)]
            for look, style in _LOOKS.items():
                some = [v for v in own if _look_of(v, confidence) == look]
                if some:
                    numbers = [_number_of(v) for v in some]
                    ends = [
                        [x - v.ci_low for x, v in zip(numbers, some, strict=True)],
                        [v.ci_high - x for x, v in zip(numbers, some, strict=True)],
                    ]
                    axes.errorbar(
                        numbers,
                        [rows[_row_of(v)] + offset for v in some],
                        xerr=np.maximum(np.nan_to_num(ends), 0.0),  # 0 without an interval
                        **(styles[index] | style),
                        markersize=6,
                        elinewidth=1.4,
                        capsize=2.5,
                    )
        name = shortened(measures[measure], 40)
        axes.set_xlabel(name + (" difference" if filled is not None else ""))
        axes.set_yticks(range(len(labels)), [shortened(label, 32) for label in labels])
        axes.grid(visible=False, axis="y")
        axes.margins(x=0.12)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.tick_params(labelleft=number % across == 0)
        axes.xaxis.get_major_locator().set_params(nbins=5)
    texts = [count_text(meta.rows, "row")]
    texts += [count_text(meta.groups, "group")] if meta.groups else []
    clusters = meta.conventions.get(CLUSTERS)
    texts += [count_text(clusters, "cluster")] if isinstance(clusters, int) else []
    texts += [f"bars: {percent_text(confidence)} intervals"] if meta.confidence else []
    texts += [f"{count_text(hidden, 'more slice')} not shown"] if hidden else []
    wide = int(figure.get_figwidth() * 11)
    caption = textwrap.fill(", ".join(texts), wide)
    figure.suptitle(
        textwrap.fill(shortened(title or default, 90), wide * 2 // 3),
        x=0.01,
        ha="left",
        fontsize=13,
        fontweight="bold",
    )
    panels[0].set_title(caption, loc="left", fontsize=9, color=DIM)
    entries = [(shortened(model), style) for model, style in zip(models, styles, strict=True)]
    if filled is not None:
        looks = {_look_of(v, confidence) for v in values}
        dot = {"color": DIM, "marker": "o", "linestyle": ""}
        entries += [(filled, dot)] if looks != {"grey"} else []
        entries += [("not tested", dot | _LOOKS["grey"])] if "grey" in looks else []
        entries += [("no difference", CHANCE)]
    legend(figure, entries)
    return figure


def _row_of(value: MeasureValue | ComparedValue) -> str:
    return value.slice if value.by else "all rows"


def _number_of(value: MeasureValue | ComparedValue) -> float:
    return value.delta if isinstance(value, ComparedValue) else value.value


def _look_of(value: MeasureValue | ComparedValue, confidence: float) -> str:
    """Choose the look: filled, or of differences hollow or grey too."""
    if not isinstance(value, ComparedValue) or is_shown(value, confidence):
        return "filled"
    return "hollow" if is_tested(value) else "grey"
