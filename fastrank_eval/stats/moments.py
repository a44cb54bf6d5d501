"""Exact second moments of sums over groups: what the variance of any formula of totals needs.

A group gives a vector of terms, such as its loss, its rows and its positives. Each term and each
product of two terms is summed over groups, exactly.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval.stats.exact import UNIT, ExactSums, quotient
from fastrank_eval.stats.intervals import carriers, root_of_quotient

#: More than any measure has, of two models too; a file that says so is forged.
_MOST_TERMS = 64


class ClusterMoments:
    """Exact sums and sums of products of terms over groups; threads may add at the same time.

    Parameters
    ----------
    terms : int
        How many terms a group has.
    compared : bool
        Whether the latter half of them are the terms of a second model: then fourth powers of the
        difference of the first terms of both are summed too.

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

    def __init__(self, terms: int, compared: bool = False) -> None:
        self.terms, self.compared = terms, compared
        pairs = [(i, j) for i in range(terms) for j in range(i, terms)]
        self._kinds = (*((i,) for i in range(terms)), *pairs, *[(terms,) * 4] * compared)
        self._pairs = {pair: terms + at for at, pair in enumerate(pairs)}
        self._lock = threading.Lock()
        self._own = threading.local()
        self._parts: list[tuple[ExactSums, list[int]]] = []

    def add(self, terms: np.ndarray) -> bool:
        """Add groups; those whose terms are all 0 are none.

        Parameters
        ----------
        terms : ndarray of float64 or int64, shape (terms, groups)

        Returns
        -------
        bool
            Whether every number was finite; otherwise the moments are spoiled.
        """
        if np.isnan(terms[0]).any():
            return False
        sums, clusters = self._mine()
        clusters[0] += int(np.count_nonzero(terms.any(axis=0)))
        if self.compared:
            terms = np.concatenate([terms, terms[self.terms // 2 :][:1] - terms[:1]])
        return sums.add(terms)

    def merge(self, other: ClusterMoments) -> None:
        """Add the moments of other groups; the order of merging does not matter."""
        with self._lock:
            self._parts += other._parts

    def saved(self) -> Arrays:
        """Write ``terms``, ``clusters`` and the sums, as `ExactSums.saved` writes them."""
        sums, clusters = self._whole()
        return {
            "terms": np.array(self.terms, np.int64),
            "compared": np.array(self.compared, np.uint8),
            "clusters": np.array(clusters, np.int64),
            **sums.saved("sums", 1),
        }

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """Read the moments that `saved` wrote."""
        terms = int(parts["terms"])
        if not 1 <= terms <= _MOST_TERMS:
            raise ValueError(f"terms of moments must be 1 to {_MOST_TERMS}, got {terms}")
        moments = cls(terms, bool(parts["compared"]))
        sums = ExactSums.loaded(moments._kinds, parts, "sums", 1)
        moments._parts.append((sums, [int(parts["clusters"])]))
        return moments

    @property
    def clusters(self) -> int:
        """Groups that have a term other than 0."""
        return sum(clusters[0] for _, clusters in self._parts)

    def exact(self) -> tuple[list[int], list[list[int]]]:
        """Return sums of terms and of their products.

        Returns
        -------
        sums : list of int
            Whole multiples of 2**-1074.
        products : list of list of int
            A symmetric matrix of whole multiples of 2**-2148.
        """
        sums, _ = self._whole()
        terms = range(self.terms)
        products = [[sums.whole(self._pairs[min(i, j), max(i, j)]) for j in terms] for i in terms]
        return [sums.whole(i) for i in terms], products

    def deviations(self) -> list[list[Fraction]]:
        """Compute ``sum over groups of (x - mean of x)(x - mean of x)'``, exactly.

        Returns
        -------
        list of list of Fraction
            Symmetric; shape (terms, terms). Zeros without a group.
        """
        sums, products = self.exact()
        many = max(self.clusters, 1)
        return [
            [
                Fraction(many * products[i][j] - x * y, many << (2 * UNIT))
                for j, y in enumerate(sums)
            ]
            for i, x in enumerate(sums)
        ]

    def error(self, gradient: Sequence[float | Fraction]) -> float:
        """Compute the standard error of a formula of the totals; NaN below two groups.

        ``sqrt(U / (U - 1) * g' S g)`` of U groups that have a term, S being `deviations`: the
        variance of a formula of sums over independent clusters, linearised. It is computed in whole
        numbers, so that nothing cancels, and never below 0; the root is rounded once.

        Parameters
        ----------
        gradient : sequence of float or Fraction, shape (terms,)
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
        unit = math.lcm(*(slope.denominator for slope in slopes))
        whole = [int(slope * unit) for slope in slopes]
        sums, products = self.exact()
        along = sum(g * x for g, x in zip(whole, sums, strict=True))
        squares = sum(
            g * h * products[i][j] for i, g in enumerate(whole) for j, h in enumerate(whole)
        )
        return root_of_quotient(many * squares - along**2, ((many - 1) << (2 * UNIT)) * unit**2)

    def carriers(self) -> float:
        """Compute ``(sum of e^2)^2 / sum of e^4``, e being the difference of first terms.

        Returns
        -------
        float
            How many groups carry the variance of a difference; NaN where no two models are
            compared, or nothing differs.
        """
        if not self.compared:
            return math.nan
        sums, _ = self._whole()
        i, j = 0, self.terms // 2
        squares = sums.whole(self._pairs[i, i]) + sums.whole(self._pairs[j, j])
        squares -= 2 * sums.whole(self._pairs[i, j])
        return carriers(quotient(squares, 1 << (2 * UNIT)), sums.total(len(self._kinds) - 1))

    def _whole(self) -> tuple[ExactSums, int]:
        """Add up what all threads have added."""
        total = ExactSums(self._kinds)
        for sums, _ in self._parts:
            total.merge(sums)
        return total, self.clusters

    def _mine(self) -> tuple[ExactSums, list[int]]:
        mine: tuple[ExactSums, list[int]] | None = getattr(self._own, "sums", None)
        if mine is None:
            mine = self._own.sums = ExactSums(self._kinds), [0]
            with self._lock:
                self._parts.append(mine)
        return mine
