"""A run beside its judgements: every pair once, matched by key, and evaluated as trec_eval does."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastrank_eval as fe
from fastrank_eval.trec import Joined, join, read_qrels, read_run
from tests.reference_columns import EXACT
from tests.support.transcripts import answers

pytestmark = pytest.mark.kernels

OPTIONS = {"group": "query", "item": "doc", "label": "grade", "score": "score", "ties": "item"}
OPTIONS |= {"unretrieved": "allow", "unjudged": "allow"}
Dicts = dict[str, dict[str, float]]


def rows(table: pa.Table) -> list[tuple]:
    return list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


def joined_plainly(runs: dict[str, Dicts], qrels: Dicts, complete: bool) -> list[tuple]:
    """The oracle: dicts of dicts, looked up one by one."""
    queries = list(dict.fromkeys(query for run in runs.values() for query in run if run[query]))
    judged = [query for query in qrels if qrels[query]]
    queries = [query for query in queries if query in judged]
    empty = {query for run in runs.values() for query in run if not run[query]}
    if not complete:
        queries += [query for query in judged if query in empty and query not in queries]
    if complete:
        queries += [query for query in judged if not any(run.get(query) for run in runs.values())]
    found = []
    for query in queries:
        lists = [run.get(query, {}) for run in runs.values()]
        grades = qrels[query]
        found += [
            (query, doc, *(docs.get(doc) for docs in lists), grades.get(doc))
            for doc in dict.fromkeys(doc for docs in [*lists, grades] for doc in docs)
        ]
    return found


NUMBERS = st.integers(-2, 3)
IDS = st.sampled_from(["1", "2", "10", "é", "1 "])
DICTS = st.dictionaries(IDS, st.dictionaries(IDS, NUMBERS, max_size=5), max_size=5)


def test_read_qrels__mapping_that_is_false_and_ids_of_odd_classes__reads_all() -> None:
    class Empty(dict):  # type: ignore[type-arg]
        def __bool__(self) -> bool:
            return False

    class Long(str):
        def __len__(self) -> int:
            return 9

    table = read_qrels({"q": Empty({"a": 1, Long("b"): 0})})
    assert table.to_pydict() == {"query": ["q", "q"], "doc": ["a", "b"], "grade": [1, 0]}


@given(DICTS, DICTS, st.booleans())
def test_join__of_a_run__holds_each_pair_once_in_order(run, qrels, complete):
    found = join(qrels, run or b"", complete=complete)
    assert rows(found.table) == joined_plainly({"score": run}, qrels, complete)
    asked = {query for query in run if run[query]}
    judged = {query for query in qrels if qrels[query]}
    assert found.scores == ("score",)
    assert found.queries == len(judged if complete else {*run} & judged)
    assert found.only_in_run == len(asked - judged)
    assert found.only_in_qrels == len(judged - {*run})
    assert found.unanswered == {"score": len((judged if complete else {*run} & judged) - asked)}
    assert found.lacking == {"score": len(judged - {*run}) * complete}


@given(st.lists(DICTS, min_size=2, max_size=3), DICTS, st.booleans())
def test_join__of_several_runs__gives_each_a_column(runs, qrels, complete):
    named = {f"run {i}": run for i, run in enumerate(runs)}
    found = join(
        read_qrels(qrels), {name: read_run(run) for name, run in named.items()}, complete=complete
    )
    # A table has no query without documents.
    named = {name: {q: docs for q, docs in run.items() if docs} for name, run in named.items()}
    expected = joined_plainly(named, qrels, complete)
    # Only the order of documents that the first run lacks and a later one has is by the runs.
    assert sorted(rows(found.table), key=repr) == sorted(expected, key=repr)
    assert [query for query, *_ in rows(found.table)] == [query for query, *_ in expected]
    assert found.scores == tuple(named)
    queries = {query for query, *_ in expected}
    assert found.unanswered == {
        name: sum(not run.get(query) for query in queries) for name, run in named.items()
    }


@pytest.mark.parametrize("complete", [False, True])
def test_join__of_nothing__has_its_columns(complete):
    found = join(b"", b"", complete=complete)
    assert found.table.column_names == ["query", "doc", "score", "grade"]
    assert found == Joined(found.table, ("score",), 0, 0, 0, {"score": 0}, {"score": 0})
    assert rows(join(b"1 0 a 1\n", b"").table) == []


def test_join__of_more_rows_than_a_batch__keeps_them_all(monkeypatch):
    monkeypatch.setattr("fastrank_eval.integrations.trec.join._PIECE", 3)
    run = {str(query): {f"d{i}": float(-i) for i in range(4)} for query in range(5)}
    qrels = {str(query): {"d1": 1, "x": 1} for query in range(5)}
    found = join(qrels, run)
    assert rows(found.table) == joined_plainly({"score": run}, qrels, complete=False)
    assert found.table["doc"].num_chunks > 1


MEASURES = {
    "AP": "te_l1_map",
    "nDCG(gain='linear')": "te_l1_ndcg",
    "nDCG(gain='linear')@10": "te_l1_ndcg_cut_10",
    "P@10": "te_l1_P_10",
    "RR": "te_l1_recip_rank",
    "R@100": "te_l1_recall_100",
}


def test_trec_eval_files__joined_and_evaluated__are_trec_evals_values(shared_data: Path):
    folder = shared_data / "trec_eval"
    found = join(folder / "qrels.test", folder / "results.test")
    result = fe.evaluate(found.table, **OPTIONS, order="grouped", measures=list(MEASURES))
    expected = pq.read_table(folder / "trec_eval_results_test.expected_per_query.parquet")
    assert result.per_group["query"].to_pylist() == [str(q) for q in expected["query"].to_pylist()]
    for ours, theirs in MEASURES.items():
        np.testing.assert_allclose(result[ours], expected[theirs].to_numpy(), rtol=EXACT)
    assert (found.queries, found.only_in_run, found.only_in_qrels) == (3, 0, 0)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["adhoc_351_450_bm25", "web2011"])
def test_trec_runs__joined_and_evaluated__are_trec_evals_values(shared_data: Path, name):
    folder = shared_data / "trec_runs"
    run = pq.read_table(folder / f"{name}.run.parquet")
    # trec_eval 9, which computed the values, holds scores as float32.
    single = run["score"].cast(pa.float32(), safe=False)
    run = run.set_column(run.column_names.index("score"), "score", single)
    qrels = read_qrels(folder / f"{name}.qrels.parquet", grade="rel")
    found = join(qrels, run)
    result = fe.evaluate(found.table, **OPTIONS, undefined="zero", measures=list(MEASURES))
    expected = pq.read_table(folder / f"{name}.expected_per_query.parquet")
    where = {str(query): row for row, query in enumerate(expected["query"].to_pylist())}
    expected = expected.take([where[query] for query in result.per_group["query"].to_pylist()])
    assert found.queries == len(where)
    for ours, theirs in MEASURES.items():
        np.testing.assert_allclose(
            np.nan_to_num(result[ours]), expected[theirs].to_numpy(), rtol=EXACT, atol=EXACT
        )


test_answers = answers(globals())
