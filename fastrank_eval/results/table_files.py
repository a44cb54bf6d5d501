"""Write tables of values as Parquet, Arrow or CSV files."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pyarrow as pa

from fastrank_eval._lib.csv_text import csv_cells
from fastrank_eval._lib.errors import OutputError

__all__ = ["SUFFIXES", "write_csv", "write_table"]

#: The suffixes of table files.
SUFFIXES = (".parquet", ".arrow", ".csv")
_TEXTS = (pa.types.is_string, pa.types.is_large_string)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def write_table(table: pa.Table, part: Path, shown: str, safe: bool = False) -> None:
    """Write a table to `part` in the format that the suffix of `shown` names.

    Parameters
    ----------
    table : pyarrow.Table
    part : Path
    shown : str
    safe : bool
        In CSV, put an apostrophe before text that a spreadsheet reads as a formula.

    Raises
    ------
    OutputError
        If the format cannot hold a column.
    """
    suffix = Path(shown).suffix.lower()
    try:
        if suffix == ".parquet":
            import pyarrow.parquet as papq

            with part.open("wb") as sink:  # Arrow opens no file whose name is not UTF-8
                papq.write_table(table, sink)
        elif suffix == ".arrow":
            with part.open("wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        else:
            with part.open("wb") as sink:
                write_csv(table, sink, safe)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = (str(error).splitlines() or ["unknown fault"])[0]
        raise OutputError(f"cannot write {shown!r} as {suffix}: {reason}.") from error


def write_csv(table: pa.Table, sink: Path | IO[bytes], safe: bool = False) -> None:
    """Write a table as CSV, bytes in hexadecimal.

    Parameters
    ----------
    table : pyarrow.Table
    sink : Path or binary file
    safe : bool
        Put an apostrophe before text that a spreadsheet reads as a formula, also in names of
        columns.
    """
    import pyarrow.csv as pacsv

    table = _for_csv(table, safe)
    pacsv.write_csv(table.rename_columns(csv_cells(table.column_names, safe)), sink)


def _for_csv(table: pa.Table, safe: bool) -> pa.Table:
    """Decode dictionaries, and write bytes in hexadecimal."""
    for i, field in enumerate(table.schema):
        column = table.column(i)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if any(is_bytes(column.type) for is_bytes in _BYTES):
            column = pa.chunked_array([[key.hex() for key in column.to_pylist()]], pa.string())
        elif safe and any(is_text(column.type) for is_text in _TEXTS):
            column = pa.chunked_array([csv_cells(column.to_pylist(), safe)], column.type)
        table = table.set_column(i, field.name, column)
    return table
