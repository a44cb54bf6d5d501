"""gdeval.pl of the TREC web track, which ir_measures carries and runs with perl."""

import pkgutil
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.conformance.parity import Ledger
from tests.conformance.runs import (
    LACKING,
    Qrels,
    Run,
    absent_counts,
    evaluated_run,
    random_run,
    real_run,
)

ir_measures = pytest.importorskip("ir_measures")
if shutil.which("perl") is None:
    pytest.skip("gdeval.pl needs perl", allow_module_level=True)

PROFILE = "gdeval"
DEPTHS = (1, 3, 10, 20, 1000)
RUNS = {
    "binary judgements": random_run(61, grades=(0, 0, 1), levels=5),
    "graded judgements": random_run(62, grades=(0, 0, 1, 2, 3, 4), levels=5),
    "pooled, not judged documents": random_run(63, grades=(-2, -1, 0, 0, 1, 2), levels=9),
    "ties that float32 would make": random_run(64, grades=(0, 1), levels=9, step=1e-9),
    "nearly untied": random_run(65, grades=(0, 0, 1, 2), levels=10_000),
}


@pytest.fixture(autouse=True)
def _named(ledger):
    ledger.sources[PROFILE] = f"gdeval.pl 1.2a, in ir-measures {ir_measures.__version__}"
    ledger.tolerances[PROFILE] = 5.000001e-6
    ledger.notes[PROFILE] = [
        "It prints five decimals: half a unit of the fifth passes, and no comparison can be finer."
    ]


def printed(folder: Path, run: Run, qrels: Qrels, k: int) -> dict[str, dict[str, float]]:
    """What it prints for each query: ir_measures itself adds zeros where it prints nothing."""
    script = folder / "gdeval.pl"
    script.write_bytes(pkgutil.get_data("ir_measures", "bin/gdeval.pl"))
    judged = (f"{q} 0 {doc} {grade}\n" for q, docs in qrels.items() for doc, grade in docs.items())
    (folder / "qrels").write_text("".join(judged))
    ranked = (f"{q} Q0 {doc} 0 {score!r} run\n" for q in run for doc, score in run[q].items())
    (folder / "run").write_text("".join(ranked))
    called = ["perl", script, folder / "qrels", folder / "run", str(k)]
    text = subprocess.run(called, capture_output=True, check=True, text=True).stdout
    lines = [line.split(",") for line in text.splitlines()[1:]]
    return {
        f"nDCG@{k}": {query: float(ndcg) for _, query, ndcg, _ in lines},
        f"ERR@{k}": {query: float(err) for _, query, _, err in lines},
    }


def numbered(run: Run, qrels: Qrels) -> tuple[Run, Qrels]:
    """The same with queries that are numbers, which gdeval wants."""
    numbers = {query: str(number) for number, query in enumerate(qrels, start=1)}
    return (
        {numbers[query]: docs for query, docs in run.items() if query in numbers},
        {numbers[query]: docs for query, docs in qrels.items()},
    )


def compare(ledger: Ledger, folder: Path, name: str, run: Run, qrels: Qrels) -> None:
    run, qrels = numbered(run, qrels)
    found = {}
    for k in DEPTHS:
        found |= printed(folder, run, qrels, k)
    result = evaluated_run(run, qrels, PROFILE, list(found))
    for text, values in found.items():
        queries = result.per_group["query"].to_pylist()
        each = np.array([values.get(query, np.nan) for query in queries])
        assert len(values) == (~np.isnan(each)).sum()
        ledger.agree(PROFILE, name, text, text.lower(), result[text], each)
        ledger.agree(PROFILE, name, text, text.lower(), result.value(text), np.nanmean(each))


@pytest.mark.parametrize("name", RUNS)
def test_random_runs(ledger, tmp_path, name):
    compare(ledger, tmp_path, name, *RUNS[name])


@pytest.mark.parametrize("name", ["adhoc_351_450_bm25", "web2011"])
def test_real_runs(ledger, tmp_path, shared_data, name):
    compare(ledger, tmp_path, name, *real_run(shared_data, name))


def test_values__have_five_decimals_there(ledger, tmp_path):
    run, qrels = {"1": {"a": 1.0, "b": 2.0, "c": 3.0}}, {"1": {"a": 1, "b": 0}}
    theirs = printed(tmp_path, run, qrels, 10)["ERR@10"]["1"]
    ours = evaluated_run(run, qrels, PROFILE, ["ERR@10"]).value("ERR@10")
    ledger.differ(PROFILE, "err@10", "five decimals", ours, theirs)


def test_absent_queries__are_left_out(tmp_path):
    values = printed(tmp_path, *LACKING, 10)["nDCG@10"]
    assert values == {"1": 1}
    assert absent_counts(PROFILE, "nDCG@10") == 1
