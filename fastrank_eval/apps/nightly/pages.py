"""Write the pages of a folder."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Protocol
from urllib.parse import urlencode

from fastrank_eval._lib.errors import FastRankEvalError, OutputError
from fastrank_eval._lib.files import atomic_path
from fastrank_eval.apps.nightly.config import NightlyConfig
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night, NightValue
from fastrank_eval.apps.nightly.periods import with_periods

__all__ = ["LONGEST_QUERY", "FileLinks", "Links", "WebLinks", "check_pages", "write_pages"]


#: Characters of an address that the web view answers.
LONGEST_QUERY = 4000


class Links(Protocol):
    """Addresses of pages; those that are not there are empty."""

    #: What the page is called that `home` leads to.
    home_name: ClassVar[str]

    @property
    def before(self) -> dt.date | None:
        """The night before the one shown."""

    @property
    def after(self) -> dt.date | None:
        """The night after it."""

    def home(self) -> str:
        """Where to begin."""

    def night(self, date: dt.date) -> str:
        """One night."""

    def beside(self, first: dt.date, second: dt.date) -> str:
        """Two nights side by side."""

    def slice(self, value: NightValue) -> str:
        """A measure on a slice over time, up to the night of the value."""


@dataclass(frozen=True)
class WebLinks:
    """Of the web view.

    Parameters
    ----------
    before, after : dt.date or None
    """

    before: dt.date | None = None
    after: dt.date | None = None
    home_name: ClassVar[str] = "All nights"

    def home(self) -> str:
        """All nights."""
        return "/"

    def night(self, date: dt.date) -> str:
        """Its page."""
        return f"/night/{date}"

    def beside(self, first: dt.date, second: dt.date) -> str:
        """Their page."""
        return f"/beside?{urlencode({'first': first, 'second': second})}"

    def slice(self, value: NightValue) -> str:
        """Its page; empty where a name is too long for an address."""
        requested = {"slice": value.slice, "measure": value.measure}
        query = urlencode(requested, errors="replace")
        return f"/slice?{query}" if len(query) <= LONGEST_QUERY else ""


@dataclass(frozen=True)
class FileLinks:
    """Of files in one folder, named by their nights.

    Parameters
    ----------
    before, after : dt.date or None
    """

    before: dt.date | None = None
    after: dt.date | None = None
    home_name: ClassVar[str] = "Latest night"

    def home(self) -> str:
        """The page of the latest night."""
        return "index.html"

    def night(self, date: dt.date) -> str:
        """Its file."""
        return f"{date}.html"

    def beside(self, first: dt.date, second: dt.date) -> str:
        """No file shows two nights."""
        return ""

    def slice(self, value: NightValue) -> str:
        """No file shows one slice."""
        return ""


#: Stands in every page that was ever written, and in hardly any other file.
_MARK = b"<footer><p>fastrank_eval "


def check_pages(config: NightlyConfig, dates: Iterable[dt.date]) -> None:
    """Refuse a folder that cannot be had, and missing libraries, before rows are read.

    Parameters
    ----------
    config : NightlyConfig
    dates : iterable of datetime.date
        The nights to be run.

    Raises
    ------
    ArgumentError
        If pages are asked for and what draws them is not installed.
    OutputError
        If the folder cannot be made, or another file has the name of a page.
    """
    if config.folder is None:
        return
    _pages().check_libraries()
    for name in ("index", *dates):
        _check_page(config.folder / f"{name}.html")
    # Not made yet: a night that fails leaves nothing.
    nearest = next(each for each in (config.folder, *config.folder.parents) if each.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return
    lack = "may not be written" if nearest.is_dir() else "is no folder"
    raise _cannot_be_made(config, f"{str(nearest)!r} {lack}")


def write_pages(config: NightlyConfig, night: Night) -> list[Path]:
    """Write the page of a night, and that of the latest night as ``index.html``.

    Parameters
    ----------
    config : NightlyConfig
    night : Night
        One that is in the history, with its periods.

    Returns
    -------
    list of Path
        None without a folder.

    Raises
    ------
    FastRankEvalError
        If one cannot be drawn or written; the night is kept all the same.
    """
    if config.folder is None:
        return []
    try:
        config.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_be_made(config, str(error.strerror or error)) from error
    page, index = config.folder / f"{night.date}.html", config.folder / "index.html"
    with closing(History(config.history)) as history:
        drawn = {night.date: _drawn(config, config.folder, history, night)}
        _put(page, drawn[night.date])
        while True:
            latest = history.dates()[-1]
            if latest not in drawn:
                (shown,) = history.read(latest, latest)
                drawn[latest] = _drawn(config, config.folder, history, with_periods(shown, history))
            # Another run may have kept a later night, whose page is not to be replaced by this.
            with history.transaction():
                if history.dates()[-1] == latest:
                    _put(index, drawn[latest])
                    return [page, index]


def _cannot_be_made(config: NightlyConfig, why: str) -> OutputError:
    return OutputError(
        f"{config.file}: [output] folder {str(config.folder)!r} cannot be made: {why}."
    )


def _drawn(config: NightlyConfig, folder: Path, history: History, last: Night) -> bytes:
    first = last.date - dt.timedelta(days=config.nights - 1)
    before = history.read(first, last.date - dt.timedelta(days=1), whole_from=last.date)
    links = _links(folder, history.dates(), last.date)
    with TemporaryDirectory() as made:
        path = Path(made) / "page.html"
        try:
            _pages().write_page([*before, last], path, links=links)
        except FastRankEvalError:
            raise
        except Exception as error:  # the night is kept, and others are to be run
            raise OutputError(
                f"the page of {last.date} cannot be drawn: {type(error).__name__}: {error}. This "
                "is a fault of fastrank_eval, not of the rows; please report it."
            ) from error
        return path.read_bytes()


def _links(folder: Path, dates: Sequence[dt.date], date: dt.date) -> FileLinks:
    """The nights next to one whose pages are in the folder."""
    written = [each for each in dates if (folder / f"{each}.html").exists()]
    before = [each for each in written if each < date]
    after = [each for each in written if each > date]
    return FileLinks(before[-1] if before else None, after[0] if after else None)


def _check_page(path: Path) -> None:
    """Refuse to replace a file that is no page."""
    if path.is_file() and (content := path.read_bytes()) and _MARK not in content:
        raise OutputError(
            f"[output] folder: must hold no other files of the names of pages, got {str(path)!r}, "
            "which is no page of a night; name another folder, or remove the file."
        )


def _put(path: Path, content: bytes) -> None:
    _check_page(path)
    with atomic_path(path) as part:
        part.write_bytes(content)


def _pages() -> Any:
    """What draws pages; its libraries are an extra, and slow to import."""
    return import_module("fastrank_eval.apps.nightly.page")
