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
from bench.workload import SEED, SEVEN
from fastrank_eval import evaluate
from fastrank_eval._lib.threads import processors

__all__ = ["CASES", "Time", "impressions", "report"]

ROOT = Path(__file__).parent.parent
#: Rows of a shuffled log beside those of a sorted one.
_SHUFFLED = 5
_ROUNDS = 5
#: Order of the rows, name, measures and slices.
CASES = (
    ("sorted", "GAUC", "GAUC", None),
    ("sorted", "seven", SEVEN, None),
    ("sorted", "seven by 10 slices", SEVEN, "slot"),
    ("shuffled", "GAUC", "GAUC", None),
    ("shuffled", "seven", SEVEN, None),
    ("sorted Parquet", "GAUC", "GAUC", None),
    ("sorted Parquet", "seven", SEVEN, None),
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
    """Make sorted rows of groups with a long tail of sizes, 5 % of them clicked."""
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


def _measure(rows: int, threads: list[int]) -> Iterator[Time]:
    log = impressions(rows)
    shuffled = log.take(np.random.default_rng(SEED).permutation(rows // _SHUFFLED))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        parquet.write_table(log, path, row_group_size=1 << 20)
        sources: dict[str, tuple[Any, int]] = {
            "sorted": (log, rows),
            "shuffled": (shuffled.combine_chunks(), shuffled.num_rows),
            "sorted Parquet": (path, rows),
        }
        for order, name, measures, by in CASES:
            source, count = sources[order]
            call = partial(evaluate, source, group="user", label="click", score="score")
            for used in threads:
                one = partial(call, measures=measures, by=by, threads=used)
                yield Time(order, name, count, used, *_seconds(one))


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
