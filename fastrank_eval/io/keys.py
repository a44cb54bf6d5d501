"""Encode keys of groups and items, and categories, as integers."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    bytes_column,
    decode_array,
    fixed_items,
    fixed_width,
    frozen,
    is_textual,
    null_rows,
    row_column,
    text_buffers,
    uint64_windows,
    wide,
)
from fastrank_eval._lib.jit import inlined, kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.io.columns import refuse_unhashable

#: Odd factor of hashes.
_MIX = 0xD6E8FEB86659FD93
_NO_BASE = frozen(np.zeros(1, np.int64))


def encode_keys(keys: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct keys in order of first appearance.

    Parameters
    ----------
    keys : sequence of pyarrow.Array, each of length rows
        Key columns, without nulls.

    Returns
    -------
    codes : ndarray of int64, shape (rows,)
        Number of the row's key.
    firsts : ndarray of int64, shape (distinct keys,)
        First row of each key.
    """
    return encode_integers(key_integers(keys))


def key_integers(keys: Sequence[pa.Array]) -> np.ndarray:
    """Map keys to integers (int64, read-only), equal exactly where keys are."""
    columns = [_column_integers(key) for key in keys]
    integers = columns[0] if len(keys) == 1 else _encode_words(frozen(np.stack(columns)))[0]
    return frozen(np.ascontiguousarray(integers))


def _column_integers(key: pa.Array) -> np.ndarray:
    words = fixed_width(key)
    if words is None:
        return as_array(key.dictionary_encode().indices).astype(np.int64)
    if words.ndim == 2:
        columns = frozen(np.ascontiguousarray(words.T).view(np.int64))
        return _encode_words(columns)[0]
    return _as_int64(words)


def encode_integers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Encode distinct integers (int64) as `encode_keys` encodes keys."""
    return _encode_words(frozen(np.ascontiguousarray(values).view()).reshape(1, -1))


def _encode_words(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    codes, firsts = np.empty((2, words.shape[1]), np.int64)
    bounds, starts = np.array([[0, len(codes)]]), scratch("starts of keys", len(codes))
    ends = encode_rows(words, bounds, codes, firsts, starts)
    return codes, firsts[: ends[1]].copy()


def encode_rows(
    words: np.ndarray,
    bounds: np.ndarray,
    codes: np.ndarray,
    firsts: np.ndarray,
    starts: np.ndarray,
    bases: np.ndarray = _NO_BASE,
    *,
    place: bool = False,
    distinct: bool = False,
) -> np.ndarray:
    """Number the distinct keys of each part of some rows, as they appear.

    A part has rows of each batch. Outputs count rows part by part, batches of a part in order.

    Parameters
    ----------
    words : ndarray of int64 or uint32, shape (words, rows), read-only
        The keys.
    bounds : ndarray of int64, shape (batches, parts + 1)
        First row of each batch and part in `words`, then the end of the last part. Keys of several
        words must be in one batch that begins in row 0.
    codes : ndarray of integers, shape (rows,)
        Output: number of the row's key in its part, or the place, both from 0.
    firsts, starts : ndarray of int64, shape (rows,)
        Output: first row, and first place, of each key, part by part.
    bases : ndarray of int64, shape (batches,), read-only
        Number to add to the words of each batch.
    place : bool
        Find the place of each row if those of one key were adjacent, in place of its number.
    distinct : bool
        Whether most rows have a key of their own: tables begin large.

    Returns
    -------
    ndarray of int64, shape (parts + 1,), read-only
        Number of the keys of all parts before each.
    """
    bounds = frozen(np.ascontiguousarray(bounds).view())
    most = int((bounds[:, 1:] - bounds[:, :-1]).sum(axis=0).max())
    slots = 1 << (4 * most + 64).bit_length()
    tags = scratch("tags of keys", slots, np.uint64)
    counts = scratch("rows of keys", slots, np.uint32)
    ends = np.zeros(bounds.shape[1], np.int64)
    tag_words, more, different, seed = words[0], words[:0], True, 0
    # The tag of a single word is one to one. If two longer keys share a hash, another is taken.
    while different:
        if len(words) > 1:
            hashes, more = scratch("hashes of keys", words.shape[1]), words
            hashes[:] = 0
            for w, word in enumerate(words):
                _add_to_hash(word, _factor(seed, w), hashes)
            tag_words = frozen(hashes.view())
        different = _encode_parts(
            tag_words,
            more,
            bases,
            bounds,
            place,
            distinct,
            tags,
            counts,
            codes,
            firsts,
            starts,
            ends,
        )
        seed += 1
    return frozen(ends)


def hash_keys(words: Sequence[Sequence[np.ndarray]], out: np.ndarray) -> np.ndarray:
    """Hash the words of each row's key; padding words of 0 change no hash.

    `words` are int64, `out` is uint64, all of shape (rows,).
    """
    out[:] = 0
    for c, column_words in enumerate(words):
        for w, word in enumerate(column_words):
            _add_word(word, _factor(c, w), out)
    _mix(out)
    return out


def _factor(column: int, word: int) -> np.uint64:
    """Return an odd factor for each word of a key."""
    seed = (column << 32 | word) * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03
    seed = (seed ^ (seed >> 29)) * 0xBF58476D1CE4E5B9
    return np.uint64((seed ^ (seed >> 32) | 1) % (1 << 64))


@kernel
def _add_word(words, factor, out):  # type: ignore[no-untyped-def]
    for i in range(words.shape[0]):
        out[i] += np.uint64(words[i]) * factor


@kernel
def _mix(hashes):  # type: ignore[no-untyped-def]
    for i in range(hashes.shape[0]):
        h = hashes[i]
        h = (h ^ (h >> np.uint64(32))) * np.uint64(_MIX)
        h = (h ^ (h >> np.uint64(32))) * np.uint64(_MIX)
        hashes[i] = h ^ (h >> np.uint64(32))


@kernel
def _add_to_hash(words, factor, hashes):  # type: ignore[no-untyped-def]
    # Without a shift before each word, 2**63 in two words would cancel out under every factor.
    for i in range(words.shape[0]):
        h = np.uint64(hashes[i])
        hashes[i] = np.int64((h ^ (h >> np.uint64(32))) + np.uint64(words[i]) * factor)


@kernel
def _encode_parts(  # type: ignore[no-untyped-def]
    words, more, bases, bounds, place, distinct, tags, counts, codes, firsts, starts, ends
):
    """Fill the output of `encode_rows`; tell if `more` words differ."""
    row = 0
    different = np.int64(0)
    for p in range(bounds.shape[1] - 1):
        rows = 0
        for b in range(bounds.shape[0]):
            rows += bounds[b, p + 1] - bounds[b, p]
        bits = 4
        # Most keys have several rows: a table for fewer keys stays in the cache.
        while 1 << bits < (2 * rows if distinct else rows // 4):
            bits += 1
        first = ends[p]
        keys = -1
        while keys < 0:
            _empty_table(bits, tags[: 1 << bits], counts)
            keys = 0
            end = row
            for b in range(bounds.shape[0]):
                if keys >= 0:
                    part = words[bounds[b, p] : bounds[b, p + 1]]
                    slots = codes[end : end + part.shape[0]]
                    keys = _encode_part(
                        part, bases[b], bits, tags, counts, slots, end, firsts[first:], keys
                    )
                    end += part.shape[0]
            bits += 2
        for w in range(more.shape[0]):
            word = more[w]
            for k in range(first, first + keys):
                tags[codes[firsts[k]]] = word[firsts[k]]
            for i in range(row, row + rows):
                different |= word[i] ^ np.int64(tags[codes[i]])
        start = np.int64(row)
        for k in range(keys):
            slot = codes[firsts[first + k]]
            starts[first + k] = start
            start += np.int64(counts[slot])
            counts[slot] = starts[first + k] if place else k
        slots = codes[row : row + rows]
        for i in range(rows):
            slot = slots[i]
            slots[i] = counts[slot]
            counts[slot] += np.uint32(place)
        row += rows
        ends[p + 1] = first + keys
    return different != 0


@kernel
def _empty_table(bits, tags, counts):  # type: ignore[no-untyped-def]
    # A tag of a slot half a table away: no key comes from there while fewer slots are taken.
    half = np.uint64(tags.shape[0] // 2)
    for slot in range(tags.shape[0]):
        tags[slot] = (np.uint64(slot) ^ half) << np.uint64(64 - bits)
        counts[slot] = 0


@kernel
def _encode_part(words, base, bits, tags, counts, slots, row, firsts, keys):  # type: ignore[no-untyped-def]
    """Find the slot of each row by open addressing; -1 before half are taken.

    `row` is the output row of the first word. Rows are counted by slot.
    """
    mask = np.uint64((1 << bits) - 1)
    half = np.uint64(1 << (bits - 1))
    shift = np.uint64(64 - bits)
    for i in range(words.shape[0]):
        tag = np.uint64(base + np.int64(words[i])) * np.uint64(_MIX)
        tag = (tag ^ (tag >> np.uint64(32))) * np.uint64(_MIX)
        slot = tag >> shift
        while tags[slot] != tag:
            if tags[slot] == (slot ^ half) << shift:
                if np.uint64(keys) + np.uint64(1) >= half:
                    return -1
                tags[slot] = tag
                firsts[keys] = row + i
                keys += 1
                break
            slot = (slot + np.uint64(1)) & mask
        counts[slot] += np.uint32(1)
        slots[i] = slot
    return keys


#: Bytes of the longest string inside its words: 64 hexadecimal digits and a few more.
MAX_INLINE_BYTES = 71
#: The last byte that is not 0 marks whether the words hold the key or its number in a table.
_INLINE, _IN_TABLE = 0x80, 0x81
#: Bytes that Python needs to store a long key and its number.
_LONG_KEY_BYTES = 200


class KeyEncoder:
    """An encoder between the values of a key column and 64-bit words.

    Threads may share it.

    Parameters
    ----------
    name : str
        Name of the column.
    kind : pyarrow.DataType
        Its decoded type.
    """

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self.name, self.kind = name, kind
        self._long: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._lock = threading.Lock()
        #: Bytes that the table of long keys takes.
        self.bytes = 0

    @property
    def integer(self) -> bool:
        """Whether each key is one word that preserves differences of keys."""
        kind = self.kind
        if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
            return bool(kind.bit_width <= 64)
        return pa.types.is_boolean(kind) or pa.types.is_integer(kind)

    @property
    def text(self) -> bool:
        """Whether keys are strings or bytes of any length."""
        return is_textual(self.kind)

    def words(self, keys: pa.Array) -> list[np.ndarray]:
        """Encode keys as words.

        Parameters
        ----------
        keys : pyarrow.Array, shape (rows,)
            Without nulls.

        Returns
        -------
        list of ndarray of int64, shape (rows,), read-only
            As many arrays as the longest of these keys needs words; further words would be 0. The
            thread's next call overwrites them.
        """
        if self.text:
            return self._encode_text(keys)
        items = fixed_width(keys)
        if items is None:
            items = _pad_to_words(keys)
        if items.ndim == 1:
            bits = items.view(np.int64) if items.dtype == np.uint64 else items
            return [frozen(np.ascontiguousarray(bits, np.int64).view())]
        return [frozen(np.ascontiguousarray(word).view(np.int64)) for word in items.T]

    def keys(self, words: Sequence[np.ndarray]) -> pa.Array:
        """Decode the keys of words; the inverse of `words`."""
        if self.text:
            return self._decode_text(words)
        if pa.types.is_boolean(self.kind):
            return arrow_column(words[0].astype(np.uint8)).cast(self.kind)
        width = self.kind.bit_width // 8
        items = np.stack(words, axis=1).view(np.uint8)[:, :width]
        return arrow_column(np.ascontiguousarray(items), self.kind)

    def _encode_text(self, keys: pa.Array) -> list[np.ndarray]:
        offsets, content = text_buffers(keys)
        lengths = np.diff(offsets)
        long = np.flatnonzero(lengths > MAX_INLINE_BYTES)
        longest = int(lengths.max(initial=0, where=lengths <= MAX_INLINE_BYTES))
        width = max(longest // 8 + 1, 2 if len(long) else 1)
        buffer = scratch(f"words of {self.name}", width * len(keys), np.uint64)
        words = buffer.reshape(width, len(keys))
        _pack(offsets, content, uint64_windows(content), _INLINE, words)
        if len(long):
            words[:, long] = 0
            words[0, long] = self._encode_long_keys(keys.take(row_column(long)))
            words[1, long] = _IN_TABLE
        return [frozen(word.view(np.int64)) for word in words]

    def _encode_long_keys(self, keys: pa.Array) -> np.ndarray:
        """Return the numbers of long keys in the table."""
        encoded = keys.dictionary_encode()
        values = encoded.dictionary.cast(pa.large_binary()).to_pylist()
        numbers = np.empty(len(values), np.uint64)
        with self._lock:
            for i, value in enumerate(values):
                number = self._numbers.setdefault(value, len(self._long))
                if number == len(self._long):
                    self._long.append(value)
                    self.bytes += len(value) + _LONG_KEY_BYTES
                numbers[i] = number
        return numbers[as_array(encoded.indices)]

    def _decode_text(self, words: Sequence[np.ndarray]) -> pa.Array:
        rows = len(words[0])
        key_bytes = np.stack(words, axis=1).view(np.uint8)
        size = key_bytes.shape[1]
        lengths = size - 1 - np.argmax(key_bytes[:, ::-1] != 0, axis=1)
        long = np.flatnonzero(key_bytes[np.arange(rows), lengths] == _IN_TABLE)
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        content = np.ascontiguousarray(key_bytes[np.arange(size) < lengths[:, None]])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        keys = pa.Array.from_buffers(pa.large_binary(), rows, buffers)
        if len(long):
            values = keys.to_pylist()
            for row in long.tolist():
                values[row] = self._long[int(words[0][row])]
            keys = bytes_column(values, pa.large_binary())
        return keys.cast(self.kind)


def _pad_to_words(keys: pa.Array) -> np.ndarray:
    """Pad keys of a fixed number of bytes to whole words; shape (rows, words)."""
    width = keys.type.byte_width
    words = np.zeros((len(keys), max(-(-width // 8), 1)), np.int64)
    if width:
        words.view(np.uint8)[:, :width] = fixed_items(keys, np.dtype((np.uint8, (width,))))
    return words


@inlined
def word_at(content, windows, at, size):  # type: ignore[no-untyped-def]
    """Read the next eight bytes of a text, or all if there are fewer."""
    if size >= 8:
        return windows[at]
    if at < windows.shape[0]:
        return windows[at] & ((np.uint64(1) << np.uint64(8 * size)) - np.uint64(1))
    word = np.uint64(0)
    for k in range(size):
        word |= np.uint64(content[at + k]) << np.uint64(8 * k)
    return word


@kernel
def _pack(offsets, content, windows, mark, words):  # type: ignore[no-untyped-def]
    # Eight bytes at a time: keys of 6 to 11 bytes take 8 ns each, byte by byte 24.
    width = words.shape[0]
    for i in range(words.shape[1]):
        lo = np.int64(offsets[i])
        size = np.int64(offsets[i + 1]) - lo
        if size >= 8 * width:
            continue
        for w in range(width):
            remaining = size - 8 * w
            if remaining >= 8:
                words[w, i] = windows[lo + 8 * w]
            elif remaining < 0:
                words[w, i] = np.uint64(0)
            else:
                word = word_at(content, windows, lo + 8 * w, remaining)
                words[w, i] = word | (np.uint64(mark) << np.uint64(8 * remaining))


class CategoricalEncoder:
    """An encoder that numbers the distinct values of a column.

    Numbers follow the order of appearance; null comes after the values of its batch.

    Threads may share it.

    Parameters
    ----------
    name : str
        Name of the column.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._encoder: KeyEncoder | None = None
        self._codes: dict[bytes | None, int] = {}
        #: The values of the numbers, of one batch after the other.
        self._values: list[pa.Array] = []

    def codes(self, column: pa.Array) -> np.ndarray:
        """Return the number of each row's value; null is a value of its own.

        Parameters
        ----------
        column : pyarrow.Array, shape (rows,)
            Of any type that can be a key.

        Returns
        -------
        ndarray of int32, shape (rows,), read-only
            Numbers from 0; equal for equal values.

        Raises
        ------
        ColumnError
            If the type cannot be a key.
        """
        if pa.types.is_dictionary(column.type):
            rows, used = _distinct_values(column.indices)
            # Of the type of rows that were joined, and so decoded.
            values = wide(self._decode(column.dictionary)).take(used)
        else:
            rows, values = _distinct_values(self._decode(column))
        with self._lock:
            if self._encoder is None:
                self._encoder = KeyEncoder(self.name, values.type)
            valid = values.drop_null() if values.null_count else values
            keys: list[bytes | None] = list(self._bytes_of(self._encoder, valid))
            for index in np.flatnonzero(null_rows(values)).tolist() if values.null_count else ():
                keys.insert(index, None)
            known = len(self._codes)
            codes = [self._codes.setdefault(key, len(self._codes)) for key in keys]
            if len(self._codes) > known:  # a dictionary may have a value twice
                numbers, firsts = np.unique(codes, return_index=True)
                new = values.take(row_column(firsts[numbers >= known]))
                self._values.append(new.cast(self._encoder.kind))
        if codes != list(range(len(codes))):
            _renumber(frozen(np.array(codes, np.int32)), rows)
        return frozen(rows)

    def _decode(self, column: pa.Array) -> pa.Array:
        """Decode a column; raise if its type cannot be a key."""
        column = decode_array(column)
        refuse_unhashable(column, self.name, "field")
        return column.cast(pa.bool_()) if pa.types.is_null(column.type) else column

    def __len__(self) -> int:
        """Return the count of numbered values."""
        return len(self._codes)

    def values(self) -> pa.Array:
        """Return the value of each number; the inverse of `codes`.

        Returns
        -------
        pyarrow.Array, shape (numbers,)
            In the decoded type of the column; null for the number of null.
        """
        with self._lock:
            return pa.concat_arrays(self._values) if self._values else pa.nulls(0)

    @staticmethod
    def _bytes_of(encoder: KeyEncoder, values: pa.Array) -> list[bytes]:
        """Return each value as bytes that differ between different values."""
        if not len(values):
            return []
        rows = np.ascontiguousarray(np.stack(encoder.words(values), axis=1))
        # NumPy removes trailing zeros. They are padding: their count depends on the other values.
        keys: list[bytes] = rows.view(f"S{8 * rows.shape[1]}")[:, 0].tolist()
        return keys


def _distinct_values(column: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Return the index (int32) of each row's value, and the distinct values."""
    if column.null_count:
        codes, values = _distinct_values(column.drop_null())
        rows = np.full(len(column), len(values), np.int32)
        rows[~null_rows(column)] = codes
        return rows, pa.concat_arrays([values, pa.nulls(1, values.type)])
    integers = fixed_width(column)
    if is_textual(column.type):
        codes, firsts = _number_distinct_texts(column)
    elif integers is not None and integers.ndim == 1:
        codes, firsts = _number_distinct(integers)
    else:
        distinct = encoded(column)
        return as_array(distinct.indices).copy(), distinct.dictionary.cast(column.type)
    return codes, column.take(row_column(firsts))


#: The integers of a small range: more need a hash table.
_RANGE = 1 << 16


def _number_distinct(integers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number distinct integers (int32) as they appear; return first rows."""
    size = min(_RANGE, 64 + 16 * len(integers))
    table, firsts = scratch("numbers of values", size, np.int32), scratch("first rows", size)
    codes = np.empty(len(integers), np.int32)
    if integers.dtype == np.uint64:
        integers = integers.view(np.int64)
    count = _number_small(integers, table, codes, firsts)
    if count >= 0:
        return codes, firsts[:count].copy()
    wide, firsts = encode_integers(integers.astype(np.int64, copy=False))
    return wide.astype(np.int32), firsts


def _number_distinct_texts(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Number distinct texts as `_number_distinct` numbers integers."""
    offsets, content = text_buffers(texts)
    codes, windows = np.empty(len(texts), np.int32), uint64_windows(content)
    count, slots = -1, 1 << 10
    while count < 0:
        slots *= 4
        table, firsts = scratch("numbers of values", slots, np.int32), scratch("first rows", slots)
        heads = scratch("heads of texts", slots, np.uint64)
        count = _number_texts(offsets, content, windows, table, heads, codes, firsts)
    return codes, firsts[:count].copy()


@kernel
def _number_small(values, table, codes, firsts):  # type: ignore[no-untyped-def]
    """Number values as they appear; -1 if they are too far apart."""
    count = 0
    if values.shape[0] == 0:
        return count
    table[:] = -1
    size = np.uint64(table.shape[0])
    least = np.uint64(np.int64(values[0])) - (size >> np.uint64(1))
    for i in range(values.shape[0]):
        k = np.uint64(np.int64(values[i])) - least
        if k >= size:
            return -1
        if table[k] < 0:
            table[k] = count
            firsts[count] = i
            count += 1
        codes[i] = table[k]
    return count


@kernel
def _number_texts(offsets, content, windows, table, heads, codes, firsts):  # type: ignore[no-untyped-def]
    """Number texts as they appear; -1 if the table is too small.

    `heads` gets the first word of each text.
    """
    table[:] = -1
    mask = np.uint64(table.shape[0] - 1)
    count = 0
    code = np.int32(0)
    lo = np.int64(0)
    size = np.int64(-1)
    head = np.uint64(0)
    for i in range(codes.shape[0]):
        previous, previous_size, previous_head = lo, size, head
        lo = np.int64(offsets[i])
        size = np.int64(offsets[i + 1]) - lo
        head = word_at(content, windows, lo, size)
        # The rows of a group often have the same text.
        differs = size != previous_size or head != previous_head
        if differs or (size > 8 and not _has_same_tail(content, windows, lo, previous, size)):
            tag = (head ^ np.uint64(size)) * np.uint64(_MIX)
            for k in range(8, size, 8):
                word = word_at(content, windows, lo + k, size - k)
                tag = ((tag ^ (tag >> np.uint64(32))) + word) * np.uint64(_MIX)
            # The last byte of a word changes only the high bits of a product.
            slot = ((tag ^ (tag >> np.uint64(32))) * np.uint64(_MIX)) >> np.uint64(32) & mask
            code = table[slot]
            while code >= 0:
                first = firsts[code]
                if (
                    heads[code] == head
                    and offsets[first + 1] - offsets[first] == size
                    and (
                        size <= 8
                        or _has_same_tail(content, windows, lo, np.int64(offsets[first]), size)
                    )
                ):
                    break
                slot = (slot + np.uint64(1)) & mask
                code = table[slot]
            if code < 0:
                if 2 * count >= table.shape[0]:
                    return -1
                code = np.int32(count)
                table[slot] = code
                heads[count] = head
                firsts[count] = i
                count += 1
        codes[i] = code
    return count


@kernel
def _has_same_tail(content, windows, a, b, size):  # type: ignore[no-untyped-def]
    """Return whether two texts of one size are the same after eight bytes."""
    for k in range(8, size, 8):
        word = word_at(content, windows, a + k, size - k)
        if word != word_at(content, windows, b + k, size - k):
            return False
    return True


@kernel
def _renumber(numbers, codes):  # type: ignore[no-untyped-def]
    for i in range(codes.shape[0]):
        codes[i] = numbers[codes[i]]


def wide_decimal(column: pa.Array) -> pa.Array:
    """Widen decimals to 128 bits: Arrow cannot encode or sort shorter ones."""
    kind = column.type
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    return column


def encoded(column: pa.Array) -> pa.DictionaryArray:
    """Dictionary-encode a column; null is a value of the dictionary."""
    return wide_decimal(column).dictionary_encode(null_encoding="encode")


def _as_int64(integers: np.ndarray) -> np.ndarray:
    """Convert integers; those of 64 bits only change their type."""
    if integers.dtype == np.uint64:
        return integers.view(np.int64)
    return integers.astype(np.int64, copy=False)


_TURN = np.uint64(0x9E3779B97F4A7C15)
_FACTOR0, _FACTOR1 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)


def group_ids(keys: tuple[pa.Array, ...]) -> np.ndarray:
    """Compute an id of each group that depends only on its key.

    Equal values have equal ids in every integer type, string type, dictionary or view. The names of
    the columns do not matter, their order does. Keys of one integer column have distinct ids. Other
    keys collide by chance: about U^2 / 2^65 pairs among U groups. Groups with the same id are drawn
    together; this changes no expectation, and the standard error only negligibly.

    Parameters
    ----------
    keys : tuple of pyarrow.Array, each of length groups
        Columns of the key, without nulls.

    Returns
    -------
    ndarray of uint64, shape (groups,), read-only
    """
    ids = np.zeros(len(keys[0]), np.uint64)
    for key in keys:
        _fold_column(decode_array(key), ids)
    return frozen(ids)


def _fold_column(key: pa.Array, ids: np.ndarray) -> None:
    kind = key.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        key = key.cast(pa.large_binary())
    elif pa.types.is_fixed_size_binary(kind):
        key = key.cast(pa.binary()).cast(pa.large_binary())
    if not pa.types.is_large_binary(key.type):
        words = KeyEncoder("key of groups", key.type).words(key)
        _fold_words(frozen(np.stack(words).view(np.uint64)), ids)
        return
    offsets, letters = text_buffers(key)
    _fold_letters(offsets, letters, uint64_windows(letters), ids)


@kernel
def _mixed(word):  # type: ignore[no-untyped-def]
    # The finaliser of splitmix64 (Steele, Lea & Flood 2014, doi:10.1145/2660193.2660195).
    word = (word ^ (word >> _S30)) * _FACTOR0
    word = (word ^ (word >> _S27)) * _FACTOR1
    return word ^ (word >> _S31)


@kernel
def _fold_words(words, ids):  # type: ignore[no-untyped-def]
    for i in range(ids.shape[0]):
        # A wider integer type adds words that only repeat the sign.
        last = words.shape[0] - 1
        while last > 0 and words[last, i] == np.uint64(np.int64(words[last - 1, i]) >> 63):
            last -= 1
        folded = ids[i]
        for w in range(last + 1):
            folded = _mixed((folded + _TURN) ^ words[w, i])
        ids[i] = folded


@kernel
def _fold_letters(offsets, letters, windows, ids):  # type: ignore[no-untyped-def]
    for i in range(ids.shape[0]):
        folded = ids[i]
        lo = np.int64(offsets[i])
        size = np.int64(offsets[i + 1]) - lo
        for first in range(0, size, 8):
            word = word_at(letters, windows, lo + first, size - first)
            folded = _mixed((folded + _TURN) ^ word)
        # The length distinguishes bytes of value 0 from no bytes, and one column from the next.
        ids[i] = _mixed((folded + _TURN) ^ np.uint64(size))
