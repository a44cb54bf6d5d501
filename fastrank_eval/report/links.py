"""Where the pages of nights are, as one of them refers to the others."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import ClassVar, Protocol
from urllib.parse import urlencode

from fastrank_eval.report.nights import NightValue

__all__ = ["LONGEST_QUERY", "FileLinks", "Links", "WebLinks"]

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
        asked = {"slice": value.slice, "measure": value.measure}
        query = urlencode(asked, errors="replace")
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
