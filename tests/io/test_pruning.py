"""What a condition rules out is not read: files by their folders, row groups by statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError, ColumnError, SourceError
from fastrank_eval.io.reader import open_source
from tests.support.source_files import read, write_parquet

pytestmark = pytest.mark.no_kernels

DAYS = ("2026-11-18", "2026-11-19", "2026-11-20")
DAY_19 = ["day = '2026-11-19'", "x >= 0 and day in ('2026-11-19')"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """One file a day; those of other days than the 19th are not even Parquet."""
    for at, day in enumerate(DAYS):
        write_parquet(tmp_path / f"day={day}" / "part-0.parquet", [10 * at, 10 * at + 1])
        if at != 1:
            (tmp_path / f"day={day}" / "part-0.parquet").write_bytes(b"nothing that can be read")
    return tmp_path


@pytest.mark.parametrize("where", DAY_19)
def test_files__ruled_out_by_their_folders__are_not_opened(log: Path, where: Any) -> None:
    with pytest.raises(SourceError, match=r"day=2026-11-18"):
        open_source(log)
    assert read(open_source(log, where=where), "x", "day") == {"x": [10, 11], "day": [DAYS[1]] * 2}
    found = open_source(str(log / "**" / "part-*.parquet"), where=where)
    assert read(found, "x") == {"x": [10, 11]}


def test_files__under_an_expression__are_all_opened(log: Path) -> None:
    where = pc.field("day") == DAYS[1]
    with pytest.raises(SourceError, match=r"day=2026-11-18"):
        open_source(log, where=where)
    for day in (DAYS[0], DAYS[2]):
        write_parquet(log / f"day={day}" / "part-0.parquet", [1])
    assert list(open_source(log, where=pc.field("day") == "2025-01-01").batches(["x"])) == []
    assert read(open_source(log, where=where), "x", "day") == {"x": [10, 11], "day": [DAYS[1]] * 2}


def test_rows__are_known_where_folders_decide_alone(log: Path) -> None:
    assert open_source(log, where="day = '2026-11-19'").rows == 2
    assert open_source(log, where="day = '2026-11-19' and (x = 3 or x is null)").rows is None
    with pytest.raises(SourceError, match="day=2026-11-18"):  # one is looked at for the columns
        open_source(log, where="day = '2025-01-01'")


@pytest.mark.parametrize("where", ["day = 9", "day > 3 and x < 5"])
def test_files__all_ruled_out__still_tell_their_columns(tmp_path: Path, where: str) -> None:
    for day in (1, 2):
        write_parquet(tmp_path / f"day={day}" / "x.parquet", [day])
    source = open_source(tmp_path, where=where)
    assert source.rows == 0
    assert source.schema.names == ["day", "x"]
    assert list(source.batches(["x", "day"])) == []
    with pytest.raises(ColumnError, match="no column 'y'"):
        source.batches(["y"])


def test_partition_keys__of_numbers_texts_and_nulls(tmp_path: Path) -> None:
    for at, path in enumerate(["k=1/z=a", "k=02/z=b%20c", "k=10/z=__HIVE_DEFAULT_PARTITION__"]):
        write_parquet(tmp_path / path / "x.parquet", [at])
    for where, rows in {
        "k = 2": [1],
        "k between 2 and 10": [1, 2],
        "z = 'b c'": [1],
        "z is null": [2],
        "not z = 'a'": [1],
        "not (z = 'a' and x = 5)": [0, 1, 2],
        "k = 1 or x = 2": [0, 2],
    }.items():
        assert read(open_source(tmp_path, where=where), "x") == {"x": rows}, where
    with pytest.raises(ArgumentError, match="'k' is int64, and 'one' is not a value"):
        open_source(tmp_path, where="k = 'one'")
    with pytest.raises(ArgumentError, match="'z' is string, and 3 is not a value"):
        open_source(tmp_path, where="z = 3")


def test_column__that_files_hold_too__does_not_rule_out_folders(tmp_path: Path) -> None:
    for at in (1, 2):
        write_parquet(tmp_path / f"run={at}" / "x.parquet", [7 + at, 20], name="run")
    for where in ("run = 8", "run = 1"):
        with pytest.raises(SourceError, match=r"'run' must come from one place.*'run=1'"):
            open_source(tmp_path, where=where)


def test_dataset__of_views_is_filtered_as_other_sources_are() -> None:
    table = pa.table(
        {"user": pa.array(["a", "a", "b"], pa.string_view()), "click": [1, 0, 1], "s": [1, 2, 3]}
    )
    roles = {"group": "user", "label": "click", "score": "s", "measures": "RR", "where": "s < 3"}
    results = [fe.evaluate(source, **roles) for source in (table, ds.dataset(table))]
    assert [result.value("RR") for result in results] == [0.5, 0.5]


def test_dataset__files_ruled_out_are_not_opened(log: Path) -> None:
    schema = pa.schema([("x", pa.int64()), ("day", pa.string())])
    dataset = ds.dataset(log, schema=schema, partitioning="hive")
    assert read(open_source(dataset, where=DAY_19[0]), "x") == {"x": [10, 11]}
    filtered = dataset.filter(pc.field("day") == DAYS[1])
    assert read(open_source(filtered, where="x = 11"), "x") == {"x": [11]}
    with pytest.raises(SourceError, match="2026-11-18"):
        read(open_source(dataset, where="x = 11"), "x")


# ---- row groups ----------------------------------------------------------------------------------

HOUR = pa.array(np.arange(4).repeat(100) * 3600 * 10**6, pa.timestamp("us"))
GROUPS = pa.table({
    "x": np.arange(400),
    "small": pa.array(np.arange(400) // 2, pa.uint8()),
    "word": [f"{n:03d}" + "long" * 30 for n in range(400)],
    "code": pa.array([f"{n // 100}" for n in range(400)]).dictionary_encode(),
    "hour": HOUR,
    "day": pa.array(np.arange(4, dtype=np.int32).repeat(100) * 1200 + 2400).cast(pa.date32()),
    "score": np.arange(400) / 7,
    "gaps": pa.array([None if n < 100 else n for n in range(400)], pa.int64()),
})  # fmt: skip


def damaged(path: Path, groups: tuple[int, ...], **options: Any) -> Path:
    """A file of four row groups, of which some hold nothing but zeros."""
    pq.write_table(GROUPS, path, row_group_size=100, **options)
    content = bytearray(path.read_bytes())
    metadata = pq.ParquetFile(path).metadata
    for group in groups:
        for position in range(metadata.num_columns):
            column = metadata.row_group(group).column(position)
            start = column.dictionary_page_offset or column.data_page_offset
            content[start : start + column.total_compressed_size] = bytes(
                column.total_compressed_size
            )
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "where",
    [
        "x between 110 and 120",
        "x in (3, 110) and x > 100 and x < 200",
        "x < 200 and not x < 100",
        "x > 99 and x != 500 and small between 50 and 99",
        "word >= '1' and word < '2'",
        "code = '1'",
        "code in ('1', '7')",
        "not code in ('0', '2', '3')",
        "hour = '1970-01-01 01:00:00'",
        "day = '1979-11-10'",
        "score between 15 and 28",
        "not (score < 15 or score > 28 or x < 0) and score < 28 and score > 15",
        "gaps < 150",
        "not (gaps is null or gaps > 199)",
        "x = 110 and score is not null",
    ],
)
def test_row_groups__ruled_out_by_statistics__are_not_decoded(tmp_path: Path, where: Any) -> None:
    whole = open_source(GROUPS, where=where)
    expected = read(whole, "x", "score")
    assert 0 < len(expected["x"]) <= 100
    path = damaged(tmp_path / "x.parquet", (0, 2, 3))
    assert read(open_source(path, where=where), "x", "score") == expected
    with pytest.raises(SourceError, match=r"x\.parquet"):
        read(open_source(path, where="x >= 0"), "x")


@pytest.mark.parametrize(
    "where",
    [
        pc.field("x") == 110,
        (pc.field("code") == "1") & (pc.field("x") < 200) & (pc.field("x") >= 100),
        (pc.field("gaps") < 150) & (pc.field("score") > 0),
        pc.field("hour").isin(HOUR[100:101]) & (pc.field("word") < "2"),
    ],
)
def test_row_groups__under_an_expression__are_all_read(
    tmp_path: Path, where: pc.Expression
) -> None:
    expected = read(open_source(GROUPS, where=where), "x", "score")
    assert 0 < len(expected["x"]) <= 100
    whole, broken = damaged(tmp_path / "0.parquet", ()), damaged(tmp_path / "1.parquet", (0,))
    assert read(open_source(whole, where=where), "x", "score") == expected
    with pytest.raises(SourceError, match=r"1\.parquet"):
        read(open_source(broken, where=where), "x")


def test_row_groups__without_statistics__are_read(tmp_path: Path) -> None:
    path = damaged(tmp_path / "x.parquet", (3,), write_statistics=["score"])
    with pytest.raises(SourceError, match=r"x\.parquet"):
        read(open_source(path, where="x = 3"), "x")
    assert read(open_source(path, where="x = 3 and score < 2"), "x") == {"x": [3]}


def test_row_groups__of_one_value_and_nan__are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"row": range(4), "x": [1.0, float("nan"), 1.0, 1.0]})
    pq.write_table(table, path, row_group_size=2)
    for where in ("x != 1", "not x <= 5", "not x in (1, 2)", "not x between 0 and 5"):
        assert read(open_source(path, where=where), "row") == {"row": [1]}, where
        assert read(open_source(ds.dataset(path), where=where), "row") == {"row": [1]}, where
    assert read(open_source(path, where=pc.field("x") != 1.0), "row") == {"row": [1]}


@pytest.mark.parametrize("writer", ["polars", "duckdb"])
def test_row_groups__written_by_others(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "x.parquet"
    if writer == "polars":
        pl.DataFrame(GROUPS).write_parquet(path, row_group_size=100, statistics="full")
    else:
        duckdb.from_arrow(GROUPS).write_parquet(str(path), row_group_size=100)
    last = GROUPS["word"][199].as_py()
    for where in (
        f"word = '{last}'",
        f"word > '{last[:-1]}' and word <= '{last}'",
        "hour = '1970-01-01 01:00:00' and code = '1' and small < 60",
        "gaps is null and day < '1979-11-10'",
    ):
        expected = read(open_source(GROUPS, where=where), "x")
        assert expected["x"]
        assert read(open_source(path, where=where), "x") == expected, where


def test_row_groups__of_files_whose_types_differ(tmp_path: Path) -> None:
    for at, kind in enumerate([pa.int8(), pa.int64(), pa.uint32()]):
        table = pa.table({"x": pa.array([1, 2, 100, 101], kind)})
        pq.write_table(table, tmp_path / f"{at}.parquet", row_group_size=2)
    assert read(open_source(tmp_path, where="x > 99"), "x") == {"x": [100, 101] * 3}
    assert read(open_source(tmp_path, where="x = 4000000000"), "x") == {"x": []}


def test_row_groups__beside_lists_and_structs(tmp_path: Path) -> None:
    table = pa.table({
        "x": range(4), "l": [[9], [], None, [1, 2]], "s": [{"x": 70}] * 4, "s.x": range(4),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=1)
    for where, rows in {"x = 3": [3], '"s.x" = 2': [2], "l is null": [2], "s is null": []}.items():
        assert read(open_source(tmp_path, where=where), "x") == {"x": rows}, where


def test_columns__of_which_files_disagree__are_refused_by_their_fault(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [1])
    pq.write_table(pa.table({"x": ["one"], "y": [1]}), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match=r"'x' is string in '.*b\.parquet' but int64"):
        open_source(tmp_path, where="x = 1")
    with pytest.raises(SourceError, match=r"'y' is missing in '.*a\.parquet'"):
        open_source(tmp_path, where="y = 1")


# ---- partition columns in an evaluation ----------------------------------------------------------


def hive(folder: Path) -> pa.Table:
    rows = []
    for day, country in [(1, "CH"), (1, "FR"), (2, "CH"), (3, "FR")]:
        name = folder / f"day={day}" / f"country={country}" / "x.parquet"
        name.parent.mkdir(parents=True)
        own = pa.table({"click": [1, 0, 0], "pctr": [0.5 - day / 8, 0.2, 0.3]})
        pq.write_table(own, name)
        days, countries = pa.array([day] * 3), pa.array([country] * 3)
        rows.append(own.append_column("day", days).append_column("country", countries))
    return pa.concat_tables(rows)


@pytest.mark.parametrize("group", ["day", "country", ["day", "country"], ["country", "day"]])
@pytest.mark.parametrize("where", [None, "day < 3", "country = 'CH' and pctr > 0.2"])
def test_groups__may_be_partition_columns(
    tmp_path: Path, group: str | list[str], where: str | None
) -> None:
    table = hive(tmp_path)
    wanted: dict[str, Any] = {
        "group": group, "label": "click", "score": "pctr", "measures": "RR,GAUC", "where": where,
    }  # fmt: skip
    result, expected = fe.evaluate(tmp_path, **wanted), fe.evaluate(table, **wanted)
    assert [v.value.hex() for v in result] == [v.value.hex() for v in expected]
    assert result.per_group.equals(expected.per_group)
    assert result.per_group.num_rows > 0


def test_bad_value__in_a_file_taken_whole__has_its_row_there(tmp_path: Path) -> None:
    hive(tmp_path)
    path = tmp_path / "day=2" / "country=CH" / "x.parquet"
    pq.write_table(pa.table({"click": [1, None], "pctr": [0.1, 0.2]}), path)
    wanted: dict[str, Any] = {"group": "day", "label": "click", "score": "pctr", "measures": "RR"}
    with pytest.raises(ColumnError, match=r"first in row 1 .* It is row 1 of '.*day=2.*"):
        fe.evaluate(tmp_path, where="day = 2", **wanted)
    with pytest.raises(
        ColumnError, match=r"It is row 1 of the rows that where selects in '.*day=2"
    ):
        fe.evaluate(tmp_path, where="day >= 2 and pctr < 0.9", **wanted)
