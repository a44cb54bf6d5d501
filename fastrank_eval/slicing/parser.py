"""Parse slicings: ``slot,country``, ``age:18,25,35``, ``@rows:1,5``.

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
from decimal import Decimal
from functools import lru_cache
from typing import NoReturn

from fastrank_eval._lib.errors import ArgumentError, near
from fastrank_eval.slicing.spec import (
    ACTIVITIES,
    BARE,
    UNITS,
    Binning,
    Edges,
    Period,
    Quantile,
    SliceColumn,
    SliceSpec,
    Width,
    number_text,
)

__all__ = ["parse", "requested_slicing", "short_texts"]

_MAX_QUANTILES = 1000
_MAX_EXPONENT = 330
_MAX_SHOWN = 100

_QUOTED = re.compile(r'"(?:[^"]|"")+"')
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])")
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?)?(?![\w.:])"
)
_EDGE_BEGINS = re.compile(r"[+\-.0-9]")
_NEXT_EDGE = re.compile(r",\s*[+\-.0-9]")
_BINNING = re.compile(r"[^\s,:]+")


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
        raise ArgumentError(f"by={text!r} is not a text such as 'slot' or 'age:18,25'.")
    return _Parser(text).spec()


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
        raise ArgumentError("by names no column; leave it out, or write by='slot'.")
    return tuple(dict.fromkeys(specs))


class _Parser:
    """Recursive descent parser with one method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def spec(self) -> SliceSpec:
        slice_columns = [self._slice_column()]
        while self._skip(","):
            slice_columns.append(self._slice_column())
        if self._peek():
            last = slice_columns[-1].binning
            self._fail(
                "',' or the end",
                "Edges are lower bounds: write 1,5,20." if isinstance(last, Edges) else "",
            )
        for i, slice_column in enumerate(slice_columns):
            if slice_column.name in [other.name for other in slice_columns[:i]]:
                self._refuse(
                    f"{slice_column.name} is named twice. Name it once, or ask for two slicings"
                )
        return SliceSpec(tuple(slice_columns))

    def _slice_column(self) -> SliceColumn:
        if self._skip("@"):
            return self._activity()
        start = self._position
        column = self._column()
        if not self._skip(":"):
            return SliceColumn(column)
        if self._starts_edge():
            return SliceColumn(column, self._edges())
        return SliceColumn(column, self._binning(self._text[start : self._position - 1].strip()))

    def _activity(self) -> SliceColumn:
        start = self._position
        word = self._match(BARE)
        if word not in ACTIVITIES:
            self._position = start
            expected = " or ".join(f"@{name}" for name in ACTIVITIES)
            self._fail(
                expected, f'{near(word, ACTIVITIES)[1:]} A column stands in quotes: "@name".'
            )
        if not self._skip(":"):
            return SliceColumn(word, None, True)
        if self._starts_edge():
            edges = self._edges()
            if not all(edge.isdigit() for edge in edges.edges):
                self._refuse(f"edges of @{word} are counts: whole numbers of at least 0")
            return SliceColumn(word, edges, True)
        binning = self._binning(f"@{word}")
        if isinstance(binning, Quantile):
            self._refuse(
                f"counts of groups are known only after all rows are read, too late for quantiles. "
                f"Give edges: @{word}:1,5,20,100"
            )
        if not isinstance(binning, Width) or not binning.width.isdigit():
            self._refuse(f"@{word} is a count. Give edges, @{word}:1,5,20,100, or @{word}:width10")
        return SliceColumn(word, binning, True)

    def _column(self) -> str:
        name = self._match(_QUOTED)
        if name:
            return name[1:-1].replace('""', '"')
        name = self._match(BARE)
        if not name:
            sign = self._peek()
            remedy = "A name that begins with another sign than a letter or _ stands in double "
            remedy += 'quotes: "2nd slot".'
            if sign == '"':
                self._fail('a name and a closing "')
            self._fail("a column, @rows or @positives", remedy if sign else "")
        return name

    def _binning(self, name: str) -> Binning:
        start = self._position
        word = self._match(_BINNING)
        remedy = f"Write {name}:18,25,35, {name}:quantile5, {name}:width10 or {name}:day."
        if not word:
            self._fail("edges or a kind of bins", remedy)
        if word in UNITS:
            return Period(word)
        if word.startswith("quantile"):
            return self._quantile(word.removeprefix("quantile"))
        if word.startswith("width"):
            return self._width(word.removeprefix("width"))
        return self._refuse_binning(word, start, remedy)

    def _refuse_binning(self, word: str, start: int, remedy: str) -> NoReturn:
        number = re.search(r"[0-9.]*$", word)
        digits = number.group() if number else ""
        kinds = [f"quantile{digits or 5}", f"width{digits or 10}", *UNITS]
        self._refuse(
            f"no bins '{_short(word)}' at character {start + 1}.{near(word, kinds)} {remedy}"
        )

    def _quantile(self, digits: str) -> Quantile:
        if not re.fullmatch(r"[0-9]{1,9}", digits) or not 2 <= int(digits) <= _MAX_QUANTILES:
            self._refuse(
                f"quantile must be followed by a number of bins from 2 to {_MAX_QUANTILES}, as in "
                f"quantile5, got quantile{_short(digits)}"
            )
        return Quantile(int(digits))

    def _width(self, text: str) -> Width:
        if not _NUMBER.fullmatch(text) or (width := self._decimal(text)) <= 0:
            self._refuse(
                "width must be followed by a number above 0, as in width10 or width0.5, got "
                f"width{_short(text)}"
            )
        return Width(number_text(width))

    def _edges(self) -> Edges:
        edges = [self._edge()]
        while self._has_next_edge():
            self._skip(",")
            edges.append(self._edge())
        texts, keys = zip(*edges, strict=True)
        if len({type(key) for key in keys}) > 1:
            self._refuse("edges are either numbers or dates, not both")
        if isinstance(keys[0], tuple) and len({key[0].tzinfo is None for key in keys}) > 1:
            self._refuse("some edges name a time zone and some do not. Name it in all or in none")
        for i in range(1, len(keys)):
            if not keys[i - 1] < keys[i]:
                self._refuse(f"edges must rise, and {texts[i]} comes after {texts[i - 1]}")
        return Edges(texts)

    def _edge(self) -> tuple[str, Decimal | tuple[datetime, str]]:
        self._peek()
        moment = _MOMENT.match(self._text, self._position)
        if moment:
            edge = self._moment(moment)
            self._position = moment.end()
            return edge
        text = self._match(_NUMBER)
        if not text:
            self._fail("a number or a date such as 2026-11-19")
        number = self._decimal(text)
        return number_text(number), number

    def _moment(self, match: re.Match[str]) -> tuple[str, tuple[datetime, str]]:
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
        if len(text) > _MAX_EXPONENT or (exponent and len(exponent.group(1)) > 5):
            self._refuse_number(text)
        number = Decimal(text)
        if number and abs(number.adjusted()) > _MAX_EXPONENT:
            self._refuse_number(text)
        return number

    def _refuse_number(self, text: str) -> NoReturn:
        self._refuse(
            f"a number must have at most {_MAX_EXPONENT} characters and an exponent from "
            f"-{_MAX_EXPONENT} to {_MAX_EXPONENT}, got {_short(text)}"
        )

    def _has_next_edge(self) -> bool:
        """Tell whether a comma and an edge follow, not a comma and the next item."""
        return self._peek() == "," and _NEXT_EDGE.match(self._text, self._position) is not None

    def _starts_edge(self) -> bool:
        return _EDGE_BEGINS.match(self._peek()) is not None

    def _peek(self) -> str:
        """Skip blanks and return the next sign; an empty text at the end."""
        while self._text[self._position : self._position + 1].isspace():
            self._position += 1
        return self._text[self._position : self._position + 1]

    def _skip(self, sign: str) -> bool:
        if self._peek() != sign:
            return False
        self._position += 1
        return True

    def _match(self, pattern: re.Pattern[str]) -> str:
        self._peek()
        match = pattern.match(self._text, self._position)
        if match is None:
            return ""
        self._position = match.end()
        return match.group()

    def _fail(self, expected: str, remedy: str = "") -> NoReturn:
        rest = self._text[self._position :] if self._peek() else "the end"
        self._refuse(
            f"expected {expected} at character {self._position + 1}, found {_short(rest)}."
            + f" {remedy.strip()}" * bool(remedy.strip())
        )

    def _refuse(self, what: str) -> NoReturn:
        text = self._text if len(self._text) <= _MAX_SHOWN else f"{self._text[:_MAX_SHOWN]}..."
        raise ArgumentError(f"by {text!r}: {what}" + "." * (what[-1] != "."))


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."
