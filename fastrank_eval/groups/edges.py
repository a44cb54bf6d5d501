"""Find where groups begin, and keys that return after other groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, as_array, fixed_width, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.groups.scan import (
    LabelledRows,
    RankedRows,
    Scan,
    scan,
)
from fastrank_eval.io.columns import Columns
from fastrank_eval.io.keys import encode_keys

Keys = tuple[pa.Array, ...]
#: Positions of groups.
Groups: TypeAlias = np.ndarray | slice


def group_starts(keys: Keys) -> np.ndarray:
    """Find the rows, except row 0, whose key differs from the previous row.

    Parameters
    ----------
    keys : tuple of pyarrow.Array, each of length rows
        Key columns, without nulls.

    Returns
    -------
    ndarray of int64
        Row numbers, ascending, each at least 1.
    """
    changed = _differs_from_previous(keys[0])
    for key in keys[1:]:
        changed = changed | _differs_from_previous(key)
    starts = np.flatnonzero(changed)
    starts += 1
    return starts


class View(NamedTuple):
    """What a plan reads of a batch of contiguous groups.

    Parameters
    ----------
    columns : Columns
    skip : bool
        Leave out groups without a labelled row.
    scored : bool
        Look at the scores too.
    """

    columns: Columns
    skip: bool
    scored: bool


class BatchScan(NamedTuple):
    """What one scan of every row of a batch finds, for several plans.

    Parameters
    ----------
    starts : ndarray of int64, shape (groups + 1,)
        First row of each whole group, then the end of the last.
    directions : tuple of bool, or None
        As in `Scan`.
    passed : bool
        Whether all scores that were scanned were checked and are no NaN.
    labelled_rows : list of LabelledRows
        For each plan; see `Scan`.
    ranked_rows : list of dict of int to (RankedRows or None)
        For each plan, as in `Chunk`.
    """

    starts: np.ndarray
    directions: tuple[bool, bool] | None
    passed: bool
    labelled_rows: list[LabelledRows]
    ranked_rows: list[dict[int, RankedRows | None]]


def scan_batch(keys: Keys, views: Sequence[View], whole: bool) -> BatchScan:
    """Scan every row of a batch of contiguous groups.

    Edges are found once, and scores that rise inside a group are scanned once.

    Parameters
    ----------
    keys : tuple of pyarrow.Array, each of length rows
        At least one row.
    views : sequence of View
        One for each plan, at least one. Plans may share arrays.
    whole : bool
        Whether the first and the last group are whole. Otherwise they are left out.
    """
    words = fixed_width(keys[0]) if len(keys) == 1 else None
    edges: dict[str, Any] = {"whole": whole}
    if words is not None and words.ndim == 1:
        edges["words"] = words
    else:
        starts = group_starts(keys)
        edges["starts"] = np.concatenate([[0], starts, [len(keys[0])]]) if whole else starts
    # By identity, because plans share arrays.
    known: dict[tuple[int, int, bool], Scan] = {}
    unsorted: set[int] = set()
    first: Scan | None = None

    def scan_of(view: View, score: np.ndarray | None) -> Scan:
        nonlocal first, edges
        at = id(view.columns.label), id(score), view.skip
        if at in known:
            return known[at]
        if id(score) in unsorted:
            return known.setdefault(at, scan_of(view, None))
        # To compare sorted scores again takes less time than to fetch those beside labelled rows.
        one = known[at] = scan(view.columns.label, score, view.skip, **edges)
        if first is None:
            first, edges = one, {"starts": one.starts}
        if score is not None and one.ranked_rows is None:
            unsorted.add(id(score))
        return one

    labelled_rows, ranked_rows = [], []
    passed = True
    for view in views:
        complete = [
            model
            for model, missing in enumerate(view.columns.unretrieved)
            if view.scored and missing is None
        ]
        scans = [scan_of(view, view.columns.scores[model]) for model in complete]
        passed &= all(one.passed for one in scans)
        ranked_rows.append({m: one.ranked_rows for m, one in zip(complete, scans, strict=True)})
        labelled_rows.append((scans or [scan_of(view, None)])[0].labelled_rows)
    first_scan = cast(Scan, first)
    return BatchScan(first_scan.starts, first_scan.directions, passed, labelled_rows, ranked_rows)


def _differs_from_previous(key: pa.Array) -> np.ndarray:
    """Mark the rows, except row 0, that differ from the previous one."""
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
    """Return whether row `i` of `left` and row `j` of `right` have one key."""
    return all(a[i].equals(b[j]) for a, b in zip(left, right, strict=True))


def key_text(keys: Keys, names: Sequence[str], i: int) -> str:
    """Format the key of row `i` for messages."""
    pairs = zip(names, keys, strict=True)
    return ", ".join(f"{name}={value_text(key, i)}" for name, key in pairs)


def value_text(key: pa.Array, i: int) -> str:
    """Format the value of row `i` for messages."""
    try:
        value = key[i].as_py()
        return f"0x{value.hex()}" if isinstance(value, bytes) else repr(value)
    # Outside the range of Python's dates, or of a zone that pytz does not know, where it is used.
    except (KeyError, OverflowError, ValueError, pa.ArrowException):
        if pa.types.is_timestamp(key.type) and key.type.tz:  # the zone may be unknown
            key = key.cast(pa.timestamp(key.type.unit, "UTC"))
        return str(key.slice(i, 1).cast(pa.string())[0].as_py())


@dataclass(frozen=True)
class KeyRun:
    """Keys of consecutive groups, for the check for returning keys.

    Parameters
    ----------
    first, last : tuple of pyarrow.Array of length 1
        Keys of the first and the last group.
    ascending, descending : bool
        Whether every key is above (below) the previous one.
    keys : tuple of pyarrow.Array or None
        All keys; None where the order alone excludes a return.
    groups : int
        Number of groups.
    """

    first: Keys
    last: Keys
    ascending: bool
    descending: bool
    keys: Keys | None
    groups: int


def key_run(
    keys: Keys, starts: np.ndarray, keep: bool, directions: tuple[bool, bool] | None = None
) -> KeyRun:
    """Describe the keys of consecutive groups; see `KeyRun`.

    Parameters
    ----------
    keys : tuple of pyarrow.Array, each of length rows
    starts : ndarray of int64, shape (groups,)
        First row of each group.
    keep : bool
        Store sorted keys too.
    directions : tuple of bool, optional
        Whether they ascend, and whether they descend, if known.
    """
    # No slices: they would keep all rows of their batch in memory.
    first, last = keys_at(keys, starts[:1]), keys_at(keys, starts[-1:])
    ascending, descending = directions or _directions(keys, starts)
    all_keys = keys_at(keys, starts) if keep or not (ascending or descending) else None
    return KeyRun(first, last, ascending, descending, all_keys, len(starts))


def keys_at(keys: Keys, rows: np.ndarray) -> Keys:
    """Select the keys of some rows."""
    return tuple(_key_at(key, rows) for key in keys)


def _key_at(key: pa.Array, rows: np.ndarray) -> pa.Array:
    words = None if pa.types.is_boolean(key.type) else fixed_width(key)
    if words is None or words.ndim > 1:
        return key.take(row_column(rows))
    # Arrow's take imports pyarrow.compute: 45 ms that a run over sorted integers can save.
    return arrow_column(words[rows], key.type)


def _directions(keys: Keys, rows: np.ndarray) -> tuple[bool, bool]:
    """Return whether keys strictly ascend, and whether they strictly descend.

    A single key does both.
    """
    if len(rows) < 2:
        return True, True
    words = fixed_width(keys[0])
    if len(keys) == 1 and words is not None and words.ndim == 1:
        words = words.take(rows)
        only_rises = bool((words[1:] > words[:-1]).all())
        return only_rises, not only_rises and bool((words[1:] < words[:-1]).all())
    ascending = descending = np.zeros(len(rows) - 1, np.bool_)
    equal = np.ones(len(rows) - 1, np.bool_)
    for key in keys:
        words = fixed_width(key)
        if words is not None and words.ndim > 1:
            return False, False
        if words is not None:
            words = words[rows]
            above, below = words[1:] > words[:-1], words[1:] < words[:-1]
        else:
            import pyarrow.compute as pc

            values = keys_at((key,), rows)[0]
            after, before = values.slice(1), values.slice(0, len(values) - 1)
            above = as_array(pc.greater(after, before)).view(np.bool_)
            below = as_array(pc.less(after, before)).view(np.bool_)
        ascending = ascending | (equal & above)
        descending = descending | (equal & below)
        equal = equal & ~(above | below)
    return bool(ascending.all()), bool(descending.all())


class ReturningKey(Exception):
    """A group key returns after another group.

    Parameters
    ----------
    keys : tuple of pyarrow.Array of length 1, or None
        The key; None where a return is possible but not checked, because earlier keys were not
        stored.
    """

    def __init__(self, keys: Keys | None) -> None:
        super().__init__("a group key returned")
        self.keys = keys


class KeyWatch:
    """Detector of returning keys, in bounded memory for sorted keys.

    Keys that only ascend, or only descend, cannot return, so none is stored. Otherwise all keys
    are stored. They are compared each time their number doubles, and at the end.

    Parameters
    ----------
    keep : bool
        Store sorted keys too, because the input cannot be read a second time.
    """

    def __init__(self, keep: bool) -> None:
        self.keep = keep
        self._ascending = self._descending = True
        self._last: Keys | None = None
        self._keys: list[Keys] = []
        self._groups = self._stored_groups = 0
        self._next_check = 1 << 12

    def add(self, run: KeyRun) -> None:
        """Add the keys of the next groups.

        Raises
        ------
        ReturningKey
            A key returns, or may return: see `ReturningKey`.
        """
        step = (True, True)
        if self._last is not None:
            pair = zip(self._last, run.first, strict=True)
            both = tuple(pa.concat_arrays([a, b]) for a, b in pair)
            step = _directions(both, np.arange(2))
        self._ascending &= run.ascending and step[0]
        self._descending &= run.descending and step[1]
        self._last = run.last
        self._groups += run.groups
        if run.keys is not None:
            self._keys.append(run.keys)
            self._stored_groups += run.groups
        if self._ascending or self._descending:
            return
        if self._stored_groups < self._groups:
            raise ReturningKey(None)
        if self._groups >= self._next_check:
            self._compare()
            self._next_check = 2 * self._groups

    def finish(self) -> None:
        """Compare the stored keys.

        Raises
        ------
        ReturningKey
            A key returns.
        """
        if not (self._ascending or self._descending):
            self._compare()

    def _compare(self) -> None:
        keys = tuple(pa.concat_arrays(list(column)) for column in zip(*self._keys, strict=True))
        self._keys = [keys]
        codes, firsts = encode_keys(keys)
        if len(firsts) < len(codes):
            repeat = int(np.flatnonzero(firsts[codes] != np.arange(len(codes)))[0])
            raise ReturningKey(tuple(key.slice(repeat, 1) for key in keys))
