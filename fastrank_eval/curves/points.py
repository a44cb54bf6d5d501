"""The points of a curve over thresholds: all of them, those at corners, or so many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fastrank_eval.errors import ArgumentError
from fastrank_eval.score_table import ScoreTable

__all__ = ["Thresholds", "corners", "points_choice", "spread"]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What is predicted positive, threshold by threshold, from nothing to everything.

    Parameters
    ----------
    threshold : ndarray of float64, shape (scores + 1,)
        Inf, where nothing is predicted positive; then every distinct score, descending.
    tp, fp : ndarray of int64 or float64, shape (scores + 1,)
        Positives and others at or above each threshold: rows, or their weight times a power of
        two, which lets no sum overflow and no share feel it.
    """

    threshold: np.ndarray
    tp: np.ndarray
    fp: np.ndarray

    @classmethod
    def of(cls, table: ScoreTable) -> Self:
        """From a table of scores; scores without any weight are passed over."""
        weighs = (table.positives > 0) | (table.others > 0)
        score = table.score[weighs].astype(np.float64)
        tp, fp = (
            np.concatenate([[column.dtype.type(0)], np.cumsum(column[weighs])])
            for column in (table.positives, table.others)
        )
        return cls(np.concatenate([[np.inf], score]), tp, fp)

    @property
    def tpr(self) -> np.ndarray:
        """Share of the positives that are predicted positive, also called recall."""
        return np.asarray(self.tp / self.tp[-1])

    @property
    def fpr(self) -> np.ndarray:
        """Share of the others that are predicted positive."""
        return np.asarray(self.fp / self.fp[-1])

    @property
    def precision(self) -> np.ndarray:
        """Share of positives among what is predicted positive; 1 where nothing is."""
        above = self.tp + self.fp
        return np.divide(self.tp, above, out=np.ones(len(above)), where=above > 0)

    @property
    def depth(self) -> np.ndarray:
        """Share of all rows that are predicted positive."""
        above = self.tp + self.fp
        return np.asarray(above / above[-1])

    @property
    def progress(self) -> np.ndarray:
        """How far along the ROC curve: tpr + fpr, where both classes are there."""
        shares = [part / part[-1] for part in (self.tp, self.fp) if part[-1] > 0]
        return np.asarray(sum(shares))


def points_choice(given: Any) -> str | int:
    """Read how many points a curve shall have.

    Raises
    ------
    ArgumentError
        Where it is neither ``"all"`` nor ``"corners"`` nor a whole number of at least 2.
    """
    if isinstance(given, str) and given in ("all", "corners"):
        return given
    number = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not number or given < 2:
        raise ArgumentError(
            f"points={given!r} is neither 'all' nor 'corners' nor a whole number of at least 2."
        )
    return int(given)


def corners(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The points where a line changes its direction, and its ends; exact for counts.

    Parameters
    ----------
    x, y : ndarray of int64 or float64, shape (points,)
        Neighbours differ.

    Returns
    -------
    ndarray of int64
        Ascending positions.
    """
    dx, dy = np.diff(x), np.diff(y)
    straight = dx[:-1] * dy[1:] == dy[:-1] * dx[1:]
    if dx.dtype.kind == "i":
        # Products of large counts wrap: equal ones may differ by multiples of 2^64, as doubles not.
        left, right = dx[:-1] * dy[1:].astype(np.float64), dy[:-1] * dx[1:].astype(np.float64)
        straight &= np.abs(left - right) <= np.abs(left) * 2.0**-50
    return np.concatenate([[0], np.flatnonzero(~straight) + 1, [len(x) - 1]])[: len(x)]


def spread(progress: np.ndarray, points: int) -> np.ndarray:
    """At most so many points, the ends among them, evenly spaced.

    Parameters
    ----------
    progress : ndarray of float64, shape (points,)
        Ascending.
    points : int
        At least 2.

    Returns
    -------
    ndarray of int64
        Ascending positions of what lies nearest to each of the evenly spaced values.
    """
    if len(progress) <= points:
        return np.arange(len(progress))
    wanted = np.linspace(progress[0], progress[-1], points)
    after = np.clip(np.searchsorted(progress, wanted), 1, len(progress) - 1)
    nearer = wanted - progress[after - 1] <= progress[after] - wanted
    return np.unique(np.concatenate([[0], after - nearer, [len(progress) - 1]]))
