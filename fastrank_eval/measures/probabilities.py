"""Scores as probabilities, put right where negatives were sampled."""

from __future__ import annotations

import numpy as np

from fastrank_eval.columns import frozen
from fastrank_eval.errors import ArgumentError
from fastrank_eval.measures.base import Param, number

SAMPLING_RATE = Param(
    "sampling_rate",
    1,
    "share of the negatives that the model was trained on, in ]0, 1]: p becomes p / (p + (1 - p) / "
    "rate)",
    number(above=0, most=1),
)


def sampling_rate_of(given: object) -> float:
    """A sampling rate that is given for all measures, 1 where none is, or an error."""
    if given is None:
        return 1
    try:
        rate: float = SAMPLING_RATE.read(given)
    except ValueError as wrong:
        raise ArgumentError(f"sampling_rate={given!r} is not {wrong}.") from None
    return rate


def recalibrated(score: np.ndarray, sampling_rate: float) -> np.ndarray:
    """Probabilities of a model trained on a sample of the negatives, for all negatives.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,)
        In [0, 1].
    sampling_rate : float
        In ]0, 1]; 1 leaves them as they are.

    Returns
    -------
    ndarray, shape (rows,), read-only
        float64, or `score` itself.

    References
    ----------
    He et al. (2014), doi:10.1145/2648584.2648589, section 6.3.
    """
    if sampling_rate == 1:
        return score
    p = score.astype(np.float64)
    # One division by a rate above 0 and a sum of at least 1: no 0/0.
    with np.errstate(over="ignore"):  # of rates below 1e-308: the probability is 0
        return frozen(p / (p + (1.0 - p) / sampling_rate))
