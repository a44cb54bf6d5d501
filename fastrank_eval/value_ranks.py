"""The order of a column's values, whatever their type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import as_array
from fastrank_eval.slices.part_codes import encoded, ranks_of
from fastrank_eval.words import KeyWords

__all__ = ["bin_ranks", "value_ranks"]


def value_ranks(column: pa.Array) -> np.ndarray:
    """Where each value stands among the distinct ones: equal values stand at one place, nulls last.

    Parameters
    ----------
    column : pyarrow.Array, shape (rows,)
        Decoded, of any type that can be a key, or of floats.

    Returns
    -------
    ndarray of int64, shape (rows,)
    """
    if pa.types.is_interval(column.type):
        words = KeyWords("key", column.type).words(column)
        rows = np.ascontiguousarray(np.stack(words, axis=1))
        _, ranks = np.unique(rows, axis=0, return_inverse=True)
        return np.asarray(ranks.reshape(-1), np.int64)
    found = encoded(column)
    if not len(found.dictionary):
        return np.empty(0, np.int64)
    places: np.ndarray = ranks_of(found.dictionary)[as_array(found.indices)]
    return places


def bin_ranks(column: pa.Array) -> np.ndarray:
    """The same for values, or for bins: structs of a low and a high end, an open low end first."""
    if not pa.types.is_struct(column.type):
        return value_ranks(column)
    low, null = column.field("low"), as_array(column.is_null()).view(np.bool_)
    ranks = value_ranks(low)
    ranks[as_array(low.is_null()).view(np.bool_)] = -1
    ranks[null] = len(ranks)
    return ranks
