"""What replicates say: against SciPy and closed forms, and in simulations with a known truth."""

import math

import numpy as np
import pytest
from scipy import stats

from fastrank_eval.stats.bootstrap import (
    bootstrap_error,
    bootstrap_interval,
    bootstrap_p_value,
    randomisation_p_value,
    swap_models,
)
from tests.support.transcripts import answers


def ids_of(groups: int) -> np.ndarray:
    return np.random.default_rng(groups).integers(0, 2**64, groups, dtype=np.uint64)


# ---- numbers of one sample -----------------------------------------------------------------------


def test_bootstrap_interval__takes_ranks_of_b_plus_1():
    values = np.random.default_rng(2).permutation(np.arange(1.0, 40.0))
    assert bootstrap_interval(20.5, values, 0.95) == pytest.approx((1, 39))
    assert bootstrap_interval(20.5, np.append(values, np.nan), 0.9) == pytest.approx((2, 38))
    assert np.isnan(bootstrap_interval(20.5, values[:38], 0.95)).all()
    assert np.isnan(bootstrap_interval(math.nan, values)).all()


def test_p_values__count_ties_and_what_was_observed():
    values = np.array([-2.0, -0.3 - 1e-16, 0.1, 0.1 + 0.2, 5.0])
    assert randomisation_p_value(0.3, values) == (1 + 4) / 6
    assert randomisation_p_value(-0.3, values, exact=True) == 4 / 5
    assert randomisation_p_value(9.0, values) == 1 / 6
    assert randomisation_p_value(9.0, np.append(values, np.nan)) == 2 / 7
    assert randomisation_p_value(0.0, np.zeros(3)) == 1
    # Shifted by 3, values err by -1, 0, 1, 3.
    assert bootstrap_p_value(3.0, np.array([2.0, 3.0, 4.0, 6.0, np.nan])) == (1 + 1) / 5
    assert math.isnan(bootstrap_p_value(math.nan, values))
    assert math.isnan(bootstrap_p_value(1.0, np.array([np.nan])))
    assert math.isnan(randomisation_p_value(math.nan, values))
    assert math.isnan(bootstrap_error(np.ones(1)))


@pytest.mark.parametrize("seed", range(6))
def test_randomisation__of_few_groups__equals_scipy_over_all_patterns(seed):
    rng = np.random.default_rng(seed)
    # Coarse values, so that patterns tie.
    a, b = rng.integers(0, 6, (2, 10)) / 10
    found = swap_models(a[None], b[None], ids_of(10), 1024, 1)
    assert found.exact
    difference = (found.sums_b - found.sums_a)[:, 0] / 10
    theirs = stats.permutation_test(
        (b, a), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
    )
    observed = float(np.mean(b - a))
    assert randomisation_p_value(observed, difference, exact=True) == theirs.pvalue


test_answers = answers(globals())
