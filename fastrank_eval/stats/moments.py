"""Add terms and their products over groups, for variances.

Each group has a vector of terms, such as its loss, its rows and its positives. Each term and each
product of two terms is summed over groups, exactly. The variance of any formula of the totals
follows from these sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval.stats.exact import UNIT, ExactSums, quotient
from fastrank_eval.stats.intervals import carriers, root_of_quotient
from fastrank_eval.stats.row_sums import MOST_TERMS, SharedSums


class ClusterMoments(SharedSums):
    """Exact sums of terms and of their products over groups.

    Threads may add at the same time.

    Parameters
    ----------
    terms : int
        Number of terms of a group.
    compared : bool
        Whether the second half of the terms belong to a second model. Then the fourth powers of the
        difference of both first terms are summed too.

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
        super().__init__((*((i,) for i in range(terms)), *pairs, *[(terms,) * 4] * compared))
        self._pairs = {pair: terms + index for index, pair in enumerate(pairs)}
        # A number for each addition.
        self._clusters: list[int] = []

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
        if np.isnan(terms[0]).any():
            return False
        self._clusters.append(int(np.count_nonzero(terms.any(axis=0))))
        if self.compared:
            terms = np.concatenate([terms, terms[self.terms // 2 :][:1] - terms[:1]])
        part = self.take_part()
        is_finite = part.add(terms)
        self.put_part(part)
        return is_finite

    def merge(self, other: Self) -> None:
        """Add the moments of other groups; the order of merging does not matter."""
        super().merge(other)
        self._clusters += other._clusters

    def to_arrays(self) -> Arrays:
        """Write ``terms``, ``compared``, ``clusters`` and the sums."""
        return {
            "terms": np.array(self.terms, np.int64),
            "compared": np.array(self.compared, np.uint8),
            "clusters": np.array(self.clusters, np.int64),
            **self.sums().to_arrays("sums", 1),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the moments that `to_arrays` wrote."""
        terms = int(arrays["terms"])
        if not 1 <= terms <= MOST_TERMS:
            raise ValueError(f"terms of moments must be 1 to {MOST_TERMS}, got {terms}")
        moments = cls(terms, bool(arrays["compared"]))
        moments.put_part(ExactSums.from_arrays(moments._terms, arrays, "sums", 1))
        moments._clusters = [int(arrays["clusters"])]
        return moments

    @property
    def clusters(self) -> int:
        """Groups that have a term other than 0."""
        return sum(self._clusters)

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

    def error(self, gradient: Sequence[float | Fraction]) -> float:
        """Compute the standard error of a formula of the totals.

        NaN below two groups.

        ``sqrt(U / (U - 1) * g' S g)`` of U groups that have a term, with S the sum over groups of
        ``(x - mean of x)(x - mean of x)'``: the variance of a formula of sums over independent
        clusters, linearised. It is computed in integers, so there is no cancellation and it is
        never below 0. The root is rounded once.

        Parameters
        ----------
        gradient : sequence of float or Fraction, shape (terms,)
            The derivative of the formula by each total, at the totals. The error is NaN if a
            derivative is not finite.

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
        return root_of_quotient(
            clusters * squares - slope_sum**2, ((clusters - 1) << (2 * UNIT)) * unit**2
        )

    def carriers(self) -> float:
        """Compute ``(sum of e^2)^2 / sum of e^4`` of differences e.

        These are the differences of the first terms of both models.

        Returns
        -------
        float
            The effective number of groups that carry the variance of a difference. NaN if no two
            models are compared, or if they do not differ.
        """
        if not self.compared:
            return math.nan
        sums = self.sums()
        i, j = 0, self.terms // 2
        squares = sums.units(self._pairs[i, i]) + sums.units(self._pairs[j, j])
        squares -= 2 * sums.units(self._pairs[i, j])
        return carriers(quotient(squares, 1 << (2 * UNIT)), sums.total(len(self._terms) - 1))
