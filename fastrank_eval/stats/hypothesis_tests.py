"""Test differences of models, and adjust p-values for their number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastrank_eval._lib.arguments import check_choice
from fastrank_eval._lib.elementary import exp, log, log1p
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError
from fastrank_eval.stats.intervals import normal_tail, t_tail
from fastrank_eval.stats.paired import AGREES

__all__ = [
    "CORRECTIONS",
    "PairedTest",
    "adjusted",
    "benjamini_hochberg",
    "clustered_t",
    "clustered_z",
    "group_differences",
    "holm",
    "paired_t",
    "sign_tail",
    "sign_test",
    "wilcoxon",
]


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


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjusted p-values that bound the probability of any false discovery.

    Of m p-values in ascending order, ``max over j <= i of min(1, (m - j + 1) p_(j))``. Those at
    most alpha are significant; the probability that one of them is a false discovery is at most
    alpha, however the tests depend on each other.

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
    found, given, order = _ascending(p_values)
    many = len(order)
    steps = np.minimum(given[order] * np.arange(many, 0, -1), 1.0)
    found[np.flatnonzero(~np.isnan(found))[order]] = np.maximum.accumulate(steps)
    return found


def benjamini_hochberg(p_values: np.ndarray) -> np.ndarray:
    """Adjusted p-values that bound the expected share of false discoveries.

    Of m p-values in ascending order, ``min over j >= i of min(1, m / j p_(j))``. Of those at most
    alpha, at most a share alpha is expected to be false discoveries, if tests are independent or
    positively dependent.

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
    found, given, order = _ascending(p_values)
    many = len(order)
    steps = np.minimum(given[order] * (many / np.arange(1, many + 1)), 1.0)
    least = np.minimum.accumulate(steps[::-1])[::-1]
    found[np.flatnonzero(~np.isnan(found))[order]] = least
    return found


#: Corrections by name.
CORRECTIONS = {"holm": holm, "bh": benjamini_hochberg}


def adjusted(p_values: np.ndarray, correction: str) -> np.ndarray:
    """The p-values adjusted by a correction of `CORRECTIONS`, or as they are for ``"none"``."""
    check_choice("correction", correction, ("none", *CORRECTIONS))
    if correction == "none":
        return np.array(p_values, np.float64)
    return CORRECTIONS[correction](p_values)


def _ascending(p_values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A copy to fill, those that are numbers, and their ascending order."""
    found = np.array(p_values, np.float64)
    given = found[~np.isnan(found)]
    outside = (given < 0) | (given > 1)
    if outside.any():
        raise ArgumentError(
            f"{int(outside.sum())} p-values are outside [0, 1], the first of them "
            f"{given[outside][0]:g}; pass probabilities."
        )
    return found, given, np.argsort(given, kind="stable")


#: Differences that agree to 40 bits of the largest have one rank, and vanish below half of that.
_RANK_BITS = 40
#: Up to so many groups without ties or zeros, the signed-rank test counts all patterns of signs.
_EXACT = 50


@dataclass(frozen=True, slots=True)
class PairedTest:
    """What a test says.

    Parameters
    ----------
    name : str
    statistic : float
        NaN where undefined.
    p_value : float
        Two-sided, in [0, 1]; NaN where undefined.
    groups : int
        Groups the test is based on.
    note : str or None
        Why the test is undefined or what is special: ``"no_groups"``, ``"one_group"``,
        ``"no_difference"`` (every difference is 0; tests by a standard error have no p-value, the
        others 1), ``"no_variance"`` (all differ
        by the same, other than 0), ``"undefined"`` (the difference or its error is not known).
    """

    name: str
    statistic: float
    p_value: float
    groups: int
    note: str | None = None


def group_differences(
    p_a: np.ndarray, w_a: np.ndarray, p_b: np.ndarray, w_b: np.ndarray
) -> np.ndarray:
    """Value of model b less that of model a in each group for which both are defined.

    ``p_b / w_b - p_a / w_a``; 0 where the two agree to 40 bits (`AGREES`).

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
    found = np.full(len(both), np.nan)
    a, b = p_a[both] / w_a[both], p_b[both] / w_b[both]
    found[both] = np.where(np.abs(b - a) <= AGREES * np.maximum(np.abs(a), np.abs(b)), 0.0, b - a)
    return found


def paired_t(differences: np.ndarray) -> PairedTest:
    """Student's t test of a mean difference of 0, every group counting the same.

    ``t = mean of d / (sd of d / sqrt(U))`` with U - 1 degrees of freedom.

    Parameters
    ----------
    differences : ndarray of float64, shape (groups,)
        Of `group_differences`; NaN is passed over.

    Returns
    -------
    PairedTest
        The same bits for any order of groups.

    References
    ----------
    Student (1908), doi:10.1093/biomet/6.1.1; for rankings, Smucker, Allan & Carterette (2007),
    doi:10.1145/1321440.1321528.
    """
    found = _defined(differences)
    groups = len(found)
    if groups < 2:
        return _undefined("t", groups, "one_group" if groups else "no_groups")
    mean = math.fsum(found.tolist()) / groups
    squares = math.fsum(((found - mean) ** 2).tolist())
    largest = float(np.abs(found).max())
    se = math.sqrt(squares / (groups - 1) / groups)
    # Equal differences vary by what rounding leaves.
    if se * math.sqrt(groups) <= 1e-14 * largest:
        return _without_variance("t", mean, groups)
    return PairedTest("t", mean / se, t_tail(mean / se, groups - 1), groups)


def wilcoxon(differences: np.ndarray, zeros: str = "wilcox") -> PairedTest:
    """Wilcoxon's signed-rank test: differences lie symmetrically about 0.

    The statistic is the lesser of the sums of ranks of abs(d) where d > 0 and where d < 0. Exact
    up to 50 groups without ties or zeros, otherwise by the normal approximation corrected for
    ties. Differences that agree to 40 bits of the largest are ties, so that 0.3 - 0.2 and
    0.2 - 0.1 are.

    Parameters
    ----------
    differences : ndarray of float64, shape (groups,)
        Of `group_differences`; NaN is passed over.
    zeros : {"wilcox", "pratt"}
        Whether groups of difference 0 are left out before ranking, as Wilcoxon has it, or take the
        lowest ranks and are left out then, as Pratt has it: with many of them, small differences
        weigh less against large ones.

    Returns
    -------
    PairedTest
        ``groups`` are those that differ.

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
    found = _defined(differences)
    if not len(found):
        return _undefined("wilcoxon", 0, "no_groups")
    largest = float(np.abs(found).max())
    if largest:
        found = np.rint(np.ldexp(found, _RANK_BITS - math.frexp(largest)[1]))
    groups = int(np.count_nonzero(found))
    if not groups:
        return PairedTest("wilcoxon", 0.0, 1.0, 0, "no_difference")
    sizes = np.abs(found)
    # SciPy's own choice for ties and zeros has changed between its versions.
    exact = len(sizes) <= _EXACT and sizes.all() and len(np.unique(sizes)) == len(sizes)
    method = "exact" if exact else "approx"
    said = _scipy_stats().wilcoxon(np.sort(found), zero_method=zeros, method=method)
    # SciPy's own tail of the normal distribution has other last bits on other processors.
    p_value = float(said.pvalue) if exact else normal_tail(float(said.zstatistic))
    return PairedTest("wilcoxon", float(said.statistic), min(p_value, 1.0), groups)


def sign_test(differences: np.ndarray) -> PairedTest:
    """The sign test: either model is the better one of a group with probability 1/2.

    ``min(1, 2 P(X <= min(wins, losses)))`` of a binomial X of ``wins + losses`` trials, exact;
    groups of difference 0 are passed over. The statistic is the number of wins.

    Parameters
    ----------
    differences : ndarray of float64, shape (groups,)
        Of `group_differences`; NaN is passed over.

    Returns
    -------
    PairedTest
        ``groups`` are those that differ.

    References
    ----------
    Dixon & Mood (1946), doi:10.1080/01621459.1946.10501898.
    """
    found = _defined(differences)
    wins, losses = int(np.count_nonzero(found > 0)), int(np.count_nonzero(found < 0))
    if not wins + losses:
        if len(found):
            return PairedTest("sign", 0.0, 1.0, 0, "no_difference")
        return _undefined("sign", 0, "no_groups")
    return PairedTest("sign", float(wins), sign_tail(wins, losses), wins + losses)


def clustered_z(difference: float, se: float, groups: int) -> PairedTest:
    """The z test of a difference by its clustered standard error.

    Parameters
    ----------
    difference : float
    se : float
        Of the difference, groups being clusters.
    groups : int
        Clusters behind it.

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
        Of the difference, groups being clusters.
    groups : int
        Clusters behind it.
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
