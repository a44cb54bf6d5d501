"""Adjusted p-values, and how large a difference can be found."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fastrank_eval.stats.hypothesis_tests import (
    adjust_p_values,
    benjamini_hochberg,
    holm,
    minimum_detectable_difference,
)

P_VALUES = st.lists(st.floats(0, 1) | st.sampled_from([0.01, 0.05, math.nan]), max_size=12)

#: Table of Benjamini & Hochberg (1995), section 3.
PAPER = [
    *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459),
    *(0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000),
]


def test_the_example_of_the_paper__rejects_what_the_paper_does():
    values = np.array(PAPER)
    assert (holm(values) <= 0.05).sum() == 3
    assert (benjamini_hochberg(values) <= 0.05).sum() == 4
    # As statsmodels has them.
    assert holm(values)[:9] == pytest.approx(
        [0.0015, 0.0056, 0.0247, 0.114, 0.2211, 0.278, 0.278, 0.278, 0.3213]
    )
    assert benjamini_hochberg(values)[:9] == pytest.approx(
        [0.0015, 0.003, 0.0095, 0.035625, 0.0603, 0.0638571428571, 0.0638571428571, 0.0645, 0.0765]
    )


def rejected_by_holm(p_values: list[float], alpha: float) -> list[bool]:
    """Step down: while the least of those left passes alpha over their number."""
    left, found = sorted(range(len(p_values)), key=p_values.__getitem__), [False] * len(p_values)
    while left and p_values[left[0]] * len(left) <= alpha:
        found[left.pop(0)] = True
    return found


def rejected_by_steps_up(p_values: list[float], alpha: float) -> list[bool]:
    """The k least, k being the largest for which the k-th is at most k alpha / m."""
    ascending = sorted(p_values)
    many = len(p_values)
    passing = [k for k in range(1, many + 1) if ascending[k - 1] * (many / k) <= alpha]
    return [bool(passing) and p <= ascending[max(passing) - 1] for p in p_values]


@pytest.mark.parametrize(
    "adjust, procedure", [(holm, rejected_by_holm), (benjamini_hochberg, rejected_by_steps_up)]
)
@given(given_=P_VALUES, alpha=st.floats(0.001, 0.999))
def test_adjusted__are_at_most_alpha_where_the_procedure_rejects(adjust, procedure, given_, alpha):
    found = adjust(np.array(given_, np.float64))
    known = [p for p in given_ if not math.isnan(p)]
    assert np.isnan(found).tolist() == [math.isnan(p) for p in given_]
    assert (found[~np.isnan(found)] <= alpha).tolist() == procedure(known, alpha)
    assert (found[~np.isnan(found)] >= known).all()


def test_adjusted__by_name():
    values = np.array([0.04, 0.01])
    assert adjust_p_values(values, "holm").tolist() == [0.04, 0.02]
    assert adjust_p_values(values, "bh").tolist() == [0.04, 0.02]
    assert adjust_p_values(values, "none").tolist() == [0.04, 0.01]


# ---- power ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha, power", [(0.05, 0.8), (0.01, 0.95), (0.1, 0.5), (0.05, 0.3)])
def test_minimum_detectable_difference__is_found_with_that_power(alpha, power):
    normal = minimum_detectable_difference(2.0, alpha=alpha, power=power)
    # The other tail adds next to nothing.
    cut = stats.norm.isf(alpha / 2)
    assert stats.norm.sf(cut - normal / 2.0) == pytest.approx(power)
    student = minimum_detectable_difference(2.0, alpha=alpha, power=power, degrees=30)
    cut = stats.t.isf(alpha / 2, 30)
    assert stats.t.sf(cut - student / 2.0, 30) == pytest.approx(power)
    assert stats.nct.sf(cut, 30, student / 2.0) == pytest.approx(power, abs=0.01)
    assert student > normal or power < 0.5
