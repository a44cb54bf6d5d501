"""Counts of rows, groups and scores that say how sound a night is, as measures of the same pass.

Only the nightly report asks for them, so no catalogue lists them.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from fastrank_eval.chunk import Scored
from fastrank_eval.measures.base import WEIGHT, Measure, Param, whole
from fastrank_eval.measures.pooled_measure import PooledMeasure, PooledValue
from fastrank_eval.ordering import order_by_score
from fastrank_eval.pooled_weights import InOrder
from fastrank_eval.ranking import Ranking

__all__ = [
    "MOST_SCORES",
    "SINGLE_CLASS",
    "TIED",
    "UNJUDGED",
    "UNSCORED",
    "FirstScores",
    "distinct_scores",
]

#: Distinct scores that can be counted.
MOST_SCORES = 1000
#: Rows that are looked at together.
_BLOCK = 1 << 12


class _Count(Measure):
    """A number of each group, added up over all of them."""

    options = (WEIGHT,)
    formula = "n"
    reference = ""
    takes_cutoff = False
    needs_places = False
    aggregate = "sum"
    range = (0.0, np.inf)
    # A count is of rows, whatever they weigh.
    uses_row_weights = True

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Keep it out of the registry, which is of what users may ask for."""

    def empty_is_known(self) -> bool:
        """A group without a click has rows to count too."""
        return False

    def pass_key(self) -> Hashable:
        """Each goes over the rows by itself."""
        return "counts", self.name

    @classmethod
    def compute(cls, measures: Sequence[Any], ranking: Ranking, outs: Iterable[np.ndarray]) -> None:
        """Write the number of each group."""
        for _, out in zip(measures, outs, strict=True):
            out[:] = cls.of_groups(ranking)

    @classmethod
    def of_groups(cls, ranking: Ranking) -> np.ndarray:
        """The number of each group."""
        raise NotImplementedError  # pragma: no cover - abstract


class _TiedRows(_Count):
    name = "TiedRows"
    summary = "rows that share their score with another row of their group"

    @classmethod
    def of_groups(cls, ranking: Ranking) -> np.ndarray:
        """A row is tied if a neighbour in the order by score has its score."""
        score, starts = ranking.scored.score, ranking.scored.starts
        ordered = score[order_by_score(score, starts)]
        same = np.zeros(len(score) + 1, np.bool_)
        np.equal(ordered[1:], ordered[:-1], out=same[1:-1])
        same[starts] = False
        before = np.append(0, np.cumsum(same[:-1] | same[1:]))
        return before[starts[1:]] - before[starts[:-1]]


class _SingleClassGroups(_Count):
    name = "SingleClassGroups"
    summary = "groups whose labels are all alike"

    @classmethod
    def of_groups(cls, ranking: Ranking) -> np.ndarray:
        """1 where no row is positive, or every one."""
        positives = ranking.relevant(1.0)
        return (positives == 0) | (positives == ranking.rows)


class _UnscoredRows(_Count):
    name = "UnscoredRows"
    summary = "rows whose score is null"

    @classmethod
    def of_groups(cls, ranking: Ranking) -> np.ndarray:
        """Rows less those that have a score."""
        return ranking.rows - ranking.retrieved


class _UnjudgedRows(_Count):
    name = "UnjudgedRows"
    summary = "rows whose label is null"
    needs_judgments = True

    @classmethod
    def of_groups(cls, ranking: Ranking) -> np.ndarray:
        """Rows that nobody judged."""
        return ranking.scored.chunk.unjudged_rows()


class FirstScores:
    """The distinct scores of some rows, up to a limit; several threads may add rows.

    Parameters
    ----------
    limit : int

    Attributes
    ----------
    scores : ndarray of float64
        Ascending; at most `limit` of them.
    rows : int
        Rows with a score.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._lock = limit, threading.Lock()
        self.scores, self.rows = np.empty(0), 0

    def add(self, score: np.ndarray) -> None:
        """Add the scores of rows; few are looked at once the limit is reached."""
        with self._lock:
            self.rows += len(score)
        for first in range(0, len(score), _BLOCK):
            if len(self.scores) >= self._limit:
                return
            found = np.unique(score[first : first + _BLOCK])
            with self._lock:
                self.scores = np.union1d(self.scores, found)[: self._limit]


class _OfAllRows(PooledMeasure):
    """A number of all rows together."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Keep it out of the registry, which is of what users may ask for."""


class _DistinctScores(_OfAllRows):
    name = "DistinctScores"
    summary = "distinct scores, up to a limit"
    formula = "n"
    reference = ""
    options = (Param("limit", 2, "where counting stops", whole(2, MOST_SCORES)),)
    range = (0.0, np.inf)

    def state_key(self) -> Hashable:
        return "distinct scores", self.limit

    def new_state(self, weighted: bool, threads: int) -> FirstScores:
        return FirstScores(self.limit)

    def add_rows(self, state: FirstScores, scored: Scored) -> None:
        state.add(scored.score)

    def pooled_value(self, state: FirstScores, in_order: InOrder) -> PooledValue:
        return PooledValue(float(len(state.scores)))


def distinct_scores(limit: int) -> PooledMeasure:
    """The count of distinct scores that stops at a limit of 2 or more; see `FirstScores`."""
    return _DistinctScores(limit=limit)


TIED, SINGLE_CLASS = _TiedRows(), _SingleClassGroups()
UNSCORED, UNJUDGED = _UnscoredRows(), _UnjudgedRows()
