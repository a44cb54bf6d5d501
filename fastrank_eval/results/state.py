"""Load the state of an evaluation, or make it from a run or parts.

Evaluate several states as one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import values_type
from fastrank_eval._lib.errors import clean_address
from fastrank_eval.engine.group_table import LARGEST, GroupTable, entry_of_whole
from fastrank_eval.engine.records import ROW_COUNTS, plain_value
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.state_arrays import ALL, BY_BUCKET, VALUES, bin_edges, fields_of
from fastrank_eval.engine.state_file import (
    CONVENTIONS,
    RUN_CONVENTIONS,
    evaluation_of,
    fingerprint_of,
    merge_totals,
    plan_of,
    read_state,
    without_key,
)
from fastrank_eval.io.columns import Roles
from fastrank_eval.results.result import State, checked_state, merged_header


@typed
def load_state(path: str | os.PathLike[str]) -> State:
    """Read a file of `State.save` or ``--save-state``.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    State

    Raises
    ------
    SourceError
        If the file is missing, is not a saved state, is damaged, or has a newer format.
    """
    return checked_state(*read_state(path), os.fspath(path))


def as_one(
    state: State,
    group: Sequence[str] | None = None,
    cluster: Sequence[str] = (),
    like: State | None = None,
    **provenance: Any,
) -> State:
    """Replace the provenance by that of one evaluation of all rows.

    Parameters
    ----------
    state : State
    group, cluster : sequence of str, optional
        New names of the key columns.
    like : State, optional
        A state whose names of measures reports show.
    **provenance
        `sources`, `order`, `where` and `limit` of `Provenance`.
    """
    header = dict(state.header)
    header |= entry_of_whole(header, group and (*group, *cluster))
    counts = {
        name: sum(getattr(one, name) for one in state.provenance)
        for name in ("rows", "positives", "groups")
    }
    fingerprint = fingerprint_of(header["measures"], state.arrays)
    header["provenance"] = [
        {**provenance, **counts, "writer": __version__, "fingerprint": fingerprint}
    ]
    if group is not None:
        header["columns"] = {**header["columns"], "group": list(group)}
    if cluster:
        header["columns"] = {**header["columns"], "cluster": list(cluster)}
        header["conventions"] = {**header["conventions"], "cluster": list(cluster)}
    if like is not None and "names" in like.header:
        header["names"] = like.header["names"]
    return State(header, state.arrays)


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
    roles, overall = plan.roles, totals.overall
    states = totals.to_arrays()
    measures = [str(m) for m in plan.measures]
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
        groups = GroupTable.of_run(plan, evaluation.groups, evaluation.schema)
        states[ALL, "", VALUES] = groups.sort_by_key().to_arrays()
    names = {str(m): m.alias for m in plan.measures if m.alias}
    header = {
        "conventions_version": CONVENTIONS,
        "conventions": {name: v for name, v in conventions.items() if name not in RUN_CONVENTIONS},
        "columns": {
            "group": roles.group,
            **({"cluster": roles.cluster} if roles.cluster else {}),
            "label": roles.label,
            "weight": roles.weight,
            "item": roles.item,
            "subtopics": roles.subtopics,
            "group weights": roles.group_weights,
            "fields": [field.name for field in fields_of(plan)],
        },
        "score_types": {
            name: _score_type(evaluation.schema.field(name).type, roles) for name in roles.scores
        },
        "measures": measures,
        "requested": evaluation.meta.requested,
        **({"names": names} if names else {}),
        **{name: conventions[name] for name in ROW_COUNTS if name in conventions},
        **({LARGEST: totals.largest.plain(evaluation.schema)} if totals.largest else {}),
        "models": roles.scores,
        "baseline": None if plan.baseline is None else roles.scores[plan.baseline],
        "slicings": {str(slicing.spec): bin_edges(slicing) for slicing in plan.slice_encoders},
        "has_groups": keep_groups,
        **({BY_BUCKET: roles.keys[: roles.outer]} if plan.buckets else {}),
        "confidence": plan.confidence,
        "min_groups": plan.min_groups,
        "provenance": [provenance],
    }
    return State(json.loads(json.dumps(plain_value(without_key(header)))), states)


def _source_names(source: object) -> list[str]:
    """Return paths of a source without credentials, or its type."""
    several: Iterable[object] = source if isinstance(source, list | tuple) else [source]
    return [
        clean_address(os.fsdecode(one))
        if isinstance(one, str | os.PathLike)
        else type(one).__qualname__
        for one in several
    ]


def _score_type(kind: pa.DataType, roles: Roles) -> str:
    """Return the type in which scores are compared."""
    kind = values_type(kind)
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


def merged_evaluation(every: Sequence[State], confidence: float, min_groups: int) -> Evaluation:
    """Evaluate states without groups as one, which is not written.

    Without buckets of clusters there is no error of AUC, which takes time.

    Raises
    ------
    MergeError
        As `State.merge` does.
    """
    for other in every[1:]:
        every[0].check_mergeable(other)
    plan = plan_of(every, confidence, min_groups)
    plan = replace(plan, errors=plan.buckets)
    totals, entries = merge_totals(every, plan, whole=False)
    return evaluation_of(State(merged_header(every, entries), {}), plan, totals)
