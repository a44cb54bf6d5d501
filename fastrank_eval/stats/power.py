"""How large a difference is beside its noise, and how large it must be to be found."""

from __future__ import annotations

import math

import numpy as np

from fastrank_eval._lib.arguments import check_fraction
from fastrank_eval._lib.elementary import inverse_normal
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.stats.intervals import t_quantile

__all__ = ["effect_size", "groups_needed", "minimum_detectable_difference"]


def effect_size(differences: np.ndarray) -> float:
    """Cohen's d_z: the mean difference in units of the differences' standard deviation.

    ``mean of d / sd of d``. The paired t statistic of U groups is ``sqrt(U) d_z``: unlike it, the
    effect size does not grow with the number of groups.

    Parameters
    ----------
    differences : ndarray of float64, shape (groups,)
        Of `paired_tests.group_differences`; NaN is passed over.

    Returns
    -------
    float
        NaN below two groups, and where differences are all the same.

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
    # What rounding alone makes differ is the same.
    if deviation <= 1e-14 * float(np.abs(differences).max()):
        return math.nan
    return mean / deviation


def minimum_detectable_difference(
    se: float, *, alpha: float = 0.05, power: float = 0.8, degrees: float | None = None
) -> float:
    """The true difference that a two-sided test at level `alpha` finds with probability `power`.

    ``(q(1 - alpha / 2) + q(power)) se`` of quantiles q of Student's t, or of the normal
    distribution. With t this takes the noncentral t distribution for a shifted one.

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
        NaN where `se` is.

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
    return _reach(alpha, power, degrees) * se


def groups_needed(
    difference: float,
    se: float,
    groups: int,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    clustered: bool = True,
) -> int | None:
    """How many groups like these a test needs to find a difference with probability `power`.

    The least U with ``(q(1 - alpha / 2) + q(power)) se sqrt(groups / U) <= |difference|``: a
    standard error falls with the root of the number of groups.

    Parameters
    ----------
    difference : float
        The true difference to be found.
    se : float
        Standard error that `groups` groups gave.
    groups : int
        At least 2.
    alpha, power : float
        In ]0, 1[.
    clustered : bool
        Whether quantiles are of Student's t with U - 1 degrees of freedom, as the clustered t test
        has them; otherwise normal.

    Returns
    -------
    int or None
        At least 2; None where there is no such number: the difference is 0, or unknown.

    Raises
    ------
    ArgumentError
        If an argument is out of range.
    """
    if groups < 2 or se < 0:
        raise ArgumentError(f"se={se!r} of {groups} groups is no standard error of two or more.")
    if math.isnan(difference) or math.isnan(se) or not difference:
        return None
    ratio = groups * (se / difference) * (se / difference)

    def enough(many: int) -> bool:
        reach = _reach(alpha, power, many - 1 if clustered else None)
        return many >= ratio * (reach * reach)

    wanted = ratio * (_reach(alpha, power, None) * _reach(alpha, power, None))
    if not math.isfinite(wanted):
        return None
    # Quantiles of t are above the normal ones and fall: the normal answer is the least it can be.
    low = max(math.ceil(wanted), 2)
    if enough(low):
        return low
    high = 2 * low
    while not enough(high):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _reach(alpha: float, power: float, degrees: float | None) -> float:
    alpha, power = check_fraction("alpha", alpha), check_fraction("power", power)
    if degrees is None:
        return inverse_normal(power) - inverse_normal(alpha / 2)
    if degrees < 1:
        raise ArgumentError(f"degrees={degrees!r} of freedom; a test has at least 1.")
    # The t below which T lies with probability `power`, from that about 0.
    beyond = t_quantile(abs(2 * power - 1), degrees) if power != 0.5 else 0.0
    return t_quantile(1 - alpha, degrees) + math.copysign(beyond, power - 0.5)
