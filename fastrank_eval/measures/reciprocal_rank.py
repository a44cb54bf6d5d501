"""RR, one over the rank of the first relevant row."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import REL, WEIGHT, Measure, distinct_cutoffs
from fastrank_eval.ranking import Ranking


class ReciprocalRank(Measure):
    """RR@k, one over the rank of the first relevant row; 0 if none stands among the first k."""

    name = "RR"
    summary = "one over the rank of the first relevant row, 0 if there is none in the first k"
    formula = "1 / (rank of the first relevant row)"
    reference = "Kantor & Voorhees (2000), doi:10.1023/A:1009902609570"
    options = (REL, WEIGHT)
    spellings = ("MRR", "recip_rank", "ReciprocalRank")

    def pass_key(self) -> Hashable:
        return "reciprocal rank", self.rel

    @classmethod
    def compute(
        cls,
        measures: Sequence[ReciprocalRank],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        cutoffs, at = distinct_cutoffs(measures)
        found = np.empty((len(cutoffs), ranking.groups))
        _expected_reciprocal(
            ranking.offsets,
            ranking.above,
            ranking.size,
            ranking.grade,
            float(measures[0].rel),
            ranking.retrieved,
            cutoffs,
            found,
        )
        for out, row in zip(outs, at, strict=True):
            np.minimum(found[row], 1.0, out=out)


RR = ReciprocalRank()


@kernel
def _expected_reciprocal(  # type: ignore[no-untyped-def]
    offsets, above, size, grade, rel, retrieved, cutoffs, out
):
    """Only the first block with a relevant row matters.

    Its first relevant row stands i-th in the block with probability p_i: p_1 = r/n,
    p_(i+1) = p_i (n - i - r + 1)/(n - i).
    """
    for g in range(offsets.shape[0] - 1):
        for k in range(cutoffs.shape[0]):
            out[k, g] = 0.0
        e = offsets[g]
        end = offsets[g + 1]
        while e < end and above[e] < retrieved[g]:
            c = above[e]
            n = size[e]
            r = 0
            while e < end and above[e] == c:
                if grade[e] >= rel:
                    r += 1
                e += 1
            if r == 0:
                continue
            for k in range(cutoffs.shape[0]):
                m = n - r + 1
                if cutoffs[k] > 0:
                    m = min(m, cutoffs[k] - c)
                chance = r / n
                for i in range(1, m + 1):
                    out[k, g] += chance / (c + i)
                    if i < n:
                        chance *= (n - i - r + 1) / (n - i)
            break
