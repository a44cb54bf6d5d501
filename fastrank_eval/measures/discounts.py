"""Discount gains by rank."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastrank_eval._lib.arguments import number, one_of
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.elementary import log, log2_each, log_each, powers
from fastrank_eval._lib.jit import kernel
from fastrank_eval.measures.options import Param

DISCOUNT = Param(
    "discount",
    "log2",
    "'log2': 1/log2(i + 1); 'jarvelin': none before rank `base`, then 1/log_base(i)",
    one_of("log2", "jarvelin"),
)
BASE = Param("base", 2, "base of the 'jarvelin' logarithm", number(above=1))

#: The deepest rank of sums of discounts for lists of any length.
DEEPEST = 1 << 24

_tables: dict[tuple[str, float], tuple[np.ndarray, np.ndarray]] = {}


def discount_table(kind: str, parameter: float, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the discount of each rank, and the sums of discounts.

    Parameters
    ----------
    kind : str
        ``"none"``: 1; ``"reciprocal"``: 1/i; ``"log2"``: 1/log2(i + 1); ``"jarvelin"``: 1 for ranks
        below the base b, then 1/log_b(i); ``"geometric"``: p^(i - 1); ``"inverse square"``:
        (x/(x + i - 1))^2.
    parameter : float
        b, above 1; p, in ]0, 1]; or x, above 0. 0 for kinds that have none.
    ranks : int
        Number of ranks.

    Returns
    -------
    discount : ndarray of float64, shape (at least ranks,)
        Entry i is the discount of rank i + 1.
    summed : ndarray of float64, shape (at least ranks + 1,)
        Entry i is the sum over ranks 1 to i.
    """
    key = (kind, parameter)
    table = _tables.get(key)
    if table is None or len(table[0]) < ranks:
        # A longer table starts with the same numbers, so no value depends on earlier calls.
        table = _build(kind, parameter, max(1024, 1 << (ranks - 1).bit_length() if ranks else 1024))
        _tables[key] = table
    return table


#: The discount of each rank, by kind, of the ranks and the parameter.
_DISCOUNTS: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "none": lambda rank, _: np.ones(len(rank)),
    "reciprocal": lambda rank, _: 1.0 / rank,
    "log2": lambda rank, _: 1.0 / log2_each(rank + 1.0),
    "geometric": lambda rank, p: powers(p, len(rank)),
    "inverse square": lambda rank, x: np.square(x / (x + (rank - 1.0))),
    # Below the base the quotient is below 1.
    "jarvelin": lambda rank, base: 1.0 / np.maximum(1.0, log_each(rank) / log(base)),
}


def _build(kind: str, parameter: float, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    discount = _DISCOUNTS[kind](np.arange(1.0, ranks + 1.0), parameter)
    summed = np.zeros(ranks + 1)
    np.cumsum(discount, out=summed[1:])
    return frozen(discount), frozen(summed)


@kernel
def expected_gain(  # type: ignore[no-untyped-def]
    offsets, above, size, retrieved, cutoffs, gain, discount, summed, out
):
    """Sum expected gains: a block adds its mean gain times (D(c + m) - D(c))."""
    for g in range(offsets.shape[0] - 1):
        for k in range(cutoffs.shape[0]):
            out[k, g] = 0.0
        e = offsets[g]
        end = offsets[g + 1]
        while e < end and above[e] < retrieved[g]:
            c = above[e]
            n = size[e]
            block = 0.0
            while e < end and above[e] == c:
                block += gain[e]
                e += 1
            in_sight = False
            for k in range(cutoffs.shape[0]):
                m = n if cutoffs[k] == 0 else min(cutoffs[k] - c, n)
                if m <= 0:
                    continue
                in_sight = True
                if n == 1:
                    out[k, g] += block * discount[c]
                else:
                    out[k, g] += block * ((summed[c + m] - summed[c]) / n)
            if not in_sight:
                break
