"""What the rows of a chunk cover, and where a model ranks them: for measures of diversity.

An *intent* is one subtopic of one group, as far as a row of the group covers it. Whatever is
averaged over the intents of a group is worked out for each intent as if it were a group of its
own, in which the rows that cover it are the relevant ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.labels import Entries
from fastrank_eval.groups.ties import item_codes, resolve_blocks

__all__ = ["Coverage", "Covering"]

#: Gains below this share of the first one are left out of an ideal: half a billionth of the last
#: bit of their sum.
_NOTHING = 1e-22


@dataclass
class Coverage:
    """What the rows of whole groups cover, whatever the scores: found once, for every model.

    Parameters
    ----------
    row : ndarray of int64, shape (covering rows,)
        Rows that cover a subtopic, retrieved or not, ascending.
    mask : ndarray of uint64, shape (covering rows,)
        What each covers: bit s for subtopic s.
    offsets : ndarray of int64, shape (groups + 1,)
        First covering row of each group, then their number.
    union : ndarray of uint64, shape (groups,), read-only
        What the rows of a group cover together.
    item : pyarrow.Array or None
        Item ids of all rows.
    """

    row: np.ndarray
    mask: np.ndarray
    offsets: np.ndarray
    union: np.ndarray
    item: pa.Array | None
    _known: dict[Hashable, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls, subtopics: np.ndarray | None, starts: np.ndarray, item: pa.Array | None
    ) -> Self | None:
        """Find the covering rows of whole groups.

        Parameters
        ----------
        subtopics : ndarray of uint64, shape (rows,), or None
            None: no measure asks.
        starts : ndarray of int64, shape (groups + 1,)
            First row of each group, then the number of rows.
        item : pyarrow.Array or None
        """
        if subtopics is None:
            return None
        row = np.flatnonzero(subtopics)
        union = np.bitwise_or.reduceat(subtopics[: starts[-1]], starts[:-1])
        return cls(row, subtopics[row], np.searchsorted(row, starts), frozen(union), item)

    def cached(self, key: Hashable, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """An array that several measures and models share, computed when the first one asks."""
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]

    @cached_property
    def subtopics(self) -> np.ndarray:
        """How many subtopics the rows of each group cover together. int64, shape (groups,)."""
        return np.bitwise_count(self.union).astype(np.int64)

    @cached_property
    def intents(self) -> np.ndarray:
        """First intent of each group, then their number. int64, shape (groups + 1,), read-only."""
        return frozen(np.concatenate([[0], np.cumsum(self.subtopics)]))

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows that cover each intent, retrieved or not. int64, shape (intents,)."""
        return np.diff(self.by_intent(self.offsets, self.mask)[0])

    def by_intent(self, offsets: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sort covering rows by what they cover; a row stands once for each.

        Parameters
        ----------
        offsets : ndarray of int64, shape (groups + 1,)
            First of the rows of each group, then their number.
        mask : ndarray of uint64

        Returns
        -------
        offsets : ndarray of int64, shape (intents + 1,)
            First pair of each intent, then the number of pairs.
        at : ndarray of int64, shape (pairs,)
            Which of the rows it is, in the order given.
        """
        ends = np.zeros(self.intents[-1] + 2, np.int64)
        at = np.empty(int(np.bitwise_count(mask).sum(dtype=np.int64)), np.int64)
        _sort_by_intent(offsets, mask, self.union, self.intents, ends, at)
        return ends[:-1].copy(), at

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Average over the intents of each group.

        Parameters
        ----------
        values : ndarray of float64, shape (k, intents)

        Returns
        -------
        ndarray of float64, shape (k, groups)
            NaN for groups without an intent.
        """
        means = np.empty((len(values), len(self.subtopics)))
        _average(self.intents, values, means)
        return means

    def ideal_gains(self, keep: float, depth: int) -> np.ndarray:
        """Gains down the list that takes, rank by rank, the row that gains most there.

        Where two rows gain the same, the one with the greater item id is taken if there are ids,
        else (or if ids are equal too) the one whose subtopics, as bits, make the greater number.

        Parameters
        ----------
        keep : float
            What is left of the gain of a subtopic each time it is covered, in [0, 1].
        depth : int
            Ranks wanted; 0: all.

        Returns
        -------
        ndarray of float64, shape (covering rows,)
            At the places of each group, rank by rank; 0 beyond `depth`.
        """

        def take() -> np.ndarray:
            mask, place = self._by_mask()
            most = int(np.diff(self.offsets).max(initial=0))
            gains = np.zeros(len(mask))
            heads, ends = np.empty((2, most), np.int64)
            _take_greedily(
                self.offsets, mask, place, keep, depth, _NOTHING, np.empty(64), heads, ends, gains
            )
            return gains

        return self.cached(("ideal gains", keep, depth), take)

    def _by_mask(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of each group that cover the same side by side, and the order to prefer."""
        group = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        keys = [~self.mask, group]
        if self.item is not None and len(self.row):
            # ~ turns ascending into descending without overflow, for signed and unsigned ids alike.
            keys.insert(1, ~item_codes(self.item.take(row_column(self.row))))
        preferred = np.lexsort(keys)
        mask = self.mask[preferred]
        place = np.lexsort((mask, group))  # stable: alike rows stay in the order to prefer
        return mask[place], place


@dataclass(slots=True)
class Covering:
    """Where a model ranks the rows that cover each intent, under one tie policy.

    Parameters
    ----------
    coverage : Coverage
        Of the chunk.
    offsets : ndarray of int64, shape (intents + 1,)
        First pair of each intent and a row that covers it, then the number of pairs.
    above, size : ndarray of int64, shape (pairs,)
        As in `ranking.Ranking`, of the pair's row; retrieved rows only, best rank first.
    retrieved : ndarray of int64, shape (intents,)
        Rows of the intent's group that have a score.
    """

    coverage: Coverage
    offsets: np.ndarray
    above: np.ndarray
    size: np.ndarray
    retrieved: np.ndarray

    @classmethod
    def of(
        cls,
        coverage: Coverage,
        found: Entries,
        mask: np.ndarray,
        retrieved: np.ndarray,
        ties: str,
    ) -> Self:
        """Sort the ranked covering rows by what they cover.

        Parameters
        ----------
        coverage : Coverage
        found : Entries
            The covering rows that the model has ranked.
        mask : ndarray of uint64
            What each of them covers.
        retrieved : ndarray of int64, shape (groups,)
        ties : str
            One of `ties.TIES`. ``"best"`` and ``"worst"`` rank tied rows by how many subtopics
            they cover.
        """
        above, size = found.above, found.size
        if ties != "expected":
            size = np.ones(len(mask), np.int64)
        if ties in ("input", "item"):
            above = found.place  # type: ignore[assignment]
        elif ties != "expected":
            group = np.repeat(np.arange(len(retrieved)), np.diff(found.offsets))
            covered = np.bitwise_count(mask).astype(np.float64)
            order = np.lexsort((mask, -covered, above, group))
            mask, above = mask[order], np.empty(len(mask), np.int64)
            turned = resolve_blocks(
                found.offsets, found.above, found.size, covered[order], ties, above
            )
            if turned is not None:
                mask, above = mask[turned], above[turned]
        offsets, at = coverage.by_intent(found.offsets, mask)
        of_intent = np.repeat(retrieved, coverage.subtopics)
        return cls(coverage, offsets, above[at], size[at], of_intent)


@kernel
def _sort_by_intent(offsets, mask, union, intents, ends, at):  # type: ignore[no-untyped-def]
    """Counting sort; `ends` is one longer than the offsets it becomes."""
    one = np.uint64(1)
    for fill in range(2):
        for g in range(offsets.shape[0] - 1):
            for e in range(offsets[g], offsets[g + 1]):
                bits = mask[e]
                others = union[g]
                intent = intents[g]
                while bits != np.uint64(0):
                    if bits & one:
                        if fill:
                            at[ends[intent + 1]] = e
                            ends[intent + 1] += 1
                        else:
                            ends[intent + 2] += 1
                    intent += np.int64(others & one)
                    bits >>= one
                    others >>= one
        if not fill:
            for intent in range(2, ends.shape[0]):
                ends[intent] += ends[intent - 1]


@kernel
def _average(intents, values, means):  # type: ignore[no-untyped-def]
    for k in range(values.shape[0]):
        for g in range(intents.shape[0] - 1):
            total = 0.0
            for i in range(intents[g], intents[g + 1]):
                total += values[k, i]
            there = intents[g + 1] - intents[g]
            means[k, g] = total / there if there > 0 else np.nan


@kernel
def _take_greedily(  # type: ignore[no-untyped-def]
    offsets, mask, place, keep, depth, nothing, left, heads, ends, gains
):
    """Rows that cover the same gain the same: only the first of each kind is looked at."""
    one = np.uint64(1)
    for g in range(offsets.shape[0] - 1):
        kinds = 0
        for e in range(offsets[g], offsets[g + 1]):
            if e == offsets[g] or mask[e] != mask[e - 1]:
                heads[kinds] = e
                kinds += 1
            ends[kinds - 1] = e + 1
        for s in range(64):
            left[s] = 1.0
        ranks = offsets[g + 1] - offsets[g]
        if depth > 0:
            ranks = min(ranks, depth)
        for rank in range(ranks):
            best = -1
            most = 0.0
            for d in range(kinds):
                if heads[d] == ends[d]:
                    continue
                gain = 0.0
                bits = mask[heads[d]]
                s = 0
                while bits != np.uint64(0):
                    if bits & one:
                        gain += left[s]
                    bits >>= one
                    s += 1
                level = gain == most and best >= 0 and place[heads[d]] < place[heads[best]]
                if best < 0 or gain > most or level:
                    best = d
                    most = gain
            gains[offsets[g] + rank] = most
            if most <= nothing * gains[offsets[g]]:
                break
            bits = mask[heads[best]]
            heads[best] += 1
            s = 0
            while bits != np.uint64(0):
                if bits & one:
                    left[s] *= keep
                bits >>= one
                s += 1
