"""Exact sums of numbers and of products of two numbers, one row of sums a slice.

A double is a whole number of 53 bits times a power of two; a product of two has 106 bits. All of
them are added to digits of 32 bits, so no bit is lost and no order of adding shows. Products of
more are rounded to doubles first. Digits exist for the powers of two that came in, not for all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays, delta_decode, delta_encode
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel, scratch

#: A sum of numbers is a whole multiple of 2**-UNIT, that of products of two one of 2**-(2 * UNIT).
UNIT = 1074
#: Without slices every group adds to the first row of sums.
NO_SLICES = frozen(np.empty(0, np.int64))
#: One addition changes a digit by less than 2**34, so that it takes so many before it is carried.
_ADDITIONS = 1 << 28
#: The exponent of the largest doubles; infinities and NaN have one more.
_LARGEST = 2045
#: More digits than the product of the largest doubles has.
_DIGITS = 256


def take_rows(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Take rows of a table in another order; zeros for -1 and for rows that it does not have."""
    taken = np.zeros((len(rows), *table.shape[1:]), table.dtype)
    there = (rows >= 0) & (rows < len(table))
    taken[there] = table[rows[there]]
    return taken


class ExactSums:
    """Exact sums of terms, each a number or the product of two, one row of sums a slice.

    Parameters
    ----------
    terms : sequence of tuple of int
        Each term by the places of its one to four factors among the numbers that `add` takes.

    Attributes
    ----------
    digits : ndarray of int64, shape (terms, slices, digits)
        To base 2**32, the least significant first.
    lowest : int
        The first digit is worth 2**(32 * lowest - 2 * UNIT).

    Examples
    --------
    The sum of x, and the sum of x times y.

    >>> sums = ExactSums([(0,), (0, 1)])
    >>> for x, y in (([1e300, 1.0], [2.0, 3.0]), ([-1e300, 2.0**-60], [2.0, 1.0])):
    ...     _ = sums.add(np.array([x, y]))
    >>> [float(sums.fraction(term)) for term in range(2)]
    [1.0, 3.0]
    """

    def __init__(self, terms: Sequence[tuple[int, ...]]) -> None:
        self.terms = tuple(terms)
        self._factors = _factors_of(self.terms)
        self.lowest = 0
        self.digits = np.zeros((len(self.terms), 1, 0), np.int64)
        # Additions to the digits since they were carried.
        self._added = 0

    def add(self, numbers: np.ndarray, slices: np.ndarray = NO_SLICES) -> bool:
        """Add every term of every group; those whose first number is NaN are passed over.

        Parameters
        ----------
        numbers : ndarray of float64, shape (numbers, groups)
        slices : ndarray of int64, shape (groups,), or (0,)
            The row of sums that each group adds to; without entries the first.

        Returns
        -------
        bool
            Whether all numbers were finite; otherwise nothing was added.
        """
        numbers = frozen(np.ascontiguousarray(numbers, np.float64).view())
        bits = numbers.view(np.int64)
        spans, room = np.empty((len(numbers), 2), np.int64), np.empty(4, np.int64)
        _span(bits, self._factors, spans, room)
        lowest, highest, above, partial = room.tolist()
        if above > _LARGEST:
            return False
        if len(slices):
            self.hold_slices(int(slices.max()) + 1)
        if highest < 0:
            return True
        self._hold_digits(lowest, highest)
        groups = numbers.shape[1]
        if self._added + groups > _ADDITIONS:
            self.carry()
        self._added += groups
        rounded = scratch("rounded products", groups, np.float64)
        _add_terms(
            numbers, bits, bool(partial), self._factors, slices, self.lowest,
            rounded, rounded.view(np.int64), self.digits,
        )  # fmt: skip
        return True

    def add_integers(self, term: int, numbers: np.ndarray) -> None:
        """Add a whole number to one term of each of the first rows.

        Parameters
        ----------
        term : int
        numbers : ndarray of int64, shape (slices,)
            At least 0.
        """
        here = np.flatnonzero(numbers)
        if not len(here):
            return
        # Doubles of 52 bits and of the rest, each whole, times as many ones as there are factors.
        upper = numbers[here] >> 52 << 52
        whole = np.concatenate([numbers[here] - upper, upper]).astype(np.float64)
        factors = len(self.terms[term])
        values = np.ones((factors, len(whole)))
        values[0] = whole
        alone = ExactSums([tuple(range(factors))])
        alone.add(values, np.concatenate([here, here]))
        sums = ExactSums(self.terms)
        sums.lowest, sums._added = alone.lowest, alone._added
        sums.digits = np.zeros((len(self.terms), *alone.digits.shape[1:]), np.int64)
        sums.digits[term] = alone.digits[0]
        self.merge(sums)

    def hold_slices(self, slices: int) -> None:
        """Make room for so many slices."""
        terms, have, digits = self.digits.shape
        if slices > have:
            grown = np.zeros((terms, max(slices, 2 * have), digits), np.int64)
            grown[:, :have] = self.digits
            self.digits = grown

    def _hold_digits(self, lowest: int, highest: int) -> None:
        """Make room for digits `lowest` to `highest`."""
        terms, slices, have = self.digits.shape
        if have and self.lowest <= lowest and highest < self.lowest + have:
            return
        if have:
            # The last digit has the sign, and room above its 32 bits.
            self.carry()
            lowest, highest = min(lowest, self.lowest), max(highest, self.lowest + have)
        grown = np.zeros((terms, slices, highest - lowest + 1), np.int64)
        if have:
            at = self.lowest - lowest
            grown[:, :, at : at + have] = self.digits
        self.lowest, self.digits = lowest, grown

    def carry(self) -> None:
        """Leave 32 bits in every digit but the last, which has the sign."""
        for at in range(self.digits.shape[2] - 1):
            self.digits[:, :, at + 1] += self.digits[:, :, at] >> 32
            self.digits[:, :, at] &= 0xFFFFFFFF
        self._added = 0

    def merge(self, other: ExactSums) -> None:
        """Add the sums of each slice of another; the order of merging does not matter."""
        slices, digits = other.digits.shape[1:]
        self.hold_slices(slices)
        if not digits:
            return
        if self._added + other._added > _ADDITIONS:
            self.carry()
            other.carry()
        self._hold_digits(other.lowest, other.lowest + digits - 1)
        at = other.lowest - self.lowest
        self.digits[:, :slices, at : at + digits] += other.digits
        self._added += other._added + 1

    def take(self, slices: np.ndarray) -> ExactSums:
        """Take the sums of some slices, in that order; zeros for -1."""
        taken = ExactSums(self.terms)
        taken.lowest, taken._added = self.lowest, self._added
        taken.digits = np.stack([take_rows(sums, slices) for sums in self.digits])
        return taken

    def whole(self, term: int, row: int = 0) -> int:
        """Return a sum as a whole number, in the unit of its term (see `UNIT`)."""
        slices, digits = self.digits.shape[1:]
        if row >= slices or not digits:
            return 0
        if self._added:
            self.carry()
        sums = self.digits[term, row]
        total = int(sums[-1])
        if digits > 1:
            rest = int.from_bytes(sums[:-1].astype("<u4").tobytes(), "little")
            total = (total << (32 * (digits - 1))) + rest
        shift = 32 * self.lowest + self._unit(term) - 2 * UNIT
        # No number has bits below its unit.
        return total << shift if shift >= 0 else total >> -shift

    def fraction(self, term: int, row: int = 0) -> Fraction:
        """Return a sum as a fraction."""
        return Fraction(self.whole(term, row), 1 << self._unit(term))

    def total(self, term: int, row: int = 0) -> float:
        """Return a sum, rounded once; inf past the largest double."""
        return quotient(self.whole(term, row), 1 << self._unit(term))

    def _unit(self, term: int) -> int:
        return 2 * UNIT if len(self.terms[term]) == 2 else UNIT

    def saved(self, name: str, slices: int) -> Arrays:
        """Write the sums as arrays, the same for any order, threads and batches.

        Parameters
        ----------
        name : str
            What the arrays are called.
        slices : int
            How many there are.

        Returns
        -------
        dict of ndarray
            ``name.digits`` (int64): digits of each magnitude that are not 0, times its sign;
            ``name.at``: their places in an array of shape (terms, slices, 256), ascending, as
            `array_codes.delta_encode`.
        """
        self.carry()
        digits = self.digits.copy()
        if digits.shape[2]:
            negative = digits[:, :, -1] < 0
            mirror = ExactSums(self.terms)
            mirror.digits = np.where(negative[:, :, None], -digits, digits)
            mirror.carry()
            digits = np.where(negative[:, :, None], -mirror.digits, mirror.digits)
        term, row, at = np.nonzero(digits)
        places = (term * slices + row) * _DIGITS + at + self.lowest
        return {
            f"{name}.at": delta_encode(places.astype(np.uint64)),
            f"{name}.digits": digits[term, row, at],
        }

    @classmethod
    def loaded(
        cls,
        terms: Sequence[tuple[int, ...]],
        parts: Mapping[str, np.ndarray],
        name: str,
        slices: int,
    ) -> Self:
        """Read the sums that `saved` wrote.

        Parameters
        ----------
        terms : sequence of tuple of int
        parts : mapping
        name : str
        slices : int
            How many there are.
        """
        sums = cls(terms)
        place, at = np.divmod(delta_decode(parts[f"{name}.at"]).astype(np.int64), _DIGITS)
        term, row = np.divmod(place, max(slices, 1))
        lowest = int(at.min()) if len(at) else 0
        room = int(at.max()) + 2 - lowest if len(at) else 0
        sums.lowest, sums._added = lowest, 1
        sums.digits = np.zeros((len(sums.terms), slices, room), np.int64)
        sums.digits[term, row, at - lowest] = parts[f"{name}.digits"]
        return sums


def quotient(above: int, below: int) -> float:
    """Divide whole numbers, rounded once; inf with a sign past the largest double."""
    try:
        return above / below
    except OverflowError:
        return -math.inf if above < 0 else math.inf


def _factors_of(terms: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Write the factors of each term in a row, with -1 behind the last."""
    factors = np.full((len(terms), 4), -1, np.int64)
    for row, places in zip(factors, terms, strict=True):
        row[: len(places)] = places
    return frozen(factors)


@kernel
def _span(bits, factors, spans, room):  # type: ignore[no-untyped-def]
    """Find the least and greatest digit that the terms of these numbers need.

    Then come the greatest exponent of any number, and whether the first number of a group is NaN:
    such a group does not count.
    """
    infinite = np.int64(0x7FF0000000000000)
    room[2] = -1
    room[3] = 0
    for k in range(bits.shape[0]):
        # Of all but 0, less 1, so that 0 is the greatest.
        least = np.int64(0x7FFFFFFFFFFFFFFF)
        most = np.int64(0)
        for g in range(bits.shape[1]):
            size = bits[k, g] & 0x7FFFFFFFFFFFFFFF
            if bits[0, g] & 0x7FFFFFFFFFFFFFFF > infinite:
                size = np.int64(0)
                room[3] = 1
            most = max(most, size)
            least = min(least, (size - 1) & 0x7FFFFFFFFFFFFFFF)
        spans[k, 0] = 2046
        spans[k, 1] = -1
        if most > 0:
            spans[k, 0] = max(((least + 1) >> 52) - 1, 0)
            spans[k, 1] = max((most >> 52) - 1, 0)
            room[2] = max(room[2], spans[k, 1])
    room[0] = _DIGITS
    room[1] = -1
    for term in range(factors.shape[0]):
        below = 0
        above = 0
        more = -1
        there = True
        for place in range(4):
            k = factors[term, place]
            if k >= 0:
                more += 1
                there = there and spans[k, 1] >= 0
                below += spans[k, 0]
                above += spans[k, 1]
        if not there:
            continue
        if more != 1:
            # Mantissas of n numbers have n * 53 bits before they are rounded.
            below = int(min(max(below - more * UNIT, 0), _LARGEST)) + UNIT
            above = int(min(max(above - more * (UNIT - 53), 0), _LARGEST)) + UNIT
        # A product ends four digits above its lowest; one more takes what is carried.
        room[0] = min(room[0], below >> 5)
        room[1] = max(room[1], (above >> 5) + 5)


@kernel
def _add_terms(  # type: ignore[no-untyped-def]
    numbers, bits, partial, factors, slices, lowest, rounded, rounded_bits, digits
):
    for term in range(factors.shape[0]):
        a = factors[term, 0]
        b = factors[term, 1]
        c = factors[term, 2]
        d = factors[term, 3]
        if b < 0:
            _add_numbers(bits[0], partial, bits[a], slices, lowest, digits[term])
        elif c < 0:
            _add_products(bits[0], partial, bits[a], bits[b], slices, lowest, digits[term])
        else:
            for g in range(numbers.shape[1]):
                product = numbers[a, g] * numbers[b, g]
                product *= numbers[c, g] * numbers[d, g] if d >= 0 else numbers[c, g]
                # Past the largest double, that; of zeros and what is past it, 0.
                product = product if product == product else 0.0
                rounded[g] = max(min(product, 1.7976931348623157e308), -1.7976931348623157e308)
            _add_numbers(bits[0], partial, rounded_bits, slices, lowest, digits[term])


@kernel
def _add_numbers(first, partial, bits, slices, lowest, sums):  # type: ignore[no-untyped-def]
    # Places are unsigned: none is negative, and Numba need not look.
    row = np.uint64(0)
    above = UNIT - 32 * lowest
    for g in range(first.shape[0]):
        if partial and first[g] & 0x7FFFFFFFFFFFFFFF > 0x7FF0000000000000:
            continue
        b = bits[g]
        size = b & 0xFFFFFFFFFFFFF
        place = above
        exponent = (b >> 52) & 0x7FF
        if exponent > 0:
            size |= 1 << 52
            place += exponent - 1
        if b < 0:
            size = -size
        if slices.shape[0] > 0:
            row = np.uint64(slices[g])
        # 53 bits moved up by 0 to 31: in three digits. The last has the sign.
        if size == 0:
            place = 0
        shift = place & 31
        at = np.uint64(place >> 5)
        lower = (size & 0xFFFFFFFF) << shift
        upper = (size >> 32) << shift
        sums[row, at] += lower & 0xFFFFFFFF
        sums[row, at + np.uint64(1)] += (lower >> 32) + (upper & 0xFFFFFFFF)
        sums[row, at + np.uint64(2)] += upper >> 32


@kernel
def _add_products(first, partial, x, y, slices, lowest, sums):  # type: ignore[no-untyped-def]
    row = np.uint64(0)
    for g in range(first.shape[0]):
        if partial and first[g] & 0x7FFFFFFFFFFFFFFF > 0x7FF0000000000000:
            continue
        a = x[g]
        b = y[g]
        p = a & 0xFFFFFFFFFFFFF
        q = b & 0xFFFFFFFFFFFFF
        place = -32 * lowest
        exponent = (a >> 52) & 0x7FF
        if exponent > 0:
            p |= 1 << 52
            place += exponent - 1
        exponent = (b >> 52) & 0x7FF
        if exponent > 0:
            q |= 1 << 52
            place += exponent - 1
        if slices.shape[0] > 0:
            row = np.uint64(slices[g])
        # Of 27 and 26 bits each, so that no product passes 63 bits.
        low = (p & 0x7FFFFFF) * (q & 0x7FFFFFF)
        middle = (low >> 27) + (p & 0x7FFFFFF) * (q >> 27) + (p >> 27) * (q & 0x7FFFFFF)
        high = (middle >> 27) + (p >> 27) * (q >> 27)
        low = (low & 0x7FFFFFF) | ((middle & 0x7FFFFFF) << 27)
        if p == 0 or q == 0:
            place = 0
        shift = place & 31
        at = np.uint64(place >> 5)
        sign = -1 if (a ^ b) < 0 else 1
        # 32 bits of the product each, the last fewer, moved up by 0 to 31: in five digits.
        one = (sign * (low & 0xFFFFFFFF)) << shift
        two = (sign * ((low >> 32) | ((high & 0x3FF) << 22))) << shift
        three = (sign * ((high >> 10) & 0xFFFFFFFF)) << shift
        four = (sign * (high >> 42)) << shift
        sums[row, at] += one & 0xFFFFFFFF
        sums[row, at + np.uint64(1)] += (one >> 32) + (two & 0xFFFFFFFF)
        sums[row, at + np.uint64(2)] += (two >> 32) + (three & 0xFFFFFFFF)
        sums[row, at + np.uint64(3)] += (three >> 32) + (four & 0xFFFFFFFF)
        sums[row, at + np.uint64(4)] += four >> 32
