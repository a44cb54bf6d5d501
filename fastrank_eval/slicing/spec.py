"""Specify and parse slicings: ``slot,country``, ``age:18,25,35``.

The grammar; blanks may stand around each sign::

    slices    item {, item}                    every combination of their values that occurs
    item      column                           a slice for each value
              column : edge {, edge}           edges are lower bounds; below the first is a bin too
              column : quantileN               N bins of equally many rows
              column : widthX                  bins from multiples of X
              column : unit                    hour, day, week, month, hour_of_day, day_of_week
              @rows or @positives, with edges, with widthX or alone
    column    letters, digits, _ . - (a letter or _ first), or "any name", in which "" stands for "
    edge      a number, a date 2026-11-19 or a time 2026-11-19T08:30Z

After a colon, a comma before a digit or a sign continues the edges; before a name it begins the
next item. Of these signs only the quotes have a meaning in a shell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from decimal import Context, Decimal
from functools import cached_property, lru_cache
from typing import cast

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, near
from fastrank_eval._lib.lexer import TokenReader, quoted, shorten

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

    Made by `parse`; ``parse(str(spec)) == spec``.

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
    return quoted(column)


def exact_text(number: Decimal) -> str:
    """Format a finite number in its shortest form.

    Equal numbers have equal texts.

    Examples
    --------
    >>> exact_text(Decimal("+18.50")), exact_text(Decimal("1E3")), exact_text(Decimal("2e40"))
    ('18.5', '1000', '2e40')
    """
    if not number:
        return "0"
    number = number.normalize(_EXACT_CONTEXT)
    if -_PLAIN_DIGITS <= number.adjusted() <= _PLAIN_DIGITS:
        return format(number, "f")
    return str(number).lower().replace("e+", "e")


def parse(text: str) -> SliceSpec:
    """Parse a slicing.

    Parameters
    ----------
    text : str
        ``"slot"``, ``"slot,country"``, ``"age:quantile5"``, ``"age:18,25,35,country"``,
        ``"ts:day"``, ``"@rows:1,5,20,100"``.

    Returns
    -------
    SliceSpec

    Raises
    ------
    ArgumentError
        The text does not follow the grammar; the message says where and what is expected.

    Examples
    --------
    >>> str(parse("age: 18.0, 25, country"))
    'age:18,25,country'
    >>> parse("age:quantle5")
    Traceback (most recent call last):
    fastrank_eval.ArgumentError: by 'age:quantle5': no bins 'quantle5' at character 5. \
Did you mean 'quantile5'? Write age:18,25,35, age:quantile5, age:width10 or age:day.
    """
    if not isinstance(text, str):
        raise ArgumentError(f"by: must be text, got {text!r}; write 'slot' or 'age:18,25', say.")
    return _Parser(text).parse()


@lru_cache(maxsize=64)
def _without_edges(by: str) -> str:
    return parse(by).short


def short_texts(slicings: Iterable[str | None]) -> dict[str | None, str | None]:
    """Map slicings to their texts without edges, which records of slices show.

    Slicings that would share a text keep their edges.

    Parameters
    ----------
    slicings : iterable of str or None
        Texts of `SliceSpec`; None for all rows.

    Returns
    -------
    dict of str to str, and of None to None

    Examples
    --------
    >>> short_texts(["age:18,25,country", "age:quantile5", None])
    {'age:18,25,country': 'age,country', 'age:quantile5': 'age:quantile5', None: None}
    >>> list(short_texts(["age:18", "age:18,25"]).values())
    ['age:18', 'age:18,25']
    """
    distinct = dict.fromkeys(slicings)
    short = {by: None if by is None else _without_edges(by) for by in distinct}
    counts = Counter(short.values())
    return {by: text if counts[text] == 1 else by for by, text in short.items()}


def requested_slicing(by: str | SliceSpec | Iterable[str | SliceSpec]) -> tuple[SliceSpec, ...]:
    """Parse one or several slicings; drop repeats, keep the order.

    Parameters
    ----------
    by : str, SliceSpec or iterable of them
        Commas inside a text cross columns; a list has several slicings.

    Returns
    -------
    tuple of SliceSpec

    Raises
    ------
    ArgumentError
        There is no slicing, or one cannot be parsed.

    Examples
    --------
    >>> [str(spec) for spec in requested_slicing(["slot", "slot,country", "slot"])]
    ['slot', 'slot,country']
    """
    if isinstance(by, str | SliceSpec) or not isinstance(by, Iterable):
        by = [by]
    specs = [spec if isinstance(spec, SliceSpec) else parse(spec) for spec in by]
    if not specs:
        raise ArgumentError("by: must name a column, got none; leave it out, or write by='slot'.")
    return tuple(dict.fromkeys(specs))


_MAX_QUANTILES = 1000
_MAX_EXPONENT = 330
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])"
_MOMENT = (
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T\ ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?)?(?![\w.:])"
)
_EDGE_BEGINS = re.compile(r"[+\-.0-9]")
_BINNING = re.compile(r"[^\s,:]+")


class _Parser(TokenReader):
    """A parser with one method for each rule of the grammar."""

    name = "by"
    pattern = re.compile(
        rf"""(?P<blank>\s+)
        |(?P<quoted>"(?:[^"]|"")+")
        |(?P<moment>{_MOMENT})
        |(?P<number>{_NUMBER})
        |(?P<word>{BARE.pattern})
        |(?P<operator>[,:@])
        |(?P<other>[^\s,:@"]+)""",
        re.VERBOSE,
    )

    @staticmethod
    def _in_quotes(text: str) -> str:
        return repr(text)

    def parse(self) -> SliceSpec:
        slice_columns = [self._slice_column()]
        while self._skip(","):
            slice_columns.append(self._slice_column())
        if self._next.kind != "end":
            has_edges = isinstance(slice_columns[-1].binning, Edges)
            self._fail(
                "',' or the end", "Edges are lower bounds: write 1,5,20." if has_edges else ""
            )
        names = [slice_column.name for slice_column in slice_columns]
        for i, name in enumerate(names):
            if name in names[:i]:
                self._refuse(f"{name} is named twice. Name it once, or ask for two slicings.")
        return SliceSpec(tuple(slice_columns))

    def _slice_column(self) -> SliceColumn:
        if self._skip("@"):
            return self._activity()
        token = self._next
        column = token.column_name
        if not column:
            remedy = (
                "A name that begins with another sign than a letter or _ stands in double quotes: "
                '"2nd slot".'
            )
            self._fail("a column, @rows or @positives", remedy if token.text else "")
        self._position += 1
        if not self._skip(":"):
            return SliceColumn(column)
        return SliceColumn(column, self._edges_or_bins(token.text))

    def _activity(self) -> SliceColumn:
        word = self._next.text
        if word not in ACTIVITIES:
            expected = " or ".join(f"@{name}" for name in ACTIVITIES)
            hint = f'{near(word, ACTIVITIES)} A column stands in quotes: "@name".'
            self._fail(expected, hint.strip())
        self._position += 1
        if not self._skip(":"):
            return SliceColumn(word, None, True)
        binning = self._edges_or_bins(f"@{word}")
        if isinstance(binning, Edges):
            if not all(edge.isdigit() for edge in binning.edges):
                self._refuse(f"edges of @{word} are counts: whole numbers of at least 0.")
        elif isinstance(binning, Quantile):
            self._refuse(
                "counts of groups are known only after all rows are read, too late for quantiles. "
                f"Give edges: @{word}:1,5,20,100."
            )
        elif not isinstance(binning, Width) or not binning.width.isdigit():
            self._refuse(f"@{word} is a count. Give edges, @{word}:1,5,20,100, or @{word}:width10.")
        return SliceColumn(word, binning, True)

    def _edges_or_bins(self, name: str) -> Binning:
        start = self._next.position
        if _EDGE_BEGINS.match(self._next.text):
            return self._edges()
        match = _BINNING.match(self._text, start)
        remedy = f"Write {name}:18,25,35, {name}:quantile5, {name}:width10 or {name}:day."
        if match is None:
            self._fail("edges or a kind of bins", remedy)
        word = match.group()
        while self._next.position < match.end():  # width1e+5 is several tokens
            self._position += 1
        if word in UNITS:
            return Period(word)
        if word.startswith("quantile"):
            return self._quantile(word.removeprefix("quantile"))
        if not word.startswith("width"):
            digits = word[len(word.rstrip("0123456789.")) :]
            kinds = [f"quantile{digits or 5}", f"width{digits or 10}", *UNITS]
            what = f"no bins '{shorten(word)}' at character {start + 1}.{near(word, kinds)}"
            self._refuse(what, remedy)
        return self._width(word.removeprefix("width"))

    def _quantile(self, digits: str) -> Quantile:
        if not re.fullmatch(r"[0-9]{1,9}", digits) or not 2 <= int(digits) <= _MAX_QUANTILES:
            self._refuse(
                f"quantile must be followed by a number of bins from 2 to {_MAX_QUANTILES}, as in "
                f"quantile5, got quantile{shorten(digits)}."
            )
        return Quantile(int(digits))

    def _width(self, text: str) -> Width:
        if not re.fullmatch(_NUMBER, text) or (width := self._decimal(text)) <= 0:
            self._refuse(
                "width must be followed by a number above 0, as in width10 or width0.5, got "
                f"width{shorten(text)}."
            )
        return Width(exact_text(width))

    def _edges(self) -> Edges:
        edges = [self._edge()]
        while self._is_next(",") and _EDGE_BEGINS.match(self._second.text):
            self._position += 1
            edges.append(self._edge())
        texts, keys = zip(*edges, strict=True)
        if len({type(key) for key in keys}) > 1:
            self._refuse("edges are either numbers or dates, not both.")
        if isinstance(keys[0], tuple) and len({key[0].tzinfo is None for key in keys}) > 1:
            self._refuse("some edges name a time zone and some do not. Name it in all or in none.")
        for i in range(1, len(keys)):
            if not keys[i - 1] < keys[i]:
                self._refuse(f"edges must rise, and {texts[i]} comes after {texts[i - 1]}.")
        return Edges(texts)

    def _edge(self) -> tuple[str, Decimal | tuple[datetime, str]]:
        token = self._next
        edge: tuple[str, Decimal | tuple[datetime, str]]
        if token.kind == "moment":
            edge = self._moment(token.text)
        elif token.kind == "number":
            number = self._decimal(token.text)
            edge = exact_text(number), number
        else:
            self._fail("a number or a date such as 2026-11-19")
        self._position += 1
        return edge

    def _moment(self, written: str) -> tuple[str, tuple[datetime, str]]:
        match = cast("re.Match[str]", re.fullmatch(_MOMENT, written))
        day, minutes, seconds, fraction, zone = match.groups()
        fraction = (fraction or "").rstrip("0")
        zone = {None: "", "+00:00": "Z", "+0000": "Z"}.get(zone, zone)
        if len(zone) == len("+0100"):
            zone = f"{zone[:3]}:{zone[3:]}"
        clock = f"{minutes or '00:00'}:{seconds or '00'}"
        try:
            moment = datetime.fromisoformat(f"{day}T{clock}{zone}")
        except ValueError:
            self._fail("a date or time of the calendar")
        text = day
        if clock != "00:00:00" or fraction or zone:
            text += f"T{clock}" + f".{fraction}" * bool(fraction) + zone
        return text, (moment, fraction.ljust(9, "0"))

    def _decimal(self, text: str) -> Decimal:
        exponent = re.search(r"[eE]([+-]?[0-9]+)$", text)
        number = Decimal(0)
        fits = len(text) <= _MAX_EXPONENT and not (exponent and len(exponent.group(1)) > 5)
        if fits:
            number = Decimal(text)
            fits = not number or abs(number.adjusted()) <= _MAX_EXPONENT
        if not fits:
            self._refuse(
                f"a number must have at most {_MAX_EXPONENT} characters and an exponent from "
                f"-{_MAX_EXPONENT} to {_MAX_EXPONENT}, got {shorten(text)}."
            )
        return number
