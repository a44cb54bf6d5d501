"""Runs and judgements, as dicts of dicts: unjudged and missed documents, ties, negative grades."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import fastrank_eval

Qrels = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]
#: A run that lacks one of two judged queries.
LACKING: tuple[Run, Qrels] = {"1": {"a": 1.0}}, {"1": {"a": 1}, "2": {"b": 1}}


def random_run(
    seed: int, *, grades: tuple[int, ...], levels: int, queries: int = 80, step: float = 0.125
) -> tuple[Run, Qrels]:
    """Every fifth query has no relevant document; every query has a judged one of grade 0."""
    rng = np.random.default_rng(seed)
    run: Run = {}
    qrels: Qrels = {}
    for query in range(queries):
        most = int(rng.choice([1, 3, 12, 60]))
        docs = [str(doc) for doc in rng.permutation(2 * most + 2)]
        run[f"q{query}"] = {
            doc: 1 + step * int(rng.integers(0, levels))
            for doc in docs[: rng.integers(1, most + 1)]
        }
        judged = rng.permutation(docs)[: rng.integers(1, len(docs) + 1)]
        drawn = [int(grade) for grade in rng.choice(grades, size=len(judged))]
        if query % 5 == 0:
            drawn = [min(grade, 0) for grade in drawn]
        qrels[f"q{query}"] = {**dict(zip(judged.tolist(), drawn, strict=True)), docs[-1]: 0}
    return run, qrels


def real_run(shared: Path, name: str) -> tuple[Run, Qrels]:
    run: Run = {}
    qrels: Qrels = {}
    folder = shared / "trec_runs"
    for row in pq.read_table(folder / f"{name}.run.parquet").to_pylist():
        run.setdefault(str(row["query"]), {})[row["doc"]] = row["score"]
    for row in pq.read_table(folder / f"{name}.qrels.parquet").to_pylist():
        qrels.setdefault(str(row["query"]), {})[row["doc"]] = row["rel"]
    return run, qrels


def evaluated_run(
    run: Run, qrels: Qrels, profile: str, measures: list[str], *, complete: bool = False
) -> fastrank_eval.Result:
    return fastrank_eval.evaluate(
        fastrank_eval.trec.join(qrels, run, complete=complete).table,
        group="query",
        item="doc",
        label="grade",
        score="score",
        measures=list(dict.fromkeys(measures)),
        profile=profile,
    )


def absent_counts(profile: str, measure: str) -> float:
    """Our mean of a run that lacks one of two queries, 1 or 0.5 for a perfect run."""
    run, qrels = LACKING
    return fastrank_eval.trec.evaluate(qrels, run, measure, profile=profile).value(measure)


def in_our_order(result: fastrank_eval.Result, values: dict[str, float]) -> np.ndarray:
    return np.array([values[query] for query in result.per_group["query"].to_pylist()])
