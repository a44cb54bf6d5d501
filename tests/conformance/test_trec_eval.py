"""trec_eval 9, through pytrec-eval-terrier: everything it computes, query by query."""

import re

import numpy as np
import pytest

from fastrank_eval.trec import evaluate, trec_report
from tests.conformance.parity import TOLERANCE, Ledger
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
from tests.reference_columns import trec_eval

pytrec_eval = pytest.importorskip("pytrec_eval")

PROFILE = "trec_eval_9"
PACKAGES = {PROFILE: "pytrec-eval-terrier"}
RUNS = {
    "binary judgements": random_run(31, grades=(0, 0, 1), levels=5),
    "graded judgements": random_run(32, grades=(0, 0, 1, 2, 3), levels=5),
    "pooled, not judged documents": random_run(33, grades=(-1, 0, 0, 1, 2), levels=9),
    "ties that float32 makes": random_run(34, grades=(0, 1), levels=9, step=1e-9),
    "nearly untied": random_run(35, grades=(0, 0, 1, 2), levels=10_000),
}
# Names of the run, and the number of queries.
NO_MEASURES = ("runid", "relstring", "num_q")
MEASURES = {name for name in pytrec_eval.supported_measures if name not in NO_MEASURES}


def our_text(name: str, level: int) -> str:
    option = "" if level == 1 else f"rel={level}"
    others = {
        "num_nonrel_judged_ret": "NumNonrelRet",
        "utility": "Utility",
        "gm_map": "GMAP",
        "gm_bpref": "GMbpref",
    }
    if name in others:
        return f"{others[name]}({option})" if option else others[name]
    if found := re.fullmatch(r"relative_P_(\d+)", name):
        return f"RelP({option})@{found[1]}" if option else f"RelP@{found[1]}"
    how = trec_eval(name if level == 1 else f"l{level}_{name}")
    assert how is not None, f"no measure of ours for {name}"
    return (
        how.measure.replace(", rounding='up'", "")
        .replace("(rounding='up')", "")
        .replace("rounding='up', ", "")
    )


def compare(ledger: Ledger, name: str, run: Run, qrels: Qrels, level: int = 1) -> None:
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, MEASURES, relevance_level=level)
    found = evaluator.evaluate(run)
    theirs = [m for m in next(iter(found.values())) if m not in NO_MEASURES]
    texts = {m: our_text(m, level) for m in theirs}
    result = evaluated_run(run, qrels, PROFILE, list(texts.values()))
    assert result.per_group.num_rows == len(found)
    for m, text in texts.items():
        values = {query: line[m] for query, line in found.items()}
        said = m if level == 1 else f"{m}, level {level}"
        total = pytrec_eval.compute_aggregated_measure(m, list(values.values()))
        ledger.agree(PROFILE, name, text, said, result.value(text), total)
        if m.startswith("gm_"):  # a logarithm there, query by query
            continue
        each = np.nan_to_num(result[text])
        ledger.agree(PROFILE, name, text, said, each, in_our_order(result, values))


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("name", RUNS)
def test_random_runs(ledger, name, level):
    compare(ledger, name, *RUNS[name], level)


@pytest.mark.parametrize("name", ["adhoc_351_450_bm25", "web2011"])
def test_real_runs(ledger, shared_data, name):
    compare(ledger, name, *real_run(shared_data, name))


@pytest.mark.parametrize("name", RUNS)
def test_judged_documents_only(name):
    run, qrels = RUNS[name]
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, MEASURES, judged_docs_only_flag=True)
    found = evaluator.evaluate(run)
    report = trec_report(qrels, run, measures=["all_trec"], version=9, judged_only=True)
    ours = report.document(single=True, summary=False)["queries"]
    assert ours.keys() == found.keys()
    for query, line in ours.items():
        for m, value in line.items():
            if m not in NO_MEASURES:
                # Where nothing is left, trec_eval divides 0 by 0 for some.
                theirs = np.nan_to_num(found[query][m])
                assert value == pytest.approx(theirs, abs=TOLERANCE), (query, m)


def test_absent_queries__are_left_out_and_empty_ones_count_0():
    run, qrels = LACKING
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"map"})
    found = evaluator.evaluate(run)
    assert np.mean([line["map"] for line in found.values()]) == absent_counts(PROFILE, "AP") == 1
    empty = {**run, "2": {}}
    mean = np.mean([line["map"] for line in evaluator.evaluate(empty).values()])
    assert mean == evaluate(qrels, empty, "AP", profile=PROFILE).value("AP") == 0.5
