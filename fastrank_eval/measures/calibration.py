"""Measure calibration in bins and by field."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.jit import kernel, scratch
from fastrank_eval.measures.base import REL, Param, number, one_of, whole
from fastrank_eval.measures.likelihood import SAMPLING_RATE, recalibrated
from fastrank_eval.measures.pooled import (
    OrderedMeasure,
    PooledMeasure,
    PooledValue,
    positive_mask,
    undefined,
)
from fastrank_eval.stats.keyed_sums import KeyedSums
from fastrank_eval.stats.score_table import ScoreTable

if TYPE_CHECKING:
    from fastrank_eval.groups.chunk import Scored
    from fastrank_eval.stats.scores import PooledScores
    from fastrank_eval.stats.weighted_scores import InOrder, WeightedScores


BY = Param(
    "by",
    "width",
    "bins of equal 'width', [(j - 1) / bins, j / bins[ and the last with 1, or of equal 'count': "
    "by the place of the middle of rows with the same probability, so that ties stay together",
    one_of("width", "count"),
)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Distinct probabilities, lowest first, and the rows that have them.

    Parameters
    ----------
    probability : ndarray of float64, shape (values,)
        Strictly ascending.
    weight, positive : ndarray of int64 or float64, shape (values,)
        Rows, of which there are some, and positives among them, or their weight times a power of
        two.
    """

    probability: np.ndarray
    weight: np.ndarray
    positive: np.ndarray

    @classmethod
    def of(cls, table: ScoreTable, sampling_rate: float) -> Outcomes:
        """From a table of scores; those that become equal in putting them right are one."""
        # Neighbouring doubles may change places by rounding when they are put right.
        p = np.maximum.accumulate(
            np.asarray(recalibrated(table.score[::-1], sampling_rate), np.float64)
        )
        positive = table.positives[::-1]
        weight = positive + table.others[::-1]
        heavy = weight > 0
        if not heavy.all():
            p, weight, positive = p[heavy], weight[heavy], positive[heavy]
        fresh = np.append(True, p[1:] != p[:-1])
        if len(p) and not fresh.all():
            starts = np.flatnonzero(fresh)
            p = p[starts]
            weight, positive = (np.add.reduceat(part, starts) for part in (weight, positive))
        return cls(p, weight, positive)

    def bins(self, number: int, by: str) -> np.ndarray:
        """The bin of each probability, ascending. int64, shape (values,)."""
        if by == "width":
            edges = np.arange(1, number) / number
            return np.searchsorted(edges, self.probability, side="right")
        through = np.cumsum(self.weight)
        if self.weight.dtype.kind == "i":
            middle = 2 * through - self.weight
            return np.minimum(number * middle // (2 * through[-1:]), number - 1)
        middle = through - self.weight / 2
        # A hair above, so that rounded sums do not move what stands on the border of two bins.
        place = number * (middle / through[-1:]) + 1e-9
        return np.minimum(place.astype(np.int64), number - 1)

    def starts(self, number: int, by: str) -> np.ndarray:
        """Where the bins that have rows begin. int64, shape (bins,)."""
        bins = self.bins(number, by)
        return np.flatnonzero(np.append(True, bins[1:] != bins[:-1]))


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

# Sums of each value.


def _column(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ValueError("the name of a column")
    return value


FIELD = Param(
    "field",
    None,
    "the column whose values are told apart; it has to be given; null is a value",
    _column,
)


class _FieldCalibration(PooledMeasure):
    """Measures of the sums of predictions and positives of each value of a field.

    No standard error is given. A gap ``|predicted - observed|`` has no derivative where it is 0,
    which is where a calibrated model's gaps are: there its estimate is too high by as much as it
    varies, so that an interval from a linearisation does not hold the true gap.
    """

    options: ClassVar[tuple[Param, ...]] = (FIELD, REL, SAMPLING_RATE)
    scores = "probability"
    higher_is_better = False
    reference = "Pan et al. (2020), doi:10.1145/3366423.3380154"

    def check_complete(self) -> None:
        if self.field is None:
            raise MeasureError(f"{self.name} needs a column: {self.name}(field='advertiser').")

    def columns_named(self) -> tuple[str, ...]:
        return (self.field,)

    def state_key(self) -> Hashable:
        return "field", self.field, float(self.rel), float(self.sampling_rate)

    def new_state(self, weighted: bool, threads: int) -> KeyedSums:
        return KeyedSums(3)

    def add_rows(self, state: KeyedSums, scored: Scored) -> None:
        codes = scored.field(self.field)
        p = recalibrated(scored.score, self.sampling_rate)
        positive = positive_mask(scored, self.rel)
        weight = scored.weight
        if weight is None:
            state.count(_WEIGHT, codes)
            state.count(_POSITIVE, codes[positive])
            state.add(_PREDICTED, codes, p)
        else:
            state.add(_WEIGHT, codes, weight)
            state.add(_POSITIVE, codes[positive], weight[positive])
            state.add(_PREDICTED, codes, p * weight)

    def pooled_value(self, state: KeyedSums, in_order: InOrder) -> PooledValue:
        totals = state.totals()
        weight, positive, predicted = totals[:, totals[_WEIGHT] > 0]
        if not len(weight):
            return undefined("zero_weight")
        return self.of_values(weight, positive, predicted)

    def of_values(
        self, weight: np.ndarray, positive: np.ndarray, predicted: np.ndarray
    ) -> PooledValue:
        """The value from the sums of each value of the field, in no order."""
        raise NotImplementedError  # pragma: no cover - abstract


class FieldRelativeError(_FieldCalibration):
    """FieldRCE, how far predicted clicks are from observed, relative, over a field's values."""

    name = "FieldRCE"
    summary = (
        "mean over the values of a field, by their rows, of |predicted - observed| clicks over "
    )
    summary += "observed clicks; smoothing is added to the label of every row below the line"
    formula = (
        "sum_z W_z |sum_{i in z} w_i (y_i - p_i)| / sum_{i in z} w_i (y_i + smoothing) / sum_z W_z"
    )
    options = (
        FIELD,
        Param(
            "smoothing",
            0.01,
            "added to each row's label in the denominator, so that values without a click count; 0 "
            "leaves them out, rows and all",
            number(least=0),
        ),
        REL,
        SAMPLING_RATE,
    )
    spellings = ("field_rce", "Field_RCE")
    range = (0.0, math.inf)

    def of_values(
        self, weight: np.ndarray, positive: np.ndarray, predicted: np.ndarray
    ) -> PooledValue:
        observed = positive + self.smoothing * weight
        details = {
            "values of the field": len(weight),
            "values without a positive": int(np.count_nonzero(positive == 0)),
        }
        held = observed > 0
        if not held.any():
            return undefined("no_relevant")
        weight, gap, observed = weight[held], np.abs(predicted - positive)[held], observed[held]
        total = math.fsum(weight.tolist())
        relative = weight / total * (gap / observed)
        return PooledValue(math.fsum(relative.tolist()), details=details)


class FieldCalibrationError(_FieldCalibration):
    """FieldECE, how far predicted clicks are from observed ones over the values of a field."""

    name = "FieldECE"
    summary = "|predicted - observed| clicks of each value of a field, over all rows"
    formula = "sum_z |sum_{i in z} w_i (y_i - p_i)| / sum_i w_i"
    spellings = ("field_ece", "Field_ECE")

    def of_values(
        self, weight: np.ndarray, positive: np.ndarray, predicted: np.ndarray
    ) -> PooledValue:
        gaps = math.fsum(np.abs(predicted - positive).tolist())
        value = gaps / math.fsum(weight.tolist())
        return PooledValue(min(value, 1.0), details={"values of the field": len(weight)})


FieldRCE = FieldRelativeError()
FieldECE = FieldCalibrationError()
