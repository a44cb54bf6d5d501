"""Define the measures: a class with its kernel for each.

The files of this package register their classes. Each registered class is here as a measure with
default options, by its name.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from fastrank_eval._lib.arguments import integer, number, one_of
from fastrank_eval._lib.jit import inlined
from fastrank_eval.measures.base import (
    REL,
    WEIGHT,
    GroupFunction,
    Measure,
    Param,
    register,
    registry,
)
from fastrank_eval.measures.parser import measure, parse_measures
from fastrank_eval.measures.pooled import measure_of

_FAMILIES = (
    *("auc", "average_precision", "calibration", "decisions", "diversity"),
    *("gain", "judged", "likelihood", "multicalibration", "precision", "user_models"),
)
for _family in _FAMILIES:
    import_module(f"{__name__}.{_family}")
#: The measures of this package by name, with default options.
MEASURES = {name: kind() for name, kind in registry.items()}
globals().update(MEASURES)

__all__ = [
    "REL",
    "WEIGHT",
    "GroupFunction",
    "Measure",
    "Param",
    "inlined",
    "integer",
    "measure",
    "measure_of",
    "number",
    "one_of",
    "parse_measures",
    "register",
    "registry",
    *MEASURES,
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Measure: ...
