"""Read judgements by subtopic."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import arrow_column, as_array
from fastrank_eval._lib.errors import ArgumentError, SourceError
from fastrank_eval.integrations.trec.dicts import is_nested
from fastrank_eval.integrations.trec.lines import DIVERSITY_QRELS
from fastrank_eval.integrations.trec.tables import SUBTOPICS, read_rows
from fastrank_eval.io.keys import encode_keys
from fastrank_eval.io.subtopics import MAX_SUBTOPICS


@typed
def read_diversity_qrels(
    source: object,
    *,
    query: str | None = None,
    subtopic: str | None = None,
    doc: str | None = None,
    grade: str | None = None,
    rel: float = 1,
    format: str | None = None,  # noqa: A002 - the name of this option everywhere
) -> pa.Table:
    r"""Read judgements by subtopic in the format of ndeval.

    Sources are TREC files or columns. A line is ``qid subtopic docno rel``. If all subtopics are
    whole numbers below 64, they keep their numbers. Otherwise (texts, or greater numbers) subtopics
    are numbered from 0 in each query, in the order of the lines. Pass the table to `join`, and its
    result to ``evaluate(..., label="grade", subtopics="subtopics")``.

    Parameters
    ----------
    source : object
        As in `read_run`, but not dicts.
    query, subtopic, doc, grade : str, optional
        Names of the columns of a source with columns. By default those of `read_qrels`, and
        ``subtopic`` or ``iteration``.
    rel : float
        Least grade of a document that covers a subtopic.
    format : str, optional
        As in `read_run`.

    Returns
    -------
    pyarrow.Table
        One row for each judged document of a query, in the order of first appearance: ``query`` and
        ``doc``, string; ``grade``, int64 or float64, the greatest grade of its subtopics;
        ``subtopics``, list of int64, ascending, the subtopics that it covers. A repeated judgement
        counts once; the greater grade wins.

    Raises
    ------
    SourceError, ColumnError, ArgumentError
        As `read_qrels` does; also if documents of a query cover more than 64 subtopics.

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
    rows = read_rows(source, DIVERSITY_QRELS, names, format)[0].table
    pair, first = encode_keys([rows[name].combine_chunks() for name in ("query", "doc")])
    grades = as_array(rows["grade"].combine_chunks())
    best = np.full(len(first), grades.min(initial=0))
    np.maximum.at(best, pair, grades)

    covering = np.flatnonzero(grades >= rel)
    covering_rows = rows.take(arrow_column(covering))
    covered = np.unique(pair[covering] * MAX_SUBTOPICS + _subtopic_numbers(covering_rows))
    ends = np.searchsorted(covered, np.arange(len(first) + 1) * MAX_SUBTOPICS).astype(np.int32)
    lists = pa.ListArray.from_arrays(arrow_column(ends), arrow_column(covered % MAX_SUBTOPICS))
    judged = rows.select(["query", "doc"]).take(arrow_column(first))
    judged = judged.append_column("grade", arrow_column(best))
    return judged.append_column("subtopics", lists.cast(SUBTOPICS))


def _subtopic_numbers(rows: pa.Table) -> np.ndarray:
    """Number the subtopics of rows from 0 to 63."""
    subtopic, query = (
        rows[name].combine_chunks().dictionary_encode() for name in ("subtopic", "query")
    )
    texts = subtopic.dictionary.to_pylist()
    text_of_row = as_array(subtopic.indices).astype(np.int64)
    if all(text.isascii() and text.isdigit() and int(text) < MAX_SUBTOPICS for text in texts):
        return np.array([int(text) for text in texts], np.int64)[text_of_row]
    queries = as_array(query.indices).astype(np.int64)
    pair, first = encode_keys([query.indices, subtopic.indices])
    order = np.lexsort((first, queries[first]))
    starts = np.searchsorted(queries[first][order], queries[first][order])
    number = np.empty(len(first), np.int64)
    number[order] = np.arange(len(first)) - starts
    if number.max(initial=0) >= MAX_SUBTOPICS:
        index = int(queries[first[int(number.argmax())]])
        raise SourceError(
            f"Query {query.dictionary[index].as_py()!r} has {int(number.max()) + 1} subtopics or "
            f"more that a document covers; {MAX_SUBTOPICS} are the most."
        )
    return number[pair]
