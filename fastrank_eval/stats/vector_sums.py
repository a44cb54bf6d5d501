"""Add terms of groups exactly by SIMD, where all are added to one row.

`ExactSums` has digits for any doubles and any slices. Most numbers have a moderate size, and most
sums have no slices: their loops vectorise, at a third of the time.
"""

from __future__ import annotations

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel

_UNIT = 1074
#: The least and the largest exponent of numbers (above that of the smallest double) for which all
#: products of four are doubles, and the errors of products of two.
SAFE = _UNIT // 2, _UNIT + 200
#: Groups whose terms are added together, and the bits of each that one step adds.
BLOCK, _STEP = 1 << 10, 50


def sum_powers(rows: np.ndarray) -> tuple[int, int]:
    """Sum n^2 and n^4 over groups of n rows.

    Parameters
    ----------
    rows : ndarray of int64, shape (groups,)
        Their sum is below 2^31.
    """
    sums = np.zeros(5, np.int64)
    _sum_powers(frozen(rows.view()), sums)
    squares, *parts = sums.tolist()
    return squares, sum(part << 31 * k for k, part in enumerate(parts))


@kernel
def _sum_powers(rows, sums):  # type: ignore[no-untyped-def]
    """Sum n^2, and n^4 in parts of 31 bits."""
    mask = (1 << 31) - 1
    for g in range(rows.shape[0]):
        square = rows[g] * rows[g]
        low = square & mask
        high = square >> 31
        sums[0] += square
        lower = low * low
        middle = 2 * low * high
        upper = high * high
        sums[1] += lower & mask
        sums[2] += (lower >> 31) + (middle & mask)
        sums[3] += (middle >> 31) + (upper & mask)
        sums[4] += upper >> 31


@kernel
def add_to_first_row(numbers, factors, lowest, room, room_bits, digits):  # type: ignore[no-untyped-def]
    """Add the terms of safe numbers; all loops over groups vectorise."""
    for lo in range(0, numbers.shape[1], BLOCK):
        count = min(BLOCK, numbers.shape[1] - lo)
        first = numbers[0, lo : lo + count]
        value = room[0, :count]
        error = room[1, :count]
        for term in range(factors.shape[0]):
            x = numbers[factors[term, 0], lo : lo + count]
            y = numbers[factors[term, 1], lo : lo + count]
            z = numbers[factors[term, 2], lo : lo + count]
            factor_count = 0
            for k in range(4):
                factor_count += factors[term, k] >= 0
            if factor_count == 1:
                for g in range(count):
                    value[g] = x[g] if first[g] == first[g] else 0.0
            elif factor_count == 2:
                # Halves of 26 bits: their products are exact, so is the error of x y.
                for g in range(count):
                    a = x[g] if first[g] == first[g] else 0.0
                    b = y[g] if first[g] == first[g] else 0.0
                    product = a * b
                    upper_a = a * 134217729.0
                    upper_a = upper_a - (upper_a - a)
                    upper_b = b * 134217729.0
                    upper_b = upper_b - (upper_b - b)
                    lower_a = a - upper_a
                    lower_b = b - upper_b
                    rest = product - upper_a * upper_b - lower_a * upper_b - upper_a * lower_b
                    value[g] = product
                    error[g] = lower_a * lower_b - rest
                _add_values(error, room_bits[1], lowest, room[2], room_bits[2], digits[term, 0])
            elif factor_count == 3:
                for g in range(count):
                    value[g] = (x[g] * y[g]) * z[g] if first[g] == first[g] else 0.0
            else:
                w = numbers[factors[term, 3], lo : lo + count]
                for g in range(count):
                    product = (x[g] * y[g]) * (z[g] * w[g])
                    value[g] = product if first[g] == first[g] else 0.0
            _add_values(value, room_bits[0], lowest, room[2], room_bits[2], digits[term, 0])


@kernel
def _add_values(values, bits, lowest, shifted, shifted_bits, sums):  # type: ignore[no-untyped-def]
    """Add values below `SAFE` to digits, `_STEP` bits of all at a time.

    A double so large that its last bit is worth 2**e rounds what is added to it to multiples of
    2**e. As an integer it has grown by that multiple, and integers add exactly.
    """
    count = values.shape[0]
    last = 1 << 20
    while True:
        size = np.int64(0)
        for g in range(count):
            size = max(size, bits[g] & 0x7FFFFFFFFFFFFFFF)
        if size == 0:
            break
        # All bits are worth 2**-1074 or more, and no less than the lowest digit.
        position = min(int(size >> 52) + 2 * _UNIT - 1022, last) - _STEP
        position = max(position, _UNIT, 32 * lowest)
        last = position
        shift_bits = ((position - _UNIT + 1) << 52) | (1 << 51)
        shifted_bits[0] = shift_bits
        shift = shifted[0]
        for g in range(count):
            shifted[g] = values[g] + shift
            values[g] -= shifted[g] - shift
        total = np.int64(0)
        for g in range(count):
            total += shifted_bits[g] - shift_bits
        position -= 32 * lowest
        digit = position >> 5
        lower = (total & 0xFFFFFFFF) << (position & 31)
        upper = (total >> 32) << (position & 31)
        sums[digit] += lower & 0xFFFFFFFF
        sums[digit + 1] += (lower >> 32) + (upper & 0xFFFFFFFF)
        sums[digit + 2] += upper >> 32
