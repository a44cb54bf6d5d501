"""Confusion matrices: what a threshold decides of positives and others, counted and exact."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple, Self

import numpy as np

from fastrank_eval.clustered_sums import ClusteredSums
from fastrank_eval.saved_parts import Parts


class Confusion(NamedTuple):
    """Positives and others, by what was predicted of them: rows or their weight.

    Parameters
    ----------
    tp, fp, fn, tn : ndarray of float64, shape (cases,)
        True positives, false positives, false negatives, true negatives.
    """

    tp: np.ndarray
    fp: np.ndarray
    fn: np.ndarray
    tn: np.ndarray

    @property
    def positive(self) -> np.ndarray:
        """What is positive."""
        return self.tp + self.fn

    @property
    def negative(self) -> np.ndarray:
        """What is not."""
        return self.fp + self.tn

    @property
    def predicted(self) -> np.ndarray:
        """What is predicted positive."""
        return self.tp + self.fp

    @property
    def rejected(self) -> np.ndarray:
        """What is not."""
        return self.fn + self.tn

    @property
    def all(self) -> np.ndarray:
        """Everything."""
        return self.positive + self.negative

    def scaled(self) -> Confusion:
        """Times a power of two, so that no product of two numbers overflows."""
        down = -np.frexp(self.all)[1]
        return Confusion(*(np.ldexp(cell, down) for cell in self))


class ConfusionSums(ClusteredSums):
    """A confusion matrix: int64 counts, or exact sums of weights.

    Parameters
    ----------
    weighted : bool
        Whether rows have weights.
    """

    #: Its cells in the order of their sums: what `cells_of` numbers.
    CELLS = ("TN", "FN", "FP", "TP")

    def __init__(self, weighted: bool) -> None:
        super().__init__(len(self.CELLS), len(self.CELLS))
        self.weighted = weighted

    def saved(self) -> Parts:
        """As `ExactSums.saved`, and whether rows have weights."""
        return {**super().saved(), "weighted": np.array(self.weighted, np.uint8)}

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        sums = super().loaded(parts)
        sums.weighted = bool(parts["weighted"])
        return sums

    def _exact(self) -> list[Fraction]:
        return [self.exact(term) for term in range(len(self.CELLS))]

    def confusion(self) -> Confusion:
        """The matrix as one case; of weights, times a power of two."""
        exact = [cell * Fraction(2) ** self._power() for cell in self._exact()]
        tn, fn, fp, tp = (np.array([float(cell)]) for cell in exact)
        return Confusion(tp, fp, fn, tn)

    def unscaled(self, slopes: Confusion) -> list[float]:
        """Derivatives by the sums, in the order of `CELLS`, from those by `confusion`."""
        by_name = dict(zip(("TP", "FP", "FN", "TN"), slopes, strict=True))
        power = self._power()
        with np.errstate(over="ignore"):
            return [float(np.ldexp(by_name[name][0], power)) for name in self.CELLS]

    def _power(self) -> int:
        """Times two to the power of this, weights come to about 1; counts stay as they are."""
        total = sum(self._exact())
        if not self.weighted or not total:
            return 0
        return total.denominator.bit_length() - total.numerator.bit_length()

    def details(self) -> dict[str, float]:
        """The cells by their names, the true positives first."""
        cells: list[float] = [self.total(term) for term in range(len(self.CELLS))]
        if not self.weighted:
            cells = [int(cell) for cell in self._exact()]
        named = dict(zip(self.CELLS, cells, strict=True))
        return {name: named[name] for name in ("TP", "FP", "FN", "TN")}


def least_of(kind: np.dtype, threshold: float) -> np.floating:
    """The least number of a float type that is not below a threshold.

    Scores compared with it are compared with the threshold itself, without being converted: a
    float32 score of 0.1 is above the double 0.1, one of 0.7 below the double 0.7.
    """
    with np.errstate(over="ignore"):
        least: np.floating = kind.type(threshold)
    return least if float(least) >= threshold else np.nextafter(least, kind.type(np.inf))


def cells_of(score: np.ndarray, least: np.floating, positive: np.ndarray) -> np.ndarray:
    """The cell of the confusion matrix of each row, as `ConfusionSums.CELLS` has them.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,)
    least : numpy.float32 or numpy.float64
        Of the same type: the least score of a row that is predicted positive.
    positive : ndarray of int64
        Which rows are positive.

    Returns
    -------
    ndarray of int64, shape (rows,)
    """
    cells: np.ndarray = 2 * (score >= least).astype(np.int64)
    cells[positive] += 1
    return cells


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Above / below, NaN where below is 0."""
    out = np.full(np.shape(above), np.nan)
    np.divide(above, below, out=out, where=below != 0)
    return out


def f_score(confusion: Confusion, beta: float) -> np.ndarray:
    """F-beta of each case, NaN where nothing is or is predicted positive."""
    recall = beta * beta
    # Both weights at most 1, so that no beta overflows.
    of_recall, of_precision = (1.0, 1.0 / recall) if recall > 1 else (recall, 1.0)
    hits = (of_recall + of_precision) * confusion.tp
    score = ratio(hits, hits + of_recall * confusion.fn + of_precision * confusion.fp)
    # Where beta is so small or large that one kind of error weighs nothing.
    missed = (confusion.tp == 0) & (confusion.fn + confusion.fp > 0)
    return np.where(missed, 0.0, score)
