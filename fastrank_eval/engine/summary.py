"""Summarise totals: values with intervals, and the table of groups."""

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
from fastrank_eval._lib.threads import choose_map, map_jobs
from fastrank_eval.engine.plan import GroupValues, Plan
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.engine.totals import Sums, Totals
from fastrank_eval.groups.chunk import Keys
from fastrank_eval.measures import Measure
from fastrank_eval.measures.pooled import OrderedMeasure, PooledMeasure, PooledValue
from fastrank_eval.stats.intervals import Support, Uncertainty, exponential_interval, t_interval
from fastrank_eval.stats.means import MeanState
from fastrank_eval.stats.score_table import ScoreTable


def summary_rows(plan: Plan, totals: Totals) -> list[MeasureValue]:
    """Compute the value of each model, slice and measure, all rows first."""
    values = []
    for model, name in enumerate(plan.roles.scores):
        states = totals.row_states[model]
        for m, measure in enumerate(plan.measures):
            value = _value(plan, totals.overall, 0, states, model, m, score=name, measure=measure)
            values.append(value)
    for slicing, sums, slice_states in zip(
        plan.slice_encoders, totals.slices, totals.shared.slices, strict=True
    ):
        slices = slicing.slices()
        for index, label in zip(slices.codes.tolist(), slices.labels, strict=True):
            if not sums.rows(index) or _has_few_groups(plan, sums, index):
                continue
            for model, name in enumerate(plan.roles.scores):
                states = slice_states.of(index).models[model]
                for m, measure in enumerate(plan.measures):
                    value = _value(plan, sums, index, states, model, m, score=name, measure=measure)
                    values.append(replace(value, slice=label, by=str(slicing.spec)))
    return values


def slices_left_out(plan: Plan, totals: Totals) -> int:
    """Count the slices that have groups, but fewer than `min_groups`."""
    return sum(
        _has_few_groups(plan, sums, index)
        for sums in totals.slices
        for index in sums.slice_indices.tolist()
    )


def _has_few_groups(plan: Plan, sums: Sums, slice_index: int) -> bool:
    return plan.grouped and sums.groups(slice_index) < plan.min_groups


def _value(
    plan: Plan,
    sums: Sums,
    slice_index: int,
    states: Mapping[Hashable, Any],
    model: int,
    m: int,
    *,
    score: str,
    measure: Measure,
) -> MeasureValue:
    means, groups = sums.means[model], sums.groups(slice_index)
    details: Mapping[str, float] = {}
    error, weight = Uncertainty(), math.nan
    if isinstance(measure, PooledMeasure):
        state = measure.state_in(states)
        pooled = measure.pooled_value(state, choose_map(plan.threads, sums.rows(slice_index)))
        value, details = pooled.value, pooled.details
        if plan.grouped or not measure.uses_groups:
            error = _pooled_error(pooled, plan.confidence, sums.carriers(slice_index))
        else:
            error = Uncertainty(caution="no_groups")
        used, rows, positives, dropped = (
            groups,
            sums.rows(slice_index),
            sums.positives(slice_index),
            {},
        )
        if pooled.reason and rows:
            policy = plan.policy(measure, pooled.reason)
            if policy == "error":
                raise _undefined_error(measure, pooled.reason)
            if policy == "skip":
                used, rows, positives = 0, 0, 0
                dropped = {pooled.reason: max(groups, 1)}
            else:
                value, error = policy, Uncertainty(caution="pooled")
    else:
        value, error = _over_groups(means, m, slice_index, measure, plan.confidence)
        used, rows, positives = (
            means.groups_used(m, slice_index),
            means.rows(m, slice_index),
            means.positives(m, slice_index),
        )
        dropped = means.dropped(m, slice_index)
        weight = means.weight(m, measure.weight != "uniform", slice_index)
    return MeasureValue(
        score=score,
        slice="all",
        measure=str(measure),
        value=value,
        groups=groups,
        groups_used=used,
        dropped=dropped,
        rows_share=_share(rows, sums.rows(slice_index)),
        positives_share=_share(positives, sums.positives(slice_index)),
        aggregate="pooled" if measure.pooled else measure.aggregate,
        details=dict(details),
        se=error.se,
        ci_low=error.low,
        ci_high=error.high,
        effective_groups=error.effective_groups,
        caution=error.caution,
        weight=weight,
    )


def _over_groups(
    state: MeanState, m: int, slice_index: int, measure: Measure, confidence: float
) -> tuple[float, Uncertainty]:
    weighted = measure.weight != "uniform"
    moments = state.moments(m, weighted, slice_index)
    if measure.aggregate == "sum":
        total = state.sum(m, slice_index)
        if total == float("inf"):
            raise MeasureError(
                f"{measure}: weights are so large that a sum passes the largest double; scale them "
                "down."
            )
        return total, t_interval(
            total, moments.error_of_sum(), moments.support_of_sum(), confidence
        )
    mean = state.mean(m, weighted, slice_index)
    error = t_interval(mean, moments.error_of_mean(), moments.support(), confidence)
    if measure.aggregate != "geometric mean":
        return mean, error
    return exp(mean), exponential_interval(error, mean)


def _pooled_error(pooled: PooledValue, confidence: float, row_carriers: float) -> Uncertainty:
    if math.isnan(pooled.value):
        return Uncertainty()
    if not pooled.clusters:
        return Uncertainty(caution="pooled")
    support = Support(pooled.clusters, row_carriers, pooled.carriers)
    return t_interval(pooled.value, pooled.se, support, confidence)


def _share(number: int, total: int) -> float:
    return number / total if total else float("nan")


def _undefined_error(measure: Measure, reason: str) -> Exception:
    return UndefinedError(
        f"{measure} is undefined for all rows ({reason}), and undefined values are an "
        "error; choose undefined='skip', 'zero' or 'one'."
    )


def score_tables(plan: Plan, totals: Totals) -> dict[tuple[str, float], ScoreTable]:
    """Count the rows of each distinct score, by model and relevance."""
    ordered = {
        m.state_key(): m
        for m in plan.measures
        if isinstance(m, OrderedMeasure) and m.state_key() == OrderedMeasure.state_key(m)
    }
    return {
        (name, float(measure.rel)): totals.row_states[model][key].table(
            partial(map_jobs, plan.threads)
        )
        for model, name in enumerate(plan.roles.scores)
        for key, measure in ordered.items()
    }


def per_group_table(
    plan: Plan, keys: list[Keys], values: list[GroupValues], schema: pa.Schema
) -> pa.Table:
    """Build the table of groups: key, rows, positives and measures.

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
            columns.append(
                pa.chunked_array([batch_keys[k] for batch_keys in keys]).combine_chunks()
            )
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
