"""Keys of groups as 64-bit numbers that say no type, so that files written differently agree."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import decoded
from fastrank_eval.columns import frozen
from fastrank_eval.errors import ArgumentError, ColumnError
from fastrank_eval.kernel import kernel
from fastrank_eval.words import KeyWords

__all__ = ["group_ids"]

_TURN = np.uint64(0x9E3779B97F4A7C15)
_FACTOR0, _FACTOR1 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)


def group_ids(keys: tuple[pa.Array, ...]) -> np.ndarray:
    """A number for each group that depends on its key alone.

    Equal values have equal numbers whatever integer type, string type, dictionary or view holds
    them; what the columns are called does not matter, their order does. Keys of one integer
    column never share a number; others do by chance, of U groups about U^2 / 2^65 pairs. Groups
    that share one are drawn together, which changes no expectation and, of two among many
    groups, no error to speak of.

    Parameters
    ----------
    keys : tuple of pyarrow.Array, each of length groups
        Columns that make up the key, without nulls.

    Returns
    -------
    ndarray of uint64, shape (groups,), read-only

    Raises
    ------
    ArgumentError
        If there is no column, or lengths differ.
    ColumnError
        If a key is null.
    """
    if not keys or len({len(key) for key in keys}) > 1:
        raise ArgumentError(
            f"keys of {[len(key) for key in keys]} groups name no group each; pass at least one "
            "column, all of one length."
        )
    ids = np.zeros(len(keys[0]), np.uint64)
    for place, key in enumerate(keys):
        if key.null_count:
            raise ColumnError(
                f"key column {place} is null for {key.null_count} of {len(key)} groups, the first "
                f"of them {key.is_null().index(True).as_py()}; groups need a key."
            )
        _fold_column(decoded(key), ids)
    return frozen(ids)


def _fold_column(key: pa.Array, ids: np.ndarray) -> None:
    kind = key.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        key = key.cast(pa.large_binary())
    elif pa.types.is_fixed_size_binary(kind):
        key = key.cast(pa.binary()).cast(pa.large_binary())
    if not pa.types.is_large_binary(key.type):
        words = KeyWords("key of groups", key.type).words(key)
        _fold_words(frozen(np.stack(words).view(np.uint64)), ids)
        return
    _, places, content = key.buffers()
    offsets = np.frombuffer(places, np.int64, len(key) + 1, key.offset * 8)
    filled = content is not None and content.size
    letters = np.frombuffer(content if filled else b"\0", np.uint8)
    _fold_letters(frozen(offsets), frozen(letters), ids)


@kernel
def _mixed(word):  # type: ignore[no-untyped-def]
    # The finaliser of splitmix64 (Steele, Lea & Flood 2014, doi:10.1145/2660193.2660195).
    word = (word ^ (word >> _S30)) * _FACTOR0
    word = (word ^ (word >> _S27)) * _FACTOR1
    return word ^ (word >> _S31)


@kernel
def _fold_words(words, ids):  # type: ignore[no-untyped-def]
    for i in range(ids.shape[0]):
        # A longer integer type adds words that only repeat the sign.
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
        for at in range(0, size, 8):
            word = np.uint64(0)
            for k in range(min(size - at, 8)):
                word |= np.uint64(letters[lo + at + k]) << np.uint64(8 * k)
            folded = _mixed((folded + _TURN) ^ word)
        # Their number tells letters of value 0 from none, and one column from the next.
        ids[i] = _mixed((folded + _TURN) ^ np.uint64(size))
