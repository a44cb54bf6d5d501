"""Slices of a comparison as people read them: marks, parts of a difference, widths."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from rich.console import Console

import fastrank_eval as fe
from fastrank_eval.analysis.comparison import compared_slices
from tests.support.click_logs import click_log

MEASURES = "GAUC,AP,RR,nDCG@10,P@3,GMAP,AUC,KS,GroupErrorRate(threshold=0)"


@pytest.fixture(scope="module")
def log():
    found = click_log(600, seed=3)
    found["slot"] = np.random.default_rng(0).integers(0, 3, len(found["user"]))
    found["country"] = np.array(["a country of a long name, and more", "b"])[
        found["user"] % 40 // 39
    ]
    found["worse"] = -found["newer"]
    return found


@pytest.fixture(scope="module")
def comparison(log):
    return fe.compare(
        log, group="user", label="click", score=["old", "newer", "worse"], baseline="old",
        measures=MEASURES, by=["slot", "country"],
    )  # fmt: skip


def on_terminal(found, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(found)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_marks__say_what_the_verdict_says_after_correction(comparison) -> None:
    seen = set()
    for score in comparison.scores:
        for table in compared_slices(comparison, [score]):
            for row in table.rows:
                if row[0] in ("within", "mix", "remainder"):
                    continue
                for measure, cell in zip(comparison.measures, row[2:], strict=True):
                    line = comparison.find(measure, score, row[0])
                    word = line.verdict.removeprefix(f"{score} is ").partition(":")[0]
                    mark = {"better": "▲", "worse": "▼"}.get(word, "")
                    assert cell.startswith(f"{mark} " if mark else ("+", "-", "0"))
                    assert bool(mark) == (line.p_adjusted <= 0.05)
                    seen.add(mark)
    assert seen == {"▲", "▼", ""}
    text = "\n".join(on_terminal(comparison.view(wide=True), 200))
    assert (
        "▲ better, ▼ worse: significant (p <= 0.05 after Holm's correction over all slices)" in text
    )
    assert "* fewer than 40 effective groups: the interval is rough" in text
    assert "≥ where measures differ" in text


def test_parts_of_the_difference__stand_under_slices_that_cut_groups_alone(comparison) -> None:
    by_slot, by_country = compared_slices(comparison, ["newer"])
    assert [row[0] for row in by_slot.rows[4:]] == ["within", "remainder"]
    assert len(by_country.rows) == 3
    column = 2 + comparison.measures.index("GAUC")
    parts = comparison.decomposition("GAUC", "newer", "slot")
    within, remainder = (row[column] for row in by_slot.rows[4:])
    assert float(within) == pytest.approx(parts.within, abs=0.005)
    assert float(remainder) == pytest.approx(parts.remainder, abs=0.005)
    pooled = 2 + comparison.measures.index("KS")
    assert {row[pooled] for row in by_slot.rows[4:]} == {""}
    assert "within slices, by their mix, and a remainder add up" in repr(comparison)


def test_slices_of_results__have_differences_without_intervals(log) -> None:
    result = fe.evaluate(
        log, group="user", label="click", score=["old", "newer"], measures="AP", by="slot"
    )
    found = result.compare(baseline="old")
    (table,) = compared_slices(found, ["newer"])
    assert [row[1] for row in table.rows[1:4]] == ["n/a"] * 3
    assert all(re.fullmatch(r"[+-][0-9.]+", row[2]) for row in table.rows[1:4])
    assert "slices of results are not paired" in repr(found)


def test_slices_left_out__are_told(log) -> None:
    found = fe.compare(
        log, group="user", label="click", score=["old", "newer"], baseline="old", measures="AP",
        by="country", min_groups=50,
    )  # fmt: skip
    assert "1 slice is left out, of fewer than 50 groups each" in repr(found)
    assert "country=b" not in repr(found)
