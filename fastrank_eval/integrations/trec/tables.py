"""Read runs and judgements from any form: text, JSON, columns, dicts."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import checked, one_of, typed
from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
)
from fastrank_eval._lib.errors import ArgumentError, ColumnError, SourceError
from fastrank_eval._lib.threads import map_jobs
from fastrank_eval.integrations.trec.columns import (
    BY_RANK,
    columns_of,
    known_names,
    read_columns,
    table_of,
    text_names,
)
from fastrank_eval.integrations.trec.dicts import (
    LARGEST_GRADE,
    NOTHING,
    Asked,
    are_whole,
    dicts_of,
    is_nested,
    read_mapping,
    read_ranked,
    refuse_levels,
)
from fastrank_eval.integrations.trec.lines import (
    QRELS,
    RUN,
    FileColumns,
    Lines,
    Text,
    is_pipe,
    is_stream,
    read_lines,
    text_of_bytes,
    text_of_stream,
    texts_of_paths,
)
from fastrank_eval.integrations.trec.nested import (
    WHOLE,
    is_json,
    is_ranked,
    is_row,
    nearest_layouts,
    plain,
    read_header,
    read_json,
)
from fastrank_eval.integrations.trec.pairs import (
    DUPLICATES,
    PairTable,
    decoded,
)
from fastrank_eval.io.paths import FORMATS
from fastrank_eval.io.source import (
    closing_readers,
)

#: Grades of a scale, if those of each query ascend by 1 in the order of lines.
_LONGEST_SCALE = 2
_TREC = "trec"
#: What to do about a pair that is there twice.
DUPLICATES_OPTION = "pass duplicates='first', 'last' or 'max' (--duplicates)."
#: Lines without names of columns that have three fields.
_TRIPLES = {
    "run": replace(
        RUN,
        form="qid docno rank",
        columns={"query": 0, "doc": 1, "score": 2},
        repeated=("query",),
        fields=3,
        more=False,
    ),
    "qrels": replace(
        QRELS, form="qid docno rel", columns={"query": 0, "doc": 1, "grade": 2}, fields=3
    ),
}


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

    Sources are TREC run files, JSON, columns, or objects of Python; the form is found by looking at
    them. A line of TREC is ``qid Q0 docno rank score tag``; any number of blanks and tabs separates
    fields. As in trec_eval, the rank and fields after the tag are ignored: documents rank by score.
    Blank lines and lines that begin with ``#`` are ignored; lines may end in CR LF.

    Parameters
    ----------
    source : object
        One of

        * a path or URI of a text file of any suffix, compressed (gzip, zstd, LZ4) or not; of a
          folder or glob of such files; or a list of them, read as one run;
        * ``"-"`` (standard input), a pipe (``<(...)`` of a shell), an open file, or the text as
          bytes. Text is lines of TREC; lines ``qid docno rank`` (MS MARCO) or ``qid docno score``;
          CSV or TSV with a line of names; or JSON of a form below, or lines of it;
        * a Parquet or Arrow file, a pyarrow Table, a frame, or any other source of `open_source`,
          with columns of ids (text, or integers, which become their digits) and numbers. A column
          of lists of documents has one row for each query;
        * ``{query: {doc: score}}``, the form of pytrec_eval; ``{query: [doc, ...]}``, best first;
          ``{query: [(doc, score), ...]}``; ``ranx.Run``; the predictions of MTEB, with one subset
          and split;
        * a list or an iterator of rows: dicts, or the named tuples of ir_measures and ir_datasets;
          ``results`` of a row, as of sentence-transformers, are its documents.

        Without scores, the score is the negative rank: the column ``rank``, or the place in a list.
    query, doc, score : str, optional
        Names of the columns of a source with columns. By default ``query, doc``, or those of
        PyTerrier (``qid, docno``), ir_measures (``query_id, doc_id``), ranx (``q_id, doc_id``),
        BEIR (``query-id, corpus-id``) or sentence-transformers (``query_id, corpus_id``), and
        ``score``; lists are ``retrieved_context_ids`` (ragas, beside ``user_input``),
        ``retrieved_ids`` (LlamaIndex), ``corpus-ids`` (MTEB) or ``prediction`` (Spark). A column
        ``run`` is kept if there is one.
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

    Sources have the forms of `read_run`. A line of TREC is ``qid iter docno rel``; the second field
    is ignored, a fifth is an error. Otherwise lines are read as by `read_run`.

    Parameters
    ----------
    source : object
        As in `read_run`: ``{query: {doc: grade}}``, lines ``qid docno rel``, ``ranx.Qrels``. The
        documents of ``{query: {doc, ...}}``, ``{query: [doc, ...]}`` and of columns of lists
        without grades have grade 1. A column ``subtopics`` of lists of whole numbers, from
        `read_diversity_qrels`, is kept.
    query, doc, grade : str, optional
        Names of the columns of a source with columns. By default those of `read_run`, and
        ``grade``, ``label`` or ``relevance``, the first that the source has; ``score`` beside the
        ids of ranx and BEIR; lists are ``reference_context_ids`` (ragas), ``expected_ids``
        (LlamaIndex) or ``label`` (Spark).
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
    asked: Asked = NOTHING,
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
    asked : mapping of str to mapping of str
        Documents by query; a run of dicts keeps their scores, for `RankedDicts`.
    """
    if isinstance(source, PairTable):
        return source
    if isinstance(source, Judgments):
        if file_columns is not QRELS:
            raise ArgumentError(
                "run: must be a run, got Judgments, which come first; pass the run second."
            )
        return source.pairs
    checked("duplicates", duplicates, one_of(*DUPLICATES))
    pairs = read_rows(source, file_columns, names, form, asked)
    pairs.duplicates, pairs.remedy = duplicates, remedy
    return pairs


class Judgments:
    """Keep relevance judgements for many runs.

    Pass it as `qrels`: the judgements are read, checked and copied once. Changes of the source
    afterwards change nothing.

    Parameters
    ----------
    qrels : object
        A source of `read_qrels`, or the result of `read_diversity_qrels`.
    query, doc, grade : str, optional
        Names of the columns of a source with columns, as in `read_qrels`.
    duplicates : {"error", "first", "last", "max"}
        What to do with a document judged twice for a query, as in `read_qrels`.

    Raises
    ------
    SourceError, ColumnError, ArgumentError
        As `read_qrels` does.

    Examples
    --------
    >>> from fastrank_eval import trec
    >>> judgments = trec.Judgments({"q1": {"d3": 1, "d5": 0}})
    >>> [trec.evaluate(judgments, {"q1": run}, "RR").value("RR") for run in ({"d3": 2.5},
    ...                                                          {"d5": 2.5, "d3": 1.5})]
    [1.0, 0.5]
    """

    @typed
    def __init__(
        self,
        qrels: object,
        *,
        query: str | None = None,
        doc: str | None = None,
        grade: str | None = None,
        duplicates: str = "error",
    ) -> None:
        names = {"query": query, "doc": doc, "grade": grade}
        pairs = read_pairs(qrels, QRELS, duplicates, names)
        if pairs.dicts is not None:
            copied = {query: dict(docs) for query, docs in pairs.dicts.by_query.items()}
            pairs = PairTable(replace(pairs.dicts, by_query=copied), pairs.number)
        elif "subtopics" not in pairs.rows.column_names:
            comments = pairs.comments
            pairs = read_mapping(dicts_of(pairs.table, pairs.number), QRELS)
            pairs.comments = comments
        #: For `read_pairs`.
        self.pairs = pairs

    def __repr__(self) -> str:
        dicts = self.pairs.dicts
        queries = len(dicts.by_query) if dicts else self.pairs.rows["query"].unique().length()
        return f"<Judgments of {len(self.pairs.numbers):,} documents for {queries:,} queries>"


def read_rows(
    source: object,
    file_columns: FileColumns,
    names: Mapping[str, str | None],
    form: str | None,
    asked: Asked = NOTHING,
) -> PairTable:
    """Read all rows."""
    checked("format", form, one_of(None, _TREC, *FORMATS))
    texts = None if form not in (None, _TREC) else _find_texts(source, file_columns, names)
    if texts is None:
        if form == _TREC:
            raise ArgumentError("format='trec' applies to text: leave it out.")
        return _read_objects(source, file_columns, names, form, asked)
    text = texts[0]
    if form == _TREC or not (is_json(text) or _is_header(text, file_columns, names)):
        return _read_lines(texts, file_columns)
    try:
        if is_json(text):
            content = _as_json(text, file_columns, names)
        else:
            content = read_header(text, text_names(file_columns, names))
        return _read_objects(content, file_columns, names, form, asked, text.name)
    except (SourceError, ColumnError) as error:
        if text.name in str(error):
            raise
        raise type(error)(f"{text.name}: {error}") from error


def _as_json(text: Text, file_columns: FileColumns, names: Mapping[str, str | None]) -> object:
    """Read JSON; refuse what is neither dicts nor rows."""
    known = known_names(file_columns, names)
    content = plain(read_json(text) or {}, known, text.name)
    if isinstance(content, Mapping) and (
        is_nested(content) or is_ranked(content) or is_row(content, known)
    ):
        return content
    raise SourceError(
        f"Cannot read {text.name}: its JSON has another form than those that are read: "
        f"{nearest_layouts(file_columns.number, 1)}. Write it as one of them."
    )


def _read_objects(
    source: object,
    file_columns: FileColumns,
    names: Mapping[str, str | None],
    form: str | None,
    asked: Asked,
    whole: str = WHOLE,
) -> PairTable:
    """Read what is no text: dicts, rows, tables, files of columns.

    `whole` is as for `plain`.
    """
    known = known_names(file_columns, names)
    content: Any = plain(source, known, whole)
    is_dict = is_nested(content)
    if is_dict or is_ranked(content, known):
        if "subtopic" in file_columns.columns:
            raise ArgumentError(
                "judgements by subtopic are no dicts of dicts: pass columns query, subtopic, doc "
                "and grade, as {'query': [...], ...}."
            )
        if is_dict:
            refuse_levels(content, file_columns.number, whole)
            return read_mapping(content, file_columns, asked)
        return read_ranked(content, file_columns)
    with closing_readers():
        return read_columns(content, file_columns, names, form)


def _find_texts(
    source: object, file_columns: FileColumns, names: Mapping[str, str | None]
) -> list[Text] | None:
    """List the texts of a source, or None if it has columns."""
    if isinstance(source, Text):
        return [source]
    if isinstance(source, bytes | bytearray | memoryview):
        return [text_of_bytes(source)]
    if (isinstance(source, str) and source == "-") or is_stream(source) or is_pipe(source):
        return [text_of_stream(source)]
    if isinstance(source, str | os.PathLike):
        source = [source]
    if not isinstance(source, list | tuple):
        return None
    if source and is_row(source[0], known_names(file_columns, names)):
        return None
    texts = texts_of_paths(source)
    files = [
        text.name
        for text in texts
        if text.has_columns() or (text.delimiter() and _is_header(text, file_columns, names))
    ]
    if files and len(files) < len(texts):
        other = next(text.name for text in texts if text.name not in files)
        raise SourceError(
            f"{files[0]} has columns, and {other} is text. Read each kind by itself, and join the "
            f"columns query, doc and {file_columns.number} of both tables (pyarrow.concat_tables)."
        )
    if files:
        return None
    for text in texts if len(texts) > 1 else []:
        if is_json(text):
            raise SourceError(
                f"{text.name} is JSON, and is read by itself. Pass each file alone; several tasks "
                "are data sets: evaluate({task: (qrels, file), ...})."
            )
        if _is_header(text, file_columns, names):
            kind = "tsv" if b"\t" in text.head.partition(b"\n")[0] else "csv"
            raise SourceError(
                f"{text.name} has a line of names, and is read by itself. Call the files *.{kind}, "
                f"or pass format={kind!r} to read_run or read_qrels."
            )
    return texts


def _is_header(text: Text, file_columns: FileColumns, names: Mapping[str, str | None]) -> bool:
    """Return whether the first line of a file has names of columns."""
    fields = text.header()
    if not fields or fields[0].startswith("#"):
        return False
    columns = columns_of(fields, file_columns, names, fields)
    if {columns["query"], columns["doc"]} <= {*fields}:
        return True
    few = len(" ".join(fields).split()) < file_columns.fields
    return few and text.delimiter() is not None and not _is_triple(text, file_columns)


def _is_triple(text: Text, file_columns: FileColumns) -> bool:
    """Return whether lines are query, document and number."""
    fields = text.first_fields()
    if file_columns.kind not in _TRIPLES or len(fields) != _TRIPLES[file_columns.kind].fields:
        return False
    return re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", fields[-1], re.IGNORECASE) is not None


def _read_lines(texts: Sequence[Text], file_columns: FileColumns) -> PairTable:
    """Read the lines of TREC, or lines of three fields."""
    if not _is_triple(texts[0], file_columns):
        return _read_texts(texts, file_columns)
    pairs = _read_texts(texts, _TRIPLES[file_columns.kind])
    numbers, number = pairs.numbers, file_columns.number
    query = decoded(pairs.rows)["query"].combine_chunks().dictionary_encode().indices
    ranks = _ranks(as_array(query).astype(np.int64))
    is_whole = are_whole(numbers)
    is_rank = is_whole and any(np.array_equal(numbers, ranks + first) for first in (0, 1))
    name = texts[0].name
    if number == "grade":
        is_run = is_rank and ranks.max(initial=0) > _LONGEST_SCALE
        if is_run or not are_whole(numbers, LARGEST_GRADE):
            raise SourceError(
                f"{name} has lines of three fields whose last ones are no grades; it looks like a "
                "run, which comes second. If they are grades, write a first line: query_id, "
                "doc_id, relevance."
            )
        return pairs
    if not is_rank:
        if is_whole:
            raise SourceError(
                f"{name} has lines of three fields, and it is unclear whether the last one is a "
                "rank or a score: ranks count 1, 2, 3 in each query. Write a first line: query_id, "
                f"doc_id and rank or score. Layouts that are read: {nearest_layouts(number, 3)}."
            )
        return pairs
    rows = pairs.rows
    index = rows.schema.get_field_index(number)
    rows = rows.set_column(index, number, arrow_column(0 - numbers))
    by_rank = PairTable(rows, number, pairs.describe, comments=pairs.comments)
    by_rank.notes = (BY_RANK,)
    return by_rank


def _ranks(query: np.ndarray) -> np.ndarray:
    """Number the rows of each query from 0, in their order."""
    order = np.argsort(query, kind="stable")
    ranks = np.empty(len(query), np.int64)
    ranks[order] = np.arange(len(query)) - np.searchsorted(query[order], query[order])
    return ranks


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
            layouts = ""
            is_first = rows + lines.batch.num_rows == 0
            if is_first and "looks like" not in problem and file_columns.kind in _TRIPLES:
                fields = max(len(text.first_fields()), len(text.header()))
                nearest = nearest_layouts(file_columns.number, fields)
                layouts = f" Layouts that are read: {nearest}."
            raise SourceError(
                f"{text.name}, line {first + line + 1:,}: {problem}. Correct it, or leave it out."
                f"{layouts}"
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

    table = table_of([block.batch for block in blocks], list(file_columns.columns), file_columns)
    comments = sum(block.comments for block in blocks)
    return PairTable(table, file_columns.number, describe, comments=comments)


def _read_blocks(texts: Iterable[Text], file_columns: FileColumns) -> Iterator[tuple[Text, Lines]]:
    """Read blocks in all threads, in order, and not too far ahead."""

    def read(item: tuple[Text, bytearray]) -> tuple[Text, Lines]:
        text, block = item
        return text, read_lines(block, file_columns)

    blocks = ((text, block) for text in texts for block in text.blocks())
    return map_jobs(pa.cpu_count(), read, blocks)
