"""What the Brier score is made of: Reliability - Resolution + Uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fastrank_eval.measures.base import REL, Param, whole
from fastrank_eval.measures.pooled_measure import OrderedMeasure, PooledValue, undefined
from fastrank_eval.measures.probabilities import SAMPLING_RATE
from fastrank_eval.measures.probability_bins import BY, Outcomes

if TYPE_CHECKING:
    from fastrank_eval.pooled import PooledScores
    from fastrank_eval.pooled_weights import InOrder, WeightedScores

_BINS = Param(
    "bins",
    None,
    "how many bins; None takes rows of each distinct probability together, which is exact",
    whole(1, most=10**6, optional=True),
)
_PAPER = "Murphy (1973), doi:10.1175/1520-0450(1973)012<0595:ANVPOT>2.0.CO;2"


class _BrierPart(OrderedMeasure):
    """A part of the Brier score."""

    options: ClassVar[tuple[Param, ...]] = (_BINS, BY, REL, SAMPLING_RATE)
    scores = "probability"
    reference = _PAPER

    def pooled_value(self, state: PooledScores | WeightedScores, in_order: InOrder) -> PooledValue:
        outcomes = Outcomes.of(state.table(in_order), self.sampling_rate)
        if not len(outcomes.weight):
            return undefined("zero_weight")
        weight = outcomes.weight / outcomes.weight.sum()
        p, share = outcomes.probability, outcomes.positive / outcomes.weight
        if self.bins is None:
            return self.of_bins(p, share, weight, {})
        starts = outcomes.starts(self.bins, self.by)
        of_bin = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(p)))
        weights = np.add.reduceat(weight, starts)
        means, shares = (np.add.reduceat(weight * x, starts) / weights for x in (p, share))
        aside = p - means[of_bin]
        within = {
            "within-bin variance": float(np.sum(weight * aside**2)),
            "within-bin covariance": float(np.sum(2 * weight * aside * (share - shares[of_bin]))),
        }
        return self.of_bins(means, shares, weights, within)

    def of_bins(
        self, p: np.ndarray, share: np.ndarray, weight: np.ndarray, within: Mapping[str, float]
    ) -> PooledValue:
        """The value from the mean prediction, the share of positives and the weight of each bin."""
        raise NotImplementedError  # pragma: no cover - abstract


class BrierReliability(_BrierPart):
    """Reliability, what of the Brier score better calibration would take away."""

    name = "Reliability"
    summary = "mean squared distance between prediction and share of positives of the rows that "
    summary += "have it: what of Brier calibration could take away"
    formula = "sum_k W_k (p_k - o_k)^2 / sum_k W_k, o_k the share of positives where p = p_k"
    higher_is_better = False

    def of_bins(
        self, p: np.ndarray, share: np.ndarray, weight: np.ndarray, within: Mapping[str, float]
    ) -> PooledValue:
        return PooledValue(float(np.sum(weight * (p - share) ** 2)))


class BrierResolution(_BrierPart):
    """Resolution, how far predictions tell rows of more positives from rows of fewer."""

    name = "Resolution"
    summary = "variance of the share of positives between predictions; with bins, Brier is "
    summary += "Reliability - Resolution + Uncertainty + within-bin variance - covariance"
    formula = "sum_k W_k (o_k - o)^2 / sum_k W_k, o the share of positives of all rows"
    reference = f"{_PAPER}; Stephenson et al. (2008), doi:10.1175/2007WAF2006116.1"

    def of_bins(
        self, p: np.ndarray, share: np.ndarray, weight: np.ndarray, within: Mapping[str, float]
    ) -> PooledValue:
        rate = float(np.sum(weight * share))
        return PooledValue(float(np.sum(weight * (share - rate) ** 2)), details=within)


class BrierUncertainty(_BrierPart):
    """Uncertainty, the Brier score of always predicting the share of positives."""

    name = "Uncertainty"
    summary = "Brier score of always predicting the share of positives: it depends on no prediction"
    formula = "o (1 - o), o the weighted share of positives of all rows"
    options = (REL,)
    scores = "order"
    higher_is_better = False

    def pooled_value(self, state: PooledScores | WeightedScores, in_order: InOrder) -> PooledValue:
        table = state.table(in_order)
        total = table.positive + table.other
        if not total > 0:
            return undefined("zero_weight")
        return PooledValue((table.positive / total) * (table.other / total))


Reliability = BrierReliability()
Resolution = BrierResolution()
Uncertainty = BrierUncertainty()
