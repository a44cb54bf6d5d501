"""What the rows of the highest scores hold: CumGain and Lift at a depth."""

from __future__ import annotations

import math

import numpy as np

from fastrank_eval.measures.base import REL, Param, number
from fastrank_eval.measures.pooled_measure import OrderedMeasure, PooledValue
from fastrank_eval.score_table import ScoreTable

TOP = Param(
    "top",
    0.1,
    "share of all rows, or of their weight, that is taken from the top, in ]0, 1]",
    number(above=0, most=1),
)


class CumulativeGain(OrderedMeasure):
    """CumGain, the share of the positives among the rows of the highest scores."""

    name = "CumGain"
    summary = "share of all positive rows that are among the top share of rows by score"
    formula = "positives above the cut / positives; tied rows at the cut: the mean of their orders"
    reference = "Ling & Li (1998), KDD-98, Data mining for direct marketing"
    options = (TOP, REL)
    spellings = ("CumulativeGain",)

    def of_table(self, table: ScoreTable) -> PooledValue:
        return PooledValue(gain_at(table, float(self.top)))


class LiftAtDepth(OrderedMeasure):
    """Lift, how many times as many positives the top holds as it would by chance."""

    name = "Lift"
    summary = "share of positives among the top share of rows, over their share of all rows"
    formula = "CumGain / top"
    reference = "Ling & Li (1998), KDD-98, Data mining for direct marketing"
    options = (TOP, REL)
    range = (0.0, math.inf)

    def of_table(self, table: ScoreTable) -> PooledValue:
        return PooledValue(gain_at(table, float(self.top)) / self.top)


def gain_at(table: ScoreTable, top: float) -> float:
    """Share of the positives in the top share of rows.

    Rows tied at the cut enter in proportion, which is the mean over all their orders where the cut
    falls between two rows.

    Parameters
    ----------
    table : ScoreTable
        With positives.
    top : float
        In ]0, 1].
    """
    held = np.cumsum(table.positives + table.others)
    hits = np.cumsum(table.positives)
    depth = top * held[-1]
    at = min(int(np.searchsorted(held, depth)), len(held) - 1)
    # Scores of no weight hold nothing: the first at which the depth is reached does.
    above, hits_above = (held[at - 1], hits[at - 1]) if at else (0, 0)
    inside = min((depth - above) / (held[at] - above), 1.0)
    return min(float((hits_above + inside * (hits[at] - hits_above)) / hits[-1]), 1.0)


CumGain = CumulativeGain()
Lift = LiftAtDepth()
