"""The groups that moved a difference most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval.arrow_values import arrow_column, column_with_nulls
from fastrank_eval.comparison.kept_groups import KeptGroups
from fastrank_eval.plain_values import plain_value
from fastrank_eval.states import RowSums

__all__ = ["contributions", "movers_lines", "movers_table"]

#: Titles of what stands beside the keys.
TITLES = ("rows", "base", "value", "contribution")


def contributions(kept: KeptGroups, base: int, model: int, m: int, delta: float) -> np.ndarray:
    """What each group adds to the difference of a measure.

    ``w_b B / sum of w_b - w_a A / sum of w_a`` of a mean, ``B - A`` of a sum; of a geometric mean
    that of its logarithms, in the proportion of the difference. They add up to the difference.

    Parameters
    ----------
    kept : KeptGroups
    base, model, m : int
        Places of the two models and of the measure.
    delta : float
        The difference.

    Returns
    -------
    ndarray of float64, shape (groups,)
    """
    measure = kept.measures[m]
    (pa_, wa), (pb, wb) = kept.terms(base, m), kept.terms(model, m)
    if measure.aggregate == "sum":
        return pb - pa_
    total_a, total_b = _total(wa), _total(wb)
    if not total_a or not total_b:
        return np.zeros(len(wa))
    shares = pb / total_b - pa_ / total_a
    if measure.aggregate != "geometric mean":
        return shares
    of_logs = _total(shares)
    return shares * (delta / of_logs) if of_logs else np.zeros(len(wa))


def movers_lines(table: pa.Table) -> list[dict[str, Any]]:
    """The same as plain Python values: ``group`` the keys by name, bytes in hexadecimal."""
    names, numbers = table.column_names[: -len(TITLES)], table.columns[-len(TITLES) :]
    keys = [column.to_pylist() for column in table.columns[: len(names)]]
    return [
        {
            "group": {name: _plain_key(key[at]) for name, key in zip(names, keys, strict=True)},
            **{title: column[at].as_py() for title, column in zip(TITLES, numbers, strict=True)},
        }
        for at in range(table.num_rows)
    ]


def _plain_key(key: object) -> Any:
    return key.hex() if isinstance(key, bytes) else plain_value(key)


def _total(terms: np.ndarray) -> float:
    """Their sum, the same for any order."""
    sums = RowSums(1)
    sums.add(0, terms)
    return sums.total(0)


def movers_table(
    kept: KeptGroups, base: int, model: int, m: int, delta: float, top: int
) -> pa.Table:
    """The groups that raised a measure most, then those that lowered it most.

    Parameters
    ----------
    kept : KeptGroups
    base, model, m : int
        Places of the two models and of the measure.
    delta : float
        Its difference.
    top : int
        At most so many of each.

    Returns
    -------
    pyarrow.Table
        Key columns, ``rows``, ``base`` and ``value`` (null where undefined), ``contribution``:
        descending; of equal ones in the order of the keys.
    """
    moved = contributions(kept, base, model, m, delta)
    found = np.concatenate([_most(kept, moved, top), _most(kept, -moved, top)[::-1]])
    columns = [key.take(arrow_column(found)) for key in kept.keys]
    columns.append(arrow_column(kept.rows[found]))
    for place in (base, model):
        values = kept.values[place, m][found]
        columns.append(column_with_nulls(values, np.isnan(values)))
    columns.append(arrow_column(moved[found]))
    names = list(kept.names)
    for title in TITLES:
        while title in names:
            title += "_"
        names.append(title)
    return pa.table(columns, names=names)


def _most(kept: KeptGroups, moved: np.ndarray, top: int) -> np.ndarray:
    """Groups of the largest positive numbers, descending, then in the order of their keys."""
    rising = np.flatnonzero(moved > 0)
    if len(rising) > top:
        least = np.partition(moved[rising], len(rising) - top)[len(rising) - top]
        rising = rising[moved[rising] >= least]
    places = arrow_column(rising)
    table = pa.table(
        [arrow_column(-moved[rising]), *(_sortable(key.take(places)) for key in kept.keys)],
        names=["moved", *(f"key{k}" for k in range(len(kept.keys)))],
    )
    import pyarrow.compute as pc

    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
    return rising[order.to_numpy()[:top].astype(np.int64)]


def _sortable(key: pa.Array) -> pa.Array:
    return key.dictionary_decode() if pa.types.is_dictionary(key.type) else key
