"""Define reports, and write them as text, markdown, LaTeX and HTML.

Format numbers and names for reports.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from fastrank_eval._lib import __version__

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


#: Stands for a number that is undefined.
NOTHING = "–"


def printable(text: str) -> str:
    """Escape line breaks, terminal codes and other unprintable characters."""
    # A page has 8,000 texts: to look at each sign of all was a tenth of its time.
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def list_text(names: Iterable[str]) -> str:
    """Join names by commas, each once."""
    return ", ".join(dict.fromkeys(names))


def measure_text(measure: str, aggregate: str) -> str:
    """Format a measure, with its aggregate unless that is the mean."""
    return printable(measure) + ("" if aggregate in ("mean", "pooled") else f" ({aggregate})")


def number_text(number: float | None, aggregate: str = "mean") -> str:
    """Format a value with six digits, a whole sum with all digits."""
    if number is None or math.isnan(number):
        return "undefined"
    if aggregate == "sum" and number.is_integer() and abs(number) < 2**53:
        return f"{int(number):,}"
    return f"{number:#.6g}"


def detail_text(number: float) -> str:
    """Format a whole number with all digits, another with at most six."""
    if math.isnan(number):
        return "n/a"
    whole = float(number).is_integer() and abs(number) < 2**53
    return f"{number:,.0f}" if whole else f"{number:.6g}"


def legend_text(number: float) -> str:
    """Format a value for a picture: four decimals, or three digits."""
    if math.isnan(number):
        return "undefined"
    return f"{number:.4f}" if abs(number) >= 0.1 else f"{number:.3g}"


def two_digits(size: float) -> int:
    """Return the decimals that show a size above 0 to two digits."""
    return 1 - Decimal(size).adjusted()


def decimals(size: float) -> int | None:
    """Return the decimals of two digits; None if there are too many."""
    if size == 0 or size >= 1e9:
        return None
    digits = max(two_digits(size), 0)
    return digits if digits <= 7 else None


def amount(value: float, digits: int | None, sign: bool = False, spare: str = ".3g") -> str:
    """Format a number to some decimals or as `spare`; a dash if undefined."""
    return (
        NOTHING
        if math.isnan(value)
        else format(value, "+" * sign + (spare if digits is None else f",.{digits}f"))
    )


def interval_text(
    low: float, high: float, digits: int | None, sign: bool = False, spare: str = ".3g"
) -> str:
    """Format an interval like `amount`; empty without one."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"[{amount(low, digits, sign, spare)}, {amount(high, digits, sign, spare)}]"


def half_width_text(half_width: float, digits: int | None) -> str:
    """Format half an interval like `amount`; empty without one."""
    return f"±{amount(half_width, digits, spare='.2g')}" if math.isfinite(half_width) else ""


def p_text(p_value: float, form: str = ".2g") -> str:
    """Format a p-value; "n/a" if it is undefined."""
    if math.isnan(p_value):
        return "n/a"
    return "<0.0001" if p_value < 1e-4 else format(p_value, form)


def share_text(share: float, digits: int = 1, missing: str = "n/a") -> str:
    """Format a share in per cent; only 1 prints as 100%, only 0 as 0%."""
    if not math.isfinite(share):
        return missing
    if share in (0, 1):
        return f"{share:.0%}"
    least = 10.0 ** -(digits + 2)
    if share < least:
        return f"<{least:.{digits}%}"
    return f">{1 - least:.{digits}%}" if share > 1 - least else f"{share:.{digits}%}"


def percent_text(share: float, digits: int = 12) -> str:
    """Format a share in per cent with some digits, without an exponent."""
    return f"{Decimal(f'{100 * share:.{digits}g}'):f}%"


def percent(change: float) -> str:
    """Format a relative change in per cent, with its sign."""
    return "n/a" if math.isnan(change) else f"{change:+.2%}"


def count_text(number: int, noun: str) -> str:
    """Format a number with a noun, in the plural unless the number is 1."""
    return f"{number:,} {noun}" + "s" * (number != 1)


def rough_text(number: float) -> str:
    """Format a number with three digits, for axes.

    Examples
    --------
    >>> rough_text(4_100_000), rough_text(950), rough_text(0)
    ('4.1M', '950', '0')
    """
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def speed_text(rows: int, seconds: float) -> str:
    """Format rows per second."""
    if seconds <= 0:
        return "too fast to time"
    speed = rows / seconds
    return f"{speed / 1e6:.3g} Mrows/s" if speed >= 1e6 else f"{speed:,.0f} rows/s"


_GAP = 2  # blanks between columns
_LABEL, _NAME = 16, 12  # least widths of labels and of other names before they are folded
_BEST = "bold: the best value of a line"
_USED = "groups used"


class Best(str):
    """A cell whose first word, the best value of a line, is bold."""

    __slots__ = ()


class Name(str):
    """The title of a column that comes from the data."""

    __slots__ = ()


class Table(NamedTuple):
    """A table of texts.

    Parameters
    ----------
    header : sequence of str
    rows : sequence of sequence of str
        A cell may have several lines.
    names : int
        The first columns hold names, which stand to the left.
    title : str
    fixed : int
        Above 0 if columns may be divided into several tables: the first ones that each has.
    step : int
        Columns that stay together then.
    narrower : tuple of Table
        What stands for the table in a terminal that is too narrow for it.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    title: str = ""
    fixed: int = 0
    step: int = 1
    narrower: tuple[Table, ...] = ()


class Lines(NamedTuple):
    """Lines of text.

    Parameters
    ----------
    texts : sequence of str
    kind : str
        ``"verdicts"``, or what stands at the end: ``"legend"``, ``"notes"``, ``"data"``, on
        terminals ``"time"`` in its place (documents are equal each time), and ``"conventions"``.
    styles : sequence of str
        The style of each line on a terminal.
    """

    texts: Sequence[str]
    kind: str = "verdicts"
    styles: Sequence[str] = ()


class Heading(NamedTuple):
    """The heading of the tables that follow.

    Parameters
    ----------
    text : str
    """

    text: str


class Picture(NamedTuple):
    """A picture, which pages of HTML show.

    Parameters
    ----------
    svg : str
    caption : str
    """

    svg: str
    caption: str


Block = Table | Lines | Heading | Picture


class Report(NamedTuple):
    """What people read of a result; texts have no unprintable characters.

    Parameters
    ----------
    title : str
        The title of a page.
    blocks : sequence of Heading, Table, Lines or Picture
    """

    title: str
    blocks: Sequence[Block]

    def _repr_html_(self) -> str:
        return html(self, page=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        for line in _text_lines(self, options.max_width):
            yield Text.assemble(*line, overflow="fold")


#: Kinds of lines at the end, with their headings on a page.
_ENDS = {"legend": "Legend", "notes": "Notes", "data": "Data", "conventions": "Conventions"}


def _documented(report: Report) -> Iterator[Block]:
    """Yield what documents show: the meaning of bold, but no time."""
    tables = (block for block in report.blocks if isinstance(block, Table))
    bold = any(isinstance(cell, Best) for table in tables for row in table.rows for cell in row)
    for block in report.blocks:
        if isinstance(block, Lines) and block.kind == "legend" and bold:
            yield block._replace(texts=[_BEST, *block.texts])
        elif not isinstance(block, Lines) or (block.texts and block.kind != "time"):
            yield block


# ---- text and terminals --------------------------------------------------------------------------

_Segments = list[tuple[str, str]]  # texts of a line and their styles


def text(report: Report, width: int | None = None) -> str:
    """Write plain text.

    Parameters
    ----------
    report : Report
    width : int, optional
        Columns of a terminal. Columns are folded or divided into several tables to fit; no digit is
        cut off. By default each row is one line.
    """
    return "\n".join("".join(part for part, _ in line) for line in _text_lines(report, width))


def _text_lines(report: Report, width: int | None) -> Iterator[_Segments]:
    tables = [block for block in report.blocks if isinstance(block, Table)]
    airy = width is not None or len(tables) > 1 or any(table.title for table in tables)
    before: Block | None = None
    for block in report.blocks:
        lines = isinstance(block, Lines)
        if isinstance(block, Lines) and (
            not block.texts or block.kind == ("data" if width else "time")
        ):
            continue
        ends = isinstance(block, Lines) and block.kind != "verdicts"
        after_end = isinstance(before, Lines) and before.kind != "verdicts"
        joined = isinstance(before, Heading) or (ends and after_end)
        if width is None and lines:
            joined |= not (ends and airy)
        if before is not None and not joined:
            yield []
        before = block
        if isinstance(block, Table):
            for number, table in enumerate(_fitting(block, width)):
                yield from [[]] * bool(number)
                yield from _table_lines(table, width)
        elif isinstance(block, Heading):
            yield [(block.text, "bold underline")]
        elif isinstance(block, Picture):
            yield [(block.caption, "")]
        elif block.kind == "conventions":
            yield [(", ".join(block.texts), "dim")]
        else:
            styles = block.styles or [""] * len(block.texts)
            yield from ([pair] for pair in zip(block.texts, styles, strict=True))


def _table_lines(table: Table, width: int | None) -> Iterator[_Segments]:
    """Render a table, with intervals below each other."""
    if table.title:
        yield [(table.title, "bold cyan")]
    columns: Iterable[Sequence[str]] = zip(table.header, *table.rows, strict=True)
    if width is None:
        columns = [[type(cell)(cell.replace("\n", ", ")) for cell in each] for each in columns]
    grid = list(map(_with_even_ends, columns))
    widths = [max(map(_longest_line, column)) for column in grid]
    for number, row in enumerate(zip(*grid, strict=True)):
        cells = [cell.split("\n") for cell in row]
        most = max(map(len, cells))
        if number == 0:  # titles stand on their cells
            cells = [[""] * (most - len(cell)) + cell for cell in cells]
        for i in range(most):
            line: _Segments = []
            for column, cell in enumerate(cells):
                part = cell[i] if i < len(cell) else ""
                room = " " * (widths[column] - _cells(part))
                start, end = (
                    _best_word(part) if i == 0 and isinstance(row[column], Best) else (0, 0)
                )
                line += [("" if column < table.names else room, ""), (part[:start], "")]
                line += [(part[start:end], "bold"), (part[end:], "")]
                line += [((room if column < table.names else "") + " " * _GAP, "")]
            yield _stripped(line)
        if number == 0 and width is not None:
            yield [("─" * (sum(widths) + _GAP * (len(widths) - 1)), "")]


def _stripped(line: _Segments) -> _Segments:
    """Remove the blanks at the end of a line."""
    while line and not line[-1][0].rstrip():
        line.pop()
    return [*line[:-1], (line[-1][0].rstrip(), line[-1][1])] if line else line


def _with_even_ends(column: Sequence[str]) -> list[str]:
    """Pad cells to the right, to align those with and without interval."""
    ends = [len(cell) - cell.find(" ±") if " ±" in cell else 0 for cell in column[1:]]
    most = max(ends, default=0)
    rooms = (" " * (most - end) for end in ends)
    padded = (
        cell if "\n" in cell else type(cell)(cell + room)
        for cell, room in zip(column[1:], rooms, strict=True)
    )
    return [column[0], *padded]


def _best_word(cell: str) -> tuple[int, int]:
    """Find the first word of a cell: its start and its end."""
    start = len(cell) - len(cell.lstrip())
    return start, start + len(cell.split(maxsplit=1)[0])


def _cells(text: str) -> int:
    """Count the columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _longest_line(cell: str) -> int:
    return max(map(_cells, cell.split("\n")))


def _width(table: Table) -> int:
    columns = [_with_even_ends(column) for column in zip(table.header, *table.rows, strict=True)]
    return sum(max(map(_longest_line, column)) + _GAP for column in columns) - _GAP


def _fitting(table: Table, width: int | None) -> list[Table]:
    """Return the first form of a table that fits a width; else divide it."""
    if width is None or _width(table) <= width:
        return [table]
    folded = _with_folded_titles(table, width)
    shorter = _without_totals(folded)
    for form in (folded, shorter):
        if _width(form) <= width:
            return [form]
    if table.narrower:
        return [fitting for each in table.narrower for fitting in _fitting(each, width)]
    rows = [[type(cell)(cell.replace(" ±", "\n±")) for cell in row] for row in table.rows]
    under = _without_totals(_with_folded_titles(table._replace(rows=rows), width))
    if _width(under) <= width:
        return [under]
    if table.fixed:
        return list(_divided(under, width))
    excess, rows = _width(under) - width, [list(row) for row in (under.header, *under.rows)]
    for i, title in enumerate(under.header):
        if excess > 0 and (i < under.names or title == "dropped"):
            before = max(_longest_line(row[i]) for row in rows)
            for row in rows:
                row[i] = type(row[i])(_folded(row[i], max(_NAME, before - excess), " ,"))
            excess -= before - max(_longest_line(row[i]) for row in rows)
    return [under._replace(header=rows[0], rows=rows[1:])]


def _with_folded_titles(table: Table, width: int) -> Table:
    """Fold titles longer than their cells, then labels where they must be."""
    columns = [list(column) for column in zip(table.header, *table.rows, strict=True)]
    for column in columns[1:]:
        title = column[0]
        if title == _USED:
            column[0] = title.replace(" ", "\n")
        elif len(title) > _NAME:
            ends = " ,_./-" if isinstance(title, Name) else ","
            column[0] = _folded(title, max(_NAME, *map(_longest_line, column[1:])), ends)
    header, *rows = zip(*columns, strict=True)
    folded = table._replace(header=header, rows=rows)
    longest = max(map(_longest_line, columns[0]))
    label = max(_LABEL, 3 * width // 10, longest - max(_width(folded) - width, 0))
    return folded._replace(rows=[[_folded(row[0], label, " ,"), *row[1:]] for row in rows])


def _without_totals(table: Table) -> Table:
    """Leave out the totals of groups."""
    used = _USED.replace(" ", "\n")
    rows = [
        [cell.partition("/")[0] if title == used else cell for title, cell in pairs]
        for pairs in (list(zip(table.header, row, strict=True)) for row in table.rows)
    ]
    return table._replace(rows=rows)


def _divided(table: Table, width: int) -> Iterator[Table]:
    """Divide the columns of a table into tables that fit a width."""
    first, columns = range(table.fixed), range(table.fixed, len(table.header), table.step)

    def part(starts: Sequence[int]) -> Table:
        some = [*first, *(i for start in starts for i in range(start, start + table.step))]
        rows = [[row[i] for i in some] for row in (table.header, *table.rows)]
        return table._replace(header=rows[0], rows=rows[1:])

    taken: list[int] = []
    for start in columns:
        if taken and _width(part([*taken, start])) > width:
            yield part(taken)
            taken = []
        taken.append(start)
    yield part(taken)


def _folded(cell: str, width: int, ends: str) -> str:
    """Break text into lines of a width, after one of `ends` if possible."""
    if "\n" in cell or len(cell) <= width:
        return cell
    lines, ends = [""], re.escape(ends)
    for item in re.findall(f"[^{ends}]*[{ends}]|[^{ends}]+", cell):
        if len(lines[-1]) + len(item.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += item
        while len(lines[-1].rstrip()) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return type(cell)("\n".join(map(str.strip, lines)))


# ---- markdown ------------------------------------------------------------------------------------


def markdown(report: Report) -> str:
    """Write markdown, with names from the data in code spans."""
    parts: list[str] = []
    ends: list[str] = []
    for block in _documented(report):
        if isinstance(block, Table):
            parts.append(code_span(block.title))
            parts.append("\n".join(_markdown_lines(block)))
        elif isinstance(block, Heading):
            parts.append(f"## {code_span(block.text)}")
        elif isinstance(block, Picture):
            parts.append(code_span(block.caption))
        elif block.kind == "verdicts":
            parts.append("\n".join(f"* {code_span(line)}" for line in block.texts))
        elif block.kind == "conventions":
            ends.append(code_span(", ".join(block.texts)))
        elif block.kind == "notes":
            ends += map(code_span, block.texts)
        else:
            ends += [line.replace("*", "\\*") for line in block.texts]
    return "\n\n".join(filter(None, [*parts, "  \n".join(ends)])) + "\n"


def _markdown_lines(table: Table) -> Iterator[str]:
    header = (
        (code_span(title) if isinstance(title, Name) else title).replace("|", "\\|")
        for title in table.header
    )
    yield f"| {' | '.join(header)} |".replace("\n", " ")
    yield f"|{'|'.join(_sides(table, ' --- ', ' ---: '))}|"
    for row in table.rows:
        cells = [code_span(cell).replace("|", "\\|") for cell in row[: table.names]]
        cells += [_cell(cell, _markdown_number, "**{}**") for cell in row[table.names :]]
        yield f"| {' | '.join(cells)} |"


def _markdown_number(cell: str) -> str:
    return cell.replace("\n", ", ").replace("*", "\\*")


def code_span(text: str) -> str:
    """Put `text` in a code span, with a fence that does not occur in it."""
    if not text:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _cell(cell: str, escaped: Callable[[str], str], bold: str) -> str:
    """Escape a cell, with its best word in a bold form such as ``**{}**``."""
    if not isinstance(cell, Best):
        return escaped(cell.strip())
    start, end = _best_word(cell)
    return bold.format(escaped(cell[start:end])) + escaped(cell[end:].rstrip())


def _sides(table: Table, name: str, number: str) -> list[str]:
    """Return for each column the word of names or that of numbers."""
    return [name if i < table.names else number for i in range(len(table.header))]


# ---- LaTeX ---------------------------------------------------------------------------------------

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    **{letter: f"\\{letter}" for letter in "&%$#_"},
    '"': '"{}',
    # A row that begins with one of these would be an argument of the row before.
    "[": "{[}",
    "*": "{*}",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "†": r"$\dagger$",
    "▲": r"$\bigtriangleup$",
    "▼": r"$\bigtriangledown$",
    "◆": r"$\diamond$",
    "−": "$-$",
}
_MINUS = re.compile(r"(?<![\w.)\]-])-(?=[\d.])")
_LIGATURE = re.compile("(?<=-)(?=-)|(?<=')(?=')")


def latex_text(text: str) -> str:
    """Escape a text for LaTeX. Letters of other scripts stay."""
    escaped = "".join(_LATEX.get(letter, letter) for letter in _MINUS.sub("−", text))
    return _LIGATURE.sub("{}", escaped)


def latex(report: Report) -> str:
    r"""Write LaTeX, with tables of booktabs, for ``\input``."""
    parts, ends = [r"% needs \usepackage{booktabs}"], list[str]()
    for block in _documented(report):
        if isinstance(block, Table):
            parts.append(rf"\textbf{{{latex_text(block.title)}}}" if block.title else "")
            parts.append("\n".join(_latex_lines(block)))
        elif isinstance(block, Heading):
            parts.append(rf"\textbf{{\large {latex_text(block.text)}}}")
        elif isinstance(block, Picture):
            parts.append(latex_text(block.caption))
        elif block.kind == "verdicts":
            parts.append(r" \\" "\n".join(map(latex_text, block.texts)))
        else:
            joined = [", ".join(block.texts)] if block.kind == "conventions" else block.texts
            ends += map(latex_text, joined)
    lines = " \\\\\n".join(ends)
    parts.append(f"{{\\footnotesize\\noindent\n{lines}\\par}}" if lines else "")
    return "\n\n".join(filter(None, parts)) + "\n"


def _latex_lines(table: Table) -> Iterator[str]:
    yield rf"\begin{{tabular}}{{{''.join(_sides(table, 'l', 'r'))}}}"
    yield r"\toprule"
    yield _latex_row(table.header)
    yield r"\midrule"
    yield from map(_latex_row, table.rows)
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _latex_row(cells: Sequence[str]) -> str:
    texts = (
        _cell(cell, lambda part: latex_text(part.replace("\n", ", ")), r"\textbf{{{}}}")
        for cell in cells
    )
    return " & ".join(texts) + r" \\"


# ---- HTML ----------------------------------------------------------------------------------------

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>
{style}</style>
</head>
<body class="page report">
<main>
<h1>{title}</h1>
{body}
</main>
<footer><p>fastrank_eval {version}</p></footer>
</body>
</html>
"""


def html(report: Report, *, page: bool = True) -> str:
    """Write HTML without scripts.

    Parameters
    ----------
    report : Report
    page : bool
        Write a page that needs no other file, dark and light. Otherwise an element for a notebook,
        with the colours of its page.
    """
    body = "\n".join(_html_blocks(report, page))
    if not page:
        return f'<div style="overflow-x: auto">{body}</div>'
    from importlib.resources import files

    style = files("fastrank_eval.results").joinpath("page.css").read_text("utf-8")
    title, version = _html_text(report.title), _html_text(__version__)
    return _PAGE.format(title=title, style=style, body=body, version=version)


def _html_blocks(report: Report, page: bool) -> Iterator[str]:
    for block in _documented(report):
        if isinstance(block, Table):
            yield f'<div class="scroll" tabindex="0">{_html_table(block)}</div>'
        elif isinstance(block, Heading):
            yield f"<h2>{_html_text(block.text)}</h2>"
        elif isinstance(block, Picture):
            caption = f"<figcaption>{_html_text(block.caption)}</figcaption>"
            yield f"<figure>{block.svg}{caption}</figure>"
        else:
            if page and block.kind in _ENDS:
                yield f"<h2>{_ENDS[block.kind]}</h2>"
            items = "".join(f"<li>{_html_text(line)}</li>" for line in block.texts)
            style = ' style="columns: 15rem"' * (block.kind == "conventions")
            yield f"<ul{style}>{items}</ul>"


def _html_table(table: Table) -> str:
    half_widths = [
        max((len(cell.partition(" ±")[2]) for cell in column[1:]), default=0)
        for column in zip(table.header, *table.rows, strict=True)
    ]

    def row(tag: str, texts: Sequence[str]) -> str:
        columns = zip(sides, texts, half_widths, strict=True)
        inner = (
            f'<{tag} style="text-align: {side}">{_html_cell(cell, letters * (tag == "td"))}</{tag}>'
            for side, cell, letters in columns
        )
        return f"<tr>{''.join(inner)}</tr>"

    sides = _sides(table, "left", "right")
    title = ""
    if table.title:
        title = f'<caption style="text-align: left"><b>{_html_text(table.title)}</b></caption>'
    body = "".join(row("td", texts) for texts in table.rows)
    return f"<table>{title}<thead>{row('th', table.header)}</thead><tbody>{body}</tbody></table>"


def _html_cell(cell: str, letters: int) -> str:
    """Write a cell, with room for an interval of some letters."""
    value, sign, half_width = cell.partition(" ±") if letters else (cell, "", "")
    written = _cell(type(cell)(value), _html_text, "<strong>{}</strong>")
    if not letters:
        return written
    style = f"display: inline-block; min-width: {letters + 1}ch; text-align: left"
    return f'{written} <span style="{style}">{_html_text(f"{sign}{half_width}".strip())}</span>'


def _html_text(text: str) -> str:
    from html import escape

    return escape(text).replace("\n", "<br>")
