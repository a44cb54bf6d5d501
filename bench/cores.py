"""From one thread to all processors, on the same rows: ``python -m bench.cores``.

It writes bench/CORES.md.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.machine import Clock, described, machine_lines
from bench.tables import number, table, times
from bench.workload import EIGHT, PAIRED, SEED, SEVEN
from fastrank_eval import compare, evaluate
from fastrank_eval._lib.threads import processors

__all__ = ["CASES", "Case", "Time", "call_of", "impressions", "report", "sources"]

ROOT = Path(__file__).parent.parent
#: Rows of a shuffled log beside those of a sorted one.
_SHUFFLED = 5
_ROUNDS = 5
#: Row groups of the Parquet file, for any number of rows: threads decode whole ones.
_ROW_GROUPS = 96


class Case(NamedTuple):
    """Order of the rows, name of the measures, these, and what slices are cut by."""

    order: str
    name: str
    measures: str
    by: str | None = None

    @property
    def scores(self) -> list[str]:
        """The columns of the models; two are compared."""
        return ["score", "other"] if self.measures == PAIRED else ["score"]


CASES = (
    Case("sorted", "GAUC", "GAUC"),
    Case("sorted", "seven", SEVEN),
    Case("sorted", "eight", EIGHT),
    Case("sorted", "seven by 10 slices", SEVEN, "slot"),
    Case("sorted", "two models, paired", PAIRED),
    Case("shuffled", "GAUC", "GAUC"),
    Case("shuffled", "seven", SEVEN),
    Case("sorted Parquet", "GAUC", "GAUC"),
    Case("sorted Parquet", "seven", SEVEN),
)


class Time(NamedTuple):
    """Medians of an evaluation on some threads, in seconds."""

    order: str
    measures: str
    rows: int
    threads: int
    wall: float
    cpu: float


def impressions(count: int, seed: int = SEED) -> pa.Table:
    """Make sorted rows of groups with a long tail of sizes, 5 % of them clicked.

    The scores of "other" are in no order.
    """
    rng = np.random.default_rng(seed)
    sizes = np.maximum(rng.lognormal(4.0, 1.0, count // 40 + 1), 1).astype(np.int64)
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), count) + 1]
    rows, user = int(sizes.sum()), np.arange(len(sizes))
    rank = np.arange(rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    score = (1 - rank / np.repeat(sizes, sizes)).astype(np.float32)
    clicked = rng.random(rows, dtype=np.float32) < 0.02 + 0.06 * score
    slot = np.repeat((user * 7 % 10).astype(np.int8), sizes)
    columns: dict[str, np.ndarray] = {
        "user": np.repeat(user, sizes),
        "score": score,
        "click": clicked,
        "slot": slot,
        "other": rng.random(rows, dtype=np.float32),
    }
    return pa.table({name: column[:count] for name, column in columns.items()})


def report(rows: int, threads: list[int]) -> str:
    """Measure every case on every number of threads; return the text of CORES.md."""
    clock, machine = Clock(), described()
    measured = list(_measure(rows, threads))
    machine["others"] = clock.others()
    lines = [f"* date: {dt.datetime.now(dt.UTC).date()}"]
    lines += [f"* {line}" for line in machine_lines(machine)]
    header = ["order", "measures", "rows", "threads", "ms", "speed-up", "CPU over that of 1"]
    first = {one[:3]: one for one in reversed(measured)}
    cells = [
        [
            *(one.order, one.measures, f"{one.rows:,}", str(one.threads), number(one.wall * 1e3)),
            times(first[one[:3]].wall / one.wall),
            times(one.cpu / first[one[:3]].cpu),
        ]
        for one in measured
    ]
    return (
        "# Cores\n\nWritten by `make bench ARGS=cores` from its own measurements, no number is "
        f"typed. Medians of {_ROUNDS} rounds after one that is not counted; speed-up: over the "
        "fewest threads.\n\n" + "\n".join(lines) + "\n\n" + table(header, cells, "llrrrrr") + "\n"
    )


def sources(log: pa.Table, shuffled: int, folder: Path) -> dict[str, tuple[Any, int]]:
    """Bring rows into each order: a table or a file, and its number of rows."""
    path = folder / "log.parquet"
    parquet.write_table(log, path, row_group_size=log.num_rows // _ROW_GROUPS + 1)
    rows = log.take(np.random.default_rng(SEED).permutation(shuffled)).combine_chunks()
    return {
        "sorted": (log, log.num_rows),
        "shuffled": (rows, shuffled),
        "sorted Parquet": (path, log.num_rows),
    }


def call_of(case: Case, source: object, threads: int) -> Callable[[], object]:
    """The evaluation of a case."""
    options: dict[str, Any] = {
        "group": "user", "label": "click", "measures": case.measures, "threads": threads
    }  # fmt: skip
    if len(case.scores) > 1:
        return partial(compare, source, score=case.scores, baseline="score", **options)
    return partial(evaluate, source, score=case.scores, by=case.by, **options)


def _measure(rows: int, threads: list[int]) -> Iterator[Time]:
    with tempfile.TemporaryDirectory() as folder:
        found = sources(impressions(rows), rows // _SHUFFLED, Path(folder))
        for case in CASES:
            source, count = found[case.order]
            for used in threads:
                spent = _seconds(call_of(case, source, used))
                yield Time(case.order, case.name, count, used, *spent)


def _seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Return the median seconds of the wall clock and of the processors."""
    call()
    spent = []
    for _ in range(_ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        spent.append((time.perf_counter() - wall, time.process_time() - cpu))
    walls, cpus = zip(*spent, strict=True)
    return statistics.median(walls), statistics.median(cpus)


def main() -> None:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(prog="python -m bench.cores", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000, help="rows of the sorted log")
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "CORES.md")
    chosen = parser.parse_args()
    most = processors()
    threads = sorted({*(1 << bit for bit in range(most.bit_length())), most})
    text = report(chosen.rows, threads)
    chosen.output.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
