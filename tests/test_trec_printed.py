"""What trec_eval printed over its own test files, line for line."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from fastrank_eval.trec import trec_report

#: The parameters of each measure, as trec_eval's own test gives them.
PARAMETERS = (
    "iprec_at_recall..10,.20,.25,.75,.50",
    "P.5,7,3",
    "recall.20,2000",
    "Rprec_mult.5.0,0.2,0.35",
    "utility.2,-1,0,0",
    "11pt_avg..25,.5,.75",
    "ndcg.1=3,2=9,4=4.5",
    "ndcg_cut.10,20,23.4",
    "success.2,5,20",
)


@pytest.fixture
def run(fixtures: Path) -> pa.Table:
    table = parquet.read_table(fixtures / "trec_eval_run.parquet")
    return table.append_column("run", pa.array(["STANDARD"] * table.num_rows))


@pytest.fixture
def qrels(fixtures: Path) -> pa.Table:
    table = parquet.read_table(fixtures / "trec_eval_qrels.parquet")
    return table.rename_columns(["query", "doc", "grade"])


def printed(fixtures: Path, name: str) -> list[str]:
    return (fixtures / "trec_eval_printed" / name).read_text().splitlines()


def test_parameters_of_measures__come_out_identical(fixtures, run, qrels):
    report = trec_report(run, qrels, measures=PARAMETERS, version=9)
    assert report.to_text(single=True).splitlines() == printed(
        fixtures, "out.test.meas_params.v9.0.4"
    )
