"""Columns of CSV that tell rows apart by value: no two texts become one number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, MergeError, SourceError

ASKED: dict[str, Any] = {
    "group": "user", "label": "click", "score": "pctr", "measures": "GAUC", "threads": 1
}  # fmt: skip
SPELLINGS = [["007", "7"], ["1", "1.0"], ["16", "0x10"], [" 7", "7"], ["true", "1"], ["0", "-0"]]
BEYOND = ["12345678901234567890", "12345678901234567891"]
SPELLINGS += [BEYOND, ["1.5", "1.50"], ["true", "True"], ["0.1", "0.10000000000000000001"]]


def write(path: Path, values: list[str], name: str = "z") -> Path:
    lines = [f"user,{name},click,pctr"]
    for user, value in enumerate(values):
        lines += [f"{user},{value},1,0.5", f"{user},{value},0,0.25"]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def slices(source: object, by: str = "z", **options: Any) -> list[str]:
    result = fe.evaluate(source, **{**ASKED, **options}, by=by)
    return [value.slice.replace('"', "") for value in result.values if value.by]


@pytest.mark.parametrize("texts", SPELLINGS)
def test_slices_and_where__keep_texts_apart(tmp_path: Path, texts: list[str]) -> None:
    path = write(tmp_path / "x.csv", texts)
    assert sorted(slices(path)) == sorted(f"z={text}" for text in texts)
    assert sorted(slices(fe.open_source(path))) == sorted(f"z={text}" for text in texts)
    for source in (path, fe.open_source(path), fe.open_source(path, where="pctr > 0")):
        assert fe.evaluate(source, **ASKED, where=f"z = '{texts[0]}'").meta.rows == 2
        assert fe.evaluate(source, **ASKED, where=f"z in ('{texts[1]}')").meta.rows == 2
        assert fe.evaluate(source, **ASKED, where=f"not z != '{texts[1]}'").meta.rows == 2


@pytest.mark.parametrize("texts", [["7", "007"], ["1", "1.0"], ["1", "true"], ["true", "TRUE"]])
def test_slices__of_two_files__keep_texts_apart(tmp_path: Path, texts: list[str]) -> None:
    paths = [str(write(tmp_path / f"{k}.csv", [text])) for k, text in enumerate(texts)]
    assert sorted(slices(paths)) == sorted(f"z={text}" for text in texts)


def test_numbers_in_one_way__stay_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", ["10", "2", "-3"])
    assert slices(path) == ["z=-3", "z=2", "z=10"]
    assert slices(path, where="z > 0 and z in ('2', '10')") == ["z=2", "z=10"]
    assert slices(path, ["z", "z:0"]) == ["z=-3", "z=2", "z=10", "z<0", "z>=0"]
    assert slices(write(tmp_path / "y.csv", ["10.0", "2.5", ""])) == ["z=2.5", "z=10", "z=null"]
    assert slices(write(tmp_path / "y.csv", ["True", "False"])) == ["z=false", "z=true"]
    both = [str(path), str(write(tmp_path / "z.csv", ["0.5"]))]
    assert slices(both) == ["z=-3", "z=0.5", "z=2", "z=10"]
    pq.write_table(pa.table({"user": ["a"], "z": [2], "click": [1], "pctr": [0.5]}), tmp_path / "p")
    (tmp_path / "p").rename(tmp_path / "p.parquet")
    assert slices([str(path), str(tmp_path / "p.parquet")]) == ["z=-3", "z=2", "z=10"]


def test_numbers__in_another_way_beyond_the_first_lines__are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", ["7"] * 300_000 + ["007"])
    said = (
        r"x.csv': column 'z' must hold numbers written like those of the lines before .* got '007'"
    )
    with pytest.raises(SourceError, match=said):
        slices(path)
    with pytest.raises(SourceError, match=said):
        fe.evaluate(path, **ASKED, where="z = '7'")


def test_where__with_a_text_that_no_number_has__is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", ["7", "8"])
    said = "where: must compare column 'z' with numbers .*got the text '007'; leave out the quotes"
    for where in ("z = '007'", "not (z in ('7', '007'))", "click = 1 or z != '007'"):
        with pytest.raises(ArgumentError, match=said):
            fe.evaluate(path, **ASKED, where=where)
        with pytest.raises(ArgumentError, match=said):
            fe.evaluate(fe.open_source(path), **ASKED, where=where)


def test_classes__keep_texts_apart(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("kind,a,b\n007,0.9,0.1\n7,0.8,0.2\n7,0.3,0.7\n")
    asked: dict[str, Any] = {"label": "kind", "measures": "Accuracy,TPR"}
    result = fe.evaluate_classes(path, scores={"007": "a", "7": "b"}, **asked)
    assert (result.value("Accuracy"), list(result["TPR"])) == (2 / 3, [1.0, 0.5])
    path.write_text("kind,a,b\n0,0.9,0.1\n1,0.8,0.2\n1,0.3,0.7\n")
    assert fe.evaluate_classes(path, scores=["a", "b"], **asked).value("Accuracy") == 2 / 3


def test_fields__keep_texts_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", ["007", "7"])
    asked = {**ASKED, "measures": "FieldRCE(field='z')"}
    apart = fe.evaluate(path, **asked).values[0].details
    same = fe.evaluate(write(tmp_path / "y.csv", ["7", "8"]), **asked).values[0].details
    assert apart == same


NUMBERS: dict[str, dict[str, Any]] = {
    "label": {"label": "z"},
    "score": {"score": "z"},
    "weight": {"weight": "z"},
    "group weight": {"measures": "GAUC(weight='z')"},
    "by 'z:0.5'": {"by": "z:0.5"},
    "by 'z:quantile2'": {"by": "z:quantile2"},
    "by 'z:width2'": {"by": "z:width2"},
}
APART: dict[str, dict[str, Any]] = {
    "group": {"group": "z"},
    "item": {"item": "z"},
    "slice": {"by": "z"},
    "field": {"measures": "FieldRCE(field='z')"},
    "where": {"where": "z != '9'"},
}


def both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Two requests as one; what both name is asked for together."""
    joined = {name: [one[name], other[name]] for name in one.keys() & other.keys()}
    return {**ASKED, **one, **other, **joined}


@pytest.mark.parametrize("apart", APART)
@pytest.mark.parametrize("number", NUMBERS)
def test_one_column_in_two_parts__works_or_names_the_remedy(
    tmp_path: Path, apart: str, number: str
) -> None:
    asked = both(NUMBERS[number], APART[apart])
    said = rf"^{number}: must be a column of numbers, got 'z', .*; write the numbers to a column"
    with pytest.raises(FastRankEvalError, match=said):
        fe.evaluate(write(tmp_path / "x.csv", ["01", "1"]), **asked)
    plain = write(tmp_path / "y.csv", ["0", "1"])
    if apart in ("group", "item"):
        with pytest.raises(FastRankEvalError, match=said):
            fe.evaluate(plain, **asked)
    else:
        assert fe.evaluate(plain, **asked).meta.rows == 4


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("metadata", [{"ways": "x"}, {b"ways": b"\xff"}, {"inferred": "y"}])
def test_metadata_of_other_files__says_nothing(
    tmp_path: Path, metadata: dict[Any, Any], ending: str
) -> None:
    ours = pa.field("z", pa.int64(), metadata=metadata)
    schema = pa.schema([("user", "string"), ours, ("click", "int64"), ("pctr", "float64")])
    table = pa.table({"user": ["a"], "z": [2], "click": [1], "pctr": [0.5]}, schema=schema)
    path = tmp_path / f"x.{ending}"
    if ending == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, schema) as file:
            file.write_table(table)
    assert fe.evaluate(path, **{**ASKED, "score": "z"}, by="z").meta.rows == 1
    log = str(write(tmp_path / "x.csv", ["10", "-3"]))
    assert slices([log, str(path)]) == ["z=-3", "z=2", "z=10"]


def test_whole_numbers_beyond_int64__are_text_over_all_files(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", BEYOND)
    other = write(tmp_path / "y.csv", ["9007199254740992", "9007199254740993"])
    everything = [f"z={text}" for text in [*BEYOND, "9007199254740992", "9007199254740993"]]
    assert sorted(slices([str(path), str(other)])) == everything
    assert sorted(slices(other)) == everything[2:]
    user = {"user": ["a"], "z": [0.5], "click": [1], "pctr": [0.5]}
    pq.write_table(pa.table(user), tmp_path / "z.parquet")
    with pytest.raises(SourceError, match=r"Column 'z' is double in .* Write the files with one"):
        slices([str(other), str(tmp_path / "z.parquet")])


def test_numbers_with_the_same_count_of_decimals__stay_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", ["0.10", "0.25", "-0.50", "0.00", "10.00"])
    assert slices(path, where="z < 9 and z != '0.25'") == ["z=-0.5", "z=0", "z=0.1"]
    assert slices(path, ["z:0.2"]) == ["z<0.2", "z>=0.2"]
    for other in ("-0.00", "0.5", "0.500", "7"):
        texts = ["0.10", "0.00", "0.50", "7.00", other]
        assert f"z={other}" in slices(write(tmp_path / "y.csv", texts))


@pytest.mark.parametrize("late", ["0.50", "0.125"])
def test_decimals_beyond_the_first_lines__are_of_one_way(tmp_path: Path, late: str) -> None:
    path = write(tmp_path / "x.csv", ["0.25"] * 150_000 + [late])
    assert path.stat().st_size > 5 << 20  # types come from the first 4 MiB
    assert sorted(slices(path)) == sorted([f"z={float(late)}", "z=0.25"])
    other = write(tmp_path / "y.csv", ["0.25"] * 150_000 + ["0.5"])
    for source in ([str(path), str(other)], [str(other), str(path)]):
        if late == "0.125":
            assert sorted(slices(source)) == ["z=0.125", "z=0.25", "z=0.5"]
        else:
            with pytest.raises(
                SourceError, match=r"lines before .*0[.]5.*0[.]5 or 0[.]50, not both"
            ):
                slices(source)
    with pytest.raises(ArgumentError, match=r"got the text '0[.]5'; leave out the quotes"):
        fe.evaluate(path, **ASKED, where="z = '0.5'")
    assert fe.evaluate(path, **ASKED, where="z != '0.25'").meta.rows == 2


def test_merge__of_numbers_and_text__names_a_remedy_that_helps(tmp_path: Path) -> None:
    paths = [write(tmp_path / "x.csv", ["7"]), write(tmp_path / "y.csv", ["007", "7"])]
    for part in ({"measures": "FieldRCE(field='z')"}, {"by": "z"}):
        asked: dict[str, Any] = {**ASKED, **part}
        one, other = (fe.evaluate(path, **asked, keep="state").state for path in paths)
        with pytest.raises(MergeError, match="; evaluate the files together, or write them as Par"):
            one.merge(other)
    assert slices([str(path) for path in paths]) == ["z=007", "z=7"]
