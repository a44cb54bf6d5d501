"""What this machine can do by itself: read bandwidth, np.sort, its name and its load."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import psutil
from numpy.typing import NDArray

__all__ = [
    "Clock",
    "described",
    "machine_lines",
    "random_words",
    "read_all",
    "sort_whole",
]

Words: TypeAlias = NDArray[np.uint64]

LIBRARIES = (
    "duckdb", "fastrank_eval", "numba", "numpy", "pandas", "polars", "pyarrow", "pytest-benchmark",
    "scikit-learn",
)  # fmt: skip


def random_words(count: int) -> Words:
    """Uniform 64-bit words, the same at every call."""
    return np.random.default_rng(0).integers(0, 1 << 64, count, dtype=np.uint64)


def read_all(words: NDArray[np.int64], pool: ThreadPoolExecutor, threads: int) -> int:
    """Read every word once, to its sum; NumPy adds without the GIL.

    Parameters
    ----------
    words : ndarray of int64
        Much larger than the caches.
    pool : ThreadPoolExecutor
        Made before, so that starting its threads is not timed.
    threads : int
        Each reads one contiguous part; one thread is the caller's own.

    Returns
    -------
    int
        The sum, modulo 2**64.
    """
    if threads == 1:
        return int(words.sum())
    return sum(int(part) for part in pool.map(np.sum, np.array_split(words, threads)))


def sort_whole(words: Words) -> None:
    """Sort in place, all at once."""
    words.sort()


class Clock:
    """Measures how busy other programs kept the machine since this was made."""

    def __init__(self) -> None:
        self._wall, self._all, self._own = time.perf_counter(), _all_seconds(), _own_seconds()

    def others(self) -> float:
        """Share of all cores' time that other programs took, 0 to 1."""
        busy = (_all_seconds() - self._all) - (_own_seconds() - self._own)
        wall = time.perf_counter() - self._wall
        share: float = busy / (wall * (psutil.cpu_count() or 1))
        return min(1.0, max(0.0, share))


def _all_seconds() -> float:
    spent = psutil.cpu_times()._asdict()
    # Linux counts guests' time into user's as well.
    return float(sum(spent.get(kind, 0.0) for kind in ("user", "nice", "system", "irq", "softirq")))


def _own_seconds() -> float:
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system


def described() -> dict[str, object]:
    """Describe the machine, its load now, and the versions in use.

    Returns
    -------
    dict
        JSON-ready: `cpu`, `cores`, `memory_gb` (None where unknown), `load` (three averages, empty
        where unknown), `system`, `python`, `versions`.
    """
    return {
        "cpu": _cpu_name(),
        "cores": _cores(),
        "memory_gb": _memory_gb(),
        "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else [],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": dict(_versions()),
    }


def machine_lines(machine: dict[str, Any]) -> list[str]:
    """What a report says of the machine.

    Parameters
    ----------
    machine : dict
        As `described` tells it; `others` is the share of all cores' time that other programs took.
    """
    memory, load = machine.get("memory_gb"), machine.get("load") or []
    lines = [
        f"processor: {machine['cpu']}, {machine['cores']} cores"
        + (f", {memory:.0f} GB" if memory else "")
        + f", {machine['system']}",
        "versions: "
        + ", ".join(
            f"{name} {release}"
            for name, release in {"Python": machine["python"], **machine["versions"]}.items()
        ),
    ]
    if load:
        averages = ", ".join(f"{value:.2f}" for value in load)
        lines.append(f"load average at the start (1, 5, 15 minutes): {averages}")
    if machine.get("others") is not None:
        lines.append(f"other programs took {machine['others']:.0%} of all cores' time meanwhile")
    return lines


def _versions() -> Iterator[tuple[str, str]]:
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            yield name, version(name)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_name() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        for line in listing.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (AttributeError, OSError, ValueError):
        return None
