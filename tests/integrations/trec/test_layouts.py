"""Layouts of other tools: each is read as dicts of dicts are, or refused with a remedy."""

import gzip
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastrank_eval as fe
from fastrank_eval import trec
from tests.support import commands
from tests.support.transcripts import Case, cases

pytestmark = pytest.mark.kernels

Dicts = dict[str, dict[str, float]]
QRELS: Dicts = {"1": {"31715818": 1, "16422": 0, "a/b": 2}, "q2": {"31715818": 1}}
RUN: Dicts = {"1": {"31715818": 0.5, "a/b": 0.25, "x": 0.125}, "q2": {"16422": 2.5, "31715818": 1}}
#: Runs that have an order and no scores, and judgements that are all relevant.
RANKED = {q: list(docs) for q, docs in RUN.items()}
RELEVANT = {q: {d for d, grade in docs.items() if grade} for q, docs in QRELS.items()}
MEASURES = "nDCG@10,AP,RR"


class Qrel(NamedTuple):
    """As those of ir_measures and ir_datasets."""

    query_id: str
    doc_id: str
    relevance: int
    iteration: str = "0"


class ScoredDoc(NamedTuple):
    """As those of ir_measures and ir_datasets."""

    query_id: str
    doc_id: str
    score: float


class Tensor:
    """Like those of PyTorch."""

    def __init__(self, values: Any) -> None:
        self.values = np.array(values)

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values


def ranx_class(name: str) -> type:
    """A class like those of ranx, of which only `to_dict` is used."""

    def init(self: Any, pairs: Dicts) -> None:
        self.pairs = pairs

    body = {"__init__": init, "to_dict": lambda self: self.pairs, "__module__": f"ranx.{name}"}
    return type(name, (), body)


def pairs(found: Dicts) -> list[tuple[str, str, float]]:
    return [(query, doc, number) for query, docs in found.items() for doc, number in docs.items()]


def columns(found: Dicts, *names: str) -> dict[str, tuple[Any, ...]]:
    return dict(zip(names, zip(*pairs(found), strict=True), strict=True))


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


def rows_of(found: Dicts, *names: str) -> list[dict[str, Any]]:
    return [dict(zip(names, pair, strict=True)) for pair in pairs(found)]


def results_of(found: Dicts) -> list[dict[str, Any]]:
    """Lines of the predictions of sentence-transformers."""
    return [
        {
            "query_id": query,
            "query": "words of it",
            "results": [{"corpus_id": doc, "score": score} for doc, score in docs.items()],
        }
        for query, docs in found.items()
    ]


def ranks(found: Dicts) -> list[tuple[str, str, int]]:
    return [(q, d, rank) for q, docs in found.items() for rank, d in enumerate(docs, 1)]


MTEB = {"mteb_model_meta": {"name": "m"}, "default": {"test": RUN}}
BEIR = "query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t{g}\n" for q, d, g in pairs(QRELS))
MARCO = "".join(f"{q}\t{d}\t{rank}\n" for q, d, rank in ranks(RUN)).encode()
RAGAS = {
    "user_input": [*RUN],
    "retrieved_context_ids": [*RANKED.values()],
    "reference_context_ids": [sorted(RELEVANT[q]) for q in RUN],
}
LLAMA = dict(zip(["query", "retrieved_ids", "expected_ids"], RAGAS.values(), strict=True))
SPARK = dict(zip(["query", "prediction", "label"], RAGAS.values(), strict=True))
VIEWS = pa.table(
    {n: pa.array(v, pa.list_view(pa.string()) if n != "query" else None) for n, v in SPARK.items()}
)
RANK = dict(zip(["query", "doc", "rank"], zip(*ranks(RUN), strict=True), strict=True))

#: Judgements with grades, runs with scores; then those without.
GRADED: dict[str, Any] = {
    "TREC lines": "".join(f"{q} 0 {d} {g}\n" for q, d, g in pairs(QRELS)).encode(),
    "BEIR's TSV": BEIR.encode(),
    "BEIR's columns": pa.table(columns(QRELS, "query-id", "corpus-id", "score")),
    "ranx's columns": pa.table(columns(QRELS, "q_id", "doc_id", "score")),
    "JSON": json.dumps(QRELS).encode(),
    "JSON on many lines": b"\xef\xbb\xbf" + json.dumps(QRELS, indent=2).encode(),
    "JSON lines": json_lines(rows_of(QRELS, "query-id", "corpus-id", "score")),
    "JSON list of rows": json.dumps(rows_of(QRELS, "qid", "docno", "label")).encode(),
    "JSON of columns": json.dumps(columns(QRELS, "qid", "docno", "label")).encode(),
    "rows": rows_of(QRELS, "query_id", "doc_id", "relevance"),
    "tuples": [Qrel(*pair) for pair in pairs(QRELS)],
    "lines of three fields": "".join(f"{q} {d} {g}\n" for q, d, g in pairs(QRELS)).encode(),
    "lists of pairs": {q: [*docs.items()] for q, docs in QRELS.items()},
    "ranx.Qrels": ranx_class("Qrels")(QRELS),
}
SCORED: dict[str, Any] = {
    "TREC lines": "".join(f"{q} Q0 {d} 0 {s} t\n" for q, d, s in pairs(RUN)).encode(),
    "integer keys": {int(q) if q.isdigit() else q: docs for q, docs in RUN.items()},
    "JSON": json.dumps(RUN).encode(),
    "JSON lines": json_lines(rows_of(RUN, "query-id", "corpus-id", "score")),
    "JSON lines of results": json_lines(results_of(RUN)),
    "table of results": pa.Table.from_pylist(results_of(RUN)),
    "rows of results": results_of(RUN),
    "MTEB's JSON": json.dumps(MTEB).encode(),
    "MTEB's dicts": MTEB,
    "lists of documents and scores": pa.table(
        {"qid": [*RUN], "docno": [*RANKED.values()], "score": [[*v.values()] for v in RUN.values()]}
    ),
    "tuples": [ScoredDoc(*pair) for pair in pairs(RUN)],
    "tensors": {
        name: Tensor(found) if name == "score" else found
        for name, found in columns(RUN, "query", "doc", "score").items()
    },
    "lines of three fields": "".join(f"{q}  {d}\t{s}\n" for q, d, s in pairs(RUN)).encode(),
    "lists of pairs": {q: [*docs.items()] for q, docs in RUN.items()},
    "JSON of lists of pairs": json.dumps({q: [*docs.items()] for q, docs in RUN.items()}).encode(),
    "ranx.Run": ranx_class("Run")(RUN),
}
BINARY: dict[str, Any] = {
    "sets": RELEVANT,
    "lists": {q: sorted(docs) for q, docs in RELEVANT.items()},
    "JSON of lists": json.dumps({q: sorted(docs) for q, docs in RELEVANT.items()}).encode(),
    "ragas": RAGAS,
    "LlamaIndex": pd.DataFrame(LLAMA),
    "Spark": SPARK,
    "Spark beside scores": pa.table({**SPARK, "score": [[0.5] * len(d) for d in RANKED.values()]}),
    "JSON lines of Spark beside scores": json_lines(
        [
            {"query": q, "prediction": [*docs], "score": [*docs.values()], "label": [*RELEVANT[q]]}
            for q, docs in RUN.items()
        ]
    ),
    "Spark with grades": pl.DataFrame({**SPARK, "relevance": [[1, 1], [1]]}),
    "list views": VIEWS,
}
BY_RANK: dict[str, Any] = {
    "lists": RANKED,
    "arrays": {q: np.array(docs) for q, docs in RANKED.items()},
    "JSON of lists": json.dumps(RANKED).encode(),
    "MS MARCO": MARCO,
    "MS MARCO, from 0": "".join(f"{q} {d} {r - 1}\n" for q, d, r in ranks(RUN)).encode(),
    "columns with rank": RANK,
    "frame with rank": pl.DataFrame(RANK),
    "ragas": pa.table(RAGAS),
    "ragas, a dict": RAGAS,
    "LlamaIndex": pl.DataFrame(LLAMA),
    "Spark": pd.DataFrame(SPARK),
    "Spark, a dict": SPARK,
    "list views": VIEWS,
    "MTEB's top_ranked": pa.table({"query-id": [*RUN], "corpus-ids": [*RANKED.values()]}),
    "JSON lines of lists": json_lines(
        [{"query-id": q, "corpus-ids": docs} for q, docs in RANKED.items()]
    ),
}
LAYOUTS = {"graded": GRADED, "scored": SCORED, "binary": BINARY, "by rank": BY_RANK}


def values(qrels: Any, run: Any) -> list[float]:
    return [value.value for value in trec.evaluate(qrels, run, MEASURES)]


@pytest.mark.parametrize(
    "kind, name", [(kind, name) for kind, found in LAYOUTS.items() for name in found]
)
def test_layout__of_another_tool__is_read_like_dicts(kind: str, name: str) -> None:
    layout = LAYOUTS[kind][name]
    ones = {q: dict.fromkeys(docs, 1) for q, docs in RELEVANT.items()}
    by_rank = {q: {d: -i for i, d in enumerate(docs)} for q, docs in RANKED.items()}
    expected, qrels, run = {
        "graded": ((QRELS, RUN), layout, RUN),
        "scored": ((QRELS, RUN), QRELS, layout),
        "binary": ((ones, RUN), layout, RUN),
        "by rank": ((QRELS, by_rank), QRELS, layout),
    }[kind]
    assert values(qrels, run) == values(*expected)
    assert trec.join(qrels, run).table.num_rows == trec.join(*expected).table.num_rows
    report, wanted = (
        trec.trec_report(*both, measures="map", complete=True) for both in ((qrels, run), expected)
    )
    assert report.summary == wanted.summary
    if kind in ("scored", "by rank"):
        several = trec.evaluate(qrels, {"theirs": run, "dicts": expected[1]}, "AP")
        assert several.value("AP", "theirs") == several.value("AP", "dicts")
        notes = trec.evaluate(qrels, run, "AP").document()["meta"].get("notes", [])
        assert ("its score is the negative rank" in " ".join(notes)) == (kind == "by rank")


@pytest.mark.parametrize("kind", ["graded", "scored", "binary", "by rank"])
def test_texts__of_files_compressed_or_not_and_of_pipes__are_read_alike(
    kind: str, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Callable[..., pa.Table] = (
        trec.read_qrels if kind in ("graded", "binary") else trec.read_run
    )
    for content in LAYOUTS[kind].values():
        if not isinstance(content, bytes):
            continue
        expected = read(content)
        packed = {"": content, ".gz": gzip.compress(content)}
        for codec, suffix in (("zstd", ".zst"), ("lz4", ".lz4")):
            with pa.CompressedOutputStream(f"a{suffix}", codec) as file:
                file.write(content)
            packed[suffix] = (own_folder / f"a{suffix}").read_bytes()
        for suffix, some in packed.items():
            path = own_folder / f"of.any{suffix}"
            path.write_bytes(some)
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(some)))
            assert read(some) == read(path) == read(io.BytesIO(some)) == read("-") == expected


def test_lists__in_columns_of_other_names__are_read_by_name() -> None:
    table = {"question": [*RUN], "predictions": [*RANKED.values()], "targets": RAGAS[
        "reference_context_ids"]}  # fmt: skip
    qrels = trec.read_qrels(table, query="question", doc="targets")
    names = {"query": "question", "doc": "predictions"}
    by_name = trec.evaluate(qrels, trec.read_run(table, **names), "AP").value("AP")
    assert by_name == trec.evaluate(RELEVANT, RANKED, "AP").value("AP")
    ones = {"question": [*RUN] * 2, "predictions": [[d] for d in ("x", "y", "z", "v")]}
    both = trec.join(pa.table(ones), ones, query="question", doc="predictions").table
    assert both["grade"].to_pylist() == [1, 1, 1, 1]


def test_lists__of_run_and_judgements_in_one_table__are_told_apart(own_folder: Path) -> None:
    expected = values(RELEVANT, RANKED)
    pq.write_table(pa.table(SPARK), "both.parquet")
    Path("both.jsonl").write_bytes(json_lines(pa.table(SPARK).to_pylist()))
    for both in (pa.table(SPARK), VIEWS, SPARK, "both.parquet", "both.jsonl"):
        assert values(both, both) == expected
    names = {"query": "query", "doc": "label"}
    assert values(trec.read_qrels(SPARK, **names), SPARK) == expected
    told = trec.trec_report(RELEVANT, RANKED, measures="map,recip_rank").to_text()
    assert commands.output("trec", "-m", "map,recip_rank", "both.parquet", "both.parquet") == told


@pytest.mark.parametrize("rows", [rows_of(RUN, "qid", "docno", "score"), results_of(RUN)])
def test_json__of_a_single_line__is_a_row(rows: list[dict[str, Any]]) -> None:
    assert trec.read_run(json_lines(rows[:1])) == trec.read_run(rows[:1])
    assert trec.read_run(rows[0]) == trec.read_run(rows[:1])


def test_iterators__of_tuples_and_rows__are_read_once() -> None:
    def tuples() -> Iterator[Qrel]:
        yield from (Qrel(*pair) for pair in pairs(QRELS))

    run = iter(rows_of(RUN, "query_id", "doc_id", "score"))
    lists = {"tuples": SCORED["tuples"], "rows": rows_of(RUN, "qid", "docno", "score")}
    several = trec.evaluate(QRELS, lists, "AP")
    assert several.scores == ("tuples", "rows")
    assert several.value("AP", "tuples") == several.value("AP", "rows") == values(QRELS, RUN)[1]
    assert values(tuples(), run) == values(QRELS, RUN)
    assert trec.read_run(iter([pa.table(columns(RUN, "qid", "docno", "score"))])).num_rows == 5


def test_command__of_json_and_of_lines_without_names__prints_the_report(own_folder: Path) -> None:
    Path("qrels.jsonl").write_bytes(GRADED["JSON lines"])
    Path("run.json.gz").write_bytes(gzip.compress(SCORED["JSON"]))
    Path("marco.tsv").write_bytes(MARCO)
    pq.write_table(pa.table(RAGAS), "ragas.parquet")
    found = commands.output("trec", "-m", "map", "qrels.jsonl", "run.json.gz", "marco.tsv",
                            "ragas.parquet")  # fmt: skip
    assert [line.split()[2] for line in found.splitlines() if line.startswith("map")] == [
        f"{trec.evaluate(QRELS, run, 'map').value('map'):.4f}" for run in (RUN, RANKED, RANKED)
    ]


IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
FOUND = st.dictionaries(IDS, st.dictionaries(IDS, st.integers(0, 3), max_size=4), max_size=4)


@given(FOUND, st.sampled_from([None, 1]))
def test_json__of_any_dicts__reads_back(found: Dicts, indent: int | None) -> None:
    expected = trec.read_run(found)
    assert trec.read_run(json.dumps(found, indent=indent).encode()) == expected
    if pairs(found):
        rows = rows_of(found, "query_id", "doc_id", "score")
        told = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        assert trec.read_run(told.encode()).to_pylist() == expected.to_pylist()
        lists = pa.table({"qid": [*found], "docno": pa.array(map(list, found.values())),
                          "score": pa.array([[*docs.values()] for docs in found.values()],
                                            pa.large_list(pa.int8()))})  # fmt: skip
        assert trec.read_run(lists).to_pylist() == expected.to_pylist()


#: What cbor2 writes of {"q1": {"31715818": 0.5, "a/b": 2}, "é": {"x": -1, "y": 70000, "z": inf}}.
CBOR = (
    b"\xa2bq1\xa2h31715818\xfb?\xe0\x00\x00\x00\x00\x00\x00ca/b\x02b\xc3\xa9\xa3ax ay\x1a\x00"
    b"\x01\x11paz\xf9|\x00"
)


def test_cbor__of_ranx_compressed_once_or_twice__is_read(own_folder: Path) -> None:
    dicts = {"q1": {"31715818": 0.5, "a/b": 2}, "é": {"x": -1, "y": 70000, "z": float("inf")}}
    expected = trec.read_run(dicts)
    content = CBOR
    for _ in range(3):
        assert trec.read_run(content) == expected
        with pa.CompressedOutputStream("run.lz4", "lz4") as file:
            file.write(content)
        assert trec.read_run("run.lz4") == expected
        content = Path("run.lz4").read_bytes()
    for size in range(1, len(CBOR)):
        with pytest.raises(fe.SourceError, match="the bytes passed: its CBOR cannot be read"):
            trec.read_run(CBOR[:size])
    with pytest.raises(fe.SourceError, match=f"byte {len(CBOR)} comes after its end"):
        trec.read_run(CBOR * 2)


@pytest.mark.parametrize(
    "run",
    [
        {"q1": ["a"], "q2": []},
        {"query": ["q1", "q2"], "retrieved_ids": [["a"], []]},
        {"q1": [("a", 0.5)], "q2": []},
        pa.table(
            {"query": ["q1", "q2"], "prediction": pa.array([["a"], []], pa.list_view(pa.string()))}
        ),
        pa.table({"query_id": ["q1", "q2"], "doc_id": [["a"], []], "score": [[0.5], []]}),
        json_lines(results_of({"q1": {"a": 0.5}, "q2": {}})),
    ],
    ids=["dict", "LlamaIndex", "pairs", "list views", "table", "results"],
)
def test_lists__without_a_document__are_of_queries_that_count_0(run: Any) -> None:
    qrels = {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 1}}
    found = trec.evaluate(qrels, run, "AP", complete=False)
    assert [(one.value, one.groups_used) for one in found] == [(0.5, 2)]


def test_lists__without_any_document__are_a_run_without_documents() -> None:
    run = pa.table({"query_id": [1, 2], "doc_id": pa.array([[], []], pa.list_(pa.string()))})
    assert trec.confidences(run)["max"] == {"1": 0.0, "2": 0.0}
    queries = pa.table({"query_id": [["q1"], []], "doc_id": [["a"], []], "score": [[0.5], []]})
    assert trec.read_run(queries).num_rows == 1
    with pytest.raises(fe.ColumnError, match=r"'query_id' .* is null beside an empty list"):
        trec.read_run(pa.table({"query_id": ["q1", None], "doc_id": [["a"], []]}))


def test_documents__with_ids_like_remote_files__are_not_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_network(*args: Any) -> None:
        raise AssertionError(args)

    monkeypatch.setattr("fastrank_eval.io.paths._open_uri", no_network)
    id_ = "s3://bucket/doc"
    assert trec.evaluate({"q1": {id_: 1}}, {"q1": [id_]}, "AP").value("AP") == 1


def test_duplicates__in_lists__are_refused_or_chosen() -> None:
    with pytest.raises(fe.SourceError, match="Query 'q' has document 'a' twice: element 0 and"):
        trec.read_run({"q": ["a", "b", "a"]})
    kept = trec.read_run({"q": ["a", "b", "a"]}, duplicates="last")
    assert kept.to_pydict() == {"query": ["q", "q"], "doc": ["b", "a"], "score": [-2.0, -3.0]}


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("case", cases("trec_layouts"), ids=lambda case: ascii(str(case)))
def test_layout__that_is_unclear__is_refused(case: Case) -> None:
    case.check(case.answer(globals()))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("is_packed", [False, True])
def test_pipe_by_path(tmp_path, is_packed):
    content = b"q1 Q0 d7 1 2.5 bm25\nq1 Q0 d3 2 1.5 bm25\n"
    pipe = tmp_path / "run"
    os.mkfifo(pipe)
    packed = gzip.compress(content) if is_packed else content
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pipe.write_bytes, packed)
        found = trec.read_run(str(pipe))
    assert found.equals(trec.read_run(content))


def test_unknown_name_of_numbers():
    table = {"query": ["q1"], "doc": ["d1"], "rel": [1]}
    with pytest.raises(fe.ColumnError, match="grade, label, relevance; for another pass grade="):
        trec.read_qrels(table)
    assert trec.read_qrels(table, grade="rel")["grade"].to_pylist() == [1]


class Tensor:
    """An array of DLPack without a length."""

    def __init__(self, values: list[float]) -> None:
        self.values = np.array(values)

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()


def test_arrays_as_numbers_and_columns():
    scalars = {query: {doc: np.array(s) for doc, s in docs.items()} for query, docs in RUN.items()}
    rows = [(query, doc, score) for query, docs in RUN.items() for doc, score in docs.items()]
    queries, docs, scores = map(list, zip(*rows, strict=True))
    columns = {"query": queries, "doc": docs, "score": Tensor(scores)}
    expected = [value.value for value in trec.evaluate(QRELS, RUN, MEASURES)]
    for run in (scalars, columns):
        assert [value.value for value in trec.evaluate(QRELS, run, MEASURES)] == expected
