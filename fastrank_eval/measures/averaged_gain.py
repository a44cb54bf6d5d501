"""nDCG averaged over points of the list: at each relevant row, or where the ideal gain falls."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import WEIGHT, Param, number
from fastrank_eval.measures.discounts import discount_table
from fastrank_eval.measures.gain import LINEAR_GAIN, PositiveGain
from fastrank_eval.ranking import Ranking


class _AveragedGain(PositiveGain):
    """What both share: gains in the order of the list and of the ideal, and log2 discounts."""

    needs_relevant = True
    takes_cutoff = False
    options: ClassVar[tuple[Param, ...]] = (LINEAR_GAIN, WEIGHT)

    @staticmethod
    def average(*arrays: Any) -> None:
        """Run the kernel."""
        raise NotImplementedError  # pragma: no cover - abstract

    def pass_key(self) -> Hashable:
        return self.name, self.gain_key()

    @classmethod
    def compute(
        cls,
        measures: Sequence[_AveragedGain],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        first = measures[0]
        gains = first.gains(ranking)
        # The ideal list goes on behind the end of a list that misses relevant rows.
        ranks = max(
            int(ranking.retrieved.max(initial=0)), int(np.diff(ranking.offsets).max(initial=0))
        )
        discount, summed = discount_table("log2", 0.0, ranks)
        averaged = np.empty(ranking.groups)
        cls.average(
            ranking.offsets,
            ranking.above,
            ranking.size,
            gains,
            ranking.descending(first.gain_key(), gains),
            ranking.retrieved,
            discount,
            summed,
            averaged,
        )
        for m, out in zip(measures, outs, strict=True):
            # A block's rounding may pass 1 by one unit in the last place.
            np.minimum(averaged, 1.0, out=out)
            out[~m.has_relevant(ranking)] = np.nan

    def has_relevant(self, ranking: Ranking) -> np.ndarray:
        """Which groups have the rows that it needs. bool, shape (groups,)."""
        return self.has_gain(ranking)

    def reasons(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        yield "no_relevant", ~self.has_relevant(ranking)


class GainAtRelevantRows(_AveragedGain):
    """nDCGrel, the mean over rows of positive gain of nDCG at their rank.

    A row that is not retrieved counts the DCG of the whole list over the ideal of all judged rows.
    """

    name = "nDCGrel"
    summary = "mean over the rows with a gain of nDCG at their rank"
    formula = "1/R (sum over rows with a gain, at rank i, of DCG@i / IDCG@i + missed DCG / IDCG)"
    reference = "Buckley, trec_eval: ndcg_rel"
    spellings = ("ndcg_rel",)

    @staticmethod
    def average(*arrays: Any) -> None:
        _at_relevant_rows(*arrays)


class GainAtLevels(_AveragedGain):
    """RnDCG, the mean of nDCG at the ranks where the gain of the ideal list falls.

    With 5 rows of gain 3, 3 of gain 2 and 10 of gain 1 these are the ranks 5, 8 and 18, and the end
    of the list where more than one row follows the last of them, as trec_eval counts.
    """

    name = "RnDCG"
    summary = "mean of nDCG at the ranks where the ideal gain falls, and at the end of the list"
    formula = "mean over such ranks c of DCG@c / IDCG@c"
    reference = "Buckley, trec_eval: Rndcg"
    options = (
        LINEAR_GAIN,
        Param(
            "rel",
            None,
            "None, or a grade: a group without a row of that grade or above is undefined",
            number(above=0, optional=True),
        ),
        WEIGHT,
    )

    @staticmethod
    def average(*arrays: Any) -> None:
        _at_levels(*arrays)

    def has_relevant(self, ranking: Ranking) -> np.ndarray:
        found = super().has_relevant(ranking)
        return found if self.rel is None else found & (ranking.relevant(float(self.rel)) > 0)


nDCGrel = GainAtRelevantRows()
RnDCG = GainAtLevels()


@kernel
def _at_relevant_rows(  # type: ignore[no-untyped-def]
    offsets, above, size, gain, ideal_gain, retrieved, discount, summed, out
):
    """A block of n rows, r of them with a gain, of total gain S, below rows of DCG A.

    At each of its ranks i a row with a gain stands with probability r/n, and the DCG through i is
    then A + discount(i) S/r + (r - 1)/r S/(n - 1) (D(i - 1) - D(c)) in expectation.
    """
    for g in range(offsets.shape[0] - 1):
        first = offsets[g]
        end = offsets[g + 1]
        judged = 0
        while first + judged < end and ideal_gain[first + judged] > 0.0:
            judged += 1
        if judged == 0:
            out[g] = np.nan
            continue
        ideal = 0.0
        ranks = 0
        gained = 0.0
        total = 0.0
        found = 0
        e = first
        while e < end and above[e] < retrieved[g]:
            c = above[e]
            n = size[e]
            block = 0.0
            r = 0
            while e < end and above[e] == c:
                block += gain[e]
                if gain[e] > 0.0:
                    r += 1
                e += 1
            if r == 0:
                continue
            found += r
            while ranks < min(c, judged):
                ideal += ideal_gain[first + ranks] * discount[ranks]
                ranks += 1
            for i in range(c, c + n):
                if ranks <= i and ranks < judged:
                    ideal += ideal_gain[first + ranks] * discount[ranks]
                    ranks += 1
                if n == 1:
                    total += (gained + block * discount[i]) / ideal
                else:
                    others = (r - 1) * (block / (n - 1)) * (summed[i] - summed[c])
                    total += (r * gained + block * discount[i] + others) / n / ideal
            if n == 1:
                gained += block * discount[c]
            else:
                gained += block * ((summed[c + n] - summed[c]) / n)
        while ranks < judged:
            ideal += ideal_gain[first + ranks] * discount[ranks]
            ranks += 1
        out[g] = (total + (judged - found) * (gained / ideal)) / judged


@kernel
def _at_levels(  # type: ignore[no-untyped-def]
    offsets, above, size, gain, ideal_gain, retrieved, discount, summed, out
):
    for g in range(offsets.shape[0] - 1):
        first = offsets[g]
        end = offsets[g + 1]
        rows = retrieved[g]
        total = 0.0
        points = 0
        ideal = 0.0
        ranks = 0
        gained = 0.0
        e = first
        # The block that the next point may cut: its first rank, rows and total gain.
        c = 0
        n = 0
        block = 0.0
        at_end = False
        while not at_end:
            level = ideal_gain[first + ranks] if first + ranks < end else 0.0
            at_end = level <= 0.0
            if at_end and (ranks == 0 or rows <= ranks + 1):
                break
            seen = rows
            if not at_end:
                while first + ranks < end and ideal_gain[first + ranks] == level:
                    ideal += level * discount[ranks]
                    ranks += 1
                seen = min(ranks, rows)
            while c + n < seen:
                if n == 1:
                    gained += block * discount[c]
                elif n > 0:
                    gained += block * ((summed[c + n] - summed[c]) / n)
                block = 0.0
                c = rows
                n = 0
                if e < end and above[e] < rows:
                    c = above[e]
                    n = size[e]
                while e < end and above[e] == c:
                    block += gain[e]
                    e += 1
            value = gained
            if c < seen and n > 0:
                if n == 1:
                    value += block * discount[c]
                else:
                    value += block * ((summed[min(c + n, seen)] - summed[c]) / n)
            total += value / ideal
            points += 1
        out[g] = total / points if points > 0 else np.nan
