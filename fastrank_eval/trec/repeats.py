"""Pairs of query and document that stand in a table more than once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import as_array
from fastrank_eval.arrow_values import arrow_column
from fastrank_eval.errors import ArgumentError, SourceError, near
from fastrank_eval.trec.keyed import Keyed

__all__ = ["DUPLICATES", "check_choice", "numbered", "without_repeats"]

DUPLICATES = ("error", "first", "last", "max")


def check_choice(duplicates: str) -> None:
    """Refuse what is not in `DUPLICATES`."""
    if duplicates not in DUPLICATES:
        raise ArgumentError(
            f"duplicates={duplicates!r} is unknown.{near(str(duplicates), DUPLICATES)} "
            f"Use {', '.join(DUPLICATES)}."
        )


def without_repeats(
    pairs: Keyed,
    duplicates: str,
    place: Callable[[int, int], str],
) -> Keyed:
    """Keep one row of each pair of query and document.

    Rows whose hash no other row has need no further look; only the others are compared.

    Parameters
    ----------
    pairs : Keyed
    duplicates : {"error", "first", "last", "max"}
        ``"max"`` keeps the row whose number is greatest, the first of those where it is equal.
    place : callable
        Says where two rows stand.

    Returns
    -------
    Keyed
        The kept rows in their order; `pairs` itself where no pair is there twice.

    Raises
    ------
    SourceError
        If a pair is there twice and `duplicates` is ``"error"``: names the first that returns.
    """
    shared = pairs.shared_hashes()
    if not len(shared):
        return pairs
    hashes = pairs.hashes
    after = np.searchsorted(shared, hashes)
    rows = np.flatnonzero(shared[np.minimum(after, len(shared) - 1)] == hashes)
    few = pairs.encoded.select(["query", "doc", pairs.name]).take(arrow_column(rows))
    same = numbered(few)
    order = np.argsort(same, kind="stable")
    first = np.ones(len(order), np.bool_)
    first[1:] = same[order[1:]] != same[order[:-1]]
    if first.all():
        return pairs
    if duplicates == "error":
        again = int(order[~first].min())
        before = int(order[np.searchsorted(same[order], same[again])])
        query, doc = (few[name][again].as_py() for name in ("query", "doc"))
        raise SourceError(
            f"Query {query!r} has document {doc!r} twice: "
            f"{place(int(rows[before]), int(rows[again]))}. Leave one out, or pass "
            "duplicates='first', 'last' or 'max' (--duplicates)."
        )
    if duplicates == "first":
        kept = order[first]
    else:
        if duplicates == "max":
            values = as_array(few[pairs.name].combine_chunks())
            order = np.lexsort((-np.arange(len(order)), values, same))
        kept = order[np.append(first[1:], True)]
    keep = np.ones(pairs.rows, np.bool_)
    keep[rows] = False
    keep[rows[kept]] = True
    bits = pa.py_buffer(np.packbits(keep, bitorder="little"))
    kept_rows = pa.Array.from_buffers(pa.bool_(), len(keep), [None, bits])
    return Keyed(pairs.encoded.filter(kept_rows), pairs.name)


def numbered(table: pa.Table) -> np.ndarray:
    """Numbers of pairs, equal exactly where the pairs are equal."""
    query, doc = (
        table[name].cast(pa.string()).combine_chunks().dictionary_encode()
        for name in ("query", "doc")
    )
    queries, docs = (as_array(column.indices).astype(np.int64) for column in (query, doc))
    return queries * len(doc.dictionary) + docs
