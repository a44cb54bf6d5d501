"""Add rows exactly: all of them, by group, and by key (a bin or a value).

Add terms and their products over groups, for variances.

Each group has a vector of terms, such as its loss, its rows and its positives. Each term and each
product of two terms is summed over groups, exactly. The variance of any formula of the totals
follows from these sums.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Self

import numpy as np

from fastrank_eval._lib.arrow import Arrays, frozen
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.stats.exact import (
    NUMBER_DIGITS,
    NUMBER_UNIT,
    ONE_NUMBER,
    UNIT,
    ExactSums,
    add_integer,
    add_number,
    carry,
    quotient,
)
from fastrank_eval.stats.intervals import (
    ULP_HALF,
    effective_groups,
    effective_groups_of_terms,
    root_of_quotient,
    zero_if_rounding,
)

#: Rows that are split into integers at a time, and bits of an integer. So sums of integers have at
#: most 61 bits, and intermediate arrays stay in the cache.
_BLOCK, _BITS = 1 << 10, 50
#: Numbers from 2**1000 on are not split.
_MOST_POWER = 1000
#: The most sums of a state: a file that names more is malformed.
MOST_TERMS = 64
#: The edges of one group that does not end.
ONE_GROUP = frozen(np.array([0, np.iinfo(np.int64).max]))


class SharedSums:
    """Exact sums to which threads may add at the same time.

    A thread takes a part of the sums, or makes one, and puts it back after an addition.

    Parameters
    ----------
    terms : sequence of tuple of int
        As in `ExactSums`.
    """

    def __init__(self, terms: Sequence[tuple[int, ...]]) -> None:
        self._terms = tuple(terms)
        self._parts: list[ExactSums] = []

    def __len__(self) -> int:
        """Count the terms."""
        return len(self._terms)

    def borrow_part(self) -> ExactSums:
        """Borrow a part that no other thread has."""
        try:
            return self._parts.pop()
        except IndexError:
            return ExactSums(self._terms)

    def return_part(self, part: ExactSums) -> None:
        """Put a part back, or add a new one."""
        self._parts.append(part)

    def merge(self, other: Self) -> None:
        """Add other sums of the same terms; the order of merging does not matter."""
        self._parts += other._parts

    def sums(self) -> ExactSums:
        """Add all parts, while no thread adds."""
        if len(self._parts) != 1 or self._parts[0].uncarried:
            total = ExactSums(self._terms)
            for part in self._parts:
                total.merge(part)
            total.carry()
            self._parts = [total]
        return self._parts[0]


class RowSums(SharedSums):
    """Exact sums of several terms over rows, or over the rows of each key.

    Threads may add at the same time.

    Parameters
    ----------
    terms : int
        Number of sums (of each key).
    most_keys : int
        Number of keys, as far as it is known before the rows: a saved state may have no more.

    Examples
    --------
    >>> sums = RowSums(1)
    >>> for part in ([1e300, 1.0], [-1e300, 2.0**-60]):
    ...     sums.add(0, np.array(part))
    >>> sums.total(0) == 1 + 2.0**-60
    True
    >>> sums = RowSums(1)
    >>> sums.add(0, np.array([0.5, 3.0, 2.0**-60]), np.array([0, 2, 2]))
    >>> totals = sums.totals()[0]
    >>> (totals / totals[0]).tolist()
    [1.0, 0.0, 6.0]
    """

    def __init__(self, terms: int, most_keys: int = 1) -> None:
        super().__init__([(0,)] * terms)
        self.most_keys = most_keys

    def add(self, term: int, values: np.ndarray, keys: np.ndarray | None = None) -> None:
        """Add values to one sum, or each value to the sum of its key.

        Parameters
        ----------
        term : int
            Index of the sum.
        values : ndarray of float64, shape (rows,)
            Finite.
        keys : ndarray of int64, shape (rows,), optional
            From 0. All keys up to the largest use memory.
        """
        part = self.borrow_part()
        if keys is None:
            GroupSums(ONE_GROUP, np.empty(1), part, term).add(values)
        else:
            part.add(values[np.newaxis], keys, term, ONE_NUMBER)
        self.return_part(part)

    def count(self, term: int, number: int) -> None:
        """Add an integer to a sum."""
        part = self.borrow_part()
        part.add_integer(term, number)
        self.return_part(part)

    def count_keys(self, term: int, keys: np.ndarray) -> None:
        """Add 1 for each row to the sum of its key."""
        if len(keys) and keys.max() < len(keys):
            rows = np.bincount(keys)
            self.add(term, rows.astype(np.float64), np.arange(len(rows)))
        else:
            self.add(term, np.ones(len(keys)), keys)

    def exact(self, term: int, key: int = 0) -> Fraction:
        """Return a sum as a fraction."""
        return self.sums().fraction(term, key)

    def total(self, term: int, key: int = 0) -> float:
        """Return a sum, rounded once; inf above the largest double."""
        return self.sums().total(term, key)

    def keys(self) -> np.ndarray:
        """Return the keys that have a sum other than 0, ascending."""
        return np.flatnonzero(self.sums().digits.any(axis=(0, 2)))

    def totals(self) -> np.ndarray:
        """Compute all sums, times one power of two that prevents overflow.

        Returns
        -------
        ndarray of float64, shape (terms, keys)
            Each rounded once; keys up to the last with a sum other than 0.
        """
        digits = self.sums().digits
        keys, used = (np.flatnonzero(digits.any(axis=axes)) for axes in ((0, 2), (0, 1)))
        totals = np.zeros((len(digits), int(keys.max(initial=-1)) + 1))
        if len(keys):
            round_all(digits.copy(), -32 * (int(used[-1]) + 1), totals)
        return totals

    def with_keys(self, numbers: np.ndarray) -> Self:
        """Return the same sums under other keys.

        Parameters
        ----------
        numbers : ndarray of int64
            The new key of each key, all different.
        """
        keys, sums = self.keys(), type(self)(len(self._terms))
        of_number = np.full(int(numbers[keys].max(initial=-1)) + 1, -1)
        of_number[numbers[keys]] = keys
        sums.return_part(self.sums().take(of_number))
        return sums

    def to_arrays(self) -> Arrays:
        """Write ``terms``, ``keys`` (their number, 1 without keys) and the sums."""
        keys = max(int(self.keys().max(initial=0)) + 1, 1)
        return {
            "terms": np.array(len(self._terms), np.int64),
            "keys": np.array(keys, np.int64),
            **self.sums().to_arrays("sums", keys),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        terms = int(arrays["terms"])
        if not 1 <= terms <= MOST_TERMS:
            raise ValueError(f"terms of sums must be 1 to {MOST_TERMS}, got {terms}")
        sums = cls.__new__(cls)
        RowSums.__init__(sums, terms)
        sums.return_part(ExactSums.from_arrays(sums._terms, arrays, "sums", int(arrays["keys"])))
        return sums


class GroupSums:
    """Sums of a term over the groups of a chunk, whose rows arrive in blocks.

    Parameters
    ----------
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    out : ndarray of float64, shape (groups,)
        Output: the sums, correctly rounded; inf above the largest double.
    sums : ExactSums
        Its first row gets the sum of all rows.
    term : int
        The term of `sums`.

    Examples
    --------
    >>> out, all_rows = np.empty(2), ExactSums([(0,)])
    >>> sums = GroupSums(np.array([0, 3, 4]), out, all_rows, 0)
    >>> for block in ([1e100, 1.0], [-1e100, 0.25]):
    ...     sums.add(np.array(block))
    >>> out, all_rows.total(0)
    (array([1.  , 0.25]), 1.25)
    """

    def __init__(self, starts: np.ndarray, out: np.ndarray, sums: ExactSums, term: int) -> None:
        out[:] = 0.0
        self._starts = frozen(np.ascontiguousarray(starts, np.int64).view())
        self._out, self._sums, self._term = out, sums, term
        # The sum of the rows so far of a group that is not complete.
        self._digits = np.zeros(NUMBER_DIGITS, np.int64)
        # The number of rows added, and the group of the last one.
        self._progress = np.zeros(2, np.int64)

    def add(self, values: np.ndarray) -> None:
        """Add the next rows. Finite float64, shape (rows,)."""
        values = frozen(np.ascontiguousarray(values, np.float64).view())
        parts = scratch("parts of rows", 3 * _BLOCK, np.float64).reshape(3, _BLOCK)
        # Before additions are counted: new digits carry.
        digits = self._sums.number_digits(self._term)
        # A block adds two integers, and its rows that need more bits.
        self._sums.count_additions(3 * len(values))
        _add_rows(
            values,
            values.view(np.int64),
            self._starts,
            parts,
            parts.view(np.int64),
            self._digits,
            digits,
            self._progress,
            self._out,
        )


@kernel
def _add_rows(  # type: ignore[no-untyped-def]
    values, bits, starts, parts, part_bits, group_digits, digits, progress, sums
):
    """Add rows to the sums of their groups, and to that of all rows.

    Rows of a block are split into integers of the same two units, which are added without rounding.
    What is left of a row (hardly ever anything) is added to digits alone.

    Parameters
    ----------
    parts : ndarray of float64, shape (3, _BLOCK)
        Scratch; `part_bits` is the same memory.
    group_digits : ndarray of int64, shape (NUMBER_DIGITS,)
        The digits of the sum of a group, as long as it is not complete.
    """
    carry(group_digits)
    offset = progress[0]
    end = offset + values.shape[0]
    group = progress[1]
    first = offset
    while first < end:
        rows = min(_BLOCK, end - first)
        block_bits = bits[first - offset : first - offset + rows]
        upper_unit = _split(values[first - offset : first - offset + rows], block_bits, parts)
        lower_unit = upper_unit - _BITS
        # The bits of 0 in each unit.
        upper_zero = ((upper_unit + 1075) << 52) | (1 << 51)
        lower_zero = ((lower_unit + 1075) << 52) | (1 << 51)
        upper_scale = math.ldexp(1.0, upper_unit)
        all_upper = np.int64(0)
        all_lower = np.int64(0)
        i = 0
        while i < rows:
            while starts[group + 1] <= first + i:
                group += 1
            last = min(starts[group + 1] - first, rows)
            upper_bits = part_bits[0, i:last]
            lower_bits = part_bits[1, i:last]
            rest_bits = part_bits[2, i:last]
            upper = np.int64(0)
            lower = np.int64(0)
            rest = np.int64(0)
            for k in range(upper_bits.shape[0]):
                upper += upper_bits[k] - upper_zero
                lower += lower_bits[k] - lower_zero
                rest |= rest_bits[k]
            all_upper += upper
            all_lower += lower
            has_rest = rest & 0x7FFFFFFFFFFFFFFF != 0
            is_last = last == starts[group + 1] - first
            if is_last and starts[group] == first + i and not has_rest:
                sums[group] = _join(upper, lower, upper_scale)
            else:
                add_integer(upper, upper_unit + NUMBER_UNIT, group_digits)
                add_integer(lower, lower_unit + NUMBER_UNIT, group_digits)
                if has_rest:
                    for k in range(rest_bits.shape[0]):
                        add_number(rest_bits[k], NUMBER_UNIT - UNIT, group_digits)
                        add_number(rest_bits[k], NUMBER_UNIT - UNIT, digits)
                if is_last:
                    sums[group] = _round(group_digits, -NUMBER_UNIT)
                    group_digits[:] = 0
            i = last
        add_integer(all_upper, upper_unit + NUMBER_UNIT, digits)
        add_integer(all_lower, lower_unit + NUMBER_UNIT, digits)
        first += rows
    progress[0] = end
    progress[1] = group


@kernel
def _split(values, bits, parts):  # type: ignore[no-untyped-def]
    """Split numbers into multiples of 2**unit and of 2**(unit - _BITS).

    The first row of `parts` gets the multiples of the larger unit plus 1.5 * 2**(52 + unit): the
    lower bits of such a double are an integer. The third row gets the rest.
    """
    most = np.int64(0)
    for k in range(bits.shape[0]):
        most = max(most, bits[k] & 0x7FFFFFFFFFFFFFFF)
    # Numbers are below 2**power.
    power = max(int(most >> 52) - 1022, 2 * _BITS - UNIT)
    is_split = power <= _MOST_POWER
    if not is_split:
        power = 0
    upper_zero = math.ldexp(1.5, power - _BITS + 52)
    lower_zero = math.ldexp(1.5, power - 2 * _BITS + 52)
    upper = parts[0, : values.shape[0]]
    lower = parts[1, : values.shape[0]]
    rest = parts[2, : values.shape[0]]
    if is_split:
        for k in range(values.shape[0]):
            x = values[k]
            first = x + upper_zero
            x -= first - upper_zero
            second = x + lower_zero
            upper[k] = first
            lower[k] = second
            rest[k] = x - (second - lower_zero)
    else:
        for k in range(values.shape[0]):
            upper[k] = upper_zero
            lower[k] = lower_zero
            rest[k] = values[k]
    return power - _BITS


@kernel
def _join(upper, lower, scale):  # type: ignore[no-untyped-def]
    """Round ``(upper + lower * 2**-_BITS) * scale`` to a double."""
    upper += lower >> _BITS
    lower &= (1 << _BITS) - 1
    if abs(upper) < 1 << 52:
        return upper * scale + lower * (scale * 2.0**-_BITS)
    # Two more bits. The last tells whether any lower bit is set, so a double is rounded once.
    upper = (upper << 2) | (lower >> (_BITS - 2))
    if lower & ((1 << (_BITS - 2)) - 1) != 0:
        upper |= 1
    return upper * (0.25 * scale)


@kernel
def _round(digits, power):  # type: ignore[no-untyped-def]
    """Round a sum of digits, the first worth 2**power; ties to even.

    Digits change. The result is inf above the largest double.
    """
    carry(digits)
    top = digits.shape[0] - 1
    negative = digits[top] < 0
    if negative:
        for digit in range(digits.shape[0]):
            digits[digit] = -digits[digit]
        carry(digits)
    while top >= 0 and digits[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    leading = digits[top]
    length = 0
    while leading >> length > 0:
        length += 1
    power += 32 * top
    # The leading 62 bits. The last tells whether any lower bit is set, so a double is rounded once.
    below = np.int64(0)
    for lower in range(top - 1, -1, -1):
        bits = min(32, 62 - length)
        leading = (leading << bits) | (digits[lower] >> (32 - bits))
        below |= digits[lower] & ((1 << (32 - bits)) - 1)
        length += bits
        power -= bits
    if below != 0:
        leading |= 1
    size = np.ldexp(np.float64(leading), power)
    return -size if negative else size


@kernel
def round_all(digits, power, totals):  # type: ignore[no-untyped-def]
    """Round sums of digits, the first worth 2**power; digits change."""
    for term in range(totals.shape[0]):
        for key in range(totals.shape[1]):
            totals[term, key] = _round(digits[term, key], power)


#: Roundings of a term and of its slope: of a row, of its weight, of the sum over a group; of the
#: totals and of the formula.
_ROUNDINGS = 4
#: The most contrasts of a state: a file that names more is malformed.
MOST_CONTRASTS = 4
#: Degrees of freedom of each group that carries a difference of several terms: 4 groups that all
#: differ one way are no proof (exactly p = 0.125). The least share of the squares of influences
#: about 0: models that differ alike in every group have nearly none. Both are by simulation
#: (`bench.nulls`): equal models differ no more often than wanted, and true differences of rare
#: clicks are found.
_DEGREES_EACH, _LEAST_VARIANCE = 6, 0.25


class ClusterMoments(SharedSums):
    """Exact sums of terms and of their products over groups.

    Threads may add at the same time.

    Parameters
    ----------
    terms : int
        Number of terms of a group.
    contrasts : sequence of tuple of int
        If the second half of the terms belongs to a second model: the terms of a model that differ
        freely between models, each with those that then differ by its negative. Products of four
        of these differences are summed too.
    denominators : sequence of tuple of int
        Sums of terms that formulas divide by, each by the indices of its terms. Their fourth powers
        are summed too, and the groups are counted in which they are not 0.

    Examples
    --------
    The standard error of ``sum of x / sum of n``, 9 / 12, over three groups.

    >>> moments = ClusterMoments(2)
    >>> moments.add(np.array([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]))
    True
    >>> moments.clusters
    3
    >>> round(moments.error([1 / 12, -9 / 144]), 6)
    0.072169
    """

    def __init__(
        self,
        terms: int,
        contrasts: Sequence[tuple[int, ...]] = (),
        denominators: Sequence[tuple[int, ...]] = (),
    ) -> None:
        self.terms, self.contrasts, self.denominators = terms, tuple(contrasts), tuple(denominators)
        pairs = list(combinations_with_replacement(range(terms), 2))
        products = tuple(combinations_with_replacement(range(terms, terms + len(contrasts)), 4))
        super().__init__((*((i,) for i in range(terms)), *pairs, *products))
        # Of fourth powers of the denominators: apart, because sums of counts are faster.
        self._fourth = RowSums(len(denominators))
        self._pairs = {pair: terms + index for index, pair in enumerate(pairs)}
        self._fourths = {
            tuple(k - terms for k in product): terms + len(pairs) + index
            for index, product in enumerate(products)
        }
        # For each addition the groups that have a term, and each denominator.
        self._counts: list[np.ndarray] = []

    def add(self, terms: np.ndarray) -> bool:
        """Add groups; groups whose terms are all 0 do not count.

        Parameters
        ----------
        terms : ndarray of float64 or int64, shape (terms, groups)

        Returns
        -------
        bool
            Whether every number was finite. If not, the moments are invalid.
        """
        counts = [int(np.count_nonzero(terms.any(axis=0)))]
        for term, summed in enumerate(self.denominators):
            counts.append(self._add_fourth(term, sum(terms[i] for i in summed)))
        self._counts.append(np.array(counts, np.int64))
        if self.contrasts:
            other = terms[self.terms // 2 :]
            terms = np.concatenate([terms, [other[i] - terms[i] for i, *_ in self.contrasts]])
        part = self.borrow_part()
        is_finite = part.add(terms)
        self.return_part(part)
        return is_finite

    def _add_fourth(self, term: int, shares: np.ndarray) -> int:
        """Add fourth powers of a denominator; count the groups that have it."""
        with np.errstate(over="ignore"):
            powers = np.square(np.square(shares, dtype=np.float64))
        if shares.dtype == np.int64 and powers.max(initial=0.0) * len(powers) < 2.0**53:
            # No sum of them is rounded, in any order.
            self._fourth.count(term, int(powers.sum()))
        else:
            self._fourth.add(term, np.minimum(powers, np.finfo(np.float64).max))
        return int(np.count_nonzero(shares))

    def merge(self, other: Self) -> None:
        """Add the moments of other groups; the order of merging does not matter."""
        super().merge(other)
        self._counts += other._counts
        self._fourth.merge(other._fourth)

    def to_arrays(self) -> Arrays:
        """Write what the moments are of, ``clusters`` and the sums.

        A denominator is written as the sum of ``2**i`` over its terms i, a contrast as its term
        and the sum of ``2**i`` over the others. ``clusters`` has the number of groups that have a
        term, then of those that have each denominator.
        """
        denominators = [sum(1 << i for i in summed) for summed in self.denominators]
        contrasts = [(first, sum(1 << i for i in others)) for first, *others in self.contrasts]
        return {
            "terms": np.array(self.terms, np.int64),
            "contrasts": np.array(contrasts, np.int64).ravel(),
            "denominators": np.array(denominators, np.int64),
            "clusters": self._all_counts(),
            **self.sums().to_arrays("sums", 1),
            **self._fourth.sums().to_arrays("fourth", 1),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the moments that `to_arrays` wrote."""
        terms = int(arrays["terms"])
        if not 1 <= terms <= MOST_TERMS:
            raise ValueError(f"terms of moments must be 1 to {MOST_TERMS}, got {terms}")
        denominators = [
            tuple(i for i in range(terms) if bits >> i & 1)
            for bits in arrays["denominators"].tolist()
        ]
        contrasts = [
            (first, *(i for i in range(terms) if bits >> i & 1))
            for first, bits in arrays["contrasts"].reshape(-1, 2).tolist()
        ]
        if len(contrasts) > MOST_CONTRASTS or any(2 * max(of) >= terms for of in contrasts):
            raise ValueError(f"contrasts of {terms // 2} terms cannot be {contrasts}")
        moments = cls(terms, contrasts, denominators)
        moments.return_part(ExactSums.from_arrays(moments._terms, arrays, "sums", 1))
        moments._counts = [arrays["clusters"].reshape(1 + len(denominators))]
        powers = moments._fourth
        powers.return_part(ExactSums.from_arrays(powers._terms, arrays, "fourth", 1))
        return moments

    def _all_counts(self) -> np.ndarray:
        return sum(self._counts, np.zeros(1 + len(self.denominators), np.int64))

    @property
    def clusters(self) -> int:
        """Groups that have a term other than 0."""
        return int(self._all_counts()[0])

    def shares(self, denominators: Sequence[tuple[int, ...]]) -> tuple[int, float]:
        """Count the groups that some denominators rest on.

        Returns
        -------
        groups : int
            Groups with a share of the denominator.
        effective : float
            ``(sum of w^2)^2 / sum of w^4`` over their shares w.

        The smallest counts where there are several denominators.
        """
        found, counts = [], self._all_counts()
        for summed in denominators:
            k = self.denominators.index(summed)
            fourth = self._fourth.total(k)
            squares = quotient(self._squares(summed), 1 << (2 * UNIT))
            found.append((int(counts[1 + k]), effective_groups(squares, fourth)))
        return min(groups for groups, _ in found), min(effective for _, effective in found)

    def _squares(self, summed: Sequence[int]) -> int:
        """Sum the squares of a sum of terms, in units of 2**-2148."""
        sums = self.sums()
        return sum(sums.units(self._pairs[min(i, j), max(i, j)]) for i in summed for j in summed)

    def _norm(self, summed: Sequence[int]) -> float:
        return root_of_quotient(self._squares(summed), 1 << (2 * UNIT))

    def exact(self) -> tuple[list[int], list[list[int]]]:
        """Return sums of terms and of their products.

        Returns
        -------
        sums : list of int
            Multiples of 2**-1074.
        products : list of list of int
            A symmetric matrix of multiples of 2**-2148.
        """
        sums = self.sums()
        terms = range(self.terms)
        units = {pair: sums.units(term) for pair, term in self._pairs.items()}
        products = [[units[min(i, j), max(i, j)] for j in terms] for i in terms]
        return [sums.units(i) for i in terms], products

    def error(self, gradient: Sequence[float | Fraction], rounding: float | None = None) -> float:
        """Compute the standard error of a formula of the totals.

        NaN below two groups.

        ``sqrt(U / (U - 1) * g' S g)`` of U groups that have a term, with S the sum over groups of
        ``(x - mean of x)(x - mean of x)'``: the variance of a formula of sums over independent
        clusters, linearised. It is computed in integers, so there is no cancellation and it is
        never below 0. The root is rounded once. It is 0 where rounding alone may have made it.

        Parameters
        ----------
        gradient : sequence of float or Fraction, shape (terms,)
            The derivative of the formula by each total, at the totals. The error is NaN if a
            derivative is not finite.
        rounding : float, optional
            What `rounding` returns for this gradient, by default without denominators.

        Returns
        -------
        float

        References
        ----------
        Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
        """
        clusters = self.clusters
        if clusters < 2 or not all(map(math.isfinite, gradient)):
            return math.nan
        slopes = [Fraction(slope) for slope in gradient]
        unit = math.lcm(*(slope.denominator for slope in slopes))
        integers = [int(slope * unit) for slope in slopes]
        sums, products = self.exact()
        slope_sum = sum(g * x for g, x in zip(integers, sums, strict=True))
        squares = sum(
            g * h * products[i][j] for i, g in enumerate(integers) for j, h in enumerate(integers)
        )
        se = root_of_quotient(
            clusters * squares - slope_sum**2, ((clusters - 1) << (2 * UNIT)) * unit**2
        )
        return zero_if_rounding(
            se, self.rounding(gradient) if rounding is None else rounding, clusters
        )

    def rounding(
        self,
        gradient: Sequence[float | Fraction],
        denominators: Sequence[tuple[int, ...]] = (),
    ) -> float:
        """Bound the roundings of influences; see `zero_if_rounding`.

        Parameters
        ----------
        gradient : sequence of float or Fraction, shape (terms,)
        denominators : sequence of tuple of int
            Those of a formula with slopes that are differences of shares, such as
            ``(1 - PPV) / predicted``: where a share is near 1 the slope is small, its rounding is
            not.
        """
        size = sum(abs(float(s)) * self._norm([i]) for i, s in enumerate(gradient) if s)
        sums = self.sums()
        for summed in denominators:
            total = sum(sums.units(i) for i in summed)
            size += self._norm(summed) / quotient(total, 1 << UNIT) if total else 0.0
        return _ROUNDINGS * ULP_HALF * size

    def effective_groups(self, gradient: Sequence[float], se: float) -> float:
        """Compute the effective groups of a difference of two models.

        ``(sum of e^2)^2 / sum of e^4`` over groups, of the differences e of the first contrast.
        With several contrasts it is at most the number that leaves the variance `_DEGREES_EACH`
        degrees of freedom for each group that carries u. This is the influence of a group on the
        difference of two formulas, taken about 0 as if the models did not differ: the differences
        of all contrasts times the mean slope of both models.

        Parameters
        ----------
        gradient : sequence of float, shape (terms,)
            As for `error`: first the negative slopes of the first model, then those of the second.
        se : float
            What `error` returns for this gradient. If its influences have less than
            `_LEAST_VARIANCE` of the squares of u, there are fewer degrees in proportion.

        Returns
        -------
        float
            NaN if no two models are compared, or if they do not differ.
        """
        count = len(self.contrasts)
        if not count:
            return math.nan
        _, first = self._along([1.0] + [0.0] * (count - 1))
        if count == 1:
            return first
        half = self.terms // 2
        means = [(gradient[half + i] - gradient[i]) / 2 for i in range(half)]
        slopes = [means[i] - math.fsum(means[j] for j in others) for i, *others in self.contrasts]
        largest = max(map(abs, slopes))
        if not 0 < largest < math.inf:
            return first
        squares, along = self._along([slope / largest for slope in slopes])
        if math.isnan(along):
            return first
        groups = self.clusters
        variance = (se / largest) ** 2 / squares * (groups - 1) / groups
        degrees = _DEGREES_EACH * along * min(variance / _LEAST_VARIANCE, 1.0)
        return float(np.fmin(first, 1.0 / (2.0 / max(degrees, 1.0) + 1.0 / groups)))

    def _along(self, slopes: Sequence[float]) -> tuple[float, float]:
        """Sum squares of slopes times differences, compute `effective_groups`."""
        sums = self.sums()

        def parts(degree: int, total: Callable[[tuple[int, ...]], float]) -> list[float]:
            return [
                _orders(which) * math.prod(slopes[k] for k in which) * total(which)
                for which in combinations_with_replacement(range(len(slopes)), degree)
            ]

        terms = parts(2, lambda which: quotient(self._product(*which), 1 << (2 * UNIT)))
        fourth = parts(4, lambda which: sums.total(self._fourths[which]))
        squares = math.fsum(terms)
        return squares, effective_groups_of_terms(squares, fourth)

    def _product(self, k: int, m: int) -> int:
        """Sum the products of two differences, in units of 2**-2148."""
        i, j = sorted(self.contrasts[contrast][0] for contrast in (k, m))
        half, units = self.terms // 2, self.sums().units
        same = units(self._pairs[i, j]) + units(self._pairs[half + i, half + j])
        return same - units(self._pairs[i, half + j]) - units(self._pairs[j, half + i])


def _orders(which: tuple[int, ...]) -> int:
    """Count the orders of numbers that may be alike."""
    alike = Counter(which).values()
    return math.factorial(len(which)) // math.prod(map(math.factorial, alike))
