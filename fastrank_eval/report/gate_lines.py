"""A night's numbers as gates ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fastrank_eval.report.nights import Night

__all__ = ["ComparedLine", "compared_lines"]


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """A difference, by the names that gates know; see `gate_tree.COMPARISON_FIELDS`."""

    score: str
    slice: str
    measure: str
    delta: float
    delta_se: float
    delta_ci_low: float
    delta_ci_high: float
    relative: float
    p_value: float
    p_adjusted: float


def compared_lines(night: Night, kind: str) -> Iterator[ComparedLine]:
    """The differences of one kind."""
    for line in night.compared:
        if line.kind == kind:
            yield ComparedLine(
                line.score, line.slice, line.measure, line.delta, line.se, line.ci_low,
                line.ci_high, line.relative, line.p_value, line.p_adjusted,
            )  # fmt: skip
