"""Format numbers and names for reports."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastrank_eval.engine.records import MeasureValue

__all__ = [
    "count_text",
    "decimals",
    "half_width_text",
    "interval_text",
    "measure_text",
    "number_text",
    "printable",
    "share_text",
]


def printable(text: str) -> str:
    """Escape line breaks, terminal codes and other unprintable characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def measure_text(value: MeasureValue) -> str:
    """Format a measure, with its aggregate unless that is the mean."""
    kind = value.aggregate
    return printable(value.measure) + ("" if kind in ("mean", "pooled") else f" ({kind})")


def number_text(number: float, aggregate: str) -> str:
    """Format a value with six digits, a whole sum with all digits."""
    if math.isnan(number):
        return "undefined"
    if aggregate == "sum" and number.is_integer() and abs(number) < 2**53:
        return f"{int(number):,}"
    return f"{number:#.6g}"


def interval_text(value: MeasureValue) -> str:
    """Format the interval to two digits of its half width, or as ""."""
    low, high = value.ci_low, value.ci_high
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    digits = decimals((high - low) / 2)
    if digits is None:
        return f"[{low:#.6g}, {high:#.6g}]"
    return f"[{low:,.{digits}f}, {high:,.{digits}f}]"


def half_width_text(value: MeasureValue) -> str:
    """Format the larger half of the interval to two digits, or as ""."""
    if not (math.isfinite(value.ci_low) and math.isfinite(value.ci_high)):
        return ""
    half_width = max(value.ci_high - value.value, value.value - value.ci_low)
    digits = decimals(half_width)
    return f"±{half_width:.2g}" if digits is None else f"±{half_width:,.{digits}f}"


def share_text(value: float) -> str:
    """Format a share in per cent; only 1 prints as 100%, only 0 as 0%."""
    if math.isnan(value):
        return "n/a"
    if value in (0, 1):
        return f"{value:.0%}"
    return "<0.1%" if value < 0.001 else ">99.9%" if value > 0.999 else f"{value:.1%}"


def decimals(size: float) -> int | None:
    """Return the decimals of two digits; None if there are too many."""
    if size == 0 or size >= 1e9:
        return None
    digits = max(1 - Decimal(size).adjusted(), 0)
    return digits if digits <= 7 else None


def count_text(number: int, noun: str) -> str:
    """Format a number with a noun, in the plural unless the number is 1."""
    return f"{number:,} {noun}" + "s" * (number != 1)
