"""Find the group that has so many rows that few groups count."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval.groups.scan import Keys, value_text
from fastrank_eval.slicing.encode import value_texts

#: The convention of a result, and the entry of a header of a state.
LARGEST = "largest_group"
#: A group is named if n^2 of its rows n is at least a tenth of the sum over all groups. If values
#: of groups vary alike, it then carries a tenth of the variance; of 30 large groups none does. A
#: share of the rows would be no measure: among a million users, one with 0.1% of the rows carries
#: half of the variance.
_PARTS = 10

_Value: TypeAlias = int | bool | str


@dataclass(frozen=True)
class LargestGroup:
    """The key and the size of a group.

    Parameters
    ----------
    rows : int
    found : mapping of str to (int, bool or str), callable or None
        Its value in each key column: numbers and strings as they are, others as texts of labels; or
        a function that returns them. None if only hashes of it are known.
    at_least : bool
        Whether it may have more rows, because it may have some in several merged states. Another
        group may then be larger.
    """

    rows: int
    found: Mapping[str, _Value] | Callable[[], Mapping[str, _Value]] | None
    at_least: bool = False

    @cached_property
    def key(self) -> Mapping[str, _Value] | None:
        """Its value in each key column."""
        return self.found() if callable(self.found) else self.found

    def plain(self, schema: pa.Schema | None = None) -> dict[str, Any]:
        """Convert it to plain Python values.

        Parameters
        ----------
        schema : pyarrow.Schema, optional
            Of the source, for keys that are UUIDs: they are bytes without it.
        """
        uuids = {field.name for field in schema or () if field.type == pa.uuid()}
        key = self.key and {
            name: str(UUID(hex=str(value)[2:])) if name in uuids else value
            for name, value in self.key.items()
        }
        return {"key": key, "rows": self.rows} | ({"at_least": True} if self.at_least else {})

    @classmethod
    def of_header(cls, header: Mapping[str, Any]) -> LargestGroup | None:
        """Read what `plain` wrote into the header of a state, if anything.

        Raises
        ------
        ValueError
            If it is malformed.
        """
        record = header.get(LARGEST)
        if record is None:
            return None
        key = record["key"] and dict(record["key"])
        return cls(int(record["rows"]), key, bool(record.get("at_least", False)))


def entry_of_whole(header: Mapping[str, Any], names: Collection[str] | None) -> dict[str, Any]:
    """Return the entry of a header whose states have no group in common.

    Parameters
    ----------
    header : mapping
    names : collection of str, optional
        New names of the key columns: workers have hashes of keys under other names.
    """
    largest = LargestGroup.of_header(header)
    if largest is None:
        return {}
    known = names is None or set(largest.key or ()) <= set(names)
    return {LARGEST: LargestGroup(largest.rows, largest.key if known else None).plain()}


def larger(one: LargestGroup | None, other: LargestGroup | None) -> LargestGroup | None:
    """Return the larger group, of equal ones the first by the text of its key."""
    if one is None or other is None:
        return one or other
    if one.rows != other.rows:
        return max(one, other, key=attrgetter("rows"))
    return min(one, other, key=lambda group: str(group.plain()))


def largest_in_chunk(
    known: LargestGroup | None,
    starts: np.ndarray,
    most: int,
    names: Sequence[str],
    keys: Callable[[np.ndarray], Keys],
) -> LargestGroup | None:
    """Return the largest group of a chunk, or a known one if it is larger.

    Keys are read only where a group may be named at the end. Sums over all groups are at least
    those over a chunk, so the same group is found in any chunks.

    Parameters
    ----------
    known : LargestGroup or None
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    most : int
        Number of rows of the largest group.
    names : sequence of str
        Key columns.
    keys : callable
        Maps positions of groups to their keys.
    """
    groups, all_rows = len(starts) - 1, int(starts[-1])
    # n^2 sums to at least (sum of n)^2 / groups. More than needed, so that no rounding matters.
    enough = (_PARTS + 1) * most**2
    if enough * groups < all_rows**2 or (known is not None and most < known.rows):
        return known
    indices = np.flatnonzero(np.diff(starts) == most)
    if len(indices) > _PARTS:
        return known
    return larger(known, LargestGroup(most, partial(_first_key, names, keys(indices))))


def _first_key(names: Sequence[str], keys: Keys) -> Mapping[str, _Value]:
    """Convert keys, and return the first by its text."""
    columns = [_values(column) for column in keys]
    return min((dict(zip(names, key, strict=True)) for key in zip(*columns, strict=True)), key=str)


def _values(keys: pa.Array) -> list[_Value]:
    """Convert values of a key column; see `LargestGroup`."""
    kind, types = keys.type, pa.types
    kinds = types.is_integer, types.is_boolean, types.is_string, types.is_large_string
    if any(is_kind(kind) for is_kind in kinds):
        return list(keys.to_pylist())
    try:
        return list(value_texts(keys))
    except (ColumnError, pa.ArrowException):  # an unknown time zone, or an interval
        return [value_text(keys, i) for i in range(len(keys))]


def dominant(group: LargestGroup | None, squares: float) -> LargestGroup | None:
    """Return a group, or None if it has a small part of the sum of n^2.

    Parameters
    ----------
    group : LargestGroup or None
    squares : float
        Sum of n^2 over all groups of n rows.
    """
    return group if group is not None and _PARTS * group.rows**2 >= squares else None
