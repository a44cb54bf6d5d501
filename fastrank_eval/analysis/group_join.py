"""Join the groups of two results by their keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, decode_array, frozen, text_buffers
from fastrank_eval._lib.errors import ArgumentError, text_keys_hint
from fastrank_eval._lib.jit import kernel
from fastrank_eval.engine.options import KEEP_GROUPS
from fastrank_eval.engine.records import GroupRecords
from fastrank_eval.engine.state_arrays import SavedGroups
from fastrank_eval.io.keys import KeyEncoder, encode_keys

_TURN = np.uint64(0x9E3779B97F4A7C15)
_FACTOR0, _FACTOR1 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)


def group_ids(keys: tuple[pa.Array, ...]) -> np.ndarray:
    """Compute an id of each group that depends only on its key.

    Equal values have equal ids in every integer type, string type, dictionary or view. The names of
    the columns do not matter, their order does. Keys of one integer column have distinct ids. Other
    keys collide by chance: about U^2 / 2^65 pairs among U groups. Groups with the same id are drawn
    together; this changes no expectation, and the standard error only negligibly.

    Parameters
    ----------
    keys : tuple of pyarrow.Array, each of length groups
        Columns of the key, without nulls.

    Returns
    -------
    ndarray of uint64, shape (groups,), read-only
    """
    ids = np.zeros(len(keys[0]), np.uint64)
    for key in keys:
        _fold_column(decode_array(key), ids)
    return frozen(ids)


def _fold_column(key: pa.Array, ids: np.ndarray) -> None:
    kind = key.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        key = key.cast(pa.large_binary())
    elif pa.types.is_fixed_size_binary(kind):
        key = key.cast(pa.binary()).cast(pa.large_binary())
    if not pa.types.is_large_binary(key.type):
        words = KeyEncoder("key of groups", key.type).words(key)
        _fold_words(frozen(np.stack(words).view(np.uint64)), ids)
        return
    _fold_letters(*text_buffers(key), ids)


@kernel
def _mixed(word):  # type: ignore[no-untyped-def]
    # The finaliser of splitmix64 (Steele, Lea & Flood 2014, doi:10.1145/2660193.2660195).
    word = (word ^ (word >> _S30)) * _FACTOR0
    word = (word ^ (word >> _S27)) * _FACTOR1
    return word ^ (word >> _S31)


@kernel
def _fold_words(words, ids):  # type: ignore[no-untyped-def]
    for i in range(ids.shape[0]):
        # A wider integer type adds words that only repeat the sign.
        last = words.shape[0] - 1
        while last > 0 and words[last, i] == np.uint64(np.int64(words[last - 1, i]) >> 63):
            last -= 1
        folded = ids[i]
        for w in range(last + 1):
            folded = _mixed((folded + _TURN) ^ words[w, i])
        ids[i] = folded


@kernel
def _fold_letters(offsets, letters, ids):  # type: ignore[no-untyped-def]
    for i in range(ids.shape[0]):
        folded = ids[i]
        lo = offsets[i]
        size = offsets[i + 1] - lo
        for first in range(0, size, 8):
            word = np.uint64(0)
            for k in range(min(size - first, 8)):
                word |= np.uint64(letters[lo + first + k]) << np.uint64(8 * k)
            folded = _mixed((folded + _TURN) ^ word)
        # The length distinguishes bytes of value 0 from no bytes, and one column from the next.
        ids[i] = _mixed((folded + _TURN) ^ np.uint64(size))


def join_groups(
    base: GroupRecords,
    model: int,
    other: GroupRecords,
    measures: Sequence[str],
    names: Mapping[str, str],
) -> tuple[GroupRecords, dict[str, int]]:
    """Join the groups of two results by their keys.

    Parameters
    ----------
    base : GroupRecords
    model : int
        Index of the baseline in `base`.
    other : GroupRecords
    measures : sequence of str
        Measures that both results have.
    names : mapping of str to str
        New names of the models of `other`.

    Returns
    -------
    groups : GroupRecords
        The baseline is the first model, the models of the other result follow. The groups of the
        baseline come first, in their order, then those that only the other result has.
    counts : dict of str to int
        Numbers of groups: in ``"both"``, ``"only_base"``, ``"only_candidate"``, and in both with
        different numbers of rows: ``"rows_differ"``.

    Raises
    ------
    ArgumentError
        If keys have different types.
    """
    base_keys, other_keys = (
        [decode_array(key) for key in records.keys] for records in (base, other)
    )
    kinds = [[str(key.type) for key in keys] for keys in (base_keys, other_keys)]
    if kinds[0] != kinds[1]:
        raise ArgumentError(
            f"groups cannot be joined by their keys, which are {', '.join(kinds[0])} in one result "
            f"and {', '.join(kinds[1])} in the other; give both the same types."
            f"{text_keys_hint([*kinds[0], *kinds[1]])}"
        )
    match, new_rows = _match_keys(base_keys, other_keys)
    both = match >= 0
    size = len(match) + len(new_rows)
    base_rows, other_rows = np.full(size, -1), np.concatenate([match, new_rows])
    base_rows[: len(match)] = np.arange(len(match))
    values, weights = {}, {}
    common = [next(m for m in base.measures if str(m) == text) for text in measures]
    sides = [(base, model, base_rows), *((other, k, other_rows) for k in range(len(other.scores)))]
    weights_by_source: dict[tuple[int, int], np.ndarray] = {}
    for index, (records, k, rows) in enumerate(sides):
        for m, shared_measure in enumerate(common):
            if shared_measure.pooled:
                continue
            source = k, records.measures.index(shared_measure)
            values[index, m] = _take_or(records.values[source], rows, np.nan)
            if source in records.weights:
                weight = records.weights[source]
                weight_key = id(weight), id(rows)
                if weight_key not in weights_by_source:
                    weights_by_source[weight_key] = _take_or(weight, rows, 0.0)
                weights[index, m] = weights_by_source[weight_key]
    groups = GroupRecords(
        base.names,
        tuple(
            pa.concat_arrays([a, b.take(arrow_column(new_rows)).cast(a.type)])
            for a, b in zip(base.keys, other_keys, strict=True)
        ),
        np.concatenate([base.rows, other.rows[new_rows]]),
        np.concatenate([base.positives, other.positives[new_rows]]),
        (base.scores[model], *names.values()),
        tuple(common),
        values,
        weights,
    )
    rows_differ = base.rows[both] != other.rows[match[both]]
    return groups, {
        "both": int(np.count_nonzero(both)),
        "only_base": int(np.count_nonzero(~both)),
        "only_candidate": len(new_rows),
        "rows_differ": int(np.count_nonzero(rows_differ)),
    }


def _take_or(values: np.ndarray, rows: np.ndarray, default: float) -> np.ndarray:
    """Select values by row, `default` where the row is -1."""
    result = np.full(len(rows), default)
    present = rows >= 0
    result[present] = values[rows[present]]
    return result


def _match_keys(
    left: Sequence[pa.Array], right: Sequence[pa.Array]
) -> tuple[np.ndarray, np.ndarray]:
    """Find the right row of each left key, or -1; and rows only there."""
    groups = len(left[0])
    codes, firsts = encode_keys([pa.concat_arrays(pair) for pair in zip(left, right, strict=True)])
    row_of_code = np.full(len(firsts), -1)
    row_of_code[codes[groups:]] = np.arange(len(right[0]))
    return row_of_code[codes[:groups]], np.flatnonzero(firsts[codes[groups:]] >= groups)


_EVALUATE = f"evaluate with {KEEP_GROUPS}"


def require_groups(
    groups: SavedGroups | None, shown: str, baseline: str | None, *, alone: bool
) -> None:
    """Raise unless the groups of a state can be compared by their keys."""
    if groups is None and alone:
        has = "has no baseline" if baseline is None else f"has baseline {baseline!r}"
        raise ArgumentError(
            f"{shown} {has}, and no values of groups for other comparisons; "
            f"evaluate with the requested baseline, baseline=... (--baseline), or {_EVALUATE}."
        )
    if groups is None:
        raise ArgumentError(f"{shown} has no keys of groups to join it with another; {_EVALUATE}.")
    if not alone and groups.equal_neighbours(np.lexsort(groups.ranks()[::-1])).any():
        raise ArgumentError(
            f"{shown} has groups that were merged in parts, so they cannot be joined with "
            "the groups of another state by their keys; evaluate the rows of a group together."
        )


def free_name(score: str, names: Collection[str]) -> str:
    """Rename a model until its name is free."""
    while score in names:
        score = f"other.{score}"
    return score
