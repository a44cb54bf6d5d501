"""Compute the points of curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np

from fastrank_eval._lib.arguments import Reader, Unfit, integer, is_whole, number, one_of
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import ratio
from fastrank_eval._lib.errors import ColumnError, MeasureError
from fastrank_eval.engine.run import run
from fastrank_eval.measures import Measure, measure, parse_measures
from fastrank_eval.measures.calibration import Outcomes
from fastrank_eval.results.evaluate import evaluate
from fastrank_eval.results.result import Result, result_of
from fastrank_eval.stats.intervals import normal_quantile
from fastrank_eval.stats.score_runs import ScoreTable


@dataclass(frozen=True)
class Thresholds:
    """Cumulative counts of positives and others at each threshold.

    Parameters
    ----------
    threshold : ndarray of float64, shape (scores + 1,)
        Infinity (no row is predicted positive), then every distinct score, descending; NaN last,
        if there are rows without a score.
    tp, fp : ndarray of int64 or float64, shape (scores + 1,)
        Positives and others at or above each threshold: rows, or their weight times a power of two.
        The factor prevents overflow of sums and does not change shares.
    """

    threshold: np.ndarray
    tp: np.ndarray
    fp: np.ndarray

    @classmethod
    def of(cls, table: ScoreTable) -> Self:
        """Build from a table of scores, without scores of weight 0."""
        weighs = (table.positives > 0) | (table.others > 0)
        score = table.score[weighs].astype(np.float64)
        tp, fp = (
            np.concatenate([[column.dtype.type(0)], np.cumsum(column[weighs])])
            for column in (table.positives, table.others)
        )
        return cls(np.concatenate([[np.inf], score]), tp, fp)

    @property
    def tpr(self) -> np.ndarray:
        """True positive rate (recall)."""
        return np.asarray(self.tp / self.tp[-1])

    recall = tpr

    @property
    def fpr(self) -> np.ndarray:
        """False positive rate."""
        return np.asarray(self.fp / self.fp[-1])

    @property
    def fnr(self) -> np.ndarray:
        """False negative rate."""
        return np.asarray((self.tp[-1] - self.tp) / self.tp[-1])

    @property
    def precision(self) -> np.ndarray:
        """Precision; 1 if no row is predicted positive."""
        return ratio(self.tp, self.tp + self.fp, 1.0)

    @property
    def depth(self) -> np.ndarray:
        """Share of rows that are predicted positive."""
        predicted = self.tp + self.fp
        return np.asarray(predicted / predicted[-1])

    @property
    def lift(self) -> np.ndarray:
        """Recall over depth; NaN at depth 0."""
        return ratio(self.tpr, self.depth)

    @property
    def progress(self) -> np.ndarray:
        """Position on the ROC curve: tpr + fpr, without a class that has no rows."""
        shares = [counts / counts[-1] for counts in (self.tp, self.fp) if counts[-1] > 0]
        return np.asarray(sum(shares))


def corners(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Find the points where a line changes direction, and its ends.

    Exact for counts.

    Parameters
    ----------
    x, y : ndarray of int64 or float64, shape (points,)
        Adjacent points differ.

    Returns
    -------
    ndarray of int64
        Ascending positions.
    """
    dx, dy = np.diff(x), np.diff(y)
    straight = dx[:-1] * dy[1:] == dy[:-1] * dx[1:]
    if dx.dtype.kind == "i":
        # Products of large counts wrap around: unequal ones may be equal modulo 2^64. Products of
        # doubles do not.
        left, right = dx[:-1] * dy[1:].astype(np.float64), dy[:-1] * dx[1:].astype(np.float64)
        straight &= np.abs(left - right) <= np.abs(left) * 2.0**-50
    return np.concatenate([[0], np.flatnonzero(~straight) + 1, [len(x) - 1]])[: len(x)]


def spread(progress: np.ndarray, points: int) -> np.ndarray:
    """Choose evenly spaced points, both ends included.

    Parameters
    ----------
    progress : ndarray of float64, shape (points,)
        Ascending.
    points : int
        The largest number of points, at least 2.

    Returns
    -------
    ndarray of int64
        Ascending positions of the points nearest to evenly spaced values.
    """
    if len(progress) <= points:
        return np.arange(len(progress))
    targets = np.linspace(progress[0], progress[-1], points)
    after = np.clip(np.searchsorted(progress, targets), 1, len(progress) - 1)
    before_is_nearer = targets - progress[after - 1] <= progress[after] - targets
    return np.unique(np.concatenate([[0], after - before_is_nearer, [len(progress) - 1]]))


#: Columns of each kind of curve; for the first four, fields of `Thresholds`.
COLUMNS = {
    "roc": ("threshold", "fpr", "tpr"),
    "pr": ("threshold", "recall", "precision"),
    "det": ("threshold", "fpr", "fnr"),
    "lift": ("threshold", "depth", "recall", "precision", "lift"),
    "calibration": (
        *("bin", "lower", "upper", "mean_prediction", "observed_rate", "low", "high"),
        "rows",
    ),
    "k": ("measure", "k", "value"),
    "gauc-by-activity": (
        *("bucket", "least", "most", "groups", "groups_used", "rows", "positives", "value"),
        "standard_error",
    ),
}


def curve_columns(kind: str, thresholds: Thresholds, points: str | int) -> dict[str, np.ndarray]:
    """Compute the columns of a curve.

    Parameters
    ----------
    kind : {"roc", "pr", "det", "lift"}
    thresholds : Thresholds
        With positives; for roc and det also with others.
    points : {"all", "corners"} or int
        ``"corners"`` leaves out points on straight segments of the curve of tp over fp, which
        preserves the area under ROC and gains. For pr it leaves out points on horizontal or
        vertical segments, which preserves average precision. A number: thresholds at equal steps of
        tpr + fpr; for lift, equal steps of depth, where tied rows count as the mean over their
        orders.

    References
    ----------
    roc: Fawcett (2006), doi:10.1016/j.patrec.2005.10.010; pr: Davis & Goadrich (2006),
    doi:10.1145/1143844.1143874; det: Martin et al. (1997), doi:10.21437/Eurospeech.1997-504; lift:
    Piatetsky-Shapiro & Steingold (2000), doi:10.1145/380995.381017.
    """
    positions = np.arange(len(thresholds.threshold))
    if isinstance(points, int) and kind == "lift":
        thresholds, positions = at_depths(thresholds, points), np.arange(points)
    elif isinstance(points, int):
        positions = spread(thresholds.progress, points)
    elif points == "corners" and kind == "pr":
        positions = _axis_corners(thresholds.recall, thresholds.precision)
    elif points == "corners":
        positions = corners(thresholds.fp, thresholds.tp)
    columns = {name: getattr(thresholds, name)[positions] for name in COLUMNS[kind]}
    if kind == "lift":
        columns["precision"][columns["depth"] == 0] = np.nan
    return columns


def at_depths(thresholds: Thresholds, points: int) -> Thresholds:
    """Interpolate at evenly spaced depths: ties as mean over orders."""
    predicted = (thresholds.tp + thresholds.fp).astype(np.float64)
    depths = np.linspace(0.0, predicted[-1], points)
    # Not np.interp: some compilers fuse its product with its sum.
    left = np.clip(
        np.searchsorted(predicted, depths, side="right") - 1, 0, max(len(predicted) - 2, 0)
    )
    right = np.minimum(left + 1, len(predicted) - 1)
    rows = predicted[right] - predicted[left]
    positives = (thresholds.tp[right] - thresholds.tp[left]).astype(np.float64)
    slope = ratio(positives, rows, 0.0)
    tp = slope * (depths - predicted[left]) + thresholds.tp[left]
    tp[-1] = thresholds.tp[-1]
    fp = np.maximum(depths - tp, 0.0)
    fp[-1] = thresholds.fp[-1]
    positions = np.searchsorted(predicted, depths)
    return Thresholds(thresholds.threshold[np.minimum(positions, len(predicted) - 1)], tp, fp)


def _axis_corners(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Find all points but those inside horizontal and vertical segments."""
    same = (np.diff(x) == 0), (np.diff(y) == 0)
    inside = (same[0][:-1] & same[0][1:]) | (same[1][:-1] & same[1][1:])
    keep = np.ones(len(x), np.bool_)
    keep[1:-1] = ~inside
    return np.flatnonzero(keep)


def equal_error_rate(thresholds: Thresholds) -> float:
    """Interpolate the error rate at which both error rates are equal."""
    fpr, fnr = thresholds.fpr, thresholds.fnr
    after = int(np.argmax(fpr >= fnr))
    gap = fnr - fpr
    fraction = gap[after - 1] / (gap[after - 1] - gap[after])
    return float(fpr[after - 1] + fraction * (fpr[after] - fpr[after - 1]))


def calibration_bins(
    table: ScoreTable,
    name: str,
    *,
    bins: int,
    binning: str,
    confidence: float,
    sampling_rate: float = 1,
) -> dict[str, np.ndarray]:
    """Compute mean prediction and observed rate of each bin with rows.

    Parameters
    ----------
    table : ScoreTable
        Scores are probabilities; at least one has a weight above 0.
    name : str
        Score column, for messages.
    bins : int
    binning : {"equal-count", "equal-width"}
        The bins of `ECE`, by count or by width.
    confidence : float
        Level of the interval of the observed rate, in ]0, 1[.
    sampling_rate : float
        Share of the negatives that the models were trained on.

    Returns
    -------
    dict of str to ndarray, shape (bins with rows,)
        In ascending order of bins:

        * bin: counted from 1;
        * lower, upper: edges; for equal counts the least and the largest prediction;
        * mean_prediction, observed_rate;
        * low, high: Wilson's interval; NaN with row weights, because the number of independent rows
          is unknown;
        * rows or weight.

    Raises
    ------
    ColumnError
        If scores are not probabilities.
    """
    if len(table.score) and np.isnan(table.score[-1]):
        raise ColumnError(
            f"score column '{name}' is null in some rows, which have no prediction; pass "
            "unretrieved='drop' to leave these rows out for every model."
        )
    if len(table.score) and not (table.score[-1] >= 0 and table.score[0] <= 1):
        score = table.score[0 if table.score[-1] >= 0 else -1]
        raise ColumnError(
            f"score column '{name}' has the value {score:g}, which is not a probability; a "
            "calibration curve needs scores in [0, 1]."
        )
    outcomes = Outcomes.of(table, sampling_rate)
    prediction, rows, positives = outcomes.probability, outcomes.weight, outcomes.positive
    bin_of_row = outcomes.bins(bins, binning.removeprefix("equal-"))
    starts = np.flatnonzero(np.concatenate([[True], bin_of_row[1:] != bin_of_row[:-1]]))
    bin_index = bin_of_row[starts]
    if binning == "equal-width":
        lower, upper = bin_index / bins, (bin_index + 1) / bins
    else:
        lower, upper = prediction[starts], prediction[np.append(starts[1:], len(bin_of_row)) - 1]
    total = np.add.reduceat(rows, starts)
    rate = np.add.reduceat(positives, starts) / total
    has_counts = rows.dtype.kind == "i"
    low, high = wilson(rate, total, confidence) if has_counts else (np.full(len(rate), np.nan),) * 2
    return {
        "bin": bin_index + 1,
        "lower": lower,
        "upper": upper,
        "mean_prediction": np.add.reduceat(prediction * rows, starts) / total,
        "observed_rate": rate,
        "low": low,
        "high": high,
        "rows" if has_counts else "weight": total if has_counts else total / table.scale,
    }


def wilson(rate: np.ndarray, rows: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Compute Wilson's score interval of a binomial rate.

    Parameters
    ----------
    rate : ndarray of float64
    rows : ndarray of int64
        At least 1.
    confidence : float
        In ]0, 1[.

    Returns
    -------
    low, high : ndarray of float64

    References
    ----------
    Wilson (1927), doi:10.1080/01621459.1927.10502953.
    """
    quantile = normal_quantile(confidence)
    ratio = quantile * quantile / rows
    middle = (rate + ratio / 2) / (1 + ratio)
    half_width = np.sqrt(rate * (1 - rate) * ratio + ratio * ratio / 4) / (1 + ratio)
    return np.maximum(middle - half_width, 0.0), np.minimum(middle + half_width, 1.0)


def expected_error(columns: dict[str, np.ndarray]) -> float:
    """Compute ECE: the mean distance of prediction and rate, weighted by rows."""
    rows = columns["rows" if "rows" in columns else "weight"]
    distance = np.abs(columns["mean_prediction"] - columns["observed_rate"])
    return float(np.sum(distance * (rows / rows.sum())))


def _points(value: Any) -> str | int:
    """Read the option `points` of a curve."""
    if isinstance(value, str) and value in ("all", "corners"):
        return value
    if not is_whole(value) or value < 2:
        raise Unfit("'all', 'corners' or a whole number of at least 2", "pass one of these")
    return int(value)


def _cutoffs(value: Any) -> list[int]:
    cutoffs = list(value) if isinstance(value, Iterable) else []
    if not cutoffs or not all(map(is_whole, cutoffs)) or min(cutoffs) < 1:
        raise Unfit("whole numbers of at least 1", "pass such numbers")
    return sorted({int(k) for k in cutoffs})


def _buckets(value: Any) -> tuple[int, ...]:
    edges = list(value) if isinstance(value, Iterable) else []
    is_valid = bool(edges) and all(map(is_whole, edges)) and edges[0] >= 0
    if not is_valid or any(a >= b for a, b in pairwise(edges)):
        raise Unfit("ascending whole numbers of at least 0", "pass the first number of each bucket")
    return tuple(int(e) for e in edges)


#: What checks the options of curves; others are checked where they are used.
READERS: dict[str, Reader] = {
    "points": _points,
    "bins": integer(1, 10**6),
    "binning": one_of("equal-count", "equal-width"),
    "confidence": number(above=0, below=1),
    "cutoffs": _cutoffs,
    "activity": one_of("rows", "positives"),
    "buckets": _buckets,
}
#: Columns of points by model.
Columns = dict[str, dict[str, np.ndarray]]


def by_cutoff(
    source: object,
    measures: str | Measure | Sequence[str | Measure],
    cutoffs: Sequence[int],
    options: Mapping[str, Any],
) -> tuple[Result, Columns]:
    """Evaluate each measure at each cutoff, in one pass over the rows."""
    families = parse_measures(measures)
    for family in families:
        if family.cutoff is not None:
            raise MeasureError(
                f"measures: must have no cutoff, because the curve has its own, got {family}; "
                "leave the cutoff out."
            )
    result = evaluate(
        source, measures=[m @ k for m in families for k in cutoffs], keep="", **options
    )
    points = [(m, k) for m in families for k in cutoffs]
    shared = {
        "measure": np.array([str(m) for m, _ in points]),
        "k": np.array([k for _, k in points]),
    }
    return result, {
        score: {**shared, "value": np.array([result.value(m @ k, score) for m, k in points])}
        for score in result.scores
    }


def by_activity(
    source: object,
    requested: str | Measure,
    activity: str,
    edges: Sequence[int],
    options: Mapping[str, Any],
) -> tuple[Result, Columns]:
    """Evaluate a measure over the groups of each bucket of activity."""
    _check_mean(measure(requested))
    by = f"@{activity}:{','.join(map(str, edges))}"
    evaluation = run(source, measures=[requested], keep="", by=by, **options)
    result = result_of(evaluation)
    _check_mean(measure(result.measures[0]))
    ((slicing,), (sums,)) = evaluation.plan.slice_encoders, evaluation.totals.slices
    # Bucket 0 has the groups below the first edge: it is left out.
    buckets = range(1, len(edges) + 1)
    labels = [slicing.slices().labels[bucket] for bucket in buckets]
    values = {(v.score, v.slice): v for v in result}
    pairs = [*zip(edges, [*edges[1:], None], strict=True)]
    shared = {
        "bucket": [_bucket(least, next_edge) for least, next_edge in pairs],
        "least": edges,
        "most": [math.nan if next_edge is None else next_edge - 1 for _, next_edge in pairs],
        "groups": [sums.groups(bucket) for bucket in buckets],
        "rows": [sums.rows(bucket) for bucket in buckets],
        "positives": [sums.positives(bucket) for bucket in buckets],
    }
    columns: Columns = {}
    for score in result.scores:
        own = [values.get((score, label)) for label in labels]
        of_score = {
            **shared,
            "groups_used": [0 if v is None else v.groups_used for v in own],
            "value": [math.nan if v is None else v.value for v in own],
            "standard_error": [math.nan if v is None else v.se for v in own],
        }
        names = COLUMNS["gauc-by-activity"]
        columns[score] = {name: np.array(of_score[name]) for name in names}
    return result, columns


def _bucket(least: int, next_edge: int | None) -> str:
    if next_edge is None:
        return f"{least}+"
    return str(least) if next_edge == least + 1 else f"{least}–{next_edge - 1}"


def _check_mean(wanted: Measure) -> None:
    if wanted.pooled or wanted.aggregate != "mean":
        raise MeasureError(
            f"measure: must be a mean over groups, got {wanted}; choose GAUC or nDCG@10, for "
            "instance."
        )
