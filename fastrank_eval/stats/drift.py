"""Compare two distributions of numbers: PSI and the distance of KS.

Both read rows counted in bins. Bins of two days have other keys and levels; `align_bins` counts
them in the same bins. The bins of PSI are the deciles of the reference, or its values if they are
few.
"""

from __future__ import annotations

import math

import numpy as np

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import log_each
from fastrank_eval.stats.binned_scores import Bins, align_bins

#: PSI has a bin for each value of a reference with at most so many, else so many quantiles.
FEW_VALUES, QUANTILES = 20, 10
#: The share of an empty bin. If another bin has a share as small, that share is divided instead.
_EMPTY, _DIVISOR = 1e-4, 1e6


@dataclass(frozen=True)
class Drift:
    """The distance of a distribution from a reference.

    Parameters
    ----------
    psi : float
        Population stability index; see `psi`.
    ks : float
        Largest difference of the two cumulative shares; see `ks_distance`.
    """

    psi: float
    ks: float


def drift_between(reference: Bins, other: Bins) -> Drift:
    """Compare rows in bins with those of a reference.

    Parameters
    ----------
    reference, other : Bins
        Of `BinnedScores.merged_bins`. Positives and other rows count alike.

    Returns
    -------
    Drift
        NaN if one of them has no row. 0 for equal distributions.

    Examples
    --------
    >>> from fastrank_eval.stats.binned_scores import BinnedScores
    >>> none = np.empty(0, np.int64)
    >>> reference, other = BinnedScores(1024), BinnedScores(1024)
    >>> _ = reference.add(np.array([0.1, 0.2, 0.2, 0.4]), none)
    >>> _ = other.add(np.array([0.1, 0.2, 0.4, 0.4]), none)
    >>> drift = drift_between(reference.merged_bins(), other.merged_bins())
    >>> round(drift.psi, 4), drift.ks
    (0.3466, 0.25)
    """
    expected, counts = align_bins(reference, other)
    if not (expected.any() and counts.any()):
        return Drift(math.nan, math.nan)
    starts = psi_starts(expected, *(each.distinct <= FEW_VALUES for each in (reference, other)))
    return Drift(
        psi(np.add.reduceat(expected, starts), np.add.reduceat(counts, starts)),
        ks_distance(expected, counts),
    )


def psi(reference: np.ndarray, counts: np.ndarray) -> float:
    """Compute the population stability index.

    ``sum((p - q) * ln(p / q))`` over bins, p and q the shares of the two distributions. By a rule
    of thumb, below 0.1 is little change, and above 0.25 a large one. Without a change, its mean is
    about ``(bins - 1) * (1 / n + 1 / m)`` for n and m independent rows.

    Parameters
    ----------
    reference, counts : ndarray of int64 or float64, shape (bins,)
        Rows or weights of each bin, 0 or more. An empty bin has the share 0.0001, or a millionth of
        the smallest other share if that is 0.0001 or less, as in Evidently. A bin that is empty in
        both is left out.

    Returns
    -------
    float
        0 or more; NaN without a row.

    References
    ----------
    Jeffreys (1946), doi:10.1098/rspa.1946.0056; Yurdakul & Naranjo (2020), Journal of Risk Model
    Validation 14(4).

    Examples
    --------
    >>> round(psi(np.array([50, 30, 20]), np.array([40, 30, 30])), 6)
    0.062861
    >>> psi(np.array([5, 3, 2]), np.array([500, 300, 200]))
    0.0
    """
    used = (reference > 0) | (counts > 0)
    if not (reference.any() and counts.any()):
        return math.nan
    p, q = _shares(reference[used]), _shares(counts[used])
    return math.fsum((p - q) * log_each(p / q))


def _shares(counts: np.ndarray) -> np.ndarray:
    """Return the shares of bins; no share is 0."""
    shares = counts / counts.sum()
    smallest = shares[shares > 0].min()
    return np.where(shares > 0, shares, smallest / _DIVISOR if smallest <= _EMPTY else _EMPTY)


def ks_distance(reference: np.ndarray, counts: np.ndarray) -> float:
    """Compute the statistic of the two-sample Kolmogorov-Smirnov test.

    The largest absolute difference of the shares up to the end of a bin.

    Parameters
    ----------
    reference, counts : ndarray of int64 or float64, shape (bins,)
        Rows or weights of each bin, in the order of the values.

    Returns
    -------
    float
        0 to 1. The statistic of ``scipy.stats.ks_2samp`` if no bin has more than one value;
        otherwise smaller by at most the largest share of a bin with several values.

    References
    ----------
    Hodges (1958), doi:10.1007/BF02589501.

    Examples
    --------
    >>> ks_distance(np.array([1, 1, 2]), np.array([2, 1, 1]))
    0.25
    """
    p, q = (np.cumsum(each) / each.sum() for each in (reference, counts))
    return float(np.max(np.abs(p - q)))


def psi_starts(reference: np.ndarray, few: bool, few_others: bool) -> np.ndarray:
    """Choose the bins of PSI by a reference.

    Parameters
    ----------
    reference : ndarray of int64 or float64, shape (bins,)
        Rows or weights of each bin, in the order of the values.
    few, few_others : bool
        Whether the reference, and the other rows, have at most `FEW_VALUES` distinct values.

    Returns
    -------
    ndarray of int64
        The first bin of each bin of PSI. Every bin, if both have few values, as in Evidently. If
        only the reference has: each of its bins, and the bins between two of them, before the first
        and after the last together. Else about `QUANTILES` bins of equally many rows.

    Examples
    --------
    >>> psi_starts(np.array([3, 0, 0, 5]), True, True)
    array([0, 1, 2, 3])
    >>> psi_starts(np.array([3, 0, 0, 5]), True, False)
    array([0, 1, 3])
    >>> psi_starts(np.full(40, 25), False, False)
    array([ 0,  4,  8, 12, 16, 20, 24, 28, 32, 36])
    """
    if few and few_others:
        return np.arange(len(reference))
    if few:
        used = np.flatnonzero(reference)
        starts = np.unique(np.concatenate([[0], used, used + 1]))
    else:
        quantiles = reference.sum() * np.arange(1, QUANTILES) / QUANTILES
        ends = np.searchsorted(np.cumsum(reference), quantiles) + 1
        starts = np.unique(np.append(0, ends))
    return starts[starts < len(reference)]
