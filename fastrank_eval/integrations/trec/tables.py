"""Read runs and judgements from text, columns and dicts."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, NoReturn, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import checked, one_of, typed
from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    bytes_column,
    decode_array,
    is_list,
    is_textual,
    null_rows,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, ColumnError, SourceError
from fastrank_eval._lib.threads import map_jobs
from fastrank_eval.integrations.trec.lines import (
    QRELS,
    RUN,
    FileColumns,
    Lines,
    Text,
    is_stream,
    not_allowed,
    read_lines,
    text_of_bytes,
    text_of_stream,
    texts_of_paths,
)
from fastrank_eval.integrations.trec.pairs import DUPLICATES, PairTable, run_ends
from fastrank_eval.io.paths import FORMATS
from fastrank_eval.io.reader import open_source
from fastrank_eval.io.source import closing_readers, first_line, require_columns, type_name

_BATCH_ROWS = 1 << 20
#: Shares of documents with the number of another document of their query, in scores and in grades,
#: and the largest usual grade: by these swapped dicts are recognised.
_FEW_TIES, _MANY_TIES, _LARGEST_GRADE = 0.2, 0.5, 20
#: Documents of a query whose grades usually tie.
_LONG = 5


def is_nested(source: object) -> bool:
    """Return whether this is a mapping of mappings, the form of pytrec_eval."""
    if not isinstance(source, Mapping):
        return False
    return all(isinstance(docs, Mapping) for docs in source.values())


def is_one_run(run: Mapping[Any, Any]) -> bool:
    """Return whether dicts of dicts are one run, with scores inside."""
    if not run or not is_nested(run):
        return False
    queries = [docs for docs in run.values() if docs]
    return not (queries and all(map(is_nested, queries)))


def _read_mapping(source: Mapping[Any, Mapping[Any, Any]], file_columns: FileColumns) -> PairTable:
    """Read the pairs of ``{query: {doc: number}}``, in its order.

    Raises
    ------
    SourceError
        If a key is neither text nor an integer, or a value is not a number, is NaN, or is an
        infinite grade.
    """
    of_queries = [docs for docs in source.values() if len(docs)]
    queries = _id_column([query for query, docs in source.items() if len(docs)], "query")
    empty = _id_column([query for query, docs in source.items() if not len(docs)], "query")
    docs = _id_column([*chain.from_iterable(of_queries)], "document")
    values = [*chain.from_iterable(docs.values() for docs in of_queries)]
    lengths = np.fromiter(map(len, of_queries), np.int64, len(of_queries))
    ends = np.cumsum(lengths)
    numbers = _numbers_of_mapping(values, file_columns)
    if numbers is None:
        row = next(
            i for i, one in enumerate(values) if _numbers_of_mapping([one], file_columns) is None
        )
        query = queries[int(np.searchsorted(ends, row, side="right"))]
        raise SourceError(
            f"Query {query.as_py()!r}, document {docs[row].as_py()!r}: the {file_columns.number} "
            f"{values[row]!r} is no {'finite ' * (file_columns.number == 'grade')}number."
        )
    columns = [run_ends(queries, ends - lengths, len(values)), docs, arrow_column(numbers)]
    table = pa.Table.from_arrays(columns, names=["query", "doc", file_columns.number])
    return PairTable(table, file_columns.number, _ROWS, lengths=lengths, empty=empty.to_pylist())


def _id_column(keys: Sequence[object], what: str) -> pa.Array:
    """Make a column of ids: text, or integers, which become their digits."""
    if not {*map(type, keys)} <= {str}:
        keys = [_id_text(key, what) for key in keys]
    try:
        return bytes_column(cast("Sequence[str]", keys), pa.large_string())
    except UnicodeEncodeError as error:
        raise SourceError(f"The {what} {error.object!r} is not valid text: {error}.") from error


def _id_text(key: object, what: str) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return str(key)
    raise SourceError(f"The {what} {key!r} is {type_name(key)}: ids are text or integers.")


def _numbers_of_mapping(values: Sequence[Any], file_columns: FileColumns) -> np.ndarray | None:
    """Convert the numbers of a mapping, or None if one is not a number."""
    kinds = {*map(type, values)}
    if not all(issubclass(kind, int | float | np.number | np.bool_) for kind in kinds):
        return None
    grades = file_columns.number == "grade"
    is_integer = grades and not any(issubclass(kind, float | np.floating) for kind in kinds)
    try:
        numbers = np.array(values, np.int64 if is_integer else np.float64)
    except (OverflowError, TypeError):
        return None
    return None if not_allowed(numbers, file_columns.number).any() else numbers


def has_scores(run: PairTable) -> bool:
    """Return whether numbers of dicts are fractions and rarely tie."""
    return not _are_whole(run.numbers) and _share_of_ties(run) <= _FEW_TIES


def has_grades(run: PairTable) -> bool:
    """Return whether numbers of dicts are whole and small, and mostly tie."""
    return _are_whole(run.numbers, _LARGEST_GRADE) and _share_of_ties(run) >= _MANY_TIES


def sign_of_swapping(judgements: PairTable, runs: Sequence[PairTable]) -> str:
    """Say why judgements and runs of dicts may be swapped; nothing if not.

    All scores are small and whole, and the grades are fractions or, in long lists, never tie where
    scores do. Such dicts may be right, so they are not refused.
    """
    lengths, found = judgements.lengths, [run.numbers for run in runs if len(run.numbers)]
    if lengths is None or any(run.lengths is None for run in runs):
        return ""
    if not found or not all(_are_whole(numbers, _LARGEST_GRADE) for numbers in found):
        return ""
    if not _are_whole(judgements.numbers):
        return "the grades are fractions and the scores small whole numbers"
    is_ranked = lengths.max(initial=0) >= _LONG and _share_of_ties(judgements) == 0
    is_graded = all(_share_of_ties(run) >= _MANY_TIES for run in runs)
    if is_ranked and is_graded and len(np.unique(np.concatenate(found))) > 1:
        return "no two grades of a query are equal, and the scores are a few small whole numbers"
    return ""


def _share_of_ties(pairs: PairTable) -> float:
    """Return the share of documents that tie in queries of several, or NaN."""
    lengths = np.array(pairs.lengths)
    query = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((pairs.numbers, query))
    numbers, query = pairs.numbers[order], query[order]
    is_first = np.append(True, (numbers[1:] != numbers[:-1]) | (query[1:] != query[:-1]))
    ties = np.count_nonzero(~is_first | ~np.append(is_first[1:], True))
    several = lengths[lengths > 1].sum()
    return ties / several if several else np.nan


def _are_whole(numbers: np.ndarray, most: float = np.inf) -> bool:
    """Return whether all numbers are whole, and none is larger."""
    return bool(((numbers == np.rint(numbers)) & (np.abs(numbers) <= most)).all())


#: Type of the subtopics that a document covers.
SUBTOPICS = pa.list_(pa.int64())

#: Columns of ids, in the order in which they are looked for: ours, PyTerrier's, ir_measures',
#: ranx's and BEIR's. PyTerrier's frames have the text of the query in the column ``query``.
_ID_NAMES = (
    ("query", "doc"),
    ("qid", "docno"),
    ("query_id", "doc_id"),
    ("q_id", "doc_id"),
    ("query-id", "corpus-id"),
)
#: Other columns, in the order in which they are looked for.
_OTHER_NAMES = {
    "score": ("score",),
    "grade": ("grade", "label", "relevance", "score"),
    "subtopic": ("subtopic", "iteration"),
    "run": ("run",),
}
#: Ids of judgements whose grades are called score.
_SCORED_JUDGEMENTS = (("q_id", "doc_id"), ("query-id", "corpus-id"))
SWAPPED_RUN = "it looks like judgements, which come first; pass the run second."


def columns_of(
    present: Collection[str],
    file_columns: FileColumns,
    names: Mapping[str, str | None] = MappingProxyType({}),
) -> dict[str, str]:
    """Find the columns of a table by the names that other tools use.

    Parameters
    ----------
    present : collection of str
        Names of the columns of the table.
    file_columns : FileColumns
    names : mapping of str to (str or None)
        Names that the caller gives.

    Returns
    -------
    dict of str to str
        By our name the name in the table; our own where the table has none of them.
    """
    given = {column: name for column, name in names.items() if name is not None}
    pairs = [(given.get("query", query), given.get("doc", doc)) for query, doc in _ID_NAMES]
    ids = next((pair for pair in pairs if {*pair} <= {*present}), pairs[0])
    columns = dict(zip(("query", "doc"), ids, strict=True))
    for column in file_columns.columns:
        if column not in columns:
            known = _OTHER_NAMES[column]
            name = next((name for name in known if name in present), known[0])
            columns[column] = given.get(column, name)
    return {column: columns[column] for column in file_columns.columns}


def _batches_of_columns(
    source: object, file_columns: FileColumns, names: Mapping[str, str | None], format_: str | None
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a table, frame or file as strings and numbers.

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
    known = chain(*_ID_NAMES, *_OTHER_NAMES.values(), filter(None, names.values()))
    ids = {*known} - {*_OTHER_NAMES["grade"], names.get(file_columns.number)}
    opened = open_source(source, format=format_, text=sorted(filter(None, ids)))
    source_names = columns_of(opened.schema.names, file_columns, names)
    _refuse_swapped(opened.schema.names, opened.name, source_names, file_columns, names)
    if source_names.get("run") not in opened.schema.names:
        source_names.pop("run", None)
    index = opened.schema.get_field_index("subtopics")
    if file_columns is QRELS and index >= 0 and is_list(opened.schema.field(index).type):
        source_names["subtopics"] = "subtopics"
    require_columns(opened.schema, source_names.values(), source=opened.name)
    row = 0
    for source_batch in opened.batches(list(dict.fromkeys(source_names.values()))):
        for start in range(0, source_batch.num_rows, _BATCH_ROWS):
            batch = source_batch.slice(start, _BATCH_ROWS)
            columns = []
            for column, name in source_names.items():
                position = _Column(opened.name, name, row)
                values = decode_array(batch.column(name))
                if values.null_count and column != "subtopics":
                    is_id = column != file_columns.number
                    remedy = "every row needs an id" if is_id else f"leave out what has no {column}"
                    position.refuse(null_rows(values), f"is null: {remedy}")
                if column == file_columns.number:
                    columns.append(_number_column(values, position, file_columns))
                elif column == "subtopics":
                    columns.append(_list_column(values, position))
                else:
                    columns.append(_text_column(values, position))
            yield pa.RecordBatch.from_arrays(columns, names=list(source_names))
            row += batch.num_rows


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
    if file_columns is RUN and column_names["score"] not in present:
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


_TREC = "trec"
#: What to do about a pair that is there twice.
DUPLICATES_OPTION = "pass duplicates='first', 'last' or 'max' (--duplicates)."
#: Describes two rows of a source that is no text.
_ROWS = "row {:,} and row {:,}".format


@typed
def read_run(
    source: object,
    *,
    query: str | None = None,
    doc: str | None = None,
    score: str | None = None,
    duplicates: str = "error",
    format: str | None = None,  # noqa: A002 - the name of this option everywhere
) -> pa.Table:
    r"""Read the documents that a system retrieved.

    Sources are TREC run files, columns, or dicts of scores. A line is ``qid Q0 docno rank score
    tag``; any number of blanks and tabs separates fields. As in trec_eval, the rank and fields
    after the tag are ignored: documents rank by score. Blank lines and lines that begin with ``#``
    are ignored; lines may end in CR LF.

    Parameters
    ----------
    source : object
        One of

        * a path or URI of a text file of any suffix, gzipped or not; of a folder or glob of such
          files; or a list of them, read as one run;
        * ``"-"`` (standard input), an open file, or the text as bytes;
        * a Parquet or Arrow file, a pyarrow Table, a frame, or any other source of `open_source`,
          with columns of ids (text, or integers, which become their digits) and numbers;
        * ``{query: {doc: score}}``, the form of pytrec_eval.
    query, doc, score : str, optional
        Names of the columns of a source with columns. By default ``query, doc``, or those of
        PyTerrier (``qid, docno``), ir_measures (``query_id, doc_id``), ranx (``q_id, doc_id``) or
        BEIR (``query-id, corpus-id``), and ``score``. A column ``run`` is kept if there is one.
    duplicates : {"error", "first", "last", "max"}
        What to do with a document that a query has twice: raise an error, or keep one of its rows
        (``"max"``: the one with the highest score, the first of ties).
    format : {"trec", "parquet", "arrow", "ipc", "feather", "csv", "tsv"}, optional
        By default Parquet and Arrow are detected by their first bytes, and files with suffix csv
        or tsv by a first line with names of columns.

    Returns
    -------
    pyarrow.Table
        One row for each retrieved document, in the order of the source: ``query`` and ``doc``,
        string; ``score``, float64, correctly rounded, may be infinite; ``run``, string, the tag
        (not for dicts). No nulls.

    Raises
    ------
    SourceError
        If the source cannot be read, is not UTF-8, has a line with too few fields, a score that is
        not a number, or a pair twice; names the file and the line, counted from 1.
    ColumnError
        If a column is missing, has a null, or has the wrong type.
    ArgumentError
        If `duplicates` or `format` is unknown.

    References
    ----------
    trec_eval 10, https://github.com/usnistgov/trec_eval

    Examples
    --------
    >>> run = read_run(b"q1 Q0 d7 1 2.5 bm25\nq1 Q0 d3 2 1.5 bm25\n")
    >>> run.to_pylist()[1]
    {'query': 'q1', 'doc': 'd3', 'score': 1.5, 'run': 'bm25'}
    """
    names = {"query": query, "doc": doc, "score": score}
    return read_pairs(source, RUN, duplicates, names, format).table


@typed
def read_qrels(
    source: object,
    *,
    query: str | None = None,
    doc: str | None = None,
    grade: str | None = None,
    duplicates: str = "error",
    format: str | None = None,  # noqa: A002
) -> pa.Table:
    r"""Read relevance judgements.

    Sources are TREC qrels files, columns, or dicts of grades. A line is ``qid iter docno rel``; the
    second field is ignored, a fifth is an error. Otherwise lines are read as by `read_run`.

    Parameters
    ----------
    source : object
        As in `read_run`; ``{query: {doc: grade}}``. A column ``subtopics`` of lists of whole
        numbers, from `read_diversity_qrels`, is kept.
    query, doc, grade : str, optional
        Names of the columns of a source with columns. By default those of `read_run`, and
        ``grade``, ``label`` or ``relevance``, the first that the source has; ``score`` beside the
        ids of ranx and BEIR.
    duplicates : {"error", "first", "last", "max"}
        What to do with a document judged twice for a query: raise an error, or keep one judgement.
    format : str, optional
        As in `read_run`.

    Returns
    -------
    pyarrow.Table
        One row for each judged document, in the order of the source: ``query`` and ``doc``, string;
        ``grade``, int64 if all grades are integers, else float64; finite, may be negative.

    Raises
    ------
    SourceError, ColumnError, ArgumentError
        As `read_run` does; an infinite grade is an error too.

    Examples
    --------
    >>> read_qrels(b"q1 0 d3 1\nq1 0 d5 0\n")["grade"].to_pylist()
    [1, 0]
    """
    names = {"query": query, "doc": doc, "grade": grade}
    return read_pairs(source, QRELS, duplicates, names, format).table


def read_pairs(
    source: object,
    file_columns: FileColumns,
    duplicates: str = "error",
    names: Mapping[str, str | None] = MappingProxyType({}),
    form: str | None = None,
    remedy: str = DUPLICATES_OPTION,
) -> PairTable:
    """Read the pairs of a run or judgements; return a `PairTable` as it is.

    Parameters
    ----------
    source : object
    file_columns : FileColumns
    duplicates : {"error", "first", "last", "max"}
    names : mapping of str to (str or None)
        Names of columns.
    form : str or None
        Format of files.
    remedy : str
        As in `PairTable`.
    """
    if isinstance(source, PairTable):
        return source
    checked("duplicates", duplicates, one_of(*DUPLICATES))
    pairs = read_rows(source, file_columns, names, form)
    pairs.duplicates, pairs.remedy = duplicates, remedy
    return pairs


def read_rows(
    source: object, file_columns: FileColumns, names: Mapping[str, str | None], form: str | None
) -> PairTable:
    """Read all rows."""
    checked("format", form, one_of(None, _TREC, *FORMATS))
    texts = None if form not in (None, _TREC) else _find_texts(source, file_columns, names)
    if texts is not None:
        return _read_texts(texts, file_columns)
    if form == _TREC:
        raise ArgumentError("format='trec' applies to text: leave it out.")
    if isinstance(source, Mapping) and is_nested(source):
        return _read_mapping(source, file_columns)
    batches = _batches_of_columns(source, file_columns, names, form)
    names_of_columns = [name for name in file_columns.columns if name != "run"]
    with closing_readers():
        rows = _table(list(batches), names_of_columns, file_columns)
    return PairTable(rows, file_columns.number, _ROWS)


def _find_texts(
    source: object, file_columns: FileColumns, names: Mapping[str, str | None]
) -> list[Text] | None:
    """List the texts of a source, or None if it has columns."""
    if isinstance(source, bytes | bytearray | memoryview):
        return [text_of_bytes(source)]
    if (isinstance(source, str) and source == "-") or is_stream(source):
        return [text_of_stream(source)]
    if isinstance(source, str | os.PathLike):
        source = [source]
    if not isinstance(source, list | tuple):
        return None
    texts = texts_of_paths(source)
    files = [
        text.name
        for text in texts
        if text.has_columns() or _is_header(text.header(), file_columns, names)
    ]
    if files and len(files) < len(texts):
        raise SourceError(
            f"Of {len(texts)} files {files[0]} and {len(files) - 1} more hold columns, "
            "the others text. Read them by themselves."
        )
    return None if files else texts


def _is_header(
    fields: Sequence[str], file_columns: FileColumns, names: Mapping[str, str | None]
) -> bool:
    """Return whether the first line of a file has names of columns."""
    if not fields or fields[0].startswith("#"):
        return False
    columns = columns_of(fields, file_columns, names)
    known = {columns["query"], columns["doc"]} <= {*fields}
    return known or len(" ".join(fields).split()) < file_columns.fields


def _read_texts(texts: Iterable[Text], file_columns: FileColumns) -> PairTable:
    #: For each block: its first row, the name of its text, its first line.
    positions: list[tuple[int, str, int]] = []
    blocks: list[Lines] = []
    rows = first = 0
    for text, lines in _read_blocks(texts, file_columns):
        if positions and positions[-1][1] != text.name:
            first = 0
        if lines.fault is not None:
            line, problem = lines.fault
            raise SourceError(
                f"{text.name}, line {first + line + 1:,}: {problem}. Correct it, or leave it out."
            )
        positions.append((rows, text.name, first))
        blocks.append(lines)
        rows += lines.batch.num_rows
        first += lines.lines

    def position_of(row: int) -> tuple[str, int]:
        index = bisect_right(positions, row, key=lambda of_block: of_block[0]) - 1
        start, name, line = positions[index]
        return name, line + blocks[index].line(row - start) + 1

    def describe(first_row: int, second_row: int) -> str:
        (name, line), (second_name, second_line) = position_of(first_row), position_of(second_row)
        file_note = "" if name == second_name else f"{second_name}, "
        return f"{name}, line {line:,} and {file_note}line {second_line:,}"

    table = _table([block.batch for block in blocks], list(file_columns.columns), file_columns)
    comments = sum(block.comments for block in blocks)
    return PairTable(table, file_columns.number, describe, comments=comments)


def _read_blocks(texts: Iterable[Text], file_columns: FileColumns) -> Iterator[tuple[Text, Lines]]:
    """Read blocks in all threads, in order, and not too far ahead."""

    def read(item: tuple[Text, bytearray]) -> tuple[Text, Lines]:
        text, block = item
        return text, read_lines(block, file_columns)

    blocks = ((text, block) for text in texts for block in text.blocks())
    return map_jobs(pa.cpu_count(), read, blocks)


def _table(batches: list[pa.RecordBatch], names: list[str], file_columns: FileColumns) -> pa.Table:
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
