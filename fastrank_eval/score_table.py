"""Every distinct score with its rows of each class: what curves and thresholds are read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from fastrank_eval.codes import codes_of, scores_of
from fastrank_eval.columns import frozen
from fastrank_eval.saved_parts import Parts, narrow, of_steps, steps_of


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Distinct scores, highest first, and the positive and other rows that have them.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (scores,), read-only
        Strictly descending.
    positives, others : ndarray, shape (scores,), read-only
        int64 counts of rows, or float64 sums of their weights times `scale`.
    scale : float
        A power of two, which lets no sum of weights overflow; 1 without weights.
    """

    score: np.ndarray
    positives: np.ndarray
    others: np.ndarray
    scale: float = 1.0

    @classmethod
    def empty(cls) -> Self:
        """A table of no score."""
        none = frozen(np.empty(0, np.int64))
        return cls(frozen(np.empty(0)), none, none)

    @classmethod
    def of(
        cls, codes: np.ndarray, positives: np.ndarray, others: np.ndarray, scale: float = 1.0
    ) -> Self:
        """From the codes of the scores."""
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
        """Why no measure that needs both classes is defined, or None."""
        if self.positive > 0 and self.other > 0:
            return None
        weighs = self.positive > 0 or self.other > 0
        return "single_class" if weighs or not len(self.score) else "zero_weight"

    def saved(self) -> Parts:
        """Counts of rows: ``codes`` of the scores, ascending, ``positives`` and ``others``.

        Codes are the scores' bits as unsigned integers of the same order (all bits flipped where
        the sign is set, else the sign), in the steps of `saved_parts.steps_of`.
        """
        return {
            "codes": steps_of(codes_of(self.score[::-1])),
            "positives": narrow(self.positives[::-1]),
            "others": narrow(self.others[::-1]),
        }

    @staticmethod
    def counts_in(parts: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes, ascending, with the number of their positives and of their others."""
        positives, others = (parts[name].astype(np.int64) for name in ("positives", "others"))
        codes = of_steps(parts["codes"])
        if not codes.shape == positives.shape == others.shape or (codes[1:] <= codes[:-1]).any():
            raise ValueError("codes do not ascend, or are not as many as their counts")
        if min(positives.min(initial=0), others.min(initial=0)) < 0:
            raise ValueError("counts of scores are below 0")
        return codes, positives, others
