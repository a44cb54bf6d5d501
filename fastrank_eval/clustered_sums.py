"""Exact sums over rows, and the second moments of the same sums over groups, from one pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

import numpy as np

from fastrank_eval.cluster_moments import ClusterMoments
from fastrank_eval.group_sums import GroupSums
from fastrank_eval.saved_parts import Parts
from fastrank_eval.states import RowSums

if TYPE_CHECKING:
    from fastrank_eval.chunk import Scored


class ClusteredSums(RowSums):
    """Exact sums of several terms over rows, and what their errors are computed from.

    Threads may add at the same time.

    Parameters
    ----------
    terms : int
        How many sums.
    varying : int
        How many of them, the first ones, have moments.
    """

    def __init__(self, terms: int, varying: int) -> None:
        super().__init__(terms)
        self.moments = ClusterMoments(varying)

    def add_groups(self, sums: np.ndarray | None) -> None:
        """Add groups to the moments, if there are any.

        Parameters
        ----------
        sums : ndarray of float64 or int64, shape (varying, groups), or None
            The sums over each group.
        """
        if sums is not None:
            self.moments.add(sums)

    def merge(self, other: RowSums) -> None:
        """Add other sums of the same terms, of other groups."""
        super().merge(other)
        if isinstance(other, ClusteredSums):
            self.moments.merge(other.moments)

    def saved(self) -> Parts:
        """As `RowSums.saved`, and the moments."""
        moments = self.moments.saved()
        return {**super().saved(), **{f"moments.{name}": part for name, part in moments.items()}}

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        sums = super().loaded(parts)
        first = "moments."
        sums.moments = ClusterMoments.loaded(
            {
                name.removeprefix(first): part
                for name, part in parts.items()
                if name.startswith(first)
            }
        )
        return sums


class ChunkSums:
    """The terms of a chunk's rows, on their way to the sums over all rows and over each group.

    Rows of a group are added up first, without rounding: what reaches the sums over all rows is a
    pair of numbers for each group.

    Parameters
    ----------
    sums : ClusteredSums
        Over all rows.
    scored : Scored
        The rows.
    """

    def __init__(self, sums: ClusteredSums, scored: Scored) -> None:
        self._sums, self._scored = sums, scored
        self._of_groups: np.ndarray | None = None
        if scored.chunk.grouped:
            # A chunk in which a model has scored no row adds to no term.
            self._of_groups = np.zeros((sums.moments.terms, len(scored.starts) - 1))
        self._added: dict[int, GroupSums] = {}

    def finish(self) -> np.ndarray | None:
        """The sums over each group, once every term of all rows is added.

        Returns
        -------
        ndarray of float64, shape (varying, groups), or None
            None where rows have no groups.
        """
        for term, added in self._added.items():
            self._sums.add(term, added.exact())
        return self._of_groups

    def add(self, term: int, values: np.ndarray, starts: np.ndarray | None = None) -> None:
        """Add the next rows of a term.

        Parameters
        ----------
        term : int
        values : ndarray, shape (rows,)
            Finite.
        starts : ndarray of int64, shape (groups + 1,), optional
            Where the groups start among the rows that have this term; by default among all.
        """
        if self._of_groups is None:
            self._sums.add(term, values)
            return
        if term not in self._added:
            of = self._scored.starts if starts is None else starts
            self._added[term] = GroupSums(of, self._of_groups[term])
        apart = self._added[term].add(values)
        if len(apart):
            self._sums.add(term, apart)

    def count(self, term: int, counts: np.ndarray) -> None:
        """Add a whole number for each group. int64, shape (groups,)."""
        self._sums.count(term, int(counts.sum()))
        if self._of_groups is not None:
            self._of_groups[term] = counts

    def tell(self, term: int, number: int) -> None:
        """Add a whole number to a term that has no moments."""
        self._sums.count(term, number)

    def add_weights(self, term: int) -> None:
        """Add the weights of all rows, or their number."""
        weight = self._scored.weight
        if weight is None:
            self.count(term, np.diff(self._scored.starts))
        else:
            self.add(term, weight)

    def add_positives(self, term: int, rel: float) -> None:
        """Add the weights of the rows whose label is at least `rel`, or their number."""
        labels, weight = self._scored.labels, self._scored.weight
        if weight is None:
            self.count(term, labels.relevant_of_each(rel))
        else:
            rows = labels.relevant_rows(rel)
            self.add(term, weight[rows], starts_of(labels.relevant_of_each(rel)))


def starts_of(counts: np.ndarray) -> np.ndarray:
    """Where groups of so many rows start, one after another, then the number of rows. int64."""
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts
