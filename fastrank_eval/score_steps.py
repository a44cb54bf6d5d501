"""Where positives stand among the others: the corners of a ROC curve, collinear ones left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from fastrank_eval.codes import scores_of
from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel
from fastrank_eval.score_table import ScoreTable


@dataclass(frozen=True, slots=True)
class ScoreSteps:
    """Distinct scores of positives, highest first, with the others at them and between them.

    It is what a `ScoreTable` says once the others between two scores of positives are added up;
    at click rates of a few per cent it is shorter by far.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (scores,), read-only
        Strictly descending.
    positives, others : ndarray, shape (scores,), read-only
        Rows that have the score: int64 counts, or float64 sums of their weights times `scale`.
    between : ndarray, shape (scores + 1,), read-only
        Others of a score below the one before and above this one; at last, those below all.
    scale : float
        As in a `ScoreTable`.
    """

    score: np.ndarray
    positives: np.ndarray
    others: np.ndarray
    between: np.ndarray
    scale: float = 1.0

    @classmethod
    def empty(cls) -> Self:
        """No score at all."""
        none = frozen(np.empty(0, np.int64))
        return cls(frozen(np.empty(0)), none, none, frozen(np.zeros(1, np.int64)))

    @classmethod
    def of(
        cls,
        codes: np.ndarray,
        positives: np.ndarray,
        others: np.ndarray,
        between: np.ndarray,
    ) -> Self:
        """From the codes of the scores."""
        score, positives, others, between = (
            frozen(np.ascontiguousarray(column))
            for column in (scores_of(codes), positives, others, between)
        )
        return cls(score, positives, others, between)

    @classmethod
    def of_places(cls, parts: Sequence[tuple[np.ndarray, ...]], rows: int) -> Self:
        """From ascending positives, their number, and the rows below them and up to them.

        Parameters
        ----------
        parts : sequence of tuple of ndarray
            Distinct codes of positives with these numbers, a part after another.
        rows : int
            All rows.
        """
        codes, number, below, through = (np.concatenate(part) for part in zip(*parts, strict=True))
        before = np.cumsum(number) - number
        lower = below - before
        tied = through - below - number
        edges = np.concatenate([[0], lower + tied])
        between = np.append(lower, rows - number.sum()) - edges
        return cls.of(codes[::-1], number[::-1], tied[::-1], between[::-1])

    @classmethod
    def of_table(cls, table: ScoreTable) -> Self:
        """From every distinct score."""
        at = np.flatnonzero(table.positives)
        between = np.zeros(len(at) + 1, table.others.dtype)
        _add_between(table.others, frozen(at), between)
        score, positives, others = (
            frozen(column[at]) for column in (table.score, table.positives, table.others)
        )
        return cls(score, positives, others, frozen(between), table.scale)

    @property
    def positive(self) -> float:
        """All positives: their number, or their weight times `scale`."""
        return float(self.positives.sum())

    @property
    def other(self) -> float:
        """All others: their number, or their weight times `scale`."""
        return float(self.others.sum() + self.between.sum())

    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Others and positives of each run of rows, from the highest score down.

        Returns
        -------
        others, positives : ndarray of float64, shape (2 * scores + 1,)
            By turns those between two scores and those at one.
        """
        others, positives = np.zeros((2, 2 * len(self.score) + 1))
        others[0::2] = self.between
        others[1::2] = self.others
        positives[1::2] = self.positives
        return frozen(others), frozen(positives)


@kernel
def _add_between(others, at, between):  # type: ignore[no-untyped-def]
    """Add up the others that stand between positives, from the highest score down."""
    k = 0
    for i in range(others.shape[0]):
        if k < at.shape[0] and at[k] == i:
            k += 1
        else:
            between[k] += others[i]
