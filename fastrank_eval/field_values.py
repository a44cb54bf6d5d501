"""The values of a field in a saved state: sums of two states are added where values are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from fastrank_eval.saved_parts import Parts


@dataclass(frozen=True)
class FieldValues:
    """Distinct values, null first, then in the order of their bytes.

    Parameters
    ----------
    kind : str or None
        As `fields.FieldCodes.keys` gives it.
    values : tuple of bytes or None
    """

    kind: str | None
    values: tuple[bytes | None, ...]

    @classmethod
    def of(
        cls, kind: str | None, numbered: Sequence[bytes | None], held: np.ndarray
    ) -> tuple[Self, np.ndarray]:
        """Values in order, and the new number of each.

        Parameters
        ----------
        kind : str or None
        numbered : sequence of bytes or None
            The values by their number.
        held : ndarray of int64
            Numbers of those that any sum has; others are left out.

        Returns
        -------
        values : FieldValues
        numbers : ndarray of int64, shape (values,)
            By the number before; -1 for those left out.
        """
        ascending = sorted(held.tolist(), key=lambda code: _order(numbered[code]))
        numbers = np.full(len(numbered), -1, np.int64)
        numbers[ascending] = np.arange(len(ascending))
        return cls(kind, tuple(numbered[code] for code in ascending)), numbers

    def joined(self, others: Sequence[Self]) -> tuple[Self, list[np.ndarray]]:
        """The values of these and of others, and the new numbers of those of the others."""
        both = sorted({*self.values}.union(*(other.values for other in others)), key=_order)
        at = {value: number for number, value in enumerate(both)}
        numbers = [np.array([at[v] for v in other.values], np.int64) for other in others]
        return type(self)(self.kind, tuple(both)), numbers

    def saved(self) -> Parts:
        """``content``, the bytes of all values, ``sizes`` of each and ``null`` (0 or 1)."""
        return {
            "content": np.frombuffer(b"".join(value or b"" for value in self.values), np.uint8),
            "sizes": np.array([len(value or b"") for value in self.values], np.int64),
            "null": np.array([value is None for value in self.values], np.uint8),
        }

    @classmethod
    def loaded(cls, kind: str | None, parts: Mapping[str, np.ndarray]) -> Self:
        """The values that `saved` wrote."""
        content, values, first = parts["content"].tobytes(), [], 0
        for size, null in zip(parts["sizes"].tolist(), parts["null"].tolist(), strict=True):
            values.append(None if null else content[first : first + size])
            first += size
        return cls(kind, tuple(values))


def _order(value: bytes | None) -> tuple[bool, bytes]:
    return value is not None, value or b""
