"""AUC in fixed memory: scores counted in bins spaced by logit, with a bound of the error.

Scores become whole numbers of the same order, equally many to each power of two of the score's
distance from 0 and, beyond one half, from 1. A bin is what is left of such a number without its
lowest bits: as many of them as it takes for all rows to fit the bins. That number follows from the
scores alone, in whatever order, parts and threads they come, and so does every count.

Two scores of one bin count as tied. Pairs that share a bin of more than one score are all that can
be wrong, each by one half.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays, delta_decode, delta_encode, narrow
from fastrank_eval.stats.score_table import products, scores_of, sortable_codes
from fastrank_eval.stats.weighted_scores import area_under

#: Rows that a thread collects before it puts them into bins.
_TOGETHER = 1 << 18
#: Bits of a weight that a counter of weights takes, so that 2**32 rows fit; counters of a class.
_LIMB, _LIMBS = 30, 4
#: Exponent of rows that weigh nothing: below that of any weight.
_NO_WEIGHT = -36 * _LIMB
#: Columns of `Bins` that ascend.
_ASCENDING = ("keys", "lowest", "highest")


@dataclass(slots=True)
class Bins:
    """Rows in bins.

    Parameters
    ----------
    level : int
        How many of the lowest bits of a key do not matter.
    keys : ndarray of uint64, shape (bins,)
        Ascending; of the bins that are not empty.
    lowest, highest : ndarray of uint64, shape (bins,)
        Codes of the scores in each.
    counts : ndarray of int64, shape (2 * counters, bins)
        Of positives, then of others: rows, or the parts of their weight.
    exponent : int
        Of the weights: a unit of the last part is 2 ** (exponent - _LIMBS * _LIMB).
    rows : int
        How many have lost what is less than such a unit.
    """

    level: int
    keys: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    counts: np.ndarray
    exponent: int = 0
    rows: int = 0


class BinnedScores:
    """Scores in bins, for AUC with a bound of its error; threads may add at the same time.

    Row weights are added as whole multiples of some 2**-90 of the heaviest, so that their sums do
    not depend on the order of the rows either; the bound knows of what they lose.

    Parameters
    ----------
    bins : int
        How many at most.
    weighted : bool
        Whether rows have weights.
    """

    def __init__(self, bins: int, weighted: bool = False) -> None:
        self._bins = bins
        self._weighted = weighted
        self._lock = threading.Lock()
        self._own = threading.local()
        self._parts: list[_Part] = []
        #: Bins in use, once the value has been asked for.
        self.used = 0
        #: Why there was no value.
        self.missing = "single_class"

    def add(
        self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray | None = None
    ) -> None:
        """Add rows; see `pooled.PooledScores.add`, and float64 weights of shape (rows,)."""
        mine: _Part | None = getattr(self._own, "part", None)
        if mine is None:
            mine = self._own.part = _Part(self._bins, self._weighted)
            with self._lock:
                self._parts.append(mine)
        mine.add(score, positive, weight)

    def merge(self, other: BinnedScores) -> None:
        """Add another state of as many bins, used up; the order of merging does not matter."""
        with self._lock:
            self._parts += other._parts

    def saved(self) -> Arrays:
        """The bins of all rows.

        Returns
        -------
        dict of ndarray
            ``setup`` (int64): most bins, whether rows have weights, and level, exponent and rows of
            `Bins`; ``keys``, ``lowest``, ``highest``: as `array_codes.delta_encode`; ``counts``.
        """
        bins = self._all()
        setup = [self._bins, self._weighted, bins.level, bins.exponent, bins.rows]
        columns = {name: delta_encode(getattr(bins, name)) for name in _ASCENDING}
        return {"setup": np.array(setup, np.int64), **columns, "counts": narrow(bins.counts)}

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        most, weighted, level, exponent, rows = parts["setup"].tolist()
        state = cls(most, bool(weighted))
        part = _Part(most, bool(weighted))
        keys, lowest, highest = (delta_decode(parts[name]) for name in _ASCENDING)
        if len(keys):
            counts = parts["counts"].astype(np.int64)
            part._bins = Bins(level, keys, lowest, highest, counts, exponent, rows)
        state._parts.append(part)
        return state

    def _all(self) -> Bins:
        with self._lock:
            return _put_together([part.all() for part in self._parts], self._bins)

    def auc(self) -> tuple[float, float]:
        """The area under the ROC curve, and how far from the exact one it may be.

        Returns
        -------
        area : float
            NaN if either class is missing or weighs nothing.
        bound : float
            0 where no bin holds more than one score.
        """
        bins = self._all()
        self.used = len(bins.keys)
        if not self.used:
            return math.nan, math.nan
        shared = bins.lowest != bins.highest
        if self._weighted:
            return self._weighted_area(bins, shared)
        positives, others = bins.counts
        all_positives, all_others = int(positives.sum()), int(others.sum())
        pairs = all_positives * all_others
        if not pairs:
            return math.nan, math.nan
        below = np.cumsum(others) - others
        won = products(positives, 2 * below + others)
        area = won / (2 * pairs)
        tied = products(positives[shared], others[shared])
        # What rounding both quotients may add, where they differ at all.
        return area, tied / (2 * pairs) + 2.0**-52 if tied else 0.0

    def _weighted_area(self, bins: Bins, shared: np.ndarray) -> tuple[float, float]:
        units = [2.0 ** (-_LIMB * (limb + 1)) for limb in range(_LIMBS)]
        positives, others = (
            np.sum([part * unit for part, unit in zip(parts, units, strict=True)], axis=0)
            for parts in (bins.counts[:_LIMBS], bins.counts[_LIMBS:])
        )
        area = area_under(others[::-1], positives[::-1], None)
        if math.isnan(area):
            self.missing = "single_class" if positives.any() or others.any() else "zero_weight"
            return math.nan, math.nan
        tied = float(np.sum(positives[shared] * others[shared]))
        bound = tied / (2 * positives.sum() * others.sum())
        # Each weight lost less than a unit, each sum as much for each row.
        lost = bins.rows * units[-1] / min(positives.sum(), others.sum())
        return area, float(min(bound + 4 * lost, 1.0) + 1e-12)


class _Part:
    """What one thread has added."""

    def __init__(self, bins: int, weighted: bool) -> None:
        self._most = bins
        self._weighted = weighted
        self._bins = _no_bins(weighted)
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._weights: list[np.ndarray] = []
        self._rows = 0

    def add(self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray | None) -> None:
        mask = np.zeros(len(score), np.bool_)
        mask[positive] = True
        self._waiting.append((sortable_codes(score), mask))
        if weight is not None:
            self._weights.append(weight.copy())
        self._rows += len(score)
        if self._rows >= _TOGETHER:
            self.all()

    def all(self) -> Bins:
        """The bins of all rows."""
        if self._waiting:
            codes, positive = (np.concatenate(part) for part in zip(*self._waiting, strict=True))
            level = self._bins.level
            if self._weighted:
                new = [_weighed(codes, positive, np.concatenate(self._weights), level)]
            else:
                new = [
                    _counted(codes[positive], level, 0, 2),
                    _counted(codes[~positive], level, 1, 2),
                ]
            self._waiting.clear()
            self._weights.clear()
            self._rows = 0
            self._bins = _put_together([self._bins, *new], self._most)
        return self._bins


def _no_bins(weighted: bool) -> Bins:
    none = np.empty(0, np.uint64)
    return Bins(0, none, none, none, np.empty((2 * _LIMBS if weighted else 2, 0), np.int64))


def keys_of(codes: np.ndarray) -> np.ndarray:
    """Whole numbers of the order of the scores, equally many to each power of two near 0 and 1.

    Parameters
    ----------
    codes : ndarray of uint32 or uint64, ascending
        Of the scores.

    Returns
    -------
    ndarray of uint64
        Below 2**63. Of doubles, four neighbours may share a number.
    """
    kind = np.dtype(f"f{codes.itemsize}").type
    zero, half, one = (int(sortable_codes(np.array([at], kind))[0]) for at in (0.0, 0.5, 1.0))
    down = np.uint64(0 if codes.itemsize == 4 else 2)
    keys = codes.astype(np.uint64) >> down
    zero, half, one = (at >> int(down) for at in (zero, half, one))
    first, past = np.searchsorted(codes, sortable_codes(np.array([0.5, 1.0], kind)), side="right")
    # The distance from 1 is exact from one half on.
    near = sortable_codes(kind(1) - scores_of(codes[first:past]))
    keys[first:past] = np.uint64(2 * half) - (near.astype(np.uint64) >> down)
    keys[past:] += np.uint64(2 * half - zero - one)
    return keys


def _counted(codes: np.ndarray, level: int, counter: int, counters: int) -> Bins:
    """The rows of one class in bins."""
    codes = np.sort(codes)
    keys, firsts = _runs(keys_of(codes) >> np.uint64(level))
    counts = np.zeros((counters, len(keys)), np.int64)
    counts[counter] = np.diff(firsts, append=len(codes))
    lasts = np.append(firsts[1:], len(codes)) - 1
    lowest, highest = (codes[at].astype(np.uint64) for at in (firsts, lasts[: len(firsts)]))
    return Bins(level, keys, lowest, highest, counts)


def _weighed(codes: np.ndarray, positive: np.ndarray, weight: np.ndarray, level: int) -> Bins:
    """Rows in bins by their weight."""
    order = np.argsort(codes)
    codes, positive, weight = codes[order], positive[order], weight[order]
    keys, firsts = _runs(keys_of(codes) >> np.uint64(level))
    if not len(keys):
        return _no_bins(True)
    # The next multiple of a part's bits, so that parts of any two states stand level.
    heaviest = float(weight.max())
    exponent = -(-math.frexp(heaviest)[1] // _LIMB) * _LIMB if heaviest else _NO_WEIGHT
    rest = np.ldexp(weight, -exponent)
    counts = np.zeros((2 * _LIMBS, len(keys)), np.int64)
    for limb in range(_LIMBS):
        rest = np.ldexp(rest, _LIMB)
        whole = np.floor(rest)
        rest -= whole
        part = whole.astype(np.int64)
        counts[limb] = np.add.reduceat(np.where(positive, part, 0), firsts)
        counts[_LIMBS + limb] = np.add.reduceat(np.where(positive, 0, part), firsts)
    lasts = np.append(firsts[1:], len(codes)) - 1
    lowest, highest = (codes[at].astype(np.uint64) for at in (firsts, lasts))
    return Bins(level, keys, lowest, highest, counts, exponent, len(codes))


def _runs(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct ones of ascending keys, and where each begins."""
    fresh = np.empty(len(keys), np.bool_)
    fresh[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    firsts = np.flatnonzero(fresh)
    return keys[firsts], firsts


def _put_together(parts: list[Bins], most: int) -> Bins:
    """All rows in at most so many bins, at the finest level that allows it."""
    parts = [part for part in parts if len(part.keys)]
    if not parts:
        return _no_bins(False)
    level = max(part.level for part in parts)
    exponent = max(part.exponent for part in parts)
    keys = np.concatenate([part.keys >> np.uint64(level - part.level) for part in parts])
    lowest, highest = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("lowest", "highest")
    )
    counts = np.concatenate([_at_exponent(part, exponent) for part in parts], axis=1)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    # Keys fall together as soon as all bits in which they differ are left out.
    changes = np.sort((keys[1:] ^ keys[:-1])[keys[1:] != keys[:-1]])
    if len(changes) >= most:
        more = int(changes[len(changes) - most]).bit_length()
        keys, level = keys >> np.uint64(more), level + more
    keys, firsts = _runs(keys)
    return Bins(
        level,
        keys,
        np.minimum.reduceat(lowest[order], firsts),
        np.maximum.reduceat(highest[order], firsts),
        np.add.reduceat(counts[:, order], firsts, axis=1),
        exponent,
        sum(part.rows for part in parts),
    )


def _at_exponent(part: Bins, exponent: int) -> np.ndarray:
    """Counters beside those of heavier weights: the lightest parts fall away."""
    down = min((exponent - part.exponent) // _LIMB, _LIMBS)
    if not down:
        return part.counts
    counts = np.zeros_like(part.counts)
    for of in (0, _LIMBS):
        counts[of + down : of + _LIMBS] = part.counts[of : of + _LIMBS - down]
    return counts
