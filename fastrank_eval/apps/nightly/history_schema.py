"""Define the tables of the history and convert nights to rows and back."""

from __future__ import annotations

import datetime as dt
import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, fields, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastrank_eval._lib.arguments import matches_annotation, shown
from fastrank_eval._lib.errors import OutputError
from fastrank_eval._lib.files import atomic_path
from fastrank_eval.apps.nightly.night import (
    CurveLine,
    EarlierJudgement,
    Finding,
    GateOutcome,
    MixChange,
    Night,
    NightCalibration,
    NightDifference,
    NightDrift,
    NightQuality,
)
from fastrank_eval.engine.records import MeasureValue, plain_value
from fastrank_eval.results.gate_parser import ALL

#: Marks the file as a history, so that the database of another program is refused: "frEh".
APPLICATION_ID = 0x66724568

VERSION = 12
#: The statements from each version to the next; a new file runs them all. Released steps are never
#: edited: a change is a new step.
MIGRATIONS = tuple(
    files("fastrank_eval.apps.nightly").joinpath("migrations", f"{step}.sql").read_text("utf-8")
    for step in range(1, VERSION + 1)
)

#: The kind of a state that has the values of a night when it was provisional.
PROVISIONAL = "provisional"

#: Tables of nights, in the order of writing.
TABLES = (
    *("night", "quality", "value", "difference", "curve", "gate", "drift", "calibration", "state"),
)

Row = Sequence[Any]

#: The fields of a night and of its records that each table stores.
_FIELDS: dict[str, tuple[str, ...]] = {
    "night": (
        "title", "status", "models", "baseline", "measures", "sources", "command", "version",
        "seconds", "conventions", "notes", "provisional", "labels_complete", "label_age",
        "judged_before",
    ),
    "quality": tuple(field.name for field in fields(NightQuality)),
    "value": (
        "score", "by", "slice", "measure", "value", "se", "ci_low", "ci_high", "effective_groups",
        "groups", "groups_used", "rows_share", "positives_share", "dropped", "caution",
    ),
    "difference": tuple(field.name for field in fields(NightDifference)),
    "curve": tuple(field.name for field in fields(CurveLine)),
    "gate": tuple(field.name for field in fields(GateOutcome)),
    "drift": tuple(field.name for field in fields(NightDrift)),
    "calibration": tuple(field.name for field in fields(NightCalibration)),
}  # fmt: skip
_RECORDS: dict[str, Any] = {
    "night": dict,
    "quality": NightQuality,
    "value": MeasureValue,
    "difference": NightDifference,
    "curve": CurveLine,
    "gate": GateOutcome,
    "drift": NightDrift,
    "calibration": NightCalibration,
}
#: Fields stored as JSON.
_JSON = {
    "night": ("models", "measures", "sources", "conventions", "notes"),
    "quality": ("nulls", "flags", "tie_rates"),
    "value": ("dropped",),
    "curve": ("x", "y"),
}
#: Fields that may be None; NULL in any other is NaN.
_NULLABLE = ("baseline", "by", "caution", "labels_complete", "judged_before")

_STATUSES = ("fine", "changed", "provisional", "regression", "data_quality")
#: By table and field the annotation of its type.
_TYPES = {
    table: {each.name: str(each.type) for each in fields(Night if table == "night" else record)}
    for table, record in _RECORDS.items()
}

#: The columns of each table after `date`, `label_name` and, in tables with several rows per night,
#: `place`.
COLUMNS = {
    name: tuple("slicing" if field == "by" else field for field in names)
    for name, names in _FIELDS.items()
}
COLUMNS["night"] += ("findings", "written_at")
COLUMNS["curve"] = ("kind", *COLUMNS["curve"])


def night_rows(night: Night, written_at: str) -> dict[str, list[Row]]:
    """Convert a night to rows of each table, without its keys and `place`.

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
    findings = _json([_non_empty_fields(finding) for finding in night.findings])
    return {
        "night": [(*_row("night", night), findings, written_at)],
        "quality": [_row("quality", night.quality)],
        "value": [_row("value", value) for value in night.values],
        "difference": [_row("difference", difference) for difference in night.compared],
        "curve": [
            (kind, *_row("curve", curve))
            for kind, curves in night.curves.items()
            for curve in curves
        ],
        "gate": [_row("gate", gate) for gate in night.gates],
        "drift": [_row("drift", drift) for drift in night.drift],
        "calibration": [_row("calibration", each) for each in night.calibration],
    }


def night_from_rows(date: str, rows: Mapping[str, Iterable[Row]], label: str = "") -> Night:
    """Convert rows to a night; see `night_rows`."""
    ((*night, findings, _),) = rows["night"]
    curves: dict[str, tuple[CurveLine, ...]] = {}
    for kind, *row in rows["curve"]:
        curves[kind] = (*curves.get(kind, ()), _record("curve", row))
    return Night(
        date=dt.date.fromisoformat(date),
        label=label,
        **_record("night", night),
        values=tuple(_record("value", row) for row in rows["value"]),
        quality=_record("quality", next(iter(rows["quality"]))),
        compared=tuple(_record("difference", row) for row in rows["difference"]),
        curves=curves,
        gates=tuple(_record("gate", row) for row in rows["gate"]),
        drift=tuple(_record("drift", row) for row in rows["drift"]),
        calibration=tuple(_record("calibration", row) for row in rows["calibration"]),
        findings=parse_findings(findings),
    )


def name_labels(database: sqlite3.Connection, labels: Sequence[str]) -> None:
    """Name the nights of a report whose labels have changed.

    With several labels, nights have the name of their label. With one label, its nights lose their
    name, and nights of other labels have theirs if any night has one: none is replaced by a night
    of another label.

    Parameters
    ----------
    database : sqlite3.Connection
    labels : sequence of str
        The columns of the labels of the report.
    """
    nights = database.execute(
        "SELECT date, label_name, conventions FROM night ORDER BY label_name"  # without name first
    ).fetchall()
    has_names = any(name for _, name, _ in nights)
    for date, name, conventions in nights:
        label = json.loads(conventions).get("columns", {}).get("label")
        if label in labels:
            new = label if len(labels) > 1 else ""
        else:
            new = label if label and has_names and len(labels) == 1 else name
        if new != name:
            database.execute(
                "UPDATE OR IGNORE night SET label_name = ? WHERE label_name = ? AND date = ?",
                (new, name, date),
            )


def _row(table: str, record: object) -> list[Any]:
    """Return the columns of a record: mappings and tuples as JSON."""
    row = [_column(getattr(record, name)) for name in _FIELDS[table]]
    if "by" in _FIELDS[table]:
        row[_FIELDS[table].index("by")] = getattr(record, "by", None) or ""
    return row


def _column(value: object) -> object:
    if value is None or isinstance(value, str | float | int):
        return value
    if isinstance(value, EarlierJudgement):
        value = {"status": value.status, "values": value.values}
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="seconds")
    return _json(value) if isinstance(value, Mapping | tuple) else value


def check_types(values: Mapping[Any, object], types: Mapping[Any, str]) -> None:
    """Raise TypeError unless each value has its annotated type."""
    for name, value in values.items():
        if not matches_annotation(value, types[name]):
            raise TypeError(f"{name} must be {types[name]}, got {shown(value)}")


@lru_cache(maxsize=1 << 12)
def _types_fit(table: str, types: tuple[type, ...]) -> bool:
    """Return whether columns of a table have types that fields take."""
    for name, of_column in zip(_FIELDS[table], types, strict=True):
        annotation = _TYPES[table][name]
        if name in _JSON.get(table, ()) or name in ("labels_complete", "judged_before", "by"):
            fits = of_column is str or (of_column is type(None) and "None" in annotation)
        elif of_column is type(None):
            fits = "None" in annotation or annotation == "float"
        elif annotation in ("float", "bool", "int"):
            fits = issubclass(of_column, int) or (of_column is float and annotation == "float")
        else:
            fits = of_column is str
        if not fits:
            raise TypeError(f"{name} of {table} must be {annotation}, got {of_column.__name__}")
    return True


def _record(table: str, row: Row) -> Any:
    _types_fit(table, tuple(map(type, row)))
    values = dict(zip(_FIELDS[table], row, strict=True))
    for name in _JSON.get(table, ()):
        values[name] = _parsed(values[name], _TYPES[table][name])
    if values.get("status", "fine") not in _STATUSES:
        raise ValueError(f"status must be one of {', '.join(_STATUSES)}, got {values['status']!r}")
    if None in row:
        empty = [name for name, value in values.items() if value is None]
        values.update((name, math.nan) for name in empty if name not in _NULLABLE)
    if "by" in values:
        values["by"] = values["by"] or None
    for name in ("passed", "provisional"):
        if name in values:
            values[name] = bool((False, True).index(values[name]))
    if values.get("labels_complete") is not None:
        values["labels_complete"] = dt.datetime.fromisoformat(values["labels_complete"])
    if values.get("judged_before") is not None:
        values["judged_before"] = _earlier_judgement(json.loads(values["judged_before"]))
    return _RECORDS[table](**values)


def _earlier_judgement(saved: Mapping[str, Any]) -> EarlierJudgement:
    values = ((a, b, math.nan if value is None else value) for a, b, value in saved["values"])
    judgement = EarlierJudgement(saved["status"], tuple(values))
    check_types(vars(judgement), {"status": "str", "values": "tuple[tuple[Any, ...], ...]"})
    for score, measure, value in judgement.values:
        check_types({"score": score, "measure": measure, "value": value}, _TYPES["value"])
    return judgement


def provisional_content(night: Night) -> bytes:
    """Convert the values of a night to JSON; see `provisional_values`."""
    content = {"age": night.label_age, "values": [_row("value", value) for value in night.values]}
    return _json(content).encode()


def provisional_values(content: bytes) -> tuple[float, tuple[MeasureValue, ...]]:
    """Return the age of the labels in hours, and the values, from JSON.

    Raises
    ------
    ValueError, TypeError, LookupError
        If the content has another form.
    """
    saved = json.loads(content)
    return float(saved["age"]), tuple(_record("value", row) for row in saved["values"])


def periods_content(night: Night) -> bytes:
    """Convert week, month and mixes of a night to JSON.

    Slices have their values of the first measure, as pages and summaries show them.
    """
    shown = {
        name: [v for v in values if v.slice == ALL or v.measure in night.measures[:1]]
        for name, values in night.periods.items()
    }
    content = {
        "values": {name: [_row("value", v) for v in values] for name, values in shown.items()},
        "nights": {name: list(map(str, dates)) for name, dates in night.period_nights.items()},
        "notes": night.period_notes,
        "mixes": list(map(asdict, night.mixes)),
    }
    return _json(content).encode()


def with_saved_periods(night: Night, content: bytes) -> Night:
    """Add the week, the month and the mixes of a night from JSON.

    Raises
    ------
    ValueError, TypeError, LookupError
        If the content has another form, or values with errors.
    """
    saved = json.loads(content)
    periods = {
        name: tuple(_record("value", row) for row in rows) for name, rows in saved["values"].items()
    }
    # Values of merged nights have no errors; those of an older history are merged again.
    if any(not math.isnan(value.se) for values in periods.values() for value in values):
        raise ValueError("merged values have errors.")
    return replace(
        night,
        periods=periods,
        period_nights={
            name: tuple(map(dt.date.fromisoformat, dates))
            for name, dates in saved["nights"].items()
        },
        period_notes=tuple(saved["notes"]),
        mixes=tuple(map(_mix_of, saved["mixes"])),
    )


def _mix_of(fields_by_name: Mapping[str, Any]) -> MixChange:
    values: dict[str, Any] = {
        name: math.nan if v is None else v for name, v in fields_by_name.items()
    }
    check_types(values, {each.name: str(each.type) for each in fields(MixChange)})
    return MixChange(**values)


@lru_cache(maxsize=1 << 12)
def _parsed(text: str, annotation: str) -> Any:
    """Parse JSON, lists as tuples; cached, since many values share theirs."""
    parsed = json.loads(text)
    if isinstance(parsed, dict):
        known = {name: value for name, value in parsed.items() if value is not None}
        check_types({"JSON": known}, {"JSON": annotation})
        return parsed
    parsed = tuple(math.nan if each is None else each for each in parsed)
    check_types({"JSON": parsed}, {"JSON": annotation})
    return parsed


@lru_cache(maxsize=1 << 8)
def parse_findings(text: str) -> tuple[Finding, ...]:
    """Parse findings from JSON; fields of other versions are left out."""
    names = {field.name: str(field.type) for field in fields(Finding)}
    findings = []
    for each in json.loads(text):
        values_by_name = {name: value for name, value in each.items() if name in names}
        if "since" in values_by_name:
            values_by_name["since"] = dt.date.fromisoformat(values_by_name["since"])
        check_types(values_by_name, names)
        findings.append(Finding(**values_by_name))
    return tuple(findings)


def _non_empty_fields(finding: Finding) -> dict[str, Any]:
    """Return the fields of a finding that are not empty."""
    return {
        name: value.isoformat() if isinstance(value, dt.date) else value
        for name, value in vars(finding).items()
        if value not in ("", None) and not (isinstance(value, float) and not math.isfinite(value))
    }


def _json(value: object) -> str:
    return json.dumps(plain_value(value), ensure_ascii=False, separators=(",", ":"))


_KINDS = {"TEXT": pa.string(), "INTEGER": pa.int64(), "REAL": pa.float64(), "BLOB": pa.binary()}


def write_tables(database: sqlite3.Connection, folder: Path) -> list[Path]:
    """Write each table to a Parquet file; see `History.export`."""
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
    paths_written = []
    for name, path in paths.items():
        with atomic_path(path) as part:
            pq.write_table(_table(database, name), part)
        paths_written.append(path)
    return paths_written


def _is_table(path: Path, name: str) -> bool:
    """Tell whether a file is this table, written by this or an older version."""
    try:
        # Arrow reads the name `s3:x` as an address.
        names = pq.read_schema(path.absolute()).names
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
    order = "date, label_name" + (", place" if "place" in schema.names else "")
    rows = database.execute(f"SELECT * FROM {name} ORDER BY {order}")  # noqa: S608 - our own names
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    table = pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )
    dates = pc.cast(table.column("date"), pa.date32())
    return table.set_column(0, pa.field("date", pa.date32()), dates)
