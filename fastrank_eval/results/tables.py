"""Define reports, as text and for terminals; write tables to files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import OutputError
from fastrank_eval._lib.files import csv_cells

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as Grid
    from rich.text import Text

GAP = 2  # blanks between columns
TEXT_WIDTH = 80  # columns of plain text, whose output is unknown


class Best(str):
    """A cell whose first word, the best value of a line, is bold."""

    __slots__ = ()


class Name(str):
    """The title of a column that comes from the data."""

    __slots__ = ()


@dataclass(frozen=True)
class Table:
    """A table of texts; the first `names` columns hold names.

    Parameters
    ----------
    header : list of str
    names : int
    rows : list of list of str
        A cell may have several lines.
    title : tuple of str
        Names that the title joins by "by"; empty without a title.
    bold : str
        On a terminal, columns whose titles begin with it are bold; no column if it is empty.
    widths : list of int, optional
        Of the columns on a terminal; by default those of the longest lines.
    """

    header: list[str]
    names: int
    rows: list[list[str]]
    title: tuple[str, ...] = ()
    bold: str = ""
    widths: list[int] | None = None

    def longest_lines(self) -> list[int]:
        """Measure the longest line of each column."""
        columns = zip(self.header, *self.rows, strict=True)
        return [max(map(longest_line, column)) for column in columns]

    def one_line(self) -> Table:
        """Put every cell on one line."""
        header = [type(cell)(cell.replace("\n", " ")) for cell in self.header]
        rows = [[type(cell)(cell.replace("\n", ", ")) for cell in row] for row in self.rows]
        return replace(self, header=header, rows=rows)


@dataclass(frozen=True)
class Lines:
    """Lines between tables.

    Parameters
    ----------
    texts : list of str
    styles : list of str
        The style of each line on a terminal.
    bullet : str
        Stands before each line in markdown.
    """

    texts: list[str]
    styles: list[str]
    bullet: str = ""


@dataclass(frozen=True)
class Heading:
    """The heading of the tables that follow.

    Parameters
    ----------
    text : str
        A name from the data.
    """

    text: str


@dataclass(frozen=True)
class Report:
    """Tables and lines, then notes, the size of the data and the conventions.

    Parameters
    ----------
    title : str
        The title of a page.
    blocks : list of Table, Lines or Heading
    legend : list of str
        The meaning of marks in the tables.
    notes : list of str
        Notes with names from the data.
    size : str
    conventions : list of str
        The name and value of each.
    """

    title: str
    blocks: Sequence[Table | Lines | Heading]
    legend: Sequence[str]
    notes: Sequence[str]
    size: str
    conventions: Sequence[str]

    @property
    def has_best(self) -> bool:
        """Whether the best value of a line is bold."""
        tables = (block for block in self.blocks if isinstance(block, Table))
        return any(isinstance(cell, Best) for table in tables for row in table.rows for cell in row)

    def to_text(self) -> str:
        """Render plain text."""
        lines: list[str] = []
        apart = False  # several tables, or one with a title, stand between blank lines
        for before, block in zip((None, *self.blocks), self.blocks, strict=False):
            if isinstance(block, Lines):
                lines += block.texts
                continue
            if isinstance(block, Heading):
                lines += [*[""] * bool(lines), block.text]
                continue
            if block.title or (lines and not isinstance(before, Heading)):
                lines.append("")
            apart |= bool(block.title or before)
            if block.title:
                lines.append(" by ".join(block.title))
            lines += text_lines(block.one_line())
        footer = *self.legend, *self.notes, self.size, ", ".join(self.conventions)
        shown = [*filter(None, footer)]
        return "\n".join([*lines, *[""] * (apart and bool(shown)), *shown])

    def to_terminal(self) -> Iterator[RenderableType]:
        """Render for a terminal."""
        from rich.text import Text

        for block in self.blocks:
            if isinstance(block, Table):
                if block.title:
                    yield Text(" by ".join(block.title), style="bold cyan", overflow="fold")
                yield rich_table(block)
            elif isinstance(block, Heading):
                yield Text(block.text, style="bold underline", overflow="fold")
                continue
            else:
                yield from map(Text, block.texts, block.styles)
            yield Text()
        yield from map(Text, filter(None, (*self.legend, *self.notes, self.size)))
        yield Text(", ".join(self.conventions), style="dim")


def text_lines(table: Table) -> list[str]:
    """Render text, with names to the left and numbers to the right."""
    widths = table.longest_lines()
    lines = []
    for row in (table.header, *table.rows):
        cells = [cell.split("\n") for cell in row]
        for number in range(max(map(len, cells))):
            parts = [cell[number] if number < len(cell) else "" for cell in cells]
            aligned = [
                part.ljust(width) if i < table.names else part.rjust(width)
                for i, (part, width) in enumerate(zip(parts, widths, strict=True))
            ]
            lines.append((" " * GAP).join(aligned).rstrip())
    return lines


def rich_table(table: Table, fixed: bool = True) -> Grid:
    """Render for a terminal.

    Parameters
    ----------
    table : Table
    fixed : bool
        Whether columns keep their widths in a narrow terminal.
    """
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    widths = table.widths or table.longest_lines()
    columns = []
    for i, (title, *cells) in enumerate(zip(table.header, *table.rows, strict=True)):
        # rich drops the blanks at the end that align numbers, so these columns are padded here.
        keeps_blanks = any(cell.endswith(" ") for cell in cells)
        columns.append([_rich_cell(cell, widths[i] if keeps_blanks else 0) for cell in cells])
        grid.add_column(
            Text(title),
            justify="left" if i < table.names else "right",
            overflow="fold",
            width=widths[i] if fixed else None,
            style="bold" if table.bold and title.startswith(table.bold) else "",
        )
        if keeps_blanks:
            grid.columns[i].justify = "left"
            grid.columns[i].header = _rich_cell(title, widths[i])
    for row in zip(*columns, strict=True):
        grid.add_row(*row)
    return grid


def _rich_cell(cell: str, width: int) -> Text:
    """Render a cell, its lines to the right of a width."""
    from rich.text import Text

    text = Text("\n".join(line.rjust(width) for line in cell.split("\n")))
    if isinstance(cell, Best):
        start, end = best_word(text.plain)
        text.stylize("bold", start, end)
    return text


def best_word(cell: str) -> tuple[int, int]:
    """Find the first word of a cell: its start and its end."""
    start = len(cell) - len(cell.lstrip())
    return start, start + len(cell.split(maxsplit=1)[0])


def first_that_fits(tables: Iterable[Table], width: int) -> Table:
    """Return the first table that fits a width, or the last.

    Its first column does not count: it becomes the title of `sections`.
    """
    for table in tables:
        widths = table.longest_lines()[1:]
        if sum(widths) + GAP * len(widths) <= width:
            break
    return table


def sections(table: Table, width: int, foldable: Mapping[str, int]) -> Iterator[Table]:
    """Make a table of each run of rows with one first cell, its title.

    Parameters
    ----------
    table : Table
    width : int
        Columns of the terminal.
    foldable : mapping of str to int
        Titles of columns that may be folded, with their least widths. They share the width that
        the other columns leave. The last column is folded first.
    """
    header, widths = table.header[1:], table.longest_lines()[1:]
    least = {
        header.index(title): min(least, widths[header.index(title)])
        for title, least in foldable.items()
        if title in header
    }
    free = width - GAP * len(widths) - sum(w for i, w in enumerate(widths) if i not in least)
    needed = sum(least.values())
    for i, minimum in least.items():
        needed -= minimum
        widths[i] = max(minimum, min(widths[i], free - needed))
        free -= widths[i]
    for title, rows in groupby(table.rows, key=lambda row: row[0]):
        cells = [row[1:] for row in rows]
        yield Table(header, table.names - 1, cells, (title,) * bool(title), table.bold, widths)


def longest_line(cell: str) -> int:
    """Return the length of the longest line of a cell."""
    return max(map(len, cell.split("\n"))) if "\n" in cell else len(cell)


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
        with part.open("wb") as sink:  # Arrow opens no file whose name is not UTF-8
            if suffix == ".parquet":
                import pyarrow.parquet as papq

                papq.write_table(table, sink)
            elif suffix == ".arrow":
                with pa.ipc.new_file(sink, table.schema) as writer:
                    writer.write_table(table)
            else:
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
        elif column.type == pa.uuid():
            column = pa.chunked_array([list(map(str, column.to_pylist()))], pa.string())
        elif safe and any(is_text(column.type) for is_text in _TEXTS):
            column = pa.chunked_array([csv_cells(column.to_pylist(), safe)], column.type)
        table = table.set_column(i, field.name, column)
    return table
