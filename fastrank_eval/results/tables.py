"""Render cells as lines of text, markdown tables and terminal tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = [
    "GAP",
    "Cells",
    "code_span",
    "fits",
    "grid",
    "markdown_lines",
    "one_line_each",
    "plain_lines",
    "sections",
    "widths_of",
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
