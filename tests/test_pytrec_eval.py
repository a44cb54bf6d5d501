"""The module that stands in for pytrec_eval, beside pytrec_eval-terrier."""

import io
import json
import math
import re

import numpy as np
import pytest

import fastrank_eval as fe
from fastrank_eval import pytrec_eval as ours
from fastrank_eval import trec

peer = pytest.importorskip("pytrec_eval")

QRELS = {"q1": {"d1": 0, "d2": 1, "d3": 0}, "q2": {"d2": 1, "d3": 1}}
RUN = {"q1": {"d1": 1.0, "d2": 0.0, "d3": 1.5}, "q2": {"d1": 1.5, "d2": 0.2, "d3": 0.5}}


def random_case(seed):
    """Ties, ties of float32, queries that one side lacks, empty dicts, negative grades."""
    draw = np.random.default_rng(seed)
    qrels, run = {}, {}
    for query in (f"q{i}" for i in range(draw.integers(1, 8))):
        docs = [f"d{i}" for i in draw.permutation(60)[: draw.integers(1, 40)]]
        levels, unit = draw.choice([2, 5, 1000]), draw.choice([1, 0.5, 1e-9])
        if draw.random() < 0.9:
            some = docs[: draw.integers(len(docs) + 1)]
            run[query] = {doc: float(draw.integers(levels) * unit) for doc in some}
        if draw.random() < 0.9:
            judged = ["other", *draw.permutation(docs)[: draw.integers(len(docs) + 1)].tolist()]
            qrels[query] = {doc: int(draw.choice([0, 0, 1, 1, 2, 3])) for doc in judged}
            qrels[query]["other"] = -1 if draw.random() < 0.1 else 1
    return qrels, run


def assert_equal(found, expected):
    assert list(found) == list(expected)
    for query, values in expected.items():
        assert list(found[query]) == list(values)
        for name, value in values.items():
            if math.isnan(value):  # 0 / 0 there
                assert name.startswith(("iprec_at_recall", "11pt_avg"))
                assert found[query][name] == 0
            else:
                assert found[query][name] == pytest.approx(value, abs=1e-12), (query, name)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "measures, level, judged_only",
    [
        (ours.supported_measures, 1, False),
        ({"map", "P_5", "ndcg_cut.3,10", "recip_rank", "P"}, 2, True),
    ],
)
def test_random_dicts__values_and_names_of_pytrec_eval(seed, measures, level, judged_only):
    qrels, run = random_case(seed)
    expected = peer.RelevanceEvaluator(qrels, measures, level, judged_only).evaluate(run)
    evaluator = ours.RelevanceEvaluator(qrels, measures, level, judged_only)
    assert_equal(evaluator.evaluate(run), expected)
    assert evaluator.evaluate(run) == evaluator.evaluate(run)


@pytest.mark.parametrize("judged_only", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_dicts__have_the_values_of_their_columns(seed, judged_only):
    """Judged documents are looked up in dicts; columns become a table of all documents."""
    qrels, run = random_case(seed)
    run = {query: docs for query, docs in run.items() if docs}
    measures = {*ours.supported_measures, "Hole@10", "Unjudged@5", "Compat", "RBPres(p=0.8)", "Q"}
    evaluator = ours.RelevanceEvaluator(qrels, measures, judged_docs_only_flag=judged_only)
    assert evaluator.evaluate(run) == evaluator.evaluate(trec.read_run(run))


@pytest.mark.parametrize(
    "measures, names",
    [
        ({"map", "ndcg"}, {"map", "ndcg"}),
        ({"P_5"}, {"P_5"}),
        ({"P.5,10"}, {"P_5", "P_10"}),
        ({"P_5,10"}, {"P_5", "P_10"}),
        ({"P_5", "P.10"}, {"P_5", "P_10"}),
        ({"P", "P_5"}, {"P_5"}),
        ({"iprec_at_recall_.5"}, {"iprec_at_recall_0.50"}),
        ({"success"}, {"success_1", "success_5", "success_10"}),
        (("official",), None),
        (["set"], None),
        (["all_trec"], None),
    ],
)
def test_measures__have_the_lines_of_pytrec_eval(measures, names):
    found = ours.RelevanceEvaluator(QRELS, measures).evaluate(RUN)
    if names is None:
        names = set(peer.RelevanceEvaluator(QRELS, measures).evaluate(RUN)["q1"])
    assert set(found["q1"]) == names


def test_names__are_those_of_pytrec_eval():
    assert ours.supported_measures == set(peer.supported_measures)
    for name, measures in ours.supported_nicknames.items():
        assert set(measures) == set(peer.supported_nicknames[name])


def test_measures_of_this_package__keep_their_names():
    found = ours.RelevanceEvaluator(QRELS, ["nDCG@10", "ndcg_cut_10"]).evaluate(RUN)
    assert found["q2"]["nDCG@10"] == found["q2"]["ndcg_cut_10"]


def test_runs__without_queries__have_no_values():
    evaluator = ours.RelevanceEvaluator(QRELS, {"map"})
    assert evaluator.evaluate({}) == {}
    assert evaluator.evaluate({"q3": {"d1": 1.0}}) == {}
    assert evaluator.evaluate({"q2": {}, "q1": RUN["q1"]}) == {
        "q2": {"map": 0},
        "q1": {"map": 1 / 3},
    }


@pytest.mark.parametrize("form", ["file", "MTEB"])
def test_queries__without_results_in_other_forms__count_0(form, tmp_path):
    run = {"q1": {"d2": 0.5}, "q2": {}}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run), encoding="utf-8")
    source = {"file": path, "MTEB": {"mteb_model_meta": {}, "default": {"test": run}}}[form]
    evaluator = ours.RelevanceEvaluator(QRELS, {"map"})
    assert evaluator.evaluate(source) == evaluator.evaluate(run)
    assert evaluator.evaluate(source)["q2"] == {"map": 0.0}


def test_dicts__are_ranked_without_a_row_for_each_document(monkeypatch):
    evaluator = ours.RelevanceEvaluator(
        {"q1": {"d1": 1, "d2": 0}}, ["map", "P_1", "recip_rank", "bpref", "Hole@1"]
    )
    monkeypatch.delattr("fastrank_eval.pytrec_eval.rank_documents")
    values = evaluator.evaluate({"q1": {"d1": 0.5, "d3": 1.0}})["q1"]
    assert values["recip_rank"] == 0.5


def test_judgements__changed_after_the_evaluator__count_as_they_were():
    qrels = {"q1": {"d2": 1}}
    evaluator = ours.RelevanceEvaluator(qrels, {"map"})
    qrels["q1"]["d1"] = 1
    del qrels["q1"]["d2"]
    assert evaluator.evaluate(RUN)["q1"]["map"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("kind", [int, float, np.int32, np.float32])
def test_numbers_and_ids__may_be_of_other_types(kind):
    expected = {"7": {"ndcg": 1.0}}
    qrels = {7: {1: kind(2), 2: kind(0)}}
    assert (
        ours.RelevanceEvaluator(qrels, {"ndcg"}).evaluate({"7": {1: kind(3), "2": 1}}) == expected
    )


def test_fractions__keep_their_value():
    values = ours.RelevanceEvaluator({"q": {"a": 0.5, "b": 1.5}}, {"ndcg"}).evaluate(
        {"q": {"a": 2.0, "b": 1.0}}
    )
    gain = 1.5 / math.log2(3)
    assert values["q"]["ndcg"] == pytest.approx((0.5 + gain) / (1.5 + 0.5 / math.log2(3)))


@pytest.mark.parametrize(
    "qrels, measures, run, message",
    [
        (QRELS, {"mapp"}, RUN, "must name a measure of trec_eval 9 .*'mapp'.*map"),
        (QRELS, set(), RUN, "must name at least one"),
        ({"q1": {"d1": "x"}}, {"map"}, RUN, "the grade 'x' is no finite number"),
        (QRELS, {"map"}, {"q1": {"d1": math.nan}}, "the score nan is no number"),
        (QRELS, {"map"}, {"q1": {1: 1.0, "1": 2.0}}, "'1' is there as text and as an integer"),
        (QRELS, {"map"}, {"q1": {None: 1.0}}, "ids are text or integers"),
    ],
)
def test_wrong_input__is_refused(qrels, measures, run, message):
    with pytest.raises(fe.FastRankEvalError, match=message):
        ours.RelevanceEvaluator(qrels, measures).evaluate(run)


def test_files__are_parsed_as_by_pytrec_eval():
    run = "q1 Q0 d7 1 2.5 bm25\nq1 Q0 d3 2 -1e-3 bm25\nq2 Q0 d7 1 3 bm25\n"
    qrels = "q1 0 d3 1\nq1 0 d5 0\nq2 0 d1 -1\n"
    for text, parse in ((run, "parse_run"), (qrels, "parse_qrel")):
        expected = getattr(peer, parse)(io.StringIO(text))
        for lines in (io.StringIO(text), text.splitlines(), text.splitlines(keepends=True)):
            assert getattr(ours, parse)(lines) == expected
    assert ours.parse_run(run.splitlines())["q3"] == {}
    twice = (
        "Query 'q1' has document 'd7' twice: the lines passed, line 1 and line 4. Leave one out, "
        "or read it by fastrank_eval.trec.read_run(..., duplicates='first')."
    )
    with pytest.raises(fe.SourceError, match=f"^{re.escape(twice)}$"):
        ours.parse_run([run, "q1 Q0 d7 1 2 bm25"])
    with pytest.raises(fe.SourceError, match=r"^the lines passed, line 2: its grade "):
        ours.parse_qrel(["q1 0 d3 1", "q1 0 d5 x"])


@pytest.mark.parametrize("name", ["map", "num_ret", "gm_map"])
def test_values__are_aggregated_as_by_pytrec_eval(name):
    values = [0.25, 0.5, -1.0]
    expected = peer.compute_aggregated_measure(name, values)
    assert ours.compute_aggregated_measure(name, values) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("name", ["map", "gm_map"])
def test_no_values__have_a_sum_but_no_mean(name):
    assert ours.compute_aggregated_measure("num_ret", []) == 0
    with pytest.raises(fe.ArgumentError, match=f"^values: .* mean of {name}, got none; check"):
        ours.compute_aggregated_measure(name, [])


@pytest.mark.parametrize("form", ["dicts", "table", "text"])
def test_judgments__for_several_runs__count_as_their_source(form):
    table = trec.read_qrels(QRELS)
    text = b"q1 0 d1 0\nq1 0 d2 1\nq1 0 d3 0\nq2 0 d2 1\nq2 0 d3 1\n"
    judgments = trec.Judgments({"dicts": QRELS, "table": table, "text": text}[form])
    assert repr(judgments) == "<Judgments of 5 documents for 2 queries>"
    for run in (RUN, trec.read_run(RUN), {"a": RUN, "b": trec.read_run(RUN)}):
        found = trec.evaluate(judgments, run, "AP,nDCG@10")
        assert found.records().equals(trec.evaluate(QRELS, run, "AP,nDCG@10").records())
    report = trec.trec_report(judgments, RUN)
    assert report.to_text() == trec.trec_report(QRELS, RUN).to_text()


def test_judgments__with_lines_that_may_be_comments__keep_the_note():
    text = b"q1 0 d1 1\n#q2 0 d2 1\n"
    for qrels in (text, trec.Judgments(text)):
        notes = trec.evaluate(qrels, RUN, "AP").document()["meta"]["notes"]
        assert "1 line begins with #" in " ".join(notes)


def test_judgments__of_subtopics__are_kept():
    rows = trec.read_diversity_qrels(b"q1 0 d3 1\nq1 2 d3 1\nq1 1 d5 1\n")
    run = {"q1": {"d5": 2.0, "d3": 1.0}}
    values = [
        trec.evaluate(one, run, "alpha_nDCG@5").records() for one in (rows, trec.Judgments(rows))
    ]
    assert values[0].equals(values[1])


def test_judgments__as_a_run__are_refused():
    with pytest.raises(fe.ArgumentError, match="run: must be a run, got Judgments"):
        trec.evaluate(QRELS, trec.Judgments(QRELS))
