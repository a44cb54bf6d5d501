"""Map a function over jobs in threads, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import chain, islice
from typing import Any

#: A function such as `map`: it yields the results of a function over jobs, in their order.
JobMap = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
#: Minimum rows for which threads share the work after the last sum.
_MIN_ROWS = 1 << 17


def choose_map(threads: int, rows: int) -> JobMap:
    """Return `map_jobs` on threads, or `map` for few rows."""
    return partial(map_jobs, threads) if rows >= _MIN_ROWS else map


def map_jobs(threads: int, work: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
    """Yield the results of `work` in the order of `jobs`, a few jobs ahead.

    A single job runs in the calling thread: to start threads costs more than 100 rows do.
    """
    jobs = iter(jobs)
    first = list(islice(jobs, 2))
    alone = len(first) < 2
    jobs = chain(first, jobs)
    del first  # or it keeps two batches in memory until the end
    if threads == 1 or alone:
        yield from map(work, jobs)
        return
    futures: deque[Future[Any]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="fastrank")
    try:
        for job in jobs:
            futures.append(pool.submit(work, job))
            if len(futures) > threads:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
    except GeneratorExit:
        # Garbage collection may close this generator while another thread starts and holds a lock.
        # Threads need this lock to end, so waiting for them here is a deadlock (CPython 3.11). Jobs
        # end without the lock.
        pool.shutdown(wait=False, cancel_futures=True)
        wait([job for job in futures if not job.cancelled()])
        raise
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()
