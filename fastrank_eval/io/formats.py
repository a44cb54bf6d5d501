"""Read and check one Parquet, Arrow or CSV file.

Open streams of batches, and close those of other libraries.
"""

from __future__ import annotations

import codecs
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, cast

import pyarrow as pa
import pyarrow.fs as pafs

from fastrank_eval._lib.arrow import arrow_value, is_textual, plain_type
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ColumnError, SourceError
from fastrank_eval._lib.log import IO
from fastrank_eval.io.paths import File, format_of_bytes, sniff
from fastrank_eval.io.source import (
    CONVERSION,
    Batch,
    Source,
    UnreadBatch,
    check_batches,
    decode_names,
    first_line,
    foreign,
    number_remedy,
    open_foreign,
    opened_readers,
    reading,
    refuse_rounded,
    select,
    type_name,
)

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


@dataclass(frozen=True)
class Range:
    """A closed range of the values of a column; NaN may occur outside it.

    Parameters
    ----------
    low, high : object
        Bounds as of `order_key`; None if unknown.
    nulls, values : bool
        Whether some rows may be null, and whether some may be not null.
    """

    low: Any = None
    high: Any = None
    nulls: bool = True
    values: bool = True


UNKNOWN = Range()


def order_key(value: pa.Scalar) -> Any:
    """Return a Python value with the same order as the column, or None."""
    kind = value.type
    if not value.is_valid:
        return None
    if is_textual(kind):
        return bytes(value.as_buffer()) if value.as_buffer() is not None else b""
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return value.value
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return value.as_py()
    return None


def partition_ranges(file: File, schema: pa.Schema) -> dict[str, Range]:
    """Return the ranges of partition columns: the values in a file's path."""
    ranges = {}
    for name, text in file.partitions.items():
        indices = schema.get_all_field_indices(name)
        if len(indices) != 1:
            continue
        if text is None:
            ranges[name] = Range(values=False)
            continue
        try:
            value = arrow_value(text, pa.string())
            key = order_key(value.cast(plain_type(schema.field(name).type)))
        except pa.ArrowException:
            continue
        if key is not None and key == key:
            ranges[name] = Range(key, key, nulls=False)
    return ranges


def row_group_ranges(
    parquet: Any, group: int, targets: Mapping[str, pa.DataType]
) -> dict[str, Range]:
    """Return the ranges of columns from the statistics of a row group.

    Parameters
    ----------
    parquet : pyarrow.parquet.ParquetFile
    group : int
        Index of the row group.
    targets : mapping of str to pyarrow.DataType
        The columns, with their types in the source.
    """
    row_group = parquet.metadata.row_group(group)
    ranges = {}
    for index in range(row_group.num_columns):
        leaf = parquet.schema.column(index)
        target = targets.get(leaf.path)
        # Skip leaves of lists and structs.
        if target is None or leaf.name != leaf.path or leaf.max_repetition_level:
            continue
        column = row_group.column(index)
        if column.physical_type != leaf.physical_type:  # its statistics would crash the process
            raise pa.ArrowInvalid(
                f"its footer calls column {leaf.path!r} {leaf.physical_type} and, in row group "
                f"{group}, {column.physical_type}"
            )
        statistics = column.statistics
        if statistics is None:
            continue
        nulls, values = leaf.max_definition_level > 0, True
        if nulls and statistics.has_null_count:
            nulls, values = statistics.null_count > 0, statistics.null_count < row_group.num_rows
        low = high = None
        if statistics.has_min_max:
            own = parquet.schema_arrow.field(leaf.path).type
            low, high = _bounds(statistics, leaf, plain_type(own), plain_type(target))
        ranges[leaf.path] = Range(low, high, nulls, values)
    return ranges


def _bounds(statistics: Any, leaf: Any, own: pa.DataType, target: pa.DataType) -> tuple[Any, Any]:
    """Return minimum and maximum if their order is that of `order_key`.

    Otherwise both are None. A writer may truncate long strings: then the bounds lie outside of the
    values, never among them.
    """
    low, high = statistics.min_raw, statistics.max_raw
    kind = statistics.physical_type
    if is_textual(own) and is_textual(target):
        comparable = kind == "BYTE_ARRAY"
    elif _numeric(own) and _numeric(target):
        comparable = kind in ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE")
        if pa.types.is_unsigned_integer(own):  # pyarrow returns them as signed
            bits = 64 if kind == "INT64" else 32
            low, high = low % (1 << bits), high % (1 << bits)
    elif pa.types.is_date32(own):
        comparable = own.equals(target) and kind == "INT32"
    else:
        comparable = pa.types.is_timestamp(own) and own.equals(target) and kind == "INT64"
        unit = json.loads(leaf.logical_type.to_json()).get("timeUnit")
        comparable = comparable and _UNITS.get(unit) == own.unit
    # Bounds of NaN, or in another order, are useless.
    return (low, high) if comparable and low <= high else (None, None)


def _numeric(kind: pa.DataType) -> bool:
    return (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
    )


def _columns_of_objects(source: Any) -> set[str]:
    """Name the columns of a polars frame whose values Arrow sees as addresses."""
    if type(source).__module__ != "polars.dataframe.frame":
        return set()
    return {name for name, kind in source.schema.items() if str(kind) == "Object"}


def refuse_objects(name: str) -> NoReturn:
    """Raise for a column of Python objects."""
    raise ColumnError(
        f"Column {name!r} holds Python objects of polars, and Arrow has only their addresses; "
        "convert it to text or numbers, as by map_elements(str, return_dtype=pl.String)."
    )


def open_stream_object(source: object, name: str) -> Source:
    """Open an object with ``__arrow_c_stream__``.

    An object with a length can be read again.
    """
    rereadable = hasattr(source, "__len__")
    objects = _columns_of_objects(source)
    if objects:  # polars 1.10 ends the process where it gives them to Arrow
        source = cast(Any, source).with_columns(**dict.fromkeys(objects))
    with foreign(name):
        first: list[pa.RecordBatchReader] = [open_foreign(source)]
    schema = first[0].schema
    if rereadable and opened_readers.get() is None:  # no context would close it
        first.pop().close()

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for column in objects.intersection(columns):
            refuse_objects(column)
        with foreign(name):
            reader = first.pop() if first else open_foreign(source)
            with reader:
                yield from check_batches(select(reader, columns))

    return Source(name, schema, read, rereadable=rereadable)


def open_reader(reader: pa.RecordBatchReader, name: str) -> Source:
    """Open a stream of batches, which can be read once."""

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with reading(name, "Produce the stream again."):
            yield from check_batches(select(reader, columns))

    return Source(name, reader.schema, read, rereadable=False)


def open_batches(batches: Iterable[Any], name: str) -> Source:
    """Open a list or iterator of batches or tables.

    An iterator can be read once.
    """
    rest = iter(batches)
    first = next(rest, None)
    if first is None:
        raise SourceError(
            f"{name} yields no batch, so its columns are not known: pass an empty table that has "
            "them, or leave this part out."
        )
    _batches_of(first, name)
    schema = first.schema
    again = isinstance(batches, Sequence)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for item in batches if again else chain([first], rest):
            for batch in _batches_of(item, name):
                if not batch.schema.equals(schema):
                    raise SourceError(
                        f"{name}: a batch has the columns {_columns(batch.schema)}, and the first "
                        f"one {_columns(schema)}: cast them to one schema."
                    )
                with reading(name, "Make the table again."):
                    yield from check_batches([batch.select(list(columns))])

    return Source(name, schema, read, rereadable=again)


def _batches_of(item: object, name: str) -> list[pa.RecordBatch]:
    if isinstance(item, pa.Table):
        return item.to_batches()
    if isinstance(item, pa.RecordBatch):
        return [item]
    raise SourceError(f"{name} yields {type_name(item)}: pass RecordBatches or Tables of pyarrow.")


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


#: Bytes a column. Local ones stay in the processor's cache: 2^20 bytes take 0.35 ns a row more. A
#: remote read costs a round trip, so it fetches more.
_LOCAL_BUFFER = 1 << 16
_REMOTE_BUFFER = 1 << 23
#: Files up to this number of rows are opened again for each reading.
_MAX_REOPEN_ROWS = 1 << 17


def _parquet(file: File, handle: pa.NativeFile, metadata: Any = None) -> Any:
    import pyarrow.parquet as papq

    # Not memory mapped: a file cut short while it is read would kill the process (SIGBUS).
    # Not through a dataset scan: it decodes whole row groups ahead, so memory follows the file.
    local = isinstance(file.filesystem, pafs.LocalFileSystem)
    return papq.ParquetFile(
        handle,
        metadata=metadata,
        buffer_size=_LOCAL_BUFFER if local else _REMOTE_BUFFER,
        pre_buffer=False,
        page_checksum_verification=True,
    )


def open_row_groups(
    file: File,
    targets: Mapping[str, pa.DataType],
    keep_row_group: Callable[[Mapping[str, Range]], bool] | None = None,
) -> UnreadBatch:
    """Open a Parquet file to read its non-empty row groups later.

    Parameters
    ----------
    file : File
    targets : mapping of str to pyarrow.DataType
        Columns to read; those that the file lacks are skipped.
    keep_row_group : callable, optional
        Returns whether to read a row group with these ranges of columns.
    """
    handle = file.filesystem.open_input_file(file.path)
    with _parquet(file, handle) as parquet:
        version = _file_version(file, handle)
        metadata = parquet.metadata
        schema = parquet.schema_arrow
        own = [name for name in targets if name in schema.names]
        # Arrow cannot join the dictionaries inside lists of several row groups.
        alone = any(_has_inner_dictionary(schema.types[schema.names.index(name)]) for name in own)
        rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        row_groups = tuple(
            (g, rows_of_group)
            for g, rows_of_group in enumerate(rows)
            if rows_of_group
            and (keep_row_group is None or keep_row_group(row_group_ranges(parquet, g, targets)))
        )
    groups, read_groups = len(rows), len(row_groups)
    IO.debug("file opened", file=file.name, rows=sum(rows), row_groups=groups, read=read_groups)
    # A long file stays open, so that its replacement meanwhile does not matter. Two kinds of files
    # are opened again: short ones, because a work batch may have thousands of them, and files of
    # file systems written in Python, because their handles are not safe between threads.
    open_handle: pa.NativeFile | None = handle
    if sum(rows) <= _MAX_REOPEN_ROWS or _in_python(file.filesystem):
        handle.close()
        open_handle = None

    def read(groups: tuple[int, ...], max_rows: int, threads: bool) -> Iterator[pa.RecordBatch]:
        remaining = sum(rows[g] for g in groups)
        new_handle = file.filesystem.open_input_file(file.path) if open_handle is None else None
        with nullcontext(open_handle) if new_handle is None else new_handle as handle:
            _refuse_changes(file, handle, version, open_handle is not None)
            with _parquet(file, handle, metadata) as parquet:
                for some in ((g,) for g in groups) if alone else (groups,):
                    for batch in check_batches(
                        parquet.iter_batches(max_rows, some, own, use_threads=threads)
                    ):
                        remaining -= batch.num_rows
                        yield batch
            _refuse_changes(file, handle, version, open_handle is not None)
        if remaining:  # Arrow reads truncated row groups as empty
            raise EOFError(f"{remaining:,} of its rows are missing")

    return UnreadBatch(row_groups, read)


def _has_inner_dictionary(kind: pa.DataType) -> bool:
    fields = [kind.field(at).type for at in range(kind.num_fields)]
    return any(pa.types.is_dictionary(each) or _has_inner_dictionary(each) for each in fields)


def _in_python(filesystem: pafs.FileSystem) -> bool:
    while isinstance(filesystem, pafs.SubTreeFileSystem):
        filesystem = filesystem.base_fs
    return isinstance(filesystem, pafs.PyFileSystem)


def _file_version(file: File, handle: pa.NativeFile) -> tuple[int, ...]:
    """Return values that differ after a file was changed or replaced."""
    if isinstance(file.filesystem, pafs.LocalFileSystem):
        now = os.stat(file.path)  # noqa: PTH116 -- a Path takes ten times as long
        return now.st_ino, now.st_size, now.st_mtime_ns
    return (handle.size(),)


def _refuse_changes(
    file: File, handle: pa.NativeFile, version: tuple[int, ...], handle_is_open: bool
) -> None:
    """Raise if a file was changed: a result must not mix two of its versions."""
    try:
        current = _file_version(file, handle)
    except FileNotFoundError:
        if handle_is_open:
            return
        raise
    if current == version or (handle_is_open and current[0] != version[0]):
        return
    raise SourceError(
        f"Cannot read {file.name!r}: it was changed while it was read. "
        "Evaluate it again once it is complete."
    )


class StreamBytes:
    """A stream of bytes that records a read past its end.

    Arrow ends a stream at its end-of-stream marker, or where the bytes end between two batches.
    Only in the second case it reads past the end.

    Parameters
    ----------
    file : binary file
    """

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self._is_exhausted = False

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes."""
        content: bytes = self._file.read(size)
        self._is_exhausted = self._is_exhausted or (size != 0 and not content)
        return content

    def readable(self) -> bool:
        """Return True; Arrow calls it."""
        return True

    def close(self) -> None:
        """Leave the file open: its owner closes it."""

    def refuse_unfinished(self, name: str) -> None:
        """Raise if a stream has no end marker, or bytes after it.

        The stream must have been read to its end.

        Raises
        ------
        SourceError
        """
        if self._is_exhausted:
            raise SourceError(
                f"Cannot read {name}: the Arrow stream has no end-of-stream marker, so its writer "
                "may have stopped before the last row. Close the writer of the stream, or pass a "
                "reader of the rows that are there: pyarrow.ipc.open_stream(...)."
            )
        if self._file.read(1):
            raise SourceError(
                f"Cannot read {name}: bytes follow the end-of-stream marker of the Arrow stream, "
                "so that rows would be left out. Write one stream, or read each file by its name."
            )


def open_stream(file: Any) -> tuple[pa.RecordBatchReader, StreamBytes]:
    """Open an Arrow IPC stream.

    `StreamBytes.refuse_unfinished` checks afterwards that it was complete.
    """
    stream = StreamBytes(file)
    return pa.ipc.open_stream(stream), stream


DELIMITER = {"csv": ",", "tsv": "\t"}
_CSV_SAMPLE = 4 << 20
_BINARY_SAMPLE = 1 << 10  # bytes; a zero byte among them means that a file is no text
#: What an encrypted Parquet file begins and ends with.
_ENCRYPTED = b"PARE"
_CSV_HEADER = 1 << 16  # bytes; a shorter file may hold only a header


def inspect_file(file: File) -> tuple[pa.Schema, int | None]:
    """Read the schema of a file, and its row count if the metadata has it."""
    with _reading(file):
        if file.format == "parquet":
            handle = file.filesystem.open_input_file(file.path)
            with handle, _parquet(file, handle) as parquet:
                return decode_names(parquet.schema_arrow), parquet.metadata.num_rows
        if file.format == "arrow":
            with _arrow(file) as (reader, _):
                return decode_names(reader.schema), None
        return decode_names(_csv_schema(file)), None


def read_file(
    file: File,
    targets: dict[str, pa.DataType],
    keep_row_group: Callable[[Mapping[str, Range]], bool] | None = None,
) -> Iterator[Batch]:
    """Read columns of a file in these types; partition columns are filled in.

    Row groups for which `keep_row_group` is false are skipped; the others are not read yet.
    """
    with _reading(file):
        if file.format == "parquet":
            unread = open_row_groups(file, targets, keep_row_group)
            yield replace(unread, read=partial(_read_later, file, targets, unread.read))
            return
        with _refuse_truncation(file):
            for batch in (_read_arrow if file.format == "arrow" else _read_csv)(file, targets):
                yield _conform(batch, file, targets)


def _read_later(
    file: File,
    targets: dict[str, pa.DataType],
    read: Callable[..., Iterator[pa.RecordBatch]],
    *arguments: Any,
) -> Iterator[pa.RecordBatch]:
    """Read row groups with the same errors and types as other files."""
    with _reading(file):
        for batch in read(*arguments):
            yield _conform(batch, file, targets)


@contextmanager
def _refuse_truncation(file: File) -> Iterator[None]:
    """Raise if a file is truncated meanwhile.

    Text and streams would just end earlier.
    """
    if not isinstance(file.filesystem, pafs.LocalFileSystem):
        yield
        return
    path = Path(file.path)
    previous = path.stat()
    yield
    # If the file was removed or replaced, the open handle has read all of it.
    with suppress(FileNotFoundError):
        after = path.stat()
        if after.st_ino == previous.st_ino and after.st_size < previous.st_size:
            raise EOFError("it was cut short while it was read")


def _conform(batch: pa.RecordBatch, file: File, targets: dict[str, pa.DataType]) -> pa.RecordBatch:
    """Put columns in order, cast them, and fill in partition columns."""
    arrays = []
    for name, target in targets.items():
        if name in batch.schema.names:
            array = batch.column(name)
            try:
                arrays.append(array if array.type.equals(target) else array.cast(target))
            except pa.ArrowException as error:
                raise SourceError(
                    f"Column {name!r} of {file.name!r} is {array.type} and does not fit the type "
                    f"{target} that the files share: {first_line(error)}. "
                    "Write the files with one type."
                ) from error
        else:
            value = arrow_value(file.partitions[name], pa.string()).cast(target)
            arrays.append(pa.repeat(value, batch.num_rows))
    return pa.RecordBatch.from_arrays(arrays, list(targets))


@contextmanager
def _arrow(file: File, names: Iterable[str] = ()) -> Iterator[tuple[Any, StreamBytes | None]]:
    """Open an IPC file, or a stream with its bytes; the first bytes decide."""
    if sniff(file.filesystem, file.path) is None:
        with file.filesystem.open_input_stream(file.path, compression="detect") as handle:
            reader, stream = open_stream(handle)
            with reader:
                yield reader, stream
        return
    with file.filesystem.open_input_file(file.path) as handle:
        with pa.ipc.open_file(handle) as reader:
            schema = reader.schema
        indices = sorted(i for name in names for i in schema.get_all_field_indices(name))
        options = pa.ipc.IpcReadOptions(included_fields=indices)
        with pa.ipc.open_file(handle, options=options) as reader:
            yield reader, None


def _read_arrow(file: File, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    with _arrow(file, names) as (reader, stream):
        if stream is None:
            yield from check_batches(map(reader.get_batch, range(reader.num_record_batches)))
        else:
            own = [name for name in names if name in reader.schema.names]
            yield from check_batches(select(reader, own))
            stream.refuse_unfinished(repr(file.name))


def _csv_options(file: File, targets: dict[str, pa.DataType]) -> dict[str, Any]:
    import pyarrow.csv as pacsv

    return {
        "parse_options": pacsv.ParseOptions(
            delimiter=DELIMITER[file.format], newlines_in_values=True
        ),
        # "nan" is not among the nulls: a NaN score is an error, not a missing row.
        "convert_options": pacsv.ConvertOptions(
            null_values=["", "NULL", "null", "\\N"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            include_columns=list(targets) or None,
            column_types=targets or None,
        ),
    }


def _csv_schema(file: File) -> pa.Schema:
    """Return the schema of a CSV file.

    Text columns are text; the first lines decide the types of the others.
    """
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv

    options = pacsv.ReadOptions(use_threads=False, block_size=_CSV_SAMPLE)
    with _csv_bytes(file) as handle:
        reader = pacsv.open_csv(handle, options, **_csv_options(file, {}))
        schema = reader.schema
        beyond = _beyond_int64(reader, file.text)
    for name, column in _text_of(file, options, beyond).items():
        with suppress(pa.ArrowInvalid):  # fractions, exponents, or more than 64 bits
            kind = pc.utf8_trim_whitespace(column).cast(pa.uint64()).type
            schema = schema.set(schema.get_field_index(name), pa.field(name, kind))
    return pa.schema(
        [
            pa.field(column.name, pa.string())
            if column.name in file.text and not pa.types.is_binary(column.type)
            else column  # binary if the text is not UTF-8
            for column in schema
        ]
    )


def _beyond_int64(reader: Any, texts: frozenset[str]) -> list[str]:
    """Name the columns of doubles, without `texts`, that exceed int64."""
    names = [
        column.name
        for column in reader.schema
        if pa.types.is_floating(column.type)
        and column.name not in texts
        and len(reader.schema.get_all_field_indices(column.name)) == 1
    ]
    batch = next(iter(reader), None) if names else None
    if batch is None:
        return []
    return [name for name in names if _reaches(batch.column(name), 2.0**63)]


def _reaches(column: pa.Array, limit: float) -> bool:
    """Return whether the size of a double is a limit or more."""
    return bool((abs(column.to_numpy(zero_copy_only=False)) >= limit).any())


def _text_of(file: File, options: Any, names: list[str]) -> dict[str, pa.Array]:
    """Read the text of columns in the first lines of a CSV file."""
    import pyarrow.csv as pacsv

    if not names:
        return {}
    types = dict.fromkeys(names, pa.string())
    with _csv_bytes(file) as handle:
        batch = next(iter(pacsv.open_csv(handle, options, **_csv_options(file, types))), None)
    return {} if batch is None else {name: batch.column(name) for name in names}


@contextmanager
def _csv_bytes(file: File) -> Iterator[Any]:
    """Open the text; append a line end to a short file.

    Arrow cannot read a header without rows and without a line end.
    """
    with _csv_stream(file) as handle:
        head = _first_bytes(handle, _CSV_HEADER)
    if (
        head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        or b"\0" in head[:_BINARY_SAMPLE]
    ):
        raise SourceError(
            f"Cannot read {file.name!r}: it is not UTF-8 text, but UTF-16 or binary. Write it as "
            "UTF-8."
        )
    if len(head) == _CSV_HEADER:
        with _csv_stream(file) as handle:
            yield handle
    else:
        yield pa.BufferReader(head if head.endswith((b"\n", b"\r")) else head + b"\n")


def _csv_stream(file: File) -> Any:
    return file.filesystem.open_input_stream(file.path, compression="detect")


def _first_bytes(handle: Any, max_size: int) -> bytes:
    blocks, size = [], 0
    while size < max_size and (block := handle.read(max_size - size)):
        blocks.append(block)
        size += len(block)
    return b"".join(blocks)


def _read_csv(file: File, targets: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    import pyarrow.csv as pacsv

    own = {name: kind for name, kind in targets.items() if name not in file.partitions}
    doubles = {name for name, kind in own.items() if kind == pa.float64()}

    def rows(threads: bool) -> Iterator[pa.RecordBatch]:
        options = pacsv.ReadOptions(use_threads=threads)
        with _csv_bytes(file) as handle:
            for batch in pacsv.open_csv(handle, options, **_csv_options(file, own)):
                large = {name for name in doubles if _reaches(batch.column(name), 2.0**53)}
                doubles.difference_update(large)
                if large:
                    texts = _csv_options(file, dict.fromkeys(sorted(large), pa.string()))
                    with _csv_bytes(file) as again:
                        refuse_rounded(pacsv.open_csv(again, options, **texts), file.name)
                yield batch

    try:
        yield from rows(True)
    except pa.ArrowInvalid:
        # Arrow names the line in its message only if it reads without threads.
        try:
            deque(rows(False), maxlen=0)
        except pa.ArrowInvalid as error:
            found = CONVERSION.match(first_line(error))
            if found is None:
                raise
            number, line, word = found.groups()
            with _csv_bytes(file) as handle:
                name = pacsv.open_csv(handle, **_csv_options(file, {})).schema.names[int(number)]
            raise SourceError(
                f"{file.name!r}: column {name!r} must hold values of type {own[name]}, as in its "
                f"first lines, got {word!r} in line {line}; {number_remedy(word)}. If the first "
                "lines mislead, write the file as Parquet."
            ) from error
        raise


def _reading(file: File) -> AbstractContextManager[None]:
    return reading(repr(file.name), _remedy(file), partial(_describe_state, file))


def _remedy(file: File) -> str:
    if file.format in DELIMITER:
        return (
            "Correct the file. Column types come from its first lines: if they mislead, write it "
            "as Parquet."
        )
    return "Write or copy the file again."


def _describe_state(file: File) -> str:
    """Describe a file that cannot be read by its first and last bytes."""
    try:
        with file.filesystem.open_input_file(file.path) as handle:
            size = handle.size()
            head = handle.read(8)
            handle.seek(max(0, size - 6))
            tail = handle.read(6)
    except (pa.ArrowException, OSError):
        return ""
    if size == 0:
        return "it is empty (0 bytes): "
    kind = format_of_bytes(head)
    if head.startswith(b"FEA1"):
        return "it is Feather version 1 (write it as version 2): "
    if kind not in (None, file.format):
        return f"it is read as {file.format} but begins like {kind} (pass format={kind!r}): "
    if head.startswith(_ENCRYPTED) or tail.endswith(_ENCRYPTED):
        return "it is encrypted (open it with pyarrow and its keys, and pass the table): "
    if file.format == "parquet":
        if kind is None:
            return "it does not begin like a Parquet file: "
        return "it is corrupt: " if tail.endswith(b"PAR1") else "it is truncated (no footer): "
    if kind == "arrow" and tail != b"ARROW1":
        return "it is truncated (no footer): "
    return "it is truncated or corrupt: " if file.format == "arrow" else ""
