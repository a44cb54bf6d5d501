"""ranx, on runs without ties: its order of tied documents is that of an unstable sort."""

import numpy as np
import pytest

from fastrank_eval import trec
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

ranx = pytest.importorskip("ranx")

PACKAGES = {"ranx": "ranx"}
DEPTHS = ("", "@1", "@3", "@10")
FAMILIES = {
    "hits": "Hits",
    "hit_rate": "Success",
    "precision": "P",
    "recall": "R",
    "f1": "F",
    "r-precision": "Rprec",
    "mrr": "RR",
    "map": "AP",
    "dcg": "DCG",
    "ndcg": "nDCG",
}
READINGS = {
    f"{name}{k}": f"{ours}{k}"
    for name, ours in FAMILIES.items()
    for k in DEPTHS
    if not (name == "r-precision" and k)
} | {
    f"{name}_burges{k}": f"{ours}(gain={{1: 1, 2: 3, 3: 7, 4: 15}}){k}"
    for name, ours in (("dcg", "DCG"), ("ndcg", "nDCG"))
    for k in DEPTHS
}


def untied(run: Run) -> Run:
    """The same documents in the order in which they stand, one score each."""
    return {
        query: {
            doc: float(-rank) for rank, doc in enumerate(sorted(docs, key=docs.get, reverse=True))
        }
        for query, docs in run.items()
    }


def ranx_values(run: Run, qrels: Qrels, names: list[str]) -> dict[str, dict[str, float]]:
    runs = ranx.Run(run)
    found = ranx.evaluate(ranx.Qrels(qrels), runs, names, return_mean=False, make_comparable=True)
    lines = np.atleast_2d(found) if len(names) == 1 else [found[name] for name in names]
    queries = list(ranx.Qrels(qrels).qrels)
    return {
        name: dict(zip(queries, map(float, line), strict=True))
        for name, line in zip(names, lines, strict=True)
    }


def compare(ledger: Ledger, name: str, run: Run, qrels: Qrels, readings: dict[str, str]) -> None:
    run = untied({query: run[query] for query in sorted(run) if query in qrels})
    qrels = {query: qrels[query] for query in run}
    found = ranx_values(run, qrels, list(readings))
    result = evaluated_run(run, qrels, "ranx", list(readings.values()))
    for theirs, ours in readings.items():
        each, values = np.nan_to_num(result[ours]), found[theirs]
        ledger.agree("ranx", name, ours, theirs, each, in_our_order(result, values))
        mean = float(np.mean(list(values.values())))
        ledger.agree("ranx", name, ours, theirs, result.value(ours), mean)


@pytest.mark.parametrize("seed,grades", [(51, (0, 0, 1)), (52, (0, 0, 1, 2, 4))])
def test_random_runs(ledger, seed, grades):
    run, qrels = random_run(seed, grades=grades, levels=5)
    compare(ledger, f"random run {seed}, untied", run, qrels, READINGS)


def test_rbp__binary_judgements(ledger):
    run, qrels = random_run(53, grades=(0, 0, 1), levels=5)
    compare(ledger, "random run 53, untied", run, qrels, {"rbp.95": "RBP(p=0.95)"})


def test_bpref__is_nan_there_without_a_judged_non_relevant_document(ledger):
    run, qrels = {"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1}}
    theirs = ranx_values(run, qrels, ["bpref"])["bpref"]["q"]
    ours = evaluated_run(run, qrels, "ranx", ["bpref"]).value("bpref")
    ledger.differ("ranx", "bpref", "bpref is NaN", ours, theirs)


def test_real_run__with_negative_grades(ledger, shared_data):
    run, qrels = real_run(shared_data, "web2011")
    readings = {theirs: ours for theirs, ours in READINGS.items() if "burges" not in theirs}
    compare(ledger, "web2011, untied", run, qrels, readings)


def test_absent_queries__count_0():
    run, qrels = LACKING
    theirs = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), "map", make_comparable=True)
    assert theirs == absent_counts("ranx", "AP") == 0.5


#: Names as ranx writes them.
NAMES = (
    *("hits", "hits@5", "hits@5-l2"),
    *("hit_rate", "hit_rate@5", "precision", "precision@5", "recall@5", "f1@5", "r-precision"),
    *("mrr", "mrr@5", "map", "map@5", "dcg", "dcg@5", "ndcg", "ndcg@5", "rbp.95"),
    *("dcg_burges", "dcg_burges@5", "ndcg_burges", "ndcg_burges@5", "recall"),
    *("map-l2", "mrr@5-l2", "precision@5-l2", "recall@5-l2", "hit_rate@5-l2", "f1@5-l2"),
    *("r-precision-l2",),
)


@pytest.mark.parametrize("grades", [(0, 0, 1), (0, 0, 1, 2, 4), (-1, 0, 0, 1)])
def test_names__as_ranx_writes_them(ledger, grades):
    run, qrels = random_run(54, grades=grades, levels=5)
    run = untied({query: run[query] for query in sorted(run)})
    qrels = {query: qrels[query] for query in run}
    found = ranx_values(run, qrels, list(NAMES))
    result = trec.evaluate(qrels, run, list(NAMES), profile="ranx")
    for name in NAMES:
        if (name == "rbp.95" and max(grades) > 1) or (name.startswith("dcg") and min(grades) < 0):
            continue  # differs, as the profile says
        values = in_our_order(result, found[name])
        known = ~np.isnan(values)
        np.testing.assert_allclose(np.nan_to_num(result[name])[known], values[known], atol=1e-9)
