"""Count processors and memory, map jobs over threads, report progress."""

from __future__ import annotations

import math
import mmap
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial
from itertools import chain, islice
from operator import index
from pathlib import Path, PurePosixPath
from threading import Event, get_ident, local
from time import monotonic
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


#: A function such as `map`: it yields the results of a function over jobs, in their order.
JobMap = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
#: Minimum rows for which threads share the work after the last sum.
_MIN_ROWS = 1 << 17
#: Where Linux shows control groups, and those of this process.
CONTROL_GROUPS = "/sys/fs/cgroup"
GROUPS_OF_PROCESS = "/proc/self/cgroup"


def processors() -> int:
    """Count the processors that this process may use.

    A control group, such as that of a container, may limit its time: two seconds of processors in
    each second are two processors, and a part of one counts as one. The limit is read once: to read
    it costs 0.3 ms, half of an evaluation of 100 rows.
    """
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = _quota(CONTROL_GROUPS, GROUPS_OF_PROCESS) if sys.platform == "linux" else count
    return max(1, math.ceil(min(count, quota)))


@cache
def _quota(control_groups: str, groups_of_process: str) -> float:
    """Return how many processors the control groups of this process allow."""
    return min(_quotas(control_groups, groups_of_process), default=math.inf)


def _quotas(control_groups: str, groups_of_process: str) -> Iterator[float]:
    """Yield how many processors each control group of this process may use."""
    for line in file_text(Path(groups_of_process)).splitlines() or ["0::/"]:
        _, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if not controllers:
            root, files = Path(control_groups), ["cpu.max"]
        elif "cpu" in controllers.split(","):
            root, files = Path(control_groups, "cpu"), ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        else:
            continue
        # A container may see its own group as the root, but the name that it has outside.
        group = PurePosixPath(name.lstrip("/"))
        for folder in (group, *group.parents):
            words = " ".join(file_text(root / folder / file) for file in files).split()
            # Without a limit, a quota is "max" or -1.
            if len(words) == 2 and all(map(str.isdecimal, words)) and int(words[1]):
                yield int(words[0]) / int(words[1])


def file_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file, or an empty one if it cannot be read."""
    try:
        # A Path takes twice as long.
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def choose_map(threads: int, rows: int) -> JobMap:
    """Return `map_jobs` on threads, or `map` for few rows."""
    return partial(map_jobs, threads) if rows >= _MIN_ROWS else map


def map_jobs(threads: int, work: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
    """Yield the results of `work` in the order of `jobs`, a few jobs ahead.

    A single job runs in the calling thread: to start threads costs more than 100 rows do.
    """
    _keep_freed_memory()
    ready, jobs = monotonic(), iter(jobs)
    first = list(islice(jobs, 2))
    alone = len(first) < 2
    jobs = chain(first, jobs)
    del first  # or it keeps two batches in memory until the end
    if threads == 1 or alone:
        yield from map(work, jobs)
        return
    futures: deque[Future[Any]] = deque()
    adopted: list[dict[Any, np.ndarray]] = []
    begin = Event()
    pool = ThreadPoolExecutor(threads, "fastrank", _adopt_arrays, (adopted, begin))
    try:
        for job in jobs:
            slow = monotonic() - ready > _QUICK
            futures.append(pool.submit(work, job))
            # A thread that works has the interpreter's lock, which others need to start: 16 take
            # 11 ms. So all start first, unless jobs are slow to come.
            if slow or len(futures) >= threads:
                begin.set()
            if len(futures) > threads:
                yield futures.popleft().result()
            ready = monotonic()
        begin.set()
        pool.shutdown(wait=False)  # a thread without a job ends while others work
        while futures:
            yield futures.popleft().result()
    except GeneratorExit:
        # Garbage collection may close this generator while another thread starts and holds a lock.
        # Threads need this lock to end, so waiting for them here is a deadlock (CPython 3.11). Jobs
        # end without the lock.
        begin.set()
        pool.shutdown(wait=False, cancel_futures=True)
        wait([job for job in futures if not job.cancelled()])
        raise
    except BaseException:
        begin.set()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()
    _hand_back(adopted)


#: Seconds in which a quick job is made; and until a thread works while no other job comes.
_QUICK, _LONGEST_START = 1e-3, 0.05
_thread_arrays = local()
#: Arrays of threads that have ended, for those to come.
_free_arrays: list[dict[Any, np.ndarray]] = []
#: glibc keeps no larger ones.
_LARGEST_KEPT = 31 << 20
#: Bytes of them that are kept, at most.
_MAX_FREE_BYTES = 128 << 20


def _adopt_arrays(adopted: list[dict[Any, np.ndarray]], begin: Event) -> None:
    """Take the arrays of a thread that has ended; wait for others to start.

    To touch new ones costs 5 ns for each of 10^6 rows.
    """
    arrays = _thread_arrays.__dict__
    with suppress(IndexError):
        arrays.update(_free_arrays.pop())
    adopted.append(arrays)
    begin.wait(_LONGEST_START)


def _hand_back(adopted: list[dict[Any, np.ndarray]]) -> None:
    size = sum(map(_bytes_of, _free_arrays))
    for arrays in adopted:
        size += _bytes_of(arrays)
        if arrays and size <= _MAX_FREE_BYTES:  # a thread may have had no job
            _free_arrays.append(arrays)


def _bytes_of(arrays: dict[Any, np.ndarray]) -> int:
    """Count the bytes of arrays; of larger ones, little was ever touched."""
    return sum(array.nbytes for array in arrays.values() if array.nbytes <= _MAX_BYTES)


@cache
def _keep_freed_memory() -> None:
    """Let the allocator keep arrays of a batch that are freed.

    glibc maps an array anew unless one of its size was freed before: 4,000 page faults and 10 ms
    of processor time for seven measures of 10^7 rows on two threads.
    """
    np.empty(_LARGEST_KEPT, np.uint8)


def drop_free_arrays() -> None:
    """Free the arrays of threads that have ended."""
    _free_arrays.clear()


#: Bytes of the largest array that is reused: the memory for a giant group is freed.
_MAX_BYTES = 16 << 20


def scratch(
    use: str, size: int, dtype: DTypeLike = np.int64, *, sparse: bool = False
) -> np.ndarray:
    """Return an array that the thread's next call for the same use overwrites.

    New arrays of the size of a batch cost 0.3 to 1.2 ns a row in page faults.

    Parameters
    ----------
    use : str
        Name of the purpose.
    size : int
        Number of items.
    dtype : dtype
    sparse : bool
        Only its first part is touched, as a rule; `drop_scratch` is for exceptions.

    Returns
    -------
    ndarray of `dtype`, shape (size,)
    """
    array: np.ndarray = scratch_table(use, 1, size, dtype, sparse=sparse)[0, :size]
    return array


def drop_scratch(use: str, size: int) -> None:
    """Forget an array of integers if more than a small part of it was used."""
    arrays: dict[Any, np.ndarray] = _thread_arrays.__dict__
    if size * 8 > _MAX_BYTES:
        arrays.pop((use, 1, np.int64), None)


def set_scratch_aside() -> None:
    """Let the thread's next calls of `scratch` return other arrays.

    Those that are in use are not overwritten then: call it before code of others, which may
    evaluate other rows.
    """
    _thread_arrays.__dict__.clear()


def scratch_table(
    use: str, lines: int, size: int, dtype: DTypeLike = np.float64, *, sparse: bool = False
) -> np.ndarray:
    """Return a table of `lines` lines of `size` items or more; see `scratch`."""
    arrays: dict[Any, np.ndarray] = _thread_arrays.__dict__
    key = use, lines, dtype
    table = arrays.get(key)
    if table is None or table.shape[1] < size:
        table = np.empty((lines, max(size, 1 << 12)), dtype)
        if sparse or table.nbytes <= _MAX_BYTES:
            arrays[key] = table
    return table


#: Seconds between two reports of the same phase, at least.
INTERVAL = 0.1


@dataclass(frozen=True)
class Progress:
    """Progress of a run.

    Parameters
    ----------
    phase : str
        The current phase, such as ``"reading"``.
    rows : int
        Rows that the phase has processed. The count begins at 0 again if the phase is repeated.
    total : int or None
        Rows of the whole phase; None while unknown.
    """

    phase: str
    rows: int
    total: int | None


class _Listener:
    """A callback and its last report."""

    def __init__(self, callback: Callable[[Progress], object]) -> None:
        self._callback = callback
        self._thread = get_ident()
        self._last_report: Progress | None = None
        self._last_time = 0.0

    def receive(self, now: Progress) -> None:
        last, time = self._last_report, monotonic()
        # A thread may inherit the context in which it was started.
        if get_ident() != self._thread or now == last:
            return
        new_phase = last is None or now.phase != last.phase or now.rows < last.rows
        if new_phase or now.rows == now.total or time - self._last_time >= INTERVAL:
            self._last_report, self._last_time = now, time
            try:
                self._callback(now)
            except StopIteration as error:  # it would end one of our generators silently
                raise ArgumentError(
                    "progress: must not raise StopIteration; raise another exception to end a run."
                ) from error


_listener: ContextVar[_Listener | None] = ContextVar("listener", default=None)


@contextmanager
def reporting_to(callback: Callable[[Progress], object] | None) -> Iterator[None]:
    """Send the reports of this thread to a callback meanwhile.

    Parameters
    ----------
    callback : callable or None
        Its exceptions are raised by `report`. None receives no report.
    """
    token = _listener.set(None if callback is None else _Listener(callback))
    try:
        yield
    finally:
        _listener.reset(token)


def has_listener() -> bool:
    """Return whether a callback gets the reports of this thread."""
    return _listener.get() is not None


def report(phase: str, rows: int, total: int | None) -> None:
    """Report progress.

    The callback gets at most ten reports a second, and one when a phase begins or ends. Call it
    from the thread that runs `evaluate`; reports of other threads are ignored.

    Parameters
    ----------
    phase, rows, total
        As in `Progress`.

    Examples
    --------
    >>> with reporting_to(print):
    ...     for rows in (0, 1, 2, 3):
    ...         report("reading", rows, 3)
    Progress(phase='reading', rows=0, total=3)
    Progress(phase='reading', rows=3, total=3)
    """
    listener = _listener.get()
    if listener is not None:
        listener.receive(Progress(phase, rows, total))


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
