"""Equal neighbours -> groups; keys that return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, as_array, fixed_width, frozen, row_column
from fastrank_eval._lib.jit import kernel, scratch
from fastrank_eval.io.keys import number_integers

Keys = tuple[pa.Array, ...]


def group_starts(keys: Keys) -> np.ndarray:
    """Rows (but for row 0) whose key differs from that of the row before.

    Parameters
    ----------
    keys : tuple of pyarrow.Array, each of length rows
        Key columns, without nulls.

    Returns
    -------
    ndarray of int64
        Ascending row numbers, at least 1.
    """
    words = fixed_width(keys[0])
    if len(keys) == 1 and words is not None and words.ndim == 1:
        starts = scratch("row numbers", len(words))
        return starts[: _edges(_frozen_bits(words), starts)].copy()
    changed = _changes(keys[0])
    for key in keys[1:]:
        changed = changed | _changes(key)
    starts = np.flatnonzero(changed)
    starts += 1
    return starts


def _frozen_bits(words: np.ndarray) -> np.ndarray:
    """Unsigned integers of the same bits: one compiled loop a width."""
    bits = words.view(f"u{words.dtype.itemsize}")
    bits.flags.writeable = False
    return bits


@kernel
def _edges(words, starts):  # type: ignore[no-untyped-def]
    # Without a branch: 0.5 ns a row, against 1.1 for compare and flatnonzero.
    groups = 0
    for i in range(1, words.shape[0]):
        starts[groups] = i
        groups += words[i] != words[i - 1]
    return groups


def _changes(key: pa.Array) -> np.ndarray:
    words = fixed_width(key)
    if words is None:
        rows = len(key)
        import pyarrow.compute as pc

        unequal = pc.not_equal(key.slice(1), key.slice(0, max(rows - 1, 0)))
        return as_array(unequal).view(np.bool_)
    if words.ndim == 1:
        return words[1:] != words[:-1]
    return np.any(words[1:] != words[:-1], axis=1)


def same_key(left: Keys, i: int, right: Keys, j: int) -> bool:
    """Whether row `i` of `left` and row `j` of `right` belong to one group."""
    return all(a[i].equals(b[j]) for a, b in zip(left, right, strict=True))


def key_text(keys: Keys, names: Sequence[str], i: int) -> str:
    """Row `i`'s key as a reader would write it, for messages."""
    pairs = zip(names, keys, strict=True)
    return ", ".join(f"{name}={_value_text(key, i)}" for name, key in pairs)


def _value_text(key: pa.Array, i: int) -> str:
    try:
        return repr(key[i].as_py())
    except (OverflowError, ValueError, pa.ArrowException):  # beyond what Python's dates can hold
        if pa.types.is_timestamp(key.type) and key.type.tz:  # of a zone that may be unknown
            key = key.cast(pa.timestamp(key.type.unit, "UTC"))
        return str(key.slice(i, 1).cast(pa.string())[0].as_py())


@dataclass(frozen=True, slots=True)
class KeyRun:
    """The keys of consecutive groups, as far as a check for returning keys needs them.

    Parameters
    ----------
    first, last : tuple of pyarrow.Array of length 1
        Keys of the first and the last group.
    rises, falls : bool
        Whether every key is above (below) the one before it.
    keys : tuple of pyarrow.Array or None
        All keys, where they must be kept.
    groups : int
        Number of groups.
    """

    first: Keys
    last: Keys
    rises: bool
    falls: bool
    keys: Keys | None
    groups: int


def key_run(keys: Keys, starts: np.ndarray, keep: bool) -> KeyRun:
    """Describe the keys of consecutive groups; see `KeyRun`.

    Parameters
    ----------
    keys : tuple of pyarrow.Array, each of length rows
    starts : ndarray of int64, shape (groups,)
        First row of each group.
    keep : bool
        Keep keys that are sorted too.
    """
    # Not slices, which keep all rows of their batch in memory.
    first, last = keys_at(keys, starts[:1]), keys_at(keys, starts[-1:])
    rises, falls = _directions(keys, starts)
    kept = keys_at(keys, starts) if keep or not (rises or falls) else None
    return KeyRun(first, last, rises, falls, kept, len(starts))


def keys_at(keys: Keys, rows: np.ndarray) -> Keys:
    """The keys of some rows."""
    return tuple(_key_at(key, rows) for key in keys)


def _key_at(key: pa.Array, rows: np.ndarray) -> pa.Array:
    words = None if pa.types.is_boolean(key.type) else fixed_width(key)
    if words is None or words.ndim > 1:
        return key.take(row_column(rows))
    # Arrow's take imports pyarrow.compute: 45 ms that a run over sorted integers can do without.
    return arrow_column(words[rows], key.type)


def _directions(keys: Keys, rows: np.ndarray) -> tuple[bool, bool]:
    """Whether the keys of some rows strictly rise, or strictly fall; a key alone does both."""
    if len(rows) < 2:
        return True, True
    words = fixed_width(keys[0])
    if len(keys) == 1 and words is not None and words.ndim == 1:
        words = words.take(rows)
        only_rises = bool((words[1:] > words[:-1]).all())
        return only_rises, not only_rises and bool((words[1:] < words[:-1]).all())
    rises = falls = np.zeros(len(rows) - 1, np.bool_)
    level = np.ones(len(rows) - 1, np.bool_)
    for key in keys:
        words = fixed_width(key)
        if words is not None and words.ndim > 1:
            return False, False
        if words is not None:
            words = words[rows]
            above, below = words[1:] > words[:-1], words[1:] < words[:-1]
        else:
            import pyarrow.compute as pc

            here = keys_at((key,), rows)[0]
            after, before = here.slice(1), here.slice(0, len(here) - 1)
            above = as_array(pc.greater(after, before)).view(np.bool_)
            below = as_array(pc.less(after, before)).view(np.bool_)
        rises = rises | (level & above)
        falls = falls | (level & below)
        level = level & ~(above | below)
    return bool(rises.all()), bool(falls.all())


class ReturningKey(Exception):
    """A group key came back after another group.

    Parameters
    ----------
    keys : tuple of pyarrow.Array of length 1, or None
        The key; None where it only may have come back, because earlier keys were not kept.
    """

    def __init__(self, keys: Keys | None) -> None:
        super().__init__("a group key returned")
        self.keys = keys


class KeyWatch:
    """Notices a key that comes back after other groups, in bounded memory for sorted keys.

    Keys that only rise, or only fall, cannot return: nothing is kept of them. Otherwise every key
    is kept and compared, whenever their number has doubled and at the end.

    Parameters
    ----------
    keep : bool
        Keep sorted keys too, because the input cannot be read a second time.
    """

    def __init__(self, keep: bool) -> None:
        self.keep = keep
        self._rises = self._falls = True
        self._last: Keys | None = None
        self._kept: list[Keys] = []
        self._groups = self._kept_groups = 0
        self._next_check = 1 << 12

    def add(self, run: KeyRun) -> None:
        """Take the keys of the groups that follow.

        Raises
        ------
        ReturningKey
            A key came back, or may have: see `ReturningKey`.
        """
        step = (True, True)
        if self._last is not None:
            pair = zip(self._last, run.first, strict=True)
            both = tuple(pa.concat_arrays([a, b]) for a, b in pair)
            step = _directions(both, np.arange(2))
        self._rises &= run.rises and step[0]
        self._falls &= run.falls and step[1]
        self._last = run.last
        self._groups += run.groups
        if run.keys is not None:
            self._kept.append(run.keys)
            self._kept_groups += run.groups
        if self._rises or self._falls:
            return
        if self._kept_groups < self._groups:
            raise ReturningKey(None)
        if self._groups >= self._next_check:
            self._compare()
            self._next_check = 2 * self._groups

    def finish(self) -> None:
        """Compare what was kept.

        Raises
        ------
        ReturningKey
            A key came back.
        """
        if not (self._rises or self._falls):
            self._compare()

    def _compare(self) -> None:
        keys = tuple(pa.concat_arrays(list(column)) for column in zip(*self._kept, strict=True))
        self._kept = [keys]
        codes, firsts = number_keys(keys)
        if len(firsts) < len(codes):
            again = int(np.flatnonzero(firsts[codes] != np.arange(len(codes)))[0])
            raise ReturningKey(tuple(key.slice(again, 1) for key in keys))


def number_keys(keys: Keys) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct keys in order of first appearance.

    Parameters
    ----------
    keys : tuple of pyarrow.Array, each of length rows
        Key columns, without nulls.

    Returns
    -------
    codes : ndarray of int64, shape (rows,)
        Number of the row's group.
    firsts : ndarray of int64, shape (groups,)
        First row of each group.
    """
    return number_integers(key_integers(keys))


def key_integers(keys: Keys) -> np.ndarray:
    """Integers that are equal exactly where the keys are. int64, shape (rows,), read-only."""
    integers = _integers(keys[0])
    for key in keys[1:]:
        left, _ = number_integers(integers)
        right, firsts = number_integers(_integers(key))
        integers = left * len(firsts) + right
    return frozen(np.ascontiguousarray(integers))


def _integers(key: pa.Array) -> np.ndarray:
    words = fixed_width(key)
    if words is not None and words.ndim == 1:
        if words.dtype == np.uint64:
            return words.view(np.int64)
        return words.astype(np.int64, copy=False)
    if words is not None:
        key = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(words.shape[1] * 8), len(key), [None, pa.py_buffer(words.tobytes())]
        )
    encoded = key.dictionary_encode()
    return as_array(encoded.indices).astype(np.int64)
