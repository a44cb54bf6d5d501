"""Columns as numbers that compare exactly, and the edges of bins among them."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal
from typing import NoReturn

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import as_array, decoded, fixed_items
from fastrank_eval.arrow_values import arrow_column, bytes_column
from fastrank_eval.errors import ArgumentError
from fastrank_eval.slices.spec import Edges, Part
from fastrank_eval.sources.literals import plain_type

__all__ = ["comparable", "edges_of", "is_ordered", "values_of"]


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
    >>> from fastrank_eval.slices.spec_text import parse
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
