"""What rows are told apart by, as values: columns and counts, their bins, crosses of them."""

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
    "Part",
    "Period",
    "Quantile",
    "SliceSpec",
    "Width",
    "column_text",
    "number_text",
]

#: What can be counted of a group itself.
ACTIVITIES = ("rows", "positives")
#: What dates and times can be cut by.
UNITS = ("hour", "day", "week", "month", "hour_of_day", "day_of_week")
#: Numbers of more digits before or after their point are written with an exponent.
_PLAIN_DIGITS = 20
_EXACTLY = Context(prec=1000)

#: Names of columns that need no quotes.
BARE = re.compile(r"[^\W\d][\w.\-]*")


@dataclass(frozen=True)
class Edges:
    """Bins between given edges, each the lower bound of a bin.

    Parameters
    ----------
    edges : tuple of str
        Numbers, dates or times as they are written shortest, ascending.
    """

    edges: tuple[str, ...]

    def __str__(self) -> str:
        return ",".join(self.edges)


@dataclass(frozen=True)
class Quantile:
    """So many bins of equally many rows; fewer where rows of equal values force it."""

    bins: int

    def __str__(self) -> str:
        return f"quantile{self.bins}"


@dataclass(frozen=True)
class Width:
    """Bins from each multiple of a number, as it is written shortest, to the next."""

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
class Part:
    """One column, or one count of the group itself, and how its values are binned.

    Parameters
    ----------
    column : str
        The name of the column; ``"rows"`` or ``"positives"`` of an activity.
    binning : Edges, Quantile, Width, Period or None
        None tells each value from each other.
    activity : bool
        Whether it is counted of the group: its rows, or its rows of grade 1 or more.
    """

    column: str
    binning: Binning | None = None
    activity: bool = False

    @property
    def name(self) -> str:
        """What labels call it: ``age``, ``"odd name"``, ``ts:day``, ``@rows``."""
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
    """What rows are told apart by: the values or bins of one part, or those of several, crossed.

    Made by `spec_text.parse`; ``parse(str(spec)) == spec``.

    Parameters
    ----------
    parts : tuple of Part
        At least one, no two of one name.
    """

    parts: tuple[Part, ...]

    @cached_property
    def _text(self) -> str:
        # Every value of every slice asks for it, and there may be thousands of edges.
        return ",".join(map(str, self.parts))

    def __str__(self) -> str:
        return self._text

    @property
    def short(self) -> str:
        """The text without edges, which labels of slices show: ``age,country``.

        Two slicings may share it, but a label under it is always the same slice.
        """
        return ",".join(
            part.name if isinstance(part.binning, Edges) else str(part) for part in self.parts
        )


def column_text(column: str) -> str:
    """A column's name as a specification writes it, in double quotes where its signs are odd.

    Examples
    --------
    >>> column_text("user-id"), column_text("a,b")
    ('user-id', '"a,b"')
    """
    if BARE.fullmatch(column):
        return column
    return '"' + column.replace('"', '""') + '"'


def number_text(number: Decimal) -> str:
    """A finite number as it is written shortest; equal numbers have one text.

    Examples
    --------
    >>> number_text(Decimal("+18.50")), number_text(Decimal("1E3")), number_text(Decimal("2e40"))
    ('18.5', '1000', '2e40')
    """
    if not number:
        return "0"
    number = number.normalize(_EXACTLY)
    if -_PLAIN_DIGITS <= number.adjusted() <= _PLAIN_DIGITS:
        return format(number, "f")
    return str(number).lower().replace("e+", "e")
