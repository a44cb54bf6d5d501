"""Collect scores with row weights, and compute the area under a ROC curve.

Every row is stored: its score and its weight. At the end each range of scores is sorted, and the
weights of each distinct score are added, smallest first. So no sum depends on the order of rows.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Self

import numpy as np

from fastrank_eval._lib.array_codes import (
    Arrays,
    byte_unshuffle,
    delta_decode,
)
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import JobMap
from fastrank_eval.stats.score_runs import (
    Codes,
    RocSteps,
    ScoreRuns,
    ScoreTable,
    distinct_sorted,
    encode_rows,
    ranges_of,
    scores_of,
    sort_codes,
)

#: A function of weights (negative where the row is positive), applied before they are summed.
WeightTransform = Callable[[np.ndarray], np.ndarray]

#: From this many rows of one score on, NumPy sorts their weights.
_LONG_RUN = 256


class WeightedScores:
    """Scores and weights of all rows, each row stored.

    Several threads may add at the same time, in any order.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Weights are negative where the row is positive. (Where a weight is zero, the class does
        # not matter.)
        self._runs = ScoreRuns()
        self._largest_weight = 0.0
        self._table: ScoreTable | None = None
        self._steps: RocSteps | None = None

    def add(self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> None:
        """Add rows, as `PooledScores.add`; weights are float64 of shape (rows,)."""
        if len(score):
            signed = weight.copy()
            signed[positive] *= -1.0
            self._add_signed(score, signed, float(weight.max()))

    def _add_signed(self, score: np.ndarray, signed: np.ndarray, largest_weight: float) -> None:
        self._runs.add(score, signed)
        with self._lock:
            self._largest_weight = max(self._largest_weight, largest_weight)
            self._table = self._steps = None

    def merge(self, other: WeightedScores) -> None:
        """Add another state, which must not be used afterwards, in any order."""
        self._runs.merge(other._runs)
        with self._lock:
            self._largest_weight = max(self._largest_weight, other._largest_weight)
            self._table = self._steps = None

    def to_arrays(self) -> Arrays:
        """Write the distinct pairs of score and weight, ascending.

        Returns
        -------
        dict of ndarray
            ``codes`` of the scores (see `ScoreTable.to_arrays`); ``weights``, negative
            where the row is positive, with shuffled bytes; ``rows`` of each pair.
        """
        parts = [(np.empty(0, np.uint64), np.empty(0))]
        for leading in ranges_of(self._runs):
            codes, weight = self._runs.rows_in(leading)
            # The class of a row of weight 0 does not matter: turn -0.0 into 0.0.
            weight = weight + 0.0
            order = np.lexsort((weight, codes))
            parts.append((codes[order], weight[order]))
        names = "codes", "weights", "rows"
        return dict(zip(names, encode_rows(parts[1:] or parts), strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        state = cls()
        rows = arrays["rows"].astype(np.int64)
        signed = np.repeat(byte_unshuffle(arrays["weights"], "f"), rows)
        if len(signed):
            score = scores_of(np.repeat(delta_decode(arrays["codes"]), rows))
            state._add_signed(score, signed, float(np.abs(signed).max()))
        return state

    def auc(self, max_fpr: float | None = None, map_jobs: JobMap = map) -> float:
        """Compute the area under the ROC curve.

        NaN if a class has no row or no weight.
        """
        return self.table(map_jobs).area(max_fpr)

    def table(self, map_jobs: JobMap = map) -> ScoreTable:
        """Sum the weights of the positives and the others of every distinct score."""
        if self._table is None:
            self._table = self._make_table(map_jobs, np.asarray, self._scale)
        return self._table

    def steps(self, map_jobs: JobMap = map) -> RocSteps:
        """Compute the steps of the ROC curve, by weight."""
        if self._steps is None:
            self._steps = RocSteps.from_table(self.table(map_jobs))
        return self._steps

    def missing(self, map_jobs: JobMap = map) -> str | None:
        """Return why measures that need both classes are undefined, or None."""
        return self.table(map_jobs).missing

    def squares_table(self, map_jobs: JobMap = map) -> ScoreTable:
        """Return `table` of squared weights, scaled before squaring."""

        def square(weight: np.ndarray) -> np.ndarray:
            scaled = weight * self._scale
            return scaled * np.abs(scaled)

        return self._make_table(map_jobs, square, 1.0)

    def counts_table(self, map_jobs: JobMap = map) -> ScoreTable:
        """Return `table` of the numbers of rows whose weight is not zero."""
        return self._make_table(map_jobs, np.sign, 1.0)

    @property
    def _scale(self) -> float:
        """A power of two that prevents overflow and changes no bit of the area."""
        return 2.0 ** -max(math.frexp(self._largest_weight)[1], -1000)

    def _make_table(self, map_jobs: JobMap, transform: WeightTransform, scale: float) -> ScoreTable:
        def sum_range(leading: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            codes, weights = self._runs.rows_in(leading)
            return _sum_by_code(sort_codes(Codes(codes, transform(weights))), scale)

        parts = list(map_jobs(sum_range, ranges_of(self._runs)[::-1]))
        if not parts:
            return ScoreTable.empty()
        codes, positives, others = (np.concatenate(part) for part in zip(*parts, strict=True))
        return ScoreTable.from_codes(codes, positives, others, scale)


def _sum_by_code(rows: Codes, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum the weights of positives and others of each code.

    The highest code comes first.

    Parameters
    ----------
    rows : Codes
        Ascending; weights, which are overwritten, are negative where the row is positive.
    scale : float
        Factor of the weights.
    """
    distinct, _ = distinct_sorted(rows.codes)
    others, positives = np.empty((2, len(distinct)))
    # The run to sort next: its start and its end; and the codes that are done.
    position = np.zeros(3, np.int64)
    while not _sum_runs(*rows, scale, _LONG_RUN, position, others, positives):
        rows.values[position[0] : position[1]].sort()
    return distinct[::-1], positives[::-1], others[::-1]


@kernel
def _sum_runs(code, weight, scale, long, position, others, positives):  # type: ignore[no-untyped-def]
    """Sum the weights of each code, smallest first.

    Continues at the last call's end. Returns False if a long run has to be sorted first.
    """
    i = position[0]
    d = position[2]
    while i < code.shape[0]:
        end = i + 1
        ascends = True
        while end < code.shape[0] and code[end] == code[i]:
            ascends &= weight[end] >= weight[end - 1]
            end += 1
        if not ascends:
            if end - i >= long and position[1] < end:
                position[0] = i
                position[1] = end
                position[2] = d
                return False
            # A run is short: insertion takes as long as a heap sort.
            for k in range(i + 1, end):
                value = weight[k]
                slot = k
                while slot > i and weight[slot - 1] > value:
                    weight[slot] = weight[slot - 1]
                    slot -= 1
                weight[slot] = value
        first = i
        while first < end and weight[first] < 0.0:
            first += 1
        total = 0.0
        for k in range(first - 1, i - 1, -1):
            total += -weight[k] * scale
        positives[d] = total
        total = 0.0
        for k in range(first, end):
            total += weight[k] * scale
        others[d] = total
        d += 1
        i = end
    return True
