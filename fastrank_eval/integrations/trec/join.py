"""Join a run with its judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import arrow_column, column_with_nulls, frozen
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.jit import kernel
from fastrank_eval.integrations.trec.pairs import Keyed, in_threads, joined_chunks, places_among
from fastrank_eval.integrations.trec.tables import is_nested, keyed_qrels, keyed_run

__all__ = ["Joined", "Matched", "join", "match"]


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


#: Rows of a batch of the result.
_BATCH = 1 << 20


@dataclass(frozen=True)
class Joined:
    """A run, or several, joined with judgements.

    Attributes
    ----------
    table : pyarrow.Table
        One row a pair: ``query`` and ``doc``, string; the columns `scores`, float64, null where
        that run did not retrieve the document; ``grade``, int64 or float64, null where nobody
        judged it; ``subtopics``, list of int64, where the judgements tell them.
    scores : tuple of str
        One column a run.
    queries : int
        Queries of the table.
    only_in_run : int
        Queries that a run has and nobody judged: left out.
    only_in_qrels : int
        Judged queries that no run has: left out, or kept without a score if complete.
    unanswered : dict of str to int
        For each column of scores, the queries of the table for which that run has nothing.
    """

    table: pa.Table
    scores: tuple[str, ...]
    queries: int
    only_in_run: int
    only_in_qrels: int
    unanswered: dict[str, int]


@typed
def join(run: object, qrels: object, *, complete: bool = False) -> Joined:
    """Join runs with judgements by query and document, compared exactly.

    All judged documents of a query are kept, also those that were never retrieved: relevant ones
    count in R and in the ideal ranking, others in measures that compare with judged non-relevant
    documents. The table goes straight into
    ``evaluate(table, group="query", item="doc", label="grade", score="score",
    unretrieved="allow", unjudged="allow")``.

    Parameters
    ----------
    run : object
        What `read_run` takes; or a mapping of names to such, which gives a column of scores each.
        A query that only some of several runs have counts for all of them: without a score where
        a run lacks it.
    qrels : object
        What `read_qrels` takes; or what `read_diversity_qrels` returns, whose column
        ``subtopics`` is kept.
    complete : bool
        Keep judged queries that no run has, as trec_eval's ``-c`` does.

    Returns
    -------
    Joined
        Queries in the order in which the runs first name them, then those only judged, in the
        order of the judgements. In a query: the documents in the order of the run (those that
        only a later run has after them), then judged ones that were not retrieved, in the order
        of the judgements.

    Raises
    ------
    SourceError, ColumnError
        As `read_run` and `read_qrels` do.
    ArgumentError
        If no run is given, or a run's name is ``query``, ``doc``, ``grade`` or ``subtopics``.

    References
    ----------
    trec_eval 10, https://github.com/usnistgov/trec_eval

    Examples
    --------
    >>> found = join({"q1": {"d7": 2.5, "d3": 1.5}}, {"q1": {"d3": 1, "d5": 1}})
    >>> found.table.to_pydict()["score"], found.table.to_pydict()["grade"]
    ([2.5, 1.5, None], [None, 1, 1])
    """
    runs = _named(run)
    judged = keyed_qrels(qrels)
    rows, scores = _united([keyed_run(source) for source in runs.values()])
    matched = match(rows, judged, complete)
    columns, unanswered = {}, {}
    for name, (score, lacking) in zip(runs, scores, strict=True):
        answered = np.zeros(len(matched.wanted), np.bool_)
        answered[rows.codes[~lacking]] = True
        unanswered[name] = int((matched.wanted & ~answered).sum())
        columns[name] = (
            np.append(score, np.zeros(judged.rows)),
            np.append(lacking, np.ones(judged.rows, np.bool_)),
        )
    docs = joined_chunks([*rows.docs.chunks, *judged.docs.chunks])
    table = _table(matched, docs, columns, judged)
    return Joined(
        table,
        tuple(runs),
        int(matched.wanted.sum()),
        matched.only_in_run,
        matched.only_in_qrels,
        unanswered,
    )


def _united(runs: Sequence[Keyed]) -> tuple[Keyed, list[tuple[np.ndarray, np.ndarray]]]:
    """Each pair that a run has, once; the score in each run, and where it has none."""
    union = runs[0]
    if len(runs) == 1:
        return union, [(union.numbers, np.zeros(union.rows, np.bool_))]
    places = [np.arange(union.rows)]
    for run in runs[1:]:
        at = run.found_in(union)
        new = np.flatnonzero(at < 0)
        at[new] = union.rows + np.arange(len(new))
        places.append(at)
        both = [rows.table.select(["query", "doc", "score"]) for rows in (union, run)]
        union = Keyed(pa.concat_tables([both[0], both[1].take(arrow_column(new))]), "score")
    scores = []
    for run, at in zip(runs, places, strict=True):
        score, lacking = np.zeros(union.rows), np.ones(union.rows, np.bool_)
        score[at], lacking[at] = run.numbers, False
        scores.append((score, lacking))
    return union, scores


def _named(run: object) -> dict[str, object]:
    """Each run by the name of its column."""
    columns = isinstance(run, Mapping) and {"query", "doc", "score"} <= run.keys()
    if not isinstance(run, Mapping) or columns or _is_one(run):
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


def _is_one(run: Mapping[Any, Any]) -> bool:
    """Whether dicts of dicts are one run: their innermost values are scores, not documents."""
    inner = [value for value in run.values() if value]
    return bool(run) and is_nested(run) and not (inner and all(map(is_nested, inner)))


def _table(
    matched: Matched,
    docs: pa.Array,
    scores: Mapping[str, tuple[np.ndarray, np.ndarray]],
    judged: Keyed,
) -> pa.Table:
    """Pairs in their order, a batch at a time: none of their columns is held twice.

    Parameters
    ----------
    matched : Matched
    docs : pyarrow.Array
    scores : mapping of str to tuple of ndarray
        Each row's score, and whether it has none.
    judged : Keyed
        Whose lists of subtopics, if it has any, become a column.
    """
    order = matched.order
    grades = judged.numbers
    grades = np.append(grades, grades.dtype.type(0))
    kinds = {name: pa.float64() for name in scores}
    kinds["grade"] = pa.from_numpy_dtype(grades.dtype)
    covers = None
    if "subtopics" in judged.encoded.column_names:
        covers = judged.encoded["subtopics"].combine_chunks()
        kinds["subtopics"] = covers.type
    schema = pa.schema({"query": pa.string(), "doc": pa.string(), **kinds})

    def batch(i: int) -> pa.RecordBatch:
        rows = order[i * _BATCH : (i + 1) * _BATCH]
        at = matched.judgements(rows)
        arrays = [
            matched.queries.take(arrow_column(matched.code[rows])),
            docs.take(arrow_column(rows)).cast(pa.string()),
            *(column_with_nulls(score[rows], lacking[rows]) for score, lacking in scores.values()),
            column_with_nulls(grades[at], at < 0),
        ]
        if covers is not None:
            arrays.append(covers.take(column_with_nulls(at, at < 0)))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.Table.from_batches(in_threads(batch, -(-len(order) // _BATCH)), schema)
