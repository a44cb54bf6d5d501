"""Sum clusters by a hash of their key, for the errors of merged states.

A user returns on other nights. Their states have no keys, so clusters cannot be matched. But the
hash of a key is the same every night: a cluster lies in one bucket. So buckets are independent, as
clusters are, and take their place in the error. Their sums are exact and merge in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval._lib.arrow import frozen
from fastrank_eval.stats.exact import NO_SLICES, UNIT, ExactSums, States
from fastrank_eval.stats.means import weighted_terms
from fastrank_eval.stats.row_sums import round_all

#: Buckets of each slice. An error over B buckets has itself a relative error of 1 / sqrt(2 B).
BUCKETS = 1024
_TERMS = ((0,), (1,))


def buckets_of(ids: np.ndarray) -> np.ndarray:
    """Return the bucket of each cluster by its id. int64, shape (clusters,)."""
    return frozen((ids % np.uint64(BUCKETS)).astype(np.int64))


def rows_of_buckets(buckets: np.ndarray, slices: np.ndarray = NO_SLICES) -> np.ndarray:
    """Return the row of sums of a bucket in a slice, by default the first."""
    return frozen(buckets + BUCKETS * slices) if len(slices) else buckets


def slice_of_rows(slices: int) -> np.ndarray:
    """Return the slice of each row of sums. int64, shape (slices * BUCKETS,)."""
    return frozen(np.repeat(np.arange(slices), BUCKETS))


def rounded(sums: ExactSums, rows: int = BUCKETS) -> np.ndarray:
    """Round the sums of numbers in the first rows once.

    Returns
    -------
    ndarray of float64, shape (terms, rows)
        inf above the largest double.
    """
    totals = np.zeros((len(sums.terms), rows))
    known = min(rows, sums.digits.shape[1])
    if sums.digits.shape[2]:
        out = np.empty((len(totals), known))
        round_all(sums.digits[:, :known].copy(), 32 * sums.lowest - 2 * UNIT, out)
        totals[:, :known] = out
    return totals


class BucketSums(States):
    """Exact sums of weighted values and weights of measures, by bucket.

    Parameters
    ----------
    measures : int
        Number of measures.

    Examples
    --------
    >>> sums = BucketSums(1)
    >>> sums.add(0, np.array([0.5, 1.0, 0.25]), np.array([2.0, 1.0, 4.0]), np.array([7, 9, 7]))
    >>> sums.terms(0, 1)[:, [7, 8, 9]].tolist()
    [[2.0, 0.0, 1.0], [6.0, 0.0, 1.0]]
    """

    def __init__(self, measures: int) -> None:
        self.parts: dict[int, ExactSums] = {m: ExactSums(_TERMS) for m in range(measures)}

    def add(self, m: int, values: np.ndarray, weights: np.ndarray | None, rows: np.ndarray) -> None:
        """Add groups.

        Parameters
        ----------
        m : int
            Index of the measure.
        values : ndarray of float64, shape (groups,)
            NaN where the group is not used.
        weights : ndarray of float64, shape (groups,), or None
            Group weights. None means 1 each.
        rows : ndarray of int64, shape (groups,)
            Of `rows_of_buckets`.
        """
        self.parts[m].add(np.stack(weighted_terms(values, weights)), rows)

    def of_measures(self, measures: Sequence[int]) -> Self:
        """Return the sums of some measures; they share memory with these."""
        return self.with_parts({new: self.parts[m] for new, m in enumerate(measures)})

    def take(self, slices: np.ndarray) -> Self:
        """Select the sums of some slices, in this order; zeros for -1."""
        rows = slices[:, np.newaxis] * BUCKETS + np.arange(BUCKETS)
        rows = np.where(slices[:, np.newaxis] < 0, -1, rows).ravel()
        return super().take(rows)

    def terms(self, m: int, slices: int) -> np.ndarray:
        """Return weighted values and weights. float64, shape (2, rows)."""
        return rounded(self.parts[m], slices * BUCKETS)

    def to_arrays(self) -> Arrays:
        """Write the sums of every slice."""
        arrays: Arrays = {}
        for m, sums in self.parts.items():
            arrays |= sums.to_arrays(f"{m}.sums", sums.digits.shape[1])
        return arrays

    def read_like(self, slices: int, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the sums of as many measures that `to_arrays` wrote."""
        rows = slices * BUCKETS
        return self.with_parts(
            {m: ExactSums.from_arrays(_TERMS, arrays, f"{m}.sums", rows) for m in self.parts}
        )
