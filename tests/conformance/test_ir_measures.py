"""ir_measures, and what it calls: pytrec_eval for most, other programs for some."""

import math

import numpy as np
import pytest

from tests.conformance.parity import Ledger
from tests.conformance.runs import (
    LACKING,
    Qrels,
    Run,
    absent_counts,
    evaluated_run,
    in_our_order,
    random_run,
    real_run,
)

ir_measures = pytest.importorskip("ir_measures")

RUNS = {
    "binary judgements": random_run(41, grades=(0, 0, 1), levels=5),
    "graded judgements": random_run(42, grades=(0, 0, 1, 2, 3), levels=5),
    "pooled, not judged documents": random_run(43, grades=(-1, 0, 0, 1, 2), levels=9),
    "nearly untied": random_run(45, grades=(0, 0, 1, 2), levels=10_000),
}
#: Theirs and ours where one text does not do for both.
READINGS = {
    **{
        text: text
        for text in (
            *("AP", "AP(rel=2)", "AP@3", "AP@10", "P@1", "P@3", "P@10", "P(rel=2)@3"),
            *("R@3", "R@10", "R(rel=2)@10", "RR", "RR(rel=2)", "Rprec", "Rprec(rel=2)"),
            *("nDCG", "nDCG@3", "nDCG@10", "Success@1", "Success@3", "Success(rel=2)@3"),
            *("infAP", "infAP(rel=2)", "SetAP", "SetAP(rel=2)", "NumRet", "NumRel"),
        )
    },
    "Bpref": "bpref",
    "Bpref(rel=2)": "bpref(rel=2)",
    "SetP": "P",
    "SetR": "R",
    "SetF": "F",
    "NumRet(rel=1)": "NumRelRet",
    **{f"IPrec@{recall}": f"IPrec(recall={recall})" for recall in (0.0, 0.1, 0.5, 1.0)},
}
#: Of untied documents alone.
JUDGED = {"Judged@3": "Judged@3", "Judged@10": "Judged@10"}


@pytest.fixture(autouse=True)
def _named(ledger):
    ledger.packages["ir_measures"] = "ir-measures"


def by_measure(run: Run, qrels: Qrels, texts: list[str]) -> dict[str, dict[str, float]]:
    measures = {ir_measures.parse_measure(text): text for text in texts}
    found: dict[str, dict[str, float]] = {text: {} for text in texts}
    for line in ir_measures.iter_calc(list(measures), qrels, run):
        found[measures[line.measure]][line.query_id] = line.value
    return found


def compare(
    ledger: Ledger, name: str, run: Run, qrels: Qrels, readings: dict[str, str] = READINGS
) -> None:
    """Queries that the run lacks count as 0 in their means: `complete`."""
    found = by_measure(run, qrels, list(readings))
    means = ir_measures.calc_aggregate(
        [ir_measures.parse_measure(text) for text in readings], qrels, run
    )
    result = evaluated_run(run, qrels, "ir_measures", list(readings.values()), complete=True)
    for theirs, ours in readings.items():
        mean = means[ir_measures.parse_measure(theirs)]
        ledger.agree("ir_measures", name, ours, theirs, result.value(ours), mean)
        values = dict.fromkeys(result.per_group["query"].to_pylist(), 0.0) | found[theirs]
        each = np.nan_to_num(result[ours])
        ledger.agree("ir_measures", name, ours, theirs, each, in_our_order(result, values))


@pytest.mark.parametrize("name", RUNS)
def test_random_runs(ledger, name):
    compare(ledger, name, *RUNS[name])


@pytest.mark.parametrize("name", ["adhoc_351_450_bm25", "web2011"])
def test_real_runs(ledger, shared_data, name):
    compare(ledger, name, *real_run(shared_data, name))


def test_rr_with_a_cutoff__orders_ties_by_ascending_id_there(ledger):
    run, qrels = RUNS["binary judgements"]
    theirs = ir_measures.calc_aggregate([ir_measures.RR @ 10], qrels, run)[ir_measures.RR @ 10]
    ours = evaluated_run(run, qrels, "ir_measures", ["RR@10"], complete=True).value("RR@10")
    ledger.differ("ir_measures", "RR@10", "by ascending id", ours, theirs)


def test_judged__of_untied_documents(ledger):
    run, qrels = RUNS["graded judgements"]
    untied = {
        query: {doc: float(-rank) for rank, doc in enumerate(docs)} for query, docs in run.items()
    }
    compare(ledger, "graded judgements, untied", untied, qrels, JUDGED)


def test_judged__has_another_order_of_ties_there(ledger):
    run, qrels = RUNS["graded judgements"]
    measure = ir_measures.Judged @ 3
    theirs = ir_measures.calc_aggregate([measure], qrels, run)[measure]
    ours = evaluated_run(run, qrels, "ir_measures", ["Judged@3"], complete=True).value("Judged@3")
    ledger.differ("ir_measures", "Judged@3", "by ascending id", ours, theirs)


def test_setf__takes_the_square_of_beta_there(ledger):
    run, qrels = RUNS["binary judgements"]
    theirs = by_measure(run, qrels, ["SetF(beta=2.0)"])["SetF(beta=2.0)"]
    result = evaluated_run(run, qrels, "ir_measures", ["F(beta=2)", f"F(beta={math.sqrt(2)})"])
    mean = float(np.mean(list(theirs.values())))
    ledger.differ(
        "ir_measures", "SetF(beta=2.0)", "square of beta", result.value("F(beta=2)"), mean
    )
    root = result.value(f"F(beta={math.sqrt(2)})")
    assert root == pytest.approx(mean, abs=1e-9)


def test_absent_queries__count_0():
    run, qrels = LACKING
    (mean,) = ir_measures.calc_aggregate([ir_measures.AP], qrels, run).values()
    assert mean == absent_counts("ir_measures", "AP") == 0.5
