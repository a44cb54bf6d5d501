"""Rows that cannot be used: how many there are in all, and in which file the first one is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from fastrank_eval.errors import ColumnError, FastRankEvalError, OrderError

if TYPE_CHECKING:
    from fastrank_eval.sources import Source

__all__ = ["BadRows", "explained"]


class BadRows(ColumnError):
    """Some rows hold a value that cannot be used.

    Parameters
    ----------
    column : str
        The column that holds them.
    fault, remedy : str
        The message before the number of rows, and after the number of the first one.
    row : int
        The first one, counted from 0 in the whole input.
    rows : int
        How many have been found.
    count : callable
        Finds how many there are in an array of the column.
    whole : bool
        Whether all rows have been looked at.
    """

    def __init__(
        self,
        column: str,
        fault: str,
        remedy: str,
        row: int,
        rows: int,
        count: Callable[[pa.Array], int],
        whole: bool = False,
    ) -> None:
        many = f"{rows:,} row(s)" if whole else f"at least {rows:,} row(s)"
        super().__init__(f"{fault} in {many}, first in row {row:,} (counted from 0){remedy}.")
        self.column, self.fault, self.remedy = column, fault, remedy
        self.row, self.rows, self.count = row, rows, count

    def counted(self, batches: Iterable[pa.RecordBatch]) -> BadRows:
        """The same with the rows of the whole input, of which `batches` hold this column alone."""
        rows = sum(self.count(batch.column(0)) for batch in batches)
        return BadRows(self.column, self.fault, self.remedy, self.row, rows, self.count, whole=True)


def explained(
    fault: BadRows | OrderError,
    source: Source,
    batches: Callable[[tuple[str, ...]], Iterable[pa.RecordBatch]],
) -> FastRankEvalError:
    """Tell the whole number of bad rows, and the file of the first one where there are several.

    Parameters
    ----------
    fault : BadRows or OrderError
    source : Source
        What was read.
    batches : callable
        Reads columns of it once more.
    """
    # First of all: reading once more forgets where the files of this reading began.
    place = "" if fault.row is None else source.locate(fault.row)
    if isinstance(fault, BadRows) and source.rereadable:
        with suppress(FastRankEvalError):
            fault = fault.counted(batches((fault.column,)))
    if not place:
        return fault
    kind = OrderError if isinstance(fault, OrderError) else ColumnError
    return kind(f"{fault} It is {place}.")
