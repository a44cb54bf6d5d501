"""The values of one column as small integers, and what each integer stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import as_array, decoded
from fastrank_eval.arrow_values import arrow_column, column_with_nulls
from fastrank_eval.errors import ArgumentError, ColumnError
from fastrank_eval.fields import CodedColumn, FieldCodes
from fastrank_eval.slices.edges import comparable
from fastrank_eval.slices.labels import value_texts
from fastrank_eval.slices.periods import days_and_hours, period_texts, period_values, periods
from fastrank_eval.slices.spec import Part, Period
from fastrank_eval.sources.literals import plain_type

__all__ = [
    "MOST_SLICES",
    "DistinctCodes",
    "Found",
    "KeyedCodes",
    "PartCodes",
    "PeriodCodes",
    "encoded",
    "numbers_with_nulls",
    "ranks_of",
]

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


class KeyedCodes(FieldCodes):
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

    It is a `FieldCodes` and may serve measures of fields as well.

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
