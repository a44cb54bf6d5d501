"""Decisions at a threshold, group by group: the mean over groups of what `decisions` has of all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from fastrank_eval.canonical import weigh_cells
from fastrank_eval.confusion_matrix import Confusion, cells_of, least_of
from fastrank_eval.kernel import kernel
from fastrank_eval.measures import decisions
from fastrank_eval.measures.base import WEIGHT, Measure
from fastrank_eval.measures.decisions import Decision
from fastrank_eval.ranking import Ranking


class GroupDecision(Measure):
    """The mean over groups of a measure of predictions at a threshold.

    Declared by the measure of all rows that it takes of each group; its name, formula and options
    follow.
    """

    of: ClassVar[type[Decision]]

    scores = "number"
    takes_cutoff = False
    uses_row_weights = True
    needs_places = False

    def __init_subclass__(cls, of: type[Decision], **keywords: Any) -> None:
        cls.of = of
        cls.name = f"Group{of.name}"
        cls.summary = f"mean over groups of {of.name} inside the group"
        cls.formula = f"mean over groups g of {of.name}_g, {of.name} = {of.formula}"
        cls.reference = of.reference
        cls.options = (*of.options, WEIGHT)
        cls.spellings = tuple(f"Group{word}" for word in of.spellings if "_" not in word)
        cls.higher_is_better = of.higher_is_better
        cls.range = of.range
        super().__init_subclass__(**keywords)

    def pass_key(self) -> Hashable:
        return "decisions", float(self.rel), float(self.threshold)

    @classmethod
    def compute(
        cls,
        measures: Sequence[GroupDecision],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        confusion = measures[0].confusion(ranking)
        for m, out in zip(measures, outs, strict=True):
            out[:] = m.of.of_confusion(confusion, m.chosen)

    def confusion(self, ranking: Ranking) -> Confusion:
        """The confusion matrix of each group; of weights, times a power of two for each."""
        rel, threshold = float(self.rel), float(self.threshold)

        def cells() -> np.ndarray:
            return _cells(ranking, rel, threshold)

        tn, fn, fp, tp = ranking.once(("decisions", rel, threshold), cells)
        confusion = Confusion(tp, fp, fn, tn)
        return confusion if ranking.weights is None else confusion.scaled()

    def undefined_if_empty(self) -> str | None:
        return "all_negative" if self.empty_is_known() else None

    def empty_is_known(self) -> bool:
        return self.of.undefined_by[:1] == ("all_negative",)

    def reasons(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        return self.of.why_undefined(self.confusion(ranking), ranking.weights is not None)


class GroupPositivePredictiveValue(GroupDecision, of=decisions.PositivePredictiveValue):
    """GroupPPV, the mean of the groups' precision at a threshold."""


class GroupNegativePredictiveValue(GroupDecision, of=decisions.NegativePredictiveValue):
    """GroupNPV, the mean of the groups' negative predictive value."""


class GroupTruePositiveRate(GroupDecision, of=decisions.TruePositiveRate):
    """GroupTPR, the mean of the groups' recall at a threshold."""


class GroupFalseNegativeRate(GroupDecision, of=decisions.FalseNegativeRate):
    """GroupFNR, the mean of the groups' miss rate."""


class GroupTrueNegativeRate(GroupDecision, of=decisions.TrueNegativeRate):
    """GroupTNR, the mean of the groups' specificity."""


class GroupFalsePositiveRate(GroupDecision, of=decisions.FalsePositiveRate):
    """GroupFPR, the mean of the groups' fall-out."""


class GroupFScoreAtThreshold(GroupDecision, of=decisions.FScoreAtThreshold):
    """GroupFScore, the mean of the groups' F-beta at a threshold."""


class GroupAccuracyAtThreshold(GroupDecision, of=decisions.AccuracyAtThreshold):
    """GroupAccuracy, the mean of the groups' accuracy."""


class GroupErrorRateAtThreshold(GroupDecision, of=decisions.ErrorRateAtThreshold):
    """GroupErrorRate, the mean of the groups' error rate."""


class GroupBalancedAccuracyAtThreshold(GroupDecision, of=decisions.BalancedAccuracyAtThreshold):
    """GroupBalancedAccuracy, the mean of the groups' balanced accuracy."""


class GroupMatthewsCorrelation(GroupDecision, of=decisions.MatthewsCorrelation):
    """GroupMCC, the mean of the groups' Matthews correlation."""


GroupPPV = GroupPositivePredictiveValue()
GroupNPV = GroupNegativePredictiveValue()
GroupTPR = GroupTruePositiveRate()
GroupFNR = GroupFalseNegativeRate()
GroupTNR = GroupTrueNegativeRate()
GroupFPR = GroupFalsePositiveRate()
GroupFScore = GroupFScoreAtThreshold()
GroupAccuracy = GroupAccuracyAtThreshold()
GroupErrorRate = GroupErrorRateAtThreshold()
GroupBalancedAccuracy = GroupBalancedAccuracyAtThreshold()
GroupMCC = GroupMatthewsCorrelation()


def _cells(ranking: Ranking, rel: float, threshold: float) -> np.ndarray:
    """Rows of each group in each cell of its confusion matrix, or their weight.

    Returns
    -------
    ndarray of float64, shape (4, groups)
        As `ConfusionSums.CELLS` has them.
    """
    scored, labels = ranking.scored, ranking.labels
    labelled = labels.labelled
    least = least_of(scored.score.dtype, threshold)
    out = np.empty((4, ranking.groups))
    if scored.weight is None:
        _count_cells(
            scored.score,
            least,
            scored.starts,
            labelled.ranked,
            labelled.row,
            labelled.offsets,
            labels.grade,
            rel,
            out,
        )
    else:
        cells = cells_of(scored.score, least, labels.relevant_rows(rel))
        most = np.empty(int(ranking.retrieved.max(initial=1)))
        weigh_cells(scored.starts, labelled.ranked, cells, scored.weight, most, out)
    return out


@kernel
def _count_cells(  # type: ignore[no-untyped-def]
    score, least, starts, groups, labelled, offsets, grade, rel, out
):
    for g in range(groups.shape[0]):
        # A slice from 0 on is vectorised: 0.2 ns a row, against 2.5.
        part = score[starts[groups[g]] : starts[groups[g] + 1]]
        predicted = 0
        for i in range(part.shape[0]):
            predicted += part[i] >= least
        positive = 0
        hits = 0
        for e in range(offsets[g], offsets[g + 1]):
            if grade[e] >= rel:
                positive += 1
                hits += score[labelled[e]] >= least
        out[0, g] = part.shape[0] - positive - (predicted - hits)
        out[1, g] = positive - hits
        out[2, g] = predicted - hits
        out[3, g] = hits
