"""A TREC run and its judgements, from two text files to the values of all measures.

`python -m bench.trec TOOL QRELS RUN` does so once in a process of its own, prints what the tool
finds, and the peak memory of the process; ours is the command line's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from bench.fresh import ROOT, resident

__all__ = ["LINES", "PEER", "evaluate_trec", "trec_process", "trec_tool", "write_trec"]

#: Lines of the run beside `bench.workload.FULL_ROWS` rows of the other inputs.
LINES = 1_500_000
PEER = "pytrec-eval-terrier"

_DEPTH, _JUDGED, _SEED = 1000, 250, 1
_MODULES = {"fastrank_eval": "bench.trec", PEER: "bench.peers.with_pytrec_eval"}


def write_trec(folder: Path, lines: int) -> tuple[Path, Path]:
    """Write judgements and a run of 1,000 documents a query, 250 judged ones a query.

    Parameters
    ----------
    folder : Path
    lines : int
        Of the run, rounded up to whole queries.

    Returns
    -------
    tuple of Path
        The judgements and the run.
    """
    paths = folder / "bench.qrels", folder / "bench.run"
    parts = _queries(-(-lines // _DEPTH))
    with paths[0].open("w", encoding="ascii") as qrels, paths[1].open("w", encoding="ascii") as run:
        for judgements, retrieved in parts:
            qrels.write(judgements)
            run.write(retrieved)
    return paths


def _queries(count: int) -> Iterator[tuple[str, str]]:
    import numpy as np

    rng = np.random.default_rng(_SEED)
    for query in range(1, count + 1):
        some = np.unique(rng.integers(0, 10**7, 2 * _DEPTH))
        docs = rng.permutation(some)[: _DEPTH + _JUDGED // 2].tolist()
        scores = np.sort(30 * rng.random(_DEPTH))[::-1].tolist()
        # Half of the judged documents are retrieved.
        judged = rng.choice(_DEPTH, _JUDGED // 2, replace=False).tolist()
        pool = [docs[at] for at in judged] + docs[_DEPTH:]
        grades = rng.choice([0, 0, 0, 1, 2], len(pool)).tolist()
        yield (
            "".join(f"{query} 0 DOC-{d:07d} {g}\n" for d, g in zip(pool, grades, strict=True)),
            "".join(
                f"{query} Q0 DOC-{doc:07d} {rank} {score:.6f} bench\n"
                for rank, (doc, score) in enumerate(zip(docs[:_DEPTH], scores, strict=True), 1)
            ),
        )


def evaluate_trec(qrels: str, run: str) -> dict[str, float]:
    """All measures of trec_eval over all queries, by fastrank_eval."""
    from fastrank_eval.trec import trec_report

    report = trec_report(qrels, run, measures=["all_trec"], version=9)
    pairs = ((line.name, value) for line, _, value in report.rows(single=False, summary=True))
    return {name: value for name, value in pairs if not isinstance(value, str)}


def trec_tool(tool: str) -> Callable[[str, str], dict[str, float]]:
    """The function of a tool that `evaluate_trec` is of ours."""
    found: Callable[[str, str], dict[str, float]] = import_module(_MODULES[tool]).evaluate_trec
    return found


def trec_process(tool: str, qrels: Path, run: Path, store: Path) -> dict[str, float]:
    """Evaluate in a fresh process.

    Returns
    -------
    dict
        `peak_mb` of the process, in units of 10**6 bytes, and the `cpu` seconds it took.
    """
    environment = {**os.environ, "FASTRANK_CACHE_DIR": str(store)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "bench.trec", tool, str(qrels), str(run)]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    )
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main(tool: str, qrels: str, run: str) -> None:
    if tool == PEER:
        for name, value in trec_tool(tool)(qrels, run).items():
            print(f"{name:<22}\tall\t{value:.4f}")
    else:
        from fastrank_eval.__main__ import main as program

        sys.argv = ["fastrank-eval", "trec", "--as", "9", "-m", "all_trec", qrels, run]
        try:
            program()
        except SystemExit as end:
            if end.code:
                raise
    used = os.times()
    print(json.dumps({"peak_mb": resident()[1] / 1e6, "cpu": used.user + used.system}))


if __name__ == "__main__":
    main(*sys.argv[1:])
