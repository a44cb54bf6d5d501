"""The residual of RBP: what judging the rows that nobody judged could still add."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import WEIGHT, Measure, Param, number, one_of
from fastrank_eval.measures.discounts import discount_table
from fastrank_eval.ranking import Ranking


class RBPResidual(Measure):
    """RBPres, how much RBP could grow if every unknown row were relevant.

    Unknown are retrieved rows without a label or of negative grade, and all ranks beyond the list.
    """

    name = "RBPres"
    summary = "the weight of RBP on unjudged ranks and on those beyond the list"
    formula = "(1 - p) sum over unjudged ranks i of p^(i-1) + p^n, n being the rows of the list"
    higher_is_better = False
    reference = "Moffat & Zobel (2008), doi:10.1145/1416950.1416952"
    needs_judgments = True
    takes_cutoff = False
    options = (
        Param("p", 0.8, "persistence, as of RBP", number(above=0, below=1)),
        Param(
            "tail",
            "always",
            "'always': ranks beyond the list count; 'if_unjudged': only where a row of it is "
            "unjudged, as trec_eval has it",
            one_of("always", "if_unjudged"),
        ),
        WEIGHT,
    )
    spellings = ("rbp_resid",)

    def pass_key(self) -> Hashable:
        return self.name, self.p

    def empty_is_known(self) -> bool:
        return False

    @classmethod
    def compute(
        cls,
        measures: Sequence[RBPResidual],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        p = float(measures[0].p)
        judged = ranking.judged()
        below, summed = discount_table("geometric", p, int(ranking.retrieved.max(initial=0)) + 1)
        unknown, found = np.empty((2, ranking.groups))
        _unknown_weight(
            ranking.offsets,
            ranking.above,
            ranking.size,
            ranking.grade,
            ranking.retrieved,
            judged.offsets,
            judged.above,
            judged.size,
            summed,
            unknown,
            found,
        )
        beyond = below[ranking.retrieved]
        for m, out in zip(measures, outs, strict=True):
            out[:] = (1.0 - p) * unknown
            out += beyond if m.tail == "always" else np.where(found > 0, beyond, 0.0)
            np.minimum(out, 1.0, out=out)


RBPres = RBPResidual()


@kernel
def _unknown_weight(  # type: ignore[no-untyped-def]
    offsets, above, size, grade, retrieved, others, other_above, other_size, summed, out, found
):
    """Mean weight of the ranks of each unjudged row's block, over rows without a judgment."""
    for g in range(offsets.shape[0] - 1):
        weight = 0.0
        rows = 0.0
        for u in range(others[g], others[g + 1]):
            c = other_above[u]
            n = other_size[u]
            weight += (summed[c + n] - summed[c]) / n
            rows += 1.0
        for e in range(offsets[g], offsets[g + 1]):
            if grade[e] < 0 and above[e] < retrieved[g]:
                c = above[e]
                n = size[e]
                weight += (summed[c + n] - summed[c]) / n
                rows += 1.0
        out[g] = weight
        found[g] = rows
