"""What many threads could gain, calculated from one that is recorded: ``python -m bench.lock``.

It writes bench/LOCK.md. A thread that holds the lock of the interpreter keeps the others waiting.
bench/lock.c, compiled here, writes down when a thread gives it up and takes it again.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from heapq import heappop, heappush
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from bench.cores import CASES, ROOT, call_of, impressions, sources
from bench.machine import Clock, described, machine_lines
from bench.tables import NONE, number, table, times

__all__ = ["Held", "Recording", "compiled", "measured", "report", "speed_up"]

THREADS = (4, 8, 16, 32, 64)
#: The largest share of time with the lock that is wanted, and the least speed-ups at 32 threads.
_MOST = {"sorted": 0.05, "shuffled": 0.07, "sorted Parquet": 0.07}
_LEAST = {("sorted", "GAUC"): 20, ("sorted", "seven"): 20}
#: Sorted rows in memory that many threads share, over those of one thread.
_MORE = 10
#: Bytes a second that all processors of a server are taken to read together.
_SERVER = 400e9
_ROUNDS = 3
#: The largest share of the work that may be done by threads that are not recorded.
_OTHERS = 0.1
_MOST_TIMES = 1 << 22
_CORES = ROOT / "bench" / "CORES.md"


class Held(NamedTuple):
    """What was recorded of a case.

    Parameters
    ----------
    order, measures : str
    rows : int
        Of the run on one thread.
    seconds : float
        Its processor time.
    held : float
        The share of it with the lock, 0 to 1.
    bytes : float or None
        Of the columns, a row; None where rows are copied or decoded first.
    shared : int
        Rows that many threads share.
    speed_ups : list of float or None
        For each of `THREADS`; None where threads did work that was not recorded.
    """

    order: str
    measures: str
    rows: int
    seconds: float
    held: float
    bytes: float | None
    shared: int
    speed_ups: list[float | None]


class Recording(NamedTuple):
    """A call in one thread, by its processor time in seconds.

    Parameters
    ----------
    times : ndarray of float64
        The start, the times at which it gave up the lock, took it, gave it up ..., and the end.
    jobs : tuple of two float
        The start of the first job that threads may share, and the end of the last one.
    others : float
        Processor time of other threads meanwhile.
    """

    times: np.ndarray
    jobs: tuple[float, float]
    others: float

    @property
    def seconds(self) -> float:
        return float(self.times[-1] - self.times[0])

    @property
    def held(self) -> float:
        return float(np.diff(self.times)[::2].sum()) / self.seconds


def speed_up(alone: float, recording: Recording, threads: int) -> float:
    """Calculate how many times as fast as one thread many threads are.

    What comes before the first job and after the last one is done by one thread. The time between
    is cut into equal parts. They begin together; one thread at a time has the lock, and the thread
    that asks first gets it first.

    Parameters
    ----------
    alone : float
        Seconds of one thread.
    recording : Recording
    threads : int
    """
    first, last = recording.jobs
    switches, parts = recording.times[1:-1], list[Iterator[tuple[float, float]]]()
    for lo, hi in pairwise(np.linspace(first, last, threads + 1).tolist()):
        begin, end = np.searchsorted(switches, (lo, hi))
        spans = np.diff([lo, *switches[begin:end], hi]).tolist()
        spans = [*[0.0] * (begin % 2), *spans, 0.0]  # the first is with the lock
        parts.append(iter(zip(spans[::2], spans[1::2], strict=False)))
    waiting = [(0.0, thread) for thread in range(threads)]
    available = finished = 0.0
    while waiting:
        now, thread = heappop(waiting)
        finished = max(finished, now)
        for held, free in islice(parts[thread], 1):
            if held:
                now = available = max(now, available) + held
            heappush(waiting, (now + free, thread))
    return alone / (recording.seconds - (last - first) + finished)


# ----------------------------------------------------------------------------------- recording


def compiled(folder: Path) -> Path | None:
    """Compile lock.c; return the library, or None without a compiler or a Linux."""
    library, cc = folder / "lock.so", shutil.which("cc")
    if sys.platform != "linux" or cc is None:
        return None
    source = str(Path(__file__).with_name("lock.c"))
    command = [cc, "-O2", "-shared", "-fPIC", "-o", str(library), source, "-ldl"]
    subprocess.run(command, check=True)
    return library


def measured(library: Path, rows: int) -> list[Held]:
    """Record all cases in a fresh process, which loads the library before Python."""
    command = [sys.executable, "-m", "bench.lock", "--rows", str(rows)]
    command += ["--recorded-by", str(library)]
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT, env=environment)
    return [Held(*one) for one in json.loads(done.stdout)]


def _record(library: ctypes.PyDLL, call: Callable[[], object]) -> Recording:
    """Record a call in this thread: jobs of other threads are run here, one after another."""
    room = np.empty(_MOST_TIMES, np.int64)
    jobs: list[int] = []

    def submit(_: object, work: Callable[..., Any], *args: Any) -> Future[Any]:
        done: Future[Any] = Future()
        jobs.append(library.lock_now())
        done.set_result(work(*args))
        jobs.append(library.lock_now())
        return done

    with patch.object(ThreadPoolExecutor, "submit", submit):
        before = time.process_time_ns() - time.thread_time_ns()
        library.lock_record(room.ctypes.data, len(room))
        start = library.lock_now()
        call()
        end = library.lock_now()
        written = (library.lock_record(None, 0) - room.ctypes.data) // room.itemsize
        others = time.process_time_ns() - time.thread_time_ns() - before
    seconds = np.concatenate([[start], room[:written], [end]]) * 1e-9
    shared = (jobs[0] * 1e-9, jobs[-1] * 1e-9) if jobs else (seconds[-1], seconds[-1])
    return Recording(seconds, shared, others * 1e-9)


def _best(library: ctypes.PyDLL, call: Callable[[], object], rounds: int = _ROUNDS) -> Recording:
    return min((_record(library, call) for _ in range(rounds)), key=lambda one: one.seconds)


def _recorded(library: ctypes.PyDLL, rows: int) -> Iterator[Held]:
    """Record all cases; of none, if modules of this Python don't call what is replaced."""
    library.lock_now.restype = ctypes.c_int64
    library.lock_record.restype = ctypes.c_void_p
    library.lock_record.argtypes = (ctypes.c_void_p, ctypes.c_int64)
    large = impressions(_MORE * rows)
    with tempfile.TemporaryDirectory() as folder:
        found = sources(large.slice(0, rows), rows, Path(folder))
        for case in CASES:
            source, _ = found[case.order]
            one = _best(library, call_of(case, source, 1))
            if len(one.times) == 2:
                return
            alone, size, shared = one.seconds, None, rows
            if case.order == "sorted":
                source, shared = large, large.num_rows
                alone = _best(library, call_of(case, large, 1), 2).seconds
                columns = ["user", "click", *case.scores, *filter(None, [case.by])]
                size = large.select(columns).nbytes / shared
            speed_ups: list[float | None] = []
            for used in THREADS:
                many = [_record(library, call_of(case, source, used)) for _ in range(2)]
                known = all(one.others < _OTHERS * one.seconds for one in many)
                best = max(speed_up(alone, one, used) for one in many)
                speed_ups.append(best if known else None)
            names = case.order, case.name
            yield Held(*names, rows, one.seconds, one.held, size, shared, speed_ups)


# ------------------------------------------------------------------------------------- the page


def report(machine: dict[str, Any], found: Sequence[Held]) -> str:
    """Write up what was recorded, beside the speed-ups of CORES.md.

    Parameters
    ----------
    machine : dict
        As `bench.machine.machine_lines` takes it.
    found : list of Held
        Empty where nothing could be recorded.
    """
    lines = [f"* date: {dt.datetime.now(dt.UTC).date()}"]
    lines += [f"* {line}" for line in machine_lines(machine)]
    parts = [
        "# The lock of the interpreter",
        "Written by `make bench ARGS=lock` from its own measurements, no number is typed.",
        "\n".join(lines),
    ]
    if not found:
        why = "it takes a C compiler, Linux, and a Python whose functions are in a library"
        return "\n\n".join([*parts, f"Not measured: {why}."]) + "\n"
    server = f"{_SERVER / 1e9:.0f} GB/s"
    header = ["order", "measures", "CPU ns a row", "with the lock", "wanted", "met"]
    parts += [
        f"**One thread**, {found[0].rows:,} rows: of {_ROUNDS} runs the one that took the least "
        "processor time. `with the lock`: the share of this time in which no other thread can "
        "run Python. `GB/s`: what the thread reads, if it reads each byte of the columns once. "
        f"The last column: as many threads read {server}, which a server is assumed to read.",
        table(
            [*header, "bytes a row", "GB/s", f"threads for {server}"],
            [_one_thread(one) for one in found],
            "llrrrlrrr",
        ),
        "**Many threads**: times as fast as one thread. `calculated`: spans with the lock and "
        "without it were recorded, in batches as long as this number of threads gets. What comes "
        "before the first batch and after the last one is done by one thread. The rest is cut into "
        "equal parts, and one thread at a time has the lock. In the calculation each thread has a "
        "core, never waits for memory, and runs at once when it gets the lock. It is the better "
        "one of two runs; a dash: threads that were not recorded did a part of the work. "
        f"`measured`: in CORES.md ({_lines_of_cores('* processor: ')[0]}).",
        table(
            ["order", "measures", "rows", "speed-up", *map(str, THREADS)],
            [line for one in found for line in _many_threads(one)],
            "llrlrrrrr",
        ),
        table(
            ["target", "wanted", "calculated", "met"],
            [_target(one, _LEAST[one[:2]]) for one in found if one[:2] in _LEAST],
            "lrrl",
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _one_thread(one: Held) -> list[str]:
    most, speed = _MOST[one.order], one.bytes and one.bytes * one.rows / one.seconds
    return [
        *(one.order, one.measures, number(1e9 * one.seconds / one.rows), f"{one.held:.1%}"),
        *(f"≤ {most:.0%}", _yes(one.held <= most)),
        *(number(one.bytes), number(speed and speed / 1e9)),
        f"{_SERVER / speed:.0f}" if speed else NONE,
    ]


def _many_threads(one: Held) -> Iterator[list[str]]:
    yield [*one[:2], f"{one.shared:,}", "calculated", *map(times, one.speed_ups)]
    cells = [line.strip("| ").split(" | ") for line in _lines_of_cores("| ")]
    known = {line[3]: line for line in cells if tuple(line[:2]) == one[:2]}
    if known:
        speed_ups = [known[str(n)][5] if str(n) in known else NONE for n in THREADS]
        yield [*one[:2], next(iter(known.values()))[2], "measured", *speed_ups]


def _target(one: Held, least: float) -> list[str]:
    found = one.speed_ups[THREADS.index(32)]
    name = f"{one.measures}, {one.order}, {one.shared:,} rows, 32 threads: times as fast as one"
    return [name, f"≥ {least:g}", times(found), _yes(found is not None and found >= least)]


def _yes(met: bool) -> str:
    return "yes" if met else "**no**"


def _lines_of_cores(start: str) -> list[str]:
    lines = _CORES.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix(start) for line in lines if line.startswith(start)]


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(prog="python -m bench.lock", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of one thread")
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "LOCK.md")
    parser.add_argument("--recorded-by", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.recorded_by:
        print(json.dumps(list(_recorded(ctypes.PyDLL(str(chosen.recorded_by)), chosen.rows))))
        return
    clock, machine = Clock(), described()
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        found = measured(library, chosen.rows) if library else []
    machine["others"] = clock.others()
    text = report(machine, found)
    chosen.output.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
