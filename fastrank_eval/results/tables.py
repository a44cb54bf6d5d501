"""Lay cells out as text and Markdown, and write tables to files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from fastrank_eval._lib.errors import OutputError
from fastrank_eval._lib.files import csv_cells

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = [
    "GAP",
    "SUFFIXES",
    "Cells",
    "code_span",
    "fits",
    "grid",
    "markdown_lines",
    "one_line_each",
    "plain_lines",
    "sections",
    "widths_of",
    "write_csv",
    "write_table",
]


GAP = 2  # blanks between columns


@dataclass(frozen=True)
class Cells:
    """The cells of a table; the first `names` columns hold names.

    Parameters
    ----------
    header : list of str
    names : int
    rows : list of list of str
        A cell may have several lines.
    """

    header: list[str]
    names: int
    rows: list[list[str]]


def plain_lines(table: Cells) -> list[str]:
    """Render text, with names to the left and numbers to the right."""
    cells = [[cell.split("\n") for cell in row] for row in (table.header, *table.rows)]
    widths = widths_of([table.header, *table.rows])
    lines = []
    for row in cells:
        for number in range(max(map(len, row))):
            parts = [cell[number] if number < len(cell) else "" for cell in row]
            aligned = [
                part.ljust(width) if i < table.names else part.rjust(width)
                for i, (part, width) in enumerate(zip(parts, widths, strict=True))
            ]
            lines.append((" " * GAP).join(aligned).rstrip())
    return lines


def one_line_each(table: Cells) -> Cells:
    """Put every cell of a table on one line."""
    header = [cell.replace("\n", " ") for cell in table.header]
    rows = [[cell.replace("\n", ", ") for cell in row] for row in table.rows]
    return Cells(header, table.names, rows)


def markdown_lines(table: Cells) -> list[str]:
    """Render a markdown table, with names from the data in code spans."""
    rule = [" --- " if i < table.names else " ---: " for i in range(len(table.header))]
    lines = [_markdown_row(table.header), f"|{'|'.join(rule)}|"]
    for row in table.rows:
        names, numbers = row[: table.names], row[table.names :]
        cells = [*map(code_span, names), *(_escape(cell) for cell in numbers)]
        lines.append(_markdown_row(cells))
    return lines


def fits(table: Cells, width: int) -> bool:
    """Test whether a table without its first column fits a terminal."""
    _, *widths = widths_of([table.header, *table.rows])
    return sum(widths) + GAP * len(widths) <= width


def sections(
    table: Cells, width: int, foldable: Mapping[str, int], bold: str
) -> Iterator[RenderableType]:
    """Render a titled table for each run of rows with the same first cell.

    Parameters
    ----------
    table : Cells
    width : int
        Columns of the terminal.
    foldable : mapping of str to int
        Titles of columns that may be folded, with their least widths. They share the width that
        the other columns leave. The last column is folded first.
    bold : str
        The title of the column of values begins with it.
    """
    from rich.text import Text

    header = table.header[1:]
    _, *widths = widths_of([table.header, *table.rows])
    minima = {header.index(title): least for title, least in foldable.items() if title in header}
    free = width - GAP * len(widths) - sum(w for i, w in enumerate(widths) if i not in minima)
    needed = sum(min(least, widths[i]) for i, least in minima.items())
    for i, least in minima.items():
        minimum = min(least, widths[i])
        needed -= minimum
        widths[i] = max(minimum, min(widths[i], free - needed))
        free -= widths[i]
    for title, section in groupby(table.rows, key=lambda row: row[0]):
        yield Text(title, style="bold cyan", overflow="fold")
        yield grid(Cells(header, table.names - 1, [row[1:] for row in section]), widths, bold)
        yield Text()


def grid(table: Cells, widths: Sequence[int] | None = None, bold: str | None = None) -> Table:
    """Render a table for a terminal.

    Parameters
    ----------
    table : Cells
    widths : sequence of int, optional
        Of its columns; by default those of the longest lines.
    bold : str, optional
        Columns whose titles begin with it are bold.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    result = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for i, (title, width) in enumerate(
        zip(table.header, widths or widths_of([table.header, *table.rows]), strict=True)
    ):
        result.add_column(
            Text(title),
            justify="left" if i < table.names else "right",
            overflow="fold",
            width=width,
            style="bold" if bold and title.startswith(bold) else "",
        )
    for row in table.rows:
        result.add_row(*map(Text, row))
    return result


def widths_of(rows: Sequence[Sequence[str]]) -> list[int]:
    """Measure the longest line of each column."""
    return [
        max(len(line) for cell in column for line in cell.split("\n"))
        for column in zip(*rows, strict=True)
    ]


def _escape(cell: str) -> str:
    """Put a cell of numbers on one line, and escape markup."""
    return cell.replace("\n", ", ").replace("*", "\\*")


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def code_span(text: str) -> str:
    """Put `text` in a code span, with a fence that does not occur in it."""
    if not text:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


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
