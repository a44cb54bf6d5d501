"""Odd values, names and files end in errors of ours, or are read; none in a traceback."""

from __future__ import annotations

import decimal
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

import fastrank_eval as fe
from tests.support.commands import output, refusal
from tests.support.transcripts import Case, cases

LOG: dict[str, Any] = {
    "user": [1, 1, 2, 2],
    "click": [0, 1, 1, 0],
    "pctr": [0.1, 0.4, 0.2, 0.3],
}
COLUMNS: dict[str, Any] = {"group": "user", "label": "click", "score": "pctr"}
WORDS = ("-g", "user", "-l", "click", "-s", "pctr", "-m", "GAUC")


def evaluate(
    measures: str = "GAUC", log: dict[str, Any] | None = None, **options: Any
) -> fe.Result:
    return fe.evaluate({**LOG, **(log or {})}, **{**COLUMNS, **options}, measures=measures)


def decimals(kind: pa.DataType) -> pa.Array:
    return pa.array([decimal.Decimal(n) for n in ("1.5", "2", "1.5", "2")], kind)


def contradicting(content: bytes) -> bytes:
    """A Parquet file whose row group calls the type of a column otherwise than its schema."""
    for at in range(len(content) - 8 - int.from_bytes(content[-8:-4], "little"), len(content) - 8):
        for value in range(0, 32, 2):
            changed = bytearray(content)
            changed[at] = value
            try:
                file = papq.ParquetFile(pa.BufferReader(bytes(changed)))
                kind = file.metadata.row_group(0).column(0).physical_type
            except (pa.ArrowException, OSError):
                continue
            if kind != file.schema.column(0).physical_type and file.schema_arrow.names == ["x"]:
                return bytes(changed)
    raise AssertionError("no byte does it")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    papq.write_table(pa.table(LOG), tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("case", cases("odd_input"), ids=lambda case: ascii(str(case)))
def test_odd_input__is_read_or_refused(case: Case) -> None:
    case.check(case.answer({**globals(), "os": os, "refusal": refusal}))


@pytest.fixture
def odd_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC+99:99")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("odd_zone")
def test_nightly_in_a_zone_that_no_clock_has__is_refused(tmp_path: Path) -> None:
    config = str(tmp_path / "nightly.toml")
    output("nightly", "--init", config)
    assert "error: TZ='UTC+99:99': no clock has that time zone" in refusal("nightly", config)
