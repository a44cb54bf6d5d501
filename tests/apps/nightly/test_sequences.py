"""Sequences of nightly differences: residuals, both charts, alarms and their false alarms."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrank_eval.apps.nightly.alarms import (
    LEARNING,
    YEAR,
    Alarm,
    alarms,
    correlation,
    cusum,
    cusum_limit,
    recursive_residuals,
    sequence_limit,
    steady_errors,
    winsorise,
    without_memory,
)
from fastrank_eval.stats.intervals import normal_tail


def nights(count: int, seed: int = 0, ratio: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Differences around 0.3 whose deviations are `ratio` times their unequal errors."""
    random = np.random.default_rng(seed)
    errors = 0.01 * np.exp(random.normal(0, 0.3, count))
    return 0.3 + ratio * errors * random.normal(size=count), errors


# ---- oracles ------------------------------------------------------------------------------------


def plain_residual(differences: Sequence[float], errors: Sequence[float], at: int) -> float:
    weights = [1 / error**2 for error in errors[:at]]
    products = [w * d for w, d in zip(weights, differences[:at], strict=True)]
    mean = math.fsum(products) / math.fsum(weights)
    return (differences[at] - mean) / math.sqrt(errors[at] ** 2 + 1 / math.fsum(weights))


def plain_t(differences: Sequence[float], errors: Sequence[float], night: int) -> tuple[float, int]:
    """Student's t of a night, from a weighted mean and all earlier residuals, and its degrees."""
    residuals = [plain_residual(differences, errors, at) for at in range(1, night + 1)]
    squares = []
    for at, residual in enumerate(residuals[:-1], 1):
        old = [one**2 for one in residuals[: max(at - LEARNING, LEARNING) - 1]]
        most = 16 * math.fsum(old) / len(old) if at >= LEARNING else math.inf
        squares.append(min(residual**2, most))
    return residuals[-1] / math.sqrt(math.fsum(squares) / (night - 1)), night - 1


def plain_errors(errors: Sequence[float]) -> list[float]:
    """No error is below half the median of those before; the first ones look at each other."""
    halves = [statistics.median(errors[: max(at, LEARNING)]) / 2 for at in range(len(errors))]
    return [max(pair) for pair in zip(errors, halves, strict=True)]


def plain_residuals(differences: Sequence[float], errors: Sequence[float]) -> list[float]:
    """Residuals of all nights but the first."""
    first = [plain_residual(differences, errors, at) for at in range(1, LEARNING)]
    scale = math.sqrt(math.fsum(one**2 for one in first) / (LEARNING - 1))
    result = [one / scale for one in first]
    for night in range(LEARNING, len(differences)):
        t, degrees = plain_t(differences, errors, night)
        factor = (8 * degrees + 1) / (8 * degrees + 3)
        result.append(math.copysign(factor * math.sqrt(degrees * math.log1p(t * t / degrees)), t))
    return result


def plain_winsorised(value: float) -> float:
    """Cut at two; the variance of a normal number that is cut so."""
    density = math.exp(-2) / math.sqrt(2 * math.pi)
    beyond = math.erfc(2 / math.sqrt(2))
    variance = 1 - beyond - 4 * density + 4 * beyond
    return min(max(value, -2.0), 2.0) / math.sqrt(variance)


def plain_without_memory(residuals: Sequence[float]) -> list[float]:
    """`residuals` has those of all nights but the first, the result those after the learning."""
    result = list(residuals[LEARNING - 1 :])
    for index in range(7, len(result)):
        old = [plain_winsorised(one) for one in residuals[:index]]
        products = math.fsum(one * two for one, two in itertools.pairwise(old))
        memory = products / math.fsum(one * one for one in old) + 0.5 / math.sqrt(len(old))
        memory = min(max(memory, 0.0), 0.8)
        before = plain_winsorised(residuals[LEARNING - 2 + index])
        result[index] = (result[index] - memory * before) / math.sqrt(1 - memory**2)
    return result


def plain_alarm(differences: Sequence[float], errors: Sequence[float], alpha: float) -> int | None:
    """The first night beyond one of the limits, each computed at each night anew."""
    residuals = plain_residuals(differences, plain_errors(errors))
    values = [plain_winsorised(one) for one in plain_without_memory(residuals)]
    upper = lower = 0.0
    for index, value in enumerate(values):
        n = index + 1
        upper, lower = max(0.0, upper + value - 0.55), max(0.0, lower - value - 0.55)
        half_width = math.sqrt(
            2 * (n / 2 + 1) / n**2 * (math.log(n / 2 + 1) - 2 * math.log(alpha / 5))
        )
        if abs(math.fsum(values[:n]) / n) > half_width:
            return LEARNING + index
        if max(upper, lower) > (math.log(730 / (alpha * 0.8)) - 1.66) / 1.16569:
            return LEARNING + index
    return None


@pytest.mark.parametrize("odd", [0.02, 1.0, 50.0])
def test_errors__are_at_least_half_the_median_of_the_nights_before(odd: float) -> None:
    for count in (0, 1, 5, LEARNING, 15, 60):
        _, errors = nights(count, seed=3)
        errors[3::11] *= odd
        assert steady_errors(errors).tolist() == plain_errors(errors.tolist())


def test_winsorised_numbers__have_variance_1_and_are_no_heavier_than_normal_ones() -> None:
    drawn = np.random.default_rng(2).normal(size=1_000_000)
    values = winsorise(drawn)
    assert values[:100].tolist() == pytest.approx([plain_winsorised(one) for one in drawn[:100]])
    assert values.std() == pytest.approx(1, abs=0.005)
    # So the confidence sequence holds at every night: E exp(r w) <= exp(r^2 / 2).
    places, widths = np.polynomial.legendre.leggauss(200)
    density = 2 * widths * np.exp(-2 * places**2) / math.sqrt(2 * math.pi)
    largest = float(winsorise(np.array(2.0)))
    for r in np.linspace(0.05, 5, 100):
        inside = math.fsum(density * np.exp(r * largest * places))
        assert inside + normal_tail(2.0) * math.cosh(r * largest) <= math.exp(r * r / 2) + 1e-6


@pytest.mark.parametrize("ratio", [1.0, 3.0])
@pytest.mark.parametrize("change", [0.0, 0.5])
def test_residuals__equal_those_of_a_plain_computation(ratio: float, change: float) -> None:
    differences, errors = nights(60, ratio=ratio)
    differences[40:] += change
    result = recursive_residuals(differences, errors)
    assert np.isnan(result[0])
    expected = plain_residuals(differences.tolist(), errors.tolist())
    np.testing.assert_allclose(result[1:], expected, rtol=1e-9, atol=1e-12)


def test_residuals__of_few_nights__are_undefined() -> None:
    assert np.isnan(recursive_residuals(*nights(LEARNING))).all()
    assert len(recursive_residuals(np.empty(0), np.empty(0))) == 0


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.95])
def test_residuals_without_memory__equal_those_of_a_plain_computation(memory: float) -> None:
    noise = np.random.default_rng(3).normal(size=400)
    residuals = [noise[0]]
    for each in noise[1:]:
        residuals.append(memory * residuals[-1] + math.sqrt(1 - memory**2) * each)
    result = without_memory(np.array([math.nan, *residuals]))
    np.testing.assert_allclose(result, plain_without_memory(residuals), rtol=1e-9, atol=1e-12)
    left = np.corrcoef(result[100:-1], result[101:])[0, 1]
    assert left < max(0.15, memory - 0.5)
    few = noise[: LEARNING + 7]
    assert (without_memory(few) == few[LEARNING:]).all()
    assert (without_memory(np.zeros(50)) == 0).all()


@pytest.mark.parametrize("memory", [0.0, 0.3, 0.6])
def test_correlation__is_that_of_all_sequences_together(memory: float) -> None:
    sequences = []
    for seed in range(20):
        differences, errors = nights(120, seed)
        noise = (differences - 0.3) / errors
        for night in range(1, 120):
            noise[night] = memory * noise[night - 1] + math.sqrt(1 - memory**2) * noise[night]
        sequences.append((0.3 + noise * errors, errors))
    few = nights(59)
    assert correlation([*sequences, few]) == correlation(sequences)
    assert correlation(sequences) == pytest.approx(memory, abs=0.06)
    assert math.isnan(correlation([few]))
    assert math.isnan(correlation([]))


def test_sequence_limit__has_the_closed_form_of_the_paper() -> None:
    for n in (1, 7, 365):
        for alpha in (0.5, 0.05, 1e-6):
            r = 0.5
            half_width = math.sqrt((n * r + 1) / (n * n * r) * math.log((n * r + 1) / alpha**2))
            assert float(sequence_limit(np.array([n]), alpha)[0]) == pytest.approx(half_width)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=60))
def test_cusum__equals_its_recursion(values: list[float]) -> None:
    upper, lower = cusum(np.array(values))
    up = down = 0.0
    for index, value in enumerate(values):
        up, down = max(0.0, up + value - 0.55), max(0.0, down - value - 0.55)
        assert upper[index] == pytest.approx(up, abs=1e-9)
        assert lower[index] == pytest.approx(down, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_alarms__are_on_the_night_of_a_plain_computation(seed: int) -> None:
    differences, errors = nights(120, seed)
    for change in (0.0, 0.01, -0.02, 0.05):
        moved = differences + change * (np.arange(120) >= 70)
        seen = alarms(moved, errors, 0.05)
        expected = plain_alarm(moved.tolist(), errors.tolist(), 0.05)
        assert (seen[0].night if seen else None) == expected


# ---- limits hold over a year --------------------------------------------------------------------


@pytest.mark.parametrize("limit", [4.0, 7.0, 10.0])
def test_cusum_limit__is_that_of_the_markov_chain_of_the_sum(limit: float) -> None:
    """Brook & Evans (1972): the sum between 0 and the limit as states of a chain."""
    states = 600
    middles = np.append(0.0, (np.arange(states) + 0.5) * limit / states)
    ends = np.arange(states + 1) * limit / states
    steps = (ends - middles[:, None] + 0.55) * 0.9594461556733254
    below = np.vectorize(lambda z: 0.5 + math.erf(z / math.sqrt(2)) / 2)(steps)
    below = np.where(np.abs(steps) < 2, below, steps >= 2)
    chain = np.diff(below, axis=1, prepend=0.0)
    lasting = np.full(states + 1, 1.0)
    for _ in range(300):
        lasting = lasting / lasting.sum() @ chain
    leaves = 1 - lasting.sum()
    assert float(cusum_limit(2 * YEAR * leaves)) == pytest.approx(limit, abs=0.03)


@pytest.mark.parametrize("ratio", [0.3, 1.0, 3.0])
def test_alarms__without_a_change__are_rare_at_any_true_variation(ratio: float) -> None:
    years = [nights(YEAR, seed, ratio) for seed in range(300)]
    false = sum(bool(alarms(*year, 0.2)) for year in years)
    assert 0.02 < false / 300 < 0.26


@pytest.mark.parametrize("quiet", [15, 20, 40, 90])
def test_alarm__of_a_huge_change__comes_within_eight_nights(quiet: int) -> None:
    """The change does not become usual before it is an alarm."""
    for seed in range(30):
        differences, errors = nights(quiet + 30, seed)
        differences[quiet:] += 1.0
        (alarm,) = alarms(differences, errors, 0.05 / 42)
        assert alarm.start == quiet
        assert alarm.night < quiet + 8


@pytest.mark.parametrize("freedom", [3, 5])
def test_alarms__of_heavy_tails__are_as_rare(freedom: int) -> None:
    random = np.random.default_rng(freedom)
    drawn = random.standard_t(freedom, size=(300, YEAR))
    false = sum(bool(alarms(year, np.full(YEAR, 1.0), 0.2)) for year in drawn)
    assert false / 300 < 0.26


@pytest.mark.parametrize("place", [0, 5, 13, 14, 40, 300])
def test_alarm__of_one_night_with_an_error_of_almost_0__never_comes(place: int) -> None:
    for seed in range(20):
        differences, errors = nights(YEAR, seed)
        errors[place] /= 1e6
        assert alarms(differences, errors, 0.05 / 42) == ()


def test_alarms__of_a_change__come_sooner_the_larger_it_is() -> None:
    waits = []
    for change in (1, 2, 4, 8):
        seen = []
        for seed in range(60):
            differences, errors = nights(200, seed)
            (first, *_) = alarms(
                differences + change * 0.01 * (np.arange(200) >= 100), errors, 0.05 / 40
            ) or (Alarm(200, 200, True, 0, 0, 0),)
            seen.append(first.night - 99)
        waits.append(float(np.median(seen)))
    assert waits == sorted(waits, reverse=True)
    assert waits[1] <= 15
    assert waits[2] <= 7
    assert waits[3] <= 7


# ---- laws ---------------------------------------------------------------------------------------


@given(st.integers(0, 40), st.floats(-1, 1), st.floats(1e-6, 1e3))
def test_alarms__of_equal_differences__never_come(count: int, value: float, error: float) -> None:
    assert alarms(np.full(count, value), np.full(count, error), 1.0) == ()


@pytest.mark.parametrize("factor", [1e-9, 0.25, 3.0, 1e6])
def test_alarms__of_another_unit_and_level__are_the_same(factor: float) -> None:
    differences, errors = nights(150, seed=2)
    differences[90:] += 0.03
    (alarm,) = alarms(differences, errors, 0.05)
    (other,) = alarms(factor * differences, factor * errors, 0.05)
    assert (other.night, other.start, other.rises) == (alarm.night, alarm.start, alarm.rises)
    assert other.after == pytest.approx(factor * alarm.after)
    (moved,) = alarms(differences - 7, errors, 0.05)
    assert (moved.night, moved.start) == (alarm.night, alarm.start)
    (mirrored,) = alarms(-differences, errors, 0.05)
    assert mirrored.rises is not alarm.rises
    assert (mirrored.night, mirrored.before) == (alarm.night, -alarm.before)


def test_alarms__of_later_nights__do_not_change_earlier_ones() -> None:
    differences, errors = nights(160, seed=3)
    differences[60:] -= 0.04
    differences[120:] += 0.08
    seen = alarms(differences, errors, 0.05)
    for count in range(1, 161):
        earlier = alarms(differences[:count], errors[:count], 0.05)
        assert earlier == tuple(one for one in seen if one.night < count)


def test_alarms__after_one__are_quiet_until_a_new_change() -> None:
    differences, errors = nights(300, seed=5)
    differences[100:] -= 0.05
    differences[200:] += 0.03
    first, second = alarms(differences, errors, 0.05)
    assert (first.start, first.rises, second.start, second.rises) == (100, False, 200, True)
    assert 100 <= first.night < 108
    assert 200 <= second.night < 208
    assert (first.before, first.after) == (
        pytest.approx(0.3, abs=0.005),
        pytest.approx(0.25, abs=0.01),
    )
    assert second.before == pytest.approx(0.25, abs=0.005)
    assert (first.nights, second.nights) == (100, 200 - first.night - 1)


def test_alarms__whose_share_falls__use_the_share_of_each_night() -> None:
    differences, errors = nights(100, seed=6)
    differences[60:] += 0.03
    (wide,) = alarms(differences, errors, 0.05)
    (narrow,) = alarms(differences, errors, 1e-6)
    assert wide.night < narrow.night
    falling = np.where(np.arange(100) <= wide.night, 0.05, 1e-6)
    assert alarms(differences, errors, falling)[0].night == wide.night
    falling = np.where(np.arange(100) < wide.night, 0.05, 1e-6)
    assert alarms(differences, errors, falling)[0].night == narrow.night


@pytest.mark.parametrize("broken", [[5], [0, 1, 2], [3, 14], [0, 14, 15]])
def test_alarms__with_broken_nights_at_first__learn_from_the_others(broken: list[int]) -> None:
    differences, errors = nights(80, seed=7)
    differences[50:] -= 0.05
    (without,) = alarms(differences, errors, 0.05)
    differences[broken] -= 1.0
    (alarm,) = alarms(differences, errors, 0.05)
    assert (alarm.start, alarm.nights) == (50, 50 - len(broken))
    assert abs(alarm.night - without.night) <= 1
    assert alarm.before == pytest.approx(0.3, abs=0.01)


def test_alarms__of_slow_drift__come_in_the_end() -> None:
    differences, errors = nights(300, seed=8)
    drift = 0.0005 * np.maximum(np.arange(300) - 100, 0)
    seen = alarms(differences + drift, errors, 0.05 / 40)
    assert seen
    assert 100 < seen[0].night < 170
    assert seen[0].rises
