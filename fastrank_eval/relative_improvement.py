"""RelaImpr: how much more of what a random order lacks one model gives than another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fastrank_eval.errors import ArgumentError, MeasureError

if TYPE_CHECKING:
    from fastrank_eval.measures import Measure

__all__ = ["refuse_without_chance", "rela_impr"]

#: What a random order is worth.
_CHANCE = 0.5


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
    if math.isnan(value) or math.isnan(base) or base <= _CHANCE:
        return math.nan
    return (value - _CHANCE) / (base - _CHANCE) - 1.0


def refuse_without_chance(known: Measure) -> None:
    """Refuse a measure of which a random order is not worth 0.5: any but AUC and GAUC, whole."""
    partial = known.chosen.get("max_fpr") or 1
    if known.name not in ("AUC", "GAUC") or partial < 1:
        raise MeasureError(
            f"RelaImpr takes chance for 0.5, which {known} has none of; it compares AUC and GAUC."
        )
