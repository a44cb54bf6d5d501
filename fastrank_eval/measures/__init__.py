"""Define the measures: a class with its kernel for each.

The files of this package register their classes. Each registered class is here as a measure with
default options, by its name.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from fastrank_eval.measures.base import (
    REL,
    WEIGHT,
    Measure,
    Param,
    integer,
    number,
    one_of,
    over_groups,
    register,
    registry,
)
from fastrank_eval.measures.parser import measure, parse_measures

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")
#: The measures of this package by name, with default options.
MEASURES = {name: kind() for name, kind in registry.items()}
globals().update(MEASURES)

__all__ = [
    "REL",
    "WEIGHT",
    "Measure",
    "Param",
    "integer",
    "measure",
    "number",
    "one_of",
    "over_groups",
    "parse_measures",
    "register",
    "registry",
    *MEASURES,
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Measure: ...
