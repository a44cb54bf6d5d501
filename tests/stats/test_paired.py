"""Exact sums of two models side by side, against two passes over the groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrank_eval.stats.exact import NO_SLICES
from fastrank_eval.stats.means import PAIRED, MeanState, PairedState
from fastrank_eval.stats.tally import add_groups

pytestmark = pytest.mark.kernels

VALUE = st.sampled_from([math.nan, 0.0, 0.25, 1 / 3, 0.5, 1.0]) | st.floats(0, 1)
WEIGHT = st.integers(1, 1000).map(float) | st.floats(1e-6, 1e6)
GROUPS = st.lists(st.tuples(VALUE, VALUE, WEIGHT, WEIGHT, st.integers(0, 3)), max_size=30)


def state_of(values, weights, lines) -> MeanState:
    state, ones = MeanState(1), np.ones(len(values), np.int64)
    assert add_groups([state], 0, [values], [weights], ones, ones, lines)
    return state


def pair_of(a, b, wa, wb, lines=NO_SLICES) -> PairedState:
    pair, ones = PairedState(1), np.ones(len(a), np.int64)
    states = [MeanState(1), MeanState(1)]
    assert add_groups(states, 0, [a, b], [wa, wb], ones, ones, lines, pair)
    return pair


def columns(groups) -> list[np.ndarray]:
    found = np.array(groups, np.float64).reshape(-1, 5).T
    return [*found[:4], found[4].astype(np.int64)]


def two_passes(a, b, wa, wb) -> float:
    """The paired standard error of the difference of two weighted means, by its definition."""
    either = ~np.isnan(a) | ~np.isnan(b)
    influence = np.zeros(len(a))
    for value, weight, sign in ((a, wa, -1), (b, wb, 1)):
        used = ~np.isnan(value)
        if not used.any():
            return math.nan
        mean = np.average(value[used], weights=weight[used])
        influence[used] += sign * weight[used] * (value[used] - mean) / weight[used].sum()
    u = np.count_nonzero(either)
    return math.sqrt(u / (u - 1) * np.sum(influence**2)) if u > 1 else math.nan


@given(GROUPS, st.booleans())
def test_difference_of_means__any_groups__has_the_error_of_two_passes(groups, weighted) -> None:
    a, b, wa, wb, lines = columns(groups)
    if not weighted:
        wa = wb = np.ones(len(a))
    given_a, given_b = (wa, wb) if weighted else (None, None)
    paired = pair_of(a, b, given_a, given_b, lines)
    mine, theirs = state_of(a, given_a, lines), state_of(b, given_b, lines)
    for line in range(4):
        here = lines == line
        pairs = paired.pairs(0, line)
        both = here & ~np.isnan(a) & ~np.isnan(b)
        same = np.isclose(a[both], b[both], rtol=2.0**-40, atol=0)
        assert pairs.higher == np.count_nonzero((b[both] > a[both]) & ~same)
        assert pairs.lower == np.count_nonzero((b[both] < a[both]) & ~same)
        assert pairs.both == np.count_nonzero(both)
        assert pairs.groups == np.count_nonzero(here & ~(np.isnan(a) & np.isnan(b)))
        sides = (state.model_sums(0, weighted, [line]) for state in (mine, theirs))
        found = paired.differences(0, *sides)
        if pairs.both:
            assert found.mean == pytest.approx(np.mean(b[both] - a[both]), abs=1e-12)
        if pairs.both > 1:
            assert found.deviation == pytest.approx(np.std(b[both] - a[both], ddof=1), abs=1e-7)
        wanted = two_passes(a[here], b[here], wa[here], wb[here])
        assert found.se == pytest.approx(wanted, rel=1e-6, abs=1e-7, nan_ok=True)


@given(GROUPS, st.integers(0, 30), st.booleans())
def test_merge__of_any_split__is_the_state_of_all(groups, at, weighted) -> None:
    a, b, wa, wb, lines = columns(groups)
    if not weighted:
        wa = wb = None
    whole, merged = pair_of(a, b, wa, wb, lines), PairedState(1)
    for part in (slice(at, None), slice(0, at)):
        weights = [None if w is None else w[part] for w in (wa, wb)]
        merged.merge(pair_of(a[part], b[part], *weights, lines[part]))
    for line in range(4):
        assert merged.sums(0, PAIRED).all_units(line) == whole.sums(0, PAIRED).all_units(line)
        assert repr(merged.pairs(0, line)) == repr(whole.pairs(0, line))


def test_equal_values__summed_in_another_order__are_ties() -> None:
    a, b = np.array([23 / 36, 0.1 + 0.2, 1e-300]), np.array([0.6388888888888888, 0.3, 1.1e-300])
    paired = pair_of(a, b, None, None)
    pairs = paired.pairs(0)
    assert (pairs.higher, pairs.ties, pairs.lower) == (1, 2, 0)
