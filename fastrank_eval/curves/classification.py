"""Curves of a classifier over its thresholds: ROC, precision and recall, DET, lift."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastrank_eval.curves.points import Thresholds, corners, spread

__all__ = ["equal_error_rate", "of_thresholds"]

Columns = dict[str, np.ndarray]


def roc(at: Thresholds) -> Columns:
    """Receiver operating characteristic.

    References
    ----------
    Fawcett (2006), doi:10.1016/j.patrec.2005.10.010.
    """
    return {"threshold": at.threshold, "fpr": at.fpr, "tpr": at.tpr}


def pr(at: Thresholds) -> Columns:
    """Precision and recall; where nothing is predicted positive, precision is 1.

    References
    ----------
    Davis & Goadrich (2006), doi:10.1145/1143844.1143874.
    """
    return {"threshold": at.threshold, "recall": at.tpr, "precision": at.precision}


def det(at: Thresholds) -> Columns:
    """Detection error trade-off: both kinds of error.

    References
    ----------
    Martin et al. (1997), doi:10.21437/Eurospeech.1997-504.
    """
    missed = (at.tp[-1] - at.tp) / at.tp[-1]
    return {"threshold": at.threshold, "fpr": at.fpr, "fnr": np.asarray(missed)}


def lift(at: Thresholds) -> Columns:
    """Cumulative gains and lift by depth; no lift where nothing is predicted positive.

    References
    ----------
    Piatetsky-Shapiro & Steingold (2000), doi:10.1145/380995.381017.
    """
    depth, recall, precision = at.depth, at.tpr, at.precision
    ratio = np.divide(recall, depth, out=np.full(len(depth), np.nan), where=depth > 0)
    precision[depth == 0] = np.nan
    return {
        "threshold": at.threshold,
        "depth": depth,
        "recall": recall,
        "precision": precision,
        "lift": ratio,
    }


_CURVES: dict[str, Callable[[Thresholds], Columns]] = {
    "roc": roc,
    "pr": pr,
    "det": det,
    "lift": lift,
}


def of_thresholds(kind: str, at: Thresholds, points: str | int) -> Columns:
    """The columns of a curve.

    Parameters
    ----------
    kind : {"roc", "pr", "det", "lift"}
    at : Thresholds
        With positives; of roc and det, with others too.
    points : {"all", "corners"} or int
        ``"corners"`` leaves out points on a straight segment of the line through positives and
        others, which keeps the area under ROC and gains; of pr, on a horizontal or vertical one,
        which keeps average precision. A number: thresholds at equal steps of tpr + fpr; of lift,
        equal steps of depth, where tied rows count as the mean over their orders.
    """
    if isinstance(points, int):
        if kind == "lift":
            return lift(at_depths(at, points))
        chosen = spread(at.progress, points)
    elif points == "all":
        chosen = np.arange(len(at.threshold))
    elif kind == "pr":
        chosen = _level_corners(at.tpr, at.precision)
    else:
        chosen = corners(at.fp, at.tp)
    return {name: column[chosen] for name, column in _CURVES[kind](at).items()}


def at_depths(at: Thresholds, points: int) -> Thresholds:
    """Thresholds at evenly spaced depths, tied rows in the mean over their orders."""
    above = (at.tp + at.fp).astype(np.float64)
    wanted = np.linspace(0.0, above[-1], points)
    # Not np.interp: some compilers fuse its product with its sum.
    left = np.clip(np.searchsorted(above, wanted, side="right") - 1, 0, max(len(above) - 2, 0))
    right = np.minimum(left + 1, len(above) - 1)
    rows, found = above[right] - above[left], (at.tp[right] - at.tp[left]).astype(np.float64)
    slope = np.divide(found, rows, out=np.zeros(points), where=rows > 0)
    tp = slope * (wanted - above[left]) + at.tp[left]
    tp[-1] = at.tp[-1]
    fp = np.maximum(wanted - tp, 0.0)
    fp[-1] = at.fp[-1]
    reached = np.searchsorted(above, wanted)
    return Thresholds(at.threshold[np.minimum(reached, len(above) - 1)], tp, fp)


def _level_corners(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The ends of horizontal and vertical segments, and all points that lie on none."""
    same = (np.diff(x) == 0), (np.diff(y) == 0)
    inside = (same[0][:-1] & same[0][1:]) | (same[1][:-1] & same[1][1:])
    kept = np.ones(len(x), np.bool_)
    kept[1:-1] = ~inside
    return np.flatnonzero(kept)


def equal_error_rate(at: Thresholds) -> float:
    """The error rate where misses and false alarms are alike, on the line between two points."""
    fpr, fnr = at.fpr, det(at)["fnr"]
    after = int(np.argmax(fpr >= fnr))
    gap = fnr - fpr
    share = gap[after - 1] / (gap[after - 1] - gap[after])
    return float(fpr[after - 1] + share * (fpr[after] - fpr[after - 1]))
