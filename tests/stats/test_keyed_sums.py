"""Sums by key are exact, whatever the order, the threads and the size of the numbers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from fastrank_eval.stats import keyed_sums
from fastrank_eval.stats.keyed_sums import KeyedSums


def proportions(totals: np.ndarray) -> list[float]:
    whole = sum(map(Fraction, totals.tolist()))
    return [float(Fraction(t) / whole) for t in totals.tolist()]


@pytest.mark.parametrize(
    "low, high", [(-30, 3), (-1074, -1000), (-1074, 60), (950, 1023), (-20, 900)]
)
def test_totals__are_in_proportion_to_the_exact_sums(low, high):
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 40, 2000)
    values = np.ldexp(rng.random(2000) + 0.5, rng.integers(low, high, 2000))
    sums = KeyedSums(2)
    for part in np.array_split(np.arange(2000), 9):
        sums.add(1, keys[part], values[part])
    exact = [sum(map(Fraction, values[keys == k].tolist())) for k in range(40)]
    wanted = [float(part / sum(exact)) for part in exact]
    found = sums.totals()
    assert proportions(found[1]) == pytest.approx(wanted, rel=1e-15, abs=1e-300)
    assert not found[0].any()


def test_totals__do_not_depend_on_order_threads_and_merging():
    rng = np.random.default_rng(2)
    keys = rng.integers(0, 1000, 20_000)
    values = np.ldexp(rng.random(20_000), rng.integers(-90, 5, 20_000))
    once = KeyedSums(1)
    once.add(0, keys, values)
    order = rng.permutation(20_000)
    parts = np.array_split(order, 50)
    shared, merged = KeyedSums(1), KeyedSums(1)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: shared.add(0, keys[part], values[part]), parts))
    for part in parts:
        other = KeyedSums(1)
        other.add(0, keys[part], values[part])
        merged.merge(other)
    wanted = once.totals() / once.totals()[0, 0]
    for sums in (shared, merged):
        assert np.array_equal(sums.totals() / sums.totals()[0, 0], wanted)
        assert np.array_equal(sums.totals(), sums.totals())


def test_cells__are_carried_before_they_overflow(monkeypatch):
    monkeypatch.setattr(keyed_sums, "_ADDITIONS", 100)
    sums, values = KeyedSums(1), np.full(90, 1.0 - 2.0**-53)
    for _ in range(50):
        sums.add(0, np.zeros(90, np.int64), values)
        sums.add(0, np.ones(90, np.int64), 2 * values)
    first, second = sums.totals()[0]
    assert second == 2 * first


def test_count__adds_one_for_each_row():
    for keys in (np.array([0, 2, 2, 1, 2]), np.array([9, 9, 2])):
        counted, added = KeyedSums(1), KeyedSums(1)
        counted.count(0, keys)
        added.add(0, keys, np.ones(len(keys)))
        assert proportions(counted.totals()[0]) == proportions(added.totals()[0])
    counted.count(0, keys[:0])


def test_zeros__need_no_room():
    sums = KeyedSums(1)
    sums.add(0, np.array([5, 3]), np.array([0.0, -0.0]))
    assert sums.totals().shape == (1, 0)
    sums.add(0, np.array([2, 9]), np.array([1.0, 0.0]))
    assert sums.totals()[0, 2] > 0
    assert np.count_nonzero(sums.totals()) == 1
