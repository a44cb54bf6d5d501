"""ir_measures, and what it calls: pytrec_eval for most, other programs for some."""

import math

import numpy as np
import pytest

from fastrank_eval import FastRankEvalError
from fastrank_eval.trec import evaluate, read_diversity_qrels
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

ir_measures = pytest.importorskip("ir_measures")

PACKAGES = {"ir_measures": "ir-measures"}
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


#: Names as ir_measures writes them, of each of its measures. Equal values without ties ...
NAMES = (
    *("AP", "AP@5", "AP(rel=2)", "MAP", "Bpref", "Bpref(rel=2)", "IPrec@0.2", "Judged", "Judged@5"),
    *("nDCG", "nDCG@5", "NumRel", "NumRet", "NumRet(rel=1)", "NumRelRet", "P@5", "P(rel=2)@5"),
    *("R@5", "R(rel=2)@5", "Rprec", "RR", "RR@5", "RR(rel=2)", "SetAP", "SetF", "SetF(beta=2.0)"),
    *("SetF(beta=0.5,rel=2)", "SetP", "SetP(relative=True)", "SetRelP", "SetR", "SetR(rel=2)"),
    *("Success@5", "Success(rel=2)@1", "infAP", "infAP(rel=2)", "Compat", "Compat(p=0.9)"),
)
#: ... of cwl_eval, also with a scale of grades ...
OF_CWL = (
    *("BPM(max_rel=3)@5", "BPM(max_rel=3,T=2.0,min_rel=1)@5", "SDCG(max_rel=3)@5", "RBP(rel=1)"),
    *("NERR8(max_rel=3)@5", "NERR9(max_rel=3)@5", "NERR10(max_rel=3,p=0.5)", "RBP(rel=2,p=0.5)"),
    *("INSQ(max_rel=3)", "INST(max_rel=3)", "NERR11(max_rel=3)", "INST(max_rel=3,T=4.5)"),
    *("RBP(rel=1,p=0.999)", "NERR10(max_rel=3,p=0.999)", "INSQ(max_rel=3,min_rel=1,T=40.0)"),
)
#: ... of gdeval, with five decimals ...
OF_GDEVAL = ("ERR@5", "nDCG(dcg='exp-log2')@5")
#: ... of pyndeval ...
OF_NDEVAL = (
    *("alpha_DCG@5", "alpha_nDCG@5", "ERR_IA@5", "nERR_IA@5", "NRBP", "nNRBP", "AP_IA", "P_IA@5"),
    "StRecall@5",
)
#: ... and refused, because it has another meaning here, or is no measure.
REFUSED = ("Accuracy", "Accuracy@5", "NumQ", "AP(judged_only=True)", "Compat(normalize=False)")
#: Names that rank tied documents otherwise, as the profile says.
OTHER_TIES = ("Judged@5", "RR@5", "Compat", "Compat(p=0.9)", *OF_CWL)


def long_run(seed: int) -> tuple[Run, Qrels]:
    """Lists of up to 1,500 documents, three quarters judged."""
    rng = np.random.default_rng(seed)
    run, qrels = {}, {}
    for query, most in enumerate((900, 1000, 1001, 1500)):
        docs = [str(doc) for doc in rng.permutation(most)]
        run[f"q{query}"] = {doc: float(-rank) for rank, doc in enumerate(docs)}
        grades = rng.choice((0, 0, 0, 1, 2, 3), size=most).tolist()
        judged = dict(zip(docs, grades, strict=True))
        qrels[f"q{query}"] = {doc: grade for doc, grade in judged.items() if rng.random() < 0.75}
    return run, qrels


SCALED = {
    "binary": random_run(46, grades=(0, 0, 1), levels=10_000),
    "graded": random_run(47, grades=(0, 0, 1, 2, 3), levels=10_000),
    "negative": random_run(48, grades=(-1, 0, 0, 1, 2), levels=10_000),
    "binary, tied": random_run(46, grades=(0, 0, 1), levels=4),
    "graded, tied": random_run(47, grades=(0, 0, 1, 2, 3), levels=4),
}
#: Lists that are longer than cwl_eval reads.
LONG = {"long": long_run(49)}


def numbered(run: Run, qrels: Qrels) -> tuple[Run, Qrels]:
    """Queries without letters, as gdeval wants them; scores of a query differ unless tied."""
    return {q[1:]: docs for q, docs in run.items()}, {q[1:]: docs for q, docs in qrels.items()}


def has_ties(run: Run) -> set[str]:
    return {query for query, docs in run.items() if len(set(docs.values())) < len(docs)}


def agree_as_named(
    ledger: Ledger, name: str, texts, *, scale: float = 1e-9, ties: str | None = None
) -> None:
    run, qrels = numbered(*(SCALED | LONG)[name])
    for text in texts:
        parsed = ir_measures.parse_measure(text)
        ours = evaluate(qrels, run, [text], profile="ir_measures", ties=ties)
        theirs = {m.query_id: m.value for m in ir_measures.iter_calc([parsed], qrels, run)}
        queries = ours.per_group["query"].to_pylist()
        same = np.ones(len(queries), bool)
        if text in OTHER_TIES and ties is None:
            same = np.array([query not in has_ties(run) for query in queries])
        values = np.nan_to_num(ours[text])[same]
        expected = np.array([theirs.get(query, 0.0) for query in queries])[same]
        if scale > TOLERANCE or ties is not None:
            np.testing.assert_allclose(values, expected, atol=scale)
        else:
            ledger.agree("ir_measures", name, str(ours.measures[0]), text, values, expected)


def test_names__are_all_checked_here():
    checked = {
        ir_measures.parse_measure(text).NAME
        for text in (*NAMES, *OF_CWL, *OF_GDEVAL, *OF_NDEVAL, *REFUSED)
    }
    assert checked == {measure.NAME for measure in ir_measures.measures.registry.values()}


@pytest.mark.parametrize("name", SCALED)
def test_names__of_trec_eval_and_compat(ledger, name):
    agree_as_named(ledger, name, NAMES)


@pytest.mark.parametrize("ties", [None, "input"])
@pytest.mark.parametrize("name", [*SCALED, *LONG])
def test_names__of_cwl_eval(ledger, name, ties):
    pytest.importorskip("cwl")
    agree_as_named(ledger, name, OF_CWL, ties=ties)


@pytest.mark.parametrize("text", ["RBP(rel=1)", "SDCG(max_rel=3)@5", "INST(max_rel=3)"])
def test_cwl_eval__keeps_the_order_of_the_run_in_ties(ledger, text):
    pytest.importorskip("cwl")
    run, qrels = numbered(*SCALED["graded, tied"])
    (theirs,) = ir_measures.calc_aggregate([ir_measures.parse_measure(text)], qrels, run).values()
    ours = evaluate(qrels, run, [text], profile="ir_measures").value(text)
    ledger.differ("ir_measures", text, "in the order of the run", ours, theirs)


def test_cwl_eval__reads_1000_ranks(ledger):
    pytest.importorskip("cwl")
    text = "SDCG(max_rel=3)@2000"
    run, qrels = numbered(*LONG["long"])
    (theirs,) = ir_measures.calc_aggregate([ir_measures.parse_measure(text)], qrels, run).values()
    ours = evaluate(qrels, run, [text], profile="ir_measures").value(text)
    ledger.differ("ir_measures", text, "a cutoff above 1,000", ours, theirs)


@pytest.mark.parametrize("name", SCALED)
def test_names__of_gdeval(ledger, name):
    if not ir_measures.gdeval.is_available():
        pytest.skip("gdeval needs perl")
    agree_as_named(ledger, name, OF_GDEVAL, scale=5.1e-6)


def test_names__of_pyndeval(ledger):
    pytest.importorskip("pyndeval")
    run, judged = numbered(*SCALED["binary"])
    rows = [
        (query, str(subtopic), doc, int((grade > 0) and (int(doc) + subtopic) % 3 > 0))
        for query, docs in judged.items()
        for doc, grade in docs.items()
        for subtopic in range(1, 4)
    ]
    qrels = [ir_measures.Qrel(query, doc, grade, subtopic) for query, subtopic, doc, grade in rows]
    columns = dict(zip(("query", "subtopic", "doc", "grade"), zip(*rows, strict=True), strict=True))
    for text in OF_NDEVAL:
        parsed = ir_measures.parse_measure(text)
        found = {m.query_id: m.value for m in ir_measures.iter_calc([parsed], qrels, run)}
        ours = evaluate(read_diversity_qrels(columns), run, [text], profile="ir_measures")
        queries = ours.per_group["query"].to_pylist()
        same = np.array([query not in has_ties(run) for query in queries])
        values = np.array([np.nan_to_num(found.get(query, 0.0)) for query in queries])[same]
        ledger.agree("ir_measures", "binary", text, text, np.nan_to_num(ours[text])[same], values)


@pytest.mark.parametrize("text", REFUSED)
def test_names__of_other_meaning__are_refused(text):
    run, qrels = LACKING
    with pytest.raises(FastRankEvalError):
        evaluate(qrels, run, [text], profile="ir_measures")
