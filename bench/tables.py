"""How numbers and tables of a report are written."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["NONE", "number", "table", "threads_text", "times"]

NONE = "-"


def number(value: float | None) -> str:
    """Print three digits or so; a dash for what was not measured."""
    if value is None:
        return NONE
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def times(ratio: float | None) -> str:
    return NONE if ratio is None else f"{ratio:.2f}"


def threads_text(count: int) -> str:
    return f"{count} thread" + ("" if count == 1 else "s")


def table(header: Sequence[str], lines: Sequence[Sequence[str]], sides: str) -> str:
    """Lay out a Markdown table; `sides` has an l or an r for each column."""
    if not lines:
        return "Not measured in this run."
    rule = ["---:" if side == "r" else "---" for side in sides]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *lines))
