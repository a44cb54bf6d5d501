"""Rank discounts and their prefix sums, as tables that grow to the longest list seen."""

from __future__ import annotations

import numpy as np

_tables: dict[tuple[str, float], tuple[np.ndarray, np.ndarray]] = {}


def discount_table(kind: str, base: float, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """The discount of each rank, and the sum of the discounts before it.

    Parameters
    ----------
    kind : str
        ``"none"``: 1; ``"reciprocal"``: 1/i; ``"log2"``: 1/log2(i + 1); ``"jarvelin"``: 1 for ranks
        below `base`, then 1/log_base(i).
    base : float
        Base of the ``"jarvelin"`` logarithm, above 1.
    ranks : int
        Ranks needed.

    Returns
    -------
    discount : ndarray of float64, shape (at least ranks,)
        Entry i is the discount of rank i + 1.
    summed : ndarray of float64, shape (at least ranks + 1,)
        Entry i is the sum over ranks 1 to i.
    """
    key = (kind, base)
    found = _tables.get(key)
    if found is None or len(found[0]) < ranks:
        # A longer table starts with the same numbers: a value never depends on what came before.
        found = _build(kind, base, max(1024, 1 << (ranks - 1).bit_length() if ranks else 1024))
        _tables[key] = found
    return found


def _build(kind: str, base: float, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    rank = np.arange(1.0, ranks + 1.0)
    if kind == "none":
        discount = np.ones(ranks)
    elif kind == "reciprocal":
        discount = 1.0 / rank
    elif kind == "log2":
        discount = 1.0 / np.log2(rank + 1.0)
    else:
        discount = 1.0 / np.maximum(1.0, np.log(rank) / np.log(base))
        discount[rank < base] = 1.0
    summed = np.zeros(ranks + 1)
    np.cumsum(discount, out=summed[1:])
    discount.flags.writeable = False
    summed.flags.writeable = False
    return discount, summed


def longest(cutoffs: np.ndarray, lengths: np.ndarray) -> int:
    """The deepest rank that cutoffs (0: none) and list lengths leave in sight."""
    most = int(lengths.max(initial=0))
    return most if np.any(cutoffs == 0) else min(most, int(cutoffs.max(initial=0)))
