"""Sum the terms of rows by group, for errors of measures of all rows."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel, scratch
from fastrank_eval.groups.chunk import count_marked_rows
from fastrank_eval.stats.keyed_sums import GroupSums
from fastrank_eval.stats.moments import ClusterMoments
from fastrank_eval.stats.row_sums import RowSums

if TYPE_CHECKING:
    from fastrank_eval.groups.chunk import Scored


class ClusteredSums(RowSums):
    """Exact sums of several terms over rows, and what their errors are computed from.

    Threads may add at the same time.

    Parameters
    ----------
    terms : int
        How many sums.
    varying : int
        How many of them, the first ones, have moments.
    """

    def __init__(self, terms: int, varying: int) -> None:
        super().__init__(terms)
        self.moments = ClusterMoments(varying)

    def add_groups(self, sums: np.ndarray | None) -> None:
        """Add groups to the moments, if there are any.

        Parameters
        ----------
        sums : ndarray of float64 or int64, shape (varying, groups), or None
            The sums over each group.
        """
        if sums is not None:
            self.moments.add(sums)

    def merge(self, other: RowSums) -> None:
        """Add other sums of the same terms, of other groups."""
        super().merge(other)
        if isinstance(other, ClusteredSums):
            self.moments.merge(other.moments)

    def saved(self) -> Arrays:
        """As `RowSums.saved`, and the moments."""
        moments = self.moments.saved()
        return {**super().saved(), **{f"moments.{name}": part for name, part in moments.items()}}

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        sums = super().loaded(parts)
        first = "moments."
        sums.moments = ClusterMoments.loaded(
            {
                name.removeprefix(first): part
                for name, part in parts.items()
                if name.startswith(first)
            }
        )
        return sums


class ChunkSums:
    """The terms of a chunk's rows, on their way to the sums over all rows and over each group.

    Rows of a group are added up first, without rounding: what reaches the sums over all rows is a
    pair of numbers for each group.

    Parameters
    ----------
    sums : ClusteredSums
        Over all rows.
    scored : Scored
        The rows.
    """

    def __init__(self, sums: ClusteredSums, scored: Scored) -> None:
        self._sums, self._scored = sums, scored
        self._of_groups: np.ndarray | None = None
        if scored.chunk.grouped:
            # A chunk in which a model has scored no row adds to no term.
            self._of_groups = np.zeros((sums.moments.terms, len(scored.starts) - 1))
        self._added: dict[int, GroupSums] = {}

    def finish(self) -> np.ndarray | None:
        """The sums over each group, once every term of all rows is added.

        Returns
        -------
        ndarray of float64, shape (varying, groups), or None
            None where rows have no groups.
        """
        for term, added in self._added.items():
            self._sums.add(term, added.exact())
        return self._of_groups

    def add(self, term: int, values: np.ndarray, starts: np.ndarray | None = None) -> None:
        """Add the next rows of a term.

        Parameters
        ----------
        term : int
        values : ndarray, shape (rows,)
            Finite.
        starts : ndarray of int64, shape (groups + 1,), optional
            Where the groups start among the rows that have this term; by default among all.
        """
        if self._of_groups is None:
            self._sums.add(term, values)
            return
        if term not in self._added:
            of = self._scored.starts if starts is None else starts
            self._added[term] = GroupSums(of, self._of_groups[term])
        apart = self._added[term].add(values)
        if len(apart):
            self._sums.add(term, apart)

    def count(self, term: int, counts: np.ndarray) -> None:
        """Add a whole number for each group. int64, shape (groups,)."""
        self._sums.count(term, int(counts.sum()))
        if self._of_groups is not None:
            self._of_groups[term] = counts

    def tell(self, term: int, number: int) -> None:
        """Add a whole number to a term that has no moments."""
        self._sums.count(term, number)

    def add_weights(self, term: int) -> None:
        """Add the weights of all rows, or their number."""
        weight = self._scored.weight
        if weight is None:
            self.count(term, np.diff(self._scored.starts))
        else:
            self.add(term, weight)

    def add_positives(self, term: int, rel: float) -> None:
        """Add the weights of the rows whose label is at least `rel`, or their number."""
        labels, weight = self._scored.labels, self._scored.weight
        if weight is None:
            self.count(term, labels.relevant_of_each(rel))
        else:
            rows = labels.relevant_rows(rel)
            self.add(term, weight[rows], starts_of(labels.relevant_of_each(rel)))


def starts_of(counts: np.ndarray) -> np.ndarray:
    """Where groups of so many rows start, one after another, then the number of rows. int64."""
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


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

    def saved(self) -> Arrays:
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


#: Rows whose weights are told apart and added before the next.
_BLOCK = 1 << 14
# As `ConfusionSums.CELLS` has them.
_TN, _FN, _FP, _TP = range(4)


def sum_cells(
    state: ConfusionSums, scored: Scored, threshold: float, rel: float
) -> np.ndarray | None:
    """Add rows to the confusion matrix of all rows, and tell that of each group.

    Parameters
    ----------
    state : ConfusionSums
        Of all rows.
    scored : Scored
    threshold : float
        The least score of a row that is predicted positive.
    rel : float
        The least label of a positive row.

    Returns
    -------
    ndarray of float64 or int64, shape (cells, groups), or None
        In the order of `ConfusionSums.CELLS`: sums of weights, or counts. None where rows have no
        groups.
    """
    predicted = scored.score >= least_of(scored.score.dtype, threshold)
    positive = scored.labels.relevant_rows(rel)
    hit = predicted[positive]
    counts = _counts(predicted, hit, scored.labels.relevant_of_each(rel), scored.starts)
    weight = scored.weight
    if weight is None:
        for cell, of_all in enumerate(counts.sum(axis=1).tolist()):
            state.count(cell, of_all)
        return counts if scored.chunk.grouped else None
    sums, starts = ChunkSums(state, scored), [starts_of(of_cell) for of_cell in counts]
    of_positive = weight[positive]
    sums.add(_FN, of_positive[~hit], starts[_FN])
    sums.add(_TP, of_positive[hit], starts[_TP])
    marks = np.zeros(len(weight), np.uint8)
    marks[positive] = 1
    marked, predictions = frozen(marks), frozen(predicted.view(np.uint8))
    room = scratch("weights of other rows", 2 * _BLOCK, np.float64).reshape(2, _BLOCK)
    for lo in range(0, len(weight), _BLOCK):
        here = slice(lo, lo + _BLOCK)
        true, false = _others(weight[here], predictions[here], marked[here], room)
        sums.add(_TN, room[0, :true], starts[_TN])
        sums.add(_FP, room[1, :false], starts[_FP])
    return sums.finish()


def _counts(
    predicted: np.ndarray, hit: np.ndarray, positives: np.ndarray, starts: np.ndarray
) -> np.ndarray:
    """The rows of each group in each cell. int64, shape (cells, groups)."""
    counts = np.empty((4, len(positives)), np.int64)
    counts[_TP] = count_marked_rows(hit, starts_of(positives))
    np.subtract(positives, counts[_TP], out=counts[_FN])
    np.subtract(count_marked_rows(predicted, starts), counts[_TP], out=counts[_FP])
    np.subtract(starts[1:], starts[:-1], out=counts[_TN])
    counts[_TN] -= positives
    counts[_TN] -= counts[_FP]
    return counts


@kernel
def _others(weight, predicted, positive, room):  # type: ignore[no-untyped-def]
    """Weights of rows that are not positive, those predicted to be so in the second part.

    Returns how many are in the first and in the second.
    """
    true = 0
    false = 0
    for i in range(weight.shape[0]):
        second = predicted[i] != 0
        other = positive[i] == 0
        room[int(second), false if second else true] = weight[i]
        true += int(other and not second)
        false += int(other and second)
    return true, false
