"""Join a run with its judgements, and rank the documents of each query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import arrow_column, column_with_nulls, frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.ties import order_by_item
from fastrank_eval.integrations.trec.lines import QRELS, RUN
from fastrank_eval.integrations.trec.pairs import PairTable, concat_texts, in_threads, indices_in
from fastrank_eval.integrations.trec.tables import is_nested, read_pairs


@dataclass(frozen=True)
class Match:
    """The pairs of a run and of judgements, without duplicates.

    Rows are the rows of the run, then those of the judgements.

    Parameters
    ----------
    queries : pyarrow.Array
        All queries, those of the run first.
    query_mask : ndarray of bool, shape (queries,)
        The queries to evaluate.
    only_in_run, only_in_qrels : int
        Numbers of queries of one side only.
    query_codes : ndarray of int32, shape (rows,)
        Index of the query of each row.
    judgement : ndarray of int64, shape (rows of the run,)
        Row of the judgement of each retrieved document, -1 if there is none.
    order : ndarray of int64, shape (pairs,)
        Rows of the queries to evaluate, one for each pair: by query, first the retrieved documents,
        then the others, both in their order.
    ends : ndarray of int64, shape (queries,)
        End of each query in `order`.
    """

    queries: pa.Array
    query_mask: np.ndarray
    only_in_run: int
    only_in_qrels: int
    query_codes: np.ndarray
    judgement: np.ndarray
    order: np.ndarray
    ends: np.ndarray

    def judgements(self, rows: np.ndarray) -> np.ndarray:
        """Find the judgements of rows, -1 if there is none: int64."""
        result = np.empty(len(rows), np.int64)
        _find_judgements(frozen(rows.view()), frozen(self.judgement.view()), result)
        return result


def match_pairs(run: PairTable, judged: PairTable, complete: bool) -> Match:
    """Find the judgement of each retrieved document, and the common queries.

    Parameters
    ----------
    run, judged : PairTable
    complete : bool
        Keep judged queries that the run does not have.
    """
    queries, judged_queries = run.queries, judged.queries
    # The code of each judged query in the run; new codes for the others.
    codes = indices_in(judged_queries, queries)
    new_queries = np.flatnonzero(codes < 0)
    codes[new_queries] = len(queries) + np.arange(len(new_queries))
    query_mask = np.zeros(len(queries) + len(new_queries), np.bool_)
    query_mask[codes] = True
    only_in_run = int((~query_mask[: len(queries)]).sum())
    query_mask[len(queries) :] = complete

    judgement = run.rows_in(judged)
    query_codes = np.concatenate([run.codes, codes.astype(np.int32)[judged.codes]])
    row_mask = query_mask[query_codes]
    row_mask[run.rows :][judgement[judgement >= 0]] = False
    order, ends = np.empty(int(row_mask.sum()), np.int64), np.zeros(len(query_mask) + 1, np.int64)
    _sort_by_code(frozen(query_codes), frozen(row_mask), ends, order)
    all_queries = pa.concat_arrays([queries, judged_queries.take(arrow_column(new_queries))])
    return Match(
        all_queries,
        query_mask,
        only_in_run,
        len(new_queries),
        query_codes,
        judgement,
        order,
        ends[:-1],
    )


@kernel
def _find_judgements(rows, judgement, result):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        row = rows[i]
        result[i] = judgement[row] if row < judgement.shape[0] else row - judgement.shape[0]


@kernel
def _sort_by_code(code, mask, ends, order):  # type: ignore[no-untyped-def]
    """Sort rows by code (counting sort); starts in `ends` become ends."""
    for row in range(code.shape[0]):
        ends[code[row] + 1] += mask[row]
    for index in range(1, ends.shape[0]):
        ends[index] += ends[index - 1]
    for row in range(code.shape[0]):
        if mask[row]:
            order[ends[code[row]]] = row
            ends[code[row]] += 1


#: Rows of a batch of the result.
_BATCH_ROWS = 1 << 20


@dataclass(frozen=True)
class Joined:
    """One or several runs joined with judgements.

    Attributes
    ----------
    table : pyarrow.Table
        One row for each pair: ``query`` and ``doc``, string; the columns `scores`, float64, null if
        that run did not retrieve the document; ``grade``, int64 or float64, null if unjudged;
        ``subtopics``, list of int64, if the judgements have them.
    scores : tuple of str
        One column for each run.
    queries : int
        Number of queries of the table.
    only_in_run : int
        Number of unjudged queries of the runs: they are left out.
    only_in_qrels : int
        Number of judged queries that no run has: left out, or kept without a score if complete.
    unanswered : dict of str to int
        For each column of scores, the number of queries of the table that the run does not have.
    """

    table: pa.Table
    scores: tuple[str, ...]
    queries: int
    only_in_run: int
    only_in_qrels: int
    unanswered: dict[str, int]


@typed
def join(run: object, qrels: object, *, complete: bool = False) -> Joined:
    """Join runs with judgements by query and document.

    Ids are compared exactly. All judged documents of a query are kept, also those that were not
    retrieved: relevant ones count in R and in the ideal ranking, others in measures that compare
    with judged non-relevant documents. Pass the table to ``evaluate(table, group="query",
    item="doc", label="grade", score="score", unretrieved="allow", unjudged="allow")``.

    Parameters
    ----------
    run : object
        A source of `read_run`, or a mapping of names to sources, which gives a column of scores
        each. A query that only some of several runs have counts for all of them, with null scores
        for a run that does not have it.
    qrels : object
        A source of `read_qrels`, or the result of `read_diversity_qrels`, whose column
        ``subtopics`` is kept.
    complete : bool
        Keep judged queries that no run has, like ``-c`` of trec_eval.

    Returns
    -------
    Joined
        Queries in the order of first appearance in the runs, then queries with judgements only, in
        the order of the judgements. In a query: the documents in the order of the run, then those
        that only a later run has, then judged documents that were not retrieved, in the order of
        the judgements.

    Raises
    ------
    SourceError, ColumnError
        As `read_run` and `read_qrels` do.
    ArgumentError
        If there is no run, or the name of a run is ``query``, ``doc``, ``grade`` or ``subtopics``.

    References
    ----------
    trec_eval 10, https://github.com/usnistgov/trec_eval

    Examples
    --------
    >>> joined = join({"q1": {"d7": 2.5, "d3": 1.5}}, {"q1": {"d3": 1, "d5": 1}})
    >>> joined.table.to_pydict()["score"], joined.table.to_pydict()["grade"]
    ([2.5, 1.5, None], [None, 1, 1])
    """
    runs = _name_runs(run)
    judged = read_pairs(qrels, QRELS)
    rows, scores = _union([read_pairs(source, RUN) for source in runs.values()])
    match = match_pairs(rows, judged, complete)
    columns, unanswered = {}, {}
    for name, (score, is_null) in zip(runs, scores, strict=True):
        has_query = np.zeros(len(match.query_mask), np.bool_)
        has_query[rows.codes[~is_null]] = True
        unanswered[name] = int((match.query_mask & ~has_query).sum())
        columns[name] = (
            np.append(score, np.zeros(judged.rows)),
            np.append(is_null, np.ones(judged.rows, np.bool_)),
        )
    docs = concat_texts([*rows.docs.chunks, *judged.docs.chunks])
    table = _table(match, docs, columns, judged)
    return Joined(
        table,
        tuple(runs),
        int(match.query_mask.sum()),
        match.only_in_run,
        match.only_in_qrels,
        unanswered,
    )


def _union(runs: Sequence[PairTable]) -> tuple[PairTable, list[tuple[np.ndarray, np.ndarray]]]:
    """Build the union of the pairs of runs; scores and nulls by run."""
    union = runs[0]
    if len(runs) == 1:
        return union, [(union.numbers, np.zeros(union.rows, np.bool_))]
    rows_by_run = [np.arange(union.rows)]
    for run in runs[1:]:
        rows = run.rows_in(union)
        new_rows = np.flatnonzero(rows < 0)
        rows[new_rows] = union.rows + np.arange(len(new_rows))
        rows_by_run.append(rows)
        tables = [pairs.table.select(["query", "doc", "score"]) for pairs in (union, run)]
        union = PairTable(
            pa.concat_tables([tables[0], tables[1].take(arrow_column(new_rows))]), "score"
        )
    scores = []
    for run, rows in zip(runs, rows_by_run, strict=True):
        score, is_null = np.zeros(union.rows), np.ones(union.rows, np.bool_)
        score[rows], is_null[rows] = run.numbers, False
        scores.append((score, is_null))
    return union, scores


def _name_runs(run: object) -> dict[str, object]:
    """Name the column of each run."""
    is_table = isinstance(run, Mapping) and {"query", "doc", "score"} <= run.keys()
    if not isinstance(run, Mapping) or is_table or _is_one_run(run):
        return {"score": run}
    if not run:
        raise ArgumentError("No run is given: the mapping of names to runs is empty.")
    for name in run:
        if not isinstance(name, str) or name in ("query", "doc", "grade", "subtopics"):
            raise ArgumentError(
                f"A run cannot be called {name!r}: its scores become a column beside query, doc, "
                "grade and subtopics. Name it otherwise."
            )
    return dict(run)


def _is_one_run(run: Mapping[Any, Any]) -> bool:
    """Tell whether dicts of dicts are one run, with scores inside."""
    queries = [value for value in run.values() if value]
    return bool(run) and is_nested(run) and not (queries and all(map(is_nested, queries)))


def _table(
    match: Match,
    docs: pa.Array,
    scores: Mapping[str, tuple[np.ndarray, np.ndarray]],
    judged: PairTable,
) -> pa.Table:
    """Build the table of pairs, a batch at a time to save memory.

    Parameters
    ----------
    match : Match
    docs : pyarrow.Array
    scores : mapping of str to tuple of ndarray
        Scores of the rows, and a mask of nulls.
    judged : PairTable
        Judgements; their lists of subtopics, if any, become a column.
    """
    order = match.order
    grades = judged.numbers
    grades = np.append(grades, grades.dtype.type(0))
    kinds = {name: pa.float64() for name in scores}
    kinds["grade"] = pa.from_numpy_dtype(grades.dtype)
    subtopics = None
    if "subtopics" in judged.encoded.column_names:
        subtopics = judged.encoded["subtopics"].combine_chunks()
        kinds["subtopics"] = subtopics.type
    schema = pa.schema({"query": pa.string(), "doc": pa.string(), **kinds})

    def batch(i: int) -> pa.RecordBatch:
        rows = order[i * _BATCH_ROWS : (i + 1) * _BATCH_ROWS]
        judgement = match.judgements(rows)
        arrays = [
            match.queries.take(arrow_column(match.query_codes[rows])),
            docs.take(arrow_column(rows)).cast(pa.string()),
            *(column_with_nulls(score[rows], is_null[rows]) for score, is_null in scores.values()),
            column_with_nulls(grades[judgement], judgement < 0),
        ]
        if subtopics is not None:
            arrays.append(subtopics.take(column_with_nulls(judgement, judgement < 0)))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.Table.from_batches(in_threads(batch, -(-len(order) // _BATCH_ROWS)), schema)


#: Rows of a batch, which one thread ranks: they fit in the cache.
_RANKED_ROWS = 1 << 18


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
    cuts = np.searchsorted(starts, np.arange(_RANKED_ROWS, int(starts[-1]), _RANKED_ROWS))
    bounds = sorted({0, *cuts.tolist(), len(starts) - 1})
    scores, grades = run.numbers, judgements.numbers
    grades = np.append(grades, grades.dtype.type(0))
    negative = frozen(grades < 0)

    def rank_batch(i: int) -> tuple[pa.RecordBatch, np.ndarray, list[str]]:
        """Rank some queries: rows, whether the run has the query, strings."""
        first, last = bounds[i], bounds[i + 1]
        rows = match.order[starts[first] : starts[last]]
        batch_starts = starts[first : last + 1] - starts[first]
        queries, row_count = last - first, len(rows)
        run_rows, judgement_of_row, query_index, score_index, judgement_index = np.empty(
            (5, row_count), np.int64
        )
        list_scores, list_starts = np.empty(row_count), np.empty(queries + 1, np.int64)
        _gather(
            rows,
            batch_starts,
            match.judgement,
            scores,
            run_rows,
            list_scores,
            judgement_of_row,
            list_starts,
        )
        run_rows, list_scores = run_rows[: list_starts[-1]], list_scores[: list_starts[-1]]
        if as_float32:
            with np.errstate(over="ignore"):
                list_scores = list_scores.astype(np.float32)
        order = order_by_item(
            frozen(list_scores), list_starts, lambda indices: run.docs_at(run_rows[indices])
        ).astype(np.int64, copy=False)
        counts, ends = np.empty(queries, np.int64), np.empty(queries, np.int64)
        _arrange(
            order,
            list_starts,
            batch_starts,
            judgement_of_row,
            negative,
            row_count if most is None else most,
            judged_only,
            query_index,
            score_index,
            judgement_index,
            counts,
            ends,
        )
        ends = np.append(0, ends)
        query_index, score_index, judgement_index = (
            index[: ends[-1]] for index in (query_index, score_index, judgement_index)
        )
        grade, is_unjudged = grades[judgement_index], judgement_index < 0
        padded_scores = np.append(list_scores, list_scores.dtype.type(0))
        columns = [
            arrow_column((query_index + first).astype(np.int32)),
            column_with_nulls(padded_scores[score_index], score_index < 0),
            column_with_nulls(grade, is_unjudged),
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=["query", "score", "grade"])
        strings = _grade_strings(ends, np.minimum(counts, depth), grade, is_unjudged)
        return batch, np.diff(list_starts) > 0, strings

    batches, has_documents, strings = zip(*in_threads(rank_batch, len(bounds) - 1), strict=True)
    queries = match.queries.take(row_column(np.flatnonzero(match.query_mask)))
    return RankedQueries(
        pa.Table.from_batches(batches),
        queries,
        np.concatenate(has_documents),
        list(chain.from_iterable(strings)),
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
