"""Sums of rows are exact for any order, number of threads and size of numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fastrank_eval.stats import exact
from fastrank_eval.stats.row_sums import RowSums


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
    sums = RowSums(2)
    for part in np.array_split(np.arange(2000), 9):
        sums.add(1, values[part], keys[part])
    in_fractions = [sum(map(Fraction, values[keys == k].tolist())) for k in range(40)]
    wanted = [float(part / sum(in_fractions)) for part in in_fractions]
    found = sums.totals()
    assert proportions(found[1]) == pytest.approx(wanted, rel=1e-15, abs=1e-300)
    assert not found[0].any()


def test_count__adds_one_for_each_row():
    for keys in (np.array([0, 2, 2, 1, 2]), np.array([9, 9, 2])):
        counted, added = RowSums(1), RowSums(1)
        counted.count_keys(0, keys)
        added.add(0, np.ones(len(keys)), keys)
        assert proportions(counted.totals()[0]) == proportions(added.totals()[0])
    counted.count_keys(0, keys[:0])


def test_digits_of_all_rows__are_carried_before_they_overflow(monkeypatch):
    monkeypatch.setattr(exact, "_ADDITIONS", 100)
    sums, value = RowSums(1), 1.0 - 2.0**-53
    for _ in range(50):
        sums.add(0, np.full(90, value))
    assert sums.exact(0) == 4500 * Fraction(value)


def test_negative_rows__after_a_count__are_exact():
    sums = RowSums(2)
    sums.count(1, 5)
    sums.add(0, np.array([-0.1, -0.2]))
    assert (sums.exact(0), sums.exact(1)) == (Fraction(-0.1) + Fraction(-0.2), 5)


@pytest.mark.parametrize(
    "numbers", [[], [0], [1, -1], [2.0**64, -(2.0**1023) + 5, 0, 2**31, 3e-300], [5e-324, -5e-324]]
)
def test_sums_of_any_size__come_back_from_arrays(numbers):
    sums = RowSums(max(len(numbers), 1))
    for term, number in enumerate(numbers):
        sums.add(term, np.array([number, number, 1.0]))
    loaded = RowSums.from_arrays(sums.to_arrays())
    assert [loaded.exact(term) for term in range(len(numbers))] == [
        2 * Fraction(number) + 1 for number in numbers
    ]
    again = loaded.to_arrays()
    assert all(np.array_equal(part, again[name]) for name, part in sums.to_arrays().items())


def test_sums_by_key__come_back_from_arrays__under_other_keys():
    sums = RowSums(2)
    sums.add(0, np.array([1.0, 2.0, 0.5]), np.array([7, 2, 7]))
    sums.add(1, np.array([4.0]), np.array([2]))
    numbers = np.full(8, -1)
    numbers[[2, 7]] = [1, 0]
    loaded = RowSums.from_arrays(sums.with_keys(numbers).to_arrays())
    assert sums.keys().tolist() == [2, 7]
    assert [[loaded.total(term, key) for key in range(2)] for term in range(2)] == [
        [1.5, 2],
        [0, 4],
    ]
