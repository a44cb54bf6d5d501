"""Rows not read yet: whoever needs them decodes them, in a thread of its own if it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

__all__ = ["Part", "Unread", "cut", "first_rows", "read_parts"]

#: Rows of a batch that is read by one thread for all.
_BATCH_ROWS = 1 << 19


@dataclass(frozen=True, slots=True)
class Unread:
    """Row groups of a file, to be read by themselves, as often as wanted, by any thread.

    Parameters
    ----------
    row_groups : tuple of (int, int)
        Number of each row group, and its rows.
    read : callable
        Reads row groups, in order, as batches of at most so many rows; threads may share it. The
        third argument says whether Arrow may use threads of its own.
    """

    row_groups: tuple[tuple[int, int], ...]
    read: Callable[[tuple[int, ...], int, bool], Iterator[pa.RecordBatch]]

    @property
    def num_rows(self) -> int:
        """Rows of all these row groups."""
        return sum(rows for _, rows in self.row_groups)

    def batches(self, most: int, threads: bool = False) -> Iterator[pa.RecordBatch]:
        """Read them, as batches of at most `most` rows."""
        return self.read(tuple(group for group, _ in self.row_groups), most, threads)

    def pieces(self, rows: int) -> Iterator[Unread]:
        """The same row groups, as many at a time as come near to so many rows together."""
        first = held = 0
        for end, (_, here) in enumerate(self.row_groups):
            if end > first and held + here // 2 > rows:
                yield Unread(self.row_groups[first:end], self.read)
                first, held = end, 0
            held += here
        if first < len(self.row_groups):
            yield Unread(self.row_groups[first:], self.read)

    def split(self, rows: int) -> tuple[Unread, Unread]:
        """The row groups that have no more than so many rows together, and the others."""
        held, end = 0, 0
        while end < len(self.row_groups) and held + self.row_groups[end][1] <= rows:
            held += self.row_groups[end][1]
            end += 1
        return Unread(self.row_groups[:end], self.read), Unread(self.row_groups[end:], self.read)


#: Some rows of a source, read or not.
Part: TypeAlias = pa.RecordBatch | Unread


def first_rows(part: Part, rows: int) -> pa.RecordBatch:
    """At most so many rows from the beginning of a part, and no more read than that."""
    if isinstance(part, Unread):
        part = next(part.batches(rows))
    return part.slice(0, rows)


def cut(parts: Iterable[Part], rows: int) -> Iterator[Part]:
    """Parts of about so many rows; longer row groups are read here, on Arrow's threads."""
    for part in parts:
        if not isinstance(part, Unread):
            for first in range(0, part.num_rows, rows):
                yield part.slice(first, rows)
            continue
        for piece in part.pieces(rows):
            if 2 * piece.num_rows > 3 * rows:
                yield from read_parts([piece], rows)
            else:
                yield piece


def read_parts(parts: Iterable[Part], most: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Read what is not, on Arrow's threads, as batches of at most `most` rows."""
    for part in parts:
        if isinstance(part, Unread):
            yield from part.batches(most, threads=True)
        else:
            yield part
