"""Predictions at a threshold, row by row -> the confusion matrix of each group of a chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastrank_eval.chunk import marked_rows
from fastrank_eval.clustered_sums import ChunkSums, starts_of
from fastrank_eval.columns import frozen
from fastrank_eval.confusion_matrix import ConfusionSums, least_of
from fastrank_eval.kernel import kernel
from fastrank_eval.scratch import scratch

if TYPE_CHECKING:
    from fastrank_eval.chunk import Scored

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
    counts[_TP] = marked_rows(hit, starts_of(positives))
    np.subtract(positives, counts[_TP], out=counts[_FN])
    np.subtract(marked_rows(predicted, starts), counts[_TP], out=counts[_FP])
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
