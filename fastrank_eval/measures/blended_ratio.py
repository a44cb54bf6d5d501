"""Q-measure: average precision that grades, the blended ratio at each relevant rank."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import WEIGHT, Param, distinct_cutoffs, number
from fastrank_eval.measures.gain import LINEAR_GAIN, PositiveGain
from fastrank_eval.ranking import Ranking


class QMeasure(PositiveGain):
    """Q@k, the mean over rows with a gain of the blended ratio at their rank.

    With beta 0 it is AP@k over min(k, R) of rows with a gain.
    """

    name = "Q"
    summary = "mean over rows with a gain of hits and gains down to their rank, over the ideal ones"
    formula = (
        "1/min(k, R) sum over ranks i <= k of rows with a gain of "
        "(hits@i + beta CG@i) / (i + beta ICG@i)"
    )
    reference = "Sakai (2004), NTCIR-4 Open Submission Session"
    needs_relevant = True
    options = (
        LINEAR_GAIN,
        Param("beta", 1, "what a unit of gain counts for beside a hit", number(least=0, most=1e6)),
        WEIGHT,
    )
    spellings = ("QMeasure", "Q_measure")

    def pass_key(self) -> Hashable:
        return self.name, self.gain_key(), self.beta

    @classmethod
    def compute(
        cls,
        measures: Sequence[QMeasure],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        first = measures[0]
        cutoffs, at = distinct_cutoffs(measures)
        gains = first.gains(ranking)
        values = np.empty((len(cutoffs), ranking.groups))
        _blended(
            ranking.offsets,
            ranking.above,
            ranking.size,
            gains,
            ranking.descending(first.gain_key(), gains),
            ranking.retrieved,
            cutoffs,
            float(first.beta),
            values,
        )
        for out, row in zip(outs, at, strict=True):
            # A block's rounding may pass 1 by one unit in the last place.
            np.minimum(values[row], 1.0, out=out)

    def reasons(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        yield "no_relevant", ~self.has_gain(ranking)


Q = QMeasure()


@kernel
def _blended(  # type: ignore[no-untyped-def]
    offsets, above, size, gain, ideal_gain, retrieved, cutoffs, beta, out
):
    """A block of n rows, r of them with a gain, of total gain S, below A such rows of gain G.

    At its place i a row with a gain stands with probability r/n; hits and gains through it, summed
    over the r rows, are r (A + 1 + (i - 1)(r - 1)/(n - 1)) and r G + S + (i - 1)(r - 1) S/(n - 1)
    in expectation.
    """
    for g in range(offsets.shape[0] - 1):
        first = offsets[g]
        end = offsets[g + 1]
        relevant = 0
        while first + relevant < end and ideal_gain[first + relevant] > 0.0:
            relevant += 1
        for k in range(cutoffs.shape[0]):
            out[k, g] = 0.0 if relevant > 0 else np.nan
        if relevant == 0:
            continue
        seen = 0
        ideal = 0.0
        hits = 0
        gained = 0.0
        e = first
        while e < end and above[e] < retrieved[g]:
            c = above[e]
            n = size[e]
            r = 0
            total = 0.0
            while e < end and above[e] == c:
                if gain[e] > 0.0:
                    r += 1
                    total += gain[e]
                e += 1
            if r == 0:
                continue
            for i in range(1, n + 1):
                rank = c + i
                while seen < rank and seen < relevant:
                    ideal += ideal_gain[first + seen]
                    seen += 1
                before = 0.0
                if n > 1:
                    before = (i - 1.0) * (r - 1.0) / (n - 1.0)
                of_hits = r * (hits + 1.0 + before)
                of_gains = r * gained + total * (1.0 + before)
                term = (of_hits + beta * of_gains) / n / (rank + beta * ideal)
                for k in range(cutoffs.shape[0]):
                    if cutoffs[k] == 0 or rank <= cutoffs[k]:
                        out[k, g] += term
            hits += r
            gained += total
        for k in range(cutoffs.shape[0]):
            ranks = relevant if cutoffs[k] == 0 else min(cutoffs[k], relevant)
            out[k, g] /= ranks
