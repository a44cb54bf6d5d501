"""Measure how well scores separate positives from negatives."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from fastrank_eval._lib.arguments import integer, number, one_of
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.jit import inlined, kernel
from fastrank_eval._lib.threads import JobMap
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.measures.base import REL, WEIGHT, GroupFunction, Measure, Param
from fastrank_eval.measures.pooled import (
    CLUSTERS,
    MERGED,
    ErrorOfDifference,
    OrderedMeasure,
    PooledState,
    PooledValue,
    SteppedMeasure,
    undefined,
)
from fastrank_eval.stats.auc_variance import row_variance
from fastrank_eval.stats.binned_scores import BinnedScores
from fastrank_eval.stats.clustered_scores import ClusteredBins, ClusteredScores
from fastrank_eval.stats.score_runs import RocSteps, ScoreTable, sum_classes


@inlined
def _auc(group, rows, options):  # type: ignore[no-untyped-def]
    """Count twice the pairs won, in integers: only the last division rounds."""
    if group.retrieved < options.parameters[0] or group.hits < options.parameters[1]:
        return np.nan
    if options.weighted:
        return _weighted_auc(group, rows, options)
    positive = group.hits
    negative = group.retrieved - positive
    if positive == 0 or negative == 0:
        return np.nan
    won_twice = 0
    before = 0
    e = group.first
    while e < group.end and rows.block_above[e] < group.retrieved:
        above = rows.block_above[e]
        size = rows.block_size[e]
        r = 0
        while e < group.end and rows.block_above[e] == above:
            r += rows.grade[e] >= options.rel
            e += 1
        if r > 0:
            tied = size - r
            below = negative - (above - before) - tied
            won_twice += r * (2 * below + tied)
            before += r
    return won_twice / (2.0 * positive * negative)


@inlined
def _weighted_auc(group, rows, options):  # type: ignore[no-untyped-def]
    """Sum weighted pairs; labelled rows below `rel` are among the others."""
    positive, negative = _class_weights(group, rows, options.rel)
    if positive <= 0.0 or negative <= 0.0:
        return np.nan
    won = 0.0
    others_above = 0.0
    e = group.first
    while e < group.end and rows.block_above[e] < group.retrieved:
        first = e
        relevant = 0.0
        tied = rows.zeros_tied[e]
        others_here = 0.0
        while e < group.end and rows.block_above[e] == rows.block_above[first]:
            if rows.grade[e] >= options.rel:
                relevant += rows.weight[e]
            else:
                others_here += rows.weight[e]
            e += 1
        tied += others_here
        higher = rows.zeros_above[first] + others_above
        won += relevant * (negative - higher - 0.5 * tied)
        others_above += others_here
    return min(max(won / (positive * negative), 0.0), 1.0)


@inlined
def _class_weights(group, rows, rel):  # type: ignore[no-untyped-def]
    """Sum the weights of the relevant rows with a score, and of the others."""
    positive = 0.0
    others = 0.0
    for e in range(group.first, group.end):
        if rows.block_above[e] >= group.retrieved:
            break
        if rows.grade[e] >= rel:
            positive += rows.weight[e]
        else:
            others += rows.weight[e]
    return positive, group.zeros + others


_REASONS = "few_rows", "few_positives", "zero_weight", "all_negative", "all_positive"


@inlined
def _why_undefined(group, rows, options):  # type: ignore[no-untyped-def]
    """Return the first of `_REASONS` that holds."""
    if group.retrieved < options.parameters[0]:
        return 1
    if group.hits < options.parameters[1]:
        return 2
    positive = np.float64(group.hits)
    if options.weighted:
        if 0 < group.hits < group.retrieved:
            return 3
        positive, _ = _class_weights(group, rows, options.rel)
    return 4 if positive == 0.0 else 5


class GroupedAUC(Measure):
    """GAUC, the mean over groups of their AUC, weighted by impressions."""

    name = "GAUC"
    formula = (
        "sum_g w_g AUC_g / sum_g w_g,  AUC_g = P(score of a relevant row > of another), ties 1/2"
    )
    reference = "Zhou et al. (2018), doi:10.1145/3219819.3219823"
    options = (
        Param(WEIGHT.name, "impressions", WEIGHT.doc, WEIGHT.read),
        REL,
        Param(
            "single_class",
            None,
            "value of a group whose rows are all relevant, or all not relevant: 'skip', 0, "
            "0.5, 1 or 'error'; None: set by undefined=",
            one_of(None, "skip", 0, 0.5, 1, "error"),
        ),
        Param("min_rows", 0, "leave out groups of fewer rows", integer(0)),
        Param("min_positives", 0, "leave out groups of fewer relevant rows", integer(0)),
    )
    aliases = ("uAUC", "GroupAUC", "QueryAUC")
    takes_cutoff = False
    uses_row_weights = True
    ranks_every_row = True
    group_function = GroupFunction(_auc, _REASONS, _why_undefined)

    def numbers(self) -> tuple[float, ...]:
        return self.min_rows, self.min_positives

    def undefined_if_empty(self) -> str | None:
        return "all_negative"

    def empty_is_known(self) -> bool:
        return not (self.min_rows or self.min_positives)


#: Names of details: the standard errors and the error bound.
SE_OF_ROWS, SE_OF_CLUSTERS = "se of independent rows", "se of groups as clusters"
BOUND = "error at most"


class PooledAUC(OrderedMeasure):
    """AUC, the area under the ROC curve of all rows, exact without bins."""

    name = "AUC"
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
            "standard error in the details: 'delong' assumes independent rows; 'clustered' adds "
            "the error with groups as clusters, and keeps every row (with bins, only during the "
            "run); or None",
            one_of(None, "delong", "clustered"),
        ),
        Param(
            "bins",
            None,
            "largest number of bins of scores, spaced by logit; the details have the largest "
            "possible error; 65536 are enough for clicks; None keeps every score",
            integer(2, most=1 << 24, optional=True),
        ),
    )
    aliases = ("ROCAUC", "ROC_AUC")

    @property
    def needs_groups(self) -> bool:
        return bool(self.se == "clustered")

    @property
    def has_error(self) -> bool:
        return self.needs_groups

    def check(self) -> None:
        if self.se is not None and self.max_fpr is not None and self.max_fpr < 1:
            raise MeasureError("AUC: se needs the whole area; leave out max_fpr or se.")
        of_scores = {"max_fpr": self.max_fpr is not None, "se='delong'": self.se == "delong"}
        if self.bins is not None and any(of_scores.values()):
            name = next(name for name, given in of_scores.items() if given)
            raise MeasureError(f"AUC: bins cannot be combined with {name}; leave one of them out.")

    def state_key(self) -> Hashable:
        if self.bins is not None:
            kind = "clustered bins" if self.se == "clustered" else "binned scores"
            return kind, float(self.rel), self.bins
        if self.se == "clustered":
            return "clustered scores", float(self.rel)
        return super().state_key()

    def new_state(self, weighted: bool, threads: int) -> PooledState:
        if self.bins is not None:
            kind = ClusteredBins if self.se == "clustered" else BinnedScores
            return kind(self.bins, weighted)
        if self.se == "clustered":
            return ClusteredScores(weighted, threads)
        return super().new_state(weighted, threads)

    def scores_of(self, state: Any) -> Any:
        is_clustered = self.se == "clustered" and self.bins is None
        return state.scores if is_clustered else super().scores_of(state)

    def add_rows(self, state: Any, scored: Scored) -> None:
        if self.se == "clustered":
            rows = scored.every_row
            positive = rows.labels.relevant_rows(self.rel)
            state.add(rows.score, positive, rows.weight, rows.starts, rows.chunk.token)
        else:
            super().add_rows(state, scored)

    def without_error(self, state: Any, map_jobs: JobMap) -> PooledValue:
        """Compute the area, with what is known beside it."""
        if self.bins is not None:
            area, bound = state.auc()
            details, scores = {BOUND: bound, "bins": len(state.merged_bins().keys)}, state
        else:
            scores = self.scores_of(state)
            if self.se is not None:
                # Before the area, which is then computed from the steps.
                scores.steps(map_jobs)
            area, details = scores.auc(self.max_fpr, map_jobs), {}
        if math.isnan(area):
            return undefined(scores.missing(map_jobs))
        return PooledValue(area, None, details)

    def pooled_value(self, state: Any, map_jobs: JobMap) -> PooledValue:
        result = self.without_error(state, map_jobs)
        if self.se is None or result.reason:
            return result
        area, details = result.value, {**result.details}
        if self.bins is None:
            scores = self.scores_of(state)
            error = _root(row_variance(scores, area, map_jobs))
            details[SE_OF_ROWS] = error if error > 0 else math.nan
        if self.se != "clustered":
            return PooledValue(area, None, details)
        found = state.variance(area, map_jobs)
        if not found.clusters:
            return PooledValue(area, None, details, warning=MERGED)
        error = _root(found.variance)
        details |= {SE_OF_CLUSTERS: error if error > 0 else math.nan, CLUSTERS: found.clusters}
        clusters = found.behind, found.effective, found.by_shares
        return PooledValue(area, None, details, error, *clusters)

    def difference_error(self, base: Any, other: Any, map_jobs: JobMap) -> ErrorOfDifference:
        if self.se != "clustered":
            return super().difference_error(base, other, map_jobs)
        first, second = (self.without_error(state, map_jobs).value for state in (base, other))
        if not math.isfinite(first) or not math.isfinite(second):
            return ErrorOfDifference()
        found = other.variance_of_difference(base, (first, second), map_jobs)
        if not found.clusters and self.bins is not None:
            return ErrorOfDifference(warning=MERGED)
        return ErrorOfDifference(
            _root(found.variance), found.behind, found.effective, rounding=found.rounding
        )


def _root(variance: float) -> float:
    return math.sqrt(variance) if variance >= 0 else math.nan


class KolmogorovSmirnov(SteppedMeasure):
    """KS, the largest difference of true and false positive rates."""

    name = "KS"
    formula = "max_t |TPR(t) - FPR(t)|, rows of score >= t taken for positive"
    reference = "Hand (2012), doi:10.1111/j.1751-5823.2012.00183.x"
    scores = "number"
    options = (REL,)
    aliases = ("kolmogorov_smirnov", "ks_statistic")

    def from_steps(self, steps: RocSteps) -> PooledValue:
        others, positives = steps.runs()
        best = np.zeros(1)
        runs = int(_farthest(others, positives, best))
        # An odd corner lies below the positives of a score: the threshold is just above the score.
        step = max(runs - 1, 0) // 2
        threshold = steps.score[step]
        if runs > 0 and runs % 2:
            above = np.array(np.inf, threshold.dtype)
            threshold = np.nextafter(threshold, above)
        if math.isnan(threshold):  # just above the rows without a score
            threshold = np.array(-np.inf, threshold.dtype)
        return PooledValue(float(best[0]), details={"threshold": float(threshold)})


class GiniCoefficient(OrderedMeasure):
    """Gini, 2 AUC - 1 of all rows: normalised Gini coefficient, Somers' D."""

    name = "Gini"
    formula = "2 AUC - 1"
    reference = (
        "Hand & Till (2001), doi:10.1023/A:1010920819831; Somers (1962), doi:10.2307/2090408"
    )
    options = (REL,)
    range = (-1.0, 1.0)
    aliases = ("normalized_gini", "accuracy_ratio")

    def pooled_value(self, state: Any, map_jobs: JobMap) -> PooledValue:
        area = state.auc(None, map_jobs)
        if np.isnan(area):
            return undefined(state.missing(map_jobs))
        return PooledValue(2.0 * area - 1.0)


@kernel
def _farthest(others, positives, best):  # type: ignore[no-untyped-def]
    """Count the runs above the first corner farthest from the diagonal."""
    all_others, all_positives = sum_classes(others, positives)
    others_above = 0.0
    positives_above = 0.0
    runs = 0
    for i in range(others.shape[0]):
        others_above += others[i]
        positives_above += positives[i]
        distance = abs(positives_above / all_positives - others_above / all_others)
        if distance > best[0]:
            best[0] = distance
            runs = i + 1
    return runs


TOP = Param(
    "top",
    0.1,
    "share of all rows, or of their weight, that is taken from the top, in ]0, 1]",
    number(above=0, most=1),
)


class CumulativeGain(OrderedMeasure):
    """CumGain, the share of the positives in the top share of rows by score."""

    name = "CumGain"
    formula = "positives above the cut / positives; tied rows at the cut: the mean of their orders"
    reference = "Ling & Li (1998), KDD-98, Data mining for direct marketing"
    options = (TOP, REL)
    aliases = ("CumulativeGain",)

    def from_table(self, table: ScoreTable) -> PooledValue:
        return PooledValue(gain_at(table, float(self.top)))


class LiftAtDepth(OrderedMeasure):
    """Lift, the share of positives in the top rows over that of all rows."""

    name = "Lift"
    formula = "CumGain / top"
    reference = "Ling & Li (1998), KDD-98, Data mining for direct marketing"
    options = (TOP, REL)
    range = (0.0, math.inf)

    def from_table(self, table: ScoreTable) -> PooledValue:
        return PooledValue(gain_at(table, float(self.top)) / self.top)


def gain_at(table: ScoreTable, top: float) -> float:
    """Compute the share of the positives in the top share of rows.

    Rows tied at the cut count in proportion. If the cut falls between two rows, this is the mean
    over all their orders.

    Parameters
    ----------
    table : ScoreTable
        With positives.
    top : float
        In ]0, 1].
    """
    rows = np.cumsum(table.positives + table.others)
    hits = np.cumsum(table.positives)
    depth = top * rows[-1]
    index = min(int(np.searchsorted(rows, depth)), len(rows) - 1)
    # The first score at which the depth is reached has a weight above 0.
    above, hits_above = (rows[index - 1], hits[index - 1]) if index else (0, 0)
    inside = min((depth - above) / (rows[index] - above), 1.0)
    return min(float((hits_above + inside * (hits[index] - hits_above)) / hits[-1]), 1.0)
