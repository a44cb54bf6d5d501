"""The tables of a history as Parquet files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastrank_eval.errors import OutputError
from fastrank_eval.output import atomic_path
from fastrank_eval.report.schema import MIGRATIONS, TABLES

__all__ = ["write_tables"]

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
