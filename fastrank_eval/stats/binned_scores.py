"""Count scores in bins spaced by logit.

This gives the AUC in fixed memory, with an error bound.

Each score gets a key: an integer of the same order. Each power of two of the distance from 0 and,
above one half, from 1 has the same number of keys. A bin is a key without its lowest bits. The
number of bits left out (the level) is the least for which the bins suffice. So the level and every
count follow from the scores alone. Order, batches and threads do not matter.

Two scores of one bin count as tied. Only pairs inside a bin of more than one score can be wrong,
each by one half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays, delta_decode, delta_encode, narrow
from fastrank_eval.stats.score_table import scores_of, sortable_codes, sum_of_products
from fastrank_eval.stats.weighted_scores import area_under

#: Rows that a thread collects before it counts them in bins.
_BATCH_ROWS = 1 << 18
#: Bits of a weight in one counter, so that 2**32 rows fit; and counters of a class.
_LIMB, _LIMBS = 30, 4
#: Exponent of rows of weight 0: below that of any other weight.
_NO_WEIGHT = -36 * _LIMB
#: Columns of `Bins` in ascending order.
_ASCENDING = ("keys", "lowest", "highest")


@dataclass(slots=True)
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
    counts : ndarray of int64, shape (2 * counters, bins)
        Of positives, then of others: rows, or the limbs of their weight.
    exponent : int
        Of the weights: a unit of the last limb is 2 ** (exponent - _LIMBS * _LIMB).
    rows : int
        Rows whose weights were cut to whole units.
    """

    level: int
    keys: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    counts: np.ndarray
    exponent: int = 0
    rows: int = 0


class BinnedScores:
    """Scores in bins, for AUC with an error bound.

    Threads may add at the same time.

    Row weights are added as multiples of about 2**-90 of the largest weight. So their sums do not
    depend on the order of the rows. The error bound includes this rounding.

    Parameters
    ----------
    bins : int
        The largest number of bins.
    weighted : bool
        Whether rows have weights.
    """

    def __init__(self, bins: int, weighted: bool = False) -> None:
        self._bins = bins
        self._weighted = weighted
        # A thread takes one and puts it back.
        self._parts: list[_ThreadBins] = []
        #: Number of bins, set by `auc`.
        self.bin_count = 0
        #: The reason why `auc` returned NaN.
        self.missing = "single_class"

    def add(
        self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray | None = None
    ) -> None:
        """Add rows, as `PooledScores.add`; weights are float64 of shape (rows,)."""
        try:
            part = self._parts.pop()
        except IndexError:
            part = _ThreadBins(self._bins, self._weighted)
        part.add(score, positive, weight)
        self._parts.append(part)

    def merge(self, other: BinnedScores) -> None:
        """Add another state of as many bins; the order of merging does not matter."""
        self._parts += other._parts

    def to_arrays(self) -> Arrays:
        """Write the bins of all rows.

        Returns
        -------
        dict of ndarray
            ``setup`` (int64): the largest number of bins, whether rows have weights, and level,
            exponent and rows of `Bins`; ``keys``, ``lowest`` and ``highest`` as differences (see
            `array_codes`); ``counts``.
        """
        bins = self._merged_bins()
        setup = [self._bins, self._weighted, bins.level, bins.exponent, bins.rows]
        columns = {name: delta_encode(getattr(bins, name)) for name in _ASCENDING}
        return {"setup": np.array(setup, np.int64), **columns, "counts": narrow(bins.counts)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        max_bins, weighted, level, exponent, rows = arrays["setup"].tolist()
        state = cls(max_bins, bool(weighted))
        own = _ThreadBins(max_bins, bool(weighted))
        keys, lowest, highest = (delta_decode(arrays[name]) for name in _ASCENDING)
        if len(keys):
            counts = arrays["counts"].astype(np.int64)
            own._bins = Bins(level, keys, lowest, highest, counts, exponent, rows)
        state._parts.append(own)
        return state

    def _merged_bins(self) -> Bins:
        return _merge_bins([part.all() for part in self._parts], self._bins)

    def auc(self) -> tuple[float, float]:
        """Compute the area under the ROC curve and a bound of its error.

        Returns
        -------
        area : float
            NaN if a class has no row or no weight.
        bound : float
            0 if no bin has more than one score.
        """
        bins = self._merged_bins()
        self.bin_count = len(bins.keys)
        if not self.bin_count:
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
        won = sum_of_products(positives, 2 * below + others)
        area = won / (2 * pairs)
        tied = sum_of_products(positives[shared], others[shared])
        # 2**-52 is for the rounding of both quotients.
        return area, tied / (2 * pairs) + 2.0**-52 if tied else 0.0

    def _weighted_area(self, bins: Bins, shared: np.ndarray) -> tuple[float, float]:
        units = [2.0 ** (-_LIMB * (limb + 1)) for limb in range(_LIMBS)]
        positives, others = (
            np.sum([limb * unit for limb, unit in zip(limbs, units, strict=True)], axis=0)
            for limbs in (bins.counts[:_LIMBS], bins.counts[_LIMBS:])
        )
        area = area_under(others[::-1], positives[::-1], None)
        if math.isnan(area):
            self.missing = "single_class" if positives.any() or others.any() else "zero_weight"
            return math.nan, math.nan
        tied = float(np.sum(positives[shared] * others[shared]))
        bound = tied / (2 * positives.sum() * others.sum())
        # Rounding took less than a unit from each weight.
        rounding = bins.rows * units[-1] / min(positives.sum(), others.sum())
        return area, float(min(bound + 4 * rounding, 1.0) + 1e-12)


class _ThreadBins:
    """The bins of one thread."""

    def __init__(self, bins: int, weighted: bool) -> None:
        self._max_bins = bins
        self._weighted = weighted
        self._bins = _empty_bins(weighted)
        self._pending: list[tuple[np.ndarray, np.ndarray]] = []
        self._weights: list[np.ndarray] = []
        self._rows = 0

    def add(self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray | None) -> None:
        mask = np.zeros(len(score), np.bool_)
        mask[positive] = True
        self._pending.append((sortable_codes(score), mask))
        if weight is not None:
            self._weights.append(weight.copy())
        self._rows += len(score)
        if self._rows >= _BATCH_ROWS:
            self.all()

    def all(self) -> Bins:
        """Count the pending rows and return the bins of all rows."""
        if self._pending:
            codes, positive = (np.concatenate(part) for part in zip(*self._pending, strict=True))
            level = self._bins.level
            if self._weighted:
                added = [_weight_bins(codes, positive, np.concatenate(self._weights), level)]
            else:
                added = [
                    _count_bins(codes[positive], level, 0, 2),
                    _count_bins(codes[~positive], level, 1, 2),
                ]
            self._pending.clear()
            self._weights.clear()
            self._rows = 0
            self._bins = _merge_bins([self._bins, *added], self._max_bins)
        return self._bins


def _empty_bins(weighted: bool) -> Bins:
    none = np.empty(0, np.uint64)
    return Bins(0, none, none, none, np.empty((2 * _LIMBS if weighted else 2, 0), np.int64))


def keys_of(codes: np.ndarray) -> np.ndarray:
    """Compute the keys of scores: integers of the same order.

    Each power of two near 0 and near 1 has the same number of keys.

    Parameters
    ----------
    codes : ndarray of uint32 or uint64, ascending
        Of the scores.

    Returns
    -------
    ndarray of uint64
        Below 2**63. Four neighbouring doubles may share a key.
    """
    float_type = np.dtype(f"f{codes.itemsize}").type
    zero, half, one = (
        int(sortable_codes(np.array([value], float_type))[0]) for value in (0.0, 0.5, 1.0)
    )
    shift = np.uint64(0 if codes.itemsize == 4 else 2)
    keys = codes.astype(np.uint64) >> shift
    zero, half, one = (value >> int(shift) for value in (zero, half, one))
    first, past = np.searchsorted(
        codes, sortable_codes(np.array([0.5, 1.0], float_type)), side="right"
    )
    # From one half on, the distance from 1 is exact.
    near = sortable_codes(float_type(1) - scores_of(codes[first:past]))
    keys[first:past] = np.uint64(2 * half) - (near.astype(np.uint64) >> shift)
    keys[past:] += np.uint64(2 * half - zero - one)
    return keys


def _count_bins(codes: np.ndarray, level: int, counter: int, counters: int) -> Bins:
    """Count the rows of one class in bins."""
    codes = np.sort(codes)
    keys, firsts = _distinct_keys(keys_of(codes) >> np.uint64(level))
    counts = np.zeros((counters, len(keys)), np.int64)
    counts[counter] = np.diff(firsts, append=len(codes))
    lasts = np.append(firsts[1:], len(codes)) - 1
    lowest, highest = (codes[index].astype(np.uint64) for index in (firsts, lasts[: len(firsts)]))
    return Bins(level, keys, lowest, highest, counts)


def _weight_bins(codes: np.ndarray, positive: np.ndarray, weight: np.ndarray, level: int) -> Bins:
    """Sum the weights of rows in bins."""
    order = np.argsort(codes)
    codes, positive, weight = codes[order], positive[order], weight[order]
    keys, firsts = _distinct_keys(keys_of(codes) >> np.uint64(level))
    if not len(keys):
        return _empty_bins(True)
    # A multiple of a limb's bits, so that the limbs of any two states align.
    largest = float(weight.max())
    exponent = -(-math.frexp(largest)[1] // _LIMB) * _LIMB if largest else _NO_WEIGHT
    rest = np.ldexp(weight, -exponent)
    counts = np.zeros((2 * _LIMBS, len(keys)), np.int64)
    for limb in range(_LIMBS):
        rest = np.ldexp(rest, _LIMB)
        digits = np.floor(rest)
        rest -= digits
        units = digits.astype(np.int64)
        counts[limb] = np.add.reduceat(np.where(positive, units, 0), firsts)
        counts[_LIMBS + limb] = np.add.reduceat(np.where(positive, 0, units), firsts)
    lasts = np.append(firsts[1:], len(codes)) - 1
    lowest, highest = (codes[index].astype(np.uint64) for index in (firsts, lasts))
    return Bins(level, keys, lowest, highest, counts, exponent, len(codes))


def _distinct_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys of ascending keys, and their first indices."""
    is_first = np.empty(len(keys), np.bool_)
    is_first[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    firsts = np.flatnonzero(is_first)
    return keys[firsts], firsts


def _merge_bins(parts: list[Bins], max_bins: int) -> Bins:
    """Merge bins into at most `max_bins` bins, at the finest such level."""
    parts = [part for part in parts if len(part.keys)]
    if not parts:
        return _empty_bins(False)
    level = max(part.level for part in parts)
    exponent = max(part.exponent for part in parts)
    keys = np.concatenate([part.keys >> np.uint64(level - part.level) for part in parts])
    lowest, highest = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("lowest", "highest")
    )
    counts = np.concatenate([_rescale_counts(part, exponent) for part in parts], axis=1)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    # Two keys share a bin if the level leaves out all bits in which they differ.
    changes = np.sort((keys[1:] ^ keys[:-1])[keys[1:] != keys[:-1]])
    if len(changes) >= max_bins:
        more = int(changes[len(changes) - max_bins]).bit_length()
        keys, level = keys >> np.uint64(more), level + more
    keys, firsts = _distinct_keys(keys)
    return Bins(
        level,
        keys,
        np.minimum.reduceat(lowest[order], firsts),
        np.maximum.reduceat(highest[order], firsts),
        np.add.reduceat(counts[:, order], firsts, axis=1),
        exponent,
        sum(part.rows for part in parts),
    )


def _rescale_counts(part: Bins, exponent: int) -> np.ndarray:
    """Shift counters to a larger exponent; the lowest limbs are dropped."""
    shift = min((exponent - part.exponent) // _LIMB, _LIMBS)
    if not shift:
        return part.counts
    counts = np.zeros_like(part.counts)
    for start in (0, _LIMBS):
        counts[start + shift : start + _LIMBS] = part.counts[start : start + _LIMBS - shift]
    return counts
