"""Tests on differences of groups: their definitions, SciPy's numbers, and what is undefined."""

import dataclasses
import itertools
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fastrank_eval.stats.hypothesis_tests import (
    PairedTest,
    clustered_test,
    group_differences,
    holm,
    maximum_exceeds,
    minimum_detectable_difference,
    paired_t,
    range_exceeds,
    sign_tail,
    sign_test,
    wilcoxon,
)
from fastrank_eval.stats.intervals import normal_tail, t_tail

FINITE = st.floats(-100, 100).map(lambda x: round(x, 2))
DIFFERENCES = st.lists(FINITE, min_size=2, max_size=60).map(np.array)

# ---- tails ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "degrees, t, wanted",
    # From the incomplete beta function, or the integral of the density, in 40 digits.
    [
        (1, 0.5, 0.70483276469913345),
        (1, 1e120, 6.3661977236758136e-121),
        (2, 1.3, 0.32324703181604037),
        (3, 1e90, 2.2053155816871684e-270),
        (9, 1.4142, 0.19095097629954689),
        (29, 2.045, 0.050024075922411674),
        (99, 40.0, 6.3850851602872268e-63),
        (999, -3.3, 0.001001031263055915),
        (10**5, 1.0, 0.31731292756411002),
        (10**5, 37.0, 1.1974628243414475e-297),
        (10**7, 5.0, 5.733128075008539e-7),
        (10**8, 1.9, 0.057433122505648226),
        (10**8, 36.0, 8.4005021032869251e-284),
    ],
)
def test_t_tail__equals_digits_of_the_definition(degrees, t, wanted):
    assert t_tail(t, degrees) == pytest.approx(wanted, rel=1e-11, abs=0)


@given(st.floats(-60, 60), st.integers(1, 5000))
def test_t_tail__equals_scipy(t, degrees):
    assert t_tail(t, degrees) == pytest.approx(
        2 * stats.t.sf(abs(t), degrees), rel=1e-10, abs=1e-290
    )


def test_tails__of_the_ends():
    assert (t_tail(0.0, 3), t_tail(math.inf, 3), t_tail(-math.inf, 1)) == (1, 0, 0)
    assert math.isnan(t_tail(math.nan, 3))
    assert normal_tail(-37.0) == pytest.approx(2 * stats.norm.sf(37.0), rel=1e-11, abs=0)
    assert normal_tail(0.0) == 1


@pytest.mark.parametrize(
    "wins, losses, wanted",
    # From binomial coefficients in 40 digits.
    [
        (521, 480, 0.20610731083295322),
        (1000, 1, 9.3513014574022532e-299),
        (1200, 300, 1.8808314436947668e-127),
        (49500, 50500, 0.0015823598788515956),
        (502000, 498000, 6.3609337500824885e-5),
        (5010000, 4990000, 2.5448004911551731e-10),
        (516000, 484000, 1.0316754270757704e-224),
        (500018500000, 499981500000, 1.1451564665700163e-299),
        (1001, 0, 2.0**-1000),
        (700, 700, 1.0),
        (3, 0, 0.25),
        (2, 1, 1.0),
    ],
)
def test_sign_tail__equals_digits_of_the_definition(wins, losses, wanted):
    assert sign_tail(wins, losses) == pytest.approx(wanted, rel=1e-11, abs=0)


@pytest.mark.parametrize(
    "wins, losses", [(1000, 31), (1000, 32), (961, 40), (33, 2000), (700, 400)]
)
def test_sign_tail__equals_the_sum_of_binomial_coefficients(wins, losses):
    ways = sum(math.comb(wins + losses, k) for k in range(min(wins, losses) + 1))
    wanted = float(Fraction(2 * ways, 1 << (wins + losses)))
    assert sign_tail(wins, losses) == pytest.approx(wanted, rel=1e-12, abs=0)


@pytest.mark.parametrize("x", [0.3, 0.7, 1.0, 1.49, 1.5, 1.51, 1.99, 2.0, 2.01, 2.4, 3.0, 5.0, 8.0])
def test_maximum_and_range__of_brownian_motion__equal_their_series_of_reflections(x):
    of_maximum = [4 * (-1) ** k * stats.norm.sf((2 * k + 1) * x) for k in range(300)]
    of_range = [8 * (-1) ** (k + 1) * k * stats.norm.sf(k * x) for k in range(1, 300)]
    for exceeds, terms in ((maximum_exceeds, of_maximum), (range_exceeds, of_range)):
        wanted = math.fsum(terms)
        assert exceeds(x) == pytest.approx(
            wanted, rel=1e-9 if x > 2.5 else 0, abs=1e-12 if x < 2.5 else 0
        )
        assert 0 <= exceeds(x) <= 1
    assert maximum_exceeds(0.0) == range_exceeds(0.0) == 1


# ---- tests ---------------------------------------------------------------------------------------


def test_group_differences__are_those_of_groups_that_both_define():
    p_a, w_a = np.array([1.0, 0.0, 6.0, 0.0]), np.array([2.0, 0.0, 3.0, 1.0])
    p_b, w_b = np.array([2.0, 5.0, 0.0, 4.0]), np.array([2.0, 5.0, 0.0, 1.0])
    found = group_differences(p_a, w_a, p_b, w_b)
    assert found == pytest.approx([0.5, np.nan, np.nan, 4.0], nan_ok=True)


@given(DIFFERENCES)
def test_paired_t__equals_scipy(differences):
    if np.ptp(differences):
        found = paired_t(np.append(differences, np.nan))
        wanted = stats.ttest_rel(differences, np.zeros(len(differences)))
        assert found.statistic == pytest.approx(wanted.statistic, rel=1e-9, abs=1e-12)
        assert found.p_value == pytest.approx(wanted.pvalue, rel=1e-8)
        assert found.groups == len(differences)


def by_ranks(differences: list[float]) -> tuple[float, float]:
    """The statistic, and its share of all patterns of signs that are as far from the middle."""
    kept = [d for d in differences if d]
    sizes = [round(abs(d), 9) for d in kept]
    ranks = [sum(s < t for s in sizes) + (sizes.count(t) + 1) / 2 for t in sizes]
    ranked = [(rank, d > 0) for rank, d in zip(ranks, kept, strict=True) if d]
    whole = sum(rank for rank, _ in ranked)
    above = sum(rank for rank, positive in ranked if positive)
    far = abs(above - whole / 2)
    patterns = list(itertools.product((0, 1), repeat=len(ranked)))
    sums = [sum(s * r for s, (r, _) in zip(p, ranked, strict=True)) for p in patterns]
    share = sum(abs(s - whole / 2) >= far - 1e-9 for s in sums) / len(patterns)
    return min(above, whole - above), share


@given(st.lists(st.integers(-9, 9).map(lambda k: k / 10), min_size=1, max_size=9))
def test_wilcoxon__equals_the_definition(differences):
    found = wilcoxon(np.array(differences))
    if not any(differences):
        assert found == PairedTest(0.0, 1.0, 0, "no_difference")
        return
    statistic, share = by_ranks(differences)
    assert found.statistic == statistic
    assert found.p_value == pytest.approx(share, rel=1e-15)


def test_wilcoxon__of_many_groups__equals_scipy():
    differences = np.random.default_rng(3).integers(-4, 6, 300) / 8
    wanted = stats.wilcoxon(differences, zero_method="wilcox", method="approx")
    found = wilcoxon(differences)
    assert found.statistic == wanted.statistic
    assert found.p_value == pytest.approx(wanted.pvalue, rel=1e-14)
    assert found.groups == np.count_nonzero(differences)


def test_wilcoxon__is_exact_up_to_50_groups_that_differ():
    for groups, method in ((50, "exact"), (51, "approx")):
        differences = np.arange(1.0, groups + 1) * np.where(np.arange(groups) % 3, 1, -1)
        wanted = stats.wilcoxon(differences, zero_method="wilcox", method=method)
        for zeros in (0, 20):
            found = wilcoxon(np.append(differences, np.zeros(zeros)))
            assert found.p_value == pytest.approx(wanted.pvalue, rel=1e-12, abs=0)


def test_wilcoxon__of_differences_that_rounding_makes_unequal__ties_them():
    given_ = np.array([0.3 - 0.2, 0.2 - 0.1, 0.7 - 0.6, -(0.9 - 0.8), 1e-17])
    assert len(set(np.abs(given_[:4]))) == 2
    assert wilcoxon(given_) == wilcoxon(np.array([0.1, 0.1, 0.1, -0.1, 0.0]))


def test_sign_test__passes_over_what_is_equal_or_undefined():
    differences = np.array([0.5, -0.1, 0.0, np.nan, 2.0, 3.0, 1e-300])
    assert sign_test(differences) == PairedTest(4.0, sign_tail(4, 1), 5)


@pytest.mark.parametrize("test", [paired_t, wilcoxon, sign_test])
@given(DIFFERENCES, st.integers(0, 99))
def test_groups__in_any_order__have_the_same_bits_and_exchanged_the_same_p_value(
    test, differences, seed
):
    shuffled = np.random.default_rng(seed).permutation(differences)
    one, other = test(differences), test(-shuffled)
    assert repr(one) == repr(test(shuffled))
    assert repr(one.p_value) == repr(other.p_value)
    if test is paired_t and not math.isnan(one.statistic):
        assert one.statistic == -other.statistic


def test_clustered__are_tails_of_the_difference_in_standard_errors():
    normal, student = (clustered_test(-0.3, 0.1, 20, degrees) for degrees in (None, 19))
    assert normal.p_value == pytest.approx(2 * stats.norm.sf(3), rel=1e-11)
    assert student.p_value == pytest.approx(2 * stats.t.sf(3, 19), rel=1e-11)
    assert student.statistic == pytest.approx(-3)
    assert normal.p_value < student.p_value


NAN = math.nan


@pytest.mark.parametrize(
    "test, given_, p_value, groups, note",
    [
        (paired_t, (np.array([]),), NAN, 0, "no_groups"),
        (paired_t, (np.array([NAN]),), NAN, 0, "no_groups"),
        (paired_t, (np.array([1.0]),), NAN, 1, "one_group"),
        (paired_t, (np.zeros(4),), 1, 4, "no_difference"),
        (paired_t, (np.array([0.3 - 0.2, 0.2 - 0.1, 0.1]),), NAN, 3, "no_variance"),
        (wilcoxon, (np.array([NAN]),), NAN, 0, "no_groups"),
        (wilcoxon, (np.array([2.0]),), 1, 1, None),
        (wilcoxon, (np.array([0.5, -0.5]),), 1, 2, None),
        (sign_test, (np.array([]),), NAN, 0, "no_groups"),
        (sign_test, (np.zeros(3),), 1, 0, "no_difference"),
        (clustered_test, (0.1, 0.0, 0, None), NAN, 0, "no_groups"),
        (clustered_test, (0.1, NAN, 1, 0), NAN, 1, "one_group"),
        (clustered_test, (0.3, 0.1, 2, None), 0.0026997960632601866, 2, None),
        (clustered_test, (NAN, 0.1, 5, 4), NAN, 5, "undefined"),
        (clustered_test, (0.1, NAN, 5, None), NAN, 5, "undefined"),
        (clustered_test, (0.1, 0.0, 5, None), NAN, 5, "no_variance"),
        (clustered_test, (0.0, 0.0, 5, 4), 1, 5, "no_difference"),
    ],
)
def test_what_no_test_can_tell__says_why(test, given_, p_value, groups, note):
    found = test(*given_)
    assert (found.p_value, found.groups, found.note) == (
        pytest.approx(p_value, nan_ok=True),
        groups,
        note,
    )
    assert math.isnan(found.statistic) == math.isnan(found.p_value)


# ---- limits ------------------------------------------------------------------------------------


def test_holm__p_values_near_1__are_1() -> None:
    assert holm(np.array([0.9, 0.95])).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "a, b, wanted",
    [
        (1.0, 1.0, 0.0),
        (-1.0, 1.0, 2.0),
        (1.0 - 2.0**-40, 1.0, 0.0),
        (1.0 - 2.0**-39, 1.0, 2.0**-39),
        (1000.0, 1000.0 * (1.0 + 2.0**-41), 0.0),
    ],
)
def test_group_differences__values_that_agree_to_40_bits__are_equal(a, b, wanted) -> None:
    one = np.ones(1)
    assert group_differences(np.array([a]), one, np.array([b]), one).tolist() == [wanted]


def test_paired_t__differences_that_vary_by_more_than_rounding__are_tested() -> None:
    values = np.repeat([1.0, 1.0 + 200 * sys.float_info.epsilon], 50)
    outcome = paired_t(values)
    assert (outcome.note, outcome.groups) == (None, 100)
    assert outcome.p_value < 1e-6


@pytest.mark.parametrize("scale", [2.0**-10, 1.0, 2.0**10])
def test_wilcoxon__differences_of_any_size__have_the_same_ties(scale) -> None:
    values = np.array([0.3 - 0.2, 0.1 - 0.2, 0.5])
    assert wilcoxon(scale * values) == wilcoxon(np.array([1.0, -1.0, 5.0]))


@pytest.mark.parametrize("below, statistic", [(0.75 * 2.0**-40, 1.5), (1.6 * 2.0**-40, 1.0)])
def test_wilcoxon__differences_that_agree_to_40_bits__share_a_rank(below, statistic) -> None:
    assert wilcoxon(np.array([1.0, below - 1.0])).statistic == statistic
    assert wilcoxon(np.array([-1.0, 2.0**-39])).statistic == 1.0


def test_sign_test__as_many_wins_as_losses__has_p_value_1() -> None:
    assert sign_test(np.array([0.5, -0.25])) == PairedTest(1.0, 1.0, 2)
    assert sign_tail(1494, 1493) == 1.0  # rounding gives more


def test_sign_test__no_group_differs__has_no_win() -> None:
    assert sign_test(np.zeros(3)) == PairedTest(0.0, 1.0, 0, "no_difference")


def test_outcome_of_a_test__cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        sign_test(np.ones(3)).p_value = 0.5  # type: ignore[misc]


def test_minimum_detectable_difference__is_proportional_to_the_error() -> None:
    assert minimum_detectable_difference(0.0) == 0.0
    half = minimum_detectable_difference(0.5, degrees=1)
    assert half == pytest.approx(stats.t.ppf(0.975, 1) / 2 + stats.t.ppf(0.8, 1) / 2, rel=1e-9)
