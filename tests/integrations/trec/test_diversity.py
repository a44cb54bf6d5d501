"""Judgements by subtopic: read from lines and columns, joined with runs."""

import pyarrow as pa
import pyarrow.parquet
import pytest

import fastrank_eval
from fastrank_eval import trec
from tests.support.transcripts import answers

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


def test_columns__and_files_of_columns(tmp_path):
    columns = {"q": [1, 1, 1], "s": [0, 7, 0], "d": ["a", "a", "b"], "g": [0.5, 1.5, 0.0]}
    names = {"query": "q", "subtopic": "s", "doc": "d", "grade": "g"}
    wanted = [("1", "a", 1.5, [7]), ("1", "b", 0.0, [])]
    assert told(trec.read_diversity_qrels(columns, **names)) == wanted
    pa.parquet.write_table(pa.table(columns), tmp_path / "judged.parquet")
    assert told(trec.read_diversity_qrels(tmp_path / "judged.parquet", **names)) == wanted
    assert told(trec.read_diversity_qrels(b"")) == []


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


test_answers = answers(globals())
