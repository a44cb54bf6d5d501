"""Convert nights to what a history stores, and back."""

from __future__ import annotations

import datetime as dt
import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache, lru_cache, partial
from importlib.resources import files
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastrank_eval import MeasureValue
from fastrank_eval._lib.errors import OutputError
from fastrank_eval._lib.files import atomic_path
from fastrank_eval.apps.nightly.night import Night, NightDifference
from fastrank_eval.apps.nightly.text import STATUSES
from fastrank_eval.engine.records import LEFT_OUT
from fastrank_eval.measures.pooled import CLUSTERS
from fastrank_eval.results.gates import ALL

#: The statements that make the tables.
SCHEMA = files("fastrank_eval.apps.nightly").joinpath("history.sql").read_text("utf-8")
#: The tables of nights.
TABLES = ("night", "value", "difference", "state")
_RECORDS: dict[str, Any] = {"value": MeasureValue, "difference": NightDifference}
#: The kind of state that has the values of a night when it was provisional.
PROVISIONAL = "provisional"
#: The statuses of a night, the worst last.
#: Fields of a night that are merged from states of nights.
_PERIODS = ("periods", "period_nights", "period_notes", "compositions")
#: Fields of a night that its document lacks: columns, other tables, and a state.
APART = {"date", "label", "status", "values", "compared", *_PERIODS}

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
    content = {name: getattr(night, name) for name in _PERIODS} | {"periods": shown}
    return to_json(content).encode()


def with_saved_periods(night: Night, content: bytes) -> Night:
    """Add the week, the month and the compositions of a night from JSON.

    Raises
    ------
    ValueError, TypeError, LookupError
        If the content has another form.
    """
    saved, hints = json.loads(content), get_type_hints(Night)
    return replace(night, **{name: from_plain(hints[name], saved[name]) for name in _PERIODS})


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
