"""The sizes on disk are measured and written up."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.disk import Month, Spill, measured_month, report

pytestmark = pytest.mark.no_kernels


def test_report__has_a_line_for_each_month_and_each_run_that_spilled() -> None:
    months = [
        Month(20_000, "slices", 300_500.0, 250_000.0, 40_000, 9_000),
        Month(20_000, "groups", 100_000.0, 250_000.0, 0, 9_000),
    ]
    text = report(months, (12, 90_000), [Spill(1_000_000, "600MB", "integer key", 20_000_000, 0)])
    assert '| 20,000 | `"slices"` (default) | 300 kB | 250 kB | 9 kB | 40 kB |' in text
    assert '| 20,000 | `"groups"` | 100 kB | 250 kB | 9 kB | - |' in text
    assert "This month compiles 12 kernels into the store: 90 kB." in text
    assert "| 1,000,000 | integer key | `600MB` | 20 MB | 20.0 | 0 |" in text


@pytest.mark.slow("compiles kernels, evaluates nights")
def test_month__of_two_nights__is_measured(tmp_path: Path, store: Path) -> None:
    month = measured_month(tmp_path / "demo", 300, "groups", store, last=2, first=2)
    history = tmp_path / "demo" / "month" / "history.db"
    assert 0 < month.history < history.stat().st_size
    assert month.page > 10_000
    assert month.summary > 1_000
