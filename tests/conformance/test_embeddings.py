"""BEIR, MTEB, sentence-transformers and LlamaIndex, whose measures are written anew here.

They are a few lines each, from the definitions in their source; pytrec_eval computes what BEIR and
MTEB take from it. Where a wheel of BEIR or MTEB is installed, its own file is run beside them: it
needs none of the requirements of the wheel.
"""

from __future__ import annotations

import copy
import csv
import importlib.util
import math
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastrank_eval as fe
from fastrank_eval import pytrec_eval as stand_in
from tests.conformance.parity import Ledger
from tests.conformance.runs import Qrels, Run, random_run, real_run

pytrec_eval = pytest.importorskip("pytrec_eval")

DEPTHS = (1, 3, 10)
RUNS = {
    "binary judgements": random_run(71, grades=(0, 0, 1), levels=5),
    "graded judgements": random_run(72, grades=(0, 0, 1, 2, 3), levels=5),
    "pooled, not judged documents": random_run(73, grades=(-1, 0, 0, 1), levels=9),
    "ties that float32 makes": random_run(74, grades=(0, 1), levels=9, step=1e-9),
}
#: The same documents with other scores.
CHANGED = {
    name: (
        {q: dict(zip(docs, reversed(docs.values()), strict=True)) for q, docs in run.items()},
        qrels,
    )
    for name, (run, qrels) in RUNS.items()
}
VERSIONS = {
    "beir": "BEIR 2.2.0",
    "mteb": "MTEB 2.20.0",
    "sentence_transformers": "sentence-transformers 5.1",
    "llama_index": "LlamaIndex 0.14",
}
#: Values by query.
Values = dict[str, float]


@pytest.fixture(autouse=True)
def _named(ledger):
    anew = "Its measures are written anew from its source, before it rounds them. "
    for profile, version in VERSIONS.items():
        ledger.sources[profile] = f"the source of {version}"
        ledger.notes[profile] = [
            anew + "`fastrank_eval.trec.evaluate` was called on runs that lack queries, with ties."
            if profile in ("beir", "mteb")
            else anew + "Runs have no ties, and queries have relevant documents."
        ]


def with_absent_queries(run: Run, qrels: Qrels) -> tuple[Run, Qrels]:
    """Without some queries, with one that has no document, with documents that are queries."""
    names = list(run)
    run = {query: dict(docs) for query, docs in run.items() if query not in names[3::7]}
    run[names[4]] = {}
    for query in names[5::11]:
        if query in run:
            run[query] = {query: 1.25, **run[query], "of another query": 1.125}
    qrels = {query: dict(docs) for query, docs in qrels.items()}
    qrels[names[0]]["of another query"] = 1
    return run, qrels


def without_themselves(run: Run) -> Run:
    return {q: {doc: score for doc, score in run[q].items() if doc != q} for q in run}


def ordered(docs: dict[str, float], *, by_id: bool) -> list[str]:
    """Best first; of tied ones the higher id, or the one that stands first."""
    return sorted(
        docs, key=(lambda doc: (docs[doc], doc)) if by_id else docs.__getitem__, reverse=True
    )


def relevant(grades: dict[str, int]) -> set[str]:
    return {doc for doc, grade in grades.items() if grade > 0}


def rr(order: list[str], wanted: set[str], k: int) -> float:
    return next((1 / rank for rank, doc in enumerate(order[:k], 1) if doc in wanted), 0.0)


def hits(order: list[str], wanted: set[str], k: int) -> int:
    return sum(doc in wanted for doc in order[:k])


def own_measures(run: Run, qrels: Qrels, *, by_id: bool, undefined: float) -> dict[str, Values]:
    """The measures that BEIR and MTEB compute themselves."""
    found: dict[str, Values] = {}
    known = {doc for docs in qrels.values() for doc in docs}
    for query, docs in run.items():
        order, wanted = ordered(docs, by_id=by_id), relevant(qrels[query])
        for k in DEPTHS:
            most = min(len(wanted), k)
            for name, value in (
                ("MRR", rr(order, wanted, k)),
                ("R_cap", hits(order, wanted, k) / most if most else undefined),
                ("Hole", sum(doc not in known for doc in order[:k]) / k),
                ("Accuracy", float(hits(order, wanted, k) > 0)),
            ):
                found.setdefault(f"{name}@{k}", {})[query] = value
    return found


def measures_of_trec_eval(run: Run, qrels: Qrels) -> dict[str, Values]:
    names = {
        "NDCG": "ndcg_cut",
        "MAP": "map_cut",
        "Recall": "recall",
        "P": "P",
        "HitRate": "success",
    }
    cuts = ",".join(map(str, DEPTHS))
    wanted = {f"{name}.{cuts}" for name in names.values()}
    scores = pytrec_eval.RelevanceEvaluator(qrels, wanted).evaluate(run)
    return {
        f"{theirs}@{k}": {query: line[f"{name}_{k}"] for query, line in scores.items()}
        for theirs, name in names.items()
        for k in DEPTHS
    }


def compare(
    ledger: Ledger, sample: str, profile: str, run: Run, qrels: Qrels, found: dict[str, Values],
    mean: Callable[[str, Values], float],
) -> fe.Result:  # fmt: skip
    """Compare our values with theirs, query by query and on average."""
    result = fe.trec.evaluate(qrels, run, list(found), profile=profile)
    for theirs, values in found.items():
        ours = next(
            value.measure for value in result if value.name == theirs or value.measure == theirs
        )
        queries = result.per_group["query"].to_pylist()
        each = np.array([values.get(query, np.nan) for query in queries])
        known = ~np.isnan(each)
        ledger.agree(profile, sample, ours, theirs, result[theirs][known], each[known])
        ledger.agree(profile, sample, ours, theirs, result.value(theirs), mean(theirs, values))
    return result


def mean_of(_: str, values: Values) -> float:
    return float(np.nanmean(list(values.values())))


@pytest.mark.parametrize("name", RUNS)
def test_beir(ledger, name):
    run, qrels = with_absent_queries(*RUNS[name])
    left = without_themselves(run)
    trec = measures_of_trec_eval(left, qrels)
    own = own_measures(left, qrels, by_id=False, undefined=0.0)
    found = {key: values for key, values in (trec | own).items() if not key.startswith("HitRate")}

    def mean(measure: str, values: Values) -> float:
        # Its own measures count 0 for a query that the run lacks, those of pytrec_eval do not.
        return sum(values.values()) / len(qrels if measure in own else values)

    result = compare(ledger, name, "beir", run, qrels, found, mean)
    notes = result.document()["meta"]["notes"]
    absent = len(qrels.keys() - run.keys())
    assert any("documents left out by drop_self" in note for note in notes)
    assert any("ties=input, score_type=given, as in BEIR 2.2.0" in note for note in notes)
    assert result.meta.conventions["only_in_qrels"] == absent > 5
    assert any("and left out of other measures" in note for note in notes)
    assert np.isnan(result["NDCG@10"]).sum() == absent
    assert not np.isnan(result["MRR@10"]).any()


@pytest.mark.parametrize("name", RUNS)
def test_mteb(ledger, name):
    run, qrels = with_absent_queries(*RUNS[name])
    own = own_measures(run, qrels, by_id=True, undefined=math.nan)
    own = {key: values for key, values in own.items() if not key.startswith("Accuracy")}
    found = measures_of_trec_eval(run, qrels) | own
    result = compare(ledger, name, "mteb", run, qrels, found, mean_of)
    assert result.meta.groups == len(run)
    wanted = measures_of_trec_eval(without_themselves(run), qrels)["NDCG@10"]
    left = fe.trec.evaluate(qrels, run, "ndcg_at_10", profile="mteb", drop_self=True)
    assert left.value("ndcg_at_10") == pytest.approx(mean_of("", wanted), abs=1e-12)


def of_sets(run: Run, qrels: Qrels) -> tuple[Run, Qrels]:
    """Queries with relevant documents and results without ties, and these documents alone."""
    kept = {q: dict.fromkeys(relevant(docs), 1) for q, docs in qrels.items() if relevant(docs)}
    lists = {query: ordered(run[query], by_id=False) for query in kept if run.get(query)}
    ranked = {q: {doc: float(-rank) for rank, doc in enumerate(docs)} for q, docs in lists.items()}
    return ranked, {query: kept[query] for query in ranked}


def dcg(gains: list[int], k: int) -> float:
    return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains[:k]))


def average_precision(order: list[str], wanted: set[str], k: int, over: int) -> float:
    return sum(hits(order, wanted, i) / i for i in range(1, k + 1) if order[i - 1] in wanted) / over


@pytest.mark.parametrize("name", RUNS)
def test_sentence_transformers(ledger, name):
    run, qrels = of_sets(*RUNS[name])
    found: dict[str, Values] = {}
    for query, docs in run.items():
        order, wanted = list(docs), set(qrels[query])
        for k in DEPTHS:
            count = hits(order, wanted, k)
            gains = [int(doc in wanted) for doc in order]
            upto = min(k, len(order))
            for measure, value in (
                ("accuracy", float(count > 0)),
                ("precision", count / k),
                ("recall", count / len(wanted)),
                ("mrr", rr(order, wanted, k)),
                ("ndcg", dcg(gains, k) / dcg([1] * len(wanted), k)),
                ("map", average_precision(order, wanted, upto, min(k, len(wanted)))),
            ):
                found.setdefault(f"{measure}@{k}", {})[query] = value
    compare(ledger, name, "sentence_transformers", run, qrels, found, mean_of)


def test_sentence_transformers__grades_are_all_1_there(ledger):
    run, qrels = {"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1, "b": 3}}
    ours = fe.trec.evaluate(qrels, run, "ndcg@2", profile="sentence_transformers").value("ndcg@2")
    theirs = dcg([1, 1], 2) / dcg([1, 1], 2)
    ledger.differ("sentence_transformers", "ndcg@2", "all grades are 1", ours, theirs)


@pytest.mark.parametrize("name", RUNS)
def test_llama_index(ledger, name):
    run, qrels = of_sets(*RUNS[name])
    found: dict[str, Values] = {}
    for query, docs in run.items():
        order, wanted = list(docs), set(qrels[query])
        count = len(wanted.intersection(order))
        ideal = dcg([1] * len(wanted), len(wanted))
        for measure, value in (
            ("hit_rate", float(count > 0)),
            ("mrr", rr(order, wanted, len(order))),
            ("precision", count / len(order)),
            ("recall", count / len(wanted)),
            ("AP", average_precision(order, wanted, len(order), len(wanted))),
            ("ndcg", dcg([int(doc in wanted) for doc in order], len(order)) / ideal),
        ):
            found.setdefault(measure, {})[query] = value
    compare(ledger, name, "llama_index", run, qrels, found, mean_of)


@pytest.mark.parametrize("profile", ["beir", "mteb"])
def test_real_run(ledger, shared_data, profile):
    run, qrels = real_run(shared_data, "adhoc_351_450_bm25")
    run = {query: docs for query, docs in run.items() if query in qrels}
    found = measures_of_trec_eval(run, qrels)
    found = {key: values for key, values in found.items() if not key.startswith("HitRate")}
    compare(ledger, "adhoc_351_450_bm25", profile, run, qrels, found, mean_of)


# ---- beside their own files ----------------------------------------------------------------------


@pytest.fixture
def mteb(monkeypatch) -> types.ModuleType:
    """The file of MTEB; the types of its results, which it imports, are a dict."""
    names = types.ModuleType("mteb.types")
    names.RetrievalEvaluationResult = dict
    monkeypatch.setitem(sys.modules, "mteb.types", names)
    return own_file("mteb", "_evaluators/retrieval_metrics.py")


def own_file(package: str, path: str) -> types.ModuleType:
    """A file of an installed package, without the package."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    file = Path(found.submodule_search_locations[0]) / path
    spec = importlib.util.spec_from_file_location(f"own_{package}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rounded(found: dict[str, Values], name: str, over: int) -> dict[str, float]:
    return {f"{name}@{k}": round(sum(found[f"{name}@{k}"].values()) / over, 5) for k in DEPTHS}


@pytest.mark.parametrize("name", RUNS)
def test_beir__its_own_file(name):
    beir = own_file("beir", "retrieval/custom_metrics.py")
    run, qrels = with_absent_queries(*RUNS[name])
    qrels = {query: {**docs, "one more": 1} for query, docs in qrels.items()}
    own = own_measures(run, qrels, by_id=False, undefined=0.0)
    for measure, call in (
        ("MRR", beir.mrr), ("R_cap", beir.recall_cap), ("Hole", beir.hole),
        ("Accuracy", beir.top_k_accuracy),
    ):  # fmt: skip
        assert call(qrels, run, list(DEPTHS)) == rounded(own, measure, len(qrels))


@pytest.mark.parametrize("name", RUNS)
def test_mteb__its_own_file(name, mteb):
    run, qrels = with_absent_queries(*RUNS[name])
    own = own_measures(run, qrels, by_id=True, undefined=math.nan)
    for measure, call in (("MRR", mteb.mrr), ("R_cap", mteb.recall_cap), ("Hole", mteb.hole)):
        for key, theirs in call(qrels, run, list(DEPTHS)).items():
            ours = list(own[key.replace("_at_", "@")].values())
            wanted = [math.nan if value is None else value for value in theirs]
            np.testing.assert_array_equal(ours, wanted, err_msg=f"{measure}: {key}")


@pytest.mark.parametrize("name", RUNS)
def test_mteb__its_own_nauc_and_p_mrr(name, mteb):
    run, qrels = with_absent_queries(*RUNS[name])
    # Equal confidences keep the order of the queries: here one without documents comes last.
    run = dict(sorted(run.items(), key=lambda item: not item[1]))
    result = fe.trec.evaluate(qrels, run, "ndcg_at_10,mrr_at_10", profile="mteb")
    own = measures_of_trec_eval(run, qrels)["NDCG@10"]
    theirs = mteb.evaluate_abstention(
        run, {"NDCG@10": [own[query] for query in run], **mteb.mrr(qrels, run, [10])}
    )
    confidences = fe.trec.confidences(run)
    for measure in ("NDCG@10", "MRR@10"):
        for kind, numbers in confidences.items():
            ours = fe.trec.nauc(result, measure.lower().replace("@", "_at_"), numbers)
            assert ours == pytest.approx(theirs[f"nAUC_{measure}_{kind}"], abs=1e-9)
    first, second = (
        {f"{query}{end}": docs for query, docs in which[name][0].items()}
        for end, which in (("-og", RUNS), ("-changed", CHANGED))
    )
    moved = {query: [*list(docs)[:3], "absent"] for query, docs in RUNS[name][0].items()}
    found = fe.trec.p_mrr(first, second, moved)
    wanted = mteb.calculate_pmrr(first, second, moved)
    assert np.mean(list(found.values())) == pytest.approx(wanted, abs=1e-12)


@pytest.fixture
def theirs(monkeypatch) -> Any:
    """The evaluator of sentence-transformers; its file imports little of the package."""
    pytest.importorskip("torch")
    similarity = types.ModuleType("sentence_transformers.util.similarity")
    similarity.SimilarityFunction = str
    base = own_file("sentence_transformers", "base/evaluation/evaluator.py")
    for name, module in (
        ("sentence_transformers.util.similarity", similarity),
        ("sentence_transformers.base.evaluation.evaluator", base),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    path = "sentence_transformer/evaluation/information_retrieval.py"
    return own_file("sentence_transformers", path).InformationRetrievalEvaluator


class Embeddings:
    """A model of a table, whose scores tie if its numbers are whole."""

    similarity_fn_name = "dot"

    def __init__(self, seed: int, whole: bool) -> None:
        random = np.random.default_rng(seed)
        table = random.integers(-1, 2, (800, 3)) if whole else random.normal(size=(800, 8))
        self.table, self.told = table.astype(np.float32), []
        self.model_card_data = types.SimpleNamespace(set_evaluation_metrics=self.tell)

    def tell(self, evaluator: object, metrics: dict[str, float], epoch: int, step: int) -> None:
        self.told.append((metrics, epoch, step))

    def encode(self, texts: list[str], convert_to_tensor: bool, **_: object) -> Any:
        import torch

        assert convert_to_tensor
        return torch.tensor(self.table[[int(text) for text in texts]])

    encode_query = encode_document = encode

    def similarity(self, queries: Any, documents: Any) -> Any:
        return queries @ documents.T


@pytest.mark.parametrize("chunk", [128, 50_000])
@pytest.mark.parametrize("whole", [False, True])
def test_sentence_transformers__its_own_evaluator(theirs, whole, chunk, tmp_path):
    random = np.random.default_rng(chunk)
    queries = {f"q{i}": str(i) for i in range(60)}
    corpus = {f"d{i}": str(60 + i) for i in random.permutation(700)}
    relevant = {q: {f"d{i}" for i in random.integers(0, 700, i % 6)} for i, q in enumerate(queries)}
    relevant |= {"unknown": {"d1"}, "q1": {"d1", "unknown"}}
    arguments = {"name": "sample", "corpus_chunk_size": chunk}
    ours = fe.integrations.sentence_transformers.evaluator(queries, corpus, relevant, **arguments)
    own = theirs(queries, corpus, relevant, **arguments)
    for step in (10, 20):
        model = Embeddings(step, whole)
        values = [
            one(model, str(tmp_path / name), 1.0, step)
            for name, one in (("ours", ours), ("theirs", own))
        ]
        assert ours.primary_metric == own.primary_metric == "sample_dot_ndcg@10"
        assert len(values[1]) == 15
        assert {key: values[0][key] for key in values[1]} == pytest.approx(values[1], abs=1e-12)
        # What the model card has.
        (card, *ours_at), (own_card, *own_at) = model.told
        assert ours_at == own_at
        assert {key: card[key] for key in own_card} == pytest.approx(own_card, abs=1e-12)
    tables = []
    for name in ("ours", "theirs"):
        (file,) = (tmp_path / name).iterdir()
        with file.open(newline="") as lines:
            tables.append((file.name, [*csv.DictReader(lines)]))
    (name, rows), (own_name, own_rows) = tables
    assert name == own_name
    assert [row["steps"] for row in rows] == [row["steps"] for row in own_rows] == ["10", "20"]
    for row, own_row in zip(rows, own_rows, strict=True):
        numbers = {key: float(value) for key, value in own_row.items()}
        assert {key: float(row[key]) for key in numbers} == pytest.approx(numbers, abs=1e-12)


# ---- with our module in place of pytrec_eval -----------------------------------------------------


def with_each(monkeypatch, module: types.ModuleType, call: Callable[[], Any]) -> tuple[Any, Any]:
    """What a call returns while a module has pytrec_eval, and with ours in place of it."""
    theirs = call()
    assert module.pytrec_eval is pytrec_eval
    monkeypatch.setattr(module, "pytrec_eval", stand_in)
    return call(), theirs


def assert_equal(ours: Any, theirs: Any) -> None:
    """Equal to 1e-12, in the same order: MTEB joins values and queries by their place."""
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key, value in theirs.items():
            assert_equal(ours[key], value)
    else:
        assert ours == pytest.approx(theirs, rel=0, abs=1e-12, nan_ok=True)


@pytest.fixture(params=["rounded", "not rounded"])
def rounding(request, monkeypatch) -> Callable[[types.ModuleType], None]:
    """Whether a module rounds its means to five decimals, which hides differences."""

    def as_it_is(value: float, decimals: int | None = None) -> float:
        return round(value) if decimals is None else value

    def change(module: types.ModuleType) -> None:
        if request.param == "not rounded":
            monkeypatch.setattr(module, "round", as_it_is, raising=False)

    return change


@pytest.mark.parametrize("ignore_identical_ids", [True, False])
@pytest.mark.parametrize("name", RUNS)
def test_beir__with_our_module__has_the_values_of_pytrec_eval(
    name, ignore_identical_ids, rounding, monkeypatch
):
    beir = pytest.importorskip("beir.retrieval.evaluation")
    rounding(beir)
    run, qrels = with_absent_queries(*RUNS[name])
    run["not judged"] = {"1": 0.5}

    def call() -> dict[str, float]:
        parts = beir.EvaluateRetrieval.evaluate(
            qrels, copy.deepcopy(run), [1, 3, 5, 10, 100], ignore_identical_ids
        )
        return {measure: value for part in parts for measure, value in part.items()}

    ours, theirs = with_each(monkeypatch, beir, call)
    assert len(theirs) == 20
    assert 0 < theirs["NDCG@10"] < 1
    assert_equal(ours, theirs)


def test_beir__with_our_module__without_a_judged_query__divides_by_0(monkeypatch):
    beir = pytest.importorskip("beir.retrieval.evaluation")

    def call() -> type[Exception]:
        with pytest.raises(ZeroDivisionError) as error:
            beir.EvaluateRetrieval.evaluate({"q": {"d": 1}}, {}, [10])
        return error.type

    ours, theirs = with_each(monkeypatch, beir, call)
    assert ours is theirs


@pytest.mark.parametrize("skip_first_result", [False, True])
@pytest.mark.parametrize("name", RUNS)
def test_mteb__with_our_module__has_the_values_of_pytrec_eval(
    name, skip_first_result, rounding, monkeypatch, mteb
):
    rounding(mteb)
    run, qrels = with_absent_queries(*RUNS[name])
    depths = [1, 3, 5, 10, 20, 100, 1000]

    def call() -> dict[str, Any]:
        return mteb.calculate_retrieval_scores(run, qrels, depths, skip_first_result)

    ours, theirs = with_each(monkeypatch, mteb, call)
    assert theirs["all_scores"].keys() == run.keys()
    assert {len(values) for values in theirs["all_scores"].values()} == {35}
    assert_equal(ours, theirs)
