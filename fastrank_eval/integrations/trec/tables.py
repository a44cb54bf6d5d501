"""Read runs and judgements."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import arrow_column, as_array, bytes_column, decoded
from fastrank_eval._lib.errors import ArgumentError, ColumnError, SourceError, near
from fastrank_eval._lib.threads import in_order
from fastrank_eval.integrations.trec.blocks import (
    Text,
    is_stream,
    text_of_bytes,
    text_of_stream,
    texts_at,
)
from fastrank_eval.integrations.trec.lines import QRELS, RUN, Layout, Lines, columns_of_lines
from fastrank_eval.integrations.trec.pairs import Keyed, check_choice, without_repeats
from fastrank_eval.io import open_source, require_columns
from fastrank_eval.io.paths import FORMATS
from fastrank_eval.io.source import first_line, type_name

__all__ = [
    "SUBTOPICS",
    "batches_of_columns",
    "batches_of_mapping",
    "is_nested",
    "keyed_qrels",
    "keyed_run",
    "read_qrels",
    "read_run",
    "rows_of",
]


#: What a document covers, in a table of judgements.
SUBTOPICS = pa.list_(pa.int64())

_ROWS = 1 << 20


def is_nested(source: object) -> bool:
    """Whether this is a mapping of mappings, as pytrec_eval takes runs and qrels."""
    return isinstance(source, Mapping) and all(isinstance(v, Mapping) for v in source.values())


def batches_of_columns(
    source: object, layout: Layout, names: Mapping[str, str], format_: str | None
) -> Iterator[pa.RecordBatch]:
    """The columns of a table, frame or file as strings and numbers.

    Parameters
    ----------
    source : object
        What `open_source` takes.
    layout : Layout
        Names the columns wanted; ``run`` may be missing.
    names : mapping of str to str
        What the source calls them.
    format_ : str or None
        Format of files.

    Raises
    ------
    ColumnError
        If a column is missing, null somewhere, NaN, or of a type that is no id or no number.
    SourceError
        If the source cannot be read.
    """
    ids = [names.get(column, column) for column in layout.columns if column != layout.number]
    opened = open_source(source, format=format_, text=ids)
    wanted = {
        column: names.get(column, column)
        for column in layout.columns
        if column != "run" or "run" in opened.schema.names
    }
    if layout is QRELS and _has_lists(opened.schema, "subtopics"):
        wanted["subtopics"] = "subtopics"
    require_columns(opened.schema, wanted.values(), source=opened.name)
    row = 0
    for whole in opened.batches(list(dict.fromkeys(wanted.values()))):
        for start in range(0, whole.num_rows, _ROWS):
            batch = whole.slice(start, _ROWS)
            columns = []
            for column, name in wanted.items():
                place = _Column(opened.name, name, row)
                values = decoded(batch.column(name))
                if column == layout.number:
                    columns.append(_numbers(values, place, layout))
                elif column == "subtopics":
                    columns.append(_lists(values, place))
                else:
                    columns.append(_texts(values, place))
            yield pa.RecordBatch.from_arrays(columns, names=list(wanted))
            row += batch.num_rows


def batches_of_mapping(source: Mapping[Any, Any], layout: Layout) -> Iterator[pa.RecordBatch]:
    """The pairs of ``{query: {doc: number}}``, in its order; matched by their keys from here on.

    Raises
    ------
    SourceError
        If a key is neither text nor an integer, or a value is no number, is NaN, or is a grade
        without end.
    """
    pairs = (
        (_id(query, "query"), _id(doc, "document"), value)
        for query, docs in source.items()
        for doc, value in docs.items()
    )
    while part := list(islice(pairs, _ROWS)):
        queries, docs, values = zip(*part, strict=True)
        columns = [bytes_column(ids, pa.string()) for ids in (queries, docs)]
        numbers = _values(values, layout)
        if numbers is None:
            query, doc, value = next(row for row in part if _values(row[2:], layout) is None)
            raise SourceError(
                f"Query {query.decode()!r}, document {doc.decode()!r}: the {layout.number} "
                f"{value!r} is no {'finite ' * (layout.number == 'grade')}number."
            )
        names = ["query", "doc", layout.number]
        yield pa.RecordBatch.from_arrays([*columns, arrow_column(numbers)], names=names)


@dataclass(frozen=True)
class _Column:
    """A column of a source, and the row that its next values begin with."""

    source: str
    name: str
    row: int

    def refuse(self, bad: np.ndarray, what: str) -> NoReturn:
        """Name the first row for which `bad` says so."""
        row = self.row + int(bad.argmax())
        raise ColumnError(f"Column {self.name!r} of {self.source} {what} (row {row:,}).")


def _texts(values: pa.Array, column: _Column) -> pa.Array:
    kind = values.type
    if values.null_count:
        column.refuse(as_array(values.is_null()).view(np.bool_), "is null: every row needs an id")
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


def _has_lists(schema: pa.Schema, name: str) -> bool:
    if name not in schema.names:
        return False
    kind = schema.field(name).type
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _lists(values: pa.Array, column: _Column) -> pa.Array:
    try:
        return values.cast(SUBTOPICS)
    except pa.ArrowException as error:
        raise ColumnError(
            f"Column {column.name!r} of {column.source} is {values.type}, not lists of whole "
            "numbers: cast it, or call it otherwise."
        ) from error


def _numbers(values: pa.Array, column: _Column, layout: Layout) -> pa.Array:
    kind = values.type
    if values.null_count:
        column.refuse(
            as_array(values.is_null()).view(np.bool_),
            f"is null: leave out what has no {layout.number}",
        )
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ColumnError(
            f"Column {column.name!r} of {column.source} is {kind}, not numbers: "
            "cast it to float64 or int64."
        )
    whole = layout.number == "grade" and not pa.types.is_floating(kind)
    items = as_array(values)
    numbers = items.astype(np.int64 if whole else np.float64)
    # Only 64 bits can be too many: a score above 2^53, an unsigned grade above 2^63.
    if kind in (pa.int64(), pa.uint64()):
        back = numbers.astype(items.dtype)
        changed = (back != items) | ((numbers < 0) != (items < 0))
        if changed.any():
            column.refuse(changed, f"holds an integer that {numbers.dtype} does not")
    elif numbers.dtype == np.float64:
        if layout.number == "score":
            bad, what = np.isnan(numbers), "is NaN"
        else:
            bad, what = ~np.isfinite(numbers), "is NaN or infinite"
        if bad.any():
            column.refuse(bad, what)
    return arrow_column(np.ascontiguousarray(numbers))


def _id(key: object, what: str) -> bytes:
    if isinstance(key, str):
        try:
            return key.encode()
        except UnicodeEncodeError as error:
            raise SourceError(f"The {what} {key!r} is not valid text: {error}.") from error
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return str(key).encode()
    raise SourceError(f"The {what} {key!r} is {type_name(key)}: ids are text or integers.")


def _values(values: Sequence[Any], layout: Layout) -> np.ndarray | None:
    """The numbers of a mapping; None where one of them is none."""
    if not all(isinstance(value, int | float | np.number | np.bool_) for value in values):
        return None
    grades = layout.number == "grade"
    whole = grades and not any(isinstance(value, float | np.floating) for value in values)
    try:
        numbers = np.array(values, np.int64 if whole else np.float64)
    except (OverflowError, TypeError):
        return None
    wrong = ~np.isfinite(numbers) if grades else np.isnan(numbers)
    return None if wrong.any() else numbers


_TREC = "trec"


@typed
def read_run(
    source: object,
    *,
    query: str = "query",
    doc: str = "doc",
    score: str = "score",
    duplicates: str = "error",
    format: str | None = None,  # noqa: A002 - what the option is called everywhere
) -> pa.Table:
    r"""Read what a system retrieved: TREC run files, columns, or dicts of scores.

    A line is ``qid Q0 docno rank score tag``, its fields separated by any number of blanks and
    tabs. As in trec_eval, what follows the tag is left out, and so is the rank: documents rank by
    score. Lines that are blank or begin with ``#`` hold nothing; lines may end in CR LF.

    Parameters
    ----------
    source : object
        One of

        * a path or URI of a text file, gzipped or not, whatever its suffix; of a folder or glob
          of such files; or a list of them, read as one run;
        * ``"-"`` (standard input), an open file, or the text as bytes;
        * a Parquet or Arrow file, a pyarrow Table, a frame, or anything else that `open_source`
          takes, with columns of ids (text, or integers, which stand as their digits) and numbers;
        * ``{query: {doc: score}}``, as pytrec_eval takes it.
    query, doc, score : str
        Columns of a source that has columns. A column ``run`` is kept where there is one.
    duplicates : {"error", "first", "last", "max"}
        A document that a query has twice: an error, or which of its rows is kept (``"max"``: the
        one with the highest score, the first of those).
    format : {"trec", "parquet", "arrow", "ipc", "feather", "csv", "tsv"}, optional
        By default the first bytes tell Parquet and Arrow from text; CSV has to be named.

    Returns
    -------
    pyarrow.Table
        One row a retrieved document, in the order of the source: ``query`` and ``doc``, string;
        ``score``, float64, correctly rounded, may be infinite; ``run``, string, the tag (not of
        dicts). No nulls.

    Raises
    ------
    SourceError
        If the source cannot be read, is not UTF-8, has a line of fewer fields or a score that is
        no number or NaN, or has a pair twice; names the file and the line, counted from 1.
    ColumnError
        If a column is missing, null somewhere or of the wrong type.
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
    return _read(source, RUN, names, duplicates, format).table


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
    r"""Read relevance judgements: TREC qrels files, columns, or dicts of grades.

    A line is ``qid iter docno rel``; the second field is left out, a fifth is an error. Otherwise
    lines are read as `read_run` reads them.

    Parameters
    ----------
    source : object
        As in `read_run`; ``{query: {doc: grade}}``. A column ``subtopics`` of lists of whole
        numbers is kept, as `read_diversity_qrels` makes it.
    query, doc, grade : str
        Columns of a source that has columns.
    duplicates : {"error", "first", "last", "max"}
        A document judged twice for a query: an error, or which judgement is kept.
    format : str, optional
        As in `read_run`.

    Returns
    -------
    pyarrow.Table
        One row a judged document, in the order of the source: ``query`` and ``doc``, string;
        ``grade``, int64 if all grades are integers, else float64; finite, may be negative.

    Raises
    ------
    SourceError, ColumnError, ArgumentError
        As `read_run` does; a grade that is infinite is an error too.

    Examples
    --------
    >>> read_qrels(b"q1 0 d3 1\nq1 0 d5 0\n")["grade"].to_pylist()
    [1, 0]
    """
    names = {"query": query, "doc": doc, "grade": grade}
    return _read(source, QRELS, names, duplicates, format).table


def keyed_run(source: object, duplicates: str = "error") -> Keyed:
    """What `read_run` reads, with what joining needs; a `Keyed` is returned as it is."""
    if isinstance(source, Keyed):
        return source
    return _read(source, RUN, {}, duplicates, None)


def keyed_qrels(source: object, duplicates: str = "error") -> Keyed:
    """What `read_qrels` reads, with what joining needs; a `Keyed` is returned as it is."""
    if isinstance(source, Keyed):
        return source
    return _read(source, QRELS, {}, duplicates, None)


def _read(
    source: object, layout: Layout, names: Mapping[str, str], duplicates: str, form: str | None
) -> Keyed:
    check_choice(duplicates)
    rows, place = _rows(source, layout, names, form)
    return without_repeats(rows, duplicates, place)


def rows_of(source: object, layout: Layout, names: Mapping[str, str], form: str | None) -> pa.Table:
    """The columns of a layout, pairs of query and document that stand twice included."""
    return _rows(source, layout, names, form)[0].table


def _rows(
    source: object, layout: Layout, names: Mapping[str, str], form: str | None
) -> tuple[Keyed, Callable[[int, int], str]]:
    """All rows, and what tells where two of them stand."""
    known = (_TREC, *FORMATS)
    if form is not None and form not in known:
        raise ArgumentError(
            f"format={form!r} is unknown.{near(str(form), known)} Use {', '.join(known)}."
        )
    texts = None if form not in (None, _TREC) else _texts_of(source)
    if texts is not None:
        return _read_texts(texts, layout)
    if form == _TREC:
        raise ArgumentError("format='trec' applies to text: leave it out.")
    if isinstance(source, Mapping) and is_nested(source):
        batches = batches_of_mapping(source, layout)
    else:
        batches = batches_of_columns(source, layout, names, form)
    found = list(batches)
    kept = found[0].schema.names if found else [name for name in layout.columns if name != "run"]
    rows = Keyed(_table(found, kept, layout), layout.number)
    return rows, lambda one, other: f"row {one:,} and row {other:,}"


def _texts_of(source: object) -> list[Text] | None:
    """The texts that a source stands for; None where it holds columns."""
    if isinstance(source, bytes | bytearray | memoryview):
        return [text_of_bytes(source)]
    if (isinstance(source, str) and source == "-") or is_stream(source):
        return [text_of_stream(source)]
    if isinstance(source, str | os.PathLike):
        source = [source]
    if not isinstance(source, list | tuple):
        return None
    texts = texts_at(source)
    tables = [text.name for text in texts if text.holds_columns()]
    if tables and len(tables) < len(texts):
        raise SourceError(
            f"Of {len(texts)} files {tables[0]} and {len(tables) - 1} more hold columns, "
            "the others text. Read them by themselves."
        )
    return None if tables else texts


def _read_texts(texts: Iterable[Text], layout: Layout) -> tuple[Keyed, Callable[[int, int], str]]:
    #: Where the rows of each block stand: the first row, the text, the first line.
    places: list[tuple[int, str, int]] = []
    blocks: list[Lines] = []
    rows = first = 0
    for text, lines in _in_threads(_blocks_of(texts), layout):
        if places and places[-1][1] != text.name:
            first = 0
        if lines.fault is not None:
            line, what = lines.fault
            raise SourceError(
                f"{text.name}, line {first + line + 1:,}: {what}. Correct it, or leave it out."
            )
        places.append((rows, text.name, first))
        blocks.append(lines)
        rows += lines.batch.num_rows
        first += lines.lines

    def place(row: int) -> tuple[str, int]:
        at = bisect_right(places, row, key=lambda of_block: of_block[0]) - 1
        start, name, line = places[at]
        return name, line + blocks[at].line(row - start) + 1

    def both(one: int, other: int) -> str:
        (name, line), (other_name, other_line) = place(one), place(other)
        there = "" if name == other_name else f"{other_name}, "
        return f"{name}, line {line:,} and {there}line {other_line:,}"

    table = _table([block.batch for block in blocks], list(layout.columns), layout)
    marks = [block.marks for block in blocks if block.batch.num_rows]
    return Keyed(table, layout.number, marks), both


def _blocks_of(texts: Iterable[Text]) -> Iterator[tuple[Text, bytes]]:
    return ((text, block) for text in texts for block in text.blocks())


def _in_threads(
    blocks: Iterator[tuple[Text, bytes]], layout: Layout
) -> Iterator[tuple[Text, Lines]]:
    """Blocks in their order, read by all threads; no more at a time than keeps them busy."""

    def read(job: tuple[Text, bytes]) -> tuple[Text, Lines]:
        text, block = job
        return text, columns_of_lines(block, layout)

    return in_order(pa.cpu_count(), read, blocks)


def _table(batches: list[pa.RecordBatch], names: list[str], layout: Layout) -> pa.Table:
    kinds = {batch.column(layout.number).type for batch in batches}
    grades = layout.number == "grade"
    number = pa.int64() if grades and kinds <= {pa.int64()} else pa.float64()
    # Texts that repeat are dictionaries, if they come from lines.
    kind = {name: batches[0].schema.field(name).type for name in names} if batches else {}
    kind[layout.number] = number
    schema = pa.schema([(name, kind.get(name, pa.string())) for name in names])
    if len(kinds) > 1:
        batches = [
            batch.set_column(
                names.index(layout.number),
                layout.number,
                batch.column(layout.number).cast(pa.float64(), safe=False),
            )
            for batch in batches
        ]
    return pa.Table.from_batches([batch for batch in batches if batch.num_rows], schema)
