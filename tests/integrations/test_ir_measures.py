"""The provider for ir_measures: query by query the number that its own providers give."""

import logging
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from fastrank_eval import ArgumentError, FastRankEvalError
from fastrank_eval.integrations.ir_measures import NAME, register, unregister
from fastrank_eval.trec import trec_report

OF_TREC_EVAL = """
    P@5 P(rel=2)@10 P@100 P(judged_only=True)@5 RR RR(rel=2) RR(judged_only=True) RR@5
    RR(rel=3)@7 Rprec Rprec(rel=2) Rprec(judged_only=True) AP AP@5 AP(rel=2)@20
    AP(judged_only=True) AP(judged_only=True)@7 nDCG nDCG@5 nDCG(gains={1:2,2:5,3:9})@5
    nDCG(gains={0:1,3:0}) nDCG(judged_only=True) nDCG(judged_only=True)@3 R@5 R(rel=2)@10
    R(judged_only=True)@5 Bpref Bpref(rel=2) infAP infAP(rel=2) NumRet NumRet(rel=1)
    NumRet(rel=2) NumRel SetAP SetAP(rel=2) SetAP(judged_only=True) SetF SetF(beta=2.0)
    SetF(beta=0.5,rel=2) SetF(judged_only=True) SetP SetP(rel=2) SetP(relative=True)
    SetP(relative=True,rel=2) SetP(judged_only=True) SetR SetR(rel=2) Success@1 Success(rel=3)@5
    Success(judged_only=True)@2 IPrec@0.0 IPrec@0.1 IPrec@0.5 IPrec(rel=2)@0.4 Judged Judged@5
    Judged@100
"""
OF_CWL_EVAL = """
    RBP(rel=1) RBP(rel=2,p=0.5) BPM(max_rel=4)@5 BPM(max_rel=4,T=2.0)@10 SDCG(max_rel=4)@5
    SDCG(max_rel=3,min_rel=1)@5 NERR8(max_rel=4)@10 NERR9(max_rel=4)@10 NERR10(max_rel=4)
    NERR10(max_rel=3,min_rel=1,p=0.5) NERR11(max_rel=4) INSQ(max_rel=4) INST(max_rel=4,T=2.0)
"""
OF_GDEVAL = ["ERR@5", "ERR@20", "nDCG(dcg='exp-log2')@5"]
NOT_OURS = """
    RBP RBP(p=0.5) NumQ P(rel=0)@5 RBP(rel=1,p=1.0) nDCG(dcg='exp-log2',gains={1:2})
    nDCG(gains={1:'a'}) Accuracy Compat(p=0.9) alpha_nDCG@5 nERR_IA@5 SDCG(max_rel=0)@5 AP_IA
    StRecall@5
"""

GRADES = (-2, -1, 0, 0, 0, 1, 1, 2, 3, 4)


@pytest.fixture(name="ir_measures")
def _ir_measures() -> Iterator:
    module = pytest.importorskip("ir_measures")
    logging.getLogger("ir_measures.cwl_eval").setLevel("ERROR")
    yield module
    unregister()


def collection(seed: int, queries: int = 40, tied: bool = False):
    """Judgements and a run: some queries stand in one of them only, some documents too."""
    random = np.random.default_rng(seed)
    qrels, run = {}, {}
    for query in map(str, range(queries)):
        judged = random.permutation(60)[: random.integers(1, 40)]
        found = random.permutation(60)[: random.integers(1, 50)]
        if random.random() < 0.9:
            qrels[query] = {f"d{doc}": int(random.choice(GRADES)) for doc in judged}
        if random.random() < 0.9:
            scores = random.integers(0, 6, len(found)) if tied else random.permutation(len(found))
            run[query] = {f"d{doc}": s / 8 for doc, s in zip(found, scores.tolist(), strict=True)}
    return qrels, run


QRELS, RUN = collection(1)
OTHER_QRELS, OTHER_RUN = collection(2)


def per_query(source, measures, qrels, run):
    return {(m.query_id, m.measure): m.value for m in source.iter_calc(measures, qrels, run)}


def compared(ir_measures, text, qrels, run, within=1e-9):
    measure = ir_measures.parse_measure(text)
    theirs = per_query(ir_measures, [measure], qrels, run)
    provider = register(first=False)
    assert provider.supports(measure)
    ours = per_query(provider, [measure], qrels, run)
    assert ours.keys() == theirs.keys()
    assert ours == pytest.approx(theirs, abs=within)
    assert any(ours.values())


@pytest.mark.parametrize("text", OF_TREC_EVAL.split())
def test_trec_evals_measures__as_pytrec_eval_and_ir_measures_have_them(ir_measures, text):
    pytest.importorskip("pytrec_eval")
    for qrels, run in ((QRELS, RUN), (OTHER_QRELS, OTHER_RUN)):
        compared(ir_measures, text, qrels, run)


@pytest.mark.parametrize("text", OF_TREC_EVAL.split())
def test_names_in_text__have_the_values_of_ir_measures_or_are_refused(ir_measures, text):
    pytest.importorskip("pytrec_eval")
    options = ("judged_only", "{0:1,")
    theirs = per_query(ir_measures, [ir_measures.parse_measure(text)], QRELS, RUN)
    if any(option in text for option in options):
        with pytest.raises(FastRankEvalError):
            trec_report(QRELS, RUN, measures=text, version=9)
        return
    report = trec_report(QRELS, RUN, measures=text, version=9)
    ours = dict(zip(report.queries, (values[0] for values in report.by_query), strict=True))
    assert [line.name for line in report.lines] == [text]
    found = {query: value for (query, _), value in theirs.items() if query in ours}
    assert ours == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize("text", ["AP", "RR", "nDCG@3", "P@2", "Bpref", "infAP", "R@4"])
def test_tied_documents__stand_as_in_trec_eval(ir_measures, text):
    pytest.importorskip("pytrec_eval")
    compared(ir_measures, text, *collection(3, tied=True))


@pytest.mark.parametrize("text", OF_CWL_EVAL.split())
def test_user_models__as_cwl_eval_has_them(ir_measures, text):
    pytest.importorskip("cwl")
    for qrels, run in ((QRELS, RUN), (OTHER_QRELS, OTHER_RUN)):
        compared(ir_measures, text, qrels, run)


@pytest.mark.parametrize("text", OF_GDEVAL)
def test_gdevals_measures__to_the_five_decimals_it_prints(ir_measures, text):
    if not ir_measures.gdeval.is_available():
        pytest.skip("gdeval needs perl")
    compared(ir_measures, text, QRELS, RUN, within=5.1e-6)


@pytest.mark.parametrize("text", NOT_OURS.split())
def test_measure_that_is_not_ours__is_not_supported(ir_measures, text):
    provider = register(first=False)
    measure = ir_measures.parse_measure(text)
    assert not provider.supports(measure)
    with pytest.raises(ValueError, match="unsupported measure"):
        provider.evaluator([measure], QRELS)


def test_register__asks_us_first_and_leaves_the_rest_to_others(ir_measures, monkeypatch):
    measures = [ir_measures.parse_measure(t) for t in ("AP", "nDCG@5", "NumRel", "NumQ", "P@3")]
    before = ir_measures.calc_aggregate(measures, QRELS, RUN)
    provider = register()
    assert register() is not provider
    names = [one.NAME for one in ir_measures.DefaultPipeline.providers]
    assert [i for i, name in enumerate(names) if name == NAME] == [0, len(names) - 1]
    assert ir_measures.providers.registry[NAME].NAME == NAME
    asked = []
    kept = ir_measures.pytrec_eval.evaluator
    monkeypatch.setattr(
        ir_measures.pytrec_eval, "evaluator", lambda m, q: asked.extend(m) or kept(m, q)
    )
    assert ir_measures.calc_aggregate(measures, QRELS, RUN) == pytest.approx(before, abs=1e-12)
    assert asked == [ir_measures.NumQ]
    unregister()
    assert NAME not in ir_measures.providers.registry
    assert NAME not in [one.NAME for one in ir_measures.DefaultPipeline.providers]


@pytest.mark.parametrize("text", [*OF_TREC_EVAL.split(), *OF_CWL_EVAL.split(), *OF_GDEVAL])
def test_register__leaves_the_numbers_of_others_alone(ir_measures, text):
    measure = ir_measures.parse_measure(text)
    qrels, run = collection(3, tied=True)
    if not ir_measures.DefaultPipeline.supports(measure):
        pytest.skip("its provider is not installed")
    before = per_query(ir_measures, [measure], qrels, run)
    register()
    assert per_query(ir_measures, [measure], qrels, run) == pytest.approx(before, abs=1e-12)


def test_runs_and_judgements__of_any_form_that_ir_measures_takes(ir_measures):
    pandas = pytest.importorskip("pandas")
    qrels = [ir_measures.Qrel(q, d, g) for q, docs in QRELS.items() for d, g in docs.items()]
    run = [ir_measures.ScoredDoc(q, d, s) for q, docs in RUN.items() for d, s in docs.items()]
    measures = [ir_measures.AP, ir_measures.nDCG @ 5, ir_measures.Judged @ 10]
    provider = register()
    wanted = per_query(provider, measures, QRELS, RUN)
    forms = [
        (qrels, run),
        (iter(qrels), iter(run)),
        (pandas.DataFrame(qrels), pandas.DataFrame(run)),
    ]
    for given in forms:
        assert per_query(provider, measures, *given) == wanted
    evaluator = ir_measures.evaluator(measures, QRELS)
    for one in (RUN, OTHER_RUN):
        found = {(m.query_id, m.measure): m.value for m in evaluator.iter_calc(one)}
        assert found == per_query(provider, measures, QRELS, one)
    assert dict(provider.calc(measures, QRELS, RUN).aggregated) == pytest.approx(
        ir_measures.calc_aggregate(measures, QRELS, RUN)
    )


def test_document_given_twice__the_last_counts(ir_measures):
    pandas = pytest.importorskip("pandas")
    twice = pandas.DataFrame(
        {"query_id": ["1"] * 3, "doc_id": ["a", "b", "a"], "score": [3.0, 2.0, 1.0]}
    )
    assert register().calc_aggregate([ir_measures.RR], {"1": {"a": 1}}, twice) == {
        ir_measures.RR: 0.5
    }


@pytest.mark.parametrize(
    "qrels,run",
    [
        ({"1": {"a": 1}}, {}),
        ({"1": {"a": 1}}, {"2": {"a": 1.0}}),
        ({"1": {}}, {"1": {"a": 1.0}}),
        ({"1": {"a": -1}}, {"1": {"a": 1.0}}),
        ([], {"1": {"a": 1.0}}),
    ],
    ids=["empty run", "other query", "nothing judged", "negative", "empty judgements"],
)
def test_query_without_anything_in_common__counts_as_0(ir_measures, qrels, run):
    measures = [ir_measures.AP, ir_measures.AP(judged_only=True), ir_measures.P @ 5]
    found = per_query(register(), measures, qrels, run)
    assert found == {("1", measure): 0.0 for measure in measures if qrels}


def test_register__without_ir_measures__says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(ArgumentError, match=r"pip install 'fastrank_eval\[ir_measures\]'"):
        register()
