"""Sums over groups, correctly rounded: against fractions, whatever the sizes, signs and blocks."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrank_eval.groups.chunk import count_marked_rows
from fastrank_eval.stats.exact import ExactSums
from fastrank_eval.stats.row_sums import GroupSums

#: Without the JIT NumPy's scalars warn where a sum passes the largest double, on purpose.
pytestmark = [
    pytest.mark.kernels,
    *[
        pytest.mark.filterwarnings(f"ignore:{what} encountered:RuntimeWarning")
        for what in ("overflow", "invalid value")
    ],
]
NUMBERS = st.one_of(
    st.floats(0, 1),
    st.floats(-1e3, 1e3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 5e-324, 2.0**-53, 1.0, 2.0**53, 1.7976931348623157e308]),
)
GROUPS = st.lists(st.lists(NUMBERS, max_size=12), max_size=6)


def correctly_rounded(values) -> float:
    exact = sum(map(Fraction, values), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def edges(groups) -> np.ndarray:
    return np.cumsum([0, *map(len, groups)])


def summed(groups) -> list[float]:
    out = np.full(len(groups), np.nan)
    sums = GroupSums(edges(groups), out, ExactSums([(0,)]), 0)
    sums.add(np.array(list(itertools.chain(*groups)), np.float64))
    return out.tolist()


@given(GROUPS, st.integers(1, 9), st.randoms(use_true_random=False))
def test_blocks_and_order__change_no_bit__and_the_whole_is_exact(groups, size, rng):
    groups = [rng.sample(group, len(group)) + [-x for x in group[:3]] for group in groups]
    values, out = np.array(list(itertools.chain(*groups)), np.float64), np.empty(len(groups))
    all_rows = ExactSums([(0,)])
    sums = GroupSums(edges(groups), out, all_rows, 0)
    for first in range(0, len(values), size):
        sums.add(values[first : first + size])
    assert out.tolist() == list(map(correctly_rounded, groups)) == summed(groups)
    assert all_rows.fraction(0) == sum(map(Fraction, values.tolist()))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    "values, wanted",
    [
        ([1.0, 2.0**-53, 2.0**-200], 1.0 + 2.0**-52),  # above the tie
        ([1.0, 2.0**-53, -(2.0**-200)], 1.0),  # below it
        ([1.0, 2.0**-53, 2.0**-200, -(2.0**-200)], 1.0),  # a tie, to even
        ([1.0 + 2.0**-52, 2.0**-53, 2.0**-200, -(2.0**-200)], 1.0 + 2.0**-51),
        ([2.0 - 2.0**-52, 2.0**-53, 5e-324], 2.0),  # carried into the exponent
        ([1e308, 1e308, -1e308, 5e-324], 1e308),
        ([1e308, 1e308, 5e-324], math.inf),
        ([1.7976931348623157e308, 2.0**969, 5e-324], 1.7976931348623157e308),
        ([1.7976931348623157e308, 2.0**970, 5e-324], math.inf),
        ([1.0, 5e-324, -1.0], 5e-324),
        ([1e300, 2.0**-1030, -1e300, 5e-324], 2.0**-1030 + 5e-324),
        ([1e300, 1.0, 1e-300, -1e300, -1.0, -1e-300], 0.0),
    ],
)
def test_sums_of_more_than_two_doubles__are_correctly_rounded(values, wanted, sign):
    assert summed([[sign * x for x in values], [1.0]]) == [sign * wanted, 1.0]


@given(st.lists(st.lists(st.booleans(), max_size=70), max_size=8))
def test_count_marked_rows__counts_the_marks_of_each_group(groups):
    marks = np.array(list(itertools.chain(*groups)), np.bool_)
    assert count_marked_rows(marks, edges(groups)).tolist() == list(map(sum, groups))


@pytest.mark.parametrize("spread", [0, 20, 40, 44, 50, 53, 80, 120])
@pytest.mark.parametrize("lowest", [-1074, -300])
def test_sums_of_numbers_of_some_spread__are_correctly_rounded(spread, lowest):
    """Where two integers have all bits of the rows and where they do not."""
    rng = np.random.default_rng(spread)
    sizes = [1, 2, 3, 4, 7, 8, 9, 31, 32, 33, 64, 65, 200, 1024, 3000]
    groups = [
        np.ldexp(rng.random(n) + 1 - 2.0**-52, rng.integers(lowest, lowest + spread + 1, n))
        for n in sizes
    ]
    for signs in (np.ones, lambda n: rng.choice([-1.0, 1.0], n)):
        signed = [(group * signs(len(group))).tolist() for group in groups]
        assert summed(signed) == list(map(correctly_rounded, signed))
