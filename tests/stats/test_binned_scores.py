"""AUC from bins: its bound always holds, and no order, part or thread shows in it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fastrank_eval.stats import binned_scores
from fastrank_eval.stats.binned_scores import BinnedScores, keys_of
from fastrank_eval.stats.score_runs import sortable_codes
from fastrank_eval.stats.scores import PooledScores, WeightedScores

FINITE = {32: st.floats(allow_nan=False, width=32), 64: st.floats(allow_nan=False)}
UNIT = {width: st.floats(0, 1, width=width) for width in (32, 64)}
WEIGHTS = [0.0, 0.1, 1.0, 1e-9, 1e12, 1e-300, 1e150]


@st.composite
def rows(draw: st.DrawFn):
    width = draw(st.sampled_from([32, 64]))
    number = draw(st.integers(1, 60))
    score = draw(
        arrays(f"f{width // 8}", number, elements=draw(st.sampled_from([FINITE, UNIT]))[width])
    )
    positive = draw(arrays(np.bool_, number))
    weight = draw(arrays(np.float64, number, elements=st.sampled_from(WEIGHTS)))
    return score, positive, weight


def binned(bins, score, positive, weight=None) -> tuple[float, float]:
    state = BinnedScores(bins, weight is not None)
    state.add(score, np.flatnonzero(positive), weight)
    return state.auc()


@settings(max_examples=150)
@given(rows(), st.sampled_from([2, 3, 7, 64, 65536]), st.booleans())
def test_error__is_at_most_what_it_is_said_to_be(drawn, bins, weighted):
    score, positive, weight = drawn
    if weighted:
        exact = WeightedScores()
        exact.add(score, np.flatnonzero(positive), weight)
    else:
        exact, weight = PooledScores(), None
        exact.add(score, np.flatnonzero(positive))
    area, bound = binned(bins, score, positive, weight)
    assert math.isnan(area) == math.isnan(exact.auc())
    if not math.isnan(area):
        assert abs(area - exact.auc()) <= bound
        assert 0 <= bound <= 1
        if bins > len(np.unique(score)) and score.dtype == np.float32 and not weighted:
            assert bound == 0


@given(rows(), st.integers(0, 60), st.sampled_from([2, 5, 64]), st.booleans(), st.randoms())
def test_states__merge_to_the_same_bits_in_any_order(drawn, cut, bins, weighted, rng):
    score, positive, weight = drawn
    order = list(range(len(score)))
    rng.shuffle(order)
    whole = BinnedScores(bins, weighted)
    whole.add(score, np.flatnonzero(positive), weight if weighted else None)
    parts = [BinnedScores(bins, weighted) for _ in range(2)]
    for state, part in zip(parts, (order[:cut], order[cut:]), strict=True):
        for some in (part[::2], part[1::2]):
            at = np.array(some, np.int64)
            state.add(score[at], np.flatnonzero(positive[at]), weight[at] if weighted else None)
            state.merged_bins()
    parts[1].merge(parts[0])
    assert repr(parts[1].auc()) == repr(whole.auc())
    assert len(parts[1].merged_bins().keys) == len(whole.merged_bins().keys)


@given(st.data(), st.sampled_from([32, 64]))
def test_keys__keep_the_order_of_any_scores(data, width):
    elements = st.one_of(FINITE[width], UNIT[width])
    score = data.draw(arrays(f"f{width // 8}", 30, elements=elements))
    codes = np.sort(sortable_codes(score))
    keys = keys_of(codes)
    assert (keys[1:] >= keys[:-1]).all()
    assert keys.max() < 1 << 63
    shuffled = np.random.default_rng(1).permutation(len(codes))
    assert (keys_of(codes[shuffled], ascending=False) == keys[shuffled]).all()
    if width == 32:
        assert len(np.unique(keys)) == len(np.unique(codes))


@pytest.mark.parametrize("width", [32, 64])
def test_keys__are_as_many_to_each_power_of_two_near_one_as_near_zero(width):
    kind = np.dtype(f"f{width // 8}").type
    near_zero = kind(2.0) ** -np.arange(1, 21, dtype=kind)
    near_one = kind(1) - near_zero
    steps = [
        np.diff(keys_of(np.sort(sortable_codes(at))).astype(np.int64))
        for at in (near_zero, near_one)
    ]
    assert len({*steps[0].tolist(), *steps[1].tolist()}) == 1


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_click_probabilities_around_a_thousandth__are_off_by_less_than_a_ten_thousandth(kind):
    rng = np.random.default_rng(2)
    logit = rng.normal(-7.2, 1.0, 600_000)
    score = (1 / (1 + np.exp(-logit))).astype(kind)
    positive = rng.random(len(score)) < 1 / (1 + np.exp(-rng.normal(logit, 0.5)))
    exact = PooledScores()
    exact.add(score, np.flatnonzero(positive))
    area, bound = binned(65536, score, positive)
    assert 0 < bound < 1e-4
    assert abs(area - exact.auc()) < bound / 10


def test_state__stays_small_however_many_rows_come(monkeypatch):
    monkeypatch.setattr(binned_scores, "_BATCH_ROWS", 1 << 10)
    state, rng, used = BinnedScores(256), np.random.default_rng(3), []
    for _ in range(30):
        score = rng.random(1 << 12)
        state.add(score, np.flatnonzero(rng.random(len(score)) < score))
        (bins,) = state._counted
        assert not state._pending
        used.append(len(bins.keys))
    assert max(used) <= 256
    area, bound = state.auc()
    assert area == pytest.approx(5 / 6, abs=0.01)
    assert bound < 0.01


def test_one_class__is_undefined_with_a_reason():
    for positive, weight, reason in (
        ([False, False], None, "single_class"),
        ([True, True], np.ones(2), "single_class"),
        ([True, False], np.zeros(2), "zero_weight"),
    ):
        state = BinnedScores(8, weight is not None)
        state.add(np.array([0.1, 0.2]), np.flatnonzero(positive), weight)
        assert math.isnan(state.auc()[0])
        assert state.missing() == reason
    assert math.isnan(BinnedScores(8).auc()[0])
