"""Read runs and judgements from dicts, and tell these apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, bytes_column
from fastrank_eval._lib.errors import SourceError
from fastrank_eval.integrations.trec.lines import FileColumns, not_allowed
from fastrank_eval.io.source import type_name

_BATCH_ROWS = 1 << 20
#: Shares of documents with the number of another document of their query, in scores and in grades,
#: and the largest usual grade: by these swapped dicts are recognised.
_FEW_TIES, _MANY_TIES, _LARGEST_GRADE = 0.2, 0.5, 20
#: Documents of a query whose grades usually tie.
_LONG = 5


def is_nested(source: object) -> bool:
    """Return whether this is a mapping of mappings, the form of pytrec_eval."""
    return isinstance(source, Mapping) and all(isinstance(v, Mapping) for v in source.values())


def is_one_run(run: Mapping[Any, Any]) -> bool:
    """Return whether dicts of dicts are one run, with scores inside."""
    if not run or not is_nested(run):
        return False
    queries = [docs for docs in run.values() if docs]
    return not (queries and all(map(is_nested, queries)))


def empty_queries(source: object) -> list[str]:
    """List the queries of nested mappings that have no document."""
    if not (isinstance(source, Mapping) and is_nested(source)):
        return []
    return [_id_bytes(query, "query").decode() for query, docs in source.items() if not docs]


def batches_of_mapping(
    source: Mapping[Any, Any], file_columns: FileColumns
) -> Iterator[pa.RecordBatch]:
    """Yield the pairs of ``{query: {doc: number}}``, in its order.

    Raises
    ------
    SourceError
        If a key is neither text nor an integer, or a value is not a number, is NaN, or is an
        infinite grade.
    """
    pairs = (
        (_id_bytes(query, "query"), _id_bytes(doc, "document"), value)
        for query, docs in source.items()
        for doc, value in docs.items()
    )
    while pairs_of_batch := list(islice(pairs, _BATCH_ROWS)):
        queries, docs, values = zip(*pairs_of_batch, strict=True)
        columns = [bytes_column(ids, pa.large_string()) for ids in (queries, docs)]
        numbers = _numbers_of_mapping(values, file_columns)
        if numbers is None:
            query, doc, value = next(
                row for row in pairs_of_batch if _numbers_of_mapping(row[2:], file_columns) is None
            )
            raise SourceError(
                f"Query {query.decode()!r}, document {doc.decode()!r}: the {file_columns.number} "
                f"{value!r} is no {'finite ' * (file_columns.number == 'grade')}number."
            )
        names = ["query", "doc", file_columns.number]
        yield pa.RecordBatch.from_arrays([*columns, arrow_column(numbers)], names=names)


def _id_bytes(key: object, what: str) -> bytes:
    if isinstance(key, str):
        try:
            return key.encode()
        except UnicodeEncodeError as error:
            raise SourceError(f"The {what} {key!r} is not valid text: {error}.") from error
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return str(key).encode()
    raise SourceError(f"The {what} {key!r} is {type_name(key)}: ids are text or integers.")


def _numbers_of_mapping(values: Sequence[Any], file_columns: FileColumns) -> np.ndarray | None:
    """Convert the numbers of a mapping, or None if one is not a number."""
    if not all(isinstance(value, int | float | np.number | np.bool_) for value in values):
        return None
    grades = file_columns.number == "grade"
    is_integer = grades and not any(isinstance(value, float | np.floating) for value in values)
    try:
        numbers = np.array(values, np.int64 if is_integer else np.float64)
    except (OverflowError, TypeError):
        return None
    return None if not_allowed(numbers, file_columns.number).any() else numbers


def has_scores(run: Mapping[Any, Mapping[Any, Any]]) -> bool:
    """Return whether numbers are fractions and rarely tie."""
    queries = _numbers_by_query(run)
    return not _are_whole(queries) and _share_of_ties(queries) <= _FEW_TIES


def has_grades(run: Mapping[Any, Mapping[Any, Any]]) -> bool:
    """Return whether numbers are whole and small, and mostly tie."""
    queries = _numbers_by_query(run)
    return _are_whole(queries, _LARGEST_GRADE) and _share_of_ties(queries) >= _MANY_TIES


def sign_of_swapping(judgements: object, runs: Sequence[object]) -> str:
    """Say why judgements and runs may be swapped; nothing if not.

    All scores are small and whole, and the grades are fractions or, in long lists, never tie where
    scores do. Such dicts may be right, so they are not refused.
    """
    every = [judgements, *runs]
    if not all(isinstance(one, Mapping) and is_nested(one) for one in every):
        return ""
    try:
        grades, *scores = (
            [np.array([*docs.values()], np.float64) for docs in one.values()]  # type: ignore[attr-defined]
            for one in every
        )
    except (TypeError, ValueError, OverflowError):
        return ""
    found = np.concatenate([*(docs for run in scores for docs in run), np.empty(0)])
    if not len(found) or not _are_whole([found], _LARGEST_GRADE):
        return ""
    if not _are_whole(grades):
        return "the grades are fractions and the scores small whole numbers"
    several = [[docs for docs in one if len(docs) > 1] for one in (grades, *scores)]
    is_ranked = max(map(len, grades), default=0) >= _LONG and _share_of_ties(several[0]) == 0
    is_graded = all(_share_of_ties(run) >= _MANY_TIES for run in several[1:])
    if is_ranked and is_graded and len(np.unique(found)) > 1:
        return "no two grades of a query are equal, and the scores are a few small whole numbers"
    return ""


def _numbers_by_query(source: Mapping[Any, Mapping[Any, Any]]) -> list[np.ndarray]:
    """Collect the numbers of each query with several documents.

    If a value is no number, there are none.
    """
    several = [list(docs.values()) for docs in source.values() if len(docs) > 1]
    try:
        return [np.array(values, np.float64) for values in several]
    except (TypeError, ValueError, OverflowError):
        return []


def _share_of_ties(queries: Sequence[np.ndarray]) -> float:
    """Return the share of documents that tie in their query, or NaN."""
    documents = sum(map(len, queries))
    if not documents:
        return np.nan
    counts = [np.unique(numbers, return_counts=True)[1] for numbers in queries]
    return sum(int(count[count > 1].sum()) for count in counts) / documents


def _are_whole(queries: Sequence[np.ndarray], most: float = np.inf) -> bool:
    """Return whether all numbers are whole, and none is larger."""
    return all(bool(((n == np.rint(n)) & (np.abs(n) <= most)).all()) for n in queries)
