"""Write the page of nights by label, and show labels on other pages."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from fastrank_eval._lib.errors import HistoryError
from fastrank_eval.apps.nightly.config import NightlyConfig, folder_name
from fastrank_eval.apps.nightly.documents import documents, headline
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.pages import check_page, check_pages, write_again, write_page
from fastrank_eval.apps.nightly.text import STATUSES

#: Days of a strip of statuses.
STRIP_DAYS = 30


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
        last night.
    """
    first, labels = last - dt.timedelta(days=STRIP_DAYS - 1), history.labels()
    statuses = {label: history.of(label).statuses(first, last) for label in labels}
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
                "strip": _strip(statuses[label], begin, last),
                "night": night_of.get(label),
                "why": next((text for text in texts_of.get(label, ()) if text not in common), ""),
                "shown": label == shown,
            }
            for label in labels
        ],
        "common": common,
    }


def _strip(statuses: Mapping[dt.date, str], first: dt.date, last: dt.date) -> list[tuple[str, str]]:
    """Return the class and the meaning of the bar of each day."""
    days = [first + dt.timedelta(days=day) for day in range((last - first).days + 1)]
    known = [(day, STATUSES.get(statuses.get(day, ""))) for day in days]
    return [
        (f"{one.bar} {one.tone}", f"{day}: {one.name}") if one else ("gap", f"{day}: no night")
        for day, one in known
    ]


def check_all_pages(config: NightlyConfig, dates: Sequence[dt.date]) -> None:
    """Check the pages of every label before rows are read; see `check_pages`.

    Parameters
    ----------
    config : NightlyConfig
    dates : sequence of datetime.date

    Raises
    ------
    ArgumentError, OutputError
    """
    for each in config.for_labels():
        check_pages(each, dates)
    if config.parts and config.folder is not None:
        check_page(config.folder / "index.html")


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
        history.claim(config.report, config.labels or [config.options["label"]])
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
    render = import_module("fastrank_eval.apps.nightly.page").render
    with closing(History(config.history)) as history, history.transaction():
        content = _index_content(config, folder, history)
        write_page(path, render("labels.html", **content).encode())
    return path


def _index_content(config: NightlyConfig, folder: Path, history: History) -> dict[str, Any]:
    """Return the values for the page of all labels."""
    last = max(date for label in config.labels for date in history.of(label).dates())
    first = last - dt.timedelta(days=config.nights - 1)
    statuses = {label: history.of(label).statuses(first, last) for label in config.labels}
    shown = sorted({date for own in statuses.values() for date in own}, reverse=True)

    def address(label: str, date: dt.date | str) -> str:
        page = f"{folder_name(label)}/{date}.html"
        return page if (folder / page).exists() else ""

    return {
        "title": config.title,
        **labels_content(history, last, lambda label: address(label, "index")),
        "rows": [
            (date, [(statuses[label].get(date), address(label, date)) for label in config.labels])
            for date in shown
        ],
        "version": import_module("fastrank_eval").__version__,
    }
