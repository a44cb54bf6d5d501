"""read_diversity_qrels(): judgements of documents by subtopic, to one row a document."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import arrow_column, as_array
from fastrank_eval._lib.errors import ArgumentError, SourceError
from fastrank_eval.integrations.trec.lines import DIVERSITY_QRELS
from fastrank_eval.integrations.trec.pairs import numbered
from fastrank_eval.integrations.trec.tables import SUBTOPICS, is_nested, rows_of
from fastrank_eval.io.subtopics import MOST

__all__ = ["read_diversity_qrels"]


@typed
def read_diversity_qrels(
    source: object,
    *,
    query: str = "query",
    subtopic: str = "subtopic",
    doc: str = "doc",
    grade: str = "grade",
    rel: float = 1,
    format: str | None = None,  # noqa: A002 - what the option is called everywhere
) -> pa.Table:
    r"""Read judgements by subtopic, as ndeval reads them: TREC files, or columns.

    A line is ``qid subtopic docno rel``. Subtopics that are all whole numbers below 64 keep their
    numbers; others (texts, or greater numbers) are numbered from 0 within each query, in the order
    of the lines. The table goes to `join` as it is, and what that returns to
    ``evaluate(..., label="grade", subtopics="subtopics")``.

    Parameters
    ----------
    source : object
        As in `read_run`, but no dicts.
    query, subtopic, doc, grade : str
        Columns of a source that has columns.
    rel : float
        The least grade that says that a document covers a subtopic.
    format : str, optional
        As in `read_run`.

    Returns
    -------
    pyarrow.Table
        One row a judged document of a query, in the order of first appearance: ``query`` and
        ``doc``, string; ``grade``, int64 or float64, the greatest of its subtopics;
        ``subtopics``, list of int64, ascending, those that it covers. A judgement that stands
        twice counts once, the greater of two that differ.

    Raises
    ------
    SourceError, ColumnError, ArgumentError
        As `read_qrels` does; documents of a query that cover more than 64 subtopics are an error.

    References
    ----------
    Clarke et al. (2009), Overview of the TREC 2009 Web Track

    Examples
    --------
    >>> table = read_diversity_qrels(b"q1 0 d3 1\nq1 2 d3 1\nq1 1 d5 0\n")
    >>> table["doc"].to_pylist(), table["subtopics"].to_pylist()
    (['d3', 'd5'], [[0, 2], []])
    """
    if isinstance(source, Mapping) and is_nested(source):
        raise ArgumentError(
            "judgements by subtopic are no dicts of dicts: pass columns query, subtopic, doc and "
            "grade, as {'query': [...], ...}."
        )
    names = {"query": query, "subtopic": subtopic, "doc": doc, "grade": grade}
    rows = rows_of(source, DIVERSITY_QRELS, names, format)
    _, first, pair = np.unique(numbered(rows), return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(first), np.int64)
    place[order] = np.arange(len(first))
    pair = place[pair]  # numbered in order of first appearance
    grades = as_array(rows["grade"].combine_chunks())
    best = np.full(len(first), grades.min(initial=0))
    np.maximum.at(best, pair, grades)

    covering = np.flatnonzero(grades >= rel)
    taken = rows.take(arrow_column(covering))
    found = np.unique(pair[covering] * MOST + _subtopic_numbers(taken))
    ends = np.searchsorted(found, np.arange(len(first) + 1) * MOST).astype(np.int32)
    lists = pa.ListArray.from_arrays(arrow_column(ends), arrow_column(found % MOST))
    judged = rows.select(["query", "doc"]).take(arrow_column(first[order]))
    judged = judged.append_column("grade", arrow_column(best))
    return judged.append_column("subtopics", lists.cast(SUBTOPICS))


def _subtopic_numbers(rows: pa.Table) -> np.ndarray:
    """The number of each row's subtopic, from 0 to 63."""
    subtopic, query = (rows[name].combine_chunks().dictionary_encode() for name in _BOTH)
    texts = subtopic.dictionary.to_pylist()
    of_row = as_array(subtopic.indices).astype(np.int64)
    if all(text.isascii() and text.isdigit() and int(text) < MOST for text in texts):
        return np.array([int(text) for text in texts], np.int64)[of_row]
    queries = as_array(query.indices).astype(np.int64)
    _, first, pair = np.unique(
        queries * max(len(texts), 1) + of_row, return_index=True, return_inverse=True
    )
    order = np.lexsort((first, queries[first]))
    starts = np.searchsorted(queries[first][order], queries[first][order])
    number = np.empty(len(first), np.int64)
    number[order] = np.arange(len(first)) - starts
    if number.max(initial=0) >= MOST:
        at = int(queries[first[int(number.argmax())]])
        raise SourceError(
            f"Query {query.dictionary[at].as_py()!r} has {int(number.max()) + 1} subtopics or more "
            f"that a document covers; {MOST} are the most."
        )
    return number[pair]


_BOTH = ("subtopic", "query")
