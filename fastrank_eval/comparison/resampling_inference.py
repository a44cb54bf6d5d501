"""Values of replicates -> standard errors, confidence intervals and p-values."""

from __future__ import annotations

import math

import numpy as np

from fastrank_eval.arguments import check_choice, open_share
from fastrank_eval.errors import ArgumentError
from fastrank_eval.uncertainty import normal_quantile

__all__ = [
    "bootstrap_error",
    "bootstrap_interval",
    "bootstrap_p_value",
    "randomisation_p_value",
]

INTERVALS = ("percentile", "basic", "normal")

#: What differs by less, in units of the replicates' own size, is equal: sums are of rounded terms.
_TIE = 1e-9


def bootstrap_error(values: np.ndarray) -> float:
    """The standard deviation of a bootstrap's values, which is the standard error of the value.

    ``sqrt(sum of (v - mean of v)^2 / (B - 1))`` of B replicates.

    Parameters
    ----------
    values : ndarray of float64, shape (replicates,)
        Of each replicate; NaN where it has none, which is passed over.

    Returns
    -------
    float
        NaN below two values.

    References
    ----------
    Efron (1979), doi:10.1214/aos/1176344552.
    """
    values = _defined(values)
    if len(values) < 2:
        return math.nan
    return float(np.std(values, ddof=1))


def bootstrap_interval(
    observed: float, values: np.ndarray, confidence: float = 0.95, kind: str = "percentile"
) -> tuple[float, float]:
    """A confidence interval from the values of a bootstrap.

    With q(a) the value of rank ``a (B + 1)`` among B, between ranks on the straight line, and
    ``a = (1 - confidence) / 2``:

    ``percentile``
        ``[q(a), q(1 - a)]``: turns with any monotone function of the value.
    ``basic``
        ``[2 v - q(1 - a), 2 v - q(a)]``: the distribution of errors instead of that of values.
    ``normal``
        ``v -+ z se`` of the normal quantile and `bootstrap_error`.

    Parameters
    ----------
    observed : float
        The value v of the groups as they are.
    values : ndarray of float64, shape (replicates,)
        NaN is passed over.
    confidence : float
        In ]0, 1[.
    kind : {"percentile", "basic", "normal"}

    Returns
    -------
    tuple of float
        Both NaN where `observed` is, below two values, and where B is too small for rank 1 to
        lie at ``a`` (39 is the least for 95 %).

    Raises
    ------
    ArgumentError
        If an option is out of range.

    References
    ----------
    Davison & Hinkley (1997), Bootstrap methods and their application, 5.2 and 5.3.
    """
    check_choice("kind", kind, INTERVALS)
    tail = (1 - open_share("confidence", confidence)) / 2
    values = _defined(values)
    if math.isnan(observed) or len(values) < 2:
        return math.nan, math.nan
    if kind == "normal":
        reach = normal_quantile(confidence) * bootstrap_error(values)
        return observed - reach, observed + reach
    # Ranks that should be whole are so but for the last bits.
    if tail * (len(values) + 1) < 1 - 1e-9:
        return math.nan, math.nan
    low, high = (float(q) for q in np.quantile(values, [tail, 1 - tail], method="weibull"))
    return (low, high) if kind == "percentile" else (2 * observed - high, 2 * observed - low)


def bootstrap_p_value(observed: float, values: np.ndarray) -> float:
    """The two-sided p-value of "the difference is 0", the bootstrap being shifted to 0.

    ``(1 + number of |v_r - v| >= |v|) / (B + 1)``: how often groups drawn again err by as much as
    the observed difference v is away from 0. The 1 stands for what was observed, so that a
    p-value is never 0.

    Parameters
    ----------
    observed : float
        The difference v.
    values : ndarray of float64, shape (replicates,)
        Differences; NaN is passed over.

    Returns
    -------
    float
        NaN where `observed` is, or without a value.

    References
    ----------
    Noreen (1989), Computer-intensive methods for testing hypotheses, 4.2; Davison & Hinkley
    (1997), 4.4.
    """
    values = _defined(values)
    if math.isnan(observed) or not len(values):
        return math.nan
    return (1 + _as_far(observed, values - observed)) / (len(values) + 1)


def randomisation_p_value(observed: float, values: np.ndarray, exact: bool = False) -> float:
    """The two-sided p-value of "the models are interchangeable".

    ``(1 + number of |v_r| >= |v|) / (B + 1)``, or ``number of |v_r| >= |v| / B`` where replicates
    are all patterns, the observed one among them.

    Parameters
    ----------
    observed : float
        The difference v of the models as they are.
    values : ndarray of float64, shape (replicates,)
        Differences of `resampling.swapped`. NaN, which a pattern has where a measure is undefined
        for one side, counts as being as far away: it speaks for no difference.
    exact : bool
        ``Swapped.exact``.

    Returns
    -------
    float
        NaN where `observed` is.

    Raises
    ------
    ArgumentError
        Without a replicate.

    References
    ----------
    Smucker, Allan & Carterette (2007), doi:10.1145/1321440.1321528; Phipson & Smyth (2010),
    Permutation p-values should never be zero, doi:10.2202/1544-6115.1585.
    """
    values = np.asarray(values, np.float64)
    if not len(values):
        raise ArgumentError("a p-value of no replicates is asked for; draw at least one.")
    if math.isnan(observed):
        return math.nan
    undefined = np.isnan(values)
    count = int(undefined.sum()) + _as_far(observed, values[~undefined])
    return max(count, 1) / len(values) if exact else (1 + count) / (len(values) + 1)


def _defined(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, np.float64)
    return values[~np.isnan(values)]


def _as_far(observed: float, errors: np.ndarray) -> int:
    """How many errors are as far from 0 as the observed value, ties counted."""
    sizes = np.abs(errors)
    slack = _TIE * max(abs(observed), float(sizes.mean()) if len(sizes) else 0.0)
    return int(np.count_nonzero(sizes >= abs(observed) - slack))
