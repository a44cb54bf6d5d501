"""What a run has added up -> a state that can be saved."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval._lib.version import __version__
from fastrank_eval.engine.group_values import SavedGroups
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.records import plain_value
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.state_arrays import FieldValues, SavedSlices, edges_in, saved_of_models
from fastrank_eval.engine.state_file import (
    ALL,
    GROUPS,
    PAIRS,
    SLICES,
    TOTALS,
    VALUES,
    Place,
    Rows,
    fingerprint_of,
    name_of,
    pair_of,
    values_of,
)
from fastrank_eval.engine.state_merge import CONVENTIONS, OF_A_RUN
from fastrank_eval.engine.totals import RowStates, Sums, Totals
from fastrank_eval.io.columns import Roles
from fastrank_eval.io.keys import CategoricalEncoder
from fastrank_eval.results.state import State
from fastrank_eval.stats.keyed_sums import KeyedSums

#: The only line of the sums over all rows.
_ONE = np.zeros(1, np.int64)


def state_of_run(done: Evaluation, source: object, keep_groups: bool = False) -> State:
    """The state of a run.

    Parameters
    ----------
    done : Evaluation
    source : object
        As `evaluate` takes it.
    keep_groups : bool
        Keep keys and values of every group, which the run must have kept.
    """
    plan, totals, conventions = done.plan, done.totals, done.meta.conventions
    roles = plan.roles
    states, kinds = _states(plan, totals)
    measures = [str(m) for m in plan.measures]
    whole = totals.whole
    seen = {
        "sources": _source_names(source),
        "order": conventions["order"],
        "where": conventions.get("where"),
        "limit": conventions.get("limit"),
        "rows": whole.rows(),
        "positives": whole.positives(),
        "groups": whole.groups(),
        "writer": __version__,
        "fingerprint": fingerprint_of(measures, states),
    }
    if keep_groups:
        groups = SavedGroups.of_run(plan, done.keys, done.values, done.schema)
        states[ALL, "", VALUES] = groups.saved()
    header = {
        "conventions_version": CONVENTIONS,
        "conventions": {name: v for name, v in conventions.items() if name not in OF_A_RUN},
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
            name: _score_type(done.schema.field(name).type, roles) for name in roles.scores
        },
        "measures": measures,
        "requested": done.requested,
        "models": roles.scores,
        "baseline": None if plan.baseline is None else roles.scores[plan.baseline],
        "slicings": {str(slicing.spec): edges_in(slicing) for slicing in plan.slicings},
        "has_groups": keep_groups,
        "fields": kinds,
        "confidence": plan.confidence,
        "min_groups": plan.min_groups,
        "seen": [seen],
    }
    return State(json.loads(json.dumps(plain_value(header))), states)


def _states(plan: Plan, totals: Totals) -> tuple[dict[Place, Arrays], dict[str, str | None]]:
    """All arrays, and what the values of each field are."""
    states: dict[Place, Arrays] = {}
    keyed: dict[str, list[tuple[Place, KeyedSums]]] = {}
    _put_sums(states, plan, ALL, totals.whole, _ONE)
    _put_pools(states, keyed, plan, ALL, totals.shared.whole)
    for slicing, sums, pools in zip(
        plan.slicings, totals.slices, totals.shared.slices, strict=True
    ):
        by = str(slicing.spec)
        held, lines = SavedSlices.of(slicing, sums)
        states[Rows(by), "", SLICES] = held.saved()
        _put_sums(states, plan, Rows(by), sums, lines)
        for label, line in zip(held.labels, lines.tolist(), strict=True):
            if plan.pools:
                _put_pools(states, keyed, plan, Rows(by, label), pools.of(line))
    kinds = {}
    fields = {one.name: one for one in plan.measured_fields if isinstance(one, CategoricalEncoder)}
    for name, places in keyed.items():
        held_keys = np.unique(np.concatenate([states[place]["keys"] for place, _ in places]))
        kind, numbered = fields[name].keys()
        values, numbers = FieldValues.of(kind, numbered, held_keys)
        kinds[name] = kind
        states[values_of(name)] = values.saved()
        for place, kept in places:
            states[place] = kept.renumbered(numbers).saved()
    return states, kinds


def _put_sums(
    states: dict[Place, Arrays], plan: Plan, where: Rows, sums: Sums, lines: np.ndarray
) -> None:
    """Enter sums over groups, their lines laid out anew."""
    states[where, "", TOTALS] = sums.counts(lines)
    for model, score in enumerate(plan.roles.scores):
        states[where, score, GROUPS] = sums.means[model].take(lines).saved()
    for model, pair in sums.pairs.items():
        states[where, plan.roles.scores[model], PAIRS] = pair.take(lines).saved()


def _put_pools(
    states: dict[Place, Arrays],
    keyed: dict[str, list[tuple[Place, KeyedSums]]],
    plan: Plan,
    where: Rows,
    pools: RowStates,
) -> None:
    """Enter what is kept of rows, and tell what of it tells values of fields apart."""
    for key, measure in plan.pools.items():
        kept = {
            score: of_model[key]
            for score, of_model in zip(plan.roles.scores, pools.models, strict=True)
        }
        for score, parts in saved_of_models(kept, compared=bool(plan.rivals)).items():
            place = where, score, name_of(key)
            states[place] = parts
            for name in measure.columns_named():
                keyed.setdefault(name, []).append((place, kept[score]))
    for model, pairs in pools.pairs.items():
        for key, moments in pairs.items():
            # Of a part of the measures, others may have left theirs.
            if key in plan.pools:
                states[where, plan.roles.scores[model], pair_of(key)] = moments.saved()


def _source_names(source: object) -> list[str]:
    """What a source is called: its paths, or its type."""
    several: Iterable[object] = source if isinstance(source, list | tuple) else [source]
    return [
        os.fspath(one) if isinstance(one, str | os.PathLike) else type(one).__qualname__
        for one in several
    ]


def _score_type(kind: pa.DataType, roles: Roles) -> str:
    """Scores of one type are compared by the same codes."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    whole = pa.types.is_integer(kind)
    narrow = whole and kind.bit_width <= 16
    if roles.single_precision or narrow or kind in (pa.float16(), pa.float32()):
        return "float32"
    # 64-bit integers keep their order, or where a measure takes them for numbers their value.
    if kind == pa.float64() or (whole and (kind.bit_width == 32 or roles.score_kind != "order")):
        return "float64"
    return str(kind)
