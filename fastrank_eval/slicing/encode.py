"""Encode the values of columns as slice codes, and write their labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import NoReturn, Protocol, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    bytes_column,
    column_with_nulls,
    decode_array,
    fixed_items,
    is_textual,
    numpy_type,
    plain_type,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, ColumnError
from fastrank_eval._lib.lexer import quoted
from fastrank_eval.io.columns import CodedColumn
from fastrank_eval.io.keys import (
    CategoricalEncoder,
    KeyEncoder,
    encode_integers,
    encoded,
    wide_decimal,
)
from fastrank_eval.io.source import first_line
from fastrank_eval.slicing.spec import Period, SliceColumn, exact_text


def comparable(column: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """Convert values to numbers of the same order, and mark missing ones.

    Parameters
    ----------
    column : pyarrow.Array, shape (rows,)
        Of numbers, decimals, dates or timestamps.

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


#: The text of a slice of nulls; a string value of these letters stands in quotes.
NULL = "null"
_NEEDS_QUOTES = re.compile(r'[,="<>()\[\]]|^\s|\s$|^$|[\x00-\x1f\x7f]')


def text_value(text: str) -> str:
    """Format a string for labels, in double quotes where it is ambiguous.

    Examples
    --------
    >>> text_value("de"), text_value("a,b"), text_value("null")
    ('de', '"a,b"', '"null"')
    """
    if text == NULL or _NEEDS_QUOTES.search(text):
        return quoted(text)
    return text


def value_texts(values: pa.Array) -> list[str]:
    """Format values for labels.

    Different values of a column have different texts.

    Parameters
    ----------
    values : pyarrow.Array, shape (values,)
        Of any key type, or floats of 32 or 64 bits; nulls are ``"null"``.

    Returns
    -------
    list of str
        Numbers in their shortest form, dates and times in ISO 8601, UUIDs with their hyphens, bytes
        as hexadecimal digits, strings in quotes only where they contain special characters.
    """
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [NULL if text is None else text_value(text) for text in values.to_pylist()]
    if kind == pa.uuid():
        return [NULL if key is None else str(key) for key in values.to_pylist()]
    if is_textual(kind) or pa.types.is_fixed_size_binary(kind):
        return [NULL if text is None else f"0x{text.hex()}" for text in values.to_pylist()]
    unit = ""
    if pa.types.is_duration(kind):
        values, unit = values.cast(pa.int64()), kind.unit
    try:
        texts: list[str | None] = values.cast(pa.string()).to_pylist()
    except pa.ArrowInvalid as error:
        if not (pa.types.is_timestamp(kind) and kind.tz):
            raise
        raise ColumnError(
            f"by: the time zone {kind.tz!r} of a column cannot be used ({first_line(error)}). Cast "
            "it to UTC, or install the time zone database."
        ) from None
    if pa.types.is_floating(kind):
        return [NULL if text is None else _float_text(text) for text in texts]
    if pa.types.is_decimal(kind):
        return [NULL if text is None else exact_text(Decimal(text)) for text in texts]
    if pa.types.is_timestamp(kind):
        return [NULL if text is None else _moment_text(text) for text in texts]
    return [NULL if text is None else text + unit for text in texts]


def bin_texts(edges: Sequence[str]) -> list[str]:
    """Format bins as the text after the column's name in a label.

    The bin of nulls comes last.

    Parameters
    ----------
    edges : sequence of str, shape (edges,)
        Ascending; each is the lower bound of a bin.

    Returns
    -------
    list of str, shape (edges + 2,)

    Examples
    --------
    >>> bin_texts(["18", "25"])
    ['<18', '=[18,25)', '>=25', '=null']
    >>> bin_texts([])
    ['=any', '=null']
    """
    if not edges:
        return ["=any", f"={NULL}"]
    inner = [f"=[{low},{high})" for low, high in pairwise(edges)]
    return [f"<{edges[0]}", *inner, f">={edges[-1]}", f"={NULL}"]


def _float_text(text: str) -> str:
    return text if text.lstrip("-") in ("inf", "nan") else exact_text(Decimal(text))


def _moment_text(text: str) -> str:
    """Format Arrow's text of a time with a T.

    Zeros at the end of the fraction are stripped.
    """
    date, _, clock = text.partition(" ")
    match = re.fullmatch(r"([0-9:]+)(?:\.([0-9]+))?(.*)", clock)
    if match is None:
        return text
    fraction = (match[2] or "").rstrip("0")
    return f"{date}T{match[1]}" + f".{fraction}" * bool(fraction) + match[3]


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

    def __init__(self, slice_column: SliceColumn, kind: pa.DataType) -> None:
        super().__init__(slice_column.column)
        self.slice_column, self.kind = slice_column, plain_type(kind)

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
            There are more slices than `MAX_SLICES`, or a value fits no bin.
        """
        if pa.types.is_dictionary(column.type):
            keys = self._keys_or_nulls(decode_array(column.dictionary))
            codes = super().codes(pa.DictionaryArray.from_arrays(column.indices, keys))
        else:
            codes = super().codes(self._keys_or_nulls(decode_array(column)))
        if len(self) > MAX_SLICES:
            activity = self.slice_column.activity
            makes = "groups make" if activity else f"column '{self.name}' makes"
            remedy = f"Give edges, by='@{self.name}:1,5,20,100'"
            remedy = remedy if activity else "Slice by a column of fewer values, or bin it"
            raise ColumnError(
                f"by '{self.slice_column}': {makes} more than {MAX_SLICES:,} slices. {remedy}."
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
    """

    def __init__(self, slice_column: SliceColumn, kind: pa.DataType) -> None:
        super().__init__(slice_column, kind)
        self._is_uuid, kind = kind == pa.uuid(), self.kind
        if pa.types.is_nested(kind) or pa.types.is_interval(kind) or pa.types.is_union(kind):
            self.refuse("its values cannot be compared", "Cast it to a number, a date or a string")

    def _keys(self, column: pa.Array) -> pa.Array:
        if pa.types.is_floating(column.type):
            doubles, missing = comparable(column)
            return numbers_with_nulls(doubles.view(np.int64), missing)
        return wide_decimal(column)

    def categories(self) -> Categories:
        """Describe the values so far."""
        values = self.values()
        if pa.types.is_floating(self.kind) and pa.types.is_integer(values.type):
            null = as_array(values.is_null()).view(np.bool_)
            doubles = as_array(values).view(np.float64)
            kind = numpy_type(self.kind)
            values = column_with_nulls(np.where(null, 0, doubles).astype(kind), null)
        shown = values.cast(pa.uuid()) if self._is_uuid else values
        return Categories(
            tuple(f"={text}" for text in value_texts(shown)), values, ranks_of(values)
        )


#: A key of an hour is the local hour times this, plus the mark of `_repeated`.
_MARKS = 256


def _repeated(times: pa.Array) -> pa.Array:
    """Mark repeated local hours: 128 + the offset from UTC in quarters."""
    import pyarrow.compute as pc

    hour = 3600 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[times.type.unit]
    # Clocks change at whole quarters of an hour: few distinct values to look up.
    quarters = as_array(times.cast(pa.int64()).fill_null(0)) // (hour // 4)
    codes, firsts = encode_integers(quarters)
    starts = quarters[firsts] * (hour // 4)
    local, before = (
        as_array(pc.local_timestamp(arrow_column(moments).cast(times.type)).cast(pa.int64()))
        for moments in (starts, starts - hour)
    )
    marks = 128 + (local - starts) // (hour // 4)
    return arrow_column(np.where(local // hour == before // hour, marks, 0)[codes])


def _offset(mark: int) -> str:
    """Format the offset from UTC of a repeated hour."""
    minutes = 15 * abs(mark - 128)
    return f"{'-' if mark < 128 else '+'}{minutes // 60:02}:{minutes % 60:02}" if mark else ""


class PeriodEncoder(KeyedEncoder):
    """Codes of periods.

    Hours, days, weeks (from Monday), months, hours of day or days of week.

    Timestamps are converted to the local time of their time zone. When clocks go back, the second
    of two equal hours has a slice of its own, whose text has its offset from UTC.

    Parameters
    ----------
    slice_column : SliceColumn
        With a `Period`.
    kind : pyarrow.DataType
        Type of the column.
    """

    def __init__(self, slice_column: SliceColumn, kind: pa.DataType) -> None:
        super().__init__(slice_column, kind)
        self.unit = cast(Period, slice_column.binning).unit
        remedy = f"Slice by each value, by='{SliceColumn(slice_column.column)}', or cast it"
        if self.unit.startswith("hour") and pa.types.is_date(self.kind):
            self.refuse(
                "a date has no hours",
                f"Write by='{SliceColumn(slice_column.column, Period('day'))}'",
            )
        if not (pa.types.is_date(self.kind) or pa.types.is_timestamp(self.kind)):
            self.refuse(f"{self.unit} needs a date or a timestamp", remedy)

    def _keys(self, column: pa.Array) -> pa.Array:
        import pyarrow.compute as pc

        self._check_years(column)
        kind, zoned = column.type, None
        if pa.types.is_timestamp(kind) and kind.tz in ("UTC", "Z", "+00:00"):
            # Needs no time zone database.
            column = column.cast(pa.timestamp(kind.unit))
        elif pa.types.is_timestamp(kind) and kind.tz is not None:
            zoned = column
            try:
                column = pc.local_timestamp(column)
            except pa.ArrowException as error:
                raise ColumnError(
                    f"by column '{self.name}': its time zone {kind.tz!r} cannot be used "
                    f"({first_line(error)}). Cast it to UTC, or install the time zone database."
                ) from None
        if self.unit == "hour_of_day":
            return pc.hour(column)
        if self.unit == "day_of_week":
            return pc.day_of_week(column, count_from_zero=False)
        kind = column.type
        if self.unit in ("hour", "day"):
            # 2 ns a row, floor_temporal 8 to 10.
            epoch = arrow_column(np.zeros(1, f"i{kind.bit_width // 8}"), kind)[0]
            if self.unit == "hour":
                hours = pc.multiply(pc.hours_between(epoch, column), _MARKS)
                return hours if zoned is None else pc.add(hours, _repeated(zoned))
            return pc.days_between(epoch, column).cast(pa.int32()).cast(pa.date32())
        return pc.floor_temporal(column, unit=self.unit).cast(pa.date32())

    def _check_years(self, column: pa.Array) -> None:
        """Refuse years whose periods Arrow computes wrongly, without an error."""
        import pyarrow.compute as pc

        kind = column.type
        is_time = pa.types.is_timestamp(kind)
        unit = kind.unit if is_time else "D" if kind.bit_width == 32 else "ms"
        years = np.array([1678, 2262] if unit == "ns" else [-32766, 32767])
        first, end = (years - 1970).astype("M8[Y]").astype(f"M8[{unit}]").astype(np.int64).tolist()
        # 0.3 ns a row, where days take 4.
        for extreme in pc.min_max(column).values():
            if extreme.is_valid and not first <= extreme.value < end:
                raise ColumnError(
                    f"by '{self.slice_column}': column '{self.name}' must be in the years "
                    f"{years[0]} to {years[1] - 1}, got {kind} {extreme.value}; leave such "
                    "rows out, by where=..."
                )

    def categories(self) -> Categories:
        """Describe the periods so far.

        The value of a period is its first day or hour (less than an hour later for the second of
        two equal hours), else its number: hours of day from 0, days of week from 1 (Monday). Texts
        are ``2026-11-19T08``, ``2026-11-19``, ``2026-11`` or ``8``, and ``2026-10-25T02+01:00`` for
        the second hour 02 when clocks go back.
        """
        import pyarrow.compute as pc

        keys = values = starts = self.values()
        offsets = [""] * len(keys)
        if self.unit == "hour" and len(keys):
            hours, marks = np.divmod(as_array(keys.fill_null(0)), _MARKS)
            offsets = [_offset(mark) for mark in marks.tolist()]
            # Merged states sort slices by their values, which must differ.
            starts, values = (
                pc.if_else(keys.is_null(), None, arrow_column(seconds)).cast(pa.timestamp("s"))
                for seconds in (hours * 3600, hours * 3600 + marks)
            )
        cut = {"hour": len(":00:00"), "month": len("-01")}.get(self.unit, 0)
        texts = [
            t if t == NULL else t[: len(t) - cut] + offset
            for t, offset in zip(value_texts(starts), offsets, strict=True)
        ]
        return Categories(tuple(f"={text}" for text in texts), values, ranks_of(keys))


def numbers_with_nulls(values: np.ndarray, missing: np.ndarray | None) -> pa.Array:
    """Make a column from numbers; null where the mask is set."""
    values = np.ascontiguousarray(values)
    return arrow_column(values) if missing is None else column_with_nulls(values, missing)


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
