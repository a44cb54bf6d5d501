"""Run an evaluation: check arguments, read rows and compute totals.

Choose how to read rows: in order, or scattered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.arguments import is_unicode, require_baseline
from fastrank_eval._lib.arrow import is_wide_integer
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, ColumnError, OrderError, near
from fastrank_eval._lib.jit import compilations
from fastrank_eval._lib.kernel_store import where_stored
from fastrank_eval._lib.log import RUN
from fastrank_eval._lib.memory import Budget, memory_budget
from fastrank_eval._lib.threads import processors, reporting_to
from fastrank_eval.engine.conventions import requested_names, used_measures
from fastrank_eval.engine.evaluator import Evaluator, PlanTotals, check_shared, evaluate_stream
from fastrank_eval.engine.options import DEFAULTS, KEEP_GROUPS, KEEP_VALUES, Options
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
    largest_group,
    plain_counts,
    refuse_if_none_left,
    slices_left_out,
    summary_rows,
)
from fastrank_eval.engine.totals import Totals
from fastrank_eval.groups.scan import Keys, KeyWatch, ReturningKey, group_starts, key_text, keys_at
from fastrank_eval.io.columns import NULL_GROUP, Roles, epsilon_of, ordered_integers
from fastrank_eval.io.computed import expressions_of, refuse_computed, with_computed
from fastrank_eval.io.formats import closing_readers
from fastrank_eval.io.keys import CategoricalEncoder, key_integers
from fastrank_eval.io.reader import RowReader, open_rows
from fastrank_eval.io.source import Source, refuse_text, require_columns
from fastrank_eval.io.validate import keys_of
from fastrank_eval.measures import Measure
from fastrank_eval.measures.base import GROUP_WEIGHTS, SCORE_KINDS
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.measures.pooled import PooledMeasure
from fastrank_eval.slicing.spec import requested_slicing

if TYPE_CHECKING:
    from fastrank_eval.slicing.slicer import Slicings

#: Rows that are read first, to see whether keys are scattered. Most that are show it at once.
_PEEK, _FIRST_ROWS = 1 << 16, 1 << 10


class EvaluatedRows(NamedTuple):
    """What a run finds for each plan.

    Parameters
    ----------
    plans : list of PlanTotals
    strategy : dict of str to object
        The conventions ``"order"`` and ``"spilled"`` of the plans with groups.
    """

    plans: list[PlanTotals]
    strategy: dict[str, object]


def evaluate_rows(
    reading: RowReader, plans: Sequence[Plan], order: str, budget: Callable[[], Budget]
) -> EvaluatedRows:
    """Choose the strategy by `order` or by the keys, and evaluate.

    Parameters
    ----------
    reading : RowReader
    plans : sequence of Plan
        As `Evaluator` takes them.
    order : str
    budget : callable
        Computes the memory for rows, where they must be gathered.
    """
    started = perf_counter()
    rows = _evaluate(reading, Evaluator(plans), order, budget)
    if RUN.is_on(logging.INFO):
        totals, first = rows.plans[0].totals.overall, plans[0]
        RUN.info(
            "rows evaluated",
            rows=totals.rows(),
            groups=totals.groups() if first.grouped else None,
            models=len(first.roles.scores),
            measures=", ".join(map(str, first.measures)),
            plans=len(plans) if len(plans) > 1 else None,
            threads=first.threads,
            **rows.strategy,
            seconds=perf_counter() - started,
        )
    return rows


def _evaluate(
    reading: RowReader, evaluator: Evaluator, order: str, budget: Callable[[], Budget]
) -> EvaluatedRows:
    first = evaluator.first
    if not evaluator.grouped:
        evaluate_stream(reading.unread_batches(first.batch_rows), evaluator, None)
        return EvaluatedRows(evaluator.finish([]), {"order": "any"})
    if order == "auto":
        peeked = reading.peek(_PEEK)
        if peeked is not None and _scattered(peeked, first.roles.group):
            order = "scattered"
    keep = not reading.rereadable
    while order != "scattered":
        try:
            results = evaluate_stream(
                reading.unread_batches(first.batch_rows, first.slice_rows),
                evaluator,
                KeyWatch(keep),
            )
        except ReturningKey as returning:
            if returning.keys is None and reading.rereadable:
                keep = True
            elif order == "auto" and reading.rereadable:
                order = "scattered"
            else:
                raise _order_error(returning, first.roles.group, order) from None
            RUN.info("groups come back, so rows are read again", order=order)
            evaluator.clear()
        else:
            order = "grouped" if order == "auto" else order
            return EvaluatedRows(evaluator.finish(results), {"order": order})

    from fastrank_eval.engine.evaluator import ScatteredEvaluator

    scattered = ScatteredEvaluator(evaluator, budget())
    results = scattered.evaluate(reading)
    strategy: dict[str, object] = {"order": order}
    if scattered.spilled:
        strategy["spilled"] = True
    return EvaluatedRows(evaluator.finish(results), strategy)


def _order_error(returning: ReturningKey, group: Sequence[str], order: str) -> OrderError:
    key = key_text(returning.keys, group, 0) if returning.keys is not None else "?"
    promise = "" if order == "auto" else f", but order={order!r} promises contiguous groups"
    return OrderError(
        f"the group {key} comes back after other groups{promise}; pass order='scattered' "
        "(--order scattered) to gather rows, or sort the input by group."
    )


def _scattered(batch: pa.RecordBatch, group: Sequence[str]) -> bool:
    for rows in sorted({min(_FIRST_ROWS, batch.num_rows), batch.num_rows}):
        keys = keys_of(batch.slice(0, rows), group, 0)
        at_starts = keys_at(keys, np.concatenate([[0], group_starts(keys)]))
        integers = np.sort(key_integers(at_starts))  # np.unique() would hash them: 20 times slower
        if (integers[1:] == integers[:-1]).any():
            return True
    return False


@dataclass(frozen=True)
class Task:
    """A checked request: the source, the plan and the conventions.

    Parameters
    ----------
    options : Options
    plan : Plan
    source : Source
    reader : RowReader
    choices : dict of str to str
        Conventions by name, from the caller, a profile or the defaults.
    names : dict of str to str
        By requested name the canonical text of the computed measure, where a profile set other
        options.
    """

    options: Options
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
def run_together(requests: Sequence[Options]) -> list[Evaluation]:
    """Compute the values of several requests over one reading of the rows.

    Every evaluation has the bits of a run of its own. Its `Meta` has the seconds of all together.

    Parameters
    ----------
    requests : sequence of Options
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
    for task, plan_totals, summary, for_plan in zip(
        tasks, rows.plans, summaries, conventions, strict=True
    ):
        totals = plan_totals.totals
        counts = totals.overall.rows(), totals.overall.groups()
        meta = Meta(__version__, *counts, for_plan, seconds, new_kernels, task.names, stored)
        shown = task.source.schema, summary, meta, task.names
        keys, values = plan_totals.keys, plan_totals.values
        evaluations.append(Evaluation(task.plan, totals, keys, values, *shown))
    return evaluations


def run(source: object, *, batch_rows: int | None = None, **options: Any) -> Evaluation:
    """Check options, read the rows once, compute totals; see `evaluate`."""
    return run_together([Options.read(source, options).replace(batch_rows=batch_rows)])[0]


@closing_readers()
def totals_of(options: Options) -> tuple[Plan, PlanTotals]:
    """Read the rows once, without values of measures."""
    (task,) = prepare([options])
    (plan_totals,) = read_rows([task]).plans
    rows = plan_totals.totals.overall.rows()
    refuse_if_none_left(plain_counts(plan_totals.left_out), rows)
    return task.plan, plan_totals


def read_rows(tasks: Sequence[Task]) -> EvaluatedRows:
    """Read the rows of tasks that were prepared together."""
    options, plans, reader = tasks[0].options, [task.plan for task in tasks], tasks[0].reader

    def budget() -> Budget:
        pooled_states = any(plan.pooled_states for plan in plans)
        return memory_budget(options.memory, plans[0].threads, pooled_states)

    with reporting_to(options.progress), reader.completing_errors():
        return evaluate_rows(reader, plans, tasks[0].choices["order"], budget)


def prepare(requests: Sequence[Options]) -> list[Task]:
    """Check requests, open their source and plan one run."""
    check_shared(requests)
    first = requests[0]
    drafts = [_draft(options) for options in requests]
    source = _open(drafts)
    slicings = _open_slicings(drafts, source, first.limit)
    plans = []
    for draft, for_plan in zip(drafts, slicings, strict=True):
        plan = draft.plan
        if for_plan is not None:
            fields = (*plan.roles.fields, *for_plan.columns)
            plan = replace(plan, slicings=for_plan, roles=replace(plan.roles, fields=fields))
        _check_columns(draft.options, plan.roles, source)
        kinds = [source.schema.field(name).type for name in plan.roles.scores]
        epsilons = tuple(epsilon_of(kind, plan.roles) for kind in kinds)
        integers = tuple(ordered_integers(kind, plan.roles) for kind in kinds)
        roles = replace(plan.roles, epsilons=epsilons, integers=integers)
        plans.append(replace(plan, roles=roles))
    if len(plans) > 1:
        plans = [_with_score_kind(plan, plans, source) for plan in plans]
    columns = dict.fromkeys(name for plan in plans for name in plan.roles.by_column())
    reader = RowReader(source, tuple(columns), first.limit)
    if first.batch_rows is None:
        few_copies, threads = all(plan.copies_few for plan in plans), plans[0].threads
        batch_rows = batch_rows_of(reader.rows, threads)
        slice_rows = slice_rows_of(reader.rows, threads, SLICE_ROWS if few_copies else BATCH_ROWS)
        plans = [replace(plan, batch_rows=batch_rows, slice_rows=slice_rows) for plan in plans]
    return [
        Task(draft.options, plan, source, reader, draft.choices, draft.names)
        for draft, plan in zip(drafts, plans, strict=True)
    ]


class _Draft(NamedTuple):
    """A request and its plan, before the source is open.

    Parameters
    ----------
    options : Options
    plan : Plan
        Without slicings and types of columns.
    choices, names : dict of str to str
        As in `Task`.
    """

    options: Options
    plan: Plan
    choices: dict[str, str]
    names: dict[str, str]


def _draft(options: Options) -> _Draft:
    choices = _choices(options)
    computed = requested = requested_measures(options.measures)
    rate = options.sampling_rate
    if options.profile is not None or rate is not None:
        computed = used_measures(requested, options.profile, rate)
    plan = _plan(options, choices, tuple(dict.fromkeys(computed)))
    names = {} if computed is requested else requested_names(requested, computed)
    return _Draft(options, plan, choices, names)


def _open_slicings(
    drafts: Sequence[_Draft], source: Source, limit: int | None
) -> list[Slicings | None]:
    """Open the slicings of each request; each column is encoded once."""
    if not any(draft.options.by for draft in drafts):
        return [None for _ in drafts]
    from fastrank_eval.slicing.slicer import open_slicings

    specs = [requested_slicing(draft.options.by) if draft.options.by else () for draft in drafts]
    every = open_slicings(list(chain.from_iterable(specs)), source, limit)
    return [every.select(for_plan) if for_plan else None for for_plan in specs]


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


def _choices(options: Options) -> dict[str, str]:
    """Choose each convention: the caller's, the profile's or the default."""
    profile = options.profile
    choices = {}
    for name, default in DEFAULTS.items():
        value = getattr(options, name)
        if value is None:
            value = default if profile is None else profile.choices.get(name, default)
        choices[name] = value
    choices["undefined"] = undefined_text(undefined_policies(choices["undefined"]))
    choices["order"] = options.order
    return choices


def _plan(options: Options, choices: Mapping[str, str], measures: tuple[Measure, ...]) -> Plan:
    """Plan a run, without slicings and types of columns."""
    group = _group_columns(options, measures, choices["order"])
    roles = Roles(
        group=group,
        label=options.label,
        scores=tuple(options.score),
        weight=options.weight,
        item=options.item,
        group_weights=tuple(
            dict.fromkeys(
                m.weight for m in measures if not m.pooled and m.weight not in GROUP_WEIGHTS
            )
        ),
        fields=_fields(measures),
        unretrieved=choices["unretrieved"],
        unjudged=choices["unjudged"],
        nan=options.nan,
        single_precision=choices["score_type"] == "float32",
        judgments=any(m.needs_judgments for m in measures),
        score_kind=max(
            # Curves give thresholds, which are numbers.
            ["number" if options.keeps("scores") else "order", *(m.scores for m in measures)],
            key=SCORE_KINDS.index,
        ),
        subtopics=subtopics_used(options.subtopics, measures),
        expressions=expressions_of(options.score) if isinstance(options.score, Mapping) else {},
    )
    _check_measures(measures, choices["ties"], roles, choices["weight_rows"])
    return Plan(
        roles=roles,
        measures=measures,
        ties=choices["ties"],
        undefined=undefined_policies(choices["undefined"]),
        groups=choices["groups"],
        presorted=choices["order"] == "sorted",
        per_group=bool(group) and (options.keep is None or options.keeps("values")),
        threads=options.threads or processors(),
        batch_rows=options.batch_rows or BATCH_ROWS,
        confidence=options.confidence,
        baseline=_baseline(options.baseline, roles.scores),
        min_groups=options.min_groups,
    )


def _group_columns(options: Options, measures: tuple[Measure, ...], order: str) -> tuple[str, ...]:
    """Return the key columns; none if nothing of the request reads groups."""
    specs = requested_slicing(options.by) if options.by else ()
    needs = {
        **{str(m): m.needs_groups for m in measures},
        KEEP_GROUPS if options.keeps("groups") else KEEP_VALUES: options.keeps("values"),
        f"baseline={options.baseline!r}": options.baseline is not None,
        f"order={order!r}": order in ("sorted", "grouped"),
        f"min_groups={options.min_groups}": bool(options.by) and options.min_groups != 1,
        "a slicing by @rows or @positives": any(
            column.activity for spec in specs for column in spec.columns
        ),
    }
    names = [name for name, needed in needs.items() if needed]
    if options.group is not None:
        uses = options.keeps("state") or any(m.uses_groups for m in measures)
        return options.group if names or uses else ()
    if names:
        several = ", ".join(names[:7]) + f" and {len(names) - 7} more" * (len(names) > 7)
        raise ArgumentError(
            f"group: must name the key columns, got None; {several} "
            f"need{'s' * (len(names) == 1)} groups: pass group=... (--group), or leave "
            f"{'it' if len(names) == 1 else 'them'} out."
        )
    return ()


def _open(drafts: Sequence[_Draft]) -> Source:
    """Open the source of requests."""
    options = drafts[0].options
    text: dict[str, None] = {}
    for draft in drafts:
        roles = draft.plan.roles
        text |= dict.fromkeys((*roles.id_columns(), *(field.name for field in roles.fields)))
        if draft.options.by:
            from fastrank_eval.slicing.slicer import valued_columns

            text |= dict.fromkeys(valued_columns(draft.options.by))
    source = open_rows(
        options.source,
        options.format,
        options.where,
        filter(is_unicode, text),  # others are refused below
    )
    expressions = [draft.plan.roles.expressions for draft in drafts]
    source = with_computed(source, *expressions) if any(expressions) else source
    if options.null_groups == "error" or options.group is None:
        return source
    return source.without_nulls(options.group, options.limit)


def _check_columns(options: Options, roles: Roles, source: Source) -> None:
    """Raise if the source lacks a column, or has text for numbers."""
    if roles.expressions:
        refuse_computed(roles)
    if options.group is not None:  # even if nothing reads it
        require_columns(source.schema, options.group, role="group")
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
    if options.subtopics is not None:
        require_columns(source.schema, [options.subtopics], role="subtopics")


def _conventions(task: Task, plan_totals: PlanTotals, rows: EvaluatedRows) -> dict[str, object]:
    """List every convention of a run, by name."""
    options, plan = task.options, task.plan
    conventions: dict[str, object] = {
        **task.choices,
        **({"nan": options.nan} if options.nan != "error" else {}),
        "weight": options.weight,
        **({"score": plan.roles.expressions} if plan.roles.expressions else {}),
        **(rows.strategy if plan.grouped else {"order": "any"}),
    }
    if options.subtopics is not None:
        conventions["subtopics"] = options.subtopics
    if options.profile is not None:
        conventions["profile"] = options.profile.name
    conventions["sampling_rate"] = options.sampling_rate or 1
    conventions["confidence"] = plan.confidence
    conventions["measures"] = {str(m): m.used_options() for m in plan.measures}
    if plan.slicings is not None:
        conventions["by"] = [str(slicing.spec) for slicing in plan.slicings.encoders]
        conventions["min_groups"] = plan.min_groups
        conventions["slices_left_out"] = slices_left_out(plan, plan_totals.totals)
    if options.where is not None:
        conventions["where"] = str(options.where)
    if options.limit is not None:
        conventions["limit"] = options.limit
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
    require_baseline(baseline, scores)
    if len(scores) < 2:
        raise ArgumentError(
            f"score: must name a model to compare with the baseline, got only {baseline!r}; name "
            "two score columns or more."
        )
    return scores.index(baseline)


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
