"""Exact second moments of sums over groups: what the variance of any formula of totals needs.

A group gives a vector of terms, such as its loss, its rows and its positives. Of each pair of
terms the products are summed over groups, those of the upper 26 bits of both, as in `states`: they
have 52 bits, and their sums are exact. Cells stand for the binary exponents that came in, not for
all; counts need none.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Self

import numpy as np

from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel
from fastrank_eval.saved_parts import Parts, limbs_of, numbers_of
from fastrank_eval.scratch import scratch
from fastrank_eval.uncertainty import root_of_quotient

#: Counts below this, of no more groups at a time: their products fit 40 bits, sums of these 60.
_MANY = 1 << 20
#: Groups whose numbers are taken apart before the next: they stay in the cache.
_BLOCK = 1 << 13
#: Upper bits of the lowest exponent are worth 2**-_UNIT each.
_UNIT = 1074 - 27
#: Bits of a product that are kept in its lower cell.
_HALF_BITS = 26
#: Cells are made for whole multiples of so many exponents.
_STEP = 32


class _Cells:
    """The sums of one thread, by binary exponent: of terms, and of products of two of them."""

    def __init__(self, terms: int) -> None:
        self.terms = terms
        self.clusters = 0
        self.lowest = 0
        self.upper = np.zeros((terms, 0), np.int64)
        self.products = np.zeros((terms * (terms + 1) // 2, 0, 2), np.int64)
        # Of counts, beside them.
        self.counts = [0] * terms
        self.count_products = [0] * len(self.products)

    def hold(self, lowest: int, highest: int) -> None:
        """Make room for exponents `lowest` to `highest`."""
        held = self.upper.shape[1]
        if held:
            lowest, highest = min(lowest, self.lowest), max(highest, self.lowest + held - 1)
        lowest -= lowest % _STEP
        room = highest - lowest + 1
        room += -room % _STEP
        if room == held:
            return
        at = self.lowest - lowest if held else 0
        upper = np.zeros((self.terms, room), np.int64)
        upper[:, at : at + held] = self.upper
        products = np.zeros((len(self.products), 2 * room, 2), np.int64)
        products[:, 2 * at : 2 * (at + held)] = self.products
        self.lowest, self.upper, self.products = lowest, upper, products


class ClusterMoments:
    """Exact sums and sums of products of terms over groups; threads may add at the same time.

    Parameters
    ----------
    terms : int
        How many terms a group has.

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

    def __init__(self, terms: int) -> None:
        self.terms = terms
        self._lock = threading.Lock()
        self._own = threading.local()
        self._parts: list[_Cells] = []
        # What came from a file: clusters, sums and products, in the units of `exact`.
        self._loaded = [0] * (1 + terms + terms * (terms + 1) // 2)

    def add(self, terms: np.ndarray) -> bool:
        """Add groups; those whose terms are all 0 are none.

        Parameters
        ----------
        terms : ndarray of float64 or int64, shape (terms, groups)
            Each cut to the upper 26 bits of its mantissa, which moves a deviation by 2^-25 of its
            largest term at most.

        Returns
        -------
        bool
            Whether every number was finite; otherwise the moments are spoiled.
        """
        cells = self._mine()
        if terms.dtype == np.int64 and terms.size and -_MANY < terms.min() <= terms.max() < _MANY:
            self._count(cells, terms)
            return True
        bits = np.ascontiguousarray(terms, np.float64).view(np.int64)
        span = np.empty(2, np.int64)
        for first in range(0, bits.shape[1], _BLOCK):
            block = _contiguous(bits, first, first + _BLOCK)
            upper = scratch("upper bits of terms", block.size).reshape(block.shape)
            place = scratch("exponents of terms", block.size).reshape(block.shape)
            cells.clusters += int(_take_apart(block, upper, place, span))
            lowest, highest = span.tolist()
            if highest > 2045:
                return False
            if lowest > highest:
                continue
            held = cells.upper.shape[1]
            if not held or lowest < cells.lowest or highest >= cells.lowest + held:
                cells.hold(lowest, highest)
            _add_products(upper, place, cells.lowest, cells.upper, cells.products)
        return True

    def _count(self, cells: _Cells, terms: np.ndarray) -> None:
        """Add groups whose terms are counts, of fewer bits than are cut off."""
        cells.clusters += int(np.count_nonzero(np.bitwise_or.reduce(terms, axis=0)))
        for first in range(0, terms.shape[1], _MANY):
            sums = np.zeros(self.terms, np.int64)
            products = np.zeros(len(cells.count_products), np.int64)
            _add_counts(_contiguous(terms, first, first + _MANY), sums, products)
            cells.counts = [a + b for a, b in zip(cells.counts, sums.tolist(), strict=True)]
            pairs = zip(cells.count_products, products.tolist(), strict=True)
            cells.count_products = [a + b for a, b in pairs]

    def merge(self, other: ClusterMoments) -> None:
        """Add the moments of other groups; the order of merging does not matter."""
        with self._lock:
            self._parts += other._parts
            self._loaded = [a + b for a, b in zip(self._loaded, other._loaded, strict=True)]

    def saved(self) -> Parts:
        """All of it as whole numbers.

        Returns
        -------
        dict of ndarray
            ``terms``; as `saved_parts.limbs_of` the number of clusters, the sums and the products
            of each term with itself and those after it, as `exact` gives them.
        """
        sums, products = self.exact()
        crossed = [product for i, row in enumerate(products) for product in row[i:]]
        terms = np.array(self.terms, np.int64)
        return {"terms": terms, **limbs_of([self.clusters, *sums, *crossed])}

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The moments that `saved` wrote."""
        moments = cls(int(parts["terms"]))
        moments._loaded = numbers_of(parts)
        return moments

    @property
    def clusters(self) -> int:
        """Groups that have a term other than 0."""
        return self._loaded[0] + sum(part.clusters for part in self._parts)

    def exact(self) -> tuple[list[int], list[list[int]]]:
        """Sums of the terms' upper bits, and of their products.

        Returns
        -------
        sums : list of int
            Whole multiples of 2**-1047.
        products : list of list of int
            A symmetric matrix of whole multiples of 2**-2094.
        """
        terms = range(self.terms)
        sums = self._loaded[1 : 1 + self.terms]
        products = [[0] * self.terms for _ in terms]
        known = iter(self._loaded[1 + self.terms :])
        for i in terms:
            products[i][i:] = [next(known) for _ in range(i, self.terms)]
        for part in self._parts:
            for i in terms:
                sums[i] += _placed(part.upper[i], part.lowest) + (part.counts[i] << _UNIT)
            pairs = [(i, j) for i in terms for j in range(i, self.terms)]
            found = zip(pairs, part.products, part.count_products, strict=True)
            for (i, j), cells, counted in found:
                low, high = (_placed(cells[:, half], 2 * part.lowest) for half in range(2))
                products[i][j] += low + (high << _HALF_BITS) + (counted << (2 * _UNIT))
        for i in terms:
            for j in range(i):
                products[i][j] = products[j][i]
        return sums, products

    def deviations(self) -> list[list[Fraction]]:
        """``sum over groups of (x - mean of x)(x - mean of x)'``, exact; zeros without a group.

        Returns
        -------
        list of list of Fraction
            Symmetric; shape (terms, terms).
        """
        sums, products = self.exact()
        many = max(self.clusters, 1)
        return [
            [
                Fraction(many * products[i][j] - x * y, many << (2 * _UNIT))
                for j, y in enumerate(sums)
            ]
            for i, x in enumerate(sums)
        ]

    def error(self, gradient: Sequence[float]) -> float:
        """The standard error of a formula of the totals; NaN below two groups.

        ``sqrt(U / (U - 1) * g' S g)`` of U groups that have a term, S being `deviations`: the
        variance of a formula of sums over independent clusters, linearised. It is computed in whole
        numbers, so that nothing cancels, and never below 0; the root is rounded once.

        Parameters
        ----------
        gradient : sequence of float, shape (terms,)
            The derivative of the formula by each total, at the totals. NaN where one is not finite.

        Returns
        -------
        float

        References
        ----------
        Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
        """
        many = self.clusters
        if many < 2 or not all(map(math.isfinite, gradient)):
            return math.nan
        slopes = [Fraction(slope) for slope in gradient]
        unit = max(slope.denominator for slope in slopes)
        whole = [int(slope * unit) for slope in slopes]
        sums, products = self.exact()
        along = sum(g * x for g, x in zip(whole, sums, strict=True))
        squares = sum(
            g * h * products[i][j] for i, g in enumerate(whole) for j, h in enumerate(whole)
        )
        return root_of_quotient(many * squares - along**2, ((many - 1) << (2 * _UNIT)) * unit**2)

    def _mine(self) -> _Cells:
        mine: _Cells | None = getattr(self._own, "cells", None)
        if mine is None:
            mine = self._own.cells = _Cells(self.terms)
            with self._lock:
                self._parts.append(mine)
        return mine


def _contiguous(terms: np.ndarray, first: int, last: int) -> np.ndarray:
    """Groups from `first` on, so that loops over them start at 0: these become SIMD."""
    return frozen(np.ascontiguousarray(terms[:, first:last]).view())


def _placed(cells: np.ndarray, lowest: int) -> int:
    """The sum of cells, each times two to the power of its exponent, the first's being `lowest`."""
    total = 0
    for at in np.flatnonzero(cells).tolist():
        total += int(cells[at]) << (lowest + at)
    return total


@kernel
def _add_counts(counts, sums, products):  # type: ignore[no-untyped-def]
    pair = 0
    for i in range(counts.shape[0]):
        total = np.int64(0)
        for g in range(counts.shape[1]):
            total += counts[i, g]
        sums[i] += total
        for j in range(i, counts.shape[0]):
            total = np.int64(0)
            for g in range(counts.shape[1]):
                total += counts[i, g] * counts[j, g]
            products[pair] += total
            pair += 1


@kernel
def _take_apart(bits, upper, place, span):  # type: ignore[no-untyped-def]
    """Upper bits and exponents of terms, and the least and greatest of these.

    Returns how many groups have a term other than 0.
    """
    lowest = np.int64(4096)
    highest = np.int64(-1)
    for term in range(bits.shape[0]):
        for g in range(bits.shape[1]):
            b = bits[term, g]
            exponent = (b >> 52) & 0x7FF
            mantissa = b & 0xFFFFFFFFFFFFF
            if exponent > 0:
                mantissa |= 1 << 52
                exponent -= 1
            high = mantissa >> 27
            upper[term, g] = -high if b < 0 else high
            if mantissa == 0:
                # No exponent: a product of it is 0 wherever it is added.
                exponent = -1
            else:
                lowest = min(lowest, exponent)
            highest = max(highest, exponent)
            place[term, g] = exponent
    span[0] = lowest
    span[1] = highest
    groups = 0
    for g in range(bits.shape[1]):
        found = np.int64(-1)
        for term in range(bits.shape[0]):
            found = max(found, place[term, g])
        groups += int(found >= 0)
    return groups


@kernel
def _add_products(upper, place, lowest, cells, products):  # type: ignore[no-untyped-def]
    pair = 0
    for i in range(upper.shape[0]):
        for g in range(upper.shape[1]):
            cells[i, max(place[i, g] - lowest, 0)] += upper[i, g]
        for j in range(i, upper.shape[0]):
            for g in range(upper.shape[1]):
                at = max(place[i, g] + place[j, g] - 2 * lowest, 0)
                product = upper[i, g] * upper[j, g]
                products[pair, at, 0] += product & 0x3FFFFFF
                products[pair, at, 1] += product >> 26
            pair += 1
