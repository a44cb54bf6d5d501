"""Draw values and differences with their intervals, one row a slice."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fastrank_eval.measures.pooled import CLUSTERS
from fastrank_eval.results.compared_value import ComparedValue, is_shown, is_tested
from fastrank_eval.results.plots import (
    CHANCE,
    DIM,
    Picture,
    colour,
    legend,
    mark,
    panel_grid,
    shortened,
)
from fastrank_eval.results.report import count_text, percent_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fastrank_eval.engine.records import MeasureValue, Meta

#: Slices that a picture shows; the caption counts the others.
_MAX_ROWS = 60
#: How marks differ from those of their model.
_LOOKS: dict[str, dict[str, Any]] = {
    "filled": {},
    "hollow": {"markerfacecolor": "white"},
    "grey": {"color": "#b8b8b8"},
}


def draw(
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
