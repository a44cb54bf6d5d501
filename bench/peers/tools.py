"""Which tools there are, what each computes, and whether it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TypeAlias, cast

import pyarrow as pa

import fastrank_eval
from bench.workload import COLUMNS, MEASURES, OTHER_MODEL, PAIRED, THREADS, evaluate

__all__ = ["INPUTS_OF_PEERS", "OURS", "PEER_CASES", "TOOLS", "Compute", "Tool", "ours"]

Compute: TypeAlias = Callable[[pa.Table, bool], Sequence[float]]

OURS = "fastrank_eval"

#: Names in `bench.workload.INPUTS`, and whether the tools are told that rows are sorted.
INPUTS_OF_PEERS = {
    "presorted": True,
    "shuffled int64, dense": False,
    "shuffled int64, hash-like": False,
}


@dataclass(frozen=True)
class Tool:
    """A way to compute the measures.

    Parameters
    ----------
    name : str
        As the report prints it.
    module : str
        In `bench.peers`, with a function for each of `measures`.
    needs : str
        The package it needs.
    measures : tuple of str
        Of `bench.workload.MEASURES`; those of two models are `paired`.
    by_hand : bool
        Written for these columns and nothing else, against which there is a target of its own.
    slow : bool
        Timed once, without a call before it.
    """

    name: str
    module: str
    needs: str
    measures: tuple[str, ...] = ("GAUC", "seven")
    by_hand: bool = False
    slow: bool = False

    @property
    def installed(self) -> bool:
        return find_spec(self.needs) is not None

    def compute(self, measures: str) -> Compute:
        """The function that computes these measures."""
        names = {"GAUC": "gauc", "seven": "seven", "AUC": "auc", "paired": "paired"}
        return cast(Compute, getattr(import_module(f"bench.peers.{self.module}"), names[measures]))


TOOLS = (
    Tool("polars", "with_polars", "polars", ("AUC", "GAUC", "seven", "paired")),
    Tool("DuckDB", "with_duckdb", "duckdb", ("AUC", "GAUC", "seven")),
    Tool("pandas", "with_pandas", "pandas", ("AUC", "GAUC", "seven"), slow=True),
    Tool("scikit-learn", "with_sklearn", "sklearn", ("AUC",), slow=True),
    Tool("NumPy by hand", "by_hand_numpy", "numpy", by_hand=True),
    Tool("Numba by hand", "by_hand_numba", "numba", by_hand=True),
    Tool("Numba by hand, 2 threads", "by_hand_numba_threads", "numba", by_hand=True),
)


def ours(measures: str) -> Compute:
    """fastrank_eval as one of the tools, on as many threads as the other cases at most."""
    if measures == "paired":
        return _paired
    wanted = MEASURES[measures]

    def compute(table: pa.Table, presorted: bool) -> list[float]:
        result = evaluate(table, wanted, threads=max(THREADS), presorted=presorted)
        return [result.value(measure) for measure in wanted.split(",")]

    return compute


def _paired(table: pa.Table, presorted: bool) -> list[float]:
    user, click, score = COLUMNS
    comparison = fastrank_eval.compare(
        table,
        group=user,
        label=click,
        score=[score, OTHER_MODEL],
        baseline=score,
        measures=PAIRED,
        threads=max(THREADS),
        keep="",
    )
    return [number for value in comparison.overall for number in (value.delta, value.se)]


def _peer_cases() -> Iterator[tuple[str, int, Tool | None, str]]:
    for name in INPUTS_OF_PEERS:
        hashed = name.endswith("hash-like")
        for tool in (None, *TOOLS):
            # What is written by hand packs small ids; AUC and slow tools do not look at them.
            if hashed and tool is not None and (tool.by_hand or tool.slow):
                continue
            for measures in tool.measures if tool else ("AUC", "GAUC", "seven", "paired"):
                if not (hashed and measures in ("AUC", "paired")):
                    yield name, 1, tool, measures
        for tool in (None, *TOOLS):
            if not hashed and not (tool and tool.slow):
                yield name, 10, tool, "GAUC"


#: Input, what share of its rows (1 or 10: all or a tenth), tool (None: ours) and measures.
PEER_CASES = list(_peer_cases())
