"""Numbers and names as reports print them."""

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
    """The measure, and what the value is of those of the groups where it is not their mean."""
    kind = value.aggregate
    return printable(value.measure) + ("" if kind in ("mean", "pooled") else f" ({kind})")


def number_text(number: float, aggregate: str) -> str:
    """Six digits; all of a sum that is a whole number."""
    if math.isnan(number):
        return "undefined"
    if aggregate == "sum" and number.is_integer() and abs(number) < 2**53:
        return f"{int(number):,}"
    return f"{number:#.6g}"


def interval_text(value: MeasureValue) -> str:
    """The interval, to two digits of its half width; empty where there is none."""
    low, high = value.ci_low, value.ci_high
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    digits = decimals((high - low) / 2)
    if digits is None:
        return f"[{low:#.6g}, {high:#.6g}]"
    return f"[{low:,.{digits}f}, {high:,.{digits}f}]"


def half_width_text(value: MeasureValue) -> str:
    """The larger distance from a value to an end of its interval, to two digits, or nothing."""
    if not (math.isfinite(value.ci_low) and math.isfinite(value.ci_high)):
        return ""
    far = max(value.ci_high - value.value, value.value - value.ci_low)
    digits = decimals(far)
    return f"±{far:.2g}" if digits is None else f"±{far:,.{digits}f}"


def share_text(value: float) -> str:
    """Format a share in percent; only the whole prints as 100%, only nothing as 0%."""
    if math.isnan(value):
        return "n/a"
    if value in (0, 1):
        return f"{value:.0%}"
    return "<0.1%" if value < 0.001 else ">99.9%" if value > 0.999 else f"{value:.1%}"


def decimals(size: float) -> int | None:
    """Decimals that show a number to two digits; None where they are too many."""
    if size == 0 or size >= 1e9:
        return None
    digits = max(1 - Decimal(size).adjusted(), 0)
    return digits if digits <= 7 else None


def count_text(number: int, noun: str) -> str:
    """How many of what, in the plural but for one."""
    return f"{number:,} {noun}" + "s" * (number != 1)
