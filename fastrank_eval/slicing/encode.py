"""Encode the values of columns as slice codes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import NoReturn, Protocol

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    bytes_column,
    column_with_nulls,
    decode_array,
    fixed_items,
    plain_type,
)
from fastrank_eval._lib.errors import ArgumentError, ColumnError
from fastrank_eval.io.keys import CategoricalEncoder, CodedColumn, KeyEncoder
from fastrank_eval.io.source import first_line
from fastrank_eval.slicing.spec import NULL, Edges, Period, SliceColumn, value_texts

__all__ = [
    "MAX_SLICES",
    "Categories",
    "ColumnEncoder",
    "DistinctEncoder",
    "KeyedEncoder",
    "PeriodEncoder",
    "bin_ranks",
    "comparable",
    "days_and_hours",
    "edges_of",
    "encoded",
    "is_ordered",
    "numbers_with_nulls",
    "period_texts",
    "period_values",
    "periods",
    "ranks_of",
    "value_ranks",
    "values_of",
]


def is_ordered(kind: pa.DataType) -> bool:
    """Tell whether edges can bin a type.

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


def comparable(column: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """Convert values to numbers of the same order, and mark missing ones.

    Parameters
    ----------
    column : pyarrow.Array, shape (rows,)
        Of a type for which `is_ordered` is true.

    Returns
    -------
    values : ndarray, shape (rows,)
        Integers as they are; floats as float64, -0.0 as 0.0; dates and timestamps as int32 or
        int64 in their unit; decimals as objects. Arbitrary where missing.
    missing : ndarray of bool, shape (rows,), or None
        Mask of nulls and NaN; None if there are none.
    """
    column = decode_array(column)
    kind = column.type
    missing = as_array(column.is_null()).view(np.bool_) if column.null_count else None
    if pa.types.is_decimal(kind):
        values = np.empty(len(column), object)
        values[:] = [Decimal(0) if value is None else value for value in column.to_pylist()]
        return values, missing
    if pa.types.is_floating(kind):
        with np.errstate(invalid="ignore"):  # the value under a null may be a signalling NaN
            doubles = as_array(column).astype(np.float64) + 0.0
        nan = np.isnan(doubles)
        if nan.any():
            missing = nan if missing is None else missing | nan
        return doubles, missing
    if pa.types.is_integer(kind):
        return as_array(column), missing
    return fixed_items(column, np.dtype(f"i{kind.bit_width // 8}")), missing


def values_of(numbers: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Convert numbers of `comparable` back to the column's type.

    Floats become doubles.

    Parameters
    ----------
    numbers : ndarray, shape (values,)
        Numbers, none missing.
    kind : pyarrow.DataType
        Type of the column.
    """
    kind = plain_type(kind)
    if pa.types.is_decimal(kind):
        return bytes_column([format(n, "f").encode() for n in numbers], pa.string()).cast(kind)
    if pa.types.is_floating(kind):
        kind = pa.float64()
    return arrow_column(np.ascontiguousarray(numbers), kind)


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
    >>> from fastrank_eval.slicing.parser import parse
    >>> edges_of(parse("age:17.5,25").columns[0], pa.int8()).to_pylist()
    [18, 25]
    """
    if not isinstance(
        slice_column.binning, Edges
    ):  # pragma: no cover - callers ask for edges alone
        raise TypeError(f"{slice_column} has no edges.")
    texts, plain = slice_column.binning.edges, plain_type(kind)
    temporal = pa.types.is_date(plain) or pa.types.is_timestamp(plain)
    for text in texts:
        if temporal != _is_moment(text):
            _refuse(
                slice_column, kind, text, "Give dates, 2026-11-19" if temporal else "Give numbers"
            )
    if temporal:
        return _parse_moments(slice_column, kind, texts)
    numbers = [Decimal(text) for text in texts]
    if pa.types.is_integer(plain):
        edge_type = pa.uint64() if pa.types.is_uint64(plain) else pa.int64()
        dtype = np.dtype(edge_type.to_pandas_dtype())
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


def _is_moment(text: str) -> bool:
    return len(text) >= len("2026-11-19") and text[4] == text[7] == "-"


def _refuse(slice_column: SliceColumn, kind: pa.DataType, text: str, remedy: str) -> NoReturn:
    raise ArgumentError(
        f"by '{slice_column}': column '{slice_column.column}' is {kind}, and {text} is no value of "
        f"that type. {remedy}."
    )


_TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_PER_DAY = 24 * 3600


def days_and_hours(column: pa.Array, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Count days and hours since the beginning of 1970.

    They are counted in the column's time zone.

    Parameters
    ----------
    column : pyarrow.Array, shape (rows,)
        Dates or timestamps.
    name : str
        Name of the column, for the message.

    Returns
    -------
    days, hours : ndarray of int64, shape (rows,)
        Rounded down; arbitrary where missing.
    missing : ndarray of bool or None
        Mask of nulls; None if there are none.

    Raises
    ------
    ColumnError
        The time zone is unknown on this machine.
    """
    kind = column.type
    missing = as_array(column.is_null()).view(np.bool_) if column.null_count else None
    if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC", "Z", "+00:00"):
        import pyarrow.compute as pc

        try:
            column = pc.local_timestamp(column)
        except pa.ArrowException as error:
            raise ColumnError(
                f"by column '{name}': its time zone {kind.tz!r} cannot be used "
                f"({first_line(error)}). Cast it to UTC, or install the time zone database."
            ) from None
    values = fixed_items(column, np.dtype(f"i{kind.bit_width // 8}")).astype(np.int64)
    if pa.types.is_date32(kind):
        return values, values * 24, missing
    second = 1000 if pa.types.is_date64(kind) else _TICKS_PER_SECOND[kind.unit]
    return values // (_SECONDS_PER_DAY * second), values // (3600 * second), missing


def periods(unit: str, days: np.ndarray, hours: np.ndarray) -> np.ndarray:
    """Number the period of each row, in order of time or of the clock.

    Parameters
    ----------
    unit : {"hour", "day", "week", "month", "hour_of_day", "day_of_week"}
    days, hours : ndarray of int64, shape (rows,)
        Days and hours since the beginning of 1970.

    Returns
    -------
    ndarray of int64, shape (rows,)
        ``hour``: the hour since 1970. ``day``, ``week``, ``month``: the first day of the period
        since 1970; weeks begin on Monday. ``hour_of_day``: 0 to 23. ``day_of_week``: 1 (Monday)
        to 7.
    """
    if unit == "hour":
        return hours
    if unit == "hour_of_day":
        clock: np.ndarray = hours % 24
        return clock
    # The first of January 1970 was a Thursday.
    since_monday = (days + 3) % 7
    if unit == "day_of_week":
        weekday: np.ndarray = since_monday + 1
        return weekday
    if unit == "week":
        monday: np.ndarray = days - since_monday
        return monday
    if unit == "month":
        return (
            days.astype("datetime64[D]")
            .astype("datetime64[M]")
            .astype("datetime64[D]")
            .view(np.int64)
        )
    return days


def period_values(unit: str, numbers: pa.Array) -> pa.Array:
    """Convert numbers of `periods` to values.

    Timestamps for hours, dates for days to months, otherwise integers.
    """
    if unit.endswith(("_of_day", "_of_week")) or not len(numbers):
        return numbers
    null = as_array(numbers.is_null()).view(np.bool_)
    if null.all():
        return pa.nulls(len(numbers), pa.timestamp("s") if unit == "hour" else pa.date32())
    values = np.where(null, 0, as_array(numbers))
    if unit == "hour":
        return column_with_nulls(values * 3600, null).cast(pa.timestamp("s"))
    return column_with_nulls(values.astype(np.int32), null).cast(pa.date32())


def period_texts(unit: str, values: pa.Array) -> list[str]:
    """Format periods for labels.

    ``2026-11-19T08``, ``2026-11-19``, ``2026-11`` or ``8``.
    """
    cut = {"hour": len(":00:00"), "month": len("-01")}.get(unit, 0)
    return [text if text == NULL else text[: len(text) - cut] for text in value_texts(values)]


#: Maximum number of slices of a slicing: each slice has its own sums for every measure and model.
MAX_SLICES = 1 << 16


@dataclass(frozen=True)
class Categories:
    """Texts, values and order of the codes of a slice column.

    Parameters
    ----------
    texts : tuple of str, shape (codes,)
        Text after the column's name in a label: ``"=de"``, ``"=[18,25)"``, ``"<18"``, ``"=null"``.
    values : pyarrow.Array, shape (codes,)
        Value, or struct of the low and the high end of the bin; an open end is null.
    ranks : ndarray of int64, shape (codes,)
        Rank of each code, from 0: by value, text by code point, nulls last.
    """

    texts: tuple[str, ...]
    values: pa.Array
    ranks: np.ndarray


class ColumnEncoder(CodedColumn, Protocol):
    """Encoder of a slice column that can describe its codes."""

    slice_column: SliceColumn

    def __len__(self) -> int:
        """Return the number of codes so far; codes count from 0."""

    def categories(self) -> Categories:
        """Describe the codes so far."""


class KeyedEncoder(CategoricalEncoder):
    """Codes of a key that is computed from each value of a column."""

    def __init__(self, slice_column: SliceColumn, kind: pa.DataType, max_slices: int) -> None:
        super().__init__(slice_column.column)
        self.slice_column, self.kind, self.max_slices = slice_column, plain_type(kind), max_slices

    def codes(self, column: pa.Array) -> np.ndarray:
        """Encode the slice of each row.

        Parameters
        ----------
        column : pyarrow.Array, shape (rows,)

        Returns
        -------
        ndarray of int32, shape (rows,), read-only
            From 0; equal exactly where the slices are.

        Raises
        ------
        ColumnError
            There are more slices than `max_slices`, or a value fits no bin.
        """
        if pa.types.is_dictionary(column.type):
            keys = self._keys_or_nulls(decode_array(column.dictionary))
            codes = super().codes(pa.DictionaryArray.from_arrays(column.indices, keys))
        else:
            codes = super().codes(self._keys_or_nulls(decode_array(column)))
        if len(self) > self.max_slices:
            raise ColumnError(
                f"by '{self.slice_column}': column '{self.name}' makes more than "
                f"{self.max_slices:,} slices. Slice by a column of fewer values, or bin it."
            )
        return codes

    def _keys_or_nulls(self, column: pa.Array) -> pa.Array:
        empty = pa.types.is_null(column.type)
        return column.cast(pa.bool_()) if empty else self._keys(column)

    def _keys(self, column: pa.Array) -> pa.Array:
        """Compute keys that are equal exactly where the slices are."""
        raise NotImplementedError  # pragma: no cover - abstract

    def refuse(self, needs: str, remedy: str) -> NoReturn:
        """Raise because of the type of the column."""
        raise ArgumentError(
            f"by '{self.slice_column}': column '{self.name}' is {self.kind}; {needs}. {remedy}."
        )


class DistinctEncoder(KeyedEncoder):
    """Codes of distinct values; null and NaN share one code.

    Measures that name fields can use it too, because it is a `CategoricalEncoder`.

    Parameters
    ----------
    slice_column : SliceColumn
        Without bins.
    kind : pyarrow.DataType
        Type of the column.
    max_slices : int
        Maximum number of values.
    """

    def __init__(
        self, slice_column: SliceColumn, kind: pa.DataType, max_slices: int = MAX_SLICES
    ) -> None:
        super().__init__(slice_column, kind, max_slices)
        kind = self.kind
        if pa.types.is_nested(kind) or pa.types.is_interval(kind) or pa.types.is_union(kind):
            self.refuse("its values cannot be compared", "Cast it to a number, a date or a string")

    def _keys(self, column: pa.Array) -> pa.Array:
        if pa.types.is_floating(column.type):
            doubles, missing = comparable(column)
            return numbers_with_nulls(doubles.view(np.int64), missing)
        return _wide_decimal(column)

    def categories(self) -> Categories:
        """Describe the values so far."""
        values = self.values()
        if pa.types.is_floating(self.kind) and pa.types.is_integer(values.type):
            null = as_array(values.is_null()).view(np.bool_)
            doubles = as_array(values).view(np.float64)
            kind = self.kind.to_pandas_dtype()
            values = column_with_nulls(np.where(null, 0, doubles).astype(kind), null)
        return Categories(
            tuple(f"={text}" for text in value_texts(values)), values, ranks_of(values)
        )


class PeriodEncoder(KeyedEncoder):
    """Codes of periods.

    Hours, days, weeks (from Monday), months, hours of day or days of week.

    Timestamps are converted to the local time of their time zone. The hour that repeats when
    clocks go back is one slice.

    Parameters
    ----------
    slice_column : SliceColumn
        With a `Period`.
    kind : pyarrow.DataType
        Type of the column.
    max_slices : int
        Maximum number of periods.
    """

    def __init__(
        self, slice_column: SliceColumn, kind: pa.DataType, max_slices: int = MAX_SLICES
    ) -> None:
        super().__init__(slice_column, kind, max_slices)
        if not isinstance(slice_column.binning, Period):  # pragma: no cover - callers choose by it
            raise TypeError(f"{slice_column} has no period.")
        self.unit = slice_column.binning.unit
        remedy = f"Slice by each value, by='{SliceColumn(slice_column.column)}', or cast it"
        if self.unit.startswith("hour") and pa.types.is_date(self.kind):
            self.refuse(
                "a date has no hours",
                f"Write by='{SliceColumn(slice_column.column, Period('day'))}'",
            )
        if not (pa.types.is_date(self.kind) or pa.types.is_timestamp(self.kind)):
            self.refuse(f"{self.unit} needs a date or a timestamp", remedy)

    def _keys(self, column: pa.Array) -> pa.Array:
        days, hours, missing = days_and_hours(column, self.name)
        return numbers_with_nulls(periods(self.unit, days, hours), missing)

    def categories(self) -> Categories:
        """Describe the periods so far.

        The value of a period is its first day or hour.
        """
        values = period_values(self.unit, self.values())
        texts = tuple(f"={text}" for text in period_texts(self.unit, values))
        return Categories(texts, values, ranks_of(values))


def numbers_with_nulls(values: np.ndarray, missing: np.ndarray | None) -> pa.Array:
    """Make a column from numbers; null where the mask is set."""
    values = np.ascontiguousarray(values)
    return arrow_column(values) if missing is None else column_with_nulls(values, missing)


def _wide_decimal(column: pa.Array) -> pa.Array:
    """Widen decimals to 128 bits: Arrow cannot dictionary-encode shorter ones."""
    kind = column.type
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    return column


def encoded(column: pa.Array) -> pa.DictionaryArray:
    """Dictionary-encode a column; null is a value of the dictionary."""
    return _wide_decimal(column).dictionary_encode(null_encoding="encode")


def ranks_of(values: pa.Array) -> np.ndarray:
    """Rank values in ascending order from 0, nulls last."""
    import pyarrow.compute as pc

    order = as_array(pc.array_sort_indices(values, null_placement="at_end"))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def value_ranks(column: pa.Array) -> np.ndarray:
    """Rank each value among the distinct values.

    Equal values share a rank; nulls come last.

    Parameters
    ----------
    column : pyarrow.Array, shape (rows,)
        Decoded, of any type that can be a key, or of floats.

    Returns
    -------
    ndarray of int64, shape (rows,)
    """
    if pa.types.is_interval(column.type):
        words = KeyEncoder("key", column.type).words(column)
        rows = np.ascontiguousarray(np.stack(words, axis=1))
        _, ranks = np.unique(rows, axis=0, return_inverse=True)
        return np.asarray(ranks.reshape(-1), np.int64)
    distinct = encoded(column)
    if not len(distinct.dictionary):
        return np.empty(0, np.int64)
    row_ranks: np.ndarray = ranks_of(distinct.dictionary)[as_array(distinct.indices)]
    return row_ranks


def bin_ranks(column: pa.Array) -> np.ndarray:
    """Rank values like `value_ranks`, or bins by their low end.

    A bin with an open low end comes first.
    """
    if not pa.types.is_struct(column.type):
        return value_ranks(column)
    low, null = column.field("low"), as_array(column.is_null()).view(np.bool_)
    ranks = value_ranks(low)
    ranks[as_array(low.is_null()).view(np.bool_)] = -1
    ranks[null] = len(ranks)
    return ranks
