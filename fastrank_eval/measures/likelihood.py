"""How likely the labels are by the predicted probabilities: LogLoss, NE and RIG."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import REL
from fastrank_eval.measures.pooled_measure import (
    PooledValue,
    SummedMeasure,
    positive_mask,
    undefined,
)
from fastrank_eval.measures.probabilities import SAMPLING_RATE, recalibrated
from fastrank_eval.scratch import scratch
from fastrank_eval.states import ExactSums

if TYPE_CHECKING:
    from fastrank_eval.chunk import Scored

#: Probabilities are taken to lie at least this far from 0 and from 1.
CLAMP = 1e-15


class _Likelihood(SummedMeasure):
    """Measures of the likelihood of labels, from the same sums."""

    scores = "probability"
    options = (REL, SAMPLING_RATE)
    terms = ("loss", "weight", "positive", "clamped")

    def state_key(self) -> Hashable:
        return "likelihood", float(self.rel), float(self.sampling_rate)

    def add_rows(self, state: ExactSums, scored: Scored) -> None:
        probability = recalibrated(scored.score, self.sampling_rate)
        positive = positive_mask(scored, self.rel)
        loss = scratch("loss", len(probability), np.float64)
        clamped = int(_losses(probability, positive, CLAMP, loss))
        weight = scored.weight
        if weight is None:
            state.count(1, len(loss))
            state.count(2, int(np.count_nonzero(positive)))
        else:
            loss *= weight
            state.add(1, weight)
            state.add(2, weight[positive])
        state.add(0, loss)
        state.count(3, clamped)

    def of_sums(self, sums: Mapping[str, float]) -> PooledValue:
        if not sums["weight"] > 0:
            return undefined("zero_weight")
        loss, rate = sums["loss"] / sums["weight"], sums["positive"] / sums["weight"]
        found = self.of_loss(loss, rate)
        clamped = {"clamped rows": sums["clamped"]} if sums["clamped"] else {}
        return PooledValue(found.value, found.reason, clamped)

    def of_loss(self, loss: float, rate: float) -> PooledValue:
        """The value from the mean loss and the share of positives."""
        raise NotImplementedError  # pragma: no cover - abstract


class LogarithmicLoss(_Likelihood):
    """LogLoss, the mean negative log likelihood of the labels."""

    name = "LogLoss"
    summary = "mean negative log likelihood of the labels, natural logarithm"
    formula = (
        "- sum_i w_i (y_i ln p_i + (1 - y_i) ln(1 - p_i)) / sum_i w_i, p in [1e-15, 1 - 1e-15]"
    )
    reference = "Good (1952), doi:10.1111/j.2517-6161.1952.tb00104.x"
    spellings = ("log_loss", "cross_entropy", "BCE")
    higher_is_better = False
    range = (0.0, math.inf)

    def of_loss(self, loss: float, rate: float) -> PooledValue:
        return PooledValue(loss)


class NormalizedEntropy(_Likelihood):
    """NE, LogLoss over the entropy of the share of positives of the same rows."""

    name = "NE"
    summary = "LogLoss over the LogLoss of always predicting the share of positives of these rows"
    formula = "LogLoss / -(c ln c + (1 - c) ln(1 - c)), c the weighted share of positives"
    reference = "He et al. (2014), doi:10.1145/2648584.2648589"
    spellings: ClassVar[tuple[str, ...]] = ("normalized_entropy", "NCE")
    higher_is_better = False
    range = (0.0, math.inf)

    def of_loss(self, loss: float, rate: float) -> PooledValue:
        if not 0 < rate < 1:
            return undefined("single_class")
        return PooledValue(loss / -(rate * math.log(rate) + (1 - rate) * math.log1p(-rate)))


class InformationGain(NormalizedEntropy):
    """RIG, the share of the entropy that predictions take away: 1 - NE."""

    name = "RIG"
    summary = "relative information gain, 1 - NE"
    formula = "1 - NE"
    spellings = ("relative_information_gain",)
    higher_is_better = True
    range = (-math.inf, 1.0)

    def of_loss(self, loss: float, rate: float) -> PooledValue:
        entropy = super().of_loss(loss, rate)
        return PooledValue(1.0 - entropy.value, entropy.reason)


LogLoss = LogarithmicLoss()
NE = NormalizedEntropy()
RIG = InformationGain()


@kernel
def _losses(probability, positive, clamp, out):  # type: ignore[no-untyped-def]
    """Minus the logarithm of the probability of each label; how many had to be clamped."""
    clamped = 0
    for i in range(probability.shape[0]):
        p = np.float64(probability[i])
        if p < clamp or p > 1.0 - clamp:
            clamped += 1
            p = min(max(p, clamp), 1.0 - clamp)
        if positive[i]:
            out[i] = -math.log(p)
        else:
            out[i] = -math.log1p(-p)
    return clamped
