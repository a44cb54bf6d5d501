"""Confusion matrices of several classes, exact, and what is read from them."""

from __future__ import annotations

import math
import threading
from fractions import Fraction

import numpy as np

from fastrank_eval.measures.pooled_measure import PooledValue, undefined

#: Bits of a mantissa that are summed apart, so that sums of 2^26 of them are doubles.
_LOW_BITS = 27
#: Added to binary exponents, so that none is negative; and more than any comes to.
_SHIFT, _SPAN = 1100, 2200


class ClassConfusion:
    """Rows by their class and the one predicted: int64 counts, or exact sums of weights.

    Threads may add at the same time; the order in which they do does not matter.

    Parameters
    ----------
    classes : int
    weighted : bool

    Examples
    --------
    >>> state = ClassConfusion(2, weighted=False)
    >>> state.add(np.array([0, 1, 1]), np.array([0, 0, 1]), None)
    >>> state.matrix()
    array([[1, 0],
           [1, 1]])
    """

    def __init__(self, classes: int, weighted: bool) -> None:
        self.classes, self.weighted = classes, weighted
        self._lock = threading.Lock()
        self._counts = np.zeros(classes * classes, np.int64)
        self._sums: dict[int, int] = {}

    def add(self, actual: np.ndarray, predicted: np.ndarray, weight: np.ndarray | None) -> None:
        """Add rows.

        Parameters
        ----------
        actual, predicted : ndarray of int64, shape (rows,)
            Numbers of classes.
        weight : ndarray of float64, shape (rows,), or None
        """
        cells = actual * self.classes + predicted
        counts = np.bincount(cells, minlength=len(self._counts))
        parts: list[tuple[int, int]] = []
        if weight is not None:
            mantissa, exponent = np.frexp(weight)
            whole = np.ldexp(mantissa, 53).astype(np.int64)
            keys, at = np.unique(cells * _SPAN + (exponent + _SHIFT), return_inverse=True)
            high = np.bincount(at, whole >> _LOW_BITS, len(keys))
            low = np.bincount(at, whole & ((1 << _LOW_BITS) - 1), len(keys))
            sums = zip(keys.tolist(), high.tolist(), low.tolist(), strict=True)
            parts = [(key, (int(upper) << _LOW_BITS) + int(lower)) for key, upper, lower in sums]
        with self._lock:
            self._counts += counts
            for key, part in parts:
                self._sums[key] = self._sums.get(key, 0) + part

    def exact(self) -> list[list[Fraction]]:
        """The rows of the matrix, as fractions."""
        cells = [Fraction(count) for count in self._counts.tolist()]
        if self.weighted:
            cells = [Fraction(0)] * len(cells)
            for key, whole in self._sums.items():
                cell, exponent = divmod(key, _SPAN)
                cells[cell] += whole * Fraction(2) ** (exponent - _SHIFT - 53)
        return [cells[k : k + self.classes] for k in range(0, len(cells), self.classes)]

    def matrix(self) -> np.ndarray:
        """What belongs to class i and is predicted j.

        Returns
        -------
        ndarray of int64 or float64, shape (classes, classes)
            Of weights the sums, each rounded once.
        """
        if not self.weighted:
            return self._counts.reshape(self.classes, self.classes).copy()
        return np.array([[_rounded(cell) for cell in row] for row in self.exact()])


def accuracy(cells: list[list[Fraction]]) -> PooledValue:
    """The share of rows that are predicted right."""
    total = sum(map(sum, cells))
    if not total:
        return undefined("zero_weight")
    return PooledValue(float(sum(row[k] for k, row in enumerate(cells)) / total))


def error_rate(cells: list[list[Fraction]]) -> PooledValue:
    """The share of rows that are predicted wrong."""
    total = sum(map(sum, cells))
    if not total:
        return undefined("zero_weight")
    return PooledValue(float(1 - Fraction(sum(row[k] for k, row in enumerate(cells)), total)))


def balanced_accuracy(cells: list[list[Fraction]]) -> PooledValue:
    """The mean, over the classes that have rows, of the share of them that is predicted right."""
    shares = [row[k] / sum(row) for k, row in enumerate(cells) if sum(row)]
    if not shares:
        return undefined("zero_weight")
    return PooledValue(float(sum(shares) / len(shares)))


def matthews(cells: list[list[Fraction]]) -> PooledValue:
    """Gorodkin's R_K, the correlation of the predicted class with the class.

    ``(s c - sum_k p_k t_k) / sqrt((s^2 - sum_k p_k^2) (s^2 - sum_k t_k^2))`` with s rows, c of them
    right, t_k of class k and p_k predicted so.

    References
    ----------
    Gorodkin (2004), doi:10.1016/j.compbiolchem.2004.09.006.
    """
    total = Fraction(sum(map(sum, cells)))
    if not total:
        return undefined("zero_weight")
    actual = [sum(row) / total for row in cells]
    predicted = [sum(column) / total for column in zip(*cells, strict=True)]
    right = sum(row[k] for k, row in enumerate(cells)) / total
    of_actual = 1 - sum(share * share for share in actual)
    of_predicted = 1 - sum(share * share for share in predicted)
    if not of_actual:
        return undefined("single_class")
    if not of_predicted:
        return undefined("single_class_predicted")
    together = right - sum(p * t for p, t in zip(predicted, actual, strict=True))
    value = float(together) / math.sqrt(float(of_actual) * float(of_predicted))
    return PooledValue(min(max(value, -1.0), 1.0))


def _rounded(cell: Fraction) -> float:
    try:
        return float(cell)
    except OverflowError:
        return math.inf
