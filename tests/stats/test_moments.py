"""Second moments over groups: exact, in any order, whatever their size."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrank_eval.stats.exact import UNIT
from fastrank_eval.stats.row_sums import ClusterMoments

pytestmark = pytest.mark.kernels

NUMBER = st.one_of(
    st.integers(-(2**53), 2**53).map(float),
    st.floats(-1e9, 1e9),
    st.sampled_from([0.0, 2.0**900, -(2.0**900), 2.0**-900, 1.0]),
)


def moments_of(terms) -> ClusterMoments:
    moments = ClusterMoments(len(terms))
    assert moments.add(np.array(terms))
    return moments


def in_fractions(terms) -> tuple[list[Fraction], list[list[Fraction]]]:
    """Sums of terms, and of products of two terms."""
    groups = [list(map(Fraction, g)) for g in zip(*terms, strict=True)]
    numbers = range(len(terms))
    products = [[sum((g[i] * g[j] for g in groups), Fraction(0)) for j in numbers] for i in numbers]
    return [sum((g[i] for g in groups), Fraction(0)) for i in numbers], products


def two_pass(terms, gradient) -> float:
    groups = [list(map(Fraction, g)) for g in zip(*terms, strict=True) if any(g)]
    many = len(groups)
    along = [sum(Fraction(s) * x for s, x in zip(gradient, g, strict=True)) for g in groups]
    mean = sum(along) / many
    return math.sqrt(sum((x - mean) ** 2 for x in along) * many / (many - 1))


@given(st.integers(1, 3).flatmap(lambda t: st.lists(st.tuples(*[NUMBER] * t), min_size=1)))
def test_exact__of_any_numbers__is_the_sums_in_fractions(groups):
    terms = list(zip(*groups, strict=True))
    moments = moments_of(terms)
    sums, products = moments.exact()
    in_units = [Fraction(x, 1 << UNIT) for x in sums]
    assert (in_units, [[Fraction(x, 1 << 2 * UNIT) for x in row] for row in products]) == (
        in_fractions(terms)
    )
    assert moments.clusters == sum(any(g) for g in groups)


def test_error__of_any_numbers__is_exact_to_the_last_bit():
    rng = np.random.default_rng(5)
    values = rng.integers(-1000, 1000, (3, 200)) / 64
    gradient = [0.1, -1e-9, 1e9]
    wanted = two_pass(values.tolist(), gradient)
    assert moments_of(values).error(gradient) == pytest.approx(wanted, rel=4e-16)


def test_counts__are_what_the_same_numbers_are():
    rng = np.random.default_rng(6)
    for most in (5, 1 << 19, 1 << 25):
        counts = rng.integers(0, most, (3, 400)) * rng.choice([0, 1], 400)
        whole, real = moments_of(counts), moments_of(counts.astype(np.float64))
        assert whole.exact() == real.exact()
        assert whole.clusters == real.clusters


@pytest.mark.compiled
def test_order_threads_and_merging__change_nothing():
    rng = np.random.default_rng(7)
    values = np.ldexp(rng.normal(0, 1, (3, 9000)), rng.integers(-200, 200, (3, 9000)))
    counts = rng.integers(0, 9, (3, 500))
    once = moments_of(values)
    once.add(counts)
    shared, merged = ClusterMoments(3), ClusterMoments(3)
    parts = [values[:, at] for at in np.array_split(rng.permutation(9000), 40)]
    parts += np.array_split(counts[:, ::-1], 7, axis=1)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(shared.add, parts))
    for part in parts:
        merged.merge(moments_of(part))
    for moments in (shared, merged):
        assert moments.exact() == once.exact()
        assert moments.error([1.0, -0.5, 1e-3]).hex() == once.error([1.0, -0.5, 1e-3]).hex()


def carriers_in_fractions(base, other, slopes, se) -> float:
    """The effective groups of the first difference, bounded by six degrees for each that carries
    u."""

    def carried(numbers) -> Fraction | None:
        squares = sum(x**2 for x in numbers)
        return squares**2 / sum(x**4 for x in numbers) if squares else None

    groups = [list(map(Fraction, g)) for g in zip(*base, *other, strict=True) if any(g)]
    differences = [[g[4 + i] - g[i] for i in range(4)] for g in groups]
    mean = [(Fraction(slopes[i]) + Fraction(slopes[4 + i])) / 2 for i in range(4)]
    influences = [sum(s * d for s, d in zip(mean, g, strict=True)) for g in differences]
    u, many = carried(influences), len(groups)
    first = carried([g[0] for g in differences])
    counts = [] if first is None else [first]
    if u is not None:
        variance = Fraction(se) ** 2 * (many - 1) / many / sum(x**2 for x in influences)
        degrees = max(6 * u * min(4 * variance, 1), 1)
        counts.append(1 / (2 / degrees + Fraction(1, many)))
    return float(min(counts)) if counts else math.nan


@pytest.mark.parametrize("kind", ["counts", "weights", "few"])
def test_carriers__of_decisions_are_those_of_influences_in_fractions(kind):
    rng = np.random.default_rng(8)
    contrasts = ((0, 2), (3, 1))
    for _ in range(20):
        rows = rng.integers(0, 9, (2, 50)) * (rng.random((2, 50)) < (0.2 if kind == "few" else 1))
        size = rng.integers(1, 1 << 20, 50) / 64 if kind == "weights" else 1
        models = []
        for _ in range(2):
            hits = rng.binomial(rows, 0.4)
            false, true = hits[0], hits[1]
            models.append(np.array([rows[0] - false, rows[1] - true, false, true]) * size)
        terms, slopes = np.concatenate(models), rng.normal(0, 1, 8).tolist()
        gradient = [-slope for slope in slopes[:4]] + slopes[4:]
        moments, parts = ClusterMoments(8, contrasts), ClusterMoments(8, contrasts)
        assert moments.add(terms)
        for part in np.array_split(terms[:, ::-1], 3, axis=1):
            other = ClusterMoments(8, contrasts)
            other.add(part)
            parts.merge(other)
        se = moments.error(gradient)
        found = moments.effective_groups(gradient, se)
        assert found == pytest.approx(
            carriers_in_fractions(*(m.tolist() for m in models), slopes, se), rel=1e-10, nan_ok=True
        )
        read = ClusterMoments.from_arrays(moments.to_arrays())
        assert {found.hex()} == {
            each.effective_groups(gradient, se).hex() for each in (parts, read)
        }


def test_carriers__of_one_contrast__do_not_depend_on_slopes():
    moments = ClusterMoments(4, [(0,)])
    base, other = (
        np.array([[1.0, 4.0, 2.0], [1.0, 1.0, 1.0]]),
        np.array([[2.0, 4.0, 0.0], [1.0] * 3]),
    )
    assert math.isnan(moments.effective_groups([0.0] * 4, 1.0))
    moments.add(np.concatenate([base, other]))
    assert (
        moments.effective_groups([0.0] * 4, 1.0)
        == moments.effective_groups([1.0, 2.0, 3.0, 4.0], 0.1)
        == 25 / 17
    )
    assert math.isnan(moments_of(base).effective_groups([1.0, 1.0], 1.0))


@pytest.mark.parametrize("contrasts", [[7, 0], [0, 128], [0, 0] * 5])
def test_contrasts_of_no_measure__are_refused(contrasts):
    arrays = ClusterMoments(8, [(0, 2), (3, 1)]).to_arrays()
    with pytest.raises(ValueError, match="contrasts of 4 terms cannot be"):
        ClusterMoments.from_arrays({**arrays, "contrasts": np.array(contrasts)})


@pytest.mark.parametrize("size", [1e300, 1e-290])
def test_size__is_no_trouble(size):
    values = np.array([[1.0, 3.0, 2.0, 7.0], [1.0, 1.0, 2.0, 1.0]])
    error = moments_of(values).error([1.0, -2.0])
    assert moments_of(values * size).error([1 / size, -2 / size]) == pytest.approx(error, rel=1e-14)


def test_too_few_groups_or_no_gradient__no_error():
    assert math.isnan(ClusterMoments(1).error([1.0]))
    assert math.isnan(moments_of([[3.0, 0.0]]).error([1.0]))
    assert math.isnan(moments_of([[3.0, 1.0]]).error([math.inf]))
    assert math.isnan(moments_of([[3.0, 1.0]]).error([math.nan]))
    assert moments_of([[0.3, 0.3, 0.3]]).error([2.0]) == 0
    assert ClusterMoments(2).exact() == ([0, 0], [[0, 0], [0, 0]])


def test_numbers_that_are_not_finite__are_told_of():
    assert not ClusterMoments(1).add(np.array([[1.0, math.inf]]))
    assert not ClusterMoments(1).add(np.array([[math.nan]]))
