"""The variance of pooled AUC from placement values: rows independent, or in independent clusters.

A positive's placement value is the share of the others it beats, an other's the share of the
positives that beat it, ties one half; the mean of either is the AUC.
"""

from __future__ import annotations

import math

import numpy as np

from fastrank_eval.kernel import kernel
from fastrank_eval.pooled import PooledScores
from fastrank_eval.pooled_weights import InOrder, WeightedScores

__all__ = ["cluster_variance", "row_variance"]


def row_variance(scores: PooledScores | WeightedScores, area: float, in_order: InOrder) -> float:
    """DeLong's variance of the AUC; NaN with fewer than two rows of either class.

    With row weights w the variance of a class's mean is estimated by
    n / (n - 1) sum w^2 (V - AUC)^2 / (sum w)^2, V the weighted placement value and n the rows whose
    weight is not zero: without weights that is DeLong's.

    Parameters
    ----------
    scores : PooledScores or WeightedScores
        Of all rows.
    area : float
        Their AUC.
    in_order : callable
        Maps a function over jobs, in threads.

    References
    ----------
    DeLong et al. (1988), doi:10.2307/2531595; Sun & Xu (2014), doi:10.1109/LSP.2014.2337313.
    """
    spread = np.zeros(2)
    if isinstance(scores, PooledScores):
        others, positives = scores.steps(in_order).runs()
        _spreads(others, positives, others, positives, area, spread)
        rows = positives.sum(), others.sum()
    else:
        table, squares = scores.table(in_order), scores.squared(in_order)
        _spreads(table.others, table.positives, squares.others, squares.positives, area, spread)
        weighing = scores.weighing(in_order)
        rows = weighing.positive, weighing.other
    return float(spread[0] * _corrected(rows[0]) + spread[1] * _corrected(rows[1]))


def cluster_variance(
    sums: tuple[float, float, float],
    totals: tuple[float, float],
    clusters: tuple[int, int, int],
) -> float:
    """Obuchowski's variance of the AUC; NaN with fewer than two clusters of either class.

    Parameters
    ----------
    sums : tuple of float
        Over clusters: squares of the sum of the positives' deviations (placement value less AUC,
        times weight), squares of that of the others, and products of both.
    totals : tuple of float
        Positives and others, or their weights.
    clusters : tuple of int
        Clusters that have positives, that have others, and all.

    References
    ----------
    Obuchowski (1997), doi:10.2307/2533958.
    """
    positives, others = totals
    return (
        sums[0] / positives / positives * _corrected(clusters[0])
        + sums[1] / others / others * _corrected(clusters[1])
        + 2.0 * sums[2] / positives / others * _corrected(clusters[2])
    )


def _corrected(units: float) -> float:
    """N / (n - 1), NaN where a variance needs more units."""
    return units / (units - 1.0) if units > 1 else math.nan


@kernel
def _spreads(  # type: ignore[no-untyped-def]
    others, positives, squared_others, squared_positives, area, spread
):
    """Squared deviations of each class's placement values from the AUC, over its weight squared."""
    all_others = 0.0
    all_positives = 0.0
    for i in range(others.shape[0]):
        all_others += others[i]
        all_positives += positives[i]
    others_above = 0.0
    positives_above = 0.0
    for i in range(others.shape[0]):
        beaten = (all_others - others_above - 0.5 * others[i]) / all_others - area
        spread[0] += squared_positives[i] * beaten * beaten
        beating = (positives_above + 0.5 * positives[i]) / all_positives - area
        spread[1] += squared_others[i] * beating * beating
        others_above += others[i]
        positives_above += positives[i]
    spread[0] = spread[0] / all_positives / all_positives
    spread[1] = spread[1] / all_others / all_others
