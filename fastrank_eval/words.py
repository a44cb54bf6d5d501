"""Keys of any type as 64-bit words, equal exactly where the keys are equal, and back.

Integers, dates, timestamps and bools are one word. Decimals and long intervals are the words they
lie in. Strings and bytes are their bytes, closed by a mark and filled up with zeros, so that words
which only fill up never tell two keys apart; what is longer than `LONGEST` bytes is kept once in a
table and stands as its number there. Whoever compares words compares keys.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import as_array, fixed_items
from fastrank_eval.arrow_values import arrow_column, bytes_column
from fastrank_eval.columns import frozen, row_column
from fastrank_eval.groups import fixed_width
from fastrank_eval.kernel import kernel
from fastrank_eval.scratch import scratch

#: Bytes of the longest string that is written out: 64 hexadecimal digits and a few more.
LONGEST = 71
#: The last byte that is not 0 tells what the words hold.
_WRITTEN, _NUMBERED = 0x80, 0x81
#: Bytes that Python needs to keep a key and its number.
_EACH_LONG = 200


class KeyWords:
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
