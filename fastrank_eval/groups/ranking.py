"""Rank the labelled rows of whole groups under a tie policy.

A ranking measure needs only the rows with a non-zero label, and the number of the others. Each
such row is kept in rank order, with its grade and its tie block. The block is stored as ``above``
(number of rows ranked strictly higher) and ``size`` (number of rows that share the score). The tie
policy is applied here, so measures do not depend on it.

Measures of diversity need the rows that cover subtopics. An *intent* is one subtopic of one group
that at least one row of the group covers. A measure averages over the intents of a group. It treats
each intent as a group of its own, in which the rows that cover the subtopic are the relevant ones.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import NamedTuple, Self, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.chunk import Chunk, Scored, ranked_by_counting
from fastrank_eval.groups.labels import Cached, Labels, RankedRows, count_relevant
from fastrank_eval.groups.scan import find_labels, ranked_in_order
from fastrank_eval.groups.sort import (
    blocks_descend,
    encode_few,
    order_by_score,
    sort_blocks,
    sum_weights_of_negatives,
)
from fastrank_eval.groups.ties import item_codes, order_by_item, resolve_blocks

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


class Entries(NamedTuple):
    """Rows of whole groups that measures read, best first.

    Parameters
    ----------
    offsets : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    above, size : ndarray of int64, shape (rows,)
        Number of rows ranked strictly above the row's block, and inside the block.
    grade : ndarray of float64, shape (rows,)
    """

    offsets: np.ndarray
    above: np.ndarray
    size: np.ndarray
    grade: np.ndarray


def with_unjudged_rows(
    ranking: Ranking, unjudged: RankedRows, starts: np.ndarray, missing: np.ndarray, ties: str
) -> Entries:
    """Merge the unjudged rows of each group into its labelled rows.

    Their grade is NaN. Those without a score stand last. ``"best"`` ranks unjudged rows after those
    of label 0, ``"worst"`` before them.

    Parameters
    ----------
    ranking : Ranking
    unjudged : RankedRows
        Those with a score; with places where ties are ``input`` or ``item``.
    starts : ndarray of int64, shape (groups + 1,)
        First scored row of each group, then their number.
    missing : ndarray of int64, shape (groups,)
        Number of unjudged rows.
    ties : str
    """
    above = unjudged.positions(starts) if ties in ("input", "item") else unjudged.above
    if ties in ("best", "worst"):
        above = np.empty_like(unjudged.above)
        blocks = unjudged.offsets, unjudged.above, unjudged.size
        labelled = ranking.offsets, ranking.block_above, ranking.grade
        _resolve_unjudged(*labelled, *blocks, ties == "best", above)
    size = unjudged.size if ties == "expected" else np.ones(len(above), np.int64)
    offsets = ranking.offsets + np.append(0, np.cumsum(missing))
    rows = int(offsets[-1])
    merged = Entries(offsets, np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows))
    listed = ranking.offsets, ranking.above, ranking.size, ranking.grade
    _merge(*listed, ranking.retrieved, unjudged.offsets, above, size, *merged)
    return merged


@kernel
def _resolve_unjudged(  # type: ignore[no-untyped-def]
    offsets, block_above, grade, unjudged_offsets, unjudged_above, unjudged_size, best, above
):
    """Give each unjudged row a rank of its own."""
    for g in range(offsets.shape[0] - 1):
        e = offsets[g]
        u = unjudged_offsets[g]
        while u < unjudged_offsets[g + 1]:
            block = unjudged_above[u]
            last = u
            while last < unjudged_offsets[g + 1] and unjudged_above[last] == block:
                last += 1
            negative = 0
            while e < offsets[g + 1] and block_above[e] <= block:
                negative += block_above[e] == block and grade[e] < 0
                e += 1
            rank = block + (unjudged_size[u] - negative - (last - u) if best else negative)
            for k in range(u, last):
                above[k] = rank + k - u
            u = last


@kernel
def _merge(  # type: ignore[no-untyped-def]
    offsets, above, size, grade, retrieved, unjudged_offsets, unjudged_above, unjudged_size,
    to_offsets, to_above, to_size, to_grade,
):  # fmt: skip
    """Merge both lists by rank."""
    for g in range(retrieved.shape[0]):
        e = offsets[g]
        u = unjudged_offsets[g]
        for k in range(to_offsets[g], to_offsets[g + 1]):
            ranked = u < unjudged_offsets[g + 1]
            if e < offsets[g + 1] and not (ranked and unjudged_above[u] <= above[e]):
                to_above[k] = above[e]
                to_size[k] = size[e]
                to_grade[k] = grade[e]
                e += 1
            else:
                to_above[k] = unjudged_above[u] if ranked else retrieved[g]
                to_size[k] = unjudged_size[u] if ranked else 1
                to_grade[k] = np.nan
                u += 1


@dataclass
class RowWeights:
    """Row weights for row-weighted measures; all float64.

    Parameters
    ----------
    labelled : ndarray, shape (labelled rows,)
        Weight of the labelled row.
    zeros_above, zeros_tied : ndarray, shape (labelled rows,)
        Total weight of the rows with label 0 ranked strictly above the labelled row, and tied with
        it.
    zeros : ndarray, shape (groups,)
        Total weight of the retrieved rows with label 0.
    """

    labelled: np.ndarray
    zeros_above: np.ndarray
    zeros_tied: np.ndarray
    zeros: np.ndarray


@dataclass(init=True)
class Ranking(Cached):
    """Labelled rows of a chunk under one model and one tie policy.

    Arrays are read-only.

    Parameters
    ----------
    scored : Scored
        The retrieved rows, for measures that need the scores themselves.
    labels : Labels
        Labels of the retrieved rows, with a cache that all models share.
    ranked_groups : ndarray of int64, shape (groups,), or None
        Indices of the ranked groups in the chunk; None for all groups.
    offsets : ndarray of int64, shape (groups + 1,)
        First labelled row of each group, then the number of labelled rows.
    rows : ndarray of int64, shape (groups,)
        Number of rows of the group, with or without a score.
    retrieved : ndarray of int64, shape (groups,)
        Number of rows with a score.
    grade : ndarray of float64, shape (labelled rows,)
        Label of the row, never 0. Best rank first; inside a block by grade, then weight,
        descending. Relevant rows without a score stand last, with ``above`` = ``retrieved``.
    above, size : ndarray of int64, shape (labelled rows,)
        Number of rows ranked strictly above the labelled row's block, and inside the block. The
        block is a single rank unless ties are ``expected``.
    block_above, block_size : ndarray of int64, shape (labelled rows,)
        The block of equal scores under every policy, for AUC: a tied pair counts one half.
    weights : RowWeights or None
        None where no measure needs row weights.
    max_grade, min_grade : float
        Highest and lowest grade of the labelled rows.
    unretrieved_relevant : bool
        Whether any relevant row has no score.
    judged : Entries or None
        The labelled and the unjudged rows; None where no measure needs unjudged rows, or none
        exists.
    covering : Entries or None
        Pairs of an intent and a row that covers it, with or without a score, intent after intent.
        The grade is a number of the intent. None where no measure needs subtopics.
    subtopic_rows : SubtopicRows or None
        Of the chunk; None where no measure needs subtopics.
    """

    scored: Scored
    labels: Labels
    ranked_groups: np.ndarray | None
    offsets: np.ndarray
    rows: np.ndarray
    retrieved: np.ndarray
    grade: np.ndarray
    above: np.ndarray
    size: np.ndarray
    block_above: np.ndarray
    block_size: np.ndarray
    weights: RowWeights | None
    max_grade: float
    min_grade: float
    unretrieved_relevant: bool = False
    judged: Entries | None = None
    covering: Entries | None = None
    subtopic_rows: SubtopicRows | None = None

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.rows)

    @cached_property
    def grades(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The distinct grades, and the code of each row's; see `sort.encode_few`."""
        return encode_few(self.grade)

    def relevant(self, rel: float) -> np.ndarray:
        """Count the rows with grade >= `rel` in each group.

        int64; rows count whether retrieved or not.
        """
        if not self.unretrieved_relevant:
            return self.labels.relevant(rel)
        count = partial(count_relevant, self.grade, self.offsets, rel)
        return self.cached(("relevant", rel), count)


_NO_ROWS = frozen(np.empty(0, np.int64))


def ranking_in_row_order(scored: Scored) -> Ranking:
    """Make a ranking without ranks, for measures that need none.

    Every row has a score and none a weight. Labelled rows stand in order of their rows.
    """
    labels = scored.labels
    return Ranking(
        scored,
        labels,
        labels.ranked_groups,
        labels.offsets,
        labels.rows,
        labels.rows,
        labels.grade,
        *(_NO_ROWS,) * 4,
        None,
        labels.max_grade,
        labels.min_grade,
    )


def rank(
    scored: Scored,
    ties: str,
    ranked_rows: RankedRows | None,
    subtopic_rows: SubtopicRows | None = None,
) -> Ranking:
    """Rank the rows of whole groups by one model's score.

    Parameters
    ----------
    scored : Scored
        The rows.
    ties : str
        One of `ties.TIES`.
    ranked_rows : RankedRows or None
        Those of the rows, if they stand best first in every group; see `Scored.ranked_rows`.
    subtopic_rows : SubtopicRows or None
        Subtopics of the chunk; None where no measure needs them.

    Returns
    -------
    Ranking
    """
    score, weight, item, starts = scored.score, scored.weight, scored.item, scored.starts
    labels = scored.labels
    order, in_order = None, ranked_rows is not None
    by_label = weight is None and scored.unjudged is None and subtopic_rows is None
    if ranked_rows is None and by_label and ties != "input" and len(score) < 1 << 31:
        ranked_rows = ranked_by_counting(score, starts, labels)
    if by_label and ties == "item" and ranked_rows is not None and (ranked_rows.size == 1).all():
        ties = "expected"  # no labelled row has the score of another row
    if item is not None and ties == "item" and len(score):
        order = order_by_item(score, starts, lambda rows: item.take(row_column(rows)), in_order)
    elif ranked_rows is None:
        order = order_by_score(score, starts)
    if order is not None:
        score = frozen(score[order])
        ranked_rows = cast(RankedRows, ranked_in_order(score, starts, labels, order))
    ranked_rows = cast(RankedRows, ranked_rows)
    offsets, block_above, block_size = ranked_rows.offsets, ranked_rows.above, ranked_rows.size
    one_grade = labels.min_grade >= labels.max_grade
    rows = retrieved = labels.rows
    if scored.scored_rows is not None:
        rows = frozen(np.diff(scored.chunk.starts))
    grade = labels.grade
    if not (one_grade or (in_order and order is None)):
        grade = frozen(labels.label[ranked_rows.row].astype(np.float64))

    weights = None
    if weight is not None:
        marks = labels.marks
        if order is not None:
            weight, marks = frozen(weight[order]), frozen(marks[order])
        weights = RowWeights(
            weight[ranked_rows.place],
            np.empty(len(grade)),
            np.empty(len(grade)),
            np.empty(len(rows)),
        )
        sum_weights_of_negatives(
            starts,
            score,
            marks,
            weight,
            np.empty(int(retrieved.max(initial=1))),
            offsets,
            weights.zeros_above,
            weights.zeros_tied,
            weights.zeros,
        )

    above, size = block_above, block_size
    if ties in ("input", "item"):
        above, size = ranked_rows.positions(starts), np.ones(len(grade), np.int64)
    elif (weights is not None or ties != "expected" or not one_grade) and len(grade):
        labelled_weights = weights.labelled if weights is not None else np.empty(0)
        if not blocks_descend(offsets, block_above, grade, labelled_weights):
            grade = grade.copy()  # `labels` may have it too
            sort_blocks(offsets, block_above, grade, labelled_weights)
            frozen(grade)
        if ties != "expected":
            above, size = np.empty(len(grade), np.int64), np.ones(len(grade), np.int64)
            worst_order = resolve_blocks(offsets, block_above, block_size, grade, ties, above)
            if worst_order is not None:
                above, grade = above[worst_order], grade[worst_order]
                if weights is not None:
                    weights.labelled = weights.labelled[worst_order]
    for array in (grade, above, size):
        array.flags.writeable = False
    ranking = Ranking(
        scored,
        labels,
        labels.ranked_groups,
        offsets,
        rows,
        retrieved,
        grade,
        above,
        size,
        block_above,
        block_size,
        weights,
        labels.max_grade,
        labels.min_grade,
        *(False, None, None, None),
    )
    if scored.unretrieved_relevant is not None and len(scored.unretrieved_relevant):
        _append_unretrieved(ranking, scored.chunk, scored.unretrieved_relevant)
    if scored.unjudged is not None:
        unjudged_rows = find_labels(scored.unjudged.view(np.uint8), starts, skip=False)
        ranked_unjudged = cast(RankedRows, ranked_in_order(score, starts, unjudged_rows, order))
        missing = scored.chunk.unjudged_rows()
        ranking.judged = with_unjudged_rows(ranking, ranked_unjudged, starts, missing, ties)
    if subtopic_rows is not None:
        subtopics = cast(np.ndarray, scored.subtopics)
        marks = frozen((subtopics != 0).view(np.uint8))
        covering_rows = find_labels(marks, starts, skip=False)
        covering = cast(RankedRows, ranked_in_order(score, starts, covering_rows, order))
        mask = subtopics[covering.row]
        pairs = subtopic_rows.rank_pairs(covering, starts, mask, retrieved, ties)
        ranking.subtopic_rows, ranking.covering = subtopic_rows, Entries(*pairs)
    return ranking


def _append_unretrieved(ranking: Ranking, chunk: Chunk, unretrieved_relevant: np.ndarray) -> None:
    """Append the relevant rows without a score to the labelled rows."""
    group = np.searchsorted(chunk.starts, unretrieved_relevant, side="right") - 1
    grade = chunk.columns.label[unretrieved_relevant].astype(np.float64)
    grade = grade[np.lexsort((-grade, group))]
    counts = np.diff(ranking.offsets)
    merge = np.argsort(
        np.concatenate([np.repeat(np.arange(len(counts)), counts), group]), kind="stable"
    )

    def append(values: np.ndarray, added: np.ndarray) -> np.ndarray:
        return frozen(np.concatenate([values, added])[merge])

    end, one = ranking.retrieved[group], np.ones(len(group), np.int64)
    ranking.above = append(ranking.above, end)
    ranking.size = append(ranking.size, one)
    ranking.block_above = append(ranking.block_above, end)
    ranking.block_size = append(ranking.block_size, one)
    ranking.grade = append(ranking.grade, grade)
    ranking.max_grade = float(ranking.grade.max())
    ranking.min_grade = float(ranking.grade.min())
    weights = ranking.weights
    if weights is not None:
        none = np.zeros(len(group))
        weights.labelled = append(weights.labelled, none)
        weights.zeros_above = append(weights.zeros_above, none)
        weights.zeros_tied = append(weights.zeros_tied, none)
    added = np.cumsum(np.bincount(group, minlength=len(counts)))
    ranking.unretrieved_relevant = True
    ranking.offsets = frozen(ranking.offsets + np.concatenate([[0], added]))
