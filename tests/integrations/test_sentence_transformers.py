"""The evaluator for sentence-transformers: its values, and what is tested of two checkpoints."""

from __future__ import annotations

import csv
import math
import pickle
import sys
import types
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastrank_eval as fe
from fastrank_eval.integrations.sentence_transformers import evaluator

QUERIES = {f"q{i}": f"query {i}" for i in range(12)}
CORPUS = {f"d{i}": f"text {i}" for i in (7, 3, 11, *range(12, 40), 0, 1, 2, 4, 5, 6, 8, 9, 10)}
RELEVANT = {f"q{i}": {f"d{i + 1}", f"d{3 * i}", f"d{2 * i + 9}"} for i in range(12)}
FILE = "Information-Retrieval_evaluation_toy_results.csv"


class Model:
    """Texts have vectors of small integers, so that no sum is rounded and many scores tie."""

    similarity_fn_name = "dot"

    def __init__(self, seed: int, values: int = 3) -> None:
        random = np.random.default_rng(seed)
        texts = [*QUERIES.values(), *CORPUS.values()]
        self.vectors = {text: random.integers(-values, values + 1, 4) for text in texts}
        self.calls: list[tuple[str, int, dict[str, Any]]] = []

    def encode(self, texts: list[str], kind: str = "", **options: Any) -> np.ndarray:
        self.calls.append((kind, len(texts), options))
        return np.array([self.vectors[text] for text in texts], np.float32)

    def similarity(self, queries: np.ndarray, documents: np.ndarray) -> Any:
        return queries @ documents.T

    def ranked(self, query: str, docs: Iterable[str] = CORPUS) -> list[str]:
        """Documents by descending score, tied ones by ascending id."""
        scores = {
            doc: int(self.vectors[QUERIES[query]] @ self.vectors[CORPUS[doc]]) for doc in docs
        }
        return sorted(scores, key=lambda doc: (-scores[doc], doc))


def mean(values: Iterable[float]) -> float:
    values = [*values]
    return sum(values) / len(values)


def brute_force(model: Model, queries: Iterable[str] = QUERIES) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for query in queries:
        order, wanted = model.ranked(query), RELEVANT[query]
        hits = [doc in wanted for doc in order]
        ideal = sum(1 / math.log2(rank + 2) for rank in range(len(wanted)))
        gain = sum(1 / math.log2(rank + 2) for rank in range(10) if hits[rank])
        precisions = [sum(hits[: i + 1]) / (i + 1) for i in range(len(hits)) if hits[i]]
        of_query = {
            "ndcg@10": gain / ideal,
            "mrr@10": next((1 / (i + 1) for i in range(10) if hits[i]), 0.0),
            "map@100": sum(precisions) / len(wanted),
        }
        for k in (1, 3, 5, 10):
            of_query[f"accuracy@{k}"] = float(any(hits[:k]))
            of_query[f"precision@{k}"] = sum(hits[:k]) / k
            of_query[f"recall@{k}"] = sum(hits[:k]) / len(wanted)
        for name, value in of_query.items():
            found.setdefault(f"toy_dot_{name}", []).append(value)
    return {name: mean(values) for name, values in found.items()}


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_values__of_tied_scores__are_those_of_the_order_by_id(chunk):
    model = Model(1)
    values = evaluator(QUERIES, CORPUS, RELEVANT, name="toy", corpus_chunk_size=chunk)(model)
    wanted = brute_force(model)
    assert {name: values[name] for name in wanted} == pytest.approx(wanted, abs=1e-12)
    assert values.keys() - wanted.keys() == {
        "toy_dot_ndcg@10_ci_low",
        "toy_dot_ndcg@10_ci_high",
    }


@pytest.mark.parametrize("most, chunk", [*product([3, 20], [2, 9, 100])])
def test_documents__that_are_kept__are_the_best__and_tied_ones_are_counted(most, chunk):
    model = Model(2)
    evaluate = evaluator(
        QUERIES, CORPUS, RELEVANT, "P@3,NumRet", most=most, corpus_chunk_size=chunk
    )
    values = evaluate(model)
    assert values["dot_numret"] == most * len(QUERIES)
    wanted = [len(RELEVANT[q].intersection(model.ranked(q)[:3])) / 3 for q in QUERIES]
    assert evaluate.result["P@3"].tolist() == pytest.approx(wanted)
    cut = sum(
        model.vectors[text] @ model.vectors[CORPUS[order[most - 1]]]
        == model.vectors[text] @ model.vectors[CORPUS[order[most]]]
        for query, text in QUERIES.items()
        for order in [model.ranked(query)]
    )
    assert 0 < cut < len(QUERIES)
    notes = evaluate.result.document()["meta"]["notes"]
    assert any(note.startswith(f"{cut} of 12 queries: documents with the score") for note in notes)


@pytest.mark.parametrize("chunk", [1, 10])
def test_equal_embeddings__keep_the_lowest_ids(chunk):
    model = Model(1, values=0)
    queries, corpus = {1: "query 1"}, {i: CORPUS[f"d{i}"] for i in (30, 10, 9, 2)}
    for docs, value in (({2, 9}, 1.0), ({10, 30}, 0.0)):
        evaluate = evaluator(queries, corpus, {1: docs}, "P@2", most=2, corpus_chunk_size=chunk)
        assert evaluate(model)["dot_precision@2"] == value


def test_second_call__tests_the_difference__as_two_results_do():
    first, second = Model(3), Model(4)
    evaluate = evaluator(QUERIES, CORPUS, RELEVANT, "nDCG@10,RR@10", name="toy")
    evaluate(first, epoch=0.5, steps=100)
    assert evaluate.comparison is None
    values = evaluate(second, epoch=1.0, steps=200)
    runs = [
        {q: {doc: -float(i) for i, doc in enumerate(m.ranked(q))} for q in QUERIES}
        for m in (first, second)
    ]
    both = fe.trec.evaluate(
        RELEVANT,
        dict(zip(("a", "b"), runs, strict=True)),
        "nDCG@10",
        profile="sentence_transformers",
    )
    wanted = both.compare(baseline="a").find("nDCG@10")
    assert wanted.delta != 0
    for key, number in (
        ("delta", wanted.delta),
        ("delta_ci_low", wanted.ci_low),
        ("delta_ci_high", wanted.ci_high),
        ("p_value", wanted.p_value),
    ):
        assert values[f"toy_dot_ndcg@10_{key}"] == pytest.approx(number, abs=1e-12)
    low, high = both.interval("nDCG@10", "b")
    assert values["toy_dot_ndcg@10_ci_low"] == pytest.approx(low, abs=1e-12)
    assert values["toy_dot_ndcg@10_ci_high"] == pytest.approx(high, abs=1e-12)
    assert evaluate.comparison.find("RR@10").baseline == "step 100"
    assert evaluate.comparison.scores == ("step 200",)
    assert "may not have the same rows" not in str(evaluate.comparison)
    evaluate(second, epoch=1.0, steps=300)
    assert evaluate.comparison.find("nDCG@10").warning == "no_difference"


def test_names__without_steps__are_of_the_epoch():
    evaluate = evaluator(QUERIES, CORPUS, RELEVANT, "RR")
    for epoch, name in ((1, "epoch 1"), (1.5, "epoch 1.5"), (-1, "call 3")):
        evaluate(Model(3), epoch=epoch)
        assert evaluate.result.scores == (name,)
    evaluate(Model(4))
    assert (evaluate.comparison.baseline, *evaluate.comparison.scores) == ("call 3", "call 4")
    with pytest.raises(fe.ArgumentError, match="baseline: must not be given"):
        evaluator(QUERIES, CORPUS, RELEVANT, "RR", baseline="model")


def test_one_query__has_no_interval__and_no_such_value():
    evaluate = evaluator({"q1": "query 1"}, CORPUS, RELEVANT, "RR,nDCG@10,nDCG(gain=exp)@10,ERR@5")
    for model in (Model(3), Model(4)):
        values = evaluate(model)
    assert values.keys() == {
        *("dot_mrr", "dot_ndcg@10", "dot_ndcg(gain='exp')@10", "dot_err@5", "dot_mrr_delta")
    }


def test_csv__has_the_columns_of_sentence_transformers__and_more(tmp_path):
    folder = tmp_path / "eval"
    evaluate = evaluator(QUERIES, CORPUS, RELEVANT, "nDCG@10,R@3,Accuracy@1,ERR@5", name="toy")
    values = [evaluate(Model(i), folder, 1.0, i) for i in (3, 4)]
    with (folder / FILE).open(newline="") as file:
        first, second = csv.DictReader(file)
    columns = ["NDCG@10", "Recall@3", "Accuracy@1", "ERR@5", "NDCG@10_ci_low", "NDCG@10_ci_high"]
    assert list(first)[:8] == ["epoch", "steps", *(f"dot-{name}" for name in columns)]
    assert (first["epoch"], first["steps"], second["steps"]) == ("1.0", "3", "4")
    for row, found in zip((first, second), values, strict=True):
        known = {key.removeprefix("dot-").lower(): v for key, v in row.items() if "-" in key and v}
        assert known == {k.removeprefix("toy_dot_"): str(v) for k, v in found.items()}
    assert first["dot-NDCG@10_p_value"] == ""


def test_csv__that_has_other_columns__keeps_its_rows(tmp_path):
    (tmp_path / FILE).write_text("epoch,steps,cosine-Accuracy@1,dot-MRR@10\n1.0,5,0.25,0.5\n")
    evaluate = evaluator(QUERIES, CORPUS, RELEVANT, "RR@10", name="toy")
    value = evaluate(Model(3), str(tmp_path), 2.0, 10)["toy_dot_mrr@10"]
    with (tmp_path / FILE).open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["cosine-Accuracy@1"], first["dot-MRR@10"], first["dot-MRR@10_ci_low"]) == (
        *("0.25", "0.5", ""),
    )
    assert (second["cosine-Accuracy@1"], second["dot-MRR@10"]) == ("", str(value))


def test_csv__is_not_written__without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evaluator(QUERIES, CORPUS, RELEVANT, "RR")(Model(3))
    assert not any(Path().iterdir())


def test_drop_self__leaves_out_the_query_itself():
    model = Model(5)
    texts = {f"d{i}": text for i, text in enumerate(CORPUS.values())}
    vectors = {text: 9 * model.vectors[text] for text in texts.values()}
    model.vectors = vectors
    wanted = {doc: {f"d{(i + 1) % len(texts)}"} for i, doc in enumerate(texts)}
    values = {}
    for drop in (False, True):
        evaluate = evaluator(texts, texts, wanted, "RR,NumRet", most=5, drop_self=drop)
        found = evaluate(model)
        ranks, cut = [], 0
        for query, docs in wanted.items():
            scores = {d: int(vectors[texts[query]] @ vectors[texts[d]]) for d in texts}
            kept = [d for d in texts if not (drop and d == query)]
            order = sorted(kept, key=lambda d: (-scores[d], d))
            ranks.append(next((1 / (i + 1) for i, d in enumerate(order[:5]) if d in docs), 0.0))
            cut += scores[order[4]] == scores[order[5]]
        assert found["dot_mrr"] == pytest.approx(mean(ranks), abs=1e-12)
        assert found["dot_numret"] == 5 * len(texts)
        meta = evaluate.result.document()["meta"]
        assert any(note.startswith(f"{cut} of 40 queries: documents") for note in meta["notes"])
        assert meta["conventions"].get("drop_self", False) is drop
        values[drop] = found["dot_mrr"]
    assert values[True] > values[False]


def test_grades__count_in_ndcg():
    model = Model(1)
    first, second = model.ranked("q1")[:2]
    evaluate = evaluator(QUERIES, CORPUS, {"q1": {first: 1, second: 3, "d9": 0}}, "nDCG@10,R@1")
    values = evaluate(model)
    weight = 1 / math.log2(3)
    assert values["dot_ndcg@10"] == pytest.approx((1 + 3 * weight) / (3 + weight), abs=1e-12)
    assert values["dot_recall@1"] == 0.5


def test_what_is_not_known__is_noted__and_not_encoded():
    relevant = {**dict(list(RELEVANT.items())[:10]), "other": {"d1"}, "q10": set()}
    relevant["q0"] = {"d1", "unknown"}
    model = Model(1)
    evaluate = evaluator(QUERIES, CORPUS, relevant, "R@10")
    evaluate(model)
    assert model.calls[0][1] == 10
    notes = evaluate.result.document()["meta"]["notes"]
    assert notes[:3] == [
        "2 of 12 queries left out: without a judgement",
        "1 of 11 judged queries left out: not among the queries",
        "1 of 28 relevant documents not in the corpus: never found",
    ]
    hits = len({"d1"}.intersection(model.ranked("q0")[:10]))
    assert evaluate.result["R@10"][0] == hits / 2


def test_encoders__of_queries_and_documents__take_their_prompts():
    class Prompted(Model):
        def encode_query(self, texts: list[str], **options: Any) -> np.ndarray:
            return self.encode(texts, "query", **options)

        def encode_document(self, texts: list[str], **options: Any) -> np.ndarray:
            return self.encode(texts, "document", **options)

    model, shared = Prompted(1), {"show_progress_bar": False, "convert_to_tensor": True}
    prompts: dict[str, Any] = {"query_prompt": "Q: ", "corpus_prompt_name": "passage"}
    evaluate = evaluator(
        QUERIES, CORPUS, RELEVANT, "RR",
        batch_size=4, corpus_chunk_size=30, truncate_dim=2, **prompts,
    )  # fmt: skip
    evaluate(model)
    shared |= {"batch_size": 4, "truncate_dim": 2}
    of_documents = {**shared, "prompt_name": "passage"}
    assert model.calls == [
        ("query", 12, {**shared, "prompt": "Q: "}),
        ("document", 30, of_documents),
        ("document", 10, of_documents),
    ]
    assert evaluate.get_config_dict() == {"truncate_dim": 2, **prompts}


def test_tensors__are_read_as_float32_of_the_host():
    class Tensor:
        def __init__(self, values: Any) -> None:
            self.values, self.steps = values, list[str]()

        def detach(self) -> Tensor:
            self.steps.append("detach")
            return self

        def float(self) -> Tensor:
            self.steps.append("float")
            return self

        def cpu(self) -> np.ndarray:
            assert self.steps == ["detach", "float"]
            return self.values

    class OnDevice(Model):
        def similarity(self, queries: np.ndarray, documents: np.ndarray) -> Tensor:
            return Tensor(super().similarity(queries, documents))

    on_device, on_host = (evaluator(QUERIES, CORPUS, RELEVANT)(m(1)) for m in (OnDevice, Model))
    assert on_device == on_host


def test_model_card__has_the_values_without_the_difference():
    class Card:
        def set_evaluation_metrics(self, *told: Any) -> None:
            self.told = told

    evaluate, model = evaluator(QUERIES, CORPUS, RELEVANT, "RR@10,P@3", name="toy"), Model(3)
    model.model_card_data = Card()
    evaluate(Model(4), None, 1.0, 5)
    values = evaluate(model, None, 2.0, 10)
    assert "toy_dot_mrr@10_delta" in values
    kept = {name: v for name, v in values.items() if "delta" not in name and "p_value" not in name}
    assert model.model_card_data.told == (evaluate, kept, 2.0, 10)
    assert evaluate.primary_metric == "toy_dot_mrr@10"
    assert (evaluate.name, evaluate.description) == ("toy", "Information Retrieval")


@pytest.mark.parametrize(
    "module, name",
    [
        ("sentence_transformers.base.evaluation", "BaseEvaluator"),
        ("sentence_transformers.evaluation", "SentenceEvaluator"),
    ],
)
def test_class__is_one_of_sentence_transformers__which_its_trainer_asks_for(
    module, name, monkeypatch
):
    class Base:
        def __call__(self, model: object) -> float:
            raise NotImplementedError

    for one in ("sentence_transformers.base.evaluation", "sentence_transformers.evaluation"):
        monkeypatch.setitem(sys.modules, one, None)
    own = types.ModuleType(module)
    setattr(own, name, Base)
    monkeypatch.setitem(sys.modules, module, own)
    evaluate = evaluator(QUERIES, CORPUS, RELEVANT, "RR")
    assert isinstance(evaluate, Base)
    assert evaluate(Model(3)).keys() == {"dot_mrr", "dot_mrr_ci_low", "dot_mrr_ci_high"}
    sent = pickle.loads(pickle.dumps(evaluate))  # noqa: S301
    assert isinstance(sent, Base)
    assert sent(Model(4)) == evaluate(Model(4))
    assert "dot_mrr_delta" in sent(Model(5))


def test_greater_is_better__unless_the_first_measure_is_of_holes():
    for measures, greater in (("RR,Hole@10", True), ("Hole@10,RR", False)):
        evaluate = evaluator(QUERIES, CORPUS, RELEVANT, measures)
        assert evaluate.greater_is_better is greater


@pytest.mark.parametrize(
    "changed, told",
    [
        ({"most": 5}, r"most: must be at least 100 for AP@100, got 5; pass most=100\."),
        ({"queries": {}}, "for one of queries, got none among 35 judgements"),
        ({"corpus": {}}, "relevant document of corpus for one of queries, got none"),
        ({"corpus": {"1": "a", 1: "b"}}, "document '1' is there as text and as an integer"),
        ({"queries": {1.5: "a"}}, "query 1.5 is float: ids are text or integers"),
        ({"relevant_docs": {"query 1": {"d1"}}}, "got none among 1 judgement; check that the ids"),
        ({"relevant_docs": {"q1": {"d1": 0, "1": 1}}}, "got none among 2 judgements"),
        ({"relevant_docs": {}}, "got none among 0 judgements"),
        ({"query_promt": "Q: "}, "query_promt"),
        ({"measures": "nDCG@10,ndgc@5"}, "ndgc"),
        ({"profile": "sentence"}, "profile: must be one of"),
        ({"confidnce": 0.9}, "confidnce"),
        ({"batch_size": 0}, "batch_size: must be"),
        ({"corpus_chunk_size": 0}, "corpus_chunk_size: must be"),
    ],
)
def test_wrong_arguments__are_refused_before_a_model_trains(changed, told):
    arguments: dict[str, Any] = {"queries": QUERIES, "corpus": CORPUS, "relevant_docs": RELEVANT}
    with pytest.raises(fe.FastRankEvalError, match=told):
        evaluator(**{**arguments, **changed})


def test_models__without_a_method__are_refused():
    class Queries:
        similarity_fn_name = "dot"
        encode_query = encode_document = Model.encode

    evaluate = evaluator(QUERIES, CORPUS, RELEVANT)
    for model, told in (
        (Queries(), "got a value of type Queries without similarity; pass a SentenceTransformer"),
        (None, "got None without encode, similarity, similarity_fn_name; "),
    ):
        with pytest.raises(fe.ArgumentError, match=f"^model: must have encode .*{told}"):
            evaluate(model)


def test_similarities__that_are_nan__are_refused():
    class Diverged(Model):
        def similarity(self, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
            scores = super().similarity(queries, documents)
            scores[2:5, 0] = math.nan
            return scores

    with pytest.raises(fe.ArgumentError, match="got NaN for 3 of 12 queries"):
        evaluator(QUERIES, CORPUS, RELEVANT)(Diverged(1))
