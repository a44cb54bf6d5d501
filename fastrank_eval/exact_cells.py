"""Cells by binary exponent in which sums are exact: many sums side by side, in a common window.

A double is a whole number of 53 bits times a power of two. A cell adds up such whole numbers of one
exponent, its lower 27 bits and its upper 26 apart, so that 2**36 of them fit. Products of upper
bits have 52 bits, of which lower and upper half are added up apart as well. A window holds only the
exponents that have come up, so a thousand sums of a slice each take little room.
"""

from __future__ import annotations

import numpy as np

#: Bits of a mantissa kept in its lower cell.
LOW_BITS = 27
#: Bits of a product of two upper parts that are kept in its lower cell.
HALF_BITS = 26
#: The value of the lowest cell is 2**-SCALE.
SCALE = 1074
#: Exponents that a window takes in beyond the one that did not fit.
_MARGIN = 4


def taken_lines(table: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Lines of a table in another order; zeros for -1 and for lines that it has not got."""
    taken = np.zeros((len(lines), *table.shape[1:]), table.dtype)
    there = (lines >= 0) & (lines < len(table))
    taken[there] = table[lines[there]]
    return taken


class Cells:
    """Exact sums, one a line.

    Parameters
    ----------
    width : int
        Numbers kept for each exponent.

    Attributes
    ----------
    low : int
        Exponent of the first cell of each line.
    table : ndarray of int64, shape (lines, exponents, width)
    """

    def __init__(self, width: int) -> None:
        self.low = 0
        self.table = np.zeros((1, 0, width), np.int64)

    def hold_lines(self, lines: int) -> None:
        """Make room for so many lines."""
        have = len(self.table)
        if lines > have:
            grown = np.zeros((max(lines, 2 * have), *self.table.shape[1:]), np.int64)
            grown[:have] = self.table
            self.table = grown

    def hold(self, exponent: int) -> None:
        """Make room for an exponent."""
        lines, exponents, width = self.table.shape
        low, top = self.low, self.low + exponents
        if not exponents:
            low = top = exponent
        if low <= exponent < top:
            return
        if exponent < low:
            low = max(exponent - _MARGIN, 0)
        else:
            top = exponent + 1 + _MARGIN
        grown = np.zeros((lines, top - low, width), np.int64)
        at = self.low - low if exponents else 0
        grown[:, at : at + exponents] = self.table
        self.low, self.table = low, grown

    def take(self, lines: np.ndarray) -> Cells:
        """The sums of some lines, in that order; zeros for -1."""
        taken = Cells(self.table.shape[2])
        taken.low, taken.table = self.low, taken_lines(self.table, lines)
        return taken

    def merge(self, other: Cells) -> None:
        """Add the sums of each line of another."""
        there = np.flatnonzero(other.table.any(axis=(0, 2)))
        if not len(there):
            return
        first, last = int(there[0]), int(there[-1])
        lines = len(other.table)
        self.hold_lines(lines)
        self.hold(other.low + first)
        self.hold(other.low + last)
        at = other.low + first - self.low
        self.table[:lines, at : at + last - first + 1] += other.table[:, first : last + 1]

    def sum(self, line: int) -> int:
        """A line's sum of numbers, as a whole multiple of 2**-SCALE."""
        return self._shifted(line, 0, 1) + (self._shifted(line, 1, 1) << LOW_BITS)

    def upper(self, line: int) -> int:
        """The sum of their upper bits, as a whole multiple of 2**(LOW_BITS - SCALE)."""
        return self._shifted(line, 1, 1)

    def squares(self, line: int) -> int:
        """The sum of squares of their upper bits, in the square of that unit."""
        return self._shifted(line, 2, 2) + (self._shifted(line, 3, 2) << HALF_BITS)

    def products(self, line: int) -> int:
        """A line's sum of products of upper bits, in the square of their unit."""
        if line >= len(self.table):
            return 0
        cells, total = self.table[line], 0
        for at in np.flatnonzero(cells.any(axis=1)).tolist():
            total += (int(cells[at, 0]) + (int(cells[at, 1]) << HALF_BITS)) << (at + self.low)
        return total

    def _shifted(self, line: int, column: int, power: int) -> int:
        """The sum of cells, each times its power of two, or the square of that."""
        if line >= len(self.table):
            return 0
        cells, total = self.table[line, :, column], 0
        for at in np.flatnonzero(cells).tolist():
            total += int(cells[at]) << (power * max(at + self.low - 1, 0))
        return total
