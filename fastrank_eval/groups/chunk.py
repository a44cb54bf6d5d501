"""Hold whole groups, and the rows that a model has scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.errors import OrderError
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.labels import Labels
from fastrank_eval.groups.sort import find_order_violation
from fastrank_eval.io.columns import Columns


@dataclass(frozen=True, slots=True)
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
    """

    columns: Columns
    starts: np.ndarray
    grouped: bool = True
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


@dataclass(frozen=True, slots=True)
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

    @classmethod
    def of(
        cls,
        chunk: Chunk,
        model: int,
        labels: Labels,
        fields: Mapping[str, np.ndarray] | None = None,
        epsilons: Sequence[float] = (),
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
        epsilons : sequence of float
            Machine epsilon of the type of each score column, where it is known.
        """
        columns = chunk.columns
        epsilon = epsilons[model] if epsilons else None
        score, weight, item = columns.scores[model], columns.weight, columns.item
        missing, unjudged = columns.unretrieved[model], columns.unjudged
        subtopics = columns.subtopics
        if missing is None or not missing.any():
            all_rows = cls(chunk, score, weight, item, chunk.starts, labels, fields=fields)
            return replace(all_rows, unjudged=unjudged, subtopics=subtopics, epsilon=epsilon)
        has_score = ~missing
        scored_rows = np.flatnonzero(has_score)
        starts = np.append(0, np.cumsum(count_marked_rows(has_score, chunk.starts)))
        return cls(
            chunk,
            frozen(score[scored_rows]),
            None if weight is None else frozen(weight[scored_rows]),
            None if item is None else item.take(row_column(scored_rows)),
            starts,
            # A group without a labelled row here may have one without a score.
            Labels.of(columns.label[scored_rows], starts, skip_empty=False),
            scored_rows,
            np.flatnonzero(missing & (labels.labelled_rows.marks != 0)),
            None if unjudged is None else frozen(unjudged[scored_rows]),
            None if subtopics is None else frozen(subtopics[scored_rows]),
            fields,
            epsilon,
        )

    def field(self, name: str) -> np.ndarray:
        """Return the code of each row's value in a column. int32, shape (rows,)."""
        codes = (self.fields or {})[name]
        return codes if self.scored_rows is None else codes[self.scored_rows]

    def in_order(self, presorted: bool, score_name: str) -> bool:
        """Tell whether scores descend inside every group.

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
        broken = find_order_violation(self.score, self.starts, presorted)
        if broken >= 0 and presorted:
            # 64-bit integers are stored as the bits of doubles: such values are not shown.
            pair = self.score[[broken - 1, broken]]
            has_subnormal = (pair != 0) & (np.abs(pair) < np.finfo(pair.dtype).tiny)
            values = "" if has_subnormal.any() else f": {pair[0]!s} is followed by {pair[1]!s}"
            row = int(broken if self.scored_rows is None else self.scored_rows[broken])
            number = self.chunk.columns.row_number(row)
            error = OrderError(
                f"score column '{score_name}' rises inside a group at row {number:,} (counted from "
                f"0){values}, but order='sorted' (or presorted) promises descending scores; sort "
                "the input by group and descending score, or leave the option out."
            )
            error.row = number
            raise error
        return broken < 0


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
