"""p-values of several comparisons, adjusted so that their number is no evidence."""

from __future__ import annotations

import numpy as np

from fastrank_eval.arguments import check_choice
from fastrank_eval.errors import ArgumentError

__all__ = ["CORRECTIONS", "adjusted", "benjamini_hochberg", "holm"]


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjusted p-values that bound the probability of any false discovery.

    Of m p-values in ascending order, ``max over j <= i of min(1, (m - j + 1) p_(j))``. Those at
    most alpha are significant; the probability that one of them is a false discovery is at most
    alpha, however the tests depend on each other.

    Parameters
    ----------
    p_values : ndarray of float64, shape (comparisons,)
        In [0, 1]; NaN stays NaN and is no comparison.

    Returns
    -------
    ndarray of float64, shape (comparisons,)

    Raises
    ------
    ArgumentError
        If a p-value is outside [0, 1].

    References
    ----------
    Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6, 65-70.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03, 0.005])).tolist()
    [0.03, 0.06, 0.06, 0.02]
    """
    found, given, order = _ascending(p_values)
    many = len(order)
    steps = np.minimum(given[order] * np.arange(many, 0, -1), 1.0)
    found[np.flatnonzero(~np.isnan(found))[order]] = np.maximum.accumulate(steps)
    return found


def benjamini_hochberg(p_values: np.ndarray) -> np.ndarray:
    """Adjusted p-values that bound the expected share of false discoveries.

    Of m p-values in ascending order, ``min over j >= i of min(1, m / j p_(j))``. Of those at most
    alpha, at most a share alpha is expected to be false discoveries, if tests are independent or
    positively dependent.

    Parameters
    ----------
    p_values : ndarray of float64, shape (comparisons,)
        In [0, 1]; NaN stays NaN and is no comparison.

    Returns
    -------
    ndarray of float64, shape (comparisons,)

    Raises
    ------
    ArgumentError
        If a p-value is outside [0, 1].

    References
    ----------
    Benjamini & Hochberg (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03, 0.005])).round(12).tolist()
    [0.02, 0.04, 0.04, 0.02]
    """
    found, given, order = _ascending(p_values)
    many = len(order)
    steps = np.minimum(given[order] * (many / np.arange(1, many + 1)), 1.0)
    least = np.minimum.accumulate(steps[::-1])[::-1]
    found[np.flatnonzero(~np.isnan(found))[order]] = least
    return found


#: Corrections by name.
CORRECTIONS = {"holm": holm, "bh": benjamini_hochberg}


def adjusted(p_values: np.ndarray, correction: str) -> np.ndarray:
    """The p-values adjusted by a correction of `CORRECTIONS`, or as they are for ``"none"``."""
    check_choice("correction", correction, ("none", *CORRECTIONS))
    if correction == "none":
        return np.array(p_values, np.float64)
    return CORRECTIONS[correction](p_values)


def _ascending(p_values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A copy to fill, those that are numbers, and their ascending order."""
    found = np.array(p_values, np.float64)
    given = found[~np.isnan(found)]
    outside = (given < 0) | (given > 1)
    if outside.any():
        raise ArgumentError(
            f"{int(outside.sum())} p-values are outside [0, 1], the first of them "
            f"{given[outside][0]:g}; pass probabilities."
        )
    return found, given, np.argsort(given, kind="stable")
