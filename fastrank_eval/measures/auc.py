"""AUC per group (GAUC): a tied pair counts one half under every policy."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import REL, WEIGHT, Measure, Param, one_of, whole
from fastrank_eval.ranking import Ranking


class GroupedAUC(Measure):
    """GAUC, the weighted mean of the groups' AUC."""

    name = "GAUC"
    summary = "mean over groups of the AUC inside the group, weighted by impressions"
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
            "value of a group that is all relevant or all not: 'skip', 0, "
            "0.5, 1 or 'error'; None: as undefined= says",
            one_of(None, "skip", 0, 0.5, 1, "error"),
        ),
        Param("min_rows", 0, "leave out groups of fewer rows", whole(0)),
        Param("min_positives", 0, "leave out groups of fewer relevant rows", whole(0)),
    )
    spellings = ("uAUC", "GroupAUC", "QueryAUC")
    takes_cutoff = False
    uses_row_weights = True

    def pass_key(self) -> Hashable:
        return "grouped auc", self.rel

    @classmethod
    def compute(
        cls,
        measures: Sequence[GroupedAUC],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        rel = float(measures[0].rel)
        value = np.empty(ranking.groups)
        if ranking.weights is None:
            _auc(
                ranking.offsets,
                ranking.block_above,
                ranking.block_size,
                ranking.grade,
                rel,
                ranking.retrieved,
                ranking.relevant_retrieved(rel),
                value,
            )
        else:
            weights = ranking.weights
            _weighted_auc(
                ranking.offsets,
                ranking.block_above,
                ranking.grade,
                rel,
                ranking.retrieved,
                weights.entry,
                weights.zeros_above,
                weights.zeros_tied,
                weights.zeros,
                value,
            )
        for m, out in zip(measures, outs, strict=True):
            out[:] = value
            for _, left_out in m._too_small(ranking):
                out[left_out] = np.nan

    def _too_small(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        if self.min_rows:
            yield "few_rows", ranking.retrieved < self.min_rows
        if self.min_positives:
            yield "few_positives", ranking.relevant_retrieved(self.rel) < self.min_positives

    def undefined_if_empty(self) -> str | None:
        return "all_negative"

    def empty_is_known(self) -> bool:
        return not (self.min_rows or self.min_positives)

    def reasons(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        yield from self._too_small(ranking)
        positive, negative = class_weights(ranking, float(self.rel))
        if ranking.weights is not None:
            rows = ranking.relevant_retrieved(self.rel)
            both = (rows > 0) & (rows < ranking.retrieved)
            yield "zero_weight", both & ((positive == 0) | (negative == 0))
        yield "all_negative", positive == 0
        yield "all_positive", negative == 0


GAUC = GroupedAUC()


def class_weights(ranking: Ranking, rel: float) -> tuple[np.ndarray, np.ndarray]:
    """Retrieved relevant and other rows of each group: their number, or their weight.

    Returns
    -------
    positive, negative : ndarray, shape (groups,)
        int64 counts, or float64 sums of row weights.
    """
    if ranking.weights is None:
        positive = ranking.relevant_retrieved(rel)
        others = ranking.once_for_all(("others", rel), lambda: ranking.retrieved - positive)
        return positive, others

    weights = ranking.weights

    def sums() -> np.ndarray:
        both = np.empty((2, ranking.groups))
        _class_sums(
            ranking.offsets,
            ranking.block_above,
            ranking.grade,
            rel,
            ranking.retrieved,
            weights.entry,
            weights.zeros,
            both,
        )
        return both

    both = ranking.once(("class weights", rel), sums)
    return both[0], both[1]


@kernel
def _auc(  # type: ignore[no-untyped-def]
    offsets, above, size, grade, rel, retrieved, positives, out
):
    """Twice the number of pairs won, in whole numbers, so no rounding before the last division."""
    for g in range(offsets.shape[0] - 1):
        positive = positives[g]
        negative = retrieved[g] - positive
        if positive == 0 or negative == 0:
            out[g] = np.nan
            continue
        won_twice = 0
        before = 0
        e = offsets[g]
        end = offsets[g + 1]
        while e < end and above[e] < retrieved[g]:
            first = e
            r = 0
            while e < end and above[e] == above[first]:
                if grade[e] >= rel:
                    r += 1
                e += 1
            if r > 0:
                tied = size[first] - r
                below = negative - (above[first] - before) - tied
                won_twice += r * (2 * below + tied)
                before += r
        out[g] = won_twice / (2.0 * positive * negative)


@kernel
def _class_sums(  # type: ignore[no-untyped-def]
    offsets, above, grade, rel, retrieved, weight, zeros, out
):
    for g in range(offsets.shape[0] - 1):
        positive = 0.0
        negative = zeros[g]
        for e in range(offsets[g], offsets[g + 1]):
            if above[e] >= retrieved[g]:
                break
            if grade[e] >= rel:
                positive += weight[e]
            else:
                negative += weight[e]
        out[0, g] = positive
        out[1, g] = negative


@kernel
def _weighted_auc(  # type: ignore[no-untyped-def]
    offsets, above, grade, rel, retrieved, weight, zeros_above, zeros_tied, zeros, out
):
    """Weighted pairs; entries below `rel` count among the others, in their canonical order."""
    for g in range(offsets.shape[0] - 1):
        positive = 0.0
        others = 0.0
        for e in range(offsets[g], offsets[g + 1]):
            if above[e] >= retrieved[g]:
                break
            if grade[e] >= rel:
                positive += weight[e]
            else:
                others += weight[e]
        negative = zeros[g] + others
        if positive <= 0.0 or negative <= 0.0:
            out[g] = np.nan
            continue
        won = 0.0
        others_above = 0.0
        e = offsets[g]
        end = offsets[g + 1]
        while e < end and above[e] < retrieved[g]:
            first = e
            relevant = 0.0
            tied = zeros_tied[e]
            others_here = 0.0
            while e < end and above[e] == above[first]:
                if grade[e] >= rel:
                    relevant += weight[e]
                else:
                    others_here += weight[e]
                e += 1
            tied += others_here
            higher = zeros_above[first] + others_above
            won += relevant * (negative - higher - 0.5 * tied)
            others_above += others_here
        out[g] = min(max(won / (positive * negative), 0.0), 1.0)
