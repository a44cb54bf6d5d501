"""Compute standard errors and confidence intervals from sums over groups.

Groups are independent clusters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fastrank_eval._lib.elementary import (
    EXP,
    LOG,
    LOG1P,
    atan,
    elementary,
    erfc,
    exp,
    inverse_normal,
)
from fastrank_eval._lib.jit import kernel

#: Results warn below this effective number of groups.
FEW_GROUPS = 40
#: From this many degrees of freedom on, the expansion of Student's t is exact to the last digits.
_EXPANSION_DEGREES = 1000
#: A rounding changes a number by at most this share of it.
ULP_HALF = 2.0**-53
#: Roundings of the value of a group times its weight. A sum of m terms, rounded at each, is off by
#: at most m roundings, by about the root of m where they do not all go one way.
GROUP_ROUNDINGS = 64
#: A sum of fourth powers below this share of its terms is mostly rounding.
_LEAST_SHARE = 2.0**-40
#: Gamma(a + 1/2) / (sqrt(a) Gamma(a)) in powers of 1 / a, the highest first.
_GAMMA_STEP = (869 / 4194304, -399 / 262144, -21 / 32768, 5 / 1024, 1 / 128, -1 / 8, 1.0)


class ErrorGroups(NamedTuple):
    """The effective number of groups behind a variance.

    A variance is a sum of u^2 over groups with influences u. If few groups have nearly all of it,
    it is as uncertain as a variance of few groups. ``(sum of u^2)^2 / sum of u^4`` is the number of
    groups that carry it (its effective groups). ``(sum of w^2)^2 / sum of w^4`` is a second
    estimate, by the weights w of the groups: it assumes that groups of equal weight vary alike, and
    is less sensitive to the groups of this sample.

    Parameters
    ----------
    groups : int
        Independent clusters.
    weights : float
        Effective groups by weight; NaN if unknown.
    influence : float
        Effective groups by influence; NaN if unknown.
    difference : bool
        Whether the variance is that of a difference of two models. Its influences lie about 0 and
        show their tail. If it is not NaN, it alone determines the degrees of freedom.

    References
    ----------
    Satterthwaite (1946), doi:10.2307/3002019; Imbens & Kolesar (2016), doi:10.1162/REST_a_00552.

    Examples
    --------
    >>> ErrorGroups(100).degrees, ErrorGroups(100, weights=20.0).degrees
    (99.0, 50.0)
    """

    groups: int
    weights: float = math.nan
    influence: float = math.nan
    difference: bool = False

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the variance, from 1 to ``groups - 1``."""
        return float(_degrees(*self))

    @property
    def effective_groups(self) -> float:
        """Groups of equal weight with an equally certain variance."""
        return float(_effective(*self[:3]))


@kernel
def _degrees(groups, weights, influence, difference):  # type: ignore[no-untyped-def]
    by_influence = _satterthwaite(influence, groups)
    if difference and influence == influence:
        return by_influence
    return min(_satterthwaite(weights, groups), by_influence)


@kernel
def _effective(groups, weights, influence):  # type: ignore[no-untyped-def]
    if groups == 0:
        return 0.0
    by_weight = weights if weights == weights else float(groups)
    return min(float(groups), by_weight, 1.0 + _satterthwaite(influence, groups))


@kernel
def _satterthwaite(effective_groups, groups):  # type: ignore[no-untyped-def]
    """Compute degrees of freedom from kurtosis, ``groups / effective groups``."""
    most = max(groups - 1.0, 1.0)
    # Numbers just below the groups have the same reciprocal.
    if not effective_groups > 0 or 1.0 / effective_groups <= 1.0 / max(groups, 1):
        return most
    return min(max(2.0 / (1.0 / effective_groups - 1.0 / groups), 1.0), most)


@kernel
def zero_if_rounding(se, rounding, groups):  # type: ignore[no-untyped-def]
    """Return a standard error, or 0 where rounding alone may have made it.

    Every standard error is decided here. Its square is ``U / (U - 1) * sum of u^2`` over U groups.
    The influence of a group is a sum ``u = sum of s x`` of terms x with slopes s. Sums over groups
    are exact, but a term is rounded: after r roundings it is off by at most ``r * 2^-53 * abs(x)``.
    So if every true u is 0, ``sqrt(sum of u^2)`` is at most ``2^-53 * sum of r abs(s) norm(x)``
    (triangle inequality), with ``norm(x)^2 = sum of x^2`` over groups. A larger error is true.

    Parameters
    ----------
    se : float
        By the rounded terms; NaN if unknown.
    rounding : float
        This bound. It does not shrink with the difference of two models: their terms are rounded
        before they are subtracted.
    groups : int
    """
    return 0.0 if groups > 1 and se <= rounding * math.sqrt(groups / (groups - 1)) else se


def is_rounding(difference: float, values: Sequence[float], rounding: float, groups: int) -> bool:
    """Return whether the difference of two values may be rounding alone.

    Parameters
    ----------
    difference : float
    values : sequence of float
        Both values. Each is rounded a few times itself.
    rounding : float
        As in `zero_if_rounding`. A sum of `groups` influences is at most its root times as large.
    groups : int
    """
    of_values = 8.0 * ULP_HALF * max(map(abs, values))
    return abs(difference) <= max(rounding * math.sqrt(groups), of_values)


@kernel
def effective_groups(squares, fourth):  # type: ignore[no-untyped-def]
    """Compute ``(sum of x^2)^2 / sum of x^4``, at least 1; NaN if undefined.

    Parameters
    ----------
    squares, fourth : float
        The two sums.
    """
    if not (squares > 0 and fourth > 0):
        return math.nan
    # With exponents apart, so that the square does not overflow.
    above, p = math.frexp(squares)
    below, q = math.frexp(fourth)
    shift = 2 * p - q
    return max(math.ldexp(above * above / below, shift), 1.0) if abs(shift) < 1000 else math.nan


@kernel
def effective_groups_of_sums(squares, total, size):  # type: ignore[no-untyped-def]
    """Compute `effective_groups`; NaN if rounding dominates.

    Parameters
    ----------
    squares : float
        The sum of x^2.
    total, size : float
        The sum of x^4 as a sum of terms, and that of their magnitudes.
    """
    return math.nan if total <= _LEAST_SHARE * size else effective_groups(squares, total)


def effective_groups_of_terms(squares: float, fourth: Sequence[float]) -> float:
    """Compute `effective_groups` by terms of a sum; NaN if rounding dominates."""
    if not all(map(math.isfinite, fourth)):
        return math.nan
    size = math.fsum(map(abs, fourth))
    return float(effective_groups_of_sums(squares, math.fsum(fourth), size))


class Uncertainty(NamedTuple):
    """The standard error and the confidence interval of a value.

    Parameters
    ----------
    se : float
        Standard error, above 0; NaN if there is none.
    low, high : float
        Confidence interval; NaN if `se` is NaN.
    effective_groups : float
        NaN if the value does not depend on groups.
    warning : str or None
        Why there is no standard error, such as ``"no_variance"``. ``"few_groups"``: the interval is
        approximate.
    """

    se: float = math.nan
    low: float = math.nan
    high: float = math.nan
    effective_groups: float = math.nan
    warning: str | None = None


def t_interval(value: float, se: float, behind: ErrorGroups, confidence: float) -> Uncertainty:
    """Compute the confidence interval of a value by Student's t.

    Its ends may lie outside the range of the measure. An error of 0 says that these groups do not
    vary, not that the value is certain: it makes no interval.

    Parameters
    ----------
    value, se : float
    behind : ErrorGroups
        The groups behind `se`.
    confidence : float
        In ]0, 1[.
    """
    normal, last = normal_quantile(confidence), np.full(2, math.nan)
    se, low, high, effective, warning = interval(value, se, *behind, confidence, normal, last)
    return Uncertainty(se, low, high, effective, WARNINGS[warning])


#: Those of `interval`.
WARNINGS = (None, "one_group", "no_variance", "few_groups")


@kernel
def interval(  # type: ignore[no-untyped-def]
    value, se, groups, weights, influence, difference, confidence, normal, last
):
    """Compute what `t_interval` does.

    The warning is an index of `WARNINGS`. The normal quantile is given; the last degrees of freedom
    and their quantile are kept.
    """
    effective = _effective(groups, weights, influence)
    if groups < 2 or not se > 0:
        warning = (1 if groups == 1 else 0) if groups < 2 else (2 if se == 0 else 0)
        return math.nan, math.nan, math.nan, effective, warning
    degrees = _degrees(groups, weights, influence, difference)
    if degrees != last[0]:
        last[0] = degrees
        last[1] = _quantile(confidence, normal, degrees)
    width = last[1] * se
    return se, value - width, value + width, effective, 3 if effective < FEW_GROUPS else 0


def exponential_interval(logs: Uncertainty, mean: float) -> Uncertainty:
    """Compute the interval of ``exp(mean)`` from that of a mean of logarithms.

    The standard error is ``exp(mean) * se`` (delta method). The ends of the interval are the
    exponentials of the ends for the mean. So it is not symmetric and never below zero. Values above
    the largest double are inf.
    """
    return logs._replace(se=exp(mean) * logs.se, low=exp(logs.low), high=exp(logs.high))


@lru_cache(maxsize=64)
def normal_quantile(confidence: float) -> float:
    """Compute the z with P(abs(Z) < z) = `confidence`, for a normal Z."""
    # For the double before 1, half of the sum would round to 1.
    return inverse_normal(min((1 + confidence) / 2, math.nextafter(1.0, 0.0)))


@lru_cache(maxsize=4096)
def t_quantile(confidence: float, degrees: float) -> float:
    """Compute the t with P(abs(T) < t) = `confidence`, for Student's T.

    Parameters
    ----------
    confidence : float
        In ]0, 1[.
    degrees : float
        Degrees of freedom, at least 1.

    Returns
    -------
    float

    References
    ----------
    Abramowitz & Stegun (1964), 26.7.3 to 26.7.5.
    """
    return float(_quantile(confidence, normal_quantile(confidence), float(degrees)))


def t_tail(t: float, degrees: float) -> float:
    """Compute the two-sided p-value of a t statistic: P(abs(T) >= abs(t)).

    The regularised incomplete beta function ``I_x(degrees / 2, 1 / 2)`` at
    ``x = degrees / (degrees + t^2)``, by a continued fraction, or near 0 by the series of the
    complement. The relative error is at most 1e-11, down to 1e-300.

    Parameters
    ----------
    t : float
        The probability is 0 if it is infinite.
    degrees : float
        Degrees of freedom, at least 1.

    Returns
    -------
    float
        NaN if `t` is NaN.

    References
    ----------
    Abramowitz & Stegun (1964), 26.5.8 and 26.7.1.
    """
    if math.isnan(t):
        return t
    if math.isinf(t):
        return 0.0
    return float(_tail(float(t), float(degrees)))


def normal_tail(z: float) -> float:
    """Compute the two-sided p-value of a z statistic: P(abs(Z) >= abs(z))."""
    return erfc(abs(z) / math.sqrt(2))


@kernel
def _quantile(confidence, x, n):  # type: ignore[no-untyped-def]
    """Compute `t_quantile`; x is the quantile of a normal variable."""
    if n < _EXPANSION_DEGREES:
        return _solve(confidence, x, n)
    s = x * x
    return x * (
        1
        + (s + 1) / (4 * n)
        + ((5 * s + 16) * s + 3) / (96 * n * n)
        + (((3 * s + 19) * s + 17) * s - 15) / (384 * n * n * n)
        + ((((79 * s + 776) * s + 1482) * s - 1920) * s - 945) / (92160 * n * n * n * n)
    )


@kernel
def _solve(confidence, x, n):  # type: ignore[no-untyped-def]
    """Compute the t with P(abs(T) < t) = `confidence` by Newton's method.

    It starts at x, the quantile of a normal variable. The probability is concave in t and x is too
    small: steps never overshoot.
    """
    log_density = elementary(LOG, _gamma_step(n / 2)) - elementary(LOG, n * math.pi) / 2
    t = x
    is_integer = n == math.floor(n)
    # For fractional degrees the probability is accurate to 1e-11.
    tolerance = 1e-15 if is_integer else 1e-11
    for _ in range(200):
        density = 2 * elementary(EXP, log_density - (n + 1) / 2 * elementary(LOG1P, t * t / n))
        within = _probability_within(t, int(n)) if is_integer else 1 - _tail(t, n)
        step = (confidence - within) / density
        t += step
        if step <= tolerance * t:
            break
    return t


@kernel
def _tail(t, n):  # type: ignore[no-untyped-def]
    """Compute P(abs(T) >= abs(t)) of a finite t with n degrees of freedom."""
    u = abs(t) / math.sqrt(n)
    # u^2 / (1 + u^2) and log(1 + u^2), also if the square overflows.
    far = u > 1e100
    share = 1.0 if far else u * u / (1 + u * u)
    log_rest = 2 * elementary(LOG, u) if far else elementary(LOG1P, u * u)
    density = elementary(EXP, -n / 2 * log_rest) * math.sqrt(share / math.pi) * _gamma_step(n / 2)
    if t * t < 2:
        return 1 - density * _fraction_within(n, share)
    # The distance of x from the turning point of the distribution, without rounding x first.
    gap = n / 2 if far else n / 2 * (t * t - 1) / (n + t * t)
    return density * _fraction_beyond(n / 2, elementary(EXP, -log_rest), gap)


@kernel
def _gamma_step(a):  # type: ignore[no-untyped-def]
    """Compute Gamma(a + 1/2) / Gamma(a).

    A difference of large log-gammas would lose digits.
    """
    factor = 1.0
    while a < 64:
        factor *= a / (a + 0.5)
        a += 1
    series = 0.0
    for coefficient in _GAMMA_STEP:
        series = series / a + coefficient
    return factor * math.sqrt(a) * series


@kernel
def _fraction_within(n, y):  # type: ignore[no-untyped-def]
    """Compute P(abs(T) < t) over the density.

    This is ``2 F(1, (n + 1) / 2; 3 / 2; y)``. F is the hypergeometric function.
    """
    total = 0.0
    term = 2.0
    k = 0
    while term > 1e-17 * total:
        total += term
        term *= y * (n + 1 + 2 * k) / (3 + 2 * k)
        k += 1
    return total


@kernel
def _fraction_beyond(a, x, gap):  # type: ignore[no-untyped-def]
    """Evaluate the continued fraction of ``I_x(a, 1/2)`` by its convergents.

    They converge fast if ``gap = a - (a + 1/2) x`` is above 0. DiDonato & Morris (1992),
    doi:10.1145/131766.131776.
    """
    above = (0.0, 1.0)
    below = (1.0, a / (a + 1) * (gap + 1))
    value = 0.0
    for m in range(1, 10_000):
        wide = a + 2 * m - 1
        link = (a + m - 1) * (a + m - 0.5) / (wide * wide) * m * (0.5 - m) * x * x
        term = (
            m
            + m * (0.5 - m) * x / (a + 2 * m - 1)
            + (a + m) / (a + 2 * m + 1) * (gap + 1 + m * (2 - x))
        )
        above = above[1], term * above[1] + link * above[0]
        below = below[1], term * below[1] + link * below[0]
        last = value
        value = above[1] / below[1]
        if abs(value - last) <= 1e-16 * abs(value):
            break
        # Only the ratio matters. Without scaling both would overflow.
        above = above[0] / below[1], above[1] / below[1]
        below = below[0] / below[1], 1.0
    return value


@kernel
def _probability_within(t, degrees):  # type: ignore[no-untyped-def]
    """Compute P(abs(T) < t) for integer degrees, in closed form."""
    tangent = t / math.sqrt(degrees)
    secant = math.sqrt(1 + tangent * tangent)
    sine = tangent / secant
    cosine = 1 / secant
    square = cosine * cosine
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = term
    for k in range(2 + odd, degrees - 1, 2):
        term *= square * (k - 1) / k
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (atan(tangent) + sine * total * (degrees > 1))


def root_of_quotient(numerator: int, denominator: int) -> float:
    """Compute ``sqrt(numerator / denominator)``; inf above the largest double.

    Parameters
    ----------
    numerator, denominator : int
        Of any size; at least 0, and above 0.
    """
    if not numerator:
        return 0.0
    # Enough bits of the quotient that its root has more bits than a double.
    shift = max(128 + denominator.bit_length() - numerator.bit_length(), 0) // 2 * 2
    try:
        return math.isqrt((numerator << shift) // denominator) / (1 << shift // 2)
    except OverflowError:
        return math.inf
