"""Read runs and judgements from dicts, and recognise swapped ones."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, islice, repeat
from operator import countOf
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import shown
from fastrank_eval._lib.arrow import arrow_column
from fastrank_eval._lib.errors import SourceError
from fastrank_eval._lib.lexer import shorten
from fastrank_eval.integrations.trec.columns import BY_RANK, ELEMENTS
from fastrank_eval.integrations.trec.lines import RUN, FileColumns, not_allowed
from fastrank_eval.integrations.trec.nested import is_sized, part_of
from fastrank_eval.integrations.trec.pairs import (
    PairDicts,
    PairTable,
    id_column,
    lengths_of,
    look_up,
    pack,
    run_ends,
)
from fastrank_eval.io.source import type_name

#: Shares of documents with the number of another document of their query, in scores and in grades,
#: and the largest usual grade: by these swapped dicts are recognised.
_FEW_TIES, _MANY_TIES, LARGEST_GRADE = 0.2, 0.5, 20
#: Documents of a query whose grades usually tie.
_LONG = 5
#: Numbers that are looked at before all.
_FIRST = 64
#: What no id is.
_NESTED = (list, tuple, Mapping)
#: Documents by query.
Asked: TypeAlias = Mapping[str, Mapping[str, object]]
NOTHING: Asked = MappingProxyType({})


def is_nested(source: object) -> bool:
    """Return whether this is a mapping of mappings, the form of pytrec_eval."""
    if not isinstance(source, Mapping):
        return False
    return all(issubclass(kind, Mapping) for kind in {*map(type, source.values())})


def is_one_run(run: Mapping[Any, Any]) -> bool:
    """Return whether dicts of dicts are one run, with scores inside."""
    if not run or not is_nested(run):
        return False
    sizes = (is_sized(next(iter(docs.values()))) for docs in run.values() if docs)
    first = next(sizes, False)  # mostly a number, and then the others need not be looked at
    return not (first and all(sizes))


def read_mapping(
    source: Mapping[Any, Mapping[Any, Any]],
    file_columns: FileColumns,
    asked: Asked = NOTHING,
) -> PairTable:
    """Read the pairs of ``{query: {doc: number}}``, in its order.

    Documents that are asked for are looked up while those of their query are in the cache.

    Raises
    ------
    SourceError
        If a key is neither text nor an integer, or a value is not a number, is NaN, or is an
        infinite grade.
    """
    every = dict(zip(text_ids(source, "query"), source.values(), strict=True))
    # A mapping may have a truth of its own.
    by_query = {query: docs for query, docs in every.items() if len(docs)}
    kind, are_packed = "d" if file_columns is RUN else "q", True
    packed, found = list[bytes](), list[bytes]()
    numbers: np.ndarray | None
    for query, docs in by_query.items():
        if type(docs).get is not dict.get:  # it may look up documents in a way of its own
            by_query[query] = docs = dict(docs.items())
        if countOf(map(type, docs), str) < len(docs):
            ids = text_ids(docs, f"query {shorten(query, 100)!r}, document")
            by_query[query] = docs = dict(zip(ids, docs.values(), strict=True))
        try:
            packed.append(pack(docs.values(), kind))
            if query in asked:
                found.append(look_up(docs, asked[query]))
        except (TypeError, OverflowError, struct.error):  # a fraction, or no number
            are_packed = False
    if are_packed:
        numbers = np.frombuffer(b"".join(packed), kind)
    else:
        values = [*chain.from_iterable(docs.values() for docs in by_query.values())]
        numbers = _numbers_of_mapping(values, file_columns)
    if numbers is None or not_allowed(numbers, file_columns.number).any():
        rows = ((q, d, n) for q, docs in by_query.items() for d, n in docs.items())
        raise _no_number(rows, file_columns)
    empty = [query for query in every if query not in by_query]
    looked_up = b"".join(found) if asked else None
    dicts = PairDicts(by_query, lengths_of(by_query.values()), numbers, looked_up)
    return PairTable(dicts, file_columns.number, empty=empty)


def _no_number(rows: Iterable[tuple[Any, Any, Any]], file_columns: FileColumns) -> SourceError:
    """Make the error for the first row whose number is none."""
    query, doc, number = next(
        row for row in rows if _numbers_of_mapping([row[2]], file_columns) is None
    )
    return SourceError(
        f"Query {shorten(str(query), 100)!r}, document {shorten(str(doc), 100)!r}: the "
        f"{file_columns.number} {shown(number)} is no "
        f"{'finite ' * (file_columns.number == 'grade')}number."
    )


def text_ids(ids: Collection[object], what: str) -> list[str]:
    """Convert ids to texts: integers become their digits."""
    if {*map(type, ids)} <= {str}:
        return cast("list[str]", [*ids])
    texts = [*map(_id_text, ids, repeat(what))]
    if len({*texts}) < len(texts):
        twice = next(text for i, text in enumerate(texts) if text in texts[:i])
        raise SourceError(
            f"The {what} {shorten(twice, 100)!r} is there as text and as an integer: leave one of "
            "them out."
        )
    return texts


def _id_text(key: object, what: str) -> str:
    if type(key) is str:
        return key
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return str(key)
    raise SourceError(
        f"The {what} {shorten(repr(key), 100)} is {type_name(key)}: ids are text or integers."
    )


def _numbers_of_mapping(values: Sequence[Any], file_columns: FileColumns) -> np.ndarray | None:
    """Convert the numbers of a mapping, or None if one is not a number."""
    try:
        found = np.array(values)
    except (TypeError, ValueError):
        return None
    if found.ndim != 1 or found.dtype.kind not in ("biuf" if values else "f"):
        return None
    grades = file_columns.number == "grade"
    is_integer = grades and (found.dtype.kind != "f" or not values)
    numbers = found.astype(np.int64 if is_integer else np.float64, copy=False)
    if found.dtype.kind == "u" and is_integer and (numbers < 0).any():
        return None
    return None if not_allowed(numbers, file_columns.number).any() else numbers


def refuse_levels(source: Mapping[Any, Any], number: str, whole: str) -> None:
    """Raise for dicts of dicts of dicts; `whole` is as for `plain`."""
    path: list[Any] = []
    part: Any = source
    while isinstance(part, Mapping):
        filled = (key for key, value in part.items() if not isinstance(value, Mapping) or value)
        known = [*islice(filled, 1)]
        if not known:
            break
        path.append(known[0])
        part = part[known[0]]
    if len(path) > 2:
        raise SourceError(
            f"It has more levels of dicts than {{query: {{doc: {number}}}}}. Pass one part of it, "
            f"such as {part_of(whole, path[:-2])}."
        )


def read_ranked(source: Mapping[Any, Any], file_columns: FileColumns) -> PairTable:
    """Read ``{query: [doc, ...]}``: best first, or each relevant.

    Pairs of a document and its number, ``{query: [(doc, number), ...]}``, are read too.
    """
    number, is_run = file_columns.number, file_columns.number == "score"
    lists = {}
    for query, docs in source.items():
        if isinstance(docs, AbstractSet):
            if is_run:
                raise SourceError(
                    f"Query {shorten(repr(query), 100)} has a set of documents, which has no "
                    "order: pass a list, best first, or {doc: score}."
                )
            docs = sorted(docs, key=str)
        lists[query] = list(docs)
    lengths = np.fromiter(map(len, lists.values()), np.int64, len(lists))
    starts = np.cumsum(lengths) - lengths
    elements = [*chain.from_iterable(lists.values())]
    values: Sequence[Any] = ()
    if elements and all(map(_is_pair, elements)):
        elements, values = map(list, zip(*elements, strict=True))
    elif any(issubclass(kind, _NESTED) for kind in {*map(type, elements)}):
        rows = ((query, each) for query, docs in lists.items() for each in docs)
        query, pair = next(row for row in rows if isinstance(row[1], _NESTED))
        raise SourceError(
            f"Query {shorten(repr(query), 100)} has {shown(pair)} in its list: pass "
            f"{{query: {{doc: {number}}}}}. Lists have ids, or all of them pairs of an id and a "
            f"{number}, which are not both integers."
        )
    docs = id_column([*map(_id_text, elements, repeat("document"))], "document")
    texts = text_ids(lists, "query")
    queries = id_column(
        [query for query, size in zip(texts, lengths, strict=True) if size], "query"
    )
    empty = [query for query, size in zip(texts, lengths, strict=True) if not size]
    if values:
        found = _numbers_of_mapping(values, file_columns)
        if found is None:
            raise _no_number(((q, *e) for q, docs in lists.items() for e in docs), file_columns)
        numbers = found
    elif is_run:
        numbers = np.repeat(starts, lengths) - np.arange(len(docs)) - 1.0
    else:
        numbers = np.ones(len(docs), np.int64)
    columns = [run_ends(queries, starts[lengths > 0], len(docs)), docs, arrow_column(numbers)]
    table = pa.Table.from_arrays(columns, names=["query", "doc", number])
    pairs = PairTable(table, number, ELEMENTS, empty)
    if is_run and not values:
        pairs.notes = (BY_RANK,)
    return pairs


def _is_pair(element: Any) -> bool:
    """Return whether this is a document and a number, in clear order."""
    if not isinstance(element, list | tuple) or len(element) != 2:
        return False
    doc, number = element
    is_text = isinstance(doc, str) and not isinstance(number, str)
    return is_text or isinstance(number, float | np.floating)


def dicts_of(table: pa.Table, number: str) -> defaultdict[str, dict[str, float]]:
    """Make ``{query: {doc: number}}`` of the columns of pairs."""
    by_query: defaultdict[str, dict[str, float]] = defaultdict(dict)
    columns = (table[name].to_pylist() for name in ("query", "doc", number))
    for query, doc, value in zip(*columns, strict=True):
        by_query[query][doc] = value
    return by_query


def are_swapped(judgements: PairTable, runs: Sequence[PairTable]) -> bool:
    """Return whether judgements and runs of dicts are clearly swapped.

    Fractions that rarely tie are scores if the runs are dicts of small whole numbers that mostly
    tie. One of both signs is not enough: grades may be fractions, and scores whole numbers.
    """
    if any(pairs.dicts is None for pairs in (judgements, *runs)):
        return False
    return _has_scores(judgements) and all(map(_has_grades, runs))


def _has_scores(run: PairTable) -> bool:
    """Return whether numbers of dicts are fractions and rarely tie."""
    return not are_whole(run.numbers) and _share_of_ties(run) <= _FEW_TIES


def _has_grades(run: PairTable) -> bool:
    """Return whether numbers of dicts are whole and small, and mostly tie."""
    return are_whole(run.numbers, LARGEST_GRADE) and _share_of_ties(run) >= _MANY_TIES


def sign_of_swapping(judgements: PairTable, runs: Sequence[PairTable]) -> str:
    """Say why judgements and runs of dicts may be swapped, or return "".

    All scores are small and whole, and the grades are fractions or, in long lists, never tie where
    scores do. Such dicts may be right, so they are not refused.
    """
    dicts, found = judgements.dicts, [run.numbers for run in runs if len(run.numbers)]
    if dicts is None or any(run.dicts is None for run in runs):
        return ""
    if not found or not all(are_whole(numbers, LARGEST_GRADE) for numbers in found):
        return ""
    if not are_whole(judgements.numbers):
        return "the grades are fractions and the scores small whole numbers"
    is_ranked = dicts.lengths.max(initial=0) >= _LONG and _share_of_ties(judgements) == 0
    is_graded = all(_share_of_ties(run) >= _MANY_TIES for run in runs)
    if is_ranked and is_graded and len(np.unique(np.concatenate(found))) > 1:
        return "no two grades of a query are equal, and the scores are a few small whole numbers"
    return ""


def _share_of_ties(pairs: PairTable) -> float:
    """Return the share of documents that tie in queries of several, or NaN."""
    lengths = pairs.dicts.lengths if pairs.dicts else np.zeros(0, np.int64)
    query = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((pairs.numbers, query))
    numbers, query = pairs.numbers[order], query[order]
    is_first = np.append(True, (numbers[1:] != numbers[:-1]) | (query[1:] != query[:-1]))
    ties = np.count_nonzero(~is_first | ~np.append(is_first[1:], True))
    several = lengths[lengths > 1].sum()
    return ties / several if several else np.nan


def are_whole(numbers: np.ndarray, most: float = np.inf) -> bool:
    """Return whether all numbers are whole, and none is larger."""
    parts = numbers[:_FIRST], numbers  # the first scores mostly show it
    return all(((part == np.rint(part)) & (np.abs(part) <= most)).all() for part in parts)
