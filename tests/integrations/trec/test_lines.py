"""TREC runs and qrels as tables: what lines say, in any dress, and what is wrong with them."""

import gzip
import io
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrank_eval import SourceError
from fastrank_eval.integrations.trec import lines as reader
from fastrank_eval.trec import read_qrels, read_run
from tests.support.transcripts import Case, cases

pytestmark = pytest.mark.kernels

LINE = b"1 Q0 a 1 2.5 t\n"
LONG = "d" * 10**5
RUN = {"query": ["1", "1"], "doc": ["a", "b"], "score": [2.5, 1.0]}


def rows(table: pa.Table) -> list[tuple]:
    return list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


def read_plainly(text: bytes) -> list[tuple[str, str, float, str]]:
    """The oracle: Python's own splitting and numbers."""
    found = []
    for line in text.decode("utf-8-sig").split("\n"):
        fields = line.encode().split()  # str.split() splits at Unicode's blanks too
        if fields and not fields[0].startswith(b"#"):
            query, _, doc, _, score, tag, *_ = (field.decode() for field in fields)
            found.append((query, doc, float(score), tag))
    return found


def in_blocks(size: int, read: Callable[..., pa.Table], source: Any) -> pa.Table:
    """Read a source in blocks of some bytes."""
    with mock.patch.object(reader, "_BLOCK", size):
        return read(source)


def of_bad_run(line: bytes) -> pa.Table:
    """Read a run whose 121st line is wrong, in blocks of any size."""
    good = b"".join(b"7 Q0 d%d 1 1.5 t\n# note\n\n" % i for i in range(40))
    Path("a.run").write_bytes(good + line + b"\n" + b"bad too\n" + LINE)
    told = set()
    for size in (20, 1 << 22):
        with pytest.raises(SourceError) as refused:
            in_blocks(size, read_run, "a.run")
        told.add(str(refused.value))
    assert len(told) == 1
    return read_run("a.run")


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("case", cases("trec_lines"), ids=lambda case: ascii(str(case)))
def test_lines_and_columns__are_read_or_refused(case: Case) -> None:
    case.check(case.answer({**globals(), "np": np, "pl": pl}))


# ---- text ----------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_qrels__more_lines_than_usual__are_all_read():
    lines = [f"1 0 {doc} 1" for doc in range(10_000)]
    assert read_qrels("\n".join(lines).encode())["doc"].to_pylist() == [
        line.split()[2] for line in lines
    ]
    lines[9_000] = "1 0 x 0.5 y"
    with pytest.raises(SourceError, match=r"line 9,001: 5 fields .*'1 0 x 0.5 y'"):
        read_qrels("\n".join(lines).encode())
    lines[9_000] = "1 0 x 5e-1"
    assert read_qrels("\n".join(lines).encode())["grade"][9_000].as_py() == 0.5


@pytest.mark.parametrize(
    "score",
    ["0.1", "1e-5", "+1.5", "-0.0", "5.", ".5", "1E+5", "17.30000000000000071", "1e400", "-1e400",
     "4.9e-324", "2.4703282292062327208e-324", "9007199254740993", "123456789012345678901234567890",
     "inf", "-Infinity", "+INF", "0.1000000000000000055511151231257827021181583404541015625"],
)  # fmt: skip
def test_run__scores__are_correctly_rounded(score):
    found = read_run(f"1 Q0 a 1 {score} t\n".encode())["score"][0].as_py()
    assert (found, math.copysign(1, found)) == (float(score), math.copysign(1, float(score)))


ID = st.text(
    st.characters(codec="utf-8", exclude_characters="\t\n\v\f\r "), min_size=1, max_size=12
).filter(lambda text: not text.startswith(("#", "\ufeff")))
SCORE = st.floats(allow_nan=False) | st.integers(-(10**20), 10**20)
GAP = st.text(" \t\v\f\r", min_size=1, max_size=3)
FILLER = st.sampled_from(["", " \t", "#", "# 1 Q0 a 1 1 t", "\r"])


@pytest.mark.compiled
@given(data=st.data())
def test_run__of_any_table_in_any_dress__reads_back(data):
    keys = data.draw(st.lists(st.tuples(ID, ID), max_size=12, unique=True))
    table = [(*key, data.draw(SCORE), data.draw(ID)) for key in keys]
    lines = []
    for query, doc, score, tag in table:
        lines += [data.draw(FILLER) for _ in range(data.draw(st.integers(0, 2)))]
        ignored = data.draw(ID), data.draw(ID)
        fields = [query, ignored[0], doc, ignored[1], repr(score), tag]
        gaps = [data.draw(GAP) for _ in range(5)]
        lead, trail = (data.draw(st.sampled_from(["", " ", "\t "])) for _ in range(2))
        joined = "".join(field + gap for field, gap in zip(fields, [*gaps, ""], strict=True))
        lines.append(lead + joined + trail)
    ends = data.draw(st.sampled_from(["\n", "\r\n"]))
    text = ends.join(lines) + data.draw(st.sampled_from(["", ends]))
    content = text.encode()
    expected = [(query, doc, float(score), tag) for query, doc, score, tag in table]
    assert read_plainly(content) == expected
    sent = gzip.compress(content) if data.draw(st.booleans()) else content
    with mock.patch.object(reader, "_BLOCK", data.draw(st.sampled_from([1, 7, 40, 1 << 22]))):
        assert rows(read_run(sent)) == expected


# ---- where it comes from -------------------------------------------------------------------------


def test_files__of_any_suffix_gzipped_or_not__are_one_run(tmp_path):
    (tmp_path / "a.tsv").write_bytes(LINE)
    (tmp_path / "b.txt").write_bytes(gzip.compress(LINE.replace(b" a ", b" b ")))
    members = [gzip.compress(LINE.replace(b" a ", doc)) for doc in (b" c ", b" d ")]
    (tmp_path / "c.run.gz").write_bytes(b"".join(members))
    both = [tmp_path / "b.txt", str(tmp_path / "a.tsv")]
    assert read_run(tmp_path / "a.tsv")["doc"].to_pylist() == ["a"]
    assert read_run(both)["doc"].to_pylist() == ["b", "a"]
    assert read_run(f"{tmp_path}/*")["doc"].to_pylist() == ["a", "b", "c", "d"]
    assert read_run(tmp_path).num_rows == 4


def test_open_file__of_text__is_read_and_stays_open(tmp_path):
    (tmp_path / "a.run").write_bytes(LINE + LINE.replace(b" a ", b" b "))
    with (tmp_path / "a.run").open(encoding="utf-8") as handle:
        handle.readline()
        assert rows(read_run(handle)) == [("1", "b", 2.5, "t")]
        assert not handle.closed


def test_standard_input__is_read(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINE)))
    assert rows(read_run("-")) == [("1", "a", 2.5, "t")]


# ---- what is wrong -------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.sampled_from("12"), st.sampled_from("abc"), st.integers(0, 3)), max_size=12
    ),
    st.sampled_from(["first", "last", "max"]),
)
def test_duplicates__first_last_or_max__is_kept_in_its_place(found, policy):
    kept: dict[tuple[str, str], int] = {}
    for row, (query, doc, score) in enumerate(found):
        before = kept.get((query, doc))
        better = policy == "last" or (
            policy == "max" and before is not None and score > found[before][2]
        )
        if before is None or better:
            kept[query, doc] = row
    text = "".join(f"{query} Q0 {doc} 1 {score} t\n" for query, doc, score in found)
    table = read_run(text.encode(), duplicates=policy).select(["query", "doc", "score"])
    assert rows(table) == [found[row] for row in sorted(kept.values())]


def test_gzip__cut_short_or_damaged__is_an_error(tmp_path):
    whole = gzip.compress(b"".join(b"1 Q0 d%d 1 %d t\n" % (i, i * i) for i in range(5000)))
    damaged = bytearray(whole)
    damaged[2000:2010] = b"\xff" * 10
    for content in (whole[:-20], bytes(damaged)):
        path = tmp_path / "a.run.gz"
        path.write_bytes(content)
        with pytest.raises(SourceError, match=r"a\.run\.gz"):
            read_run(path)


# ---- real files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_trec_eval_files__are_what_plain_reading_finds(shared_data: Path, tmp_path, packed):
    content = (shared_data / "trec_eval" / "results.test").read_bytes()
    path = tmp_path / "results"
    path.write_bytes(gzip.compress(content) if packed else content)
    table = read_run(path)
    assert rows(table) == read_plainly(content)
    same = pq.read_table(shared_data / "trec_eval" / "trec_eval_results_test.run.parquet")
    assert rows(read_run(same)) == rows(table.select(["query", "doc", "score"]))


@pytest.mark.compiled
def test_split_fields__on_unaligned_windows__runs_an_entry_point_of_ours() -> None:
    read_run(b"q1 Q0 d1 1 2.5 tag\n")
    assert reader.split_fields._entries, "each process would compile it with Numba"
