"""Many files, or standard input, as one source: one schema, one order of rows."""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval._lib.errors import ArgumentError, SourceError, near, text_keys_hint
from fastrank_eval.io.csv_numbers import in_one_way
from fastrank_eval.io.formats import DELIMITER, checked, inspect_file, open_stream, read_file
from fastrank_eval.io.paths import FORMATS, File, expand, folder_of
from fastrank_eval.io.pruning import Range, partition_ranges
from fastrank_eval.io.source import (
    Batch,
    Source,
    decoded,
    read_parts,
    reading,
    select,
    selected_row,
    type_name,
)

if TYPE_CHECKING:
    from fastrank_eval.io.filters import Selection, Where

__all__ = ["open_files", "open_standard_input"]


def open_files(
    places: Sequence[Any],
    forced: str | None,
    condition: Where | None = None,
    text: frozenset[str] = frozenset(),
    allow_unfinished: bool = False,
    categories: frozenset[str] = frozenset(),
) -> Source:
    """Open all files that paths, folders, globs and URIs stand for, in the given order.

    Only the rows that `condition` selects are read; files that can hold none are left out. The
    columns `text` of CSV files are text, those of `categories` where equal numbers may be written
    in several ways. Arrow streams without their end-of-stream marker are
    refused unless `allow_unfinished`.
    """
    listed = [
        replace(file, text=text, categories=categories, allow_unfinished=allow_unfinished)
        for file in _listed(places, forced)
    ]
    files, schemas, counts, hive = _inspected(listed, condition)
    name = repr(listed[0].name) if len(listed) == 1 else f"{places[0]!r} ({len(listed)} files)"
    schemas, spelling = in_one_way(schemas, [file.format in DELIMITER for file in files])
    common, faults = _unify(files, schemas, hive)
    selection = None
    if condition is not None:
        selection = condition.select(common, spelling)
        _refuse_faults(selection.columns, faults)
    parts = _parts(files, common, selection)

    def read(columns: Sequence[str]) -> Iterator[Batch]:
        _refuse_faults(columns, faults)
        return rows(columns)

    firsts: list[int] = []

    def rows(columns: Sequence[str]) -> Iterator[Batch]:
        row = 0
        firsts.clear()
        ways = dict(spelling.ways)  # one for all files: fewer are left with each batch
        for file, chosen in parts:
            firsts.append(row)
            names = columns if chosen is None else chosen.and_its_own(columns)
            targets = {column: common.field(column).type for column in names}
            wanted = None if chosen is None else partial(_may_select, chosen, file, common)
            found = read_file(replace(file, ways=ways), targets, wanted)
            for part in found if chosen is None else chosen.of(read_parts(found), columns):
                row += part.num_rows
                yield part

    def locate(row: int) -> str:
        at = bisect_right(firsts, row) - 1
        file, chosen = parts[at]
        row -= firsts[at]
        if len(listed) == 1:
            return "" if chosen is None else selected_row(row)
        of = f"row {row:,} of" if chosen is None else f"{selected_row(row)} in"
        return f"{of} {file.name!r}"

    def reopened(names: frozenset[str], apart: frozenset[str]) -> Source:
        return open_files(
            places, forced, condition, text | names, allow_unfinished, categories | apart
        )

    untyped = {
        name
        for file, schema in zip(files, schemas, strict=True)
        if file.format in DELIMITER
        for name in schema.names
    }
    whole = None not in counts and all(chosen is None for _, chosen in parts)
    kept = {file.name for file, _ in parts}
    total = sum(n or 0 for file, n in zip(files, counts, strict=True) if file.name in kept)
    return Source(
        name,
        common,
        read,
        rows=total if whole else None,
        locate=locate,
        as_text=None if untyped <= text else reopened,
        spelling=spelling,
    )


def open_standard_input(forced: str | None, allow_unfinished: bool = False) -> Source:
    """Open the Arrow IPC stream that is piped in."""
    if forced is not None and FORMATS[forced] != "arrow":
        raise ArgumentError(
            f"format={forced!r}: standard input ('-') is read as an Arrow IPC stream only. "
            "Pass the path of the file."
        )
    name = "standard input"
    remedy = "Pipe in an Arrow IPC stream (pyarrow.ipc.new_stream), complete to its end."
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or sys.stdin.isatty():
        raise SourceError(f"Nothing is piped into {name}. {remedy}")
    with reading(name, remedy):
        reader, content = open_stream(stream)
        decoded(reader.schema)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with reading(name, remedy):
            yield from checked(select(reader, columns))
        if not allow_unfinished:
            content.refuse_unfinished(name)

    return Source(name, reader.schema, read, rereadable=False)


def _listed(places: Sequence[Any], forced: str | None) -> list[File]:
    for place in places:
        if not isinstance(place, (str, os.PathLike)):
            raise SourceError(
                f"A list of sources holds {type_name(place)}: pass paths alone, or tables and "
                "record batches alone."
            )
    files: list[File] = []
    for place in places:
        if place == "-":
            raise SourceError(
                "Standard input ('-') stands alone: it cannot be read together with other sources."
            )
        files += expand(place, forced)
    if not files:
        raise SourceError("The list of paths is empty. Name at least one file.")
    seen: set[str] = set()
    for file in files:
        if file.name in seen:
            raise SourceError(
                f"{file.name!r} is named twice: its rows would count twice. Name it once."
            )
        seen.add(file.name)
    return files


def _inspected(
    listed: Sequence[File], condition: Where | None
) -> tuple[list[File], Sequence[pa.Schema], Sequence[int | None], dict[str, pa.DataType]]:
    """Files that may hold rows, as their paths tell, with what stands in them.

    One is inspected even where none may, for the columns.
    """
    hive = _hive_types(listed)
    files = list(listed)
    if condition is not None:
        keys = pa.schema(list(hive.items()))
        files = [
            file for file in listed if condition.may_hold(keys, partition_ranges(file, keys))
        ] or files[:1]
    with ThreadPoolExecutor(max_workers=8) as pool:
        schemas, counts = zip(*pool.map(inspect_file, files), strict=True)
    return files, schemas, counts, hive


def _parts(
    files: Sequence[File], schema: pa.Schema, selection: Selection | None
) -> list[tuple[File, Selection | None]]:
    """The files that may hold selected rows; without a selection those that hold no others."""
    if selection is None:
        return [(file, None) for file in files]
    found: list[tuple[File, Selection | None]] = []
    for file in files:
        known = partition_ranges(file, schema)
        if selection.may_hold(known):
            found.append((file, None if selection.must_hold(known) else selection))
    return found


def _may_select(
    selection: Selection, file: File, schema: pa.Schema, known: Mapping[str, Range]
) -> bool:
    return selection.may_hold({**known, **partition_ranges(file, schema)})


def _refuse_faults(columns: Sequence[str], faults: Mapping[str, str]) -> None:
    for column in columns:
        if column in faults:
            raise SourceError(faults[column])


def _hidden_folders(files: Sequence[File], schemas: Sequence[pa.Schema]) -> dict[str, str]:
    """For each column that a file has and its folder names too, the error to raise."""
    faults: dict[str, str] = {}
    for file, schema in zip(files, schemas, strict=True):
        for name in file.partitions.keys() & set(schema.names):
            faults.setdefault(
                name,
                f"Column {name!r} must come from one place, got a column of {file.name!r} and its "
                f"folder {folder_of(file, name)!r}; leave the column out of the file, or rename "
                "one of both.",
            )
    return faults


def _unify(
    files: Sequence[File], schemas: Sequence[pa.Schema], hive: dict[str, pa.DataType]
) -> tuple[pa.Schema, dict[str, str]]:
    """Find one schema for all files and, for each column they disagree on, the error to raise."""
    told = [_types(file, schema, hive) for file, schema in zip(files, schemas, strict=True)]
    text = all(file.format in DELIMITER for file in files)
    types, faults = dict(told[0]), _hidden_folders(files, schemas)
    for file, own in zip(files[1:], told[1:], strict=True):
        for name in own.keys() ^ types.keys():
            lacking, others = (file, own) if name in types else (files[0], told[0])
            faults.setdefault(
                name,
                f"Column {name!r} is missing in {lacking.name!r} but not in every file. Leave "
                f"that file out, or write it again with the column.{near(name, others)}",
            )
        for name, kind in own.items():
            common = _common_type(types.setdefault(name, kind), kind, text)
            if common is None:
                hint = text_keys_hint([str(kind), str(types[name])]) if name in file.text else ""
                faults.setdefault(
                    name,
                    f"Column {name!r} is {kind} in {file.name!r} but {types[name]} in the files "
                    f"before it. Write the files with one type.{hint}",
                )
            else:
                types[name] = common
    fields = [pa.field(name, kind) for name, kind in types.items()]
    return pa.schema(fields + _doubled(schemas)), faults


def _types(file: File, schema: pa.Schema, hive: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Type of each column of a file, its partition keys included."""
    types = {key: hive[key] for key in file.partitions}
    for column in schema:
        kind = column.type
        types[column.name] = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return types


def _doubled(schemas: Sequence[pa.Schema]) -> list[pa.Field]:
    """Columns that a file holds twice, to stand twice in the schema: asking for one is refused."""
    doubled = {
        column.name: column
        for schema in schemas
        for column in schema
        if len(schema.get_all_field_indices(column.name)) > 1
    }
    return list(doubled.values())


def _common_type(a: pa.DataType, b: pa.DataType, text: bool) -> pa.DataType | None:
    """Find the type that holds both, if there is one (for CSV files at worst the text)."""
    if a.equals(b):
        return a
    a, b = (kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (a, b))
    pair = [
        pa.large_string() if pa.types.is_string_view(kind) and not a.equals(b) else kind
        for kind in (a, b)
    ]
    if any(map(pa.types.is_boolean, pair)) and any(map(pa.types.is_integer, pair)) and not text:
        return next(filter(pa.types.is_integer, pair))
    try:
        merged = pa.unify_schemas(
            [pa.schema([("", kind)]) for kind in pair], promote_options="permissive"
        )
    except pa.ArrowException:
        return pa.string() if text else None
    return merged.field(0).type


def _hive_types(files: Sequence[File]) -> dict[str, pa.DataType]:
    """int64 where every value of a partition key is one, each another one, else string."""
    values: dict[str, set[str]] = {}
    for file in files:
        for key, value in file.partitions.items():
            values.setdefault(key, set()).update([] if value is None else [value])
    return {
        key: pa.int64()
        if found
        and all(re.fullmatch(r"-?[0-9]{1,18}", value) for value in found)
        and len(set(map(int, found))) == len(found)
        else pa.string()
        for key, found in values.items()
    }
