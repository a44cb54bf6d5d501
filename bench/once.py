"""One evaluation in a process of its own: its time, and its memory above what imports take.

`python -m bench.once SMALL FILE MEASURES ...` prints them as JSON.
"""

from __future__ import annotations

import argparse
import inspect
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import fastrank_eval
from bench.fresh import ROOT, resident

__all__ = ["Once", "evaluated_once", "takes_memory"]

#: A file that is read faster is read again, up to this many seconds.
_ENOUGH_SECONDS = 2.0
_MOST_ROUNDS = 15


@dataclass(frozen=True)
class Once:
    """What a fresh process needed.

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


def takes_memory() -> bool:
    """Whether this version can be told how much memory it may use."""
    return "memory" in inspect.signature(fastrank_eval.evaluate).parameters


def evaluated_once(
    small: Path, file: Path, measures: str, *, threads: int, order: str, memory: str | None = None
) -> Once:
    """Evaluate a file in a fresh process.

    Parameters
    ----------
    small : Path
        Evaluated first, so that imports and compiled kernels are in the baseline.
    file : Path
    measures : str
    threads : int
    order : str
        Of `fastrank_eval.evaluate`.
    memory : str or None
        The memory it may use, such as ``"2GB"``.

    Raises
    ------
    subprocess.CalledProcessError
        It failed, or was killed for want of memory.
    """
    command = [sys.executable, "-m", "bench.once", str(small), str(file), measures]
    command += ["--threads", str(threads), "--order", order]
    command += [] if memory is None else ["--memory", memory]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    return Once(**json.loads(done.stdout))


def _measure(small: Path, file: Path, measures: str, options: dict[str, Any]) -> Once:
    def run(path: Path) -> fastrank_eval.Result:
        return fastrank_eval.evaluate(
            path,
            group="user_id",
            label="click",
            score="score_a",
            measures=measures,
            keep="",
            **options,
        )

    run(small)
    baseline, _ = resident()
    seconds: list[float] = []
    while not seconds or (sum(seconds) < _ENOUGH_SECONDS and len(seconds) < _MOST_ROUNDS):
        started = time.perf_counter()
        result = run(file)
        seconds.append(time.perf_counter() - started)
    _, peak = resident()
    values = {value.measure: value.value for value in result}
    return Once(
        result.meta.rows,
        result.meta.groups,
        median(seconds),
        len(seconds),
        baseline / 1e6,
        peak / 1e6,
        values,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.once", description=__doc__)
    parser.add_argument("small", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("measures")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--order", default="auto")
    parser.add_argument("--memory", default=None)
    chosen = parser.parse_args(arguments)
    options = {"threads": chosen.threads, "order": chosen.order}
    if chosen.memory is not None:
        options["memory"] = chosen.memory
    print(json.dumps(_measure(chosen.small, chosen.file, chosen.measures, options).__dict__))


if __name__ == "__main__":
    main()
