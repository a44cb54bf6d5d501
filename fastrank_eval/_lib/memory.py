"""How much memory there is, how much of it a run may take, and how it is written."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import SupportsIndex

from fastrank_eval._lib.errors import ArgumentError

__all__ = ["Budget", "amount", "budget", "bytes_for_a_run", "bytes_of"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}
#: What a run holds beside its rows: decoded batches and scratch of each thread, pooled scores.
_EACH_THREAD, _POOLED = 64 << 20, 384 << 20
_LEAST = 256 * 10**6
#: The share of the free memory that is taken unless told otherwise.
_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may take of memory and disk.

    Parameters
    ----------
    whole : int
        Bytes for the whole process.
    rows : int
        Bytes of it for rows that are held.
    spill : str or None
        Folder for rows that do not fit; None: the system's folder for temporary files.
    """

    whole: int
    rows: int
    spill: str | None


def bytes_of(text: str | int) -> int:
    """Bytes from a number or from text with a unit.

    Parameters
    ----------
    text : str or int
        ``"4GB"``, ``"512 MiB"``, ``"1.5g"``; GB is 10^9 bytes, GiB 2^30.

    Raises
    ------
    ArgumentError
        If it is neither, or not above 0.

    Examples
    --------
    >>> bytes_of("4GB"), bytes_of("1.5 GiB"), bytes_of(1 << 20)
    (4000000000, 1610612736, 1048576)
    """
    known = {**_UNITS, **_BINARY}
    if isinstance(text, str):
        number = r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([kmgt]?i?)b?\s*"
        found = re.fullmatch(number, text.casefold())
        value = int(float(found[1]) * known[found[2]]) if found and found[2] in known else 0
    else:
        whole = isinstance(text, SupportsIndex) and not isinstance(text, bool)
        value = index(text) if whole else 0
    if value <= 0:
        raise ArgumentError(
            f"memory={text!r} is no amount of memory: write it as '4GB' or '512MB'."
        )
    return value


def bytes_for_a_run(memory: str | int) -> int:
    """The same, of what a run is to take.

    Raises
    ------
    ArgumentError
        It is no amount, or too little for any run.
    """
    return _enough(bytes_of(memory), memory)


def _enough(whole: int, memory: str | int | None) -> int:
    if whole < _LEAST:
        raise ArgumentError(
            f"memory={memory!r} is too little: a run needs at least {amount(_LEAST)}."
        )
    return whole


def amount(size: int) -> str:
    """Bytes as a reader would write them: ``'1.3 GB'``."""
    for unit, name in (("t", "TB"), ("g", "GB"), ("m", "MB"), ("k", "kB")):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:.3g} {name}"
    return f"{size} bytes"


def budget(memory: str | int | None, threads: int, pooled: bool, spill: str | None) -> Budget:
    """What a run may take.

    Parameters
    ----------
    memory : str, int or None
        For the whole process; None: a share of what is free.
    threads : int
    pooled : bool
        Whether scores are pooled, which takes memory of its own.
    spill : str or None
        Folder for rows that do not fit.

    Raises
    ------
    ArgumentError
        If `memory` is no amount or too little for any run, or if `spill` is no folder.
    """
    if spill is not None and not _is_folder(spill):
        raise ArgumentError(f"spill_dir={_short(spill)} is no folder: create it, or name another.")
    held = _resident()
    whole = _enough(held + int(_SHARE * _free()) if memory is None else bytes_of(memory), memory)
    beside = held + threads * _EACH_THREAD + (_POOLED if pooled else 0)
    return Budget(whole, max(whole - beside, whole // 4), spill)


def _is_folder(path: object) -> bool:
    try:
        return isinstance(path, str | os.PathLike) and Path(path).is_dir()
    except (OSError, ValueError):  # too long, or not a name at all
        return False


def _short(path: object) -> str:
    text = repr(path)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _free() -> int:
    """Bytes that this process may still take: of the machine, or of its control group."""
    found = []
    if sys.platform == "linux":
        table = _text("/proc/meminfo")
        if available := re.search(r"MemAvailable:\s+([0-9]+) kB", table):
            found.append(1024 * int(available[1]))
        # The limit of a container: what is held in file caches can be taken back.
        for limit, used in (
            ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
            (
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.usage_in_bytes",
            ),
        ):
            most, taken = _text(limit).strip(), _text(used).strip()
            if most.isdigit() and taken.isdigit():
                stat = _text(str(Path(limit).with_name("memory.stat")))
                cached = re.search(r"^(?:total_)?inactive_file ([0-9]+)$", stat, re.MULTILINE)
                back = int(cached[1]) if cached else 0
                found.append(max(0, int(most) - int(taken) + back))
    if not found and hasattr(os, "sysconf"):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    return min(found, default=4 << 30)


def _resident() -> int:
    """Bytes that this process holds now."""
    pages = _text("/proc/self/statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 256 << 20


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:
        return ""
