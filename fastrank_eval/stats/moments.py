"""Compute means over groups and their errors from exact sums.

All formulas are quotients of sums of products of the sums. Nothing is rounded before the last
division or root. So kernels calculate with integers of any size, and round a result once.

An integer is a row of limbs: 32 bits each, the least first. Its size is the number of limbs, the
last not 0, and has the sign. So 0 has the size 0.

A formula is a program: steps that multiply, subtract and divide registers. So one kernel calculates
all formulas, for all slices at once, and no formula is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.elementary import two_product, two_sum
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.stats.exact import UNIT, ExactSums, add_integer
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

#: Operations of steps.
MULTIPLY, SUBTRACT, DIVIDE, ROOT = range(4)
#: Sources of registers: a number, and one in the unit of sums. Those before are sums.
NUMBER, IN_UNITS = 3, 4
#: The digit of 1 in sums, and the limbs of a number of groups from there on.
_ONE_DIGIT, _COUNT_LIMBS = 2 * UNIT // 32, 4
# Registers that `_rounded` uses: a midpoint of doubles, its square, and its product.
_MIDDLE, _SQUARE, _PRODUCT = range(3)
#: The first register of inputs.
FIRST = 3
#: A quotient by leading limbs is off by less than 2^-62 of it, and a root is cut off at less than
#: that. So it is rounded safely up to this share of the distance to a half.
_CLEAR = 1 - 2.0**-7
#: The most limbs of such a square: of a double and one bit more.
_SQUARE_LIMBS = 72


class Program(NamedTuple):
    """A formula.

    Parameters
    ----------
    steps : ndarray of int64, shape (steps, 6)
        Operation; registers of both operands; register of the result, or the index of the number
        that a quotient or a root is; then two factors x and y: a quotient is multiplied by
        ``2^(x unit + y exponent)``.
    registers : int
        Number of registers.
    numbers : int
        Number of results.
    degree : int
        The most sums in a product.
    """

    steps: np.ndarray
    registers: int
    numbers: int
    degree: int

    def run(
        self,
        sums: Sequence[ExactSums],
        counts: np.ndarray,
        rows: np.ndarray,
        inputs: np.ndarray,
        bits: int = 0,
        exponent: int = 0,
    ) -> np.ndarray:
        """Calculate the formula for some slices.

        Parameters
        ----------
        sums : sequence of ExactSums
            One to three.
        counts : ndarray of int64, shape (rows, counts)
        rows : ndarray of int64, shape (slices,)
            Rows of sums and counts; what is missing is 0.
        inputs : ndarray of int64, shape (inputs, 4)
            What registers from `FIRST` on hold: source, index, summand and bits. A source is an
            index of `sums`, whose index is that of a term. Or it is `NUMBER` or `IN_UNITS`: the
            index of a count, or -1, then what is added to it, times two to the power of the bits.
        bits : int
            The most bits of an input.
        exponent : int
            At most 0.

        Returns
        -------
        ndarray of float64, shape (slices, numbers)
            NaN where a divisor is not above 0. A root of less than 0 is 0.
        """
        lowest = highest = _ONE_DIGIT
        for each in sums:
            if digits := each.digits.shape[2]:
                lowest, highest = min(lowest, each.lowest), max(highest, each.lowest + digits)
        width = self.degree * (highest - lowest + _COUNT_LIMBS + bits // 16) + 2 * _SQUARE_LIMBS
        room = scratch("registers", self.registers * width).reshape(self.registers, width)
        one, two, three = (*sums, sums[0], sums[0])[:3]
        firsts = one.lowest - lowest, two.lowest - lowest, three.lowest - lowest
        numbers = np.empty((len(rows), self.numbers))
        _calculate(
            one.digits, two.digits, three.digits, *firsts, counts, rows, inputs,
            32 * lowest - 2 * UNIT, exponent, self.steps, np.empty(self.registers, np.int64),
            room, room.view(np.float64), numbers,
        )  # fmt: skip
        return numbers


@kernel
def _calculate(  # type: ignore[no-untyped-def]
    one, two, three, first, second, third, counts, rows, inputs, unit, exponent, steps, sizes,
    room, doubles, numbers,
):  # fmt: skip
    for i in range(rows.shape[0]):
        row = rows[i]
        for k in range(inputs.shape[0]):
            source = inputs[k, 0]
            index = inputs[k, 1]
            register = FIRST + k
            sizes[register] = 0
            if source >= NUMBER:
                number = inputs[k, 2]
                if index >= 0 and row < counts.shape[0]:
                    number += counts[row, index]
                bits = inputs[k, 3] - (unit if source == IN_UNITS else 0)
                size = _shifted(abs(number), bits, room[register])
                sizes[register] = -size if number < 0 else size
            else:
                digits = one if source == 0 else (two if source == 1 else three)
                lowest = first if source == 0 else (second if source == 1 else third)
                if row < digits.shape[1] and digits.shape[2] > 0:
                    sizes[register] = _read(digits[index, row], lowest, room[register])
        for k in range(steps.shape[0]):
            a = steps[k, 1]
            b = steps[k, 2]
            out = steps[k, 3]
            if steps[k, 0] == MULTIPLY:
                sizes[out] = _multiplied(room[a], sizes[a], room[b], sizes[b], room[out])
            elif steps[k, 0] == SUBTRACT:
                sizes[out] = _subtracted(room[a], sizes[a], room[b], sizes[b], room[out])
            else:
                is_root = steps[k, 0] == ROOT
                bits = steps[k, 4] * unit + steps[k, 5] * exponent
                numbers[i, out] = math.nan
                if sizes[b] > 0:
                    size = max(sizes[a], 0) if is_root else sizes[a]
                    numbers[i, out] = _rounded(
                        room[a], size, room[b], sizes[b], bits, is_root, room, doubles
                    )


@kernel
def _normalised(limbs, count):  # type: ignore[no-untyped-def]
    """Carry digits of any sign, make them limbs, and return the size."""
    carry = np.int64(0)
    for k in range(count):
        carry += limbs[k]
        limbs[k] = carry & 0xFFFFFFFF
        carry >>= 32
    sign = 1
    if carry < 0:
        sign = -1
        carry = np.int64(1)
        for k in range(count):
            carry += limbs[k] ^ 0xFFFFFFFF
            limbs[k] = carry & 0xFFFFFFFF
            carry >>= 32
    while count > 0 and limbs[count - 1] == 0:
        count -= 1
    return sign * count


@kernel
def _read(digits, first, out):  # type: ignore[no-untyped-def]
    """Read the digits of a sum; its lowest digit becomes limb `first`."""
    count = digits.shape[0]
    for k in range(first):
        out[k] = 0
    for k in range(count):
        out[first + k] = digits[k]
    # The last digit may exceed 32 bits.
    out[first + count] = 0
    out[first + count + 1] = 0
    return _normalised(out, first + count + 2)


@kernel
def _shifted(number, bits, out):  # type: ignore[no-untyped-def]
    """Make ``number * 2^bits``; the number is at least 0, and below 2^63."""
    count = (bits >> 5) + 3
    for k in range(count):
        out[k] = 0
    add_integer(number, bits, out)
    return _normalised(out, count)


@kernel
def _multiplied(a, m, b, n, out):  # type: ignore[no-untyped-def]
    """Multiply integers of sizes m and n."""
    if m == 0 or n == 0:
        return 0
    many = abs(m)
    wide = abs(n)
    for k in range(many + wide):
        out[k] = 0
    for i in range(many):
        x = np.uint64(a[i])
        if x == np.uint64(0):
            continue
        carry = np.uint64(0)
        for j in range(wide):
            carry += x * np.uint64(b[j]) + np.uint64(out[i + j])
            out[i + j] = np.int64(carry & np.uint64(0xFFFFFFFF))
            carry >>= np.uint64(32)
        out[i + wide] = np.int64(carry)
    count = many + wide
    if out[count - 1] == 0:
        count -= 1
    return count if (m < 0) == (n < 0) else -count


@kernel
def _subtracted(a, m, b, n, out):  # type: ignore[no-untyped-def]
    """Subtract the second integer from the first."""
    count = max(abs(m), abs(n)) + 1
    for k in range(count):
        digit = np.int64(0)
        if k < abs(m):
            digit += a[k] if m > 0 else -a[k]
        if k < abs(n):
            digit -= b[k] if n > 0 else -b[k]
        out[k] = digit
    return _normalised(out, count)


@kernel
def _bit_length(a, n):  # type: ignore[no-untyped-def]
    """Return the number of bits of a magnitude above 0."""
    return 32 * n - 32 + math.frexp(float(a[n - 1]))[1]


@kernel
def _compared(a, n, bits, b, m):  # type: ignore[no-untyped-def]
    """Return the sign of ``a * 2^bits - b`` for magnitudes above 0."""
    longer = _bit_length(a, n) + bits - _bit_length(b, m)
    if longer != 0:
        return 1 if longer > 0 else -1
    first = bits >> 5
    shift = bits & 31
    for k in range(m - 1, min(first, 0) - 1, -1):
        x = a[k - first] << shift if 0 <= k - first < n else 0
        if 0 < k - first <= n:
            x |= a[k - first - 1] >> (32 - shift)
        difference = (x & 0xFFFFFFFF) - (b[k] if k >= 0 else 0)
        if difference != 0:
            return 1 if difference > 0 else -1
    return 0


@kernel
def _reaches(a, m, bits, b, n, is_root, half, double, room):  # type: ignore[no-untyped-def]
    """Return whether the quotient (or root) is rounded to more than a double.

    It is compared with the point between this double and the next. A half is rounded to even.
    """
    exponent = max(double >> 52, 1) - 1076
    middle = 2 * (double & 0xFFFFFFFFFFFFF) + 1
    if double >> 52 > 0:
        middle |= 1 << 53
    is_odd = double & 1
    if not is_root:
        size = _shifted(middle, 0, room[_MIDDLE])
        size = _multiplied(room[_MIDDLE], size, b, n, room[_PRODUCT])
        order = _compared(a, m, bits - exponent, room[_PRODUCT], size)
        return order > 0 or (order == 0 and is_odd == 1)
    # The root in units of 2^-half is an integer, its remainder cut off.
    size = _shifted(middle, exponent + half, room[_MIDDLE])
    if is_odd == 0:
        room[_MIDDLE, 0] += 1
    size = _multiplied(room[_MIDDLE], size, room[_MIDDLE], size, room[_SQUARE])
    size = _multiplied(room[_SQUARE], size, b, n, room[_PRODUCT])
    return _compared(a, m, bits + 2 * half, room[_PRODUCT], size) >= 0


@kernel
def _rounded(a, m, b, n, bits, is_root, room, doubles):  # type: ignore[no-untyped-def]
    """Divide ``a * 2^bits`` by b > 0, rounded once; or the root of that.

    A root has 64 bits or more before it is rounded; the rest is cut off. It is inf above the
    largest double. `doubles` is `room`, read as float64.
    """
    if m == 0:
        return 0.0
    size = abs(m)
    x, x_low = _leading(a, size)
    y, y_low = _leading(b, n)
    power = 32 * (size - n) + bits
    guess = x / y
    product, error = two_product(guess, y)
    rest = ((x - product) - error + x_low - guess * y_low) / y
    if is_root:
        twice = 2.0 if power & 1 else 1.0
        square = twice * guess
        guess = math.sqrt(square)
        product, error = two_product(guess, guess)
        rest = ((square - product) - error + twice * rest) / (2.0 * guess)
        power >>= 1
    guess, rest = two_sum(guess, rest)
    doubles[0, 0] = guess
    double = room[0, 0]
    # Half of the distance to the next double; below a power of two it is half as much.
    room[0, 0] = ((double >> 52) - (53 if double & 0xFFFFFFFFFFFFF else 54)) << 52
    is_clear = abs(rest) < _CLEAR * doubles[0, 0]
    field = (double >> 52) + power
    if 0 < field < 2047:
        double += power << 52
    elif field > 0:
        double = np.int64(0x7FEFFFFFFFFFFFFF)
    else:
        double = ((double & 0xFFFFFFFFFFFFF) | (1 << 52)) >> min(1 - field, 60)
    if not is_clear or not 0 < field < 2047:
        half = max(128 + _bit_length(b, n) - _bit_length(a, size) - bits, 0) // 2
        double = _decided(a, size, bits, b, n, is_root, half, double, room)
    room[0, 0] = double
    return doubles[0, 0] if m > 0 else -doubles[0, 0]


@kernel
def _leading(a, n):  # type: ignore[no-untyped-def]
    """Return three leading limbs as two doubles; the second is worth 1."""
    high, low = two_sum(4294967296.0 * float(a[n - 1]), float(a[n - 2]) if n > 1 else 0.0)
    return high, low + (float(a[n - 3]) / 4294967296.0 if n > 2 else 0.0)


@kernel
def _decided(a, m, bits, b, n, is_root, half, double, room):  # type: ignore[no-untyped-def]
    """Find what a quotient or root is rounded to, from a double nearby."""
    while double < 0x7FF0000000000000 and _reaches(a, m, bits, b, n, is_root, half, double, room):
        double += 1
    while double > 0 and not _reaches(a, m, bits, b, n, is_root, half, double - 1, room):
        double -= 1
    return double


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
