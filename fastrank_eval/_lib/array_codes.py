"""Encode numbers of saved states as arrays that compress well."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

#: A saved state: arrays by name. They do not depend on row order, threads and batches.
Arrays = dict[str, np.ndarray]
#: Numbers of Arrow's format: the version of messages, and the type of a batch of a dictionary.
_V5, _DICTIONARY = 4, 2


def narrow(counts: np.ndarray) -> np.ndarray:
    """Convert non-negative integers to the smallest unsigned type."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def byte_shuffle(values: np.ndarray) -> np.ndarray:
    """Store all first bytes of numbers before all second bytes.

    Parameters
    ----------
    values : ndarray of any number type, shape (rows,)

    Returns
    -------
    ndarray of uint8, shape (bytes of a number, rows)
        The least significant byte first.
    """
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return np.ascontiguousarray(little.view(np.uint8).reshape(len(values), values.dtype.itemsize).T)


def byte_unshuffle(arrays: np.ndarray, kind: str) -> np.ndarray:
    """Restore the numbers of `byte_shuffle`.

    Parameters
    ----------
    arrays : ndarray of uint8, shape (bytes of a number, rows)
    kind : {"u", "f"}
        Unsigned integers, or floats.
    """
    row_bytes = np.ascontiguousarray(arrays.T).reshape(-1)
    return row_bytes.view(np.dtype(f"<{kind}{arrays.shape[0]}"))


def delta_encode(integers: np.ndarray) -> np.ndarray:
    """Encode unsigned integers as shuffled bytes of their differences.

    Ascending integers compress best. A negative difference wraps around.
    """
    return byte_shuffle(np.diff(integers, prepend=integers.dtype.type(0)))


def delta_decode(arrays: np.ndarray) -> np.ndarray:
    """Decode the integers of `delta_encode`."""
    steps = byte_unshuffle(arrays, "u")
    return np.cumsum(steps, dtype=steps.dtype)


def table_bytes(table: pa.Table) -> np.ndarray:
    """Write a table as an Arrow IPC stream of one batch; uint8 array."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return np.frombuffer(sink.getvalue(), np.uint8)


def table_from_bytes(content: np.ndarray) -> pa.Table:
    """Read the table of `table_bytes`; refuse one whose content is compressed."""
    buffer = pa.py_buffer(content)
    if max(stated_size(buffer)) > len(content):
        raise ValueError("a table states more bytes or rows than it has")
    with pa.ipc.open_stream(buffer) as stream:
        return stream.read_all()


def stated_size(stream: pa.Buffer) -> tuple[int, int]:
    """Sum the sizes of the batches of an Arrow IPC stream when decompressed.

    Returns
    -------
    content, rows : int
        Bytes after decompression, and rows.

    Raises
    ------
    ValueError
        If the format of a batch is older than version 5, which writes sizes in another place.
    """
    content = rows = 0
    for message in pa.ipc.MessageReader.open_stream(stream):
        if message.type != "schema":
            more_content, more_rows = _stated_by(bytes(message.metadata), message.body)
            content, rows = content + more_content, rows + more_rows
    return content, rows


def _stated_by(metadata: bytes, body: pa.Buffer) -> tuple[int, int]:
    """Read the sizes in a message's flatbuffer, which pyarrow verified."""

    def number(form: str, at: int) -> int:
        return int(struct.unpack_from(f"<{form}", metadata, at)[0])

    def field(table: int, position: int) -> int:
        """Return the place of an entry of a table, 0 if it is left out."""
        entries = table - number("i", table)
        index = 4 + 2 * position
        offset = number("H", entries + index) if index < number("H", entries) else 0
        return table + offset if offset else 0

    def target(at: int) -> int:
        return at + number("I", at)

    root = target(0)
    version, kind = field(root, 0), field(root, 1)
    if not version or number("h", version) != _V5:
        raise ValueError("its format of batches is not version 5")
    batch = target(field(root, 2))
    if number("B", kind) == _DICTIONARY:
        batch = target(field(batch, 1))
    length, buffers = field(batch, 0), field(batch, 2)
    rows = number("q", length) if length else 0
    if not buffers:
        return 0, rows
    compressed, indices, content = field(batch, 3) > 0, target(buffers), 0
    for at in range(indices + 4, indices + 4 + 16 * number("I", indices), 16):
        offset, size = number("q", at), number("q", at + 8)
        if compressed and size:
            # The size after decompression stands first; -1 where this buffer is not compressed.
            (stated,) = struct.unpack_from("<q", body, offset)
            size = size if stated < 0 else stated
        content += size
    return content, rows
