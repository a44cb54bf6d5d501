"""Compute means over groups and their errors from exact sums.

All formulas are quotients of sums of products of the sums; see `wide`. Nothing is rounded before
the last division or root.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel
from fastrank_eval.stats.exact import ExactSums
from fastrank_eval.stats.intervals import (
    GROUP_ROUNDINGS,
    ULP_HALF,
    WARNINGS,
    Uncertainty,
    effective_groups,
    effective_groups_of_sums,
    interval,
    normal_quantile,
    zero_if_rounding,
)
from fastrank_eval.stats.wide import (
    DIVIDE,
    FIRST,
    IN_UNITS,
    MULTIPLY,
    NUMBER,
    ROOT,
    SUBTRACT,
    Program,
)

#: Of p, as a share of it.
_ROUNDINGS = GROUP_ROUNDINGS * ULP_HALF
#: Coefficients of the fourth power of a difference.
_BINOMIAL = (1.0, -4.0, 6.0, -4.0, 1.0)


class Moments(NamedTuple):
    """A mean or a sum over groups, and what its interval needs.

    Parameters
    ----------
    value : float
        ``sum of p / sum of w``, or the sum of p, rounded once; NaN without a group.
    weight : float
        Sum of w.
    se : float
        Standard error; NaN below two groups, 0 if rounding alone may have made it.

        ``sqrt(U / (U - 1) * sum of w^2 (A - mean)^2) / sum of w`` of U groups: the variance of a
        ratio of sums over independent clusters, linearised. Of a sum over fixed groups
        ``sqrt(U / (U - 1) * sum of (p - mean of p)^2)``.
    by_weight, influence : float
        As in `ErrorGroups`.
    rounding : float
        What rounding adds to the influences of groups; see `zero_if_rounding`.
    error, low, high, effective_groups : float
        Fields of the `Uncertainty` of `value`.
    groups : int
        Number of groups.
    warning : int
        That of the `Uncertainty`, an index of `WARNINGS`.
    used, rows, positives : int
        Groups that are used, and their rows and positives.

    References
    ----------
    Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
    """

    value: float
    weight: float
    se: float
    by_weight: float
    influence: float
    rounding: float
    error: float
    low: float
    high: float
    effective_groups: float
    groups: int
    warning: int
    used: int
    rows: int
    positives: int

    @property
    def coverage(self) -> tuple[int, int, int]:
        """The groups that are used, their rows and their positives."""
        return self[12:]

    @property
    def uncertainty(self) -> Uncertainty:
        """The standard error and the confidence interval."""
        return Uncertainty(*self[6:10], WARNINGS[self.warning])


class ModelSums(NamedTuple):
    """Exact sums of one model, by slice, and how to read them.

    Parameters
    ----------
    sums : ExactSums
        Of weights w and weighted values p = w A.
    rows : ndarray of int64, shape (slices,)
        The slices.
    terms : tuple of int
        Those of the sums of p, p p, p w, w w, w; then of p^4, p^3 w, p^2 w^2, p w^3, w^4. -1: every
        weight is 1, so a sum of weights is a number of groups.
    counts : ndarray of int64, shape (rows, counts)
    groups, ones : int
        Columns of the numbers of groups (or clusters), and of sums of weights that are all 1.
    is_sum : bool
        The measure is a sum over groups, not a mean.
    """

    sums: ExactSums
    rows: np.ndarray
    terms: tuple[int, ...]
    counts: np.ndarray
    groups: int
    ones: int
    is_sum: bool

    def moments(self, confidence: float = math.nan) -> Iterator[Moments]:
        """Compute the mean, or the sum, of each slice; see `Moments`.

        Parameters
        ----------
        confidence : float
            In ]0, 1[; NaN: no interval is needed.
        """
        inputs = _inputs_of_one(self.terms, self.groups, self.ones)
        program = _SUM if self.is_sum else _MEAN
        numbers = program.run([self.sums], self.counts, self.rows, inputs)
        out, integers = np.empty((10, len(self.rows))), np.zeros((5, len(self.rows)), np.int64)
        _finish(
            numbers, self.counts, self.rows, self.groups, self.is_sum, self.terms[3] < 0,
            self.terms[4] < 0, confidence, normal_quantile(confidence), np.empty(7), out, integers,
        )  # fmt: skip
        return map(Moments, *out.tolist(), *integers.tolist())


def moments_of(measures: Sequence[ModelSums], confidence: float) -> list[list[Moments]]:
    """Compute the moments of several measures; see `ModelSums.moments`.

    Those of one slice whose sums have the same terms are calculated together: to call a kernel
    takes longer than to calculate a value.
    """
    alike: dict[Hashable, list[int]] = {}
    for m, each in enumerate(measures):
        kind = each.terms, each.groups, each.is_sum, len(each.sums.digits), each.counts.shape[1]
        alike.setdefault(kind if len(each.rows) == 1 else m, []).append(m)
    found: list[list[Moments]] = [[]] * len(measures)
    for positions in alike.values():
        slices = _joined([measures[m] for m in positions]).moments(confidence)
        for m in positions:
            found[m] = list(islice(slices, len(measures[m].rows)))
    return found


def _joined(measures: Sequence[ModelSums]) -> ModelSums:
    """Put measures of one slice in a row; only sums and counts differ."""
    first, lines = measures[0], len(measures)
    if lines == 1:
        return first
    known = [each.sums for each in measures if each.sums.digits.shape[2]]
    sums = ExactSums(first.sums.terms)
    sums.lowest = min((one.lowest for one in known), default=0)
    end = max((one.lowest + one.digits.shape[2] for one in known), default=0)
    sums.digits = np.zeros((len(first.sums.digits), lines, end - sums.lowest), np.int64)
    counts = np.zeros((lines, first.counts.shape[1]), np.int64)
    for line, each in enumerate(measures):
        row, digits, low = int(each.rows[0]), each.sums.digits, each.sums.lowest - sums.lowest
        if row < digits.shape[1]:
            sums.digits[:, line, low : low + digits.shape[2]] = digits[:, row]
        if row < len(each.counts):
            counts[line] = each.counts[row]
    return first._replace(sums=sums, rows=np.arange(lines), counts=counts)


class Differences(NamedTuple):
    """The differences of two models in groups.

    Parameters
    ----------
    se : float
        Standard error of the difference; NaN with fewer than two groups.
    influence : float
        Effective groups by influence. The influence of a group is its difference of weighted
        values. Influences are taken about 0, as if the models did not differ.
    mean, deviation : float
        Unweighted mean and sample standard deviation of the differences in groups that both models
        use. NaN if there are too few.
    """

    se: float
    influence: float
    mean: float
    deviation: float


def difference_of_models(
    base: ModelSums,
    other: ModelSums,
    cross: ExactSums,
    groups: int,
    both: int,
    slopes: Sequence[float] | None,
) -> Differences:
    """Compute the standard error of a difference of two models in one slice.

    ``sqrt(U / (U - 1) * sum of (s_b e_b - s_a e_a)^2)`` of U groups that either model uses, with
    ``e = w (A - mean) / sum of w`` of each: the paired variance of two ratios of sums over
    independent clusters, linearised.

    Parameters
    ----------
    base, other : ModelSums
    cross : ExactSums
        Of p_a p_b, p_a w_b, w_a p_b and w_a w_b, of differences d of values, d d, and of
        (p_b - p_a)^4.
    groups, both : int
        Groups that either model uses, and that both use.
    slopes : sequence of float, or None
        Derivatives s of the functions of each mean that are subtracted; 1 for the means themselves.
        None: the difference is one of sums over fixed groups.

    References
    ----------
    Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
    """
    # Slopes are integers in one unit, so that equal terms cancel exactly.
    parts = [math.frexp(slope) for slope in slopes or (1.0, 1.0)]
    exponent = min(0, *(power - 53 for _, power in parts))
    (mine, base_bits), (theirs, other_bits) = (
        (int(math.ldexp(mantissa, 53)), power - 53 - exponent) for mantissa, power in parts
    )
    row = int(base.rows[0])
    ones_of_base, ones_of_other = (
        int(side.counts[row, side.ones]) if row < len(side.counts) else 0 for side in (base, other)
    )
    inputs = np.array(
        [
            *_sums(0, base.terms[:5], -1, ones_of_base),
            *_sums(1, other.terms[:5], -1, ones_of_other),
            *_sums(2, range(7)),
            *((NUMBER, -1, number, 0) for number in (1, groups, groups - 1, both, both - 1)),
            *((IN_UNITS, -1, number, 0) for number in (groups, both)),
            (NUMBER, -1, mine, base_bits),
            (NUMBER, -1, theirs, other_bits),
        ]
    )
    bits = max(base_bits, other_bits)
    program = _DIFFERENCE_OF_SUMS if slopes is None else _DIFFERENCE
    sums = [base.sums, other.sums, cross]
    numbers = program.run(sums, base.counts, base.rows, inputs, bits, exponent)
    se, squares, fourth, mean, deviation = numbers[0].tolist()
    return Differences(se, effective_groups(squares, fourth), mean, deviation)


def _sums(
    source: int, terms: Sequence[int], column: int = -1, ones: int = 0
) -> list[tuple[int, ...]]:
    """Return the inputs of sums; sums of weights may be a number."""
    return [(source, t, 0, 0) if t >= 0 else (IN_UNITS, column, ones, 0) for t in terms]


@lru_cache
def _inputs_of_one(terms: tuple[int, ...], groups: int, ones: int) -> np.ndarray:
    numbers = [(NUMBER, -1, 1, 0), *((NUMBER, groups, more, 0) for more in (0, -1))]
    return np.array([*_sums(0, terms, ones), *numbers, (IN_UNITS, groups, 0, 0)])


def _cross(u: int, a: int, v: int, b: int, out: int, room: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the steps of ``u a - v b``."""
    left, right = room[:2]
    return [(MULTIPLY, u, a, left), (MULTIPLY, v, b, right), (SUBTRACT, left, right, out)]


def _deviations(p: int, out: int, room: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the steps of ``(sum of w)^2 * sum of (p - mean w)^2``.

    Parameters
    ----------
    p : int
        The register of the sum of p; those of p p, p w, w w and w follow.
    """
    w, last = p + 4, room[2]
    return [
        *_cross(w, p + 1, p, p + 2, last, room),
        *_cross(w, p + 2, p, p + 3, out, room),
        *_cross(w, last, p, out, out, room),
    ]


def _program(steps: Sequence[tuple[int, ...]], numbers: int, degree: int) -> Program:
    rows = np.array([(*step, 0, 0)[:6] for step in steps])
    return Program(frozen(rows), int(rows[:, 1:4].max()) + 1, numbers, degree)


def _programs_of_one() -> tuple[Program, Program]:
    """Return the programs of a mean and of a sum."""
    p, squares, _, ww, w, *fourths, one, groups, below, units = range(FIRST, FIRST + 14)
    a, b, c, *room = range(units + 1, units + 7)
    common = [
        (DIVIDE, p, w, _VALUE),
        (DIVIDE, w, one, _WEIGHT, 1),
        (DIVIDE, ww, one, _SQUARED_WEIGHTS, 1),
        *((DIVIDE, fourth, one, _FOURTH + k, 1) for k, fourth in enumerate(fourths)),
        *_deviations(p, a, room),
        (MULTIPLY, w, w, b),
        (DIVIDE, a, b, _SQUARES, 1),
    ]
    of_mean = [
        (ROOT, squares, b, _NORM, -1),
        (MULTIPLY, ww, groups, c),
        (ROOT, c, b, _SPREAD, -1),
        (MULTIPLY, a, groups, c),
        (MULTIPLY, b, b, a),
        (MULTIPLY, a, below, b),
        (ROOT, c, b, _SE, -1),
    ]
    # Sums over nested clusters are rounded, those of values are not: a root may be one of less
    # than 0.
    of_sum = [
        (DIVIDE, p, one, _TOTAL, 1),
        (ROOT, squares, one, _NORM, 1),
        *_cross(units, squares, p, p, a, room),
        (ROOT, a, below, _SE, 2),
    ]
    return _program([*common, *of_mean], _NUMBERS, 4), _program([*common, *of_sum], _NUMBERS, 4)


def _programs_of_two() -> tuple[Program, Program]:
    """Return the programs of a difference of means and of sums."""
    p, w, q, v = FIRST, FIRST + 4, FIRST + 5, FIRST + 9
    (
        pq, pv, wq, wv, d, dd, fourth, one, groups, below, both, below_both, units, both_units,
        mine, theirs,
    ) = range(FIRST + 10, FIRST + 26)  # fmt: skip
    a, b, c, f, g, *room = range(theirs + 1, theirs + 9)
    common = [
        # The sum of (q - p)^2 is q q - p q less p q - p p.
        (SUBTRACT, q + 1, pq, a),
        (SUBTRACT, pq, p + 1, b),
        (SUBTRACT, a, b, c),
        (DIVIDE, c, one, 1, 1),
        (DIVIDE, fourth, one, 2, 1),
        (DIVIDE, d, both, 3, 1),
        *_cross(both_units, dd, d, d, a, room),
        (MULTIPLY, both, below_both, b),
        (ROOT, a, b, 4, 2),
    ]
    of_sums = [
        (SUBTRACT, q, p, a),
        *_cross(units, c, a, a, b, room),
        (ROOT, b, below, 0, 2),
    ]
    of_means = [
        # Both slopes, each times the squared weights of the other model.
        (MULTIPLY, w, w, a),
        (MULTIPLY, theirs, a, f),
        (MULTIPLY, v, v, a),
        (MULTIPLY, mine, a, g),
        *_cross(v, pq, q, pv, a, room),
        *_cross(v, wq, q, wv, b, room),
        *_cross(w, a, p, b, c, room),
        *_deviations(q, a, room),
        *_deviations(p, b, room),
        # The quadratic form f^2 a - 2 f g c + g^2 b.
        *_cross(f, a, g, c, a, room),
        *_cross(f, c, g, b, b, room),
        *_cross(f, a, g, b, c, room),
        (MULTIPLY, c, groups, a),
        (MULTIPLY, w, v, b),
        (MULTIPLY, b, b, c),
        (MULTIPLY, c, c, b),
        (MULTIPLY, b, below, c),
        (ROOT, a, c, 0, -1, 2),
    ]
    return _program([*common, *of_means], 5, 8), _program([*common, *of_sums], 5, 8)


# Numbers of the programs of one model.
_VALUE, _WEIGHT, _SE, _NORM, _SPREAD, _SQUARES, _SQUARED_WEIGHTS, _TOTAL, _FOURTH = range(9)
_NUMBERS = _FOURTH + 5
_MEAN, _SUM = _programs_of_one()
_DIFFERENCE, _DIFFERENCE_OF_SUMS = _programs_of_two()


@kernel
def _finish(  # type: ignore[no-untyped-def]
    numbers, counts, rows, column, is_sum, is_unweighted, is_mean_of_ones, confidence, normal,
    room, out, integers,
):  # fmt: skip
    """Compute the fields of `Moments` from rounded numbers."""
    partials = room[:5]
    last = room[5:]
    last[0] = math.nan
    for i in range(numbers.shape[0]):
        groups = np.int64(0)
        if rows[i] < counts.shape[0]:
            groups = counts[rows[i], column]
            for k in range(3):
                integers[2 + k, i] = counts[rows[i], k]
        mean = float(numbers[i, _VALUE])
        norm = numbers[i, _NORM]
        rounding = 2.0 * _ROUNDINGS * norm
        if not is_sum:
            rounding = _ROUNDINGS * norm * (1.0 + numbers[i, _SPREAD]) if norm == norm else 0.0
        by_weight = float(groups)
        if not is_unweighted:
            by_weight = effective_groups(numbers[i, _SQUARED_WEIGHTS], numbers[i, _FOURTH + 4])
        factor = 1.0
        size = 0.0
        for k in range(5):
            term = _BINOMIAL[k] * factor * float(numbers[i, _FOURTH + k])
            numbers[i, _FOURTH + k] = term
            size += abs(term)
            factor *= mean
        influence = math.nan
        if size < math.inf:
            total = _rounded_sum(numbers[i, _FOURTH:], partials)
            influence = effective_groups_of_sums(numbers[i, _SQUARES], total, size)
        if is_sum and not is_mean_of_ones:
            # Weighted sums are not a mean of weight 1.
            by_weight = math.nan
            influence = math.nan
        value = mean
        if is_sum:
            value = numbers[i, _TOTAL] if groups > 0 else math.nan
        se = zero_if_rounding(numbers[i, _SE], rounding, groups)
        out[0, i] = value
        out[1, i] = numbers[i, _WEIGHT]
        out[2, i] = se
        out[3, i] = by_weight
        out[4, i] = influence
        out[5, i] = rounding
        integers[0, i] = groups
        if confidence == confidence:
            out[6, i], out[7, i], out[8, i], out[9, i], integers[1, i] = interval(
                value, se, groups, by_weight, influence, False, confidence, normal, last
            )


@kernel
def _rounded_sum(terms, partials):  # type: ignore[no-untyped-def]
    """Add doubles, rounded once, as `math.fsum` does."""
    count = 0
    for term in terms:
        x = term
        kept = 0
        for k in range(count):
            y = partials[k]
            if abs(x) < abs(y):
                x, y = y, x
            high = x + y
            low = y - (high - x)
            if low != 0.0:
                partials[kept] = low
                kept += 1
            x = high
        partials[kept] = x
        count = kept + 1
    count -= 1
    total = partials[count]
    low = 0.0
    while count > 0 and low == 0.0:
        count -= 1
        x = total
        total = x + partials[count]
        low = partials[count] - (total - x)
    # A half is rounded to even only if no smaller part remains.
    if count > 0 and low * partials[count - 1] > 0.0:
        x = total + 2.0 * low
        if x - total == 2.0 * low:
            total = x
    return total
