"""Measure probabilities by their loss and by their mean."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import ClassVar

import numpy as np

from fastrank_eval._lib.arguments import number
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.elementary import log, log1p
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.measures.base import PROBABILITY, REL, Param, word_or
from fastrank_eval.measures.clustered_sums import ChunkSums, ClusteredSums
from fastrank_eval.measures.pooled import PooledValue, SummedMeasure, positive_mask, undefined
from fastrank_eval.stats.exact import quotient
from fastrank_eval.stats.intervals import FEW_GROUPS

SAMPLING_RATE = Param(
    "sampling_rate",
    1,
    "share of the negatives that the model was trained on, in ]0, 1]: p becomes p / (p + (1 - p) / "
    "rate)",
    number(above=0, most=1),
)


def recalibrate(score: np.ndarray, sampling_rate: float) -> np.ndarray:
    """Correct probabilities of a model trained on a sample of the negatives.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,)
        In [0, 1].
    sampling_rate : float
        In ]0, 1]; 1 changes nothing.

    Returns
    -------
    ndarray, shape (rows,), read-only
        float64, or `score` itself.

    References
    ----------
    He et al. (2014), doi:10.1145/2648584.2648589, section 6.3.
    """
    if sampling_rate == 1:
        return score
    p = score.astype(np.float64)
    # The rate is above 0 and the sum at least 1, so there is no 0/0.
    with np.errstate(over="ignore"):  # for rates below 1e-308 the probability is 0
        return frozen(p / (p + (1.0 - p) / sampling_rate))


CLAMP = Param(
    "clamp",
    1e-15,
    "clamp probabilities to at least this far from 0 and 1; 'type': the epsilon of the type of "
    "the scores, 2.2e-16 for float64",
    word_or("type", number(above=0, below=0.5)),
)

#: Rows whose losses are computed and added at a time: intermediate arrays stay in the cache.
_BLOCK = 1 << 14

_SQRT_HALF_BITS = int(np.float64(math.sqrt(0.5)).view(np.int64))
#: ln 2 in two parts. The first has 32 binary places, so its product with an exponent is exact.
_LN2_HIGH = int(Decimal(2).ln() * (1 << 32)) / (1 << 32)
_LN2_LOW = float(Decimal(2).ln() - Decimal(_LN2_HIGH))


BACKGROUND = Param(
    "background",
    "slice",
    "the background share of positives: 'slice', that of these rows, or a number in ]0, 1[, such "
    "as the share of all rows or of the training rows",
    word_or("slice", PROBABILITY),
)


class _Likelihood(SummedMeasure):
    """Base class of measures of the likelihood of labels."""

    scores = "probability"
    options: ClassVar[tuple[Param, ...]] = (REL, SAMPLING_RATE, CLAMP)
    terms = ("loss", "weight", "positive", "clamped")
    detail_terms = 1
    denominators = ("weight",)
    denominator = "weight"
    #: Whether only positives have a loss.
    of_positives: ClassVar[bool] = False

    def state_key(self) -> Hashable:
        name = "likelihood of positives" if self.of_positives else "likelihood"
        key = name, float(self.rel), float(self.sampling_rate)
        return key if self.clamp == CLAMP.default else (*key, self.clamp)

    def add_terms(self, sums: ChunkSums, scored: Scored) -> None:
        positive = positive_mask(scored, self.rel)
        clamp, clamped = self.clamp, 0
        if clamp == "type":
            clamp = scored.epsilon or float(np.finfo(scored.score.dtype).eps)
        for lo in range(0, len(positive), _BLOCK):
            here = slice(lo, lo + _BLOCK)
            probability = recalibrate(scored.score[here], self.sampling_rate)
            loss, count = losses(probability, positive[here], clamp)
            clamped += count
            if self.of_positives:
                loss *= positive[here]
            if scored.weight is not None:
                loss *= scored.weight[here]
            sums.add(0, loss)
        sums.add_weights(1)
        sums.add_positives(2, self.rel)
        sums.add_detail(3, clamped)

    def from_sums(self, sums: Mapping[str, float]) -> PooledValue:
        loss, rate = sums["loss"] / sums["weight"], sums["positive"] / sums["weight"]
        result = self.from_loss(loss, rate)
        clamped = {"clamped rows": int(sums["clamped"])} if sums["clamped"] else {}
        return PooledValue(result.value, result.reason, clamped)

    def gradient(self, sums: Mapping[str, float]) -> dict[str, float]:
        weight = sums["weight"]
        loss, rate = sums["loss"] / weight, sums["positive"] / weight
        from_loss, of_rate = self.slopes(loss, rate)
        return {
            "loss": from_loss / weight,
            "positive": of_rate / weight,
            "weight": -(from_loss * loss + of_rate * rate) / weight,
        }

    def from_loss(self, loss: float, rate: float) -> PooledValue:
        """Compute the value from the mean loss and the share of positives."""
        raise NotImplementedError  # pragma: no cover - abstract

    def slopes(self, loss: float, rate: float) -> tuple[float, float]:
        """Return the derivatives by the mean loss and the share of positives."""
        raise NotImplementedError  # pragma: no cover - abstract


class LogarithmicLoss(_Likelihood):
    """LogLoss, the mean negative log likelihood of the labels."""

    name = "LogLoss"
    formula = (
        "- sum_i w_i (y_i ln p_i + (1 - y_i) ln(1 - p_i)) / sum_i w_i, p and 1 - p at least clamp"
    )
    reference = "Good (1952), doi:10.1111/j.2517-6161.1952.tb00104.x"
    aliases = ("log_loss", "cross_entropy", "BCE")
    higher_is_better = False
    range = (0.0, math.inf)

    def from_loss(self, loss: float, rate: float) -> PooledValue:
        return PooledValue(loss)

    def slopes(self, loss: float, rate: float) -> tuple[float, float]:
        return 1.0, 0.0


class NormalizedEntropy(_Likelihood):
    """NE, LogLoss over the entropy of a background share of positives."""

    name = "NE"
    formula = (
        "LogLoss / -(c ln c + (1 - c) ln(1 - c)), c the weighted share of positives or background"
    )
    reference = "He et al. (2014), doi:10.1145/2648584.2648589"
    aliases: ClassVar[tuple[str, ...]] = ("normalized_entropy", "NCE")
    options = (REL, SAMPLING_RATE, CLAMP, BACKGROUND)
    higher_is_better = False
    range = (0.0, math.inf)

    def from_loss(self, loss: float, rate: float) -> PooledValue:
        c = rate if self.background == "slice" else float(self.background)
        if not 0 < c < 1:
            return undefined("single_class")
        return PooledValue(loss / entropy_of(c))

    def slopes(self, loss: float, rate: float) -> tuple[float, float]:
        if self.background != "slice":
            return 1 / entropy_of(float(self.background)), 0.0
        entropy = entropy_of(rate)
        return 1 / entropy, -loss / entropy / entropy * (log1p(-rate) - log(rate))

    def with_error(self, result: PooledValue, state: ClusteredSums) -> PooledValue:
        """Count no more effective groups than make up the entropy of the rows."""
        result = super().with_error(result, state)
        if self.background != "slice" or not result.clusters:
            return result
        return replace(result, by_shares=min(result.by_shares, self._groups_behind(state)))

    def derivatives_of_pair(
        self, base: ClusteredSums, other: ClusteredSums
    ) -> tuple[list[float], list[float]]:
        """Treat the entropy of the rows as fixed if few groups make it up.

        The entropy of few positives moves with each of them, and so does the loss. A group with
        most of the positives would have an influence near 0, however much the models differ there,
        and equal models would differ in 15 to 40 % of the tables of few clicks.
        """
        own = super().derivatives_of_pair(base, other)
        if self.background != "slice" or not self._groups_behind(base) < FEW_GROUPS:
            return own
        return self._of_loss(base, own[0]), self._of_loss(other, own[1])

    def _of_loss(self, state: ClusteredSums, slopes: list[float]) -> list[float]:
        """Return the derivatives of the loss over a fixed entropy."""
        sums = self._sums(state)
        return [slopes[0], -slopes[0] * sums["loss"] / sums["weight"], 0.0]

    def _groups_behind(self, state: ClusteredSums) -> float:
        """Compute 1 / sum of squared shares of groups in the entropy of the rows."""
        _, weight, positive = range(state.moments.terms)
        sums, products = state.moments.exact()
        rate = sums[positive] / sums[weight]
        # A positive adds -ln c to the entropy, another row -ln(1 - c).
        of_positive, of_other = -log(rate), -log1p(-rate)
        total = of_positive * rate + of_other * ((sums[weight] - sums[positive]) / sums[weight])
        # Of positives and of others, in integers: rows of one class may outweigh the others by far.
        both = products[weight][positive] - products[positive][positive]
        others = products[weight][weight] - products[weight][positive] - both
        cells = (
            (products[positive][positive], of_positive * of_positive),
            (both, 2 * of_positive * of_other),
            (others, of_other * of_other),
        )
        unit = sums[weight] ** 2
        squares = sum(times * quotient(cell, unit) for cell, times in cells)
        return total * total / squares if squares > 0 else math.nan


class InformationGain(NormalizedEntropy):
    """RIG, the relative information gain, 1 - NE."""

    name = "RIG"
    formula = "1 - NE"
    aliases = ("relative_information_gain",)
    higher_is_better = True
    range = (-math.inf, 1.0)

    def from_loss(self, loss: float, rate: float) -> PooledValue:
        entropy = super().from_loss(loss, rate)
        return PooledValue(1.0 - entropy.value, entropy.reason)

    def slopes(self, loss: float, rate: float) -> tuple[float, float]:
        from_loss, of_rate = super().slopes(loss, rate)
        return -from_loss, -of_rate


class PositiveEntropy(NormalizedEntropy):
    """NEPos, the positives' part of the normalised entropy NE."""

    name = "NEPos"
    formula = "- sum_i w_i y_i ln p_i / sum_i w_i / -(c ln c + (1 - c) ln(1 - c))"
    reference = "He et al. (2014), doi:10.1145/2648584.2648589; TorchRec, ne_positive"
    aliases = ("ne_positive",)
    of_positives = True


def entropy_of(share: float) -> float:
    """Compute the entropy of a share in ]0, 1[, in nats."""
    return -(share * log(share) + (1 - share) * log1p(-share))


def losses(probability: np.ndarray, positive: np.ndarray, clamp: float) -> tuple[np.ndarray, int]:
    """Compute the negative log likelihood of each label.

    The relative error is at most 1e-15.

    Parameters
    ----------
    probability : ndarray of float32 or float64, shape (rows,), read-only
        Of the positive class, in [0, 1]; it and 1 - it are clamped to at least `clamp`.
    positive : ndarray of bool, shape (rows,)
    clamp : float

    Returns
    -------
    loss : ndarray of float64, shape (rows,)
        Scratch of the calling thread.
    clamped : int
        Number of clamped probabilities.
    """
    rows = len(probability)
    loss, likelihood, scaled = (
        scratch(use, rows, np.float64) for use in ("loss", "likelihood", "scaled")
    )
    exponent = scratch("exponent", rows)
    bits, mantissa = frozen(likelihood.view(np.int64)), scaled.view(np.int64)
    numbers = likelihood, bits, mantissa, scaled, exponent
    clamped = _losses(probability, positive, clamp, *numbers, loss)
    return loss, int(clamped)


@kernel
def _losses(probability, positive, clamp, likelihood, bits, mantissa, scaled, exponent, out):  # type: ignore[no-untyped-def]
    """Compute the negative log likelihoods; return the number of clamped ones.

    Each loop reads some arrays and writes others, so LLVM makes them SIMD. All machines give the
    same bits, because no multiplication is fused with an addition.

    Parameters
    ----------
    likelihood, scaled : ndarray of float64, shape (rows,)
        Scratch memory. `bits` and `mantissa` are the bits of `likelihood` and of `scaled`.
    """
    clamped = 0
    highest = 1.0 - clamp
    lost = (1.0 - highest) - clamp
    for i in range(probability.shape[0]):
        p = np.float64(probability[i])
        other = 1.0 - p
        # Near 1 this difference is exact, where 1 - clamp may be rounded.
        clamped += (p < clamp) | (other < clamp)
        least, error = (p, 0.0) if positive[i] else (other, (1.0 - other) - p)
        most = other if positive[i] else p
        least = max(least, clamp)
        # The likelihood is `likelihood` + `out`, the rounding error of a difference from 1: it
        # matters if the other class has a small probability and the power below is 0.
        likelihood[i] = highest if most < clamp else least
        out[i] = lost if most < clamp else (error if least > clamp else 0.0)
    for i in range(probability.shape[0]):
        # A power of two times a number in [sqrt(1/2), sqrt(2)[.
        power = (bits[i] - _SQRT_HALF_BITS) >> 52
        exponent[i] = power
        mantissa[i] = bits[i] - (power << 52)
    for i in range(probability.shape[0]):
        f = (scaled[i] - 1.0) + out[i]
        s = f / (2.0 + f)
        z = s * s
        # ln((1 + s) / (1 - s)) = 2 s (1 + z / 3 + z^2 / 5 ...), z < 0.0295; 2 s = f - s f. Pairs
        # of terms are computed in parallel.
        square = z * z
        first = (2.0 / 3.0 + z * (2.0 / 5.0)) + square * (2.0 / 7.0 + z * (2.0 / 9.0))
        second = (2.0 / 11.0 + z * (2.0 / 13.0)) + square * (2.0 / 15.0 + z * (2.0 / 17.0))
        fourth = square * square
        rest = z * (first + fourth * (second + fourth * (2.0 / 19.0 + z * (2.0 / 21.0))))
        power = np.float64(exponent[i])
        out[i] = -(power * _LN2_HIGH + (f + (power * _LN2_LOW - s * (f - rest))))
    return clamped


class _Deviation(SummedMeasure):
    """Base class of weighted means of deviations of scores from labels."""

    terms = ("deviation", "weight")
    denominators = ("weight",)
    denominator = "weight"
    scores = "finite number"
    higher_is_better = False
    range = (0.0, math.inf)

    def deviations(self, difference: np.ndarray) -> np.ndarray:
        """Compute the terms from score minus label; may overwrite the array."""
        return np.square(difference, out=difference)

    def outcome(self, scored: Scored) -> np.ndarray:
        """Return the outcome that each row's score is compared with."""
        label = scored.chunk.columns.label
        return label if scored.scored_rows is None else label[scored.scored_rows]

    def predicted(self, score: np.ndarray) -> np.ndarray:
        """Return the prediction that is compared with the outcome."""
        return score

    def add_terms(self, sums: ChunkSums, scored: Scored) -> None:
        outcome, weight = self.outcome(scored), scored.weight
        for lo in range(0, len(outcome), _BLOCK):
            here = slice(lo, lo + _BLOCK)
            difference = self.predicted(scored.score[here]).astype(np.float64)
            difference -= outcome[here]
            with np.errstate(over="ignore"):
                terms = self.deviations(difference)
                if weight is not None:
                    terms *= weight[here]
            if not terms.max() < np.inf:
                raise MeasureError(
                    f"{self.display_name}: scores, labels or weights are so large that a term "
                    "exceeds the largest double; scale them down."
                )
            sums.add(0, terms)
        sums.add_weights(1)

    def from_sums(self, sums: Mapping[str, float]) -> PooledValue:
        return PooledValue(self.from_mean(sums["deviation"] / sums["weight"]))

    def gradient(self, sums: Mapping[str, float]) -> dict[str, float]:
        mean = sums["deviation"] / sums["weight"]
        slope = self.slope(mean) / sums["weight"]
        return {"deviation": slope, "weight": -slope * mean}

    def from_mean(self, mean: float) -> float:
        """Compute the value from the mean of the deviations."""
        return mean

    def slope(self, mean: float) -> float:
        """Return the derivative of `from_mean`."""
        return 1.0


class MeanAbsoluteError(_Deviation):
    """MAE, the mean distance of scores from labels, as numbers."""

    name = "MAE"
    formula = "sum_i w_i |s_i - l_i| / sum_i w_i"
    reference = "Willmott & Matsuura (2005), doi:10.3354/cr030079"
    aliases = ("mean_absolute_error",)

    def state_key(self) -> Hashable:
        return "absolute deviation"

    def deviations(self, difference: np.ndarray) -> np.ndarray:
        return np.abs(difference, out=difference)


class MeanSquaredError(_Deviation):
    """MSE, the mean squared distance of scores from labels, as numbers."""

    name = "MSE"
    formula = "sum_i w_i (s_i - l_i)^2 / sum_i w_i"
    reference = "Willmott & Matsuura (2005), doi:10.3354/cr030079"
    aliases = ("mean_squared_error",)

    def state_key(self) -> Hashable:
        return "squared deviation"


class RootMeanSquaredError(MeanSquaredError):
    """RMSE, the root of MSE."""

    name = "RMSE"
    formula = "sqrt(MSE)"
    aliases = ("root_mean_squared_error",)

    def from_mean(self, mean: float) -> float:
        return math.sqrt(mean)

    def slope(self, mean: float) -> float:
        # If no row deviates, no group does: the error is 0 for any slope, as for MSE.
        return 0.5 / math.sqrt(mean) if mean > 0 else 0.0


class BrierScore(_Deviation):
    """Brier, the mean squared distance of probabilities from the outcomes.

    It is Reliability - Resolution + Uncertainty.
    """

    name = "Brier"
    formula = "sum_i w_i (p_i - y_i)^2 / sum_i w_i"
    reference = "Brier (1950), doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2"
    aliases = ("brier_score", "brier_score_loss")
    options = (REL, SAMPLING_RATE)
    scores = "probability"
    range = (0.0, 1.0)

    def state_key(self) -> Hashable:
        return "Brier", float(self.rel), float(self.sampling_rate)

    def outcome(self, scored: Scored) -> np.ndarray:
        return positive_mask(scored, self.rel)

    def predicted(self, score: np.ndarray) -> np.ndarray:
        return recalibrate(score, self.sampling_rate)


#: Rows whose products with the weight are computed and added at a time.
_MEAN_BLOCK = 1 << 15


class _MeanPrediction(SummedMeasure):
    """Base class of measures from the sums of predictions and of positives."""

    options = (REL, SAMPLING_RATE)
    scores = "probability"
    terms = ("predicted", "positive", "weight")
    denominators = ("positive", "weight")
    higher_is_better = False
    has_direction = False

    def state_key(self) -> Hashable:
        return "mean prediction", float(self.rel), float(self.sampling_rate)

    def add_terms(self, sums: ChunkSums, scored: Scored) -> None:
        weight = scored.weight
        for lo in range(0, len(scored.score), _MEAN_BLOCK):
            here = slice(lo, lo + _MEAN_BLOCK)
            predicted = recalibrate(scored.score[here], self.sampling_rate)
            sums.add(0, predicted if weight is None else predicted * weight[here])
        sums.add_positives(1, self.rel)
        sums.add_weights(2)


class PredictedOverObserved(_MeanPrediction):
    """PCOC, predicted over observed clicks; above 1 it over-estimates."""

    name = "PCOC"
    formula = "sum_i w_i p_i / sum_i w_i y_i"
    reference = "He et al. (2014), doi:10.1145/2648584.2648589 (there: calibration)"
    aliases = ("predicted_click_over_click", "calibration_ratio")
    denominator = "positive"
    range = (0.0, math.inf)

    def from_sums(self, sums: Mapping[str, float]) -> PooledValue:
        if not sums["positive"] > 0:
            return undefined("no_relevant")
        return PooledValue(sums["predicted"] / sums["positive"])

    def gradient(self, sums: Mapping[str, float]) -> dict[str, float]:
        positive = sums["positive"]
        return {"predicted": 1 / positive, "positive": -sums["predicted"] / positive / positive}


class MeanBias(_MeanPrediction):
    """Bias, the mean prediction less the share of positives."""

    name = "Bias"
    formula = "sum_i w_i (p_i - y_i) / sum_i w_i; PCOC - 1 is the same over the share of positives"
    reference = "Murphy & Winkler (1987), doi:10.1175/1520-0493(1987)115<1330:AGFFFV>2.0.CO;2"
    aliases = ("mean_error",)
    denominator = "weight"
    range = (-1.0, 1.0)

    def from_sums(self, sums: Mapping[str, float]) -> PooledValue:
        return PooledValue((sums["predicted"] - sums["positive"]) / sums["weight"])

    def gradient(self, sums: Mapping[str, float]) -> dict[str, float]:
        weight = sums["weight"]
        bias = (sums["predicted"] - sums["positive"]) / weight
        return {"predicted": 1 / weight, "positive": -1 / weight, "weight": -bias / weight}
