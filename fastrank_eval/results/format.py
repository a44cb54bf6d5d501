"""Format numbers and names for reports."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal


def printable(text: str) -> str:
    """Escape line breaks, terminal codes and other unprintable characters."""
    # A page has 8,000 texts: to look at each sign of all was a tenth of its time.
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def list_text(names: Iterable[str]) -> str:
    """Join names by commas, each once."""
    return ", ".join(dict.fromkeys(names))


def measure_text(measure: str, aggregate: str) -> str:
    """Format a measure, with its aggregate unless that is the mean."""
    return printable(measure) + ("" if aggregate in ("mean", "pooled") else f" ({aggregate})")


def number_text(number: float | None, aggregate: str = "mean") -> str:
    """Format a value with six digits, a whole sum with all digits."""
    if number is None or math.isnan(number):
        return "undefined"
    if aggregate == "sum" and number.is_integer() and abs(number) < 2**53:
        return f"{int(number):,}"
    return f"{number:#.6g}"


def detail_text(number: float) -> str:
    """Format a whole number with all digits, another with at most six."""
    if math.isnan(number):
        return "n/a"
    whole = float(number).is_integer() and abs(number) < 2**53
    return f"{number:,.0f}" if whole else f"{number:.6g}"


def legend_text(number: float) -> str:
    """Format a value for a picture: four decimals, or three digits."""
    if math.isnan(number):
        return "undefined"
    return f"{number:.4f}" if abs(number) >= 0.1 else f"{number:.3g}"


def two_digits(size: float) -> int:
    """Return the decimals that show a size above 0 to two digits."""
    return 1 - Decimal(size).adjusted()


def decimals(size: float) -> int | None:
    """Return the decimals of two digits; None if there are too many."""
    if size == 0 or size >= 1e9:
        return None
    digits = max(two_digits(size), 0)
    return digits if digits <= 7 else None


def amount(value: float, digits: int | None, sign: bool = False, spare: str = ".3g") -> str:
    """Format a number to some decimals; in the form `spare` if None."""
    return format(value, "+" * sign + (spare if digits is None else f",.{digits}f"))


def interval_text(
    low: float, high: float, digits: int | None, sign: bool = False, spare: str = ".3g"
) -> str:
    """Format an interval like `amount`; empty without one."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"[{amount(low, digits, sign, spare)}, {amount(high, digits, sign, spare)}]"


def half_width_text(half_width: float, digits: int | None) -> str:
    """Format half an interval like `amount`; empty without one."""
    return f"±{amount(half_width, digits, spare='.2g')}" if math.isfinite(half_width) else ""


def p_text(p_value: float, form: str = ".2g") -> str:
    """Format a p-value; "n/a" if it is undefined."""
    if math.isnan(p_value):
        return "n/a"
    return "<0.0001" if p_value < 1e-4 else format(p_value, form)


def share_text(share: float, digits: int = 1, missing: str = "n/a") -> str:
    """Format a share in per cent; only 1 prints as 100%, only 0 as 0%."""
    if not math.isfinite(share):
        return missing
    if share in (0, 1):
        return f"{share:.0%}"
    least = 10.0 ** -(digits + 2)
    if share < least:
        return f"<{least:.{digits}%}"
    return f">{1 - least:.{digits}%}" if share > 1 - least else f"{share:.{digits}%}"


def percent_text(share: float, digits: int = 12) -> str:
    """Format a share in per cent with at most some digits."""
    return f"{100 * share:.{digits}g}%"


def percent(change: float) -> str:
    """Format a relative change in per cent, with its sign."""
    return "n/a" if math.isnan(change) else f"{change:+.2%}"


def count_text(number: int, noun: str) -> str:
    """Format a number with a noun, in the plural unless the number is 1."""
    return f"{number:,} {noun}" + "s" * (number != 1)


def rough_text(number: float) -> str:
    """Format a number with three digits, for axes.

    Examples
    --------
    >>> rough_text(4_100_000), rough_text(950), rough_text(0)
    ('4.1M', '950', '0')
    """
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def speed_text(rows: int, seconds: float) -> str:
    """Format rows per second."""
    if seconds <= 0:
        return "too fast to time"
    speed = rows / seconds
    return f"{speed / 1e6:.3g} Mrows/s" if speed >= 1e6 else f"{speed:,.0f} rows/s"
