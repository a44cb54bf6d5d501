"""What only a fresh process can show: start-up with and without kernels, peak memory.

`python -m bench.fresh SMALL LARGE MEASURES` prints the peak memory of streaming LARGE above what
the process held after evaluating SMALL.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastrank_eval._lib.kernel_store import user_folder

__all__ = [
    "command_line",
    "empty_store",
    "peak_memory",
    "polars_command",
    "resident",
    "run_command",
]

ROOT = Path(__file__).parent.parent
ROOT_CACHE = Path("/var/cache")


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


def peak_memory(small: Path, large: Path, measures: str, threads: int) -> dict[str, float]:
    """Stream a sorted file in a fresh process and see how much memory that takes.

    Parameters
    ----------
    small : Path
        File evaluated first, so that imports and compiled kernels are in the baseline.
    large : Path
        File that is streamed.
    measures : str
    threads : int

    Returns
    -------
    dict
        `baseline_mb`, `peak_mb` (of the whole process) and `above_mb`, in units of 10**6 bytes.
    """
    command = [sys.executable, "-m", "bench.fresh", str(small), str(large), measures, str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


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


def _stream(small: Path, large: Path, measures: str, threads: int) -> dict[str, float]:
    from bench.workload import evaluate

    evaluate(small, measures, threads=threads, presorted=True)
    baseline, _ = resident()
    evaluate(large, measures, threads=threads, presorted=True)
    # Linux counts pages thread by thread, late: the most it tells may be less than it told before.
    peak = max(baseline, resident()[1])
    return {
        "baseline_mb": baseline / 1e6,
        "peak_mb": peak / 1e6,
        "above_mb": (peak - baseline) / 1e6,
    }


if __name__ == "__main__":
    _small, _large, _measures, _threads = sys.argv[1:]
    print(json.dumps(_stream(Path(_small), Path(_large), _measures, int(_threads))))
