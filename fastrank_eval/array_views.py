"""Arrow columns as NumPy arrays: read-only views where the type allows one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fastrank_eval.columns import frozen

__all__ = ["as_array", "decoded", "fixed_items"]


def as_array(column: pa.Array) -> np.ndarray:
    """A primitive Arrow array without nulls as a read-only NumPy array, a view where possible."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    # Not to_numpy(), which imports pandas where it is installed: 0.3 s.
    return fixed_items(column, np.dtype(column.type.to_pandas_dtype()))


def fixed_items(column: pa.Array, dtype: np.dtype) -> np.ndarray:
    """The items of a fixed-width array as they lie in memory; a read-only view."""
    if not len(column):
        return frozen(np.empty(0, dtype))
    start = column.offset * dtype.itemsize
    return frozen(np.frombuffer(column.buffers()[1], dtype, len(column), start))


def decoded(column: pa.Array) -> pa.Array:
    """The values behind an extension type, run ends or a dictionary, in a layout Arrow gathers."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return decoded(column.storage)
    if pa.types.is_run_end_encoded(kind):
        import pyarrow.compute as pc

        return decoded(pc.run_end_decode(column))
    if pa.types.is_dictionary(kind):
        values = _wide(decoded(column.dictionary))
        return pa.DictionaryArray.from_arrays(column.indices, values).dictionary_decode()
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        return column.cast(pa.large_binary())
    return column


def _wide(column: pa.Array) -> pa.Array:
    """Strings and bytes with 64-bit offsets: repeated often, short ones pass 2 GiB."""
    if pa.types.is_string(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_binary(column.type):
        return column.cast(pa.large_binary())
    return column
