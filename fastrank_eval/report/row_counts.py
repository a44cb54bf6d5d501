"""Counts of rows and groups that say how sound a night is, as measures of the same pass.

They are sums over groups that only the nightly report asks for, so no catalogue lists them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from fastrank_eval.measures.base import WEIGHT, Measure
from fastrank_eval.ordering import order_by_score
from fastrank_eval.ranking import Ranking

__all__ = ["SINGLE_CLASS", "TIED", "UNJUDGED", "UNSCORED"]


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


TIED, SINGLE_CLASS = _TiedRows(), _SingleClassGroups()
UNSCORED, UNJUDGED = _UnscoredRows(), _UnjudgedRows()
