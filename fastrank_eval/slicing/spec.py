"""Describe slicings as values: slice columns, their bins, and crosses of columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property

__all__ = [
    "ACTIVITIES",
    "BARE",
    "UNITS",
    "Binning",
    "Edges",
    "Period",
    "Quantile",
    "SliceColumn",
    "SliceSpec",
    "Width",
    "column_text",
    "number_text",
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
    """Bins of equally many rows; fewer than `bins` where many rows share a value."""

    bins: int

    def __str__(self) -> str:
        return f"quantile{self.bins}"


@dataclass(frozen=True)
class Width:
    """Bins from each multiple of a width to the next; the width in its shortest form."""

    width: str

    def __str__(self) -> str:
        return f"width{self.width}"


@dataclass(frozen=True)
class Period:
    """Dates or times by a unit of the calendar or of the clock, one of `UNITS`."""

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
    """A slicing: the values or bins of one slice column, or of several, crossed.

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
    """Format a column's name for a slicing, in double quotes where it has special characters.

    Examples
    --------
    >>> column_text("user-id"), column_text("a,b")
    ('user-id', '"a,b"')
    """
    if BARE.fullmatch(column):
        return column
    return '"' + column.replace('"', '""') + '"'


def number_text(number: Decimal) -> str:
    """Format a finite number in its shortest form; equal numbers have equal texts.

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
