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


@pytest.mark.parametrize(
    "literal", ["1e-99999999999999999999999", "1e99999999999999999999999", "1e20000"]
)
@pytest.mark.parametrize("column", ["user", "pctr", "x"])
def test_number_of_an_extreme_exponent_in_where__is_refused(literal: str, column: str) -> None:
    with pytest.raises(fe.ArgumentError, match=rf"{column}.*it is out of range"):
        evaluate(log={"x": decimals(pa.decimal128(5, 2))}, where=f"{column} < {literal}")


def test_integer_past_64_bits_in_where__is_refused() -> None:
    with pytest.raises(fe.ArgumentError, match="9223372036854775808 is not a value of that type"):
        evaluate(where="user = 9223372036854775808")


@pytest.mark.parametrize("kind", [pa.decimal32(5, 2), pa.decimal64(5, 2), pa.decimal256(5, 2)])
def test_field_of_decimals_of_any_width__has_the_value_of_128_bits(kind: pa.DataType) -> None:
    wide = evaluate("FieldRCE(field='x')", {"x": decimals(pa.decimal128(5, 2))})
    found = evaluate("FieldRCE(field='x')", {"x": decimals(kind)})
    assert found.value("FieldRCE(field='x')") == wide.value("FieldRCE(field='x')")


@pytest.mark.parametrize("kind", [pa.decimal32(5, 2), pa.decimal64(5, 2)])
def test_decimals_of_32_and_64_bits_in_a_list_of_where__are_looked_up(kind: pa.DataType) -> None:
    assert evaluate(log={"x": decimals(kind)}, where="x in (1.5, 7)").meta.rows == 2


@pytest.mark.parametrize("by", ["t", "t:day", "t:quantile2"])
def test_slices_by_times_of_an_unknown_zone__are_refused(by: str) -> None:
    times = pa.array([1, 2, 3, 4], pa.timestamp("us", tz="Nowhere/Bad"))
    with pytest.raises(fe.ColumnError, match=r"time zone 'Nowhere/Bad'.* cannot be used"):
        evaluate(log={"t": times}, by=by)


def test_group_of_an_unknown_zone_that_returns__is_told_in_universal_time() -> None:
    times = pa.array([1, 2, 1, 2], pa.timestamp("us", tz="Nowhere/Bad"))
    with pytest.raises(fe.OrderError, match=r"user=1970-01-01 00:00:00.000001Z"):
        evaluate(log={"user": times}, order="grouped")


def test_lone_surrogate_as_the_name_of_a_column__is_refused() -> None:
    with pytest.raises(fe.ColumnError, match="lone surrogate"):
        evaluate(log={"\ud800": [1, 2, 3, 4]})
    with pytest.raises(fe.ColumnError, match="must be names of columns"):
        evaluate(fe.FieldRCE(field="\ud800"))  # type: ignore[arg-type]


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_csv_in_utf_16__is_refused_as_such(tmp_path: Path, coding: str) -> None:
    (tmp_path / "a.csv").write_bytes("user,click,pctr\n1,0,0.1\n1,1,0.2\n".encode(coding))
    with pytest.raises(fe.SourceError, match=r"a\.csv'.*UTF-16.*Write it as UTF-8"):
        fe.evaluate(str(tmp_path / "a.csv"), **COLUMNS, measures="GAUC")


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


def test_parquet_whose_footer_contradicts_itself__is_refused(tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    papq.write_table(pa.table({"x": pa.array([1, 2, 3], pa.int32())}), sink)
    (tmp_path / "a.parquet").write_bytes(contradicting(sink.getvalue().to_pybytes()))
    source = fe.open_source(str(tmp_path / "a.parquet"), where="x > 1")
    with pytest.raises(
        fe.SourceError, match=r"its footer calls column 'x' [A-Z0-9]+ and, in row group 0, "
    ):
        list(source.batches(["x"]))


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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    papq.write_table(pa.table(LOG), tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_whose_names_are_no_utf8__are_written_and_merged(folder: Path) -> None:
    state, groups = os.fsdecode(b"o\xff.state"), os.fsdecode(b"o\xff.parquet")
    output("evaluate", "a.parquet", *WORDS, "--save-state", state, "--per-group", groups)
    output("merge", state)
    assert (folder / groups).stat().st_size
    told = "its name is not UTF-8, and Arrow opens no such file. Rename it."
    assert told in refusal("evaluate", groups, *WORDS)


def test_files_whose_names_look_like_addresses__are_written(folder: Path) -> None:
    files = ["-o", "s3:o.html", "--save-state", "gs:o.state", "--per-group", "s3:o.parquet"]
    output("evaluate", "a.parquet", *WORDS, *files)
    words = ["roc", "a.parquet", "-l", "click", "-s", "pctr", "-o", "s3:curve.parquet"]
    output("curve", *words)
    assert {path.name for path in folder.glob("*:*")} == {
        *("gs:o.state", "s3:curve.parquet", "s3:o.html", "s3:o.parquet"),
    }
