"""Open several files, or standard input, as one source."""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval._lib.errors import (
    ArgumentError,
    SourceError,
    clean_address,
    near,
    text_keys_hint,
)
from fastrank_eval._lib.log import IO
from fastrank_eval._lib.threads import map_jobs
from fastrank_eval.io.formats import (
    DELIMITER,
    Range,
    inspect_file,
    open_stream,
    partition_ranges,
    read_file,
)
from fastrank_eval.io.paths import FORMATS, File, expand, folder_of, refuse_repeated
from fastrank_eval.io.source import (
    Batch,
    Source,
    check_batches,
    decode_names,
    read_batches,
    reading,
    select,
    selected_row,
    type_name,
)

if TYPE_CHECKING:
    from fastrank_eval.io.filters import Selection, Where


def open_files(
    paths: Sequence[Any],
    format_name: str | None,
    condition: Where | None = None,
    text: frozenset[str] = frozenset(),
) -> Source:
    """Open all files of paths, folders, globs and URIs as one source.

    Parameters
    ----------
    paths : sequence of str or path
    format_name : str or None
        Format of the files; None: the suffix or the first bytes decide.
    condition : Where, optional
        Selects the rows to read; files without such rows are skipped.
    text : frozenset of str
        Text columns of CSV files.
    """
    all_files = [replace(file, text=text) for file in _list_files(paths, format_name)]
    files, schemas, counts, hive = _inspect(all_files, condition)
    name = (
        repr(all_files[0].name) if len(all_files) == 1 else f"{paths[0]!r} ({len(all_files)} files)"
    )
    common, column_errors = _unify(files, schemas, hive)
    untyped = frozenset(
        name
        for file, schema in zip(files, schemas, strict=True)
        if file.format in DELIMITER
        for name in schema.names
    )
    selection = None
    if condition is not None:
        selection = condition.select(common)
        _refuse_columns(selection.columns, column_errors)
    selected_files = _select_files(files, common, selection)

    def read(columns: Sequence[str]) -> Iterator[Batch]:
        _refuse_columns(columns, column_errors)
        return rows(columns)

    first_rows: list[int] = []

    def rows(columns: Sequence[str]) -> Iterator[Batch]:
        row = 0
        first_rows.clear()
        for file, row_filter in selected_files:
            first_rows.append(row)
            names = columns if row_filter is None else row_filter.required_columns(columns)
            targets = {column: common.field(column).type for column in names}
            keep_row_group = (
                None if row_filter is None else partial(_may_select, row_filter, file, common)
            )
            batches = read_file(file, targets, keep_row_group)
            if row_filter is not None:
                batches = row_filter.filter(read_batches(batches), columns)
            for batch in batches:
                row += batch.num_rows
                yield batch

    def locate(row: int) -> str:
        index = bisect_right(first_rows, row) - 1
        file, row_filter = selected_files[index]
        row -= first_rows[index]
        if len(all_files) == 1:
            return "" if row_filter is None else selected_row(row)
        of = f"row {row:,} of" if row_filter is None else f"{selected_row(row)} in"
        return f"{of} {file.name!r}"

    def reopen(texts: frozenset[str]) -> Source:
        return open_files(paths, format_name, condition, text | texts)

    is_counted = None not in counts and all(row_filter is None for _, row_filter in selected_files)
    selected_names = {file.name for file, _ in selected_files}
    total = sum(
        n or 0 for file, n in zip(files, counts, strict=True) if file.name in selected_names
    )
    IO.info(
        "source opened",
        source=clean_address(all_files[0].name if len(all_files) == 1 else str(paths[0])),
        files=len(all_files),
        read=len(selected_files),
        rows=total if is_counted else None,
    )
    return Source(
        name,
        common,
        read,
        rows=total if is_counted else None,
        locate=locate,
        as_text=None if untyped <= text else reopen,
        untyped=untyped,
    )


def open_standard_input(format_name: str | None) -> Source:
    """Open the Arrow IPC stream on standard input."""
    if format_name is not None and FORMATS[format_name] != "arrow":
        raise ArgumentError(
            f"format={format_name!r}: standard input ('-') is read as an Arrow IPC stream only. "
            "Pass the path of the file."
        )
    name = "standard input"
    remedy = "Pipe in an Arrow IPC stream (pyarrow.ipc.new_stream), complete to its end."
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or sys.stdin.isatty():
        raise SourceError(f"Nothing is piped into {name}. {remedy}")
    with reading(name, remedy):
        reader, content = open_stream(stream)
        decode_names(reader.schema)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with reading(name, remedy):
            yield from check_batches(select(reader, columns))
        content.refuse_unfinished(name)

    return Source(name, reader.schema, read, rereadable=False)


def _list_files(paths: Sequence[Any], format_name: str | None) -> list[File]:
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise SourceError(
                f"A list of sources has a {type_name(path)}: pass only paths, or only tables and "
                "record batches."
            )
    files: list[File] = []
    for path in paths:
        if path == "-":
            raise SourceError(
                "Standard input ('-') cannot be read together with other sources; pass it alone."
            )
        files += expand(path, format_name)
    if not files:
        raise SourceError("The list of paths is empty. Name at least one file.")
    refuse_repeated((file.identity, file.name) for file in files)
    return files


def _inspect(
    all_files: Sequence[File], condition: Where | None
) -> tuple[list[File], Sequence[pa.Schema], Sequence[int | None], dict[str, pa.DataType]]:
    """Read schemas and row counts of files that may satisfy a condition.

    The folders of a file decide this.

    If no file may satisfy it, the first is read for its columns.
    """
    hive = _hive_types(all_files)
    files = list(all_files)
    if condition is not None:
        keys = pa.schema(list(hive.items()))
        files = [
            file for file in all_files if condition.may_hold(keys, partition_ranges(file, keys))
        ] or files[:1]
    schemas, counts = zip(*map_jobs(8, inspect_file, files), strict=True)
    return files, schemas, counts, hive


def _select_files(
    files: Sequence[File], schema: pa.Schema, selection: Selection | None
) -> list[tuple[File, Selection | None]]:
    """Return files that may hold selected rows, each with its filter.

    The filter is None if all rows of a file are selected.
    """
    if selection is None:
        return [(file, None) for file in files]
    selected_files: list[tuple[File, Selection | None]] = []
    for file in files:
        ranges = partition_ranges(file, schema)
        if selection.may_hold(ranges):
            row_filter = None if selection.must_hold(ranges) else selection
            selected_files.append((file, row_filter))
    return selected_files


def _may_select(
    selection: Selection, file: File, schema: pa.Schema, ranges: Mapping[str, Range]
) -> bool:
    return selection.may_hold({**ranges, **partition_ranges(file, schema)})


def _refuse_columns(columns: Sequence[str], column_errors: Mapping[str, str]) -> None:
    for column in columns:
        if column in column_errors:
            raise SourceError(column_errors[column])


def _hidden_folders(files: Sequence[File], schemas: Sequence[pa.Schema]) -> dict[str, str]:
    """Return an error for each column that a file and its folder share."""
    column_errors: dict[str, str] = {}
    for file, schema in zip(files, schemas, strict=True):
        for name in file.partitions.keys() & set(schema.names):
            column_errors.setdefault(
                name,
                f"Column {name!r} must come from one place, got a column of {file.name!r} and its "
                f"folder {folder_of(file, name)!r}; leave the column out of the file, or rename "
                "one of both.",
            )
    return column_errors


def _unify(
    files: Sequence[File], schemas: Sequence[pa.Schema], hive: dict[str, pa.DataType]
) -> tuple[pa.Schema, dict[str, str]]:
    """Find the common schema of files, and errors of columns without a type."""
    types_by_file = [
        _types(file, schema, hive) for file, schema in zip(files, schemas, strict=True)
    ]
    text = all(file.format in DELIMITER for file in files)
    types, column_errors = dict(types_by_file[0]), _hidden_folders(files, schemas)
    for file, own in zip(files[1:], types_by_file[1:], strict=True):
        for name in own.keys() ^ types.keys():
            if name in column_errors:
                continue
            lacking, others = (file, own) if name in types else (files[0], types_by_file[0])
            having = next(f for f, its in zip(files, types_by_file, strict=True) if name in its)
            column_errors[name] = (
                f"Column {name!r} is missing in {lacking.name!r}, and {having.name!r} has it. "
                f"Leave the first file out, or write it again with the column.{near(name, others)}"
            )
        for name, kind in own.items():
            common = _promote(types.setdefault(name, kind), kind, text)
            if common is None:
                hint = text_keys_hint([str(kind), str(types[name])]) if name in file.text else ""
                column_errors.setdefault(
                    name,
                    f"Column {name!r} is {kind} in {file.name!r} but {types[name]} in the files "
                    f"before it. Write the files with one type.{hint}",
                )
            else:
                types[name] = common
    fields = [pa.field(name, kind) for name, kind in types.items()]
    return pa.schema(fields + _duplicate_columns(schemas)), column_errors


def _types(file: File, schema: pa.Schema, hive: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Return the type of each column of a file and of its partition keys."""
    types = {key: hive[key] for key in file.partitions}
    for column in schema:
        kind = column.type
        stored = isinstance(kind, pa.BaseExtensionType) and kind != pa.uuid()
        types[column.name] = kind.storage_type if stored else kind
    return types


def _duplicate_columns(schemas: Sequence[pa.Schema]) -> list[pa.Field]:
    """List duplicate columns for the schema.

    They stand twice in it, so reading one is an error.
    """
    duplicates = {
        column.name: column
        for schema in schemas
        for column in schema
        if len(schema.get_all_field_indices(column.name)) > 1
    }
    return list(duplicates.values())


def _promote(a: pa.DataType, b: pa.DataType, text: bool) -> pa.DataType | None:
    """Find a common type of two types, or None; CSV files fall back to text."""
    if a.equals(b):
        return a
    a, b = (kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (a, b))
    a, b = (kind.storage_type if kind == pa.uuid() else kind for kind in (a, b))
    pair = [
        pa.large_string() if pa.types.is_string_view(kind) and not a.equals(b) else kind
        for kind in (a, b)
    ]
    if any(map(pa.types.is_boolean, pair)) and any(map(pa.types.is_integer, pair)) and not text:
        return next(filter(pa.types.is_integer, pair))
    if text and pa.uint64() in pair and all(map(pa.types.is_integer, pair)):
        return pa.uint64()
    try:
        merged = pa.unify_schemas(
            [pa.schema([("", kind)]) for kind in pair], promote_options="permissive"
        )
    except pa.ArrowException:
        return pa.string() if text else None
    return merged.field(0).type


def _hive_types(files: Sequence[File]) -> dict[str, pa.DataType]:
    """Return the type of each partition key.

    It is int64 if all values are distinct integers, as text and as numbers.

    Other keys are strings.
    """
    values: dict[str, set[str]] = {}
    for file in files:
        for key, value in file.partitions.items():
            values.setdefault(key, set()).update([] if value is None else [value])
    return {
        key: pa.int64()
        if texts
        and all(re.fullmatch(r"-?[0-9]{1,18}", text) for text in texts)
        and len(set(map(int, texts))) == len(texts)
        else pa.string()
        for key, texts in values.items()
    }
