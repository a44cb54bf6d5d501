"""Whether a model predicts as many positives as there are: PCOC and Bias."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from fastrank_eval.measures.base import REL
from fastrank_eval.measures.pooled_measure import (
    PooledValue,
    SummedMeasure,
    undefined,
)
from fastrank_eval.measures.probabilities import SAMPLING_RATE, recalibrated

if TYPE_CHECKING:
    from fastrank_eval.chunk import Scored
    from fastrank_eval.clustered_sums import ChunkSums

#: Rows whose products with the weight are found and added before the next.
_BLOCK = 1 << 15


class _MeanPrediction(SummedMeasure):
    """Measures of the sums of predictions and of positives."""

    options = (REL, SAMPLING_RATE)
    scores = "probability"
    terms = ("predicted", "positive", "weight")
    higher_is_better = False

    def state_key(self) -> Hashable:
        return "mean prediction", float(self.rel), float(self.sampling_rate)

    def add_terms(self, sums: ChunkSums, scored: Scored) -> None:
        weight = scored.weight
        for lo in range(0, len(scored.score), _BLOCK):
            here = slice(lo, lo + _BLOCK)
            predicted = recalibrated(scored.score[here], self.sampling_rate)
            sums.add(0, predicted if weight is None else predicted * weight[here])
        sums.add_positives(1, self.rel)
        sums.add_weights(2)


class PredictedOverObserved(_MeanPrediction):
    """PCOC, predicted clicks over observed clicks."""

    name = "PCOC"
    summary = "predicted over observed clicks: 1 is calibrated, above 1 over-estimates"
    formula = "sum_i w_i p_i / sum_i w_i y_i"
    reference = "He et al. (2014), doi:10.1145/2648584.2648589 (there: calibration)"
    spellings = ("predicted_click_over_click", "calibration_ratio")
    range = (0.0, math.inf)

    def of_sums(self, sums: Mapping[str, float]) -> PooledValue:
        if not sums["weight"] > 0:
            return undefined("zero_weight")
        if not sums["positive"] > 0:
            return undefined("no_relevant")
        return PooledValue(sums["predicted"] / sums["positive"])

    def gradient(self, sums: Mapping[str, float]) -> dict[str, float]:
        positive = sums["positive"]
        return {"predicted": 1 / positive, "positive": -sums["predicted"] / positive / positive}


class MeanBias(_MeanPrediction):
    """Bias, the mean prediction less the share of positives."""

    name = "Bias"
    summary = "mean prediction less the share of positives: 0 is calibrated"
    formula = "sum_i w_i (p_i - y_i) / sum_i w_i; PCOC - 1 is the same over the share of positives"
    reference = "Murphy & Winkler (1987), doi:10.1175/1520-0493(1987)115<1330:AGFFFV>2.0.CO;2"
    spellings = ("mean_error",)
    range = (-1.0, 1.0)

    def of_sums(self, sums: Mapping[str, float]) -> PooledValue:
        if not sums["weight"] > 0:
            return undefined("zero_weight")
        return PooledValue((sums["predicted"] - sums["positive"]) / sums["weight"])

    def gradient(self, sums: Mapping[str, float]) -> dict[str, float]:
        weight = sums["weight"]
        bias = (sums["predicted"] - sums["positive"]) / weight
        return {"predicted": 1 / weight, "positive": -1 / weight, "weight": -bias / weight}


PCOC = PredictedOverObserved()
Bias = MeanBias()
