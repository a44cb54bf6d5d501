"""Write reports as markdown, LaTeX and HTML, with names from data escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from importlib.resources import files

from fastrank_eval._lib import __version__
from fastrank_eval.results.tables import Best, Heading, Lines, Name, Report, Table, best_word

_BEST = "bold: the best value of a line"


def _legend(report: Report) -> list[str]:
    return [*[_BEST] * report.has_best, *report.legend]


def _cell_text(cell: str, escaped: Callable[[str], str], bold: str) -> str:
    """Escape a cell, with its best word in a bold form such as ``**{}**``."""
    if not isinstance(cell, Best):
        return escaped(cell.strip())
    start, end = best_word(cell)
    return bold.format(escaped(cell[start:end])) + escaped(cell[end:].rstrip())


# ---- markdown ------------------------------------------------------------------------------------


def to_markdown(report: Report) -> str:
    """Write markdown, with names from the data in code spans."""
    blocks: list[list[str]] = []
    for block in report.blocks:
        if isinstance(block, Lines):
            blocks.append([block.bullet + code_span(text) for text in block.texts])
            continue
        if isinstance(block, Heading):
            blocks.append([f"## {code_span(block.text)}"])
            continue
        if block.title:
            blocks.append([" by ".join(map(code_span, block.title))])
        blocks.append(markdown_lines(block))
    legend = [line.replace("*", "\\*") for line in _legend(report)]
    conventions = ", ".join(report.conventions)
    footer = *legend, *map(code_span, report.notes), report.size, code_span(conventions)
    blocks.append(["  \n".join(filter(None, footer))])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def markdown_lines(table: Table) -> list[str]:
    """Write a markdown table, with names from the data in code spans."""
    rule = [" --- " if i < table.names else " ---: " for i in range(len(table.header))]
    header = [
        (code_span(title) if isinstance(title, Name) else title).replace("|", "\\|")
        for title in table.header
    ]
    rows = [
        [code_span(cell).replace("|", "\\|") for cell in row[: table.names]]
        + [_cell_text(cell, _markdown_number, "**{}**") for cell in row[table.names :]]
        for row in table.rows
    ]
    header_line, *lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    return [header_line.replace("\n", " "), f"|{'|'.join(rule)}|", *lines]


def _markdown_number(cell: str) -> str:
    return cell.replace("\n", ", ").replace("*", "\\*")


def code_span(text: str) -> str:
    """Put `text` in a code span, with a fence that does not occur in it."""
    if not text:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


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


def to_latex(report: Report) -> str:
    r"""Write LaTeX, with tables of booktabs, for ``\input``."""
    parts = [r"% needs \usepackage{booktabs}"]
    for block in report.blocks:
        if isinstance(block, Lines):
            parts.append(r" \\" "\n".join(map(latex_text, block.texts)))
            continue
        if isinstance(block, Heading):
            parts.append(rf"\textbf{{\large {latex_text(block.text)}}}")
            continue
        if block.title:
            parts.append(rf"\textbf{{{latex_text(' by '.join(block.title))}}}")
        parts.append("\n".join(_latex_table(block)))
    footer = filter(
        None, (*_legend(report), *report.notes, report.size, ", ".join(report.conventions))
    )
    notes = " \\\\\n".join(map(latex_text, footer))
    parts.append(f"{{\\footnotesize\\noindent\n{notes}\\par}}" if notes else "")
    return "\n\n".join(filter(None, parts)) + "\n"


def _latex_table(table: Table) -> Iterator[str]:
    yield rf"\begin{{tabular}}{{{''.join(_sides(table, 'l', 'r'))}}}"
    yield r"\toprule"
    yield _latex_row(table.header)
    yield r"\midrule"
    yield from map(_latex_row, table.rows)
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _latex_row(cells: Sequence[str]) -> str:
    texts = (
        _cell_text(cell, lambda part: latex_text(part.replace("\n", ", ")), r"\textbf{{{}}}")
        for cell in cells
    )
    return " & ".join(texts) + r" \\"


# ---- HTML ----------------------------------------------------------------------------------------


def to_notebook(report: Report) -> str:
    """Write HTML for a notebook: no script, and the colours of the page."""
    blocks = []
    for block in report.blocks:
        if isinstance(block, Lines):
            blocks.append(_list(block.texts))
        elif isinstance(block, Heading):
            blocks.append(f"<h3>{escape(block.text)}</h3>")
        else:
            table = _html_table(
                block,
                ' style="margin: 0.6em 0"',
                ' style="text-align: left"',
                [
                    f' style="padding: 0 0.6em; text-align: {side}"'
                    for side in _sides(block, "left", "right")
                ],
            )
            blocks.append(table)
    footer = filter(
        None, (*_legend(report), *report.notes, report.size, ", ".join(report.conventions))
    )
    lines = "<br>".join(map(escape, footer))
    blocks.append(f'<p style="font-size: smaller">{lines}</p>' if lines else "")
    return f'<div style="overflow-x: auto">{"".join(blocks)}</div>'


def to_page(report: Report) -> str:
    """Write a page of HTML that needs no other file, dark and light."""
    blocks = []
    for block in report.blocks:
        if isinstance(block, Lines):
            blocks.append(_list(block.texts))
        elif isinstance(block, Heading):
            blocks.append(f"<h2>{escape(block.text)}</h2>")
        else:
            cells = [f' class="{side}"' for side in _sides(block, "name", "number")]
            blocks.append(
                f'<div class="scroll" tabindex="0">{_html_table(block, "", "", cells)}</div>'
            )
    for name, texts in (
        ("Legend", _legend(report)),
        ("Notes", report.notes),
        ("Data", [report.size]),
        ("Conventions", report.conventions),
    ):
        if any(texts):
            blocks += [f"<h2>{name}</h2>", _list(texts, name.lower())]
    style = files("fastrank_eval.results").joinpath("page.css").read_text("utf-8")
    return _PAGE.format(
        title=escape(report.title), style=style, body="\n".join(blocks), version=escape(__version__)
    )


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
<body>
<main>
<h1>{title}</h1>
{body}
</main>
<footer><p>fastrank_eval {version}</p></footer>
</body>
</html>
"""


def _list(texts: Sequence[str], kind: str = "") -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f'<ul class="{kind}">{items}</ul>' if kind else f"<ul>{items}</ul>"


def _html_table(table: Table, attributes: str, caption: str, cells: Sequence[str]) -> str:
    """Write an HTML table.

    Parameters
    ----------
    table : Table
    attributes, caption : str
        Attributes of the table and of its caption.
    cells : sequence of str
        Attributes of the cells of each column.
    """
    half_widths = [
        max((len(cell.partition(" ±")[2]) for cell in column), default=0)
        for column in zip(*table.rows, strict=True)
    ] or [0] * len(cells)

    def row(tag: str, texts: Sequence[str]) -> str:
        inner = (
            f"<{tag}{attribute}>{_html_cell(text, letters * (tag == 'td'))}</{tag}>"
            for attribute, text, letters in zip(cells, texts, half_widths, strict=True)
        )
        return f"<tr>{''.join(inner)}</tr>"

    title = ""
    if table.title:
        title = f"<caption{caption}><b>{escape(' by '.join(table.title))}</b></caption>"
    body = "".join(row("td", texts) for texts in table.rows)
    head = row("th", table.header)
    return f"<table{attributes}>{title}<thead>{head}</thead><tbody>{body}</tbody></table>"


def _html_cell(cell: str, letters: int) -> str:
    """Write a cell, with room for an interval of some letters."""
    value, sign, half_width = cell.partition(" ±") if letters else (cell, "", "")
    text = _cell_text(type(cell)(value), _html_text, "<strong>{}</strong>")
    if not letters:
        return text
    style = f"display: inline-block; min-width: {letters + 1}ch; text-align: left"
    return f'{text} <span style="{style}">{_html_text(f"{sign}{half_width}".strip())}</span>'


def _html_text(cell: str) -> str:
    return escape(cell).replace("\n", "<br>")


def _sides(table: Table, name: str, number: str) -> list[str]:
    """Give each column the word of names or that of numbers."""
    return [name if i < table.names else number for i in range(len(table.header))]
