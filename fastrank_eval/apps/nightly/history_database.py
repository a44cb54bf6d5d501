"""Open the SQLite file of a history, lock it and explain its errors."""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.errors import FastRankEvalError, HistoryError
from fastrank_eval._lib.log import NIGHTLY
from fastrank_eval.apps.nightly.history_schema import (
    APPLICATION_ID,
    MIGRATIONS,
    VERSION,
    check_types,
)


class HistoryDatabase:
    """The file of a `History`, which describes the parameters."""

    @typed
    def __init__(
        self, path: str | os.PathLike[str], *, readonly: bool = False, patience: float = 60.0
    ) -> None:
        self.path = Path(path)
        self.readonly = readonly
        self.label = ""
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

    def changes(self) -> int:
        """Return a number that other writers of the file change."""
        ((number,),) = self._select("PRAGMA data_version")
        return int(number)

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
        except (
            ValueError, TypeError, LookupError, AttributeError, StopIteration, ArithmeticError,
            RecursionError,
        ) as error:  # fmt: skip
            raise HistoryError(
                f"{self.path}: is damaged: {type(error).__name__}: {error}. Take the file from a "
                "backup, or name another and run its nights again."
            ) from error

    def _select(
        self, statement: str, *parameters: object, types: Sequence[str] = ()
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; dates as SQLite stores them.

        Parameters
        ----------
        statement : str
        *parameters : object
        types : sequence of str
            Annotations of the types of the columns, if they are checked.
        """
        texts = [each.isoformat() if isinstance(each, dt.date) else each for each in parameters]
        with self._reading():
            rows = self._database.execute(statement, texts).fetchall()
            for row in {tuple(map(type, row)): row for row in rows}.values() if types else ():
                check_types(dict(enumerate(row)), dict(enumerate(types)))
            return rows

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
            version = self._version()
            for step in range(version, VERSION):
                for statement in MIGRATIONS[step].split(";"):
                    if statement.strip():
                        self._database.execute(statement)
                self._database.execute(f"PRAGMA user_version = {step + 1}")
            self._database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        event = "history updated" if version else "history made"
        NIGHTLY.info(event, file=str(self.path), version=VERSION, before=version or None)
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
