"""Store and read the history of nights in SQLite.

Convert nights to documents and to rows of tables, and back.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from copy import copy
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache, lru_cache, partial
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from types import UnionType
from typing import Any, Self, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastrank_eval import MeasureValue
from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.errors import FastRankEvalError, HistoryError, OutputError
from fastrank_eval._lib.files import atomic_path
from fastrank_eval._lib.log import NIGHTLY
from fastrank_eval.apps.nightly.night import PERIODS as DAYS_OF_PERIODS
from fastrank_eval.apps.nightly.night import (
    Night,
    NightDifference,
    SavedStates,
    first_that_holds,
)
from fastrank_eval.apps.nightly.text import NOT_EVALUATED, STATUSES
from fastrank_eval.engine.records import LEFT_OUT
from fastrank_eval.measures.pooled import CLUSTERS
from fastrank_eval.results.gates import ALL

#: The statements that make the tables.
SCHEMA = files("fastrank_eval.apps.nightly").joinpath("history.sql").read_text("utf-8")
#: The tables of nights.
TABLES = ("night", "value", "difference", "state", "not_evaluated")
_RECORDS: dict[str, Any] = {"value": MeasureValue, "difference": NightDifference}
#: The kind of state that has the values of a night when it was provisional.
PROVISIONAL = "provisional"
#: Fields of a night that are merged from states of nights.
_OF_PERIODS = ("periods", "period_nights", "period_notes", "compositions")
#: Fields of a night that its document lacks: columns, other tables, and a state.
APART = {"date", "label", "status", "values", "compared", "not_evaluated", *_OF_PERIODS}

#: Conventions that are objects.
_OBJECTS = ("columns", "measures", "names", "quality", "requested", "score", LEFT_OUT)


@cache
def columns(table: str) -> dict[str, str]:
    """Return the type of each column of a table."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(SCHEMA)
        return {row[1]: row[2] for row in database.execute(f"PRAGMA table_info({table})")}


def rows_of(table: str, night: Night, records: Iterable[object]) -> list[list[Any]]:
    """Convert the values or differences of a night to rows of their table."""
    names = ["by" if name == "slicing" else name for name in [*columns(table)][3:]]
    columns_of = ((getattr(record, name) for name in names) for record in records)
    return [
        [night.date.isoformat(), night.label, place]
        + [to_json(value) if isinstance(value, Mapping) else value for value in row]
        for place, row in enumerate(columns_of)
    ]


def record_of(table: str, row: Sequence[Any]) -> Any:
    """Convert a row of a table, without date, label and place, to its record."""
    values = dict(zip([*columns(table)][3:], row, strict=True))
    values["by"] = values.pop("slicing")
    if "dropped" in values:
        values["dropped"] = _parsed(values["dropped"])
        clusters = values.pop(CLUSTERS)
        values["details"] = {} if clusters is None else {CLUSTERS: clusters}
    return from_plain(_RECORDS[table], values)


#: Many values share the groups that they leave out.
_parsed = lru_cache(maxsize=1 << 10)(json.loads)


def document_of(night: Night, written_at: str) -> str:
    """Write a night as JSON, without what other columns and tables have."""
    document = {name: value for name, value in to_plain(night).items() if name not in APART}
    return to_json({**document, "written_at": written_at})


@lru_cache(maxsize=1 << 9)
def night_of(date: str, label: str, status: str, document: str) -> Night:
    """Read a night without its values and differences."""
    content = {**json.loads(document), "values": [], "date": date, "label": label}
    dt.datetime.fromisoformat(content.pop("written_at"))
    night: Night = from_plain(Night, {**content, "status": checked_status(status)})
    for name in _OBJECTS:
        _checked(dict, night.conventions.get(name, {}))
    return night


def checked_status(status: str) -> str:
    """Return a status; ValueError if it is none."""
    if status not in STATUSES:
        raise ValueError(f"status must be one of {', '.join(STATUSES)}, got {status!r}")
    return status


def provisional_content(night: Night) -> bytes:
    """Convert the values of a night to JSON; see `provisional_values`."""
    return to_json({"age": night.label_age, "values": night.values}).encode()


def provisional_values(content: bytes) -> tuple[float, tuple[MeasureValue, ...]]:
    """Return the age of the labels in hours, and the values, from JSON.

    Raises
    ------
    ValueError, TypeError, LookupError
        If the content has another form.
    """
    saved = json.loads(content)
    return float(saved["age"]), from_plain(tuple[MeasureValue, ...], saved["values"])


def periods_content(night: Night) -> bytes:
    """Convert week, month and compositions of a night to JSON.

    Slices have their values of the first measure, as pages and summaries show them.
    """
    shown = {
        name: [v for v in values if v.slice == ALL or v.measure in night.measures[:1]]
        for name, values in night.periods.items()
    }
    content = {name: getattr(night, name) for name in _OF_PERIODS} | {"periods": shown}
    return to_json(content).encode()


def with_saved_periods(night: Night, content: bytes) -> Night:
    """Add the week, the month and the compositions of a night from JSON.

    Raises
    ------
    ValueError, TypeError, LookupError
        If the content has another form.
    """
    saved, hints = json.loads(content), get_type_hints(Night)
    return replace(night, **{name: from_plain(hints[name], saved[name]) for name in _OF_PERIODS})


def to_json(value: object) -> str:
    """Write records as JSON; see `to_plain`."""
    return json.dumps(to_plain(value), ensure_ascii=False, separators=(",", ":"))


def to_plain(value: Any) -> Any:
    """Convert records to plain JSON types, without fields at default."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else str(value)
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): to_plain(inner) for key, inner in value.items()}
    if isinstance(value, Iterable):
        return [to_plain(inner) for inner in value]
    record: Any = type(value)
    return {
        name: plain
        for name, default in _defaults(record).items()
        if (plain := to_plain(getattr(value, name))) != default
    }


@cache
def _defaults(record: Any) -> dict[str, object]:
    """Return the plain default of each field; `MISSING` if it has none."""
    return {
        each.name: MISSING
        if each.default is each.default_factory is MISSING
        else to_plain(each.default if each.default_factory is MISSING else each.default_factory())
        for each in fields(record)
    }


def from_plain(kind: Any, value: Any) -> Any:
    """Convert plain JSON types to a value of an annotated type.

    Raises
    ------
    ValueError, TypeError, LookupError
        If the value has another type.

    Examples
    --------
    >>> from_plain(tuple[float, ...], [1.5, None])
    (1.5, nan)
    """
    return _reader(kind)(value)


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return the function that reads a type."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is float:
        return _number
    if kind in (str, int, bool, list, dict):
        return partial(_checked, kind)
    if kind in (dt.date, dt.datetime):
        read_date: Callable[[Any], Any] = kind.fromisoformat
        return read_date
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        readers = {each.name: _reader(hints[each.name]) for each in fields(kind)}
        make: Any = kind
        return lambda value: make(
            **{name: readers[name](part) for name, part in _checked(dict, value).items()}
        )
    if origin in (Union, UnionType):
        read = _reader(inner[0])
        return lambda value: None if value is None else read(value)
    if origin is tuple and inner[-1] is ...:
        read = _reader(inner[0])
        return lambda value: tuple(map(read, _checked(list, value)))
    if origin is tuple:
        of_parts = tuple(map(_reader, inner))
        return lambda value: tuple(
            read(part) for read, part in zip(of_parts, _checked(list, value), strict=True)
        )
    if origin is not None:
        read = _reader(inner[1])
        return lambda value: {key: read(part) for key, part in _checked(dict, value).items()}
    return lambda value: value


def _number(value: Any) -> float:
    """Return a number; null is NaN, and text is infinite."""
    if type(value) in (int, float):
        return value
    return math.nan if value is None else float(value)


def _checked(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"must be {kind.__name__}, got {value!r:.80}")
    return value


_KINDS = {"TEXT": pa.string(), "INTEGER": pa.int64(), "REAL": pa.float64(), "BLOB": pa.binary()}


def write_tables(database: sqlite3.Connection, folder: Path) -> list[Path]:
    """Write each table of nights to a Parquet file; see `History.export`."""
    paths = {name: folder / f"{name}.parquet" for name in TABLES}
    for name, path in paths.items():
        if path.is_file() and path.stat().st_size and not _is_table(path, name):
            raise OutputError(
                f"folder: must hold no other files of these names, got {str(path)!r}, which is "
                f"not a table {name!r} of a history; name another folder, or remove the file."
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make {str(folder)!r}: {error.strerror or error}.") from error
    for name, path in paths.items():
        with atomic_path(path) as part:
            pq.write_table(_table(database, name), part)
    return [*paths.values()]


def _is_table(path: Path, name: str) -> bool:
    """Return whether a file is this table."""
    try:
        # Arrow reads the name `s3:x` as an address.
        return pq.read_schema(path.absolute()).names == [*columns(name)]
    except (pa.ArrowException, OSError):
        return False


def _table(database: sqlite3.Connection, name: str) -> pa.Table:
    schema = pa.schema([(column, _KINDS[kind]) for column, kind in columns(name).items()])
    order = "date, label" + (", place" if "place" in schema.names else "")
    rows = database.execute(f"SELECT * FROM {name} ORDER BY {order}")  # noqa: S608 - our own names
    contents = list(zip(*rows, strict=True)) or [()] * len(schema)
    table = pa.table([*map(pa.array, contents, schema.types)], schema=schema)
    return table.set_column(0, "date", pc.cast(table.column("date"), pa.date32()))


#: Marks the file as a history, so that the database of another program is refused: "frEh".
APPLICATION_ID = 0x66724568
#: The version of the tables and of the document of a night. Files of others are refused.
VERSION = 17
#: The kind of state that has the week and the month of a night.
PERIODS = "periods"
#: Days for which the values of a provisional night are kept.
_PROVISIONAL_DAYS = 28
_LONGEST_PERIOD = max(DAYS_OF_PERIODS.values())
_T = TypeVar("_T")
_FIRST, _LAST = dt.date.min, dt.date.max
_RESTORE = "Take the file from a backup, or name another and run its nights again."
#: The most bytes of a value in SQLite.
_MAX_BYTES = 1_000_000_000


class History:
    """The nights of one report in a file.

    A report of several labels has a night for each label and date. `of` selects the label.

    Parameters
    ----------
    path : path
        An SQLite database. A missing file is created.
    readonly : bool
        Never create or change the file.
    patience : float
        Seconds to wait for another run that is writing.

    Raises
    ------
    HistoryError
        The file is no history, was written by another version, or cannot be opened.

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
        rows = self.execute("SELECT labels FROM report")
        with self._reading():
            return from_plain(tuple[str, ...], json.loads(rows[0][0])) if rows else ()

    def claim(self, report: str, labels: Sequence[str] = ("",)) -> None:
        """Assign the history to a report.

        If the labels have changed, nights get or lose the name of their label: with several labels,
        nights have it. With one label, its nights lose it, and nights of other labels have it if
        any night has one: none is replaced by a night of another label.

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
        name = self.check_report(report)
        several = tuple(labels) if len(labels) > 1 else ()
        named = not several and self.execute("SELECT 1 FROM night WHERE label <> '' LIMIT 1")
        if self.readonly or (name == report and several == self.labels() and not named):
            return
        with self._reading(), self.transaction():
            self._name_labels(labels)
            self._database.execute("DELETE FROM report")
            self._database.execute(
                "INSERT INTO report (name, labels) VALUES (?, ?)",
                (report, json.dumps(several, ensure_ascii=False)),
            )

    def check_report(self, report: str) -> str | None:
        """Refuse nights of another report, as `claim` does; return its name."""
        names = self.execute("SELECT name FROM report")
        nights = self.execute("SELECT 1 FROM night UNION SELECT 1 FROM not_evaluated LIMIT 1")
        name = names[0][0] if names else None
        if name is not None and name != report and nights:
            raise HistoryError(
                f"{self.path}: keeps the nights of the report {name!r}, which those of {report!r} "
                "would replace. Name another file in [history], as in file = "
                f'"{report}.db"; or, if it is the same report under another name, write report '
                f"= {json.dumps(name, ensure_ascii=False)} there."
            )
        return name

    def write(self, night: Night, states: SavedStates | None = None) -> None:
        """Store a night and replace any night of the same date.

        Parameters
        ----------
        night : Night
        states : SavedStates, optional
            The states to merge the night with others; see `periods.with_periods`.
        """
        states = states or SavedStates()
        largest = max(map(len, states.contents.values()), default=0)
        if largest > _MAX_BYTES:
            raise HistoryError(
                f"{self.path}: cannot keep {largest:,} bytes of states of one night, more than "
                f'{_MAX_BYTES:,}; keep fewer, as with states = "rows" in [history].'
            )
        keys = night.date.isoformat(), night.label
        document = document_of(night, dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))
        with self.transaction():
            for table in TABLES:  # plain SQL may have deleted the night without its values
                self._database.execute(f"DELETE FROM {table} WHERE date = ? AND label = ?", keys)  # noqa: S608
            self._insert("night", [(*keys, night.status, states.fingerprint, document)])
            self._insert("value", rows_of("value", night, night.values))
            self._insert("difference", rows_of("difference", night, night.compared))
            self._insert("state", [(*keys, *each) for each in states.contents.items()])
            # The weeks and months of later nights may have this one; without states they stay.
            later = night.date + dt.timedelta(days=_LONGEST_PERIOD - 1)
            self._database.execute(
                "DELETE FROM state WHERE date > ? AND date <= ? AND label = ? AND kind = ? AND "
                "EXISTS (SELECT 1 FROM state AS own WHERE own.label = state.label AND "
                "own.date = state.date AND own.kind <> state.kind)",
                (night.date.isoformat(), later.isoformat(), night.label, PERIODS),
            )
            # Only later nights of the same age are compared with provisional values.
            old = night.date - dt.timedelta(days=_PROVISIONAL_DAYS)
            self._database.execute(
                "DELETE FROM state WHERE date < ? AND label = ? AND kind = ?",
                (old.isoformat(), night.label, PROVISIONAL),
            )

    def write_failure(self, date: dt.date, reason: str) -> None:
        """Store why a night was not evaluated, unless the history has the night.

        It counts as no night: a date has a night or such a reason. `write` removes the reason. A
        date before the first night, or a year after the last, is taken for a mistake.
        """
        written_at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        with self.transaction():
            nights = self.dates() or [date]
            is_near = nights[0] <= date <= nights[-1] + dt.timedelta(days=365)
            if is_near and not self.statuses(date, date):
                self._insert(NOT_EVALUATED, [(date.isoformat(), self.label, reason, written_at)])

    def failures(
        self, first: dt.date | None = None, last: dt.date | None = None
    ) -> dict[dt.date, str]:
        """Return why dates from `first` to `last` were not evaluated."""
        return self._by_date("reason", first, last, str, NOT_EVALUATED)

    def outcomes(
        self, first: dt.date | None = None, last: dt.date | None = None
    ) -> dict[dt.date, str]:
        """Return the statuses of nights, and of dates that were not evaluated."""
        failed = dict.fromkeys(self.failures(first, last), NOT_EVALUATED)
        return failed | self.statuses(first, last)

    def states(self, date: dt.date) -> SavedStates:
        """Return the saved states of a night, without its week and month."""
        rows = self.execute(
            "SELECT kind, content FROM state WHERE label = ? AND date = ? AND kind <> ?",
            self.label, date, PERIODS,
        )  # fmt: skip
        ((fingerprint,),) = self.execute(
            "SELECT fingerprint FROM night WHERE label = ? AND date = ?", self.label, date
        )
        return SavedStates(dict(rows), fingerprint)

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
            stored = self.execute("SELECT 1 FROM night WHERE date = ? AND label = ?", *keys)
            if stored and self.changes() == changes:
                self._insert("state", [(*keys, PERIODS, periods_content(night))])

    def with_periods(self, night: Night) -> Night | None:
        """Add the stored week and month to a night; None if there are none."""
        content = self.state(night.date, PERIODS)
        if content is None:
            return None
        with suppress(ValueError, TypeError, LookupError, AttributeError):
            return with_saved_periods(night, content)
        return None

    def dates(self) -> list[dt.date]:
        """Return the dates of the nights, ascending."""
        return [*self.statuses(None, None)]

    def read(
        self,
        first: dt.date | None = None,
        last: dt.date | None = None,
        *,
        details_from: dt.date | None = None,
        of: tuple[str, str | None] | None = None,
        kind: str | None = None,
    ) -> list[Night]:
        """Read the nights from `first` to `last`.

        Parameters
        ----------
        first, last : datetime.date, optional
            By default the first and the last night.
        details_from : datetime.date, optional
            Nights before this date have no differences. They take much of the reading time, and
            trends do not need them. By default all nights have them.
        of : tuple of str, optional
            A slice and a measure, or None: read only their values, and no differences.
        kind : str, optional
            A kind of difference, of `KINDS`: read only these differences, and no values.

        Returns
        -------
        list of Night
            Ascending by date.
        """
        of_slice = [text for text in of or () if text is not None]
        condition = "".join(("AND slice = ? ", "AND measure = ?")[: len(of_slice)])
        of_kind = ("AND kind = ?", kind) if kind else ()
        with self._reading(), self._snapshot():
            values = {} if kind else self._records("value", first, last, condition, *of_slice)
            begin = max(first or _FIRST, details_from or _FIRST)
            compared = {} if of else self._records("difference", begin, last, *of_kind)
            return [
                replace(
                    night,
                    values=tuple(values.get(str(night.date), ())),
                    compared=tuple(compared.get(str(night.date), ())),
                )
                for night in self.heads(first, last)
            ]

    def heads(
        self, first: dt.date | None = None, last: dt.date | None = None, condition: str = "TRUE"
    ) -> list[Night]:
        """Read nights without their values and differences, by a condition of SQL."""
        columns = "date, label, status, document"
        with self._reading():
            return [night_of(*row) for row in self._nights(columns, first, last, condition)]

    def before(self, date: dt.date, days: int) -> list[Night]:
        """Read the heads of days before a date, the latest first."""
        return self.heads(date - dt.timedelta(days), date - dt.timedelta(1))[::-1]

    def statuses(self, first: dt.date | None, last: dt.date | None) -> dict[dt.date, str]:
        """Return the status of each night from `first` to `last`."""
        return self._by_date("status", first, last, checked_status)

    def write_times(self, first: dt.date, last: dt.date) -> dict[dt.date, dt.datetime]:
        """Return the time at which each night from `first` to `last` was written."""
        column = "json_extract(document, '$.written_at')"
        return self._by_date(column, first, last, dt.datetime.fromisoformat)

    def state(self, date: dt.date, kind: str) -> bytes | None:
        """Return a saved state of a night; see `periods.KINDS`."""
        rows = self.execute(
            "SELECT content FROM state WHERE label = ? AND date = ? AND kind = ?",
            self.label, date, kind,
        )  # fmt: skip
        return rows[0][0] if rows else None

    def repeated(self, fingerprint: str, before: dt.date) -> dt.date | None:
        """Return the latest night before a date with a fingerprint, or None."""
        ((date,),) = self.execute(
            "SELECT max(date) FROM night WHERE fingerprint = ? AND fingerprint <> '' "
            "AND label = ? AND date < ?",
            fingerprint, self.label, before,
        )  # fmt: skip
        with self._reading():
            return None if date is None else dt.date.fromisoformat(date)

    def repeats(self, first: dt.date, last: dt.date) -> dict[dt.date, dt.date]:
        """Map nights to the earlier night with the same rows."""
        fingerprints = self._by_date("fingerprint", first, last, str)
        earlier = {date: self.repeated(text, date) for date, text in fingerprints.items()}
        return {date: other for date, other in earlier.items() if other is not None}

    def state_bytes(self, first: dt.date | None = None, last: dt.date | None = None) -> int:
        """Return the total bytes of saved states without reading them."""
        ((size,),) = self.execute(
            "SELECT coalesce(sum(length(content)), 0) FROM state WHERE label = ? "
            "AND date BETWEEN ? AND ?",
            self.label, first or _FIRST, last or _LAST,
        )  # fmt: skip
        return int(size)

    def changes(self) -> int:
        """Return a number that other writers of the file change."""
        ((number,),) = self.execute("PRAGMA data_version")
        return int(number)

    def copy(self, path: str | os.PathLike[str]) -> None:
        """Copy the history to a new file."""
        with self._errors("copied"), closing(sqlite3.connect(path)) as target:
            self._database.backup(target)

    def export(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write every table as Parquet, for programs that do not read SQLite.

        Parameters
        ----------
        folder : path
            Created if missing. Files such as ``value.parquet`` in it are replaced if they are
            tables of a history.

        Raises
        ------
        HistoryError, OutputError
        """
        with self._reading(), self._snapshot():
            return write_tables(self._database, Path(folder))

    def _insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        places = ", ".join("?" * len(columns(table)))
        self._database.executemany(f"REPLACE INTO {table} VALUES ({places})", rows)  # noqa: S608

    def _nights(
        self,
        names: str,
        first: dt.date | None,
        last: dt.date | None,
        condition: str = "TRUE",
        table: str = "night",
    ) -> list[tuple[Any, ...]]:
        return self.execute(
            f"SELECT {names} FROM {table} WHERE ({condition}) "  # noqa: S608 - names of our own
            "AND label = ? AND date BETWEEN ? AND ? ORDER BY date",
            self.label, first or _FIRST, last or _LAST,
        )  # fmt: skip

    def _by_date(
        self,
        column: str,
        first: dt.date | None,
        last: dt.date | None,
        read: Callable[[str], _T],
        table: str = "night",
    ) -> dict[dt.date, _T]:
        with self._reading():
            rows = self._nights(f"date, {column}", first, last, table=table)
            return {dt.date.fromisoformat(date): read(value) for date, value in rows}

    def _records(
        self,
        table: str,
        first: dt.date | None,
        last: dt.date | None,
        condition: str = "",
        *parameters: str,
    ) -> dict[str, list[Any]]:
        """Return the records of a table by date, in their order."""
        rows = self.execute(
            f"SELECT * FROM {table} WHERE label = ? AND date BETWEEN ? AND ? "  # noqa: S608
            f"{condition} ORDER BY date, place",
            self.label, first or _FIRST, last or _LAST, *parameters,
        )  # fmt: skip
        records: dict[str, list[Any]] = {}
        with self._reading():
            for date, _, _, *row in rows:
                records.setdefault(date, []).append(record_of(table, row))
        return records

    def _name_labels(self, labels: Sequence[str]) -> None:
        """Name the nights of a report whose labels have changed; see `claim`."""
        nights = self._database.execute(
            "SELECT date, label, json_extract(document, '$.conventions.columns.label') FROM night "
            "ORDER BY label"  # without name first
        ).fetchall()
        has_names = any(name for _, name, _ in nights)
        for date, name, label in nights:
            if label in labels:
                new = label if len(labels) > 1 else ""
            else:
                new = label if label and has_names and len(labels) == 1 else name
            if new != name:
                self._database.execute(
                    "UPDATE OR IGNORE night SET label = ? WHERE label = ? AND date = ?",
                    (new, name, date),
                )
        names = labels if len(labels) > 1 else ("",)
        for name in names:
            self._database.execute(
                "INSERT OR IGNORE INTO not_evaluated "
                "SELECT date, ?, reason, written_at FROM not_evaluated AS other "
                "WHERE date NOT IN (SELECT date FROM night WHERE label = ?)",
                (name, name),
            )
        places = ", ".join("?" * len(names))
        self._database.execute(
            f"DELETE FROM not_evaluated WHERE label NOT IN ({places})",  # noqa: S608
            names,
        )

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
                f"{self.path}: is damaged: {type(error).__name__}: {error}. {_RESTORE}"
            ) from error

    def execute(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run a statement, with dates as SQLite stores them; return rows."""
        texts = [each.isoformat() if isinstance(each, dt.date) else each for each in parameters]
        with self._reading():
            return self._database.execute(statement, texts).fetchall()

    def _why(self, error: sqlite3.Error) -> str:
        code = getattr(error, "sqlite_errorname", "")
        unreadable = self.readonly and code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN"))
        reasons = {
            f"another run has locked it for more than {self._patience:g} seconds. Wait until it "
            "ends, or stop it, and start again.": code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")),
            "it is no SQLite database. Name another file.": code == "SQLITE_NOTADB",
            "it is a folder; name the file in it, such as history.db.": self.path.is_dir(),
            f"folder {str(self.path.parent)!r} does not exist; create it first.": (
                not self.path.parent.is_dir()
            ),
            "there is no such file; 'fastrank-eval nightly' makes it.": (
                self.readonly and not self.path.exists()
            ),
            "a run was killed while it wrote, or the file is not readable. Open it once with write "
            "permission ('fastrank-eval nightly' does), which undoes the unfinished run.": (
                unreadable
            ),
        }
        remedy = f" {_RESTORE}" if code in ("", "SQLITE_CORRUPT", "SQLITE_ERROR") else ""
        return first_that_holds(reasons) or f"{error}.{remedy}"

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
        if sqlite3.sqlite_version_info < (3, 37):
            raise HistoryError(
                f"{self.path}: needs SQLite 3.37 or newer, got {sqlite3.sqlite_version}; use a "
                "Python that has a newer one."
            )
        with self._reading(), self._errors("opened"):
            # A commit survives a loss of power: EXTRA also syncs the folder of the journal.
            self._database.execute("PRAGMA synchronous = EXTRA")
            self._database.execute("PRAGMA foreign_keys = ON")
            # Read all in one snapshot: another run may be creating the tables.
            with self._snapshot():
                empty = self._is_empty()
        if not empty:
            return
        if self.readonly:
            raise HistoryError(f"{self.path}: is empty, not a history of nights.")
        with self.transaction():
            # Another run may have made the tables meanwhile.
            if self._is_empty():
                marks = f"PRAGMA user_version = {VERSION}; PRAGMA application_id = {APPLICATION_ID}"
                for statement in f"{SCHEMA};{marks}".split(";"):
                    self._database.execute(statement)
        NIGHTLY.info("history made", file=str(self.path), version=VERSION)

    def _is_empty(self) -> bool:
        """Return whether there are no tables; refuse tables of others."""
        version, application_id, tables = (
            self._database.execute(statement).fetchone()[0]
            for statement in (
                "PRAGMA user_version",
                "PRAGMA application_id",
                "SELECT count(*) FROM sqlite_master",
            )
        )
        if tables and application_id != APPLICATION_ID:
            raise HistoryError(
                f"{self.path}: is a database of something else, not a history of nights. Name "
                "another file."
            )
        if tables and version != VERSION:
            raise HistoryError(
                f"{self.path}: has tables of version {version}, and this fastrank_eval reads "
                f"version {VERSION} alone. Name another file in [history], and run the nights "
                "again with --backfill; or use the fastrank_eval that wrote it."
            )
        return not tables


@contextmanager
def open_history(path: Path, label: str = "") -> Iterator[History]:
    """Open a history to read it; without a file, an empty one."""
    if path.exists():
        with History(path, readonly=True) as history:
            yield history.of(label)
        return
    with TemporaryDirectory() as folder, History(Path(folder, "history.db")) as history:
        yield history.of(label)
