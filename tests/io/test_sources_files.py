"""Files of every format give the same rows, and share one schema."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastrank_eval._lib.errors import SourceError
from fastrank_eval.io.reader import open_source
from tests.support.source_files import (
    COLUMNS,
    TABLE,
    read,
    write_file,
    write_ipc,
    write_stream,
)
from tests.support.transcripts import answers

pytestmark = pytest.mark.no_kernels

FILES = [
    ("x.parquet", "parquet", None),
    ("x.PQ", "parquet", None),
    ("no_suffix", "parquet", None),
    ("part-0.snappy", "parquet", None),
    ("x.arrow", "ipc file", None),
    ("x.ipc", "ipc file", None),
    ("x.feather", "feather", None),
    ("no_suffix", "ipc file", None),
    ("x.arrows", "ipc stream", None),
    ("x.arrow", "ipc stream", None),
    ("no_suffix", "ipc stream", "arrow"),
    ("x.csv", "csv", None),
    ("x.txt", "csv", "csv"),
    ("x.csv.gz", "csv.gz", None),
    ("x.tsv", "tsv", None),
    ("x.parquet", "csv", "csv"),
]


@pytest.mark.parametrize("name,kind,forced", FILES)
@pytest.mark.parametrize("as_text", [True, False])
def test_file__of_each_kind(
    tmp_path: Path, name: str, kind: str, forced: str | None, as_text: bool
) -> None:
    path = write_file(tmp_path / name, kind)
    source = open_source(str(path) if as_text else path, format=forced)
    assert source.schema.names == list(COLUMNS)
    assert source.rows == (4 if kind == "parquet" else None)
    assert source.rereadable
    for _ in range(2):
        assert read(source, "score", "user") == {"score": COLUMNS["score"], "user": COLUMNS["user"]}


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.arrows", "x.csv"])
def test_file__of_zero_rows(tmp_path: Path, name: str) -> None:
    path, empty = tmp_path / name, TABLE.slice(0, 0)
    if name == "x.parquet":
        pq.write_table(empty, path)
    elif name == "x.arrow":
        write_ipc(path, empty)
    elif name == "x.arrows":
        path.write_bytes(write_stream(empty))
    else:
        path.write_text("user,click,score\n")
    source = open_source(path)
    assert source.schema.names == list(COLUMNS)
    assert list(source.batches(["user", "score"])) == []


@pytest.mark.parametrize(
    "first,second,common",
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.int8(), pa.float64(), pa.float64()),
        (pa.bool_(), pa.int8(), pa.int8()),
        (pa.null(), pa.int16(), pa.int16()),
        (pa.string(), pa.large_string(), pa.large_string()),
        (pa.string_view(), pa.string(), pa.large_string()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string(), pa.string()),
    ],
)
def test_types__that_differ_between_files_are_promoted_exactly(
    tmp_path: Path, first: pa.DataType, second: pa.DataType, common: pa.DataType
) -> None:
    text = any(pa.types.is_string(t) or pa.types.is_dictionary(t) for t in (first, second))
    one: Any
    one, two = ("a", "b") if text else (1, 0)
    if pa.types.is_null(first):
        one = None
    for a, b in [(first, second), (second, first)]:
        left = pa.array([one, None]).cast(a)
        right = pa.array([two, None] if not pa.types.is_null(b) else [None, None]).cast(b)
        pair = [(left, "0.arrow"), (right, "1.arrow")]
        paths = [write_ipc(tmp_path / name, pa.table({"x": array})) for array, name in pair]
        source = open_source(paths)
        assert source.schema.field("x").type == common
        assert read(source, "x") == {"x": left.cast(common).to_pylist() + right.cast(common).to_pylist()}  # noqa: E501  # fmt: skip


def test_csv__types_nulls_and_nan(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(
        '\ufeffid,label,score,ok,country,day\n'
        "7,1,0.5,true,NA,2026-01-02\n"
        "8,,nan,false,,2026-01-03\n"
        '9,NULL,-inf,true,"",2026-01-04\n',
        encoding="utf-8",
    )  # fmt: skip
    source = open_source(path)
    types = {field.name: field.type for field in source.schema}
    assert types == {
        "id": pa.int64(),
        "label": pa.int64(),
        "score": pa.float64(),
        "ok": pa.bool_(),
        "country": pa.string(),
        "day": pa.date32(),
    }
    got = read(source, "label", "score", "country")
    assert got["label"] == [1, None, None]
    assert got["country"] == ["NA", None, ""]
    assert got["score"][0] == 0.5
    assert np.isnan(got["score"][1])
    assert got["score"][2] == -np.inf


def test_csv__types_agree_across_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,score\n1,1\n")
    (tmp_path / "b.csv").write_text("score,user\n0.5,u2\n")
    assert read(open_source(tmp_path), "user", "score") == {
        "user": ["1", "u2"],
        "score": [1.0, 0.5],
    }


def test_csv__value_that_contradicts_the_first_lines_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text("user,label\n" + "12345678,1\n" * 500_000 + "12345678,maybe\n")
    source = open_source(path)
    assert sum(batch.num_rows for batch in source.batches(["user"])) == 500_001
    with pytest.raises(SourceError, match=r"clicks\.csv.*'maybe'.*Parquet") as caught:
        list(source.batches(["label"]))
    assert isinstance(caught.value.__cause__, pa.ArrowInvalid)


@pytest.mark.parametrize(
    "content", [b"a,b\n1,2\n1,2,3\n", b"a,b\n1,\xff\xfe\n2,3\n", b"", b"\x00\x01\x02\n\x00"]
)
def test_csv__malformed_is_named_or_read_without_crash(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    try:
        source = open_source(path)
        list(source.batches(source.schema.names))
    except SourceError as error:
        assert "bad.csv" in str(error)  # noqa: PT017
    else:
        assert b"\xff" in content or b"\x00" in content


@pytest.mark.parametrize("rows", [2, 20_000, 450_000])  # below, across and beyond the buffers
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_csv__every_line_is_a_row__whatever_ends_it(tmp_path: Path, rows: int, end: str) -> None:
    text = end.join(["x,y", *(f"{i},0.5" for i in range(rows))])
    for last in ("", end):
        (tmp_path / "x.csv").write_bytes((text + last).encode())
        with gzip.open(tmp_path / "x.csv.gz", "wb", 1) as packed:
            packed.write((text + last).encode())
        for path in tmp_path.iterdir():
            columns = [batch.column("x") for batch in open_source(path).batches(["x", "y"])]
            assert pa.chunked_array(columns).equals(pa.chunked_array([pa.array(range(rows))]))


@pytest.mark.parametrize("rows", [3, 120_000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_csv__line_ends_inside_quotes_belong_to_the_value(
    tmp_path: Path, rows: int, end: str
) -> None:
    value = f"a{end}1,2{end}b"
    path = tmp_path / "x.csv"
    path.write_bytes(end.join(["x,text", *(f'{i},"{value}"' for i in range(rows))]).encode())
    columns = [batch.column("text") for batch in open_source(path).batches(["x", "text"])]
    assert pa.chunked_array(columns).equals(pa.chunked_array([[value] * rows]))


test_answers = answers(globals())
