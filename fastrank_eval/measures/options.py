"""Define the options of measures, and read their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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


def one_of(*choices: Any) -> Callable[[Any], Any]:
    """Make a reader that accepts one of `choices`."""

    def read(value: Any) -> Any:
        plain = value is None or isinstance(value, str | int | float | np.number | np.bool_)
        for choice in choices if plain else ():
            if isinstance(value, bool) == isinstance(choice, bool) and value == choice:
                return choice
        raise ValueError("one of " + ", ".join(repr(choice) for choice in choices))

    return read


def number(
    above: float = -np.inf,
    least: float = -np.inf,
    most: float = np.inf,
    below: float = np.inf,
    optional: bool = False,
) -> Callable[[Any], Any]:
    """Make a reader of finite numbers in ]above, below[ and [least, most].

    Numbers without a fraction become int.
    """

    def read(value: Any) -> Any:
        if value is None and optional:
            return None
        if isinstance(value, bool | str | bytes) or value is None:
            raise ValueError("a number")
        try:
            value = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError("a number that a double holds") from None
        if not (np.isfinite(value) and above < value < below and least <= value <= most):
            bounds = [f"above {above:g}"] if above > -np.inf else []
            bounds += [f"at least {least:g}"] if least > -np.inf else []
            bounds += [f"at most {most:g}"] if most < np.inf else []
            bounds += [f"below {below:g}"] if below < np.inf else []
            raise ValueError(" ".join(["a finite number", *" and ".join(bounds).split()]))
        return int(value) if value.is_integer() and abs(value) < 2**53 else value

    return read


def integer(least: int, most: float = np.inf, optional: bool = False) -> Callable[[Any], Any]:
    """Make a reader of integers in [least, most]."""
    as_number = number(least=least, most=most, optional=optional)

    def read(value: Any) -> Any:
        value = as_number(value)
        if isinstance(value, float):
            raise ValueError("a whole number")
        return value

    return read


def group_weight(value: Any) -> str:
    """Read the name of a group weight or of a column."""
    if not isinstance(value, str) or not value:
        raise ValueError(
            "one of " + ", ".join(repr(name) for name in GROUP_WEIGHTS) + " or a column's name"
        )
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
