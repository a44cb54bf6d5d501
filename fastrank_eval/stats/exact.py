"""Add numbers and products of two numbers exactly, by slice.

A double is an integer of 53 bits times a power of two. A product of two has 106 bits. All of these
bits are added to digits of 32 bits. So the sum is exact and does not depend on the order. Products
of three or four numbers are rounded to doubles first. Digits exist only for the powers of two that
occur.

Add terms of groups exactly by SIMD, where all are added to one row.

`ExactSums` has digits for any doubles and any slices. Most numbers have a moderate size, and most
sums have no slices: their loops vectorise, at a third of the time.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np

from fastrank_eval._lib.arrow import Arrays, delta_decode, delta_encode, frozen
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch

#: Without slices every group is added to the first row of sums.
NO_SLICES = frozen(np.empty(0, np.int64))
#: The term that is a number itself.
ONE_NUMBER = ((0,),)
#: Sums of numbers are multiples of 2**-UNIT, sums of products of two of 2**-(2 * UNIT).
UNIT = 1074
#: Additions before digits are carried: each changes a digit by less than 2**34. The few sums of a
#: vector call count as one addition: 10**8 calls of one group each stay below 2**63.
_ADDITIONS = 1 << 28
#: The exponent of the largest doubles. Infinities and NaN have one more.
_LARGEST = 2045
#: More digits than the product of two largest doubles has.
_DIGITS = 256
#: Digits of sums of numbers: the index of the first, which is worth 2**-NUMBER_UNIT; their count.
_FIRST = UNIT // 32
NUMBER_UNIT = 2 * UNIT - 32 * _FIRST
NUMBER_DIGITS = 70


class ExactSums:
    """Exact sums of terms (numbers or products), with a row for each slice.

    Parameters
    ----------
    terms : sequence of tuple of int
        For each term, the rows of its one to four factors in the numbers that `add` takes.
    lowest, digits
        As the attributes; by default sums of 0.
    added : int
        Additions to the digits since they were carried.

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

    def __init__(
        self,
        terms: Sequence[tuple[int, ...]],
        lowest: int = 0,
        digits: np.ndarray | None = None,
        added: int = 0,
    ) -> None:
        self.terms = tuple(terms)
        self._factors, self._units = _factors_of(self.terms), _units_of(self.terms)
        self.lowest, self._added = lowest, added
        self.digits = np.zeros((len(self.terms), 1, 0), np.int64) if digits is None else digits
        # The last row that was read, and its sums: formulas read many terms of one row.
        self._row_read: tuple[int, list[int]] = -1, []

    def add(
        self,
        numbers: np.ndarray,
        slices: np.ndarray = NO_SLICES,
        first: int = 0,
        terms: tuple[tuple[int, ...], ...] | None = None,
    ) -> bool:
        """Add terms of every group.

        Parameters
        ----------
        numbers : ndarray of float64, shape (numbers, groups)
        slices : ndarray of int64, shape (groups,), or (0,)
            The row of sums of each group; an empty array means the first row for all.
        first : int
            The first of the terms that are added.
        terms : tuple, optional
            Their factors in `numbers`; by default all terms are added.

        Returns
        -------
        bool
            Whether all numbers were finite; otherwise nothing was added.
        """
        factors = self._factors if terms is None else _factors_of(terms)
        numbers = frozen(np.ascontiguousarray(numbers, np.float64).view())
        slices = frozen(np.ascontiguousarray(slices, np.int64).view())
        bits = numbers.view(np.int64)
        exponents, limits = np.empty((len(numbers), 2), np.int64), np.empty(3, np.int64)
        _digit_range(bits, factors, exponents, limits)
        lowest, highest, largest = limits.tolist()
        if largest > _LARGEST:
            return False
        self.ensure_slices(int(slices.max(initial=0)) + 1)
        if highest < 0:
            return True
        groups = numbers.shape[1]
        self.ensure_digits(lowest, highest)
        self.count_additions(groups)
        digits = self.digits[first : first + len(factors)]
        if exponents[:, 0].min() >= SAFE[0] and largest <= SAFE[1] and not len(slices):
            room = scratch("exact sums", 2 * BLOCK, np.float64).reshape(2, BLOCK)
            _add_safe_terms(numbers, exponents, factors, self.lowest, room, digits)
        else:
            rounded = scratch("rounded products", groups, np.float64)
            _add_terms(
                numbers, bits, 0, groups, factors, slices, self.lowest, rounded,
                rounded.view(np.int64), digits,
            )  # fmt: skip
        return True

    def count_additions(self, numbers: int) -> None:
        """Carry before this many additions if digits might overflow."""
        if self._added + numbers > _ADDITIONS:
            self.carry()
        self._added += numbers

    def number_digits(self, term: int) -> np.ndarray:
        """Return `NUMBER_DIGITS` of a term of the first row, for additions."""
        self.ensure_digits(_FIRST, _FIRST + NUMBER_DIGITS - 1)
        return self.digits[term, 0, _FIRST - self.lowest :][:NUMBER_DIGITS]

    def add_integer(self, term: int, number: int) -> None:
        """Add an integer of at least 0 to one term of the first row."""
        one, shift = divmod(2 * UNIT, 32)
        units = number << shift
        size = -(-units.bit_length() // 32)
        if size:
            self.ensure_digits(one, one + size)
            self.count_additions(1)
            first = one - self.lowest
            digits = np.frombuffer(units.to_bytes(4 * size, "little"), "<u4")
            self.digits[term, 0, first : first + size] += digits

    def ensure_slices(self, slices: int) -> None:
        """Allocate rows for at least this many slices."""
        self.digits = _with_rows(self.digits, slices)

    def ensure_digits(self, lowest: int, highest: int) -> None:
        """Allocate the digits `lowest` to `highest`; none if that is below 0."""
        terms, slices, current = self.digits.shape
        if highest < 0 or (current and self.lowest <= lowest and highest < self.lowest + current):
            return
        if current:
            # The last digit has the sign and may exceed 32 bits.
            self.carry()
            lowest, highest = min(lowest, self.lowest), max(highest, self.lowest + current)
        larger = np.zeros((terms, slices, highest - lowest + 1), np.int64)
        if current:
            first = self.lowest - lowest
            larger[:, :, first : first + current] = self.digits
        self.lowest, self.digits = lowest, larger

    @property
    def uncarried(self) -> bool:
        """Whether numbers were added since digits were carried."""
        return self._added > 0

    def carry(self) -> None:
        """Carry until every digit but the last has 32 bits; the last has the sign."""
        _carry(self.digits)
        self._added, self._row_read = 0, (-1, [])

    def merge(self, other: ExactSums, slices: np.ndarray = NO_SLICES) -> None:
        """Add other sums; the order of merging does not matter.

        Parameters
        ----------
        other : ExactSums
        slices : ndarray of int64, shape (slices,), or (0,)
            The row of sums of each slice of `other`; an empty array means the same rows.
        """
        rows, digits = other.digits.shape[1:]
        self.ensure_slices(int(slices.max()) + 1 if len(slices) else rows)
        if not digits:
            return
        if len(slices) or self._added + other._added > _ADDITIONS:
            self.carry()
            other.carry()
        self.ensure_digits(other.lowest, other.lowest + digits - 1)
        first = other.lowest - self.lowest
        if len(slices):
            _add_slices(frozen(other.digits.view()), slices, first, self.digits)
            self._added += rows
        else:
            self.digits[:, :rows, first : first + digits] += other.digits
            self._added += other._added + 1

    def take(self, slices: np.ndarray) -> ExactSums:
        """Select the sums of some slices, in this order; zeros for -1."""
        return ExactSums(self.terms, self.lowest, take_rows(self.digits, slices), self._added)

    def of_terms(self, terms: Sequence[tuple[int, ...]], which: slice) -> ExactSums:
        """Return some sums, under the names of other terms; they share memory."""
        return ExactSums(terms, self.lowest, self.digits[which], self._added)

    def over_slices(self) -> ExactSums:
        """Add the slices up."""
        self.carry()
        return ExactSums(self.terms, self.lowest, self.digits.sum(axis=1, keepdims=True), 1)

    def with_terms(self, terms: Sequence[tuple[int, ...]], kept: Sequence[int]) -> ExactSums:
        """Return sums of other terms: some as they are, zeros for others."""
        digits = np.zeros((len(terms), *self.digits.shape[1:]), np.int64)
        for term in kept:
            if term < len(self.terms):
                digits[term] = self.digits[term]
        return ExactSums(terms, self.lowest, digits, self._added)

    def units(self, term: int, row: int = 0) -> int:
        """Return a sum as an integer in the unit of its term (see `UNIT`)."""
        return self.all_units(row)[term]

    def all_units(self, row: int = 0) -> list[int]:
        """Return the sums of all terms as integers, as `units` does."""
        slices, digits = self.digits.shape[1:]
        if row >= slices or not digits:
            return [0] * len(self.terms)
        if self._added:
            self.carry()
        known, units = self._row_read
        if row == known:
            return units
        sums = self.digits[:, row]
        low = sums[:, :-1].astype("<u4").tobytes()
        width, units = 4 * (digits - 1), []
        for term, (unit, total) in enumerate(zip(self._units, sums[:, -1].tolist(), strict=True)):
            rest = int.from_bytes(low[term * width : (term + 1) * width], "little")
            total = (total << (8 * width)) + rest
            shift = 32 * self.lowest + unit - 2 * UNIT
            # No number has bits below its unit.
            units.append(total << shift if shift >= 0 else total >> -shift)
        self._row_read = row, units
        return units

    def fraction(self, term: int, row: int = 0) -> Fraction:
        """Return a sum as a fraction."""
        return Fraction(self.units(term, row), 1 << self._units[term])

    def total(self, term: int, row: int = 0) -> float:
        """Return a sum, rounded once; inf above the largest double."""
        return quotient(self.units(term, row), 1 << self._units[term])

    def to_arrays(self, name: str, slices: int) -> Arrays:
        """Write the sums as arrays.

        The arrays do not depend on order, threads or batches.

        Parameters
        ----------
        name : str
            Prefix of the arrays' names.
        slices : int
            Number of slices.

        Returns
        -------
        dict of ndarray
            ``name.digits`` (int64): the nonzero digits of each magnitude, times its sign;
            ``name.at``: their indices in an array of shape (terms, slices, 256), ascending, as
            differences (see `delta_encode`).
        """
        self.carry()
        digits = self.digits.copy()
        if digits.shape[2]:
            negative = digits[:, :, -1] < 0
            magnitudes = np.where(negative[:, :, None], -digits, digits)
            _carry(magnitudes)
            digits = np.where(negative[:, :, None], -magnitudes, magnitudes)
        term, row, digit = np.nonzero(digits)
        indices = (term * slices + row) * _DIGITS + digit + self.lowest
        return {
            f"{name}.at": delta_encode(indices.astype(np.uint64)),
            f"{name}.digits": digits[term, row, digit],
        }

    @classmethod
    def from_arrays(
        cls,
        terms: Sequence[tuple[int, ...]],
        arrays: Mapping[str, np.ndarray],
        name: str,
        slices: int,
    ) -> Self:
        """Read the sums that `to_arrays` wrote.

        Parameters
        ----------
        terms : sequence of tuple of int
        arrays : mapping
        name : str
        slices : int
            Number of slices.
        """
        sums_row, digit = np.divmod(delta_decode(arrays[f"{name}.at"]).astype(np.int64), _DIGITS)
        term, row = np.divmod(sums_row, max(slices, 1))
        lowest = int(digit.min()) if len(digit) else 0
        width = int(digit.max()) + 2 - lowest if len(digit) else 0
        digits = np.zeros((len(terms), slices, width), np.int64)
        digits[term, row, digit - lowest] = arrays[f"{name}.digits"]
        return cls(terms, lowest, digits, 1)


class SliceCounts:
    """Tables of counts with a row for each slice.

    Parameters
    ----------
    tables : ndarray of int64, shape (tables, slices, counts)
    """

    def __init__(self, tables: np.ndarray) -> None:
        self.tables = tables

    @classmethod
    def zeros(cls, width: int, tables: int = 1) -> Self:
        """Make counts of one slice."""
        return cls(np.zeros((tables, 1, width), np.int64))

    def ensure_slices(self, slices: int) -> None:
        """Allocate rows for at least this many slices."""
        self.tables = _with_rows(self.tables, slices)

    def ensure_width(self, width: int) -> None:
        """Allocate at least this many counts of a slice."""
        if width > self.tables.shape[2]:
            self.tables = self.widened(width).tables

    def add(self, column: int | slice, numbers: np.ndarray | int, table: int = 0) -> None:
        """Add numbers to columns of the first slices."""
        numbers = np.array(numbers, np.int64, ndmin=1)
        self.ensure_slices(len(numbers))
        self.tables[table, : len(numbers), column] += numbers

    def merge(self, other: SliceCounts) -> None:
        """Add other counts slice by slice."""
        _, slices, width = other.tables.shape
        self.ensure_slices(slices)
        self.ensure_width(width)
        self.tables[:, :slices, :width] += other.tables

    def take(self, slices: np.ndarray) -> SliceCounts:
        """Select the counts of some slices, in this order; zeros for -1."""
        return SliceCounts(take_rows(self.tables, slices))

    def widened(self, width: int) -> SliceCounts:
        """Return a copy with zeros up to a width."""
        more = width - self.tables.shape[2]
        return SliceCounts(np.pad(self.tables, ((0, 0), (0, 0), (0, more))))

    def over_slices(self) -> SliceCounts:
        """Add the slices up."""
        return SliceCounts(self.tables.sum(axis=1, keepdims=True))

    def at(self, slice_index: int, column: int, table: int = 0) -> int:
        """Return one count."""
        counts = self.tables[table]
        return int(counts[slice_index, column]) if slice_index < len(counts) else 0


class States:
    """States by key; one that is not there has no groups.

    Attributes
    ----------
    parts : dict
        `ExactSums`, `SliceCounts`, or states of these.
    """

    parts: dict[Any, Any]

    def merge(self, other: Self) -> None:
        """Add other states, which may change; the order does not matter."""
        for key, part in other.parts.items():
            self.merge_part(key, part)

    def merge_part(self, key: Hashable, part: object) -> None:
        """Add one state, whose memory may be taken over."""
        if key in self.parts:
            self.parts[key].merge(part)
        else:
            self.parts[key] = part

    def take(self, slices: np.ndarray) -> Self:
        """Select the sums of some slices, in this order; zeros for -1."""
        return self.with_parts({key: part.take(slices) for key, part in self.parts.items()})

    def with_parts(self, parts: dict[Any, Any]) -> Self:
        """Return the same with other parts."""
        states = copy(self)
        states.parts = parts
        return states


def _with_rows(tables: np.ndarray, rows: int) -> np.ndarray:
    """Return tables of at least this many rows; the new ones are zeros."""
    count, current, width = tables.shape
    if rows <= current:
        return tables
    larger = np.zeros((count, max(rows, 2 * current), width), np.int64)
    larger[:, :current] = tables
    return larger


def take_rows(tables: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Select rows of each table; zeros for -1 and for missing rows."""
    count, length, width = tables.shape
    selection = np.zeros((count, len(rows), width), tables.dtype)
    present = (rows >= 0) & (rows < length)
    selection[:, present] = tables[:, rows[present]]
    return selection


def quotient(numerator: int, denominator: int) -> float:
    """Divide integers, rounded once; inf with a sign above the largest double."""
    try:
        return numerator / denominator
    except OverflowError:
        return -math.inf if numerator < 0 else math.inf


@lru_cache(256)
def _factors_of(terms: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """Make an array with the factors of each term in a row, padded with -1."""
    factors = np.full((len(terms), 4), -1, np.int64)
    for row, factor_rows in zip(factors, terms, strict=True):
        row[: len(factor_rows)] = factor_rows
    return frozen(factors)


@lru_cache(256)
def _units_of(terms: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Return the unit of each term."""
    return tuple(2 * UNIT if len(factors) == 2 else UNIT for factors in terms)


@kernel
def _digit_range(bits, factors, exponents, limits):  # type: ignore[no-untyped-def]
    """Find the lowest and the highest digit of the terms of numbers.

    The next limit is the largest exponent of any number.
    """
    limits[2] = -1
    for k in range(bits.shape[0]):
        # The least of size - 1, so that 0 becomes the largest.
        least = np.int64(0x7FFFFFFFFFFFFFFF)
        most = np.int64(0)
        for g in range(bits.shape[1]):
            size = bits[k, g] & 0x7FFFFFFFFFFFFFFF
            most = max(most, size)
            least = min(least, (size - 1) & 0x7FFFFFFFFFFFFFFF)
        exponents[k, 0] = 2046
        exponents[k, 1] = -1
        if most > 0:
            exponents[k, 0] = max(((least + 1) >> 52) - 1, 0)
            exponents[k, 1] = max((most >> 52) - 1, 0)
            limits[2] = max(limits[2], exponents[k, 1])
    limits[0] = _DIGITS
    limits[1] = -1
    has_pairs = False
    for term in range(factors.shape[0]):
        low = 0
        high = 0
        products = -1
        has_values = True
        for factor in range(4):
            k = factors[term, factor]
            if k >= 0:
                products += 1
                has_values = has_values and exponents[k, 1] >= 0
                low += exponents[k, 0]
                high += exponents[k, 1]
        has_pairs = has_pairs or products == 1
        if not has_values:
            continue
        if products != 1:
            # The mantissas of n numbers have n * 53 bits before rounding.
            low = int(min(max(low - products * UNIT, 0), _LARGEST)) + UNIT
            high = int(min(max(high - products * (UNIT - 53), 0), _LARGEST)) + UNIT
        # A product ends four digits above its lowest, a number two. One more digit is for carries.
        limits[0] = min(limits[0], low >> 5)
        limits[1] = max(limits[1], (high >> 5) + (5 if products == 1 else 3))
    # A product of 0 adds zeros to the first five digits.
    if has_pairs and limits[1] >= 0:
        limits[1] = max(limits[1], limits[0] + 4)


@kernel
def _add_terms(  # type: ignore[no-untyped-def]
    numbers, bits, first, end, factors, slices, lowest, rounded, rounded_bits, digits
):
    """Add the terms of some groups, one group after another."""
    for term in range(factors.shape[0]):
        a = factors[term, 0]
        b = factors[term, 1]
        c = factors[term, 2]
        d = factors[term, 3]
        if b < 0:
            _add_numbers(bits[a, first:end], slices, lowest, digits[term])
        elif c < 0:
            _add_products(bits[a, first:end], bits[b, first:end], slices, lowest, digits[term])
        else:
            x = numbers[a, first:end]
            y = numbers[b, first:end]
            z = numbers[c, first:end]
            w = numbers[d, first:end]
            out = rounded[first:end]
            for g in range(x.shape[0]):
                product = x[g] * y[g]
                product *= z[g] * w[g] if d >= 0 else z[g]
                # Clip overflow to the largest double; NaN (0 times inf) becomes 0.
                product = product if product == product else 0.0
                out[g] = max(min(product, 1.7976931348623157e308), -1.7976931348623157e308)
            _add_numbers(rounded_bits[first:end], slices, lowest, digits[term])


@kernel
def _carry(digits):  # type: ignore[no-untyped-def]
    for term in range(digits.shape[0]):
        for row in range(digits.shape[1]):
            carry(digits[term, row])


@kernel
def carry(digits):  # type: ignore[no-untyped-def]
    """Carry until every digit of a sum but the last has 32 bits."""
    for digit in range(digits.shape[0] - 1):
        digits[digit + 1] += digits[digit] >> 32
        digits[digit] &= 0xFFFFFFFF


@kernel
def _add_slices(digits, slices, first, sums):  # type: ignore[no-untyped-def]
    for term in range(digits.shape[0]):
        for i in range(slices.shape[0]):
            row = slices[i]
            for digit in range(digits.shape[2]):
                sums[term, row, first + digit] += digits[term, i, digit]


@kernel
def _add_numbers(bits, slices, lowest, sums):  # type: ignore[no-untyped-def]
    row = np.uint64(0)
    for g in range(bits.shape[0]):
        if slices.shape[0] > 0:
            row = np.uint64(slices[g])
        add_number(bits[g], UNIT - 32 * lowest, sums[row])


@kernel
def add_number(bits, position, digits):  # type: ignore[no-untyped-def]
    """Add a double as an integer; the smallest double is 2**position."""
    size = bits & 0xFFFFFFFFFFFFF
    exponent = (bits >> 52) & 0x7FF
    if exponent > 0:
        size |= 1 << 52
        position += exponent - 1
    if size == 0:
        position = 0
    add_integer(-size if bits < 0 else size, position, digits)


@kernel
def _add_products(x, y, slices, lowest, sums):  # type: ignore[no-untyped-def]
    row = np.uint64(0)
    for g in range(x.shape[0]):
        a = x[g]
        b = y[g]
        p = a & 0xFFFFFFFFFFFFF
        q = b & 0xFFFFFFFFFFFFF
        position = -32 * lowest
        exponent = (a >> 52) & 0x7FF
        if exponent > 0:
            p |= 1 << 52
            position += exponent - 1
        exponent = (b >> 52) & 0x7FF
        if exponent > 0:
            q |= 1 << 52
            position += exponent - 1
        if slices.shape[0] > 0:
            row = np.uint64(slices[g])
        # Parts of 27 and 26 bits, so that no product exceeds 63 bits.
        low = (p & 0x7FFFFFF) * (q & 0x7FFFFFF)
        middle = (low >> 27) + (p & 0x7FFFFFF) * (q >> 27) + (p >> 27) * (q & 0x7FFFFFF)
        high = (middle >> 27) + (p >> 27) * (q >> 27)
        low = (low & 0x7FFFFFF) | ((middle & 0x7FFFFFF) << 27)
        if p == 0 or q == 0:
            position = 0
        shift = position & 31
        digit = np.uint64(position >> 5)
        sign = -1 if (a ^ b) < 0 else 1
        # 32 bits of the product each (fewer in the last), shifted by 0 to 31, fit five digits.
        one = (sign * (low & 0xFFFFFFFF)) << shift
        two = (sign * ((low >> 32) | ((high & 0x3FF) << 22))) << shift
        three = (sign * ((high >> 10) & 0xFFFFFFFF)) << shift
        four = (sign * (high >> 42)) << shift
        sums[row, digit] += one & 0xFFFFFFFF
        sums[row, digit + np.uint64(1)] += (one >> 32) + (two & 0xFFFFFFFF)
        sums[row, digit + np.uint64(2)] += (two >> 32) + (three & 0xFFFFFFFF)
        sums[row, digit + np.uint64(3)] += (three >> 32) + (four & 0xFFFFFFFF)
        sums[row, digit + np.uint64(4)] += four >> 32


#: The least and the largest exponent of numbers (above that of the smallest double) for which all
#: products of four are doubles, and the errors of products of two.
SAFE = UNIT // 2, UNIT + 200
#: Groups whose terms are added together, and the bits of each that one step adds.
BLOCK, _STEP = 1 << 10, 50


@kernel
def _add_safe_terms(  # type: ignore[no-untyped-def]
    numbers, exponents, factors, lowest, room, digits
):
    """Add the terms of safe numbers to the first row, by vectors."""
    for lo in range(0, numbers.shape[1], BLOCK):
        count = min(BLOCK, numbers.shape[1] - lo)
        for term in range(factors.shape[0]):
            _add_term(
                factors[term], numbers, exponents, lo, count, lowest, room, digits[term, 0]
            )  # fmt: skip


@kernel
def _add_term(  # type: ignore[no-untyped-def]
    factors, numbers, exponents, first, count, lowest, room, sums
):
    """Add a term of some groups from `first` on, of numbers with exponents."""
    value = room[0, :count]
    error = room[1, :count]
    x = numbers[factors[0], first : first + count]
    y = numbers[factors[1], first : first + count]
    z = numbers[factors[2], first : first + count]
    w = numbers[factors[3], first : first + count]
    # The first bit of the largest value, and the last bits of the least value and its error.
    top = 2 * UNIT
    low = 2 * UNIT - 52
    exact = np.int64(0)
    for factor in range(4):
        if factors[factor] >= 0:
            low += exponents[factors[factor], 0] - 1022
            top += exponents[factors[factor], 1] - 1021
            exact += exponents[factors[factor], 0]
    if factors[1] < 0:
        for g in range(count):
            value[g] = x[g]
    elif factors[2] < 0:
        # Halves of 26 bits: their products are exact, so is the error of x y.
        for g in range(count):
            a = x[g]
            b = y[g]
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
        _add_values(error, top - 53, exact, lowest, sums)
    elif factors[3] < 0:
        for g in range(count):
            value[g] = (x[g] * y[g]) * z[g]
    else:
        for g in range(count):
            value[g] = (x[g] * y[g]) * (z[g] * w[g])
    _add_values(value, top, low, lowest, sums)


@kernel
def add_integer(number, position, digits):  # type: ignore[no-untyped-def]
    """Add an integer times 2**position; bit 0 of the digits is worth 1."""
    # Up to 63 bits shifted by 0 to 31 fit three digits. The last has the sign. Unsigned indices:
    # Numba need not test for negative ones.
    digit = np.uint64(position >> 5)
    shift = position & 31
    lower = (number & 0xFFFFFFFF) << shift
    upper = (number >> 32) << shift
    digits[digit] += lower & 0xFFFFFFFF
    digits[digit + np.uint64(1)] += (lower >> 32) + (upper & 0xFFFFFFFF)
    digits[digit + np.uint64(2)] += upper >> 32


@kernel
def _add_values(values, top, low, lowest, sums):  # type: ignore[no-untyped-def]
    """Add values below `SAFE` to digits, `_STEP` bits of all at a time.

    Their bits are from `top` down to `low`. A double so large that its last bit is worth 2**e
    rounds what is added to it to multiples of 2**e. As an integer it has grown by that multiple,
    and integers add exactly.
    """
    steps = 0
    while top > low:
        # Few values have bits below those of the first steps.
        if steps > 1:
            size = np.int64(0)
            for g in range(values.shape[0]):
                size = max(size, np.float64(values[g]).view(np.int64) & 0x7FFFFFFFFFFFFFFF)
            if size == 0:
                break
            top = min(top, int(size >> 52) + 2 * UNIT - 1022)
        steps += 1
        # All bits are worth 2**-1074 or more, and no less than the lowest digit.
        top = max(top - _STEP, UNIT, 32 * lowest)
        shift_bits = np.int64(((top - UNIT + 1) << 52) | (1 << 51))
        shift = shift_bits.view(np.float64)
        total = np.int64(0)
        for g in range(values.shape[0]):
            shifted = np.float64(values[g] + shift)
            total += shifted.view(np.int64) - shift_bits
            values[g] -= shifted - shift
        add_integer(total, top - 32 * lowest, sums)
