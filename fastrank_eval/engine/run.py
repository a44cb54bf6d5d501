"""Run an evaluation: check arguments, read rows and compute totals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, fields, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
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
    taking,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, ColumnError, OrderError, near
from fastrank_eval._lib.jit import compilations
from fastrank_eval._lib.kernel_store import where_stored
from fastrank_eval._lib.memory import Budget, memory_budget
from fastrank_eval._lib.threads import Progress, reporting_to
from fastrank_eval.engine import DEFAULT_MEASURES
from fastrank_eval.engine.chunk_eval import evaluate_stream
from fastrank_eval.engine.conventions import (
    DEFAULTS,
    measures_in_force,
    profile_of,
    requested_names,
)
from fastrank_eval.engine.plan import (
    BATCH_ROWS,
    SLICE_ROWS,
    GroupValues,
    Plan,
    batch_rows_of,
    slice_rows_of,
    undefined_policies,
    undefined_text,
)
from fastrank_eval.engine.records import MeasureValue, Meta
from fastrank_eval.engine.summary import slices_left_out, summary_rows
from fastrank_eval.engine.totals import Totals
from fastrank_eval.groups.edges import Keys, KeyWatch, ReturningKey, group_starts, key_text, keys_at
from fastrank_eval.groups.ties import TIES
from fastrank_eval.io.columns import Roles
from fastrank_eval.io.computed import expressions_of, refuse_computed, with_computed
from fastrank_eval.io.keys import CategoricalEncoder, key_integers
from fastrank_eval.io.reader import RowReader, open_source
from fastrank_eval.io.source import Source, refuse_text, require_columns
from fastrank_eval.io.validate import epsilon_of, keys_of
from fastrank_eval.measures import Measure
from fastrank_eval.measures.base import SCORE_KINDS
from fastrank_eval.measures.likelihood import sampling_rate_of
from fastrank_eval.measures.options import GROUP_WEIGHTS
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.measures.pooled import PooledMeasure
from fastrank_eval.slicing.spec import requested_slicing

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from fastrank_eval.slicing.spec import SliceSpec

_CHOICES = {"ties": TIES, **CHOICES}


@dataclass(frozen=True)
class Request:
    """The arguments of `evaluate`, which describes them.

    `run` leaves `keep_state` and `keep_groups` to its caller.
    """

    source: object
    _: KW_ONLY
    group: str | Sequence[str] | None = None
    label: str
    score: str | Sequence[str] | Mapping[str, str]
    measures: str | Measure | Sequence[str | Measure] = DEFAULT_MEASURES
    weight: str | None = None
    item: str | None = None
    subtopics: str | None = None
    profile: str | None = None
    ties: str | None = None
    undefined: str | Mapping[str, str] | None = None
    groups: str | None = None
    unretrieved: str | None = None
    unjudged: str | None = None
    null_groups: str = "error"
    weight_rows: str | None = None
    score_type: str | None = None
    sampling_rate: float | None = None
    confidence: float = 0.95
    by: str | SliceSpec | Sequence[str | SliceSpec] | None = ()
    min_groups: int = 1
    order: str = "auto"
    presorted: bool = False
    threads: int | None = None
    per_group: bool | None = None
    keep_scores: bool = False
    keep_state: bool = False
    keep_groups: bool = False
    baseline: str | None = None
    where: str | pc.Expression | None = None
    limit: int | None = None
    batch_rows: int | None = None
    memory: str | int | None = None
    spill_dir: str | None = None
    format: str | None = None
    allow_unfinished: bool = False
    progress: Callable[[Progress], object] | None = None


#: Arguments that only `evaluate` itself takes.
OF_RESULT = ("keep_state", "keep_groups")
#: Arguments of functions that count rows, without groups or measures of their own.
OF_ROWS = (
    *("label", "score", "weight", "unretrieved", "unjudged", "score_type", "where", "limit"),
    *("threads", "format", "allow_unfinished", "progress"),
)
NOT_OF_ROWS = tuple(field.name for field in fields(Request) if field.name not in OF_ROWS)


@dataclass(frozen=True)
class Task:
    """A checked request: the source, the plan and the conventions.

    Parameters
    ----------
    request : Request
    plan : Plan
    source : Source
    reader : RowReader
    choices : dict of str to str
        Conventions by name, from the caller, a profile or the defaults.
    names : dict of str to str
        By requested name the canonical text of the computed measure, where a profile set other
        options.
    """

    request: Request
    plan: Plan
    source: Source
    reader: RowReader
    choices: dict[str, str]
    names: dict[str, str]


@dataclass(frozen=True)
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


def evaluate_request(request: Request) -> Evaluation:
    """Read the rows of a request once, and compute its values."""
    started, compiled = perf_counter(), compilations.count
    task = prepare(request)
    rows = read_rows(task)
    plan, totals = task.plan, rows.totals
    summary = summary_rows(plan, totals)
    new_kernels = compilations.count - compiled
    meta = Meta(
        __version__,
        totals.overall.rows(),
        totals.overall.groups(),
        _conventions(task, rows),
        perf_counter() - started,
        new_kernels,
        task.names,
        where_stored() if new_kernels else "",
    )
    return Evaluation(
        plan, totals, rows.keys, rows.values, task.source.schema, summary, meta, task.names
    )


@taking(Request)
def run(request: Request) -> Evaluation:
    """Check arguments, read the rows once, compute totals; see `evaluate`."""
    return evaluate_request(request)


@taking(Request)
def totals_of(request: Request) -> tuple[Plan, Totals]:
    """Check arguments and read the rows once, without values of measures."""
    task = prepare(request)
    return task.plan, read_rows(task).totals


def read_rows(task: Task) -> EvaluatedRows:
    """Read the rows of a task and compute their totals."""
    request, plan = task.request, task.plan

    def budget() -> Budget:
        return memory_budget(request.memory, plan.threads, bool(plan.row_states), request.spill_dir)

    if request.memory is not None or request.spill_dir is not None:
        budget()  # raises if they are wrong, even if the run will not need them
    with reporting_to(request.progress), task.reader.completing_errors():
        return evaluate_rows(task.reader, plan, task.choices["order"], budget)


def prepare(request: Request) -> Task:
    """Check a request, open its source and plan its run."""
    choices = _choices(request)
    profile = None if request.profile is None else profile_of(request.profile)
    computed = requested = requested_measures(request.measures)
    rate = _sampling_rate(request)
    if profile is not None or rate != 1:
        computed = measures_in_force(requested, profile, rate)
    by = tuple(request.by) if is_list_like(request.by) else request.by
    plan = _plan(request, choices, tuple(dict.fromkeys(computed)), by)
    source = _open(request, plan.roles, by)
    limit = at_least_one("limit", request.limit, None, math.inf)
    if by:
        from fastrank_eval.slicing.slicer import open_slicings

        slicings = open_slicings(by, source, limit)
        fields = (*plan.roles.fields, *slicings.columns)
        plan = replace(plan, slicings=slicings, roles=replace(plan.roles, fields=fields))
    _check_columns(request, plan.roles, source)
    kinds = (source.schema.field(name).type for name in plan.roles.scores)
    epsilons = tuple(epsilon_of(kind, plan.roles) for kind in kinds)
    plan = replace(plan, roles=replace(plan.roles, epsilons=epsilons))
    reader = RowReader(source, tuple(plan.roles.by_column()), limit)
    if request.batch_rows is None:
        sums_rows = any(measure.uses_groups for measure in plan.row_states.values())
        few_copies = plan.grouped and plan.skip_empty and not (sums_rows or plan.slicings)
        plan = replace(
            plan,
            batch_rows=batch_rows_of(reader.rows, plan.threads),
            slice_rows=slice_rows_of(
                reader.rows, plan.threads, SLICE_ROWS if few_copies else BATCH_ROWS
            ),
        )
    names = {} if computed is requested else requested_names(requested, computed)
    return Task(request, plan, source, reader, choices, names)


def _sampling_rate(request: Request) -> float:
    return 1 if request.sampling_rate is None else sampling_rate_of(request.sampling_rate)


def _choices(request: Request) -> dict[str, str]:
    """Choose each convention: the caller's, the profile's or the default."""
    profile = None if request.profile is None else profile_of(request.profile)
    choices = {}
    for name, default in DEFAULTS.items():
        value = getattr(request, name)
        if value is None:
            value = default if profile is None else profile.choice(name)
        choices[name] = value
    choices["undefined"] = undefined_text(undefined_policies(choices["undefined"]))
    choices["order"] = request.order
    for name, value in choices.items():
        if name != "undefined":
            check_choice(name, value, _CHOICES[name])
    if request.presorted:
        if request.order not in ("auto", "sorted"):
            raise ArgumentError(
                f"presorted=True contradicts order={request.order!r}; leave one of them out."
            )
        choices["order"] = "sorted"
    return choices


def _plan(
    request: Request, choices: Mapping[str, str], measures: tuple[Measure, ...], by: Any
) -> Plan:
    """Plan a run, without slicings and types of columns."""
    group = _group_columns(request, measures, choices["order"], by)
    roles = Roles(
        group=group,
        label=column_name("label", request.label),
        scores=column_names("score", request.score),
        weight=None if request.weight is None else column_name("weight", request.weight),
        item=None if request.item is None else column_name("item", request.item),
        group_weights=tuple(
            dict.fromkeys(
                m.weight for m in measures if not m.pooled and m.weight not in GROUP_WEIGHTS
            )
        ),
        fields=_fields(measures),
        unretrieved=choices["unretrieved"],
        unjudged=choices["unjudged"],
        single_precision=choices["score_type"] == "float32",
        judgments=any(m.needs_judgments for m in measures),
        score_kind=max(
            # Curves give thresholds, which are numbers.
            ["number" if request.keep_scores else "order", *(m.scores for m in measures)],
            key=SCORE_KINDS.index,
        ),
        subtopics=_subtopics(request.subtopics, measures),
        expressions=expressions_of(request.score),
    )
    _check_measures(measures, choices["ties"], roles, choices["weight_rows"])
    return Plan(
        roles=roles,
        measures=measures,
        ties=choices["ties"],
        undefined=undefined_policies(choices["undefined"]),
        groups=choices["groups"],
        presorted=choices["order"] == "sorted",
        per_group=bool(group) and request.per_group is not False,
        threads=at_least_one("threads", request.threads, processors()),
        batch_rows=at_least_one("batch_rows", request.batch_rows, BATCH_ROWS),
        confidence=check_fraction("confidence", request.confidence),
        baseline=_baseline(request.baseline, roles.scores),
        min_groups=at_least_one("min_groups", request.min_groups, 1),
    )


def _group_columns(
    request: Request, measures: tuple[Measure, ...], order: str, by: Any
) -> tuple[str, ...]:
    """Return the key columns; none if nothing of the request reads groups."""
    specs = requested_slicing(by) if by else ()
    needs = {
        **{str(m): m.needs_groups for m in measures},
        "per_group=True": request.per_group is True,
        "keep_groups=True": request.keep_groups,
        f"baseline={request.baseline!r}": request.baseline is not None,
        f"order={order!r}": order in ("sorted", "grouped"),
        f"min_groups={request.min_groups}": bool(by) and request.min_groups != 1,
        "a slicing by @rows or @positives": any(
            column.activity for spec in specs for column in spec.columns
        ),
    }
    names = [name for name, needed in needs.items() if needed]
    if request.group is not None:
        group = column_names("group", request.group)
        uses = request.keep_state or any(m.uses_groups for m in measures)
        return group if names or uses else ()
    if names:
        several = ", ".join(names[:7]) + f" and {len(names) - 7} more" * (len(names) > 7)
        raise ArgumentError(
            f"group: must name the key columns, got None; {several} "
            f"need{'s' * (len(names) == 1)} groups: pass group=... (--group), or leave "
            f"{'it' if len(names) == 1 else 'them'} out."
        )
    return ()


def _open(request: Request, roles: Roles, by: Any) -> Source:
    """Open the source of a request."""
    valued: tuple[str, ...] = ()
    if by:
        from fastrank_eval.slicing.slicer import valued_columns

        valued = valued_columns(by)
    categories = dict.fromkeys((*(field.name for field in roles.fields), *valued))
    source = open_source(
        request.source,
        format=request.format,
        where=request.where,
        text=roles.id_columns() or None,
        categories=tuple(filter(is_unicode, categories)) or None,  # others are refused below
        allow_unfinished=request.allow_unfinished,
    )
    source = with_computed(source, roles.expressions)
    check_choice("null_groups", request.null_groups, CHOICES["null_groups"])
    if request.null_groups == "error" or request.group is None:
        return source
    return source.without_nulls(column_names("group", request.group))


def _check_columns(request: Request, roles: Roles, source: Source) -> None:
    """Raise if the source lacks a column, or has text for numbers."""
    refuse_computed(roles)
    if request.group is not None:  # even if nothing reads it
        require_columns(source.schema, column_names("group", request.group), role="group")
    for name, role in roles.by_column().items():
        hint = near(name, GROUP_WEIGHTS) if role == "group weight" else ""
        if hint and name not in source.schema.names:
            raise ColumnError(
                f"group weight: must be a column or one of {', '.join(GROUP_WEIGHTS)}, got "
                f"{name!r}.{hint}"
            )
        require_columns(source.schema, [name], role=role)
    for name, role in roles.number_columns().items():
        refuse_text(source, name, role)
    if request.subtopics is not None:
        require_columns(source.schema, [request.subtopics], role="subtopics")


def _conventions(task: Task, rows: EvaluatedRows) -> dict[str, object]:
    """List every convention of a run, by name."""
    request, plan = task.request, task.plan
    conventions: dict[str, object] = {
        **task.choices,
        "weight": request.weight,
        **({"score": plan.roles.expressions} if plan.roles.expressions else {}),
        **rows.strategy,
    }
    for name in ("subtopics", "profile"):
        if getattr(request, name) is not None:
            conventions[name] = getattr(request, name)
    conventions["sampling_rate"] = _sampling_rate(request)
    conventions["confidence"] = plan.confidence
    conventions["measures"] = {str(m): m.options_in_force() for m in plan.measures}
    if plan.slicings is not None:
        conventions["by"] = [str(slicing.spec) for slicing in plan.slicings.encoders]
        conventions["min_groups"] = plan.min_groups
        conventions["slices_left_out"] = slices_left_out(plan, rows.totals)
    if request.where is not None:
        conventions["where"] = str(request.where)
    if request.limit is not None:
        conventions["limit"] = request.limit
    if task.source.rows_left_out is not None:
        conventions["null_groups"] = "drop"
        if request.limit is None:  # rows behind the limit are read too
            conventions["rows_without_group"] = task.source.rows_left_out
    return conventions


def _baseline(baseline: str | None, scores: tuple[str, ...]) -> int | None:
    """Find the position of the model that the others are compared with."""
    if baseline is None:
        return None
    name = column_name("baseline", baseline)
    if name not in scores:
        raise ArgumentError(
            f"baseline: must be one of the score columns {', '.join(map(repr, scores))}, got "
            f"{name!r}; name one of them.{near(name, scores)}"
        )
    if len(scores) < 2:
        raise ArgumentError(
            f"score: must name a model to compare with the baseline, got only {name!r}; name two "
            "score columns or more."
        )
    return scores.index(name)


def _subtopics(subtopics: str | None, measures: tuple[Measure, ...]) -> str | None:
    """Return the column of subtopics, if a measure needs it."""
    name = None if subtopics is None else column_name("subtopics", subtopics)
    users = [str(m) for m in measures if m.needs_subtopics]
    if users and name is None:
        raise ArgumentError(
            f"subtopics: must be a column of lists of whole numbers for {', '.join(users)}, got "
            "None; name it."
        )
    return name if users else None


def _fields(measures: tuple[Measure, ...]) -> tuple[CategoricalEncoder, ...]:
    names = (name for m in measures if isinstance(m, PooledMeasure) for name in m.columns_named())
    return tuple(CategoricalEncoder(name) for name in dict.fromkeys(names))


def _check_measures(
    measures: tuple[Measure, ...], ties: str, roles: Roles, weight_rows: str
) -> None:
    for m in measures:
        refusal = m.refuses(ties)
        if refusal:
            raise ArgumentError(f"{refusal}.")
    if ties == "item" and roles.item is None:
        raise ArgumentError(
            "item: must be the column of item ids for ties='item', got None; name it."
        )
    unweighted = [str(m) for m in measures if not m.uses_row_weights]
    if roles.weight is not None and unweighted and weight_rows == "refuse":
        raise ArgumentError(
            f"row weights ('{roles.weight}') have no meaning for measures of rank positions: "
            f"{', '.join(unweighted)}; leave them out, or pass weight_rows='ignore' to compute "
            "them without weights."
        )


#: Rows that are read first, to see whether keys are scattered. Most that are show it at once.
_PEEK, _FIRST_ROWS = 1 << 16, 1 << 10


@dataclass(frozen=True)
class EvaluatedRows:
    """The totals of all rows, and the results of groups.

    Parameters
    ----------
    totals : Totals
    keys : list of tuple of pyarrow.Array
        Keys of consecutive groups; empty unless ``plan.per_group``.
    values : list of GroupValues
        Their results, in the same order.
    strategy : dict of str to object
        The conventions ``"order"`` and ``"spilled"``.
    """

    totals: Totals
    keys: list[Keys]
    values: list[GroupValues]
    strategy: dict[str, object]


def evaluate_rows(
    reading: RowReader, plan: Plan, order: str, budget: Callable[[], Budget]
) -> EvaluatedRows:
    """Choose the strategy by `order` or by the keys, and evaluate.

    Parameters
    ----------
    reading : RowReader
    plan : Plan
    order : str
    budget : callable
        Computes the memory for rows, where they must be gathered.
    """
    if not plan.grouped:
        totals, _ = evaluate_stream(reading.unread_batches(plan.batch_rows), plan, None)
        return EvaluatedRows(totals, [], [], {"order": "any"})
    if order == "auto":
        first = reading.peek(_PEEK)
        if first is not None and _scattered(first, plan):
            order = "scattered"
    keep = not reading.rereadable
    while order != "scattered":
        try:
            totals, results = evaluate_stream(
                reading.unread_batches(plan.batch_rows, plan.slice_rows), plan, KeyWatch(keep)
            )
        except ReturningKey as returning:
            if returning.keys is None and reading.rereadable:
                keep = True
            elif order == "auto" and reading.rereadable:
                order = "scattered"
            else:
                raise _order_error(returning, plan, order) from None
        else:
            keys = [result.keys for result in results]
            values = [result.values for result in results if result.values is not None]
            order = "grouped" if order == "auto" else order
            return EvaluatedRows(totals, keys, values, {"order": order})

    from fastrank_eval.engine.scattered import ScatteredEvaluator, in_order_of_appearance

    scattered = ScatteredEvaluator(plan, budget())
    totals, results = scattered.evaluate(reading)
    strategy: dict[str, object] = {"order": order}
    if scattered.spilled:
        strategy["spilled"] = True
    return EvaluatedRows(totals, *in_order_of_appearance(results), strategy)


def _order_error(returning: ReturningKey, plan: Plan, order: str) -> OrderError:
    key = key_text(returning.keys, plan.roles.group, 0) if returning.keys is not None else "?"
    promise = "" if order == "auto" else f", but order={order!r} promises contiguous groups"
    return OrderError(
        f"the group {key} comes back after other groups{promise}; pass order='scattered' "
        "(--order scattered) to gather rows, or sort the input by group."
    )


def _scattered(batch: pa.RecordBatch, plan: Plan) -> bool:
    for rows in sorted({min(_FIRST_ROWS, batch.num_rows), batch.num_rows}):
        keys = keys_of(batch.slice(0, rows), plan.roles, 0)
        at_starts = keys_at(keys, np.concatenate([[0], group_starts(keys)]))
        integers = np.sort(key_integers(at_starts))  # np.unique() would hash them: 20 times slower
        if (integers[1:] == integers[:-1]).any():
            return True
    return False
