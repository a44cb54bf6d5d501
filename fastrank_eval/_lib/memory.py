"""Compute the memory budget of a run, and parse and format sizes."""

from __future__ import annotations

import mmap
import os
import re
import sys
from contextlib import suppress
from operator import index
from pathlib import Path
from typing import SupportsIndex

import numpy as np

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.threads import drop_free_arrays, file_text

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}
#: Memory of a run besides its rows: decoded batches and scratch of each thread, pooled scores.
_THREAD_BYTES, _POOL_BYTES = 64 << 20, 384 << 20
_MIN_BYTES = 256 * 10**6
#: The default fraction of the free memory that a run may use.
_FREE_FRACTION = 0.6


@dataclass(frozen=True)
class Budget:
    """Memory that a run may use.

    Parameters
    ----------
    total : int
        Bytes for the process.
    rows : int
        Bytes of these for rows.
    """

    total: int
    rows: int


def parse_bytes(text: str | int) -> int:
    """Parse a number of bytes, or text with a unit.

    Parameters
    ----------
    text : str or int
        ``"4GB"``, ``"512 MiB"``, ``"1.5g"``; GB is 10^9 bytes, GiB 2^30.

    Raises
    ------
    ArgumentError
        If it is neither, or not positive.

    Examples
    --------
    >>> parse_bytes("4GB"), parse_bytes("1.5 GiB"), parse_bytes(1 << 20)
    (4000000000, 1610612736, 1048576)
    """
    units = {**_UNITS, **_BINARY}
    if isinstance(text, str):
        number = r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([kmgt]?i?)b?\s*"
        match = re.fullmatch(number, text.casefold())
        value = int(float(match[1]) * units[match[2]]) if match and match[2] in units else 0
    else:
        is_integer = isinstance(text, SupportsIndex) and not isinstance(text, bool)
        value = index(text) if is_integer else 0
    if value <= 0:
        raise ArgumentError(
            f"memory: must be an amount of memory, got {text!r}; write it as '4GB' or '512MB'."
        )
    return value


def parse_memory(memory: str | int) -> int:
    """Parse the memory limit of a run.

    Raises
    ------
    ArgumentError
        If it is no amount of memory, or too little for a run.
    """
    return _check_minimum(parse_bytes(memory), memory)


def _check_minimum(total: int, memory: str | int | None) -> int:
    if total < _MIN_BYTES:
        raise ArgumentError(
            f"memory: must be at least {format_bytes(_MIN_BYTES)}, which a run needs for itself, "
            f"got {memory!r}; allow more."
        )
    return total


def format_bytes(size: int) -> str:
    """Format a number of bytes with a unit: ``'1.3 GB'``."""
    for unit, name in (("t", "TB"), ("g", "GB"), ("m", "MB"), ("k", "kB")):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:.3g} {name}"
    return f"{size} bytes"


def memory_budget(memory: str | int | None, threads: int, pooled: bool) -> Budget:
    """Compute the memory budget of a run.

    Parameters
    ----------
    memory : str, int or None
        Limit of the process; None: a fraction of the free memory.
    threads : int
    pooled : bool
        Whether the run pools scores, which takes more memory.

    Raises
    ------
    ArgumentError
        If `memory` is no amount of memory, or too little for a run.
    """
    if memory is not None:
        _kept.clear()  # or it would count as used
        drop_free_arrays()
    resident = _resident()
    total = _check_minimum(
        resident + int(_FREE_FRACTION * _free()) if memory is None else parse_bytes(memory), memory
    )
    reserve = resident + threads * _THREAD_BYTES + (_POOL_BYTES if pooled else 0)
    return Budget(total, max(total - reserve, total // 4))


#: Memory that the next run may use: one block at most. The system may take it meanwhile.
_kept: list[np.ndarray] = []
_MIN_KEPT_BYTES, _MAX_KEPT_BYTES = 4 << 20, 256 << 20


def borrow(size: int) -> np.ndarray:
    """Return bytes for rows, in memory of an earlier run if it is long enough.

    To touch 13 bytes of new memory costs 1.3 ns.
    """
    with suppress(IndexError):
        block = _kept.pop()
        if len(block) >= size:
            return block
    if size < _MIN_KEPT_BYTES or not hasattr(mmap, "MADV_FREE"):
        return np.empty(size, np.uint8)
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:  # NumPy raises MemoryError
        return np.empty(size, np.uint8)
    with suppress(OSError, AttributeError):  # not every system has large pages
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)


def give_back(memory: np.ndarray) -> None:
    """Store what was borrowed for the next run, unless it is too long."""
    pages = getattr(memory.base, "obj", None)
    if isinstance(pages, mmap.mmap) and len(memory) <= _MAX_KEPT_BYTES:
        with suppress(OSError):
            pages.madvise(mmap.MADV_FREE)
            _kept[:] = [memory]


def _free() -> int:
    """Return the free bytes of the machine, or of the control group if fewer."""
    candidates = []
    if sys.platform == "linux":
        table = file_text("/proc/meminfo")
        if available := re.search(r"MemAvailable:\s+([0-9]+) kB", table):
            candidates.append(1024 * int(available[1]))
        # The limit of a container: the system can reclaim memory of file caches.
        for limit, used in (
            ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
            (
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.usage_in_bytes",
            ),
        ):
            limit_text, used_text = file_text(limit).strip(), file_text(used).strip()
            if limit_text.isdigit() and used_text.isdigit():
                stat = file_text(str(Path(limit).with_name("memory.stat")))
                cached = re.search(r"^(?:total_)?inactive_file ([0-9]+)$", stat, re.MULTILINE)
                reclaimable = int(cached[1]) if cached else 0
                candidates.append(max(0, int(limit_text) - int(used_text) + reclaimable))
    if not candidates and hasattr(os, "sysconf"):
        candidates.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    return min(candidates, default=4 << 30)


def _resident() -> int:
    """Return the bytes that this process uses now."""
    pages = file_text("/proc/self/statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 256 << 20
