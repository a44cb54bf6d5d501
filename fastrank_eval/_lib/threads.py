"""Run work in threads, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

#: Rows from which on threads share what is done once all are added up.
_SHARED = 1 << 17


def sharing(threads: int, rows: int) -> Callable[..., Iterator[Any]]:
    """What maps work over parts of so many rows: threads, unless starting them takes longer."""
    return partial(in_order, threads) if rows >= _SHARED else map


def in_order(threads: int, work: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
    """Results of `work` in the order of `jobs`, a few jobs ahead."""
    if threads == 1:
        yield from map(work, jobs)
        return
    waiting: deque[Future[Any]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="fastrank")
    try:
        for job in jobs:
            waiting.append(pool.submit(work, job))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except GeneratorExit:
        # Who closes what was left in the midst may be a collection of garbage that comes while
        # another thread starts. To wait there for threads to end, which take the lock that a start
        # holds, is to wait for ever (CPython 3.11); jobs end without it.
        pool.shutdown(wait=False, cancel_futures=True)
        wait([job for job in waiting if not job.cancelled()])
        raise
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()
