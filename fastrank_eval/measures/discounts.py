"""Rank discounts and their prefix sums, as tables that grow to the longest list seen."""

from __future__ import annotations

import numpy as np

from fastrank_eval.elementary import log, log2_each, log_each, powers

#: The deepest rank to which the discounts of a list without end are added.
DEEPEST = 1 << 24

_tables: dict[tuple[str, float], tuple[np.ndarray, np.ndarray]] = {}


def discount_table(kind: str, parameter: float, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """The discount of each rank, and the sum of the discounts before it.

    Parameters
    ----------
    kind : str
        ``"none"``: 1; ``"reciprocal"``: 1/i; ``"log2"``: 1/log2(i + 1); ``"jarvelin"``: 1 for ranks
        below the base b, then 1/log_b(i); ``"geometric"``: p^(i - 1); ``"inverse square"``:
        (x/(x + i - 1))^2.
    parameter : float
        b, above 1; p, in ]0, 1]; or x, above 0. 0 for kinds that have none.
    ranks : int
        Ranks needed.

    Returns
    -------
    discount : ndarray of float64, shape (at least ranks,)
        Entry i is the discount of rank i + 1.
    summed : ndarray of float64, shape (at least ranks + 1,)
        Entry i is the sum over ranks 1 to i.
    """
    key = (kind, parameter)
    found = _tables.get(key)
    if found is None or len(found[0]) < ranks:
        # A longer table starts with the same numbers: a value never depends on what came before.
        found = _build(kind, parameter, max(1024, 1 << (ranks - 1).bit_length() if ranks else 1024))
        _tables[key] = found
    return found


def _build(kind: str, parameter: float, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    rank = np.arange(1.0, ranks + 1.0)
    if kind == "none":
        discount = np.ones(ranks)
    elif kind == "reciprocal":
        discount = 1.0 / rank
    elif kind == "log2":
        discount = 1.0 / log2_each(rank + 1.0)
    elif kind == "geometric":
        discount = powers(parameter, ranks)
    elif kind == "inverse square":
        discount = np.square(parameter / (parameter + (rank - 1.0)))
    else:
        discount = 1.0 / np.maximum(1.0, log_each(rank) / log(parameter))
        discount[rank < parameter] = 1.0
    summed = np.zeros(ranks + 1)
    np.cumsum(discount, out=summed[1:])
    discount.flags.writeable = False
    summed.flags.writeable = False
    return discount, summed


def longest(cutoffs: np.ndarray, lengths: np.ndarray) -> int:
    """The deepest rank that cutoffs (0: none) and list lengths leave in sight."""
    most = int(lengths.max(initial=0))
    return most if np.any(cutoffs == 0) else min(most, int(cutoffs.max(initial=0)))
