"""Add terms and their products over groups, for variances.

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

from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval.stats.exact import UNIT, ExactSums, quotient
from fastrank_eval.stats.intervals import (
    ULP_HALF,
    effective_groups,
    effective_groups_of_terms,
    root_of_quotient,
    zero_if_rounding,
)
from fastrank_eval.stats.row_sums import MOST_TERMS, RowSums, SharedSums

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
        if np.isnan(terms[0]).any():
            return False
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
        """Sum the squares of slopes times differences, and compute `effective_groups`."""
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
