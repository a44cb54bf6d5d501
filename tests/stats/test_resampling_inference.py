"""What replicates say: against SciPy and closed forms, and in simulations with a known truth."""

import math

import numpy as np
import pytest
from scipy import stats

from fastrank_eval._lib import errors
from fastrank_eval.stats.bootstrap import (
    bootstrap,
    bootstrap_error,
    bootstrap_interval,
    bootstrap_p_value,
    randomisation_p_value,
    swap_models,
)
from fastrank_eval.stats.hypothesis_tests import (
    clustered_test,
    paired_t,
    sign_test,
    wilcoxon,
)

KINDS = ["poisson", "multinomial"]


def ids_of(groups: int) -> np.ndarray:
    return np.random.default_rng(groups).integers(0, 2**64, groups, dtype=np.uint64)


def mean_of(sums: np.ndarray) -> np.ndarray:
    """The weighted mean of replicates, from sums of p and of w."""
    return sums[:, 0] / sums[:, 1]


def clustered_error(p: np.ndarray, w: np.ndarray) -> float:
    """The delta method's, in two passes."""
    groups, mean = len(p), p.sum() / w.sum()
    squares = ((p - mean * w) ** 2).sum()
    return float(math.sqrt(groups / (groups - 1) * squares) / w.sum())


# ---- numbers of one sample -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_bootstrap_error__is_the_clustered_one(kind):
    rng = np.random.default_rng(4)
    w = rng.integers(1, 20, 2000).astype(np.float64)
    p = w * rng.beta(2, 3, 2000)
    sums = bootstrap(np.stack([p, w, np.ones(2000)]), ids_of(2000), 4000, 5, kind=kind, threads=2)
    # The standard deviation of 4,000 values is good to 1.1 %.
    assert bootstrap_error(mean_of(sums)) == pytest.approx(clustered_error(p, w), rel=0.04)
    sd = np.std(p) * math.sqrt(2000)
    wanted = sd if kind == "multinomial" else math.sqrt((p**2).sum())
    assert bootstrap_error(sums[:, 0]) == pytest.approx(wanted, rel=0.04)
    assert (sums[:, 2] == 2000).all() == (kind == "multinomial")


def test_bootstrap_interval__is_close_to_that_of_scipy():
    values = np.random.default_rng(1).exponential(size=80)
    sums = bootstrap(np.stack([values, np.ones(80)]), ids_of(80), 20_000, 1, kind="multinomial")
    found = bootstrap_interval(float(values.mean()), mean_of(sums), 0.9)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, confidence_level=0.9, method="percentile", rng=1
    )
    low, high = theirs.confidence_interval
    assert found == pytest.approx((low, high), abs=0.02 * (high - low))


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
    with pytest.raises(errors.ArgumentError, match="draw at least one"):
        randomisation_p_value(0.0, np.array([]))


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


def test_randomisation__drawn__comes_close_to_all_patterns():
    a, b = np.random.default_rng(7).normal([[0.0], [0.4]], 1, (2, 14))
    every = swap_models(a[None], b[None], ids_of(14), 1 << 14, 1)
    drawn = swap_models(a[None], b[None], ids_of(14), 10_000, 1)
    assert (every.exact, drawn.exact) == (True, False)
    observed = float((every.sums_b - every.sums_a)[0, 0])
    exact, close = (
        randomisation_p_value(observed, (s.sums_b - s.sums_a)[:, 0], s.exact)
        for s in (every, drawn)
    )
    assert close == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 10_000))


def test_a_measure_that_one_model_lacks__moves_with_its_weight():
    """The first group is undefined for a: swapped, it is undefined for b."""
    a = np.array([[0.0, 1.0, 0.5], [0.0, 1.0, 1.0]])
    b = np.array([[0.5, 0.0, 0.5], [1.0, 1.0, 1.0]])
    found = swap_models(a, b, ids_of(3), 4, 1)
    pairs = {
        (tuple(x), tuple(y))
        for x, y in zip(found.sums_a.tolist(), found.sums_b.tolist(), strict=True)
    }
    assert pairs == {
        ((1.5, 2), (1.0, 3)),
        ((2.0, 3), (0.5, 2)),
        ((0.5, 2), (2.0, 3)),
        ((1.0, 3), (1.5, 2)),
    }


# ---- simulations ---------------------------------------------------------------------------------

RUNS, GROUPS, REPLICATES = 1000, 60, 499


def sample(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted values of two models that are as good as one another, with shared weights."""
    weights = rng.integers(1, 9, GROUPS).astype(np.float64)
    easy = rng.normal(size=GROUPS)
    return (
        weights * (easy + rng.normal(size=GROUPS)),
        weights * (easy + rng.normal(size=GROUPS)),
        weights,
    )


def p_values(rng: np.random.Generator, seed: int) -> dict[str, float]:
    p_a, p_b, w = sample(rng)
    ids, observed = ids_of(GROUPS), float((p_b - p_a).sum() / w.sum())
    se = clustered_error(p_b - p_a, w)
    drawn = bootstrap(np.stack([p_b - p_a, w]), ids, REPLICATES, seed)
    moved = swap_models(np.stack([p_a, w]), np.stack([p_b, w]), ids, REPLICATES, seed)
    each = (p_b - p_a) / w
    return {
        "bootstrap": bootstrap_p_value(observed, mean_of(drawn)),
        "randomisation": randomisation_p_value(
            observed, mean_of(moved.sums_b) - mean_of(moved.sums_a), moved.exact
        ),
        "paired t": paired_t(each).p_value,
        "wilcoxon": wilcoxon(each).p_value,
        "sign": sign_test(each).p_value,
        "clustered t": clustered_test(observed, se, GROUPS, GROUPS - 1).p_value,
        "clustered z": clustered_test(observed, se, GROUPS, None).p_value,
    }


def test_models_that_do_not_differ__are_told_apart_as_rarely_as_promised():
    rng = np.random.default_rng(20261121)
    found = [p_values(rng, run) for run in range(RUNS)]
    rates = {name: np.mean([p[name] <= 0.05 for p in found]) for name in found[0]}
    # Three standard errors of 1,000 runs: 2.1 %. z and the delta method are rough at 60 groups;
    # a sign test of 60 signs can only have a level of 2.7 %.
    slack = 3 * math.sqrt(0.05 * 0.95 / RUNS)
    for name in ("bootstrap", "randomisation", "paired t", "wilcoxon", "clustered t"):
        assert abs(rates[name] - 0.05) <= slack + 0.005 * (name in ("bootstrap", "clustered t"))
    assert abs(rates["clustered z"] - 0.055) <= slack + 0.005
    level = 2 * stats.binom.cdf(stats.binom.ppf(0.025, 60, 0.5) - 1, 60, 0.5)
    assert abs(rates["sign"] - level) <= slack


@pytest.mark.parametrize("kind", KINDS)
def test_intervals__hold_the_truth_as_often_as_promised(kind):
    rng, truth = np.random.default_rng(6), 1 / 3
    held = 0
    for run in range(RUNS):
        w = rng.integers(1, 9, 100).astype(np.float64)
        p = w * rng.beta(1, 2, 100)
        values = mean_of(bootstrap(np.stack([p, w]), ids_of(100), REPLICATES, run, kind=kind))
        low, high = bootstrap_interval(p.sum() / w.sum(), values, 0.95)
        held += low <= truth <= high
    # With 100 groups it is a little short of 95 %.
    assert abs(held / RUNS - 0.945) <= 3 * math.sqrt(0.05 * 0.95 / RUNS)
