"""Encode keys of groups, items and categories as integers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    bytes_column,
    decoded,
    fixed_items,
    fixed_width,
    frozen,
    row_column,
)
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval._lib.jit import kernel, scratch

#: Integer keys whose range is at most this many times their number are numbered by a plain table.
DENSE_RANGE = 4


def number_integers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number distinct integers in order of first appearance; see `groups.number_keys`.

    Parameters
    ----------
    values : ndarray of int64, shape (rows,)
    """
    rows = len(values)
    codes = np.empty(rows, np.int64)
    firsts = np.empty(rows, np.int64)
    if rows == 0:
        return codes, firsts
    values = frozen(np.ascontiguousarray(values).view())
    least, most = int(values.min()), int(values.max())
    if most - least < max(DENSE_RANGE * rows, 1 << 10):
        table = np.full(most - least + 1, -1, np.int64)
        groups = _number_dense(values, least, table, codes, firsts)
    else:
        groups, slots = -1, 1 << 10
        while groups < 0:
            groups = _number_hashed(values, np.full(slots, -1, np.int64), codes, firsts)
            slots *= 8
    return codes, firsts[:groups].copy()


@kernel
def _number_dense(
    values: np.ndarray, least: int, table: np.ndarray, codes: np.ndarray, firsts: np.ndarray
) -> int:
    groups = 0
    for i in range(values.shape[0]):
        slot = values[i] - least
        code = table[slot]
        if code < 0:
            code = groups
            table[slot] = code
            firsts[code] = i
            groups += 1
        codes[i] = code
    return groups


@kernel
def _number_hashed(
    values: np.ndarray, slots: np.ndarray, codes: np.ndarray, firsts: np.ndarray
) -> int:
    """Open addressing; -1 once the table is more than half full."""
    mask = np.uint64(slots.shape[0] - 1)
    room = slots.shape[0] // 2
    groups = 0
    for i in range(values.shape[0]):
        value = values[i]
        h = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
        slot = (h ^ (h >> np.uint64(32))) & mask
        while True:
            code = slots[slot]
            if code < 0:
                if groups >= room:
                    return -1
                slots[slot] = groups
                firsts[groups] = i
                codes[i] = groups
                groups += 1
                break
            if values[firsts[code]] == value:
                codes[i] = code
                break
            slot = (slot + np.uint64(1)) & mask
    return groups


#: Bytes of the longest string that is written out: 64 hexadecimal digits and a few more.
LONGEST = 71
#: The last byte that is not 0 tells what the words hold.
_WRITTEN, _NUMBERED = 0x80, 0x81
#: Bytes that Python needs to keep a key and its number.
_EACH_LONG = 200


class KeyEncoder:
    """Turns the values of one key column into words and back; threads may share it.

    Parameters
    ----------
    name : str
        Of the column.
    kind : pyarrow.DataType
        Its type, decoded.
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
        """Whether each key is one word, and keys that lie close together close words."""
        kind = self.kind
        if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
            return bool(kind.bit_width <= 64)
        return pa.types.is_boolean(kind) or pa.types.is_integer(kind)

    @property
    def text(self) -> bool:
        """Whether keys are strings or bytes of any length."""
        string = pa.types.is_string(self.kind) or pa.types.is_large_string(self.kind)
        return string or pa.types.is_binary(self.kind) or pa.types.is_large_binary(self.kind)

    def words(self, keys: pa.Array) -> list[np.ndarray]:
        """The words of each key.

        Parameters
        ----------
        keys : pyarrow.Array, shape (rows,)
            Without nulls.

        Returns
        -------
        list of ndarray of int64, shape (rows,), read-only
            As many as the longest of these keys needs; further ones would be 0. The thread's next
            call overwrites them.
        """
        if self.text:
            return self._packed(keys)
        items = fixed_width(keys)
        if items is None:
            items = _padded(keys)
        if items.ndim == 1:
            bits = items.view(np.int64) if items.dtype == np.uint64 else items
            return [frozen(np.ascontiguousarray(bits, np.int64).view())]
        return [frozen(np.ascontiguousarray(word).view(np.int64)) for word in items.T]

    def keys(self, words: Sequence[np.ndarray]) -> pa.Array:
        """The keys that have these words; the inverse of `words`."""
        if self.text:
            return self._unpacked(words)
        if pa.types.is_boolean(self.kind):
            return arrow_column(words[0].astype(np.uint8)).cast(self.kind)
        width = self.kind.bit_width // 8
        items = np.stack(words, axis=1).view(np.uint8)[:, :width]
        return arrow_column(np.ascontiguousarray(items), self.kind)

    def _packed(self, keys: pa.Array) -> list[np.ndarray]:
        offsets, content = _offsets_and_content(keys)
        lengths = np.diff(offsets)
        long = np.flatnonzero(lengths > LONGEST)
        longest = int(lengths.max(initial=0, where=lengths <= LONGEST))
        width = max(longest // 8 + 1, 2 if len(long) else 1)
        eights = np.zeros(0, np.uint64)
        if len(content) >= 8:
            eights = np.ndarray((len(content) - 7,), np.uint64, content, strides=(1,))
        room = scratch(f"words of {self.name}", width * len(keys), np.uint64)
        words = room.reshape(width, len(keys))
        _pack(offsets, content, frozen(eights), _WRITTEN, words)
        if len(long):
            words[:, long] = 0
            words[0, long] = self._number(keys.take(row_column(long)))
            words[1, long] = _NUMBERED
        return [frozen(word.view(np.int64)) for word in words]

    def _number(self, keys: pa.Array) -> np.ndarray:
        """Numbers of long keys in the table."""
        encoded = keys.dictionary_encode()
        values = encoded.dictionary.cast(pa.large_binary()).to_pylist()
        numbers = np.empty(len(values), np.uint64)
        with self._lock:
            for i, value in enumerate(values):
                number = self._numbers.setdefault(value, len(self._long))
                if number == len(self._long):
                    self._long.append(value)
                    self.bytes += len(value) + _EACH_LONG
                numbers[i] = number
        return numbers[as_array(encoded.indices)]

    def _unpacked(self, words: Sequence[np.ndarray]) -> pa.Array:
        rows = len(words[0])
        letters = np.stack(words, axis=1).view(np.uint8)
        size = letters.shape[1]
        lengths = size - 1 - np.argmax(letters[:, ::-1] != 0, axis=1)
        long = np.flatnonzero(letters[np.arange(rows), lengths] == _NUMBERED)
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        content = np.ascontiguousarray(letters[np.arange(size) < lengths[:, None]])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        keys = pa.Array.from_buffers(pa.large_binary(), rows, buffers)
        if len(long):
            values = keys.to_pylist()
            for row in long.tolist():
                values[row] = self._long[int(words[0][row])]
            keys = bytes_column(values, pa.large_binary())
        return keys.cast(self.kind)


def _offsets_and_content(keys: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where each string begins, and all their bytes."""
    wide = pa.types.is_large_string(keys.type) or pa.types.is_large_binary(keys.type)
    kind = np.dtype(np.int64 if wide else np.int32)
    _, places, content = keys.buffers()
    offsets = np.frombuffer(places, kind, len(keys) + 1, keys.offset * kind.itemsize)
    some = content is not None and content.size
    return frozen(offsets), frozen(np.frombuffer(content if some else b"\0", np.uint8))


def _padded(keys: pa.Array) -> np.ndarray:
    """Keys of a fixed number of bytes, filled up to whole words; shape (rows, words)."""
    width = keys.type.byte_width
    words = np.zeros((len(keys), max(-(-width // 8), 1)), np.int64)
    if width:
        words.view(np.uint8)[:, :width] = fixed_items(keys, np.dtype((np.uint8, (width,))))
    return words


@kernel
def _pack(offsets, content, eights, mark, words):  # type: ignore[no-untyped-def]
    # Eight bytes at a time: keys of 6 to 11 bytes take 8 ns each, byte by byte 24.
    width = words.shape[0]
    for i in range(words.shape[1]):
        lo = np.int64(offsets[i])
        size = np.int64(offsets[i + 1]) - lo
        if size >= 8 * width:
            continue
        for w in range(width):
            left = size - 8 * w
            if left >= 8:
                words[w, i] = eights[lo + 8 * w]
            elif left < 0:
                words[w, i] = np.uint64(0)
            else:
                word = np.uint64(0)
                if lo + 8 * w < eights.shape[0]:
                    word = eights[lo + 8 * w] & (
                        (np.uint64(1) << np.uint64(8 * left)) - np.uint64(1)
                    )
                else:
                    for k in range(left):
                        letter = np.uint64(content[lo + 8 * w + k])
                        word |= letter << np.uint64(8 * k)
                words[w, i] = word | (np.uint64(mark) << np.uint64(8 * left))


#: Integers that span at most this many values are told apart by a table, 15 times sooner than by a
#: hash.
_TABLE = 1 << 16


class CodedColumn(Protocol):
    """Anything that turns a column into small integers which mean the same in every batch."""

    @property
    def name(self) -> str:
        """The column to read."""

    def codes(self, column: pa.Array) -> np.ndarray:
        """An int32 for each row, from 0; threads may call it at the same time."""


class CategoricalEncoder:
    """Numbers the distinct values of a column, as they come; threads may share it.

    Parameters
    ----------
    name : str
        Of the column.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._words: KeyEncoder | None = None
        self._codes: dict[bytes | None, int] = {}

    def codes(self, column: pa.Array) -> np.ndarray:
        """The number of each row's value; null is a value of its own.

        Parameters
        ----------
        column : pyarrow.Array, shape (rows,)
            Of any type that can be a key.

        Returns
        -------
        ndarray of int32, shape (rows,), read-only
            From 0; equal where the values are.

        Raises
        ------
        ColumnError
            The type has no values that can be told apart.
        """
        if pa.types.is_dictionary(column.type):
            places, values, stand = _met(column.indices, self._told(column.dictionary))
        else:
            places, values, stand = _distinct(self._told(column))
        nulls = np.zeros(len(values), np.bool_)
        if values.null_count:
            nulls = as_array(values.is_null()).view(np.bool_)
            values = values.drop_null()
        with self._lock:
            if self._words is None:
                self._words = KeyEncoder(self.name, values.type)
            keys: list[bytes | None] = list(self._bytes_of(self._words, values))
            for at in np.flatnonzero(nulls).tolist():
                keys.insert(at, None)
            codes = [self._codes.setdefault(key, len(self._codes)) for key in keys]
        numbers = np.zeros(int(stand.max(initial=-1)) + 1, np.int32)
        numbers[stand] = codes
        found = np.empty(len(places), np.int32)
        _look_up(places, frozen(numbers), found)
        return frozen(found)

    def _told(self, column: pa.Array) -> pa.Array:
        """Values that can be told apart."""
        column = decoded(column)
        refuse_unhashable(column, self.name, "field")
        return column.cast(pa.bool_()) if pa.types.is_null(column.type) else column

    def __len__(self) -> int:
        """How many values have a number."""
        return len(self._codes)

    def values(self) -> pa.Array:
        """The value of each number; the inverse of `codes`.

        Returns
        -------
        pyarrow.Array, shape (numbers,)
            Of the type of the column, dictionaries decoded; null where the value is.
        """
        with self._lock:
            words, found = self._words, list(self._codes)
        if words is None:
            return pa.nulls(0)
        kept = [key for key in found if key is not None]
        width = -(-max([1, *map(len, kept)]) // 8)
        if not words.text:
            width = max(-(-words.kind.bit_width // 64), 1)
        rows = np.frombuffer(b"".join(key.ljust(8 * width, b"\0") for key in kept), np.int64)
        values = words.keys(list(rows.reshape(len(kept), width).T))
        if len(kept) == len(found):
            return values
        at = found.index(None)
        null = pa.nulls(1, values.type)
        return pa.concat_arrays([values.slice(0, at), null, values.slice(at)])

    def keys(self) -> tuple[str | None, list[bytes | None]]:
        """What the values are, and each of them as bytes, by its number.

        Returns
        -------
        kind : str or None
            ``"text"``, ``"bytes"``, ``"integer"``, ``"unsigned"`` or an Arrow type: values of one
            kind are equal where their bytes are. None if no column has come in.
        keys : list of bytes or None
            Text in UTF-8; of other types the words of `KeyEncoder` without zeros at the end; None
            for null.
        """
        with self._lock:
            if self._words is None:
                return None, []
            kind, keys = self._words.kind, list(self._codes)
            if not self._words.text:
                return _kind_of(kind), keys
            found = [key for key in keys if key is not None]
            size = 8 * -(-max(map(len, found), default=8) // 8)
            rows = np.array(found, f"S{size}").reshape(-1, 1).view(np.uint64)
            texts = iter(self._words.keys(list(rows.T)).cast(pa.large_binary()).to_pylist())
            return _kind_of(kind), [None if key is None else next(texts) for key in keys]

    @staticmethod
    def _bytes_of(words: KeyEncoder, values: pa.Array) -> list[bytes]:
        """Each value as bytes, which differ where values do."""
        if not len(values):
            return []
        rows = np.ascontiguousarray(np.stack(words.words(values), axis=1))
        # NumPy cuts zeros off the end, which only fill up: how many depends on the other values.
        found: list[bytes] = rows.view(f"S{8 * rows.shape[1]}")[:, 0].tolist()
        return found


def _distinct(column: pa.Array) -> tuple[np.ndarray, pa.Array, np.ndarray]:
    """A place for each row, the distinct values, and the places at which these stand. int64."""
    if pa.types.is_integer(column.type) and len(column) and not column.null_count:
        values = as_array(column)
        least, most = values.min(), values.max()
        if int(most) - int(least) < _TABLE:
            # Unsigned, the difference fits even where it wraps.
            places = (values - least).view(f"u{values.itemsize}").astype(np.int64)
            table = np.zeros(int(most) - int(least) + 1, np.uint8)
            _mark(frozen(places), table)
            there = np.flatnonzero(table)
            return places, arrow_column(least + there.astype(values.dtype)), there
    kind = column.type
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        # Arrow tells only wider ones apart.
        column = column.cast(pa.decimal128(kind.precision, kind.scale))
    found = column.dictionary_encode(null_encoding="encode")
    places = frozen(as_array(found.indices).astype(np.int64))
    return places, found.dictionary.cast(kind), np.arange(len(found.dictionary))


def _met(indices: pa.Array, values: pa.Array) -> tuple[np.ndarray, pa.Array, np.ndarray]:
    """What `_distinct` finds of a dictionary, some of whose values no row may have."""
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(len(values))
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    places = frozen(as_array(indices).astype(np.int64))
    table = np.zeros(len(values), np.uint8)
    _mark(places, table)
    there = np.flatnonzero(table)
    return places, values.take(arrow_column(there)), there


@kernel
def _mark(places, table):  # type: ignore[no-untyped-def]
    for i in range(places.shape[0]):
        table[places[i]] = 1


@kernel
def _look_up(places, numbers, found):  # type: ignore[no-untyped-def]
    for i in range(places.shape[0]):
        found[i] = numbers[places[i]]


def _kind_of(kind: pa.DataType) -> str:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "bytes"
    if pa.types.is_signed_integer(kind):
        return "integer"
    return "unsigned" if pa.types.is_unsigned_integer(kind) else str(kind)


def refuse_unhashable(column: pa.Array, name: str, part: str) -> None:
    """Refuse a column of a type whose values cannot be told apart as keys."""
    kind = column.type
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or (pa.types.is_temporal(kind) and not (part == "item" and pa.types.is_interval(kind)))
        or pa.types.is_decimal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or (pa.types.is_null(kind) and (part == "field" or not len(column)))
    ):
        raise ColumnError(
            f"{part} column '{name}' has type {kind}, which cannot be a key; "
            "cast it to an integer, string, date, timestamp, decimal or bool."
        )
