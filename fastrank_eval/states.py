"""Mergeable, exactly reproducible sums: a value does not depend on how the rows were split.

A mean over groups is a ratio of sums. Each sum is kept exactly, as whole multiples of powers of
two, one pair of int64 for each binary exponent: adding is two integer additions, merging is
addition, and the quotient is rounded once, at the end.

The standard error of a mean needs sums of squares and of products too. They are those of the upper
26 bits of a number, which a cell adds up by themselves anyway: their products have 52 bits, so
these sums are exact as well, a sum of squared deviations is never below zero, and it is zero where
all values are equal. No product passes the largest double or falls below the smallest.
"""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np

from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel
from fastrank_eval.uncertainty import Moments

#: Bits of a mantissa kept in the lower cell: 2**36 additions fit before a cell overflows.
_LOW_BITS = 27
#: Binary exponents of a finite double.
_EXPONENTS = 2047
#: Value of the lowest cell is 2**-_SCALE.
_SCALE = 1074
#: Bits of a product of two upper parts that are kept in its lower cell.
_HALF_BITS = 26

# Cells of the counters of one measure.
_USED, _ROWS, _POSITIVES = range(3)


class ExactSums:
    """Sums of several terms over rows, exact; threads may add at the same time.

    Parameters
    ----------
    terms : int
        How many sums.

    Examples
    --------
    >>> sums = ExactSums(1)
    >>> for part in ([1e300, 1.0], [-1e300, 2.0**-60]):
    ...     sums.add(0, np.array(part))
    >>> sums.total(0) == 1 + 2.0**-60
    True
    """

    def __init__(self, terms: int) -> None:
        self._terms = terms
        self._lock = threading.Lock()
        self._own = threading.local()
        self._parts: list[np.ndarray] = []

    def add(self, term: int, values: np.ndarray, at: np.ndarray | None = None) -> None:
        """Add values to one sum, or each to a sum of its own.

        Parameters
        ----------
        term : int
            Which sum; with `at`, the one that 0 stands for.
        values : ndarray of float64, shape (rows,)
            Finite.
        at : ndarray of int64, shape (rows,), optional
            How far beyond `term` the sum of each value stands.
        """
        cells = self._mine()
        values = frozen(np.ascontiguousarray(values, np.float64))
        if at is None:
            _add_all(values.view(np.int64), cells[term])
        else:
            _add_each(
                values.view(np.int64), frozen(np.ascontiguousarray(at, np.int64)), cells[term:]
            )

    def count(self, term: int, number: int) -> None:
        """Add a whole number to a sum."""
        self.add(term, np.array([number], np.float64))

    def _mine(self) -> np.ndarray:
        mine: np.ndarray | None = getattr(self._own, "cells", None)
        if mine is None:
            mine = self._own.cells = np.zeros((self._terms, _EXPONENTS, 2), np.int64)
            with self._lock:
                self._parts.append(mine)
        return mine

    def merge(self, other: ExactSums) -> None:
        """Add other sums of the same terms."""
        with self._lock:
            self._parts += other._parts

    def exact(self, term: int) -> Fraction:
        """A sum as a fraction."""
        return Fraction(sum(_whole(part[term]) for part in self._parts), 1 << _SCALE)

    def total(self, term: int) -> float:
        """A sum, rounded once; inf past the largest double."""
        try:
            return float(self.exact(term))
        except OverflowError:
            return float("inf")


class MeanState:
    """Sums of one model's measures over groups, and their coverage.

    Parameters
    ----------
    measures : int
        Number of measures.
    """

    def __init__(self, measures: int) -> None:
        # Of each exponent: lower and upper bits; lower and upper bits of squares of upper bits.
        self._weighted = np.zeros((measures, _EXPONENTS, 4), np.int64)
        self._weights = np.zeros((measures, _EXPONENTS, 4), np.int64)
        # Products of the upper bits of both, by the sum of their exponents.
        self._products = np.zeros((measures, 2 * _EXPONENTS, 2), np.int64)
        self._counts = np.zeros((measures, 3), np.int64)
        self._dropped: list[dict[str, int]] = [{} for _ in range(measures)]

    def add(
        self,
        m: int,
        values: np.ndarray,
        weights: np.ndarray | None,
        rows: np.ndarray,
        positives: np.ndarray,
    ) -> bool:
        """Add groups; those whose value is NaN are passed over.

        Parameters
        ----------
        m : int
            Which measure.
        values : ndarray of float64, shape (groups,)
            NaN where the group is not used.
        weights : ndarray of float64, shape (groups,), or None
            Group weights; None: 1 each.
        rows, positives : ndarray of int64, shape (groups,)
            What the groups hold, for coverage.

        Returns
        -------
        bool
            Whether every number was finite; otherwise the state is spoiled.
        """
        sums, counts = self._weighted[m], self._counts[m]
        if weights is None:
            return bool(_add_alike(values, values.view(np.int64), rows, positives, sums, counts))
        weights = np.ascontiguousarray(weights, np.float64)
        products = weights * values
        return bool(
            _add_weighed(
                products,
                products.view(np.int64),
                frozen(weights.view(np.int64)),
                rows,
                positives,
                sums,
                self._weights[m],
                self._products[m],
                counts,
            )
        )

    def add_zeros(self, m: int, groups: int, rows: int) -> None:
        """Add groups of value 0, weight 1 and no positives."""
        self._counts[m, _USED] += groups
        self._counts[m, _ROWS] += rows

    def drop(self, m: int, reason: str, groups: int) -> None:
        """Count groups that measure `m` does not use."""
        if groups:
            self._dropped[m][reason] = self._dropped[m].get(reason, 0) + groups

    def merge(self, other: MeanState) -> None:
        """Add another state; the order of merging does not matter."""
        for m in np.flatnonzero(other._counts[:, _USED]).tolist():
            self._weighted[m] += other._weighted[m]
            # Where every group counts 1, nothing is there.
            if other._weights[m].any():
                self._weights[m] += other._weights[m]
                self._products[m] += other._products[m]
        self._counts += other._counts
        for m, dropped in enumerate(other._dropped):
            for reason, groups in dropped.items():
                self.drop(m, reason, groups)

    def mean(self, m: int, weighted: bool) -> float:
        """The weighted mean, correctly rounded from the exact sums; NaN without a group."""
        above = _whole(self._weighted[m])
        below = _whole(self._weights[m]) if weighted else self.used(m) << _SCALE
        return above / below if below else float("nan")

    def sum(self, m: int) -> float:
        """The weighted sum, correctly rounded; NaN without a group, inf past the largest double."""
        if not self.used(m):
            return float("nan")
        try:
            return _whole(self._weighted[m]) / (1 << _SCALE)
        except OverflowError:
            return float("inf")

    def moments(self, m: int, weighted: bool) -> Moments:
        """What standard errors are computed from, exactly."""
        groups, values, unit = self.used(m), self._weighted[m], _SCALE - _LOW_BITS
        first, second = _upper(values), _squares(values)
        if not weighted:
            return Moments(groups, first, groups << unit, second, None, None, unit)
        weights = self._weights[m]
        return Moments(
            groups,
            first,
            _upper(weights),
            second,
            _products(self._products[m]),
            _squares(weights),
            unit,
        )

    def used(self, m: int) -> int:
        """Groups used."""
        return int(self._counts[m, _USED])

    def rows(self, m: int) -> int:
        """Rows of the groups used."""
        return int(self._counts[m, _ROWS])

    def positives(self, m: int) -> int:
        """Positives of the groups used."""
        return int(self._counts[m, _POSITIVES])

    def dropped(self, m: int) -> dict[str, int]:
        """Groups not used, by reason, in the order of the alphabet."""
        return dict(sorted(self._dropped[m].items()))


def _whole(cells: np.ndarray) -> int:
    """An exact sum as a whole multiple of 2**-_SCALE."""
    return _shifted(cells[:, 0], 1) + (_shifted(cells[:, 1], 1) << _LOW_BITS)


def _upper(cells: np.ndarray) -> int:
    """The exact sum of upper bits, as a whole multiple of 2**(_LOW_BITS - _SCALE)."""
    return _shifted(cells[:, 1], 1)


def _squares(cells: np.ndarray) -> int:
    """The exact sum of squares of upper bits, in the square of their unit."""
    return _shifted(cells[:, 2], 2) + (_shifted(cells[:, 3], 2) << _HALF_BITS)


def _products(cells: np.ndarray) -> int:
    """The exact sum of products of upper bits, in the square of their unit."""
    total = 0
    for at in np.flatnonzero(cells.any(axis=1)).tolist():
        total += (int(cells[at, 0]) + (int(cells[at, 1]) << _HALF_BITS)) << at
    return total


def _shifted(cells: np.ndarray, power: int) -> int:
    """The sum of cells, each times its power of two, or the square of that."""
    total = 0
    for exponent in np.flatnonzero(cells).tolist():
        total += int(cells[exponent]) << (power * max(exponent - 1, 0))
    return total


@kernel
def _add_alike(values, bits, rows, positives, cells, counts):  # type: ignore[no-untyped-def]
    used = 0
    used_rows = 0
    used_positives = 0
    for g in range(values.shape[0]):
        value = values[g]
        if value != value:
            continue
        used += 1
        used_rows += rows[g]
        used_positives += positives[g]
        if value == 0.0:
            continue
        b = bits[g]
        exponent = (b >> 52) & 0x7FF
        if exponent == 0x7FF:
            return False
        mantissa = b & 0xFFFFFFFFFFFFF
        if exponent > 0:
            mantissa |= 1 << 52
        low = mantissa & 0x7FFFFFF
        high = mantissa >> 27
        square = high * high
        if b < 0:
            low = -low
            high = -high
        cells[exponent, 0] += low
        cells[exponent, 1] += high
        cells[exponent, 2] += square & 0x3FFFFFF
        cells[exponent, 3] += square >> 26
    counts[0] += used
    counts[1] += used_rows
    counts[2] += used_positives
    return True


@kernel
def _add_weighed(  # type: ignore[no-untyped-def]
    products, bits, weights, rows, positives, cells, weight_cells, product_cells, counts
):
    used = 0
    used_rows = 0
    used_positives = 0
    for g in range(products.shape[0]):
        product = products[g]
        if product != product:
            continue
        used += 1
        used_rows += rows[g]
        used_positives += positives[g]
        c = weights[g]
        of_weight = (c >> 52) & 0x7FF
        if of_weight == 0x7FF:
            return False
        mantissa = c & 0xFFFFFFFFFFFFF
        if of_weight > 0:
            mantissa |= 1 << 52
        weight = mantissa >> 27
        square = weight * weight
        weight_cells[of_weight, 0] += mantissa & 0x7FFFFFF
        weight_cells[of_weight, 1] += weight
        weight_cells[of_weight, 2] += square & 0x3FFFFFF
        weight_cells[of_weight, 3] += square >> 26
        if product == 0.0:
            continue
        b = bits[g]
        exponent = (b >> 52) & 0x7FF
        if exponent == 0x7FF:
            return False
        mantissa = b & 0xFFFFFFFFFFFFF
        if exponent > 0:
            mantissa |= 1 << 52
        low = mantissa & 0x7FFFFFF
        high = mantissa >> 27
        square = high * high
        if b < 0:
            low = -low
            high = -high
        cells[exponent, 0] += low
        cells[exponent, 1] += high
        cells[exponent, 2] += square & 0x3FFFFFF
        cells[exponent, 3] += square >> 26
        crossed = high * weight
        at = exponent - (exponent > 0) + of_weight - (of_weight > 0)
        product_cells[at, 0] += crossed & 0x3FFFFFF
        product_cells[at, 1] += crossed >> 26
    counts[0] += used
    counts[1] += used_rows
    counts[2] += used_positives
    return True


@kernel
def _add_all(bits, cells):  # type: ignore[no-untyped-def]
    for i in range(bits.shape[0]):
        b = bits[i]
        exponent = (b >> 52) & 0x7FF
        mantissa = b & 0xFFFFFFFFFFFFF
        if exponent > 0:
            mantissa |= 1 << 52
        low = mantissa & 0x7FFFFFF
        high = mantissa >> 27
        if b < 0:
            low = -low
            high = -high
        cells[exponent, 0] += low
        cells[exponent, 1] += high


@kernel
def _add_each(bits, at, cells):  # type: ignore[no-untyped-def]
    for i in range(bits.shape[0]):
        b = bits[i]
        exponent = (b >> 52) & 0x7FF
        mantissa = b & 0xFFFFFFFFFFFFF
        if exponent > 0:
            mantissa |= 1 << 52
        low = mantissa & 0x7FFFFFF
        high = mantissa >> 27
        if b < 0:
            low = -low
            high = -high
        cells[at[i], exponent, 0] += low
        cells[at[i], exponent, 1] += high
