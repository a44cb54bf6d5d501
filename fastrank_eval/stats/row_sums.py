"""Add rows exactly, and count groups and rows by slice."""

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

#: Bits of a mantissa in its lower cell.
LOW_BITS = 27
#: Binary exponents of a finite double.
_EXPONENTS = 2047


class RowSums:
    """Exact sums of several terms over rows.

    Threads may add at the same time.

    Parameters
    ----------
    terms : int
        Number of sums.

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
        self._by_thread: list[np.ndarray] = []
        # Sums from a file, in units of the lowest cell.
        self._from_file = [0] * terms
        # Sums by term, until a value is added: slices are compared with every other model.
        self._cache: dict[int, int] = {}

    def add(self, term: int, values: np.ndarray, offsets: np.ndarray | None = None) -> None:
        """Add values to one sum, or each value to its own sum.

        Parameters
        ----------
        term : int
            Index of the sum; with `offsets`, of the sum at offset 0.
        values : ndarray of float64, shape (rows,)
            Finite.
        offsets : ndarray of int64, shape (rows,), optional
            The index of each value's sum, less `term`.
        """
        cells = self._own_cells()
        values = frozen(np.ascontiguousarray(values, np.float64))
        if offsets is None:
            _add_all(values.view(np.int64), cells[term])
        else:
            _add_each(
                values.view(np.int64), frozen(np.ascontiguousarray(offsets, np.int64)), cells[term:]
            )
        self._cache = {}

    def count(self, term: int, number: int) -> None:
        """Add an integer to a sum."""
        self.add(term, np.array([number], np.float64))

    def _own_cells(self) -> np.ndarray:
        own: np.ndarray | None = getattr(self._own, "cells", None)
        if own is None:
            own = self._own.cells = np.zeros((self._terms, _EXPONENTS, 2), np.int64)
            with self._lock:
                self._by_thread.append(own)
        return own

    def merge(self, other: RowSums) -> None:
        """Add other sums of the same terms."""
        with self._lock:
            self._cache = {}
            self._by_thread += other._by_thread
            self._from_file = [
                a + b for a, b in zip(self._from_file, other._from_file, strict=True)
            ]

    def to_arrays(self) -> Arrays:
        """Write the sums as limbs of multiples of 2**-1074 (see `array_codes`)."""
        return integers_to_limbs([self._units(term) for term in range(self._terms)])

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        sums = cls.__new__(cls)
        RowSums.__init__(sums, len(arrays["length"]))
        sums._from_file = limbs_to_integers(arrays)
        return sums

    def _units(self, term: int) -> int:
        units = self._cache.get(term)
        if units is None:
            units = self._from_file[term] + sum(_to_units(cells[term]) for cells in self._by_thread)
            self._cache[term] = units
        return units

    def exact(self, term: int) -> Fraction:
        """Return a sum as a fraction."""
        return Fraction(self._units(term), 1 << UNIT)

    def total(self, term: int) -> float:
        """Return a sum, rounded once; inf above the largest double."""
        try:
            return float(self.exact(term))
        except OverflowError:
            return float("inf")


def _to_units(cells: np.ndarray) -> int:
    """Convert cells to an exact sum in units of 2**-UNIT."""
    flat = cells.ravel()
    total = 0
    for index in flat.nonzero()[0].tolist():
        exponent, high = divmod(index, 2)
        total += int(flat[index]) << (max(exponent - 1, 0) + high * LOW_BITS)
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
def _add_each(bits, offsets, cells):  # type: ignore[no-untyped-def]
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
        cells[offsets[i], exponent, 0] += low
        cells[offsets[i], exponent, 1] += high


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
        numbers = np.atleast_1d(np.asarray(numbers, np.int64))
        self.ensure_slices(len(numbers))
        self.table[: len(numbers), column] += numbers

    def merge(self, other: SliceCounts) -> None:
        """Add other counts slice by slice."""
        self.ensure_slices(len(other.table))
        self.table[: len(other.table)] += other.table

    def take(self, slice_indices: np.ndarray) -> SliceCounts:
        """Take the counts of some slices, in this order; zeros for -1."""
        return SliceCounts.of(take_rows(self.table, slice_indices))

    @classmethod
    def of(cls, table: np.ndarray) -> Self:
        """Make counts from an int64 table of shape (slices, width)."""
        counts = cls(table.shape[1])
        counts.table = table
        return counts

    def at(self, slice_index: int, column: int) -> int:
        """Return one count."""
        return int(self.table[slice_index, column]) if slice_index < len(self.table) else 0
