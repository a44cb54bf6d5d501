"""Conditions on rows: their grammar, their meaning, and that every source gives the same rows."""

from __future__ import annotations

import tempfile
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError, ColumnError
from fastrank_eval.io.filters import Predicate, condition_of, parse
from fastrank_eval.io.reader import open_source
from tests.support.conditions import Condition, conditions, tables
from tests.support.source_files import write_ipc, write_stream

pytestmark = pytest.mark.no_kernels

LOG = {
    "user": [1, 1, 2, 2, 2, 3, 3],
    "click": [0, 1, 1, 0, 0, 1, 0],
    "pctr": [0.1, 0.4, 0.2, 0.3, 0.1, 0.7, 0.2],
    "slot": [1, 1, 1, 2, None, 1, 1],
}
COLUMNS: dict[str, Any] = {
    "group": "user",
    "label": "click",
    "score": "pctr",
    "measures": "GAUC,RR",
}
#: A row that tells the types of the columns of a CSV file.
PINNED = pa.table({
    "i": pa.array([0], pa.int8()), "f": [0.5], "s": ["a"], "b": [True], "d": [date(2026, 1, 1)],
    "odd name": ["x"], "row": [-1],
})  # fmt: skip


def decoded(table: pa.Table) -> pa.Table:
    return table.set_column(5, "odd name", table.column(5).cast(pa.string()))


def selected(source: object, where: object, **options: Any) -> list[int]:
    batches = list(open_source(source, where=where, **options).batches(["row"]))
    assert all(batch.num_rows and batch.schema.names == ["row"] for batch in batches)
    return [row for batch in batches for row in batch.column(0).to_pylist()]


# ---- what a condition means ----------------------------------------------------------------------


@settings(max_examples=150)
@given(tables(), conditions())
def test_table__random_condition__selects_what_three_valued_logic_does(
    table: pa.Table, condition: Condition
) -> None:
    assert selected(table, condition.text) == condition.rows(table)


@given(tables(24), conditions())
def test_source__of_any_kind__gives_the_rows_of_the_table(
    table: pa.Table, condition: Condition
) -> None:
    expected = condition.rows(table)
    pieces = pa.Table.from_batches(table.to_batches(max_chunksize=5), table.schema)
    reader = pa.RecordBatchReader.from_batches(table.schema, pieces.to_batches())
    assert selected(pieces, condition.text) == expected
    assert selected(reader, condition.text) == expected
    assert selected(dict(zip(table.schema.names, table.columns, strict=True)), condition.text) == (
        expected
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(table, folder / "x.parquet", row_group_size=2)
        pq.write_table(table, folder / "bare.parquet", row_group_size=2, write_statistics=False)
        write_ipc(folder / "x.arrow", table)
        (folder / "x.arrows").write_bytes(write_stream(table))
        pa.csv.write_csv(pa.concat_tables([decoded(PINNED), decoded(table)]), folder / "x.csv")
        for file in ("x.parquet", "bare.parquet", "x.arrow", "x.arrows"):
            assert selected(folder / file, condition.text) == expected, file
        assert selected(ds.dataset(folder / "x.parquet"), condition.text) == expected
        in_csv = selected(folder / "x.csv", condition.text)
        assert [row for row in in_csv if row != PINNED["row"][0].as_py()] == expected


@given(tables(24), conditions())
def test_hive_folder__gives_the_rows_of_the_table(table: pa.Table, condition: Condition) -> None:
    with tempfile.TemporaryDirectory() as name:
        for at, row in enumerate(table.to_pylist()):
            day = "__HIVE_DEFAULT_PARTITION__" if row["i"] is None else row["i"]
            file = Path(name) / f"i={day}" / f"{at}.parquet"
            file.parent.mkdir(exist_ok=True)
            pq.write_table(table.slice(at, 1).drop_columns("i"), file)
        if table.column("i").null_count < table.num_rows:  # of nulls alone, a key is text
            assert sorted(selected(name, condition.text)) == condition.rows(table)


@pytest.mark.parametrize(
    "text,rows",
    [
        ("a = 1 or a = 2 and a = 3", [1]),
        ("(a = 1 or a = 2) and a = 2", [2]),
        ("not a = 1 and a < 3", [0, 2]),
        ("not not a = 1", [1]),
        ("not a between 1 and 2 and a < 9", [0, 3]),
        ("a\n>=\t2", [2, 3]),
        ("a=+1", [1]),
        ("a in (3,3,0)", [0, 3]),
        ('"a" = 1', [1]),
        ('"say ""a""" = 3', [0]),
        ("größe = 2", [1]),
        ("IN_ = 0", [3]),
        ("b", [1]),
        ("(b)", [1]),
        ("not b", [0]),
        ("b = true", [1]),
        ("b = TRUE", [1]),
        ("b = 'true'", [1]),
        ("b = 1", [1]),
        ("b != 1", [0]),
        ("b = 'False'", [0]),
        ("b in (false, true)", [0, 1]),
        ("b in (0)", [0]),
        ("b is null", [2, 3]),
        ("(b) and b or (not b)", [0, 1]),
    ],
)
def test_grammar(text: str, rows: list[int]) -> None:
    down = [3, 2, 1, 0]
    table = pa.table({
        "row": range(4), "a": range(4), "b": [False, True, None, None],
        'say "a"': down, "größe": down, "IN_": down,
    })  # fmt: skip
    assert selected(table, text) == rows


def test_grammar__a_thousand_parts_in_a_row() -> None:
    table = pa.table({"row": range(2000)})
    text = " or ".join(f"row = {n}" for n in range(1000))
    assert selected(table, text) == list(range(1000))
    assert selected(ds.dataset(table), text) == list(range(1000))


@pytest.mark.parametrize(
    "kind,values,where,rows",
    [
        (pa.timestamp("us"), [0, 86_400_000_000], "x >= '1970-01-02'", [1]),
        (pa.timestamp("ns"), [0, 1], "x = '1970-01-01 00:00:00.000000001'", [1]),
        (pa.timestamp("ms", "UTC"), [0, 3_600_000], "x = '1970-01-01T02:00:00+01:00'", [1]),
        (pa.date64(), [0, 86_400_000], "x > '1970-01-01'", [1]),
        (pa.uint64(), [0, 2**64 - 1], "x = 18446744073709551615", [1]),
        (pa.uint32(), [1, 2**31 + 5], "x > 2147483648", [1]),
        (pa.float32(), [0.1, 0.2], "x = 0.1", [0]),
        (pa.float16(), [np.float16(0.1), np.float16(2)], "x in (0.1)", [0]),
        (pa.float64(), [0.1, float("nan")], "x is nan", [1]),
        (pa.int64(), [0, 1], "not x is nan", [0, 1, 2]),
        (pa.decimal128(5, 2), [Decimal("1.10"), Decimal("2.25")], "x between 1.1 and 2", [0]),
        (pa.large_string(), ["a", "b"], "x = 'b'", [1]),
        (pa.string_view(), ["a", "a string of more than twelve bytes"], "x > 'a'", [1]),
        (pa.binary(), [b"a", b"\xff"], "x = 'a'", [0]),
        (pa.binary(2), [b"ab", b"cd"], "x in ('cd')", [1]),
        (pa.dictionary(pa.int8(), pa.int64()), [5, 7], "x < 6", [0]),
        (pa.null(), [None, None], "x = 'anything' or x is null", [0, 1]),
        (pa.null(), [None, None], "not x in ('anything', 3)", []),
    ],
)
def test_literal__takes_the_type_of_its_column(
    tmp_path: Path, kind: pa.DataType, values: list[Any], where: str, rows: list[int]
) -> None:
    array = pa.array([*values, None], kind)
    table = pa.table({"row": [0, 1, 2], "x": array})
    if pa.types.is_null(kind):
        table = table.slice(0, 2)
    assert selected(table, where) == rows
    assert selected(write_ipc(tmp_path / "x.arrow", table), where) == rows
    assert selected(ds.dataset(table), where) == rows
    if not pa.types.is_float16(kind) and not pa.types.is_string_view(kind):
        pq.write_table(table, tmp_path / "x.parquet", row_group_size=1)
        assert selected(tmp_path / "x.parquet", where) == rows


def test_encoded_columns__keep_their_type_and_nulls() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, None], pa.int8()), ["a", None])
    runs = pc.run_end_encode(pa.array([1, 1, 2, None]))
    views = pa.array(["x", "y", "z", None], pa.string_view())
    table = pa.table({"row": range(4), "values": values, "runs": runs, "views": views})
    assert selected(table, "values is null") == [1, 2, 3]
    assert selected(table, "runs is null or views = 'x'") == [0, 3]
    source = open_source(table, where="runs = 1 and not views = 'x'")
    (batch,) = source.batches(["runs", "views", "values"])
    assert batch.schema.types == [runs.type, views.type, values.type]
    assert [column.to_pylist() for column in batch.columns] == [[1], ["y"], [None]]


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where,said",
    [
        ("", "expected a column at character 1, found the end"),
        ("slot", "'slot' is int64 and no condition by itself"),
        ("slot = = 3", "expected a literal at character 8, found ="),
        ("slot = feed", "character 8, found feed. Text stands in single quotes: 'feed'"),
        ('slot = "feed"', "Text stands in single quotes: 'feed'"),
        ("slot = null", "write 'column is null'"),
        ("slot in (1, null)", "write 'column is null'"),
        ("slot in ()", "expected a literal at character 10"),
        ("slot in 3", "expected '(' at character 9"),
        ("slot in (3", "expected ',' or ')' at character 11, found the end"),
        ("slot between 1 or 2", "expected 'and' and the upper end at character 16"),
        ("slot not 3", "expected in or between at character 10"),
        ("slot is 3", "expected null, nan, not null or not nan at character 9"),
        ("slot 3", "expected a comparison (=, !=, <, <=, >, >=), in, between or is"),
        ("3", "expected a comparison (=, !=, <, <=, >, >=) at character 2"),
        ("3 = 3", "expected a column at character 5"),
        ("1 < slot < 3", "expected 'and', 'or' or the end at character 10"),
        ("(slot = 1", "expected 'and', 'or' or ')' at character 10"),
        ("slot = 1)", "expected 'and', 'or' or the end at character 9"),
        ("slot = 'feed", "expected a closing ' for the one at character 8"),
        ("slot; drop", "character 5. Names of other signs"),
        ("in = 3", 'stands in double quotes: "in"'),
        ("slot = 3 " * 50, "expected 'and', 'or' or the end at character 10"),
        ("(" * 9999, "at most 50 nested parentheses and nots"),
        ("not " * 9999, "at most 50 nested parentheses and nots"),
        ("slot = 'x'", "column 'slot' is int64, and 'x' is not a value of that type"),
        ("slot = 2.5", "2.5 is not a value of that type (it is not a whole number)"),
        ("slot < 9223372036854775808", "9223372036854775808 is not a value"),
        ("slot < 1e999999999", "1e999999999 is not a value of that type (it is out of range)"),
        ("slot = true", "true is not a value of that type"),
        ("slot < 1e9999999999999999999", "is not a value of that type (it is out of range)"),
        ("pctr < 1e999", "out of range"),
        ("pctr = 9007199254740993", "lies between two values"),
        ("pctr = 'nan'", "it is not a number"),
        ("c = 3", "'c' is string, and 3 is not a value of that type. Write '3' in single quotes"),
        ("c <= 3", "Write '3' in single quotes, which compares text: '10' is less than '9'."),
        (f"slot = '{'x' * 60}'", f"and '{'x' * 59}... is not a value of that type"),
        ("b = 2", "'b' is bool, and 2 is not a value of that type (it is true or false)"),
        ("d = 'today'", "'d' is date32[day], and 'today' is not a value"),
        ("t = '2026-11-19'", "Write it like '2026-11-19T08:30:00Z'"),
        ("l = 3", "'l' is list<item: int64>, and 3 is not a value"),
        (3, "where: must be text or a pyarrow.compute.Expression, got int"),
        (pc.field("slot"), "where: must be a condition, got slot, which is int64"),
        (pc.field("c") < 3, "no kernel matching"),
        (pc.field(0) == 1, "must use column names, not indices"),
    ],
)  # fmt: skip
def test_condition__wrong__is_refused_in_one_line(where: Any, said: str) -> None:
    table = pa.table({
        "slot": [1], "pctr": [0.5], "c": ["x"], "b": [True], "d": [date(2026, 1, 1)],
        "t": pa.array([0], pa.timestamp("us", "UTC")), "l": [[1]],
    })  # fmt: skip
    with pytest.raises(ArgumentError) as caught:
        open_source(table, where=where)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("where", ["slt = 3", pc.field("slt") == 3])
def test_column__missing__is_refused_with_the_nearest(where: Any) -> None:
    with pytest.raises(ColumnError, match=r"where: no column 'slt'. Did you mean 'slot'\?"):
        fe.evaluate(LOG, where=where, **COLUMNS)


def test_column__twice__is_refused() -> None:
    table = pa.table([[1], [2]], names=["x", "x"])
    with pytest.raises(ColumnError, match="'x' occurs 2 times"):
        open_source(table, where="x = 1")


# ---- expressions of pyarrow ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "where,rows",
    [
        (pc.field("slot") < 3, [0, 1]),
        (~(pc.field("slot") < 3), [3]),
        (pc.field("slot").is_null() | (pc.field("c") == "a"), [0, 2]),
        (pc.starts_with(pc.field("c"), "a"), [0, 3]),
        (pc.field("slot") == pc.field("row") + 1, [0, 1]),
        (pc.field("f") != 1.0, [2]),
        (pc.scalar(True), [0, 1, 2, 3]),
    ],
)
def test_expression__selects_the_same_rows_of_every_source(
    tmp_path: Path, where: pc.Expression, rows: list[int]
) -> None:
    table = pa.table({
        "row": range(4), "slot": [1, 2, None, 7], "c": ["a", "b", None, "ab"],
        "f": [1.0, None, float("nan"), 1.0], "rows": [0] * 4,
    })  # fmt: skip
    assert selected(table, where) == rows
    assert selected(ds.dataset(table), where) == rows
    for size in (1, 2, 4):
        pq.write_table(table, tmp_path / "x.parquet", row_group_size=size)
        assert selected(tmp_path / "x.parquet", where) == rows
        assert selected(ds.dataset(tmp_path / "x.parquet"), where) == rows


def test_expression__over_many_rows__keeps_their_order() -> None:
    table = pa.table({"row": range(300_000)})
    assert selected(table, pc.field("row") >= 1000) == list(range(1000, 300_000))


def test_expression__that_fails_on_a_row__is_an_error() -> None:
    where = pc.divide(pc.field("row"), pc.field("row")) == 1
    with pytest.raises(ArgumentError, match="divide by zero"):
        selected(pa.table({"row": [1, 0]}), where)


# ---- in an evaluation ----------------------------------------------------------------------------


def bits(result: fe.Result) -> list[str]:
    return [value.value.hex() for value in result]


def test_evaluate__equals_the_evaluation_of_the_rows_alone() -> None:
    table = pa.table(LOG)
    alone = fe.evaluate(table.filter(pc.field("slot") == 1), **COLUMNS)
    result = fe.evaluate(table, where="slot = 1", **COLUMNS)
    assert bits(result) == bits(alone)
    assert result.per_group.equals(alone.per_group)
    assert result.meta.rows == 5
    assert result.meta.conventions["where"] == "slot = 1"
    assert "where=slot = 1" in repr(result)
    assert '"where": "slot = 1"' in result.to_json()
    assert "where" not in alone.meta.conventions


def test_evaluate__nothing_selected__is_as_of_an_empty_input() -> None:
    result = fe.evaluate(LOG, where="slot = 99", **COLUMNS)
    empty = fe.evaluate(pa.table(LOG).slice(0, 0), **COLUMNS)
    assert (result.meta.rows, result.meta.groups) == (0, 0)
    assert bits(result) == bits(empty)
    assert result.per_group.equals(empty.per_group)


def test_limit__counts_selected_rows() -> None:
    result = fe.evaluate(LOG, where="slot = 1", limit=4, **COLUMNS)
    assert result.meta.rows == 4
    assert result.meta.groups == 3


def test_bad_value__outside_of_the_selection__is_no_fault() -> None:
    log = LOG | {"click": [0, 1, 1, None, 0, 1, 0]}
    assert fe.evaluate(log, where="slot = 1", **COLUMNS).meta.rows == 5


def test_bad_value__is_numbered_among_the_selected_rows(tmp_path: Path) -> None:
    log = LOG | {"click": [0, 1, 1, 0, 0, 1, None]}
    of_all = r"in 1 row\(s\), first in row 4 \(counted from 0\)"
    with pytest.raises(ColumnError, match=of_all + ".* It is row 4 of the rows that where selects"):
        fe.evaluate(log, where="slot = 1", **COLUMNS)
    pq.write_table(pa.table(log), tmp_path / "1.parquet")
    with pytest.raises(ColumnError, match=r"It is row 4 of the rows that where selects\."):
        fe.evaluate(tmp_path / "1.parquet", where="slot = 1", **COLUMNS)
    pq.write_table(pa.table(LOG), tmp_path / "0.parquet")
    with pytest.raises(
        ColumnError,
        match=r"row 9 \(.* It is row 4 of the rows that where selects in '.*1\.parquet'",
    ):
        fe.evaluate(tmp_path, where="slot = 1", order="scattered", **COLUMNS)


def test_reader__is_still_read_only_once() -> None:
    table = pa.table({"row": [0, 1]})
    source = open_source(table.to_reader(), where="row = 1")
    assert source.rows is None
    assert not source.rereadable
    assert sum(batch.num_rows for batch in source.batches(["row"])) == 1
    with pytest.raises(fe.SourceError, match="only once"):
        source.batches(["row"])


def test_source__with_a_condition__reads_columns_as_text_if_its_file_can(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("row,slot\n007,1\n7,1\n8,2\n")
    for source, rows in (
        (tmp_path / "x.csv", ["007", "7"]),
        (pa.table({"row": [7, 7, 8], "slot": [1, 1, 2]}), [7, 7]),
    ):
        opened = open_source(open_source(source, where="slot = 1"), text=["row"])
        assert pa.Table.from_batches(opened.batches(["row"]))["row"].to_pylist() == rows


def test_conditions__do_not_change() -> None:
    predicate = parse("slot = 3")
    assert isinstance(predicate, Predicate)
    selection = condition_of("slot = 3").select(pa.schema([("slot", pa.int64())]))
    for value, name in (
        (predicate, "column"),
        (predicate.literals[0], "value"),
        (selection, "columns"),
        (condition_of("slot = 3"), "condition"),
    ):
        with pytest.raises(AttributeError):
            setattr(value, name, None)
