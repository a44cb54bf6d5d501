"""Numbers as text, and one report as text, markdown and on a terminal."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

import fastrank_eval as fe
from fastrank_eval.results.format import (
    amount,
    decimals,
    half_width_text,
    interval_text,
    number_text,
    p_text,
    percent_text,
    share_text,
)
from fastrank_eval.results.markup import to_markdown
from fastrank_eval.results.tables import Lines, Report, Table

NAN = math.nan


@pytest.mark.parametrize(
    "share, digits, text",
    [
        (0.0, 2, "0%"),
        (1.0, 2, "100%"),
        (0.0412, 2, "4.12%"),
        (0.00001, 2, "<0.01%"),
        (0.99999, 2, ">99.99%"),
        (0.0005, 1, "<0.1%"),
        (0.9995, 1, ">99.9%"),
        (NAN, 1, "n/a"),
    ],
)
def test_share__only_0_and_1_print_as_such(share: float, digits: int, text: str) -> None:
    assert share_text(share, digits) == text


def test_numbers__have_the_digits_of_their_kind() -> None:
    assert [number_text(x) for x in (0.5, None, NAN)] == ["0.500000", "undefined", "undefined"]
    assert number_text(12345.0, "sum") == "12,345"
    assert [decimals(x) for x in (0.0123, 12.3, 0.0, 1e9, 1e-9)] == [3, 0, None, None, None]
    assert [amount(1234.5, 1), amount(0.25, None, sign=True)] == ["1,234.5", "+0.25"]
    assert [half_width_text(x, None) for x in (1.26e-9, NAN)] == ["±1.3e-09", ""]
    assert interval_text(-0.5, 0.25, 2, sign=True) == "[-0.50, +0.25]"
    assert interval_text(NAN, 0.25, 2) == ""
    assert [p_text(p) for p in (0.0123, 0.00005, NAN)] == ["0.012", "<0.0001", "n/a"]
    assert percent_text(0.95) == "95%"


REPORT = Report(
    "",
    [
        Table(["name", "value"], 1, [["a|b", "1\n±2*"]], ("of | all",)),
        Lines(["better | worse"], ["green"], "* "),
    ],
    ["* few groups"],
    ["a note | of it"],
    "2 rows",
    ["ties=expected", "rel=1"],
)


def test_report__text__has_cells_of_several_lines() -> None:
    assert REPORT.to_text().split("\n") == [
        "",
        "of | all",
        "name   value",
        "a|b   1, ±2*",
        "better | worse",
        "",
        "* few groups",
        "a note | of it",
        "2 rows",
        "ties=expected, rel=1",
    ]


def test_report__markdown__escapes_bars_in_tables_alone() -> None:
    text = to_markdown(REPORT)
    assert text.startswith("`of | all`\n\n| name | value |\n| --- | ---: |\n")
    assert "| `a\\|b` | 1, ±2\\* |" in text
    assert "\n\n* `better | worse`\n\n" in text
    assert text.endswith("\\* few groups  \n`a note | of it`  \n2 rows  \n`ties=expected, rel=1`\n")


def test_report__terminal__shows_every_line() -> None:
    console = Console(file=io.StringIO(), width=60)
    for part in REPORT.to_terminal():
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().split("\n")]
    assert [line for line in lines if line and "─" not in line] == [
        "of | all",
        "name  value",
        "a|b       1",
        "        ±2*",
        "better | worse",
        "* few groups",
        "a note | of it",
        "2 rows",
        "ties=expected, rel=1",
    ]


def test_classes__names_that_look_like_markup__are_shown() -> None:
    rows = {"kind": ["[red]a", "b", "[red]a"], "x": [0.9, 0.2, 0.4], "y": [0.1, 0.8, 0.6]}
    result = fe.evaluate_classes(
        rows, label="kind", scores={"[red]a": "x", "b": "y"}, measures="TPR"
    )
    console = Console(file=io.StringIO(), width=80)
    console.print(result)
    assert isinstance(console.file, io.StringIO)
    assert "[red]a" in console.file.getvalue()
