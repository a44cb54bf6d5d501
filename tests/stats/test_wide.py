"""Means, errors and differences by registers of limbs, bit for bit those of Python's integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrank_eval._lib.arrow import frozen
from fastrank_eval.stats.exact import ExactSums
from fastrank_eval.stats.intervals import root_of_quotient
from fastrank_eval.stats.means import MeanState, PairedState
from fastrank_eval.stats.moments import (
    DIVIDE,
    FIRST,
    MULTIPLY,
    NUMBER,
    ROOT,
    SUBTRACT,
    Program,
    moments_of,
)
from fastrank_eval.stats.tally import add_groups
from tests.oracles import moments as oracle

pytestmark = [
    pytest.mark.kernels,
    # Loops in Python warn of products beyond doubles.
    pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning"),
]

SHARE = st.sampled_from([0.0, 1.0, 0.5, 1 / 3, 0.1, -0.25]) | st.floats(0, 1)
ANY = st.floats(allow_nan=False, allow_infinity=False)
#: As large, and as small, as numbers of groups may be whose sums are doubles.
WIDE = st.sampled_from([5e-324, -1e-310, 1e300, -1e300, 1e-200, 3.0, 1 + 2.0**-52]) | ANY.map(
    lambda x: x / 1e8
)
NEAR = st.integers(-3, 3).map(lambda k: 0.7 + k * 2.0**-50)
VALUES = st.one_of(*(st.lists(kind, max_size=8) for kind in (SHARE, NEAR, WIDE)))
WEIGHT = st.integers(1, 1000).map(float) | st.floats(1e-3, 1e3)
WIDE_WEIGHT = st.sampled_from([5e-324, 1e-300, 1e150, 1e300]) | st.floats(1e-300, 1e300)
SEED = st.integers(0, 1000)


def state_of(values, weights, slices=None, *, before: int = 0) -> MeanState:
    state, n = MeanState(1), len(values)
    which = np.full(n, before, np.int64) if before else np.empty(0, np.int64)
    ones = np.ones(n, np.int64)
    of_groups = np.array(values, np.float64)
    assert add_groups([state], 0, [of_groups], [weights], ones, ones, which)
    return state


def weights_for(draw_from, count: int, data) -> np.ndarray:
    return np.array(data.draw(st.lists(draw_from, min_size=count, max_size=count)), np.float64)


@given(VALUES, st.sampled_from(["ones", "near", "wide"]), st.integers(0, 2), st.data())
def test_moments__of_any_groups__have_the_bits_of_integers(values, kind, row, data) -> None:
    weights = None
    if kind != "ones":
        weights = weights_for(WEIGHT if kind == "near" else WIDE_WEIGHT, len(values), data)
    with np.errstate(over="ignore"):
        p = np.array(values, np.float64) * (1.0 if weights is None else weights)
    if not np.isfinite(p).all():
        return
    state = state_of(values, weights, before=row)
    wanted = oracle.Sums(p.tolist(), None if weights is None else weights.tolist())
    found = state.moments(0, weights is not None, row)
    names = ("mean", "se", "by_weight", "influence", "rounding", "groups")
    expected = [getattr(wanted, name) for name in names]
    assert repr([found.value, *(getattr(found, n) for n in names[1:])]) == repr(expected)
    found = state.moments(0, weights is not None, row, is_sum=True)
    total = wanted.total if values else math.nan
    assert repr([found.value, found.se, found.rounding]) == repr(
        [total, wanted.se_of_sum, wanted.rounding_of_sum]
    )


@given(st.lists(st.tuples(VALUES, st.booleans(), st.booleans()), max_size=6), st.integers(0, 1))
def test_moments__of_several_measures__have_the_bits_of_each_alone(measures, before) -> None:
    every = []
    for values, weighted, is_sum in measures:
        weights = np.linspace(0.5, 3, len(values)) if weighted else None
        state = state_of(values, weights, before=before)
        every += [
            state.model_sums(0, weighted, rows, is_sum=is_sum)
            for rows in ([before], [before + 1], [before, 0])  # the second has no group
        ]
    alone = [list(one.moments(0.95)) for one in every]
    assert repr(moments_of(every, 0.95)) == repr(alone)


@given(VALUES, st.sampled_from(["ones", "near", "wide"]), st.data())
def test_differences__of_any_groups__have_the_bits_of_integers(values, kind, data) -> None:
    n = len(values)
    others = data.draw(st.lists(SHARE | NEAR | WIDE, min_size=n, max_size=n))
    weights = [None, None]
    if kind != "ones":
        one = WEIGHT if kind == "near" else WIDE_WEIGHT
        weights = [weights_for(one, n, data) for _ in range(2)]
    slopes = data.draw(st.tuples(*[st.sampled_from([1.0, 0.3, -2.5, 1e-30, 1e20])] * 2))
    sides, states = [], []
    for each, of_groups in zip((values, others), weights, strict=True):
        w = np.ones(n) if of_groups is None else of_groups
        with np.errstate(over="ignore"):
            p = np.array(each, np.float64) * w
        if not np.isfinite(p).all():
            return
        sides.append(oracle.Sums(p.tolist(), w.tolist()))
        states.append(state_of(each, of_groups))
    base, other = sides
    if not np.isfinite(np.subtract(other.p, base.p)).all():
        return
    with np.errstate(over="ignore"):
        if not np.isfinite(np.subtract(others, values)).all():
            return
    paired = PairedState(1)
    both, ones = [np.array(values, float), np.array(others, float)], np.ones(n, np.int64)
    assert add_groups([MeanState(1), MeanState(1)], 0, both, weights, ones, ones, pair=paired)
    mine, theirs = (state.model_sums(0, kind != "ones", [0]) for state in states)
    found = paired.differences(0, mine, theirs, slopes)
    assert repr(found.se) == repr(oracle.error_of_difference(base, other, n, slopes))
    found = paired.differences(0, mine, theirs, None)
    assert repr(found.se) == repr(oracle.error_of_sums(base, other, n))
    d = [
        0.0 if abs(y - x) <= 2.0**-40 * max(abs(x), abs(y)) else y - x
        for x, y in zip(values, others, strict=True)
    ]
    total, squares = sum(map(oracle.whole, d)), oracle.cross(d, d)
    unit = 2 * oracle.UNIT
    assert repr(found.mean) == repr(total / (n << oracle.UNIT) if n else math.nan)
    spread = math.nan
    if n > 1:
        spread = root_of_quotient(n * squares - total * total, n * (n - 1) << unit)
    assert repr(found.deviation) == repr(spread)


# ---- quotients and roots alone -------------------------------------------------------------------


def calculate(number: int, divisor: int, bits: int) -> tuple[float, float]:
    """The quotient and the root of two integers below 2^200, as products of four numbers."""

    def parts(whole: int) -> list[int]:
        return [whole >> 50 * k & ((1 << 50) - 1) for k in range(4)]

    above, below = parts(abs(number)), parts(divisor)
    counts = np.array([[*above, *below, -1 if number < 0 else 1, 0]])
    inputs = [(NUMBER, k, 50 * (k % 4)) for k in range(8)] + [(NUMBER, 8, 0), (NUMBER, 9, 0)]
    a, b, sign, zero, out, rest = (FIRST + k for k in (0, 4, 8, 9, 10, 11))
    steps = []
    for first in (a, b):
        # x - (0 - y) adds.
        for k in range(1, 4):
            steps += [(SUBTRACT, zero, first + k, out), (SUBTRACT, first, out, first)]
    steps += [(MULTIPLY, a, sign, rest), (DIVIDE, rest, b, 0, 0, 1), (ROOT, a, b, 1, 0, 1)]
    program = Program(frozen(np.array([(*s, 0, 0)[:6] for s in steps])), rest + 1, 2, 4)
    lines = np.array([(source, index, 0, more) for source, index, more in inputs])
    empty, row = ExactSums([(0,)]), np.zeros(1, np.int64)
    numbers = program.run([empty], counts, row, lines, 150, bits)
    return tuple(numbers[0].tolist())


def wanted_of(number: int, divisor: int, bits: int) -> tuple[float, float]:
    up, down = max(bits, 0), max(-bits, 0)
    return (
        oracle.divided(number << up, divisor << down),
        root_of_quotient(abs(number) << up, divisor << down),
    )


WHOLE = st.integers(1, 2**200 - 1) | st.integers(1, 200).map(lambda k: 2**k - 1)


@given(WHOLE, WHOLE, st.integers(-1500, 1500), st.booleans())
def test_quotients_and_roots__of_integers__are_rounded_as_in_python(a, b, bits, negative) -> None:
    number = -a if negative else a
    assert calculate(number, b, bits) == wanted_of(number, b, bits)


@given(st.floats(min_value=0, allow_infinity=False), st.integers(-2, 2), st.integers(1, 2**60))
def test_quotients__half_way_between_doubles__go_to_the_even_one(double, near, divisor) -> None:
    numerator, denominator = double.as_integer_ratio()
    bits = denominator.bit_length() + 1
    middle = Fraction(double) + Fraction(math.ulp(double)) / 2
    number = int(middle * (1 << bits)) * divisor + near
    while number >= 2**200:
        number, bits = number >> 1, bits - 1
    if number > 0:
        assert calculate(number, divisor, -bits) == wanted_of(number, divisor, -bits)
    assert numerator >= 0


@given(st.integers(2**53, 2**54 - 1), st.integers(-1, 1), st.integers(1, 1000))
def test_roots__of_squares_near_half_ways__are_cut_off_first(middle, near, factor) -> None:
    number = (middle * middle + near) * factor
    for bits in (0, -1, -2100, 1900, -2148, -3000):
        assert calculate(number, factor, bits) == wanted_of(number, factor, bits)


@pytest.mark.parametrize("number", [0, 1, 2**53 + 1, 2**199 + 1])
def test_quotients__by_zero__are_unknown(number) -> None:
    assert all(map(math.isnan, calculate(number, 0, 0)))
