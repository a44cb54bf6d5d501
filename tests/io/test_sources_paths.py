"""Paths, folders, globs, lists and URIs stand for the right files in the right order."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fastrank_eval._lib.errors import SourceError
from fastrank_eval.io.reader import open_source
from tests.support.source_files import COLUMNS, TABLE, failure, read, write_file, write_parquet
from tests.support.transcripts import answers

pytestmark = pytest.mark.no_kernels


def test_uri__file_scheme(tmp_path: Path) -> None:
    for number in (10, 2):
        write_parquet(tmp_path / f"day={number}" / "x.parquet", [number])
    base = tmp_path.as_uri()
    assert read(open_source(f"{base}/day=2/x.parquet"), "x") == {"x": [2]}
    assert read(open_source(base), "x", "day") == {"x": [2, 10], "day": [2, 10]}
    assert read(open_source(f"{base}/day=*/*.parquet"), "x") == {"x": [2, 10]}


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
    [
        ([], "list of paths is empty"),
        (["part-9.parquet", TABLE], "has a pyarrow.Table"),
        ([""], "path is empty"),
    ],
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


def test_hive__key_that_some_files_lack(tmp_path: Path) -> None:
    write_parquet(tmp_path / "day=1" / "a.parquet", [1])
    write_parquet(tmp_path / "loose.parquet", [2])
    source = open_source(tmp_path)
    assert read(source, "x") == {"x": [1, 2]}
    with pytest.raises(SourceError, match=r"'day' is missing in .*loose\.parquet"):
        source.batches(["day"])


def test_glob__without_match(tmp_path: Path) -> None:
    for pattern in ("*.parquet", "nowhere/**/*.parquet", "day=[0-9]/x"):
        assert "No file matches" in failure(f"{tmp_path}/{pattern}")


def test_pipe__points_to_standard_input(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "Use '-'" in failure(tmp_path / "pipe")


test_answers = answers(globals())
