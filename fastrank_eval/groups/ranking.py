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

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval.groups.chunk import Chunk, Scored
from fastrank_eval.groups.diversity import Coverage, Covering
from fastrank_eval.groups.judgments import Judgments
from fastrank_eval.groups.labels import Labels, counted_entries, labelled_rows, ordered_entries
from fastrank_eval.groups.sort import (
    arrange_blocks,
    negative_weights,
    order_by_score,
    sort_groups_descending,
)
from fastrank_eval.groups.ties import order_by_item, resolve_blocks


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
    scored : Scored
        The rows, for measures of what their scores are.
    labels : Labels
        Of the retrieved rows. What no score bears on is kept there, for the models to come.
    ranked : ndarray of int64, shape (groups,), or None
        Which groups of the chunk these are; None: all of them.
    offsets : ndarray of int64, shape (groups + 1,)
        First entry of each group, then the number of entries.
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
    judgments : Judgments or None
        Where a measure asks which rows nobody judged, and there are some.
    covering : Covering or None
        Where a measure asks which subtopics rows cover.
    """

    scored: Scored
    labels: Labels
    ranked: np.ndarray | None
    offsets: np.ndarray
    rows: np.ndarray
    retrieved: np.ndarray
    grade: np.ndarray
    above: np.ndarray
    size: np.ndarray
    block_above: np.ndarray
    block_size: np.ndarray
    weights: RowWeights | None
    most_grade: float
    least_grade: float
    unretrieved_relevant: bool = False
    judgments: Judgments | None = None
    covering: Covering | None = None
    known: dict[Hashable, np.ndarray] = field(default_factory=dict)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.rows)

    def cached(self, key: Hashable, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """An array several measures share, computed when the first one asks."""
        if key not in self.known:
            self.known[key] = compute()
        return self.known[key]

    def cached_for_models(self, key: Hashable, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """An array that several models share too: no bit of it may depend on a score."""
        # A model that lost rows has labels of its own.
        return self.labels.cached(key, compute)

    def cached_by_grade(
        self, key: Hashable, compute: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """A number for each entry that follows from its grade; `once`, if that can be."""
        shared = self.cached_for_models if self.labels.all_grades_equal else self.cached
        return shared(key, lambda: compute(self.grade))

    def relevant(self, rel: float) -> np.ndarray:
        """Rows with grade >= `rel` in each group, retrieved or not: R. int64, shape (groups,)."""
        if not self.unretrieved_relevant:
            return self.labels.relevant(rel)

        def count() -> np.ndarray:
            total = np.zeros(len(self.grade) + 1, np.int64)
            np.cumsum(self.grade >= rel, out=total[1:])
            return total[self.offsets[1:]] - total[self.offsets[:-1]]

        return self.cached(("relevant", rel), count)

    def relevant_retrieved(self, rel: float) -> np.ndarray:
        """Rows with grade >= `rel` that have a score. int64, shape (groups,)."""
        return self.labels.relevant(rel)

    def judged(self) -> Judgments:
        """Where unjudged rows stand."""
        if self.judgments is None:
            self.judgments = Judgments.complete(self.groups, len(self.grade))
        return self.judgments

    def covered(self) -> Covering:
        """Where rows that cover subtopics stand."""
        return cast(Covering, self.covering)

    def descending(self, key: Hashable, values: np.ndarray) -> np.ndarray:
        """`values` of the entries, which follow from grades, descending inside each group."""

        def sort() -> np.ndarray:
            out = values.copy()
            if len(out) and out.min() < out.max():
                sort_groups_descending(self.offsets, out)
            return out

        return self.cached_for_models(("descending", key), sort)


def unranked(scored: Scored) -> Ranking:
    """Rows whose places no measure asks for, all of them scored and none weighted.

    Entries stand in order of their rows.
    """
    labels, nowhere = scored.labels, np.empty(0, np.int64)
    return Ranking(
        scored,
        labels,
        labels.ranked,
        labels.labelled.offsets,
        labels.rows,
        labels.rows,
        labels.grade,
        nowhere,
        nowhere,
        nowhere,
        nowhere,
        None,
        labels.most,
        labels.least,
    )


def rank(scored: Scored, ties: str, in_order: bool, coverage: Coverage | None = None) -> Ranking:
    """Rank the rows of whole groups by one model's score.

    Parameters
    ----------
    scored : Scored
        The rows.
    ties : str
        One of `ties.TIES`.
    in_order : bool
        Whether rows stand best first in every group.
    coverage : Coverage or None
        What the rows of the chunk cover, where a measure asks.

    Returns
    -------
    Ranking
    """
    score, weight, item, starts = scored.score, scored.weight, scored.item, scored.starts
    labels = scored.labels
    labelled = labels.labelled
    found = order = None
    if item is not None and ties == "item" and len(score):
        order = order_by_item(score, starts, lambda rows: item.take(row_column(rows)))
    elif not in_order:
        by_label = weight is None and scored.unjudged is None and coverage is None
        if by_label and ties != "input":
            found = counted_entries(score, starts, labelled)
        if found is None:
            order = order_by_score(score, starts)
    if order is not None:
        score = frozen(score[order])
    if found is None:
        found = ordered_entries(score, starts, labelled, order)
    offsets, block_above, block_size = found.offsets, found.above, found.size
    entries, groups = len(found.row), len(found.ranked)
    rows = retrieved = labels.rows
    if scored.kept is not None:
        rows = np.diff(scored.chunk.starts)
    grade = labels.grade
    if not labels.all_grades_equal:
        grade = labels.label[found.row].astype(np.float64)

    weights = None
    if weight is not None:
        marks = labelled.marks
        if order is not None:
            weight, marks = frozen(weight[order]), frozen(marks[order])
        places = np.repeat(starts[found.ranked], np.diff(offsets)) + found.place
        weights = RowWeights(weight[places], np.empty(entries), np.empty(entries), np.empty(groups))
        negative_weights(
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
    elif entries and (weights is not None or ties != "expected" or not labels.all_grades_equal):
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
        scored,
        labels,
        labels.ranked,
        offsets,
        rows,
        retrieved,
        grade,
        above,
        size,
        block_above,
        block_size,
        weights,
        labels.most,
        labels.least,
    )
    if scored.unretrieved_relevant is not None and len(scored.unretrieved_relevant):
        _append_unretrieved(ranking, scored.chunk, scored.unretrieved_relevant)
    if scored.unjudged is not None:
        nowhere = labelled_rows(scored.unjudged.view(np.uint8), starts, skip=False)
        among = ordered_entries(score, starts, nowhere, order)
        ranking.judgments = Judgments.around(
            ranking.offsets,
            ranking.block_above,
            ranking.above,
            ranking.grade,
            among,
            scored.chunk.unjudged_rows(),
            ties,
        )
    if coverage is not None:
        subtopics = cast(np.ndarray, scored.subtopics)
        marked = labelled_rows(frozen((subtopics != 0).view(np.uint8)), starts, skip=False)
        among = ordered_entries(score, starts, marked, order)
        ranking.covering = Covering.of(coverage, among, subtopics[among.row], retrieved, ties)
    return ranking


def _append_unretrieved(ranking: Ranking, chunk: Chunk, unretrieved_relevant: np.ndarray) -> None:
    """Add the relevant rows without a score behind the other entries of their group."""
    group = np.searchsorted(chunk.starts, unretrieved_relevant, side="right") - 1
    grade = chunk.columns.label[unretrieved_relevant].astype(np.float64)
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
    ranking.most_grade = float(ranking.grade.max())
    ranking.least_grade = float(ranking.grade.min())
    weights = ranking.weights
    if weights is not None:
        none = np.zeros(len(group))
        weights.entry = joined(weights.entry, none)
        weights.zeros_above = joined(weights.zeros_above, none)
        weights.zeros_tied = joined(weights.zeros_tied, none)
    more = np.cumsum(np.bincount(group, minlength=len(counts)))
    ranking.unretrieved_relevant = True
    ranking.offsets = ranking.offsets + np.concatenate([[0], more])
