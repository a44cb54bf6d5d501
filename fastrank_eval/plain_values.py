"""Values as JSON knows them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["finite", "plain_value"]


def finite(value: float) -> float | None:
    """The same number, None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None


def plain_value(value: object) -> Any:
    """Turn `value` into what JSON knows, NaN into None."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(inner) for key, inner in value.items()}
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, np.generic):
        return plain_value(value.item())
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, Iterable):
        return [plain_value(inner) for inner in value]
    return str(value)
