"""Add rows exactly by group, bin or value."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays, narrow
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel, scratch

#: Bit 0 of limb 0 is worth 2**-1074. The largest double ends in limb 65, sums in limb 67. Two more
#: limbs are always 0.
_LIMBS = 70


class GroupSums:
    """Sums of a term over the groups of a chunk, whose rows arrive in blocks.

    Parameters
    ----------
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    out : ndarray of float64, shape (groups,)
        Output: the sums, correctly rounded; inf above the largest double.

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
        # The number of rows added, and the group of the last one.
        self._progress = np.zeros(2, np.int64)
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
            Numbers that `exact` leaves out: the rows of groups whose exact sum needs more than two
            doubles. Scratch memory of the calling thread.
        """
        values = frozen(np.ascontiguousarray(values, np.float64))
        remainders = scratch("remainders", 3 * len(values))
        count = _add_rows(
            values,
            values.view(np.int64),
            self._starts,
            self._pairs,
            self._bits[0],
            self._limbs,
            self._progress,
            self._out,
            self._bits[1],
            remainders,
        )
        return remainders[:count].view(np.float64)

    def exact(self) -> np.ndarray:
        """Return numbers with the exact sum of all rows that `add` did not return.

        Returns
        -------
        ndarray of float64, shape (2 * groups,)
        """
        return self._pairs.reshape(-1)


def group_sums(values: np.ndarray, starts: np.ndarray, out: np.ndarray) -> None:
    """Sum rows over each group, rounded once, independent of their order.

    Parameters
    ----------
    values : ndarray of float64, shape (rows,)
        Finite.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    out : ndarray of float64, shape (groups,)
        Output: the sums; inf above the largest double, 0 without rows.

    References
    ----------
    Knuth (1969), The Art of Computer Programming 2, 4.2.2: the error of a sum is a double.
    """
    GroupSums(starts, out).add(values)


@kernel
def _add_rows(  # type: ignore[no-untyped-def]
    values, bits, starts, pairs, pair_bits, limbs, progress, sums, sum_bits, remainders
):
    """Add rows to the sums of their groups; return the number of remainders.

    Parameters
    ----------
    bits, pair_bits, sum_bits : ndarray of int64
        The same memory as `values`, `pairs` and `sums`.
    pairs : ndarray of float64, shape (2, groups)
        The sum of each group so far; the second is NaN while the sum is in the limbs.
    """
    exact_rows = _exact_rows(bits)
    first = progress[0]
    end = first + values.shape[0]
    group = progress[1]
    count = 0
    i = first
    while i < end:
        while starts[group + 1] <= i:
            group += 1
        last = min(starts[group + 1], end)
        total = pairs[0, group]
        rest = pairs[1, group]
        if rest == rest:
            rounding = 0.0
            if last - i <= exact_rows and i == starts[group]:
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
                    rounding += abs((rest - (next_rest - of_error)) + (error - of_error))
                    rest = next_rest
            # Above the largest double it is NaN.
            if rounding == 0.0:
                pairs[0, group] = total
                pairs[1, group] = rest
            else:
                for part in range(2):
                    remainders[count] = pair_bits[part, group]
                    _add_to_limbs(pair_bits[part, group], limbs)
                    count += 1
                pairs[0, group] = 0.0
                pairs[1, group] = np.nan
        if pairs[1, group] != pairs[1, group]:
            for k in range(i - first, last - first):
                remainders[count] = bits[k]
                _add_to_limbs(bits[k], limbs)
                count += 1
            if last == starts[group + 1]:
                sum_bits[group] = _round_limbs(limbs)
                pairs[1, group] = 0.0
        else:
            sums[group] = total + rest
        i = last
    progress[0] = end
    progress[1] = group
    return count


@kernel
def _exact_rows(bits):  # type: ignore[no-untyped-def]
    """Count how many of these numbers two doubles add exactly, in any case.

    Numbers from 2^a to 2^b, and the errors of their sums, are multiples of 2^(a - 52). The errors
    of n sums are together less than n^2 2^(b - 53). This is exact if it is below 2^(a + 1).
    """
    most = np.int64(0)
    # The least of size - 1, so that 0 becomes the largest.
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
def _add_to_limbs(bits, limbs):  # type: ignore[no-untyped-def]
    mantissa = bits & 0xFFFFFFFFFFFFF
    position = (bits >> 52) & 0x7FF
    if position > 0:
        mantissa |= 1 << 52
        position -= 1
    limb = position >> 5
    shift = position & 31
    # 53 bits shifted by 0 to 31 fit three limbs of at most 63 bits.
    upper = (mantissa >> 32) << shift
    lower = (mantissa & 0xFFFFFFFF) << shift
    middle = (lower >> 32) + (upper & 0xFFFFFFFF)
    if bits < 0:
        limbs[limb] -= lower & 0xFFFFFFFF
        limbs[limb + 1] -= middle
        limbs[limb + 2] -= upper >> 32
    else:
        limbs[limb] += lower & 0xFFFFFFFF
        limbs[limb + 1] += middle
        limbs[limb + 2] += upper >> 32


@kernel
def _round_limbs(limbs):  # type: ignore[no-untyped-def]
    """Round a sum to the bits of a double, ties to even; clear the limbs."""
    carry = 0
    for limb in range(limbs.shape[0]):
        total = limbs[limb] + carry
        limbs[limb] = total & 0xFFFFFFFF
        carry = total >> 32
    sign = 0
    if carry < 0:
        sign = -0x8000000000000000
        carry = 1
        for limb in range(limbs.shape[0]):
            total = (0xFFFFFFFF - limbs[limb]) + carry
            limbs[limb] = total & 0xFFFFFFFF
            carry = total >> 32
    top = limbs.shape[0] - 1
    while top >= 0 and limbs[top] == 0:
        top -= 1
    if top < 0:
        return sign
    length = 32 * top
    while limbs[top] >> (length & 31) > 1:
        length += 1
    # The lowest of the 53 bits of the result; a shorter sum keeps all its bits.
    lowest = max(length - 52, 0)
    limb = lowest >> 5
    shift = lowest & 31
    mantissa = (limbs[limb] >> shift) + (limbs[limb + 1] << (32 - shift))
    if shift > 0:
        mantissa += limbs[limb + 2] << (64 - shift)
    if lowest > 0:
        half = lowest - 1
        below = limbs[half >> 5] & ((1 << (half & 31)) - 1)
        for lower in range(half >> 5):
            below |= limbs[lower]
        if (limbs[half >> 5] >> (half & 31)) & 1 and (below != 0 or mantissa & 1):
            mantissa += 1
    for limb in range(top + 1):
        limbs[limb] = 0
    if lowest > 0x7FD:
        return sign + (0x7FF << 52)
    # The leading bit, and a carry above it, add to the exponent.
    return sign + (lowest << 52) + mantissa


#: Additions of less than 2**33 that a cell of 64 bits takes before a carry.
_ADDITIONS = 1 << 29


class _Cells:
    """The limbs of one thread, by term and key, least significant first."""

    def __init__(self, terms: int) -> None:
        self.limbs = np.zeros((terms, 0, 0), np.int64)
        #: Index of the least significant limb. Bit 0 of limb 0 is worth 2**-1074.
        self.lowest = 0
        self.added = 0

    def ensure(self, keys: int, lowest: int, highest: int) -> None:
        """Allocate this many keys and the limbs `lowest` to `highest`."""
        terms, current, limbs = self.limbs.shape
        if limbs:
            lowest, highest = min(lowest, self.lowest), max(highest, self.lowest + limbs - 1)
        larger = np.zeros((terms, max(keys, current), highest - lowest + 1), np.int64)
        first = self.lowest - lowest
        if limbs:
            larger[:, :current, first : first + limbs] = self.limbs
        self.limbs, self.lowest = larger, lowest

    def carry(self) -> None:
        """Carry until every limb but the highest has 32 bits."""
        for limb in range(self.limbs.shape[2] - 1):
            self.limbs[:, :, limb + 1] += self.limbs[:, :, limb] >> 32
            self.limbs[:, :, limb] &= 0xFFFFFFFF
        self.added = 0


class KeyedSums:
    """Exact sums of several terms for each key.

    Threads may add at the same time.

    Parameters
    ----------
    terms : int
        Number of sums of each key.

    Examples
    --------
    >>> sums = KeyedSums(1)
    >>> sums.add(0, np.array([0, 2, 2]), np.array([0.5, 3.0, 2.0**-60]))
    >>> totals = sums.totals()[0]
    >>> (totals / totals[0]).tolist()
    [1.0, 0.0, 6.0]
    """

    def __init__(self, terms: int) -> None:
        self._terms = terms
        self._lock = threading.Lock()
        self._own = threading.local()
        self._by_thread: list[_Cells] = []

    def add(self, term: int, keys: np.ndarray, values: np.ndarray) -> None:
        """Add values, each to the sum of its key.

        Parameters
        ----------
        term : int
            Index of the sum.
        keys : ndarray of int64, shape (rows,)
            From 0. All keys up to the largest use memory.
        values : ndarray of float64, shape (rows,)
            Finite, not negative.
        """
        cells = self._own_cells()
        keys = frozen(np.ascontiguousarray(keys, np.int64))
        values = frozen(np.ascontiguousarray(values, np.float64))
        bits = values.view(np.int64)
        cells.added += len(keys)
        if cells.added > _ADDITIONS:
            cells.carry()
            cells.added = len(keys)
        done = 0
        while True:
            done = int(_add_values(keys, bits, done, cells.lowest, cells.limbs[term]))
            if done == len(keys):
                return
            rest = values[done:]
            # Twice the keys: single new keys do not copy all others each time.
            current, top = cells.limbs.shape[1], int(keys[done:].max())
            keys_needed = (
                current if top < current else max(top + 1, min(2 * current, top + (1 << 20)))
            )
            # A value ends two limbs above its lowest. One more limb is for carries.
            cells.ensure(keys_needed, _limb_of(rest[rest > 0].min()), _limb_of(rest.max()) + 3)

    def count(self, term: int, keys: np.ndarray) -> None:
        """Add 1 for each row to the sum of its key."""
        if len(keys) and keys.max() < len(keys):
            rows = np.bincount(keys)
            self.add(term, np.arange(len(rows)), rows.astype(np.float64))
        else:
            self.add(term, keys, np.ones(len(keys)))

    def _own_cells(self) -> _Cells:
        own: _Cells | None = getattr(self._own, "cells", None)
        if own is None:
            own = self._own.cells = _Cells(self._terms)
            with self._lock:
                self._by_thread.append(own)
        return own

    def merge(self, other: KeyedSums) -> None:
        """Add other sums of the same terms and keys."""
        with self._lock:
            self._by_thread += other._by_thread

    def totals(self) -> np.ndarray:
        """Compute all sums, times one power of two that prevents overflow.

        Returns
        -------
        ndarray of float64, shape (terms, keys)
            Each rounded once; keys up to the last with a sum above 0.
        """
        all_limbs = self._total().limbs
        limbs = all_limbs.shape[2]
        total = np.zeros(all_limbs.shape[:2])
        is_nonzero = all_limbs.any(axis=2)
        digits = all_limbs[is_nonzero]
        if not len(digits):
            return total
        top = limbs - 1 - np.argmax(digits[:, ::-1] != 0, axis=1)
        # The three highest digits of each sum. Of lower digits only matters whether one is not 0.
        padded = np.concatenate([np.zeros((len(digits), 2), np.int64), digits], axis=1)
        rows = np.arange(len(digits))
        first, second, third = (padded[rows, top + 2 - k].astype(np.uint64) for k in range(3))
        lower = np.concatenate([np.zeros((len(digits), 3), np.int64), digits], axis=1)
        below = np.cumsum(lower != 0, axis=1)[rows, top] > 0
        shift = (32 - np.frexp(first.astype(np.float64))[1]).astype(np.uint64)
        upper = ((first << np.uint64(32)) | second) << shift
        upper |= (third << shift) >> np.uint64(32)
        rest = ((third << shift) & np.uint64(0xFFFFFFFF)) != 0
        # 64 bits. The last tells whether any lower bit is set, so a double is rounded once.
        upper |= (rest | below).astype(np.uint64)
        exponent = 32 * (top + 1 - limbs) - shift.astype(np.int64) - 64
        total[is_nonzero] = np.ldexp(upper.astype(np.float64), exponent)
        return total

    def _total(self) -> _Cells:
        """Add the cells of all threads and carry; cut unused keys and limbs."""
        filled = [cells for cells in self._by_thread if cells.limbs.size]
        total = _Cells(self._terms)
        for cells in filled:
            cells.carry()
            # One more limb is for carries.
            total.ensure(cells.limbs.shape[1], cells.lowest, cells.lowest + cells.limbs.shape[2])
        for cells in filled:
            first = cells.lowest - total.lowest
            total.limbs[:, : cells.limbs.shape[1], first : first + cells.limbs.shape[2]] += (
                cells.limbs
            )
        total.carry()
        keys, limbs = (np.flatnonzero(total.limbs.any(axis=axes)) for axes in ((0, 2), (0, 1)))
        if not len(keys):
            return _Cells(self._terms)
        total.limbs = total.limbs[:, : keys[-1] + 1, limbs[0] : limbs[-1] + 1]
        total.lowest += int(limbs[0])
        return total

    def to_arrays(self) -> Arrays:
        """Write the sums of the keys that have any.

        Returns
        -------
        dict of ndarray
            ``keys``, ascending; ``limbs`` (uint32, shape (terms, keys, limbs)): digits to base
            2**32, least significant first; ``lowest``: the power of 2**32 times 2**-1074 that the
            first is worth.
        """
        total = self._total()
        keys = np.flatnonzero(total.limbs.any(axis=(0, 2)))
        limbs = total.limbs[:, keys].astype(np.uint32)
        return {"keys": narrow(keys), "limbs": limbs, "lowest": np.array(total.lowest, np.int64)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        keys, limbs = arrays["keys"].astype(np.int64), arrays["limbs"]
        sums = cls(len(limbs))
        if len(keys):
            cells = _Cells(sums._terms)
            lowest = int(arrays["lowest"])
            cells.ensure(int(keys.max()) + 1, lowest, lowest + limbs.shape[2])
            cells.limbs[:, keys, : limbs.shape[2]] = limbs
            sums._by_thread.append(cells)
        return sums

    def with_keys(self, numbers: np.ndarray) -> Self:
        """Return the same sums under other keys.

        Parameters
        ----------
        numbers : ndarray of int64
            The new key of each key, all different.
        """
        arrays = self.to_arrays()
        return self.from_arrays({**arrays, "keys": numbers[arrays["keys"]]})


def _limb_of(value: float) -> int:
    """Return the index of the limb of a double's lowest bit."""
    bits = int(np.float64(value).view(np.int64))
    return (max(bits >> 52 & 0x7FF, 1) - 1) >> 5


@kernel
def _add_values(keys, bits, done, lowest, limbs):  # type: ignore[no-untyped-def]
    """Add rows from `done` on; return the first row that does not fit.

    Return the number of rows if all fit.
    """
    i = done
    while i < keys.shape[0]:
        b = bits[i] & 0x7FFFFFFFFFFFFFFF
        if b != 0:
            mantissa = b & 0xFFFFFFFFFFFFF
            position = b >> 52
            if position > 0:
                mantissa |= 1 << 52
                position -= 1
            limb = (position >> 5) - lowest
            key = keys[i]
            if key >= limbs.shape[0] or limb < 0 or limb + 3 >= limbs.shape[1]:
                return i
            shift = position & 31
            # 53 bits shifted by 0 to 31 fit three limbs of at most 63 bits.
            upper = (mantissa >> 32) << shift
            lower = (mantissa & 0xFFFFFFFF) << shift
            limbs[key, limb] += lower & 0xFFFFFFFF
            limbs[key, limb + 1] += (lower >> 32) + (upper & 0xFFFFFFFF)
            limbs[key, limb + 2] += upper >> 32
        i += 1
    return i
