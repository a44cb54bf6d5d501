"""Days and hours of dates and times, by the calendar and by the clock of their zone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import as_array, fixed_items
from fastrank_eval.arrow_values import column_with_nulls
from fastrank_eval.errors import ColumnError
from fastrank_eval.slices.labels import NULL, value_texts
from fastrank_eval.sources.reading import first_line

__all__ = ["days_and_hours", "period_texts", "period_values", "periods"]

_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_A_DAY = 24 * 3600


def days_and_hours(column: pa.Array, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Since the beginning of 1970, by the clock of the column's time zone.

    Parameters
    ----------
    column : pyarrow.Array, shape (rows,)
        Dates or timestamps.
    name : str
        Of the column, for the message.

    Returns
    -------
    days, hours : ndarray of int64, shape (rows,)
        Whole ones, rounded down; anything where missing.
    missing : ndarray of bool or None
        Nulls; None where there is none.

    Raises
    ------
    ColumnError
        The time zone is unknown on this machine.
    """
    kind = column.type
    missing = as_array(column.is_null()).view(np.bool_) if column.null_count else None
    if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC", "Z", "+00:00"):
        import pyarrow.compute as pc

        try:
            column = pc.local_timestamp(column)
        except pa.ArrowException as error:
            raise ColumnError(
                f"by column '{name}': its time zone {kind.tz!r} cannot be used "
                f"({first_line(error)}). Cast it to UTC, or install the time zone database."
            ) from None
    values = fixed_items(column, np.dtype(f"i{kind.bit_width // 8}")).astype(np.int64)
    if pa.types.is_date32(kind):
        return values, values * 24, missing
    second = 1000 if pa.types.is_date64(kind) else _A_SECOND[kind.unit]
    return values // (_A_DAY * second), values // (3600 * second), missing


def periods(unit: str, days: np.ndarray, hours: np.ndarray) -> np.ndarray:
    """The number of each row's period, in order of time or of the clock.

    Parameters
    ----------
    unit : {"hour", "day", "week", "month", "hour_of_day", "day_of_week"}
    days, hours : ndarray of int64, shape (rows,)
        Since the beginning of 1970.

    Returns
    -------
    ndarray of int64, shape (rows,)
        Hours; the first day of a day, week (a Monday) or month; 0 to 23; 1 (Monday) to 7.
    """
    if unit == "hour":
        return hours
    if unit == "hour_of_day":
        clock: np.ndarray = hours % 24
        return clock
    # The first of January 1970 was a Thursday.
    since_monday = (days + 3) % 7
    if unit == "day_of_week":
        weekday: np.ndarray = since_monday + 1
        return weekday
    if unit == "week":
        monday: np.ndarray = days - since_monday
        return monday
    if unit == "month":
        return (
            days.astype("datetime64[D]")
            .astype("datetime64[M]")
            .astype("datetime64[D]")
            .view(np.int64)
        )
    return days


def period_values(unit: str, numbers: pa.Array) -> pa.Array:
    """Numbers of `periods` as timestamps (hours), dates (days, weeks, months) or integers."""
    if unit.endswith(("_of_day", "_of_week")) or not len(numbers):
        return numbers
    null = as_array(numbers.is_null()).view(np.bool_)
    if null.all():
        return pa.nulls(len(numbers), pa.timestamp("s") if unit == "hour" else pa.date32())
    values = np.where(null, 0, as_array(numbers))
    if unit == "hour":
        return column_with_nulls(values * 3600, null).cast(pa.timestamp("s"))
    return column_with_nulls(values.astype(np.int32), null).cast(pa.date32())


def period_texts(unit: str, values: pa.Array) -> list[str]:
    """Each period as a label shows it: ``2026-11-19T08``, ``2026-11-19``, ``2026-11``, ``8``."""
    cut = {"hour": len(":00:00"), "month": len("-01")}.get(unit, 0)
    return [text if text == NULL else text[: len(text) - cut] for text in value_texts(values)]
