"""Rows in order of an integer: the proof that groups are whole, and hashes that two keys share.

Spark puts a row into the partition ``pmod(hash(key), partitions)``, by Murmur3 with seed 42. A
plan that cuts partitions otherwise, or merges and splits them later, leaves keys where that does
not hold; so each partition can tell by itself that its groups are whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import as_array
from fastrank_eval.kernel import kernel

__all__ = ["first_stray", "partition_of", "whole_runs"]


@kernel
def _murmur(key: np.int64, wide: bool) -> np.uint64:
    """Spark's hash of a 64-bit integer, or of a narrower one, as an unsigned 32-bit number."""
    mask = np.uint64(0xFFFFFFFF)
    bits = np.uint64(key)
    found = np.uint64(42)
    words = 2 if wide else 1
    for word in range(words):
        part = (bits >> np.uint64(32 * word)) & mask
        part = (part * np.uint64(0xCC9E2D51)) & mask
        part = ((part << np.uint64(15)) | (part >> np.uint64(17))) & mask
        part = (part * np.uint64(0x1B873593)) & mask
        found ^= part
        found = ((found << np.uint64(13)) | (found >> np.uint64(19))) & mask
        found = (found * np.uint64(5) + np.uint64(0xE6546B64)) & mask
    found ^= np.uint64(4 * words)
    found ^= found >> np.uint64(16)
    found = (found * np.uint64(0x85EBCA6B)) & mask
    found ^= found >> np.uint64(13)
    found = (found * np.uint64(0xC2B2AE35)) & mask
    return found ^ (found >> np.uint64(16))


@kernel
def _partition_of(key: np.int64, wide: bool, partitions: int) -> np.int64:
    found = np.int64(_murmur(key, wide))
    if found >= 1 << 31:
        found -= 1 << 32
    return found % partitions


@kernel
def _first_stray(
    keys: np.ndarray, before: np.int64, begun: bool, wide: bool, partitions: int, mine: int
) -> int:
    for row in range(len(keys)):
        if begun and keys[row] == before:
            continue
        if (begun and keys[row] < before) or _partition_of(keys[row], wide, partitions) != mine:
            return row
        before = keys[row]
        begun = True
    return -1


def partition_of(key: int, bits: int, partitions: int) -> int:
    """The partition that Spark puts a key into.

    Parameters
    ----------
    key : int
    bits : int
        64, or less for narrower integers, which are hashed otherwise.
    partitions : int

    Examples
    --------
    >>> [partition_of(key, 64, 200) for key in (0, 1, -1, 2**40)]
    [5, 69, 193, 113]
    """
    return int(_partition_of(np.int64(key), bits == 64, partitions))


def first_stray(keys: np.ndarray, before: int | None, bits: int, partitions: int, mine: int) -> int:
    """The first row whose key is less than the one before it, or belongs to another partition.

    Parameters
    ----------
    keys : ndarray of int64, shape (rows,)
    before : int or None
        The key of the row before them.
    bits : int
        Of the key column.
    partitions, mine : int
        How many partitions there are, and the number of this one.

    Returns
    -------
    int
        -1 if there is none.
    """
    begun = before is not None
    first = np.int64(0 if before is None else before)
    return int(_first_stray(keys, first, begun, bits == 64, partitions, mine))


def whole_runs(
    batches: Iterable[pa.RecordBatch], first: str, second: str
) -> Iterator[pa.RecordBatch]:
    """Rows in order of a hash, so that those of one key stand together.

    Of keys that share their first hash Spark leaves rows as they come; here they are put in order
    of the second. The rows of the last hash of a batch wait for those that follow.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        In order of their first hash, which is never null.
    first, second : str
        Columns of int64.
    """
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = as_array(batch.column(first))
        start = int(np.searchsorted(keys, keys[-1], "left"))
        if start or (waiting and keys[0] != as_array(waiting[-1].column(first))[-1]):
            waiting.append(batch.slice(0, start))
            yield from _apart(waiting, first, second)
            waiting = []
        waiting.append(batch.slice(start))
    yield from _apart(waiting, first, second)


def _apart(batches: list[pa.RecordBatch], first: str, second: str) -> Iterator[pa.RecordBatch]:
    """Whole runs of the first hash, rows of each in order of the second."""
    batches = [batch for batch in batches if batch.num_rows]
    if not batches:
        return
    ones, others = (
        np.concatenate([as_array(batch.column(name)) for batch in batches])
        for name in (first, second)
    )
    if not ((ones[1:] == ones[:-1]) & (others[1:] != others[:-1])).any():
        yield from batches
        return
    order = pa.array(np.lexsort((others, ones)))
    yield from pa.Table.from_batches(batches).take(order).combine_chunks().to_batches()
