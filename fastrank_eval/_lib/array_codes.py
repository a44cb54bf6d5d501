"""Numbers of states as arrays that compress well and mean the same to every later version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

#: What a state is saved as: arrays by name, the same for any order, threads and batches.
Parts = dict[str, np.ndarray]

_LIMB = 32
#: No sum has more digits: 64 of doubles, twice as many of products.
_MOST_LIMBS = 1 << 10


def limbs_of(numbers: Sequence[int]) -> Parts:
    """Whole numbers of any size.

    Parameters
    ----------
    numbers : sequence of int

    Returns
    -------
    dict of ndarray
        ``limbs`` (uint32): the digits to base 2**32 of all magnitudes, least significant first,
        zeros at both ends left out; ``length``, ``lowest`` (int64), ``negative`` (uint8), one entry
        a number: how many limbs it has, the power of 2**32 that its first one is worth, its sign.
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


def numbers_of(parts: Mapping[str, np.ndarray]) -> list[int]:
    """The whole numbers that `limbs_of` wrote."""
    numbers, first = [], 0
    columns = (parts[name].tolist() for name in ("length", "lowest", "negative"))
    for length, lowest, negative in zip(*columns, strict=True):
        if not (0 <= length <= _MOST_LIMBS and 0 <= lowest <= _MOST_LIMBS):
            raise ValueError(f"a sum has {length} digits, the first worth 2^(32 * {lowest})")
        digits = parts["limbs"][first : first + length].astype("<u4").tobytes()
        size = int.from_bytes(digits, "little") << (_LIMB * lowest)
        numbers.append(-size if negative else size)
        first += length
    return numbers


def narrow(counts: np.ndarray) -> np.ndarray:
    """Numbers of at least 0 in the smallest unsigned type that holds them all."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def byte_shuffle(values: np.ndarray) -> np.ndarray:
    """The bytes of numbers, all first bytes before all second ones.

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


def byte_unshuffle(parts: np.ndarray, kind: str) -> np.ndarray:
    """The numbers whose bytes `planes` took apart.

    Parameters
    ----------
    parts : ndarray of uint8, shape (bytes of a number, rows)
    kind : {"u", "f"}
        Unsigned integers, or floats.
    """
    whole = np.ascontiguousarray(parts.T).reshape(-1)
    return whole.view(np.dtype(f"<{kind}{parts.shape[0]}"))


def steps_of(integers: np.ndarray) -> np.ndarray:
    """Unsigned integers as `planes` of their differences, the first from 0; best if they ascend.

    Differences wrap around where they fall.
    """
    return byte_shuffle(np.diff(integers, prepend=integers.dtype.type(0)))


def of_steps(parts: np.ndarray) -> np.ndarray:
    """The integers that `steps_of` took apart."""
    steps = byte_unshuffle(parts, "u")
    return np.cumsum(steps, dtype=steps.dtype)


def table_bytes(table: pa.Table) -> np.ndarray:
    """A table as an Arrow IPC stream of one record batch. uint8, shape (bytes,)."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return np.frombuffer(sink.getvalue(), np.uint8)


def table_in(content: np.ndarray) -> pa.Table:
    """The table that `table_bytes` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(content)) as stream:
        return stream.read_all()
