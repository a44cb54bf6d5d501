"""Calculate with integers of any size in kernels, and round a result once.

An integer is a row of limbs: 32 bits each, the least first. Its size is the number of limbs, the
last not 0, and has the sign. So 0 has the size 0.

A formula is a program: steps that multiply, subtract and divide registers. So one kernel calculates
all formulas, for all slices at once, and no formula is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fastrank_eval._lib.elementary import two_product, two_sum
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.stats.exact import UNIT, ExactSums, add_integer

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
