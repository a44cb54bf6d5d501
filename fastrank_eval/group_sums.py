"""Sums over each group of a chunk, correctly rounded, and so the same in any order of its rows.

A sum is carried as two doubles: the rounded sum, and what rounding took away. Where the second is
exact too, as it is for numbers within some 2^100 of each other, so is their sum. Rows of a group
where it is not are added to limbs of 32 bits, which hold every double.
"""

from __future__ import annotations

import numpy as np

from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel
from fastrank_eval.scratch import scratch

#: Bit 0 of the lowest limb is worth 2**-1074; the largest double ends in limb 65, sums in 67. Two
#: more are always 0.
_LIMBS = 70


class GroupSums:
    """The sums of a term over the groups of a chunk, whose rows come in blocks.

    Parameters
    ----------
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    out : ndarray of float64, shape (groups,)
        For the sums, correctly rounded, inf past the largest double.

    Examples
    --------
    >>> out = np.empty(2)
    >>> sums = GroupSums(np.array([0, 3, 4]), out)
    >>> for block in ([1e100, 1.0], [-1e100, 0.25]):
    ...     _ = sums.add(np.array(block))
    >>> out
    array([1.  , 0.25])
    """

    def __init__(self, starts: np.ndarray, out: np.ndarray) -> None:
        out[:] = 0.0
        self._starts = frozen(np.ascontiguousarray(starts, np.int64).view())
        self._out = out
        self._pairs = np.zeros((2, len(out)))
        self._limbs = np.zeros(_LIMBS, np.int64)
        # Rows added, and the group of the last of them.
        self._reached = np.zeros(2, np.int64)
        self._bits = self._pairs.view(np.int64), out.view(np.int64)

    def add(self, values: np.ndarray) -> np.ndarray:
        """Add the next rows.

        Parameters
        ----------
        values : ndarray of float64, shape (rows,)
            Finite.

        Returns
        -------
        ndarray of float64
            What `exact` does not hold: rows of groups whose sum two doubles cannot. Scratch of the
            calling thread.
        """
        values = frozen(np.ascontiguousarray(values, np.float64))
        apart = scratch("rows apart", 3 * len(values))
        held = _add_rows(
            values,
            values.view(np.int64),
            self._starts,
            self._pairs,
            self._bits[0],
            self._limbs,
            self._reached,
            self._out,
            self._bits[1],
            apart,
        )
        return apart[:held].view(np.float64)

    def exact(self) -> np.ndarray:
        """Numbers whose sum is that of all rows but those apart. float64, shape (2 groups,)."""
        return self._pairs.reshape(-1)


def group_sums(values: np.ndarray, starts: np.ndarray, out: np.ndarray) -> None:
    """Sums over each group, each rounded once: no order of the rows inside a group shows.

    Parameters
    ----------
    values : ndarray of float64, shape (rows,)
        Finite.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    out : ndarray of float64, shape (groups,)
        The sums; inf past the largest double, 0 of no rows.

    References
    ----------
    Knuth (1969), The Art of Computer Programming 2, 4.2.2: the error of a sum is a double.
    """
    GroupSums(starts, out).add(values)


@kernel
def _add_rows(  # type: ignore[no-untyped-def]
    values, bits, starts, pairs, pair_bits, limbs, reached, sums, sum_bits, apart
):
    """Add rows to the sums of their groups; returns how many numbers are apart, as bits.

    Parameters
    ----------
    bits, pair_bits, sum_bits : ndarray of int64
        The same memory as `values`, `pairs` and `sums`.
    pairs : ndarray of float64, shape (2, groups)
        Each group's sum so far; the second is NaN while the limbs hold it.
    """
    few = _rows_that_fit(bits)
    first = reached[0]
    end = first + values.shape[0]
    group = reached[1]
    held = 0
    i = first
    while i < end:
        while starts[group + 1] <= i:
            group += 1
        last = min(starts[group + 1], end)
        total = pairs[0, group]
        rest = pairs[1, group]
        if rest == rest:
            lost = 0.0
            if last - i <= few and i == starts[group]:
                for k in range(i - first, last - first):
                    x = values[k]
                    next_total = total + x
                    of_x = next_total - total
                    rest += (total - (next_total - of_x)) + (x - of_x)
                    total = next_total
            else:
                for k in range(i - first, last - first):
                    x = values[k]
                    next_total = total + x
                    of_x = next_total - total
                    error = (total - (next_total - of_x)) + (x - of_x)
                    total = next_total
                    next_rest = rest + error
                    of_error = next_rest - rest
                    lost += abs((rest - (next_rest - of_error)) + (error - of_error))
                    rest = next_rest
            # Past the largest double it is NaN.
            if lost == 0.0:
                pairs[0, group] = total
                pairs[1, group] = rest
            else:
                for part in range(2):
                    apart[held] = pair_bits[part, group]
                    _into_limbs(pair_bits[part, group], limbs)
                    held += 1
                pairs[0, group] = 0.0
                pairs[1, group] = np.nan
        if pairs[1, group] != pairs[1, group]:
            for k in range(i - first, last - first):
                apart[held] = bits[k]
                _into_limbs(bits[k], limbs)
                held += 1
            if last == starts[group + 1]:
                sum_bits[group] = _rounded(limbs)
                pairs[1, group] = 0.0
        else:
            sums[group] = total + rest
        i = last
    reached[0] = end
    reached[1] = group
    return held


@kernel
def _rows_that_fit(bits):  # type: ignore[no-untyped-def]
    """How many of these numbers two doubles are sure to add up exactly, whichever they are.

    Numbers from 2^a to 2^b, and the errors of their sums, are whole multiples of 2^(a - 52). The
    errors of n sums are less than n^2 2^(b - 53) together: exact, if that is below 2^(a + 1).
    """
    most = np.int64(0)
    # Of 0, less 1, so that all others are smaller.
    least = np.int64(0x7FFFFFFFFFFFFFFF)
    for k in range(bits.shape[0]):
        size = bits[k] & 0x7FFFFFFFFFFFFFFF
        most = max(most, size)
        least = min(least, (size - 1) & 0x7FFFFFFFFFFFFFFF)
    if most == 0:
        return bits.shape[0]
    highest = most >> 52
    # Subnormal numbers have the exponent of the least normal ones.
    lowest = (least + 1) >> 52
    spread = highest - lowest + (1 if lowest > 0 else 0)
    if spread > 52 or highest > 0x7FE - 32:
        return 0
    return 1 << ((52 - spread) >> 1)


@kernel
def _into_limbs(bits, limbs):  # type: ignore[no-untyped-def]
    mantissa = bits & 0xFFFFFFFFFFFFF
    place = (bits >> 52) & 0x7FF
    if place > 0:
        mantissa |= 1 << 52
        place -= 1
    at = place >> 5
    shift = place & 31
    # 53 bits moved up by 0 to 31: in three limbs, without passing 63 bits.
    upper = (mantissa >> 32) << shift
    lower = (mantissa & 0xFFFFFFFF) << shift
    middle = (lower >> 32) + (upper & 0xFFFFFFFF)
    if bits < 0:
        limbs[at] -= lower & 0xFFFFFFFF
        limbs[at + 1] -= middle
        limbs[at + 2] -= upper >> 32
    else:
        limbs[at] += lower & 0xFFFFFFFF
        limbs[at + 1] += middle
        limbs[at + 2] += upper >> 32


@kernel
def _rounded(limbs):  # type: ignore[no-untyped-def]
    """The bits of the double nearest to a sum, ties to even; clears the limbs."""
    carry = 0
    for at in range(limbs.shape[0]):
        whole = limbs[at] + carry
        limbs[at] = whole & 0xFFFFFFFF
        carry = whole >> 32
    sign = 0
    if carry < 0:
        sign = -0x8000000000000000
        carry = 1
        for at in range(limbs.shape[0]):
            whole = (0xFFFFFFFF - limbs[at]) + carry
            limbs[at] = whole & 0xFFFFFFFF
            carry = whole >> 32
    top = limbs.shape[0] - 1
    while top >= 0 and limbs[top] == 0:
        top -= 1
    if top < 0:
        return sign
    length = 32 * top
    while limbs[top] >> (length & 31) > 1:
        length += 1
    # The lowest of the 53 bits that are kept; of a shorter sum all are.
    lowest = max(length - 52, 0)
    at = lowest >> 5
    shift = lowest & 31
    mantissa = (limbs[at] >> shift) + (limbs[at + 1] << (32 - shift))
    if shift > 0:
        mantissa += limbs[at + 2] << (64 - shift)
    if lowest > 0:
        half = lowest - 1
        below = limbs[half >> 5] & ((1 << (half & 31)) - 1)
        for lower in range(half >> 5):
            below |= limbs[lower]
        if (limbs[half >> 5] >> (half & 31)) & 1 and (below != 0 or mantissa & 1):
            mantissa += 1
    for at in range(top + 1):
        limbs[at] = 0
    if lowest > 0x7FD:
        return sign + (0x7FF << 52)
    # The leading bit, and one carried beyond it, add to the exponent.
    return sign + (lowest << 52) + mantissa
