"""Cells as lines of text, as a markdown table and as a table of a terminal."""

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
    """A table to be printed; its first `names` columns hold names, the others numbers.

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
    """Text without markup, names to the left and numbers to the right."""
    cells = [[cell.split("\n") for cell in row] for row in (table.header, *table.rows)]
    widths = widths_of([table.header, *table.rows])
    lines = []
    for row in cells:
        for at in range(max(map(len, row))):
            parts = [cell[at] if at < len(cell) else "" for cell in row]
            aligned = [
                part.ljust(wide) if i < table.names else part.rjust(wide)
                for i, (part, wide) in enumerate(zip(parts, widths, strict=True))
            ]
            lines.append((" " * GAP).join(aligned).rstrip())
    return lines


def one_line_each(table: Cells) -> Cells:
    """The same with every cell on one line."""
    header = [cell.replace("\n", " ") for cell in table.header]
    rows = [[cell.replace("\n", ", ") for cell in row] for row in table.rows]
    return Cells(header, table.names, rows)


def markdown_lines(table: Cells) -> list[str]:
    """A markdown table; names that come from data stand in code spans."""
    rule = [" --- " if i < table.names else " ---: " for i in range(len(table.header))]
    lines = [_markdown_row(table.header), f"|{'|'.join(rule)}|"]
    for row in table.rows:
        names, numbers = row[: table.names], row[table.names :]
        cells = [*map(code_span, names), *(_escaped(cell) for cell in numbers)]
        lines.append(_markdown_row(cells))
    return lines


def fits(table: Cells, room: int) -> bool:
    """Whether the columns but the first, which becomes a title, fit into a terminal."""
    _, *widths = widths_of([table.header, *table.rows])
    return sum(widths) + GAP * len(widths) <= room


def sections(
    table: Cells, room: int, foldable: Mapping[str, int], bold: str
) -> Iterator[RenderableType]:
    """A titled table for each run of rows whose first cell is the same.

    Parameters
    ----------
    table : Cells
    room : int
        Columns of the terminal.
    foldable : mapping of str to int
        Titles of columns that share what the others leave and are folded into it, with their least
        widths; those that come first give way last.
    bold : str
        What the title of the column of values begins with.
    """
    from rich.text import Text

    header = table.header[1:]
    _, *widths = widths_of([table.header, *table.rows])
    places = {header.index(title): least for title, least in foldable.items() if title in header}
    left = room - GAP * len(widths) - sum(w for i, w in enumerate(widths) if i not in places)
    needed = sum(min(least, widths[i]) for i, least in places.items())
    for i, least in places.items():
        mine = min(least, widths[i])
        needed -= mine
        widths[i] = max(mine, min(widths[i], left - needed))
        left -= widths[i]
    for title, section in groupby(table.rows, key=lambda row: row[0]):
        yield Text(title, style="bold cyan", overflow="fold")
        yield grid(Cells(header, table.names - 1, [row[1:] for row in section]), widths, bold)
        yield Text()


def grid(table: Cells, widths: Sequence[int] | None = None, bold: str | None = None) -> Table:
    """A table of the terminal.

    Parameters
    ----------
    table : Cells
    widths : sequence of int, optional
        Of its columns; by default as wide as what is in them.
    bold : str, optional
        What the title of a column in bold begins with.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for i, (title, wide) in enumerate(
        zip(table.header, widths or widths_of([table.header, *table.rows]), strict=True)
    ):
        found.add_column(
            Text(title),
            justify="left" if i < table.names else "right",
            overflow="fold",
            width=wide,
            style="bold" if bold and title.startswith(bold) else "",
        )
    for row in table.rows:
        found.add_row(*map(Text, row))
    return found


def widths_of(rows: Sequence[Sequence[str]]) -> list[int]:
    """Measure the longest line of each column."""
    return [
        max(len(line) for cell in column for line in cell.split("\n"))
        for column in zip(*rows, strict=True)
    ]


def _escaped(cell: str) -> str:
    """A cell of numbers on one line, in which nothing is markup."""
    return cell.replace("\n", ", ").replace("*", "\\*")


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def code_span(text: str) -> str:
    """Put `text` in a code span that nothing inside it can end."""
    if not text:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")
