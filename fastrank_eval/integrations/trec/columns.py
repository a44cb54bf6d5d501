"""Read runs and judgements from tables of other tools."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, product
from types import MappingProxyType
from typing import NoReturn

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    decode_array,
    is_list,
    is_textual,
    null_rows,
    values_type,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval.integrations.trec.lines import QRELS, FileColumns, not_allowed
from fastrank_eval.integrations.trec.pairs import ROWS, PairTable
from fastrank_eval.io.computed import unnested
from fastrank_eval.io.reader import open_source
from fastrank_eval.io.source import Source, first_line, require_columns

_BATCH_ROWS = 1 << 20
#: Describes two documents of lists.
ELEMENTS = "element {:,} and element {:,} of the lists".format
#: Type of the subtopics that a document covers.
SUBTOPICS = pa.list_(pa.int64())

#: Columns of ids, in the order in which they are looked for: ours, PyTerrier's, ir_measures',
#: ranx's, BEIR's and sentence-transformers'. PyTerrier's frames have the text of the query in the
#: column ``query``.
_ID_NAMES = (
    ("query", "doc"),
    ("qid", "docno"),
    ("query_id", "doc_id"),
    ("q_id", "doc_id"),
    ("query-id", "corpus-id"),
    ("query_id", "corpus_id"),
)
#: Columns of queries beside lists of documents, those of ids first.
_QUERIES = ("query_id", "qid", "q_id", "query-id", "query", "user_input")
#: Lists of documents of ragas, LlamaIndex, MTEB and Spark, by the column of numbers.
LISTS = {
    "score": ("retrieved_context_ids", "retrieved_ids", "corpus-ids", "prediction"),
    "grade": ("reference_context_ids", "expected_ids", "label"),
}
#: Other columns, in the order in which they are looked for.
_OTHER_NAMES = {
    "score": ("score", "scores", "rank"),
    "grade": ("grade", "label", "relevance", "score"),
    "subtopic": ("subtopic", "iteration"),
    "run": ("run",),
}
#: Ids of judgements whose grades are called score.
_SCORED_JUDGEMENTS = (("q_id", "doc_id"), ("query-id", "corpus-id"))
#: Of a run that has ranks and no scores.
BY_RANK = "a run has ranks and no scores: its score is the negative rank"
SWAPPED_RUN = "it looks like judgements, which come first; pass the run second."


def columns_of(
    present: Collection[str],
    file_columns: FileColumns,
    names: Mapping[str, str | None] = MappingProxyType({}),
    lists: Collection[str] = (),
) -> dict[str, str]:
    """Find the columns of a table by the names that other tools use.

    Parameters
    ----------
    present : collection of str
        Names of the columns of the table.
    file_columns : FileColumns
    names : mapping of str to (str or None)
        Names that the caller gives.
    lists : collection of str
        Names of the columns that are, or were, lists.

    Returns
    -------
    dict of str to str
        By our name the name in the table; our own where the table has none of them.
    """
    given = {column: name for column, name in names.items() if name is not None}
    listed = [name for name in LISTS[file_columns.number] if name in lists]
    pairs = [
        (given.get("query", query), given.get("doc", doc))
        for query, doc in chain(_ID_NAMES, product(_QUERIES, listed))
    ]
    ids = next(((q, d) for q, d in pairs if q in present and d in present), pairs[0])
    columns = dict(zip(("query", "doc"), ids, strict=True))
    for column in file_columns.columns:
        if column not in columns:
            known = _OTHER_NAMES[column]
            # Beside lists of a run, scores are its own.
            of_run = (
                column == "grade" and ids[1] in listed and not {*LISTS["score"]}.isdisjoint(lists)
            )
            others = {*present} - {*ids} - ({"score"} if of_run else set())
            name = next((name for name in known if name in others), known[0])
            columns[column] = given.get(column, name)
    return {column: columns[column] for column in file_columns.columns}


def known_names(file_columns: FileColumns, names: Mapping[str, str | None]) -> set[str]:
    """Name the columns that a table may need."""
    others = chain.from_iterable(_OTHER_NAMES.get(name, ()) for name in file_columns.columns)
    # Lists of a run tell whose scores are beside them.
    ids = chain(*_ID_NAMES, _QUERIES, LISTS["score"], LISTS[file_columns.number])
    return {*ids, *others, "results", *filter(None, names.values())}


def read_columns(
    source: object, file_columns: FileColumns, names: Mapping[str, str | None], format_: str | None
) -> PairTable:
    """Read the columns of a table, frame or file.

    Parameters
    ----------
    source : object
        A source of `open_source`.
    file_columns : FileColumns
        The columns to read; ``run`` may be missing.
    names : mapping of str to (str or None)
        Names of the columns in the source; None for those of `columns_of`.
    format_ : str or None
        Format of files.

    Raises
    ------
    ColumnError
        If a column is missing, has a null or NaN, or has a wrong type.
    SourceError
        If the source cannot be read.
    """
    number = file_columns.number
    text = sorted(text_names(file_columns, names))
    without: list[pa.RecordBatch] = []
    listed = open_source(source, format=format_, text=text)
    lists = [field.name for field in listed.schema if is_list(values_type(field.type))]
    opened = _without_lists(listed, lists, file_columns, names, without.append)
    is_listed = opened is not listed
    present = opened.schema.names
    source_names = columns_of(present, file_columns, names, lists)
    _refuse_no_queries(listed, lists, source_names, names, number)
    _refuse_swapped(present, opened.name, source_names, file_columns, names)
    if source_names.get("run") not in present:
        source_names.pop("run", None)
    if is_listed and number == "grade" and source_names["grade"] not in present:
        del source_names["grade"]  # the documents of a list are relevant
    index = opened.schema.get_field_index("subtopics")
    if file_columns is QRELS and index >= 0 and is_list(opened.schema.field(index).type):
        source_names["subtopics"] = "subtopics"
    try:
        require_columns(opened.schema, source_names.values(), source=opened.name)
    except ColumnError as error:
        raise ColumnError(f"{error}{_other_names(present, source_names, names, number)}") from error
    is_rank = source_names.get(number) == "rank" and names.get(number) is None
    batches = list(_batches(opened, source_names, file_columns, is_rank))
    columns = [name for name in file_columns.columns if name != "run"]
    describe = ELEMENTS if is_listed else ROWS
    empty = _queries_of(without, _Column(opened.name, source_names["query"], 0))
    pairs = PairTable(table_of(batches, columns, file_columns), number, describe, empty)
    if is_rank:
        pairs.notes = (BY_RANK,)
    return pairs


def _queries_of(rows: Sequence[pa.RecordBatch], column: _Column) -> list[str]:
    """List the queries of rows whose lists of documents are empty."""
    found = [batch.column(column.name) for batch in rows if column.name in batch.schema.names]
    parts = [decode_array(part) for part in found if not is_list(values_type(part.type))]
    if any(part.null_count for part in parts):
        raise ColumnError(
            f"Column {column.name!r} of {column.source} is null beside an empty list: every row "
            "needs an id."
        )
    return [query for part in parts for query in _text_column(part, column).to_pylist()]


def _other_names(
    present: Sequence[str],
    found: Mapping[str, str],
    names: Mapping[str, str | None],
    number: str,
) -> str:
    """Say how columns may be called, nearest names of ids first."""
    if {found["query"], found["doc"]} <= {*present}:
        if names.get(number) or found.get(number, present[0]) in present:
            return ""
        known = ", ".join(_OTHER_NAMES[number][:3])
        return f" Known names of {number}s are {known}; for another pass {number}=."
    if names.get("query") or names.get("doc"):
        return ""
    nearest = sorted(_ID_NAMES, key=lambda pair: -len({*pair} & {*present}))[:3]
    known = ", ".join(f"{query} and {doc}" for query, doc in nearest)
    return f" Known names of ids are {known}; for others pass query= and doc=."


def text_names(file_columns: FileColumns, names: Mapping[str, str | None]) -> set[str]:
    """Name the columns that are text in files without types."""
    numbers = {*_OTHER_NAMES["grade"], *_OTHER_NAMES["score"], names.get(file_columns.number)}
    return known_names(file_columns, names) - numbers


def _without_lists(
    opened: Source,
    lists: Sequence[str],
    file_columns: FileColumns,
    names: Mapping[str, str | None],
    empty: Callable[[pa.RecordBatch], object],
) -> Source:
    """Give each document of a list a row; return other sources unchanged.

    `empty` gets the rows whose lists are empty.
    """
    kinds = {field.name: values_type(field.type) for field in opened.schema}
    columns = columns_of(kinds, file_columns, names, lists)
    if not lists or (columns["doc"] in kinds and columns["doc"] not in lists):
        return opened
    rank = "rank" if file_columns.number == "score" else None
    if columns["doc"] in lists:
        used = dict.fromkeys(name for name in columns.values() if name in lists)
        return unnested(opened, list(used), rank, empty)
    docs = {doc for _, doc in _ID_NAMES}
    for name in lists:
        kind = values_type(kinds[name].value_type)
        if pa.types.is_struct(kind) and not docs.isdisjoint(field.name for field in kind):
            return unnested(opened, [name], rank, empty)
    return opened


def _batches(
    opened: Source, source_names: Mapping[str, str], file_columns: FileColumns, is_rank: bool
) -> Iterator[pa.RecordBatch]:
    """Yield ids as strings, and numbers; grades that there are none of are 1."""
    number, row = file_columns.number, 0
    for source_batch in opened.batches(list(dict.fromkeys(source_names.values()))):
        for start in range(0, source_batch.num_rows, _BATCH_ROWS):
            batch = source_batch.slice(start, _BATCH_ROWS)
            columns = {}
            for column, name in source_names.items():
                position = _Column(opened.name, name, row)
                values = decode_array(batch.column(name))
                if values.null_count and column != "subtopics":
                    remedy = (
                        f"leave out what has no {name}"
                        if column == number
                        else "every row needs an id"
                    )
                    position.refuse(null_rows(values), f"is null: {remedy}")
                if column == number:
                    columns[column] = _number_column(values, position, file_columns)
                elif column == "subtopics":
                    columns[column] = _list_column(values, position)
                else:
                    columns[column] = _text_column(values, position)
            if number not in columns:
                columns[number] = arrow_column(np.ones(batch.num_rows, np.int64))
            elif is_rank:
                columns[number] = arrow_column(0 - as_array(columns[number]))
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
            row += batch.num_rows


def _refuse_no_queries(
    source: Source,
    lists: Sequence[str],
    columns: Mapping[str, str],
    names: Mapping[str, str | None],
    number: str,
) -> None:
    """Raise ColumnError if lists of documents lack their queries."""
    doc = names.get("doc")
    docs = [name for name in ((doc,) if doc else LISTS[number]) if name in lists]
    if docs and names.get("query") is None and columns["query"] not in source.schema.names:
        raise ColumnError(
            f"no column of queries in {source.name}, beside the lists of {docs[0]!r}: add a column "
            "query_id, such as the number of the row, or pass query= for one of another name. "
            f"Columns: {', '.join(source.schema.names)}."
        )


def _refuse_swapped(
    present: Sequence[str],
    source: str,
    column_names: Mapping[str, str],
    file_columns: FileColumns,
    names: Mapping[str, str | None],
) -> None:
    """Raise ColumnError if judgements look like a run, or the reverse."""
    if names.get(file_columns.number) is not None:
        return
    columns = f"Columns: {', '.join(present)}."
    ids = column_names["query"], column_names["doc"]
    if file_columns.number == "score" and column_names["score"] not in present:
        if columns_of(present, QRELS)["grade"] in present:
            raise ColumnError(f"no column 'score' in {source}: {SWAPPED_RUN} {columns}")
    elif (
        file_columns is QRELS
        and column_names["grade"] == "score" in present
        and ids not in _SCORED_JUDGEMENTS
    ):
        raise ColumnError(
            f"no column 'grade', 'label' or 'relevance' in {source}: it looks like a run, which "
            "comes second; pass the judgements first, or grade='score' if these are grades. "
            f"{columns}"
        )


@dataclass(frozen=True)
class _Column:
    """A column of a source, with the row of its next value, for messages."""

    source: str
    name: str
    row: int

    def refuse(self, bad: np.ndarray, what: str) -> NoReturn:
        """Raise an error that names the first bad row."""
        row = self.row + int(bad.argmax())
        raise ColumnError(f"Column {self.name!r} of {self.source} {what} (row {row:,}).")


def _text_column(values: pa.Array, column: _Column) -> pa.Array:
    kind = values.type
    if not (pa.types.is_integer(kind) or is_textual(kind) or pa.types.is_null(kind)):
        raise ColumnError(
            f"Column {column.name!r} of {column.source} is {kind}, which is no id: "
            "cast it to string or to an integer."
        )
    try:
        return values.cast(pa.large_string())
    except pa.ArrowInvalid as error:
        raise ColumnError(
            f"Column {column.name!r} of {column.source} cannot be read as text: "
            f"{first_line(error)}. Cast it to string."
        ) from error


def _list_column(values: pa.Array, column: _Column) -> pa.Array:
    try:
        return values.cast(SUBTOPICS)
    except pa.ArrowException as error:
        raise ColumnError(
            f"Column {column.name!r} of {column.source} is {values.type}, not lists of whole "
            "numbers: cast it, or call it otherwise."
        ) from error


def _number_column(values: pa.Array, column: _Column, file_columns: FileColumns) -> pa.Array:
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ColumnError(
            f"Column {column.name!r} of {column.source} is {kind}, not numbers: "
            "cast it to float64 or int64."
        )
    is_integer = file_columns.number == "grade" and not pa.types.is_floating(kind)
    source_numbers = as_array(values)
    numbers = source_numbers.astype(np.int64 if is_integer else np.float64)
    # Only 64-bit integers can overflow: a score above 2^53, an unsigned grade above 2^63.
    if kind in (pa.int64(), pa.uint64()):
        converted = numbers.astype(source_numbers.dtype)
        differs = (converted != source_numbers) | ((numbers < 0) != (source_numbers < 0))
        if differs.any():
            column.refuse(differs, f"holds an integer that {numbers.dtype} does not")
    elif numbers.dtype == np.float64:
        is_bad = not_allowed(numbers, file_columns.number)
        if is_bad.any():
            column.refuse(
                is_bad, "is NaN" if file_columns.number == "score" else "is NaN or infinite"
            )
    return arrow_column(np.ascontiguousarray(numbers))


def table_of(
    batches: list[pa.RecordBatch], names: list[str], file_columns: FileColumns
) -> pa.Table:
    """Join batches; `names` are the columns if there are none."""
    kinds = {batch.column(file_columns.number).type for batch in batches}
    grades = file_columns.number == "grade"
    number = pa.int64() if grades and kinds <= {pa.int64()} else pa.float64()
    schema = (
        batches[0].schema if batches else pa.schema([(name, pa.large_string()) for name in names])
    )
    index = schema.get_field_index(file_columns.number)
    schema = schema.set(index, pa.field(file_columns.number, number))
    if len(kinds) > 1:
        batches = [
            batch.set_column(
                index, file_columns.number, batch.column(index).cast(pa.float64(), safe=False)
            )
            for batch in batches
        ]
    batches = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(batches, schema)
