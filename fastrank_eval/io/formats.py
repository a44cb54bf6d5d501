"""Read one Parquet, Arrow or CSV file, and check what Arrow takes on trust."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from fastrank_eval._lib.arrow import arrow_value
from fastrank_eval._lib.errors import SourceError
from fastrank_eval.io.csv_numbers import (
    INFERRED,
    WAYS,
    followed_ways,
    is_number,
    ways_of,
)
from fastrank_eval.io.paths import File, begins_like, sniff
from fastrank_eval.io.pruning import Range, row_group_ranges
from fastrank_eval.io.source import Batch, UnreadBatch, decoded, first_line, reading, select

__all__ = [
    "DELIMITER",
    "StreamBytes",
    "checked",
    "inspect_file",
    "open_parquet",
    "open_stream",
    "read_file",
    "unread",
]


_LOCAL_BUFFER = 1 << 20  # bytes a column; a remote read costs a round trip, so it fetches more
_REMOTE_BUFFER = 1 << 23
#: Rows of a file up to which it is opened again for each reading.
_SHORT = 1 << 17


@contextmanager
def open_parquet(file: File) -> Iterator[Any]:
    """Open a file as a `pyarrow.parquet.ParquetFile`."""
    with file.filesystem.open_input_file(file.path) as handle, _parquet(file, handle) as parquet:
        yield parquet


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


def unread(
    file: File,
    targets: Mapping[str, pa.DataType],
    wanted: Callable[[Mapping[str, Range]], bool] | None = None,
) -> UnreadBatch:
    """The row groups of a file that hold rows, to be read later.

    Parameters
    ----------
    file : File
    targets : mapping of str to pyarrow.DataType
        Columns to read, those that the file lacks left out.
    wanted : callable, optional
        Told what the statistics of a row group tell, says whether its rows are.
    """
    handle = file.filesystem.open_input_file(file.path)
    with _parquet(file, handle) as parquet:
        state = _state(file, handle)
        metadata = parquet.metadata
        own = [name for name in targets if name in parquet.schema_arrow.names]
        rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        found = tuple(
            (g, held)
            for g, held in enumerate(rows)
            if held and (wanted is None or wanted(row_group_ranges(parquet, g, targets)))
        )
    # A long file stays open, so that one that takes its place meanwhile does not matter. Thousands
    # of short ones may wait in a stretch, and handles of file systems written in Python are not
    # safe between threads: those are opened once more.
    kept: pa.NativeFile | None = handle
    if sum(rows) <= _SHORT or _in_python(file.filesystem):
        handle.close()
        kept = None

    def read(groups: tuple[int, ...], most: int, threads: bool) -> Iterator[pa.RecordBatch]:
        left = sum(rows[g] for g in groups)
        anew = file.filesystem.open_input_file(file.path) if kept is None else None
        with nullcontext(kept) if anew is None else anew as handle:
            _refuse_changes(file, handle, state, kept is not None)
            with _parquet(file, handle, metadata) as opened:
                for batch in checked(opened.iter_batches(most, groups, own, use_threads=threads)):
                    left -= batch.num_rows
                    yield batch
            _refuse_changes(file, handle, state, kept is not None)
        if left:  # Arrow takes row groups that are cut off for empty ones
            raise EOFError(f"{left:,} of its rows are missing")

    return UnreadBatch(found, read)


def _in_python(filesystem: pafs.FileSystem) -> bool:
    while isinstance(filesystem, pafs.SubTreeFileSystem):
        filesystem = filesystem.base_fs
    return isinstance(filesystem, pafs.PyFileSystem)


def _state(file: File, handle: pa.NativeFile) -> tuple[int, ...]:
    """What tells a file from another of its name, and from itself once it is changed."""
    if isinstance(file.filesystem, pafs.LocalFileSystem):
        now = Path(file.path).stat()
        return now.st_ino, now.st_size, now.st_mtime_ns
    return (handle.size(),)


def _refuse_changes(file: File, handle: pa.NativeFile, state: tuple[int, ...], kept: bool) -> None:
    """Row groups of two versions of a file would make one number of both."""
    try:
        now = _state(file, handle)
    except FileNotFoundError:
        if kept:
            return
        raise
    if now == state or (kept and now[0] != state[0]):
        return
    raise SourceError(
        f"Cannot read {file.name!r}: it was changed while it was read. "
        "Evaluate it again once it is complete."
    )


#: Offsets that are compared at a time, so that they stay in the cache.
_PIECE = 1 << 17


def checked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Refuse what Arrow reads on trust: offsets and indices out of range, text that is no UTF-8.

    ``validate(full=True)`` looks at the same in 7 ns a string; text of ASCII takes a tenth here.

    Raises
    ------
    pyarrow.ArrowInvalid
        Naming what is wrong.
    """
    sound: dict[int, pa.Array] = {}
    for batch in batches:
        batch.validate()
        for place, column in enumerate(batch.columns):
            if pa.types.is_dictionary(column.type) and len(column) and not column.null_count:
                sound[place] = _with_sound_values(column, sound.get(place))
            elif not _is_plain(column):
                column.validate(full=True)
        yield batch


def _with_sound_values(column: pa.DictionaryArray, before: pa.Array | None) -> pa.Array:
    """The values of a dictionary, looked at once where batches share them."""
    values, indices = column.dictionary, column.indices
    kind = np.dtype(indices.type.to_pandas_dtype())
    numbers = _items(indices.buffers()[1], kind, len(indices), indices.offset)
    if numbers.min() < 0 or numbers.max() >= len(values):
        column.validate(full=True)
    if before is None or _places(before) != _places(values):
        values.validate(full=True)
    return values


def _places(values: pa.Array) -> tuple[object, ...]:
    """Where values lie in memory."""
    parts = (None if part is None else part.address for part in values.buffers())
    return len(values), values.offset, *parts


def _is_plain(column: pa.Array) -> bool:
    """Whether nothing can be wrong: numbers, or offsets that ascend inside bytes or ASCII."""
    kind, rows = column.type, len(column)
    if not rows or pa.types.is_primitive(kind):
        return True
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return False
    _, places, content = column.buffers()
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    offsets = _items(places, np.dtype(np.int64 if wide else np.int32), rows + 1, column.offset)
    first, last = int(offsets[0]), int(offsets[-1])
    if not 0 <= first <= last <= (0 if content is None else content.size):
        return False
    for lo in range(0, rows, _PIECE):
        piece = offsets[lo : lo + _PIECE + 1]
        if (piece[1:] < piece[:-1]).any():
            return False
    size = last - first
    return not (text and size) or _items(content, np.dtype(np.int8), size, first).min() >= 0


def _items(buffer: pa.Buffer, kind: np.dtype, length: int, first: int) -> np.ndarray:
    return np.frombuffer(buffer, kind, length, first * kind.itemsize)


class StreamBytes:
    """The bytes of a stream, which notice a reader that asks for more than there are.

    Arrow ends a stream at its end-of-stream marker, and just as well where the bytes end between
    two batches. Only in the second case it asks for bytes after the last.

    Parameters
    ----------
    file : binary file
    """

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self._ran_out = False

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, fewer at the end."""
        found: bytes = self._file.read(size)
        self._ran_out = self._ran_out or (size != 0 and not found)
        return found

    def readable(self) -> bool:
        """Tell Arrow that it can read."""
        return True

    def close(self) -> None:
        """Leave the file to whoever opened it."""

    def refuse_unfinished(self, name: str) -> None:
        """Refuse a stream that was read to its end and has no marker there, or bytes behind it.

        Raises
        ------
        SourceError
        """
        if self._ran_out:
            raise SourceError(
                f"Cannot read {name}: the Arrow stream has no end-of-stream marker, so its writer "
                "may have stopped before the last row. Close the writer of the stream, or accept "
                "the rows that are there with allow_unfinished=True (--allow-unfinished)."
            )
        if self._file.read(1):
            raise SourceError(
                f"Cannot read {name}: bytes follow the end-of-stream marker of the Arrow stream, "
                "so that rows would be left out. Write one stream, or read each file by its name."
            )


def open_stream(file: Any) -> tuple[pa.RecordBatchReader, StreamBytes]:
    """Open an Arrow IPC stream; its bytes tell afterwards whether it was finished."""
    stream = StreamBytes(file)
    return pa.ipc.open_stream(stream), stream


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
) -> Iterator[Batch]:
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
