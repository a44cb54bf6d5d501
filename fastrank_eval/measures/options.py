"""Define the options of measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastrank_eval._lib.arguments import Unfit, number
from fastrank_eval._lib.dataclass import dataclass

#: Group weights of every measure. Any other word is the name of a column.
GROUP_WEIGHTS = ("uniform", "impressions", "positives", "pairs")


@dataclass(frozen=True)
class Param:
    """One option of a measure.

    Parameters
    ----------
    name : str
    default : object
    doc : str
        What the option does, with its choices.
    read : callable
        Converts an argument to the canonical value, or raises ValueError with the expected form.
    """

    name: str
    default: Any
    doc: str
    read: Callable[[Any], Any]


def group_weight(value: Any) -> str:
    """Read the name of a group weight or of a column."""
    if not isinstance(value, str) or not value:
        raise Unfit(f"one of {', '.join(map(repr, GROUP_WEIGHTS))} or a column's name", "name one")
    return value


WEIGHT = Param(
    "weight",
    "uniform",
    "weight of a group in the mean: 'uniform', 'impressions', 'positives', 'pairs' or the "
    "name of a column that is constant inside each group",
    group_weight,
)
REL = Param("rel", 1, "the least grade that is relevant", number(above=0))


def text_of(value: Any) -> str:
    """Format the value of an option."""
    if isinstance(value, tuple):
        return "{" + ", ".join(f"{text_of(grade)}: {text_of(gain)}" for grade, gain in value) + "}"
    return repr(value)
