"""Measure gains averaged over ranks, or divided by their lag."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from fastrank_eval._lib.elementary import log2_each
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.measures.base import REL, WEIGHT, Measure, Param, number, over_groups
from fastrank_eval.measures.gain import LINEAR_GAIN, PositiveGain, discount_table


@kernel
def _at_relevant_rows(  # type: ignore[no-untyped-def]
    offsets, above, size, retrieved, gain, ideal_gain, discount, summed, out
):
    """Average the expected nDCG at the ranks of rows with a gain.

    A block of n rows has r rows with a gain, of total gain S, below rows of DCG A. Each of its
    ranks i has a row with a gain with probability r/n. The expected DCG up to i is then
    A + discount(i) S/r + (r - 1)/r S/(n - 1) (D(i - 1) - D(c)).
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
        retrieved_relevant = 0
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
            retrieved_relevant += r
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
        out[g] = (total + (judged - retrieved_relevant) * (gained / ideal)) / judged


@kernel
def _at_levels(  # type: ignore[no-untyped-def]
    offsets, above, size, retrieved, gain, ideal_gain, discount, summed, out
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
        # The block that the next cut may split: its first rank, rows and total gain.
        c = 0
        n = 0
        block = 0.0
        at_end = False
        while not at_end:
            level = ideal_gain[first + ranks] if first + ranks < end else 0.0
            at_end = level <= 0.0
            if at_end and (ranks == 0 or rows <= ranks + 1):
                break
            depth = rows
            if not at_end:
                while first + ranks < end and ideal_gain[first + ranks] == level:
                    ideal += level * discount[ranks]
                    ranks += 1
                depth = min(ranks, rows)
            while c + n < depth:
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
            if c < depth and n > 0:
                if n == 1:
                    value += block * discount[c]
                else:
                    value += block * ((summed[min(c + n, depth)] - summed[c]) / n)
            total += value / ideal
            points += 1
        out[g] = total / points if points > 0 else np.nan


class _GainAverage(PositiveGain):
    """Base class: gains in list order and in ideal order, with log2 discounts."""

    needs_relevant = True
    takes_cutoff = False
    options: ClassVar[tuple[Param, ...]] = (LINEAR_GAIN, WEIGHT)

    #: The kernel.
    average: ClassVar[staticmethod[..., None]]

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        gains = self.gains(ranking)
        ideal = ranking.descending(self.gain_key(), gains)
        # The ideal list is longer than a list that misses relevant rows.
        ranks = max(
            int(ranking.retrieved.max(initial=0)), int(np.diff(ranking.offsets).max(initial=0))
        )
        table = discount_table("log2", 0.0, ranks)
        return over_groups(self.average, ranking, gains, ideal, *table)

    def from_shared(self, shared: np.ndarray, ranking: Ranking) -> np.ndarray:
        value = super().from_shared(shared, ranking)
        value[~self.has_relevant(ranking)] = np.nan
        return value

    def has_relevant(self, ranking: Ranking) -> np.ndarray:
        """Mark the groups with the rows that it needs. bool, shape (groups,)."""
        return self.has_gain(ranking)

    def reasons(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        yield "no_relevant", ~self.has_relevant(ranking)


class GainAtRelevantRows(_GainAverage):
    """nDCGrel, the mean of nDCG at the ranks of rows with a gain.

    A row that is not retrieved adds the DCG of the whole list over the ideal DCG of all judged
    rows.
    """

    name = "nDCGrel"
    summary = "mean over the rows with a gain of nDCG at their rank"
    formula = "1/R (sum over rows with a gain, at rank i, of DCG@i / IDCG@i + missed DCG / IDCG)"
    reference = "Buckley, trec_eval: ndcg_rel"
    spellings = ("ndcg_rel",)

    average = staticmethod(_at_relevant_rows)


class GainAtLevels(_GainAverage):
    """RnDCG, the mean of nDCG at the ranks where the ideal gain decreases.

    With 5 rows of gain 3, 3 of gain 2 and 10 of gain 1 these are the ranks 5, 8 and 18. The end of
    the list is added if more than one row follows the last of them, as in trec_eval.
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

    average = staticmethod(_at_levels)

    def has_relevant(self, ranking: Ranking) -> np.ndarray:
        groups = super().has_relevant(ranking)
        return groups if self.rel is None else groups & (ranking.relevant(float(self.rel)) > 0)


class LaggingGain(PositiveGain):
    """G, gains divided by the logarithm of the lag behind the ideal list.

    The lag is the cumulated gain of the ideal list less that of the list. The ideal list counts at
    least 1 at each rank, also after its last relevant row. The gain of the list includes the row
    itself. So a row of high gain can earn more after rows of low gain than before them: high grades
    first is not the best order.
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

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        gains = self.gains(ranking)
        ideal = ranking.descending(self.gain_key(), gains)
        lag, value = np.empty(len(gains)), np.empty(ranking.groups)
        _lags(ranking.offsets, ranking.above, gains, ideal, ranking.retrieved, lag)
        _lagging_gain(ranking.offsets, gains, ideal, log2_each(lag), value)
        return value

    def reasons(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        yield "no_relevant", ~self.has_gain(ranking)


class BinaryLaggingGain(Measure):
    """binG, the mean over relevant rows of 1/log2(2 + others before it)."""

    name = "binG"
    summary = "mean over the relevant rows of one over the log of the others before it"
    formula = "1/R sum over relevant ranks i of 1 / log2(2 + i - hits@i)"
    reference = "Buckley, trec_eval: binG"
    options = (REL, WEIGHT)
    needs_relevant = True
    takes_cutoff = False

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        rel = float(self.rel)
        table = discount_table("log2", 0.0, int(ranking.retrieved.max(initial=0)) + 1)
        summed = over_groups(_expected_lag, ranking, ranking.grade, rel, *table)
        value, relevant = np.full(ranking.groups, np.nan), ranking.relevant(rel)
        return np.divide(summed, relevant, out=value, where=relevant > 0)


@kernel
def _lags(offsets, above, gain, ideal_gain, retrieved, out):  # type: ignore[no-untyped-def]
    """Compute 2 plus the lag of each entry; inf if it is not retrieved."""
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
        for unretrieved in range(e, end):
            out[unretrieved] = np.inf


@kernel
def _lagging_gain(offsets, gain, ideal_gain, logarithm, out):  # type: ignore[no-untyped-def]
    for g in range(offsets.shape[0] - 1):
        ideal = 0.0
        total = 0.0
        for e in range(offsets[g], offsets[g + 1]):
            ideal += ideal_gain[e]
            total += gain[e] / logarithm[e]
        out[g] = total / ideal if ideal > 0.0 else np.nan


@kernel
def _expected_lag(  # type: ignore[no-untyped-def]
    offsets, above, size, retrieved, grade, rel, discount, summed, out
):
    """Sum the expected discounts of relevant rows.

    Of the z other rows of a block, 0 to z come before a relevant row, equally likely.
    """
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
