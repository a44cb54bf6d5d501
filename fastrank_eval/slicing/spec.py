"""Specify slices, and write their labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from itertools import pairwise

import pyarrow as pa

from fastrank_eval._lib.errors import ColumnError
from fastrank_eval.io.source import first_line

__all__ = [
    "ACTIVITIES",
    "BARE",
    "NULL",
    "UNITS",
    "Binning",
    "Edges",
    "Period",
    "Quantile",
    "SliceColumn",
    "SliceSpec",
    "Width",
    "bin_texts",
    "column_text",
    "count_texts",
    "number_text",
    "text_value",
    "value_texts",
]


#: Counts of a group that can be slice columns.
ACTIVITIES = ("rows", "positives")
#: Periods that dates and times can be binned by.
UNITS = ("hour", "day", "week", "month", "hour_of_day", "day_of_week")
#: Numbers with more digits before or after the point are written with an exponent.
_PLAIN_DIGITS = 20
_EXACT_CONTEXT = Context(prec=1000)

#: Names of columns that need no quotes.
BARE = re.compile(r"[^\W\d][\w.\-]*")


@dataclass(frozen=True)
class Edges:
    """Bins between given edges, each the lower bound of a bin.

    Parameters
    ----------
    edges : tuple of str
        Numbers, dates or times in their shortest form, ascending.
    """

    edges: tuple[str, ...]

    def __str__(self) -> str:
        return ",".join(self.edges)


@dataclass(frozen=True)
class Quantile:
    """Bins of equally many rows.

    There are fewer than `bins` where many rows share a value.
    """

    bins: int

    def __str__(self) -> str:
        return f"quantile{self.bins}"


@dataclass(frozen=True)
class Width:
    """Bins from each multiple of a width to the next.

    The width is in its shortest form.
    """

    width: str

    def __str__(self) -> str:
        return f"width{self.width}"


@dataclass(frozen=True)
class Period:
    """Dates or times by a unit of the calendar or of the clock.

    The unit is one of `UNITS`.
    """

    unit: str

    def __str__(self) -> str:
        return self.unit


Binning = Edges | Quantile | Width | Period


@dataclass(frozen=True)
class SliceColumn:
    """One column, or one count of the group, with its bins.

    Parameters
    ----------
    column : str
        Name of the column; ``"rows"`` or ``"positives"`` for an activity.
    binning : Edges, Quantile, Width, Period or None
        None makes each value a slice.
    activity : bool
        Whether the value is a count of the group: its rows, or its rows of grade 1 or more.
    """

    column: str
    binning: Binning | None = None
    activity: bool = False

    @property
    def name(self) -> str:
        """Name in labels: ``age``, ``"odd name"``, ``ts:day``, ``@rows``."""
        if self.activity:
            return f"@{self.column}"
        suffix = f":{self.binning}" if isinstance(self.binning, Period) else ""
        return column_text(self.column) + suffix

    def __str__(self) -> str:
        if self.binning is None or isinstance(self.binning, Period):
            return self.name
        return f"{self.name}:{self.binning}"


@dataclass(frozen=True)
class SliceSpec:
    """A slicing by one slice column, or by several, crossed.

    The slices are values or bins of the columns.

    Made by `parser.parse`; ``parse(str(spec)) == spec``.

    Parameters
    ----------
    columns : tuple of SliceColumn
        At least one, with unique names.
    """

    columns: tuple[SliceColumn, ...]

    @cached_property
    def _text(self) -> str:
        # Cached: every value of every slice uses it, and there may be thousands of edges.
        return ",".join(map(str, self.columns))

    def __str__(self) -> str:
        return self._text

    @property
    def short(self) -> str:
        """Text without edges: ``age,country``.

        Two slicings may share it. Then equal labels mean equal slices.
        """
        return ",".join(
            slice_column.name if isinstance(slice_column.binning, Edges) else str(slice_column)
            for slice_column in self.columns
        )


def column_text(column: str) -> str:
    """Format a column's name for a slicing.

    It is in double quotes where it has special characters.

    Examples
    --------
    >>> column_text("user-id"), column_text("a,b")
    ('user-id', '"a,b"')
    """
    if BARE.fullmatch(column):
        return column
    return '"' + column.replace('"', '""') + '"'


def number_text(number: Decimal) -> str:
    """Format a finite number in its shortest form.

    Equal numbers have equal texts.

    Examples
    --------
    >>> number_text(Decimal("+18.50")), number_text(Decimal("1E3")), number_text(Decimal("2e40"))
    ('18.5', '1000', '2e40')
    """
    if not number:
        return "0"
    number = number.normalize(_EXACT_CONTEXT)
    if -_PLAIN_DIGITS <= number.adjusted() <= _PLAIN_DIGITS:
        return format(number, "f")
    return str(number).lower().replace("e+", "e")


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
    """Format values for labels.

    Different values of a column have different texts.

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
    """Format Arrow's text of a time with a T.

    Zeros at the end of the fraction are stripped.
    """
    date, _, clock = text.partition(" ")
    match = re.fullmatch(r"([0-9:]+)(?:\.([0-9]+))?(.*)", clock)
    if match is None:
        return text
    fraction = (match[2] or "").rstrip("0")
    return f"{date}T{match[1]}" + f".{fraction}" * bool(fraction) + match[3]
