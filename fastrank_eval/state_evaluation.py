"""A saved state -> the evaluation that it was, as if all its rows had been read just now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval import __version__
from fastrank_eval.arguments import processors
from fastrank_eval.cluster_moments import ClusterMoments
from fastrank_eval.columns import Roles
from fastrank_eval.evaluation import Evaluation
from fastrank_eval.field_values import FieldValues
from fastrank_eval.mean_state import MeanState
from fastrank_eval.measures.text import measures_asked
from fastrank_eval.meta import Meta
from fastrank_eval.model_states import loaded_of_models
from fastrank_eval.paired_state import PairedState
from fastrank_eval.plan import Plan
from fastrank_eval.saved_groups import SavedGroups
from fastrank_eval.saved_parts import Parts
from fastrank_eval.saved_slices import KnownSlices, SavedSlices
from fastrank_eval.slices.slicing import Slicing
from fastrank_eval.slices.spec_text import slices_asked
from fastrank_eval.state_files import Place, Rows
from fastrank_eval.state_places import (
    ALL,
    GROUPS,
    PAIRS,
    SLICES,
    TOTALS,
    VALUES,
    kept_by,
    name_of,
    pair_of,
    paired_by,
    totals_in,
    values_of,
)
from fastrank_eval.summary import slices_left_out, summary_lines
from fastrank_eval.tally import PoolSet, Sums, Tally
from fastrank_eval.undefined import undefined_policies

if TYPE_CHECKING:
    from fastrank_eval.state_header import Seen

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
        measures=measures_asked(header["measures"]),
        undefined=undefined_policies(conventions["undefined"]),
        groups=conventions["groups"],
        per_group=header["groups_kept"],
        threads=processors(),
        confidence=confidence,
        baseline=None if baseline is None else models.index(baseline),
        min_groups=min_groups,
    )


def places_in(
    header: Mapping[str, Any], states: Mapping[Place, Parts]
) -> Iterable[tuple[Place, Callable[[Parts], object]]]:
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
        for names, scores in ((kept_by(plan), plan.roles.scores), (paired_by(plan), rivals)):
            for score in scores:
                yield from (((where, score, name), one.kind.loaded) for name, one in names.items())
    if header["groups_kept"]:
        yield (ALL, "", VALUES), SavedGroups.loaded
    for field, kind in header["fields"].items():
        yield values_of(field), partial(FieldValues.loaded, kind)


def evaluation_of(
    header: Mapping[str, Any],
    states: Mapping[Place, Parts],
    seen: Sequence[Seen],
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
            for spec, one in zip(slices_asked(list(held)), held.values(), strict=True)
        ]
        plan = replace(plan, slicing=Slicing(tuple(known), (), ()))
    tally = Tally(plan)
    tally.whole = _sums(plan, states, ALL)
    _fill(tally.shared.whole, plan, states, ALL)
    tally.slices = [_sums(plan, states, Rows(by)) for by in held]
    if plan.pools:
        for (by, one), pools in zip(held.items(), tally.shared.slices, strict=True):
            for line, label in enumerate(one.labels):
                _fill(pools.of(line), plan, states, Rows(by, label))
    groups = None
    if plan.per_group:
        groups = SavedGroups.loaded(states[ALL, "", VALUES])
    lines = summary_lines(plan, tally)
    meta = Meta(
        __version__,
        tally.whole.rows(),
        tally.whole.groups(),
        _conventions(header, seen, plan, tally),
        perf_counter() - started,
        requested=dict(header["asked"]),
    )
    schema = pa.schema([])
    if groups is not None:
        kinds = [key.type for key in groups.keys]
        schema = pa.schema(list(zip(groups.names, kinds, strict=True)))
    return Evaluation(
        plan,
        tally,
        [] if groups is None else [groups.keys],
        [] if groups is None else [groups.values],
        schema,
        lines,
        meta,
        header["asked"],
    )


def _sums(plan: Plan, states: Mapping[Place, Parts], where: Rows) -> Sums:
    scores = plan.roles.scores
    return Sums.of(
        plan,
        states[where, "", TOTALS],
        [MeanState.loaded(states[where, score, GROUPS]) for score in scores],
        {model: PairedState.loaded(states[where, scores[model], PAIRS]) for model in plan.rivals},
    )


def _fill(pools: PoolSet, plan: Plan, states: Mapping[Place, Parts], where: Rows) -> None:
    kept = kept_by(plan)
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
    header: Mapping[str, Any], seen: Sequence[Seen], plan: Plan, tally: Tally
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
        found["slices_left_out"] = slices_left_out(plan, tally)
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
