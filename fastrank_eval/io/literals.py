"""Convert literals of a condition exactly to the types of their columns."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_value
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.io.source import first_line

if TYPE_CHECKING:
    from fastrank_eval.io.filter_parser import Literal

__all__ = ["fit", "is_textual", "order_key", "plain_type"]

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_EXPONENTS = 10_000  # larger exponents are slow, and no column holds such numbers
_DIGITS = 40  # more than the integer digits of any number in a column


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of decoded values for comparisons in Arrow.

    A column of nulls counts as booleans: each comparison with it is null.
    """
    kind = _values_type(kind)
    for is_kind, plain in (
        (pa.types.is_string_view, pa.large_string()),
        (pa.types.is_binary_view, pa.large_binary()),
        (pa.types.is_float16, pa.float32()),
        (pa.types.is_null, pa.bool_()),
    ):
        if is_kind(kind):
            return plain
    return kind


def fit(literal: Literal, kind: pa.DataType, column: str, ordered: bool = False) -> pa.Scalar:
    """Convert a literal to the plain type of a column.

    Parameters
    ----------
    literal : Literal
    kind : pyarrow.DataType
        The type of the column in the source.
    column : str
        Its name, for the message.
    ordered : bool
        Whether the comparison is by order, for the message.

    Raises
    ------
    ArgumentError
        If the literal has another kind, is out of range, or lies between two values of the type.
    """
    plain = plain_type(kind)
    if pa.types.is_null(kind):
        return arrow_value(None, plain)
    reason, remedy = "", ""
    try:
        if pa.types.is_boolean(plain):
            return arrow_value(_boolean(literal), plain)
        if literal.kind != "text" and is_textual(plain):
            remedy = f"Write '{literal.value}' in single quotes"
            remedy += ", which compares text: '10' is less than '9'" * ordered
        elif literal.kind == "bool":
            remedy = "Compare with a value of its type"
        elif pa.types.is_integer(plain):
            return arrow_value(_integer(literal.value), plain)
        elif pa.types.is_floating(plain):
            return arrow_value(_float(literal.value, _values_type(kind)), plain)
        elif pa.types.is_decimal(plain):
            return pa.scalar(_decimal(literal.value)).cast(plain)
        elif literal.kind == "text":
            return arrow_value(literal.value, pa.string()).cast(plain)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        reason = f" ({first_line(error).partition(': ')[0]})"
        if pa.types.is_timestamp(plain):
            zone = "Z" if plain.tz else ""
            remedy = f"Write it like '2026-11-19T08:30:00{zone}'"
    raise ArgumentError(
        f"where: column {column!r} is {kind}, and {_shorten(str(literal))} is no value of that type"
        f"{reason}.{f' {remedy}.' * bool(remedy)}"
    )


def order_key(value: pa.Scalar) -> Any:
    """Return a Python value with the same order as the column, or None."""
    kind = value.type
    if not value.is_valid:
        return None
    if is_textual(kind):
        return bytes(value.as_buffer()) if value.as_buffer() is not None else b""
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return value.value
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return value.as_py()
    return None


def is_textual(kind: pa.DataType) -> bool:
    """Return whether a type is strings or bytes.

    Arrow, Parquet and Python order both by bytes.
    """
    return any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )


def _values_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _values_type(kind.storage_type)
    if pa.types.is_run_end_encoded(kind) or pa.types.is_dictionary(kind):
        return _values_type(kind.value_type)
    return kind


def _boolean(literal: Literal) -> bool:
    words = {"true": True, "false": False}
    if literal.kind == "number":
        words = {"1": True, "0": False}
    if literal.value.lower() not in words:
        raise ValueError("it is true or false")
    return words[literal.value.lower()]


def _decimal(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError("it is no number")
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not abs(value.adjusted() if value.is_finite() else _EXPONENTS + 1) <= _EXPONENTS:
        raise OverflowError("it is out of range")
    return value


def _integer(text: str) -> int:
    value = _decimal(text)
    if value.adjusted() > _DIGITS:
        raise OverflowError("it is out of range")
    if value != value.to_integral_value():
        raise ValueError("it is no whole number")
    return int(value)


def _float(text: str, kind: pa.DataType) -> float:
    """Return the nearest float of a number.

    An integer must be exact: else two ids would merge.
    """
    value = _decimal(text)
    nearest = float(value)
    with np.errstate(over="ignore"):
        if pa.types.is_float32(kind):
            nearest = float(np.float32(nearest))
        elif pa.types.is_float16(kind):
            nearest = float(np.float16(nearest))
    if not math.isfinite(nearest):
        raise OverflowError("it is out of range")
    if text.lstrip("+-").isdigit() and nearest != value:
        raise ValueError("it lies between two values")
    return nearest


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}..."
