"""Find the edges of quantile bins in one pass over the columns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import decode_array
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.io import Source
from fastrank_eval.io.reader import RowReader
from fastrank_eval.slicing.encode import comparable, values_of

__all__ = ["Distribution", "distributions", "quantile_edges"]

#: Minimum number of pending values before batches are merged.
_PENDING = 1 << 20


class Distribution:
    """Distinct values of a column with their numbers of rows.

    Nulls and NaN are left out.

    Memory grows with the number of distinct values: 16 bytes for each, and as much again while
    batches are merged.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type of the column.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._batches: list[tuple[np.ndarray, np.ndarray]] = []
        self._merged_values = self._pending_values = 0

    def add(self, column: pa.Array, rows: np.ndarray | None = None) -> None:
        """Count the values of a batch.

        Parameters
        ----------
        column : pyarrow.Array
        rows : ndarray of int64, optional
            Number of rows of each value, if the values are distinct and none is missing.
        """
        column = decode_array(column)
        if pa.types.is_null(column.type):
            return
        values, missing = comparable(column)
        if missing is not None:
            values = values[~missing]
        if not len(values):
            return
        batch = np.unique(values, return_counts=True) if rows is None else (values, rows)
        self._batches.append(batch)
        self._pending_values += len(batch[0])
        if self._pending_values > max(_PENDING, self._merged_values):
            self._merge_batches()

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct values, ascending, and their row counts.

        The values are numbers of `comparable`.
        """
        self._merge_batches()
        if not self._batches:
            return np.empty(0), np.empty(0, np.int64)
        return self._batches[0]

    def edges(self, bins: int) -> pa.Array:
        """Compute the edges of bins of equally many rows.

        With N rows in all, edge j of ``bins - 1`` is the value v for which the number of rows below
        v is nearest to ``j * N / bins``; of two that are equally near, the lower. Each edge is a
        value of the column, but not the smallest. So rows of equal values share a bin. Edges that
        coincide count once, which leaves fewer bins.

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
        >>> ages = Distribution(pa.int64())
        >>> ages.add(pa.array([1, 2, 2, 2, 3, 4, None, 9]))
        >>> ages.edges(3).to_pylist()
        [2, 4]
        """
        values, counts = self.values()
        if len(values) < 2:
            return values_of(values[:0], self.kind) if len(values) else pa.nulls(0, self.kind)
        ends = np.cumsum(counts)
        total, below = int(ends[-1]), ends[:-1]
        edge_indices = []
        for j in range(1, bins):
            # Compare integer multiples of 1 / bins, so that nothing is rounded.
            i = int(np.searchsorted(below, -(-j * total // bins)))
            if i == len(below) or (
                i and j * total - bins * int(below[i - 1]) <= bins * int(below[i]) - j * total
            ):
                i -= 1
            edge_indices.append(i + 1)
        return values_of(values[sorted(set(edge_indices))], self.kind)

    def _merge_batches(self) -> None:
        """Merge all batches into one."""
        if len(self._batches) > 1:
            values = np.concatenate([batch[0] for batch in self._batches])
            counts = np.concatenate([batch[1] for batch in self._batches])
            order = np.argsort(values, kind="stable")
            values, counts = values[order], counts[order]
            starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
            self._batches = [(values[starts], np.add.reduceat(counts, starts))]
        self._merged_values = len(self._batches[0][0]) if self._batches else 0
        self._pending_values = 0


def distributions(
    source: Source, columns: Iterable[str], limit: int | None = None
) -> dict[str, Distribution]:
    """Count the values of columns in one pass over the rows of a run.

    Parameters
    ----------
    source : Source
        Opened with the filter of the run, ``open_source(..., where=...)``.
    columns : iterable of str
        Columns of types that edges can bin.
    limit : int, optional
        Number of rows after which to stop, as in the run.

    Returns
    -------
    dict of str to Distribution
        By column; independent of the batches of the source.

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
    by_name = {name: Distribution(source.schema.field(name).type) for name in names}
    for batch in RowReader(source, names, limit, "quantiles").batches():
        for name, distribution in by_name.items():
            distribution.add(batch.column(name))
    return by_name


def quantile_edges(source: Source, column: str, bins: int, limit: int | None = None) -> pa.Array:
    """Compute the quantile edges of one column; see `Distribution.edges`.

    Parameters
    ----------
    source : Source
        Opened with the filter of the run.
    column : str
    bins : int
        At least 2.
    limit : int, optional
        Number of rows after which to stop, as in the run.

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
