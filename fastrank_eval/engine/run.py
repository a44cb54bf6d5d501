"""The body of evaluate(): arguments checked, rows read and added up, as yet without a result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

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
from fastrank_eval._lib.progress import Progress, reporting_to
from fastrank_eval._lib.version import __version__
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
from fastrank_eval.engine.scattered import choose_strategy
from fastrank_eval.engine.summary import slices_left_out, summary_rows
from fastrank_eval.engine.totals import Totals
from fastrank_eval.groups.boundaries import Keys
from fastrank_eval.groups.ties import TIES
from fastrank_eval.io import open_source, refuse_text, require_columns
from fastrank_eval.io.columns import Roles
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
    """What a run came to.

    Parameters
    ----------
    plan : Plan
    tally : Tally
    keys : list of tuple of pyarrow.Array
        Keys of consecutive groups, if they were kept.
    values : list of GroupValues
        Their results, in the same order.
    schema : pyarrow.Schema
        Of the source.
    lines : list of MeasureValue
    meta : Meta
    asked : mapping of str to str
        What measures were called that a profile gave other options.
    """

    plan: Plan
    totals: Totals
    keys: list[Keys]
    values: list[GroupValues]
    schema: pa.Schema
    lines: list[MeasureValue]
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
    """Check the arguments, read the rows once and add them up; see `evaluate` and `compare`."""
    started, compiled = perf_counter(), compilations()
    chosen = None if profile is None else profile_of(profile)
    given: dict[str, Any] = {
        "ties": ties,
        "undefined": undefined,
        "groups": groups,
        "unretrieved": unretrieved,
        "unjudged": unjudged,
        "weight_rows": weight_rows,
        "score_type": score_type,
    }
    for name, value in given.items():
        if value is None:
            given[name] = DEFAULTS[name] if chosen is None else chosen.choice(name)
    policies = undefined_policies(given["undefined"])
    given["undefined"] = undefined_text(policies)
    given["order"] = order
    for name, value in given.items():
        if name != "undefined":
            check_choice(name, value, _CHOICES[name])
    if presorted:
        if order not in ("auto", "sorted"):
            raise ArgumentError(f"presorted=True contradicts order={order!r}; give one of them.")
        order = "sorted"
    requested = requested_measures(measures)
    rate = sampling_rate_of(sampling_rate)
    measured = measures_in_force(requested, chosen, rate)
    wanted = tuple(dict.fromkeys(measured))
    roles = Roles(
        group=column_names("group", group),
        label=column_name("label", label),
        scores=column_names("score", score),
        weight=None if weight is None else column_name("weight", weight),
        item=None if item is None else column_name("item", item),
        group_weights=tuple(
            dict.fromkeys(
                m.weight for m in wanted if not m.pooled and m.weight not in GROUP_WEIGHTS
            )
        ),
        fields=_fields(wanted),
        unretrieved=given["unretrieved"],
        unjudged=given["unjudged"],
        single_precision=given["score_type"] == "float32",
        judgments=any(m.needs_judgments for m in wanted),
        score_kind=max(
            # Thresholds are read as numbers.
            ["number" if keep_scores else "order", *(m.scores for m in wanted)],
            key=SCORE_KINDS.index,
        ),
        subtopics=_subtopics(subtopics, wanted),
    )
    _check_measures(wanted, given["ties"], roles, given["weight_rows"])
    plan = Plan(
        roles=roles,
        measures=wanted,
        ties=given["ties"],
        undefined=policies,
        groups=given["groups"],
        presorted=order == "sorted",
        per_group=per_group,
        threads=at_least_one("threads", threads, processors()),
        batch_rows=at_least_one("batch_rows", batch_rows, BATCH_ROWS),
        confidence=check_fraction("confidence", confidence),
        baseline=_baseline(baseline, roles.scores),
        min_groups=at_least_one("min_groups", min_groups, 1),
    )
    allowed = memory_budget(memory, plan.threads, bool(plan.pools), spill_dir)
    by = tuple(by) if is_list_like(by) else by  # the truth of an array is ambiguous
    valued: tuple[str, ...] = ()
    if by:
        from fastrank_eval.slicing.slicer import open_slicing, valued_columns

        valued = valued_columns(by)
    apart = dict.fromkeys((*(field.name for field in roles.fields), *valued))
    opened = open_source(
        source,
        format=format,
        where=where,
        text=roles.id_columns(),
        categories=tuple(filter(is_unicode, apart)) or None,  # others are no columns: see below
        allow_unfinished=allow_unfinished,
    )
    most = at_least_one("limit", limit, None, math.inf)
    if by:
        slicing = open_slicing(by, opened, most)
        plan = replace(plan, slicing=slicing)
        roles = replace(roles, fields=(*roles.fields, *slicing.columns))
        plan = replace(plan, roles=roles)
    parts = roles.by_column()
    for name, part in parts.items():
        hint = near(name, GROUP_WEIGHTS) if part == "group weight" else ""
        if hint and name not in opened.schema.names:
            raise ColumnError(
                f"group weight '{name}' is no column and none of {', '.join(GROUP_WEIGHTS)}.{hint}"
            )
        require_columns(opened.schema, [name], role=part)
    for name, part in roles.number_columns().items():
        refuse_text(opened, name, part)
    if subtopics is not None:
        require_columns(opened.schema, [subtopics], role="subtopics")
    types = (opened.schema.field(name).type for name in roles.scores)
    roles = replace(roles, epsilons=tuple(epsilon_of(kind, roles) for kind in types))
    plan = replace(plan, roles=roles)
    reading = RowReader(opened, tuple(parts), most)
    if batch_rows is None:
        plan = replace(plan, batch_rows=batch_rows_of(reading.rows, plan.threads))
    with reporting_to(progress):
        try:
            totals, keys, values, way = choose_strategy(reading, plan, order, allowed)
        except (RowError, OrderError) as fault:
            raise complete_error(
                fault,
                opened,
                lambda columns: RowReader(opened, columns, reading.limit, _COUNTING).batches(),
            ) from None
    conventions: dict[str, object] = {**given, "weight": weight, **way}
    if subtopics is not None:
        conventions["subtopics"] = subtopics
    if chosen is not None:
        conventions["profile"] = chosen.name
    conventions["sampling_rate"] = rate
    conventions["confidence"] = plan.confidence
    conventions["measures"] = {str(m): m.options_in_force() for m in wanted}
    if plan.slicing is not None:
        conventions["by"] = [str(slicing.spec) for slicing in plan.slicing.slices]
        conventions["min_groups"] = plan.min_groups
        conventions["slices_left_out"] = slices_left_out(plan, totals)
    if where is not None:
        conventions["where"] = str(where)
    if limit is not None:
        conventions["limit"] = limit
    lines = summary_rows(plan, totals)
    renamed = requested_names(requested, measured)
    meta = Meta(
        __version__,
        totals.whole.rows(),
        totals.whole.groups(),
        conventions,
        perf_counter() - started,
        compilations() - compiled,
        renamed,
    )
    return Evaluation(plan, totals, keys, values, opened.schema, lines, meta, renamed)


def _baseline(given: str | None, scores: tuple[str, ...]) -> int | None:
    """Which of the models the others are compared with."""
    if given is None:
        return None
    name = column_name("baseline", given)
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


def _subtopics(given: str | None, wanted: tuple[Measure, ...]) -> str | None:
    """The column of subtopics, if a measure asks for it."""
    name = None if given is None else column_name("subtopics", given)
    asking = [str(m) for m in wanted if m.needs_subtopics]
    if asking and name is None:
        raise ArgumentError(
            f"{', '.join(asking)} must know which subtopics a row covers: name a column of lists "
            "of whole numbers, subtopics=... (--subtopics)."
        )
    return name if asking else None


def _fields(wanted: tuple[Measure, ...]) -> tuple[CategoricalEncoder, ...]:
    names = (name for m in wanted if isinstance(m, PooledMeasure) for name in m.columns_named())
    distinct = tuple(dict.fromkeys(names))
    if not distinct:
        return ()
    from fastrank_eval.io.keys import CategoricalEncoder

    return tuple(CategoricalEncoder(name) for name in distinct)


def _check_measures(wanted: tuple[Measure, ...], ties: str, roles: Roles, weight_rows: str) -> None:
    for m in wanted:
        refusal = m.refuses(ties)
        if refusal:
            raise ArgumentError(f"{refusal}.")
    if ties == "item" and roles.item is None:
        raise ArgumentError("ties='item' needs the column of item ids: item=...")
    unweighted = [str(m) for m in wanted if not m.uses_row_weights]
    if roles.weight is not None and unweighted and weight_rows == "refuse":
        raise ArgumentError(
            f"row weights ('{roles.weight}') have no meaning for measures of rank positions: "
            f"{', '.join(unweighted)}; leave them out, or pass weight_rows='ignore' to compute "
            "them without weights."
        )
