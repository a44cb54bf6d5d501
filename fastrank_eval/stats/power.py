"""Compute effect sizes, detectable differences and sample sizes."""

from __future__ import annotations

import math

import numpy as np

from fastrank_eval._lib.arguments import check_fraction
from fastrank_eval._lib.elementary import inverse_normal
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.stats.intervals import t_quantile

__all__ = ["effect_size", "groups_needed", "minimum_detectable_difference"]


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
