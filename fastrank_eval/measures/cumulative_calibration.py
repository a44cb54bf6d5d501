"""ECCE: calibration without bins, from cumulative differences, with a p-value."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import REL, Param, one_of
from fastrank_eval.measures.brownian import maximum_exceeds, range_exceeds
from fastrank_eval.measures.pooled_measure import (
    OrderedMeasure,
    PooledMeasure,
    PooledValue,
    undefined,
)
from fastrank_eval.measures.probabilities import SAMPLING_RATE, recalibrated
from fastrank_eval.measures.probability_bins import Outcomes
from fastrank_eval.states import RowSums

if TYPE_CHECKING:
    from fastrank_eval.chunk import Scored
    from fastrank_eval.pooled_weights import InOrder


class _Spread(PooledMeasure):
    """What clicks of a calibrated model vary by, where rows have weights."""

    def __init__(self, sampling_rate: float) -> None:
        super().__init__()
        object.__setattr__(self, "rate", sampling_rate)

    def state_key(self) -> Hashable:
        return "variance of clicks", self.rate

    def new_state(self, weighted: bool, threads: int) -> RowSums:
        return RowSums(2)

    def add_rows(self, state: RowSums, scored: Scored) -> None:
        if scored.weight is None:
            return
        p = np.asarray(recalibrated(scored.score, self.rate), np.float64)
        state.add(0, (scored.weight * p) * (scored.weight * (1.0 - p)))
        state.add(1, scored.weight)


class CumulativeCalibrationError(OrderedMeasure):
    """ECCE, the range or the maximum of cumulative differences of clicks and predictions."""

    name = "ECCE"
    summary = "calibration without bins: how far the sum of y - p, from the lowest p up, strays "
    summary += "(the range is Kuiper's statistic, the maximum Kolmogorov and Smirnov's)"
    formula = (
        "max_k C_k - min_k C_k, or max_k |C_k|; C_k = sum_{p_i <= p_k} w_i (y_i - p_i) / sum_i w_i,"
        " C_0 = 0"
    )
    reference = "Arrieta-Ibarra et al. (2022), JMLR 23(351)"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "Kuiper": {},
        "ECCE_R": {},
        "ECCE_MAD": {"statistic": "max"},
    }
    options = (
        Param(
            "statistic",
            "range",
            "'range' of the cumulative differences (ECCE-R, Kuiper), which a deviation shows in "
            "wherever it is, or their 'max' (ECCE-MAD)",
            one_of("range", "max"),
        ),
        REL,
        SAMPLING_RATE,
    )
    scores = "probability"
    higher_is_better = False

    def keeps(self) -> tuple[PooledMeasure, ...]:
        return self, _Spread(float(self.sampling_rate))

    def pooled_value(self, state: Any, in_order: InOrder) -> PooledValue:
        scores, spread = state
        table = scores.table(in_order)
        outcomes = Outcomes.of(table, self.sampling_rate)
        if not len(outcomes.weight):
            return undefined("zero_weight")
        p, weight = outcomes.probability, outcomes.weight.astype(np.float64)
        total = float(outcomes.weight.sum())
        extremes = np.zeros(2)
        _extremes(frozen(p), frozen(weight), frozen(outcomes.positive.astype(np.float64)), extremes)
        low, high = (extremes / total).tolist()
        value = high - low if self.statistic == "range" else max(high, -low)
        weighed = spread.total(1)
        if weighed > 0:
            sigma = math.sqrt(spread.total(0)) / weighed
        else:
            sigma = math.sqrt(float(np.sum(weight * p * (1.0 - p)))) / total
        return PooledValue(min(value, 1.0), details=self._tested(value, sigma))

    def _tested(self, value: float, sigma: float) -> Mapping[str, float]:
        """The value in units of what it varies by if the model is calibrated, and its p-value."""
        if not sigma > 0:
            return {}
        exceeds = range_exceeds if self.statistic == "range" else maximum_exceeds
        return {"in standard errors": value / sigma, "p-value": exceeds(value / sigma)}


ECCE = CumulativeCalibrationError()


@kernel
def _extremes(probability, weight, positive, out):  # type: ignore[no-untyped-def]
    """The least and the greatest sum of positives less predictions, from the lowest up, and 0."""
    total = 0.0
    lost = 0.0
    for i in range(probability.shape[0]):
        term = positive[i] - weight[i] * probability[i]
        next_total = total + term
        # What the rounding of each sum takes away is kept beside it.
        if abs(total) >= abs(term):
            lost += (total - next_total) + term
        else:
            lost += (term - next_total) + total
        total = next_total
        out[0] = min(out[0], total + lost)
        out[1] = max(out[1], total + lost)
