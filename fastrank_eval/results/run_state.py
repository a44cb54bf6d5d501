"""Build the state of a run, which can be saved."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval.engine.group_values import SavedGroups
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.records import plain_value
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.state_arrays import FieldValues, SavedSlices, bin_edges, states_to_arrays
from fastrank_eval.engine.state_file import (
    ALL,
    GROUPS,
    PAIRS,
    SLICES,
    TOTALS,
    VALUES,
    ArrayKey,
    Rows,
    field_values_key,
    fingerprint_of,
    paired_state_name,
    state_name,
)
from fastrank_eval.engine.state_merge import CONVENTIONS, RUN_CONVENTIONS
from fastrank_eval.engine.totals import RowStates, Sums, Totals
from fastrank_eval.io.columns import Roles
from fastrank_eval.io.keys import CategoricalEncoder
from fastrank_eval.results.state import State
from fastrank_eval.stats.row_sums import RowSums

#: The slice index of the sums over all rows.
_ALL_ROWS = np.zeros(1, np.int64)


def state_of_run(evaluation: Evaluation, source: object, keep_groups: bool = False) -> State:
    """Build the state of a run.

    Parameters
    ----------
    evaluation : Evaluation
    source : object
        As `evaluate` takes it.
    keep_groups : bool
        Keep keys and values of every group; needs ``plan.per_group``.
    """
    plan, totals, conventions = evaluation.plan, evaluation.totals, evaluation.meta.conventions
    roles = plan.roles
    states, kinds = _arrays(plan, totals)
    measures = [str(m) for m in plan.measures]
    overall = totals.overall
    provenance = {
        "sources": _source_names(source),
        "order": conventions["order"],
        "where": conventions.get("where"),
        "limit": conventions.get("limit"),
        "rows": overall.rows(),
        "positives": overall.positives(),
        "groups": overall.groups(),
        "writer": __version__,
        "fingerprint": fingerprint_of(measures, states),
    }
    if keep_groups:
        groups = SavedGroups.of_run(plan, evaluation.keys, evaluation.values, evaluation.schema)
        states[ALL, "", VALUES] = groups.to_arrays()
    header = {
        "conventions_version": CONVENTIONS,
        "conventions": {name: v for name, v in conventions.items() if name not in RUN_CONVENTIONS},
        "columns": {
            "group": roles.group,
            "label": roles.label,
            "weight": roles.weight,
            "item": roles.item,
            "subtopics": roles.subtopics,
            "group weights": roles.group_weights,
            "fields": list(kinds),
        },
        "score_types": {
            name: _score_type(evaluation.schema.field(name).type, roles) for name in roles.scores
        },
        "measures": measures,
        "requested": evaluation.requested,
        "models": roles.scores,
        "baseline": None if plan.baseline is None else roles.scores[plan.baseline],
        "slicings": {str(slicing.spec): bin_edges(slicing) for slicing in plan.slice_encoders},
        "has_groups": keep_groups,
        "fields": kinds,
        "confidence": plan.confidence,
        "min_groups": plan.min_groups,
        "provenance": [provenance],
    }
    return State(json.loads(json.dumps(plain_value(header))), states)


def _arrays(plan: Plan, totals: Totals) -> tuple[dict[ArrayKey, Arrays], dict[str, str | None]]:
    """Write totals to arrays; also return the kind of values of each field."""
    states: dict[ArrayKey, Arrays] = {}
    keyed: dict[str, list[tuple[ArrayKey, RowSums]]] = {}
    _put_sums(states, plan, ALL, totals.overall, _ALL_ROWS)
    _put_row_states(states, keyed, plan, ALL, totals.shared.overall)
    for slicing, sums, slice_states in zip(
        plan.slice_encoders, totals.slices, totals.shared.slices, strict=True
    ):
        by = str(slicing.spec)
        slices, slice_indices = SavedSlices.of(slicing, sums)
        states[Rows(by), "", SLICES] = slices.to_arrays()
        _put_sums(states, plan, Rows(by), sums, slice_indices)
        for label, index in zip(slices.labels, slice_indices.tolist(), strict=True):
            if plan.row_states:
                _put_row_states(states, keyed, plan, Rows(by, label), slice_states.of(index))
    kinds = {}
    fields = {f.name: f for f in plan.measured_fields if isinstance(f, CategoricalEncoder)}
    for name, sums_by_key in keyed.items():
        present = np.unique(np.concatenate([sums.keys() for _, sums in sums_by_key]))
        kind, encoded = fields[name].keys()
        values, numbers = FieldValues.of(kind, encoded, present)
        kinds[name] = kind
        states[field_values_key(name)] = values.to_arrays()
        for key, keyed_sums in sums_by_key:
            states[key] = keyed_sums.with_keys(numbers).to_arrays()
    return states, kinds


def _put_sums(
    states: dict[ArrayKey, Arrays], plan: Plan, where: Rows, sums: Sums, slice_indices: np.ndarray
) -> None:
    """Write sums over groups, with the slices in the order of `slice_indices`."""
    states[where, "", TOTALS] = sums.counts(slice_indices)
    for model, score in enumerate(plan.roles.scores):
        states[where, score, GROUPS] = sums.means[model].take(slice_indices).to_arrays()
    for model, pair in sums.pairs.items():
        states[where, plan.roles.scores[model], PAIRS] = pair.take(slice_indices).to_arrays()


def _put_row_states(
    states: dict[ArrayKey, Arrays],
    keyed: dict[str, list[tuple[ArrayKey, RowSums]]],
    plan: Plan,
    where: Rows,
    row_states: RowStates,
) -> None:
    """Write row states, and collect those with sums by values of a field."""
    for key, measure in plan.row_states.items():
        by_score = {
            score: of_model[key]
            for score, of_model in zip(plan.roles.scores, row_states.models, strict=True)
        }
        for score, parts in states_to_arrays(by_score, compared=bool(plan.rivals)).items():
            array_key = where, score, state_name(key)
            states[array_key] = parts
            for name in measure.columns_named():
                keyed.setdefault(name, []).append((array_key, by_score[score]))
    for model, pairs in row_states.pairs.items():
        for key, moments in pairs.items():
            # A plan with some of the measures of the run has not all of the keys.
            if key in plan.row_states:
                states[where, plan.roles.scores[model], paired_state_name(key)] = (
                    moments.to_arrays()
                )


def _source_names(source: object) -> list[str]:
    """Return the paths of a source, or the name of its type."""
    several: Iterable[object] = source if isinstance(source, list | tuple) else [source]
    return [
        os.fspath(one) if isinstance(one, str | os.PathLike) else type(one).__qualname__
        for one in several
    ]


def _score_type(kind: pa.DataType, roles: Roles) -> str:
    """Return the type in which scores are compared."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_integer = pa.types.is_integer(kind)
    is_narrow = is_integer and kind.bit_width <= 16
    if roles.single_precision or is_narrow or kind in (pa.float16(), pa.float32()):
        return "float32"
    # 64-bit integers keep their order; if a measure reads scores as numbers, they keep their value.
    if kind == pa.float64() or (
        is_integer and (kind.bit_width == 32 or roles.score_kind != "order")
    ):
        return "float64"
    return str(kind)
