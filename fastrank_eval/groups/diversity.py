"""Rank the rows that cover subtopics, for measures of diversity.

An *intent* is one subtopic of one group that at least one row of the group covers. A measure
averages over the intents of a group. It treats each intent as a group of its own, in which the
rows that cover the subtopic are the relevant ones.
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.labels import Cached, RankedRows
from fastrank_eval.groups.ties import item_codes, resolve_blocks

#: An ideal leaves out gains below this share of the first one: half a billionth of the last bit of
#: their sum.
_NEGLIGIBLE = 1e-22


@dataclass
class SubtopicRows(Cached):
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
    def pairs(self) -> np.ndarray:
        """Offsets of the pairs of each intent: one for each row that covers it.

        int64, shape (intents + 1,).
        """
        ends, none = np.zeros(self.intents[-1] + 1, np.int64), np.empty(0, np.int64)
        _visit_pairs(
            self.offsets, self.mask, self.union, self.intents, none, none, ends[1:], none, none
        )
        return np.cumsum(ends)

    @cached_property
    def intent_of_pairs(self) -> np.ndarray:
        """Numbers of intents, from 1. float64, shape (pairs,), read-only."""
        return frozen(np.repeat(np.arange(1.0, len(self.pairs)), np.diff(self.pairs)))

    def rank_pairs(
        self,
        ranked_rows: RankedRows,
        starts: np.ndarray,
        mask: np.ndarray,
        retrieved: np.ndarray,
        ties: str,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rank the rows of each intent; see `ranking.Ranking.covering`.

        Parameters
        ----------
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
        offsets = self.pairs[self.intents]
        # Rows without a score stand last.
        pair_above = np.repeat(retrieved, np.diff(offsets))
        pair_size = np.ones(len(pair_above), np.int64)
        _visit_pairs(
            ranked_rows.offsets, mask, self.union, self.intents, above, size,
            self.pairs[:-1].copy(), pair_above, pair_size,
        )  # fmt: skip
        return offsets, pair_above, pair_size, self.intent_of_pairs

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


@kernel
def _visit_pairs(  # type: ignore[no-untyped-def]
    offsets, mask, union, intents, above, size, next_pair, pair_above, pair_size
):
    """Write the ranks of pairs, intent after intent.

    Pairs are only counted if there is no room for them.
    """
    one = np.uint64(1)
    for g in range(offsets.shape[0] - 1):
        for e in range(offsets[g], offsets[g + 1]):
            bits = mask[e]
            others = union[g]
            intent = intents[g]
            while bits != np.uint64(0):
                if bits & one:
                    if pair_above.shape[0] > 0:
                        pair_above[next_pair[intent]] = above[e]
                        pair_size[next_pair[intent]] = size[e]
                    next_pair[intent] += 1
                intent += np.int64(others & one)
                bits >>= one
                others >>= one


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
