"""Bin numbers, times and counts by edges, widths or quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import NoReturn, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    bytes_column,
    column_with_nulls,
    decode_array,
    frozen,
    numpy_type,
    plain_type,
)
from fastrank_eval._lib.errors import ArgumentError, ColumnError
from fastrank_eval.io.keys import encode_integers, encoded
from fastrank_eval.io.reader import RowReader
from fastrank_eval.io.source import Source
from fastrank_eval.slicing.encode import (
    Categories,
    ColumnEncoder,
    DistinctEncoder,
    KeyedEncoder,
    bin_texts,
    comparable,
    numbers_with_nulls,
    ranks_of,
    value_texts,
    values_of,
)
from fastrank_eval.slicing.spec import Edges, Period, SliceColumn, Width, exact_text


def _is_ordered(kind: pa.DataType) -> bool:
    """Return whether edges can bin a type.

    They can bin numbers, decimals, dates and timestamps.
    """
    kind = plain_type(kind)
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )


def check_ordered(slice_column: SliceColumn, kind: pa.DataType) -> None:
    """Raise if edges cannot bin values of a type."""
    if not _is_ordered(kind):
        raise ArgumentError(
            f"by '{slice_column}': column '{slice_column.column}' is {kind}; edges and quantiles "
            "need numbers, dates or timestamps. Slice by each value, "
            f"by='{SliceColumn(slice_column.column)}', or cast it."
        )


def edges_of(slice_column: SliceColumn, kind: pa.DataType) -> pa.Array:
    """Convert the edges of a slice column to comparable values.

    The values compare with those of the column.

    Parameters
    ----------
    slice_column : SliceColumn
        With edges.
    kind : pyarrow.DataType
        Type of the column.

    Returns
    -------
    pyarrow.Array
        Ascending edges. For integers int64 (uint64 for uint64): each edge rounds up to an integer,
        and edges outside the range of the type are left out. For floats the nearest double. For
        dates and timestamps the column's own type.

    Raises
    ------
    ArgumentError
        An edge is not a value of the column's type.

    Examples
    --------
    >>> from fastrank_eval.slicing.spec import parse
    >>> edges_of(parse("age:17.5,25").columns[0], pa.int8()).to_pylist()
    [18, 25]
    """
    texts, plain = cast(Edges, slice_column.binning).edges, plain_type(kind)
    temporal = pa.types.is_date(plain) or pa.types.is_timestamp(plain)
    for text in texts:
        if temporal != (text[4:8:3] == "--"):  # a moment begins with a date
            _refuse(
                slice_column, kind, text, "Give dates, 2026-11-19" if temporal else "Give numbers"
            )
    if temporal:
        return _parse_moments(slice_column, kind, texts)
    numbers = [Decimal(text) for text in texts]
    if pa.types.is_integer(plain):
        edge_type = pa.uint64() if pa.types.is_uint64(plain) else pa.int64()
        dtype = numpy_type(edge_type)
        lowest, highest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        integers = [int(number.to_integral_value(ROUND_CEILING)) for number in numbers]
        # No value lies below the lowest integer, so it is no useful edge.
        inside = sorted({number for number in integers if lowest < number <= highest})
        return arrow_column(np.array(inside, dtype), edge_type)
    if pa.types.is_floating(plain):
        doubles = [float(number) for number in numbers]
        for text, double in zip(texts, doubles, strict=True):
            if not math.isfinite(double):
                _refuse(slice_column, kind, text, "No double is that large")
        return arrow_column(np.array(sorted({double + 0.0 for double in doubles})))
    scale = max(0, *(-int(number.as_tuple().exponent) for number in numbers))
    edge_type = pa.decimal256(76, min(scale, 76))
    column = bytes_column([format(number, "f").encode() for number in numbers], pa.string())
    try:
        return column.cast(edge_type)
    except pa.ArrowException:
        _refuse(slice_column, kind, max(texts, key=len), "No decimal has that many digits")


def _parse_moments(
    slice_column: SliceColumn, kind: pa.DataType, texts: tuple[str, ...]
) -> pa.Array:
    plain = plain_type(kind)
    columns = []
    for text in texts:
        try:
            columns.append(bytes_column([text.encode()], pa.string()).cast(plain))
        except pa.ArrowException:
            if pa.types.is_date(plain):
                remedy = "Write it like 2026-11-19"
            else:
                zone = "Z" if plain.tz else ""
                remedy = f"Write it like 2026-11-19T08:30{zone}, in whole {plain.unit}"
            _refuse(slice_column, kind, text, remedy)
    return pa.concat_arrays(columns)


def _refuse(slice_column: SliceColumn, kind: pa.DataType, text: str, remedy: str) -> NoReturn:
    raise ArgumentError(
        f"by '{slice_column}': column '{slice_column.column}' is {kind}, and {text} is not a "
        f"value of that type. {remedy}."
    )


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
        Edges from `edges_of` or `Distribution.edges`, ascending.
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
    """

    def __init__(self, slice_column: SliceColumn, kind: pa.DataType) -> None:
        super().__init__(slice_column, kind)
        self.width = Decimal(cast(Width, slice_column.binning).width)
        kind = self.kind
        temporal = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        if temporal or not _is_ordered(kind):
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
        codes, firsts = encode_integers(numbers)
        distinct = [float(self._multiple(n)) for n in numbers[firsts].tolist()]
        doubles: np.ndarray = np.array(distinct, np.float64)[codes]
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
        return f"=[{exact_text(low)},{exact_text(high)})"

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


class ActivityEncoder:
    """Codes of buckets of group counts; threads may share it.

    Counts are encoded as values of a column are, and have other labels: ``=1``, ``=2-4``.

    Parameters
    ----------
    slice_column : SliceColumn
        An activity.
    """

    def __init__(self, slice_column: SliceColumn) -> None:
        self.slice_column, self.name, kind = slice_column, slice_column.column, pa.int64()
        self._encoder: ColumnEncoder = (
            BinEncoder(slice_column, edges_of(slice_column, kind))
            if isinstance(slice_column.binning, Edges)
            else (WidthEncoder if slice_column.binning else DistinctEncoder)(slice_column, kind)
        )

    def __len__(self) -> int:
        return len(self._encoder) - isinstance(self._encoder, BinEncoder)  # no bin of nulls

    def bucket_codes(self, counts: np.ndarray) -> np.ndarray:
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
            There are more buckets than `MAX_SLICES`.
        """
        return self._encoder.codes(arrow_column(counts))

    def categories(self) -> Categories:
        """Describe the buckets so far; with edges, all buckets, empty ones too."""
        described = self._encoder.categories()
        if self.slice_column.binning is None:
            return described
        buckets = len(described.texts) - isinstance(self._encoder, BinEncoder)
        values = described.values.slice(0, buckets)
        texts = tuple(map(_bucket_text, values.to_pylist()))
        return Categories(texts, values, described.ranks[:buckets])


def _bucket_text(bucket: Mapping[str, int | None]) -> str:
    """Format a bucket of counts as the text after ``@rows`` in a label."""
    low, high = bucket["low"], bucket["high"]
    if low is None:
        return "=any" if high is None else f"<{high}"
    if high is None:
        return f">={low}"
    return f"={low}" if high == low + 1 else f"={low}-{high - 1}"


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
