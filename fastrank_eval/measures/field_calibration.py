"""Calibration by the values of a field, such as advertisers or positions: FieldRCE and FieldECE."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fastrank_eval.errors import MeasureError
from fastrank_eval.keyed_sums import KeyedSums
from fastrank_eval.measures.base import REL, Param, number
from fastrank_eval.measures.pooled_measure import (
    PooledMeasure,
    PooledValue,
    positive_mask,
    undefined,
)
from fastrank_eval.measures.probabilities import SAMPLING_RATE, recalibrated

if TYPE_CHECKING:
    from fastrank_eval.chunk import Scored
    from fastrank_eval.pooled_weights import InOrder

# Sums of each value.
_WEIGHT, _POSITIVE, _PREDICTED = range(3)


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
