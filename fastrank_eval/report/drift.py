"""How far a number is from what it was on the nights before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

__all__ = ["DAYS", "LEAST_NIGHTS", "NIGHTS", "NORMAL", "drift"]

#: Nights with rows that are looked back at, of how many days, and the fewest that tell anything.
NIGHTS, DAYS, LEAST_NIGHTS = 14, 28, 5
#: Makes the median absolute deviation of a normal distribution its standard deviation.
NORMAL = 1.4826
#: Nights that hardly differ give no scale: a deviation is at least this share of the median.
_LEAST_SHARE = 0.01


def drift(value: float, earlier: Sequence[float]) -> float:
    """Distance from the median of earlier nights in scaled median absolute deviations.

    ``(value - median) / max(1.4826 MAD, 0.01 abs(median))``: one bad night among the earlier ones
    moves neither.

    Parameters
    ----------
    value : float
    earlier : sequence of float
        NaN among them is left out.

    Returns
    -------
    float
        NaN of fewer than `LEAST_NIGHTS` numbers, or where all are 0.

    References
    ----------
    Leys, Ley, Klein, Bernard & Licata (2013), doi:10.1016/j.jesp.2013.03.013.

    Examples
    --------
    >>> round(drift(130.0, [100.0, 110.0, 90.0, 100.0, 105.0, 0.0]), 2)
    2.7
    """
    known = [number for number in earlier if not math.isnan(number)]
    if len(known) < LEAST_NIGHTS or math.isnan(value):
        return math.nan
    middle = median(known)
    scale = NORMAL * median(abs(number - middle) for number in known)
    scale = max(scale, _LEAST_SHARE * abs(middle))
    return (value - middle) / scale if scale > 0 else math.nan
