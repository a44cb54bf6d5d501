"""Numba by hand: one fused loop over sorted rows; shuffled rows are packed and sorted first.

It takes for granted what `by_hand_numpy` does. Its two functions run on one thread.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from bench.peers.by_hand_numpy import arrays, packed

_DISCOUNT = 1 / np.log2(np.arange(2, 12))


def gauc(table: pa.Table, presorted: bool) -> list[float]:
    return gauc_on(table, presorted, 1)


def seven(table: pa.Table, presorted: bool) -> list[float]:
    return seven_on(table, presorted, 1)


def gauc_on(table: pa.Table, presorted: bool, threads: int) -> list[float]:
    wins, rows = _sums(_gauc, table, presorted, threads, 2)
    return [float(wins / rows)]


def seven_on(table: pa.Table, presorted: bool, threads: int) -> list[float]:
    wins, rows, ndcg, ap, rr, err, hits, recall, users, clicked = _sums(
        _seven, table, presorted, threads, 10
    )
    means = ndcg / clicked, ap / clicked, rr / users, err / users, hits / 10 / users
    return [float(value) for value in (wins / rows, *means, recall / clicked)]


def _sums(
    loop: object, table: pa.Table, presorted: bool, threads: int, count: int
) -> NDArray[np.float64]:
    columns = arrays(table) if presorted else _unpacked(packed(table))
    user = columns[0]
    edges = [_edge(user, len(user) * part // threads) for part in range(threads + 1)]
    sums = np.zeros((threads, count))

    def work(part: int) -> None:
        loop(*columns, edges[part], edges[part + 1], _DISCOUNT, sums[part])  # type: ignore[operator]

    if threads == 1:
        work(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
    return sums.sum(axis=0)


def _edge(user: NDArray[np.generic], row: int) -> int:
    """The first row of a user, from `row` on."""
    while 0 < row < len(user) and user[row] == user[row - 1]:
        row += 1
    return row


def _unpacked(words: NDArray[np.uint64]) -> list[NDArray[np.generic]]:
    user, score = np.empty(len(words), np.int64), np.empty(len(words), np.uint32)
    click = np.empty(len(words), np.int8)
    _unpack(words, user, click, score)
    return [user, click, score]


@njit(cache=True, nogil=True)
def _unpack(words, user, click, score):  # type: ignore[no-untyped-def]
    for i in range(len(words)):
        user[i] = words[i] >> 33
        score[i] = words[i] >> 1
        click[i] = words[i] & 1


@njit(cache=True, nogil=True)
def _gauc(user, click, score, start, end, discount, out):  # type: ignore[no-untyped-def]
    i = start
    while i < end:
        first = i
        key = user[first]
        clicks = 0
        places = 0.0
        while i < end and user[i] == key:
            if click[i]:
                clicks += 1
                low = high = i
                while low > first and score[low - 1] == score[i]:
                    low -= 1
                while high + 1 < end and score[high + 1] == score[i] and user[high + 1] == key:
                    high += 1
                places += (low + high) / 2 + 1 - first
            i += 1
        rows = i - first
        if 0 < clicks < rows:
            above = places - clicks * (clicks + 1) / 2
            out[0] += rows * (1 - above / (clicks * (rows - clicks)))
            out[1] += rows


@njit(cache=True, nogil=True)
def _seven(user, click, score, start, end, discount, out):  # type: ignore[no-untyped-def]
    i = start
    while i < end:
        first = i
        key = user[first]
        clicks = 0
        hits = 0
        places = dcg = ideal = ap = err = 0.0
        go_on = 1.0
        while i < end and user[i] == key:
            if click[i]:
                place = i - first + 1
                if clicks == 0:
                    out[4] += 1 / place
                if clicks < 10:
                    ideal += discount[clicks]
                clicks += 1
                ap += clicks / place
                if place <= 10:
                    hits += 1
                    dcg += discount[place - 1]
                    go_on *= 0.5
                    err += go_on / place
                low = high = i
                while low > first and score[low - 1] == score[i]:
                    low -= 1
                while high + 1 < end and score[high + 1] == score[i] and user[high + 1] == key:
                    high += 1
                places += (low + high) / 2 + 1 - first
            i += 1
        rows = i - first
        out[8] += 1
        if clicks == 0:
            continue
        if clicks < rows:
            above = places - clicks * (clicks + 1) / 2
            out[0] += rows * (1 - above / (clicks * (rows - clicks)))
            out[1] += rows
        out[2] += dcg / ideal
        out[3] += ap / clicks
        out[5] += err
        out[6] += hits
        out[7] += hits / clicks
        out[9] += 1
