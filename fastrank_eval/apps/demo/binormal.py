"""Model scores whose AUC is known in closed form: the binormal model.

The functions it needs are here as well. Logarithm, exponential and inverse normal are built from
additions, multiplications, divisions and square roots alone. IEEE 754 fixes those to the last bit,
so a seed gives the same scores on every machine, which the transcendental functions of a vector
library do not promise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Floats",
    "binormal_auc",
    "binormal_shift",
    "exponential",
    "graded_shift",
    "inverse_normal",
    "logarithm",
    "logistic",
    "rounded_auc",
]

Floats: TypeAlias = NDArray[np.float64]

_LN2_HIGH = float.fromhex("0x1.62e42feep-1")  # 32 bits, so that k * _LN2_HIGH is exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_LOG_SERIES = [2.0 / odd for odd in range(21, 0, -2)]
_EXP_SERIES = [1.0 / math.factorial(order) for order in range(13, -1, -1)]

# Wichura 1988, table of PPND16, highest power first.
_CENTRE = (
    [2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608],
    [5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0],
)  # fmt: skip
_TAIL = (
    [7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
     1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
     4.6303378461565452959, 1.42343711074968357734],
    [1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
     0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
     2.05319162663775882187, 1.0],
)  # fmt: skip
_FAR = (
    [2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
     0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358,
     5.4637849111641143699, 6.6579046435011037772],
    [2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
     7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
     0.59983220655588793769, 1.0],
)  # fmt: skip


def _polynomial(x: Floats, coefficients: Sequence[float]) -> Floats:
    total = x * coefficients[0]
    total += coefficients[1]
    for coefficient in coefficients[2:]:
        total *= x
        total += coefficient
    return total


def logarithm(x: Floats) -> Floats:
    """Compute the natural logarithm of positive normal numbers.

    It is within 3 units in the last place.

    ``log x = k log 2 + 2 atanh((m - 1) / (m + 1))`` with ``x = m 2**k`` and m near 1.

    Parameters
    ----------
    x : float64 array
        Positive, finite, not subnormal (not checked).

    Returns
    -------
    float64 array
        New array of the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> logarithm(np.array([1.0, 0.25])).tolist()
    [0.0, -1.3862943611198906]
    """
    # Taking the bits of sqrt(1/2) off first puts m into [sqrt(1/2), sqrt(2)).
    words = x.view(np.int64) - 0x3FE6A09E00000000
    power = words >> 52
    words &= 0xFFFFFFFFFFFFF
    words += 0x3FE6A09E00000000
    mantissa = words.view(np.float64)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    total = _polynomial(ratio * ratio, _LOG_SERIES)
    total *= ratio
    exponent = power.astype(np.float64)
    total += exponent * _LN2_LOW
    total += exponent * _LN2_HIGH
    return total


def exponential(x: Floats) -> Floats:
    """Exponential of numbers in [-700, 700], within 2 units in the last place.

    ``exp x = 2**k exp r`` with ``r = x - k log 2`` and a Taylor series in r.

    Parameters
    ----------
    x : float64 array
        -700 to 700 (not checked).

    Returns
    -------
    float64 array
        New array of the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> exponential(np.array([0.0, 1.0])).round(12).tolist()
    [1.0, 2.718281828459]
    """
    power = x * (1.0 / math.log(2.0))
    np.rint(power, out=power)
    rest = x - power * _LN2_HIGH
    rest -= power * _LN2_LOW
    total = _polynomial(rest, _EXP_SERIES)
    words = power.astype(np.int64)
    words += 1023
    words <<= 52
    total *= words.view(np.float64)
    return total


def logistic(x: Floats) -> Floats:
    """``1 / (1 + exp(-x))`` for numbers in [-700, 700].

    Parameters
    ----------
    x : float64 array
        -700 to 700 (not checked).

    Returns
    -------
    float64 array
        New array of the same shape, values in (0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> logistic(np.array([0.0])).tolist()
    [0.5]
    """
    total = exponential(-x)
    total += 1.0
    return np.divide(1.0, total, out=total)


def inverse_normal(p: Floats) -> Floats:
    """Quantile of the standard normal law, relative error about 1e-15.

    Parameters
    ----------
    p : float64 array
        Strictly between 0 and 1 (not checked).

    Returns
    -------
    float64 array
        z with Phi(z) = p; a new array of the same shape.

    References
    ----------
    Wichura. Algorithm AS 241: the percentage points of the normal distribution.
    Applied Statistics 37(3), 1988. doi:10.2307/2347330

    Examples
    --------
    >>> import numpy as np
    >>> inverse_normal(np.array([0.5, 0.975])).round(12).tolist()
    [0.0, 1.95996398454]
    """
    centred = p - 0.5
    radius = centred * centred
    np.subtract(0.180625, radius, out=radius)
    z = _polynomial(radius, _CENTRE[0])
    z /= _polynomial(radius, _CENTRE[1])
    z *= centred
    (outer,) = np.nonzero(radius < 0.0)
    if outer.size:
        tail = p[outer]
        depth = np.sqrt(-logarithm(np.minimum(tail, 1.0 - tail)))
        distance = _quotient(depth - 1.6, _TAIL)
        (far,) = np.nonzero(depth > 5.0)
        if far.size:
            distance[far] = _quotient(depth[far] - 5.0, _FAR)
        z[outer] = np.copysign(distance, centred[outer])
    return z


def _quotient(x: Floats, table: tuple[list[float], list[float]]) -> Floats:
    total = _polynomial(x, table[0])
    total /= _polynomial(x, table[1])
    return total


def binormal_auc(d: float) -> float:
    """AUC of scores that are N(0, 1) for negatives and N(d, 1) for positives.

    ``AUC = Phi(d / sqrt(2))``, for any share of positives and after any strictly increasing map.

    Parameters
    ----------
    d : float
        Distance of the two means, in standard deviations.

    Returns
    -------
    float
        0 to 1.

    References
    ----------
    Hanley, McNeil. The meaning and use of the area under a ROC curve. Radiology 143(1), 1982.
    doi:10.1148/radiology.143.1.7063747

    Examples
    --------
    >>> binormal_auc(0.0)
    0.5
    >>> round(binormal_auc(0.9538725524), 9)
    0.75
    """
    return NormalDist().cdf(d / math.sqrt(2.0))


def binormal_shift(auc: float) -> float:
    """Distance of the means that gives an AUC: ``d = sqrt(2) Phi^-1(AUC)``.

    Parameters
    ----------
    auc : float
        Strictly between 0 and 1 (not checked).

    Returns
    -------
    float
        Inverse of `binormal_auc`.

    Examples
    --------
    >>> round(binormal_shift(0.75), 10)
    0.9538725524
    """
    return math.sqrt(2.0) * float(inverse_normal(np.array([auc]))[0])


def graded_shift(auc: float, shares: Sequence[float]) -> float:
    """Compute the step per grade that gives an AUC.

    The AUC is that of "relevant" (grade 1 and above) against grade 0.

    With latent scores N(grade * d, 1), d solves
    ``AUC = sum_g shares[g - 1] Phi(g d / sqrt(2))``.

    Parameters
    ----------
    auc : float
        0.5 to 1, exclusive (not checked).
    shares : sequence of float
        Shares of the grades 1, 2, ... among relevant rows; they sum to 1.

    Returns
    -------
    float
        The step d.

    Examples
    --------
    >>> abs(graded_shift(0.75, [1.0]) - binormal_shift(0.75)) < 1e-12
    True
    """
    low, high = 0.0, binormal_shift(auc)  # a step that high reaches the AUC with grade 1 alone
    for _ in range(80):
        step = 0.5 * (low + high)
        reached = sum(s * binormal_auc(g * step) for g, s in enumerate(shares, start=1))
        low, high = (step, high) if reached < auc else (low, step)
    return 0.5 * (low + high)


def rounded_auc(
    decimals: int, intercept: float, slope: float, shifts: Sequence[float], shares: Sequence[float]
) -> float:
    """Compute the AUC of rounded scores, a tied pair counting one half.

    The scores are ``round(logistic(intercept + slope z), decimals)``.

    ``AUC = sum_c P1(c) (F0(below c) + P0(c) / 2)`` over the cells c that round to one value.
    Rounding joins the points of the concave ROC curve at the cell edges by chords, so the AUC
    falls, by an amount of the order of the squared cell width.

    Parameters
    ----------
    decimals : int
        1 to 6.
    intercept, slope : float
        Of the logistic map; slope above 0.
    shifts, shares : sequences of float
        Means of the latent score in the parts that make up the positives, and their shares.

    Returns
    -------
    float
        0 to 1.

    Examples
    --------
    >>> rounded_auc(3, 0.0, 1.0, [binormal_shift(0.75)], [1.0]) < 0.75
    True
    """
    cells = 10**decimals
    edges = (np.arange(cells, dtype=np.float64) + 0.5) / cells
    latent = (logarithm(edges) - logarithm(1.0 - edges) - intercept) / slope
    latent = latent[(latent > -9.0) & (latent < 9.0 + max(shifts))]
    negatives = _normal_cdf(latent)
    positives = sum(
        (share * _normal_cdf(latent - shift) for shift, share in zip(shifts, shares, strict=True)),
        start=np.zeros(latent.size),
    )
    negatives = np.concatenate(([0.0], negatives, [1.0]))
    positives = np.concatenate(([0.0], positives, [1.0]))
    below = 0.5 * (negatives[1:] + negatives[:-1])
    return math.fsum((np.diff(positives) * below).tolist())


def _normal_cdf(z: Floats) -> Floats:
    root = math.sqrt(0.5)
    return np.array([0.5 * math.erfc(-root * value) for value in z.tolist()], dtype=np.float64)
