"""Tallies and per-group values -> the lines and the table of a result."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, column_with_nulls, decode_array
from fastrank_eval._lib.elementary import exp
from fastrank_eval._lib.errors import MeasureError, UndefinedError
from fastrank_eval._lib.threads import choose_map, in_order
from fastrank_eval.engine.group_values import GroupValues
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.engine.totals import Sums, Totals
from fastrank_eval.groups.boundaries import Keys
from fastrank_eval.measures import Measure
from fastrank_eval.measures.pooled import OrderedMeasure, PooledMeasure, PooledValue
from fastrank_eval.stats.intervals import Support, Uncertainty, around, of_geometric_mean
from fastrank_eval.stats.means import MeanState
from fastrank_eval.stats.score_table import ScoreTable


def summary_rows(plan: Plan, totals: Totals) -> list[MeasureValue]:
    """One line for each model, slice and measure, with its coverage; slices after all rows."""
    lines = []
    for model, name in enumerate(plan.roles.scores):
        pools = totals.pools[model]
        for m, measure in enumerate(plan.measures):
            lines.append(_line(plan, totals.whole, 0, pools, model, m, score=name, measure=measure))
    for slicing, sums, shared in zip(
        plan.slicings, totals.slices, totals.shared.slices, strict=True
    ):
        slices = slicing.slices()
        for line, label in zip(slices.codes.tolist(), slices.labels, strict=True):
            if sums.groups(line) < plan.min_groups:
                continue
            for model, name in enumerate(plan.roles.scores):
                pools = shared.of(line).models[model]
                for m, measure in enumerate(plan.measures):
                    one = _line(plan, sums, line, pools, model, m, score=name, measure=measure)
                    lines.append(replace(one, slice=label, by=str(slicing.spec)))
    return lines


def slices_left_out(plan: Plan, totals: Totals) -> int:
    """Slices that have groups, but too few."""
    return sum(
        int(sums.groups(line) < plan.min_groups)
        for sums in totals.slices
        for line in sums.slice_indices.tolist()
    )


def _line(
    plan: Plan,
    sums: Sums,
    line: int,
    pools: Mapping[Hashable, Any],
    model: int,
    m: int,
    *,
    score: str,
    measure: Measure,
) -> MeasureValue:
    state, groups = sums.means[model], sums.groups(line)
    details: Mapping[str, float] = {}
    sure, weight = Uncertainty(), math.nan
    if isinstance(measure, PooledMeasure):
        pool = measure.state_in(pools)
        found = measure.pooled_value(pool, choose_map(plan.threads, sums.rows(line)))
        value, details = found.value, found.details
        sure = _of_pool(found, plan.confidence, sums.carriers(line))
        used, rows, positives, dropped = groups, sums.rows(line), sums.positives(line), {}
        if found.reason and groups:
            policy = plan.policy(measure, found.reason)
            if policy == "error":
                raise _undefined_pool(measure, found.reason)
            if policy == "skip":
                used, rows, positives = 0, 0, 0
                dropped = {found.reason: groups}
            else:
                value, sure = policy, Uncertainty(caution="pooled")
    else:
        value, sure = _over_groups(state, m, line, measure, plan.confidence)
        used, rows, positives = (
            state.used(m, line),
            state.rows(m, line),
            state.positives(m, line),
        )
        dropped = state.dropped(m, line)
        weight = state.weight(m, measure.weight != "uniform", line)
    return MeasureValue(
        score=score,
        slice="all",
        measure=str(measure),
        value=value,
        groups=groups,
        groups_used=used,
        dropped=dropped,
        rows_share=_share(rows, sums.rows(line)),
        positives_share=_share(positives, sums.positives(line)),
        aggregate="pooled" if measure.pooled else measure.aggregate,
        details=dict(details),
        se=sure.se,
        ci_low=sure.low,
        ci_high=sure.high,
        effective_groups=sure.effective_groups,
        caution=sure.caution,
        weight=weight,
    )


def _over_groups(
    state: MeanState, m: int, line: int, measure: Measure, confidence: float
) -> tuple[float, Uncertainty]:
    weighted = measure.weight != "uniform"
    moments = state.moments(m, weighted, line)
    if measure.aggregate == "sum":
        total = state.sum(m, line)
        if total == float("inf"):
            raise MeasureError(
                f"{measure}: weights are so large that a sum passes the largest double; scale them "
                "down."
            )
        return total, around(total, moments.error_of_sum(), moments.support_of_sum(), confidence)
    mean = state.mean(m, weighted, line)
    sure = around(mean, moments.error_of_mean(), moments.support(), confidence)
    if measure.aggregate != "geometric mean":
        return mean, sure
    return exp(mean), of_geometric_mean(sure, mean)


def _of_pool(found: PooledValue, confidence: float, by_rows: float) -> Uncertainty:
    if math.isnan(found.value):
        return Uncertainty()
    if not found.clusters:
        return Uncertainty(caution="pooled")
    support = Support(found.clusters, by_rows, found.carriers)
    return around(found.value, found.se, support, confidence)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _undefined_pool(measure: Measure, reason: str) -> Exception:
    return UndefinedError(
        f"{measure} is undefined for the rows together ({reason}), and undefined values are an "
        "error; choose undefined='skip', 'zero' or 'one'."
    )


def score_tables(plan: Plan, totals: Totals) -> dict[tuple[str, float], ScoreTable]:
    """The distinct scores of each model with their rows, for each threshold of relevance."""
    ordered = {
        m.state_key(): m
        for m in plan.measures
        if isinstance(m, OrderedMeasure) and m.state_key() == OrderedMeasure.state_key(m)
    }
    return {
        (name, float(measure.rel)): totals.pools[model][key].table(partial(in_order, plan.threads))
        for model, name in enumerate(plan.roles.scores)
        for key, measure in ordered.items()
    }


def per_group_table(
    plan: Plan, keys: list[Keys], values: list[GroupValues], schema: pa.Schema
) -> pa.Table:
    """One row for each group: its key, its rows and positives, and a column for each measure.

    Parameters
    ----------
    plan : Plan
    keys : list of tuple of pyarrow.Array
        Keys of consecutive groups.
    values : list of GroupValues
        Their results, in the same order.
    schema : pyarrow.Schema
        Of the source, for the types of keys where there is no group.
    """
    names: list[str] = []
    columns: list[Any] = []
    for k, name in enumerate(plan.roles.group):
        names.append(name)
        if keys:
            columns.append(pa.chunked_array([piece[k] for piece in keys]).combine_chunks())
        else:
            columns.append(decode_array(schema.empty_table().column(name).combine_chunks()))

    def add(name: str, column: pa.Array) -> None:
        while name in names:
            name += "_"
        names.append(name)
        columns.append(column)

    empty = np.empty(0)
    for name, parts in (
        ("rows", [v.rows for v in values]),
        ("positives", [v.positives for v in values]),
    ):
        add(name, arrow_column(np.concatenate(parts) if parts else empty.astype(np.int64)))
    for model, score in enumerate(plan.roles.scores):
        for m, measure in enumerate(plan.measures):
            if measure.pooled:
                continue
            numbers = np.concatenate([v.values[model, m] for v in values]) if values else empty
            title = str(measure) if len(plan.roles.scores) == 1 else f"{score}.{measure}"
            add(title, column_with_nulls(numbers, np.isnan(numbers)))
    return pa.table(columns, names=names)
