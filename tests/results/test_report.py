"""One report as text, on terminals, as markdown, LaTeX and HTML: names from data stay text."""

import io
import re

import pytest
from rich.console import Console

from fastrank_eval.results import report
from fastrank_eval.results.report import (
    Best,
    Heading,
    Lines,
    Name,
    Picture,
    Report,
    Table,
    latex_text,
)
from tests.support.html_elements import elements
from tests.support.transcripts import answers

HOSTILE = r"\input{x} <b>&amp; 50% $x$ #1 a_b ~^ | `c` *d* [0] --"


def of(name: str) -> Report:
    table = Table(["measure", Name(name)], [[name, Best("0.75 ±0.1*")], ["x", "-0.5\n±1"]])
    return Report(
        name,
        [
            Heading(name),
            table._replace(title=name),
            Lines([name], styles=["green"]),
            Lines(["* rough"], "legend"),
            Lines([name], "notes"),
            Lines(["2 rows"], "data"),
            Lines(["2 rows, 1 s"], "time"),
            Lines(["ties=expected", f"weight={name}"], "conventions"),
        ],
    )


def test_terminal__has_styles_cells_of_several_lines_and_the_time() -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system="standard")
    console.print(of("m"))
    assert isinstance(console.file, io.StringIO)
    styled = console.file.getvalue()
    assert "\x1b[1m0.75\x1b[0m" in styled
    assert "\x1b[32mm\x1b[0m" in styled
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", styled).split("\n")]
    assert lines[1:] == [
        "m",
        "measure           m",
        "───────────────────",
        "m        0.75 ±0.1*",
        "x              -0.5",
        "                 ±1",
        "",
        "m",
        "",
        "* rough",
        "m",
        "2 rows, 1 s",
        "ties=expected, weight=m",
        "",
    ]


NAMES = ["a_rather_long_model", "b", "c"]
CELLS = [f"0.{i}12345 ±0.01{i}" for i in range(3)]
SLICES = Table(
    ["slice", "groups used", *map(Name, NAMES)],
    [["all", "1,234/12,345", *CELLS], ["country=a country of a long name", "2/3", *CELLS]],
    title="GAUC by country",
    fixed=2,
)


def shown(width: int | None, table: Table = SLICES) -> str:
    return report.text(Report("", [table]), width)


@pytest.mark.parametrize("width", [40, 50, 60, 72, 100, 200])
def test_table__of_any_width__fits_and_loses_no_digit(width: int) -> None:
    text = shown(width)
    assert max(map(len, text.split("\n"))) <= width
    for cell in CELLS:
        for part in cell.split():
            assert text.count(part) == 2


def test_markdown__names_are_code_and_the_best_word_is_bold() -> None:
    text = report.markdown(of("m"))
    assert text.startswith("## `m`\n\n`m`\n\n| measure | `m` |\n| --- | ---: |\n")
    assert "| `m` | **0.75** ±0.1\\* |\n| `x` | -0.5, ±1 |\n\n* `m`\n\n" in text
    assert text.endswith(
        "bold: the best value of a line  \n\\* rough  \n`m`  \n2 rows  \n"
        "`ties=expected, weight=m`\n"
    )
    hostile = report.markdown(of(HOSTILE))
    cells = re.split(r"(?<!\\)\|", hostile.splitlines()[4])
    assert cells[2].strip() == f"``{HOSTILE}``".replace("|", "\\|")


@pytest.mark.parametrize(
    "text, written",
    [
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("50% & $5 #1 a_b", r"50\% \& \$5 \#1 a\_b"),
        ("~^<|>`", r"\textasciitilde{}\textasciicircum{}\textless{}\textbar{}\textgreater{}"
                   r"\textasciigrave{}"),
        ("a--b ''", r"a-{}-b '{}'"),
        ("-0.5 [-1, 2] 1e-05 m-2 2026-11-20",
         r"$-$0.5 {[}$-$1, 2] 1e-05 m-2 2026-11-20"),
        ("▲ ▼ ◆ ≥1 ±2 †",
         r"$\bigtriangleup$ $\bigtriangledown$ $\diamond$ $\geq$1 $\pm$2 $\dagger$"),
        ("模型 é", "模型 é"),
    ],
)  # fmt: skip
def test_latex__escapes_what_tex_would_obey(text: str, written: str) -> None:
    assert latex_text(text) == written


def test_latex__of_any_name__has_its_own_commands_alone() -> None:
    text = report.latex(of(HOSTILE))
    known = (
        r"textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar|textbf|"
        r"textasciigrave|begin|end|toprule|midrule|bottomrule|pm|par|footnotesize|noindent|"
        r"usepackage|large|[{}%&$#_\\]"
    )
    assert re.sub(rf"\\(?:{known})", "", text).count("\\") == 0
    # No row begins with what would be an argument of the row before.
    assert not re.search(r"\\\\\n[\[*]", text)


def test_page__needs_nothing_else_and_shows_names_as_text() -> None:
    text = report.html(of(HOSTILE))
    found = elements(text)
    tags = {element.tag for element in found}
    assert tags.isdisjoint({"script", "link", "img", "a", "iframe", "form"})
    assert not re.search(r"url\(|https?:|@import|src=|href=", text)
    assert "default-src 'none'" in text
    assert [e.text for e in found if e.tag in ("title", "h1")] == [HOSTILE, HOSTILE]
    assert [e.text for e in found if e.tag == "strong"] == ["0.75"]
    headings = [e.text for e in found if e.tag == "h2"]
    assert headings == [HOSTILE, "Legend", "Notes", "Data", "Conventions"]
    items = [e.text for e in found if e.tag == "li"]
    assert items == [HOSTILE, "bold: the best value of a line", "* rough", HOSTILE, "2 rows",
                     "ties=expected", f"weight={HOSTILE}"]  # fmt: skip
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "prefers-color-scheme: dark" in text


def test_page__without_notes__has_no_empty_headings() -> None:
    text = report.html(Report("t", [Table(["a"], [["b"]]), Lines([], "notes")]))
    assert "<h2>" not in text


def test_page__of_a_picture__has_its_caption() -> None:
    text = report.html(Report("t", [Picture("<svg></svg>", "<i>")]))
    assert "<figure><svg></svg><figcaption>&lt;i&gt;</figcaption></figure>" in text


def test_notebook__has_the_colours_of_its_page() -> None:
    found = elements(report.html(of(HOSTILE), page=False))
    assert {element.tag for element in found} <= {
        *("div", "table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "li", "b"),
        *("br", "strong", "span", "h2"),
    }
    styles = [element.attributes.get("style", "") for element in found]
    assert not any("color" in style for style in styles)
    assert HOSTILE in found[0].all_text()


test_answers = answers(globals())
