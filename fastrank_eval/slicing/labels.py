"""Format values and bins for labels: ``slot=1,country="a,b"``, ``age=[18,25)``, ``age<18``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa

from fastrank_eval._lib.errors import ColumnError
from fastrank_eval.io.source import first_line
from fastrank_eval.slicing.spec import number_text

__all__ = ["NULL", "bin_texts", "count_texts", "text_value", "value_texts"]

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
        return '"' + text.replace('"', '""') + '"'
    return text


def value_texts(values: pa.Array) -> list[str]:
    """Format values for labels; different values of a column have different texts.

    Parameters
    ----------
    values : pyarrow.Array, shape (values,)
        Of any key type, or floats of 32 or 64 bits; nulls are ``"null"``.

    Returns
    -------
    list of str
        Numbers in their shortest form, dates and times in ISO 8601, bytes as hexadecimal digits,
        strings in quotes only where they contain special characters.
    """
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [NULL if text is None else text_value(text) for text in values.to_pylist()]
    if _is_bytes(kind):
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
        return [NULL if text is None else number_text(Decimal(text)) for text in texts]
    if pa.types.is_timestamp(kind):
        return [NULL if text is None else _moment_text(text) for text in texts]
    return [NULL if text is None else text + unit for text in texts]


def bin_texts(edges: Sequence[str]) -> list[str]:
    """Format bins as the text after the column's name in a label, the bin of nulls last.

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


def count_texts(edges: Sequence[int]) -> list[str]:
    """Format buckets of counts as the text after ``@rows`` in a label.

    Parameters
    ----------
    edges : sequence of int, shape (edges,)
        At least one, ascending; each is the smallest count of a bucket.

    Returns
    -------
    list of str, shape (edges + 1,)

    Examples
    --------
    >>> count_texts([1, 2, 5])
    ['<1', '=1', '=2-4', '>=5']
    """
    inner = [
        f"={low}" if high == low + 1 else f"={low}-{high - 1}" for low, high in pairwise(edges)
    ]
    return [f"<{edges[0]}", *inner, f">={edges[-1]}"]


def _is_bytes(kind: pa.DataType) -> bool:
    wide = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return wide or pa.types.is_fixed_size_binary(kind)


def _float_text(text: str) -> str:
    return text if text.lstrip("-") in ("inf", "nan") else number_text(Decimal(text))


def _moment_text(text: str) -> str:
    """Put a T into Arrow's text of a time; strip zeros at the end of its fraction."""
    date, _, clock = text.partition(" ")
    match = re.fullmatch(r"([0-9:]+)(?:\.([0-9]+))?(.*)", clock)
    if match is None:
        return text
    fraction = (match[2] or "").rstrip("0")
    return f"{date}T{match[1]}" + f".{fraction}" * bool(fraction) + match[3]
