"""PSI and KS: equal to their definitions, 0 for equal rows, and the same for any order of parts."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fastrank_eval.apps.nightly.drift import drift_between, psi
from fastrank_eval.stats.binned_scores import BinnedScores, Bins, align_bins, merge_bins
from tests.golden_evidently import GOLDEN

NONE = np.empty(0, np.int64)
EVIDENTLY = json.loads(GOLDEN.read_text(encoding="utf-8"))
VALUES = {
    "few": st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, -3.0]),
    "any": st.floats(-1e6, 1e6, width=32),
    "unit": st.floats(0, 1, width=32),
}


@st.composite
def nights(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    elements = VALUES[draw(st.sampled_from(sorted(VALUES)))]
    width = draw(st.sampled_from([4, 8]))
    reference, other = (
        draw(arrays(f"f{width}", st.integers(1, 80), elements=elements)) for _ in range(2)
    )
    return reference, other


def binned(*scores: np.ndarray, bins: int = 1024) -> BinnedScores:
    made = BinnedScores(bins)
    for each in scores:
        made.add(each, NONE)
    return made


def state(*scores: np.ndarray, bins: int = 1024) -> Bins:
    return binned(*scores, bins=bins).merged_bins()


def shared_share(*states: Bins) -> float:
    """The largest share of a bin of either distribution, if a bin of both has several values."""
    both = merge_bins(list(states), 1 << 63)
    shared = both.lowest != both.highest
    shares = [counts / counts.sum() for counts in align_bins(*states)]
    return max(float(share[shared].max(initial=0.0)) for share in shares)


def ks_by_definition(reference: np.ndarray, other: np.ndarray) -> float:
    values = np.union1d(reference, other)
    below = [
        (np.sort(each).searchsorted(values, "right")) / len(each) for each in (reference, other)
    ]
    return float(np.abs(below[0] - below[1]).max())


def psi_by_definition(p: list[float], q: list[float]) -> float:
    """The formula of Evidently, in plain Python; bins that are empty in both are left out."""

    def filled(shares: list[float]) -> list[float]:
        least = min(share for share in shares if share > 0)
        empty = least / 10**6 if least <= 0.0001 else 0.0001
        return [share or empty for share in shares]

    used = [pair for pair in zip(p, q, strict=True) if any(pair)]
    pairs = zip(*(filled(list(each)) for each in zip(*used, strict=True)), strict=True)
    return math.fsum((a - b) * math.log(a / b) for a, b in pairs)


@given(nights())
def test_ks__of_values_in_bins_of_their_own__is_that_of_the_definition(drawn):
    reference, other = drawn
    states = [state(each, bins=1 << 20) for each in (reference, other)]
    exact = ks_by_definition(reference, other)
    assert drift_between(*states)[1] == pytest.approx(exact, abs=shared_share(*states) + 1e-12)


@given(nights(), st.sampled_from([2, 3, 8, 32]))
def test_ks__of_few_bins__is_too_small_by_the_share_of_a_bin_at_most(drawn, bins):
    reference, other = drawn
    states = [state(each, bins=bins) for each in (reference, other)]
    ks, exact = drift_between(*states)[1], ks_by_definition(reference, other)
    assert ks - 1e-12 <= exact <= ks + shared_share(*states) + 1e-12


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_ks__of_click_probabilities__is_close_in_a_thousand_bins(kind):
    rng = np.random.default_rng(4)
    nights = [
        (1 / (1 + np.exp(-rng.normal(mean, 1.0, rows)))).astype(kind)
        for mean, rows in ((-4.0, 200_000), (-3.9, 30_000))
    ]
    drift = drift_between(*(state(night) for night in nights))
    exact = ks_by_definition(*nights)
    assert drift[1] <= exact < drift[1] + 1e-3


@given(st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 40)), min_size=1, max_size=12))
def test_psi__is_the_formula_with_filled_shares(counts):
    reference, other = (np.array(each) for each in zip(*counts, strict=True))
    if not (reference.any() and other.any()):
        assert math.isnan(psi(reference, other))
        return
    p, q = ((each / each.sum()).tolist() for each in (reference, other))
    assert psi(reference, other) == pytest.approx(psi_by_definition(p, q), rel=1e-12, abs=1e-12)
    assert psi(reference, other) >= 0


def psi_by_values(reference: np.ndarray, other: np.ndarray) -> float:
    """A bin for each value of the reference, and one for each gap, in plain Python."""
    values = sorted(set(reference.tolist()))

    def bin_of(value: float) -> tuple[int, bool]:
        return sum(each < value for each in values), value in values

    counts = [Counter(map(bin_of, each.tolist())) for each in (reference, other)]
    bins = sorted(counts[0] | counts[1])
    return psi_by_definition(*([each[one] / each.total() for one in bins] for each in counts))


@given(
    arrays(np.float64, st.integers(1, 60), elements=VALUES["few"]),
    arrays(np.float64, st.integers(40, 120), elements=VALUES["unit"], unique=True),
    st.integers(0, 60),
)
def test_psi__of_few_values_against_many__has_bins_between_them(reference, other, same):
    other = np.append(other, np.resize(reference, same))
    found = drift_between(state(reference, bins=1 << 20), state(other, bins=1 << 20))[0]
    assert found == pytest.approx(psi_by_values(reference, other), abs=1e-9)


@pytest.mark.parametrize("bins", [512, 4096, 1 << 20])
def test_psi__of_few_values_against_many__does_not_depend_on_the_number_of_bins(bins):
    reference = np.repeat([0.125, 0.5, 2.0], [600, 300, 100])
    other = np.append(np.random.default_rng(1).uniform(0.2, 0.4, 5000), np.full(5000, 0.5))
    found = drift_between(state(reference, bins=bins), state(other, bins=bins))[0]
    expected = psi_by_definition([0.6, 0.0, 0.3, 0.1], [0.0, 0.5, 0.5, 0.0])
    assert found == pytest.approx(expected, abs=1e-9)


def test_psi__of_a_narrow_reference__has_its_deciles() -> None:
    """It has many values, though one bin of a wide night: its deciles are one value."""
    reference = np.linspace(0.5, 0.5001, 400)
    other = np.random.default_rng(1).uniform(1e-6, 1, 50_000)
    found = drift_between(state(reference, bins=512), state(other, bins=512))[0]
    assert found == pytest.approx(psi_by_definition([1.0, 0.0], [0.5, 0.5]), rel=0.1)


def test_psi__of_many_values__has_the_deciles_of_the_reference():
    reference, other = np.arange(1000) / 1024, np.arange(400, 900) / 1024
    q = [0.0] * 4 + [0.2] * 5 + [0.0]
    expected = psi_by_definition([0.1] * 10, q)
    found = drift_between(state(reference, bins=4096), state(other, bins=4096))
    assert found[0] == pytest.approx(expected, abs=1e-12)


@given(nights(), st.integers(1, 5))
def test_equal_distributions__give_zero(drawn, times):
    rows, _ = drawn
    drift = drift_between(state(rows), state(*[rows] * times))
    assert drift == (0.0, 0.0)


@given(nights(), st.randoms(), st.sampled_from([4, 64, 1024]))
def test_order_of_merging__changes_no_bit(drawn, rng, bins):
    reference, other = drawn
    parts = np.array_split(reference, 4)
    whole = drift_between(state(reference, bins=bins), state(other, bins=bins))
    rng.shuffle(parts)
    merged = BinnedScores(bins)
    for part in parts:
        saved = binned(part, bins=bins).to_arrays()
        merged.merge(BinnedScores.from_arrays(saved))
    assert drift_between(merged.merged_bins(), state(other, bins=bins)) == whole


@given(nights())
def test_labels_and_equal_weights__do_not_count(drawn):
    reference, other = drawn
    plain = drift_between(state(reference), state(other))
    labelled, weighted = BinnedScores(1024), BinnedScores(1024, weighted=True)
    labelled.add(reference, np.arange(0, len(reference), 2))
    weighted.add(reference, np.arange(0, len(reference), 3), np.full(len(reference), 0.5))
    assert drift_between(labelled.merged_bins(), state(other)) == plain
    found = drift_between(weighted.merged_bins(), state(other))
    assert found == pytest.approx(plain, abs=1e-9)


def test_no_row__has_no_drift():
    for pair in ((state(), state(np.ones(3))), (state(np.ones(3)), state()), (state(), state())):
        drift = drift_between(*pair)
        assert math.isnan(drift[0])
        assert math.isnan(drift[1])


@pytest.mark.parametrize("case", EVIDENTLY["few_values"])
def test_few_values__have_the_psi_and_ks_of_evidently(case):
    reference, other = (
        state(np.repeat(*map(np.array, zip(*case[name], strict=True))))
        for name in ("reference", "other")
    )
    drift = drift_between(reference, other)
    assert drift[0] == pytest.approx(case["psi"], abs=1e-9)
    assert drift[1] == pytest.approx(case["ks"], abs=1e-9)


@pytest.mark.parametrize("case", EVIDENTLY["many_values"])
def test_many_values__in_the_bins_of_evidently__have_its_psi(case):
    counts = np.array(case["reference"]), np.array(case["other"])
    assert psi(*counts) == pytest.approx(case["psi"], abs=1e-9)
