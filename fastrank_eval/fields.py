"""Values of a column that measures tell apart, as small integers that mean the same everywhere."""

from __future__ import annotations

import threading
from typing import Protocol

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import as_array, decoded
from fastrank_eval.columns import frozen
from fastrank_eval.validation import refuse_unhashable
from fastrank_eval.words import KeyWords


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
        column = decoded(column)
        refuse_unhashable(column, self.name, "field")
        if pa.types.is_null(column.type):
            column = column.cast(pa.bool_())
        found = column.dictionary_encode(null_encoding="encode")
        values = found.dictionary
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
        numbers = np.array(codes, np.int32)
        return frozen(numbers[as_array(found.indices)])

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

    @staticmethod
    def _bytes_of(words: KeyWords, values: pa.Array) -> list[bytes]:
        """Each value as bytes, which differ where values do."""
        if not len(values):
            return []
        rows = np.ascontiguousarray(np.stack(words.words(values), axis=1))
        # NumPy cuts zeros off the end, which only fill up: how many depends on the other values.
        found: list[bytes] = rows.view(f"S{8 * rows.shape[1]}")[:, 0].tolist()
        return found
