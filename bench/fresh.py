"""What only a fresh process can show: start-up with and without kernels, peak memory.

`python -m bench.fresh SMALL FILE MEASURES OPTIONS` prints as JSON what evaluating FILE needed, and
its memory above what the process held after evaluating SMALL.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from fastrank_eval._lib.kernel_store import user_folder

__all__ = [
    "Once",
    "command_line",
    "empty_store",
    "evaluated_once",
    "polars_command",
    "resident",
    "run_command",
]

ROOT = Path(__file__).parent.parent
ROOT_CACHE = Path("/var/cache")
#: A file that is read faster is read again, up to this many seconds.
_ENOUGH_SECONDS = 2.0
_MOST_ROUNDS = 15


@contextmanager
def empty_store() -> Iterator[Path]:
    """Make an empty folder for kernels; one in /tmp would not be safe."""
    store = user_folder()
    if store is None:
        raise RuntimeError("FASTRANK_CACHE_DIR must name a folder where owners are not known")
    above = store.parent
    # Tests load as another user what root has stored; root's home is closed to others.
    if getattr(os, "geteuid", lambda: 1)() == 0 and ROOT_CACHE.is_dir():
        above = ROOT_CACHE
    above.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=above, prefix="kernels-") as folder:
        yield Path(folder)


def command_line(path: Path, measures: str) -> list[str]:
    """The command of a user who evaluates a file for the first time."""
    columns = ["--group", "user_id", "--label", "click", "--score", "score_a"]
    program = [sys.executable, "-m", "fastrank_eval", "evaluate", str(path)]
    return [*program, *columns, "--measures", measures]


def polars_command(path: Path) -> list[str]:
    """The same file to the same number, GAUC, by polars."""
    return [sys.executable, "-m", "bench.peers.with_polars", str(path)]


def run_command(command: list[str], store: Path) -> float:
    """Run a command in a fresh process with its kernels in `store`.

    Returns
    -------
    float
        Processor time of the process and its children, user and system, in seconds.

    Raises
    ------
    subprocess.CalledProcessError
        The command failed.
    """
    environment = {**os.environ, "FASTRANK_CACHE_DIR": str(store)}
    # An installed package has its bytecode; a checkout has it from the run before, if it may.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = _children_seconds()
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=environment)
    return _children_seconds() - before


@dataclass(frozen=True)
class Once:
    """What an evaluation in a fresh process needed.

    Parameters
    ----------
    rows, groups : int
    seconds : float
        The median, where a small file was read more than once.
    rounds : int
    baseline_mb, peak_mb : float
        Memory held after a small evaluation, and at most: VmHWM, in units of 10**6 bytes.
    values : dict of str to float
        Each measure's number; the same rows must give the same.
    """

    rows: int
    groups: int
    seconds: float
    rounds: int
    baseline_mb: float
    peak_mb: float
    values: dict[str, float]

    @property
    def mrows(self) -> float:
        return self.rows / self.seconds / 1e6

    @property
    def ns_a_row(self) -> float:
        return 1e9 * self.seconds / self.rows

    @property
    def above_mb(self) -> float:
        return self.peak_mb - self.baseline_mb


def evaluated_once(small: Path, file: Path, measures: str, **options: Any) -> Once:
    """Evaluate a file in a fresh process.

    Parameters
    ----------
    small : Path
        Evaluated first, so that imports and compiled kernels are in the baseline.
    file : Path
    measures : str
    **options
        Of `fastrank_eval.evaluate`.

    Raises
    ------
    subprocess.CalledProcessError
        It failed, or was killed for want of memory.
    """
    command = [sys.executable, "-m", "bench.fresh", str(small), str(file), measures]
    command.append(json.dumps(options))
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    return Once(**json.loads(done.stdout))


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def resident() -> tuple[int, int]:
    """Memory held now and at most so far, in bytes."""
    status = Path("/proc/self/status")
    if status.is_file():
        # Not ru_maxrss: Linux counts the parent's memory at the time of the fork into it.
        lines = (line.split() for line in status.read_text(encoding="utf-8").splitlines())
        held = {words[0]: int(words[1]) << 10 for words in lines if words[0].startswith("Vm")}
        return held["VmRSS:"], held["VmHWM:"]
    import psutil

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return psutil.Process().memory_info().rss, most if sys.platform == "darwin" else most << 10


def _measure(small: str, file: str, measures: str, options: str) -> Once:
    import fastrank_eval

    def run(path: str) -> fastrank_eval.Result:
        columns = {"group": "user_id", "label": "click", "score": "score_a"}
        given = {**columns, "measures": measures, "keep": "", **json.loads(options)}
        return fastrank_eval.evaluate(path, **given)

    run(small)
    baseline, _ = resident()
    seconds: list[float] = []
    while not seconds or (sum(seconds) < _ENOUGH_SECONDS and len(seconds) < _MOST_ROUNDS):
        started = time.perf_counter()
        result = run(file)
        seconds.append(time.perf_counter() - started)
    # Linux counts pages thread by thread, late: the most it tells may be less than it told before.
    peak = max(baseline, resident()[1])
    return Once(
        result.meta.rows,
        result.meta.groups,
        median(seconds),
        len(seconds),
        baseline / 1e6,
        peak / 1e6,
        {value.measure: value.value for value in result},
    )


if __name__ == "__main__":
    print(json.dumps(_measure(*sys.argv[1:]).__dict__))
