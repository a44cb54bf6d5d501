"""Integers -> numbers of groups, and rows in order of their group."""

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


def rows_by_group(codes: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows in order of their group, in input order inside each.

    Parameters
    ----------
    codes : ndarray of int64, shape (rows,)
        Number of each row's group.
    groups : int

    Returns
    -------
    starts : ndarray of int64, shape (groups + 1,)
        First place of each group, then the number of rows.
    rows : ndarray of int32 or int64, shape (rows,)
        Row number at each place.
    """
    starts = np.zeros(groups + 1, np.int64)
    rows = np.empty(len(codes), np.int32 if len(codes) < 1 << 31 else np.int64)
    _place_rows(codes, starts, np.empty(groups, np.int64), rows)
    return starts, rows


@kernel
def _place_rows(codes, starts, ends, rows):  # type: ignore[no-untyped-def]
    for i in range(codes.shape[0]):
        starts[codes[i] + 1] += 1
    for g in range(ends.shape[0]):
        ends[g] = starts[g]
        starts[g + 1] += starts[g]
    for i in range(codes.shape[0]):
        code = codes[i]
        rows[ends[code]] = i
        ends[code] += 1


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
