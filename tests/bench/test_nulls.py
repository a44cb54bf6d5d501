"""The simulation of equal models: tables that repeat, and the page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from bench.nulls import MEASURES, cells, dump, load, log_of, page, simulate

PAGE = (Path(__file__).parents[2] / "bench" / "NULLS.md").read_text(encoding="utf-8")


def test_log__is_a_function_of_users_and_rate() -> None:
    first, again = (log_of(3, 0.2, 50) for _ in range(2))
    assert all((first[name] == again[name]).all() for name in first)
    assert np.unique(first["table"]).tolist() == list(range(50))
    assert abs(first["click"].mean() - 0.2) < 0.001


def test_cells__say_what_the_tests_found() -> None:
    cell = cells(3, 0.2, 10, ["LogLoss"])["LogLoss"]
    assert (cell.compared, len(cell.p_values)) == (10, 10)
    assert 0 <= cell.share <= cell.power(cell.carried) <= 1


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
