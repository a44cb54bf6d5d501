"""Pooled AUC's state: the scores themselves, sorted and counted."""

from __future__ import annotations

import numpy as np

from fastrank_eval.kernel import kernel

Counted = tuple[np.ndarray, np.ndarray | None, np.ndarray]


class PooledScores:
    """The scores of all rows (of the others, if rows have weights) and of the positives.

    Pooled AUC is exact.

    Whenever enough rows have come in they are sorted and counted: memory grows with the number of
    *distinct* scores, not with rows. With row weights every distinct (score, weight) is kept.

    Parameters
    ----------
    weighted : bool
        Whether rows have weights.
    """

    #: Rows held before they are sorted and counted.
    ROOM = 1 << 24

    def __init__(self, weighted: bool) -> None:
        self._weighted = weighted
        self._pending: tuple[list[Part], list[Part]] = ([], [])
        self._waiting = 0
        self._counted: list[Counted | None] = [None, None]

    def add(self, score: np.ndarray, positive: np.ndarray, weight: np.ndarray | None) -> None:
        """Add rows.

        Parameters
        ----------
        score : ndarray of float32 or float64, shape (rows,)
            Kept as it is, not copied.
        positive : ndarray of int64
            Which of the rows are positive.
        weight : ndarray of float64, shape (rows,), or None
        """
        if weight is None:
            self._pending[_ALL].append((score, None))
        else:
            # Weights of the others are never found by subtraction: it would cancel.
            other = np.ones(len(score), np.bool_)
            other[positive] = False
            self._pending[_ALL].append((score[other], weight[other]))
        self._pending[_POSITIVE].append(
            (score[positive], None if weight is None else weight[positive])
        )
        self._waiting += len(score)
        if self._waiting >= self.ROOM:
            self._count()

    def merge(self, other: PooledScores) -> None:
        """Add another state, which is used up; the order of merging does not matter."""
        for kind in (_ALL, _POSITIVE):
            self._pending[kind].extend(other._pending[kind])
            theirs = other._counted[kind]
            if theirs is not None:
                self._take(kind, theirs)
        self._waiting += other._waiting

    def _take(self, kind: int, counted: Counted) -> None:
        mine = self._counted[kind]
        if mine is not None:
            weight = None
            if mine[1] is not None and counted[1] is not None:
                weight = np.concatenate([mine[1], counted[1]])
            counted = _distinct(
                np.concatenate([mine[0], counted[0]]),
                weight,
                np.concatenate([mine[2], counted[2]]),
            )
        self._counted[kind] = counted

    def _count(self) -> None:
        for kind in (_ALL, _POSITIVE):
            if self._pending[kind]:
                self._take(kind, _distinct(*self._joined(kind), None))
        self._waiting = 0

    def _joined(self, kind: int) -> Part:
        parts = self._pending[kind]
        score = np.concatenate([part[0] for part in parts])
        weight = np.concatenate([part[1] for part in parts]) if self._weighted else None
        parts.clear()
        return score, weight

    def auc(self, max_fpr: float | None = None) -> float:
        """The area under the ROC curve; NaN if either class is missing or weighs nothing.

        Parameters
        ----------
        max_fpr : float or None
            In ]0, 1[: McClish's standardised area up to this false positive rate.
        """
        if not self._weighted and max_fpr is None and self._counted == [None, None]:
            if not self._pending[_POSITIVE]:
                return float("nan")
            # All rows are here: sorting them is enough, and counting would double the time.
            lists: list[Counted] = []
            for kind in (_ALL, _POSITIVE):
                score, _ = self._joined(kind)
                score.sort()
                self._pending[kind].append((score, None))
                lists.append((score, None, _ONCE))
            return _pairs_won(lists[_ALL], lists[_POSITIVE])
        self._count()
        every, positives = self._counted
        if every is None or positives is None or not len(positives[0]):
            return float("nan")
        if not self._weighted and max_fpr is None:
            return _pairs_won(every, positives)
        return _area(every, positives, max_fpr)


Part = tuple[np.ndarray, np.ndarray | None]
_ALL, _POSITIVE = 0, 1
#: Counts of a sorted list in which each row stands for itself.
_ONCE = np.empty(0, np.int64)


def _distinct(score: np.ndarray, weight: np.ndarray | None, counts: np.ndarray | None) -> Counted:
    """Distinct (score, weight) in ascending order, and how many rows have each.

    Scores without weights are overwritten: they are the caller's own copy.
    """
    if weight is None and counts is None:
        score.sort()
    else:
        order = np.argsort(score, kind="stable") if weight is None else np.lexsort((weight, score))
        score = score[order]
        weight = None if weight is None else weight[order]
        counts = None if counts is None else counts[order]
    fresh = np.empty(len(score), np.bool_)
    fresh[:1] = True
    np.not_equal(score[1:], score[:-1], out=fresh[1:])
    if weight is not None:
        fresh[1:] |= weight[1:] != weight[:-1]
    firsts = np.flatnonzero(fresh)
    if counts is None:
        summed = np.diff(firsts, append=len(score))
    else:
        summed = np.add.reduceat(counts, firsts) if len(firsts) else counts
    return score[firsts], None if weight is None else weight[firsts], summed


def _pairs_won(every: Counted, positives: Counted) -> float:
    """Pairs in the right order plus half the tied ones, over all pairs, in whole numbers."""
    out = np.zeros(4, np.int64)
    _count_won(every[0], every[2], positives[0], positives[2], out)
    rows, relevant, low, high = (int(number) for number in out)
    pairs = relevant * (rows - relevant)
    return ((high << 31) + low) / (2 * pairs) if pairs else float("nan")


@kernel
def _count_won(score, counts, positive, positive_counts, out):  # type: ignore[no-untyped-def]
    """Walk both sorted lists; twice the pairs won is kept in halves, which cannot overflow."""
    rows = 0
    relevant = 0
    low = 0
    high = 0
    i = 0
    p = 0
    while p < positive.shape[0]:
        value = positive[p]
        if counts.shape[0] == 0:
            while score[i] < value:
                i += 1
            below = i
            while i < score.shape[0] and score[i] == value:
                i += 1
            through = i
        else:
            while score[i] < value:
                rows += counts[i]
                i += 1
            below = rows
            while i < score.shape[0] and score[i] == value:
                rows += counts[i]
                i += 1
            through = rows
        before = relevant
        while p < positive.shape[0] and positive[p] == value:
            relevant += 1 if positive_counts.shape[0] == 0 else positive_counts[p]
            p += 1
        won_twice = below + through - before - relevant
        low += (relevant - before) * (won_twice & 0x7FFFFFFF)
        high += (relevant - before) * (won_twice >> 31) + (low >> 31)
        low &= 0x7FFFFFFF
    if counts.shape[0] == 0:
        rows = score.shape[0]
    else:
        for k in range(i, score.shape[0]):
            rows += counts[k]
    out[0] = rows
    out[1] = relevant
    out[2] = low
    out[3] = high


def _area(every: Counted, positives: Counted, max_fpr: float | None) -> float:
    """Trapezoids under the ROC curve, one for each distinct score."""
    scores = np.unique(np.concatenate([every[0], positives[0]]))
    mass = []
    for score, weight, counts in (every, positives):
        # One score's weights are added in ascending order, whatever order the rows had.
        each = counts.astype(np.float64) if weight is None else counts * weight
        here = np.searchsorted(scores, score)
        mass.append(np.bincount(here, weights=each, minlength=len(scores))[::-1])
    if every[1] is None:
        mass[_ALL] -= mass[_POSITIVE]
    fpr, tpr = np.cumsum(mass[_ALL]), np.cumsum(mass[_POSITIVE])
    if not (fpr[-1] > 0 and tpr[-1] > 0):
        return float("nan")
    fpr, tpr = np.append(0.0, fpr / fpr[-1]), np.append(0.0, tpr / tpr[-1])
    if max_fpr is not None and max_fpr < 1:
        stop = int(np.searchsorted(fpr, max_fpr, side="right"))
        inside = np.interp(max_fpr, fpr[stop - 1 : stop + 1], tpr[stop - 1 : stop + 1])
        fpr, tpr = np.append(fpr[:stop], max_fpr), np.append(tpr[:stop], inside)
    area = float(np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1])) / 2.0)
    if max_fpr is not None and max_fpr < 1:
        least = max_fpr * max_fpr / 2.0
        area = 0.5 * (1.0 + (area - least) / (max_fpr - least))
    return min(max(area, 0.0), 1.0)
