"""Measure decisions at a threshold, over all rows and in each group."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastrank_eval._lib.arguments import number
from fastrank_eval._lib.elementary import ratio
from fastrank_eval._lib.threads import JobMap
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.groups.sort import sum_cell_weights
from fastrank_eval.measures.base import REL, WEIGHT, Measure, Param
from fastrank_eval.measures.clustered_sums import (
    Confusion,
    ConfusionSums,
    count_cells,
    f_score,
    least_of,
    sum_cells,
)
from fastrank_eval.measures.pooled import ClusteredMeasure, PooledValue

THRESHOLD = Param(
    "threshold",
    0.5,
    "a row is predicted positive if its score is at least this, compared as float64",
    number(),
)


class _CellSum(NamedTuple):
    """A sum of cells: their weights in the order of `Confusion`, and its text.

    `reason` says why a value is undefined if this sum, its denominator, is 0.
    """

    weights: tuple[int, int, int, int]
    text: str
    reason: str = ""


_SUMS = {
    "tp": _CellSum((1, 0, 0, 0), "TP"),
    "fp": _CellSum((0, 1, 0, 0), "FP"),
    "fn": _CellSum((0, 0, 1, 0), "FN"),
    "tn": _CellSum((0, 0, 0, 1), "TN"),
    "predicted": _CellSum((1, 1, 0, 0), "TP + FP", "none_predicted"),
    "rejected": _CellSum((0, 0, 1, 1), "TN + FN", "all_predicted"),
    "positive": _CellSum((1, 0, 1, 0), "TP + FN", "all_negative"),
    "negative": _CellSum((0, 1, 0, 1), "TN + FP", "all_positive"),
    "right": _CellSum((1, 0, 0, 1), "TP + TN"),
    "wrong": _CellSum((0, 1, 1, 0), "FP + FN"),
    "not tn": _CellSum((1, 1, 1, 0), "TP + FP + FN", "true_negatives_only"),
    "all": _CellSum((1, 1, 1, 1), "TP + FP + FN + TN"),
}
_SUM_OF_REASON = {one.reason: name for name, one in _SUMS.items()}


def _sum_of(confusion: Confusion, name: str) -> np.ndarray:
    """Add cells, by a name in `_SUMS`."""
    summed: np.ndarray | None = getattr(confusion, name, None)
    if summed is None:
        first, *others = (c for c, w in zip(confusion, _SUMS[name].weights, strict=True) if w)
        summed = sum(others, start=first)
    return summed


def _slopes_of_share(
    confusion: Confusion, above: Sequence[float], below: Sequence[float]
) -> Confusion:
    """Differentiate a ratio of weighted sums of the cells by each cell."""
    # No matrix product: its order of addition depends on the processor.
    numerator, denominator = (
        sum((times * cell for times, cell in zip(side, confusion, strict=True)), np.zeros(()))
        for side in (above, below)
    )
    value = ratio(numerator, denominator)
    return Confusion(
        *(ratio(a - value * b, denominator) for a, b in zip(above, below, strict=True))
    )


class Decision(ClusteredMeasure):
    """A formula of the confusion matrix at a threshold."""

    scores = "number"
    is_share = True
    options: ClassVar[tuple[Param, ...]] = (THRESHOLD, REL)
    #: Numerator and denominator of a share, names in `_SUMS`.
    share: ClassVar[tuple[str, str]]
    #: Reasons in `_SUMS` that make it undefined; the first that holds counts.
    undefined_by: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, share: tuple[str, str] | None = None, **keywords: Any) -> None:
        if share is not None:
            above, below = (_SUMS[side] for side in share)
            cls.share = share
            text = f"({above.text})" if " " in above.text else above.text
            cls.formula = f"{text} / ({below.text})"
            cls.undefined_by = (below.reason,) if below.reason else ()
            cls.higher_is_better = share[0] not in ("fp", "fn", "wrong")
        super().__init_subclass__(**keywords)

    @classmethod
    def from_confusion(cls, confusion: Confusion, options: Mapping[str, Any]) -> np.ndarray:
        """Compute the measure of each case; NaN if undefined."""
        above, below = (_sum_of(confusion, side) for side in cls.share)
        return ratio(above, below)

    @classmethod
    def slopes(cls, confusion: Confusion, options: Mapping[str, Any]) -> Confusion:
        """Return the derivatives of defined values by each cell."""
        return _slopes_of_share(confusion, *(_SUMS[side].weights for side in cls.share))

    @classmethod
    def why_undefined(
        cls, confusion: Confusion, weighted: bool
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Yield reasons, each with the cases for which it holds; the first counts."""
        if weighted:
            yield "zero_weight", confusion.all == 0
        for reason in cls.undefined_by:
            yield reason, _sum_of(confusion, _SUM_OF_REASON[reason]) == 0
        yield "zero_weight", confusion.all == 0

    def state_key(self) -> Hashable:
        return "decisions", float(self.rel), float(self.threshold)

    def new_state(self, weighted: bool, threads: int) -> ConfusionSums:
        return ConfusionSums(weighted)

    def sum_rows(self, state: ConfusionSums, scored: Scored) -> np.ndarray | None:
        return sum_cells(state, scored.every_row, self.threshold, self.rel)

    def pooled_value(self, state: ConfusionSums, map_jobs: JobMap) -> PooledValue:
        confusion = state.confusion()
        value = float(self.from_confusion(confusion, self.option_values)[0])
        details = state.details()
        if not math.isnan(value):
            return self.with_error(PooledValue(value, None, details), state)
        why = (name for name, holds in self.why_undefined(confusion, state.weighted) if holds[0])
        return PooledValue(value, next(why), details)

    def divided_by(self) -> tuple[tuple[int, ...], ...]:
        reasons = [_SUM_OF_REASON[reason] for reason in self.undefined_by]
        return tuple(ConfusionSums.DENOMINATORS[name] for name in reasons or ["all"])

    def derivatives(self, state: ConfusionSums) -> list[float]:
        return state.unscaled(self.slopes(state.confusion(), self.option_values))


class PositivePredictiveValue(Decision, share=("tp", "predicted")):
    """PPV, precision: the share of positives among predicted positives."""

    name = "PPV"
    reference = "Kent et al. (1955), doi:10.1002/asi.5090060209"
    aliases = ("positive_predictive_value", "precision_score")


class NegativePredictiveValue(Decision, share=("tn", "rejected")):
    """NPV, the share of negatives among predicted negatives."""

    name = "NPV"
    reference = "Vecchio (1966), doi:10.1056/NEJM196605262742104"
    aliases = ("negative_predictive_value",)


class TruePositiveRate(Decision, share=("tp", "positive")):
    """TPR, recall: the share of positives that are predicted positive."""

    name = "TPR"
    reference = "Yerushalmy (1947), doi:10.2307/4586294"
    aliases = ("TruePositiveRate", "Sensitivity", "recall_score")


class FalseNegativeRate(Decision, share=("fn", "positive")):
    """FNR, the miss rate: the share of positives that are not predicted so."""

    name = "FNR"
    reference = "Yerushalmy (1947), doi:10.2307/4586294"
    aliases = ("FalseNegativeRate", "MissRate")


class TrueNegativeRate(Decision, share=("tn", "negative")):
    """TNR, specificity: the share of negatives that are predicted negative."""

    name = "TNR"
    reference = "Yerushalmy (1947), doi:10.2307/4586294"
    aliases = ("TrueNegativeRate", "Specificity", "specificity_score")


class FalsePositiveRate(Decision, share=("fp", "negative")):
    """FPR, the fall-out: the share of negatives that are predicted positive."""

    name = "FPR"
    reference = "Yerushalmy (1947), doi:10.2307/4586294"
    aliases = ("FalsePositiveRate", "Fallout")


class FScoreAtThreshold(Decision):
    """FScore, the weighted harmonic mean of PPV and TPR."""

    name = "FScore"
    formula = "(1 + beta^2) TP / ((1 + beta^2) TP + beta^2 FN + FP)"
    reference = "van Rijsbergen (1979)"
    options = (
        Param("beta", 1, "weight of TPR, beta itself and not its square", number(above=0)),
        THRESHOLD,
        REL,
    )
    aliases = ("f1_score", "fbeta_score")
    undefined_by = ("true_negatives_only",)

    @classmethod
    def from_confusion(cls, confusion: Confusion, options: Mapping[str, Any]) -> np.ndarray:
        return f_score(confusion, float(options["beta"]))

    @classmethod
    def slopes(cls, confusion: Confusion, options: Mapping[str, Any]) -> Confusion:
        recall = float(options["beta"]) * float(options["beta"])
        # Both weights are at most 1, so that a large beta does not overflow.
        missed, false = (1.0, 1.0 / recall) if recall > 1 else (recall, 1.0)
        hits = missed + false
        return _slopes_of_share(confusion, (hits, 0, 0, 0), (hits, false, missed, 0))


class AccuracyAtThreshold(Decision, share=("right", "all")):
    """Accuracy, the share of rows that are predicted correctly."""

    name = "Accuracy"
    reference = "none"
    aliases = ("Acc", "accuracy_score")


class ErrorRateAtThreshold(Decision, share=("wrong", "all")):
    """ErrorRate, the share of rows that are predicted wrongly: 1 - Accuracy."""

    name = "ErrorRate"
    reference = "none"
    aliases = ("zero_one_loss",)


class BalancedAccuracyAtThreshold(Decision):
    """BalancedAccuracy, the mean of TPR and TNR."""

    name = "BalancedAccuracy"
    formula = "(TPR + TNR) / 2"
    reference = "Brodersen et al. (2010), doi:10.1109/ICPR.2010.764"
    aliases = ("BAcc", "balanced_accuracy_score")
    undefined_by = ("all_negative", "all_positive")

    @classmethod
    def from_confusion(cls, confusion: Confusion, options: Mapping[str, Any]) -> np.ndarray:
        tpr = ratio(confusion.tp, confusion.positive)
        return (tpr + ratio(confusion.tn, confusion.negative)) / 2

    @classmethod
    def slopes(cls, confusion: Confusion, options: Mapping[str, Any]) -> Confusion:
        rates = (TruePositiveRate, TrueNegativeRate)
        of_rates = (rate.slopes(confusion, options) for rate in rates)
        return Confusion(*((p + n) / 2 for p, n in zip(*of_rates, strict=True)))


class MatthewsCorrelation(Decision):
    """MCC, the Matthews correlation coefficient of predictions and classes."""

    name = "MCC"
    formula = "(TP TN - FP FN) / sqrt((TP + FP)(TP + FN)(TN + FP)(TN + FN))"
    reference = "Matthews (1975), doi:10.1016/0005-2795(75)90109-9"
    aliases = ("PhiCoefficient", "matthews_corrcoef")
    range = (-1.0, 1.0)
    undefined_by = ("all_negative", "all_positive", "none_predicted", "all_predicted")

    @classmethod
    def from_confusion(cls, confusion: Confusion, options: Mapping[str, Any]) -> np.ndarray:
        c = confusion
        # The pairs are equal if every prediction is right: then the value is exactly 1.
        below = np.sqrt(c.predicted * c.positive) * np.sqrt(c.rejected * c.negative)
        tiny = below == 0
        if tiny.any():
            sides = (c.predicted, c.positive, c.rejected, c.negative)
            below = np.where(tiny, math.prod(np.sqrt(side) for side in sides), below)
        value: np.ndarray = np.clip(ratio(c.tp * c.tn - c.fp * c.fn, below), -1.0, 1.0)
        return value

    @classmethod
    def slopes(cls, confusion: Confusion, options: Mapping[str, Any]) -> Confusion:
        c = confusion
        half = cls.from_confusion(c, options) / 2
        # One root at a time, so that products do not overflow.
        sides = (c.predicted, c.positive, c.rejected, c.negative)
        predicted, positive, rejected, negative = map(np.sqrt, sides)

        def slope(opposite: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
            above = opposite / predicted / rejected / positive / negative
            value: np.ndarray = above - half * (1 / row + 1 / column)
            return value

        return Confusion(
            slope(c.tn, c.predicted, c.positive),
            slope(-c.fn, c.predicted, c.negative),
            slope(-c.fp, c.rejected, c.positive),
            slope(c.tp, c.rejected, c.negative),
        )


class GroupDecision(Measure):
    """The mean over groups of a measure of predictions at a threshold.

    Name, formula and options follow from the measure of all rows.
    """

    of: ClassVar[type[Decision]]

    scores = "number"
    takes_cutoff = False
    uses_row_weights = True
    ranks_every_row = True
    needs_ranks = False

    def __init_subclass__(cls, of: type[Decision], **keywords: Any) -> None:
        cls.of = of
        cls.name = f"Group{of.name}"
        cls.__doc__ = f"{cls.name}, the mean over groups of {of.name} inside the group."
        cls.formula = f"mean over groups g of {of.name}_g, {of.name} = {of.formula}"
        cls.reference = of.reference
        cls.options = (*of.options, WEIGHT)
        cls.aliases = tuple(f"Group{word}" for word in of.aliases if "_" not in word)
        cls.higher_is_better = of.higher_is_better
        cls.range = of.range
        super().__init_subclass__(**keywords)

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        return self.of.from_confusion(self.confusion(ranking), self.option_values)

    def confusion(self, ranking: Ranking) -> Confusion:
        """Compute the confusion matrix of each group; weights are scaled by group."""
        rel, threshold = float(self.rel), float(self.threshold)

        def cells() -> np.ndarray:
            return _cells(ranking, rel, threshold)

        confusion = Confusion(*ranking.cached(("decisions", rel, threshold), cells)[::-1])
        return confusion if ranking.weights is None else confusion.scaled()

    def undefined_if_empty(self) -> str | None:
        return "all_negative" if self.empty_is_known() else None

    def empty_is_known(self) -> bool:
        return self.of.undefined_by[:1] == ("all_negative",)

    def reasons(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        return self.of.why_undefined(self.confusion(ranking), ranking.weights is not None)


for _decision in Decision.__subclasses__():
    type(f"Group{_decision.__name__}", (GroupDecision,), {}, of=_decision)


def _cells(ranking: Ranking, rel: float, threshold: float) -> np.ndarray:
    """Count the rows of each group in each cell, or sum their weights.

    Returns
    -------
    ndarray of float64, shape (4, groups)
        In the order of `ConfusionSums.CELLS`.
    """
    scored, labels = ranking.scored, ranking.labels
    predicted = scored.score >= least_of(scored.score.dtype, threshold)
    positive = labels.relevant_rows(rel)
    if scored.weight is None:
        of_each = labels.relevant_of_each(rel)
        counts = count_cells(predicted, predicted[positive], of_each, scored.starts)
        return counts[:, labels.indices].astype(np.float64)
    cells = 2 * predicted.astype(np.int64)
    cells[positive] += 1
    out, most = np.empty((4, ranking.groups)), np.empty(int(ranking.retrieved.max(initial=1)))
    sum_cell_weights(scored.starts, labels.indices, cells, scored.weight, most, out)
    return out
