"""Define the labelled rows of whole groups, as they are and ranked."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.dataclass import dataclass


class Cached:
    """Base class with a cache of arrays."""

    def cached(self, key: Hashable, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return an array that several measures share; compute it once."""
        cache: dict[Hashable, np.ndarray] = self.__dict__.setdefault("_cache", {})
        if key not in cache:
            cache[key] = compute()
        return cache[key]


def count_relevant(grade: np.ndarray, offsets: np.ndarray, rel: float) -> np.ndarray:
    """Count the labelled rows with grade >= `rel` of each group."""
    total = np.zeros(len(grade) + 1, np.int64)
    np.cumsum(grade >= rel, out=total[1:])
    return frozen(total[offsets[1:]] - total[offsets[:-1]])


@dataclass(init=True)
class Labels(Cached):
    """Labels of whole groups, with a cache that all models share.

    All arrays are read-only.

    Parameters
    ----------
    label : ndarray, shape (rows,)
        Labels, rows in any order inside their group.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    skip_empty : bool
        Leave out groups whose labels are all 0. At click rates of a few per cent that is half of
        the groups, and every measure has one fixed value there.
    indices : ndarray of int64, shape (ranked groups,)
        Indices of the ranked groups in the chunk.
    offsets : ndarray of int64, shape (ranked groups + 1,)
        First labelled row of each ranked group, then the number of labelled rows.
    row : ndarray of int64, shape (labelled rows,)
        Row numbers of the rows whose label is not 0, ascending.
    grade : ndarray of float64, shape (labelled rows,)
        Labels of these rows.
    rows, positives : ndarray of int64, shape (ranked groups,)
        Number of rows of each ranked group, and of its rows with a label of 1 or more.
    min_grade, max_grade : float
        The lowest and the highest grade; inf and -inf if there is none.
    """

    label: np.ndarray
    starts: np.ndarray
    skip_empty: bool
    indices: np.ndarray
    offsets: np.ndarray
    row: np.ndarray
    grade: np.ndarray
    rows: np.ndarray
    positives: np.ndarray
    min_grade: float
    max_grade: float

    @property
    def ranked_groups(self) -> np.ndarray | None:
        """Indices of the ranked groups in the chunk; None for all groups."""
        return self.indices if self.skip_empty else None

    @cached_property
    def marks(self) -> np.ndarray:
        """One byte a row, not 0 where the row is labelled. uint8, read-only."""
        if self.label.dtype.itemsize == 1:
            return frozen(self.label.view(np.uint8))
        return frozen((self.label != 0).view(np.uint8))

    @property
    def negatives(self) -> int:
        """Number of rows of negative grade."""
        return int(np.count_nonzero(self.grade < 0)) if self.min_grade < 0 else 0

    @property
    def soft(self) -> int:
        """Number of rows with a label in ]0, 1[."""
        if self.max_grade <= 0 or self.min_grade >= 1:
            return 0
        return len(self.grade) - self.negatives - int(self.positives.sum())

    def relevant(self, rel: float) -> np.ndarray:
        """Count the rows with grade >= `rel` in each ranked group.

        int64, shape (groups,).
        """
        if rel == 1.0:
            return self.positives
        return self.cached(("relevant", rel), lambda: count_relevant(self.grade, self.offsets, rel))

    def relevant_of_each(self, rel: float) -> np.ndarray:
        """Count the rows with grade >= `rel` in each group, ranked or not. int64."""
        if not self.skip_empty:
            return self.relevant(rel)

        def spread() -> np.ndarray:
            counts = np.zeros(len(self.starts) - 1, np.int64)
            counts[self.indices] = self.relevant(rel)
            return counts

        return self.cached(("relevant of each group", rel), spread)

    def relevant_rows(self, rel: float) -> np.ndarray:
        """Find the rows whose label is at least `rel`, ascending."""
        # Doubles, as for every other measure: a float32 label of 0.7 is less than 0.7.
        return self.cached(("relevant rows", rel), lambda: self.row[self.grade >= rel])


class RankedRows(NamedTuple):
    """Labelled rows of a chunk, ranked by a score.

    Parameters
    ----------
    ranked_groups : ndarray of int64, shape (groups,)
        Indices of the ranked groups in the chunk.
    offsets : ndarray of int64, shape (groups + 1,)
        First labelled row of each group, then the number of labelled rows.
    row : ndarray of int32 or int64, shape (labelled rows,)
        Index of the row, best first in each group.
    above, size : ndarray of int64, shape (labelled rows,), read-only
        Number of rows of the group with a higher score, and with the same score.
    place : ndarray of int64, shape (labelled rows,), or None
        Index of the row among the sorted rows; None where rows were not sorted.
    """

    ranked_groups: np.ndarray
    offsets: np.ndarray
    row: np.ndarray
    above: np.ndarray
    size: np.ndarray
    place: np.ndarray | None = None

    def positions(self, starts: np.ndarray) -> np.ndarray:
        """Return the positions in sorted groups, from 0; int64.

        `starts` is that of `Scan`.
        """
        first = np.repeat(starts[self.ranked_groups], np.diff(self.offsets))
        return cast(np.ndarray, self.place) - first
