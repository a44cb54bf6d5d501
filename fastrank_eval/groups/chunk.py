"""Whole groups, and those of their rows that one model has scored."""

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
from fastrank_eval.groups.sort import broken_order
from fastrank_eval.io.columns import Columns


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole groups, one after another.

    Parameters
    ----------
    columns : Columns
        Their rows.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    grouped : bool
        Whether rows have groups; otherwise all stand as one, and nothing is known of clusters.
    """

    columns: Columns
    starts: np.ndarray
    grouped: bool = True
    #: Tells rows of several models apart from those of another chunk, once the chunk is gone.
    token: object = field(default_factory=object, compare=False)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.starts) - 1

    def unjudged_rows(self) -> np.ndarray:
        """Rows of each group that nobody judged, as far as a measure asks. int64."""
        unjudged = self.columns.unjudged
        if unjudged is None:
            return np.zeros(self.groups, np.int64)
        return marked_rows(unjudged, self.starts)


@dataclass(frozen=True, slots=True)
class Scored:
    """The rows of a chunk that a model has scored.

    Parameters
    ----------
    chunk : Chunk
    score : ndarray of float32 or float64, shape (rows,), read-only
    weight : ndarray of float64, shape (rows,), read-only, or None
    item : pyarrow.Array or None
    starts : ndarray of int64, shape (groups + 1,)
        First of these rows of each group, then their number.
    labels : Labels
        Theirs: those of the chunk, shared by all models that scored every row of it.
    kept : ndarray of int64, shape (rows,), or None
        Which rows of the chunk these are; None: all.
    lost : ndarray of int64, or None
        Labelled rows of the chunk that are not among these; None where `kept` is.
    unjudged : ndarray of bool, shape (rows,), read-only, or None
        Those without a label, where a measure asks.
    subtopics : ndarray of uint64, shape (rows,), read-only, or None
        What they cover, where a measure asks.
    fields : mapping of str to ndarray of int32, or None
        Codes of the columns whose values measures tell apart, of all rows of the chunk.
    epsilon : float or None
        Of the type of the score column; None: of the type of `score`.
    """

    chunk: Chunk
    score: np.ndarray
    weight: np.ndarray | None
    item: pa.Array | None
    starts: np.ndarray
    labels: Labels
    kept: np.ndarray | None = None
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
        """Leave out the rows that a model has not scored.

        Parameters
        ----------
        chunk : Chunk
        model : int
            Which score column.
        labels : Labels
            Of the chunk.
        fields : mapping of str to ndarray of int32, or None
            Of the chunk.
        epsilons : sequence of float
            Of the type of each score column, where it is known.
        """
        columns = chunk.columns
        epsilon = epsilons[model] if epsilons else None
        score, weight, item = columns.scores[model], columns.weight, columns.item
        missing, unjudged = columns.unretrieved[model], columns.unjudged
        subtopics = columns.subtopics
        if missing is None or not missing.any():
            every = cls(chunk, score, weight, item, chunk.starts, labels, fields=fields)
            return replace(every, unjudged=unjudged, subtopics=subtopics, epsilon=epsilon)
        here = ~missing
        kept = np.flatnonzero(here)
        starts = np.append(0, np.cumsum(marked_rows(here, chunk.starts)))
        return cls(
            chunk,
            frozen(score[kept]),
            None if weight is None else frozen(weight[kept]),
            None if item is None else item.take(row_column(kept)),
            starts,
            # A group without a labelled row here may have one that is lost.
            Labels.of(columns.label[kept], starts, skip_empty=False),
            kept,
            np.flatnonzero(missing & (labels.labelled.marks != 0)),
            None if unjudged is None else frozen(unjudged[kept]),
            None if subtopics is None else frozen(subtopics[kept]),
            fields,
            epsilon,
        )

    def field(self, name: str) -> np.ndarray:
        """The code of each row's value in a column. int32, shape (rows,)."""
        codes = (self.fields or {})[name]
        return codes if self.kept is None else codes[self.kept]

    def in_order(self, presorted: bool, score_name: str) -> bool:
        """Whether rows stand best first in every group; an error where that was promised.

        Parameters
        ----------
        presorted : bool
            Whether it was.
        score_name : str
            For the message.

        Raises
        ------
        OrderError
            Names the row whose score rises.
        """
        broken = broken_order(self.score, self.starts, presorted)
        if broken >= 0 and presorted:
            # 64-bit integers are places among the doubles here, no values to show.
            pair = self.score[[broken - 1, broken]]
            odd = (pair != 0) & (np.abs(pair) < np.finfo(pair.dtype).tiny)
            values = "" if odd.any() else f": {pair[0]!s} is followed by {pair[1]!s}"
            row = int(broken if self.kept is None else self.kept[broken])
            number = self.chunk.columns.number_of(row)
            error = OrderError(
                f"score column '{score_name}' rises inside a group at row {number:,} (counted from "
                f"0){values}, but the input was said to be sorted; sort it by group and descending "
                "score, or leave out the promise."
            )
            error.row = number
            raise error
        return broken < 0


def marked_rows(marks: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """How many rows of each group a mask marks. int64, shape (groups,)."""
    # 32 marks a word, and one word more, in which the last edge may stand.
    packed = np.zeros(4 * (len(marks) // 32 + 1), np.uint8)
    packed[: -(-len(marks) // 8)] = np.packbits(marks, bitorder="little")
    counts = np.empty(len(starts) - 1, np.int64)
    _count_marks(frozen(packed.view("<u4").astype(np.int64)), starts, counts)
    return counts


@kernel
def _count_marks(words, starts, counts):  # type: ignore[no-untyped-def]
    """Marks below each edge less those below the edge before: no loop over the rows of a group."""
    whole = np.int64(0)
    at = np.int64(0)
    before = np.int64(0)
    for g in range(counts.shape[0] + 1):
        edge = starts[g]
        while at < edge >> 5:
            whole += _ones(words[at])
            at += 1
        below = whole + _ones(words[at] & ((1 << (edge & 31)) - 1))
        if g > 0:
            counts[g - 1] = below - before
        before = below


@kernel
def _ones(word):  # type: ignore[no-untyped-def]
    """How many of 32 bits are set."""
    pairs = word - ((word >> 1) & 0x55555555)
    fours = (pairs & 0x33333333) + ((pairs >> 2) & 0x33333333)
    bytes_ = (fours + (fours >> 4)) & 0x0F0F0F0F
    return ((bytes_ * 0x01010101) >> 24) & 0xFF
