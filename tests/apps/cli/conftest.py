"""A folder with the log of `tests.support.commands`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support.commands import ROWS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    parquet.write_table(pa.table(ROWS), tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path
