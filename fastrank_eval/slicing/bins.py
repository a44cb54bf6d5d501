"""Cut numbers, times and the activity of groups into bins."""

from __future__ import annotations

import math
import threading
from decimal import Context, Decimal
from fractions import Fraction
from typing import NoReturn

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, as_array, column_with_nulls, decoded, frozen
from fastrank_eval._lib.errors import ArgumentError, ColumnError
from fastrank_eval.slicing.encode import (
    MOST_SLICES,
    DistinctCodes,
    Found,
    KeyedCodes,
    PartCodes,
    PeriodCodes,
    comparable,
    edges_of,
    encoded,
    is_ordered,
    numbers_with_nulls,
    ranks_of,
)
from fastrank_eval.slicing.labels import bin_texts, count_texts, value_texts
from fastrank_eval.slicing.spec import Edges, Part, Period, Width, number_text

__all__ = ["ActivityCodes", "BinCodes", "WidthCodes", "bins", "check_ordered", "part_codes"]


_EXACT = 1 << 53
_EXACTLY = Context(prec=1000)


class BinCodes:
    """Bins between edges, each edge the lower bound of its bin; nulls and NaN are the last bin.

    Code i is the bin above i edges, the code after the last that of nulls.

    Parameters
    ----------
    part : Part
    edges : pyarrow.Array, shape (edges,)
        Of `edges_of` or `quantile_edges`: ascending, to compare the column with.
    """

    def __init__(self, part: Part, edges: pa.Array) -> None:
        self.part, self.name, self.edges = part, part.column, edges
        self._numbers = comparable(edges)[0]

    def __len__(self) -> int:
        return len(self.edges) + 2

    def codes(self, column: pa.Array) -> np.ndarray:
        """The bin of each row.

        Parameters
        ----------
        column : pyarrow.Array, shape (rows,)

        Returns
        -------
        ndarray of int32, shape (rows,), read-only
        """
        column = decoded(column)
        if pa.types.is_null(column.type):
            return frozen(np.full(len(column), len(self) - 1, np.int32))
        if not pa.types.is_decimal(column.type):
            return self._codes(column)
        found = encoded(column)
        return frozen(self._codes(found.dictionary)[as_array(found.indices)])

    def _codes(self, column: pa.Array) -> np.ndarray:
        values, missing = comparable(column)
        codes = np.searchsorted(self._numbers, values, side="right").astype(np.int32)
        if missing is not None:
            codes[missing] = len(self) - 1
        return frozen(codes)

    def found(self) -> Found:
        """What the codes stand for, bins that no row fell into too."""
        texts = bin_texts(value_texts(self.edges))
        return Found(tuple(texts), bins(self.edges, null=True), np.arange(len(self)))


class WidthCodes(KeyedCodes):
    """Bins from each multiple of a width to the next; infinities are bins of their own.

    A value lies in the bin of the highest multiple that is not above it. Multiples are exact for
    integers and decimals; floats are compared with the nearest double of each, so that 0.3 lies
    in [0.3,0.4), whatever the rounding of 0.1 makes of three times 0.1.

    Parameters
    ----------
    part : Part
        With a `Width`.
    kind : pyarrow.DataType
        The type of the column.
    most : int
        Bins that may be told apart.
    """

    def __init__(self, part: Part, kind: pa.DataType, most: int = MOST_SLICES) -> None:
        super().__init__(part, kind, most)
        if not isinstance(part.binning, Width):  # pragma: no cover - callers choose by it
            raise TypeError(f"{part} has no width.")
        self.width = Decimal(part.binning.width)
        kind = self.kind
        temporal = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        if temporal or not is_ordered(kind):
            remedy = f"Write by='{Part(part.column, Period('day'))}'" if temporal else "Cast it"
            self.refuse("bins of one width need numbers", remedy)
        if pa.types.is_floating(kind) and not 0 < float(self.width) < math.inf:
            self.refuse("no double is that wide", "Give edges")

    def _keys(self, column: pa.Array) -> pa.Array:
        if pa.types.is_floating(column.type):
            doubles, missing = comparable(column)
            return numbers_with_nulls(self._below(doubles, missing), missing)
        whole = self.width == int(self.width)
        if pa.types.is_integer(column.type) and whole and self.width < _EXACT:
            values, missing = comparable(column)
            wide = values.dtype if values.dtype == np.uint64 else np.dtype(np.int64)
            return numbers_with_nulls(values.astype(wide) // wide.type(int(self.width)), missing)
        found = encoded(column)
        width = Fraction(self.width)
        numbers = [
            0 if value is None else math.floor(Fraction(value) / width)
            for value in found.dictionary.to_pylist()
        ]
        if any(abs(number) > _EXACT for number in numbers):
            self._too_far()
        null = as_array(found.dictionary.is_null()).view(np.bool_)
        distinct = numbers_with_nulls(np.array(numbers, np.int64), null)
        return distinct.take(found.indices)

    def _below(self, doubles: np.ndarray, missing: np.ndarray | None) -> np.ndarray:
        """The number of the highest multiple that is not above each double."""
        finite = np.isfinite(doubles)
        with np.errstate(over="ignore"):
            near = np.floor(np.where(finite, doubles, 0.0) / float(self.width))
        if not (np.abs(near) <= _EXACT).all():
            self._too_far()
        numbers = near.astype(np.int64)
        # The quotient is rounded, so it may lie on the wrong side of a multiple.
        numbers -= finite & (doubles < self._multiples(numbers))
        numbers += finite & (doubles >= self._multiples(numbers + 1))
        numbers[doubles == np.inf] = 2 * _EXACT
        numbers[doubles == -np.inf] = -2 * _EXACT
        return numbers

    def _multiples(self, numbers: np.ndarray) -> np.ndarray:
        found = arrow_column(numbers).dictionary_encode()
        distinct = [float(self._multiple(n)) for n in as_array(found.dictionary).tolist()]
        doubles: np.ndarray = np.array(distinct, np.float64)[as_array(found.indices)]
        return doubles

    def _multiple(self, number: int) -> Decimal:
        return _EXACTLY.multiply(Decimal(number), self.width)

    def found(self) -> Found:
        """What the codes given so far stand for; ends of bins are int64, or doubles."""
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
        return Found(tuple(texts), _structs(both, null), ranks_of(values))

    def _ends(self, number: int) -> tuple[Decimal, Decimal]:
        if abs(number) == 2 * _EXACT and pa.types.is_floating(self.kind):
            infinite = Decimal("inf") if number > 0 else Decimal("-inf")
            return infinite, infinite
        return self._multiple(number), self._multiple(number + 1)

    def _text(self, number: int) -> str:
        low, high = self._ends(number)
        if not low.is_finite():
            return "=inf" if low > 0 else "=-inf"
        return f"=[{number_text(low)},{number_text(high)})"

    def _too_far(self) -> NoReturn:
        raise ColumnError(
            f"by '{self.part}': column '{self.name}' has a value more than 2^53 widths from 0. "
            f"Give edges, by='{Part(self.name, Edges(('0', '10', '100')))}', or a larger width."
        )


def bins(edges: pa.Array, *, null: bool) -> pa.Array:
    """The bins between edges as structs of a low and a high end, null where a bin is open.

    Parameters
    ----------
    edges : pyarrow.Array, shape (edges,)
    null : bool
        Whether a bin of nulls follows, whose struct is null.

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
    """Rows of a low and a high end as structs."""
    low, high = (column_with_nulls(np.ascontiguousarray(end), null) for end in ends.T)
    return _struct(low, high, null)


def _struct(low: pa.Array, high: pa.Array, null: np.ndarray) -> pa.Array:
    valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    kind = pa.struct([("low", low.type), ("high", high.type)])
    return pa.Array.from_buffers(kind, len(low), [valid], children=[low, high])


def part_codes(part: Part, kind: pa.DataType, most: int = MOST_SLICES) -> PartCodes:
    """The coder of one part of a slicing, but for quantiles, whose edges have to be found first.

    Parameters
    ----------
    part : Part
        Of a column.
    kind : pyarrow.DataType
        The type of the column.
    most : int, default MOST_SLICES
        Values that may be told apart.

    Raises
    ------
    ArgumentError
        The type has no values that can be told apart, or none that can be binned so.
    """
    if part.binning is None:
        return DistinctCodes(part, kind, most)
    if isinstance(part.binning, Edges):
        check_ordered(part, kind)
        return BinCodes(part, edges_of(part, kind))
    if isinstance(part.binning, Width):
        return WidthCodes(part, kind, most)
    return PeriodCodes(part, kind, most)


def check_ordered(part: Part, kind: pa.DataType) -> None:
    """Refuse a type whose values cannot be binned by edges."""
    if not is_ordered(kind):
        raise ArgumentError(
            f"by '{part}': column '{part.column}' is {kind}; edges and quantiles need numbers, "
            f"dates or timestamps. Slice by each value, by='{Part(part.column)}', or cast it."
        )


class ActivityCodes:
    """Buckets of counts of groups; threads may share it.

    With edges code i is the bucket above i edges, and the first is that below all of them. With a
    width, or alone, counts are numbered as they come.

    Parameters
    ----------
    part : Part
        An activity.
    most : int
        Buckets that may be told apart.
    """

    def __init__(self, part: Part, most: int = MOST_SLICES) -> None:
        self.part, self.name, self.most = part, part.column, most
        self._lock = threading.Lock()
        self._met: dict[int, int] = {}
        self._edges: np.ndarray | None = None
        self._width = 1
        if isinstance(part.binning, Edges):
            most_edge = np.iinfo(np.int64).max
            counts = [int(edge) for edge in part.binning.edges]
            self._edges = np.array([min(count, most_edge) for count in counts], np.int64)
            self._texts = count_texts(counts)
        elif isinstance(part.binning, Width):
            self._width = min(int(part.binning.width), 1 << 62)

    def __len__(self) -> int:
        return len(self._met) if self._edges is None else len(self._edges) + 1

    def codes(self, counts: np.ndarray) -> np.ndarray:
        """The bucket of each group.

        Parameters
        ----------
        counts : ndarray of int64, shape (groups,)
            Rows, or rows of grade 1 or more, of each group as a whole.

        Returns
        -------
        ndarray of int32, shape (groups,), read-only

        Raises
        ------
        ColumnError
            There are more buckets than slices may be.
        """
        if self._edges is not None:
            return frozen(np.searchsorted(self._edges, counts, side="right").astype(np.int32))
        numbers, places = np.unique(counts // self._width, return_inverse=True)
        with self._lock:
            met = [self._met.setdefault(number, len(self._met)) for number in numbers.tolist()]
            if len(self._met) > self.most:
                raise ColumnError(
                    f"by '{self.part}': groups make more than {self.most:,} slices. Give edges, "
                    f"by='@{self.name}:1,5,20,100'."
                )
        return frozen(np.array(met, np.int32)[places])

    def found(self) -> Found:
        """What the codes given so far stand for; with edges, buckets without a group too."""
        if self._edges is not None:
            edges = arrow_column(self._edges)
            return Found(tuple(self._texts), bins(edges, null=False), np.arange(len(self)))
        numbers = np.array(list(self._met), np.int64)
        ranks = np.empty(len(numbers), np.int64)
        ranks[np.argsort(numbers)] = np.arange(len(numbers))
        low = numbers * self._width
        if self.part.binning is None:
            return Found(tuple(f"={count}" for count in low.tolist()), arrow_column(low), ranks)
        high = low + self._width
        texts = [
            f"={a}" if b == a + 1 else f"={a}-{b - 1}"
            for a, b in zip(low.tolist(), high.tolist(), strict=True)
        ]
        ends = [arrow_column(low), arrow_column(high)]
        return Found(tuple(texts), pa.StructArray.from_arrays(ends, ["low", "high"]), ranks)
