"""Sums over groups -> standard errors and confidence intervals, groups being independent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

#: Under this effective number of groups a line says so.
FEW_GROUPS = 30
#: From this many degrees of freedom on, the expansion of Student's t is exact to the last digits.
_MANY = 1000
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
    """

    groups: int
    values: int
    weights: int
    squares: int
    products: int | None
    squared_weights: int | None
    unit: int

    @property
    def effective_groups(self) -> float:
        """``(sum of w)^2 / sum of w^2``: groups of equal weight that would tell as much."""
        if self.squared_weights is None:
            return float(self.groups)
        below = self.squared_weights
        return self.weights**2 / below if below else 0.0

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


def around(
    value: float, se: float, groups: int, confidence: float, effective_groups: float
) -> Uncertainty:
    """The interval of Student's t with ``groups - 1`` degrees of freedom about a value.

    Its ends may lie outside the range of the measure: nothing is cut off.

    Parameters
    ----------
    value, se : float
    groups : int
        Independent clusters behind the value.
    confidence : float
        In ]0, 1[.
    effective_groups : float
    """
    if groups < 2:
        caution = "one_group" if groups else None
        return Uncertainty(effective_groups=effective_groups, caution=caution)
    if math.isnan(se):
        return Uncertainty(effective_groups=effective_groups)
    reach = t_quantile(confidence, groups - 1) * se
    caution = "few_groups" if effective_groups < FEW_GROUPS else None
    return Uncertainty(se, value - reach, value + reach, effective_groups, caution)


def of_geometric_mean(logs: Uncertainty, mean: float) -> Uncertainty:
    """The uncertainty of ``exp(mean)`` from that of a mean of logarithms.

    The standard error is ``exp(mean) * se`` (delta method); the ends of the interval are
    the exponentials of those of the mean, so it is not symmetric and never below zero; inf past the
    largest double.
    """
    return Uncertainty(
        math.exp(mean) * logs.se,
        _exp(logs.low),
        _exp(logs.high),
        logs.effective_groups,
        logs.caution,
    )


def normal_quantile(confidence: float) -> float:
    """The z for which P(abs(Z) < z) is `confidence`, in ]0, 1[, Z being standard normal."""
    # Of the double before 1 the half of the sum is rounded to 1.
    return NormalDist().inv_cdf(min((1 + confidence) / 2, math.nextafter(1.0, 0.0)))


@lru_cache(maxsize=4096)
def t_quantile(confidence: float, degrees: int) -> float:
    """The t for which P(abs(T) < t) is `confidence`, T being Student's.

    Parameters
    ----------
    confidence : float
        In ]0, 1[.
    degrees : int
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
            + ((5 * s + 16) * s + 3) / (96 * n**2)
            + (((3 * s + 19) * s + 17) * s - 15) / (384 * n**3)
            + ((((79 * s + 776) * s + 1482) * s - 1920) * s - 945) / (92160 * n**4)
        )
    # The probability is concave in t and the start too small: Newton's steps never go too far.
    log_density = math.lgamma((n + 1) / 2) - math.lgamma(n / 2) - math.log(n * math.pi) / 2
    t = x
    for _ in range(200):
        density = 2 * math.exp(log_density - (n + 1) / 2 * math.log1p(t * t / n))
        step = (confidence - _within(t, degrees)) / density
        t += step
        if step <= 1e-15 * t:
            break
    return t


def t_tail(t: float, degrees: int) -> float:
    """P(abs(T) >= abs(t)), T being Student's: the two-sided p-value of a t statistic.

    The regularised incomplete beta function ``I_x(degrees / 2, 1 / 2)`` at
    ``x = degrees / (degrees + t^2)``, by a continued fraction; about 0 by the series of the
    rest. Good to a relative 1e-11 down to 1e-300.

    Parameters
    ----------
    t : float
        Infinite ones have probability 0.
    degrees : int
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
    log_rest = 2 * math.log(u) if far else math.log1p(u * u)
    density = math.exp(-n / 2 * log_rest) * math.sqrt(share / math.pi) * _gamma_step(n / 2)
    if t * t < 2:
        return 1 - density * _fraction_within(n, share)
    # What x lacks to the turning point of the distribution, without the rounding of x.
    lacking = n / 2 if far else n / 2 * (t * t - 1) / (n + t * t)
    return density * _fraction_beyond(n / 2, math.exp(-log_rest), lacking)


def normal_tail(z: float) -> float:
    """P(abs(Z) >= abs(z)), Z being standard normal: the two-sided p-value of a z statistic."""
    return math.erfc(abs(z) / math.sqrt(2))


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
        link = (a + m - 1) * (a + m - 0.5) / (a + 2 * m - 1) ** 2 * m * (0.5 - m) * x * x
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
    angle = math.atan(t / math.sqrt(degrees))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = degrees % 2
    term = total = math.cos(angle) if odd else 1.0
    for k in range(2 + odd, degrees - 1, 2):
        term *= square * (k - 1) / k
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + sine * total * (degrees > 1))


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


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
