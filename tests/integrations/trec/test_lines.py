"""TREC runs and qrels as tables: what lines say, in any dress, and what is wrong with them."""

import gzip
import io
import math
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrank_eval import ArgumentError, ColumnError, SourceError
from fastrank_eval.integrations.trec import lines as reader
from fastrank_eval.trec import read_qrels, read_run

pytestmark = pytest.mark.kernels

LINE = b"1 Q0 a 1 2.5 t\n"
RUN = {"query": ["1", "1"], "doc": ["a", "b"], "score": [2.5, 1.0]}
WIDE = {"query": pa.large_string(), "doc": pa.binary()}


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


# ---- text ----------------------------------------------------------------------------------------


def test_run__a_line__is_query_document_score_and_tag():
    table = read_run(b"301\tQ0\tFR94-1\t104\t  2.129133\tSTANDARD\n")
    assert rows(table) == [("301", "FR94-1", 2.129133, "STANDARD")]
    assert table.schema == pa.schema(
        {"query": pa.string(), "doc": pa.string(), "score": pa.float64(), "run": pa.string()}
    )


def test_qrels__integers__are_int64():
    table = read_qrels(b"1 0 a 2\n1 0 b -1\n2 0 a 0\n")
    assert rows(table) == [("1", "a", 2), ("1", "b", -1), ("2", "a", 0)]
    assert table.schema.field("grade").type == pa.int64()


@pytest.mark.parametrize("block", [16, 1 << 22])
def test_qrels__one_of_another_kind_than_integer__makes_all_float64(block):
    with mock.patch.object(reader, "_BLOCK", block):
        table = read_qrels(b"1 0 a 2\n1 0 b 0.5\n1 0 c 3\n1 0 d 9007199254740993\n")
    assert table["grade"].to_pylist() == [2.0, 0.5, 3.0, 9007199254740992.0]


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


def test_run__what_follows_the_tag__is_left_out():
    assert rows(read_run(b"1 Q0 a 1 2.5 my tag\n")) == [("1", "a", 2.5, "my")]


@pytest.mark.parametrize("text", [b"", b"\n\n", b"# nothing\n", gzip.compress(b"", mtime=0)])
def test_text__without_a_line__is_an_empty_table(text):
    assert read_run(text).num_rows == 0
    assert read_run(text).column_names == ["query", "doc", "score", "run"]
    assert read_qrels(text).schema.field("grade").type == pa.int64()


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
@settings(max_examples=150, deadline=None, derandomize=True)
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


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, io.BytesIO])
def test_bytes_and_open_files__are_read(wrap):
    assert rows(read_run(wrap(LINE))) == [("1", "a", 2.5, "t")]
    assert rows(read_run(wrap(gzip.compress(LINE)))) == [("1", "a", 2.5, "t")]


def test_open_file__of_text__is_read_and_stays_open(tmp_path):
    (tmp_path / "a.run").write_bytes(LINE + LINE.replace(b" a ", b" b "))
    with (tmp_path / "a.run").open(encoding="utf-8") as handle:
        handle.readline()
        assert rows(read_run(handle)) == [("1", "b", 2.5, "t")]
        assert not handle.closed


@pytest.mark.parametrize("block", [1, 2, 5, 1 << 20])
@pytest.mark.parametrize("wrap", [io.StringIO, lambda text: io.BytesIO(text.encode())])
def test_open_file__of_wide_characters__is_read(block, wrap):
    text = "\ufeffä Q0 漢字漢字 1 2.5 ü\nä Q0 ß 1 0.5 ü"
    with mock.patch.object(reader, "_BLOCK", block):
        found = rows(read_run(wrap(text)))
    assert found == [("ä", "漢字漢字", 2.5, "ü"), ("ä", "ß", 0.5, "ü")]


def test_standard_input__is_read(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINE)))
    assert rows(read_run("-")) == [("1", "a", 2.5, "t")]


@pytest.mark.parametrize(
    "source",
    [
        pa.table(RUN),
        pa.table({**RUN, "query": [1, 1]}),
        pa.table({**RUN, "score": pa.array([2.5, 1.0], pa.float32())}),
        pa.table(RUN).cast(pa.schema({**WIDE, "score": pa.float64()})),
        pa.table({**RUN, "doc": pa.array(["a", "b"]).dictionary_encode()}),
        pl.DataFrame(RUN),
        {name: np.array(values) for name, values in RUN.items()},
        {"1": {"a": 2.5, "b": 1}},
        {1: {"a": np.float32(2.5), "b": np.int8(1)}},
    ],
    ids=["table", "integers", "float32", "wide", "codes", "polars", "numpy", "dicts", "scalars"],
)
def test_columns_and_dicts__are_read_as_text_is(source):
    table = read_run(source)
    assert rows(table) == [("1", "a", 2.5), ("1", "b", 1.0)]
    assert [str(kind) for kind in table.schema.types] == ["string", "string", "double"]


def test_parquet_and_arrow_files__are_told_by_their_bytes(tmp_path):
    table = pa.table({**RUN, "run": ["t", "t"]})
    pq.write_table(table, tmp_path / "a.run")
    pyarrow.feather.write_feather(table, tmp_path / "a.qrels", compression="uncompressed")
    assert rows(read_run(tmp_path / "a.run")) == rows(table)
    assert rows(read_run(tmp_path / "a.qrels")) == rows(table)
    pq.write_table(table, tmp_path / "a.parquet")
    assert rows(read_run(tmp_path / "a.parquet")) == rows(table)


def test_csv__if_named__is_read(tmp_path):
    (tmp_path / "a.csv").write_text("qid,docid,sim\n1,a,2.5\n", encoding="utf-8")
    table = read_run(tmp_path / "a.csv", query="qid", doc="docid", score="sim", format="csv")
    assert rows(table) == [("1", "a", 2.5)]


def test_qrels__of_columns__keep_integers_and_floats():
    for kind, expected in [
        (pa.int8(), pa.int64()),
        (pa.bool_(), pa.int64()),
        (pa.float32(), pa.float64()),
    ]:
        values = pa.array([1, 0]).cast(kind)
        table = pa.table({"qid": [1, 1], "doc": ["a", "b"], "rel": values})
        found = read_qrels(table, query="qid", grade="rel")
        assert found.schema.field("grade").type == expected
        assert found["grade"].to_pylist() == [1, 0]
    assert read_qrels({"1": {"a": True}})["grade"].to_pylist() == [1]
    assert read_qrels({"1": {"a": 1}, "2": {"b": 0.5}})["grade"].to_pylist() == [1.0, 0.5]


# ---- what is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, says",
    [
        (b"1 Q0 a 1 2.5", "5 fields where run lines have 6"),
        (b"lonely", "1 field where"),
        (b"1 0 a 1", "it looks like judgements (read_qrels), which come before runs"),
        (b"1 Q0 a 1 2,5 t", "its score is no number: '1 Q0 a 1 2,5 t'"),
        (b"1 Q0 a 1 0x1 t", "its score is no number"),
        (b"1 Q0 a 1 ++1 t", "its score is no number"),
        (b"1 Q0 a 1 NaN t", "its score is NaN"),
        (b"1 Q0 a\xff 1 1 t", "its doc is not UTF-8: '1 Q0 a\N{REPLACEMENT CHARACTER} 1 1 t'"),
        (b"\xe9 Q0 a 1 1 t", "its query is not UTF-8"),
        (b"1 Q0 a 1 1 \xed\xa0\x80", "its run is not UTF-8"),
    ],
)
@pytest.mark.parametrize("block", [20, 1 << 22])
def test_run__bad_line__is_named_with_its_number_and_text(tmp_path, text, says, block):
    good = b"".join(b"7 Q0 d%d 1 1.5 t\n# note\n\n" % i for i in range(40))
    path = tmp_path / "a.run"
    path.write_bytes(good + text + b"\n" + b"bad too\n" + LINE)
    with mock.patch.object(reader, "_BLOCK", block), pytest.raises(SourceError) as raised:
        read_run(path)
    assert str(raised.value).startswith(f"{str(path)!r}, line 121: ")
    assert says in str(raised.value)


@pytest.mark.parametrize(
    "text, says",
    [
        (b"1 0 a\n", "3 fields where qrels lines have 4"),
        (b"1 0 a 1 x\n", "5 fields where qrels lines have 4"),
        (LINE, r"it looks like a run .*: judgements come first, runs second"),
        (b"1 0 a 0x10\n", "its grade is no number"),
        (b"1 0 a high\n", "its grade is no number"),
        (b"1 0 a nan\n", "its grade is not finite"),
        (b"1 0 a -inf\n", "its grade is not finite"),
    ],
)
def test_qrels__bad_line__is_named(text, says):
    with pytest.raises(SourceError, match=says) as raised:
        read_qrels(b"1 0 b 1\n" + text)
    assert "line 2: " in str(raised.value)


def test_run__of_the_first_of_several_faults_in_a_block__is_told():
    with pytest.raises(SourceError, match="line 2: its score is no number"):
        read_run(LINE + b"1 Q0 b 1 x t\n1 Q0 \xff 1 1 t\nshort\n")


def test_run__very_long_line__is_shown_in_part():
    with pytest.raises(SourceError) as raised:
        read_run(b"1 Q0 " + b"x" * 10**5)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("block", [16, 1 << 22])
def test_duplicates__name_both_lines(tmp_path, block):
    first, second = tmp_path / "a.run", tmp_path / "b.run"
    first.write_bytes(b"# c\n" + LINE + b"1 Q0 b 1 1 t\n" + b"2 Q0 a 1 1 t\n")
    second.write_bytes(b"\n3 Q0 a 1 1 t\n1 Q0 b 9 9 t\n" + LINE)
    with mock.patch.object(reader, "_BLOCK", block), pytest.raises(SourceError) as raised:
        read_run([first, second])
    both = f"{str(first)!r}, line 3 and {str(second)!r}, line 3."
    assert f"Query '1' has document 'b' twice: {both}" in str(raised.value)
    with pytest.raises(SourceError, match=r"passed, line 1 and line 3\."):
        read_run(LINE + b"\n" + LINE)


def test_duplicates__in_a_table__name_both_rows():
    table = pa.table({"query": ["1", "1", "1"], "doc": ["a", "b", "a"], "grade": [1, 0, 1]})
    with pytest.raises(SourceError, match="row 0 and row 2"):
        read_qrels(table)


@settings(max_examples=80, deadline=None, derandomize=True)
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


@pytest.mark.parametrize(
    "source, says",
    [
        ([], "list of paths is empty"),
        ([LINE], "holds bytes: paths only"),
        ("nowhere.run", "no such file"),
        (b"PAR1PAR1", "it is Parquet"),
        (5, "Cannot read rows from int"),
        ({"1": {"a": "high"}}, "document 'a': the score 'high' is no number"),
        ({"1": {"a": math.nan}}, "is no number"),
        ({"1": {"a": None}}, "is no number"),
        ({1.5: {"a": 1.0}}, "ids are text or integers"),
        ({"\ud800": {"a": 1.0}}, "not valid text"),
    ],
)
def test_run__of_something_else__is_an_error(source, says):
    with pytest.raises(SourceError, match=says):
        read_run(source)


def test_files__named_twice_or_mixed__are_an_error(tmp_path):
    (tmp_path / "a.run").write_bytes(LINE)
    pq.write_table(pa.table(RUN), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match="named twice"):
        read_run([tmp_path / "a.run"] * 2)
    with pytest.raises(SourceError, match="hold columns"):
        read_run([tmp_path / "a.run", tmp_path / "b.parquet"])


def test_grades__of_dicts_without_end__are_an_error():
    with pytest.raises(SourceError, match="no finite number"):
        read_qrels({"1": {"a": math.inf}})


@pytest.mark.parametrize(
    "change, says",
    [
        ({"query": ["1", None]}, r"'query' .* is null.*row 1"),
        ({"doc": [0.5, 1.5]}, "no id"),
        ({"doc": [b"a", b"\xff"]}, "cannot be read as text"),
        ({"score": [1.0, math.nan]}, r"is NaN \(row 1\)"),
        ({"score": [None, 1.0]}, "is null"),
        ({"score": ["1", "2"]}, "not numbers"),
        ({"score": [1, 2**53 + 1]}, "holds an integer that float64 does not"),
    ],
)
def test_columns__of_wrong_values__name_the_column(change, says):
    with pytest.raises(ColumnError, match=says):
        read_run(pa.table({**RUN, **change}))


def test_columns__of_grades_beyond_int64_or_missing__are_an_error():
    grades = pa.table({"query": ["1"], "doc": ["a"], "grade": pa.array([2**63], pa.uint64())})
    with pytest.raises(ColumnError, match="int64 does not"):
        read_qrels(grades)
    with pytest.raises(ColumnError, match="no column 'rel'"):
        read_qrels(grades, grade="rel")


def test_options__unknown__are_refused():
    with pytest.raises(ArgumentError, match="Did you mean 'first'"):
        read_run(LINE, duplicates="frist")
    with pytest.raises(ArgumentError, match=r"^format: must be one of .*, got 'text'"):
        read_run(LINE, format="text")
    with pytest.raises(ArgumentError, match="applies to text"):
        read_run(pa.table(RUN), format="trec")


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
