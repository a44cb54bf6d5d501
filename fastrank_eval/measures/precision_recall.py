"""The precision-recall curve of all rows in one number: PRAUC and AvgPrec."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastrank_eval.elementary import log1p_each
from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import REL, Param, one_of
from fastrank_eval.measures.pooled_measure import PooledValue, SteppedMeasure

if TYPE_CHECKING:
    from fastrank_eval.score_steps import ScoreSteps

#: What a threshold's positives add: precision there, the mean of both ends, or the area under all
#: thresholds between them.
_STEP, _LINEAR, _DAVIS = range(3)


class _PrecisionRecall(SteppedMeasure):
    """Measures of the area under the precision-recall curve."""

    def of_steps(self, steps: ScoreSteps) -> PooledValue:
        others, positives = steps.runs()
        areas, rule, logs = np.empty(len(steps.score)), self.rule(), np.zeros(0)
        if rule == _DAVIS:
            rows = positives + others
            before = np.append(0.0, np.cumsum(rows)[:-1])
            grown = np.divide(rows, before, out=np.zeros(len(rows)), where=before > 0)
            logs = log1p_each(np.where(positives > 0, grown, 0.0))
        _areas(others, positives, rule, logs, areas)
        # Each is at most the positives there; rounding may carry their sum a little further.
        return PooledValue(min(float(np.sum(areas) / np.sum(positives)), 1.0))

    def rule(self) -> int:
        """How to join two points of the curve."""
        raise NotImplementedError  # pragma: no cover - abstract


class AveragePrecisionOfRows(_PrecisionRecall):
    """AvgPrec, the mean precision over the positives of all rows, ties let in at once."""

    name = "AvgPrec"
    summary = "average precision over all rows, by thresholds: rows of one score come in at once"
    formula = "sum_t (R(t) - R(t+)) P(t), t over distinct scores from the top, t+ the one above"
    reference = "Davis & Goadrich (2006), doi:10.1145/1143844.1143874"
    options = (REL,)
    spellings = ("average_precision_score", "avg_prec")

    def rule(self) -> int:
        return _STEP


class PrecisionRecallArea(_PrecisionRecall):
    """PRAUC, the area under the precision-recall curve, joined as an option says."""

    name = "PRAUC"
    summary = "area under the precision-recall curve over all rows"
    formula = (
        "integral of P dR; between two scores FP runs linearly in TP (davis), or P in R (linear)"
    )
    reference = (
        "Davis & Goadrich (2006), doi:10.1145/1143844.1143874; "
        "Keilwagen et al. (2014), doi:10.1371/journal.pone.0092209 with weights"
    )
    options = (
        REL,
        Param(
            "interpolation",
            "davis",
            "between two scores: 'davis', what drawing their rows at random comes to; 'linear', "
            "trapezoids that start at precision 1, which are too high",
            one_of("davis", "linear"),
        ),
    )
    spellings = ("PR_AUC", "AUPRC", "AUCPR", "AUPR")

    def rule(self) -> int:
        return _DAVIS if self.interpolation == "davis" else _LINEAR


AvgPrec = AveragePrecisionOfRows()
PRAUC = PrecisionRecallArea()


@kernel
def _areas(others, positives, rule, logs, areas):  # type: ignore[no-untyped-def]
    """The area that each score of positives adds, times all positives.

    Between two points of the curve, n rows with t positives and n + d with t + p, the correct one
    is the integral of (t + p s) / (n + d s) p ds over s in [0, 1], here in terms none of which is
    negative.
    """
    rows = 0.0
    found = 0.0
    precision = 1.0
    n = 0
    for i in range(others.shape[0]):
        p = positives[i]
        d = p + others[i]
        if p > 0.0:
            after = (found + p) / (rows + d)
            if rule == _STEP:
                areas[n] = p * after
            elif rule == _LINEAR:
                areas[n] = p * (precision + after) / 2.0
            elif rows > 0.0:
                log = logs[i]
                areas[n] = p / d * (p * max(1.0 - log / (d / rows), 0.0) + found * log)
            else:
                areas[n] = p * (p / d)
            n += 1
        rows += d
        found += p
        if rows > 0.0:
            precision = found / rows
