"""Arrow columns and values of NumPy's and Python's numbers and text.

pa.array() and pa.scalar() import pandas where it is installed, whatever they are given. That takes
0.2 s, as long as evaluating ten million rows; so what is made here is made of its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

__all__ = ["arrow_column", "arrow_value", "bytes_column", "column_with_nulls", "values_column"]


def arrow_column(values: np.ndarray, kind: pa.DataType | None = None) -> pa.Array:
    """A contiguous array of numbers as an Arrow array of the same bytes, without a copy."""
    kind = pa.from_numpy_dtype(values.dtype) if kind is None else kind
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def column_with_nulls(values: np.ndarray, null: np.ndarray) -> pa.Array:
    """The same, null where a mask says so."""
    valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(values)])


def bytes_column(values: Sequence[bytes], kind: pa.DataType) -> pa.Array:
    """Strings or bytes, with 32-bit or 64-bit offsets as their type has them."""
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    ends = np.array([0, *accumulate(map(len, values))], np.int64 if wide else np.int32)
    return pa.Array.from_buffers(
        kind, len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    )


def values_column(values: Sequence[pa.Scalar], kind: pa.DataType) -> pa.Array:
    """Values of one type as a column."""
    if not values:
        return pa.nulls(0, kind)
    return pa.concat_arrays([pa.repeat(value, 1) for value in values])


def arrow_value(value: bool | float | str | bytes | None, kind: pa.DataType) -> pa.Scalar:
    """One value of a type: null, a bool, an integer, a float, or text.

    Raises
    ------
    OverflowError
        If an integer type does not hold it.
    UnicodeEncodeError
        If it is text that UTF-8 cannot hold.
    """
    if value is None:
        return pa.nulls(1, kind)[0]
    if isinstance(value, str | bytes):
        return bytes_column([value.encode() if isinstance(value, str) else value], kind)[0]
    if pa.types.is_boolean(kind):
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes([bool(value)]))])[0]
    return arrow_column(np.array([value], kind.to_pandas_dtype()), kind)[0]
