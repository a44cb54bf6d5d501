"""The subtopics that each row covers, as the bits of one integer."""

from __future__ import annotations

import numpy as np

from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel

__all__ = ["MOST", "masks_of"]

#: Subtopics that a group may have: the bits of an integer.
MOST = 64


def masks_of(
    numbers: np.ndarray, lengths: np.ndarray, wrong: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Join the subtopics of each row.

    Parameters
    ----------
    numbers : ndarray of int64
        From 0 to 63, those of one row after those of another.
    lengths : ndarray of int64, shape (rows,)
        How many each row has.
    wrong : ndarray of bool
        Which of them cannot be used.

    Returns
    -------
    masks : ndarray of uint64, shape (rows,)
    bad : ndarray of bool, shape (rows,)
        Rows with a number that cannot be used.
    """
    masks, bad = np.zeros(len(lengths), np.uint64), np.zeros(len(lengths), np.bool_)
    _join(frozen(numbers), frozen(lengths), frozen(wrong), masks, bad)
    return masks, bad


@kernel
def _join(numbers, lengths, wrong, masks, bad):  # type: ignore[no-untyped-def]
    at = 0
    for row in range(lengths.shape[0]):
        for i in range(at, at + lengths[row]):
            masks[row] |= np.uint64(1) << np.uint64(numbers[i])
            bad[row] |= wrong[i]
        at += lengths[row]
