"""Join a run with its judgements, and rank the documents of each query."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import shown, typed
from fastrank_eval._lib.arrow import arrow_column, column_with_nulls
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.integrations.trec.columns import LISTS, SWAPPED_RUN, columns_of, known_names
from fastrank_eval.integrations.trec.dicts import (
    NOTHING,
    are_swapped,
    is_one_run,
    sign_of_swapping,
)
from fastrank_eval.integrations.trec.lines import QRELS, RUN, FileColumns
from fastrank_eval.integrations.trec.nested import are_paths, is_ranked, is_row
from fastrank_eval.integrations.trec.pairs import (
    Common,
    Cuts,
    PairTable,
)
from fastrank_eval.integrations.trec.tables import DUPLICATES_OPTION, read_pairs
from fastrank_eval.io.source import type_name
from fastrank_eval.measures.judged import ANYWHERE

#: What to do about a pair that is there twice, and about runs that are no mapping.
_READ = "pass what {}(..., duplicates='first') returns."
_SEVERAL = "For several runs pass {'bm25': ..., 'ours': ...}."
#: Rows of a column of texts.
_PIECE = 1 << 22


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
        A run has a query whose dict or list of documents is empty.
    unanswered : dict of str to int
        For each column of scores, the number of queries of the table without a document of the run.
    lacking : dict of str to int
        The number of these that the run does not even have as an empty dict or list.
    notes : tuple of str
        What was read but may be meant otherwise, and which documents are left out.
    judged_documents : dict of str to int
        For each column of scores with a document, the number of its judged documents.
    largest_grade : int, float or None
        The largest grade of the table, None if there is none.
    answered : ndarray of bool, shape (rows,)
        Whether a run has the query of the row, even without a document.
    """

    table: pa.Table
    scores: tuple[str, ...]
    queries: int
    only_in_run: int
    only_in_qrels: int
    unanswered: dict[str, int]
    lacking: dict[str, int]
    notes: tuple[str, ...] = ()
    judged_documents: dict[str, int] = field(default_factory=dict)
    largest_grade: float | None = None
    answered: np.ndarray | None = field(default=None, compare=False)


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
        each, as in `evaluate`. If only some of several runs have a query, the others have null
        scores in it.
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
    return join_runs(*read_runs(qrels, run, names), complete, Cuts())


def read_runs(
    qrels: object, run: object, names: Mapping[str, str | None]
) -> tuple[PairTable, dict[str, PairTable]]:
    """Read judgements, and runs by the names of their columns of scores."""
    runs = name_runs(run, {name: names[name] for name in ("query", "doc", "score")})
    remedies = _READ.format("read_qrels"), f"{_READ.format('read_run')} {_SEVERAL}"
    judged, read = read_both(qrels, list(runs.values()), names, "error", remedies)
    return judged, dict(zip(runs, read, strict=True))


def join_runs(
    judged: PairTable,
    runs: Mapping[str, PairTable],
    complete: bool,
    cuts: Cuts,
    *,
    as_float32: bool = False,
    anywhere: bool = False,
) -> Joined:
    """Join as `join` does, without the documents that `cuts` leave out.

    `anywhere` adds the column `ANYWHERE`, grades of documents that are judged for any query.
    """
    read = [*runs.values()]
    both = Common(read, judged, complete)
    asked = np.logical_or.reduce([both.have(i) for i in range(len(read))])
    notes, unanswered, lacking = [*reading_notes(judged, read)], {}, {}
    for i, name in enumerate(runs):
        counts = both.cut(i, cuts, as_float32=as_float32)
        notes += cuts.note(name if len(runs) > 1 else "the run", *counts)
        unanswered[name] = int((both.wanted & ~both.have(i)).sum())
        lacking[name] = int((both.wanted & both.lacking[i]).sum())
    keep = both.wanted[both.query] & np.logical_or.reduce([rows >= 0 for rows in both.rows])
    pairs = np.flatnonzero(keep)
    table = _table(both, runs, pairs)
    if anywhere:
        table = table.append_column(ANYWHERE, both.judged_anywhere(pairs))
    (grades, is_unjudged), judged_documents = both.values(-1), {}
    for i, name in enumerate(runs):
        is_retrieved = both.rows[i][pairs] >= 0
        if is_retrieved.any():
            judged_documents[name] = int(np.count_nonzero(is_retrieved & ~is_unjudged[pairs]))
    known = grades[pairs][~is_unjudged[pairs]]
    return Joined(
        table,
        tuple(runs),
        int(both.wanted.sum()),
        int((asked & ~both.is_judged).sum()),
        int((both.is_judged & ~both.answered).sum()),
        unanswered,
        lacking,
        tuple(notes),
        judged_documents,
        known.max().item() if len(known) else None,
        both.answered[both.query[pairs]],
    )


def read_both(
    qrels: object,
    runs: Sequence[object],
    names: Mapping[str, str | None],
    duplicates: str,
    remedies: tuple[str, str] = (DUPLICATES_OPTION, DUPLICATES_OPTION),
) -> tuple[PairTable, list[PairTable]]:
    """Read judgements and runs; refuse what is clearly swapped."""
    of_qrels, of_run = (
        {name: names[name] for name in ("query", "doc", number)} for number in ("grade", "score")
    )
    if not _are_runs(qrels, of_qrels):
        judged = read_pairs(qrels, QRELS, duplicates, of_qrels, remedy=remedies[0])
        asked = judged.dicts.by_query if judged.dicts else NOTHING
        read = [
            read_pairs(run, RUN, duplicates, of_run, remedy=remedies[1], asked=asked)
            for run in runs
        ]
        if not are_swapped(judged, read):
            return judged, read
    raise ArgumentError(
        "qrels: must be grades of documents by query, got scores of runs, or judgements by name; "
        "pass one set of judgements first and the runs second. If these are grades, pass "
        "read_qrels(qrels)."
    )


def _are_runs(qrels: object, names: Mapping[str, str | None]) -> bool:
    """Return whether judgements have the form of a mapping of names to runs."""
    if not isinstance(qrels, Mapping) or not qrels or _has_columns(qrels, QRELS, names):
        return False
    are_sources = all(isinstance(one, Mapping | str | os.PathLike) for one in qrels.values())
    return are_sources and not is_one_run(qrels)


def reading_notes(judged: PairTable, runs: Sequence[PairTable]) -> tuple[str, ...]:
    """Note comments that may be rows, and dicts that may be swapped."""
    notes = [*dict.fromkeys(note for table in runs for note in table.notes)]
    comments = sum(table.comments for table in [judged, *runs])
    if comments:
        lines = "1 line begins" if comments == 1 else f"{comments:,} lines begin"
        notes.append(
            f"{lines} with # and {'has' if comments == 1 else 'have'} the fields of a row: read as "
            "comments, as by trec_eval 10; if # begins an id of a query, write another id"
        )
    sign = sign_of_swapping(judged, runs)
    if sign:
        notes.append(f"{sign}; if they are swapped, pass the judgements first and the runs second")
    return tuple(notes)


def no_common_query(judged: int, retrieved: int, *, are_lists: bool = False) -> ArgumentError:
    """Make the error for runs and judgements that share no query.

    Parameters
    ----------
    judged, retrieved : int
        Number of queries of the judgements, and of the runs.
    are_lists : bool
        Whether the runs were lists of documents, which are files if there are files of these names.
    """
    if not judged:
        return ArgumentError("qrels: must have judgements, got none; check that it is not empty.")
    if not retrieved:
        return ArgumentError("run: must have documents, got none; check that it is not empty.")
    files = " Lists of paths are runs only if all files are there." if are_lists else ""
    return ArgumentError(
        "run: must have a judged query, got none; check that run and judgements name queries alike."
        f"{files}"
    )


def name_runs(run: object, names: Mapping[str, str | None]) -> dict[str, object]:
    """Name the column of each run."""
    parts = run if isinstance(run, list | tuple) else []
    known = known_names(RUN, names)
    if parts and is_row(parts[0], known):
        return {"score": run}
    if not all(isinstance(part, str | os.PathLike) for part in parts):
        kinds = ", ".join(dict.fromkeys(map(type_name, parts)))
        raise ArgumentError(
            f"run: must be one run or a mapping of names to runs, got a list of {kinds}. {_SEVERAL}"
        )
    if not isinstance(run, Mapping) or _has_columns(run, RUN, names) or is_one_run(run):
        return {"score": run}
    if is_ranked(run, known):
        parts = [next(iter(part), None) for part in run.values()]
        if not any(is_row(part, known) for part in parts) and not are_paths(run):
            return {"score": run}
    if _has_columns(run, QRELS, names):
        raise ArgumentError(f"run: must have a column of scores, got {list(run)}; {SWAPPED_RUN}")
    if not run:
        raise ArgumentError(
            "run: must be one run or a mapping of names to runs, got {}; pass {'bm25': ...}, for "
            "instance."
        )
    for name in run:
        if not isinstance(name, str) or name in ("query", "doc", "grade", "subtopics", ANYWHERE):
            raise ArgumentError(
                "run: must have names that are text and none of 'query', 'doc', 'grade', "
                f"'subtopics', {ANYWHERE!r}, which are other columns, got {shown(name)}; rename it."
            )
    return dict(run)


def _has_columns(
    table: Mapping[Any, Any], file_columns: FileColumns, names: Mapping[str, str | None]
) -> bool:
    """Return whether a mapping is a table with the columns of a layout."""
    # What has the name of a list is one, or is refused when it is read.
    columns, number = columns_of(table, file_columns, names, table), file_columns.number
    if columns["query"] not in table or columns["doc"] not in table:
        return False
    # Lists of documents need no number.
    is_listed = columns["doc"] in LISTS[number] or names.get("doc") is not None
    return is_listed or columns[number] in table


def _table(both: Common, names: Iterable[str], pairs: np.ndarray) -> pa.Table:
    """Build the table of some pairs."""
    texts = [
        (
            both.queries.take(arrow_column(both.query[part])).cast(pa.string()),
            both.docs(part).cast(pa.string()),
        )
        for part in np.split(pairs, range(_PIECE, len(pairs), _PIECE))
    ]
    columns = dict(
        zip(("query", "doc"), map(pa.chunked_array, zip(*texts, strict=True)), strict=True)
    )
    for i, name in enumerate([*names, "grade"]):
        values, is_null = both.values(i)
        columns[name] = column_with_nulls(values[pairs], is_null[pairs])
    judged = both.tables[-1].rows
    if "subtopics" in judged.column_names:
        rows = both.rows[-1][pairs]
        subtopics = judged["subtopics"].combine_chunks()
        columns["subtopics"] = subtopics.take(column_with_nulls(rows, rows < 0))
    return pa.table(columns)


@dataclass(frozen=True)
class RankedQueries:
    """Rows by query: retrieved documents, best first, then other judged ones.

    Parameters
    ----------
    table : pyarrow.Table
        Columns query (its index), score (null if not retrieved) and grade (null if unjudged); maybe
        `ANYWHERE`.
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
    anywhere: bool = False,
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
    anywhere : bool
        Add the column `ANYWHERE`, as `join_runs` does.
    """
    ranked, scores, bounds = both.ranked(0, as_float32)
    grades, is_unjudged = both.values(1)
    if grades.dtype == np.int64 and grades.min() >= -128 and grades.max() <= 127:
        grades = grades.astype(np.int8)  # an eighth of the memory
    others = np.flatnonzero((both.rows[0] < 0) & ~is_unjudged)
    after = np.repeat(bounds[1:], np.diff(np.searchsorted(others, both.starts)))
    order, scores = np.insert(ranked, after, others), np.insert(scores, after, 0)
    is_unranked = np.insert(np.zeros(len(ranked), np.bool_), after, True)
    query = both.query[order]
    if not both.wanted.all():
        kept = both.wanted[query]
        order, scores, is_unranked, query = (a[kept] for a in (order, scores, is_unranked, query))
        query = (np.cumsum(both.wanted) - 1).astype(np.int32)[query]
    columns = [
        arrow_column(query),
        column_with_nulls(scores, is_unranked),
        column_with_nulls(grades[order], is_unjudged[order]),
    ]
    names = ["query", "score", "grade"]
    if anywhere:
        columns, names = [*columns, both.judged_anywhere(order)], [*names, ANYWHERE]
    shown = np.minimum(np.diff(bounds)[both.wanted], depth)
    starts = np.searchsorted(query, np.arange(len(shown)))
    texts = both.queries.to_pylist()
    return RankedQueries(
        # One batch: the engine copies rows of several.
        pa.Table.from_arrays(columns, names=names),
        [texts[i] for i in np.flatnonzero(both.wanted)],
        both.answered[both.wanted],
        _grade_strings(starts, shown, grades[order], is_unjudged[order]),
    )


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
