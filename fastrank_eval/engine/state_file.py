"""Read and write files of saved states."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.array_codes import stated_size
from fastrank_eval._lib.arrow import arrow_column, bytes_column, column_with_nulls
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import FastRankEvalError, MeasureError, SourceError
from fastrank_eval.engine.state_arrays import (
    SLICES,
    VALUES,
    Rows,
    StateArrays,
    field_values,
)
from fastrank_eval.io.source import first_line
from fastrank_eval.slicing.encode import value_texts

#: The version of the format that is written and read.
FORMAT = 4


_SCHEMA = pa.schema(
    [
        ("slicing", pa.int32()),
        ("slice", pa.string()),
        ("model", pa.string()),
        ("state", pa.string()),
        ("part", pa.string()),
        ("type", pa.string()),
        ("shape", pa.list_(pa.int64())),
        ("content", pa.large_binary()),
    ]
)
#: The longest first axis (measures, counters, bytes) of an array without a number.
_MOST_EMPTY = 1 << 16
_TYPES = ("uint8", "uint16", "uint32", "uint64", "int64", "float64")
_PREFIX = "fastrank_eval."
_MARK = b"fastrank_eval state, sha256:"
_DIGITS = 64
_MAGIC = b"ARROW1"
#: The mark of a state lies in these first bytes: Arrow writes the last entry of metadata first.
_START = 1 << 22
_ZEROS = b"0" * _DIGITS
#: The stream of batches begins after the magic and two bytes.
_STREAM = 8
#: A file may state so many bytes, or so many times its own size: sums compress 1 to 50 times.
_MOST_MEMORY, _MOST_RATIO = 1 << 26, 1000
#: Bytes of content in a record batch.
_BATCH = 1 << 24


def state_bytes(header: Mapping[str, Any], arrays: StateArrays) -> bytes:
    """Write the content of a state file to bytes.

    Parameters
    ----------
    header : mapping of str to JSON values
    arrays : dict
    """
    metadata = {
        "format": str(FORMAT),
        "writer": __version__,
        **{name: json.dumps(value, allow_nan=False) for name, value in header.items()},
        "digest": (_MARK + _ZEROS).decode(),
    }
    schema = _SCHEMA.with_metadata({_PREFIX + name: text for name, text in metadata.items()})
    slicings = list(header["slicings"])
    content = b""
    for codec in ("zstd", None) if pa.Codec.is_available("zstd") else (None,):
        sink = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with pa.ipc.new_file(sink, schema, options=options) as file:
            for batch in _batches(arrays, slicings, schema):
                file.write_batch(batch)
        content = sink.getvalue()
        if not _excess(content):
            break
    return content.replace(_MARK + _ZEROS, _MARK + hashlib.sha256(content).hexdigest().encode())


def _batches(
    arrays: StateArrays, slicings: list[str], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    numbers: dict[str, int | None] = {"": None} | {by: i for i, by in enumerate(slicings)}
    rows: list[tuple[Any, ...]] = []
    size = 0
    for ((by, label), model, state), parts in arrays.items():
        for name, array in parts.items():
            little_endian = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            key = numbers[by], label, model, state, name
            rows.append((*key, array.dtype.name, list(array.shape), little_endian.tobytes()))
            size += little_endian.nbytes + sum(map(len, key[1:]))
            if size >= _BATCH:
                yield _batch(rows, schema)
                rows, size = [], 0
    if rows:
        yield _batch(rows, schema)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    # Not pa.array(), which imports pandas where it is installed: 0.15 s.
    numbers, *texts, shapes, contents = zip(*rows, strict=True)
    missing = np.array([number is None for number in numbers])
    axes = np.cumsum([0, *map(len, shapes)], dtype=np.int32)
    sizes = np.array([size for shape in shapes for size in shape], np.int64)
    columns = [
        column_with_nulls(np.array([number or 0 for number in numbers], np.int32), missing),
        *(bytes_column([text.encode() for text in column], pa.string()) for column in texts),
        pa.ListArray.from_arrays(arrow_column(axes), arrow_column(sizes)),
        bytes_column(contents, pa.large_binary()),
    ]
    return pa.record_batch(columns, schema=schema)


def read_state(path: str | os.PathLike[str]) -> tuple[dict[str, Any], StateArrays]:
    """Read the header of a file, and the arrays of each state.

    Raises
    ------
    SourceError
        If it cannot be read, is not a saved state, is damaged, or is of a newer format.
    """
    shown = os.fspath(path)
    try:
        # Not mapped: a file that is truncated while it is read would end the process by a signal.
        with Path(shown).open("rb") as handle:
            content = handle.read()
    except OSError as error:
        raise SourceError(
            f"cannot read the saved state {shown!r}: {error.strerror or error}."
        ) from error
    return read_state_bytes(content, shown)


def read_state_bytes(
    content: bytes, shown: str = "these bytes"
) -> tuple[dict[str, Any], StateArrays]:
    """Read the bytes of `state_bytes`; raise the errors of `read_state`."""
    if not content:
        raise _foreign(shown, "it is empty")
    _check_digest(content, shown)
    with wrap_errors(repr(shown)):
        if excess := _excess(content):
            raise ValueError(excess)
        # Not as a file, whose footer may name other batches than those that were measured.
        with pa.ipc.open_stream(_stream_in(content)) as stream:
            return _read(stream, shown)


def _stream_in(content: bytes) -> pa.Buffer:
    return pa.py_buffer(content).slice(_STREAM)


def _excess(content: bytes) -> str:
    """Say what a file states beyond what its size allows; empty if nothing."""
    size, rows = stated_size(_stream_in(content))
    if size > max(_MOST_MEMORY, _MOST_RATIO * len(content)):
        return f"{len(content):,} bytes state {size:,} bytes of sums, too much for their size"
    if rows > len(content):
        return f"{len(content):,} bytes state {rows:,} arrays"
    return ""


@contextmanager
def wrap_errors(shown: str) -> Iterator[None]:
    """Raise errors in the content of a state as a `SourceError`.

    Parameters
    ----------
    shown : str
        The name of the state in messages, in quotes if it is a path.

    Raises
    ------
    SourceError
        Instead of any other error.
    """
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        known = isinstance(error, ValueError | FastRankEvalError)
        reason = first_line(error) if known else f"{type(error).__name__}: {first_line(error)}"
        remedy = "write it anew with --save-state"
        if isinstance(error, MeasureError):
            remedy = "register its measures or install their package, or " + remedy
        raise SourceError(
            f"{shown} is not a state that this version can read: {reason}; {remedy}."
        ) from error


def is_state(path: str | os.PathLike[str]) -> bool:
    """Test whether a file is a saved state, damaged and newer ones too."""
    shown = Path(path)
    try:
        if not shown.is_file():
            return False
        with shown.open("rb") as handle:
            start = handle.read(_START)
    except OSError:
        return False
    return start.startswith(_MAGIC) and _MARK in start


def _check_digest(content: bytes, shown: str) -> None:
    if content[:6] != _MAGIC:
        raise _foreign(shown, "it is not an Arrow IPC file")
    start = content.find(_MARK)
    if start < 0:
        raise _foreign(shown, "it has no mark of one")
    mark = content[start : start + len(_MARK) + _DIGITS]
    digest = hashlib.sha256(content.replace(mark, _MARK + _ZEROS))
    if digest.hexdigest().encode() != mark[len(_MARK) :]:
        raise SourceError(
            f"the saved state {shown!r} is damaged: its bytes are not those that were written (cut "
            "short, or changed); copy it again, or write it anew with --save-state."
        )


def _foreign(shown: str, why: str) -> SourceError:
    return SourceError(
        f"{shown!r} is not a saved state: {why}; name a file that --save-state (in Python: "
        "State.save) has written."
    )


def _read(stream: pa.RecordBatchStreamReader, shown: str) -> tuple[dict[str, Any], StateArrays]:
    texts = {
        key.decode().removeprefix(_PREFIX): value.decode()
        for key, value in (stream.schema.metadata or {}).items()
    }
    version, writer = int(texts.pop("format")), texts.pop("writer")
    if version != FORMAT:
        raise SourceError(
            f"the saved state {shown!r} has format {version}, written by fastrank_eval {writer}; "
            f"this is {__version__}, which reads format {FORMAT}: "
            + ("install a newer one." if version > FORMAT else "evaluate the rows again.")
        )
    texts.pop("digest")
    header = {name: json.loads(text) for name, text in texts.items()}
    slicings = {None: ""} | dict(enumerate(header["slicings"]))
    arrays: StateArrays = {}
    for batch in stream:
        batch.validate(full=True)
        names = [batch.column(name).to_pylist() for name in _SCHEMA.names[:-1]]
        content = batch.column("content")
        for row, (number, *key, part, kind, shape) in enumerate(zip(*names, strict=True)):
            label, model, state = key
            if kind not in _TYPES:
                raise SourceError(f"{shown!r}: unknown type {kind!r} of {state} {part}.")
            buffer = content[row].as_buffer()
            array = np.frombuffer(buffer, np.dtype(kind).newbyteorder("<"))
            # A copy: Arrow does not align values.
            array = array.astype(kind).reshape(shape)
            if not array.size and shape[0] > _MOST_EMPTY:
                raise ValueError(f"{state} {part} is empty, of shape {shape}")
            arrays.setdefault((Rows(slicings[number], label), model, state), {})[part] = array
    return header, arrays


def fingerprint_of(measures: list[str], arrays: StateArrays) -> str:
    """Hash measures and sums: equal rows have equal hashes, from any source."""
    slicings = sorted({key[0].by for key in arrays})
    numbers = {by: number for number, by in enumerate(slicings)}
    digest = hashlib.sha256(json.dumps([measures, slicings]).encode())
    for (rows, model, state), parts in sorted(arrays.items()):
        if state in (SLICES, VALUES):
            continue
        if "table" in parts:  # the bytes of the values of a field depend on the width of their type
            digest.update(json.dumps([state, value_texts(field_values(parts))]).encode())
            continue
        for name, array in sorted(parts.items()):
            key = numbers[rows.by], rows.label, model, state
            description = (*key, name, array.dtype.name, array.shape)
            digest.update(json.dumps(description).encode())
            digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Provenance:
    """The origin of the rows of one evaluation in a state.

    Parameters
    ----------
    sources : tuple of str
        Paths as the caller wrote them, or the type of the source.
    order : str
        Order of the rows, as in `Meta.conventions`.
    where : str or None
        The condition that selected rows.
    limit : int or None
        The largest number of rows to read.
    rows, positives, groups : int
    writer : str
        Version of fastrank_eval.
    fingerprint : str
        SHA-256 of measures and sums: equal for equal rows, from any source.
    """

    sources: tuple[str, ...]
    order: str
    where: str | None
    limit: int | None
    rows: int
    positives: int
    groups: int
    writer: str
    fingerprint: str
