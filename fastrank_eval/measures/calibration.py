"""Measure calibration in bins, by field and cumulated.

Measure probabilities after their odds are rescaled to fit the mean.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fastrank_eval._lib.arguments import integer, number, one_of
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import exp, log, log_each, two_sum
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import JobMap, scratch
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.measures.base import REL, Param
from fastrank_eval.measures.likelihood import (
    BACKGROUND,
    CLAMP,
    SAMPLING_RATE,
    entropy_of,
    losses,
    recalibrate,
)
from fastrank_eval.measures.pooled import (
    OrderedMeasure,
    PooledMeasure,
    PooledState,
    PooledValue,
    positive_mask,
    undefined,
)
from fastrank_eval.stats.hypothesis_tests import maximum_exceeds, range_exceeds
from fastrank_eval.stats.row_sums import RowSums
from fastrank_eval.stats.score_runs import ScoreTable
from fastrank_eval.stats.scores import Scores

BY = Param(
    "by",
    "width",
    "bins of equal 'width', [(j - 1) / bins, j / bins[ and the last with 1, or of equal 'count': "
    "by the middle rank of rows with the same probability, so that ties stay together",
    one_of("width", "count"),
)


@dataclass(frozen=True)
class Outcomes:
    """Distinct probabilities, lowest first, and the rows that have them.

    Parameters
    ----------
    probability : ndarray of float64, shape (values,)
        Strictly ascending.
    weight, positive : ndarray of int64 or float64, shape (values,)
        Rows (at least one) and positives with the probability, or their weight times a power of
        two.
    """

    probability: np.ndarray
    weight: np.ndarray
    positive: np.ndarray

    @classmethod
    def of(cls, table: ScoreTable, sampling_rate: float) -> Outcomes:
        """Make outcomes from scores; merge those equal after recalibration."""
        # Rounding in the recalibration may reverse neighbouring doubles.
        p = np.maximum.accumulate(
            np.asarray(recalibrate(table.score[::-1], sampling_rate), np.float64)
        )
        positive = table.positives[::-1]
        weight = positive + table.others[::-1]
        has_weight = weight > 0
        if not has_weight.all():
            p, weight, positive = p[has_weight], weight[has_weight], positive[has_weight]
        is_first = np.append(True, p[1:] != p[:-1])
        if len(p) and not is_first.all():
            starts = np.flatnonzero(is_first)
            p = p[starts]
            weight, positive = (np.add.reduceat(part, starts) for part in (weight, positive))
        return cls(p, weight, positive)

    def bins(self, number: int, by: str) -> np.ndarray:
        """Return the bin of each probability, ascending. int64, shape (values,)."""
        if by == "width":
            edges = np.arange(1, number) / number
            return np.searchsorted(edges, self.probability, side="right")
        through = np.cumsum(self.weight)
        if self.weight.dtype.kind == "i":
            middle = 2 * through - self.weight
            return np.minimum(number * middle // (2 * through[-1:]), number - 1)
        middle = through - self.weight / 2
        # The 1e-9 keeps values on the border of two bins in the upper one despite rounding.
        index = number * (middle / through[-1:]) + 1e-9
        return np.minimum(index.astype(np.int64), number - 1)

    def starts(self, number: int, by: str) -> np.ndarray:
        """Return the first index of each bin that has rows. int64, shape (bins,)."""
        bins = self.bins(number, by)
        return np.flatnonzero(np.append(True, bins[1:] != bins[:-1]))


# Sums of each bin, or each value of a field.
_WEIGHT, _POSITIVE, _PREDICTED = range(3)


BINS = Param("bins", None, "number of bins; required", integer(1, most=10**6, optional=True))


class _SumsByKey(PooledMeasure):
    """Base class: weight, positives and predictions by bin or value.

    There is no standard error: a gap of prediction and share of positives has no derivative at 0,
    and the gaps of a calibrated model are near 0. There the estimate is too high by about its own
    variation, and a linearised interval does not cover the true gap.
    """

    scores = "probability"
    higher_is_better = False

    def totals(self, state: Any, map_jobs: JobMap) -> np.ndarray:
        """Return the sums of each key. float64, shape (3, keys)."""
        sums: np.ndarray = state.totals()
        return sums

    def pooled_value(self, state: Any, map_jobs: JobMap) -> PooledValue:
        totals = self.totals(state, map_jobs)
        weight, positive, predicted = totals[:, totals[_WEIGHT] > 0]
        if not len(weight):
            return undefined("zero_weight")
        return self.from_sums(weight, positive, predicted)

    def from_sums(
        self, weight: np.ndarray, positive: np.ndarray, predicted: np.ndarray
    ) -> PooledValue:
        """Compute the value from the sums of keys with a weight, in any order.

        By default it is the mean gap.
        """
        gaps = math.fsum(np.abs(predicted - positive).tolist())
        return PooledValue(min(gaps / math.fsum(weight.tolist()), 1.0))


class _CalibrationError(_SumsByKey, OrderedMeasure):
    """Base class: gaps between mean prediction and share of positives, by bin.

    Bins of equal width are sums. Bins of equal count are cut from the table of scores.
    """

    options = (BINS, BY, REL, SAMPLING_RATE)

    def check_complete(self) -> None:
        if self.bins is None:
            raise MeasureError(
                f"{self.name}: bins must be given, because the value depends on it; write "
                f"{self.name}(bins=15), or use ECCE, which has no bins."
            )

    def state_key(self) -> Hashable:
        if self.by == "count":
            return super().state_key()
        return "bins", self.bins, float(self.rel), float(self.sampling_rate)

    def new_state(self, weighted: bool, threads: int) -> PooledState:
        return super().new_state(weighted, threads) if self.by == "count" else RowSums(3, self.bins)

    def add_rows(self, state: Any, scored: Scored) -> None:
        if self.by == "count":
            super().add_rows(state, scored)
            return
        p = recalibrate(scored.score, self.sampling_rate)
        bins = scratch("bins", len(p))
        _bins_of(p, np.arange(self.bins + 1) / self.bins, bins)
        _add_rows(state, bins, p, scored, self.rel)

    def totals(self, state: Any, map_jobs: JobMap) -> np.ndarray:
        if self.by == "width":
            return super().totals(state, map_jobs)
        outcomes = Outcomes.of(state.table(map_jobs), self.sampling_rate)
        predicted = outcomes.probability * outcomes.weight
        terms = np.array([outcomes.weight, outcomes.positive, predicted], np.float64)
        starts = outcomes.starts(self.bins, self.by)
        return np.add.reduceat(terms, starts, axis=1) if len(predicted) else terms


class ExpectedCalibrationError(_CalibrationError):
    """ECE, the mean over bins of |mean prediction - share of positives|."""

    name = "ECE"
    formula = "sum_b |sum_{i in b} w_i (p_i - y_i)| / sum_i w_i"
    reference = "Naeini et al. (2015), doi:10.1609/aaai.v29i1.9602; Guo et al. (2017)"
    aliases = ("expected_calibration_error",)


class MaximumCalibrationError(_CalibrationError):
    """MCE, the largest |mean prediction - share of positives| of any bin."""

    name = "MCE"
    formula = "max_b |sum_{i in b} w_i (p_i - y_i)| / sum_{i in b} w_i"
    reference = "Naeini et al. (2015), doi:10.1609/aaai.v29i1.9602"
    aliases = ("maximum_calibration_error",)

    def from_sums(
        self, weight: np.ndarray, positive: np.ndarray, predicted: np.ndarray
    ) -> PooledValue:
        gaps = np.abs(predicted - positive) / weight
        return PooledValue(min(float(gaps.max()), 1.0))


def _add_rows(state: RowSums, keys: np.ndarray, p: np.ndarray, scored: Scored, rel: float) -> None:
    """Add weights, positives and predictions by key, a bin or a value."""
    positive, weight = positive_mask(scored, rel), scored.weight
    if weight is None:
        state.count_keys(_WEIGHT, keys)
        state.count_keys(_POSITIVE, keys[positive])
        state.add(_PREDICTED, p, keys)
    else:
        state.add(_WEIGHT, weight, keys)
        state.add(_POSITIVE, weight[positive], keys[positive])
        state.add(_PREDICTED, p * weight, keys)


@kernel
def _bins_of(probability, edges, out):  # type: ignore[no-untyped-def]
    """Find the last bin whose lower edge is not above the probability."""
    last = edges.shape[0] - 2
    width = np.float64(edges.shape[0] - 1)
    for i in range(probability.shape[0]):
        p = np.float64(probability[i])
        bin_index = min(np.int64(p * width), last)
        # The product is rounded, the edges are exact.
        if p < edges[bin_index]:
            bin_index -= 1
        elif bin_index < last and p >= edges[bin_index + 1]:
            bin_index += 1
        out[i] = bin_index


_BINS = Param(
    "bins",
    None,
    "number of bins; None: one bin for each distinct probability, which is exact",
    integer(1, most=10**6, optional=True),
)
_PAPER = "Murphy (1973), doi:10.1175/1520-0450(1973)012<0595:ANVPOT>2.0.CO;2"


class _BrierPart(OrderedMeasure):
    """Base class of the parts of the Brier score."""

    options: ClassVar[tuple[Param, ...]] = (_BINS, BY, REL, SAMPLING_RATE)
    scores = "probability"
    reference = _PAPER

    def pooled_value(self, state: Scores, map_jobs: JobMap) -> PooledValue:
        outcomes = Outcomes.of(state.table(map_jobs), self.sampling_rate)
        if not len(outcomes.weight):
            return undefined("zero_weight")
        weight = outcomes.weight / outcomes.weight.sum()
        p, share = outcomes.probability, outcomes.positive / outcomes.weight
        if self.bins is None:
            return self.from_bins(p, share, weight, {})
        starts = outcomes.starts(self.bins, self.by)
        of_bin = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(p)))
        weights = np.add.reduceat(weight, starts)
        means, shares = (np.add.reduceat(weight * x, starts) / weights for x in (p, share))
        deviation = p - means[of_bin]
        within = {
            "within-bin variance": float(np.sum(weight * deviation**2)),
            "within-bin covariance": float(
                np.sum(2 * weight * deviation * (share - shares[of_bin]))
            ),
        }
        return self.from_bins(means, shares, weights, within)

    def from_bins(
        self, p: np.ndarray, share: np.ndarray, weight: np.ndarray, within: Mapping[str, float]
    ) -> PooledValue:
        """Compute the value from prediction, positives and weight by bin."""
        raise NotImplementedError  # pragma: no cover - abstract


class BrierReliability(_BrierPart):
    """Reliability, the part of the Brier score that calibration could remove."""

    name = "Reliability"
    formula = "sum_k W_k (p_k - o_k)^2 / sum_k W_k, o_k the share of positives where p = p_k"
    higher_is_better = False

    def from_bins(
        self, p: np.ndarray, share: np.ndarray, weight: np.ndarray, within: Mapping[str, float]
    ) -> PooledValue:
        return PooledValue(float(np.sum(weight * (p - share) ** 2)))


class BrierResolution(_BrierPart):
    """Resolution, the variance of the share of positives between predictions.

    With bins, Brier is Reliability - Resolution + Uncertainty + within-bin variance - covariance.
    """

    name = "Resolution"
    formula = "sum_k W_k (o_k - o)^2 / sum_k W_k, o the share of positives of all rows"
    reference = f"{_PAPER}; Stephenson et al. (2008), doi:10.1175/2007WAF2006116.1"

    def from_bins(
        self, p: np.ndarray, share: np.ndarray, weight: np.ndarray, within: Mapping[str, float]
    ) -> PooledValue:
        rate = float(np.sum(weight * share))
        return PooledValue(float(np.sum(weight * (share - rate) ** 2)), details=within)


class BrierUncertainty(_BrierPart):
    """Uncertainty, the Brier score of predicting the share of positives."""

    name = "Uncertainty"
    formula = "o (1 - o), o the weighted share of positives of all rows"
    options = (REL,)
    scores = "order"
    higher_is_better = False

    def pooled_value(self, state: Scores, map_jobs: JobMap) -> PooledValue:
        table = state.table(map_jobs)
        total = table.positive + table.other
        if not total > 0:
            return undefined("zero_weight")
        return PooledValue((table.positive / total) * (table.other / total))


def _column(value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ValueError("the name of a column")
    return value


FIELD = Param(
    "field", None, "the column whose values define the parts; required; null is a value", _column
)


class _FieldCalibration(_SumsByKey):
    """Base class: sums of predictions and positives by value of a field."""

    options: ClassVar[tuple[Param, ...]] = (FIELD, REL, SAMPLING_RATE)
    reference = "Pan et al. (2020), doi:10.1145/3366423.3380154"

    def check_complete(self) -> None:
        if self.field is None:
            raise MeasureError(f"{self.name} needs a column: {self.name}(field='advertiser').")

    def columns_named(self) -> tuple[str, ...]:
        return (self.field,)

    def state_key(self) -> Hashable:
        return "field", self.field, float(self.rel), float(self.sampling_rate)

    def new_state(self, weighted: bool, threads: int) -> RowSums:
        return RowSums(3)

    def add_rows(self, state: RowSums, scored: Scored) -> None:
        p = recalibrate(scored.score, self.sampling_rate)
        _add_rows(state, scored.field(self.field), p, scored, self.rel)


class FieldRelativeError(_FieldCalibration):
    """FieldRCE, the relative error of predicted clicks by value of a field.

    It is the mean over the values, by their rows, of the distance of predicted and observed clicks,
    over observed clicks.
    """

    name = "FieldRCE"
    formula = (
        "sum_z W_z |sum_{i in z} w_i (y_i - p_i)| / sum_{i in z} w_i (y_i + smoothing) / sum_z W_z"
    )
    options = (
        FIELD,
        Param(
            "smoothing",
            0.01,
            "added to each row's label in the denominator, so that values without a click count; "
            "0 leaves out these values and their rows",
            number(least=0),
        ),
        REL,
        SAMPLING_RATE,
    )
    aliases = ("field_rce", "Field_RCE")
    range = (0.0, math.inf)

    def from_sums(
        self, weight: np.ndarray, positive: np.ndarray, predicted: np.ndarray
    ) -> PooledValue:
        observed = positive + self.smoothing * weight
        details = {
            "values of the field": len(weight),
            "values without a positive": int(np.count_nonzero(positive == 0)),
        }
        filled = observed > 0
        if not filled.any():
            return undefined("no_relevant")
        gap = np.abs(predicted - positive)[filled]
        weight, observed = weight[filled], observed[filled]
        total = math.fsum(weight.tolist())
        relative = weight / total * (gap / observed)
        return PooledValue(math.fsum(relative.tolist()), details=details)


class FieldCalibrationError(_FieldCalibration):
    """FieldECE, the error of predicted clicks by value of a field."""

    name = "FieldECE"
    formula = "sum_z |sum_{i in z} w_i (y_i - p_i)| / sum_i w_i"
    aliases = ("field_ece", "Field_ECE")

    def from_sums(
        self, weight: np.ndarray, positive: np.ndarray, predicted: np.ndarray
    ) -> PooledValue:
        result = super().from_sums(weight, positive, predicted)
        return replace(result, details={"values of the field": len(weight)})


class _ClickVariance(PooledMeasure):
    """The variance of clicks of a calibrated model, for rows with weights."""

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
        p = np.asarray(recalibrate(scored.score, self.rate), np.float64)
        state.add(0, (scored.weight * p) * (scored.weight * (1.0 - p)))
        state.add(1, scored.weight)


class CumulativeCalibrationError(OrderedMeasure):
    """ECCE, calibration without bins: extremes of clicks less predictions.

    Clicks less predictions are summed from the lowest prediction up. The range of the sum is
    Kuiper's statistic, its maximum Kolmogorov and Smirnov's.
    """

    name = "ECCE"
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
            "'range' of the cumulative differences (ECCE-R, Kuiper), which shows a deviation at "
            "any probability, or their 'max' (ECCE-MAD)",
            one_of("range", "max"),
        ),
        REL,
        SAMPLING_RATE,
    )
    scores = "probability"
    higher_is_better = False

    def required_states(self) -> tuple[PooledMeasure, ...]:
        return self, _ClickVariance(float(self.sampling_rate))

    def pooled_value(self, state: Any, map_jobs: JobMap) -> PooledValue:
        scores, spread = state
        table = scores.table(map_jobs)
        outcomes = Outcomes.of(table, self.sampling_rate)
        if not len(outcomes.weight):
            return undefined("zero_weight")
        p, weight = outcomes.probability, outcomes.weight.astype(np.float64)
        total = float(outcomes.weight.sum())
        extremes = np.zeros(2)
        _extremes(frozen(p), frozen(weight), frozen(outcomes.positive.astype(np.float64)), extremes)
        low, high = (extremes / total).tolist()
        value = high - low if self.statistic == "range" else max(high, -low)
        total_weight = spread.total(1)
        if total_weight > 0:
            sigma = math.sqrt(spread.total(0)) / total_weight
        else:
            sigma = math.sqrt(float(np.sum(weight * p * (1.0 - p)))) / total
        return PooledValue(min(value, 1.0), details=self._test_details(value, sigma))

    def _test_details(self, value: float, sigma: float) -> Mapping[str, float]:
        """Return the value in standard errors, and its p-value."""
        if not sigma > 0:
            return {}
        exceeds = range_exceeds if self.statistic == "range" else maximum_exceeds
        return {"in standard errors": value / sigma, "p-value": exceeds(value / sigma)}


@kernel
def _extremes(probability, weight, positive, out):  # type: ignore[no-untyped-def]
    """Find the extremes of 0 and the cumulated positives less predictions."""
    total = 0.0
    compensation = 0.0
    for i in range(probability.shape[0]):
        term = positive[i] - weight[i] * probability[i]
        # Compensated summation: the rounding of each sum is added separately.
        total, rest = two_sum(total, term)
        compensation += rest
        out[0] = min(out[0], total + compensation)
        out[1] = max(out[1], total + compensation)


class CalibrationFreeEntropy(OrderedMeasure):
    """CalFreeNE, calibration-free NE: NE after the odds are rescaled.

    All odds are multiplied by the one factor that makes predicted and observed clicks equal. What
    is left is ranking and shape.
    """

    name = "CalFreeNE"
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
        predicted, lost = two_sum(predicted, term)
        rest += lost
        slope += term * (divisor * other[i] / scale)
    sums[0] = predicted + rest
    sums[1] = slope
