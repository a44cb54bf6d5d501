"""read_run() and read_qrels(): files, bytes, tables and dicts to one table of pairs."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa

from fastrank_eval.engine import in_order
from fastrank_eval.errors import ArgumentError, SourceError, near
from fastrank_eval.sources.paths import FORMATS
from fastrank_eval.trec.blocks import (
    Text,
    is_stream,
    text_of_bytes,
    text_of_stream,
    texts_at,
)
from fastrank_eval.trec.keyed import Keyed
from fastrank_eval.trec.lines import QRELS, RUN, Layout, Lines, columns_of_lines
from fastrank_eval.trec.repeats import check_choice, without_repeats
from fastrank_eval.trec.tables import batches_of_columns, batches_of_mapping, is_nested
from fastrank_eval.typed_arguments import typed

__all__ = ["keyed_qrels", "keyed_run", "read_qrels", "read_run", "rows_of"]

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
