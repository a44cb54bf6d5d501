"""Tables of values as Parquet, Arrow or CSV files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from fastrank_eval.errors import OutputError

__all__ = ["SUFFIXES", "write_table"]

#: What the name of a file may end in.
SUFFIXES = (".parquet", ".arrow", ".csv")
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def write_table(table: pa.Table, part: Path, shown: str) -> None:
    """Write a table to `part` in the format that the suffix of `shown` names.

    Raises
    ------
    OutputError
        If the format cannot hold a column.
    """
    suffix = Path(shown).suffix.lower()
    try:
        if suffix == ".parquet":
            import pyarrow.parquet as papq

            papq.write_table(table, part)
        elif suffix == ".arrow":
            with pa.ipc.new_file(str(part), table.schema) as writer:
                writer.write_table(table)
        else:
            import pyarrow.csv as pacsv

            pacsv.write_csv(_decoded(table), part)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = (str(error).splitlines() or ["unknown fault"])[0]
        raise OutputError(f"cannot write {shown!r} as {suffix}: {reason}.") from error


def _decoded(table: pa.Table) -> pa.Table:
    """Turn columns that CSV cannot hold into such as it can: no dictionaries, bytes in hex."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if any(is_bytes(column.type) for is_bytes in _BYTES):
            column = pa.chunked_array([[key.hex() for key in column.to_pylist()]], pa.string())
        table = table.set_column(place, field.name, column)
    return table
