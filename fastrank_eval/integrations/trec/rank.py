"""Rank the documents of each query in the order of trec_eval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, column_with_nulls, frozen, row_column
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.ties import order_by_item
from fastrank_eval.integrations.trec.join import Match
from fastrank_eval.integrations.trec.pairs import PairTable, map_in_threads

__all__ = ["RankedQueries", "rank_documents"]


#: Rows of a batch, which one thread ranks: they fit in the cache.
_BATCH_ROWS = 1 << 18


@dataclass(frozen=True)
class RankedQueries:
    """Rows by query: retrieved documents, best first, then other judged ones.

    Parameters
    ----------
    table : pyarrow.Table
        Columns query (its index), score (null if not retrieved) and grade (null if unjudged).
    queries : pyarrow.Array
        Names of the queries.
    has_documents : ndarray of bool, shape (queries,)
        Whether the run has documents of the query, even if they are left out here.
    strings : list of str
        The grades of the first documents of each query, one character each.
    """

    table: pa.Table
    queries: pa.Array
    has_documents: np.ndarray
    strings: list[str]


@dataclass(frozen=True)
class _Choices:
    as_float32: bool
    most: int | None
    judged_only: bool
    depth: int


def rank_documents(
    run: PairTable,
    judgements: PairTable,
    match: Match,
    *,
    as_float32: bool,
    most: int | None,
    judged_only: bool,
    depth: int,
) -> RankedQueries:
    """Rank documents by descending score, ties by descending id.

    Parameters
    ----------
    run, judgements : PairTable
    match : Match
        The match of both, with at least one query.
    as_float32 : bool
        Round scores to float32 first.
    most : int or None
        The largest number of retrieved documents of each query.
    judged_only : bool
        Then leave out unjudged documents, and take those with a negative grade as not retrieved:
        for trec_eval such a document is in the pool, but unjudged.
    depth : int
        Documents in a string of grades.
    """
    starts = np.append(0, match.ends[match.query_mask])
    # Batches of complete queries with about equal numbers of rows.
    cuts = np.searchsorted(starts, np.arange(_BATCH_ROWS, int(starts[-1]), _BATCH_ROWS))
    bounds = np.unique(np.concatenate([[0], cuts, [len(starts) - 1]])).tolist()
    choices = _Choices(as_float32, most, judged_only, depth)
    scores, grades = run.numbers, judgements.numbers
    grades = np.append(grades, grades.dtype.type(0))
    negative = frozen(grades < 0)

    def rank_batch(i: int) -> tuple[pa.RecordBatch, np.ndarray, list[str]]:
        lo, hi = bounds[i], bounds[i + 1]
        rows, batch_starts = match.order[starts[lo] : starts[hi]], starts[lo : hi + 1] - starts[lo]
        return _rank_batch(
            lo, rows, batch_starts, match, scores, grades, negative, run.docs_at, choices
        )

    batches, has_documents, strings = zip(*map_in_threads(rank_batch, len(bounds) - 1), strict=True)
    queries = match.queries.take(row_column(np.flatnonzero(match.query_mask)))
    table = pa.Table.from_batches(batches)
    return RankedQueries(
        table, queries, np.concatenate(has_documents), list(chain.from_iterable(strings))
    )


def _rank_batch(
    first: int,
    rows: np.ndarray,
    starts: np.ndarray,
    match: Match,
    scores: np.ndarray,
    grades: np.ndarray,
    negative: np.ndarray,
    docs_at: Callable[[np.ndarray], pa.Array],
    choices: _Choices,
) -> tuple[pa.RecordBatch, np.ndarray, list[str]]:
    """Rank a batch of queries: rows, whether the run has the query, strings."""
    queries, row_count = len(starts) - 1, len(rows)
    run_rows, judgement_of_row, query_index, score_index, judgement_index = np.empty(
        (5, row_count), np.int64
    )
    list_scores, list_starts = np.empty(row_count), np.empty(queries + 1, np.int64)
    _gather(
        rows, starts, match.judgement, scores, run_rows, list_scores, judgement_of_row, list_starts
    )
    run_rows, list_scores = run_rows[: list_starts[-1]], list_scores[: list_starts[-1]]
    if choices.as_float32:
        with np.errstate(over="ignore"):
            list_scores = list_scores.astype(np.float32)
    order = order_by_item(
        frozen(list_scores), list_starts, lambda indices: docs_at(run_rows[indices])
    ).astype(np.int64, copy=False)
    counts, ends = np.empty(queries, np.int64), np.empty(queries, np.int64)
    _arrange(
        order,
        list_starts,
        starts,
        judgement_of_row,
        negative,
        row_count if choices.most is None else choices.most,
        choices.judged_only,
        query_index,
        score_index,
        judgement_index,
        counts,
        ends,
    )
    starts = np.append(0, ends)
    query_index, score_index = query_index[: starts[-1]], score_index[: starts[-1]]
    judgement_index = judgement_index[: starts[-1]]
    grade, is_unjudged = grades[judgement_index], judgement_index < 0
    columns = [
        arrow_column((query_index + first).astype(np.int32)),
        column_with_nulls(
            np.append(list_scores, list_scores.dtype.type(0))[score_index], score_index < 0
        ),
        column_with_nulls(grade, is_unjudged),
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=["query", "score", "grade"])
    has_documents = np.diff(list_starts) > 0
    return (
        batch,
        has_documents,
        _grade_strings(starts, np.minimum(counts, choices.depth), grade, is_unjudged),
    )


def _grade_strings(
    starts: np.ndarray, shown: np.ndarray, grade: np.ndarray, is_unjudged: np.ndarray
) -> list[str]:
    ends = np.cumsum(shown)
    rows = np.arange(int(shown.sum())) + np.repeat(starts[:-1] - ends + shown, shown)
    pairs = zip(grade[rows].tolist(), is_unjudged[rows].tolist(), strict=True)
    text = "".join("-" if null else _grade_character(grade) for grade, null in pairs)
    return [
        text[end - length : end] for end, length in zip(ends.tolist(), shown.tolist(), strict=True)
    ]


def _grade_character(grade: float) -> str:
    if grade < 0:  # in the pool, but unjudged
        return "."
    return ">" if grade > 9 else str(int(grade))


@kernel
def _gather(rows, starts, judgement, scores, run_rows, values, judgement_of_row, list_starts):  # type: ignore[no-untyped-def]
    """Collect retrieved rows, scores and judgements by query."""
    k = 0
    list_starts[0] = 0
    for q in range(starts.shape[0] - 1):
        for i in range(starts[q], starts[q + 1]):
            row = rows[i]
            if row < judgement.shape[0]:
                run_rows[k] = row
                values[k] = scores[row]
                judgement_of_row[i] = judgement[row]
                k += 1
            else:
                judgement_of_row[i] = row - judgement.shape[0]
        list_starts[q + 1] = k


@kernel
def _arrange(  # type: ignore[no-untyped-def]
    order,
    list_starts,
    starts,
    judgement_of_row,
    negative,
    most,
    judged_only,
    query_index,
    score_index,
    judgement_index,
    counts,
    ends,
):
    """Arrange the rows of each query, best first.

    Judged documents that are beyond `most` or left out follow as not retrieved.
    """
    k = 0
    for q in range(counts.shape[0]):
        first = list_starts[q]
        retrieved = list_starts[q + 1] - first
        last = min(retrieved, most)
        counts[q] = 0
        for i in range(last):
            judgement = judgement_of_row[starts[q] + order[first + i] - first]
            if judged_only and (judgement < 0 or negative[judgement]):
                continue
            query_index[k] = q
            score_index[k] = order[first + i]
            judgement_index[k] = judgement
            counts[q] += 1
            k += 1
        for i in range(starts[q + 1] - starts[q]):
            position = order[first + i] - first if i < retrieved else i
            judgement = judgement_of_row[starts[q] + position]
            if judgement < 0 or (i < last and not (judged_only and negative[judgement])):
                continue
            query_index[k] = q
            score_index[k] = -1
            judgement_index[k] = judgement
            k += 1
        ends[q] = k
