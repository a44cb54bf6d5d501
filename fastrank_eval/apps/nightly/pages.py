"""Write the pages of nights to a folder."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import FastRankEvalError, OutputError
from fastrank_eval._lib.files import atomic_path
from fastrank_eval._lib.log import NIGHTLY
from fastrank_eval.apps.nightly.config import NightlyConfig, folder_name
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.periods import with_periods
from fastrank_eval.apps.nightly.reproduce import (
    check_groups_file,
    folder_error,
    groups_file,
    make_folder,
    other_file,
)

#: The most characters of a query that the web view answers.
LONGEST_QUERY = 4000


@dataclass(frozen=True)
class Links:
    """Addresses of pages in one folder; empty for pages that do not exist.

    Parameters
    ----------
    before, after : dt.date or None
        The nights before and after the one shown.
    groups : str
        Address of the worst groups of the night shown.
    labels : tuple of (str, str)
        The labels of the report with the addresses of their nights of this date; no address for the
        label shown.
    first, home_name : str
        Address and title of the first page.
    """

    before: dt.date | None = None
    after: dt.date | None = None
    groups: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    first: str = "index.html"
    home_name: str = "Latest night"

    def home(self) -> str:
        """Return the address of the first page."""
        return self.first

    def night(self, date: dt.date) -> str:
        """Return the address of a night."""
        return f"{date}.html"

    def compare(self, first: dt.date, second: dt.date) -> str:
        """Return the address of a comparison of two nights."""
        return ""

    def slice(self, label: str, measure: str) -> str:
        """Return the address of a measure on a slice over time."""
        return ""


@dataclass(frozen=True)
class WebLinks(Links):
    """Addresses in the web view.

    Parameters
    ----------
    label : str
        The label shown, if the report has several.
    """

    label: str = ""
    home_name: str = "All nights"

    def home(self) -> str:
        """Return the address of the list of nights."""
        return f"/{self._query()}"

    def night(self, date: dt.date) -> str:
        """Return the address of a night."""
        return f"/night/{date}{self._query()}"

    def earlier(self, date: dt.date) -> str:
        """Return the address of the list of the nights before a date."""
        return f"/{self._query(before=date)}"

    def _query(self, **requested: object) -> str:
        """Return the query of an address, with the label."""
        if self.label:
            requested["label"] = self.label
        return f"?{urlencode(requested, errors='replace')}" if requested else ""

    def compare(self, first: dt.date, second: dt.date) -> str:
        """Return the address of a comparison of two nights."""
        return f"/compare{self._query(first=first, second=second)}"

    def slice(self, label: str, measure: str) -> str:
        """Return the address of a slice; empty if it would be too long."""
        query = self._query(slice=label, measure=measure)
        return f"/slice{query}" if len(query) <= LONGEST_QUERY + len("?") else ""


#: Text that every page contains, and hardly any other file.
_PAGE_MARK = b"<footer><p>fastrank_eval "


def check_pages(config: NightlyConfig, dates: Sequence[dt.date]) -> None:
    """Refuse an invalid folder or missing libraries before rows are read.

    Parameters
    ----------
    config : NightlyConfig
    dates : sequence of datetime.date
        The nights to run.

    Raises
    ------
    ArgumentError
        If pages are requested and their libraries are not installed.
    OutputError
        If the folder cannot be created, or another file has the name of a page.
    """
    if config.folder is None:
        return
    _page_module().check_libraries()
    for name in ("index", *dates):
        check_page(config.folder / f"{name}.html")
    for date in dates:
        check_groups_file(config, date)
    # Do not create the folder yet: a night that fails leaves nothing.
    nearest = next(each for each in (config.folder, *config.folder.parents) if each.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return
    problem = "may not be written" if nearest.is_dir() else "is no folder"
    raise folder_error(config, f"{str(nearest)!r} {problem}")


def write_pages(config: NightlyConfig, night: Night) -> list[Path]:
    """Write the page of a night, and ``index.html`` of the latest.

    Parameters
    ----------
    config : NightlyConfig
    night : Night
        A night of the history, with its periods.

    Returns
    -------
    list of Path
        Empty without a folder.

    Raises
    ------
    FastRankEvalError
        If a page cannot be drawn or written. The history keeps the night.
    """
    if config.folder is None:
        return []
    make_folder(config, config.folder)
    page, index = config.folder / f"{night.date}.html", config.folder / "index.html"
    with closing(History(config.history).of(config.label)) as history:
        contents = {night.date: _draw_page(config, config.folder, history, night)}
        write_page(page, contents[night.date])
        NIGHTLY.info("page written", night=str(night.date), file=str(page))
        while True:
            latest = history.dates()[-1]
            if latest not in contents:
                (latest_night,) = history.read(latest, latest)
                contents[latest] = _draw_page(
                    config, config.folder, history, with_periods(latest_night, history)
                )
            # Another run may have stored a later night: do not replace its page.
            with history.transaction():
                if history.dates()[-1] == latest:
                    write_page(index, contents[latest])
                    return [page, index]


def write_again(config: NightlyConfig, nights: Sequence[Night]) -> None:
    """Write the pages of nights as the history has them; see `write_pages`."""
    for night in nights if config.folder is not None else ():
        with History(config.history, readonly=True).of(config.label) as history:
            shown = with_periods(night, history)
        write_pages(config, shown)


def _draw_page(config: NightlyConfig, folder: Path, history: History, last: Night) -> bytes:
    first = last.date - dt.timedelta(days=config.nights - 1)
    before = history.read(first, last.date - dt.timedelta(days=1), details_from=last.date)
    links = _links(folder, history, last)
    try:
        text: str = _page_module().page([*before, last], links=links)
        return text.encode()
    except FastRankEvalError:
        raise
    except Exception as error:  # the history has the night, and other nights follow
        raise OutputError(
            f"the page of {last.date} cannot be drawn: {type(error).__name__}: {error}. This "
            "is a fault of fastrank_eval, not of the rows; please report it."
        ) from error


def _links(folder: Path, history: History, night: Night) -> Links:
    """Link to the nearest nights with pages, and to other labels."""
    date = night.date
    with_page = [each for each in history.dates() if (folder / f"{each}.html").exists()]
    before = [each for each in with_page if each < date]
    after = [each for each in with_page if each > date]
    groups = groups_file(folder, date)
    home = ("../index.html", "All nights") if night.label else ()
    return Links(
        before[-1] if before else None,
        after[0] if after else None,
        groups.name if groups.exists() else "",
        other_labels(history, night, lambda label: f"../{folder_name(label)}/{date}.html"),
        *home,
    )


def other_labels(
    history: History, night: Night, address: Callable[[str], str]
) -> tuple[tuple[str, str], ...]:
    """Return the labels of a date with the addresses of their nights.

    Parameters
    ----------
    history : History
    night : Night
        Its own label has no address, nor has a label without a night of this date.
    address : callable
        Returns the address of the night of a label.

    Returns
    -------
    tuple of (str, str)
        Empty in a report of one label.
    """
    if not night.label:
        return ()
    others = {
        label: history.of(label).statuses(night.date, night.date)
        for label in history.labels()
        if label != night.label
    }
    return tuple((label, address(label) if others.get(label) else "") for label in history.labels())


def check_page(path: Path) -> None:
    """Refuse to replace a file that is no page.

    Raises
    ------
    OutputError
    """
    if path.is_file() and (content := path.read_bytes()) and _PAGE_MARK not in content:
        raise other_file(path, "is not a page of a night")


def write_page(path: Path, content: bytes) -> None:
    """Write a page, and replace only a page."""
    check_page(path)
    with atomic_path(path) as part:
        part.write_bytes(content)


def _page_module() -> Any:
    """Import the module of pages, whose libraries are optional and slow."""
    return import_module("fastrank_eval.apps.nightly.page")
