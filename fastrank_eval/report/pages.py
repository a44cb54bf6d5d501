"""Which pages a night has, and what each of them shows."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastrank_eval.errors import FastRankEvalError, OutputError
from fastrank_eval.output import atomic_path
from fastrank_eval.report.config import NightlyConfig
from fastrank_eval.report.history import History
from fastrank_eval.report.links import FileLinks
from fastrank_eval.report.nights import Night
from fastrank_eval.report.periods import with_periods

__all__ = ["check_pages", "write_pages"]


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
    return import_module("fastrank_eval.report.page")
