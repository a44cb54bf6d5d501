"""Rank the rows that cover subtopics, for measures of diversity.

An *intent* is one subtopic of one group that at least one row of the group covers. A measure
averages over the intents of a group. It treats each intent as a group of its own, in which the
rows that cover the subtopic are the relevant ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.scan import RankedRows
from fastrank_eval.groups.ties import item_codes, resolve_blocks

#: An ideal leaves out gains below this share of the first one: half a billionth of the last bit of
#: their sum.
_NEGLIGIBLE = 1e-22


@dataclass
class SubtopicRows:
    """Subtopics that the rows of whole groups cover, shared by all models.

    Parameters
    ----------
    row : ndarray of int64, shape (covering rows,)
        Rows that cover a subtopic, retrieved or not, ascending.
    mask : ndarray of uint64, shape (covering rows,)
        Subtopics of each row: bit s for subtopic s.
    offsets : ndarray of int64, shape (groups + 1,)
        First covering row of each group, then the number of covering rows.
    union : ndarray of uint64, shape (groups,), read-only
        Subtopics that the rows of a group cover together.
    item : pyarrow.Array or None
        Item ids of all rows.
    """

    row: np.ndarray
    mask: np.ndarray
    offsets: np.ndarray
    union: np.ndarray
    item: pa.Array | None
    _cache: dict[Hashable, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, subtopics: np.ndarray, starts: np.ndarray, item: pa.Array | None) -> Self:
        """Find the covering rows of whole groups.

        Parameters
        ----------
        subtopics : ndarray of uint64, shape (rows,)
        starts : ndarray of int64, shape (groups + 1,)
            First row of each group, then the number of rows.
        item : pyarrow.Array or None
        """
        row = np.flatnonzero(subtopics)
        union = np.bitwise_or.reduceat(subtopics[: starts[-1]], starts[:-1])
        return cls(row, subtopics[row], np.searchsorted(row, starts), frozen(union), item)

    def cached(self, key: Hashable, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return an array that measures and models share; compute it once."""
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]

    @cached_property
    def subtopics(self) -> np.ndarray:
        """Number of subtopics that each group covers. int64, shape (groups,)."""
        return np.bitwise_count(self.union).astype(np.int64)

    @cached_property
    def intents(self) -> np.ndarray:
        """Offsets of the intents of each group.

        int64, shape (groups + 1,), read-only.
        """
        return frozen(np.concatenate([[0], np.cumsum(self.subtopics)]))

    @cached_property
    def rows(self) -> np.ndarray:
        """Number of rows that cover each intent, retrieved or not.

        int64, shape (intents,).
        """
        return np.diff(self.by_intent(self.offsets, self.mask)[0])

    def by_intent(self, offsets: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sort pairs of a covering row and an intent by intent.

        Parameters
        ----------
        offsets : ndarray of int64, shape (groups + 1,)
            First covering row of each group, then the number of covering rows.
        mask : ndarray of uint64, shape (covering rows,)

        Returns
        -------
        offsets : ndarray of int64, shape (intents + 1,)
            First pair of each intent, then the number of pairs.
        pair_rows : ndarray of int64, shape (pairs,)
            Index of the covering row of each pair; ascending inside an intent.
        """
        ends = np.zeros(self.intents[-1] + 2, np.int64)
        pair_rows = np.empty(int(np.bitwise_count(mask).sum(dtype=np.int64)), np.int64)
        _sort_by_intent(offsets, mask, self.union, self.intents, ends, pair_rows)
        return ends[:-1].copy(), pair_rows

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

    def ideal_gains(self, decay: float, depth: int) -> np.ndarray:
        """Compute the gains of the greedy ideal list.

        At each rank the list takes the row with the highest gain. A tie goes to the row with the
        greater item id. Without ids, or with equal ids, it goes to the row whose subtopic mask is
        the greater number.

        Parameters
        ----------
        decay : float
            Factor on the gain of a subtopic each time a row covers it, in [0, 1].
        depth : int
            Number of ranks; 0 for all.

        Returns
        -------
        ndarray of float64, shape (covering rows,)
            Gains of each group, rank by rank, from its offset on; 0 beyond `depth`.
        """

        def compute() -> np.ndarray:
            mask, preference = self._by_mask()
            longest = int(np.diff(self.offsets).max(initial=0))
            gains = np.zeros(len(mask))
            heads, ends = np.empty((2, longest), np.int64)
            _take_greedily(
                self.offsets,
                mask,
                preference,
                decay,
                depth,
                _NEGLIGIBLE,
                np.empty(64),
                heads,
                ends,
                gains,
            )
            return gains

        return self.cached(("ideal gains", decay, depth), compute)

    def _by_mask(self) -> tuple[np.ndarray, np.ndarray]:
        """Sort the rows of each group by mask.

        Also returns their order of preference.
        """
        group = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        keys = [~self.mask, group]
        if self.item is not None and len(self.row):
            # ~ turns ascending into descending without overflow, for signed and unsigned ids alike.
            keys.insert(1, ~item_codes(self.item.take(row_column(self.row))))
        preferred = np.lexsort(keys)
        mask = self.mask[preferred]
        preference = np.lexsort((mask, group))  # stable: equal masks stay in order of preference
        return mask[preference], preference


@dataclass
class IntentRanking:
    """Ranks of the rows that cover each intent.

    They hold under one model and one tie policy.

    Parameters
    ----------
    subtopic_rows : SubtopicRows
        Of the chunk.
    offsets : ndarray of int64, shape (intents + 1,)
        First pair of each intent, then the number of pairs. A pair is an intent and a retrieved
        row that covers it.
    above, size : ndarray of int64, shape (pairs,)
        As in `ranking.Ranking`, for the row of the pair; best rank first.
    retrieved : ndarray of int64, shape (intents,)
        Number of rows with a score in the intent's group.
    """

    subtopic_rows: SubtopicRows
    offsets: np.ndarray
    above: np.ndarray
    size: np.ndarray
    retrieved: np.ndarray

    @classmethod
    def of(
        cls,
        subtopic_rows: SubtopicRows,
        ranked_rows: RankedRows,
        starts: np.ndarray,
        mask: np.ndarray,
        retrieved: np.ndarray,
        ties: str,
    ) -> Self:
        """Sort the ranked covering rows by intent.

        Parameters
        ----------
        subtopic_rows : SubtopicRows
        ranked_rows : RankedRows
            The covering rows that the model has ranked.
        starts : ndarray of int64, shape (groups + 1,)
            First scored row of each group, then their number.
        mask : ndarray of uint64, shape (labelled rows,)
            Subtopics of each labelled row.
        retrieved : ndarray of int64, shape (groups,)
        ties : str
            One of `ties.TIES`. ``"best"`` and ``"worst"`` rank tied rows by how many subtopics
            they cover.
        """
        above, size = ranked_rows.above, ranked_rows.size
        if ties != "expected":
            size = np.ones(len(mask), np.int64)
        if ties in ("input", "item"):
            above = ranked_rows.positions(starts)
        elif ties != "expected":
            group = np.repeat(np.arange(len(retrieved)), np.diff(ranked_rows.offsets))
            covered = np.bitwise_count(mask).astype(np.float64)
            order = np.lexsort((mask, -covered, above, group))
            mask, above = mask[order], np.empty(len(mask), np.int64)
            worst_order = resolve_blocks(
                ranked_rows.offsets,
                ranked_rows.above,
                ranked_rows.size,
                covered[order],
                ties,
                above,
            )
            if worst_order is not None:
                mask, above = mask[worst_order], above[worst_order]
        offsets, pair_rows = subtopic_rows.by_intent(ranked_rows.offsets, mask)
        of_intent = np.repeat(retrieved, subtopic_rows.subtopics)
        return cls(subtopic_rows, offsets, above[pair_rows], size[pair_rows], of_intent)


@kernel
def _sort_by_intent(offsets, mask, union, intents, ends, pair_rows):  # type: ignore[no-untyped-def]
    """Sort pairs by counting.

    `ends` is one longer than the offsets that it becomes.
    """
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
                            pair_rows[ends[intent + 1]] = e
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
            intent_count = intents[g + 1] - intents[g]
            means[k, g] = total / intent_count if intent_count > 0 else np.nan


@kernel
def _take_greedily(  # type: ignore[no-untyped-def]
    offsets, mask, preference, decay, depth, negligible, remaining, heads, ends, gains
):
    """Select the best row at each rank.

    Of rows with equal masks only the first is a candidate.
    """
    one = np.uint64(1)
    for g in range(offsets.shape[0] - 1):
        distinct = 0
        for e in range(offsets[g], offsets[g + 1]):
            if e == offsets[g] or mask[e] != mask[e - 1]:
                heads[distinct] = e
                distinct += 1
            ends[distinct - 1] = e + 1
        for s in range(64):
            remaining[s] = 1.0
        ranks = offsets[g + 1] - offsets[g]
        if depth > 0:
            ranks = min(ranks, depth)
        for rank in range(ranks):
            best = -1
            max_gain = 0.0
            for d in range(distinct):
                if heads[d] == ends[d]:
                    continue
                gain = 0.0
                bits = mask[heads[d]]
                s = 0
                while bits != np.uint64(0):
                    if bits & one:
                        gain += remaining[s]
                    bits >>= one
                    s += 1
                preferred = (
                    gain == max_gain
                    and best >= 0
                    and preference[heads[d]] < preference[heads[best]]
                )
                if best < 0 or gain > max_gain or preferred:
                    best = d
                    max_gain = gain
            gains[offsets[g] + rank] = max_gain
            if max_gain <= negligible * gains[offsets[g]]:
                break
            bits = mask[heads[best]]
            heads[best] += 1
            s = 0
            while bits != np.uint64(0):
                if bits & one:
                    remaining[s] *= decay
                bits >>= one
                s += 1
