"""Open anything that holds columns and read it as one ordered stream of Arrow record batches.

The rooms, each importing only from those named before it: `reading` (errors that name what is
read), `soundness` (what Arrow takes on trust), `spelling` (numbers of text files), `source`
(`Source`), `paths` (which files a path stands for), `literals` (values of a column's type),
`ranges` (what is known of a column before it is read), `conditions` (which rows a condition
selects, which it may), `expressions` (the same of a pyarrow Expression), `selection` (the rows of a
source that a condition selects), `memory` (tables, readers, arrays), `streams` (Arrow streams, and
whether they are whole), `formats` (one Parquet, Arrow or CSV file), `files` (many of them as one
source).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from fastrank_eval._lib.arguments import check_flag, column_names, typed
from fastrank_eval._lib.errors import ArgumentError, SourceError, near
from fastrank_eval.io.files import open_files, open_standard_input
from fastrank_eval.io.memory import (
    open_arrays,
    open_batches,
    open_dataset,
    open_reader,
    open_stream_object,
    open_table,
)
from fastrank_eval.io.paths import FORMATS
from fastrank_eval.io.source import Source, foreign, refuse_text, require_columns, type_name

__all__ = ["Source", "open_source", "refuse_text", "require_columns"]


@typed
def open_source(
    source: object,
    *,
    format: str | None = None,  # noqa: A002
    where: object = None,
    text: str | Sequence[str] | None = None,
    categories: str | Sequence[str] | None = None,
    allow_unfinished: bool = False,
) -> Source:
    r"""Open a table, an Arrow stream, files or arrays as one stream of record batches.

    Parameters
    ----------
    source : object
        One of

        * pyarrow Table, RecordBatch, RecordBatchReader or Dataset;
        * a path or URI (``s3://...``) of a Parquet, Arrow IPC (file, stream, Feather 2), CSV or
          TSV file (these two also compressed, ``.csv.gz``); of a folder, read recursively with
          hive partitions (``day=3/``) as columns (such a column is refused where the file has it
          too) and hidden files (``.x``, ``_x``) left out; or
          a glob (``*``, ``?``, ``[...]``, ``**`` for any depth), files in natural order
          (``part-2`` before ``part-10``);
        * a list or tuple of such paths, read in the given order;
        * ``"-"``: an Arrow IPC stream on standard input;
        * any object with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (pandas and polars
          frames, DuckDB relations);
        * a list or an iterator of pyarrow RecordBatch or Table; an iterator is read once;
        * a mapping of column name to one-dimensional array (NumPy, Arrow, or a sequence).
    format : {"parquet", "arrow", "ipc", "feather", "csv", "tsv"}, optional
        Format of the files. By default the suffix tells, else the first bytes.
    where : str or pyarrow.compute.Expression, optional
        Only rows for which this holds: ``"day = '2026-11-19' and slot in (1, 2)"``. Files that
        their folders rule out (``day=2026-11-18/``) are not opened (for an Expression that names
        other columns too, only to see their columns), and Parquet row groups that their statistics
        rule out are not decoded.
    text : str or sequence of str, optional
        Columns that are text in CSV and TSV files, exactly as written: ``007`` is not ``7``. The
        types of the others come from the first lines. Unquoted, an empty field, ``NULL``, ``null``
        and ``\N`` are null in any column.
    categories : str or sequence of str, optional
        Columns whose values tell rows apart. In CSV and TSV files they are text too where the first
        lines write numbers or truth values in several ways (``007`` and ``7``, ``1`` and ``1.0``,
        ``0.5`` and ``0.50``) or as whole numbers beyond int64; a number that is written in another
        way further down is an error. Numbers that all have the same count of decimals (``0.10``,
        ``0.25``) stay numbers. Dates and times are compared by value: ``2024-01-01`` and
        ``2024-01-01 00:00:00`` are equal. Columns that `where` finds equal to texts are read in
        the same manner.
    allow_unfinished : bool
        Accept Arrow IPC streams (files and standard input) that end between two batches without
        their end-of-stream marker, as that of a producer that was killed; otherwise they are an
        error. A reader that was opened elsewhere does not tell.

    Returns
    -------
    Source

    Raises
    ------
    SourceError
        If it cannot be read, has no known format, or holds no file.
    ColumnError
        If an array of a mapping is not one-dimensional, or not as long as the others.
    ArgumentError
        If `format` is unknown, or given for something that is not a file; if `where` cannot be
        read, or does not fit the types of its columns.

    Examples
    --------
    >>> source = open_source({"user": [1, 1, 2], "click": [0, 1, 1]})
    >>> source.rows
    3
    >>> [batch.num_rows for batch in source.batches(["click"])]
    [3]
    """
    if format is not None and not (isinstance(format, str) and format in FORMATS):
        known = ", ".join(FORMATS)
        raise ArgumentError(f"format={format!r} is unknown.{near(format, FORMATS)} Use {known}.")
    check_flag("allow_unfinished", allow_unfinished)
    names = frozenset(() if text is None else column_names("text", text))
    apart = frozenset(() if categories is None else column_names("categories", categories))
    condition = None
    if where is not None:
        from fastrank_eval.io.filters import condition_of

        condition = condition_of(where)
        apart |= condition.categories()
    if isinstance(source, (list, tuple)) and len(source) == 1 and isinstance(source[0], str):
        source = source[0]
    if isinstance(source, str) and source == "-":
        opened = open_standard_input(format, allow_unfinished)
        return opened if condition is None else condition.only(opened)
    if isinstance(source, (str, os.PathLike)):
        return open_files([source], format, condition, names, allow_unfinished, apart)
    if isinstance(source, (list, tuple)) and not _is_batch(next(iter(source), None)):
        return open_files(source, format, condition, names, allow_unfinished, apart)
    if isinstance(source, Source):
        if (names or apart) and source.as_text is not None:
            source = source.as_text(names, apart)
        return source if condition is None else condition.only(source)
    name = type_name(source)
    if format is not None:
        raise ArgumentError(f"format={format!r} applies to files; {name} needs none: leave it out.")
    if hasattr(source, "get_fragments") and hasattr(source, "scanner"):
        return open_dataset(source, name, condition)
    opened = _in_memory(source, name)
    return opened if condition is None else condition.only(opened)


def _is_batch(item: object) -> bool:
    return isinstance(item, (pa.RecordBatch, pa.Table))


def _in_memory(source: object, name: str) -> Source:
    if isinstance(source, pa.Table):
        return open_table(source, name)
    if isinstance(source, pa.RecordBatch):
        return open_table(pa.Table.from_batches([source]), name)
    if isinstance(source, pa.RecordBatchReader):
        return open_reader(source, name)
    if isinstance(source, (list, tuple, Iterator)):
        return open_batches(source, name)
    if isinstance(source, Mapping):
        return open_arrays(source)
    if hasattr(source, "__arrow_c_stream__"):
        return open_stream_object(source, name)
    if hasattr(source, "__arrow_c_array__"):
        with foreign(name):
            return open_table(pa.Table.from_batches([pa.record_batch(source)]), name)
    raise SourceError(
        f"Cannot read rows from {name}. Pass a path, a pyarrow Table or reader, "
        "an object with __arrow_c_stream__ (pandas, polars, DuckDB), or a dict of arrays."
    )
