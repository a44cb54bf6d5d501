"""The history that a path names now, whatever became of the file it named before."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fastrank_eval.errors import HistoryError
from fastrank_eval.report.history import History
from fastrank_eval.report.nights import Night

__all__ = ["CurrentHistory"]


class CurrentHistory:
    """Reads a history, and reads on in the file that has taken its place.

    Parameters
    ----------
    path : path
    patience : float
        As of `History`.

    Raises
    ------
    HistoryError
        As `History` does; whenever it is read, also if the file has gone.
    """

    def __init__(self, path: str | os.PathLike[str], patience: float) -> None:
        self._path, self._patience = Path(path), patience
        self._file = self._named()
        self._opened: History | None = self._open()

    def close(self) -> None:
        """Let the file go."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def dates(self) -> list[dt.date]:
        """As of `History`."""
        return self._now().dates()

    def read(
        self,
        first: dt.date,
        last: dt.date,
        *,
        whole_from: dt.date | None = None,
        of: tuple[str, str] | None = None,
    ) -> list[Night]:
        """As of `History`."""
        return self._now().read(first, last, whole_from=whole_from, of=of)

    def rows(self, first: dt.date, last: dt.date) -> Mapping[dt.date, int]:
        """As of `History`."""
        return self._now().rows(first, last)

    def repeats(self, first: dt.date, last: dt.date) -> Mapping[dt.date, dt.date]:
        """As of `History`."""
        return self._now().repeats(first, last)

    def repeated(self, fingerprint: str, before: dt.date) -> dt.date | None:
        """As of `History`."""
        return self._now().repeated(fingerprint, before)

    def state(self, date: dt.date, kind: str) -> bytes | None:
        """As of `History`."""
        return self._now().state(date, kind)

    def state_bytes(self, first: dt.date, last: dt.date) -> int:
        """As of `History`."""
        return self._now().state_bytes(first, last)

    def _now(self) -> History:
        named = self._named()
        if named is None and self._file is not None:
            self.close()
            raise HistoryError(f"{self._path}: is gone; put it back, and load the page again.")
        if self._opened is None or named != self._file:
            self.close()
            self._opened, self._file = self._open(), named
        return self._opened

    def _open(self) -> History:
        return History(self._path, readonly=True, patience=self._patience)

    def _named(self) -> tuple[int, int] | None:
        with suppress(OSError):
            found = self._path.stat()
            return found.st_dev, found.st_ino
        return None
