"""Read runs and judgements from text, columns and dicts."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    bytes_column,
    decode_array,
    is_list,
    null_rows,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, ColumnError, SourceError, near
from fastrank_eval._lib.threads import map_jobs
from fastrank_eval.integrations.trec.blocks import (
    Text,
    is_stream,
    text_of_bytes,
    text_of_stream,
    texts_of_paths,
)
from fastrank_eval.integrations.trec.lines import (
    DIVERSITY_QRELS,
    QRELS,
    RUN,
    Layout,
    Lines,
    not_allowed,
    read_lines,
)
from fastrank_eval.integrations.trec.pairs import (
    PairTable,
    check_duplicates,
    drop_duplicates,
)
from fastrank_eval.io.keys import number_keys
from fastrank_eval.io.paths import FORMATS
from fastrank_eval.io.reader import open_source
from fastrank_eval.io.source import first_line, require_columns, type_name
from fastrank_eval.io.validate import MAX_SUBTOPICS

#: Type of the subtopics that a document covers.
SUBTOPICS = pa.list_(pa.int64())

_BATCH_ROWS = 1 << 20


def is_nested(source: object) -> bool:
    """Tell whether this is a mapping of mappings, the form of pytrec_eval."""
    return isinstance(source, Mapping) and all(isinstance(v, Mapping) for v in source.values())


def _batches_of_columns(
    source: object, layout: Layout, names: Mapping[str, str], format_: str | None
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a table, frame or file as strings and numbers.

    Parameters
    ----------
    source : object
        A source of `open_source`.
    layout : Layout
        The columns to read; ``run`` may be missing.
    names : mapping of str to str
        Names of the columns in the source.
    format_ : str or None
        Format of files.

    Raises
    ------
    ColumnError
        If a column is missing, has a null or NaN, or has a wrong type.
    SourceError
        If the source cannot be read.
    """
    ids = [names.get(column, column) for column in layout.columns if column != layout.number]
    opened = open_source(source, format=format_, text=ids)
    source_names = {
        column: names.get(column, column)
        for column in layout.columns
        if column != "run" or "run" in opened.schema.names
    }
    index = opened.schema.get_field_index("subtopics")
    if layout is QRELS and index >= 0 and is_list(opened.schema.field(index).type):
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
                if column == layout.number:
                    columns.append(_number_column(values, position, layout))
                elif column == "subtopics":
                    columns.append(_list_column(values, position))
                else:
                    columns.append(_text_column(values, position))
            yield pa.RecordBatch.from_arrays(columns, names=list(source_names))
            row += batch.num_rows


def _batches_of_mapping(source: Mapping[Any, Any], layout: Layout) -> Iterator[pa.RecordBatch]:
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
        columns = [bytes_column(ids, pa.string()) for ids in (queries, docs)]
        numbers = _numbers_of_mapping(values, layout)
        if numbers is None:
            query, doc, value = next(
                row for row in pairs_of_batch if _numbers_of_mapping(row[2:], layout) is None
            )
            raise SourceError(
                f"Query {query.decode()!r}, document {doc.decode()!r}: the {layout.number} "
                f"{value!r} is no {'finite ' * (layout.number == 'grade')}number."
            )
        names = ["query", "doc", layout.number]
        yield pa.RecordBatch.from_arrays([*columns, arrow_column(numbers)], names=names)


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
    if values.null_count:
        column.refuse(null_rows(values), "is null: every row needs an id")
    if pa.types.is_string(kind):
        return values
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_null(kind)
    ):
        raise ColumnError(
            f"Column {column.name!r} of {column.source} is {kind}, which is no id: "
            "cast it to string or to an integer."
        )
    try:
        return values.cast(pa.string())
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


def _number_column(values: pa.Array, column: _Column, layout: Layout) -> pa.Array:
    kind = values.type
    if values.null_count:
        column.refuse(
            null_rows(values),
            f"is null: leave out what has no {layout.number}",
        )
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ColumnError(
            f"Column {column.name!r} of {column.source} is {kind}, not numbers: "
            "cast it to float64 or int64."
        )
    is_integer = layout.number == "grade" and not pa.types.is_floating(kind)
    source_numbers = as_array(values)
    numbers = source_numbers.astype(np.int64 if is_integer else np.float64)
    # Only 64-bit integers can overflow: a score above 2^53, an unsigned grade above 2^63.
    if kind in (pa.int64(), pa.uint64()):
        converted = numbers.astype(source_numbers.dtype)
        differs = (converted != source_numbers) | ((numbers < 0) != (source_numbers < 0))
        if differs.any():
            column.refuse(differs, f"holds an integer that {numbers.dtype} does not")
    elif numbers.dtype == np.float64:
        is_bad = not_allowed(numbers, layout.number)
        if is_bad.any():
            column.refuse(is_bad, "is NaN" if layout.number == "score" else "is NaN or infinite")
    return arrow_column(np.ascontiguousarray(numbers))


def _id_bytes(key: object, what: str) -> bytes:
    if isinstance(key, str):
        try:
            return key.encode()
        except UnicodeEncodeError as error:
            raise SourceError(f"The {what} {key!r} is not valid text: {error}.") from error
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return str(key).encode()
    raise SourceError(f"The {what} {key!r} is {type_name(key)}: ids are text or integers.")


def _numbers_of_mapping(values: Sequence[Any], layout: Layout) -> np.ndarray | None:
    """Convert the numbers of a mapping, or None if one is not a number."""
    if not all(isinstance(value, int | float | np.number | np.bool_) for value in values):
        return None
    grades = layout.number == "grade"
    is_integer = grades and not any(isinstance(value, float | np.floating) for value in values)
    try:
        numbers = np.array(values, np.int64 if is_integer else np.float64)
    except (OverflowError, TypeError):
        return None
    return None if not_allowed(numbers, layout.number).any() else numbers


_TREC = "trec"


@typed
def read_run(
    source: object,
    *,
    query: str = "query",
    doc: str = "doc",
    score: str = "score",
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
    query, doc, score : str
        Names of the columns of a source with columns. A column ``run`` is kept if there is one.
    duplicates : {"error", "first", "last", "max"}
        What to do with a document that a query has twice: raise an error, or keep one of its rows
        (``"max"``: the one with the highest score, the first of ties).
    format : {"trec", "parquet", "arrow", "ipc", "feather", "csv", "tsv"}, optional
        By default Parquet and Arrow are detected by their first bytes; CSV must be named.

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
    query: str = "query",
    doc: str = "doc",
    grade: str = "grade",
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
    query, doc, grade : str
        Names of the columns of a source with columns.
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
    layout: Layout,
    duplicates: str = "error",
    names: Mapping[str, str] = MappingProxyType({}),
    form: str | None = None,
) -> PairTable:
    """Read a run or judgements as pairs; a `PairTable` is returned unchanged."""
    if isinstance(source, PairTable):
        return source
    check_duplicates(duplicates)
    pairs, describe = _read_rows(source, layout, names, form)
    return drop_duplicates(pairs, duplicates, describe)


def _read_rows(
    source: object, layout: Layout, names: Mapping[str, str], form: str | None
) -> tuple[PairTable, Callable[[int, int], str]]:
    """Read all rows, and a function that describes the positions of two rows."""
    formats = (_TREC, *FORMATS)
    if form is not None and form not in formats:
        raise ArgumentError(
            f"format={form!r} is unknown.{near(str(form), formats)} Use {', '.join(formats)}."
        )
    texts = None if form not in (None, _TREC) else _find_texts(source)
    if texts is not None:
        return _read_texts(texts, layout)
    if form == _TREC:
        raise ArgumentError("format='trec' applies to text: leave it out.")
    if isinstance(source, Mapping) and is_nested(source):
        batches = _batches_of_mapping(source, layout)
    else:
        batches = _batches_of_columns(source, layout, names, form)
    rows = _pairs(list(batches), [name for name in layout.columns if name != "run"], layout)
    return rows, lambda first, second: f"row {first:,} and row {second:,}"


def _find_texts(source: object) -> list[Text] | None:
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
    files = [text.name for text in texts if text.has_columns()]
    if files and len(files) < len(texts):
        raise SourceError(
            f"Of {len(texts)} files {files[0]} and {len(files) - 1} more hold columns, "
            "the others text. Read them by themselves."
        )
    return None if files else texts


def _read_texts(
    texts: Iterable[Text], layout: Layout
) -> tuple[PairTable, Callable[[int, int], str]]:
    #: For each block: its first row, the name of its text, its first line.
    positions: list[tuple[int, str, int]] = []
    blocks: list[Lines] = []
    rows = first = 0
    for text, lines in _read_blocks(texts, layout):
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

    return _pairs([block.batch for block in blocks], list(layout.columns), layout), describe


def _read_blocks(texts: Iterable[Text], layout: Layout) -> Iterator[tuple[Text, Lines]]:
    """Read blocks in all threads, in order, and not too far ahead."""

    def read(item: tuple[Text, bytearray]) -> tuple[Text, Lines]:
        text, block = item
        return text, read_lines(block, layout)

    blocks = ((text, block) for text in texts for block in text.blocks())
    return map_jobs(pa.cpu_count(), read, blocks)


def _pairs(batches: list[pa.RecordBatch], names: list[str], layout: Layout) -> PairTable:
    """Join batches; `names` are the columns if there are none."""
    kinds = {batch.column(layout.number).type for batch in batches}
    grades = layout.number == "grade"
    number = pa.int64() if grades and kinds <= {pa.int64()} else pa.float64()
    schema = batches[0].schema if batches else pa.schema([(name, pa.string()) for name in names])
    index = schema.get_field_index(layout.number)
    schema = schema.set(index, pa.field(layout.number, number))
    if len(kinds) > 1:
        batches = [
            batch.set_column(
                index, layout.number, batch.column(index).cast(pa.float64(), safe=False)
            )
            for batch in batches
        ]
    batches = [batch for batch in batches if batch.num_rows]
    return PairTable.of(pa.Table.from_batches(batches, schema), layout.number)


@typed
def read_diversity_qrels(
    source: object,
    *,
    query: str = "query",
    subtopic: str = "subtopic",
    doc: str = "doc",
    grade: str = "grade",
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
    query, subtopic, doc, grade : str
        Names of the columns of a source with columns.
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
    rows = _read_rows(source, DIVERSITY_QRELS, names, format)[0].table
    pair, first = number_keys([rows[name].combine_chunks() for name in ("query", "doc")])
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
    pair, first = number_keys([query.indices, subtopic.indices])
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
