"""Sum rows of slices exactly, and count them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from fractions import Fraction
from typing import Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays, integers_to_limbs, limbs_to_integers
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel
from fastrank_eval.stats.exact import UNIT, take_rows

#: Bits of a mantissa kept in its lower cell.
LOW_BITS = 27
#: Binary exponents of a finite double.
_EXPONENTS = 2047


class RowSums:
    """Sums of several terms over rows, exact; threads may add at the same time.

    Parameters
    ----------
    terms : int
        How many sums.

    Examples
    --------
    >>> sums = RowSums(1)
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
        # What came from a file, in units of the lowest cell.
        self._loaded = [0] * terms

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

    def merge(self, other: RowSums) -> None:
        """Add other sums of the same terms."""
        with self._lock:
            self._parts += other._parts
            self._loaded = [a + b for a, b in zip(self._loaded, other._loaded, strict=True)]

    def saved(self) -> Arrays:
        """The sums as whole multiples of 2**-1074, encoded by `integers_to_limbs`."""
        return integers_to_limbs([self._units(term) for term in range(self._terms)])

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        sums = cls.__new__(cls)
        RowSums.__init__(sums, len(parts["length"]))
        sums._loaded = limbs_to_integers(parts)
        return sums

    def _units(self, term: int) -> int:
        return self._loaded[term] + sum(_whole(part[term]) for part in self._parts)

    def exact(self, term: int) -> Fraction:
        """A sum as a fraction."""
        return Fraction(self._units(term), 1 << UNIT)

    def total(self, term: int) -> float:
        """A sum, rounded once; inf past the largest double."""
        try:
            return float(self.exact(term))
        except OverflowError:
            return float("inf")


def _whole(cells: np.ndarray) -> int:
    """An exact sum as a whole multiple of 2**-UNIT."""
    return _shifted(cells[:, 0]) + (_shifted(cells[:, 1]) << LOW_BITS)


def _shifted(cells: np.ndarray) -> int:
    """The sum of cells, each times its power of two."""
    total = 0
    for exponent in np.flatnonzero(cells).tolist():
        total += int(cells[exponent]) << max(exponent - 1, 0)
    return total


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


class SliceCounts:
    """Whole numbers, one row of them a line.

    Parameters
    ----------
    width : int
        How many a line.
    """

    def __init__(self, width: int) -> None:
        self.table = np.zeros((1, width), np.int64)

    def ensure_slices(self, slice_indices: int) -> None:
        """Make room for so many lines."""
        have = len(self.table)
        if slice_indices > have:
            grown = np.zeros((max(slice_indices, 2 * have), self.table.shape[1]), np.int64)
            grown[:have] = self.table
            self.table = grown

    def add(self, column: int, numbers: np.ndarray | int) -> None:
        """Add a number to each of the first lines."""
        numbers = np.atleast_1d(np.asarray(numbers, np.int64))
        self.ensure_slices(len(numbers))
        self.table[: len(numbers), column] += numbers

    def merge(self, other: SliceCounts) -> None:
        """Add the numbers of each line of another."""
        self.ensure_slices(len(other.table))
        self.table[: len(other.table)] += other.table

    def take(self, slice_indices: np.ndarray) -> SliceCounts:
        """The numbers of some lines, in that order; zeros for -1."""
        return SliceCounts.of(take_rows(self.table, slice_indices))

    @classmethod
    def of(cls, table: np.ndarray) -> Self:
        """These numbers, int64 of shape (lines, width)."""
        counts = cls(table.shape[1])
        counts.table = table
        return counts

    def at(self, slice_index: int, column: int) -> int:
        """One of them."""
        return int(self.table[slice_index, column]) if slice_index < len(self.table) else 0
