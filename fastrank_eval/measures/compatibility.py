"""Compatibility, how much a ranking overlaps with the ideal one that is nearest to it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from fastrank_eval.elementary import powers
from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import REL, WEIGHT, Measure, Param, number, whole
from fastrank_eval.ranking import Ranking


def _depth(value: Any) -> Any:
    if isinstance(value, str) and value == "lists":
        return value
    try:
        return whole(1, most=10**7)(value)
    except ValueError as wrong:
        raise ValueError(f"'lists' or {wrong}") from None


class Compatibility(Measure):
    """Compat, rank-biased overlap with the ideal order, over that of the ideal with itself.

    Of rows of one grade the ideal keeps the order of the ranking; rows that were not retrieved
    come last among them.
    """

    name = "Compat"
    summary = "rank-biased overlap with the nearest ideal ranking"
    formula = (
        "RBO(list, ideal) / RBO(ideal, ideal),  RBO = sum over d <= depth of p^(d-1) overlap@d / d"
    )
    reference = "Clarke, Vtyurina & Smucker (2021), doi:10.1145/3451161"
    needs_relevant = True
    takes_cutoff = False
    options = (
        Param(
            "p", 0.95, "persistence: the probability of looking deeper", number(above=0, below=1)
        ),
        Param(
            "depth",
            1000,
            "the deepest rank at which lists are compared; 'lists': the end of the longer of the "
            "list and the ideal, as in ir_measures",
            _depth,
        ),
        REL,
        WEIGHT,
    )
    spellings = ("Compatibility",)

    def has_expectation(self) -> bool:
        return False  # the ideal follows the order of tied rows

    def pass_key(self) -> Hashable:
        return self.name, self.p, self.depth, self.rel

    @classmethod
    def compute(
        cls,
        measures: Sequence[Compatibility],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        first = measures[0]
        entries = np.diff(ranking.offsets)
        group = np.repeat(np.arange(ranking.groups), entries)
        order = np.lexsort((-ranking.grade, group))  # stable: ranks ascend where grades are equal
        ideal = np.empty(len(order), np.int64)
        ideal[order] = np.arange(len(order)) - np.repeat(ranking.offsets[:-1], entries)
        value = np.empty(ranking.groups)
        if first.depth == "lists":
            depth = np.maximum(ranking.retrieved, ranking.relevant(first.rel))
        else:
            depth = np.full(ranking.groups, first.depth, np.int64)
        _overlap(
            ranking.offsets,
            ranking.above,
            ranking.grade,
            float(first.rel),
            ideal,
            ranking.retrieved,
            depth,
            _weight_below(float(first.p), int(depth.max(initial=0))),
            value,
        )
        for out in outs:
            out[:] = value


Compat = Compatibility()


def _weight_below(p: float, depth: int) -> np.ndarray:
    """Sum over d = m + 1 ... depth of p^(d-1)/d for each m, summed from the smallest term on."""
    ranks = np.arange(1, depth + 1, dtype=np.float64)
    weights = np.zeros(depth + 1)
    weights[:-1] = np.cumsum((powers(p, depth) / ranks)[::-1])[::-1]
    weights.flags.writeable = False
    return weights


@kernel
def _overlap(  # type: ignore[no-untyped-def]
    offsets, above, grade, rel, ideal, retrieved, depth, weight, out
):
    """A row is in both lists from the deeper of its two ranks on, down to the depth."""
    for g in range(offsets.shape[0] - 1):
        deepest = depth[g]
        beyond = weight[deepest]
        found = 0.0
        most = 0.0
        for e in range(offsets[g], offsets[g + 1]):
            if grade[e] < rel:
                continue
            most += weight[min(ideal[e], deepest)] - beyond
            if above[e] < retrieved[g]:
                found += weight[min(max(above[e], ideal[e]), deepest)] - beyond
        out[g] = min(found / most, 1.0) if most > 0.0 else np.nan
