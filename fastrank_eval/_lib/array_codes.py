"""Encode numbers of saved states as arrays that compress well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

#: A saved state: arrays by name. They do not depend on row order, threads and batches.
Arrays = dict[str, np.ndarray]

_LIMB = 32
#: A sum of doubles has at most 64 limbs, a sum of products twice as many.
_MAX_LIMBS = 1 << 10


def integers_to_limbs(numbers: Sequence[int]) -> Arrays:
    """Encode integers of any size as 32-bit limbs.

    Parameters
    ----------
    numbers : sequence of int

    Returns
    -------
    dict of ndarray
        ``limbs`` (uint32): the digits to base 2**32 of all magnitudes, least significant first,
        without zeros at both ends. For each number: ``length`` (int64), its count of limbs;
        ``lowest`` (int64), the exponent of 2**32 of its first limb; ``negative`` (uint8), its sign.
    """
    digits: list[bytes] = []
    lengths, lowest = np.zeros((2, len(numbers)), np.int64)
    for i, number in enumerate(numbers):
        size = abs(number)
        if size:
            lowest[i] = ((size & -size).bit_length() - 1) // _LIMB
            size >>= _LIMB * int(lowest[i])
            lengths[i] = -(-size.bit_length() // _LIMB)
            digits.append(size.to_bytes(4 * int(lengths[i]), "little"))
    return {
        "limbs": np.frombuffer(b"".join(digits), "<u4"),
        "length": lengths,
        "lowest": lowest,
        "negative": np.array([number < 0 for number in numbers], np.uint8),
    }


def limbs_to_integers(arrays: Mapping[str, np.ndarray]) -> list[int]:
    """Decode the integers of `integers_to_limbs`."""
    numbers, first = [], 0
    columns = (arrays[name].tolist() for name in ("length", "lowest", "negative"))
    for length, lowest, negative in zip(*columns, strict=True):
        if not (0 <= length <= _MAX_LIMBS and 0 <= lowest <= _MAX_LIMBS):
            raise ValueError(f"a sum has {length} digits, the first worth 2^(32 * {lowest})")
        digits = arrays["limbs"][first : first + length].astype("<u4").tobytes()
        size = int.from_bytes(digits, "little") << (_LIMB * lowest)
        numbers.append(-size if negative else size)
        first += length
    return numbers


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
