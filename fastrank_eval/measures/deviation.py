"""How far scores lie from labels, row by row: MAE, MSE and RMSE of numbers, Brier of clicks."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from fastrank_eval.errors import MeasureError
from fastrank_eval.measures.base import REL
from fastrank_eval.measures.pooled_measure import (
    PooledValue,
    SummedMeasure,
    positive_mask,
    undefined,
)
from fastrank_eval.measures.probabilities import SAMPLING_RATE, recalibrated

if TYPE_CHECKING:
    from fastrank_eval.chunk import Scored
    from fastrank_eval.clustered_sums import ChunkSums

#: Rows whose deviations are found and added before the next: they stay in the cache.
_BLOCK = 1 << 14


class _Deviation(SummedMeasure):
    """A weighted mean of what becomes of the difference between score and label."""

    terms = ("deviation", "weight")
    higher_is_better = False
    range = (0.0, math.inf)

    def deviations(self, difference: np.ndarray) -> np.ndarray:
        """What is added up, from score minus label; may overwrite it."""
        return np.square(difference, out=difference)

    def outcome(self, scored: Scored) -> np.ndarray:
        """What each row is compared with."""
        label = scored.chunk.columns.label
        return label if scored.kept is None else label[scored.kept]

    def predicted(self, score: np.ndarray) -> np.ndarray:
        """What is compared with it."""
        return score

    def add_terms(self, sums: ChunkSums, scored: Scored) -> None:
        outcome, weight = self.outcome(scored), scored.weight
        for lo in range(0, len(outcome), _BLOCK):
            here = slice(lo, lo + _BLOCK)
            difference = self.predicted(scored.score[here]).astype(np.float64)
            difference -= outcome[here]
            with np.errstate(over="ignore"):
                found = self.deviations(difference)
                if weight is not None:
                    found *= weight[here]
            if not found.max() < np.inf:
                raise MeasureError(
                    f"{self}: scores, labels or weights are so large that a term passes the "
                    "largest double; scale them down."
                )
            sums.add(0, found)
        sums.add_weights(1)

    def of_sums(self, sums: Mapping[str, float]) -> PooledValue:
        if not sums["weight"] > 0:
            return undefined("zero_weight")
        return PooledValue(self.of_mean(sums["deviation"] / sums["weight"]))

    def gradient(self, sums: Mapping[str, float]) -> dict[str, float]:
        mean = sums["deviation"] / sums["weight"]
        slope = self.slope(mean) / sums["weight"]
        return {"deviation": slope, "weight": -slope * mean}

    def of_mean(self, mean: float) -> float:
        """The value from the mean of the deviations."""
        return mean

    def slope(self, mean: float) -> float:
        """The derivative of `of_mean`."""
        return 1.0


class MeanAbsoluteError(_Deviation):
    """MAE, the mean distance of scores from labels, both taken as numbers."""

    name = "MAE"
    summary = "mean distance between score and label, as numbers"
    formula = "sum_i w_i |s_i - l_i| / sum_i w_i"
    reference = "Willmott & Matsuura (2005), doi:10.3354/cr030079"
    spellings = ("mean_absolute_error",)
    scores = "finite number"

    def state_key(self) -> Hashable:
        return "absolute deviation"

    def deviations(self, difference: np.ndarray) -> np.ndarray:
        return np.abs(difference, out=difference)


class MeanSquaredError(_Deviation):
    """MSE, the mean squared distance of scores from labels, both taken as numbers."""

    name = "MSE"
    summary = "mean squared distance between score and label, as numbers"
    formula = "sum_i w_i (s_i - l_i)^2 / sum_i w_i"
    reference = "Willmott & Matsuura (2005), doi:10.3354/cr030079"
    spellings = ("mean_squared_error",)
    scores = "finite number"

    def state_key(self) -> Hashable:
        return "squared deviation"


class RootMeanSquaredError(MeanSquaredError):
    """RMSE, the root of MSE."""

    name = "RMSE"
    summary = "root of the mean squared distance between score and label, as numbers"
    formula = "sqrt(MSE)"
    spellings = ("root_mean_squared_error",)

    def of_mean(self, mean: float) -> float:
        return math.sqrt(mean)

    def slope(self, mean: float) -> float:
        # Where no row deviates no group does: the error is 0 by any slope, as that of MSE is.
        return 0.5 / math.sqrt(mean) if mean > 0 else 0.0


class BrierScore(_Deviation):
    """Brier, the mean squared distance of probabilities from what came about."""

    name = "Brier"
    summary = "mean squared distance between the probability and 1 (positive) or 0; it is "
    summary += "Reliability - Resolution + Uncertainty"
    formula = "sum_i w_i (p_i - y_i)^2 / sum_i w_i"
    reference = "Brier (1950), doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2"
    spellings = ("brier_score", "brier_score_loss")
    options = (REL, SAMPLING_RATE)
    scores = "probability"
    range = (0.0, 1.0)

    def state_key(self) -> Hashable:
        return "Brier", float(self.rel), float(self.sampling_rate)

    def outcome(self, scored: Scored) -> np.ndarray:
        return positive_mask(scored, self.rel)

    def predicted(self, score: np.ndarray) -> np.ndarray:
        return recalibrated(score, self.sampling_rate)


MAE = MeanAbsoluteError()
MSE = MeanSquaredError()
RMSE = RootMeanSquaredError()
Brier = BrierScore()
