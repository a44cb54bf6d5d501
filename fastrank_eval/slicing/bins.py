"""Bin numbers, times and the activity of groups."""

from __future__ import annotations

import math
import threading
from decimal import Context, Decimal
from fractions import Fraction
from typing import NoReturn

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, as_array, column_with_nulls, decode_array, frozen
from fastrank_eval._lib.errors import ArgumentError, ColumnError
from fastrank_eval.slicing.encode import (
    MAX_SLICES,
    Categories,
    ColumnEncoder,
    DistinctEncoder,
    KeyedEncoder,
    PeriodEncoder,
    comparable,
    edges_of,
    encoded,
    is_ordered,
    numbers_with_nulls,
    ranks_of,
)
from fastrank_eval.slicing.spec import (
    Edges,
    Period,
    SliceColumn,
    Width,
    bin_texts,
    count_texts,
    number_text,
    value_texts,
)

__all__ = [
    "ActivityEncoder",
    "BinEncoder",
    "WidthEncoder",
    "bins",
    "check_ordered",
    "column_encoder",
]


_MAX_EXACT = 1 << 53
_EXACT_CONTEXT = Context(prec=1000)


class BinEncoder:
    """Codes of bins between edges.

    Each edge is the lower bound of its bin. Code i is the bin above i edges. The last code is the
    bin of nulls and NaN.

    Parameters
    ----------
    slice_column : SliceColumn
    edges : pyarrow.Array, shape (edges,)
        Edges from `edges_of` or `quantile_edges`, ascending.
    """

    def __init__(self, slice_column: SliceColumn, edges: pa.Array) -> None:
        self.slice_column, self.name, self.edges = slice_column, slice_column.column, edges
        self._numbers = comparable(edges)[0]

    def __len__(self) -> int:
        return len(self.edges) + 2

    def codes(self, column: pa.Array) -> np.ndarray:
        """Encode the bin of each row.

        Parameters
        ----------
        column : pyarrow.Array, shape (rows,)

        Returns
        -------
        ndarray of int32, shape (rows,), read-only
        """
        column = decode_array(column)
        if pa.types.is_null(column.type):
            return frozen(np.full(len(column), len(self) - 1, np.int32))
        if not pa.types.is_decimal(column.type):
            return self._codes(column)
        distinct = encoded(column)
        return frozen(self._codes(distinct.dictionary)[as_array(distinct.indices)])

    def _codes(self, column: pa.Array) -> np.ndarray:
        values, missing = comparable(column)
        codes = np.searchsorted(self._numbers, values, side="right").astype(np.int32)
        if missing is not None:
            codes[missing] = len(self) - 1
        return frozen(codes)

    def categories(self) -> Categories:
        """Describe all bins, empty ones too."""
        texts = bin_texts(value_texts(self.edges))
        return Categories(tuple(texts), bins(self.edges, null=True), np.arange(len(self)))


class WidthEncoder(KeyedEncoder):
    """Codes of bins from each multiple of a width to the next.

    A value lies in the bin of the highest multiple that is not above it. Multiples are exact for
    integers and decimals. Floats are compared with the double nearest to each multiple, so that
    0.3 lies in [0.3,0.4) although three times 0.1 rounds to more than 0.3. Each infinity has its
    own bin.

    Parameters
    ----------
    slice_column : SliceColumn
        With a `Width`.
    kind : pyarrow.DataType
        Type of the column.
    max_slices : int
        Maximum number of bins.
    """

    def __init__(
        self, slice_column: SliceColumn, kind: pa.DataType, max_slices: int = MAX_SLICES
    ) -> None:
        super().__init__(slice_column, kind, max_slices)
        if not isinstance(slice_column.binning, Width):  # pragma: no cover - callers choose by it
            raise TypeError(f"{slice_column} has no width.")
        self.width = Decimal(slice_column.binning.width)
        kind = self.kind
        temporal = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        if temporal or not is_ordered(kind):
            remedy = (
                f"Write by='{SliceColumn(slice_column.column, Period('day'))}'"
                if temporal
                else "Cast it"
            )
            self.refuse("bins of one width need numbers", remedy)
        if pa.types.is_floating(kind) and not 0 < float(self.width) < math.inf:
            self.refuse("the width must be a finite double above 0", "Give edges")

    def _keys(self, column: pa.Array) -> pa.Array:
        if pa.types.is_floating(column.type):
            doubles, missing = comparable(column)
            return numbers_with_nulls(self._bin_numbers(doubles, missing), missing)
        is_integer = self.width == int(self.width)
        if pa.types.is_integer(column.type) and is_integer and self.width < _MAX_EXACT:
            values, missing = comparable(column)
            wide = values.dtype if values.dtype == np.uint64 else np.dtype(np.int64)
            return numbers_with_nulls(values.astype(wide) // wide.type(int(self.width)), missing)
        dictionary = encoded(column)
        width = Fraction(self.width)
        numbers = [
            0 if value is None else math.floor(Fraction(value) / width)
            for value in dictionary.dictionary.to_pylist()
        ]
        if any(abs(number) > _MAX_EXACT for number in numbers):
            self._refuse_large_values()
        null = as_array(dictionary.dictionary.is_null()).view(np.bool_)
        distinct = numbers_with_nulls(np.array(numbers, np.int64), null)
        return distinct.take(dictionary.indices)

    def _bin_numbers(self, doubles: np.ndarray, missing: np.ndarray | None) -> np.ndarray:
        """Find the index of the highest multiple that is not above each double."""
        finite = np.isfinite(doubles)
        with np.errstate(over="ignore"):
            quotients = np.floor(np.where(finite, doubles, 0.0) / float(self.width))
        if not (np.abs(quotients) <= _MAX_EXACT).all():
            self._refuse_large_values()
        numbers = quotients.astype(np.int64)
        # The quotient is rounded, so it can lie on the wrong side of a multiple.
        numbers -= finite & (doubles < self._multiples(numbers))
        numbers += finite & (doubles >= self._multiples(numbers + 1))
        numbers[doubles == np.inf] = 2 * _MAX_EXACT
        numbers[doubles == -np.inf] = -2 * _MAX_EXACT
        return numbers

    def _multiples(self, numbers: np.ndarray) -> np.ndarray:
        dictionary = arrow_column(numbers).dictionary_encode()
        distinct = [float(self._multiple(n)) for n in as_array(dictionary.dictionary).tolist()]
        doubles: np.ndarray = np.array(distinct, np.float64)[as_array(dictionary.indices)]
        return doubles

    def _multiple(self, number: int) -> Decimal:
        return _EXACT_CONTEXT.multiply(Decimal(number), self.width)

    def categories(self) -> Categories:
        """Describe the bins so far; their ends are int64 or float64."""
        values = self.values()
        numbers: list[int | None] = values.to_pylist()
        texts = ["=null" if number is None else self._text(number) for number in numbers]
        ends = [self._ends(number) for number in numbers if number is not None]
        null = np.array([number is None for number in numbers], np.bool_)
        flat = [end for pair in ends for end in pair]
        if all(end.is_finite() and end == int(end) and abs(end) < 1 << 63 for end in flat):
            table = np.array([int(end) for end in flat], np.int64)
        else:
            table = np.array([float(end) for end in flat], np.float64)
        both = np.zeros((len(numbers), 2), table.dtype)
        both[~null] = table.reshape(-1, 2)
        return Categories(tuple(texts), _structs(both, null), ranks_of(values))

    def _ends(self, number: int) -> tuple[Decimal, Decimal]:
        if abs(number) == 2 * _MAX_EXACT and pa.types.is_floating(self.kind):
            infinite = Decimal("inf") if number > 0 else Decimal("-inf")
            return infinite, infinite
        return self._multiple(number), self._multiple(number + 1)

    def _text(self, number: int) -> str:
        low, high = self._ends(number)
        if not low.is_finite():
            return "=inf" if low > 0 else "=-inf"
        return f"=[{number_text(low)},{number_text(high)})"

    def _refuse_large_values(self) -> NoReturn:
        raise ColumnError(
            f"by '{self.slice_column}': column '{self.name}' has a value more than 2^53 widths "
            f"from 0. Give edges, by='{SliceColumn(self.name, Edges(('0', '10', '100')))}', or a "
            "larger width."
        )


def bins(edges: pa.Array, *, null: bool) -> pa.Array:
    """Make structs of the low and the high end of the bins between edges.

    An open end is null.

    Parameters
    ----------
    edges : pyarrow.Array, shape (edges,)
    null : bool
        Append a null struct for the bin of nulls.

    Returns
    -------
    pyarrow.StructArray, shape (edges + 1,) or (edges + 2,)
    """
    open_end = pa.nulls(1, edges.type)
    further = pa.nulls(int(null), edges.type)
    low = pa.concat_arrays([open_end, edges, further])
    high = pa.concat_arrays([edges, open_end, further])
    missing = np.zeros(len(low), np.bool_)
    missing[len(edges) + 1 :] = True
    return _struct(low, high, missing)


def _structs(ends: np.ndarray, null: np.ndarray) -> pa.Array:
    """Make structs from rows of a low and a high end."""
    low, high = (column_with_nulls(np.ascontiguousarray(end), null) for end in ends.T)
    return _struct(low, high, null)


def _struct(low: pa.Array, high: pa.Array, null: np.ndarray) -> pa.Array:
    valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    kind = pa.struct([("low", low.type), ("high", high.type)])
    return pa.Array.from_buffers(kind, len(low), [valid], children=[low, high])


def column_encoder(
    slice_column: SliceColumn, kind: pa.DataType, max_slices: int = MAX_SLICES
) -> ColumnEncoder:
    """Make the encoder of a slice column other than quantiles.

    Quantiles need edges first.

    Parameters
    ----------
    slice_column : SliceColumn
        Not an activity.
    kind : pyarrow.DataType
        Type of the column.
    max_slices : int, default MAX_SLICES
        Maximum number of codes.

    Raises
    ------
    ArgumentError
        Values of the type cannot be compared, or do not support the requested bins.
    """
    if slice_column.binning is None:
        return DistinctEncoder(slice_column, kind, max_slices)
    if isinstance(slice_column.binning, Edges):
        check_ordered(slice_column, kind)
        return BinEncoder(slice_column, edges_of(slice_column, kind))
    if isinstance(slice_column.binning, Width):
        return WidthEncoder(slice_column, kind, max_slices)
    return PeriodEncoder(slice_column, kind, max_slices)


def check_ordered(slice_column: SliceColumn, kind: pa.DataType) -> None:
    """Raise if edges cannot bin values of a type."""
    if not is_ordered(kind):
        raise ArgumentError(
            f"by '{slice_column}': column '{slice_column.column}' is {kind}; edges and quantiles "
            "need numbers, dates or timestamps. Slice by each value, "
            f"by='{SliceColumn(slice_column.column)}', or cast it."
        )


class ActivityEncoder:
    """Codes of buckets of group counts; threads may share it.

    With edges, code i is the bucket above i edges; code 0 is below all edges. With a width or
    without bins, codes number the buckets in order of first appearance.

    Parameters
    ----------
    slice_column : SliceColumn
        An activity.
    max_slices : int
        Maximum number of buckets.
    """

    def __init__(self, slice_column: SliceColumn, max_slices: int = MAX_SLICES) -> None:
        self.slice_column, self.name, self.max_slices = (
            slice_column,
            slice_column.column,
            max_slices,
        )
        self._lock = threading.Lock()
        self._code_of: dict[int, int] = {}
        self._edges: np.ndarray | None = None
        self._width = 1
        if isinstance(slice_column.binning, Edges):
            max_edge = np.iinfo(np.int64).max
            counts = [int(edge) for edge in slice_column.binning.edges]
            self._edges = np.array([min(count, max_edge) for count in counts], np.int64)
            self._texts = count_texts(counts)
        elif isinstance(slice_column.binning, Width):
            self._width = min(int(slice_column.binning.width), 1 << 62)

    def __len__(self) -> int:
        return len(self._code_of) if self._edges is None else len(self._edges) + 1

    def codes(self, counts: np.ndarray) -> np.ndarray:
        """Encode the bucket of each group.

        Parameters
        ----------
        counts : ndarray of int64, shape (groups,)
            Number of rows, or of rows of grade 1 or more, of each whole group.

        Returns
        -------
        ndarray of int32, shape (groups,), read-only

        Raises
        ------
        ColumnError
            There are more buckets than `max_slices`.
        """
        if self._edges is not None:
            return frozen(np.searchsorted(self._edges, counts, side="right").astype(np.int32))
        numbers, positions = np.unique(counts // self._width, return_inverse=True)
        with self._lock:
            codes = [
                self._code_of.setdefault(number, len(self._code_of)) for number in numbers.tolist()
            ]
            if len(self._code_of) > self.max_slices:
                raise ColumnError(
                    f"by '{self.slice_column}': groups make more than {self.max_slices:,} slices. "
                    f"Give edges, by='@{self.name}:1,5,20,100'."
                )
        return frozen(np.array(codes, np.int32)[positions])

    def categories(self) -> Categories:
        """Describe the buckets so far; with edges, all buckets, empty ones too."""
        if self._edges is not None:
            edges = arrow_column(self._edges)
            return Categories(tuple(self._texts), bins(edges, null=False), np.arange(len(self)))
        numbers = np.array(list(self._code_of), np.int64)
        ranks = np.empty(len(numbers), np.int64)
        ranks[np.argsort(numbers)] = np.arange(len(numbers))
        low = numbers * self._width
        if self.slice_column.binning is None:
            return Categories(
                tuple(f"={count}" for count in low.tolist()), arrow_column(low), ranks
            )
        high = low + self._width
        texts = [
            f"={a}" if b == a + 1 else f"={a}-{b - 1}"
            for a, b in zip(low.tolist(), high.tolist(), strict=True)
        ]
        ends = [arrow_column(low), arrow_column(high)]
        return Categories(tuple(texts), pa.StructArray.from_arrays(ends, ["low", "high"]), ranks)
