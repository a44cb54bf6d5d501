"""Columns of CSV that tell rows apart are text: no two texts become one number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError, SourceError
from tests.support.transcripts import answers

ASKED: dict[str, Any] = {
    "group": "user", "label": "click", "score": "pctr", "measures": "GAUC", "threads": 1
}  # fmt: skip
BEYOND = ["12345678901234567890", "12345678901234567891"]
TEXTS = [
    ["007", "7"], ["16", "0x10"], [" 7", "7"], ["true", "1"], ["0", "-0"], BEYOND, ["1.5", "1.50"],
    ["0.1", "0.10000000000000000001"], ["2026-11-19", "2026-11-19 00:00:00"], ["10", "2"],
]  # fmt: skip


def write(path: Path, values: list[str], name: str = "z") -> Path:
    lines = [f"user,{name},click,pctr"]
    for user, value in enumerate(values):
        lines += [f"{user},{value},1,0.5", f"{user},{value},0,0.25"]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def slices(source: object, by: Any = "z", **options: Any) -> list[str]:
    result = fe.evaluate(source, **{**ASKED, **options}, by=by)
    return [value.slice.replace('"', "") for value in result.values if value.by]


@pytest.mark.parametrize("texts", TEXTS)
def test_slices__keep_texts_apart(tmp_path: Path, texts: list[str]) -> None:
    path = write(tmp_path / "x.csv", texts)
    expected = sorted(f"z={text}" for text in texts)
    assert slices(path) == slices(fe.open_source(path)) == expected
    assert slices(path, where=f"not z != '{texts[1]}'") == [f"z={texts[1]}"]
    paths = [str(write(tmp_path / f"{k}.csv", [text])) for k, text in enumerate(texts)]
    assert slices(paths) == expected
    asked = {**ASKED, "measures": "FieldRCE(field='z')"}
    other = write(tmp_path / "y.csv", ["de", "fr"])
    apart, same = (fe.evaluate(each, **asked).values[0].details for each in (path, other))
    assert apart == same


def test_where__compares_text_as_it_is_written__and_numbers_by_value(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", ["7", "007", "12"])
    assert slices(path, where="z = '7'") == ["z=7"]
    for where, rows in (("z = 7", 4), ("z in ('007', 8)", 4), ("z = '7'", 2), ("z = '007'", 2)):
        assert fe.evaluate(path, **ASKED, where=where).meta.rows == rows
    labels = fe.evaluate(path, **ASKED, where="click = '1' or pctr = '0.25'")
    assert labels.meta.rows == 6
    with pytest.raises(ArgumentError, match=r"'z' is string, and 7 is not .* Write '7' in single"):
        slices(path, where="z = 7")
    as_text = fe.open_source(path, text="z", where="z in ('7', '12')")
    assert fe.evaluate(as_text, **ASKED).meta.rows == 4


def test_slices__of_a_column_that_is_also_a_number__have_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", ["07", "7", "12"])
    assert slices(path) == ["z=07", "z=12", "z=7"]
    assert slices(path, by=["z", "z:10"])[:2] == ["z=7", "z=12"]
    for score in ("z", {"m": "z + pctr"}):
        assert slices(path, score=score) == ["z=7", "z=12"]


def test_classes__are_text_where_scores_name_them(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("kind,a,b\n007,0.9,0.1\n7,0.8,0.2\n7,0.3,0.7\n")
    asked: dict[str, Any] = {"label": "kind", "measures": "Accuracy,TPR"}
    result = fe.evaluate_classes(path, scores={"007": "a", "7": "b"}, **asked)
    assert (result.value("Accuracy"), list(result["TPR"])) == (2 / 3, [1.0, 0.5])
    path.write_text("kind,a,b\n0,0.9,0.1\n1,0.8,0.2\n1,0.3,0.7\n")
    for scores in (["a", "b"], {0: "a", 1: "b"}, {"0": "a", "1": "b"}):
        assert fe.evaluate_classes(path, scores=scores, **asked).value("Accuracy") == 2 / 3


def test_text__does_not_join_the_numbers_of_other_files(tmp_path: Path) -> None:
    paths = [str(write(tmp_path / "x.csv", ["7"])), str(tmp_path / "y.parquet")]
    pq.write_table(pa.table({"user": ["a"], "z": [7], "click": [1], "pctr": [0.5]}), paths[1])
    with pytest.raises(SourceError, match=r"'z' is int64 in .*: cast the integers to string"):
        slices(paths)
    assert fe.evaluate(paths, **ASKED, where="z = 7").meta.rows == 3


test_answers = answers(globals())
