"""Test differences of models, adjust p-values for multiple tests, and compute power."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastrank_eval._lib.arguments import check_choice, check_fraction
from fastrank_eval._lib.elementary import exp, inverse_normal, log, log1p
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError
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
    adjusted, valid, order = _ascending(p_values)
    count = len(order)
    steps = np.minimum(valid[order] * np.arange(count, 0, -1), 1.0)
    adjusted[np.flatnonzero(~np.isnan(adjusted))[order]] = np.maximum.accumulate(steps)
    return adjusted


def benjamini_hochberg(p_values: np.ndarray) -> np.ndarray:
    """Adjust p-values to bound the expected share of false discoveries.

    Of m p-values in ascending order, ``min over j >= i of min(1, m / j p_(j))``. Among those of at
    most alpha the expected share of false discoveries is at most alpha, if the tests are
    independent or positively dependent.

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
    adjusted, valid, order = _ascending(p_values)
    count = len(order)
    steps = np.minimum(valid[order] * (count / np.arange(1, count + 1)), 1.0)
    least = np.minimum.accumulate(steps[::-1])[::-1]
    adjusted[np.flatnonzero(~np.isnan(adjusted))[order]] = least
    return adjusted


#: Corrections by name.
CORRECTIONS = {"holm": holm, "bh": benjamini_hochberg}


def adjust_p_values(p_values: np.ndarray, correction: str) -> np.ndarray:
    """Adjust p-values by a name in `CORRECTIONS`; ``"none"`` copies them."""
    check_choice("correction", correction, ("none", *CORRECTIONS))
    if correction == "none":
        return np.array(p_values, np.float64)
    return CORRECTIONS[correction](p_values)


def _ascending(p_values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a copy, the values without NaN, and their ascending order."""
    adjusted = np.array(p_values, np.float64)
    valid = adjusted[~np.isnan(adjusted)]
    outside = (valid < 0) | (valid > 1)
    if outside.any():
        raise ArgumentError(
            f"{int(outside.sum())} p-values are outside [0, 1], the first of them "
            f"{valid[outside][0]:g}; pass probabilities."
        )
    return adjusted, valid, np.argsort(valid, kind="stable")


#: Differences that agree to this many bits of the largest share a rank; smaller ones are 0.
_RANK_BITS = 40
#: Up to this many groups without ties or zeros, the signed-rank test is exact.
_EXACT_GROUPS = 50


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The outcome of a test.

    Parameters
    ----------
    name : str
    statistic : float
        NaN if undefined.
    p_value : float
        Two-sided, in [0, 1]; NaN if undefined.
    groups : int
        Groups in the test.
    note : str or None
        A special case: ``"no_groups"``, ``"one_group"``, ``"no_difference"`` (every difference is
        0; the p-value is 1, or NaN for tests by a standard error), ``"no_variance"`` (all
        differences are equal, but not 0), ``"undefined"`` (the difference or its error is NaN).
    """

    name: str
    statistic: float
    p_value: float
    groups: int
    note: str | None = None


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
        return _undefined("t", groups, "one_group" if groups else "no_groups")
    mean = math.fsum(values.tolist()) / groups
    squares = math.fsum(((values - mean) ** 2).tolist())
    largest = float(np.abs(values).max())
    se = math.sqrt(squares / (groups - 1) / groups)
    # Equal differences vary by rounding alone.
    if se * math.sqrt(groups) <= 1e-14 * largest:
        return _without_variance("t", mean, groups)
    return PairedTest("t", mean / se, t_tail(mean / se, groups - 1), groups)


def wilcoxon(differences: np.ndarray, zeros: str = "wilcox") -> PairedTest:
    """Test that differences are symmetric about 0 by Wilcoxon's signed ranks.

    The statistic is the smaller of the sums of ranks of abs(d) where d > 0 and where d < 0. It is
    exact up to 50 groups without ties or zeros. Otherwise it uses the normal approximation with a
    correction for ties. Differences that agree to 40 bits of the largest are ties, such as
    0.3 - 0.2 and 0.2 - 0.1.

    Parameters
    ----------
    differences : ndarray of float64, shape (groups,)
        Of `group_differences`; NaN is skipped.
    zeros : {"wilcox", "pratt"}
        Whether groups of difference 0 are left out before ranking (Wilcoxon), or after they took
        the lowest ranks (Pratt). With many of them, Pratt's small differences weigh less against
        large ones.

    Returns
    -------
    PairedTest
        ``groups`` counts those that differ.

    Raises
    ------
    ArgumentError
        If `zeros` is neither.
    FastRankEvalError
        If SciPy is not installed (extra ``[stats]``).

    References
    ----------
    Wilcoxon (1945), doi:10.2307/3001968; Pratt (1959), doi:10.1080/01621459.1959.10501526.
    """
    check_choice("zeros", zeros, ("wilcox", "pratt"))
    values = _defined(differences)
    if not len(values):
        return _undefined("wilcoxon", 0, "no_groups")
    largest = float(np.abs(values).max())
    if largest:
        values = np.rint(np.ldexp(values, _RANK_BITS - math.frexp(largest)[1]))
    groups = int(np.count_nonzero(values))
    if not groups:
        return PairedTest("wilcoxon", 0.0, 1.0, 0, "no_difference")
    sizes = np.abs(values)
    # SciPy's default for ties and zeros changed between versions.
    exact = len(sizes) <= _EXACT_GROUPS and sizes.all() and len(np.unique(sizes)) == len(sizes)
    method = "exact" if exact else "approx"
    outcome = _scipy_stats().wilcoxon(np.sort(values), zero_method=zeros, method=method)
    # The last bits of SciPy's normal tail depend on the processor.
    p_value = float(outcome.pvalue) if exact else normal_tail(float(outcome.zstatistic))
    return PairedTest("wilcoxon", float(outcome.statistic), min(p_value, 1.0), groups)


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
            return PairedTest("sign", 0.0, 1.0, 0, "no_difference")
        return _undefined("sign", 0, "no_groups")
    return PairedTest("sign", float(wins), sign_tail(wins, losses), wins + losses)


def clustered_z(difference: float, se: float, groups: int) -> PairedTest:
    """Test a difference by its clustered standard error and the normal z.

    Parameters
    ----------
    difference : float
    se : float
        Of the difference, with groups as clusters.
    groups : int
        Number of clusters.

    Returns
    -------
    PairedTest

    References
    ----------
    Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
    """
    return _clustered("z", difference, se, groups)


def clustered_t(
    difference: float, se: float, groups: int, degrees: float | None = None
) -> PairedTest:
    """Test a difference by its clustered standard error and Student's t.

    Parameters
    ----------
    difference : float
    se : float
        Of the difference, with groups as clusters.
    groups : int
        Number of clusters.
    degrees : float, optional
        Degrees of freedom of `se`; by default ``groups - 1``.

    Returns
    -------
    PairedTest
    """
    return _clustered("t_clustered", difference, se, groups, degrees)


def _clustered(
    name: str, difference: float, se: float, groups: int, degrees: float | None = None
) -> PairedTest:
    if se < 0:
        raise ArgumentError(f"se={se!r} is below 0; pass a standard error.")
    if groups < 2:
        return _undefined(name, groups, "one_group" if groups else "no_groups")
    if math.isnan(difference) or math.isnan(se):
        return _undefined(name, groups, "undefined")
    if not se:
        return _without_variance(name, difference, groups)
    statistic = difference / se
    if name == "z":
        p_value = normal_tail(statistic)
    else:
        p_value = t_tail(statistic, groups - 1 if degrees is None else degrees)
    return PairedTest(name, statistic, p_value, groups)


def _undefined(name: str, groups: int, note: str) -> PairedTest:
    return PairedTest(name, math.nan, math.nan, groups, note)


def _without_variance(name: str, difference: float, groups: int) -> PairedTest:
    return _undefined(name, groups, "no_variance" if difference else "no_difference")


def _defined(differences: np.ndarray) -> np.ndarray:
    differences = np.asarray(differences, np.float64)
    if np.isinf(differences).any():
        raise ArgumentError(
            f"differences are infinite for {int(np.isinf(differences).sum())} groups, the first "
            f"of them {int(np.argmax(np.isinf(differences)))}; pass finite ones, or NaN."
        )
    return differences[~np.isnan(differences)]


def _scipy_stats() -> Any:
    try:
        from scipy import stats
    except ImportError:
        raise FastRankEvalError(
            "the Wilcoxon test needs SciPy, which is not installed; run "
            "pip install 'fastrank_eval[stats]', or choose another test."
        ) from None
    return stats


def effect_size(differences: np.ndarray) -> float:
    """Compute Cohen's d_z: the mean difference over the standard deviation.

    ``mean of d / sd of d``. The paired t statistic of U groups is ``sqrt(U) d_z``. The effect size
    does not grow with the number of groups.

    Parameters
    ----------
    differences : ndarray of float64, shape (groups,)
        Of `group_differences`; NaN is skipped.

    Returns
    -------
    float
        NaN below two groups, and if all differences are equal.

    References
    ----------
    Cohen (1988), Statistical power analysis for the behavioral sciences, 2.3.5.
    """
    differences = np.asarray(differences, np.float64)
    differences = differences[~np.isnan(differences)]
    if len(differences) < 2:
        return math.nan
    mean = math.fsum(differences.tolist()) / len(differences)
    squares = math.fsum(((differences - mean) ** 2).tolist())
    deviation = math.sqrt(squares / (len(differences) - 1))
    # Differences that vary by rounding alone count as equal.
    if deviation <= 1e-14 * float(np.abs(differences).max()):
        return math.nan
    return mean / deviation


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

    Raises
    ------
    ArgumentError
        If an argument is out of range.

    References
    ----------
    Bloom (1995), Minimum detectable effects, doi:10.1177/0193841X9501900504.

    Examples
    --------
    >>> round(minimum_detectable_difference(0.01), 4)
    0.028
    """
    if se < 0:
        raise ArgumentError(f"se={se!r} is below 0; pass a standard error.")
    return _quantile_sum(alpha, power, degrees) * se


def groups_needed(
    difference: float,
    se: float,
    groups: int,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    clustered: bool = True,
) -> int | None:
    """Compute how many groups a test needs to detect a difference.

    The test detects it with probability `power`. The number is the least U with
    ``(q(1 - alpha / 2) + q(power)) se sqrt(groups / U) <= |difference|``: a standard error falls
    with the root of the number of groups.

    Parameters
    ----------
    difference : float
        The true difference.
    se : float
        Standard error with `groups` groups.
    groups : int
        At least 2.
    alpha, power : float
        In ]0, 1[.
    clustered : bool
        Whether to use quantiles of Student's t with U - 1 degrees of freedom, as the clustered t
        test does. Otherwise they are normal.

    Returns
    -------
    int or None
        At least 2; None if there is no such number, because the difference is 0 or NaN.

    Raises
    ------
    ArgumentError
        If an argument is out of range.
    """
    if groups < 2 or se < 0:
        raise ArgumentError(
            f"se, groups: must be at least 0 and at least 2, got se={se!r} "
            f"and groups={groups!r}; pass those of one evaluation."
        )
    if math.isnan(difference) or math.isnan(se) or not difference:
        return None
    ratio = groups * (se / difference) * (se / difference)

    def enough(many: int) -> bool:
        quantiles = _quantile_sum(alpha, power, many - 1 if clustered else None)
        return many >= ratio * (quantiles * quantiles)

    least = ratio * (_quantile_sum(alpha, power, None) * _quantile_sum(alpha, power, None))
    if not math.isfinite(least):
        return None
    # Quantiles of t decrease towards the normal ones: the normal answer is a lower bound.
    low = max(math.ceil(least), 2)
    if enough(low):
        return low
    high = 2 * low
    while not enough(high):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _quantile_sum(alpha: float, power: float, degrees: float | None) -> float:
    alpha, power = check_fraction("alpha", alpha), check_fraction("power", power)
    if degrees is None:
        return inverse_normal(power) - inverse_normal(alpha / 2)
    if degrees < 1:
        raise ArgumentError(
            f"degrees: must be at least 1, got {degrees!r}; pass the degrees of freedom of `se`."
        )
    # The quantile of `power`, from the symmetric quantile about 0.
    beyond = t_quantile(abs(2 * power - 1), degrees) if power != 0.5 else 0.0
    return t_quantile(1 - alpha, degrees) + math.copysign(beyond, power - 0.5)
