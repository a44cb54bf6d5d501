"""Gains discounted by how far the list lags behind the ideal one: G and, for binary gains, binG."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from fastrank_eval.elementary import log2_each
from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import REL, WEIGHT, Measure
from fastrank_eval.measures.discounts import discount_table
from fastrank_eval.measures.gain import LINEAR_GAIN, PositiveGain
from fastrank_eval.ranking import Ranking


class LaggingGain(PositiveGain):
    """G, gains divided by the logarithm of the gain that the list is short of the ideal one.

    The ideal list counts at least 1 at each rank, also behind its last relevant row. The list's own
    gain includes the row itself, so a row of high gain behind rows of low gain can earn more than
    in front of them: there is no best order to be had by putting high grades first.
    """

    name = "G"
    summary = "gain over the log of how far the list's gain lags behind the ideal list's"
    formula = (
        "1/ideal sum over i of gain(g_i) / log2(2 + sum over j <= i of "
        "(max(1, ideal gain at j) - gain(g_j)))"
    )
    reference = "Buckley, trec_eval: G"
    options = (LINEAR_GAIN, WEIGHT)
    needs_relevant = True
    takes_cutoff = False

    def refuses(self, ties: str) -> str | None:
        if ties in ("expected", "best", "worst"):
            why = "has no closed form for" if ties == "expected" else "has no order by grade for"
            return f"{self} {why} ties='{ties}'; choose ties='item' or 'input'"
        return None

    def pass_key(self) -> Hashable:
        return self.name, self.gain_key()

    @classmethod
    def compute(
        cls,
        measures: Sequence[LaggingGain],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        first = measures[0]
        gains = first.gains(ranking)
        ideal = ranking.descending(first.gain_key(), gains)
        lag, value = np.empty(len(gains)), np.empty(ranking.groups)
        _lags(ranking.offsets, ranking.above, gains, ideal, ranking.retrieved, lag)
        _lagging_gain(ranking.offsets, gains, ideal, log2_each(lag), value)
        for out in outs:
            # The order of addition may pass 1 by one unit in the last place.
            np.minimum(value, 1.0, out=out)

    def reasons(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        yield "no_relevant", ~self.has_gain(ranking)


class BinaryLaggingGain(Measure):
    """binG, the mean over relevant rows of 1/log2(2 + the rows before it that are not relevant)."""

    name = "binG"
    summary = "mean over the relevant rows of one over the log of the others before it"
    formula = "1/R sum over relevant ranks i of 1 / log2(2 + i - hits@i)"
    reference = "Buckley, trec_eval: binG"
    options = (REL, WEIGHT)
    needs_relevant = True
    takes_cutoff = False

    def pass_key(self) -> Hashable:
        return self.name, self.rel

    @classmethod
    def compute(
        cls,
        measures: Sequence[BinaryLaggingGain],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        rel = float(measures[0].rel)
        relevant = ranking.relevant(rel)
        discount, summed = discount_table("log2", 0.0, int(ranking.retrieved.max(initial=0)) + 1)
        value = np.empty(ranking.groups)
        _expected_lag(
            ranking.offsets,
            ranking.above,
            ranking.size,
            ranking.grade,
            rel,
            ranking.retrieved,
            discount,
            summed,
            value,
        )
        for out in outs:
            out[:] = np.nan
            np.divide(value, relevant, out=out, where=relevant > 0)
            np.minimum(out, 1.0, out=out)


G = LaggingGain()
binG = BinaryLaggingGain()


@kernel
def _lags(offsets, above, gain, ideal_gain, retrieved, out):  # type: ignore[no-untyped-def]
    """2 plus the gain that the list is short of the ideal one; inf where a row counts nothing."""
    for g in range(offsets.shape[0] - 1):
        first = offsets[g]
        end = offsets[g + 1]
        gained = 0.0
        ideal = 0.0
        ranks = 0
        e = first
        while e < end and above[e] < retrieved[g]:
            while ranks <= above[e]:
                if first + ranks < end:
                    ideal += max(1.0, ideal_gain[first + ranks])
                    ranks += 1
                else:
                    ideal += above[e] + 1 - ranks
                    ranks = above[e] + 1
            gained += gain[e]
            out[e] = 2.0 + max(ideal - gained, 0.0)
            e += 1
        for lost in range(e, end):
            out[lost] = np.inf


@kernel
def _lagging_gain(offsets, gain, ideal_gain, logarithm, out):  # type: ignore[no-untyped-def]
    for g in range(offsets.shape[0] - 1):
        whole = 0.0
        total = 0.0
        for e in range(offsets[g], offsets[g + 1]):
            whole += ideal_gain[e]
            total += gain[e] / logarithm[e]
        out[g] = total / whole if whole > 0.0 else np.nan


@kernel
def _expected_lag(  # type: ignore[no-untyped-def]
    offsets, above, size, grade, rel, retrieved, discount, summed, out
):
    """A relevant row of a block has 0 to z of its z other rows before it, each as likely."""
    for g in range(offsets.shape[0] - 1):
        total = 0.0
        before = 0
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
            others = c - before
            levels = n - r + 1
            if levels == 1:
                total += r * discount[others]
            else:
                total += r * ((summed[others + levels] - summed[others]) / levels)
            before += r
        out[g] = total
