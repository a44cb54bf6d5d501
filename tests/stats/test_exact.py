"""Exact sums of one row, which vectors add, against fractions and against rows of slices."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrank_eval.stats.exact import BLOCK, SAFE, ExactSums

pytestmark = pytest.mark.kernels

#: Terms of one factor, of two and of four; those of four are rounded.
TERMS = [(0,), (1,), (0, 0), (0, 1), (0, 0, 0, 1)]
LEAST, GREATEST = SAFE[0] - 1074, SAFE[1] - 1074


def draw_numbers(seed: int, groups: int, lowest: int, highest: int) -> np.ndarray:
    """Numbers of the exponents, with zeros of both signs among them."""
    draw = np.random.default_rng(seed)
    numbers = np.ldexp(
        draw.uniform(-1, 1, (2, groups)), draw.integers(lowest, highest, (2, groups))
    )
    numbers[draw.random((2, groups)) < 0.1] = 0.0
    numbers[draw.random((2, groups)) < 0.1] = -0.0
    return numbers


@given(
    seed=st.integers(0, 2**32),
    groups=st.sampled_from([1, 2, 7, 100, 300]),
    lowest=st.sampled_from([-1073, LEAST - 2, LEAST + 1, -60, 0]),
    width=st.sampled_from([1, 60, 400]),
)
def test_sums__without_slices__are_those_in_fractions_and_of_a_slice(
    seed: int, groups: int, lowest: int, width: int
) -> None:
    highest = min(lowest + width, 500)
    parts = [draw_numbers(seed + k, groups, lowest, highest) for k in range(2)]
    plain, sliced = ExactSums(TERMS), ExactSums(TERMS)
    for part in parts:
        assert plain.add(part)
        assert sliced.add(part, np.zeros(groups, np.int64))
    pairs = [(Fraction(x), Fraction(y)) for part in parts for x, y in part.T.tolist()]
    assert plain.fraction(0) == sum(x for x, _ in pairs)
    assert plain.fraction(1) == sum(y for _, y in pairs)
    assert plain.fraction(2) == sum(x * x for x, _ in pairs)
    assert plain.fraction(3) == sum(x * y for x, y in pairs)
    assert [plain.fraction(term) for term in range(5)] == [
        sliced.fraction(term) for term in range(5)
    ]


@pytest.mark.compiled
@pytest.mark.parametrize("groups", [BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 3])
@pytest.mark.parametrize("exponents", [(-4, 4), (LEAST + 2, LEAST + 60), (GREATEST - 60, GREATEST)])
@pytest.mark.parametrize("slices", [1, 3, 5 * BLOCK])
def test_sums__of_more_groups_than_a_block__are_those_of_one_after_another(
    groups: int, exponents: tuple[int, int], slices: int
) -> None:
    numbers = draw_numbers(groups, groups, *exponents)
    plain, scattered = ExactSums(TERMS), ExactSums(TERMS)
    assert plain.add(numbers)
    assert scattered.add(numbers, np.arange(groups) * slices // groups)
    for term in range(len(TERMS)):
        found = sum(scattered.fraction(term, number) for number in range(slices))
        assert plain.fraction(term) == found, TERMS[term]
