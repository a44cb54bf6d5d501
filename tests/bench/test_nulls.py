"""The simulation of equal models: tables that repeat, and the page."""

from __future__ import annotations

import re
from pathlib import Path

from bench.nulls import MEASURES, dump, load, page, simulate

PAGE = (Path(__file__).parents[2] / "bench" / "NULLS.md").read_text(encoding="utf-8")


def test_page__compares_with_the_cells_of_an_earlier_version() -> None:
    found = simulate(6, ["NE", "TPR({})"], [10])
    before = load(dump({(10, 0.2): {"NE": found[10, 0.2]["NE"]}}))
    text = page(found, before)
    assert "Tables of 3 and of 40 users are not on this page." in text
    assert text.count("\n| NE |") == text.count("\n| TPR(t) |") + 1 == 4
    assert text.endswith("| NE | +0.0 |\n\nNo cell loses more than 2%.\n")


def test_page__of_all_tables__holds_every_limit() -> None:
    assert "2,000 tables a cell" in PAGE
    assert "Every cell holds its limit." in PAGE
    assert len(re.findall(r"^\| LogLoss \|", PAGE, re.MULTILINE)) == 3
    assert all(f"\n| {text.format('t')} |" in PAGE for text in MEASURES)
    (least,) = re.findall(r"least p-value of all is ([^ ]+)\.\n", PAGE)
    assert float(least) > 1e-12
