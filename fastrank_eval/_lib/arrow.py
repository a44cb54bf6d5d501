"""Make Arrow arrays from Python values and NumPy arrays from Arrow ones.

Encode numbers of saved states as arrays that compress well.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

#: NumPy's types of numbers by the number of Arrow's.
NUMBERS = {
    pa.from_numpy_dtype(name).id: np.dtype(name)
    for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
}

#: NumPy's types of integers, dates and times, which have their order and are equal where they are.
WORDS = {
    **{number: dtype for number, dtype in NUMBERS.items() if dtype.kind != "f"},
    **{kind.id: np.dtype(np.int32) for kind in (pa.date32(), pa.time32("s"))},
    **{
        kind.id: np.dtype(np.int64)
        for kind in (pa.date64(), pa.time64("us"), pa.timestamp("s"), pa.duration("s"))
    },
}


def arrow_column(values: np.ndarray, kind: pa.DataType | None = None) -> pa.Array:
    """Wrap a contiguous array of numbers as an Arrow array, without a copy."""
    kind = pa.from_numpy_dtype(values.dtype) if kind is None else kind
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def mask_column(mask: np.ndarray) -> pa.Array:
    """Convert a mask to an Arrow array."""
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, bits])


def column_with_nulls(values: np.ndarray, null: np.ndarray) -> pa.Array:
    """Wrap numbers as an Arrow array that is null where a mask is true."""
    valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(values)])


def bytes_column(values: Sequence[str] | Sequence[bytes], kind: pa.DataType) -> pa.Array:
    """Make an Arrow array of strings or bytes with the offsets of the type."""
    content = values[0][:0].join(values) if values else b""  # type: ignore[arg-type]
    if isinstance(content, str):
        if not content.isascii():
            return bytes_column([text.encode() for text in values], kind)  # type: ignore[union-attr]
        content = content.encode()
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    ends = np.append(0, np.cumsum(np.fromiter(map(len, values), np.int64, len(values))))
    if not wide:
        ends = np.append(ends[:-1].astype(np.int32), np.int32(ends[-1].item()))  # may be too large
    return pa.Array.from_buffers(
        kind, len(values), [None, pa.py_buffer(ends), pa.py_buffer(content)]
    )


def values_column(values: Sequence[pa.Scalar], kind: pa.DataType) -> pa.Array:
    """Make an Arrow array of scalars of one type."""
    if not values:
        return pa.nulls(0, kind)
    return pa.concat_arrays([pa.repeat(value, 1) for value in values])


def arrow_value(value: bool | float | str | bytes | None, kind: pa.DataType) -> pa.Scalar:
    """Make an Arrow scalar: null, a bool, an integer, a float, text or bytes.

    Raises
    ------
    OverflowError
        If the integer type cannot hold the value.
    UnicodeEncodeError
        If UTF-8 cannot encode the text.
    """
    if value is None:
        return pa.nulls(1, kind)[0]
    if isinstance(value, str | bytes):
        return bytes_column([value.encode() if isinstance(value, str) else value], kind)[0]
    if pa.types.is_boolean(kind):
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes([bool(value)]))])[0]
    return arrow_column(np.array([value], numpy_type(kind)), kind)[0]


def numpy_type(kind: pa.DataType) -> np.dtype:
    """Return the NumPy type of an Arrow type of numbers or times."""
    # to_pandas_dtype() of Arrow 20 and 21 imports pandas where it is installed: 0.3 s.
    return NUMBERS.get(kind.id) or np.dtype(kind.to_pandas_dtype())


def as_array(column: pa.Array) -> np.ndarray:
    """View a primitive Arrow array without nulls as a read-only NumPy array.

    Booleans are copied.
    """
    if pa.types.is_boolean(column.type):
        return frozen(_bits(column, 1))
    # Not to_numpy(), which imports pandas where it is installed: 0.3 s.
    return fixed_items(column, numpy_type(column.type))


def missing_rows(column: pa.Array) -> np.ndarray:
    """Return the mask of rows that are null or NaN."""
    column = decode_array(column)
    missing = null_rows(column)
    if not pa.types.is_floating(column.type):
        return missing
    return missing | np.isnan(fixed_items(column, numpy_type(column.type)))


def null_rows(column: pa.Array) -> np.ndarray:
    """Return which rows of a decoded column are null: bool."""
    # Not is_null(): a first call of Arrow's functions imports them, 45 ms.
    if column.buffers()[0] is None:
        return np.full(len(column), column.null_count > 0)
    return _bits(column, 0) == 0


def _bits(column: pa.Array, buffer: int) -> np.ndarray:
    if not len(column):
        return np.empty(0, np.uint8)
    first, end = column.offset >> 3, column.offset + len(column)
    packed = np.frombuffer(column.buffers()[buffer], np.uint8)[first : (end + 7) >> 3]
    return np.unpackbits(packed, count=end - 8 * first, bitorder="little")[column.offset & 7 :]


def fixed_items(column: pa.Array, dtype: np.dtype) -> np.ndarray:
    """View the memory of a fixed-width array as a read-only NumPy array."""
    rows, start = len(column), column.offset * dtype.itemsize
    if not rows:
        return frozen(np.empty(0, dtype))
    values = np.frombuffer(column.buffers()[1], dtype, rows, start)
    values.flags.writeable = False
    return values


def floats_or_nan(column: pa.ChunkedArray) -> np.ndarray:
    """Copy a column of numbers to an array of doubles; nulls become NaN."""
    parts = [np.empty(0)]
    for chunk in column.chunks:
        if not chunk.type.equals(pa.float64()):
            chunk = chunk.cast(pa.float64())
        values = fixed_items(chunk, np.dtype(np.float64)).copy()
        if chunk.null_count:
            values[null_rows(chunk)] = np.nan
        parts.append(values)
    return np.concatenate(parts)


def decode_array(column: pa.Array) -> pa.Array:
    """Decode extension types, run ends, dictionaries and views.

    Arrow can take rows of the result.
    """
    kind = column.type
    if kind.id in NUMBERS:
        return column
    if isinstance(kind, pa.BaseExtensionType):
        return decode_array(column.storage)
    if pa.types.is_run_end_encoded(kind):
        import pyarrow.compute as pc

        return decode_array(pc.run_end_decode(column))
    if pa.types.is_dictionary(kind):
        values = wide(decode_array(column.dictionary))
        return pa.DictionaryArray.from_arrays(column.indices, values).dictionary_decode()
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        import pyarrow.compute as pc

        # Arrow 20 to 26 cast views to lists with wrong offsets.
        lengths = as_array(pc.fill_null(pc.list_value_length(column), 0))
        offsets = arrow_column(np.append(0, np.cumsum(lengths, dtype=np.int64)))
        mask = column.is_null() if column.null_count else None
        return pa.LargeListArray.from_arrays(offsets, column.flatten(), mask=mask)
    return column


def fill_nulls(column: pa.Array) -> pa.Array:
    """Replace nulls of a numeric column by 0; other columns stay the same."""
    kind = column.type
    if pa.types.is_null(kind):
        return arrow_column(np.zeros(len(column), np.float32))
    if pa.types.is_float16(kind):
        column = column.cast(pa.float32())
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    if pa.types.is_boolean(column.type):
        return arrow_column((as_array(column) & ~null_rows(column)).astype(np.uint8))
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return column
    values = fixed_items(column, numpy_type(column.type)).copy()
    np.putmask(values, null_rows(column), 0)
    return arrow_column(values)


def is_wide_integer(kind: pa.DataType) -> bool:
    """Return whether doubles cannot hold all integers of a type."""
    kind = values_type(kind)
    return bool(pa.types.is_int64(kind) or pa.types.is_uint64(kind))


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is a list of any form."""
    types = pa.types
    is_view = types.is_list_view(kind) or types.is_large_list_view(kind)
    is_fixed = types.is_fixed_size_list(kind)
    return bool(types.is_list(kind) or types.is_large_list(kind) or is_fixed or is_view)


def wide(column: pa.Array) -> pa.Array:
    """Widen offsets to 64 bits: repeated short strings can pass 2 GiB."""
    if pa.types.is_string(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_binary(column.type):
        return column.cast(pa.large_binary())
    return column


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of decoded values for comparisons in Arrow.

    A column of nulls counts as booleans: each comparison with it is null.
    """
    kind = values_type(kind)
    for is_kind, plain in (
        (pa.types.is_string_view, pa.large_string()),
        (pa.types.is_binary_view, pa.large_binary()),
        (pa.types.is_float16, pa.float32()),
        (pa.types.is_null, pa.bool_()),
    ):
        if is_kind(kind):
            return plain
    return kind


def values_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the decoded values of a type."""
    if isinstance(kind, pa.BaseExtensionType):
        return values_type(kind.storage_type)
    if pa.types.is_run_end_encoded(kind) or pa.types.is_dictionary(kind):
        return values_type(kind.value_type)
    return kind


def is_textual(kind: pa.DataType) -> bool:
    """Return whether a type is strings or bytes.

    Arrow, Parquet and Python order both by bytes.
    """
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def row_column(rows: np.ndarray) -> pa.Array:
    """Convert row numbers to an Arrow array."""
    return arrow_column(np.ascontiguousarray(rows, np.int64))


def frozen(values: np.ndarray) -> np.ndarray:
    """Make an array read-only and return it.

    Numba compiles a kernel once for read-only arrays and again for writable ones.
    """
    values.flags.writeable = False
    return values


def fixed_width(key: pa.Array | np.ndarray) -> np.ndarray | None:
    """View the bytes of a fixed-width key as integers.

    Equal keys have equal integers.

    Parameters
    ----------
    key : pyarrow.Array, or ndarray of its integers
        Without nulls.

    Returns
    -------
    ndarray or None
        Shape (rows,), or (rows, words) for 128 and 256 bits; signed for signed integers, dates and
        timestamps. None for strings and bytes.
    """
    if isinstance(key, np.ndarray):
        return key
    kind = key.type
    if kind.id in WORDS:
        return fixed_items(key, WORDS[kind.id])
    if pa.types.is_boolean(kind):
        return as_array(key)
    if not (pa.types.is_decimal(kind) or pa.types.is_interval(kind)):
        return None
    width = kind.bit_width // 8
    return fixed_items(key, np.dtype((np.uint64, (width // 8,)) if width > 8 else f"i{width}"))


def text_buffers(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Get the offsets of strings or bytes, and the bytes of all of them."""
    if pa.types.is_fixed_size_binary(texts.type):
        texts = texts.cast(pa.binary())
    wide = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    kind = np.dtype(np.int64 if wide else np.int32)
    _, offset_buffer, content = texts.buffers()
    if offset_buffer is None or not len(texts):
        return frozen(np.zeros(1, kind)), frozen(np.zeros(1, np.uint8))
    offsets = np.frombuffer(offset_buffer, kind, len(texts) + 1, texts.offset * kind.itemsize)
    has_bytes = content is not None and content.size
    return frozen(offsets), frozen(np.frombuffer(content if has_bytes else b"\0", np.uint8))


def uint64_windows(content: np.ndarray) -> np.ndarray:
    """View the eight bytes from each position on as one integer."""
    if len(content) < 16:  # two of them at least: NumPy calls a single one aligned
        content = np.append(content, np.zeros(16, np.uint8))
    return frozen(np.ndarray((len(content) - 7,), np.uint64, content, strides=(1,)))


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
