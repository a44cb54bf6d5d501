"""Store and read the history of nights in SQLite."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastrank_eval._lib.errors import HistoryError
from fastrank_eval.apps.nightly.history_database import HistoryDatabase
from fastrank_eval.apps.nightly.history_schema import (
    COLUMNS,
    PROVISIONAL,
    check_types,
    name_labels,
    night_from_rows,
    night_rows,
    parse_findings,
    periods_content,
    with_saved_periods,
    write_tables,
)
from fastrank_eval.apps.nightly.night import (
    NO_LABELS,
    EarlierFindings,
    GateOutcome,
    Night,
    SavedStates,
)

_FIRST, _LAST = dt.date.min, dt.date.max
#: Tables with one row per night.
_ONE_ROW_TABLES = ("night", "quality", "state")
#: The most bytes of a value in SQLite.
_MAX_BYTES = 1_000_000_000
_DETAIL_TABLES = ("difference", "curve", "drift", "calibration")
_STATE = ["date", "label_name", "kind", "fingerprint", "content"]
#: The kind of a state that has the week and the month of a night.
_PERIODS = "periods"
#: Days for which the values of a provisional night are kept.
_PROVISIONAL_DAYS = 28


class History(HistoryDatabase):
    """The nights of one report in a file.

    A report of several labels has a night for each label and date. `of` selects the label.

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

    def of(self, label: str) -> History:
        """Return the history of a label; both share the open file.

        Parameters
        ----------
        label : str
            One of `labels`; empty in a report of one label.
        """
        history = copy(self)
        history.label = label
        return history

    def labels(self) -> tuple[str, ...]:
        """Return the labels of the report; none in a report of one label."""
        rows = self._select("SELECT labels FROM report", types=["str"])
        with self._reading():
            return _texts(rows[0][0]) if rows else ()

    def claim(self, report: str, labels: Sequence[str] = ("",)) -> None:
        """Assign the history to a report.

        If the labels have changed, nights get or lose the name of their label; see `name_labels`.

        Parameters
        ----------
        report : str
            The name of the report: ``report`` in ``[history]`` of a configuration.
        labels : sequence of str
            The columns of its labels.

        Raises
        ------
        HistoryError
            The history keeps nights of another report. This report would replace them.
        """
        names = self._select("SELECT name FROM report", types=["str"])
        nights = self._select("SELECT 1 FROM night LIMIT 1")
        name = names[0][0] if names else None
        if name is not None and name != report and nights:
            raise HistoryError(
                f"{self.path}: keeps the nights of the report {name!r}, which those of {report!r} "
                "would replace. Name another file in [history], as in file = "
                f'"{report}.db"; or, if it is the same report under another name, write report '
                f"= {json.dumps(name, ensure_ascii=False)} there."
            )
        if self.readonly or (name == report and not self.names_nights(labels)):
            return
        several = labels if len(labels) > 1 else ()
        with self._reading(), self.transaction():
            name_labels(self._database, labels)
            self._database.execute("DELETE FROM report")
            self._database.execute(
                "INSERT INTO report (name, labels) VALUES (?, ?)",
                (report, json.dumps(several, ensure_ascii=False)),
            )

    def names_nights(self, labels: Sequence[str]) -> bool:
        """Return whether `claim` may change the names of labels of nights."""
        if len(labels) > 1 or self.labels():
            return tuple(labels) != self.labels()
        return bool(self._select("SELECT 1 FROM night WHERE label_name <> '' LIMIT 1"))

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
                f"{self.path}: cannot keep {largest:,} bytes of states of one night, more than "
                f'{_MAX_BYTES:,}; keep fewer, as with states = "rows" in [history].'
            )
        keys = night.date.isoformat(), night.label
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        with self.transaction():
            self._database.execute("DELETE FROM night WHERE date = ? AND label_name = ?", keys)
            for table, rows in night_rows(night, now).items():
                columns = ["date", "label_name", *COLUMNS[table]]
                rows_with_keys = [(*keys, *row) for row in rows]
                if table not in _ONE_ROW_TABLES:
                    columns.insert(2, "place")
                    rows_with_keys = [(*keys, index, *row) for index, row in enumerate(rows)]
                self._database.executemany(_insert(table, columns), rows_with_keys)
            if states is not None:
                self._database.executemany(
                    _insert("state", _STATE),
                    [(*keys, kind, states.fingerprint, of) for kind, of in states.contents.items()],
                )
            # The weeks and months of later nights may have this one.
            self._database.execute(
                "DELETE FROM state WHERE date > ? AND label_name = ? AND kind = ?",
                (*keys, _PERIODS),
            )
            # Only later nights of the same age are compared with provisional values.
            old = night.date - dt.timedelta(days=_PROVISIONAL_DAYS)
            self._database.execute(
                "DELETE FROM state WHERE date < ? AND label_name = ? AND kind = ?",
                (old.isoformat(), night.label, PROVISIONAL),
            )

    def states(self, date: dt.date) -> SavedStates:
        """Return the saved states of a night, without its week and month."""
        rows = self._select(
            "SELECT kind, fingerprint, CAST(content AS BLOB) FROM state WHERE label_name = ? "
            "AND date = ? AND kind <> ?",
            self.label, date, _PERIODS, types=["str", "str", "bytes"],
        )  # fmt: skip
        fingerprint = next((text for _, text, _ in rows), "")
        return SavedStates({kind: bytes(content) for kind, _, content in rows}, fingerprint)

    def write_periods(self, night: Night, changes: int) -> None:
        """Store the week and the month of a night, unless the history has changed.

        Parameters
        ----------
        night : Night
        changes : int
            The result of `changes` before they were merged.
        """
        with self.transaction():
            keys = night.date.isoformat(), night.label
            stored = self._select("SELECT 1 FROM night WHERE date = ? AND label_name = ?", *keys)
            if stored and self.changes() == changes:
                row = *keys, _PERIODS, "", periods_content(night)
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
        rows = self._select("SELECT date FROM night WHERE label_name = ? ORDER BY date", self.label)
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
                condition = "label_name = ? AND date BETWEEN ? AND ?"
                parameters: list[object] = [self.label, begin, last or _LAST]
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
            label = self.label
            return [night_from_rows(date, rows, label) for date, rows in rows_by_table.items()]

    def findings(self, before: dt.date, days: int) -> list[EarlierFindings]:
        """Return the findings of the days before a date, the latest first."""
        within = self.label, before - dt.timedelta(days=days), before
        skipped: dict[str, set[str]] = {}
        for date, condition, kind in self._select(
            "SELECT date, condition, kind FROM gate WHERE label_name = ? AND date >= ? "
            "AND date < ? AND passed AND reason LIKE 'not judged:%'",
            *within, types=["str", "str", "str"],
        ):  # fmt: skip
            outcome = GateOutcome(condition, True, kind=kind)
            skipped.setdefault(date, set()).add(outcome.text)
        rows = self._select(
            "SELECT date, status, findings FROM night WHERE label_name = ? AND date >= ? "
            "AND date < ? ORDER BY date DESC",
            *within, types=["str", "str", "str"],
        )  # fmt: skip
        with self._reading():
            return [
                EarlierFindings(status, parse_findings(text), frozenset(skipped.get(date, ())))
                for date, status, text in rows
            ]

    def statuses(self, first: dt.date, last: dt.date) -> dict[dt.date, str]:
        """Return the status of each night from `first` to `last`."""
        rows = self._select(
            "SELECT date, status FROM night WHERE label_name = ? AND date BETWEEN ? AND ? "
            "ORDER BY date",
            self.label, first, last, types=["str", "str"],
        )  # fmt: skip
        with self._reading():
            return {dt.date.fromisoformat(date): status for date, status in rows}

    def write_times(self, first: dt.date, last: dt.date) -> dict[dt.date, dt.datetime]:
        """Return the time at which each night from `first` to `last` was written."""
        rows = self._select(
            "SELECT date, written_at FROM night WHERE label_name = ? AND written_at <> '' "
            "AND date BETWEEN ? AND ? ORDER BY date",
            self.label, first, last,
        )  # fmt: skip
        with self._reading():
            return {dt.date.fromisoformat(d): dt.datetime.fromisoformat(at) for d, at in rows}

    def provisional(
        self,
        first: dt.date | None = None,
        last: dt.date | None = None,
        *,
        unlabelled: bool = True,
    ) -> dict[dt.date, tuple[str, ...]]:
        """Return the notes of the nights without complete labels, by date.

        These are provisional nights and, if `unlabelled`, nights that were judged without labels.
        """
        rows = self._select(
            "SELECT date, notes FROM night WHERE label_name = ? AND date BETWEEN ? AND ? "
            "AND (provisional OR ? AND conventions LIKE ?) ORDER BY date",
            self.label, first or _FIRST, last or _LAST, unlabelled, f'{{"labels":"{NO_LABELS}"%',
        )  # fmt: skip
        with self._reading():
            return {dt.date.fromisoformat(date): _texts(notes) for date, notes in rows}

    def volumes(self, before: dt.date, nights: int, days: int) -> list[tuple[int, float]]:
        """Return rows and CTR of nights before a date, the latest first.

        The CTR of a provisional night is NaN.
        """
        rows = self._select(
            'SELECT "rows", CASE WHEN provisional THEN NULL ELSE ctr END FROM quality '
            'JOIN night USING (label_name, date) WHERE "rows" > 0 AND label_name = ? '
            "AND date >= ? AND date < ? ORDER BY date DESC LIMIT ?",
            self.label, before - dt.timedelta(days=days), before, nights,
            types=["int", "float | None"],
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
            "WHERE kind = ? AND label_name = ? AND date BETWEEN ? AND ? ORDER BY date, place",
            kind, self.label, first or _FIRST, last or _LAST,
            types=["str"] * 5 + ["float | None"] * 2,
        )  # fmt: skip
        with self._reading():
            dates = {text: dt.date.fromisoformat(text) for text in {row[0] for row in rows}}
        for date, score, by, slice_, measure, *numbers in rows:
            delta, se = (math.nan if number is None else number for number in numbers)
            yield dates[date], (score, by, slice_, measure), delta, se

    def rows(self, first: dt.date | None = None, last: dt.date | None = None) -> dict[dt.date, int]:
        """Return the number of rows of each night from `first` to `last`."""
        rows = self._select(
            'SELECT date, "rows" FROM quality WHERE label_name = ? AND date BETWEEN ? AND ? '
            "ORDER BY date",
            self.label, first or _FIRST, last or _LAST, types=["str", "int"],
        )  # fmt: skip
        with self._reading():
            return {dt.date.fromisoformat(date): row_count for date, row_count in rows}

    def state(self, date: dt.date, kind: str) -> bytes | None:
        """Return a saved state of a night; see `periods.KINDS`."""
        rows = self._select(
            "SELECT CAST(content AS BLOB) FROM state WHERE label_name = ? AND date = ? "
            "AND kind = ?",
            self.label, date, kind, types=["bytes"],
        )  # fmt: skip
        return bytes(rows[0][0]) if rows else None

    def sound_nights(self, before: dt.date, days: int) -> dict[dt.date, Mapping[str, Any]]:
        """Return the conventions of nights with sound rows, the latest first."""
        rows = self._select(
            "SELECT date, conventions FROM night JOIN quality USING (label_name, date) "
            "WHERE status <> 'data_quality' AND \"rows\" > 0 AND label_name = ? "
            "AND date >= ? AND date < ? ORDER BY date DESC",
            self.label, before - dt.timedelta(days=days), before,
        )  # fmt: skip
        with self._reading():
            return {dt.date.fromisoformat(date): dict(json.loads(text)) for date, text in rows}

    def drift_names(self, before: dt.date, days: int) -> set[str]:
        """Return the models and columns whose drift earlier nights have."""
        rows = self._select(
            "SELECT DISTINCT name FROM drift WHERE label_name = ? AND date >= ? AND date < ?",
            self.label, before - dt.timedelta(days=days), before, types=["str"],
        )  # fmt: skip
        return {name for (name,) in rows}

    def failed_drift(self, before: dt.date, days: int) -> set[tuple[dt.date, str, str, str]]:
        """Return date, name, slicing and slice of failed drift and of constants."""
        rows = self._select(
            "SELECT date, name, slicing, slice FROM drift WHERE label_name = ? AND date >= ? "
            "AND date < ? AND (verdict = 'failed' OR \"distinct\" < 2)",
            self.label, before - dt.timedelta(days=days), before, types=["str"] * 4,
        )  # fmt: skip
        with self._reading():
            return {(dt.date.fromisoformat(date), *key) for date, *key in rows}

    def repeated(self, fingerprint: str, before: dt.date) -> dt.date | None:
        """Return the latest night before a date with a fingerprint, or None."""
        ((date,),) = self._select(
            "SELECT max(date) FROM state WHERE fingerprint = ? AND fingerprint <> '' "
            "AND label_name = ? AND date < ?",
            fingerprint, self.label, before,
        )  # fmt: skip
        with self._reading():
            return None if date is None else dt.date.fromisoformat(date)

    def repeats(self, first: dt.date, last: dt.date) -> dict[dt.date, dt.date]:
        """Map nights to the earlier night with the same rows."""
        rows = self._select(
            "SELECT late.date, max(early.date) FROM state AS late JOIN state AS early "
            "ON early.fingerprint = late.fingerprint AND early.label_name = late.label_name "
            "AND early.date < late.date WHERE late.fingerprint <> '' AND late.label_name = ? "
            "AND late.date BETWEEN ? AND ? GROUP BY late.date",
            self.label, first, last,
        )  # fmt: skip
        with self._reading():
            return {dt.date.fromisoformat(d): dt.date.fromisoformat(earlier) for d, earlier in rows}

    def state_bytes(self, first: dt.date | None = None, last: dt.date | None = None) -> int:
        """Return the total bytes of saved states without reading them."""
        ((size,),) = self._select(
            "SELECT coalesce(sum(length(content)), 0) FROM state WHERE label_name = ? "
            "AND date BETWEEN ? AND ?",
            self.label, first or _FIRST, last or _LAST,
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


@contextmanager
def open_history(path: Path, label: str = "") -> Iterator[History]:
    """Open a history to read it; without a file, an empty one."""
    if path.exists():
        with History(path, readonly=True) as history:
            yield history.of(label)
        return
    with TemporaryDirectory() as folder, History(Path(folder, "history.db")) as history:
        yield history.of(label)


def _texts(text: str) -> tuple[str, ...]:
    """Parse a list of texts from JSON."""
    texts = json.loads(text)
    check_types({"JSON": texts}, {"JSON": "list[str]"})
    return tuple(texts)


def _insert(table: str, columns: list[str], verb: str = "INSERT") -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    placeholders = ", ".join("?" * len(columns))
    return f"{verb} INTO {table} ({names}) VALUES ({placeholders})"
