"""The slices of a saved state: by what they are called, in the order of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from fastrank_eval.arrow_values import bytes_column
from fastrank_eval.columns import row_column
from fastrank_eval.errors import MergeError
from fastrank_eval.saved_parts import Parts, table_bytes, table_in
from fastrank_eval.slices.bin_codes import BinCodes
from fastrank_eval.slices.labels import value_texts
from fastrank_eval.slices.slicing import SliceCodes, Slices
from fastrank_eval.slices.spec import SliceSpec
from fastrank_eval.tally import Sums
from fastrank_eval.value_ranks import bin_ranks

__all__ = ["KnownSlices", "SavedSlices", "edges_in"]


@dataclass(frozen=True)
class SavedSlices:
    """The slices of one slicing that have a group, in the order they are shown.

    Parameters
    ----------
    labels : tuple of str, shape (slices,)
    values : dict of str to pyarrow.Array, shape (slices,)
        As in `Slices`.
    """

    labels: tuple[str, ...]
    values: dict[str, pa.Array]

    @classmethod
    def of(cls, slicing: SliceCodes, sums: Sums) -> tuple[Self, np.ndarray]:
        """Those of a run, and the line of the sums on which each stands."""
        every = slicing.slices()
        there = [at for at, line in enumerate(every.codes.tolist()) if sums.groups(line)]
        places = np.array(there, np.int64)
        values = {name: column.take(row_column(places)) for name, column in every.values.items()}
        return cls(tuple(every.labels[at] for at in there), values), every.codes[places]

    @classmethod
    def joined(cls, every: Sequence[Self], by: str) -> tuple[Self, list[np.ndarray]]:
        """All slices of several states, and the line that each has in each of them.

        Returns
        -------
        slices : SavedSlices
        lines : list of ndarray of int64, shape (slices,)
            For each state where a slice stands in it, -1 where it has none such.

        Raises
        ------
        MergeError
            If values are of different types.
        """
        labels = [label for one in every for label in one.labels]
        first = {label: at for at, label in reversed(list(enumerate(labels)))}
        places = np.array(sorted(first.values()), np.int64)
        values = {
            name: _together([one.values[name] for one in every], name, by).take(row_column(places))
            for name in every[0].values
        }
        order = np.lexsort([bin_ranks(column) for column in values.values()][::-1])
        shown = tuple(labels[at] for at in places[order].tolist())
        lines = []
        for one in every:
            at = {label: line for line, label in enumerate(one.labels)}
            lines.append(np.array([at.get(label, -1) for label in shown], np.int64))
        taken = {name: column.take(row_column(order)) for name, column in values.items()}
        return cls(shown, taken), lines

    def saved(self) -> Parts:
        """``table``: a column ``label``, and one for each part of the slicing with its values."""
        labels = bytes_column([label.encode() for label in self.labels], pa.string())
        names = ["label", *(f"value of {name}" for name in self.values)]
        return {"table": table_bytes(pa.table([labels, *self.values.values()], names=names))}

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The slices that `saved` wrote."""
        table = table_in(parts["table"])
        names = [name.removeprefix("value of ") for name in table.column_names[1:]]
        columns = [column.combine_chunks() for column in table.columns]
        return cls(tuple(columns[0].to_pylist()), dict(zip(names, columns[1:], strict=True)))


class KnownSlices(SliceCodes):
    """What `SliceCodes` tells of the slices of a run, of those of a state: line i is slice i.

    Parameters
    ----------
    spec : SliceSpec
    held : SavedSlices
    """

    def __init__(self, spec: SliceSpec, held: SavedSlices) -> None:
        super().__init__(spec, ())
        self._held = Slices(held.labels, np.arange(len(held.labels)), held.values)

    def __len__(self) -> int:
        return len(self._held.labels)

    def slices(self) -> Slices:
        """The slices in their order."""
        return self._held


def edges_in(slicing: SliceCodes) -> dict[str, list[str]]:
    """The edges of the bins of each part that has any, as labels show them."""
    return {
        part.part.name: value_texts(part.edges)
        for part in slicing.parts
        if isinstance(part, BinCodes)
    }


def _together(columns: Sequence[pa.Array], name: str, by: str) -> pa.Array:
    """Columns as one; types that differ in width alone become the widest of their kind."""
    kinds = {column.type for column in columns if column.null_count < len(column)}
    kind = next(iter(kinds), columns[0].type)
    if len(kinds) > 1:
        wide = {_widest(each) for each in kinds}
        kind = wide.pop()
        if wide:
            raise MergeError(
                f"states cannot be merged, because the type of '{name}' differs, by which "
                f"'{by}' slices: {' and '.join(sorted(map(str, kinds)))}; evaluate the files "
                "together, or write them as Parquet with one type."
            )
    cast = [
        column.cast(kind) if column.null_count < len(column) else pa.nulls(len(column), kind)
        for column in columns
    ]
    return pa.concat_arrays(cast)


def _widest(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_signed_integer(kind):
        return pa.int64()
    if pa.types.is_unsigned_integer(kind):
        return pa.uint64()
    if kind == pa.struct([("low", pa.int64()), ("high", pa.int64())]):
        # Bins of one width have whole ends until one is not.
        return pa.struct([("low", pa.float64()), ("high", pa.float64())])
    return kind
