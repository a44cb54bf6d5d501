"""Measures of readers who leave because of what they gained: NERR8 to NERR11, BPM.

They see rank i with a probability that falls with rank alone, as long as nothing is gained; each
gain then takes its share of it: V(i) = discount(i) prod_{j<i} (1 - gain(g_j)) for the "nearly ERR"
measures, and nothing is left once T is gained for BPM. The value is the gain per row seen,
sum V(i) gain(g_i) / sum V(i) (see `user_models`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import cast

import numpy as np

from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import REL, WEIGHT, Param, distinct_cutoffs, number
from fastrank_eval.measures.discounts import discount_table, longest
from fastrank_eval.measures.gain import PositionWeighted
from fastrank_eval.measures.inverse_square import InverseSquare
from fastrank_eval.measures.user_models import GAIN, RankBiasedPrecision, TruncatedModel, UserModel
from fastrank_eval.ranking import Ranking

_NEARLY_ERR = "Azzopardi, Mackenzie & Moffat (2021), doi:10.1145/3471158.3472239"


class _GainStopping(UserModel):
    """What the measures of this family share: one pass over what is gained, and when."""

    def goal(self) -> float | None:
        """The gain after which the reader leaves; None: each gain takes its share of readers."""
        return None

    def has_expectation(self) -> bool:
        return False

    def pass_key(self) -> Hashable:
        return "gain stopping", self.name, self.gain_key(), self.discounts(), self.goal()

    @classmethod
    def compute(
        cls,
        measures: Sequence[PositionWeighted],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        first = cast(_GainStopping, measures[0])
        cutoffs, at = distinct_cutoffs(measures)
        discount, summed = discount_table(*first.discounts(), longest(cutoffs, ranking.retrieved))
        in_all = np.empty(len(cutoffs))
        for m, row in zip(measures, at, strict=True):
            in_all[row] = cast(_GainStopping, m).rows_seen()
        goal = first.goal()
        values = np.empty((len(cutoffs), ranking.groups))
        _gain_stopping(
            ranking.offsets,
            ranking.above,
            first.gains(ranking),
            ranking.retrieved,
            cutoffs,
            discount,
            summed,
            in_all,
            1.0 if goal is None else 0.0,
            np.inf if goal is None else goal,
            values,
        )
        for out, row in zip(outs, at, strict=True):
            np.minimum(values[row], 1.0, out=out)


class NearlyERR8(_GainStopping, TruncatedModel):
    """NERR8@k, of a reader whom a row of gain g satisfies with probability g, within k ranks."""

    name = "NERR8"
    summary = "gain per row seen by a reader who leaves with probability gain(g), and after k ranks"
    formula = "sum over i <= k of V(i) gain(g_i), over sum of V(i);  C(i) = 1 - gain(g_i)"
    reference = _NEARLY_ERR
    options = (REL, GAIN, WEIGHT)

    def discounts(self) -> tuple[str, float]:
        return "none", 0.0


class NearlyERR9(_GainStopping, TruncatedModel):
    """NERR9@k, NERR8@k with the impatience of ERR: 1/i of the readers get to rank i."""

    name = "NERR9"
    summary = "as NERR8, of readers 1/i of whom get to rank i where nothing is gained"
    formula = (
        "sum over i <= k of V(i) gain(g_i), over sum of V(i);  C(i) = i/(i + 1) (1 - gain(g_i))"
    )
    reference = _NEARLY_ERR
    options = (REL, GAIN, WEIGHT)

    def discounts(self) -> tuple[str, float]:
        return "reciprocal", 0.0


class NearlyERR10(_GainStopping, RankBiasedPrecision):
    """NERR10@k, RBP of a reader whom a row of gain g satisfies with probability g."""

    name = "NERR10"
    summary = "as NERR8, of a reader who goes on with probability p, as in RBP, to any rank"
    formula = "sum over i <= k of V(i) gain(g_i), over sum of V(i);  C(i) = p (1 - gain(g_i))"
    reference = _NEARLY_ERR
    options = (
        Param(
            "p",
            0.9,
            "persistence: the probability of going on to the next rank if nothing is gained",
            number(above=0, below=1),
        ),
        REL,
        GAIN,
        WEIGHT,
    )


class NearlyERR11(_GainStopping, InverseSquare):
    """NERR11@k, INSQ of a reader whom a row of gain g satisfies with probability g."""

    name = "NERR11"
    summary = "as NERR8, of a reader who grows patient with rank, as in INSQ, to any rank"
    formula = (
        "sum over i <= k of V(i) gain(g_i), over sum of V(i);  "
        "C(i) = ((i + 2T - 1)/(i + 2T))^2 (1 - gain(g_i))"
    )
    reference = _NEARLY_ERR


class BejeweledPlayer(_GainStopping, TruncatedModel):
    """BPM@k, the static Bejeweled Player Model: a reader who leaves with a gain of T or after k."""

    name = "BPM"
    summary = "gain per row seen by a reader who leaves once a gain of T is in, or after k ranks"
    formula = "sum over i <= d of gain(g_i), over d;  d the first rank by which T is gained, or k"
    reference = "Zhang et al. (2017), doi:10.1145/3077136.3080841"
    options = (
        Param("T", 1, "the gain that the reader wants", number(above=0, most=1e9)),
        REL,
        GAIN,
        WEIGHT,
    )

    def goal(self) -> float | None:
        return float(self.T)

    def discounts(self) -> tuple[str, float]:
        return "none", 0.0


NERR8 = NearlyERR8()
NERR9 = NearlyERR9()
NERR10 = NearlyERR10()
NERR11 = NearlyERR11()
BPM = BejeweledPlayer()


@kernel
def _gain_stopping(  # type: ignore[no-untyped-def]
    offsets, above, gain, retrieved, cutoffs, discount, summed, in_all, taken, goal, out
):
    """Value of one order; `looking` is what gains have left of the reader.

    Ranks that earn nothing are passed all at once: their discounts are summed, `in_all` of them
    over all ranks. A gain leaves 1 - `taken` gain of the reader, and nothing if it reaches `goal`.
    """
    for g in range(offsets.shape[0] - 1):
        for k in range(cutoffs.shape[0]):
            at = 0
            looking = 1.0
            rows = 0.0
            gained = 0.0
            sum_of_gains = 0.0
            for e in range(offsets[g], offsets[g + 1]):
                rank = above[e]
                if rank >= retrieved[g] or (cutoffs[k] > 0 and rank >= cutoffs[k]):
                    break
                if gain[e] == 0.0:
                    continue
                rows += looking * (summed[rank + 1] - summed[at])
                gained += looking * discount[rank] * gain[e]
                at = rank + 1
                looking *= 1.0 - taken * gain[e]
                sum_of_gains += gain[e]
                if sum_of_gains >= goal:
                    looking = 0.0
                if looking == 0.0:
                    break
            rows += looking * (in_all[k] - summed[at])
            out[k, g] = gained / rows
