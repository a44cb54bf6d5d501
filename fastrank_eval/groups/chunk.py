"""Define chunks: whole groups, their rows, labels and rows with a score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import OrderError
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.labels import Labels, RankedRows, count_relevant
from fastrank_eval.groups.scan import find_labels, ranked_in_order
from fastrank_eval.groups.sort import count_rows_above, first_rise
from fastrank_eval.io.columns import (
    OTHERS,
    POSITIVES,
    UNJUDGED,
    UNSCORED,
    Columns,
    Roles,
    RowsLeftOut,
    rows_left_out_by,
)
from fastrank_eval.io.validate import no_score, numbers_of_order


def ranked_by_counting(score: np.ndarray, starts: np.ndarray, labels: Labels) -> RankedRows:
    """Compute the labelled rows of unsorted rows, without positions.

    Parameters
    ----------
    score, starts, labels
        As in `ranked_in_order`, less than 2**31 rows in any order inside their group.
    """
    row = labels.row.copy()
    above, size = np.empty((2, len(row)), np.int64)
    count_rows_above(score, starts, labels.indices, labels.offsets, row, above, size)
    return RankedRows(labels.indices, labels.offsets, row, frozen(above), frozen(size))


@dataclass(init=True)
class Chunk:
    """Consecutive whole groups.

    Parameters
    ----------
    columns : Columns
        Rows of the groups.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    grouped : bool
        Whether rows have groups. Otherwise all rows are one group, and clusters are unknown.
    labels : Labels or None
        None where labelled rows were not looked for yet.
    ranked_rows : mapping of int to (RankedRows or None)
        For models whose rows were scanned: their labelled rows; None where a score rises in a
        group.
    clusters : ndarray of int64, shape (clusters + 1,), or None
        First group of each cluster, then the number of groups; None: each group is one.
    buckets : ndarray of int64, shape (groups,), or None
        The bucket of each group's cluster, if sums by bucket are kept.
    first_rows : ndarray of int64, shape (groups,), or None
        Number of each group's first row in the input, if the columns have no row numbers.
    """

    columns: Columns
    starts: np.ndarray
    grouped: bool = True
    labels: Labels | None = None
    ranked_rows: Mapping[int, RankedRows | None] = field(default_factory=dict)
    clusters: np.ndarray | None = None
    buckets: np.ndarray | None = None
    first_rows: np.ndarray | None = None
    #: Identifies the chunk to those who keep rows of several models after the chunk is freed.
    token: object = field(default_factory=object, compare=False)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.starts) - 1

    def unjudged_rows(self) -> np.ndarray:
        """Count the unjudged rows of each group.

        int64; 0 where no measure needs them.
        """
        unjudged = self.columns.unjudged
        if unjudged is None:
            return np.zeros(self.groups, np.int64)
        return count_marked_rows(unjudged, self.starts)

    def count_unretrieved(self, scores: Sequence[str]) -> RowsLeftOut:
        """Count the positives and the others that each model has not retrieved."""
        counts: RowsLeftOut = Counter()
        for name, mask in zip(scores, self.columns.unretrieved, strict=True):
            rows = 0 if mask is None else int(np.count_nonzero(mask))
            positives = int(np.count_nonzero(self.columns.label[mask] >= 1)) if rows else 0
            counts[POSITIVES, name], counts[OTHERS, name] = positives, rows - positives
        return counts

    def kept(self, roles: Roles) -> tuple[Chunk, np.ndarray | None, RowsLeftOut]:
        """Leave out the rows that a plan drops, and the groups that have no other.

        Returns
        -------
        chunk : Chunk
        groups : ndarray of int64, or None
            Indices of its groups in this chunk; None for all.
        left_out : RowsLeftOut
            Rows without a label first; of the others those without a score, by model too.
        """
        columns, left_out = self.columns, rows_left_out_by(roles)
        dropped = np.zeros(columns.rows, np.bool_)
        if roles.unjudged == "drop":
            if columns.unjudged is not None:
                dropped |= columns.unjudged
            left_out[UNJUDGED, ""] = int(np.count_nonzero(dropped))
        if roles.unretrieved == "drop":
            judged, masks = ~dropped, columns.unretrieved
            for name, mask in zip(roles.scores, masks, strict=True):
                if mask is not None:
                    left_out[UNSCORED, name] = int(np.count_nonzero(mask & judged))
                    dropped |= mask
            left_out[UNSCORED, ""] = int(np.count_nonzero(dropped & judged))
        columns = columns.without_masks(roles.unjudged == "drop", roles.unretrieved == "drop")
        if not dropped.any():
            return replace(self, columns=columns), None, left_out
        rows = np.diff(self.starts) - count_marked_rows(dropped, self.starts)
        groups = np.flatnonzero(rows)
        starts = np.append(0, np.cumsum(rows[groups]))
        clusters = self.clusters
        if clusters is not None:
            clusters = np.searchsorted(groups, clusters)
            clusters = clusters[np.append(True, clusters[1:] > clusters[:-1])]
        kept = Chunk(columns.filter(~dropped), frozen(starts), self.grouped, clusters=clusters)
        return kept, groups, left_out

    def of_clusters(self, labels: Labels) -> tuple[Chunk, Labels]:
        """Return the rows of clusters in place of groups, with their labels."""
        if self.clusters is None:
            return self, labels
        starts = frozen(self.starts[self.clusters])
        offsets, every = np.searchsorted(labels.row, starts), np.arange(len(starts) - 1)
        of_clusters = replace(
            labels,
            starts=starts,
            skip_empty=False,
            indices=frozen(every),
            offsets=frozen(offsets),
            rows=frozen(np.diff(starts)),
            positives=count_relevant(labels.grade, offsets, 1.0),
        )
        buckets = None if self.buckets is None else self.buckets[self.clusters[:-1]]
        return Chunk(self.columns, starts, labels=of_clusters, buckets=buckets), of_clusters


@dataclass(init=True)
class Scored:
    """Rows of a chunk that a model has scored.

    Parameters
    ----------
    chunk : Chunk
    score : ndarray of float32 or float64, shape (rows,), read-only
    weight : ndarray of float64, shape (rows,), read-only, or None
    item : pyarrow.Array or None
    starts : ndarray of int64, shape (groups + 1,)
        First scored row of each group, then the number of scored rows.
    labels : Labels
        Labels of these rows. All models that scored every row share those of the chunk.
    scored_rows : ndarray of int64, shape (rows,), or None
        Row numbers in the chunk; None for all rows.
    unretrieved_relevant : ndarray of int64, or None
        Labelled rows of the chunk without a score; None where `scored_rows` is None.
    unjudged : ndarray of bool, shape (rows,), read-only, or None
        Mask of the rows without a label, where a measure needs it.
    subtopics : ndarray of uint64, shape (rows,), read-only, or None
        Subtopics that each row covers, where a measure needs them.
    fields : mapping of str to ndarray of int32, or None
        Codes of the columns that measures name, for all rows of the chunk.
    epsilon : float or None
        Machine epsilon of the type of the score column; None for that of `score`.
    integers : str
        ``"int64"`` or ``"uint64"`` if `score` has only the order of such integers, else ``""``.
    known_ranked : tuple of (RankedRows or None)
        What `ranked_rows` returns, if it is known.
    unselected : Scored or None
        The rows of the chunk before the selection; None where all have a score.
    """

    chunk: Chunk
    score: np.ndarray
    weight: np.ndarray | None
    item: pa.Array | None
    starts: np.ndarray
    labels: Labels
    scored_rows: np.ndarray | None = None
    unretrieved_relevant: np.ndarray | None = None
    unjudged: np.ndarray | None = None
    subtopics: np.ndarray | None = None
    fields: Mapping[str, np.ndarray] | None = None
    epsilon: float | None = None
    integers: str = ""
    known_ranked: tuple[RankedRows | None, ...] = ()
    unselected: Scored | None = None

    @classmethod
    def of(
        cls,
        chunk: Chunk,
        model: int,
        labels: Labels,
        fields: Mapping[str, np.ndarray] | None = None,
        roles: Roles | None = None,
    ) -> Self:
        """Select the rows that a model has scored.

        Parameters
        ----------
        chunk : Chunk
        model : int
            Index of the score column.
        labels : Labels
            Labels of the chunk.
        fields : mapping of str to ndarray of int32, or None
            Field codes of the chunk.
        roles : Roles, optional
            For the type of the score column.
        """
        columns = chunk.columns
        _, weight, subtopics, unjudged, *arrays = columns.arrays
        score, missing = arrays[model], arrays[columns.models + model]
        rows = cls(
            *(chunk, score, weight, columns.item, labels.starts, labels, None, None),
            *(unjudged, subtopics, fields),
            roles.epsilons[model] if roles and roles.epsilons else None,
            roles.integers[model] if roles and roles.integers else "",
            (chunk.ranked_rows[model],) if model in chunk.ranked_rows else (),
            None,
        )
        if missing is None or not missing.any():
            return rows
        has_score = ~missing
        scored_rows = np.flatnonzero(has_score)
        starts = np.append(0, np.cumsum(count_marked_rows(has_score, chunk.starts)))

        def select(values: np.ndarray | None) -> Any:
            return None if values is None else frozen(values[scored_rows])

        return replace(
            rows,
            score=select(rows.score),
            weight=select(rows.weight),
            item=None if rows.item is None else rows.item.take(row_column(scored_rows)),
            starts=starts,
            # A group without a labelled row here may have one without a score.
            labels=find_labels(columns.label[scored_rows], starts, skip=False),
            scored_rows=scored_rows,
            unretrieved_relevant=np.flatnonzero(missing & (labels.marks != 0)),
            unjudged=select(rows.unjudged),
            subtopics=select(rows.subtopics),
            known_ranked=(),
            unselected=rows,
        )

    @property
    def every_row(self) -> Scored:
        """All rows of the chunk; `no_score`, below every score, for null ones."""
        # Not in a cache: rows that refer to themselves stay until garbage is collected.
        return self if self.unselected is None else self._with_unscored

    @cached_property
    def _with_unscored(self) -> Scored:
        rows = cast(Scored, self.unselected)
        score, labels = np.full_like(rows.score, no_score(rows.score.dtype)), rows.labels
        score[self.scored_rows] = self.score
        if labels.skip_empty:  # a model that leaves rows without a score ranks every group
            labels = find_labels(labels.label, labels.starts, skip=False)
        return replace(rows, score=frozen(score), labels=labels, known_ranked=())

    def to_rank(self) -> Scored:
        """Replace the scores of `every_row` by numbers of their order."""
        missing = np.isnan(self.score)
        lowest = self.score[~missing].min(initial=np.inf)
        if lowest > -np.inf:
            return replace(self, score=frozen(np.where(missing, -np.inf, self.score)))
        # Minus infinity is taken. NaN comes last in np.unique(), and here first.
        ranks = np.where(missing, -1, np.unique(self.score, return_inverse=True)[1])
        return replace(self, score=frozen(ranks.astype(np.float64)))

    def numbers(self) -> np.ndarray:
        """Return scores as float64, the nearest ones of 64-bit integers."""
        if self.integers:
            return numbers_of_order(self.score, self.integers)
        return self.score.astype(np.float64)

    def field(self, name: str) -> np.ndarray:
        """Return the code of each row's value in a column. int32, shape (rows,)."""
        codes = (self.fields or {})[name]
        return codes if self.scored_rows is None else codes[self.scored_rows]

    def ranked_rows(self, presorted: bool, score_name: str) -> RankedRows | None:
        """Compute the labelled rows of rows whose scores descend in groups.

        None where a score rises.

        Parameters
        ----------
        presorted : bool
            Whether the caller promised it.
        score_name : str
            Score column, for the message.

        Raises
        ------
        OrderError
            A score rises although `presorted` is True; the message names the row.
        """
        if self.known_ranked:
            (ranked_rows,) = self.known_ranked
        else:
            ranked_rows = ranked_in_order(self.score, self.starts, self.labels)
        if ranked_rows is None and presorted:
            broken = first_rise(self.score, self.starts)
            # 64-bit integers are stored as the bits of doubles: such values are not shown.
            pair = self.score[[broken - 1, broken]]
            has_subnormal = (pair != 0) & (np.abs(pair) < np.finfo(pair.dtype).tiny)
            values = "" if has_subnormal.any() else f": {pair[0]!s} is followed by {pair[1]!s}"
            row = int(broken if self.scored_rows is None else self.scored_rows[broken])
            number = self.chunk.columns.row_number(row)
            error = OrderError(
                f"score column '{score_name}' rises inside a group at row {number:,} (counted from "
                f"0){values}, but order='sorted' promises descending scores; sort "
                "the input by group and descending score, or leave the option out."
            )
            error.row = number
            raise error
        return ranked_rows


def count_marked_rows(marks: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Count the marked rows of each group. int64, shape (groups,)."""
    # 32 marks in a word, and one more word, because the last edge may lie in it.
    packed = np.zeros(4 * (len(marks) // 32 + 1), np.uint8)
    packed[: -(-len(marks) // 8)] = np.packbits(marks, bitorder="little")
    counts = np.empty(len(starts) - 1, np.int64)
    _count_marks(frozen(packed.view("<u4").astype(np.int64)), starts, counts)
    return counts


@kernel
def _count_marks(words, starts, counts):  # type: ignore[no-untyped-def]
    """Count the marks between edges, without a loop over a group's rows.

    The marks below the previous edge are subtracted from those below the edge.
    """
    total = np.int64(0)
    word = np.int64(0)
    before = np.int64(0)
    for g in range(counts.shape[0] + 1):
        edge = starts[g]
        while word < edge >> 5:
            total += _popcount(words[word])
            word += 1
        below = total + _popcount(words[word] & ((1 << (edge & 31)) - 1))
        if g > 0:
            counts[g - 1] = below - before
        before = below


@kernel
def _popcount(word):  # type: ignore[no-untyped-def]
    """Count the bits that are set among 32."""
    pairs = word - ((word >> 1) & 0x55555555)
    fours = (pairs & 0x33333333) + ((pairs >> 2) & 0x33333333)
    bytes_ = (fours + (fours >> 4)) & 0x0F0F0F0F
    return ((bytes_ * 0x01010101) >> 24) & 0xFF
