"""The cost of a row of a night is measured, and extrapolated along a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import night
from bench.night import Cost


@pytest.mark.lasts("evaluates a night in a process of its own")
def test_night__is_measured(tmp_path: Path) -> None:
    cost = night.measured(tmp_path, 500, {"label": '["click", "other"]', "by": []})
    assert cost.rows == 500
    assert cost.seconds > 0.1
    assert cost.memory > 50_000_000
    assert 1_000 < cost.states < 1_000_000


def test_report__extrapolates_the_cost_of_a_row() -> None:
    few, many = Cost(1_000_000, 4.0, 300_000_000, 50_000), Cost(2_000_000, 6.0, 300_000_000, 60_000)
    (line,) = (line for line in night.report({"x": (few, many)}).splitlines() if "| x |" in line)
    assert line == "| x | 2.00 | 6.70 | 300 MB | 60 kB | 0.01 |"
