"""Files of saved states: Arrow IPC, a row for each array, and a digest of every byte.

docs/STATES.md describes the format. The digest is checked before Arrow reads anything, so that a
damaged file is refused, whatever was damaged.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from fastrank_eval import __version__
from fastrank_eval.errors import FastRankEvalError, SourceError
from fastrank_eval.saved_parts import Parts

#: The version of the format that is written and read.
FORMAT = 2


class Rows(NamedTuple):
    """The rows that a state is of.

    Parameters
    ----------
    by : str
        A slicing, which may be as long as its edges are many; empty of all rows.
    label : str
        One slice of it; empty of what has a line for each slice.
    """

    by: str = ""
    label: str = ""


#: Rows, model and name of a state.
Place = tuple[Rows, str, str]

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
_TYPES = ("uint8", "uint16", "uint32", "uint64", "int64", "float64")
_PREFIX = "fastrank_eval."
_MARK = b"fastrank_eval state, sha256:"
_DIGITS = 64
_MAGIC = b"ARROW1"
#: Bytes in which the mark of a state is found: Arrow writes the last entry of metadata first.
_START = 1 << 22
_ZEROS = b"0" * _DIGITS
#: Bytes of content in a record batch.
_BATCH = 1 << 24


def write_state(part: Path, header: Mapping[str, Any], states: Mapping[Place, Parts]) -> None:
    """Write a file, its digest last.

    Parameters
    ----------
    part : Path
        A file that exists, to be written over.
    header : mapping of str to JSON values
    states : mapping
        The arrays of each state.
    """
    with part.open("wb") as sink:
        _write(sink, header, states)
    content = part.read_bytes()
    digest = hashlib.sha256(content).hexdigest().encode()
    with part.open("r+b") as whole:
        for place in _places(content, _MARK + _ZEROS):
            whole.seek(place + len(_MARK))
            whole.write(digest)


def state_bytes(header: Mapping[str, Any], states: Mapping[Place, Parts]) -> bytes:
    """What `write_state` would write to a file."""
    sink = io.BytesIO()
    _write(sink, header, states)
    content = sink.getvalue()
    return content.replace(_MARK + _ZEROS, _MARK + hashlib.sha256(content).hexdigest().encode())


def _write(sink: IO[bytes], header: Mapping[str, Any], states: Mapping[Place, Parts]) -> None:
    """Write a file with zeros for its digest."""
    metadata = {
        "format": str(FORMAT),
        "writer": __version__,
        **{name: json.dumps(value, allow_nan=False) for name, value in header.items()},
        "digest": (_MARK + _ZEROS).decode(),
    }
    schema = _SCHEMA.with_metadata({_PREFIX + name: text for name, text in metadata.items()})
    codec = "zstd" if pa.Codec.is_available("zstd") else None
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_file(sink, schema, options=options) as file:
        for batch in _batches(states, list(header["slicings"]), schema):
            file.write_batch(batch)


def _batches(
    states: Mapping[Place, Parts], slicings: list[str], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    numbers: dict[str, int | None] = {"": None} | {by: at for at, by in enumerate(slicings)}
    rows: list[tuple[Any, ...]] = []
    size = 0
    for ((by, label), model, state), parts in states.items():
        for name, array in parts.items():
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            place = numbers[by], label, model, state, name
            rows.append((*place, array.dtype.name, list(array.shape), little.tobytes()))
            size += little.nbytes + sum(map(len, place[1:]))
            if size >= _BATCH:
                yield _batch(rows, schema)
                rows, size = [], 0
    if rows:
        yield _batch(rows, schema)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.record_batch(columns, schema=schema)


def read_state(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[Place, Parts]]:
    """Read a file: its header, and the arrays of each state.

    Raises
    ------
    SourceError
        If it cannot be read, is no saved state, is damaged, or is of a newer format.
    """
    shown = os.fspath(path)
    try:
        # Not mapped: a file cut short meanwhile would end the process by a signal.
        with Path(shown).open("rb") as handle:
            if not os.fstat(handle.fileno()).st_size:
                raise _foreign(shown, "it is empty")
            content = handle.read()
    except OSError as error:
        raise SourceError(
            f"cannot read the saved state {shown!r}: {error.strerror or error}."
        ) from error
    return state_in(content, shown)


def state_in(
    content: bytes, shown: str = "these bytes"
) -> tuple[dict[str, Any], dict[Place, Parts]]:
    """Read what `state_bytes` gave, called `shown` in messages; raises as `read_state` does."""
    if not content:
        raise _foreign(shown, "it is empty")
    _check_digest(content, shown)
    return _opened(pa.BufferReader(content), shown)


def _opened(source: pa.NativeFile, shown: str) -> tuple[dict[str, Any], dict[Place, Parts]]:
    with sound(repr(shown)), pa.ipc.open_file(source) as file:
        return _read(file, shown)


@contextmanager
def sound(shown: str) -> Iterator[None]:
    """Take whatever the content of a state makes fail for a fault of that content.

    A digest says that bytes are those written, not who wrote them: arrays may lack, be of another
    shape, or hold numbers that mean nothing.

    Parameters
    ----------
    shown : str
        What messages call the state, in quotes if it is a name.

    Raises
    ------
    SourceError
        Instead of any error that is not ours.
    """
    try:
        yield
    except FastRankEvalError:
        raise
    except Exception as error:
        raise malformed(shown, f"{type(error).__name__}: {error}") from error


def is_state(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a saved state, be it damaged or of a newer format; False without a file."""
    shown = Path(path)
    try:
        if not shown.is_file():
            return False
        with shown.open("rb") as handle:
            start = handle.read(_START)
    except OSError:
        return False
    return start.startswith(_MAGIC) and _MARK in start


def malformed(shown: str, why: object) -> SourceError:
    """What is said of content whose bytes are those written, but do not make a state."""
    reason = (str(why).splitlines() or ["unknown fault"])[0]
    return SourceError(
        f"{shown} is no state that this version can read: {reason}; write it anew with "
        "--save-state."
    )


def _check_digest(content: bytes, shown: str) -> None:
    if content[:6] != _MAGIC:
        raise _foreign(shown, "it is no Arrow IPC file")
    at = content.find(_MARK)
    if at < 0:
        raise _foreign(shown, "it bears no mark of one")
    mark = content[at : at + len(_MARK) + _DIGITS]
    digest, done = hashlib.sha256(), 0
    with memoryview(content) as view:
        for place in _places(content, mark):
            digest.update(view[done : place + len(_MARK)])
            digest.update(_ZEROS)
            done = place + len(mark)
        digest.update(view[done:])
    if digest.hexdigest().encode() != mark[len(_MARK) :]:
        raise SourceError(
            f"the saved state {shown!r} is damaged: its bytes are not those that were written (cut "
            "short, or changed); copy it again, or write it anew with --save-state."
        )


def _places(content: bytes, mark: bytes) -> list[int]:
    places, at = [], content.find(mark)
    while at >= 0:
        places.append(at)
        at = content.find(mark, at + len(mark))
    return places


def _foreign(shown: str, why: str) -> SourceError:
    return SourceError(
        f"{shown!r} is no saved state: {why}; name a file that --save-state (in Python: "
        "State.save) has written."
    )


def _read(file: pa.RecordBatchFileReader, shown: str) -> tuple[dict[str, Any], dict[Place, Parts]]:
    texts = {
        key.decode().removeprefix(_PREFIX): value.decode()
        for key, value in (file.schema.metadata or {}).items()
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
    states: dict[Place, Parts] = {}
    for number in range(file.num_record_batches):
        batch = file.get_batch(number)
        batch.validate(full=True)
        names = [batch.column(name).to_pylist() for name in _SCHEMA.names[:-1]]
        content = batch.column("content")
        for row, (number, *place, part, kind, shape) in enumerate(zip(*names, strict=True)):
            label, model, state = place
            if kind not in _TYPES:
                raise SourceError(f"{shown!r}: unknown type {kind!r} of {state} {part}.")
            buffer = content[row].as_buffer()
            array = np.frombuffer(buffer, np.dtype(kind).newbyteorder("<"))
            # A copy: Arrow aligns no value by itself.
            array = array.astype(kind).reshape(shape)
            states.setdefault((Rows(slicings[number], label), model, state), {})[part] = array
    return header | {"writer": writer}, states
