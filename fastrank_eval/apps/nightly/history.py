"""The history of nights, in SQLite."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.errors import FastRankEvalError, HistoryError
from fastrank_eval.apps.nightly.history_schema import (
    APPLICATION_ID,
    COLUMNS,
    MIGRATIONS,
    VERSION,
    findings_of,
    night_of,
    rows_of,
)
from fastrank_eval.apps.nightly.night import EarlierFindings, Night, SavedStates

__all__ = ["History", "HistoryErrors"]


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


_FIRST, _LAST = dt.date.min, dt.date.max
#: Tables with one row a night.
_SINGLE = ("night", "quality", "state")
#: What SQLite takes as one value.
_MOST_BYTES = 1_000_000_000
_OF_WHOLE_NIGHTS = ("difference", "curve")


class History:
    """The nights of one report, kept in a file.

    Parameters
    ----------
    path : path
        An SQLite database; made if it is not there, brought up to date if it is older.
    readonly : bool
        Never write, nor make or change the file.
    patience : float
        Seconds to wait for another run that is writing.

    Raises
    ------
    HistoryError
        The file is no history, was written by a later version, or cannot be opened.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, History(f"{folder}/history.db") as history:
    ...     history.dates()
    []
    """

    @typed
    def __init__(
        self, path: str | os.PathLike[str], *, readonly: bool = False, patience: float = 60.0
    ) -> None:
        self.path = Path(path)
        self.readonly = readonly
        self._errors = HistoryErrors(self.path, readonly, patience)
        with self._errors.told("opened"):
            mode = "ro" if readonly else "rwc"
            name = quote(os.fsencode(self.path.absolute()), safe="/")
            self._database = sqlite3.connect(
                f"file:{name}?mode={mode}", uri=True, timeout=patience, isolation_level=None
            )
        try:
            self._prepare()
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go; what was written stays."""
        self._database.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the history alone: all that is written meanwhile is kept, or nothing.

        Readers see the state before it until it ends. Another that writes waits.

        Raises
        ------
        HistoryError
            Another run holds it for longer than the patience given.
        """
        if self._database.in_transaction:
            yield
            return
        with self._errors.told("written"):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")
                raise

    def claim(self, report: str) -> None:
        """Make the history that of a report, unless it keeps the nights of another.

        Parameters
        ----------
        report : str
            What names it, as ``report`` in ``[history]`` of a configuration does.

        Raises
        ------
        HistoryError
            It keeps nights of a report of another name, which those of this one would replace.
        """
        with self._errors.reading():
            found = self._database.execute("SELECT name FROM report").fetchone()
            nights = self._database.execute("SELECT 1 FROM night LIMIT 1").fetchone()
        name = found[0] if found else None
        if name is not None and name != report and nights:
            raise HistoryError(
                f"{self.path}: keeps the nights of the report {name!r}, which those of {report!r} "
                "would replace. Name another file in [history], as in file = "
                f'"{report}.db"; or, if it is the same report under another name, write report '
                f"= {json.dumps(name, ensure_ascii=False)} there."
            )
        if self.readonly or name == report:
            return
        with self.transaction():
            self._database.execute("DELETE FROM report")
            self._database.execute("INSERT INTO report (name) VALUES (?)", (report,))

    def write(self, night: Night, kept: SavedStates | None = None) -> None:
        """Keep a night, in place of the one of that date if there is one.

        Parameters
        ----------
        night : Night
        kept : SavedStates, optional
            What it takes to merge the night with others; see `periods.with_periods`.
        """
        largest = max(map(len, kept.contents.values()), default=0) if kept is not None else 0
        if largest > _MOST_BYTES:
            raise HistoryError(
                f"{self.path}: cannot keep {largest:,} bytes of states of {night.date}, more than "
                f'{_MOST_BYTES:,}; keep fewer, as with states = "rows" in [history].'
            )
        date = night.date.isoformat()
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        with self.transaction():
            self._database.execute("DELETE FROM night WHERE date = ?", (date,))
            for table, rows in rows_of(night, now).items():
                columns = ["date", *COLUMNS[table]]
                keyed = [(date, *row) for row in rows]
                if table not in _SINGLE:
                    columns.insert(1, "place")
                    keyed = [(date, place, *row) for place, row in enumerate(rows)]
                self._database.executemany(_insert(table, columns), keyed)
            if kept is not None:
                self._database.executemany(
                    _insert("state", ["date", "kind", "fingerprint", "content"]),
                    [(date, kind, kept.fingerprint, of) for kind, of in kept.contents.items()],
                )

    def dates(self, first: dt.date | None = None, last: dt.date | None = None) -> list[dt.date]:
        """The nights that are kept from one date to another, both included, ascending."""
        with self._errors.reading():
            rows = self._database.execute(
                "SELECT date FROM night WHERE date BETWEEN ? AND ? ORDER BY date",
                _between(first, last),
            )
            return [dt.date.fromisoformat(date) for (date,) in rows]

    def read(
        self,
        first: dt.date | None = None,
        last: dt.date | None = None,
        *,
        whole_from: dt.date | None = None,
        of: tuple[str, str] | None = None,
    ) -> list[Night]:
        """The nights from one date to another, both included, as they were written.

        Parameters
        ----------
        first, last : datetime.date, optional
            By default all there are.
        whole_from : datetime.date, optional
            Nights before this date come without differences and curves, of which a trend needs
            none: most of the time that reading takes. By default all come whole.
        of : tuple of str, optional
            A slice and a measure: nights come with values of these alone, and without
            differences, curves and gates.

        Returns
        -------
        list of Night
            Ascending by date.
        """
        found: dict[str, dict[str, list[Any]]] = {}
        with self._errors.reading(), self._snapshot():
            for table in COLUMNS:
                order = "date" if table in _SINGLE else "date, place"
                columns = ", ".join(f'"{name}"' for name in ("date", *COLUMNS[table]))
                begin, end = _between(first, last)
                if table in _OF_WHOLE_NIGHTS and whole_from is not None:
                    begin = max(begin, whole_from.isoformat())
                requested, given = "date BETWEEN ? AND ?", [begin, end]
                if of is not None and table == "value":
                    requested, given = f"{requested} AND slice = ? AND measure = ?", [*given, *of]
                elif of is not None and table not in _SINGLE:
                    continue
                rows = self._database.execute(
                    f"SELECT {columns} FROM {table} "  # noqa: S608 - names of our own
                    f"WHERE {requested} ORDER BY {order}",
                    given,
                )
                for date, *row in rows:
                    if date not in found:
                        found[date] = {name: [] for name in COLUMNS}
                    found[date][table].append(row)
            return [night_of(date, rows) for date, rows in found.items()]

    def findings(self, before: dt.date, days: int) -> list[EarlierFindings]:
        """What was found on the nights of some days before a date, the latest first."""
        with self._errors.reading():
            within = ((before - dt.timedelta(days=days)).isoformat(), before.isoformat())
            skipped: dict[str, set[str]] = {}
            for date, condition in self._database.execute(
                "SELECT date, condition FROM gate WHERE date >= ? AND date < ? AND passed "
                "AND reason LIKE 'not judged:%'",
                within,
            ):
                skipped.setdefault(date, set()).add(condition)
            rows = self._database.execute(
                "SELECT date, status, findings FROM night WHERE date >= ? AND date < ? "
                "ORDER BY date DESC",
                within,
            )
            return [
                EarlierFindings(status, findings_of(found), frozenset(skipped.get(date, ())))
                for date, status, found in rows
            ]

    def volumes(self, before: dt.date, nights: int, days: int) -> list[tuple[int, float]]:
        """Rows and CTR of the last nights with rows, of some days before a date, latest first."""
        with self._errors.reading():
            first = before - dt.timedelta(days=days)
            rows = self._database.execute(
                'SELECT "rows", ctr FROM quality WHERE "rows" > 0 AND date >= ? AND date < ? '
                "ORDER BY date DESC LIMIT ?",
                (first.isoformat(), before.isoformat(), nights),
            )
            return [(number, math.nan if ctr is None else ctr) for number, ctr in rows]

    def rows(self, first: dt.date | None = None, last: dt.date | None = None) -> dict[dt.date, int]:
        """How many rows each night has, from one date to another, both included."""
        with self._errors.reading():
            rows = self._database.execute(
                'SELECT date, "rows" FROM quality WHERE date BETWEEN ? AND ? ORDER BY date',
                _between(first, last),
            )
            return {dt.date.fromisoformat(date): number for date, number in rows}

    def state(self, date: dt.date, kind: str) -> bytes | None:
        """What `write` was given to merge a night; see `night_state.KINDS`."""
        with self._errors.reading():
            found = self._database.execute(
                "SELECT CAST(content AS BLOB) FROM state WHERE date = ? AND kind = ?",
                (date.isoformat(), kind),
            ).fetchone()
            return None if found is None else bytes(found[0])

    def repeated(self, fingerprint: str, before: dt.date) -> dt.date | None:
        """The latest night before a date that has the rows of a fingerprint; None without rows."""
        with self._errors.reading():
            (date,) = self._database.execute(
                "SELECT max(date) FROM state WHERE fingerprint = ? AND fingerprint <> '' "
                "AND date < ?",
                (fingerprint, before.isoformat()),
            ).fetchone()
            return None if date is None else dt.date.fromisoformat(date)

    def repeats(self, first: dt.date, last: dt.date) -> dict[dt.date, dt.date]:
        """Nights from one date to another whose rows are those of an earlier one, and which."""
        with self._errors.reading():
            rows = self._database.execute(
                "SELECT late.date, max(early.date) FROM state AS late JOIN state AS early "
                "ON early.fingerprint = late.fingerprint AND early.date < late.date "
                "WHERE late.fingerprint <> '' AND late.date BETWEEN ? AND ? GROUP BY late.date",
                _between(first, last),
            )
            return {dt.date.fromisoformat(d): dt.date.fromisoformat(other) for d, other in rows}

    def state_bytes(self, first: dt.date | None = None, last: dt.date | None = None) -> int:
        """How much all `state` of these nights would read, found without reading it."""
        with self._errors.reading():
            (number,) = self._database.execute(
                "SELECT coalesce(sum(length(content)), 0) FROM state WHERE date BETWEEN ? AND ?",
                _between(first, last),
            ).fetchone()
            return int(number)

    def export(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write every table as Parquet, for programs that do not read SQLite.

        Parameters
        ----------
        folder : path
            Made if it is not there; ``value.parquet`` and the others in it are replaced, where
            they are tables of a history.

        Returns
        -------
        list of Path

        Raises
        ------
        HistoryError, OutputError
        """
        from fastrank_eval.apps.nightly.history_schema import write_tables

        with self._errors.reading(), self._snapshot():
            return write_tables(self._database, Path(folder))

    def copy(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to another file, which is made."""
        with self._errors.told("copied"), closing(sqlite3.connect(path)) as made:
            self._database.backup(made)

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """See one state of the tables, whoever writes meanwhile."""
        if self._database.in_transaction:
            yield
            return
        self._database.execute("BEGIN")
        try:
            yield
        finally:
            self._database.execute("ROLLBACK")

    def _prepare(self) -> None:
        with self._errors.reading(), self._errors.told("opened"):
            # What a commit has promised outlives a loss of power: the journal is gone for good.
            self._database.execute("PRAGMA synchronous = EXTRA")
            # A step may make anew a table that others refer to.
            self._database.execute("PRAGMA foreign_keys = OFF")
            # In one look: another run may be making the tables.
            with self._snapshot():
                version = self._version()
        if version < 0:
            raise HistoryError(f"{self.path}: is damaged: its tables have version {version}.")
        if version > VERSION:
            raise HistoryError(
                f"{self.path}: was written by a later fastrank_eval (version {version} of its "
                f"tables; this one knows {VERSION}). Update fastrank_eval, or name another file."
            )
        if version == VERSION:
            self._database.execute("PRAGMA foreign_keys = ON")
            return
        if self.readonly:
            raise HistoryError(
                f"{self.path}: has tables of version {version}, this fastrank_eval reads "
                f"{VERSION}. Run 'fastrank-eval nightly' on it once, which brings it up to date."
            )
        with self.transaction():
            # Another run may have done it meanwhile.
            for step in range(self._version(), VERSION):
                for statement in MIGRATIONS[step].split(";"):
                    if statement.strip():
                        self._database.execute(statement)
                self._database.execute(f"PRAGMA user_version = {step + 1}")
            self._database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._database.execute("PRAGMA foreign_keys = ON")

    def _version(self) -> int:
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        (mark,) = self._database.execute("PRAGMA application_id").fetchone()
        (tables,) = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and mark != APPLICATION_ID:
            raise HistoryError(
                f"{self.path}: is a database of something else, not a history of nights. Name "
                "another file."
            )
        if not tables and self.readonly:
            raise HistoryError(f"{self.path}: is empty, not a history of nights.")
        return int(version)


def _insert(table: str, columns: list[str]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    places = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608 - names of our own


def _between(first: dt.date | None, last: dt.date | None) -> tuple[str, str]:
    return (first or _FIRST).isoformat(), (last or _LAST).isoformat()
