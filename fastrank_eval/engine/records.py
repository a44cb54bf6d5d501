"""Define records of a result, and write them as tables.

Summarise totals: values with intervals, the table of groups, and the slices of multicalibration
errors, worst first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, bytes_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import exp
from fastrank_eval._lib.errors import ColumnError, MeasureError, UndefinedError
from fastrank_eval._lib.threads import choose_map, map_jobs
from fastrank_eval.engine.group_table import LARGEST
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.program import policy_of
from fastrank_eval.engine.state_arrays import fields_of
from fastrank_eval.engine.totals import SliceTotals, Sums, Totals, loses_error
from fastrank_eval.io.columns import NOTED, UNSCORED, RowsLeftOut
from fastrank_eval.measures import Measure
from fastrank_eval.measures.auc import SE_OF_CLUSTERS, SE_OF_ROWS
from fastrank_eval.measures.multicalibration import MulticalibrationError, SliceCalibration
from fastrank_eval.measures.pooled import (
    CLUSTERS,
    MERGED,
    OrderedMeasure,
    PooledMeasure,
    PooledState,
    PooledValue,
)
from fastrank_eval.slicing.encode import value_texts
from fastrank_eval.slicing.spec import short_texts
from fastrank_eval.stats.intervals import (
    ErrorGroups,
    Uncertainty,
    exponential_interval,
    t_interval,
)
from fastrank_eval.stats.moments import Moments, moments_of
from fastrank_eval.stats.score_runs import ScoreTable
from fastrank_eval.stats.scores import CellScores

#: The version of the schema of each JSON document, `schemas/NAME.json`. It is increased when a key
#: is removed, or its type or meaning changes; new keys do not change it.
JSON_SCHEMAS = {
    "comparison": 1,
    "curve": 1,
    "evaluation": 1,
    "explanation": 1,
    "measures": 1,
    "nightly": 1,
    "threshold": 1,
    "trec": 1,
}


#: Conventions of a result, and entries of a header of a state: rows that options leave out, and
#: rows that stay but are read in another way.
LEFT_OUT, ROWS_NOTED = ROW_COUNTS = "rows_left_out", "rows_noted"


def finite(value: float) -> float | None:
    """Return the number as a float, or None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None


def plain_value(value: object) -> Any:
    """Convert a value to plain JSON types; NaN becomes None."""
    # Mappings last: their test takes ten times as long.
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, np.generic):
        return plain_value(value.item())
    if isinstance(value, Mapping):
        return {str(key): plain_value(inner) for key, inner in value.items()}
    if isinstance(value, Iterable):
        return [plain_value(inner) for inner in value]
    return str(value)


@dataclass(frozen=True)
class Meta:
    """Metadata of a result: version, size of the input, conventions and time.

    Parameters
    ----------
    version : str
        Version of fastrank_eval.
    rows : int
        Number of rows that were read.
    groups : int
        Number of groups in them; 0 if rows were not grouped.
    conventions : dict
        Every convention of the evaluation, by name.
    seconds : float
        Wall time of the evaluation, with reading.
    compiled : int
        Number of kernels that this run compiled; only a first run compiles any.
    requested : dict of str to str
        By requested name the canonical text of the computed measure, where a profile set other
        options.
    stored : str
        Where these kernels are stored, or why they are not; empty if workers compiled them.

    Examples
    --------
    >>> Meta("1.0", 1000, 40, {"ties": "expected"}, 0.5).rows
    1000
    """

    version: str
    rows: int
    groups: int
    conventions: dict[str, object]
    seconds: float
    compiled: int = 0
    requested: dict[str, str] = field(default_factory=dict)
    stored: str = ""

    @property
    def confidence(self) -> float | None:
        """The confidence of the intervals, if there are any."""
        confidence = self.conventions.get("confidence")
        return confidence if isinstance(confidence, float) else None


def plain_meta(meta: Meta) -> dict[str, Any]:
    """Convert metadata to plain Python values."""
    plain: dict[str, Any] = plain_value(vars(meta))
    del plain["compiled"], plain["stored"]
    if not meta.requested:
        del plain["requested"]
    return plain


def plain_counts(left_out: RowsLeftOut) -> dict[str, dict[str, Any]]:
    """Write counts as plain values, those of rows that stay apart.

    ``{"rows_left_out": {reason: {"rows": n, "by_model": ...}}, "rows_noted": ...}``
    """
    plain: dict[str, dict[str, Any]] = {}
    for reason in sorted({reason for reason, _ in left_out}):
        models = {model: n for (each, model), n in left_out.items() if each == reason}
        rows = models.pop("", 0)
        counts = plain.setdefault(ROWS_NOTED if reason in NOTED else LEFT_OUT, {})
        counts[reason] = {"rows": rows, **({"by_model": models} if models else {})}
    return plain


def counts_in(conventions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain counts of conventions or of a header by reason."""
    return {**conventions.get(LEFT_OUT, {}), **conventions.get(ROWS_NOTED, {})}


def _counts_from(conventions: Mapping[str, Any]) -> RowsLeftOut:
    """Read what `plain_counts` wrote."""
    counts: RowsLeftOut = Counter()
    for reason, of_reason in counts_in(conventions).items():
        counts[reason, ""] = of_reason["rows"]
        for model, rows in of_reason.get("by_model", {}).items():
            counts[reason, model] = rows
    return counts


def add_counts(plain: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Add the plain counts of conventions or headers."""
    total: RowsLeftOut = Counter()
    for part in plain:
        total.update(_counts_from(part))
    return plain_counts(total)


def refuse_if_none_left(conventions: Mapping[str, Any], rows: int) -> None:
    """Raise if rows without a score were all that there is.

    Parameters
    ----------
    conventions : mapping
        With the plain counts.
    rows : int
        Number of rows that are left.

    Raises
    ------
    ColumnError
        The message names the model that lacks most rows.
    """
    lacking = conventions.get(LEFT_OUT, {}).get(UNSCORED)
    if rows or not lacking or not lacking["rows"]:
        return
    by_model = lacking["by_model"]
    model = max(by_model, key=by_model.get)
    raise ColumnError(
        f"no row is left: score column '{model}' is null in {by_model[model]:,} of "
        f"{lacking['rows']:,} rows, and unretrieved='drop' leaves out a row that one model lacks; "
        "mend these scores, or leave the model out."
    )


class NamedRecord:
    """A record of a model and a measure."""

    score: str
    measure: str
    name: str

    @property
    def display_name(self) -> str:
        """The name of the measure in reports: the one that was asked for."""
        return self.name or self.measure


def display_names(measures: Iterable[str], records: Iterable[NamedRecord]) -> dict[str, str]:
    """Map the texts of measures to the names that reports show.

    Parameters
    ----------
    measures : iterable of str
    records : iterable of NamedRecord
        Records with the names that were asked for.
    """
    shown = {record.measure: record.display_name for record in records}
    return {text: shown.get(text, text) for text in measures}


@dataclass(frozen=True)
class MeasureValue(NamedRecord):
    """One value of a measure, with its coverage and its error.

    Parameters
    ----------
    score : str
        Score column: the model.
    slice : str
        Label of the slice; ``"all"`` for all rows.
    measure : str
        Canonical text of the measure.
    value : float
        The value; NaN where undefined.
    groups : int
        Number of groups.
    groups_used : int
        Groups in the mean or sum. For a pooled measure, groups whose rows are in the value.
    dropped : dict of str to int
        Number of groups that were left out, by reason. Rows without groups count as one.
    rows_share : float
        Rows of the groups used, divided by all rows, in [0, 1]; NaN without rows.
    positives_share : float
        Positives of the groups used, divided by all positives, in [0, 1]; NaN without positives.
    aggregate : str
        ``"mean"``, ``"geometric mean"`` or ``"sum"`` over the values of the groups, each with
        group weights. ``"pooled"``: the value comes from all rows.
    details : dict of str to float
        More numbers about the value: rows whose probability was clamped, a bound of its error ...
        ``"clusters"`` counts the clusters behind its error, if `cluster` is not the group.
    se : float
        Standard error with groups as independent clusters, above 0; NaN where there is none. With
        `cluster`, clusters take the place of groups here, in the interval, in `effective_groups`
        and in `warning`.
    ci_low, ci_high : float
        Ends of the confidence interval, by Student's t with Satterthwaite's degrees of freedom: at
        most one less than groups, fewer if few groups carry the variance. NaN where `se` is NaN.
        They may lie outside the range of the measure.
    effective_groups : float
        Groups that carry the variance: ``(sum of w^2)^2 / sum of w^4`` over the shares w that
        groups have of the denominator (their weights; for a measure of all rows the rows that it
        divides by, for AUC its positives or its others). One more than Satterthwaite's degrees of
        freedom of the variance, or for NE ``1 / sum of h^2`` over the shares h of the entropy,
        where these are known and fewer. NaN for a measure without an error.
    weight : float
        Sum of the weights of the groups used, for averages over several slices; NaN for a pooled
        measure.
    warning : str or None
        ``"few_groups"``: fewer than 40 effective groups, the interval is rough. Why there is no
        standard error: ``"one_group"`` (fewer than two groups have a share of the denominator),
        ``"no_variance"`` (no group differs from the others, up to rounding), ``"pooled"``,
        ``"merged"`` (merged states do not keep what it needs), ``"no_groups"``, ``"classes"``.
    by : str or None
        The slicing of `slice`, such as ``"slot,country"``; None where rows are not sliced.
    name : str
        The name that was asked for, if it is another tool's: ``"MAP"`` for AP; see `display_name`.
    label : str
        The label, if a list of labels was evaluated.

    Examples
    --------
    >>> MeasureValue("pctr", "all", "GAUC", 0.75, 4, 3, {"all_negative": 1}, 0.8, 1.0).value
    0.75
    """

    score: str
    slice: str
    measure: str
    value: float
    groups: int
    groups_used: int
    dropped: dict[str, int]
    rows_share: float
    positives_share: float
    aggregate: str = "mean"
    details: dict[str, float] = field(default_factory=dict)
    se: float = math.nan
    ci_low: float = math.nan
    ci_high: float = math.nan
    effective_groups: float = math.nan
    warning: str | None = None
    by: str | None = None
    weight: float = math.nan
    name: str = ""
    label: str = ""

    @property
    def clusters(self) -> int | None:
        """The clusters behind its error, where they are counted."""
        number = self.details.get(CLUSTERS)
        return None if number is None else int(number)


_ARROW_TYPES = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "dict[str, int]": pa.map_(pa.string(), pa.int64()),
    "dict[str, float]": pa.map_(pa.string(), pa.float64()),
}


def record_schema(record: type, names: str) -> pa.Schema:
    """Build the schema of a dataclass: floats and optional fields may be null.

    Parameters
    ----------
    record : type
        A dataclass.
    names : str
        The fields in the order of the columns, separated by blanks.
    """
    types = {each.name: str(each.type) for each in fields(record)}
    return pa.schema(
        pa.field(
            name,
            _ARROW_TYPES[types[name].removesuffix(" | None")],
            nullable=types[name].endswith(("float", " | None")),
        )
        for name in names.split()
    )


VALUE_SCHEMA = record_schema(
    MeasureValue,
    "score by slice measure name value se ci_low ci_high effective_groups weight warning groups "
    "groups_used dropped rows_share positives_share aggregate details",
)


def record_rows(records: Iterable[Any], schema: pa.Schema) -> list[dict[str, Any]]:
    """Convert records to rows of plain Python values, None for NaN."""
    records = list(records)
    by = short_texts(record.by for record in records)
    return [
        {name: plain_value(getattr(record, name)) for name in schema.names}
        | {"by": by[record.by], "name": record.display_name}
        for record in records
    ]


def record_table(records: Iterable[Any], schema: pa.Schema) -> pa.Table:
    """Build a table of records: one row each, null if undefined."""
    records = list(records)
    by = short_texts(record.by for record in records)
    columns = []
    for column in schema:
        cells = [getattr(record, column.name) for record in records]
        if column.name == "by":
            cells = [by[cell] for cell in cells]
        elif column.name == "name":
            cells = [record.display_name for record in records]
        elif column.type == pa.float64():
            cells = [finite(cell) for cell in cells]
        elif pa.types.is_map(column.type):
            cells = [list(cell.items()) for cell in cells]
        columns.append(pa.array(cells, column.type))
    return pa.table(columns, schema=schema)


def summary_rows(plan: Plan, totals: Totals) -> list[MeasureValue]:
    """Compute the value of each model, slice and measure, all rows first."""
    by_slice = any(isinstance(m, MulticalibrationError) for m in plan.measures)
    values: list[MeasureValue] = []
    texts = value_labels(plan) if by_slice else {}
    for _, slices in groupby(totals.each_slice(), lambda each: each.by):
        values += _of_slices(plan, list(slices), texts)
    return values


def _of_slices(
    plan: Plan, slices: Sequence[SliceTotals], texts: ValueLabels
) -> Iterator[MeasureValue]:
    """Compute the values of all slices of a slicing, or of all rows."""
    sums, indices = slices[0].sums, [each.slice_index for each in slices]
    over_groups = _over_groups(plan, sums, indices, slices[0].by is None)
    names = [(str(m), m.alias or "", "pooled" if m.pooled else m.aggregate) for m in plan.measures]
    for by, label, index, _, pooled_states in slices:
        groups, rows, positives = sums.groups(index), sums.rows(index), sums.positives(index)
        for model, score in enumerate(plan.roles.scores):
            for m, measure in enumerate(plan.measures):
                if isinstance(measure, PooledMeasure):
                    states, counts = pooled_states.models[model], (groups, rows, positives)
                    found = _of_rows(plan, sums, index, counts, measure, states, texts)
                else:
                    found = next(over_groups[model, m])
                error, details = found.error, found.details
                if sums.uses_buckets and loses_error(measure) and not math.isnan(found.value):
                    error = Uncertainty(warning=MERGED)
                    of_error = (SE_OF_ROWS, SE_OF_CLUSTERS, CLUSTERS)
                    details = {name: n for name, n in details.items() if name not in of_error}
                text, alias, aggregate = names[m]
                yield MeasureValue(
                    score, label, text, found.value, groups, found.used, found.dropped,
                    found.rows / rows if rows else math.nan,
                    found.positives / positives if positives else math.nan,
                    aggregate, dict(details), *error, by, found.weight, alias, "",
                )  # fmt: skip


class _Found(NamedTuple):
    """Fields of a `MeasureValue`; groups and rows are those in the value."""

    value: float
    error: Uncertainty
    used: int
    rows: int
    positives: int
    dropped: dict[str, int]
    details: Mapping[str, float]
    weight: float = math.nan


def slices_left_out(plan: Plan, totals: Totals) -> int:
    """Count the slices with fewer groups than `min_groups`."""
    return sum(
        sums.has_few_groups(index)
        for sums in totals.slices
        for index in sums.slice_indices.tolist()
    )


def independent_unit(plan: Plan, totals: Totals) -> dict[str, object]:
    """Return the convention of the number of nested clusters.

    If no cluster is given, a group of several columns is one. Buckets have a convention of their
    own.
    """
    if totals.overall.uses_buckets:
        return {}
    if plan.roles.nested:
        return {CLUSTERS: totals.overall.clusters()}
    several = len(plan.roles.group) > 1 and not plan.roles.cluster
    return {"group": list(plan.roles.group)} if several else {}


def largest_group(totals: Totals, schema: pa.Schema | None = None) -> dict[str, dict[str, Any]]:
    """Return the convention of a group that makes few groups count, if any.

    With nested clusters it is a cluster.

    Parameters
    ----------
    totals : Totals
    schema : pyarrow.Schema, optional
        As for `LargestGroup.plain`.
    """
    largest, sums = totals.largest, totals.overall
    # Not where all groups are about equal, however few they are.
    if largest is None or 2 * sums.effective_groups() > sums.clusters():
        return {}
    return {LARGEST: largest.plain(schema)}


def _of_rows(
    plan: Plan,
    sums: Sums,
    slice_index: int,
    counts: tuple[int, int, int],
    measure: PooledMeasure,
    states: Mapping[Hashable, PooledState],
    texts: ValueLabels,
) -> _Found:
    """Compute a measure of all rows of a slice."""
    groups, rows, _ = counts
    state = measure.state_in(states)
    compute = measure.pooled_value if plan.errors else measure.without_error
    pooled = compute(state, choose_map(plan.threads, rows))
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
    if pooled.clusters and plan.roles.nested and not sums.uses_buckets and not math.isnan(value):
        details = {CLUSTERS: pooled.clusters, **details}
    if pooled.reason and rows:
        policy = policy_of(plan.policies, measure, pooled.reason)
        if policy == "error":
            raise _undefined_error(measure, pooled.reason)
        if policy == "skip":
            return _Found(value, error, 0, 0, 0, {pooled.reason: max(groups, 1)}, details)
        value, error = policy, Uncertainty(warning="pooled")
    return _Found(value, error, *counts, {}, details)


def _over_groups(
    plan: Plan, sums: Sums, indices: Sequence[int], is_overall: bool
) -> dict[tuple[int, int], Iterator[_Found]]:
    """Compute means and sums over groups of each slice, model and measure."""
    positions = [
        (model, m)
        for model in range(len(plan.roles.scores))
        for m, measure in enumerate(plan.measures)
        if not measure.pooled
    ]
    model_sums, rows, means = [], np.array(indices), sums.means
    for model, m in positions:
        measure = plan.measures[m]
        weighted, is_sum = measure.weight != "uniform", measure.aggregate == "sum"
        model_sums.append(means[model].model_sums(m, weighted, rows, is_sum=is_sum))
    found = moments_of(model_sums, plan.confidence)
    has_clusters = plan.roles.nested and not sums.uses_buckets
    negatives = sums.negatives() if is_overall else 0

    def values(model: int, m: int, moments: Iterable[Moments]) -> Iterator[_Found]:
        dropped, measure = means[model].dropped_of(m, rows), plan.measures[m]
        details: dict[str, float] = {}
        if negatives and measure.ignores_negative():
            details = {"rows of negative grade": negatives}
        for each, left_out in zip(moments, dropped, strict=True):
            value, error = each.value, each.uncertainty
            if measure.aggregate == "sum" and value == math.inf:
                raise MeasureError(
                    f"{measure.display_name}: weights are so large that a sum exceeds the largest "
                    "double; scale them down."
                )
            if measure.aggregate == "geometric mean":
                value, error = exp(value), exponential_interval(error, value)
            counted = {CLUSTERS: each.groups, **details} if has_clusters else details
            yield _Found(value, error, *each.coverage, left_out, counted, each.weight)

    return {at: values(*at, each) for at, each in zip(positions, found, strict=True)}


def _pooled_error(
    pooled: PooledValue, confidence: float, sums: Sums, slice_index: int
) -> Uncertainty:
    if math.isnan(pooled.value):
        return Uncertainty()
    if not pooled.clusters:
        return Uncertainty(warning=pooled.warning)
    by_shares = pooled.by_shares
    if math.isnan(by_shares):
        by_shares = sums.effective_groups(slice_index)
    behind = ErrorGroups(pooled.clusters, by_shares, pooled.effective_groups)
    return t_interval(pooled.value, pooled.se, behind, confidence)


def _undefined_error(measure: Measure, reason: str) -> Exception:
    return UndefinedError(
        f"{measure.display_name} is undefined for all rows ({reason}), and undefined values are an "
        "error; choose undefined='skip', 'zero' or 'one'."
    )


def score_tables(plan: Plan, totals: Totals) -> dict[tuple[str, float], ScoreTable]:
    """Count the rows of each distinct score, by model and relevance."""
    tables: dict[tuple[str, float], ScoreTable] = {}
    for name, states in zip(plan.roles.scores, totals.overall_states.models, strict=True):
        for m in plan.measures:
            if isinstance(m, OrderedMeasure) and (name, float(m.rel)) not in tables:
                scores = m.scores_of(m.state_in(states))
                if scores is not None:
                    tables[name, float(m.rel)] = scores.table(partial(map_jobs, plan.threads))
    return tables


#: The tables of a run, by score column and canonical text of the measure.
CalibrationTables = Mapping[tuple[str, str], pa.Table]
#: The texts of the values of each column, by their codes.
ValueLabels = Mapping[str, list[str]]
_SCHEMA = pa.schema(
    [
        *(("slice", pa.string()), ("rows", pa.int64())),
        *((name, pa.float64()) for name in ("expected", "observed", "error", "sigmas")),
        *((name, pa.float64()) for name in ("p_value", "p_adjusted", "min_detectable_error")),
    ]
)


def calibration_tables(plan: Plan, totals: Totals) -> CalibrationTables:
    """Build the table of slices of each model and measure of multicalibration.

    Parameters
    ----------
    plan : Plan
    totals : Totals

    Returns
    -------
    mapping of (str, str) to pyarrow.Table
        By score column and measure: `slice`, `rows`, `expected` and `observed` (positives,
        weighted), `error` (ECCE), `sigmas`, `p_value`, `p_adjusted` (Holm), `min_detectable_error`
        (five sigmas of the slice); the most sigmas first. Empty where the measure is undefined.
    """
    tables, texts = {}, value_labels(plan)
    for measure in plan.measures:
        if isinstance(measure, MulticalibrationError):
            for name, states in zip(plan.roles.scores, totals.overall_states.models, strict=True):
                state = measure.state_in(states)
                slices = measure.slices(state, partial(map_jobs, plan.threads))
                tables[name, str(measure)] = _table(slices, texts)
    return tables


def value_labels(plan: Plan) -> ValueLabels:
    """Write the values of the columns whose slices are compared, by code."""
    measures = (m for m in plan.measures if isinstance(m, MulticalibrationError))
    names = {name for measure in measures for name in measure.columns_named()}
    return {one.name: value_texts(one.values()) for one in fields_of(plan) if one.name in names}


def worst_slice(
    measure: MulticalibrationError, state: CellScores, texts: ValueLabels
) -> Mapping[str, float]:
    """Return the ECCE of the slice with the most sigmas, named by its label."""
    slices = measure.slices(state, map)
    if slices is None:
        return {}
    sigmas = slices.sigmas
    worst = np.flatnonzero(sigmas == sigmas.max())
    labels = _labels(slices.columns, slices.codes[worst], texts)
    first = 0 if len(labels) == 1 else _order(sigmas[worst], slices.codes[worst], labels)[0]
    return {f"ECCE of {labels[first]}": float(slices.error[worst[first]])}


def _labels(columns: tuple[str, ...], codes: np.ndarray, texts: ValueLabels) -> list[str]:
    """Write the label of each slice, as slicings do; "all" for all rows."""
    return [
        ",".join(
            f"{name}={texts[name][code]}"
            for name, code in zip(columns, codes_of_slice, strict=True)
            if code >= 0
        )
        or "all"
        for codes_of_slice in codes.tolist()
    ]


def _order(sigmas: np.ndarray, codes: np.ndarray, labels: list[str]) -> np.ndarray:
    """Sort slices: the most sigmas first, then the fewest columns."""
    columns = np.count_nonzero(codes >= 0, axis=1)
    ranks = np.argsort(np.argsort(np.array(labels, object), kind="stable"), kind="stable")
    return np.lexsort((ranks, columns, -sigmas))


def _table(slices: SliceCalibration | None, texts: ValueLabels) -> pa.Table:
    if slices is None:
        return _SCHEMA.empty_table()
    labels = _labels(slices.columns, slices.codes, texts)
    order = _order(slices.sigmas, slices.codes, labels)
    p, adjusted = slices.p_values()
    numbers = (
        *(slices.rows, slices.expected, slices.observed),
        *(slices.error, slices.sigmas, p, adjusted, slices.min_detectable_error),
    )
    names = bytes_column([labels[i].encode() for i in order.tolist()], pa.string())
    columns = [arrow_column(np.ascontiguousarray(each[order])) for each in numbers]
    return pa.table([names, *columns], schema=_SCHEMA)
