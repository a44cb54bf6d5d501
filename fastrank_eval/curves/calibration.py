"""Predicted against observed rates, in bins of predictions."""

from __future__ import annotations

import numpy as np

from fastrank_eval.arguments import at_least_one
from fastrank_eval.errors import ArgumentError, ColumnError
from fastrank_eval.measures.probability_bins import Outcomes
from fastrank_eval.score_table import ScoreTable
from fastrank_eval.uncertainty import normal_quantile

__all__ = ["BINNINGS", "expected_error", "of_bins", "wilson"]

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
