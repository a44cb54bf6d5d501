"""Group and item columns of CSV and TSV files are text, exactly as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastrank_eval as fe
from fastrank_eval.trec import read_run
from tests.support.transcripts import answers

USERS = ["007", "7", " 7", "7.0", "1", "true", "0x10", "16", "TRUE", "1e1", "10", "2026-11-19"]
ASKED: dict[str, Any] = {
    "group": "user", "label": "click", "score": "pctr", "measures": "GAUC", "threads": 1
}  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two rows of each user."""
    return write(tmp_path / "log.csv", USERS)


def write(path: Path, users: list[str], between: str = ",") -> Path:
    lines = [["user", "click", "pctr"]]
    for user in users:
        lines += [[user, "1", "0.5"], [user, "0", "0.25"]]
    path.write_text("".join(between.join(line) + "\n" for line in lines))
    return path


def numbered(path: Path) -> Path:
    """A Parquet file of users that are integers."""
    pq.write_table(pa.table({"user": [7, 7], "click": [1, 0], "pctr": [0.5, 0.25]}), path)
    return path


def users_of(source: object, **options: Any) -> list[Any]:
    return fe.evaluate(source, **{**ASKED, **options}).per_group.column("user").to_pylist()


@pytest.mark.parametrize("users", [USERS, ["007", "7"], ["1", "true"], ["16", "0x10"]])
def test_groups__differ_where_their_text_does(tmp_path: Path, users: list[str]) -> None:
    for name, between in (("x.csv", ","), ("x.tsv", "\t")):
        path = write(tmp_path / name, users, between)
        assert users_of(path) == users
        assert users_of(fe.open_source(path)) == users
        assert users_of(fe.open_source(path, where="click >= 0"), where="pctr > 0") == users


def test_groups__of_several_columns__are_all_text(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("user,day,click,pctr\n1,01,1,0.5\n1,1,0,0.5\n01,1,0,0.5\n")
    table = fe.evaluate(path, **{**ASKED, "group": ["user", "day"]}).per_group
    assert table.select(["user", "day"]).to_pydict() == {
        "user": ["1", "1", "01"], "day": ["01", "1", "1"]
    }  # fmt: skip


def test_groups__are_the_same_wherever_the_text_is_cut(tmp_path: Path) -> None:
    # Beyond the sample that types come from, and over several blocks of the reader.
    users = [f"{i:06d}" for i in range(170_000)] + ["x7", "07"]
    path = write(tmp_path / "x.csv", users)
    assert path.stat().st_size > 4 << 20
    assert users_of(path) == users


def test_items__tie_in_the_order_of_their_text(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("user,item,click,pctr\n1,9,1,0.5\n1,10,0,0.5\n")
    result = fe.evaluate(path, **{**ASKED, "measures": "RR"}, item="item", ties="item")
    assert result.value("RR") == 1.0  # '9' stands before '10' in descending order of text


def test_trec__ids_of_csv_files_are_text(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("query,doc,score\n007,1,0.5\n7,01,0.5\n")
    table = read_run(path, format="csv")
    assert table.column("query").to_pylist() == ["007", "7"]
    assert table.column("doc").to_pylist() == ["1", "01"]


test_answers = answers(globals())
