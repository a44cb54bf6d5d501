"""What a file of history refuses, in our words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fastrank_eval.errors import FastRankEvalError, HistoryError

__all__ = ["HistoryErrors"]


@dataclass(frozen=True)
class HistoryErrors:
    """Turns errors into `HistoryError`.

    Parameters
    ----------
    path : Path
    readonly : bool
    patience : float
        Seconds that it is waited for others.
    """

    path: Path
    readonly: bool
    patience: float

    @contextmanager
    def told(self, done: str) -> Iterator[None]:
        """Say what SQLite refuses to be done."""
        try:
            yield
        except sqlite3.Error as error:
            raise HistoryError(f"{self.path}: cannot be {done}: {self._why(error)}") from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Say what SQLite refuses to read, and what it gives that no version has written."""
        try:
            with self.told("read"):
                yield
        except FastRankEvalError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, StopIteration) as error:
            raise HistoryError(
                f"{self.path}: is damaged: {type(error).__name__}: {error}. Take the file from a "
                "backup, or name another and run its nights again."
            ) from error

    def _why(self, error: sqlite3.Error) -> str:
        code = getattr(error, "sqlite_errorname", "")
        if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return (
                f"another run has held it for more than {self.patience:g} seconds. Wait for its "
                "end, or end it, and start again."
            )
        if code == "SQLITE_NOTADB":
            return "it is no SQLite database. Name another file."
        if self.path.is_dir():
            return "it is a folder; name the file in it, such as history.db."
        if not self.path.parent.is_dir():
            return f"folder {str(self.path.parent)!r} does not exist; create it first."
        if self.readonly and not self.path.exists():
            return "there is no such file; 'fastrank-eval nightly' makes it."
        if self.readonly and code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
            return (
                "a run was killed while it wrote, or the file may not be read. Open it once with "
                "the right to write ('fastrank-eval nightly' does), which takes back the half."
            )
        return f"{error}."
