"""Sums over groups -> standard errors and confidence intervals, groups being independent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from fastrank_eval._lib.elementary import atan, erfc, exp, inverse_normal, log, log1p
from fastrank_eval.stats.exact import quotient

#: Under this effective number of groups a result says so.
FEW_GROUPS = 40
#: From this many degrees of freedom on, the expansion of Student's t is exact to the last digits.
_MANY = 1000
#: Below this share of its terms a sum of fourth powers is lost in their rounding.
_ROUGH = 2.0**-40
#: Gamma(a + 1/2) / (sqrt(a) Gamma(a)) in powers of 1 / a, the highest first.
_GAMMA_STEP = (869 / 4194304, -399 / 262144, -21 / 32768, 5 / 1024, 1 / 128, -1 / 8, 1.0)


@dataclass(frozen=True, slots=True)
class Moments:
    """Exact sums over groups of weights w and weighted values p = w A.

    Parameters
    ----------
    groups : int
        How many.
    values, weights : int
        Sums of p and of w, in one unit.
    squares : int
        Sum of p squared, in the square of that unit.
    products, squared_weights : int or None
        Sums of p w and of w squared; None where every weight is 1.
    unit : int
        How many of that unit are 1, as a power of two.
    fourth : tuple of float
        Sums of p^4, p^3 w, p^2 w^2, p w^3 and w^4, each term rounded.
    """

    groups: int
    values: int
    weights: int
    squares: int
    products: int | None
    squared_weights: int | None
    unit: int
    fourth: tuple[float, ...]

    def support(self) -> Support:
        """Return what the variance of ``sum of p / sum of w`` rests on."""
        if not self.weights:
            return Support(self.groups)
        mean = self.values / self.weights
        influence = carriers_of_difference(
            quotient(self.deviations(), self.weights**2 << (2 * self.unit)), self.fourth, mean
        )
        return Support(self.groups, self.carriers_by_weight(), influence)

    def support_of_sum(self) -> Support:
        """Return what the variance of ``sum of p`` rests on."""
        if self.products is not None or not self.groups:
            return Support(self.groups)
        return self.support()

    def carriers_by_weight(self) -> float:
        """Return ``(sum of w^2)^2 / sum of w^4``; the number of groups where w is 1."""
        if self.squared_weights is None:
            return float(self.groups)
        return carriers(quotient(self.squared_weights, 1 << (2 * self.unit)), self.fourth[4])

    def error_of_mean(self) -> float:
        """The standard error of ``sum of p / sum of w``; NaN of less than two groups.

        ``sqrt(U / (U - 1) * sum of w^2 (A - mean)^2) / sum of w`` of U groups: the variance of a
        ratio of sums over independent clusters, linearised.

        References
        ----------
        Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
        """
        if self.groups < 2 or not self.weights:
            return math.nan
        return root_of_quotient(
            self.deviations() * self.groups, (self.groups - 1) * self.weights**4
        )

    def deviations(self) -> int:
        """``(sum of w)^2`` times the sum of ``(p - mean w)^2``, in the fourth power of the unit."""
        p, w = self.values, self.weights
        if self.products is None or self.squared_weights is None:
            # Weights of 1 each: w is their number, in the unit of p.
            return (self.groups * self.squares - p * p) * (w * w // self.groups)
        return self.squares * w * w - 2 * p * w * self.products + p * p * self.squared_weights

    def error_of_sum(self) -> float:
        """The standard error of ``sum of p``, the number of groups being given; NaN below two.

        ``sqrt(U / (U - 1) * sum of (p - mean of p)^2)`` of U groups.
        """
        if self.groups < 2:
            return math.nan
        deviations = self.groups * self.squares - self.values**2
        return root_of_quotient(deviations, (self.groups - 1) << (2 * self.unit))


@dataclass(frozen=True, slots=True)
class Support:
    """Groups that a variance rests on.

    A variance is a sum of u^2 over groups, u being the influence of a group. Where few groups have
    nearly all of it, it is as uncertain as one of few groups. ``(sum of u^2)^2 / sum of u^4`` says
    how many carry it, and so do the weights w of the groups, as if groups of one weight varied
    alike: ``(sum of w^2)^2 / sum of w^4``, which sees more groups that the next sample may hold.

    Parameters
    ----------
    groups : int
        Independent clusters.
    weights : float
        Carriers by weight; NaN where not known.
    influence : float
        Carriers by influence; NaN where not known.
    difference : bool
        Whether the variance is that of a difference of two models. Its influences lie about 0 and
        show their tail: where they are known, degrees of freedom follow them alone.

    References
    ----------
    Satterthwaite (1946), doi:10.2307/3002019; Imbens & Kolesar (2016), doi:10.1162/REST_a_00552.

    Examples
    --------
    >>> Support(100).degrees, Support(100, weights=20.0).degrees
    (99.0, 50.0)
    """

    groups: int
    weights: float = math.nan
    influence: float = math.nan
    difference: bool = False

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the variance, from 1 to ``groups - 1``."""
        by_influence = self._satterthwaite(self.influence)
        if self.difference and not math.isnan(self.influence):
            return by_influence
        return min(self._satterthwaite(self.weights), by_influence)

    @property
    def effective_groups(self) -> float:
        """Groups of equal weight whose variance would be as certain; 0 without a group."""
        if not self.groups:
            return 0.0
        by_weight = float(self.groups) if math.isnan(self.weights) else self.weights
        return min(float(self.groups), by_weight, 1.0 + self._satterthwaite(self.influence))

    def _satterthwaite(self, carrying: float) -> float:
        """Return degrees of freedom by the kurtosis ``groups / carrying``."""
        most = max(self.groups - 1.0, 1.0)
        if math.isnan(carrying) or carrying >= self.groups:
            return most
        return min(max(2.0 / (1.0 / carrying - 1.0 / self.groups), 1.0), most)


def carriers(squares: float, fourth: float) -> float:
    """Compute ``(sum of x^2)^2 / sum of x^4``, at least 1; NaN where not known.

    Parameters
    ----------
    squares, fourth : float
        The two sums.
    """
    if not (squares > 0 and fourth > 0):
        return math.nan
    # By powers of two, so that the square passes no double.
    (above, p), (below, q) = math.frexp(squares), math.frexp(fourth)
    shift = 2 * p - q
    return max(math.ldexp(above * above / below, shift), 1.0) if abs(shift) < 1000 else math.nan


def carriers_of_difference(squares: float, fourth: Sequence[float], slope: float) -> float:
    """Compute ``(sum of u^2)^2 / sum of u^4`` of ``u = x - slope y``.

    Parameters
    ----------
    squares : float
        The sum of u^2.
    fourth : sequence of float
        Sums of x^4, x^3 y, x^2 y^2, x y^3 and y^4.
    slope : float

    Returns
    -------
    float
        At least 1; NaN where the sums of fourth powers are too rough to tell.
    """
    terms, factor = [], 1.0
    for binomial, power in zip((1.0, -4.0, 6.0, -4.0, 1.0), fourth, strict=True):
        terms.append(binomial * factor * power)
        factor *= slope
    if not all(map(math.isfinite, terms)):
        return math.nan
    total = math.fsum(terms)
    if total <= _ROUGH * math.fsum(map(abs, terms)):
        return math.nan
    return carriers(squares, total)


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """How sure a value is.

    Parameters
    ----------
    se : float
        Standard error; NaN where none is known.
    low, high : float
        Confidence interval; NaN where `se` is.
    effective_groups : float
        NaN where groups do not count.
    caution : str or None
        Why there is no standard error, or ``"few_groups"`` where the interval is rough.
    """

    se: float = math.nan
    low: float = math.nan
    high: float = math.nan
    effective_groups: float = math.nan
    caution: str | None = None


def around(value: float, se: float, support: Support, confidence: float) -> Uncertainty:
    """Compute the interval of Student's t about a value.

    Its ends may lie outside the range of the measure: nothing is cut off.

    Parameters
    ----------
    value, se : float
    support : Support
        What `se` rests on.
    confidence : float
        In ]0, 1[.
    """
    effective_groups = support.effective_groups
    if support.groups < 2:
        caution = "one_group" if support.groups else None
        return Uncertainty(effective_groups=effective_groups, caution=caution)
    if math.isnan(se):
        return Uncertainty(effective_groups=effective_groups)
    half_width = t_quantile(confidence, support.degrees) * se
    caution = "few_groups" if effective_groups < FEW_GROUPS else None
    return Uncertainty(se, value - half_width, value + half_width, effective_groups, caution)


def of_geometric_mean(logs: Uncertainty, mean: float) -> Uncertainty:
    """The uncertainty of ``exp(mean)`` from that of a mean of logarithms.

    The standard error is ``exp(mean) * se`` (delta method); the ends of the interval are
    the exponentials of those of the mean, so it is not symmetric and never below zero; inf past the
    largest double.
    """
    return Uncertainty(
        exp(mean) * logs.se,
        exp(logs.low),
        exp(logs.high),
        logs.effective_groups,
        logs.caution,
    )


def normal_quantile(confidence: float) -> float:
    """The z for which P(abs(Z) < z) is `confidence`, in ]0, 1[, Z being standard normal."""
    # Of the double before 1 the half of the sum is rounded to 1.
    return inverse_normal(min((1 + confidence) / 2, math.nextafter(1.0, 0.0)))


@lru_cache(maxsize=4096)
def t_quantile(confidence: float, degrees: float) -> float:
    """Compute the t for which P(abs(T) < t) is `confidence`, T being Student's.

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
    x = normal_quantile(confidence)
    n = float(degrees)
    if degrees >= _MANY:
        s = x * x
        return x * (
            1
            + (s + 1) / (4 * n)
            + ((5 * s + 16) * s + 3) / (96 * n * n)
            + (((3 * s + 19) * s + 17) * s - 15) / (384 * n * n * n)
            + ((((79 * s + 776) * s + 1482) * s - 1920) * s - 945) / (92160 * n * n * n * n)
        )
    # The probability is concave in t and the start too small: Newton's steps never go too far.
    log_density = log(_gamma_step(n / 2)) - log(n * math.pi) / 2
    t, whole = x, n.is_integer()
    # Of a part of a degree the probability is good to 1e-11.
    enough = 1e-15 if whole else 1e-11
    for _ in range(200):
        density = 2 * exp(log_density - (n + 1) / 2 * log1p(t * t / n))
        within = _within(t, int(n)) if whole else 1 - t_tail(t, n)
        step = (confidence - within) / density
        t += step
        if step <= enough * t:
            break
    return t


def t_tail(t: float, degrees: float) -> float:
    """P(abs(T) >= abs(t)), T being Student's: the two-sided p-value of a t statistic.

    The regularised incomplete beta function ``I_x(degrees / 2, 1 / 2)`` at
    ``x = degrees / (degrees + t^2)``, by a continued fraction; about 0 by the series of the
    rest. Good to a relative 1e-11 down to 1e-300.

    Parameters
    ----------
    t : float
        Infinite ones have probability 0.
    degrees : float
        Degrees of freedom, at least 1.

    Returns
    -------
    float
        NaN where `t` is.

    References
    ----------
    Abramowitz & Stegun (1964), 26.5.8 and 26.7.1.
    """
    if math.isnan(t):
        return t
    if math.isinf(t):
        return 0.0
    n, u = float(degrees), abs(t) / math.sqrt(degrees)
    # u^2 / (1 + u^2) and log(1 + u^2), also where the square passes the largest double.
    far = u > 1e100
    share = 1.0 if far else u * u / (1 + u * u)
    log_rest = 2 * log(u) if far else log1p(u * u)
    density = exp(-n / 2 * log_rest) * math.sqrt(share / math.pi) * _gamma_step(n / 2)
    if t * t < 2:
        return 1 - density * _fraction_within(n, share)
    # What x lacks to the turning point of the distribution, without the rounding of x.
    lacking = n / 2 if far else n / 2 * (t * t - 1) / (n + t * t)
    return density * _fraction_beyond(n / 2, exp(-log_rest), lacking)


def normal_tail(z: float) -> float:
    """P(abs(Z) >= abs(z)), Z being standard normal: the two-sided p-value of a z statistic."""
    return erfc(abs(z) / math.sqrt(2))


def _gamma_step(a: float) -> float:
    """Gamma(a + 1/2) / Gamma(a), which differences of large log-gammas would spoil."""
    factor = 1.0
    while a < 64:
        factor *= a / (a + 0.5)
        a += 1
    series = 0.0
    for coefficient in _GAMMA_STEP:
        series = series / a + coefficient
    return factor * math.sqrt(a) * series


def _fraction_within(n: float, y: float) -> float:
    """``2 F(1, (n + 1) / 2; 3 / 2; y)``, F being hypergeometric: P(abs(T) < t) by the density."""
    total, term, k = 0.0, 2.0, 0
    while term > 1e-17 * total:
        total += term
        term *= y * (n + 1 + 2 * k) / (3 + 2 * k)
        k += 1
    return total


def _fraction_beyond(a: float, x: float, lacking: float) -> float:
    """The continued fraction of ``I_x(a, 1/2)`` by DiDonato & Morris (doi:10.1145/131766.131776).

    Its convergents by recurrence; they converge fast where ``lacking = a - (a + 1/2) x`` is above
    0.
    """
    above, below = (0.0, 1.0), (1.0, a / (a + 1) * (lacking + 1))
    value = 0.0
    for m in range(1, 10_000):
        wide = a + 2 * m - 1
        link = (a + m - 1) * (a + m - 0.5) / (wide * wide) * m * (0.5 - m) * x * x
        term = (
            m
            + m * (0.5 - m) * x / (a + 2 * m - 1)
            + (a + m) / (a + 2 * m + 1) * (lacking + 1 + m * (2 - x))
        )
        above = above[1], term * above[1] + link * above[0]
        below = below[1], term * below[1] + link * below[0]
        last, value = value, above[1] / below[1]
        if abs(value - last) <= 1e-16 * abs(value):
            break
        # Only their ratio counts; unscaled they would grow past the largest double.
        above = above[0] / below[1], above[1] / below[1]
        below = below[0] / below[1], 1.0
    return value


def _within(t: float, degrees: int) -> float:
    """P(abs(T) < t), in closed form."""
    tangent = t / math.sqrt(degrees)
    secant = math.sqrt(1 + tangent * tangent)
    sine, cosine = tangent / secant, 1 / secant
    square = cosine * cosine
    odd = degrees % 2
    term = total = cosine if odd else 1.0
    for k in range(2 + odd, degrees - 1, 2):
        term *= square * (k - 1) / k
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (atan(tangent) + sine * total * (degrees > 1))


def root_of_quotient(above: int, below: int) -> float:
    """``sqrt(above / below)`` of whole numbers of any size; inf past the largest double.

    Parameters
    ----------
    above, below : int
        At least 0, and more than 0.
    """
    if not above:
        return 0.0
    # So many bits of the quotient that its root has more than a double.
    shift = max(128 + below.bit_length() - above.bit_length(), 0) // 2 * 2
    try:
        return math.isqrt((above << shift) // below) / (1 << shift // 2)
    except OverflowError:
        return math.inf
