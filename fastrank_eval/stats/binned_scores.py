"""Count scores in bins spaced by logit.

This gives the AUC in fixed memory, with an error bound. The weights of a bin take eight bytes for
each 32 powers of two that weights span.

Each score gets a key: an integer of the same order. Each power of two of the distance from 0 and,
above one half, from 1 has the same number of keys. A bin is a key without its lowest bits. The
number of bits left out (the level) is the least for which the bins suffice. So the level and every
count follow from the scores alone. Order, batches and threads do not matter.

Two scores of one bin count as tied. Only pairs inside a bin of more than one score can be wrong,
each by one half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Self, TypeVar

import numpy as np

from fastrank_eval._lib.arrow import Arrays, delta_decode, delta_encode, frozen, narrow
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.threads import JobMap
from fastrank_eval.stats.exact import ONE_NUMBER, UNIT, ExactSums
from fastrank_eval.stats.score_runs import (
    NO_VALUES,
    Codes,
    ScoreTable,
    firsts_of,
    scores_of,
    sort_codes,
    sortable_codes,
    sum_of_products,
)

_Value = TypeVar("_Value")
#: Rows that a thread collects before it counts them in bins.
_BATCH_ROWS = 1 << 18
#: Sums of weights: of positives, then of others.
_WEIGHTS = ((0,), (0,))
#: Columns of `Bins` in ascending order.
_ASCENDING = ("keys", "lowest", "highest")


@dataclass
class Bins:
    """Rows in bins.

    Parameters
    ----------
    level : int
        Lowest bits of a key that are left out.
    keys : ndarray of uint64, shape (bins,)
        Of the bins that have rows, ascending.
    lowest, highest : ndarray of uint64, shape (bins,)
        Codes of the lowest and the highest score of each bin.
    counts : ndarray of int64, shape (2, bins), or ExactSums
        Of positives, then of others: their rows, or the sums of their weights by bin.
    """

    level: int
    keys: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    counts: np.ndarray | ExactSums

    @property
    def distinct(self) -> int:
        """Distinct scores; the least number if a bin has more than one."""
        return len(self.keys) + int(np.count_nonzero(self.lowest != self.highest))

    def rows(self) -> tuple[np.ndarray, float]:
        """Return the counts and 1, or sums of weights as `scaled_weights`."""
        counts = self.counts
        return scaled_weights(counts) if isinstance(counts, ExactSums) else (counts, 1.0)


class BinnedScores:
    """Scores in bins, for AUC with an error bound.

    Threads may add at the same time.

    Parameters
    ----------
    bins : int
        The largest number of bins.
    weighted : bool
        Whether rows have weights.
    """

    def __init__(self, bins: int, weighted: bool = False) -> None:
        self._most, self._weighted = bins, weighted
        # A thread borrows some rows that are not counted, or some bins, and puts them back.
        self._pending: list[list[Codes]] = []
        self._counted: list[Bins] = []
        self._level = 0

    def add(self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray | None = None) -> int:
        """Add rows, as `PooledScores.add`; weights are float64 of shape (rows,).

        Returns
        -------
        int
            A level; that of all rows is no less.
        """
        signed = np.ones(len(score), np.int8) if weight is None else weight.copy()
        signed[positive] = -signed[positive]
        if not len(score):
            return self._level
        rows = _borrowed(self._pending, [])
        rows.append(Codes(sortable_codes(score), signed))
        if sum(len(codes) for codes, _ in rows) < _BATCH_ROWS:
            self._pending.append(rows)
        else:
            self._count(rows)
        return self._level

    def _count(self, rows: list[Codes]) -> None:
        """Count rows in bins; weights are negative where the row is positive."""
        bins = _borrowed(self._counted, _empty_bins())
        codes, signed = (np.concatenate(part) for part in zip(*rows, strict=True))
        added = _bins_of(Codes(codes, signed), bins.level, self._most, self._weighted)
        bins = merge_bins([bins, added], self._most)
        self._level = max(self._level, bins.level)
        self._counted.append(bins)

    def merge(self, other: BinnedScores) -> None:
        """Add another state of as many bins; the order of merging does not matter."""
        self._pending += other._pending
        self._counted += other._counted

    def to_arrays(self) -> Arrays:
        """Write the bins of all rows.

        Returns
        -------
        dict of ndarray
            ``setup`` (int64): the largest number of bins, whether rows have weights, and the level
            of `Bins`; ``keys``, ``lowest`` and ``highest`` as differences (see `delta_encode`);
            ``counts``, or with weights ``counts.at`` and ``counts.digits`` of `ExactSums`.
        """
        bins = self.merged_bins()
        setup = np.array([self._most, self._weighted, bins.level], np.int64)
        columns = {name: delta_encode(getattr(bins, name)) for name in _ASCENDING}
        if isinstance(bins.counts, ExactSums):
            return {"setup": setup, **columns, **bins.counts.to_arrays("counts", len(bins.keys))}
        return {"setup": setup, **columns, "counts": narrow(bins.counts)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        if len(arrays["setup"]) != 3:
            raise ValueError(f"setup must have 3 numbers, got {len(arrays['setup'])}")
        max_bins, weighted, level = arrays["setup"].tolist()
        state = cls(max_bins, bool(weighted))
        keys, lowest, highest = (delta_decode(arrays[name]) for name in _ASCENDING)
        if len(keys):
            counts = (
                ExactSums.from_arrays(_WEIGHTS, arrays, "counts", len(keys))
                if weighted
                else arrays["counts"].astype(np.int64)
            )
            state._counted.append(Bins(level, keys, lowest, highest, counts))
        return state

    def merged_bins(self) -> Bins:
        """Return the bins of all rows, while no thread adds."""
        pending, self._pending = self._pending, []
        for rows in pending:
            self._count(rows)
        self._counted = [merge_bins(self._counted, self._most)]
        return self._counted[0]

    def table(self) -> ScoreTable:
        """Return the positives and others of each bin, the highest first."""
        bins = self.merged_bins()
        counts, scale = bins.rows()
        keys, positives, others = (frozen(each[::-1].copy()) for each in (bins.keys, *counts))
        return ScoreTable(keys, positives, others, scale)

    def auc(self) -> tuple[float, float]:
        """Compute the area under the ROC curve and a bound of its error.

        Returns
        -------
        area : float
            NaN if a class has no row or no weight.
        bound : float
            0 if no bin has more than one score.
        """
        area, bins = self.table().area(), self.merged_bins()
        if math.isnan(area):
            return math.nan, math.nan
        (positives, others), _ = bins.rows()
        shared = bins.lowest != bins.highest
        if self._weighted:
            tied = float(np.sum(positives[shared] * others[shared]))
            # 1e-12 is for the rounding of the sums.
            return area, float(tied / (2 * positives.sum() * others.sum()) + 1e-12)
        tied, pairs = sum_of_products(positives[shared], others[shared]), positives.sum()
        # 2**-52 is for the rounding of both quotients.
        return area, tied / (2 * int(pairs) * int(others.sum())) + 2.0**-52 if tied else 0.0

    def missing(self, map_jobs: JobMap = map) -> str | None:
        """Return why `auc` is undefined, or None."""
        return self.table().missing


def align_bins(reference: Bins, other: Bins) -> np.ndarray:
    """Count the rows of two states in the same bins, at the coarser level.

    Parameters
    ----------
    reference, other : Bins
        Of scores of one type.

    Returns
    -------
    ndarray of int64 or float64, shape (2, bins)
        Rows or weights of the reference, then of the other state.
    """
    parts = []
    for index, bins in enumerate((reference, other)):
        rows, _ = bins.rows()
        counts = np.zeros_like(rows)
        counts[index] = rows.sum(axis=0)
        parts.append(Bins(bins.level, bins.keys, bins.lowest, bins.highest, counts))
    return np.asarray(merge_bins(parts, 1 << 63).counts)


def scaled_weights(weights: ExactSums) -> tuple[np.ndarray, float]:
    """Round sums of weights to doubles, in a unit near the largest.

    Returns
    -------
    weights : ndarray of float64, shape (2, bins)
    scale : float
        The power of two by which they are multiplied.
    """
    weights.carry()
    used = np.flatnonzero(weights.digits.any(axis=(0, 1)))
    if not len(used):
        return np.zeros(weights.digits.shape[:2]), 1.0
    # Without digits that are always 0, the order of additions is that of any other order of rows.
    digits = weights.digits[:, :, used[0] : used[-1] + 1].astype(np.float64)
    unit = 32 * (weights.lowest + int(used[-1])) - 2 * UNIT
    # The scale is a double, also where all weights are below any normal one.
    scale = min(-unit, 1000)
    shifts = 32 * np.arange(1 - digits.shape[2], 1) + unit + scale
    return np.sum(np.ldexp(digits, shifts), axis=2), 2.0**scale


def _borrowed(shared: list[_Value], new: _Value) -> _Value:
    """Take an item that no other thread has, or a new one."""
    try:
        return shared.pop()
    except IndexError:
        return new


def _empty_bins() -> Bins:
    none = np.empty(0, np.uint64)
    return Bins(0, none, none, none, np.empty((2, 0), np.int64))


@cache
def _marks(itemsize: int) -> np.ndarray:
    """Return the codes of 0, one half and 1."""
    return sortable_codes(np.array([0.0, 0.5, 1.0], f"f{itemsize}"))


def keys_of(codes: np.ndarray, ascending: bool = True) -> np.ndarray:
    """Compute the keys of scores: integers of the same order.

    Each power of two near 0 and near 1 has the same number of keys.

    Parameters
    ----------
    codes : ndarray of uint32 or uint64
        Of the scores.
    ascending : bool
        Whether the codes ascend.

    Returns
    -------
    ndarray of uint64
        Below 2**63. Four neighbouring doubles may share a key.
    """
    marks = _marks(codes.itemsize)
    shift = np.uint64(0 if codes.itemsize == 4 else 2)
    keys = codes.astype(np.uint64) >> shift
    zero, half, one = (value >> int(shift) for value in marks.tolist())
    upper: slice | np.ndarray
    above: slice | np.ndarray
    if ascending:
        first, past = np.searchsorted(codes, marks[1:], side="right")
        upper, above = slice(first, past), slice(past, None)
    else:
        upper, above = (codes > marks[1]) & (codes <= marks[2]), codes > marks[2]
    # From one half on, the distance from 1 is exact.
    near = sortable_codes(1 - scores_of(codes[upper]))
    keys[upper] = np.uint64(2 * half) - (near.astype(np.uint64) >> shift)
    keys[above] += np.uint64(2 * half - zero - one)
    return keys


def _bins_of(rows: Codes, level: int, max_bins: int, weighted: bool) -> Bins:
    """Count rows in bins, or sum their weights: negative where positive."""
    codes, signed = sort_codes(rows if weighted else Codes(rows.codes, NO_VALUES))
    level, keys, lowest, highest, firsts = _cut_bins(codes, level, max_bins)
    sizes = np.diff(firsts, append=len(codes))
    if not weighted:
        # Faster than a sort of all rows with their class.
        positive = sort_codes(Codes(rows.codes[rows.values < 0], NO_VALUES)).codes
        through = np.searchsorted(positive, highest.astype(codes.dtype), side="right")
        positives = np.diff(through, prepend=0)
        return Bins(level, keys, lowest, highest, np.stack([positives, sizes - positives]))
    weights, bins = ExactSums(_WEIGHTS), np.repeat(np.arange(len(keys)), sizes)
    weights.ensure_slices(len(keys))
    for term, mask in enumerate((signed < 0, signed > 0)):
        weights.add(np.abs(signed[mask])[np.newaxis], bins[mask], term, ONE_NUMBER)
    return Bins(level, keys, lowest, highest, weights)


def _cut_bins(
    codes: np.ndarray, level: int, max_bins: int
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return level, keys, lowest and highest codes and first rows of bins."""
    keys = keys_of(codes) >> np.uint64(level)
    firsts = firsts_of(keys)
    keys = keys[firsts]
    # The level of all rows is no less, and few bins merge fast.
    more = _bits_to_drop(keys, max_bins)
    if more:
        keys >>= np.uint64(more)
        runs = firsts_of(keys)
        keys, level, firsts = keys[runs], level + more, firsts[runs]
    lasts = np.append(firsts[1:], len(codes)) - 1
    lowest, highest = (codes[index].astype(np.uint64) for index in (firsts, lasts))
    return level, keys, lowest, highest, firsts


def _bits_to_drop(keys: np.ndarray, max_bins: int) -> int:
    """Return the least number of bits without which keys have few values.

    Parameters
    ----------
    keys : ndarray of uint64, ascending
    max_bins : int
    """
    if len(keys) <= max_bins:
        return 0
    # Two keys share a bin if the level leaves out all bits in which they differ.
    changes = keys[1:] ^ keys[:-1]
    changes = changes[changes > 0]
    if len(changes) < max_bins:
        return 0
    index = len(changes) - max_bins
    return int(np.partition(changes, index)[index]).bit_length()


def merge_bins(parts: Sequence[Bins], max_bins: int) -> Bins:
    """Merge bins into at most `max_bins` bins, at the finest such level."""
    parts = [part for part in parts if len(part.keys)]
    if not parts:
        return _empty_bins()
    if len(parts) == 1 and len(parts[0].keys) <= max_bins:
        return parts[0]
    level = max(part.level for part in parts)
    keys = np.concatenate([part.keys >> np.uint64(level - part.level) for part in parts])
    lowest, highest = (np.concatenate([getattr(p, name) for p in parts]) for name in _ASCENDING[1:])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    more = _bits_to_drop(keys, max_bins)
    keys, level = keys >> np.uint64(more), level + more
    firsts = firsts_of(keys)
    lowest = np.minimum.reduceat(lowest[order], firsts)
    highest = np.maximum.reduceat(highest[order], firsts)
    return Bins(level, keys[firsts], lowest, highest, _merge_counts(parts, order, firsts))


def _merge_counts(
    parts: list[Bins], order: np.ndarray, firsts: np.ndarray
) -> np.ndarray | ExactSums:
    """Add the counts of runs of ordered bins."""
    sums = [part.counts for part in parts if isinstance(part.counts, ExactSums)]
    if not sums:
        counts = np.concatenate([part.counts for part in parts], axis=1)
        return np.add.reduceat(counts[:, order], firsts, axis=1)
    bins = np.empty(len(order), np.int64)
    bins[order] = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(order)))
    ends = np.cumsum([len(part.keys) for part in parts])
    weights = ExactSums(_WEIGHTS)
    weights.ensure_slices(len(firsts))
    for one, of_one in zip(sums, np.split(bins, ends[:-1]), strict=True):
        weights.merge(one, frozen(of_one))
    return weights
