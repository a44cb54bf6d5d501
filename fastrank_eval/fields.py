"""Values of a column that measures tell apart, as small integers that mean the same everywhere."""

from __future__ import annotations

import threading
from typing import Protocol

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import as_array, decoded
from fastrank_eval.arrow_values import arrow_column
from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel
from fastrank_eval.validation import refuse_unhashable
from fastrank_eval.words import KeyWords

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


class FieldCodes:
    """Numbers the distinct values of a column, as they come; threads may share it.

    Parameters
    ----------
    name : str
        Of the column.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._words: KeyWords | None = None
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
                self._words = KeyWords(self.name, values.type)
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
            Text in UTF-8; of other types the words of `KeyWords` without zeros at the end; None for
            null.
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
    def _bytes_of(words: KeyWords, values: pa.Array) -> list[bytes]:
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
