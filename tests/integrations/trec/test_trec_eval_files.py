"""What trec_eval printed over its own test files, line for line."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fastrank_eval.trec import trec_report

#: The parameters of each measure, as trec_eval's own test gives them.
PARAMETERS = """
    iprec_at_recall..10,.20,.25,.75,.50 P.5,7,3 recall.20,2000 Rprec_mult.5.0,0.2,0.35
    utility.2,-1,0,0 11pt_avg..25,.5,.75 ndcg.1=3,2=9,4=4.5 ndcg_cut.10,20,23.4 success.2,5,20
"""


@pytest.fixture
def run(fixtures: Path) -> pa.Table:
    table = parquet.read_table(fixtures / "trec_eval_run.parquet")
    return table.append_column("run", pa.array(["STANDARD"] * table.num_rows))


@pytest.fixture
def qrels(fixtures: Path) -> pa.Table:
    table = parquet.read_table(fixtures / "trec_eval_qrels.parquet")
    return table.rename_columns(["query", "doc", "grade"])


@pytest.fixture
def cut_run(run: pa.Table) -> pa.Table:
    """Its results.trunc: query 301 and the first 84 lines of query 303."""
    query = run["query"].to_numpy()
    first = np.flatnonzero(query == 303)[:84]
    return run.take(np.concatenate([np.flatnonzero(query == 301), first]))


@pytest.fixture
def levels(run: pa.Table, qrels: pa.Table) -> pa.Table:
    """Judgements that come to the same numbers as its qrels.rel_level.

    They follow from what it printed. Of query 303, every third line of the file is -1 and the other
    relevant documents are 2; those of query 302 are 3. Of query 301, six are 4 and six are 2; the
    only one of them that was retrieved is 4. Which the eleven others are changes no number.
    """
    query, grade = (qrels[name].to_numpy().copy() for name in ("query", "grade"))
    doc, relevant = np.array(qrels["doc"].to_pylist()), grade == 1
    grade[(query == 302) & relevant] = 3
    grade[(query == 303) & relevant] = 2
    grade[(query == 303) & (np.arange(len(grade)) % 3 == 0)] = -1
    missed = np.flatnonzero((query == 301) & relevant & ~np.isin(doc, run["doc"].to_pylist()))
    grade[missed[:11]] = [4] * 5 + [2] * 6
    grade[(query == 301) & (doc == "FT943-16238")] = 4
    return qrels.set_column(2, "grade", pa.array(grade))


def printed(fixtures: Path, name: str) -> str:
    return (fixtures / "trec_eval_printed" / f"{name}.v9.0.4").read_text()


def test_parameters_of_measures__come_out_identical(fixtures, run, qrels):
    report = trec_report(qrels, run, measures=PARAMETERS.split(), version=9)
    assert report.to_text(single=True) == printed(fixtures, "out.test.meas_params")


@pytest.mark.parametrize("most,name", [(None, "out.test.aqc"), (100, "out.test.aqcM")])
def test_complete_queries__come_out_identical(fixtures, cut_run, qrels, most, name):
    report = trec_report(qrels, cut_run, measures=["all_trec"], version=9, complete=True, most=most)
    assert report.to_text(single=True) == printed(fixtures, name)


def test_level_of_relevance__comes_out_identical(fixtures, run, levels):
    report = trec_report(levels, run, measures=["all_trec", "relstring.20"], version=9, level=2)
    assert report.to_text(single=True) == printed(fixtures, "out.test.aql")
