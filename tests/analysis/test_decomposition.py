"""Change within slices and change of composition: the identity, and what each term means."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrank_eval.results.differences import decompose

WEIGHTS = st.integers(0, 1000).map(float)
VALUES = st.integers(-1000, 1000).map(lambda n: n / 1024)
SIDES = st.lists(st.tuples(WEIGHTS, VALUES, WEIGHTS, VALUES), min_size=1, max_size=8).filter(
    lambda rows: sum(r[0] for r in rows) > 0 and sum(r[2] for r in rows) > 0
)
Rows = list[tuple[float, float, float, float]]


def arrays(rows: Rows) -> tuple[np.ndarray, ...]:
    w1, v1, w2, v2 = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    # A sum without weight is ignored.
    return w1, np.where(w1 > 0, w1 * v1, math.nan), w2, np.where(w2 > 0, w2 * v2, math.nan)


def exact_terms(rows: Rows) -> tuple[Fraction, Fraction, Fraction]:
    """The difference, what comes of values and what of shares, without rounding."""
    total1, total2 = Fraction(sum(r[0] for r in rows)), Fraction(sum(r[2] for r in rows))
    difference = within = composition = Fraction(0)
    for w1, v1, w2, v2 in rows:
        p1, p2 = Fraction(w1) / total1, Fraction(w2) / total2
        a, b = Fraction(v1 if w1 else v2), Fraction(v2 if w2 else v1)
        difference += p2 * b - p1 * a
        within += (p1 + p2) / 2 * (b - a)
        composition += (a + b) / 2 * (p2 - p1)
    return difference, within, composition


@given(SIDES)
@settings(deadline=None)
def test_the_terms_add_up_to_the_difference(rows: Rows) -> None:
    found = decompose(*arrays(rows))
    difference, within, composition = exact_terms(rows)
    assert difference == within + composition
    assert found.difference == pytest.approx(float(difference), abs=1e-14)
    assert found.within == pytest.approx(float(within), abs=1e-14)
    assert found.composition == pytest.approx(float(composition), abs=1e-14)
    assert abs(found.remainder) < 1e-14
    assert math.fsum(found.slice_within.tolist()) == found.within
    assert math.fsum(found.slice_composition.tolist()) == found.composition


@given(SIDES)
@settings(deadline=None)
def test_exchanged_sides_change_signs_only(rows: Rows) -> None:
    w1, s1, w2, s2 = arrays(rows)
    one, other = decompose(w1, s1, w2, s2), decompose(w2, s2, w1, s1)
    np.testing.assert_array_equal(one.slice_within, -other.slice_within)
    np.testing.assert_array_equal(one.slice_composition, -other.slice_composition)
    assert one.difference == -other.difference


@given(SIDES, st.floats(-10, 10), st.floats(0.5, 4))
@settings(deadline=None)
def test_a_constant_on_all_values_or_weights_changes_no_term(rows, constant, factor) -> None:
    plain = decompose(*arrays(rows))
    moved = decompose(*arrays([(a, v + constant, b, w + constant) for a, v, b, w in rows]))
    scaled = decompose(*arrays([(a * factor, v, b * 3, w) for a, v, b, w in rows]))
    for other in (moved, scaled):
        np.testing.assert_allclose(other.slice_composition, plain.slice_composition, atol=1e-13)
        np.testing.assert_allclose(other.slice_within, plain.slice_within, atol=1e-13)


def test_a_side_without_weight_has_no_value() -> None:
    none = np.zeros(2)
    found = decompose(none, none, np.ones(2), np.ones(2), after=0.8)
    assert math.isnan(found.before)
    assert found.after == 0.8
    assert math.isnan(found.within)
    assert np.isnan(found.slice_composition).all()
