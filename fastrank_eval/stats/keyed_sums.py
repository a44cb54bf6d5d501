"""Sum rows exactly by group, bin or value."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays, narrow
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel, scratch

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


#: A cell of 64 bits takes this many additions of less than 2**33 before it is carried.
_ADDITIONS = 1 << 29


class _Cells:
    """The limbs of one thread: of each term and key, from the least significant one up."""

    def __init__(self, terms: int) -> None:
        self.limbs = np.zeros((terms, 0, 0), np.int64)
        #: Number of the least significant limb; bit 0 of limb 0 is worth 2**-1074.
        self.lowest = 0
        self.added = 0

    def hold(self, keys: int, lowest: int, highest: int) -> None:
        """Make room for so many keys and for limbs `lowest` to `highest`."""
        terms, held, limbs = self.limbs.shape
        if limbs:
            lowest, highest = min(lowest, self.lowest), max(highest, self.lowest + limbs - 1)
        room = np.zeros((terms, max(keys, held), highest - lowest + 1), np.int64)
        at = self.lowest - lowest
        if limbs:
            room[:, :held, at : at + limbs] = self.limbs
        self.limbs, self.lowest = room, lowest

    def carry(self) -> None:
        """Leave 32 bits in every limb but the highest."""
        for limb in range(self.limbs.shape[2] - 1):
            self.limbs[:, :, limb + 1] += self.limbs[:, :, limb] >> 32
            self.limbs[:, :, limb] &= 0xFFFFFFFF
        self.added = 0


class KeyedSums:
    """Sums of several terms for each key, exact; threads may add at the same time.

    Parameters
    ----------
    terms : int
        How many sums each key has.

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
        self._parts: list[_Cells] = []

    def add(self, term: int, keys: np.ndarray, values: np.ndarray) -> None:
        """Add values, each to the sum of its key.

        Parameters
        ----------
        term : int
            Which sum.
        keys : ndarray of int64, shape (rows,)
            From 0; room is made for all up to the largest.
        values : ndarray of float64, shape (rows,)
            Finite, not negative.
        """
        cells = self._mine()
        keys = frozen(np.ascontiguousarray(keys, np.int64))
        values = frozen(np.ascontiguousarray(values, np.float64))
        bits = values.view(np.int64)
        cells.added += len(keys)
        if cells.added > _ADDITIONS:
            cells.carry()
            cells.added = len(keys)
        done = 0
        while True:
            done = int(_spread(keys, bits, done, cells.lowest, cells.limbs[term]))
            if done == len(keys):
                return
            left = values[done:]
            # Twice the keys, so that those that come one by one do not move all others each time.
            held, top = cells.limbs.shape[1], int(keys[done:].max())
            wanted = held if top < held else max(top + 1, min(2 * held, top + (1 << 20)))
            # A value ends two limbs above its lowest; one more takes what is carried.
            cells.hold(wanted, _limb_of(left[left > 0].min()), _limb_of(left.max()) + 3)

    def count(self, term: int, keys: np.ndarray) -> None:
        """Add 1 for each row to the sum of its key."""
        if len(keys) and keys.max() < len(keys):
            rows = np.bincount(keys)
            self.add(term, np.arange(len(rows)), rows.astype(np.float64))
        else:
            self.add(term, keys, np.ones(len(keys)))

    def _mine(self) -> _Cells:
        mine: _Cells | None = getattr(self._own, "cells", None)
        if mine is None:
            mine = self._own.cells = _Cells(self._terms)
            with self._lock:
                self._parts.append(mine)
        return mine

    def merge(self, other: KeyedSums) -> None:
        """Add other sums of the same terms and keys."""
        with self._lock:
            self._parts += other._parts

    def totals(self) -> np.ndarray:
        """All sums, in proportion: times one power of two, which lets none overflow.

        Returns
        -------
        ndarray of float64, shape (terms, keys)
            Each rounded once; keys up to the last with a sum above 0.
        """
        whole = self._whole().limbs
        limbs = whole.shape[2]
        total = np.zeros(whole.shape[:2])
        there = whole.any(axis=2)
        digits = whole[there]
        if not len(digits):
            return total
        top = limbs - 1 - np.argmax(digits[:, ::-1] != 0, axis=1)
        # The highest digits of each sum, below which others only matter as not being 0.
        padded = np.concatenate([np.zeros((len(digits), 2), np.int64), digits], axis=1)
        rows = np.arange(len(digits))
        first, second, third = (padded[rows, top + 2 - k].astype(np.uint64) for k in range(3))
        lower = np.concatenate([np.zeros((len(digits), 3), np.int64), digits], axis=1)
        below = np.cumsum(lower != 0, axis=1)[rows, top] > 0
        shift = (32 - np.frexp(first.astype(np.float64))[1]).astype(np.uint64)
        upper = ((first << np.uint64(32)) | second) << shift
        upper |= (third << shift) >> np.uint64(32)
        rest = ((third << shift) & np.uint64(0xFFFFFFFF)) != 0
        # 64 bits. The last says whether any bit is left, so a double of them is rounded once.
        upper |= (rest | below).astype(np.uint64)
        exponent = 32 * (top + 1 - limbs) - shift.astype(np.int64) - 64
        total[there] = np.ldexp(upper.astype(np.float64), exponent)
        return total

    def _whole(self) -> _Cells:
        """What all threads have added: 32 bits in every limb; keys and limbs that matter."""
        held = [part for part in self._parts if part.limbs.size]
        whole = _Cells(self._terms)
        for part in held:
            part.carry()
            # One more limb takes what is carried.
            whole.hold(part.limbs.shape[1], part.lowest, part.lowest + part.limbs.shape[2])
        for part in held:
            at = part.lowest - whole.lowest
            whole.limbs[:, : part.limbs.shape[1], at : at + part.limbs.shape[2]] += part.limbs
        whole.carry()
        keys, limbs = (np.flatnonzero(whole.limbs.any(axis=axes)) for axes in ((0, 2), (0, 1)))
        if not len(keys):
            return _Cells(self._terms)
        whole.limbs = whole.limbs[:, : keys[-1] + 1, limbs[0] : limbs[-1] + 1]
        whole.lowest += int(limbs[0])
        return whole

    def saved(self) -> Arrays:
        """The sums of the keys that have any.

        Returns
        -------
        dict of ndarray
            ``keys``, ascending; ``limbs`` (uint32, shape (terms, keys, limbs)): digits to base
            2**32, least significant first; ``lowest``: the power of 2**32 times 2**-1074 that the
            first is worth.
        """
        whole = self._whole()
        keys = np.flatnonzero(whole.limbs.any(axis=(0, 2)))
        limbs = whole.limbs[:, keys].astype(np.uint32)
        return {"keys": narrow(keys), "limbs": limbs, "lowest": np.array(whole.lowest, np.int64)}

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        keys, limbs = parts["keys"].astype(np.int64), parts["limbs"]
        sums = cls(len(limbs))
        if len(keys):
            cells = _Cells(sums._terms)
            lowest = int(parts["lowest"])
            cells.hold(int(keys.max()) + 1, lowest, lowest + limbs.shape[2])
            cells.limbs[:, keys, : limbs.shape[2]] = limbs
            sums._parts.append(cells)
        return sums

    def renumbered(self, numbers: np.ndarray) -> Self:
        """The same sums under other keys.

        Parameters
        ----------
        numbers : ndarray of int64
            The new number of each key, all different.
        """
        parts = self.saved()
        return self.loaded({**parts, "keys": numbers[parts["keys"]]})


def _limb_of(value: float) -> int:
    """Number of the limb in which the lowest bit of a double stands."""
    bits = int(np.float64(value).view(np.int64))
    return (max(bits >> 52 & 0x7FF, 1) - 1) >> 5


@kernel
def _spread(keys, bits, done, lowest, limbs):  # type: ignore[no-untyped-def]
    """Add rows from `done` on; returns the first for which there is no room, or their number."""
    i = done
    while i < keys.shape[0]:
        b = bits[i] & 0x7FFFFFFFFFFFFFFF
        if b != 0:
            mantissa = b & 0xFFFFFFFFFFFFF
            place = b >> 52
            if place > 0:
                mantissa |= 1 << 52
                place -= 1
            at = (place >> 5) - lowest
            key = keys[i]
            if key >= limbs.shape[0] or at < 0 or at + 3 >= limbs.shape[1]:
                return i
            shift = place & 31
            # 53 bits moved up by 0 to 31: in three limbs, without passing 63 bits.
            upper = (mantissa >> 32) << shift
            lower = (mantissa & 0xFFFFFFFF) << shift
            limbs[key, at] += lower & 0xFFFFFFFF
            limbs[key, at + 1] += (lower >> 32) + (upper & 0xFFFFFFFF)
            limbs[key, at + 2] += upper >> 32
        i += 1
    return i
