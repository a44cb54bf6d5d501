"""Which pages a night has, and what each of them shows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from fastrank_eval.errors import OutputError
from fastrank_eval.output import atomic_path
from fastrank_eval.report.config import NightlyConfig
from fastrank_eval.report.history import History
from fastrank_eval.report.links import FileLinks
from fastrank_eval.report.nightly import with_periods

__all__ = ["check_pages", "write_pages"]


def check_pages(config: NightlyConfig) -> None:
    """Refuse a folder that cannot be had, and missing libraries, before rows are read.

    Raises
    ------
    ArgumentError
        If pages are asked for and what draws them is not installed.
    OutputError
        If the folder cannot be made.
    """
    if config.folder is None:
        return
    _pages().check_libraries()
    try:
        config.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{config.file}: [output] folder {str(config.folder)!r} cannot be made: "
            f"{error.strerror or error}."
        ) from error


def write_pages(config: NightlyConfig, date: dt.date) -> list[Path]:
    """Write the page of a night, and that of the latest night as ``index.html``.

    Parameters
    ----------
    config : NightlyConfig
    date : datetime.date
        Of a night in the history.

    Returns
    -------
    list of Path
        None without a folder.
    """
    if config.folder is None:
        return []
    page, index = config.folder / f"{date}.html", config.folder / "index.html"
    with closing(History(config.history, readonly=True)) as history:
        latest = history.dates()[-1]
        _write_page(config, history, date, page)
        if latest != date:
            _write_page(config, history, latest, index)
        else:
            with atomic_path(index) as part:
                part.write_bytes(page.read_bytes())
    return [page, index]


def _write_page(config: NightlyConfig, history: History, last: dt.date, path: Path) -> None:
    first = last - dt.timedelta(days=config.nights - 1)
    nights = history.read(first, last, whole_from=last)
    nights[-1] = with_periods(nights[-1], history, config.options["confidence"])
    _pages().write_page(nights, path, links=_links(path.parent, history.dates(), last))


def _links(folder: Path, dates: Sequence[dt.date], date: dt.date) -> FileLinks:
    """The nights next to one whose pages are in the folder."""
    written = [each for each in dates if (folder / f"{each}.html").exists()]
    before = [each for each in written if each < date]
    after = [each for each in written if each > date]
    return FileLinks(before[-1] if before else None, after[0] if after else None)


def _pages() -> Any:
    """What draws pages; its libraries are an extra, and slow to import."""
    return import_module("fastrank_eval.report.page")
