"""RelaImpr: how much more of what a random order lacks one model gives than another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fastrank_eval.errors import ArgumentError, MeasureError
from fastrank_eval.typed_arguments import typed

if TYPE_CHECKING:
    from fastrank_eval.measures import Measure

__all__ = [
    "CHANCE",
    "error_of_rela_impr",
    "has_chance",
    "refuse_without_chance",
    "rela_impr",
    "slopes_of_rela_impr",
]

#: What a random order is worth.
CHANCE = 0.5


@typed
def rela_impr(value: float, base: float) -> float:
    """Relative improvement of an AUC or GAUC over that of a base model, chance taken off both.

    ``(value - 0.5) / (base - 0.5) - 1``

    Parameters
    ----------
    value : float
        AUC or GAUC of a model, in [0, 1]; NaN where undefined.
    base : float
        The same of the base model.

    Returns
    -------
    float
        A share: 0.05 is five per cent. NaN where a value is undefined or the base model is no
        better than chance, so that there is nothing to improve on.

    Raises
    ------
    ArgumentError
        If a value lies outside [0, 1].

    References
    ----------
    Yan et al. (2014), Coupled group lasso for web-scale CTR prediction in display advertising; Zhou
    et al. (2018), doi:10.1145/3219819.3219823.

    Examples
    --------
    >>> from fastrank_eval import rela_impr
    >>> round(rela_impr(0.6083, 0.5970), 4)
    0.1165
    """
    for name, number in (("value", value), ("base", base)):
        if not (math.isnan(number) or 0 <= number <= 1):
            raise ArgumentError(
                f"{name}={number!r} is no AUC: it lies outside [0, 1]; pass shares, not per cent."
            )
    if math.isnan(value) or math.isnan(base) or base <= CHANCE:
        return math.nan
    return (value - CHANCE) / (base - CHANCE) - 1.0


def slopes_of_rela_impr(value: float, base: float) -> tuple[float, float]:
    """Compute how fast RelaImpr falls with the base value and rises with the value.

    Parameters
    ----------
    value, base : float
        As `rela_impr` takes them, `base` being above 0.5.

    Returns
    -------
    tuple of float
        ``(value - 0.5) / (base - 0.5)^2`` and ``1 / (base - 0.5)``.
    """
    distance = base - CHANCE
    return (value - CHANCE) / distance / distance, 1.0 / distance


def error_of_rela_impr(
    value: float, base: float, value_se: float, base_se: float, difference_se: float
) -> float:
    """Compute the standard error of RelaImpr from those of both values and of their difference.

    These three have the covariance of the values in them. By the delta method, with r for RelaImpr,
    ``((1 + r) Var(difference) - r Var(value) + r (1 + r) Var(base)) / (base - 0.5)^2``, in which
    nothing large cancels where the models are alike.

    Parameters
    ----------
    value, base : float
        As `rela_impr` takes them.
    value_se, base_se, difference_se : float
        NaN where one is not known.

    Returns
    -------
    float
        NaN where RelaImpr is, or one of the errors.
    """
    improvement = rela_impr(value, base)
    if math.isnan(improvement):
        return math.nan
    rest = (1 + improvement) * base_se**2 - value_se**2
    variance = (1 + improvement) * difference_se**2 + improvement * rest
    return math.sqrt(variance) / (base - CHANCE) if variance >= 0 else math.nan


def has_chance(known: Measure) -> bool:
    """Tell whether a random order is worth 0.5: of AUC and GAUC, whole."""
    return known.name in ("AUC", "GAUC") and (known.chosen.get("max_fpr") or 1) >= 1


def refuse_without_chance(known: Measure) -> None:
    """Refuse a measure of which a random order is not worth 0.5: any but AUC and GAUC, whole."""
    if not has_chance(known):
        raise MeasureError(
            f"RelaImpr takes chance for 0.5, which {known} has none of; it compares AUC and GAUC."
        )
