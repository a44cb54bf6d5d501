"""The cases of the benchmark. No case asserts a time: report.py sets the numbers beside targets."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.fresh import Once, command_line, evaluated_once, polars_command, run_command
from bench.machine import random_words, read_all, sort_whole
from bench.peers.tools import INPUTS_OF_PEERS, OURS, PEER_CASES, Tool, ours
from bench.resampling import GROUPS, WAYS, resampling
from bench.trec import PEER, trec_process, trec_tool
from bench.workload import (
    BY_NAME,
    CASES,
    EIGHT,
    FULL_ROWS,
    INPUTS,
    LARGE,
    MEASURES,
    SEVEN,
    SMALL_ROWS,
    THREADS,
    Input,
    bytes_read,
    decode,
    evaluate,
    rounds_wanted,
    table_of,
    two_models,
)

Rounds = Callable[..., None]

READ_WORDS = 1 << 25  # 268 MB, far above any cache
FEW_ROWS, FEW_CALLS = 100, 200


@pytest.mark.parametrize("threads", THREADS)
def test_read_bandwidth(
    benchmark: BenchmarkFixture, rounds_of: Rounds, rows: int, threads: int
) -> None:
    words = np.ones(min(READ_WORDS, 100 * rows), dtype=np.int64)  # fewer where tests run the cases
    benchmark.extra_info.update(kind="bandwidth", bytes=words.nbytes, threads=threads)
    with ThreadPoolExecutor(threads) as pool:
        rounds_of(lambda: read_all(words, pool, threads))


def test_np_sort_whole(benchmark: BenchmarkFixture, rounds_of: Rounds, rows: int) -> None:
    words = random_words(rows)
    benchmark.extra_info.update(kind="np.sort", rows=rows, threads=1)
    rounds_of(sort_whole, setup=lambda: ((words.copy(),), {}))


@pytest.mark.parametrize(
    "given, measures, threads",
    CASES,
    ids=[f"{given.name}-{measures}-{threads}" for given, measures, threads in CASES],
    indirect=["given"],
)
def test_table(
    benchmark: BenchmarkFixture,
    rounds_of: Rounds,
    given: Input,
    table: pa.Table,
    measures: str,
    threads: int,
) -> None:
    gc.collect()
    benchmark.extra_info.update(
        kind="speed",
        input=given.name,
        measures=measures,
        threads=threads,
        rows=table.num_rows,
        bytes=table.nbytes,
    )
    wanted = MEASURES[measures]
    rounds_of(lambda: evaluate(table, wanted, threads=threads, presorted=given.presorted))


@pytest.mark.parametrize("measures", ["GAUC", "seven"])
def test_few_rows(benchmark: BenchmarkFixture, measures: str) -> None:
    """What a call costs before it looks at rows."""
    table, seconds = table_of(INPUTS[0], FEW_ROWS), list[float]()

    def calls() -> None:
        before = time.process_time()
        for _ in range(FEW_CALLS):
            evaluate(table, MEASURES[measures], presorted=True)
        seconds.append((time.process_time() - before) / FEW_CALLS)

    calls()
    seconds.clear()
    benchmark.extra_info.update(kind="few", measures=measures, rows=FEW_ROWS)
    rounds = max(rounds_wanted(), 1)
    benchmark.pedantic(calls, rounds=rounds, iterations=1)  # type: ignore[no-untyped-call]
    benchmark.extra_info.update(cpu=seconds, calls=FEW_CALLS)


@pytest.mark.parametrize("given", INPUTS[:1], ids=[INPUTS[0].name], indirect=True)
def test_sum_of_columns(
    benchmark: BenchmarkFixture, rounds_of: Rounds, given: Input, table: pa.Table
) -> None:
    """What no evaluation can do without: each value of the columns is read once."""
    threads = max(THREADS)
    columns = [table[name].combine_chunks().to_numpy() for name in table.column_names]
    benchmark.extra_info.update(kind="sum", threads=threads, rows=table.num_rows)
    with ThreadPoolExecutor(threads) as pool:
        rounds_of(lambda: [read_all(column, pool, threads) for column in columns])


@pytest.mark.parametrize("given", INPUTS[:1], ids=[INPUTS[0].name], indirect=True)
def test_two_models(
    benchmark: BenchmarkFixture, rounds_of: Rounds, given: Input, table: pa.Table
) -> None:
    """One run of two models; a run of one is among the cases above."""
    gc.collect()
    both, threads = two_models(table), max(THREADS)
    benchmark.extra_info.update(
        kind="models", input=given.name, measures="eight", threads=threads, rows=table.num_rows
    )
    score = ["score_a", "again"]
    rounds_of(
        lambda: evaluate(both, EIGHT, threads=threads, presorted=given.presorted, score=score)
    )


@pytest.mark.parametrize("given", INPUTS[:1], ids=[INPUTS[0].name], indirect=True)
@pytest.mark.parametrize("measures", ["seven", "eight"])
@pytest.mark.parametrize("kept", ["memory", "Parquet file"])
@pytest.mark.parametrize("slices", ["none", "whole", "cut"])
def test_slices(
    benchmark: BenchmarkFixture,
    rounds_of: Rounds,
    sliced_rows: dict[str, pa.Table | Path],
    rows: int,
    given: Input,
    measures: str,
    kept: str,
    slices: str,
) -> None:
    """Ten slices that keep groups together, ten that cut them, and none."""
    gc.collect()
    source, by = sliced_rows[kept], [] if slices == "none" else [slices]
    threads = max(THREADS)
    benchmark.extra_info.update(
        kind="slices",
        input=f"{given.name}, {kept}",
        measures=measures,
        threads=threads,
        slices=slices,
        rows=rows,
    )
    wanted = MEASURES[measures]
    rounds_of(lambda: evaluate(source, wanted, threads=threads, presorted=True, by=by))


@pytest.mark.parametrize(
    "measures, threads", [(measures, n) for given, measures, n in CASES if given is INPUTS[0]]
)
def test_parquet(
    benchmark: BenchmarkFixture,
    rounds_of: Rounds,
    sorted_file: Path,
    rows: int,
    measures: str,
    threads: int,
) -> None:
    benchmark.extra_info.update(
        kind="speed",
        input="presorted, Parquet file",
        measures=measures,
        threads=threads,
        rows=rows,
        bytes=bytes_read(sorted_file),
    )
    wanted = MEASURES[measures]
    rounds_of(lambda: evaluate(sorted_file, wanted, threads=threads, presorted=True))


@pytest.mark.parametrize("way", ["batches", "table"])
def test_decode(
    benchmark: BenchmarkFixture, rounds_of: Rounds, sorted_file: Path, rows: int, way: str
) -> None:
    benchmark.extra_info.update(kind="decode", way=way, threads=max(THREADS), rows=rows)
    rounds_of(lambda: decode(sorted_file, way, max(THREADS)))


@pytest.mark.parametrize(
    "given, part, tool, measures",
    [(BY_NAME[name], *case) for name, *case in PEER_CASES],
    ids=[
        f"{name}-{part}-{tool.name if tool else OURS}-{measures}"
        for name, part, tool, measures in PEER_CASES
    ],
    indirect=["given", "part"],
)
def test_peer(
    benchmark: BenchmarkFixture,
    checked_rounds_of: Rounds,
    given: Input,
    part: int,
    two_model_table: pa.Table,
    measures: str,
    tool: Tool | None,
) -> None:
    """Other tools on the same rows; a wrong number fails, so no wrong answer is timed."""
    if tool is not None and not tool.installed:
        pytest.skip(f"{tool.needs} is not installed")
    presorted, table = INPUTS_OF_PEERS[given.name], two_model_table
    wanted = ours(measures)(table, presorted)

    def check(found: Sequence[float]) -> None:
        assert found[0] == pytest.approx(wanted[0], abs=1e-9)
        # Tools break ties as they like; the second model has more of them.
        assert list(found) == pytest.approx(wanted, abs=1e-3 if measures == "paired" else 1e-4)

    benchmark.extra_info.update(
        kind="peer",
        tool=tool.name if tool else OURS,
        by_hand=bool(tool and tool.by_hand),
        input=given.name,
        part=part,
        measures=measures,
        rows=table.num_rows,
    )
    own = ours(measures)
    compute = tool.compute(measures) if tool else own
    checked_rounds_of(
        lambda: compute(table, presorted),
        lambda: own(table, presorted),
        check,
        slow=bool(tool and tool.slow),
    )


@pytest.mark.parametrize("way", WAYS)
def test_resampling(benchmark: BenchmarkFixture, rounds_of: Rounds, rows: int, way: str) -> None:
    groups, threads = max(GROUPS * rows // FULL_ROWS, 1), max(THREADS)
    benchmark.extra_info.update(
        kind="resampling", way=way, groups=groups, rows=groups, threads=threads
    )
    rounds_of(resampling(way, groups, threads))


@pytest.mark.parametrize("cache", ["empty", "filled"])
def test_start(benchmark: BenchmarkFixture, small_file: Path, store: Path, cache: str) -> None:
    """A first run ever compiles every kernel; the next fresh process finds them compiled."""
    command, seconds, numbers = command_line(small_file, EIGHT), [], count()
    if cache == "filled":
        run_command(command, store)

    def folder() -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (store if cache == "filled" else store / f"empty{next(numbers)}",), {}

    benchmark.extra_info.update(kind="start", cache=cache, rows=SMALL_ROWS)
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda kernels: seconds.append(run_command(command, kernels)),
        setup=folder,
        rounds=rounds_wanted(),
        iterations=1,
    )
    benchmark.extra_info["cpu"] = seconds


@pytest.mark.parametrize("part", [10, 1], indirect=True)
@pytest.mark.parametrize("tool", [OURS, "polars"])
def test_fresh(
    benchmark: BenchmarkFixture,
    process_rounds_of: Rounds,
    ordered_file: tuple[str, int, Path],
    store: Path,
    tool: str,
) -> None:
    """Imports, reading and GAUC; the kernels were compiled by an earlier process."""
    order, rows, file = ordered_file

    def own() -> float:
        return run_command(command_line(file, "GAUC"), store)

    benchmark.extra_info.update(kind="fresh", tool=tool, rows=rows, order=order)
    if tool == OURS:
        process_rounds_of(own)
    else:
        process_rounds_of(lambda: run_command(polars_command(file), store), own)


@pytest.mark.parametrize("tool", [OURS, PEER])
def test_trec(
    benchmark: BenchmarkFixture,
    checked_rounds_of: Rounds,
    trec_files: tuple[Path, Path],
    tool: str,
) -> None:
    """A TREC run from text to all measures, in this process."""
    if tool == PEER:
        pytest.importorskip("pytrec_eval")
    qrels, run = map(str, trec_files)
    own = trec_tool(OURS)
    wanted, names = own(qrels, run), list[str]()

    def values(compute: Callable[[str, str], dict[str, float]]) -> list[float]:
        found = compute(qrels, run)
        names[:] = found
        return list(found.values())

    def check(found: Sequence[float]) -> None:
        values = dict(zip(names, found, strict=True))
        assert {name: values[name] for name in wanted} == pytest.approx(wanted, abs=1e-6)

    benchmark.extra_info.update(kind="trec", way="warm", tool=tool, rows=_lines(trec_files[1]))
    checked_rounds_of(lambda: values(trec_tool(tool)), lambda: own(qrels, run), check, slow=False)


@pytest.mark.parametrize("tool", [OURS, PEER])
def test_trec_process(
    benchmark: BenchmarkFixture,
    process_rounds_of: Rounds,
    trec_files: tuple[Path, Path],
    store: Path,
    tool: str,
) -> None:
    """The same in fresh processes, imports included, and the memory that takes."""
    if tool == PEER:
        pytest.importorskip("pytrec_eval")
    peaks: list[float] = []

    def cpu(of: str) -> float:
        used = trec_process(of, *trec_files, store)
        if of == tool:
            peaks.append(used["peak_mb"])
        return used["cpu"]

    benchmark.extra_info.update(kind="trec", way="fresh", tool=tool, rows=_lines(trec_files[1]))
    process_rounds_of(lambda: cpu(tool), None if tool == OURS else lambda: cpu(OURS))
    # The first process compiles kernels: Numba takes 160 MB.
    benchmark.extra_info["peak_mb"] = max(peaks[1:])


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


@pytest.mark.parametrize("measures", ["eight", "seven"])
@pytest.mark.parametrize("times", [1, LARGE])
def test_memory(
    benchmark: BenchmarkFixture,
    request: pytest.FixtureRequest,
    small_file: Path,
    rows: int,
    times: int,
    measures: str,
) -> None:
    file: Path = request.getfixturevalue("sorted_file" if times == 1 else "large_file")
    wanted, threads = {"eight": EIGHT, "seven": SEVEN}[measures], max(THREADS)
    benchmark.extra_info.update(
        kind="memory", measures=measures, threads=threads, rows=times * rows
    )
    # Memory does not vary as time does: once is enough.
    options = {"threads": threads, "order": "sorted"}
    once: Once = benchmark.pedantic(  # type: ignore[no-untyped-call]
        evaluated_once, (small_file, file, wanted), options, rounds=1, iterations=1
    )
    benchmark.extra_info.update(
        baseline_mb=once.baseline_mb, peak_mb=once.peak_mb, above_mb=once.above_mb
    )
