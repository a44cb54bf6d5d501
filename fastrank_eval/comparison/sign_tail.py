"""The tail of a fair coin, exact to the last digits for any number of tosses."""

from __future__ import annotations

import math

from fastrank_eval.elementary import exp, log, log1p

__all__ = ["sign_tail"]

#: Up to so many tosses, whole numbers tell.
_COUNTED = 1000


def sign_tail(wins: int, losses: int) -> float:
    """``min(1, 2 P(X <= min(wins, losses)))``, X binomial of ``wins + losses`` and 1/2.

    Parameters
    ----------
    wins, losses : int
        At least 0.

    Returns
    -------
    float
        Good to a relative 1e-11; 0 below the smallest double.

    References
    ----------
    Loader (2000), Fast and accurate computation of binomial probabilities.
    """
    tosses, fewer = wins + losses, min(wins, losses)
    if wins == losses:
        return 1.0
    if tosses <= _COUNTED:
        ways = sum(math.comb(tosses, k) for k in range(fewer + 1))
        return min(1.0, ways / (1 << (tosses - 1)))
    # P(X <= k) / P(X = k) = 1 + k / (n - k + 1) (1 + (k - 1) / (n - k + 2) (1 + ...)).
    total, term, k = 0.0, 1.0, fewer
    while term > 1e-17 * total:
        total += term
        term *= k / (tosses - k + 1)
        k -= 1
    return min(1.0, 2 * total * exp(_log_probability(tosses, fewer)))


def _log_probability(n: int, k: int) -> float:
    """The logarithm of ``C(n, k) / 2^n``, from what is left of Stirling's formula."""
    if not k:
        return -n * log(2)
    e = (n - 2 * k) / n
    if e < 0.5:
        deviance = n / 2 * (log1p(-e * e) + e * log1p(2 * e / (1 - e)))
    else:
        deviance = k * log(2 * k / n) + (n - k) * log(2 * (n - k) / n)
    spread = log(n / (2 * math.pi * k * (n - k))) / 2
    return spread - deviance + _stirling_rest(n) - _stirling_rest(k) - _stirling_rest(n - k)


def _stirling_rest(n: int) -> float:
    """``log n! - log(sqrt(2 pi n) (n / e)^n)``."""
    if n < 32:
        return log(math.factorial(n)) - (n + 0.5) * log(n) + n - log(2 * math.pi) / 2
    s = 1 / (n * n)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - s / 1188) * s) * s) * s) / n
