"""ECE and MCE: predictions against what came about, in bins of the probability."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from fastrank_eval.errors import MeasureError
from fastrank_eval.kernel import kernel
from fastrank_eval.keyed_sums import KeyedSums
from fastrank_eval.measures.base import REL, Param, whole
from fastrank_eval.measures.pooled_measure import (
    OrderedMeasure,
    PooledValue,
    positive_mask,
    undefined,
)
from fastrank_eval.measures.probabilities import SAMPLING_RATE, recalibrated
from fastrank_eval.measures.probability_bins import BY, Outcomes
from fastrank_eval.scratch import scratch

if TYPE_CHECKING:
    from fastrank_eval.chunk import Scored
    from fastrank_eval.pooled_weights import InOrder

# Sums of each bin.
_WEIGHT, _POSITIVE, _PREDICTED = range(3)

BINS = Param("bins", None, "how many bins; it has to be given", whole(1, most=10**6, optional=True))


class _CalibrationError(OrderedMeasure):
    """What becomes of the gaps between mean prediction and share of positives of each bin.

    Bins of equal width are sums, those of equal count are cut from the table of scores. No standard
    error is given: a gap has no derivative at 0, which is where a calibrated model's gaps are, and
    its estimate there is too high by as much as it varies.
    """

    options = (BINS, BY, REL, SAMPLING_RATE)
    scores = "probability"
    higher_is_better = False

    def check_complete(self) -> None:
        if self.bins is None:
            raise MeasureError(
                f"{self.name} needs the number of bins, as {self.name}(bins=15): its value depends "
                "on it, so that it stands in the name. ECCE is without bins."
            )

    def state_key(self) -> Hashable:
        if self.by == "count":
            return super().state_key()
        return "bins", self.bins, float(self.rel), float(self.sampling_rate)

    def new_state(self, weighted: bool, threads: int) -> Any:
        return super().new_state(weighted, threads) if self.by == "count" else KeyedSums(3)

    def add_rows(self, state: Any, scored: Scored) -> None:
        if self.by == "count":
            super().add_rows(state, scored)
            return
        p = recalibrated(scored.score, self.sampling_rate)
        at = scratch("bins", len(p))
        _bins_of(p, np.arange(self.bins + 1) / self.bins, at)
        positive = positive_mask(scored, self.rel)
        weight = scored.weight
        if weight is None:
            state.count(_WEIGHT, at)
            state.count(_POSITIVE, at[positive])
            state.add(_PREDICTED, at, p)
        else:
            state.add(_WEIGHT, at, weight)
            state.add(_POSITIVE, at[positive], weight[positive])
            state.add(_PREDICTED, at, p * weight)

    def pooled_value(self, state: Any, in_order: InOrder) -> PooledValue:
        if self.by == "width":
            weight, positive, predicted = state.totals()
        else:
            outcomes = Outcomes.of(state.table(in_order), self.sampling_rate)
            if not len(outcomes.weight):
                return undefined("zero_weight")
            starts = outcomes.starts(self.bins, self.by)
            terms = (
                outcomes.weight,
                outcomes.positive,
                outcomes.probability * outcomes.weight,
            )
            weight, positive, predicted = (
                np.add.reduceat(np.asarray(term, np.float64), starts) for term in terms
            )
        held = weight > 0
        if not held.any():
            return undefined("zero_weight")
        gaps = np.abs(predicted - positive)[held]
        return PooledValue(min(self.of_gaps(gaps, weight[held]), 1.0))

    def of_gaps(self, gap: np.ndarray, weight: np.ndarray) -> float:
        """The value from each bin's distance between predicted and observed positives."""
        raise NotImplementedError  # pragma: no cover - abstract


class ExpectedCalibrationError(_CalibrationError):
    """ECE, the mean gap between prediction and observation over bins."""

    name = "ECE"
    summary = "mean over bins, by their rows, of |mean prediction - share of positives|"
    formula = "sum_b |sum_{i in b} w_i (p_i - y_i)| / sum_i w_i"
    reference = "Naeini et al. (2015), doi:10.1609/aaai.v29i1.9602; Guo et al. (2017)"
    spellings = ("expected_calibration_error",)

    def of_gaps(self, gap: np.ndarray, weight: np.ndarray) -> float:
        return math.fsum(gap.tolist()) / math.fsum(weight.tolist())


class MaximumCalibrationError(_CalibrationError):
    """MCE, the largest gap between prediction and observation in any bin."""

    name = "MCE"
    summary = "largest |mean prediction - share of positives| of any bin that has rows"
    formula = "max_b |sum_{i in b} w_i (p_i - y_i)| / sum_{i in b} w_i"
    reference = "Naeini et al. (2015), doi:10.1609/aaai.v29i1.9602"
    spellings = ("maximum_calibration_error",)

    def of_gaps(self, gap: np.ndarray, weight: np.ndarray) -> float:
        return float((gap / weight).max())


ECE = ExpectedCalibrationError()
MCE = MaximumCalibrationError()


@kernel
def _bins_of(probability, edges, out):  # type: ignore[no-untyped-def]
    """The last bin whose lower edge is not above the probability; 1 belongs to the last."""
    last = edges.shape[0] - 2
    width = np.float64(edges.shape[0] - 1)
    for i in range(probability.shape[0]):
        p = np.float64(probability[i])
        at = min(np.int64(p * width), last)
        # The product is rounded, the edges are what they are said to be.
        if p < edges[at]:
            at -= 1
        elif at < last and p >= edges[at + 1]:
            at += 1
        out[i] = at
