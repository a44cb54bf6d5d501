"""Measures of readers who go on from rank to rank with a given probability: RBP, SDCG.

A measure of the C/W/L family (Moffat, Bailey, Scholer & Thomas 2017, doi:10.1145/3052768) is given
by the probability C(i) of going on from rank i. The reader sees rank i with probability
V(i) = prod_{j<i} C(j), and the value is the gain expected of a row that is seen:
sum_i V(i) g_i / sum_i V(i). The sum below runs over all ranks, whatever the length of the list; it
is the number of rows the reader is expected to see.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import cast

import numpy as np

from fastrank_eval.errors import MeasureError
from fastrank_eval.measures.base import REL, WEIGHT, Param, number, outside_unit
from fastrank_eval.measures.discounts import DEEPEST, discount_table
from fastrank_eval.measures.gain import PositionWeighted, gain_of
from fastrank_eval.ranking import Ranking

GAIN = Param(
    "gain",
    "binary",
    "'binary': 1 for grades of at least `rel`; 'label': the label itself, in [0, 1]; or a table "
    "{grade: gain in [0, 1]}",
    gain_of("binary", "label", least=0, most=1),
)


class UserModel(PositionWeighted):
    """What the measures of this family share: gains in [0, 1], and the rows expected to be seen."""

    def gain_key(self) -> Hashable:
        return "unit gain", self.gain, self.rel if self.gain == "binary" else None

    def _gains(self, grade: np.ndarray) -> np.ndarray:
        if self.gain == "binary":
            return (grade >= self.rel).astype(np.float64)
        return grade if self.gain == "label" else super()._gains(grade)

    def check_grades(self, ranking: Ranking) -> None:
        super().check_grades(ranking)
        wrong = outside_unit(ranking) if self.gain == "label" else None
        if wrong is not None:
            raise MeasureError(
                f"{self}: label {wrong:g} is no gain in [0, 1]; with gain='label' labels must lie "
                "in [0, 1]. Give grades their gains by a table, as in "
                f"{self.name}(gain={{1: 0.5, 2: 1}})."
            )

    def rows_seen(self) -> float:
        """sum_i V(i), over all ranks."""
        raise NotImplementedError  # pragma: no cover - abstract

    def from_gain(self, gained: np.ndarray, ranking: Ranking) -> np.ndarray:
        # The sum of a block's ranks may pass what it is divided by, in the last place.
        return np.minimum(gained / self.rows_seen(), 1.0)


class TruncatedModel(UserModel):
    """A model of readers who never get past rank k, and which therefore needs a cutoff."""

    def check_complete(self) -> None:
        if self.cutoff is None:
            raise MeasureError(
                f"{self.name} is of readers who stop at rank k: it needs a cutoff, @k."
            )
        if self.cutoff > DEEPEST:
            raise MeasureError(
                f"{self.name} takes cutoffs up to {DEEPEST:,}, not {self.cutoff:,}: it adds the "
                "chances of being seen of every rank."
            )

    def rows_seen(self) -> float:
        k = cast(int, self.cutoff)
        _, summed = discount_table(*self.discounts(), k)
        return float(summed[k])


class RankBiasedPrecision(UserModel):
    """RBP@k, the gain per row seen by a reader who goes on with probability p at every rank."""

    name = "RBP"
    summary = "gain per row seen by a reader who goes on to the next with probability p"
    formula = "(1 - p) sum over i <= k of p^(i-1) gain(g_i)"
    reference = "Moffat & Zobel (2008), doi:10.1145/1416950.1416952"
    options = (
        Param(
            "p",
            0.8,
            "persistence: the probability of going on to the next rank",
            number(above=0, below=1),
        ),
        REL,
        GAIN,
        WEIGHT,
    )

    def discounts(self) -> tuple[str, float]:
        return "geometric", float(self.p)

    def rows_seen(self) -> float:
        return 1.0 / (1.0 - float(self.p))


class ScaledDiscountedGain(TruncatedModel):
    """SDCG@k, DCG@k over the discounts of k ranks: what a list of k full gains would earn."""

    name = "SDCG"
    summary = "DCG@k of gains in [0, 1] over the DCG@k of k rows of gain 1, however few there are"
    formula = "sum over i <= k of gain(g_i) / log2(i + 1), over sum over i <= k of 1 / log2(i + 1)"
    reference = (
        "Moffat et al. (2017), doi:10.1145/3052768; "
        "Jarvelin & Kekalainen (2002), doi:10.1145/582415.582418"
    )
    options = (REL, GAIN, WEIGHT)

    def discounts(self) -> tuple[str, float]:
        return "log2", 0.0


RBP = RankBiasedPrecision()
SDCG = ScaledDiscountedGain()
