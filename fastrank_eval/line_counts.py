"""Whole numbers of each slice."""

from __future__ import annotations

from typing import Self

import numpy as np

from fastrank_eval.exact import taken_rows


class LineCounts:
    """Whole numbers, one row of them a line.

    Parameters
    ----------
    width : int
        How many a line.
    """

    def __init__(self, width: int) -> None:
        self.table = np.zeros((1, width), np.int64)

    def hold_lines(self, lines: int) -> None:
        """Make room for so many lines."""
        have = len(self.table)
        if lines > have:
            grown = np.zeros((max(lines, 2 * have), self.table.shape[1]), np.int64)
            grown[:have] = self.table
            self.table = grown

    def add(self, column: int, numbers: np.ndarray | int) -> None:
        """Add a number to each of the first lines."""
        numbers = np.atleast_1d(np.asarray(numbers, np.int64))
        self.hold_lines(len(numbers))
        self.table[: len(numbers), column] += numbers

    def merge(self, other: LineCounts) -> None:
        """Add the numbers of each line of another."""
        self.hold_lines(len(other.table))
        self.table[: len(other.table)] += other.table

    def take(self, lines: np.ndarray) -> LineCounts:
        """The numbers of some lines, in that order; zeros for -1."""
        return LineCounts.of(taken_rows(self.table, lines))

    @classmethod
    def of(cls, table: np.ndarray) -> Self:
        """These numbers, int64 of shape (lines, width)."""
        counts = cls(table.shape[1])
        counts.table = table
        return counts

    def at(self, line: int, column: int) -> int:
        """One of them."""
        return int(self.table[line, column]) if line < len(self.table) else 0
