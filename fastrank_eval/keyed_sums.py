"""Exact sums for each of many keys: bins of probabilities, values of a field.

`states.ExactSums` keeps a pair of cells for each binary exponent that a double can have, 32 KB a
sum. Here a sum is kept in limbs of 32 bits, as many as the values that came in span: 40 to 80 bytes
for probabilities.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Self

import numpy as np

from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel
from fastrank_eval.saved_parts import Parts, narrow

#: A cell of 64 bits takes this many additions of less than 2**33 before it is carried.
_ADDITIONS = 1 << 29


class _Cells:
    """The limbs of one thread: of each term and key, from the least significant one up."""

    def __init__(self, terms: int) -> None:
        self.limbs = np.zeros((terms, 0, 0), np.int64)
        #: Number of the least significant limb; bit 0 of limb 0 is worth 2**-1074.
        self.lowest = 0
        self.added = 0

    def hold(self, keys: int, lowest: int, highest: int) -> None:
        """Make room for so many keys and for limbs `lowest` to `highest`."""
        terms, held, limbs = self.limbs.shape
        if limbs:
            lowest, highest = min(lowest, self.lowest), max(highest, self.lowest + limbs - 1)
        room = np.zeros((terms, max(keys, held), highest - lowest + 1), np.int64)
        at = self.lowest - lowest
        if limbs:
            room[:, :held, at : at + limbs] = self.limbs
        self.limbs, self.lowest = room, lowest

    def carry(self) -> None:
        """Leave 32 bits in every limb but the highest."""
        for limb in range(self.limbs.shape[2] - 1):
            self.limbs[:, :, limb + 1] += self.limbs[:, :, limb] >> 32
            self.limbs[:, :, limb] &= 0xFFFFFFFF
        self.added = 0


class KeyedSums:
    """Sums of several terms for each key, exact; threads may add at the same time.

    Parameters
    ----------
    terms : int
        How many sums each key has.

    Examples
    --------
    >>> sums = KeyedSums(1)
    >>> sums.add(0, np.array([0, 2, 2]), np.array([0.5, 3.0, 2.0**-60]))
    >>> totals = sums.totals()[0]
    >>> (totals / totals[0]).tolist()
    [1.0, 0.0, 6.0]
    """

    def __init__(self, terms: int) -> None:
        self._terms = terms
        self._lock = threading.Lock()
        self._own = threading.local()
        self._parts: list[_Cells] = []

    def add(self, term: int, keys: np.ndarray, values: np.ndarray) -> None:
        """Add values, each to the sum of its key.

        Parameters
        ----------
        term : int
            Which sum.
        keys : ndarray of int64, shape (rows,)
            From 0; room is made for all up to the largest.
        values : ndarray of float64, shape (rows,)
            Finite, not negative.
        """
        cells = self._mine()
        keys = frozen(np.ascontiguousarray(keys, np.int64))
        values = frozen(np.ascontiguousarray(values, np.float64))
        bits = values.view(np.int64)
        cells.added += len(keys)
        if cells.added > _ADDITIONS:
            cells.carry()
            cells.added = len(keys)
        done = 0
        while True:
            done = int(_spread(keys, bits, done, cells.lowest, cells.limbs[term]))
            if done == len(keys):
                return
            left = values[done:]
            # Twice the keys, so that those that come one by one do not move all others each time.
            held, top = cells.limbs.shape[1], int(keys[done:].max())
            wanted = held if top < held else max(top + 1, min(2 * held, top + (1 << 20)))
            # A value ends two limbs above its lowest; one more takes what is carried.
            cells.hold(wanted, _limb_of(left[left > 0].min()), _limb_of(left.max()) + 3)

    def count(self, term: int, keys: np.ndarray) -> None:
        """Add 1 for each row to the sum of its key."""
        if len(keys) and keys.max() < len(keys):
            rows = np.bincount(keys)
            self.add(term, np.arange(len(rows)), rows.astype(np.float64))
        else:
            self.add(term, keys, np.ones(len(keys)))

    def _mine(self) -> _Cells:
        mine: _Cells | None = getattr(self._own, "cells", None)
        if mine is None:
            mine = self._own.cells = _Cells(self._terms)
            with self._lock:
                self._parts.append(mine)
        return mine

    def merge(self, other: KeyedSums) -> None:
        """Add other sums of the same terms and keys."""
        with self._lock:
            self._parts += other._parts

    def totals(self) -> np.ndarray:
        """All sums, in proportion: times one power of two, which lets none overflow.

        Returns
        -------
        ndarray of float64, shape (terms, keys)
            Each rounded once; keys up to the last with a sum above 0.
        """
        whole = self._whole().limbs
        limbs = whole.shape[2]
        total = np.zeros(whole.shape[:2])
        there = whole.any(axis=2)
        digits = whole[there]
        if not len(digits):
            return total
        top = limbs - 1 - np.argmax(digits[:, ::-1] != 0, axis=1)
        # The highest digits of each sum, below which others only matter as not being 0.
        padded = np.concatenate([np.zeros((len(digits), 2), np.int64), digits], axis=1)
        rows = np.arange(len(digits))
        first, second, third = (padded[rows, top + 2 - k].astype(np.uint64) for k in range(3))
        lower = np.concatenate([np.zeros((len(digits), 3), np.int64), digits], axis=1)
        below = np.cumsum(lower != 0, axis=1)[rows, top] > 0
        shift = (32 - np.frexp(first.astype(np.float64))[1]).astype(np.uint64)
        upper = ((first << np.uint64(32)) | second) << shift
        upper |= (third << shift) >> np.uint64(32)
        rest = ((third << shift) & np.uint64(0xFFFFFFFF)) != 0
        # 64 bits. The last says whether any bit is left, so a double of them is rounded once.
        upper |= (rest | below).astype(np.uint64)
        exponent = 32 * (top + 1 - limbs) - shift.astype(np.int64) - 64
        total[there] = np.ldexp(upper.astype(np.float64), exponent)
        return total

    def _whole(self) -> _Cells:
        """What all threads have added: 32 bits in every limb; keys and limbs that matter."""
        held = [part for part in self._parts if part.limbs.size]
        whole = _Cells(self._terms)
        for part in held:
            part.carry()
            # One more limb takes what is carried.
            whole.hold(part.limbs.shape[1], part.lowest, part.lowest + part.limbs.shape[2])
        for part in held:
            at = part.lowest - whole.lowest
            whole.limbs[:, : part.limbs.shape[1], at : at + part.limbs.shape[2]] += part.limbs
        whole.carry()
        keys, limbs = (np.flatnonzero(whole.limbs.any(axis=axes)) for axes in ((0, 2), (0, 1)))
        if not len(keys):
            return _Cells(self._terms)
        whole.limbs = whole.limbs[:, : keys[-1] + 1, limbs[0] : limbs[-1] + 1]
        whole.lowest += int(limbs[0])
        return whole

    def saved(self) -> Parts:
        """The sums of the keys that have any.

        Returns
        -------
        dict of ndarray
            ``keys``, ascending; ``limbs`` (uint32, shape (terms, keys, limbs)): digits to base
            2**32, least significant first; ``lowest``: the power of 2**32 times 2**-1074 that the
            first is worth.
        """
        whole = self._whole()
        keys = np.flatnonzero(whole.limbs.any(axis=(0, 2)))
        limbs = whole.limbs[:, keys].astype(np.uint32)
        return {"keys": narrow(keys), "limbs": limbs, "lowest": np.array(whole.lowest, np.int64)}

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        keys, limbs = parts["keys"].astype(np.int64), parts["limbs"]
        sums = cls(len(limbs))
        if len(keys):
            cells = _Cells(sums._terms)
            lowest = int(parts["lowest"])
            cells.hold(int(keys.max()) + 1, lowest, lowest + limbs.shape[2])
            cells.limbs[:, keys, : limbs.shape[2]] = limbs
            sums._parts.append(cells)
        return sums

    def renumbered(self, numbers: np.ndarray) -> Self:
        """The same sums under other keys.

        Parameters
        ----------
        numbers : ndarray of int64
            The new number of each key, all different.
        """
        parts = self.saved()
        return self.loaded({**parts, "keys": numbers[parts["keys"]]})


def _limb_of(value: float) -> int:
    """Number of the limb in which the lowest bit of a double stands."""
    bits = int(np.float64(value).view(np.int64))
    return (max(bits >> 52 & 0x7FF, 1) - 1) >> 5


@kernel
def _spread(keys, bits, done, lowest, limbs):  # type: ignore[no-untyped-def]
    """Add rows from `done` on; returns the first for which there is no room, or their number."""
    i = done
    while i < keys.shape[0]:
        b = bits[i] & 0x7FFFFFFFFFFFFFFF
        if b != 0:
            mantissa = b & 0xFFFFFFFFFFFFF
            place = b >> 52
            if place > 0:
                mantissa |= 1 << 52
                place -= 1
            at = (place >> 5) - lowest
            key = keys[i]
            if key >= limbs.shape[0] or at < 0 or at + 3 >= limbs.shape[1]:
                return i
            shift = place & 31
            # 53 bits moved up by 0 to 31: in three limbs, without passing 63 bits.
            upper = (mantissa >> 32) << shift
            lower = (mantissa & 0xFFFFFFFF) << shift
            limbs[key, at] += lower & 0xFFFFFFFF
            limbs[key, at + 1] += (lower >> 32) + (upper & 0xFFFFFFFF)
            limbs[key, at + 2] += upper >> 32
        i += 1
    return i
