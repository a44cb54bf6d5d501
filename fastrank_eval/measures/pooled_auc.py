"""AUC over all rows: exact, or from bins with a bound of the error; its standard error."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from fastrank_eval.errors import MeasureError
from fastrank_eval.measures.base import REL, Param, number, one_of, whole
from fastrank_eval.measures.pooled_measure import OrderedMeasure, PooledValue, undefined

if TYPE_CHECKING:
    from fastrank_eval.chunk import Scored
    from fastrank_eval.pooled_weights import InOrder

#: What details call the standard errors, the number of clusters and the bound of the error.
SE_OF_ROWS, SE_OF_CLUSTERS = "se of independent rows", "se of groups as clusters"
CLUSTERS, BOUND = "clusters", "error at most"


class PooledAUC(OrderedMeasure):
    """AUC over all rows, whatever their group, exact unless bins are asked for."""

    name = "AUC"
    summary = "AUC over all rows, whatever their group, exact"
    formula = "(pairs of a relevant and another row in right order + 1/2 tied pairs) / pairs"
    reference = (
        "Hanley & McNeil (1982), doi:10.1148/radiology.143.1.7063747; "
        "McClish (1989), doi:10.1177/0272989X8900900307 for max_fpr; "
        "DeLong et al. (1988), doi:10.2307/2531595, and Obuchowski (1997), doi:10.2307/2533958, "
        "for se"
    )
    options = (
        REL,
        Param(
            "max_fpr",
            None,
            "area up to this false positive rate, in ]0, 1[, rescaled to "
            "[1/2, 1] for chance and perfection",
            number(above=0, most=1, optional=True),
        ),
        Param(
            "se",
            None,
            "standard error among the details: 'delong' takes rows for independent, 'clustered' "
            "adds that of groups as clusters, for which every row is kept; or None",
            one_of(None, "delong", "clustered"),
        ),
        Param(
            "bins",
            None,
            "keep no more than this many bins of scores, spaced by logit, instead of every score, "
            "and tell how far off the value may be; 65536 do for clicks; or None",
            whole(2, most=1 << 24, optional=True),
        ),
    )
    spellings = ("ROCAUC", "ROC_AUC")

    def check(self) -> None:
        given = [name for name in ("max_fpr", "se", "bins") if self.chosen[name] is not None]
        if self.se is not None and self.max_fpr is not None and self.max_fpr < 1:
            raise MeasureError("AUC: se is that of the whole area; leave out max_fpr or se.")
        if self.bins is not None and len(given) > 1:
            raise MeasureError(f"AUC: bins keep too little for {given[0]}; leave out one of both.")

    def state_key(self) -> Hashable:
        if self.bins is not None:
            return "binned scores", float(self.rel), self.bins
        if self.se == "clustered":
            return "clustered scores", float(self.rel)
        return super().state_key()

    def new_state(self, weighted: bool, threads: int) -> Any:
        if self.bins is not None:
            from fastrank_eval.binned_scores import BinnedScores

            return BinnedScores(self.bins, weighted)
        if self.se == "clustered":
            from fastrank_eval.clustered_scores import ClusteredScores

            return ClusteredScores(weighted, threads)
        return super().new_state(weighted, threads)

    def add_rows(self, state: Any, scored: Scored) -> None:
        if self.se == "clustered":
            positive = scored.labels.relevant_rows(self.rel)
            state.add(scored.score, positive, scored.weight, scored.starts, scored.chunk.token)
        else:
            super().add_rows(state, scored)

    def pooled_value(self, state: Any, in_order: InOrder) -> PooledValue:
        if self.bins is not None:
            area, bound = state.auc()
            details = {BOUND: bound, "bins": state.used}
            return (
                undefined(state.missing) if math.isnan(area) else PooledValue(area, None, details)
            )
        scores = state.scores if self.se == "clustered" else state
        if self.se is not None:
            # First of all: the area is then read from them.
            scores.steps(in_order)
        area = scores.auc(self.max_fpr, in_order)
        if math.isnan(area):
            return undefined(scores.missing(in_order))
        details, error, clusters, carriers = {}, math.nan, 0, math.nan
        if self.se is not None:
            from fastrank_eval.auc_variance import row_variance

            details[SE_OF_ROWS] = _root(row_variance(scores, area, in_order))
        if self.se == "clustered":
            variance, clusters, carriers = state.variance(area, in_order)
            error = _root(variance)
            details |= {SE_OF_CLUSTERS: error, CLUSTERS: clusters}
        return PooledValue(area, None, details, error, clusters, carriers)

    def difference_error(
        self, base: Any, other: Any, in_order: InOrder
    ) -> tuple[float, int, float]:
        if self.se != "clustered":
            return super().difference_error(base, other, in_order)
        from fastrank_eval.clustered_scores import variance_of_difference

        areas = []
        for state in (base, other):
            state.scores.steps(in_order)
            areas.append(state.scores.auc(None, in_order))
        if not all(map(math.isfinite, areas)):
            return math.nan, 0, math.nan
        variance, clusters, carriers = variance_of_difference(
            base, other, (areas[0], areas[1]), in_order
        )
        return _root(variance), clusters, carriers


AUC = PooledAUC()


def _root(variance: float) -> float:
    """NaN where the estimate is below zero, as that of very few clusters may be."""
    return math.sqrt(variance) if variance >= 0 else math.nan
