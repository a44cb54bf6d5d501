"""ROC, precision and recall, DET: two rates, one point a threshold."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from fastrank_eval.pictures.style import CHANCE, colour, dash

if TYPE_CHECKING:
    from fastrank_eval.curves import Curve

__all__ = ["det", "pr", "roc", "thinned"]

References = dict[str, dict[str, Any]]
#: Steps that an axis can show.
_STEPS = 2000
#: Recall from which on precision is drawn: before, it is the luck of a few rows, on a sliver.
_STEADY = 0.005


def models(curve: Curve) -> Iterator[tuple[int, str, dict[str, np.ndarray]]]:
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


def roc(figure: Any, curve: Curve) -> References:
    """True over false positive rate, with the diagonal of chance."""
    axes = square(figure, "False positive rate", "True positive rate")
    axes.plot([0, 1], [0, 1], **CHANCE)
    for place, _, columns in models(curve):
        draw(axes, place, columns["fpr"], columns["tpr"])
    return {"chance": CHANCE}


def pr(figure: Any, curve: Curve) -> References:
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


def det(figure: Any, curve: Curve) -> References:
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
