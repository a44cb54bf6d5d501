"""Summarise totals: values with intervals, and the table of groups."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, column_with_nulls
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import exp
from fastrank_eval._lib.errors import MeasureError, UndefinedError
from fastrank_eval._lib.threads import choose_map, map_jobs
from fastrank_eval.engine.largest_group import LARGEST
from fastrank_eval.engine.plan import GroupValues, Plan
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.engine.slice_calibration import ValueLabels, value_labels, worst_slice
from fastrank_eval.engine.state_arrays import SavedGroups
from fastrank_eval.engine.totals import Sums, Totals
from fastrank_eval.groups.edges import Keys
from fastrank_eval.measures import Measure
from fastrank_eval.measures.multicalibration import MulticalibrationError
from fastrank_eval.measures.pooled import OrderedMeasure, PooledMeasure, PooledState, PooledValue
from fastrank_eval.stats.intervals import (
    ErrorGroups,
    Moments,
    Uncertainty,
    exponential_interval,
    t_interval,
)
from fastrank_eval.stats.score_table import ScoreTable


def summary_rows(plan: Plan, totals: Totals) -> list[MeasureValue]:
    """Compute the value of each model, slice and measure, all rows first."""
    by_slice = any(isinstance(m, MulticalibrationError) for m in plan.measures)
    values: list[MeasureValue] = []
    texts = value_labels(plan) if by_slice else {}
    for by, label, index, sums, pooled_states in totals.each_slice():
        counts = sums.groups(index), sums.rows(index), sums.positives(index)
        for model, name in enumerate(plan.roles.scores):
            states, coordinates = (
                pooled_states.models[model],
                {"score": name, "slice": label, "by": by},
            )
            values += (
                _value(plan, sums, index, counts, states, model, m, measure, coordinates, texts)
                for m, measure in enumerate(plan.measures)
            )
    return values


def slices_left_out(plan: Plan, totals: Totals) -> int:
    """Count the slices with fewer groups than `min_groups`."""
    return sum(
        sums.has_few_groups(index)
        for sums in totals.slices
        for index in sums.slice_indices.tolist()
    )


def largest_group(totals: Totals, schema: pa.Schema | None = None) -> dict[str, dict[str, Any]]:
    """Return the convention of a group that makes few groups count, if any.

    Parameters
    ----------
    totals : Totals
    schema : pyarrow.Schema, optional
        As for `LargestGroup.plain`.
    """
    largest, sums = totals.largest, totals.overall
    # Not where all groups are about equal, however few they are.
    if largest is None or 2 * sums.effective_groups() > sums.groups():
        return {}
    return {LARGEST: largest.plain(schema)}


def _value(
    plan: Plan,
    sums: Sums,
    slice_index: int,
    counts: tuple[int, int, int],
    states: Mapping[Hashable, PooledState],
    model: int,
    m: int,
    measure: Measure,
    coordinates: Mapping[str, Any],
    texts: ValueLabels,
) -> MeasureValue:
    groups, all_rows, all_positives = counts
    details: Mapping[str, float] = {}
    error, weight = Uncertainty(), math.nan
    if isinstance(measure, PooledMeasure):
        state = measure.state_in(states)
        pooled = measure.pooled_value(state, choose_map(plan.threads, all_rows))
        if not isinstance(pooled, PooledValue) or (math.isnan(pooled.value) and not pooled.reason):
            raise MeasureError(
                f"{measure}: must return a PooledValue, and a reason with NaN, got {pooled!r}."
            )
        value, details = pooled.value, pooled.details
        if isinstance(measure, MulticalibrationError):
            details = {**worst_slice(measure, state, texts), **details}
        if plan.grouped or not measure.uses_groups:
            error = _pooled_error(pooled, plan.confidence, sums, slice_index)
        else:
            error = Uncertainty(warning="no_groups")
        used, rows, positives, dropped = (*counts, {})
        if pooled.reason and rows:
            policy = plan.policy(measure, pooled.reason)
            if policy == "error":
                raise _undefined_error(measure, pooled.reason)
            if policy == "skip":
                used, rows, positives = 0, 0, 0
                dropped = {pooled.reason: max(groups, 1)}
            else:
                value, error = policy, Uncertainty(warning="pooled")
    else:
        means = sums.means[model]
        moments = means.moments(m, measure.weight != "uniform", slice_index)
        value, error = _over_groups(moments, measure, plan.confidence)
        used, rows = moments.groups, means.rows(m, slice_index)
        positives = means.positives(m, slice_index)
        dropped = means.dropped(m, slice_index)
        weight = moments.weight
        if coordinates["by"] is None and sums.negatives() and measure.ignores_negative():
            details = {"rows of negative grade": sums.negatives()}
    return MeasureValue(
        **coordinates,
        measure=str(measure),
        name=measure.alias or "",
        value=value,
        groups=groups,
        groups_used=used,
        dropped=dropped,
        rows_share=_share(rows, all_rows),
        positives_share=_share(positives, all_positives),
        aggregate="pooled" if measure.pooled else measure.aggregate,
        details=dict(details),
        se=error.se,
        ci_low=error.low,
        ci_high=error.high,
        effective_groups=error.effective_groups,
        warning=error.warning,
        weight=weight,
    )


def _over_groups(
    moments: Moments, measure: Measure, confidence: float
) -> tuple[float, Uncertainty]:
    if measure.aggregate == "sum":
        total = moments.total
        if total == float("inf"):
            raise MeasureError(
                f"{measure.display_name}: weights are so large that a sum exceeds the largest "
                "double; "
                "scale them down."
            )
        return total, t_interval(total, moments.error_of_sum(), moments.behind_sum(), confidence)
    mean = moments.mean
    error = t_interval(mean, moments.error_of_mean(), moments.behind(), confidence)
    if measure.aggregate != "geometric mean":
        return mean, error
    return exp(mean), exponential_interval(error, mean)


def _pooled_error(
    pooled: PooledValue, confidence: float, sums: Sums, slice_index: int
) -> Uncertainty:
    if math.isnan(pooled.value):
        return Uncertainty()
    if not pooled.clusters:
        return Uncertainty(warning="pooled")
    by_shares = pooled.by_shares
    if math.isnan(by_shares):
        by_shares = sums.effective_groups(slice_index)
    behind = ErrorGroups(pooled.clusters, by_shares, pooled.effective_groups)
    return t_interval(pooled.value, pooled.se, behind, confidence)


def _share(number: int, total: int) -> float:
    return number / total if total else float("nan")


def _undefined_error(measure: Measure, reason: str) -> Exception:
    return UndefinedError(
        f"{measure.display_name} is undefined for all rows ({reason}), and undefined values are an "
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
        (name, float(measure.rel)): measure.state_in(states).table(partial(map_jobs, plan.threads))
        for name, states in zip(plan.roles.scores, totals.overall_states.models, strict=True)
        for measure in ordered.values()
    }


@dataclass(frozen=True)
class GroupRecords:
    """Keys, values and weights of every group, by model and measure.

    Parameters
    ----------
    names : tuple of str
        Key columns.
    keys : tuple of pyarrow.Array, each of length groups
    rows, positives : ndarray of int64, shape (groups,)
        Numbers of rows and of positives.
    scores : tuple of str
        Score columns of the models.
    measures : tuple of Measure
    values : mapping of (int, int) to ndarray of float64, shape (groups,)
        Values by the indices of model and measure; NaN where undefined.
    weights : mapping of (int, int) to ndarray of float64, shape (groups,)
        Weights by the indices of model and measure. Without an entry every weight is 1. A weight of
        0 leaves the group out.
    """

    names: tuple[str, ...]
    keys: tuple[pa.Array, ...]
    rows: np.ndarray
    positives: np.ndarray
    scores: tuple[str, ...]
    measures: tuple[Measure, ...]
    values: Mapping[tuple[int, int], np.ndarray]
    weights: Mapping[tuple[int, int], np.ndarray]

    def summands(self, model: int, m: int) -> np.ndarray:
        """Compute the summand of each group, NaN for a group that is left out."""
        summands = self.measures[m].to_summand(self.values[model, m])
        weights = self.weights.get((model, m))
        return summands if weights is None else np.where(weights == 0, np.nan, summands)

    def terms(self, model: int, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Compute weighted values and weights, both 0 if left out."""
        summands = self.summands(model, m)
        defined = ~np.isnan(summands)
        weights = self.weights.get((model, m))
        w = defined.astype(np.float64) if weights is None else np.where(defined, weights, 0.0)
        return np.where(defined, summands, 0.0) * w, w

    def table(self) -> pa.Table:
        """Make the table of groups: key, rows, positives and measures.

        Columns of measures have the name of the model too if there are several.
        """
        columns: dict[str, pa.Array] = dict(zip(self.names, self.keys, strict=True))

        def add(name: str, column: pa.Array) -> None:
            while name in columns:
                name += "_"
            columns[name] = column

        add("rows", arrow_column(self.rows))
        add("positives", arrow_column(self.positives))
        for (model, m), numbers in self.values.items():
            if not self.measures[m].pooled:
                title = f"{self.scores[model]}." * (len(self.scores) > 1) + str(self.measures[m])
                add(title, column_with_nulls(numbers, np.isnan(numbers)))
        return pa.table(columns)


def group_records(
    plan: Plan, keys: Sequence[Keys], values: Sequence[GroupValues], schema: pa.Schema
) -> GroupRecords:
    """Collect the groups of a run.

    Parameters
    ----------
    plan : Plan
    keys : sequence of tuple of pyarrow.Array
        Keys of consecutive groups.
    values : sequence of GroupValues
        Values of these groups, in the same order.
    schema : pyarrow.Schema
        Schema of the source: the types of keys if there is no group.
    """
    groups = SavedGroups.of_run(plan, keys, values, schema)
    joined = groups.values
    return GroupRecords(
        groups.names,
        groups.keys,
        joined.rows,
        joined.positives,
        plan.roles.scores,
        plan.measures,
        {
            coordinates: np.ascontiguousarray(joined.values[coordinates])
            for coordinates in np.ndindex(joined.values.shape[:2])
        },
        joined.weights,
    )
