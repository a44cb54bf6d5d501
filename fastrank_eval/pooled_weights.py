"""Pooled AUC's state where rows have weights, and the area under a ROC curve."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from fastrank_eval.codes import codes_of, distinct_codes
from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel

#: Runs jobs, side by side or not, and yields their results in order.
InOrder = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


class WeightedScores:
    """The scores and weights of positives and of others; every row is kept.

    Threads may add at the same time; the order in which they do does not matter.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Others, then positives. Weights of the others are never found by subtraction from all:
        # it would cancel.
        self._codes: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        self._weights: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])

    def add(self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> None:
        """Add rows; see `pooled.PooledScores.add`. Weights: float64, shape (rows,)."""
        other = np.ones(len(score), np.bool_)
        other[positive] = False
        codes = codes_of(score)
        kinds = []
        for of_kind in (other, positive):
            # Sorted here, by the thread that adds, so that the end only merges.
            order = np.argsort(codes[of_kind])
            kinds.append((codes[of_kind][order], weight[of_kind][order]))
        with self._lock:
            for kind, (code, of_weight) in enumerate(kinds):
                self._codes[kind].append(code)
                self._weights[kind].append(of_weight)

    def merge(self, other: WeightedScores) -> None:
        """Add another state; the order of merging does not matter."""
        with self._lock:
            for kind in (0, 1):
                self._codes[kind].extend(other._codes[kind])
                self._weights[kind].extend(other._weights[kind])

    def auc(self, max_fpr: float | None = None, in_order: InOrder = map) -> float:
        """The area under the ROC curve; NaN if either class is missing or weighs nothing."""
        if not self._codes[0]:
            return float("nan")
        # A power of two, which changes no bit of the area and lets no sum overflow.
        heaviest = max(float(part.max(initial=0.0)) for kind in self._weights for part in kind)
        scale = 2.0 ** -max(math.frexp(heaviest)[1], -1000)
        cuts = self._cuts()

        def masses(bounds: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
            kinds = [self._between(kind, *bounds) for kind in (0, 1)]
            distinct, _ = distinct_codes(np.concatenate([code for code, _ in kinds]))
            mass = np.zeros((2, len(distinct)))
            for row, (code, weight) in zip(mass, kinds, strict=True):
                _add_runs(code, frozen(weight * scale), distinct, np.empty(len(code)), row)
            return mass[0][::-1], mass[1][::-1]

        parts = list(in_order(masses, pairwise(cuts)))[::-1]
        others, positives = (np.concatenate(part) for part in zip(*parts, strict=True))
        return area_under(others, positives, max_fpr)

    def _cuts(self) -> list[int]:
        """Codes that cut all rows into parts of about as many, for threads to take."""
        sample = np.sort(np.concatenate([codes[::512] for kind in self._codes for codes in kind]))
        inner = sample[:: max(1, len(sample) // 64)].tolist()
        return [0, *sorted(set(inner) - {0}), 1 << (8 * sample.dtype.itemsize)]

    def _between(self, kind: int, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows with low <= code < high, by code; rows of one code in any order."""
        codes, weights = [], []
        for code, weight in zip(self._codes[kind], self._weights[kind], strict=True):
            first = int(np.searchsorted(code, code.dtype.type(low)))
            last = len(code)
            if high <= np.iinfo(code.dtype).max:
                last = int(np.searchsorted(code, code.dtype.type(high)))
            codes.append(code[first:last])
            weights.append(weight[first:last])
        code, weight = np.concatenate(codes), np.concatenate(weights)
        order = np.argsort(code)
        return frozen(code[order]), weight[order]


@kernel
def _add_runs(code, weight, distinct, scratch, mass):  # type: ignore[no-untyped-def]
    """Sum the weights of each code, smallest first, whatever order the rows had."""
    i = 0
    for d in range(distinct.shape[0]):
        held = 0
        while i < code.shape[0] and code[i] == distinct[d]:
            scratch[held] = weight[i]
            held += 1
            i += 1
        if held > 1:
            _sort_ascending(scratch, held)
        total = 0.0
        for k in range(held):
            total += scratch[k]
        mass[d] = total


@kernel
def _sort_ascending(values, n):  # type: ignore[no-untyped-def]
    """Heap sort of the first `n` values (Numba's cache needs it in this file too)."""
    for turn in range(n // 2 + n - 1):
        if turn < n // 2:
            root = n // 2 - 1 - turn
            end = n
        else:
            end = n - 1 - (turn - n // 2)
            values[0], values[end] = values[end], values[0]
            root = 0
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and values[child] < values[child + 1]:
                child += 1
            if values[root] >= values[child]:
                break
            values[root], values[child] = values[child], values[root]
            root = child


def area_under(others: np.ndarray, positives: np.ndarray, max_fpr: float | None) -> float:
    """Trapezoids under the ROC curve, one for each distinct score.

    Parameters
    ----------
    others, positives : ndarray of float64, shape (scores,)
        Rows, or their weight, at each distinct score, from the highest score down.
    max_fpr : float or None
        As in `pooled.PooledScores.auc`.
    """
    fpr, tpr = np.cumsum(others), np.cumsum(positives)
    if not (len(fpr) and fpr[-1] > 0 and tpr[-1] > 0):
        return float("nan")
    fpr, tpr = np.append(0.0, fpr / fpr[-1]), np.append(0.0, tpr / tpr[-1])
    if max_fpr is not None and max_fpr < 1:
        stop = int(np.searchsorted(fpr, max_fpr, side="right"))
        inside = np.interp(max_fpr, fpr[stop - 1 : stop + 1], tpr[stop - 1 : stop + 1])
        fpr, tpr = np.append(fpr[:stop], max_fpr), np.append(tpr[:stop], inside)
    area = float(np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1])) / 2.0)
    if max_fpr is not None and max_fpr < 1:
        least = max_fpr * max_fpr / 2.0
        area = 0.5 * (1.0 + (area - least) / (max_fpr - least))
    return min(max(area, 0.0), 1.0)
