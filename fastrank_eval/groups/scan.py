"""Scan every row of contiguous groups, once.

One call walks over a batch in blocks that stay in the first-level cache. It finds the edges of
groups, the labelled rows, and the tie blocks of these. It proves that scores descend in every group
and that none is NaN. The labelled rows are a few per cent, and measures read nothing else.

Find where groups begin, and keys that return after other groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    WORDS,
    arrow_column,
    as_array,
    fixed_items,
    fixed_width,
    frozen,
    row_column,
)
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import drop_scratch, scratch
from fastrank_eval.groups.labels import Labels, RankedRows
from fastrank_eval.io.columns import Columns
from fastrank_eval.io.keys import encode_keys

_BLOCK = 1 << 14
#: Labelled rows that are written behind the last one, and overwritten by the next.
_SPARE = 2
#: The first and the last of some groups; the last of some, and the first of the next.
_ENDS, _BETWEEN = np.array([0, -1]), np.array([1, 2])
_NO_WORDS = frozen(np.empty(0, np.uint64))
_NO_SCORES = frozen(np.empty(0, np.float32))
#: Groups that tell whether unsorted rows are worth a scan of all of them, unless they are few.
_FIRST_GROUPS, _FEW_ROWS = 64, 1 << 12

#: The position of the only bit of 32, by the upper five bits of its product with a number.
_BIT = np.zeros(32, np.uint8)
_BIT[[(0x077CB531 << bit & 0xFFFFFFFF) >> 27 for bit in range(32)]] = np.arange(32)
_HALF = np.uint64(32)
_LOWER = np.uint64(0xFFFFFFFF)


class Scan(NamedTuple):
    """What one scan of every row finds.

    Parameters
    ----------
    starts : ndarray of int64, shape (groups + 1,)
        First row of each whole group, then the end of the last.
    labels : Labels
        Of these groups, in rows counted from the first of them.
    ranked_rows : RankedRows or None
        The same rows ranked; None without scores, and where a score rises inside a group.
    passed : bool
        Whether all scores were checked, descend and are no NaN, those of cut groups too.
    directions : tuple of bool, or None
        Whether the keys of row 0 and of later groups ascend, and whether they descend; None without
        keys.
    """

    starts: np.ndarray
    labels: Labels
    ranked_rows: RankedRows | None
    passed: bool
    directions: tuple[bool, bool] | None = None


def scan(
    label: np.ndarray,
    score: np.ndarray | None,
    skip: bool,
    *,
    starts: np.ndarray | None = None,
    words: np.ndarray | None = None,
    whole: bool = True,
) -> Scan:
    """Scan every row of contiguous groups.

    Parameters
    ----------
    label : ndarray, shape (rows,), read-only
    score : ndarray of float32 or float64, shape (rows,), read-only, or None
    skip : bool
        Leave out groups without a labelled row.
    starts : ndarray of int64, shape (groups + 1,), optional
        As in `Scan`, where the edges are known.
    words : ndarray of integers, shape (rows,), read-only, optional
        The keys of the rows, where edges are not known.
    whole : bool
        Whether the first and the last group of `words` are whole. Otherwise they are cut off.
    """
    bits, is_byte = label.view(f"u{label.dtype.itemsize}"), label.dtype.itemsize == 1
    given = 0 if starts is None else len(starts)
    bounds = given or len(label) + 1
    edges = scratch("edges", bounds + _SPARE, sparse=True)
    if starts is not None:
        edges[:given] = starts
    # The bits of -0.0 count too: there may be room for more.
    most = int(np.count_nonzero(bits)) + _SPARE
    if skip:
        bounds = min(most, bounds)
    # One by one: glibc keeps no array above 31 MB.
    ranked = 0 if score is None else most
    row, grade = np.empty(most, np.int64), np.empty(most)
    above, size = np.empty(ranked, np.int64), np.empty(ranked, np.int64)
    offsets, indices = np.empty(bounds, np.int64), np.empty(bounds if skip else 0, np.int64)
    rows, positives = np.empty(bounds, np.int64), np.empty(bounds, np.int64)
    counts = np.empty(8, np.int64)
    _scan(
        _NO_WORDS if words is None else words, edges, given, whole,
        frozen(bits if is_byte else label.view()), label.dtype.char == "b",
        _NO_SCORES if score is None else score, skip,
        row, above, size, grade, indices, offsets, rows, positives, counts,
    )  # fmt: skip
    known, ranked, count, rises, rises_inside, ascents, first, end = counts.tolist()
    starts = edges[:known].copy()
    drop_scratch("edges", known)
    least, highest = grade[count : count + 2].tolist()
    from_first = starts - first if first else starts
    indices = indices[:ranked] if skip else np.arange(ranked)
    offsets, row, grade = offsets[: ranked + 1], row[:count], grade[:count]
    rows, positives, above, size = rows[:ranked], positives[:ranked], above[:count], size[:count]
    for array in (from_first, indices, offsets, row, grade, rows, positives, above, size):
        array.flags.writeable = False
    labels = Labels(
        label[first:end], from_first, skip, indices, offsets, row, grade, rows, positives,
        least, highest,
    )  # fmt: skip
    ranked_rows = None
    if score is not None and not rises_inside:
        ranked_rows = RankedRows(indices, offsets, row, above, size, row)
    directions = None
    if words is not None:
        steps = known - 2 if whole else known
        directions = ascents == steps, ascents == 0
    return Scan(starts, labels, ranked_rows, not rises, directions)


def find_labels(label: np.ndarray, starts: np.ndarray, skip: bool) -> Labels:
    """Find the rows of each group whose label is not 0; see `scan`."""
    return scan(label, None, skip, starts=starts).labels


def ranked_in_order(
    score: np.ndarray,
    starts: np.ndarray,
    labels: Labels,
    order: np.ndarray | None = None,
) -> RankedRows | None:
    """Compute the labelled rows of rows whose scores descend in groups.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,), read-only
        Scores, sorted by `order`.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    labels : Labels
    order : ndarray of integers, shape (rows,), or None
        Row number at each position; None where rows stand in this order.

    Returns
    -------
    RankedRows or None
        None where a score rises.
    """
    if order is None and len(score) > _FEW_ROWS:
        # Unsorted rows show a rise at once, so the first groups are scanned alone.
        first = starts[: _FIRST_GROUPS + 1]
        if not descends(score[: first[-1]], first):
            return None
    label = labels.label if order is None else frozen(labels.marks[order])
    skip = len(labels.indices) < len(starts) - 1
    ranked_rows = scan(label, score, skip, starts=starts).ranked_rows
    if ranked_rows is not None and order is not None:
        return ranked_rows._replace(row=order[ranked_rows.row])
    return ranked_rows


def descends(score: np.ndarray, starts: np.ndarray) -> bool:
    """Return whether scores descend in every group; `starts` as in `Scan`."""
    edges = starts[(starts > 0) & (starts < len(score))]
    edges = edges[np.diff(edges, prepend=0) > 0]  # np.unique() imports numpy.ma
    between = int(np.count_nonzero(score[edges] > score[edges - 1]))
    # Not by a kernel: few evaluations would compile it.
    return int(np.count_nonzero(~(score[1:] <= score[:-1]))) == between


@kernel
def _scan(  # type: ignore[no-untyped-def]
    words,
    edges,
    given,
    whole,
    label,
    signed,
    score,
    skip,
    row,
    above,
    size,
    grade,
    indices,
    offsets,
    group_rows,
    positives,
    counts,
):
    """Fill everything of a `Scan`, and its counts.

    `words` and `score` may be empty. `edges` is an output where there are words, else an input of
    `given` edges. Rows before the first edge are of no group, nor are those after the last. `label`
    may have the bits of `signed` bytes. The lowest and the highest grade stand behind all grades.
    """
    rows = label.shape[0]
    known = given
    if words.shape[0] > 0 and whole:
        edges[0] = 0
        known = 1
    label_count = np.int64(0)
    placed = np.int64(0)
    ranked_rows = np.int64(0)
    ranked = np.int64(0)
    edge = np.int64(0)
    begin = np.int64(0)
    base = np.int64(0)
    ascents = np.int64(0)
    rises = np.int64(0)
    lowest = np.inf
    highest = -np.inf
    if score.shape[0] > 0:
        rises += score[0] != score[0]
    for lo in range(0, max(rows, 1), _BLOCK):
        hi = min(lo + _BLOCK, rows)
        label_count = _find_labels(label, lo, hi, row, label_count)
        if words.shape[0] > 0:
            known = _find_edges(words, max(lo, 1), hi, edges, known)
            if whole and hi == rows:
                edges[known] = rows
                known += 1
        if score.shape[0] > 0:
            rises += _count_rises(score, max(lo, 1), hi)
        while edge < known and edges[edge] <= hi:
            end = edges[edge]
            if 0 < end < score.shape[0] and (edge == 0 or end > begin):
                # Between groups a score may rise, but it may not be NaN.
                rises -= not score[end] <= score[end - 1]
                rises += score[end] != score[end]
            if 0 < end < words.shape[0]:
                ascents += words[end] > words[end - 1]
            if edge == 0:
                base = end
                while placed < label_count and row[placed] < end:
                    placed += 1
            elif not skip or (placed < label_count and row[placed] < end):
                if skip:
                    indices[ranked] = edge - 1
                offsets[ranked] = ranked_rows
                hits = np.int64(0)
                block = begin
                block_end = begin
                while placed < label_count and row[placed] < end:
                    i = row[placed]
                    if score.shape[0] > 0:
                        if i >= block_end:
                            block = i
                            while block > begin and score[block - 1] == score[i]:
                                block -= 1
                            block_end = i + 1
                            while block_end < end and score[block_end] == score[i]:
                                block_end += 1
                        above[ranked_rows] = block - begin
                        size[ranked_rows] = block_end - block
                    value = np.float64(label[i])
                    if signed and value > 127.0:
                        value -= 256.0
                    lowest = min(lowest, value)
                    highest = max(highest, value)
                    hits += value >= 1.0
                    grade[ranked_rows] = value
                    row[ranked_rows] = i - base
                    ranked_rows += 1
                    placed += 1
                group_rows[ranked] = end - begin
                positives[ranked] = hits
                ranked += 1
            begin = end
            edge += 1
    offsets[ranked] = ranked_rows
    grade[ranked_rows] = lowest
    grade[ranked_rows + 1] = highest
    inside = rises
    if rises > 0 and known > 0:
        inside -= _count_rises(score, 1, edges[0]) + _count_rises(score, begin + 1, rows)
    counts[0] = known
    counts[1] = ranked
    counts[2] = ranked_rows
    counts[3] = rises
    counts[4] = inside
    counts[5] = ascents
    counts[6] = base
    counts[7] = begin


@kernel
def _find_labels(label, lo, hi, out, count):  # type: ignore[no-untyped-def]
    """Write the rows whose label is not 0, behind `count` others."""
    while lo + 64 <= hi:
        values = label[lo : lo + 64]
        bits = np.uint64(0)
        # Bits of 64 rows: this loop vectorises. 0.2 ns a row, against 0.4 for one row at a time.
        for i in range(64):
            bits |= np.uint64(values[i] != 0) << np.uint64(i)
        count = _write_bits(bits, lo, out, count)
        lo += 64
    for i in range(lo, hi):
        out[count] = i
        count += label[i] != 0
    return count


@kernel
def _find_edges(words, lo, hi, out, count):  # type: ignore[no-untyped-def]
    """Write the rows whose word differs from the previous, from row 1 on."""
    while lo + 64 <= hi:
        values = words[lo : lo + 64]
        previous = words[lo - 1 : lo + 63]
        bits = np.uint64(0)
        for i in range(64):
            bits |= np.uint64(values[i] != previous[i]) << np.uint64(i)
        count = _write_bits(bits, lo, out, count)
        lo += 64
    for i in range(lo, hi):
        out[count] = i
        count += words[i] != words[i - 1]
    return count


@kernel
def _write_bits(bits, first, out, count):  # type: ignore[no-untyped-def]
    """Write `first` plus the position of each set bit."""
    # Halves in signed integers: nothing overflows, so the loop also runs as plain Python.
    for half in range(2):
        rest = np.int64(bits >> _HALF) if half else np.int64(bits & _LOWER)
        start = first + 32 * half
        # Most halves have two at most: without branches, which would be mispredicted.
        for _ in range(2):
            out[count] = start + np.int64(_BIT[((rest & -rest) * 0x077CB531 & 0xFFFFFFFF) >> 27])
            count += rest != 0
            rest &= rest - 1
        while rest != 0:
            out[count] = start + np.int64(_BIT[((rest & -rest) * 0x077CB531 & 0xFFFFFFFF) >> 27])
            count += 1
            rest &= rest - 1
    return count


@kernel
def _count_rises(score, lo, hi):  # type: ignore[no-untyped-def]
    """Count the rows that are above the previous one, or not comparable."""
    rises = np.int64(0)
    for first in range(lo, hi, _BLOCK):
        values = score[first : min(first + _BLOCK, hi)]
        previous = score[first - 1 : first - 1 + values.shape[0]]
        # 32-bit counts: twice as many fit in a register.
        count = np.uint32(0)
        for i in range(values.shape[0]):
            count = np.uint32(count + np.uint32(not values[i] <= previous[i]))
        rises += np.int64(count)
    return rises


Keys = tuple[pa.Array, ...]
#: Keys whose columns are arrays of integers where they can be: Arrow's cost 50 µs where caches are
#: cold.
Words = tuple[pa.Array | np.ndarray, ...]
#: Positions of groups.
Groups: TypeAlias = np.ndarray | slice


def group_starts(keys: Sequence[pa.Array]) -> np.ndarray:
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
    return changed.nonzero()[0] + 1


#: Row 0 and later rows where groups or clusters begin, and the `directions` of their keys if known.
Begins: TypeAlias = tuple[np.ndarray, tuple[bool, bool] | None]


class BatchScan(NamedTuple):
    """What one scan of every row of a batch finds, for several plans.

    Parameters
    ----------
    starts : ndarray of int64, shape (groups + 1,)
        First row of each whole group, then the end of the last.
    passed : bool
        Whether all scores that were scanned were checked and are no NaN.
    found : list of (Labels, dict of int to (RankedRows or None))
        For each plan the labels, and the labelled rows of models, as in `Chunk`.
    of_groups, of_clusters : Begins
        The same if clusters are not nested.
    clusters : ndarray of int64, or None
        First group of each whole cluster, then the number of groups; None: each group is one.
    """

    starts: np.ndarray
    passed: bool
    found: list[tuple[Labels, dict[int, RankedRows | None]]]
    of_groups: Begins
    of_clusters: Begins
    clusters: np.ndarray | None = None


class SplitGroup(Exception):
    """A group has rows in two clusters; the row is the first of the second."""

    def __init__(self, row: int) -> None:
        super().__init__("a group has rows in two clusters")
        self.row = row


def scan_batch(
    keys: Keys,
    columns: Sequence[Columns],
    views: Sequence[tuple[bool, bool]],
    whole: bool,
    outer: Keys = (),
) -> BatchScan:
    """Scan every row of a batch of contiguous groups.

    Edges are found once, and scores that rise inside a group are scanned once.

    Parameters
    ----------
    keys : tuple of pyarrow.Array, each of length rows
        At least one row.
    columns : sequence of Columns
        Those of each plan, at least one. Plans may share arrays.
    views : sequence of (bool, bool)
        For each plan: leave out groups without a labelled row; look at the scores too.
    whole : bool
        Whether the first and the last group are whole. Otherwise they are left out.
    outer : tuple of pyarrow.Array, each of length rows
        Keys of nested clusters; then clusters are left out in place of groups.

    Raises
    ------
    SplitGroup
    """
    words = fixed_width(keys[0]) if len(keys) == 1 else None
    edges: dict[str, Any] = {"whole": whole}
    changed: dict[int, np.ndarray] = {}
    if words is not None and words.ndim == 1:
        edges["words"] = words
    else:
        changed = {id(key): _differs_from_previous(key) for key in keys}
        starts = reduce(np.logical_or, changed.values()).nonzero()[0] + 1
        edges["starts"] = np.concatenate([[0], starts, [len(keys[0])]]) if whole else starts
    # By identity, because plans share arrays.
    known: dict[tuple[int, int, bool], Scan] = {}
    unsorted: set[int] = set()
    found: list[tuple[Labels, dict[int, RankedRows | None]]] = []
    passed = True
    for of_plan, (skip, scored) in zip(columns, views, strict=True):
        label, missing = of_plan.label, of_plan.unretrieved
        scores = of_plan.scores if scored else ()
        models = [model for model in range(len(scores)) if missing[model] is None]
        labels: Labels | None = None
        ranked_rows: dict[int, RankedRows | None] = {}
        for model in models or [-1]:
            score = scores[model] if models else None
            if id(score) in unsorted:
                score = None
            at = id(label), id(score), skip
            if at not in known:
                # To compare sorted scores again takes less time than to fetch those beside
                # labelled rows.
                known[at] = scan(label, score, skip, **edges)
                passed &= known[at].passed
            one = known[at]
            if not found and labels is None:
                first, edges = one, {"starts": one.starts}
            if score is not None and one.ranked_rows is None:
                unsorted.add(id(score))
            if models:
                ranked_rows[model] = one.ranked_rows
            labels = labels or one.labels
        found.append((labels or one.labels, ranked_rows))
    starts = first.starts
    of_groups = starts[:-1] if whole else np.concatenate([[0], starts]), first.directions
    if not outer:
        return BatchScan(starts, passed, found, of_groups, of_groups)
    every = of_groups[0][1:]
    clusters = np.flatnonzero(_new_clusters(outer, every, changed))
    of_clusters = np.append(0, every[clusters]), None
    if whole:
        clusters = np.concatenate([[0], clusters + 1, [len(starts) - 1]])
    elif len(clusters):
        first_group, end = int(clusters[0]), int(clusters[-1])
        found = [_cut(*one, starts, first_group, end) for one in found]
        starts, clusters = starts[first_group : end + 1], clusters - first_group
    else:
        starts = starts[:0]
    return BatchScan(starts, passed, found, of_groups, of_clusters, clusters)


def _new_clusters(outer: Keys, every: np.ndarray, changed: Mapping[int, np.ndarray]) -> np.ndarray:
    """Mark the groups, except the first, that begin a cluster.

    Parameters
    ----------
    outer : tuple of pyarrow.Array, each of length rows
    every : ndarray of int64
        Every row but row 0 where a group begins.
    changed : mapping of int to ndarray of bool, shape (rows - 1,)
        For some keys, by identity: the rows, except row 0, that differ from the previous one.
    """
    new = reduce(
        np.logical_or,
        (changed[id(key)] if id(key) in changed else _differs_from_previous(key) for key in outer),
    )
    new_cluster = new[every - 1]
    if np.count_nonzero(new) > np.count_nonzero(new_cluster):
        inside = new.copy()
        inside[every - 1] = False
        raise SplitGroup(int(np.argmax(inside)) + 1)
    return cast(np.ndarray, new_cluster)


def _cut(
    labels: Labels,
    ranked: Mapping[int, RankedRows | None],
    starts: np.ndarray,
    first: int,
    end: int,
) -> tuple[Labels, dict[int, RankedRows | None]]:
    """Select consecutive groups; leave out those of cut clusters."""
    lo, hi = np.searchsorted(labels.indices, [first, end]).tolist()
    offsets = labels.offsets[lo : hi + 1]
    inside = slice(int(offsets[0]), int(offsets[-1]))
    row, last_row = (int(starts[group] - starts[0]) for group in (first, end))
    grade = labels.grade[inside]
    # Labelled rows of all models are equal.
    same = (
        frozen(labels.indices[lo:hi] - first),
        frozen(offsets - offsets[0]),
        frozen(labels.row[inside] - row),
    )
    part = Labels(
        labels.label[row:last_row],
        frozen(starts[first : end + 1] - starts[first]),
        labels.skip_empty,
        *same,
        grade,
        labels.rows[lo:hi],
        labels.positives[lo:hi],
        float(grade.min(initial=np.inf)),
        float(grade.max(initial=-np.inf)),
    )
    ranked_part: dict[int, RankedRows | None] = {}
    for model, one in ranked.items():
        ranked_part[model] = None
        if one is not None:
            place = None if one.place is None else part.row
            ranked_part[model] = RankedRows(*same, one.above[inside], one.size[inside], place)
    return part, ranked_part


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


def same_key(left: Keys | Words, i: int, right: Keys | Words, j: int) -> bool:
    """Return whether row `i` of `left` and row `j` of `right` have one key."""
    return all(a[i] == b[j] for a, b in zip(left, right, strict=True))


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


class KeyRun(NamedTuple):
    """Keys of groups in a row, for the check for returning keys.

    Parameters
    ----------
    ends : tuple of (pyarrow.Array or ndarray) of length 2
        Keys of the first and the last group.
    ascending, descending : bool
        Whether every key is above (below) the previous one.
    keys : tuple of pyarrow.Array or None
        All keys; None where the order alone excludes a return.
    groups : int
        Number of groups.
    """

    ends: Words
    ascending: bool
    descending: bool
    keys: Keys | None
    groups: int


def keys_at(keys: Keys, rows: np.ndarray) -> Keys:
    """Select the keys of some rows."""
    return tuple([_key_at(key, rows) for key in keys])


def _key_at(key: pa.Array, rows: np.ndarray) -> pa.Array:
    words = _words_at(key, rows)
    return arrow_column(words, key.type) if isinstance(words, np.ndarray) else words


def _words_at(key: pa.Array, rows: np.ndarray) -> pa.Array | np.ndarray:
    if key.type.id not in WORDS:
        return key.take(row_column(rows))
    # Arrow's take imports pyarrow.compute: 45 ms that a run over sorted integers can save.
    return fixed_items(key, WORDS[key.type.id])[rows]


def directions(keys: Words, rows: np.ndarray) -> tuple[bool, bool]:
    """Return whether keys strictly ascend, and whether they strictly descend.

    A single key does both.
    """
    if len(rows) < 2:
        return True, True
    words = fixed_width(keys[0])
    if len(keys) == 1 and words is not None and words.ndim == 1:
        words = words[rows]
        return bool((words[1:] > words[:-1]).all()), bool((words[1:] < words[:-1]).all())
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
    """The key of a group or cluster returns after another one.

    Parameters
    ----------
    keys : tuple of pyarrow.Array of length 2, or None
        All columns stored, where the key was and where it returns; None where a return is possible
        but not checked, because earlier keys were not stored.
    names : sequence of str
        The key columns.
    """

    def __init__(self, keys: Keys | None, names: Sequence[str]) -> None:
        super().__init__("a key returned")
        self.keys, self.names = keys, tuple(names)

    def splits(self, outer: int) -> bool:
        """Return whether the key returns in another cluster."""
        keys = (self.keys or ())[:outer]
        return not same_key(keys, 0, keys, 1)


class KeyWatch:
    """Detector of returning keys, in bounded memory for sorted keys.

    Keys that only ascend, or only descend, cannot return, so none is stored. Otherwise all keys
    are stored. They are compared each time their number doubles, and at the end.

    Parameters
    ----------
    keep : bool
        Store sorted keys too, because the input cannot be read a second time.
    names : sequence of str
        The key columns that must not return, the first of all.
    inner : sequence of int, optional
        Their positions, if all key columns are stored: those of groups in clusters.
    """

    def __init__(
        self, keep: bool, names: Sequence[str], inner: Sequence[int] | None = None
    ) -> None:
        self.keep, self._names, self.inner = keep, names, inner
        self._ascending = self._descending = True
        self._ends: Words | None = None
        self._keys: list[Keys] = []
        self._groups = self._stored_groups = 0
        self._next_check = 1 << 12

    def _watched(self, keys: Words) -> Words:
        return keys if self.inner is None else tuple(keys[at] for at in self.inner)

    def run(self, keys: Keys, begins: np.ndarray, known: tuple[bool, bool] | None = None) -> KeyRun:
        """Describe the keys of rows in a row.

        Parameters
        ----------
        keys : tuple of pyarrow.Array, each of length rows
            All key columns.
        begins : ndarray of int64, shape (groups,)
            First row of each group; row 0 may continue the last group of the rows before.
        known : tuple of bool, optional
            Their `directions`, if known.
        """
        if self.inner is None:
            keys = keys[: len(self._names)]
        # No slices: they would keep all rows of their batch in memory.
        ends = tuple([_words_at(key, begins[_ENDS]) for key in keys])
        up, down = known or directions(self._watched(keys), begins)
        every = keys_at(keys, begins) if self.keep or not (up or down) else None
        return KeyRun(ends, up, down, every, len(begins))

    def add(self, run: KeyRun) -> None:
        """Add the keys of the next rows.

        Raises
        ------
        ReturningKey
            A key returns, or may return: see `ReturningKey`.
        """
        up = down = True
        continues = 0
        if self._ends is not None:
            pairs = zip(self._ends, run.ends, strict=True)
            between = tuple([
                np.concatenate(pair) if isinstance(pair[0], np.ndarray) else pa.concat_arrays(pair)
                for pair in pairs
            ])  # fmt: skip
            up, down = directions(self._watched(between), _BETWEEN)
            if not (up or down) and same_key(between, 1, between, 2):
                up = down = True
                continues = 1
        self._ascending &= run.ascending and up
        self._descending &= run.descending and down
        self._ends = run.ends
        self._groups += run.groups - continues
        if run.keys is not None:
            self._keys.append(tuple(key.slice(continues) for key in run.keys))
            self._stored_groups += run.groups - continues
        if self._ascending or self._descending:
            return
        if self._stored_groups < self._groups:
            raise ReturningKey(None, self._names)
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
        codes, firsts = encode_keys(self._watched(keys))
        if len(firsts) < len(codes):
            repeat = int(np.flatnonzero(firsts[codes] != np.arange(len(codes)))[0])
            both = np.array([firsts[codes[repeat]], repeat])
            raise ReturningKey(keys_at(keys, both), self._names)
