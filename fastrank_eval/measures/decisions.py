"""Decisions at a threshold, over all rows: what shares of rows they get right and wrong."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fastrank_eval.confusion_matrix import (
    Confusion,
    ConfusionSums,
    f_score,
    ratio,
)
from fastrank_eval.group_confusion import sum_cells
from fastrank_eval.measures.base import REL, Param, number
from fastrank_eval.measures.pooled_measure import ClusteredMeasure, PooledValue

if TYPE_CHECKING:
    from fastrank_eval.chunk import Scored
    from fastrank_eval.pooled_weights import InOrder

THRESHOLD = Param(
    "threshold",
    0.5,
    "a row is predicted positive if its score is at least this, compared as float64",
    number(),
)


#: Why a measure has no value: nothing is there to take a share of.
_NOTHING = {
    "none_predicted": lambda c: c.predicted,
    "all_predicted": lambda c: c.rejected,
    "all_negative": lambda c: c.positive,
    "all_positive": lambda c: c.negative,
    "true_negatives_only": lambda c: c.tp + c.fp + c.fn,
}


#: How often each cell counts, in the order of `Confusion`.
_SIDES = {
    "tp": (1, 0, 0, 0),
    "fp": (0, 1, 0, 0),
    "fn": (0, 0, 1, 0),
    "tn": (0, 0, 0, 1),
    "positive": (1, 0, 1, 0),
    "negative": (0, 1, 0, 1),
    "predicted": (1, 1, 0, 0),
    "rejected": (0, 0, 1, 1),
    "right": (1, 0, 0, 1),
    "wrong": (0, 1, 1, 0),
    "all": (1, 1, 1, 1),
}


def _slopes_of_share(
    confusion: Confusion, above: Sequence[float], below: Sequence[float]
) -> Confusion:
    """The derivatives by each cell of one weighted sum of the cells over another."""
    # Not a product of matrices: it adds up as the processor likes best.
    part, whole = (
        sum((times * cell for times, cell in zip(side, confusion, strict=True)), np.zeros(()))
        for side in (above, below)
    )
    value = ratio(part, whole)
    return Confusion(*(ratio(a - value * b, whole) for a, b in zip(above, below, strict=True)))


class Decision(ClusteredMeasure):
    """A measure of predictions at a threshold: a formula of the confusion matrix."""

    scores = "number"
    options: ClassVar[tuple[Param, ...]] = (THRESHOLD, REL)
    #: Where it is a share: of what, above the line and below.
    share: ClassVar[tuple[str, str]]
    #: Of `_NOTHING`, what leaves it undefined, in the order in which they are named.
    undefined_by: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def of_confusion(confusion: Confusion, chosen: Mapping[str, Any]) -> np.ndarray:
        """The measure of each case, by its options; NaN where undefined."""
        raise NotImplementedError  # pragma: no cover - abstract

    @classmethod
    def slopes(cls, confusion: Confusion, chosen: Mapping[str, Any]) -> Confusion:
        """The derivatives of defined values by each cell."""
        return _slopes_of_share(confusion, *(_SIDES[side] for side in cls.share))

    @classmethod
    def why_undefined(
        cls, confusion: Confusion, weighted: bool
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Reasons, each with the cases for which it holds; the first that holds counts."""
        if weighted:
            yield "zero_weight", confusion.all == 0
        for reason in cls.undefined_by:
            yield reason, _NOTHING[reason](confusion) == 0
        yield "zero_weight", confusion.all == 0

    def state_key(self) -> Hashable:
        return "decisions", float(self.rel), float(self.threshold)

    def new_state(self, weighted: bool, threads: int) -> ConfusionSums:
        return ConfusionSums(weighted)

    def sum_rows(self, state: ConfusionSums, scored: Scored) -> np.ndarray | None:
        return sum_cells(state, scored, self.threshold, self.rel)

    def pooled_value(self, state: ConfusionSums, in_order: InOrder) -> PooledValue:
        confusion = state.confusion()
        value = float(self.of_confusion(confusion, self.chosen)[0])
        details = state.details()
        if not math.isnan(value):
            return self.with_error(PooledValue(value, None, details), state)
        why = (name for name, holds in self.why_undefined(confusion, state.weighted) if holds[0])
        return PooledValue(value, next(why), details)

    def derivatives(self, state: ConfusionSums) -> list[float]:
        return state.unscaled(self.slopes(state.confusion(), self.chosen))


class PositivePredictiveValue(Decision):
    """PPV, the share of the predicted positives that are positive."""

    name = "PPV"
    summary = "precision: share of the rows predicted positive that are"
    formula = "TP / (TP + FP)"
    reference = "Kent et al. (1955), doi:10.1002/asi.5090060209"
    spellings = ("positive_predictive_value", "precision_score")
    undefined_by = ("none_predicted",)
    share = ("tp", "predicted")

    @staticmethod
    def of_confusion(confusion: Confusion, chosen: Mapping[str, Any]) -> np.ndarray:
        return ratio(confusion.tp, confusion.predicted)


class NegativePredictiveValue(Decision):
    """NPV, the share of the predicted negatives that are negative."""

    name = "NPV"
    summary = "share of the rows not predicted positive that are not"
    formula = "TN / (TN + FN)"
    reference = "Vecchio (1966), doi:10.1056/NEJM196605262742104"
    spellings = ("negative_predictive_value",)
    undefined_by = ("all_predicted",)
    share = ("tn", "rejected")

    @staticmethod
    def of_confusion(confusion: Confusion, chosen: Mapping[str, Any]) -> np.ndarray:
        return ratio(confusion.tn, confusion.rejected)


class TruePositiveRate(Decision):
    """TPR, the share of the positives that are predicted positive."""

    name = "TPR"
    summary = "recall, sensitivity: share of the positive rows that are predicted positive"
    formula = "TP / (TP + FN)"
    reference = "Yerushalmy (1947), doi:10.2307/4586294"
    spellings = ("TruePositiveRate", "Sensitivity", "recall_score")
    undefined_by = ("all_negative",)
    share = ("tp", "positive")

    @staticmethod
    def of_confusion(confusion: Confusion, chosen: Mapping[str, Any]) -> np.ndarray:
        return ratio(confusion.tp, confusion.positive)


class FalseNegativeRate(Decision):
    """FNR, the share of the positives that are missed."""

    name = "FNR"
    summary = "miss rate: share of the positive rows that are not predicted positive"
    formula = "FN / (TP + FN)"
    reference = "Yerushalmy (1947), doi:10.2307/4586294"
    spellings = ("FalseNegativeRate", "MissRate")
    higher_is_better = False
    undefined_by = ("all_negative",)
    share = ("fn", "positive")

    @staticmethod
    def of_confusion(confusion: Confusion, chosen: Mapping[str, Any]) -> np.ndarray:
        return ratio(confusion.fn, confusion.positive)


class TrueNegativeRate(Decision):
    """TNR, the share of the negatives that are not predicted positive."""

    name = "TNR"
    summary = "specificity: share of the other rows that are not predicted positive"
    formula = "TN / (TN + FP)"
    reference = "Yerushalmy (1947), doi:10.2307/4586294"
    spellings = ("TrueNegativeRate", "Specificity", "specificity_score")
    undefined_by = ("all_positive",)
    share = ("tn", "negative")

    @staticmethod
    def of_confusion(confusion: Confusion, chosen: Mapping[str, Any]) -> np.ndarray:
        return ratio(confusion.tn, confusion.negative)


class FalsePositiveRate(Decision):
    """FPR, the share of the negatives that are predicted positive."""

    name = "FPR"
    summary = "fall-out: share of the other rows that are predicted positive"
    formula = "FP / (TN + FP)"
    reference = "Yerushalmy (1947), doi:10.2307/4586294"
    spellings = ("FalsePositiveRate", "Fallout")
    higher_is_better = False
    undefined_by = ("all_positive",)
    share = ("fp", "negative")

    @staticmethod
    def of_confusion(confusion: Confusion, chosen: Mapping[str, Any]) -> np.ndarray:
        return ratio(confusion.fp, confusion.negative)


class FScoreAtThreshold(Decision):
    """FScore, the weighted harmonic mean of PPV and TPR."""

    name = "FScore"
    summary = "weighted harmonic mean of PPV and TPR; beta > 1 favours TPR"
    formula = "(1 + beta^2) TP / ((1 + beta^2) TP + beta^2 FN + FP)"
    reference = "van Rijsbergen (1979)"
    options = (
        Param("beta", 1, "weight of TPR, beta itself and not its square", number(above=0)),
        THRESHOLD,
        REL,
    )
    spellings = ("f1_score", "fbeta_score")
    undefined_by = ("true_negatives_only",)

    @staticmethod
    def of_confusion(confusion: Confusion, chosen: Mapping[str, Any]) -> np.ndarray:
        return f_score(confusion, float(chosen["beta"]))

    @classmethod
    def slopes(cls, confusion: Confusion, chosen: Mapping[str, Any]) -> Confusion:
        recall = float(chosen["beta"]) * float(chosen["beta"])
        # Both weights at most 1, so that no beta overflows.
        missed, false = (1.0, 1.0 / recall) if recall > 1 else (recall, 1.0)
        hits = missed + false
        return _slopes_of_share(confusion, (hits, 0, 0, 0), (hits, false, missed, 0))


class AccuracyAtThreshold(Decision):
    """Accuracy, the share of rows that are predicted right."""

    name = "Accuracy"
    summary = "share of rows that are predicted right"
    formula = "(TP + TN) / (TP + FP + FN + TN)"
    reference = "none"
    spellings = ("Acc", "accuracy_score")
    share = ("right", "all")

    @staticmethod
    def of_confusion(confusion: Confusion, chosen: Mapping[str, Any]) -> np.ndarray:
        return ratio(confusion.tp + confusion.tn, confusion.all)


class ErrorRateAtThreshold(Decision):
    """ErrorRate, the share of rows that are predicted wrong."""

    name = "ErrorRate"
    summary = "share of rows that are predicted wrong: 1 - Accuracy"
    formula = "(FP + FN) / (TP + FP + FN + TN)"
    reference = "none"
    spellings = ("zero_one_loss",)
    higher_is_better = False
    share = ("wrong", "all")

    @staticmethod
    def of_confusion(confusion: Confusion, chosen: Mapping[str, Any]) -> np.ndarray:
        return ratio(confusion.fp + confusion.fn, confusion.all)


class BalancedAccuracyAtThreshold(Decision):
    """BalancedAccuracy, the mean of TPR and TNR."""

    name = "BalancedAccuracy"
    summary = "mean of TPR and TNR"
    formula = "(TPR + TNR) / 2"
    reference = "Brodersen et al. (2010), doi:10.1109/ICPR.2010.764"
    spellings = ("BAcc", "balanced_accuracy_score")
    undefined_by = ("all_negative", "all_positive")

    @staticmethod
    def of_confusion(confusion: Confusion, chosen: Mapping[str, Any]) -> np.ndarray:
        tpr = ratio(confusion.tp, confusion.positive)
        return (tpr + ratio(confusion.tn, confusion.negative)) / 2

    @classmethod
    def slopes(cls, confusion: Confusion, chosen: Mapping[str, Any]) -> Confusion:
        rates = (TruePositiveRate, TrueNegativeRate)
        of_rates = (rate.slopes(confusion, chosen) for rate in rates)
        return Confusion(*((p + n) / 2 for p, n in zip(*of_rates, strict=True)))


class MatthewsCorrelation(Decision):
    """MCC, the correlation of what is predicted with what is so."""

    name = "MCC"
    summary = "Matthews correlation coefficient, of predictions and classes"
    formula = "(TP TN - FP FN) / sqrt((TP + FP)(TP + FN)(TN + FP)(TN + FN))"
    reference = "Matthews (1975), doi:10.1016/0005-2795(75)90109-9"
    spellings = ("PhiCoefficient", "matthews_corrcoef")
    range = (-1.0, 1.0)
    undefined_by = ("all_negative", "all_positive", "none_predicted", "all_predicted")

    @staticmethod
    def of_confusion(confusion: Confusion, chosen: Mapping[str, Any]) -> np.ndarray:
        c = confusion
        # Multiplied in pairs that are equal where every prediction is right: then it is 1 exactly.
        below = np.sqrt(c.predicted * c.positive) * np.sqrt(c.rejected * c.negative)
        tiny = below == 0
        if tiny.any():
            sides = (c.predicted, c.positive, c.rejected, c.negative)
            below = np.where(tiny, math.prod(np.sqrt(side) for side in sides), below)
        found: np.ndarray = np.clip(ratio(c.tp * c.tn - c.fp * c.fn, below), -1.0, 1.0)
        return found

    @classmethod
    def slopes(cls, confusion: Confusion, chosen: Mapping[str, Any]) -> Confusion:
        c = confusion
        half = cls.of_confusion(c, chosen) / 2
        # Each root by itself, so that no product of two of them overflows.
        sides = (c.predicted, c.positive, c.rejected, c.negative)
        predicted, positive, rejected, negative = map(np.sqrt, sides)

        def slope(opposite: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
            above = opposite / predicted / rejected / positive / negative
            found: np.ndarray = above - half * (1 / row + 1 / column)
            return found

        return Confusion(
            slope(c.tn, c.predicted, c.positive),
            slope(-c.fn, c.predicted, c.negative),
            slope(-c.fp, c.rejected, c.positive),
            slope(c.tp, c.rejected, c.negative),
        )


PPV = PositivePredictiveValue()
NPV = NegativePredictiveValue()
TPR = TruePositiveRate()
FNR = FalseNegativeRate()
TNR = TrueNegativeRate()
FPR = FalsePositiveRate()
FScore = FScoreAtThreshold()
Accuracy = AccuracyAtThreshold()
ErrorRate = ErrorRateAtThreshold()
BalancedAccuracy = BalancedAccuracyAtThreshold()
MCC = MatthewsCorrelation()
