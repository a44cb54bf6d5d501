"""Measures averaged over what a query may mean: the subtopics that the rows of a group cover.

An intent-aware measure is the mean, over the subtopics of a group, of the measure that takes for
relevant what covers the subtopic. All subtopics weigh the same; one that no row of the group
covers is none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from fastrank_eval.coverage import Covering
from fastrank_eval.measures.average_precision import expected_precisions
from fastrank_eval.measures.base import WEIGHT, Measure, distinct_cutoffs
from fastrank_eval.measures.discounts import discount_table, longest
from fastrank_eval.measures.hits import expected_hits, expected_success
from fastrank_eval.ranking import Ranking

_AGRAWAL = "Agrawal et al. (2009), doi:10.1145/1498759.1498766"


class Diversity(Measure):
    """What measures of diversity share: they look at subtopics, and at no label."""

    needs_subtopics = True

    def pass_key(self) -> Hashable:
        return self.name

    def undefined_if_empty(self) -> str | None:
        return "no_subtopics"

    def empty_is_known(self) -> bool:
        return False

    def refuses(self, ties: str) -> str | None:
        # To cover most with the first of some tied rows is as hard as covering a set.
        if ties in ("best", "worst"):
            return (
                f"{self} has no known order for ties='{ties}'; choose ties='expected', 'item' or "
                "'input'"
            )
        return None

    def reasons(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        yield "no_subtopics", ranking.covered().coverage.subtopics == 0


class _IntentAware(Diversity):
    """What is computed intent by intent, and averaged."""

    @classmethod
    def of_intents(cls, covering: Covering, cutoffs: np.ndarray, out: np.ndarray) -> None:
        """Write the value of each cutoff and intent."""
        raise NotImplementedError  # pragma: no cover - abstract

    @classmethod
    def compute(
        cls,
        measures: Sequence[_IntentAware],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        covering = ranking.covered()
        cutoffs, at = distinct_cutoffs(measures)
        found = np.empty((len(cutoffs), len(covering.retrieved)))
        cls.of_intents(covering, cutoffs, found)
        means = covering.coverage.mean(found)
        for m, out, row in zip(measures, outs, at, strict=True):
            out[:] = m.from_mean(means[row], ranking)

    def from_mean(self, mean: np.ndarray, ranking: Ranking) -> np.ndarray:
        """The measure, given the mean over intents."""
        # A block's rounding may pass 1 by one unit in the last place.
        return np.minimum(mean, 1.0)


class IntentAwarePrecision(_IntentAware):
    """P_IA@k, the mean over subtopics of the share of the first k rows that cover it."""

    name = "P_IA"
    summary = "precision at k, averaged over the subtopics of the group"
    formula = "1/S sum over subtopics of (rows among the first k that cover it) / k"
    reference = _AGRAWAL
    options = (WEIGHT,)

    def refuses(self, ties: str) -> str | None:
        return None

    @classmethod
    def of_intents(cls, covering: Covering, cutoffs: np.ndarray, out: np.ndarray) -> None:
        expected_hits(
            covering.offsets,
            covering.above,
            covering.size,
            np.ones(len(covering.above)),
            1.0,
            covering.retrieved,
            np.empty((0, len(covering.retrieved)), np.int64),
            cutoffs,
            out,
        )

    def from_mean(self, mean: np.ndarray, ranking: Ranking) -> np.ndarray:
        ranks = np.maximum(ranking.retrieved, 1) if self.cutoff is None else self.cutoff
        return super().from_mean(mean / ranks, ranking)


class IntentAwareAP(_IntentAware):
    """AP_IA, the mean over subtopics of the average precision of the rows that cover it."""

    name = "AP_IA"
    summary = "average precision, averaged over the subtopics of the group"
    formula = "1/S sum over subtopics of AP@k where the rows that cover it are the relevant ones"
    reference = _AGRAWAL
    options = (WEIGHT,)
    spellings = ("MAP_IA",)

    @classmethod
    def of_intents(cls, covering: Covering, cutoffs: np.ndarray, out: np.ndarray) -> None:
        _, harmonic = discount_table("reciprocal", 0.0, longest(cutoffs, covering.retrieved))
        expected_precisions(
            covering.offsets,
            covering.above,
            covering.size,
            np.ones(len(covering.above)),
            1.0,
            covering.retrieved,
            cutoffs,
            harmonic,
            out,
        )
        out /= covering.coverage.rows


class SubtopicRecall(_IntentAware):
    """StRecall@k, the share of the subtopics of a group that the first k rows cover."""

    name = "StRecall"
    summary = "share of the group's subtopics that the first k rows cover"
    formula = "1/S (subtopics that one of the first k rows covers)"
    reference = "Zhai, Cohen & Lafferty (2003), doi:10.1145/860435.860440"
    options = (WEIGHT,)
    spellings = ("strec", "subtopic_recall", "S_recall")

    @classmethod
    def of_intents(cls, covering: Covering, cutoffs: np.ndarray, out: np.ndarray) -> None:
        expected_success(
            covering.offsets,
            covering.above,
            covering.size,
            np.ones(len(covering.above)),
            1.0,
            covering.retrieved,
            cutoffs,
            out,
        )


P_IA = IntentAwarePrecision()
AP_IA = IntentAwareAP()
StRecall = SubtopicRecall()
