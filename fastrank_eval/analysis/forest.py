"""Draw values and differences with their intervals, one row a slice."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.analysis.compared_value import ComparedValue, is_shown, is_tested
from fastrank_eval.analysis.comparison_view import ReportedComparison
from fastrank_eval.analysis.plots import CHANCE, DIM, Picture, colour, legend, mark, shortened
from fastrank_eval.results.format import count_text, percent_text
from fastrank_eval.results.lookup import find_slicing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fastrank_eval.engine.records import Meta
    from fastrank_eval.results.result_view import Reported

#: Slices that a picture shows; the caption counts the others.
_MAX_ROWS = 60
#: Panels next to each other.
_MAX_ACROSS = 3
_ALL = "all rows"
#: How marks differ from those of their model.
_LOOKS: dict[str, dict[str, str]] = {
    "filled": {},
    "hollow": {"markerfacecolor": "white"},
    "grey": {"color": "#b8b8b8"},
}


@dataclass(frozen=True)
class _Bar:
    """A value with its interval.

    Parameters
    ----------
    model, slice, measure : str
    name : str
        The measure as reports show it.
    value, low, high : float
        NaN where undefined.
    look : {"filled", "hollow", "grey"}
        Of a difference: significant, not significant, not tested.
    """

    model: str
    slice: str
    measure: str
    name: str
    value: float
    low: float
    high: float
    look: str = "filled"


def draw_report(
    report: Reported | ReportedComparison,
    measures: Sequence[str],
    by: str | None,
    title: str | None,
) -> Figure:
    """Draw a panel a measure, a row a slice.

    Parameters
    ----------
    report : Reported or ReportedComparison
        Differences make a forest plot.
    measures : sequence of str
        Canonical texts.
    by : str or None
        In any accepted spelling; None for all slices.
    title : str or None
    """
    if isinstance(report, ReportedComparison):
        return _differences(report, measures, by, title)
    return _values(report, measures, by, title)


def _values(result: Reported, measures: Sequence[str], by: str | None, title: str | None) -> Figure:
    slicing = None if by is None else find_slicing(by, result.values)
    bars = [
        _Bar(v.score, v.slice if v.by else _ALL, v.measure, v.shown, v.value, v.ci_low, v.ci_high)
        for v in result.values
        if v.measure in measures and (by is None or v.by in (None, slicing))
    ]
    return _draw(bars, result.scores, title or "Values by model", result.meta, None)


def _differences(
    comparison: ReportedComparison, measures: Sequence[str], by: str | None, title: str | None
) -> Figure:
    slicing = None if by is None else find_slicing(by, comparison.evaluated)
    bars = [
        _Bar(
            v.score,
            v.slice if v.by else _ALL,
            v.measure,
            v.shown,
            v.delta,
            v.ci_low,
            v.ci_high,
            _look_of(v, comparison.confidence),
        )
        for v in comparison.values
        if v.measure in measures and (by is None or v.by in (None, slicing))
    ]
    models = comparison.scores
    against = f"{models[0]} against" if len(models) == 1 else "Difference from"
    correction = str(comparison.meta.conventions.get("correction"))
    level = percent_text(1 - comparison.confidence)
    p = "p" if correction == "none" else f"p ({correction})"
    return _draw(
        bars,
        models,
        title or f"{against} {comparison.baseline}",
        comparison.meta,
        f"filled: significant, {p} at most {level}",
    )


def _look_of(value: ComparedValue, confidence: float) -> str:
    """Choose the look of a difference."""
    if is_shown(value, confidence):
        return "filled"
    return "hollow" if is_tested(value) else "grey"


def _draw(
    bars: Sequence[_Bar], models: Sequence[str], title: str, meta: Meta, filled: str | None
) -> Figure:
    """Draw panels of bars.

    Parameters
    ----------
    bars : sequence of _Bar
    models : sequence of str
    title : str
    meta : Meta
    filled : str or None
        The meaning of filled marks of differences; None for values.
    """
    labels = list(dict.fromkeys(bar.slice for bar in bars))
    hidden, labels = max(len(labels) - _MAX_ROWS, 0), labels[:_MAX_ROWS]
    measures = list(dict.fromkeys(bar.measure for bar in bars))
    across = 2 if len(measures) == 4 else min(len(measures), _MAX_ACROSS)
    down = -(-len(measures) // across)
    height = len(labels) * (0.26 + 0.12 * (len(models) - 1))
    figure = Picture(layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    figure.set_size_inches(max(6.4, 1.6 + 3.4 * across), 1.9 + down * (height + 0.9))
    panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    places = {label: row for row, label in enumerate(labels)}
    for axes, measure in zip(panels, measures, strict=False):
        own = [bar for bar in bars if bar.measure == measure and bar.slice in places]
        if filled is not None:
            axes.axvline(0, **CHANCE)
        for index, model in enumerate(models):
            offset = 0.6 * (index - (len(models) - 1) / 2) / len(models)
            for look in _LOOKS:
                some = [bar for bar in own if bar.model == model and bar.look == look]
                if some:
                    lines = {"color": colour(index), "marker": mark(index)}
                    axes.errorbar(
                        [bar.value for bar in some],
                        [places[bar.slice] + offset for bar in some],
                        xerr=_half_widths(some),
                        **(lines | _LOOKS[look]),
                        linestyle="",
                        markersize=6,
                        elinewidth=1.4,
                        capsize=2.5,
                    )
        name = next(bar.name for bar in own)
        axes.set_xlabel(shortened(name, 40) + (" difference" if filled is not None else ""))
        axes.set_yticks(range(len(labels)), [shortened(label, 32) for label in labels])
        axes.grid(visible=False, axis="y")
        axes.margins(x=0.12)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.tick_params(labelleft=True)
        axes.xaxis.get_major_locator().set_params(nbins=5)
    for axes in panels[len(measures) :]:
        axes.remove()
    for row in range(down):
        for axes in panels[row * across + 1 : (row + 1) * across]:
            axes.tick_params(labelleft=False)
    confidence = meta.conventions.get("confidence")
    texts = [count_text(meta.rows, "row")]
    texts += [count_text(meta.groups, "group")] if meta.groups else []
    texts += (
        [f"bars: {percent_text(confidence)} intervals"] if isinstance(confidence, float) else []
    )
    texts += [f"{count_text(hidden, 'more slice')} not shown"] if hidden else []
    wide = int(figure.get_figwidth() * 11)
    caption = textwrap.fill(", ".join(texts), wide)
    figure.suptitle(
        textwrap.fill(shortened(title, 90), wide * 2 // 3),
        x=0.01,
        ha="left",
        fontsize=13,
        fontweight="bold",
    )
    panels[0].set_title(caption, loc="left", fontsize=9, color=DIM)
    entries = [
        (shortened(model), {"color": colour(index), "marker": mark(index), "linestyle": ""})
        for index, model in enumerate(models)
    ]
    if filled is not None:
        looks = {bar.look for bar in bars}
        dot = {"color": DIM, "marker": "o", "linestyle": ""}
        entries += [(filled, dot)] if looks != {"grey"} else []
        entries += [("not tested", dot | _LOOKS["grey"])] if "grey" in looks else []
        entries += [("no difference", CHANCE)]
    legend(figure, entries)
    return figure


def _half_widths(bars: Sequence[_Bar]) -> Any:
    """Return the distances to the ends of intervals; 0 without one."""
    ends = [[bar.value - bar.low, bar.high - bar.value] for bar in bars]
    return np.maximum(np.nan_to_num(np.array(ends).T), 0.0)
