"""Read dates, and fill them into paths and conditions."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

from fastrank_eval._lib.errors import ArgumentError

#: The most nights of a run or a page.
MAX_NIGHTS = 3660
#: Leaves room for the weeks and months before a night.
_EARLIEST = dt.date(1900, 1, 1)
#: Format codes of C, POSIX and Python, with the flags of C libraries.
_FORMAT_CODE = re.compile(r"%[-_0^#EO]?[a-hj-nprstu-zA-DF-IMRSTU-Z%]|[^%]")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DURATION = re.compile(r"([1-9][0-9]{0,4})([dh])")
_LONGEST = dt.timedelta(days=366)
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_SAMPLE = dt.date(2026, 11, 19)


def parse_date(text: str, option: str = "--date") -> dt.date:
    """Parse a date.

    Parameters
    ----------
    text : str
        ``"2026-11-19"``.
    option : str
        The option, for the message.

    Raises
    ------
    ArgumentError
        The text is no date.

    Examples
    --------
    >>> parse_date("2026-11-19")
    datetime.date(2026, 11, 19)
    """
    try:
        if not _DATE.fullmatch(text):  # refuse ISO weeks
            raise ValueError
        date = dt.date.fromisoformat(text)
    except ValueError:
        raise ArgumentError(
            f"{option} {text!r} is not a date; write it as 2026-11-19 (year-month-day)."
        ) from None
    if date < _EARLIEST:
        raise ArgumentError(f"{option} {text!r} lies before {_EARLIEST}; name a later night.")
    return date


def parse_date_range(text: str) -> list[dt.date]:
    """Parse the range of dates of ``--backfill``, with both ends.

    Parameters
    ----------
    text : str
        ``"2026-11-01..2026-11-19"``.

    Returns
    -------
    list of datetime.date
        Ascending.

    Raises
    ------
    ArgumentError
        The text is no range, runs backwards, or is longer than ten years.

    Examples
    --------
    >>> [str(date) for date in parse_date_range("2026-11-30..2026-12-01")]
    ['2026-11-30', '2026-12-01']
    """
    first, dots, last = text.partition("..")
    if not dots:
        raise ArgumentError(f"--backfill {text!r} is not a range; write 2026-11-01..2026-11-19.")
    begin, end = (parse_date(date, "--backfill") for date in (first, last))
    nights = (end - begin).days + 1
    if nights < 1:
        raise ArgumentError(f"--backfill {text!r} runs backwards; write {last}..{first}.")
    if nights > MAX_NIGHTS:
        raise ArgumentError(f"--backfill {text!r} has {nights:,} nights; {MAX_NIGHTS:,} at most.")
    return [begin + dt.timedelta(days=day) for day in range(nights)]


def parse_duration(text: str) -> dt.timedelta:
    """Parse a number of days or hours.

    Parameters
    ----------
    text : str
        ``"3d"`` or ``"36h"``, up to ``"366d"``.

    Raises
    ------
    ArgumentError
        The text is no such duration.

    Examples
    --------
    >>> parse_duration("3d"), parse_duration("36h")
    (datetime.timedelta(days=3), datetime.timedelta(days=1, seconds=43200))
    """
    match = _DURATION.fullmatch(text)
    if match is not None:
        number = int(match[1])
        duration = dt.timedelta(days=number) if match[2] == "d" else dt.timedelta(hours=number)
        if duration <= _LONGEST:
            return duration
    raise ArgumentError(
        f"{text!r} is no duration; write a whole number and d (days) or h (hours), such as 3d or "
        "36h, at most 366d."
    )


def fill_date(text: str, date: dt.date) -> str:
    """Replace ``{date}`` in a text by a date.

    Parameters
    ----------
    text : str
        ``{date}`` becomes 2026-11-19, and ``{date:%Y%m%d}`` any other format of ``strftime``.
        ``{{`` and ``}}`` are braces.
    date : datetime.date

    Raises
    ------
    ArgumentError
        Braces hold something else, or are not closed.

    Examples
    --------
    >>> fill_date("logs/day={date}/{date:%Y%m%d}.parquet", parse_date("2026-02-01"))
    'logs/day=2026-02-01/20260201.parquet'
    """
    return _FIELD.sub(lambda match: _format_field(match, text, date), text)


def depends_on_date(text: str) -> bool:
    """Return whether a text changes with the date of the night."""
    return fill_date(text, _SAMPLE) != fill_date(text, _SAMPLE + dt.timedelta(days=1))


def date_fields(text: str) -> list[str]:
    """Return the date fields of a text, such as ``{date:%Y}``."""
    return [match[0] for match in _FIELD.finditer(text) if match[1] is not None]


def check_date_fields(text: str) -> None:
    """Refuse a text with invalid date fields; see `fill_date`."""
    fill_date(text, _SAMPLE)


def _format_field(match: re.Match[str], text: str, date: dt.date) -> str:
    field, content = match[0], match[1]
    if field in ("{{", "}}"):
        return field[0]
    if content is None:
        raise ArgumentError(
            f"{field!r} in {text!r} has no counterpart; double it to write a brace."
        )
    name, colon, format_ = content.partition(":")
    if name != "date" or (colon and not format_):
        raise ArgumentError(
            f"{field!r} in {text!r} is not known; write {{date}} or, for instance, {{date:%Y%m%d}}."
        )
    if _FORMAT_CODE.sub("", format_):
        raise ArgumentError(f"{field!r} in {text!r} is not a date format of strftime.")
    try:
        return date.strftime(format_) if format_ else date.isoformat()
    except ValueError as error:
        raise ArgumentError(f"{field!r} in {text!r} is not a date format: {error}.") from None


def left_out(dates: Sequence[dt.date], reason: str, reason_of_several: str = "") -> str:
    """Write in one sentence which nights are left out.

    Parameters
    ----------
    dates : sequence of datetime.date
        At least one.
    reason : str
    reason_of_several : str
        The reason in the plural, if the singular does not fit several nights.

    Examples
    --------
    >>> left_out([dt.date(2026, 11, 19)], "it has no rows")
    '2026-11-19 is left out: it has no rows'
    >>> nights = [dt.date(2026, 11, day) for day in (19, 12, 15)]
    >>> left_out(nights, "it has no rows", "they have no rows")
    '3 nights from 2026-11-12 to 2026-11-19 are left out: they have no rows'
    """
    if len(dates) == 1:
        return f"{dates[0]} is left out: {reason}"
    nights = f"{len(dates)} nights from {min(dates)} to {max(dates)}"
    return f"{nights} are left out: {reason_of_several or reason}"
