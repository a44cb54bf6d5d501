"""Rebuild an evaluation from the arrays of a saved state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import processors
from fastrank_eval._lib.array_codes import Arrays, table_bytes, table_from_bytes
from fastrank_eval._lib.arrow import bytes_column, row_column
from fastrank_eval._lib.errors import MergeError
from fastrank_eval._lib.version import __version__
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
    Place,
    Rows,
    Saveable,
    name_of,
    pair_of,
    paired_state_specs,
    state_specs,
    totals_in,
    values_of,
)
from fastrank_eval.engine.summary import slices_left_out, summary_rows
from fastrank_eval.engine.totals import RowStates, Sums, Totals
from fastrank_eval.io.columns import Roles
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.slicing.bins import BinCodes
from fastrank_eval.slicing.encode import bin_ranks
from fastrank_eval.slicing.labels import value_texts
from fastrank_eval.slicing.parser import requested_slicing
from fastrank_eval.slicing.slicer import SliceCodes, Slices, Slicing
from fastrank_eval.slicing.spec import SliceSpec
from fastrank_eval.stats.clustered_scores import ClusteredScores
from fastrank_eval.stats.means import MeanState
from fastrank_eval.stats.moments import ClusterMoments
from fastrank_eval.stats.paired import PairedState

if TYPE_CHECKING:
    from fastrank_eval.engine.state_file import Provenance

__all__ = ["KnownSlices", "SavedSlices", "edges_in", "loaded_of_models", "saved_of_models"]


@dataclass(frozen=True)
class FieldValues:
    """Distinct values, null first, then in the order of their bytes.

    Parameters
    ----------
    kind : str or None
        As `fields.CategoricalEncoder.keys` gives it.
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

    def saved(self) -> Arrays:
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


def saved_of_models(states: Mapping[str, Saveable], *, compared: bool) -> dict[str, Arrays]:
    """The arrays of one state of each model, of the same rows.

    Parameters
    ----------
    states : mapping of str to Saveable
        By model; all of one class.
    compared : bool
        Whether models are compared, for which some states must know which groups are the same.
    """
    if compared:
        clustered = {m: one for m, one in states.items() if isinstance(one, ClusteredScores)}
        if clustered:
            return ClusteredScores.saved_together(clustered)
    return {model: state.saved() for model, state in states.items()}


def loaded_of_models(
    kind: type[Saveable], parts: Mapping[str, Mapping[str, Any]]
) -> dict[str, Saveable]:
    """The states that `saved_of_models` wrote, by model."""
    if issubclass(kind, ClusteredScores):
        return {**kind.loaded_together(parts)}
    return {model: kind.loaded(each) for model, each in parts.items()}


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

    def saved(self) -> Arrays:
        """``table``: a column ``label``, and one for each part of the slicing with its values."""
        labels = bytes_column([label.encode() for label in self.labels], pa.string())
        names = ["label", *(f"value of {name}" for name in self.values)]
        return {"table": table_bytes(pa.table([labels, *self.values.values()], names=names))}

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The slices that `saved` wrote."""
        table = table_from_bytes(parts["table"])
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
    """Format the edges of the bins of each slice column that has edges."""
    return {
        coder.slice_column.name: value_texts(coder.edges)
        for coder in slicing.coders
        if isinstance(coder, BinCodes)
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


#: Conventions of which a result tells only after the measures.
_LAST = ("by",)


def plan_of(header: Mapping[str, Any], confidence: float = 0.95, min_groups: int = 1) -> Plan:
    """The plan of a state, as far as what becomes of its sums depends on it; without slices."""
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


def places_in(
    header: Mapping[str, Any], states: Mapping[Place, Arrays]
) -> Iterable[tuple[Place, Callable[[Arrays], object]]]:
    """Every place that a state must have, and what reads it; of slices as far as they are there."""
    plan = plan_of(header)
    sliced = [Rows(by) for by in header["slicings"]]
    rivals = [plan.roles.scores[model] for model in plan.rivals]
    rows = [ALL]
    for where in (ALL, *sliced):
        yield (where, "", TOTALS), totals_in
        yield from (((where, score, GROUPS), MeanState.loaded) for score in plan.roles.scores)
        yield from (((where, score, PAIRS), PairedState.loaded) for score in rivals)
    for by, where in zip(header["slicings"], sliced, strict=True):
        yield (where, "", SLICES), SavedSlices.loaded
        if (where, "", SLICES) in states:
            labels = SavedSlices.loaded(states[where, "", SLICES]).labels
            rows += [Rows(by, label) for label in labels]
    for where in rows:
        for names, scores in (
            (state_specs(plan), plan.roles.scores),
            (paired_state_specs(plan), rivals),
        ):
            for score in scores:
                yield from (((where, score, name), one.kind.loaded) for name, one in names.items())
    if header["has_groups"]:
        yield (ALL, "", VALUES), SavedGroups.loaded
    for field, kind in header["fields"].items():
        yield values_of(field), partial(FieldValues.loaded, kind)


def evaluation_of(
    header: Mapping[str, Any],
    states: Mapping[Place, Arrays],
    seen: Sequence[Provenance],
    confidence: float,
    min_groups: int,
) -> Evaluation:
    """What a run over all rows of a state came to.

    Parameters
    ----------
    header, states : mapping
        As `State` has them.
    seen : sequence of Seen
    confidence : float
    min_groups : int
    """
    started = perf_counter()
    held = {by: SavedSlices.loaded(states[Rows(by), "", SLICES]) for by in header["slicings"]}
    plan = plan_of(header, confidence, min_groups)
    if held:
        known = [
            KnownSlices(spec, one)
            for spec, one in zip(requested_slicing(list(held)), held.values(), strict=True)
        ]
        plan = replace(plan, slicing=Slicing(tuple(known), (), ()))
    totals = Totals(plan)
    totals.whole = _sums(plan, states, ALL)
    _fill(totals.shared.whole, plan, states, ALL)
    totals.slices = [_sums(plan, states, Rows(by)) for by in held]
    if plan.pools:
        for (by, one), pools in zip(held.items(), totals.shared.slices, strict=True):
            for line, label in enumerate(one.labels):
                _fill(pools.of(line), plan, states, Rows(by, label))
    groups = None
    if plan.per_group:
        groups = SavedGroups.loaded(states[ALL, "", VALUES])
    lines = summary_rows(plan, totals)
    meta = Meta(
        __version__,
        totals.whole.rows(),
        totals.whole.groups(),
        _conventions(header, seen, plan, totals),
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
        lines,
        meta,
        header["requested"],
    )


def _sums(plan: Plan, states: Mapping[Place, Arrays], where: Rows) -> Sums:
    scores = plan.roles.scores
    return Sums.of(
        plan,
        states[where, "", TOTALS],
        [MeanState.loaded(states[where, score, GROUPS]) for score in scores],
        {model: PairedState.loaded(states[where, scores[model], PAIRS]) for model in plan.rivals},
    )


def _fill(pools: RowStates, plan: Plan, states: Mapping[Place, Arrays], where: Rows) -> None:
    kept = state_specs(plan)
    for key in plan.pools:
        name = name_of(key)
        parts = {score: states[where, score, name] for score in plan.roles.scores}
        loaded = loaded_of_models(kept[name].kind, parts)
        for model, score in enumerate(plan.roles.scores):
            pools.models[model][key] = loaded[score]
    for model, pairs in pools.pairs.items():
        for key in pairs:
            pairs[key] = ClusterMoments.loaded(
                states[where, plan.roles.scores[model], pair_of(key)]
            )


def _conventions(
    header: Mapping[str, Any], seen: Sequence[Provenance], plan: Plan, totals: Totals
) -> dict[str, object]:
    """What a result tells of them: where evaluations differ, all that was in force."""
    found: dict[str, object] = {}
    given = dict(header["conventions"])
    last = {name: given.pop(name) for name in _LAST if name in given}
    for name, value in given.items():
        if name == "weight":
            found["order"] = _all_of(one.order for one in seen)
        found[name] = value
    found["confidence"] = plan.confidence
    found["measures"] = {str(m): m.options_in_force() for m in plan.measures}
    if last:
        found |= last
        found["min_groups"] = plan.min_groups
        found["slices_left_out"] = slices_left_out(plan, totals)
    if any(one.where is not None for one in seen):
        found["where"] = _all_of(one.where for one in seen)
    if any(one.limit is not None for one in seen):
        found["limit"] = _all_of(one.limit for one in seen)
    if len(seen) > 1:
        found["merged"] = len(seen)
    return found


def _all_of(values: Iterable[Any]) -> object:
    """The value in force, or all of them."""
    distinct = sorted(set(values), key=lambda value: (value is None, value))
    if len(distinct) == 1:
        return distinct[0]
    return ", ".join("none" if value is None else str(value) for value in distinct)
