"""Read one file: Parquet, Arrow IPC (file or stream) or CSV."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from fastrank_eval.arrow_values import arrow_value
from fastrank_eval.errors import SourceError
from fastrank_eval.sources.paths import File, begins_like, sniff
from fastrank_eval.sources.ranges import Range
from fastrank_eval.sources.reading import decoded, first_line, reading, select
from fastrank_eval.sources.row_groups import open_parquet, unread
from fastrank_eval.sources.soundness import checked
from fastrank_eval.sources.spelling import (
    INFERRED,
    WAYS,
    followed_ways,
    is_number,
    ways_of,
)
from fastrank_eval.sources.streams import StreamBytes, open_stream
from fastrank_eval.sources.unread import Part

__all__ = ["DELIMITER", "inspect_file", "read_file"]

DELIMITER = {"csv": ",", "tsv": "\t"}
_CSV_SAMPLE = 4 << 20
_HEAD = 1 << 10  # bytes that tell text from what is none
_CSV_HEADER = 1 << 16  # bytes: a file of fewer may hold a header alone


def inspect_file(file: File) -> tuple[pa.Schema, int | None]:
    """Read the schema, and the number of rows where the metadata tells."""
    with _reading(file):
        if file.format == "parquet":
            with open_parquet(file) as parquet:
                return decoded(parquet.schema_arrow), parquet.metadata.num_rows
        if file.format == "arrow":
            with _arrow(file) as (reader, _):
                return decoded(reader.schema), None
        return decoded(_csv_schema(file)), None


def read_file(
    file: File,
    targets: dict[str, pa.DataType],
    wanted: Callable[[Mapping[str, Range]], bool] | None = None,
) -> Iterator[Part]:
    """Read the rows of these columns, each as this type; partition columns are filled in.

    Row groups of which `wanted` says so, told what their statistics tell, are left out; the others
    are not read yet.
    """
    with _reading(file):
        if file.format == "parquet":
            part = unread(file, targets, wanted)
            yield replace(part, read=partial(_guarded, file, targets, part.read))
            return
        with _not_cut(file):
            for batch in (_read_arrow if file.format == "arrow" else _read_csv)(file, targets):
                yield _conform(batch, file, targets)


def _guarded(
    file: File,
    targets: dict[str, pa.DataType],
    read: Callable[..., Iterator[pa.RecordBatch]],
    *how: Any,
) -> Iterator[pa.RecordBatch]:
    """What is read later fails, and fits, as what is read at once."""
    with _reading(file):
        for batch in read(*how):
            yield _conform(batch, file, targets)


@contextmanager
def _not_cut(file: File) -> Iterator[None]:
    """Notice a file cut short meanwhile: of text and streams, what is gone would be the end."""
    if not isinstance(file.filesystem, pafs.LocalFileSystem):
        yield
        return
    path = Path(file.path)
    before = path.stat()
    yield
    # Where it is gone, or another has its name, what was read was whole.
    with suppress(FileNotFoundError):
        after = path.stat()
        if after.st_ino == before.st_ino and after.st_size < before.st_size:
            raise EOFError("it was cut short while it was read")


def _conform(batch: pa.RecordBatch, file: File, targets: dict[str, pa.DataType]) -> pa.RecordBatch:
    """Give the asked columns their order and type, and fill in partition columns."""
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
    """Open an IPC file, or a stream with its bytes; the first bytes tell which it is."""
    if sniff(file.filesystem, file.path) is None:
        with file.filesystem.open_input_stream(file.path, compression="detect") as handle:
            reader, stream = open_stream(handle)
            with reader:
                yield reader, stream
        return
    with file.filesystem.open_input_file(file.path) as handle:
        with pa.ipc.open_file(handle) as reader:
            schema = reader.schema
        wanted = sorted(i for name in names for i in schema.get_all_field_indices(name))
        options = pa.ipc.IpcReadOptions(included_fields=wanted)
        with pa.ipc.open_file(handle, options=options) as reader:
            yield reader, None


def _read_arrow(file: File, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    with _arrow(file, names) as (reader, stream):
        if stream is None:
            yield from checked(map(reader.get_batch, range(reader.num_record_batches)))
        else:
            own = [name for name in names if name in reader.schema.names]
            yield from checked(select(reader, own))
            if not file.allow_unfinished:
                stream.refuse_unfinished(repr(file.name))


def _csv_options(file: File, targets: dict[str, pa.DataType]) -> dict[str, Any]:
    import pyarrow.csv as pacsv

    return {
        "parse_options": pacsv.ParseOptions(
            delimiter=DELIMITER[file.format], newlines_in_values=True
        ),
        # "nan" is not among the nulls: a NaN score is a fault, not a missing row.
        "convert_options": pacsv.ConvertOptions(
            null_values=["", "NULL", "null", "\\N"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            include_columns=list(targets) or None,
            column_types=targets or None,
        ),
    }


def _csv_schema(file: File) -> pa.Schema:
    """Names, and types from the first lines but for the columns that are text."""
    import pyarrow.csv as pacsv

    options = pacsv.ReadOptions(use_threads=False, block_size=_CSV_SAMPLE)
    with _csv_bytes(file) as handle:
        schema = pacsv.open_csv(handle, options, **_csv_options(file, {})).schema
    told = {
        column.name: pa.string()
        for column in schema
        if column.name in file.categories - file.text
        and is_number(column.type)
        and len(schema.get_all_field_indices(column.name)) == 1
    }
    ways = {}
    if told:
        with _csv_bytes(file) as handle:
            batch = next(iter(pacsv.open_csv(handle, options, **_csv_options(file, told))), None)
        ways = {name: ways_of(batch.column(name)) for name in told} if batch is not None else {}
    for at, column in enumerate(schema):
        if ways.get(column.name):
            column = column.with_metadata({WAYS: " ".join(ways[column.name])})
        elif column.name in file.text | ways.keys() and not pa.types.is_binary(column.type):
            number = {INFERRED: str(column.type)} if is_number(column.type) else None
            column = pa.field(column.name, pa.string(), metadata=number)
        schema = schema.set(at, column)  # of bytes where the text is no UTF-8
    return schema


@contextmanager
def _csv_bytes(file: File) -> Iterator[Any]:
    """Open the text; a short one gets an end of its last line, without which Arrow may refuse it.

    Arrow reads no header that stands alone without a line end.
    """
    with _csv_stream(file) as handle:
        begin = _first_bytes(handle, _CSV_HEADER)
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in begin[:_HEAD]:
        raise SourceError(
            f"Cannot read {file.name!r}: it is no UTF-8 text, but UTF-16 or binary. Write it as "
            "UTF-8."
        )
    if len(begin) == _CSV_HEADER:
        with _csv_stream(file) as handle:
            yield handle
    else:
        yield pa.BufferReader(begin if begin.endswith((b"\n", b"\r")) else begin + b"\n")


def _csv_stream(file: File) -> Any:
    return file.filesystem.open_input_stream(file.path, compression="detect")


def _first_bytes(handle: Any, most: int) -> bytes:
    parts, size = [], 0
    while size < most and (part := handle.read(most - size)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _read_csv(file: File, targets: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    import pyarrow.csv as pacsv

    own = {
        name: pa.string() if name in file.ways else kind
        for name, kind in targets.items()
        if name not in file.partitions
    }

    def rows(threads: bool) -> Iterator[pa.RecordBatch]:
        options = pacsv.ReadOptions(use_threads=threads)
        with _csv_bytes(file) as handle:
            for batch in pacsv.open_csv(handle, options, **_csv_options(file, own)):
                for name in file.ways.keys() & own.keys():
                    column = batch.column(name)
                    file.ways[name] = followed_ways(column, file.ways[name], name, file.name)
                yield batch

    try:
        yield from rows(True)
    except pa.ArrowInvalid:
        # Only without threads does Arrow number the line in its message.
        deque(rows(False), maxlen=0)
        raise


def _reading(file: File) -> AbstractContextManager[None]:
    return reading(repr(file.name), _remedy(file), partial(_condition, file))


def _remedy(file: File) -> str:
    if file.format in DELIMITER:
        return (
            "Correct the file. Column types come from its first lines: if they mislead, write it "
            "as Parquet."
        )
    return "Write or copy the file again."


def _condition(file: File) -> str:
    """Tell from its first and last bytes why a file cannot be read."""
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
    kind = begins_like(head)
    if head.startswith(b"FEA1"):
        return "it is Feather version 1 (write it as version 2): "
    if kind not in (None, file.format):
        return f"it is read as {file.format} but begins like {kind} (pass format={kind!r}): "
    if file.format == "parquet":
        if kind is None:
            return "it does not begin like a Parquet file: "
        return "it is corrupt: " if tail.endswith(b"PAR1") else "it is truncated (no footer): "
    if kind == "arrow" and tail != b"ARROW1":
        return "it is truncated (no footer): "
    return "it is truncated or corrupt: " if file.format == "arrow" else ""
