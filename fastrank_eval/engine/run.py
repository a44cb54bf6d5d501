"""Run an evaluation: check arguments, read rows and compute totals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.arguments import (
    CHOICES,
    at_least_one,
    check_choice,
    check_fraction,
    column_name,
    column_names,
    is_list_like,
    is_unicode,
    processors,
    typed,
)
from fastrank_eval._lib.errors import ArgumentError, ColumnError, OrderError, near
from fastrank_eval._lib.jit import compilations
from fastrank_eval._lib.memory import memory_budget
from fastrank_eval._lib.threads import Progress, reporting_to
from fastrank_eval.engine.conventions import (
    DEFAULTS,
    measures_in_force,
    profile_of,
    requested_names,
    undefined_policies,
    undefined_text,
)
from fastrank_eval.engine.group_values import GroupValues
from fastrank_eval.engine.plan import BATCH_ROWS, Plan, batch_rows_of
from fastrank_eval.engine.records import MeasureValue, Meta
from fastrank_eval.engine.scattered import evaluate_rows
from fastrank_eval.engine.summary import slices_left_out, summary_rows
from fastrank_eval.engine.totals import Totals
from fastrank_eval.groups.boundaries import Keys
from fastrank_eval.groups.ties import TIES
from fastrank_eval.io import open_source, refuse_text, require_columns
from fastrank_eval.io.columns import Roles
from fastrank_eval.io.keys import CategoricalEncoder
from fastrank_eval.io.numbers import RowError, complete_error
from fastrank_eval.io.reader import RowReader
from fastrank_eval.io.validate import epsilon_of
from fastrank_eval.measures import Measure
from fastrank_eval.measures.base import GROUP_WEIGHTS, SCORE_KINDS
from fastrank_eval.measures.likelihood import sampling_rate_of
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.measures.pooled import PooledMeasure

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from fastrank_eval.io.keys import CategoricalEncoder
    from fastrank_eval.slicing.spec import SliceSpec

_COUNTING = "counting bad rows"

_CHOICES = {"ties": TIES, **CHOICES}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The totals, values and metadata of a run.

    Parameters
    ----------
    plan : Plan
    totals : Totals
    keys : list of tuple of pyarrow.Array
        Keys of consecutive groups; empty unless ``plan.per_group``.
    values : list of GroupValues
        Their results, in the same order.
    schema : pyarrow.Schema
        Of the source.
    summary : list of MeasureValue
    meta : Meta
    requested : mapping of str to str
        By requested name the canonical text of the computed measure, where a profile set other
        options.
    """

    plan: Plan
    totals: Totals
    keys: list[Keys]
    values: list[GroupValues]
    schema: pa.Schema
    summary: list[MeasureValue]
    meta: Meta
    requested: Mapping[str, str]


@typed
def run(
    source: object,
    *,
    group: str | Sequence[str],
    label: str,
    score: str | Sequence[str],
    measures: str | Measure | Sequence[str | Measure],
    weight: str | None = None,
    item: str | None = None,
    subtopics: str | None = None,
    profile: str | None = None,
    ties: str | None = None,
    undefined: str | Mapping[str, str] | None = None,
    groups: str | None = None,
    unretrieved: str | None = None,
    unjudged: str | None = None,
    weight_rows: str | None = None,
    score_type: str | None = None,
    sampling_rate: float | None = None,
    confidence: float = 0.95,
    order: str = "auto",
    presorted: bool = False,
    threads: int | None = None,
    per_group: bool = True,
    keep_scores: bool = False,
    where: str | pc.Expression | None = None,
    limit: int | None = None,
    batch_rows: int | None = None,
    memory: str | int | None = None,
    spill_dir: str | None = None,
    format: str | None = None,  # noqa: A002 - what the option is called everywhere
    allow_unfinished: bool = False,
    progress: Callable[[Progress], object] | None = None,
    baseline: str | None = None,
    by: str | SliceSpec | Sequence[str | SliceSpec] | None = (),
    min_groups: int = 1,
) -> Evaluation:
    """Check arguments, read the rows once, compute totals; see `evaluate`."""
    started, compiled = perf_counter(), compilations()
    tool_profile = None if profile is None else profile_of(profile)
    choices: dict[str, Any] = {
        "ties": ties,
        "undefined": undefined,
        "groups": groups,
        "unretrieved": unretrieved,
        "unjudged": unjudged,
        "weight_rows": weight_rows,
        "score_type": score_type,
    }
    for name, value in choices.items():
        if value is None:
            choices[name] = DEFAULTS[name] if tool_profile is None else tool_profile.choice(name)
    policies = undefined_policies(choices["undefined"])
    choices["undefined"] = undefined_text(policies)
    choices["order"] = order
    for name, value in choices.items():
        if name != "undefined":
            check_choice(name, value, _CHOICES[name])
    if presorted:
        if order not in ("auto", "sorted"):
            raise ArgumentError(f"presorted=True contradicts order={order!r}; give one of them.")
        order = "sorted"
    requested = requested_measures(measures)
    rate = sampling_rate_of(sampling_rate)
    computed = measures_in_force(requested, tool_profile, rate)
    distinct = tuple(dict.fromkeys(computed))
    roles = Roles(
        group=column_names("group", group),
        label=column_name("label", label),
        scores=column_names("score", score),
        weight=None if weight is None else column_name("weight", weight),
        item=None if item is None else column_name("item", item),
        group_weights=tuple(
            dict.fromkeys(
                m.weight for m in distinct if not m.pooled and m.weight not in GROUP_WEIGHTS
            )
        ),
        fields=_fields(distinct),
        unretrieved=choices["unretrieved"],
        unjudged=choices["unjudged"],
        single_precision=choices["score_type"] == "float32",
        judgments=any(m.needs_judgments for m in distinct),
        score_kind=max(
            # Curves give thresholds, which are numbers.
            ["number" if keep_scores else "order", *(m.scores for m in distinct)],
            key=SCORE_KINDS.index,
        ),
        subtopics=_subtopics(subtopics, distinct),
    )
    _check_measures(distinct, choices["ties"], roles, choices["weight_rows"])
    plan = Plan(
        roles=roles,
        measures=distinct,
        ties=choices["ties"],
        undefined=policies,
        groups=choices["groups"],
        presorted=order == "sorted",
        per_group=per_group,
        threads=at_least_one("threads", threads, processors()),
        batch_rows=at_least_one("batch_rows", batch_rows, BATCH_ROWS),
        confidence=check_fraction("confidence", confidence),
        baseline=_baseline(baseline, roles.scores),
        min_groups=at_least_one("min_groups", min_groups, 1),
    )
    allowed = memory_budget(memory, plan.threads, bool(plan.row_states), spill_dir)
    by = tuple(by) if is_list_like(by) else by  # the truth of an array is ambiguous
    by_value: tuple[str, ...] = ()
    if by:
        from fastrank_eval.slicing.slicer import open_slicings, valued_columns

        by_value = valued_columns(by)
    categories = dict.fromkeys((*(field.name for field in roles.fields), *by_value))
    opened = open_source(
        source,
        format=format,
        where=where,
        text=roles.id_columns(),
        categories=tuple(filter(is_unicode, categories)) or None,  # others are refused below
        allow_unfinished=allow_unfinished,
    )
    row_limit = at_least_one("limit", limit, None, math.inf)
    if by:
        slicings = open_slicings(by, opened, row_limit)
        plan = replace(plan, slicings=slicings)
        roles = replace(roles, fields=(*roles.fields, *slicings.columns))
        plan = replace(plan, roles=roles)
    role_names = roles.by_column()
    for name, role in role_names.items():
        hint = near(name, GROUP_WEIGHTS) if role == "group weight" else ""
        if hint and name not in opened.schema.names:
            raise ColumnError(
                f"group weight '{name}' is no column and none of {', '.join(GROUP_WEIGHTS)}.{hint}"
            )
        require_columns(opened.schema, [name], role=role)
    for name, role in roles.number_columns().items():
        refuse_text(opened, name, role)
    if subtopics is not None:
        require_columns(opened.schema, [subtopics], role="subtopics")
    types = (opened.schema.field(name).type for name in roles.scores)
    roles = replace(roles, epsilons=tuple(epsilon_of(kind, roles) for kind in types))
    plan = replace(plan, roles=roles)
    reading = RowReader(opened, tuple(role_names), row_limit)
    if batch_rows is None:
        plan = replace(plan, batch_rows=batch_rows_of(reading.rows, plan.threads))
    with reporting_to(progress):
        try:
            totals, keys, values, strategy = evaluate_rows(reading, plan, order, allowed)
        except (RowError, OrderError) as error:
            raise complete_error(
                error,
                opened,
                lambda columns: RowReader(opened, columns, reading.limit, _COUNTING).batches(),
            ) from None
    conventions: dict[str, object] = {**choices, "weight": weight, **strategy}
    if subtopics is not None:
        conventions["subtopics"] = subtopics
    if tool_profile is not None:
        conventions["profile"] = tool_profile.name
    conventions["sampling_rate"] = rate
    conventions["confidence"] = plan.confidence
    conventions["measures"] = {str(m): m.options_in_force() for m in distinct}
    if plan.slicings is not None:
        conventions["by"] = [str(slicing.spec) for slicing in plan.slicings.encoders]
        conventions["min_groups"] = plan.min_groups
        conventions["slices_left_out"] = slices_left_out(plan, totals)
    if where is not None:
        conventions["where"] = str(where)
    if limit is not None:
        conventions["limit"] = limit
    summary = summary_rows(plan, totals)
    names = requested_names(requested, computed)
    meta = Meta(
        __version__,
        totals.overall.rows(),
        totals.overall.groups(),
        conventions,
        perf_counter() - started,
        compilations() - compiled,
        names,
    )
    return Evaluation(plan, totals, keys, values, opened.schema, summary, meta, names)


def _baseline(baseline: str | None, scores: tuple[str, ...]) -> int | None:
    """Find the position of the model that the others are compared with."""
    if baseline is None:
        return None
    name = column_name("baseline", baseline)
    if name not in scores:
        raise ArgumentError(
            f"baseline={name!r} is none of the score columns {', '.join(map(repr, scores))}; give "
            f"one of them.{near(name, scores)}"
        )
    if len(scores) < 2:
        raise ArgumentError(
            f"there is no model to compare with the baseline {name!r}; give two score columns or "
            "more."
        )
    return scores.index(name)


def _subtopics(subtopics: str | None, measures: tuple[Measure, ...]) -> str | None:
    """Return the column of subtopics, if a measure needs it."""
    name = None if subtopics is None else column_name("subtopics", subtopics)
    users = [str(m) for m in measures if m.needs_subtopics]
    if users and name is None:
        raise ArgumentError(
            f"{', '.join(users)} must know which subtopics a row covers: name a column of lists "
            "of whole numbers, subtopics=... (--subtopics)."
        )
    return name if users else None


def _fields(measures: tuple[Measure, ...]) -> tuple[CategoricalEncoder, ...]:
    names = (name for m in measures if isinstance(m, PooledMeasure) for name in m.columns_named())
    distinct = tuple(dict.fromkeys(names))
    if not distinct:
        return ()
    return tuple(CategoricalEncoder(name) for name in distinct)


def _check_measures(
    measures: tuple[Measure, ...], ties: str, roles: Roles, weight_rows: str
) -> None:
    for m in measures:
        refusal = m.refuses(ties)
        if refusal:
            raise ArgumentError(f"{refusal}.")
    if ties == "item" and roles.item is None:
        raise ArgumentError("ties='item' needs the column of item ids: item=...")
    unweighted = [str(m) for m in measures if not m.uses_row_weights]
    if roles.weight is not None and unweighted and weight_rows == "refuse":
        raise ArgumentError(
            f"row weights ('{roles.weight}') have no meaning for measures of rank positions: "
            f"{', '.join(unweighted)}; leave them out, or pass weight_rows='ignore' to compute "
            "them without weights."
        )
