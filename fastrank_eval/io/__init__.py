"""Open any source of columns and read it as ordered, validated batches."""

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
    r"""Open tables, streams, files or arrays as one stream of record batches.

    Parameters
    ----------
    source : object
        One of

        * pyarrow Table, RecordBatch, RecordBatchReader or Dataset;
        * a path or URI (``s3://...``) of a Parquet, Arrow IPC (file, stream, Feather 2), CSV or
          TSV file (these two also compressed, ``.csv.gz``);
        * a path or URI of a folder. It is read recursively. Hive partitions (``day=3/``) become
          columns; a file that has such a column too is an error. Hidden files (``.x``, ``_x``) are
          skipped;
        * a glob (``*``, ``?``, ``[...]``, ``**`` for any depth), files in natural order
          (``part-2`` before ``part-10``);
        * a list or tuple of such paths, read in the given order;
        * ``"-"``: an Arrow IPC stream on standard input;
        * any object with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (pandas and polars
          frames, DuckDB relations);
        * a list or an iterator of pyarrow RecordBatch or Table; an iterator is read once;
        * a mapping of column name to one-dimensional array (NumPy, Arrow, or a sequence).
    format : {"parquet", "arrow", "ipc", "feather", "csv", "tsv"}, optional
        Format of the files. By default the suffix decides, else the first bytes.
    where : str or pyarrow.compute.Expression, optional
        A condition on rows: ``"day = '2026-11-19' and slot in (1, 2)"``; only rows that satisfy it
        are read. Files whose folders exclude a text (``day=2026-11-18/``) are not opened, and
        Parquet row groups whose statistics exclude it are not decoded. An Expression reads all
        files and row groups.
    text : str or sequence of str, optional
        Columns that are text in CSV and TSV files, exactly as written: ``007`` is not ``7``. The
        types of the others come from the first lines. Unquoted, an empty field, ``NULL``, ``null``
        and ``\N`` are null in any column.
    categories : str or sequence of str, optional
        Columns that serve as categories or keys. In CSV and TSV files they are text too if the
        first lines spell numbers or booleans in several ways (``007`` and ``7``, ``1`` and ``1.0``,
        ``0.5`` and ``0.50``) or hold integers beyond int64; another spelling further down is an
        error. Numbers that all have the same count of decimals (``0.10``, ``0.25``) stay numbers.
        Dates and times are compared by value: ``2024-01-01`` and ``2024-01-01 00:00:00`` are equal.
        Columns that `where` compares with text are read in the same manner.
    allow_unfinished : bool
        Accept Arrow IPC streams (files and standard input) that end between two batches without
        their end-of-stream marker, as after a producer that was killed; otherwise they are an
        error. A reader that the caller has opened is not checked.

    Returns
    -------
    Source

    Raises
    ------
    SourceError
        If the source cannot be read, has no known format, or holds no file.
    ColumnError
        If an array of a mapping is not one-dimensional, or not as long as the others.
    ArgumentError
        If `format` is unknown, or the source is no file; if `where` cannot be parsed, or does not
        fit the types of its columns.

    Examples
    --------
    >>> source = open_source({"user": [1, 1, 2], "click": [0, 1, 1]})
    >>> source.rows
    3
    >>> [batch.num_rows for batch in source.batches(["click"])]
    [3]
    """
    if format is not None and not (isinstance(format, str) and format in FORMATS):
        formats = ", ".join(FORMATS)
        raise ArgumentError(f"format={format!r} is unknown.{near(format, FORMATS)} Use {formats}.")
    check_flag("allow_unfinished", allow_unfinished)
    names = frozenset(() if text is None else column_names("text", text))
    category_names = frozenset(() if categories is None else column_names("categories", categories))
    condition = None
    if where is not None:
        from fastrank_eval.io.filters import condition_of

        condition = condition_of(where)
        category_names |= condition.categories()
    if isinstance(source, (list, tuple)) and len(source) == 1 and isinstance(source[0], str):
        source = source[0]
    if isinstance(source, str) and source == "-":
        stream = open_standard_input(format, allow_unfinished)
        return stream if condition is None else condition.apply(stream)
    if isinstance(source, (str, os.PathLike)):
        return open_files([source], format, condition, names, allow_unfinished, category_names)
    if isinstance(source, (list, tuple)) and not _is_batch(next(iter(source), None)):
        return open_files(source, format, condition, names, allow_unfinished, category_names)
    if isinstance(source, Source):
        if (names or category_names) and source.as_text is not None:
            source = source.as_text(names, category_names)
        return source if condition is None else condition.apply(source)
    name = type_name(source)
    if format is not None:
        raise ArgumentError(f"format={format!r} applies to files; {name} needs none: leave it out.")
    if hasattr(source, "get_fragments") and hasattr(source, "scanner"):
        return open_dataset(source, name, condition)
    in_memory = _open_in_memory(source, name)
    return in_memory if condition is None else condition.apply(in_memory)


def _is_batch(item: object) -> bool:
    return isinstance(item, (pa.RecordBatch, pa.Table))


def _open_in_memory(source: object, name: str) -> Source:
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
