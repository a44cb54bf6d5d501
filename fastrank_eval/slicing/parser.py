"""Which slices are asked for, from their text: ``slot,country``, ``age:18,25,35``, ``@rows:1,5``.

The grammar; blanks may stand around each sign::

    slices    part {, part}                    every combination of their values that occurs
    part      column                           a slice for each value
              column : edge {, edge}           edges are lower bounds; below the first is a bin too
              column : quantileN               N bins of equally many rows
              column : widthX                  bins from multiples of X
              column : unit                    hour, day, week, month, hour_of_day, day_of_week
              @rows or @positives, with edges, with widthX or alone
    column    letters, digits, _ . - (a letter or _ first), or "any name", in which "" stands for "
    edge      a number, a date 2026-11-19 or a time 2026-11-19T08:30Z

After a colon a comma before a digit or a sign goes on with the edges; before a name it begins the
next part. No shell gives any of these signs a meaning of its own, but for the quotes.
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
    Part,
    Period,
    Quantile,
    SliceSpec,
    Width,
    number_text,
)

__all__ = ["parse", "requested_slicing", "short_texts"]

_MOST_QUANTILES = 1000
_LARGEST_EXPONENT = 330
_SHOWN = 100

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
    """Read what rows are to be told apart by.

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
        Tells where the text does not follow the grammar, and what was expected there.

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
    """Map slicings to their texts without edges, as each record of a slice has them.

    Slicings that would have one text keep their edges.

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
    often = Counter(short.values())
    return {by: text if often[text] == 1 else by for by, text in short.items()}


def requested_slicing(by: str | SliceSpec | Iterable[str | SliceSpec]) -> tuple[SliceSpec, ...]:
    """Read one or several slicings, each kept once, in the order given.

    Parameters
    ----------
    by : str, SliceSpec or iterable of them
        Commas inside a text cross columns; a list asks for one slicing after another.

    Returns
    -------
    tuple of SliceSpec

    Raises
    ------
    ArgumentError
        Nothing given, or one cannot be read.

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
    """Reads a specification from left to right, one method a rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def spec(self) -> SliceSpec:
        parts = [self._part()]
        while self._skip(","):
            parts.append(self._part())
        if self._next():
            last = parts[-1].binning
            self._fail(
                "',' or the end",
                "Edges are lower bounds: write 1,5,20." if isinstance(last, Edges) else "",
            )
        for i, part in enumerate(parts):
            if part.name in [other.name for other in parts[:i]]:
                self._refuse(f"{part.name} is named twice. Name it once, or ask for two slicings")
        return SliceSpec(tuple(parts))

    def _part(self) -> Part:
        if self._skip("@"):
            return self._activity()
        at = self._at
        column = self._column()
        if not self._skip(":"):
            return Part(column)
        if self._edge_here():
            return Part(column, self._edges())
        return Part(column, self._binning(self._text[at : self._at - 1].strip()))

    def _activity(self) -> Part:
        at = self._at
        word = self._match(BARE)
        if word not in ACTIVITIES:
            self._at = at
            known = " or ".join(f"@{name}" for name in ACTIVITIES)
            self._fail(known, f'{near(word, ACTIVITIES)[1:]} A column stands in quotes: "@name".')
        if not self._skip(":"):
            return Part(word, None, True)
        if self._edge_here():
            edges = self._edges()
            if not all(edge.isdigit() for edge in edges.edges):
                self._refuse(f"edges of @{word} are counts: whole numbers of at least 0")
            return Part(word, edges, True)
        binning = self._binning(f"@{word}")
        if isinstance(binning, Quantile):
            self._refuse(
                f"how many rows a group has is known only when all are read, too late for bins of "
                f"equally many groups. Give edges: @{word}:1,5,20,100"
            )
        if not isinstance(binning, Width) or not binning.width.isdigit():
            self._refuse(f"@{word} is a count. Give edges, @{word}:1,5,20,100, or @{word}:width10")
        return Part(word, binning, True)

    def _column(self) -> str:
        name = self._match(_QUOTED)
        if name:
            return name[1:-1].replace('""', '"')
        name = self._match(BARE)
        if not name:
            sign = self._next()
            remedy = "A name that begins with another sign than a letter or _ stands in double "
            remedy += 'quotes: "2nd slot".'
            if sign == '"':
                self._fail('a name and a closing "')
            self._fail("a column, @rows or @positives", remedy if sign else "")
        return name

    def _binning(self, name: str) -> Binning:
        at = self._at
        word = self._match(_BINNING)
        known = f"Write {name}:18,25,35, {name}:quantile5, {name}:width10 or {name}:day."
        if not word:
            self._fail("edges or a kind of bins", known)
        if word in UNITS:
            return Period(word)
        if word.startswith("quantile"):
            return self._quantile(word.removeprefix("quantile"))
        if word.startswith("width"):
            return self._width(word.removeprefix("width"))
        return self._refuse_binning(word, at, known)

    def _refuse_binning(self, word: str, at: int, known: str) -> NoReturn:
        number = re.search(r"[0-9.]*$", word)
        digits = number.group() if number else ""
        kinds = [f"quantile{digits or 5}", f"width{digits or 10}", *UNITS]
        self._refuse(f"no bins '{_short(word)}' at character {at + 1}.{near(word, kinds)} {known}")

    def _quantile(self, digits: str) -> Quantile:
        if not re.fullmatch(r"[0-9]{1,9}", digits) or not 2 <= int(digits) <= _MOST_QUANTILES:
            self._refuse(
                f"quantile{_short(digits)} has no number of bins from 2 to {_MOST_QUANTILES}, as "
                "quantile5 has"
            )
        return Quantile(int(digits))

    def _width(self, text: str) -> Width:
        if not _NUMBER.fullmatch(text) or (width := self._decimal(text)) <= 0:
            self._refuse(f"width{_short(text)} has no number above 0, as width10 and width0.5 have")
        return Width(number_text(width))

    def _edges(self) -> Edges:
        found = [self._edge()]
        while self._goes_on():
            self._skip(",")
            found.append(self._edge())
        texts, keys = zip(*found, strict=True)
        if len({type(key) for key in keys}) > 1:
            self._refuse("edges are either numbers or dates, not both")
        if isinstance(keys[0], tuple) and len({key[0].tzinfo is None for key in keys}) > 1:
            self._refuse("some edges name a time zone and some do not. Name it in all or in none")
        for i in range(1, len(keys)):
            if not keys[i - 1] < keys[i]:
                self._refuse(f"edges must rise, and {texts[i]} comes after {texts[i - 1]}")
        return Edges(texts)

    def _edge(self) -> tuple[str, Decimal | tuple[datetime, str]]:
        self._next()
        moment = _MOMENT.match(self._text, self._at)
        if moment:
            found = self._moment(moment)
            self._at = moment.end()
            return found
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
        if len(text) > _LARGEST_EXPONENT or (exponent and len(exponent.group(1)) > 5):
            self._refuse(f"{_short(text)} is no number of a column")
        number = Decimal(text)
        if number and abs(number.adjusted()) > _LARGEST_EXPONENT:
            self._refuse(f"{_short(text)} is no number of a column")
        return number

    def _goes_on(self) -> bool:
        """Whether a comma stands here and an edge after it, not the next part."""
        return self._next() == "," and _NEXT_EDGE.match(self._text, self._at) is not None

    def _edge_here(self) -> bool:
        return _EDGE_BEGINS.match(self._next()) is not None

    def _next(self) -> str:
        """The next sign that is no blank, or an empty text at the end; goes on to it."""
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _skip(self, sign: str) -> bool:
        if self._next() != sign:
            return False
        self._at += 1
        return True

    def _match(self, pattern: re.Pattern[str]) -> str:
        self._next()
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match.group()

    def _fail(self, expected: str, remedy: str = "") -> NoReturn:
        rest = self._text[self._at :] if self._next() else "the end"
        found = f"found {_short(rest)}"
        self._refuse(
            f"expected {expected} at character {self._at + 1}, {found}."
            + f" {remedy.strip()}" * bool(remedy.strip())
        )

    def _refuse(self, what: str) -> NoReturn:
        shown = self._text if len(self._text) <= _SHOWN else f"{self._text[:_SHOWN]}..."
        raise ArgumentError(f"by {shown!r}: {what}" + "." * (what[-1] != "."))


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."
