"""Find and rank the labelled rows of groups, and count their grades."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from functools import cached_property
from typing import Self

import numpy as np

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.groups.profile import Entries, LabelledRows, find_labelled_rows
from fastrank_eval.groups.rows_above import count_rows_above


def entries_by_counting(
    score: np.ndarray, starts: np.ndarray, labelled_rows: LabelledRows
) -> Entries:
    """Compute the entries of unsorted rows, without positions.

    Parameters
    ----------
    score, starts, labelled_rows
        As in `entries_in_order`, less than 2**31 rows in any order inside their group.
    """
    ranked_groups, offsets = labelled_rows.ranked_groups, labelled_rows.offsets
    row = labelled_rows.row.copy()
    above, size = np.empty((2, len(row)), np.int64)
    count_rows_above(score, starts, ranked_groups, offsets, row, above, size)
    return Entries(ranked_groups, offsets, row, above, size)


@dataclass
class Labels:
    """Labels of whole groups, with a cache that all models share.

    Parameters
    ----------
    label : ndarray, shape (rows,)
        Labels, rows in any order inside their group.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    skip_empty : bool
        Leave out groups whose labels are all 0. At click rates of a few per cent that is half of
        the groups, and every measure has one fixed value there.
    labelled_rows : LabelledRows
        The rows whose label is not 0.
    grade : ndarray of float64, shape (labelled rows,)
        Labels of these rows, in order of the rows.
    """

    label: np.ndarray
    starts: np.ndarray
    skip_empty: bool
    labelled_rows: LabelledRows
    grade: np.ndarray
    _cache: dict[Hashable, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        label: np.ndarray,
        starts: np.ndarray,
        skip_empty: bool,
        labelled_rows: LabelledRows | None = None,
    ) -> Self:
        """Find the labelled rows of whole groups, if not known; see `Labels`."""
        if labelled_rows is None:
            labelled_rows = find_labelled_rows(label, starts, skip_empty)
        grade = label[labelled_rows.row].astype(np.float64)
        return cls(label, starts, skip_empty, labelled_rows, grade)

    def cached(self, key: Hashable, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return an array that does not depend on scores.

        It is computed once for all models.
        """
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]

    @property
    def ranked_groups(self) -> np.ndarray | None:
        """Indices of the ranked groups in the chunk; None for all groups."""
        return self.labelled_rows.ranked_groups if self.skip_empty else None

    @cached_property
    def max_grade(self) -> float:
        """The highest grade, -inf if there is none."""
        return float(self.grade.max(initial=-np.inf))

    @cached_property
    def min_grade(self) -> float:
        """The lowest grade, inf if there is none."""
        return float(self.grade.min(initial=np.inf))

    @property
    def all_grades_equal(self) -> bool:
        """Whether all grades are equal.

        If so, all models share values computed from grades.
        """
        return self.min_grade >= self.max_grade

    @cached_property
    def rows(self) -> np.ndarray:
        """Number of rows of each ranked group. int64, shape (groups,)."""
        rows = np.diff(self.starts)
        return rows if self.ranked_groups is None else rows[self.ranked_groups]

    def relevant(self, rel: float) -> np.ndarray:
        """Count the rows with grade >= `rel` in each ranked group.

        int64, shape (groups,).
        """

        def count() -> np.ndarray:
            offsets = self.labelled_rows.offsets
            if self.min_grade >= rel:
                return np.diff(offsets)
            total = np.zeros(len(self.grade) + 1, np.int64)
            np.cumsum(self.grade >= rel, out=total[1:])
            return total[offsets[1:]] - total[offsets[:-1]]

        return self.cached(("relevant", rel), count)

    def relevant_of_each(self, rel: float) -> np.ndarray:
        """Count the rows with grade >= `rel` in each group, ranked or not. int64."""
        if self.ranked_groups is None:
            return self.relevant(rel)

        def spread() -> np.ndarray:
            counts = np.zeros(len(self.starts) - 1, np.int64)
            counts[self.labelled_rows.ranked_groups] = self.relevant(rel)
            return counts

        return self.cached(("relevant of each group", rel), spread)

    def relevant_rows(self, rel: float) -> np.ndarray:
        """Find the rows whose label is at least `rel`, ascending."""

        def find() -> np.ndarray:
            # Doubles, as for every other measure: a float32 label of 0.7 is less than 0.7.
            return self.labelled_rows.row[self.grade >= rel]

        return self.cached(("relevant rows", rel), find)
