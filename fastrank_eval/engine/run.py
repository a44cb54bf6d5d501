"""Run an evaluation: check arguments, read rows and compute totals.

Choose how to read rows: in order, or scattered.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.arguments import is_unicode, require_baseline
from fastrank_eval._lib.arrow import (
    NUMBERS,
    as_array,
    fixed_width,
    is_list,
    is_wide_integer,
    values_type,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, ColumnError, OrderError, near
from fastrank_eval._lib.jit import compilations
from fastrank_eval._lib.kernel_store import where_stored
from fastrank_eval._lib.log import RUN
from fastrank_eval._lib.threads import memory_budget, processors, reporting_to
from fastrank_eval.engine.conventions import requested_names, used_measures
from fastrank_eval.engine.evaluator import (
    Evaluator,
    RankedTable,
    Stream,
    check_shared,
    split_group,
)
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.options import (
    DEFAULTS,
    KEEP_CLUSTERS,
    KEEP_GROUPS,
    KEEP_VALUES,
    OPTIONS,
    Options,
)
from fastrank_eval.engine.plan import (
    BATCH_ROWS,
    Plan,
    subtopics_used,
    undefined_policies,
    undefined_text,
)
from fastrank_eval.engine.records import (
    MeasureValue,
    Meta,
    independent_unit,
    largest_group,
    plain_counts,
    refuse_if_none_left,
    slices_left_out,
    summary_rows,
)
from fastrank_eval.engine.totals import Totals
from fastrank_eval.groups.scan import (
    Keys,
    KeyWatch,
    ReturningKey,
    directions,
    group_starts,
    key_text,
    keys_at,
)
from fastrank_eval.io.columns import NULL_GROUP, Roles, epsilon_of, key_columns, ordered_integers
from fastrank_eval.io.computed import (
    expressions_of,
    input_columns,
    refuse_computed,
    unnested,
    with_computed,
)
from fastrank_eval.io.keys import CategoricalEncoder, key_integers
from fastrank_eval.io.reader import RowReader, open_rows, with_quoted_text
from fastrank_eval.io.source import Source, closing_readers, refuse_text, require_columns
from fastrank_eval.io.validate import keys_of
from fastrank_eval.measures import Measure
from fastrank_eval.measures.base import GROUP_WEIGHTS, SCORE_KINDS, of_package
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.measures.pooled import PooledMeasure
from fastrank_eval.slicing.spec import requested_slicing

if TYPE_CHECKING:
    from fastrank_eval.slicing.slicer import Slicings

#: Rows that are read first, to see whether keys are scattered. Most that are show it at once.
_PEEK, _FIRST_ROWS = 1 << 16, 1 << 10


def _read_rows(
    options: Options, planned: Evaluator, reader: RowReader, ranked: RankedTable | None = None
) -> tuple[list[Totals], list[list[GroupTable]], dict[str, object]]:
    """Read the rows of plans once, or take the ranked ones.

    Returns
    -------
    found : list of Totals
        For each plan.
    groups : list of list of GroupTable
        For each plan: parts of its groups, if it keeps their values.
    strategy : dict of str to object
        The conventions ``"order"`` and ``"spilled"`` of the plans with groups.
    """
    started = perf_counter()
    evaluator = planned.begin(reader.rows, options.batch_rows)
    with reporting_to(options.progress), reader.completing_errors():
        if ranked is None:
            results, strategy = _evaluate(reader, evaluator, options)
        else:
            results, strategy = evaluator.add_ranked(ranked), {"order": options.order}
    found, for_plans = evaluator.finish(), dict(zip(evaluator.grouped, results, strict=True))
    if RUN.is_on(logging.INFO):
        totals, first = found[0].overall, evaluator.plans[0]
        RUN.info(
            "rows evaluated",
            rows=totals.rows(),
            groups=totals.groups() if first.grouped else None,
            models=len(first.roles.scores),
            measures=", ".join(map(str, first.measures)),
            plans=len(found) if len(found) > 1 else None,
            threads=first.threads,
            **strategy,
            seconds=perf_counter() - started,
        )
    return found, [for_plans.get(p, []) for p in range(len(found))], strategy


def _evaluate(
    reading: RowReader, evaluator: Evaluator, options: Options
) -> tuple[list[list[GroupTable]], dict[str, object]]:
    """Choose the strategy by the order or by the keys, and evaluate."""
    roles, order = evaluator.first.roles, options.order
    if not evaluator.grouped:
        Stream(evaluator).evaluate(reading.jobs(evaluator.batch_rows))
        return [], {"order": "any"}
    many = reading.rows is not None and reading.rows > BATCH_ROWS
    peeked = reading.peek(_PEEK) if many or order == "auto" else None
    if peeked is not None and order == "auto":
        keys = [roles.group, roles.cluster] if roles.nested else [roles.group]
        if any(_scattered(peeked, names, roles) for names in keys):
            order = "scattered"
    if peeked is not None and many:
        labels = {plan.roles.label for plan in evaluator.plans}
        evaluator.expect_labelled(max(_labelled_share(peeked.column(name)) for name in labels))
    most, in_memory = evaluator.file_rows, evaluator.slice_rows
    keep = not reading.rereadable
    while order != "scattered":
        try:
            jobs = reading.jobs(most, in_memory)
            watches = [KeyWatch(keep, roles.keys[: roles.outer])]
            if roles.nested:
                watches.append(KeyWatch(keep, roles.group, roles.inner))
            results = Stream(evaluator, watches).evaluate(jobs)
        except ReturningKey as returning:
            if returning.keys is None and reading.rereadable:
                keep = True
            elif returning.splits(roles.outer):
                raise split_group(roles, cast(Keys, returning.keys)) from None
            elif reading.rereadable and (order == "auto" or returning.names != roles.group):
                order = "scattered"
            else:
                raise _order_error(returning, roles, order) from None
            RUN.info("groups come back, so rows are read again", order=order)
            evaluator.clear()
        else:
            return results, {"order": "grouped" if order == "auto" else order}

    from fastrank_eval.engine.evaluator import ScatteredEvaluator

    pooled_states = any(plan.pooled_states for plan in evaluator.plans)
    budget = memory_budget(options.memory, evaluator.first.threads, pooled_states)
    scattered = ScatteredEvaluator(evaluator, budget)
    results = scattered.evaluate(reading)
    return results, {"order": order, **({"spilled": True} if scattered.spilled else {})}


def _order_error(returning: ReturningKey, roles: Roles, order: str) -> OrderError:
    names = returning.names
    columns = dict(zip(roles.keys, returning.keys or (), strict=False))
    key = key_text(tuple(columns[name] for name in names), names, 0) if columns else "?"
    unit = "group" if names == roles.group else "cluster"
    promise = f", but order={order!r} promises contiguous groups"
    return OrderError(
        f"the {unit} {key} comes back after other {unit}s"
        f"{promise if order != 'auto' and unit == 'group' else ''}; pass order='scattered' "
        f"(--order scattered) to gather rows, or sort the input by {'cluster and ' * roles.nested}"
        "group."
    )


def _scattered(batch: pa.RecordBatch, names: Sequence[str], roles: Roles) -> bool:
    if len(names) == 1 and _ascends(batch.column(names[0])):
        return False
    for rows in sorted({min(_FIRST_ROWS, batch.num_rows), batch.num_rows}):
        keys = keys_of(batch.slice(0, rows), key_columns(names, roles), 0)
        starts = np.append(0, group_starts(keys))
        if any(directions(keys, starts)):
            continue
        integers = np.sort(key_integers(keys_at(keys, starts)))  # np.unique() would hash them
        if (integers[1:] == integers[:-1]).any():
            return True
    return False


def _ascends(key: pa.Array) -> bool:
    """Return whether keys surely never fall."""
    words = None if key.null_count else fixed_width(key)
    return words is not None and words.ndim == 1 and not (words[1:] < words[:-1]).any()


def _labelled_share(labels: pa.Array) -> float:
    """Estimate the share of labels other than 0, or return the largest."""
    kind = labels.type
    plain = kind.id in NUMBERS or pa.types.is_boolean(kind)
    if not plain or labels.null_count or not len(labels):
        return 1.0
    return np.count_nonzero(as_array(labels)) / len(labels)


@dataclass(frozen=True)
class Evaluation:
    """The totals, values and metadata of a run.

    Parameters
    ----------
    plan : Plan
    totals : Totals
    groups : list of GroupTable
        Parts of all groups, in any order; empty unless ``plan.per_group``.
    schema : pyarrow.Schema
        Of the source.
    summary : list of MeasureValue
    meta : Meta
    """

    plan: Plan
    totals: Totals
    groups: list[GroupTable]
    schema: pa.Schema
    summary: list[MeasureValue]
    meta: Meta


@closing_readers()
def run_together(
    requests: Sequence[Options], ranked: RankedTable | None = None
) -> list[Evaluation]:
    """Compute the values of several requests over one reading of the rows.

    Every evaluation has the bits of a run of its own. Its `Meta` has the seconds of all together.

    Parameters
    ----------
    requests : sequence of Options
        At least one. They have the same values of all arguments in `evaluator.SHARED`, and may
        differ in all others: label, score, measures, slices, policies ...
    ranked : RankedTable, optional
        The groups, if rows were ranked elsewhere: the source of the only request has no rows, and
        its plan `takes_ranks`.

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
    planned, reader = prepare(requests)
    found, groups, strategy = _read_rows(requests[0], planned, reader, ranked)
    runs = [*zip(requests, planned.plans, found, strict=True)]
    summaries = [summary_rows(plan, totals) for _, plan, totals in runs]
    conventions = [_conventions(*one, reader.source, strategy) for one in runs]
    new_kernels = compilations.count - compiled
    seconds, stored = perf_counter() - started, where_stored() if new_kernels else ""
    evaluations = []
    for (_, plan, totals), parts, summary, for_plan in zip(
        runs, groups, summaries, conventions, strict=True
    ):
        counts = totals.overall.rows(), totals.overall.groups()
        names = dict(plan.requested)
        meta = Meta(__version__, *counts, for_plan, seconds, new_kernels, names, stored)
        schema = reader.source.schema
        evaluations.append(Evaluation(plan, totals, parts, schema, summary, meta))
    return evaluations


def run(source: object, *, batch_rows: int | None = None, **options: Any) -> Evaluation:
    """Check options, read the rows once, compute totals; see `evaluate`."""
    return run_together([Options.read(source, options).replace(batch_rows=batch_rows)])[0]


@closing_readers()
def totals_of(options: Options) -> tuple[Plan, Totals]:
    """Read the rows once, without values of measures."""
    planned, reader = prepare([options])
    (totals,), _, _ = _read_rows(options, planned, reader)
    refuse_if_none_left(plain_counts(totals.left_out), totals.overall.rows())
    return planned.first, totals


class _Planned(NamedTuple):
    """The plans of a run, before and after its source is open.

    Parameters
    ----------
    drafts : sequence of Plan
    evaluator : Evaluator, or None
        Of the plans; None before a source is open. A run begins with a copy of it.
    names : tuple of str
        Columns that the source must have.
    kinds : list of pyarrow.DataType
        Their types.
    columns : tuple of str
        Columns that are read.
    """

    drafts: Sequence[Plan]
    evaluator: Evaluator | None = None
    names: tuple[str, ...] = ()
    kinds: Sequence[pa.DataType] | None = ()
    columns: tuple[str, ...] = ()


#: The number of runs whose plans are kept.
_KEPT = 64


@lru_cache(_KEPT)
def _place(*_: Hashable) -> list[_Planned]:
    """Return where the plans of such options are kept, empty at first."""
    return []


#: Returns the options that a plan depends on, and that can be hashed as they are.
_plain = attrgetter(
    *OPTIONS.keys()
    - {"measures", "score", "undefined", "profile"}
    - {"null_groups", "where", "limit", "memory", "format", "progress"}  # choose the rows
)


def _key_of(options: Options) -> Hashable:
    """Return all that a plan depends on, but for the types of columns."""
    mappings = (options.score, options.undefined)
    measures = options.measures if isinstance(options.measures, tuple) else (options.measures,)
    return (
        _plain(options),
        options.profile and options.profile.name,
        *(tuple(each.items()) if isinstance(each, dict) else each for each in mappings),
        # The text of a measure does not say under which name, or by which class.
        *(
            (type(m), str(m), m.alias, m.explicit_options) if isinstance(m, Measure) else m
            for m in measures
        ),
    )


def _place_of(requests: Sequence[Options]) -> list[_Planned]:
    """Return where the plans of requests are kept, if they may be."""
    try:
        place = _place(processors(), *map(_key_of, requests))
    except TypeError:  # an option that cannot be hashed
        return []
    measures = [m for known in place for draft in known.drafts for m in draft.measures]
    if not all(of_package(type(m)) for m in measures):
        place.clear()  # a notebook may define them anew
    return place


def prepare(requests: Sequence[Options]) -> tuple[Evaluator, RowReader]:
    """Check requests, open their source and plan one run.

    The same options and types of columns have the plans of the run before.
    """
    check_shared(requests)
    place = _place_of(requests)
    known = next(iter(place), None) or _Planned([_draft(options) for options in requests])
    source, evaluator = _open(requests, known.drafts), known.evaluator
    if evaluator is None or source.untyped or known.kinds != _kinds(source, known.names):
        plans, names = _complete(requests, known.drafts, source)
        columns = dict.fromkeys(name for plan in plans for name in plan.roles.by_column())
        evaluator, kinds = Evaluator(plans), _kinds(source, names)
        known = _Planned(known.drafts, evaluator, tuple(names), kinds, tuple(columns))
        # Fields and slices number values of the rows.
        if not any(draft.roles.fields for draft in known.drafts):
            sliced = any(plan.slicings is not None for plan in plans)
            place[:] = [known._replace(evaluator=None) if sliced else known]
    return evaluator, RowReader(source, known.columns, requests[0].limit)


def plan_of(options: Options) -> Plan:
    """Plan a run of rows that may be ranked elsewhere."""
    requests = [options]
    place = _place_of(requests)
    known = next(iter(place), None) or _Planned([_draft(requests[0])])
    if not known.drafts[0].roles.fields:
        place[:] = [known]
    return known.drafts[0]


def _draft(options: Options) -> Plan:
    """Plan a run as far as the source need not be open."""
    choices = _choices(options)
    undefined = undefined_policies(choices["undefined"])
    choices["undefined"] = undefined_text(undefined)
    computed = requested = requested_measures(options.measures)
    rate, compared = options.sampling_rate, options.baseline is not None
    if options.profile is not None or rate is not None or compared:
        computed = used_measures(requested, options.profile, rate, compared)
    measures = tuple(dict.fromkeys(computed))
    roles = _roles(options, choices, measures)
    _check_measures(measures, choices["ties"], roles, choices["weight_rows"])
    baseline = None
    if options.baseline is not None:
        _check_baseline(options.baseline, roles.scores)
        baseline = roles.scores.index(options.baseline)
    return Plan(
        roles=roles,
        measures=measures,
        ties=choices["ties"],
        policies=undefined,
        groups=choices["groups"],
        presorted=options.order == "sorted",
        per_group=bool(roles.group) and (options.keep is None or options.keeps("values")),
        threads=options.threads or processors(),
        confidence=options.confidence,
        baseline=baseline,
        min_groups=options.min_groups,
        buckets=bool(roles.group) and options.keeps("clusters"),
        choices=choices,
        requested={} if computed is requested else requested_names(requested, computed),
    )


def _complete(
    requests: Sequence[Options], drafts: Sequence[Plan], source: Source
) -> tuple[list[Plan], dict[str, str]]:
    """Complete plans by the slices and the types of columns of a source.

    Returns
    -------
    plans : list of Plan
    names : dict of str to str
        The role of each column that the source must have.
    """
    names, plans = dict[str, str](), []
    for options, draft, slicings in zip(
        requests, drafts, _open_slicings(requests, source), strict=True
    ):
        roles = draft.roles
        if slicings is not None:
            roles = replace(roles, fields=(*roles.fields, *slicings.columns))
        names |= _check_columns(options, roles, source)
        kinds = [source.schema.field(name).type for name in roles.scores]
        roles = replace(
            roles,
            epsilons=tuple(epsilon_of(kind, roles) for kind in kinds),
            integers=tuple(ordered_integers(kind, roles) for kind in kinds),
            score_kind=_score_kind(roles, drafts, kinds),
        )
        plan = replace(draft, roles=roles, slicings=slicings)
        vars(plan)["program"] = draft.program  # no source changes it
        plans.append(plan)
    return plans, names


def _kinds(source: Source, names: Iterable[str]) -> list[pa.DataType] | None:
    """Return the types of columns, or None if one is not there."""
    try:
        return [source.schema.field(name).type for name in names]
    except KeyError:
        return None


def _open_slicings(requests: Sequence[Options], source: Source) -> list[Slicings | None]:
    """Open the slicings of each request; each column is encoded once."""
    if not any(options.by for options in requests):
        return [None for _ in requests]
    from fastrank_eval.slicing.slicer import open_slicings

    specs = [requested_slicing(options.by) if options.by else () for options in requests]
    every = open_slicings(list(chain.from_iterable(specs)), source, requests[0].limit)
    return [every.select(for_plan) if for_plan else None for for_plan in specs]


def _score_kind(roles: Roles, drafts: Sequence[Plan], kinds: Sequence[pa.DataType]) -> str:
    """Read scores as a request does that has them too, to share them."""
    if any(map(is_wide_integer, kinds)):
        return roles.score_kind  # doubles of wide integers depend on the kind
    names, policy = set(roles.scores), roles.unretrieved
    alike = [one.roles for one in drafts if one.roles.unretrieved == policy]
    found = [one.score_kind for one in alike if names.issubset(one.scores)]
    return max(found, key=SCORE_KINDS.index)


def _choices(options: Options) -> dict[str, str]:
    """Choose each convention: the caller's, the profile's or the default."""
    profile = options.profile
    choices = {}
    for name, default in DEFAULTS.items():
        value = getattr(options, name)
        if value is None:
            value = default if profile is None else profile.choices.get(name, default)
        choices[name] = value
    choices["order"] = options.order
    return choices


def _roles(options: Options, choices: Mapping[str, str], measures: tuple[Measure, ...]) -> Roles:
    """Choose the columns, without slicings and types."""
    group = _group_columns(options, measures)
    return Roles(
        group=group,
        cluster=options.cluster or () if group else (),
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
        nan_is_null=options.nan == "null",
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


def _group_columns(options: Options, measures: tuple[Measure, ...]) -> tuple[str, ...]:
    """Return the key columns; none if nothing of the request reads groups."""
    specs = requested_slicing(options.by) if options.by else ()
    kept = options.keep or ()
    uses = "state" in kept or any(m.uses_groups for m in measures)
    unit = options.group
    if unit is None and all(m.pooled for m in measures):
        unit = options.cluster
    if unit is not None and uses:
        return unit
    needs = {
        # Clusters alone are the groups of measures of all rows.
        **{m.display_name: m.needs_groups and not (options.cluster and m.pooled) for m in measures},
        KEEP_GROUPS if "groups" in kept else KEEP_VALUES: "values" in kept,
        KEEP_CLUSTERS: "clusters" in kept and options.cluster is None,
        f"baseline={options.baseline!r}": options.baseline is not None,
        f"order={options.order!r}": options.order in ("sorted", "grouped"),
        f"min_groups={options.min_groups}": bool(options.by) and options.min_groups != 1,
        "a slicing by @rows or @positives": any(
            column.activity for spec in specs for column in spec.columns
        ),
    }
    names = [name for name, needed in needs.items() if needed]
    if unit is not None:
        return unit if names else ()
    if names:
        several = ", ".join(names[:7]) + f" and {len(names) - 7} more" * (len(names) > 7)
        either = " or cluster=... (--cluster)" * (names == [KEEP_CLUSTERS])
        raise ArgumentError(
            f"group: must name the key columns, got None; {several} "
            f"need{'s' * (len(names) == 1)} groups: pass group=... (--group){either}, or leave "
            f"{'it' if len(names) == 1 else 'them'} out."
        )
    return ()


def _open(requests: Sequence[Options], drafts: Sequence[Plan]) -> Source:
    """Open the source of requests."""
    options = requests[0]
    wanted = _text_columns(requests, drafts)
    source = open_rows(options.source, options.format, options.where, wanted)
    if source.as_text is not None and options.where is not None:
        source = with_quoted_text(source, options.where, _number_columns(requests, drafts))
    source = _without_lists(requests, drafts, source)
    expressions = [draft.roles.expressions for draft in drafts]
    source = with_computed(source, *expressions) if any(expressions) else source
    unit = dict.fromkeys((*(options.cluster or ()), *(options.group or ())))
    if options.null_groups == "error" or not unit:
        return source
    return source.without_nulls(list(unit), options.limit)


def _without_lists(requests: Sequence[Options], drafts: Sequence[Plan], source: Source) -> Source:
    """Give each element of the lists a row, if labels and scores are lists."""
    roles = {draft.roles.label: "label" for draft in drafts}
    for draft in drafts:
        scores = (name for name in draft.roles.scores if name not in draft.roles.expressions)
        roles |= dict.fromkeys(scores, "score")
    listed = next((name for name in roles if _has_lists(source, name)), None)
    if listed is None:
        return source
    for name, role in roles.items():
        if source.schema.get_field_index(name) >= 0 and not _has_lists(source, name):
            raise ColumnError(
                f"{role}: must be a column of lists as {roles[listed]} {listed!r} is, one row a "
                f"request, got {name!r} of type {source.schema.field(name).type}; pass a {role} "
                f"for each element of {listed!r}."
            )
    used = roles | dict.fromkeys(sorted(_number_columns(requests, drafts)), "")
    used |= dict.fromkeys(sorted(_text_columns(requests, drafts)), "")
    for draft in drafts:
        used = {name: "" for name in used if name not in draft.roles.keys}
        subtopics = draft.roles.subtopics
        if subtopics is not None and _has_lists(source, subtopics, depth=2):
            used[subtopics] = ""
    return unnested(source, [name for name in used if _has_lists(source, name)])


def _has_lists(source: Source, name: str, depth: int = 1) -> bool:
    """Return whether a column has lists, or lists of lists."""
    index = source.schema.get_field_index(name)
    kind = pa.null() if index < 0 else values_type(source.schema.field(index).type)
    if not is_list(kind):
        return False
    return depth == 1 or is_list(values_type(kind.value_type))


def _text_columns(requests: Sequence[Options], drafts: Sequence[Plan]) -> Iterator[str]:
    """Yield the columns that are text where columns have no types."""
    keys, texts = set[str](), set[str]()
    for draft, options in zip(drafts, requests, strict=True):
        keys |= draft.roles.by_column("group", "cluster", "item").keys()
        texts |= draft.roles.by_column("field").keys()
        if options.by:
            from fastrank_eval.slicing.slicer import sliced_columns

            texts.update(sliced_columns(options.by, binned=False))
    wanted = keys | (texts - _number_columns(requests, drafts))
    yield from filter(is_unicode, wanted)  # others are refused below


def _number_columns(requests: Sequence[Options], drafts: Sequence[Plan]) -> set[str]:
    """Return the columns that are read as numbers."""
    numbers = set[str]()
    for draft, options in zip(drafts, requests, strict=True):
        roles = draft.roles
        numbers |= roles.by_column("label", "score", "weight", "group weight").keys()
        numbers.update(input_columns(roles.scores, roles.expressions))
        if options.by:
            from fastrank_eval.slicing.slicer import sliced_columns

            numbers.update(sliced_columns(options.by, binned=True))
    return numbers


def _check_columns(options: Options, roles: Roles, source: Source) -> dict[str, str]:
    """Return the role of each column, which the source must have.

    None has text for numbers.
    """
    if roles.expressions:
        refuse_computed(roles)
    # Groups and subtopics even if nothing reads them.
    names = dict.fromkeys(options.group or (), "group")
    names |= dict.fromkeys(options.cluster or (), "cluster") | roles.by_column()
    if options.subtopics is not None:
        names.setdefault(options.subtopics, "subtopics")
    for name, role in names.items():
        hint = near(name, GROUP_WEIGHTS) if role == "group weight" else ""
        if hint and name not in source.schema.names:
            raise ColumnError(
                f"group weight: must be a column or one of {', '.join(GROUP_WEIGHTS)}, got "
                f"{name!r}.{hint}"
            )
        require_columns(source.schema, [name], role=role)
    for name, role in roles.by_column("label", "score", "weight", "group weight").items():
        refuse_text(source, name, role)
    return names


def _conventions(
    options: Options, plan: Plan, totals: Totals, source: Source, strategy: Mapping[str, object]
) -> dict[str, object]:
    """List every convention of a run, by name."""
    conventions: dict[str, object] = {
        **plan.choices,
        **({"nan": options.nan} if options.nan != "error" else {}),
        "weight": options.weight,
        **({"score": dict(plan.roles.expressions)} if plan.roles.expressions else {}),
        **(strategy if plan.grouped else {"order": "any"}),
    }
    if plan.roles.cluster:
        conventions["cluster"] = list(plan.roles.cluster)
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
        conventions["slices_left_out"] = slices_left_out(plan, totals)
    if options.where is not None:
        conventions["where"] = str(options.where)
    if options.limit is not None:
        conventions["limit"] = options.limit
    conventions |= independent_unit(plan, totals)
    conventions |= largest_group(totals, source.schema)
    if source.rows_left_out is not None:
        conventions["null_groups"] = "drop"
        totals.left_out[NULL_GROUP, ""] = source.rows_left_out
    return conventions | plain_counts(totals.left_out)


def _check_baseline(baseline: str, scores: tuple[str, ...]) -> None:
    """Raise unless a baseline is one of several models."""
    require_baseline(baseline, scores)
    if len(scores) < 2:
        raise ArgumentError(
            f"score: must name a model to compare with the baseline, got only {baseline!r}; name "
            "two score columns or more."
        )


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
        if m.label_column() not in (None, roles.label):
            raise ArgumentError(
                f"measures: must need the label of a row alone, got {m.display_name}, which needs "
                "the judgements of all queries; take fastrank_eval.trec.evaluate, or Unjudged for "
                "rows without a label."
            )
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
