"""`python -m bench.profile`: where the time of an evaluation goes, stage by stage.

Every function, method and kernel of fastrank_eval that Python calls is timed, in each thread: its
own time is what it did not spend in others. A table of the rooms sums it up. With ``--compile`` a
fresh process with an empty store tells what each kernel takes to compile.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from numba.core import event

import fastrank_eval
from bench.fresh import empty_store
from bench.tables import number, table
from bench.workload import BY_NAME, MEASURES, THREADS, evaluate, rows_wanted, table_of, write_rows
from fastrank_eval._lib.jit import Kernel

__all__ = ["Stages", "compile_times", "profiled"]

ROOT = Path(__file__).parent.parent
FILE = "presorted, Parquet file"


@dataclass
class _Stage:
    """Calls of one function in all threads: seconds with and without those it called."""

    calls: int = 0
    total: float = 0.0
    own: float = 0.0


@dataclass
class Stages:
    """Times every function of a package while it is entered.

    Parameters
    ----------
    package : module
        Its functions and methods are replaced, wherever its modules refer to them. Calls of
        kernels are timed where they are made: kernels that call others must find them.

    Attributes
    ----------
    found : dict of (str, str) to _Stage
        By who called, 'caller' or 'workers', and the name of the function.
    """

    package: ModuleType
    found: dict[tuple[str, str], _Stage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._own = threading.local()
        self._lock = threading.Lock()
        self._main = threading.get_ident()
        self._undo: list[tuple[object, str, object]] = []

    def __enter__(self) -> Stages:
        modules = [self.package, *_modules(self.package)]
        for name in self.package.__all__:
            getattr(self.package, name)  # a name imported later would be kept with its timer
        timed: dict[int, object] = {}
        for module in modules:
            for name, value in list(vars(module).items()):
                if id(value) not in timed and _stage(value, self.package):
                    timed[id(value)] = self._timed(value)
                if id(value) in timed:
                    self._replace(module, name, timed[id(value)])
        for made in {id(c): c for m in modules for c in vars(m).values()}.values():
            if isinstance(made, type) and made.__module__.startswith(self.package.__name__):
                self._replace_methods(made)
        self._replace_call_of_kernels()
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, value in reversed(self._undo):
            setattr(owner, name, value)

    def _replace(self, owner: object, name: str, value: object) -> None:
        self._undo.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def _replace_methods(self, made: type) -> None:
        for name, value in list(vars(made).items()):
            if name.startswith("__"):
                continue
            if isinstance(value, classmethod | staticmethod):
                self._replace(made, name, type(value)(self._timed(value.__func__)))
            elif isinstance(value, FunctionType):
                self._replace(made, name, self._timed(value))

    def _replace_call_of_kernels(self) -> None:
        call = Kernel.__call__

        def timed(kernel: Kernel, *args: Any) -> Any:
            with self._clock(_name_of(kernel)):
                return call(kernel, *args)

        self._replace(Kernel, "__call__", timed)

    def _timed(self, function: Any) -> Callable[..., Any]:
        name = _name_of(function)

        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def each(*args: Any, **options: Any) -> Iterator[Any]:
                made = function(*args, **options)
                try:
                    while True:
                        with self._clock(name):
                            try:
                                value = next(made)
                            except StopIteration:
                                return
                        yield value
                finally:
                    made.close()

            return each

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            with self._clock(name):
                return function(*args, **options)

        return call

    def _clock(self, name: str) -> _Clocked:
        return _Clocked(self, name)

    def stack(self) -> list[float]:
        """Seconds spent in what the open calls of this thread called."""
        if not hasattr(self._own, "stack"):
            self._own.stack = []
        stack: list[float] = self._own.stack
        return stack

    def add(self, name: str, total: float, own: float) -> None:
        who = "caller" if threading.get_ident() == self._main else "workers"
        with self._lock:
            stage = self.found.setdefault((who, name), _Stage())
            stage.calls += 1
            stage.total += total
            stage.own += own


class _Clocked:
    """One call."""

    def __init__(self, stages: Stages, name: str) -> None:
        self._stages, self._name = stages, name

    def __enter__(self) -> None:
        self._stages.stack().append(0.0)
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        total = time.perf_counter() - self._started
        stack = self._stages.stack()
        inside = stack.pop()
        if stack:
            stack[-1] += total
        self._stages.add(self._name, total, total - inside)


def _modules(package: ModuleType) -> list[ModuleType]:
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    names = [module.name for module in found if not module.name.endswith("__main__")]
    return [importlib.import_module(name) for name in names]


def _name_of(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}".removeprefix("fastrank_eval.")


def _stage(value: object, package: ModuleType) -> bool:
    """Whether this is a function of the package."""
    if not isinstance(value, FunctionType):
        return False
    if str(getattr(value, "__name__", "")).startswith("__"):
        return False
    module = getattr(value, "__module__", None) or ""
    return bool(module == package.__name__ or module.startswith(package.__name__ + "."))


def profiled(rows: str, measures: str, threads: int, count: int, rounds: int) -> str:
    """Evaluate once to compile, then with every stage timed.

    Parameters
    ----------
    rows : str
        Of `bench.workload.INPUTS`, or `FILE`.
    measures : str
        Of `bench.workload.MEASURES`.
    threads : int
    count : int
        Rows.
    rounds : int

    Returns
    -------
    str
        Tables in Markdown.
    """
    with tempfile.TemporaryDirectory() as folder:
        if rows == FILE:
            source: Any = Path(folder) / "sorted.parquet"
            write_rows(source, count)
        else:
            source = table_of(BY_NAME[rows], count)
        presorted = rows == FILE or BY_NAME[rows].presorted

        def run() -> float:
            started = time.perf_counter()
            evaluate(source, MEASURES[measures], threads=threads, presorted=presorted)
            return time.perf_counter() - started

        run()
        plain = min(run() for _ in range(rounds))
        cpu = time.process_time()
        with Stages(fastrank_eval) as stages:
            seconds = sum(run() for _ in range(rounds))
        cpu = time.process_time() - cpu
    title = f"{rows}, {measures}, {count:,} rows, {threads} thread" + "s" * (threads > 1)
    description = (
        f"{plain:.4f} s ({number(1e9 * plain / count)} ns a row) without timers, the best of "
        f"{rounds}; with them {seconds / rounds:.4f} s, processor time {cpu / rounds:.4f} s. "
        "All below is a round's mean; `own` leaves out what a stage called, and the workers' "
        "seconds are those of all of them together, waiting for the GIL included. With workers, "
        "`_lib.threads.map_jobs` of the caller is waiting for them."
    )
    rooms: dict[tuple[str, str], float] = {}
    for (who, name), stage in stages.found.items():
        room = who, name.partition(".")[0]
        rooms[room] = rooms.get(room, 0.0) + stage.own
    by_room = [
        [room, who, *_share(own, rounds, seconds, count)]
        for (who, room), own in sorted(rooms.items(), key=lambda item: -item[1])
    ]
    by_stage = [
        [
            name,
            who,
            f"{stage.calls / rounds:,.0f}",
            f"{stage.total / rounds:.4f}",
            *_share(stage.own, rounds, seconds, count),
        ]
        for (who, name), stage in sorted(stages.found.items(), key=lambda item: -item[1].own)
        if stage.own >= 0.002 * seconds or stage.total >= 0.01 * seconds
    ]
    share = ["own, s", "of the wall", "ns a row"]
    return "\n\n".join(
        [
            f"# {title}",
            description,
            table(["room", "in", *share], by_room, "llrrr"),
            table(["stage", "in", "calls", "in all, s", *share], by_stage, "llrrrrr"),
        ]
    )


def _share(own: float, rounds: int, seconds: float, count: int) -> list[str]:
    return [f"{own / rounds:.4f}", f"{own / seconds:.1%}", number(1e9 * own / rounds / count)]


# --------------------------------------------------------------------------------- compiling


def compile_times(rows: str, measures: str) -> str:
    """Evaluate a little in a fresh process with an empty store: seconds that each kernel compiles.

    Returns
    -------
    str
        A table in Markdown.
    """
    with empty_store() as store:
        command = [sys.executable, "-m", "bench.profile", "--child", "--input", rows]
        done = subprocess.run(
            [*command, "--measures", measures],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "FASTRANK_CACHE_DIR": str(store)},
        )
    told = json.loads(done.stdout)
    lines = [
        [name, str(times), f"{seconds:.3f}"]
        for name, (times, seconds) in sorted(told["kernels"].items(), key=lambda kv: -kv[1][1])
    ]
    total = sum(seconds for _, seconds in told["kernels"].values())
    signatures = sum(times for times, _ in told["kernels"].values())
    lines.append(["all kernels", str(signatures), f"{total:.3f}"])
    return "\n\n".join(
        [
            "# Compiling, with an empty store",
            f"{told['first']:.2f} s for the first evaluation of 10,000 rows, "
            f"{told['second']:.3f} s for the second. A kernel's time is without that of the "
            "kernels it calls and of its entry point.",
            table(["kernel", "signatures", "seconds"], lines, "lrr"),
        ]
    )


def _compile(rows: str, measures: str) -> dict[str, Any]:
    given = BY_NAME["presorted" if rows == FILE else rows]
    data = table_of(given, 10_000)
    seconds = []
    with event.install_recorder("numba:compile") as recorder:
        for _ in range(2):
            started = time.perf_counter()
            evaluate(data, MEASURES[measures], threads=1, presorted=given.presorted)
            seconds.append(time.perf_counter() - started)
    kernels: dict[str, list[float]] = {}
    inside: list[tuple[float, float]] = []
    for moment, told in recorder.buffer:
        if told.is_start:
            inside.append((moment, 0.0))
            continue
        started, others = inside.pop()
        total = moment - started
        if inside:
            outer, before = inside[-1]
            inside[-1] = outer, before + total
        entry = kernels.setdefault(_name_of(told.data["dispatcher"].py_func), [0, 0.0])
        entry[0] += 1
        entry[1] += total - others
    return {"first": seconds[0], "second": seconds[1], "kernels": kernels}


def _count(text: str) -> int:
    value = float(text)
    if not 1 <= value <= 1e12:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1e12")
    return int(value)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    add = parser.add_argument
    add("--input", choices=[*BY_NAME, FILE], default="presorted")
    add("--measures", choices=MEASURES, default="eight")
    add("--threads", type=_count, default=1, help=f"the benchmark's are {THREADS}")
    add("--rows", type=_count, default=rows_wanted())
    add("--rounds", type=_count, default=5)
    add("--compile", action="store_true", help="tell what each kernel takes to compile, too")
    add("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.child:
        print(json.dumps(_compile(chosen.input, chosen.measures)))
        return
    print(profiled(chosen.input, chosen.measures, chosen.threads, chosen.rows, chosen.rounds))
    if chosen.compile:
        print("\n" + compile_times(chosen.input, chosen.measures))


if __name__ == "__main__":
    main()
