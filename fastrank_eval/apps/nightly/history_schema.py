"""Tables of the history, their rows, and its files."""

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
    "findings_of",
    "night_of",
    "rows_of",
    "write_tables",
]


#: Marks the file, so that no other program's database is taken for a history: "frEh".
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

# One slice over time reads its own lines only; who asks when a number was computed finds it.
_SECOND = """
CREATE INDEX value_over_time ON value (measure, score, slicing, slice, date);
ALTER TABLE night ADD COLUMN written_at TEXT NOT NULL DEFAULT '';
"""

# Whose nights these are: another report's are not to replace them.
_THIRD = """
CREATE TABLE report (name TEXT NOT NULL);
"""

# Sums and scores are kept apart, so that what is not needed is not read; the same rows on two
# nights are found by their fingerprint. What older versions kept stays, as one state of all.
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

# A night may be "changed", and says what is wrong of what since when. SQLite alters no CHECK: the
# table is made anew, while foreign keys are off.
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

#: The statements that lead from each version to the next; a new file takes them all. What has
#: been released is never edited: a change is a further step.
MIGRATIONS = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH)
VERSION = len(MIGRATIONS)

#: Tables of nights, in the order in which one is written.
TABLES = ("night", "quality", "value", "difference", "curve", "gate", "state")

Row = Sequence[Any]

#: The columns of each table after the date and, where there are several rows, their place.
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
#: Numbers of which NULL is NaN; the others are never NULL.
_DROPPED = _VALUE.index("dropped")
_VALUE_FLOATS = slice(_VALUE.index("value"), _VALUE.index("effective_groups") + 1)
_SHARES = slice(_VALUE.index("rows_share"), _VALUE.index("positives_share") + 1)
_DELTAS = slice(_DIFFERENCE.index("delta"), _DIFFERENCE.index("p_adjusted") + 1)


def rows_of(night: Night, written_at: str) -> dict[str, list[Row]]:
    """The rows of a night in each table, without its date and their place.

    Parameters
    ----------
    night : Night
    written_at : str
        When, in UTC.

    Returns
    -------
    dict of str to list of rows
        As `COLUMNS` names them; NaN is what SQLite takes for NULL.
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
                _json([_known(finding) for finding in night.findings]),
                written_at,
            )
        ],
        "quality": [[_stored(getattr(night.quality, name)) for name in COLUMNS["quality"]]],
        "value": [[_stored(getattr(value, name)) for name in _VALUE] for value in night.values],
        "difference": [[getattr(line, name) for name in _DIFFERENCE] for line in night.compared],
        "curve": [
            (kind, line.score, line.label, _numbers(line.x), _numbers(line.y))
            for kind, lines in night.curves.items()
            for line in lines
        ],
        "gate": [(gate.condition, int(gate.passed), gate.reason) for gate in night.gates],
    }


def night_of(date: str, rows: Mapping[str, Iterable[Row]]) -> Night:
    """The night that rows came from; see `rows_of`."""
    ((*night, _),) = rows["night"]
    title, status, models, baseline, measures, sources, command, version, *others = night
    seconds, told, notes, findings = others
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
        conventions=json.loads(told),
        values=tuple(_value(row) for row in rows["value"]),
        quality=_quality(next(iter(rows["quality"]))),
        compared=tuple(_difference(row) for row in rows["difference"]),
        curves={kind: tuple(lines) for kind, lines in curves.items()},
        gates=tuple(GateOutcome(text, bool(passed), why) for text, passed, why in rows["gate"]),
        status=status,
        notes=tuple(json.loads(notes)),
        findings=findings_of(findings),
    )


def findings_of(text: str) -> tuple[Finding, ...]:
    """The findings that a text holds; those that another version knew more of lose that."""
    known = {field.name for field in fields(Finding)}
    found = []
    for each in json.loads(text):
        told = {name: value for name, value in each.items() if name in known}
        if "since" in told:
            told["since"] = dt.date.fromisoformat(told["since"])
        found.append(Finding(**told))
    return tuple(found)


def _known(finding: Finding) -> dict[str, Any]:
    """The fields of a finding that say something."""
    told = {field.name: getattr(finding, field.name) for field in fields(Finding)}
    empty = {
        name
        for name, value in told.items()
        if value in ("", None) or (isinstance(value, float) and not math.isfinite(value))
    }
    return {
        name: value.isoformat() if isinstance(value, dt.date) else value
        for name, value in told.items()
        if name not in empty
    }


def _value(row: Row) -> NightValue:
    found = list(row)
    for part in (_VALUE_FLOATS, _SHARES):
        found[part] = _floats(found[part])
    found[_DROPPED] = dict(_mapping(found[_DROPPED]))
    return NightValue(*found)


@lru_cache(maxsize=1 << 12)
def _mapping(text: str) -> Mapping[str, int]:
    """What a text holds; many values share theirs."""
    found: dict[str, int] = json.loads(text)
    return found


def _difference(row: Row) -> NightDifference:
    found = list(row)
    found[_DELTAS] = _floats(found[_DELTAS])
    return NightDifference(*found)


def _quality(row: Row) -> NightQuality:
    found: dict[str, Any] = dict(zip(COLUMNS["quality"], row, strict=True))
    found["nulls"], found["flags"] = json.loads(found["nulls"]), tuple(json.loads(found["flags"]))
    found["tie_rates"] = json.loads(found["tie_rates"])
    known: dict[str, Any] = {k: math.nan if v is None else v for k, v in found.items()}
    return NightQuality(**known)


def _floats(found: Row) -> Row:
    if None not in found:
        return found
    return [math.nan if number is None else number for number in found]


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
    """Write each table to a file of its name; see `History.export`."""
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
    written = []
    for name, path in paths.items():
        with atomic_path(path) as part:
            pq.write_table(_table(database, name), part)
        written.append(path)
    return written


def _is_table(path: Path, name: str) -> bool:
    """Tell whether a file is this table, as this version or an older one has written it."""
    try:
        names = pq.read_schema(path).names
    except (pa.ArrowException, OSError):
        return False
    with closing(sqlite3.connect(":memory:")) as made:
        for step in MIGRATIONS:
            made.executescript(step)
            if names == [column for _, column, *_ in made.execute(f"PRAGMA table_info({name})")]:
                return True
    return False


def _table(database: sqlite3.Connection, name: str) -> pa.Table:
    about = database.execute(f"PRAGMA table_info({name})").fetchall()
    schema = pa.schema([pa.field(column, _KINDS[kind]) for _, column, kind, *_ in about])
    order = "date, place" if "place" in schema.names else "date"
    rows = database.execute(f"SELECT * FROM {name} ORDER BY {order}")  # noqa: S608 - our own names
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    table = pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )
    dates = pc.cast(table.column("date"), pa.date32())
    return table.set_column(0, pa.field("date", pa.date32()), dates)
