"""Add measures over groups exactly: of one model, of two, or by bucket.

A mean over groups is a ratio of sums. Its standard error needs sums of squares and of products. Its
degrees of freedom need sums of fourth powers. The first two are exact: a sum of squared deviations
is never below zero, and it is zero if all values are equal.

A group of value A and weight w has the terms p = w A and w. Both are 0 if a model leaves the group
out. The difference of two models also needs the four products of one model's terms and the other's.

A user returns on other nights. Their states have no keys, so clusters cannot be matched. But the
hash of a key is the same every night: a cluster lies in one bucket. So buckets are independent, as
clusters are, and take their place in the errors of merged states. Their sums are exact and merge in
any order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from operator import itemgetter
from typing import ClassVar, Self, cast

import numpy as np

from fastrank_eval._lib.arrow import Arrays, frozen
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.stats.exact import NO_SLICES, ONE_NUMBER, UNIT, ExactSums, SliceCounts, States
from fastrank_eval.stats.moments import Differences, ModelSums, Moments, difference_of_models
from fastrank_eval.stats.row_sums import GroupSums, round_all

# Terms of weighted values p and weights w: p, p p, p^3 w, p^4; w, w w, p w, p^2 w^2, p w^3, w^4.
_UNWEIGHTED = ((0,), (0, 0), (0, 0, 0), (0, 0, 0, 0))
_WEIGHTED = (
    *((0,), (0, 0), (0, 0, 0, 1), (0, 0, 0, 0)),
    *((1,), (1, 1), (0, 1), (0, 0, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1)),
)

# The same with nested clusters: p and w of groups, then their sums P and W over each cluster.
_NESTED = (
    *((0,), (2, 2), (2, 2, 2, 3), (2, 2, 2, 2)),
    *((1,), (3, 3), (2, 3), (2, 2, 3, 3), (2, 3, 3, 3), (3, 3, 3, 3)),
)

# The terms that `ModelSums` needs, in its order: of groups, then of clusters.
_OF_UNWEIGHTED = (0, 1, 0, -1, -1, 3, 2, 1, 0, -1)
_OF_WEIGHTED = _OF_CLUSTERS = (0, 1, 6, 5, 4, 3, 2, 7, 8, 9)
_OF_UNWEIGHTED_CLUSTERS = (0, 1, 6, 5, -1, 3, 2, 7, 8, 9)
# Of a sum, where each cluster has the weight 1.
_OF_SUM = (0, 1, 0, -1, -1, 3, 2, 7, 8, 9)

# Terms of p and w of both models: p q, p v, w q and w v. Terms of the
# differences d of values and e of weighted values: d, d d, e^4.
_PAIRED = ((0, 2), (0, 3), (1, 2), (1, 3), (4,), (4, 4), (5, 5, 5, 5))

#: The terms of sums by their kind.
UNWEIGHTED, WEIGHTED, PAIRED, NESTED = range(4)
KINDS = _UNWEIGHTED, _WEIGHTED, _PAIRED, _NESTED
# Keys of the counters of groups used, and of groups left out, which has the reason too.
_COUNTS, _DROPPED = "counts", "dropped"

# Counters of a slice: of one model, between them rows and positives of these groups; of two models.
_USED, _CLUSTERS = 0, 3
_WINS, _TIES, _LOSSES, _ONLY_BASE, _ONLY_OTHER = range(5)

#: Two values count as equal if they differ by at most this share of the larger one. A value that is
#: summed in two orders differs in its last bits, which is neither a win nor a loss.
EQUAL_WITHIN = 2.0**-40


@dataclass(frozen=True)
class Clusters:
    """The groups of each nested cluster; those of a slice are a cluster there.

    Parameters
    ----------
    starts : ndarray of int64, shape (clusters + 1,)
        First of its groups in `order`, then the number of groups.
    order : ndarray of int64, shape (groups,), or None
        The groups of one cluster after those of another; None: as they stand.
    slices : ndarray of int64, shape (clusters,), or (0,)
        The slice of each cluster; an empty array stands for the first slice.
    """

    starts: np.ndarray
    order: np.ndarray | None = None
    slices: np.ndarray = field(default_factory=lambda: NO_SLICES)

    @classmethod
    def of(cls, starts: np.ndarray, slices: np.ndarray) -> Self:
        """Divide clusters of consecutive groups by the slice of each group."""
        cluster = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        order = np.lexsort((slices, cluster))
        cluster, slices = cluster[order], slices[order]
        differ = (cluster[1:] != cluster[:-1]) | (slices[1:] != slices[:-1])
        edges = np.flatnonzero(np.append(True, differ)[: len(order)])
        return cls(np.append(edges, len(order)), order, frozen(slices[edges]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def heads(self) -> np.ndarray:
        """The first group of each cluster."""
        firsts = self.starts[:-1]
        return firsts if self.order is None else self.order[firsts]

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Sum values of groups over each cluster, rounded once; inf if too large."""
        sums = np.empty(len(self))
        values = values if self.order is None else values[self.order]
        GroupSums(self.starts, sums, ExactSums([(0,)]), 0).add(values)
        return sums

    def count(self, numbers: np.ndarray) -> np.ndarray:
        """Sum integers of groups over each cluster."""
        total = np.append(0, np.cumsum(numbers if self.order is None else numbers[self.order]))
        return np.diff(total[self.starts])

    def by_slice(self, which: np.ndarray) -> np.ndarray | int:
        """Count the clusters of a mask, by slice."""
        if not len(self.slices):
            return int(np.count_nonzero(which))
        return np.bincount(self.slices[which])


class _GroupState(States):
    """Exact sums and counts of several measures over groups, by slice.

    Parts are the counters of all measures, and the sums of a measure by the kind of their terms.
    """

    #: The number of counters of groups; those of clusters follow.
    _OF_GROUPS: ClassVar[int]

    def __init__(self, measures: int, counters: int) -> None:
        self.parts = {_COUNTS: SliceCounts.zeros(counters, measures)}

    @property
    def counts(self) -> SliceCounts:
        """The counters of each measure."""
        return cast(SliceCounts, self.parts[_COUNTS])

    def sums(self, m: int, kind: int) -> ExactSums:
        """Return the sums of the terms of a kind, zeros if there are none."""
        return cast(ExactSums, self.parts.get((m, kind)) or ExactSums(KINDS[kind]))

    def _own(self, m: int, kind: int) -> ExactSums:
        return cast(ExactSums, self.parts.setdefault((m, kind), ExactSums(KINDS[kind])))

    def _kind(self, m: int) -> int:
        kinds = (kind for kind in range(NESTED, -1, -1) if (m, kind) in self.parts)
        return next(kinds, NESTED if self.nested else UNWEIGHTED)

    def add_counts(self, m: int, counts: np.ndarray) -> None:
        """Add counts of groups, by slice."""
        self.counts.add(slice(self._OF_GROUPS), counts, m)

    def __len__(self) -> int:
        """Return the number of measures."""
        return len(self.counts.tables)

    @property
    def nested(self) -> bool:
        """Whether groups are added in clusters."""
        return self.counts.tables.shape[2] > self._OF_GROUPS

    def of_measures(self, measures: Sequence[int]) -> Self:
        """Return the sums of some measures; they share memory with these."""
        parts: dict[Hashable, object] = {}
        for key, part in self.parts.items():
            if isinstance(part, SliceCounts):
                parts[key] = SliceCounts(part.tables[list(measures)])
            else:
                parts |= {(new, key[1]): part for new, m in enumerate(measures) if m == key[0]}
        return self.with_parts(parts)

    def to_arrays(self) -> Arrays:
        """Write the sums and the counters of every slice."""
        counts = self.counts.tables
        arrays: Arrays = {"counts": counts}
        for m in range(len(self)):
            arrays |= self.sums(m, self._kind(m)).to_arrays(f"{m}.sums", counts.shape[1])
        return arrays

    def read_like(self, slices: int, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the sums of as many measures, counters and slices."""
        measures, _, counters = self.counts.tables.shape
        if arrays["counts"].shape != (measures, slices, counters):
            raise ValueError(
                f"counts must be of {measures} measures, {slices} slices and {counters} counters, "
                f"got shape {arrays['counts'].shape}"
            )
        return self.from_arrays(arrays)

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""

    def _read(self, arrays: Mapping[str, np.ndarray], kinds: Iterable[int]) -> Self:
        """Read the sums and the counters that `to_arrays` wrote."""
        counts = arrays["counts"]
        self.parts[_COUNTS] = SliceCounts(counts.copy())
        for m, kind in zip(range(len(counts)), kinds, strict=True):
            name, slices = f"{m}.sums", counts.shape[1]
            self.parts[m, kind] = ExactSums.from_arrays(KINDS[kind], arrays, name, slices)
        return self


class MeanState(_GroupState):
    """Sums of one model's measures over groups, and their coverage, by slice.

    Parameters
    ----------
    measures : int
        Number of measures.
    nested : bool
        Whether groups are added in clusters.
    """

    _OF_GROUPS = 3

    def __init__(self, measures: int, nested: bool = False) -> None:
        super().__init__(measures, 3 + nested)

    def add_nested(
        self,
        m: int,
        values: np.ndarray,
        weights: np.ndarray | None,
        clusters: Clusters,
        slices: np.ndarray = NO_SLICES,
        *,
        is_sum: bool = False,
    ) -> bool:
        """Add the terms of groups and of their clusters, but no counts of groups.

        Parameters
        ----------
        m : int
            Index of the measure.
        values : ndarray of float64, shape (groups,)
            Of all groups of the clusters; NaN where a group is not used.
        weights : ndarray of float64, shape (groups,), or None
            Group weights, above 0 where the group is used. None means 1 each.
        clusters : Clusters
        slices : ndarray of int64, shape (groups,), or (0,)
            The slice of each group.
        is_sum : bool
            The measure is a sum over groups, not a mean: every cluster has the weight 1.
        """
        p, w = weighted_terms(values, weights)
        numbers, of_clusters = np.empty((2, len(clusters))), clusters.sum(w)
        used = of_clusters > 0
        numbers[0], numbers[1] = clusters.sum(p), used if is_sum else of_clusters
        self.counts.add(_CLUSTERS, clusters.by_slice(used), m)
        sums = self._own(m, NESTED)
        finite = sums.add(p[np.newaxis], slices, 0, ONE_NUMBER)
        if weights is not None:
            finite &= sums.add(w[np.newaxis], slices, 4, ONE_NUMBER)
        for first, terms in ((1, _WEIGHTED[1:4]), (5, _WEIGHTED[5:])):
            finite &= sums.add(numbers, clusters.slices, first, terms)
        return finite

    def with_clusters(self, terms: Sequence[np.ndarray | None], slices: np.ndarray) -> MeanState:
        """Replace the terms of clusters and their number; values stay.

        Parameters
        ----------
        terms : sequence of ndarray of float64, shape (2, clusters), or None
            For each measure the sums P and W over each cluster; None: the measure stays as it is.
        slices : ndarray of int64, shape (clusters,)
            The slice of each cluster.
        """
        state = self.with_parts(self.parts | {_COUNTS: self.counts.widened(_CLUSTERS + 1)})
        for m, numbers in enumerate(terms):
            if numbers is None:
                continue
            state.counts.tables[m, :, _CLUSTERS] = 0
            state.counts.add(_CLUSTERS, np.bincount(slices[numbers[1] > 0]), m)
            sums = self.sums(m, self._kind(m)).with_terms(_NESTED, (0, 4))
            sums.add(np.concatenate([np.zeros_like(numbers), numbers]), slices)
            state.parts[m, NESTED] = sums
        return state

    def drop(self, m: int, reason: str, groups: np.ndarray | int) -> None:
        """Count groups of each slice that measure `m` does not use."""
        counts = np.array(groups, np.int64, ndmin=1)
        if counts.any():
            if (_DROPPED, reason) not in self.parts:
                self.parts[_DROPPED, reason] = SliceCounts.zeros(1, len(self))
            cast(SliceCounts, self.parts[_DROPPED, reason]).add(0, counts, m)

    def _dropped(self) -> list[tuple[str, SliceCounts]]:
        """List the groups left out by reason."""
        return [(key[1], part) for key, part in self.parts.items() if key[0] == _DROPPED]

    def to_arrays(self) -> Arrays:
        """Write the sums, the counters, and the dropped groups by reason.

        All allocated slices are written. Use `take` to choose slices.
        """
        arrays = super().to_arrays()
        weighted = np.array([self._kind(m) == WEIGHTED for m in range(len(self))], np.uint8)
        # The order of parts is that of the file.
        counts = arrays["counts"]
        arrays = {"counts": counts, "weighted": weighted} | arrays
        dropped = {reason: part.tables for reason, part in self._dropped() if part.tables.any()}
        reasons = sorted(dropped)
        arrays["reasons"] = np.frombuffer("\n".join(reasons).encode(), np.uint8)
        arrays["dropped"] = np.zeros((*counts.shape[:2], len(reasons)), np.int64)
        for r, reason in enumerate(reasons):
            groups = dropped[reason]
            arrays["dropped"][:, : groups.shape[1], r] = groups[:, :, 0]
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        counts = arrays["counts"]
        kinds = np.where(counts.shape[2] > _CLUSTERS, NESTED, arrays["weighted"] > 0).tolist()
        state = cls(len(counts))._read(arrays, kinds)
        reasons = arrays["reasons"].tobytes().decode().split("\n")
        for m, dropped in enumerate(arrays["dropped"]):
            for reason, groups in zip(reasons, dropped.T, strict=False):
                state.drop(m, reason, groups)
        return state

    def moments(self, m: int, weighted: bool, row: int = 0, *, is_sum: bool = False) -> Moments:
        """Compute the mean or the sum of a slice, and what its interval needs."""
        return next(self.model_sums(m, weighted, [row], is_sum=is_sum).moments())

    def model_sums(
        self, m: int, weighted: bool, rows: Sequence[int] | np.ndarray, *, is_sum: bool = False
    ) -> ModelSums:
        """Return the exact sums that standard errors need.

        Nested clusters take the place of groups.
        """
        kind = self._kind(m) or int(weighted)
        sums, which, counts = self.sums(m, kind), np.asarray(rows, np.int64), self.counts.tables[m]
        if kind == NESTED:
            terms = _OF_SUM if is_sum else _OF_CLUSTERS if weighted else _OF_UNWEIGHTED_CLUSTERS
            ones = _CLUSTERS if is_sum else _USED
            return ModelSums(sums, which, terms, counts, _CLUSTERS, ones, is_sum)
        terms = _OF_WEIGHTED if weighted else _OF_UNWEIGHTED
        return ModelSums(sums, which, terms, counts, _USED, _USED, is_sum)

    def dropped(self, m: int) -> dict[str, int]:
        """Count the dropped groups of the first slice by reason, sorted."""
        return self.dropped_of(m, np.zeros(1, np.int64))[0]

    def dropped_of(self, m: int, slices: np.ndarray) -> list[dict[str, int]]:
        """Count the dropped groups of each slice by reason, in alphabetical order."""
        wanted, counts = slices.tolist(), []
        for why, part in sorted(self._dropped(), key=itemgetter(0)):
            of = part.tables[m, :, 0].tolist()
            if any(of):
                counts.append((why, [of[i] if 0 <= i < len(of) else 0 for i in wanted]))
        return [{why: n for why, of in counts if (n := of[i])} for i in range(len(slices))]


@dataclass(frozen=True)
class GroupPairs:
    """How the groups of two models compare.

    Parameters
    ----------
    higher, ties, lower : int
        Groups that both models use, by the other model's value against the base model's.
    only_base, only_other : int
        Groups that one of them uses.
    """

    higher: int
    ties: int
    lower: int
    only_base: int
    only_other: int

    @property
    def both(self) -> int:
        """Groups that both models use."""
        return self.higher + self.ties + self.lower

    @property
    def groups(self) -> int:
        """Groups that either model uses."""
        return self.both + self.only_base + self.only_other


class PairedState(_GroupState):
    """Sums over groups of a base model and another model, by slice.

    Parameters
    ----------
    measures : int
        Number of measures.
    nested : bool
        Whether groups are added in clusters.
    """

    _OF_GROUPS = 5

    def __init__(self, measures: int, nested: bool = False) -> None:
        super().__init__(measures, 10 if nested else 5)

    def add_nested(
        self,
        m: int,
        values: Sequence[np.ndarray],
        weights: Sequence[np.ndarray | None],
        clusters: Clusters,
    ) -> None:
        """Add the terms of clusters, but no counts of groups.

        Parameters
        ----------
        m : int
            Index of the measure.
        values : sequence of ndarray of float64, shape (groups,)
            Of the base model and the other, NaN where a group is not used.
        weights : sequence of ndarray of float64, shape (groups,), or None
            Their group weights. None means 1 each.
        clusters : Clusters
        """
        base, other = values
        terms = [each for pair in map(weighted_terms, values, weights) for each in pair]
        differences, used, equal = cluster_differences(base, other, terms[1], clusters)
        sums = np.empty((6, len(differences)))
        for term, numbers in enumerate(terms):
            sums[term] = clusters.sum(numbers)
        sums[4] = differences
        np.subtract(sums[2], sums[0], out=sums[5])
        both = used > 0
        only_base = (sums[1] > 0) & ~both
        masks = (
            *(both & (differences > 0), both & equal, both & (differences < 0)),
            *(only_base, (sums[3] > 0) & ~both & ~only_base),
        )
        for column, mask in enumerate(masks):
            self.counts.add(5 + column, clusters.by_slice(mask), m)
        self._own(m, PAIRED).add(sums, clusters.slices)

    def with_clusters(
        self, terms: Sequence[tuple[np.ndarray, np.ndarray] | None], slices: np.ndarray
    ) -> PairedState:
        """Replace the sums of clusters and their number.

        As `MeanState.with_clusters`. `terms` are of both models. Differences of values in clusters
        are unknown, and so are 0.
        """
        state = self.with_parts(self.parts | {_COUNTS: self.counts.widened(10)})
        for m, pair in enumerate(terms):
            if pair is None:
                continue
            (p, w), (q, v) = pair
            base, other = w > 0, v > 0
            state.counts.tables[m, :, 5:] = 0
            for column, used in ((6, base & other), (8, base & ~other), (9, other & ~base)):
                state.counts.add(column, np.bincount(slices[used]), m)
            state.parts[m, PAIRED] = sums = ExactSums(_PAIRED)
            sums.add(np.stack([p, w, q, v, np.zeros_like(p), q - p]), slices)
        return state

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        measures = len(arrays["counts"])
        return cls(measures)._read(arrays, [PAIRED] * measures)

    def differences(
        self,
        m: int,
        base: ModelSums,
        other: ModelSums,
        slopes: Sequence[float] | None = (1.0, 1.0),
    ) -> Differences:
        """Compute the error of the difference of two models in one slice.

        Parameters
        ----------
        m : int
            Index of the measure.
        base, other : ModelSums
            The sums of both models.
        slopes : sequence of float, or None
            As for `difference_of_models`.
        """
        row = int(base.rows[0])
        units = self.clusters(m, row) or self.pairs(m, row)
        return difference_of_models(
            base, other, self.sums(m, PAIRED), units.groups, units.both, slopes
        )

    def clusters(self, m: int, row: int = 0) -> GroupPairs | None:
        """Return the counts of nested clusters; None if each group is one."""
        return self._pairs(m, row, 5) if self.nested else None

    def pairs(self, m: int, row: int = 0) -> GroupPairs:
        """Return the counts of wins, ties and losses over groups."""
        return self._pairs(m, row, 0)

    def _pairs(self, m: int, row: int, first: int) -> GroupPairs:
        return GroupPairs(*(self.counts.at(row, first + column, m) for column in range(5)))


def weighted_terms(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Compute p and w of each group, 0 where it is not used."""
    used = ~np.isnan(values)
    w = used.astype(np.float64) if weights is None else np.where(used, weights, 0.0)
    return np.where(used, values, 0.0) * w, w


def cluster_differences(
    base: np.ndarray, other: np.ndarray, weights: np.ndarray, clusters: Clusters
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Average the differences of two models in groups over each cluster.

    Parameters
    ----------
    base, other : ndarray of float64, shape (groups,)
        Values, NaN where a group is not used.
    weights : ndarray of float64, shape (groups,)
        Weights of the base model.
    clusters : Clusters

    Returns
    -------
    differences, weights : ndarray of float64, shape (clusters,)
        Weighted means, and the weights of the groups that both models use.
    equal : ndarray of bool, shape (clusters,)
        Whether the difference is 0, or rounding alone: see `EQUAL_WITHIN`.
    """
    both = ~(np.isnan(base) | np.isnan(other))
    w = np.where(both, weights, 0.0)
    size = np.where(both, np.maximum(np.abs(base), np.abs(other)), 0.0)
    differences = np.where(both, other - base, 0.0)
    differences[np.abs(differences) <= EQUAL_WITHIN * size] = 0.0
    total, weight = clusters.sum(w * differences), clusters.sum(w)
    equal = np.abs(total) <= EQUAL_WITHIN * clusters.sum(w * size)
    mean = np.zeros(len(total))
    np.divide(total, weight, out=mean, where=(weight > 0) & ~equal)
    return mean, weight, equal


#: Buckets of each slice. An error over B buckets has itself a relative error of 1 / sqrt(2 B).
BUCKETS = 1024
_TERMS = ((0,), (1,))


def buckets_of(ids: np.ndarray) -> np.ndarray:
    """Return the bucket of each cluster by its id. int64, shape (clusters,)."""
    return frozen((ids % np.uint64(BUCKETS)).astype(np.int64))


def rows_of_buckets(buckets: np.ndarray, slices: np.ndarray = NO_SLICES) -> np.ndarray:
    """Return the row of sums of a bucket in a slice, by default the first."""
    return frozen(buckets + BUCKETS * slices) if len(slices) else buckets


def slice_of_rows(slices: int) -> np.ndarray:
    """Return the slice of each row of sums. int64, shape (slices * BUCKETS,)."""
    return frozen(np.repeat(np.arange(slices), BUCKETS))


def rounded(sums: ExactSums, rows: int = BUCKETS) -> np.ndarray:
    """Round the sums of numbers in the first rows once.

    Returns
    -------
    ndarray of float64, shape (terms, rows)
        inf above the largest double.
    """
    totals = np.zeros((len(sums.terms), rows))
    known = min(rows, sums.digits.shape[1])
    if sums.digits.shape[2]:
        out = np.empty((len(totals), known))
        round_all(sums.digits[:, :known].copy(), 32 * sums.lowest - 2 * UNIT, out)
        totals[:, :known] = out
    return totals


class BucketSums(States):
    """Exact sums of weighted values and weights of measures, by bucket.

    Parameters
    ----------
    measures : int
        Number of measures.

    Examples
    --------
    >>> sums = BucketSums(1)
    >>> sums.add(0, np.array([0.5, 1.0, 0.25]), np.array([2.0, 1.0, 4.0]), np.array([7, 9, 7]))
    >>> sums.terms(0, 1)[:, [7, 8, 9]].tolist()
    [[2.0, 0.0, 1.0], [6.0, 0.0, 1.0]]
    """

    def __init__(self, measures: int) -> None:
        self.parts: dict[int, ExactSums] = {m: ExactSums(_TERMS) for m in range(measures)}

    def add(self, m: int, values: np.ndarray, weights: np.ndarray | None, rows: np.ndarray) -> None:
        """Add groups.

        Parameters
        ----------
        m : int
            Index of the measure.
        values : ndarray of float64, shape (groups,)
            NaN where the group is not used.
        weights : ndarray of float64, shape (groups,), or None
            Group weights. None means 1 each.
        rows : ndarray of int64, shape (groups,)
            Of `rows_of_buckets`.
        """
        self.parts[m].add(np.stack(weighted_terms(values, weights)), rows)

    def of_measures(self, measures: Sequence[int]) -> Self:
        """Return the sums of some measures; they share memory with these."""
        return self.with_parts({new: self.parts[m] for new, m in enumerate(measures)})

    def take(self, slices: np.ndarray) -> Self:
        """Select the sums of some slices, in this order; zeros for -1."""
        rows = slices[:, np.newaxis] * BUCKETS + np.arange(BUCKETS)
        rows = np.where(slices[:, np.newaxis] < 0, -1, rows).ravel()
        return super().take(rows)

    def terms(self, m: int, slices: int) -> np.ndarray:
        """Return weighted values and weights. float64, shape (2, rows)."""
        return rounded(self.parts[m], slices * BUCKETS)

    def to_arrays(self) -> Arrays:
        """Write the sums of every slice."""
        arrays: Arrays = {}
        for m, sums in self.parts.items():
            arrays |= sums.to_arrays(f"{m}.sums", sums.digits.shape[1])
        return arrays

    def read_like(self, slices: int, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the sums of as many measures that `to_arrays` wrote."""
        rows = slices * BUCKETS
        return self.with_parts(
            {m: ExactSums.from_arrays(_TERMS, arrays, f"{m}.sums", rows) for m in self.parts}
        )
