"""One call for runs and judgements, from the forms that other tools have."""

import pickle
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import pytest

import fastrank_eval as fe
from fastrank_eval import trec
from tests.support.transcripts import Case, answers, cases

QRELS = {"q1": {"d3": 2, "d5": 0, "d7": 1}, "q2": {"d1": 1}, "q3": {"d9": 1}}
BM25 = {"q1": {"d7": 2.5, "d5": 1.5, "d3": 0.5}, "q2": {"d4": 1.0, "d1": 1.0}, "q4": {"d1": 1.0}}
OURS = {"q1": {"d3": 0.9, "d7": 0.5}, "q2": {"d1": 0.7, "d4": 0.1}}
MEASURES = "nDCG@10,AP,RR,P@1"
#: Columns of ids, of grades, and other columns of the frames of each tool.
TOOLS: dict[str, tuple[tuple[str, str], str, dict[str, Any]]] = {
    "ours": (("query", "doc"), "grade", {}),
    "PyTerrier": (("qid", "docno"), "label", {"query": "words of it", "docid": 7, "rank": 0}),
    "ir_measures": (("query_id", "doc_id"), "relevance", {"iteration": "0"}),
    "ranx": (("q_id", "doc_id"), "score", {}),
    "BEIR": (("query-id", "corpus-id"), "score", {}),
}


def frame(
    pairs: dict[str, dict[str, Any]], ids: tuple[str, str], number: str, other: dict[str, Any]
) -> pa.Table:
    rows = [
        {ids[0]: query, ids[1]: doc, number: value, **other}
        for query, docs in pairs.items()
        for doc, value in docs.items()
    ]
    return pa.Table.from_pylist(rows)


def values(result: fe.Result) -> list[tuple[str, str, float]]:
    return [(value.score, value.name, value.value) for value in result]


@pytest.fixture(scope="module")
def expected() -> list[tuple[str, str, float]]:
    return values(trec.evaluate(QRELS, {"bm25": BM25, "ours": OURS}, MEASURES))


def test_evaluate__ir_measures__counts_judged_queries_without_a_run_by_default() -> None:
    theirs = trec.evaluate(QRELS, BM25, "AP", profile="ir_measures")
    assert theirs.meta.conventions["complete"] is True
    counted = trec.evaluate(QRELS, BM25, "AP", complete=True)
    assert counted.value("AP") == theirs.value("AP")
    kept = trec.evaluate(QRELS, BM25, "AP", profile="ir_measures", complete=False)
    assert kept.value("AP") == pytest.approx(theirs.value("AP") * 3 / 2)
    assert trec.evaluate(QRELS, BM25, "AP", profile="trec_eval_9").value("AP") == kept.value("AP")


def test_evaluate__a_query_that_one_of_several_runs_lacks__is_noted() -> None:
    partial = {"q1": OURS["q1"]}
    result = trec.evaluate(QRELS, {"bm25": BM25, "ours": partial, "none": {}}, "AP")
    assert result.meta.conventions["unanswered"] == {"bm25": 1, "ours": 2, "none": 3}
    assert result.meta.conventions["only_in_qrels"] == 1
    one = "bm25: 1 of 3 judged queries has no result: counts 0"
    two = "none: 3 of 3 judged queries have no result: count 0; complete=False leaves them out"
    for report in (result, result.compare(baseline="bm25")):
        assert one in report.to_markdown()
        assert two in report.to_markdown()
        assert one in report.document()["meta"]["notes"]
    assert result["ours", "AP"].tolist() == [1, 0, 0]


@pytest.mark.parametrize("profile", ["trec_eval_10", "trec_eval_9"])
def test_evaluate__gains__are_found_by_the_names_that_are_asked_for_and_shown(profile) -> None:
    measures = ["ndcg.1=3", "nDCG(gain={2: 5})@10", "map"]
    result = trec.evaluate(QRELS, {"bm25": BM25, "ours": OURS}, measures, profile=profile)
    shown = [value.name for value in result if value.score == "bm25"]
    assert shown == ["ndcg_1=3", "nDCG(gain={2: 5})@10", "map"]
    for value in result:
        assert result.value(value.name, value.score) == value.value
        assert result[value.score, value.name].mean() == pytest.approx(value.value)
    assert result.value("nDCG(gain={1: 3})", "bm25") == result.value("ndcg_1=3", "bm25")
    comparison = result.compare(baseline="bm25")
    assert comparison.find("ndcg_1=3").delta == comparison.find("nDCG(gain={1: 3})").delta
    with pytest.raises(fe.MeasureError, match="cannot read the measure 'ndcg_1=4'"):
        result.value("ndcg_1=4", "bm25")


def test_evaluate__other_conventions__are_those_of_evaluate() -> None:
    table = trec.join(QRELS, BM25, complete=True).table
    ours = fe.evaluate(
        table, group="query", label="grade", score="score", measures=MEASURES,
        unretrieved="allow", unjudged="allow",
    )  # fmt: skip
    assert values(trec.evaluate(QRELS, BM25, MEASURES, profile=None)) == values(ours)


@pytest.mark.parametrize("tool", TOOLS)
def test_evaluate__frames_of_other_tools__need_no_names_of_columns(tool, expected) -> None:
    ids, grade, other = TOOLS[tool]
    qrels = frame(QRELS, ids, grade, other if grade != "label" else {})
    bm25 = frame(BM25, ids, "score", other if grade != "relevance" else {})
    runs: dict[str, Any] = {"bm25": bm25, "ours": frame(OURS, ids, "score", {})}
    assert values(trec.evaluate(qrels, runs, MEASURES)) == expected


@pytest.mark.parametrize("form", ["pandas", "polars", "parquet", "csv"])
def test_evaluate__frames_of_any_form__are_read(form, expected, own_folder) -> None:
    ids = ("qid", "docno")
    tables = {"bm25": frame(BM25, ids, "score", {}), "ours": frame(OURS, ids, "score", {})}
    tables["qrels"] = frame(QRELS, ids, "label", {})
    sources: dict[str, Any] = {}
    for name, table in tables.items():
        papq.write_table(table, f"{name}.parquet")
        pacsv.write_csv(table, f"{name}.csv")
        read = trec.read_qrels if name == "qrels" else trec.read_run
        sources[name] = {
            "pandas": table.to_pandas(), "polars": pl.DataFrame(table),
            "parquet": own_folder / f"{name}.parquet", "csv": read(f"{name}.csv", format="csv"),
        }[form]  # fmt: skip
    assert values(trec.evaluate(sources.pop("qrels"), sources, MEASURES)) == expected


def test_evaluate__files_and_columns__are_runs(expected, tmp_path) -> None:
    lines = [f"{q} Q0 {d} 0 {s} x\n" for q, docs in BM25.items() for d, s in docs.items()]
    (tmp_path / "bm25.run").write_text("".join(lines))
    judged = [f"{q} 0 {d} {g}\n" for q, docs in QRELS.items() for d, g in docs.items()]
    (tmp_path / "qrels.txt").write_text("".join(judged))
    ours = frame(OURS, ("qid", "docno"), "score", {}).to_pydict()
    runs = {"bm25": tmp_path / "bm25.run", "ours": ours}
    assert values(trec.evaluate(tmp_path / "qrels.txt", runs, MEASURES)) == expected
    assert values(trec.evaluate(QRELS, ours, "AP"))[0][2] == expected[5][2]


BINARY = {"q1": {"d3": 1, "d5": 0, "d7": 1}, "q2": {"d1": 1, "d4": 1}, "q3": {"d9": 1}}


def test_evaluate__several_runs_without_names__says_how_to_pass_them(tmp_path: Path) -> None:
    table = frame(BM25, ("qid", "docno"), "score", {})
    lines = "".join(f"{q} Q0 {d} 0 {s} x\n" for q, docs in BM25.items() for d, s in docs.items())
    paths = [tmp_path / name for name in ("a.run", "b.run")]
    for path in paths:
        path.write_text(lines)
    several: list[Any] = [[BM25, OURS], (BM25, OURS), [table, table], [table.to_pandas()] * 2]
    for runs in (*several, paths, pa.concat_tables([table, table])):
        with pytest.raises(
            fe.FastRankEvalError, match=r"several runs pass \{'bm25': \.\.\., "
        ) as raised:
            trec.evaluate(QRELS, runs, "AP")
        assert "concat_tables" not in str(raised.value)
    with pytest.raises(fe.SourceError, match=r"pass what read_run\(\.\.\., duplicates='first'\)"):
        trec.evaluate(QRELS, paths, "AP")
    kept = trec.read_run(paths, duplicates="first")
    assert trec.evaluate(QRELS, kept, "AP").value("AP") == trec.evaluate(QRELS, BM25, "AP").value(
        "AP"
    )
    with pytest.raises(fe.SourceError, match=r"Several runs are a mapping, \{'bm25'"):
        trec.trec_report(QRELS, [BM25, OURS])


def test_evaluate__frames_in_swapped_order__says_so(tmp_path: Path) -> None:
    ids = ("qid", "docno")
    qrels, run = frame(QRELS, ids, "label", {}), frame(BM25, ids, "score", {})
    looks_like_a_run = "looks like a run, which comes second; pass the judgements first"
    pairs: list[tuple[Any, Any]] = [(run, qrels), (run.to_pandas(), qrels.to_pandas())]
    pacsv.write_csv(run, tmp_path / "run.csv")
    pacsv.write_csv(qrels, tmp_path / "qrels.csv")
    for first, second in (*pairs, (tmp_path / "run.csv", tmp_path / "qrels.csv"), (run, BM25)):
        with pytest.raises(fe.ColumnError, match=looks_like_a_run):
            trec.evaluate(first, second, "AP")
    looks_like_judgements = "looks like judgements, which come first; pass the run second"
    for second in (qrels, qrels.to_pydict(), {"ours": qrels}, tmp_path / "qrels.csv"):
        with pytest.raises(fe.FastRankEvalError, match=looks_like_judgements):
            trec.evaluate(QRELS, second, "AP")
    assert trec.join(run, BM25, grade="score").queries == 3


def test_evaluate__names_of_columns__are_arguments_too() -> None:
    names = {"query": "topic", "doc": "id", "grade": "rel", "score": "sim"}
    qrels = frame(QRELS, ("topic", "id"), "rel", {})
    run = frame(BM25, ("topic", "id"), "sim", {})
    wanted = trec.evaluate(QRELS, BM25, "AP").value("AP")
    for forms in ((qrels, run), (qrels.to_pydict(), run.to_pydict()), (qrels, {"bm25": run})):
        assert trec.evaluate(*forms, "AP", **names).value("AP") == wanted
        assert trec.join(*forms, **names).queries == 2
    report = trec.trec_report(qrels, run, measures="AP", complete=True, **names)
    assert report.summary[0] == trec.evaluate(QRELS, BM25, "AP", complete=True).value("AP")


def test_evaluate__names__mean_what_they_do_in_the_command() -> None:
    result = trec.evaluate(QRELS, BM25, "P.5,10,AP,rbp,ndcg.1=3,2=9,recall")
    names = [value.display_name for value in result]
    assert names[:5] == ["P_5", "P_10", "AP", "rbp", "ndcg_1=3,2=9"]
    assert names[5] == "recall_5"
    assert len(names) == 14
    report = trec.trec_report(QRELS, BM25, measures="rbp,ndcg.1=3,2=9,recall", complete=True)
    wanted = trec.evaluate(QRELS, BM25, "rbp,ndcg.1=3,2=9,recall", complete=True)
    assert sorted(report.summary) == sorted(value.value for value in wanted)
    assert result.value("rbp") == result.value("RBP")
    assert [value.display_name for value in trec.evaluate(QRELS, BM25, "P", profile=None)] == ["P"]
    assert "map" in [value.display_name for value in trec.evaluate(QRELS, BM25, "official")]
    for request in ("runid", "relstring.5", "11pt_avg..25,.5"):
        with pytest.raises(fe.ArgumentError, match="must be measures"):
            trec.evaluate(QRELS, BM25, request)


#: BEIR's case: the best document of q2 is the query itself.
JUDGED = {"q1": {"d1": 1}, "q2": {"d2": 1}}
RETRIEVED = {"q1": {"d2": 0.9, "d1": 0.8}, "q2": {"d2": 0.9, "q2": 0.95}}


def test_evaluate__names_of_mteb__are_ours() -> None:
    names = ["ndcg_at_10", "map_at_100", "recall_at_5", "precision_at_1", "mrr_at_10"]
    ours = ["nDCG@10", "AP@100", "R@5", "P@1", "RR@10"]
    for profile in ("trec_eval_10", "ranx", None):
        result = trec.evaluate(QRELS, BM25, names, profile=profile)
        wanted = trec.evaluate(QRELS, BM25, ours, profile=profile)
        assert [v.name for v in result] == names
        assert [(v.measure, v.value) for v in result] == [(v.measure, v.value) for v in wanted]
        assert result.value("ndcg_at_10") == wanted.value("nDCG@10")
    rows = result.document()["results"]
    assert (rows[0]["measure"], rows[0]["name"]) == ("nDCG@10", "ndcg_at_10")


def test_evaluate__accuracy_with_a_cutoff__is_success_but_for_ir_measures() -> None:
    for profile in ("trec_eval_9", "trec_eval_10", None):
        result = trec.evaluate(QRELS, BM25, "Accuracy@1,Success@2", profile=profile)
        assert [value.measure for value in result] == ["Success@1", "Success@2"]
        wanted = trec.evaluate(QRELS, BM25, "Success@1", profile=profile)
        assert result.value("Accuracy@1") == wanted.value("Success@1")
    for name in ("Accuracy@1", "accuracy@1", "Accuracy(rel=2)@1"):
        with pytest.raises(fe.MeasureError, match="share of pairs in the right order; take Succ"):
            trec.evaluate(QRELS, BM25, name, profile="ir_measures")
    found = trec.evaluate(QRELS, BM25, "Success@1", profile="ir_measures")
    assert found.value("Success@1") == 1 / 3


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"measures": "map,bpref,infAP,Judged@5,ndcg.1=3", "undefined": "skip", "level": 0.5},
        {"measures": "nDCG@3,RBP,num_ret,num_rel_ret,R@5", "complete": False, "confidence": 0.9},
        {"measures": "nDCG@3,Hole@5,Accuracy@2,MRR@10", "profile": "beir"},
        {"measures": "AP,P@3", "judged_only": True, "drop_self": True, "score_type": "float32"},
        {"measures": "AP,RR", "baseline": "one"},
        {"measures": "RR,P@3,ERR", "undefined": "skip"},
        {"measures": "nDCG@3,MRR@10,Hole@2", "profile": "mteb", "complete": True},
        {"measures": "AP,RR", "profile": None},
    ],
    ids=str,
)
def test_evaluate__dicts__have_the_bits_of_columns(options: dict[str, Any]) -> None:
    random, docs = Random(7), [f"d{i}" for i in range(9)]  # noqa: S311

    def numbers(query: str, values: list[float]) -> dict[str, float]:
        ids = random.sample([query, *docs], random.randint(1, 10))
        return {doc: random.choice(values) for doc in ids}

    few, many = [0.5, 1.0, -0.0, 0.0, 1 - 1e-9], [random.random() for _ in range(99)]
    for _ in range(12):
        queries = [f"q{i}" for i in range(6)]
        qrels = {query: numbers(query, [-1, 0, 0, 1, 2]) for query in queries[:5]}
        names = ["one", "two"] if options.get("complete") is not False else ["one"]
        runs = {
            name: {q: numbers(q, few if name == "one" else many) for q in random.sample(queries, 5)}
            for name in names
        }
        if options.get("profile") == "beir":  # it leaves out queries that a run lacks
            runs["two"] = {query: numbers(query, many) for query in runs["one"]}
        of_dicts = trec.evaluate(qrels, runs, **options)
        tables = {name: trec.read_run(run) for name, run in runs.items()}
        of_columns = trec.evaluate(trec.read_qrels(qrels), tables, **options)
        assert repr([*of_dicts]) == repr([*of_columns])
        assert of_dicts.per_group.equals(of_columns.per_group)
        assert of_dicts.meta.conventions == of_columns.meta.conventions


@pytest.mark.parametrize(
    "measures, profile",
    [
        ("nDCG@10,AP,RR,P@10,R@10", "trec_eval_10"),
        ("RR", "trec_eval_9"),
        ("nDCG@3,MRR@10,Hole@2", "mteb"),
        ("nDCG@3,AP,R@3", "beir"),
    ],
)
def test_evaluate__dicts__are_ranked_without_a_row_for_each_document(
    measures: str, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("fastrank_eval.integrations.trec.evaluate.join_runs")
    run = {"q1": {"d1": 0.5, "d3": 1.0}}
    result = trec.evaluate({"q1": {"d1": 1, "d2": 0}}, run, measures, profile=profile)
    assert result.meta.conventions["judged_documents"] == {"score": 1}


def test_evaluate__drop_self__leaves_out_the_document_that_is_the_query() -> None:
    kept = trec.evaluate(JUDGED, RETRIEVED, "RR,nDCG@10")
    assert [value.value for value in kept] == pytest.approx([0.5, 0.6309297535714574])
    for form in (RETRIEVED, frame(RETRIEVED, ("query", "doc"), "score", {})):
        result = trec.evaluate(JUDGED, form, "RR,nDCG@10", drop_self=True)
        assert [value.value for value in result] == pytest.approx([0.75, 0.8154648767857287])
        assert result.meta.conventions["drop_self"] is True
        notes = result.document()["meta"]["notes"]
        assert notes == ["the run: 1 of 4 documents left out by drop_self"]
    report = trec.trec_report(JUDGED, RETRIEVED, measures="recip_rank,num_ret", drop_self=True)
    assert report.summary == (3.0, 0.75)
    assert report.notes == ("run: 1 of 4 documents left out by drop_self",)


def test_evaluate__drop_self__keeps_judgements_and_queries_without_another_document() -> None:
    # MTEB's test of it.
    qrels = {"0": {"0": 1, "1": 1}, "1": {"1": 1}}
    run = {"0": {"0": 1.0, "1": 0.9, "2": 0.8}, "1": {"0": 0.0, "1": 1.0, "2": 0.0}}
    names = "ndcg_at_1,ndcg_at_2,ndcg_at_3,map_at_3,recall_at_3,precision_at_3"
    assert [v.value for v in trec.evaluate(qrels, run, names)][:3] == [1, 1, 1]
    result = trec.evaluate(qrels, run, names, drop_self=True, profile="trec_eval_9")
    wanted = [0.5, 0.306573596, 0.306573596, 0.25, 0.25, 1 / 6]
    assert [v.value for v in result] == pytest.approx(wanted)
    alone = trec.evaluate(qrels, {"1": {"1": 1.0}}, "AP", drop_self=True, profile="trec_eval_9")
    assert (alone.value("AP"), alone.meta.groups) == (0, 1)


def test_evaluate__skip_first__leaves_out_the_first_of_each_query() -> None:
    run = {"q1": {"a": 2.0, "d1": 1.0}, "q2": {"d2": 1.0, "x": 1.0}, "q3": {}}
    qrels = {**JUDGED, "q3": {"d3": 1}}
    for form in (run, {query: dict(reversed(docs.items())) for query, docs in run.items()}):
        result = trec.evaluate(qrels, form, "RR", skip_first=True)
        # Of equal scores the higher id is the first: x.
        assert result["RR"].tolist() == [1, 1, 0]
        notes = result.document()["meta"]["notes"]
        assert "the run: 2 of 4 documents left out by skip_first" in notes
    rest = trec.evaluate(JUDGED, RETRIEVED, "RR", drop_self=True, skip_first=True, most=1)
    assert rest["RR"].tolist() == [1, 0]
    notes = rest.document()["meta"]["notes"]
    assert notes[0] == "the run: 3 of 4 documents left out by drop_self, skip_first, most=1"


def test_cuts__follow_each_other() -> None:
    docs = {"q": 9.0, "a": 8.0, "b": 7.0, "c": 6.0, "d": 5.0}
    qrels = {"q": {"c": 1, "q": 1}}

    def relstring(**cuts: Any) -> object:
        report = trec.trec_report(qrels, {"q": docs}, measures="relstring", **cuts)
        return report.by_query[0][0]

    assert relstring() == "'1--1-'"
    assert relstring(drop_self=True) == "'--1-'"
    assert relstring(skip_first=True) == "'--1-'"
    assert relstring(drop_self=True, skip_first=True) == "'-1-'"
    assert relstring(drop_self=True, skip_first=True, most=2) == "'-1'"
    assert relstring(skip_first=True, most=3, judged_only=True) == "'1'"


def test_evaluate__hole__counts_documents_that_are_judged_for_no_query() -> None:
    qrels = {**JUDGED, "q3": {"q3": -1, "d3": 0}}
    run = {"q1": {"d2": 0.9, "d1": 0.8}, "q2": {"d2": 0.9, "q2": 0.95}, "q4": {"d1": 1.0}}
    runs = {"ours": run, "few": {"q1": {"d9": 2.0, "q3": 1.0}, "q3": {"d3": 1.0}}}
    names = "nDCG@10,Hole@2,Unjudged@2,RR,hole_at_1"
    result = trec.evaluate(qrels, runs, names)
    # A document of negative grade is judged; a query without documents has no hole.
    assert result["ours", "Hole@2"].tolist() == [0, 0.5, 0]
    assert result["ours", "Unjudged@2"].tolist() == [0.5, 0.5, 0]
    assert result["few", "Hole@2"].tolist() == [0.5, 0, 0]
    assert [value.display_name for value in result][:5] == names.split(",")
    assert [value.score for value in result] == ["ours"] * 5 + ["few"] * 5
    assert result.value("Unjudged(judged='anywhere')@1", "ours") == pytest.approx(1 / 3)
    alone = {name: trec.evaluate(qrels, runs, name) for name in names.split(",")}
    for value in result:
        same = next(v for v in alone[value.display_name] if v.score == value.score)
        assert repr(value) == repr(same)
    others = [one for one in names.split(",") if "ole" not in one]
    assert result["ours", "RR"].tolist() == alone["RR"]["ours", "RR"].tolist()
    compared = trec.evaluate(qrels, runs, others).compare(baseline="ours")
    both = result.compare(baseline="ours")
    found = [v.delta for v in both if v.display_name in others]
    assert found == [v.delta for v in compared]
    assert both.find("Hole@2", "few").delta == pytest.approx(0)
    assert pickle.loads(pickle.dumps(result)).value("Hole@2", "ours") == pytest.approx(1 / 6)  # noqa: S301 - our own
    assert list(result.meta.conventions["measures"]) == list(result.measures)


def test_evaluate__beir__has_two_rules_for_ties_and_for_absent_queries() -> None:
    # The case of mteb#5092: one score for all, the relevant document first in the dict.
    qrels = {"q1": {"a": 1}, "q2": {"d2": 1}}
    run = {"q1": {"a": 1.0, "b": 1.0}}
    result = trec.evaluate(qrels, run, "MRR@1,NDCG@1,Accuracy@1,MAP@10", profile="beir")
    assert [v.name for v in result] == ["MRR@1", "NDCG@1", "Accuracy@1", "MAP@10"]
    assert [v.value for v in result] == [0.5, 0, 0.5, 0.5]
    assert [v.groups_used for v in result] == [2, 1, 2, 1]
    assert result.meta.conventions["complete"] == ["MRR@1", "Accuracy@1"]
    chosen = {name: result.meta.conventions[name] for name in ("profile", "ties", "score_type")}
    assert chosen == {"profile": "beir", "ties": "item", "score_type": "float32"}
    assert list(result.meta.conventions["measures"])[:2] == ["RR@1", "nDCG(gain='linear')@1"]
    table = result.per_group
    assert table["query"].to_pylist() == ["q1", "q2"]
    assert table["RR@1"].to_pylist() == [1, 0]
    assert table["AP@10"].to_pylist() == [0.5, None]
    assert result.document()["meta"]["notes"] == [
        "MRR@1, Accuracy@1: ties=input, score_type=given, as in BEIR 2.2.0",
        "1 of 2 judged queries has no result: counts 0 in MRR@1, Accuracy@1, and left out of other "
        "measures",
    ]
    alone = trec.evaluate(qrels, run, "MRR@1", profile="beir")
    assert alone.value("MRR@1") == 0.5
    assert alone.meta.conventions["ties"] == "input"
    given = trec.evaluate(qrels, run, "MRR@1,MAP@10", profile="beir", ties="item", complete=False)
    assert [v.value for v in given] == [0, 0.5]
    assert given.meta.conventions["complete"] is False


def test_evaluate__beir__drops_self_hits_unless_told_otherwise() -> None:
    assert trec.evaluate(JUDGED, RETRIEVED, "MRR@10", profile="beir").value("MRR@10") == 0.75
    kept = trec.evaluate(JUDGED, RETRIEVED, "MRR@10", profile="beir", drop_self=False)
    assert kept.value("MRR@10") == 0.5
    assert trec.evaluate(JUDGED, RETRIEVED, "MRR@10", profile="mteb").value("MRR@10") == 0.5


def test_evaluate__beir__several_runs_have_the_same_queries() -> None:
    runs = {"all": RETRIEVED, "one": {"q1": {"d1": 1.0}}}
    qrels = {**JUDGED, "q3": {"d3": 1}}
    with pytest.raises(fe.ArgumentError, match=r"but one lacks 1 of 2; pass complete=True"):
        trec.evaluate(qrels, runs, "MAP@10,MRR@10", profile="beir")
    found = trec.evaluate(qrels, runs, "MRR@10", profile="beir")
    assert [v.value for v in found] == pytest.approx([0.5, 1 / 3])
    same = trec.evaluate(qrels, {"all": RETRIEVED, "ours": JUDGED}, "MAP@10,MRR@10", profile="beir")
    assert [v.value for v in same] == pytest.approx([0.75, 0.5, 1, 2 / 3])
    compared = {line.name: line.delta for line in same.compare(baseline="all")}
    assert compared == pytest.approx({"MAP@10": 0.25, "MRR@10": 1 / 6})


def test_report__hole__is_that_of_evaluate() -> None:
    report = trec.trec_report(JUDGED, RETRIEVED, measures="Hole@2,unj.2,map")
    assert [line.name for line in report.lines] == ["map", "unj_2", "Hole@2"]
    assert report.summary == (0.5, 0.5, 0.25)
    assert report.by_query == ((0.5, 0.5, 0.0), (0.5, 0.5, 0.5))


def test_hole__needs_the_judgements_of_all_queries() -> None:
    rows = {"query": [1], "grade": [1], "score": [1.0]}
    for name in ("Hole@2", "Unjudged(judged=anywhere)"):
        with pytest.raises(fe.ArgumentError, match=r"take fastrank_eval\.trec\.evaluate, or Unju"):
            fe.evaluate(rows, group="query", label="grade", score="score", measures=name)
    for name, value in (("keep", "state"), ("baseline", "a")):
        with pytest.raises(fe.ArgumentError, match=f"{name}: must not be given for measures of"):
            trec.evaluate(JUDGED, {"a": RETRIEVED, "b": RETRIEVED}, "AP,Hole@2", **{name: value})
    state = trec.evaluate(JUDGED, RETRIEVED, "Hole@2", keep="state").state
    assert state.result().value("Hole@2") == 0.25


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("case", cases("trec_calls"), ids=lambda case: ascii(str(case)))
def test_call__is_answered_or_refused(case: Case) -> None:
    case.check(case.answer(globals()))


test_answers = answers(globals())
