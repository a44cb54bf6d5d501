"""Integers -> numbers of groups."""

from __future__ import annotations

import numpy as np

from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel

#: Integer keys whose range is at most this many times their number are numbered by a plain table.
DENSE_RANGE = 4


def number_integers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number distinct integers in order of first appearance; see `groups.number_keys`.

    Parameters
    ----------
    values : ndarray of int64, shape (rows,)
    """
    rows = len(values)
    codes = np.empty(rows, np.int64)
    firsts = np.empty(rows, np.int64)
    if rows == 0:
        return codes, firsts
    values = frozen(np.ascontiguousarray(values).view())
    least, most = int(values.min()), int(values.max())
    if most - least < max(DENSE_RANGE * rows, 1 << 10):
        table = np.full(most - least + 1, -1, np.int64)
        groups = _number_dense(values, least, table, codes, firsts)
    else:
        groups, slots = -1, 1 << 10
        while groups < 0:
            groups = _number_hashed(values, np.full(slots, -1, np.int64), codes, firsts)
            slots *= 8
    return codes, firsts[:groups].copy()


@kernel
def _number_dense(
    values: np.ndarray, least: int, table: np.ndarray, codes: np.ndarray, firsts: np.ndarray
) -> int:
    groups = 0
    for i in range(values.shape[0]):
        slot = values[i] - least
        code = table[slot]
        if code < 0:
            code = groups
            table[slot] = code
            firsts[code] = i
            groups += 1
        codes[i] = code
    return groups


@kernel
def _number_hashed(
    values: np.ndarray, slots: np.ndarray, codes: np.ndarray, firsts: np.ndarray
) -> int:
    """Open addressing; -1 once the table is more than half full."""
    mask = np.uint64(slots.shape[0] - 1)
    room = slots.shape[0] // 2
    groups = 0
    for i in range(values.shape[0]):
        value = values[i]
        h = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
        slot = (h ^ (h >> np.uint64(32))) & mask
        while True:
            code = slots[slot]
            if code < 0:
                if groups >= room:
                    return -1
                slots[slot] = groups
                firsts[groups] = i
                codes[i] = groups
                groups += 1
                break
            if values[firsts[code]] == value:
                codes[i] = code
                break
            slot = (slot + np.uint64(1)) & mask
    return groups
