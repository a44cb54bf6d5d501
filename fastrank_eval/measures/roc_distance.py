"""How far the ROC curve of all rows is from the diagonal: KS at most, Gini on average."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import REL
from fastrank_eval.measures.pooled_measure import (
    OrderedMeasure,
    PooledValue,
    SteppedMeasure,
    undefined,
)

if TYPE_CHECKING:
    from fastrank_eval.pooled_weights import InOrder
    from fastrank_eval.score_steps import ScoreSteps


class KolmogorovSmirnov(SteppedMeasure):
    """KS, the largest distance between the shares of both classes above a threshold."""

    name = "KS"
    summary = "largest difference of true and false positive rate over all thresholds"
    formula = "max_t |TPR(t) - FPR(t)|, rows of score >= t taken for positive"
    reference = "Hand (2012), doi:10.1111/j.1751-5823.2012.00183.x"
    scores = "number"
    options = (REL,)
    spellings = ("kolmogorov_smirnov", "ks_statistic")

    def of_steps(self, steps: ScoreSteps) -> PooledValue:
        others, positives = steps.runs()
        best = np.zeros(1)
        at = int(_farthest(others, positives, best))
        # Just above a score that is taken for negative: an odd corner is one below a positive.
        step = max(at - 1, 0) // 2
        threshold = steps.score[step]
        if at > 0 and at % 2:
            above = np.array(np.inf, threshold.dtype)
            threshold = np.nextafter(threshold, above)
        return PooledValue(float(best[0]), details={"threshold": float(threshold)})


class GiniCoefficient(OrderedMeasure):
    """Gini, twice the area between the ROC curve and the diagonal."""

    name = "Gini"
    summary = "2 AUC - 1 over all rows: for two classes the normalised Gini coefficient, Somers' D"
    formula = "2 AUC - 1"
    reference = (
        "Hand & Till (2001), doi:10.1023/A:1010920819831; Somers (1962), doi:10.2307/2090408"
    )
    options = (REL,)
    range = (-1.0, 1.0)
    spellings = ("normalized_gini", "accuracy_ratio")

    def pooled_value(self, state: Any, in_order: InOrder) -> PooledValue:
        area = state.auc(None, in_order)
        if np.isnan(area):
            return undefined(state.missing(in_order))
        return PooledValue(2.0 * area - 1.0)


KS = KolmogorovSmirnov()
Gini = GiniCoefficient()


@kernel
def _farthest(others, positives, best):  # type: ignore[no-untyped-def]
    """How many runs lie above the corner farthest from the diagonal: the first of several."""
    all_others = 0.0
    all_positives = 0.0
    for i in range(others.shape[0]):
        all_others += others[i]
        all_positives += positives[i]
    others_above = 0.0
    positives_above = 0.0
    at = 0
    for i in range(others.shape[0]):
        others_above += others[i]
        positives_above += positives[i]
        distance = abs(positives_above / all_positives - others_above / all_others)
        if distance > best[0]:
            best[0] = distance
            at = i + 1
    return at
