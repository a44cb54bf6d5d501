"""Define the tables of the history and convert nights to rows and back."""

from __future__ import annotations

import datetime as dt
import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastrank_eval._lib.errors import OutputError
from fastrank_eval._lib.files import atomic_path
from fastrank_eval.apps.nightly.night import (
    CurveLine,
    Finding,
    GateOutcome,
    Night,
    NightDifference,
    NightQuality,
    NightValue,
)
from fastrank_eval.engine.records import plain_value

__all__ = [
    "APPLICATION_ID",
    "COLUMNS",
    "MIGRATIONS",
    "TABLES",
    "VERSION",
    "night_from_rows",
    "night_rows",
    "parse_findings",
    "write_tables",
]


#: Marks the file as a history, so that the database of another program is refused: "frEh".
APPLICATION_ID = 0x66724568

_FIRST = """
CREATE TABLE night (
    date TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('fine', 'regression', 'data_quality')),
    models TEXT NOT NULL,
    baseline TEXT,
    measures TEXT NOT NULL,
    sources TEXT NOT NULL,
    command TEXT NOT NULL,
    version TEXT NOT NULL,
    seconds REAL NOT NULL,
    conventions TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE quality (
    date TEXT PRIMARY KEY REFERENCES night ON DELETE CASCADE,
    "rows" INTEGER NOT NULL,
    "groups" INTEGER NOT NULL,
    positives INTEGER NOT NULL,
    ctr REAL,
    coverage REAL,
    single_class_share REAL,
    tie_rate REAL,
    nulls TEXT NOT NULL,
    volume_drift REAL,
    ctr_drift REAL,
    flags TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE value (
    date TEXT NOT NULL REFERENCES night ON DELETE CASCADE,
    place INTEGER NOT NULL,
    score TEXT NOT NULL,
    slicing TEXT NOT NULL,
    slice TEXT NOT NULL,
    measure TEXT NOT NULL,
    value REAL,
    se REAL,
    ci_low REAL,
    ci_high REAL,
    effective_groups REAL,
    "groups" INTEGER NOT NULL,
    groups_used INTEGER NOT NULL,
    rows_share REAL,
    positives_share REAL,
    dropped TEXT NOT NULL,
    caution TEXT,
    PRIMARY KEY (date, place)
) WITHOUT ROWID;
CREATE TABLE difference (
    date TEXT NOT NULL REFERENCES night ON DELETE CASCADE,
    place INTEGER NOT NULL,
    kind TEXT NOT NULL,
    score TEXT NOT NULL,
    baseline TEXT NOT NULL,
    slicing TEXT NOT NULL,
    slice TEXT NOT NULL,
    measure TEXT NOT NULL,
    delta REAL,
    se REAL,
    ci_low REAL,
    ci_high REAL,
    relative REAL,
    p_value REAL,
    p_adjusted REAL,
    verdict TEXT NOT NULL,
    PRIMARY KEY (date, place)
) WITHOUT ROWID;
CREATE TABLE curve (
    date TEXT NOT NULL REFERENCES night ON DELETE CASCADE,
    place INTEGER NOT NULL,
    kind TEXT NOT NULL,
    score TEXT NOT NULL,
    label TEXT NOT NULL,
    x TEXT NOT NULL,
    y TEXT NOT NULL,
    PRIMARY KEY (date, place)
) WITHOUT ROWID;
CREATE TABLE gate (
    date TEXT NOT NULL REFERENCES night ON DELETE CASCADE,
    place INTEGER NOT NULL,
    condition TEXT NOT NULL,
    passed INTEGER NOT NULL CHECK (passed IN (0, 1)),
    reason TEXT NOT NULL,
    PRIMARY KEY (date, place)
) WITHOUT ROWID;
CREATE TABLE state (
    date TEXT PRIMARY KEY REFERENCES night ON DELETE CASCADE,
    content BLOB NOT NULL
);
"""

# The index reads one slice over time. `written_at` is the time when the numbers were computed.
_SECOND = """
CREATE INDEX value_over_time ON value (measure, score, slicing, slice, date);
ALTER TABLE night ADD COLUMN written_at TEXT NOT NULL DEFAULT '';
"""

# The name of the report, so that another report does not replace its nights.
_THIRD = """
CREATE TABLE report (name TEXT NOT NULL);
"""

# Sums and scores are separate, so that only the needed ones are read. The fingerprint finds equal
# rows on two nights. The states of older versions stay, as one state of kind 'all'.
_FOURTH = """
CREATE TABLE kept_state (
    date TEXT NOT NULL REFERENCES night ON DELETE CASCADE,
    kind TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (date, kind)
);
INSERT INTO kept_state SELECT date, 'all', '', content FROM state;
DROP TABLE state;
ALTER TABLE kept_state RENAME TO state;
CREATE INDEX state_by_fingerprint ON state (fingerprint, date);
ALTER TABLE night ADD COLUMN notes TEXT NOT NULL DEFAULT '[]';
"""

# A night may be "changed", and has findings with their first date. SQLite cannot alter a CHECK: the
# table is created again, while foreign keys are off.
_FIFTH = """
CREATE TABLE new_night (
    date TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('fine', 'changed', 'regression', 'data_quality')),
    models TEXT NOT NULL,
    baseline TEXT,
    measures TEXT NOT NULL,
    sources TEXT NOT NULL,
    command TEXT NOT NULL,
    version TEXT NOT NULL,
    seconds REAL NOT NULL,
    conventions TEXT NOT NULL,
    written_at TEXT NOT NULL DEFAULT '',
    notes TEXT NOT NULL DEFAULT '[]',
    findings TEXT NOT NULL DEFAULT '[]'
) WITHOUT ROWID;
INSERT INTO new_night (date, title, status, models, baseline, measures, sources, command, version,
    seconds, conventions, written_at, notes)
SELECT date, title, status, models, baseline, measures, sources, command, version, seconds,
    conventions, written_at, notes FROM night;
DROP TABLE night;
ALTER TABLE new_night RENAME TO night;
ALTER TABLE quality ADD COLUMN tie_rates TEXT NOT NULL DEFAULT '{}';
"""

#: The statements from each version to the next; a new file runs them all. Released steps are never
#: edited: a change is a new step.
MIGRATIONS = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH)
VERSION = len(MIGRATIONS)

#: Tables of nights, in the order of writing.
TABLES = ("night", "quality", "value", "difference", "curve", "gate", "state")

Row = Sequence[Any]

#: The columns of each table after `date` and, in tables with several rows per night, `place`.
COLUMNS: dict[str, tuple[str, ...]] = {
    "night": (
        "title", "status", "models", "baseline", "measures", "sources", "command", "version",
        "seconds", "conventions", "notes", "findings", "written_at",
    ),
    "quality": tuple(field.name for field in fields(NightQuality)),
    "value": tuple(
        "slicing" if field.name == "by" else field.name for field in fields(NightValue)
    ),
    "difference": tuple(
        "slicing" if field.name == "by" else field.name for field in fields(NightDifference)
    ),
    "curve": ("kind", "score", "label", "x", "y"),
    "gate": ("condition", "passed", "reason"),
}  # fmt: skip

_VALUE = tuple(field.name for field in fields(NightValue))
_DIFFERENCE = tuple(field.name for field in fields(NightDifference))
#: Numbers stored as NULL if they are NaN; the others are never NULL.
_DROPPED = _VALUE.index("dropped")
_VALUE_FLOATS = slice(_VALUE.index("value"), _VALUE.index("effective_groups") + 1)
_SHARES = slice(_VALUE.index("rows_share"), _VALUE.index("positives_share") + 1)
_DELTAS = slice(_DIFFERENCE.index("delta"), _DIFFERENCE.index("p_adjusted") + 1)


def night_rows(night: Night, written_at: str) -> dict[str, list[Row]]:
    """Convert a night to rows of each table, without `date` and `place`.

    Parameters
    ----------
    night : Night
    written_at : str
        Time of writing, in UTC.

    Returns
    -------
    dict of str to list of rows
        With the columns of `COLUMNS`. SQLite stores NaN as NULL.
    """
    return {
        "night": [
            (
                night.title,
                night.status,
                _json(night.models),
                night.baseline,
                _json(night.measures),
                _json(night.sources),
                night.command,
                night.version,
                night.seconds,
                _json(night.conventions),
                _json(night.notes),
                _json([_non_empty_fields(finding) for finding in night.findings]),
                written_at,
            )
        ],
        "quality": [[_stored(getattr(night.quality, name)) for name in COLUMNS["quality"]]],
        "value": [[_stored(getattr(value, name)) for name in _VALUE] for value in night.values],
        "difference": [
            [getattr(difference, name) for name in _DIFFERENCE] for difference in night.compared
        ],
        "curve": [
            (kind, curve.score, curve.label, _numbers(curve.x), _numbers(curve.y))
            for kind, curves in night.curves.items()
            for curve in curves
        ],
        "gate": [(gate.condition, int(gate.passed), gate.reason) for gate in night.gates],
    }


def night_from_rows(date: str, rows: Mapping[str, Iterable[Row]]) -> Night:
    """Convert rows to a night; see `night_rows`."""
    ((*night, _),) = rows["night"]
    title, status, models, baseline, measures, sources, command, version, *remaining = night
    seconds, conventions, notes, findings = remaining
    curves: dict[str, list[CurveLine]] = {}
    for kind, score, label, x, y in rows["curve"]:
        curves.setdefault(kind, []).append(CurveLine(score, label, _tuple(x), _tuple(y)))
    return Night(
        date=dt.date.fromisoformat(date),
        title=title,
        models=tuple(json.loads(models)),
        baseline=baseline,
        measures=tuple(json.loads(measures)),
        sources=tuple(json.loads(sources)),
        command=command,
        version=version,
        seconds=seconds,
        conventions=json.loads(conventions),
        values=tuple(_value(row) for row in rows["value"]),
        quality=_quality(next(iter(rows["quality"]))),
        compared=tuple(_difference(row) for row in rows["difference"]),
        curves={kind: tuple(lines) for kind, lines in curves.items()},
        gates=tuple(GateOutcome(text, bool(passed), why) for text, passed, why in rows["gate"]),
        status=status,
        notes=tuple(json.loads(notes)),
        findings=parse_findings(findings),
    )


def parse_findings(text: str) -> tuple[Finding, ...]:
    """Parse findings from JSON; fields of other versions are left out."""
    names = {field.name for field in fields(Finding)}
    findings = []
    for each in json.loads(text):
        values_by_name = {name: value for name, value in each.items() if name in names}
        if "since" in values_by_name:
            values_by_name["since"] = dt.date.fromisoformat(values_by_name["since"])
        findings.append(Finding(**values_by_name))
    return tuple(findings)


def _non_empty_fields(finding: Finding) -> dict[str, Any]:
    """Return the fields of a finding that are not empty."""
    values_by_name = {field.name: getattr(finding, field.name) for field in fields(Finding)}
    empty = {
        name
        for name, value in values_by_name.items()
        if value in ("", None) or (isinstance(value, float) and not math.isfinite(value))
    }
    return {
        name: value.isoformat() if isinstance(value, dt.date) else value
        for name, value in values_by_name.items()
        if name not in empty
    }


def _value(row: Row) -> NightValue:
    values = list(row)
    for part in (_VALUE_FLOATS, _SHARES):
        values[part] = _floats(values[part])
    values[_DROPPED] = dict(_mapping(values[_DROPPED]))
    return NightValue(*values)


@lru_cache(maxsize=1 << 12)
def _mapping(text: str) -> Mapping[str, int]:
    """Parse a mapping from JSON; cached, since many values share theirs."""
    mapping: dict[str, int] = json.loads(text)
    return mapping


def _difference(row: Row) -> NightDifference:
    values = list(row)
    values[_DELTAS] = _floats(values[_DELTAS])
    return NightDifference(*values)


def _quality(row: Row) -> NightQuality:
    values: dict[str, Any] = dict(zip(COLUMNS["quality"], row, strict=True))
    values["nulls"], values["flags"] = (
        json.loads(values["nulls"]),
        tuple(json.loads(values["flags"])),
    )
    values["tie_rates"] = json.loads(values["tie_rates"])
    numbers: dict[str, Any] = {k: math.nan if v is None else v for k, v in values.items()}
    return NightQuality(**numbers)


def _floats(row: Row) -> Row:
    if None not in row:
        return row
    return [math.nan if number is None else number for number in row]


def _stored(value: object) -> Any:
    return _json(value) if isinstance(value, Mapping | tuple) else value


def _json(value: object) -> str:
    return json.dumps(plain_value(value), ensure_ascii=False, separators=(",", ":"))


def _numbers(values: Sequence[float]) -> str:
    return json.dumps([v if math.isfinite(v) else None for v in values], separators=(",", ":"))


def _tuple(text: str) -> tuple[float, ...]:
    return tuple(_floats(json.loads(text)))


_KINDS = {"TEXT": pa.string(), "INTEGER": pa.int64(), "REAL": pa.float64(), "BLOB": pa.binary()}


def write_tables(database: sqlite3.Connection, folder: Path) -> list[Path]:
    """Write each table to a Parquet file; see `History.export`."""
    paths = {name: folder / f"{name}.parquet" for name in TABLES}
    for name, path in paths.items():
        if path.is_file() and path.stat().st_size and not _is_table(path, name):
            raise OutputError(
                f"folder: must hold no other files of these names, got {str(path)!r}, which is no "
                f"table {name!r} of a history; name another folder, or remove the file."
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make {str(folder)!r}: {error.strerror or error}.") from error
    paths_written = []
    for name, path in paths.items():
        with atomic_path(path) as part:
            pq.write_table(_table(database, name), part)
        paths_written.append(path)
    return paths_written


def _is_table(path: Path, name: str) -> bool:
    """Tell whether a file is this table, written by this or an older version."""
    try:
        names = pq.read_schema(path).names
    except (pa.ArrowException, OSError):
        return False
    with closing(sqlite3.connect(":memory:")) as database:
        for step in MIGRATIONS:
            database.executescript(step)
            if names == [
                column for _, column, *_ in database.execute(f"PRAGMA table_info({name})")
            ]:
                return True
    return False


def _table(database: sqlite3.Connection, name: str) -> pa.Table:
    column_info = database.execute(f"PRAGMA table_info({name})").fetchall()
    schema = pa.schema([pa.field(column, _KINDS[kind]) for _, column, kind, *_ in column_info])
    order = "date, place" if "place" in schema.names else "date"
    rows = database.execute(f"SELECT * FROM {name} ORDER BY {order}")  # noqa: S608 - our own names
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    table = pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )
    dates = pc.cast(table.column("date"), pa.date32())
    return table.set_column(0, pa.field("date", pa.date32()), dates)
