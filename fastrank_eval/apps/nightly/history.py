"""Store and read the history of nights in SQLite."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import quote

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.errors import FastRankEvalError, HistoryError
from fastrank_eval.apps.nightly.history_schema import (
    APPLICATION_ID,
    COLUMNS,
    MIGRATIONS,
    PROVISIONAL,
    VERSION,
    night_from_rows,
    night_rows,
    parse_findings,
    periods_content,
    with_saved_periods,
    write_tables,
)
from fastrank_eval.apps.nightly.night import NO_LABELS, EarlierFindings, Night, SavedStates

_FIRST, _LAST = dt.date.min, dt.date.max
#: Tables with one row per night.
_ONE_ROW_TABLES = ("night", "quality", "state")
#: The most bytes of a value in SQLite.
_MAX_BYTES = 1_000_000_000
_DETAIL_TABLES = ("difference", "curve", "drift", "calibration")
_STATE = ["date", "kind", "fingerprint", "content"]
#: The kind of a state that has the week and the month of a night.
_PERIODS = "periods"
#: Days for which the values of a provisional night are kept.
_PROVISIONAL_DAYS = 28


class History:
    """The nights of one report in a file.

    Parameters
    ----------
    path : path
        An SQLite database. A missing file is created, and an older one is upgraded.
    readonly : bool
        Never create or change the file.
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
        self._patience = patience
        with self._errors("opened"):
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Lock the history and store all writes of the block, or none.

        Readers see the state before the block until it ends. Other writers wait.

        Raises
        ------
        HistoryError
            Another run has the lock for longer than `patience`.
        """
        if self._database.in_transaction:
            yield
            return
        with self._errors("written"):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")
                raise

    def claim(self, report: str) -> None:
        """Assign the history to a report.

        Parameters
        ----------
        report : str
            The name of the report: ``report`` in ``[history]`` of a configuration.

        Raises
        ------
        HistoryError
            The history keeps nights of another report. This report would replace them.
        """
        names = self._select("SELECT name FROM report")
        nights = self._select("SELECT 1 FROM night LIMIT 1")
        name = names[0][0] if names else None
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

    def write(self, night: Night, states: SavedStates | None = None) -> None:
        """Store a night and replace any night of the same date.

        Parameters
        ----------
        night : Night
        states : SavedStates, optional
            The states to merge the night with others; see `periods.with_periods`.
        """
        largest = max(map(len, states.contents.values()), default=0) if states is not None else 0
        if largest > _MAX_BYTES:
            raise HistoryError(
                f"{self.path}: cannot keep {largest:,} bytes of states of {night.date}, more than "
                f'{_MAX_BYTES:,}; keep fewer, as with states = "rows" in [history].'
            )
        date = night.date.isoformat()
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        with self.transaction():
            self._database.execute("DELETE FROM night WHERE date = ?", (date,))
            for table, rows in night_rows(night, now).items():
                columns = ["date", *COLUMNS[table]]
                rows_with_keys = [(date, *row) for row in rows]
                if table not in _ONE_ROW_TABLES:
                    columns.insert(1, "place")
                    rows_with_keys = [(date, index, *row) for index, row in enumerate(rows)]
                self._database.executemany(_insert(table, columns), rows_with_keys)
            if states is not None:
                self._database.executemany(
                    _insert("state", _STATE),
                    [(date, kind, states.fingerprint, of) for kind, of in states.contents.items()],
                )
            # The weeks and months of later nights may have this one.
            self._database.execute(
                "DELETE FROM state WHERE kind = ? AND date > ?", (_PERIODS, date)
            )
            # Only later nights of the same age are compared with provisional values.
            old = night.date - dt.timedelta(days=_PROVISIONAL_DAYS)
            self._database.execute(
                "DELETE FROM state WHERE kind = ? AND date < ?", (PROVISIONAL, old.isoformat())
            )

    def states(self, date: dt.date) -> SavedStates:
        """Return the saved states of a night, without its week and month."""
        rows = self._select(
            "SELECT kind, fingerprint, CAST(content AS BLOB) FROM state WHERE date = ? "
            "AND kind <> ?",
            date, _PERIODS,
        )  # fmt: skip
        fingerprint = next((text for _, text, _ in rows), "")
        return SavedStates({kind: bytes(content) for kind, _, content in rows}, fingerprint)

    def changes(self) -> int:
        """Return a number that other writers of the file change."""
        ((number,),) = self._select("PRAGMA data_version")
        return int(number)

    def write_periods(self, night: Night, changes: int) -> None:
        """Store the week and the month of a night, unless the history has changed.

        Parameters
        ----------
        night : Night
        changes : int
            The result of `changes` before they were merged.
        """
        with self.transaction():
            stored = self._select("SELECT 1 FROM night WHERE date = ?", night.date)
            if stored and self.changes() == changes:
                row = night.date.isoformat(), _PERIODS, "", periods_content(night)
                self._database.execute(_insert("state", _STATE, "REPLACE"), row)

    def with_periods(self, night: Night) -> Night | None:
        """Add the stored week and month to a night; None if there are none."""
        content = self.state(night.date, _PERIODS)
        if content is None:
            return None
        with suppress(ValueError, TypeError, LookupError, AttributeError):
            return with_saved_periods(night, content)
        return None

    def dates(self) -> list[dt.date]:
        """Return the dates of the nights, ascending."""
        rows = self._select("SELECT date FROM night ORDER BY date")
        with self._reading():
            return [dt.date.fromisoformat(date) for (date,) in rows]

    def read(
        self,
        first: dt.date | None = None,
        last: dt.date | None = None,
        *,
        details_from: dt.date | None = None,
        of: tuple[str, str] | None = None,
    ) -> list[Night]:
        """Read the nights from `first` to `last`.

        Parameters
        ----------
        first, last : datetime.date, optional
            By default the first and the last night.
        details_from : datetime.date, optional
            Nights before this date have no differences and curves. They take most of the reading
            time, and trends do not need them. By default all nights have them.
        of : tuple of str, optional
            A slice and a measure: read only their values, and no differences, curves and gates.

        Returns
        -------
        list of Night
            Ascending by date.
        """
        rows_by_table: dict[str, dict[str, list[Any]]] = {}
        with self._reading(), self._snapshot():
            for table in COLUMNS:
                order = "date" if table in _ONE_ROW_TABLES else "date, place"
                columns = ", ".join(f'"{name}"' for name in ("date", *COLUMNS[table]))
                begin = first or _FIRST
                if table in _DETAIL_TABLES and details_from is not None:
                    begin = max(begin, details_from)
                condition = "date BETWEEN ? AND ?"
                parameters: list[object] = [begin, last or _LAST]
                if of is not None and table == "value":
                    condition += " AND slice = ? AND measure = ?"
                    parameters += of
                elif of is not None and table not in _ONE_ROW_TABLES:
                    continue
                for date, *row in self._select(
                    f"SELECT {columns} FROM {table} "  # noqa: S608 - names of our own
                    f"WHERE {condition} ORDER BY {order}",
                    *parameters,
                ):
                    if date not in rows_by_table:
                        rows_by_table[date] = {name: [] for name in COLUMNS}
                    rows_by_table[date][table].append(row)
            return [night_from_rows(date, rows) for date, rows in rows_by_table.items()]

    def findings(self, before: dt.date, days: int) -> list[EarlierFindings]:
        """Return the findings of the days before a date, the latest first."""
        within = before - dt.timedelta(days=days), before
        skipped: dict[str, set[str]] = {}
        for date, condition in self._select(
            "SELECT date, condition FROM gate WHERE date >= ? AND date < ? AND passed "
            "AND reason LIKE 'not judged:%'",
            *within,
        ):
            skipped.setdefault(date, set()).add(condition)
        rows = self._select(
            "SELECT date, status, findings FROM night WHERE date >= ? AND date < ? "
            "ORDER BY date DESC",
            *within,
        )
        with self._reading():
            return [
                EarlierFindings(status, parse_findings(text), frozenset(skipped.get(date, ())))
                for date, status, text in rows
            ]

    def statuses(self, first: dt.date, last: dt.date) -> dict[dt.date, str]:
        """Return the status of each night from `first` to `last`."""
        rows = self._select(
            "SELECT date, status FROM night WHERE date BETWEEN ? AND ? ORDER BY date", first, last
        )
        with self._reading():
            return {dt.date.fromisoformat(date): status for date, status in rows}

    def provisional(
        self, first: dt.date | None = None, last: dt.date | None = None
    ) -> dict[dt.date, tuple[str, ...]]:
        """Return the notes of the nights without complete labels, by date.

        These are provisional nights, and nights that were judged without labels.
        """
        rows = self._select(
            "SELECT date, notes FROM night WHERE date BETWEEN ? AND ? "
            "AND (provisional OR conventions LIKE ?) ORDER BY date",
            first or _FIRST, last or _LAST, f'{{"labels":"{NO_LABELS}"%',
        )  # fmt: skip
        with self._reading():
            return {dt.date.fromisoformat(date): tuple(json.loads(notes)) for date, notes in rows}

    def volumes(self, before: dt.date, nights: int, days: int) -> list[tuple[int, float]]:
        """Return rows and CTR of nights before a date, the latest first.

        The CTR of a provisional night is NaN.
        """
        rows = self._select(
            'SELECT "rows", CASE WHEN provisional THEN NULL ELSE ctr END FROM quality '
            'JOIN night USING (date) WHERE "rows" > 0 AND date >= ? AND date < ? '
            "ORDER BY date DESC LIMIT ?",
            before - dt.timedelta(days=days), before, nights,
        )  # fmt: skip
        return [(row_count, math.nan if ctr is None else ctr) for row_count, ctr in rows]

    def differences(
        self, kind: str, first: dt.date | None = None, last: dt.date | None = None
    ) -> Iterator[tuple[dt.date, tuple[str, str, str, str], float, float]]:
        """Yield the differences of one kind, ascending by date.

        Parameters
        ----------
        kind : str
            One of `KINDS`.
        first, last : datetime.date, optional
            By default the first and the last night.

        Yields
        ------
        tuple
            Date; model, slicing (empty for all rows), slice and measure; difference; standard
            error. Numbers that do not exist are NaN.
        """
        rows = self._select(
            "SELECT date, score, slicing, slice, measure, delta, se FROM difference "
            "WHERE kind = ? AND date BETWEEN ? AND ? ORDER BY date, place",
            kind, first or _FIRST, last or _LAST,
        )  # fmt: skip
        with self._reading():
            dates = {text: dt.date.fromisoformat(text) for text in {row[0] for row in rows}}
        for date, score, by, slice_, measure, *numbers in rows:
            delta, se = (math.nan if number is None else number for number in numbers)
            yield dates[date], (score, by, slice_, measure), delta, se

    def rows(self, first: dt.date | None = None, last: dt.date | None = None) -> dict[dt.date, int]:
        """Return the number of rows of each night from `first` to `last`."""
        rows = self._select(
            'SELECT date, "rows" FROM quality WHERE date BETWEEN ? AND ? ORDER BY date',
            first or _FIRST, last or _LAST,
        )  # fmt: skip
        with self._reading():
            return {dt.date.fromisoformat(date): row_count for date, row_count in rows}

    def state(self, date: dt.date, kind: str) -> bytes | None:
        """Return a saved state of a night; see `run.KINDS`."""
        rows = self._select(
            "SELECT CAST(content AS BLOB) FROM state WHERE date = ? AND kind = ?", date, kind
        )
        return bytes(rows[0][0]) if rows else None

    def states_before(
        self, before: dt.date, kind: str, nights: int, days: int
    ) -> list[tuple[dt.date, bytes]]:
        """Return states of nights with sound rows, the latest first."""
        rows = self._select(
            "SELECT state.date, CAST(content AS BLOB) FROM state "
            "JOIN night ON night.date = state.date JOIN quality ON quality.date = state.date "
            'WHERE kind = ? AND status <> \'data_quality\' AND "rows" > 0 '
            "AND state.date >= ? AND state.date < ? ORDER BY state.date DESC LIMIT ?",
            kind, before - dt.timedelta(days=days), before, nights,
        )  # fmt: skip
        with self._reading():
            return [(dt.date.fromisoformat(date), bytes(content)) for date, content in rows]

    def repeated(self, fingerprint: str, before: dt.date) -> dt.date | None:
        """Return the latest night before a date with a fingerprint, or None."""
        ((date,),) = self._select(
            "SELECT max(date) FROM state WHERE fingerprint = ? AND fingerprint <> '' AND date < ?",
            fingerprint, before,
        )  # fmt: skip
        with self._reading():
            return None if date is None else dt.date.fromisoformat(date)

    def repeats(self, first: dt.date, last: dt.date) -> dict[dt.date, dt.date]:
        """Map nights to the earlier night with the same rows."""
        rows = self._select(
            "SELECT late.date, max(early.date) FROM state AS late JOIN state AS early "
            "ON early.fingerprint = late.fingerprint AND early.date < late.date "
            "WHERE late.fingerprint <> '' AND late.date BETWEEN ? AND ? GROUP BY late.date",
            first, last,
        )  # fmt: skip
        with self._reading():
            return {dt.date.fromisoformat(d): dt.date.fromisoformat(earlier) for d, earlier in rows}

    def state_bytes(self, first: dt.date | None = None, last: dt.date | None = None) -> int:
        """Return the total bytes of saved states without reading them."""
        ((size,),) = self._select(
            "SELECT coalesce(sum(length(content)), 0) FROM state WHERE date BETWEEN ? AND ?",
            first or _FIRST, last or _LAST,
        )  # fmt: skip
        return int(size)

    def export(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write every table as Parquet, for programs that do not read SQLite.

        Parameters
        ----------
        folder : path
            Created if missing. Files such as ``value.parquet`` in it are replaced if they are
            tables of a history.

        Returns
        -------
        list of Path

        Raises
        ------
        HistoryError, OutputError
        """
        with self._reading(), self._snapshot():
            return write_tables(self._database, Path(folder))

    def copy(self, path: str | os.PathLike[str]) -> None:
        """Copy the history to a new file."""
        with self._errors("copied"), closing(sqlite3.connect(path)) as target:
            self._database.backup(target)

    @contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        """Turn errors of SQLite during an action, such as "opened", into ours."""
        try:
            yield
        except sqlite3.Error as error:
            raise HistoryError(f"{self.path}: cannot be {action}: {self._why(error)}") from error

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn errors of reading, and of content that no version has written."""
        try:
            with self._errors("read"):
                yield
        except FastRankEvalError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, StopIteration) as error:
            raise HistoryError(
                f"{self.path}: is damaged: {type(error).__name__}: {error}. Take the file from a "
                "backup, or name another and run its nights again."
            ) from error

    def _select(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; dates as SQLite stores them."""
        texts = [each.isoformat() if isinstance(each, dt.date) else each for each in parameters]
        with self._reading():
            return self._database.execute(statement, texts).fetchall()

    def _why(self, error: sqlite3.Error) -> str:
        code = getattr(error, "sqlite_errorname", "")
        if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return (
                f"another run has locked it for more than {self._patience:g} seconds. Wait until "
                "it ends, or stop it, and start again."
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
                "a run was killed while it wrote, or the file is not readable. Open it once with "
                "write permission ('fastrank-eval nightly' does), which undoes the unfinished run."
            )
        return f"{error}."

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Read one state of the tables, even if another run writes."""
        if self._database.in_transaction:
            yield
            return
        self._database.execute("BEGIN")
        try:
            yield
        finally:
            self._database.execute("ROLLBACK")

    def _prepare(self) -> None:
        with self._reading(), self._errors("opened"):
            # A commit survives a loss of power: EXTRA also syncs the folder of the journal.
            self._database.execute("PRAGMA synchronous = EXTRA")
            # A migration may recreate a table that others refer to.
            self._database.execute("PRAGMA foreign_keys = OFF")
            # Read both in one snapshot: another run may be creating the tables.
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
            # Another run may have upgraded the file meanwhile.
            for step in range(self._version(), VERSION):
                for statement in MIGRATIONS[step].split(";"):
                    if statement.strip():
                        self._database.execute(statement)
                self._database.execute(f"PRAGMA user_version = {step + 1}")
            self._database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._database.execute("PRAGMA foreign_keys = ON")

    def _version(self) -> int:
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        (application_id,) = self._database.execute("PRAGMA application_id").fetchone()
        (tables,) = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application_id != APPLICATION_ID:
            raise HistoryError(
                f"{self.path}: is a database of something else, not a history of nights. Name "
                "another file."
            )
        if not tables and self.readonly:
            raise HistoryError(f"{self.path}: is empty, not a history of nights.")
        return int(version)


@contextmanager
def open_history(path: Path) -> Iterator[History]:
    """Open a history to read it; without a file, an empty one."""
    if path.exists():
        with History(path, readonly=True) as history:
            yield history
        return
    with TemporaryDirectory() as folder, History(Path(folder, "history.db")) as history:
        yield history


def _insert(table: str, columns: list[str], verb: str = "INSERT") -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    placeholders = ", ".join("?" * len(columns))
    return f"{verb} INTO {table} ({names}) VALUES ({placeholders})"
