"""Edges of bins of equally many rows, from one pass over the columns to be binned."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import decoded
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.io import Source
from fastrank_eval.io.reader import RowReader
from fastrank_eval.slicing.encode import comparable, values_of

__all__ = ["Distribution", "distributions", "quantile_edges"]

#: Values kept aside before they are put in order with the others, at least.
_PENDING = 1 << 20


class Distribution:
    """The distinct values of a column and how many rows have each; nulls and NaN are left out.

    Memory grows with the number of distinct values: 16 bytes for each, and as much again while
    batches are put together.

    Parameters
    ----------
    kind : pyarrow.DataType
        The type of the column.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._pieces: list[tuple[np.ndarray, np.ndarray]] = []
        self._held = self._pending = 0

    def add(self, column: pa.Array, rows: np.ndarray | None = None) -> None:
        """Count the values of a batch.

        Parameters
        ----------
        column : pyarrow.Array
        rows : ndarray of int64, optional
            How many rows have each of its values, which are distinct then, and none is missing.
        """
        column = decoded(column)
        if pa.types.is_null(column.type):
            return
        values, missing = comparable(column)
        if missing is not None:
            values = values[~missing]
        if not len(values):
            return
        piece = np.unique(values, return_counts=True) if rows is None else (values, rows)
        self._pieces.append(piece)
        self._pending += len(piece[0])
        if self._pending > max(_PENDING, self._held):
            self._settle()

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct values, ascending, as numbers of `comparable`, and the rows of each."""
        self._settle()
        if not self._pieces:
            return np.empty(0), np.empty(0, np.int64)
        return self._pieces[0]

    def edges(self, bins: int) -> pa.Array:
        """The edges of bins of equally many rows.

        With N rows in all, edge j of ``bins - 1`` is the value v for which the number of rows below
        v is nearest to ``j * N / bins``; of two that are equally near, the lower. It is one of the
        column's values but the least, so rows of equal values are never parted; edges that
        coincide are one, and bins that much fewer.

        Parameters
        ----------
        bins : int
            At least 2.

        Returns
        -------
        pyarrow.Array, shape (at most bins - 1,)
            Ascending, of the column's type; doubles for floats.

        Examples
        --------
        >>> seen = Distribution(pa.int64())
        >>> seen.add(pa.array([1, 2, 2, 2, 3, 4, None, 9]))
        >>> seen.edges(3).to_pylist()
        [2, 4]
        """
        values, counts = self.values()
        if len(values) < 2:
            return values_of(values[:0], self.kind) if len(values) else pa.nulls(0, self.kind)
        ends = np.cumsum(counts)
        total, below = int(ends[-1]), ends[:-1]
        chosen = []
        for j in range(1, bins):
            # Compared as whole multiples of 1 / bins, so that nothing is rounded.
            i = int(np.searchsorted(below, -(-j * total // bins)))
            if i == len(below) or (
                i and j * total - bins * int(below[i - 1]) <= bins * int(below[i]) - j * total
            ):
                i -= 1
            chosen.append(i + 1)
        return values_of(values[sorted(set(chosen))], self.kind)

    def _settle(self) -> None:
        """Put all pieces together as one."""
        if len(self._pieces) > 1:
            values = np.concatenate([piece[0] for piece in self._pieces])
            counts = np.concatenate([piece[1] for piece in self._pieces])
            order = np.argsort(values, kind="stable")
            values, counts = values[order], counts[order]
            starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
            self._pieces = [(values[starts], np.add.reduceat(counts, starts))]
        self._held = len(self._pieces[0][0]) if self._pieces else 0
        self._pending = 0


def distributions(
    source: Source, columns: Iterable[str], limit: int | None = None
) -> dict[str, Distribution]:
    """The values of columns, counted in one pass over the rows that a run will read.

    Parameters
    ----------
    source : Source
        Opened with the condition of the run, ``open_source(..., where=...)``.
    columns : iterable of str
        Of types that can be binned by edges.
    limit : int, optional
        Rows to stop after, as in the run.

    Returns
    -------
    dict of str to Distribution
        The same whatever batches the rows come in.

    Raises
    ------
    ArgumentError
        The source can be read only once.
    """
    names = tuple(dict.fromkeys(columns))
    if not source.rereadable:
        raise ArgumentError(
            f"by: bins of equally many rows of '{names[0]}' need a pass of their own, and "
            f"{source.name} can be read only once. Pass a table or a file, or give edges, "
            "by='age:18,25,35'."
        )
    found = {name: Distribution(source.schema.field(name).type) for name in names}
    for batch in RowReader(source, names, limit, "quantiles").batches():
        for name, distribution in found.items():
            distribution.add(batch.column(name))
    return found


def quantile_edges(source: Source, column: str, bins: int, limit: int | None = None) -> pa.Array:
    """The edges of bins of equally many rows of one column; see `Distribution.edges`.

    Parameters
    ----------
    source : Source
        Opened with the condition of the run.
    column : str
    bins : int
        At least 2.
    limit : int, optional
        Rows to stop after, as in the run.

    Raises
    ------
    ArgumentError
        The source can be read only once.

    Examples
    --------
    >>> from fastrank_eval.io import open_source
    >>> quantile_edges(open_source({"age": [20, 30, 40, 50]}), "age", 2).to_pylist()
    [40]
    """
    return distributions(source, [column], limit)[column].edges(bins)
