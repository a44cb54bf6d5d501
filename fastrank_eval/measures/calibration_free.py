"""Measure probabilities after their odds are rescaled to fit the mean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.elementary import exp, log, log_each
from fastrank_eval._lib.jit import kernel
from fastrank_eval.measures.likelihood import (
    BACKGROUND,
    CLAMP,
    SAMPLING_RATE,
    entropy_of,
    losses,
    recalibrate,
)
from fastrank_eval.measures.options import REL, Param
from fastrank_eval.measures.pooled import OrderedMeasure, PooledValue

if TYPE_CHECKING:
    from fastrank_eval.stats.score_table import ScoreTable


class CalibrationFreeEntropy(OrderedMeasure):
    """CalFreeNE, NE after the odds are rescaled until the mean fits."""

    name = "CalFreeNE"
    summary = "calibration-free NE: NE after all odds are multiplied by the one factor that makes "
    summary += "predicted and observed clicks equal; what is left is ranking and shape"
    formula = (
        "NE of q_i = p_i / (p_i + c (1 - p_i)), c > 0 such that sum_i w_i q_i = sum_i w_i y_i; "
        "p and 1 - p at least clamp"
    )
    reference = "Tax et al. (2025), MCGrad, arXiv:2509.19884; He et al. (2014) for NE"
    aliases: ClassVar[tuple[str, ...]] = ("calibration_free_normalized_entropy",)
    options: ClassVar[tuple[Param, ...]] = (REL, SAMPLING_RATE, CLAMP, BACKGROUND)
    scores = "probability"
    higher_is_better = False
    range = (0.0, math.inf)

    def from_table(self, table: ScoreTable) -> PooledValue:
        clamp = self.clamp
        if clamp == "type":
            clamp = float(np.finfo(table.score.dtype).eps)
        probability = frozen(
            np.asarray(recalibrate(table.score, self.sampling_rate), np.float64).view()
        )
        p = frozen(np.clip(probability, clamp, 1.0 - clamp))
        other = frozen(np.maximum(1.0 - p, clamp))
        positives, others = (
            frozen(part.astype(np.float64)) for part in (table.positives, table.others)
        )
        divisor = _divisor_of_odds(p, other, frozen(positives + others), table.positive, clamp)
        total = table.positive + table.other
        # -ln q = ln scale - ln p, and -ln(1 - q) = ln scale - ln divisor - ln(1 - p).
        scale = log_each(p + divisor * other)
        loss = -log(divisor) * table.other
        for is_positive, weight in ((True, positives), (False, others)):
            each, _ = losses(probability, np.full(len(p), is_positive), clamp)
            loss += float(np.sum((scale + each) * weight))
        share = table.positive / total
        background = share if self.background == "slice" else float(self.background)
        value = loss / total / entropy_of(background)
        return PooledValue(value, details={"factor of the odds": 1.0 / divisor})


def _divisor_of_odds(
    p: np.ndarray, other: np.ndarray, weight: np.ndarray, positive: float, clamp: float
) -> float:
    """Find the divisor of all odds that makes the predictions fit.

    Then the predicted clicks are `positive`.

    Newton's method in the logarithm, where it leaves the interval known so far bisection.
    """
    sums = np.empty(2)
    # Beyond the odds of any probability and any share of positives.
    most = 100.0 - 2.0 * log(clamp)
    low, high, at = -most, most, 0.0
    for _ in range(200):
        divisor = exp(at)
        _predicted(p, other, weight, divisor, sums)
        excess = float(sums[0]) - positive
        if excess > 0:
            low = at
        else:
            high = at
        step = excess / float(sums[1]) if sums[1] > 0 else math.inf
        following = at + step
        if not low <= following <= high:
            following = (low + high) / 2
        if abs(following - at) <= 1e-15 * max(abs(at), 1.0) or excess == 0:
            break
        at = following
    return exp(at)


@kernel
def _predicted(p, other, weight, divisor, sums):  # type: ignore[no-untyped-def]
    """Sum the predictions whose odds are divided, and the slope of this sum."""
    predicted = 0.0
    rest = 0.0
    slope = 0.0
    for i in range(p.shape[0]):
        scale = p[i] + divisor * other[i]
        q = p[i] / scale
        term = weight[i] * q
        next_sum = predicted + term
        added = next_sum - predicted
        rest += (predicted - (next_sum - added)) + (term - added)
        predicted = next_sum
        slope += term * (divisor * other[i] / scale)
    sums[0] = predicted + rest
    sums[1] = slope
