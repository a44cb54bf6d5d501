"""Remove old nights, their states, their pages and their groups."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fastrank_eval._lib.errors import ArgumentError, HistoryError
from fastrank_eval._lib.threads import format_bytes
from fastrank_eval.apps.nightly.compare_nights import DAYS
from fastrank_eval.apps.nightly.config import NightlyConfig, folder_name
from fastrank_eval.apps.nightly.history import PERIODS as MERGED
from fastrank_eval.apps.nightly.history import TABLES, History, columns
from fastrank_eval.apps.nightly.night import IS_EARLY, PERIODS
from fastrank_eval.apps.nightly.pages import (
    DATED_FILE,
    is_ours,
    move_pages,
    write_again,
    write_index,
)

_DAYS = re.compile(r"([1-9][0-9]{0,4})d")
_LINK = re.compile(rb'href="((?:\.\./)?[\w~/-]+\.(?:html|parquet))"')


class Pruned(NamedTuple):
    """What is removed, a text for each kind, and what to know of it."""

    removed: list[str]
    notes: list[str]


def parse_days(text: str | None, option: str) -> int | None:
    """Return the number of days of a text such as ``400d``.

    Raises
    ------
    ArgumentError

    Examples
    --------
    >>> parse_days("400d", "--keep")
    400
    """
    match = None if text is None else _DAYS.fullmatch(text)
    if text is not None and match is None:
        raise ArgumentError(f"{option}: must be a number of days, such as 400d, got {text!r}.")
    return int(match[1]) if match else None


def prune(
    config: NightlyConfig, keep: int | None, keep_states: int | None, *, dry_run: bool = False
) -> Pruned:
    """Remove what lies a number of days before the latest night.

    Rows of the history leave in one transaction. Then pages and groups leave, pages that link to
    them are written again, and the file shrinks. After a run that was stopped, the next one does
    what is left.

    Parameters
    ----------
    config : NightlyConfig
    keep : int or None
        Days of nights to keep, with the latest; None for all.
    keep_states : int or None
        Days of states to keep, with the latest; None for those of the nights.
    dry_run : bool
        Change nothing.

    Raises
    ------
    FastRankEvalError
        If the history cannot be read or changed, or a page cannot be written.
    """
    History(config.history, readonly=True).close()  # do not make a file
    with closing(History(config.history, readonly=dry_run)) as history:
        history.claim(config.report, config.labels or [config.options["label"]])
        ((latest,),) = history.execute("SELECT max(date) FROM night")
        last = dt.date.fromisoformat(latest) if latest else dt.date.min
        first, first_states = _first(last, keep), _first(last, keep_states)
        notes = _notes(config, history, last, first, max(first, first_states)) if latest else []
        known = history.execute("SELECT DISTINCT label FROM night WHERE label <> ''")
        names = {*history.labels(), *(name for (name,) in known)}
        with nullcontext() if dry_run else history.transaction():
            removed = _remove_rows(history, first, first_states, dry_run)
        labels = [replace(config, parts=())]
        labels += [
            replace(config, parts=(), label=name, folder=config.folder / folder_name(name))
            for name in sorted(names)
            if config.folder is not None
        ]
        own = folder_name(config.options["label"])
        if config.folder is not None and own not in map(folder_name, names):
            # Pages of the nights that had a name before the report lost its other labels.
            labels.append(replace(config, parts=(), label="", folder=config.folder / own))
        paths = [path for each in labels for path in _files(history, each, first, config.folder)]
    others = [path for path in paths if not is_ours(path)]
    notes += [f"{path} stays: it is no page and no file of groups" for path in others]
    for suffix, what in ((".html", "pages"), (".parquet", "files of groups")):
        ours = [path for path in paths if path.suffix == suffix and path not in others]
        size = count = 0
        for path in ours:
            try:
                length = path.stat().st_size
                if not dry_run:
                    path.unlink(missing_ok=True)
            except OSError as error:
                notes.append(f"{path} stays: {error.strerror or error}")
            else:
                size, count = size + length, count + 1
        removed += [f"{what}: {count:,} ({format_bytes(size)})"] if count else []
    if not dry_run:
        for each in labels:
            _mend_links(each)
        write_index(config)
        notes += _shrink(config.history)
    return Pruned(removed, notes)


def _first(last: dt.date, days: int | None) -> dt.date:
    """Return the first day to keep."""
    if days is None or days > last.toordinal():
        return dt.date.min
    return last - dt.timedelta(days=days - 1)


def _notes(
    config: NightlyConfig, history: History, last: dt.date, first: dt.date, first_states: dt.date
) -> list[str]:
    """Say what nights to come would read of what is removed."""
    configs = config.for_labels()
    # A night that waits for its labels is compared with earlier ones when it is judged again.
    waits = (each.labels_complete_after or dt.timedelta() for each in configs)
    wait = math.ceil(max(waits) / dt.timedelta(days=1))
    drift, month = 2 * config.drift.nights, max(PERIODS.values()) - 1
    needs = (
        ("usual rows, click rates and movements need", "nights", first, DAYS),
        ("weeks, months and last week need", "states", first_states, month),
        ("drift needs", "states", first_states, drift),
    )
    notes = [
        f"{readers} {days + wait + 1} days of {what}, and fewer stay"
        for readers, what, begin, days in needs
        if days and begin > last - dt.timedelta(days=days + wait)
    ]
    ((oldest, early),) = history.execute(
        f"SELECT min(date), sum(date < ? AND ({IS_EARLY})) FROM night",  # noqa: S608 - our own
        first,
    )
    alarms = [each.gates.alarm_since or oldest for each in configs if each.gates.alarm is not None]
    if alarms and str(min(map(str, alarms))) < str(first):
        notes.append(f"alarms learn from the nights since {first} only")
    if early:
        notes.append(f"{early:,} of the nights wait for their labels, and are not judged again")
    return notes


def _remove_rows(
    history: History, first: dt.date, first_states: dt.date, dry_run: bool
) -> list[str]:
    """Remove rows of old nights, and rows whose night was deleted."""
    lost = "(label, date) NOT IN (SELECT label, date FROM night)"
    removed = []
    for table in sorted(TABLES, key=lambda name: name == "night"):  # the other tables refer to it
        condition, parameters = "date < ?", [first]
        if table in ("value", "difference", "state"):
            condition += f" OR {lost}"
        if table == "state":
            condition += f" OR date < ? AND kind <> '{MERGED}'"
            parameters.append(first_states)
        size = " + ".join(f'coalesce(length(CAST("{name}" AS BLOB)), 0)' for name in columns(table))
        ((count, total),) = history.execute(
            f"SELECT count(*), coalesce(sum({size}), 0) FROM {table} WHERE {condition}",  # noqa: S608
            *parameters,
        )
        if count:
            removed.append(f"rows of {table}: {count:,} ({format_bytes(total)})")
            if not dry_run:
                history.execute(f"DELETE FROM {table} WHERE {condition}", *parameters)  # noqa: S608
    return removed


def _files(
    history: History, config: NightlyConfig, first: dt.date, folder_of_report: Path | None
) -> Iterator[Path]:
    """Yield the pages and groups of a label from before a date."""
    folder = config.folder
    if folder is None or not folder.is_dir():
        return
    is_used = False
    for path in sorted(folder.iterdir()):
        match = DATED_FILE.fullmatch(path.name)
        if match and path.is_file():
            if match[1] < first.isoformat():
                yield path
            else:
                is_used = True
    is_used = is_used and bool(history.of(config.label).statuses(first, None))
    index = folder / "index.html"
    if folder != folder_of_report and index.exists() and not is_used:
        yield index


def _mend_links(config: NightlyConfig) -> None:
    """Write the pages of a label again that link to a page that is gone."""
    folder = config.folder
    if folder is None:
        return
    with closing(History(config.history)) as history:
        move_pages(config, history.of(config.label))
        nights = [
            night
            for date in history.of(config.label).dates()
            for page in folder.glob(f"{date}.html")
            if any(
                not (folder / link.decode()).exists() for link in _LINK.findall(page.read_bytes())
            )
            for night in history.of(config.label).read(date, date)
        ]
    write_again(config, nights)


def _shrink(path: Path) -> list[str]:
    """Give the free space of a history back; return why not, or how much."""
    before = path.stat().st_size
    try:
        with History(path) as history:
            ((free,),) = history.execute("PRAGMA freelist_count")
            if not free:
                return []
            history.execute("VACUUM")
    except HistoryError as error:
        return [f"the file has free space that was not given back: {error}"]
    after = path.stat().st_size
    return [f"{path}: {format_bytes(before)} before, {format_bytes(after)} now"]
