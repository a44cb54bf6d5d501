"""Sum terms of rows by group, for the errors of measures of all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

import numpy as np

from fastrank_eval._lib.arrow import Arrays, frozen
from fastrank_eval._lib.elementary import ratio
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.groups.chunk import Scored, count_marked_rows
from fastrank_eval.stats.row_sums import ONE_GROUP, ClusterMoments, GroupSums, RowSums


class ClusteredSums(RowSums):
    """Exact sums of several terms over rows, and the moments for their errors.

    Threads may add at the same time.

    Parameters
    ----------
    terms : int
        Number of sums.
    varying : int
        Number of sums, from the first on, that have moments.
    denominators : sequence of tuple of int
        As in `ClusterMoments`.
    """

    #: In what two models differ, as in `ClusterMoments`; other terms are about the rows.
    contrasts: ClassVar[tuple[tuple[int, ...], ...]] = ((0,),)

    def __init__(
        self, terms: int, varying: int, denominators: Sequence[tuple[int, ...]] = ()
    ) -> None:
        super().__init__(terms)
        self.moments = ClusterMoments(varying, denominators=denominators)

    def add_groups(self, sums: np.ndarray | None) -> None:
        """Add groups to the moments, if there are any.

        Parameters
        ----------
        sums : ndarray of float64 or int64, shape (varying, groups), or None
            The sums over each group.
        """
        if sums is not None:
            self.moments.add(sums)

    def merge(self, other: Self) -> None:
        """Add other sums of the same terms, of other groups."""
        super().merge(other)
        self.moments.merge(other.moments)

    def to_arrays(self) -> Arrays:
        """Write the sums and the moments."""
        moments = self.moments.to_arrays()
        return {
            **super().to_arrays(),
            **{f"moments.{name}": part for name, part in moments.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        sums = super().from_arrays(arrays)
        first = "moments."
        sums.moments = ClusterMoments.from_arrays(
            {
                name.removeprefix(first): part
                for name, part in arrays.items()
                if name.startswith(first)
            }
        )
        return sums


class ChunkSums:
    """Adds the terms of a chunk's rows to the sums over all rows and by group.

    Parameters
    ----------
    sums : ClusteredSums
        The sums over all rows.
    scored : Scored
        The rows of the chunk.
    """

    def __init__(self, sums: ClusteredSums, scored: Scored) -> None:
        self._sums, self._scored = sums, scored
        self._part = sums.borrow_part()
        groups = len(scored.starts) - 1 if scored.chunk.grouped else 1
        # Zeros: a chunk without rows of the model adds nothing.
        self._sums_by_group = np.zeros((sums.moments.terms, groups))
        self._group_sums: dict[int, GroupSums] = {}

    def finish(self) -> np.ndarray | None:
        """End the additions and return the sums over each group.

        Returns
        -------
        ndarray of float64, shape (varying, groups), or None
            None if rows have no groups.
        """
        self._sums.return_part(self._part)
        return self._sums_by_group if self._scored.chunk.grouped else None

    def add(self, term: int, values: np.ndarray, starts: np.ndarray | None = None) -> None:
        """Add the next rows of a term.

        Parameters
        ----------
        term : int
        values : ndarray, shape (rows,)
            Finite.
        starts : ndarray of int64, shape (groups + 1,), optional
            First row of each group among the rows with this term; by default among all rows.
        """
        if term not in self._group_sums:
            starts = self._scored.starts if starts is None else starts
            edges = starts if self._scored.chunk.grouped else ONE_GROUP
            out = self._sums_by_group[term]
            self._group_sums[term] = GroupSums(edges, out, self._part, term)
        self._group_sums[term].add(values)

    def count(self, term: int, counts: np.ndarray) -> None:
        """Add an integer for each group. int64, shape (groups,)."""
        self.add_detail(term, int(counts.sum()))
        if self._scored.chunk.grouped:
            self._sums_by_group[term] = counts

    def add_detail(self, term: int, number: int) -> None:
        """Add an integer to a term without moments."""
        self._part.add_integer(term, number)

    def add_weights(self, term: int) -> None:
        """Add the weights of all rows, or their number."""
        weight = self._scored.weight
        if weight is None:
            self.count(term, np.diff(self._scored.starts))
        else:
            self.add(term, weight)

    def add_positives(self, term: int, rel: float) -> None:
        """Add the weights, or the number, of rows of label `rel` or more."""
        labels, weight = self._scored.labels, self._scored.weight
        if weight is None:
            self.count(term, labels.relevant_of_each(rel))
        else:
            rows = labels.relevant_rows(rel)
            self.add(term, weight[rows], starts_of(labels.relevant_of_each(rel)))


def starts_of(counts: np.ndarray) -> np.ndarray:
    """Compute the first row of each group, and the number of rows."""
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


class Confusion(NamedTuple):
    """Confusion matrices: rows or their weight by class and prediction.

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
        """Positive rows."""
        return self.tp + self.fn

    @property
    def negative(self) -> np.ndarray:
        """Negative rows."""
        return self.fp + self.tn

    @property
    def predicted(self) -> np.ndarray:
        """Rows predicted positive."""
        return self.tp + self.fp

    @property
    def rejected(self) -> np.ndarray:
        """Rows predicted negative."""
        return self.fn + self.tn

    @property
    def all(self) -> np.ndarray:
        """All rows."""
        return self.positive + self.negative

    def scaled(self) -> Confusion:
        """Multiply by a power of two that prevents overflow of products."""
        down = -np.frexp(self.all)[1]
        return Confusion(*(np.ldexp(cell, down) for cell in self))


class ConfusionSums(ClusteredSums):
    """Sums of one confusion matrix: counts, or exact sums of weights.

    Parameters
    ----------
    weighted : bool
        Whether rows have weights.
    """

    #: Its cells in the order of the sums: `Confusion` reversed.
    CELLS = ("TN", "FN", "FP", "TP")
    #: A row that is predicted otherwise moves from TN to FP, or from FN to TP.
    contrasts = ((0, 2), (3, 1))
    #: What shares of the cells are shares of, by the name in `Confusion`.
    DENOMINATORS: ClassVar[dict[str, tuple[int, ...]]] = {
        "positive": (1, 3),
        "negative": (0, 2),
        "predicted": (2, 3),
        "rejected": (0, 1),
        "not tn": (1, 2, 3),
        "all": (0, 1, 2, 3),
    }

    def __init__(self, weighted: bool) -> None:
        super().__init__(len(self.CELLS), len(self.CELLS), tuple(self.DENOMINATORS.values()))
        self.weighted = weighted

    def to_arrays(self) -> Arrays:
        """Write the sums and whether rows have weights."""
        return {**super().to_arrays(), "weighted": np.array(self.weighted, np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        sums = super().from_arrays(arrays)
        sums.weighted = bool(arrays["weighted"])
        return sums

    def _exact(self) -> list[Fraction]:
        return [self.exact(term) for term in range(len(self.CELLS))]

    def confusion(self) -> Confusion:
        """Return the matrix as one case; weights are multiplied by a power of two."""
        scale = Fraction(2) ** self._power()
        return Confusion(*(np.array([float(cell * scale)]) for cell in reversed(self._exact())))

    def unscaled(self, slopes: Confusion) -> list[float]:
        """Convert derivatives by `confusion` to derivatives by the sums."""
        power = self._power()
        with np.errstate(over="ignore"):
            return [float(np.ldexp(slope[0], power)) for slope in reversed(slopes)]

    def _power(self) -> int:
        """Return the exponent that scales the weights to about 1; 0 for counts."""
        total = sum(self._exact()) if self.weighted else Fraction(0)
        if not total:
            return 0
        return total.denominator.bit_length() - total.numerator.bit_length()

    def details(self) -> dict[str, float]:
        """Return the cells by their names, the true positives first."""
        cells: list[float] = [self.total(term) for term in range(len(self.CELLS))]
        if not self.weighted:
            cells = [int(cell) for cell in self._exact()]
        return dict(zip(reversed(self.CELLS), reversed(cells), strict=True))


def least_of(kind: np.dtype, threshold: float) -> np.floating:
    """Return the least number of a float type that is not below a threshold.

    A comparison of scores with it equals a comparison with the threshold, without a conversion. A
    float32 score of 0.1 is above the double 0.1, one of 0.7 is below the double 0.7.
    """
    with np.errstate(over="ignore"):
        least: np.floating = kind.type(threshold)
    return least if float(least) >= threshold else np.nextafter(least, kind.type(np.inf))


def f_score(confusion: Confusion, beta: float) -> np.ndarray:
    """Compute F-beta of each case; NaN if all rows are true negatives."""
    recall = beta * beta
    # Both weights are at most 1, so that a large beta does not overflow.
    of_recall, of_precision = (1.0, 1.0 / recall) if recall > 1 else (recall, 1.0)
    hits = (of_recall + of_precision) * confusion.tp
    score = ratio(hits, hits + of_recall * confusion.fn + of_precision * confusion.fp)
    # For very small or large beta one kind of error has the weight 0.
    missed = (confusion.tp == 0) & (confusion.fn + confusion.fp > 0)
    return np.where(missed, 0.0, score)


#: Rows whose weights are split by class and added at a time.
_BLOCK = 1 << 14
# Indices into `ConfusionSums.CELLS`.
_TN, _FN, _FP, _TP = range(4)


def sum_cells(
    state: ConfusionSums, scored: Scored, threshold: float, rel: float
) -> np.ndarray | None:
    """Add rows to a confusion matrix; return the matrix of each group.

    Parameters
    ----------
    state : ConfusionSums
        The matrix of all rows.
    scored : Scored
    threshold : float
        The least score of a row that is predicted positive.
    rel : float
        The least label of a positive row.

    Returns
    -------
    ndarray of float64 or int64, shape (cells, groups), or None
        In the order of `ConfusionSums.CELLS`: sums of weights, or counts. None if rows have no
        groups.
    """
    predicted = scored.score >= least_of(scored.score.dtype, threshold)
    positive = scored.labels.relevant_rows(rel)
    hit = predicted[positive]
    counts = count_cells(predicted, hit, scored.labels.relevant_of_each(rel), scored.starts)
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
        true, false = _split_others(weight[here], predictions[here], marked[here], room)
        sums.add(_TN, room[0, :true], starts[_TN])
        sums.add(_FP, room[1, :false], starts[_FP])
    return sums.finish()


def count_cells(
    predicted: np.ndarray, hit: np.ndarray, positives: np.ndarray, starts: np.ndarray
) -> np.ndarray:
    """Count the rows of each cell and group. int64, shape (cells, groups)."""
    counts = np.empty((4, len(positives)), np.int64)
    counts[_TP] = count_marked_rows(hit, starts_of(positives))
    np.subtract(positives, counts[_TP], out=counts[_FN])
    np.subtract(count_marked_rows(predicted, starts), counts[_TP], out=counts[_FP])
    np.subtract(starts[1:], starts[:-1], out=counts[_TN])
    counts[_TN] -= positives
    counts[_TN] -= counts[_FP]
    return counts


@kernel
def _split_others(weight, predicted, positive, room):  # type: ignore[no-untyped-def]
    """Split the weights of negatives by prediction into rows of `room`.

    Returns how many are predicted negative, and how many positive.
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
