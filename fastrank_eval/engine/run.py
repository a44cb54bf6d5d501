"""Run an evaluation: check arguments, read rows and compute totals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, fields, replace
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

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
    require_baseline,
    taking,
)
from fastrank_eval._lib.arrow import is_wide_integer
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, ColumnError, near
from fastrank_eval._lib.jit import compilations
from fastrank_eval._lib.kernel_store import where_stored
from fastrank_eval._lib.memory import Budget, memory_budget
from fastrank_eval._lib.threads import Progress, processors, reporting_to
from fastrank_eval.engine import DEFAULT_MEASURES
from fastrank_eval.engine.conventions import (
    DEFAULTS,
    measures_in_force,
    profile_of,
    requested_names,
)
from fastrank_eval.engine.evaluator import PlanTotals, check_shared
from fastrank_eval.engine.plan import (
    BATCH_ROWS,
    SLICE_ROWS,
    GroupValues,
    Plan,
    batch_rows_of,
    slice_rows_of,
    subtopics_used,
    undefined_policies,
    undefined_text,
)
from fastrank_eval.engine.records import (
    MeasureValue,
    Meta,
    plain_counts,
    refuse_if_none_left,
)
from fastrank_eval.engine.strategy import EvaluatedRows, evaluate_rows
from fastrank_eval.engine.summary import largest_group, slices_left_out, summary_rows
from fastrank_eval.engine.totals import Totals
from fastrank_eval.groups.edges import Keys
from fastrank_eval.groups.ties import TIES
from fastrank_eval.io.columns import NULL_GROUP, Roles, epsilon_of, ordered_integers
from fastrank_eval.io.computed import expressions_of, refuse_computed, with_computed
from fastrank_eval.io.keys import CategoricalEncoder
from fastrank_eval.io.reader import RowReader, open_source
from fastrank_eval.io.source import Source, refuse_text, require_columns
from fastrank_eval.io.streams import closing_readers
from fastrank_eval.measures import Measure
from fastrank_eval.measures.base import SCORE_KINDS
from fastrank_eval.measures.likelihood import sampling_rate_of
from fastrank_eval.measures.options import GROUP_WEIGHTS
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.measures.pooled import PooledMeasure
from fastrank_eval.slicing.spec import requested_slicing

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from fastrank_eval.slicing.slicer import Slicings
    from fastrank_eval.slicing.spec import SliceSpec

_CHOICES = {"ties": TIES, **CHOICES}


@dataclass(frozen=True)
class Request:
    """The arguments of `evaluate`, which describes them.

    `run` leaves `keep_state`, `keep_groups` and lists of labels to its caller.
    """

    source: object
    _: KW_ONLY
    group: str | Sequence[str] | None = None
    label: str | Sequence[str]
    score: str | Sequence[str] | Mapping[str, str]
    measures: str | Measure | Sequence[str | Measure] | Mapping[str, Any] = DEFAULT_MEASURES
    weight: str | None = None
    item: str | None = None
    subtopics: str | None = None
    profile: str | None = None
    ties: str | None = None
    undefined: str | Mapping[str, str] | None = None
    groups: str | None = None
    unretrieved: str | None = None
    unjudged: str | None = None
    nan: str = "error"
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
    *("label", "score", "weight", "unretrieved", "unjudged", "nan", "score_type", "where", "limit"),
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


@closing_readers()
def run_together(requests: Sequence[Request]) -> list[Evaluation]:
    """Compute the values of several requests over one reading of the rows.

    Every evaluation has the bits of a run of its own. Its `Meta` has the seconds of all together.

    Parameters
    ----------
    requests : sequence of Request
        At least one. They have the same values of all arguments in `evaluator.SHARED`, and may
        differ in all others: label, score, measures, slices, policies ...

    Returns
    -------
    list of Evaluation
        In order of the requests.

    Raises
    ------
    FastRankEvalError
        As `evaluate` does, for the first request with an error.
    """
    started, compiled = perf_counter(), compilations.count
    tasks = prepare(requests)
    rows = read_rows(tasks)
    pairs = [*zip(tasks, rows.plans, strict=True)]
    summaries = [summary_rows(task.plan, plan_totals.totals) for task, plan_totals in pairs]
    conventions = [_conventions(*pair, rows) for pair in pairs]
    new_kernels = compilations.count - compiled
    seconds, stored = perf_counter() - started, where_stored() if new_kernels else ""
    evaluations = []
    for task, plan_totals, summary, of_plan in zip(
        tasks, rows.plans, summaries, conventions, strict=True
    ):
        totals = plan_totals.totals
        counts = totals.overall.rows(), totals.overall.groups()
        meta = Meta(__version__, *counts, of_plan, seconds, new_kernels, task.names, stored)
        shown = task.source.schema, summary, meta, task.names
        keys, values = plan_totals.keys, plan_totals.values
        evaluations.append(Evaluation(task.plan, totals, keys, values, *shown))
    return evaluations


def evaluate_request(request: Request) -> Evaluation:
    """Read the rows of a request once, and compute its values."""
    return run_together([request])[0]


@taking(Request)
def run(request: Request) -> Evaluation:
    """Check arguments, read the rows once, compute totals; see `evaluate`."""
    return evaluate_request(request)


@taking(Request)
@closing_readers()
def totals_of(request: Request) -> tuple[Plan, PlanTotals]:
    """Check arguments and read the rows once, without values of measures."""
    (task,) = prepare([request])
    (plan_totals,) = read_rows([task]).plans
    rows = plan_totals.totals.overall.rows()
    refuse_if_none_left(plain_counts(plan_totals.left_out), rows)
    return task.plan, plan_totals


def read_rows(tasks: Sequence[Task]) -> EvaluatedRows:
    """Read the rows of tasks that were prepared together."""
    request, plans, reader = tasks[0].request, [task.plan for task in tasks], tasks[0].reader

    def budget() -> Budget:
        row_states = any(plan.row_states for plan in plans)
        return memory_budget(request.memory, plans[0].threads, row_states, request.spill_dir)

    if request.memory is not None or request.spill_dir is not None:
        budget()  # raises if they are wrong, even if the run will not need them
    with reporting_to(request.progress), reader.completing_errors():
        return evaluate_rows(reader, plans, tasks[0].choices["order"], budget)


def prepare(requests: Sequence[Request]) -> list[Task]:
    """Check requests, open their source and plan one run."""
    check_shared(requests)
    first = requests[0]
    drafts = [_draft(request) for request in requests]
    limit = at_least_one("limit", first.limit, None, math.inf)
    source = _open(drafts, limit)
    slicings = _open_slicings(drafts, source, limit)
    plans = []
    for draft, of_plan in zip(drafts, slicings, strict=True):
        plan = draft.plan
        if of_plan is not None:
            fields = (*plan.roles.fields, *of_plan.columns)
            plan = replace(plan, slicings=of_plan, roles=replace(plan.roles, fields=fields))
        _check_columns(draft.request, plan.roles, source)
        kinds = [source.schema.field(name).type for name in plan.roles.scores]
        epsilons = tuple(epsilon_of(kind, plan.roles) for kind in kinds)
        integers = tuple(ordered_integers(kind, plan.roles) for kind in kinds)
        roles = replace(plan.roles, epsilons=epsilons, integers=integers)
        plans.append(replace(plan, roles=roles))
    if len(plans) > 1:
        plans = [_with_score_kind(plan, plans, source) for plan in plans]
    columns = dict.fromkeys(name for plan in plans for name in plan.roles.by_column())
    reader = RowReader(source, tuple(columns), limit)
    if first.batch_rows is None:
        few_copies, threads = all(plan.copies_few for plan in plans), plans[0].threads
        batch_rows = batch_rows_of(reader.rows, threads)
        slice_rows = slice_rows_of(reader.rows, threads, SLICE_ROWS if few_copies else BATCH_ROWS)
        plans = [replace(plan, batch_rows=batch_rows, slice_rows=slice_rows) for plan in plans]
    return [
        Task(draft.request, plan, source, reader, draft.choices, draft.names)
        for draft, plan in zip(drafts, plans, strict=True)
    ]


class _Draft(NamedTuple):
    """A request and its plan, before the source is open.

    Parameters
    ----------
    request : Request
    plan : Plan
        Without slicings and types of columns.
    by : str, SliceSpec or tuple of them, or None
    choices, names : dict of str to str
        As in `Task`.
    """

    request: Request
    plan: Plan
    by: Any
    choices: dict[str, str]
    names: dict[str, str]


def _draft(request: Request) -> _Draft:
    choices = _choices(request)
    profile = None if request.profile is None else profile_of(request.profile)
    # `requests_by_label` has taken the measures of the label from a mapping.
    computed = requested = requested_measures(request.measures)  # type: ignore[arg-type]
    rate = _sampling_rate(request)
    if profile is not None or rate != 1:
        computed = measures_in_force(requested, profile, rate)
    by = tuple(request.by) if is_list_like(request.by) else request.by
    plan = _plan(request, choices, tuple(dict.fromkeys(computed)), by)
    names = {} if computed is requested else requested_names(requested, computed)
    return _Draft(request, plan, by, choices, names)


def _open_slicings(
    drafts: Sequence[_Draft], source: Source, limit: int | None
) -> list[Slicings | None]:
    """Open the slicings of each request; each column is encoded once."""
    if not any(draft.by for draft in drafts):
        return [None for _ in drafts]
    from fastrank_eval.slicing.slicer import open_slicings

    specs = [requested_slicing(draft.by) if draft.by else () for draft in drafts]
    every = open_slicings(list(chain.from_iterable(specs)), source, limit)
    return [every.select(of_plan) if of_plan else None for of_plan in specs]


def _with_score_kind(plan: Plan, plans: Sequence[Plan], source: Source) -> Plan:
    """Read scores as a plan does that has them too, so that plans share them."""
    names, policy = set(plan.roles.scores), plan.roles.unretrieved
    alike = [one.roles for one in plans if one.roles.unretrieved == policy]
    kinds = [roles.score_kind for roles in alike if names.issubset(roles.scores)]
    kind = max(kinds, key=SCORE_KINDS.index)
    wide = any(is_wide_integer(source.schema.field(name).type) for name in names)
    if wide or kind == plan.roles.score_kind:  # doubles of wide integers depend on the kind
        return plan
    return replace(plan, roles=replace(plan.roles, score_kind=kind))


def _sampling_rate(request: Request) -> float:
    return 1 if request.sampling_rate is None else sampling_rate_of(request.sampling_rate)


def _choices(request: Request) -> dict[str, str]:
    """Choose each convention: the caller's, the profile's or the default."""
    profile = None if request.profile is None else profile_of(request.profile)
    check_choice("nan", request.nan, CHOICES["nan"])
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
        nan=request.nan,
        single_precision=choices["score_type"] == "float32",
        judgments=any(m.needs_judgments for m in measures),
        score_kind=max(
            # Curves give thresholds, which are numbers.
            ["number" if request.keep_scores else "order", *(m.scores for m in measures)],
            key=SCORE_KINDS.index,
        ),
        subtopics=subtopics_used(request.subtopics, measures),
        expressions=expressions_of(request.score) if isinstance(request.score, Mapping) else {},
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


def _open(drafts: Sequence[_Draft], limit: int | None) -> Source:
    """Open the source of requests."""
    request = drafts[0].request
    categories: dict[str, None] = {}
    text: dict[str, None] = {}
    for draft in drafts:
        roles = draft.plan.roles
        categories |= dict.fromkeys(field.name for field in roles.fields)
        text |= dict.fromkeys(roles.id_columns())
        if draft.by:
            from fastrank_eval.slicing.slicer import valued_columns

            categories |= dict.fromkeys(valued_columns(draft.by))
    source = open_source(
        request.source,
        format=request.format,
        where=request.where,
        text=tuple(text) or None,
        categories=tuple(filter(is_unicode, categories)) or None,  # others are refused below
        allow_unfinished=request.allow_unfinished,
    )
    expressions = [draft.plan.roles.expressions for draft in drafts]
    source = with_computed(source, *expressions) if any(expressions) else source
    check_choice("null_groups", request.null_groups, CHOICES["null_groups"])
    if request.null_groups == "error" or request.group is None:
        return source
    return source.without_nulls(column_names("group", request.group), limit)


def _check_columns(request: Request, roles: Roles, source: Source) -> None:
    """Raise if the source lacks a column, or has text for numbers."""
    if roles.expressions:
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


def _conventions(task: Task, plan_totals: PlanTotals, rows: EvaluatedRows) -> dict[str, object]:
    """List every convention of a run, by name."""
    request, plan = task.request, task.plan
    conventions: dict[str, object] = {
        **task.choices,
        **({"nan": request.nan} if request.nan != "error" else {}),
        "weight": request.weight,
        **({"score": plan.roles.expressions} if plan.roles.expressions else {}),
        **(rows.strategy if plan.grouped else {"order": "any"}),
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
        conventions["slices_left_out"] = slices_left_out(plan, plan_totals.totals)
    if request.where is not None:
        conventions["where"] = str(request.where)
    if request.limit is not None:
        conventions["limit"] = request.limit
    conventions |= largest_group(plan_totals.totals, task.source.schema)
    left_out = plan_totals.left_out
    if task.source.rows_left_out is not None:
        conventions["null_groups"] = "drop"
        left_out[NULL_GROUP, ""] = task.source.rows_left_out
    return conventions | plain_counts(left_out)


def _baseline(baseline: str | None, scores: tuple[str, ...]) -> int | None:
    """Find the position of the model that the others are compared with."""
    if baseline is None:
        return None
    name = column_name("baseline", baseline)
    require_baseline(name, scores)
    if len(scores) < 2:
        raise ArgumentError(
            f"score: must name a model to compare with the baseline, got only {name!r}; name two "
            "score columns or more."
        )
    return scores.index(name)


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
