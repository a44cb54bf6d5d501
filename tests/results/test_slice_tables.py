"""Slices as people see them: compact tables, narrow or wide, of which nothing is cut off."""

from __future__ import annotations

import io
import math
import re

import pytest
from rich.console import Console

from fastrank_eval.engine.records import MeasureValue, Meta
from fastrank_eval.results.result import Result

SCORES = ("pctr", "ctr_old")
MEASURES = ("GAUC", "AUC", "nDCG@10", "AP", "RR", "P@10", "NumRet")
SLICES = {
    None: ("all",),
    "slot": ("slot=1", "slot=2"),
    "slot,country": ("slot=1,country=de", 'slot=2,country="a long, odd name"'),
}


def line(score: str, by: str | None, part: str, measure: str) -> MeasureValue:
    """Slot 2 has few groups, and of GAUC one; AUC has no interval and uses more groups."""
    at = 0.7 + 0.01 * MEASURES.index(measure) + 0.001 * len(part)
    pooled, caution = measure == "AUC", None
    if part.startswith("slot=2"):
        caution = "one_group" if measure == "GAUC" else "few_groups"
    if pooled:
        caution = "pooled"
    half = math.nan if pooled or caution == "one_group" else 0.0123456
    return MeasureValue(
        score, part, measure, at, 12_000, 12_000 if pooled else 4321, {}, 1.0 if pooled else 0.5,
        1.0, "pooled" if pooled else "sum" if measure == "NumRet" else "mean", se=half / 1.96,
        ci_low=at - half, ci_high=at + half, caution=caution, by=by,
    )  # fmt: skip


VALUES = [
    line(score, by, part, measure)
    for by, parts in SLICES.items()
    for part in parts
    for score in SCORES
    for measure in MEASURES
]
CONVENTIONS = {"confidence": 0.95, "by": ["slot", "slot,country"], "min_groups": 1000}


def result_of(
    measures: tuple[str, ...] = MEASURES, left: int = 0, scores: tuple[str, ...] = SCORES
) -> Result:
    values = [v for v in VALUES if v.measure in measures and v.score in scores]
    meta = Meta("1", 10**6, 12_000, {**CONVENTIONS, "slices_left_out": left}, 1.0)
    return Result(values, None, meta, scores, measures)


def on_terminal(result: Result, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(result.view(wide=True))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def sliced(lines: list[str]) -> str:
    """What follows the tables of all rows."""
    first = next(i for i, text in enumerate(lines) if text.strip() == "pctr by slot")
    return "\n".join(lines[first:])


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_terminal__every_number_stands_whole_at_any_width(width):
    lines = on_terminal(result_of(), width)
    assert max(map(len, lines)) <= width
    text = sliced(lines)
    for v in VALUES:
        assert f"{v.value:#.6g}" in text
    assert text.count("±0.012*") == 2 * 2 * (len(MEASURES) - 2)
    assert "country=de" in text
    for title in (f"{score} by {by}" for score in SCORES for by in SLICES if by):
        assert title in text


def test_terminal__tables_are_parted_only_where_they_must_be():
    def tables(width: int) -> int:
        return len(re.findall("^pctr by slot *$", "\n".join(on_terminal(result_of(), width)), re.M))

    assert [tables(width) for width in (80, 100, 200)] == [2, 1, 1]
    wide = sliced(on_terminal(result_of(), 200))
    assert re.search(r"^slot=1 +≥4,321/12,000 +≥50.0% +0.706000 ±0.012 +0.716000 ", wide, re.M)
    narrow = sliced(on_terminal(result_of(), 80))
    assert re.search(r"^slot=1 +≥4,321 +≥50.0% +0.706000 +0.716000 ", narrow, re.M)


def test_plain_and_markdown__have_the_same_lines():
    result = result_of(("GAUC", "AUC", "NumRet"), left=3, scores=SCORES[:1])
    plain, marked = repr(result), result.to_markdown()
    assert re.search(r"^slot=2 +≥4,321/12,000 +≥50.0% +0.706000† +0.716000 ", plain, re.M)
    assert (
        "| `slot=2` | ≥4,321/12,000 | ≥50.0% | 0.706000† | 0.716000 | 0.766000 ±0.012\\* |"
        in marked
    )
    assert "`pctr` by `slot,country`" in marked
    assert "| slice | groups used | rows | GAUC | AUC | NumRet (sum) |" in marked
    for text in (plain, marked, "\n".join(on_terminal(result, 120))):
        assert "3 slices are left out, of fewer than 1,000 groups each" in text
        assert "† one group has no standard error" in text
        assert "* fewer than 40 effective groups" in text
        assert "slices_left_out" not in text


def test_groups_and_rows__are_exact_where_measures_agree():
    text = repr(result_of(("GAUC", "RR")))
    assert re.search(r"^all +4,321/12,000 +50.0% ", text, re.M)
    assert "≥" not in text
    assert "left out" not in text


def test_without_slices__nothing_is_said_of_them():
    values = [v for v in VALUES if v.by is None]
    text = repr(Result(values, None, Meta("1", 9, 9, {}, 1.0), SCORES, MEASURES))
    assert "slice" not in text
    assert "≥" not in text


def test_records__say_what_they_are_a_slice_of():
    result = result_of(("GAUC",))
    assert result.records()["by"].to_pylist() == [v.by for v in result]
    assert [row["by"] for row in result.document()["results"]] == [v.by for v in result]
    assert result.to_csv().splitlines()[3].startswith("pctr,slot,slot=1,GAUC,GAUC,0.706")
