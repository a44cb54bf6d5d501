"""Hold the rows of a batch for several plans, each column once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.io.columns import CodedColumn, Columns, Roles

#: The place of an array that a plan does not have.
_ABSENT = -1


class StoredColumn(NamedTuple):
    """A column of a layout.

    Parameters
    ----------
    role, name : str
    roles : Roles
        Those of the first plan that reads it, for its policies.
    place : int
        Place of its values.
    mask : int
        Place of the mask of its nulls; -1 if no plan needs it.
    encoder : CodedColumn or None
        What a field is encoded by.
    """

    role: str
    name: str
    roles: Roles
    place: int
    mask: int
    encoder: CodedColumn | None


class Layout:
    """Places of the columns of several plans in one list of arrays.

    Columns of the same role, name and policies share a place.

    Parameters
    ----------
    roles : sequence of Roles
        Those of each plan. All that have key columns or items have the same.

    Attributes
    ----------
    columns : list of StoredColumn
        Each column once: labels first, then scores.
    size : int
        Number of places.
    """

    def __init__(self, roles: Sequence[Roles]) -> None:
        self.roles = tuple(roles)
        self.group = next((one.group for one in roles if one.group), ())
        self.item = next((one.item for one in roles if one.item is not None), None)
        self.columns: list[StoredColumn] = []
        self.size = 0
        known: dict[Hashable, StoredColumn] = {}

        def store(
            one: Roles,
            role: str,
            name: str,
            *policies: Hashable,
            masked: bool = False,
            encoder: CodedColumn | None = None,
        ) -> StoredColumn:
            """Give a column a place, unless it has one."""
            key = role, name, masked, *policies
            if key not in known:
                mask = self.size + 1 if masked else _ABSENT
                known[key] = StoredColumn(role, name, one, self.size, mask, encoder)
                self.columns.append(known[key])
                self.size += 1 + masked
            return known[key]

        labels = [
            store(one, "label", one.label, one.unjudged, masked=one.keeps_unjudged) for one in roles
        ]
        scores = [
            [
                store(
                    *(one, "score", name, one.unretrieved, one.single_precision, one.score_kind),
                    masked=one.unretrieved == "allow",
                )
                for name in one.scores
            ]
            for one in roles
        ]
        others = []
        for one in roles:
            weight = subtopics = _ABSENT
            if one.weight is not None:
                weight = store(one, "weight", one.weight).place
            named = [store(one, "group weight", name).place for name in one.group_weights]
            named += [
                store(one, "field", field.name, id(field), encoder=field).place
                for field in one.fields
            ]
            if one.subtopics is not None:
                subtopics = store(one, "subtopics", one.subtopics).place
            others.append([weight, *named, subtopics])
        #: For each plan the place of each array of `Columns.arrays`, row numbers left out.
        self.places = [
            (
                label.place,
                *(score.place for score in of_models),
                *(score.mask for score in of_models),
                *rest,
                label.mask,
            )
            for label, of_models, rest in zip(labels, scores, others, strict=True)
        ]
        self._labels, self._scores = labels, scores

    def masks(self) -> list[int]:
        """List the places of masks; a batch without nulls has none there."""
        return [column.mask for column in self.columns if column.mask != _ABSENT]

    def score_places(self, plans: Iterable[int]) -> frozenset[int]:
        """Return the places of the scores of some plans."""
        return frozenset(score.place for plan in plans for score in self._scores[plan])

    def drop_masks(self) -> list[int]:
        """List the places of the masks of rows that each plan drops.

        Empty if a plan drops none.
        """
        if any(one.unjudged != "drop" for one in self.roles):
            return []
        return list(dict.fromkeys(label.mask for label in self._labels))


@dataclass(frozen=True)
class Rows:
    """Validated rows of one batch, for several plans.

    Parameters
    ----------
    layout : Layout
    first_row : int
        Number of the first row in the input, counted from 0.
    keys : tuple of pyarrow.Array
        Key columns, without nulls.
    arrays : tuple of (ndarray or None), shape (rows,) each
        By place: see `Columns`.
    item : pyarrow.Array or None
        Item ids.
    row_numbers : ndarray of int64 or None
        Number of each row in the input; None for consecutive rows.
    """

    layout: Layout
    first_row: int
    keys: tuple[pa.Array, ...]
    arrays: tuple[np.ndarray | None, ...]
    item: pa.Array | None
    row_numbers: np.ndarray | None = None

    @property
    def count(self) -> int:
        """Number of rows."""
        return next(len(array) for array in self.arrays if array is not None)

    def of(self, plan: int) -> Columns:
        """Return the columns of a plan, without keys; plans share arrays."""
        places, roles = self.layout.places[plan], self.layout.roles[plan]
        arrays = [None if place == _ABSENT else self.arrays[place] for place in places]
        item = None if roles.item is None else self.item
        return Columns.from_arrays(
            [*arrays, self.row_numbers], len(roles.scores), item, (), self.first_row
        )

    def keep(self, plans: Iterable[int]) -> Rows:
        """Keep only the arrays of some plans."""
        kept = {place for plan in plans for place in self.layout.places[plan]}
        if len(kept - {_ABSENT}) == len(self.arrays):
            return self
        arrays = (array if place in kept else None for place, array in enumerate(self.arrays))
        return replace(self, arrays=tuple(arrays))

    def drop_keys(self) -> Rows:
        """Return the same rows without keys."""
        return replace(self, keys=())

    def slice(self, lo: int, hi: int) -> Rows:
        """Return rows `lo` to `hi` without a copy."""
        return self._map(
            lambda values: values[lo:hi],
            lambda column: column.slice(lo, hi - lo),
            self.first_row + lo,
        )

    def copy(self) -> Rows:
        """Copy the rows to memory of their own."""
        # Arrow's take would import pyarrow.compute, which takes 45 ms.
        return self._map(
            lambda values: frozen(values.copy()),
            lambda column: pa.concat_arrays([column]),
            self.first_row,
        )

    def filter(self, mask: np.ndarray) -> Rows:
        """Return the rows of a mask, with their keys and row numbers."""
        rows = np.flatnonzero(mask)
        row_indices = row_column(rows)
        selected = self._map(
            lambda values: frozen(values[rows]),
            lambda column: column.take(row_indices),
            self.first_row,
        )
        return replace(selected, row_numbers=self.first_row + rows)

    def _map(
        self,
        array: Callable[[np.ndarray], np.ndarray],
        column: Callable[[pa.Array], pa.Array],
        first_row: int,
    ) -> Rows:
        """Apply a function to every NumPy array and another to every Arrow array."""
        return Rows(
            self.layout,
            first_row,
            tuple(map(column, self.keys)),
            tuple(None if values is None else array(values) for values in self.arrays),
            None if self.item is None else column(self.item),
            None if self.row_numbers is None else array(self.row_numbers),
        )


def concatenate(batches: Sequence[Rows]) -> Rows:
    """Concatenate batches; rows of batches with gaps keep their numbers."""
    if len(batches) == 1:
        return batches[0]
    first = batches[0]

    def join(arrays: tuple[np.ndarray | None, ...]) -> np.ndarray | None:
        """Join arrays; batches without a mask get an empty one."""
        if all(array is None for array in arrays):
            return None
        pairs = zip(batches, arrays, strict=True)
        filled = [np.zeros(b.count, np.bool_) if array is None else array for b, array in pairs]
        return frozen(np.concatenate(filled))

    arrays = tuple(join(arrays) for arrays in zip(*(b.arrays for b in batches), strict=True))
    ends = [batch.first_row + batch.count for batch in batches]
    has_gaps = any(end != b.first_row for end, b in zip(ends, batches[1:], strict=False))
    row_numbers = None
    if has_gaps or any(batch.row_numbers is not None for batch in batches):
        numbers = [
            b.first_row + np.arange(b.count) if b.row_numbers is None else b.row_numbers
            for b in batches
        ]
        row_numbers = frozen(np.concatenate(numbers))
    item = None if first.item is None else pa.concat_arrays([batch.item for batch in batches])
    every = zip(*(batch.keys for batch in batches), strict=True)
    keys = tuple(pa.concat_arrays(list(columns)) for columns in every)
    return Rows(first.layout, first.first_row, keys, arrays, item, row_numbers)
