"""Runs beside judgements, pair by pair: numbers of rows, queries and grades, no texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fastrank_eval.arrow_values import arrow_column
from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel
from fastrank_eval.trec.keyed import Keyed, places_among

__all__ = ["Matched", "match"]


@dataclass(frozen=True)
class Matched:
    """The pairs of a run and of judgements, each once.

    Rows are those of the run, then those of the judgements.

    Parameters
    ----------
    queries : pyarrow.Array
        Their queries, those of the run first.
    wanted : ndarray of bool, shape (queries,)
        Which of them are evaluated.
    only_in_run, only_in_qrels : int
        Queries of one side only.
    code : ndarray of int32, shape (rows,)
        The number of each row's query.
    at : ndarray of int64, shape (rows of the run,)
        The judgement of each retrieved document, -1 where there is none.
    order : ndarray of int64, shape (pairs,)
        Rows of the wanted queries, one a pair: queries in their order, in each the retrieved
        documents, then the others, both as they stand.
    ends : ndarray of int64, shape (queries,)
        Where each query ends in `order`.
    """

    queries: pa.Array
    wanted: np.ndarray
    only_in_run: int
    only_in_qrels: int
    code: np.ndarray
    at: np.ndarray
    order: np.ndarray
    ends: np.ndarray

    def judgements(self, rows: np.ndarray) -> np.ndarray:
        """The judgement of each of these rows, -1 where there is none. int64."""
        found = np.empty(len(rows), np.int64)
        _judgements(frozen(rows.view()), frozen(self.at.view()), found)
        return found


def match(run: Keyed, judged: Keyed, complete: bool) -> Matched:
    """Find the judgement of each retrieved document, and who lacks which query.

    Parameters
    ----------
    run, judged : Keyed
    complete : bool
        Keep judged queries that the run lacks.
    """
    queries, judged_queries = run.queries, judged.queries
    # The number that each judged query has among those of the run; new numbers for the others.
    number = places_among(judged_queries, queries)
    new = np.flatnonzero(number < 0)
    number[new] = len(queries) + np.arange(len(new))
    wanted = np.zeros(len(queries) + len(new), np.bool_)
    wanted[number] = True
    only_in_run = int((~wanted[: len(queries)]).sum())
    wanted[len(queries) :] = complete

    at = run.found_in(judged)
    code = np.concatenate([run.codes, number.astype(np.int32)[judged.codes]])
    taken = wanted[code]
    taken[run.rows :][at[at >= 0]] = False
    order, ends = np.empty(int(taken.sum()), np.int64), np.zeros(len(wanted) + 1, np.int64)
    _by_code(frozen(code), frozen(taken), ends, order)
    names = pa.concat_arrays([queries, judged_queries.take(arrow_column(new))])
    return Matched(names, wanted, only_in_run, len(new), code, at, order, ends[:-1])


@kernel
def _judgements(rows, at, found):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        row = rows[i]
        found[i] = at[row] if row < at.shape[0] else row - at.shape[0]


@kernel
def _by_code(code, taken, ends, order):  # type: ignore[no-untyped-def]
    """Where each code begins becomes where it ends, as its rows are entered."""
    for row in range(code.shape[0]):
        ends[code[row] + 1] += taken[row]
    for one in range(1, ends.shape[0]):
        ends[one] += ends[one - 1]
    for row in range(code.shape[0]):
        if taken[row]:
            order[ends[code[row]]] = row
            ends[code[row]] += 1
