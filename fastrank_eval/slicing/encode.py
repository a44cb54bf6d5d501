"""Encode the values of columns as numbers of slices."""

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
    decoded,
    fixed_items,
)
from fastrank_eval._lib.errors import ArgumentError, ColumnError
from fastrank_eval.io.keys import CategoricalEncoder, CodedColumn, KeyEncoder
from fastrank_eval.io.literals import plain_type
from fastrank_eval.io.source import first_line
from fastrank_eval.slicing.labels import NULL, value_texts
from fastrank_eval.slicing.spec import Edges, Part, Period

__all__ = [
    "MOST_SLICES",
    "DistinctCodes",
    "Found",
    "KeyedCodes",
    "PartCodes",
    "PeriodCodes",
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
    """Whether values of a type can be binned by edges: numbers, decimals, dates and timestamps."""
    kind = plain_type(kind)
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )


def comparable(column: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """A column's values as numbers of the same order, and which of them are missing.

    Parameters
    ----------
    column : pyarrow.Array, shape (rows,)
        Of a type that `is_ordered`.

    Returns
    -------
    values : ndarray, shape (rows,)
        Integers as they are; floats as float64, -0.0 as 0.0; dates and timestamps as int32 or
        int64 in their unit; decimals as objects. Anything where missing.
    missing : ndarray of bool, shape (rows,), or None
        Nulls and NaN; None where there is none.
    """
    column = decoded(column)
    kind = column.type
    missing = as_array(column.is_null()).view(np.bool_) if column.null_count else None
    if pa.types.is_decimal(kind):
        values = np.empty(len(column), object)
        values[:] = [Decimal(0) if value is None else value for value in column.to_pylist()]
        return values, missing
    if pa.types.is_floating(kind):
        with np.errstate(invalid="ignore"):  # what lies below a null may be a signalling NaN
            doubles = as_array(column).astype(np.float64) + 0.0
        nan = np.isnan(doubles)
        if nan.any():
            missing = nan if missing is None else missing | nan
        return doubles, missing
    if pa.types.is_integer(kind):
        return as_array(column), missing
    return fixed_items(column, np.dtype(f"i{kind.bit_width // 8}")), missing


def values_of(numbers: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Numbers of `comparable` as values of the column's type; floats as doubles.

    Parameters
    ----------
    numbers : ndarray, shape (values,)
        None of them missing.
    kind : pyarrow.DataType
        The type of the column.
    """
    kind = plain_type(kind)
    if pa.types.is_decimal(kind):
        return bytes_column([format(n, "f").encode() for n in numbers], pa.string()).cast(kind)
    if pa.types.is_floating(kind):
        kind = pa.float64()
    return arrow_column(np.ascontiguousarray(numbers), kind)


def edges_of(part: Part, kind: pa.DataType) -> pa.Array:
    """The edges that a specification gives, as values to compare a column with.

    Parameters
    ----------
    part : Part
        With edges.
    kind : pyarrow.DataType
        The type of the column.

    Returns
    -------
    pyarrow.Array
        Ascending. int64 for integers (uint64 for uint64): the least integer that is not below an
        edge stands for it, and edges that no such integer reaches are left out. Doubles for floats:
        the nearest one. The column's own type for dates and timestamps.

    Raises
    ------
    ArgumentError
        An edge is no value of the column's type.

    Examples
    --------
    >>> from fastrank_eval.slicing.parser import parse
    >>> edges_of(parse("age:17.5,25").parts[0], pa.int8()).to_pylist()
    [18, 25]
    """
    if not isinstance(part.binning, Edges):  # pragma: no cover - callers ask for edges alone
        raise TypeError(f"{part} has no edges.")
    texts, plain = part.binning.edges, plain_type(kind)
    temporal = pa.types.is_date(plain) or pa.types.is_timestamp(plain)
    for text in texts:
        if temporal != _is_moment(text):
            _refuse(part, kind, text, "Give dates, 2026-11-19" if temporal else "Give numbers")
    if temporal:
        return _moments(part, kind, texts)
    numbers = [Decimal(text) for text in texts]
    if pa.types.is_integer(plain):
        wide = pa.uint64() if pa.types.is_uint64(plain) else pa.int64()
        dtype = np.dtype(wide.to_pandas_dtype())
        least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        whole = [int(number.to_integral_value(ROUND_CEILING)) for number in numbers]
        # Nothing lies below the least integer, so as an edge it parts nothing.
        met = sorted({number for number in whole if least < number <= most})
        return arrow_column(np.array(met, dtype), wide)
    if pa.types.is_floating(plain):
        doubles = [float(number) for number in numbers]
        for text, double in zip(texts, doubles, strict=True):
            if not math.isfinite(double):
                _refuse(part, kind, text, "No double is that large")
        return arrow_column(np.array(sorted({double + 0.0 for double in doubles})))
    scale = max(0, *(-int(number.as_tuple().exponent) for number in numbers))
    wide = pa.decimal256(76, min(scale, 76))
    found = bytes_column([format(number, "f").encode() for number in numbers], pa.string())
    try:
        return found.cast(wide)
    except pa.ArrowException:
        _refuse(part, kind, max(texts, key=len), "No decimal has that many digits")


def _moments(part: Part, kind: pa.DataType, texts: tuple[str, ...]) -> pa.Array:
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
            _refuse(part, kind, text, remedy)
    return pa.concat_arrays(columns)


def _is_moment(text: str) -> bool:
    return len(text) >= len("2026-11-19") and text[4] == text[7] == "-"


def _refuse(part: Part, kind: pa.DataType, text: str, remedy: str) -> NoReturn:
    raise ArgumentError(
        f"by '{part}': column '{part.column}' is {kind}, and {text} is no value of that type. "
        f"{remedy}."
    )


_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_A_DAY = 24 * 3600


def days_and_hours(column: pa.Array, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Since the beginning of 1970, by the clock of the column's time zone.

    Parameters
    ----------
    column : pyarrow.Array, shape (rows,)
        Dates or timestamps.
    name : str
        Of the column, for the message.

    Returns
    -------
    days, hours : ndarray of int64, shape (rows,)
        Whole ones, rounded down; anything where missing.
    missing : ndarray of bool or None
        Nulls; None where there is none.

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
    second = 1000 if pa.types.is_date64(kind) else _A_SECOND[kind.unit]
    return values // (_A_DAY * second), values // (3600 * second), missing


def periods(unit: str, days: np.ndarray, hours: np.ndarray) -> np.ndarray:
    """The number of each row's period, in order of time or of the clock.

    Parameters
    ----------
    unit : {"hour", "day", "week", "month", "hour_of_day", "day_of_week"}
    days, hours : ndarray of int64, shape (rows,)
        Since the beginning of 1970.

    Returns
    -------
    ndarray of int64, shape (rows,)
        Hours; the first day of a day, week (a Monday) or month; 0 to 23; 1 (Monday) to 7.
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
    """Numbers of `periods` as timestamps (hours), dates (days, weeks, months) or integers."""
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
    """Each period as a label shows it: ``2026-11-19T08``, ``2026-11-19``, ``2026-11``, ``8``."""
    cut = {"hour": len(":00:00"), "month": len("-01")}.get(unit, 0)
    return [text if text == NULL else text[: len(text) - cut] for text in value_texts(values)]


#: Slices that one slicing may have: each has sums of its own for every measure and model.
MOST_SLICES = 1 << 16


@dataclass(frozen=True)
class Found:
    """What the codes of one part stand for.

    Parameters
    ----------
    texts : tuple of str, shape (codes,)
        What follows the part's name in a label: ``"=de"``, ``"=[18,25)"``, ``"<18"``, ``"=null"``.
    values : pyarrow.Array, shape (codes,)
        The values, or a struct of the low and the high end of each bin, null where it has none.
    ranks : ndarray of int64, shape (codes,)
        The place of each in their order: by value, text by code point, nulls last.
    """

    texts: tuple[str, ...]
    values: pa.Array
    ranks: np.ndarray


class PartCodes(CodedColumn, Protocol):
    """A coded column that knows what its codes stand for."""

    part: Part

    def __len__(self) -> int:
        """How many codes there are: they are 0 to one less."""

    def found(self) -> Found:
        """What the codes given so far stand for."""


class KeyedCodes(CategoricalEncoder):
    """Codes of what each value of a column is turned into."""

    def __init__(self, part: Part, kind: pa.DataType, most: int) -> None:
        super().__init__(part.column)
        self.part, self.kind, self.most = part, plain_type(kind), most

    def codes(self, column: pa.Array) -> np.ndarray:
        """The code of each row.

        Parameters
        ----------
        column : pyarrow.Array, shape (rows,)

        Returns
        -------
        ndarray of int32, shape (rows,), read-only
            From 0; equal where the slices are.

        Raises
        ------
        ColumnError
            There are more values than slices may be, or one that no bin can hold.
        """
        if pa.types.is_dictionary(column.type):
            keys = self._keys_or_nulls(decoded(column.dictionary))
            codes = super().codes(pa.DictionaryArray.from_arrays(column.indices, keys))
        else:
            codes = super().codes(self._keys_or_nulls(decoded(column)))
        if len(self) > self.most:
            raise ColumnError(
                f"by '{self.part}': column '{self.name}' makes more than {self.most:,} slices. "
                "Slice by a column of fewer values, or bin it."
            )
        return codes

    def _keys_or_nulls(self, column: pa.Array) -> pa.Array:
        empty = pa.types.is_null(column.type)
        return column.cast(pa.bool_()) if empty else self._keys(column)

    def _keys(self, column: pa.Array) -> pa.Array:
        """What tells rows apart."""
        raise NotImplementedError  # pragma: no cover - abstract

    def refuse(self, needs: str, remedy: str) -> NoReturn:
        """Refuse the type of the column."""
        raise ArgumentError(
            f"by '{self.part}': column '{self.name}' is {self.kind}; {needs}. {remedy}."
        )


class DistinctCodes(KeyedCodes):
    """Each value is a slice; null and NaN are one together.

    It is a `CategoricalEncoder` and may serve measures of fields as well.

    Parameters
    ----------
    part : Part
        Without bins.
    kind : pyarrow.DataType
        The type of the column.
    most : int
        Values that may be told apart.
    """

    def __init__(self, part: Part, kind: pa.DataType, most: int = MOST_SLICES) -> None:
        super().__init__(part, kind, most)
        kind = self.kind
        if pa.types.is_nested(kind) or pa.types.is_interval(kind) or pa.types.is_union(kind):
            self.refuse(
                "its values cannot be told apart", "Cast it to a number, a date or a string"
            )

    def _keys(self, column: pa.Array) -> pa.Array:
        if pa.types.is_floating(column.type):
            doubles, missing = comparable(column)
            return numbers_with_nulls(doubles.view(np.int64), missing)
        return _wide_decimal(column)

    def found(self) -> Found:
        """What the codes given so far stand for."""
        values = self.values()
        if pa.types.is_floating(self.kind) and pa.types.is_integer(values.type):
            null = as_array(values.is_null()).view(np.bool_)
            doubles = as_array(values).view(np.float64)
            kind = self.kind.to_pandas_dtype()
            values = column_with_nulls(np.where(null, 0, doubles).astype(kind), null)
        return Found(tuple(f"={text}" for text in value_texts(values)), values, ranks_of(values))


class PeriodCodes(KeyedCodes):
    """Dates and times by hour, day, week (from Monday), month, hour of day or day of week.

    Timestamps with a time zone are read by its clock: the hour that is set back is one slice.

    Parameters
    ----------
    part : Part
        With a `Period`.
    kind : pyarrow.DataType
        The type of the column.
    most : int
        Values that may be told apart.
    """

    def __init__(self, part: Part, kind: pa.DataType, most: int = MOST_SLICES) -> None:
        super().__init__(part, kind, most)
        if not isinstance(part.binning, Period):  # pragma: no cover - callers choose by it
            raise TypeError(f"{part} has no period.")
        self.unit = part.binning.unit
        remedy = f"Slice by each value, by='{Part(part.column)}', or cast it"
        if self.unit.startswith("hour") and pa.types.is_date(self.kind):
            self.refuse("a date has no hours", f"Write by='{Part(part.column, Period('day'))}'")
        if not (pa.types.is_date(self.kind) or pa.types.is_timestamp(self.kind)):
            self.refuse(f"{self.unit} needs a date or a timestamp", remedy)

    def _keys(self, column: pa.Array) -> pa.Array:
        days, hours, missing = days_and_hours(column, self.name)
        return numbers_with_nulls(periods(self.unit, days, hours), missing)

    def found(self) -> Found:
        """What the codes given so far stand for; a period is its first day or hour."""
        values = period_values(self.unit, self.values())
        texts = tuple(f"={text}" for text in period_texts(self.unit, values))
        return Found(texts, values, ranks_of(values))


def numbers_with_nulls(values: np.ndarray, missing: np.ndarray | None) -> pa.Array:
    """Numbers as a column, null where a mask, if there is one, says so."""
    values = np.ascontiguousarray(values)
    return arrow_column(values) if missing is None else column_with_nulls(values, missing)


def _wide_decimal(column: pa.Array) -> pa.Array:
    """Decimals of at least 128 bits: Arrow has no dictionary of shorter ones."""
    kind = column.type
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    return column


def encoded(column: pa.Array) -> pa.DictionaryArray:
    """A column as indices to its distinct values, null among them."""
    return _wide_decimal(column).dictionary_encode(null_encoding="encode")


def ranks_of(values: pa.Array) -> np.ndarray:
    """The place of each value in their order, nulls last."""
    import pyarrow.compute as pc

    order = as_array(pc.array_sort_indices(values, null_placement="at_end"))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def value_ranks(column: pa.Array) -> np.ndarray:
    """Where each value stands among the distinct ones: equal values stand at one place, nulls last.

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
    found = encoded(column)
    if not len(found.dictionary):
        return np.empty(0, np.int64)
    places: np.ndarray = ranks_of(found.dictionary)[as_array(found.indices)]
    return places


def bin_ranks(column: pa.Array) -> np.ndarray:
    """The same for values, or for bins: structs of a low and a high end, an open low end first."""
    if not pa.types.is_struct(column.type):
        return value_ranks(column)
    low, null = column.field("low"), as_array(column.is_null()).view(np.bool_)
    ranks = value_ranks(low)
    ranks[as_array(low.is_null()).view(np.bool_)] = -1
    ranks[null] = len(ranks)
    return ranks
