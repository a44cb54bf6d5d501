"""Which tools there are, what each computes, and whether it is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TypeAlias, cast

import pyarrow as pa

from bench.workload import MEASURES, THREADS, evaluate

__all__ = ["INPUTS_OF_PEERS", "OURS", "TOOLS", "Compute", "Tool", "ours"]

Compute: TypeAlias = Callable[[pa.Table, bool], Sequence[float]]

OURS = "fastrank_eval"

#: Names in `bench.workload.INPUTS`, and whether the tools are told that rows are sorted.
INPUTS_OF_PEERS = {"presorted": True, "shuffled int64, dense": False}


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
        Of `bench.workload.MEASURES`.
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
        names = {"GAUC": "gauc", "seven": "seven", "AUC": "auc"}
        return cast(Compute, getattr(import_module(f"bench.peers.{self.module}"), names[measures]))


TOOLS = (
    Tool("polars", "with_polars", "polars", ("AUC", "GAUC", "seven")),
    Tool("DuckDB", "with_duckdb", "duckdb", ("AUC", "GAUC", "seven")),
    Tool("pandas", "with_pandas", "pandas", ("AUC", "GAUC", "seven"), slow=True),
    Tool("scikit-learn", "with_sklearn", "sklearn", ("AUC",), slow=True),
    Tool("NumPy by hand", "by_hand_numpy", "numpy", by_hand=True),
    Tool("Numba by hand", "by_hand_numba", "numba", by_hand=True),
    Tool("Numba by hand, 2 threads", "by_hand_numba_threads", "numba", by_hand=True),
)


def ours(measures: str) -> Compute:
    """fastrank_eval as one of the tools, on as many threads as the other cases at most."""
    wanted = MEASURES[measures]

    def compute(table: pa.Table, presorted: bool) -> list[float]:
        result = evaluate(table, wanted, threads=max(THREADS), presorted=presorted)
        return [result.value(measure) for measure in wanted.split(",")]

    return compute
