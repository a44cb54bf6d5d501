"""Measures of the set of retrieved rows, whatever its order: SetAP, Utility and plain counts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from fastrank_eval.measures.base import REL, WEIGHT, Measure, Param, number
from fastrank_eval.ranking import Ranking

_WORTH = number(least=-1e100, most=1e100)


class _OfSet(Measure):
    """What the measures of this family share: no rank matters, so no tie policy does."""

    takes_cutoff = False

    def of_set(self, ranking: Ranking) -> np.ndarray:
        """The measure of each group. float64, shape (groups,)."""
        raise NotImplementedError  # pragma: no cover - abstract

    def pass_key(self) -> Hashable:
        return "retrieved set"

    @classmethod
    def compute(
        cls,
        measures: Sequence[_OfSet],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        for m, out in zip(measures, outs, strict=True):
            out[:] = m.of_set(ranking)


class SetAveragePrecision(_OfSet):
    """SetAP, precision times recall of the retrieved rows; 0 where none is retrieved."""

    name = "SetAP"
    summary = "precision times recall of all retrieved rows, whatever their order"
    formula = "hits^2 / (n R), n being the retrieved rows"
    needs_relevant = True
    reference = "Buckley, trec_eval: set_map"
    options = (REL, WEIGHT)
    spellings = ("set_map",)

    def of_set(self, ranking: Ranking) -> np.ndarray:
        hits = ranking.relevant_retrieved(self.rel).astype(np.float64)
        relevant = ranking.relevant(self.rel).astype(np.float64)
        product = ranking.retrieved * relevant
        value = np.zeros(ranking.groups)
        np.divide(hits * hits, product, out=value, where=product > 0)
        value[relevant == 0] = np.nan
        return value


class SetUtility(_OfSet):
    """What the retrieved set is worth, each row by whether it is retrieved and relevant.

    A row with a score is retrieved, one without is missed. The defaults reward a relevant row in
    the list by 1 and charge 1 for any other.
    """

    name = "Utility"
    summary = "sum of what each row is worth, retrieved or missed, relevant or not"
    formula = (
        "rel_ret hits + nonrel_ret (n - hits) + rel_missed (R - hits) + "
        "nonrel_missed (N - n - R + hits), N being the rows of the group and n the retrieved ones"
    )
    reference = "Lewis (1995), TREC-4 filtering track; trec_eval: utility"
    options = (
        Param("rel_ret", 1, "worth of a relevant row that is retrieved", _WORTH),
        Param("nonrel_ret", -1, "worth of another row that is retrieved", _WORTH),
        Param("rel_missed", 0, "worth of a relevant row that is not retrieved", _WORTH),
        Param(
            "nonrel_missed",
            0,
            "worth of another row of the group that is not retrieved",
            _WORTH,
        ),
        REL,
        WEIGHT,
    )
    range = (-np.inf, np.inf)

    def empty_is_known(self) -> bool:
        return bool(self.nonrel_ret == 0 and self.nonrel_missed == 0)

    def of_set(self, ranking: Ranking) -> np.ndarray:
        hits = ranking.relevant_retrieved(self.rel)
        missed = ranking.relevant(self.rel) - hits
        return (
            float(self.rel_ret) * hits
            + float(self.nonrel_ret) * (ranking.retrieved - hits)
            + float(self.rel_missed) * missed
            + float(self.nonrel_missed) * (ranking.rows - ranking.retrieved - missed)
        )


class _Count(_OfSet):
    """Counts add up over groups."""

    aggregate = "sum"
    range = (0.0, np.inf)


class RetrievedRows(_Count):
    """NumRet, the rows that have a score; over all groups, their sum."""

    name = "NumRet"
    summary = "number of retrieved rows, summed over groups"
    formula = "n"
    reference = "Buckley, trec_eval: num_ret"
    options = (WEIGHT,)
    spellings = ("num_ret",)

    def empty_is_known(self) -> bool:
        return False

    def of_set(self, ranking: Ranking) -> np.ndarray:
        return ranking.retrieved.astype(np.float64)


class RelevantRows(_Count):
    """NumRel, the relevant rows, retrieved or not; over all groups, their sum."""

    name = "NumRel"
    summary = "number of relevant rows, retrieved or not, summed over groups"
    formula = "R"
    reference = "Buckley, trec_eval: num_rel"
    options = (REL, WEIGHT)
    spellings = ("num_rel",)

    def of_set(self, ranking: Ranking) -> np.ndarray:
        return ranking.relevant(self.rel).astype(np.float64)


class RelevantRetrievedRows(_Count):
    """NumRelRet, the relevant rows that have a score; over all groups, their sum."""

    name = "NumRelRet"
    summary = "number of relevant rows that are retrieved, summed over groups"
    formula = "hits"
    reference = "Buckley, trec_eval: num_rel_ret"
    options = (REL, WEIGHT)
    spellings = ("num_rel_ret",)

    def of_set(self, ranking: Ranking) -> np.ndarray:
        return ranking.relevant_retrieved(self.rel).astype(np.float64)


SetAP = SetAveragePrecision()
Utility = SetUtility()
NumRet = RetrievedRows()
NumRel = RelevantRows()
NumRelRet = RelevantRetrievedRows()
