"""How far Brownian motion strays in unit time: the tails that p-values of ECCE are read from."""

from __future__ import annotations

import math

from fastrank_eval.elementary import erfc, exp


def maximum_exceeds(x: float) -> float:
    """The probability that the largest absolute value of Brownian motion on [0, 1] is above `x`.

    Parameters
    ----------
    x : float
        At least 0.

    Returns
    -------
    float
        In [0, 1], to 1e-12 or to 1e-9 of itself in the upper tail.

    References
    ----------
    Erdos & Kac (1946), doi:10.1090/S0002-9904-1946-08560-2.
    """
    if x <= 0:
        return 1.0
    if x < 1.5:
        # From the eigenvalues of the heat equation between two walls.
        inside = 0.0
        for k in range(50):
            odd = 2 * k + 1
            inside += (-1) ** k / odd * exp(-(odd * math.pi / x) * (odd * math.pi / x) / 8)
        return _share(1.0 - 4.0 / math.pi * inside)
    # From reflections at the walls.
    return _share(4.0 * sum((-1) ** k * _above((2 * k + 1) * x) for k in range(50)))


def range_exceeds(x: float) -> float:
    """The probability that the range of Brownian motion on [0, 1] is above `x`.

    Parameters
    ----------
    x : float
        At least 0.

    Returns
    -------
    float
        In [0, 1], to 1e-12 or to 1e-9 of itself in the upper tail.

    References
    ----------
    Feller (1951), doi:10.1214/aoms/1177729589.
    """
    if x <= 0:
        return 1.0
    if x < 2.0:
        inside = 0.0
        for k in range(50):
            root = (k + 0.5) * math.pi
            a = root * root
            inside += (8.0 / (x * x) + 2.0 / a) * exp(-2.0 * a / (x * x))
        return _share(1.0 - inside)
    return _share(8.0 * sum((-1) ** (k - 1) * k * _above(k * x) for k in range(1, 50)))


def _above(x: float) -> float:
    """The probability that a standard normal variable is above `x`."""
    return 0.5 * erfc(x / math.sqrt(2.0))


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)
