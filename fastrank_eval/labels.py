"""What the labels of a chunk say, whatever the scores: found once, for every model."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from fastrank_eval.columns import frozen
from fastrank_eval.entries import Labelled, labelled_rows


@dataclass
class Labels:
    """The labels of whole groups, and what the measures of one model leave to those of the next.

    Parameters
    ----------
    label : ndarray, shape (rows,)
        In any order inside its group.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    skip_empty : bool
        Groups whose labels are all 0 are left out: at click rates of a few per cent that is half
        of them, and every measure has one known value there.
    labelled : Labelled
        The rows whose label is not 0.
    grade : ndarray of float64, shape (labelled rows,)
        Their labels, in order of the rows.
    """

    label: np.ndarray
    starts: np.ndarray
    skip_empty: bool
    labelled: Labelled
    grade: np.ndarray
    _known: dict[Hashable, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, label: np.ndarray, starts: np.ndarray, skip_empty: bool) -> Self:
        """Find the labelled rows of whole groups; see the class."""
        labelled = labelled_rows(_nonzero(label), starts, skip_empty)
        return cls(label, starts, skip_empty, labelled, label[labelled.row].astype(np.float64))

    def once(self, key: Hashable, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """An array that no score bears on, computed when the first measure of any model asks."""
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]

    @property
    def ranked(self) -> np.ndarray | None:
        """Which groups of the chunk are ranked; None: all of them."""
        return self.labelled.ranked if self.skip_empty else None

    @cached_property
    def most(self) -> float:
        """The highest grade, -inf if there is none."""
        return float(self.grade.max(initial=-np.inf))

    @cached_property
    def least(self) -> float:
        """The lowest grade, inf if there is none."""
        return float(self.grade.min(initial=np.inf))

    @property
    def alike(self) -> bool:
        """Whether all grades are equal: models then share what follows from an entry's grade."""
        return self.least >= self.most

    @cached_property
    def rows(self) -> np.ndarray:
        """All rows of each ranked group. int64, shape (groups,)."""
        rows = np.diff(self.starts)
        return rows if self.ranked is None else rows[self.ranked]

    @cached_property
    def rows_ranked(self) -> int:
        """Rows of the ranked groups together."""
        return int(self.rows.sum())

    def relevant(self, rel: float) -> np.ndarray:
        """Rows with grade >= `rel` in each ranked group. int64, shape (groups,)."""

        def count() -> np.ndarray:
            offsets = self.labelled.offsets
            if self.least >= rel:
                return np.diff(offsets)
            total = np.zeros(len(self.grade) + 1, np.int64)
            np.cumsum(self.grade >= rel, out=total[1:])
            return total[offsets[1:]] - total[offsets[:-1]]

        return self.once(("relevant", rel), count)

    def relevant_of_each(self, rel: float) -> np.ndarray:
        """Rows with grade >= `rel` in each group, ranked or not. int64, shape (groups,)."""
        if self.ranked is None:
            return self.relevant(rel)

        def spread() -> np.ndarray:
            counts = np.zeros(len(self.starts) - 1, np.int64)
            counts[self.labelled.ranked] = self.relevant(rel)
            return counts

        return self.once(("relevant of each group", rel), spread)

    def relevant_rows(self, rel: float) -> np.ndarray:
        """The rows whose label is at least `rel`, ascending."""

        def find() -> np.ndarray:
            # As doubles, as for every other measure: a float32 label of 0.7 is less than 0.7.
            return self.labelled.row[self.grade >= rel]

        return self.once(("relevant rows", rel), find)


def _nonzero(label: np.ndarray) -> np.ndarray:
    """One byte a row, not 0 where the label is not; a view of labels that are bytes themselves."""
    if label.dtype.itemsize == 1:
        return frozen(label.view(np.uint8))
    return frozen((label != 0).view(np.uint8))
