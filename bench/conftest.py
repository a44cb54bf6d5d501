"""Fixtures of the benchmark: generated inputs, one at a time, and a clock beside the wall's."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from pyarrow import parquet
from pytest_benchmark.fixture import BenchmarkFixture

from bench.fresh import empty_store
from bench.machine import Clock, described
from bench.trec import LINES, write_trec
from bench.workload import (
    COLUMNS,
    FULL_ROWS,
    LARGE,
    ORDERS,
    OTHER_MODEL,
    SMALL_ROWS,
    Input,
    rounds_wanted,
    rows_wanted,
    sliced,
    table_of,
    write_rows,
)

ENOUGH_SECONDS = 1.5  # a fast case gets more rounds, until they take this long
MOST_ROUNDS = 25

Timed = Callable[..., None]


_AT_START: dict[str, Any] = {}


def pytest_sessionstart() -> None:
    _AT_START.update(machine=described(), clock=Clock())


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    machine_info["bench"] = {**_AT_START["machine"], "others": _AT_START["clock"].others()}


@pytest.fixture
def rounds_of(benchmark: BenchmarkFixture) -> Timed:
    """Time a call: wall clock by pytest-benchmark, this process's processor time beside it."""

    def timed(call: Callable[..., object], setup: Callable[[], Any] | None = None) -> None:
        seconds: list[float] = []
        setup = setup or (lambda: ((), {}))

        def clocked(*args: Any) -> None:
            before = time.process_time()
            call(*args)
            seconds.append(time.process_time() - before)

        clocked(*setup()[0])  # loads what has been compiled
        given = setup()[0]
        started = time.perf_counter()
        clocked(*given)
        warm = time.perf_counter() - started
        fitting = min(MOST_ROUNDS, int(ENOUGH_SECONDS / max(warm, 1e-9)))
        least = rounds_wanted()
        rounds = least if least < 5 else max(least, fitting)
        seconds.clear()
        benchmark.pedantic(  # type: ignore[no-untyped-call]
            clocked, setup=setup, rounds=rounds, iterations=1
        )
        benchmark.extra_info["cpu"] = seconds

    return timed


FRESH_ROUNDS = 7


@pytest.fixture
def process_rounds_of(benchmark: BenchmarkFixture) -> Timed:
    """Time fresh processes, which return their processor time.

    Ours is timed before each round of another, because machines change speed.
    """

    def timed(call: Callable[[], float], own: Callable[[], float] | None = None) -> None:
        used: list[float] = []
        beside: dict[str, list[float]] = {"ours": [], "ours_cpu": []}

        def setup() -> tuple[tuple[()], dict[str, object]]:
            if own is not None:
                started = time.perf_counter()
                beside["ours_cpu"].append(own())
                beside["ours"].append(time.perf_counter() - started)
            return (), {}

        for first in (call, own):
            if first is not None:
                first()  # its files are in memory afterwards, and the kernels in the store
        least = rounds_wanted()
        benchmark.pedantic(  # type: ignore[no-untyped-call]
            lambda: used.append(call()),
            setup=setup,
            rounds=least if least < 5 else FRESH_ROUNDS,
            iterations=1,
        )
        benchmark.extra_info.update(cpu=used, **(beside if own else {}))

    return timed


#: Of the rounds of each tool. There are three at least: a ratio of one pair varies by a third.
PEER_SECONDS = 3.0


@pytest.fixture
def checked_rounds_of(benchmark: BenchmarkFixture) -> Timed:
    """Time a call as often as `PEER_SECONDS` allow, and check what it returns.

    Ours is timed before each round, because machines change speed.
    """

    def timed(
        call: Callable[[], Sequence[float]],
        own: Callable[[], object],
        check: Callable[[Sequence[float]], None],
        *,
        slow: bool,
    ) -> None:
        beside: list[float] = []

        def setup() -> tuple[tuple[()], dict[str, object]]:
            gc.collect()
            started = time.perf_counter()
            own()
            beside.append(time.perf_counter() - started)
            return (), {}

        rounds = 1
        if not slow:
            started = time.perf_counter()
            call()
            seconds = time.perf_counter() - started
            least = rounds_wanted()
            fitting = max(3, min(MOST_ROUNDS, int(PEER_SECONDS / max(seconds, 1e-9))))
            rounds = min(fitting, least) if least < 5 else fitting
        found: Sequence[float] = benchmark.pedantic(  # type: ignore[no-untyped-call]
            call, setup=setup, rounds=rounds, iterations=1
        )
        check(found)
        benchmark.extra_info["ours"] = beside

    return timed


@pytest.fixture(scope="session")
def rows() -> int:
    return rows_wanted()


@pytest.fixture(scope="module")
def given(request: pytest.FixtureRequest) -> Input:
    chosen: Input = request.param
    return chosen


@pytest.fixture(scope="module")
def table(given: Input, rows: int) -> Any:
    return table_of(given, rows)


@pytest.fixture(scope="module")
def two_model_table(given: Input, part: int, rows: int) -> Any:
    """The columns of `table` and those of a second model, which has another order."""
    return table_of(given, max(rows // part, 1), [*COLUMNS, OTHER_MODEL])


@pytest.fixture(scope="module")
def sliced_rows(table: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A table with what slices are cut by, in memory and as a file."""
    rows, path = sliced(table), tmp_path_factory.mktemp("sliced") / "rows.parquet"
    parquet.write_table(rows, path)
    yield {"memory": rows, "Parquet file": path}
    path.unlink()


@pytest.fixture(scope="module")
def sorted_file(rows: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield from _file(tmp_path_factory, rows)


@pytest.fixture(scope="module", params=ORDERS)
def ordered_file(
    request: pytest.FixtureRequest, part: int, rows: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, int, Path]]:
    """Order and number of rows of a file, and its path."""
    for path in _file(tmp_path_factory, rows // part, request.param):
        yield request.param, rows // part, path


@pytest.fixture(scope="module")
def part(request: pytest.FixtureRequest) -> int:
    chosen: int = request.param
    return chosen


@pytest.fixture(scope="module")
def large_file(rows: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield from _file(tmp_path_factory, LARGE * rows)


@pytest.fixture(scope="module")
def small_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield from _file(tmp_path_factory, SMALL_ROWS)


@pytest.fixture(scope="module")
def trec_files(rows: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Judgements and a run, with as many lines as go with the rows of the other inputs."""
    paths = write_trec(tmp_path_factory.mktemp("trec"), -(-LINES * rows // FULL_ROWS))
    yield paths
    for path in paths:
        path.unlink()


@pytest.fixture(scope="module")
def store() -> Iterator[Path]:
    """A folder for kernels, filled by the first process that uses it."""
    with empty_store() as folder:
        yield folder


def _file(
    factory: pytest.TempPathFactory, rows: int, order: Literal["sorted", "shuffled"] = "sorted"
) -> Iterator[Path]:
    path = factory.mktemp(order) / f"{rows}.parquet"
    write_rows(path, rows, order)
    yield path
    path.unlink()
