"""Add the measures of one model over groups, exactly, with their coverage.

A mean over groups is a ratio of sums. Its standard error needs sums of squares and of products. Its
degrees of freedom need sums of fourth powers. The first two are exact: a sum of squared deviations
is never below zero, and it is zero if all values are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval._lib.jit import kernel
from fastrank_eval.stats.exact import NO_SLICES, UNIT, ExactSums, quotient
from fastrank_eval.stats.intervals import Moments
from fastrank_eval.stats.row_sums import SliceCounts

# Terms of weighted values p and weights w: p, p p, p^3 w, p^4; w, w w, p w, p^2 w^2, p w^3, w^4.
_UNWEIGHTED = ((0,), (0, 0), (0, 0, 0), (0, 0, 0, 0))
_WEIGHTED = (
    *((0,), (0, 0), (0, 0, 0, 1), (0, 0, 0, 0)),
    *((1,), (1, 1), (0, 1), (0, 0, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1)),
)

# Counters of a slice.
_USED, _ROWS, _POSITIVES = range(3)


class MeasureSums:
    """Counts of groups and exact sums over them, by measure and slice.

    Parameters
    ----------
    measures : int
        Number of measures.
    """

    #: The terms of the sums, and how many counts a slice has.
    terms: ClassVar[tuple[tuple[int, ...], ...]]
    width: ClassVar[int]

    def __init__(self, measures: int) -> None:
        self._sums = [ExactSums(self.terms) for _ in range(measures)]
        self._counts = [SliceCounts(self.width) for _ in range(measures)]

    def merge(self, other: Self) -> None:
        """Add another state; the order of merging does not matter."""
        for sums, more in zip(self._sums, other._sums, strict=True):
            if more.terms == sums.terms:
                sums.merge(more)
        for counts, more_counts in zip(self._counts, other._counts, strict=True):
            counts.merge(more_counts)

    def take(self, slices: np.ndarray) -> Self:
        """Take the sums of some slices, in this order; zeros for -1."""
        selection = type(self)(0)
        selection._sums = [sums.take(slices) for sums in self._sums]
        selection._counts = [counts.take(slices) for counts in self._counts]
        return selection

    def of_measures(self, measures: Sequence[int]) -> Self:
        """Return the sums of some measures; they share memory with these."""
        subset = type(self)(0)
        subset._sums = [self._sums[m] for m in measures]
        subset._counts = [self._counts[m] for m in measures]
        return subset

    def to_arrays(self) -> Arrays:
        """Write the sums and the counters of every slice; see `take`."""
        counts = np.stack([counts.table for counts in self._counts])
        arrays: Arrays = {"counts": counts}
        for m, sums in enumerate(self._sums):
            arrays |= sums.to_arrays(f"{m}.sums", counts.shape[1])
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        state = cls(len(arrays["counts"]))
        state._read(arrays)
        return state

    def _read(self, arrays: Mapping[str, np.ndarray]) -> None:
        slices = arrays["counts"].shape[1]
        self._sums = [
            ExactSums.from_arrays(sums.terms, arrays, f"{m}.sums", slices)
            for m, sums in enumerate(self._sums)
        ]
        self._counts = [SliceCounts.of(table.copy()) for table in arrays["counts"]]


class MeanState(MeasureSums):
    """Sums of one model's measures over groups, and their coverage, by slice.

    Parameters
    ----------
    measures : int
        Number of measures.
    """

    # Until a group with a weight is added.
    terms = _UNWEIGHTED
    width = 3

    def __init__(self, measures: int) -> None:
        super().__init__(measures)
        # By reason the dropped groups of each measure.
        self._dropped: dict[str, SliceCounts] = {}

    def add(
        self,
        m: int,
        values: np.ndarray,
        weights: np.ndarray | None,
        rows: np.ndarray,
        positives: np.ndarray,
        slices: np.ndarray = NO_SLICES,
    ) -> bool:
        """Add groups; skip those whose value is NaN.

        Parameters
        ----------
        m : int
            Index of the measure.
        values : ndarray of float64, shape (groups,)
            NaN where the group is not used.
        weights : ndarray of float64, shape (groups,), or None
            Group weights, above 0 where the group is used. None means 1 each.
        rows, positives : ndarray of int64, shape (groups,)
            Rows and positives of each group, for coverage.
        slices : ndarray of int64, shape (groups,), or (0,)
            The slice of each group. An empty array means the first slice for all.

        Returns
        -------
        bool
            Whether every number was finite. If not, the state is invalid.
        """
        counts = self._counts[m]
        if len(slices):
            counts.ensure_slices(int(slices.max()) + 1)
        _count(values, rows, positives, slices, counts.table)
        if weights is None:
            return self._sums[m].add(values[np.newaxis], slices)
        self._ensure_weights(m)
        numbers = np.empty((2, len(values)))
        with np.errstate(over="ignore"):
            np.multiply(values, weights, out=numbers[0])
        numbers[1] = weights
        return self._sums[m].add(numbers, slices)

    def _ensure_weights(self, m: int) -> None:
        if self._sums[m].terms == _UNWEIGHTED:
            self._sums[m] = ExactSums(_WEIGHTED)

    def add_zeros(self, m: int, groups: np.ndarray | int, rows: np.ndarray | int) -> None:
        """Add groups of value 0, weight 1 and no positives to each slice.

        Parameters
        ----------
        m : int
        groups, rows : ndarray of int64, shape (slices,), or int
            Number of groups, and of their rows, of each slice.
        """
        self._counts[m].add(_USED, groups)
        self._counts[m].add(_ROWS, rows)

    def drop(self, m: int, reason: str, groups: np.ndarray | int) -> None:
        """Count groups of each slice that measure `m` does not use."""
        if np.any(groups):
            self._dropped_for(reason).add(m, groups)

    def _dropped_for(self, reason: str) -> SliceCounts:
        return self._dropped.setdefault(reason, SliceCounts(len(self._sums)))

    def merge(self, other: Self) -> None:
        """Add another state; the order of merging does not matter."""
        for m, more in enumerate(other._sums):
            if more.terms == _WEIGHTED:
                self._ensure_weights(m)
        super().merge(other)
        for reason, groups in other._dropped.items():
            self._dropped_for(reason).merge(groups)

    def take(self, slices: np.ndarray) -> Self:
        """Take the sums of some slices, in this order; zeros for -1."""
        selection = super().take(slices)
        selection._dropped = {reason: of.take(slices) for reason, of in self._dropped.items()}
        return selection

    def of_measures(self, measures: Sequence[int]) -> Self:
        """Return the sums of some measures; they share memory with these."""
        subset = super().of_measures(measures)
        subset._dropped = {
            reason: SliceCounts.of(groups.table[:, measures])
            for reason, groups in self._dropped.items()
        }
        return subset

    def to_arrays(self) -> Arrays:
        """Write the sums, the counters, and the dropped groups by reason."""
        arrays = super().to_arrays()
        counts = arrays.pop("counts")
        slices = np.arange(counts.shape[1])
        dropped = {reason: groups.take(slices).table for reason, groups in self._dropped.items()}
        reasons = sorted(reason for reason, groups in dropped.items() if groups.any())
        by_reason = np.zeros((*counts.shape[:2], len(reasons)), np.int64)
        for r, reason in enumerate(reasons):
            by_reason[:, :, r] = dropped[reason].T
        return {
            "counts": counts,
            "weighted": np.array([sums.terms == _WEIGHTED for sums in self._sums], np.uint8),
            **arrays,
            "reasons": np.frombuffer("\n".join(reasons).encode(), np.uint8),
            "dropped": by_reason,
        }

    def _read(self, arrays: Mapping[str, np.ndarray]) -> None:
        for m in np.flatnonzero(arrays["weighted"]).tolist():
            self._ensure_weights(m)
        super()._read(arrays)
        reasons = arrays["reasons"].tobytes().decode().split("\n")
        for reason, groups in zip(reasons, arrays["dropped"].T, strict=False):
            self._dropped[reason] = SliceCounts.of(groups.copy())

    def mean(self, m: int, weighted: bool, row: int = 0) -> float:
        """Return the weighted mean, rounded once; NaN without a group."""
        numerator = self._sums[m].units(0, row)
        denominator = self._weight(m, row) if weighted else self.groups_used(m, row) << UNIT
        return numerator / denominator if denominator else float("nan")

    def weight(self, m: int, weighted: bool, row: int = 0) -> float:
        """Return the sum of weights of the groups used; inf on overflow."""
        return (
            quotient(self._weight(m, row), 1 << UNIT)
            if weighted
            else float(self.groups_used(m, row))
        )

    def _weight(self, m: int, row: int) -> int:
        """Return the sum of weights, in units of 2**-UNIT."""
        return self._sums[m].units(4, row) if self._sums[m].terms == _WEIGHTED else 0

    def sum(self, m: int, row: int = 0) -> float:
        """Return the weighted sum; NaN without a group, inf on overflow."""
        return self._sums[m].total(0, row) if self.groups_used(m, row) else float("nan")

    def moments(self, m: int, weighted: bool, row: int = 0) -> Moments:
        """Return the exact sums that standard errors need."""
        groups, sums = self.groups_used(m, row), self._sums[m]
        first, second = sums.units(0, row), sums.units(1, row)
        fourth = [sums.total(3, row), sums.total(2, row)]
        if not weighted:
            scale = 1 << (2 * UNIT)
            fourth += [quotient(second, scale), quotient(first, 1 << UNIT), float(groups)]
            return Moments(groups, first, groups << UNIT, second, None, None, UNIT, tuple(fourth))
        if sums.terms == _UNWEIGHTED:
            return Moments(groups, 0, 0, 0, 0, 0, UNIT, (0.0,) * 5)
        fourth += [sums.total(term, row) for term in (7, 8, 9)]
        squares, crossed = sums.units(5, row), sums.units(6, row)
        weight = sums.units(4, row)
        return Moments(groups, first, weight, second, crossed, squares, UNIT, tuple(fourth))

    def groups_used(self, m: int, row: int = 0) -> int:
        """Return the number of groups used."""
        return self._counts[m].at(row, _USED)

    def rows(self, m: int, row: int = 0) -> int:
        """Return the number of rows of the groups used."""
        return self._counts[m].at(row, _ROWS)

    def positives(self, m: int, row: int = 0) -> int:
        """Return the number of positives of the groups used."""
        return self._counts[m].at(row, _POSITIVES)

    def dropped(self, m: int, row: int = 0) -> dict[str, int]:
        """Return the number of dropped groups by reason, in alphabetical order."""
        dropped = {reason: groups.at(row, m) for reason, groups in self._dropped.items()}
        return {reason: groups for reason, groups in sorted(dropped.items()) if groups}


@kernel
def _count(values, rows, positives, slices, counts):  # type: ignore[no-untyped-def]
    """Count groups of each slice whose value is not NaN, and their rows."""
    row = np.int64(0)
    groups = np.int64(0)
    all_rows = np.int64(0)
    all_positives = np.int64(0)
    for g in range(values.shape[0]):
        if values[g] != values[g]:
            continue
        if slices.shape[0] > 0 and slices[g] != row:
            counts[row, 0] += groups
            counts[row, 1] += all_rows
            counts[row, 2] += all_positives
            row = slices[g]
            groups = np.int64(0)
            all_rows = np.int64(0)
            all_positives = np.int64(0)
        groups += 1
        all_rows += rows[g]
        all_positives += positives[g]
    counts[row, 0] += groups
    counts[row, 1] += all_rows
    counts[row, 2] += all_positives
