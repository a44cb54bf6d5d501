"""Dates of nights: as arguments, as ranges, and as ``{date}`` in texts of a configuration."""

from __future__ import annotations

import datetime as dt
import re

from fastrank_eval._lib.errors import ArgumentError

__all__ = ["MOST_NIGHTS", "check_dated", "date_of", "dated", "dates_in", "names_date", "nights_of"]

#: Nights that are run or shown at once.
MOST_NIGHTS = 3660
#: Weeks and months before it are dates too.
_EARLIEST = dt.date(1900, 1, 1)
#: What C, POSIX and Python know, with the flags of C libraries.
_FORM = re.compile(r"%[-_0^#EO]?[a-hj-nprstu-zA-DF-IMRSTU-Z%]|[^%]")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_SAMPLE = dt.date(2026, 11, 19)


def date_of(text: str, option: str = "--date") -> dt.date:
    """Read a date.

    Parameters
    ----------
    text : str
        ``"2026-11-19"``.
    option : str
        What names it, for the message.

    Raises
    ------
    ArgumentError
        It is none.

    Examples
    --------
    >>> date_of("2026-11-19")
    datetime.date(2026, 11, 19)
    """
    try:
        if not _DATE.fullmatch(text):  # ISO weeks are dates too, but not ours
            raise ValueError
        date = dt.date.fromisoformat(text)
    except ValueError:
        raise ArgumentError(
            f"{option} {text!r} is not a date; write it as 2026-11-19 (year-month-day)."
        ) from None
    if date < _EARLIEST:
        raise ArgumentError(f"{option} {text!r} lies before {_EARLIEST}; name a later night.")
    return date


def nights_of(text: str, option: str = "--backfill") -> list[dt.date]:
    """Read a range of dates, both ends included.

    Parameters
    ----------
    text : str
        ``"2026-11-01..2026-11-19"``.
    option : str
        What names it, for the message.

    Returns
    -------
    list of datetime.date
        Ascending.

    Raises
    ------
    ArgumentError
        It is none, it runs backwards, or it is longer than ten years.

    Examples
    --------
    >>> [str(date) for date in nights_of("2026-11-30..2026-12-01")]
    ['2026-11-30', '2026-12-01']
    """
    first, dots, last = text.partition("..")
    if not dots:
        raise ArgumentError(f"{option} {text!r} is not a range; write 2026-11-01..2026-11-19.")
    begin, end = date_of(first, option), date_of(last, option)
    nights = (end - begin).days + 1
    if nights < 1:
        raise ArgumentError(f"{option} {text!r} runs backwards; write {last}..{first}.")
    if nights > MOST_NIGHTS:
        raise ArgumentError(f"{option} {text!r} has {nights:,} nights; {MOST_NIGHTS:,} at most.")
    return [begin + dt.timedelta(days=day) for day in range(nights)]


def dated(text: str, date: dt.date) -> str:
    """Put a date where a text says ``{date}``.

    Parameters
    ----------
    text : str
        ``{date}`` is 2026-11-19; ``{date:%Y%m%d}`` any other form that ``strftime`` knows; ``{{``
        and ``}}`` stand for braces.
    date : datetime.date

    Raises
    ------
    ArgumentError
        Braces hold something else, or are not closed.

    Examples
    --------
    >>> dated("logs/day={date}/{date:%Y%m%d}.parquet", date_of("2026-02-01"))
    'logs/day=2026-02-01/20260201.parquet'
    """
    return _PLACE.sub(lambda found: _placed(found, text, date), text)


def names_date(text: str) -> bool:
    """Whether the date of a night makes a difference to a text."""
    return dated(text, _SAMPLE) != dated(text, _SAMPLE + dt.timedelta(days=1))


def dates_in(text: str) -> list[str]:
    """Where a text names a date, as it stands there."""
    return [found[0] for found in _PLACE.finditer(text) if found[1] is not None]


def check_dated(text: str) -> None:
    """Refuse a text in which a date cannot be put; see `dated`."""
    dated(text, _SAMPLE)


def _placed(found: re.Match[str], text: str, date: dt.date) -> str:
    whole, inside = found[0], found[1]
    if whole in ("{{", "}}"):
        return whole[0]
    if inside is None:
        raise ArgumentError(
            f"{whole!r} in {text!r} has no counterpart; double it where a brace is meant."
        )
    name, colon, form = inside.partition(":")
    if name != "date" or (colon and not form):
        raise ArgumentError(
            f"{whole!r} in {text!r} is not known; write {{date}} or, for instance, {{date:%Y%m%d}}."
        )
    if _FORM.sub("", form):
        raise ArgumentError(f"{whole!r} in {text!r} is no form of dates that strftime knows.")
    try:
        return date.strftime(form) if form else date.isoformat()
    except ValueError as wrong:
        raise ArgumentError(f"{whole!r} in {text!r} is no form of dates: {wrong}.") from None
