"""Every kind of source gives the same rows in order, and a clear error when it cannot."""

import gzip
import io
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from fastrank_eval.errors import ArgumentError, ColumnError, SourceError
from fastrank_eval.sources import Source, open_source, require_columns

COLUMNS: dict[str, list[Any]] = {
    "user": [1, 1, 2, 3],
    "click": [0, 1, 1, 0],
    "score": [0.5, 0.25, 0.75, -1.0],
}
TABLE = pa.table(COLUMNS)


def read(source: Source, *names: str) -> dict[str, list[Any]]:
    batches = list(source.batches(names))
    assert all(batch.num_rows and batch.schema.names == list(names) for batch in batches)
    return {name: [v for b in batches for v in b.column(name).to_pylist()] for name in names}


def write_parquet(path: Path, values: Sequence[int], name: str = "x", **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({name: list(values)}), path, **options)
    return path


def write_stream(table: pa.Table, rows: int = 2) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def write_ipc(path: Path, table: pa.Table) -> Path:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return path


# ---------------------------------------------------------------------------------- in memory


class OneArray:
    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return pa.record_batch(COLUMNS).__arrow_c_array__(requested_schema)


class OneStream:
    """A stream that is no container: what it gave is gone."""

    def __init__(self) -> None:
        self.reader = TABLE.to_reader()

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.reader.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "make,rows,rereadable",
    [
        (lambda: TABLE, 4, True),
        (lambda: pa.record_batch(COLUMNS), 4, True),
        (lambda: TABLE.to_reader(max_chunksize=3), None, False),
        (lambda: pa.dataset.dataset(TABLE), None, True),
        (lambda: pa.dataset.dataset(TABLE).filter(pa.compute.field("user") > 0), None, True),
        (lambda: pd.DataFrame(COLUMNS), None, True),
        (lambda: pl.DataFrame(COLUMNS), None, True),
        (lambda: duckdb.from_arrow(TABLE), None, True),
        (lambda: duckdb.from_arrow(TABLE).to_arrow_reader(), None, False),
        (OneArray, 4, True),
        (OneStream, None, False),
        (lambda: {name: np.array(values) for name, values in COLUMNS.items()}, 4, True),
        (lambda: COLUMNS, 4, True),
        (lambda: {name: pd.Series(values) for name, values in COLUMNS.items()}, 4, True),
        (lambda: {name: pl.Series(values) for name, values in COLUMNS.items()}, 4, True),
    ],
)
def test_open_source__object_in_memory(
    make: Callable[[], object], rows: int | None, rereadable: bool
) -> None:
    source = open_source(make())
    assert source.schema.names == list(COLUMNS)
    assert source.rows == rows
    assert source.rereadable is rereadable
    assert read(source, "score", "user") == {
        "score": COLUMNS["score"],
        "user": COLUMNS["user"],
    }
    if rereadable:
        assert read(source, "click") == {"click": COLUMNS["click"]}
    else:
        with pytest.raises(SourceError, match="only once"):
            source.batches(["click"])


@pytest.mark.parametrize("library", ["pandas", "polars", "duckdb"])
def test_open_source__strings_of_the_real_libraries(library: str) -> None:
    data = {"user": ["u1", "u1", "é"], "score": [1.0, 2.0, 3.0]}
    make = {
        "pandas": lambda: pd.DataFrame(data),
        "polars": lambda: pl.DataFrame(data),
        "duckdb": lambda: duckdb.from_arrow(pa.table(data)),
    }
    source = open_source(make[library]())
    assert source.name.startswith(library)
    assert read(source, "user") == {"user": data["user"]}


def test_table__chunks_come_as_they_are_without_copy_or_empty_ones() -> None:
    chunks = [pa.array([1.0, 2.0, 3.0]), pa.array([], pa.float64()), pa.array([4.0])]
    table = pa.table({"a": pa.chunked_array(chunks), "b": pa.chunked_array(chunks)})
    batches = list(open_source(table).batches(["b"]))
    assert [batch.num_rows for batch in batches] == [3, 1]
    assert batches[0].column(0).buffers()[1].address == chunks[0].buffers()[1].address


def test_reader__of_zero_rows_gives_no_batch() -> None:
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, [TABLE.schema.empty_table()][:0])
    assert list(open_source(reader).batches(["user"])) == []


def test_reader__error_of_its_producer_keeps_its_cause() -> None:
    def produce() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch(COLUMNS)
        raise OSError("socket closed")

    source = open_source(pa.RecordBatchReader.from_batches(TABLE.schema, produce()))
    batches = source.batches(["user"])
    next(batches)
    with pytest.raises(SourceError, match=r"RecordBatchReader.*socket closed") as caught:
        next(batches)
    assert isinstance(caught.value.__cause__, OSError)


def test_stream_object__export_that_fails_is_named() -> None:
    with pytest.raises(SourceError, match=r"pandas\.DataFrame"):
        open_source(pd.DataFrame({"x": [1, "a", b"c"]}))
    with pytest.raises(SourceError, match=r"polars\.Series"):
        open_source(pl.Series([1, 2]))


def test_duckdb__failure_while_reading_is_a_source_error() -> None:
    relation = duckdb.sql("select case when range < 5000 then 1 else error('bad row') end as x "
                          "from range(10000)")  # fmt: skip
    with pytest.raises(SourceError, match="bad row"):
        list(open_source(relation).batches(["x"]))


@pytest.mark.parametrize("value", [3, None, {1, 2}, object(), 2.5])
def test_open_source__not_a_source(value: object) -> None:
    with pytest.raises(SourceError, match="Cannot read rows from"):
        open_source(value)


def test_mapping__contiguous_numbers_are_wrapped_not_copied() -> None:
    score = np.array([0.5, 0.25])
    [batch] = open_source({"score": score, "user": np.array([1, 2], np.int32)}).batches(["score"])
    assert batch.column(0).buffers()[1].address == score.ctypes.data


@pytest.mark.parametrize(
    "array,values",
    [
        (np.arange(6)[::2], [0, 2, 4]),
        (np.arange(6)[::-2], [5, 3, 1]),
        (np.arange(6.0).reshape(3, 2)[:, 1], [1.0, 3.0, 5.0]),
        (np.array([1, 2, 3], ">i4"), [1, 2, 3]),
        (np.array([1.5, np.inf, -0.0], np.float16), [1.5, np.inf, -0.0]),
        (np.array([True, False, True]), [True, False, True]),
        (np.array(["a", "bc", ""]), ["a", "bc", ""]),
        (np.array([b"a", b"bc", b"d"]), [b"a", b"bc", b"d"]),
        (np.array(["a", None, "c"], object), ["a", None, "c"]),
        (np.ma.array([1, 2, 3], mask=[False, True, False]), [1, None, 3]),
        (pa.chunked_array([[1], [2, 3]]), [1, 2, 3]),
        ([1, None, 3], [1, None, 3]),
    ],
)
def test_mapping__array_kinds(array: Any, values: list[Any]) -> None:
    assert read(open_source({"x": array}), "x") == {"x": values}


def test_mapping__nan_stays_nan() -> None:
    [batch] = open_source({"x": np.array([np.nan, 1.0])}).batches(["x"])
    assert batch.column(0).null_count == 0


@pytest.mark.parametrize(
    "arrays,message",
    [
        ({"a": np.arange(3), "b": np.arange(2)}, "Column 'b' has 2 rows, but column 'a' has 3"),
        ({"a": np.zeros((2, 2))}, r"Column 'a' has shape \(2, 2\)"),
        ({"a": np.array(1)}, r"Column 'a' has shape \(\)"),
        ({"a": np.array([1j])}, "Column 'a' .*complex128"),
        ({"a": np.array([1, "x"], object)}, "Column 'a' .*object"),
        ({"a": 5}, "Column 'a' is int"),
        ({"a": "text"}, "Column 'a' is str"),
        ({3: np.arange(3)}, "Column name 3 is int"),
    ],
)
def test_mapping__bad_array_is_named(arrays: dict[Any, Any], message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        open_source(arrays)


def test_mapping__empty() -> None:
    with pytest.raises(SourceError, match="no column"):
        open_source({})


# ------------------------------------------------------------------------------------ columns


def test_require_columns__names_role_near_match_and_what_exists() -> None:
    with pytest.raises(ColumnError) as caught:
        require_columns(TABLE.schema, ["user", "clik"], role="label", source="a.parquet")
    assert str(caught.value) == (
        "label: no column 'clik' in a.parquet. Did you mean 'click'? Columns: user, click, score."
    )


def test_require_columns__long_lists_are_cut() -> None:
    schema = pa.schema([(f"c{i}", pa.int8()) for i in range(50)])
    with pytest.raises(ColumnError, match=r"c19, and 30 more\.$"):
        require_columns(schema, ["missing"])


def test_batches__unknown_column_is_reported_at_the_call() -> None:
    with pytest.raises(ColumnError, match=r"no column 'users' in pyarrow\.Table"):
        open_source(TABLE).batches(["users"])


def test_batches__column_name_that_occurs_twice() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "b", "a"])
    for given in (table, table.to_batches()[0], table.to_reader()):
        source = open_source(given)
        with pytest.raises(ColumnError, match="'a' occurs 2 times"):
            source.batches(["a"])
        assert read(source, "b") == {"b": [2]}


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
def test_files__column_name_that_occurs_twice(tmp_path: Path, suffix: str) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "b", "a"])
    path = tmp_path / f"x.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path)
    elif suffix == "arrow":
        write_ipc(path, table)
    else:
        pa.csv.write_csv(table, path)
    source = open_source(path)
    with pytest.raises(ColumnError, match="'a' occurs 2 times"):
        source.batches(["a"])
    assert read(source, "b") == {"b": [2]}


# ------------------------------------------------------------------------------ kinds of file


def write_file(path: Path, kind: str) -> Path:
    if kind == "parquet":
        pq.write_table(TABLE, path, row_group_size=3)
    elif kind == "ipc file":
        write_ipc(path, TABLE)
    elif kind == "ipc stream":
        path.write_bytes(write_stream(TABLE))
    elif kind == "feather":
        pa.feather.write_feather(TABLE, path)
    elif kind == "csv":
        pa.csv.write_csv(TABLE, path)
    elif kind == "tsv":
        pa.csv.write_csv(TABLE, path, pa.csv.WriteOptions(delimiter="\t"))
    else:
        sink = io.BytesIO()
        pa.csv.write_csv(TABLE, sink)
        path.write_bytes(gzip.compress(sink.getvalue()))
    return path


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


def test_file__many_batches_in_row_order(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "x.parquet", range(300_000), row_group_size=7_000)
    batches = list(open_source(path).batches(["x"]))
    assert len(batches) > 1
    assert np.array_equal(np.concatenate([b.column(0) for b in batches]), np.arange(300_000))


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


def test_uri__file_scheme(tmp_path: Path) -> None:
    for number in (10, 2):
        write_parquet(tmp_path / f"day={number}" / "x.parquet", [number])
    base = tmp_path.as_uri()
    assert read(open_source(f"{base}/day=2/x.parquet"), "x") == {"x": [2]}
    assert read(open_source(base), "x", "day") == {"x": [2, 10], "day": [2, 10]}
    assert read(open_source(f"{base}/day=*/*.parquet"), "x") == {"x": [2, 10]}


def test_uri__unknown_scheme() -> None:
    with pytest.raises(SourceError, match=r"nowhere://a/b\.parquet"):
        open_source("nowhere://a/b.parquet")


@pytest.mark.parametrize("name", ["a b.parquet", "é.parquet", "day[1].parquet", "what?.parquet"])
def test_path__odd_characters_are_taken_literally_where_the_file_exists(
    tmp_path: Path, name: str
) -> None:
    write_parquet(tmp_path / "day1.parquet", [2])
    assert read(open_source(write_parquet(tmp_path / name, [1])), "x") == {"x": [1]}


def test_path__relative_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path / "part-1.parquet", [1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in ("part-1.parquet", "*.parquet", ".", "./", "**/*.parquet", "~/part-1.parquet"):
        assert read(open_source(given), "x") == {"x": [1]}


# ------------------------------------------------------------------------------- many files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in (10, 9, 1):
        write_parquet(tmp_path / "log" / f"part-{number}.parquet", [number, -number])
    write_parquet(tmp_path / "log" / "more" / "deep" / "part-3.parquet", [3])
    write_parquet(tmp_path / "log" / ".hidden.parquet", [100])
    write_parquet(tmp_path / "log" / "_temporary" / "part-0.parquet", [101])
    write_parquet(tmp_path / "log" / "000000_0", [7])
    (tmp_path / "log" / "_SUCCESS").touch()
    (tmp_path / "log" / "README.txt").write_text("about")
    return tmp_path / "log"


def test_folder__recursive_natural_order_without_hidden_or_unknown_files(folder: Path) -> None:
    source = open_source(folder)
    assert read(source, "x") == {"x": [7, 3, 1, -1, 9, -9, 10, -10]}
    assert source.rows == 8
    assert "5 files" in source.name


@pytest.mark.parametrize(
    "pattern,values",
    [
        ("*.parquet", [1, -1, 9, -9, 10, -10]),
        ("part-?.parquet", [1, -1, 9, -9]),
        ("part-[19]*.parquet", [1, -1, 9, -9, 10, -10]),
        ("**/*.parquet", [3, 1, -1, 9, -9, 10, -10]),
        ("more/**/part-*", [3]),
        ("m*", [3]),
        ("**", [7, 3, 1, -1, 9, -9, 10, -10]),
        ("more/**", [3]),
        (".h*.parquet", [100]),
        ("_*/*", [101]),
    ],
)
def test_glob__matches_in_natural_order(folder: Path, pattern: str, values: list[int]) -> None:
    assert read(open_source(f"{folder}/{pattern}"), "x") == {"x": values}


def test_list__given_order(folder: Path) -> None:
    names = ["part-9.parquet", "part-10.parquet", "more", "part-1*1.parquet"]
    paths = [folder / name for name in names[:2]]
    assert read(open_source(paths), "x") == {"x": [9, -9, 10, -10]}
    mixed = (str(paths[1]), folder / names[2], f"{folder}/part-?.parquet")
    assert read(open_source(mixed), "x") == {"x": [10, -10, 3, 1, -1, 9, -9]}


def test_list__formats_may_differ(tmp_path: Path) -> None:
    kinds = [("a.csv", "csv"), ("b.parquet", "parquet"), ("c.arrows", "ipc stream")]
    source = open_source([write_file(tmp_path / name, kind) for name, kind in kinds])
    assert read(source, "score") == {"score": COLUMNS["score"] * 3}
    assert source.rows is None


def test_list__file_named_twice_is_refused(folder: Path) -> None:
    with pytest.raises(SourceError, match=r"part-9\.parquet' is named twice"):
        open_source([folder / "part-9.parquet", folder])


@pytest.mark.parametrize(
    "given,message",
    [([], "list of paths is empty"), ([TABLE], "holds pyarrow.Table"), ([""], "path is empty")],
)
def test_list__bad_content(given: list[Any], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        open_source(given)


def test_hive__partition_keys_become_columns(tmp_path: Path) -> None:
    write_parquet(tmp_path / "day=2" / "country=de" / "x.parquet", [3])
    write_parquet(tmp_path / "day=10" / "country=a%2Fb" / "x.parquet", [4, 5])
    write_parquet(tmp_path / "day=1" / "country=__HIVE_DEFAULT_PARTITION__" / "x.parquet", [1, 2])
    source = open_source(tmp_path)
    assert source.schema.field("day").type == pa.int64()
    assert source.schema.field("country").type == pa.string()
    assert read(source, "country", "x", "day") == {
        "country": [None, None, "de", "a/b", "a/b"],
        "x": [1, 2, 3, 4, 5],
        "day": [1, 1, 2, 10, 10],
    }
    assert read(source, "day") == {"day": [1, 1, 2, 10, 10]}


def test_hive__column_of_the_file_wins(tmp_path: Path) -> None:
    write_parquet(tmp_path / "x=5" / "a.parquet", [1])
    (tmp_path / "x=5" / "b.csv").write_text("x\n2\n")
    assert read(open_source(tmp_path), "x") == {"x": [1, 2]}


def test_hive__key_that_some_files_lack(tmp_path: Path) -> None:
    write_parquet(tmp_path / "day=1" / "a.parquet", [1])
    write_parquet(tmp_path / "loose.parquet", [2])
    source = open_source(tmp_path)
    assert read(source, "x") == {"x": [1, 2]}
    with pytest.raises(SourceError, match=r"'day' is missing in .*loose\.parquet"):
        source.batches(["day"])


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


def test_types__that_cannot_be_promoted_name_the_file_and_only_if_needed(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": [1], "x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"user": [2], "x": ["one"]}), tmp_path / "b.parquet")
    source = open_source(tmp_path)
    assert read(source, "user") == {"user": [1, 2]}
    with pytest.raises(SourceError, match=r"'x' is string in '.*b\.parquet' but int64"):
        source.batches(["x"])


def test_types__value_that_does_not_survive_the_cast_names_the_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([1], pa.int64())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([2**63 + 5], pa.uint64())}), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match=r"'x' of '.*b\.parquet' is uint64"):
        read(open_source(tmp_path), "x")


@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_missing_column_in_one_file__is_named_before_reading(tmp_path: Path, lacking: int) -> None:
    for number in range(3):
        write_parquet(
            tmp_path / f"{number}.parquet", [1], "lable" if number == lacking else "label"
        )
    source = open_source(tmp_path)
    with pytest.raises(SourceError, match=rf"'label' is missing in '.*{lacking}\.parquet'.*lable"):
        source.batches(["label"])


# ---------------------------------------------------------------------------------------- CSV


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


# ------------------------------------------------------------------------------------ faults


def failure(path: object, **options: Any) -> str:
    def read_all() -> None:
        source = open_source(path, **options)
        for _ in source.batches(source.schema.names):
            pass

    with pytest.raises(SourceError) as caught:
        read_all()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_file__suggests_a_neighbour(tmp_path: Path) -> None:
    write_parquet(tmp_path / "impressions.parquet", [1])
    message = failure(tmp_path / "impresions.parquet")
    assert "no such file. Did you mean 'impressions.parquet'?" in message
    assert "no such file" in failure(tmp_path / "nowhere" / "x.parquet")


def test_glob__without_match(tmp_path: Path) -> None:
    for pattern in ("*.parquet", "nowhere/**/*.parquet", "day=[0-9]/x"):
        assert "No file matches" in failure(f"{tmp_path}/{pattern}")


def test_folder__without_data(tmp_path: Path) -> None:
    assert "holds no Parquet, Arrow or CSV file" in failure(tmp_path)
    (tmp_path / "notes.md").write_text("x")
    assert "such as 'notes.md'" in failure(tmp_path)


def test_file__of_unknown_format(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"whatever this is")
    assert "data.bin' is of no known format" in failure(path)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.csv", "x.csv.gz"])
def test_file__of_zero_bytes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    message = failure(tmp_path / name)
    assert name in message
    assert "empty (0 bytes)" in message


def test_format__that_the_file_does_not_have(tmp_path: Path) -> None:
    path = write_file(tmp_path / "x.parquet", "parquet")
    assert "begins like parquet (pass format='parquet')" in failure(path, format="arrow")
    other = write_file(tmp_path / "y.parquet", "ipc file")
    assert "begins like arrow (pass format='arrow')" in failure(other)


def test_format__unknown_or_out_of_place() -> None:
    with pytest.raises(ArgumentError, match="Did you mean 'parquet'"):
        open_source("x", format="parket")
    with pytest.raises(ArgumentError, match="applies to files"):
        open_source(TABLE, format="csv")
    with pytest.raises(ArgumentError, match="standard input"):
        open_source("-", format="parquet")


def compressed(path: Path) -> bytes:
    generator = np.random.default_rng(1)
    table = pa.table({"x": generator.integers(0, 1 << 40, 20_000), "y": generator.random(20_000)})
    pq.write_table(table, path, row_group_size=5_000, compression="zstd", write_page_checksum=True)
    return path.read_bytes()


def test_parquet__truncated_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    whole = compressed(path)
    for size in (len(whole) - 1, len(whole) - 8, len(whole) // 2, 10, 3):
        path.write_bytes(whole[:size])
        message = failure(path)
        assert "cut.parquet" in message
        assert "Write or copy the file again" in message
        if size >= 4:
            assert "truncated (no footer)" in message


def test_parquet__bytes_missing_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    whole = compressed(path)
    path.write_bytes(whole[: len(whole) // 2] + whole[len(whole) // 2 + 1000 :])
    assert "cut.parquet" in failure(path)


def test_parquet__corrupt_page_is_named_even_when_later_in_a_folder(tmp_path: Path) -> None:
    write_parquet(tmp_path / "part-0.parquet", range(5))
    path = tmp_path / "part-1.parquet"
    whole = bytearray(compressed(path))
    whole[len(whole) // 2] ^= 0xFF
    path.write_bytes(whole)
    batches = open_source(tmp_path).batches(["x"])
    assert next(batches).num_rows == 5
    whole[60] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(SourceError, match=r"part-1\.parquet.*corrupt") as caught:
        list(batches)
    assert isinstance(caught.value.__cause__, (OSError, pa.ArrowException))


@pytest.mark.parametrize("kind", ["parquet", "ipc file", "ipc stream", "feather", "csv.gz"])
def test_file__random_damage_never_crashes(tmp_path: Path, kind: str) -> None:
    name = {"parquet": "x.parquet", "csv.gz": "x.csv.gz"}.get(kind, "x.arrow")
    path = write_file(tmp_path / name, kind)
    whole = path.read_bytes()
    draw = random.Random(7)  # noqa: S311
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged[: draw.choice([len(damaged), draw.randrange(len(damaged))])])
        try:
            source = open_source(path)
            names = dict.fromkeys(source.schema.names)
            list(source.batches([n for n in names if source.schema.names.count(n) == 1]))
        except SourceError as error:
            assert path.name in str(error)  # noqa: PT017


def test_parquet__columns_not_asked_for_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    whole = bytearray(compressed(path))
    for group in range(4):
        chunk = pq.ParquetFile(path).metadata.row_group(group).column(1)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        whole[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(whole)
    source = open_source(path)
    assert sum(batch.num_rows for batch in source.batches(["x"])) == 20_000
    with pytest.raises(SourceError, match=r"x\.parquet"):
        list(source.batches(["y"]))


def test_ipc__columns_not_asked_for_are_not_read(tmp_path: Path) -> None:
    table = pa.table({"x": range(1000), "y": ["word"] * 1000})
    path = tmp_path / "x.feather"
    pa.feather.write_feather(table, path, compression="uncompressed")
    path.write_bytes(path.read_bytes().replace(b"wordword", b"\xff" * 8))
    source = open_source(path)
    assert read(source, "x") == {"x": list(range(1000))}
    with pytest.raises(SourceError, match=r"x\.feather"):
        list(source.batches(["y"]))


def test_ipc__offsets_and_indices_out_of_range_are_refused(tmp_path: Path) -> None:
    indices = pa.array([0, 1, 0, 1] * 10, pa.int32())
    table = pa.table({"x": pa.DictionaryArray.from_arrays(indices, ["a", "b"])})
    path = tmp_path / "x.arrow"
    raw, bad = (np.array([0, value, 0, 1], np.int32).tobytes() for value in (1, 900))
    path.write_bytes(write_stream(table, rows=40).replace(raw, bad))
    assert "x.arrow" in failure(path)


def test_file__deleted_after_opening(folder: Path) -> None:
    source = open_source(folder)
    batches = source.batches(["x"])
    next(batches)
    (folder / "part-9.parquet").unlink()
    with pytest.raises(SourceError, match=r"part-9\.parquet'.*no such file"):
        list(batches)


def test_file__written_anew_with_other_columns_after_opening(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "x.parquet", [1])
    source = open_source(path)
    write_parquet(path, [1], name="z")
    with pytest.raises(SourceError, match=r"x\.parquet"):
        list(source.batches(["x"]))


def test_file__without_permission(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "x.parquet", [1])
    path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        message = failure(path)
    finally:
        os.seteuid(user)
    assert "x.parquet" in message
    assert "ermission denied" in message


def test_pipe__points_to_standard_input(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "Use '-'" in failure(tmp_path / "pipe")


def test_dataset__names_the_file_that_fails(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a" / "part-0.parquet", [1])
    path = write_parquet(tmp_path / "a" / "part-1.parquet", [2])
    dataset = pa.dataset.dataset(tmp_path / "a")
    assert read(open_source(dataset), "x") == {"x": [1, 2]}
    path.write_bytes(path.read_bytes()[:10])
    with pytest.raises(SourceError, match=r"part-1\.parquet"):
        read(open_source(dataset), "x")


def test_dataset__partition_columns_in_order(tmp_path: Path) -> None:
    for day in (2, 1):
        write_parquet(tmp_path / f"day={day}" / "x.parquet", [day * 10])
    dataset = pa.dataset.dataset(tmp_path, partitioning="hive")
    assert read(open_source(dataset), "x", "day") == {"x": [10, 20], "day": [1, 2]}


# ----------------------------------------------------------------------------- standard input


class Piped:
    def __init__(self, content: bytes, terminal: bool = False) -> None:
        self.buffer = io.BytesIO(content)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def test_standard_input__arrow_stream_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Piped(write_stream(TABLE)))
    source = open_source("-")
    assert source.name == "standard input"
    assert not source.rereadable
    assert read(source, "score", "click") == {k: COLUMNS[k] for k in ("score", "click")}
    with pytest.raises(SourceError, match="only once"):
        source.batches(["click"])


@pytest.mark.parametrize("cut", [0, 1, 5, 100, 0.5, 0.7, 0.9])
def test_standard_input__truncated(monkeypatch: pytest.MonkeyPatch, cut: float) -> None:
    whole = write_stream(TABLE)
    size = cut if isinstance(cut, int) else int(len(whole) * cut) | 1
    monkeypatch.setattr(sys, "stdin", Piped(whole[:size]))
    assert "Cannot read standard input" in failure("-")


def test_standard_input__not_an_arrow_stream(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for kind in ("parquet", "csv", "ipc file"):
        content = write_file(tmp_path / "x", kind).read_bytes()
        monkeypatch.setattr(sys, "stdin", Piped(content))
        assert "Pipe in an Arrow IPC stream" in failure("-")


def test_standard_input__nothing_piped(monkeypatch: pytest.MonkeyPatch) -> None:
    for stdin in (None, Piped(b"", terminal=True)):
        monkeypatch.setattr(sys, "stdin", stdin)
        assert "Nothing is piped" in failure("-")
