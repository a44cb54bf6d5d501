"""Memory that later threads and later runs use again."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from fastrank_eval._lib import threads


def test_threads__adopt_the_arrays_of_those_that_have_ended(monkeypatch):
    monkeypatch.setattr(threads, "_free_arrays", [])
    both = threading.Barrier(2)

    def address(_: int) -> int:
        both.wait(60)
        return threads.scratch("a use of this test", 1 << 12).__array_interface__["data"][0]

    first = set(threads.map_jobs(2, address, range(2)))
    assert len(first) == 2
    assert set(threads.map_jobs(2, address, range(2))) == first


def test_threads__keep_a_bounded_number_of_bytes(monkeypatch):
    monkeypatch.setattr(threads, "_free_arrays", [])
    monkeypatch.setattr(threads, "_MAX_FREE_BYTES", 100)
    list(threads.map_jobs(2, lambda rows: threads.scratch("rows", rows).sum() * 0, [5, 6, 7]))
    assert not threads._free_arrays


def test_borrowed_memory__is_lent_again_if_it_is_long_enough(monkeypatch):
    monkeypatch.setattr(threads, "_kept", [])
    size = threads._MIN_KEPT_BYTES
    borrowed = threads.borrow(size)
    borrowed[:] = 7
    threads.give_back(borrowed)
    if not threads._kept:
        pytest.skip("this system has no MADV_FREE")
    threads.memory_budget(None, 1, False)
    again = threads.borrow(size - 1)
    assert np.shares_memory(borrowed, again)
    assert not threads._kept
    threads.give_back(again)
    assert not np.shares_memory(again, threads.borrow(size + 1))
    assert not threads._kept


def test_memory_that_is_kept__is_freed_where_the_caller_limits_it(monkeypatch):
    monkeypatch.setattr(threads, "_kept", [np.empty(5, np.uint8)])
    threads.memory_budget("1GB", 1, False)
    assert not threads._kept


@pytest.mark.parametrize("size", [1, threads._MAX_KEPT_BYTES + 1])
def test_borrowed_memory__that_is_short_or_very_long_is_not_kept(size, monkeypatch):
    monkeypatch.setattr(threads, "_kept", [])
    threads.give_back(threads.borrow(size))
    assert not threads._kept


def test_jobs__begin_while_the_next_one_is_slow_to_come() -> None:
    began = threading.Event()

    def jobs() -> Iterator[bool]:
        yield from (True, True)
        yield began.wait(10)

    def work(job: bool) -> bool:
        began.set()
        return job

    assert all(threads.map_jobs(4, work, jobs()))
