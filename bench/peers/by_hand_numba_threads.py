"""Numba by hand, the sorted rows shared out to two threads at an edge between users."""

from __future__ import annotations

import pyarrow as pa

from bench.peers.by_hand_numba import gauc_on, seven_on

_THREADS = 2


def gauc(table: pa.Table, presorted: bool) -> list[float]:
    return gauc_on(table, presorted, _THREADS)


def seven(table: pa.Table, presorted: bool) -> list[float]:
    return seven_on(table, presorted, _THREADS)
