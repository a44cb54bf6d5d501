"""Measures of readers who want a certain gain and grow patient with rank: INSQ, INST.

Both go on from rank i with probability ((y - 1)/y)^2 for some y, and between rows that earn
nothing y grows by 1 from rank to rank. So V, the probability of being seen (see `user_models`),
telescopes to V(a + j) = V(a) (x/(x + j))^2, and its sum over all ranks to come is
V(a) x^2 psi'(x), with psi'(x) = sum_{j>=0} 1/(x + j)^2 the trigamma function: no list is cut short.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import REL, WEIGHT, Param, distinct_cutoffs, number
from fastrank_eval.measures.gain import PositionWeighted
from fastrank_eval.measures.user_models import GAIN, UserModel
from fastrank_eval.ranking import Ranking


class InverseSquare(UserModel):
    """INSQ@k, the gain per row seen by a reader who wants T of it, and is patient deep down."""

    name = "INSQ"
    summary = (
        "gain per row seen by a reader who wants a gain of T and leaves less readily with rank"
    )
    formula = "sum over i <= k of W(i) gain(g_i),  W(i) proportional to 1 / (i + 2T - 1)^2"
    reference = "Moffat, Scholer & Thomas (2012), doi:10.1145/2407085.2407092"
    options = (
        Param("T", 1, "the gain that the reader wants", number(above=0, most=1e9)),
        REL,
        GAIN,
        WEIGHT,
    )

    def discounts(self) -> tuple[str, float]:
        return "inverse square", 2.0 * self.T

    def rows_seen(self) -> float:
        x = 2.0 * self.T
        # x^2 psi'(x), the first rank apart: 1/x^2 would overflow for a tiny T.
        return 1.0 + float(x * (x * _trigamma(x + 1.0)))


class AdaptiveInverseSquare(UserModel):
    """INST@k, INSQ for a reader whom each gain brings nearer to the goal of T."""

    name = "INST"
    summary = "gain per row seen by a reader who wants a gain of T and leaves as it comes in"
    formula = (
        "sum over i <= k of V(i) gain(g_i), over sum of V(i);  "
        "V(i) = prod_{j<i} (1 - 1/(j + T + T_j))^2,  T_j = T - sum_{l<=j} gain(g_l)"
    )
    reference = "Moffat, Bailey, Scholer & Thomas (2015), doi:10.1145/2838931.2838938"
    options = (
        Param(
            "T",
            1,
            "the gain that the reader wants; less than 1/2 would not give probabilities",
            number(least=0.5, most=1e9),
        ),
        REL,
        GAIN,
        WEIGHT,
    )

    def has_expectation(self) -> bool:
        return False

    def pass_key(self) -> Hashable:
        return "adaptive inverse square", self.gain_key(), self.T

    @classmethod
    def compute(
        cls,
        measures: Sequence[PositionWeighted],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        first = measures[0]
        cutoffs, at = distinct_cutoffs(measures)
        values = np.empty((len(cutoffs), ranking.groups))
        _adaptive(
            ranking.offsets,
            ranking.above,
            first.gains(ranking),
            ranking.retrieved,
            cutoffs,
            2.0 * first.T,
            values,
        )
        for out, row in zip(outs, at, strict=True):
            np.minimum(values[row], 1.0, out=out)


INSQ = InverseSquare()
INST = AdaptiveInverseSquare()


@kernel
def _trigamma(x):  # type: ignore[no-untyped-def]
    """psi'(x) of x > 0: terms of its sum until x is at least 16, then the asymptotic series.

    The first Bernoulli number left out, 7/6 over x^15, is 1e-18 there.
    """
    head = 0.0
    while x < 16.0:
        head += 1.0 / (x * x)
        x += 1.0
    r = 1.0 / x
    s = r * r
    tail = s * (
        1 / 6 - s * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * (5 / 66 - s * (691 / 2730)))))
    )
    return head + r * (1.0 + 0.5 * r + tail)


@kernel
def _adaptive(offsets, above, gain, retrieved, cutoffs, start, out):  # type: ignore[no-untyped-def]
    """INST of one order: rank `at` is seen with probability `seen`; later ranks as x says.

    Rows that earn nothing are passed all at once, and so are the ranks behind the last that earns:
    x^2 (psi'(x) - psi'(x + n)) and x^2 psi'(x).
    """
    for g in range(offsets.shape[0] - 1):
        for k in range(cutoffs.shape[0]):
            at = 0
            x = start
            seen = 1.0
            rows = 0.0
            gained = 0.0
            wanted = start
            for e in range(offsets[g], offsets[g + 1]):
                if above[e] >= retrieved[g] or (cutoffs[k] > 0 and above[e] >= cutoffs[k]):
                    break
                if gain[e] == 0.0:
                    continue
                n = above[e] - at
                if n > 0:
                    rows += seen * x * x * (_trigamma(x) - _trigamma(x + n))
                    seen *= (x / (x + n)) ** 2
                rows += seen
                gained += seen * gain[e]
                wanted -= gain[e]
                at = above[e] + 1
                x = at + wanted
                seen *= ((x - 1.0) / x) ** 2
            rows += seen * x * x * _trigamma(x)
            out[k, g] = gained / rows
