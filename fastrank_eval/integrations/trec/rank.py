"""The documents of each query in the order in which trec_eval ranks them, as numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, column_with_nulls, frozen, row_column
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.ties import order_by_item
from fastrank_eval.integrations.trec.join import Matched
from fastrank_eval.integrations.trec.pairs import Keyed, in_threads

__all__ = ["Ranked", "rank_documents"]


#: Rows of a piece, which one thread ranks: as many as stay in the cache.
_PIECE = 1 << 18


@dataclass(frozen=True)
class Ranked:
    """The rows of whole queries: what was retrieved, best first, then what else was judged.

    Parameters
    ----------
    table : pyarrow.Table
        Columns query (its number), score, null where not retrieved, and grade, null where not
        judged.
    queries : pyarrow.Array
        Their names.
    answered : ndarray of bool, shape (queries,)
        Whether the run has documents of the query, be they left out here.
    strings : list of str
        The grades of each query's first documents, a sign each.
    """

    table: pa.Table
    queries: pa.Array
    answered: np.ndarray
    strings: list[str]


@dataclass(frozen=True)
class _Choices:
    single: bool
    most: int | None
    judged_only: bool
    depth: int


def rank_documents(
    run: Keyed,
    judgements: Keyed,
    matched: Matched,
    *,
    single: bool,
    most: int | None,
    judged_only: bool,
    depth: int,
) -> Ranked:
    """Rank by score, tied documents by id, both descending.

    Parameters
    ----------
    run, judgements : Keyed
    matched : Matched
        The one with the other; a query at least.
    single : bool
        Scores are rounded to float32 first.
    most : int or None
        Only so many documents of each query are retrieved.
    judged_only : bool
        What nobody judged is then left out, and what has a negative grade was not retrieved: to
        trec_eval that is a document of the pool that nobody judged.
    depth : int
        Documents in a string of grades.
    """
    starts = np.append(0, matched.ends[matched.wanted])
    # Whole queries, about as many rows a piece.
    cuts = np.searchsorted(starts, np.arange(_PIECE, int(starts[-1]), _PIECE))
    bounds = np.unique(np.concatenate([[0], cuts, [len(starts) - 1]])).tolist()
    choices = _Choices(single, most, judged_only, depth)
    scores, grades = run.numbers, judgements.numbers
    grades = np.append(grades, grades.dtype.type(0))
    negative = frozen(grades < 0)

    def piece(i: int) -> tuple[pa.RecordBatch, np.ndarray, list[str]]:
        lo, hi = bounds[i], bounds[i + 1]
        rows, of_piece = matched.order[starts[lo] : starts[hi]], starts[lo : hi + 1] - starts[lo]
        return _ranked(lo, rows, of_piece, matched, scores, grades, negative, run.docs_at, choices)

    batches, answered, strings = zip(*in_threads(piece, len(bounds) - 1), strict=True)
    queries = matched.queries.take(row_column(np.flatnonzero(matched.wanted)))
    table = pa.Table.from_batches(batches)
    return Ranked(table, queries, np.concatenate(answered), list(chain.from_iterable(strings)))


def _ranked(
    first: int,
    rows: np.ndarray,
    starts: np.ndarray,
    matched: Matched,
    scores: np.ndarray,
    grades: np.ndarray,
    negative: np.ndarray,
    docs_at: Callable[[np.ndarray], pa.Array],
    choices: _Choices,
) -> tuple[pa.RecordBatch, np.ndarray, list[str]]:
    """Some queries, numbered from the first: rows, whether the run has them, strings."""
    queries, room = len(starts) - 1, len(rows)
    of_run, judged, code, at, grade_at = np.empty((5, room), np.int64)
    values, lists = np.empty(room), np.empty(queries + 1, np.int64)
    _gather(rows, starts, matched.at, scores, of_run, values, judged, lists)
    of_run, values = of_run[: lists[-1]], values[: lists[-1]]
    if choices.single:
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
    order = order_by_item(frozen(values), lists, lambda few: docs_at(of_run[few])).astype(
        np.int64, copy=False
    )
    counts, ends = np.empty(queries, np.int64), np.empty(queries, np.int64)
    _lay_out(
        order,
        lists,
        starts,
        judged,
        negative,
        room if choices.most is None else choices.most,
        choices.judged_only,
        code,
        at,
        grade_at,
        counts,
        ends,
    )
    starts = np.append(0, ends)
    code, at, grade_at = code[: starts[-1]], at[: starts[-1]], grade_at[: starts[-1]]
    grade, unjudged = grades[grade_at], grade_at < 0
    columns = [
        arrow_column((code + first).astype(np.int32)),
        column_with_nulls(np.append(values, values.dtype.type(0))[at], at < 0),
        column_with_nulls(grade, unjudged),
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=["query", "score", "grade"])
    answered = np.diff(lists) > 0
    return batch, answered, _strings(starts, np.minimum(counts, choices.depth), grade, unjudged)


def _strings(
    starts: np.ndarray, shown: np.ndarray, grade: np.ndarray, unjudged: np.ndarray
) -> list[str]:
    ends = np.cumsum(shown)
    rows = np.arange(int(shown.sum())) + np.repeat(starts[:-1] - ends + shown, shown)
    pairs = zip(grade[rows].tolist(), unjudged[rows].tolist(), strict=True)
    signs = "".join("-" if nobody else _sign(grade) for grade, nobody in pairs)
    return [signs[end - few : end] for end, few in zip(ends.tolist(), shown.tolist(), strict=True)]


def _sign(grade: float) -> str:
    if grade < 0:  # in the pool, and not judged
        return "."
    return ">" if grade > 9 else str(int(grade))


@kernel
def _gather(rows, starts, at, scores, of_run, values, judged, lists):  # type: ignore[no-untyped-def]
    """Retrieved rows with their scores, and where they begin, by query; each row's judgement."""
    k = 0
    lists[0] = 0
    for q in range(starts.shape[0] - 1):
        for i in range(starts[q], starts[q + 1]):
            row = rows[i]
            if row < at.shape[0]:
                of_run[k] = row
                values[k] = scores[row]
                judged[i] = at[row]
                k += 1
            else:
                judged[i] = row - at.shape[0]
        lists[q + 1] = k


@kernel
def _lay_out(  # type: ignore[no-untyped-def]
    order, lists, starts, judged, negative, most, judged_only, code, at, grade_at, counts, ends
):
    """Rows of each query, best first: where its score stands, -1 if it has none, its judgement.

    What is not among the first, or was left out, is a row of its query where somebody judged it.
    """
    k = 0
    for q in range(counts.shape[0]):
        first = lists[q]
        retrieved = lists[q + 1] - first
        last = min(retrieved, most)
        counts[q] = 0
        for i in range(last):
            found = judged[starts[q] + order[first + i] - first]
            if judged_only and (found < 0 or negative[found]):
                continue
            code[k] = q
            at[k] = order[first + i]
            grade_at[k] = found
            counts[q] += 1
            k += 1
        for i in range(starts[q + 1] - starts[q]):
            place = order[first + i] - first if i < retrieved else i
            found = judged[starts[q] + place]
            if found < 0 or (i < last and not (judged_only and negative[found])):
                continue
            code[k] = q
            at[k] = -1
            grade_at[k] = found
            k += 1
        ends[q] = k
