"""Test differences of models, adjust p-values and compute power."""

from __future__ import annotations

import math

import numpy as np

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import erfc, exp, inverse_normal, log, log1p
from fastrank_eval.stats.intervals import normal_tail, t_quantile, t_tail
from fastrank_eval.stats.means import EQUAL_WITHIN

#: Up to this many tosses the tail is computed in integers.
_EXACT_TOSSES = 1000


def sign_tail(wins: int, losses: int) -> float:
    """Compute the two-sided p-value of the sign test.

    ``min(1, 2 P(X <= min(wins, losses)))`` of a binomial X with ``wins + losses`` trials and
    probability 1/2.

    Parameters
    ----------
    wins, losses : int
        At least 0.

    Returns
    -------
    float
        The relative error is at most 1e-11; 0 below the smallest double.

    References
    ----------
    Loader (2000), Fast and accurate computation of binomial probabilities.
    """
    tosses, fewer = wins + losses, min(wins, losses)
    if wins == losses:
        return 1.0
    if tosses <= _EXACT_TOSSES:
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
    """Compute log(``C(n, k) / 2^n``) by errors of Stirling's formula."""
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
    """Compute ``log n! - log(sqrt(2 pi n) (n / e)^n)``."""
    if n < 32:
        return log(math.factorial(n)) - (n + 0.5) * log(n) + n - log(2 * math.pi) / 2
    s = 1 / (n * n)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - s / 1188) * s) * s) * s) / n


def maximum_exceeds(x: float) -> float:
    """Compute P(max of abs(Brownian motion) on [0, 1] > `x`).

    Parameters
    ----------
    x : float
        At least 0.

    Returns
    -------
    float
        In [0, 1]. The error is at most 1e-12, or relative 1e-9 in the upper tail.

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
    """Compute P(range of Brownian motion on [0, 1] > `x`).

    Parameters
    ----------
    x : float
        At least 0.

    Returns
    -------
    float
        In [0, 1]. The error is at most 1e-12, or relative 1e-9 in the upper tail.

    References
    ----------
    Feller (1951), doi:10.1214/aoms/1177729589.
    """
    if x <= 0:
        return 1.0
    total = 0.0
    for k in range(50):
        root = (k + 0.5) * math.pi
        a = root * root
        if x < 2.0:
            term = (8.0 / (x * x) + 2.0 / a) * exp(-2.0 * a / (x * x))
        else:
            term = 8.0 * (-1) ** k * (k + 1) * _above((k + 1) * x)
        total += term
        # Terms shrink faster than powers: the rest changes no bit.
        if abs(term) <= 1e-20 * total:
            break
    return _share(1.0 - total if x < 2.0 else total)


def _above(x: float) -> float:
    """Compute the probability that a standard normal variable exceeds `x`."""
    return 0.5 * erfc(x / math.sqrt(2.0))


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjust p-values to bound the probability of any false discovery.

    Of m p-values in ascending order, ``max over j <= i of min(1, (m - j + 1) p_(j))``. Those of at
    most alpha are significant. The probability that one of them is a false discovery is at most
    alpha, for any dependence of the tests.

    Parameters
    ----------
    p_values : ndarray of float64, shape (comparisons,)
        In [0, 1]; NaN stays NaN and is no comparison.

    Returns
    -------
    ndarray of float64, shape (comparisons,)

    References
    ----------
    Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6, 65-70.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03, 0.005])).tolist()
    [0.03, 0.06, 0.06, 0.02]
    """
    adjusted, order = _ascending(p_values)
    steps = np.minimum(adjusted[order] * np.arange(len(order), 0, -1), 1.0)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted


def benjamini_hochberg(p_values: np.ndarray) -> np.ndarray:
    """Adjust p-values to bound the expected share of false discoveries.

    Of m p-values in ascending order, ``min over j >= i of m / j p_(j)``. Among those of at
    most alpha the expected share of false discoveries is at most alpha, if the tests are
    independent or positively dependent.

    Parameters
    ----------
    p_values : ndarray of float64, shape (comparisons,)
        In [0, 1]; NaN stays NaN and is no comparison.

    Returns
    -------
    ndarray of float64, shape (comparisons,)

    References
    ----------
    Benjamini & Hochberg (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03, 0.005])).round(12).tolist()
    [0.02, 0.04, 0.04, 0.02]
    """
    adjusted, order = _ascending(p_values)
    count = len(order)
    steps = adjusted[order] * (count / np.arange(1, count + 1))  # the last is at most 1
    adjusted[order] = np.minimum.accumulate(steps[::-1])[::-1]
    return adjusted


#: Corrections by name.
CORRECTIONS = {"holm": holm, "bh": benjamini_hochberg}


def adjust_p_values(p_values: np.ndarray, correction: str) -> np.ndarray:
    """Adjust p-values by a name in `CORRECTIONS`; ``"none"`` copies them."""
    if correction == "none":
        return np.array(p_values, np.float64)
    return CORRECTIONS[correction](p_values)


def _ascending(p_values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a copy, and the indices of values other than NaN, ascending."""
    adjusted = np.array(p_values, np.float64)
    defined = np.flatnonzero(~np.isnan(adjusted))
    valid = adjusted[defined]
    return adjusted, defined[np.argsort(valid, kind="stable")]


#: Differences that agree to this many bits of the largest share a rank; smaller ones are 0.
_RANK_BITS = 40
#: Up to this many groups that differ, the signed-rank test is exact.
_EXACT_GROUPS = 50


@dataclass(frozen=True)
class PairedTest:
    """The outcome of a test.

    Parameters
    ----------
    statistic : float
        NaN if undefined.
    p_value : float
        Two-sided, in [0, 1]; NaN if undefined.
    groups : int
        Groups in the test.
    note : str or None
        A special case: ``"no_groups"``, ``"one_group"``, ``"no_difference"`` (every difference is
        0; the p-value is 1), ``"no_variance"`` (all differences are equal, but not 0: a test by a
        standard error has no p-value), ``"undefined"`` (the difference or its error is NaN).
    interval : tuple of float, optional
        Standard error and ends of the interval, if the test has its own.
    """

    statistic: float
    p_value: float
    groups: int
    note: str | None = None
    interval: tuple[float, float, float] | None = None


def group_differences(
    p_a: np.ndarray, w_a: np.ndarray, p_b: np.ndarray, w_b: np.ndarray
) -> np.ndarray:
    """Subtract the values of model a from those of model b, group by group.

    ``p_b / w_b - p_a / w_a``; 0 where the two agree to 40 bits (`EQUAL_WITHIN`).

    Parameters
    ----------
    p_a, p_b : ndarray of float64, shape (groups,)
        Weighted values; 0 where undefined.
    w_a, w_b : ndarray of float64, shape (groups,)
        Weights, at least 0; 0 where undefined.

    Returns
    -------
    ndarray of float64, shape (groups,)
        NaN where a weight is 0.
    """
    both = (w_a != 0) & (w_b != 0)
    values = np.full(len(both), np.nan)
    a, b = p_a[both] / w_a[both], p_b[both] / w_b[both]
    values[both] = np.where(
        np.abs(b - a) <= EQUAL_WITHIN * np.maximum(np.abs(a), np.abs(b)), 0.0, b - a
    )
    return values


def paired_t(differences: np.ndarray) -> PairedTest:
    """Test a mean difference of 0 by Student's t, groups weighted equally.

    ``t = mean of d / (sd of d / sqrt(U))`` with U - 1 degrees of freedom.

    Parameters
    ----------
    differences : ndarray of float64, shape (groups,)
        Of `group_differences`; NaN is skipped.

    Returns
    -------
    PairedTest
        The same bits for any order of groups.

    References
    ----------
    Student (1908), doi:10.1093/biomet/6.1.1; for rankings, Smucker, Allan & Carterette (2007),
    doi:10.1145/1321440.1321528.
    """
    values = _defined(differences)
    groups = len(values)
    if groups < 2:
        return _too_few(groups)
    mean = math.fsum(values.tolist()) / groups
    squares = math.fsum(((values - mean) ** 2).tolist())
    largest = float(np.abs(values).max())
    se = math.sqrt(squares / (groups - 1) / groups)
    # Equal differences vary by rounding alone.
    if se * math.sqrt(groups) <= 1e-14 * largest:
        return _without_variance(mean, groups)
    return PairedTest(mean / se, t_tail(mean / se, groups - 1), groups)


def wilcoxon(differences: np.ndarray) -> PairedTest:
    """Test that differences are symmetric about 0 by Wilcoxon's signed ranks.

    The statistic is the smaller of the sums of ranks of abs(d) where d > 0 and where d < 0. Groups
    of difference 0 are left out. Ties share the mean of their ranks. Up to 50 groups that differ,
    the p-value is exact, with ties too: it is the share of all changes of signs whose smaller sum
    is at most as large. Above, it uses the normal approximation with a correction for ties.
    Differences that agree to 40 bits of the largest are ties, such as 0.3 - 0.2 and 0.2 - 0.1.

    Parameters
    ----------
    differences : ndarray of float64, shape (groups,)
        Of `group_differences`; NaN is skipped.

    Returns
    -------
    PairedTest
        ``groups`` counts those that differ.

    References
    ----------
    Wilcoxon (1945), doi:10.2307/3001968; with ties, Streitberg & Roehmel (1986), Exact
    distributions for permutation and rank tests, Statistical Software Newsletter 12, 10-17.

    Examples
    --------
    >>> wilcoxon(np.full(4, 0.5)).p_value
    0.125
    """
    values = _defined(differences)
    if not len(values):
        return _too_few(0)
    largest = float(np.abs(values).max())
    if largest:
        values = np.rint(np.ldexp(values, _RANK_BITS - math.frexp(largest)[1]))
    values = values[values != 0]
    groups = len(values)
    if not groups:
        return PairedTest(0.0, 1.0, 0, "no_difference")
    _, indices, ties = np.unique(np.abs(values), return_inverse=True, return_counts=True)
    # Twice the mean rank of ties is a whole number.
    ranks = (2 * np.cumsum(ties) - ties + 1)[indices]
    above, whole = int(ranks[values > 0].sum()), groups * (groups + 1)
    smaller = min(above, whole - above)
    if groups <= _EXACT_GROUPS:
        p_value = _rank_sum_tail(ranks, smaller)
    else:
        sizes = ties.astype(np.float64)
        variance = whole * (2 * groups + 1) - float((sizes**3 - sizes).sum()) / 2
        p_value = normal_tail((smaller - whole / 2) / 2 / math.sqrt(variance / 24))
    return PairedTest(smaller / 2, min(p_value, 1.0), groups)


def _rank_sum_tail(ranks: np.ndarray, smaller: int) -> float:
    """Compute 2 P(S <= `smaller`): S has each rank with probability 1/2."""
    ways = np.zeros(smaller + 1, np.int64)
    ways[0] = 1
    for rank in ranks[ranks <= smaller].tolist():
        ways[rank:] += ways[: len(ways) - rank].copy()
    return math.ldexp(int(ways.sum()), 1 - len(ranks))


def sign_test(differences: np.ndarray) -> PairedTest:
    """Test that each model is better in a group with probability 1/2.

    ``min(1, 2 P(X <= min(wins, losses)))`` of a binomial X of ``wins + losses`` trials, exact.
    Groups of difference 0 are skipped. The statistic is the number of wins.

    Parameters
    ----------
    differences : ndarray of float64, shape (groups,)
        Of `group_differences`; NaN is skipped.

    Returns
    -------
    PairedTest
        ``groups`` counts those that differ.

    References
    ----------
    Dixon & Mood (1946), doi:10.1080/01621459.1946.10501898.
    """
    values = _defined(differences)
    wins, losses = int(np.count_nonzero(values > 0)), int(np.count_nonzero(values < 0))
    if not wins + losses:
        if len(values):
            return PairedTest(0.0, 1.0, 0, "no_difference")
        return _too_few(0)
    return PairedTest(float(wins), sign_tail(wins, losses), wins + losses)


def clustered_test(difference: float, se: float, groups: int, degrees: float | None) -> PairedTest:
    """Test a difference by its clustered standard error.

    Parameters
    ----------
    difference : float
    se : float
        Of the difference, with groups as clusters.
    groups : int
        Number of clusters.
    degrees : float or None
        Degrees of freedom of `se`, for Student's t; None for the normal distribution.

    Returns
    -------
    PairedTest

    References
    ----------
    Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
    """
    if groups < 2:
        return _too_few(groups)
    if math.isnan(difference) or math.isnan(se):
        return PairedTest(math.nan, math.nan, groups, "undefined")
    if not se:
        return _without_variance(difference, groups)
    statistic = difference / se
    p_value = normal_tail(statistic) if degrees is None else t_tail(statistic, degrees)
    return PairedTest(statistic, p_value, groups)


def _too_few(groups: int) -> PairedTest:
    return PairedTest(math.nan, math.nan, groups, "one_group" if groups else "no_groups")


def _without_variance(difference: float, groups: int) -> PairedTest:
    if not difference:
        return PairedTest(0.0, 1.0, groups, "no_difference")
    return PairedTest(math.nan, math.nan, groups, "no_variance")


def _defined(differences: np.ndarray) -> np.ndarray:
    differences = np.asarray(differences, np.float64)
    return differences[~np.isnan(differences)]


def minimum_detectable_difference(
    se: float, *, alpha: float = 0.05, power: float = 0.8, degrees: float | None = None
) -> float:
    """Compute the true difference that a two-sided test detects.

    The test at level `alpha` detects it with probability `power`. It is
    ``(q(1 - alpha / 2) + q(power)) se`` with quantiles q of Student's t or of the normal
    distribution. With t this approximates the noncentral t distribution by a shifted one.

    Parameters
    ----------
    se : float
        Standard error of the difference, at least 0.
    alpha, power : float
        In ]0, 1[.
    degrees : float, optional
        Degrees of freedom, at least 1; None for the normal distribution.

    Returns
    -------
    float
        NaN if `se` is NaN.

    References
    ----------
    Bloom (1995), Minimum detectable effects, doi:10.1177/0193841X9501900504.

    Examples
    --------
    >>> round(minimum_detectable_difference(0.01), 4)
    0.028
    """
    return _quantile_sum(alpha, power, degrees) * se


def _quantile_sum(alpha: float, power: float, degrees: float | None) -> float:
    if degrees is None:
        return inverse_normal(power) - inverse_normal(alpha / 2)
    # The quantile of `power`, from the symmetric quantile about 0.
    beyond = t_quantile(abs(2 * power - 1), degrees)
    return t_quantile(1 - alpha, degrees) + math.copysign(beyond, power - 0.5)
