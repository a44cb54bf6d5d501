"""Pairs of a positive and another row, counted in whole numbers: what AUC is a share of."""

from __future__ import annotations

import numpy as np

from fastrank_eval.score_steps import ScoreSteps

__all__ = ["area_from_pairs", "area_of", "products"]


def area_of(steps: ScoreSteps) -> float:
    """The area that `area_from_pairs` finds, from the same whole numbers."""
    above = np.cumsum(steps.between)[:-1] + np.cumsum(steps.others)
    others = int(steps.between.sum() + steps.others.sum())
    won_twice = products(steps.positives, 2 * (others - above) + steps.others)
    pairs = int(steps.positives.sum()) * others
    return won_twice / (2 * pairs) if pairs else float("nan")


def products(number: np.ndarray, rows: np.ndarray) -> int:
    """The exact sum of products of counts below 2**48."""
    if int(number.sum()) * int(rows.max(initial=0)) < 1 << 63:
        return int(np.dot(number, rows))
    return sum(int(np.sum(number * (rows >> s & 0xFFFF))) << s for s in (0, 16, 32))


def area_from_pairs(won_twice: int, rows: int, positives: int) -> float:
    """AUC from twice the rows each positive stands above, tied rows (itself too) counted once."""
    pairs = positives * (rows - positives)
    # Against the positives among the rows, half of all pairs are won.
    return (won_twice - positives * positives) / (2 * pairs) if pairs else float("nan")
