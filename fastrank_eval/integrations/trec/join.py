"""Join a run with its judgements, and rank the documents of each query."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import arrow_column, column_with_nulls, frozen
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.scan import descends
from fastrank_eval.groups.ties import order_by_item
from fastrank_eval.integrations.trec.dicts import (
    has_grades,
    has_scores,
    is_nested,
    is_one_run,
    sign_of_swapping,
)
from fastrank_eval.integrations.trec.lines import QRELS, RUN, FileColumns
from fastrank_eval.integrations.trec.pairs import (
    Common,
    PairTable,
    drop_duplicates,
    in_threads,
    take_texts,
)
from fastrank_eval.integrations.trec.tables import (
    SWAPPED_RUN,
    columns_of,
    read_pairs,
)
from fastrank_eval.io.source import type_name

#: What to do about a pair that is there twice, and about runs that are no mapping.
_READ = "pass what {}(..., duplicates='first') returns."
_SEVERAL = "For several runs pass {'bm25': ..., 'ours': ...}."


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
        A run has a query whose dict is ``{}``.
    unanswered : dict of str to int
        For each column of scores, the number of queries of the table without a document of the run.
    lacking : dict of str to int
        The number of these that the run does not even have as an empty dict.
    notes : tuple of str
        What was read but may be meant otherwise.
    """

    table: pa.Table
    scores: tuple[str, ...]
    queries: int
    only_in_run: int
    only_in_qrels: int
    unanswered: dict[str, int]
    lacking: dict[str, int]
    notes: tuple[str, ...] = ()


@typed
def join(
    qrels: object,
    run: object,
    *,
    complete: bool = False,
    query: str | None = None,
    doc: str | None = None,
    grade: str | None = None,
    score: str | None = None,
) -> Joined:
    """Join judgements with runs by query and document.

    Ids are compared exactly. All judged documents of a query are kept, also those that were not
    retrieved: relevant ones count in R and in the ideal ranking, others in measures that compare
    with judged non-relevant documents. Pass the table to ``evaluate(table, group="query",
    item="doc", label="grade", score="score", unretrieved="allow", unjudged="allow")``.

    Parameters
    ----------
    qrels : object
        A source of `read_qrels`, or the result of `read_diversity_qrels`, whose column
        ``subtopics`` is kept.
    run : object
        A source of `read_run`, or a mapping of names to sources, which gives a column of scores
        each. If only some of several runs have a query, the others have null scores in it.
    complete : bool
        Keep judged queries that no run has, like ``-c`` of trec_eval.
    query, doc, grade, score : str, optional
        Names of the columns of all tables; by default those of `read_qrels` and `read_run`. Text
        and dicts need none.

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
        If there is no run, if the name of a run is ``query``, ``doc``, ``grade`` or ``subtopics``,
        or if dicts of runs and judgements are swapped.

    References
    ----------
    trec_eval 10, https://github.com/usnistgov/trec_eval

    Examples
    --------
    >>> joined = join({"q1": {"d3": 1, "d5": 1}}, {"q1": {"d7": 2.5, "d3": 1.5}})
    >>> joined.table.to_pydict()["score"], joined.table.to_pydict()["grade"]
    ([2.5, 1.5, None], [None, 1, 1])
    """
    names = {"query": query, "doc": doc, "grade": grade, "score": score}
    return join_runs(qrels, run, complete, names)


def join_runs(
    qrels: object,
    run: object,
    complete: bool,
    names: Mapping[str, str | None],
    change: Callable[[PairTable, PairTable], PairTable] = lambda run, _: run,
) -> Joined:
    """Join as `join` does, after a change of each run beside the judgements."""
    of_qrels, of_run = (
        {name: names[name] for name in ("query", "doc", number)} for number in ("grade", "score")
    )
    runs = _name_runs(run, of_run)
    refuse_swapped(qrels, list(runs.values()), of_qrels)
    judged = read_pairs(qrels, QRELS, names=of_qrels, remedy=_READ.format("read_qrels"))
    remedy = f"{_READ.format('read_run')} {_SEVERAL}"
    read = [read_pairs(source, RUN, names=of_run, remedy=remedy) for source in runs.values()]
    pairs = [change(one, judged) for one in read]
    rows, scores = _union(pairs)
    both = Common(rows, judged, complete)
    columns, unanswered, lacking = {}, {}, {}
    for name, own, (values, is_null) in zip(runs, pairs, scores, strict=True):
        if rows.order is not None:
            values, is_null = values[rows.order], is_null[rows.order]
        counts = np.append(0, np.cumsum(~is_null))[both.starts]
        has_none = both.wanted & (counts[1:] == counts[:-1])
        unanswered[name] = int(has_none.sum())
        lacking[name] = int((has_none & ~both.have(own.empty)).sum())
        columns[name] = values, is_null
    return Joined(
        _table(both, columns),
        tuple(runs),
        int(both.wanted.sum()),
        both.only_in_run,
        both.only_in_judged,
        unanswered,
        lacking,
        reading_notes(qrels, list(runs.values()), [judged, *read]),
    )


def reading_notes(
    qrels: object, runs: Sequence[object], tables: Sequence[PairTable]
) -> tuple[str, ...]:
    """Note comments that may be rows, and dicts that may be swapped."""
    notes = []
    comments = sum(table.comments for table in tables)
    if comments:
        lines = "1 line begins" if comments == 1 else f"{comments:,} lines begin"
        notes.append(
            f"{lines} with # and {'has' if comments == 1 else 'have'} the fields of a row: read as "
            "comments, as by trec_eval 10; if # begins an id of a query, write another id"
        )
    sign = sign_of_swapping(qrels, runs)
    if sign:
        notes.append(f"{sign}; if they are swapped, pass the judgements first and the runs second")
    return tuple(notes)


def no_common_query(judged: int, retrieved: int) -> ArgumentError:
    """Make the error for runs and judgements that share no query.

    Parameters
    ----------
    judged, retrieved : int
        Number of queries of the judgements, and of the runs.
    """
    if not judged:
        return ArgumentError("qrels: must have judgements, got none; check that it is not empty.")
    if not retrieved:
        return ArgumentError("run: must have documents, got none; check that it is not empty.")
    return ArgumentError(
        "run: must have a judged query, got none; check that run and judgements name queries alike."
    )


def _union(runs: Sequence[PairTable]) -> tuple[PairTable, list[tuple[np.ndarray, np.ndarray]]]:
    """Build the union of the pairs of runs; scores and nulls by run."""
    if len(runs) == 1:
        return runs[0], [(runs[0].numbers, np.zeros(runs[0].rows, np.bool_))]
    tables = [run.table.select(["query", "doc", "score"]) for run in runs]
    empty = list(chain.from_iterable(run.empty for run in runs))
    union = drop_duplicates(PairTable.of(pa.concat_tables(tables), "score", empty), "first")
    scores = []
    for run in runs:
        score, is_null = np.zeros(union.rows), np.ones(union.rows, np.bool_)
        rows = run.rows_in(union)
        score[rows], is_null[rows] = run.numbers, False
        scores.append((score, is_null))
    return union, scores


def _name_runs(run: object, names: Mapping[str, str | None]) -> dict[str, object]:
    """Name the column of each run."""
    parts = run if isinstance(run, list | tuple) else []
    if not all(isinstance(part, str | os.PathLike) for part in parts):
        kinds = ", ".join(dict.fromkeys(map(type_name, parts)))
        raise ArgumentError(
            f"run: must be one run or a mapping of names to runs, got a list of {kinds}. {_SEVERAL}"
        )
    if not isinstance(run, Mapping) or _has_columns(run, RUN, names) or is_one_run(run):
        return {"score": run}
    if _has_columns(run, QRELS, names):
        raise ArgumentError(f"run: must have a column of scores, got {list(run)}; {SWAPPED_RUN}")
    if not run:
        raise ArgumentError("No run is given: the mapping of names to runs is empty.")
    for name in run:
        if not isinstance(name, str) or name in ("query", "doc", "grade", "subtopics"):
            raise ArgumentError(
                f"A run cannot be called {name!r}: its scores become a column beside query, doc, "
                "grade and subtopics. Name it otherwise."
            )
    return dict(run)


def _has_columns(
    table: Mapping[Any, Any], file_columns: FileColumns, names: Mapping[str, str | None]
) -> bool:
    """Return whether a mapping is a table with the columns of a layout."""
    columns = columns_of(table.keys(), file_columns, names)
    return all(columns[column] in table for column in ("query", "doc", file_columns.number))


def refuse_swapped(qrels: object, runs: Sequence[object], names: Mapping[str, str | None]) -> None:
    """Raise if dicts that must be judgements have the form of runs.

    Fractions that rarely tie are scores if the runs are dicts of small whole numbers that mostly
    tie. One of both signs is not enough: grades may be fractions, and scores whole numbers. `names`
    are those of the columns of judgements.
    """
    if not isinstance(qrels, Mapping) or _has_columns(qrels, QRELS, names):
        return
    if is_one_run(qrels):
        swapped = has_scores(qrels) and all(
            isinstance(run, Mapping) and is_nested(run) and has_grades(run) for run in runs
        )
    else:
        forms = (Mapping, str, os.PathLike)
        swapped = bool(qrels) and all(isinstance(run, forms) for run in qrels.values())
    if swapped:
        raise ArgumentError(
            "qrels: must be grades of documents by query, got scores of runs; pass the judgements "
            "first and the runs second. If these are grades, pass read_qrels(qrels)."
        )


def _table(both: Common, scores: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> pa.Table:
    """Build the table of pairs, a piece at a time to save memory.

    Parameters
    ----------
    both : Common
    scores : mapping of str to tuple of ndarray
        Scores of the rows of the run, and a mask of nulls.
    """
    judged_docs, _, grades = both.judged.all
    grades = np.append(grades, grades.dtype.type(0))
    kinds = {name: pa.float64() for name in scores}
    kinds["grade"] = pa.from_numpy_dtype(grades.dtype)
    subtopics = None
    if "subtopics" in both.judged.encoded.column_names:
        subtopics = both.judged.encoded["subtopics"].combine_chunks()
        kinds["subtopics"] = subtopics.type
    schema = pa.schema({"query": pa.string(), "doc": pa.string(), **kinds})
    queries = both.queries[both.wanted]

    def batch(i: int) -> pa.RecordBatch:
        first, last = both.pieces[i]
        judgements, bounds, docs, _ = both.find(first, last)
        order = np.arange(len(judgements))
        query, row, judgement, _, _ = arrange(both, first, order, bounds, judgements)
        unretrieved = np.flatnonzero(row < 0)
        all_docs = [docs, judged_docs.take(arrow_column(judgement[unretrieved]))]
        indices = row.copy()
        indices[unretrieved] = len(docs) + np.arange(len(unretrieved))
        lo, hi = both.starts[[first, last]].tolist()
        arrays = [
            both.texts.take(arrow_column(queries[query])).cast(pa.string()),
            pa.concat_arrays(all_docs).take(arrow_column(indices)).cast(pa.string()),
        ]
        for score, is_null in scores.values():
            # Row -1 is the one after the last.
            column, null = np.append(score[lo:hi], 0.0), np.append(is_null[lo:hi], True)
            arrays.append(column_with_nulls(column[row], null[row]))
        arrays.append(column_with_nulls(grades[judgement], judgement < 0))
        if subtopics is not None:
            arrays.append(subtopics.take(column_with_nulls(judgement, judgement < 0)))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.Table.from_batches(in_threads(batch, len(both.pieces)), schema)


@dataclass(frozen=True)
class RankedQueries:
    """Rows by query: retrieved documents, best first, then other judged ones.

    Parameters
    ----------
    table : pyarrow.Table
        Columns query (its index), score (null if not retrieved) and grade (null if unjudged).
    queries : list of str
        Names of the queries.
    has_query : ndarray of bool, shape (queries,)
        Whether the run has the query, even if its documents are left out here.
    strings : list of str
        The grades of the first documents of each query, one character each.
    """

    table: pa.Table
    queries: list[str]
    has_query: np.ndarray
    strings: list[str]


def rank_documents(
    both: Common,
    *,
    as_float32: bool,
    depth: int,
) -> RankedQueries:
    """Rank documents by descending score, ties by descending id.

    Parameters
    ----------
    both : Common
        At least one query is wanted.
    as_float32 : bool
        Round scores to float32 first.
    depth : int
        Documents in a string of grades.
    """
    grades = np.append(both.judged.all[2], 0)
    if grades.dtype == np.int64 and grades.min() >= -128 and grades.max() <= 127:
        grades = grades.astype(np.int8)  # an eighth of the memory

    def rank_piece(i: int) -> tuple[list[np.ndarray], list[str]]:
        first, last = both.pieces[i]
        judgements, bounds, docs, scores = both.find(first, last)
        order, scores = _order(docs, scores, bounds, as_float32)
        query, row, judgement, counts, ends = arrange(both, first, order, bounds, judgements)
        grade, is_unjudged = grades[judgement], judgement < 0
        score = np.append(scores, scores.dtype.type(0))[row]
        shown = np.minimum(counts, depth)
        strings = _grade_strings(ends, shown, grade, is_unjudged)
        arrays = [query, score, row < 0, grade, is_unjudged]
        return arrays, [strings[q] for q in np.flatnonzero(both.wanted[first:last])]

    arrays, strings = zip(*in_threads(rank_piece, len(both.pieces)), strict=True)
    query, score, unranked, grade, unjudged = map(np.concatenate, zip(*arrays, strict=True))
    columns = [
        arrow_column(query),
        column_with_nulls(score, unranked),
        column_with_nulls(grade, unjudged),
    ]
    texts = both.texts.to_pylist()
    return RankedQueries(
        # One batch: the engine copies rows of several.
        pa.Table.from_arrays(columns, names=["query", "score", "grade"]),
        [texts[i] for i in both.queries[both.wanted]],
        both.answered[both.wanted],
        list(chain.from_iterable(strings)),
    )


def _order(
    docs: pa.Array, scores: np.ndarray, bounds: np.ndarray, as_float32: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Order documents, best first; return rows and the compared scores."""
    if as_float32:
        with np.errstate(over="ignore"):
            scores = frozen(scores.astype(np.float32))
    in_order = descends(scores, bounds)
    order = order_by_item(scores, bounds, lambda rows: take_texts(docs, rows), in_order)
    return order.astype(np.int64, copy=False), scores


def cut_run(
    run: PairTable, judged: PairTable, *, as_float32: bool, most: int | None, judged_only: bool
) -> PairTable:
    """Leave out documents of a run; it keeps queries without a document.

    Parameters
    ----------
    run, judged : PairTable
    as_float32 : bool
        As in `rank_documents`, whose order counts.
    most : int or None
        The largest number of documents of each query.
    judged_only : bool
        Then leave out documents that are unjudged, or have a negative grade: for trec_eval such a
        document is in the pool, but unjudged.
    """
    if most is None and not judged_only:
        return run
    both = Common(run, judged)
    is_left_out = np.append(both.negative, True)  # the last is that of row -1

    def keep(i: int) -> np.ndarray:
        judgements, bounds, docs, scores = both.find(*both.run.pieces[i])
        kept = np.ones(len(docs), np.bool_)
        if most is not None:
            ranks = np.arange(len(docs)) - np.repeat(bounds[:-1], np.diff(bounds))
            kept[_order(docs, scores, bounds, as_float32)[0]] = ranks < most
        return kept & ~is_left_out[judgements] if judged_only else kept

    pieces = in_threads(keep, len(both.run.pieces))
    return both.run.keep(np.concatenate([np.empty(0, np.bool_), *pieces]))


def _grade_strings(
    starts: np.ndarray, shown: np.ndarray, grade: np.ndarray, is_unjudged: np.ndarray
) -> list[str]:
    ends = np.cumsum(shown)
    rows = np.arange(int(shown.sum())) + np.repeat(starts - ends + shown, shown)
    pairs = zip(grade[rows].tolist(), is_unjudged[rows].tolist(), strict=True)
    text = "".join("-" if null else _grade_character(grade) for grade, null in pairs)
    return [
        text[end - length : end] for end, length in zip(ends.tolist(), shown.tolist(), strict=True)
    ]


def _grade_character(grade: float) -> str:
    if grade < 0:  # in the pool, but unjudged
        return "."
    return ">" if grade > 9 else str(int(grade))


def arrange(
    both: Common,
    first: int,
    order: np.ndarray,
    bounds: np.ndarray,
    judgements: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Arrange the pairs of some queries: ranked ones, then others judged.

    Parameters
    ----------
    both : Common
    first : int
        The first query of the range.
    order : ndarray of int64, shape (rows,)
        The retrieved documents by query, best first.
    bounds, judgements : ndarray
        Of `Common.find`.

    Returns
    -------
    numbers : ndarray of int32, shape (pairs,)
        Number of the query.
    rows : ndarray of int64, shape (pairs,)
        Row of the document in the range, -1 if it is not ranked.
    judgements : ndarray of int64, shape (pairs,)
        Row of the judgement, -1 if there is none.
    counts, starts : ndarray of int64, shape (queries,)
        Number of ranked documents of each query, and its first pair.
    """
    last = first + len(bounds) - 1
    firsts, ends = frozen(both.firsts[first:last]), frozen(both.ends[first:last])
    judged = ends - firsts
    size = len(order) + int(judged.sum())
    queries, rows, judgement_rows = (
        np.empty(size, kind) for kind in (np.int32, np.int64, np.int64)
    )
    counts, starts = np.empty((2, len(judged)), np.int64)
    pairs = _arrange(
        frozen(order),
        bounds,
        frozen(judgements),
        firsts,
        ends,
        both.numbers[first:last],
        np.empty(int(judged.max(initial=0)), np.bool_),
        queries,
        rows,
        judgement_rows,
        counts,
        starts,
    )
    return queries[:pairs], rows[:pairs], judgement_rows[:pairs], counts, starts


@kernel
def _arrange(  # type: ignore[no-untyped-def]
    order, bounds, judgements, firsts, ends, numbers,
    seen, queries, rows, judgement_rows, counts, starts,
):  # fmt: skip
    """Arrange the pairs of each query: ranked ones, then others judged."""
    k = np.int64(0)
    for q in range(counts.shape[0]):
        counts[q] = 0
        starts[q] = k
        if numbers[q] < 0:
            continue
        first = firsts[q]
        for i in range(ends[q] - first):
            seen[i] = False
        for i in range(bounds[q], bounds[q + 1]):
            judgement = judgements[order[i]]
            if judgement >= 0:
                seen[judgement - first] = True
            queries[k] = numbers[q]
            rows[k] = order[i]
            judgement_rows[k] = judgement
            k += 1
        counts[q] = k - starts[q]
        for judgement in range(first, ends[q]):
            if not seen[judgement - first]:
                queries[k] = numbers[q]
                rows[k] = -1
                judgement_rows[k] = judgement
                k += 1
    return k
