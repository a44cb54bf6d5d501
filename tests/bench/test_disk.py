"""The sizes of a month of nights on disk are measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import disk
from tests.support.commands import run


@pytest.mark.lasts("evaluates nights")
def test_month__of_two_nights__is_measured(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_here(_: Path, *words: str, codes: tuple[int, ...] = (0,)) -> None:
        assert run(*words).exit_code in codes

    monkeypatch.setattr(disk, "_run", run_here)
    month = disk.measured_month(tmp_path / "demo", 300, "groups", store, last=2, first=2)
    history = tmp_path / "demo" / "month" / "history.db"
    assert 0 < month.history < history.stat().st_size
    assert month.page > 10_000
    assert month.summary > 1_000
