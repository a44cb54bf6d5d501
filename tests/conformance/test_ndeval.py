"""ndeval 4.5, through pyndeval: every measure it has, query by query."""

import random

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval
from fastrank_eval import trec
from fastrank_eval.measures import Measure, measure
from tests.conformance.parity import Ledger

pyndeval = pytest.importorskip("pyndeval")

PROFILE = "ndeval"
PACKAGES = {PROFILE: "pyndeval"}
DEPTHS = (1, 2, 5, 10, 20)
INDEPENDENT_AT_1 = ("ERR-IA@1", "alpha-DCG@1")
MEASURES = [
    *(f"{m}@{k}" for m in ("ERR-IA", "nERR-IA", "alpha-DCG", "alpha-nDCG") for k in DEPTHS),
    *(f"{m}@{k}" for m in ("P-IA", "strec") for k in DEPTHS),
    *("NRBP", "nNRBP", "MAP-IA"),
]
PARAMETERS = {"defaults": (0.5, 0.5), "patient": (0.25, 0.8), "strict": (1.0, 0.3)}

Qrels = list[tuple[str, str, str, int]]
Run = list[tuple[str, str, float]]


def random_search(seed: int, subtopics: int, docs: int, levels: int) -> tuple[Run, Qrels]:
    """Queries of up to 30 documents, judged or not, retrieved or not; one covers nothing."""
    rng = random.Random(seed)  # noqa: S311
    run, qrels = [], []
    for query in range(60):
        for doc in range(rng.randint(1, docs)):
            name = f"d{rng.randrange(10**5)}-{doc}"
            retrieved, judged = rng.random() < 0.8, rng.random() < 0.7
            if retrieved or doc == 0:
                run.append((str(query), name, rng.randrange(levels) / 8))
            if judged or doc == 0:
                qrels += [
                    (str(query), str(s), name, int(query > 0 and rng.random() < 0.3))
                    for s in range(subtopics)
                ]
    return run, qrels


SEARCHES = {
    "few subtopics": random_search(51, 3, 30, 10**6),
    "many subtopics": random_search(52, 9, 30, 10**6),
    "short lists": random_search(53, 4, 4, 10**6),
}


def with_parameters(text: str, alpha: float, beta: float) -> Measure:
    found = measure(text)
    given = {"alpha": alpha, "beta": beta}
    return found(**{name: given[name] for name in found.option_values if name in given})


def ours(run: Run, qrels: Qrels, measures: list[Measure], **options) -> fastrank_eval.Result:
    query, subtopic, doc, grade = zip(*qrels, strict=True)
    judged = trec.read_diversity_qrels(
        {"query": query, "subtopic": subtopic, "doc": doc, "grade": grade}
    )
    query, doc, score = zip(*run, strict=True)
    joined = trec.join(judged, {"query": query, "doc": doc, "score": score})
    return fastrank_eval.evaluate(
        joined.table,
        group="query",
        item="doc",
        label="grade",
        score="score",
        subtopics="subtopics",
        measures=measures,
        profile=PROFILE,
        **options,
    )


def theirs(run: Run, qrels: Qrels, alpha: float = 0.5, beta: float = 0.5) -> dict:
    return pyndeval.ndeval(qrels, run, MEASURES, alpha=alpha, beta=beta)


def compare(ledger: Ledger, name: str, run: Run, qrels: Qrels, parameters: str, **options) -> None:
    alpha, beta = PARAMETERS[parameters]
    found = theirs(run, qrels, alpha, beta)
    texts = {m: with_parameters(m, alpha, beta) for m in MEASURES if m not in INDEPENDENT_AT_1}
    result = ours(run, qrels, list(texts.values()), **options)
    queries = result.per_group["query"].to_pylist()
    assert sorted(queries) == sorted(found)
    for m, text in texts.items():
        said = m if parameters == "defaults" else f"{m}, alpha {alpha:g}, beta {beta:g}"
        # Without a subtopic there ndeval divides 0 by 0 for nNRBP.
        values = np.nan_to_num([found[query][m] for query in queries])
        ledger.agree(PROFILE, name, str(text), said, np.nan_to_num(result[text]), values)
        ledger.agree(PROFILE, name, str(text), said, result.value(text), values.mean())


@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize("name", SEARCHES)
def test_random_searches(ledger, name, parameters):
    compare(ledger, name, *SEARCHES[name], parameters)


def test_ties__as_pyndeval_orders_them(ledger):
    """Its order given by hand, the rest is the same: the greedy list goes by descending id."""
    run, qrels = random_search(54, 5, 20, 4)
    run.sort(key=lambda row: (row[0], -row[2], row[1]))
    compare(ledger, "ties by ascending id", run, qrels, "defaults", ties="input")


def test_ties__stand_by_descending_id_here(ledger):
    run, qrels = random_search(55, 5, 20, 4)
    found = theirs(run, qrels)
    result = ours(run, qrels, [measure("alpha_nDCG@10")])
    values = [found[query]["alpha-nDCG@10"] for query in result.per_group["query"].to_pylist()]
    gap = np.abs(np.array(values) - result["alpha_nDCG@10"]).argmax()
    pair = (float(result["alpha_nDCG@10"][gap]), values[gap])
    ledger.differ(PROFILE, "tied documents", "by ascending id", *pair)


@pytest.mark.parametrize("name", INDEPENDENT_AT_1)
def test_at_rank_1__is_not_divided_there(ledger, name):
    run, qrels = SEARCHES["few subtopics"]
    found = theirs(run, qrels)
    result = ours(run, qrels, [measure(name)])
    queries = result.per_group["query"].to_pylist()
    values = np.array([found[query][name] for query in queries])
    subtopics = [len({s for q, s, _, grade in qrels if q == query and grade}) for query in queries]
    np.testing.assert_allclose(
        np.nan_to_num(result[measure(name)]) * subtopics, values, rtol=1e-12, atol=1e-12
    )
    ledger.differ(PROFILE, name, "at a cutoff of 1", result.value(name), float(values.mean()))


def test_files__are_read_as_ndeval_reads_them(tmp_path):
    run, qrels = SEARCHES["few subtopics"]
    (tmp_path / "qrels").write_text("".join(f"{q} {s} {d} {g}\n" for q, s, d, g in qrels))
    lines = (f"{q} Q0 {d} 0 {x!r} tag\n" for q, d, x in run)
    (tmp_path / "run").write_text("".join(lines))
    joined = trec.join(trec.read_diversity_qrels(tmp_path / "qrels"), tmp_path / "run")
    assert joined.table.schema.field("subtopics").type == pa.list_(pa.int64())
    result = fastrank_eval.evaluate(
        joined.table,
        group="query",
        item="doc",
        label="grade",
        score="score",
        subtopics="subtopics",
        measures="alpha-nDCG@20",
        profile=PROFILE,
    )
    found = theirs(run, qrels)
    mean = np.mean([line["alpha-nDCG@20"] for line in found.values()])
    assert result.value("alpha_nDCG@20") == pytest.approx(mean, abs=1e-9)


def test_absent_queries__are_left_out():
    run, qrels = [("1", "a", 1.0)], [("1", "1", "a", 1), ("2", "1", "b", 1)]
    found = theirs(run, qrels)
    judged = trec.read_diversity_qrels(b"1 1 a 1\n2 1 b 1\n")
    result = trec.evaluate(judged, {"1": {"a": 1.0}}, "nERR-IA@10", profile=PROFILE)
    assert found.keys() == {"1"}
    assert found["1"]["nERR-IA@10"] == result.value("nERR-IA@10") == 1
