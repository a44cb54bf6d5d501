"""Probabilities in bins of equal width or of equal count, and what rows say in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastrank_eval.measures.base import Param, one_of
from fastrank_eval.measures.probabilities import recalibrated
from fastrank_eval.score_table import ScoreTable

BY = Param(
    "by",
    "width",
    "bins of equal 'width', [(j - 1) / bins, j / bins[ and the last with 1, or of equal 'count': "
    "by the place of the middle of rows with the same probability, so that ties stay together",
    one_of("width", "count"),
)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Distinct probabilities, lowest first, and the rows that have them.

    Parameters
    ----------
    probability : ndarray of float64, shape (values,)
        Strictly ascending.
    weight, positive : ndarray of int64 or float64, shape (values,)
        Rows, of which there are some, and positives among them, or their weight times a power of
        two.
    """

    probability: np.ndarray
    weight: np.ndarray
    positive: np.ndarray

    @classmethod
    def of(cls, table: ScoreTable, sampling_rate: float) -> Outcomes:
        """From a table of scores; those that become equal in putting them right are one."""
        # Neighbouring doubles may change places by rounding when they are put right.
        p = np.maximum.accumulate(
            np.asarray(recalibrated(table.score[::-1], sampling_rate), np.float64)
        )
        positive = table.positives[::-1]
        weight = positive + table.others[::-1]
        heavy = weight > 0
        if not heavy.all():
            p, weight, positive = p[heavy], weight[heavy], positive[heavy]
        fresh = np.append(True, p[1:] != p[:-1])
        if len(p) and not fresh.all():
            starts = np.flatnonzero(fresh)
            p = p[starts]
            weight, positive = (np.add.reduceat(part, starts) for part in (weight, positive))
        return cls(p, weight, positive)

    def bins(self, number: int, by: str) -> np.ndarray:
        """The bin of each probability, ascending. int64, shape (values,)."""
        if by == "width":
            edges = np.arange(1, number) / number
            return np.searchsorted(edges, self.probability, side="right")
        through = np.cumsum(self.weight)
        if self.weight.dtype.kind == "i":
            middle = 2 * through - self.weight
            return np.minimum(number * middle // (2 * through[-1:]), number - 1)
        middle = through - self.weight / 2
        # A hair above, so that rounded sums do not move what stands on the border of two bins.
        place = number * (middle / through[-1:]) + 1e-9
        return np.minimum(place.astype(np.int64), number - 1)

    def starts(self, number: int, by: str) -> np.ndarray:
        """Where the bins that have rows begin. int64, shape (bins,)."""
        bins = self.bins(number, by)
        return np.flatnonzero(np.append(True, bins[1:] != bins[:-1]))
