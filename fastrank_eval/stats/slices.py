"""Sort groups by slice, and count them by slice."""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel

#: Without slices every group is added to the first row of sums.
NO_SLICES = frozen(np.empty(0, np.int64))
#: No counts of all slices.
NO_COUNTS = np.empty((0, 0), np.int64)


class GroupSlices:
    """The slice of each group; the groups are sorted by slice once.

    Parameters
    ----------
    indices : ndarray of int64, shape (groups,), or (0,)
        The slice of each group; an empty array stands for the first slice for all.
    """

    def __init__(self, indices: np.ndarray) -> None:
        self.indices = frozen(np.ascontiguousarray(indices, np.int64).view())
        self._selection: tuple[np.ndarray, GroupSlices] | None = None

    @cached_property
    def count(self) -> int:
        """One more than the largest index of a slice."""
        return int(self.indices.max(initial=0)) + 1

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.empty(len(self.indices), np.int64)
        edges = np.zeros(self.count + 1, np.int64)
        _sort_by_slice(self.indices, order, edges)
        return frozen(order), frozen(edges)

    def sorted(self, groups: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the groups slice by slice, and the first place of each slice.

        No groups are listed where all are in the first slice.
        """
        if len(self.indices):
            return self._sorted
        return self.indices, frozen(np.array([0, groups]))

    def take(self, groups: np.ndarray | None) -> GroupSlices:
        """Select groups; None: all. The last selection is kept."""
        if groups is None or not len(self.indices):
            return self
        if self._selection is None or self._selection[0] is not groups:
            self._selection = groups, GroupSlices(self.indices[groups])
        return self._selection[1]


#: All groups are in the first slice.
ONE_SLICE = GroupSlices(NO_SLICES)


def take_rows(tables: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Select rows of each table; zeros for -1 and for missing rows."""
    count, length, width = tables.shape
    selection = np.zeros((count, len(rows), width), tables.dtype)
    present = (rows >= 0) & (rows < length)
    selection[:, present] = tables[:, rows[present]]
    return selection


class SliceCounts:
    """A table of counts with a row for each slice.

    Parameters
    ----------
    width : int
        Number of counts of a slice.
    """

    def __init__(self, width: int) -> None:
        self.table = np.zeros((1, width), np.int64)

    def ensure_slices(self, slices: int) -> None:
        """Allocate rows for at least this many slices."""
        current = len(self.table)
        if slices > current:
            larger = np.zeros((max(slices, 2 * current), self.table.shape[1]), np.int64)
            larger[:current] = self.table
            self.table = larger

    def add(self, column: int, numbers: np.ndarray | int) -> None:
        """Add a number to a column of each of the first slices."""
        if isinstance(numbers, int):
            self.table[0, column] += numbers
            return
        numbers = np.atleast_1d(np.asarray(numbers, np.int64))
        self.ensure_slices(len(numbers))
        self.table[: len(numbers), column] += numbers

    def count(
        self,
        values: np.ndarray,
        rows: np.ndarray,
        positives: np.ndarray,
        slices: GroupSlices,
        total: SliceCounts | None = None,
    ) -> None:
        """Count groups whose value is not NaN, their rows and their positives.

        Parameters
        ----------
        values : ndarray of float64, shape (groups,)
        rows, positives : ndarray of int64, shape (groups,)
        slices : GroupSlices
        total : SliceCounts, optional
            Its first slice gets all groups too.
        """
        self.ensure_slices(slices.count)
        of_all = NO_COUNTS if total is None else total.table
        _count(values, rows, positives, *slices.sorted(len(values)), self.table, of_all)

    def merge(self, other: SliceCounts) -> None:
        """Add other counts slice by slice."""
        self.ensure_slices(len(other.table))
        self.table[: len(other.table)] += other.table

    def take(self, slice_indices: np.ndarray) -> SliceCounts:
        """Select the counts of some slices, in this order; zeros for -1."""
        return SliceCounts.of(take_rows(self.table[None], slice_indices)[0])

    @classmethod
    def of(cls, table: np.ndarray) -> Self:
        """Make counts from an int64 table of shape (slices, width)."""
        counts = cls(table.shape[1])
        counts.table = table
        return counts

    def at(self, slice_index: int, column: int) -> int:
        """Return one count."""
        return int(self.table[slice_index, column]) if slice_index < len(self.table) else 0


@kernel
def _count(values, rows, positives, order, edges, counts, total):  # type: ignore[no-untyped-def]
    """Count groups of each slice whose value is not NaN, and their rows."""
    for s in range(edges.shape[0] - 1):
        groups = np.int64(0)
        all_rows = np.int64(0)
        all_positives = np.int64(0)
        for place in range(edges[s], edges[s + 1]):
            g = order[place] if order.shape[0] > 0 else place
            if values[g] == values[g]:
                groups += 1
                all_rows += rows[g]
                all_positives += positives[g]
        counts[s, 0] += groups
        counts[s, 1] += all_rows
        counts[s, 2] += all_positives
        if total.shape[0] > 0:
            total[0, 0] += groups
            total[0, 1] += all_rows
            total[0, 2] += all_positives


@kernel
def _sort_by_slice(indices, order, edges):  # type: ignore[no-untyped-def]
    """Sort groups by slice, stably; `edges` of zeros gets the first places."""
    for g in range(indices.shape[0]):
        edges[indices[g] + 1] += 1
    for s in range(1, edges.shape[0]):
        edges[s] += edges[s - 1]
    for g in range(indices.shape[0]):
        order[edges[indices[g]]] = g
        edges[indices[g]] += 1
    # Each edge has moved to the next.
    for s in range(edges.shape[0] - 1, 0, -1):
        edges[s] = edges[s - 1]
    edges[0] = 0
