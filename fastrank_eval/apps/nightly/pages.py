"""Write the pages of nights to a folder, and the page of all labels."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastrank_eval._lib import __version__
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import FastRankEvalError, HistoryError, OutputError
from fastrank_eval._lib.files import atomic_path
from fastrank_eval._lib.log import NIGHTLY
from fastrank_eval.apps.nightly.config import NightlyConfig, folder_name
from fastrank_eval.apps.nightly.documents import documents, headline
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.periods import with_periods
from fastrank_eval.apps.nightly.reproduce import (
    check_groups,
    check_groups_file,
    folder_error,
    groups_file,
    make_folder,
    other_file,
)
from fastrank_eval.apps.nightly.text import STRIP_DAYS, strip

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


#: Names of pages and files of groups.
DATED_FILE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:\.html|-groups\.parquet)")
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
        If the folder of a label cannot be created, or another file has the name of a page.
    """
    if config.parts and config.folder is not None:
        check_page(config.folder / "index.html")
    for each in config.for_labels():
        if each.folder is None:
            continue
        _page_module().check_libraries()
        for name in ("index", *dates):
            check_page(each.folder / f"{name}.html")
        for date in dates:
            check_groups_file(each, date)
        # Do not create the folder yet: a night that fails leaves nothing.
        nearest = next(one for one in (each.folder, *each.folder.parents) if one.exists())
        if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
            problem = "may not be written" if nearest.is_dir() else "is no folder"
            raise folder_error(each, f"{str(nearest)!r} {problem}")


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
    page = config.folder / f"{night.date}.html"
    with closing(History(config.history).of(config.label)) as history:
        move_pages(config, history, night.date)
        content = _draw_page(config, config.folder, history, night)
        write_page(page, content)
        NIGHTLY.info("page written", night=str(night.date), file=str(page))
        return [page, *_write_latest(config, config.folder, history, night, content)]


def move_pages(config: NightlyConfig, history: History, date: dt.date | None = None) -> None:
    """Move what a report of one label wrote to the folder of this label.

    Files of other dates on which another label has a night stay.

    Parameters
    ----------
    config : NightlyConfig
        Of a label.
    history : History
        Of the same label.
    date : datetime.date, optional
        Of a page that is written: the old one is removed.
    """
    folder = config.folder
    if folder is None or not folder.parent.is_dir() or config.label not in history.labels():
        return
    alone = history.execute(
        "SELECT date FROM night WHERE label = ? AND date NOT IN "
        "(SELECT date FROM night WHERE label <> ?)",
        *(config.label, config.label),
    )
    moved, unnamed = {each for (each,) in alone}, history.of("")
    for path in sorted(folder.parent.iterdir()):
        match = DATED_FILE.fullmatch(path.name)
        if match is None or not path.is_file() or not is_ours(path):
            continue
        with suppress(OSError):  # what stays is no worse than before
            if match[1] == str(date) and date not in unnamed.dates():
                path.unlink()
            elif match[1] in moved and not (folder / path.name).exists():
                folder.mkdir(exist_ok=True)
                path.replace(folder / path.name)


def write_latest(config: NightlyConfig) -> None:
    """Write the pages of the latest nights, and of all labels.

    They say which dates after these nights were not evaluated.

    Raises
    ------
    FastRankEvalError
        If a page cannot be drawn or written.
    """
    for each in config.for_labels():
        if each.folder is not None and each.folder.is_dir():
            with closing(History(each.history).of(each.label)) as history:
                _write_latest(each, each.folder, history)
    write_index(config)


def _write_latest(
    config: NightlyConfig,
    folder: Path,
    history: History,
    night: Night | None = None,
    content: bytes = b"",
) -> list[Path]:
    """Write ``index.html``; the `content` of a `night` is drawn already."""
    index = folder / "index.html"
    drawn: tuple[dt.date | None, dict[dt.date, str]] = night.date if night else None, {}
    while dates := history.dates():
        latest = dates[-1], _after(history, dates[-1])
        if latest != drawn:
            if night is None or night.date != dates[-1]:
                (night,) = history.read(dates[-1], dates[-1])
                night = _with_periods(night, history)
            content, drawn = _draw_page(config, folder, history, night, latest[1]), latest
        # Another run may have stored a later night: do not replace its page.
        with history.transaction():
            if history.dates()[-1:] == dates[-1:] and _after(history, dates[-1]) == latest[1]:
                write_page(index, content)
                return [index]
    return []


def _after(history: History, date: dt.date) -> dict[dt.date, str]:
    """Return why dates after a date were not evaluated."""
    return history.failures(date + dt.timedelta(days=1))


def write_again(config: NightlyConfig, nights: Sequence[Night]) -> None:
    """Write the pages of nights as the history has them; see `write_pages`."""
    for night in nights if config.folder is not None else ():
        with History(config.history, readonly=True).of(config.label) as history:
            shown = _with_periods(night, history)
        write_pages(config, shown)


def _with_periods(night: Night, history: History) -> Night:
    """Add week, month and compositions, stored or merged."""
    return history.with_periods(night) or with_periods(night, history)


def _draw_page(
    config: NightlyConfig,
    folder: Path,
    history: History,
    last: Night,
    after: Mapping[dt.date, str] | None = None,
) -> bytes:
    first = last.date - dt.timedelta(days=config.nights - 1)
    last = replace(last, not_evaluated={**history.failures(first, last.date), **(after or {})})
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
    at = night.date
    with_night = [label for label in history.labels() if history.of(label).statuses(at, at)]
    return tuple(
        (label, address(label) if label in with_night and label != night.label else "")
        for label in history.labels()
    )


def check_page(path: Path) -> None:
    """Refuse to replace a file that is no page.

    Raises
    ------
    OutputError
    """
    if path.is_file() and (content := path.read_bytes()) and _PAGE_MARK not in content:
        raise other_file(path, "is not a page of a night")


def is_ours(path: Path) -> bool:
    """Return whether this program wrote a page, or a file of groups."""
    try:
        (check_page if path.suffix == ".html" else check_groups)(path)
    except OutputError:
        return False
    return True


def write_page(path: Path, content: bytes) -> None:
    """Write a page, and replace only a page."""
    check_page(path)
    with atomic_path(path) as part:
        part.write_bytes(content)


def _page_module() -> Any:
    """Import the module of pages, whose libraries are optional and slow."""
    return import_module("fastrank_eval.apps.nightly.page")


def labels_content(
    history: History, last: dt.date, address: Callable[[str], str], shown: str = ""
) -> dict[str, Any]:
    """Return the values for the list of labels with their last statuses.

    Parameters
    ----------
    history : History
    last : datetime.date
        The last day of the strips.
    address : callable
        Returns the address of a label.
    shown : str
        The label that the page shows.

    Returns
    -------
    dict
        ``"labels"``: for each label its name, the address of its latest night, the strip of its
        days, its latest night and its most important sentence that other labels do not share;
        empty in a report of one label. ``"common"``: the problems that all labels have on their
        last night. ``"not_evaluated"``: why dates after the last night of a label have none.
    """
    first, labels = last - dt.timedelta(days=STRIP_DAYS - 1), history.labels()
    statuses = {label: history.of(label).statuses(first, last) for label in labels}
    outcomes = {label: history.of(label).outcomes(first, last) for label in labels}
    begin = min((date for own in statuses.values() for date in own), default=last)
    nights = [
        night
        for label, own in statuses.items()
        if own
        for night in history.of(label).read(max(own), max(own))
    ]
    together = len(nights) == len(labels) > 0 and len({night.date for night in nights}) == 1
    night_of = {night.label: night for night in nights}
    told = documents(nights) if together else map(headline, nights)
    texts_of = {one["label"]: one["texts"]["sentences"] for one in told if "label" in one}
    first_texts = texts_of[labels[0]] if together else []
    common = [text for text in first_texts if all(text in of for of in texts_of.values())]
    return {
        "labels": [
            {
                "label": label,
                "address": address(label),
                "strip": strip(outcomes[label], begin, last),
                "night": night_of.get(label),
                "why": next((text for text in texts_of.get(label, ()) if text not in common), ""),
                "shown": label == shown,
            }
            for label in labels
        ],
        "common": common,
        "not_evaluated": {
            date: reason
            for label in labels
            for date, reason in history.of(label)
            .failures(max(statuses[label], default=first))
            .items()
        },
    }


def write_late_pages(config: NightlyConfig, dates: Collection[dt.date]) -> None:
    """Write the pages that are older than their nights.

    A run that is stopped after it has stored a night leaves such a page.

    Parameters
    ----------
    config : NightlyConfig
    dates : collection of datetime.date
        The nights to run: their pages are written anyway.

    Raises
    ------
    FastRankEvalError
        If a page cannot be drawn or written.
    """
    if config.folder is None or not config.history.exists():
        return
    last = max(dates)
    first = last - dt.timedelta(days=config.nights - 1)
    late: list[tuple[NightlyConfig, Night]] = []
    with suppress(HistoryError), closing(History(config.history)) as history:  # the run reports it
        history.check_report(config.report)
        late = [
            (each, night)
            for each in config.for_labels()
            if each.folder is not None
            for date, time in history.of(each.label).write_times(first, last).items()
            if date not in dates
            for page in each.folder.glob(f"{date}.html")
            if page.stat().st_mtime < time.timestamp()
            for night in history.of(each.label).read(date, date)
        ]
    for each, night in late:
        write_again(each, [night])


def write_index(config: NightlyConfig) -> Path | None:
    """Write ``index.html``, which lists the nights of all labels.

    Parameters
    ----------
    config : NightlyConfig

    Returns
    -------
    Path or None
        None without a folder, and for a report of one label.

    Raises
    ------
    FastRankEvalError
        If the page cannot be drawn or written.
    """
    folder = config.folder
    if folder is None or not config.parts:
        return None
    path = folder / "index.html"
    with closing(History(config.history)) as history, history.transaction():
        content = _index_content(config, folder, history)
        write_page(path, _page_module().render("labels.html", **content).encode())
    return path


def _index_content(config: NightlyConfig, folder: Path, history: History) -> dict[str, Any]:
    """Return the values for the page of all labels."""
    last = max(date for label in config.labels for date in history.of(label).outcomes())
    first = last - dt.timedelta(days=config.nights - 1)
    statuses = {label: history.of(label).outcomes(first, last) for label in config.labels}
    shown = sorted({date for own in statuses.values() for date in own}, reverse=True)
    nights = {date for label in config.labels for date in history.of(label).statuses(first, last)}

    def address(label: str, date: dt.date | str) -> str:
        page = f"{folder_name(label)}/{date}.html"
        return page if (folder / page).exists() else ""

    return {
        "title": config.title,
        "dates": sorted(nights, reverse=True),
        **labels_content(history, last, lambda label: address(label, "index")),
        "rows": [
            (date, [(statuses[label].get(date), address(label, date)) for label in config.labels])
            for date in shown
        ],
        "version": __version__,
    }
