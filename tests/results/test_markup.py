"""A report as markdown, LaTeX and a page: names from data stay text, the best word is bold."""

from __future__ import annotations

import re

import pytest

from fastrank_eval.results.markup import latex_text, to_latex, to_markdown, to_notebook, to_page
from fastrank_eval.results.tables import Best, Lines, Name, Report, Table
from tests.support.html_elements import elements

HOSTILE = r"\input{x} <b>&amp; 50% $x$ #1 a_b ~^ | `c` *d* [0] --"


def report(name: str) -> Report:
    return Report(
        name,
        [
            Table(["measure", Name(name)], 1, [[name, Best("0.75 ±0.1*")], ["x", "-0.5\n±1"]]),
            Lines([name], [""], "* "),
        ],
        ["* rough"],
        [name],
        "2 rows",
        ["ties=expected", f"weight={name}"],
    )


# ---- markdown ------------------------------------------------------------------------------------


def test_markdown__bolds_the_best_word_and_says_so() -> None:
    text = to_markdown(report("m"))
    assert "| measure | `m` |\n| --- | ---: |\n| `m` | **0.75** ±0.1\\* |" in text
    assert "| `x` | -0.5, ±1 |" in text
    assert "bold: the best value of a line  \n\\* rough  \n" in text


def test_markdown__names_in_titles__are_code() -> None:
    header = to_markdown(report(HOSTILE)).splitlines()[0]
    assert re.split(r"(?<!\\)\|", header)[2].strip() == f"``{HOSTILE}``".replace("|", "\\|")


# ---- LaTeX ---------------------------------------------------------------------------------------


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


def test_latex__is_a_table_of_booktabs() -> None:
    text = to_latex(report("m_1"))
    table = text[text.index("\\begin{tabular}") : text.index("\\end{tabular}")]
    assert table.splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"measure & m\_1 \\",
        r"\midrule",
        r"m\_1 & \textbf{0.75} $\pm$0.1{*} \\",
        r"x & $-$0.5, $\pm$1 \\",
        r"\bottomrule",
    ]
    assert text.startswith(r"% needs \usepackage{booktabs}")
    assert r"ties=expected, weight=m\_1\par}" in text


def test_latex__of_any_name__has_its_own_commands_alone() -> None:
    text = to_latex(report(HOSTILE))
    known = (
        r"textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar|textbf|"
        r"textasciigrave|begin|end|toprule|midrule|bottomrule|pm|par|footnotesize|noindent|"
        r"usepackage|[{}%&$#_\\]"
    )
    assert re.sub(rf"\\(?:{known})", "", text).count("\\") == 0
    # No row begins with what would be an argument of the row before.
    assert not re.search(r"\\\\\n[\[*]", text)


# ---- HTML ----------------------------------------------------------------------------------------


def test_page__needs_nothing_else_and_shows_names_as_text() -> None:
    text = to_page(report(HOSTILE))
    found = elements(text)
    tags = {element.tag for element in found}
    assert tags.isdisjoint({"script", "link", "img", "a", "iframe", "form"})
    assert not re.search(r"url\(|https?:|@import|src=|href=", text)
    assert "default-src 'none'" in text
    assert [e.text for e in found if e.tag in ("title", "h1")] == [HOSTILE, HOSTILE]
    assert [e.text for e in found if e.tag == "strong"] == ["0.75"]
    headings = [e.text for e in found if e.tag == "h2"]
    assert headings == ["Legend", "Notes", "Data", "Conventions"]
    items = [e.text for e in found if e.tag == "li"]
    assert items == [HOSTILE, "bold: the best value of a line", "* rough", HOSTILE, "2 rows",
                     "ties=expected", f"weight={HOSTILE}"]  # fmt: skip


def test_page__without_notes__has_no_empty_headings() -> None:
    text = to_page(Report("t", [Table(["a"], 1, [["b"]])], [], [], "", []))
    assert "<h2>" not in text


def test_page__is_dark_and_light_and_fits_a_phone() -> None:
    text = to_page(report("m"))
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "prefers-color-scheme: dark" in text
    assert text.count('class="scroll"') == 1


def test_notebook__bolds_the_best_word() -> None:
    found = elements(to_notebook(report("m")))
    assert [e.text for e in found if e.tag == "strong"] == ["0.75"]
