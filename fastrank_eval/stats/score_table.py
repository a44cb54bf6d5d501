"""Compute areas, ranks and ROC steps from the counts of distinct scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays, delta_decode, delta_encode, narrow
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval.stats.score_runs import scores_of, sortable_codes, sum_of_products


def area_from_steps(steps: RocSteps) -> float:
    """Compute the AUC from ROC steps: exact, with one rounding."""
    above = np.cumsum(steps.negatives_between)[:-1] + np.cumsum(steps.others)
    others = int(steps.negatives_between.sum() + steps.others.sum())
    won_twice = sum_of_products(steps.positives, 2 * (others - above) + steps.others)
    pairs = int(steps.positives.sum()) * others
    return won_twice / (2 * pairs) if pairs else float("nan")


@dataclass(frozen=True)
class ScoreTable:
    """Distinct scores, highest first, with their positives and others.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (scores,), read-only
        Strictly descending; NaN last, for rows without a score.
    positives, others : ndarray, shape (scores,), read-only
        int64 counts of rows, or float64 sums of their weights times `scale`.
    scale : float
        A power of two that prevents overflow of sums of weights; 1 without weights.
    """

    score: np.ndarray
    positives: np.ndarray
    others: np.ndarray
    scale: float = 1.0

    @classmethod
    def empty(cls) -> Self:
        """Make a table without scores."""
        none = frozen(np.empty(0, np.int64))
        return cls(frozen(np.empty(0)), none, none)

    @classmethod
    def from_codes(
        cls, codes: np.ndarray, positives: np.ndarray, others: np.ndarray, scale: float = 1.0
    ) -> Self:
        """Make a table from the codes of the scores."""
        score, positives, others = (
            frozen(np.ascontiguousarray(column)) for column in (scores_of(codes), positives, others)
        )
        return cls(score, positives, others, scale)

    @property
    def positive(self) -> float:
        """All positives: their number, or their weight times `scale`."""
        return float(self.positives.sum())

    @property
    def other(self) -> float:
        """All others: their number, or their weight times `scale`."""
        return float(self.others.sum())

    @property
    def missing(self) -> str | None:
        """The reason why measures that need both classes are undefined, or None."""
        if self.positive > 0 and self.other > 0:
            return None
        has_weight = self.positive > 0 or self.other > 0
        return "single_class" if has_weight or not len(self.score) else "zero_weight"

    def to_arrays(self) -> Arrays:
        """Write ``codes`` of the scores, ascending, ``positives`` and ``others``.

        A code has the bits of the score as an unsigned integer of the same order: all bits are
        flipped where the sign is set, otherwise the sign alone. Codes are written as differences
        (see `array_codes`).
        """
        return {
            "codes": delta_encode(sortable_codes(self.score[::-1])),
            "positives": narrow(self.positives[::-1]),
            "others": narrow(self.others[::-1]),
        }

    @staticmethod
    def counts_in(arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Read the ascending codes with their positives and others."""
        positives, others = (arrays[name].astype(np.int64) for name in ("positives", "others"))
        codes = delta_decode(arrays["codes"])
        if not codes.shape == positives.shape == others.shape or (codes[1:] <= codes[:-1]).any():
            raise ValueError("codes do not ascend, or are not as many as their counts")
        if min(positives.min(initial=0), others.min(initial=0)) < 0:
            raise ValueError("counts of scores are below 0")
        return codes, positives, others


@dataclass(frozen=True)
class RocSteps:
    """Distinct scores of positives, highest first, with negatives.

    A `ScoreTable` with the negatives between two scores of positives added up. At click rates of a
    few per cent it is far shorter.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (scores,), read-only
        Strictly descending; NaN last, for rows without a score.
    positives, others : ndarray, shape (scores,), read-only
        Rows that have the score: int64 counts, or float64 sums of their weights times `scale`.
    negatives_between : ndarray, shape (scores + 1,), read-only
        Negatives with a score above this one and below the previous one. The last entry counts
        those below all scores.
    scale : float
        As in a `ScoreTable`.
    """

    score: np.ndarray
    positives: np.ndarray
    others: np.ndarray
    negatives_between: np.ndarray
    scale: float = 1.0

    @classmethod
    def empty(cls) -> Self:
        """Make steps without scores."""
        none = frozen(np.empty(0, np.int64))
        return cls(frozen(np.empty(0)), none, none, frozen(np.zeros(1, np.int64)))

    @classmethod
    def from_codes(
        cls,
        codes: np.ndarray,
        positives: np.ndarray,
        others: np.ndarray,
        between: np.ndarray,
    ) -> Self:
        """Make steps from the codes of the scores."""
        score, positives, others, between = (
            frozen(np.ascontiguousarray(column))
            for column in (scores_of(codes), positives, others, between)
        )
        return cls(score, positives, others, between)

    @classmethod
    def from_ranks(cls, parts: Sequence[tuple[np.ndarray, ...]], rows: int) -> Self:
        """Make steps from the ranks of positives.

        Parameters
        ----------
        parts : sequence of tuple of ndarray
            By bucket, ascending: distinct codes of positives, the positives of each, and the rows
            with a lower code and with a code at most as high.
        rows : int
            All rows.
        """
        codes, number, below, through = (np.concatenate(part) for part in zip(*parts, strict=True))
        before = np.cumsum(number) - number
        lower = below - before
        tied = through - below - number
        edges = np.concatenate([[0], lower + tied])
        between = np.append(lower, rows - number.sum()) - edges
        return cls.from_codes(codes[::-1], number[::-1], tied[::-1], between[::-1])

    @classmethod
    def from_table(cls, table: ScoreTable) -> Self:
        """Make steps from the table of every distinct score."""
        index = np.flatnonzero(table.positives)
        between = np.zeros(len(index) + 1, table.others.dtype)
        _sum_between(table.others, frozen(index), between)
        score, positives, others = (
            frozen(column[index]) for column in (table.score, table.positives, table.others)
        )
        return cls(score, positives, others, frozen(between), table.scale)

    @property
    def positive(self) -> float:
        """All positives: their number, or their weight times `scale`."""
        return float(self.positives.sum())

    @property
    def other(self) -> float:
        """All others: their number, or their weight times `scale`."""
        return float(self.others.sum() + self.negatives_between.sum())

    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return others and positives of each run, highest scores first.

        Returns
        -------
        others, positives : ndarray of float64, shape (2 * scores + 1,)
            Even entries: between two scores; odd entries: at a score.
        """
        others, positives = np.zeros((2, 2 * len(self.score) + 1))
        others[0::2] = self.negatives_between
        others[1::2] = self.others
        positives[1::2] = self.positives
        return frozen(others), frozen(positives)


@kernel
def _sum_between(others, index, between):  # type: ignore[no-untyped-def]
    """Sum the others between positives, from the highest score down."""
    k = 0
    for i in range(others.shape[0]):
        if k < index.shape[0] and index[k] == i:
            k += 1
        else:
            between[k] += others[i]
