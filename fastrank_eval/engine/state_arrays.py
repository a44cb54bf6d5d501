"""Rebuild an evaluation from the arrays of a saved state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.arguments import processors
from fastrank_eval._lib.array_codes import Arrays, table_bytes, table_from_bytes
from fastrank_eval._lib.arrow import bytes_column, row_column
from fastrank_eval._lib.errors import MergeError
from fastrank_eval.engine.conventions import undefined_policies
from fastrank_eval.engine.group_values import SavedGroups
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.records import Meta
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.state_file import (
    ALL,
    GROUPS,
    PAIRS,
    SLICES,
    TOTALS,
    VALUES,
    ArrayKey,
    Rows,
    Saveable,
    field_values_key,
    paired_state_name,
    paired_state_specs,
    read_totals,
    state_name,
    state_specs,
)
from fastrank_eval.engine.summary import slices_left_out, summary_rows
from fastrank_eval.engine.totals import RowStates, Sums, Totals
from fastrank_eval.io.columns import Roles
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.slicing.bins import BinEncoder
from fastrank_eval.slicing.encode import bin_ranks, value_texts
from fastrank_eval.slicing.slicer import SliceEncoder, Slices, Slicings
from fastrank_eval.slicing.spec import SliceSpec, requested_slicing
from fastrank_eval.stats.clustered_scores import ClusteredScores
from fastrank_eval.stats.means import MeanState
from fastrank_eval.stats.moments import ClusterMoments
from fastrank_eval.stats.paired import PairedState

if TYPE_CHECKING:
    from fastrank_eval.engine.state_file import Provenance

__all__ = [
    "SavedSliceEncoder",
    "SavedSlices",
    "bin_edges",
    "states_from_arrays",
    "states_to_arrays",
]


@dataclass(frozen=True)
class FieldValues:
    """The distinct values of a field: null first, then by their bytes.

    Parameters
    ----------
    kind : str or None
        As `CategoricalEncoder.keys` returns it.
    values : tuple of bytes or None
    """

    kind: str | None
    values: tuple[bytes | None, ...]

    @classmethod
    def of(
        cls, kind: str | None, values: Sequence[bytes | None], present: np.ndarray
    ) -> tuple[Self, np.ndarray]:
        """Sort values, and map their old numbers to new ones.

        Parameters
        ----------
        kind : str or None
        values : sequence of bytes or None
            The values by their old number.
        present : ndarray of int64
            Old numbers of the values that any sum has; others are left out.

        Returns
        -------
        values : FieldValues
        numbers : ndarray of int64, shape (values,)
            The new number by the old one; -1 for values that are left out.
        """
        ascending = sorted(present.tolist(), key=lambda number: _sort_key(values[number]))
        numbers = np.full(len(values), -1, np.int64)
        numbers[ascending] = np.arange(len(ascending))
        return cls(kind, tuple(values[number] for number in ascending)), numbers

    def union(self, others: Sequence[Self]) -> tuple[Self, list[np.ndarray]]:
        """Unite these values with others, and map those to new numbers."""
        every = sorted({*self.values}.union(*(other.values for other in others)), key=_sort_key)
        number_of = {value: number for number, value in enumerate(every)}
        numbers = [np.array([number_of[v] for v in other.values], np.int64) for other in others]
        return type(self)(self.kind, tuple(every)), numbers

    def to_arrays(self) -> Arrays:
        """Write the bytes of all values, their sizes, and which are null.

        Returns
        -------
        dict of ndarray
            ``content``: the bytes; ``sizes``: the bytes of each value; ``null``: 0 or 1.
        """
        return {
            "content": np.frombuffer(b"".join(value or b"" for value in self.values), np.uint8),
            "sizes": np.array([len(value or b"") for value in self.values], np.int64),
            "null": np.array([value is None for value in self.values], np.uint8),
        }

    @classmethod
    def from_arrays(cls, kind: str | None, parts: Mapping[str, np.ndarray]) -> Self:
        """Read the values that `to_arrays` wrote."""
        content, values, first = parts["content"].tobytes(), [], 0
        for size, null in zip(parts["sizes"].tolist(), parts["null"].tolist(), strict=True):
            values.append(None if null else content[first : first + size])
            first += size
        return cls(kind, tuple(values))


def _sort_key(value: bytes | None) -> tuple[bool, bytes]:
    return value is not None, value or b""


def states_to_arrays(states: Mapping[str, Saveable], *, compared: bool) -> dict[str, Arrays]:
    """Write the states of several models of the same rows as arrays.

    Parameters
    ----------
    states : mapping of str to Saveable
        By model; all have one class.
    compared : bool
        Whether models are compared. Some states then write which groups are the same.
    """
    if compared:
        clustered = {m: state for m, state in states.items() if isinstance(state, ClusteredScores)}
        if clustered:
            return ClusteredScores.models_to_arrays(clustered)
    return {model: state.to_arrays() for model, state in states.items()}


def states_from_arrays(
    kind: type[Saveable], parts: Mapping[str, Mapping[str, Any]]
) -> dict[str, Saveable]:
    """Read the states that `states_to_arrays` wrote, by model."""
    if issubclass(kind, ClusteredScores):
        return {**kind.models_from_arrays(parts)}
    return {model: kind.from_arrays(arrays) for model, arrays in parts.items()}


@dataclass(frozen=True)
class SavedSlices:
    """The slices of one slicing that have a group, in display order.

    Parameters
    ----------
    labels : tuple of str, shape (slices,)
    values : dict of str to pyarrow.Array, shape (slices,)
        As in `Slices`.
    """

    labels: tuple[str, ...]
    values: dict[str, pa.Array]

    @classmethod
    def of(cls, slicing: SliceEncoder, sums: Sums) -> tuple[Self, np.ndarray]:
        """Select the slices of a run, and return the index of each in the sums."""
        every = slicing.slices()
        codes = every.codes.tolist()
        positions = [i for i, slice_index in enumerate(codes) if sums.groups(slice_index)]
        rows = np.array(positions, np.int64)
        values = {name: column.take(row_column(rows)) for name, column in every.values.items()}
        return cls(tuple(every.labels[i] for i in positions), values), every.codes[rows]

    @classmethod
    def union(cls, every: Sequence[Self], by: str) -> tuple[Self, list[np.ndarray]]:
        """Unite the slices of several states.

        Returns
        -------
        slices : SavedSlices
        slice_indices : list of ndarray of int64, shape (slices,)
            For each state the index of each slice in it, -1 for a slice that it lacks.

        Raises
        ------
        MergeError
            If values are of different types.
        """
        labels = [label for one in every for label in one.labels]
        first = {label: i for i, label in reversed(list(enumerate(labels)))}
        rows = np.array(sorted(first.values()), np.int64)
        values = {
            name: _concat([one.values[name] for one in every], name, by).take(row_column(rows))
            for name in every[0].values
        }
        order = np.lexsort([bin_ranks(column) for column in values.values()][::-1])
        united_labels = tuple(labels[i] for i in rows[order].tolist())
        slice_indices = []
        for one in every:
            index_of = {label: index for index, label in enumerate(one.labels)}
            slice_indices.append(
                np.array([index_of.get(label, -1) for label in united_labels], np.int64)
            )
        united = {name: column.take(row_column(order)) for name, column in values.items()}
        return cls(united_labels, united), slice_indices

    def to_arrays(self) -> Arrays:
        """Write ``table``: ``label``, and a column for each part."""
        labels = bytes_column([label.encode() for label in self.labels], pa.string())
        names = ["label", *(f"value of {name}" for name in self.values)]
        return {"table": table_bytes(pa.table([labels, *self.values.values()], names=names))}

    @classmethod
    def from_arrays(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """Read the slices that `to_arrays` wrote."""
        table = table_from_bytes(parts["table"])
        names = [name.removeprefix("value of ") for name in table.column_names[1:]]
        columns = [column.combine_chunks() for column in table.columns]
        return cls(tuple(columns[0].to_pylist()), dict(zip(names, columns[1:], strict=True)))


class SavedSliceEncoder(SliceEncoder):
    """The slices of a saved state as `SliceEncoder`: slice i has index i.

    Parameters
    ----------
    spec : SliceSpec
    saved : SavedSlices
    """

    def __init__(self, spec: SliceSpec, saved: SavedSlices) -> None:
        super().__init__(spec, ())
        self._slices = Slices(saved.labels, np.arange(len(saved.labels)), saved.values)

    def __len__(self) -> int:
        return len(self._slices.labels)

    def slices(self) -> Slices:
        """Return the slices in their order."""
        return self._slices


def bin_edges(slicing: SliceEncoder) -> dict[str, list[str]]:
    """Return the bin edges of each part of a slicing, as in labels."""
    return {
        encoder.slice_column.name: value_texts(encoder.edges)
        for encoder in slicing.encoders
        if isinstance(encoder, BinEncoder)
    }


def _concat(columns: Sequence[pa.Array], name: str, by: str) -> pa.Array:
    """Concatenate columns, and widen types that differ only in width."""
    kinds = {column.type for column in columns if column.null_count < len(column)}
    kind = next(iter(kinds), columns[0].type)
    if len(kinds) > 1:
        wide = {_widest(each) for each in kinds}
        kind = wide.pop()
        if wide:
            raise MergeError(
                f"states cannot be merged, because the type of '{name}' differs, which is part of "
                f"the slicing '{by}': {' and '.join(sorted(map(str, kinds)))}; evaluate the files "
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
        # Bins of one width have integer ends until one end is no integer.
        return pa.struct([("low", pa.float64()), ("high", pa.float64())])
    return kind


#: Conventions that a result lists after the measures.
_AFTER_MEASURES = ("by",)


def plan_of(header: Mapping[str, Any], confidence: float = 0.95, min_groups: int = 1) -> Plan:
    """Rebuild the plan of a state as its sums need it, without slices."""
    columns, conventions = header["columns"], header["conventions"]
    models, baseline = tuple(header["models"]), header["baseline"]
    return Plan(
        roles=Roles(
            group=tuple(columns["group"]),
            label=columns["label"],
            scores=models,
            weight=columns["weight"],
        ),
        measures=requested_measures(header["measures"]),
        undefined=undefined_policies(conventions["undefined"]),
        groups=conventions["groups"],
        per_group=header["has_groups"],
        threads=processors(),
        confidence=confidence,
        baseline=None if baseline is None else models.index(baseline),
        min_groups=min_groups,
    )


def array_readers(
    header: Mapping[str, Any], states: Mapping[ArrayKey, Arrays]
) -> Iterable[tuple[ArrayKey, Callable[[Arrays], object]]]:
    """Yield the key and the reader of all arrays that a state must have."""
    plan = plan_of(header)
    sliced = [Rows(by) for by in header["slicings"]]
    rivals = [plan.roles.scores[model] for model in plan.rivals]
    rows = [ALL]
    for where in (ALL, *sliced):
        yield (where, "", TOTALS), read_totals
        yield from (((where, score, GROUPS), MeanState.from_arrays) for score in plan.roles.scores)
        yield from (((where, score, PAIRS), PairedState.from_arrays) for score in rivals)
    for by, where in zip(header["slicings"], sliced, strict=True):
        yield (where, "", SLICES), SavedSlices.from_arrays
        if (where, "", SLICES) in states:
            labels = SavedSlices.from_arrays(states[where, "", SLICES]).labels
            rows += [Rows(by, label) for label in labels]
    for where in rows:
        for specs, scores in (
            (state_specs(plan), plan.roles.scores),
            (paired_state_specs(plan), rivals),
        ):
            for score in scores:
                for name, spec in specs.items():
                    yield (where, score, name), spec.kind.from_arrays
    if header["has_groups"]:
        yield (ALL, "", VALUES), SavedGroups.from_arrays
    for field, kind in header["fields"].items():
        yield field_values_key(field), partial(FieldValues.from_arrays, kind)


def evaluation_of(
    header: Mapping[str, Any],
    states: Mapping[ArrayKey, Arrays],
    provenance: Sequence[Provenance],
    confidence: float,
    min_groups: int,
) -> Evaluation:
    """Rebuild the evaluation of a run over all rows of a state.

    Parameters
    ----------
    header, states : mapping
        As `State` has them.
    provenance : sequence of Provenance
    confidence : float
    min_groups : int
    """
    started = perf_counter()
    slicings = {
        by: SavedSlices.from_arrays(states[Rows(by), "", SLICES]) for by in header["slicings"]
    }
    plan = plan_of(header, confidence, min_groups)
    if slicings:
        encoders = [
            SavedSliceEncoder(spec, slices)
            for spec, slices in zip(
                requested_slicing(list(slicings)), slicings.values(), strict=True
            )
        ]
        plan = replace(plan, slicings=Slicings(tuple(encoders), (), ()))
    totals = Totals(plan)
    totals.overall = _load_sums(plan, states, ALL)
    _load_row_states(totals.shared.overall, plan, states, ALL)
    totals.slices = [_load_sums(plan, states, Rows(by)) for by in slicings]
    if plan.row_states:
        for (by, slices), of_slices in zip(slicings.items(), totals.shared.slices, strict=True):
            for index, label in enumerate(slices.labels):
                _load_row_states(of_slices.of(index), plan, states, Rows(by, label))
    groups = None
    if plan.per_group:
        groups = SavedGroups.from_arrays(states[ALL, "", VALUES])
    summary = summary_rows(plan, totals)
    meta = Meta(
        __version__,
        totals.overall.rows(),
        totals.overall.groups(),
        _conventions(header, provenance, plan, totals),
        perf_counter() - started,
        requested=dict(header["requested"]),
    )
    schema = pa.schema([])
    if groups is not None:
        kinds = [key.type for key in groups.keys]
        schema = pa.schema(list(zip(groups.names, kinds, strict=True)))
    return Evaluation(
        plan,
        totals,
        [] if groups is None else [groups.keys],
        [] if groups is None else [groups.values],
        schema,
        summary,
        meta,
        header["requested"],
    )


def _load_sums(plan: Plan, states: Mapping[ArrayKey, Arrays], where: Rows) -> Sums:
    scores = plan.roles.scores
    return Sums.of(
        plan,
        states[where, "", TOTALS],
        [MeanState.from_arrays(states[where, score, GROUPS]) for score in scores],
        {
            model: PairedState.from_arrays(states[where, scores[model], PAIRS])
            for model in plan.rivals
        },
    )


def _load_row_states(
    row_states: RowStates, plan: Plan, states: Mapping[ArrayKey, Arrays], where: Rows
) -> None:
    specs = state_specs(plan)
    for key in plan.row_states:
        name = state_name(key)
        parts = {score: states[where, score, name] for score in plan.roles.scores}
        by_model = states_from_arrays(specs[name].kind, parts)
        for model, score in enumerate(plan.roles.scores):
            row_states.models[model][key] = by_model[score]
    for model, pairs in row_states.pairs.items():
        for key in pairs:
            pairs[key] = ClusterMoments.from_arrays(
                states[where, plan.roles.scores[model], paired_state_name(key)]
            )


def _conventions(
    header: Mapping[str, Any], provenance: Sequence[Provenance], plan: Plan, totals: Totals
) -> dict[str, object]:
    """List the conventions; if evaluations differ, with all their values."""
    result: dict[str, object] = {}
    conventions = dict(header["conventions"])
    last = {name: conventions.pop(name) for name in _AFTER_MEASURES if name in conventions}
    for name, value in conventions.items():
        if name == "weight":
            result["order"] = _all_values(one.order for one in provenance)
        result[name] = value
    result["confidence"] = plan.confidence
    result["measures"] = {str(m): m.options_in_force() for m in plan.measures}
    if last:
        result |= last
        result["min_groups"] = plan.min_groups
        result["slices_left_out"] = slices_left_out(plan, totals)
    if any(one.where is not None for one in provenance):
        result["where"] = _all_values(one.where for one in provenance)
    if any(one.limit is not None for one in provenance):
        result["limit"] = _all_values(one.limit for one in provenance)
    if len(provenance) > 1:
        result["merged"] = len(provenance)
    return result


def _all_values(values: Iterable[Any]) -> object:
    """Return the only distinct value, or the text of all of them."""
    distinct = sorted(set(values), key=lambda value: (value is None, value))
    if len(distinct) == 1:
        return distinct[0]
    return ", ".join("none" if value is None else str(value) for value in distinct)
