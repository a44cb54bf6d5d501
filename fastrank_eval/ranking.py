"""The compact profile of each group's relevant rows; the tie policy lives here.

Only rows with a non-zero label matter to a ranking measure; the others are counted. Each relevant
row becomes an *entry*: its grade, and the tie block it sits in, as ``above`` (rows ranked strictly
higher) and ``size`` (rows that share the score). Measures read entries and never ask for a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from fastrank_eval.canonical import arrange_blocks, sort_groups_descending, weigh_zeros
from fastrank_eval.columns import Columns, frozen, row_column
from fastrank_eval.entries import counted_entries, ordered_entries
from fastrank_eval.errors import OrderError
from fastrank_eval.ordering import broken_order, order_by_score
from fastrank_eval.ties import item_precedence, resolve_blocks


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole groups, one after another.

    Parameters
    ----------
    columns : Columns
        Their rows.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    """

    columns: Columns
    starts: np.ndarray

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.starts) - 1


@dataclass(slots=True)
class RowWeights:
    """What row-weighted measures read beside the entries; all float64.

    Parameters
    ----------
    entry : ndarray, shape (entries,)
        Weight of the relevant row.
    zeros_above, zeros_tied : ndarray, shape (entries,)
        Weight of the rows with label 0 ranked strictly above the entry, and tied with it.
    zeros : ndarray, shape (groups,)
        Weight of all retrieved rows with label 0.
    """

    entry: np.ndarray
    zeros_above: np.ndarray
    zeros_tied: np.ndarray
    zeros: np.ndarray


@dataclass(slots=True)
class Ranking:
    """The profile of a chunk under one model and one tie policy.

    Parameters
    ----------
    ranked : ndarray of int64, shape (groups,), or None
        Which groups of the chunk these are; None: all of them.
    offsets : ndarray of int64, shape (groups + 1,)
        First entry of each group, then the number of entries.
    marked : ndarray of int32 or int64
        The retrieved rows with a non-zero label, numbered among the retrieved rows, in any order.
    rows : ndarray of int64, shape (groups,)
        All rows of the group.
    retrieved : ndarray of int64, shape (groups,)
        Rows that have a score.
    grade : ndarray of float64, shape (entries,)
        Label of the entry, never 0. Best rank first; inside a block by grade, then weight,
        descending. Relevant rows without a score stand last, with ``above`` = ``retrieved``.
    above, size : ndarray of int64, shape (entries,)
        Rows ranked strictly above the entry's block, and rows in it. The block is a single rank
        unless ties are ``expected``.
    block_above, block_size : ndarray of int64, shape (entries,)
        The block of equal scores under every policy, for AUC: a tied pair counts one half.
    weights : RowWeights or None
        Where a measure needs row weights.
    lost : bool
        Whether any relevant row has no score.
    most_grade, least_grade : float
        Of all entries.
    """

    ranked: np.ndarray | None
    offsets: np.ndarray
    marked: np.ndarray
    rows: np.ndarray
    retrieved: np.ndarray
    grade: np.ndarray
    above: np.ndarray
    size: np.ndarray
    block_above: np.ndarray
    block_size: np.ndarray
    weights: RowWeights | None
    lost: bool = False
    most_grade: float = -np.inf
    least_grade: float = np.inf
    known: dict[Hashable, np.ndarray] = field(default_factory=dict)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.rows)

    def once(self, key: Hashable, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """An array several measures share, computed when the first one asks."""
        if key not in self.known:
            self.known[key] = compute()
        return self.known[key]

    def relevant(self, rel: float) -> np.ndarray:
        """Rows with grade >= `rel` in each group, retrieved or not: R. int64, shape (groups,)."""

        def count() -> np.ndarray:
            if self.least_grade >= rel:
                return np.diff(self.offsets)
            return self._per_group(self.grade >= rel)

        return self.once(("relevant", rel), count)

    def relevant_retrieved(self, rel: float) -> np.ndarray:
        """Rows with grade >= `rel` that have a score. int64, shape (groups,)."""
        if not self.lost:
            return self.relevant(rel)

        def count() -> np.ndarray:
            per_entry = np.repeat(self.retrieved, np.diff(self.offsets))
            return self._per_group((self.grade >= rel) & (self.block_above < per_entry))

        return self.once(("retrieved", rel), count)

    def descending(self, key: Hashable, values: np.ndarray) -> np.ndarray:
        """`values` of the entries, sorted in descending order inside each group."""

        def sort() -> np.ndarray:
            out = values.copy()
            if len(out) and out.min() < out.max():
                sort_groups_descending(self.offsets, out)
            return out

        return self.once(("descending", key), sort)

    def _per_group(self, flags: np.ndarray) -> np.ndarray:
        total = np.zeros(len(flags) + 1, np.int64)
        np.cumsum(flags, out=total[1:])
        return total[self.offsets[1:]] - total[self.offsets[:-1]]


def rank(
    chunk: Chunk,
    model: int,
    ties: str,
    *,
    weighted: bool,
    presorted: bool,
    skip_empty: bool,
    score_name: str,
) -> Ranking:
    """Rank the rows of whole groups by one model's score.

    Parameters
    ----------
    chunk : Chunk
        Whole groups.
    model : int
        Which score column.
    ties : str
        One of `ties.TIES`.
    weighted : bool
        Whether a measure needs row weights.
    presorted : bool
        Refuse rows whose scores rise inside a group instead of sorting them.
    skip_empty : bool
        Leave out groups whose labels are all 0: at click rates of a few per cent that is half of
        them, and every measure has one known value there.
    score_name : str
        For the message.

    Returns
    -------
    Ranking

    Raises
    ------
    OrderError
        `presorted`, and a score rises inside its group: names the row.
    """
    columns, starts = chunk.columns, chunk.starts
    score, label, weight, item = columns.scores[model], columns.label, columns.weight, columns.item
    marks = nonzero(label)
    missing = columns.unretrieved[model]
    lost = kept = None
    if missing is not None and missing.any():
        here = ~missing
        lost, kept = np.flatnonzero(missing & (marks != 0)), np.flatnonzero(here)
        score, label, marks = frozen(score[kept]), label[kept], frozen(marks[kept])
        weight = None if weight is None else frozen(weight[kept])
        item = None if item is None else item.take(row_column(kept))
        starts = np.concatenate([[0], np.cumsum(here)])[starts]

    if lost is not None:
        skip_empty = False
    sorted_already = _in_order(score, starts, presorted, score_name, columns, kept)
    found = order = None
    if item is not None and ties == "item" and len(score):
        order = order_by_score(score, starts, item_precedence(item, starts))
    elif not sorted_already:
        if weight is None and ties != "input":
            found = counted_entries(score, starts, marks, skip_empty)
        if found is None:
            order = order_by_score(score, starts)
    if order is not None:
        score = frozen(score[order])
    if found is None:
        found = ordered_entries(score, starts, marks, order, skip_empty)
    offsets, block_above, block_size = found.offsets, found.above, found.size
    entries, groups = len(found.row), len(found.ranked)
    rows = np.diff(chunk.starts)
    if skip_empty:
        rows = rows[found.ranked]
    retrieved = rows if kept is None else np.diff(starts)
    grade = label[found.row].astype(np.float64)

    weights = None
    if weighted and weight is not None:
        if order is not None:
            weight, marks = frozen(weight[order]), frozen(marks[order])
        places = np.repeat(starts[found.ranked], np.diff(offsets)) + found.place
        weights = RowWeights(weight[places], np.empty(entries), np.empty(entries), np.empty(groups))
        weigh_zeros(
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
        above, size = cast(np.ndarray, found.place), np.ones(entries, np.int64)
    elif entries and (weights is not None or ties != "expected" or grade.min() < grade.max()):
        entry_weights = weights.entry if weights is not None else np.empty(0)
        arrange_blocks(offsets, block_above, grade, entry_weights)
        if ties != "expected":
            above, size = np.empty(entries, np.int64), np.ones(entries, np.int64)
            turned = resolve_blocks(offsets, block_above, block_size, grade, ties, above)
            if turned is not None:
                above, grade = above[turned], grade[turned]
                if weights is not None:
                    weights.entry = weights.entry[turned]
    ranking = Ranking(
        found.ranked if skip_empty else None,
        offsets,
        found.row,
        rows,
        retrieved,
        grade,
        above,
        size,
        block_above,
        block_size,
        weights,
    )
    if lost is not None and len(lost):
        _append_lost(ranking, chunk, lost)
    if len(ranking.grade):
        ranking.most_grade = float(ranking.grade.max())
        ranking.least_grade = float(ranking.grade.min())
    return ranking


def nonzero(label: np.ndarray) -> np.ndarray:
    """One byte a row, not 0 where the label is not; a view of labels that are bytes themselves."""
    if label.dtype.itemsize == 1:
        return frozen(label.view(np.uint8))
    return frozen((label != 0).view(np.uint8))


def _append_lost(ranking: Ranking, chunk: Chunk, lost: np.ndarray) -> None:
    """Add the relevant rows without a score behind the other entries of their group."""
    group = np.searchsorted(chunk.starts, lost, side="right") - 1
    grade = chunk.columns.label[lost].astype(np.float64)
    grade = grade[np.lexsort((-grade, group))]
    counts = np.diff(ranking.offsets)
    merge = np.argsort(
        np.concatenate([np.repeat(np.arange(len(counts)), counts), group]), kind="stable"
    )

    def joined(values: np.ndarray, more: np.ndarray) -> np.ndarray:
        return np.concatenate([values, more])[merge]

    end, one = ranking.retrieved[group], np.ones(len(group), np.int64)
    ranking.above = joined(ranking.above, end)
    ranking.size = joined(ranking.size, one)
    ranking.block_above = joined(ranking.block_above, end)
    ranking.block_size = joined(ranking.block_size, one)
    ranking.grade = joined(ranking.grade, grade)
    weights = ranking.weights
    if weights is not None:
        none = np.zeros(len(group))
        weights.entry = joined(weights.entry, none)
        weights.zeros_above = joined(weights.zeros_above, none)
        weights.zeros_tied = joined(weights.zeros_tied, none)
    more = np.cumsum(np.bincount(group, minlength=len(counts)))
    ranking.lost = True
    ranking.offsets = ranking.offsets + np.concatenate([[0], more])


def _in_order(
    score: np.ndarray,
    starts: np.ndarray,
    presorted: bool,
    score_name: str,
    columns: Columns,
    kept: np.ndarray | None,
) -> bool:
    """Whether rows stand best first in every group; an error where that was promised."""
    broken = broken_order(score, starts, presorted)
    if broken >= 0 and presorted:
        # 64-bit integers are places among the doubles here, no values to show.
        pair = score[[broken - 1, broken]]
        odd = (pair != 0) & (np.abs(pair) < np.finfo(pair.dtype).tiny)
        values = "" if odd.any() else f": {pair[0]!s} is followed by {pair[1]!s}"
        row = columns.number_of(int(broken if kept is None else kept[broken]))
        error = OrderError(
            f"score column '{score_name}' rises inside a group at row {row:,} (counted from 0)"
            f"{values}, but the input was said to be sorted; sort it by group and descending "
            "score, or leave out the promise."
        )
        error.row = row
        raise error
    return broken < 0
