"""Judgements by subtopic: read from lines and columns, joined with runs."""

import pyarrow as pa
import pyarrow.parquet
import pytest

import fastrank_eval
from fastrank_eval import ArgumentError, ColumnError, SourceError, trec

pytestmark = pytest.mark.kernels

LINES = b"""# judged by subtopic
q1 1 d3 1
q1 2 d3 0
q1 2 d5 2
q2 1 d3 0
q1 3 d3 1
q2 2 d9 -2
q1 1 d3 1
"""


def told(table: pa.Table) -> list[tuple]:
    return [tuple(row.values()) for row in table.to_pylist()]


def test_lines__become_one_row_a_document():
    table = trec.read_diversity_qrels(LINES)
    assert table.schema.field("subtopics").type == pa.list_(pa.int64())
    assert told(table) == [
        ("q1", "d3", 1, [1, 3]),
        ("q1", "d5", 2, [2]),
        ("q2", "d3", 0, []),
        ("q2", "d9", -2, []),
    ]
    assert table["subtopics"].to_pylist()[1:3] == [[2], []]
    strict = trec.read_diversity_qrels(LINES, rel=2)
    assert strict["subtopics"].to_pylist() == [[], [2], [], []]


def test_subtopics__that_are_no_small_numbers__are_numbered_in_each_query():
    lines = b"q2 wine d1 1\nq1 sea d1 1\nq1 wine d1 1\nq2 rum d2 1\nq1 64 d2 1\nq1 sea d3 1\n"
    found = {(q, d): s for q, d, _, s in told(trec.read_diversity_qrels(lines))}
    assert found == {
        ("q2", "d1"): [0],
        ("q1", "d1"): [0, 1],
        ("q2", "d2"): [1],
        ("q1", "d2"): [2],
        ("q1", "d3"): [0],
    }


def test_columns__and_files_of_columns(tmp_path):
    columns = {"q": [1, 1, 1], "s": [0, 7, 0], "d": ["a", "a", "b"], "g": [0.5, 1.5, 0.0]}
    names = {"query": "q", "subtopic": "s", "doc": "d", "grade": "g"}
    wanted = [("1", "a", 1.5, [7]), ("1", "b", 0.0, [])]
    assert told(trec.read_diversity_qrels(columns, **names)) == wanted
    pa.parquet.write_table(pa.table(columns), tmp_path / "judged.parquet")
    assert told(trec.read_diversity_qrels(tmp_path / "judged.parquet", **names)) == wanted
    assert told(trec.read_diversity_qrels(b"")) == []


def test_faults__are_named():
    with pytest.raises(SourceError, match=r"line 2: 3 fields .*qid subtopic docno rel"):
        trec.read_diversity_qrels(b"q1 1 d3 1\nq1 1 d3\n")
    with pytest.raises(ArgumentError, match="no dicts of dicts"):
        trec.read_diversity_qrels({"q1": {"d1": 1}})
    with pytest.raises(ColumnError, match="subtopic"):
        trec.read_diversity_qrels({"query": ["q"], "doc": ["d"], "grade": [1]})
    many = b"".join(b"q1 s%d d 1\nq2 s d 1\n" % i for i in range(65))
    with pytest.raises(SourceError, match=r"'q1' has 65 subtopics or more .* 64 are the most"):
        trec.read_diversity_qrels(many)
    assert len(trec.read_diversity_qrels(many.replace(b"q1 s64 d 1", b"q1 s64 d 0"))) == 2


@pytest.mark.parametrize("stored", [False, True])
def test_run__beside_them__evaluates(tmp_path, stored):
    run = b"q1 Q0 d3 1 9.0 x\nq1 Q0 d4 2 8.0 x\nq2 Q0 d1 1 1.0 x\n"
    judged = trec.read_diversity_qrels(LINES)
    if stored:
        pa.parquet.write_table(judged, tmp_path / "judged.parquet")
        judged = tmp_path / "judged.parquet"
    joined = trec.join(judged, run)
    assert joined.table["doc"].to_pylist() == ["d3", "d4", "d5", "d1", "d3", "d9"]
    assert joined.table["subtopics"].to_pylist() == [[1, 3], None, [2], None, [], []]
    columns = {"group": "query", "item": "doc", "label": "grade", "score": "score"}
    options = {"subtopics": "subtopics", "measures": "StRecall,AP", "profile": "ndeval"}
    result = fastrank_eval.evaluate(joined.table, **columns, **options)
    assert result["StRecall"][0] == pytest.approx(2 / 3)
    assert result["AP"][0] == 0.5


def test_judgements_without_them__are_joined_as_before():
    table = {"query": ["q"], "doc": ["d"], "grade": [1], "subtopics": ["no list"]}
    joined = trec.join(table, {"q": {"d": 1.0}})
    assert joined.table.schema.names == ["query", "doc", "score", "grade"]
    with pytest.raises(ArgumentError, match="cannot be called 'subtopics'"):
        trec.join(table, {"subtopics": {"q": {"d": 1.0}}})
    lists = {**table, "subtopics": pa.array([["a"]])}
    with pytest.raises(ColumnError, match=r"'subtopics' of .* not lists of whole numbers"):
        trec.read_qrels(lists)
