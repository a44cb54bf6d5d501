"""Encode numbers of saved states as arrays that compress well."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

#: A saved state: arrays by name. They do not depend on row order, threads and batches.
Arrays = dict[str, np.ndarray]


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
    """Read the table of `table_bytes`."""
    with pa.ipc.open_stream(pa.py_buffer(content)) as stream:
        return stream.read_all()
