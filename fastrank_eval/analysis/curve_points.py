"""Compute the points of curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from fastrank_eval._lib.arguments import at_least_one
from fastrank_eval._lib.errors import ArgumentError, ColumnError, MeasureError
from fastrank_eval.engine.run import run
from fastrank_eval.measures import Measure, measure, parse_measures
from fastrank_eval.measures.calibration import Outcomes
from fastrank_eval.results.evaluate import evaluate, result_of
from fastrank_eval.results.result import Result
from fastrank_eval.stats.intervals import normal_quantile
from fastrank_eval.stats.score_table import ScoreTable

__all__ = [
    "ACTIVITIES",
    "BINNINGS",
    "Thresholds",
    "by_activity",
    "by_cutoff",
    "corners",
    "equal_error_rate",
    "expected_error",
    "of_bins",
    "of_thresholds",
    "points_choice",
    "spread",
    "wilson",
]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What is predicted positive, threshold by threshold, from nothing to everything.

    Parameters
    ----------
    threshold : ndarray of float64, shape (scores + 1,)
        Inf, where nothing is predicted positive; then every distinct score, descending.
    tp, fp : ndarray of int64 or float64, shape (scores + 1,)
        Positives and others at or above each threshold: rows, or their weight times a power of
        two, which lets no sum overflow and no share feel it.
    """

    threshold: np.ndarray
    tp: np.ndarray
    fp: np.ndarray

    @classmethod
    def of(cls, table: ScoreTable) -> Self:
        """From a table of scores; scores without any weight are passed over."""
        weighs = (table.positives > 0) | (table.others > 0)
        score = table.score[weighs].astype(np.float64)
        tp, fp = (
            np.concatenate([[column.dtype.type(0)], np.cumsum(column[weighs])])
            for column in (table.positives, table.others)
        )
        return cls(np.concatenate([[np.inf], score]), tp, fp)

    @property
    def tpr(self) -> np.ndarray:
        """Share of the positives that are predicted positive, also called recall."""
        return np.asarray(self.tp / self.tp[-1])

    @property
    def fpr(self) -> np.ndarray:
        """Share of the others that are predicted positive."""
        return np.asarray(self.fp / self.fp[-1])

    @property
    def precision(self) -> np.ndarray:
        """Share of positives among what is predicted positive; 1 where nothing is."""
        above = self.tp + self.fp
        return np.divide(self.tp, above, out=np.ones(len(above)), where=above > 0)

    @property
    def depth(self) -> np.ndarray:
        """Share of all rows that are predicted positive."""
        above = self.tp + self.fp
        return np.asarray(above / above[-1])

    @property
    def progress(self) -> np.ndarray:
        """How far along the ROC curve: tpr + fpr, where both classes are there."""
        shares = [part / part[-1] for part in (self.tp, self.fp) if part[-1] > 0]
        return np.asarray(sum(shares))


def points_choice(given: Any) -> str | int:
    """Read how many points a curve shall have.

    Raises
    ------
    ArgumentError
        Where it is neither ``"all"`` nor ``"corners"`` nor a whole number of at least 2.
    """
    if isinstance(given, str) and given in ("all", "corners"):
        return given
    number = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not number or given < 2:
        raise ArgumentError(
            f"points={given!r} is neither 'all' nor 'corners' nor a whole number of at least 2."
        )
    return int(given)


def corners(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The points where a line changes its direction, and its ends; exact for counts.

    Parameters
    ----------
    x, y : ndarray of int64 or float64, shape (points,)
        Neighbours differ.

    Returns
    -------
    ndarray of int64
        Ascending positions.
    """
    dx, dy = np.diff(x), np.diff(y)
    straight = dx[:-1] * dy[1:] == dy[:-1] * dx[1:]
    if dx.dtype.kind == "i":
        # Products of large counts wrap: equal ones may differ by multiples of 2^64, as doubles not.
        left, right = dx[:-1] * dy[1:].astype(np.float64), dy[:-1] * dx[1:].astype(np.float64)
        straight &= np.abs(left - right) <= np.abs(left) * 2.0**-50
    return np.concatenate([[0], np.flatnonzero(~straight) + 1, [len(x) - 1]])[: len(x)]


def spread(progress: np.ndarray, points: int) -> np.ndarray:
    """At most so many points, the ends among them, evenly spaced.

    Parameters
    ----------
    progress : ndarray of float64, shape (points,)
        Ascending.
    points : int
        At least 2.

    Returns
    -------
    ndarray of int64
        Ascending positions of what lies nearest to each of the evenly spaced values.
    """
    if len(progress) <= points:
        return np.arange(len(progress))
    wanted = np.linspace(progress[0], progress[-1], points)
    after = np.clip(np.searchsorted(progress, wanted), 1, len(progress) - 1)
    nearer = wanted - progress[after - 1] <= progress[after] - wanted
    return np.unique(np.concatenate([[0], after - nearer, [len(progress) - 1]]))


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


#: As many as ECE can have.
_MOST_BINS = 10**6

BINNINGS = ("equal-count", "equal-width")


def of_bins(
    table: ScoreTable,
    name: str,
    *,
    bins: int,
    binning: str,
    confidence: float,
    sampling_rate: float = 1,
) -> dict[str, np.ndarray]:
    """Mean prediction and observed rate of each bin that holds any row.

    Parameters
    ----------
    table : ScoreTable
        Of probabilities, some of them of weight.
    name : str
        Of the model, for messages.
    bins : int
    binning : {"equal-count", "equal-width"}
        The bins of `ECE`, by count or by width.
    confidence : float
        Of the interval of the observed rate, in ]0, 1[.
    sampling_rate : float
        Share of the negatives that the model was trained on.

    Returns
    -------
    dict of str to ndarray, shape (bins that hold rows,)
        Ascending: bin (counted from 1), lower and upper (edges; of equal counts, the least and the
        largest prediction), mean_prediction, observed_rate, low and high (Wilson; NaN with row
        weights, from which no number of independent rows is known), rows or weight.

    Raises
    ------
    ColumnError
        If scores are no probabilities.
    """
    if len(table.score) and not (table.score[-1] >= 0 and table.score[0] <= 1):
        wrong = table.score[0 if table.score[-1] >= 0 else -1]
        raise ColumnError(
            f"score column '{name}' holds {wrong:g}, which is no probability; a calibration curve "
            "needs scores in [0, 1]."
        )
    outcomes = Outcomes.of(table, sampling_rate)
    prediction, rows, positives = outcomes.probability, outcomes.weight, outcomes.positive
    at = outcomes.bins(bins, binning.removeprefix("equal-"))
    first = np.flatnonzero(np.concatenate([[True], at[1:] != at[:-1]]))
    held = at[first]
    if binning == "equal-width":
        lower, upper = held / bins, (held + 1) / bins
    else:
        lower, upper = prediction[first], prediction[np.append(first[1:], len(at)) - 1]
    total = np.add.reduceat(rows, first)
    rate = np.add.reduceat(positives, first) / total
    counted = rows.dtype.kind == "i"
    low, high = wilson(rate, total, confidence) if counted else (np.full(len(rate), np.nan),) * 2
    return {
        "bin": held + 1,
        "lower": lower,
        "upper": upper,
        "mean_prediction": np.add.reduceat(prediction * rows, first) / total,
        "observed_rate": rate,
        "low": low,
        "high": high,
        "rows" if counted else "weight": total if counted else total / table.scale,
    }


def wilson(rate: np.ndarray, rows: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's score interval of a binomial rate.

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
    reach = normal_quantile(confidence)
    squared = reach * reach / rows
    middle = (rate + squared / 2) / (1 + squared)
    half = np.sqrt(rate * (1 - rate) * squared + squared * squared / 4) / (1 + squared)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def expected_error(columns: dict[str, np.ndarray]) -> float:
    """ECE: the mean distance of prediction and rate, bins weighed by their rows."""
    rows = columns["rows" if "rows" in columns else "weight"]
    distance = np.abs(columns["mean_prediction"] - columns["observed_rate"])
    return float(np.sum(distance * (rows / rows.sum())))


def check_bins(bins: object, binning: object, confidence: object) -> None:
    """Refuse choices of bins that mean nothing.

    Raises
    ------
    ArgumentError
    """
    at_least_one("bins", bins, None, _MOST_BINS)
    if binning not in BINNINGS:
        raise ArgumentError(f"binning={binning!r} is not one of {', '.join(map(repr, BINNINGS))}.")
    if not isinstance(confidence, float) or not 0 < confidence < 1:
        raise ArgumentError(f"confidence={confidence!r} is not a number between 0 and 1.")


ACTIVITIES = ("rows", "positives")
Rows = list[dict[str, Any]]


def by_cutoff(
    source: object,
    measures: str | Measure | Sequence[str | Measure],
    cutoffs: Iterable[int],
    options: Mapping[str, Any],
) -> tuple[Result, Rows]:
    """Each measure at each cutoff, in one pass over the rows."""
    wanted = _cutoffs(cutoffs)
    families = parse_measures(measures)
    for family in families:
        if family.cutoff is not None:
            raise MeasureError(f"{family}: the curve has its own cutoffs; leave out this one.")
    result = evaluate(
        source, measures=[m @ k for m in families for k in wanted], per_group=False, **options
    )
    rows = [
        {"score": score, "measure": str(m), "k": k, "value": result.value(m @ k, score)}
        for score in result.scores
        for m in families
        for k in wanted
    ]
    return result, rows


def _cutoffs(given: Iterable[int]) -> list[int]:
    cutoffs = list(given) if isinstance(given, Iterable) else []
    if not cutoffs or not all(map(_whole, cutoffs)) or min(cutoffs) < 1:
        raise ArgumentError(f"cutoffs={given!r} are not whole numbers of at least 1.")
    return sorted({int(k) for k in cutoffs})


def _whole(number: object) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def by_activity(
    source: object,
    wanted: str | Measure,
    activity: str,
    buckets: Sequence[int],
    options: Mapping[str, Any],
) -> tuple[Result, Rows]:
    """A measure over the groups of each bucket of activity."""
    if activity not in ACTIVITIES:
        raise ArgumentError(
            f"activity={activity!r} is not one of {', '.join(map(repr, ACTIVITIES))}."
        )
    edges = _edges(buckets)
    _check_mean(measure(wanted))
    by = f"@{activity}:{','.join(map(str, edges))}"
    done = run(source, measures=[wanted], per_group=False, by=by, **options)
    result = result_of(done)
    _check_mean(measure(result.measures[0]))
    ((slicing,), (sums,)) = done.plan.slicings, done.totals.slices
    labels = slicing.slices().labels
    found = {(v.score, v.slice): v for v in result}
    rows = []
    for score in result.scores:
        # Groups below the first edge are in no bucket.
        for bucket, (least, beyond) in enumerate(zip(edges, [*edges[1:], None], strict=True), 1):
            line = found.get((score, labels[bucket]))
            rows.append(
                {
                    "score": score,
                    "bucket": _bucket(least, beyond),
                    "least": least,
                    "most": None if beyond is None else beyond - 1,
                    "groups": sums.groups(bucket),
                    "groups_used": 0 if line is None else line.groups_used,
                    "rows": sums.rows(bucket),
                    "positives": sums.positives(bucket),
                    "value": math.nan if line is None else line.value,
                    "standard_error": math.nan if line is None else line.se,
                }
            )
    return result, rows


def _edges(buckets: Sequence[int]) -> list[int]:
    edges = list(buckets) if isinstance(buckets, Iterable) else []
    known = bool(edges) and all(map(_whole, edges)) and edges[0] >= 0
    if not known or any(a >= b for a, b in pairwise(edges)):
        raise ArgumentError(
            f"buckets={buckets!r} are not ascending whole numbers of at least 0, where each bucket "
            "begins."
        )
    return [int(e) for e in edges]


def _bucket(least: int, beyond: int | None) -> str:
    if beyond is None:
        return f"{least}+"
    return str(least) if beyond == least + 1 else f"{least}–{beyond - 1}"


def _check_mean(wanted: Measure) -> None:
    if wanted.pooled or wanted.aggregate != "mean":
        raise MeasureError(f"{wanted} is no mean over groups; take GAUC, nDCG@10 or the like.")
