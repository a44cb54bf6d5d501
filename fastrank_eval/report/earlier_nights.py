"""Which nights a night is compared with, and why not with the others."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastrank_eval.report.history import History
from fastrank_eval.report.nights import EARLIER, Night
from fastrank_eval.state_merging import OF_A_RUN

__all__ = ["EarlierNight", "differing", "earlier_nights"]

#: What may differ besides that between nights whose numbers mean the same.
_OF_A_NIGHT = frozenset(OF_A_RUN) - {"where"} | {"by", "quality", "requested"}
#: Options of a measure that its value does not depend on.
_OF_ERRORS = ("se",)


@dataclass(frozen=True)
class EarlierNight:
    """A night to compare with, or why there is none.

    Parameters
    ----------
    night : Night or None
    why : str
        Empty where there is one.
    unlike : bool
        Whether the night is there, but its numbers cannot be compared.
    """

    night: Night | None
    why: str = ""
    unlike: bool = False


def earlier_nights(night: Night, history: History | None) -> dict[str, EarlierNight]:
    """The nights of `EARLIER` as far as their numbers mean the same.

    Parameters
    ----------
    night : Night
    history : History or None

    Returns
    -------
    dict of str to EarlierNight
    """
    found = {}
    for kind, days in EARLIER.items():
        date = night.date - dt.timedelta(days=days)
        nights = [] if history is None else history.read(date, date, whole_from=night.date)
        found[kind] = _judged(night, nights[0] if nights else None, date)
    return found


def _judged(night: Night, earlier: Night | None, date: dt.date) -> EarlierNight:
    if earlier is None or not earlier.quality.rows:
        return EarlierNight(None, f"history has no rows of {date}")
    if earlier.status == "data_quality":
        return EarlierNight(None, f"the rows of {date} were not sound", unlike=True)
    unlike = differing(night, earlier)
    if unlike:
        why = f"conventions differ from {date}: {', '.join(unlike)}"
        return EarlierNight(None, why, unlike=True)
    return EarlierNight(earlier)


def differing(night: Night, earlier: Night) -> tuple[str, ...]:
    """The conventions, columns and options of measures by which two nights differ.

    Parameters
    ----------
    night, earlier : Night

    Returns
    -------
    tuple of str
        Their names; none where equal rows would give equal numbers.
    """
    mine, theirs = _conventions(night), _conventions(earlier)
    # Columns are known of nights that this version or a later one has kept.
    unknown = {"columns"} - (mine.keys() & theirs.keys())
    found = [
        name for name in mine | theirs if name not in unknown and mine.get(name) != theirs.get(name)
    ]
    options, others = _options(night), _options(earlier)
    return (*found, *(m for m in options if m in others and options[m] != others[m]))


def _conventions(night: Night) -> dict[str, Any]:
    return {name: v for name, v in night.conventions.items() if name not in _OF_A_NIGHT}


def _options(night: Night) -> dict[str, dict[str, Any]]:
    told = night.conventions.get("measures")
    return {
        str(measure): {name: value for name, value in how.items() if name not in _OF_ERRORS}
        for measure, how in (told.items() if isinstance(told, Mapping) else ())
        if isinstance(how, Mapping)
    }
